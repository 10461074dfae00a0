"""One Ctrl-C ends nictop, whatever dialog is open."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from textual.binding import BindingsMap
from textual.screen import ModalScreen

import nictop.tui
from nictop.tui.keys import INTERRUPT
from tests.support.lines import counters, hello, inventory, link
from tests.support.screen import WIDE, Screen, live_screen
from tests.tui.screens.live.test_after_change import DIALOGS

KEY = INTERRUPT.key


def subclasses(of: type[ModalScreen[object]]) -> Iterator[type[ModalScreen[object]]]:
    for one in of.__subclasses__():
        yield one
        yield from subclasses(one)


def test_every_dialog_has_the_key() -> None:
    """Before the keys of its fields, and not for something else."""
    for module in pkgutil.walk_packages(nictop.tui.__path__, "nictop.tui."):
        importlib.import_module(module.name)
    dialogs = [one for one in subclasses(ModalScreen) if one.__module__.startswith("nictop.")]
    assert len(dialogs) > 15
    for dialog in dialogs:
        if dialog.__subclasses__():  # what dialogs share
            continue
        merged: BindingsMap = dialog._merged_bindings or dialog._merge_bindings()
        found = merged.key_to_bindings.get(KEY, [])
        actions = [(one.action, one.priority) for one in found]
        assert actions[:1] == [("app.interrupt", True)], dialog.__name__


async def read(screen: Screen) -> None:
    nic = link(2, "ens192", bus="pci")
    await screen.receive(hello(), inventory(nic), counters(1.0, {2: (0, 0)}))


@pytest.mark.parametrize("name", [*DIALOGS, "question_mark", "ctrl+p", "slash", "o"])
async def test_it_ends_nictop(name: str) -> None:
    """Also from the help, the palette, a field and a menu."""
    async with live_screen(WIDE) as screen:
        await read(screen)
        if name in DIALOGS:
            DIALOGS[name](screen)
            await screen.settle()
        else:
            await screen.press(name)
        await screen.pilot.press(KEY)
        assert screen.app._exit


async def test_it_does_not_wait_behind_a_key_that_waits() -> None:
    async with live_screen(WIDE) as screen:
        await read(screen)
        with screen.app._type_ahead.held():
            await screen.pilot.press("4", KEY)
            assert screen.app._exit
