"""Bytes of a probe → lines → records, with every limit that a stranger on the other side must be held to.

The same for a probe on this machine and one far away. What makes no sense is said and survived up to `BAD_LINES` in a
row; a line without end, a flood, another protocol and something that is no probe at all end it, with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from nictop.probe.records import MAX_LINE, Line
from nictop.wire.codec import LineError, check_protocol, decode
from nictop.wire.sentences import plain
from nictop.wire.source import SourceState

BAD_LINES = 5
"""Lines in a row that make no sense, after which the probe is given up."""
FLOOD, FLOOD_RATE = 64 * 1024 * 1024, 8 * 1024 * 1024
"""Bytes at once, and per second in the long run: 256 CPUs at 10 Hz with every interrupt line stay far below."""
LEAST = 1024
"""Bytes that each line counts as: many short ones cost as much. So 8192 lines per second, of which a generator of
traffic may take 5000 (`probe.generator`)."""


class Hearing:
    """What has been heard of one life of a probe."""

    def __init__(self) -> None:
        self.heard = 0
        """Lines that made sense."""
        self._rest = bytearray()
        self._nonsense = 0
        self._allowance, self._counted = float(FLOOD), time.monotonic()

    def feed(self, data: bytes) -> Iterator[Line | SourceState]:
        """The items that `data` completes. Raises LineError or ProtocolMismatch when it is of no use to go on."""
        self._count(max(len(data), LEAST * data.count(b"\n")))
        self._rest += data
        if b"\n" in data:
            end = self._rest.rfind(b"\n")
            complete = bytes(self._rest[:end])
            del self._rest[: end + 1]
            for line in complete.split(b"\n"):
                yield from self._hear(line)
        if len(self._rest) > MAX_LINE:
            raise LineError(f"a line of more than {MAX_LINE} bytes")

    def _count(self, size: int) -> None:
        now = time.monotonic()
        self._allowance = min(FLOOD, self._allowance + (now - self._counted) * FLOOD_RATE) - size
        self._counted = now
        if self._allowance < 0:
            raise LineError(f"the probe floods: more than {FLOOD_RATE} bytes or {FLOOD_RATE // LEAST} lines per second")

    def _hear(self, line: bytes) -> Iterator[Line | SourceState]:
        try:
            record = decode(line)
            if not self.heard and record.hello is None:
                raise LineError("not a line of the probe: it did not begin with a hello")
        except LineError as error:
            self._nonsense += 1
            if self._nonsense >= BAD_LINES:
                raise LineError(f"the probe talks nonsense: {plain(error.message)}") from None
            if self.heard:
                yield SourceState("live", plain(error.message))
            return
        self._nonsense = 0
        self.heard += 1
        if record.hello is not None:
            check_protocol(record.hello)
            yield SourceState("live")
        yield record
