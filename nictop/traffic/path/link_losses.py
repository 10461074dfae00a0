"""Links of the tested path that were without carrier during the test: what was not answered
meanwhile says nothing of the path.

By rtnetlink messages of their hosts, and by the carrier changes that the probes count during the
test: the kernel sends a message about a lost carrier up to 1 s later (net/core/link_watch.c:
linkwatch_schedule_work). Reads nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from nictop.model.text.words import IFF_UP
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link, LinkChange
from nictop.traffic.hosts.link_roles import takes_packets

if TYPE_CHECKING:
    from nictop.traffic.hosts.host import RunHost

AGGREGATES = ("bond", "team")
"""Kinds of links whose ports carry their packets; a port of a bridge may belong to something
else."""


NO_CARRIER = "has no carrier"
"""`LinkLoss.text` of a link that had none before the test, and has none after it."""


@dataclass(frozen=True)
class LinkLoss:
    """One link."""

    host: str
    nic: str
    ifindex: int
    text: str
    """``lost its carrier at second 4 of the path test, back at second 19``"""


class TestSpan(NamedTuple):
    """The time of a test on the clock of one host."""

    begin: float
    end: float
    """Infinite: its host has not reported the end."""


def link_losses(
    host: RunHost, chosen: Iterable[int], span: TestSpan, counted: int | None
) -> Iterator[LinkLoss]:
    """Of the links by which the path goes, as far as their host knows. `chosen`: their ifindexes,
    the NIC of the address first; `counted`: carrier changes of that one during the test."""
    links = host.snapshot.links
    for number, ifindex in enumerate(dict.fromkeys(chosen)):
        link, text = links.get(ifindex), ""
        name = link.name if link is not None else f"ifindex {ifindex}"
        for lower in _with_lower(links, ifindex):
            text = _reported(host.link_changes, lower, span)
            if text:
                name = links[lower].name if lower in links else name
                break
        if not text and link is not None and link.flags & IFF_UP and link.carrier is False:
            text = NO_CARRIER
        if not text and number == 0 and counted:
            text = "lost its carrier during the path test"
        if text:
            yield LinkLoss(host.name, name, ifindex, text)


def _with_lower(links: Mapping[int, Link], ifindex: int) -> list[int]:
    """The link, then those by which its packets leave."""
    found = [ifindex]
    for current in found:
        link = links.get(current)
        if link is None:
            continue
        lower = []
        if link.kind in AGGREGATES:
            lower += [port.ifindex for port in links.values() if port.master == current]
        if link.kind != "veth" and link.lower_namespace is None and link.lower is not None:
            lower.append(link.lower)
        found += [one for one in lower if one not in found]
    return found


def _reported(changes: Iterable[LinkChange], ifindex: int, span: TestSpan) -> str:
    """What rtnetlink reported of the first loss that was not over before the test; "": none."""
    lost: LinkChange | None = None
    for change in changes:
        if change.ifindex != ifindex:
            continue
        if lost is None:
            if not takes_packets(change) and change.time <= span.end:
                lost = change
        elif takes_packets(change):
            if change.time >= span.begin:
                return _text(lost, change.time, span)
            lost = None
    return _text(lost, math.inf, span) if lost is not None else ""


def _text(lost: LinkChange, back: float, span: TestSpan) -> str:
    what = "lost its carrier"
    if lost.gone:
        what = "disappeared"
    elif not lost.flags & IFF_UP:
        what = "was set down"
    when = f"at second {lost.time - span.begin:.0f} of the path test"
    if lost.time < span.begin:
        when = "before the path test"
    text = f"{what} {when}"
    if back < math.inf:
        text += f", back at second {back - span.begin:.0f}"
        if lost.time < span.begin:
            text += " of it"
    return text
