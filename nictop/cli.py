"""The command line: which front end runs, with which options.

stdout carries data only, everything else goes to stderr. Exit codes: 0 done, 2 usage (or a system that cannot run
nictop), 3 a host could not be reached.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from nictop import __version__
from nictop.errors import NictopError

SHORTEST_INTERVAL = 0.1
LONGEST_INTERVAL = 60.0
DEFAULT_INTERVAL = 1.0
EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells expect."""

EXAMPLES = """\
examples:
  nictop                            this host's NICs, live
  nictop --interval 0.2             five times a second
  nictop --ascii                    for serial consoles and old terminals
  nictop show                       the same facts once, as text
  nictop show --format json | jq '.inventory.links[].name'
  nictop show --schema              what the JSON means
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run nictop with `arguments` (default: those of the process); return the exit code."""
    try:
        return _run(arguments)
    except NictopError as error:
        _complain(error.message, error.hint)
        return error.exit_code
    except BrokenPipeError:  # ``| head`` has read enough
        _let_go_of_stdout()
        return 0
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "nictop":
            raise
        _complain(f"the Python module {error.name} is missing", "install nictop with its dependencies: pip install .")
        return 2
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    try:
        options = _parser().parse_args(arguments)
    except SystemExit as end:  # --help, --version, a wrong option: argparse has said it
        if sys.stdout is not None:
            sys.stdout.flush()
        return end.code if isinstance(end.code, int) else 2
    return _show(options) if options.command == "show" else _live(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nictop",
        description="Tells, live, why a virtual NIC does not work or is slower than it should be.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"nictop {__version__}")
    parser.set_defaults(interval=DEFAULT_INTERVAL, ascii=False)
    _add_common_options(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    show = commands.add_parser(
        "show",
        help="print the facts once, for scripts",
        description="Print what the live screen shows, once. stdout is data only.",
        allow_abbrev=False,
    )
    _add_common_options(show)
    show.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    show.add_argument("--schema", action="store_true", help="print the JSON schema of --format json, and nothing else")
    return parser


def _add_common_options(parser: argparse.ArgumentParser) -> None:
    """Options that stand before or behind a command; only the one that is given sets a value."""
    parser.add_argument(
        "--interval",
        type=_interval,
        default=argparse.SUPPRESS,
        metavar="SECONDS",
        help=f"time between two readings, {SHORTEST_INTERVAL:g} to {LONGEST_INTERVAL:g} (default {DEFAULT_INTERVAL:g})",
    )
    parser.add_argument(
        "--ascii", action="store_true", default=argparse.SUPPRESS, help="draw with ASCII characters only"
    )


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not SHORTEST_INTERVAL <= seconds <= LONGEST_INTERVAL:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds from {SHORTEST_INTERVAL:g} to {LONGEST_INTERVAL:g}"
        )
    return seconds


def _live(options: argparse.Namespace) -> int:
    for stream, name in ((sys.stdout, "stdout"), (sys.stdin, "stdin"), (sys.__stderr__, "stderr")):
        if stream is None or not stream.isatty():
            raise NictopError(f"{name} is not a terminal", "for scripts and pipes: nictop show [--format json]")
    from nictop.app import run

    return run(interval=options.interval, ascii_only=options.ascii)


def _show(options: argparse.Namespace) -> int:
    from nictop import report

    if options.schema:
        return _write(report.show_schema())
    import asyncio

    from nictop.watch import snapshot_once
    from nictop.wire.local import LocalSource

    snapshot = asyncio.run(snapshot_once(LocalSource(interval=options.interval), interval=options.interval))
    if options.format == "json":
        return _write(report.show_json(snapshot))
    text = report.show_text(snapshot, _columns())
    return _write(report.in_ascii(text) if options.ascii or not _speaks_unicode() else text)


def _write(text: str) -> int:
    """Data to stdout; 0. BrokenPipeError goes on to `main`, any other failure becomes a NictopError."""
    if sys.stdout is None:
        raise NictopError("stdout is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _let_go_of_stdout()
        raise NictopError(f"cannot write to stdout: {error.strerror}") from None
    return 0


def _columns() -> int:
    """Width to lay text out for: of the terminal; 120 into files and pipes, whatever the window."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 120


def _speaks_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def _complain(message: str, hint: str = "") -> None:
    from nictop.model.wording.text import clean

    if sys.stderr is not None:
        sys.stderr.write(f"nictop: {clean(message)}\n")
        if hint:
            sys.stderr.write(f"  {clean(hint)}\n")


def _let_go_of_stdout() -> None:
    """Nobody reads stdout any more: keep the interpreter's last flush from failing again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
