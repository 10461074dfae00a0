"""Who uses the chosen NIC: its processes as bars, its connections as a table, and details of the
chosen one.

 ens192 ◂▸ RX 941 Mb/s · TX 12.1 Mb/s · TCP payload 95 %, other 5 %
 iperf3 ×4     ██████████████████████████████████████████████   94 %  RX  890 M  TX   2 M
 sshd          ▏                                               0.4 %  RX    3 M  TX   1 M
 other         ██▍                                             5.0 %  RX 50.1 M TX   9 M
 RX b/s TX b/s PROCESS       PEER                  PORT  LIMITED BY
▸ 890 M    2 M iperf3        192.0.2.1:51514       5201  peer
── tcp 192.0.2.2:5201 ↔ 192.0.2.1:51514 · established ──
 …
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message
from textual.widgets import Input

from nictop.model.columns.column import Column
from nictop.model.columns.connections import (
    COLUMNS,
    COLUMNS_BY_KEY,
    OTHER_PARTS,
    make_row_order,
    nic_texts,
    number_text,
    order_rows,
    row_lines,
)
from nictop.model.connections.filter import FIELDS
from nictop.model.connections.table import (
    ConnectionRow,
    ConnectionTable,
    User,
    connection_table,
    is_current,
)
from nictop.model.facts import clean, fit, width, wrap
from nictop.model.queues.filters import NumberFilter, number_filter
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.bars import bar
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link
from nictop.tui.keys import KeyLabels
from nictop.tui.widgets.base.filter_line import FilterLine, no_matches
from nictop.tui.widgets.base.line_widget import (
    LineWidget,
    SpanLine,
    cut_spans,
    section_line,
    wrapped_lines,
)
from nictop.tui.widgets.base.sortable_table import SortableTable
from nictop.tui.widgets.base.table_line import cell_spans, fit_with_mark, header_line
from nictop.tui.widgets.base.while_open import WhileOpen
from nictop.tui.widgets.cpu.nic_view import nic_line, no_link_text

FILTER_HINT = "filter: nginx  443  192.0.2.  udp  rx>1M  rtt>10  retr>0  !sshd"
USER_CELLS, SHARE_CELLS, RATE_CELLS = 20, 8, 22
"""Cells of the name of a process, of its share, and of its rates."""
MIN_CELLS_FOR_RATES = 60
MIN_USERS, MAX_USERS = 3, 6
MIN_ROWS, TALL_ROWS = 15, 28
"""Of the whole view, from which on there are `MIN_USERS` and `MAX_USERS` processes; with fewer rows
there is only the line of the NIC above the table, and one line below it."""
DETAIL_ROWS, MAX_NOTE_ROWS = 4, 2
TITLE_CELLS = 5
"""Of the line around a title."""
MIN_TEXT_CELLS = 10
NARROW_CELLS, NARROW_WIDTHS = 62, {"process": 11, "peer": 19}
"""Cells below which the peer would have no room beside the process; key of a column → its width
there."""
MIN_CELLS_FOR_PEER = 100
"""From which on the column of the peer is as wide as its texts, before others follow."""


def not_recorded_text(labels: KeyLabels) -> str:
    """Why a recording has no connections here, and how they are recorded."""
    record, open_, back = labels("record"), labels("open"), labels("back")
    return f"""\
