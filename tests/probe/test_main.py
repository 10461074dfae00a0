"""The probe as a whole, as a real process: what it writes and when, and that it always ends."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe import records
from nictop.probe.__main__ import EAGER_SECONDS
from nictop.probe.__main__ import Probe as ProbeLoop
from nictop.probe.inventory import child as inventory_child
from nictop.probe.inventory.child import MAX_INVENTORY_BYTES, InventoryChild
from nictop.probe.inventory.collect import MACHINE_SOURCES, MANAGER_SOURCES
from nictop.probe.protocol import hello as first_words
from nictop.probe.protocol.arguments import ProbeOptions, parse_options
from nictop.probe.protocol.hello import first_namespace, hello
from nictop.probe.protocol.output import MAX_BACKLOG_BYTES, LineWriter
from nictop.probe.protocol.requests import (
    MAX_REQUEST_BYTES,
    REQUEST_FIELDS,
    RequestLines,
    parse_request,
)
from nictop.probe.protocol.schedule import Schedule
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.wire.codec import decode
from nictop.wire.probe_process import library_directories, probe_command
from tests.support.namespaces import ROOT, Namespace
from tests.support.probe import (
    PYTHONS,
    Probe,
    SentProbe,
    is_alive,
    python_parameters,
    unreadable_parts,
    wait_until,
)
from tests.support.probe import TEST_TIMEOUT as WAIT

# --------------------------------------------------------------------------------------- pure parts


def test_constants_equal_those_of_the_records() -> None:
    assert first_words.PROTOCOL == records.PROTOCOL
    assert MAX_INVENTORY_BYTES == records.MAX_LINE_BYTES
    assert list(hello(1.0)) == list(records.Hello.__dataclass_fields__)


@pytest.mark.parametrize(
    ("comm", "release", "inode"),
    [
        (b"kthreadd\n", "6.1.0-9-amd64", "that of kthreadd"),
        (b"bash\n", "6.1.0-9-amd64", 0),
        (None, "5.14.0-503.el9", 0),
        (None, "6.18.44-fc", 0xEFFFFFF9),
        (b"bash\n", "7.0.1", 0xEFFFFFF9),
        (None, "strange", 0),
    ],
)
def test_the_first_network_namespace_is_that_of_kthreadd(
    tmp_path: Path, comm: bytes | None, release: str, inode: int | str
) -> None:
    namespace = tmp_path / "2" / "ns" / "net"
    namespace.parent.mkdir(parents=True)
    namespace.touch()
    if comm is not None:
        (tmp_path / "2" / "comm").write_bytes(comm)
    wanted = namespace.stat().st_ino if isinstance(inode, str) else inode
    assert first_namespace(str(tmp_path), release) == wanted


def test_ticks_do_not_drift_and_missed_ones_are_skipped() -> None:
    schedule = Schedule(0.5, 100.0)
    schedule.advance(100.003)
    assert schedule.next == pytest.approx(100.5)
    schedule.advance(102.9)  # suspended, or no CPU: four ticks were missed
    assert schedule.next == pytest.approx(103.0)
    schedule.set_interval(60.0, 102.95)
    assert schedule.next == pytest.approx(103.0)
    schedule.advance(103.0)
    schedule.set_interval(0.1, 103.01)
    assert schedule.next == pytest.approx(103.11)


@pytest.mark.parametrize(
    ("line", "expected", "problem"),
    [
        (b'{"interval": 0.5, "watch": [1, 2]}', {"interval": 0.5, "watch": [1, 2]}, ""),
        (b'{"inventory": false}', {"inventory": False}, ""),
        (b'{"interval": 0.001}', {"interval": 0.1}, ""),
        (b'{"interval": 1e999}', {"interval": 60.0}, ""),
        (b'{"interval": null, "later": 1}', {}, ""),
        (b'{"interval": -1, "inventory": true}', {"inventory": True}, "interval is not a positive "
                                                                      "number"),
        (b'{"interval": NaN}', {}, "interval is not a positive number"),
        (b'{"interval": true}', {}, "interval is not a positive number"),
        (b'{"interval": "1"}', {}, "interval is not a positive number"),
        (b'{"watch": [1.5]}', {}, "watch is not a list"),
        (b'{"watch": [0]}', {}, "watch is not a list"),
        (b'{"watch": {"1": 1}}', {}, "watch is not a list"),
        (b'{"watch": [%s1]}' % (b"1," * 100), {}, "watch is not a list"),
        (b'{"inventory": 1}', {}, "inventory is not true or false"),
        (b'{"machine": true, "interval": 2}', {"machine": True, "interval": 2.0}, ""),
        (b'{"machine": "yes"}', {}, "machine is not true or false"),
        (b'{"connections": [2, 3]}', {"connections": [2, 3]}, ""),
        (b'{"connections": []}', {"connections": []}, ""),
        (b'{"connections": 2, "watch": []}', {"watch": []}, "connections is not a list"),
        (b'{"recheck": true}', {"recheck": True}, ""),
        (b'{"recheck": 1}', {}, "recheck is not true or false"),
        (b'{"events": true}', {"events": True}, ""),
        (b'{"events": 1}', {}, "events is not true or false"),
        (b'{"ping": 7}', {"ping": 7}, ""),
        (b'{"ping": -1}', {}, "ping is not a number"),
        (b'{"ping": 1e3}', {}, "ping is not a number"),
        (b'{"ping": true, "machine": false}', {"machine": False}, "ping is not a number"),
        (b'{"traffic": []}', {}, "traffic is not an object"),
        (b'{"traffic": {"id": 1}}', {"traffic": {"id": 1}}, ""),
        (b"[]", {}, "not an object"),
        (b"{", {}, "Expecting"),
        (b"\xff\xfe\x00", {}, "codec can't decode"),
        (b"[" * 60000, {}, "recursion"),
    ],
)  # fmt: skip
def test_requests(line: bytes, expected: dict[str, object], problem: str) -> None:
    request, message = parse_request(line)
    assert request == expected
    assert problem in message and bool(problem) == bool(message)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_a_problem(line: bytes) -> None:
    request, message = parse_request(line)
    assert set(request) <= {
        "interval",
        "watch",
        "inventory",
        "machine",
        "recheck",
        "events",
        "ping",
        "traffic",
        "connections",
    }
    assert len(message) < 400


@given(st.lists(st.binary(max_size=50).filter(lambda line: b"\n" not in line)), st.integers(1, 64))
def test_lines_are_the_same_in_reads_of_any_size(lines: list[bytes], size: int) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    splitter = RequestLines()
    found = [
        line
        for at in range(0, len(stream), size)
        for line in splitter.feed(stream[at : at + size])[0]
    ]
    assert found == [line for line in lines if line.strip()]


def test_a_line_that_is_too_long_is_dropped_and_reported_once() -> None:
    splitter = RequestLines()
    too_long = [splitter.feed(b"x" * 10_000)[1] for _ in range(20)]
    assert sum(too_long) == 1
    assert splitter.feed(b"tail\n{}\n") == ([b"{}"], False)
    assert splitter.feed(b"y" * (MAX_REQUEST_BYTES + 1) + b"\n{}\n") == ([b"{}"], True)


# ------------------------------------------------------------------------------------------- output


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


def test_a_slow_reader_misses_counters_only(pipe: tuple[int, int]) -> None:
    writer = LineWriter(pipe[1])
    big = b"i" * 300_000 + b"\n"
    assert writer.write(big)
    assert not writer.write(b"counters\n", dispensable=True)
    assert writer.write(b"change\n")
    received = b""
    while writer.backlogged:
        received += os.read(pipe[0], 65536)
        writer.flush()
    writer.write(b"counters 2\n", dispensable=True)
    while not received.endswith(b"counters 2\n"):
        received += os.read(pipe[0], 65536)
    assert received == big + b"change\n" + b"counters 2\n"
    assert not writer.dropped


def test_the_backlog_of_a_reader_that_does_not_read_is_bounded(pipe: tuple[int, int]) -> None:
    writer = LineWriter(pipe[1])
    accepted = sum(writer.write(bytes(100_000)) for _ in range(100))
    assert MAX_BACKLOG_BYTES // 100_000 <= accepted <= MAX_BACKLOG_BYTES // 100_000 + 2
    assert writer.dropped
    os.close(pipe[0])
    with pytest.raises(BrokenPipeError):
        writer.flush()


# -------------------------------------------------------------------------------------- the process


def test_the_order_of_the_first_lines() -> None:
    with Probe("--interval", "0.1") as probe:
        lines = []
        for raw in probe.raw_lines():
            lines.append(decode(raw))
            if lines[-1].inventory is not None:
                break
    assert lines[0].hello is not None and lines[1].counters is not None
    first, inventory = lines[0].hello, lines[-1].inventory
    assert (first.pid, first.euid, first.interval) == (probe.process.pid, os.geteuid(), 0.1)
    assert first.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert inventory is not None and inventory.reason == "start"
    assert {link.ifindex for link in inventory.links} == set(lines[1].counters.links)


@pytest.mark.parametrize("python", python_parameters(PYTHONS))
def test_every_python(python: str, tmp_path: Path) -> None:
    with SentProbe(python, tmp_path, "--interval", "0.1", "--once") as probe:
        lines = [decode(raw) for raw in probe.raw_lines()]
        assert probe.process.wait(WAIT) == 0
    assert not [line.trouble for line in lines if line.trouble]
    inventory = next(line.inventory for line in lines if line.inventory is not None)
    assert inventory.links and not unreadable_parts(inventory)
    assert lines[0].hello is not None and lines[0].hello.python.startswith("3.")
    assert lines[-1].counters is not None and lines[1].counters is not None
    assert lines[-1].counters.time > inventory.time > lines[1].counters.time


def test_as_a_plain_user() -> None:
    """Everything except what needs root. That user must be able to read the sources, as of an
    installed package."""
    if os.geteuid() != 0:
        pytest.skip("already run as a plain user")
    for python in (sys.executable, "/usr/bin/python3", "/usr/libexec/platform-python"):
        try:
            done = subprocess.run(
                probe_command(python, "--help"), user=65534, capture_output=True, check=False
            )
        except OSError:
            continue
        if done.stderr.startswith(b"usage:"):
            break
    else:
        pytest.skip("no Python here, or the sources, can be read by a plain user")
    with Probe("--once", "--interval", "0.1", python=python, user=65534) as probe:
        lines = [decode(raw) for raw in probe.raw_lines()]
    assert lines[0].hello is not None and lines[0].hello.euid == 65534
    assert (
        lines[-1].counters is not None
        and lines[-1].counters.links
        and not lines[-1].counters.unreadable
    )
    assert any(line.inventory and line.inventory.links for line in lines)


def test_requests_change_what_is_sent() -> None:
    with Probe("--interval", "60") as probe:
        probe.wait_for(lambda line: line.inventory)
        probe.send(b"\x00nonsense\n")
        assert "not understood" in str(probe.wait_for(lambda line: line.trouble).trouble)
        probe.send({"interval": 0.1, "watch": [1, 2**30]})
        watched = probe.wait_for(
            lambda line: line.counters and "driver" in line.counters.unreadable
        )
        assert watched.counters is not None
        probe.send({"watch": []})
        probe.wait_for(lambda line: line.counters and "driver" not in line.counters.unreadable)
        probe.send({"inventory": True})
        answer = probe.wait_for(lambda line: line.inventory)
        assert answer.inventory is not None and answer.inventory.reason == "request"
        probe.send(b"x" * (3 * MAX_REQUEST_BYTES))
        probe.wait_for(lambda line: line.trouble and "ignored" in line.trouble.message)
        probe.send(b"\n" + json.dumps({"inventory": True}).encode() + b"\n")
        probe.wait_for(lambda line: line.inventory)
        asked = time.monotonic()
        probe.send({"ping": 7})
        pong = probe.wait_for(lambda line: line.pong).pong
        assert (
            pong is not None and pong.sequence == 7 and asked <= pong.monotonic <= time.monotonic()
        )


def test_a_link_is_added_changed_and_removed(namespace: Namespace) -> None:
    """Each step is reported without a request. The delay: `tests.benchmarks probe-new-link`."""
    with Probe("--interval", "60", namespace=namespace) as probe:
        probe.wait_for(lambda line: line.inventory)
        namespace.run(
            ["ip", "link", "add", "name", "left", "type", "veth", "peer", "name", "right"]
        )
        probe.wait_for(lambda line: line.link_change and line.link_change.name == "left")
        new = probe.wait_for(
            lambda line: (
                line.inventory and {"left", "right"} <= {link.name for link in line.inventory.links}
            )
        )
        assert new.inventory is not None and new.inventory.reason == "event"
        namespace.run(["ip", "link", "set", "dev", "left", "name", "tap[x]"])
        probe.wait_for(lambda line: line.link_change and line.link_change.name == "tap[x]")
        probe.wait_for(
            lambda line: line.inventory and "tap[x]" in {link.name for link in line.inventory.links}
        )
        namespace.run(["ip", "link", "set", "dev", "tap[x]", "up"])
        namespace.run(["ip", "link", "set", "dev", "right", "up"])
        probe.wait_for(lambda line: line.link_change and line.link_change.carrier)
        namespace.run(["ip", "link", "del", "dev", "right"])
        probe.wait_for(lambda line: line.link_change and line.link_change.gone)
        after = probe.wait_for(lambda line: line.inventory and len(line.inventory.links) == 1)
        assert after.inventory is not None and after.inventory.reason == "event"


# ------------------------------------------------------------------------------------------ the end


def test_it_ends_with_its_stdin() -> None:
    """The delay: `tests.benchmarks probe-end`."""
    with Probe("--interval", "60") as probe:
        probe.wait_for(lambda line: line.inventory)
        assert probe.process.stdin is not None
        probe.process.stdin.close()
        assert probe.process.wait(WAIT) == 0


def test_it_ends_with_its_stdout(tmp_path: Path) -> None:
    """Also while it has nothing to write: its clock is stopped."""
    with another_probe(tmp_path, with_clock(tmp_path / "clock"), "--interval", "60") as probe:
        probe.wait_for(lambda line: line.inventory)
        assert probe.process.stdout is not None
        probe.process.stdout.close()
        assert probe.process.wait(WAIT) == 0


def test_it_ends_with_its_heartbeat(tmp_path: Path) -> None:
    """Any request is a heartbeat; without one the probe ends, although stdin and stdout are
    open."""
    clock = tmp_path / "clock"
    with another_probe(
        tmp_path, with_clock(clock), "--interval", "0.1", "--heartbeat", "60"
    ) as probe:
        probe.wait_for(lambda line: line.inventory)
        for now in (50.0, 100.0):
            set_clock(clock, now)
            probe.wait_for(lambda line: line.counters)
            probe.send({"ping": 7})
            pong = probe.wait_for(lambda line: line.pong).pong
            assert pong is not None and pong.monotonic == now
        set_clock(clock, 159.9)
        probe.wait_for(lambda line: line.counters)
        assert probe.process.poll() is None
        set_clock(clock, 160.0)
        list(probe.raw_lines())
        assert probe.process.wait(WAIT) == 0


def with_clock(path: Path) -> str:
    """Statements that make a probe read its clock from a file, which starts at 0."""
    set_clock(path, 0.0)
    return (
        "import nictop.probe.__main__ as program\n"
        f"class Clock:\n    monotonic = staticmethod(lambda: float(open({str(path)!r}).read()))\n"
        "program.time = Clock\n"
    )


def set_clock(path: Path, now: float) -> None:
    new = path.with_name("new")
    new.write_text(str(now))
    new.replace(path)


def test_it_ends_with_sigterm_and_not_with_sigint() -> None:
    with Probe("--interval", "0.1") as probe:
        probe.wait_for(lambda line: line.inventory)
        probe.process.send_signal(signal.SIGINT)
        for _ in range(3):
            probe.wait_for(lambda line: line.counters)
        probe.process.send_signal(signal.SIGTERM)
        assert probe.process.wait(WAIT) == 0


def test_no_child_survives_a_killed_probe(tmp_path: Path) -> None:
    """SIGKILL during an inventory: the kernel ends the child too (PR_SET_PDEATHSIG)."""
    with another_probe(tmp_path, with_inventory("import time; time.sleep(3600)")) as probe:
        wait_until(probe.children)
        seen = probe.children()
        probe.process.kill()
        probe.process.wait(WAIT)
        wait_until(lambda: not any(map(is_alive, seen)))


def test_many_inventories_leave_no_zombie() -> None:
    with Probe("--interval", "0.1") as probe:
        for _ in range(5):
            probe.wait_for(lambda line: line.inventory)
            probe.send({"inventory": True})
        probe.wait_for(lambda line: line.inventory)
        wait_until(lambda: not probe.children())


def test_a_reader_that_pauses_gets_complete_lines_and_new_counters() -> None:
    with Probe("--interval", "0.1") as probe:
        probe.wait_for(lambda line: line.inventory)
        for _ in range(200):
            probe.send(
                {"nonsense": 1, "interval": "x"}
            )  # 200 error messages fill the pipe together with the counters
        asked = time.monotonic()
        wait_until(lambda: time.monotonic() > asked + 0.5)
        fresh = probe.wait_for(lambda line: line.counters and line.counters.time > asked + 0.4)
        assert fresh.counters is not None


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_started_without_stdin_or_stdout(closed: str) -> None:
    """Refused, also with --once: the next file opened would get the number of the closed
    descriptor."""
    argv = ["sh", "-c", f'exec "$0" -m nictop.probe --once {closed}', sys.executable]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=WAIT, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr and done.stderr.startswith("nictop.probe:")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a name to a UTS namespace")
def test_a_host_name_that_is_not_utf_8() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import socket; "
        f"socket.sethostname(b'a\\xff\\xc3\\xa9[')\n"
    )
    code += "from nictop.probe.__main__ import main; sys.exit(main(['--once']))"
    argv = ["unshare", "--uts", sys.executable, "-X", "utf8", "-c", code]
    done = subprocess.run(
        argv, capture_output=True, check=True, timeout=WAIT, stdin=subprocess.DEVNULL
    )
    first = decode(done.stdout.splitlines()[0]).hello
    assert first is not None
    assert first.hostname == "a?é["


@pytest.mark.parametrize(
    "arguments", [["--interval"], ["--interval", "x"], ["--interval", "nan"], ["--what"]]
)
def test_usage(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nictop.probe", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage:")


# ------------------------------------------------------------------------------------------- parts


def test_parts_of_the_first_inventory_are_sent_before_it_is_complete() -> None:
    """Of the first inventory only; sources that are still being read are in `pending`, the last
    part is complete."""
    with Probe("--interval", "0.1", "--parts") as probe:
        taken = [probe.wait_for(lambda line: line.inventory).inventory for _ in range(3)]
        probe.send({"inventory": True})
        later = probe.wait_for(lambda line: line.inventory).inventory
    links, machine, whole = taken
    assert links and machine and whole and later
    assert (
        links.pending == (*MACHINE_SOURCES, *MANAGER_SOURCES) and machine.pending == MANAGER_SOURCES
    )
    assert whole.pending == later.pending == ()
    assert {one.time for one in taken if one} == {whole.time} and later.time > whole.time
    assert [link.ifindex for link in links.links] == [link.ifindex for link in whole.links]
    assert (links.interrupts, links.threads) == (whole.interrupts, whole.threads)
    assert machine.platform == whole.platform and machine.links == whole.links
    for part in (links, machine):
        assert all(part.unreadable[source].detail == NOT_READ_YET for source in part.pending)
    assert unreadable_parts(whole) == {}


@pytest.mark.parametrize(
    ("options", "delay"), [(["--parts"], 0.0), (["--parts", "--eager"], EAGER_SECONDS)]
)
def test_first_counters_of_watched_links_are_read_soon(options: list[str], delay: float) -> None:
    parsed = parse_options(["--interval", "60", *options])
    assert parsed is not None
    probe = ProbeLoop(parsed)
    probe._schedule.advance(time.monotonic())
    probe._handle_request(b'{"watch": [1]}')
    assert probe._schedule.next <= time.monotonic() + delay
    probe._counters.close()
    for descriptor in probe._wakeup:
        os.close(descriptor)


def test_an_incomplete_part_is_not_passed_on(stopped_child: InventoryChild) -> None:
    stopped_child._output[:] = (
        b'{"targets": 1}\n{"inventory": 1}\n\n{"targets": 2}\n{"inventory": 2}\n'
    )
    assert stopped_child.take_part() == b'{"inventory": 1}\n'
    assert stopped_child.targets == b'{"targets": 1}\n'
    assert stopped_child.take_part() is None, (
        "it is the last part, or its end has not been received"
    )
    stopped_child._output += b"\n"
    assert stopped_child.take_part() == b'{"inventory": 2}\n'
    assert stopped_child.take_part() is None


# ------------------------------------------------------------------------------- a child that fails

FAILING = {
    "raises": (
        "raise RuntimeError('no such\\nthing')",
        "",
        "the inventory failed: RuntimeError: no such thing",
    ),
    "ends": (
        "import os; os._exit(3)",
        "",
        "the inventory ended with status 3 before it was complete",
    ),
    "dies": (
        "import os; os.kill(os.getpid(), 11)",
        "",
        r"the inventory ended by signal 11 \(SIGSEGV\) before it was complete",
    ),
    "hangs": (
        "import time; time.sleep(3600)",
        "child.IDLE_TIMEOUT = 0.3",
        "the inventory was stopped: no progress for 0.3 s",
    ),
    "never ends": (
        "while True: pass",
        "child.IDLE_TIMEOUT = 0.2; child.INVENTORY_CPU_SECONDS = 0.4",
        r"stopped: not complete after \d+\.\d s \((0\.[4-9]|[1-9]\.\d) s of CPU time\)",
    ),
}
"""Body of `take_inventory`, statements that set limits, and an expression for the sentence."""
NO_RESCAN = "scheduler.RESCAN_SECONDS = scheduler.RESCAN_SECONDS_WITHOUT_EVENTS = 3600.0"


COUNT_TAKEN = "import mmap, os\ntaken = mmap.mmap(-1, 1)\n"
"""Memory that all inventories share: they cannot write a file."""


@contextmanager
def another_probe(
    folder: Path, statements: str, *arguments: str, namespace: Namespace | None = None
) -> Iterator[Probe]:
    """The main loop of the probe after these statements, which may use the modules `child` and
    `scheduler`."""
    (folder / "run.py").write_text(
        f"import sys, types\nsys.path += {library_directories()!r}\n"
        f"import nictop.probe.inventory.child as child, nictop.probe.inventory.scheduler as "
        f"scheduler\n{statements}\n"
        f"from nictop.probe.__main__ import "
        f"main\nsys.exit(main({list(arguments or ('--interval', '0.1'))!r}))\n"
    )
    with Probe(
        command=[sys.executable, "-I", "-S", str(folder / "run.py")], namespace=namespace
    ) as probe:
        yield probe


def test_each_field_of_a_request_is_handled() -> None:
    probe = ProbeLoop(ProbeOptions())
    assert set(probe._handlers) == set(REQUEST_FIELDS)


def with_inventory(body: str) -> str:
    """Statements that replace `take_inventory`; `body` may call the original as `real`."""
    return (
        "from nictop.probe.inventory.collect import take_inventory as real\n"
        "broken = types.ModuleType('nictop.probe.inventory.collect')\n"
        f"def take_inventory(reason, *, sys, proc, started):\n    {body}\n"
        "broken.take_inventory = take_inventory\nsys.modules['nictop.probe.inventory.collect'] = "
        "broken\n"
    )


@pytest.mark.parametrize("case", FAILING)
def test_a_failed_inventory_is_reported_and_counters_continue(tmp_path: Path, case: str) -> None:
    body, limits, sentence = FAILING[case]
    with another_probe(tmp_path, with_inventory(body) + limits) as probe:
        trouble = probe.wait_for(lambda line: line.trouble).trouble
        assert trouble is not None
        assert re.search(sentence, trouble.message), trouble.message
        probe.wait_for(lambda line: line.counters)
        wait_until(lambda: not probe.children())


def test_the_cpu_time_that_is_told_is_the_measured_one(
    stopped_child: InventoryChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at every ten seconds: ``40 s`` was told of anything up to 50 s, and seconds
    since when were not."""
    used = 0.0
    monkeypatch.setattr(inventory_child, "cpu_time", lambda pid: used)
    for now, spent in ((10.0, 9.1), (20.0, 18.4), (30.0, 27.0), (40.0, 36.2)):
        used = spent
        assert not stopped_child.kill_if_overdue(now)
    used = 45.6
    assert stopped_child.kill_if_overdue(50.0)
    _, problem = stopped_child.collect()
    assert problem == "the inventory was stopped: not complete after 50 s (46 s of CPU time)"


