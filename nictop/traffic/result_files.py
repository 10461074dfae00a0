"""Files of stored results: one JSON file each below ``$XDG_STATE_HOME/nictop``, written atomically.

`encode` and `parse` are pure, the other methods of `ResultFiles` access the file system. A file may
be truncated, damaged, of a newer nictop or not a result at all: reading it raises NictopError,
listing reports it beside the others. Texts in a file are not trusted: they are escaped where they
are shown.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from nictop.errors import NictopError
from nictop.files import NotRegularFileError, open_regular_file, state_directory, write_atomically
from nictop.model.text.terminal import clean
from nictop.model.text.units import bytes_
from nictop.probe.light_dataclasses import dataclass

if TYPE_CHECKING:
    import msgspec

MAX_RESULT_FILE_BYTES = 16 << 20
VALUE_BYTES, MAX_DECODED_BYTES = 96, 56 << 20
"""Bytes of memory that a value takes, and those of all results that are read at once: 300 usual
ones, or one of four hours with two directions and an interval each second. The rest of a list is
left out."""
MAX_LISTED_RESULTS = 1000
MAX_LISTED_BYTES = 64 << 20
"""Read for a list, with files that are no results; older files are left out."""
MAX_EXAMINED_NAMES = 100_000
"""Of the files of a directory."""
IDENTITY = re.compile(r"[0-9A-Za-z-]{1,64}", re.ASCII)
"""Of a result; it is part of the file name."""


class TooLargeError(NictopError):
    """A result is larger than the limits."""


class ResultRecord(Protocol):
    """The content of a file."""

    @property
    def identity(self) -> str: ...

    @property
    def written(self) -> float:
        """Seconds since the epoch."""


R = TypeVar("R", bound=ResultRecord)


@dataclass(frozen=True)
class StoredResults(Generic[R]):
    """The results in a directory."""

    results: tuple[tuple[Path, R], ...] = ()
    """Newest first."""
    unreadable: tuple[tuple[Path, str], ...] = ()
    """Files that could not be read, and why; the reasons are escaped for a terminal."""
    left_out: int = 0
    """Older files that were not read."""


@dataclass(frozen=True)
class _Part:
    schema: int


@dataclass(frozen=True)
class _Outline:
    """The part of a file that is decoded first: its schema versions."""

    schema: int
    result: _Part | None = None


class ResultFiles(Generic[R]):
    """Results of one kind. `schema`, `result_schema`: the newest versions of a file and of the
    result in it that can be read; 0: the result has no version of its own. `most`: number of files;
    the oldest ones are removed when one is saved; 0: no limit."""

    def __init__(
        self, kind: type[R], folder: str, schema: int, result_schema: int = 0, *, most: int = 0
    ) -> None:
        self._kind, self._folder = kind, folder
        self._schemas, self._most = (schema, result_schema), most

    def directory(self, environment: Mapping[str, str]) -> Path:
        """``$XDG_STATE_HOME/nictop/FOLDER``, else below ``~/.local/state``. Raises NictopError if
        there is no home directory."""
        state = state_directory(environment)
        if not state:
            raise NictopError("no directory to save results in", "set HOME or XDG_STATE_HOME")
        return Path(state, self._folder)

    def encode(self, result: R) -> bytes:
        """A result as JSON. Raises NictopError if it could not be decoded again; it is
        TooLargeError if it is too large."""
        import msgspec

        try:
            data = msgspec.json.encode(result) + b"\n"
            self._decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise NictopError(f"result cannot be saved: {clean(str(error))}") from None
        if len(data) > MAX_RESULT_FILE_BYTES or decoded_bytes(data) > MAX_DECODED_BYTES:
            raise TooLargeError(f"result cannot be saved: {bytes_(len(data))} are too large")
        return data

    def parse(self, data: bytes) -> R:
        """Decode a result. Raises NictopError with the reason if it is not valid."""
        import msgspec

        from nictop.wire.codec import fits_64_bits

        if decoded_bytes(data) > MAX_DECODED_BYTES:
            raise NictopError("not a nictop result: too many values")
        try:
            self._check_schemas(msgspec.json.decode(data, type=_Outline))
            found = self._decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise NictopError(f"not a nictop result: {clean(str(error))[:200]}") from None
        if not fits_64_bits(found, data):
            raise NictopError("not a nictop result: number of more than 64 bits")
        return found

    def _check_schemas(self, outline: _Outline) -> None:
        """Raises NictopError if a newer nictop wrote the file."""
        schema, result_schema = self._schemas
        theirs = outline.result.schema if outline.result is not None else 0
        if outline.schema > schema or theirs > result_schema:
            raise NictopError(
                f"written by a newer nictop (schema {outline.schema}.{theirs}, this one reads "
                f"{schema}.{result_schema})",
                "update nictop",
            )

    @cached_property  # msgspec is imported only if results are read
    def _decoder(self) -> msgspec.json.Decoder[R]:
        import msgspec

        return msgspec.json.Decoder(self._kind)

    def save(self, result: R, directory: Path) -> Path:
        """Write one result; return its path. Raises NictopError if that fails; no part of the file
        is left then. A missing directory is created, readable by its owner only, as results name
        hosts and addresses."""
        if IDENTITY.fullmatch(result.identity) is None:
            raise NictopError("result cannot be saved: invalid identity")
        data = self.encode(result)
        timestamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(result.written))
        path = directory / f"{timestamp}-{result.identity}.json"
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            directory.mkdir(mode=0o700, exist_ok=True)
            write_atomically(str(path), data, replace=True)
            if self._most:
                self._remove_oldest(directory)
        except OSError as error:
            reason = _reason(error)
            raise NictopError(
                f"result cannot be saved in {clean(str(directory))}: {reason}"
            ) from None
        return path

    def _remove_oldest(self, directory: Path) -> None:
        """All but the newest ones; their names begin with their time."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            names = sorted(filter(_is_result_file, os.listdir(descriptor)))
            for name in names[: -self._most]:
                os.unlink(name, dir_fd=descriptor)
        finally:
            os.close(descriptor)

    def read(self, path: Path) -> R:
        """Read a file. Raises NictopError with the reason if it is not a result."""
        try:
            return self.parse(_read_file(path))
        except OSError as error:
            reason = _reason(error)
        except NictopError as error:
            raise NictopError(f"{clean(str(path))}: {error.message}", error.hint) from None
        raise NictopError(f"{clean(str(path))}: {reason}")

    def stored(self, directory: Path) -> StoredResults[R]:
        """The results in a directory, none if it does not exist; files that cannot be read are
        listed with the reason."""
        try:
            names = _result_names(directory)
        except FileNotFoundError:
            return StoredResults()
        except OSError as error:
            return StoredResults(unreadable=((directory, _reason(error)),))
        results: list[tuple[Path, R]] = []
        unreadable: list[tuple[Path, str]] = []
        to_read, to_decode = MAX_LISTED_BYTES, MAX_DECODED_BYTES
        examined = 0
        for name in names[:MAX_LISTED_RESULTS]:
            path = directory / name
            try:
                data = _read_file(path)
                size = decoded_bytes(data)
                to_read -= len(data)
                if size <= MAX_DECODED_BYTES:  # a larger one is refused before it is decoded
                    to_decode -= size
                if min(to_read, to_decode) < 0:
                    break
                results.append((path, self.parse(data)))
            except OSError as error:
                unreadable.append((path, _reason(error)))
            except NictopError as error:
                unreadable.append((path, error.message))
            examined += 1
        results.sort(key=lambda item: item[1].written, reverse=True)
        return StoredResults(tuple(results), tuple(unreadable), len(names) - examined)


def _result_names(directory: Path) -> list[str]:
    """Names of the files of a directory that may be results, the newest first."""
    with os.scandir(directory) as entries:
        examined = [entry.name for entry in islice(entries, MAX_EXAMINED_NAMES)]
    return sorted(filter(_is_result_file, examined), reverse=True)


def decoded_bytes(data: bytes) -> int:
    """The memory that a result takes, about."""
    return len(data) + VALUE_BYTES * sum(map(data.count, (b",", b"{", b"[")))


def _read_file(path: Path) -> bytes:
    """Raises OSError, and NictopError for a file that is too large or not a regular file."""
    try:
        with open(open_regular_file(path), "rb") as file:
            data = file.read(MAX_RESULT_FILE_BYTES + 1)
    except NotRegularFileError:
        raise NictopError("not a regular file") from None
    if len(data) > MAX_RESULT_FILE_BYTES:
        raise NictopError(f"larger than {bytes_(MAX_RESULT_FILE_BYTES)}")
    return data


def _is_result_file(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _reason(error: OSError) -> str:
    """``Permission denied``"""
    return error.strerror or str(error)
