"""The relay in a guest, with the pipes that the agent has open, and no agent: what the relay does
while nobody reads them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import termios
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from nictop.probe.reach import guest_relay
from nictop.probe.reach.guest_relay import Relay
from nictop.probe.reach.relay_format import ENDED, HEADER, OUTPUT, RECORD_BYTES
from tests.support.probe import TEST_TIMEOUT, wait_until

OUTPUT_BYTES = 72_000
"""More than a pipe has room for, less than the relay lets wait for it, even if each block of 8 KiB
that `head` writes is read alone and fills three records."""


class Pipes:
    """A relay that runs in a thread; `send` and `records` are what the agent does."""

    def __init__(self, words: Sequence[str]) -> None:
        relay_input, self._input = os.pipe()
        self._output, relay_output = os.pipe()
        self._relay_ends = (relay_input, relay_output)
        self.relay = Relay(words, relay_input, relay_output)
        self._thread = threading.Thread(target=self.relay.run)
        self._thread.start()

    def send(self, data: bytes) -> None:
        os.write(self._input, data)

    def end_input(self) -> None:
        if self._input >= 0:
            os.close(self._input)
            self._input = -1

    @property
    def is_full(self) -> bool:
        """The output has no room for another record."""
        size = fcntl.fcntl(self._output, fcntl.F_GETPIPE_SZ)
        return waiting_bytes(self._output) > size - RECORD_BYTES

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def records(self) -> Iterator[tuple[bytes, bytes, int]]:
        """(type, content, bytes of input taken) of each; ends where no more follow in time."""
        while select.select([self._output], [], [], TEST_TIMEOUT)[0]:
            record = os.read(self._output, RECORD_BYTES)
            kind, size, taken, _ = HEADER.unpack_from(record)
            yield kind, record[HEADER.size : HEADER.size + size], taken

    def close(self) -> None:
        """Both ends are closed, which ends every relay."""
        self.end_input()
        os.close(self._output)
        self._thread.join(TEST_TIMEOUT)
        assert self.has_ended
        for descriptor in self._relay_ends:
            os.close(descriptor)
        with self.relay._child:  # closes its pipes
            assert self.relay._child.returncode is not None


def waiting_bytes(descriptor: int) -> int:
    """In a pipe, that were not read."""
    found = fcntl.ioctl(descriptor, termios.FIONREAD, struct.pack("i", 0))
    return int(struct.unpack("i", found)[0])


@contextlib.contextmanager
def relayed(*words: str) -> Iterator[Pipes]:
    pipes = Pipes(words)
    try:
        yield pipes
    finally:
        pipes.close()


def test_a_relay_ends_when_nobody_reads_or_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bridge that was killed: the agent still has both pipes open. Neither end of a pipe is
    ready then, ever."""
    monkeypatch.setattr(guest_relay, "STALL_SECONDS", 0.1)
    monkeypatch.setattr(guest_relay, "END_SECONDS", 0.1)
    with relayed("cat", "/dev/urandom") as pipes:
        wait_until(lambda: pipes.has_ended)
        assert pipes.is_full


def test_what_was_taken_is_told_after_the_output_that_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other record tells it then, and the bridge sends no more before it knows."""
    monkeypatch.setattr(guest_relay, "STALL_SECONDS", 10 * TEST_TIMEOUT)  # on a slow machine, too
    written = tmp_path / "written"
    script = f"head -c {OUTPUT_BYTES} /dev/urandom; touch {written}; cat >/dev/null"
    with relayed("sh", "-c", script) as pipes:
        wait_until(written.exists)
        wait_until(lambda: pipes.is_full and not waiting_bytes(pipes.relay._stdout))
        pipes.send(b"0123456789")
        wait_until(lambda: pipes.relay._taken == 10)
        unpacked = zlib.decompressobj()
        size = 0
        for kind, content, taken in pipes.records():
            if kind == OUTPUT:
                size += len(unpacked.decompress(content))
            if taken == 10:
                break
        else:
            pytest.fail("not told")
        assert size == OUTPUT_BYTES
        pipes.end_input()
        assert [content for kind, content, _ in take_until_end(pipes) if kind == ENDED] == [b"0"]


def take_until_end(pipes: Pipes) -> Iterator[tuple[bytes, bytes, int]]:
    for record in pipes.records():
        yield record
        if record[0] == ENDED:
            return
