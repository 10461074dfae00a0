"""The vocabulary of the whole program: what the probe says, field by field.

Every record is a plain frozen dataclass. On the wire it is one JSON line, ``{"counters": {...}}``: the one key of the
object names the record (see `Line`). Values are what the kernel said; rates, topology and findings are derived by the
reader of the line, so that a recording can be read again with better eyes.

Under each field: its unit and its source in the kernel. ``None`` means "there is none"; what exists but could not be
read is named in the `unreadable` mapping of the same record, field name to reason.

Python 3.9: annotations are never evaluated here; no ``slots``, so that ``json.dumps(record, default=vars)`` works.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

PROTOCOL = 1
"""Raised when a field changes its meaning; new fields do not raise it (readers ignore what they do not know)."""

MAX_LINE = 16 * 1024 * 1024
"""Bytes. A longer line is refused by the reader; 200 links with 64 queues each stay below 2 MiB."""


@dataclass(frozen=True)
class Unreadable:
    """A value that may exist but could not be read: data, not an exception."""

    reason: Literal["not_offered", "needs_root", "missing", "malformed", "vanished", "failed"]
    """not_offered: the driver has no such operation (EOPNOTSUPP, EINVAL of an ioctl, attribute absent).
    needs_root: EPERM or EACCES. missing: the kernel has no such file or family. malformed: not what the ABI promises.
    vanished: the device went away meanwhile (ENODEV, ENXIO). failed: any other errno, named in `detail`."""
    detail: str = ""
    """What the kernel said, and where: ``EOPNOTSUPP``, ``/sys/class/net/x/speed: Invalid argument``."""


# --------------------------------------------------------------------------------------------------- hello


@dataclass(frozen=True)
class Hello:
    """First line of every probe: who speaks, and on which clock."""

    protocol: int
    """`PROTOCOL` of the speaker."""
    version: str
    """nictop's version."""
    hostname: str
    """``uname -n``."""
    kernel: str
    """``uname -r``."""
    machine: str
    """``uname -m``."""
    python: str
    """Version of the interpreter that runs the probe."""
    pid: int
    euid: int
    """0: root. Tells what "needs root" is worth saying about."""
    boot_id: str
    """/proc/sys/kernel/random/boot_id: changes with every boot, so that counters are never compared across one."""
    clock_ticks: int
    """USER_HZ, ticks per second of /proc/stat (sysconf SC_CLK_TCK)."""
    monotonic: float
    """Seconds, CLOCK_MONOTONIC at the moment of writing."""
    wall: float
    """Seconds since the epoch at the same moment."""
    interval: float
    """Seconds between two `Counters`."""


# ------------------------------------------------------------------------------------------------ counters

LINK_COUNTERS = (
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
    "multicast",
    "collisions",
    "rx_length_errors",
    "rx_over_errors",
    "rx_crc_errors",
    "rx_frame_errors",
    "rx_fifo_errors",
    "rx_missed_errors",
    "tx_aborted_errors",
    "tx_carrier_errors",
    "tx_fifo_errors",
    "tx_heartbeat_errors",
    "tx_window_errors",
    "rx_compressed",
    "tx_compressed",
    "rx_nohandler",
    "rx_otherhost_dropped",
)
"""Order of `Counters.links` values: struct rtnl_link_stats64 (linux/if_link.h). Older kernels send a shorter prefix.
rx_bytes/tx_bytes count the Ethernet header but not preamble, FCS and gap, as ``ip -s link`` does."""

CPU_TIMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
"""Order of `Counters.cpus` values: the columns of a ``cpuN`` line of /proc/stat, in USER_HZ ticks. guest is also
counted
in user, guest_nice in nice. idle and iowait may run backwards (proc(5))."""

QUEUE_COUNTERS = ("rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "rx_drops", "tx_drops")
"""Order of the numbers in `Counters.queues`: netdev family, qstats rx-packets … tx-hw-drops (rx-alloc-fail is not in
it)."""

VF_COUNTERS = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "broadcast", "multicast", "rx_dropped", "tx_dropped")
"""Order of the numbers in `Counters.vfs`: IFLA_VF_STATS_* as the physical function counts them."""


