"""A child that cannot outlive its parent: PR_SET_PDEATHSIG. Called in the child, because it loads ctypes."""

from __future__ import annotations

import os
import signal

PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """From now on the kernel sends SIGKILL when process `parent` ends, also after exec; at once if it already has.

    Raises OSError when this Python or kernel cannot ask for it.
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
