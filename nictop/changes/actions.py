"""The actions of the probe that carry out a fix: argv that its grammar takes, or why the user must
run it.

Pure. The probe runs no shell: it carries out those commands that
`nictop.probe.plan.grammar.actions` allows. ``echo TEXT > FILE`` and ``sysctl -w`` become writes. A
placeholder (``<ADDRESS/PREFIX>``) follows the name of a setting; a name on the host that looks like
one is never treated as one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from nictop.changes.manual import ROUTES, manual_reason
from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.plan.grammar.actions import parse_action
from nictop.probe.plan.grammar.operation import Operation, refuse_repetitions
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import PLACEHOLDER, Command, ManualStep, Step, echo, shell_quote
from nictop.rules.wording import where_text

Action = tuple[str, ...]

MAC = re.compile(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}", re.ASCII)
SYSCTL = re.compile(r"(net\.core\.[a-z_]+)=([0-9]+)", re.ASCII)
SETTING = re.compile(
    r"[-+]?(?:ipv[46]\.(?:addresses|gateway|dns|route-metric)|connection\.interface-name|mac|mtu|"
    r"combined|rx|tx)"
)
"""What is followed by a place to fill in. Behind any other word the same text is a name."""

ADDRESS_COMMANDS = (("ip", "address", "add"), ("ip", "address", "del"))
"""Words that an address follows, and never a name."""


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
    complete: list[Operation] = []
    for step in fix.commands:
        try:
            action = _action(step)
            names = _blank_names(action)
            operation = _example_operation(action, names)
        except ValueError as error:
            return ManualOnly(f"{step}: {_manual_reason(step) or error}")
        except NotFillable as error:
            return ManualOnly(error.message)
        actions.append(action)
        blanks |= dict.fromkeys(names.values())
        if not names:
            complete.append(operation)
    for step in fix.undo:
        if _manual_reason(step) == ROUTES:  # what the commands take with them
            return ManualOnly(f"{step}: {ROUTES}")
    try:
        refuse_repetitions(complete)
    except ValueError as error:
        return ManualOnly(f"{error}, which nictop cannot roll back")
    return Actions(tuple(actions), tuple(blanks))


class NotFillable(NictopError):
    """A placeholder whose value nictop does not ask for."""


def _blank_names(action: Action) -> dict[int, str]:
    """Place of a word that is to be filled in → its name, without the angle brackets."""
    return {place: word[1:-1] for place, word in enumerate(action) if _is_blank(action, place)}


def _example_operation(action: Action, names: Mapping[int, str]) -> Operation:
    """With examples filled in. Raises ValueError if the grammar of the probe does not take it."""
    words = list(action)
    for place, name in names.items():
        if name not in BLANKS:
            raise NotFillable(f"the value of <{name}> is unknown")
        words[place] = BLANKS[name].example
    return parse_action(tuple(words))


def _manual_reason(step: Step) -> str:
    if not isinstance(step, Command):
        return ""
    return manual_reason(step.argv, step.write_to)


def _action(step: Step) -> Action:
    """Raises ValueError."""
    if not isinstance(step, Command):
        raise ValueError("it needs a shell")
    if step.write_to is not None:
        return _file_action(step.argv, step.write_to)
    match step.argv:
        case ("sysctl", "-w", setting):
            return _sysctl_action(setting)
    return step.argv


def _file_action(argv: Sequence[str], path: str) -> Action:
    """``echo TEXT > path``"""
    match argv:
        case ("echo", text):
            return ("write", path, text)
    raise ValueError("it needs a shell to write the file")


def _sysctl_action(setting: str) -> Action:
    """``net.core.somaxconn=4096``"""
    found = SYSCTL.fullmatch(setting)
    if found is None:
        raise ValueError("nictop does not write this setting")
    return ("write", f"/proc/sys/{found[1].replace('.', '/')}", found[2])


def _is_blank(action: Action, index: int) -> bool:
    """Whether a word is a place to fill in: the value of a setting, or an address."""
    if PLACEHOLDER.fullmatch(action[index]) is None:
        return False
    if action[:index] in ADDRESS_COMMANDS:
        return True
    return index >= 2 and SETTING.fullmatch(action[index - 1]) is not None


def fill(actions: Actions, values: Mapping[str, str]) -> Actions:
    """The same with `values` (name without brackets → text) filled in; other blanks stay. Raises
    NictopError for a name that is none of its `blanks` and for a value that is not valid."""
    for name in values:
        if name not in actions.blanks:
            requested = ", ".join(f"<{blank}>" for blank in actions.blanks) or "none"
            raise NictopError(
                f"this fix has no placeholder <{clean(name)}>; placeholders: {requested}"
            )
    checked = {name: BLANKS[name].checked(text.strip()) for name, text in values.items()}
    filled = tuple(_filled(action, checked) for action in actions.actions)
    blanks = tuple(name for name in actions.blanks if name not in checked)
    return replace(actions, actions=filled, blanks=blanks)


def _filled(action: Action, values: Mapping[str, str]) -> Action:
    words = list(action)
    for place, name in _blank_names(action).items():
        words[place] = values.get(name, words[place])
    return tuple(words)


def filled_fix(fix: Fix, values: Mapping[str, str]) -> Fix:
    """The fix with `values` (name without brackets → text) filled in, also in the commands that
    undo it."""
    return replace(
        fix,
        commands=tuple(_filled_step(step, values) for step in fix.commands),
        undo=tuple(_filled_step(step, values) for step in fix.undo),
    )


def _filled_step(step: Step, values: Mapping[str, str]) -> Step:
    if not isinstance(step, Command):
        return step
    return replace(step, argv=_filled(step.argv, values))


def with_values(steps: Iterable[Step], values: Mapping[str, str]) -> tuple[Step, ...]:
    """The same commands with `values` (name of a placeholder without brackets → text) put in, to be
    shown and copied; placeholders without a value stay."""
    return tuple(_with_values(step, values) for step in steps)


def _with_values(step: Step, values: Mapping[str, str]) -> Step:
    if not isinstance(step, Command):
        return ManualStep(tuple(_word_with_values(word, values) for word in step.words))
    path = step.write_to
    if path is not None:
        path = _text_with_values(path, values)
    return Command(tuple(_text_with_values(word, values) for word in step.argv), path)


def _text_with_values(text: str, values: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda match: values.get(match[0][1:-1]) or match[0], text)


def _word_with_values(word: str, values: Mapping[str, str]) -> str:
    """Of a shell line: the value is quoted there."""
    is_quoted = word.startswith("'<") and word.endswith(">'")
    value = values.get(word[2:-2])
    if is_quoted and value:
        return shell_quote(value)
    return _text_with_values(word, values)


def command_of(action: Action) -> Command:
    """An action as it is typed into a shell."""
    match action:
        case ("write", path, text):
            return echo(text, path)
    return Command(action)


# -------------------------------------------------------------------------------- what is filled in


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
            raise NictopError(
                f'"{clean(text)}" is not {self.what}', f"e.g. {self.example}"
            ) from None


def _interface(text: str) -> str:
    prefix_length = ipaddress.ip_interface(text).network.prefixlen
    if "/" not in text or "%" in text or not prefix_length:
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
