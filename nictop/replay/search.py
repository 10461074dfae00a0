"""When something happens in a recording: a finding appears that was not there a moment before, or a run begins.

Looks ahead with the rules themselves, in steps over what was recorded; each step takes as long as one diagnosis, in a
thread, and the search may be cancelled between two. Nothing is kept: what is asked for again is looked for again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from nictop.hosts.observe import diagnose_in_slices
from nictop.model.facts import clean
from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.model.window import WINDOW, RatesWindow
from nictop.probe.records import Line
from nictop.recording.reader import RecordedItem, Recording
from nictop.replay.run_index import run_marks
from nictop.rules import Finding, HostFacts
from nictop.wire.source import SourceState

STEP = 5.0
"""Seconds between two moments at which the rules are asked, counted from the begin of the recording."""
CHUNK = 60.0
"""Seconds that are looked through at once on the way back."""
BREATH = 32
"""Items of a host after which others have their turn."""
SAME = 0.01
"""Seconds between two moments that are one to whoever looks for the next."""

ProgressCallback = Callable[[float], None]
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Happening:
    """Something that one would want to look at."""

    time: float
    sentence: str


async def happening_after(recording: Recording, moment: float, told: ProgressCallback) -> Happening | None:
    """The first one after a moment. `told` hears how far the search has come. None: there is none."""
    run = next((one for one in _runs(recording) if one.time > moment + SAME), None)
    until = recording.end if run is None else run.time
    async with aclosing(appearing(recording, moment, until, told)) as found:
        async for one in found:
            if one.time > moment + SAME:
                return one
    return run


async def happening_before(recording: Recording, moment: float, told: ProgressCallback) -> Happening | None:
    """The last one before a moment."""
    runs = [one for one in _runs(recording) if one.time < moment - SAME]
    end = moment
    while end > recording.begin:
        begin = max(recording.begin, _grid(recording, end - CHUNK))
        found = [one for one in runs if begin < one.time <= end]
        async with aclosing(appearing(recording, begin, end, told)) as more:
            found += [one async for one in more if one.time < moment - SAME]
        if found:
            return max(found, key=lambda one: one.time)
        end = begin if begin < end else recording.begin
    return runs[-1] if runs else None


def _runs(recording: Recording) -> list[Happening]:
    return [
        Happening(run.begin, f"a run begins: {clean(run.client or '?')} → {clean(run.server or '?')}")
        for run in run_marks(recording)
    ]


async def appearing(
    recording: Recording, since: float, until: float, told: ProgressCallback
) -> AsyncGenerator[Happening, None]:
    """Warnings and critical findings that are there at one step and were not at the one before, from the step at or
    before `since` to that at or before `until`."""
    time = max(recording.begin, _grid(recording, since))
    hosts = [_Host(recording, name, time) for name in recording.hosts]
    before: frozenset[Key] | None = None
    while time <= until:
        told(time)
        await asyncio.sleep(0)
        for host in hosts:
            await host.advance(time)
        watched = [HostFacts(host.snapshot, host.window.parts) for host in hosts if host.snapshot.inventory is not None]
        findings = (await diagnose_in_slices(watched))[0].findings if watched else ()
        serious = {_key(one): one for one in findings if one.severity != "info"}
        if before is not None:
            new = [one for key, one in serious.items() if key not in before]
            if new:
                yield Happening(time, "\n".join(_words(one) for one in new[:5]))
        before = frozenset(serious)
        time += STEP


def _grid(recording: Recording, moment: float) -> float:
    return recording.begin + STEP * math.floor((moment - recording.begin) / STEP + 1e-9)


def _key(finding: Finding) -> Key:
    return finding.host, finding.rule, finding.subject


def _words(finding: Finding) -> str:
    return clean(f"{finding.host}: {finding.title}")


class _Host:
    """One host on the way through the recording."""

    def __init__(self, recording: Recording, name: str, begin: float) -> None:
        self.snapshot, self.window = Snapshot.empty(name), RatesWindow()
        self._reader = recording.reader(name, recording.since(name, begin, WINDOW))
        self._next: RecordedItem | None = None

    async def advance(self, time: float) -> None:
        """Take everything that was heard by then."""
        taken = 0
        while True:
            heard = self._next if self._next is not None else self._reader.next()
            if heard is None or heard.time > time:
                self._next = heard
                return
            self._next = None
            if isinstance(heard.item, SourceState):
                self.snapshot = with_state(self.snapshot, heard.item.state, heard.item.message)
            elif isinstance(heard.item, Line):
                self.snapshot = advance(self.snapshot, heard.item)
            self.window.take(self.snapshot)
            taken += 1
            if taken % BREATH == 0:
                await asyncio.sleep(0)
