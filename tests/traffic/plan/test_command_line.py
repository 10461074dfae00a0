"""The command line of a request, parsed by the command line parser, is the same request."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nictop.cli.arguments import parse
from nictop.cli.traffic.options import request_of
from nictop.errors import NictopError
from nictop.traffic.plan.command_line import command_line
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.plan.validation import validate_request

REQUESTS = st.builds(
    RunRequest,
    client=st.just("web1"),
    server=st.just("web2"),
    direction=st.sampled_from(("forward", "reverse", "bidirectional")),
    protocol=st.sampled_from(("tcp", "udp")),
    client_nic=st.sampled_from(("", "ens3", "eth 0")),
    server_address=st.sampled_from(("", "192.0.2.1", "2001:db8::1")),
    ip_version=st.none() | st.sampled_from((4, 6)),
    bitrate=st.none() | st.sampled_from((1, 1000, 500_000_000, 2_500_000_000)),
    time=st.sampled_from((1, 10, 60)),
    omit=st.sampled_from((0, 2)),
    streams=st.sampled_from((1, 4, 128)),
    length=st.none() | st.sampled_from((512, 1460, 131072, 1 << 20)),
    mss=st.none() | st.just(1000),
    window=st.none() | st.sampled_from((65536, 4 << 20, 300_001)),
    congestion=st.none() | st.just("bbr"),
    dscp=st.none() | st.just(46),
    client_cpu=st.none() | st.just(0),
    server_cpu=st.none() | st.just(3),
    zerocopy=st.booleans(),
    port=st.sampled_from((5201, 6000)),
    interval=st.sampled_from((0.5, 0.1, 2.0)),
    generator=st.sampled_from(("auto", "iperf3", "builtin")),
    repeat=st.sampled_from((1, 5)),
    rest=st.sampled_from((2.0, 0.0, 0.25)),
    sweep=st.none() | st.just(("mtu", ("1500", "9000", "4000"))),
    compare=st.none()
    | st.sampled_from(
        (("streams", ("1", "4")), ("setup", ("old one", "new"))),
    ),
    between=st.sampled_from(("", "ssh root@web2 'ip link set ens3 mtu 9000'", "-x")),
    label=st.sampled_from(("", "two words", "-l", "$HOME")),
)


TRANSACTIONS = st.builds(
    RunRequest,
    client=st.just("web1"),
    server=st.just("web2"),
    test=st.sampled_from(("rr", "crr", "loaded")),
    protocol=st.sampled_from(("tcp", "udp")),
    request_size=st.none() | st.sampled_from((8, 64, 4096)),
    response_size=st.none() | st.sampled_from((8, 100_000)),
    files=st.none() | st.sampled_from((1, 1000)),
    rate=st.none() | st.sampled_from((16, 5000)),
    time=st.sampled_from((2, 10, 60)),
    streams=st.sampled_from((1, 16)),
    sweep=st.none() | st.just(("size", ("1", "64:4K"))),
)


def parsed(command: str) -> RunRequest:
    program, *words = shlex.split(command)
    assert program == "nictop"
    return request_of(parse(words), plain=False)


@given(
    REQUESTS
    | TRANSACTIONS.filter(lambda one: one.request_size is not None or one.response_size is None)
)
def test_the_parser_makes_the_same_request_of_it(request: RunRequest) -> None:
    try:
        validate_request(request)
    except NictopError:
        assume(False)
    assert parsed(command_line(request, {})) == request


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "nictop traffic web1 web2"),
        ({"direction": "reverse", "streams": 4}, "nictop traffic web1 web2 --reverse --streams 4"),
        ({"direction": "bidirectional"}, "nictop traffic web1 web2 --bidirectional"),
        ({"test": "rr", "request_size": 64}, "nictop traffic web1 web2 --test rr --size 64"),
        (
            {"test": "crr", "request_size": 64, "response_size": 4096, "files": 1000},
            "nictop traffic web1 web2 --test crr --size 64:4K --time 10 --files 1000",
        ),
        (
            {"protocol": "udp", "bitrate": 500_000_000, "length": 1400},
            "nictop traffic web1 web2 --udp --bitrate 500M --length 1400",
        ),
        (
            {"compare": ("length", ("512", "128K")), "repeat": 5, "label": "lab 1"},
            "nictop traffic web1 web2 --repeat 5 --compare length=512,128K --label 'lab 1'",
        ),
        (
            {
                "test": "loaded",
                "protocol": "udp",
                "streams": 4,
                "rate": 1000,
                "congestion": "cubic",
            },
            "nictop traffic web1 web2 --test loaded --udp --streams 4 --rate 1000 --congestion "
            "cubic",
        ),
        ({"observers": ("pve",)}, "nictop traffic web1 web2 --observe root@pve.example"),
        ({"label": "-x"}, "nictop traffic web1 web2 --label=-x"),
    ],
)
def test_options_that_are_default_are_left_out(change: dict[str, object], expected: str) -> None:
    request = replace(RunRequest("web1", "web2"), **change)  # type: ignore[arg-type]
    assert command_line(request, {"pve": "root@pve.example"}) == expected


def test_a_self_test_has_no_hosts() -> None:
    assert (
        command_line(RunRequest("", "", time=5), {}, self_test=True)
        == "nictop traffic --self-test --time 5"
    )


def test_sizes_of_requests_and_responses() -> None:
    request = parsed("nictop traffic web1 web2 --test rr --size 64:4K --parallel 8")
    assert (request.request_size, request.response_size, request.streams) == (64, 4096, 8)
    request = parsed("nictop traffic web1 web2 --test rr --size 1,64,4K")
    assert request.sweep == ("size", ("1", "64", "4K")) and request.request_size is None
    assert parsed("nictop traffic web1 web2 --test crr --files 1000").time == 60


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--size 64", "size is an option of the tests rr, crr and loaded"),
        ("--files 5", "files is an option of the test crr"),
        ("--rate 5", "request rate is an option of the tests rr and loaded"),
        ("--test crr --rate 5", "request rate is an option of the tests rr and loaded"),
        (
            "--test rr --rate 5 --streams 6",
            "request rate must be 6 (one per connection) to 1000000, not 5",
        ),
        ("--test rr --rate 0", "request rate must be 1 (one per connection) to 1000000, not 0"),
        ("--test loaded --files 5", "files is an option of the test crr"),
        ("--test loaded --rate 2M", '"2M" is not an integer'),
        ("--test loaded --udp --size 1", "size must be 8 to 65507, not 1"),
        ("--test loaded --time 50000", "time must be 1 to 42989, not 50000"),
        ("--test loaded --generator builtin --bidirectional", "bidirectional needs iperf3"),
        ("--test rr --files 5", "files is an option of the test crr"),
        ("--test crr --udp", "crr needs TCP"),
        ("--test rr --reverse", "reverse and bidirectional are options of the bulk test"),
        ("--test rr --bitrate 5M", "rate is an option of the bulk test"),
        ("--test rr --length 5", "use size for rr"),
        ("--test rr --generator iperf3", "iperf3 has no request/response test"),
        ("--test rr --udp --size 1", "size must be 8 to 65507, not 1"),
        ("--test rr --size 1,2 --sweep streams=1,2", "--size: several sizes are a sweep"),
        ("--sweep size=1,2", "size is an option of the tests rr, crr and loaded"),
        ("--test crr --files 5 --omit 1", "files excludes omit"),
    ],
)
def test_options_that_a_test_does_not_have(options: str, reason: str) -> None:
    with pytest.raises(NictopError) as error:
        parsed(f"nictop traffic web1 web2 {options}")
    assert reason in error.value.message
