"""Lines of ``nictop show --format jsonl``: everything once, then what has changed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import Line
from nictop.report.facts.stream import PARTS, HostLines
from nictop.wire.source import SourceState
from tests.support.lines import counters, hello, inventory, link

BEGIN = 1000.0


def snapshot_of(*lines: Line) -> Snapshot:
    snapshot = Snapshot.empty("vm1")
    for line in lines:
        snapshot = advance(snapshot, line)
    return snapshot


def first() -> Snapshot:
    return snapshot_of(
        hello(), inventory(link(2, "ens224"), time=BEGIN), counters(BEGIN + 1, {2: (0, 0)})
    )


def taken(lines: HostLines) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.take().splitlines()]


def test_the_first_line_has_everything_the_next_ones_what_has_changed() -> None:
    lines, snapshot = HostLines("vm1"), first()
    lines.note_item(snapshot)
    (line,) = taken(lines)
    assert set(PARTS) < set(line) and line["inventory"]["links"][0]["name"] == "ens224"
    snapshot = advance(snapshot, counters(BEGIN + 2, {2: (1_000_000, 0)}))
    lines.note_item(snapshot)
    (line,) = taken(lines)
    assert set(line) == {"host", "wall", "counters", "counters_by_name", "rates"}
    assert line["rates"]["links"]["2"]["name"] == "ens224"
    assert line["counters_by_name"]["links"]["ens224"]["rx_bytes"] == 1_000_000
    other = inventory(link(2, "renamed"), time=BEGIN + 2.5)
    snapshot = advance(advance(snapshot, other), counters(BEGIN + 3, {2: (1_000_000, 0)}))
    lines.note_item(snapshot)
    (line,) = taken(lines)
    assert line["inventory"]["links"][0]["name"] == "renamed" and "hello" not in line


def test_what_is_no_reading_makes_no_line() -> None:
    lines = HostLines("vm1")
    for snapshot in (
        Snapshot.empty("vm1"),
        snapshot_of(hello(), counters(BEGIN, {})),
        snapshot_of(hello(), inventory(link(2, "ens224"), time=BEGIN)),
    ):
        lines.note_item(snapshot)
        assert not lines.is_waiting and lines.take() == ""
    snapshot = first()
    lines.note_item(snapshot)
    assert len(taken(lines)) == 1
    lines.note_item(advance(snapshot, inventory(link(2, "ens224"), time=BEGIN + 5)))
    assert not lines.is_waiting


def test_of_readings_that_were_not_taken_the_newest_remains() -> None:
    lines, snapshot = HostLines("vm1"), first()
    for second in range(2, 7):
        lines.note_item(snapshot)
        snapshot = advance(snapshot, counters(BEGIN + second, {2: (second, 0)}))
    lines.note_item(snapshot)
    (line,) = taken(lines)
    assert line["skipped_readings"] == 5 and line["counters"]["time"] == BEGIN + 6
    assert "inventory" in line
    lines.note_item(advance(snapshot, counters(BEGIN + 7, {2: (7, 0)})))
    assert "skipped_readings" not in taken(lines)[0]


def test_states_of_the_connection() -> None:
    lines = HostLines("vm1")
    for state in ("connecting", "connecting"):
        lines.note_state(SourceState(state))
    assert taken(lines) == [{"host": "vm1", "state": "connecting", "message": ""}]
    lines.note_state(SourceState("connecting"))
    assert not lines.is_waiting
    lines.note_state(SourceState("failed", "ev\x1b[2J\u202eil"))
    text = lines.take()
    assert text.isascii() and "\x1b" not in text
    assert json.loads(text)["message"] == "ev\x1b[2J\u202eil"


def test_numbers_that_json_does_not_have() -> None:
    lines = HostLines("vm1")
    lines.note_item(
        snapshot_of(
            hello(), inventory(link(2, "ens224"), time=float("inf")), counters(BEGIN, {2: (0, 0)})
        )
    )
    (line,) = taken(lines)
    assert line["inventory"]["time"] > 1e300


def test_the_time_of_day_is_that_of_the_host_after_it_was_set() -> None:
    greeting, known = hello().hello, inventory(link(2, "ens224"), time=BEGIN).inventory
    assert greeting is not None and known is not None
    greeting = replace(greeting, monotonic=BEGIN - 1, wall=1_790_000_000.0)
    known = replace(known, wall=1_790_000_001.0 + 3600)
    lines = HostLines("vm1")
    counted = counters(BEGIN + 2, {2: (0, 0)})
    lines.note_item(snapshot_of(Line(hello=greeting), Line(inventory=known), counted))
    (line,) = taken(lines)
    assert line["wall"] == 1_790_000_003.0 + 3600
