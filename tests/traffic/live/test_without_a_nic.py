"""A measurement by hand of a host no NIC of which is chosen: its CPUs, while it runs and in all
places in which its result is shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from nictop.model.text.glyphs import UNICODE
from nictop.report.runs.text import run_text, stored_runs_text
from nictop.traffic.analysis.workload import one_host_result
from nictop.traffic.live.run_view import RunView, result_view
from nictop.traffic.results.selection import StoredRun, StoredRuns
from nictop.tui.screens.traffic.status import run_status, time_text
from nictop.tui.widgets.traffic.chart_drawing import draw_run
from nictop.tui.widgets.traffic.hosts import draw_hosts
from nictop.tui.widgets.traffic.results_list import COLUMNS, set_ups
from nictop.tui.widgets.traffic.viewport import Viewport, sight_of
from tests.traffic.live.test_run_view import counters, host
from tests.traffic.plans import PLAN
from tests.traffic.watched import AXIS_START, Watched

CLIENT = replace(PLAN.client, ifindex=None)
BY_HAND = replace(PLAN, client=CLIENT, server=CLIENT, test="manual", time=3600)
LOADED = range(9, 14)
"""Seconds in which the CPU is busy."""


def watched(seconds: int) -> Watched:
    """Begun, with a reading each second."""
    records, user = [], 0
    for second in range(seconds + 1):
        records.append(counters(AXIS_START + second, user=user))
        user += 90 if second in LOADED else 5
    run = Watched(BY_HAND, {"a": host("a", records)})
    run.log.ends["client"].begin_by_hand(AXIS_START)
    return run


def drawn(view: RunView) -> list[str]:
    lines = [*draw_run(view, Viewport(), 80, 12), *draw_hosts(view, Viewport(), 80, 2)]
    return ["".join(text for text, _ in line) for line in lines]


def stored() -> StoredRun:
    run = watched(17)
    end = run.log.ends["client"]
    end.end_by_hand(AXIS_START + 16.7)
    return StoredRun("r", "r", one_host_result(run.log), 0.0, "0")


@pytest.mark.parametrize("seconds", [9, 15])
def test_it_is_measured_while_it_runs(seconds: int) -> None:
    """``test starting`` and ``Nothing is measured yet`` were said for as long as it ran, and after
    ten seconds ``CPU –``."""
    view = watched(seconds).view(seconds + 0.3)
    assert view.is_measured and not view.series and time_text(view) == f"{seconds} s"
    traffic = SimpleNamespace(
        running=True, awaits_answer=False, is_stopping=False, view=lambda: view
    )
    assert run_status(traffic) == f"▶ measuring {seconds} s"  # type: ignore[arg-type]
    shown = "\n".join(drawn(view))
    assert "no NIC was chosen" in shown and "CPU  " in shown and "CPU –" not in shown
    assert "not measured yet" not in shown


def test_the_first_second_of_a_nic_is_no_fault_of_it() -> None:
    """It was said that no NIC was chosen, below its name."""
    nic = replace(PLAN.client, ifindex=99)  # not in a reading yet
    plan = replace(BY_HAND, client=nic, server=nic)
    records = [counters(AXIS_START + time, user=user) for time, user in ((-0.4, 0), (0.6, 50))]
    run = Watched(plan, {"a": host("a", records)})
    run.log.ends["client"].begin_by_hand(AXIS_START)
    view = run.view(0.8)
    assert view.is_measured and not view.series
    shown = "\n".join(drawn(view))
    assert "no rate yet" in shown and "no NIC was chosen" not in shown


def test_the_first_window_is_told_beside_the_chart_that_has_it() -> None:
    """``CPU – … not measured yet`` was beside a chart of the first second."""
    records = [counters(AXIS_START + time, user=user) for time, user in ((-0.4, 0), (0.6, 50))]
    run = Watched(BY_HAND, {"a": host("a", records)})
    run.log.ends["client"].begin_by_hand(AXIS_START)
    shown = "\n".join(drawn(run.view(0.8)))
    assert "CPU  50 %" in shown and "not measured" not in shown


@pytest.mark.parametrize("is_over", [False, True])
def test_the_load_stands_where_it_was_on_the_whole_axis(is_over: bool) -> None:
    view = result_view(stored().result) if is_over else watched(17).view(17.2)
    assert sight_of(view, Viewport()).end == 17.0
    (row,) = [line for line in drawn(view) if line.startswith("    %│")]
    chart = row[6:75]
    busy = [place for place, cell in enumerate(chart) if cell != " "]
    begin, end = (17.0 * place / len(chart) for place in (busy[0], busy[-1] + 1))
    assert abs(begin - LOADED.start) < 1 and abs(end - LOADED.stop) < 1, row


def test_all_lists_tell_the_same_of_its_result() -> None:
    """It was ``✖ failed`` in the list of results, and ``–`` in that of the command line."""
    run = stored()
    (row,) = set_ups([run])
    (cell,) = [column.value(row) for column in COLUMNS if column.key == "goodput"]
    assert isinstance(cell, tuple) and cell[1] == "title"
    figure = cell[0]
    assert figure.endswith(" cores") and UNICODE.critical not in figure
    assert figure in stored_runs_text(StoredRuns(((Path("r"), run),), (), 0), 120)
    assert "16.7 s: ended by hand" in run_text(run.result, 100)
