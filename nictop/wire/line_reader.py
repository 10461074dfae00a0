"""Bytes of a probe → lines → records, with all limits that apply to an untrusted sender.

Used for a local probe and a remote one. Up to `MAX_BAD_LINES` invalid lines in a row are reported
and skipped. A line above the size limit, another protocol version, or output that is not from a
probe ends the reader with an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from nictop.probe.records import MAX_LINE_BYTES, Line
from nictop.wire.codec import LineError, check_protocol, decode
from nictop.wire.errors import sanitize
from nictop.wire.source import SourceState

MAX_BAD_LINES = 5
"""Invalid lines in a row after which the probe is given up."""


class LineReader:
    """The output of one run of a probe."""

    def __init__(self) -> None:
        self.line_count = 0
        """Valid lines so far."""
        self._lines: deque[bytes | bytearray] = deque()
        self._rest = bytearray()
        self._bad_lines = 0
        self._next: Line | None = None
        """A hello, returned after the state ``live`` that it causes."""

    def add(self, data: bytes) -> None:
        """Append received bytes. Raises LineError for a line that is too long."""
        first, *others = data.split(b"\n")
        self._rest += first
        if len(self._rest) > MAX_LINE_BYTES:
            raise LineError(f"line of more than {MAX_LINE_BYTES} bytes")
        if others:
            self._lines.append(self._rest)
            self._lines.extend(others[:-1])
            self._rest = bytearray(others[-1])

    @property
    def has_items(self) -> bool:
        """There may be an item to take."""
        return bool(self._lines) or self._next is not None

    @property
    def next_size(self) -> int:
        """Bytes of the next line."""
        return len(self._lines[0]) if self._lines and self._next is None else 0

    def take(self) -> Line | SourceState | None:
        """The item of one line; None: nothing to report. Raises LineError or ProtocolMismatch when
        the probe has to be given up."""
        if self._next is not None:
            record, self._next = self._next, None
            return record
        try:
            record = decode(self._lines.popleft())
            if not self.line_count and record.hello is None:
                raise LineError("invalid line from the probe: the first line is not a hello")
        except LineError as error:
            self._bad_lines += 1
            if self._bad_lines >= MAX_BAD_LINES:
                raise LineError(f"too many invalid lines: {sanitize(error.message)}") from None
            return SourceState("live", sanitize(error.message)) if self.line_count else None
        self._bad_lines = 0
        self.line_count += 1
        if record.hello is None:
            return record
        check_protocol(record.hello)
        self._next = record
        return SourceState("live")

    def discard(self) -> None:
        """Discard the lines that were not taken."""
        self._lines.clear()
        self._next = None

    def feed(self, data: bytes) -> Iterator[Line | SourceState]:
        """The items that `data` completes."""
        self.add(data)
        while self.has_items:
            item = self.take()
            if item is not None:
                yield item
