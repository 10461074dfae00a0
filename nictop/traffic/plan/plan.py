"""What is to be run, as a value: the two ends and every option; and which pairs of ends there are to choose from.

Reads nothing. `problems(plan)` says what is wrong with it in itself; what the two hosts cannot do of it is said by
`tools.refusals` before anything starts.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

from nictop.model.devices.netdevs import Disagreement, End
from nictop.model.devices.subnets import Member, SharedSubnet
from nictop.model.snapshot import Snapshot

Direction = Literal["forward", "reverse", "bidirectional"]
Generator = Literal["iperf3", "builtin"]

LONGEST_IPERF3_MESSAGE = 1 << 20
LONGEST_MESSAGE = 8 << 20
"""Bytes of the built-in generator."""
LONGEST_DATAGRAM = 65507
MOST_STREAMS = 128
SMALLEST_MSS, LARGEST_MSS = 88, 32767
LONGEST_TIME, LONGEST_OMIT = 86000, 600
"""Seconds: a probe ends what runs for a day."""
SHORTEST_INTERVAL = 0.1

DSCP = {
    "cs0": 0, "cs1": 8, "cs2": 16, "cs3": 24, "cs4": 32, "cs5": 40, "cs6": 48, "cs7": 56, "ef": 46, "va": 44, "le": 1,
    "af11": 10, "af12": 12, "af13": 14, "af21": 18, "af22": 20, "af23": 22, "af31": 26, "af32": 28, "af33": 30,
    "af41": 34, "af42": 36, "af43": 38,
}  # fmt: skip
"""RFC 2474, 2597, 3246, 5865, 8622."""


@dataclass(frozen=True)
class Endpoint:
    """One end of a run."""

    host: str
    """Name under which it is watched."""
    ifindex: int | None
    """The NIC that is meant to carry it; None: whichever does, so that no path can be proven."""
    address: str
    """IPv4 or IPv6, IPv6 with a zone where it needs one."""

    @property
    def end(self) -> End | None:
        return None if self.ifindex is None else End(self.host, self.ifindex)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What can be chosen about a run, whatever its ends. None: the generator's default."""

    direction: Direction = "forward"
    """forward: the client sends."""
    protocol: Literal["tcp", "udp"] = "tcp"
    bitrate: int | None = None
    """Bits per second, of each stream."""
    time: int = 10
    """Seconds that count."""
    omit: int = 0
    """Seconds before that, which do not."""
    streams: int = 1
    length: int | None = None
    """Bytes of one write, or of a datagram."""
    mss: int | None = None
    window: int | None = None
    """Bytes of the socket buffers."""
    congestion: str | None = None
    dscp: int | None = None
    """0 to 63."""
    client_cpu: int | None = None
    server_cpu: int | None = None
    zerocopy: bool = False
    port: int = 5201
    interval: float = 0.5
    """Seconds between two lines."""


@dataclass(frozen=True)
class RunPlan(RunOptions):
    """One run."""

    client: Endpoint
    server: Endpoint
    generator: Generator = "iperf3"

    @property
    def ip_version(self) -> Literal[4, 6]:
        return 6 if ":" in self.server.address else 4

    @property
    def sending(self) -> tuple[Literal["client", "server"], ...]:
        """Ends that send payload."""
        if self.direction == "bidirectional":
            return ("client", "server")
        return ("client",) if self.direction == "forward" else ("server",)

    @property
    def senders(self) -> tuple[str, ...]:
        """Hosts that send payload."""
        return tuple(self.client.host if side == "client" else self.server.host for side in self.sending)

    @property
    def seconds(self) -> int:
        """How long it runs."""
        return self.time + self.omit


@dataclass(frozen=True)
class EndpointPair:
    """Two netdevs of two hosts that share a subnet."""

    network: str
    client: Endpoint
    server: Endpoint
    disagreements: tuple[Disagreement, ...] = ()
    """In what these two ends differ."""


def offers(subnets: Iterable[SharedSubnet], snapshots: Iterable[Snapshot]) -> tuple[EndpointPair, ...]:
    """Every pair of ends to choose from, both ways round: devices before virtual links, then as the subnets come. An
    address that several netdevs bear is no place to send to, and two names of one machine are no pair."""
    known = {snapshot.host: snapshot for snapshot in snapshots}
    result = []
    for subnet in subnets:
        sure = [member for member in subnet.members if member.address not in subnet.duplicates]
        for client, server in permutations(sure, 2):
            if _boot(known, client) != _boot(known, server):
                ends = {client.end, server.end}
                differing = tuple(one for one in subnet.disagreements if _differ(one, ends))
                result.append(EndpointPair(subnet.network, _place(client), _place(server), differing))
    return tuple(sorted(result, key=lambda offer: _virtual(known, offer.client) + _virtual(known, offer.server)))


