"""When the rules are asked: anew with inventories, and every now and then, never so often that it costs much.

Reads the pictures of the watched hosts; sets the application's `diagnosis`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from nictop.probe.records import Request

if TYPE_CHECKING:
    from textual.timer import Timer
    from textual.worker import WorkType

    from nictop.hosts.session import HostSession
    from nictop.model.snapshot import Snapshot
    from nictop.rules import Diagnosis
    from nictop.tui.app import NictopApp

DIAGNOSE_EVERY = 2.0
"""Seconds from one diagnosis to the next, unless there is a new inventory."""

DIAGNOSE_PAUSE = 100.0
"""At least so many times as long as a diagnosis takes: however slow the machine, it costs one per cent of a CPU."""

INVENTORY_PAUSE = 10.0
"""The same for one that a new inventory asks for, of many hosts, which have one every other moment, or of one whose
diagnosis takes `LONG` seconds."""
LONG = 0.1


class DiagnosisScheduler:
    """The diagnosis of all hosts together."""

    def __init__(self, app: NictopApp) -> None:
        self._app = app
        self._diagnosed: tuple[Snapshot, ...] = ()
        self._may_diagnose = 0.0
        self._going = False
        self.next: Timer | None = None
        """What asks again."""

    def hear(self, news: Mapping[str, Snapshot]) -> None:
        """There are new pictures: ask soon when one of them has another inventory."""
        diagnosed = {snapshot.host: snapshot.inventory for snapshot in self._diagnosed}
        if any(one.inventory is not diagnosed.get(name) for name, one in news.items()):
            self._app.call_after_refresh(self._soon)

    def _recheck(self, one: HostSession, told: Diagnosis | None) -> None:
        """A finding that is cured has to go, and not every cure causes an event: the probe of a host with findings
        looks again every few seconds, except while a run measures that host."""
        found = told is not None and any(finding.host == one.name for finding in told.findings)
        wanted = found and not one.in_run
        if wanted != one.rechecked:
            one.rechecked = wanted
            ask: WorkType[None] = partial(one.request, Request(recheck=wanted))
            self._app.run_worker(ask, name=f"recheck {one.name}", group="recheck")

    def _soon(self) -> None:
        """There is a new inventory: ask the rules now, if they did not have to think long about the last one."""
        wait = self._may_diagnose - monotonic()
        if self._going:
            return
        if wait <= 0:
            self.now()
        else:
            self._after(wait)

    def _after(self, seconds: float) -> None:
        if self.next is not None:
            self.next.stop()
        self.next = self._app.set_timer(seconds, self.now, name="diagnose")

    def now(self) -> None:
        """Ask all rules about what is known now, after it has been drawn; again after a while. While one diagnosis goes
        on there is no other."""
        if not self._going:
            self._going = True
            work: WorkType[None] = self._ask
            self._app.run_worker(work, name="diagnose", group="diagnosis")

    async def _ask(self) -> None:
        from nictop.hosts.observe import diagnose_in_slices
        from nictop.rules import HostFacts
        from nictop.rules.registry import is_known

        try:
            known = [one for one in self._app.hosts.by_name.values() if is_known(one.snapshot)]
            snapshots = tuple(one.snapshot for one in known)
            took = 0.0
            if snapshots != self._diagnosed:
                watched = [HostFacts(one.snapshot, one.window.parts) for one in known]
                told, took = await diagnose_in_slices(watched) if known else (None, 0.0)
                self._diagnosed = snapshots
                self._app.diagnosis = told
                for one in known:
                    self._recheck(one, told)
        finally:
            self._going = False
        pauses = self._app.several_hosts or took > LONG
        self._may_diagnose = monotonic() + (INVENTORY_PAUSE * took if pauses else 0.0)
        self._after(max(DIAGNOSE_EVERY, DIAGNOSE_PAUSE * took))
        self.hear({one.name: one.snapshot for one in self._app.hosts.by_name.values()})  # what has come meanwhile
