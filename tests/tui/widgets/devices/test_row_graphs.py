"""Graphs of rows that are kept are those that would be drawn from scratch."""

from __future__ import annotations

from random import Random

import pytest

from nictop.model.history import History
from nictop.model.snapshot import Snapshot, advance
from nictop.model.text.glyphs import UNICODE
from nictop.tui.widgets.devices.row_graphs import RowGraphs, readings_of_this_second
from tests.support.lines import counters, hello, inventory, link

WIDTH = 12


def graph_from_scratch(history: History) -> str:
    graphs = RowGraphs(UNICODE)
    graphs.begin(history, WIDTH, packets=False)
    return graphs.graph(2)


@pytest.mark.parametrize("interval", [0.1, 0.25, 0.5, 1.0, 3.0])
def test_a_kept_graph_is_that_of_a_drawing_from_scratch(interval: float) -> None:
    random, history, graphs = Random(str(interval)), History(2000), RowGraphs(UNICODE)
    snapshot, received = Snapshot.empty("vm1"), 0
    for line in (hello(), inventory(link(2, "ens192", bus="pci"))):
        snapshot = advance(snapshot, line)
    drawn = set()
    for number in range(300):
        received += random.choice((0, 1, 1_000, 1_000_000))
        moment = 1000.37 + number * interval
        snapshot = advance(snapshot, counters(moment, {2: (received, 7 * number)}))
        history.record(snapshot)
        graphs.begin(history, WIDTH, packets=False)
        drawn.add(graphs.graph(2))
        assert graphs.graph(2) == graph_from_scratch(history)
    assert len(drawn) > 10


@pytest.mark.parametrize(
    ("times", "unshown"),
    [
        ((), 0),
        ((1000.0,), 0),
        ((1000.0, 1000.2), 0),
        ([1000.37 + number for number in range(50)], 0),
        ([1000.0 + number / 10 for number in range(56)], 6),
        ([1000.05 + number / 8 for number in range(50)], 2),
        ([1000.05 + number / 5 for number in range(50)], 0),
    ],
)
def test_only_many_readings_in_a_second_wait_for_its_end(times: list[float], unshown: int) -> None:
    assert readings_of_this_second(times) == unshown


def test_another_history_is_drawn_anew() -> None:
    """Of another host with the same times."""
    graphs, drawn = RowGraphs(UNICODE), []
    for step in (0, 1_000):
        history, snapshot = History(100), Snapshot.empty("vm1")
        for line in (hello(), inventory(link(2, "ens192", bus="pci"))):
            snapshot = advance(snapshot, line)
        for moment in range(60):
            snapshot = advance(snapshot, counters(float(moment), {2: (step * moment, 0)}))
            history.record(snapshot)
        graphs.begin(history, WIDTH, packets=False)
        drawn.append(graphs.graph(2))
        assert drawn[-1] == graph_from_scratch(history)
    assert drawn[0] != drawn[1]
    graphs.begin(history, WIDTH - 3, packets=False)
    assert len(graphs.graph(2)) == WIDTH - 3
    graphs.begin(history, WIDTH - 3, packets=True)
    assert graphs.graph(2) != drawn[1][3:]
