"""Stored results: one JSON file each in ``$XDG_STATE_HOME/nictop/runs``, written atomically.

`save_run`, `read_run` and `stored_runs` access the file system; `encode_run` and `parse_run` are pure. A file may be
truncated, damaged, of a newer nictop or not a result at all: reading it raises NictopError, listing reports it beside
the others. Texts in a file are not trusted: they are escaped where they are shown.
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
from nictop.traffic.results.result import RESULT_SCHEMA, Result

if TYPE_CHECKING:
    import msgspec

RUN_FILE_SCHEMA = 1
"""Increased when the meaning of a field changes; the result in it has a schema of its own."""

MAX_RUN_FILE_BYTES = 64 << 20
"""Bytes of a file; a run of a day with two lines per second is smaller."""
MAX_LISTED_RUNS = 1000
MAX_LISTED_BYTES = 256 << 20
"""Read for a list; older files are left out."""
IDENTITY = re.compile(r"[0-9A-Za-z-]{1,64}", re.ASCII)
"""Of a run; it is part of the file name."""

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


@dataclass(frozen=True)
class StoredRuns:
    """The results in a directory."""

    runs: tuple[tuple[Path, StoredRun], ...] = ()
    """Newest first."""
    unreadable: tuple[tuple[Path, str], ...] = ()
    """Files that could not be read, and why; the reasons are escaped for a terminal."""
    left_out: int = 0
    """Older files that were not read."""


@dataclass(frozen=True)
class _Result:
    schema: int


@dataclass(frozen=True)
class _Outline:
    """The part of a file that is decoded first: its schema versions."""

    schema: int
    result: _Result


def directory(environment: Mapping[str, str]) -> Path:
    """``$XDG_STATE_HOME/nictop/runs``, else below ``~/.local/state``. Raises NictopError if there is no home
    directory."""
    state = state_directory(environment)
    if not state:
        raise NictopError("no directory to save results in", "set HOME or XDG_STATE_HOME")
    return Path(state, "runs")


def encode_run(kept: StoredRun) -> bytes:
    """A result as JSON. Raises NictopError if it could not be decoded again or is too large."""
    import msgspec

    try:
        data = msgspec.json.encode(kept) + b"\n"
        _decoder().decode(data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise NictopError(f"result cannot be saved: {clean(str(error))}") from None
    if len(data) > MAX_RUN_FILE_BYTES:
        raise NictopError(f"result cannot be saved: {bytes_(len(data))}, more than {bytes_(MAX_RUN_FILE_BYTES)}")
    return data


def parse_run(data: bytes) -> StoredRun:
    """Decode a result. Raises NictopError with the reason if it is not valid."""
    import msgspec

    try:
        outline = msgspec.json.decode(data, type=_Outline)
        if outline.schema > RUN_FILE_SCHEMA or outline.result.schema > RESULT_SCHEMA:
            theirs, ours = f"{outline.schema}.{outline.result.schema}", f"{RUN_FILE_SCHEMA}.{RESULT_SCHEMA}"
            raise NictopError(f"written by a newer nictop (schema {theirs}, this one reads {ours})", "update nictop")
        return _decoder().decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise NictopError(f"not a nictop result: {clean(str(error))[:200]}") from None


@lru_cache(maxsize=1)  # msgspec is imported only if results are read
def _decoder() -> msgspec.json.Decoder[StoredRun]:
    import msgspec

    return msgspec.json.Decoder(StoredRun)


def save_run(kept: StoredRun, directory: Path) -> Path:
    """Write one result; return its path. Raises NictopError if that fails; no part of the file is left then. A missing
    directory is created, readable by its owner only, as results name hosts and addresses."""
    if IDENTITY.fullmatch(kept.identity) is None:
        raise NictopError("result cannot be saved: invalid identity")
    data = encode_run(kept)
    timestamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(kept.written))
    path = directory / f"{timestamp}-{kept.identity}.json"
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        write_atomically(str(path), data, replace=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise NictopError(f"result cannot be saved in {clean(str(directory))}: {reason}") from None
    return path


def read_run(path: Path) -> StoredRun:
    """Read a file. Raises NictopError with the reason if it is not a result."""
    try:
        return parse_run(_read_file(path))
    except OSError as error:
        reason = error.strerror or str(error)
    except NictopError as error:
        raise NictopError(f"{clean(str(path))}: {error.message}", error.hint) from None
    raise NictopError(f"{clean(str(path))}: {reason}")


def _read_file(path: Path) -> bytes:
    """Raises OSError, and NictopError for a file that is too large or not a regular file."""
    try:
        with open(open_regular_file(path), "rb") as file:
            data = file.read(MAX_RUN_FILE_BYTES + 1)
    except NotRegularFileError:
        raise NictopError("not a regular file") from None
    if len(data) > MAX_RUN_FILE_BYTES:
        raise NictopError(f"larger than {bytes_(MAX_RUN_FILE_BYTES)}")
    return data


def stored_runs(directory: Path) -> StoredRuns:
    """The results in a directory, none if it does not exist; files that cannot be read are listed with the reason."""
    try:
        names = sorted((entry.name for entry in os.scandir(directory) if _is_run_file(entry.name)), reverse=True)
    except FileNotFoundError:
        return StoredRuns()
    except OSError as error:
        return StoredRuns(unreadable=((directory, error.strerror or str(error)),))
    runs: list[tuple[Path, StoredRun]] = []
    unreadable: list[tuple[Path, str]] = []
    remaining = MAX_LISTED_BYTES
    examined = 0
    for name in names[:MAX_LISTED_RUNS]:
        path = directory / name
        try:
            data = _read_file(path)
            remaining -= len(data)
            if remaining < 0:
                break
            runs.append((path, parse_run(data)))
        except OSError as error:
            unreadable.append((path, error.strerror or str(error)))
        except NictopError as error:
            unreadable.append((path, error.message))
        examined += 1
    runs.sort(key=lambda run: run[1].written, reverse=True)
    return StoredRuns(tuple(runs), tuple(unreadable), len(names) - examined)


def _is_run_file(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")
