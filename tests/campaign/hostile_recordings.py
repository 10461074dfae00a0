"""Malicious recordings: each is a small file that unpacks to much, claims what is not so, or is
endless.

`write(kind, path)` writes one of the `KINDS`. Frames are made here and not by the recorder, which
has limits itself.
"""

from __future__ import annotations

import itertools
import json
import lzma
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from nictop.recording.file import frames
from nictop.recording.file.frames import HEADER_FRAME, INDEX_FRAME, ITEMS_FRAME, KEY_FRAME
from tests.campaign import hostile_host as host

Kind = Callable[["File"], None]
KINDS: dict[str, Kind] = {}
"""Name → what is in the file."""
Row = tuple[int, str, int, bool]
"""Microseconds after the begin of the frame, kind, size or template, whether it is of a
template."""
MIB = 1 << 20
BEGIN = 1000.0
YEAR_SECONDS = 365.0 * 86400


def kind(function: Kind) -> Kind:
    KINDS[function.__name__.replace("_", "-")] = function
    return function


class File:
    """A recording that is being made."""

    def __init__(self, path: Path, header: bytes = b"") -> None:
        self._file = path.open("wb")
        self._file.write(frames.RECORDING_PREFIX)
        self._sequences: dict[int, int] = {}
        self._packed: dict[bytes, bytes] = {}
        self.keys: list[list[float]] = []
        fields = {"nictop": "1", "protocol": 1, "monotonic": BEGIN, "wall": 1.7e9, "boot_id": "b"}
        self.frame(HEADER_FRAME, header or json.dumps(fields).encode(), number=0)

    @property
    def offset(self) -> int:
        return self._file.tell()

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def frame(
        self,
        which: int,
        plain: bytes,
        *,
        number: int = 1,
        time: float = BEGIN,
        span: int = 0,
        marks: bool = False,
    ) -> None:
        """Add a frame. `span`: milliseconds."""
        payload = self._packed.get(plain) or packed(plain)
        self._packed = {plain: payload}  # the next one is often the same
        self._sequences[number] = self._sequences.get(number, -1) + 1
        if which == KEY_FRAME:
            self.keys.append([number, time, self.offset])
        fields = struct.pack(
            "<4sBBHIdIIII", frames.SYNC_MARKER, which, frames.LZMA | 0x10 * marks, number & 0xFFFF,
            self._sequences[number], time, span, len(payload), len(plain), zlib.crc32(payload),
        )  # fmt: skip
        self.write(fields + struct.pack("<I", zlib.crc32(fields)) + payload)

    def key(
        self,
        texts: Sequence[tuple[str, bytes]] = (),
        *,
        number: int = 1,
        name: str = "a",
        time: float = BEGIN,
    ) -> None:
        """A key frame with a name, and with a hello and an inventory if there are no other
        texts."""
        found = [
            ("host", name.encode()),
            *(texts or (("line", host.hello()), ("line", host.inventory()))),
        ]
        self.frame(KEY_FRAME, payload(found), number=number, time=time)

    def items(self, plain: bytes, **more: Any) -> None:
        self.frame(ITEMS_FRAME, plain, **more)

    def end(self, **index: Any) -> None:
        """Close the file, with an index of what is in it unless `index` claims something else."""
        fields: dict[str, Any] = {
            "hosts": {"1": "a"},
            "keys": self.keys,
            "marks": [],
            "begin": BEGIN,
            "end": BEGIN + 60,
        }
        self.end_with(json.dumps({**fields, **index}, separators=(",", ":")).encode())

    def end_with(self, index: bytes) -> None:
        offset = self.offset
        self.frame(INDEX_FRAME, index, number=0)
        self.write(frames.encode_trailer(offset))

    def close(self) -> None:
        self._file.close()

    def grow(self, size: int) -> None:
        """Zeros at the end, without room on the disk."""
        self._file.flush()
        os.truncate(self._file.fileno(), self.offset + size)


def packed(plain: bytes) -> bytes:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 1 << 20}]
    return lzma.compress(plain, format=lzma.FORMAT_RAW, filters=filters)


