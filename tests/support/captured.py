"""Lines captured from real probes on real guests, as records."""

from __future__ import annotations

from pathlib import Path

from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Line
from nictop.wire.codec import decode

DATA = Path(__file__).parent.parent / "data" / "lines"


def captured_lines(name: str) -> list[Line]:
    """All lines of ``tests/data/lines/NAME.jsonl``."""
    lines = (DATA / f"{name}.jsonl").read_bytes().splitlines()
    return [as_sent_now(decode(line)) for line in lines]


def as_sent_now(line: Line) -> Line:
    """With all fields of an inventory, as a probe of this version sends it: what is recorded of it
    is not that of an older one (`nictop.recording.unrecorded`)."""
    if line.inventory is None:
        return line
    return Line(inventory=replace(line.inventory))
