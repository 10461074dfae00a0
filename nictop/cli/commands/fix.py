"""``nictop fix``: applies a fix of a finding, and rolls it back unless it is confirmed.

The plan is written to stdout, questions and progress to stderr; answers are read from stdin. Exit codes: 0 kept (or the
plan or script was printed), 1 undone or not confirmed, 2 usage or refused, 3 the host was not reached, or not again, 4
it failed and changes may remain.
"""

from __future__ import annotations

import argparse

from nictop.cli.change.options import EXIT_CODES, add_change_options, allowed_by, hosts_of
from nictop.errors import NictopError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Carry out a fix of a finding on one host. It is shown first, and the host takes it back by itself unless it "
        "is told in time to keep it, also when the connection is lost meanwhile."
    )
    parser.epilog = EXIT_CODES
    parser.add_argument("host", metavar="HOST", help="as for nictop check; local is this one")
    parser.add_argument("rule", metavar="RULE", help="name of the finding, as nictop check prints it")
    parser.add_argument(
        "subject", nargs="?", metavar="SUBJECT", help="what it is about; not needed where the rule has found one only"
    )
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        dest="beside",
        metavar="HOST",
        help="look at this host too, for rules that compare hosts; it is not changed",
    )
    parser.add_argument(
        "--number", type=_number, metavar="N", help="the fix to carry out, of several (see nictop check)"
    )
    parser.add_argument(
        "--fill", action="append", type=_filling, default=[], metavar="NAME=VALUE", help="what to put in for <NAME>"
    )
    add_change_options(parser)


def run(options: argparse.Namespace) -> int:
    from nictop.rules import RULES

    if options.rule not in RULES:
        raise NictopError(f"there is no rule {options.rule}", "nictop check --explain lists them")
    host, *beside = hosts_of(options.host, options.beside)
    allowed = allowed_by(options, host)
    from nictop.cli.change.run import run_fix

    return run_fix(options, host, beside, allowed=allowed)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:4]) < 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a fix")
    return int(text)


def _filling(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip("<>"), value
