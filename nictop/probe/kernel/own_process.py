"""Descriptors, name and probe of this process, after a fork."""

from __future__ import annotations

import contextlib
import os

_of_probe = 0


def set_probe(pid: int) -> None:
    """This process works for the probe with this process id."""
    global _of_probe  # noqa: PLW0603  (one per process, as its id)
    _of_probe = pid


def probe_pids() -> set[int]:
    """Of this process, and of the probe that it works for."""
    return {os.getpid(), _of_probe} - {0}


def close_others(*keep: int) -> None:
    """Close all other descriptors, and open /dev/null as the standard ones."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(int(name))


def set_process_name(name: str) -> None:
    """As ps(1) shows it (/proc/PID/comm), at most 15 bytes; children inherit it."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write(name)
