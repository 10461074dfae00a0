"""Commands, options and arguments of nictop, as its parsers define them.

Pure. What can be completed follows from the name of an argument in ``--help``: HOST is a host in
every command.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Literal, cast

from nictop.cli import SUMMARIES
from nictop.cli.arguments import make_hosts_parser, make_parser
from nictop.probe.light_dataclasses import dataclass

Source = Literal["hosts", "results", "nics", "rules", "files"]
"""Where the words for a value come from: hosts of ssh and config.toml, saved results, network
interfaces of this machine, names of rules, files."""

SOURCES: dict[str, tuple[Source, ...]] = {
    "CLIENT": ("hosts",),
    "FILE": ("files",),
    "HOST": ("hosts",),
    "HOST|RECORDING|RUN": ("hosts", "results", "files"),
    "NIC": ("nics",),
    "RESULT": ("results", "files"),
    "RULE": ("rules",),
    "SERVER": ("hosts",),
    "SUBJECT": ("nics",),
}
"""Name of an argument in ``--help`` → what it may be."""


@dataclass(frozen=True)
class Argument:
    """A value: of an option, or an argument by itself."""

    name: str
    """As in ``--help``: HOST."""
    words: tuple[str, ...]
    """The possible values; () if they are not limited."""
    sources: tuple[Source, ...]
    help: str
    repeated: bool
    optional: bool


@dataclass(frozen=True)
class Option:
    flags: tuple[str, ...]
    argument: Argument | None
    """None: it takes no value."""
    help: str
    repeated: bool
    excludes: tuple[str, ...]
    """Flags of other options that cannot be combined with it."""


@dataclass(frozen=True)
class CompletedCommand:
    """A command, or a job of ``setup``."""

    name: str
    """As typed: "show", "setup address"; "": the live screen."""
    help: str
    options: tuple[Option, ...]
    arguments: tuple[Argument, ...]
    jobs: tuple[str, ...] = ()
    """Words of its subcommands, after its arguments."""


def commands() -> tuple[CompletedCommand, ...]:
    """The live screen, then all commands, each followed by its jobs."""
    live = make_hosts_parser()
    found = [_command("", live.description or "", live)]
    for name, summary in SUMMARIES.items():
        parser = subparsers(make_parser(name))[name]
        jobs = subparsers(parser)
        found.append(_command(name, summary, parser))
        found += [
            _command(f"{name} {job}", parser_of_job.description or "", parser_of_job)
            for job, parser_of_job in jobs.items()
        ]
    return tuple(found)


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Name → parser of the commands of a parser; {} if it has none."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return cast("dict[str, argparse.ArgumentParser]", action.choices)
    return {}


def _command(name: str, help_text: str, parser: argparse.ArgumentParser) -> CompletedCommand:
    accepts_files = any(
        action.dest == "at" for action in parser._actions
    )  # a recording may be named instead of hosts
    return CompletedCommand(
        name,
        help_text.rstrip("."),
        tuple(_options(parser)),
        tuple(_arguments(parser, accepts_files=accepts_files)),
        tuple(subparsers(parser)),
    )


def _options(parser: argparse.ArgumentParser) -> Iterator[Option]:
    for action in parser._actions:
        if not action.option_strings:
            continue
        yield Option(
            tuple(action.option_strings),
            None if action.nargs == 0 else _argument(action),
            help_of(action, parser),
            isinstance(action, (argparse._AppendAction, argparse._CountAction)),
            tuple(_excluded(action, parser)),
        )


def _excluded(action: argparse.Action, parser: argparse.ArgumentParser) -> Iterator[str]:
    for group in parser._mutually_exclusive_groups:
        if action in group._group_actions:
            for other in group._group_actions:
                if other is not action:
                    yield from other.option_strings


def _arguments(parser: argparse.ArgumentParser, *, accepts_files: bool) -> Iterator[Argument]:
    for action in parser._actions:
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction):
            yield _argument(action, ("files",) if accepts_files else ())


def _argument(action: argparse.Action, more: Iterable[Source] = ()) -> Argument:
    name = str(action.metavar or action.dest.upper())
    sources = ("nics",) if action.dest == "nic" else SOURCES.get(name, ())
    return Argument(
        name,
        tuple(map(str, action.choices or ())),
        tuple(dict.fromkeys((*sources, *more))),
        action.help or "",
        action.nargs in ("*", "+"),
        action.nargs in ("*", "?"),
    )


def help_of(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    """Its help, with the default in place of %(default)s."""
    return parser._get_formatter()._expand_help(action) if action.help else ""


def flags_with_values(commands: Iterable[CompletedCommand]) -> Iterator[str]:
    """Options that are followed by a value."""
    for command in commands:
        for option in command.options:
            if option.argument:
                yield from option.flags


def job_names(commands: Iterable[CompletedCommand]) -> list[str]:
    """``setup mtu``: names of two words."""
    return [command.name for command in commands if " " in command.name]
