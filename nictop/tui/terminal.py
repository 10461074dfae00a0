"""What the terminal in front of us can draw, from the environment it gives, and whether a shell is behind it."""

from __future__ import annotations

import locale
import os
from collections.abc import Mapping

PLAIN_TERMINALS = ("linux", "vt100", "vt102", "vt220", "ansi", "dumb", "cons25", "xterm-mono")
"""Consoles whose font has neither block eighths nor rounded corners."""


def has_job_control() -> bool:
    """Whether a shell would continue this process after it was stopped: its process group is not orphaned
    (POSIX.1-2017, 3.269)."""
    import psutil

    try:
        others = [one.pid for one in psutil.Process().parents() if os.getpgid(one.pid) != os.getpgrp()]
        return bool(others) and os.getsid(others[0]) == os.getsid(0)
    except (OSError, psutil.Error):
        return False


def terminal_colours() -> int:
    """How many colours Textual will draw with here, by the environment of this process."""
    from rich.console import Console
    from textual.constants import COLOR_SYSTEM

    console = Console(color_system=COLOR_SYSTEM, force_terminal=True, legacy_windows=False)  # type: ignore[arg-type]
    return {"truecolor": 2**24, "256": 256}.get(console.color_system or "", 16)


def wants_ascii(environment: Mapping[str, str]) -> bool:
    """Whether this terminal can only be trusted with ASCII: a plain console, or a locale that is not UTF-8."""
    if environment.get("TERM", "dumb") in PLAIN_TERMINALS:
        return True
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if environment.get(name):
            return "utf" not in environment[name].lower()
    return "utf" not in locale.getpreferredencoding(False).lower()
