"""One host in a recording that is being written: its key frames and its other frames.

Reads nothing. A key frame contains the complete known state: the host's name, its hello, the newest
inventory and the changes since, the clock, and the state of the connection. A reader that
begins there has the same state as one that read everything before.
"""

from __future__ import annotations

import math

import msgspec

from nictop.model.snapshot import CHANGING, has_functions_only, later_event
from nictop.probe.light_dataclasses import dataclass, field_mapping
from nictop.probe.records import Line, Outdated, Request
from nictop.recording.file.entries import EntryWriter, Kind, RecordEntry
from nictop.recording.file.frames import ITEMS_FRAME, KEY_FRAME, pack_frame
from nictop.recording.file.index import MAX_HOST_NAME_BYTES, Mark, line_mark, note_mark
from nictop.recording.file.run_note import RunNote, encode_run_note
from nictop.wire.source import SourceState

KEY_FRAME_SECONDS = 300.0
"""Seconds between two key frames: a key frame costs as much as the inventory in it; seeking costs
as much as the counters between two key frames."""
MAX_FRAME_SECONDS = 5.0
"""Longest time span of a frame: this much is lost when the machine is switched off."""
FULL_FRAME_BYTES = 1 << 20
"""Bytes of lines after which a frame ends earlier."""
MAX_CHANGES = 1000
MAX_CHANGE_BYTES = 4096
"""Bytes of one link change, and the number of them since the newest inventory, that a key frame
contains. A link name has 15 characters."""

_encoder = msgspec.json.Encoder()
_TEMPLATED_KIND: dict[str, Kind] = {"counters": "counters", "inventory": "inventory"}
RecordableItem = Line | SourceState | Request | RunNote
"""Of a host: what it sent, the state of its connection, what was requested of it, and notes about
its tests."""


def encode_item(item: RecordableItem) -> tuple[Kind, bytes] | None:
    """(kind, JSON) of an item; None: it is not stored (answers to pings are part of the clock)."""
    if isinstance(item, Line):
        for name, record in field_mapping(item).items():
            if record is not None and name != "pong":
                return _TEMPLATED_KIND.get(name, "line"), _encoder.encode({name: record})
        return None
    if isinstance(item, SourceState):
        return "state", _encoder.encode(item)
    if isinstance(item, RunNote):
        return "request", encode_run_note(item)
    return "request", _encoder.encode(
        {name: value for name, value in field_mapping(item).items() if value is not None}
    )


