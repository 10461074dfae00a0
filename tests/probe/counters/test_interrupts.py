"""Interrupts of the NICs' vectors: by CPU id, the same from both sources, without vanished
vectors."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.counters.changed_counts import changed_span
from nictop.probe.counters.interrupts import (
    InterruptCounterReader,
    InterruptVector,
    parse_changed_counts,
    parse_counts,
    parse_cpu_list,
)
from nictop.probe.kernel.open_files import PAGE_BYTES, OpenFileCache
from tests.conftest import DATA


class Machine:
    """Directories in place of sysfs and procfs, with interrupts, and a reader of them."""

    def __init__(self, root: Path, possible: str = "0-3") -> None:
        self.sys, self.proc = root / "sys", root / "proc"
        cpu = self.sys / "devices/system/cpu"
        cpu.mkdir(parents=True)
        (cpu / "possible").write_text(possible + "\n")
        self.proc.mkdir()
        self.files = OpenFileCache()
        self.reader = InterruptCounterReader(self.files, sys=str(self.sys), proc=str(self.proc))
        self.failures: list[tuple[Exception, str]] = []

    def vector(self, number: int, text: str) -> Path:
        folder = self.sys / f"kernel/irq/{number}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "per_cpu_count"
        path.write_text(text)
        return path

    def read(self) -> dict[int, dict[int, int]]:
        self.failures.clear()
        return self.reader.read(lambda error, where: self.failures.append((error, where)))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.reader.close()
    made.files.close()


# ------------------------------------------------------------------------------------------ parsing


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0", (0,)), ("0-3", (0, 1, 2, 3)), ("0-1,8,16-17\n", (0, 1, 8, 16, 17)), ("4\n", (4,))],
)
def test_cpu_lists(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpu_list(text.encode()) == cpus


@pytest.mark.parametrize(
    "text", ["", "\n", "a", "3-1", "0-99999999999", "1,0", "0,0", "-1", "1-", "0,,1", "0x3"]
)
def test_invalid_cpu_lists(text: str) -> None:
    with pytest.raises(ValueError):
        parse_cpu_list(text.encode())


def test_counts_are_in_the_order_of_the_possible_cpus() -> None:
    """Sparse ids: the third value is of CPU 8, not of CPU 2."""
    assert parse_counts(b"0,17,4294967295\n", (0, 1, 8)) == {1: 17, 8: 4294967295}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"1,2",
        b"1,2\n",
        b"1,2,3,4\n",
        b"1,2,\n",
        b"1,2,x\n",
        b"1,2,-3\n",
        b"1,2,1_0\n",
        b"1,2,3",
    ],
)
def test_garbled_counts_raise_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_counts(text, (0, 1, 2))
    with pytest.raises(ValueError):
        parse_changed_counts(b"1,2,3\n", text, {0: 1, 1: 2, 2: 3}, (0, 1, 2))


@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_or_raise_value_error(text: bytes) -> None:
    try:
        counts = parse_counts(text, (0, 1, 8))
    except ValueError:
        return
    assert set(counts) <= {0, 1, 8} and all(number > 0 for number in counts.values())


COUNTS = st.one_of(st.just(0), st.integers(0, 120), st.integers(0, 2**32 - 1))


@given(st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=40), st.integers(0, 5))
def test_changed_counts_equal_a_full_parse(pairs: list[tuple[int, int]], sparse: int) -> None:
    """Also with more digits, resets, and several changed columns."""
    possible = tuple(cpu * (1 + sparse) for cpu in range(len(pairs)))
    old, new = (",".join(map(str, values)).encode() + b"\n" for values in zip(*pairs, strict=True))
    if old != new:
        changed = parse_changed_counts(old, new, parse_counts(old, possible), possible)
        assert changed == parse_counts(new, possible)
        assert changed == {
            cpu: pair[1] for cpu, pair in zip(possible, pairs, strict=True) if pair[1]
        }


@given(
    st.lists(st.tuples(st.integers(0, 3), st.one_of(COUNTS, st.just(-1))), min_size=3, max_size=12)
)
def test_repeated_updates_of_one_column(steps: list[tuple[int, int]]) -> None:
    """One number at a time, sometimes garbled: the remembered column never gives a wrong count."""
    vector, values, possible = InterruptVector("nowhere"), [0] * 4, (0, 1, 8, 9)
    for column, number in steps:
        before, values[column] = values[column], number
        text = ",".join(map(str, values)).encode() + b"\n"
        if number < 0:
            with pytest.raises(ValueError):
                vector.update(text, possible)
            values[column] = before
        elif text != vector.text:
            vector.update(text, possible)
            assert vector.counts == parse_counts(text, possible)


@given(st.binary(min_size=6, max_size=6).filter(lambda text: text != b"1,2,3\n"))
def test_any_change_is_parsed_as_the_full_text_would_be(text: bytes) -> None:
    old, possible = b"1,2,3\n", (0, 1, 2)
    try:
        expected: object = parse_counts(text, possible)
    except ValueError:
        expected = None
    try:
        found: object = parse_changed_counts(old, text, parse_counts(old, possible), possible)
    except ValueError:
        found = None
    assert found == expected


@given(st.binary(min_size=1, max_size=50), st.data())
def test_changed_span(old: bytes, data: st.DataObject) -> None:
    new = data.draw(
        st.binary(min_size=len(old), max_size=len(old)).filter(lambda text: text != old)
    )
    positions = [index for index in range(len(old)) if old[index] != new[index]]
    assert changed_span(old, new) == (positions[0], positions[-1] + 1)


# ------------------------------------------------------------------------------------------ reading


def test_successive_passes(machine: Machine) -> None:
    paths = [machine.vector(number, "0,0,0,0\n") for number in (40, 41, 42)]
    machine.reader.set_targets([40, 41])
    assert machine.read() == {40: {}, 41: {}}
    paths[0].write_text("0,0,9,0\n")
    first = machine.read()
    assert first == {40: {2: 9}, 41: {}}
    paths[0].write_text("0,0,10,4\n")
    assert machine.read() == {40: {2: 10, 3: 4}, 41: {}}
    assert first == {40: {2: 9}, 41: {}}  # earlier results are not modified
    assert machine.failures == []
    machine.reader.set_targets([42])
    assert machine.read() == {42: {}}


def test_a_vector_that_is_garbled_in_one_pass(machine: Machine) -> None:
    path = machine.vector(40, "1,2,3,4\n")
    machine.vector(41, "5,0,0,0\n")
    machine.reader.set_targets([40, 41])
    machine.read()
    path.write_text("1,2,x,4\n")
    assert machine.read() == {41: {0: 5}}
    assert [(type(error), where) for error, where in machine.failures] == [(ValueError, str(path))]
    path.write_text("1,2,4,4\n")
    assert machine.read() == {40: {0: 1, 1: 2, 2: 4, 3: 4}, 41: {0: 5}}
    assert machine.failures == []


def test_a_vanished_vector_is_left_out_without_error(machine: Machine) -> None:
    """Renumbered by ``ethtool -L``, or its driver was unloaded; until the next inventory."""
    for number in (40, 41):
        machine.vector(number, "1,0,0,0\n")
    machine.reader.set_targets([40, 41, 42])
    assert set(machine.read()) == {40, 41}
    assert machine.failures == []
    shutil.rmtree(machine.sys / "kernel/irq/41")
    machine.files.close()  # on a disk an unlinked file can be read; an open descriptor of sysfs gives ENODEV
    for _ in range(2):
        assert set(machine.read()) == {40}
        assert machine.failures == []
    machine.vector(41, "0,0,0,7\n")
    assert set(machine.read()) == {40}
    machine.reader.set_targets([40, 41])
    assert machine.read() == {40: {0: 1}, 41: {3: 7}}


def test_other_errors_are_reported_and_other_vectors_are_read(machine: Machine) -> None:
    machine.vector(40, "1,0,0,0\n")
    (machine.sys / "kernel/irq/41/per_cpu_count").mkdir(parents=True)
    machine.reader.set_targets([41, 40])
    for _ in range(2):
        assert machine.read() == {40: {0: 1}}
        assert [type(error) for error, _ in machine.failures] == [IsADirectoryError]


def guest_interrupts() -> bytes:
    return (DATA / "proc/interrupts").read_bytes()


def test_proc_interrupts_is_used_on_a_kernel_without_the_files(machine: Machine) -> None:
    (machine.proc / "interrupts").write_bytes(guest_interrupts())
    machine.reader.set_targets([41, 53, 45, 999])
    expected = {41: {0: 232, 2: 40384}, 53: {0: 40867, 2: 11, 3: 11}, 45: {}}
    assert machine.read() == expected
    (machine.proc / "interrupts").write_bytes(guest_interrupts().replace(b"40867  ", b"40999  "))
    expected[53] = {0: 40999, 2: 11, 3: 11}
    assert machine.read() == expected
    assert machine.failures == []


def test_a_reassigned_number_is_left_out(machine: Machine) -> None:
    (machine.proc / "interrupts").write_bytes(guest_interrupts())
    machine.reader.set_targets([41, 42])
    assert set(machine.read()) == {41, 42}
    (machine.proc / "interrupts").write_bytes(
        guest_interrupts().replace(b"ens224-TxRx-0", b"virtio9-req.0")
    )
    for _ in range(2):
        assert set(machine.read()) == {42}
    machine.reader.set_targets([41, 42])
    assert set(machine.read()) == {41, 42}
    assert machine.failures == []


@pytest.mark.parametrize("text", [None, b"", b"garbage\n", b"           CPU0\n 41:"])
def test_failure_of_both_sources_is_reported(machine: Machine, text: bytes | None) -> None:
    if text is not None:
        (machine.proc / "interrupts").write_bytes(text)
    machine.reader.set_targets([41])
    for _ in range(2):
        assert machine.read() == {}
        assert [(type(error), where) for error, where in machine.failures] == [
            (FileNotFoundError if text is None else ValueError, "/proc/interrupts")
        ]
    (machine.proc / "interrupts").write_bytes(guest_interrupts())
    assert set(machine.read()) == {41}


def test_more_cpus_than_fit_into_a_sysfs_page(tmp_path: Path) -> None:
    """The kernel truncates the file at one page, possibly within a number; /proc/interrupts is
    complete."""
    cpus = PAGE_BYTES // 8
    machine = Machine(tmp_path, f"0-{cpus - 1}")
    whole = ",".join(str(10**8 + cpu) for cpu in range(cpus))
    machine.vector(40, whole[: PAGE_BYTES - 1])
    machine.vector(41, ",".join(["0"] * cpus) + "\n")
    head = " " * 9 + "".join(f"CPU{cpu:<8}" for cpu in range(cpus))
    row = " 40:" + "".join(f"{10**8 + cpu:>11}" for cpu in range(cpus))
    (machine.proc / "interrupts").write_text(f"{head}\n{row}  chip 1-edge eth0-rx-0\n")
    machine.reader.set_targets([40, 41])
    for _ in range(2):
        assert machine.read() == {40: {cpu: 10**8 + cpu for cpu in range(cpus)}, 41: {}}
        assert machine.failures == []
    machine.reader.close()
    machine.files.close()


def test_open_descriptors_are_limited_and_closed(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    files = OpenFileCache(3)
    paths = []
    for number in range(6):
        paths.append(str(tmp_path / str(number)))
        Path(paths[-1]).write_text(f"{number}\n")
    for _ in range(2):
        assert [files.read(path) for path in paths] == [
            f"{number}\n".encode() for number in range(6)
        ]
    assert len(files) == 3
    files.drop(paths[0])
    files.read(paths[5])
    assert len(files) == 3
    files.close()
    assert set(os.listdir("/proc/self/fd")) == before


# -------------------------------------------------------------------------------------- this kernel


def proc_interrupts() -> dict[int, list[int]]:
    head, *lines = Path("/proc/interrupts").read_text().splitlines()
    width = len(head.split())
    return {
        int(line.split(":")[0]): [int(word) for word in line.split(":")[1].split()[:width]]
        for line in lines
        if re.match(r" *\d+:", line)
    }


def test_this_machine_agrees_with_proc_interrupts() -> None:
    """Each count from either source lies between two readings of /proc/interrupts, also after a
    load."""
    if not os.path.isdir("/sys/kernel/irq"):
        pytest.skip("this kernel has no /sys/kernel/irq")
    cpus = parse_cpu_list(Path("/sys/devices/system/cpu/online").read_bytes())
    files = OpenFileCache()
    by_file, by_table = (InterruptCounterReader(files, sys=root) for root in ("/sys", "/nowhere"))
    failures: list[Exception] = []
    numbers = sorted(proc_interrupts())
    by_file.set_targets(numbers)
    by_table.set_targets(numbers)
    totals = []
    for _ in range(2):
        before = proc_interrupts()
        readings = [
            reader.read(lambda error, where: failures.append(error))
            for reader in (by_file, by_table)
        ]
        after = proc_interrupts()
        assert failures == []
        for reading in readings:
            assert set(reading) == set(numbers)
            for number in numbers:
                for column, cpu in enumerate(cpus):
                    assert (
                        before[number][column]
                        <= reading[number].get(cpu, 0)
                        <= after[number][column]
                    )
        totals.append(sum(sum(counts.values()) for counts in readings[0].values()))
        if len(totals) == 1:
            write_and_sync()
    assert totals[1] >= totals[0]
    by_file.close()
    by_table.close()
    files.close()


def write_and_sync() -> None:
    """A limited load that causes interrupts of a disk, if there is one."""
    path = Path(f"interrupts-{os.getpid()}-{socket.gethostname()}.tmp")
    try:
        with path.open("wb") as file:
            for _ in range(20):
                file.write(bytes(4096))
                file.flush()
                os.fsync(file.fileno())
    finally:
        path.unlink(missing_ok=True)
