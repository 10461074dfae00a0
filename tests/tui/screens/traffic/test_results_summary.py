"""Below the list of results: what the list has no room for, and on a tall screen all that is known
of the result."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

import pytest

from nictop.cli.commands.demo import DEMO_FILE, DEMO_NIC
from tests.support.replay_screen import screen_with_replay
from tests.support.screen import NARROW, wait_until

TALL = (200, 50)


@pytest.mark.parametrize("size", [NARROW, TALL, (60, 20)])
async def test_the_whole_test_is_named_and_a_tall_screen_has_the_limits(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path:
        async with screen_with_replay(path, size, nic=DEMO_NIC) as screen:
            await screen.seek(screen.replay.playback.end)
            await screen.press("7")
            await wait_until(
                screen,
                lambda: any("TCP ×4 16 s MTU 1500 iperf3" in row for row in screen.drawn()[5:]),
            )
            text = "\n".join(screen.drawn())
            assert ("excluded" in text, "taken by the socket of alma-load-001" in text) == (
                size == TALL,
                size == TALL,
            )
            assert ("13.0 cores/Gb/s" in text) == (size == TALL), "with its unit, or not at all"
