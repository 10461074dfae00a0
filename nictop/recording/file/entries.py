"""What was heard of a host ↔ the payloads of its frames.

Reads nothing. A payload is a table of entries (when, what, how long or of which template), then their texts, then the
columns of lines that are told by their template. `EntryWriter` and `EntryReader` each remember the templates of one
host; a key frame empties both. Nothing that a payload declares costs more than it is long, but for the lines it makes
of templates, which are counted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from nictop.recording.file.delta import LONGEST_TEMPLATE, Template, columns, columns_size, rows
from nictop.recording.file.frames import Damaged

Kind = Literal["line", "state", "request", "missing", "host", "counters", "inventory"]
"""line: any line of the probe; counters, inventory: those of them that are told by templates; state: a `SourceState`;
request: what was asked; missing: how many lines could not be written here; host: the name of the host, in key frames.
"""
TOLD = ("counters", "inventory")
MOST_TEMPLATES = 8
"""Of counters, and as many of inventories; the oldest goes."""
MOST_ENTRIES = 10_000
LONGEST_ROW = 64
"""Bytes of an entry in the table."""
MOST_TOLD = 64 * 1024 * 1024
"""Bytes of lines in a frame that are made of templates; a writer starts a new frame long before."""

_LENGTH = struct.Struct("<I")
_LATEST = 1 << 53
"""µs"""


@dataclass(frozen=True)
class RecordEntry:
    """Something that was heard."""

    time: float
    """Seconds, CLOCK_MONOTONIC of the recording machine."""
    kind: Kind
    text: bytes
    """JSON: a line as the probe says it, the fields of a state or a request, a number, a name."""


class _Row(msgspec.Struct, array_like=True):
    """An entry as it stands in the table."""

    after: int
    """µs after the first one of the frame."""
    kind: Kind
    size: int
    """Bytes of its text; for one that is told by a template, the number of that."""
    told: bool = False


_table_encoder = msgspec.json.Encoder()
_table_decoder = msgspec.json.Decoder(list[_Row])


@dataclass
class _Templates:
    """Those of one kind of line, and the rows of numbers that the frame has of each."""

    slots: list[Template] = field(default_factory=list)
    rows: dict[int, list[list[int]]] = field(default_factory=dict)
    newest: int = -1

    def add(self, line: bytes) -> None:
        """Into the next slot, in turn."""
        self.newest = (self.newest + 1) % MOST_TEMPLATES
        template = Template(line)
        if self.newest == len(self.slots):
            self.slots.append(template)
        else:
            self.slots[self.newest] = template

    @property
    def next_is_used(self) -> bool:
        """The slot of the next template has rows in this frame, which would lose their meaning."""
        return bool(self.rows.get((self.newest + 1) % MOST_TEMPLATES))


class EntryWriter:
    """Gathers the entries of one host, and makes payloads of them."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes that were taken since the last payload, before any packing."""
        self.first: float | None = None
        """Time of the first of them; None: there are none."""
        self.newest = 0.0
        """Time of the last of them."""
        self._table: list[_Row] = []
        self._texts: list[bytes] = []
        self._templates = {kind: _Templates() for kind in TOLD}

    def take(self, entry: RecordEntry) -> bool:
        """One more entry; False: the frame has to be ended before it."""
        told = entry.kind in TOLD and len(entry.text) <= LONGEST_TEMPLATE
        if len(self._table) >= MOST_ENTRIES:
            return False
        slot = self._told(entry) if told else None
        if told and slot is None:
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

    def _told(self, entry: RecordEntry) -> int | None:
        """The template that the line follows, which has taken its numbers; None: it follows none. The newest ones come
        first: a host says the same thing again and again."""
        templates = self._templates[entry.kind]
        for slot in sorted(range(len(templates.slots)), key=lambda slot: slot != templates.newest):
            numbers = templates.slots[slot].numbers(entry.text)
            if numbers is not None:
                templates.rows.setdefault(slot, []).append(numbers)
                return slot
        return None

    def payload(self) -> bytes:
        """What was taken since the last one; nothing is left."""
        table = _table_encoder.encode(self._table)
        blocks = [
            columns(templates.slots[slot].last, numbers)
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
    """Takes the payloads of one host apart, in the order they were written since a key frame."""

    def __init__(self) -> None:
        self._templates = {kind: _Templates() for kind in TOLD}

    def entries(self, plain: bytes, first: float, since: float = float("-inf")) -> Iterator[RecordEntry]:
        """The entries of one payload; `first`: the time of its frame. Counters before `since` are passed over, at a
        fraction of the cost. Raises Damaged, then the templates are of no use any more. To be exhausted."""
        table, offset = parse_table(plain)
        texts = []
        for row in table:
            if not row.told:
                texts.append(plain[offset : offset + row.size])
                offset += row.size
                if offset > len(plain):
                    raise Damaged("a text beyond the end")
                if row.kind in TOLD and row.size <= LONGEST_TEMPLATE:
                    self._templates[row.kind].add(texts[-1])
        numbers = self._rows(table, plain, offset)
        yield from self._entries(table, texts, numbers, first, since)

    def _rows(self, table: list[_Row], plain: bytes, offset: int) -> dict[tuple[str, int], Iterator[list[int]]]:
        """The rows of every template that the frame uses."""
        counts: dict[tuple[str, int], int] = {}
        for row in table:
            if row.told:
                counts[row.kind, row.size] = counts.get((row.kind, row.size), 0) + 1
        found = {}
        for kind, slot in sorted(counts, key=lambda key: (TOLD.index(key[0]) if key[0] in TOLD else -1, key[1])):
            template = self._template(kind, slot)
            size = columns_size(len(template.last), counts[kind, slot])
            made = rows(template.last, plain[offset : offset + size], counts[kind, slot])
            offset += size
            template.last = made[-1]
            found[kind, slot] = iter(made)
        if offset != len(plain):
            raise Damaged("bytes that belong to nothing")
        return found

    def _template(self, kind: str, slot: int) -> Template:
        known = self._templates.get(kind)
        if known is None or not 0 <= slot < len(known.slots):
            raise Damaged("a template that nobody wrote")
        return known.slots[slot]

    def _entries(
        self,
        table: list[_Row],
        texts: list[bytes],
        numbers: dict[tuple[str, int], Iterator[list[int]]],
        first: float,
        since: float,
    ) -> Iterator[RecordEntry]:
        made, plain_texts = 0, iter(texts)
        for row in table:
            time = first + row.after / 1e6
            if not row.told:
                text = next(plain_texts)
                if row.kind != "counters" or time >= since:
                    yield RecordEntry(time, row.kind, text)
                continue
            values = next(numbers[row.kind, row.size])
            if row.kind == "counters" and time < since:
                continue
            text = self._templates[row.kind].slots[row.size].line(values)
            made += len(text)
            if made > MOST_TOLD:
                raise Damaged("more lines than any writer writes")
            yield RecordEntry(time, row.kind, text)


def parse_table(plain: bytes) -> tuple[list[_Row], int]:
    """The table of a payload and where its texts begin. Raises Damaged."""
    if len(plain) < _LENGTH.size:
        raise Damaged("no table")
    end = _LENGTH.size + _LENGTH.unpack_from(plain)[0]
    if end > MOST_ENTRIES * LONGEST_ROW:
        raise Damaged("a table longer than any writer writes")
    try:
        table = _table_decoder.decode(plain[_LENGTH.size : end])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(str(error)) from None
    if len(table) > MOST_ENTRIES or any(abs(row.after) > _LATEST or row.size < 0 for row in table):
        raise Damaged("entries that no writer writes")
    return table, end
