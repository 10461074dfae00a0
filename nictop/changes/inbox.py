"""What a change receives from its host and from the user, in the order in which it comes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Literal

from nictop.changes.events import GoalCheck, ReadBack, RuleVerdict
from nictop.changes.finding_watch import FindingWatch
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import ChangeLine, Inventory, Line, LinkChange
from nictop.rules import Finding, HostFacts
from nictop.wire.source import SourceState
from nictop.wire.timeout import with_timeout

Decision = Literal["apply", "keep", "undo"]
ChangeItem = ChangeLine | SourceState | Decision | ReadBack | GoalCheck | RuleVerdict

MAX_PENDING = 16
"""Items that wait above which replies of the host are dropped: a change has eight at most."""


class ChangeInbox:
    """A queue. `identity`: id of the requests whose replies are received; those to other changes
    are dropped. `others`: the other watched hosts, for rules that compare."""

    def __init__(self, identity: str, others: Callable[[], Iterable[HostFacts]]) -> None:
        self.identity = identity
        self.snapshot: Snapshot | None = None
        """The newest of the host."""
        self._others = others
        self._pending: deque[ChangeItem] = deque()
        self._not_empty = asyncio.Event()
        self._since: float | None = None
        self._inventory: Inventory | None = None
        """The newest that was read after `_since`."""
        self._proof: Callable[[Snapshot], GoalCheck] | None = None
        self._watch: FindingWatch | None = None

    @property
    def boot_id(self) -> str:
        """Of the host's present start; "" if it is not known."""
        if self.snapshot is None or self.snapshot.hello is None:
            return ""
        return self.snapshot.hello.boot_id

    def receive(self, item: Line | SourceState, snapshot: Snapshot) -> None:
        """Process one item of the source; `snapshot`: the state after it."""
        self.snapshot = snapshot
        if isinstance(item, SourceState):
            self.put(item)
        elif item.change is not None:
            if item.change.id == self.identity and len(self._pending) < MAX_PENDING:
                self.put(item.change)
        elif self._since is not None:
            self._check(snapshot, self._since)
            if item.link_change is not None:
                self._check_link_change(snapshot, item.link_change)

    def put(self, item: ChangeItem) -> None:
        self._pending.append(item)
        self._not_empty.set()

    def wall_time(self, host_time: float) -> float:
        """Seconds since the epoch of a time of the host's CLOCK_MONOTONIC; without a measured
        offset of the clocks that of now, which is later."""
        now = time.time()
        if self.snapshot is None or self.snapshot.clock is None:
            return now
        return now - max(0.0, time.monotonic() - (host_time - self.snapshot.clock.offset))

    def begin_watching(
        self,
        since: float,
        finding: Finding | None,
        proof: Callable[[Snapshot], GoalCheck] | None = None,
    ) -> None:
        """From now on, put: `ReadBack` once the host has sent an inventory that it read after
        `since` (seconds of its CLOCK_MONOTONIC), the result of `proof` for each such inventory and
        each change of a link after it, and whether the finding is still there."""
        self._since, self._proof = since, proof
        self._watch = None if finding is None else FindingWatch(finding, since)

    def end_watching(self) -> None:
        """What is received from now on does not show the change any more."""
        self._since = None

    @property
    def is_watching(self) -> bool:
        """It is applied, and the host has not begun to undo it."""
        return self._since is not None

    def _check(self, snapshot: Snapshot, since: float) -> None:
        if snapshot.inventory is not None:
            self._check_inventory(snapshot, snapshot.inventory, since)
        if self._watch is not None:
            verdict = self._watch.take(snapshot, self._others())
            if verdict is not None:
                self.put(replace(verdict, at=self.wall_time(self._watch.read_at or since)))

    def _check_inventory(self, snapshot: Snapshot, inventory: Inventory, since: float) -> None:
        if inventory.pending or inventory.time < since:
            return
        if self._inventory is None:
            self.put(ReadBack())
        is_new = inventory is not self._inventory
        self._inventory = inventory
        if is_new:
            self._check_goal(snapshot, inventory.time)

    def _check_link_change(self, snapshot: Snapshot, change: LinkChange) -> None:
        """The inventory that follows is read later: a change that contradicts the last result is
        told at once, and none is confirmed by it."""
        if self._proof is None or self._inventory is None:
            return
        if not self._proof(snapshot).proven:
            self._check_goal(snapshot, change.time)

    def _check_goal(self, snapshot: Snapshot, read_at: float) -> None:
        if self._proof is not None:
            self.put(replace(self._proof(snapshot), at=self.wall_time(read_at)))

    async def next(self, deadline: float) -> ChangeItem | None:
        """The next item of this change; None if there is none until `deadline` (seconds of
        CLOCK_MONOTONIC)."""
        while True:
            while not self._pending:
                self._not_empty.clear()
                try:
                    await with_timeout(deadline - time.monotonic(), self._not_empty.wait())
                except asyncio.TimeoutError:
                    return None
            item = self._pending.popleft()
            if not isinstance(item, ChangeLine) or item.id == self.identity:
                return item
