"""Connections of one NIC as rows with rates, and their sum against the bytes of the NIC. Reads
nothing.

Bytes of a connection are payload; those of the NIC include headers. What no listed or counted
connection explains is "other": headers, UDP, forwarded packets, other network namespaces, and
connections that ended between two readings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from nictop.model.connections.owners import owner_name
from nictop.model.devices.links import link_at, ports_of
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.protocol.requests import MAX_WATCHED_LINKS
from nictop.probe.records import Connection, Connections, Link

Limit = Literal[
    "application", "recv window", "send buffer", "network", "peer", "slow reader", "idle"
]
"""What limits a connection. application: it has nothing to send most of the time. recv window: that
of the peer. network: the congestion window. peer: the peer sends, and only it knows. slow reader:
the process here does not read what was received."""

BUSY_SHARE = 0.5
"""Of the time: with less, the application has nothing to send most of the time."""
LIMITED_SHARE = 0.3
"""Of the time with data to send, as for the bottleneck of a test."""
SLOW_READER_SECONDS = 0.1
"""Of the received rate that wait in the receive queue."""
MAX_AGE_SECONDS = 5.0
"""Of the newest reading beyond two intervals: then it is no longer the present state."""
STACKED_KINDS = (
    "vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "vxlan", "geneve", "gre", "gretap", "ip6gre",
    "ip6gretap", "ipip", "sit", "ip6tnl", "vti", "vti6", "xfrm", "hsr", "macsec",
)  # fmt: skip
"""Kinds of virtual links whose packets go through their `Link.lower`."""
SHARED_KINDS = ("bridge", "bond", "team", "openvswitch")
"""Kinds of links of which one port carries a packet."""
ANY_ADDRESSES = ("0.0.0.0", "::")
PENDING, NEEDS_ROOT, NO_PROCESS = "…", "needs root", "kernel"


@dataclass(frozen=True)
class ConnectionRow:
    """One socket. Rates are None if they are not known: UDP, the first reading, Linux before
    4.1."""

    connection: Connection
    rx_bits: float | None
    tx_bits: float | None
    """Payload in bits per second."""
    share: float | None
    """Of the bytes of the NIC in both directions."""
    retransmits: float | None
    """Segments per second."""
    drops: float | None
    """UDP: packets per second."""
    limited_by: Limit | None
    """None: not known."""
    process: str
    """Name; ``kernel``: no process has it open; ``needs root``; ``…``: it is searched for."""
    owner: str
    """Container, virtual machine or systemd unit; "": none."""
    output: str = ""
    """Name of the link through which it sends, if that is not the NIC or a link above it."""

    @property
    def who(self) -> str:
        """The process, or its unit or container if that is all that is known."""
        if self.owner and self.process in (PENDING, NEEDS_ROOT):
            return self.owner
        return self.process


@dataclass(frozen=True)
class User:
    """Everything that has the same name."""

    name: str
    """`ConnectionRow.who`"""
    rx_bits: float
    tx_bits: float
    share: float | None
    connections: int


@dataclass(frozen=True)
class ConnectionTable:
    """All that is known of the connections of one NIC at one time."""

    nic: str
    above: tuple[str, ...]
    """Links above the NIC whose connections are listed too."""
    seconds: float | None
    """Over which rates were measured; None: there are none yet."""
    rows: tuple[ConnectionRow, ...]
    """TCP by rate, then UDP."""
    users: tuple[User, ...]
    """The rows by process, the busiest first."""
    tcp: int
    udp: int
    """Sockets, listed or not."""
    ended: int
    """Connections that ended in these seconds."""
    nic_rx_bits: float | None
    nic_tx_bits: float | None
    """Of the NIC, with headers."""
    rx_bits: float | None
    tx_bits: float | None
    """Payload of all TCP connections, listed or not."""
    share: float | None
    """Of the NIC's bytes that the payload explains; at most 1."""
    other_rx_bits: float | None
    other_tx_bits: float | None
    """What the NIC transferred beside that payload."""
    hidden: int
    """Sockets that are not listed."""
    is_complete: bool
    """The search for processes has ended."""
    notes: tuple[str, ...]
    """What is not covered, and what could not be read."""


def requested_links(nic: int, links: Mapping[int, Link]) -> tuple[int, ...]:
    """For `Request.connections`: the NIC, then the links above it, whose packets it carries: its
    bond, bridge or team, VLANs, macvlans, tunnels. A VRF is not: the kernel resolves it with the
    route."""
    found = {nic: None}
    waiting = [nic]
    while waiting and len(found) < MAX_WATCHED_LINKS:
        ifindex = waiting.pop()
        for link in _directly_above(ifindex, links):
            if link.ifindex not in found and len(found) < MAX_WATCHED_LINKS:
                found[link.ifindex] = None
                waiting.append(link.ifindex)
    return tuple(found)


def _directly_above(ifindex: int, links: Mapping[int, Link]) -> Iterable[Link]:
    own = links.get(ifindex)
    if own is not None:
        master = link_at(own.master, links)
        if master is not None and master.kind != "vrf":
            yield master
    for link in links.values():
        is_on_it = link.lower == ifindex and link.lower_namespace is None
        if is_on_it and link.kind in STACKED_KINDS:
            yield link


def is_current(found: Connections | None, nic: int, snapshot: Snapshot) -> bool:
    """Whether the newest reading is of this NIC, and not older than the newest counters by more
    than its interval."""
    if found is None or found.links[:1] != (nic,) or snapshot.counters is None:
        return False
    return snapshot.counters.time - found.time <= 2 * (found.seconds or 0.0) + MAX_AGE_SECONDS


