"""The whole of /proc/interrupts: every line, by CPU id of the header, and the same as a new reader
after changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.counters.on_demand.interrupt_table import (
    FIRST_TABLE_BYTES,
    InterruptTable,
    parse_line,
)
from nictop.probe.kernel.cpu_columns import parse_cpu_header
from tests.conftest import DATA

if TYPE_CHECKING:
    from nictop.probe.counters.on_demand.interrupt_table import InterruptLine

GUEST = (DATA / "proc/interrupts").read_bytes()


class Table:
    """A directory with the file `interrupts`, and a reader of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.reader = InterruptTable(str(root))

    def read(self, text: bytes) -> tuple[InterruptLine, ...]:
        (self.root / "interrupts").write_bytes(text)
        return self.reader.read()

    def read_by_new_reader(self) -> tuple[InterruptLine, ...]:
        reader = InterruptTable(str(self.root))
        try:
            return reader.read()
        finally:
            reader.close()


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    made = Table(tmp_path)
    yield made
    made.reader.close()


def by_label(lines: tuple[InterruptLine, ...]) -> dict[str, InterruptLine]:
    return {line["label"]: line for line in lines}


def test_a_captured_guest(table: Table) -> None:
    lines = table.read(GUEST)
    assert len(lines) == GUEST.count(b"\n") - 1
    found = by_label(lines)
    assert found["41"] == {
        "label": "41",
        "description": "PCI-MSIX-0000:02:00.0 1-edge ens224-TxRx-0",
        "counts": {0: 232, 2: 40384},
    }
    assert found["24"]["description"] == "PCI-MSIX-0000:00:02.0 0-edge PCIe PME, aerdrv, pciehp"
    assert found["LOC"] == {
        "label": "LOC",
        "description": "Local timer interrupts",
        "counts": {0: 30575, 1: 26680, 2: 34391, 3: 36666},
    }
    assert (found["ERR"]["description"], found["ERR"]["counts"]) == ("", {})
    assert [line["label"] for line in lines][-3:] == ["PIN", "NPI", "PIW"]


def test_a_line_with_a_single_sum() -> None:
    assert parse_line(b"ERR:          7", (0, 1))[0]["counts"] == {-1: 7}
    assert parse_line(b"Err:          7", (0,))[0]["counts"] == {-1: 7}
    assert parse_line(b"NMI:          7", (5,))[0]["counts"] == {5: 7}
    fiq = parse_line(b"FIQ:              usb_fiq", (0, 1))[0]
    assert (fiq["description"], fiq["counts"]) == ("usb_fiq", {})


def test_columns_are_the_cpus_of_the_header(table: Table) -> None:
    """CPU 1 is offline and ids are sparse: the second column is of CPU 2."""
    lines = table.read(
        b"           CPU0       CPU2       CPU9       \n 24:  1  2  3  chip 1-edge eth0\n"
    )
    assert lines == (
        {"label": "24", "description": "chip 1-edge eth0", "counts": {0: 1, 2: 2, 9: 3}},
    )


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"CPU0 CPU0\n", b"CPU0 cpu1\n", b"CPU\n", b"CPU-1\n", b"0 1\n"]
)
def test_invalid_headers(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_cpu_header(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"24",
        b": 1 2",
        b" 24:",
        b" 24: 1",
        b" 24: x 1",
        b" 24: 1 PCI-MSI",
        b"NMI: 1 Non-maskable",
        b"24: -1 2",
        b"24: 1_0 2 y",
    ],
)
def test_garbled_lines_raise_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_line(text, (0, 1))


@pytest.mark.parametrize("cut", [1, 2, 12, 500, 4000])
def test_a_truncated_file_raises_value_error(table: Table, cut: int) -> None:
    with pytest.raises(ValueError):
        table.read(GUEST[:-cut] if GUEST[-cut - 1] != 10 else GUEST[: -cut - 1])
    assert len(table.read(GUEST)) > 50


@given(st.binary(max_size=80))
def test_any_line_is_parsed_or_raises_value_error(text: bytes) -> None:
    try:
        line, cpus, first, last = parse_line(text, (0, 2, 9))
    except ValueError:
        return
    assert set(line["counts"]) <= set(cpus) <= {0, 2, 9, -1}
    assert 0 < first <= last <= len(text) or line["counts"] == {}
    assert "\n" not in line["description"]


def interrupts_file(rows: list[list[int]], cpus: range, names: list[str]) -> bytes:
    """In the format of the kernel: each count is eleven characters wide."""
    head = " " * 11 + "".join(f"CPU{cpu:<8}" for cpu in cpus) + "\n"
    lines = (
        f"{24 + index:>3}:"
        + "".join(f" {number:>10}" for number in row)
        + f"  chip  {index}-edge      {name}\n"
        for index, (row, name) in enumerate(zip(rows, names, strict=True))
    )
    return (head + "".join(lines)).encode()


NUMBER = st.one_of(st.just(0), st.integers(0, 120), st.integers(0, 2**32 - 1))


