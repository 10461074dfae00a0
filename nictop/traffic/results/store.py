"""Stored runs: one JSON file each in ``$XDG_STATE_HOME/nictop/runs`` (`nictop.traffic.results.files`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nictop.traffic.results.files import ResultFiles, StoredResults
from nictop.traffic.results.result import RESULT_SCHEMA, Result

RUN_FILE_SCHEMA = 1
"""Increased when the meaning of a field changes; the result in it has a schema of its own."""

ExperimentKind = Literal["run", "repeat", "sweep", "compare"]


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
    """The same for all runs of a set-up: "A" or "B" in a comparison, the value in a sweep, else ""."""
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
save_run, read_run, stored_runs = _FILES.save, _FILES.read, _FILES.stored


def parse_run(data: bytes) -> StoredRun:
    """Decode a result. Raises NictopError with the reason if it is not valid."""
    return _FILES.parse(data)
