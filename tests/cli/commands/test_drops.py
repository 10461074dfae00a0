"""``nictop drops``: its arguments and exit codes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.cli.commands import drops
from nictop.report.drops import HostDrops
from nictop.report.facts.hosts import UnreachableHost
from tests.cli.test_main import call_main
from tests.report.test_drops import RESULT

BUSY = replace(RESULT, report=replace(RESULT.report, state="busy"))


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([RESULT], 0),
        ([RESULT, BUSY], 4),
        ([replace(RESULT, report=replace(RESULT.report, state="stopped"))], 0),
        ([BUSY, UnreachableHost("vm2", "no answer")], 3),
    ],
)
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch, results: list[HostDrops], expected: int
) -> None:
    monkeypatch.setattr(drops, "_monitor", lambda _: results)
    done = call_main("drops", "vm1")
    assert done.returncode == expected and done.stdout.startswith("vm1: ")


@pytest.mark.parametrize("seconds", ["0", "61", "x"])
def test_seconds(seconds: str) -> None:
    done = call_main("drops", "--seconds", seconds)
    assert (
        done.returncode == 2 and f"'{seconds}' is not a number of seconds (1 to 60)" in done.stderr
    )


def test_this_host() -> None:
    """Whatever this kernel offers: a report, or the reason why there is none."""
    done = call_main("drops", "--seconds", "1")
    assert done.returncode in (0, 4), done.stderr
    assert "dropped" in done.stdout or "drop monitor" in done.stdout
