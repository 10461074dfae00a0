"""Time limits on idle and on busy hosts; the CPU times are written, the clock is real."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.kernel.waiting import Wait, parse_cpu_times, read_cpu_times


def write_times(folder: Path, busy: int, idle: int) -> None:
    (folder / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 1 1 1\n")


def ended_wait(folder: Path, longest: float) -> Wait:
    """A wait whose limit has passed."""
    write_times(folder, 1000, 1000)
    return Wait(0.0, longest, proc=str(folder))


def test_an_idle_host_gets_no_more_time(tmp_path: Path) -> None:
    wait = ended_wait(tmp_path, 60.0)
    write_times(tmp_path, 1050, 1050)
    with pytest.raises(TimeoutError):
        wait.remaining()


def test_a_busy_host_gets_more_time(tmp_path: Path) -> None:
    wait = ended_wait(tmp_path, 60.0)
    wait.limit = 30.0
    write_times(tmp_path, 1099, 1001)
    assert 0 < wait.remaining() <= 30.0


def test_a_worker_gets_more_time_on_an_idle_host(tmp_path: Path) -> None:
    wait = ended_wait(tmp_path, 60.0)
    wait.limit = 30.0
    wait.extend(is_worked_on=True)
    assert wait.remaining() > 0


@pytest.mark.parametrize(
    ("idle", "text"), [(0, "no CPU of this host is free"), (50, "busy for too long")]
)
def test_no_wait_is_endless(tmp_path: Path, idle: int, text: str) -> None:
    wait = ended_wait(tmp_path, 0.0)
    write_times(tmp_path, 1100, 1000 + idle)
    with pytest.raises(TimeoutError, match=text):
        wait.extend(is_worked_on=True)


def test_without_cpu_times_the_limit_counts(tmp_path: Path) -> None:
    wait = ended_wait(tmp_path, 60.0)
    (tmp_path / "stat").unlink()
    with pytest.raises(TimeoutError):
        wait.extend()


def test_time_taken_by_the_hypervisor_is_not_idle() -> None:
    assert parse_cpu_times(b"cpu  1 2 3 4 5 6 7 800 9 10\n") == (4, 828)


def test_the_times_of_this_host() -> None:
    times = read_cpu_times("/proc")
    assert times is not None and 0 <= times[0] < times[1]


@given(st.binary(max_size=80))
def test_any_line(line: bytes) -> None:
    times = parse_cpu_times(line)
    assert times is None or 0 <= times[0] <= times[1]
    assert parse_cpu_times(b"cpu " + line) is None or line.split()
