"""What a fix means as actions of the probe: tuples of words that its grammar takes, or the sentence why it must be
typed by hand. Pure.

A fix is shell lines for a person. The probe knows no shell, so that only lines that are one simple command each are
carried out by it, and of those only what `nictop.probe.changes.grammar.actions` allows. ``echo TEXT > FILE`` and
``sysctl -w`` become writes. Places to fill in (``<ADDRESS/PREFIX>``) are words of their own behind the name of what
they set; a name of a machine that looks like one is never taken for one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from nictop.changes.shell_words import ShellLine, parse_line
from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.probe.changes.grammar.actions import parse_action
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import command, word
from nictop.rules.wording import PLACES

Action = tuple[str, ...]

MAC = re.compile(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}", re.ASCII)
SYSCTL = re.compile(r"(net\.core\.[a-z_]+)=([0-9]+)", re.ASCII)
PLACE_BEFORE = re.compile(
    r"[+]?(?:ipv[46]\.(?:addresses|gateway|dns|route-metric)|connection\.interface-name|mac|mtu|combined|rx|tx)"
)
"""What stands before a place to fill in: the name of what is set. In any other place such a word is a name."""


@dataclass(frozen=True)
class Actions:
    """A fix that the probe can carry out, once nothing is left to fill in."""

    actions: tuple[Action, ...]
    blanks: tuple[str, ...] = ()
    """What is still to be filled in, without the angle brackets, each once: ``ADDRESS/PREFIX``."""

    @property
    def commands(self) -> tuple[str, ...]:
        """As shell lines, for reading and for scripts."""
        return tuple(map(as_command, self.actions))


@dataclass(frozen=True)
class ByHand:
    """A fix that the probe cannot carry out."""

    why: str
    """A sentence, for example ``it is typed on the ESXi host``. May name what the machine said."""


def actions_of(fix: Fix) -> Actions | ByHand:
    """The actions of a fix of the host that the finding is about."""
    if fix.where != "here":
        return ByHand(f"it is typed {PLACES[fix.where]}")
    if not fix.commands:
        return ByHand("there is no command for it")
    return parsed(fix.commands)


def parsed(lines: Iterable[str]) -> Actions | ByHand:
    """The actions of some shell lines."""
    actions: list[Action] = []
    blanks: dict[str, None] = {}
    for line in lines:
        try:
            found = parse_line(line)
            action = _action(found)
            open_words = [place for place in found.blanks if _may_be_filled(found.words, place)]
            names = dict.fromkeys(found.words[place][1:-1] for place in open_words)
            unknown = [name for name in names if name not in BLANKS]
            if unknown:
                return ByHand(f"<{unknown[0]}> is something that only you know")
            tried = tuple(BLANKS[text[1:-1]].example if i in open_words else text for i, text in enumerate(action))
            parse_action(tried)
        except ValueError as error:
            return ByHand(f"{line}: {error}")
        actions.append(action)
        blanks |= names
    return Actions(tuple(actions), tuple(blanks))


def _action(line: ShellLine) -> Action:
    words = line.words
    if line.written_to is not None:
        if len(words) != 2 or words[0] != "echo":
            raise ValueError("it takes a shell: something else than echo TEXT writes the file")
        return ("write", line.written_to, words[1])
    if words[:2] == ("sysctl", "-w") and len(words) == 3:
        found = SYSCTL.fullmatch(words[2])
        if found is None:
            raise ValueError("this setting is not one of those that nictop writes")
        return ("write", f"/proc/sys/{found[1].replace('.', '/')}", found[2])
    return words


def _may_be_filled(words: Action, place: int) -> bool:
    """Whether a word that looks like a place to fill in is one: it is the value of something."""
    return place > 1 and PLACE_BEFORE.fullmatch(words[place - 1]) is not None


def fill(actions: Actions, values: Mapping[str, str]) -> Actions:
    """The same with `values` (name without brackets → text) in their places; what is not among them stays open. Raises
    NictopError for a name that is not asked for and for a value that is none of its kind."""
    for name in values:
        if name not in actions.blanks:
            asked = ", ".join(f"<{blank}>" for blank in actions.blanks) or "nothing"
            raise NictopError(f"<{clean(name)}> is not asked for: {asked} is")
    checked = {name: BLANKS[name].checked(text.strip()) for name, text in values.items()}
    filled = tuple(tuple(_filled(action, place, checked) for place in range(len(action))) for action in actions.actions)
    return replace(actions, actions=filled, blanks=tuple(one for one in actions.blanks if one not in checked))


def _filled(action: Action, place: int, values: Mapping[str, str]) -> str:
    text = action[place]
    is_blank = text.startswith("<") and text.endswith(">") and text[1:-1] in values
    return values[text[1:-1]] if is_blank and _may_be_filled(action, place) else text


def as_command(action: Action) -> str:
    """An action as a line for a shell; every word is quoted where it must be."""
    if action[:1] == ("write",) and len(action) == 3:
        return f"{command('echo', action[2])} > {word(action[1])}"
    return command(*action)


# ------------------------------------------------------------------------------------------------ what is filled in


@dataclass(frozen=True)
class Blank:
    """Something that the user fills in."""

    what: str
    """For a question: ``the address with its prefix length``."""
    example: str
    check: Callable[[str], str]
    """The text as it is put in. Raises ValueError."""

    def checked(self, text: str) -> str:
        """Raises NictopError."""
        try:
            return self.check(text)
        except ValueError:
            raise NictopError(f"{clean(text)!r} is not {self.what}", f"for example {self.example}") from None


def _interface(text: str) -> str:
    if not ipaddress.ip_interface(text).network.prefixlen or "/" not in text or "%" in text:
        raise ValueError
    return text


def _name(text: str) -> str:
    return parse_action(("ip", "link", "set", "dev", text, "up")).interface


def _hardware_address(text: str) -> str:
    if not MAC.fullmatch(text) or int(text[:2], 16) & 1:
        raise ValueError
    return text.lower()


BLANKS: dict[str, Blank] = {
    "ADDRESS/PREFIX": Blank("an address with its prefix length", "192.0.2.10/24", _interface),
    "INTERFACE": Blank("the name of an interface", "ens4", _name),
    "MAC": Blank("the hardware address of one station", "52:54:00:12:34:56", _hardware_address),
}
"""By the name between the angle brackets."""
