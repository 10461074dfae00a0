"""Findings that the newest diagnosis does not have any more stay in the list for some time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nictop.rules import Finding, Skipped

GONE_SECONDS = 30.0
"""Time for which a finding stays in the list after the last diagnosis that had it."""
MAX_GONE_FINDINGS = 50


class Entry(NamedTuple):
    """A line of the list."""

    key: str
    about: Finding | Skipped
    last_seen: float
    """Seconds, on the clock that `RecentFindings.update` is given."""
    gone: bool = False
    """The newest diagnosis does not have it."""


def keyed_entries(entries: Iterable[Finding | Skipped], now: float) -> list[Entry]:
    """Entries whose keys are unique and do not depend on the numbers in their text."""
    result: list[Entry] = []
    numbers: dict[str, int] = {}
    for one in entries:
        key = f"{type(one).__name__}:{one.rule}:{one.host}:{one.subject}"
        numbers[key] = number = numbers.get(key, 0) + 1
        result.append(Entry(f"{key}:{number}", one, now))
    return result


class RecentFindings:
    """The findings of the newest diagnosis and, at their old places, those that it has lost within `GONE_SECONDS`: at
    most `MAX_GONE_FINDINGS`, the newest ones."""

    def __init__(self) -> None:
        self.entries: Sequence[Entry] = ()

    def update(self, findings: Iterable[Finding], now: float) -> None:
        """`now`: seconds; a step back, as in a recording, forgets the lost ones."""
        result = keyed_entries(findings, now)
        known = {entry.key for entry in result}
        gone = [one for one in self.entries if one.key not in known and 0 <= now - one.last_seen <= GONE_SECONDS]
        gone = sorted(gone, key=lambda one: one.last_seen)[-MAX_GONE_FINDINGS:]
        kept = {one.key for one in gone}
        place = 0
        for one in self.entries if gone else ():
            if one.key in known:
                place = next(index for index, entry in enumerate(result) if entry.key == one.key) + 1
            elif one.key in kept:
                result.insert(place, one._replace(gone=True))
                place += 1
        self.entries = result
