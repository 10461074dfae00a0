"""Terminal checks of commands that open a screen. Reads the environment and the standard streams of
this process."""

from __future__ import annotations

import argparse
import os
import select
import stat
import sys
from typing import TYPE_CHECKING, Literal, TextIO

from nictop.errors import NictopError

if TYPE_CHECKING:
    from nictop.model.text.glyphs import Glyphs

StdinKind = Literal["terminal", "pipe", "none"]
"""pipe: another process may write to it, or end it. none: nothing can come from it, as from
/dev/null, a file or a pipe that ended before."""


def require_terminal(instead: str) -> None:
    """Raise NictopError if a standard stream is not a terminal, or is one that cannot move its
    cursor; `instead` is its hint."""
    for stream, name in ((sys.stdout, "stdout"), (sys.stdin, "stdin"), (sys.__stderr__, "stderr")):
        if not is_terminal(stream):
            raise NictopError(f"{name} is not a terminal", instead)
    if is_dumb():
        raise NictopError(
            "TERM=dumb: this terminal cannot show the screens", "use nictop show or nictop check"
        )


def is_terminal(stream: TextIO | None) -> bool:
    """None: it is closed."""
    return stream is not None and stream.isatty()


def stdin_kind() -> StdinKind:
    """To be asked once, at the start of a command."""
    if is_terminal(sys.stdin):
        return "terminal"
    if sys.stdin is None:
        return "none"
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):  # closed, or no file
        return "none"
    if not stat.S_ISFIFO(mode):
        return "none"
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    events = dict(poll.poll(0)).get(descriptor, 0)
    has_ended = events & select.POLLHUP and not events & select.POLLIN
    return "none" if has_ended else "pipe"


def is_dumb() -> bool:
    """The terminal takes lines only."""
    return os.environ.get("TERM") == "dumb"


def screen_glyphs(options: argparse.Namespace) -> Glyphs:
    """Glyphs that this terminal can draw; ASCII with ``--ascii``."""
    from nictop.model.text.glyphs import ASCII, UNICODE
    from nictop.tui.terminal import wants_ascii

    return ASCII if options.ascii or wants_ascii(os.environ) else UNICODE
