"""The lines of a fix as data, and their words in shell syntax.

What one program does is a `Command`, which `nictop.changes.actions` judges by its argv. What only a
shell or a person can do is a `ManualStep`. Text is made where a line is shown: ``str(step)``,
`nictop.rules.wording.command_lines`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from shlex import quote

from nictop.model.text.terminal import is_clean
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import dataclass

PLACEHOLDER = pattern(r"<[A-Z][A-Z0-9_./-]*>")
"""What the user must fill in: ``<ADDRESS/PREFIX>``."""
QUOTING = frozenset("'\"\\")


class Step(ABC):
    """One line of a fix; `str` is the line."""

    @property
    @abstractmethod
    def words(self) -> Sequence[str]:
        """Parts of the line, quoted where they must be; a long line may be broken between them."""

    def __str__(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True)
class Command(Step):
    """One program with its arguments. What the user must fill in is a `PLACEHOLDER`, which is
    printed in quotation marks: bare, a shell would take ``<`` and ``>`` for redirections."""

    argv: tuple[str, ...]
    write_to: str | None = None
    """Path of the file that its output is written to (``>``)."""

    @property
    def words(self) -> Sequence[str]:
        words = [shell_quote(word) for word in self.argv]
        return words if self.write_to is None else [*words, ">", shell_quote(self.write_to)]


@dataclass(frozen=True)
class ManualStep(Step):
    """A line that only a shell or a person can carry out: a pipeline, PowerShell. Printed as it
    is."""

    parts: tuple[str, ...]
    """See `words`."""

    @property
    def words(self) -> Sequence[str]:
        return self.parts


def command(*argv: str) -> Command:
    return Command(argv)


def with_undo(words: Sequence[str], new: str, old: str) -> tuple[Command, Command]:
    """The command with the new value as its last word, and the same with the old one."""
    return command(*words, new), command(*words, old)


def echo(text: str | int, file: str) -> Command:
    """``echo TEXT > FILE``"""
    return Command(("echo", str(text)), file)


def print_lines(lines: Iterable[str], file: str) -> Command:
    """``printf '%s\\n' LINE… > FILE``"""
    return Command(("printf", r"%s\n", *lines), file)


def joined(operator: str, *commands: Command) -> ManualStep:
    """Commands between which a shell operator stands: ``|``, ``||``."""
    words = [word for step in commands for word in (operator, *step.words)]
    return ManualStep(tuple(words[1:]))


def stored_line(text: str) -> ManualStep:
    """A line that was stored as text, in the audit log or with a run; it may be broken at its
    blanks unless some of them can be quoted."""
    return ManualStep((text,) if QUOTING.intersection(text) else tuple(text.split(" ")))


def shell_quote(text: str) -> str:
    """`text` as one word of a POSIX shell: as it is, or in single quotes. A name with characters
    that a terminal interprets or that are not visible becomes ``$'…'`` (bash, zsh, ksh, busybox
    ash): the command stays on one line, and what is copied is what a screen shows of it."""
    if is_clean(text):
        return quote(text)
    return "$'" + "".join(_escaped(character) for character in text) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if is_clean(f"a{character}"):  # a combining mark is shown on a letter
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
