"""The next or previous event in a recording: a new finding, a link that changed, a host that was
rebooted, was lost, fell silent or came back, or the start of a traffic run.

The rules are evaluated every `STEP_SECONDS` of the recording, and at its end; each step costs one
diagnosis, and the search may be cancelled between two steps. What came and went between two of them
is not found; changes of links are, at their own time. Results are not cached.

A finding that only may be there, as an event may have changed what it rests on, is no event as long
as there is another one in that direction.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from time import thread_time

from nictop.hosts.observe import diagnose_in_slices
from nictop.hosts.session import HostSession
from nictop.hosts.specification import RECORDED, Host
from nictop.model.facts import clean
from nictop.model.snapshot import is_outage, outage_seconds
from nictop.model.text.words import IFF_UP
from nictop.model.window import RATES_WINDOW_SECONDS
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Line, Link, LinkChange
from nictop.recording.reader import NOT_YET, HostReader, RecordedItem, Recording
from nictop.replay.run_index import run_marks
from nictop.rules import Finding
from nictop.rules.finding import FindingIdentity
from nictop.traffic.analysis.nic_incidents import EVENT_TEXTS
from nictop.wire.source import SourceState

STEP_SECONDS = 5.0
"""Time between two diagnoses; steps are counted from the beginning of the recording."""
BACKWARD_CHUNK_SECONDS = 60.0
"""Seconds that are searched at a time in a backward search."""
SEARCH_SLICE_SECONDS = 0.01
"""CPU seconds after which other tasks run."""
DOUBT_SECONDS = 2 * STEP_SECONDS
"""Before the start of a search from which on findings are known: by then most hosts were read again
after an event that put a finding in doubt."""
SAME_TIME_SECONDS = 0.01
"""Events within this time of the start of the search are not results."""

ProgressCallback = Callable[[float], None]
"""Called with the time of the recording that the search has reached."""
MAX_NAMED_FINDINGS = 5
"""Findings of one time that are named."""


@dataclass(frozen=True)
class RecordingEvent:
    """An event in a recording."""

    time: float
    """Seconds as in the recording."""
    sentence: str
    is_doubt: bool = False
    """A finding that may be there: the next reading of its host says whether it is."""


async def event_after(
    recording: Recording, moment: float, progress: ProgressCallback
) -> RecordingEvent | None:
    """The first event after a time of the recording; None: there is none."""
    until, next_run = recording.end, None
    for run in _runs(recording):
        if run.time > moment + SAME_TIME_SECONDS:
            until, next_run = run.time, run
            break
    doubt: RecordingEvent | None = None
    async with aclosing(new_events(recording, moment, until, progress)) as events:
        async for event in events:
            if event.time <= moment + SAME_TIME_SECONDS:
                continue
            if not event.is_doubt:
                return event
            doubt = doubt or event
    return next_run or doubt


async def event_before(
    recording: Recording, moment: float, progress: ProgressCallback
) -> RecordingEvent | None:
    """The last event before a time of the recording; None: there is none."""
    latest = moment - SAME_TIME_SECONDS
    runs = [run for run in _runs(recording) if run.time < latest]
    doubts: list[RecordingEvent] = []
    end = moment
    while end > recording.begin:
        begin = max(recording.begin, _step_time(recording, end - BACKWARD_CHUNK_SECONDS))
        found = [run for run in runs if begin < run.time <= end]
        async with aclosing(new_events(recording, begin, end, progress)) as events:
            async for event in events:
                if event.time < latest:
                    (doubts if event.is_doubt else found).append(event)
        if found:
            return max(found, key=lambda event: event.time)
        end = begin if begin < end else recording.begin
    return max(runs or doubts, key=lambda event: event.time, default=None)


def _runs(recording: Recording) -> list[RecordingEvent]:
    return [
        RecordingEvent(run.begin, f"test starts: {run.hosts_text}") for run in run_marks(recording)
    ]


async def new_events(
    recording: Recording, since: float, until: float, progress: ProgressCallback
) -> AsyncGenerator[RecordingEvent, None]:
    """Changes of links, reboots, and warnings and critical findings that exist at a step and not at
    the step before it; the steps are those from `DOUBT_SECONDS` before `since` to the last one up
    to `until`, and that time itself. Those before which nothing was recorded are left out: there
    may be years of them."""
    time = max(recording.begin, _step_time(recording, since - DOUBT_SECONDS))
    hosts = [_RecordedHost(recording, name, time) for name in recording.hosts]
    before: _KnownFindings | None = None
    while time <= until:
        progress(time)
        await asyncio.sleep(0)
        for host in hosts:
            await host.read_until(time)
        for event in sorted(_taken_changes(hosts), key=lambda event: event.time):
            yield event
        serious = await _serious_findings([host.session for host in hosts])
        if before is None:
            before = _KnownFindings(serious)
        else:
            for event in before.take(time, serious):
                yield event
        next_time = min(host.next_time for host in hosts)
        if time >= until:
            return
        step = until
        if next_time < until:
            step = max(time + STEP_SECONDS, _step_time(recording, next_time))
        time = min(step, until)


class _KnownFindings:
    """Those of one step."""

    def __init__(self, first: Iterable[FindingIdentity]) -> None:
        self._sure: set[FindingIdentity] = set(first)
        """Those that exist, or did when it was known last."""
        self._doubtful: set[FindingIdentity] = set()
        """Those that only may exist."""

    def take(
        self, time: float, serious: Mapping[FindingIdentity, Finding]
    ) -> Iterator[RecordingEvent]:
        """Those of the next step, at `time`: what is new among them, first what is sure."""
        sure = {key for key, finding in serious.items() if not finding.outdated}
        doubtful = set(serious) - sure - self._sure
        new = [serious[key] for key in serious if key in sure - self._sure]
        new_doubts = [serious[key] for key in serious if key in doubtful - self._doubtful]
        self._sure, self._doubtful = set(serious) - doubtful, doubtful
        if new:
            yield RecordingEvent(time, _findings_text(new))
        if new_doubts:
            yield RecordingEvent(time, _findings_text(new_doubts), is_doubt=True)


def _taken_changes(hosts: Iterable[_RecordedHost]) -> list[RecordingEvent]:
    """Those since the last call."""
    found: list[RecordingEvent] = []
    for host in hosts:
        found += host.changes
        host.changes = []
    return found


def link_change_text(known: Link | None, change: LinkChange) -> str:
    """``ens224: lost its carrier``; "": nothing of that is new. `known`: the link before."""
    name = clean(change.name)
    if change.gone:
        return f"{name}: {EVENT_TEXTS['removed']}"
    if known is None:
        return f"{name}: new"
    was_up, is_up = bool(known.flags & IFF_UP), bool(change.flags & IFF_UP)
    if was_up != is_up:
        happened = "was set up" if is_up else EVENT_TEXTS["set_down"]
        return f"{name}: {happened}"
    has_new_carrier = change.carrier is not None and change.carrier != known.carrier
    if is_up and has_new_carrier:
        happened = "got its carrier" if change.carrier else EVENT_TEXTS["no_carrier"]
        return f"{name}: {happened}"
    if known.mtu != change.mtu:
        return f"{name}: MTU {known.mtu} → {change.mtu}"
    return ""


async def _serious_findings(sessions: Iterable[HostSession]) -> dict[FindingIdentity, Finding]:
    """Warnings and critical findings about the present state of hosts, by key."""
    facts = [session.facts for session in sessions if session.snapshot.inventory is not None]
    if not facts:
        return {}
    diagnosis, *_ = await diagnose_in_slices(facts)
    serious = [finding for finding in diagnosis.findings if finding.severity != "info"]
    return {finding.identity: finding for finding in serious}


def _step_time(recording: Recording, moment: float) -> float:
    return recording.begin + STEP_SECONDS * math.floor(
        (moment - recording.begin) / STEP_SECONDS + 1e-9
    )


def _findings_text(findings: Sequence[Finding]) -> str:
    named = findings[:MAX_NAMED_FINDINGS]
    return "\n".join(clean(f"{finding.host}: {finding.title}") for finding in named)


class _RecordedHost:
    """A session that processes the items of one host in the recording."""

    def __init__(self, recording: Recording, name: str, begin: float) -> None:
        self.session = HostSession(Host(name, RECORDED), memory_share=recording.memory_share)
        self._recording, self._name = recording, name
        self._begin = recording.start_time_steps(name, begin, RATES_WINDOW_SECONDS)
        self._reader: HostReader | None = None
        self._next: RecordedItem | None = None
        self._used, self._cpu = 0.0, 0.0
        self.changes: list[RecordingEvent] = []
        """Of it and its links, since they were taken."""
        self._last_reading: float | None = None
        """Time of the newest counters: other lines are repeated where reading begins. None: none
        were read, or the connection is lost since."""
        self._is_away = False
        """The connection is lost, or nothing comes."""

    @property
    def next_time(self) -> float:
        """Of the item after those that were read; infinite: there is none."""
        if self._next is None:
            return math.inf
        return self._next.time

    async def read_until(self, time: float) -> None:
        """Process the items up to this time."""
        self._cpu = thread_time()
        reader = self._reader = self._reader or await self._first_reader()
        while True:
            await self._charge()
            recorded = self._next or reader.step()
            if recorded is NOT_YET:
                continue
            if recorded is None or recorded.time > time:
                self._next = recorded
                self._note_silence(time)
                return
            self._note_silence(recorded.time)
            self._next = None
            self._note_change(recorded)
            if recorded.received is not None:
                self._process(recorded.received, recorded.time)

    def _process(self, item: Line | SourceState, time: float) -> None:
        rebooted, was_live = self.session.reboot, self.session.snapshot.state == "live"
        self.session.process(item, time)
        if self.session.reboot is not rebooted:  # that it is back is in it
            self._is_away = False
            self._add(time, "rebooted")
        self._note_connection(item, time, was_live=was_live)

    def _note_silence(self, time: float) -> None:
        """Nothing has come for so long that it is not live, as a screen says it."""
        if self._last_reading is None or self._is_away:
            return
        rates = self.session.snapshot.rates
        interval = 1.0 if rates is None else rates.elapsed
        if is_outage(time - self._last_reading, interval):
            self._is_away = True
            self._add(self._last_reading + outage_seconds(interval), "no data any more")

    def _note_connection(self, item: Line | SourceState, time: float, *, was_live: bool) -> None:
        """It is lost, or something comes of it again."""
        if isinstance(item, Line):
            if item.counters is None:
                return
            if self._is_away:
                self._add(time, "data again")
            self._is_away, self._last_reading = False, time
        elif item.state in ("lost", "failed"):
            if was_live:
                self._add(time, "connection lost")
            self._is_away, self._last_reading = True, None

    def _add(self, time: float, text: str) -> None:
        self.changes.append(RecordingEvent(time, f"{clean(self._name)}: {text}"))

    def _note_change(self, recorded: RecordedItem) -> None:
        change = recorded.item.link_change if isinstance(recorded.item, Line) else None
        snapshot = self.session.snapshot
        if change is None or snapshot.inventory is None:
            return
        text = link_change_text(snapshot.links.get(change.ifindex), change)
        if text:
            self._add(recorded.time, text)

    async def _first_reader(self) -> HostReader:
        while True:
            try:
                next(self._begin)
            except StopIteration as end:
                return self._recording.reader(self._name, end.value, with_history=True)
            await self._charge()

    async def _charge(self) -> None:
        """Let other tasks run after each slice."""
        self._used += thread_time() - self._cpu
        if self._used >= SEARCH_SLICE_SECONDS:
            self._used = 0.0
            await asyncio.sleep(0)
        self._cpu = thread_time()
