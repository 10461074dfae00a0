"""Results of the traffic runs in a recording, as they would have been stored when they were made.

Reads the recording by `RecordedRun`: the results that nictop noted when it made the runs; in a recording without such
notes every result is computed again by the code that computes it for live runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from nictop.model.text.terminal import clean
from nictop.recording.reader import Recording
from nictop.replay.position import wall_clock_text
from nictop.replay.run import RecordedRun
from nictop.replay.run_index import RunMarks, run_marks
from nictop.traffic.results.selection import StoredRun

MAX_RECORDED_RUNS = 50
"""Runs of one recording whose results are computed, the last ones: each takes as long as reading the seconds around
it."""
MAX_NOTED_BYTES = 12 * 1024 * 1024
"""Of all these results as JSON; a usual one has 100,000."""


@dataclass(frozen=True)
class RecordedTest:
    """One run: its result, or why there is none."""

    time: float
    """When it had ended, seconds as in the recording."""
    run: StoredRun | None
    """In a recording without notes each is an experiment by itself: it does not contain which runs belong together."""
    why_not: str = ""
    """Without a result: a cleaned sentence on which run, and why."""


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
    def missing(self) -> tuple[str, ...]:
        return (*self.left_out, *(test.why_not for test in self.tests if test.run is None))

    def until(self, moment: float) -> RecordedResults:
        """What of it had ended at a time of the recording."""
        return RecordedResults(tuple(test for test in self.tests if test.time <= moment), self.left_out)


async def recorded_results(recording: Recording, until: float) -> RecordedResults:
    """Results of the last `MAX_RECORDED_RUNS` runs that had started at the time `until`, seconds as in the
    recording."""
    tests: list[RecordedTest] = []
    started = [marks for marks in run_marks(recording) if marks.begin <= until]
    left_out: tuple[str, ...] = ()
    if len(started) > MAX_RECORDED_RUNS:
        left_out = (f"only the last {MAX_RECORDED_RUNS} of {len(started)} tests in the recording are shown",)
    size = 0
    for marks in started[-MAX_RECORDED_RUNS:]:
        run = RecordedRun(recording, marks)
        await run.advance(until)
        view = run.view()
        size += run.noted_size
        end = recording.end if marks.end is None else marks.end
        if size > MAX_NOTED_BYTES:
            why_not = f"{_test_text(recording, marks)} is not shown: the results before it are large"
            tests.append(RecordedTest(end, None, why_not))
        elif run.stored is not None:
            tests.append(RecordedTest(end, run.stored))
        elif not run.marks.is_noted and view is not None and view.result is not None:
            written, version = recording.wall_time(end), clean(recording.nictop)
            stored = StoredRun(marks.identity, marks.identity, view.result, written, version)
            tests.append(RecordedTest(end, stored))
        else:
            tests.append(RecordedTest(end, None, _no_result_text(recording, marks, run)))
    return RecordedResults(tuple(tests), left_out)


def _no_result_text(recording: Recording, marks: RunMarks, run: RecordedRun) -> str:
    why = run.problem or "still running at this time of the recording"
    return f"no result of {_test_text(recording, marks)}: {why}"


def _test_text(recording: Recording, marks: RunMarks) -> str:
    return f"the test ({marks.hosts_text}) at {wall_clock_text(recording.wall_time(marks.begin))}"
