"""Bytes of a probe → lines → records, with every limit that a stranger on the other side must be held to.

The same for a probe on this machine and one far away. What makes no sense is said and survived up to `BAD_LINES` in a
row; a line without end, another protocol and something that is no probe at all end it, with the reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from nictop.probe.records import MAX_LINE, Line
from nictop.wire.codec import LineError, check_protocol, decode
from nictop.wire.errors import plain
from nictop.wire.source import SourceState

BAD_LINES = 5
"""Lines in a row that make no sense, after which the probe is given up."""


class LineReader:
    """What has been heard of one life of a probe."""

    def __init__(self) -> None:
        self.heard = 0
        """Lines that made sense."""
        self._lines: deque[bytes | bytearray] = deque()
        self._rest = bytearray()
        self._nonsense = 0
        self._next: Line | None = None
        """A hello, which is taken after the state that it means."""

    def add(self, data: bytes) -> None:
        """Bytes, of which complete lines are to be taken. Raises LineError for a line that is too long."""
        first, *others = data.split(b"\n")
        self._rest += first
        if len(self._rest) > MAX_LINE:
            raise LineError(f"a line of more than {MAX_LINE} bytes")
        if others:
            self._lines.append(self._rest)
            self._lines.extend(others[:-1])
            self._rest = bytearray(others[-1])

    @property
    def waits(self) -> bool:
        """There may be something to take."""
        return bool(self._lines) or self._next is not None

    @property
    def next_size(self) -> int:
        """Bytes of the line that is taken next."""
        return len(self._lines[0]) if self._lines and self._next is None else 0

    def take(self) -> Line | SourceState | None:
        """What one line says; None: nothing. Raises LineError or ProtocolMismatch when it is of no use to go on."""
        if self._next is not None:
            record, self._next = self._next, None
            return record
        try:
            record = decode(self._lines.popleft())
            if not self.heard and record.hello is None:
                raise LineError("not a line of the probe: it did not begin with a hello")
        except LineError as error:
            self._nonsense += 1
            if self._nonsense >= BAD_LINES:
                raise LineError(f"the probe talks nonsense: {plain(error.message)}") from None
            return SourceState("live", plain(error.message)) if self.heard else None
        self._nonsense = 0
        self.heard += 1
        if record.hello is None:
            return record
        check_protocol(record.hello)
        self._next = record
        return SourceState("live")

    def forget(self) -> None:
        """What waits is not taken any more."""
        self._lines.clear()
        self._next = None

    def feed(self, data: bytes) -> Iterator[Line | SourceState]:
        """The items that `data` completes."""
        self.add(data)
        while self.waits:
            item = self.take()
            if item is not None:
                yield item
