"""The machine: platform, interrupts, threads, daemons, settings, kernel messages."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class Interrupt:
    """One interrupt of a network device. /sys/kernel/irq/N/ and /proc/irq/N/."""

    number: int
    actions: tuple[str, ...]
    """Names under which drivers registered the handlers: ``ens224-TxRx-0``, ``virtio2-input.0``."""
    pci_address: str | None
    """The function with this interrupt in ``msi_irqs/`` (or legacy ``irq``); None: not on PCI (xen
    event channels)."""
    chip: str | None = None
    """chip_name: IR-PCI-MSIX-0000:02:00.0, xen-dyn, …"""
    allowed_cpus: str | None = None
    """CPU list, smp_affinity_list."""
    effective_cpus: str | None = None
    """CPU list, effective_affinity_list: the CPUs in use. None: not reported by this kernel or
    chip."""
    numa_node: int | None = None
    """/proc/irq/N/node; None for -1."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    movable: bool | None = None
    """Whether user space may write smp_affinity_list. False: the file is read-only, because the
    kernel manages the affinity (PCI_IRQ_AFFINITY) or the interrupt cannot be moved. None: not
    known; before Linux 6.12 the file is writable for every interrupt. kernel/irq/proc.c:
    register_irq_proc, irq_can_set_affinity_usr (92f9d825b12f)."""


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread that processes packets: of the kernel, or of a virtual machine.
    /proc/PID/task/TID/."""

    tid: int
    pid: int
    name: str
    """comm: ``ksoftirqd/0``, ``vhost-1234``, ``napi/eth0-8193``, ``CPU 0/KVM``."""
    kind: Literal["ksoftirqd", "napi", "vhost", "vcpu", "vm"]
    """vcpu: a virtual CPU of a guest; vm: any other thread of a QEMU process."""
    machine: str | None = None
    """Name of the virtual machine (``-name`` of its command line, else Proxmox ``-id``, else ``pid
    N``)."""
    links: tuple[int, ...] = ()
    """ifindexes of the open tap and macvtap links of its process, if readable (/proc/PID/fdinfo
    ``iff:``, /dev/tapN); for a vhost thread those of its virtual machine."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    nics: dict[int, str] = field(default_factory=dict)
    """Main thread of a QEMU process: ifindex of a tap → MAC address of the guest's NIC behind it
    (``-netdev``, ``-device`` of its command line); without those taps that were opened by another
    program (libvirt)."""


