"""Names of interfaces that a program would take for an option, for ``help``, or for a part of its
own syntax.

No command has one at such a place. Reads nothing. The kernel forbids slashes, colons and white
space only (net/core/dev.c, dev_valid_name); ``--help`` and ``e,firewall=0`` are names. nmcli, ip
and others take abbreviations: ``nmcli device disconnect h`` prints its help.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nictop.probe.light_dataclasses import replace
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import Command, Step, shell_quote
from nictop.rules.fixes.persistence import SAFE_NAME
from nictop.rules.host import HostFacts, once_per_host

HELP = "help"
NAME_FOLLOWS = frozenset(
    (
        *(
            "dev",
            "master",
            "link",
            "ifname",
            "con-name",
            "id",
            "connection.id",
            "connection.interface-name",
        ),
        *("-i", "-I", "-eni", "--grep"),
    )
)
"""Words and options behind which a program takes any word for a name, or for a value."""
NAMES_WITH_SYNTAX = ("ifup", "ifdown", "networkctl")
"""Programs that read more than a name in one: ``eth0=home``, ``eth*``."""
KERNEL_FILES = ("/sys/", "/proc/")
ODD_NAME_NOTE = (
    "No command: the program would not take the name of the interface for a name, but for an "
    "option or a part of its "
    "syntax. Do it by hand, or give the interface another name first."
)


def without_odd_names(host: HostFacts, fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
    """The fixes of a host; one with such a name at such a place has a note instead of commands."""
    names = _odd_names(host)
    if not names:
        return fixes
    return tuple(_checked(fix, names) for fix in fixes)


@once_per_host
def _odd_names(host: HostFacts) -> tuple[str, ...]:
    return tuple(link.name for link in host.links if is_odd(link.name))


def is_odd(name: str) -> bool:
    return SAFE_NAME.fullmatch(name) is None or _asks_for_help(name)


def _asks_for_help(name: str) -> bool:
    return HELP.startswith(name)


def _checked(fix: Fix, names: Sequence[str]) -> Fix:
    if all(is_unambiguous(step, names) for step in (*fix.commands, *fix.undo)):
        return fix
    return replace(fix, commands=(), undo=(), note=f"{ODD_NAME_NOTE} {fix.note}".rstrip())


def is_unambiguous(step: Step, names: Iterable[str]) -> bool:
    """Each of the names is where the program takes it for a name, or nowhere in the line."""
    if isinstance(step, Command):
        return all(_is_read_as_name(name, step.argv) for name in names)
    return all(_is_read_as_name(shell_quote(name), step.words) for name in names)


def _is_read_as_name(name: str, words: Sequence[str]) -> bool:
    for place, word in enumerate(words):
        if word == name:
            if not _is_name_at(name, words, place):
                return False
        elif name in word and not _asks_for_help(name) and not word.startswith(KERNEL_FILES):
            return False
    return True


def _is_name_at(name: str, words: Sequence[str], place: int) -> bool:
    if place == 0:
        return False
    if words[place - 1] in NAME_FOLLOWS or (words[0] == "ethtool" and place == 2):
        return True
    if words[0] in NAMES_WITH_SYNTAX:
        return False
    return not name.startswith("-") and not _asks_for_help(name)
