"""Counters of threads and vmbus channels, and the targets line that names them; ended ones are left
out."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.counters.reader import CounterReader
from nictop.probe.counters.targets import parse_targets, targets_line
from nictop.probe.counters.threads import HALF_TICK_NS, ThreadCounterReader, parse_thread
from nictop.probe.counters.vmbus_channels import CHANNEL_FILES, ChannelCounterReader
from nictop.probe.inventory.collect import NOTHING_KNOWN
from nictop.probe.inventory.managers.state_files import state_files
from nictop.probe.kernel.open_files import OpenFileCache
from nictop.probe.records import (
    CHANNEL_COUNTERS,
    BondPort,
    Channel,
    Interrupt,
    Inventory,
    Link,
    Neighbour,
    Routing,
    Settings,
    Thread,
)
from nictop.wire.codec import decode
from tests.support.probe import Probe

TICKS = os.sysconf("SC_CLK_TCK")
STAT = (
    b"4242 (CPU 0/KVM) S 1 4240 4240 0 -1 2129984 0 0 0 0 123 45 0 0 20 0 1 0 6789 0 0 "
    b"18446744073709551615"
    b" 0 0 0 0 0 0 0 2147483647 0 1 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)
if TYPE_CHECKING:
    from nictop.probe.counters.targets import Targets

FOREVER = 2**62
NOTHING: Targets = {
    "interrupts": [],
    "threads": [],
    "started_by": 0,
    "channels": [],
    "incomplete": False,
    "digest": 0,
    "files": [],
    "gateways": [],
    "stack": [],
    "modules": [],
}


@pytest.fixture
def files() -> Iterator[OpenFileCache]:
    made = OpenFileCache()
    yield made
    made.close()


class Failures(list[tuple[Exception, str]]):
    def __call__(self, error: Exception, where: str) -> None:
        self.append((error, where))


# ------------------------------------------------------------------------------------------ parsing


@pytest.mark.parametrize("name", [b"CPU 0/KVM", b"a) S 1 2 (b", b"))) 9 9 9", b"", b"\xff\n("])
def test_columns_follow_the_last_parenthesis(name: bytes) -> None:
    assert parse_thread(STAT.replace(b"CPU 0/KVM", name)) == (123, 45, 3, 6789)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        STAT[:-1],
        STAT[: STAT.index(b" 3 0 0")] + b"\n",
        STAT.replace(b" 123 ", b" 12x "),
        STAT.replace(b" 123 ", b" -12 "),
        STAT.replace(b" 6789 ", b" 6_9 "),
        b"1 (x)\n",
    ],
)
def test_garbled_lines_raise_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_thread(text)


@given(st.binary(max_size=300))
def test_any_bytes_are_parsed_or_raise_value_error(text: bytes) -> None:
    try:
        numbers = parse_thread(text)
    except ValueError:
        return
    assert min(numbers) >= 0


@given(st.integers(0, len(STAT) - 1))
def test_truncated_lines_raise_value_error(size: int) -> None:
    with pytest.raises(ValueError):
        parse_thread(STAT[:size])


# ------------------------------------------------------------------------------------------ reading


def stat_file(root: Path, pid: int, tid: int, text: bytes) -> Path:
    folder = root / f"{pid}/task/{tid}"
    folder.mkdir(parents=True)
    (folder / "stat").write_bytes(text)
    return folder


def test_a_thread_that_started_after_the_inventory_is_left_out(
    tmp_path: Path, files: OpenFileCache
) -> None:
    reader = ThreadCounterReader(files, proc=str(tmp_path))
    stat_file(tmp_path, 4240, 4242, STAT)
    failures = Failures()
    reader.set_targets([(4242, 4240)], 6788)
    assert reader.read(failures) == {}
    reader.set_targets([(4242, 4240), (4243, 4240)], 6789)
    for _ in range(2):
        assert reader.read(failures) == {4242: (123, 45, 3)}
    assert failures == []


def test_a_thread_id_that_is_reused_between_two_passes(tmp_path: Path) -> None:
    """Without an open descriptor, when the limit is reached, the start time identifies the
    thread."""
    files = OpenFileCache(0)
    reader = ThreadCounterReader(files, proc=str(tmp_path))
    folder = stat_file(tmp_path, 1, 2, STAT)
    reader.set_targets([(2, 1)], 7000)
    failures = Failures()
    assert reader.read(failures) == {2: (123, 45, 3)}
    (folder / "stat").write_bytes(STAT.replace(b" 6789 ", b" 7001 "))
    assert reader.read(failures) == {}
    (folder / "stat").write_bytes(STAT)
    assert reader.read(failures) == {}, "left out until the next inventory"
    assert failures == []


def test_failures_are_reported_and_other_threads_are_read(
    tmp_path: Path, files: OpenFileCache
) -> None:
    reader = ThreadCounterReader(files, proc=str(tmp_path))
    stat_file(tmp_path, 1, 2, b"garbage\n")
    stat_file(tmp_path, 1, 3, STAT)
    (tmp_path / "1/task/4/stat").mkdir(parents=True)
    reader.set_targets([(2, 1), (3, 1), (4, 1)], FOREVER)
    for _ in range(2):
        failures = Failures()
        assert reader.read(failures) == {3: (123, 45, 3)}
        assert [type(error) for error, _ in failures] == [ValueError, IsADirectoryError]


def test_a_thread_that_has_not_run_is_not_read_again(tmp_path: Path, files: OpenFileCache) -> None:
    """schedstat says whether it ran; its times are read whenever that differs."""
    reader = ThreadCounterReader(files, proc=str(tmp_path))
    folder = stat_file(tmp_path, 1, 2, STAT)
    run = folder / "schedstat"
    run.write_bytes(b"1000 20 3\n")
    reader.set_targets([(2, 1)], FOREVER)
    failures = Failures()
    for _ in range(3):  # read, unchanged, asked for the first time
        assert reader.read(failures) == {2: (123, 45, 3)}
    (folder / "stat").write_bytes(STAT.replace(b" 123 45 ", b" 124 45 "))
    assert reader.read(failures) == {2: (123, 45, 3)}, "by schedstat it has not run"
    run.write_bytes(b"%d 20 4\n" % (1000 + HALF_TICK_NS - 1))
    assert reader.read(failures) == {2: (123, 45, 3)}, "less than half a tick"
    run.write_bytes(b"%d 20 5\n" % (1000 + HALF_TICK_NS))
    assert reader.read(failures) == {2: (124, 45, 3)}
    (folder / "stat").write_bytes(STAT.replace(b" 123 45 ", b" 125 45 "))
    assert reader.read(failures) == {2: (125, 45, 3)}, "one that runs is read each time"
    assert failures == []


def test_without_schedstat_the_times_are_read_each_time(
    tmp_path: Path, files: OpenFileCache
) -> None:
    reader = ThreadCounterReader(files, proc=str(tmp_path))
    folder = stat_file(tmp_path, 1, 2, STAT)
    reader.set_targets([(2, 1)], FOREVER)
    for _ in range(4):
        assert reader.read(Failures()) == {2: (123, 45, 3)}
    (folder / "stat").write_bytes(STAT.replace(b" 123 45 ", b" 124 45 "))
    assert reader.read(Failures()) == {2: (124, 45, 3)}


ROOM = """
import resource
from nictop.probe.kernel.open_files import OpenFileCache
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))
files = OpenFileCache()
found = [files._limit]
for wanted in (20, 100, 4000):
    files.make_room(wanted)
    found += [files._limit, resource.getrlimit(resource.RLIMIT_NOFILE)[0]]
