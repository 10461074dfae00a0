"""Block devices and NFS servers while a command runs: /proc/diskstats and /proc/self/mountstats."""

from __future__ import annotations

from pathlib import Path

import pytest

from nictop.probe.workload.storage import (
    StorageCounts,
    WorkloadStorage,
    parse_diskstats,
    parse_mountstats,
)

BEFORE = """\
 254       0 vda 100 5 2000 50 200 7 4000 400 0 300 450 0 0 0 0 0 0
 254       1 vda1 100 5 2000 50 200 7 4000 400 0 300 450 0 0 0 0 0 0
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  43       0 nbd0 9 9 9
"""
AFTER = BEFORE.replace(
    "vda 100 5 2000 50 200 7 4000 400 0 300", "vda 110 5 2080 70 200 7 4000 400 0 800"
)
MOUNTS = """\
device proc mounted on /proc with fstype proc
device 192.0.2.5:/export mounted on /mnt/a b with fstype nfs4 statvers=1.1
device 192.0.2.5:/export mounted on /mnt/nas with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 1000 1000 0 200000 131200000 300 5000 5400 0
\t       WRITE: 500 501 1 65600000 80000 100 9000 9200 0
\t      COMMIT: 2 2 0 400 300 0 10 10 0
device tmpfs mounted on /run with fstype tmpfs
\t        READ: 7 7 7 7 7 7 7 7 7
\t       WRITE: 7 7 7 7 7 7 7 7 7
"""


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    (tmp_path / "proc/self").mkdir(parents=True)
    for name in ("vda", "loop0", "nbd0"):
        (tmp_path / "sys/block" / name).mkdir(parents=True)
    (tmp_path / "proc/diskstats").write_text(BEFORE)
    (tmp_path / "proc/self/mountstats").write_text("")
    return tmp_path


def storage(roots: Path) -> WorkloadStorage:
    return WorkloadStorage(str(roots / "proc"), str(roots / "sys"))


def test_latency_of_a_device_is_that_of_its_own_requests(roots: Path) -> None:
    """10 reads in 20 ms, without those before, of the whole device once."""
    watched = storage(roots)
    watched.begin(10.0)
    assert watched.interval(11.0) == []
    (roots / "proc/diskstats").write_text(AFTER)
    (activity,) = watched.interval(12.0)
    assert (activity.name, activity.kind, activity.reads, activity.writes) == (
        "vda",
        "block",
        10,
        0,
    )
    assert activity.read_bytes == 80 * 512 and activity.read_seconds == pytest.approx(0.02)
    assert activity.busy == pytest.approx(0.5)
    (total,) = watched.total(14.0)
    assert total.reads == 10 and total.slowest_read == pytest.approx(0.002)
    assert total.slowest_write is None and total.busy == pytest.approx(0.125)


def test_device_with_most_bytes_is_first(roots: Path) -> None:
    """41 small writes of a log, and 36 reads of 1 MiB."""
    nbd = "nbd0 0 0 0 0 0 0 0 0 0 0 0"
    log = BEFORE.replace("nbd0 9 9 9", nbd)
    (roots / "proc/diskstats").write_text(log)
    watched = storage(roots)
    watched.begin(0.0)
    log = log.replace("vda 100 5 2000 50 200 7 4000 400", "vda 100 5 2000 50 241 7 4560 834")
    log = log.replace(nbd, "nbd0 36 0 73728 15372 0 0 0 0 0 5000 15372")
    (roots / "proc/diskstats").write_text(log)
    assert [activity.name for activity in watched.total(11.6)] == ["nbd0", "vda"]


def test_counter_that_was_reset_says_nothing(roots: Path) -> None:
    watched = storage(roots)
    watched.begin(10.0)
    (roots / "proc/diskstats").write_text(AFTER.replace("vda 110", "vda 3"))
    assert watched.total(12.0) == []


def test_nothing_readable_is_nothing(tmp_path: Path) -> None:
    watched = WorkloadStorage(str(tmp_path), str(tmp_path))
    watched.begin(1.0)
    assert watched.total(2.0) == []


def test_reads_and_writes_of_nfs() -> None:
    """Until the reply (rtt), bytes of replies and of requests; other file systems have no such
    lines."""
    assert list(parse_mountstats(MOUNTS)) == [
        ("192.0.2.5", StorageCounts(1000, 131200000, 5000, 500, 65600000, 9000))
    ]


@pytest.mark.parametrize(
    "text", ["", "x\n", "1 2 vda 1 2 3\n", "1 2 vda " + "9" * 30 + "\n", "device\n"]
)
def test_malformed_lines_are_skipped(text: str) -> None:
    assert list(parse_diskstats(text)) == [] and list(parse_mountstats(text)) == []
