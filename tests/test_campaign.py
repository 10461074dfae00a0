"""The campaign itself: how kills are spread, what it counts, and that growth is a failure; the
order of the tests."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from tests.campaign import (
    field_values,
    hostile,
    hostile_host,
    hostile_lines,
    hostile_recordings,
    parsers,
    recordings,
)
from tests.campaign.__main__ import show
from tests.campaign.results import Progress, Row, row_text
from tests.campaign.soak import Subject
from tests.campaign.suites import Outcome, pytest_run
from tests.conftest import LONGEST_FILES
from tests.support.kills import kill_matrix, kill_parameters, position_in_stage
from tests.support.samples import SAMPLES, sampled

SUITE = """
from hypothesis import given, settings, strategies as st

@settings(max_examples=7, database=None)
@given(st.integers())
def test_drawn(number):
    assert isinstance(number, int)

def test_wrong():
    assert False

def test_skipped():
    import pytest
    pytest.skip("no reason")
"""


@pytest.mark.parametrize(("kills", "expected"), [(1, 3), (20, 60)])
def test_every_stage_is_killed_so_often_with_every_variant(kills: int, expected: int) -> None:
    names, values = kill_parameters(kill_matrix(("a", "b", "c"), ("x", "y")).mark, kills)
    assert names == ("stage", "kill", "variant") and len(values) == expected
    cells = [(value.values[0], value.values[2]) for value in values]
    assert {stage for stage, _ in cells} == {"a", "b", "c"} and {
        variant for _, variant in cells
    } == {"x", "y"}
    assert len({value.id for value in values}) == expected
    if kills > 1:
        assert len(set(cells)) == 6


def test_moments_of_kills_are_spread_over_the_stage() -> None:
    moments = sorted(position_in_stage(kill) for kill in range(20))
    assert position_in_stage(0) == 0.5 and moments[0] >= 0 and moments[-1] < 1
    assert max(after - before for before, after in pairwise(moments)) < 0.1


def test_a_run_of_the_suite_is_counted(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SUITE)
    outcome = Outcome()
    pytest_run(
        ["-p", "no:cacheprovider", "-c", "/dev/null", str(tmp_path)],
        tmp_path / "log",
        outcome,
        Progress(),
        "part",
    )
    assert outcome.counts == {"passed": 1, "failed": 1, "skipped": 1}, (
        tmp_path / "log"
    ).read_text()
    assert (outcome.inputs, outcome.broken, outcome.is_bad) == (7, 0, True)
    assert [name.rpartition("::")[2] for name in outcome.failed] == ["test_wrong"]


def test_a_run_that_cannot_begin_is_a_failure(tmp_path: Path) -> None:
    outcome = Outcome()
    pytest_run(["--no-such-option"], tmp_path / "log", outcome, Progress(), "part")
    assert (outcome.broken, outcome.is_bad) == (1, True)


@pytest.mark.parametrize(
    ("memory", "descriptors", "threads", "failed"),
    [
        pytest.param(0.0, 0.0, 0.0, False, id="steady"),
        pytest.param(1 / 3600, 0.0, 0.0, False, id="a little"),
        pytest.param(4 / 3600, 0.0, 0.0, True, id="memory"),
        pytest.param(0.0, 2 / 3600, 0.0, True, id="descriptors"),
        pytest.param(0.0, 0.0, 2 / 3600, True, id="threads"),
    ],
)
def test_growth_over_an_hour_fails(
    memory: float, descriptors: float, threads: float, failed: bool
) -> None:
    """Parameters: growth per second. What is needed at the start does not count."""
    subject = Subject("it", 1)
    for second in range(0, 4000, 5):
        start = min(second, 400) / 10
        subject.readings.append(
            (
                float(second),
                30 + start + memory * second,
                9 + descriptors * second,
                3 + threads * second,
            )
        )
    assert subject.row(4000.0).failed is failed


def test_a_program_that_ends_early_fails() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "pass"])
    child.wait()
    subject = Subject("it", child.pid)
    subject.read()
    row = subject.row(1.0)
    assert row.failed and "ended before its time" in row.what
    assert "FAILED" in row_text(row)


def test_one_failed_row_fails_the_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = Row("kills", "9 passed", False, 61.0), Row("kills", "1 failed", True, 2.0)
    assert show([good, bad, good], Progress()) and not show([good], Progress())
    assert capsys.readouterr().out.splitlines() == [
        "kills      passed   0:01:01  9 passed",
        "kills      FAILED   0:00:02  1 failed",
        "kills      passed   0:01:01  9 passed",
        "kills      passed   0:01:01  9 passed",
    ]


def test_files_that_are_begun_first_exist() -> None:
    tests = Path(__file__).parent
    assert [name for name in LONGEST_FILES if not (tests / name).is_file()] == []
    assert len(set(LONGEST_FILES)) == len(LONGEST_FILES)


def test_tests_with_left_out_cases_exist() -> None:
    tests = Path(__file__).parent
    missing = [
        name
        for name in SAMPLES
        for file, _, function in [name.partition("::")]
        if f"def {function}(" not in (tests / file).read_text()
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("number", "total", "expected"), [(0, 5, []), (1, 5, [0]), (2, 5, [0, 4]), (3, 8, [0, 4, 7])]
)
def test_cases_that_are_run_are_spread(number: int, total: int, expected: list[int]) -> None:
    assert sorted(sampled(number, total)) == expected


def test_every_parser_takes_part() -> None:
    """A new one is tried by itself, or says here why it is not."""
    for name, _, function in parsers.functions():
        unknown = set(parsers.needed(function).values()) - set(parsers.ARGUMENTS)
        assert name in parsers.BY_RECORDS or not unknown, (
            f"{name} takes {unknown}: see tests/campaign/parsers.py"
        )
    assert {name for name, _, _ in parsers.functions()} >= parsers.BY_RECORDS | set(parsers.HANDLED)


def test_parsers_stand_a_few_thousand_inputs() -> None:
    tried, _ = parsers.run(4000, seed=16)
    assert len(tried) > 100 and all(one.inputs for one in tried if one.weight >= 1)
    assert [(one.name, what, text) for one in tried for what, text in one.faults.items()] == []


def test_faults_of_parsers_are_found() -> None:
    def faulty(_: Random, text: str) -> None:
        if "\n" in text:
            raise KeyError(text)
        if ":" in text:
            while True:
                pass

    one = parsers.Parser("faulty", faulty, ("a",), (ValueError,))
    random = Random(1)
    while len(one.faults) < 3:
        parsers.attempt(one, random)
    assert {what.partition(":")[0] for what in one.faults} >= {"KeyError", "more than 1 s"}


def test_every_field_takes_part_with_every_value() -> None:
    """A field is found in one of the hosts that are changed; a new one takes part by itself."""
    pairs = field_values.pairs()
    fields = {(pair.record, pair.field): pair for pair in pairs}
    assert len(pairs) > 12_185 and len(fields) > 500
    assert [
        pair.name for pair in fields.values() if field_values.records_with([pair]) is None
    ] == []


def test_rules_and_reports_of_some_values() -> None:
    pairs = field_values.pairs()
    assert field_values.printed_faults([pairs[number] for number in sampled(12, len(pairs))]) == []


def test_screens_of_some_values() -> None:
    pairs = field_values.pairs()
    assert field_values.drawn_faults([pairs[number] for number in sampled(60, len(pairs))]) == []


def test_faults_of_values_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [
        pair
        for pair in field_values.pairs()
        if (pair.record.__name__, pair.field) == ("Link", "name")
    ][:2]

    def faulty(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(field_values, "print_all", faulty)
    assert field_values.printed_faults(pairs) == [f"{pair.name}: KeyError: 'x'" for pair in pairs]
    monkeypatch.setattr("nictop.tui.widgets.devices.table.DeviceTable.plain_row", faulty)
    assert [fault.partition(": ")[0] for fault in field_values.drawn_faults(pairs)] == [
        pair.name for pair in pairs
    ]


def test_there_are_enough_hostile_hosts_and_recordings() -> None:
    assert len(hostile.KINDS) > 90 and len(hostile_recordings.KINDS) > 40


THREAD = {"tid": 1, "pid": 1, "name": "vhost-1", "kind": "vhost"}
QUICK = [
    name for name in hostile_host.KINDS if name.startswith(("flood", "absurd", "texts", "counters"))
]


@pytest.mark.parametrize("name", QUICK)
def test_lines_of_hostile_hosts_are_what_they_are_meant_to_be(name: str) -> None:
    """The campaign judges all of them."""
    assert hostile_lines.misjudged(name) == ""


@pytest.mark.parametrize(
    ("data", "meant", "wrong"),
    [
        (hostile_host.counters(1), "taken", ""),
        (
            b'{"counters":{"time":"x"}}\n',
            "taken",
            "lines that are meant to be taken are refused: invalid line",
        ),
        (b'{"counters":{"time":"x"}}\n', "refused", ""),
        (hostile_host.counters(1), "refused", "no line is refused"),
        (hostile_host.counters(1), "cut", "no line is cut"),
        (
            hostile_host.counters(1, later=1),
            "taken",
            "lines that are meant to be taken are unknown: no field Counters",
        ),
        (
            hostile_host.inventory([hostile_host.link(2, later=1)]),
            "taken",
            "lines that are meant to be taken are unkn",
        ),
        (
            hostile_host.inventory(threads=[THREAD] * 9000),
            "taken",
            "lines that are meant to be taken are cut: threads",
        ),
    ],
)
def test_lines_that_are_not_what_they_are_meant_to_be_are_found(
    data: bytes, meant: hostile_host.Fate, wrong: str
) -> None:
    found = hostile_lines.judged([data], meant)
    assert found.startswith(wrong) and bool(found) == bool(wrong)


@pytest.mark.parametrize(
    ("found", "failed"),
    [
        (recordings.Read(memory=90.0, latency=0.4, end=1.9), False),
        (recordings.Read(memory=95.0), True),
        (recordings.Read(latency=0.6), True),
        (recordings.Read(end=2.1), True),
        (recordings.Read(fault="internal error"), True),
    ],
)
def test_a_recording_that_takes_too_much_fails(found: recordings.Read, failed: bool) -> None:
    usual = {
        which: recordings.Read(memory=30.0) for which in (*recordings.PRINTED, *recordings.SCREENS)
    }
    row = recordings.row("kind", {**usual, "show": found}, usual, 1.0)
    assert row.failed is failed and row.what.startswith("kind: memory +")
