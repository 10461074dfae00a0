"""What nictop costs: CPU time and memory of this process and of the probes that it started, by
psutil."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil


class OwnCost:
    """Is read by whichever screen is shown. `more_bytes`: of memory that this process does not
    map."""

    def __init__(self, more_bytes: Callable[[], int] = int) -> None:
        self._more_bytes = more_bytes
        self._processes: dict[int, psutil.Process] = {}
        self.newest: tuple[float, int] | None = None
        """Per cent of one CPU, and resident bytes; None: not known yet."""

    def begin(self, pids: Iterable[int]) -> None:
        """The first reading, which is only what the next one is compared with."""
        if not self._processes:
            self.read(pids)

    def refresh(self, pids: Iterable[int]) -> None:
        """Set `newest`."""
        self.newest = self.read(pids)

    def read(self, pids: Iterable[int]) -> tuple[float, int]:
        """Per cent of one CPU since the last call, and resident bytes now, summed over this process
        and `pids`."""
        import psutil

        wanted = {os.getpid(), *pids}
        for pid in self._processes.keys() - wanted:
            del self._processes[pid]
        cpu, resident = 0.0, self._more_bytes()
        for pid in wanted:
            try:
                process = self._processes.get(pid)
                if process is None:
                    process = self._processes[pid] = psutil.Process(pid)
                cpu += process.cpu_percent(None)
                resident += process.memory_info().rss
            except psutil.Error:  # ended meanwhile: its successor is counted next time
                self._processes.pop(pid, None)
        return cpu, resident
