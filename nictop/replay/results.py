"""Results of the traffic runs in a recording, as they would have been stored when they were made.

Reads the recording by `RecordedRun`: the results that nictop noted when it made the runs; in a
recording without such notes every result is computed again by the code that computes it for live
runs.
"""

from __future__ import annotations

from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass
from nictop.recording.reader import Recording
from nictop.replay.position import wall_clock_text
from nictop.replay.run import STILL_RUNNING, RecordedRun
from nictop.replay.run_index import RunMarks, run_marks
from nictop.traffic.results.store import StoredRun, WithoutResult

MAX_RECORDED_RUNS = 50
"""Runs of one recording whose results are computed, the last ones: each takes as long as reading
the seconds around it."""
MAX_NOTED_BYTES = 12 * 1024 * 1024
"""Of all these results as JSON; a usual one has 100,000."""


@dataclass(frozen=True)
class RecordedTest:
    """One run: its result, or why there is none."""

    time: float
    """When it had ended, seconds as in the recording."""
    run: StoredRun | None
    """In a recording without notes each is an experiment by itself: it does not contain which runs
    belong together."""
    missing: WithoutResult | None = None
    """Why there is none; its sentence is clean."""


@dataclass(frozen=True)
class RecordedResults:
    """Results, and runs without a result, by start time."""

    tests: tuple[RecordedTest, ...] = ()
    left_out: tuple[str, ...] = ()
    """Why others are not among them."""

    @property
    def runs(self) -> tuple[StoredRun, ...]:
        return tuple(test.run for test in self.tests if test.run is not None)

    @property
    def missing(self) -> tuple[WithoutResult, ...]:
        tests = (test.missing for test in self.tests if test.missing is not None)
        return (*map(WithoutResult, self.left_out), *tests)

    def until(self, moment: float) -> RecordedResults:
        """What of it had ended at a time of the recording."""
        return RecordedResults(
            tuple(test for test in self.tests if test.time <= moment), self.left_out
        )


async def recorded_results(recording: Recording, until: float) -> RecordedResults:
    """Results of the last `MAX_RECORDED_RUNS` runs that had started at the time `until`, seconds as
    in the recording."""
    tests: list[RecordedTest] = []
    started = [marks for marks in run_marks(recording) if marks.begin <= until]
    left_out: tuple[str, ...] = ()
    if len(started) > MAX_RECORDED_RUNS:
        left_out = (
            f"only the last {MAX_RECORDED_RUNS} of {len(started)} tests in the recording are shown",
        )
    size = 0
    for marks in started[-MAX_RECORDED_RUNS:]:
        run = RecordedRun(recording, marks)
        await run.advance(until)
        size += run.noted_size
        tests.append(_recorded_test(recording, marks, run, is_shown=size <= MAX_NOTED_BYTES))
    return RecordedResults(tuple(tests), left_out)


def _recorded_test(
    recording: Recording, marks: RunMarks, run: RecordedRun, *, is_shown: bool
) -> RecordedTest:
    end = recording.end if marks.end is None else marks.end
    if not is_shown:
        why = f"{_test_text(recording, marks)} is not shown: the results before it are large"
        return RecordedTest(end, None, WithoutResult(why))
    if run.stored is not None:
        return RecordedTest(end, run.stored)
    view = run.view()
    if run.marks.is_noted or view is None or view.result is None:
        return RecordedTest(end, None, _without_result(recording, marks, run))
    written, version = recording.wall_time(end), clean(recording.nictop)
    stored = StoredRun(marks.identity, marks.identity, view.result, written, version)
    return RecordedTest(end, stored)


def _without_result(recording: Recording, marks: RunMarks, run: RecordedRun) -> WithoutResult:
    why = run.problem or STILL_RUNNING
    sentence = f"no result of {_test_text(recording, marks)}: {why}"
    return WithoutResult(sentence, run.has_failed)


def _test_text(recording: Recording, marks: RunMarks) -> str:
    return f"the test ({marks.hosts_text}) at {wall_clock_text(recording.wall_time(marks.begin))}"