No connections of this interface are recorded at this time.
A host is asked for its connections only while they are shown: that costs it work for each of \
them. So a recording has them of the moments in which somebody looked at them, and of that \
interface.
To record them: nictop HOST, start the recording ({record}), open the interface ({open_}) and its \
connections ({open_} again), and keep them on the screen.
What is recorded of the interface itself is on the view before ({back}), its queues on Queues, \
its interrupts on CPUs."""


def draw_users(
    table: ConnectionTable, cells: int, number: int, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """A bar for each of the busiest processes, and one for the rest of the NIC's bytes: `number` +
    1 lines."""
    busy = [user for user in table.users if user.rx_bits or user.tx_bits]
    if not busy:
        text = "no TCP traffic"
        if table.seconds is None:
            text = "rates follow with the next reading"
        return [((f" {text}", "dim"),), *[()] * number]
    shown = busy[:number]
    lines = []
    for user in shown:
        name = _user_text(user.name, user.connections, glyphs)
        rates = (user.rx_bits, user.tx_bits)
        lines.append(_user_line(name, user.share, rates, "in", cells, glyphs=glyphs))
    if table.share is not None:
        lines.append(_rest_line(table, shown, len(busy) - len(shown), cells, glyphs))
    return [*lines, *[()] * (number + 1 - len(lines))]


def _rest_line(
    table: ConnectionTable, shown: Sequence[User], more: int, cells: int, glyphs: Glyphs
) -> SpanLine:
    """The bytes of the NIC that are not of the `shown` processes; `more`: number of others."""
    name = f"{more} more, other" if more else "other"
    share = 1 - sum(user.share or 0.0 for user in shown)
    rx = (table.nic_rx_bits or 0.0) - sum(user.rx_bits for user in shown)
    tx = (table.nic_tx_bits or 0.0) - sum(user.tx_bits for user in shown)
    rates = (max(0.0, rx), max(0.0, tx))
    return _user_line(name, max(0.0, share), rates, "dim", cells, glyphs=glyphs)


def _user_line(
    name: str,
    share: float | None,
    rates: tuple[float, float],
    style: str,
    cells: int,
    *,
    glyphs: Glyphs,
) -> SpanLine:
    """Name, bar, share, and the rates where there is room."""
    numbers = f" {units.percentage(share):>7}"
    room = cells - USER_CELLS - SHARE_CELLS - 3
    if cells >= MIN_CELLS_FOR_RATES:
        numbers += f"  RX {units.scaled(rates[0])} TX {units.scaled(rates[1])}"
        room -= RATE_CELLS
    text_style = "dim" if style == "dim" else ""
    return (
        (f" {fit(glyphs.text(name), USER_CELLS)} ", text_style),
        (bar(share, max(4, room), glyphs), style),
        (numbers, text_style),
    )


def _user_text(name: str, connections: int, glyphs: Glyphs) -> str:
    """``nginx ×15``: of a name that is too long the end is cut, not the number."""
    number = ""
    if connections > 1:
        number = glyphs.text(f" ×{connections}")
    return fit(glyphs.text(name), max(1, USER_CELLS - width(number))).rstrip() + number


class UserLines(LineWidget):
    """The NIC and its processes. A click on the arrows behind the name does what the keys left and
    right do."""

    can_focus = False
    name_cells = 0
    """Of the NIC."""

    async def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset_capture(self)
        left_arrow = self.name_cells + 2
        steps = {left_arrow: -1, left_arrow + 1: 1}
        if offset.y == 0 and offset.x in steps:
            await self.run_action(f"screen.step_nic({steps[offset.x]})")


class ConnectionList(SortableTable[ConnectionRow]):
    """The table of connections. Posts `Chosen` when the cursor is on another one."""

    STRETCHED_COLUMNS = ("process", "peer", "owner", "local")
    COLUMNS_BY_KEY = COLUMNS_BY_KEY

    class Chosen(Message):
        """The cursor is on another line."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._empty = ""

    def show(self, rows: Sequence[ConnectionRow], empty: str) -> None:
        """Draw `rows` in the present order; `empty`: what is said if there are none."""
        self._all, self._empty = rows, empty
        self._rows = order_rows(rows, self.order)
        self.set_keys([str(row.connection.cookie) for row in self._rows])
        self.redraw()

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen())

    def redraw(self) -> None:
        self._columns = self._layout()
        if self._rows:
            self.show_drawn(len(self._rows), self._row_line, self._header_line(), self.index)
        else:
            self.show_lines(self._empty_lines(), self._header_line())

    def _empty_lines(self) -> list[SpanLine]:
        cells = max(MIN_TEXT_CELLS, self.scrollable_content_region.width - 2)
        lines: list[SpanLine] = []
        for text in self._empty.split("\n"):
            lines += [((f" {self.glyphs.encode(part)}", "dim"),) for part in wrap(text, cells)]
        return lines

    def _layout(self) -> tuple[Column[ConnectionRow], ...]:
        cells = self.scrollable_content_region.width - self.MARK_CELLS
        wanted_columns = [self._with_width(self._with_mark(column), cells) for column in COLUMNS]
        columns, self._hidden_columns = fit_with_mark(wanted_columns, cells)
        return self._stretched(columns, cells)

    def _with_width(self, column: Column[ConnectionRow], cells: int) -> Column[ConnectionRow]:
        """The column in a table of `cells`."""
        if cells < NARROW_CELLS and column.key in NARROW_WIDTHS:
            return replace(column, width=NARROW_WIDTHS[column.key])
        if cells >= MIN_CELLS_FOR_PEER and column.key == "peer":
            return replace(column, width=max(column.width, self._needed(column)))
        return column

    def _header_line(self) -> SpanLine:
        cells = self.scrollable_content_region.width
        return header_line(
            " " * self.MARK_CELLS + self._headings(self._columns),
            self._hidden_columns,
            cells,
            self.glyphs,
        )

    def _row_line(self, index: int) -> SpanLine:
        return (" ", ""), *cell_spans(self._columns, self._rows[index], self.glyphs)

    def sort_by(self, column: str, *, descending: bool) -> None:
        self.order = make_row_order(self._all, column, descending=descending)
        self.show(self._all, self._empty)


def _why_unread(snapshot: Snapshot) -> str:
    """``vm1 is not connected``; "": a reading may come."""
    if snapshot.state != "live":
        return f"{clean(snapshot.host)} is not connected"
    return f"{clean(snapshot.host)} sends no data" if snapshot.silence is not None else ""


