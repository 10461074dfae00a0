"""The live application under test: scripted sources as input, the screen as text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic, process_time
from typing import Any
from weakref import ref

import pytest
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.css.types import CSSLocation
from textual.pilot import Pilot
from textual.screen import Screen as TextualScreen

import nictop.tui.controllers.nictop
from nictop.hosts.specification import Host
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.records import Line
from nictop.rules import Diagnosis
from nictop.tui.app import NictopApp
from nictop.tui.screens.base import Opener
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.wire.source import SourceState
from nictop.wire.ssh.authentication import Ask
from tests.support.probe import TEST_TIMEOUT
from tests.support.sources import ScriptedSource

WIDE, NARROW = (120, 36), (80, 24)
SCREEN_TIMEOUT = 120.0
"""Seconds until a condition must be true; a machine under load needs many."""
POLL_SECONDS = 0.02
"""Interval at which a condition is checked."""
CPU_SECONDS_PER_POLL = 0.1
"""Seconds of CPU time for the application between two checks, unless it becomes idle earlier."""
NO_COST = 3600.0
"""Seconds between readings of nictop's own cost (`StatusLine.COST_EVERY`): none during a test."""
FROZEN_TIME = 1000.0
"""Value of the clock for scripted hosts, so that none is shown as silent because the machine is
slow."""


async def settle(app: App[Any], most: float = 3.0) -> None:
    """Run the application until all of its tasks wait for external events and the screen is drawn,
    or until `most` seconds of CPU time are used: on a machine under load real hosts can send faster
    than the application reads.

    Textual's `Pilot.pause` is slower: it infers from the CPU time of the process whether work is
    left, and sends a message to every widget of the screen.
    """
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]  # callbacks that can run now
    end = process_time() + most
    while process_time() < end:
        await asyncio.sleep(0)
        if ready:
            continue
        if app.animator._animations or app.animator._scheduled:
            await app.animator.wait_until_complete()
        elif app._resize_event is not None:
            app._check_resize()  # as its timer does
        elif app.is_running and _is_undrawn(app):
            app.screen._on_timer_update()  # the same
            if not ready and _is_undrawn(app):
                break  # covered by another screen
        else:
            break
    if app.is_running:
        with app._context():
            _refresh(app.screen)


_refresh = TextualScreen._compositor_refresh


def _refresh_later(screen: TextualScreen[Any]) -> None:
    """`Screen._compositor_refresh` that leaves the drawing of the screen on top to `settle`: no
    terminal shows what is drawn between two turns of the event loop, and an application that is
    started draws nine times."""
    if screen is screen.app.screen:
        screen._dirty_widgets.clear()
    else:
        _refresh(screen)


def _is_undrawn(app: App[Any]) -> bool:
    screen = app.screen
    return bool(
        screen._layout_required
        or screen._scroll_required
        or screen._repaint_required
        or screen._recompose_required
        or screen._dirty_widgets
        or screen._callbacks
    )


_PARSED: dict[tuple[object, ...], list[RuleSet]] = {}


@contextmanager
def css_parsed_once() -> Iterator[None]:
    """Cache parsed CSS for all applications of this process, by text and variables."""
    parse = Stylesheet._parse_rules

    def parse_cached(
        self: Stylesheet, css: str, read_from: CSSLocation, *given: Any, **named: Any
    ) -> list[RuleSet]:
        key = (css, read_from, given, *named.items(), *self._variables.items())
        if key not in _PARSED:
            _PARSED[key] = parse(self, css, read_from, *given, **named)
        return _PARSED[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_cached)
        yield


@asynccontextmanager
async def running(
    app: App[Any], size: tuple[int, int] = WIDE, *, notifications: bool = True
) -> AsyncIterator[Pilot[Any]]:
    """Run the application without a terminal, with a pilot that waits by `settle`."""

    async def settled(*given: object) -> bool:
        await settle(app)
        return True

    with pytest.MonkeyPatch.context() as patch, css_parsed_once():
        patch.setattr("textual.app.wait_for_idle", settled)
        patch.setattr("textual.pilot.wait_for_idle", settled)
        patch.setattr(Pilot, "_wait_for_screen", settled)
        patch.setattr(TextualScreen, "_compositor_refresh", _refresh_later)
        # a redraw that is slow on a busy machine would be followed by a pause, which `settle` does
        # not wait for
        patch.setattr("nictop.tui.controllers.hosts.thread_time", lambda: 0.0)
        # a notice stays until it is cleared: that machine takes longer than its seconds
        patch.setattr(app, "NOTIFICATION_TIMEOUT", TEST_TIMEOUT, raising=False)
        async with app.run_test(size=size, notifications=notifications) as pilot:
            await settle(app)
            yield pilot


