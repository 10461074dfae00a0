"""Whether a finding is still there after a change. Pure: snapshots in, verdicts out."""

from __future__ import annotations

from collections.abc import Iterable

from nictop.changes.events import Verdict
from nictop.model.snapshot import Snapshot
from nictop.model.window import RatesWindow
from nictop.probe.records import Inventory
from nictop.rules import RULES, Finding, Watched, diagnose

SETTLED = 2.8
"""Seconds of rates after a change that a rule needs before its silence means something."""


class FindingWatch:
    """Hears the snapshots of a host from a change on. `since`: when the host had been changed, on its own clock."""

    def __init__(self, finding: Finding, since: float) -> None:
        self._finding, self._since = finding, since
        self._window = RatesWindow()
        self._judged: tuple[Inventory, int] | None = None
        self._said: Verdict | None = None

    def take(self, snapshot: Snapshot, others: Iterable[Watched] = ()) -> Verdict | None:
        """What the rule says now; None: the same as before, or there is nothing new to judge by. `others`: the
        other watched hosts, for rules that compare."""
        inventory = snapshot.inventory
        if inventory is None or inventory.time < self._since or snapshot.state != "live":
            return None
        if snapshot.before is None or snapshot.before.time < self._since:
            return None  # these rates are of before the change, too
        self._window.take(snapshot)
        if self._window.seconds < SETTLED:
            return None
        parts = self._window.parts
        if self._judged is not None and self._judged[0] is inventory and self._judged[1] == len(parts):
            return None
        self._judged = (inventory, len(parts))
        said = verdict(self._finding, (Watched(snapshot, parts), *others))
        if said == self._said:
            return None
        self._said = said
        return said


def verdict(finding: Finding, hosts: Iterable[Watched]) -> Verdict:
    """Whether these hosts still show a finding."""
    rule = RULES.get(finding.rule)
    if rule is None:
        return Verdict(False, f"there is no rule {finding.rule}")
    said = diagnose(hosts, [rule])
    for one in said.findings:
        if (one.host, one.subject) == (finding.host, finding.subject):
            return Verdict(False)
    for skipped in said.skipped:
        if skipped.host in (finding.host, "") and skipped.subject in (finding.subject, ""):
            return Verdict(False, skipped.reason)
    return Verdict(True)
