"""What Python 3.6, the oldest that runs the probe, does not have.

Each function names what newer Pythons have instead; `tests/probe/test_old_pythons.py` finds uses of
that.
"""

from __future__ import annotations

import gc
import os

CLOCK_BOOTTIME = 7
"""time.CLOCK_BOOTTIME (Python 3.7); linux/time.h."""


freeze = getattr(gc, "freeze", gc.collect)
"""gc.freeze (Python 3.7)."""


def is_ascii(text: str) -> bool:
    """str.isascii (Python 3.7)."""
    return len(text.encode("utf-8", "surrogatepass")) == len(text)


def colon_hex(data: bytes) -> str:
    """``02:00:5e:…``: bytes.hex(":") (Python 3.8)."""
    return ":".join(map("%02x".__mod__, data))


def exit_code(status: int) -> int:
    """os.waitstatus_to_exitcode (Python 3.9): exit status, or the negative number of a signal."""
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
