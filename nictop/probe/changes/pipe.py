"""What a process that changes the host says to its probe: JSON lines into a pipe.

``say`` is for the watching side (one `records.ChangeLine`), ``undo``, ``networkmanager`` and ``subjects`` are for the
probe, ``end`` means that nothing is left to do. Whoever speaks never waits for long, and not for one who has gone.
"""

from __future__ import annotations

import json
import os
import select
import time

LONGEST_TEXT = 500
"""Characters of a sentence that is written in one piece (PIPE_BUF, 4096 bytes)."""


class ReportPipe:
    """Lines to the probe, if it is still there. A line that it does not take is given up after a moment."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self._name = descriptor, name
        self._torn = b""
        os.set_blocking(descriptor, False)

    def say(self, kind: str, text: str = "", **fields: object) -> None:
        """One `records.ChangeLine`."""
        self.tell({"say": self._line(kind, text, fields)})

    def end(self, kind: str, text: str = "", **fields: object) -> None:
        """The last one. In one piece with the word that nothing is left to do: who is killed in between has either
        not kept a change, or has said that it is kept."""
        self.tell({"end": True, "say": self._line(kind, text[:LONGEST_TEXT], fields)})

    def _line(self, kind: str, text: str, fields: dict[str, object]) -> dict[str, object]:
        return {"time": time.monotonic(), "id": self._name, "kind": kind, "text": text, **fields}

    def tell(self, message: dict[str, object], patience: float = 0.5) -> bool:
        """Whether the probe has it."""
        line = json.dumps(message, default=vars, separators=(",", ":")).encode("utf-8", "replace")
        data = memoryview(self._torn + line + b"\n")
        size = len(data)
        end = time.monotonic() + patience
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                left = end - time.monotonic()
                if left <= 0:
                    if len(data) < size:
                        self._torn = b"\n"  # the next line must not become the rest of this one
                    return False
                poll.poll(left * 1000)
            except OSError:
                return False
        self._torn = b""
        return True
