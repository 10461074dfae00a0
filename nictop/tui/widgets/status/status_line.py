"""The second line of every screen: the hosts and how they are, what is running, whether the chosen
host may be changed, how often they are read, and what nictop itself costs.

 [● vm1]  ✖ vm2 refused, retry in 4 s     ● REC 01:05 3.2 MB  PAUSED  read-only  every 1 s
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from textual import events
from textual.message import Message

from nictop.hosts.session import HostSession
from nictop.model.facts import clean, platform_text
from nictop.model.facts import width as cells
from nictop.model.snapshot import Snapshot
from nictop.model.text.glyphs import Glyphs
from nictop.tui.widgets.base.line_widget import LineWidget, Span, SpanLine, cut_spans, span_cells
from nictop.tui.widgets.status.host_strip import (
    BADGE_STYLES,
    FAILED,
    MARKS,
    MAX_HOST_NAME_CELLS,
    STYLES,
    HostSpans,
    draw_hosts,
)
from nictop.tui.widgets.status.own_cost import OwnCost

PAUSED = " PAUSED "
BETWEEN = "  "
"""Between the recording, the run and the change that go on."""
RIGHT_SPANS = -4
"""Spans at the end of the line: what is running, PAUSED, what is allowed, interval and cost."""
READ_ONLY: Span = (" read-only ", "dim")
CHANGES_ALLOWED: Span = (" changes allowed ", "accent")
WORKLOAD_RUNS: Span = (" workload runs ", "accent")
"""A command that the user has typed, which may do what its user may do."""
NOTHING_TO_CHANGE: Span = ("", "")
"""A recording."""
MIN_MODE_CELLS = 60
"""Cells below which the line does not say whether the host may be changed."""
CHOSEN_HOST_CELLS, MIN_RIGHT_CELLS = 5, 7
"""Cells around the name of the chosen one of several hosts; of the interval at the right end."""
MIN_INTERVAL_CELLS = 36
"""Cells below which the line has the hosts only."""


def draw_status(
    snapshot: Snapshot,
    width: int,
    interval: float,
    cost: tuple[float, int] | None,
    *,
    paused: bool,
    glyphs: Glyphs,
    old: str = "",
    doing: str = "",
    failure: str = "",
    run: str = "",
    mode: Span = NOTHING_TO_CHANGE,
) -> SpanLine:
    """One host in a line of exactly `width` cells; what matters least is left out or cut first.
    `old`: how old the values of a live host are that has sent nothing new, although it should have;
    "" while it does what it should. `doing`: what of it is waited for. `failure`: why it is not
    reached, and when it is tried again. `run`: about what is running (a run, a recording), short.
    `mode`: whether the host may be changed."""
    state = "lost" if old else snapshot.state
    mark, style = MARKS[state], STYLES[state]
    if failure:
        mark, style = FAILED, BADGE_STYLES[FAILED]
    head: list[Span] = [(f" {glyphs.encode(mark)} ", style), (f"{clean(snapshot.host)}  ", "title")]
    if failure:
        words: list[Span] = [(f"{glyphs.text(failure)} ", style)]
    elif old:
        words = [(f"{old} ", "warn")]
    elif snapshot.state != "live":
        words = [(f"{doing or snapshot.state} ", STYLES[snapshot.state])]
    else:
        words = _live_words(snapshot, doing, glyphs)
    mode = _mode_in(mode, width - span_cells(head) - len(_run_badge(run)), width)
    left = [*head, *words]
    return _line(left, width, interval, cost, run, mode=mode, paused=paused, glyphs=glyphs)


def _live_words(snapshot: Snapshot, doing: str, glyphs: Glyphs) -> list[Span]:
    """What kind of machine it is, and what of it is waited for."""
    if snapshot.inventory is None or "platform" in snapshot.inventory.pending:
        return [(f"{doing or 'inventory pending'} ", "dim")]
    words: list[Span] = [(clean(platform_text(snapshot.inventory.platform)), "dim")]
    if doing:
        words.append((glyphs.encode(f" · {doing} "), "dim"))
    return words


def reading_interval(hosts: Iterable[HostSession], interval: float) -> float:
    """Seconds between two readings of the first host; `interval`: outside of a run."""
    host = next(iter(hosts), None)
    if host is None or host.run_interval is None:
        return interval
    return host.run_interval


def draw_several(
    hosts: Sequence[HostSession],
    chosen: str,
    width: int,
    interval: float,
    cost: tuple[float, int] | None,
    *,
    now: float,
    paused: bool,
    glyphs: Glyphs,
    run: str = "",
    mode: Span = NOTHING_TO_CHANGE,
) -> tuple[SpanLine, HostSpans]:
    """The same for several hosts, with the status of each, and where each of them is; `now` is
    CLOCK_MONOTONIC."""
    name_cells = min(cells(chosen), MAX_HOST_NAME_CELLS) + CHOSEN_HOST_CELLS
    mode = _mode_in(mode, width - name_cells - len(_run_badge(run)), width)
    paused_badge = PAUSED if paused else ""
    badges = len(_run_badge(run)) + len(paused_badge) + len(mode[0])
    least = len(_right(width, width, interval, None, "")) + badges
    found = draw_hosts(hosts, chosen, max(0, width - least), now, interval, glyphs=glyphs)
    shown = reading_interval((host for host in hosts if host.name == chosen), interval)
    line = _line(found.spans, width, shown, cost, run, mode=mode, paused=paused, glyphs=glyphs)
    return line, found


def draw_note(note: str, width: int, *, glyphs: Glyphs) -> SpanLine:
    """Instead of the hosts: long work that is running."""
    return tuple(cut_spans([(f" {glyphs.text(note)}", "warn")], width))


def _mode_in(mode: Span, room: int, width: int) -> Span:
    """The mode, if `room`, the cells beside the name of the host and what is running, is enough:
    which host it is comes first, above all while a change of it waits for an answer."""
    needed = len(mode[0]) + MIN_RIGHT_CELLS
    if width < MIN_MODE_CELLS or room < needed:
        return NOTHING_TO_CHANGE
    return mode


def _run_badge(run: str) -> str:
    return f" {run} " if run else ""


def _line(
    left: Sequence[Span],
    width: int,
    interval: float,
    cost: tuple[float, int] | None,
    run: str,
    *,
    mode: Span,
    paused: bool,
    glyphs: Glyphs,
) -> SpanLine:
    badge, going = PAUSED if paused else "", _run_badge(run)
    wanted = span_cells(left) + len(badge) + len(going) + len(mode[0])
    right = _right(width, wanted, interval, cost, glyphs.encode("·"))
    room = max(0, width - len(right) - len(badge) - len(going) - len(mode[0]))
    spans = cut_spans(left, room)
    room -= span_cells(spans)
    rest = max(0, width - len(right))
    badges = cut_spans([(going, "accent"), (badge, "warn"), mode], rest)
    return (*spans, (" " * room, ""), *badges, (right, "dim"))


def _right(width: int, left: int, interval: float, cost: tuple[float, int] | None, dot: str) -> str:
    """Interval and own cost, as far as `left`, the cells about the hosts, leave room."""
    every = f" {interval:g} s "
    if cost is not None:
        short = f"{every}{dot} nictop {cost[0]:.1f} % CPU {cost[1] / 1e6:.0f} MB "
        for text in (f" every{short}", short):
            if len(text) <= width - left:
                return text
    if width < MIN_INTERVAL_CELLS:
        return ""
    return every


class StatusLine(LineWidget):
    """Refreshes the own cost of nictop by itself while it is in sight. Posts `HostClicked` and
    `ActivityClicked`."""

    can_focus = False
    COST_EVERY = 2.0
    COST_BEGINS_AFTER = 0.5

    class HostClicked(Message):
        """A host was clicked."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    class ActivityClicked(Message):
        """The running recording, test or change was clicked."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(
        self, cost: OwnCost, *, clock: Callable[[], float] = monotonic, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._clock, self._cost = clock, cost
        self._is_cost_due = self._was_shown = False
        """The cost is to be read again; the hosts were shown since it was asked for."""
        self._moment = clock()
        """Of what is drawn, here and below: seconds that are counted are the same on a screen."""
        self._interval = 1.0
        self._snapshot: Snapshot | None = None
        self._paused = False
        self._hosts: tuple[HostSession, ...] = ()
        self._chosen = ""
        self._going: Sequence[tuple[str, str]] = ()
        self._note = ""
        self._mode = NOTHING_TO_CHANGE
        self._found = HostSpans()
        self._going_at = 0
        """Column of `_going`."""
        self.pids: tuple[int, ...] = ()
        """Probes on this machine whose cost belongs to nictop."""

    def on_mount(self) -> None:
        # not before the first numbers of the hosts are shown: psutil takes time to be imported
        self.set_timer(self.COST_BEGINS_AFTER, lambda: self._cost.begin(()))
        self.set_interval(self.COST_EVERY, self._ask_for_cost)

    def _ask_for_cost(self) -> None:
        """Together with the next readings of the hosts, while these come: one frame less."""
        if not self.screen.is_active:
            return
        self._is_cost_due = True
        if not self._was_shown:
            self.refresh_cost()
        self._was_shown = False

    def refresh_cost(self) -> None:
        """Read the cost and draw again."""
        self._is_cost_due = False
        self._cost.refresh(self.pids)
        self._draw()

    def show(
        self,
        snapshot: Snapshot | None,
        hosts: tuple[HostSession, ...],
        chosen: str,
        *,
        interval: float,
        paused: bool,
        going: Sequence[tuple[str, str]],
        note: str,
        mode: Span,
    ) -> None:
        """`snapshot`: of the chosen host; a single host is drawn from it. `going`: text about the
        recording, the run and the change that go on, and the action of a click on it; `note`: about
        long work, instead of the hosts. `mode`: whether the chosen host may be changed."""
        self._snapshot, self._hosts, self._chosen, self._mode = snapshot, hosts, chosen, mode
        self._interval, self._paused, self._going, self._note = interval, paused, going, note
        self._moment = self._clock()
        self._was_shown = True
        if self._is_cost_due and self.screen.is_active:
            self.refresh_cost()
        else:
            self._draw()

    def draw_for_size(self) -> None:
        super().draw_for_size()
        self._draw()

    def on_click(self, event: events.Click) -> None:
        x = event.get_content_offset_capture(self).x
        name = self._found.at(x)
        if name is not None:
            self.post_message(self.HostClicked(name))
        if self._note:
            return
        begin = self._going_at
        for text, action in self._going:
            if begin <= x < begin + cells(text):
                self.post_message(self.ActivityClicked(action))
            begin += cells(text) + len(BETWEEN)

    def _draw(self) -> None:
        cost, width = self._cost.newest, self.size.width
        run = BETWEEN.join(text for text, _ in self._going)
        self._found = HostSpans()
        if self._note:
            line = draw_note(self._note, width, glyphs=self.glyphs)
        elif len(self._hosts) > 1:
            line, self._found = draw_several(
                self._hosts,
                self._chosen,
                width,
                self._interval,
                cost,
                now=self._moment,
                paused=self._paused,
                glyphs=self.glyphs,
                run=run,
                mode=self._mode,
            )
        elif self._snapshot is not None:
            line = draw_status(
                self._snapshot,
                width,
                reading_interval(self._hosts, self._interval),
                cost,
                paused=self._paused,
                glyphs=self.glyphs,
                old=self._old_text(),
                doing=self._doing(),
                failure=self._failure(),
                run=run,
                mode=self._mode,
            )
        else:
            return
        self._going_at = span_cells(line[:RIGHT_SPANS]) + 1  # behind the blank of `_run_badge`
        self.show_lines((line,))

    def _doing(self) -> str:
        """What of the single host is waited for; "": nothing."""
        if not self._hosts:
            return ""
        return self._hosts[0].doing_text(self._moment)

    def _old_text(self) -> str:
        """Of the single host; "": it does what it should, or is not waited for."""
        if self._paused or not self._hosts:
            return ""
        host, now = self._hosts[0], self._moment
        return host.old_text(now) if host.is_overdue(now, self._interval) else ""

    def _failure(self) -> str:
        """Of the single host; "": it is reached, or the first attempt has not ended."""
        if not self._hosts or not self._hosts[0].has_failed:
            return ""
        return self._hosts[0].brief_text(self._moment, self._interval)
