"""Base of the views of one NIC: its name between two arrows, lines with a cursor, and pages to
scroll.

The arrows do what the keys left and right do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Generic

from textual import events

from nictop.model.facts import absence_reason, clean, driver_name, fit, value_or_reason, width
from nictop.model.queues.heatmap import Heatmap
from nictop.model.queues.map import QueueMap
from nictop.model.queues.trends import Key, Trends
from nictop.model.snapshot import Snapshot, is_unread_link
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.words import IFF_LOOPBACK
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Channels, Link, Rings, Unreadable
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.tui.keys import KeyLabels
from nictop.tui.widgets.base.choice_list import ChoiceList
from nictop.tui.widgets.base.line_widget import (
    SpanLine,
    WaitingLines,
    cut_spans,
    no_lines,
    span_cells,
)
from nictop.tui.widgets.charts.plot import HISTORY_SECONDS, NOW, AxisEnd, present, time_axis
from nictop.tui.widgets.charts.sparkline import area

MAX_NAME_CELLS = 15
"""IFNAMSIZ without the final zero."""
NO_INTERFACES = "No network interfaces; one that is added is shown at once"


def choose_link_text(labels: KeyLabels) -> str:
    return f"Press {labels('left')} {labels('right')} to choose an interface"


def no_link_text(snapshot: Snapshot, labels: KeyLabels) -> str:
    """Why a view of one NIC has none, or what to do."""
    if snapshot.links:
        return choose_link_text(labels)
    if snapshot.inventory is None:
        return f"Interfaces: {NOT_READ_YET}"
    return NO_INTERFACES


def interface_lines(
    snapshot: Snapshot, cells: int, glyphs: Glyphs = UNICODE, *, without: int | None = None
) -> list[SpanLine]:
    """Those that can be chosen, each with its rates, driver and queues. `without`: ifindex of the
    chosen one."""
    links = [
        link
        for link in snapshot.links.values()
        if not link.flags & IFF_LOOPBACK and link.ifindex != without
    ]
    names = max((width(glyphs.text(link.name)) for link in links), default=0)
    lines: list[SpanLine] = []
    for link in links:
        facts = [_rates_text(link, snapshot), driver_text(link, snapshot)]
        if snapshot.inventory is not None:
            facts.append(settings_texts(link)[0])
        name = fit(glyphs.text(link.name), min(MAX_NAME_CELLS, names))
        text = glyphs.text(" · ".join(facts))
        lines.append(((f" {name}  ", "title"), (fit(text, max(0, cells - width(name) - 3)), "")))
    return lines


def _rates_text(link: Link, snapshot: Snapshot) -> str:
    """``RX 9.41 Gb/s TX 3.10 Mb/s``"""
    rates = None
    if snapshot.rates is not None:
        rates = snapshot.rates.links.get(link.ifindex)
    rx = tx = None
    if rates is not None:
        rx, tx = rates.rx_bits, rates.tx_bits
    return f"RX {units.bits_per_second(rx)} TX {units.bits_per_second(tx)}"


def nic_line(
    link: Link | None, facts: Sequence[str], cells: int, glyphs: Glyphs = UNICODE
) -> SpanLine:
    """`` ens256 ◂▸ virtio_net · …``; what does not fit ends with an ellipsis."""
    name = units.UNKNOWN
    if link is not None:
        name = clean(link.name)
        name = fit(name, min(MAX_NAME_CELLS, width(name)))
    arrows = glyphs.choice_left + glyphs.cursor
    text = " · ".join(facts)
    room = max(0, cells - width(name) - 5)
    return (f" {name} ", "title"), (arrows, "accent"), (" " + fit(text, min(room, width(text))), "")


def with_age(line: SpanLine, age: str, cells: int) -> SpanLine:
    """The line of the NIC with the age of all values below it, whatever else is cut for it."""
    text = f" · {age} "
    spans = cut_spans(line, max(0, cells - width(text)))
    return (*spans, (text, "warn"))


def driver_text(link: Link, snapshot: Snapshot) -> str:
    """Driver of a link; that it has none is said only when that was read."""
    if is_unread_link(link):
        return f"driver {NOT_READ_YET}"
    functions = (function for function in snapshot.pci if function.address == link.pci_address)
    driver = driver_name(link, next(functions, None))
    if driver:
        return driver
    why = unread_source(snapshot, "ethtool")
    if why is not None:
        return f"driver {absence_reason(why, None)}"
    return "no driver"


def unread_source(snapshot: Snapshot, source: str) -> Unreadable | None:
    """Why a source of the inventory is not known; None: it was read."""
    if snapshot.inventory is None:
        return Unreadable("failed", NOT_READ_YET)
    return snapshot.inventory.unreadable.get(source)


def settings_texts(link: Link) -> list[str]:
    """Channels and rings of a link, or why they are not known."""
    ethtool, driver = link.ethtool, driver_name(link)
    channels = rings = None
    if ethtool.channels is not None:
        channels = channel_usage_text(ethtool.channels)
    if ethtool.rings is not None:
        rings = ring_usage_text(ethtool.rings)
    ring_text = "ring " + value_or_reason(rings, ethtool.unreadable, "rings", driver)
    if channels:
        return [channels, ring_text]
    why = value_or_reason(channels, ethtool.unreadable, "channels", driver)
    return [f"channels {why}", ring_text]


def channel_usage_text(channels: Channels) -> str:
    """``4 of 4 combined``; kinds that the driver does not have are left out."""
    kinds = (
        ("combined", channels.combined, channels.max_combined),
        ("rx", channels.rx, channels.max_rx),
        ("tx", channels.tx, channels.max_tx),
    )
    return " · ".join(f"{_number(now)} of {most} {name}" for name, now, most in kinds if most)


def ring_usage_text(rings: Rings) -> str:
    """``rx 1024/1024 tx 1024/1024``: in use, and the maximum."""
    kinds = (("rx", rings.rx, rings.max_rx), ("tx", rings.tx, rings.max_tx))
    return " ".join(f"{name} {_number(now)}/{most}" for name, now, most in kinds if most)


def _number(known: int | None) -> str:
    return units.UNKNOWN if known is None else str(known)


def beside(left: Sequence[SpanLine], right: Sequence[SpanLine], left_cells: int) -> list[SpanLine]:
    """Two blocks of lines side by side, those of the left one cut to `left_cells` with a blank."""
    lines: list[SpanLine] = []
    for left_line, right_line in zip_longest(left, right, fillvalue=()):
        spans = cut_spans(left_line, left_cells - 1)
        blank_cells = max(0, left_cells - span_cells(spans))
        lines.append((*spans, (" " * blank_cells, ""), *right_line))
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
    end: str = NOW,
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """The last minute as an area of `rows` lines with the time axis below it, one cell for each of
    `values`. `scale`: value at the top, and its text. `end`: see `time_axis`."""
    top, top_text = scale
    drawn = area(values, len(values), rows - 1, top, glyphs=glyphs)
    ticks = {len(drawn) - 1: "0", 0: top_text}
    lines: list[SpanLine] = []
    for number, text in enumerate(drawn):
        tick = ticks.get(number, "")
        axis = glyphs.left_tick if tick else glyphs.axis
        lines.append(((f" {tick:>{CHART_SCALE_CELLS - 2}}{axis}", "dim"), (text, style)))
    axis = time_axis(len(values), HISTORY_SECONDS, end)
    return [*lines, ((f" {fit(label, CHART_SCALE_CELLS - 1)}", style), (axis, "dim"))]


@dataclass(frozen=True, eq=False)
class NicPage:
    """All lines of a view."""

    lines: list[SpanLine]
    cursor: int | None
    targets: dict[int, list[tuple[int, str]]]
    heat: Heatmap | None


class NicView(ChoiceList, Generic[Key]):
    """Lines of which some can be chosen, each a queue or a CPU; the first line names the NIC. A
    subclass draws them."""

    marks_more = True

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._targets: Mapping[int, Sequence[tuple[int, str]]] = {}
        """Line → (first cell, key), of everything in it that a click chooses, from the left."""
        self._link: Link | None = None
        self._snapshot: Snapshot | None = None
        """None: nothing is drawn."""
        self._queue_map: QueueMap | None = None
        """Of the link, at the time of the snapshot."""
        self._heat: Heatmap | None = None
        self._trends: Trends[Key] = Trends()
        self._has_settled = False
        """The first choice was made, and stays."""
        self.waiting: WaitingLines = no_lines
        self.axis_end: AxisEnd = present
        self.age_text: Callable[[], str] = str
        """How old the values are; "": they are those of now."""

    @property
    def _cells(self) -> int:
        return self.scrollable_content_region.width

    def draw_page(self, **common: Any) -> NicPage:
        """All lines; `common`: arguments of `draw_queues` and `draw_cpus` alike."""
        raise NotImplementedError

    def redraw(self) -> None:
        if self._snapshot is None:
            return
        page = self.draw_page(
            snapshot=self._snapshot,
            queue_map=self._queue_map,
            width=self._cells,
            height=self.size.height,
            trends=self._trends,
            selected=self._selected_number,
            before=self._heat,
            labels=self.key_label,
            end=self.axis_end(),
            glyphs=self.glyphs,
        )
        self._heat, self._targets = page.heat, page.targets
        lines, age = page.lines, self.age_text()
        if age and lines:
            lines = [with_age(lines[0], age, self._cells), *lines[1:]]
        self.show_lines(lines, cursor=page.cursor)

    @property
    def _selected_number(self) -> int | None:
        """Number of the queue or CPU under the cursor; None: there is none."""
        index = self.index
        if index is None:
            return None
        return int(self._keys[index])

    def action_page(self, pages: int) -> None:
        self.scroll_pages(pages)

    def choice_changed(self, index: int) -> None:
        """The lines that can be chosen are at the top."""
        if self._moved and self.scroll_offset.y:
            self.scroll_to(y=0, animate=False, immediate=True)

    def first_choice(self) -> int:
        """The line that it is already: others becoming busier does not move the cursor."""
        return self.index or 0

    async def on_click(self, event: events.Click) -> None:  # type: ignore[override]
        event.prevent_default()  # the handler of the base class, for which every line is a choice
        offset = event.get_content_offset_capture(self)
        line = self.line_at(offset.y)
        if line is None:
            return
        if line == 0 and not self._header_height:
            await self._click_arrow(offset.x)
            return
        keys = [key for left, key in self._targets.get(line, ()) if offset.x >= left]
        if keys:
            self.choose_index(self._keys.index(keys[-1]))

    async def _click_arrow(self, x: int) -> None:
        """One of the two behind the name of the NIC."""
        name = units.UNKNOWN if self._link is None else clean(self._link.name)
        left_arrow = width(name) + 2
        steps = {left_arrow: -1, left_arrow + 1: 1}
        if x in steps:
            await self.run_action(f"screen.step_nic({steps[x]})")
