"""Every queue of the chosen NIC on one line, from the wire to the core.

ens224 · igb · combined 2 of 2 · rings rx 256 of 4096 · tx 256 of 4096 · busiest queue 0 carries 97 %
QUEUE RX b/s TX b/s RX PPS  TX PPS DROP/S  INT/S  IRQ VECTOR           CPU  ALLOWED …
    0  9.41 G 21.3 M  812 k  40.1 k      0 12.0 k   61 ens224-TxRx-0      2  0-3
total  …
idle: queues 1-3
other interrupts: 60 ens224 (link changes and the like) 0/s
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.columns.column import Column, fit_columns
from nictop.model.columns.queues import COLUMNS, MOVED_NOTE
from nictop.model.facts import clean, driver_name, value_or_reason, wrap
from nictop.model.facts.ethtool import channel_text, ring_text
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.queues.map import InterruptLoad, QueueMap, QueueRow, queue_map
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.probe.records import Link
from nictop.tui.widgets.base.line_view import LineView, SpanLine
from nictop.tui.widgets.base.table_line import cell_spans, headings

MAX_UNFOLDED_QUEUES = 8
"""Up to so many queues all are shown, idle or not; beyond, idle ones become one line."""


def draw_queues(link: Link, snapshot: Snapshot, width: int, *, unfold: bool = False) -> list[SpanLine]:
    """The whole view of one link, `width` cells wide; `unfold` shows idle queues one by one."""
    plan = queue_map(link, snapshot)
    lines = _settings(link, plan, width)
    if not plan.rows:
        return [*lines, (("  this link has no queues of its own", "dim"),), *_rest(plan, width)]
    columns = fit_columns(COLUMNS, width - 1)
    lines.append(((headings(columns), "dim"),))
    folded = () if unfold or len(plan.rows) <= MAX_UNFOLDED_QUEUES else plan.idle
    lines += [_row(row, columns, row.queue == plan.busiest) for row in plan.rows if row.queue not in folded]
    lines.append(_row(plan.total, columns, False))
    if folded:
        lines += _wrapped(f"idle: queues {format_cpu_list(folded)}", width, "dim")
    if not plan.total.offered:
        lines += _wrapped(f"packets and bytes per queue: not offered by {driver_name(link)}", width, "dim")
    lines += _rest(plan, width)
    if any(row.has_moved for row in plan.rows):
        lines += _wrapped(MOVED_NOTE, width, "warn")
    return lines


def _settings(link: Link, plan: QueueMap, width: int) -> list[SpanLine]:
    """Channels, rings, and the share of the busiest queue."""
    ethtool, driver = link.ethtool, driver_name(link)
    channels = channel_text(ethtool.channels) if ethtool.channels is not None else None
    rings = ring_text(ethtool.rings) if ethtool.rings is not None else None
    parts = [
        clean(link.name),
        driver or "no driver",
        "channels " + value_or_reason(channels, ethtool.unreadable, "channels", driver),
        "rings " + value_or_reason(rings, ethtool.unreadable, "rings", driver),
    ]
    if plan.busiest_share is not None and len(plan.rows) > 1:
        parts.append(f"queue {plan.busiest} carries {100 * plan.busiest_share:.0f}%")
    return _wrapped(" · ".join(parts), width, "title")


def _row(row: QueueRow, columns: Sequence[Column[QueueRow]], busiest: bool) -> SpanLine:
    spans = cell_spans(columns, row)
    if busiest:
        spans = [
            (text, "accent" if column.key == "queue" else style)
            for column, (text, style) in zip(columns, spans, strict=True)
        ]
    return tuple(spans)


def _rest(plan: QueueMap, width: int) -> list[SpanLine]:
    lines: list[SpanLine] = []
    for title, loads, style in (
        ("serves no queue", plan.others, "dim"),
        ("not mapped to a queue", plan.unmapped, "warn"),
    ):
        for load in loads:
            lines += _wrapped(f"{interrupt_words(load)}: {title}", width, style)
    return lines


def interrupt_words(load: InterruptLoad) -> str:
    """``IRQ 60 ens224, 0/s``"""
    name = clean(load.interrupt.name) or "without a name"
    return f"IRQ {load.interrupt.number} {name}, {units.per_second(load.per_second)}"


def _wrapped(text: str, width: int, style: str) -> list[SpanLine]:
    return [((f" {part}", style),) for part in wrap(text, width - 2)]


class QueueView(LineView):
    """`draw_queues` of the chosen link."""

    unfold = False
    """Whether idle queues are shown one by one."""

    def show(self, link: Link | None, snapshot: Snapshot) -> None:
        width = self.scrollable_content_region.width
        if link is None:
            self.show_lines([((" choose a NIC: a PCI function without a netdev has no queues to show", "dim"),)])
        else:
            self.show_lines(draw_queues(link, snapshot, width, unfold=self.unfold))
