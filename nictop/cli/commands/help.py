"""``nictop help``: what ``nictop COMMAND --help`` prints."""

from __future__ import annotations

import argparse
from typing import NoReturn

from nictop.cli import SUMMARIES
from nictop.cli.arguments import parse
from nictop.errors import NictopError

COMMAND_WITH_JOBS = "setup"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print the help of nictop, of a command, or of a job of nictop setup."
    parser.add_argument(
        "topic", nargs="?", choices=tuple(SUMMARIES), metavar="COMMAND", help="command to describe"
    )
    parser.add_argument("job", nargs="?", metavar="JOB", help=f"job of nictop {COMMAND_WITH_JOBS}")


def run(options: argparse.Namespace) -> NoReturn:
    """Ends with SystemExit, as ``--help`` does."""
    words = [] if options.topic is None else [options.topic]
    if options.job is not None:
        if options.topic != COMMAND_WITH_JOBS:
            raise NictopError(f"nictop {options.topic} has no jobs", f"nictop help {options.topic}")
        words += ["HOST", options.job]
    parse([*words, "--help"])
    raise AssertionError("argparse ends the program after --help")