def table_of(rows: Iterable[Row]) -> bytes:
    table = json.dumps([list(row) for row in rows], separators=(",", ":")).encode()
    return struct.pack("<I", len(table)) + table


def payload(
    texts: Iterable[tuple[str, bytes]],
    templated: Iterable[Row] = (),
    columns: bytes = b"",
    step: int = 0,
) -> bytes:
    """A payload with these texts (kind, text), one every `step` microseconds, and rows of templates
    with their columns."""
    known = list(texts)
    rows: list[Row] = [
        (number * step, which, len(text), False) for number, (which, text) in enumerate(known)
    ]
    return table_of([*rows, *templated]) + b"".join(text for _, text in known) + columns


def line_of(text: bytes) -> bytes:
    """A line without its line feed, as in a file."""
    return text.rstrip(b"\n")


def same_rows(
    which: str, count: int, numbers: int, step: int, slot: int = 0
) -> tuple[list[Row], bytes]:
    """`count` rows of a template with `numbers` numbers, each of which has grown by 1."""
    rows: list[Row] = [(1 + number * step, which, slot, True) for number in range(count)]
    return rows, b"\x01" * (count * numbers) + bytes(7 * count * numbers)


def numbers_in(text: bytes) -> int:
    from nictop.recording.file.delta import Template

    return len(Template(text).last)


def templated(
    file: File,
    text: bytes,
    *,
    which: str = "counters",
    frames_: int = 13,
    count: int = 9990,
    step: int = 500,
) -> None:
    """Frames with many rows of one template each, which compress to nothing."""
    file.key()
    for number in range(frames_):
        rows, columns = same_rows(which, count, numbers_in(text), step)
        plain = (
            payload([(which, text)], rows, columns) if number == 0 else payload([], rows, columns)
        )
        file.items(plain, time=BEGIN + 5 * number, span=5000)
    file.end(end=BEGIN + 5 * frames_)


def json_line(record: str, **fields: Any) -> bytes:
    return line_of(host.line(record, **fields))


def many(text: tuple[str, bytes], count: int = 9000) -> bytes:
    return payload(itertools.repeat(text, count), step=400)


def repeated(file: File, text: tuple[str, bytes], *, count: int = 9000, frames_: int = 13) -> None:
    """Frames full of one text."""
    file.key()
    plain = many(text, count)
    for number in range(frames_):
        file.items(plain, time=BEGIN + 5 * number, span=5000)
    file.end(end=BEGIN + 5 * frames_)


# ----------------------------------------------------------------------------- what unpacks to much


@kind
def rows_of_counters(file: File) -> None:
    templated(file, line_of(host.counters(7)))


@kind
def columns_of_zeros(file: File) -> None:
    text = json_line("counters", time=1.5, links={str(link): [0] * 25 for link in range(1000)})
    templated(file, text, count=230, step=20_000, frames_=20)


@kind
def one_wide_row(file: File) -> None:
    templated(
        file,
        b'{"counters":{"time":1.5,"later":[' + b"0," * 999_000 + b"0]}}",
        count=5,
        step=1_000_000,
    )


@kind
def many_templates(file: File) -> None:
    file.key()
    for which, number in itertools.product(("counters", "inventory"), range(8)):
        text = b'{"%s":{"time":1.5,"later%s":[%s0]}}' % (
            which.encode(),
            b"x" * (number + 1),
            b"0," * 999_000,
        )
        file.items(payload([(which, text)]), time=BEGIN + number, span=10)
    file.end()


@kind
def a_frame_of_spaces(file: File) -> None:
    file.key()
    for number in range(13):
        file.items(payload([("line", b" " * (47 * MIB))]), time=BEGIN + number)
    file.end()


@kind
def a_table_of_spaces(file: File) -> None:
    file.key()
    table = b"[" + b" " * (40 * MIB) + b"]"
    for number in range(13):
        file.items(struct.pack("<I", len(table)) + table, time=BEGIN + number, marks=True)


