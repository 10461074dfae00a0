"""The whole of /proc/interrupts: every line, by header, and after a change what a fresh look would say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.counters.on_demand.interrupt_table import FIRST_BUFFER, InterruptTable, parse_line
from nictop.probe.kernel.cpu_columns import parse_header
from tests.conftest import DATA

if TYPE_CHECKING:
    from nictop.probe.counters.on_demand.interrupt_table import Line

GUEST = (DATA / "proc/interrupts").read_bytes()


class Table:
    """A /proc with an interrupts file that the test writes, and a reader that is kept."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.reader = InterruptTable(str(root))

    def read(self, text: bytes) -> tuple[Line, ...]:
        (self.root / "interrupts").write_bytes(text)
        return self.reader.read()

    def fresh(self) -> tuple[Line, ...]:
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


def by_label(lines: tuple[Line, ...]) -> dict[str, Line]:
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


def test_a_single_sum_is_of_no_cpu() -> None:
    assert parse_line(b"ERR:          7", (0, 1))[0]["counts"] == {-1: 7}
    assert parse_line(b"Err:          7", (0,))[0]["counts"] == {-1: 7}
    assert parse_line(b"NMI:          7", (5,))[0]["counts"] == {5: 7}
    fiq = parse_line(b"FIQ:              usb_fiq", (0, 1))[0]
    assert (fiq["description"], fiq["counts"]) == ("usb_fiq", {})


def test_columns_are_named_by_the_header(table: Table) -> None:
    """CPU 1 is offline and ids are sparse: the second column is of CPU 2."""
    lines = table.read(b"           CPU0       CPU2       CPU9       \n 24:  1  2  3  chip 1-edge eth0\n")
    assert lines == ({"label": "24", "description": "chip 1-edge eth0", "counts": {0: 1, 2: 2, 9: 3}},)


@pytest.mark.parametrize("text", [b"", b"\n", b"CPU0 CPU0\n", b"CPU0 cpu1\n", b"CPU\n", b"CPU-1\n", b"0 1\n"])
def test_what_is_no_header(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_header(text)


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
def test_garbled_lines_are_refused_not_guessed(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_line(text, (0, 1))


@pytest.mark.parametrize("cut", [1, 2, 12, 500, 4000])
def test_a_file_that_is_cut_off_is_refused(table: Table, cut: int) -> None:
    with pytest.raises(ValueError):
        table.read(GUEST[:-cut] if GUEST[-cut - 1] != 10 else GUEST[: -cut - 1])
    assert len(table.read(GUEST)) > 50


@given(st.binary(max_size=80))
def test_any_line_is_refused_or_read(text: bytes) -> None:
    try:
        line, cpus, first, last = parse_line(text, (0, 2, 9))
    except ValueError:
        return
    assert set(line["counts"]) <= set(cpus) <= {0, 2, 9, -1}
    assert 0 < first <= last <= len(text) or line["counts"] == {}
    assert "\n" not in line["description"]


def written(rows: list[list[int]], cpus: range, names: list[str]) -> bytes:
    """As the kernel prints it: counts in eleven columns each."""
    head = " " * 11 + "".join(f"CPU{cpu:<8}" for cpu in cpus) + "\n"
    lines = (
        f"{24 + place:>3}:" + "".join(f" {number:>10}" for number in row) + f"  chip  {place}-edge      {name}\n"
        for place, (row, name) in enumerate(zip(rows, names, strict=True))
    )
    return (head + "".join(lines)).encode()


NUMBER = st.one_of(st.just(0), st.integers(0, 120), st.integers(0, 2**32 - 1))


@given(st.integers(1, 6), st.lists(st.lists(NUMBER, min_size=12, max_size=12), min_size=1, max_size=5), st.data())
def test_a_pass_after_another_says_what_a_fresh_one_says(
    tmp_path_factory: pytest.TempPathFactory, width: int, rows: list[list[int]], data: st.DataObject
) -> None:
    """Counts that grow digits or start again, lines and CPUs that come and go, names that change in place."""
    table = Table(tmp_path_factory.mktemp("proc"))
    before = [row[:width] for row in rows]
    names = ["eth0-rx-0"] * len(rows)
    cpus = range(width)
    kept = table.read(written(before, cpus, names))
    copy = [dict(line, counts=dict(line["counts"])) for line in kept]
    change = data.draw(st.sampled_from(["counts", "line goes", "cpu goes", "name", "cpu id"]))
    after = [row[12 - width :] for row in rows]
    if change == "line goes":
        after, names = after[1:] or after, names[1:] or names
    elif change == "cpu goes" and width > 1:
        after, cpus = [row[1:] for row in after], range(1, width)
    elif change == "name":
        names = ["eth0-tx-0", *names[1:]]
    elif change == "cpu id":
        cpus = range(1, width + 1)
    found = table.read(written(after, cpus, names))
    assert found == table.fresh()
    assert [line["counts"] for line in found] == [
        {cpu: number for cpu, number in zip(cpus, row, strict=True) if number} for row in after
    ]
    assert list(kept) == copy  # what was handed out does not change any more
    table.reader.close()


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), NUMBER), min_size=3, max_size=12))
def test_a_column_that_counts_again_and_again(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, int]]
) -> None:
    """One number at a time, on the same CPU or another: what is remembered of the last one never misleads."""
    table = Table(tmp_path_factory.mktemp("proc"))
    rows = [[0] * 4, [7] * 4]
    for line, cpu, number in steps:
        rows[line][cpu] = number
        found = table.read(written(rows, range(4), ["eth0-rx-0", "eth0-rx-1"]))
        assert [line["counts"] for line in found] == [{c: n for c, n in enumerate(row) if n} for row in rows]
    table.reader.close()


