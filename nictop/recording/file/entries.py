"""Items of one host ↔ the payloads of its frames.

Reads nothing. A payload is a table of entries (time, kind, length or template), then their texts, then the columns of
the lines that are stored by a template. `EntryWriter` and `EntryReader` each store the templates of one host; a key
frame clears both. Decoding a payload costs no more than its length, except for the lines generated from templates,
whose size is limited.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from nictop.recording.file.delta import MAX_TEMPLATE_BYTES, Template, decode_rows, encode_columns, encoded_columns_size
from nictop.recording.file.frames import Damaged

Kind = Literal["line", "state", "request", "missing", "host", "counters", "inventory"]
"""line: any line of the probe; counters, inventory: lines of these kinds, which templates can store; state: a
`SourceState`; request: a request to the probe; missing: how many lines could not be written here; host: the name of the
host, in key frames."""
TEMPLATED = ("counters", "inventory")
MAX_TEMPLATES = 8
"""Templates of counters, and as many of inventories; the oldest is replaced."""
MAX_FRAME_ENTRIES = 10_000
MAX_ROW_BYTES = 64
"""Bytes of an entry in the table."""
MAX_TEMPLATED_BYTES = 64 * 1024 * 1024
"""Bytes of the lines in a frame that are generated from templates; a writer starts a new frame long before."""

_LENGTH = struct.Struct("<I")
_MAX_OFFSET_US = 1 << 53
"""Microseconds."""


@dataclass(frozen=True)
class RecordEntry:
    """One item of a host in encoded form."""

    time: float
    """Seconds, CLOCK_MONOTONIC of the recording machine."""
    kind: Kind
    text: bytes
    """JSON: a line as the probe sent it, the fields of a state or a request, a number, a name."""


class _Row(msgspec.Struct, array_like=True):
    """An entry in the table of a payload."""

    after: int
    """Microseconds since the first entry of the frame."""
    kind: Kind
    size: int
    """Bytes of its text; for an entry stored by a template, the number of the template."""
    is_templated: bool = False


_table_encoder = msgspec.json.Encoder()
_table_decoder = msgspec.json.Decoder(list[_Row])


@dataclass
class _Templates:
    """Templates of one kind of line, and the rows of numbers of each in the current frame."""

    slots: list[Template] = field(default_factory=list)
    rows: dict[int, list[list[int]]] = field(default_factory=dict)
    newest: int = -1

    def add(self, line: bytes) -> None:
        """Put a template of `line` into the next slot; the slots are reused in turn."""
        self.newest = (self.newest + 1) % MAX_TEMPLATES
        template = Template(line)
        if self.newest == len(self.slots):
            self.slots.append(template)
        else:
            self.slots[self.newest] = template

    @property
    def next_is_used(self) -> bool:
        """The slot of the next template has rows in this frame, so that it cannot be replaced yet."""
        return bool(self.rows.get((self.newest + 1) % MAX_TEMPLATES))


class EntryWriter:
    """Collects the entries of one host and encodes them as payloads."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes added since the last payload, before any packing."""
        self.first: float | None = None
        """Time of the first entry since then; None: there is none."""
        self.newest = 0.0
        """Time of the last entry."""
        self._table: list[_Row] = []
        self._texts: list[bytes] = []
        self._templates = {kind: _Templates() for kind in TEMPLATED}

    def add(self, entry: RecordEntry) -> bool:
        """Add one entry; False: the frame has to be ended before it."""
        is_templated = entry.kind in TEMPLATED and len(entry.text) <= MAX_TEMPLATE_BYTES
        if len(self._table) >= MAX_FRAME_ENTRIES:
            return False
        slot = self._template_slot(entry) if is_templated else None
        if is_templated and slot is None:
            templates = self._templates[entry.kind]
            if templates.next_is_used:
                return False
            templates.add(entry.text)
        if self.first is None:
            self.first = entry.time
        self.newest = max(self.newest, entry.time) if self._table else entry.time
        after = round((entry.time - self.first) * 1e6)
        self.size += len(entry.text)
        if slot is not None:
            self._table.append(_Row(after, entry.kind, slot, True))
        else:
            self._table.append(_Row(after, entry.kind, len(entry.text)))
            self._texts.append(entry.text)
        return True

    def _template_slot(self, entry: RecordEntry) -> int | None:
        """The slot of the template that matches the line; its numbers are added to that. None: no template matches. The
        newest template is tried first, because most lines repeat the previous one."""
        templates = self._templates[entry.kind]
        for slot in sorted(range(len(templates.slots)), key=lambda slot: slot != templates.newest):
            numbers = templates.slots[slot].numbers(entry.text)
            if numbers is not None:
                templates.rows.setdefault(slot, []).append(numbers)
                return slot
        return None

    def take_payload(self) -> bytes:
        """The payload of the entries since the last call; clears them."""
        table = _table_encoder.encode(self._table)
        blocks = [
            encode_columns(templates.slots[slot].last, numbers)
            for templates in self._templates.values()
            for slot, numbers in sorted(templates.rows.items())
        ]
        for templates in self._templates.values():
            for slot, numbers in templates.rows.items():
                templates.slots[slot].last = numbers[-1]
            templates.rows.clear()
        plain = b"".join([_LENGTH.pack(len(table)), table, *self._texts, *blocks])
        self._table, self._texts, self.size, self.first = [], [], 0, None
        return plain


