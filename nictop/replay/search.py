"""The next or previous event in a recording: a new finding, or the start of a traffic run.

The rules are evaluated every `STEP_SECONDS` of the recording; each step costs one diagnosis, and the search may be
cancelled between two steps. Results are not cached.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from time import thread_time

from nictop.hosts.observe import diagnose_in_slices
from nictop.hosts.session import HostSession
from nictop.hosts.specification import RECORDED, Host
from nictop.model.facts import clean
from nictop.model.window import RATES_WINDOW_SECONDS
from nictop.recording.reader import NOT_YET, HostReader, RecordedItem, Recording
from nictop.replay.run_index import run_marks
from nictop.rules import Finding

STEP_SECONDS = 5.0
"""Time between two diagnoses; steps are counted from the beginning of the recording."""
BACKWARD_CHUNK_SECONDS = 60.0
"""Seconds that are searched at a time in a backward search."""
SEARCH_SLICE_SECONDS = 0.01
"""CPU seconds after which other tasks run."""
SAME_TIME_SECONDS = 0.01
"""Events within this time of the start of the search are not results."""

ProgressCallback = Callable[[float], None]
"""Called with the time of the recording that the search has reached."""
FindingKey = tuple[str, str, str]
"""(host, rule, subject) of a finding."""


@dataclass(frozen=True)
class RecordingEvent:
    """An event in a recording."""

    time: float
    """Seconds as in the recording."""
    sentence: str


async def event_after(recording: Recording, moment: float, progress: ProgressCallback) -> RecordingEvent | None:
    """The first event after a time of the recording; None: there is none."""
    run = next((one for one in _runs(recording) if one.time > moment + SAME_TIME_SECONDS), None)
    until = recording.end if run is None else run.time
    async with aclosing(new_findings(recording, moment, until, progress)) as found:
        async for one in found:
            if one.time > moment + SAME_TIME_SECONDS:
                return one
    return run


async def event_before(recording: Recording, moment: float, progress: ProgressCallback) -> RecordingEvent | None:
    """The last event before a time of the recording; None: there is none."""
    runs = [one for one in _runs(recording) if one.time < moment - SAME_TIME_SECONDS]
    end = moment
    while end > recording.begin:
        begin = max(recording.begin, _step_time(recording, end - BACKWARD_CHUNK_SECONDS))
        found = [one for one in runs if begin < one.time <= end]
        async with aclosing(new_findings(recording, begin, end, progress)) as more:
            found += [one async for one in more if one.time < moment - SAME_TIME_SECONDS]
        if found:
            return max(found, key=lambda one: one.time)
        end = begin if begin < end else recording.begin
    return runs[-1] if runs else None


def _runs(recording: Recording) -> list[RecordingEvent]:
    return [RecordingEvent(run.begin, f"test starts: {run.hosts_text}") for run in run_marks(recording)]


async def new_findings(
    recording: Recording, since: float, until: float, progress: ProgressCallback
) -> AsyncGenerator[RecordingEvent, None]:
    """Warnings and critical findings that exist at a step and not at the step before it; the steps are those from the
    last one up to `since` to the last one up to `until`. Those before which nothing was recorded are left out: there
    may be years of them."""
    time = max(recording.begin, _step_time(recording, since))
    hosts = [_RecordedHost(recording, name, time) for name in recording.hosts]
    before: frozenset[FindingKey] | None = None
    while time <= until:
        progress(time)
        await asyncio.sleep(0)
        for host in hosts:
            await host.read_until(time)
        known = [host.session.facts for host in hosts if host.session.snapshot.inventory is not None]
        findings = (await diagnose_in_slices(known))[0].findings if known else ()
        serious = {_key(one): one for one in findings if one.severity != "info"}
        if before is not None:
            new = [one for key, one in serious.items() if key not in before]
            if new:
                yield RecordingEvent(time, "\n".join(_finding_text(one) for one in new[:5]))
        before = frozenset(serious)
        time = max(time + STEP_SECONDS, _step_time(recording, min(host.next_time for host in hosts)))


def _step_time(recording: Recording, moment: float) -> float:
    return recording.begin + STEP_SECONDS * math.floor((moment - recording.begin) / STEP_SECONDS + 1e-9)


def _key(finding: Finding) -> FindingKey:
    return finding.host, finding.rule, finding.subject


def _finding_text(finding: Finding) -> str:
    return clean(f"{finding.host}: {finding.title}")


class _RecordedHost:
    """A session that processes the items of one host in the recording."""

    def __init__(self, recording: Recording, name: str, begin: float) -> None:
        self.session = HostSession(Host(name, RECORDED), memory_share=recording.memory_share)
        self._recording, self._name = recording, name
        self._begin = recording.start_time_steps(name, begin, RATES_WINDOW_SECONDS)
        self._reader: HostReader | None = None
        self._next: RecordedItem | None = None
        self._used, self._cpu = 0.0, 0.0

    @property
    def next_time(self) -> float:
        """Of the item after those that were read; infinite: there is none."""
        return math.inf if self._next is None else self._next.time

    async def read_until(self, time: float) -> None:
        """Process the items up to this time."""
        self._cpu = thread_time()
        reader = self._reader = self._reader or await self._first_reader()
        while True:
            await self._charge()
            recorded = self._next if self._next is not None else reader.step()
            if recorded is NOT_YET:
                continue
            if recorded is None or recorded.time > time:
                self._next = recorded
                return
            self._next = None
            if recorded.received is not None:
                self.session.process(recorded.received, recorded.time)

    async def _first_reader(self) -> HostReader:
        while True:
            try:
                next(self._begin)
            except StopIteration as end:
                return self._recording.reader(self._name, end.value)
            await self._charge()

    async def _charge(self) -> None:
        """Let other tasks run after each slice."""
        self._used += thread_time() - self._cpu
        if self._used >= SEARCH_SLICE_SECONDS:
            self._used = 0.0
            await asyncio.sleep(0)
        self._cpu = thread_time()