@dataclass(frozen=True, slots=True)
class Platform:
    """Hypervisor, firmware strings, distribution, CPUs, and hosting of the machine."""

    hypervisor: str | None
    """vmware, kvm, microsoft, xen, qemu, amazon, …; None: none detected, bare metal. DMI,
    /sys/hypervisor, CPU flag ``hypervisor``, device tree."""
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
    """Number of groups; 0: no IOMMU in use."""
    node_cpus: dict[int, str] = field(default_factory=dict)
    """NUMA node → CPU list, /sys/devices/system/node/nodeN/cpulist."""
    distribution_like: str | None = None
    """ID_LIKE of os-release: names of related distributions, for package names."""
    environment: str | None = None
    """The product that runs this guest or, on a host that is no guest, the product that it runs;
    determines the commands to show. esxi, proxmox, libvirt, ahv, hyperv, xen, ovirt, openstack,
    kubevirt, virtualbox, parallels, azure, aws, gcp, oci, alibaba, tencent, digitalocean, hetzner.
    For a guest from DMI product, chassis asset tag and BIOS; None: unknown. A guest that runs
    guests itself has the role hypervisor, and the environment of a guest."""
    roles: tuple[str, ...] = ()
    """hypervisor: this machine runs guests (QEMU processes, /dev/kvm in use, Proxmox, Hyper-V root,
    Xen dom0); container: this machine is a container."""
    machine_id_hash: str | None = None
    """First 16 hexadecimal digits of SHA-256 of /etc/machine-id: equal on cloned machines."""
    session_address: str | None = None
    """Local IP address of the SSH session of this probe (SSH_CONNECTION); None: not over SSH."""
    page_bytes: int | None = None
    """Size of a page of memory: 4096, on arm64 and ppc64 also 65536. sysconf(3), _SC_PAGESIZE.
    None: ESXi, or an older recording."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Restriction:
    """What the kernel forbids a probe that root runs (`probe.restriction`)."""

    landlock: int | None
    """Version of the ABI (landlock(7)): from 1 on no file is written and no program is started,
    from 6 on no other process is signalled. None: not in use."""
    why_no_landlock: str
    capabilities: tuple[str, ...] | None
    """Those that the probe has kept: ``net_admin``. None: all."""
    why_all_capabilities: str
    why_tests_are_root: str
    """"": tests run as the user of sudo, or as nobody."""
    allow_changes: bool
    """Another process of this probe may change the host."""
    why_no_seccomp: str | None = None
    """"": seccomp(2) is in use: no attribute of a file is changed, and no program is started. None:
    not told, by an older probe."""


@dataclass(frozen=True, slots=True)
class Services:
    """Daemons that affect NICs: pid; None: not running. /proc/*/comm"""

    networkmanager: int | None = None
    networkd: int | None = None
    irqbalance: int | None = None
    tuned: int | None = None
    vmware_tools: int | None = None
    """vmtoolsd"""
    qemu_guest_agent: int | None = None
    hyperv_daemons: int | None = None
    """hv_kvp_daemon"""
    libvirt: int | None = None
    """libvirtd or virtqemud"""
    proxmox: int | None = None
    """pvedaemon or pve-cluster's pmxcfs"""
    openvswitch: int | None = None
    """ovs-vswitchd"""
    lldpd: int | None = None
    firewalld: int | None = None
    dhclient: int | None = None
    """DHCP client of ISC"""
    google_guest_agent: int | None = None
    """google_guest_agent or google_guest_agent_manager, which run google_set_multiqueue at boot"""


@dataclass(frozen=True, slots=True)
class KernelMessage:
    """A kernel log message about a problem of a NIC. /dev/kmsg; at most the newest 200."""

    time: float
    """Seconds, CLOCK_MONOTONIC (local clock of printk; may differ by some tenths)."""
    level: int
    """0 emergency … 7 debug."""
    text: str
    """At most 500 characters."""
    omitted: int = 0
    """Earlier messages about the same device that are left out. Their text is of the same kind
    (`message_table.Known`), but may differ in a number or a name."""
    omitted_since: float | None = None
    """Time of the first of them; None: none is left out."""


@dataclass(frozen=True, slots=True)
class IommuGroup:
    """An IOMMU group that contains a network function. /sys/kernel/iommu_groups/N/."""

    number: int
    members: tuple[tuple[str, int, str | None], ...]
    """(PCI address, 24-bit class code, driver or None), bridges included, by address."""
    type: str | None = None
    """DMA, DMA-FQ, identity, …"""


@dataclass(frozen=True, slots=True)
class ForwardingEntry:
    """A static entry of the embedded switch of a NIC, or an entry of a bridge port. RTM_GETNEIGH,
    AF_BRIDGE."""

    ifindex: int
    address: str
    """MAC, lower case."""
    self_entry: bool
    """NTF_SELF: in the device itself (``bridge fdb … self``)."""
    master: int | None = None
    """ifindex of the bridge."""
    permanent: bool = False
    vlan: int | None = None
    """VLAN in which the bridge learned the address; None: its VLAN filtering is off, or a permanent
    entry, which the bridge has for each VLAN of the port."""
    idle: bool = False
    """Learned, and no frame with this source has come in by that port for 30 s: it may be left of a
    machine that is elsewhere now. NDA_CACHEINFO, ndm_updated."""
    set_as: str = ""
    """Of an entry of a bridge that a command or a program has set, not permanent: words of
    bridge(8), as ``static sticky``. "": the bridge has learned it. ndm_state and ndm_flags
    (net/bridge/br_fdb.c: fdb_to_nud, fdb_fill_info)."""

    @property
    def is_learned(self) -> bool:
        """By a bridge, from a frame that came in."""
        return not (self.self_entry or self.permanent or self.set_as)


@dataclass(frozen=True, slots=True)
class Settings:
    """Kernel settings that affect networking, raw. None or absent: this kernel does not have it."""

    sysctl: dict[str, int] = field(default_factory=dict)
    """``net.core.netdev_max_backlog``, netdev_budget, netdev_budget_usecs, rps_sock_flow_entries,
    rmem_max, wmem_max, ``net.ipv4.conf.all.arp_filter``, arp_announce, arp_ignore and rp_filter
    (also of each link with an IPv4 address: ``net.ipv4.conf.LINK.arp_filter`` with the unmodified
    name, and its ``forwarding``; the effective value: `nictop.model.devices.ipv4_conf`),
    ``net.ipv6.conf.LINK.accept_ra`` and forwarding (of links with an IPv6 address that ends unless
    it is renewed), ``net.ipv6.conf.all.forwarding`` and ``net.ipv6.conf.LINK.force_forwarding`` (of
    links with a global IPv6 address; Linux 6.17),
    ``net.ipv4.ip_forward``, ``kernel.dmesg_restrict``, ``net.ipv4.tcp_timestamps``; if br_netfilter
    is loaded ``net.bridge.bridge-nf-call-arptables``, -ip6tables, -iptables and
    ``bridge-nf-filter-vlan-tagged``."""
    congestion_control: str | None = None
    """net.ipv4.tcp_congestion_control"""
    command_line: str | None = None
    """/proc/cmdline without words that may contain a secret (password, token, key=)."""
    governors: dict[int, str] = field(default_factory=dict)
    """CPU → scaling_governor; empty: no cpufreq (guests)."""
    frequencies: dict[int, tuple[int, int]] = field(default_factory=dict)
    """CPU → (scaling_cur_freq, cpuinfo_max_freq) in kHz."""
    policy_rules: int | None = None
    """Number of IPv4 routing rules other than those of the kernel (local, main, default).
    RTM_GETRULE."""
    reassembly: dict[str, int] = field(default_factory=dict)
    """ReasmReqds (fragments received), ReasmOKs and ReasmFails since boot, IPv4. /proc/net/snmp"""
    reverse_path_drops: int | None = None
    """Packets dropped by rp_filter since boot, IPv4. IPReversePathFilter in /proc/net/netstat"""
    tables: dict[str, tuple[int, int]] = field(default_factory=dict)
    """(entries, maximum) of ``connections`` (nf_conntrack_count and nf_conntrack_max; missing
    without connection tracking), and of the tables that are full by a `KernelMessage`: ``ipv4`` and
    ``ipv6`` neighbours (/proc/net/stat/arp_cache and ndisc_cache, gc_thresh3)."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    tcp_buffers: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """``net.ipv4.tcp_rmem`` (receive) and ``net.ipv4.tcp_wmem`` (send): minimum, default and
    maximum size of a buffer in bytes. The kernel grows a buffer up to the maximum, unless the
    program has set its size (SO_RCVBUF, SO_SNDBUF).
    """
    checksum_errors: dict[str, int] = field(default_factory=dict)
    """Received packets with a wrong checksum since boot: ``udp``, ``tcp`` (both families) and
    ``udp6``. InCsumErrors of /proc/net/snmp, Udp6InCsumErrors of /proc/net/snmp6 (Linux 3.10)"""
    idle_driver: str | None = None
    """Driver of the sleep states of the CPUs: ``intel_idle``, ``haltpoll``, ``none``.
    /sys/devices/system/cpu/cpuidle/current_driver. None: no such file, or an older recording."""
