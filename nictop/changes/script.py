"""A fix as a POSIX shell script: the same commands, what undoes them and makes them last as
comments. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nictop.errors import NictopError
from nictop.model.text.glyphs import ASCII
from nictop.model.text.terminal import clean, is_clean
from nictop.rules.finding import Finding, Fix
from nictop.rules.fixes.commands import Step
from nictop.rules.wording import filled_note, placeholders, where_text

BASH_ONLY = "$'"
"""How `nictop.rules.fixes.commands` writes what no terminal shows; sh(1) of POSIX.1-2017 does not
know it."""


def lasting_fixes(finding: Finding, chosen: Fix) -> tuple[Fix, ...]:
    """What makes a fix last that would be gone after the next reboot."""
    if chosen.persistent is not False:
        return ()
    others = [fix for fix in finding.fixes if fix is not chosen]
    return tuple(fix for fix in others if fix.where == "here" and fix.persistent)


def script(
    host: str,
    about: str,
    fix: Fix,
    *,
    commands: Iterable[Step] | None = None,
    lasting: Iterable[Fix] = (),
    warnings: Iterable[str] = (),
) -> str:
    """The whole script. `about`: a line on what it is for. `commands`: those of the fix with
    everything filled in; default: as they are. Raises NictopError if it is not typed into a shell
    of this host, if a placeholder is not filled in, and for names that a POSIX shell cannot take on
    one line."""
    if commands is None:
        commands = fix.commands
    lines, undo = list(map(str, commands)), list(map(str, fix.undo))
    _check(host, fix, lines, undo)
    text = ["#!/bin/sh", *_comment(about)]
    text += _comment(f"Run as root on {host}. {_lasts(fix)}".strip())
    text += [*_comment(filled_note(fix)), *_comment(*warnings), "set -eu", "", *lines]
    if undo:
        text += ["", "# Rollback:", *(f"# {line}" for line in undo)]
    for further in lasting:
        text += ["", *_lasting_lines(further)]
    return "\n".join(text) + "\n"


def _check(host: str, fix: Fix, lines: Sequence[str], undo: Sequence[str]) -> None:
    """Raises NictopError for a fix of which no script can be made."""
    if fix.where != "here":
        raise NictopError(f"no script: the commands must be run {where_text(host, fix)}")
    if not lines:
        raise NictopError(f"this fix has no commands: {clean(fix.note or fix.title)}")
    if missing := placeholders(lines):
        raise NictopError(f"value of {clean(missing[0])} missing", "add --fill NAME=VALUE")
    for line in (*lines, *undo):
        if BASH_ONLY in line or not is_clean(line):
            why = "no script: a name contains invisible or control characters"
            raise NictopError(why, "see nictop check")


def _lasting_lines(fix: Fix) -> Iterator[str]:
    """As a comment: the user decides whether it is to last."""
    yield from _comment(f"To make it persistent: {fix.title}.", fix.note)
    for step in fix.commands:
        yield f"# {clean(str(step))}"


def _lasts(fix: Fix) -> str:
    return {True: "Survives a reboot.", False: "Lost on reboot.", None: ""}[fix.persistent]


def _comment(*sentences: str) -> list[str]:
    """Lines that no shell takes for anything else."""
    return [f"# {ASCII.text(sentence)}" for sentence in sentences if sentence]
