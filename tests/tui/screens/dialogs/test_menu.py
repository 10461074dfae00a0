"""A menu: entries that are chosen, options that are switched while it stays open."""

from __future__ import annotations

import pytest
from textual.app import App

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.tui.screens.dialogs.menu import MenuEntry, MenuList, MenuScreen
from tests.support.screen import NARROW, running


class MenuApp(App[None]):
    """Opens a menu of three entries and one that is disabled."""

    CSS_PATH = "../../../../nictop/tui/nictop.tcss"

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.glyphs = glyphs
        self.called: list[str] = []
        self.results: list[str | None] = []
        self.bells = 0

    def bell(self) -> None:
        self.bells += 1

    async def _report(self) -> None:
        self.called.append(f"report, {len(self.screen_stack)} screens")

    def on_mount(self) -> None:
        entries = [
            MenuEntry("Virtual [interfaces]", lambda: self.called.append("virtual"), checked=False),
            MenuEntry("Packets", lambda: self.called.append("packets"), checked=True),
            MenuEntry("Write report…", self._report),
            MenuEntry("By name", "name"),
            MenuEntry("Idle queues", "idle", enabled=False, why_not="only on Queues"),
        ]
        self.push_screen(MenuScreen("View [o]", entries), self.results.append)

    @property
    def texts(self) -> list[str]:
        return [
            "".join(text for text, _ in line).rstrip()
            for line in self.screen.query_one(MenuList).lines
        ]


async def test_space_and_a_click_toggle_an_option_and_the_menu_stays() -> None:
    app = MenuApp()
    async with running(app, NARROW) as pilot:
        assert app.texts[:3] == [" off Virtual [interfaces]", " on  Packets", "     Write report…"]
        await pilot.press("space", "down", "space")
        assert app.texts[:2] == [" on  Virtual [interfaces]", " off Packets"]
        await pilot.click(MenuList, (5, 0))
        assert app.texts[0] == " off Virtual [interfaces]"
        assert app.called == ["virtual", "packets", "virtual"] and isinstance(
            app.screen, MenuScreen
        )
        await pilot.press("enter")
        assert (
            app.called[-1] == "virtual"
            and app.results == [None]
            and not isinstance(app.screen, MenuScreen)
        )


@pytest.mark.parametrize("click", [False, True])
async def test_an_entry_closes_the_menu_before_its_action_runs(click: bool) -> None:
    app = MenuApp()
    async with running(app, NARROW) as pilot:
        if click:
            await pilot.click(MenuList, (5, 2))
        else:
            await pilot.press("down", "down", "space", "enter")
        await app.workers.wait_for_complete()
        assert app.called == ["report, 1 screens"] and app.results == [None]


async def test_an_entry_with_a_text_is_the_result_and_escape_is_none() -> None:
    app = MenuApp()
    async with running(app, NARROW) as pilot:
        await pilot.press("down", "down", "down", "enter")
        assert app.results == ["name"]
        app.on_mount()
        await pilot.press("escape")
        assert app.results == ["name", None] and app.called == []


async def test_a_disabled_entry_says_why_and_only_rings() -> None:
    app = MenuApp(ASCII)
    async with running(app, NARROW) as pilot:
        assert (
            app.texts[-1] == "     Idle queues  only on Queues"
            and app.texts[2] == "     Write report~"
        )
        await pilot.press("end", "enter", "enter", "space")
        await pilot.click(MenuList, (5, 4))
        assert app.bells == 3 and app.results == [] and isinstance(app.screen, MenuScreen)


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (20, 6)])
async def test_first_two_rows_and_the_last_stay_visible(size: tuple[int, int]) -> None:
    app = MenuApp()
    async with running(app, size):
        region = app.screen.query_one("#menu").region
        assert region.y >= 2 and region.bottom <= size[1] - 1 and region.right <= size[0]
