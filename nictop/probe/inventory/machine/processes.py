"""Names of all processes, pid → comm: /proc/PID/comm, read once for all readers that need them.

Processes that end in between are left out. With hidepid an ordinary user cannot see those of
others, which is reported.
"""

from __future__ import annotations

import os
import re

from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import printable_path, read_text, unreadable_from_error
from nictop.probe.records import Unreadable

PID = pattern(r"[0-9]{1,10}", re.ASCII)


def read_processes(proc: str = "/proc") -> tuple[dict[int, str], Unreadable | None]:
    """pid → comm (at most 15 bytes, set by the process) in the order of pids, and why some may be
    missing.

    Never raises OSError. Without a directory `proc` there are no processes, which is no failure.
    """
    try:
        processes = sorted(int(name) for name in os.listdir(proc) if PID.fullmatch(name))
    except FileNotFoundError:
        return {}, None
    except OSError as error:
        return {}, unreadable_from_error(error, printable_path(proc))
    trouble: Unreadable | None = None
    if processes and processes[0] != 1:
        trouble = Unreadable("needs_root", f"{printable_path(proc)}: hidepid")
    names: dict[int, str] = {}
    for pid in processes:
        comm = read_text(f"{proc}/{pid}/comm")
        if isinstance(comm, str):
            names[pid] = comm
        elif comm.reason not in ("missing", "failed"):
            trouble = comm
    return names, trouble
