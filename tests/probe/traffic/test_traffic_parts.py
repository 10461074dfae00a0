"""Parts of traffic runs: requests, allowed options, handshake, socket statistics, child processes,
paths."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe import records
from nictop.probe.kernel.netlink import pack_attribute
from nictop.probe.kernel.route_lookup import RTMSG
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.traffic import child as child_module
from nictop.probe.traffic.builtin.handshake import (
    CHALLENGE,
    GREETING,
    TOKEN_BYTES,
    Greeting,
    packed_challenge,
    parse_challenge,
    parse_greeting,
)
from nictop.probe.traffic.builtin.options import MAX_STREAM_MESSAGE_BYTES, parse_options
from nictop.probe.traffic.builtin.reports import ReportSchedule
from nictop.probe.traffic.child import MAX_OUTPUT_LINE_BYTES, PASSED_ON, TrafficChild, terminate_all
from nictop.probe.traffic.generators import Generator
from nictop.probe.traffic.iperf3 import (
    IPERF3_FLAGS,
    IPERF3_VALUES,
    checked_options,
    find_iperf3,
    iperf3_arguments,
)
from nictop.probe.traffic.listening import parse_listeners, read_listening
from nictop.probe.traffic.path import FoundRoute, parse_found_route, read_path
from nictop.probe.traffic.requests import TrafficCommand, is_address, request_id
from nictop.probe.traffic.sock_diag import (
    SocketDiagnosis,
    parse_address,
    parse_socket,
    parse_socket_link,
    parse_tcp_info,
    read_socket_inodes,
)
from nictop.probe.traffic.tools import parse_options as parse_help
from nictop.probe.traffic.tools import read_tools
from nictop.wire.codec import decode, encode_request
from tests.support.probe import is_alive, wait_until

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
START: dict[str, Any] = {
    "id": "a", "action": "start", "role": "server", "generator": "iperf3", "port": 5201,
    "deadline": 10,
}  # fmt: skip


# ----------------------------------------------------------------------------------------- requests


def test_command_has_the_fields_of_the_record() -> None:
    request = records.TrafficRequest(
        "r1",
        "start",
        "client",
        "builtin",
        ("--time", "5"),
        5201,
        "fe80::1%wire",
        9.5,
        sockets=True,
        interval=0.2,
        cookie="0f" * 16,
        peer="fe80::2",
    )
    line = encode_request(records.Request(traffic=request))
    command = TrafficCommand(json.loads(line)["traffic"])
    assert {name: getattr(command, name) for name in field_mapping(request)} == field_mapping(
        request
    ) | {"arguments": ["--time", "5"]}


@given(
    st.dictionaries(st.sampled_from([*records.TrafficRequest.__dataclass_fields__]), JSON_VALUES)
)
def test_arbitrary_request_is_refused_or_valid(fields: dict[str, object]) -> None:
    for request in (fields, START | fields):
        try:
            command = TrafficCommand(request)
        except ValueError as error:
            assert str(error)
            continue
        assert 1 <= len(command.id) <= 64 and command.id.isascii() and command.id.isprintable()
        if command.action == "start":
            assert (
                0 < command.port < 65536
                and 0 < command.deadline <= 86400
                and 0.1 <= command.interval <= 60
            )
            assert not command.address or is_address(command.address)


@pytest.mark.parametrize(
    ("address", "valid"),
    [
        ("192.0.2.1", True), ("2001:db8::1", True), ("::ffff:192.0.2.1", True), ("fe80::1%ens3",
            True),
        ("fe80::1%", False), ("192.0.2.1%ens3", False), ("fe80::1%a b", False), ("-s", False), ("",
            False),
        ("192.0.2", False), ("localhost", False), ("192.0.2.1\n", False), ("fe80::1%\u202e",
            False), (4, False),
    ],
)  # fmt: skip
def test_addresses(address: object, valid: bool) -> None:
    assert is_address(address) is valid


@pytest.mark.parametrize("name", ["", " ", "a b", "é", "a" * 65, "\x1b[2J", 7, None])
def test_invalid_ids(name: object) -> None:
    with pytest.raises(ValueError, match="id is not"):
        request_id({"id": name})


# ------------------------------------------------------------------------------------------ options


UNSAFE_OPTIONS = [
    "--logfile", "-F", "--file", "-I", "--pidfile", "-D", "--daemon", "--authorized-users-path", "--username",
    "--rsa-private-key-path", "--rsa-public-key-path", "-s", "--server", "-c", "--client", "-p",
    "--port", "-X", "--xbind", "-h", "-v", "-d", "--debug",
]  # fmt: skip


@pytest.mark.parametrize("option", UNSAFE_OPTIONS)
def test_unsafe_iperf3_options_are_refused(option: str) -> None:
    for words in (
        [option],
        [option, "/x"],
        [f"{option}=/x"],
        [option[:-1], "/x"] if len(option) > 4 else [option],
    ):
        with pytest.raises(ValueError, match=r"iperf3 option .* is not allowed"):
            checked_options(words)


STRANGE_VALUES = [
    "",
    "-1",
    "--",
    " 5",
    "5 ",
    "5\n",
    "5\xa0",
    "5\0",
    "-F",
    "--logfile=/x",
    "٥",
    "５",
    "5;x",
]


@pytest.mark.parametrize("value", STRANGE_VALUES, ids=ascii)
def test_strange_option_values_are_refused(value: str) -> None:
    for name in IPERF3_VALUES:
        if name == "--bind-dev" and value in ("٥", "５", "5;x"):
            continue  # a valid interface name
        for words in ([name, value], [f"{name}={value}"]):
            with pytest.raises(
                ValueError, match=r"invalid value of|iperf3 option .* is not allowed"
            ):
                checked_options(words)


@given(
    st.lists(
        st.sampled_from(
            [*IPERF3_FLAGS, *IPERF3_VALUES, *UNSAFE_OPTIONS, "5", "10G/8", "--time=5", "-t5"]
        )
        | st.text(max_size=12)
    )
)
def test_passed_options_are_in_the_allow_list(words: list[str]) -> None:
    try:
        checked = checked_options(words)
    except ValueError:
        return
    assert checked == words
    rest = iter(checked)
    for word in rest:
        name = word.partition("=")[0]
        assert name in IPERF3_FLAGS or name in IPERF3_VALUES
        if name in IPERF3_VALUES and "=" not in word:
            assert not next(rest).startswith("-")


def test_iperf3_command_lines() -> None:
    assert iperf3_arguments("server", 5201, None, ["-i", "1"]) == [
        "-s",
        "-1",
        "-p",
        "5201",
        "-i",
        "1",
    ]
    assert iperf3_arguments("server", 5201, "::1", []) == ["-s", "-1", "-p", "5201", "-B", "::1"]
    assert iperf3_arguments("client", 1, "192.0.2.1", ["-R"]) == [
        "-c",
        "192.0.2.1",
        "-p",
        "1",
        "-R",
    ]
    valid = (
        "-t 5 -O 1 -i 0.5 -b 10G/8 -l 128K -w 1M -M 100 -P 4 -C bbr -A 1,2 --dscp ef -S 0x10 "
        "-B 10.0.0.1%ens3"
    )
    assert checked_options(valid.split()) == valid.split()


@given(
    st.lists(
        st.text(max_size=12)
        | st.sampled_from(["--length", "8M", "-u", "--time=3", "--mss", "1460", "-P", "4"])
    )
)
def test_arbitrary_built_in_options(words: list[str]) -> None:
    try:
        options = parse_options(words)
    except ValueError as error:
        assert str(error)
        return
    assert (
        0 < options.length <= MAX_STREAM_MESSAGE_BYTES
        and 1 <= options.streams <= 128
        and options.time > 0
    )


def test_built_in_options() -> None:
    options = parse_options(
        [
            "--bytes",
            "8M",
            "-P",
            "2",
            "--time=1.5",
            "-O",
            "1",
            "-R",
            "--bitrate",
            "2G",
            "-M",
            "100",
            "--bind",
            "fe80::1%a",
        ]
    )
    assert (options.length, options.streams, options.time, options.omit) == (8 << 20, 2, 1.5, 1.0)
    assert (
        options.reverse
        and options.bitrate == 2 * 10**9
        and options.mss == 100
        and options.bind == "fe80::1%a"
    )
    assert parse_options([]).length == 128 * 1024 and parse_options(["-u"]).length == 1448


@pytest.mark.parametrize(
    "line",
    ["-u -l 64K", "-u -l 8", "-l 8193K", "-P 0", "-P 129", "-t nan", "-t -1", "-M 87",
        "--reverse=1", "-l", "--len 5",
     "-l ١"],
)  # fmt: skip
def test_invalid_built_in_options(line: str) -> None:
    with pytest.raises(ValueError, match=r"invalid value of|no option|datagram size must be"):
        parse_options(line.split())


@given(st.binary(max_size=GREETING.size + 4))
def test_arbitrary_greeting(data: bytes) -> None:
    assert parse_greeting(data) is None or len(data) == GREETING.size
    assert parse_challenge(data) == b"" or len(data) == CHALLENGE.size


@given(
    st.binary(min_size=16, max_size=16),
    st.integers(0, 127),
    st.binary(min_size=TOKEN_BYTES, max_size=TOKEN_BYTES),
)
def test_greeting_round_trip(cookie: bytes, stream: int, token: bytes) -> None:
    sent = Greeting(cookie, stream, token)
    received = parse_greeting(sent.packed())
    assert received is not None and vars(received) == vars(sent)
    changed = bytearray(sent.packed())
    changed[7] += 1  # another version
    assert parse_greeting(bytes(changed)) is None
    challenge = packed_challenge(token)
    assert parse_challenge(challenge) == token and len(challenge) <= GREETING.size


def test_intervals_restart_after_the_omitted_part() -> None:
    report = ReportSchedule(1.0, 1.5)
    assert report.next() == 1.0
    assert report.advance(1.01) == (True, 0.0, 1.01)
    assert report.next() == 1.5
    assert report.advance(1.502) == (True, 1.01, 1.502)
    assert report.next() == 2.502
    assert report.advance(2.503) == (False, 0.0, 1.001)
    assert report.next() == 3.502
    assert report.advance(5.7) == (False, 1.001, 4.198)  # late: includes the missed ones
    assert report.next() == 6.502


def test_help_text() -> None:
    text = (
        "  --dscp N or --dscp val\n -1, --one-off  x\n (equivalent to `--bind-dev <dev>`) "
        "--timestamps<=format> a--b"
    )
    assert parse_help(text) == ("--dscp", "--one-off", "--bind-dev", "--timestamps")


@given(st.text())
def test_arbitrary_help_text(text: str) -> None:
    assert all(option.startswith("--") and option in text for option in parse_help(text))


def test_iperf3_is_searched_in_path_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no").mkdir()
    (
        tmp_path / "no" / "iperf3"
    ).mkdir()  # a directory; tmp_path itself has a file that is not executable
    (tmp_path / "yes").mkdir()
    (tmp_path / "iperf3").write_text("")
    for name in ("yes",):
        (tmp_path / name / "iperf3").write_text("")
        (tmp_path / name / "iperf3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/no:relative:{tmp_path}:{tmp_path}/yes")
    assert find_iperf3() == f"{tmp_path}/yes/iperf3"


def test_tools_without_a_procfs(tmp_path: Path) -> None:
    tools = read_tools(str(tmp_path))
    controls = {"congestion_controls", "allowed_congestion_controls", "congestion_control"}
    assert {
        name for name, unreadable in tools.unreadable.items() if unreadable.reason == "missing"
    } == controls
    assert tools.congestion_controls == () and tools.congestion_control == ""


# ------------------------------------------------------------------------------------------ sockets


@pytest.fixture(
    params=[("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)], ids=["ipv4", "ipv6"]
)
def pair(
    request: pytest.FixtureRequest,
) -> Iterator[tuple[socket.socket, socket.socket, socket.socket]]:
    """(listener, client's end, server's end) on loopback."""
    address, family = request.param
    with ExitStack() as stack:
        try:
            listener = stack.enter_context(socket.create_server((address, 0), family=family))
        except OSError as error:
            pytest.skip(f"no {address} here: {error}")
        client = stack.enter_context(socket.create_connection(listener.getsockname()[:2], 5))
        yield listener, client, stack.enter_context(listener.accept()[0])


def test_statistics_of_real_sockets(
    pair: tuple[socket.socket, socket.socket, socket.socket],
) -> None:
    """Equal to those of getsockopt, for the sockets of this process on this port only."""
    listener, client, server = pair
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        socket.create_connection(other.getsockname()),
    ):
        client.sendall(b"x" * 50_000)
        received = 0
        while received < 50_000:
            received += len(server.recv(65536))
        wait_until(lambda: tcp_info(client)["bytes_acked"] == 50_001)
        port = listener.getsockname()[1]
        diagnosis = SocketDiagnosis()
        found, unreadable = diagnosis.read((os.getpid(),), port)
        diagnosis.close()
    assert unreadable is None and [one["inode"] for one in found] == sorted(
        one["inode"] for one in found
    )
    by_local = {one["local_port"]: one for one in found}
    assert set(by_local) == {port, client.getsockname()[1]}
    local_end, remote_end = by_local[client.getsockname()[1]], by_local[port]
    for one, end in ((local_end, client), (remote_end, server)):
        assert (one["local"], one["local_port"]) == end.getsockname()[:2]
        assert (one["remote"], one["remote_port"]) == end.getpeername()[:2]
        assert one["state"] == "established" and one["inode"] == os.fstat(end.fileno()).st_ino
        control = (
            end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\0")[0].decode()
        )
        assert one["congestion_control"] == control
        for name, value in tcp_info(end).items():
            if name in (
                "snd_mss",
                "retransmits",
                "bytes_acked",
                "bytes_received",
                "lost",
                "bytes_retransmitted",
            ):
                assert one[name] == value, name
        assert one["snd_mss"] == end.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
    assert (
        remote_end["bytes_received"] == 50_000
        and local_end["rtt"] > 0
        and local_end["congestion_window"] > 0
    )
    records.TrafficSocket(**local_end)
    line = {"traffic": {"time": 1.0, "id": "a", "kind": "sockets", "sockets": found}}
    decoded = decode(json.dumps(line).encode()).traffic
    assert decoded is not None and [field_mapping(one) for one in decoded.sockets] == found


def tcp_info(end: socket.socket) -> dict[str, Any]:
    fields = parse_tcp_info(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512))
    assert fields is not None
    return fields


def test_sockets_of_an_ended_process() -> None:
    assert SocketDiagnosis().read((), 80) == ([], None)
    assert read_socket_inodes(1 << 30) == set()
    assert SocketDiagnosis("/nonexistent").read((os.getpid(),), 80) == ([], None)


@given(st.binary(max_size=300))
def test_arbitrary_sock_diag_message(body: bytes) -> None:
    for head in (
        b"",
        struct.pack("=BB", socket.AF_INET, 1),
        struct.pack("=BB", socket.AF_INET6, 255),
    ):
        parsed = parse_socket(head + body)
        assert parsed is None or set(parsed) == set(records.TrafficSocket.__dataclass_fields__)


@given(st.binary(max_size=260))
def test_arbitrary_tcp_info(data: bytes) -> None:
    fields = parse_tcp_info(data)
    assert (fields is None) == (len(data) < 104)
    if fields is not None:
        assert (fields["bytes_acked"] is None) == (len(data) < 128)
        assert (fields["send_window"] is None) == (len(data) < 232)


def test_unset_limits_are_none() -> None:
    fields = parse_tcp_info(b"\xff" * 232)
    assert fields is not None and fields["pacing_rate"] is None and fields["minimum_rtt"] is None


@pytest.mark.parametrize(("target", "inode"), [
    ("socket:[4711]", 4711), ("pipe:[4711]", 0), ("socket:[]", 0), ("socket:[47", 0),
        ("socket:[-1]", 0),
    ("/dev/null", 0), ("", 0), ("socket:[٣]", 0),
])  # fmt: skip
def test_socket_links(target: str, inode: int) -> None:
    assert parse_socket_link(target) == inode


@given(st.binary(min_size=16, max_size=16))
def test_arbitrary_address(packed: bytes) -> None:
    assert is_address(parse_address(socket.AF_INET, packed))
    assert is_address(parse_address(socket.AF_INET6, packed))
    assert parse_address(socket.AF_INET6, bytes(10) + b"\xff\xff" + packed[:4]) == parse_address(
        socket.AF_INET, packed
    )


def test_listening_of_one_process_on_one_port(
    pair: tuple[socket.socket, socket.socket, socket.socket],
) -> None:
    listener, client, _ = pair
    port = listener.getsockname()[1]
    assert read_listening(os.getpid(), port)
    assert not read_listening(os.getppid(), port)
    assert not read_listening(os.getpid(), client.getsockname()[1])
    assert not read_listening(os.getpid(), port, udp=True)
    listener.close()
    assert not read_listening(os.getpid(), port)
    with socket.socket(client.family, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind((client.getsockname()[0], 0))
        assert read_listening(os.getpid(), datagrams.getsockname()[1], udp=True)


@given(st.binary(max_size=400), st.integers(0, 65535))
def test_arbitrary_socket_table(table: bytes, port: int) -> None:
    assert all(inode >= 0 for inode in parse_listeners(table, port)) or b"-" in table


def test_socket_table() -> None:
    rest = b"00000000:00000000 00:00000000 00000000 0 0 %d 1 0 100 0 0 10 0\n"
    table = b"  sl  local_address rem_address   st tx_queue ...\n"
    table += b"   0: 0100007F:1451 00000000:0000 0A " + rest % 11
    table += b"   1: 0100007F:1452 00000000:0000 0A " + rest % 12
    table += b"   2: 0100007F:1451 0100007F:9999 01 " + rest % 13
    table += b"   3: 0100007F:XXXX 00000000:0000 0A " + rest % 14
    assert parse_listeners(table, 0x1451) == {11}


# ----------------------------------------------------------------------------------------- children


def test_child_has_its_own_session_and_no_inherited_descriptors() -> None:
    readable, writable = os.pipe()
    os.set_inheritable(writable, True)

    def inspect_process() -> int:
        open_ones = sorted(os.readlink(f"/proc/self/fd/{name}") for name in ("0", "1", "2"))
        os.write(
            1,
            f"{os.getsid(0) == os.getpid()} {open_ones[0]} "
            f"{len(os.listdir('/proc/self/fd'))}\n".encode(),
        )
        return 7

    child = TrafficChild.start(inspect_process, time.monotonic() + 3600)
    os.close(writable)
    wait_until(lambda: child.start_result()[0])
    output = next(descriptor for descriptor, stream in child.outputs.items() if stream == "stdout")
    lines: list[str] = []

    def ended() -> bool:
        for descriptor in list(child.outputs):
            lines.extend(child.read(descriptor))
        return child.advance(time.monotonic())

    wait_until(ended)
    assert child.reap() == 7 and output not in child.outputs
    assert lines == ["True /dev/null 4"]  # including the one of the listing
    assert os.read(readable, 1) == b""
    os.close(readable)


@pytest.mark.parametrize(
    "passed", [(0.0,), (1.0,), (1.0, 10.0)], ids=["never", "after-sigterm", "after-sigkill"]
)
def test_child_that_ignores_sigterm_is_killed_and_reaped(
    monkeypatch: pytest.MonkeyPatch, passed: tuple[float, ...]
) -> None:
    """`passed`: seconds by which the clock is ahead at the polls after SIGTERM, the last at all
    further ones: neither this process nor the child has a CPU meanwhile."""
    clocks = chain([0.0], passed, repeat(passed[-1]))
    sleeps = chain([0.0] * (len(passed) - 1), repeat(1.0))

    def monotonic() -> float:
        return time.monotonic() + next(clocks)

    def sleep(seconds: float) -> None:
        time.sleep(seconds * next(sleeps))

    def ignore_sigterm() -> int:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(1, b"now\n")
        while True:
            signal.pause()

    child = TrafficChild.start(ignore_sigterm, time.monotonic() + 3600)
    wait_until(lambda: [line for out in list(child.outputs) for line in child.read(out)])
    assert is_alive(child.pid)
    monkeypatch.setattr(child_module, "time", SimpleNamespace(monotonic=monotonic, sleep=sleep))
    # The child is a copy of the test runner: freeing its memory takes CPU time, which a loaded
    # machine gives late.
    monkeypatch.setattr(child_module, "KILL_POLLS", 30_000)
    terminate_all([child])
    assert not os.path.exists(f"/proc/{child.pid}")


def test_a_program_does_not_get_the_secrets_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other processes of the user of a test can read the environment of its program."""
    monkeypatch.setenv("ROOT_TOKEN", "secret")
    monkeypatch.setenv("LC_ALL", "C")
    program = shutil.which("env")
    assert program is not None
    child = TrafficChild.start([program], time.monotonic() + 3600)
    wait_until(lambda: child.start_result()[0])
    lines: list[str] = []
    while child.outputs:
        for descriptor in list(child.outputs):
            lines += child.read(descriptor)
    wait_until(lambda: child.advance(time.monotonic()))
    assert child.reap() == 0
    assert "LC_ALL=C" in lines and {line.partition("=")[0] for line in lines} <= set(PASSED_ON)


