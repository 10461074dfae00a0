"""Keys that come at once, as after a pause of a slow connection: each is for what the ones before
it have opened."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input

from nictop.rules import Diagnosis, Fix
from nictop.rules.fixes.commands import command
from nictop.tui import type_ahead
from nictop.tui.app import NictopApp
from nictop.tui.textual_private import name_of_character
from nictop.tui.widgets.base.line_widget import LineWidget
from tests.support.dialogs import dialog_text
from tests.support.findings import finding
from tests.support.lines import counters, hello, inventory, link
from tests.support.screen import WIDE, Screen, live_screen, wait_until

ADDRESS = Fix(
    "here",
    "Set an address",
    (command("ip", "address", "add", "<ADDRESS/PREFIX>", "dev", "ens192"),),
)


async def at_once(screen: Screen, *keys: str) -> None:
    """All of them before any is handled; returns when all are."""
    for key in keys:
        is_character = len(key) == 1
        name = name_of_character(key) if is_character else key
        screen.app.post_message(Key(name, key if is_character else None))
    await screen.settle()
    app = screen.app
    await wait_until(screen, lambda: app._type_ahead.is_idle or app._exit)
    await screen.settle()


async def with_finding(screen: Screen) -> None:
    nic = link(2, "ens192", bus="pci")
    await screen.receive(hello(), inventory(nic), counters(1.0, {2: (0, 0)}))
    one = replace(finding(subject="ens192", fixes=(ADDRESS,)), ifindex=2)
    await screen.show_diagnosis(Diagnosis((one,), ()))


async def test_text_behind_the_key_that_opens_a_dialog_is_typed_into_it() -> None:
    async with live_screen(WIDE) as screen:
        await with_finding(screen)
        await at_once(screen, "4", "f", *"10.1.1.1/24")
        assert "10.1.1.1/24" in dialog_text(screen)
        await at_once(screen, "escape", "1", "f", *"2001:db8::1/64")
        assert "2001:db8::1/64" in dialog_text(screen)


async def test_help_palette_and_filter_take_what_is_typed_behind_their_keys() -> None:
    async with live_screen(WIDE) as screen:
        await with_finding(screen)
        for key in ("?", "ctrl+p"):
            await at_once(screen, key, *"mtu1")
            assert isinstance(screen.app.screen, ModalScreen)
            assert screen.app.screen.query_one(Input).value == "mtu1"
            await at_once(screen, "escape", "escape")
            await at_once(screen, "escape")
            assert not isinstance(screen.app.screen, ModalScreen)
        await at_once(screen, "/", *"ens4")
        assert screen.app.screen.query(Input)
        assert screen.app.focused is not None and screen.app.focused.value == "ens4"  # type: ignore[attr-defined]


async def test_a_key_that_closes_what_has_the_focus_keeps_none_behind_it() -> None:
    """Views, dialogs and the program end below keys that wait."""
    async with live_screen(WIDE) as screen:
        await with_finding(screen)
        await at_once(screen, *"1234567", "1", "?", "escape", "4")
        assert screen.app.screen.query_one("#finding-column").display
        await at_once(screen, *["down"] * 40, "?")
        assert isinstance(screen.app.screen, ModalScreen)
        await at_once(screen, "escape", "q", "x", "x")
        assert not screen.app.is_running or screen.app._exit


async def test_keys_are_handled_though_what_had_each_of_them_never_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type_ahead, "MAX_SECONDS", 0.01)
    monkeypatch.setattr(type_ahead.TypeAhead, "_follow", lambda *given: None)
    async with live_screen(WIDE) as screen:
        await with_finding(screen)
        for key in "2314":
            screen.app.post_message(Key(key, key))
        await wait_until(
            screen, lambda: bool(screen.app.screen.query_one("#finding-column").is_on_screen)
        )


def scrolled(screen: Screen) -> int:
    """Lines, of all that is on the screen."""
    return sum(view.scroll_offset.y for view in screen.app.screen.query(LineWidget))


@pytest.mark.parametrize("opened", ["1", "1 enter", "2", "4", "?"])
async def test_a_page_key_that_is_pressed_twice_scrolls_two_pages(opened: str) -> None:
    """Before the first page is drawn."""
    async with live_screen((80, 14)) as screen:
        long = " ".join(f"word{number}" for number in range(400))
        nic = link(2, "ens192", bus="pci")
        await screen.receive(hello(), inventory(nic), counters(1.0, {2: (0, 0)}))
        one = replace(finding(subject="ens192", why=long), ifindex=2)
        await screen.show_diagnosis(Diagnosis((one,), ()))
        await at_once(screen, *opened.split())
        await screen.press("pagedown")
        first = scrolled(screen)
        await screen.press("pagedown")
        both = scrolled(screen)
        await screen.press("pageup", "pageup")
        assert scrolled(screen) == 0
        await at_once(screen, "pagedown", "pagedown")
        assert scrolled(screen) == both
        await at_once(screen, "pageup", "pagedown", "pageup", "pageup")
        assert scrolled(screen) == 0
        assert both > first > 0 or opened == "2", "there is more than a page"


async def test_the_view_whose_key_was_pressed_while_the_screens_were_loaded_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last one; nothing else that was pressed before there was anything to see."""
    show_live = NictopApp._show_live

    async def show_late(app: NictopApp) -> None:
        for key in "45e":
            app.post_message(Key(key, key))
        handled = asyncio.Event()
        app.call_later(handled.set)
        await handled.wait()
        await show_live(app)

    monkeypatch.setattr(NictopApp, "_show_live", show_late)
    async with live_screen(WIDE) as screen:
        await wait_until(screen, lambda: screen.app.current_mode == "hosts")
        assert not screen.app._early_keys and screen.app._type_ahead.is_idle
