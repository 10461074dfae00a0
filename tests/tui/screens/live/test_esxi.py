"""An ESXi host on the screens: ports of virtual machines, CPU ready and co-stop; nothing that ESXi
does not report."""

from __future__ import annotations

import pytest

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from tests.support.esxi import esxi_lines
from tests.support.screen import NARROW, WIDE, Screen, live_screen


async def receive(screen: Screen) -> None:
    await screen.receive(*esxi_lines())


@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_devices(size: tuple[int, int]) -> None:
    async with live_screen(size) as screen:
        await receive(screen)
        text = "\n".join(screen.drawn())
        assert "ESXi host (experimental) · 8 CPUs" in text
        assert "VF 1 3b:02.1 db1" in text
        assert "├ web1.eth0" in text and "└ vmk0" in text
        assert "softirq" not in text


@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_cpus(size: tuple[int, int]) -> None:
    async with live_screen(size) as screen:
        await receive(screen)
        await screen.press("3")
        text = "\n".join(screen.drawn())
        assert "ready 12" in text and "vhost" not in text
        assert "interrupts not offered by ESXi" in text


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize(
    "keys", [("enter",), ("2",), ("3", "enter"), ("4",), ("5",), ("6",), ("o",), ("e",)]
)
async def test_every_view_can_be_drawn(glyphs: Glyphs, keys: tuple[str, ...]) -> None:
    async with live_screen(NARROW, glyphs=glyphs) as screen:
        await receive(screen)
        await screen.press(*keys)
        text = "\n".join(screen.drawn())
        assert text.strip() and "Traceback" not in text
        if glyphs is ASCII:
            assert text.isascii()
