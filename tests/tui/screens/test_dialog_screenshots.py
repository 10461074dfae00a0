"""Pictures of what is read on request: connections of a NIC, dropped packets, and a path test; see
test_screenshots."""

from __future__ import annotations

import pytest

from nictop.tui.screens.traffic.path_test import PathReportScreen
from nictop.tui.widgets.status.status_line import StatusLine
from tests.support.captured import captured_lines
from tests.support.connections import busy_reading, line
from tests.support.kept_runs import kept_runs
from tests.support.screen import live_screen, wait_until
from tests.traffic.drops.test_drops import REPORT
from tests.tui.screens.live import test_connections, test_drops
from tests.tui.screens.test_screenshots import compare
from tests.tui.screens.test_traffic_screenshots import SIZES, picture


@pytest.fixture(autouse=True)
def no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The status line has no CPU time of nictop in it, however long the test takes."""
    monkeypatch.setattr(StatusLine, "COST_EVERY", 3600.0)


@pytest.mark.parametrize("name", SIZES)
async def test_connections_look_like_their_picture(name: str) -> None:
    async with live_screen(SIZES[name]) as screen:
        await test_connections.begin(screen)
        await screen.receive(line(busy_reading()))
        await screen.settle()
        compare(f"connections-{name}", picture(screen))


@pytest.mark.parametrize("name", SIZES)
async def test_dropped_packets_look_like_their_picture(name: str) -> None:
    async with live_screen(SIZES[name]) as screen:
        await screen.receive(*test_drops.LINES)
        await screen.press("o", "end", "enter")
        await wait_until(screen, lambda: bool(test_drops.requests(screen)))
        await test_drops.answer(screen, REPORT)
        await wait_until(screen, lambda: "IP_RPFILTER  rx ens3" in test_drops.text(screen))
        await screen.settle()
        compare(f"drops-{name}", picture(screen))


@pytest.mark.parametrize("name", SIZES)
async def test_a_path_test_looks_like_its_picture(name: str) -> None:
    """That before a real run, between two network namespaces with different MTUs."""
    (run,) = kept_runs("self-test")["self-test-mtu"]
    assert run.result.path_test is not None
    async with live_screen(SIZES[name]) as screen:
        await screen.receive(*captured_lines("virtio-4-queues"))
        screen.app.push_screen(PathReportScreen("client", "server", run.result.path_test.report))
        await screen.settle()
        compare(f"path-{name}", picture(screen))