@dataclass(frozen=True)
class MachineInterrupt:
    """One line of /proc/interrupts."""

    label: str
    """``24``, ``NMI``, ``LOC``, …"""
    description: str
    """What stands behind the counts: chip, trigger and actions, blanks folded; "" for lines without."""
    counts: dict[int, int]
    """CPU id → interrupts; CPUs with none are left out. A line with a single sum (ERR, MIS) has it under CPU -1."""


SOFTNET_COUNTERS = ("processed", "dropped", "time_squeeze", "received_rps", "flow_limit_count")
"""Order of `Counters.softnet` values: columns 1, 2, 3, 10 and 11 of /proc/net/softnet_stat, counted from one. Column 13
is the CPU id (Linux 5.10; before, rows are the online CPUs in order). processed: packets through backlog or NAPI."""

SOFTIRQS = ("NET_TX", "NET_RX")
"""Order of `Counters.softirqs` values: rows of /proc/softirqs."""

THREAD_TIMES = ("user", "system")
"""Order of the ticks in `Counters.threads`: columns 14 and 15 of /proc/PID/task/TID/stat, USER_HZ."""

CHANNEL_COUNTERS = ("interrupts", "events", "out_full_total")
"""Order of `Counters.channels` values: files of a vmbus channel in sysfs; None: this kernel does not have the file."""


