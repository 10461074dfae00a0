"""When the rules are run: soon after a new inventory, and repeatedly, but never so often that it
costs much CPU."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING
from weakref import ref

from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Request
from nictop.tui.controllers.signal import Signal

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.model.snapshot import Snapshot
    from nictop.probe.records import Inventory, Outdated
    from nictop.rules import Diagnosis
    from nictop.tui.controllers.scheduler import Scheduler, Timer

    Events = tuple[Outdated | None, Outdated | None, Outdated | None]

DIAGNOSIS_SECONDS = 2.0
"""Seconds from one diagnosis to the next, unless there is a new inventory."""

PAUSE_FACTOR = 100.0
"""Pause after a diagnosis, as a multiple of its duration: however slow the machine, it costs one
per cent of a CPU."""

INVENTORY_PAUSE_FACTOR = 10.0
"""The same before one for a new inventory: of several hosts, which often have one, or when a
diagnosis is slow."""
SLOW_DIAGNOSIS_SECONDS = 0.1
NO_EVENTS: Events = (None, None, None)


class DiagnosisScheduler:
    """The diagnosis of all hosts together."""

    def __init__(self, sessions: Mapping[str, HostSession], scheduler: Scheduler) -> None:
        self._sessions, self._scheduler = sessions, scheduler
        self.result: Diagnosis | None = None
        self.has_run = False
        """There was a result; it may be forgotten since."""
        self.changed = Signal()
        """`result` is another one."""
        self._diagnosed: tuple[ref[Snapshot], ...] = ()
        """Weak: an inventory of a large host takes 30 MB, and it may have a newer one."""
        self._left: tuple[ref[Snapshot], ...] = ()
        """Snapshots of the time that was left (`forget`): they stay until the hosts are read at the
        other time."""
        self._inventories: dict[str, Inventory] = {}
        """Host → the inventory of the last diagnosis. Where there is a newer one, both consist of
        the same records as far as these are equal."""
        self._compared: dict[str, ref[Inventory]] = {}
        """Host → the newer inventory with which that one was compared."""
        self._events: dict[str, Events] = {}
        """Host → the newest events that its last diagnosis knew."""
        self.behind: dict[str, str] = {}
        """Host → `since_text` of an event that the last diagnosis did not know: also when it is
        read already, until the checks have run on that."""
        self._may_start_at = 0.0
        self._idle = asyncio.Event()
        """No diagnosis is being made."""
        self._idle.set()
        self._forgotten = 0
        """Calls of `forget`."""
        self.next: Timer | None = None
        """Starts the next one."""

    def publish(self, result: Diagnosis | None) -> None:
        if result != self.result:
            self.result = result
            self.has_run = self.has_run or result is not None
            self.changed.publish()

    def forget(self) -> None:
        """The findings are those of another time: nothing is known until the next diagnosis."""
        self._forgotten += 1
        self._left = _references(self._known())
        self._diagnosed, self._inventories, self._events, self._compared = (), {}, {}, {}
        self.behind = {}
        self.publish(None)

    def update(self, new: Mapping[str, Snapshot]) -> None:
        """Diagnose soon if one of these new snapshots has another inventory that the rules can be
        run on. Findings that an event or that inventory may have changed say so at once."""
        self._mark(new)
        if any(self._is_new(name, snapshot) for name, snapshot in new.items()):
            self._scheduler.call_after_refresh(self._start_soon)

    def _mark(self, hosts: Iterable[str]) -> None:
        """Findings of these hosts that are older than an event say so, and those that rest on what
        a newer inventory has changed."""
        if self.result is None:
            return
        known = [self._sessions[name].snapshot for name in hosts if name in self._sessions]
        self.behind |= _since_texts(known)
        new = [one for one in known if _events_of(one) != self._events.get(one.host, NO_EVENTS)]
        result = self.result
        if any(one.unread_event for one in new):
            result = _marked(result, new)
        for snapshot in known:
            result = self._with_changes(result, snapshot)
        self.publish(result)

    def _with_changes(self, result: Diagnosis, snapshot: Snapshot) -> Diagnosis:
        """Once for each inventory that no diagnosis has seen. What is added to a part of one makes
        no finding false."""
        before, after = self._inventories.get(snapshot.host), snapshot.inventory
        if before is None or before.pending or after is None or after is before:
            return result
        compared = self._compared.get(snapshot.host)
        if compared is not None and compared() is after:
            return result
        self._compared[snapshot.host] = ref(after)
        if all(finding.host != snapshot.host for finding in result.findings):
            return result
        from nictop.rules.new_inventory import InventoryChanges, with_changes

        changes = InventoryChanges(before, after)
        return replace(
            result, findings=tuple(with_changes(result.findings, snapshot.host, changes))
        )

    def _is_new(self, host: str, snapshot: Snapshot) -> bool:
        """The rules can be run on its inventory, and were not."""
        diagnosed = self._inventories.get(host)
        if diagnosed is not None and diagnosed is snapshot.inventory:
            return False
        return _is_readable(snapshot)

    def _recheck(self, host: HostSession, result: Diagnosis) -> None:
        """The finding of a problem that is solved has to disappear, and not every solution causes
        an event: the probe of a host with findings reads its inventory again every few seconds,
        except while a run measures that host."""
        known = (*result.findings, *result.unchecked)
        has_findings = any(finding.host == host.name for finding in known)
        wanted = has_findings and not host.in_run
        if wanted != host.rechecked:
            host.rechecked = wanted
            request = partial(host.request, Request(recheck=wanted))
            self._scheduler.run_worker(request, f"recheck {host.name}", "recheck")

    def _start_soon(self) -> None:
        """There is a new inventory: diagnose now, unless a pause is due after the last one."""
        wait = self._may_start_at - monotonic()
        if not self._idle.is_set():
            return
        if wait <= 0:
            self.now()
        else:
            self._start_after(wait)

    def _start_after(self, seconds: float) -> None:
        if self.next is not None:
            self.next.stop()
        self.next = self._scheduler.set_timer(seconds, self.now, name="diagnose")

    def now(self) -> None:
        """Run all rules on what is known now, and again after a pause; nothing if they are being
        run, or were run on the same."""
        if not self._idle.is_set():
            return
        if _references(self._known()) in (self._diagnosed, self._left):
            self._start_after(DIAGNOSIS_SECONDS)
            return
        self._idle.clear()
        self._scheduler.run_worker(self._diagnose, "diagnose", "diagnosis")

    def _known(self) -> list[HostSession]:
        """The hosts of which enough is known."""
        from nictop.model.snapshot import has_platform

        return [host for host in self._sessions.values() if has_platform(host.snapshot)]

    async def renew(self) -> None:
        """Run all rules on what is known now, and wait for that."""
        await self._idle.wait()
        self.now()
        await self._idle.wait()

    async def _diagnose(self) -> None:
        took = 0.0
        try:
            known = self._known()
            snapshots = _references(known)
            if snapshots not in (self._diagnosed, self._left):
                took = await self._diagnose_hosts(known, snapshots)
        finally:
            self._idle.set()
        self._may_start_at = monotonic()
        if len(self._sessions) > 1 or took > SLOW_DIAGNOSIS_SECONDS:
            self._may_start_at += INVENTORY_PAUSE_FACTOR * took
        self._start_after(max(DIAGNOSIS_SECONDS, PAUSE_FACTOR * took))
        # those that are new since then
        self.update({name: host.snapshot for name, host in self._sessions.items()})

    async def _diagnose_hosts(
        self, hosts: Sequence[HostSession], snapshots: tuple[ref[Snapshot], ...]
    ) -> float:
        """Run the rules on these hosts and publish the result, unless that is forgotten meanwhile.
        Returns the CPU seconds that it took."""
        from nictop.hosts.observe import diagnose_in_slices
        from nictop.rules import HostFacts
        from nictop.rules.unchecked import with_unchecked

        forgotten = self._forgotten
        facts = [HostFacts(host.snapshot, host.window.parts) for host in hosts]
        result: Diagnosis | None = None
        took = 0.0
        if facts:
            result, took = await diagnose_in_slices(facts)
        if self._forgotten != forgotten:
            return took
        if result is not None:
            result = with_unchecked(result, self.result, self._sessions)
        self._diagnosed = snapshots
        self._events = {fact.name: _events_of(fact.snapshot) for fact in facts}
        self._inventories = {fact.name: fact.inventory for fact in facts}
        self._compared = {}
        self.behind = _since_texts([fact.snapshot for fact in facts])
        self.publish(result)
        if result is not None:
            self._mark(host.name for host in hosts)  # there were events since its begin
            for host in hosts:
                self._recheck(host, result)
        return took


def _events_of(snapshot: Snapshot) -> Events:
    """One that is reported late is not the newest one of its host."""
    return snapshot.event, snapshot.other_event, snapshot.silence


def _since_texts(snapshots: Iterable[Snapshot]) -> dict[str, str]:
    """Of those that are not read since their last event."""
    from nictop.model.snapshot import since_text

    texts = {snapshot.host: since_text(snapshot) for snapshot in snapshots}
    return {host: text for host, text in texts.items() if text}


def _marked(result: Diagnosis, snapshots: Sequence[Snapshot]) -> Diagnosis:
    from nictop.rules.outdated import with_marks
    from nictop.rules.registry import basis_of

    return replace(result, findings=with_marks(result.findings, snapshots, basis_of))


def _references(hosts: Sequence[HostSession]) -> tuple[ref[Snapshot], ...]:
    """To what they are now."""
    return tuple(ref(host.snapshot) for host in hosts)


def _is_readable(snapshot: Snapshot) -> bool:
    """The rules can be run on it: otherwise they would be started again and again until its next
    inventory."""
    inventory = snapshot.inventory
    return inventory is not None and "platform" not in inventory.pending
