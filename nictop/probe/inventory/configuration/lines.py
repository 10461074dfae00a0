"""Lines of configuration files and scripts. Pure."""

from __future__ import annotations


def joined_lines(text: str) -> list[tuple[int, str]]:
    """(Line number, contents) without empty lines and comments; a backslash at the end continues a
    line."""
    found = []
    before, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not before and line.lstrip().startswith("#"):
            continue
        first = first if before else number
        if line.endswith("\\"):
            before += line[:-1] + " "
            continue
        content, before = (before + line).strip(), ""
        if content:
            found.append((first, content))
    if before.strip():
        found.append((first, before.strip()))
    return found
