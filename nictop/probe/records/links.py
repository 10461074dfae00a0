"""Netdevs: addresses, routes, queues and what a physical function enforces for its VFs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from nictop.probe.records.ethtool import Ethtool
from nictop.probe.records.unreadable import Unreadable


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
class SubnetRoute:
    """Where packets leave to a peer in the subnet of a link: one that two links share, or one of which a narrower route
    takes a part by another link. RTM_GETROUTE, ``ip route get PEER from SOURCE``."""

    source: str
    """Address of the link that the subnet belongs to."""
    peer: str
    """An address of the subnet, or of `narrower`, that this host does not have: a gateway, or the first one."""
    ifindex: int | None
    """By which link packets with this source address leave; None: no route (unreachable, prohibited)."""
    unbound: int | None = None
    """The same for packets of sockets that are bound to no address."""
    narrower: str = ""
    """``192.0.2.7/32``: the part of the subnet that a route of the table main sends elsewhere; "": all of it."""


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
class Qdisc:
    """A queueing discipline that delays, loses, changes or limits what a link sends. RTM_GETQDISC, RTM_GETTCLASS"""

    kind: str
    """netem, tbf, htb, hfsc, fq or cake."""
    handle: str
    """As tc writes it: ``8001:``."""
    parent: str | None = None
    """Class that it serves: ``1:10``, ``:1`` of a queue of mq; None: the root."""
    rate: int | None = None
    """Bits per second at most; None: no limit. htb and hfsc: of the class that may send most (ceil, ul)."""
    overhead: int = 0
    """Bytes that it adds to each packet of `rate`, which has its Ethernet header, but neither preamble, FCS nor gap."""
    smallest: int = 0
    """Bytes that each packet counts at least."""
    per_flow: bool = False
    """`rate` is that of each connection (fq maxrate)."""
    default_class: int | None = None
    """htb, hfsc: minor number of the class for what no filter selects; 0: none."""
    limits_all: bool = True
    """False: `rate` is not that of what no filter selects (htb without a default class)."""
    delay: float = 0.0
    jitter: float = 0.0
    """Seconds."""
    loss: float | None = 0.0
    """Share of packets; None: lost by a model of several states."""
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0
    """Shares of packets."""


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
    traffic_control: tuple[Qdisc, ...] = ()
    """Queueing disciplines that do more than queue: delay, lose, limit."""
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
    subnet_routes: tuple[SubnetRoute, ...] = ()
    """Only of links with a carrier that have addresses in one subnet with another such link."""
    virtual_functions: tuple[VirtualFunction, ...] = ()
    queues: tuple[Queue, ...] = ()
    """rx before tx, each by number."""
    napis: tuple[Napi, ...] = ()
    channels: tuple[Channel, ...] = ()
    """Only hv_netvsc."""
    ethtool: Ethtool = field(default_factory=Ethtool)
    counters: tuple[int, ...] | None = None
    """`LINK_COUNTERS` when the inventory was taken (IFLA_STATS64)."""
    created: float | None = None
    """Seconds, CLOCK_MONOTONIC, when udev first saw this netdev: since its driver was bound, at most. None: at boot, or
    not known; only read while there are `KernelMessage`. USEC_INITIALIZED, /run/udev/data/nIFINDEX"""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
