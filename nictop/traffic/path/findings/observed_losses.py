"""What a watched hypervisor counted as lost on the links of a guest while its path was tested.
Pure.

Named as the cause are only counters of links on the path (the guest's tap or port, and what is
above it) that rose by at least half of what the test missed; they count packets of anything. The
others are evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nictop.model.devices.pairs import TapPair, pairs
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link, LossCount
from nictop.rules.finding import SEVERITIES, Evidence, Finding
from nictop.rules.host import HostFacts
from nictop.rules.link.taps import TO_THE_GUEST
from nictop.traffic.drops.counted_losses import loss_source, loss_text, names_a_cause, related_links
from nictop.traffic.path.findings.losses import counted_evidence
from nictop.traffic.path.result import PathDirection, PathResult

RULE = "path_hypervisor_loss"
CONSEQUENCES = ("path_lost", "path_no_answer", "path_loss")
"""What it explains: loss without a known cause."""


class Counted(NamedTuple):
    """A counter of a hypervisor's link on the path of a guest."""

    tap: TapPair
    link: Link
    loss: LossCount


def with_observed_losses(
    findings: tuple[Finding, ...],
    result: PathResult,
    snapshots: Mapping[str, Snapshot],
    losses: Mapping[str, Iterable[LossCount]],
) -> tuple[Finding, ...]:
    """The findings of a path test, with the hypervisor's link that dropped its packets in place of
    "packets are lost". `losses`: host that is no end → what was added to its counters during the
    test."""
    unexplained = [finding for finding in findings if finding.rule in CONSEQUENCES]
    if not unexplained or not losses:
        return findings
    lost = max(map(_unanswered, result.directions))
    least = max(1, lost / 2)
    counted = _counted_on_the_path(result, snapshots, losses)
    causes = [counter for counter in counted if counter.loss.count >= least]
    if not causes:
        return tuple(_with_counters_as_evidence(findings, snapshots, losses))
    largest = max(causes, key=lambda counter: counter.loss.count)
    cause = _finding(largest, min(unexplained, key=_severity_rank), lost)
    others = (finding for finding in findings if finding.rule not in CONSEQUENCES)
    return tuple(sorted((cause, *others), key=_severity_rank))


def _severity_rank(finding: Finding) -> int:
    """0: the worst."""
    return SEVERITIES.index(finding.severity)


def _with_counters_as_evidence(
    findings: Iterable[Finding],
    snapshots: Mapping[str, Snapshot],
    losses: Mapping[str, Iterable[LossCount]],
) -> Iterator[Finding]:
    """No counter explains the loss: they are listed with what it does not explain."""
    evidence: list[Evidence] = []
    for host, counts in losses.items():
        evidence += counted_evidence(HostFacts(snapshots[host]), counts)
    for finding in findings:
        if finding.rule in CONSEQUENCES:
            yield replace(finding, evidence=(*finding.evidence, *evidence))
        else:
            yield finding


def _unanswered(direction: PathDirection) -> int:
    """Packets of the test that were sent and not answered."""
    if direction.test is None:
        return 0
    return sum(replies.sent - len(replies.rtts) for replies in direction.test.replies)


def _counted_on_the_path(
    result: PathResult, snapshots: Mapping[str, Snapshot], losses: Mapping[str, Iterable[LossCount]]
) -> Iterator[Counted]:
    first = result.directions[0]
    ends = {(end.host, end.ifindex) for end in (first.sender, first.receiver)}
    known = [snapshot for snapshot in snapshots.values() if snapshot.inventory is not None]
    for tap in pairs(known).taps:
        host, is_of_end = tap.tap.host, (tap.guest.host, tap.guest.ifindex) in ends
        if not is_of_end or host not in losses:
            continue
        related = related_links(snapshots[host], tap.tap.ifindex)
        for count in losses[host]:
            link = snapshots[host].links.get(count.ifindex or 0)
            if link is None or link.ifindex not in related:
                continue
            if _is_cause(link, count):
                yield Counted(tap, link, count)


def _is_cause(link: Link, count: LossCount) -> bool:
    """It counts packets that were lost, and hardly anything else."""
    return _is_not_fetched(link, count) or names_a_cause(count.source, count.name)


def _is_not_fetched(link: Link, count: LossCount) -> bool:
    """It counts what the guest behind a tap did not fetch."""
    _, not_fetched = TO_THE_GUEST.get(link.kind or "", ("", ""))
    return count.source == "link" and count.name == not_fetched


def _finding(found: Counted, worst: Finding, lost: int) -> Finding:
    tap, link, loss = found
    guest = tap.machine or tap.guest.host
    text = loss_text(link.name, loss)
    why = (
        f"{tap.tap.host} counted this during the test, on the path of {guest}: at least half as "
        f"many as were lost."
    )
    if _is_not_fetched(link, loss):
        why += (
            f" {guest} does not fetch its packets in time: its virtual CPUs or the vhost "
            f"thread are busy or stopped."
        )
    return Finding(
        RULE,
        worst.severity,
        tap.tap.host,
        link.name,
        f"drops packets on the path of {guest}: {text}",
        evidence=(
            Evidence("during the test", text, loss_source(link.name, loss)),
            Evidence("unanswered", count_noun(lost, "packet"), "path test"),
            *worst.evidence,
        ),
        why=why,
        ifindex=link.ifindex,
    )