print(found)
"""


def test_more_files_stay_open_within_the_hard_limit() -> None:
    done = subprocess.run([sys.executable, "-c", ROOM], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [32, 32, 64, 100, 200, 256, 512]


def test_a_real_thread(files: OpenFileCache) -> None:
    """Its time equals that of getrusage in the thread; after its end it is left out."""
    reader = ThreadCounterReader(files)
    used: list[float] = []
    begin, end = threading.Event(), threading.Event()

    def work() -> None:
        begin.wait(120)
        while resource.getrusage(resource.RUSAGE_THREAD).ru_utime < 0.05:
            sum(range(1000))
        used.append(resource.getrusage(resource.RUSAGE_THREAD).ru_utime)
        end.wait(120)

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    tid = thread.native_id
    assert tid is not None
    Path(f"/proc/self/task/{tid}/comm").write_text("a) S (b")
    failures = Failures()
    try:
        reader.set_targets([(tid, os.getpid())], FOREVER)
        before = reader.read(failures)[tid]
        begin.set()
        while not used:
            reader.read(failures)
        after = reader.read(failures)[tid]
        assert (
            before[0] <= 2 and abs(after[0] - used[0] * TICKS) <= 2
        )  # both are rounded down to ticks
        assert 0 <= after[2] < os.sysconf("SC_NPROCESSORS_CONF")
    finally:
        begin.set()
        end.set()
        thread.join()
    for _ in range(100_000):  # join returns shortly before the kernel removes the thread
        if not reader.read(failures):
            break
    assert reader.read(failures) == {}
    assert failures == []


# ----------------------------------------------------------------------------------- vmbus channels


def channel(root: Path, number: int, **counters: int) -> Path:
    folder = root / f"bus/vmbus/devices/guid-1/channels/{number}"
    folder.mkdir(parents=True)
    for name, value in counters.items():
        (folder / name).write_text(f"{value}\n")
    return folder


def test_vmbus_channels(tmp_path: Path, files: OpenFileCache) -> None:
    assert CHANNEL_FILES == CHANNEL_COUNTERS
    reader = ChannelCounterReader(files, sys=str(tmp_path))
    channel(tmp_path, 14, interrupts=2**40, events=3, out_full_total=0)
    old = channel(tmp_path, 21, interrupts=5, events=6)
    reader.set_targets([(2, "guid-1", [14, 21, 99]), (3, "guid-2", [1])])
    failures = Failures()
    expected = {2: {14: (2**40, 3, 0), 21: (5, 6, None)}}
    for _ in range(2):
        assert reader.read(failures) == expected
    (old / "events").write_text("x\n")
    assert reader.read(failures) == {2: {14: (2**40, 3, 0)}}
    assert [(type(error), where) for error, where in failures] == [
        (ValueError, "ifindex 2, channel 21")
    ]
    (old / "events").write_text("7\n")
    shutil.rmtree(tmp_path / "bus/vmbus/devices/guid-1/channels/14")
    files.close()
    failures.clear()
    for _ in range(2):
        assert reader.read(failures) == {2: {21: (5, 7, None)}}
    assert failures == []


# ------------------------------------------------------------------------------- from the inventory


def inventory(**fields: object) -> Inventory:
    made = Inventory(
        time=1.0, wall=2.0, took=0.1, reason="start", platform=NOTHING_KNOWN, pci=(), links=()
    )
    return dataclasses.replace(made, **fields)  # type: ignore[arg-type]


def plain_link(**fields: object) -> Link:
    made = Link(ifindex=2, name="eth0", type=1, flags=0, operstate="up", carrier=True, mtu=1500)
    return dataclasses.replace(made, **fields)  # type: ignore[arg-type]


def test_targets_line() -> None:
    taken = inventory(
        interrupts=(Interrupt(41, ("eth0-rx-0",), None), Interrupt(42, (), None)),
        threads=(Thread(12, 10, "vhost-10", "vhost"),),
        links=(
            plain_link(),
            plain_link(ifindex=3, device="guid-1", channels=(Channel(14, 0), Channel(21, None))),
        ),
        settings=Settings(tables={"connections": (5, 10)}),
    )
    targets = parse_targets(targets_line(taken).encode())
    now = time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS
    assert 0 < targets.pop("started_by") <= now  # type: ignore[misc]
    assert targets == {
        "interrupts": [41, 42],
        "threads": [(12, 10)],
        "channels": [(3, "guid-1", [14, 21])],
        "incomplete": False,
        "digest": targets["digest"],
        "files": state_files(taken),
        "gateways": [],
        "stack": ["nf_conntrack_count"],
        "modules": [],
    }
    fuller = dataclasses.replace(taken.settings, tables={"connections": (9, 10)})
    later = dataclasses.replace(taken, time=2.0, wall=3.0, reason="re-scan", settings=fuller)
    assert parse_targets(targets_line(later).encode())["digest"] == targets["digest"]
    changed = dataclasses.replace(taken, interrupts=())
    assert parse_targets(targets_line(changed).encode())["digest"] != targets["digest"]


def test_a_neighbour_that_no_longer_answers_is_a_change() -> None:
    """A finding about it must appear, and disappear, without any event of the kernel."""

    def digest(state: str, since: float) -> int:
        neighbour = Neighbour(2, "192.0.2.1", state, "02:00:00:00:00:01", since_update=since)
        taken = inventory(routing=Routing((neighbour,), (), (), ()))
        return parse_targets(targets_line(taken).encode())["digest"]

    assert digest("reachable", 1.0) == digest("stale", 40.0)
    assert digest("reachable", 1.0) != digest("failed", 1.0)


@pytest.mark.parametrize(
    ("port", "is_awaited"),
    [
        (BondPort(True, "up", actor_state=61, actor_churn="none", partner_churn="none"), False),
        (BondPort(True, "up", actor_state=77), False),
        (BondPort(True, "up", actor_state=0x80 | 77), True),
        (
            BondPort(True, "up", actor_state=13, actor_churn="none", partner_churn="monitoring"),
            True,
        ),
        (BondPort(True, "down", actor_state=0x80 | 77, actor_churn="monitoring"), False),
        (BondPort(True, "up"), False),
    ],
)
def test_the_end_of_an_lacp_negotiation_is_awaited(port: BondPort, is_awaited: bool) -> None:
    """It causes no event of the kernel."""
    line = targets_line(inventory(links=(plain_link(bond_port=port),)))
    assert parse_targets(line.encode())["incomplete"] is is_awaited


GOOD: dict[str, object] = {
    **NOTHING,
    "interrupts": [1],
    "threads": [[2, 1]],
    "started_by": 5,
    "channels": [[2, "guid", [1]]],
    "files": ["/proc/sys/net/core/rmem_max"],
    "gateways": [[2, "192.0.2.1", False]],
}


@pytest.mark.parametrize(
    "change",
    [
        {"interrupts": None},
        {"interrupts": ["1"]},
        {"interrupts": [-1]},
        {"interrupts": [True]},
        {"threads": [[1]]},
        {"threads": [1]},
        {"threads": [[1, "../2"]]},
        {"started_by": 1.5},
        {"channels": [[2, "../x", [1]]]},
        {"channels": [[2, "..", [1]]]},
        {"channels": [[2, "guid", 1]]},
        {"digest": None},
        {"files": 1},
        {"gateways": [[2, "192.0.2.1"]]},
        {"gateways": [[2, "192.0.2.1\0", False]]},
        {"gateways": [[-1, "192.0.2.1", False]]},
        {"modules": [1]},
        {"modules": ["os.path;"]},
        {"modules": ["nictop..probe"]},
    ],
)
def test_invalid_targets_raise_value_error(change: dict[str, object]) -> None:
    assert parse_targets(json.dumps(GOOD).encode())["started_by"] == 5
    with pytest.raises(ValueError):
        parse_targets(json.dumps({**GOOD, **change}).encode())


@given(st.binary(max_size=100))
def test_any_other_line_raises_value_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        parse_targets(line)


def test_a_sample_with_all_targets(tmp_path: Path) -> None:
    """From targets to the decoded record."""
    sys_root = tmp_path / "sys"
    (sys_root / "devices/system/cpu").mkdir(parents=True)
    (sys_root / "devices/system/cpu/possible").write_text("0-1,8\n")
    (sys_root / "kernel/irq/41").mkdir(parents=True)
    (sys_root / "kernel/irq/41/per_cpu_count").write_text("0,5,6\n")
    channel(sys_root, 14, interrupts=1, events=2, out_full_total=3)
    reader = CounterReader(sys=str(sys_root))
    assert reader.read().interrupts == {}
    own = (os.getpid(), os.getpid())
    reader.set_targets(
        {
            **NOTHING,
            "interrupts": [41],
            "threads": [own],
            "started_by": FOREVER,
            "channels": [(2, "guid-1", [14])],
        }
    )
    reader.watch_machine(True)
    counters = decode(json.dumps({"counters": vars(reader.read())}).encode()).counters
    assert counters is not None and counters.unreadable == {}
    assert counters.interrupts == {41: {1: 5, 8: 6}}
    assert set(counters.threads) == {os.getpid()}
    assert counters.channels == {2: {14: (1, 2, 3)}}
    assert set(counters.softirqs) == set(counters.cpus) == set(counters.softnet)
    assert counters.machine is not None and len(counters.machine) > 5
    assert any(sum(line.counts.values()) > 0 for line in counters.machine)
    reader.watch_machine(False)
    assert reader.read().machine is None
    reader.set_targets(NOTHING)
    last = reader.read()
    assert (last.interrupts, last.threads, last.channels) == ({}, {}, {})
    reader.close()


def test_proc_interrupts_is_sent_only_while_requested() -> None:
    with Probe("--interval", "0.1") as probe:
        assert probe.wait_for(lambda line: line.counters).counters.machine is None  # type: ignore[union-attr]
        probe.send({"machine": True})
        counters = probe.wait_for(lambda line: line.counters and line.counters.machine).counters
        assert counters is not None and counters.machine is not None
        head, *lines = Path("/proc/interrupts").read_text().splitlines()
        assert {line.label for line in counters.machine} >= {
            line.split(":")[0].strip() for line in lines[:3]
        }
        assert max(cpu for line in counters.machine for cpu in line.counts) < 8192 and head
        probe.send({"machine": False})
        probe.wait_for(lambda line: line.counters and line.counters.machine is None)


def test_the_probe_reads_the_targets_of_its_inventory() -> None:
    """All interrupts and running threads of the inventory are in the counters that follow it."""
    with Probe("--interval", "0.1") as probe:
        taken = probe.wait_for(lambda line: line.inventory).inventory
        assert taken is not None
        if not taken.interrupts and not taken.threads:
            pytest.skip("no NIC with interrupts and no thread of interest here")
        counters = probe.wait_for(lambda line: line.counters).counters
    assert counters is not None
    assert set(counters.interrupts) == {interrupt.number for interrupt in taken.interrupts}
    assert set(counters.threads) <= {
        thread.tid for thread in taken.threads
    }  # threads of a VM may end
    assert set(counters.threads) >= {
        thread.tid for thread in taken.threads if thread.kind == "ksoftirqd"
    }
    assert not {"interrupts", "threads"} & set(counters.unreadable)


def test_targets_do_not_load_the_records() -> None:
    code = (
        "import sys; from nictop.probe import __main__; from nictop.probe.counters.reader import "
        "CounterReader\n"
        "r = CounterReader(); r.watch_machine(True)\n"
        "r.set_targets({'interrupts': [1], 'threads': [(1, 1)], 'started_by': 1, 'channels': [(1, "
        "'x', [1])], "
        "'stack': ['IPReversePathFilter', 'nf_conntrack_count']})\n"
        "r.read()\n"
        "print(sorted({'dataclasses', 'typing', 'inspect', 'ctypes', 'nictop.probe.records'} & "
        "set(sys.modules)))"
    )
    root = str(Path(__file__).parent.parent.parent.parent)
    start = f"import sys; sys.path.append({root!r})\n{code}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", start], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
