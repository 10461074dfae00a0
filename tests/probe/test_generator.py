"""Generators of traffic started by a real probe: iperf3 and the built-in one over veth, and that none of them stays."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nictop.probe import generator, iperf3_command
from nictop.probe.generator import Generators
from nictop.probe.records import TrafficLine
from nictop.wire.bundle import bundle
from nictop.wire.remote_command import RemoteCommand
from tests.support import namespaces
from tests.support.probe import Probe, alive, interpreters, wait_until
from tests.support.traffic import (
    IPV4,
    IPV6,
    MARK,
    PORT,
    Cable,
    cable,
    heard,
    marked,
    said,
    start,
    strays,
    until_the_end,
)

NO_NAMESPACES = namespaces.why_impossible()
PYTHONS = interpreters(("python3.9", "python3.10", "python3.11", "python3.12", "python3.13"))
GENERATORS = [
    pytest.param("iperf3", marks=pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed")),
    "builtin",
]


@pytest.fixture(scope="module")
def wire() -> Iterator[Cable]:
    if NO_NAMESPACES:
        pytest.skip(NO_NAMESPACES)
    with cable() as made:
        yield made


@pytest.fixture
def ends(wire: Cable) -> Iterator[tuple[Probe, Probe]]:
    """A probe at the client's end, and one at the server's."""
    with (
        Probe("--interval", "60", namespace=wire.left) as client,
        Probe("--interval", "60", namespace=wire.right) as server,
    ):
        yield client, server


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """In the environment of all processes that the test causes."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(MARK, value)
    return value


Run = tuple[list[TrafficLine], list[TrafficLine]]


def run(
    ends: tuple[Probe, Probe], generator: str, *arguments: str, addresses: tuple[str, str] = IPV4, **fields: Any
) -> Run:
    """A whole run: what is said of the client, and of the server."""
    client, server = ends
    mine = [word for word in arguments if word in ("--udp",)] if generator == "builtin" else []
    server.ask(start("server", generator, *mine, address=addresses[1], **fields))
    before = heard(server, "server", "listening", "failed", "exit")
    assert before[-1].kind == "listening"
    client.ask(start("client", generator, *arguments, address=addresses[1], **fields))
    return until_the_end(client, "client"), before + heard(server, "server", "exit")


def output(lines: list[TrafficLine]) -> str:
    return "\n".join(line.text for line in lines if line.kind == "output" and line.stream == "stdout")


def check_order(lines: list[TrafficLine]) -> None:
    """Of one child, as `records.TrafficLine` promises it."""
    kinds = [line.kind for line in lines]
    assert kinds[0] == "started" and kinds[-1] == "exit" and lines[-1].status == 0, lines[-5:]
    assert kinds.count("started") == kinds.count("exit") == 1 and "failed" not in kinds
    assert lines[0].pid and not alive(lines[0].pid)
    assert [line.time for line in lines] == sorted(line.time for line in lines)


# ------------------------------------------------------------------------------------------- iperf3


@pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed")
@pytest.mark.parametrize(
    ("arguments", "addresses", "sums"),
    [
        ((), IPV4, ("sum_sent",)),
        (("-R",), IPV4, ("sum_received",)),
        (("--bidir",), IPV4, ("sum_sent", "sum_received_bidir_reverse")),
        (("-P", "4"), IPV4, ("sum_sent",)),
        (("-M", "500"), IPV4, ("sum_sent",)),
        ((), IPV6, ("sum_sent",)),
    ],
    ids=["tcp", "reverse", "bidirectional", "four streams", "mss", "ipv6"],
)
def test_iperf3(
    ends: tuple[Probe, Probe], arguments: tuple[str, ...], addresses: tuple[str, str], sums: tuple[str, ...]
) -> None:
    """The sockets' figures are those that iperf3 itself gives for the same run, less what came after the last look."""
    client, server = run(ends, "iperf3", "-J", "-t", "1", *arguments, addresses=addresses, sockets=True, interval=0.1)
    check_order(client)
    report = json.loads(output(client))
    assert "error" not in report
    looks = [line for line in client if line.kind == "sockets"]
    assert len(looks) >= 5
    for one in (one for look in looks for one in look.sockets):
        assert {one.local, one.remote} == set(addresses) and one.remote_port == PORT
    full = max(looks, key=lambda look: sum((one.bytes_acked or 0) + (one.bytes_received or 0) for one in look.sockets))
    moved = {name: sum(getattr(one, name) for one in full.sockets) for name in ("bytes_acked", "bytes_received")}
    last = (full.time - looks[0].time + 0.1) / (client[-1].time - client[0].time)
    directions = {"sum_sent": "bytes_acked"} if "sum_sent" in sums else {}
    if len(sums) > 1 or "sum_received" in sums:
        directions[sums[-1]] = "bytes_received"
    for name, field in directions.items():
        whole = report["end"][name]["bytes"]
        assert 0.5 * last * whole < moved[field] <= 1.05 * whole  # a receiver may leave something unread
    if "-M" in arguments:  # timestamps take 12 bytes
        assert {one.snd_mss for one in full.sockets if one.bytes_acked and one.bytes_acked > 100_000} == {488}
    if "-P" in arguments:
        assert len(full.sockets) == 5  # and the control connection
    check_order(server)
    assert [line.kind for line in server].count("exit") == 1


@pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed")
def test_iperf3_udp(ends: tuple[Probe, Probe]) -> None:
    client, server = run(ends, "iperf3", "-u", "-b", "50M", "-t", "1", "-J")
    check_order(client)
    check_order(server)
    report = json.loads(output(client))["end"]["sum"]
    assert report["packets"] > 1000 and report["bits_per_second"] == pytest.approx(50e6, rel=0.1)


# ------------------------------------------------------------------------------------------- the built-in one


def events(lines: list[TrafficLine], kind: str) -> list[dict[str, Any]]:
    parsed = [json.loads(line.text) for line in lines if line.kind == "output" and line.stream == "stdout"]
    assert not [event for event in parsed if event["event"] == "error"], parsed
    return [event for event in parsed if event["event"] == kind]


@pytest.mark.parametrize(
    ("arguments", "addresses"),
    [
        ((), IPV4),
        (("--reverse",), IPV4),
        (("--streams", "4"), IPV4),
        (("--streams", "3", "--reverse"), IPV6),
        (("--mss", "500"), IPV4),
        (("--bytes", "512"), IPV4),
        (("--length", "8M"), IPV6),
        (("--bitrate", "80M", "--window", "256K", "--congestion", "reno", "--no-delay", "--tos", "8"), IPV4),
    ],
    ids=" ".join,
)
def test_built_in_tcp(
    wire: Cable, ends: tuple[Probe, Probe], arguments: tuple[str, ...], addresses: tuple[str, str]
) -> None:
    """Both ends count the same bytes, and no more than the interface carried."""
    direction = "rx" if "--reverse" in arguments else "tx"
    before = interface_bytes(wire, direction)
    client, server = run(ends, "builtin", "--time", "0.6", "--interval", "0.2", *arguments, addresses=addresses)
    carried = interface_bytes(wire, direction) - before
    check_order(client)
    check_order(server)
    [begun], [mine], [theirs] = events(client, "start"), events(client, "end"), events(server, "end")
    intervals = events(client, "interval")
    assert mine["bytes"] == theirs["bytes"] == sum(mine["streams"])
    # what was in flight at the last reading is in no interval: little, or as much as a socket of that window holds
    in_flight = 2 * 256 * 1024 if "--window" in arguments else 0.03 * mine["bytes"]
    assert mine["bytes"] - in_flight <= sum(one["bytes"] for one in intervals) <= mine["bytes"]
    assert 0 < mine["bytes"] < carried
    assert mine["seconds"] == pytest.approx(0.6, abs=0.3) and len(intervals) >= 3
    assert mine["sender"] is not theirs["sender"] and mine["sender"] is ("--reverse" not in arguments)
    assert len(mine["streams"]) == begun["streams"] == len(begun["connections"])
    assert mine["cpu_user"] + mine["cpu_system"] < 0.9 * begun["streams"]
    if "--mss" in arguments:
        assert mine["snd_mss"] == theirs["snd_mss"] == 488
    if "--bitrate" in arguments:
        assert begun["congestion_control"] == "reno"
        assert mine["bytes"] * 8 / mine["seconds"] == pytest.approx(80e6, rel=0.25)


