"""What the answers to the packets of a path test mean: answered, silent, refused, prohibited, …;
round-trip times.

Reads nothing. ICMP codes: RFC 792, RFC 1812 5.2.7.1, RFC 4443 3.1; errno: net/ipv4/fib_semantics.c
(fib_props), ip(7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Literal

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import IcmpError, PathReplies, PathTest

OutcomeKind = Literal[
    "answered", "silent", "refused", "prohibited", "unreachable", "expired", "no_neighbour",
    "blocked", "no_route", "failed", "not_tested",
]  # fmt: skip
"""silent: no answer and no error. refused: ICMP port unreachable, or a TCP reset. prohibited: ICMP
administratively prohibited. unreachable: ICMP net or host unreachable of a router. expired: ICMP
time exceeded. no_neighbour: no MAC address. blocked: by the sender's own firewall (EPERM).
no_route: by the sender's own routes. failed: another error."""

DISCARDING_ROUTES = ("unreachable", "prohibit", "blackhole", "throw")
"""Types of routes that drop packets (ip-route(8))."""
UNRESOLVED_STATES = ("incomplete", "failed")
UNCONFIRMED_STATES = ("stale", "delay", "probe")
"""Of a neighbour that has not answered recently (net/core/neighbour.c)."""
"""States of a neighbour entry without a MAC address (ip-neighbour(8))."""

REFUSED = {4: {(3, 2), (3, 3)}, 6: {(1, 4)}}
PROHIBITED = {4: {(3, 9), (3, 10), (3, 13)}, 6: {(1, 1), (1, 5), (1, 6)}}
EXPIRED_TYPES = {4: 11, 6: 3}
UNREACHABLE_TYPES = {4: 3, 6: 1}
"""By IP version: (type, code), or type."""
CODE_TEXTS = {
    (4, 3, 0): "network unreachable", (4, 3, 1): "host unreachable", (4, 3, 2): "protocol "
                                                                                "unreachable",
    (4, 3, 3): "port unreachable", (4, 3, 9): "network prohibited", (4, 3, 10): "host prohibited",
    (4, 3, 13): "administratively prohibited", (4, 11, 0): "time exceeded",
    (6, 1, 0): "no route", (6, 1, 1): "administratively prohibited", (6, 1, 3): "address "
                                                                                "unreachable",
    (6, 1, 4): "port unreachable", (6, 1, 5): "failed policy", (6, 1, 6): "reject route", (6, 3,
        0): "time exceeded",
}  # fmt: skip
"""(IP version, type, code) → its name."""
ERRNO_KINDS: dict[str, OutcomeKind] = {
    "ETIMEDOUT": "silent",
    "ECONNREFUSED": "refused",
    "EPERM": "blocked",
    "EACCES": "no_route",
    "ENETUNREACH": "no_route",
    "EHOSTUNREACH": "no_route",
    "EINVAL": "no_route",
    "EADDRNOTAVAIL": "no_route",
}


@dataclass(frozen=True)
class Outcome:
    """What came back for the packets of one protocol."""

    kind: OutcomeKind
    source: str = ""
    """Address of the sender of the ICMP error; "": there was none."""
    detail: str = ""
    """``ICMP port unreachable``, ``TCP reset``, name of an errno; "": none."""


@dataclass(frozen=True)
class RoundTrips:
    """Round-trip times in seconds."""

    minimum: float
    median: float
    p99: float


def outcome_of(test: PathTest, protocol: Literal["icmp", "udp", "tcp"]) -> Outcome:
    """not_tested: no packet of the protocol was sent."""
    for replies in test.replies:
        if replies.protocol == protocol:
            return _outcome(replies, test.source)
    return Outcome("not_tested")


def _outcome(replies: PathReplies, source: str) -> Outcome:
    """`source`: address of the sender."""
    if replies.rtts:
        return Outcome("answered")
    for error in replies.errors:
        kind = _error_kind(error, source)
        if kind is not None:
            return Outcome(kind, error.source, f"ICMP {error_text(error)}")
    if not replies.error:
        return Outcome("silent")
    kind = ERRNO_KINDS.get(replies.error, "failed")
    if kind == "silent":
        return Outcome(kind)
    if kind == "refused" and replies.protocol == "tcp":
        return Outcome(kind, detail="TCP reset")
    return Outcome(kind, detail=replies.error)


def _error_kind(error: IcmpError, source: str) -> OutcomeKind | None:
    version, code = _version(error), (error.type, error.code)
    if code in REFUSED[version]:
        return "refused"
    if code in PROHIBITED[version]:
        return "prohibited"
    if error.type == EXPIRED_TYPES[version]:
        return "expired"
    if error.type == UNREACHABLE_TYPES[version]:
        return "no_neighbour" if error.source == source.partition("%")[0] else "unreachable"
    return None


def error_text(error: IcmpError) -> str:
    """Its name: ``host unreachable``, or its numbers."""
    return CODE_TEXTS.get(
        (_version(error), error.type, error.code), f"type {error.type} code {error.code}"
    )


def _version(error: IcmpError) -> Literal[4, 6]:
    return 6 if ":" in error.source else 4


def round_trips(replies: PathReplies) -> RoundTrips | None:
    """None: nothing was answered."""
    rtts = replies.rtts
    if not rtts:
        return None
    return RoundTrips(min(rtts), median(rtts), percentile(rtts, 0.99))


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank: the smallest value that at least this share of the values does not exceed.
    Raises ValueError for no values."""
    if not values:
        raise ValueError("no values")
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
