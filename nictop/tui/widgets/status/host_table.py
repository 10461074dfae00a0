"""The watched hosts, one line each, and everything about the chosen one: how the connection is, rights, clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from textual.message import Message

from nictop.hosts.session import ConnectionStatus, HostSession
from nictop.hosts.specification import Host
from nictop.model.columns.column import Cell, Column, fit_columns
from nictop.model.devices.rights import is_root, rights_text
from nictop.model.facts import platform_text, wrap
from nictop.model.time_axis import LocalClock, clock_text
from nictop.tui.widgets.base.line_view import SpanLine
from nictop.tui.widgets.base.list_view import ChoiceView
from nictop.tui.widgets.base.table_line import cell_spans, headings
from nictop.tui.widgets.status.host_strip import STYLES, host_mark

MORE_RIGHTS = "its probe runs as root with: nictop --sudo, or sudo = true for the host in config.toml"
FACT_LABEL_CELLS = 9
"""Cells of a label in the facts of a host."""


def address_words(host: Host) -> str:
    """``root@pve.example:2222``; ~/.ssh/config may add what is missing."""
    if host.is_local:
        return "this machine"
    address = f"[{host.address}]" if ":" in host.address and host.port is not None else host.address
    user = f"{host.user}@" if host.user else ""
    return f"{user}{address}" + (f":{host.port}" if host.port is not None else "")


@dataclass(frozen=True)
class DrawTime:
    """Time of drawing: the clocks of this machine, and the interval of the readings in seconds."""

    here: LocalClock
    interval: float


class HostRow(NamedTuple):
    """A host at the time of drawing."""

    host: HostSession
    moment: DrawTime

    @property
    def status(self) -> ConnectionStatus:
        return self.host.status(self.moment.here.monotonic, self.moment.interval)


def _state(row: HostRow) -> Cell:
    return row.host.status_text(row.moment.here.monotonic, row.moment.interval), STYLES[row.status]


def _rights(row: HostRow) -> Cell:
    root, hello = is_root(row.host.snapshot), row.host.snapshot.hello
    if root:
        return "root", "normal"
    return "–" if root is None or hello is None else f"user {hello.euid}", "dim"


COLUMNS: tuple[Column[HostRow], ...] = (
    Column("host", "HOST", "", 18, 1, "left", lambda row: (row.host.name, "title")),
    Column("state", "STATE", "", 22, 2, "left", _state),
    Column("rights", "RIGHTS", "", 10, 3, "left", _rights),
    Column("address", "ADDRESS", "", 24, 4, "left", lambda row: (address_words(row.host.host), "dim")),
    Column("clock", "CLOCK", "", 44, 5, "left", lambda row: (clock_text(row.host.snapshot, row.moment.here), "dim")),
)


class HostTable(ChoiceView):
    """Posts `Chosen` when the cursor is on another host, `Opened` on a second click."""

    class Chosen(Message):
        """The cursor is on another host."""

    class Opened(ChoiceView.Opened):
        """The chosen host is to be shown."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._hosts: Sequence[HostSession] = ()
        self._shown = ""
        self._moment: DrawTime | None = None

    @property
    def chosen(self) -> HostSession | None:
        index = self.index
        return None if index is None else self._hosts[index]

    def show(self, hosts: Sequence[HostSession], shown: str, moment: DrawTime) -> None:
        """Draw `hosts`; `shown` is the name of the one on the live screen."""
        self._hosts, self._shown, self._moment = hosts, shown, moment
        self.set_keys([host.name for host in hosts])
        self.redraw()

    def first_choice(self) -> int:
        return next((index for index, host in enumerate(self._hosts) if host.name == self._shown), 0)

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen())

    def redraw(self) -> None:
        moment = self._moment
        if moment is not None:
            columns = _visible_columns(self.scrollable_content_region.width - 2)
            rows = [HostRow(host, moment) for host in self._hosts]
            self.show_drawn(
                len(rows),
                lambda index: self._line_for(rows[index], columns),
                (("  " + headings(columns), ""),),
                self.index,
            )

    def _line_for(self, row: HostRow, columns: Sequence[Column[HostRow]]) -> SpanLine:
        return (" ", ""), host_mark(row.status, glyphs=self.glyphs), *cell_spans(columns, row, self.glyphs)


def _visible_columns(room: int) -> tuple[Column[HostRow], ...]:
    """The columns that fit; the name at any width, cut if necessary."""
    return fit_columns(COLUMNS, room) or (replace(COLUMNS[0], width=max(1, room - 1)),)


def draw_host(host: HostSession, moment: DrawTime, cells: int) -> list[SpanLine]:
    """Everything about one host, each fact wrapped to `cells`."""
    now = moment.here.monotonic
    status, snapshot = host.status(now, moment.interval), host.snapshot
    age = host.age_text(now, moment.interval)
    state = host.status_text(now, moment.interval) + (f"; {age}" if age else "")
    lines = [*_fact("state", state, cells, STYLES[status])]
    why = host.notice(now, moment.interval) if status == "overloaded" else host.reason
    if why and status != "live":
        lines += _fact("why", why, cells, "warn")
    lines += _fact("address", address_words(host.host), cells)
    if snapshot.hello is not None:
        lines += _fact("rights", rights_text(snapshot), cells)
        if not is_root(snapshot):
            lines += _fact("", MORE_RIGHTS, cells, "dim")
        hello = snapshot.hello
        lines += _fact("system", f"{hello.hostname} · Linux {hello.kernel} · Python {hello.python}", cells)
    if snapshot.inventory is not None and "platform" not in snapshot.inventory.pending:
        lines += _fact("machine", platform_text(snapshot.inventory.platform), cells)
    lines += _fact("clock", clock_text(snapshot, moment.here), cells)
    lines += [line for one in snapshot.troubles[-3:] for line in _fact("trouble", one.message, cells, "warn")]
    return lines


def _fact(label: str, text: str, cells: int, style: str = "") -> Iterable[SpanLine]:
    for number, part in enumerate(wrap(text, cells - FACT_LABEL_CELLS - 1)):
        yield ((f" {label if number == 0 else '':<{FACT_LABEL_CELLS}}", "dim"), (part, style))
