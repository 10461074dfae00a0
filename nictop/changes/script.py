"""A fix as a POSIX shell script: the same commands, what undoes them and makes them last as comments. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from nictop.errors import NictopError
from nictop.model.text.glyphs import ASCII
from nictop.model.text.terminal import clean, is_clean
from nictop.rules.finding import Finding, Fix
from nictop.rules.fixes.commands import Step
from nictop.rules.wording import PLACE_TEXTS, placeholders

BASH_ONLY = "$'"
"""How `nictop.rules.fixes.commands` writes what no terminal shows; sh(1) of POSIX.1-2017 does not know it."""


def lasting_fixes(finding: Finding, chosen: Fix) -> tuple[Fix, ...]:
    """What makes a fix last that would be gone after the next reboot."""
    if chosen.persistent is not False:
        return ()
    return tuple(one for one in finding.fixes if one is not chosen and one.where == "here" and one.persistent)


def script(
    host: str, about: str, fix: Fix, *, commands: Iterable[Step] | None = None, lasting: Iterable[Fix] = ()
) -> str:
    """The whole script. `about`: a line on what it is for. `commands`: those of the fix with everything filled in;
    default: as they are. Raises NictopError if it is not typed into a shell of this host, if a placeholder is not
    filled in, and for names that a POSIX shell cannot take on one line."""
    lines = [str(step) for step in (fix.commands if commands is None else commands)]
    undo = [str(step) for step in fix.undo]
    if fix.where != "here":
        raise NictopError(f"there is no script for it: it is typed {PLACE_TEXTS[fix.where]}")
    if not lines:
        raise NictopError(f"there is no command for it: {clean(fix.note or fix.title)}")
    if missing := placeholders(lines):
        raise NictopError(f"{clean(missing[0])} is still to be filled in", "--fill NAME=VALUE, with what stands in it")
    for line in (*lines, *undo):
        if BASH_ONLY in line or not is_clean(line):
            why = "a name in it has invisible or control characters: no script for every shell"
            raise NictopError(why, "see nictop check")
    text = ["#!/bin/sh", *_comment(about), *_comment(f"To be run as root on {host}. {_lasts(fix)}".strip())]
    note = "" if placeholders([fix.note]) else fix.note  # that one is about what is filled in by now
    text += [*_comment(note), "set -eu", "", *lines]
    if undo:
        text += ["", "# To undo it:", *(f"# {line}" for line in undo)]
    for one in lasting:
        text += ["", *_comment(f"To make it last: {one.title}.", *([one.note] if one.note else []))]
        text += [f"# {clean(str(step))}" for step in one.commands]
    return "\n".join(text) + "\n"


def _lasts(fix: Fix) -> str:
    return {True: "It survives a reboot.", False: "It is gone after the next reboot.", None: ""}[fix.persistent]


def _comment(*sentences: str) -> list[str]:
    """Lines that no shell takes for anything else."""
    return [f"# {ASCII.text(sentence)}" for sentence in sentences if sentence]
