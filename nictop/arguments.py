"""What may stand on the command line: commands, options and their limits.

Reads nothing; `parse(arguments)` yields one attribute per option, and `command` (None: the live screen). A first word
that is no command is a host of the live screen.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from nictop import __version__

SHORTEST_INTERVAL = 0.1
LONGEST_INTERVAL = 60.0
DEFAULT_INTERVAL = 1.0
LONGEST_WATCH = 60.0
DEFAULT_WATCH = 3.0
"""Seconds of rates for ``check``: what lasts three readings is no accident, and nobody waits long for it."""

HOSTS_HELP = (
    "[label=][user@]host[:port], local, or a name of ~/.ssh/config or of nictop's configuration; default: this host"
)
EXAMPLES = """\
hosts:
  HOST is [label=][user@]host[:port], local, or a name of ~/.ssh/config or of
  ~/.config/nictop/config.toml; none: this host

examples:
  nictop                            this host's NICs, live
  nictop vm1 vm2 pve=root@pve       several hosts, over SSH; nothing is installed there
  nictop local vm1:2222             this one, and one on another port
  nictop --sudo vm1                 the probe there as root; it still only reads
  nictop --interval 0.2             five times a second
  nictop --ascii                    for serial consoles and old terminals
  nictop show                       the same facts once, as text
  nictop show --format json | jq '.inventory.links[].name'
  nictop show --schema              what the JSON means
  nictop show vm1 pve=root@pve      of other hosts
  nictop check                      what is wrong and what to type; exit code 1 when there is something
  nictop check --explain            all rules; with the name of one: its page
"""


COMMANDS = ("show", "check")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What the words of a command line say. Raises SystemExit after --help, --version and for wrong usage."""
    if not _names_hosts(arguments):
        return parser().parse_args(arguments)
    if {"-h", "--help"}.intersection(arguments):
        return parser().parse_args(["--help"])  # that of all, commands included
    return parser(commands=False).parse_args(arguments)


def _names_hosts(arguments: Sequence[str]) -> bool:
    """Whether the first word that is neither an option nor its value is a host, and not a command."""
    words = iter(arguments)
    for word in words:
        if word in ("-h", "--help", "--version"):
            return False
        if word == "--":
            return True
        if word == "--interval":
            next(words, None)
        elif not word.startswith("-"):
            return word not in COMMANDS
    return False


def parser(*, commands: bool = True) -> argparse.ArgumentParser:
    """All of it; without `commands`, hosts may stand in their place (argparse cannot tell the two apart)."""
    whole = argparse.ArgumentParser(
        prog="nictop",
        usage="nictop [OPTIONS] [HOST ...]\n       nictop COMMAND [OPTIONS] [HOST ...]",
        description="Tells, live, why a virtual NIC does not work or is slower than it should be.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    whole.add_argument("--version", action="version", version=f"nictop {__version__}")
    whole.set_defaults(interval=DEFAULT_INTERVAL, ascii=False, sudo=False, accept_new_host_keys=False)
    _add_common_options(whole)
    _add_rights(whole)
    if commands:
        whole.set_defaults(hosts=[])
        subcommands = whole.add_subparsers(dest="command", metavar="COMMAND", title="commands")
        _add_show(subcommands)
        _add_check(subcommands)
    else:
        whole.set_defaults(command=None)
        _add_host_words(whole)
    return whole


def _add_show(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    show = commands.add_parser(
        "show",
        help="print the facts once, for scripts",
        description="Print what the live screen shows, once. stdout is data only.",
        allow_abbrev=False,
    )
    _add_common_options(show)
    _add_hosts(show)
    show.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    show.add_argument("--schema", action="store_true", help="print the JSON schema of --format json, and nothing else")


def _add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    check = commands.add_parser(
        "check",
        help="print what is wrong and what to type, for scripts",
        description="Look at hosts with all rules, and print what is wrong and what to type. Changes nothing.",
        epilog="Exit codes: 0 nothing at or above the threshold, 1 something, 2 usage, 3 no answer from a host.",
        allow_abbrev=False,
    )
    _add_common_options(check)
    _add_hosts(check)
    check.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="default: %(default)s")
    check.add_argument(
        "--fail-on",
        choices=("critical", "warning", "info"),
        default="warning",
        help="the least severity that makes the exit code 1; info: notes too (default: %(default)s)",
    )
    check.add_argument(
        "--watch",
        type=_watch,
        default=DEFAULT_WATCH,
        metavar="SECONDS",
        help=f"how long to look at rates, 1 to {LONGEST_WATCH:g} (default {DEFAULT_WATCH:g}); some rules want 10",
    )
    check.add_argument("--skipped", action="store_true", help="list the rules that could not look, and why")
    check.add_argument("--explain", nargs="?", const="", metavar="RULE", help="print the page of a rule, or all names")
    check.add_argument("--schema", action="store_true", help="print the JSON schema of --format json, and nothing else")


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


def _add_hosts(parser: argparse.ArgumentParser) -> None:
    """Which hosts a command of scripts is about. Nobody is asked anything: a host that asks fails with the reason."""
    _add_host_words(parser)
    _add_rights(parser)


def _add_host_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("hosts", nargs="*", metavar="HOST", help=HOSTS_HELP)


def _add_rights(parser: argparse.ArgumentParser) -> None:
    """Options about hosts that stand before or behind a command, too."""
    parser.add_argument(
        "--sudo", action="store_true", default=argparse.SUPPRESS, help="run the probe as root, through sudo"
    )
    parser.add_argument(
        "--accept-new-host-keys",
        action="store_true",
        default=argparse.SUPPRESS,
        help="write host keys that nobody knows into known_hosts; a changed one is refused all the same",
    )


def _interval(text: str) -> float:
    return _seconds(text, SHORTEST_INTERVAL, LONGEST_INTERVAL)


def _watch(text: str) -> float:
    return _seconds(text, 1.0, LONGEST_WATCH)


def _seconds(text: str, shortest: float, longest: float) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not shortest <= seconds <= longest:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from {shortest:g} to {longest:g}")
    return seconds
