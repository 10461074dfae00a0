"""The actions of the probe that carry out a fix: argv that its grammar takes, or why the user must run it.

Pure. The probe runs no shell: it carries out those commands that `nictop.probe.plan.grammar.actions` allows.
``echo TEXT > FILE`` and ``sysctl -w`` become writes. A placeholder (``<ADDRESS/PREFIX>``) follows the name of a
setting; a name on the host that looks like one is never treated as one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from nictop.changes.manual import manual_reason
from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.probe.plan.grammar.actions import parse_action
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import PLACEHOLDER, Command, ManualStep, Step, echo, shell_quote
from nictop.rules.wording import where_text

Action = tuple[str, ...]

MAC = re.compile(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}", re.ASCII)
SYSCTL = re.compile(r"(net\.core\.[a-z_]+)=([0-9]+)", re.ASCII)
SETTING = re.compile(
    r"[+]?(?:ipv[46]\.(?:addresses|gateway|dns|route-metric)|connection\.interface-name|mac|mtu|combined|rx|tx)"
)
"""What is followed by a place to fill in. Behind any other word the same text is a name."""


@dataclass(frozen=True)
class Actions:
    """A fix that the probe can carry out, once nothing is left to fill in."""

    actions: tuple[Action, ...]
    blanks: tuple[str, ...] = ()
    """What is still to be filled in, without the angle brackets, each once: ``ADDRESS/PREFIX``."""

    @property
    def commands(self) -> tuple[Command, ...]:
        """As they are typed into a shell."""
        return tuple(map(command_of, self.actions))


@dataclass(frozen=True)
class ManualOnly:
    """A fix that the probe cannot carry out."""

    why: str
    """For example ``it must be run on the ESXi host``. It may contain what the host has sent."""


def actions_of(fix: Fix) -> Actions | ManualOnly:
    """The actions of a fix of the host that the finding is about."""
    if fix.where != "here":
        return ManualOnly(f"it must be run {where_text('', fix)}")
    if not fix.commands:
        return ManualOnly("it has no command")
    actions: list[Action] = []
    blanks: dict[str, None] = {}
    for step in fix.commands:
        try:
            action = _action(step)
            names = {index: action[index][1:-1] for index in range(len(action)) if _is_blank(action, index)}
            unknown = [name for name in names.values() if name not in BLANKS]
            if unknown:
                return ManualOnly(f"the value of <{unknown[0]}> is unknown")
            parse_action(tuple(BLANKS[names[i]].example if i in names else text for i, text in enumerate(action)))
        except ValueError as error:
            reason = manual_reason(step.argv, step.write_to) if isinstance(step, Command) else ""
            return ManualOnly(f"{step}: {reason or error}")
        actions.append(action)
        blanks |= dict.fromkeys(names.values())
    return Actions(tuple(actions), tuple(blanks))


def _action(step: Step) -> Action:
    """Raises ValueError."""
    if not isinstance(step, Command):
        raise ValueError("it needs a shell")
    argv = step.argv
    if step.write_to is not None:
        if len(argv) != 2 or argv[0] != "echo":
            raise ValueError("it needs a shell to write the file")
        return ("write", step.write_to, argv[1])
    if argv[:2] == ("sysctl", "-w") and len(argv) == 3:
        found = SYSCTL.fullmatch(argv[2])
        if found is None:
            raise ValueError("nictop does not write this setting")
        return ("write", f"/proc/sys/{found[1].replace('.', '/')}", found[2])
    return argv


def _is_blank(action: Action, index: int) -> bool:
    """Whether a word is a place to fill in: the value of a setting."""
    is_value = index > 1 and SETTING.fullmatch(action[index - 1]) is not None
    return is_value and PLACEHOLDER.fullmatch(action[index]) is not None


def fill(actions: Actions, values: Mapping[str, str]) -> Actions:
    """The same with `values` (name without brackets → text) filled in; other blanks stay. Raises NictopError for a name
    that is none of its `blanks` and for a value that is not valid."""
    for name in values:
        if name not in actions.blanks:
            requested = ", ".join(f"<{blank}>" for blank in actions.blanks) or "none"
            raise NictopError(f"this fix has no placeholder <{clean(name)}>; placeholders: {requested}")
    checked = {name: BLANKS[name].checked(text.strip()) for name, text in values.items()}
    filled = tuple(tuple(_filled(action, index, checked) for index in range(len(action))) for action in actions.actions)
    return replace(actions, actions=filled, blanks=tuple(one for one in actions.blanks if one not in checked))


def _filled(action: Action, index: int, values: Mapping[str, str]) -> str:
    text = action[index]
    return values.get(text[1:-1], text) if _is_blank(action, index) else text


def with_values(steps: Iterable[Step], values: Mapping[str, str]) -> tuple[Step, ...]:
    """The same commands with `values` (name of a placeholder without brackets → text) put in, to be shown and copied;
    placeholders without a value stay."""

    def filled(text: str) -> str:
        return PLACEHOLDER.sub(lambda found: values.get(found[0][1:-1]) or found[0], text)

    def filled_word(word: str) -> str:
        """Of a shell line: quoted there."""
        value = values.get(word[2:-2]) if word[:2] == "'<" and word[-2:] == ">'" else None
        return shell_quote(value) if value else filled(word)

    result: list[Step] = []
    for step in steps:
        if isinstance(step, Command):
            path = None if step.write_to is None else filled(step.write_to)
            result.append(Command(tuple(map(filled, step.argv)), path))
        else:
            result.append(ManualStep(tuple(map(filled_word, step.words))))
    return tuple(result)


def command_of(action: Action) -> Command:
    """An action as it is typed into a shell."""
    if action[:1] == ("write",) and len(action) == 3:
        return echo(action[2], action[1])
    return Command(action)


# ------------------------------------------------------------------------------------------------ what is filled in


@dataclass(frozen=True)
class Placeholder:
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
            raise NictopError(f'"{clean(text)}" is not {self.what}', f"e.g. {self.example}") from None


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


BLANKS: dict[str, Placeholder] = {
    "ADDRESS/PREFIX": Placeholder("an address with prefix length", "192.0.2.10/24", _interface),
    "INTERFACE": Placeholder("a valid interface name", "ens4", _name),
    "MAC": Placeholder("a unicast MAC address", "52:54:00:12:34:56", _hardware_address),
}
"""By the name between the angle brackets."""
