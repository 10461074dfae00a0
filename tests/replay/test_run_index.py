"""Which runs are in a recording, and what they were asked to do."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Line, TrafficLine, TrafficRequest, TrafficTools
from nictop.recording.reader import Recording
from nictop.replay.old_recordings import recorded_plan
from nictop.replay.run_index import RunMarks, run_at, run_marks
from nictop.traffic.generators import generator_arguments
from nictop.traffic.plan.plan import Endpoint, Generator, RunPlan, TestKind
from nictop.traffic.plan.plan_problems import plan_problems
from tests.support.recordings import TimedItem, host_items, write_recording

IPERF3 = TrafficTools(
    path="/usr/bin/iperf3",
    version="iperf 3.18 (cJSON 1.7.15)",
    options=(
        "--json-stream",
        "--connect-timeout",
        "--bidir",
        "--bitrate",
        "--affinity",
        "--forceflush",
    ),
)


def traffic_item(host: str, id: str, kind: str, time: float) -> TimedItem:
    return host, Line(traffic=TrafficLine(time, id, kind)), time  # type: ignore[arg-type]


def test_runs_by_their_marks(tmp_path: Path) -> None:
    path = tmp_path / "a.nictop"
    items = [*host_items("a", 40), *host_items("b", 40)]
    items += [
        traffic_item("b", "one-s", "started", 1010.0),
        traffic_item("a", "one-c", "started", 1010.5),
    ]
    items += [
        traffic_item("a", "one-c", "exit", 1020.0),
        traffic_item("b", "one-s", "exit", 1020.5),
    ]
    items += [
        traffic_item("b", "two-s2", "started", 1030.0),
        traffic_item("a", "two-c", "started", 1030.5),
    ]
    items += [
        traffic_item("a", "two-c", "exit", 1035.0),
        traffic_item("a", "somebody else's", "started", 1036.0),
    ]
    items.sort(key=lambda one: one[2])
    write_recording(path, items)
    with Recording.open(str(path)) as recording:
        one, two = run_marks(recording)
    assert one == RunMarks("one", 1010.0, 1020.5, "a", "b")
    assert two == RunMarks("two", 1030.0, None, "a", "b")
    assert one.is_complete
    assert [run_at((one, two), moment) for moment in (0.0, 1010.0, 1025.0, 1030.0, 2000.0)] == [
        0,
        0,
        0,
        1,
        1,
    ]
    assert run_at((), 5.0) is None


# -------------------------------------------------------------------------------------------- plans


@st.composite
def plans(draw: st.DrawFn) -> RunPlan:
    """Those that may be carried out."""
    udp = draw(st.booleans())
    generator: Generator = draw(st.sampled_from(["iperf3", "builtin"]))

    def maybe(low: int, high: int) -> int | None:
        return draw(st.none() | st.integers(low, high))

    test: TestKind = (
        "bulk" if generator == "iperf3" else draw(st.sampled_from(["bulk", "rr", "crr"]))
    )
    if test != "bulk":
        sizes = st.integers(8, 60000)
        return RunPlan(
            Endpoint("a", None, "192.0.2.1"),
            Endpoint("b", None, "192.0.2.2"),
            generator=generator,
            test=test,
            protocol="udp" if udp else "tcp",
            request_size=draw(sizes),
            response_size=draw(sizes),
            files=draw(st.none() | st.integers(1, 1000)),
            rate=draw(st.none() | st.integers(1, 1000)),
            streams=draw(st.integers(1, 64)),
        )
    return RunPlan(
        Endpoint("a", None, "192.0.2.1"),
        Endpoint("b", None, "192.0.2.2"),
        direction=draw(
            st.sampled_from(["forward", "reverse"] + ["bidirectional"] * (generator == "iperf3"))
        ),
        generator=generator,
        protocol="udp" if udp else "tcp",
        bitrate=maybe(1000, 10**10),
        time=draw(st.integers(1, 1000)),
        omit=draw(st.integers(0, 10)),
        streams=draw(st.integers(1, 64)),
        length=maybe(64, 1400),
        mss=None if udp else maybe(500, 9000),
        window=maybe(4096, 10**6),
        congestion=None if udp else draw(st.sampled_from([None, "bbr", "cubic"])),
        dscp=maybe(0, 63),
        client_cpu=maybe(0, 60),
        server_cpu=maybe(0, 60),
        zerocopy=draw(st.booleans()) and generator == "iperf3" and not udp,
        port=draw(st.integers(1, 65535)),
        interval=draw(st.sampled_from([0.1, 0.5, 1.0, 2.0])),
    )


def asked(plan: RunPlan) -> tuple[TrafficRequest, TrafficRequest]:
    client, server = (
        TrafficRequest(
            f"x-{side[0]}",
            "start",
            role=side,
            generator=plan.generator,
            arguments=generator_arguments(plan, side, IPERF3),
            port=plan.port,
            address=plan.server.address,
        )
        for side in ("client", "server")
    )
    return client, server


EMPTY = (Snapshot.empty("a"), Snapshot.empty("b"))


@given(plans())
def test_a_plan_is_made_again_from_the_requests(plan: RunPlan) -> None:
    if not plan_problems(plan):
        assert recorded_plan(*asked(plan), EMPTY) == plan


words = st.lists(
    st.sampled_from(["-t", "-P", "-i", "-b", "-S", "--time", "-A", "-B"])
    | st.text(string.printable),
    max_size=12,
)


@given(words, words, st.none() | st.text(), st.integers())
def test_words_that_mean_nothing_give_a_plan_that_holds_or_none(
    client: list[str], server: list[str], address: str | None, port: int
) -> None:
    one = TrafficRequest(
        "x-c", "start", role="client", generator="iperf3", arguments=tuple(client), address=address
    )
    other = TrafficRequest(
        "x-s", "start", role="server", arguments=tuple(server), port=port, address=address
    )
    plan = recorded_plan(one, other, EMPTY)
    assert plan is None or plan_problems(plan) == ()


@pytest.mark.parametrize("option", ["-i", "-t"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e400", "9" * 5000])
def test_numbers_that_are_none(option: str, value: str) -> None:
    plan = RunPlan(Endpoint("a", None, "192.0.2.1"), Endpoint("b", None, "192.0.2.2"))
    client, server = asked(plan)
    wrong = replace(client, arguments=(*client.arguments, option, value))
    assert recorded_plan(wrong, server, EMPTY) is None
