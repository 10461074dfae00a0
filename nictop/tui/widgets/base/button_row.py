"""Buttons in one line: ``[▸Apply ] [ Copy ] [ Cancel ]``.

Textual's `Button` is a widget of three rows each. This is one line, of which one button is chosen, or none. In a narrow
dialog: ``[Apply] [Copy] ▸Cancel]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from nictop.model.facts import fit, width
from nictop.tui.keys import BUTTON_KEYS
from nictop.tui.widgets.base.line_view import LineView, Span

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


class ButtonRow(LineView):
    """Posts `Pressed`, and `Moved`. Nothing is pressed by a key or click that was meant for the buttons of the stage
    before: at the beginning of a new stage (`NEW_STAGE_SECONDS`) Enter does nothing unless a button is chosen by a key,
    and a double click does not press two different buttons."""

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
        """CLOCK_MONOTONIC: Enter presses nothing before; 0: a button was chosen by a key since the last stage."""
        self.buttons: Sequence[Button] = ()
        self.chosen: int | None = None
        """Index of the button that Enter presses; None: none."""
        self._stage: object = None
        self._stage_at_click: object = None

    def show(self, buttons: Sequence[Button], *, stage: object = "", chosen: str = "") -> None:
        """Show these buttons. In another `stage` than before, the button named `chosen` is chosen, or ("") none."""
        before = self.buttons[self.chosen].name if self.chosen is not None and self.chosen < len(self.buttons) else ""
        name = before if stage == self._stage else chosen
        is_new = self._stage not in (None, stage)
        if is_new and (name != before or self._guarded_until):
            self._guarded_until = monotonic() + NEW_STAGE_SECONDS
        self._stage, self.buttons = stage, tuple(buttons)
        self.chosen = next((index for index, one in enumerate(buttons) if name and one.name == name), None)
        self.redraw()

    @property
    def enter_label(self) -> str:
        """Label of the button that Enter presses; "": it presses none."""
        button = self.buttons[self.chosen] if self.chosen is not None else None
        return button.label if button is not None and button.enabled else ""

    @property
    def note(self) -> str:
        """Why the chosen button, or while none is chosen the first disabled one, is disabled; "" if it is not."""
        if self.chosen is not None:
            return self.buttons[self.chosen].why_not if not self.buttons[self.chosen].enabled else ""
        return next((one.why_not for one in self.buttons if not one.enabled and one.why_not), "")

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

    # ------------------------------------------------------------------------------------------------ drawing

    def redraw(self) -> None:
        spans: list[Span] = []
        for (first, _), button, index in zip(self._places(), self.buttons, range(len(self.buttons)), strict=True):
            gap = first - sum(width(text) for text, _ in spans)
            if gap:
                spans.append((" " * gap, ""))
            spans.append((self._text(index), self._style_of(button, index)))
        room = self.size.width - sum(width(text) for text, _ in spans) - 2
        note = self.glyphs.text(self.note)
        if note and room >= MIN_NOTE_CELLS:
            spans.append(("  " + fit(note, room), "dim"))
        self.show_lines([tuple(spans)])

    def _style_of(self, button: Button, index: int) -> str:
        if index == self.chosen and self.is_focused:
            return "cursor"
        return "title" if button.enabled else "dim"

    def _text(self, index: int) -> str:
        label, is_chosen = self.glyphs.text(self.buttons[index].label), index == self.chosen and self.is_focused
        if self._is_tight:
            return f"{self.glyphs.cursor if is_chosen else '['}{label}]"
        return f"[{self.glyphs.cursor if is_chosen else ' '}{label} ]"

    @property
    def _is_tight(self) -> bool:
        """The blanks within the brackets do not fit."""
        return sum(width(self.glyphs.text(one.label)) + 5 for one in self.buttons) - 1 > self.size.width

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

    # ------------------------------------------------------------------------------------------- keys and mouse

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
