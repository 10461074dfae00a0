"""Results that stay: one JSON file each in ``$XDG_STATE_HOME/nictop/runs``, written whole or not at all, and read back.

`keep` and `read` touch the file system; `encoded` and `parse_kept` are pure. A file may be cut short, changed, of a
newer nictop or no result at all: reading it raises NictopError with a sentence, listing tells such files beside the
others. What texts in a file say is data: whoever shows it cleans it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nictop.errors import NictopError
from nictop.files import NotRegularFileError, open_regular_file, state_directory, write_atomically
from nictop.model.text.terminal import clean
from nictop.model.text.units import bytes_
from nictop.traffic.results.result import SCHEMA as RESULT_SCHEMA
from nictop.traffic.results.result import Result

if TYPE_CHECKING:
    import msgspec

SCHEMA = 1
"""Raised when a field changes its meaning; that of the result has its own."""

LARGEST = 64 << 20
"""Bytes of a file: a run of a day with two lines a second has less."""
MOST_RUNS = 1000
MOST_BYTES = 256 << 20
"""That are read for a list; older files are left out."""
IDENTITY = re.compile(r"[0-9A-Za-z-]{1,64}", re.ASCII)
"""Of a run: part of a file's name."""

ExperimentKind = Literal["run", "repeat", "sweep", "compare"]


@dataclass(frozen=True)
class StoredRun:
    """A result and what it belongs to."""

    identity: str
    """Of the run."""
    experiment: str
    """Identity of the experiment."""
    result: Result
    written: float
    """Seconds since the epoch."""
    version: str
    """Of nictop."""
    kind: ExperimentKind = "run"
    label: str = ""
    """As the user named the experiment."""
    group: str = ""
    """Runs of one set-up have the same one: "A" and "B" of a comparison, the value in a sweep, else ""."""
    variable: str = ""
    value: str = ""
    """What was varied, and its value in this run; "": nothing was."""
    number: int = 1
    """Of the step in its experiment, from 1."""
    schema: int = SCHEMA


@dataclass(frozen=True)
class KeptRuns:
    """What a directory holds."""

    runs: tuple[tuple[Path, StoredRun], ...] = ()
    """Newest first."""
    unreadable: tuple[tuple[Path, str], ...] = ()
    """Files that are no results, and why; sentences are clean."""
    left_out: int = 0
    """Older files that were not read."""


@dataclass(frozen=True)
class _Result:
    schema: int


@dataclass(frozen=True)
class _Outline:
    """As much of a file as tells whether the rest means what it means here."""

    schema: int
    result: _Result


def directory(environment: Mapping[str, str]) -> Path:
    """``$XDG_STATE_HOME/nictop/runs``, else below ``~/.local/state``. Raises NictopError if there is no home
    directory."""
    state = state_directory(environment)
    if not state:
        raise NictopError("there is no directory to keep results in", "set HOME or XDG_STATE_HOME")
    return Path(state, "runs")


def encoded(kept: StoredRun) -> bytes:
    """One result as JSON. NictopError for what could not be read back."""
    import msgspec

    try:
        data = msgspec.json.encode(kept) + b"\n"
        _decoder().decode(data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise NictopError(f"the result cannot be kept: {clean(str(error))}") from None
    if len(data) > LARGEST:
        raise NictopError(f"the result cannot be kept: it has {bytes_(len(data))}, more than {bytes_(LARGEST)}")
    return data


def parse_kept(data: bytes) -> StoredRun:
    """One result of its JSON. NictopError: why it is none."""
    import msgspec

    try:
        outline = msgspec.json.decode(data, type=_Outline)
        if outline.schema > SCHEMA or outline.result.schema > RESULT_SCHEMA:
            theirs, ours = f"{outline.schema}.{outline.result.schema}", f"{SCHEMA}.{RESULT_SCHEMA}"
            raise NictopError(f"it is of a newer nictop (schema {theirs}, this one reads {ours})", "update nictop")
        return _decoder().decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise NictopError(f"it is no result of nictop: {clean(str(error))[:200]}") from None


@lru_cache(maxsize=1)  # loads msgspec only where results are read
def _decoder() -> msgspec.json.Decoder[StoredRun]:
    import msgspec

    return msgspec.json.Decoder(StoredRun)


def keep(kept: StoredRun, directory: Path) -> Path:
    """Write one result; return its path. Raises NictopError if that fails; no part of the file is left then. A missing
    directory is created, readable by its owner only, as results name hosts and addresses."""
    if IDENTITY.fullmatch(kept.identity) is None:
        raise NictopError("the result cannot be kept: its identity is no name for a file")
    data = encoded(kept)
    timestamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(kept.written))
    path = directory / f"{timestamp}-{kept.identity}.json"
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        write_atomically(str(path), data, replace=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise NictopError(f"the result could not be kept in {clean(str(directory))}: {why}") from None
    return path


def read(path: Path) -> StoredRun:
    """One result. NictopError: why it is none."""
    try:
        return parse_kept(_read_file(path))
    except OSError as error:
        why = error.strerror or str(error)
    except NictopError as error:
        raise NictopError(f"{clean(str(path))}: {error.message}", error.hint) from None
    raise NictopError(f"{clean(str(path))}: {why}")


def _read_file(path: Path) -> bytes:
    """Raises OSError, and NictopError for a file that is too large or not a regular file."""
    try:
        with open(open_regular_file(path), "rb") as file:
            data = file.read(LARGEST + 1)
    except NotRegularFileError:
        raise NictopError("it is no file with a result") from None
    if len(data) > LARGEST:
        raise NictopError(f"it is larger than {bytes_(LARGEST)}")
    return data


def kept_runs(directory: Path) -> KeptRuns:
    """All results that are kept, as far as they can be read; none when there is no such directory."""
    try:
        names = sorted((entry.name for entry in os.scandir(directory) if _is_one(entry.name)), reverse=True)
    except FileNotFoundError:
        return KeptRuns()
    except OSError as error:
        return KeptRuns(unreadable=((directory, error.strerror or str(error)),))
    runs: list[tuple[Path, StoredRun]] = []
    unreadable: list[tuple[Path, str]] = []
    room = MOST_BYTES
    taken = 0
    for name in names[:MOST_RUNS]:
        path = directory / name
        try:
            data = _read_file(path)
            room -= len(data)
            if room < 0:
                break
            runs.append((path, parse_kept(data)))
        except OSError as error:
            unreadable.append((path, error.strerror or str(error)))
        except NictopError as error:
            unreadable.append((path, error.message))
        taken += 1
    runs.sort(key=lambda run: run[1].written, reverse=True)
    return KeptRuns(tuple(runs), tuple(unreadable), len(names) - taken)


def _is_one(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")