class HostState:
    """The newest state of a host, as encoded texts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._boot_id: str | None = None
        self._hello: bytes | None = None
        self._inventory: bytes | None = None
        self._changes: dict[int, tuple[float, bytes]] = {}
        self._events: dict[bool, Outdated] = {}
        """Whether it is of a link → the newest event since the inventory, or change by nictop."""
        self._trouble: bytes | None = None
        """The newest trouble of the probe since then."""
        self._clock: bytes | None = None
        self._state: bytes | None = None

    def update(self, item: RecordableItem, text: bytes) -> None:
        """Update the state; `text` is the item as `encode_item` returned it."""
        if isinstance(item, SourceState):
            self._state = text
        elif isinstance(item, Line):
            self._update_from_line(item, text)

    def _update_from_line(self, line: Line, text: bytes) -> None:
        if line.hello is not None:
            self._begin_boot(line.hello.boot_id)
            self._hello = text
        elif line.inventory is not None:
            if has_functions_only(line.inventory):  # the complete one follows
                return
            self._inventory = text
            self._forget_before(line.inventory.time)
        elif line.link_change is not None:
            if len(self._changes) < MAX_CHANGES and len(text) < MAX_CHANGE_BYTES:
                self._changes[line.link_change.ifindex] = (line.link_change.time, text)
        elif line.outdated is not None:
            self._note_event(line.outdated)
        elif line.change is not None and line.change.kind in CHANGING:
            self._note_event(Outdated(line.change.time, "nictop"))
        elif line.trouble is not None and len(text) < MAX_CHANGE_BYTES:
            self._trouble = text
        elif line.clock is not None:
            self._clock = text

    def _begin_boot(self, boot_id: str) -> None:
        """After another boot nothing of before is known."""
        if boot_id != self._boot_id:
            self._inventory, self._clock, self._changes = None, None, {}
            self._events, self._trouble = {}, None
        self._boot_id = boot_id

    def _forget_before(self, taken: float) -> None:
        """What an inventory that was begun at `taken` contains."""
        self._changes = {
            link: change for link, change in self._changes.items() if change[0] > taken
        }
        self._events = {kind: event for kind, event in self._events.items() if event.time > taken}
        self._trouble = None

    def _note_event(self, event: Outdated) -> None:
        is_of_link = event.source == "link"
        self._events[is_of_link] = later_event(self._events.get(is_of_link), event)

    def entries(self, time: float) -> list[RecordEntry]:
        """The entries of a key frame; the hello comes first, as in the output of a probe."""
        changes = sorted(self._changes.values())
        events = [_encoder.encode({"outdated": event}) for event in self._events.values()]
        entries_by_kind: list[tuple[Kind, bytes | None]] = [
            ("host", self.name.encode()),
            ("line", self._hello),
            ("line", self._inventory),
            *(("line", text) for _, text in changes),
            *(("line", text) for text in events),
            ("line", self._trouble),
            ("line", self._clock),
            ("state", self._state),
        ]
        return [RecordEntry(time, kind, text) for kind, text in entries_by_kind if text is not None]


@dataclass(frozen=True)
class WritableFrame:
    """A frame that is ready to be written."""

    kind: int
    host: int
    name: str
    """Name of the host."""
    time: float
    span: float
    items: int
    """Number of items that are lost if the frame cannot be written, including those it reports as
    missing."""
    marks: tuple[Mark, ...]
    data: bytes


class HostFrames:
    """Creates the frames of one host, in the order they are to be written."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.state = HostState(
            name.encode(errors="replace")[:MAX_HOST_NAME_BYTES].decode(errors="ignore")
        )
        self.unreported = 0
        """Number of dropped items that are not yet reported in the file."""
        self._writer = EntryWriter()
        self._items = 0
        """Number of items in the next frame."""
        self._sequence = 0
        self._next_key: float | None = None
        """Time at which the next key frame is due; None: at once."""
        self._newest: float | None = None
        """Time of the newest item."""
        self._marks: list[Mark] = []

    @property
    def pending_since(self) -> float | None:
        """Time of the oldest item that is not in a frame yet."""
        return self._writer.first

    def add(
        self, item: RecordableItem, kind: Kind, text: bytes, time: float
    ) -> list[WritableFrame]:
        """Add one item; returns the frames that have to be written now."""
        key_due = self._next_key is None or time >= self._next_key
        frames = []
        if key_due or self._is_due(time):
            frames = self.end_frame()
        if key_due:
            frames.append(self._key_frame(time))
        if self.unreported:
            self._writer.add(RecordEntry(time, "missing", str(self.unreported).encode()))
            self._items, self.unreported = self._items + self.unreported, 0
        entry = RecordEntry(time, kind, text)
        if not self._writer.add(entry):
            frames += self.end_frame()
            self._writer.add(entry)
        self._items += 1
        self._newest = time
        self.state.update(item, text)
        mark = _mark(item, time, self.state.name)
        if mark is not None:
            self._marks.append(mark)
        return frames

    def _is_due(self, time: float) -> bool:
        first = self._writer.first
        if first is None:
            return False
        return not 0 <= time - first < MAX_FRAME_SECONDS or self._writer.size >= FULL_FRAME_BYTES

    def end_frame(self) -> list[WritableFrame]:
        """The frame of the collected items; an empty list when there are none."""
        first = self._writer.first
        if first is None:
            return []
        span, items, self._items = self._writer.newest - first, self._items, 0
        return [self._frame(ITEMS_FRAME, self._writer.take_payload(), first, span, items)]

    def restart(self) -> int:
        """Begin again with a key frame, after a frame was lost; returns the number of discarded
        items."""
        discarded, self._items = self._items, 0
        self._writer, self._next_key, self._marks = EntryWriter(), None, []
        return discarded

    def begin_file(self) -> list[WritableFrame]:
        """The first frame of this host in another file, after `end_frame`; the state in it is that
        of the last item."""
        if self._newest is None:
            return []
        self.restart()
        return [self._key_frame(self._newest)]

    def _key_frame(self, time: float) -> WritableFrame:
        """A key frame; to be called between two frames."""
        self._next_key = time + KEY_FRAME_SECONDS
        writer = EntryWriter()
        for entry in self.state.entries(time):
            writer.add(entry)
        self._writer = EntryWriter()
        return self._frame(KEY_FRAME, writer.take_payload(), time, 0.0, 0)

    def _frame(
        self, kind: int, plain: bytes, time: float, span: float, items: int
    ) -> WritableFrame:
        self._sequence += 1
        marks: list[Mark] = []
        if kind == ITEMS_FRAME:
            marks, self._marks = self._marks, []
        span = math.ceil(span * 1e3 + 1e-3) / 1e3  # rounded up, so that it includes the last item
        data = pack_frame(
            kind,
            plain,
            host=self.number,
            sequence=self._sequence,
            time=time,
            span=span,
            marks=len(marks),
        )
        return WritableFrame(
            kind, self.number, self.state.name, time, span, items, tuple(marks), data
        )


def _mark(item: RecordableItem, time: float, host: str) -> Mark | None:
    """The mark for an item; None: it is not marked."""
    if isinstance(item, RunNote):
        return note_mark(item, time, host)
    if isinstance(item, Line):
        return line_mark(item, time, host)
    return None