@pytest.fixture
def stopped_child(monkeypatch: pytest.MonkeyPatch) -> Iterator[InventoryChild]:
    """A child that was started at 0.0 and does nothing."""
    monkeypatch.setattr(inventory_child, "KILL_WAIT_SECONDS", WAIT)
    child = InventoryChild()
    child.start("test", 0.0)
    os.kill(child._pid, signal.SIGSTOP)
    yield child
    child.kill()


def test_a_slow_inventory_is_not_killed(
    stopped_child: InventoryChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a host with little free CPU: any CPU use since the last check extends the time."""
    used = 0.001
    monkeypatch.setattr(inventory_child, "cpu_time", lambda pid: used)
    assert stopped_child.deadline() == inventory_child.IDLE_TIMEOUT
    assert not stopped_child.kill_if_overdue(9.9) and not stopped_child.kill_if_overdue(10.0)
    used = 0.002
    assert stopped_child.deadline() == 20.0
    assert not stopped_child.kill_if_overdue(20.0)
    assert stopped_child.deadline() == 30.0
    assert stopped_child.kill_if_overdue(30.0), "no CPU use since then"


def test_an_inventory_that_never_ends_is_killed(
    stopped_child: InventoryChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = iter(range(1, 100))
    monkeypatch.setattr(inventory_child, "cpu_time", lambda pid: float(next(used)))
    assert not any(stopped_child.kill_if_overdue(10.0 * now) for now in range(16))
    assert stopped_child.kill_if_overdue(inventory_child.INVENTORY_TIMEOUT)


def test_an_inventory_may_take_as_long_as_it_gets_little_of_a_cpu(
    stopped_child: InventoryChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended by the CPU time that it needs on any host."""
    limit = inventory_child.INVENTORY_CPU_SECONDS
    used = iter([0.4 * limit, 0.9 * limit, limit])
    monkeypatch.setattr(inventory_child, "cpu_time", lambda pid: next(used))
    assert not stopped_child.kill_if_overdue(10.0) and not stopped_child.kill_if_overdue(20.0)
    assert stopped_child.kill_if_overdue(30.0)


def test_an_inventory_is_of_the_moment_at_which_it_was_started() -> None:
    """On a host without free CPU its process begins to read seconds later. An event in between is
    requested to be read, and must not make what is from before it look newer."""
    child, started = InventoryChild(), time.monotonic() - 20.0
    child.start("test", started)
    poll = select.poll()
    poll.register(child.descriptor, select.POLLIN)
    while poll.poll(WAIT * 1000) and not child.read():
        pass
    line, problem = child.collect()
    inventory = decode(bytes(line)).inventory
    assert not problem and inventory is not None and inventory.time == started
    assert inventory.wall == pytest.approx(time.time() - 20.0, abs=10.0)


def test_cpu_time_of_a_process_in_nanoseconds() -> None:
    """The ticks of /proc are too coarse for a process that gets little CPU."""
    before = inventory_child.cpu_time(os.getpid())
    between = time.process_time()
    assert 0.0 < before <= between <= inventory_child.cpu_time(os.getpid())
    assert inventory_child.cpu_time(2**22 + 1) == 0.0


def test_a_failed_inventory_is_repeated(tmp_path: Path) -> None:
    """Without event or request."""
    body = "taken[0] += 1\n    if taken[0] == 1: os._exit(3)\n"
    limits = f"scheduler.FAILURE_RETRY_SECONDS = 0.1; {NO_RESCAN}"
    statements = (
        COUNT_TAKEN + with_inventory(f"{body}    return real(reason, sys=sys, proc=proc)") + limits
    )
    with another_probe(tmp_path, statements) as probe:
        assert probe.wait_for(lambda line: line.trouble).trouble is not None
        assert probe.wait_for(lambda line: line.inventory).inventory is not None


def test_an_inventory_with_a_failed_source_is_repeated(tmp_path: Path) -> None:
    """As when NetworkManager was slow. At growing intervals, and no more after a complete one."""
    body = (
        "from dataclasses import replace; from nictop.probe.records import Unreadable\n"
        "    taken[0] += 1\n"
        "    late = {'networkmanager': Unreadable('failed', 'late')}\n"
        "    return replace(real(reason, sys=sys, proc=proc), unreadable={} if taken[0] > 2 else "
        "late)"
    )
    limits = f"scheduler.FIRST_REPEAT_SECONDS = 0.1; {NO_RESCAN}"
    with another_probe(tmp_path, COUNT_TAKEN + with_inventory(body) + limits) as probe:
        taken = [probe.wait_for(lambda line: line.inventory).inventory for _ in range(3)]
    assert [bool(one and one.unreadable) for one in taken] == [True, True, False]


def test_the_exit_status_of_a_killed_child_is_collected(stopped_child: InventoryChild) -> None:
    pid = stopped_child._pid
    assert is_alive(pid)
    stopped_child.kill()
    assert not os.path.exists(f"/proc/{pid}")
    assert not stopped_child.running


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (b'{"targets": 1}\n{"inventory": 1}\n', ""),
        (b'{"targets": 1}\n{"inventory": ', "before it was complete"),
        (b'{"targets": 1}\n', "before it was complete"),
        (b"OSError: x\n", "failed: OSError: x"),
        (b"", "ended with an unknown status before it was complete"),
    ],
    ids=["whole", "cut off", "first line only", "failed", "nothing"],
)
def test_the_output_of_a_child_that_has_not_exited_yet(
    stopped_child: InventoryChild, monkeypatch: pytest.MonkeyPatch, output: bytes, problem: str
) -> None:
    """Its output has ended, but on a slow host the process still exists: the output is used."""
    monkeypatch.setattr(inventory_child, "KILL_WAIT_SECONDS", 0.0)
    stopped_child._output[:] = output
    line, sentence = stopped_child.collect()
    assert stopped_child.running
    assert (line, problem in sentence) == (b'{"inventory": 1}\n' if not problem else b"", True)
    assert problem or (stopped_child.targets, sentence) == (b'{"targets": 1}\n', "")
    monkeypatch.setattr(inventory_child, "KILL_WAIT_SECONDS", WAIT)