@dataclass(frozen=True)
class Counters:
    """The numbers that move, all read within one pass. Raw: since boot or driver load, never reset by nictop."""

    time: float
    """Seconds, CLOCK_MONOTONIC at the start of the pass."""
    links: dict[int, tuple[int, ...]]
    """ifindex → `LINK_COUNTERS`. RTM_GETSTATS, IFLA_STATS_LINK_64."""
    cpus: dict[int, tuple[int, ...]]
    """CPU id → `CPU_TIMES`; only CPUs that are online. /proc/stat."""
    queues: dict[int, tuple[tuple[str, int, tuple[int | None, ...]], ...]] = field(default_factory=dict)
    """ifindex → (("rx" or "tx", queue id, `QUEUE_COUNTERS`), …), only for watched links (`Request.watch`) whose driver
    offers them. None: the driver has no such number. netdev family, qstats-get with queue scope. (): watched, and
    kernel or driver have none at all."""
    driver: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """ifindex → driver counters in the order of `Ethtool.driver_counter_names`, only for watched links.
    ETHTOOL_GSTATS."""
    interrupts: dict[int, dict[int, int]] = field(default_factory=dict)
    """IRQ number → CPU id → interrupts, for all vectors in `Inventory.interrupts`; CPUs with none are left out.
    /sys/kernel/irq/N/per_cpu_count (possible CPUs in order), else its line of /proc/interrupts (by header)."""
    softirqs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """CPU id → `SOFTIRQS`, online CPUs only. /proc/softirqs, whose columns are possible CPUs, by header."""
    softnet: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """CPU id → `SOFTNET_COUNTERS`. /proc/net/softnet_stat."""
    threads: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """Thread id → `THREAD_TIMES` and the CPU it last ran on (column 39), for the threads of `Inventory.threads`; one
    that has ended, or whose id now belongs to another thread (start time), is absent."""
    channels: dict[int, dict[int, tuple[int | None, ...]]] = field(default_factory=dict)
    """ifindex of a hv_netvsc link → vmbus channel id → `CHANNEL_COUNTERS`."""
    machine: tuple[MachineInterrupt, ...] | None = None
    """Every line of /proc/interrupts, only while asked for (`Request.machine`)."""
    vfs: dict[int, dict[int, tuple[int, ...]]] = field(default_factory=dict)
    """ifindex of a physical function → VF number → `VF_COUNTERS`. RTM_GETLINK, IFLA_VFINFO_LIST; read once a second
    at most, empty in the records between."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """Field of this record → why it is empty or incomplete."""


# ------------------------------------------------------------------------------------------ events between


@dataclass(frozen=True)
class LinkChange:
    """What rtnetlink said about one link, at once, ahead of the inventory that follows."""

    time: float
    """Seconds, CLOCK_MONOTONIC."""
    ifindex: int
    gone: bool
    """True: RTM_DELLINK; the fields below are the last known ones."""
    name: str
    """IFLA_IFNAME"""
    operstate: str
    """IFLA_OPERSTATE in the words of RFC 2863: up, down, lowerlayerdown, dormant, testing, notpresent, unknown."""
    carrier: bool | None
    """IFLA_CARRIER; None while the link is administratively down (the kernel does not know)."""
    flags: int
    """IFF_* of struct ifinfomsg."""
    mtu: int
    """Bytes, IFLA_MTU."""


@dataclass(frozen=True)
class Trouble:
    """Something the probe could not do, in a sentence. It goes on without."""

    time: float
    message: str


# ----------------------------------------------------------------------------------------------- inventory


@dataclass(frozen=True)
class PcieLink:
    """One side of a PCIe link: what was negotiated and what this side could do."""

    speed: float | None
    """GT/s per lane, current_link_speed; None when the file says "Unknown"."""
    width: int | None
    """Lanes, current_link_width; None for 0 (a virtual function, or a virtual slot, has none)."""
    max_speed: float | None
    """GT/s per lane, max_link_speed."""
    max_width: int | None
    """Lanes, max_link_width."""


@dataclass(frozen=True)
class Sriov:
    """The SR-IOV capability of a physical function."""

    total_vfs: int
    """sriov_totalvfs: as many as firmware and driver allow."""
    num_vfs: int
    """sriov_numvfs: as many as there are now."""
    autoprobe: bool | None
    """sriov_drivers_autoprobe: new VFs get a driver on this host."""
    virtual_functions: tuple[str, ...]
    """PCI addresses by VF number, from the links virtfn0, virtfn1, …"""


@dataclass(frozen=True)
class PciFunction:
    """A PCI network function: class 0x02xx (network) or 0x0c06/0x0207 (InfiniBand). /sys/bus/pci/devices/ADDRESS/."""

    address: str
    """domain:bus:device.function, ``0000:02:00.0``"""
    class_code: int
    """24 bits, ``class``: base class, sub class, programming interface."""
    vendor_id: int
    device_id: int
    subsystem_vendor_id: int | None
    subsystem_device_id: int | None
    revision: int | None
    vendor_name: str | None = None
    """From the udev hardware database, else pci.ids, else None."""
    device_name: str | None = None
    driver: str | None = None
    """Name of the bound driver (link ``driver``); None: no driver has it. ``vfio-pci`` is a driver too."""
    driver_override: str | None = None
    """driver_override, None for "(null)"."""
    enabled: bool | None = None
    """``enable``: some driver has switched the function on."""
    iommu_group: int | None = None
    """Number of the IOMMU group; None: no IOMMU, or it is off."""
    numa_node: int | None = None
    """numa_node; None for -1 (the firmware did not say)."""
    link: PcieLink | None = None
    """None: not PCI Express, or a virtual function."""
    parent: str | None = None
    """PCI address of the bridge above; None on the root bus."""
    parent_link: PcieLink | None = None
    """The bridge's side of the same link: a slot can limit the card."""
    sriov: Sriov | None = None
    """None: no SR-IOV capability that this kernel shows."""
    physical_function: str | None = None
    """Address of the physical function, for a VF whose PF is on this host (link ``physfn``)."""
    virtual_function: int | None = None
    """VF number N below that physical function (its link virtfnN)."""
    rdma_devices: tuple[str, ...] = ()
    """Names below ``infiniband/``."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)


@dataclass(frozen=True)
class Address:
    """An IP address of a link. RTM_GETADDR."""

    family: Literal["ipv4", "ipv6"]
    address: str
    """Without prefix length. The local end on a point-to-point link (IFA_LOCAL)."""
    prefix_length: int
    scope: str
    """global, site, link, host or nowhere (rt_scope_t)."""
    flags: tuple[str, ...]
    """permanent, tentative, dadfailed, deprecated, temporary, … (IFA_F_*)."""


@dataclass(frozen=True)
class DefaultRoute:
    """A default route that leaves by a link. RTM_GETROUTE, tables main and default."""

    family: Literal["ipv4", "ipv6"]
    gateway: str | None
    """None: on-link."""
    metric: int
    """RTA_PRIORITY; the lowest wins."""
    table: int
    """254 is main."""


@dataclass(frozen=True)
class VirtualFunction:
    """What the physical function enforces for one VF. RTM_GETLINK with RTEXT_FILTER_VF: IFLA_VFINFO_LIST."""

    number: int
    address: str | None
    """Administrative MAC address; 00:00:00:00:00:00 means "none set"."""
    vlan: int | None = None
    """Port VLAN id; 0: none."""
    qos: int | None = None
    """802.1p priority of the port VLAN."""
    vlan_protocol: str | None = None
    """802.1Q or 802.1ad."""
    spoof_check: bool | None = None
    """None: the driver does not say."""
    trust: bool | None = None
    link_state: Literal["auto", "enable", "disable"] | None = None
    min_tx_rate: int | None = None
    """Mb/s, 0: none."""
    max_tx_rate: int | None = None
    """Mb/s, 0: no limit."""
    rss_query: bool | None = None
    """The VF may ask for the PF's RSS table."""
    counters: tuple[int, ...] | None = None
    """`VF_COUNTERS`; None: the driver does not count per VF."""


