"""One direction of a path test with everything that is known about it, and how a finding about it is made. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from nictop.probe.records import DropReport, Firewalls, Link, PathTest, ReceivedPackets
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.host import HostFacts
from nictop.traffic.path.outcomes import Outcome, outcome_of
from nictop.traffic.path.result import PathDirection, PathEnd, PathResult

Protocol = Literal["icmp", "udp", "tcp"]
PROTOCOLS: tuple[Protocol, ...] = ("icmp", "udp", "tcp")
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

    @property
    def sender(self) -> PathEnd:
        return self.direction.sender

    @property
    def receiver(self) -> PathEnd:
        return self.direction.receiver

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """Protocol → what came back, of those that were tested."""
        found = {name: outcome_of(self.test, name) for name in PROTOCOLS}
        return {name: outcome for name, outcome in found.items() if outcome.kind != "not_tested"}

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
        ifindex = self.test.path.ifindex if self.test.path is not None else None
        return self.host.snapshot.links.get(ifindex or self.sender.ifindex or 0)

    @property
    def gateway(self) -> str | None:
        return self.test.path.gateway if self.test.path is not None else None

    @property
    def arrived(self) -> tuple[ReceivedPackets, ...] | None:
        """What came in at the receiver; None: unknown."""
        listener = self.direction.listener
        if listener is None or not listener.ended:
            return None
        return listener.arrived if listener.arrived is not None else (listener.delivered or None)

    @property
    def route_back(self) -> int | None:
        """ifindex by which the receiver's route to the sender leaves; None: unknown, or no route."""
        path = self.back.test.path if self.back.test is not None else None
        return path.ifindex if path is not None else None


def incoming_links(tested: TestedDirection) -> tuple[int, ...]:
    """ifindexes by which the receiver received packets of the test, most packets first."""
    counts: dict[int, int] = {}
    for one in tested.arrived or ():
        counts[one.ifindex] = counts.get(one.ifindex, 0) + one.packets
    return tuple(sorted(counts, key=lambda ifindex: -counts[ifindex]))


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
    subject, ifindex = (link.name, link.ifindex) if link is not None else ("", None)
    return Finding(rule, severity, host.name, subject, title, evidence, why, fixes, ifindex)
