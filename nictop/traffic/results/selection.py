"""Select stored results by the arguments of a command line: two set-ups to compare.

`select_by_value` reads files (see `store`), `select_runs` and `set_ups` are pure. An argument is a
path (of a file or a directory), the identity of a run or of an experiment (or its beginning), or a
label; ``ARGUMENT:VALUE`` is one value of a sweep or of a comparison.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.traffic.plan.quantities import quoted
from nictop.traffic.plan.validation import ExperimentKind
from nictop.traffic.results.store import (
    RUN_FILE_SCHEMA,
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
    "select_by_value",
    "select_runs",
    "set_ups",
    "stored_runs",
]

SetUp = tuple[str, list[StoredRun]]
"""Its name, escaped for a terminal, and its runs in the order in which they were made."""

ByValue = dict[str, tuple[SetUp, SetUp]]
"""Value of two sweeps → the set-up of each; without runs: that sweep has no such value. "": two
set-ups that are no sweeps."""

MAX_NAMES_IN_MESSAGE = 8


def select_by_value(words: Sequence[str], directory: Path) -> ByValue:
    """What these arguments select: two set-ups, or two sweeps of the same variable. Raises
    NictopError if it is neither, or an argument selects nothing."""
    if not words:
        raise _nothing_named(directory)
    selected = _runs_of_words(words, directory)
    found = set_ups(_each_once(selected))
    if len(found) == 2:
        return {"": (found[0], found[1])}
    by_value = _values_of_both(words, selected)
    if not by_value:
        raise NictopError(f"compare needs two set-ups, found {_counted(found)}", _hint(found))
    return by_value


def _nothing_named(directory: Path) -> NictopError:
    """Which results could be named, the newest first."""
    names = list(dict.fromkeys(run.label or run.experiment for run in reversed(_all(directory))))
    if not names:
        message = f"compare needs two saved results; there are none in {clean(str(directory))}"
        return NictopError(message, "each test of nictop traffic is saved there")
    newest = ", ".join(map(clean, names[:MAX_NAMES_IN_MESSAGE]))
    more = ", …" if len(names) > MAX_NAMES_IN_MESSAGE else ""
    message = f"compare needs two saved results, none was named; saved: {newest}{more}"
    return NictopError(message, _hint(()))


def _runs_of_words(words: Sequence[str], directory: Path) -> list[list[StoredRun]]:
    """The runs of each argument."""
    kept: list[StoredRun] | None = None
    selected = []
    for word in words:
        if not _is_path(word):
            if kept is None:
                kept = _all(directory)
            selected.append(select_runs(word, kept))
        elif os.path.isdir(word):
            selected.append(_all(Path(word)))
        else:
            selected.append([read_run(Path(word))])
    return selected


def _each_once(selected: Iterable[Iterable[StoredRun]]) -> Iterable[StoredRun]:
    """In their order."""
    runs: dict[str, StoredRun] = {}
    for of_word in selected:
        for run in of_word:
            runs.setdefault(run.identity, run)
    return runs.values()


def _values_of_both(words: Sequence[str], selected: Sequence[Sequence[StoredRun]]) -> ByValue:
    """Empty: they are not two sweeps of one variable with a value in common."""
    if len(selected) != 2:
        return {}
    a, b = map(_sweep, selected)
    if len({run.variable for runs in selected for run in runs}) != 1 or not a.keys() & b.keys():
        return {}
    name_a, name_b = map(clean, words)
    by_value: ByValue = {}
    for value in (*a, *b):
        by_value[value] = ((name_a, a.get(value, [])), (name_b, b.get(value, [])))
    return by_value


def _sweep(runs: Sequence[StoredRun]) -> dict[str, list[StoredRun]]:
    """Value → runs, in their order; empty: it is no sweep, as a set-up has no value, or the same as
    another one."""
    found = set_ups(runs)
    by_value = {of_value[0].value: of_value for _, of_value in found}
    is_sweep = len(by_value) == len(found) and "" not in by_value
    return by_value if is_sweep else {}


def select_runs(word: str, kept: Iterable[StoredRun]) -> list[StoredRun]:
    """The runs that an argument selects. Raises NictopError if there are none, or if it is the
    beginning of several identities."""
    kept = list(kept)
    runs = _found(word, kept)
    name, colon, value = word.rpartition(":")
    if not runs and colon:
        runs = [run for run in _found(name, kept) if run.value == value]
    if runs:
        return runs
    hint = "nictop traffic --list shows saved results"
    labels = dict.fromkeys(clean(run.label) for run in kept if run.label)
    if labels:
        hint = f"labels: {', '.join(list(labels)[:MAX_NAMES_IN_MESSAGE])}"
    raise NictopError(f"no saved result {quoted(word)}", hint)


def _found(word: str, kept: Sequence[StoredRun]) -> list[StoredRun]:
    """The runs with this label or identity, else those whose identity begins so; "" means none."""
    if not word:
        return []
    exact = _named(word, kept)
    if exact:
        return exact
    beginning = [run for run in kept if _begins_with(run, word)]
    experiments = dict.fromkeys(run.experiment for run in beginning)
    by_run = [run for run in beginning if not run.experiment.startswith(word)]
    if len(experiments) > 1 or len(by_run) > 1:
        listed = ", ".join(map(clean, list(experiments)[:MAX_NAMES_IN_MESSAGE]))
        raise NictopError(f"{quoted(word)} matches several results", f"{listed}: type more of it")
    return beginning


def _named(word: str, kept: Sequence[StoredRun]) -> list[StoredRun]:
    """By label, else by the identity of a run, else of an experiment."""
    by_label = [run for run in kept if run.label == word]
    by_run = [run for run in kept if run.identity == word]
    by_experiment = [run for run in kept if run.experiment == word]
    return by_label or by_run or by_experiment


def _begins_with(run: StoredRun, word: str) -> bool:
    return run.experiment.startswith(word) or run.identity.startswith(word)


def set_ups(runs: Iterable[StoredRun]) -> list[SetUp]:
    """Group runs by label (else experiment), group and value, in their order."""
    groups: dict[tuple[str, str, str, str], list[StoredRun]] = {}
    for run in runs:
        key = (run.label or run.experiment, run.variable, run.value, run.group)
        groups.setdefault(key, []).append(run)
    of_one = len({label for label, _, _, _ in groups}) == 1
    names = [_name(key, of_one) for key in groups]
    are_unique = len(set(names)) == len(names)
    found = []
    for (_, _, _, letter), name, group in zip(groups, names, groups.values(), strict=True):
        is_told_apart = are_unique or not letter
        title = name if is_told_apart else f"{name} ({clean(letter)})"
        found.append((title, sorted(group, key=lambda run: (run.written, run.number))))
    return found


def _name(key: tuple[str, str, str, str], of_one: bool) -> str:
    """`of_one`: all set-ups are of one label or experiment, which need not be said."""
    label, variable, value, _ = key
    if not variable:
        return clean(label)
    varied = clean(value if variable == "setup" else f"{variable} {value}")
    if of_one and varied:
        return varied
    return f"{clean(label)} {varied}".strip()


def _is_path(word: str) -> bool:
    return os.sep in word or word.endswith(".json")


def _all(directory: Path) -> list[StoredRun]:
    """Oldest first."""
    return [run for _, run in reversed(stored_runs(directory).results)]


def _counted(result: Sequence[SetUp]) -> str:
    if not result:
        return "none"
    listed = ", ".join(map(_with_number, result[:MAX_NAMES_IN_MESSAGE]))
    if len(result) == 1:
        return f"one: {listed}"
    if len(result) > MAX_NAMES_IN_MESSAGE:
        listed += ", …"
    return f"{len(result)}: {listed}"


def _with_number(set_up: SetUp) -> str:
    """``queues 4 (5 runs)``"""
    name, runs = set_up
    if len(runs) == 1:
        return name
    return f"{name} ({len(runs)} runs)"


def _hint(result: Sequence[SetUp]) -> str:
    if not result:
        return "nictop compare A B, with the names of nictop traffic --list"
    experiments: set[str] = set()
    for _, runs in result:
        experiments.update(run.experiment for run in runs)
    if len(result) > 2 and len(experiments) == 1:
        experiment = clean(experiments.pop())
        first, second = (f"{experiment}:{clean(runs[0].value)}" for _, runs in result[:2])
        return f"name two of its values: {first} {second}"
    return "runs of one label or experiment are one set-up: give each set-up a --label"
