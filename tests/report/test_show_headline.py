"""The first line of ``nictop show`` about a host says how old its values are."""

from __future__ import annotations

import pytest

from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import Line, Outdated
from nictop.probe.records.counters import EventSource
from nictop.report.facts.host_document import headline_text
from tests.support.lines import counters, hello, inventory, link


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("link", "read before an event (link)"),
        ("connection", "read before the connection was lost"),
        ("nictop", "read before it changed"),
    ],
)
def test_values_that_are_older_than_an_event_are_marked(source: EventSource, words: str) -> None:
    snapshot = Snapshot.empty("vm1")
    for line in (hello(), inventory(link(2, "ens224")), counters(1.0, {2: (0, 0)})):
        snapshot = advance(snapshot, line)
    assert "read before" not in headline_text(snapshot)
    snapshot = advance(snapshot, Line(outdated=Outdated(1e9, source)))
    assert f" · {words} · " in headline_text(snapshot)
