"""``nictop fix``: applies a fix of a finding, and rolls it back unless it is confirmed.

The plan is written to stdout, questions and progress to stderr; answers are read from stdin. Exit
codes: 0 kept (or the plan or script was printed), 1 undone or not confirmed, 2 usage or refused (or
a value is missing), 3 the host was not reached, or not again, 4 it failed and changes may remain.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from nictop.cli.arguments import whole_number
from nictop.cli.change.options import (
    EXIT_CODES,
    add_change_options,
    allowed_by,
    hosts_of,
    set_change_defaults,
)
from nictop.errors import NictopError
from nictop.model.text.terminal import clean

MAX_FIXES = 999

EXAMPLES = """\
examples:
  nictop check vm1                                names the rules
  nictop fix vm1 mtu_differs_in_one_subnet --dry-run
  nictop fix vm1 mtu_differs_in_one_subnet ens224 --allow-changes

"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Apply a fix of a finding on one host. The plan is shown first. The host rolls the change "
        "back "
        "automatically if it is not confirmed in time or the connection is lost."
    )
    parser.epilog = EXAMPLES + EXIT_CODES
    parser.add_argument("host", metavar="HOST", help="host as for nictop check; local: this host")
    parser.add_argument("rule", metavar="RULE", help="name of the rule, as printed by nictop check")
    parser.add_argument(
        "subject",
        nargs="?",
        metavar="SUBJECT",
        help="what the finding is about, e.g. an interface, or an address if an interface has "
        "several findings of the rule; optional if the rule has one finding",
    )
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        dest="beside",
        metavar="HOST",
        help="also read this host, for rules that compare hosts; it is not changed (repeatable)",
    )
    parser.add_argument(
        "--number",
        type=_number,
        metavar="N",
        help="apply fix N of the finding (default: the first that nictop can apply)",
    )
    parser.add_argument(
        "--fill",
        action="append",
        type=_filling,
        default=[],
        metavar="NAME=VALUE",
        help="value of the placeholder <NAME> in the commands (repeatable)",
    )
    set_change_defaults(parser)
    add_change_options(parser)


def run(options: argparse.Namespace) -> int:
    from nictop.report.findings.rule_pages import rule_named

    rule_named(options.rule)
    _check_values(options.fill)
    host, *beside = hosts_of(options.host, options.beside)
    allowed = allowed_by(options, host)
    from nictop.cli.change.run import run_fix

    return run_fix(options, host, beside, allowed=allowed)


def _number(text: str) -> int:
    return whole_number(text, MAX_FIXES, "the number of a fix")


def _filling(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip("<>"), value


def _check_values(values: Iterable[tuple[str, str]]) -> None:
    """Before a host is connected to. Raises NictopError."""
    from nictop.changes.actions import BLANKS

    for name, value in values:
        if name not in BLANKS:
            raise NictopError(
                f"no fix has a placeholder <{clean(name)}>",
                f"placeholders: {', '.join(f'<{blank}>' for blank in BLANKS)}",
            )
        BLANKS[name].checked(value.strip())
