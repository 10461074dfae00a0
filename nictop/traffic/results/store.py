"""Stored runs: one JSON file each in ``$XDG_STATE_HOME/nictop/runs``
(`nictop.traffic.result_files`)."""

from __future__ import annotations

from pathlib import Path

from nictop.probe.light_dataclasses import dataclass, replace
from nictop.traffic.plan.validation import ExperimentKind
from nictop.traffic.result_files import ResultFiles, StoredResults, TooLargeError
from nictop.traffic.results.result import RESULT_SCHEMA, Result

RUN_FILE_SCHEMA = 1
"""Increased when the meaning of a field changes; the result in it has a schema of its own."""


@dataclass(frozen=True)
class WithoutResult:
    """A test that has no result."""

    sentence: str
    """On which test, and why."""
    has_failed: bool = False
    """It has ended so; else it was still running, or its result is not known."""


@dataclass(frozen=True)
class StoredRun:
    """A result with the experiment and the step that it belongs to."""

    identity: str
    experiment: str
    """Identity of the experiment; that of the run begins with it."""
    result: Result
    written: float
    """Seconds since the epoch."""
    version: str
    """Version of nictop."""
    kind: ExperimentKind = "run"
    label: str = ""
    """Name that the user gave the experiment."""
    group: str = ""
    """The same for all runs of a set-up: "A" or "B" in a comparison, the value in a sweep, else
    ""."""
    variable: str = ""
    value: str = ""
    """Variable of the experiment and its value in this run; "" if nothing was varied."""
    number: int = 1
    """Number of the step in its experiment, from 1."""
    schema: int = RUN_FILE_SCHEMA


StoredRuns = StoredResults[StoredRun]
_FILES = ResultFiles(StoredRun, "runs", RUN_FILE_SCHEMA, RESULT_SCHEMA)
directory = _FILES.directory
encode_run = _FILES.encode
read_run, stored_runs = _FILES.read, _FILES.stored
WITHOUT_INTERVALS = "its intervals were too many to be saved"
"""Note of such a result."""


def save_run(run: StoredRun, directory: Path) -> Path:
    """Write one result; see `ResultFiles.save`. One that is too large is written without its
    intervals, and says so."""
    try:
        return _FILES.save(run, directory)
    except TooLargeError:
        result = without_intervals(run.result)
        return _FILES.save(
            replace(run, result=replace(result, notes=(*result.notes, WITHOUT_INTERVALS))),
            directory,
        )


def without_intervals(result: Result) -> Result:
    """Its totals only."""
    flows = tuple(replace(flow, points=(), sent_points=()) for flow in result.flows)
    result = replace(result, flows=flows)
    if result.transactions is not None:
        result = replace(result, transactions=replace(result.transactions, points=()))
    return result


def parse_run(data: bytes) -> StoredRun:
    """Decode a result. Raises NictopError with the reason if it is not valid."""
    return _FILES.parse(data)
