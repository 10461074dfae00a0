"""One netdev among those of several watched hosts, and in what the ends of one connection differ.

Reads nothing; takes the newest snapshots. A machine that is watched under two names, or a network namespace that is
seen from two sides, does not double its netdevs: the host that comes first has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from nictop.model.snapshot import ARPHRD_VOID, Snapshot
from nictop.model.text.words import IFF_LOOPBACK
from nictop.probe.records import Link


class End(NamedTuple):
    """A netdev of a host; the name is the one under which the host is watched."""

    host: str
    ifindex: int


@dataclass(frozen=True)
class Disagreement:
    """The ends of one connection have different values where they should have the same."""

    what: Literal["mtu", "speed", "vlan"]
    sides: tuple[tuple[str, tuple[End, ...]], ...]
    """(value as a person reads it, who has it), at least two; the value of most ends first."""


@dataclass(frozen=True, eq=False)
class Netdev:
    """A link and where it is."""

    end: End
    link: Link
    snapshot: Snapshot


def netdevs(snapshots: Iterable[Snapshot]) -> tuple[Netdev, ...]:
    """Every netdev of the hosts but loopback and those of which too little is known yet, by host and ifindex."""
    found: list[Netdev] = []
    seen: set[tuple[str, int, str, str]] = set()
    for snapshot in snapshots:
        boot = snapshot.hello.boot_id if snapshot.hello is not None else ""
        for ifindex, link in sorted(snapshot.links.items()):
            if link.flags & IFF_LOOPBACK or link.type == ARPHRD_VOID:
                continue
            identity = (boot, ifindex, link.name, link.address or "")
            if boot and identity in seen:
                continue
            seen.add(identity)
            found.append(Netdev(End(snapshot.host, ifindex), link, snapshot))
    return tuple(found)


def disagreements(
    what: Literal["mtu", "speed", "vlan"], values: Iterable[tuple[End, str | None]]
) -> tuple[Disagreement, ...]:
    """One, when two ends have different values; none otherwise. What is not known (None) disagrees with nobody."""
    sides: dict[str, dict[End, None]] = {}
    for end, value in values:
        if value is not None:
            sides.setdefault(value, {})[end] = None
    if len(sides) < 2:
        return ()
    ordered = sorted(sides.items(), key=lambda side: (-len(side[1]), side[0]))
    return (Disagreement(what, tuple((value, tuple(ends)) for value, ends in ordered)),)
