"""Findings of an earlier diagnosis that the newest one could not check: they are not known to be
gone.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection

from nictop.probe.light_dataclasses import replace
from nictop.rules.finding import SEVERITIES, Finding, FindingIdentity
from nictop.rules.outdated import without_mark
from nictop.rules.registry import Diagnosis

NOT_CHECKED_AGAIN = "not checked again yet"


def with_unchecked(
    diagnosis: Diagnosis, before: Diagnosis | None, watched: Collection[str]
) -> Diagnosis:
    """The diagnosis with those of the one before. `watched`: names of the hosts that still are."""
    if before is None:
        return diagnosis
    places = skipped_places(diagnosis)
    known = {finding.identity for finding in diagnosis.findings}
    left: dict[FindingIdentity, Finding] = {}
    for finding in (*before.findings, *before.unchecked):
        is_open = finding.host in watched and is_unchecked(finding, diagnosis.hosts, places)
        if is_open and finding.identity not in known:
            left.setdefault(finding.identity, without_mark(finding))
    unchecked = sorted(left.values(), key=_severity_rank)
    return replace(diagnosis, unchecked=tuple(unchecked))


def skipped_places(diagnosis: Diagnosis) -> set[tuple[str, str, str]]:
    """Rule, host and subject; the subject is "" where it was skipped for the whole host."""
    return {(one.rule, one.host, one.subject) for one in diagnosis.skipped}


def is_unchecked(
    finding: Finding, hosts: Collection[str], skipped: Collection[tuple[str, str, str]]
) -> bool:
    """Its rule was not evaluated for its host, or skipped there. `skipped`: as `skipped_places`
    returns them."""
    if hosts and finding.host not in hosts:
        return True
    places = ((finding.rule, finding.host, subject) for subject in ("", finding.subject))
    return any(place in skipped for place in places)


def why_unchecked(finding: Finding, diagnosis: Diagnosis) -> tuple[str, ...]:
    """Why its check was skipped there; empty: its host was not checked at all."""
    reasons = [
        check.reason
        for check in diagnosis.skipped
        if (check.rule, check.host) == (finding.rule, finding.host)
        and check.subject in ("", finding.subject)
    ]
    return tuple(dict.fromkeys(reasons))


def open_findings(diagnosis: Diagnosis | None) -> tuple[Finding, ...]:
    """Those of the diagnosis, and then those that were not checked again, which say so: not at the
    end, where it would be cut. These have the mark of what may have changed, too."""
    if diagnosis is None:
        return ()
    old = (
        replace(finding, title=f"{NOT_CHECKED_AGAIN}: {finding.title}", outdated=True)
        for finding in diagnosis.unchecked
    )
    return (*diagnosis.findings, *old)


def _severity_rank(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)
