"""``nictop fix``: carry out what a finding says to type, and take it back unless somebody keeps it.

The plan goes to stdout, questions and what happens to stderr, answers come from stdin. Exit codes: 0 kept (or the plan
or script was printed), 1 undone or not confirmed, 2 usage or refused, 3 the host was not reached, or not again, 4 it
failed and something may have stayed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nictop.commands.arguments import add_allow_changes, add_rights, seconds
from nictop.commands.observed import wanted_hosts
from nictop.errors import NictopError

if TYPE_CHECKING:
    from nictop.hosts import Host

SHORTEST, LONGEST, DEFAULT = 5.0, 600.0, 30.0
"""Seconds that a change may wait to be kept: the limits of the probe (`nictop.probe.records`)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Carry out a fix of a finding on one host. It is shown first, and the host takes it back by itself unless it "
        "is told in time to keep it, also when the connection is lost meanwhile."
    )
    parser.epilog = (
        "Exit codes: 0 kept, 1 undone or not confirmed, 2 usage or refused, 3 no answer from the host, 4 it failed."
    )
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
    add_rights(parser)
    add_allow_changes(parser)
    parser.add_argument(
        "--number", type=_number, metavar="N", help="the fix to carry out, of several (see nictop check)"
    )
    parser.add_argument(
        "--fill", action="append", type=_filling, default=[], metavar="NAME=VALUE", help="what to put in for <NAME>"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be changed from what to what, and end")
    parser.add_argument("--script", action="store_true", help="print the commands as a shell script, and end")
    parser.add_argument(
        "--yes",
        action="count",
        default=0,
        help="apply it unasked, and keep it once the host has answered after it; given twice: also where it touches "
        "the link of the SSH connection or of a default route",
    )
    parser.add_argument(
        "--keep-within",
        type=_keep_within,
        default=DEFAULT,
        metavar="SECONDS",
        help=f"how long the host waits to be told to keep it, {SHORTEST:g} to {LONGEST:g} (default {DEFAULT:g})",
    )


def run(options: argparse.Namespace) -> int:
    from nictop.rules import RULES

    if options.rule not in RULES:
        raise NictopError(f"there is no rule {options.rule}", "nictop check --explain lists them")
    if options.dry_run and options.script:
        raise NictopError("--dry-run asks the host, --script does not", "leave one of them away")
    host, *beside = meant_hosts(options.host, options.beside)
    allowed = options.allow_changes or host.allow_changes
    if not allowed and not options.script:
        raise NictopError(
            f"nictop only reads {host.label}, unless that is allowed",
            "--allow-changes, or allow_changes = true for this host in the configuration; --script prints the commands",
        )
    from nictop.commands.fix_run import carry_out

    return carry_out(options, host, beside, allowed=allowed and not options.script)


def meant_hosts(word: str, beside: Sequence[str]) -> tuple[Host, ...]:
    """The one that is changed, and those beside it. NictopError for a word that is no host, and for one that is several
    where one is meant."""
    meant = wanted_hosts([word])
    if len(meant) != 1:
        raise NictopError(f"{word} means {len(meant)} hosts, and one is changed at a time")
    return wanted_hosts([word, *beside])


def _keep_within(text: str) -> float:
    return seconds(text, SHORTEST, LONGEST)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:4]) < 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a fix")
    return int(text)


def _filling(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip("<>"), value
