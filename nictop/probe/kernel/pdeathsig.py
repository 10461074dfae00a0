"""prctl(2) for a child process, as ctypes is loaded: it is killed when its parent ends; its timers
are exact."""

from __future__ import annotations

import os
import signal

PR_SET_PDEATHSIG = 1
PR_SET_TIMERSLACK = 29


def set_parent_death_signal(parent: int) -> None:
    """Let the kernel send SIGKILL to this process when process `parent` ends, also after exec; exit
    if it has ended.

    Raises OSError when prctl(2) is not available or fails.
    """
    try:
        import ctypes

        failed = ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (ImportError, AttributeError) as error:
        raise OSError(f"no prctl: {error}") from error
    if failed:
        raise OSError(ctypes.get_errno(), "PR_SET_PDEATHSIG was refused")
    if os.getppid() != parent:
        os._exit(1)


def set_timer_slack(nanoseconds: int) -> None:
    """How late the kernel may wake this process up, to wake several at once; by default 50 µs.
    Without effect where prctl(2) is not available."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, nanoseconds)
    except (ImportError, AttributeError, OSError):
        pass
