"""Parsing of the command line: commands, options and their limits.

Reads nothing; `parse(arguments)` returns one attribute per option, and `command` (None: the live
screen). If the first argument is not a command, all arguments are hosts of the live screen.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping, Sequence

from nictop.cli import SUMMARIES
from nictop.cli.form import version_text
from nictop.cli.top_help import help_cells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MIN_READ_INTERVAL_SECONDS = 0.1
MAX_READ_INTERVAL_SECONDS = 60.0
DEFAULT_READ_INTERVAL_SECONDS = 1.0
"""Seconds between two readings."""
SNAPSHOT_COMMANDS, SNAPSHOT_READ_INTERVAL_SECONDS = ("show", "check", "report", "diff"), 0.2
"""Commands that print the present state, and their default: 20 clock ticks of each CPU between two
readings."""
MIN_WATCH_SECONDS, MAX_WATCH_SECONDS = 1.0, 60.0
"""How long the rates of a host are observed before they are printed."""

OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "--nic": ("--client-nic",),
    "--client-nic": ("--nic",),
    "--peer-nic": ("--server-nic",),
    "--server-nic": ("--peer-nic",),
    "--address": ("--client-address",),
    "--client-address": ("--address",),
    "--peer-address": ("--server-address",),
    "--server-address": ("--peer-address",),
    "ip": ("address",),
    "addr": ("address",),
    "channels": ("queues",),
    "sriov": ("vfs",),
    "vf": ("vfs",),
    "irq": ("irq-affinity",),
    "affinity": ("irq-affinity",),
    "identify": ("led",),
}
"""A word of another command, or of ip(8) and ethtool(8) → what it is called where that is not
known."""
NEAR_OPTION = 0.8
"""Likeness (`difflib`) of an option and the one that was meant."""

HOST_FORMS = (
    "[label=][user@]host[:port], local, or a name from ~/.ssh/config or nictop's config.toml"
)
HOSTS_HELP = f"{HOST_FORMS}; default: this host"
EXAMPLES = """\
HOST is [label=][user@]host[:port], local (this host) or a name from
~/.ssh/config or ~/.config/nictop/config.toml. Default: this host.
A host over SSH needs Python 3.6 or newer; nothing is installed there.
An ESXi host is read with esxcli and net-stats (experimental: not tested on a
real ESXi host).

examples:
  nictop                               this host
  nictop vm1 vm2 pve=root@pve:2222     several hosts over SSH
  nictop --sudo --allow-changes vm1    as root, with changes allowed
  nictop show --format json            this host as JSON
  nictop check vm1 vm2                 findings and fixes; exit code 1 if any
  nictop check --explain               list all rules
  nictop fix vm1 RULE --dry-run        show what a fix would change
  nictop setup vm1 queues ens256 4 --allow-changes
  nictop traffic vm1 vm2               goodput, bottleneck and CPU cost
  nictop record monday.nictop vm1      record until Ctrl-C
  nictop replay monday.nictop          open the recording
  nictop show monday.nictop --at 14:03:20
  nictop report vm1 -o ticket.html     report for a ticket
  nictop demo                          two recorded guests; no host needed
  sudo nictop lab --fault mtu          two namespaces of this host, and a fault

Options of a command: nictop help COMMAND
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command line. Raises SystemExit after --help and --version, and for invalid
    arguments."""
    first = _first_word(arguments)
    if first is None or first in SUMMARIES:
        options = make_parser(first).parse_args(arguments)
    elif {"-h", "--help"}.intersection(arguments):
        options = make_parser(None).parse_args(["--help"])  # with the list of commands
    else:
        options = make_hosts_parser().parse_args(arguments)
    if options.interval is None:
        is_stream = getattr(options, "format", "") == "jsonl"
        takes_snapshot = options.command in SNAPSHOT_COMMANDS and not is_stream
        options.interval = DEFAULT_READ_INTERVAL_SECONDS
        if takes_snapshot:
            options.interval = SNAPSHOT_READ_INTERVAL_SECONDS
    return options


EXAMPLES_HEAD = "examples:\n"


class Help(argparse.HelpFormatter):
    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **{"width": help_cells(), **options})

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Of paragraphs; examples keep their lines."""
        paragraphs = []
        for paragraph in text.strip().split("\n\n"):
            if paragraph.startswith(EXAMPLES_HEAD):
                paragraphs.append(paragraph)
            else:
                paragraphs.append(super()._fill_text(paragraph, width, indent))
        return "\n\n".join(paragraphs)


