"""The first line of every screen: which hosts, how they are, how often they are read, and what nictop itself costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from nictop.hosts.session import HostSession, is_silent, whole_seconds
from nictop.model.facts import clean, platform_text
from nictop.model.facts import width as cells
from nictop.model.snapshot import Snapshot
from nictop.model.text.glyphs import Glyphs
from nictop.tui.widgets.base.line_view import LineView, Span, SpanLine, cut_spans
from nictop.tui.widgets.status.host_strip import MARKS, STYLES, draw_hosts

if TYPE_CHECKING:
    import psutil

NAME = (" nictop ", "accent")
FROZEN = " FROZEN "
MIN_INTERVAL_CELLS = 36
"""Cells below which the line has the host only."""


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
    snapshot: Snapshot,
    width: int,
    interval: float,
    cost: tuple[float, int] | None,
    *,
    frozen: bool,
    glyphs: Glyphs,
    silent: float = 0.0,
    run: str = "",
) -> SpanLine:
    """One line of exactly `width` cells; what matters least is left out or cut first. `silent`: seconds for which a
    live host has said nothing, although it should have; 0 while it does what it should. `run`: about what goes on (a
    run, a recording), short."""
    state = "lost" if silent else snapshot.state
    left: list[Span] = [NAME, (f" {glyphs.encode(MARKS[state])} ", STYLES[state])]
    left.append((f"{clean(snapshot.host)}  ", "title"))
    if silent:
        left.append((f"silent for {whole_seconds(silent)} ", "warn"))
    elif snapshot.state != "live":
        left.append((f"{snapshot.state} ", STYLES[snapshot.state]))
    elif snapshot.inventory is None or "platform" in snapshot.inventory.pending:
        left.append(("inventory pending ", "dim"))
    else:
        left.append((clean(platform_text(snapshot.inventory.platform)), "dim"))
    return _line(left, width, interval, cost, run, frozen=frozen, glyphs=glyphs)


def draw_several(
    hosts: Sequence[HostSession],
    chosen: str,
    width: int,
    interval: float,
    cost: tuple[float, int] | None,
    *,
    now: float,
    frozen: bool,
    glyphs: Glyphs,
    run: str = "",
) -> SpanLine:
    """The same for several hosts, with the status of each; `now` is CLOCK_MONOTONIC."""
    least = len(_right(width, width, interval, None, "")) + len(_run_badge(run)) + (len(FROZEN) if frozen else 0)
    room = max(0, width - len(NAME[0]) - least)
    left = [NAME, *draw_hosts(hosts, chosen, room, now, interval, glyphs=glyphs)]
    return _line(left, width, interval, cost, run, frozen=frozen, glyphs=glyphs)


def _run_badge(run: str) -> str:
    return f" {run} " if run else ""


def _line(
    left: Sequence[Span],
    width: int,
    interval: float,
    cost: tuple[float, int] | None,
    run: str,
    *,
    frozen: bool,
    glyphs: Glyphs,
) -> SpanLine:
    badge, going = FROZEN if frozen else "", _run_badge(run)
    wanted = sum(cells(text) for text, _ in left) + len(badge) + len(going)
    right = _right(width, wanted, interval, cost, glyphs.encode("·"))
    room = max(0, width - len(right) - len(badge) - len(going))
    spans = cut_spans(left, room)
    room -= sum(cells(text) for text, _ in spans)
    rest = max(0, width - len(right))
    shown = going[:rest]
    return (*spans, (" " * room, ""), (shown, "accent"), (badge[: rest - len(shown)], "warn"), (right, "dim"))


def _right(width: int, left: int, interval: float, cost: tuple[float, int] | None, dot: str) -> str:
    """Interval and own cost, as far as `left`, the cells about the hosts, leave room."""
    every = f" every {interval:g} s "
    if cost is not None:
        long = f" every {interval:g} s {dot} nictop {cost[0]:.1f} % CPU {cost[1] / 1e6:.0f} MB "
        short = f" {interval:g} s {dot} nictop {cost[0]:.1f} % {cost[1] / 1e6:.0f} MB "
        for text in (long, short):
            if len(text) <= width - left:
                return text
    return every if width >= MIN_INTERVAL_CELLS else ""


class StatusLine(LineView):
    """Shows `draw_status` and refreshes its own cost by itself every two seconds."""

    can_focus = False
    COST_EVERY = 2.0

    def __init__(self, *, clock: Callable[[], float] = monotonic, id: str | None = None) -> None:
        super().__init__(id=id)
        self._clock = clock
        self._interval = 1.0
        self._own_cost = OwnCost()
        self._cost: tuple[float, int] | None = None
        self._snapshot: Snapshot | None = None
        self._frozen = False
        self._hosts: tuple[HostSession, ...] = ()
        self._chosen = ""
        self._run = self._recording = ""
        self.pids: tuple[int, ...] = ()
        """Probes on this machine whose cost belongs to nictop."""

    def on_mount(self) -> None:
        self.call_later(self._own_cost.read, ())  # the first reading is only what the next one is compared with
        self.set_interval(self.COST_EVERY, self.refresh_cost)

    def refresh_cost(self) -> None:
        """Read the cost and draw again; without new readings of a host, only this shows its silence."""
        self._cost = self._own_cost.read(self.pids)
        self._draw()

    def show(self, snapshot: Snapshot, *, interval: float, frozen: bool) -> None:
        self._snapshot, self._interval, self._frozen = snapshot, interval, frozen
        self._draw()

    def show_run(self, words: str) -> None:
        """Text about the active run; "": there is none."""
        if words != self._run:
            self._run = words
            self._draw()

    def show_recording(self, words: str) -> None:
        """Text about the active recording; "": there is none."""
        if words != self._recording:
            self._recording = words
            self._draw()

    @property
    def _going(self) -> str:
        """Active recording and run, whichever host is shown."""
        return "  ".join(part for part in (self._recording, self._run) if part)

    def show_hosts(self, hosts: tuple[HostSession, ...], chosen: str) -> None:
        """Set the watched hosts and the one on the screen; a single host is drawn from its snapshot."""
        others = hosts != self._hosts
        self._hosts, self._chosen = hosts, chosen
        if others or len(hosts) > 1:
            self._draw()

    def _draw(self) -> None:
        if len(self._hosts) > 1:
            line = draw_several(
                self._hosts,
                self._chosen,
                self.size.width,
                self._interval,
                self._cost,
                now=self._clock(),
                frozen=self._frozen,
                glyphs=self.glyphs,
                run=self._going,
            )
            self.show_lines((line,))
        elif self._snapshot is not None:
            silent = (self._hosts[0].age(self._clock()) or 0.0) if self._hosts else 0.0
            overdue = self._snapshot.state == "live" and not self._frozen and is_silent(silent, self._interval)
            line = draw_status(
                self._snapshot,
                self.size.width,
                self._interval,
                self._cost,
                frozen=self._frozen,
                glyphs=self.glyphs,
                silent=silent if overdue else 0.0,
                run=self._going,
            )
            self.show_lines((line,))
