"""What is common to every probe's words, and the sentences, clocks and delays around them."""

from __future__ import annotations

import errno
import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.errors import NictopError
from nictop.probe.protocol.hello import hello
from nictop.probe.records import MAX_LINE, Line, Pong
from nictop.wire.codec import LineError, ProtocolMismatch
from nictop.wire.errors import LONGEST, last_line, plain, sentence, unreachable
from nictop.wire.line_reader import LineReader
from nictop.wire.reconnecting import retry_delay
from nictop.wire.source import SourceState
from nictop.wire.ssh.ping_clock import MOST_OUTSTANDING, WINDOW, PingClock

HELLO = json.dumps({"hello": hello(1.0)}).encode() + b"\n"
TROUBLE = b'{"trouble": {"time": 1, "message": "m"}}\n'


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_any_bytes_end_in_items_or_a_reason(parts: list[bytes]) -> None:
    listening = LineReader()
    try:
        for part in parts:
            for item in listening.feed(part):
                assert isinstance(item, Line | SourceState)
    except NictopError as error:
        assert error.message


@given(st.integers(1, 200))
def test_lines_are_the_same_however_they_come(size: int) -> None:
    listening, stream = LineReader(), HELLO + TROUBLE * 3
    items = [item for at in range(0, len(stream), size) for item in listening.feed(stream[at : at + size])]
    assert items[0] == SourceState("live")
    assert [item.trouble is not None for item in items[1:] if isinstance(item, Line)] == [False, True, True, True]


def test_a_line_without_end_is_cut_off_before_it_is_kept() -> None:
    listening = LineReader()
    part = b"x" * (1 << 20)
    with pytest.raises(LineError, match="a line of more than"):
        for _ in range(100):
            list(listening.feed(part))
    assert len(listening._rest) <= MAX_LINE + len(part)


def test_another_protocol() -> None:
    other = json.dumps({"hello": {**hello(1.0), "protocol": 99}}).encode() + b"\n"
    with pytest.raises(ProtocolMismatch, match="protocol 99"):
        list(LineReader().feed(other))


@given(st.text())
def test_plain_text_obeys_nobody(text: str) -> None:
    shown = plain(text)
    assert shown.isprintable() and len(shown) <= LONGEST
    assert plain(shown) == shown


def test_what_a_terminal_would_obey_is_gone() -> None:
    assert plain("\x1b[31mred\x1b[0m\r\nnext\u202e\x9b2J") == "[31mred [0m next 2J"
    assert plain("x" * 10**6).endswith("…")
    assert last_line("a\n\x1b]0;title\x07 why\n\n") == "]0;title why"
    assert last_line("") == ""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "h: the name is not known"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "h refuses the connection"),
        (TimeoutError(errno.ETIMEDOUT, "x"), "h does not answer"),
        (OSError(errno.EHOSTUNREACH, "x"), "no way to h"),
        (ConnectionResetError(errno.ECONNRESET, "x"), "h has broken off"),
        (OSError("Multiple exceptions: \x1b[2J"), "h cannot be reached: Multiple exceptions: [2J"),
    ],
)
def test_every_way_not_to_arrive_has_a_sentence_and_a_next_step(error: OSError, words: str) -> None:
    said = unreachable(error, "h")
    assert words in said.message and said.hint and sentence(said) == f"{said.message}; {said.hint}"


def test_the_clock_believes_the_shortest_way() -> None:
    clock, offset, now = PingClock(), 1000.0, 50.0
    for there, back in ((0.3, 0.01), (0.002, 0.004), (0.01, 0.5)):
        number = clock.ping(now)
        estimate = clock.pong(Pong(number, now + there + offset), now + there + back)
        assert estimate is not None and abs(estimate.offset - offset) <= estimate.uncertainty
        now += 2
    assert clock.estimate is not None
    assert clock.estimate.uncertainty == pytest.approx(0.003) and clock.estimate.offset == pytest.approx(999.999)
    for _ in range(WINDOW):  # the old ones are forgotten: clocks drift
        number = clock.ping(now)
        clock.pong(Pong(number, now + 0.05 + 2000), now + 0.1)
        now += 2
    assert clock.estimate.offset == pytest.approx(2000) and clock.estimate.uncertainty == pytest.approx(0.05)


@given(st.lists(st.tuples(st.integers(-2, 5), st.floats(allow_nan=False, allow_infinity=False)), max_size=30))
def test_pongs_that_nobody_asked_for_are_nothing(pongs: list[tuple[int, float]]) -> None:
    clock = PingClock()
    mine = clock.ping(0.0)
    for sequence, monotonic in pongs:
        answer = clock.pong(Pong(sequence, monotonic), 1.0)
        assert (answer is not None) == (sequence == mine)
        mine = -9 if sequence == mine else mine
    for _ in range(3 * MOST_OUTSTANDING):
        clock.ping(2.0)
    assert len(clock._sent) <= MOST_OUTSTANDING


@given(st.integers(1, 10**6))
def test_delays_grow_up_to_a_limit(failures: int) -> None:
    assert 0.375 <= retry_delay(failures) <= 30.0
    assert retry_delay(failures + 1, 1.0, 8.0) <= 8.0
