"""Netdevs: addresses, routes, queues, queueing disciplines, and the VF settings of physical
functions."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records.bonds import Bond, BondPort, Team
from nictop.probe.records.bridges import BridgePort, BridgeVlan
from nictop.probe.records.ethtool import Ethtool
from nictop.probe.records.tunnels import Tunnel, VethPeer
from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address of a link. RTM_GETADDR."""

    family: Literal["ipv4", "ipv6"]
    address: str
    """Without prefix length. On a point-to-point link the local address (IFA_LOCAL)."""
    prefix_length: int
    scope: str
    """global, site, link, host or nowhere (rt_scope_t)."""
    flags: tuple[str, ...]
    """permanent, tentative, dadfailed, deprecated, temporary, … (IFA_F_*)."""
    since_announced: float | None = None
    """Seconds since a router advertisement set or renewed it; None: it is not from one, or the
    kernel does not tell. IFA_PROTO: IFAPROT_KERNEL_RA (Linux 5.18); IFA_CACHEINFO: tstamp"""
    created: int | None = None
    """When it was added, in hundredths of a second of a timer of the kernel: another number is
    another address, though it is written the same. None: of others than IPv6 link-local ones, which
    the kernel adds when a link gets IPv6. IFA_CACHEINFO: cstamp"""


@dataclass(frozen=True, slots=True)
class DefaultRoute:
    """A default route with this outgoing link. RTM_GETROUTE, tables main and default."""

    family: Literal["ipv4", "ipv6"]
    gateway: str | None
    """None: on-link."""
    metric: int
    """RTA_PRIORITY; the lowest is used."""
    table: int
    """254 is main."""


@dataclass(frozen=True, slots=True)
class SubnetRoute:
    """The outgoing link of packets to a peer in the subnet of a link, if another link has the same
    subnet or a more specific route to a part of it. RTM_GETROUTE, ``ip route get PEER from
    SOURCE``."""

    source: str
    """Address of the link with the subnet."""
    peer: str
    """An address in the subnet, or in `narrower`, that is not one of this host: a gateway, or the
    first one."""
    ifindex: int | None
    """Outgoing link of packets with this source address; None: no route (unreachable, prohibit)."""
    unbound: int | None = None
    """The same for sockets that are not bound to an address."""
    narrower: str = ""
    """``192.0.2.7/32``: the part of the subnet with a more specific route in the table main; "":
    the whole subnet."""


@dataclass(frozen=True, slots=True)
class VirtualFunction:
    """Settings of the physical function for one VF. RTM_GETLINK with RTEXT_FILTER_VF:
    IFLA_VFINFO_LIST."""

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
    """None: not reported by the driver."""
    trust: bool | None = None
    link_state: Literal["auto", "enable", "disable"] | None = None
    min_tx_rate: int | None = None
    """Mb/s, 0: none."""
    max_tx_rate: int | None = None
    """Mb/s, 0: no limit."""
    rss_query: bool | None = None
    """The VF may query the RSS table of the PF."""
    counters: tuple[int, ...] | None = None
    """`VF_COUNTERS`; None: the driver has no counters per VF."""
    machine: str | None = None
    """Name of the virtual machine that has it; None: none, or not known. Only ESXi."""


@dataclass(frozen=True, slots=True)
class Queue:
    """One receive or transmit queue of a netdev. /sys/class/net/NAME/queues/ and the netdev
    family's queue-get."""

    direction: Literal["rx", "tx"]
    number: int
    napi: int | None = None
    """Id of its NAPI instance (queue-get); None: not reported by kernel or driver."""
    xps_cpus: str | None = None
    """tx: CPU mask in the format of the kernel (hexadecimal, 32 bits between commas); None: not
    settable (ENOENT)."""
    xps_receive_queues: str | None = None
    """tx: mask of receive queues, xps_rxqs."""
    rps_cpus: str | None = None
    """rx: CPU mask of receive packet steering; all zero: off."""
    rps_flow_count: int | None = None
    """rx: rps_flow_cnt."""


@dataclass(frozen=True, slots=True)
class Napi:
    """One NAPI instance of a netdev. netdev family, napi-get (Linux 6.8)."""

    id: int
    irq: int | None = None
    """None: not reported by the driver (virtio_net, veth)."""
    thread: int | None = None
    """Id of its kernel thread (threaded NAPI)."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One vmbus channel of a hv_netvsc link: a queue of Hyper-V.
    /sys/bus/vmbus/devices/GUID/channels/N/."""

    id: int
    cpu: int | None
    """CPU that handles its interrupts."""
    queue: int | None = None
    """Queue number, subchannel_id, the index of the channel in hv_netvsc. None: not reported by
    this kernel."""


