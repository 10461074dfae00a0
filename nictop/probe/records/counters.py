"""Records that are sent often: the hello of a probe, the counters of every interval, and events in
between."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class Hello:
    """First line of every probe: host, versions and clocks."""

    protocol: int
    """`PROTOCOL` of the probe."""
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
    """Of the probe; 0: there is none (ESXi)."""
    euid: int
    """Effective user id; 0: root."""
    boot_id: str
    """/proc/sys/kernel/random/boot_id: new at every boot; counters of different boots must not be
    compared."""
    clock_ticks: int
    """USER_HZ, ticks per second of /proc/stat (sysconf SC_CLK_TCK); on an ESXi host of all counted
    times."""
    monotonic: float
    """Seconds, CLOCK_MONOTONIC when the line was written."""
    wall: float
    """Seconds since the epoch at the same time."""
    interval: float
    """Seconds between two `Counters`."""
    network_namespace: int = 0
    """Inode of /proc/self/ns/net, another one in each network namespace of a machine
    (namespaces(7)); 0: not known."""
    first_namespace: int = 0
    """The same of the one in which the machine has started, which has its devices until they are
    moved; 0: not known."""


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
"""Order of `Counters.links` values: struct rtnl_link_stats64 (linux/if_link.h). Older kernels send
a shorter prefix. rx_bytes/tx_bytes count the Ethernet header but not preamble, FCS and gap, as ``ip
-s link`` does."""


CPU_TIMES = (
    "user",
    "nice",
    "system",
    "idle",
    "iowait",
    "irq",
    "softirq",
    "steal",
    "guest",
    "guest_nice",
)
"""Order of `Counters.cpus` values: the columns of a ``cpuN`` line of /proc/stat, in USER_HZ ticks.
guest is also counted in user, guest_nice in nice. idle and iowait may decrease (proc(5))."""


QUEUE_COUNTERS = ("rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "rx_drops", "tx_drops")
"""Order of the numbers in `Counters.queues`: netdev family, qstats rx-packets … tx-hw-drops
(without rx-alloc-fail)."""


VF_COUNTERS = (
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "broadcast",
    "multicast",
    "rx_dropped",
    "tx_dropped",
)
"""Order of the numbers in `Counters.vfs`: IFLA_VF_STATS_*, reported by the physical function."""


PORT_COUNTERS = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes")
"""Order of the numbers in `PortCounts.numbers`. Bytes as the NIC counts them: most include the
FCS."""
PORT_ERRORS = (
    "fcs", "alignment", "in range length", "out of range length", "too long",
    "symbol", "undersize", "oversize", "fragments", "jabbers",
)  # fmt: skip
"""Keys of `PortCounts.errors`: of eth-mac FrameCheckSequenceErrors, AlignmentErrors,
InRangeLengthErrors, OutOfRangeLengthField and FrameTooLongErrors (IEEE 802.3, 30.3.1.1), of eth-phy
SymbolErrorDuringCarrier (30.3.2.1.5), of rmon those of etherStatsEntry (RFC 2819)."""


@dataclass(frozen=True, slots=True)
class PortCounts:
    """What a NIC counts at its port, for all functions that share it: what the wire carries."""

    source: str
    """``eth-mac``: the standard counters of IEEE 802.3 (ETHTOOL_MSG_STATS_GET); the name of a
    driver: its own counters of the port (ETHTOOL_GSTATS); "": kernel and driver give none."""
    numbers: tuple[int | None, ...] = ()
    """`PORT_COUNTERS`; None: not counted."""
    errors: dict[str, int] = field(default_factory=dict)
    """Frames that were damaged, or of a size that is not allowed, by the standard counters
    (`PORT_ERRORS` has the names); a counter that the driver does not have is left out."""


@dataclass(frozen=True, slots=True)
class MachineInterrupt:
    """One line of /proc/interrupts."""

    label: str
    """``24``, ``NMI``, ``LOC``, …"""
    description: str
    """The text after the counts: chip, trigger and actions, separated by single spaces; "" for
    lines without."""
    counts: dict[int, int]
    """CPU id → interrupts; CPUs without are left out. A single sum (ERR, MIS) is under CPU -1."""


SOFTNET_COUNTERS = ("processed", "dropped", "time_squeeze", "received_rps", "flow_limit_count")
"""Order of `Counters.softnet` values: columns 1, 2, 3, 10 and 11 of /proc/net/softnet_stat, counted
from one. Column 13 is the CPU id (Linux 5.10; before, rows are the online CPUs in order).
processed: packets through backlog or NAPI."""


SOFTIRQS = ("NET_TX", "NET_RX")
"""Order of `Counters.softirqs` values: rows of /proc/softirqs."""


THREAD_TIMES = ("user", "system")
"""Order of the ticks in `Counters.threads`: columns 14 and 15 of /proc/PID/task/TID/stat,
USER_HZ."""


VCPU_WAITS = ("ready", "costop")
"""Order of `Counters.waits` values, ticks. ready: it could run, but no CPU of the hypervisor was
free. costop: it was stopped until other virtual CPUs of its machine had caught up. ESXi: net-stats,
ready and cstp."""


CHANNEL_COUNTERS = ("interrupts", "events", "out_full_total")
"""Order of `Counters.channels` values: files of a vmbus channel in sysfs; None: this kernel does
not have the file."""


@dataclass(frozen=True, slots=True)
class Counters:
    """All counters, read in one pass. Raw: since boot or driver load, never reset by nictop."""

    time: float
    """Seconds, CLOCK_MONOTONIC at the start of the pass."""
    links: dict[int, tuple[int, ...]]
    """ifindex → `LINK_COUNTERS`. RTM_GETSTATS, IFLA_STATS_LINK_64."""
    cpus: dict[int, tuple[int, ...]]
    """CPU id → `CPU_TIMES`; online CPUs only. /proc/stat."""
    queues: dict[int, tuple[tuple[str, int, tuple[int | None, ...]], ...]] = field(
        default_factory=dict
    )
    """ifindex → (("rx" or "tx", queue id, `QUEUE_COUNTERS`), …), only for watched links
    (`Request.watch`). None: the driver does not have this counter. (): kernel or driver have no
    queue counters. netdev family, qstats-get with queue scope."""
    driver: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """ifindex → driver counters in the order of `Ethtool.driver_counter_names`, only for watched
    links. ETHTOOL_GSTATS."""
    interrupts: dict[int, dict[int, int]] = field(default_factory=dict)
    """IRQ number → CPU id → interrupts, for all vectors in `Inventory.interrupts`; CPUs without are
    left out. /sys/kernel/irq/N/per_cpu_count (possible CPUs in order), else its line of
    /proc/interrupts (by header)."""
    softirqs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """CPU id → `SOFTIRQS`, online CPUs only. /proc/softirqs (columns: possible CPUs, named in the
    header)."""
    softnet: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """CPU id → `SOFTNET_COUNTERS`. /proc/net/softnet_stat."""
    threads: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """Thread id → `THREAD_TIMES` and the CPU it last ran on (column 39), for the threads in
    `Inventory.threads`; without threads that have ended, also if their id has been reused (start
    time)."""
    channels: dict[int, dict[int, tuple[int | None, ...]]] = field(default_factory=dict)
    """ifindex of a hv_netvsc link → vmbus channel id → `CHANNEL_COUNTERS`."""
    machine: tuple[MachineInterrupt, ...] | None = None
    """Every line of /proc/interrupts, only while requested (`Request.machine`)."""
    vfs: dict[int, dict[int, tuple[int, ...]]] = field(default_factory=dict)
    """ifindex of a physical function → VF number → `VF_COUNTERS`. RTM_GETLINK, IFLA_VFINFO_LIST;
    read at most once a second, empty in the records in between."""
    ports: dict[int, PortCounts] = field(default_factory=dict)
    """ifindex of a physical function with VFs → counters of its port; in the same records as
    `vfs`."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """Field of this record → why it is empty or incomplete."""
    stack: dict[str, int] = field(default_factory=dict)
    """IPReversePathFilter (/proc/net/netstat), only if rp_filter is strict on a link;
    UdpInCsumErrors and TcpInCsumErrors (/proc/net/snmp), only with a vxlan or geneve link;
    nf_conntrack_count, only with connection tracking: as read at most a second before. The latter
    is a number of entries, not a counter."""
    waits: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Thread id of a virtual CPU → `VCPU_WAITS`. Only ESXi."""