class EntryReader:
    """Decodes the payloads of one host, in the order they were written since a key frame."""

    def __init__(self) -> None:
        self._templates = {kind: _Templates() for kind in TEMPLATED}

    def entries(self, plain: bytes, first: float, since: float = float("-inf")) -> Iterator[RecordEntry]:
        """The entries of one payload; `first`: the time of its frame. Counters before `since` are skipped, at a
        fraction of the cost. Raises Damaged; after that the templates are unusable. The iterator has to be
        exhausted."""
        table, offset = parse_table(plain)
        texts = []
        for row in table:
            if not row.is_templated:
                texts.append(plain[offset : offset + row.size])
                offset += row.size
                if offset > len(plain):
                    raise Damaged("text beyond the end")
                if row.kind in TEMPLATED and row.size <= MAX_TEMPLATE_BYTES:
                    self._templates[row.kind].add(texts[-1])
        numbers = self._rows(table, plain, offset)
        yield from self._entries(table, texts, numbers, first, since)

    def _rows(self, table: list[_Row], plain: bytes, offset: int) -> dict[tuple[str, int], Iterator[list[int]]]:
        """(kind, slot) → the rows of this template in the frame."""
        counts: dict[tuple[str, int], int] = {}
        for row in table:
            if row.is_templated:
                counts[row.kind, row.size] = counts.get((row.kind, row.size), 0) + 1
        found = {}
        for kind, slot in sorted(
            counts, key=lambda key: (TEMPLATED.index(key[0]) if key[0] in TEMPLATED else -1, key[1])
        ):
            template = self._template(kind, slot)
            size = encoded_columns_size(len(template.last), counts[kind, slot])
            decoded = decode_rows(template.last, plain[offset : offset + size], counts[kind, slot])
            offset += size
            template.last = decoded[-1]
            found[kind, slot] = iter(decoded)
        if offset != len(plain):
            raise Damaged("unexpected bytes")
        return found

    def _template(self, kind: str, slot: int) -> Template:
        templates = self._templates.get(kind)
        if templates is None or not 0 <= slot < len(templates.slots):
            raise Damaged("undefined template")
        return templates.slots[slot]

    def _entries(
        self,
        table: list[_Row],
        texts: list[bytes],
        numbers: dict[tuple[str, int], Iterator[list[int]]],
        first: float,
        since: float,
    ) -> Iterator[RecordEntry]:
        templated_bytes, plain_texts = 0, iter(texts)
        for row in table:
            time = first + row.after / 1e6
            if not row.is_templated:
                text = next(plain_texts)
                if row.kind != "counters" or time >= since:
                    yield RecordEntry(time, row.kind, text)
                continue
            values = next(numbers[row.kind, row.size])
            if row.kind == "counters" and time < since:
                continue
            text = self._templates[row.kind].slots[row.size].line(values)
            templated_bytes += len(text)
            if templated_bytes > MAX_TEMPLATED_BYTES:
                raise Damaged("too many lines")
            yield RecordEntry(time, row.kind, text)


def parse_table(plain: bytes) -> tuple[list[_Row], int]:
    """The table of a payload, and the offset of its texts. Raises Damaged."""
    if len(plain) < _LENGTH.size:
        raise Damaged("table missing")
    end = _LENGTH.size + _LENGTH.unpack_from(plain)[0]
    if end > MAX_FRAME_ENTRIES * MAX_ROW_BYTES:
        raise Damaged("table too long")
    try:
        table = _table_decoder.decode(plain[_LENGTH.size : end])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(str(error)) from None
    if len(table) > MAX_FRAME_ENTRIES or any(abs(row.after) > _MAX_OFFSET_US or row.size < 0 for row in table):
        raise Damaged("invalid entries")
    return table, end
