"""Lines of every probe, and the error messages, clocks and retry delays of connections."""

from __future__ import annotations

import errno
import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.errors import NictopError
from nictop.probe.protocol.hello import hello
from nictop.probe.records import MAX_LINE_BYTES, Line, Pong
from nictop.probe.records.counters import MAX_CLOCK_DRIFT
from nictop.wire.codec import LineError, ProtocolMismatch
from nictop.wire.errors import MAX_MESSAGE_CHARS, error_text, last_line, sanitize, unreachable_error
from nictop.wire.line_reader import LineReader
from nictop.wire.reconnecting import retry_delay
from nictop.wire.source import SourceState
from nictop.wire.ssh.ping_clock import FILTER_PINGS, MAX_OUTSTANDING_PINGS, PingClock

HELLO = json.dumps({"hello": hello(1.0)}).encode() + b"\n"
TROUBLE = b'{"trouble": {"time": 1, "message": "m"}}\n'


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_any_bytes_give_items_or_an_error(parts: list[bytes]) -> None:
    reader = LineReader()
    try:
        for part in parts:
            for item in reader.feed(part):
                assert isinstance(item, Line | SourceState)
    except NictopError as error:
        assert error.message


@given(st.integers(1, 200))
def test_items_do_not_depend_on_how_bytes_are_split(size: int) -> None:
    reader, stream = LineReader(), HELLO + TROUBLE * 3
    items = [
        item for at in range(0, len(stream), size) for item in reader.feed(stream[at : at + size])
    ]
    assert items[0] == SourceState("live")
    assert [item.trouble is not None for item in items[1:] if isinstance(item, Line)] == [
        False,
        True,
        True,
        True,
    ]


def test_an_endless_line_is_rejected_without_storing_it() -> None:
    reader = LineReader()
    part = b"x" * (1 << 20)
    with pytest.raises(LineError, match="line of more than"):
        for _ in range(100):
            list(reader.feed(part))
    assert len(reader._rest) <= MAX_LINE_BYTES + len(part)


def test_another_protocol() -> None:
    other = json.dumps({"hello": {**hello(1.0), "protocol": 99}}).encode() + b"\n"
    with pytest.raises(ProtocolMismatch, match="protocol version 99"):
        list(LineReader().feed(other))


@given(st.text())
def test_sanitized_text_is_printable_and_limited(text: str) -> None:
    shown = sanitize(text)
    assert shown.isprintable() and len(shown) <= MAX_MESSAGE_CHARS
    assert sanitize(shown) == shown


def test_terminal_control_sequences_are_removed() -> None:
    assert sanitize("\x1b[31mred\x1b[0m\r\nnext\u202e\x9b2J") == "[31mred [0m next 2J"
    assert sanitize("x" * 10**6).endswith("…")
    assert last_line("a\n\x1b]0;title\x07 why\n\n") == "]0;title why"
    assert last_line("") == ""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (socket.gaierror(-2, "Name or service not known"), "h: cannot resolve the host name"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "h: connection refused"),
        (TimeoutError(errno.ETIMEDOUT, "x"), "h: connection timed out"),
        (OSError(errno.EHOSTUNREACH, "x"), "h is unreachable: "),
        (ConnectionResetError(errno.ECONNRESET, "x"), "h closed the connection"),
        (OSError("Multiple exceptions: \x1b[2J"), "cannot connect to h: Multiple exceptions: [2J"),
    ],
)
def test_every_connection_error_has_a_message_and_a_hint(error: OSError, text: str) -> None:
    found = unreachable_error(error, "h")
    assert (
        text in found.message
        and found.hint
        and error_text(found) == f"{found.message}; {found.hint}"
    )


def test_the_ping_with_the_shortest_round_trip_counts() -> None:
    clock, offset, now = PingClock(), 1000.0, 50.0
    for there, back in ((0.3, 0.01), (0.002, 0.004), (0.01, 0.5)):
        number = clock.ping(now)
        estimate = clock.pong(Pong(number, now + there + offset), now + there + back)
        assert estimate is not None and abs(estimate.offset - offset) <= estimate.uncertainty
        now += 2
    assert clock.estimate is not None
    drifted = MAX_CLOCK_DRIFT * 2.49
    assert clock.estimate.offset == pytest.approx(999.999)
    assert clock.estimate.uncertainty == pytest.approx(0.003 + drifted, abs=1e-4)
    for _ in range(3 * FILTER_PINGS):  # the readings wait in a queue: the short one is remembered
        number = clock.ping(now)
        clock.pong(Pong(number, now + offset), now + 24.0)
        now += 2
    assert clock.estimate.offset == pytest.approx(999.999)
    assert clock.estimate.uncertainty < 0.02


def test_a_machine_that_was_paused_has_another_offset_at_once() -> None:
    """Its clock stood still for a minute: what was measured before does not count any more."""
    clock = PingClock()
    for now, offset in ((10.0, 1000.0), (12.5, 1000.0), (75.0, 940.0)):
        number = clock.ping(now)
        estimate = clock.pong(Pong(number, now + 0.1 + offset), now + 0.2)
    assert estimate is not None and estimate.offset == pytest.approx(940.0)
    assert estimate.uncertainty == pytest.approx(0.1)


@given(
    st.lists(
        st.tuples(st.integers(-2, 5), st.floats(allow_nan=False, allow_infinity=False)), max_size=30
    )
)
def test_pongs_without_a_ping_are_ignored(pongs: list[tuple[int, float]]) -> None:
    clock = PingClock()
    expected = clock.ping(0.0)
    for sequence, monotonic in pongs:
        answer = clock.pong(Pong(sequence, monotonic), 1.0)
        assert (answer is not None) == (sequence == expected)
        expected = -9 if sequence == expected else expected
    for _ in range(3 * MAX_OUTSTANDING_PINGS):
        clock.ping(2.0)
    assert len(clock._sent) <= MAX_OUTSTANDING_PINGS


@given(st.integers(1, 10**6))
def test_retry_delays_are_limited(failures: int) -> None:
    assert 0.375 <= retry_delay(failures) <= 30.0
    assert retry_delay(failures + 1, 1.0, 8.0) <= 8.0
