"""One host in a recording that is being written: what a key frame has to say of it, and its frames.

Reads nothing. A key frame is all that is known: the host's name, its hello, the newest inventory and what changed
since, the clock, and how the connection is. Whoever begins to read there knows what one who has listened all the time
knows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from nictop.probe.records import Line, Request
from nictop.recording.file.entries import EntryWriter, Kind, RecordEntry
from nictop.recording.file.frames import ITEMS, KEY, pack
from nictop.recording.file.index import LONGEST_ID, LONGEST_NAME, MARKED, Mark
from nictop.wire.source import SourceState

KEY_EVERY = 300.0
"""Seconds: a key frame costs as much as the inventory in it, reading up to it as much as the counters between."""
FRAME_SECONDS = 5.0
"""What a frame spans: as much is lost with a machine that is switched off."""
FRAME_BYTES = 1 << 20
"""Of lines, after which a frame ends sooner."""
MOST_CHANGES = 1000
LONGEST_CHANGE = 4096
"""Link changes since the newest inventory that a key frame tells, and bytes of one: a name has 15 characters."""

_encoder = msgspec.json.Encoder()
_TOLD_AS: dict[str, Kind] = {"counters": "counters", "inventory": "inventory"}


def encoded(item: Line | SourceState | Request) -> tuple[Kind, bytes] | None:
    """What is written of an item; None: nothing (answers to pings are in the clock)."""
    if isinstance(item, Line):
        for name, record in vars(item).items():
            if record is not None and name != "pong":
                return _TOLD_AS.get(name, "line"), _encoder.encode({name: record})
        return None
    if isinstance(item, SourceState):
        return "state", _encoder.encode(item)
    return "request", _encoder.encode({name: value for name, value in vars(item).items() if value is not None})


class HostState:
    """The newest of everything that was heard of a host, as text."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._boot_id: str | None = None
        self._hello: bytes | None = None
        self._inventory: bytes | None = None
        self._changes: dict[int, tuple[float, bytes]] = {}
        self._clock: bytes | None = None
        self._state: bytes | None = None

    def hear(self, item: Line | SourceState | Request, text: bytes) -> None:
        """`text` is what `encoded` made of the item."""
        if isinstance(item, SourceState):
            self._state = text
        elif isinstance(item, Line):
            if item.hello is not None:
                if item.hello.boot_id != self._boot_id:
                    self._inventory, self._clock, self._changes = None, None, {}
                self._boot_id, self._hello = item.hello.boot_id, text
            elif item.inventory is not None:
                self._inventory, taken = text, item.inventory.time
                self._changes = {link: change for link, change in self._changes.items() if change[0] > taken}
            elif item.link_change is not None and len(self._changes) < MOST_CHANGES and len(text) < LONGEST_CHANGE:
                self._changes[item.link_change.ifindex] = (item.link_change.time, text)
            elif item.clock is not None:
                self._clock = text

    def entries(self, time: float) -> list[RecordEntry]:
        """What a key frame says; the hello comes first, as it does from a probe."""
        changes = sorted(self._changes.values())
        said: list[tuple[Kind, bytes | None]] = [
            ("host", self.name.encode()),
            ("line", self._hello),
            ("line", self._inventory),
            *(("line", text) for _, text in changes),
            ("line", self._clock),
            ("state", self._state),
        ]
        return [RecordEntry(time, kind, text) for kind, text in said if text is not None]


@dataclass(frozen=True)
class WritableFrame:
    """One that is ready to be written."""

    kind: int
    host: int
    name: str
    """Of the host."""
    time: float
    span: float
    items: int
    """That are lost when it is; those it says are missing included."""
    marks: tuple[Mark, ...]
    data: bytes


class HostFrames:
    """The frames of one host, in the order they are to be written."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.known = HostState(name.encode(errors="replace")[:LONGEST_NAME].decode(errors="ignore"))
        self.missing = 0
        """Items that were dropped and are not told yet."""
        self._writer = EntryWriter()
        self._items = 0
        """That the next frame has."""
        self._sequence = 0
        self._next_key: float | None = None
        """Time from which on a key frame is due; None: at once."""
        self._marks: list[Mark] = []

    @property
    def since(self) -> float | None:
        """Time of the oldest item that is in no frame yet."""
        return self._writer.first

    def take(self, item: Line | SourceState | Request, kind: Kind, text: bytes, time: float) -> list[WritableFrame]:
        """One more item; the frames that have to be written now."""
        key_due = self._next_key is None or time >= self._next_key
        made = self.end() if key_due or self._is_due(time) else []
        if key_due:
            made.append(self._key(time))
        if self.missing:
            self._writer.take(RecordEntry(time, "missing", str(self.missing).encode()))
            self._items, self.missing = self._items + self.missing, 0
        entry = RecordEntry(time, kind, text)
        if not self._writer.take(entry):
            made += self.end()
            self._writer.take(entry)
        self._items += 1
        self.known.hear(item, text)
        traffic = item.traffic if isinstance(item, Line) else None
        if traffic is not None and traffic.kind in MARKED:
            self._marks.append(Mark(time, self.known.name, traffic.id[:LONGEST_ID], traffic.kind))
        return made

    def _is_due(self, time: float) -> bool:
        first = self._writer.first
        if first is None:
            return False
        return not 0 <= time - first < FRAME_SECONDS or self._writer.size >= FRAME_BYTES

    def end(self) -> list[WritableFrame]:
        """The frame of what was taken; none when nothing was."""
        first = self._writer.first
        if first is None:
            return []
        span, items, self._items = self._writer.newest - first, self._items, 0
        return [self._frame(ITEMS, self._writer.payload(), first, span, items)]

    def begin_anew(self) -> int:
        """What follows is to be read without anything before it; the number of items that are given up."""
        lost, self._items = self._items, 0
        self._writer, self._next_key, self._marks = EntryWriter(), None, []
        return lost

    def _key(self, time: float) -> WritableFrame:
        """Everything is known from here on. Only between frames."""
        self._next_key = time + KEY_EVERY
        writer = EntryWriter()
        for entry in self.known.entries(time):
            writer.take(entry)
        self._writer = EntryWriter()
        return self._frame(KEY, writer.payload(), time, 0.0, 0)

    def _frame(self, kind: int, plain: bytes, time: float, span: float, items: int) -> WritableFrame:
        self._sequence += 1
        marks, self._marks = (self._marks, []) if kind == ITEMS else ([], self._marks)
        span = math.ceil(span * 1e3 + 1e-3) / 1e3  # as the header tells it, and never before the last item
        data = pack(kind, plain, host=self.number, sequence=self._sequence, time=time, span=span, marks=len(marks))
        return WritableFrame(kind, self.number, self.known.name, time, span, items, tuple(marks), data)