def test_output_that_is_read_late_is_not_lost() -> None:
    """The probe got no CPU time between the end of the child and its output."""
    child = TrafficChild.start(lambda: os.write(1, b"answer\n") and 0, time.monotonic() + 3600)
    wait_until(lambda: not is_alive(child.pid))
    now = time.monotonic()
    assert not child.advance(now) and not child.advance(now + 10)
    assert child.start_result() == (True, "")
    lines: list[str] = []
    while child.outputs:
        lines += child.read(next(iter(child.outputs)))
    assert lines == ["answer"]
    assert child.advance(now + 20) and child.reap() == 0


def test_pipes_that_another_process_keeps_open_are_closed() -> None:
    child = TrafficChild.start(
        lambda: os.kill(os.getpid(), signal.SIGSTOP), time.monotonic() + 3600
    )
    wait_until(lambda: child.start_result()[0])
    wait_until(
        lambda: Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    )
    other = os.open(f"/proc/{child.pid}/fd/1", os.O_WRONLY)
    os.kill(child.pid, signal.SIGCONT)
    wait_until(lambda: not is_alive(child.pid))
    now = time.monotonic()
    assert not child.advance(now)
    (stderr,) = [one for one, stream in child.outputs.items() if stream == "stderr"]
    assert child.read(stderr) == []
    assert child.advance(now + 10) and child.reap() == 0
    os.close(other)


