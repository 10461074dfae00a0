"""A line of a file that a fix writes is one line: a text of the host with a line break in it would
add settings of its own (``ExecStart=`` in a unit, ``post-up`` in a stanza).

Such a fix has a note instead of commands. Reads nothing.
"""

from __future__ import annotations

from nictop.probe.light_dataclasses import replace
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import Command, Step

KERNEL_FILES = ("/sys/", "/proc/")
"""A file there takes one value."""
LINE_BREAKS = frozenset("\n\r\0")
ADDED_LINES_NOTE = (
    "No command: a name or address of this host has a line break in it, and would add lines to "
    "the file. Write it by hand."
)


def without_added_lines(fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
    return tuple(map(_checked, fixes))


def _checked(fix: Fix) -> Fix:
    if not any(map(adds_lines, (*fix.commands, *fix.undo))):
        return fix
    return replace(fix, commands=(), undo=(), note=f"{ADDED_LINES_NOTE} {fix.note}".rstrip())


def adds_lines(step: Step) -> bool:
    if not isinstance(step, Command) or step.write_to is None:
        return False
    if step.write_to.startswith(KERNEL_FILES):
        return False
    return any(LINE_BREAKS.intersection(word) for word in (*step.argv, step.write_to))