@dataclass(frozen=True, slots=True)
class LinkChange:
    """An rtnetlink message about one link, sent at once; a new inventory follows."""

    time: float
    """Seconds, CLOCK_MONOTONIC."""
    ifindex: int
    gone: bool
    """True: RTM_DELLINK; the fields below are the last known ones."""
    name: str
    """IFLA_IFNAME"""
    operstate: str
    """Name of IFLA_OPERSTATE (RFC 2863): up, down, lowerlayerdown, dormant, testing, notpresent,
    unknown."""
    carrier: bool | None
    """IFLA_CARRIER; None while the link is administratively down (unknown to the kernel)."""
    flags: int
    """IFF_* of struct ifinfomsg."""
    mtu: int
    """Bytes, IFLA_MTU."""
    carrier_changes: int | None = None
    """IFLA_CARRIER_CHANGES since the netdev was created. None: a probe of before 0.2.0."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something the probe could not do, or what is to be known about its start, as a sentence. The
    probe continues."""

    time: float
    message: str
    about: Literal["", "inventory"] = ""
    """inventory: it holds until one is complete that was begun later. "": it is not known when it
    is over."""
    is_notice: bool = False
    """Nothing has failed: it says how the host was reached."""


EventSource = Literal[
    "",
    "link",
    "address",
    "default route",
    "queueing discipline",
    "routing rule",
    "sysctl of a link",
    "device",
    "ethtool setting",
    "devlink",
    "kernel message",
    "NetworkManager",
    "gateway",
    "configuration file",
    "sysctl",
    "packet steering",
    "interrupt affinity",
    "events were lost",
    "nictop",
    "connection",
    "silence",
    "another namespace",
    "route",
]
"""What an event was about, after which an inventory is taken; nictop: its own change of the host,
connection: it was lost, and what happened meanwhile is not known, silence: nothing comes from the
host any more (both made by nictop), "": not recorded."""


