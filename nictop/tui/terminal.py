"""What the terminal in front of us can draw, from the environment it gives."""

from __future__ import annotations

import locale
from collections.abc import Mapping

PLAIN_TERMINALS = ("linux", "vt100", "vt102", "vt220", "ansi", "dumb", "cons25", "xterm-mono")
"""Consoles whose font has neither block eighths nor rounded corners."""


def wants_ascii(environment: Mapping[str, str]) -> bool:
    """Whether this terminal can only be trusted with ASCII: a plain console, or a locale that is not UTF-8."""
    if environment.get("TERM", "dumb") in PLAIN_TERMINALS:
        return True
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if environment.get(name):
            return "utf" not in environment[name].lower()
    return "utf" not in locale.getpreferredencoding(False).lower()
