"""Pictures of what is read on request: connections of a NIC, dropped packets, and a path test; see test_screenshots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.rules.finding import Evidence
from nictop.traffic.path.stored import StoredFix
from nictop.tui.screens.traffic.path_test import PathReportScreen
from nictop.tui.widgets.status.status_line import StatusLine
from tests.report.test_path import REPORT as PATH_REPORT
from tests.support.connections import busy_reading, line
from tests.support.screen import live_screen, wait_until
from tests.traffic.drops.test_drops import REPORT
from tests.traffic.runs import BLACK_HOLE, path_test
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
    async with live_screen(SIZES[name]) as screen:
        await screen.receive(*test_drops.LINES)
        finding = replace(
            BLACK_HOLE,
            host="vm1",
            subject="ens3",
            title=BLACK_HOLE.title.replace(" b:", " vm2:"),
            evidence=(Evidence("largest packet to vm2", "1400 of 1500 bytes", "ICMP echo with DF"),),
            fixes=(StoredFix("here", "Set MTU 1400 on ens3", ("ip link set dev ens3 mtu 1400",), persistent=False),),
        )
        report = replace(PATH_REPORT, findings=path_test(finding).report.findings)
        screen.app.push_screen(PathReportScreen("vm1", "vm2", report))
        await screen.settle()
        compare(f"path-{name}", picture(screen))