@given(st.integers(0, 400), st.binary(min_size=1, max_size=8))
def test_any_bytes_amid_a_known_file_are_refused_or_read_as_a_whole(
    tmp_path_factory: pytest.TempPathFactory, place: int, garbage: bytes
) -> None:
    table = Table(tmp_path_factory.mktemp("proc"))
    text = written([[1, 20, 300], [4000, 0, 0], [0, 0, 0]], range(3), ["a", "b-1", "c d"])
    table.read(text)
    changed = text[:place] + garbage + text[place + len(garbage) :]
    try:
        found: object = table.read(changed)
    except ValueError:
        found = None
    try:
        assert found == table.fresh()
    except ValueError:
        assert found is None
    table.reader.close()


def test_lines_that_are_asked_for_and_no_others(table: Table) -> None:
    (table.root / "interrupts").write_bytes(GUEST)
    assert {number: line["counts"] for number, line in table.reader.read_some([57, 999, 44]).items()} == {
        57: {3: 12},
        44: {0: 71, 1: 16, 2: 26, 3: 381},
    }
    (table.root / "interrupts").write_bytes(GUEST.replace(b" 381 ", b" 400 ").replace(b"30575", b"30576"))
    assert table.reader.read_some([44])[44]["counts"] == {0: 71, 1: 16, 2: 26, 3: 400}
    assert by_label(table.reader.read())["LOC"]["counts"][0] == 30576


def test_larger_than_the_buffer(table: Table) -> None:
    text = written([[10**9 + line] * 64 for line in range(200)], range(64), ["x"] * 200)
    assert len(text) > 3 * FIRST_BUFFER
    lines = table.read(text)
    assert len(lines) == 200 and lines[199]["counts"][63] == 10**9 + 199
    assert table.read(text.replace(b"1000000199", b"1000000200"))[199]["counts"][63] == 10**9 + 200


def test_memory_is_given_back(table: Table) -> None:
    before = set(os.listdir("/proc/self/fd"))
    table.read(written([[1] * 64] * 200, range(64), ["x"] * 200))
    table.reader.close()
    assert set(os.listdir("/proc/self/fd")) == before
    assert len(table.reader._buffer) == FIRST_BUFFER and table.reader._rows == []


def test_this_machine() -> None:
    """Each count lies between two readings of the file by other means."""

    def said() -> list[list[str]]:
        return [line.split() for line in Path("/proc/interrupts").read_text().splitlines()]

    reader = InterruptTable()
    try:
        for _ in range(2):
            before, lines, after = said(), reader.read(), said()
            cpus = [int(word[3:]) for word in before[0]]
            assert len(lines) == len(before) - 1
            for old, line, new in zip(before[1:], lines, after[1:], strict=True):
                assert old[0] == f"{line['label']}:"
                if -1 not in line["counts"] and len(old) > len(cpus):
                    for place, cpu in enumerate(cpus, 1):
                        assert int(old[place]) <= line["counts"].get(cpu, 0) <= int(new[place])
                    assert line["description"].split() == old[len(cpus) + 1 :]
    finally:
        reader.close()
