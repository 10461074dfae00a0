"""Lines of an end become intervals on the axis of the run; CPU windows are long enough; no input
breaks the parsers."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.snapshot import Snapshot
from nictop.probe.records import (
    BusyThread,
    Clock,
    Counters,
    Line,
    TrafficLine,
    TrafficSocket,
    Unreadable,
)
from nictop.traffic.analysis.cpu_load import host_load, thread_loads, windows
from nictop.traffic.analysis.socket_samples import socket_figures, socket_retransmits
from nictop.traffic.generators.builtin import BuiltInOutput
from nictop.traffic.generators.intervals import ErrorMessage, GeneratorInfo, Interval, Total
from nictop.traffic.generators.iperf3 import iperf3_output
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.results.host_load import ThreadLoad
from tests.model.hosts import HELLO, PLATFORM, counters, inventory, link_counters
from tests.support.arbitrary import arbitrary
from tests.support.sources import ScriptedSource, session_of
from tests.traffic.plans import PLAN, captured, tools


def run_end(omitted: int = 0) -> RunEnd:
    end = RunEnd("client", "a", "run-c", omitted)
    end.tools, end.output = tools(), iperf3_output(PLAN, tools())
    return end


def test_run_start_is_given_by_the_earliest_line() -> None:
    end = run_end(omitted=1)
    end.add_line(TrafficLine(100.0, "run-c", "started", pid=7))
    times = iter((100.6, 101.1, 101.62, 102.1, 102.7, 103.1, 103.2))
    done = 0
    for line in captured("3.12", "streams.client"):
        before = len(end.intervals)
        end.add_line(
            TrafficLine(
                times.__next__() if "[ 12]  " in line and done < 6 else 103.3,
                "run-c",
                "output",
                line,
            )
        )
        done += len(end.intervals) - before
    # six intervals of half a second; the earliest lines came 0.1 s after their end
    assert done == 6 and end.run_start == pytest.approx(100.1)
    end.add_line(TrafficLine(104.0, "run-c", "exit", status=0))
    assert end.ended == 104.0 and end.total(sends=True, by_sender=False) is not None


def test_errors_on_stderr_have_their_time() -> None:
    end = run_end()
    end.add_line(TrafficLine(10.0, "run-c", "started", pid=7))
    text = "iperf3: error - unable to connect to server: No route to host"
    end.add_line(TrafficLine(13.1, "run-c", "output", text, "stderr"))
    assert end.first_problem is not None
    seconds, message = end.first_problem
    assert (
        seconds == pytest.approx(3.1) and message == "unable to connect to server: No route to host"
    )
    failed = run_end()
    failed.add_line(TrafficLine(10.0, "run-c", "failed", "iperf3 is not installed"))
    assert (failed.ended, failed.failed) == (10.0, "iperf3 is not installed")


@given(st.integers())
def test_any_traffic_line_is_accepted(seed: int) -> None:
    random = Random(seed)
    end = run_end()
    for _ in range(5):
        end.add_line(arbitrary(TrafficLine, random))
    socket_figures(end, -1e300, 1e300)
    socket_retransmits(end, -1e300, 1e300)


def socket(inode: int, moved: int, **more: object) -> TrafficSocket:
    values: dict[str, object] = {
        "inode": inode,
        "state": "established",
        "local": "192.0.2.1",
        "local_port": 4000 + inode,
        "remote": "192.0.2.2",
        "remote_port": 5201,
        "congestion_control": "cubic",
        "bytes_acked": moved,
        "bytes_received": 0,
        "retransmits": 0,
        "rtt": 200,
        "rttvar": 10,
        "minimum_rtt": 100,
        "congestion_window": 10,
        "snd_mss": 1448,
        "pacing_rate": None,
        "delivery_rate": None,
        "lost": 0,
        "bytes_retransmitted": 0,
        "busy_time": 0,
        "window_limited": 0,
        "buffer_limited": 0,
        "send_window": 0,
    }
    return TrafficSocket(**(values | more))  # type: ignore[arg-type]


def test_socket_figures_are_those_of_the_data_connections() -> None:
    end = run_end()
    for time, moved, retransmits in (
        (1.0, 10**6, 2),
        (2.0, 10**7, 5),
        (3.0, 10**8, 9),
        (9.0, 10**9, 99),
    ):
        control = socket(1, 400, snd_mss=500, rtt=9)
        data = [
            socket(
                inode,
                moved,
                retransmits=retransmits,
                busy_time=int(time * 1e6),
                window_limited=int(time * 4e5),
                send_window=65536,
            )
            for inode in (2, 3)
        ]
        end.add_line(TrafficLine(time, "run-c", "sockets", sockets=(control, *data)))
    figures = socket_figures(end, 0.5, 4.0)
    assert figures is not None
    assert (figures.rtt, figures.snd_mss, figures.congestion_window) == (200, 1448, 20)
    assert figures.window_limited == pytest.approx(0.4) and figures.buffer_limited == 0
    assert figures.send_window == 2 * 65536
    assert socket_retransmits(end, 0.5, 4.0) == 14
    assert socket_figures(end, 20.0, 30.0) is None and socket_retransmits(end, 0.5, 1.5) is None


# ----------------------------------------------------------------------------------------- built-in


def test_output_of_the_builtin_generator() -> None:
    output = BuiltInOutput(0.5)
    start = {
        "event": "start",
        "sender": False,
        "snd_mss": 1448,
        "length": 131072,
        "congestion_control": "cubic",
    }
    outputs = [
        *output.feed(json.dumps(start)),
        *output.feed(
            '{"event":"interval","start":0,"end":0.5,"bytes":62500000,"streams":[1,2],'
            '"omitted":true}'
        ),
        *output.feed(
            '{"event":"interval","start":0.5,"end":0.51,"bytes":62500000,"streams":[1,2],'
            '"omitted":false}'
        ),
        *output.feed(
            '{"event":"interval","start":0,"end":1,"bytes":1000,"packets":9,"lost":1,'
            '"jitter":0.002}'
        ),
        *output.feed('{"event":"end","seconds":2,"bytes":2000,"lost":1,"packets":18}'),
        *output.feed('{"event":"error","text":"no more data from the other end"}'),
    ]
    assert outputs == [
        GeneratorInfo("built-in", 1448, 131072, "cubic"),
        Interval(0, 0.5, 1e9, False, 2, True),
        Interval(0, 1, 8000, False, 1, False, packets=10, lost=1, jitter=2.0),
        Total(False, False, 2.0, 8000, 2000, packets=19, lost=1),
        ErrorMessage("no more data from the other end"),
    ]


def test_sender_counts_the_datagrams_it_sent() -> None:
    output = BuiltInOutput(0.5)
    output.feed('{"event":"start","sender":true}')
    (total,) = output.feed('{"event":"end","seconds":2,"bytes":2000,"lost":0,"packets":18}')
    assert isinstance(total, Total) and total.packets == 18


NAMES = st.sampled_from(("event", "end", "bytes", "seconds", "start"))
VALUES = (
    st.none() | st.integers() | st.floats() | st.sampled_from(("start", "interval", "end", "error"))
)


@given(st.lists(st.text() | st.dictionaries(NAMES, VALUES).map(json.dumps)))
def test_any_line_of_the_builtin_generator_is_parsed(lines: list[str]) -> None:
    output = BuiltInOutput(0.5)
    for line in lines:
        assert isinstance(output.feed(line), tuple)


# ------------------------------------------------------------------------------------- load, clocks


def ticks(time: float, *cpus: tuple[int, int, int, int]) -> Counters:
    """`cpus`: user, idle, softirq, steal."""
    table = {
        number: (one[0], 0, 0, one[1], 0, 0, one[2], one[3], 0, 0)
        for number, one in enumerate(cpus)
    }
    missed = link_counters(rx_missed_errors=int(time))
    return counters(time, {4: missed}, cpus=table)


SNAPSHOT = Snapshot.empty("b")


def test_host_load_covers_the_measured_seconds() -> None:
    records = [
        ticks(1000.0, (0, 0, 0, 0), (0, 0, 0, 0)),
        ticks(1002.0, (200, 0, 0, 0), (0, 200, 0, 0)),
        ticks(1004.0, (210, 10, 160, 20), (0, 400, 0, 0)),
        ticks(1006.0, (400, 0, 160, 20), (0, 600, 0, 0)),
    ]
    # the clock of the host is 1000 s ahead, and the axis of the run begins at its 1002 s
    load = host_load(
        "b",
        "server",
        records,
        (0.0, 2.0),
        offset=1002.0,
        snapshot=SNAPSHOT,
        bits_per_second=2e9,
        ifindex=4,
    )
    assert load.busy is not None
    assert (load.busy.hottest, load.busy.cores) == (0, 2)
    assert load.busy.hottest_busy == pytest.approx(
        0.95
    ) and load.busy.hottest_softirq == pytest.approx(0.8)
    assert load.busy.total == pytest.approx(0.85) and load.busy.steal_share == pytest.approx(0.05)
    assert load.per_gigabit == pytest.approx(0.425)
    assert load.ring_drops == 2 and [one.time for one in load.series] == [0.0, 2.0, 4.0]
    short = host_load(
        "b", "server", records, (0.0, 0.9), offset=1002.0, snapshot=SNAPSHOT, bits_per_second=1.0
    )
    assert short.busy is None and [one.time for one in short.series] == [0.0, 2.0, 4.0]
    assert [one.dropped for one in load.packets] == [2, 2, 2] and short.packets == ()
    (full,) = load.full
    parts = (full.busy, full.softirq, full.user or 0.0, full.system or 0.0, full.steal or 0.0)
    assert full.cpu == 0 and parts == pytest.approx((0.95, 0.8, 0.05, 0.0, 0.1))
    assert load.busy_cpus == load.full and short.busy_cpus == ()
    assert (load.send_drops, load.backlog_drops, load.threads) == (0, None, None)


@pytest.mark.parametrize(
    ("hypervisor", "before", "unseen"),
    [("kvm", 0, True), ("kvm", 1, False), ("vmware", 0, True), (None, 0, False)],
)
def test_a_guest_without_steal_since_boot_may_not_be_shown_it(
    hypervisor: str | None, before: int, unseen: bool
) -> None:
    records = [ticks(time, (int(time) * 50, int(time) * 50, 0, before)) for time in (10.0, 12.0)]
    platform = replace(PLATFORM, hypervisor=hypervisor)
    guest = replace(SNAPSHOT, inventory=replace(inventory(), platform=platform))
    load = host_load(
        "b", "server", records, (0.0, 2.0), offset=10.0, snapshot=guest, bits_per_second=1e9
    )
    assert load.busy is not None and load.busy.steal == 0 and load.steal_unseen is unseen


def test_send_drops_and_backlog_drops() -> None:
    records = [
        counters(
            time,
            {4: link_counters(tx_dropped=int(time))},
            cpus=dict.fromkeys(range(2), (int(time) * 50, 0, 0, int(time) * 50, 0, 0, 0, 0, 0, 0)),
            softnet={0: (0, int(time), 0), 1: (0, 2**32 - 1 if time < 11 else 0, 0)},
        )
        for time in (10.0, 12.0)
    ]
    load = host_load(
        "b",
        "server",
        records,
        (0.0, 2.0),
        offset=10.0,
        snapshot=SNAPSHOT,
        bits_per_second=1.0,
        ifindex=4,
    )
    assert (load.send_drops, load.backlog_drops) == (2, 2)
    assert [window.send_dropped for window in load.packets] == [2]


# ------------------------------------------------------------------------------------------ threads

YES = BusyThread(20, 20, "yes", 60, 10, 3)
OWN = BusyThread(31, 30, "iperf3", 10, 30, 1, generator=True)


def reading(
    time: float, *threads: BusyThread, seconds: float = 1.0, why: Unreadable | None = None
) -> TrafficLine:
    return TrafficLine(time, "run-s", "threads", threads=threads, seconds=seconds, unreadable=why)


def test_thread_loads_cover_the_measured_seconds() -> None:
    end = run_end()
    end.add_line(TrafficLine(9.0, "run-c", "started", pid=30))
    moved = BusyThread(20, 20, "yes", 20, 0, 2)
    for line in (
        reading(10.4, BusyThread(9, 9, "before", 90, 0, 0)),
        reading(11.6, YES, OWN),  # the greater part of it is in the window
        reading(12.6, moved, BusyThread(31, 30, "iperf3", 0, 20, 1, generator=True)),
        reading(13.7, BusyThread(9, 9, "after", 90, 0, 0)),
    ):
        end.add_line(line)
    assert thread_loads(end.threads, (11.0, 13.0), 100) == (
        ThreadLoad("yes", 20, 0.45, (3, 2)),
        ThreadLoad("iperf3", 30, 0.3, (1,), True),
    )
    assert end.pid == 30
    assert (
        thread_loads(end.threads, (20.0, 30.0), 100) is None
        and thread_loads([], (0.0, 9.0), 100) is None
    )


def test_a_thread_has_no_more_than_one_core() -> None:
    """Its time is of its own two readings, and is rounded to ticks; that of a process is not of one
    core."""
    slow = BusyThread(20, 20, "sh", 107, 0, 1, seconds=1.07)
    rounded = BusyThread(21, 21, "sh", 101, 1, 2, seconds=1.0)
    half = BusyThread(22, 22, "sh", 55, 0, 2, seconds=1.1)
    several = BusyThread(30, 30, "qemu", 250, 0, None)
    lines = [reading(11.0, slow, rounded, half, several)]
    loads = thread_loads(lines, (10.0, 12.0), 100)
    assert loads is not None
    assert [(load.pid, round(load.share, 3)) for load in loads] == [
        (30, 2.5), (20, 1.0), (21, 1.0), (22, 0.5),
    ]  # fmt: skip


def test_the_probe_is_known_among_the_threads() -> None:
    probe = BusyThread(50, 50, "python3", 40, 0, 1, probe=True)
    assert thread_loads([reading(11.0, probe)], (10.0, 12.0), 100) == (
        ThreadLoad("python3", 50, 0.4, (1,), probe=True),
    )


def test_thread_loads_are_unknown_if_some_threads_could_not_be_read() -> None:
    """The thread that fills a CPU may be among those that are missing."""
    lines = [reading(11.0, YES), reading(12.0, YES, why=Unreadable("needs_root", "/proc: hidepid"))]
    assert thread_loads(lines, (10.0, 12.0), 100) is None
    assert thread_loads(lines[:1], (10.0, 12.0), 100) is not None


def test_generator_of_the_other_end_on_the_same_machine() -> None:
    (own, other) = (
        thread_loads([reading(11.0, OWN, YES)], (10.0, 12.0), 100, frozenset((20, 30))) or ()
    )
    assert (own.name, own.generator, own.other_end) == ("yes", False, True)
    assert (other.name, other.generator, other.other_end) == ("iperf3", True, False)


def test_process_without_single_threads_has_no_cpus() -> None:
    (thread,) = (
        thread_loads([reading(11.0, BusyThread(20, 20, "qemu", 300, 0, None))], (10.0, 12.0), 100)
        or ()
    )
    assert (thread.share, thread.cpus) == (3.0, ())


def test_windows_have_at_least_one_second() -> None:
    records = [ticks(number / 5, (number * 10, number * 10, 0, 0)) for number in range(21)]
    assert [round(end.time, 1) for _, end in windows(records)] == [1.0, 2.0, 3.0, 4.0]


def test_clock_offset_by_ping_or_else_by_the_fastest_line() -> None:
    session = session_of(ScriptedSource("b"))
    host = RunHost(session)
    session.process(Line(hello=HELLO), 5.0)
    session.process(Line(counters=counters(1000.0)), 5.3)
    session.process(Line(traffic=TrafficLine(1001.0, "x", "output")), 6.1)
    assert host.offset.seconds == pytest.approx(994.9) and host.offset.uncertainty is None
    session.process(Line(clock=Clock(7.0, 995.0, 0.001)), 7.0)
    known = host.offset
    assert known.seconds == 995.0 and known.uncertainty == 0.001
