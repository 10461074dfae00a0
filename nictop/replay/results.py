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
class RecordedResults:
    """Results, and runs without a result, by start time."""

    runs: tuple[StoredRun, ...] = ()
    """In a recording without notes each is an experiment by itself: it does not contain which runs belong together."""
    missing: tuple[str, ...] = ()
    """A cleaned sentence for each run without a result: which run, and why."""


async def recorded_results(recording: Recording, until: float) -> RecordedResults:
    """Results of the last `MAX_RECORDED_RUNS` runs that had started at the time `until`, seconds as in the
    recording."""
    runs: list[StoredRun] = []
    started = [marks for marks in run_marks(recording) if marks.begin <= until]
    problems = (
        [f"only the last {MAX_RECORDED_RUNS} of {len(started)} tests in the recording are shown"]
        if len(started) > MAX_RECORDED_RUNS
        else []
    )
    size = 0
    for marks in started[-MAX_RECORDED_RUNS:]:
        run = RecordedRun(recording, marks)
        await run.advance(until)
        view = run.view()
        size += run.noted_size
        if size > MAX_NOTED_BYTES:
            problems.append(f"{_test_text(recording, marks)} is not shown: the results before it are large")
        elif run.stored is not None:
            runs.append(run.stored)
        elif not run.marks.is_noted and view is not None and view.result is not None:
            end = recording.end if marks.end is None else marks.end
            runs.append(
                StoredRun(
                    marks.identity, marks.identity, view.result, recording.wall_time(end), clean(recording.nictop)
                )
            )
        else:
            problems.append(_no_result_text(recording, marks, run))
    return RecordedResults(tuple(runs), tuple(problems))


def _no_result_text(recording: Recording, marks: RunMarks, run: RecordedRun) -> str:
    why = run.problem or "still running at this time of the recording"
    return f"no result of {_test_text(recording, marks)}: {why}"


def _test_text(recording: Recording, marks: RunMarks) -> str:
    return f"the test ({marks.hosts_text}) at {wall_clock_text(recording.wall_time(marks.begin))}"
