"""Lines about traffic of all hosts of a run, in the order in which they are received, from their `RunHost`s."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping

from nictop.model.text.terminal import clean
from nictop.probe.records import TrafficLine
from nictop.traffic.run.events import RunFailed, RunStopped
from nictop.traffic.run.failures import Failure
from nictop.traffic.run.host import RunHost, TrafficItem
from nictop.wire.timeout import within


class TrafficInbox:
    """Lines of all hosts of a run. `ends`: names of those whose loss ends it."""

    def __init__(self, hosts: Mapping[str, RunHost], ends: Collection[str]) -> None:
        self.lost: set[str] = set()
        """Ends whose probe has gone meanwhile: it has taken its children with it."""
        self._hosts, self._ends = hosts, ends
        self._pending: deque[tuple[str, TrafficItem]] = deque()
        self._news = asyncio.Event()
        self._unsubscribe: list[Callable[[], None]] = []
        self._stopped = self._ending = False

    def open(self) -> None:
        """Receive lines from now on, until `close`."""
        self._unsubscribe = [host.subscribe(self._receive) for host in self._hosts.values()]

    def close(self) -> None:
        """Receive no more lines."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def stop(self) -> None:
        """No line is waited for any longer: `next` raises RunStopped, unless the run is ending anyway."""
        self._stopped = not self._ending
        self._news.set()

    def end(self) -> None:
        """The run is ending: that the children have ended is heard also after a stop."""
        self._stopped, self._ending = False, True

    async def next(self, deadline: float) -> TrafficLine | None:
        """None when no line comes before the deadline (CLOCK_MONOTONIC). RunFailed: an end is lost."""
        while True:
            while not self._pending and not self._stopped:
                self._news.clear()
                try:
                    await within(deadline - time.monotonic(), self._news.wait())
                except asyncio.TimeoutError:
                    return None
            if self._stopped:
                raise RunStopped
            name, item = self._pending.popleft()
            if isinstance(item, TrafficLine):
                return item
            if item.state in ("lost", "failed") and name in self._ends:
                self.lost.add(name)
                raise RunFailed(Failure("unreachable", f"{clean(name)}: {clean(item.message)}"))

    def _receive(self, name: str, item: TrafficItem) -> None:
        self._pending.append((name, item))
        self._news.set()
