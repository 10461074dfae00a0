"""Dialogs that show a result as text: its lines, and copying them; while it is measured, a sentence
about progress."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from nictop.errors import NictopError
from nictop.model.text.glyphs import Glyphs
from nictop.tui.keys import COPY_KEYS
from nictop.tui.screens.dialogs.host_dialog import HostDialog, events_of
from nictop.tui.widgets.base.line_widget import SpanLine

if TYPE_CHECKING:
    from nictop.probe.records import Outdated

COPIED_CELLS = 100


class ReportDialog(HostDialog):
    """A subclass has the result as text (`report_text`), and measures it with `measure`."""

    BINDINGS: ClassVar[list[BindingType]] = COPY_KEYS
    is_tall = True

    def __init__(self) -> None:
        super().__init__()
        self._sentence = "starting"
        self._in_progress = False
        self._events: Mapping[str, Outdated | None] = {}
        """Of its hosts when the result was there."""

    def on_mount(self) -> None:
        self._note_events()

    def _note_events(self) -> None:
        self._events = events_of(self.value_sessions())

    def ages(self) -> tuple[str, ...]:
        """A result stays that of its time: what its hosts are read as again does not renew it."""
        if not self.has_report:
            return ()
        texts: list[str] = []
        for name, event in events_of(self.value_sessions()).items():
            if event is not None and event != self._events.get(name, event):
                about = f" ({event.source})" if event.source else ""
                texts.append(f"{name} had an event{about} after this was read.")
        return tuple(texts)

    @property
    def key_hints(self) -> str:
        return self.hints("Esc Close", "↑↓ Scroll")

    @property
    def has_report(self) -> bool:
        raise NotImplementedError

    def report_text(self, cells: int, glyphs: Glyphs | None = None) -> str:
        """`glyphs`: those of the screen; None: to be copied."""
        raise NotImplementedError

    async def measure(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the result that `work` stores; a NictopError is shown instead."""
        try:
            await work()
        except NictopError as error:
            self._sentence = error.message
            if error.hint:
                self._sentence += f"; {error.hint}"
        finally:
            self._in_progress = False
            self._note_events()
            if self.is_open:
                self.draw()

    def show_progress(self, sentence: str) -> None:
        self._sentence = sentence
        if self.is_open:
            self.draw()

    def text_lines(self, cells: int) -> Sequence[SpanLine]:
        if not self.has_report:
            style = "dim" if self._in_progress else "bad"
            return list(self.wrapped(self._sentence, cells, style))
        lines: list[SpanLine] = []
        for line in self.glyphs.encode(self.report_text(cells, self.glyphs)).splitlines():
            is_indented = line.startswith(" ")
            lines.append(((line, "title" if line and not is_indented else ""),))
        return lines

    def action_copy(self) -> None:
        if self.has_report:
            self.nictop.copy_lines(
                self.report_text(COPIED_CELLS).splitlines(), ["the result as text"]
            )
