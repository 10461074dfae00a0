"""Netdevs of several watched hosts, and differences between the ends of a connection.

Reads nothing; takes the newest snapshots. A machine that is watched under two names, or a network
namespace that is visible twice, does not give its netdevs twice: they belong to the first host.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from nictop.model.parts import boot_id
from nictop.model.snapshot import Snapshot, is_unread_link
from nictop.model.text.words import IFF_LOOPBACK
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link


class End(NamedTuple):
    """A netdev of a host; `host` is the name under which the host is watched."""

    host: str
    ifindex: int


@dataclass(frozen=True)
class Disagreement:
    """The ends of one connection have different values of a property that should be equal."""

    what: Literal["mtu", "speed", "vlan"]
    sides: tuple[tuple[str, tuple[End, ...]], ...]
    """(value as text, ends with this value), at least two; the most frequent value first."""


@dataclass(frozen=True, eq=False)
class Netdev:
    """A link with its host."""

    end: End
    link: Link
    snapshot: Snapshot


def netdevs(snapshots: Iterable[Snapshot]) -> tuple[Netdev, ...]:
    """Every netdev of the hosts except loopback and those without an inventory yet, by host and
    ifindex."""
    found: list[Netdev] = []
    seen: set[tuple[str, int, int, str, str]] = set()
    for snapshot in snapshots:
        boot = boot_id(snapshot) or ""
        namespace = snapshot.hello.network_namespace if snapshot.hello is not None else 0
        for ifindex, link in sorted(snapshot.links.items()):
            if link.flags & IFF_LOOPBACK or is_unread_link(link):
                continue
            identity = (boot, namespace, ifindex, link.name, link.address or "")
            if boot and identity in seen:
                continue
            seen.add(identity)
            found.append(Netdev(End(snapshot.host, ifindex), link, snapshot))
    return tuple(found)


def disagreements(
    what: Literal["mtu", "speed", "vlan"], values: Iterable[tuple[End, str | None]]
) -> tuple[Disagreement, ...]:
    """One element if two ends have different values, else none. Unknown values (None) are
    ignored."""
    sides: dict[str, dict[End, None]] = {}
    for end, value in values:
        if value is not None:
            sides.setdefault(value, {})[end] = None
    if len(sides) < 2:
        return ()
    ordered = sorted(sides.items(), key=lambda side: (-len(side[1]), side[0]))
    return (Disagreement(what, tuple((value, tuple(ends)) for value, ends in ordered)),)