def _boot(known: dict[str, Snapshot], member: Member) -> str:
    snapshot = known.get(member.end.host)
    return (snapshot.hello.boot_id if snapshot is not None and snapshot.hello is not None else "") or member.end.host


def _place(member: Member) -> Endpoint:
    return Endpoint(member.end.host, member.end.ifindex, member.address)


def _differ(one: Disagreement, ends: set[End]) -> bool:
    return sum(bool(ends.intersection(side)) for _, side in one.sides) > 1


def _virtual(known: dict[str, Snapshot], place: Endpoint) -> int:
    link = known[place.host].links.get(place.ifindex or 0) if place.host in known else None
    return int(link is None or link.bus is None)


def dscp_number(word: str) -> int | None:
    """``ef``, ``AF41``, ``46``, ``0x2e`` → 0 to 63; None for what is none."""
    named = DSCP.get(word.lower())
    if named is not None:
        return named
    try:
        number = int(word, 0)
    except ValueError:
        return None
    return number if 0 <= number < 64 else None


def problems(plan: RunPlan) -> tuple[str, ...]:
    """What is wrong with a plan, whatever the hosts can do; () when nothing is."""
    return (*_end_problems(plan), *_range_problems(plan), *_protocol_problems(plan))


def _end_problems(plan: RunPlan) -> Sequence[str]:
    found = []
    versions = set()
    for place in (plan.client, plan.server):
        try:
            versions.add(ipaddress.ip_address(place.address).version)
        except ValueError:
            found.append(f"{place.address!r} is no IP address")
    if len(versions) > 1:
        found.append("one end has an IPv4 address and the other one an IPv6 address")
    if plan.client == plan.server and not _is_loopback(plan.client.address):
        found.append("client and server are the same end")
    return found


def _is_loopback(address: str) -> bool:
    """A run over it measures the machine, and says so."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _range_problems(plan: RunPlan) -> Iterable[str]:
    for name, value, least, most in (
        ("time", plan.time, 1, LONGEST_TIME - max(0, min(plan.omit, LONGEST_OMIT))),
        ("omit", plan.omit, 0, LONGEST_OMIT),
        ("streams", plan.streams, 1, MOST_STREAMS),
        ("mss", plan.mss, SMALLEST_MSS, LARGEST_MSS),
        ("window", plan.window, 1024, 1 << 30),
        ("bitrate", plan.bitrate, 1, 10**13),
        ("dscp", plan.dscp, 0, 63),
        ("client's CPU", plan.client_cpu, 0, 65535),
        ("server's CPU", plan.server_cpu, 0, 65535),
        ("port", plan.port, 1, 65535),
    ):
        if value is not None and not least <= value <= most:
            yield f"{name} is {value}, not from {least} to {most}"
    yield from _length_problems(plan)
    if not plan.interval >= SHORTEST_INTERVAL or plan.interval > 60:
        yield f"interval is {plan.interval:g}, not from {SHORTEST_INTERVAL:g} to 60 seconds"


def _length_problems(plan: RunPlan) -> Iterable[str]:
    builtin, length = plan.generator == "builtin", plan.length
    least = 1 if builtin or plan.protocol == "tcp" else 16
    longest = LONGEST_MESSAGE if builtin else LONGEST_IPERF3_MESSAGE
    if length is None:
        return
    if length < least:
        yield f"length is {length}, and has to be {least} at least"
    elif plan.protocol == "udp" and length > LONGEST_DATAGRAM:
        yield f"a UDP datagram of {length} bytes is longer than {LONGEST_DATAGRAM}"
    elif length > longest:
        who = "the built-in generator" if builtin else "iperf3"
        yield f"length is {length}, and {who} sends messages of up to {longest} bytes"


def _protocol_problems(plan: RunPlan) -> Iterable[str]:
    if plan.generator == "builtin":
        if plan.direction == "bidirectional":
            yield "the built-in generator sends in one direction only"
        if plan.zerocopy and plan.protocol == "tcp":
            yield "the built-in generator has no zerocopy"
    if plan.protocol == "udp":
        for name, value in (("mss", plan.mss), ("congestion control", plan.congestion)):
            if value is not None:
                yield f"{name} belongs to TCP, not to UDP"
        if plan.zerocopy:
            yield "zerocopy belongs to TCP, not to UDP"
    if plan.congestion is not None and not plan.congestion.replace("_", "").isalnum():
        yield f"{plan.congestion!r} is no congestion control"
