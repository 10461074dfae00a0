"""Select stored results by the arguments of a command line: two set-ups to compare.

`select_set_ups` reads files (see `store`), `select_runs` and `set_ups` are pure. An argument is a path (of a file or a
directory), the identity of a run or of an experiment (or its beginning), or a label; ``ARGUMENT:VALUE`` is one value of
a sweep or of a comparison.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.traffic.plan.quantities import quoted
from nictop.traffic.results.store import (
    RUN_FILE_SCHEMA,
    ExperimentKind,
    StoredRun,
    StoredRuns,
    directory,
    parse_run,
    read_run,
    save_run,
    stored_runs,
)

__all__ = [
    "RUN_FILE_SCHEMA",
    "ExperimentKind",
    "SetUp",
    "StoredRun",
    "StoredRuns",
    "directory",
    "parse_run",
    "read_run",
    "save_run",
    "select_runs",
    "select_set_ups",
    "set_ups",
    "stored_runs",
]

SetUp = tuple[str, list[StoredRun]]
"""Its name, escaped for a terminal, and its runs in the order in which they were made."""

MAX_NAMES_IN_MESSAGE = 8


def select_set_ups(words: Sequence[str], directory: Path) -> list[SetUp]:
    """The two set-ups of these arguments, in their order. Raises NictopError if there are not two, or an argument
    selects nothing."""
    kept: list[StoredRun] | None = None
    runs: dict[str, StoredRun] = {}
    for word in words:
        if _is_path(word):
            here = [read_run(Path(word))] if not os.path.isdir(word) else _all(Path(word))
        else:
            kept = _all(directory) if kept is None else kept
            here = select_runs(word, kept)
        for run in here:
            runs.setdefault(run.identity, run)
    result = set_ups(runs.values())
    if len(result) != 2:
        raise NictopError(f"compare needs two set-ups, found {_counted(result)}", _hint(result))
    return result


def select_runs(word: str, kept: Iterable[StoredRun]) -> list[StoredRun]:
    """The runs that an argument selects. Raises NictopError if there are none, or if it is the beginning of several
    identities."""
    kept = list(kept)
    runs = _found(word, kept)
    name, colon, value = word.rpartition(":")
    if not runs and colon:
        runs = [run for run in _found(name, kept) if run.value == value]
    if not runs:
        labels = dict.fromkeys(clean(run.label) for run in kept if run.label)
        listed = ", ".join(list(labels)[:MAX_NAMES_IN_MESSAGE])
        raise NictopError(
            f"no saved result {quoted(word)}",
            f"labels: {listed}" if listed else "nictop traffic --list shows saved results",
        )
    return runs


def _found(word: str, kept: Sequence[StoredRun]) -> list[StoredRun]:
    for exact in (
        [run for run in kept if word and run.label == word],
        [run for run in kept if run.identity == word],
        [run for run in kept if run.experiment == word],
    ):
        if exact:
            return exact
    beginning = [run for run in kept if word and (run.experiment.startswith(word) or run.identity.startswith(word))]
    experiments = dict.fromkeys(run.experiment for run in beginning)
    by_run = [run for run in beginning if not run.experiment.startswith(word)]
    if len(experiments) > 1 or len(by_run) > 1:
        listed = ", ".join(map(clean, list(experiments)[:MAX_NAMES_IN_MESSAGE]))
        raise NictopError(f"{quoted(word)} matches several results", f"{listed}: type more of it")
    return beginning


def set_ups(runs: Iterable[StoredRun]) -> list[SetUp]:
    """Group runs by label (else experiment), group and value, in their order."""
    groups: dict[tuple[str, str, str, str], list[StoredRun]] = {}
    for run in runs:
        groups.setdefault((run.label or run.experiment, run.variable, run.value, run.group), []).append(run)
    of_one = len({key[0] for key in groups}) == 1
    names = [_name(key, of_one) for key in groups]
    if len(set(names)) < len(names):
        names = [f"{name} ({clean(key[3])})" if key[3] else name for name, key in zip(names, groups, strict=True)]
    return [
        (name, sorted(group, key=lambda run: (run.written, run.number)))
        for name, group in zip(names, groups.values(), strict=True)
    ]


def _name(key: tuple[str, str, str, str], of_one: bool) -> str:
    label, variable, value, _ = key
    varied = clean(value if variable == "setup" else f"{variable} {value}") if variable else ""
    return varied if of_one and varied else f"{clean(label)} {varied}".strip()


def _is_path(word: str) -> bool:
    return os.sep in word or word.endswith(".json")


def _all(directory: Path) -> list[StoredRun]:
    """Oldest first."""
    return [run for _, run in reversed(stored_runs(directory).results)]


def _counted(result: Sequence[SetUp]) -> str:
    if not result:
        return "none"
    listed = ", ".join(
        f"{name} ({len(runs)} runs)" if len(runs) > 1 else name for name, runs in result[:MAX_NAMES_IN_MESSAGE]
    )
    more = ", …" if len(result) > MAX_NAMES_IN_MESSAGE else ""
    return f"{len(result)}: {listed}{more}" if len(result) > 1 else f"one: {listed}"


def _hint(result: Sequence[SetUp]) -> str:
    if len(result) > 2 and len({run.experiment for _, runs in result for run in runs}) == 1:
        run = result[0][1][0]
        one, other = (runs[0].value for _, runs in result[:2])
        return f"name two of its values: {clean(run.experiment)}:{clean(one)} {clean(run.experiment)}:{clean(other)}"
    if not result:
        return "nictop compare A B, with the names of nictop traffic --list"
    return "runs of one label or experiment are one set-up: give each set-up a --label"