@dataclass(frozen=True)
class Queue:
    """One receive or transmit queue of a netdev. /sys/class/net/NAME/queues/ and the netdev family's queue-get."""

    direction: Literal["rx", "tx"]
    number: int
    napi: int | None = None
    """NAPI id that serves it (queue-get); None: this kernel or driver does not say."""
    xps_cpus: str | None = None
    """tx: CPU mask as the kernel prints it (hexadecimal, 32 bits between commas); None: not settable (ENOENT)."""
    xps_receive_queues: str | None = None
    """tx: mask of receive queues, xps_rxqs."""
    rps_cpus: str | None = None
    """rx: CPU mask of receive packet steering; all zero: off."""
    rps_flow_count: int | None = None
    """rx: rps_flow_cnt."""


@dataclass(frozen=True)
class Napi:
    """One NAPI instance of a netdev. netdev family, napi-get (Linux 6.8)."""

    id: int
    irq: int | None = None
    """None: the driver does not tell (virtio_net, veth)."""
    thread: int | None = None
    """Thread id when it is polled by a kernel thread of its own (threaded NAPI)."""


@dataclass(frozen=True)
class Channel:
    """One vmbus channel of a hv_netvsc link: the queues of Hyper-V. /sys/bus/vmbus/devices/GUID/channels/N/."""

    id: int
    cpu: int | None
    """CPU that takes its interrupts."""
    queue: int | None = None
    """Queue number, subchannel_id: netvsc puts a channel into its table by it. None: this kernel does not say."""


