"""The guests of one host: the table, the filter, and everything about the chosen NIC.

GUEST   STATE   TAP/VF           RX b/s  TX b/s ADDRESS
web1    running tap101i0         8.00 k  16.0 k 192.0.2.77
web1    running VF 0 of ens1f0   24.0 k  32.0 k
──
net0: virtio-net-pci bc:24:… · tap101i0 · port fwpr101p0 of vmbr0, VLAN 30 · …
"""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Input

from nictop.model.guests.agent_facts import AgentFacts
from nictop.model.guests.agents import agent_text
from nictop.model.guests.table import (
    GuestRow,
    guest_rows,
    matching_rows,
    nic_facts,
    why_guests_are_missing,
)
from nictop.model.snapshot import Snapshot, outdated_text
from nictop.model.text.terminal import clean
from nictop.model.text.units import wall_time_text
from nictop.probe.light_dataclasses import replace
from nictop.tui.widgets.base.filter_line import FilterLine, no_matches
from nictop.tui.widgets.base.line_widget import LineWidget, SpanLine, with_more, wrapped_lines
from nictop.tui.widgets.base.while_open import WhileOpen
from nictop.tui.widgets.devices.guest_table import GuestTable

FILTER_HINT = "filter: web1  vf  virtio  52:54:00  192.0.2.  !stopped"
MAX_FACT_ROWS = 6
MIN_TABLE_ROWS = 7


def nothing(row: GuestRow) -> tuple[str, str]:
    return "", ""


def _agent_fact(name: str, told: AgentFacts) -> str:
    """With the time: it is not asked again by itself."""
    when = f" (asked {wall_time_text(told.asked_at)})" if told.asked_at is not None else ""
    return f"agent of {name}: {agent_text(told)}{when}"


class GuestPane(WhileOpen, Container):
    """Table, filter and facts."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._snapshot = Snapshot.empty("")
        self._rows: tuple[GuestRow, ...] = ()
        self._watched: Callable[[GuestRow], tuple[str, str]] = nothing

    def compose(self) -> ComposeResult:
        yield GuestTable(id="guests")
        yield FilterLine(GuestTable, FILTER_HINT, id="guest-filter")
        yield LineWidget(id="guest-facts")

    def on_mount(self) -> None:
        self.query_one("#guest-facts").can_focus = False

    @property
    def chosen(self) -> GuestRow | None:
        return self.query_one(GuestTable).chosen

    def show(
        self, snapshot: Snapshot, watched: Callable[[GuestRow], tuple[str, str]] = nothing
    ) -> None:
        """Draw the guests of a host. `watched`: text and style about one that is
        watched."""
        if snapshot.silence is not None:  # rates are those of now
            snapshot = replace(snapshot, rates=None)
        self._snapshot, self._rows, self._watched = snapshot, guest_rows(snapshot), watched
        self._draw()

    def _draw(self) -> None:
        rows = matching_rows(self._rows, self.query_one(FilterLine).value)
        table = self.query_one(GuestTable)
        table.show(rows, no_matches(self.key_label) if self._rows else self._why_none())
        number = str(len(rows))
        if len(rows) < len(self._rows):
            number += f" of {len(self._rows)}"
        text = f"NICs of guests of {self._snapshot.host}: {number}"
        outdated = outdated_text(self._snapshot)
        title = self.glyphs.text(f"{text} · {outdated}" if outdated else text)
        title = title.replace("[", r"\[")
        if table.border_title != title:
            table.border_title = title
        self._draw_facts()

    def _why_none(self) -> str:
        why = why_guests_are_missing(self._snapshot)
        if why is not None:
            return f"No guests are known: {why}"
        return "It has no guests"

    def _draw_facts(self) -> None:
        view, row = self.query_one("#guest-facts", LineWidget), self.chosen
        cells = max(10, view.scrollable_content_region.width - 2)
        lines: list[SpanLine] = []
        for text, style in self._facts(row):
            lines += wrapped_lines(self.glyphs.encode(text), cells, style)
        most = max(1, min(MAX_FACT_ROWS, self.size.height - MIN_TABLE_ROWS))
        if len(lines) > most:
            (text, style), *_ = lines[most - 1]
            lines = [*lines[: most - 1], ((self.glyphs.encode(with_more(text, cells)), style),)]
        view.take_rows(max(1, len(lines)) + view.gutter.height)
        view.show_lines(lines)

    def _facts(self, row: GuestRow | None) -> list[tuple[str, str]]:
        """(text, style) of the chosen NIC, and of what may be missing."""
        facts = [] if row is None else self._row_facts(row)
        why = why_guests_are_missing(self._snapshot)
        if self._rows and why is not None:
            facts.append((f"guests may be missing: {why}", "warn"))
        return facts

    def _row_facts(self, row: GuestRow) -> list[tuple[str, str]]:
        facts = []
        if row.condition_text:
            facts.append((f"{row.text}: {row.condition_text}", "warn"))
        if row.nic is not None:
            facts.append((f"{row.text} {nic_facts(row)}", ""))
        if row.agent is not None:
            facts.append((_agent_fact(row.guest.name, row.agent), ""))
        watched, style = self._watched(row)
        if watched:
            facts.append((clean(watched), style))
        if row.why_no_nics is not None:
            facts.append((f"NICs of {row.guest.name} not fully known: {row.why_no_nics}", "warn"))
        return facts

    def on_guest_table_chosen(self) -> None:
        self._draw_facts()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._draw()
