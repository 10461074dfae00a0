"""The dropped packets of a host: from the menu and the palette, progress, result, again, closed
while it runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import DropReport, Line, TrafficLine, TrafficRequest
from nictop.tui.screens.live.drops import DropsScreen
from nictop.tui.widgets.base.line_widget import LineWidget
from tests.support.lines import counters, hello, inventory, link
from tests.support.screen import NARROW, Screen, live_screen, wait_until
from tests.traffic.drops.test_drops import REPORT

LINES = (
    hello(),
    inventory(link(3, "ens3")),
    counters(1.0, {3: (0, 0)}),
    counters(2.0, {3: (0, 0)}),
)


def text(screen: Screen) -> str:
    view = screen.app.screen.query_one("#dialog-text", LineWidget)
    return "\n".join("".join(part for part, _ in line) for line in view.lines)


def is_open(screen: Screen) -> bool:
    return isinstance(screen.app.screen, DropsScreen)


def requests(screen: Screen, action: str = "drops") -> list[TrafficRequest]:
    traffic = (request.traffic for request in screen.source.requests)
    return [one for one in traffic if one is not None and one.action == action]


async def answer(screen: Screen, report: DropReport) -> None:
    line = TrafficLine(3.0, requests(screen)[-1].id, "drops", drops=report)
    await screen.receive(Line(traffic=line))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
async def test_result_and_again(glyphs: Glyphs) -> None:
    async with live_screen(NARROW, glyphs=glyphs) as screen:
        await screen.receive(*LINES)
        await screen.press("o", "end", "enter")
        await wait_until(screen, lambda: bool(requests(screen)))
        assert is_open(screen)
        assert "monitoring dropped packets for 10 s" in text(screen)
        await answer(screen, REPORT)
        await wait_until(screen, lambda: "IP_RPFILTER  rx ens3" in text(screen))
        assert "ip route get 192.0.2.9" in text(screen) and (
            not glyphs.is_ascii or text(screen).isascii()
        )
        await screen.press("left", "left", "enter")
        await wait_until(screen, lambda: len(requests(screen)) == 2)
        assert [one.deadline for one in requests(screen)] == [10.0, 60.0]
        await answer(screen, replace(REPORT, state="not_offered"))
        await wait_until(
            screen, lambda: "CONFIG_NET_DROP_MONITOR" in " ".join(text(screen).split())
        )
        await screen.press("escape")
        assert not is_open(screen) and not requests(screen, "stop")


async def test_closed_while_it_runs() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(*LINES)
        await screen.press("o", "end", "enter")
        await wait_until(screen, lambda: bool(requests(screen)))
        await screen.press("escape")
        await wait_until(screen, lambda: bool(requests(screen, "stop")))


async def test_from_the_palette() -> None:
    async with live_screen() as screen:
        await screen.receive(*LINES)
        await screen.press(":", *"dropped", "enter")
        await wait_until(screen, lambda: is_open(screen))
