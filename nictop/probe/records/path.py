"""The path between two watched hosts: the route of each end, and what a path test sent, got
answered and received."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records.losses import LossCount
from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class TrafficPath:
    """The route of a host to an address, and whether it accepts packets from there. RTM_GETROUTE,
    RTM_GETNEIGH, net.ipv4.conf.*.rp_filter."""

    address: str
    source: str
    """As requested."""
    route: str = ""
    """Type of the route, as ip-route(8) names it: unicast, local, broadcast, multicast,
    unreachable, prohibit, blackhole, throw; none: there is no route; "": unknown, or `source` is
    not an address of this host."""
    ifindex: int | None = None
    """Outgoing NIC."""
    gateway: str | None = None
    """None: on-link."""
    neighbour: str = ""
    """State of the gateway's or the address's entry in the neighbour table, as ip-neighbour(8)
    names it: reachable, stale, delay, probe, incomplete, failed, permanent, noarp; none: no entry;
    "": unknown."""
    neighbour_address: str | None = None
    """Its MAC address."""
    rp_filter: int | None = None
    """Effective value on the NIC of the request: 0 off, 1 strict, 2 loose. None: IPv6, or
    unknown."""
    rule: str = ""
    """Routing rule that refuses packets, or that leads to `entry`, as ip-rule(8) prints it; "":
    those of the kernel, or not found. Only for unreachable, prohibit, blackhole and none."""
    entry: str = ""
    """Route that refuses them: ``unreachable 192.0.2.0/24 table main proto static``; "": a rule
    does, or not found."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """Field of this record → why it is empty."""
    options: tuple[str, ...] = ()
    """Metrics of the route, as words of ip-route(8): ``mtu``, ``lock``, ``1000``; without an MTU
    that path MTU discovery learned."""


@dataclass(frozen=True, slots=True)
class IcmpError:
    """An ICMP or ICMPv6 error about a packet of the test, from the error queue of its socket
    (IP_RECVERR, ip(7))."""

    type: int
    code: int
    source: str
    """Address of its sender (SO_EE_OFFENDER): a router, the other end, or this host itself."""
    mtu: int | None = None
    """Bytes, next-hop MTU of "fragmentation needed" and "packet too big"; None: other errors, or
    not in the message."""


@dataclass(frozen=True, slots=True)
class PathReplies:
    """Packets of one protocol to the other end, and its answers."""

    protocol: Literal["icmp", "udp", "tcp"]
    """icmp: echo. udp: datagrams that the other probe answers. tcp: one connection to it."""
    method: str = ""
    """icmp: "datagram" (unprivileged ICMP socket) or "raw"."""
    sent: int = 0
    rtts: tuple[float, ...] = ()
    """Seconds from sending to the answer, in the order of sending; one for each answer. tcp:
    duration of connect()."""
    errors: tuple[IcmpError, ...] = ()
    """Distinct ones, in the order of their arrival."""
    error: str = ""
    """Name of the errno of the first packet that could not be sent, or of connect(): ECONNREFUSED;
    "": none."""


@dataclass(frozen=True, slots=True)
class PathSize:
    """The largest packet that reaches the other end unfragmented, found by probing with DF set
    (IP_PMTUDISC_PROBE)."""

    protocol: Literal["icmp", "udp"]
    limit: int
    """Bytes of the largest IP packet tried: the MTU of the outgoing NIC."""
    largest: int | None = None
    """Bytes of the largest IP packet that was answered; None: none was, or none was tried."""
    too_big: IcmpError | None = None
    """The "fragmentation needed" that was received; None: none was."""
    complete: bool = True
    """False: the time limit ended the search: `limit` was not answered, and `largest` may be too
    low."""
    silent: bool = False
    """True: after a packet that was not answered, small ones were not answered any more either, so
    that it says nothing of sizes: the search was ended, and `largest` is None."""


@dataclass(frozen=True, slots=True)
class PathTest:
    """What one end found out about the path to the other one."""

    address: str
    source: str
    """As requested."""
    port: int = 0
    """Of the other probe, UDP and TCP."""
    mtu: int | None = None
    """Bytes, MTU of the outgoing NIC (SIOCGIFMTU)."""
    resolved: str = ""
    """Address whose MAC address was asked for: the other end or the gateway; "": not asked."""
    macs: tuple[str, ...] | None = None
    """MAC addresses that answered an ARP request or neighbour solicitation for `resolved`, in the
    order of their answers; None: not asked, the reason is in `unreadable`."""
    path: TrafficPath | None = None
    """Route and neighbour after the test."""
    replies: tuple[PathReplies, ...] = ()
    sizes: tuple[PathSize, ...] = ()
    seconds: float = 0.0
    """Duration of the test."""
    packets: int = 0
    """Packets sent."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """icmp, macs → why it was not tested."""


@dataclass(frozen=True, slots=True)
class ReceivedPackets:
    """Packets of the test that one end received by one NIC."""

    protocol: Literal["icmp", "udp", "tcp"]
    ifindex: int
    """IP_PKTINFO, or sll_ifindex of a packet socket."""
    packets: int
    largest: int
    """Bytes of the largest IP packet."""
    hop_limit: int | None = None
    """Lowest TTL or hop limit of a received packet."""


@dataclass(frozen=True, slots=True)
class RefusedSender:
    """Who sent to a listening socket of a test, but is not its other end: nothing was answered."""

    reason: Literal["cookie", "address", "silent"]
    """cookie: without the cookie of the test. address: with it, from another address than that of
    the other end. silent: a connection on which nothing was sent."""
    address: str
    """Of the sender; "": those of further senders."""
    count: int


@dataclass(frozen=True, slots=True)
class PathListener:
    """The other end of a path test: a UDP and a TCP socket that are open only during the test. Sent
    when they are open, and again at the end."""

    port: int
    """Of both sockets."""
    ended: bool = False
    """True: the last line, with what was received."""
    delivered: tuple[ReceivedPackets, ...] = ()
    """Datagrams that the UDP socket received, by NIC."""
    arrived: tuple[ReceivedPackets, ...] | None = None
    """Packets that a packet socket received, before the host's firewall and rp_filter, without
    `misaddressed`; None: the reason is in `unreadable`."""
    losses: tuple[LossCount, ...] = ()
    """Counters of lost packets of its host that rose during the test, by anything; the largest
    first."""
    rp_filter_drops: int | None = None
    """Increase of IPReversePathFilter in /proc/net/netstat during the test; None: IPv6, or
    unknown."""
    refused: tuple[RefusedSender, ...] = ()
    """Datagrams and connections of others."""
    carrier_changes: int | None = None
    """Of the NIC of the request during the test: increase of /sys/class/net/NAME/carrier_changes;
    None: unknown, or a recording of before it was counted."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """Field of this record → why it is empty."""
    misaddressed: tuple[ReceivedPackets, ...] = ()
    """Packets that a packet socket received although their destination is another MAC address than
    that of the NIC (PACKET_OTHERHOST, packet(7)): its IP stack drops them (net/ipv4/ip_input.c:
    ip_rcv_core, net/ipv6/ip6_input.c: ip6_rcv_core)."""
    echo_replies: int | None = None
    """Replies to ICMP echo requests of anyone that its kernel made during the test, before its
    output filter: increase of Icmp OutEchoReps in /proc/net/snmp, Icmp6OutEchoReplies in snmp6
    (net/ipv4/ip_output.c: __ip_make_skb, net/ipv6/ip6_output.c: __ip6_make_skb). None: unknown, or
    a recording of before it was counted."""
    udp_answers: int | None = None
    """Datagrams of `delivered` whose answer sendto(2) accepted; None: as above."""
    answers: tuple[ReceivedPackets, ...] | None = None
    """What the other end answered to the ICMP echo requests and datagrams of this host, as a packet
    socket received it, before the host's firewall and rp_filter; None: as above, or the reason for
    `arrived` is in `unreadable`."""
