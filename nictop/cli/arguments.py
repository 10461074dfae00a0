"""Parsing of the command line: commands, options and their limits.

Reads nothing; `parse(arguments)` returns one attribute per option, and `command` (None: the live screen). If the first
argument is not a command, all arguments are hosts of the live screen.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from nictop import __version__
from nictop.cli import SUMMARIES

MIN_READ_INTERVAL_SECONDS = 0.1
MAX_READ_INTERVAL_SECONDS = 60.0
DEFAULT_READ_INTERVAL_SECONDS = 1.0
"""Seconds between two readings."""
SNAPSHOT_COMMANDS, SNAPSHOT_READ_INTERVAL_SECONDS = ("show", "check", "report"), 0.2
"""Commands that print the present state, and their default: 20 clock ticks of each CPU between two readings."""
MIN_WATCH_SECONDS, MAX_WATCH_SECONDS = 1.0, 60.0
"""How long the rates of a host are observed before they are printed."""

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
  nictop --sudo --allow-changes vm1 and may change the host when told to
  nictop --interval 0.2             five times a second
  nictop --ascii                    for serial consoles and old terminals
  nictop show                       the same facts once, as text
  nictop show --format json | jq '.inventory.links[].name'
  nictop show --schema              what the JSON means
  nictop show vm1 pve=root@pve      of other hosts
  nictop check                      what is wrong and what to type; exit code 1 when there is something
  nictop fix vm1 RULE --allow-changes   carry out its fix; taken back unless it is kept
  nictop setup vm1 use-queues ens256 4 --allow-changes
  nictop record monday.nictop vm1 pve   all they say, until Ctrl-C; the key r does it live
  nictop replay monday.nictop       the same screens on it; --at 14:03:20, --speed 10
  nictop show monday.nictop --at 14:03:20   one moment of it, as text; check, too
  nictop report vm1 vm2 -o ticket.html      one page for a ticket; --redact hides names
  nictop demo                       two recorded guests and a traffic run; no host needed
  nictop metrics vm1 vm2            counters and findings for Prometheus, on port 9807
  nictop check --explain            all rules; with the name of one: its page
  nictop traffic vm1 vm2            what arrives from vm1 at vm2, and what it costs
  nictop traffic --self-test        the same without a second host
  nictop compare RESULT RESULT      whether two set-ups differ
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command line. Raises SystemExit after --help and --version, and for invalid arguments."""
    first = _first_word(arguments)
    if first is None or first in SUMMARIES:
        options = make_parser(first).parse_args(arguments)
    elif {"-h", "--help"}.intersection(arguments):
        options = make_parser(None).parse_args(["--help"])  # with the list of commands
    else:
        options = _hosts_parser().parse_args(arguments)
    if options.interval is None:
        takes_snapshot = options.command in SNAPSHOT_COMMANDS
        options.interval = SNAPSHOT_READ_INTERVAL_SECONDS if takes_snapshot else DEFAULT_READ_INTERVAL_SECONDS
    return options


def _first_word(arguments: Sequence[str]) -> str | None:
    """The first argument that is neither an option nor its value: a command or a host; ``--`` if hosts follow it. None:
    there is none, or --help or --version precedes it."""
    words = iter(arguments)
    for word in words:
        if word in ("-h", "--help", "--version"):
            return None
        if word == "--":
            return word
        if word == "--interval":
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def make_parser(command: str | None) -> argparse.ArgumentParser:
    """The parser with all commands, but with the arguments of `command` only."""
    top = _top_level_parser()
    top.set_defaults(hosts=[])
    commands = top.add_subparsers(prog="nictop", dest="command", metavar="COMMAND", title="commands")
    for name, summary in SUMMARIES.items():
        one = commands.add_parser(name, help=summary, allow_abbrev=False)
        if name == command:
            add_common_options(one)
            importlib.import_module(f"nictop.cli.commands.{name}").add_arguments(one)
    return top


def _hosts_parser() -> argparse.ArgumentParser:
    """The parser without commands: argparse cannot distinguish a host from a command."""
    top = _top_level_parser()
    top.set_defaults(command=None)
    add_host_arguments(top)
    return top


def _top_level_parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="nictop",
        usage="nictop [OPTIONS] [HOST ...]\n       nictop COMMAND [OPTIONS] [HOST ...]",
        description="Tells, live, why a virtual NIC does not work or is slower than it should be.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"nictop {__version__}")
    top.set_defaults(interval=None, ascii=False, sudo=False, accept_new_host_keys=False)
    top.set_defaults(allow_changes=False)
    add_common_options(top)
    add_access_options(top)
    add_allow_changes(top)
    return top


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Options that are valid before and after a command; without them no attribute is set."""
    parser.add_argument(
        "--interval",
        type=_interval,
        default=argparse.SUPPRESS,
        metavar="SECONDS",
        help=f"time between two readings, {MIN_READ_INTERVAL_SECONDS:g} to {MAX_READ_INTERVAL_SECONDS:g} "
        f"(default {DEFAULT_READ_INTERVAL_SECONDS:g}; {', '.join(SNAPSHOT_COMMANDS)}: "
        f"{SNAPSHOT_READ_INTERVAL_SECONDS:g})",
    )
    parser.add_argument(
        "--ascii", action="store_true", default=argparse.SUPPRESS, help="draw with ASCII characters only"
    )


def add_hosts(parser: argparse.ArgumentParser) -> None:
    """Hosts of a command for scripts. Connections that need an answer of the user fail with the reason."""
    add_host_arguments(parser)
    add_access_options(parser)


def add_host_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("hosts", nargs="*", metavar="HOST", help=HOSTS_HELP)


def add_access_options(parser: argparse.ArgumentParser) -> None:
    """Options about the access to hosts, valid before and after a command."""
    parser.add_argument(
        "--sudo", action="store_true", default=argparse.SUPPRESS, help="run the probe as root, through sudo"
    )
    parser.add_argument(
        "--accept-new-host-keys",
        action="store_true",
        default=argparse.SUPPRESS,
        help="write host keys that nobody knows into known_hosts; a changed one is refused all the same",
    )


def add_allow_changes(parser: argparse.ArgumentParser) -> None:
    """The option of commands that can change a host, and of the live screen."""
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        default=argparse.SUPPRESS,
        help="let nictop change the hosts when it is told to; without it there is nothing on them that could",
    )


def _interval(text: str) -> float:
    return parse_seconds(text, MIN_READ_INTERVAL_SECONDS, MAX_READ_INTERVAL_SECONDS)


def watch_seconds(text: str) -> float:
    """Seconds to observe rates. Raises ArgumentTypeError."""
    return parse_seconds(text, MIN_WATCH_SECONDS, MAX_WATCH_SECONDS)


def parse_seconds(text: str, minimum: float, maximum: float) -> float:
    """A number of seconds from `minimum` to `maximum`. Raises ArgumentTypeError."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not minimum <= number <= maximum:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from {minimum:g} to {maximum:g}")
    return number
