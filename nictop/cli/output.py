"""Output of commands: data to stdout, errors and status to stderr, in characters that these can
encode.

Reads the encoding of both and the width of the terminal.
"""

from __future__ import annotations

import os
import sys

from nictop.errors import NictopError

TYPE_CHECKING = False
"""`typing` and `contextlib` are not imported: they would take longer than the help of a command."""
if TYPE_CHECKING:
    import argparse
    from typing import TextIO

    from nictop.model.text.glyphs import Glyphs
    from nictop.report.render.paint import Paint


def write_text(text: str, options: argparse.Namespace | None = None) -> int:
    """Write text to stdout, in ASCII if its encoding or ``--ascii`` requires that; return 0. Errors
    as of `write`."""
    glyphs = _glyphs_of(sys.stdout) if options is None else glyphs_for(options)
    return write(glyphs.encode(text))


def write(text: str) -> int:
    """Write data to stdout; return 0. Raises BrokenPipeError, and NictopError for any other
    failure."""
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
    """Glyphs that stdout can encode; ASCII with ``--ascii``."""
    from nictop.model.text.glyphs import ASCII

    return ASCII if options.ascii else _glyphs_of(sys.stdout)


def _glyphs_of(stream: TextIO | None) -> Glyphs:
    from nictop.model.text.glyphs import ASCII, UNICODE

    if stream is None or not stream.encoding:
        return ASCII
    is_unicode = stream.encoding.lower().replace("-", "").startswith("utf")
    return UNICODE if is_unicode else ASCII


SGR_OF_ROLE = {
    "critical": "1;31",
    "warning": "1;33",
    "info": "1;36",
    "command": "1",
    "good": "32",
    "warn": "33",
    "bad": "31",
}
"""Role (`report.render.paint.Paint`) → parameters of the escape sequence Select Graphic Rendition:
the 16 colours that every terminal has. Each severity is also a mark and a word."""


def painter() -> Paint:
    """Makes the colours of a text for stdout; `plain` if that is not a terminal, cannot show them
    (TERM=dumb), or NO_COLOR is set."""
    from nictop.report.render.paint import plain

    return _colored if _takes_colors(sys.stdout) else plain


def _colored(role: str, line: str) -> str:
    sgr = SGR_OF_ROLE.get(role)
    if sgr is None:
        return line
    return f"\x1b[{sgr}m{line}\x1b[0m"


def _takes_colors(stream: TextIO | None) -> bool:
    if stream is None or not stream.isatty():
        return False
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") not in ("", "dumb")


def terminal_columns() -> int:
    """Width for the layout of text: that of the terminal; 120 for files and pipes."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (AttributeError, OSError, ValueError):  # closed: None
        return 120


def print_status(text: str) -> None:
    """Write a line of cleaned text to stderr, in characters that it can encode; errors are
    ignored."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"{stderr_text(text)}\n")
        sys.stderr.flush()
    except OSError:
        return


def stderr_text(text: str) -> str:
    """Cleaned text in characters that stderr can encode."""
    return _glyphs_of(sys.stderr).encode(text)


def print_error(message: str, hint: str = "") -> None:
    """Write an error and what to do about it to stderr, cleaned."""
    from nictop.model.text.terminal import clean

    if sys.stderr is not None:
        sys.stderr.write(f"nictop: {clean(message)}\n")
        if hint:
            sys.stderr.write(f"  {clean(hint)}\n")


def discard_stdout() -> None:
    """Redirect stdout, which cannot be written any more, to /dev/null: the final flush of the
    interpreter would fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
