"""Trends of the last minute: each part of the window is read once, and time is divided into cells
without holes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.queues.plan import queue_plan
from nictop.model.queues.trends import Trends, cells_of_parts, cpu_busy, queue_rates
from nictop.model.rates.links import Rates
from tests.tui.widgets.cpu.guest import link_of, loaded_guest, shares


def part(busy: float, elapsed: float = 1.0) -> Rates:
    return Rates(elapsed, links={}, cpus={0: shares(user=busy)}, driver={}, queues={}, vfs={})


def test_the_newest_part_is_in_the_last_cell() -> None:
    assert cells_of_parts([1.0, 1.0, 1.0], 60)[-4:] == [(), (0,), (1,), (2,)]
    assert cells_of_parts([1.0] * 60, 6) == [
        tuple(range(first, first + 10)) for first in range(0, 60, 10)
    ]


def test_a_long_part_is_in_every_cell_that_it_covers() -> None:
    assert cells_of_parts([30.0, 15.0], 4) == [(), (0,), (0,), (1,)]
    assert cells_of_parts([5.0, 1.0], 60)[-7:] == [(), (0,), (0,), (0,), (0,), (0,), (1,)]


def test_what_is_older_than_a_minute_is_left_out() -> None:
    assert cells_of_parts([1.0] * 70, 60) == [(index,) for index in range(10, 70)]
    assert cells_of_parts([], 3) == [(), (), ()]
    assert cells_of_parts([1.0], 0) == []


@given(st.lists(st.floats(0.9, 1.1), min_size=1, max_size=60), st.integers(1, 130))
def test_there_are_no_holes_between_the_newest_part_and_the_oldest(
    elapsed: list[float], width: int
) -> None:
    """Intervals are never exactly one second."""
    cells = cells_of_parts(elapsed, width)
    assert len(cells) == width
    filled = [index for index, cell in enumerate(cells) if cell]
    if filled:
        assert filled == list(range(filled[0], width))
    indexes = [index for cell in cells for index in cell]
    assert indexes == sorted(indexes)


def test_cells_are_means_and_unknown_values_are_gaps() -> None:
    trends: Trends[int] = Trends()
    trends.update((part(0.2, 20.0), part(0.4, 10.0), part(0.6, 10.0)), None, cpu_busy)
    known, unknown = trends.cells([0, 7], 3).values()
    assert known[0] is None and known[1:] == pytest.approx([0.2, 0.5])
    assert unknown == [None, None, None]


def test_seconds_without_readings_are_a_gap() -> None:
    trends: Trends[int] = Trends()
    parts = [part(0.25), part(0.25), part(0.9, 12.0), part(0.25)]
    trends.update(parts, None, cpu_busy)
    assert trends.cells([0], 60)[0][-16:] == [None, 0.25, 0.25, *[None] * 12, 0.25]
    trends.update([part(0.2, 10.0), part(0.4, 10.0)], None, cpu_busy)
    assert None not in trends.cells([0], 60)[0][-20:], "it is read every 10 s"


def test_each_part_is_read_once_until_the_source_changes() -> None:
    read: list[Rates] = []

    def reader(rates: Rates) -> dict[int, float | None]:
        read.append(rates)
        return cpu_busy(rates)

    trends: Trends[int] = Trends()
    parts = [part(0.1 * number) for number in range(4)]
    trends.update(parts[:3], "plan", reader)
    first = trends.cells([0], 3)
    assert trends.cells([0], 3) is first, "the same parts"
    trends.update(parts[1:], "plan", reader)
    assert read == parts
    assert trends.cells([0], 60)[0][-3:] == pytest.approx([0.1, 0.2, 0.3])
    trends.update(parts[1:], "another plan", reader)
    assert read == parts + parts[1:]


def test_queue_rates_are_those_of_the_map() -> None:
    guest, parts = loaded_guest()
    link = link_of(guest)
    found = queue_rates(queue_plan(link, guest.inventory), link.ifindex, parts[-1])
    assert [round(found["rx", number] or 0) for number in range(4)] == [14, 8, 16, 22]
    assert [round(found["tx", number] or 0) for number in range(4)] == [21, 18, 21, 24]
    assert [round(found["irq", number] or 0) for number in range(4)] == [31, 24, 33, 42]


def test_bits_stand_for_packets_where_these_are_not_counted() -> None:
    guest, parts = loaded_guest()
    link = link_of(guest)
    queues = tuple(replace(one, packets=None, bits=99.0) for one in parts[-1].queues[link.ifindex])
    rates = replace(parts[-1], queues={link.ifindex: queues}, driver={})
    assert queue_rates(queue_plan(link, guest.inventory), link.ifindex, rates)["rx", 0] == 99.0