@kind
def many_entries(file: File) -> None:
    repeated(file, ("host", b""), count=9999, frames_=400)


@kind
def inventory_in_each_line(file: File) -> None:
    text = line_of(host.inventory(map(host.link, range(1, 30)))).replace(b'"wall"', b'"later"')
    templated(file, text, which="inventory", count=2000, step=2000)


@kind
def large_inventories(file: File) -> None:
    queues = [{"direction": "rx", "number": number, "rps_cpus": "f"} for number in range(1000)]
    text = line_of(host.inventory([host.link(number, queues=queues) for number in range(2, 60)]))
    repeated(file, ("line", text), count=6, frames_=40)


@kind
def inventories_of_links(file: File) -> None:
    text = line_of(
        host.inventory(host.link(number, kind="vlan", lower=2) for number in range(1, 2049))
    )
    repeated(file, ("line", text), count=12, frames_=40)


@kind
def smallest_objects(file: File) -> None:
    text = line_of(host.inventory([host.link(2, napis=[{"id": 1}] * 60_000)]))
    repeated(file, ("line", text), count=12, frames_=40)


@kind
def counters_near_the_limit(file: File) -> None:
    def text(number: int) -> bytes:
        return line_of(host.counters(number, cpus={str(cpu): [number] * 10 for cpu in range(8192)}))

    file.key()
    for number in range(60):
        file.items(
            payload(
                [("counters", text(2 * number)), ("counters", text(2 * number + 1))], step=500_000
            ),
            time=BEGIN + number,
        )
    file.end()


@kind
def counters_of_all_links(file: File) -> None:
    links = {str(link): [5] * 25 for link in range(1, 2049)}
    templated(file, json_line("counters", time=1.5, links=links), count=90, step=50_000, frames_=12)


# -------------------------------------------------------------------------- hosts, marks, the index


@kind
def many_hosts(file: File) -> None:
    for number in range(1, 20_000):
        file.key([("line", line_of(host.hello()))], number=number, name=f"h{number}")


@kind
def hosts_in_the_index(file: File) -> None:
    file.key()
    file.end(hosts={str(number): f"h{number}" for number in range(400_000)})


@kind
def names_in_the_index(file: File) -> None:
    file.key()
    file.end(hosts={str(number): "\x1b[2J" * 10_000 for number in range(1, 190)})


@kind
def keys_in_the_index(file: File) -> None:
    file.key()
    file.end(keys=[[1, 0.5, 1]] * 900_000)


@kind
def keys_that_lie(file: File) -> None:
    file.key()
    plain = many(("counters", line_of(host.counters(1))), 100)
    for number in range(200):
        file.items(plain, time=BEGIN + number)
    file.end(keys=[[1, BEGIN + number % 97, number * 13 % file.offset] for number in range(5000)])


@kind
def times_that_lie(file: File) -> None:
    repeated(file, ("counters", line_of(host.counters(1))), count=3000)
    file.end(begin=-9e11, end=9e11)


@kind
def an_end_without_end(file: File) -> None:
    repeated(file, ("counters", line_of(host.counters(1))), count=3000)
    file.end(begin=-1e308, end=1e308)


@kind
def marks_in_the_index(file: File) -> None:
    file.key()
    marks = [[BEGIN + number / 1000, "a", f"r{number}-c", "started"] for number in range(20_000)]
    file.end(marks=marks)


@kind
def long_marks_in_the_index(file: File) -> None:
    file.key()
    file.end(marks=[[BEGIN, "a" * 3 * MIB, "-r-b" * MIB + "-c", "started"]])


@kind
def marks_in_all_frames(file: File) -> None:
    file.key()
    for number in range(30):
        file.items(payload([("line", b" " * (40 * MIB))]), time=BEGIN + number, marks=True)


@kind
def many_runs(file: File) -> None:
    file.key()
    text = b'{"run_note":{"run":"r%d","kind":"plan","text":"%s"}}'
    for frame in range(10):
        notes = [("request", text % (2000 * frame + number, b"x" * 300)) for number in range(2000)]
        file.items(payload(notes, step=1000), time=BEGIN + 5 * frame, span=5000, marks=True)