def interface_bytes(wire: Cable, direction: str) -> int:
    return int(wire.left.run(["cat", f"/sys/class/net/wire/statistics/{direction}_bytes"]))


@pytest.mark.parametrize("arguments", [(), ("--reverse",), ("--streams", "3"), ("--length", "4000")], ids=" ".join)
def test_built_in_udp(ends: tuple[Probe, Probe], arguments: tuple[str, ...]) -> None:
    client, server = run(ends, "builtin", "--udp", "--bitrate", "40M", "--time", "0.6", *arguments)
    check_order(client)
    check_order(server)
    [mine], [theirs] = events(client, "end"), events(server, "end")
    sender, receiver = (mine, theirs) if mine["sender"] else (theirs, mine)
    assert receiver["packets"] + receiver["lost"] == sender["packets"] > 100
    assert receiver["lost"] <= sender["packets"] // 20 and receiver["out_of_order"] == 0 <= receiver["jitter"]
    rate = sender["bytes"] * 8 / sender["seconds"]
    assert rate == pytest.approx(40e6 * len(sender["streams"]), rel=0.15)


def test_built_in_omits_the_beginning(ends: tuple[Probe, Probe]) -> None:
    client, server = run(ends, "builtin", "--time", "0.5", "--omit", "0.3", "--interval", "0.2")
    [theirs] = events(server, "end")
    assert theirs["seconds"] == pytest.approx(0.5, abs=0.2)
    assert [one["omitted"] for one in events(server, "interval")].count(True) == 1
    intervals = events(client, "interval")
    omitted = [one for one in intervals if one["omitted"]]
    assert [one["start"] for one in omitted] == [0.0, pytest.approx(0.2, abs=0.1)]
    kept = [one for one in intervals if not one["omitted"]]
    assert kept[0]["start"] == 0.0
    [end] = events(client, "end")
    assert end["bytes"] == pytest.approx(sum(one["bytes"] for one in kept), rel=0.03)
    assert end["seconds"] == pytest.approx(0.5, abs=0.2)


def test_built_in_server_is_not_fooled_by_strangers(wire: Cable, ends: tuple[Probe, Probe]) -> None:
    """A connection that says nothing, one that says something else, and one that has gone before the client comes."""
    client, server = ends
    server.ask(start("server", "builtin", address=IPV4[1]))
    said(server, "listening")

    def knock() -> list[socket.socket]:
        strangers = [socket.create_connection((IPV4[1], PORT), 5) for _ in range(3)]
        strangers[1].send(b"GET / HTTP/1.1\r\n" * 20)
        strangers[2].close()
        return strangers

    strangers = wire.left.inside(knock)
    try:
        client.ask(start("client", "builtin", "--time", "0.2", address=IPV4[1]))
        check_order(until_the_end(client, "client"))
        assert heard(server, "server", "exit")[-1].status == 0
        assert not strangers[1].recv(100)
    except ConnectionResetError:
        pass  # closed with something unread: that is no answer either
    finally:
        for stranger in strangers:
            stranger.close()


class Travelled(Probe):
    """A probe whose sources came over stdin, as on another machine."""

    def __init__(self, python: str, folder: Path) -> None:
        packed = bundle()
        (folder / "python3").symlink_to(python)
        command = RemoteCommand(["--interval", "60"], len(packed.start), len(packed.frames))
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", command.line()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": f"{folder}:/usr/bin:/bin"},
        )
        self._buffer = b""
        self.ask(packed.first + packed.rest)
        for line in self.raw_lines():
            if b" ready " in line:
                break


