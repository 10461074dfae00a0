"""The first line of every screen: which hosts, how they are, how often they are read, and what nictop itself costs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nictop.model.snapshot import Snapshot
from nictop.model.wording import clean, platform_words
from nictop.widgets.line_view import LineView, Span, SpanLine

if TYPE_CHECKING:
    import psutil

MARKS = {"connecting": ("◌", "o"), "live": ("●", "*"), "lost": ("◌", "o"), "failed": ("✖", "X")}
STYLES = {"connecting": "dim", "live": "good", "lost": "warn", "failed": "bad"}


class OwnCost:
    """CPU and memory of this process and of the probes it started, by psutil."""

    def __init__(self) -> None:
        self._processes: dict[int, psutil.Process] = {}

    def read(self, pids: Iterable[int]) -> tuple[float, int]:
        """Per cent of one CPU since the last call, and resident bytes now, summed over this process and `pids`."""
        import psutil

        wanted = {os.getpid(), *pids}
        for pid in self._processes.keys() - wanted:
            del self._processes[pid]
        cpu, resident = 0.0, 0
        for pid in wanted:
            try:
                process = self._processes.get(pid)
                if process is None:
                    process = self._processes[pid] = psutil.Process(pid)
                cpu += process.cpu_percent(None)
                resident += process.memory_info().rss
            except psutil.Error:  # ended meanwhile: its successor is counted next time
                self._processes.pop(pid, None)
        return cpu, resident


def draw_status(
    snapshot: Snapshot, width: int, interval: float, cost: tuple[float, int] | None, *, frozen: bool, ascii_only: bool
) -> SpanLine:
    """One line of exactly `width` cells; what matters least is cut first."""
    mark = MARKS[snapshot.state][ascii_only]
    left: list[Span] = [(" nictop ", "accent"), (f" {mark} ", STYLES[snapshot.state])]
    left.append((f"{clean(snapshot.host)} ", "title"))
    if snapshot.state != "live":
        left.append((f"{snapshot.state} ", STYLES[snapshot.state]))
    elif snapshot.inventory is None:
        left.append(("inventory pending ", "dim"))
    else:
        left.append((platform_words(snapshot.inventory.platform), "dim"))
    right = f" {interval:g} s"
    if cost is not None:
        right += f" {'-' if ascii_only else '·'} nictop {cost[0]:.1f} % {cost[1] / 1e6:.0f} MB"
    right += " "
    badge = " FROZEN " if frozen else ""
    room = width - len(right) - len(badge)
    spans: list[Span] = []
    for text, style in left:
        shown = text[:room]
        room -= len(shown)
        spans.append((shown, style))
    spans += [(" " * max(0, room), ""), (badge, "warn"), (right, "dim")]
    return tuple(spans)


class StatusLine(LineView):
    """Shows `draw_status` and refreshes its own cost by itself every two seconds."""

    can_focus = False
    COST_EVERY = 2.0

    def __init__(self, *, ascii_only: bool, id: str | None = None) -> None:
        super().__init__(id=id)
        self._interval = 1.0
        self.ascii_only = ascii_only
        self._own_cost = OwnCost()
        self._cost: tuple[float, int] | None = None
        self._snapshot: Snapshot | None = None
        self._frozen = False
        self.pids: tuple[int, ...] = ()
        """Probes on this machine whose cost belongs to nictop."""

    def on_mount(self) -> None:
        self.call_later(self._own_cost.read, ())  # the first reading is only what the next one is compared with
        self.set_interval(self.COST_EVERY, self._read_cost)

    def _read_cost(self) -> None:
        self._cost = self._own_cost.read(self.pids)
        self._draw()

    def show(self, snapshot: Snapshot, *, interval: float, frozen: bool) -> None:
        self._snapshot, self._interval, self._frozen = snapshot, interval, frozen
        self._draw()

    def _draw(self) -> None:
        if self._snapshot is not None:
            line = draw_status(
                self._snapshot,
                self.size.width,
                self._interval,
                self._cost,
                frozen=self._frozen,
                ascii_only=self.ascii_only,
            )
            self.show_lines((line,))
