"""A host that was lost while it was being changed, and has come back: is it in the old state or in the new one?

It is asked for the plan of the same actions again, which changes nothing: what it then has before any change is the
old value, when it was undone, and the new one, when it was kept. The host itself needs nobody for either.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from nictop.changes.events import ChangeEnded, ChangeTimeouts
from nictop.changes.inbox import ChangeInbox
from nictop.probe.records import ChangeLine, PlannedAction
from nictop.wire.source import SourceState

GONE = ("lost", "failed")
REAPPLYING = (("nmcli", "dev", "reapply"), ("nmcli", "device", "reapply"))
SEEN = "read back after the connection had been lost"


@dataclass(frozen=True)
class LostChange:
    """What is known of the change when its host is lost."""

    plan: tuple[PlannedAction, ...]
    kept: bool
    """The host was told to keep it, and may have heard that."""
    due: float
    """This machine's CLOCK_MONOTONIC: the host takes it back by then, unless it was kept."""


async def found_again(
    news: ChangeInbox, ask: Callable[[], Awaitable[None]], lost: LostChange, limits: ChangeTimeouts
) -> ChangeEnded:
    """Wait for the host, and `ask` it for the plan until it tells the old or the new state or has had all its time."""
    limit = max(time.monotonic(), lost.due) + limits.settle
    reason = "it has not come back"
    while True:
        if not await _is_live(news, limit):
            return ChangeEnded("unknown", f"{reason}; what was not kept it undoes by itself")
        await ask()
        line = await _answer(news, min(limit, time.monotonic() + limits.answer))
        if line is not None and line.kind == "prepared":
            ended = compared(lost, line.plan, time.monotonic() > lost.due + limits.undoing)
            if ended is not None:
                return ended
            reason = "it has the new values, or neither the old nor the new ones"
        elif line is not None:
            reason = line.text
        if time.monotonic() >= limit:
            return ChangeEnded("unknown", reason)
        await asyncio.sleep(limits.again)


def compared(lost: LostChange, plan: Sequence[PlannedAction], is_over: bool) -> ChangeEnded | None:
    """What a new plan of the same actions tells. `is_over`: what was not kept has been taken back by now. None: it
    tells nothing yet."""
    pairs = [(old, new) for old, new in zip(lost.plan, plan, strict=False) if tells(old)]
    if len(plan) != len(lost.plan) or not pairs:
        return None
    if all(old.before == new.before for old, new in pairs):
        return ChangeEnded("undone", SEEN)
    stayed = [old for old, new in pairs if old.before == new.before and old.words[0] != "nmcli"]
    return ChangeEnded("kept", SEEN) if lost.kept and is_over and not stayed else None


def tells(action: PlannedAction) -> bool:
    """Whether what there is before an action tells if it has been done: how a device was set up before a reapply is
    not said."""
    return action.before != action.after and action.words[:3] not in REAPPLYING


async def _is_live(news: ChangeInbox, limit: float) -> bool:
    while news.snapshot is None or news.snapshot.state != "live":
        if news.snapshot is not None and news.snapshot.state == "failed":
            return False
        if await news.next(limit) is None:
            return False
    return True


async def _answer(news: ChangeInbox, limit: float) -> ChangeLine | None:
    """None: it has been lost again, or does not answer."""
    while True:
        item = await news.next(limit)
        if item is None or (isinstance(item, SourceState) and item.state in GONE):
            return None
        if isinstance(item, ChangeLine):
            return item
