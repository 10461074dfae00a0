"""Findings that the newest diagnosis does not have any more stay below the others for a while, then they are resolved.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nictop.rules import Finding, Skipped

GONE_SECONDS = 30.0
"""Time for which a finding stays in the list after the last diagnosis that had it."""
MAX_GONE_FINDINGS = 50
MAX_RESOLVED_FINDINGS = 50


class SkippedCheck(NamedTuple):
    """A check that could not be made, and where."""

    rule: str
    places: tuple[Skipped, ...]


class Entry(NamedTuple):
    """A line of the list."""

    key: str
    about: Finding | SkippedCheck
    first_seen: float = 0.0
    """Seconds, on the clock that `RecentFindings.update` is given."""
    last_seen: float = 0.0
    gone: bool = False
    """The newest diagnosis does not have it."""
    resolved: bool = False
    """Nor had one for `GONE_SECONDS`."""


def keyed_findings(findings: Iterable[Finding], now: float) -> list[Entry]:
    """Entries whose keys are unique and do not depend on the numbers in their text."""
    result: list[Entry] = []
    numbers: dict[str, int] = {}
    for one in findings:
        key = f"{one.rule}:{one.host}:{one.subject}"
        numbers[key] = number = numbers.get(key, 0) + 1
        result.append(Entry(f"{key}:{number}", one, now, now))
    return result


def keyed_checks(skipped: Iterable[Skipped]) -> list[Entry]:
    """One for each check, however many hosts and subjects it was skipped for: as they are counted."""
    places: dict[str, list[Skipped]] = {}
    for one in skipped:
        places.setdefault(one.rule, []).append(one)
    return [Entry(f"skipped:{rule}", SkippedCheck(rule, tuple(found))) for rule, found in places.items()]


class RecentFindings:
    """The findings of the newest diagnosis and, below them, those that it has lost within `GONE_SECONDS`, the last one
    first: at most `MAX_GONE_FINDINGS`, the newest ones."""

    def __init__(self) -> None:
        self.entries: Sequence[Entry] = ()
        self.resolved: Sequence[Entry] = ()
        """Those that were lost before, the last one first: at most `MAX_RESOLVED_FINDINGS`."""

    def forget(self, now: float) -> None:
        """Nothing is known of the findings of `now`: none is open or has just gone. Those resolved by then stay."""
        self.entries = ()
        self.resolved = [one for one in self.resolved if one.last_seen <= now]

    def update(self, findings: Iterable[Finding], now: float) -> None:
        """`now`: seconds; a step back, as in a recording, forgets what was seen later."""
        before = {entry.key: entry for entry in self.entries}
        result = [
            entry._replace(first_seen=min(now, before[entry.key].first_seen)) if entry.key in before else entry
            for entry in keyed_findings(findings, now)
        ]
        known = {entry.key for entry in result}
        lost = sorted((one for one in self.entries if one.key not in known), key=lambda one: one.last_seen)
        gone = [one for one in lost if 0 <= now - one.last_seen <= GONE_SECONDS][-MAX_GONE_FINDINGS:]
        kept = {one.key for one in gone}
        newly = [one._replace(gone=True, resolved=True) for one in reversed(lost) if one.key not in kept]
        again = {one.key for one in newly} | known
        resolved = (*newly, *(one for one in self.resolved if one.key not in again))
        self.resolved = [one for one in resolved if one.last_seen <= now][:MAX_RESOLVED_FINDINGS]
        self.entries = [*result, *(one._replace(gone=True) for one in reversed(gone))]
