"""Write recordings with a real recorder, and read them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from nictop.probe.records import Line
from nictop.recording.host_writer import RecordableItem
from nictop.recording.reader import RecordedItem, Recording
from nictop.recording.writer import Recorder
from nictop.wire.source import SourceState
from tests.support.lines import counters, hello, inventory, link

TimedItem = tuple[str, RecordableItem, float]
"""(Host, item, time)."""


def write_recording(path: Path, items: Iterable[TimedItem]) -> Recorder:
    """Write these items to a recording; the closed recorder."""

    async def made() -> Recorder:
        recorder = Recorder(str(path))
        for host, item, time in items:
            recorder.record(host, item, time)
        await recorder.close()
        return recorder

    recorder = asyncio.run(made())
    assert (recorder.trouble, recorder.dropped) == ("", 0)
    return recorder


def host_items(
    name: str, seconds: int, begin: float = 1000.25, step: float = 1.0
) -> list[TimedItem]:
    """The items of a live host with two links, the rate of one of which increases with every
    second."""
    items: list[TimedItem] = [
        (name, SourceState("connecting"), begin),
        (name, SourceState("live"), begin),
        (name, hello(), begin),
        (name, inventory(link(1, "lo"), link(2, "ens192"), time=begin), begin + 0.5),
    ]
    for number in range(seconds):
        time = begin + 0.6 + number * step
        sent = number * (number + 1) // 2 * 125_000
        items.append((name, counters(time, {1: (0, 0), 2: (7 * sent, sent)}), time))
    return items


def read_all(recording: Recording, host: str, since: float | None = None) -> list[RecordedItem]:
    """All items of a host from `since` (default: the begin) to the end of the file."""
    reader = recording.reader(host, recording.begin if since is None else since)
    found = []
    while (one := reader.next()) is not None:
        found.append(one)
    return found


def lines_of(found: Iterable[RecordedItem]) -> list[Line]:
    return [one.item for one in found if isinstance(one.item, Line)]
