"""The chart of a run as a widget: redrawn when there are new values, with a cursor, unless it is
paused.

Takes a `RunView`; `chart_drawing` draws it.
"""

from __future__ import annotations

from textual.message import Message

from nictop.probe.light_dataclasses import replace
from nictop.traffic.live.run_view import RunView
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.tui.widgets.traffic.chart_drawing import draw_run, drawing_inputs, layout_of
from nictop.tui.widgets.traffic.run_waiting import RunWaiting, draw_waiting
from nictop.tui.widgets.traffic.viewport import Viewport, chosen_host, enlarged, sight_of

__all__ = ["RunChart", "Viewport"]


class RunChart(LineWidget):
    """`draw_run` of an active or finished run, with a cursor; can be frozen."""

    can_focus = False

    class ViewChanged(Message):
        """Something else is in sight: the cursor, the host or the part of the run. `RunChart.shown`
        and `RunChart.time` say what."""

        bubble = True

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._newest: RunView | None = None
        self._frozen: RunView | None = None
        self._waiting: RunWaiting | None = None
        self.view = Viewport()
        self._drawn_of: tuple[object, ...] | None = None

    @property
    def shown(self) -> RunView | None:
        """The view that is drawn: the newest one, or the one at which the chart was frozen."""
        return self._newest if self._frozen is None else self._frozen

    @property
    def time(self) -> float | None:
        """Time at the cursor, on the axis of the run; None: there is no cursor."""
        return self.view.cursor

    @property
    def frozen(self) -> bool:
        return self._frozen is not None

    def show(self, run_view: RunView | None, waiting: RunWaiting | None = None) -> None:
        """Draw this run; another run than before is shown whole, without a cursor. `waiting` is
        shown instead while nothing of it was measured."""
        before = self._newest.result if self._newest is not None else None
        if run_view is None or (before is not None and run_view.result is not before):
            self._frozen, self.view = None, replace(self.view, cursor=None, span=None)
        self._newest, self._waiting = run_view, waiting
        if self._frozen is None:
            self._draw()

    def freeze(self, frozen: bool) -> None:
        """Stop at the present view, or continue with the newest one."""
        self._frozen = self._newest if frozen else None
        self._set_view(self.view)

    def move(self, columns: int) -> None:
        """Move the cursor by so many columns; without a cursor, set it to the newest value."""
        run_view, cursor = self.shown, self.view.cursor
        if run_view is None or not run_view.series:
            return
        first = min(series[0].time - series[0].seconds for series in run_view.series)
        last = max(series[-1].time for series in run_view.series)
        step = sight_of(run_view, self.view).span / layout_of(run_view, *self._cells()).columns
        moved = last - step / 2
        if cursor is not None:
            moved = cursor + columns * step
        moved = max(first + step / 2, min(last - step / 2, moved))
        self._set_view(replace(self.view, cursor=moved))

    def leave(self) -> None:
        """Remove the cursor: the newest values are shown again."""
        self._set_view(replace(self.view, cursor=None))

    def enlarge(self, steps: int) -> None:
        """Show half of the present time span for each step, or (below 0) twice as much."""
        if self.shown is not None:
            self._set_view(replace(self.view, span=enlarged(self.shown, self.view, steps)))

    def next_cpu(self) -> None:
        """Next subject of the CPU line: all cores of a host, its busiest core, then the next
        host."""
        run_view = self.shown
        if run_view is None:
            return
        host = chosen_host(run_view, self.view)
        if host is None:
            return
        if not self.view.hottest:
            self._set_view(replace(self.view, host=host.host, hottest=True))
            return
        names = [load.host for load in run_view.hosts]
        after = names[(names.index(host.host) + 1) % len(names)]
        self._set_view(replace(self.view, host=after, hottest=False))

    def draw_for_size(self) -> None:
        super().draw_for_size()
        self._draw()

    def _set_view(self, view: Viewport) -> None:
        self.view = view
        self._draw()
        self.post_message(self.ViewChanged())

    def _cells(self) -> tuple[int, int]:
        return self.size.width, self.size.height

    def _draw(self) -> None:
        run_view, (columns, rows) = self.shown, self._cells()
        is_measured = run_view is not None and run_view.is_measured
        if self._waiting is not None and not is_measured:
            self._drawn_of = None
            self.show_lines(draw_waiting(self._waiting, columns, rows=rows, glyphs=self.glyphs))
            return
        if run_view is None:
            self._drawn_of = None
            self.show_lines([])
            return
        drawn_of = (columns, rows, *drawing_inputs(run_view, self.view))
        if drawn_of != self._drawn_of:
            self._drawn_of = drawn_of
            self.show_lines(draw_run(run_view, self.view, columns, rows, glyphs=self.glyphs))
