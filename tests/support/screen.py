"""The live application under test: fed by a source, read as text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from nictop.app import NictopApp
from nictop.hosts import Host
from nictop.probe.records import Line
from nictop.widgets.device_table import DeviceTable
from nictop.widgets.line_view import LineView
from nictop.wire.authentication import Ask
from nictop.wire.source import SourceState
from tests.support.sources import ScriptedSource

WIDE, NARROW = (120, 36), (80, 24)


class Screen:
    """The app under test, its source, and what can be read off it."""

    def __init__(self, app: NictopApp, source: ScriptedSource, pilot: Pilot[None]) -> None:
        self.app, self.source, self.pilot = app, source, pilot

    async def hear(self, *items: Line | SourceState) -> None:
        """Let the source say `items`, and wait until the screen has them."""
        self.source.say(*items)
        await self.settle()

    async def settle(self) -> None:
        await self.pilot.pause()
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    def lines(self, widget: type[LineView] = DeviceTable) -> list[str]:
        views = self.app.screen.query(widget)  # none yet while the live screen is being opened
        return ["".join(text for text, _ in line) for line in views.first().lines] if views else []

    def chosen(self) -> str | None:
        row = self.app.screen.query_one(DeviceTable).chosen
        return None if row is None else row.title

    def drawn(self) -> list[str]:
        """The whole screen as text, row by row, as the compositor has it."""
        width, height = self.app.size
        rows = self.app.screen._compositor.render_strips()
        assert len(rows) == height
        return ["".join(segment.text for segment in row)[:width] for row in rows]


@asynccontextmanager
async def live(size: tuple[int, int] = WIDE, *, ascii_only: bool = False) -> AsyncIterator[Screen]:
    source = ScriptedSource()
    app = NictopApp(lambda host, ask: source, ascii_only=ascii_only)
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = Screen(app, source, pilot)
        await screen.settle()
        yield screen
    assert source.closed


class Hosts:
    """Scripted hosts by name, made when the application connects to them."""

    def __init__(self) -> None:
        self.made: list[ScriptedSource] = []
        self.asks: dict[str, Ask] = {}

    def connect(self, host: Host, ask: Ask) -> ScriptedSource:
        source = ScriptedSource(host.label)
        self.made.append(source)
        self.asks[host.label] = ask
        return source

    def __getitem__(self, name: str) -> ScriptedSource:
        """The newest source of a host."""
        return next(source for source in reversed(self.made) if source.name == name)


@asynccontextmanager
async def several(
    *names: str, size: tuple[int, int] = WIDE, ascii_only: bool = False
) -> AsyncIterator[tuple[Screen, Hosts]]:
    """The application with a scripted host of each name."""
    hosts = Hosts()
    app = NictopApp(hosts.connect, [Host(name, f"{name}.example") for name in names], ascii_only=ascii_only)
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = Screen(app, ScriptedSource(), pilot)
        await wait_until(screen, lambda: bool(screen.app.screen.query(DeviceTable)))
        await screen.settle()
        yield screen, hosts
    assert all(source.closed for source in hosts.made)


async def wait_until(screen: Screen, condition: Callable[[], bool]) -> None:
    """Let the app run until `condition` holds; the test's own time limit ends a wait for nothing."""
    for _ in range(2000):
        if condition():
            return
        await screen.pilot.pause(0.01)
    raise AssertionError(f"never came true; on the screen: {screen.lines()}")
