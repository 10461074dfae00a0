"""Links of the tested path that were without carrier during the test: what was not answered
meanwhile says nothing of the path.

By rtnetlink messages of their hosts, and by the carrier changes that the probes count during the
test: the kernel sends a message about a lost carrier up to 1 s later (net/core/link_watch.c:
linkwatch_schedule_work). Reads nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from nictop.model.text.words import IFF_UP
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link, LinkChange
from nictop.traffic.hosts.link_roles import common_times, takes_packets

if TYPE_CHECKING:
    from nictop.traffic.hosts.host import RunHost

AGGREGATES = ("bond", "team")
"""Kinds of links whose ports carry their packets; a port of a bridge may belong to something
else."""


LOST_CARRIER = "lost its carrier"
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


@dataclass(frozen=True)
class ReportedLoss:
    """One link, as its host reported it."""

    host: str
    nic: str
    ifindex: int
    what: str = ""
    """``lost its carrier``, or `NO_CARRIER`; "": it has a carrier."""
    second: float | None = None
    """Of the path test, at which it began; None: it is not known, or has no time."""
    back: float = math.inf
    """At which it ended; infinite: it was not reported."""

    @property
    def text(self) -> str:
        """As `LinkLoss.text`."""
        if self.second is None:
            return self.what
        is_before = self.second < 0.0
        when = "before" if is_before else f"at second {self.second:.0f} of"
        text = f"{self.what} {when} the path test"
        if self.back < math.inf:
            text += f", back at second {self.back:.0f}"
            if is_before:
                text += " of it"
        return text


class TestSpan(NamedTuple):
    """The time of a test on the clock of one host."""

    begin: float
    end: float
    """Infinite: its host has not reported the end."""


def link_losses(
    host: RunHost, chosen: Iterable[int], span: TestSpan, counted: int | None
) -> Iterator[ReportedLoss]:
    """Of the links by which the path goes, as far as their host knows. `chosen`: their ifindexes,
    the NIC of the address first; `counted`: carrier changes of that one during the test."""
    for number, ifindex in enumerate(dict.fromkeys(chosen)):
        loss = _loss_of(host, ifindex, span)
        if not loss.what and number == 0 and counted:
            loss = replace(loss, what="lost its carrier during the path test")
        if loss.what:
            yield loss


def _loss_of(host: RunHost, ifindex: int, span: TestSpan) -> ReportedLoss:
    """As it was reported of the link or of one below it; else as the link is now."""
    links = host.snapshot.links
    link = links.get(ifindex)
    name = link.name if link is not None else f"ifindex {ifindex}"
    for lower in _with_lower(links, ifindex):
        reported = _reported(host.link_changes, lower, span)
        if reported is not None:
            what, begin, back = reported
            nic = links[lower].name if lower in links else name
            return ReportedLoss(host.name, nic, ifindex, what, begin, back)
    is_without = link is not None and link.flags & IFF_UP and link.carrier is False
    return ReportedLoss(host.name, name, ifindex, NO_CARRIER if is_without else "")


def with_common_times(losses: Sequence[ReportedLoss]) -> tuple[LinkLoss, ...]:
    """A loss that both ends report is one event: it has the time of the first report, and its end
    that of the last."""
    found = []
    for loss in losses:
        text = _at_common_time(loss, losses).text
        found.append(LinkLoss(loss.host, loss.nic, loss.ifindex, text))
    return tuple(found)


def _at_common_time(loss: ReportedLoss, losses: Iterable[ReportedLoss]) -> ReportedLoss:
    if loss.second is None:
        return loss
    for other in losses:
        is_one = LOST_CARRIER in (loss.what, other.what)
        if other.host == loss.host or other.second is None or not is_one:
            continue
        times = common_times((loss.second, loss.back), (other.second, other.back))
        if times is not None:
            begin, back = times
            return replace(loss, second=begin, back=back)
    return loss


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


def _reported(
    changes: Iterable[LinkChange], ifindex: int, span: TestSpan
) -> tuple[str, float, float] | None:
    """What rtnetlink reported of the first loss that was not over before the test: what it was, and
    the seconds of its begin and end; None: there was none."""
    lost: LinkChange | None = None
    for change in changes:
        if change.ifindex != ifindex:
            continue
        if lost is None:
            if not takes_packets(change) and change.time <= span.end:
                lost = change
        elif takes_packets(change):
            if change.time >= span.begin:
                return _what(lost), lost.time - span.begin, change.time - span.begin
            lost = None
    return (_what(lost), lost.time - span.begin, math.inf) if lost is not None else None


def _what(lost: LinkChange) -> str:
    if lost.gone:
        return "disappeared"
    return LOST_CARRIER if lost.flags & IFF_UP else "was set down"
