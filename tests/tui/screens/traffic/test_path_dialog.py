"""The path test of the traffic form: progress, result, again, closed while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.traffic.path.store import StoredPaths, stored_paths
from nictop.tui.screens.live.files import report_now
from nictop.tui.screens.traffic.path_test import PathReportScreen, PathTestScreen
from nictop.tui.widgets.devices.overview import OverviewPane
from nictop.tui.widgets.devices.overview_table import OverviewTable
from tests.support.namespaces import why_no_namespaces
from tests.support.screen import NARROW
from tests.support.traffic_screen import ScreenWithTraffic, two_hosts
from tests.traffic.pair import WIRE

pytestmark = pytest.mark.skipif(why_no_namespaces() is not None, reason=why_no_namespaces() or "")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


async def open_path_test(screen: ScreenWithTraffic) -> None:
    await screen.open_form()
    await screen.press("o", "down", "enter")
    await screen.until(lambda: isinstance(screen.app.screen, PathTestScreen))


async def until_tested(screen: ScreenWithTraffic) -> str:
    await screen.until(
        lambda: (
            "problems" in screen.text("#dialog-text") or "warning" in screen.text("#dialog-text")
        )
    )
    return screen.text("#dialog-text")


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
async def test_result_and_again(glyphs: Glyphs) -> None:
    async with two_hosts(NARROW, glyphs=glyphs) as screen:
        await open_path_test(screen)
        text = await until_tested(screen)
        first = f"a {WIRE} 198.18.0.1 ↔ b {WIRE} 198.18.0.2"
        assert text.splitlines()[0] == glyphs.encode(first) and "No problems found" in text
        assert "\n  route     on-link, by " in text and (not glyphs.is_ascii or text.isascii())
        screen.spaces["b"].run(["ip", "link", "set", WIRE, "mtu", "1400"])
        session = screen.nictop.hosts.by_name["b"]
        await screen.until(lambda: 1400 in [link.mtu for link in session.snapshot.links.values()])
        await screen.press("left", "left", "enter")
        text = await until_tested(screen)
        assert "MTU black hole to b" in text and "ip link set dev" in text
        newest = [path for _, path in stored_paths().results]
        assert [len(one.test.findings) for one in newest] == [1, 0] and newest[
            ::-1
        ] == screen.nictop.traffic.path_tests
        assert report_now(screen.nictop).path_tests == tuple(newest[::-1])
        await screen.press("escape")
        assert not isinstance(screen.app.screen, PathTestScreen)


async def test_closed_while_it_runs() -> None:
    async with two_hosts(NARROW) as screen:
        await open_path_test(screen)
        await screen.press("escape")
        assert not isinstance(screen.app.screen, PathTestScreen)
        assert stored_paths() == StoredPaths() and screen.nictop.traffic.path_tests == []
        for space in screen.spaces.values():
            await screen.until(lambda space=space: space.run(["ss", "-Hanutw"]) == "")  # type: ignore[misc]


async def test_path_test_before_a_run() -> None:
    """Its findings are beside the result, and all of it behind o; a run without one has only the
    option of the CPU."""
    async with two_hosts(NARROW) as screen:
        screen.spaces["b"].run(["ip", "link", "set", WIRE, "mtu", "1400"])
        session = screen.nictop.hosts.by_name["b"]
        await screen.until(lambda: 1400 in [link.mtu for link in session.snapshot.links.values()])
        await screen.start()
        await screen.wait_until_finished()
        text = screen.run_text()
        assert "path test  a → b: RTT median " in text and "path test  warning: a " in text
        await screen.press("o")
        assert "Path test before the run" in "\n".join(screen.drawn())
        await screen.press("end", "enter")
        assert isinstance(screen.app.screen, PathReportScreen)
        text = screen.text("#dialog-text")
        assert "MTU black hole to b" in text and "ip link set dev" in text
        await screen.press("escape")


async def test_from_an_interface_of_the_overview() -> None:
    async with two_hosts(NARROW) as screen:
        await screen.press("5")
        await screen.until(lambda: screen.app.screen.query_one(OverviewPane).chosen is not None)
        screen.app.screen.query_one(OverviewTable).focus()
        await screen.settle()
        await screen.press("e")
        assert f"Test the path to b {WIRE}" in "\n".join(screen.drawn())
        await screen.press("end", "enter")
        await screen.until(lambda: isinstance(screen.app.screen, PathTestScreen))
        assert "No problems found" in await until_tested(screen)
