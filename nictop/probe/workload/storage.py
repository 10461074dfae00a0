"""What block devices and NFS servers do while a command runs: requests, bytes, and how long a
request takes.

Reads /proc/diskstats (Documentation/admin-guide/iostats.rst: requests completed, sectors of 512
bytes, milliseconds of all requests together, for reads and for writes) of whole devices, those of
/sys/block, and /proc/self/mountstats (net/sunrpc/stats.c: operations, transmissions, timeouts,
bytes sent and received, milliseconds queued, until the reply, and in all) for READ and WRITE of
each server. Other processes of the host are in these counts too.
"""

from __future__ import annotations

import os

from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import StorageActivity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEVICES = 16
"""Of a report, those with most bytes first."""
MAX_LISTED = 2048
"""Devices and servers that are read."""
MAX_READ_BYTES = 4 * 1024 * 1024
SECTOR_BYTES = 512
MIN_REQUESTS = 1


@dataclass(frozen=True)
class StorageCounts:
    """Of one device or server, since it is there."""

    reads: int = 0
    read_bytes: int = 0
    read_ms: int = 0
    writes: int = 0
    written_bytes: int = 0
    write_ms: int = 0
    busy_ms: int | None = None
    """With a request in flight; None: not counted (NFS)."""


class WorkloadStorage:
    """Between the begin and the end of a command."""

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        self._proc, self._sys = proc, sys
        self._first = self._last = {}  # type: dict[tuple[str, str], StorageCounts]
        self._last_time = self._first_time = 0.0
        self._slowest = {}  # type: dict[tuple[str, str], tuple[float | None, float | None]]

    def begin(self, now: float) -> None:
        self._first = self._last = self._read()
        self._first_time = self._last_time = now

    def interval(self, now: float) -> list[StorageActivity]:
        """Of the time since the last one."""
        counts, seconds = self._read(), now - self._last_time
        found = activities(self._last, counts, seconds)
        for activity in found:
            key = (activity.kind, activity.name)
            read, write = self._slowest.get(key, (None, None))
            self._slowest[key] = (
                longer(read, mean(activity.read_seconds, activity.reads)),
                longer(write, mean(activity.write_seconds, activity.writes)),
            )
        self._last, self._last_time = counts, now
        return found[:MAX_DEVICES]

    def total(self, now: float) -> list[StorageActivity]:
        """Of the whole time, with the slowest interval of each."""
        self.interval(now)
        found = []
        for activity in activities(self._first, self._last, now - self._first_time)[:MAX_DEVICES]:
            read, write = self._slowest.get((activity.kind, activity.name), (None, None))
            found.append(replace(activity, slowest_read=read, slowest_write=write))
        return found

    def _read(self) -> dict[tuple[str, str], StorageCounts]:
        found = {}  # type: dict[tuple[str, str], StorageCounts]
        devices = parse_diskstats(read_bounded(f"{self._proc}/diskstats"))
        whole = block_devices(self._sys)
        for name, counts in devices:
            if name in whole and len(found) < MAX_LISTED:
                found["block", name] = counts
        for server, counts in parse_mountstats(read_bounded(f"{self._proc}/self/mountstats")):
            if ("nfs", server) in found or len(found) < MAX_LISTED:
                found["nfs", server] = plus(found.get(("nfs", server)), counts)
        return found


def activities(
    before: dict[tuple[str, str], StorageCounts],
    after: dict[tuple[str, str], StorageCounts],
    seconds: float,
) -> list[StorageActivity]:
    """Those with requests, most bytes first: a disk that a log is written to has more requests than
    one read in large blocks. A counter that fell was reset: it says nothing."""
    found = []
    for (kind, name), new in after.items():
        old = before.get((kind, name), StorageCounts())
        reads, writes = new.reads - old.reads, new.writes - old.writes
        if reads < 0 or writes < 0 or reads + writes < MIN_REQUESTS:
            continue
        busy = None
        if new.busy_ms is not None and old.busy_ms is not None and seconds > 0:
            busy = min(1.0, max(0, new.busy_ms - old.busy_ms) / 1000 / seconds)
        found.append(
            StorageActivity(
                name=name,
                kind="nfs" if kind == "nfs" else "block",
                seconds=seconds,
                reads=reads,
                writes=writes,
                read_bytes=max(0, new.read_bytes - old.read_bytes),
                written_bytes=max(0, new.written_bytes - old.written_bytes),
                read_seconds=max(0, new.read_ms - old.read_ms) / 1000,
                write_seconds=max(0, new.write_ms - old.write_ms) / 1000,
                busy=busy,
            )
        )
    found.sort(
        key=lambda activity: (-(activity.read_bytes + activity.written_bytes), activity.name)
    )
    return found


def parse_diskstats(text: str) -> Iterator[tuple[str, StorageCounts]]:
    """Lines that are too short or have no numbers are skipped."""
    for line in text.splitlines():
        words = line.split()
        numbers = [int(word) for word in words[3:14] if is_number(word)]
        if len(numbers) < 11:
            continue
        reads, _, read_sectors, read_ms, writes, _, written_sectors, write_ms = numbers[:8]
        yield (
            words[2],
            StorageCounts(
                reads,
                read_sectors * SECTOR_BYTES,
                read_ms,
                writes,
                written_sectors * SECTOR_BYTES,
                write_ms,
                numbers[9],
            ),
        )


def parse_mountstats(text: str) -> Iterator[tuple[str, StorageCounts]]:
    """The server of each NFS mount, and its READ and WRITE: bytes are those of the replies and of
    the requests, with headers."""
    server = ""
    read = (0, 0, 0)
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["device"]:
            is_nfs = "fstype" in words and words[words.index("fstype") :][1:2] in (
                ["nfs"],
                ["nfs4"],
            )
            server = words[1].rpartition(":/")[0] if is_nfs and len(words) > 1 else ""
        elif server and words[:1] == ["READ:"]:
            read = operation(words, 4)
        elif server and words[:1] == ["WRITE:"]:
            write = operation(words, 3)
            yield server, StorageCounts(*read, *write)
            read = (0, 0, 0)


def operation(words: list[str], size: int) -> tuple[int, int, int]:
    """(operations, bytes, milliseconds until the reply); `size`: number of the counter of bytes."""
    numbers = [int(word) for word in words[1:] if is_number(word)]
    if len(numbers) < 8:
        return 0, 0, 0
    return numbers[0], numbers[size], numbers[6]


def is_number(word: str) -> bool:
    return word.isdigit() and len(word) <= 19


def plus(one: StorageCounts | None, other: StorageCounts) -> StorageCounts:
    if one is None:
        return other
    return StorageCounts(
        one.reads + other.reads,
        one.read_bytes + other.read_bytes,
        one.read_ms + other.read_ms,
        one.writes + other.writes,
        one.written_bytes + other.written_bytes,
        one.write_ms + other.write_ms,
    )


def mean(seconds: float, count: int) -> float | None:
    return seconds / count if count else None


def longer(one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return max(known) if known else None


def block_devices(sys: str) -> set[str]:
    """Whole devices: their partitions count the same requests. Empty: not readable."""
    try:
        return set(os.listdir(f"{sys}/block")[:MAX_LISTED])
    except OSError:
        return set()


def read_bounded(path: str) -> str:
    """Of its begin; "": not readable."""
    try:
        with open(path, "rb") as file:
            return file.read(MAX_READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
