"""Whether the time of day of a host was set while it was watched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.clock_step import ClockStep, clock_step
from nictop.model.reboot import NOTICE_SECONDS
from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import Hello, Line
from tests.model.hosts import HELLO, inventory, snapshot_of

FIRST_HELLO = replace(HELLO, pid=7, boot_id="one")
WALL = 1_790_000_000.0


def read(time: float, wall: float, hello: Hello = FIRST_HELLO) -> Snapshot:
    snapshot = snapshot_of(hello)
    return advance(snapshot, Line(inventory=replace(inventory(time=time), wall=wall)))


@pytest.mark.parametrize("seconds", [3600.0, -3600.0, 5.0])
def test_a_step_is_the_difference_of_two_readings_of_both_clocks(seconds: float) -> None:
    found = clock_step(read(100.0, WALL), read(110.0, WALL + 10.0 + seconds), 50.0)
    assert found == ClockStep(50.0, seconds)


@pytest.mark.parametrize(
    "after",
    [
        read(110.0, WALL + 10.4),
        read(400.0, WALL + 300.0 + 30.0),  # chrony may slew by 10 %
        read(110.0, WALL + 3610.0, replace(FIRST_HELLO, boot_id="two")),
        read(110.0, WALL + 3610.0, replace(FIRST_HELLO, pid=0)),  # ESXi
        read(90.0, WALL + 3590.0),  # an earlier time of a recording
        snapshot_of(FIRST_HELLO),
    ],
    ids=["read apart", "slewed", "another boot", "esxi", "earlier", "hello alone"],
)
def test_other_differences_are_none(after: Snapshot) -> None:
    assert clock_step(read(100.0, WALL), after, 50.0) is None


def test_forwards_is_set_or_suspended_and_back_is_set() -> None:
    step = ClockStep(50.0, 3600.0)
    assert step.text(54.0) == (
        "time of day jumped forwards by 1 h (set, or suspended), noticed 4 s ago"
    )
    assert ClockStep(50.0, -90.0).text(54.0) == (
        "time of day set back by 1 min 30 s, noticed 4 s ago"
    )
    assert step.is_new(54.0) and not step.is_new(50.0 + NOTICE_SECONDS)
