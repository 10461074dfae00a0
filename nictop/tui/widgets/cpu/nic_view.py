"""Base of the views of one NIC: its name between two arrows, lines with a cursor, and pages to scroll.

The arrows do what the keys left and right do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from textual import events

from nictop.model.facts import absence_reason, clean, driver_name, fit, value_or_reason, width
from nictop.model.queues.heatmap import Heatmap
from nictop.model.queues.trends import Key, Trends
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.words import IFF_LOOPBACK, NOT_READ_YET
from nictop.probe.records import Channels, Link, Rings, Unreadable
from nictop.tui.widgets.base.line_view import SpanLine, WaitingLines, cut_spans, no_lines
from nictop.tui.widgets.base.list_view import ChoiceView
from nictop.tui.widgets.charts.sparkline import area

MAX_NAME_CELLS = 15
"""IFNAMSIZ without the final zero."""
NO_INTERFACES = "No network interfaces; one that is added is shown at once"
NO_LINK = "Press ← → to choose an interface"


def no_link_text(snapshot: Snapshot) -> str:
    """Why a view of one NIC has none, or what to do."""
    if snapshot.links:
        return NO_LINK
    return NO_INTERFACES if snapshot.inventory is not None else "Interfaces: not read yet"


def interface_lines(
    snapshot: Snapshot, cells: int, glyphs: Glyphs = UNICODE, *, without: int | None = None
) -> list[SpanLine]:
    """Those that can be chosen, each with its rates, driver and queues. `without`: ifindex of the chosen one."""
    rates = snapshot.rates.links if snapshot.rates is not None else {}
    links = [link for link in snapshot.links.values() if not link.flags & IFF_LOOPBACK and link.ifindex != without]
    names = max((width(glyphs.text(link.name)) for link in links), default=0)
    lines: list[SpanLine] = []
    for link in links:
        now = rates.get(link.ifindex)
        rx, tx = (None, None) if now is None else (now.rx_bits, now.tx_bits)
        facts = [f"RX {units.bits_per_second(rx)} TX {units.bits_per_second(tx)}", driver_text(link, snapshot)]
        if snapshot.inventory is not None:
            facts.append(settings_texts(link)[0])
        name = fit(glyphs.text(link.name), min(MAX_NAME_CELLS, names))
        text = glyphs.text(" · ".join(facts))
        lines.append(((f" {name}  ", "title"), (fit(text, max(0, cells - width(name) - 3)), "")))
    return lines


def nic_line(link: Link | None, facts: Sequence[str], cells: int, glyphs: Glyphs = UNICODE) -> SpanLine:
    """`` ens256 ◂▸ virtio_net · …``; what does not fit ends with an ellipsis."""
    name = fit(clean(link.name), min(MAX_NAME_CELLS, width(clean(link.name)))) if link is not None else "–"
    arrows = glyphs.choice_left + glyphs.cursor
    text = " · ".join(facts)
    room = max(0, cells - width(name) - 5)
    return (f" {name} ", "title"), (arrows, "accent"), (" " + fit(text, min(room, width(text))), "")


def driver_text(link: Link, snapshot: Snapshot) -> str:
    """Driver of a link; that it has none is said only when that was read."""
    function = next((one for one in snapshot.pci if one.address == link.pci_address), None)
    why = unread_source(snapshot, "ethtool")
    return driver_name(link, function) or ("no driver" if why is None else f"driver {absence_reason(why, None)}")


def unread_source(snapshot: Snapshot, source: str) -> Unreadable | None:
    """Why a source of the inventory is not known; None: it was read."""
    if snapshot.inventory is None:
        return Unreadable("failed", NOT_READ_YET)
    return snapshot.inventory.unreadable.get(source)


def settings_texts(link: Link) -> list[str]:
    """Channels and rings of a link, or why they are not known."""
    ethtool, driver = link.ethtool, driver_name(link)
    channels = channel_usage_text(ethtool.channels) if ethtool.channels is not None else None
    rings = ring_usage_text(ethtool.rings) if ethtool.rings is not None else None
    return [
        channels or "channels " + value_or_reason(channels, ethtool.unreadable, "channels", driver),
        "ring " + value_or_reason(rings, ethtool.unreadable, "rings", driver),
    ]


def channel_usage_text(channels: Channels) -> str:
    """``4 of 4 combined``; kinds that the driver does not have are left out."""
    kinds = (
        ("combined", channels.combined, channels.max_combined),
        ("rx", channels.rx, channels.max_rx),
        ("tx", channels.tx, channels.max_tx),
    )
    parts = [f"{now if now is not None else '–'} of {most} {name}" for name, now, most in kinds if most]
    return " · ".join(parts)


def ring_usage_text(rings: Rings) -> str:
    """``rx 1024/1024 tx 1024/1024``: in use, and the maximum."""
    kinds = (("rx", rings.rx, rings.max_rx), ("tx", rings.tx, rings.max_tx))
    parts = [f"{name} {now if now is not None else '–'}/{most}" for name, now, most in kinds if most]
    return " ".join(parts)


def beside(left: Sequence[SpanLine], right: Sequence[SpanLine], left_cells: int) -> list[SpanLine]:
    """Two blocks of lines side by side, those of the left one cut to `left_cells` with a blank."""
    lines: list[SpanLine] = []
    for index in range(max(len(left), len(right))):
        spans = cut_spans(left[index], left_cells - 1) if index < len(left) else []
        used = sum(width(text) for text, _ in spans)
        spans.append((" " * max(0, left_cells - used), ""))
        lines.append((*spans, *(right[index] if index < len(right) else ())))
    return lines


CHART_SCALE_CELLS = 8
"""Cells at the left of a chart, for its scale."""


def minute_chart(
    values: Sequence[float | None],
    rows: int,
    scale: tuple[float, str],
    *,
    label: str,
    style: str,
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """The last minute as an area of `rows` lines with the time axis below it, one cell for each of `values`. `scale`:
    value at the top, and its text."""
    top, top_text = scale
    drawn = area(values, len(values), rows - 1, top, glyphs=glyphs)
    lines: list[SpanLine] = []
    for number, text in enumerate(drawn):
        tick = top_text if number == 0 else "0" if number == len(drawn) - 1 else ""
        axis = glyphs.left_tick if tick else glyphs.axis
        lines.append(((f" {tick:>{CHART_SCALE_CELLS - 2}}{axis}", "dim"), (text, style)))
    axis = f"{'-60 s':<{max(0, len(values) - 3)}}now"
    return [*lines, ((f" {fit(label, CHART_SCALE_CELLS - 1)}", style), (axis, "dim"))]


@dataclass(frozen=True, eq=False)
class NicPage:
    """All lines of a view."""

    lines: list[SpanLine]
    cursor: int | None
    targets: dict[int, list[tuple[int, str]]]
    heat: Heatmap | None


class NicView(ChoiceView, Generic[Key]):
    """Lines of which some can be chosen, each a queue or a CPU; the first line names the NIC. A subclass draws them."""

    marks_more = True

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._targets: Mapping[int, Sequence[tuple[int, str]]] = {}
        """Line → (first cell, key), of everything in it that a click chooses, from the left."""
        self._link: Link | None = None
        self._snapshot: Snapshot | None = None
        """None: nothing is drawn."""
        self._heat: Heatmap | None = None
        self._trends: Trends[Key] = Trends()
        self._has_settled = False
        """The first choice was made, and stays."""
        self.waiting: WaitingLines = no_lines

    @property
    def _cells(self) -> int:
        return self.scrollable_content_region.width

    def draw_page(self, **common: Any) -> NicPage:
        """All lines; `common`: arguments of `draw_queues` and `draw_cpus` alike."""
        raise NotImplementedError

    def redraw(self) -> None:
        if self._snapshot is None:
            return
        index = self.index
        page = self.draw_page(
            snapshot=self._snapshot,
            width=self._cells,
            height=self.size.height,
            trends=self._trends,
            selected=int(self._keys[index]) if index is not None else None,
            before=self._heat,
            glyphs=self.glyphs,
        )
        self._heat, self._targets = page.heat, page.targets
        self.show_lines(page.lines, cursor=page.cursor)

    def action_page(self, pages: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + pages * max(1, self.size.height - 1), animate=False)

    def choice_changed(self, index: int) -> None:
        """The lines that can be chosen are at the top."""
        if self._moved and self.scroll_offset.y:
            self.scroll_to(y=0, animate=False, immediate=True)

    def first_choice(self) -> int:
        """The line that it is already: others becoming busier does not move the cursor."""
        return self.index if self.index is not None else 0

    async def on_click(self, event: events.Click) -> None:  # type: ignore[override]
        event.prevent_default()  # the handler of the base class, for which every line is a choice
        offset = event.get_content_offset_capture(self)
        line = self.line_at(offset.y)
        if line == 0 and not self._header_height:
            first = width(clean(self._link.name)) + 2 if self._link is not None else 3
            if offset.x in (first, first + 1):
                await self.run_action(f"screen.step_nic({-1 if offset.x == first else 1})")
            return
        keys = [key for left, key in self._targets.get(-1 if line is None else line, ()) if offset.x >= left]
        if keys:
            self.choose_index(self._keys.index(keys[-1]))
