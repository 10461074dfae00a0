"""The results of the traffic runs in a recording, as they would have been kept when they were made.

Reads the recording by `RecordedRun`, so every result is assembled anew by the code that assembled it live.
`recorded_results` yields what a report takes, and a sentence for each run that cannot be told.
"""

from __future__ import annotations

from dataclasses import dataclass

from nictop.model.text.terminal import clean
from nictop.recording.reader import Recording
from nictop.replay.position import wall_words
from nictop.replay.run import RecordedRun
from nictop.replay.run_index import RunMarks, run_marks
from nictop.traffic.results.selection import StoredRun

MOST = 50
"""Runs that are told of one recording: each takes about as long as the seconds around it take to read."""


@dataclass(frozen=True)
class RecordedResults:
    """In the order in which they began."""

    runs: tuple[StoredRun, ...] = ()
    """Each an experiment of its own: which of them belong together is not in a recording."""
    untold: tuple[str, ...] = ()
    """Which run has no result, and why; sentences are clean."""


async def recorded_results(recording: Recording, until: float) -> RecordedResults:
    """Of the last `MOST` runs that had begun by a moment, seconds as in the recording. Lets others have their turn. A
    run that cannot be told is a sentence."""
    runs: list[StoredRun] = []
    begun = [marks for marks in run_marks(recording) if marks.begin <= until]
    untold = [f"only the last {MOST} of {len(begun)} runs in the recording are told"] if len(begun) > MOST else []
    for marks in begun[-MOST:]:
        run = RecordedRun(recording, marks)
        await run.advance(until)
        picture = run.picture()
        if picture is not None and picture.result is not None:
            over = recording.end if marks.end is None else marks.end
            runs.append(
                StoredRun(marks.identity, marks.identity, picture.result, recording.wall(over), clean(recording.nictop))
            )
        else:
            untold.append(_untold(recording, marks, run))
    return RecordedResults(tuple(runs), tuple(untold))


def _untold(recording: Recording, marks: RunMarks, run: RecordedRun) -> str:
    why = run.trouble or "it was not over at this moment of the recording"
    return f"no result of the run ({marks.hosts_words}) at {wall_words(recording.wall(marks.begin))}: {why}"
