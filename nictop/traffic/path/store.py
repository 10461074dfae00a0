"""Stored path tests: one JSON file each in ``$XDG_STATE_HOME/nictop/paths``
(`nictop.traffic.result_files`)."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence

from nictop import __version__
from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass
from nictop.traffic.path.result import PathReport
from nictop.traffic.path.stored import StoredPathTest, stored_path_test
from nictop.traffic.plan.quantities import quoted
from nictop.traffic.result_files import ResultFiles, StoredResults

PATH_FILE_SCHEMA = 1
"""Increased when the meaning of a field changes."""


@dataclass(frozen=True)
class StoredPath:
    """A path test that was made for itself, not before a run."""

    identity: str
    test: StoredPathTest
    written: float
    """Seconds since the epoch."""
    version: str
    """Version of nictop."""
    label: str = ""
    """Name that the user gave it."""
    schema: int = PATH_FILE_SCHEMA


StoredPaths = StoredResults[StoredPath]
MAX_STORED_PATHS = 1000
"""Older ones are removed: a path test is saved without being asked for, perhaps every minute."""
PATH_FILES = ResultFiles(StoredPath, "paths", PATH_FILE_SCHEMA, most=MAX_STORED_PATHS)


def stored_path(report: PathReport, label: str = "") -> StoredPath:
    """The record of a test that has just ended."""
    return StoredPath(
        uuid.uuid4().hex[:12], stored_path_test(report), time.time(), __version__, label
    )


def save_path(path: StoredPath) -> None:
    """Raises NictopError."""
    PATH_FILES.save(path, PATH_FILES.directory(os.environ))


def stored_paths() -> StoredPaths:
    """Those in the directory. Raises NictopError if there is no home directory."""
    return PATH_FILES.stored(PATH_FILES.directory(os.environ))


def select_paths(word: str, stored: Sequence[StoredPath]) -> list[StoredPath]:
    """The tests with this label, or with this identity or beginning of one; []: none. Raises
    NictopError if it is the beginning of several."""
    if not word:
        return []
    labelled = [path for path in stored if path.label == word]
    if labelled:
        return labelled
    found = [path for path in stored if path.identity.startswith(word)]
    if len(found) > 1:
        listed = ", ".join(clean(path.identity) for path in found[:8])
        raise NictopError(
            f"{quoted(word)} matches several path tests", f"{listed}: type more of it"
        )
    return found
