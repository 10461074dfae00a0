"""Base of screens: a frame is drawn when all that is in it has been drawn for its size.

Textual draws a new layout at once, and tells the widgets their sizes afterwards. The first frame of
a view would have what was drawn for no cells at all, and the first one after a resize what was
drawn for the old width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from textual._compositor import Compositor
from textual.geometry import Size
from textual.message import Message
from textual.messages import Layout
from textual.screen import Screen
from textual.widget import Widget

from nictop.tui.textual_private import DrawnAtOnce
from nictop.tui.widgets.base.line_compositor import LineCompositor
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.tui.widgets.base.while_open import WhileOpen

MAX_LAYOUTS = 4
"""Of one frame: views that are drawn may want other heights, and are laid out again then."""


class WholeFrames(DrawnAtOnce, WhileOpen):
    """Must precede Textual's class among the bases."""

    _is_laying_out = _is_frame_due = False
    _is_layout_due = False
    """A widget has sent that its place is another one."""
    _sizes: dict[LineWidget, Size] = {}  # noqa: RUF012  (replaced, never changed)
    """Of all views in the newest layout, without their scroll bars."""

    def __init__(self) -> None:
        super().__init__()
        self._compositor: Compositor = LineCompositor()

    @property
    def _self(self) -> Screen[Any]:
        """As Textual's class, which follows among the bases."""
        return cast("Screen[Any]", self)

    def draw_for_screen_size(self, size: Size) -> None:
        """Draw all again that depends on the size of the screen, which is about to change: it may
        have been hidden, and not drawn meanwhile."""

    def draw_resized(self) -> None:
        """Draw all that depends on the sizes of views: they are others, or other views are
        there."""

    def _refresh_layout(self, size: Size | None = None, scroll: bool = False) -> None:
        if self._is_laying_out:
            return
        if self._is_layout_due:
            self._is_layout_due, scroll = False, False  # more than what scrolling moves
        self.set_size_classes(self.outer_size if size is None else size)
        self._is_laying_out = True
        try:
            self._lay_out(size, scroll)
        finally:
            self._is_laying_out = False
        if self._is_frame_due:
            self._is_frame_due = False
            self._compositor_refresh()

    def _lay_out(self, size: Size | None, scroll: bool) -> None:
        """Until nothing that is drawn wants another height."""
        super()._refresh_layout(size, scroll)  # type: ignore[misc]  # of the Textual class
        for _ in range(MAX_LAYOUTS - 1):
            if not self._draw_views() or not self._forget_arrangements():
                return
            super()._refresh_layout(size)  # type: ignore[misc]
        self._draw_views()

    def _screen_resized(self, size: Size) -> None:
        """Not if it has this size already: it was hidden, and what it shows is drawn anew when it
        resumes. What is below a dialog comes before it."""
        if self._size != size:
            if self.app.screen is self._self:
                for below in self.app._background_screens:
                    below._screen_resized(size)
            if self.is_open:
                self.draw_for_screen_size(size)
            super()._screen_resized(size)  # type: ignore[misc]

    def _compositor_refresh(self) -> None:
        """Draw a frame; during a layout, at its end. Where one is waited for, it comes first."""
        if self._is_laying_out:
            self._is_frame_due = True
        elif self.is_open and self._self.is_current and self._has_other_layout():
            self._refresh_layout()
        else:
            super()._compositor_refresh()  # type: ignore[misc]

    def draw_at_once(self, change: Callable[[], object]) -> None:
        """Change what is shown, and draw it in the same wake-up of the process, not when the timer
        of Textual comes. Later where something waits that may change more of it."""
        screen = self._self
        is_waiting = screen.message_queue_size or screen._callbacks or screen._dirty_widgets
        is_waiting = is_waiting or screen._layout_required or self._is_laying_out
        self.draws_at_once = self.is_open and screen.is_current and not is_waiting
        try:
            change()
            if self.draws_at_once:
                screen._on_timer_update()
        finally:
            self.draws_at_once = False

    def set_size_classes(self, size: Size) -> None:
        """Textual sets them when the first frame of a size is drawn."""
        horizontal = list(self.app.HORIZONTAL_BREAKPOINTS or ())
        vertical = list(self.app.VERTICAL_BREAKPOINTS or ())
        classes = {name: False for _, name in (*horizontal, *vertical)}
        for cells, points in ((size.width, horizontal), (size.height, vertical)):
            for name in self._self._get_breakpoint_classes(cells, points):
                classes[name] = True
        self.update_classes(classes, animate=False)

    def _draw_views(self) -> bool:
        """Draw the views whose size is new; False: there are none."""
        if not self.is_open:
            return False
        before = self._sizes
        views = [view for view in self._self._compositor.widgets if isinstance(view, LineWidget)]
        self._sizes = {view: view.scrollable_content_region.size for view in views}
        changed = [view for view, size in self._sizes.items() if before.get(view) != size]
        for view in changed:
            view.draw_for_size()
        if changed:
            self.draw_resized()
        return bool(changed)

    def post_message(self, message: Message) -> bool:
        """From that of a widget until it is handled, Textual knows nothing of a new layout, but
        has forgotten the old one: a frame between would have the new places with old rows."""
        if isinstance(message, Layout):
            self._is_layout_due = True
        return super().post_message(message)

    def _has_other_layout(self) -> bool:
        return self._forget_arrangements() or self._is_layout_due

    def _forget_arrangements(self) -> bool:
        """Let the next layout divide the rows anew where a widget wants another height; False: none
        does."""
        waiting: list[Widget] = []
        nodes = list(self._self.children)
        while nodes:  # before each frame: `walk_children` takes five times as long
            widget = nodes.pop()
            if widget._layout_required:
                waiting.append(widget)
            nodes += widget.children
        for widget in waiting:
            widget._layout_required = False
            for ancestor in widget.ancestors:
                if not isinstance(ancestor, Widget):
                    break
                ancestor._clear_arrangement_cache()
                ancestor._layout_updates += 1
                self._self._layout_widgets.setdefault(ancestor, set()).add(widget)
                if not ancestor.styles.auto_dimensions:
                    break
        return bool(waiting)
