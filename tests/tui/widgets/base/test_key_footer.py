"""The last line of a screen: the keys that work now, pressed by a click."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from nictop.tui.widgets.base.key_footer import KeyFooter, KeyHint
from tests.support.screen import running


class Keys(App[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "count", "Add", tooltip="adds one"),
        Binding("plus", "count", "Add"),
        Binding("d", "cannot", "Delete"),
        Binding("x", "hidden", "Hidden", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.counted = self.bells = 0

    def compose(self) -> ComposeResult:
        yield Input()
        yield KeyFooter()

    def action_count(self) -> None:
        self.counted += 1

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return None if action == "cannot" else True

    def bell(self) -> None:
        self.bells += 1

    def drawn(self) -> str:
        return "".join(segment.text for segment in self.query_one(KeyFooter).render_line(0))


async def test_each_action_is_shown_once_and_none_is_cut() -> None:
    app = Keys()
    async with running(app, (60, 5), notifications=False) as pilot:
        app.query_one(Input).blur()
        await pilot.pause()
        assert app.drawn().startswith(" a Add  d Delete ")
        assert "Hidden" not in app.drawn() and app.drawn().count("Add") == 1
        await pilot.resize_terminal(9, 5)
        await pilot.pause()
        assert app.drawn() == " a Add   "


async def test_a_hint_without_room_has_its_short_label() -> None:
    app = Keys()
    async with running(app, (60, 5), notifications=False) as pilot:
        footer = app.query_one(KeyFooter)
        footer.hints = tuple(
            KeyHint(key, key, label, "", enabled=True)
            for key, label in (("e", "Show set-up"), ("r", "Record/report"))
        )
        assert app.drawn().startswith(" e Show set-up  r Record/report ")
        await pilot.resize_terminal(26, 5)
        await pilot.pause()
        assert app.drawn() == " e Show set-up  r Record  "
        assert footer.hint_at(22) == 1 and footer.hint_at(25) is None
        await pilot.resize_terminal(10, 5)
        await pilot.pause()
        assert app.drawn() == " e Set-up "


async def test_a_click_presses_the_key_and_one_that_is_disabled_rings() -> None:
    app = Keys()
    async with running(app, (60, 5), notifications=False) as pilot:
        app.query_one(Input).blur()
        await pilot.pause()
        for column, counted, bells in ((0, 1, 0), (6, 2, 0), (7, 2, 1), (40, 2, 1)):
            await pilot.click(KeyFooter, (column, 0))
            assert (app.counted, app.bells) == (counted, bells), column


async def test_the_hint_under_the_pointer_is_highlighted_and_explained() -> None:
    app = Keys()
    async with running(app, (60, 5), notifications=False) as pilot:
        app.query_one(Input).blur()
        await pilot.pause()
        footer = app.query_one(KeyFooter)
        plain = [segment.style for segment in footer.render_line(0)]
        await pilot.hover(KeyFooter, (1, 0))
        assert (footer.hovered, footer.tooltip) == (0, "adds one")
        over = [segment.style for segment in footer.render_line(0)]
        assert over[:2] != plain[:2] and over[2:] == plain[2:]
        await pilot.hover(Input)
        assert (footer.hovered, footer.tooltip) == (None, None)


async def test_keys_follow_the_focus() -> None:
    """While text is typed into a field, letters are no keys."""
    app = Keys()
    async with running(app, (80, 5), notifications=False) as pilot:
        app.query_one(Input).focus()
        await pilot.pause()
        focused = app.drawn()
        app.query_one(Input).blur()
        await pilot.pause()
        assert focused != app.drawn()
