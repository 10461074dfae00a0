"""A port with VFs in Devices: the rates of the port, named so, at both sizes."""

from __future__ import annotations

import pytest

from nictop.model.devices.ports import NETDEV_ONLY, WITH_FUNCTIONS
from nictop.probe.records import Line, PortCounts
from tests.model.devices.test_ports import FULL, IDLE, port
from tests.support.lines import hello
from tests.support.screen import NARROW, WIDE, live_screen


@pytest.mark.parametrize("size", [NARROW, WIDE])
@pytest.mark.parametrize(
    ("before", "after", "rate", "words"),
    [
        (IDLE, FULL, "24.0 G", WITH_FUNCTIONS),
        (PortCounts(""), PortCounts(""), "8.00 k", NETDEV_ONLY),
    ],
)
async def test_what_the_rates_are_of(
    size: tuple[int, int], before: PortCounts, after: PortCounts, rate: str, words: tuple[str, ...]
) -> None:
    snapshot = port(before, after)
    lines = [Line(counters=snapshot.before), Line(counters=snapshot.counters)]
    async with live_screen(size=size) as screen:
        await screen.receive(hello(), Line(inventory=snapshot.inventory), *lines)
        row = next(line for line in screen.drawn() if "ens224 " in line and "├" in line)
        assert rate in row and any(f"ens224  {word} " in row for word in words)
