"""Traffic runs: the experiment that runs, whichever screen is shown, or the last one.

It uses the sessions of the watched hosts. `changed` is published a few times a second at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import TYPE_CHECKING

from nictop.errors import NictopError
from nictop.probe.light_dataclasses import dataclass
from nictop.tui.controllers.signal import Signal

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.probe.records import LinkChange, StorageActivity, TrafficTools
    from nictop.recording.file.run_note import RunNote
    from nictop.traffic.experiment.experiment import (
        ChangeRequired,
        ExperimentEnded,
        ExperimentStep,
        StepStarted,
    )
    from nictop.traffic.hosts.host import RunHost
    from nictop.traffic.live.run_view import LiveRun, RunView
    from nictop.traffic.path.result import PathReport
    from nictop.traffic.path.store import StoredPath
    from nictop.traffic.plan.request import RunRequest
    from nictop.traffic.results.selection import StoredRun
    from nictop.traffic.run.events import RunEvent
    from nictop.traffic.run_notes import HostNote, RunNotes
    from nictop.traffic.session import RunSession, SessionEvent
    from nictop.tui.controllers.hosts import WatchedHosts
    from nictop.tui.controllers.scheduler import Scheduler, Timer

RUN_REDRAW_SECONDS = 0.4
"""Between two redraws of a run."""

RUN_STOP_TIMEOUT = 8.0
"""Seconds for a run that is stopped to report its result: both generators end, and the last
counters are read."""


@dataclass(frozen=True)
class FinishedExperiment:
    """An experiment that is over."""

    results: tuple[StoredRun, ...] = ()
    """As far as it was carried out."""
    trouble: str = ""
    """Why it ended before its end, or did not start; "": it did."""
    notes: tuple[str, ...] = ()
    """Remarks on it."""


class TrafficController:
    """At most one experiment at a time; its state stays until the next one starts. `record`: notes
    something about a test in the recording, if one is made."""

    def __init__(
        self,
        hosts: WatchedHosts,
        scheduler: Scheduler,
        record: Callable[[str, RunNote, float], None],
    ) -> None:
        self._watched, self._scheduler, self._record = hosts, scheduler, record
        self.changed = Signal()
        self._task: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._live: LiveRun | None = None
        self._notes: RunNotes | None = None
        """Of this experiment for a recording; None: a self-test, whose hosts are not recorded."""
        self._stopped_at: float | None = None
        """Seconds of CLOCK_MONOTONIC: its view does not change any more from then on."""
        self._answer: asyncio.Future[bool] | None = None
        self.is_self_test = False
        self.form_values: dict[str, str] | None = None
        """Name of a field of the form → its text; None: the form was never opened."""
        self.command_values: Mapping[str, str] = {}
        """The last command of the user, and its options, as they were typed."""
        self.foreign_values: Mapping[str, str] = {}
        """The same of a test against a host that is not watched."""
        self.ended: list[FinishedExperiment] = []
        """Experiments since the start, in order."""
        self.may_run: set[str] = set()
        """Hosts whose probes may run a command that the user has typed."""
        self.path_tests: list[StoredPath] = []
        """Path tests of the user since the start."""
        self._clear()
        hosts.changed.subscribe(self._follow_links)

    def _clear(self) -> None:
        self.request: RunRequest | None = None
        self._session: RunSession | None = None
        self.results: tuple[StoredRun, ...] = ()
        """Of this experiment."""
        self._hosts: Mapping[str, RunHost] = {}
        """Those that take part, by name."""
        self._link_changes: list[LinkChange] = []
        """The last one of each host."""
        self.began: StepStarted | None = None
        """The step that runs now, or ran last."""
        self.began_at = 0.0
        self.wanted: ChangeRequired | None = None
        """What the user has to change before the next step."""
        self.path_test: PathReport | None = None
        """Of the step that runs now."""
        self.sentence = ""
        """What it does now."""
        self.stages: list[tuple[str, float]] = []
        """Of the step that runs now, or ran last: what it did before anything was measured, and the
        seconds of CLOCK_MONOTONIC when it began."""
        self._is_waiting = False
        """The last of them is a wait for a host."""
        self.untested: dict[int, str] = {}
        """Number of a stage of `stages` → what of it was not done."""
        self.storage: tuple[StorageActivity, ...] = ()
        """What block devices and NFS did in the last second of a workload with requests."""
        self.typed: tuple[str, ...] = ()
        """What is to be typed on a host that is not watched."""
        self.trouble = ""
        """Why it ended before its end, or did not start; "": it did."""
        self.notes: list[str] = []
        self._live, self._stopped_at, self._answer = None, None, None
        self._view: RunView | None = None

    # -------------------------------------------------------------------------------- start and end

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def is_stopping(self) -> bool:
        """The user has stopped it, and what it has started is ended."""
        return self.running and self._stopped_at is not None

    @property
    def measures_by_hand(self) -> bool:
        """A measurement runs that the user has begun."""
        return self.running and self.request is not None and self.request.test == "manual"

    @property
    def runs_workload(self) -> bool:
        """A command of the user runs."""
        return self.running and self.request is not None and self.request.test == "workload"

    def start(self, request: RunRequest, *, self_test: bool = False) -> bool:
        """Start; the results of the one before are dropped. False: one is running."""
        if self.running:
            return False
        self._clear()
        self.request, self.is_self_test = request, self_test
        self._task = asyncio.create_task(self._run(request, self_test), name="traffic")
        self.publish()
        return True

    async def stop(self) -> None:
        """End what runs, with the result of what was measured so far, and wait until nothing of it
        is left."""
        task = self._task
        if task is None or task.done():
            return
        self.sentence = "stopping"
        self._stopped_at = monotonic()
        self.publish()
        if self._session is not None and self.began is not None:
            self._session.stop()
            await asyncio.wait({task}, timeout=RUN_STOP_TIMEOUT * self._slowness)
        task.cancel()
        await asyncio.wait({task})

    @property
    def _slowness(self) -> float:
        """Of the slowest host that takes part (`wire.slowness`)."""
        from nictop.traffic.hosts.host import slowness_of

        return slowness_of(self._hosts, self._hosts)

    @property
    def _trouble_of_end(self) -> str:
        """It was ended before its ends had reported what they measured."""
        if self._live is None or not self._live.has_data:
            return "stopped before the first measured data"
        return "stopped, and its ends have not reported in time: what was measured is not saved"

    def answer(self, *, changed: bool) -> None:
        """The user has changed what was wanted, or ends the experiment."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(changed)

    async def _run(self, request: RunRequest, self_test: bool) -> None:
        from nictop.traffic.run_notes import RunNotes
        from nictop.traffic.session import RunSession

        self._notes = None if self_test else RunNotes()
        try:
            sessions = None if self_test else self._sessions_of(request)
            self._session = RunSession(request, sessions, change=self._change)
            self.trouble = (await self._session.run(self._take)).reason
        except asyncio.CancelledError:
            self.trouble = self._trouble_of_end
        except NictopError as error:
            self.trouble = error.with_hint
        except Exception as error:  # the screens continue
            from nictop.wire.errors import internal_error_text

            self.trouble = internal_error_text(error)
        finally:
            self._stopped_at = monotonic()
            self.sentence, self.wanted, self._answer = "", None, None
            if self._notes is not None:
                self._note(self._notes.end(self.trouble))
            self.ended.append(FinishedExperiment(self.results, self.trouble, tuple(self.notes)))
            self._task = None
            self.publish()

    def _sessions_of(self, request: RunRequest) -> list[HostSession]:
        """Those of the watched hosts that take part. Raises NictopError."""
        names = tuple(dict.fromkeys((*request.watched_ends, *request.observers)))
        missing = [name for name in names if name not in self._watched.by_name]
        if missing:
            raise NictopError(f"{', '.join(missing)}: not watched", "add it in 5 Hosts")
        return [self._watched.by_name[name] for name in names]

    async def tools(self, name: str) -> TrafficTools:
        """Which generators a watched host has. NictopError: why that is not known."""
        from nictop.traffic.hosts.host import RunHost

        session = self._watched.by_name.get(name)
        if session is None:
            raise NictopError(f"{name}: not watched")
        host = RunHost(session)
        try:
            return await host.tools()
        finally:
            host.close()

    # --------------------------------------------------------------------------------------- events

    def _take(self, event: SessionEvent) -> None:
        from nictop.traffic.experiment.experiment import (
            ChangeRequired,
            PauseStarted,
            SaveFailed,
            StepEnded,
            StepStarted,
        )
        from nictop.traffic.run.events import PathTested
        from nictop.traffic.session import ExperimentPrepared, Note, WaitEnded

        if self._notes is not None:
            self._note(self._notes.notes_of(event))
        match event:
            case ExperimentPrepared():
                self._hosts = event.hosts
            case StepStarted():
                self._begin_step(event)
            case PauseStarted():
                self._enter(f"pause {event.seconds:g} s")
            case ChangeRequired():
                self.wanted = event
                self._enter(event.sentence)
            case PathTested():
                self._take_path_test(event.report)
            case WaitEnded():
                self._end_wait(event.missing)
            case Note() | SaveFailed():
                self.notes.append(event.sentence)
            case StepEnded():
                self._end_step(event.run)
            case _:
                self._take_run_event(event)
        self._publish_soon()

    def _begin_step(self, began: StepStarted) -> None:
        from nictop.traffic.live.run_view import LiveRun

        self.began, self.began_at, self.wanted, self.path_test = began, monotonic(), None, None
        self.stages, self.untested, self.typed, self.storage = [], {}, (), ()
        self._live = LiveRun(began.step.plan, self._hosts)
        self.publish()  # at once: `began` and the view are of one step

    def _take_path_test(self, report: PathReport) -> None:
        self.path_test = report
        is_partial = any(direction.test is None for direction in report.result.directions)
        if is_partial:
            self._note_missing("path not fully tested")

    def _end_wait(self, missing: str) -> None:
        """The wait is over, and what is missing is said in its place."""
        if self.stages:
            self.stages[-1] = missing, self.stages[-1][1]
        self._note_missing(missing)

    def _note_missing(self, missing: str) -> None:
        """What is done now comes to its end without it."""
        if self.stages:
            self.untested[len(self.stages) - 1] = missing

    def _end_step(self, run: StoredRun) -> None:
        from nictop.traffic.run.events import RunFinished

        self.results += (run,)
        if self._live is not None:  # also of a step that could not be run, or was repeated
            self._live.process(RunFinished(run.result))

    def _take_run_event(self, event: RunEvent | ExperimentEnded) -> None:
        """What the run that is running does."""
        from nictop.traffic.experiment.experiment import ExperimentEnded
        from nictop.traffic.record.log import IntervalMeasured
        from nictop.traffic.run.events import COMMAND, WAITING_FOR_DATA, Stage, StorageMeasured

        if isinstance(event, ExperimentEnded):
            return
        if isinstance(event, Stage) and event.name == COMMAND:
            self.typed = (*self.typed, event.sentence)
        elif isinstance(event, Stage):
            self._enter(event.sentence, is_wait=event.name == "waiting")
        elif isinstance(event, IntervalMeasured) and not self.is_stopping:
            self.sentence = ""
        elif isinstance(event, StorageMeasured):
            self.storage = event.activities
        if self._live is None:
            return
        self._live.process(event)
        if self.sentence == WAITING_FOR_DATA and self._live.has_data:
            self.sentence = ""

    def _note(self, notes: Iterable[HostNote]) -> None:
        for host, note in notes:
            self._record(host, note, monotonic())

    def known_notes(self) -> Iterable[HostNote]:
        """About the test that runs, for a recording that begins now."""
        return () if self._notes is None else self._notes.known()

    def _enter(self, sentence: str, *, is_wait: bool = False) -> None:
        """It does something else from now on; said again, it is the same stage. A wait is one stage
        until it ends, as an attempt to connect that was followed by another has not passed."""
        self.sentence = sentence
        is_same_wait = is_wait and self._is_waiting and bool(self.stages)
        self._is_waiting = is_wait
        if is_same_wait:
            # with the time of all its steps; that of the step itself is beside the host
            self.stages[-1] = f"{sentence} (all steps)", self.stages[-1][1]
        elif not self.stages or self.stages[-1][0] != sentence:
            self.stages.append((sentence, monotonic()))

    @property
    def stage_times(self) -> tuple[tuple[str, float], ...]:
        """What it did, and for how many seconds; of what is running, until now."""
        now = monotonic() if self._stopped_at is None else self._stopped_at
        ends = [*(began for _, began in self.stages[1:]), now]
        times = []
        for (sentence, began), end in zip(self.stages, ends, strict=False):
            times.append((sentence, max(0.0, end - began)))
        return tuple(times)

    async def _change(self, step: ExperimentStep) -> bool:
        """Wait for `answer`."""
        self._answer = asyncio.get_running_loop().create_future()
        self.publish()
        try:
            return await self._answer
        finally:
            self._answer, self.wanted = None, None

    def _follow_change(self) -> None:
        """While it is waited for, what is said of it is what the hosts show now."""
        wanted = self.wanted
        if wanted is None or not self.awaits_answer or not wanted.variable:
            return
        from nictop.traffic.experiment.manual_changes import change_sentence, unmet_change

        step = wanted.step
        missing = unmet_change(wanted.variable, step.value, step.plan, self._hosts)
        sentence = change_sentence(step.change, missing)
        if self.stages and self.stages[-1][0] == self.sentence:
            self.stages[-1] = sentence, self.stages[-1][1]
        self.sentence = sentence

    def _follow_links(self) -> None:
        """A link that is lost is said at once, not with the next interval."""
        if not self.running:
            return
        changes = [host.link_changes[-1] for host in self._hosts.values() if host.link_changes]
        if changes != self._link_changes:
            self._link_changes = changes
            self._publish_soon()

    @property
    def awaits_answer(self) -> bool:
        """It waits for `answer`."""
        return self._answer is not None and not self._answer.done()

    def view(self) -> RunView | None:
        """The step that runs now, or ran last, as last published: all that is drawn of it is from
        one reading."""
        return self._view

    @property
    def seconds_left(self) -> float | None:
        """Estimate for the whole experiment."""
        if not self.running or self.began is None:
            return None
        return max(0.0, self.began.seconds_left - (monotonic() - self.began_at))

    # -------------------------------------------------------------------------------------- publish

    def _publish_soon(self) -> None:
        if self._timer is None:
            self._timer = self._scheduler.set_timer(
                RUN_REDRAW_SECONDS, self.publish, name="run news"
            )

    def publish(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._follow_change()
        self._view = None if self._live is None else self._live.view(self._stopped_at)
        self.changed.publish()