def connection_table(nic: int, snapshot: Snapshot) -> ConnectionTable | None:
    """The connections of a NIC; None: there is no present reading of them."""
    found = snapshot.connections
    if found is None or not is_current(found, nic, snapshot):
        return None
    rows = tuple(_row(connection, found, snapshot) for connection in found.connections)
    names = [_name(ifindex, snapshot) for ifindex in found.links]
    payload = _sum(found.received, found.sent)
    nic_bytes = _sum(found.link_received, found.link_sent)
    return ConnectionTable(
        nic=names[0],
        above=tuple(names[1:]),
        seconds=found.seconds,
        rows=rows,
        users=_users(rows),
        tcp=found.tcp,
        udp=found.udp,
        ended=found.ended,
        nic_rx_bits=_bits(found.link_received, found),
        nic_tx_bits=_bits(found.link_sent, found),
        rx_bits=_bits(found.received, found),
        tx_bits=_bits(found.sent, found),
        share=_share(payload, nic_bytes),
        other_rx_bits=_bits(_rest(found.link_received, found.received), found),
        other_tx_bits=_bits(_rest(found.link_sent, found.sent), found),
        hidden=max(0, found.tcp + found.udp - len(rows)),
        is_complete=found.owners != "pending",
        notes=tuple(_notes(found, snapshot)),
    )


def _name(ifindex: int, snapshot: Snapshot) -> str:
    link = snapshot.links.get(ifindex)
    if link is None:
        return f"ifindex {ifindex}"
    return link.name


def _bits(number: int | None, found: Connections) -> float | None:
    """Per second."""
    if number is None or not found.seconds or found.seconds <= 0:
        return None
    return 8 * number / found.seconds


def _per_second(number: int | None, found: Connections) -> float | None:
    if number is None or not found.seconds:
        return None
    return number / found.seconds


def _sum(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return None
    return one + other


def _rest(whole: int | None, part: int | None) -> int | None:
    if whole is None or part is None:
        return None
    return max(0, whole - part)


def _share(part: float | None, whole: float | None) -> float | None:
    if part is None or whole is None or whole <= 0:
        return None
    return min(1.0, part / whole)


def _row(one: Connection, found: Connections, snapshot: Snapshot) -> ConnectionRow:
    whole = _sum(found.link_received, found.link_sent)
    output = ""
    if one.output is not None and one.output not in found.links:
        output = _name(one.output, snapshot)
    return ConnectionRow(
        connection=one,
        rx_bits=_bits(one.received, found),
        tx_bits=_bits(one.sent, found),
        share=_share(_carried(one), whole),
        retransmits=_per_second(one.retransmitted, found),
        drops=_per_second(one.dropped, found),
        limited_by=limited_by(one, found.seconds),
        process=_process(one, found),
        owner=owner_name(one.cgroup),
        output=output,
    )


def _carried(one: Connection) -> int | None:
    """Payload bytes that the NIC carried: only one direction of some connections goes through
    it."""
    if one.sent is None or one.received is None:
        return None
    if one.direction == "rx":
        return one.received
    if one.direction == "tx":
        return one.sent
    return one.sent + one.received


def _process(one: Connection, found: Connections) -> str:
    if one.process is not None:
        return one.process
    if not one.inode:
        return "–"
    return {"pending": PENDING, "partial": NEEDS_ROOT, "complete": NO_PROCESS}[found.owners]


def limited_by(one: Connection, seconds: float | None) -> Limit | None:
    """What limits a connection in the direction in which it transfers more. `seconds`: between the
    two readings."""
    if one.sent is None or one.received is None or not seconds:
        return None
    if not (one.sent or one.received or one.busy_time):
        return "idle"
    if one.received > one.sent:
        waiting = (one.receive_queue or 0) / (one.received / seconds)
        return "slow reader" if waiting > SLOW_READER_SECONDS else "peer"
    if one.busy_time is None:
        return None
    if one.busy_time < BUSY_SHARE * seconds * 1e6:
        return "application"
    return _sender_limit(one, LIMITED_SHARE * one.busy_time)


def _sender_limit(one: Connection, much: float) -> Limit:
    """What limits a sender that has data to send. `much`: microseconds from which on a limit
    counts."""
    if (one.window_limited or 0) >= much:
        return "recv window"
    if (one.buffer_limited or 0) >= much:
        return "send buffer"
    return "network"


def _users(rows: Iterable[ConnectionRow]) -> tuple[User, ...]:
    by_name: dict[str, list[ConnectionRow]] = {}
    for row in rows:
        if row.connection.protocol == "tcp":
            by_name.setdefault(row.who, []).append(row)
    users = [_user(name, own) for name, own in by_name.items()]
    return tuple(sorted(users, key=lambda user: -(user.rx_bits + user.tx_bits)))


def _user(name: str, rows: Sequence[ConnectionRow]) -> User:
    rx = sum(row.rx_bits or 0.0 for row in rows)
    tx = sum(row.tx_bits or 0.0 for row in rows)
    shares = [row.share for row in rows if row.share is not None]
    share = min(1.0, sum(shares)) if shares else None
    return User(name, rx, tx, share, len(rows))


def _notes(found: Connections, snapshot: Snapshot) -> Iterable[str]:
    for part in ("tcp", "udp"):
        if part in found.unreadable:
            yield f"{part.upper()} sockets not readable: {found.unreadable[part].detail}"
    for ifindex in found.links[1:]:
        link = snapshot.links.get(ifindex)
        if link is None or link.kind not in SHARED_KINDS:
            continue
        number = len(ports_of(link, snapshot.links))
        if number > 1:
            yield f"{link.name} has {number} ports: connections through the others are listed too"
    if any(link.lower_namespace is not None for link in snapshot.links.values()):
        yield "sockets in other network namespaces (containers) are not listed"
    if "process" in found.unreadable:
        yield "processes of other users: needs root"