@given(
    st.integers(1, 6),
    st.lists(st.lists(NUMBER, min_size=12, max_size=12), min_size=1, max_size=5),
    st.data(),
)
def test_a_second_pass_equals_that_of_a_new_reader(
    tmp_path_factory: pytest.TempPathFactory, width: int, rows: list[list[int]], data: st.DataObject
) -> None:
    """Counts with more digits or resets, removed lines and CPUs, names that change in place."""
    table = Table(tmp_path_factory.mktemp("proc"))
    before = [row[:width] for row in rows]
    names = ["eth0-rx-0"] * len(rows)
    cpus = range(width)
    first = table.read(interrupts_file(before, cpus, names))
    copy = [dict(line, counts=dict(line["counts"])) for line in first]
    change = data.draw(st.sampled_from(["counts", "line removed", "cpu removed", "name", "cpu id"]))
    after = [row[12 - width :] for row in rows]
    if change == "line removed":
        after, names = after[1:] or after, names[1:] or names
    elif change == "cpu removed" and width > 1:
        after, cpus = [row[1:] for row in after], range(1, width)
    elif change == "name":
        names = ["eth0-tx-0", *names[1:]]
    elif change == "cpu id":
        cpus = range(1, width + 1)
    found = table.read(interrupts_file(after, cpus, names))
    assert found == table.read_by_new_reader()
    assert [line["counts"] for line in found] == [
        {cpu: number for cpu, number in zip(cpus, row, strict=True) if number} for row in after
    ]
    assert list(first) == copy  # earlier results are not modified
    table.reader.close()


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), NUMBER), min_size=3, max_size=12))
def test_repeated_updates_of_one_column(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, int]]
) -> None:
    """One number at a time, on the same CPU or another: the remembered column never gives a wrong
    count."""
    table = Table(tmp_path_factory.mktemp("proc"))
    rows = [[0] * 4, [7] * 4]
    for line, cpu, number in steps:
        rows[line][cpu] = number
        found = table.read(interrupts_file(rows, range(4), ["eth0-rx-0", "eth0-rx-1"]))
        assert [line["counts"] for line in found] == [
            {c: n for c, n in enumerate(row) if n} for row in rows
        ]
    table.reader.close()


@given(st.integers(0, 400), st.binary(min_size=1, max_size=8))
def test_any_bytes_in_a_known_file_are_parsed_as_by_a_new_reader(
    tmp_path_factory: pytest.TempPathFactory, start: int, garbage: bytes
) -> None:
    table = Table(tmp_path_factory.mktemp("proc"))
    text = interrupts_file([[1, 20, 300], [4000, 0, 0], [0, 0, 0]], range(3), ["a", "b-1", "c d"])
    table.read(text)
    changed = text[:start] + garbage + text[start + len(garbage) :]
    try:
        found: object = table.read(changed)
    except ValueError:
        found = None
    try:
        assert found == table.read_by_new_reader()
    except ValueError:
        assert found is None
    table.reader.close()


def test_read_some(table: Table) -> None:
    (table.root / "interrupts").write_bytes(GUEST)
    assert {
        number: line["counts"] for number, line in table.reader.read_some([57, 999, 44]).items()
    } == {
        57: {3: 12},
        44: {0: 71, 1: 16, 2: 26, 3: 381},
    }
    (table.root / "interrupts").write_bytes(
        GUEST.replace(b" 381 ", b" 400 ").replace(b"30575", b"30576")
    )
    assert table.reader.read_some([44])[44]["counts"] == {0: 71, 1: 16, 2: 26, 3: 400}
    assert by_label(table.reader.read())["LOC"]["counts"][0] == 30576


def test_a_file_larger_than_the_buffer(table: Table) -> None:
    text = interrupts_file([[10**9 + line] * 64 for line in range(200)], range(64), ["x"] * 200)
    assert len(text) > 3 * FIRST_TABLE_BYTES
    lines = table.read(text)
    assert len(lines) == 200 and lines[199]["counts"][63] == 10**9 + 199
    assert table.read(text.replace(b"1000000199", b"1000000200"))[199]["counts"][63] == 10**9 + 200


def test_close_frees_the_buffer(table: Table) -> None:
    before = set(os.listdir("/proc/self/fd"))
    table.read(interrupts_file([[1] * 64] * 200, range(64), ["x"] * 200))
    table.reader.close()
    assert set(os.listdir("/proc/self/fd")) == before
    assert len(table.reader._buffer) == FIRST_TABLE_BYTES and table.reader._rows == []


def test_this_machine() -> None:
    """Each count lies between two other readings of the file."""

    def split_lines() -> list[list[str]]:
        return [line.split() for line in Path("/proc/interrupts").read_text().splitlines()]

    reader = InterruptTable()
    try:
        for _ in range(2):
            before, lines, after = split_lines(), reader.read(), split_lines()
            cpus = [int(word[3:]) for word in before[0]]
            assert len(lines) == len(before) - 1
            for old, line, new in zip(before[1:], lines, after[1:], strict=True):
                assert old[0] == f"{line['label']}:"
                if -1 not in line["counts"] and len(old) > len(cpus):
                    for column, cpu in enumerate(cpus, 1):
                        assert int(old[column]) <= line["counts"].get(cpu, 0) <= int(new[column])
                    assert line["description"].split() == old[len(cpus) + 1 :]
    finally:
        reader.close()