@dataclass(frozen=True)
class Interrupt:
    """One interrupt of a network device. /sys/kernel/irq/N/ and /proc/irq/N/."""

    number: int
    actions: tuple[str, ...]
    """Names of the handlers, as drivers register them: ``ens224-TxRx-0``, ``virtio2-input.0``."""
    pci_address: str | None
    """The function whose ``msi_irqs/`` (or legacy ``irq``) lists it; None: xen event channel and the like."""
    chip: str | None = None
    """chip_name: IR-PCI-MSIX-0000:02:00.0, xen-dyn, …"""
    allowed_cpus: str | None = None
    """CPU list, smp_affinity_list."""
    effective_cpus: str | None = None
    """CPU list, effective_affinity_list: where it really goes. None: this kernel or chip does not say."""
    numa_node: int | None = None
    """/proc/irq/N/node; None for -1."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)


@dataclass(frozen=True)
class Thread:
    """A thread that spends CPU on packets: of the kernel, or of a virtual machine. /proc/PID/task/TID/."""

    tid: int
    pid: int
    name: str
    """comm: ``ksoftirqd/0``, ``vhost-1234``, ``napi/eth0-8193``, ``CPU 0/KVM``."""
    kind: Literal["ksoftirqd", "napi", "vhost", "vcpu", "vm"]
    """vcpu: a guest's processor; vm: any other thread of a QEMU process."""
    machine: str | None = None
    """Name of the virtual machine (``-name`` of its command line, else Proxmox ``-id``, else ``pid N``)."""
    links: tuple[int, ...] = ()
    """ifindexes of the tap and macvtap links that its process has open, where that can be known (/proc/PID/fdinfo
    ``iff:``, /dev/tapN); for a vhost thread those of its virtual machine."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)


@dataclass(frozen=True)
class DriverInfo:
    """ioctl ETHTOOL_GDRVINFO. Empty strings of the driver stay empty."""

    driver: str
    version: str
    firmware: str
    bus_info: str


@dataclass(frozen=True)
class LinkSettings:
    """Speed and friends. ethtool netlink: LINKINFO, LINKMODES."""

    speed: int | None
    """Mb/s; None: unknown (no carrier, or the driver does not know, as virtio_net)."""
    duplex: Literal["full", "half"] | None
    autonegotiation: bool | None
    port: str | None
    """tp, aui, mii, fibre, bnc, da (direct attach copper), none, other."""
    transceiver: str | None
    """internal or external."""
    lanes: int | None = None
    supported: tuple[str, ...] = ()
    """Link modes the hardware can do: ``10000baseSR/Full`` (ETHTOOL_LINK_MODE_*, names from the string set)."""
    advertised: tuple[str, ...] = ()
    partner: tuple[str, ...] = ()
    """Link modes the other end advertises."""


@dataclass(frozen=True)
class LinkState:
    """ethtool netlink: LINKSTATE."""

    detected: bool | None
    """What the driver says; may differ from the carrier for a moment."""
    extended_state: str | None = None
    """Why there is no link: autoneg, no cable, module, overheat, … (ETHTOOL_LINK_EXT_STATE_*)."""
    down_events: int | None = None
    """How often the physical link went down (ext-down-cnt)."""


@dataclass(frozen=True)
class Channels:
    """Queues now and at most. ethtool netlink: CHANNELS. None: this kind does not exist on this driver."""

    rx: int | None
    tx: int | None
    other: int | None
    combined: int | None
    max_rx: int | None
    max_tx: int | None
    max_other: int | None
    max_combined: int | None


@dataclass(frozen=True)
class Rings:
    """Descriptors per queue, now and at most. ethtool netlink: RINGS."""

    rx: int | None
    rx_mini: int | None
    rx_jumbo: int | None
    tx: int | None
    max_rx: int | None
    max_rx_mini: int | None
    max_rx_jumbo: int | None
    max_tx: int | None
    rx_buffer_length: int | None = None
    """Bytes."""
    tcp_data_split: str | None = None
    """unknown, disabled or enabled."""


@dataclass(frozen=True)
class Feature:
    """One offload. ethtool netlink: FEATURES, names from the string set ``features``."""

    name: str
    """As ``ethtool -k`` prints single features: tx-tcp-segmentation, rx-gro, …"""
    active: bool
    wanted: bool
    fixed: bool
    """Cannot be changed here: not in the changeable set, or never changed by design (ethtool prints [fixed])."""


@dataclass(frozen=True)
class Rss:
    """Receive side scaling. ethtool netlink: RSS (Linux 6.3), indirection table by ioctl before it."""

    indirection: tuple[int, ...]
    """Slot → receive queue. Empty: the driver does not show it."""
    hash_function: str | None
    """toeplitz, xor, crc32."""
    key_length: int | None
    """Bytes."""


@dataclass(frozen=True)
class Pause:
    """Ethernet flow control. ethtool netlink: PAUSE."""

    autonegotiation: bool
    rx: bool
    tx: bool
    rx_frames: int | None = None
    tx_frames: int | None = None


@dataclass(frozen=True)
class Fec:
    """Forward error correction. ethtool netlink: FEC."""

    configured: tuple[str, ...]
    """Off, RS, BASER, LLRS."""
    automatic: bool
    active: str | None


@dataclass(frozen=True)
class Eee:
    """Energy efficient Ethernet. ethtool netlink: EEE."""

    enabled: bool
    active: bool
    tx_low_power: bool | None
    tx_timer: int | None
    """Microseconds."""


@dataclass(frozen=True)
class Optics:
    """One lane of an optical module's diagnostics."""

    rx_power: float | None
    """Milliwatt received."""
    tx_power: float | None
    """Milliwatt sent."""
    bias: float | None
    """Milliampere through the laser."""


