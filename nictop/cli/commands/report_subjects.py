"""What a report is about: words of a command line → hosts to look at, recordings of hosts, and runs that were kept.

`subjects` reads the files that are named and, for words that are no file, the directory of kept runs. A word that is
neither a file nor a kept run is a host.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nictop.errors import NictopError

if TYPE_CHECKING:
    from nictop.traffic.results.selection import StoredRun

SHORTEST_BEGINNING = 4
"""Characters by which the beginning of an identity is told from the name of a host."""
DIGITS = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Subjects:
    """In the order in which they were named."""

    hosts: tuple[str, ...] = ()
    """Words that mean hosts."""
    recordings: tuple[str, ...] = ()
    """Paths."""
    runs: tuple[StoredRun, ...] = ()

    @property
    def asks_hosts(self) -> bool:
        """Hosts are to be asked: those that are named, or this one when nothing is."""
        return bool(self.hosts) or not (self.recordings or self.runs)


def subjects(words: Sequence[str]) -> Subjects:
    """NictopError for a file that is neither a recording nor a result."""
    from nictop.recording.file.open import is_recording

    hosts: list[str] = []
    recordings: list[str] = []
    runs: list[StoredRun] = []
    kept: list[StoredRun] | None = None
    for word in words:
        if is_recording(word):
            recordings.append(word)
            continue
        if _is_file(word):
            runs += _of_file(word)
            continue
        kept = _all_kept() if kept is None else kept
        here = _runs_of(word, kept)
        runs += here
        hosts += () if here else (word,)
    return Subjects(tuple(hosts), tuple(recordings), tuple(runs))


def _is_file(word: str) -> bool:
    return os.sep in word or word.endswith(".json") or os.path.isfile(word)


def _of_file(path: str) -> list[StoredRun]:
    """One result, or all of a directory."""
    from nictop.traffic.results.selection import kept_runs, read

    if os.path.isdir(path):
        return [run for _, run in reversed(kept_runs(Path(path)).runs)]
    return [read(Path(path))]


def _all_kept() -> list[StoredRun]:
    """Oldest first; () where nothing can be kept."""
    from nictop.traffic.results.selection import directory, kept_runs

    with suppress(NictopError):  # no home, hence no runs: every word is a host
        return [run for _, run in reversed(kept_runs(directory(os.environ)).runs)]
    return []


def _runs_of(word: str, kept: Sequence[StoredRun]) -> list[StoredRun]:
    """Those that a word means: a label, an identity or its beginning, or one value of these; [] for a host."""
    from nictop.traffic.results.selection import found

    names = {name for run in kept for name in (run.label, run.identity, run.experiment) if name}
    begins = len(word) >= SHORTEST_BEGINNING and DIGITS.issuperset(word) and any(one.startswith(word) for one in names)
    if word in names or word.rpartition(":")[0] in names or begins:
        with suppress(NictopError):
            return found(word, kept)
    return []
