"""Lines captured from real probes on real guests, as records."""

from __future__ import annotations

from pathlib import Path

from nictop.probe.records import Line
from nictop.wire.codec import decode

DATA = Path(__file__).parent.parent / "data" / "lines"


def captured_lines(name: str) -> list[Line]:
    """All lines of ``tests/data/lines/NAME.jsonl``."""
    return [decode(line) for line in (DATA / f"{name}.jsonl").read_bytes().splitlines()]
