"""Findings that rest on what was read before the newest event of their host: it may have changed
what they are about, and the host is being read again.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from nictop.model.doubts import Doubts, doubts_of
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import replace
from nictop.rules.finding import Finding
from nictop.rules.host import HostFacts

Basis = Literal["addresses", "functions", "links"]
"""What a rule rests on: also addresses, routes, managers or profiles; PCI functions and the
presence of links, if it is about a function; neither of these."""
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
    sources_of: Callable[[str], Basis],
) -> tuple[Finding, ...]:
    """With a mark at all that an event may have changed: they were found before it. `sources_of`: a
    rule, see `nictop.rules.registry`."""
    doubts = {host.host: doubts_of(host) for host in hosts}
    found = []
    for finding in findings:
        is_doubtful = _is_doubtful(finding, doubts.get(finding.host), sources_of)
        found.append(marked(finding) if is_doubtful else finding)
    return tuple(found)


def _is_doubtful(
    finding: Finding, doubts: Doubts | None, sources_of: Callable[[str], Basis]
) -> bool:
    if doubts is None:
        return False
    basis = sources_of(finding.rule)
    return doubts.concern(
        finding.ifindex,
        finding.subject,
        of_addresses=basis == "addresses",
        of_functions=basis == "functions",
    )
