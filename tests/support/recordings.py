"""Recordings for tests: made by a real recorder, and everything that is in one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from nictop.probe.records import Line, Request
from nictop.recording.reader import RecordedItem, Recording
from nictop.recording.writer import Recorder
from nictop.wire.source import SourceState
from tests.support.lines import counters, hello, inventory, link

Item = Line | SourceState | Request
Told = tuple[str, Item, float]
"""Host, what is heard of it, when."""


def record(path: Path, told: Iterable[Told]) -> Recorder:
    """A closed recording of all this."""

    async def made() -> Recorder:
        recorder = Recorder(str(path))
        for host, item, time in told:
            recorder.hear(host, item, time)
        await recorder.close()
        return recorder

    recorder = asyncio.run(made())
    assert (recorder.trouble, recorder.dropped) == ("", 0)
    return recorder


def a_host(name: str, seconds: int, begin: float = 1000.25, step: float = 1.0) -> list[Told]:
    """A live host with two links, one of which carries more with every second."""
    told: list[Told] = [
        (name, SourceState("connecting"), begin),
        (name, SourceState("live"), begin),
        (name, hello(), begin),
        (name, inventory(link(1, "lo"), link(2, "ens192"), time=begin), begin + 0.5),
    ]
    for number in range(seconds):
        time = begin + 0.6 + number * step
        sent = number * (number + 1) // 2 * 125_000
        told.append((name, counters(time, {1: (0, 0), 2: (7 * sent, sent)}), time))
    return told


def everything(recording: Recording, host: str, since: float | None = None) -> list[RecordedItem]:
    """What a reader says of a host, to the end of the file."""
    reader = recording.reader(host, recording.begin if since is None else since)
    heard = []
    while (one := reader.next()) is not None:
        heard.append(one)
    return heard


def lines(heard: Iterable[RecordedItem]) -> list[Line]:
    return [one.item for one in heard if isinstance(one.item, Line)]