@pytest.mark.parametrize("python", PYTHONS or [pytest.param("", marks=pytest.mark.skip("no Python found"))])
def test_every_python_makes_traffic_from_memory(python: str, tmp_path: Path) -> None:
    with Travelled(python, tmp_path) as probe:
        probe.ask({"traffic": {"id": "c", "action": "check"}})
        tools = said(probe, "tools", "failed").tools
        assert tools is not None and tools.congestion_controls
        for udp in ([], ["--udp", "--bitrate", "20M"]):
            probe.ask(start("server", "builtin", *udp[:1], address="127.0.0.1"))
            lines = heard(probe, "server", "listening", "exit", "failed")
            assert lines[-1].kind == "listening", lines
            probe.ask(start("client", "builtin", "-t", "0.2", "-P", "2", *udp, address="127.0.0.1", sockets=True))
            ended = [said(probe, "exit"), said(probe, "exit")]
            assert {line.id for line in ended} == {"client", "server"} and {line.status for line in ended} == {0}


# ------------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize("name", GENERATORS)
def test_a_port_that_is_taken_is_said(wire: Cable, ends: tuple[Probe, Probe], name: str) -> None:
    def occupy() -> socket.socket:
        return socket.create_server((IPV4[1], PORT))

    _, server = ends
    with wire.right.inside(occupy):
        server.ask(start("server", name, address=IPV4[1]))
        lines = until_the_end(server, "server")
    assert lines[-1].kind == "exit" and lines[-1].status == 1
    assert "ddress already in use" in "".join(line.text for line in lines)
    assert "listening" not in [line.kind for line in lines]


@pytest.mark.parametrize("name", GENERATORS)
def test_a_client_without_server_says_why(ends: tuple[Probe, Probe], name: str) -> None:
    client, _ = ends
    client.ask(start("client", name, address=IPV4[1]))
    lines = until_the_end(client, "client")
    assert lines[-1].status == 1
    assert "onnection refused" in "".join(line.text for line in lines)


@pytest.mark.parametrize("name", GENERATORS)
def test_stop_ends_it_and_its_children(mark: str, ends: tuple[Probe, Probe], name: str) -> None:
    client, server = ends
    for number in range(20):
        port = PORT + number
        server.ask(start("server", name, address=IPV4[1], port=port))
        first = said(server, "listening", "failed")
        if "no generator of this name" in first.text:  # the last one had ended before it was to be stopped
            first = said(server, "listening", "failed")
        assert first.kind == "listening", first.text
        client.ask(start("client", name, "-P", "2", "-t", "20", address=IPV4[1], port=port, sockets=True, interval=0.1))
        assert len(said(client, "sockets", "exit", name="client").sockets) >= 2
        client.ask({"traffic": {"id": "client", "action": "stop"}})
        server.ask({"traffic": {"id": "server", "action": "stop"}})
        said(client, "exit", name="client")
        said(server, "exit", name="server")
        wait_until(lambda: set(marked(mark)) == {client.process.pid, server.process.pid})
    client.ask({"traffic": {"id": "client", "action": "stop"}})
    assert "no generator of this name" in said(client, "failed").text


@pytest.mark.parametrize("name", GENERATORS)
def test_its_time_ends_it(ends: tuple[Probe, Probe], name: str) -> None:
    _, server = ends
    server.ask(start("server", name, address=IPV4[1], deadline=0.3))
    lines = until_the_end(server, "server")
    assert [line.kind for line in lines if line.kind in ("failed", "exit")] == ["failed", "exit"]
    assert "0.3 s" in next(line.text for line in lines if line.kind == "failed")
    wait_until(lambda: not server.children())


@pytest.mark.parametrize("name", GENERATORS)
def test_a_black_hole_is_survived(wire: Cable, ends: tuple[Probe, Probe], name: str) -> None:
    """The cable is cut while the traffic runs: stop and deadline end what waits for ever."""
    client, server = ends
    server.ask(start("server", name, address=IPV4[1], deadline=25))
    said(server, "listening")
    client.ask(start("client", name, "-t", "20", address=IPV4[1], deadline=1.5, sockets=True, interval=0.1))
    said(client, "sockets")
    wire.left.run(["ip", "link", "set", "wire", "down"])
    try:
        assert "1.5 s" in said(client, "failed").text
        assert said(client, "exit").kind == "exit"
        server.ask({"traffic": {"id": "server", "action": "stop"}})
        said(server, "exit")
        wait_until(lambda: not client.children() and not server.children())
    finally:
        wire.left.run(["ip", "link", "set", "wire", "up"])
        wire.left.run(["ip", "address", "replace", f"{IPV6[0]}/64", "dev", "wire", "nodad"])


