"""Reports to the probe from a process that reads a plan, or changes the host: JSON lines in a pipe.

``line`` is one `records.ChangeLine` for the watching side; ``undo`` (an `undo_guard.UndoRecord`)
and ``processes`` that make the change are for the probe; ``keeping`` is for the watcher; ``end``
marks the last line. Writing never blocks for long, and errors are ignored when the probe has ended.
"""

from __future__ import annotations

import json
import os
import select
import time

from nictop.probe.light_dataclasses import field_mapping

MAX_REPORT_BYTES = 4 * 1024 * 1024
"""Bytes of one line."""
MAX_FINAL_TEXT_CHARS = 500
"""Characters, so that the last line is written atomically (PIPE_BUF, 4096 bytes)."""


class ReportPipe:
    """Lines to the probe, if it still runs, and before it to the `watcher` of a guard. A line that
    cannot be written within the timeout is dropped."""

    def __init__(self, descriptor: int, name: str, watcher: int | None = None) -> None:
        self._name = name
        self._outputs = [LineOutput(one) for one in (watcher, descriptor) if one is not None]

    def report(self, kind: str, text: str = "", **fields: object) -> None:
        """Send one `records.ChangeLine`."""
        self.send({"line": self._line(kind, text, fields)})

    def finish(self, kind: str, text: str = "", **fields: object) -> None:
        """Send the last line. Its text and ``end`` are one atomic write: a process killed before it
        has not kept the change, one killed after it has reported so. Killed between the watcher,
        which is told first, and the probe, which then rolls back, it has not kept the change
        either."""
        fields = {**fields, "is_last": True}
        self.send({"end": True, "line": self._line(kind, text[:MAX_FINAL_TEXT_CHARS], fields)})

    def _line(self, kind: str, text: str, fields: dict[str, object]) -> dict[str, object]:
        return {"time": time.monotonic(), "id": self._name, "kind": kind, "text": text, **fields}

    def send(self, message: dict[str, object], timeout: float = 0.5) -> bool:
        """Whether the whole line was written to each pipe within `timeout` seconds."""
        line = json.dumps(message, default=field_mapping, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
        written = [output.write(line, timeout) for output in self._outputs]
        return all(written)


class LineOutput:
    """One pipe to which lines are written without blocking."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._unfinished = b""
        os.set_blocking(descriptor, False)

    def write(self, line: bytes, timeout: float) -> bool:
        """Whether the whole line was written within `timeout` seconds."""
        data = memoryview(self._unfinished + line + b"\n")
        size = len(data)
        end = time.monotonic() + timeout
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                remaining = end - time.monotonic()
                if remaining <= 0:
                    if len(data) < size:
                        self._unfinished = b"\n"  # ends the partial line before the next one
                    return False
                poll.poll(remaining * 1000)
            except OSError:
                return False
        self._unfinished = b""
        return True


def is_pipe_closed(descriptor: int) -> bool:
    """Whether the other end of a pipe is closed: then the process id may belong to another process
    by now."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))
