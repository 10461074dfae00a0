"""Files of stored results: how many are kept, and what a hostile one costs."""

from __future__ import annotations

import copy
import json
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from nictop.errors import NictopError
from nictop.report.html.page import html_page
from nictop.report.page import report_of
from nictop.report.runs.json import stored_runs_json
from nictop.report.runs.text import stored_runs_text
from nictop.traffic import result_files as files
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.path.store import PATH_FILE_SCHEMA, StoredPath
from nictop.traffic.result_files import ResultFiles
from nictop.traffic.results.result import RESULT_SCHEMA, IntervalPoint
from nictop.traffic.results.store import (
    RUN_FILE_SCHEMA,
    WITHOUT_INTERVALS,
    StoredRun,
    StoredRuns,
    encode_run,
    parse_run,
    read_run,
    save_run,
    stored_runs,
)
from tests.traffic.runs import BLACK_HOLE, flow, path_test, result

T = TypeVar("T")
MAX_MIB = 64
RUN_FILES = ResultFiles(StoredRun, "runs", RUN_FILE_SCHEMA, RESULT_SCHEMA)


@pytest.mark.parametrize(("most", "kept"), [(0, ["a", "b", "c"]), (2, ["b", "c"]), (1, ["c"])])
def test_the_oldest_files_are_removed(most: int, kept: list[str], tmp_path: Path) -> None:
    files = ResultFiles(StoredPath, "paths", PATH_FILE_SCHEMA, most=most)
    (tmp_path / "notes.txt").write_text("not a result")
    for number, identity in enumerate("abc"):
        files.save(StoredPath(identity, path_test(BLACK_HOLE), 1e9 + number, "0"), tmp_path)
    assert sorted(one.identity for _, one in files.stored(tmp_path).results) == kept
    assert (tmp_path / "notes.txt").exists()


def stored(identity: str, **more: object) -> StoredRun:
    return StoredRun(identity, identity, result(**more), 1.7e9, "0")  # type: ignore[arg-type]


def run_of_a_day(seconds: int = 86_400) -> StoredRun:
    points = tuple(
        IntervalPoint(float(end), Interval(end - 1.0, float(end), 1e9, True))
        for end in range(1, seconds)
    )
    return stored("day", flows=(replace(flow(1.0), points=points),))


def test_a_run_with_too_many_intervals_is_saved_without_them(tmp_path: Path) -> None:
    run = read_run(save_run(run_of_a_day(), tmp_path))
    assert run.result.goodput == 1e9 and run.result.flows[0].points == ()
    assert run.result.notes == (WITHOUT_INTERVALS,)
    whole = read_run(save_run(run_of_a_day(4 * 3600), tmp_path))
    assert len(whole.result.flows[0].points) == 4 * 3600 - 1 and whole.result.notes == ()


NOTES = (
    b'{"identity":"a","experiment":"a","written":1,"version":"0","schema":1,'
    b'"result":{"schema":1,"notes":['
)
HOSTILE = {
    "values": NOTES + b'"",' * (5 << 20) + b'""]}}',
    "objects": NOTES + b"{}," * (5 << 20) + b"{}]}}",
    "nested": NOTES + b"[" * (1 << 20),
    "nested objects": NOTES + b'{"a":' * (1 << 18),
    "long": NOTES + b'"' + b"x" * (20 << 20) + b'"]}}',
    "digits": NOTES[:-10] + b'"wall":' + b"9" * (1 << 20) + b"}}",
    "types": NOTES + b'{"a":[null]}]}}',
    "null bytes": bytes(1 << 20),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_and_takes_no_memory(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(HOSTILE[kind])
    found, grown = memory_of(lambda: RUN_FILES.stored(tmp_path))
    assert found.results == () and len(found.unreadable) == 1
    assert grown <= MAX_MIB << 20


def test_many_large_results_take_no_memory(tmp_path: Path) -> None:
    """The older ones are left out, and that is said."""
    data = RUN_FILES.encode(run_of_a_day(10_000))
    for number in range(40):
        (tmp_path / f"{number:02}.json").write_bytes(data)
    found, grown = memory_of(lambda: stored_runs(tmp_path))
    assert found.results[0][0].name == "39.json" and len(found.results) + found.left_out == 40
    assert 0 < found.left_out < 40 and grown <= MAX_MIB << 20


def test_a_directory_with_very_many_files_is_not_listed_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_EXAMINED_NAMES", 5)
    for number in range(9):
        (tmp_path / f"{number}.json").write_bytes(b"")
    assert len(stored_runs(tmp_path).unreadable) == 5


def memory_of(function: Callable[[], T]) -> tuple[T, int]:
    """(result, bytes at most)."""
    tracemalloc.start()
    try:
        return function(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


NUMBERS = (-1, 0, 5e-324, 1e308, -1e308, 2**63 - 1, 2**64 - 1, 10**30, 10**400)


def test_no_number_of_a_result_raises() -> None:
    """Each one in a result, replaced by each of `NUMBERS`: it is refused, or shown."""
    known = json.loads(encode_run(stored("a", flows=(replace(flow(1.0), retransmits=7),))))
    places = list(numbers_in(known))
    assert len(places) > 20
    for place in places:
        for number in NUMBERS:
            changed = copy.deepcopy(known)
            holder = changed
            for name in place[:-1]:
                holder = holder[name]
            holder[place[-1]] = number
            try:
                run = parse_run(json.dumps(changed).encode())
            except NictopError:
                continue
            runs = StoredRuns(((Path("a"), run),))
            stored_runs_text(runs, 80)
            stored_runs_json(runs)
            html_page(report_of((), (run,), (), wall=0.0))


def numbers_in(value: Any) -> Iterator[tuple[Any, ...]]:
    """The places of the numbers in a JSON value."""
    if isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from ((name, *rest) for rest in numbers_in(one))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield ()