# ------------------------------------------------------------------------------------------- nobody stays behind


def made_session(probe: Probe) -> bool:
    return any(os.getsid(pid) == pid for pid in probe.children())


STAGES: dict[str, Callable[[Probe], object]] = {
    "asked": lambda probe: None,
    "forked": lambda probe: wait_until(probe.children),
    "in its session": lambda probe: wait_until(lambda: safely(made_session, probe)),
    "started": lambda probe: said(probe, "started"),
    "listening": lambda probe: said(probe, "listening"),
}


def safely(fact: Callable[[Probe], bool], probe: Probe) -> bool:
    try:
        return fact(probe)
    except ProcessLookupError:
        return False


def killed(probe: Probe) -> None:
    probe.process.kill()


def told_to_end(probe: Probe) -> None:
    probe.process.terminate()


def left_alone(probe: Probe) -> None:
    assert probe.process.stdin is not None
    probe.process.stdin.close()


@pytest.mark.skipif(NO_NAMESPACES is not None, reason=str(NO_NAMESPACES))
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("end", [killed, told_to_end, left_alone], ids=lambda end: end.__name__)
@pytest.mark.parametrize("name", GENERATORS)
def test_no_server_outlives_the_probe(
    wire: Cable, mark: str, name: str, end: Callable[[Probe], None], stage: str
) -> None:
    for _ in range(20):
        with Probe("--interval", "60", namespace=wire.right) as probe:
            probe.until(lambda line: line.counters)
            probe.ask(start("server", name, address=IPV4[1]))
            STAGES[stage](probe)
            end(probe)
            probe.process.wait(15)
        wait_until(lambda: not marked(mark))


@pytest.mark.skipif(NO_NAMESPACES is not None, reason=str(NO_NAMESPACES))
@pytest.mark.parametrize("end", [killed, told_to_end, left_alone], ids=lambda end: end.__name__)
@pytest.mark.parametrize("name", GENERATORS)
def test_nothing_outlives_the_probes_while_it_runs(
    wire: Cable, mark: str, name: str, end: Callable[[Probe], None]
) -> None:
    """Both ends with four streams under full load, killed in turn."""
    for number in range(20):
        with (
            Probe("--interval", "60", namespace=wire.left) as client,
            Probe("--interval", "60", namespace=wire.right) as server,
        ):
            server.ask(start("server", name, address=IPV4[1]))
            said(server, "listening")
            client.ask(start("client", name, "-P", "4", "-t", "20", address=IPV4[1], sockets=True, interval=0.1))
            said(client, "sockets")
            assert len(marked(mark)) >= 4
            for probe in (client, server) if number % 2 else (server, client):
                end(probe)
                probe.process.wait(15)
        wait_until(lambda: not marked(mark))


@pytest.mark.parametrize("name", GENERATORS)
def test_a_child_that_is_killed_leaves_nothing(ends: tuple[Probe, Probe], name: str) -> None:
    client, server = ends
    for _ in range(20):
        server.ask(start("server", name, address=IPV4[1]))
        said(server, "listening")
        client.ask(start("client", name, "-P", "2", "-t", "20", address=IPV4[1], sockets=True, interval=0.1))
        pid = said(client, "started").pid
        assert pid is not None
        said(client, "sockets")
        os.kill(pid, signal.SIGKILL)
        gone = said(client, "exit")
        assert gone.signal == signal.SIGKILL and gone.status is None
        server.ask({"traffic": {"id": "server", "action": "stop"}})
        said(server, "exit", "failed")
        wait_until(lambda: not client.children() and not server.children())


# ------------------------------------------------------------------------------------------- strange iperf3s


