"""Lines are restored byte for byte whatever they contain, at a fraction of their size."""

from __future__ import annotations

import json
import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.recording.file.delta import MAX_TEMPLATE_NUMBERS, LineFormat, Template, encode_columns
from nictop.recording.file.entries import (
    MAX_FORMAT_BYTES,
    MAX_TEMPLATES,
    EntryReader,
    EntryWriter,
    Kind,
    RecordEntry,
)
from nictop.recording.file.frames import Damaged

OBJECTS = st.text(alphabet='01459.,:-e "a', max_size=40).map(lambda text: b"{%b}" % text.encode())
TEXTS = (
    st.binary(max_size=200)
    | st.text(alphabet="0123456789.%db-e{}", max_size=80).map(str.encode)
    | OBJECTS
)
NUMBERS = st.integers(0, 2**64) | st.floats(allow_nan=False, allow_infinity=False)


@given(TEXTS)
def test_a_template_with_its_numbers_gives_the_line(line: bytes) -> None:
    template, line_format = Template(line), LineFormat(line)
    assert line_format.line(list(line_format.last)) == line
    assert template.numbers(line) == list(template.last) == list(line_format.last)


@given(TEXTS, TEXTS)
def test_a_matching_line_is_restored_exactly(one: bytes, other: bytes) -> None:
    template = Template(one)
    numbers = template.numbers(other)
    assert numbers is None or LineFormat(one).line(numbers) == other


@given(OBJECTS, st.data())
def test_the_fast_way_to_split_a_line_finds_what_the_pattern_finds(
    one: bytes, data: st.DataObject
) -> None:
    pieces = re.split(rb"([0-9])", one)
    pieces[1::2] = [data.draw(st.sampled_from([digit, b"0", b"71"])) for digit in pieces[1::2]]
    template, other = Template(one), b"".join(pieces)
    assert template.numbers(other) == template._numbers_by_pattern(other)


def test_counters_are_split_the_fast_way() -> None:
    template = Template(b'{"counters":{"time":12.05,"links":{"2":[0,10,-3]}}}')
    assert template._fast_texts is not None
    assert template.numbers(b'{"counters":{"time":3.007,"links":{"4":[7,0,-1]}}}') == [
        *(3, 1007, 4, 7, 0, 1)
    ]


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=12))
def test_changed_numbers_match_the_template(values: list[tuple[float, float, float]]) -> None:
    lines = [
        json.dumps({"time": one, "links": {"2": [two, three]}}).encode()
        for one, two, three in values
    ]
    entries = [RecordEntry(float(number), "counters", line) for number, line in enumerate(lines)]
    assert list(round_trip(entries)) == entries


@pytest.mark.parametrize(
    "fraction", ["0", "5", "05", "000001", "12345678901234567", "123456789012345678901"]
)
def test_zeros_after_the_decimal_point_are_preserved(fraction: str) -> None:
    template = Template(b'{"time":12.345}')
    line = b'{"time":9.%b}' % fraction.encode()
    numbers = template.numbers(line)
    if len(fraction) <= 17:
        assert numbers is not None and LineFormat(b'{"time":12.345}').line(numbers) == line
    else:
        assert numbers is None


@given(st.integers(0, 6).flatmap(lambda width: st.lists(rows_of(width), min_size=1, max_size=8)))
def test_rows_are_restored_from_columns(made: list[list[int]]) -> None:
    line_format = LineFormat(b",".join([b"5"] * len(made[0])))
    columns = encode_columns(list(line_format.last), made)
    assert list(line_format.next_rows(memoryview(columns), len(made))) == made
    assert list(line_format.last) == made[-1]


def rows_of(width: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 10**18 - 1), min_size=width, max_size=width)


@pytest.mark.parametrize("more", [-1, 1])
def test_columns_of_wrong_size_are_damaged(more: int) -> None:
    writer = EntryWriter()
    for number in range(3):
        writer.add(RecordEntry(float(number), "counters", b'{"time":%d}' % number))
    plain = writer.take_payload()
    plain = plain[:more] if more < 0 else plain + bytes(more)
    with pytest.raises(Damaged, match="columns of different size"):
        list(EntryReader().entries(plain, 0.0))


def test_numbers_of_more_than_64_bits_are_damaged() -> None:
    line_format = LineFormat(b'{"time":5}')
    columns = encode_columns([5], [[5 + 2**62]] * 3)
    with pytest.raises(Damaged, match="64 bits"):
        for _ in range(3):
            list(line_format.next_rows(memoryview(columns), 3))


