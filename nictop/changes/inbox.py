"""What one change hears of its host, and of the user, in the order in which it comes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Literal

from nictop.changes.events import GoalCheck, ReadBack, Verdict
from nictop.changes.finding_watch import FindingWatch
from nictop.model.snapshot import Snapshot
from nictop.probe.records import ChangeLine, Inventory, Line
from nictop.rules import Finding, HostFacts
from nictop.wire.source import SourceState
from nictop.wire.timeout import within

Decision = Literal["apply", "keep", "undo", "cancel"]
ChangeItem = ChangeLine | SourceState | Decision | ReadBack | GoalCheck | Verdict


class ChangeInbox:
    """A queue. `identity`: of the requests whose answers are meant; lines about other changes are passed over.
    `others`: the other watched hosts, for rules that compare."""

    def __init__(self, identity: str, others: Callable[[], Iterable[HostFacts]]) -> None:
        self.identity = identity
        self.snapshot: Snapshot | None = None
        """The newest picture of the host."""
        self._others = others
        self._waiting: deque[ChangeItem] = deque()
        self._some = asyncio.Event()
        self._since: float | None = None
        self._inventory: Inventory | None = None
        """The newest that was read after `_since`."""
        self._proof: Callable[[Snapshot], GoalCheck] | None = None
        self._goal: GoalCheck | None = None
        self._watch: FindingWatch | None = None

    def hear(self, item: Line | SourceState, snapshot: Snapshot) -> None:
        """Take one item of the source; `snapshot` is the picture after it."""
        self.snapshot = snapshot
        if isinstance(item, SourceState):
            self.put(item)
        elif item.change is not None:
            self.put(item.change)
        elif self._since is not None:
            self._look(snapshot, self._since)

    def put(self, item: ChangeItem) -> None:
        self._waiting.append(item)
        self._some.set()

    def begin_watching(
        self, since: float, finding: Finding | None, proof: Callable[[Snapshot], GoalCheck] | None = None
    ) -> None:
        """From now on, put: `ReadBack` once the host has sent an inventory that it read after `since` (seconds of its
        CLOCK_MONOTONIC), the result of `proof` for each such inventory, and whether the finding is still there; each
        only if it is another one than before."""
        self._since, self._proof = since, proof
        self._watch = None if finding is None else FindingWatch(finding, since)

    def end_watching(self) -> None:
        """What comes now says nothing about the change any more."""
        self._since = None

    @property
    def is_watching(self) -> bool:
        """It is applied, and nobody has begun to take it back."""
        return self._since is not None

    def _look(self, snapshot: Snapshot, since: float) -> None:
        inventory = snapshot.inventory
        if inventory is not None and not inventory.pending and inventory.time >= since:
            if self._inventory is None:
                self.put(ReadBack())
            if self._proof is not None and inventory is not self._inventory:
                goal = self._proof(snapshot)
                if goal != self._goal:
                    self._goal = goal
                    self.put(goal)
            self._inventory = inventory
        if self._watch is not None:
            said = self._watch.take(snapshot, self._others())
            if said is not None:
                self.put(said)

    async def next(self, deadline: float) -> ChangeItem | None:
        """The next thing that concerns the change; None when there is none until the deadline (CLOCK_MONOTONIC)."""
        while True:
            while not self._waiting:
                self._some.clear()
                try:
                    await within(deadline - time.monotonic(), self._some.wait())
                except asyncio.TimeoutError:
                    return None
            item = self._waiting.popleft()
            if not isinstance(item, ChangeLine) or item.id == self.identity:
                return item
