"""A line is decoded into records of the right types, or rejected with an error that names the
field."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.errors import NictopError
from nictop.limits import MAX_SMALL_LINE_BYTES
from nictop.probe.light_dataclasses import field_mapping, replace
from nictop.probe.protocol.hello import hello
from nictop.probe.protocol.requests import parse_request
from nictop.probe.records import (
    MAX_LINE_BYTES,
    PROTOCOL,
    Counters,
    Hello,
    Interrupt,
    Line,
    Request,
    Trouble,
    Unreadable,
)
from nictop.wire import codec
from nictop.wire.codec import (
    EXPONENTS,
    LineError,
    ProtocolMismatch,
    check_protocol,
    decode,
    encode_request,
    fits_64_bits,
)
from tests.model.hosts import inventory

COUNTERS = Counters(
    time=1.5,
    links={1: (2**64 - 1, 0), 12: ()},
    cpus={0: (1, 2, 3)},
    queues={4: (("rx", 0, (1, None)), ("tx", 1, (None, 2**63)))},
    driver={4: (1, 2)},
    vfs={4: {0: (1, 2), 63: (3,)}},
    unreadable={"links": Unreadable("failed", "EIO")},
)


def line_of(kind: str, record: object) -> bytes:
    return json.dumps({kind: record}, default=field_mapping).encode()


def test_counters_are_decoded_as_encoded() -> None:
    """Keys of mappings are numbers again, lists are tuples, and 64-bit numbers are exact."""
    assert decode(line_of("counters", COUNTERS) + b"\n") == Line(counters=COUNTERS)


def test_hello_of_this_probe() -> None:
    decoded = decode(line_of("hello", hello(1.0))).hello
    assert decoded is not None and decoded.protocol == PROTOCOL
    check_protocol(decoded)
    with pytest.raises(
        ProtocolMismatch, match=f"protocol version {PROTOCOL + 1} of the probe"
    ) as caught:
        check_protocol(dataclasses.replace(decoded, protocol=PROTOCOL + 1))
    assert caught.value.hint


def test_unknown_fields_and_records_are_ignored() -> None:
    assert decode(b'{"trouble": {"time": 1, "message": "m", "later": [1]}}') == Line(
        trouble=Trouble(1.0, "m")
    )
    assert decode(b'{"later": {}}') == Line()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"", "truncated"),
        (b"garbage", "malformed"),
        (b"[]", "object"),
        (b'{"counters": {"time": 1.0}}', "links"),
        (b'{"counters": {"time": "1", "links": {}, "cpus": {}}}', "$.counters.time"),
        (b'{"counters": {"time": 1, "links": {"x": []}, "cpus": {}}}', "$.counters.links"),
        (
            b'{"counters": {"time": 1, "links": {"1": [1.5]}, "cpus": {}}}',
            "$.counters.links[...][0]",
        ),
        (b'{"link_change": {"time": 1, "ifindex": true}}', "$.link_change.ifindex"),
        (
            b'{"trouble": {"time": 1, "message": "a"}, "counters": {"time": 1, "links": {}, '
            b'"cpus": {}}}',
            "more than one",
        ),
        (b'{"trouble": {"time": 1, "message": "\xff"}}', "invalid line from the probe"),
        (b'{"x":' * 1_000_000 + b"1" + b"}" * 1_000_000, "invalid line from the probe"),
    ],
)
def test_invalid_lines_are_rejected_with_the_reason(line: bytes, expected: str) -> None:
    with pytest.raises(LineError) as caught:
        decode(line)
    assert isinstance(caught.value, NictopError)
    assert expected in caught.value.message


@pytest.mark.parametrize(
    "line",
    [
        b'{"counters": {"time": 1, "links": {"1": [%s]}, "cpus": {}}}',
        b'{"counters": {"time": 1, "links": {"%s": []}, "cpus": {}}}',
        b'{"counters": {"time": 1, "links": {}, "cpus": {}, "channels": {"1": {"2": [0, null, '
        b"%s]}}}}",
        b'{"counters": {"time": 1, "links": {}, "cpus": {"0": [1, %s]}}}',
    ],
)
@pytest.mark.parametrize(
    "number", [b"%d" % (2**64), b"-%d" % (2**63 + 1), b"1" + b"0" * 400, b"-1" + b"0" * 5000]
)
def test_numbers_of_more_than_64_bits_are_rejected(line: bytes, number: bytes) -> None:
    """No kernel counter is wider; Python's division would raise OverflowError from 10^309 on."""
    with pytest.raises(LineError, match=r"64 bits|out of range"):
        decode(line % number)


