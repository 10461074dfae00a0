"""The places of NICs in show, reports and JSON: those of the screen."""

from __future__ import annotations

import json
from html import unescape

import pytest

from nictop.hosts.observe import Answer
from nictop.model.devices.tree import row_of_link
from nictop.model.place import place_of
from nictop.model.snapshot import Snapshot
from nictop.model.text.glyphs import ASCII
from nictop.model.text.terminal import width
from nictop.model.window import RatesWindow
from nictop.report.facts.host import show_json, show_text
from nictop.report.facts.host_document import PLACE_TITLE, host_blocks
from nictop.report.facts.stream import HostLines
from nictop.report.html.page import html_page
from nictop.report.markdown import markdown_page
from nictop.report.page import report_of
from nictop.report.place import place_text
from nictop.report.render.text import text_of
from tests.support.reports import captured_guest

GUEST = "igb-vfs-vmxnet3-virtio"


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return captured_guest(GUEST, "vm1")[0]


def drawn(snapshot: Snapshot, name: str, cells: int) -> list[str]:
    """The place of a link as it is on the screen."""
    link = next(link for link in snapshot.links.values() if link.name == name)
    return place_text(place_of(row_of_link(link, snapshot), snapshot), cells)


def test_show_has_the_drawing_of_the_screen(snapshot: Snapshot) -> None:
    lines = show_text(snapshot, 100).splitlines()
    begin = lines.index(PLACE_TITLE, lines.index("ens224")) + 1
    expected = [f"  {line}" for line in drawn(snapshot, "ens224", 98)]
    assert len(expected) > 4 and lines[begin : begin + len(expected)] == expected


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(snapshot: Snapshot, columns: int) -> None:
    assert max(map(width, show_text(snapshot, columns).splitlines())) <= columns


def test_it_is_drawn_in_ascii(snapshot: Snapshot) -> None:
    text = text_of(host_blocks(snapshot, None), 80, ASCII)
    begin = text.index(PLACE_TITLE)
    tree = text[begin : begin + 300]
    assert ASCII.encode("└ ") in tree and "└" not in tree


def test_reports_have_it_as_a_tree_or_as_boxes(snapshot: Snapshot) -> None:
    answers: tuple[Answer, ...] = ((snapshot, RatesWindow()),)
    report = report_of(answers, wall=0.0)
    page = markdown_page(report)
    assert all(line in page for line in drawn(snapshot, "ens224", 118))
    assert "ens224: place" in unescape(html_page(report))


def test_json_has_a_tree_for_each_nic(snapshot: Snapshot) -> None:
    places = json.loads(show_json(snapshot))["places"]
    own = {place["ifindex_name"]: place for place in places if place["ifindex"] is not None}
    assert "lo" not in own
    lines = own["ens224"]["lines"]
    assert lines[0]["name"] == "machine" and lines[0]["depth"] == 0
    assert [line["name"] for line in lines if line["is_own"]] == ["ens224"]


def test_a_stream_repeats_none(snapshot: Snapshot) -> None:
    lines = HostLines("vm1")
    lines.note_item(snapshot)
    assert "places" not in json.loads(lines.take())