@kind
def runs_with_floods(file: File) -> None:
    """Runs without an end, between whose marks there are many readings and lines of a generator."""
    file.key()
    started = json_line("traffic", time=1.0, id="run-c", kind="started", pid=1)
    output = json_line(
        "traffic", time=1.0, id="run-c", kind="output", text="x" * 300, stream="stdout"
    )
    request = json.dumps(
        {
            "traffic": {
                "id": "run-c",
                "action": "start",
                "role": "client",
                "generator": "iperf3",
                "arguments": ["-t", "9"] * 50,
            }
        }
    ).encode()
    plain = payload(
        [
            *[("line", started)] * 300,
            *[("line", output)] * 5000,
            *[("request", request)] * 2000,
            *[("counters", line_of(host.counters(3)))] * 2000,
        ],
        step=500,
    )
    for number in range(60):
        file.items(plain, time=BEGIN + 5 * number, span=5000, marks=True)


# -------------------------------------------------------------------------------------------- times


@kind
def readings_of_one_time(file: File) -> None:
    templated(file, line_of(host.counters(7)), step=0)


@kind
def jumps_of_years(file: File) -> None:
    file.key()
    for number in range(400):
        time = BEGIN + (YEAR_SECONDS * number if number % 2 else -YEAR_SECONDS * number)
        rows: list[Row] = [(one * 10**13 * (-1) ** one, "counters", 0, True) for one in range(800)]
        text = line_of(host.counters(7))
        size = numbers_in(text) * len(rows)
        known = [("counters", text)] if number == 0 else []
        file.items(
            payload(known, rows, b"\x01" * size + bytes(7 * size)), time=time, span=4_000_000_000
        )


@kind
def spans_of_weeks(file: File) -> None:
    file.key()
    text = line_of(host.counters(7))
    rows, columns = same_rows("counters", 9990, numbers_in(text), 1)
    for number in range(30):
        file.items(
            payload([("counters", text)] * (number == 0), rows, columns),
            time=BEGIN,
            span=4_000_000_000,
        )


@kind
def a_clock_that_lies(file: File) -> None:
    repeated(
        file, ("line", json_line("clock", offset=1e300, uncertainty=-1e300)), count=3000, frames_=5
    )


# -------------------------------------------------------------------------------- texts and numbers


@kind
def deep_nesting(file: File) -> None:
    deep = b"[" * 3 * MIB + b"]" * 3 * MIB
    file.key()
    for which in ("line", "state", "request", "missing", "counters", "inventory"):
        file.items(payload([(which, deep), (which, b'{"x":' * MIB)]), time=BEGIN + 1)
    file.items(struct.pack("<I", len(deep)) + deep, time=BEGIN + 2)
    file.end_with(b'{"hosts":' + deep)


@kind
def digits(file: File) -> None:
    nines = b"9" * 4_000_000
    file.key()
    texts = [
        ("missing", nines),
        ("line", b'{"counters":{"time":' + nines + b"}}"),
        ("state", b'{"state":"lost","retry_in":' + nines + b"}"),
    ]
    texts += [
        ("counters", b'{"counters":{"time":1.5,"links":{"' + nines + b'":[1]}}}'),
        ("missing", b"1_" * MIB),
    ]
    texts += [("request", b'{"interval":' + nines + b"}"), ("missing", b"9" * 4000)]
    for number in range(20):
        file.items(payload(texts, step=1000), time=BEGIN + number)
    file.end(hosts={"9" * 100_000: "a"})


def counters_with_other_names(number: int) -> bytes:
    own = str(number)
    fields = {
        "links": {own: [number] * 25},
        "driver": {own: [1] * 400},
        "interrupts": {own: {"1": 2}},
    }
    return json_line("counters", time=float(number), **fields)


