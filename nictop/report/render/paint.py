"""Colours of a text: who prints it knows what the terminal can show."""

from __future__ import annotations

from collections.abc import Callable

Paint = Callable[[str, str], str]
"""(role, line) → the line as it is printed. Roles: a severity, ``command``, and the styles of a
document."""


def plain(role: str, line: str) -> str:
    """`Paint` without colours."""
    return line
