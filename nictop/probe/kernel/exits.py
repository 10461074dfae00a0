"""How a process ended, in words."""

from __future__ import annotations

import signal


def exit_text(code: int | None) -> str:
    """``ended with status 3``, ``ended by signal 15 (SIGTERM)``. `code`: exit status, the negative
    number of a signal, or None if it is not known."""
    if code is None:
        return "ended with an unknown status"
    return f"ended by signal {signal_text(-code)}" if code < 0 else f"ended with status {code}"


def signal_text(number: int) -> str:
    """``11 (SIGSEGV)``; only the number if this machine has no name for it."""
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)
