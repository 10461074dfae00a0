"""What all dialogs share: their text is wrapped to the cells that are free for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from textual.app import App

from nictop.model.text.glyphs import UNICODE
from nictop.tui.screens.dialogs.dialog import Dialog
from nictop.tui.widgets.base.button_row import Button, ButtonRow
from nictop.tui.widgets.base.line_widget import LineWidget, SpanLine
from tests.support.screen import NARROW, running


class GrowingDialog(Dialog[None]):
    """Its text is `words` words long."""

    words = 3
    dialog_title = "Text that grows"

    def text_lines(self, cells: int) -> Sequence[SpanLine]:
        return list(self.wrapped(" ".join(f"word{number}" for number in range(self.words)), cells))

    def show_buttons(self, row: ButtonRow) -> None:
        row.show((Button("cancel", "Close"),))


class TallDialog(GrowingDialog):
    is_tall = True


class DialogApp(App[None]):
    CSS_PATH = "../../../../nictop/tui/nictop.tcss"
    glyphs = UNICODE


@pytest.mark.parametrize("kind", [GrowingDialog, TallDialog])
async def test_a_text_is_wrapped_beside_the_scroll_bar_that_it_needs(
    kind: type[GrowingDialog],
) -> None:
    app = DialogApp()
    async with running(app, NARROW) as pilot:
        dialog = kind()
        await app.push_screen(dialog)
        await pilot.pause()
        view = dialog.query_one("#dialog-text", LineWidget)
        for words, scrolls in ((300, True), (3, False)):
            dialog.words = words
            dialog.draw()
            assert view.show_vertical_scrollbar is scrolls
            assert [line for (line,) in view.lines] == [
                line for (line,) in dialog.text_lines(view.scrollable_content_region.width)
            ]
            await pilot.pause()
