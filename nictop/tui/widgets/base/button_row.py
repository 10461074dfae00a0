"""Buttons in one line: ``[▸Apply ] [ Copy ] [ Cancel ]``.

Textual's `Button` is a widget of three rows each. This is one line, of which one button is chosen,
or none. In a narrow dialog: ``[Apply] [Copy] ▸Cancel]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from nictop.model.facts import fit, width
from nictop.probe.light_dataclasses import dataclass
from nictop.tui.keys import BUTTON_KEYS
from nictop.tui.widgets.base.line_widget import LineWidget, Span, span_cells

MIN_NOTE_CELLS = 9
NEW_STAGE_SECONDS = 0.5
"""After the change to another stage, for which a doubled or held Enter presses nothing."""


@dataclass(frozen=True)
class Button:
    """One button."""

    name: str
    """The action of the dialog that it runs: ``cancel``, ``wait(1)``."""
    label: str
    enabled: bool = True
    why_not: str = ""
    """Why it is disabled."""


class ButtonRow(LineWidget):
    """Posts `Pressed`, and `Moved`. Nothing is pressed by a key or click that was meant for the
    buttons of the stage before: at the beginning of a new stage (`NEW_STAGE_SECONDS`) Enter does
    nothing unless a button is chosen by a key, and a double click does not press two different
    buttons."""

    BINDINGS: ClassVar[list[BindingType]] = BUTTON_KEYS

    class Pressed(Message):
        """An enabled button was pressed."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    class Moved(Message):
        """Another button is chosen, or it has the focus or not: Enter does something else."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._guarded_until = 0.0
        """CLOCK_MONOTONIC: Enter presses nothing before; 0: a button was chosen by a key since the
        last stage."""
        self.buttons: Sequence[Button] = ()
        self.chosen: int | None = None
        """Index of the button that Enter presses; None: none."""
        self._stage: object = None
        self._stage_at_click: object = None

    def show(self, buttons: Sequence[Button], *, stage: object = "", chosen: str = "") -> None:
        """Show these buttons. In another `stage` than before, the button named `chosen` is chosen,
        or ("") none."""
        before = self._chosen_name
        name = before if stage == self._stage else chosen
        is_new = self._stage not in (None, stage)
        if is_new and (name != before or self._guarded_until):
            self._guarded_until = monotonic() + NEW_STAGE_SECONDS
        self._stage, self.buttons = stage, tuple(buttons)
        names = [button.name for button in buttons]
        self.chosen = None
        if name and name in names:
            self.chosen = names.index(name)
        self.redraw()

    @property
    def _chosen_name(self) -> str:
        """Of the button that is chosen; "": none is."""
        if self.chosen is None or self.chosen >= len(self.buttons):
            return ""
        return self.buttons[self.chosen].name

    @property
    def enter_label(self) -> str:
        """Label of the button that Enter presses; "": it presses none."""
        if self.chosen is None or not self.buttons[self.chosen].enabled:
            return ""
        return self.buttons[self.chosen].label

    @property
    def note(self) -> str:
        """Why the chosen button, or while none is chosen the first disabled one, is disabled; "" if
        it is not."""
        buttons = self.buttons
        if self.chosen is not None:
            buttons = (buttons[self.chosen],)
        disabled = (button.why_not for button in buttons if not button.enabled)
        return next(filter(None, disabled), "")

    def choose_edge(self, step: int) -> None:
        """Choose the first button (`step` 1) or the last one (-1)."""
        self.chosen = None
        self.move(step)

    def move(self, step: int) -> bool:
        """Choose the next button, or the one before (`step` -1). False: there is none."""
        edge = 0 if step > 0 else len(self.buttons) - 1
        target = edge if self.chosen is None else self.chosen + step
        if not 0 <= target < len(self.buttons):
            return False
        self.chosen, self._guarded_until = target, 0.0
        self.redraw()
        self.post_message(self.Moved())
        return True

    def press(self, index: int) -> None:
        """Press a button for the user."""
        button = self.buttons[index]
        if button.enabled:
            self.post_message(self.Pressed(button.name))
        else:
            self.app.bell()

    # -------------------------------------------------------------------------------------- drawing

    def redraw(self) -> None:
        spans: list[Span] = []
        for index, (first, _) in enumerate(self._places()):
            gap = first - span_cells(spans)
            if gap:
                spans.append((" " * gap, ""))
            spans.append((self._text(index), self._style_of(index)))
        room = self.size.width - span_cells(spans) - 2
        note = self.glyphs.text(self.note)
        if note and room >= MIN_NOTE_CELLS:
            spans.append(("  " + fit(note, room), "dim"))
        self.show_lines([tuple(spans)])

    def _has_cursor(self, index: int) -> bool:
        return index == self.chosen and self.is_focused

    def _style_of(self, index: int) -> str:
        if self._has_cursor(index):
            return "cursor"
        return "title" if self.buttons[index].enabled else "dim"

    def _text(self, index: int) -> str:
        label, has_cursor = self.glyphs.text(self.buttons[index].label), self._has_cursor(index)
        if self._is_tight:
            lead = self.glyphs.cursor if has_cursor else "["
            return f"{lead}{label}]"
        mark = self.glyphs.cursor if has_cursor else " "
        return f"[{mark}{label} ]"

    @property
    def _is_tight(self) -> bool:
        """The blanks within the brackets do not fit."""
        used = sum(width(self.glyphs.text(button.label)) + 5 for button in self.buttons)
        return used - 1 > self.size.width

    @property
    def _gap(self) -> int:
        """Blanks between two buttons; none where they do not fit with them."""
        used = sum(width(self._text(index)) for index in range(len(self.buttons)))
        return int(used + len(self.buttons) - 1 <= self.size.width)

    def _places(self) -> Iterator[tuple[int, int]]:
        """(First column, column after the last) of each button."""
        column, gap = 0, self._gap
        for index in range(len(self.buttons)):
            end = column + width(self._text(index))
            yield column, end
            column = end + gap

    def on_focus(self) -> None:
        super().on_focus()
        self.redraw()
        self.post_message(self.Moved())

    def on_blur(self) -> None:
        super().on_blur()
        self.redraw()
        self.post_message(self.Moved())

    def draw_for_size(self) -> None:
        super().draw_for_size()
        self.redraw()

    # ------------------------------------------------------------------------------- keys and mouse

    def action_choose(self, step: int) -> None:
        if not self.move(step):
            self.choose_edge(step)

    def action_press(self) -> None:
        if self.chosen is None or monotonic() < self._guarded_until:
            self.app.bell()
        else:
            self.press(self.chosen)

    def on_click(self, event: events.Click) -> None:
        if event.chain == 1:
            self._stage_at_click = self._stage
        elif self._stage_at_click != self._stage:
            return
        x = event.get_content_offset_capture(self).x
        for index, (first, end) in enumerate(self._places()):
            if first <= x < end:
                self.chosen = index
                self.redraw()
                self.press(index)
