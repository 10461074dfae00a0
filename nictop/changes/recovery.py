"""The outcome of a change whose host was lost meanwhile and is live again: does it have the old
values or the new ones?

The host is requested to plan the same actions again, which changes nothing. The present values in
that plan are the old ones if the change was undone, and the new ones if it was kept; the host does
either without this machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeGuard

from nictop.changes.events import ChangeEnded, ChangeTimeouts, ConnectionLost, Reconnected
from nictop.changes.inbox import ChangeInbox
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import ChangeLine, PlannedAction
from nictop.wire.source import SourceState

DISCONNECTED_STATES = ("lost", "failed")

REAPPLY_COMMANDS = (("nmcli", "dev", "reapply"), ("nmcli", "device", "reapply"))
ACTIVATION_COMMANDS = (("nmcli", "con", "up"), ("nmcli", "connection", "up"))
READ_BACK_TEXT = "read after the connection was lost"
LOST_HOST_TEXT = "if it runs, it should roll back what was not confirmed"
MAX_NAMED_VALUES = 3
RESTARTED_REASON = "the host was restarted meanwhile, and its values are not the previous ones"


@dataclass(frozen=True)
class LostChange:
    """A change whose host is lost."""

    plan: tuple[PlannedAction, ...]
    kept: bool
    """The host was requested to keep it, and may have received that."""
    due: float
    """When the host undoes it unless it was kept, seconds of this machine's CLOCK_MONOTONIC."""
    boot_id: str = ""
    """Of the host when it was planned; "": not known."""
    is_applied: bool = True
    """The host has told `due`; otherwise it is the latest that can be."""


async def wait_for_outcome(
    inbox: ChangeInbox,
    prepare: Callable[[], Awaitable[None]],
    lost: LostChange,
    limits: ChangeTimeouts,
) -> AsyncGenerator[ConnectionLost | Reconnected | ChangeEnded, None]:
    """Wait for the host, and request its plan (`prepare`) as soon as it is live, until that shows
    the old or the new values, or time is up. Yields what is known meanwhile, and the end."""
    limit = max(time.monotonic(), lost.due) + limits.settle
    reason = "the host did not reconnect"
    told = ""
    until = time.time() + lost.due - time.monotonic() if lost.is_applied else None
    while True:
        if not await _is_live(inbox, limit):
            if not was_restarted(lost, inbox):
                reason = f"{reason}; {LOST_HOST_TEXT}"
            yield ChangeEnded("unknown", reason)
            return
        yield Reconnected(told, None if was_restarted(lost, inbox) else until)
        await prepare()
        line = await _reply(inbox, min(limit, time.monotonic() + limits.reply))
        if line is not None and line.kind == "prepared":
            ended = outcome_of(lost, line.plan, time.monotonic() > lost.due + limits.rollback)
            restarted = was_restarted(lost, inbox)
            if ended is not None:
                yield after_restart(ended) if restarted else ended
                return
            reason = told = RESTARTED_REASON if restarted else other_values_text(lost, line.plan)
        elif line is not None:
            reason = told = line.text
        elif inbox.snapshot is not None and inbox.snapshot.state in DISCONNECTED_STATES:
            told = ""
            yield ConnectionLost(inbox.snapshot.message)
        if time.monotonic() >= limit:
            yield ChangeEnded("unknown", reason)
            return
        await asyncio.sleep(limits.retry)


def outcome_of(
    lost: LostChange, plan: Sequence[PlannedAction], is_over: bool
) -> ChangeEnded | None:
    """The outcome that a new plan of the same actions shows. `is_over`: what was not kept is undone
    by now. None: it is not known yet."""
    if len(plan) != len(lost.plan):
        return None
    pairs = _conclusive_pairs(lost.plan, plan)
    if not pairs:
        return None
    still_old = [old for old, new in pairs if old.before == new.before]
    if len(still_old) == len(pairs):
        return ChangeEnded("undone", READ_BACK_TEXT)
    is_new = all(old.words[0] == "nmcli" for old in still_old)
    if not is_new or not lost.kept or not is_over:
        return None
    others = [
        f"{old.subject}: {new.before} instead of {old.after}"
        for old, new in pairs
        if is_other_value(old, new)
    ]
    if others:
        return ChangeEnded("overridden", "; ".join(others))
    return ChangeEnded("kept", READ_BACK_TEXT)


def _conclusive_pairs(
    lost: Sequence[PlannedAction], plan: Sequence[PlannedAction]
) -> list[tuple[PlannedAction, PlannedAction]]:
    """What was planned, and the same action as it is planned now. NetworkManager also activates
    profiles by itself: where there are stored values to look at, these decide."""
    pairs = [(old, new) for old, new in zip(lost, plan, strict=True) if is_conclusive(old)]
    stored = [pair for pair in pairs if pair[0].words[:3] not in ACTIVATION_COMMANDS]
    return stored or pairs


def other_values_text(lost: LostChange, plan: Sequence[PlannedAction]) -> str:
    """``not the previous values: ens4: mtu 9000``"""
    if len(plan) != len(lost.plan):
        return "the host plans the change in other steps than before"
    pairs = _conclusive_pairs(lost.plan, plan)
    others = [new for old, new in pairs if old.before != new.before]
    named = [f"{new.subject}: {new.before}" for new in others[:MAX_NAMED_VALUES]]
    if len(others) > MAX_NAMED_VALUES:
        named.append(f"{len(others) - MAX_NAMED_VALUES} more")
    return f"not the previous values: {', '.join(named)}"


def is_other_value(old: PlannedAction, new: PlannedAction) -> bool:
    """Whether the present value is neither the previous nor the new one: an action on a kernel
    setting that is done already has nothing to undo."""
    return old.words[0] != "nmcli" and old.before != new.before and bool(new.undo)


def was_restarted(lost: LostChange, inbox: ChangeInbox) -> bool:
    """Whether the host is known to run since after the change was planned: nothing rolls back there
    any more."""
    return bool(lost.boot_id) and inbox.boot_id not in ("", lost.boot_id)


def after_restart(ended: ChangeEnded) -> ChangeEnded:
    """An outcome that was read from a host that was restarted: whether its old values are those of
    a rollback, or what it sets when it starts, is not known."""
    if ended.outcome == "undone":
        return ChangeEnded("restarted")
    return ChangeEnded(ended.outcome, "read after a restart of the host")


def is_conclusive(action: PlannedAction) -> bool:
    """Whether the value before an action shows if it was done: that of a reapply does not."""
    return action.before != action.after and action.words[:3] not in REAPPLY_COMMANDS


def is_disconnected(item: object) -> TypeGuard[SourceState]:
    """The item says that the connection to the host has ended."""
    return isinstance(item, SourceState) and item.state in DISCONNECTED_STATES


async def _is_live(inbox: ChangeInbox, limit: float) -> bool:
    while inbox.snapshot is None or inbox.snapshot.state != "live":
        if inbox.snapshot is not None and inbox.snapshot.state == "failed":
            return False
        if await inbox.next(limit) is None:
            return False
    return True


async def _reply(inbox: ChangeInbox, limit: float) -> ChangeLine | None:
    """None: it is lost again, or does not reply."""
    while True:
        item = await inbox.next(limit)
        if item is None or is_disconnected(item):
            return None
        if isinstance(item, ChangeLine):
            return item