class HelpWithLines(Help, argparse.RawDescriptionHelpFormatter):
    """Description and epilog keep their lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return argparse.RawDescriptionHelpFormatter._fill_text(self, text, width, indent)


class _Parser(argparse.ArgumentParser):
    """Options may be anywhere between the arguments, as for programs that use getopt_long(3). By
    itself argparse gives an optional argument its value before the next option, or never: ``fix vm1
    RULE --dry-run ens224``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": Help, **options})

    _is_intermixed = False
    """`parse_known_intermixed_args` calls `parse_known_args`."""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        has_commands = any(
            isinstance(action, argparse._SubParsersAction) for action in self._actions
        )
        if self._is_intermixed or has_commands or "--" in args:
            return super().parse_known_args(args, namespace)
        self._is_intermixed = True
        try:
            found, unknown = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixed = False
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._near_option(unknown)}")
        return found, unknown

    def _near_option(self, words: Sequence[str]) -> str:
        """`` (did you mean --format?)`` for the first of `words`, else where the options are."""
        from difflib import get_close_matches

        option = words[0].partition("=")[0]
        if not option.startswith("--"):
            return ""
        near = get_close_matches(option, self._option_string_actions, n=1, cutoff=NEAR_OPTION)
        here = [name for name in OTHER_NAMES.get(option, ()) if name in self._option_string_actions]
        for name in (*here, *near):
            return f" (did you mean {name}?)"
        return f" (options: {self.prog} --help)"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raises ArgumentError; with the word that is meant, if it has another name elsewhere."""
        choices = action.choices or ()
        others = OTHER_NAMES.get(value, ()) if isinstance(value, str) else ()
        for name in others:
            if value not in choices and name in choices:
                raise argparse.ArgumentError(
                    action, f"invalid choice: {value!r} (did you mean {name}?)"
                )
        super()._check_value(action, value)


def _first_word(arguments: Sequence[str]) -> str | None:
    """The first argument that is neither an option nor its value: a command or a host; ``--`` if
    hosts follow it. None: there is none, or --help or --version precedes it."""
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
    add_subparsers: Any = top.add_subparsers
    commands = add_subparsers(
        prog="nictop",
        dest="command",
        metavar="COMMAND",
        title="commands",
        parser_class=_parser_of(command),
    )
    for name, summary in SUMMARIES.items():
        one = commands.add_parser(name, help=summary, allow_abbrev=False)
        if name == command:
            add_common_options(one)
            importlib.import_module(f"nictop.cli.commands.{name}").add_arguments(one)
    return top


def _parser_of(command: str | None) -> Callable[..., Any]:
    """What makes the parsers of the commands: those that this command line does not have are only
    named in the help, and a parser takes a fifth of the time of a start of Python."""

    def make(**options: Any) -> Any:
        if options["prog"] == f"nictop {command}":
            return _Parser(**options)
        return None

    return make


def make_hosts_parser() -> argparse.ArgumentParser:
    """The parser without commands: argparse cannot distinguish a host from a command."""
    top = _top_level_parser()
    top.set_defaults(command=None)
    add_host_arguments(top)
    return top


def _top_level_parser() -> argparse.ArgumentParser:
    top = _Parser(
        prog="nictop",
        usage="nictop [OPTIONS] [HOST ...]\n       nictop COMMAND [OPTIONS] [HOST ...]",
        description="Live diagnosis of virtual NICs: why one is down or slow, and how to fix it.",
        epilog=EXAMPLES,
        formatter_class=HelpWithLines,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=version_text())
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
        help=f"seconds between readings, {MIN_READ_INTERVAL_SECONDS:g} to "
        f"{MAX_READ_INTERVAL_SECONDS:g} "
        f"(default {DEFAULT_READ_INTERVAL_SECONDS:g}; {', '.join(SNAPSHOT_COMMANDS)}: "
        f"{SNAPSHOT_READ_INTERVAL_SECONDS:g})",
    )
    parser.add_argument(
        "--ascii", action="store_true", default=argparse.SUPPRESS, help="use ASCII characters only"
    )


def add_hosts(parser: argparse.ArgumentParser) -> None:
    """Hosts of a command for scripts. Connections that need an answer of the user fail with the
    reason."""
    add_host_arguments(parser)
    add_access_options(parser)


def add_host_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("hosts", nargs="*", metavar="HOST", help=HOSTS_HELP)


def add_endpoint_options(group: argparse._ArgumentGroup, ends: Mapping[str, str]) -> None:
    """NIC and address of both ends, and the IP version. `ends`: beginning of the option → name of
    the end."""
    for prefix, end in ends.items():
        group.add_argument(
            f"--{prefix}nic", default="", metavar="NIC", help=f"interface of the {end}"
        )
        group.add_argument(
            f"--{prefix}address", default="", metavar="IP", help=f"IP address of the {end}"
        )
    version = group.add_mutually_exclusive_group()
    version.add_argument(
        "-4", "--ipv4", dest="ip_version", action="store_const", const=4, help="IPv4 only"
    )
    version.add_argument(
        "-6", "--ipv6", dest="ip_version", action="store_const", const=6, help="IPv6 only"
    )


def add_access_options(parser: argparse.ArgumentParser) -> None:
    """Options about the access to hosts, valid before and after a command."""
    parser.add_argument(
        "--sudo",
        action="store_true",
        default=argparse.SUPPRESS,
        help="run as root on the hosts, with sudo",
    )
    parser.add_argument(
        "--accept-new-host-keys",
        action="store_true",
        default=argparse.SUPPRESS,
        help="add unknown host keys to known_hosts; changed keys are always refused",
    )


def add_format_option(parser: argparse._ActionsContainer, *formats: str) -> None:
    """``--format``: the first of `formats` is the default."""
    parser.add_argument(
        "--format", choices=formats, default=formats[0], help="default: %(default)s"
    )


def add_schema_option(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--schema", action="store_true", help="print the JSON schema of --format json and exit"
    )


def add_allow_changes(parser: argparse.ArgumentParser) -> None:
    """The option of commands that can change a host, and of the live screen."""
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        default=argparse.SUPPRESS,
        help="allow changes; without it nictop is read-only",
    )


def _interval(text: str) -> float:
    return parse_seconds(text, MIN_READ_INTERVAL_SECONDS, MAX_READ_INTERVAL_SECONDS)


def whole_number(text: str, most: int, what: str) -> int:
    """A number from 1 to `most`. Raises ArgumentTypeError: it is not `what`."""
    digits = text.lstrip("0")
    is_number = text.isascii() and text.isdecimal() and 0 < len(digits) <= len(str(most))
    if not is_number or int(digits) > most:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return int(digits)


def watch_seconds(text: str) -> float:
    """Seconds to observe rates. Raises ArgumentTypeError."""
    return parse_seconds(text, MIN_WATCH_SECONDS, MAX_WATCH_SECONDS)


def parse_seconds(text: str, minimum: float, maximum: float) -> float:
    """A number of seconds from `minimum` to `maximum`. Raises ArgumentTypeError."""
    return number_between(text, minimum, maximum, "a number of seconds")


def number_between(text: str, minimum: float, maximum: float, what: str) -> float:
    """Raises ArgumentTypeError: it is not `what`."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not minimum <= number <= maximum:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what} ({minimum:g} to {maximum:g})")
    return number
