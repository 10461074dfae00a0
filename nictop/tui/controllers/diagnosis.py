"""When the rules are run: soon after a new inventory, and repeatedly, but never so often that it costs much CPU."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from nictop.probe.records import Request
from nictop.tui.controllers.signal import Signal

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.model.snapshot import Snapshot
    from nictop.rules import Diagnosis
    from nictop.tui.controllers.scheduler import Scheduler, Timer

DIAGNOSIS_SECONDS = 2.0
"""Seconds from one diagnosis to the next, unless there is a new inventory."""

PAUSE_FACTOR = 100.0
"""Pause after a diagnosis, as a multiple of its duration: however slow the machine, it costs one per cent of a CPU."""

INVENTORY_PAUSE_FACTOR = 10.0
"""The same before one for a new inventory: of several hosts, which often have one, or when a diagnosis is slow."""
SLOW_DIAGNOSIS_SECONDS = 0.1


class DiagnosisScheduler:
    """The diagnosis of all hosts together."""

    def __init__(self, sessions: Mapping[str, HostSession], scheduler: Scheduler) -> None:
        self._sessions, self._scheduler = sessions, scheduler
        self.result: Diagnosis | None = None
        self.changed = Signal()
        """`result` is another one."""
        self._diagnosed: tuple[Snapshot, ...] = ()
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
            self.changed.publish()

    def forget(self) -> None:
        """The findings are those of another time: nothing is known until the next diagnosis."""
        self._forgotten += 1
        self._diagnosed = ()
        self.publish(None)

    def update(self, new: Mapping[str, Snapshot]) -> None:
        """Diagnose soon if one of these new snapshots has another inventory that the rules can be run on."""
        diagnosed = {snapshot.host: snapshot.inventory for snapshot in self._diagnosed}
        if any(_is_readable(one) and one.inventory is not diagnosed.get(name) for name, one in new.items()):
            self._scheduler.call_after_refresh(self._start_soon)

    def _recheck(self, one: HostSession, result: Diagnosis) -> None:
        """The finding of a problem that is solved has to disappear, and not every solution causes an event: the probe
        of a host with findings reads its inventory again every few seconds, except while a run measures that host."""
        found = any(finding.host == one.name for finding in result.findings)
        wanted = found and not one.in_run
        if wanted != one.rechecked:
            one.rechecked = wanted
            self._scheduler.run_worker(partial(one.request, Request(recheck=wanted)), f"recheck {one.name}", "recheck")

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
        """Run all rules on what is known now, and again after a pause; nothing if they are being run."""
        if self._idle.is_set():
            self._idle.clear()
            self._scheduler.run_worker(self._diagnose, "diagnose", "diagnosis")

    async def renew(self) -> None:
        """Run all rules on what is known now, and wait for that."""
        await self._idle.wait()
        self.now()
        await self._idle.wait()

    async def _diagnose(self) -> None:
        from nictop.hosts.observe import diagnose_in_slices
        from nictop.model.snapshot import has_platform
        from nictop.rules import HostFacts

        try:
            known = [one for one in self._sessions.values() if has_platform(one.snapshot)]
            snapshots = tuple(one.snapshot for one in known)
            took, forgotten = 0.0, self._forgotten
            if snapshots != self._diagnosed:
                facts = [HostFacts(one.snapshot, one.window.parts) for one in known]
                result, took = await diagnose_in_slices(facts) if known else (None, 0.0)
                is_current = self._forgotten == forgotten
                if is_current:
                    self._diagnosed = snapshots
                    self.publish(result)
                if result is not None and is_current:
                    for one in known:
                        self._recheck(one, result)
        finally:
            self._idle.set()
        pauses = len(self._sessions) > 1 or took > SLOW_DIAGNOSIS_SECONDS
        self._may_start_at = monotonic() + (INVENTORY_PAUSE_FACTOR * took if pauses else 0.0)
        self._start_after(max(DIAGNOSIS_SECONDS, PAUSE_FACTOR * took))
        self.update({name: one.snapshot for name, one in self._sessions.items()})  # those that are new since then


def _is_readable(snapshot: Snapshot) -> bool:
    """The rules can be run on it: otherwise they would be started again and again until its next inventory."""
    inventory = snapshot.inventory
    return inventory is not None and "platform" not in inventory.pending
