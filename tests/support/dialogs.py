"""Dialogs under test: their text and their buttons."""

from __future__ import annotations

from nictop.tui.widgets.base.button_row import ButtonRow
from nictop.tui.widgets.base.line_widget import LineWidget
from tests.support.screen import Screen


def dialog_lines(screen: Screen) -> str:
    """Text of the topmost dialog, with its line ends."""
    view = screen.app.screen.query_one("#dialog-text", LineWidget)
    return "\n".join("".join(text for text, _ in line) for line in view.lines)


def dialog_text(screen: Screen) -> str:
    """The same text on one line, with single blanks."""
    return " ".join(dialog_lines(screen).split())


def button_labels(screen: Screen) -> list[str]:
    return [one.label for one in screen.app.screen.query_one(ButtonRow).buttons]


async def choose_button(screen: Screen, label: str) -> None:
    """Choose a button by keys."""
    row = screen.app.screen.query_one(ButtonRow)
    labels = [one.label for one in row.buttons]
    assert label in labels, labels
    if not row.has_focus:
        row.focus()
    await screen.press("right")
    while row.chosen != labels.index(label):
        await screen.press("right")


async def press_button(screen: Screen, label: str) -> None:
    """Choose a button by keys, and press it."""
    await choose_button(screen, label)
    await screen.press("enter")
