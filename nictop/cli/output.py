"""What commands print: data to stdout, complaints to stderr, in the characters that both can take.

Reads the encoding of stdout and the width of its terminal, nothing else.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from nictop.errors import NictopError

if TYPE_CHECKING:
    from nictop.model.text.glyphs import Glyphs


def write_text(text: str, options: argparse.Namespace) -> int:
    """Text for reading, in ASCII where stdout or the user wants that."""
    return write(glyphs_for(options).encode(text))


def write(text: str) -> int:
    """Data to stdout; 0. BrokenPipeError goes on to the caller, any other failure becomes a NictopError."""
    if sys.stdout is None:
        raise NictopError("stdout is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_stdout()
        raise NictopError(f"cannot write to stdout: {error.strerror}") from None
    return 0


def glyphs_for(options: argparse.Namespace) -> Glyphs:
    """What stdout takes, or ASCII where the user wants that."""
    from nictop.model.text.glyphs import ASCII

    return ASCII if options.ascii else _glyphs_of(sys.stdout)


def _glyphs_of(stream: TextIO | None) -> Glyphs:
    from nictop.model.text.glyphs import ASCII, UNICODE

    encoding = (stream.encoding or "") if stream is not None else ""
    return UNICODE if encoding.lower().replace("-", "").startswith("utf") else ASCII


def columns() -> int:
    """Width to lay text out for: of the terminal; 120 into files and pipes, whatever the window."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (AttributeError, OSError, ValueError):  # closed: None
        return 120


def narrate(text: str) -> None:
    """A line of progress to stderr, in the characters that it takes; lost when nobody reads it. The text is clean."""
    if sys.stderr is None:
        return
    with suppress(OSError):
        sys.stderr.write(f"{_glyphs_of(sys.stderr).encode(text)}\n")
        sys.stderr.flush()


def print_error(message: str, hint: str = "") -> None:
    from nictop.model.text.terminal import clean

    if sys.stderr is not None:
        sys.stderr.write(f"nictop: {clean(message)}\n")
        if hint:
            sys.stderr.write(f"  {clean(hint)}\n")


def discard_stdout() -> None:
    """Nobody reads stdout any more: keep the interpreter's last flush from failing again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
