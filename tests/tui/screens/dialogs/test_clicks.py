"""Clicks on the frame of a dialog, a menu or the help, and outside of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.screen import ModalScreen

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.tui.screens.dialogs.leave import ChangeScreen
from nictop.tui.screens.dialogs.line_entry import LineEntry
from nictop.tui.screens.dialogs.menu import MenuScreen
from nictop.tui.screens.dialogs.question import QuestionScreen
from nictop.wire.ssh.authentication import Question
from tests.support.lines import hello, inventory, link
from tests.support.screen import NARROW, Screen, live_screen, wait_until

OPENED = {"help": ("question_mark",), "menu": ("4", "o"), "dialog": ("r", "down", "enter")}
"""Kind of a pop-up → the keys that open it."""


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


async def click(screen: Screen, text: str) -> None:
    """The last place where the text is drawn."""
    rows = screen.drawn()
    y = max(number for number, row in enumerate(rows) if text in row)
    await screen.pilot.click(offset=(rows[y].index(text) + 1, y))
    await screen.settle()


def is_open(screen: Screen) -> bool:
    return isinstance(screen.app.screen, ModalScreen)


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("kind", OPENED)
async def test_outside_and_on_the_key_that_closes(kind: str, glyphs: Glyphs) -> None:
    async with live_screen(NARROW, glyphs=glyphs) as screen:
        await screen.receive(hello(), inventory(link(2, "ens192", bus="pci")))
        for where in ("Esc C", (0, 0), (79, 23)):
            await screen.press(*OPENED[kind])
            await wait_until(screen, lambda: is_open(screen))
            await screen.settle()
            before = screen.app.screen
            await screen.pilot.click(offset=(40, 12))
            assert screen.app.screen is before
            if isinstance(where, str):
                await click(screen, where)
            else:
                await screen.pilot.click(offset=where)
            await screen.settle()
            assert not is_open(screen), where


async def test_enter_in_the_frame_chooses() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(link(2, "ens192", bus="pci")))
        await screen.press("r", "down")
        assert isinstance(screen.app.screen, MenuScreen)
        await click(screen, "Enter Choose")
        await wait_until(screen, lambda: isinstance(screen.app.screen, LineEntry))


async def test_a_question_and_a_step_of_an_experiment_stay_open() -> None:
    async with live_screen(NARROW) as screen:
        for dialog in (
            QuestionScreen(Question("password", "vm1", "password of root")),
            ChangeScreen("now"),
        ):
            screen.app.push_screen(dialog)
            await screen.settle()
            await screen.pilot.click(offset=(0, 0))
            assert screen.app.screen is dialog
            await click(screen, "Esc Cancel")
            assert screen.app.screen is not dialog