@kind
def other_names_in_each_line(file: File) -> None:
    file.key()
    for frame in range(13):
        texts = [
            ("line", counters_with_other_names(number))
            for number in range(frame * 700, frame * 700 + 700)
        ]
        texts += [
            ("line", line_of(host.link_change(frame * 1000 + number, number)))
            for number in range(1000)
        ]
        file.items(payload(texts, step=500), time=BEGIN + 5 * frame, span=5000)
    file.end()


@kind
def states(file: File) -> None:
    text = json.dumps({"state": "lost", "message": "\x1b[2J" * 500, "retry_in": 1e300}).encode()
    repeated(file, ("state", text))


@kind
def troubles(file: File) -> None:
    repeated(file, ("line", json_line("trouble", time=1.0, message="x" * 4000)))


@kind
def connections(file: File) -> None:
    rows = [host.connection(number) for number in range(130)]
    repeated(
        file,
        ("line", json_line("connections", time=1, links=[2], connections=rows, seconds=1e-9)),
        count=1000,
    )


@kind
def hellos(file: File) -> None:
    """Each is of another boot, so that all is read anew."""
    file.key()
    for frame in range(13):
        texts = []
        for number in range(1500):
            texts += [
                ("line", line_of(host.hello(str(number)))),
                ("line", line_of(host.inventory())),
            ]
        file.items(payload(texts, step=500), time=BEGIN + 5 * frame, span=5000)
    file.end()


@kind
def hosts_with_large_inventories(file: File) -> None:
    text = line_of(
        host.inventory(host.link(number, kind="vlan", lower=2) for number in range(1, 2049))
    )
    for number in range(1, 33):
        file.key(
            [("line", line_of(host.hello())), ("line", text)], number=number, name=f"h{number}"
        )
        file.items(
            payload([("counters", line_of(host.counters(one))) for one in range(9)], step=900_000),
            number=number,
            span=9000,
        )
    file.end(hosts={str(number): f"h{number}" for number in range(1, 33)}, end=BEGIN + 10)


@kind
def hosts_with_large_counters(file: File) -> None:
    for number in range(1, 33):
        file.key(number=number, name=f"h{number}")
        text = json_line("counters", time=1.5, cpus={str(cpu): [7] * 10 for cpu in range(4000)})
        rows, columns = same_rows("counters", 20, numbers_in(text), 500_000)
        file.items(payload([("counters", text)], rows, columns), number=number, span=10_000)
    file.end(hosts={str(number): f"h{number}" for number in range(1, 33)}, end=BEGIN + 10)


# ------------------------------------------------------------------------------------------- damage


@kind
def frames_that_are_missing(file: File) -> None:
    file.key()
    for number in range(20_000):
        file._sequences[1] += number % 3
        file.key(time=BEGIN + number / 400) if number % 5 == 0 else file.items(
            many(("state", b'{"state":"live"}'), 3), time=BEGIN + number / 400
        )


@kind
def frames_of_nobody(file: File) -> None:
    file.key()
    plain = payload([])
    for number in range(400_000):
        file.items(plain, number=2, time=BEGIN + number / 8000)
    file.items(many(("counters", line_of(host.counters(1))), 9), time=BEGIN + 50, span=100)


@kind
def markers_without_frames(file: File) -> None:
    file.key()
    file.write(frames.SYNC_MARKER * (16 * MIB))
    file.key(time=BEGIN + 9)


@kind
def holes(file: File) -> None:
    """Unclosed, so that it seems to be still written."""
    file.key()
    file.items(many(("counters", line_of(host.counters(1))), 9), time=BEGIN + 1, span=100)
    file.grow(1 << 40)


@kind
def damaged_frames(file: File) -> None:
    plain = many(("state", b'{"state":"live"}'), 3)
    for number in range(20_000):
        file.key(time=BEGIN + number / 400) if number % 20 == 0 else file.items(
            plain, time=BEGIN + number / 400
        )
        file.write(b"\xa6nT\xf5 damage")


def write(name: str, path: Path) -> None:
    file = File(path)
    try:
        KINDS[name](file)
    finally:
        file.close()
