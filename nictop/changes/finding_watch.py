"""Whether a finding is still there after a change. Pure: snapshots in, verdicts out.

A rule that has not looked at any counter says the same however long one waits: it is believed at once, as soon as the
inventory is new. One that has looked needs some seconds of rates that are all of after the change.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from nictop.changes.events import Verdict
from nictop.model.snapshot import Snapshot
from nictop.model.window import RatesWindow
from nictop.probe.records import Inventory
from nictop.rules import RULES, Diagnosis, Finding, HostFacts, Rule, diagnose

SETTLED = 2.8
"""Seconds of rates after a change that a rule needs before its silence means something."""
COUNTED = frozenset(("counters", "before", "rates", "vf_base", "window"))
"""Fields of a snapshot and of a watched host that come from counters."""


class FindingWatch:
    """Hears the snapshots of a host from a change on. `since`: when the host had been changed, on its own clock."""

    def __init__(self, finding: Finding, since: float) -> None:
        self._finding, self._since = finding, since
        self._window = RatesWindow()
        self._judged: tuple[Inventory, int] | None = None
        self._said: Verdict | None = None

    def take(self, snapshot: Snapshot, others: Iterable[HostFacts] = ()) -> Verdict | None:
        """What the rule says now; None: the same as before, or there is nothing new to judge by. `others`: the
        other watched hosts, for rules that compare."""
        inventory = snapshot.inventory
        if inventory is None or inventory.pending or inventory.time < self._since or snapshot.state != "live":
            return None
        if snapshot.before is not None and snapshot.before.time >= self._since:  # else: rates of before the change, too
            self._window.take(snapshot)
        parts = self._window.parts
        if self._judged is not None and self._judged[0] is inventory and self._judged[1] == len(parts):
            return None
        self._judged = (inventory, len(parts))
        said, counted = verdict(self._finding, (HostFacts(snapshot, parts), *others))
        if said == self._said or (counted and self._window.seconds < SETTLED):
            return None
        self._said = said
        return said


def verdict(finding: Finding, hosts: Iterable[HostFacts]) -> tuple[Verdict, bool]:
    """(Whether these hosts still show a finding, whether the rule has looked at counters for that)."""
    rule = RULES.get(finding.rule)
    if rule is None:
        return Verdict(False, f"there is no rule {finding.rule}"), False
    said, counted = diagnose_noticing(hosts, [rule])
    for one in said.findings:
        if (one.host, one.subject) == (finding.host, finding.subject):
            return Verdict(False), counted
    for skipped in said.skipped:
        if skipped.host in (finding.host, "") and skipped.subject in (finding.subject, ""):
            return Verdict(False, skipped.reason), counted
    return Verdict(True), counted


def diagnose_noticing(hosts: Iterable[HostFacts], rules: Iterable[Rule]) -> tuple[Diagnosis, bool]:
    """(What the rules say, whether any of them has looked at counters for that)."""
    known = [_noticing(host) for host in hosts]
    diagnosis = diagnose([host for _, host in known], rules)
    return diagnosis, any(one.noticed for pair in known for one in pair)


class _Noticing:
    """Notices that somebody looks at what is counted."""

    noticed = False

    if not TYPE_CHECKING:

        def __getattribute__(self, name: str) -> Any:
            if name in COUNTED:
                object.__setattr__(self, "noticed", True)
            return object.__getattribute__(self, name)


class _Picture(_Noticing, Snapshot):
    pass


class _Host(_Noticing, HostFacts):
    pass


def _noticing(host: HostFacts) -> tuple[_Picture, _Host]:
    """The same host, and the same picture of it, that notice."""
    picture, noticing = object.__new__(_Picture), object.__new__(_Host)
    vars(picture).update(vars(host.snapshot))
    vars(noticing).update(snapshot=picture, window=host.window)
    return picture, noticing
