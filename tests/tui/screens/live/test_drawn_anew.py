"""What the live screen shows after any sequence of records, keys and views is what it would show if
it forgot all that it has drawn and computed, and drew again: nothing that is kept is out of date,
and no changed line is left out."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from rich.style import Style
from textual._compositor import LayoutUpdate
from textual.screen import Screen as TextualScreen
from textual.strip import Strip

from nictop.model.snapshot import DERIVED
from nictop.probe.records import Line, Link, VirtualFunction
from nictop.tui.widgets.base.line_compositor import LineUpdate
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.tui.widgets.devices.detail import LinkPanel
from nictop.tui.widgets.devices.table import DeviceTable
from tests.support.lines import change, counters, gone, hello, inventory, link
from tests.support.screen import NARROW, WIDE, Screen, live_screen

Cell = tuple[str, Style | None]
STEPS = 40
KEYS = ("down", "up", "1", "2", "3", "4", "1", "1", "pagedown", "tab", "s", "S", "enter", "escape")
FILTER = ("slash", "1", "enter")


class Terminal:
    """The cells of a terminal to which only the updates of an application are written."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[int, Cell]] = {}

    def display(self, screen: TextualScreen[Any], update: object) -> None:
        """In place of `App._display`."""
        if isinstance(update, LayoutUpdate):
            self.rows = {}
            for y, strips in enumerate(update.strips):
                self._write(0, y, Strip.join(list(strips)))
        elif isinstance(update, LineUpdate):
            for y, parts in update._parts.items():
                for x, (end, strip) in parts.items():
                    assert strip.cell_length == end - x
                    self._write(x, y, strip)
        else:
            assert update is None

    def _write(self, x: int, y: int, strip: Strip) -> None:
        row = self.rows.setdefault(y, {})
        for text, style, _ in strip:
            for character in text:
                row[x] = character, style
                x += 1

    def text(self) -> list[str]:
        return [text_of(row) for _, row in sorted(self.rows.items())]


def text_of(row: dict[int, Cell]) -> str:
    return "".join(character for _, (character, _) in sorted(row.items()))


def drawn_anew(screen: Screen) -> Terminal:
    """A terminal with a whole frame, for which nothing was kept."""
    for session in screen.nictop.hosts.sessions:
        for name in DERIVED:
            session.snapshot.__dict__.pop(name, None)
    views = screen.app.screen
    for table in views.query(DeviceTable):
        table._drawing = table._known_layout = None
    for panel in views.query(LinkPanel):
        panel._fixed = None
    for view in views.query(LineWidget):
        view._drawn = {}
    screen.nictop.hosts.show(screen.nictop.hosts.session.snapshot)
    for widget in views.query("*"):
        widget._styles_cache.clear()
    terminal = Terminal()
    terminal.display(views, views._compositor.render_full_update())
    return terminal


def some_links(random: Random) -> list[Link]:
    """Ports, a bond of two of them, a port with VFs, virtual ones."""
    ports = random.randint(1, 5)
    links = [
        link(
            2 + number,
            f"ens{2 + number}",
            bus="pci",
            master=random.choice((None, 20, 21)),
            mtu=random.choice((1500, 9000)),
        )
        for number in range(ports)
    ]
    if random.random() < 0.7:
        functions = [
            VirtualFunction(number, f"02:00:00:00:00:{number:02x}")
            for number in range(random.randint(1, 3))
        ]
        links.append(link(10, "ens10", bus="pci", virtual_functions=tuple(functions)))
    links.append(link(20, "bond0", kind="bond"))
    links.append(link(21, "br0", kind="bridge"))
    return links


def some_line(random: Random, moment: float) -> Line:
    kind = random.random()
    if kind < 0.15:
        return inventory(*some_links(random), time=moment)
    if kind < 0.2:
        return change(random.randint(2, 5), "renamed", carrier=random.random() < 0.5, time=moment)
    if kind < 0.25:
        return gone(random.randint(2, 5), "gone", time=moment)
    numbers = range(2, 22)
    moved = {number: (int(moment * number) * 10_000, random.randrange(10**9)) for number in numbers}
    cpus = [(int(moment * 31), 0, 7, int(moment * 50), 0, 0, 12, 0, 0, 0)] * 2
    return counters(moment, moved, cpus)


async def step(screen: Screen, random: Random, moment: float) -> str:
    """Send something, or press a key; returns what."""
    if random.random() < 0.3:
        keys = random.choice((*KEYS, FILTER))
        await screen.press(*((keys,) if isinstance(keys, str) else keys))
        return str(keys)
    lines = [some_line(random, moment + part / 10) for part in range(random.randint(1, 3))]
    await screen.receive(*lines)
    return str([line for line in lines if line.counters is None])


@pytest.mark.parametrize("size", [NARROW, WIDE])
@pytest.mark.parametrize("seed", range(2))
async def test_the_picture_is_that_of_a_drawing_from_scratch(
    size: tuple[int, int], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    terminal = Terminal()
    async with live_screen(size) as screen:
        monkeypatch.setattr(screen.app, "_display", terminal.display)
        screen.app.screen.refresh(layout=True)
        await screen.receive(hello(), inventory(*some_links(random)))
        terminal.display(screen.app.screen, screen.app.screen._compositor.render_full_update())
        done: list[str] = []
        for number in range(STEPS):
            done.append(await step(screen, random, 1.0 + number))
            shown = [dict(row) for _, row in sorted(terminal.rows.items())]
            anew = drawn_anew(screen)
            assert terminal.text() == anew.text(), done
            assert differing(shown, anew) == [], done
            await screen.settle()


def differing(shown: Sequence[dict[int, Cell]], anew: Terminal) -> list[tuple[int, int]]:
    """Cells with another character or style."""
    found = []
    for y, row in enumerate(shown):
        found += [(x, y) for x, cell in row.items() if anew.rows[y].get(x) != cell]
    return found
