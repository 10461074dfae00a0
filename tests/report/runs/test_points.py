"""The set-ups of an experiment: a cost that all of them have."""

from __future__ import annotations

from nictop.report.runs.points import column_titles, cost_note, point_cells, set_up_points
from nictop.tui.widgets.charts.bar_chart import draw_points
from tests.support.kept_runs import kept_runs


def test_runs_that_carried_too_little_for_a_cost_have_their_busy_cores() -> None:
    """Six block sizes over a slow NIC: the line of the CPU is what is to be seen of them."""
    points = set_up_points(kept_runs("recipes")["blocks-igb"])
    assert len(points) == 6
    assert {point.cost_unit for point in points} == {"busy"}
    for point in points:
        (_, host, cost) = point.costs[0]
        assert host == "vm1" and cost is not None and 0 < cost.median <= 4
    assert "carried too little" in cost_note(points)
    assert "CPU client vm1" in column_titles(points, "bs")[-1]
    assert point_cells(points[0])[-1] != "–"
    drawn = "\n".join("".join(text for text, _ in line) for line in draw_points(points, 118, 24))
    assert "busy CPU" in drawn and "cores client vm1" in drawn and "– client" not in drawn


def test_runs_with_a_cost_keep_it() -> None:
    points = set_up_points(kept_runs("recipes")["full"])
    assert {point.cost_unit for point in points} == {"Gb/s"}