@dataclass(frozen=True)
class Module:
    """The plugged transceiver, from its EEPROM (SFF-8472, SFF-8636, CMIS). ethtool netlink: MODULE_EEPROM; needs
    root."""

    kind: str
    """SFP, QSFP+, QSFP28, QSFP-DD, …"""
    vendor: str
    part: str
    serial: str
    connector: str
    """LC, RJ45, copper pigtail, no separable connector, …"""
    medium: Literal["fibre", "copper", "unknown"]
    """copper: DAC or BASE-T."""
    length: float | None = None
    """Metres of the cable itself; None: pluggable."""
    wavelength: float | None = None
    """Nanometres."""
    temperature: float | None = None
    """Degrees Celsius."""
    voltage: float | None = None
    """Volt."""
    lanes: tuple[Optics, ...] = ()
    """Empty: no diagnostics (a passive cable)."""


@dataclass(frozen=True)
class Ethtool:
    """What ethtool can say of one link. A part that is None has its reason in `unreadable` under the field's name."""

    driver: DriverInfo | None = None
    settings: LinkSettings | None = None
    state: LinkState | None = None
    channels: Channels | None = None
    rings: Rings | None = None
    coalescing: dict[str, int] | None = None
    """Names as ``ethtool -c`` prints them (rx-usecs, tx-frames, adaptive-rx: 0 or 1), only those that the driver has.
    Microseconds, packets."""
    features: tuple[Feature, ...] | None = None
    rss: Rss | None = None
    pause: Pause | None = None
    fec: Fec | None = None
    eee: Eee | None = None
    private_flags: dict[str, bool] | None = None
    module: Module | None = None
    driver_counter_names: tuple[str, ...] | None = None
    """String set ETH_SS_STATS: the names that belong to `Counters.driver`."""
    driver_counters: tuple[int, ...] | None = None
    """Their values when the inventory was taken."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)


@dataclass(frozen=True)
class Link:
    """A netdev. RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE and /sys/class/net/NAME/."""

    ifindex: int
    name: str
    """IFLA_IFNAME. Any byte but ``/`` and blanks can be in it: never trust it on a screen."""
    type: int
    """ARPHRD_*: 1 Ethernet, 772 loopback, 32 InfiniBand."""
    flags: int
    """IFF_* (linux/if.h)."""
    operstate: str
    """See `LinkChange.operstate`."""
    carrier: bool | None
    """None while administratively down."""
    mtu: int
    """Bytes."""
    altnames: tuple[str, ...] = ()
    """IFLA_PROP_LIST / IFLA_ALT_IFNAME"""
    alias: str | None = None
    """IFLA_IFALIAS, free text of the administrator."""
    kind: str | None = None
    """IFLA_INFO_KIND: veth, bridge, tun, bond, vlan, vxlan, macvtap, …; None for hardware."""
    details: dict[str, int | str | bool] = field(default_factory=dict)
    """The few IFLA_INFO_DATA a person needs: vlan_id, vlan_protocol, vxlan_id, bond_mode, macvlan_mode, tun_type, …"""
    carrier_changes: int | None = None
    """IFLA_CARRIER_CHANGES since the netdev exists."""
    min_mtu: int | None = None
    max_mtu: int | None = None
    """Bytes; 0: no limit known."""
    address: str | None = None
    """IFLA_ADDRESS, lower case with colons."""
    permanent_address: str | None = None
    """IFLA_PERM_ADDRESS; None: the driver gave none."""
    address_assignment: Literal["permanent", "random", "stolen", "set"] | None = None
    """addr_assign_type (NET_ADDR_*)."""
    master: int | None = None
    """ifindex of the bridge, bond, team, VRF or netvsc this link is a port of. IFLA_MASTER"""
    lower: int | None = None
    """ifindex of the link below, or of the veth peer. IFLA_LINK"""
    lower_namespace: int | None = None
    """The one below is in another network namespace (IFLA_LINK_NETNSID): `lower` says nothing here."""
    qdisc: str | None = None
    """Root queueing discipline. IFLA_QDISC"""
    tx_queue_length: int | None = None
    """Packets. IFLA_TXQLEN"""
    num_tx_queues: int | None = None
    num_rx_queues: int | None = None
    """Allocated by the driver, in use or not. IFLA_NUM_TX_QUEUES / IFLA_NUM_RX_QUEUES"""
    promiscuity: int = 0
    """Number of users that want promiscuous mode."""
    bus: str | None = None
    """Bus of the parent device: pci, virtio, vmbus, xen, platform, usb; None: no device. IFLA_PARENT_DEV_BUS_NAME,
    else sysfs."""
    device: str | None = None
    """Name of the parent device on that bus: ``0000:02:00.0``, ``virtio2``, a vmbus GUID."""
    pci_address: str | None = None
    """PCI function that carries this netdev, itself or as an ancestor (virtio2 → 0000:03:00.0)."""
    physical_port: str | None = None
    """phys_port_name: p0, pf0vf3 of a representor, …"""
    switch_id: str | None = None
    """phys_switch_id: equal on all ports of one embedded switch."""
    device_port: int | None = None
    """dev_port: which port of a multi-port function."""
    addresses: tuple[Address, ...] = ()
    default_routes: tuple[DefaultRoute, ...] = ()
    virtual_functions: tuple[VirtualFunction, ...] = ()
    queues: tuple[Queue, ...] = ()
    """rx before tx, each by number."""
    napis: tuple[Napi, ...] = ()
    channels: tuple[Channel, ...] = ()
    """Only hv_netvsc."""
    ethtool: Ethtool = field(default_factory=Ethtool)
    counters: tuple[int, ...] | None = None
    """`LINK_COUNTERS` when the inventory was taken (IFLA_STATS64)."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)