@dataclass(frozen=True, slots=True)
class Qdisc:
    """A queueing discipline that delays, drops, changes or limits transmitted packets.
    RTM_GETQDISC, RTM_GETTCLASS"""

    kind: str
    """netem, tbf, htb, hfsc, fq or cake."""
    handle: str
    """In the format of tc(8): ``8001:``."""
    parent: str | None = None
    """Class to which it is attached: ``1:10``, ``:1`` of a queue of mq; None: the root."""
    rate: int | None = None
    """Maximum in bits per second; None: no limit. htb and hfsc: of the class with the highest limit
    (ceil, ul)."""
    overhead: int = 0
    """Bytes that `rate` counts in addition to each packet with its Ethernet header (without
    preamble, FCS and gap)."""
    smallest: int = 0
    """Bytes; shorter packets count as this long."""
    per_flow: bool = False
    """`rate` applies to each connection (fq maxrate)."""
    default_class: int | None = None
    """htb, hfsc: minor number of the class for unclassified packets; 0: none."""
    limits_all: bool = True
    """False: `rate` does not apply to unclassified packets (htb without a default class)."""
    delay: float = 0.0
    jitter: float = 0.0
    """Seconds."""
    loss: float | None = 0.0
    """Share of packets; None: a model of several states."""
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0
    """Shares of packets."""
    burst: int | None = None
    """tbf: bytes that may be sent at once. None: not known, or a second bucket (peakrate) is set as
    well."""
    limit: int | None = None
    """Size of its queue: packets (netem) or bytes (tbf)."""
    dropped: int | None = None
    """Packets dropped since it was created, at the time of the inventory. TCA_STATS2: struct
    gnet_stats_queue"""


@dataclass(frozen=True, slots=True)
class TcAction:
    """What a filter of tc does with the packets that it matches. Attributes of the action in
    RTM_NEWTFILTER"""

    kind: str
    """police, gact, mirred, bpf, …"""
    verdict: str = ""
    """pass, drop, reclassify, pipe, …; police: for packets above the rate. "": not known."""
    rate: int | None = None
    """police: bits per second."""
    burst: int | None = None
    """police: bytes that may exceed it."""
    target: int | None = None
    """mirred: ifindex to which packets go."""
    packets: int | None = None
    """Packets that came to it. TCA_STATS_BASIC"""
    dropped: int | None = None
    """Packets that it has dropped. TCA_STATS_QUEUE"""


