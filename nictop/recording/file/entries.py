"""Items of one host ↔ the payloads of its frames.

Reads nothing. A payload is a table of entries (time, kind, length or template), then their texts,
then the columns of the lines that are stored by a template. `EntryWriter` and `EntryReader` each
store the templates of one host; a key frame clears both. Decoding a payload costs no more than its
length, except for the lines generated from templates, whose size is limited. What is read is made
one line at a time: a payload of a few bytes may hold thousands.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from nictop.probe.light_dataclasses import dataclass, field
from nictop.recording.file.delta import (
    MAX_TEMPLATE_BYTES,
    LineFormat,
    Template,
    encode_columns,
    encoded_columns_size,
)
from nictop.recording.file.frames import Damaged

Kind = Literal["line", "state", "request", "missing", "host", "counters", "inventory"]
"""line: any line of the probe; counters, inventory: lines of these kinds, which templates can
store; state: a `SourceState`; request: a request to the probe; missing: how many lines could not be
written here; host: the name of the host, in key frames."""
TEMPLATED = ("counters", "inventory")
MAX_TEMPLATES = 8
"""Templates of counters, and as many of inventories; the oldest is replaced."""
MAX_FRAME_ENTRIES = 10_000
MAX_ROW_BYTES = 64
"""Bytes of an entry in the table."""
MAX_TEMPLATED_BYTES = 16 * 1024 * 1024
"""Bytes of the lines in a frame that are generated from templates, and of their numbers; a writer
starts a new frame after a megabyte of lines."""
MAX_FORMAT_BYTES = 12 * 1024 * 1024
"""Bytes of unpacked templates."""
_PACKING_LEVEL = 1

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
        """The slot of the next template has rows in this frame, so that it cannot be replaced
        yet."""
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
        """The slot of the template that matches the line; its numbers are added to that. None: no
        template matches. The newest template is tried first, because most lines repeat the previous
        one."""
        templates = self._templates[entry.kind]
        for slot in sorted(range(len(templates.slots)), key=lambda slot: slot != templates.newest):
            template = templates.slots[slot]
            numbers = template.numbers(entry.text)
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
                templates.slots[slot].last = array("q", numbers[-1])
            templates.rows.clear()
        plain = b"".join([_LENGTH.pack(len(table)), table, *self._texts, *blocks])
        self._table, self._texts, self.size, self.first = [], [], 0, None
        return plain


class _StoredTemplate:
    """A template of a reader between two frames: packed, as most are never used again."""

    def __init__(self, line: bytes) -> None:
        self._line = zlib.compress(line, _PACKING_LEVEL)
        self._last: bytes | None = None
        """The numbers of the newest line; None: those in the line."""

    def unpacked(self) -> LineFormat:
        """Raises Damaged."""
        found = LineFormat(zlib.decompress(self._line))
        if self._last is not None:
            found.last = array("q", zlib.decompress(self._last))
        return found

    def pack(self, found: LineFormat) -> None:
        """Remember the newest numbers."""
        self._last = zlib.compress(found.last.tobytes(), _PACKING_LEVEL)


class FormatCache:
    """The templates that were used last, unpacked: `MAX_FORMAT_BYTES` of all hosts of a recording
    together."""

    def __init__(self) -> None:
        self._formats: OrderedDict[_StoredTemplate, LineFormat] = OrderedDict()
        self._size = 0

    def take(self, template: _StoredTemplate) -> LineFormat:
        """Raises Damaged."""
        found = self._formats.pop(template, None)
        if found is None:
            return template.unpacked()
        self._size -= found.size
        return found

    def put(self, template: _StoredTemplate, found: LineFormat) -> None:
        """Keep it until others are used; what is not kept is packed."""
        self._formats[template] = found
        self._size += found.size
        while self._size > MAX_FORMAT_BYTES:
            oldest, unused = self._formats.popitem(last=False)
            self._size -= unused.size
            oldest.pack(unused)


class _ReadTemplates:
    """The slots of one kind of line, as `_Templates` fills them."""

    def __init__(self) -> None:
        self.slots: list[_StoredTemplate] = []
        self._newest = -1

    def add(self, lines: Sequence[bytes | memoryview]) -> None:
        """Put templates of these lines into the next slots, one after the other. Of many only the
        last are left."""
        first = max(0, len(lines) - MAX_TEMPLATES)
        for number, line in enumerate(lines):
            self._newest = (self._newest + 1) % MAX_TEMPLATES
            if number < first and self._newest < len(self.slots):
                continue  # another one follows in the same slot
            template = _StoredTemplate(bytes(line))
            if self._newest == len(self.slots):
                self.slots.append(template)
            else:
                self.slots[self._newest] = template


class EntryReader:
    """Decodes the payloads of one host, in the order they were written since a key frame. `cache`:
    that of all hosts of the recording."""

    def __init__(self, cache: FormatCache | None = None) -> None:
        self._cache = FormatCache() if cache is None else cache
        self._templates = {kind: _ReadTemplates() for kind in TEMPLATED}

    def entries(
        self, plain: bytes, first: float, since: float = float("-inf")
    ) -> Iterator[RecordEntry]:
        """The entries of one payload; `first`: the time of its frame. Counters before `since` are
        skipped, at a fraction of the cost. Raises Damaged; after that the templates are unusable.
        The iterator has to be exhausted."""
        table, offset = parse_table(plain)
        lines: dict[str, list[memoryview]] = {kind: [] for kind in TEMPLATED}
        whole, text_offset = memoryview(plain), offset
        for row in table:
            if not row.is_templated:
                text = whole[offset : offset + row.size]
                offset += row.size
                if offset > len(plain):
                    raise Damaged("text beyond the end")
                if row.kind in TEMPLATED and row.size <= MAX_TEMPLATE_BYTES:
                    lines[row.kind].append(text)
        for kind, found in lines.items():
            self._templates[kind].add(found)
        used = self._used_templates(table, whole[offset:])
        yield from self._entries(table, whole[text_offset:], used, first, since)
        for one in used.values():
            self._cache.put(one.template, one.line_format)

    def _used_templates(
        self, table: list[_Row], columns: memoryview
    ) -> dict[tuple[str, int], _UsedTemplate]:
        """(kind, slot) → what the rows of this frame are made from."""
        counts: dict[tuple[str, int], int] = {}
        for row in table:
            if row.is_templated:
                counts[row.kind, row.size] = counts.get((row.kind, row.size), 0) + 1
        found = {}
        generated, offset = 0, 0
        for kind, slot in sorted(counts, key=_column_order):
            template, count = self._template(kind, slot), counts[kind, slot]
            line_format = self._cache.take(template)
            generated += line_format.size * count
            if generated > MAX_TEMPLATED_BYTES:
                raise Damaged("too many lines")
            end = offset + encoded_columns_size(len(line_format.last), count)
            rows = line_format.next_rows(columns[offset:end], count)
            found[kind, slot], offset = _UsedTemplate(template, line_format, rows), end
        if offset != len(columns):
            raise Damaged("columns of different size")
        return found

    def _template(self, kind: str, slot: int) -> _StoredTemplate:
        templates = self._templates.get(kind)
        if templates is None or not 0 <= slot < len(templates.slots):
            raise Damaged("undefined template")
        return templates.slots[slot]

    def _entries(
        self,
        table: list[_Row],
        texts: memoryview,
        used: dict[tuple[str, int], _UsedTemplate],
        first: float,
        since: float,
    ) -> Iterator[RecordEntry]:
        end = 0
        for row in table:
            time = first + row.after / 1e6
            is_skipped = row.kind == "counters" and time < since
            if row.is_templated:
                one = used[row.kind, row.size]
                numbers = next(one.rows)
                if not is_skipped:
                    yield RecordEntry(time, row.kind, one.line_format.line(numbers))
                continue
            begin, end = end, end + row.size
            if not is_skipped:
                yield RecordEntry(time, row.kind, bytes(texts[begin:end]))


@dataclass(frozen=True)
class _UsedTemplate:
    """A template in one frame."""

    template: _StoredTemplate
    line_format: LineFormat
    rows: Iterator[list[int]]
    """The numbers of its lines in this frame."""


def _column_order(key: tuple[str, int]) -> tuple[int, int]:
    kind, slot = key
    return (TEMPLATED.index(kind) if kind in TEMPLATED else -1), slot


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
    if len(table) > MAX_FRAME_ENTRIES or any(
        abs(row.after) > _MAX_OFFSET_US or row.size < 0 for row in table
    ):
        raise Damaged("invalid entries")
    return table, end
