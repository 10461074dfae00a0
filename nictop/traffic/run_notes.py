"""Notes about the tests of an experiment for a recording: plan, stages, result, or why there is
none.

`RunNotes` makes them from the events of a `RunSession`; `noted_plan` and `noted_result` read them.
Texts in a recording are not trusted: what is not valid is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from nictop.errors import NictopError
from nictop.probe.light_dataclasses import replace
from nictop.recording.file.run_note import RunNote, RunNoteKind
from nictop.traffic.experiment.events import ChangeRequired, StepEnded, StepStarted
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.plan.plan_problems import plan_problems
from nictop.traffic.results.selection import StoredRun, parse_run
from nictop.traffic.results.store import encode_run, without_intervals
from nictop.traffic.run.events import RunFinished, Stage

if TYPE_CHECKING:
    from nictop.traffic.session import SessionEvent

MAX_NOTED_RESULT_BYTES = 3 << 20
"""Of a result as JSON; with its quotes escaped it is no longer than a line of a recording may be. A
larger one is noted without its intervals, which the lines of the generators contain."""
NO_RESULT = "ended without a result"

HostNote = tuple[str, RunNote]
"""The host at which it is noted, and the note."""

_plan_decoder = msgspec.json.Decoder(RunPlan)


class RunNotes:
    """The notes of one experiment. `clock`: that of the recording."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._prepared_since: float | None = None
        """When the first stage began, before there was a step; None: there was none."""
        self._begun: StepStarted | None = None
        """Its result is not known yet; None: no test runs."""
        self._stage = ""
        self._failure = ""
        """Why the test that runs has failed, as far as it is known."""

    def notes_of(self, event: SessionEvent) -> Iterator[HostNote]:
        """The notes that follow from an event."""
        if isinstance(event, StepStarted):
            self._begun, self._stage, self._failure = event, "", ""
            yield from self.known()
        elif isinstance(event, Stage) and self._begun is None:
            if self._prepared_since is None:
                self._prepared_since = self._clock()
        elif isinstance(event, Stage | ChangeRequired):
            self._stage = event.sentence
            yield from self._noted("stage", event.sentence)
        elif isinstance(event, RunFinished):
            failure = event.result.failure
            self._failure = failure.sentence if failure is not None else ""
        elif isinstance(event, StepEnded):
            yield from self._ended(event.run)

    def end(self, reason: str) -> Iterator[HostNote]:
        """The experiment has ended. `reason`: why before its last step; "": it did not."""
        yield from self._noted("ended", self._failure or reason or NO_RESULT)
        self._begun = None

    def known(self) -> Iterator[HostNote]:
        """For a recording that begins now: what is known of the test that runs."""
        begun = self._begun
        if begun is None:
            return
        plan = msgspec.json.encode(begun.step.plan).decode()
        began = self._prepared_since if begun.number == 1 else None
        yield begun.step.plan.watched_ends[0].host, RunNote(begun.identity, "plan", plan, began)
        server = begun.step.plan.watched_ends[-1].host
        yield server, RunNote(begun.identity, "server")
        if self._stage:
            yield from self._noted("stage", self._stage)

    def _ended(self, run: StoredRun) -> Iterator[HostNote]:
        text = _result_text(run)
        if text:
            yield from self._noted("result", text)
        else:
            yield from self._noted("ended", "its result is too large for a recording")
        self._begun = None

    def _noted(self, kind: RunNoteKind, text: str) -> Iterator[HostNote]:
        begun = self._begun
        if begun is not None:
            yield begun.step.plan.watched_ends[0].host, RunNote(begun.identity, kind, text)


def noted_plan(text: str) -> RunPlan | None:
    """The plan in a note."""
    try:
        plan = _plan_decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return None if plan_problems(plan) else plan


def noted_result(text: str) -> StoredRun | None:
    """The result in a note."""
    try:
        return parse_run(text.encode())
    except (NictopError, UnicodeError):
        return None


def _result_text(run: StoredRun) -> str:
    """As JSON; "": it cannot be noted."""
    for candidate in (run, replace(run, result=without_intervals(run.result))):
        try:
            data = encode_run(candidate)
        except NictopError:
            return ""
        if len(data) <= MAX_NOTED_RESULT_BYTES:
            return data.decode().rstrip("\n")
    return ""