@dataclass(frozen=True)
class Platform:
    """What kind of machine this is."""

    hypervisor: str | None
    """vmware, kvm, microsoft, xen, qemu, amazon, …; None: none seen, bare metal. DMI, /sys/hypervisor, CPU flag
    ``hypervisor``."""
    system_vendor: str | None
    """DMI sys_vendor."""
    product_name: str | None
    """DMI product_name."""
    distribution: str | None
    """PRETTY_NAME of os-release."""
    distribution_id: str | None
    """ID of os-release."""
    online_cpus: str | None
    """CPU list, /sys/devices/system/cpu/online: ``0-3``."""
    possible_cpus: str | None
    numa_nodes: str | None
    """Node list, /sys/devices/system/node/online."""
    iommu_groups: int | None
    """How many; 0: no IOMMU in use."""
    node_cpus: dict[int, str] = field(default_factory=dict)
    """NUMA node → CPU list, /sys/devices/system/node/nodeN/cpulist."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)


@dataclass(frozen=True)
class Inventory:
    """Everything that changes rarely, taken when an event says so."""

    time: float
    """Seconds, CLOCK_MONOTONIC at the start."""
    wall: float
    """Seconds since the epoch at the same moment."""
    took: float
    """Seconds of CPU the child used for it."""
    reason: str
    """Why it was taken: start, request, event, re-scan."""
    platform: Platform
    pci: tuple[PciFunction, ...]
    """By address."""
    links: tuple[Link, ...]
    """By ifindex."""
    interrupts: tuple[Interrupt, ...] = ()
    """Of all network devices, by number."""
    threads: tuple[Thread, ...] = ()
    """By thread id."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """Whole sources that failed: pci, links, addresses, routes, ethtool, udev."""


# ---------------------------------------------------------------------------------------------- the envelope


@dataclass(frozen=True)
class Line:
    """One line of the probe: exactly one of these is set."""

    hello: Hello | None = None
    inventory: Inventory | None = None
    counters: Counters | None = None
    link_change: LinkChange | None = None
    trouble: Trouble | None = None


@dataclass(frozen=True)
class Request:
    """One line to the probe. Several fields may be set; a field that is None changes nothing."""

    interval: float | None = None
    """Seconds between two `Counters`, 0.1 to 60."""
    watch: tuple[int, ...] | None = None
    """ifindexes that also get queue and driver counters: the NIC that somebody is looking at."""
    inventory: bool | None = None
    """True: take one now."""
    machine: bool | None = None
    """True: from now on every `Counters` carries the whole of /proc/interrupts; False: no more."""
