"""Findings that the newest diagnosis does not have any more stay below the others for a while, then
they are resolved.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from nictop.probe.light_tuples import NamedTuple
from nictop.rules import Diagnosis, Finding, Skipped
from nictop.rules.by_device import SubjectLoss, not_lost
from nictop.rules.outdated import without_mark

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
    lost: SubjectLoss = ""
    """It is gone because its NIC is, or because its link, which was up, is down: nobody has mended
    it."""
    unchecked: bool = False
    """It is of an earlier diagnosis, and the newest one could not check it (`Diagnosis.unchecked`);
    what was gone before stays so."""
    was_down: bool = False
    """It was found while its link was down."""


def keyed_findings(
    findings: Iterable[Finding], now: float, before: Iterable[Entry] = ()
) -> list[Entry]:
    """Entries whose keys are unique and do not depend on the numbers in their text. `before`: of
    several findings of a rule about one subject, one with the same title keeps its key."""
    known: dict[tuple[str, str], str] = {}
    for entry in before:
        if isinstance(entry.about, Finding):
            known[_base_key(entry.about), without_mark(entry.about).title] = entry.key
    found = [(finding, _base_key(finding)) for finding in findings]
    kept = [known.pop((base, without_mark(finding).title), None) for finding, base in found]
    used = set(kept)
    result: list[Entry] = []
    numbers: dict[str, int] = {}
    for (finding, base), known_key in zip(found, kept, strict=True):
        key = known_key
        while key is None or (known_key is None and key in used):
            numbers[base] = number = numbers.get(base, 0) + 1
            key = f"{base}:{number}"
        result.append(Entry(key, finding, now, now))
    return result


def _base_key(finding: Finding) -> str:
    item = f":{finding.item}" if finding.item else ""
    return f"{finding.rule}:{finding.host}:{finding.subject}{item}"


def keyed_checks(skipped: Iterable[Skipped]) -> list[Entry]:
    """One for each check, however many hosts and subjects it was skipped for: as they are
    counted."""
    places: dict[str, list[Skipped]] = {}
    for place in skipped:
        places.setdefault(place.rule, []).append(place)
    return [
        Entry(f"skipped:{rule}", SkippedCheck(rule, tuple(found))) for rule, found in places.items()
    ]


class RecentFindings:
    """The findings of the newest diagnosis, those that it could not check again and, below them,
    those that it has lost within `GONE_SECONDS`, the last one first: at most `MAX_GONE_FINDINGS`,
    the newest ones."""

    def __init__(self) -> None:
        self.entries: Sequence[Entry] = ()
        self.resolved: Sequence[Entry] = ()
        """Those that were lost before, the last one first: at most `MAX_RESOLVED_FINDINGS`."""

    def lost(self, hosts: Collection[str]) -> int:
        """How many of these hosts are listed still, although their NIC is gone or down."""
        listed = (entry.about for entry in self.entries if entry.lost)
        return sum(isinstance(about, Finding) and about.host in hosts for about in listed)

    def forget(self, now: float) -> None:
        """Nothing is known of the findings of `now`: none is open or has just gone. Those resolved
        by then stay."""
        self.entries = ()
        self.resolved = [entry for entry in self.resolved if entry.last_seen <= now]

    def update(
        self,
        diagnosis: Diagnosis,
        now: float,
        loss_of: Callable[[Finding], SubjectLoss] = not_lost,
    ) -> None:
        """`now`: seconds; a step back, as in a recording, forgets what was seen later. What is not
        checked any more, as after a connection was lost, has not gone. `loss_of`: what is the
        matter with the NIC of a finding now."""
        open_findings = (*diagnosis.findings, *diagnosis.unchecked)
        keyed = keyed_findings(open_findings, now, self.entries)
        opened = self._with_first_seen(keyed, now)
        found = self._with_was_down(opened[: len(diagnosis.findings)], loss_of)
        unchecked = self._with_last_seen(opened[len(found) :])
        left = [_without_mark(entry) for entry in _without(self.entries, opened)]
        missing = [entry for entry in left if entry.gone or _is_of(entry, diagnosis)]
        missing.sort(key=_last_seen, reverse=True)
        lost = [entry._replace(unchecked=False) for entry in missing]
        lost = [entry._replace(lost=_lost(entry, loss_of)) for entry in lost]
        gone = [entry._replace(gone=True) for entry in lost if _is_recent(entry, now)]
        del gone[MAX_GONE_FINDINGS:]
        newly_resolved = [
            entry._replace(gone=True, resolved=True) for entry in _without(lost, gone)
        ]
        before = _without(self.resolved, [*newly_resolved, *opened])
        before = [_with_nic_that_came_back(entry, loss_of) for entry in before]
        resolved = [*newly_resolved, *before]
        past = [entry for entry in resolved if entry.last_seen <= now]
        self.resolved = past[:MAX_RESOLVED_FINDINGS]
        self.entries = [*found, *unchecked, *gone]

    def _with_first_seen(self, found: Iterable[Entry], now: float) -> list[Entry]:
        """The entries, with the times at which those that are known already were seen first. One
        that was gone meanwhile is seen anew: its time has no hole."""
        before = {entry.key: entry.first_seen for entry in self.entries if not entry.gone}
        return [entry._replace(first_seen=min(now, before.get(entry.key, now))) for entry in found]

    def _with_was_down(
        self, found: Iterable[Entry], loss_of: Callable[[Finding], SubjectLoss]
    ) -> list[Entry]:
        """A finding that is only shown still (`Finding.outdated`) was found before the link went
        down."""
        before = {entry.key: entry.was_down for entry in self.entries}
        result = []
        for entry in found:
            is_old = isinstance(entry.about, Finding) and entry.about.outdated
            was_down = before.get(entry.key, False) if is_old else _loss(entry, loss_of) == "down"
            result.append(entry._replace(was_down=was_down))
        return result

    def _with_last_seen(self, unchecked: Iterable[Entry]) -> list[Entry]:
        """Of those that were not checked again: when they were found last, and how."""
        before = {entry.key: entry for entry in self.entries if not entry.gone}
        found = []
        for entry in unchecked:
            known = before.get(entry.key, entry)
            found.append(
                entry._replace(last_seen=known.last_seen, was_down=known.was_down, unchecked=True)
            )
        return found


def _without(entries: Iterable[Entry], others: Iterable[Entry]) -> list[Entry]:
    """The entries that are not among the others."""
    keys = {entry.key for entry in others}
    return [entry for entry in entries if entry.key not in keys]


def _without_mark(entry: Entry) -> Entry:
    if not isinstance(entry.about, Finding):
        return entry
    return entry._replace(about=without_mark(entry.about))


def _is_of(entry: Entry, diagnosis: Diagnosis) -> bool:
    """The checks have run for its host: of one that is watched no more nothing has gone."""
    finding = entry.about
    if not isinstance(finding, Finding) or not diagnosis.hosts:
        return True
    return finding.host in diagnosis.hosts


def _loss(entry: Entry, loss_of: Callable[[Finding], SubjectLoss]) -> SubjectLoss:
    return loss_of(entry.about) if isinstance(entry.about, Finding) else ""


def _lost(entry: Entry, loss_of: Callable[[Finding], SubjectLoss]) -> SubjectLoss:
    """What was not found any more before its NIC has gone stays so; so does what was found while
    its link was down."""
    if entry.gone and not entry.lost:
        return ""
    loss = _loss(entry, loss_of)
    return "" if loss == "down" and entry.was_down else loss


def _with_nic_that_came_back(entry: Entry, loss_of: Callable[[Finding], SubjectLoss]) -> Entry:
    """It was bound to its driver or set up again, and does not have the finding."""
    return entry._replace(lost=_loss(entry, loss_of)) if entry.lost else entry


def _last_seen(entry: Entry) -> float:
    return entry.last_seen


def _is_recent(entry: Entry, now: float) -> bool:
    """It stays in the list."""
    return 0 <= now - entry.last_seen <= GONE_SECONDS
