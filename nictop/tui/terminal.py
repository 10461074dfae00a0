"""What the terminal in front of us can draw, from the environment it gives, and whether a shell is
behind it."""

from __future__ import annotations

import locale
import os
from collections.abc import Mapping

PLAIN_TERMINALS = ("linux", "vt100", "vt102", "vt220", "ansi", "dumb", "cons25", "xterm-mono")
"""Consoles whose font has neither block eighths nor rounded corners."""


def has_job_control() -> bool:
    """Whether a shell would continue this process after it was stopped: its process group is not
    orphaned (POSIX.1-2017, 3.269)."""
    import psutil

    try:
        own_group = os.getpgrp()
        pids = [process.pid for process in psutil.Process().parents()]
        others = [pid for pid in pids if os.getpgid(pid) != own_group]
        return bool(others) and os.getsid(others[0]) == os.getsid(0)
    except (OSError, psutil.Error):
        return False


def wants_ascii(environment: Mapping[str, str]) -> bool:
    """Whether this terminal can only be trusted with ASCII: a plain console, or a locale that is
    not UTF-8."""
    if environment.get("TERM", "dumb") in PLAIN_TERMINALS:
        return True
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if environment.get(name):
            return "utf" not in environment[name].lower()
    return "utf" not in locale.getpreferredencoding(False).lower()