@dataclass(frozen=True, slots=True)
class Outdated:
    """An event was received after the latest inventory was started, and what it is about could not
    be read for some seconds: the next inventory waits for its turn, or is being taken. Sent again
    when more is known of it."""

    time: float
    """Seconds, CLOCK_MONOTONIC of the probe's machine when the event was received."""
    source: EventSource = ""
    """Of the first such event, or of the first of those with the largest reach
    (`probe.events.reach`)."""
    due: float | None = None
    """When the inventory that reads it begins or has begun, on the same clock; None: after the one
    that runs, or not recorded."""


@dataclass(frozen=True, slots=True)
class Pong:
    """Reply to `Request.ping`, sent at once."""

    sequence: int
    """Number of the ping."""
    monotonic: float
    """Seconds, CLOCK_MONOTONIC of the probe's machine when the ping was read."""


MAX_CLOCK_DRIFT = 1e-4
"""Seconds per second: maximum drift of two clocks that are not stepped (two quartzes of 50 ppm
each; the kernel's own limit for a correction, MAXFREQ, is 500 ppm and rarely reached)."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Offset between the clocks of two machines, estimated by nictop from a `Pong`."""

    time: float
    """Seconds, CLOCK_MONOTONIC of nictop's machine at the time of the estimate."""
    offset: float
    """Seconds to subtract from a time of the watched machine (CLOCK_MONOTONIC) to get the time on
    nictop's machine."""
    uncertainty: float
    """Maximum error of the offset in seconds: half of a round trip, and the drift since."""
    round_trip: float | None = None
    """Of the newest ping, seconds; None: not measured, as on nictop's own machine."""