def test_a_line_with_very_many_numbers_is_stored_without_a_template() -> None:
    line = b"[" + b"0," * MAX_TEMPLATE_NUMBERS + b"0]"
    entries = [RecordEntry(float(number), "counters", line) for number in range(3)]
    assert round_trip(entries) == entries
    with pytest.raises(Damaged, match="too many numbers"):
        LineFormat(line)


def test_templates_that_were_not_used_for_long_are_packed_and_read_again() -> None:
    """More of them than fit into the memory of a reader."""
    lines = [b"[" + b"%d," % number * 200_000 + b'"%d"]' % 10**number for number in range(8)]
    writer, reader = EntryWriter(), EntryReader()
    for number in range(24):
        entry = RecordEntry(float(number), "counters", lines[number % 8])
        assert writer.add(entry)
        assert list(reader.entries(writer.take_payload(), float(number))) == [entry]
        assert reader._cache._size <= MAX_FORMAT_BYTES


def round_trip(entries: list[RecordEntry]) -> list[RecordEntry]:
    """Entries after writing and reading them, in as few frames as the writer needs."""
    writer, reader = EntryWriter(), EntryReader()
    found: list[RecordEntry] = []

    def end() -> None:
        first = writer.first
        if first is not None:
            found.extend(reader.entries(writer.take_payload(), first))

    for entry in entries:
        if not writer.add(entry):
            end()
            assert writer.add(entry)
    end()
    return found


KINDS: list[Kind] = ["line", "state", "counters", "inventory", "missing"]


@given(st.lists(st.tuples(st.sampled_from(KINDS), TEXTS), max_size=40))
def test_any_entries_are_restored_in_order(texts: list[tuple[Kind, bytes]]) -> None:
    entries = [RecordEntry(float(number), kind, text) for number, (kind, text) in enumerate(texts)]
    assert round_trip(entries) == entries


def test_more_templates_than_slots_start_new_frames() -> None:
    texts = [b"abcdefghijklmnop"[: 1 + number % (MAX_TEMPLATES + 3)] for number in range(60)]
    entries = [
        RecordEntry(float(n), "counters", b"%b 1 %d" % (text, n))
        for n, text in enumerate(texts * 2)
    ]
    assert round_trip(entries) == entries


def test_skipped_counters_still_update_the_templates() -> None:
    writer, reader = EntryWriter(), EntryReader()
    for number in range(5):
        writer.add(RecordEntry(float(number), "counters", b'{"time":%d}' % (number * 7)))
    writer.add(RecordEntry(5.0, "line", b"x"))
    found = list(reader.entries(writer.take_payload(), 0.0, since=3.0))
    assert [(entry.time, entry.text) for entry in found] == [
        (3.0, b'{"time":21}'),
        (4.0, b'{"time":28}'),
        (5.0, b"x"),
    ]


def test_unchanged_counters_take_almost_no_space() -> None:
    writer = EntryWriter()
    line = json.dumps({"links": {str(n): [10**9 + n] * 25 for n in range(40)}}).encode()
    for number in range(10):
        writer.add(RecordEntry(float(number), "counters", line))
    assert len(zlib.compress(writer.take_payload())) < len(zlib.compress(line)) + 400


@given(st.binary(max_size=300))
def test_any_bytes_give_entries_or_damaged(plain: bytes) -> None:
    try:
        found = list(EntryReader().entries(plain, 0.0))
    except Damaged as error:
        assert str(error)
    else:
        assert all(isinstance(entry, RecordEntry) for entry in found)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_payload_with_a_wrong_byte_gives_entries_or_damaged(place: int, value: int) -> None:
    writer = EntryWriter()
    for number in range(3):
        writer.add(
            RecordEntry(float(number), "counters", b'{"time":%d,"links":{"1":[1.5,2]}}' % number)
        )
    plain = bytearray(writer.take_payload())
    plain[place % len(plain)] = value
    try:
        found = list(EntryReader().entries(bytes(plain), 0.0))
    except Damaged as error:
        assert str(error)
    else:
        assert len(found) <= 3


def test_a_table_above_the_size_limit_is_damaged() -> None:
    table = b"[" + b'[0,"line",0],' * 1_000_000
    with pytest.raises(Damaged, match="table too long"):
        list(EntryReader().entries(len(table).to_bytes(4, "little") + table, 0.0))


def test_the_size_of_generated_lines_is_limited() -> None:
    """A template of a megabyte without numbers, repeated ten thousand times in a few bytes each."""
    text = b"x" * 1_000_000
    rows = b",".join([b'[0,"counters",1000000]', *[b'[0,"counters",0,true]'] * 9_999])
    table = b"[" + rows + b"]"
    reader = EntryReader()
    with pytest.raises(Damaged, match="too many lines"):
        for _ in reader.entries(len(table).to_bytes(4, "little") + table + text, 0.0):
            pass
