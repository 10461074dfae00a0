"""Traffic lines and connection states of all hosts of a run, in the order in which they arrive.

Reads nothing itself; subscribes to `RunHost`s, whose sessions are run elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping

from nictop.model.text.terminal import clean
from nictop.probe.records import TrafficLine
from nictop.traffic.failures import Failure, RunFailed, RunStopped
from nictop.traffic.hosts.host import RunHost, TrafficItem
from nictop.wire.source import SourceState
from nictop.wire.timeout import with_timeout

MAX_PENDING_BYTES, MAX_PENDING_STATES = 16 * 1024 * 1024, 10_000
"""Of one host in a run that has not taken them yet, and states of all hosts: a run takes a line
within milliseconds."""
LINE_BYTES, ENTRY_BYTES, REPORT_BYTES = 2000, 1000, 200_000
"""Memory of a line, of each entry of its lists, and of a report, of which a run has one or two;
about."""
FLOOD_MESSAGE = "it sends more lines than are processed, so that some are missing"


class TrafficInbox:
    """Lines of all hosts of a run. `ends`: names of the hosts whose loss ends the run."""

    def __init__(self, hosts: Mapping[str, RunHost], ends: Collection[str]) -> None:
        self.lost: set[str] = set()
        """Hosts of ends whose probe was lost: its child processes end with it."""
        self._hosts, self._end_hosts = hosts, ends
        self._pending: deque[tuple[str, TrafficItem]] = deque()
        self._sizes: Counter[str] = Counter()
        """Host → bytes of its lines in `_pending`, about."""
        self._flooding = ""
        """A host that has sent more than is kept: lines of it are missing."""
        self._changed = asyncio.Event()
        self._unsubscribe: list[Callable[[], None]] = []
        self._stopped = self._ending = False

    def open(self) -> None:
        """Subscribe to all hosts, until `close`. A host of an end that is lost already would report
        nothing more: `next` says so at once."""
        self._unsubscribe = [host.subscribe(self._receive) for host in self._hosts.values()]
        for name in self._end_hosts:
            if name in self._hosts and self._hosts[name].snapshot.state in ("lost", "failed"):
                snapshot = self._hosts[name].snapshot
                self._receive(name, SourceState(snapshot.state, snapshot.message))

    def close(self) -> None:
        """Unsubscribe from all hosts."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def stop(self) -> None:
        """`next` raises RunStopped from now on, unless the run is already ending."""
        self._stopped = not self._ending
        self._changed.set()

    def end(self) -> None:
        """The run is ending: `next` returns lines also after a stop."""
        self._stopped, self._ending = False, True

    async def next(self, deadline: float) -> TrafficLine | None:
        """The next line; None at the deadline (CLOCK_MONOTONIC). Raises RunFailed if the host of an
        end is lost, or a host has sent so much that lines are missing."""
        while True:
            if self._flooding and not self._ending:
                raise RunFailed(Failure("other", f"{clean(self._flooding)}: {FLOOD_MESSAGE}"))
            while not self._pending and not self._stopped:
                self._changed.clear()
                try:
                    await with_timeout(deadline - time.monotonic(), self._changed.wait())
                except asyncio.TimeoutError:
                    return None
            if self._stopped:
                raise RunStopped
            name, item = self._pending.popleft()
            if isinstance(item, TrafficLine):
                self._sizes[name] -= _size(item)
                return item
            if item.state in ("lost", "failed") and name in self._end_hosts:
                self.lost.add(name)
                raise RunFailed(Failure("unreachable", f"{clean(name)}: {clean(item.message)}"))

    def _receive(self, name: str, item: TrafficItem) -> None:
        if isinstance(item, TrafficLine):
            self._sizes[name] += _size(item)
            if self._sizes[name] > MAX_PENDING_BYTES:
                self._sizes[name] -= _size(item)
                self._flooding = self._flooding or name
                self._changed.set()
                return
        elif len(self._pending) >= MAX_PENDING_STATES and item.state not in ("lost", "failed"):
            return
        self._pending.append((name, item))
        self._changed.set()


def _size(line: TrafficLine) -> int:
    """Bytes of memory, about: of its text, and of its largest lists."""
    lists = len(line.arguments) + len(line.sockets) + len(line.threads)
    reports = (line.drops, line.path_test, line.lldp, line.work)
    is_report = any(report is not None for report in reports)
    return LINE_BYTES + len(line.text) + ENTRY_BYTES * lists + REPORT_BYTES * is_report
