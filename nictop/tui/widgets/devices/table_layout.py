"""How the width of the table of devices is divided among names, columns and the history. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.columns.column import Column, no_value
from nictop.model.columns.devices import (
    MAIN_COLUMNS,
    PACKET_COLUMNS,
    DeviceRow,
    visible_columns,
)
from nictop.probe.light_dataclasses import dataclass
from nictop.tui.widgets.base.table_line import columns_cells

LEAD_CELLS = 3
"""The cursor, the mark of the worst finding, a blank."""
MISSING_MARK_CELLS = 3
"""The number of the columns that are not shown: `` +2``."""
MIN_NAME_CELLS = 14
PREFERRED_NAME_CELLS = 20
GRAPH: Column[DeviceRow] = Column(
    "graph", "RX+TX 60 s", "b/s", 10, 1, "left", no_value,
    source="both directions over the last 60 s; option packets: packets/s (as RX b/s and TX b/s)",
)  # fmt: skip
GRAPH_CELLS = (30, 20, GRAPH.width)
"""Cells of the history graph: the widest that leaves the name comfortable, else the narrowest."""


@dataclass(frozen=True)
class TableLayout:
    """How the width of the table is divided."""

    name: int
    columns: tuple[Column[DeviceRow], ...]
    graph: int
    gap: int
    """Blanks before the graph: two, unless the name needs one of them."""
    missing: int
    """Columns of an 80 column table for which there is no room, the history among them."""
    packets: bool = False
    """The history is that of packets, not of bits."""


def layout(width: int, *, packets: bool) -> TableLayout:
    """The smallest graph and name first, then columns by priority; what remains widens the graph
    and the name."""
    room = width - LEAD_CELLS
    columns, graph = _columns_and_graph(room, packets)
    name, gap = room - columns_cells(columns), 1
    if graph:
        name -= graph + 1
    if graph and name > MIN_NAME_CELLS:
        name, gap = name - 1, 2
    missing = _number_of_missing(columns, graph, packets)
    if missing:
        name -= MISSING_MARK_CELLS
    return TableLayout(
        name=max(1, name),
        columns=columns,
        graph=graph,
        gap=gap,
        missing=missing,
        packets=packets,
    )


def _number_of_missing(columns: Sequence[Column[DeviceRow]], graph: int, packets: bool) -> int:
    """`TableLayout.missing`."""
    wanted = PACKET_COLUMNS if packets else MAIN_COLUMNS
    missing = len(set(wanted) - _keys_of(columns))
    if graph == 0:
        missing += 1
    return missing


def _columns_and_graph(room: int, packets: bool) -> tuple[tuple[Column[DeviceRow], ...], int]:
    """The columns that fit, and the cells of the graph behind them; 0: there is none."""
    columns = visible_columns(room - MIN_NAME_CELLS - GRAPH_CELLS[-1] - 1, packets=packets)
    without_graph = visible_columns(room - MIN_NAME_CELLS, packets=packets)
    now = {"rx_packets", "tx_packets"} if packets else {"rx", "tx"}
    left_out_by_graph = _keys_of(without_graph) - _keys_of(columns)
    if now & left_out_by_graph:  # what is, before what was
        return without_graph, 0
    rest = room - columns_cells(columns)
    fitting = (cells for cells in GRAPH_CELLS if rest - cells - 2 >= PREFERRED_NAME_CELLS)
    graph = next(fitting, GRAPH_CELLS[-1])
    if rest - graph - 1 < MIN_NAME_CELLS:
        return columns, 0
    return columns, graph


def _keys_of(columns: Sequence[Column[DeviceRow]]) -> set[str]:
    return {column.key for column in columns}
