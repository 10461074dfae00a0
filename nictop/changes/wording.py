"""Text about changes, for the command line and the screens: plan, events, log. Pure; every line is clean."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from nictop.changes.actions import command_of
from nictop.changes.audit_log import ChangeLog, LoggedAction, LoggedChange, State
from nictop.changes.events import (
    Applied,
    Applying,
    ChangeEnded,
    ConnectionLost,
    Event,
    GoalCheck,
    Outcome,
    Prepared,
    ReadBack,
    StepFailed,
    Undoing,
)
from nictop.model.text.terminal import clean, wrap
from nictop.probe.records import PlannedAction
from nictop.rules.fixes.commands import stored_line
from nictop.rules.wording import command_lines

STATE_TEXTS: dict[State, str] = {
    "begun": "begun; its end was not heard",
    "kept": "kept",
    "undone": "undone",
    "refused": "refused",
    "cancelled": "not done",
    "unreachable": "not done",
    "failed": "failed",
    "unknown": "end not known",
}
OUTCOME_TEXTS: dict[Outcome, str] = {
    "kept": "kept: the new values stay",
    "undone": "undone: the old values have been read back",
    "refused": "refused, and nothing was changed",
    "cancelled": "nothing was changed",
    "unreachable": "not reached, and nothing was changed",
    "failed": "failed",
    "unknown": "how it has ended is not known",
}
CHECKPOINT_TEXT = "by NetworkManager's checkpoint"


def plan_lines(plan: Sequence[PlannedAction], cells: int, *, done: bool = False) -> Iterator[str]:
    """What would be done, or (`done`) has been, action by action, in lines of about `cells` cells."""
    before, after = ("was", "is") if done else ("now", "then")
    for number, one in enumerate(plan, 1):
        yield from _indented(f"{number}. ", command_lines(command_of(one.words), cells - 3))
        yield from _labelled(before, one.before or "nothing", cells)
        yield from _labelled(after, one.after if one.before != one.after else "the same", cells)
        for text in one.disturbs:
            yield from _labelled("mind", text, cells)
        yield from _labelled("lasts", "survives a reboot" if one.persistent else "until the next reboot", cells)
        yield from _undo_lines(one, cells)


def _undo_lines(one: PlannedAction | LoggedAction, cells: int) -> Iterator[str]:
    if not one.undo and one.words[:1] == ("nmcli",):
        yield from _labelled("undo", CHECKPOINT_TEXT, cells)
    for words in one.undo:
        yield from _indented("     undo     ", command_lines(command_of(words), cells - 14))


def _labelled(label: str, text: str, cells: int) -> Iterator[str]:
    return _indented(f"     {label:9}", wrap(text, cells - 14))


def _indented(first: str, lines: Iterable[str]) -> Iterator[str]:
    for place, line in enumerate(lines):
        yield f"{first if place == 0 else ' ' * len(first)}{clean(line)}"


def event_text(event: Event, now: float) -> str:
    """What happened, in a line; `now`: CLOCK_MONOTONIC. "" for the plan, which has lines of its own."""
    if isinstance(event, Prepared):
        return ""
    if isinstance(event, Applying):
        return "applying"
    if isinstance(event, Applied):
        seconds = max(0.0, event.deadline - now)
        return f"applied, and read back; the host takes it back by itself in {seconds:.0f} s"
    if isinstance(event, ReadBack):
        return "the host still answers"
    if isinstance(event, Undoing):
        return f"undoing: {clean(event.text)}" if event.text else "undoing"
    if isinstance(event, StepFailed):
        return clean(event.text)
    if isinstance(event, ConnectionLost):
        return f"lost: {clean(event.text)}; the host takes it back by itself"
    if isinstance(event, ChangeEnded):
        return OUTCOME_TEXTS[event.outcome] + (f": {clean(event.text)}" if event.text else "")
    if isinstance(event, GoalCheck):
        return f"{'proven' if event.proven else 'not proven yet'}: {clean(event.text)}"
    if event.text:
        return f"whether the finding is gone cannot be told: {clean(event.text)}"
    return "the finding is gone" if event.gone else "the finding is still there"


def log_lines(log: ChangeLog, cells: int) -> Iterator[str]:
    """The changes of a log, newest first."""
    for change in reversed(log.changes):
        yield from _logged_lines(change, cells)
    if log.cut:
        yield "older changes are further up in the file"
    if log.unreadable:
        yield f"{log.unreadable} lines of the log make no sense, or are of a newer nictop"


def _logged_lines(change: LoggedChange, cells: int) -> Iterator[str]:
    about = " ".join(part for part in (change.rule, change.subject) if part)
    head = [_time_text(change.time), change.host, about, STATE_TEXTS[change.state], f"by {change.user}"]
    yield from wrap("  ".join(part for part in head if part), cells)
    if change.title:
        yield from _indented("  ", wrap(change.title, cells - 2))
    for one in change.actions:
        yield from _indented("  ", command_lines(command_of(one.words), cells - 2))
        yield from _indented("     ", wrap(f"{one.before or 'nothing'} → {one.after}", cells - 5))
        if change.state == "kept" and not change.undo:
            yield from _undo_lines(one, cells)
    if change.state == "kept" and change.undo:
        yield "  to undo it:"
        for line in change.undo:
            yield from _indented("     ", command_lines(stored_line(line), cells - 5, cut=False))
    if change.text:
        yield from _indented("  ", wrap(change.text, cells - 2))


def _time_text(seconds: float) -> str:
    """In UTC, so that logs of several machines can be compared; a number that is not a valid time has a text too."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):
        return "at no time"
