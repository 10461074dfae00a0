"""The screen of results divides its rows by what there is to show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from nictop.traffic.results.selection import StoredRun, save_run
from nictop.tui.widgets.traffic.comparison_view import ComparisonLines
from nictop.tui.widgets.traffic.results_list import SetUpList
from tests.support.kept_runs import demo_runs, kept_runs
from tests.support.screen import NARROW, WIDE, Screen, live_screen, wait_until

SMALL = (60, 20)


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> int:
    """The runs that the parameter gives are those of the user; their number."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    runs: Sequence[StoredRun] = request.param()
    for run in runs:
        save_run(run, tmp_path / "nictop" / "runs")
    return len(runs)


def self_tests() -> Sequence[StoredRun]:
    return [*demo_runs(), *(one for runs in kept_runs("self-test").values() for one in runs)]


async def open_results(screen: Screen, count: int) -> None:
    await screen.press("7")
    await wait_until(screen, lambda: screen.app.screen.query_one(SetUpList).count == count)
    await screen.settle()


@pytest.mark.parametrize("stored", [demo_runs], indirect=True)
@pytest.mark.parametrize("size", [SMALL, NARROW, WIDE])
async def test_few_results_take_few_rows(size: tuple[int, int], stored: int) -> None:
    """Five empty rows were above a text that did not fit."""
    async with live_screen(size) as screen:
        await open_results(screen, stored)
        table = screen.app.screen.query_one(SetUpList)
        assert table.size.height == 1 + 2


@pytest.mark.parametrize("stored", [self_tests], indirect=True)
@pytest.mark.parametrize("size", [SMALL, NARROW])
async def test_a_result_that_goes_on_below_says_so(size: tuple[int, int], stored: int) -> None:
    async with live_screen(size) as screen:
        await open_results(screen, stored)
        view = screen.app.screen.query_one(ComparisonLines)
        for _ in range(stored):
            if len(view.lines) > view.size.height:
                break
            await screen.press("down")
            await screen.settle()
        assert len(view.lines) > view.size.height
        assert "▾ Tab PgDn" in screen.drawn()[-3]
        view.scroll_end(animate=False)
        await screen.settle()
        assert "PgDn" not in screen.drawn()[-3]


async def test_without_results_there_is_no_empty_pane(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with live_screen(NARROW) as screen:
        await screen.press("7")
        await wait_until(screen, lambda: any("No results yet" in line for line in screen.drawn()))
        await screen.settle()
        assert not any("─Result─" in line for line in screen.drawn())
