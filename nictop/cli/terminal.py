"""What every command needs that opens a screen. Reads the standard streams of this process."""

from __future__ import annotations

import sys

from nictop.errors import NictopError


def refuse_pipes(instead: str) -> None:
    """Raises NictopError when there is no terminal to draw on; `instead`: what to type there."""
    for stream, name in ((sys.stdout, "stdout"), (sys.stdin, "stdin"), (sys.__stderr__, "stderr")):
        if stream is None or not stream.isatty():
            raise NictopError(f"{name} is not a terminal", instead)