class ConnectionsView(WhileOpen, Container):
    """Summary, table, filter and details."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._table: ConnectionTable | None = None
        self._drawn_from: tuple[object, object] = (None, None)
        """Reading and links from which the table was made."""
        self._link: Link | None = None
        self._why_no_link = ""
        self._is_recording = False
        self._why_unread = ""
        """Why no reading will come now."""

    def compose(self) -> ComposeResult:
        yield UserLines(id="connection-users")
        yield ConnectionList(id="connection-list")
        yield FilterLine(ConnectionList, FILTER_HINT, id="connection-filter")
        yield LineWidget(id="connection-facts")

    def on_mount(self) -> None:
        self.query_one("#connection-facts").can_focus = False

    def show(self, link: Link | None, snapshot: Snapshot, *, is_recording: bool) -> None:
        """Draw the connections of `link` (None: the chosen row has none) from `snapshot`."""
        if not _is_same_link(link, self._link):
            self.query_one(ConnectionList).begin(None)
        self._link, self._is_recording = link, is_recording
        self._why_unread = _why_unread(snapshot)
        self._why_no_link = no_link_text(snapshot, self.key_label)
        drawn_from = (snapshot.connections, snapshot.links)
        is_drawn = all(map(is_, drawn_from, self._drawn_from))
        if link is None or not is_current(snapshot.connections, link.ifindex, snapshot):
            self._table = None
        elif self._table is None or not is_drawn:
            self._table = connection_table(link.ifindex, snapshot)
        self._drawn_from = drawn_from
        self._draw()

    def _draw(self) -> None:
        table, entry = self._table, self.query_one(FilterLine)
        self._draw_users()
        wanted: NumberFilter[ConnectionRow] = number_filter(entry.value, FIELDS)
        rows: list[ConnectionRow] = []
        note = ""
        if table is not None:
            rows = [row for row in table.rows if wanted.accepts(row)]
            note = f"{len(rows)} of {len(table.rows)}"
        if wanted.errors:
            note = "; ".join(wanted.errors)
        entry.show_note(note, is_error=bool(wanted.errors))
        self.query_one(ConnectionList).show(rows, self._empty_text)
        self._draw_facts()

    @property
    def _empty_text(self) -> str:
        if self._link is None:
            return self._why_no_link
        if self._table is None and self._is_recording:
            return not_recorded_text(self.key_label)
        if self._table is None and self._why_unread:
            return f"Connections not read: {self._why_unread}"
        if self._table is None:
            return "Reading connections…"
        if self._table.rows:
            return no_matches(self.key_label)
        return f"No connections through {self._table.nic}"

    def _draw_users(self) -> None:
        view, table = self.query_one(UserLines), self._table
        name = units.UNKNOWN if self._link is None else clean(self._link.name)
        view.name_cells = width(name)
        cells = view.scrollable_content_region.width
        texts = () if table is None else nic_texts(table)
        lines = [nic_line(self._link, texts, cells, self.glyphs)]
        number = self._number_of_users
        rows = 1
        if table is not None and number:
            lines += draw_users(table, cells, number, self.glyphs)
            lines += self._note_lines(table, cells)
            rows = max(number + 3, len(lines))
        view.take_rows(rows)
        view.show_lines(lines)

    @property
    def _number_of_users(self) -> int:
        """That are listed; 0: there is no room."""
        rows = self.size.height
        if rows >= TALL_ROWS:
            return MAX_USERS
        if rows >= MIN_ROWS:
            return MIN_USERS
        return 0

    def _note_lines(self, table: ConnectionTable, cells: int) -> list[SpanLine]:
        """How many connections there are, what is not known of them, and what "other" is."""
        notes = [number_text(table), *table.notes]
        if table.share is not None:
            notes.append(f"other: {OTHER_PARTS}")
        text = self.glyphs.text(" · ".join(notes))
        return wrapped_lines(text, cells - 1, "dim")[:MAX_NOTE_ROWS]

    def _draw_facts(self) -> None:
        view = self.query_one("#connection-facts", LineWidget)
        row, table = self.query_one(ConnectionList).chosen, self._table
        cells = max(10, view.scrollable_content_region.width - 1)
        lines: list[SpanLine] = []
        if row is not None and table is not None:
            title, *facts = row_lines(row, table, cells - TITLE_CELLS)
            lines.append(section_line(self.glyphs.text(title), cells))
            for fact in facts:
                lines.append(tuple(cut_spans([(f" {self.glyphs.text(fact)}", "")], cells)))
        number = DETAIL_ROWS if self.size.height >= MIN_ROWS else 1
        view.take_rows(number)
        view.show_lines(lines[:number])

    def on_connection_list_chosen(self) -> None:
        self._draw_facts()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._draw()


def _is_same_link(link: Link | None, before: Link | None) -> bool:
    if link is None or before is None:
        return link is before
    return link.ifindex == before.ifindex