@dataclass(frozen=True, slots=True)
class TcFilter:
    """A filter of tc at the qdisc ingress or clsact of a link. RTM_GETTFILTER"""

    hook: Literal["ingress", "egress"]
    kind: str
    """matchall, u32, flower, bpf, …"""
    protocol: str = ""
    """all, ip, ipv6, arp, 802.1Q, or the EtherType."""
    priority: int = 0
    matches_all: bool = False
    """It has no condition but the protocol."""
    name: str = ""
    """bpf: name of the program."""
    actions: tuple[TcAction, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A netdev. RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE and /sys/class/net/NAME/."""

    ifindex: int
    name: str
    """IFLA_IFNAME. May contain any byte except ``/`` and white space: must be sanitized for a
    terminal."""
    type: int
    """ARPHRD_*: 1 Ethernet, 772 loopback, 32 InfiniBand."""
    flags: int
    """IFF_* (linux/if.h)."""
    operstate: str
    """See `LinkChange.operstate`."""
    carrier: bool | None
    """None while administratively down."""
    mtu: int
    """Bytes; 0: not reported (ESXi)."""
    altnames: tuple[str, ...] = ()
    """IFLA_PROP_LIST / IFLA_ALT_IFNAME"""
    name_property: str = ""
    """Property of udev with the name: ID_NET_NAME_PATH, …; "": not known to be from udev.
    /run/udev/data/nIFINDEX"""
    link_file: str = ""
    """The .link file that udev applied (ID_NET_LINK_FILE); "": not known."""
    alias: str | None = None
    """IFLA_IFALIAS, free text of the administrator; on an ESXi host the port group."""
    kind: str | None = None
    """IFLA_INFO_KIND: veth, bridge, tun, bond, vlan, vxlan, macvtap, …; None for hardware. On an
    ESXi host vswitch, vnic (port of a virtual machine) and vmknic."""
    details: dict[str, int | str | bool] = field(default_factory=dict)
    """Some attributes of IFLA_INFO_DATA: vlan_id, vlan_protocol, vxlan_id, bond_mode, macvlan_mode,
    tun_type, …"""
    carrier_changes: int | None = None
    """IFLA_CARRIER_CHANGES since the netdev was created."""
    min_mtu: int | None = None
    max_mtu: int | None = None
    """Bytes; 0: no known limit."""
    address: str | None = None
    """IFLA_ADDRESS, lower case with colons."""
    permanent_address: str | None = None
    """IFLA_PERM_ADDRESS; None: not set by the driver."""
    address_assignment: Literal["permanent", "random", "stolen", "set"] | None = None
    """addr_assign_type (NET_ADDR_*)."""
    master: int | None = None
    """ifindex of the bridge, bond, team, VRF or netvsc of which this link is a port. IFLA_MASTER"""
    lower: int | None = None
    """ifindex of the lower link, or of the veth peer. IFLA_LINK"""
    lower_namespace: int | None = None
    """Id of the network namespace of the lower link (IFLA_LINK_NETNSID): `lower` is not an ifindex
    of this one."""
    qdisc: str | None = None
    """Root queueing discipline. IFLA_QDISC"""
    traffic_control: tuple[Qdisc, ...] = ()
    """Queueing disciplines that delay, drop, change or limit packets."""
    tc_filters: tuple[TcFilter, ...] = ()
    """Filters at ingress, and at egress of clsact; the first 64."""
    xdp: Literal["driver", "generic", "hardware", "several"] | None = None
    """Where an XDP program is attached; None: there is none. IFLA_XDP_ATTACHED"""
    xdp_program: int | None = None
    """Its id, as ``bpftool prog show`` has it. IFLA_XDP_PROG_ID"""
    tx_queue_length: int | None = None
    """Packets. IFLA_TXQLEN"""
    num_tx_queues: int | None = None
    num_rx_queues: int | None = None
    """Allocated by the driver, in use or not. IFLA_NUM_TX_QUEUES / IFLA_NUM_RX_QUEUES"""
    promiscuity: int = 0
    """Number of users of promiscuous mode."""
    bus: str | None = None
    """Bus of the parent device: pci, virtio, vmbus, xen, platform, usb; None: no device.
    IFLA_PARENT_DEV_BUS_NAME, else sysfs."""
    device: str | None = None
    """Name of the parent device on that bus: ``0000:02:00.0``, ``virtio2``, a vmbus GUID."""
    pci_address: str | None = None
    """PCI function of this netdev: the parent device or an ancestor of it (virtio2 →
    0000:03:00.0)."""
    physical_port: str | None = None
    """phys_port_name: p0, pf0vf3 of a representor, …"""
    switch_id: str | None = None
    """phys_switch_id: equal on all ports of one embedded switch."""
    port_id: str | None = None
    """phys_port_id: equal on all functions of one physical port (NPAR, VFs); None: not reported by
    the driver. IFLA_PHYS_PORT_ID"""
    device_port: int | None = None
    """dev_port: port number of a multi-port function."""
    addresses: tuple[Address, ...] = ()
    default_routes: tuple[DefaultRoute, ...] = ()
    subnet_routes: tuple[SubnetRoute, ...] = ()
    """Only for links with a carrier that share a subnet with another such link, or have a more
    specific route to it."""
    virtual_functions: tuple[VirtualFunction, ...] = ()
    queues: tuple[Queue, ...] = ()
    """rx before tx, each by number."""
    napis: tuple[Napi, ...] = ()
    channels: tuple[Channel, ...] = ()
    """Only hv_netvsc."""
    ethtool: Ethtool = field(default_factory=Ethtool)
    counters: tuple[int, ...] | None = None
    """`LINK_COUNTERS` at the time of the inventory (IFLA_STATS64)."""
    created: float | None = None
    """Seconds, CLOCK_MONOTONIC, when udev first processed this netdev, after its driver was bound.
    None: at boot, or unknown (see `present_since`); only read if there are `KernelMessage`s.
    USEC_INITIALIZED, /run/udev/data/nIFINDEX"""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    bridge_port: BridgePort | None = None
    """Only ports of bridges."""
    bridge_vlans: tuple[BridgeVlan, ...] | None = None
    """Ports of bridges and bridges: VLANs by ID. None: not read, or a kernel without bridge VLAN
    filtering."""
    bond: Bond | None = None
    """Only bonds."""
    bond_port: BondPort | None = None
    """Only ports of bonds."""
    team: Team | None = None
    """Only teams."""
    tunnel: Tunnel | None = None
    """Only tunnels; None also for WireGuard."""
    veth_peer: VethPeer | None = None
    """Only veths with the other end in another namespace; None: not readable."""
    present_since: float | None = 0.0
    """Seconds, CLOCK_MONOTONIC, since when this netdev is known to be there: an earlier one may
    have had its name before. None: not known. 0: not read; it is read of links without a device
    that udev does not know, if there are `KernelMessage`s. IFLA_INET6_CACHEINFO, IFA_CACHEINFO"""
    ipv6_disabled: bool = False
    """sysctl disable_ipv6. False: not set, or not told (no IPv6 on the link). IFLA_INET6_CONF"""