def test_long_lines_are_truncated() -> None:
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    child = TrafficChild(0, -1, {readable: "stdout"}, 0.0)
    lines = []
    for part in (b"x" * 60_000,) * 10 + (b"\ny\r\nlast",):
        os.write(writable, part)
        lines += child.read(readable)
    assert child.read(readable) == []
    os.close(writable)
    lines += child.read(readable)
    assert [len(line) for line in lines] == [MAX_OUTPUT_LINE_BYTES, 1, 4] and lines[1:] == [
        "y",
        "last",
    ]
    assert not child.outputs


def test_output_limits() -> None:
    command = TrafficCommand(START)
    result = Generator(command, TrafficChild(0, -1, {}, 0.0), [], 0.0)
    assert all(result.within_limits(["x" * 400] * 260, number / 10) for number in range(1000))
    assert not all(result.within_limits(["x"] * 2000, 100 + number / 10) for number in range(1000))


# ------------------------------------------------------------------------ the path to the other end


@pytest.mark.parametrize(
    "fields",
    [
        {}, {"address": "192.0.2.1"}, {"address": "192.0.2.1", "source": "2001:db8::1"},
        {"address": "x", "source": "192.0.2.2"}, {"address": "192.0.2.1", "source": "192.0.2.2",
            "ifindex": -1},
        {"address": "192.0.2.1", "source": "192.0.2.2", "ifindex": True},
    ],
)  # fmt: skip
def test_path_needs_two_addresses_of_one_version(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"address and source|ifindex"):
        TrafficCommand({"id": "a", "action": "path", **fields})


