"""Findings that rest on what was read before the newest event of their host: it may have changed
what they are about, and the host is being read again.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nictop.model.doubts import Doubts, doubts_of
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import replace
from nictop.rules.finding import Finding
from nictop.rules.host import HostFacts

MAY_HAVE_CHANGED = "may have changed"


def marked(finding: Finding) -> Finding:
    """The finding, which says it: not at the end, where it would be cut."""
    if finding.outdated:
        return finding
    return replace(finding, title=f"{MAY_HAVE_CHANGED}: {finding.title}", outdated=True)


def without_mark(finding: Finding) -> Finding:
    if not finding.outdated:
        return finding
    title = finding.title.removeprefix(f"{MAY_HAVE_CHANGED}: ")
    return replace(finding, title=title, outdated=False)


def as_read(host: HostFacts) -> HostFacts:
    """The host as its inventory has it, without the changes of links since then."""
    links = {link.ifindex: link for link in host.inventory.links}
    return HostFacts(replace(host.snapshot, links=links), host.window)


def with_marks(
    findings: Iterable[Finding],
    hosts: Iterable[Snapshot],
    rests_on_addresses: Callable[[str], bool],
) -> tuple[Finding, ...]:
    """With a mark at all that an event may have changed: they were found before it.
    `rests_on_addresses`: of a rule, see `nictop.rules.registry`."""
    doubts = {host.host: doubts_of(host) for host in hosts}
    found = []
    for finding in findings:
        is_doubtful = _is_doubtful(finding, doubts.get(finding.host), rests_on_addresses)
        found.append(marked(finding) if is_doubtful else finding)
    return tuple(found)


def _is_doubtful(
    finding: Finding, doubts: Doubts | None, rests_on_addresses: Callable[[str], bool]
) -> bool:
    if doubts is None:
        return False
    of_addresses = rests_on_addresses(finding.rule)
    return doubts.concern(finding.ifindex, finding.subject, of_addresses=of_addresses)
