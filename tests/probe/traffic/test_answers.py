"""Answers of the children of lookups are put into the lines of the probe as they are."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.protocol.hello import Encoded, encode_line
from nictop.probe.records import TrafficPath
from nictop.probe.traffic.generators import answer_of, write_answer

RECORDS: tuple[Any, ...] = (
    TrafficPath("192.0.2.2", "192.0.2.1", "unicast", 4, None, "reachable", "52:54:00:00:00:01"),
    {"arguments": ["--test", "rr"], "name": 'a"b{}}\\ 5 x\n\u00e4\udcff\x00'},
    [],
    {},
)


def written(record: object, monkeypatch: pytest.MonkeyPatch) -> str:
    """The line that a child writes; its pipe takes three bytes at once."""
    found = bytearray()

    def write(_: int, data: bytes) -> int:
        found.extend(data[:3])
        return min(3, len(data))

    monkeypatch.setattr(os, "write", write)
    write_answer(record)
    assert found.endswith(b"\n") and found.count(b"\n") == 1
    return found.decode("ascii").rstrip("\n")


@pytest.mark.parametrize("record", RECORDS)
def test_a_line_is_the_same_as_with_the_parsed_answer(
    record: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = answer_of(written(record, monkeypatch))
    assert isinstance(answer, Encoded)
    fields = {"time": 1.5, "id": "a-check", "kind": "tools"}
    line = encode_line("traffic", {**fields, "tools": answer})
    parsed = json.loads(json.dumps(record, default=field_mapping))
    assert json.loads(line) == {"traffic": {**fields, "tools": parsed}}
    assert json.loads(encode_line("traffic", {"tools": answer})) == {"traffic": {"tools": parsed}}
    assert line.endswith(b"\n") and line.count(b"\n") == 1


@pytest.mark.parametrize("record", RECORDS)
def test_what_is_cut_off_or_from_somebody_else_is_no_answer(
    record: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = written(record, monkeypatch)
    for length in range(len(line)):
        assert answer_of(line[:length]) is None
    assert answer_of(line + " ") is None


@pytest.mark.parametrize(
    "line", ["", "Traceback (most recent call last):", "answer", "answer 0 ", "answer x {}", "{}"]
)
def test_other_output_is_no_answer(line: str) -> None:
    assert answer_of(line) is None