FAKES = {
    "floods": "while :; do echo x; done",
    "prints one endless line": "exec tr '\\0' x </dev/zero",
    "hangs": "trap '' TERM; while :; do read -r line <>/dev/ptmx; done",
    "closes its pipes": "exec >&- 2>&-; while :; do read -r line <>/dev/ptmx; done",
    "prints bytes": "printf '\\377\\033[2J\\0\\r\\n'; exit 3",
    "leaves a child": "(trap '' TERM; while :; do read -r line <>/dev/ptmx; done) & exit 0",
}


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str) -> Callable[[str], None]:
    """Puts a program of that name ahead of the real one."""

    def put(script: str) -> None:
        path = tmp_path / "iperf3"
        path.write_text(script if script.startswith("#") else f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return put


@pytest.mark.parametrize("kind", FAKES)
def test_a_strange_iperf3_is_survived(kind: str, fake: Callable[[str], None], mark: str) -> None:
    fake(FAKES[kind])
    with Probe("--interval", "0.1") as probe:
        probe.ask(start("server", "iperf3", address="127.0.0.1", deadline=1.0))
        lines = until_the_end(probe, "server")
        probe.until(lambda line: line.counters)
        wait_until(lambda: not strays(mark, probe))
        last = lines[-1]
        if kind == "prints bytes":
            assert last.status == 3 and lines[1].text.startswith("\ufffd\x1b[2J\0")
        elif kind == "leaves a child":
            assert last.status == 0
        elif kind == "closes its pipes":
            assert last.signal == signal.SIGTERM
        else:
            assert last.signal in (signal.SIGTERM, signal.SIGKILL)
            assert [line.kind for line in lines].count("failed") == 1
    wait_until(lambda: not marked(mark))


def test_an_iperf3_that_cannot_be_run_is_said(fake: Callable[[str], None], mark: str) -> None:
    fake("#!/nonexistent/interpreter")
    with Probe("--interval", "60") as probe:
        probe.ask(start("server", "iperf3", address="127.0.0.1"))
        assert said(probe, "started", "failed").text == "cannot be started: No such file or directory"
        wait_until(lambda: not strays(mark, probe))


def test_a_host_without_iperf3_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(iperf3_command, "PLACES", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    heard: list[dict[str, Any]] = []

    def say(fields: dict[str, Any], *, dispensable: bool = False) -> None:
        heard.append(fields)

    generators = Generators(say, select.poll())
    generators.obey(start("client", "iperf3", address="127.0.0.1")["traffic"], 0.0)
    assert [(line["kind"], line["text"]) for line in heard] == [("failed", "iperf3 is not installed")]
    assert generators.next_moment(0.0) is None


# ------------------------------------------------------------------------------------------- the check


@pytest.mark.skipif(not shutil.which("iperf3"), reason="iperf3 is not installed")
def test_tools_are_found(mark: str) -> None:
    with Probe("--interval", "60") as probe:
        probe.ask({"traffic": {"id": "c", "action": "check"}})
        tools = said(probe, "tools", "failed").tools
        wait_until(lambda: not strays(mark, probe))
    assert tools is not None and tools.path == shutil.which("iperf3")
    assert tools.version.startswith("iperf 3.") and {"--reverse", "--forceflush"} <= set(tools.options)
    assert tools.congestion_control in tools.congestion_controls
    assert set(tools.allowed_congestion_controls) <= set(tools.congestion_controls)
    assert tools.cpus == tuple(sorted(os.sched_getaffinity(0))) and not tools.unreadable


@pytest.mark.parametrize(
    ("script", "reason", "word"),
    [
        (FAKES["hangs"], "failed", "did not end"),
        ("echo hello", "malformed", "hello"),
        ("#!/nonexistent/interpreter", "failed", "No such file"),
        ("kill -9 $$", "malformed", "says ''"),
    ],
)
def test_tools_that_are_none_are_data(
    fake: Callable[[str], None], mark: str, script: str, reason: str, word: str
) -> None:
    fake(script)
    with Probe("--interval", "60") as probe:
        probe.ask({"traffic": {"id": "c", "action": "check"}})
        tools = said(probe, "tools", "failed").tools
        assert tools is not None and tools.version == "" and tools.options == ()
        assert tools.unreadable["version"].reason == reason and word in tools.unreadable["version"].detail
        assert tools.congestion_controls
    wait_until(lambda: not marked(mark))


# ------------------------------------------------------------------------------------------- limits


def test_what_is_not_understood_is_said() -> None:
    with Probe("--interval", "60") as probe:
        for change, word in (
            ({"id": ""}, "id is not"),
            ({"id": "a\nb"}, "id is not"),
            ({"action": "restart"}, "action is not one of"),
            ({"role": None}, "role is not one of"),
            ({"port": 0}, "port is not"),
            ({"port": True}, "port is not"),
            ({"address": "localhost"}, "address is not"),
            ({"role": "client", "address": None}, "a client needs"),
            ({"deadline": 0}, "deadline is not"),
            ({"deadline": 1e9}, "deadline is not"),
            ({"sockets": True, "interval": -1}, "interval is not"),
            ({"arguments": "--reverse"}, "arguments is not"),
            ({"arguments": ["--logfile", "x"]}, "does not pass '--logfile'"),
            ({"arguments": ["--logf=x"]}, "does not pass '--logf=x'"),
            ({"arguments": ["-D"]}, "does not pass '-D'"),
            ({"arguments": ["-t", "-F"]}, "'-F' is no value of -t"),
            ({"arguments": ["-t"]}, "'' is no value of -t"),
            ({"generator": "builtin", "arguments": ["--file", "x"]}, "no option '--file'"),
            ({"generator": "builtin", "arguments": ["--length", "9M"]}, "is no value of --length"),
        ):
            request = start("server", "iperf3", address="127.0.0.1")
            request["traffic"].update(change)
            probe.ask(request)
            line = said(probe, "failed", "started")
            assert word in line.text, (change, line)
        assert not [pid for pid in probe.children() if os.getsid(pid) == pid]


def test_so_many_and_no_more() -> None:
    with Probe("--interval", "60") as probe:
        for number in range(generator.MOST + 1):
            probe.ask(start("server", "builtin", address="127.0.0.1", id=f"s{number}", port=PORT + number))
        probe.ask(start("server", "builtin", address="127.0.0.1", id="s0", port=PORT))
        text = said(probe, "failed").text
        assert text == f"{generator.MOST} generators run already"
        assert said(probe, "failed").text == "a generator of this name runs already"
    assert probe.process.returncode == 0


def test_whoever_does_not_read_is_not_flooded(fake: Callable[[str], None], mark: str) -> None:
    """A child that prints waits at its pipe while nobody reads the probe's lines, and nothing of it is lost."""
    fake('for ((i = 0; i < 15000; i++)); do echo "$i ' + "x" * 500 + '"; done')
    with Probe("--interval", "60") as probe:
        probe.ask(start("client", "iperf3", address="127.0.0.1"))
        wait_until(lambda: [pid for pid in probe.children() if os.getsid(pid) == pid])
        [child] = [pid for pid in probe.children() if os.getsid(pid) == pid]
        wait_until(lambda: "pipe_write" in Path(f"/proc/{child}/wchan").read_text())
        lines = until_the_end(probe, "client")
    texts = [line.text.split()[0] for line in lines if line.kind == "output"]
    assert texts == [str(number) for number in range(15000)]


def test_the_parent_stays_small() -> None:
    """Neither what describes records nor what only children need."""
    code = (
        "import select, sys, nictop.probe.generator as g\n"
        "lines = []\n"
        "made = g.Generators(lambda fields, dispensable=False: lines.append(fields), select.poll())\n"
        "made.obey({'id': 'a', 'action': 'start', 'role': 'server', 'generator': 'builtin', 'port': 1,\n"
        "           'address': '127.0.0.1', 'deadline': 1, 'arguments': ['--mss', '500']}, 0.0)\n"
        "made.end_all()\n"
        "print(sorted({'dataclasses', 'typing', 'subprocess', 'ctypes', 'asyncio'} & set(sys.modules)), lines)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(namespaces.ROOT)!r})\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[] []"
