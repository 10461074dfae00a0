"""CPU times of /proc/stat: complete, for the right CPU and column, never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.counters.cpus import (
    CPU_TIME_COLUMNS,
    FIRST_STAT_BYTES,
    CpuTimeReader,
    parse_cpu_times,
)
from nictop.probe.records import CPU_TIMES

STAT = b"""cpu  13375 0 2235 253202 3026 0 110 15 7 0
cpu0 5104 0 896 129774 150 0 26 7 3 0
cpu2 8271 0 1339 123428 2875 0 83 8 4 0
intr 828173 0 0 0
ctxt 1734831
btime 1795220000
softirq 1 2 3
"""


def test_columns_are_those_of_the_record() -> None:
    assert len(CPU_TIMES) == CPU_TIME_COLUMNS


def test_online_cpus_by_id() -> None:
    assert parse_cpu_times(STAT) == {
        0: (5104, 0, 896, 129774, 150, 0, 26, 7, 3, 0),
        2: (8271, 0, 1339, 123428, 2875, 0, 83, 8, 4, 0),
    }


def test_old_kernels_have_fewer_columns_and_later_ones_more() -> None:
    assert parse_cpu_times(b"cpu 1 2 3 4\ncpu0 1 2 3 4\nintr 5") == {0: (1, 2, 3, 4)}
    assert parse_cpu_times(b"cpu  1\ncpu0 1 2 3 4 5 6 7 8 9 10 11 12\n") == {
        0: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    }


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"cpu",
        b"cpu  1 2 3 4",
        b"cpu0 1 2 3 4\n",
        b"intr 1 2 3\n",
        b"cpu  1 2 3 4\ncpu0\n",
        b"cpu  1 2 3 4\ncpu0 1 2 3\n",
        b"cpu  1 2 3 4\ncpuX 1 2 3 4\n",
        b"cpu  1 2 3 4\ncpu0 1 2 -3 4\n",
        b"cpu  1 2 3 4\ncpu0 1_0 2 3 4\n",
        b"cpu  1 2 3 4\ncpu0 1 2 3 4\ncpu1 5 6",
        b"cpu  1 2 3 4\ncpu0 1 2 3 4.5\n",
        b"1 2 3 4 5\n",
        b"cpu  1 2 3 4\ncpu0 1 2 3 4\n5 6\n",
        b"cpu  1 2 3 4\ncpu0 1  2 3 4\n",
        b"cpu  1 2 3 4\ncpu0 1 2 3 4,5\n",
        b"cpu  1 2 3 4\ncpu0 1 2 3 4]\n",
        b"sum  1 2 3 4\ncpu0 1 2 3 4\n",
        b"cpu  1 2 3 4\ncpu0 1 2 3 4\n\x00\x00\x00",
        b"cpu  1 2 3 4\ncpu0 1 2cpu 3 4\n",
    ],
)
def test_garbled_text_raises_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_cpu_times(text)


@given(st.binary())
def test_any_bytes_are_parsed_or_raise_value_error(text: bytes) -> None:
    try:
        cpus = parse_cpu_times(text)
    except ValueError:
        return
    assert cpus
    assert all(number >= 0 and min(times) >= 0 for number, times in cpus.items())


@given(
    st.dictionaries(
        st.integers(0, 8191),
        st.lists(st.integers(0, 2**64 - 1), min_size=10, max_size=10),
        min_size=1,
    )
)
def test_generated_lines_are_parsed_back(cpus: dict[int, list[int]]) -> None:
    text = "cpu  1 2 3 4 5 6 7 8 9 10\n" + "".join(
        f"cpu{number} {' '.join(map(str, times))}\n" for number, times in cpus.items()
    )
    assert parse_cpu_times(text.encode() + b"intr 0\n") == {
        n: tuple(times) for n, times in cpus.items()
    }


def test_cpu_lines_longer_than_the_buffer(tmp_path: Path) -> None:
    """Hundreds of CPUs do not fit into the first read; the rest is read, also of a CPU that is
    added later."""
    lines = [f"cpu{number} {10**15 + number} 2 3 4 5 6 7 8 9 {number}\n" for number in range(1024)]
    text = "cpu 1 2 3 4 5 6 7 8 9 10\n" + "".join(lines)
    assert len(text) > 2 * FIRST_STAT_BYTES
    (tmp_path / "stat").write_text(text + "intr 1 2 3\n")
    reader = CpuTimeReader(str(tmp_path))
    try:
        cpus = reader.read()
        assert len(cpus) == 1024
        assert cpus[1023] == (10**15 + 1023, 2, 3, 4, 5, 6, 7, 8, 9, 1023)
        (tmp_path / "stat").write_text(text.replace("cpu7 ", "cpu2048 ") + "intr 1 2 3\n")
        assert 2048 in reader.read()
    finally:
        reader.close()


def test_a_file_without_interrupt_line_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu 1 2 3 4\ncpu0 1 2 3 4\n")
    reader = CpuTimeReader(str(tmp_path))
    assert reader.read() == {0: (1, 2, 3, 4)}
    reader.close()


def test_this_machine() -> None:
    """The CPUs are those that sysfs lists as online, and their ticks increase."""
    reader = CpuTimeReader()
    before = reader.read()
    online = set()
    for part in Path("/sys/devices/system/cpu/online").read_text().strip().split(","):
        first, _, last = part.partition("-")
        online |= set(range(int(first), int(last or first) + 1))
    assert set(before) == online
    ticks = sum(map(sum, before.values()))
    for _ in range(2_000_000):  # bounded: a tick is 10 ms, a read some microseconds
        if sum(map(sum, reader.read().values())) > ticks:
            break
    else:
        pytest.fail("no tick was counted")
    reader.close()
