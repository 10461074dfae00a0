"""``nictop --help``, read from a file that is made from the parser: importing argparse and making
the parser takes as long as a start of Python.

`HELP_FILE` is part of the package; ``make screenshots`` writes it anew, and a test says when that
is due.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

HELP_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "top_help.txt")
WRAPPED_SECTIONS = ("options:", "commands:")
"""First lines of the paragraphs that are wrapped; the others keep their lines."""
NAME_CELLS = 24
"""Where the descriptions of options and commands begin (argparse: `max_help_position`)."""
MIN_TEXT_CELLS = 11
"""Of a description, also in a narrower terminal (argparse: `HelpFormatter._format_action`)."""


def is_only_help(arguments: Sequence[str]) -> bool:
    """``nictop --help`` without anything else."""
    return list(arguments) in (["--help"], ["-h"])


def help_cells() -> int:
    """Cells of a line of help, as argparse has it, which imports three libraries for archives to
    ask for the width of the terminal."""
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        columns = 0
    if columns <= 0:
        try:
            columns = os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]  # None if it is closed
        except (AttributeError, OSError, ValueError):
            columns = 0
    return (columns or 80) - 2


def top_help(cells: int) -> str:
    """The help without a command, in lines of at most `cells`, as argparse prints it."""
    with open(HELP_FILE, encoding="ascii") as file:
        sections = file.read().split("\n\n")
    return "\n\n".join([_section_in(section, cells) for section in sections])


def _section_in(section: str, cells: int) -> str:
    if not section.startswith(WRAPPED_SECTIONS):
        return section
    lines = []
    for line in section.split("\n"):
        lines += _lines_of_entry(line, cells)
    return "\n".join(lines)


def _lines_of_entry(line: str, cells: int) -> list[str]:
    """The line of an option or command, its description wrapped at blanks."""
    name, words = line[:NAME_CELLS], line[NAME_CELLS:].split()
    if len(line) <= cells or not words:
        return [line]
    room = max(cells - NAME_CELLS, MIN_TEXT_CELLS)
    rows = [words[0]]
    for word in words[1:]:
        if len(rows[-1]) + 1 + len(word) <= room:
            rows[-1] += f" {word}"
        else:
            rows.append(word)
    indent = " " * NAME_CELLS
    return [f"{name}{rows[0]}", *[f"{indent}{row}" for row in rows[1:]]]