@pytest.mark.parametrize("time", [b"1e308", b"-1E+99", b"1.5e20", b"-1" + b"0" * 20 + b".5"])
def test_times_of_more_than_64_bits_are_rejected(time: bytes) -> None:
    """CLOCK_MONOTONIC is 64 bits of nanoseconds; the time axis of a chart would be infinitely
    long."""
    with pytest.raises(LineError, match="64 bits"):
        decode(b'{"counters": {"time": %s, "links": {}, "cpus": {}}}' % time)


@pytest.mark.parametrize("number", [b"1e30", b"1E+30", b"-2.5e30", b"1e30 ", b"0.1E0031\n"])
@pytest.mark.parametrize("line", [b'{"a": %s}', b'{"a": [%s]}', b'{"a": [1,%s,1]}', b"%s"])
def test_exponents_of_numbers_are_found(line: bytes, number: bytes) -> None:
    assert not fits_64_bits([float(number)], line % number)


@pytest.mark.parametrize("text", [b"0035969ec53f6e7f", b"02:5e:11:2e:33:44", b"fe80::5e1/64"])
def test_letters_of_a_text_are_no_exponent(text: bytes) -> None:
    """Nearly every inventory has an address or a hash with such letters: a walk through all of its
    values took as long as decoding it."""
    assert not any(exponent.search(b'{"text": "%s"}' % text) for exponent in EXPONENTS)


def test_small_times_are_accepted() -> None:
    decoded = decode(b'{"counters": {"time": 2.5e-7, "links": {}, "cpus": {}}}').counters
    assert decoded is not None and decoded.time == 2.5e-7


def test_long_numbers_in_a_text_are_accepted() -> None:
    decoded = decode(
        b'{"trouble": {"time": 1, "message": "serial 123456789012345678901234567890"}}'
    )
    assert decoded.trouble is not None and decoded.trouble.message.endswith("7890")
    assert (
        decode(
            b'{"counters": {"time": 1, "links": {"1": [%d]}, "cpus": {}}}' % (2**64 - 1)
        ).counters
        is not None
    )


def test_a_line_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_LINE_BYTES == 8 * 1024 * 1024
    monkeypatch.setattr(codec, "MAX_LINE_BYTES", 100)
    line = line_of("trouble", Trouble(1.0, ""))
    padded = line + b" " * (100 - len(line))
    assert decode(padded).trouble
    with pytest.raises(LineError, match="exceeds 100"):
        decode(padded + b" ")


@pytest.mark.parametrize("name", ["tap[/x]", 'q"\\', "\x1b[2J\x07", "ünï", "\u202e", "a\nb"])
def test_texts_are_not_changed(name: str) -> None:
    decoded = decode(line_of("trouble", Trouble(1.0, name))).trouble
    assert decoded is not None and decoded.message == name


@given(st.binary())
def test_any_bytes_are_a_line_or_rejected(line: bytes) -> None:
    try:
        assert isinstance(decode(line), Line)
    except LineError as error:
        assert error.message


@given(st.floats(0.1, 60.0), st.lists(st.integers(1, 2**31 - 1), max_size=64), st.booleans())
def test_the_probe_parses_encoded_requests(
    interval: float, watch: list[int], inventory: bool
) -> None:
    line = encode_request(Request(interval=interval, watch=tuple(watch), inventory=inventory))
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert parse_request(line) == (
        {"interval": interval, "watch": watch, "inventory": inventory},
        "",
    )


def test_fields_that_are_none_are_not_sent() -> None:
    assert encode_request(Request(watch=())) == b'{"watch":[]}\n'
    assert encode_request(Request()) == b"{}\n"


def test_hello_has_all_fields() -> None:
    assert {field.name for field in dataclasses.fields(Hello)} == set(hello(1.0))


def test_equal_short_texts_of_a_line_are_the_same_object() -> None:
    """Thousands of records of a large inventory have the same driver and CPU list."""
    rows = tuple(Interrupt(number, ("a",), None, allowed_cpus="0-3") for number in (1, 2))
    sent = replace(inventory(), interrupts=rows)
    found = decode(line_of("inventory", sent)).inventory
    assert found is not None
    first, second = found.interrupts
    assert first.allowed_cpus == "0-3" and first.allowed_cpus is second.allowed_cpus


def test_the_garbage_collector_runs_again_after_a_large_line() -> None:
    large = line_of("inventory", replace(inventory(), reason="x" * MAX_SMALL_LINE_BYTES))
    for line in (large, large[:-1], large.replace(b'"wall"', b'"walls"')):
        with contextlib.suppress(LineError):
            decode(line)
        assert gc.isenabled()
