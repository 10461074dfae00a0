"""One direction of a path test with everything that is known about it, and how a finding about it
is made. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records import (
    DropReport,
    Firewalls,
    Link,
    PathTest,
    ReceivedPackets,
    TrafficPath,
)
from nictop.rules.far_ends import EndKey, FarEnd
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.host import HostFacts
from nictop.traffic.path.outcomes import Outcome, outcome_of, round_trips
from nictop.traffic.path.result import PathDirection, PathEnd, PathResult

Protocol = Literal["icmp", "udp", "tcp"]
PROTOCOLS: tuple[Protocol, ...] = ("icmp", "udp", "tcp")
DIFFERING_FACTOR, MIN_DIFFERENCE_SECONDS, MIN_ROUND_TRIPS = 2.0, 1e-3, 3
"""From which on two medians of round trips, which are of no direction, need a word."""
PROTOCOL_NAMES = {"icmp": "ICMP echo", "udp": "UDP", "tcp": "TCP"}
ANSWERS = {
    "silent": "no answer",
    "refused": "refused",
    "prohibited": "prohibited",
    "unreachable": "unreachable",
    "expired": "TTL exceeded",
    "no_neighbour": "no MAC address",
    "blocked": "not sent: own filter",
    "no_route": "no route",
    "failed": "not sent",
}
"""`OutcomeKind` → what is shown."""


@dataclass(frozen=True, eq=False)
class TestedDirection:
    """One direction with everything that is known about it."""

    result: PathResult
    direction: PathDirection
    back: PathDirection
    test: PathTest
    host: HostFacts
    """The sender."""
    peer: HostFacts
    """The receiver."""
    firewalls: Firewalls | None
    """Of the receiver."""
    protocols: tuple[Protocol, ...]
    """Those that must pass the firewalls."""
    own_firewalls: Firewalls | None = None
    """Of the sender."""
    drops: Mapping[str, DropReport] = field(default_factory=dict)
    """Host → what its kernel dropped while the test was repeated."""
    far_ends: Mapping[EndKey, FarEnd] = field(default_factory=dict)
    """Of the veths of all watched hosts."""
    watched: Mapping[str, HostFacts] = field(default_factory=dict)
    """Host → facts, of all watched hosts."""

    @property
    def sender(self) -> PathEnd:
        return self.direction.sender

    @property
    def receiver(self) -> PathEnd:
        return self.direction.receiver

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """Protocol → what came back, of those that were tested."""
        found: dict[str, Outcome] = {}
        for name in PROTOCOLS:
            outcome = outcome_of(self.test, name)
            if outcome.kind != "not_tested":
                found[name] = outcome
        return found

    @property
    def is_requested_port(self) -> bool:
        """The tested port is that of the request, not a random one."""
        return self.test.port == self.result.port

    @property
    def is_answered(self) -> bool:
        return any(outcome.kind == "answered" for outcome in self.outcomes.values())

    @property
    def link(self) -> Link | None:
        """By which the sender's route leaves; else the NIC of its address."""
        path = self.test.path
        if path is not None and path.ifindex:
            return self.host.link_at(path.ifindex)
        return self.sender_link

    @property
    def sender_link(self) -> Link | None:
        """The NIC of the sender's address; None: not known."""
        return self.host.link_at(self.sender.ifindex)

    @property
    def receiver_link(self) -> Link | None:
        """The NIC of the receiver's address; None: not known."""
        return self.peer.link_at(self.receiver.ifindex)

    @property
    def gateway(self) -> str | None:
        path = self.test.path
        if path is None:
            return None
        return path.gateway

    @property
    def arrived(self) -> tuple[ReceivedPackets, ...] | None:
        """What came in at the receiver; None: unknown."""
        listener = self.direction.listener
        if listener is None or not listener.ended:
            return None
        if listener.arrived is not None:
            return listener.arrived
        return listener.delivered or None

    @property
    def is_seen_at_receiver(self) -> bool | None:
        """A packet of a protocol that was answered came in at the receiver; None: its packet
        socket is not known to have seen them all."""
        listener = self.direction.listener
        if listener is None or not listener.ended or listener.arrived is None:
            return None
        outcomes = self.outcomes
        answered = [name for name in outcomes if outcomes[name].kind == "answered"]
        return packets_of(listener.arrived, answered) > 0

    @property
    def path_back(self) -> TrafficPath | None:
        """What the kernel of the receiver decides for packets to the sender; None: unknown."""
        back = self.back.test
        if back is None:
            return None
        return back.path

    @property
    def route_back(self) -> int | None:
        """ifindex by which the receiver's route to the sender leaves; None: unknown, or no
        route."""
        path = self.path_back
        if path is None:
            return None
        return path.ifindex


def incoming_links(tested: TestedDirection) -> tuple[int, ...]:
    """ifindexes by which the receiver received packets of the test, most packets first."""
    counts: dict[int, int] = {}
    for packets in tested.arrived or ():
        counts[packets.ifindex] = counts.get(packets.ifindex, 0) + packets.packets
    return tuple(sorted(counts, key=lambda ifindex: -counts[ifindex]))


def packets_of(received: Iterable[ReceivedPackets], protocols: Collection[str]) -> int:
    """Number of packets of these protocols."""
    return sum(packets.packets for packets in received if packets.protocol in protocols)


def path_finding(
    rule: str,
    severity: Severity,
    host: HostFacts,
    link: Link | None,
    title: str,
    *,
    evidence: tuple[Evidence, ...],
    why: str,
    fixes: tuple[Fix, ...] = (),
) -> Finding:
    if link is None:
        return Finding(rule, severity, host.name, "", title, evidence, why, fixes)
    return Finding(rule, severity, host.name, link.name, title, evidence, why, fixes, link.ifindex)


def differing_round_trips(result: PathResult) -> str:
    """``ICMP echo RTT: 176 ms asked by vm1, 24.9 ms by vm2: both are round trips; why they
    differ is not known``; "": they are alike, or not both were measured. Load of the hosts, and
    what was sent meanwhile, delay some replies and not others."""
    there, back = map(_medians, result.directions)
    for protocol in there:
        of_protocol = there[protocol], back.get(protocol, there[protocol])
        low, high = min(of_protocol), max(of_protocol)
        if high < DIFFERING_FACTOR * low or high - low < MIN_DIFFERENCE_SECONDS:
            continue
        first, second = map(units.duration, of_protocol)
        one, other = (clean(direction.sender.host) for direction in result.directions)
        return (
            f"{PROTOCOL_NAMES[protocol]} RTT: {first} asked by {one}, {second} by {other}: both "
            f"are round trips; why they differ is not known"
        )
    return ""


def _medians(direction: PathDirection) -> dict[str, float]:
    """Protocol → median of its round trips; without those of which too few were answered."""
    medians: dict[str, float] = {}
    for replies in () if direction.test is None else direction.test.replies:
        times = round_trips(replies)
        if times is not None and len(replies.rtts) >= MIN_ROUND_TRIPS:
            medians[replies.protocol] = times.median
    return medians