def test_route_from_a_foreign_source_is_unknown() -> None:
    """The kernel returns the same error as without a route."""
    found = read_path("127.0.0.1", "192.0.2.77")
    assert (found.route, found.ifindex, found.unreadable) == ("", None, {})


ROUTE_METRICS = pack_attribute(2, struct.pack("=I", 1000)) + pack_attribute(
    1, struct.pack("=I", 1 << 2)
)


@pytest.mark.parametrize(
    ("family", "expires", "flags", "options"),
    [
        (socket.AF_INET, 0, 0x200, ("mtu", "lock", "1000")),
        (socket.AF_INET, 59_800, 0x200, ()),
        (socket.AF_INET6, 59_800, 0, ("mtu", "lock", "1000")),
        (socket.AF_INET6, 59_800, 0x200, ()),
    ],
    ids=["of the route", "learned", "of a route of IPv6 that expires", "learned by IPv6"],
)
def test_mtu_of_a_route_is_not_one_that_was_learned(
    family: int, expires: int, flags: int, options: tuple[str, ...]
) -> None:
    payload = RTMSG.pack(family, 32, 32, 0, 254, 0, 0, 1, flags)
    payload += pack_attribute(4, struct.pack("=I", 2)) + pack_attribute(8, ROUTE_METRICS)
    payload += pack_attribute(12, struct.pack("=IIiIIIII", 0, 0, expires, 0, 0, 0, 0, 0))
    assert parse_found_route(family, payload) == FoundRoute("unicast", 2, None, options)


def test_route_of_loopback() -> None:
    assert read_path("127.0.0.1", "127.0.0.1").route == "local"


def test_rp_filter_of_a_nic_and_of_all(tmp_path: Path) -> None:
    name = socket.if_indextoname(1)
    for one, value in (("all", 2), (name, 1)):
        folder = tmp_path / "sys/net/ipv4/conf" / one
        folder.mkdir(parents=True)
        (folder / "rp_filter").write_text(f"{value}\n")
    assert read_path("127.0.0.1", "127.0.0.1", 1, str(tmp_path)).rp_filter == 2
    (tmp_path / "sys/net/ipv4/conf/all/rp_filter").write_text("strict\n")
    found = read_path("127.0.0.1", "127.0.0.1", 1, str(tmp_path))
    assert found.rp_filter is None and found.unreadable["rp_filter"].reason == "malformed"
    assert (
        read_path("127.0.0.1", "127.0.0.1", 2**31 - 1).unreadable["rp_filter"].reason == "vanished"
    )
