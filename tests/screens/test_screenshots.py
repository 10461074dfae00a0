"""Pictures of the live screen on a recorded guest, or on that of a rule case (FAMILY/RULE): what is committed in
screenshots/ is what nictop draws.

``make screenshots`` (NICTOP_DRAW_SCREENSHOTS=1) writes them anew.
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

import pytest

from nictop.app import NictopApp
from nictop.probe.records import Line
from nictop.widgets.status_line import StatusLine
from tests.support.findings import lines_of_case
from tests.support.recorded import recorded
from tests.support.screen import Screen, wait_until
from tests.support.sources import ScriptedSource

PICTURES = Path(__file__).parent.parent.parent / "screenshots"

CHOOSE = ("down", "down")
"""From the management port to the physical function."""

VIRTIO = ("right", "right")
"""To the NIC whose four queues carry traffic."""

SHOTS = {
    "live-120x36": ((120, 36), "igb-vfs-vmxnet3-virtio", CHOOSE, False),
    "live-80x24": ((80, 24), "igb-vfs-vmxnet3-virtio", CHOOSE, False),
    "detail-80x24": ((80, 24), "igb-vfs-vmxnet3-virtio", (*CHOOSE, "enter"), False),
    "ascii-80x24": ((80, 24), "igb-vfs-vmxnet3-virtio", CHOOSE, True),
    "queues-120x36": ((120, 36), "virtio-4-queues", (*VIRTIO, "2"), False),
    "queues-80x24": ((80, 24), "virtio-4-queues", (*VIRTIO, "2"), False),
    "cpus-120x36": ((120, 36), "virtio-4-queues", (*VIRTIO, "3", "a"), False),
    "cpus-80x24": ((80, 24), "virtio-4-queues", (*VIRTIO, "3"), False),
    "findings-120x36": ((120, 36), "profiles/profile_is_generated", ("5",), False),
    "findings-80x24": ((80, 24), "profiles/profile_is_generated", ("5",), False),
    "wired-connection-120x36": ((120, 36), "profiles/profile_is_generated", ("right",), False),
    "wired-connection-80x24": ((80, 24), "profiles/profile_is_generated", ("right",), False),
    "help-80x24": ((80, 24), "igb-vfs-vmxnet3-virtio", (*CHOOSE, "question_mark"), False),
}


def without_ids(svg: str) -> str:
    """An SVG of Textual without the random number in its class names."""
    return re.sub(r"terminal-\d+", "terminal", svg)


def said(name: str) -> list[Line]:
    """What the probe of the host in the picture says."""
    family, slash, rule = name.partition("/")
    return lines_of_case(family, rule) if slash else recorded(name)


async def draw(size: tuple[int, int], recording: str, keys: tuple[str, ...], ascii_only: bool) -> str:
    source = ScriptedSource("alma-load-001")
    app = NictopApp(lambda host, ask: source, ascii_only=ascii_only)
    async with app.run_test(size=size) as pilot:
        screen = Screen(app, source, pilot)
        await screen.hear(*said(recording))
        await wait_until(screen, lambda: app.diagnosis is not None)
        if keys:
            await pilot.press(*keys)
        await pilot.pause()
        await pilot.pause()
        return without_ids(app.export_screenshot(title="nictop", simplify=True))


@pytest.mark.parametrize("name", SHOTS)
async def test_the_screen_looks_like_its_picture(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # its own cost is the one thing on the screen that a recording does not determine
    monkeypatch.setattr(StatusLine, "COST_EVERY", 3600.0)
    svg = await draw(*SHOTS[name])
    path = PICTURES / f"{name}.svg"
    if os.environ.get("NICTOP_DRAW_SCREENSHOTS"):
        path.write_text(svg)
    known = path.read_text()
    if svg != known:
        before, after = (re.findall(r">([^<>]+)</text>", one) for one in (known, svg))
        difference = "\n".join(difflib.unified_diff(before, after, "committed", "drawn", lineterm="", n=0))
        pytest.fail(f"{name} is drawn differently (make screenshots, then look at it):\n{difference or 'styles'}")