class Screen:
    """The application under test, its scripted source, and the text on the screen."""

    def __init__(self, app: NictopApp, source: ScriptedSource, pilot: Pilot[None]) -> None:
        self.app, self.source, self.pilot = app, source, pilot
        self.nictop = app.nictop
        self.opener: Opener = app

    async def receive(self, *items: Line | SourceState) -> None:
        """Send `items` from the source, and wait until the screen shows them."""
        self.source.send(*items)
        await self.settle()

    async def settle(self) -> None:
        await settle(self.app)

    async def show_diagnosis(self, result: Diagnosis) -> None:
        """Show it in place of that of the rules, which have been run on all that is known by
        then."""
        rules, hosts = self.nictop.diagnosis, self.nictop.hosts
        await wait_until(
            self,
            lambda: (
                rules._idle.is_set()
                and rules._diagnosed == tuple(ref(one.snapshot) for one in hosts.sessions)
            ),
        )
        rules.publish(result)
        await self.settle()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    def lines(self, widget: type[LineWidget] = DeviceTable) -> list[str]:
        views = self.app.screen.query(widget)  # none while the live screen is being opened
        return ["".join(text for text, _ in line) for line in views.first().lines] if views else []

    def chosen(self) -> str | None:
        row = self.app.screen.query_one(DeviceTable).chosen
        return None if row is None else row.title

    def drawn(self) -> list[str]:
        """The whole screen as text, row by row, from the compositor."""
        width, height = self.app.size
        rows = self.app.screen._compositor.render_strips()
        assert len(rows) == height
        return ["".join(segment.text for segment in row)[:width] for row in rows]


@contextmanager
def frozen_clock() -> Iterator[None]:
    """Stop the clock by which hosts are judged silent, unless the test has replaced that clock."""
    with pytest.MonkeyPatch.context() as patch:
        if vars(nictop.tui.controllers.nictop)["monotonic"] is monotonic:
            patch.setattr("nictop.tui.controllers.nictop.monotonic", lambda: FROZEN_TIME)
        yield


@asynccontextmanager
async def live_screen(
    size: tuple[int, int] = WIDE, *, glyphs: Glyphs = UNICODE, allow_changes: bool = False
) -> AsyncIterator[Screen]:
    source = ScriptedSource()
    app = NictopApp(lambda host, ask: source, glyphs=glyphs, allow_changes=allow_changes)
    with frozen_clock():
        async with running(app, size) as pilot:
            screen = Screen(app, source, pilot)
            await screen.settle()
            yield screen
    assert source.closed


class ScriptedHosts:
    """Scripted sources by host name, made when the application connects to the hosts."""

    def __init__(self) -> None:
        self.sources: list[ScriptedSource] = []
        self.asks: dict[str, Ask] = {}

    def connect(self, host: Host, ask: Ask) -> ScriptedSource:
        source = ScriptedSource(host.label)
        self.sources.append(source)
        self.asks[host.label] = ask
        return source

    def __getitem__(self, name: str) -> ScriptedSource:
        """The latest source of a host."""
        return next(source for source in reversed(self.sources) if source.name == name)


@asynccontextmanager
async def screen_with_hosts(
    *names: str, size: tuple[int, int] = WIDE, glyphs: Glyphs = UNICODE
) -> AsyncIterator[tuple[Screen, ScriptedHosts]]:
    """The application with one scripted host for each name."""
    hosts = ScriptedHosts()
    app = NictopApp(hosts.connect, [Host(name, f"{name}.example") for name in names], glyphs=glyphs)
    with frozen_clock():
        async with running(app, size) as pilot:
            screen = Screen(app, ScriptedSource(), pilot)
            await wait_until(screen, lambda: bool(screen.app.screen.query(DeviceTable)))
            await screen.settle()
            yield screen, hosts
    assert all(source.closed for source in hosts.sources)


async def wait_until(screen: Screen, condition: Callable[[], bool]) -> None:
    """Run the application until `condition` is true."""
    end = monotonic() + SCREEN_TIMEOUT
    while not condition():
        assert monotonic() < end, "\n".join(
            ["condition not reached; on the screen:", *screen.drawn()]
        )
        await asyncio.sleep(POLL_SECONDS)
        await settle(screen.app, CPU_SECONDS_PER_POLL)
