"""Text of documents: no line is wider than the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.facts import width
from nictop.report.facts.host import show_text
from tests.support.reports import CAPTURED_GUESTS, captured_guest


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_title_of_a_device_with_a_long_name_is_wrapped(columns: int) -> None:
    snapshot, _ = captured_guest(CAPTURED_GUESTS[0], "guest")
    links = {
        ifindex: replace(link, name=" ".join([link.name, *["long"] * 60]))
        for ifindex, link in snapshot.links.items()
    }
    lines = show_text(replace(snapshot, links=links), columns).splitlines()
    assert max(map(width, lines)) <= columns
    assert sum(line.count("long") for line in lines) > 60, "and nothing of it is lost"
