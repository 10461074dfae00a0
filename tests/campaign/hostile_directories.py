"""Malicious directories of segments (`nictop record --keep`): many, of other starts of the machine,
in no order, with other files between them.

`write(kind, path)` makes one of the `KINDS`; each segment alone is as those of
`hostile_recordings`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from nictop.recording.keep import segment_name
from tests.campaign import hostile_host, hostile_recordings
from tests.campaign.hostile_recordings import BEGIN, File, line_of, payload

Kind = Callable[[Path], None]
KINDS: dict[str, Kind] = {}
"""Name → what is in the directory."""
SEGMENTS = 500
"""More than are read."""


def kind(function: Kind) -> Kind:
    KINDS[function.__name__.replace("_", "-")] = function
    return function


def names() -> Iterator[str]:
    """Of segments, in their order."""
    for number in range(10**6):
        yield segment_name(
            f"2026{1 + number // 8640 % 9:02}01T{number % 240000:06}Z", number % 9999
        )


def header(*, boot: str = "b", monotonic: float = BEGIN) -> bytes:
    fields = {"nictop": "1", "protocol": 1, "monotonic": monotonic, "wall": 1.7e9, "boot_id": boot}
    return json.dumps(fields).encode()


def segment(path: Path, *, boot: str = "b", monotonic: float = BEGIN, host: str = "a") -> None:
    """A good one, of a few readings."""
    file = File(path, header(boot=boot, monotonic=monotonic))
    file.key(name=host, time=monotonic)
    for number in range(3):
        text = line_of(hostile_host.counters(number))
        file.items(payload([("counters", text)]), time=monotonic + number)
    file.end(hosts={"1": host}, begin=monotonic, end=monotonic + 3)
    file.close()


@kind
def many_segments(path: Path) -> None:
    for number, name in zip(range(SEGMENTS), names(), strict=False):
        segment(path / name, monotonic=BEGIN + 3 * number)


@kind
def a_start_in_each_segment(path: Path) -> None:
    for number, name in zip(range(SEGMENTS), names(), strict=False):
        segment(path / name, boot=f"boot {number}")


@kind
def other_hosts_in_each_segment(path: Path) -> None:
    for number, name in zip(range(SEGMENTS), names(), strict=False):
        file = File(path / name, header(monotonic=BEGIN + number))
        hosts = {which: f"h{number}-{which}" for which in range(1, 40)}
        for which, host in hosts.items():
            file.key(number=which, name=host, time=BEGIN + number)
        file.end(hosts={str(which): host for which, host in hosts.items()})
        file.close()


@kind
def segments_of_one_time(path: Path) -> None:
    for number, name in zip(range(SEGMENTS), names(), strict=False):
        segment(path / name, monotonic=BEGIN + (number * 7919) % 13)


@kind
def clocks_that_go_back(path: Path) -> None:
    for number, name in zip(range(SEGMENTS), names(), strict=False):
        segment(path / name, monotonic=1e9 - 1e6 * number)


@kind
def headers_only(path: Path) -> None:
    for number, name in zip(range(SEGMENTS), names(), strict=False):
        File(path / name, header(monotonic=BEGIN + number)).close()


@kind
def many_names(path: Path) -> None:
    """Empty files, of which each could be a segment."""
    for _, name in zip(range(100 * SEGMENTS), names(), strict=False):
        os.close(os.open(path / name, os.O_CREAT | os.O_WRONLY))


@kind
def no_files(path: Path) -> None:
    for number, name in zip(range(SEGMENTS), names(), strict=False):
        if number % 3 == 0:
            os.mkfifo(path / name)
        elif number % 3 == 1:
            (path / name).symlink_to("/dev/zero")
        else:
            (path / name).mkdir()


@kind
def holes(path: Path) -> None:
    """Without an index: each is searched for frames."""
    for number, name in zip(range(40), names(), strict=False):
        segment(path / name, monotonic=BEGIN + number)
        os.truncate(path / name, 1 << 40)


@kind
def one_hostile_recording_often(path: Path) -> None:
    found = names()
    for _ in range(SEGMENTS // 8):
        hostile_recordings.write("many-templates", path / next(found))


@kind
def each_hostile_recording(path: Path) -> None:
    found = names()
    for which in QUICK_RECORDINGS:
        hostile_recordings.write(which, path / next(found))


QUICK_RECORDINGS = (
    *("smallest-objects", "names-in-the-index", "keys-that-lie", "an-end-without-end"),
    *("long-marks-in-the-index", "many-runs", "many-templates", "deep-nesting", "holes"),
)
"""Kinds that are written at once."""


def write(name: str, path: Path) -> None:
    path.mkdir()
    KINDS[name](path)
