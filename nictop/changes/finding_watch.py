"""Whether a finding is still there after a change. Pure: snapshots in, verdicts out.

The result of a rule that reads no counter is valid as soon as the inventory is new. A rule that
reads counters needs some seconds of rates that were all measured after the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from nictop.changes.events import RuleVerdict
from nictop.model.snapshot import Snapshot
from nictop.model.window import RatesWindow
from nictop.probe.records import Inventory
from nictop.rules import RULES, Diagnosis, Finding, HostFacts, Rule, diagnose
from nictop.rules.by_device import is_subject_gone
from nictop.rules.registry import hosts_by_name

SETTLED_RATES_SECONDS = 2.8
"""Seconds of rates after a change before the result of a rule that reads counters is valid."""
COUNTER_FIELDS = frozenset(("counters", "before", "rates", "vf_base", "window"))
"""Fields of `Snapshot` and `HostFacts` that are derived from counters."""


class FindingWatch:
    """Checks the snapshots of a host after a change. `since`: when it was applied, seconds of the
    host's CLOCK_MONOTONIC."""

    def __init__(self, finding: Finding, since: float) -> None:
        self._finding, self._since = finding, since
        self._window = RatesWindow()
        self._judged: tuple[Inventory, int] | None = None
        self._verdict: RuleVerdict | None = None
        self.read_at: float | None = None
        """When the inventory of the last result was read, seconds of the host's CLOCK_MONOTONIC;
        None: there was no result."""

    def take(self, snapshot: Snapshot, others: Iterable[HostFacts] = ()) -> RuleVerdict | None:
        """The result of the rule; None: the same as before of an inventory that was judged before,
        or the snapshot has nothing new for it.
        `others`: the other watched hosts, for rules that compare."""
        inventory = snapshot.inventory
        if inventory is None or not self._is_new(snapshot, inventory):
            return None
        has_rates = snapshot.before is not None and snapshot.before.time >= self._since
        if has_rates:  # all of them after the change
            self._window.add(snapshot)
        parts = self._window.parts
        if self._is_judged(inventory, len(parts)):
            return None
        self._judged = (inventory, len(parts))
        new, has_counted = verdict(self._finding, (HostFacts(snapshot, parts), *others))
        if has_counted and self._window.seconds < SETTLED_RATES_SECONDS:
            return None
        if (new, inventory.time) == (self._verdict, self.read_at):
            return None
        self._verdict, self.read_at = new, inventory.time
        return new

    def _is_new(self, snapshot: Snapshot, inventory: Inventory) -> bool:
        """All of it was read after the change."""
        is_complete = not inventory.pending and snapshot.state == "live"
        return is_complete and inventory.time >= self._since

    def _is_judged(self, inventory: Inventory, number: int) -> bool:
        """There was a verdict with this inventory and so many parts of the window."""
        if self._judged is None:
            return False
        judged, judged_number = self._judged
        return inventory is judged and number == judged_number


def verdict(finding: Finding, hosts: Iterable[HostFacts]) -> tuple[RuleVerdict, bool]:
    """(Whether these hosts still have a finding, whether the rule has read counters for that)."""
    rule = RULES.get(finding.rule)
    if rule is None:
        return RuleVerdict(False, f"unknown rule: {finding.rule}"), False
    known = tuple(hosts)
    has_counted = False
    for ordered in host_orders(known, finding.host):
        diagnosis, counted = diagnose_tracked(ordered, [rule])
        has_counted = has_counted or counted
        if any(found.identity == finding.identity for found in diagnosis.findings):
            return RuleVerdict(False), has_counted
        if not rule.compares_hosts:
            break
    for skipped in diagnosis.skipped:
        if skipped.host in (finding.host, "") and skipped.subject in (finding.subject, ""):
            return RuleVerdict(False, skipped.reason), has_counted
    if any(is_subject_gone(finding, host.snapshot) for host in known if host.name == finding.host):
        return RuleVerdict(False, f"{finding.subject} is gone"), has_counted
    return RuleVerdict(True), has_counted


def host_orders(hosts: Sequence[HostFacts], name: str) -> Iterable[Sequence[HostFacts]]:
    """As `diagnose` orders them, then with the host of a finding first, and last, each order once:
    of a fault that two hosts have in the same way, a rule reports one of them by their order, and
    `fix` may be asked for either."""
    own = [host for host in hosts if host.name == name]
    others = [host for host in hosts if host.name != name]
    orders = hosts_by_name(hosts), (*own, *others), (*others, *own)
    return {tuple(host.name for host in order): order for order in orders}.values()


def diagnose_tracked(hosts: Iterable[HostFacts], rules: Iterable[Rule]) -> tuple[Diagnosis, bool]:
    """(The result of the rules, whether any of them has read counters for that)."""
    known = [_tracked(host) for host in hosts]
    diagnosis = diagnose([host for _, host in known], rules, in_order=True)
    return diagnosis, any(tracker.counters_read for tracker in chain.from_iterable(known))


class _TracksCounterAccess:
    """Records whether a field of `COUNTER_FIELDS` is read."""

    counters_read = False

    if not TYPE_CHECKING:

        def __getattribute__(self, name: str) -> Any:
            if name in COUNTER_FIELDS:
                object.__setattr__(self, "counters_read", True)
            return object.__getattribute__(self, name)


class _TrackedSnapshot(_TracksCounterAccess, Snapshot):
    pass


class _TrackedFacts(_TracksCounterAccess, HostFacts):
    pass


def _tracked(host: HostFacts) -> tuple[_TrackedSnapshot, _TrackedFacts]:
    """Copies of the snapshot and of the host that record whether their counters are read."""
    snapshot, tracked = object.__new__(_TrackedSnapshot), object.__new__(_TrackedFacts)
    vars(snapshot).update(vars(host.snapshot))
    vars(tracked).update(snapshot=snapshot, window=host.window)
    return snapshot, tracked
