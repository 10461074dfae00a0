"""The place of a NIC as a drawing: boxes within boxes, and what costs."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nictop.model.place import PlaceLine
from nictop.report.html.page import html_page
from nictop.report.html.place import place_figure
from nictop.report.page import report_of
from tests.support.hostile import NAME
from tests.support.reports import captured_guest

LINES = (
    PlaceLine(0, "machine", "2 NUMA nodes"),
    PlaceLine(1, "NUMA node 0", "CPUs 0-3"),
    PlaceLine(2, "0000:03:00.0", "82576", "slower or narrower than it can be"),
    PlaceLine(3, "ens224", "up", is_own=True),
    PlaceLine(0, "2 queue interrupts", "to CPU 5", "CPU 5 on another node than the NIC"),
)


def boxes(svg: str) -> list[tuple[float, ...]]:
    """x, y, width, height"""
    pattern = r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"'
    return [tuple(map(float, found)) for found in re.findall(pattern, svg)]


def test_each_box_is_within_that_above_it_and_beside_the_next() -> None:
    found = boxes(place_figure(LINES, "ens224"))
    assert len(found) == len(LINES)
    for outer, inner in pairwise(found[:4]):
        assert outer[0] < inner[0] and outer[1] < inner[1]
        assert inner[1] + inner[3] < outer[1] + outer[3]
    machine, interrupts = found[0], found[4]
    assert interrupts[1] > machine[1] + machine[3]


def test_what_costs_is_said_and_the_nic_stands_out() -> None:
    svg = place_figure(LINES, "ens224")
    assert "▲ slower or narrower" in svg and 'class="own"' in svg and 'class="cost"' in svg


TEXTS = st.sampled_from((NAME, "", "ens224", "x" * 300))


@given(st.lists(st.builds(PlaceLine, st.integers(0, 20), TEXTS, TEXTS, TEXTS), max_size=12))
def test_no_name_is_markup_and_every_number_is_one(lines: list[PlaceLine]) -> None:
    svg = place_figure(lines, "<b>")
    assert "<b>" not in svg and "nan" not in svg and "<script" not in svg
    assert len(boxes(svg)) == len(lines)


def test_a_report_has_the_place_of_each_nic() -> None:
    page = html_page(report_of([captured_guest("igb-vfs-vmxnet3-virtio", "vm1")], wall=0.0))
    assert "ens192: place" in page and "root port 0000:00:02.0" in page
