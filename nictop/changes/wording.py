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
from nictop.probe.plan.grammar.operation import IDENTIFIED_TEXT
from nictop.probe.records import PlannedAction
from nictop.rules.fixes.commands import stored_line
from nictop.rules.wording import command_lines

STATE_TEXTS: dict[State, str] = {
    "begun": "started, result unknown",
    "kept": "kept",
    "undone": "rolled back",
    "restarted": "ended by a restart of the host",
    "refused": "refused",
    "cancelled": "not applied",
    "unreachable": "not applied, host unreachable",
    "failed": "failed",
    "unknown": "result unknown",
}
OUTCOME_TEXTS: dict[Outcome, str] = {
    "kept": "kept: the new values stay",
    "undone": "rolled back, the previous values are verified",
    "restarted": "the host was restarted, and has the previous values",
    "refused": "refused, nothing changed",
    "cancelled": "cancelled, nothing changed",
    "unreachable": "host unreachable, nothing changed",
    "failed": "failed",
    "unknown": "result unknown",
}
LOST_TEXT = "the host should roll back what was not confirmed"
"""What is known of a change whose host is lost."""
LABEL_INDENT, LABEL_CELLS = "     ", 13
VALUE_COLUMN = len(LABEL_INDENT) + LABEL_CELLS
WARNING_LABEL = "warning"
CHECKPOINT_TEXT = "NetworkManager checkpoint"
PLANNED_LABELS, APPLIED_LABELS, UNKNOWN_LABELS = ("current", "new"), ("previous", "current"), ("previous", "new")
"""Labels of the values before and after: as they are, as they are once applied, and while it is not known which are."""


def plan_lines(
    plan: Sequence[PlannedAction], cells: int, *, labels: tuple[str, str] = PLANNED_LABELS, has_ended: bool = False
) -> Iterator[str]:
    """The actions with their values before and after, under `labels`, in lines of about `cells` cells. `has_ended`:
    kept or rolled back, so that there is no checkpoint any more."""
    before, after = labels
    for number, one in enumerate(plan, 1):
        yield from _indented(f"{number}. ", command_lines(command_of(one.words), cells - 3))
        yield from _labelled(before, one.before or "none", cells)
        yield from _labelled(after, one.after if one.before != one.after else "unchanged", cells)
        for text in one.disturbs:
            yield from _labelled(WARNING_LABEL, text, cells)
        yield from _labelled("persistence", _persistence_text(one), cells)
        if one.undo or not has_ended:
            yield from _undo_lines(one, cells)


def warning_lines(warnings: Iterable[str], cells: int) -> Iterator[str]:
    """The warnings of a job, which are about more than one of its actions."""
    for text in warnings:
        yield from _indented(f"{WARNING_LABEL}: ", wrap(clean(text), cells - len(WARNING_LABEL) - 2))


def _persistence_text(one: PlannedAction) -> str:
    """``nmcli con up`` stores nothing: whether the profile survives a reboot is said of the action that stores it."""
    if one.persistent:
        return "survives a reboot"
    if one.words[:2] == ("ethtool", "-p"):
        return "ends by itself"
    return "activates the profile" if one.words[:1] == ("nmcli",) and "up" in one.words[2:3] else "until reboot"


def _undo_lines(one: PlannedAction | LoggedAction, cells: int) -> Iterator[str]:
    if not one.undo and one.words[:1] == ("nmcli",):
        yield from _labelled("rollback", CHECKPOINT_TEXT, cells)
    for words in one.undo:
        yield from _indented(
            f"{LABEL_INDENT}{'rollback':{LABEL_CELLS}}", command_lines(command_of(words), cells - VALUE_COLUMN)
        )


def _labelled(label: str, text: str, cells: int) -> Iterator[str]:
    return _indented(f"{LABEL_INDENT}{label:{LABEL_CELLS}}", wrap(text, cells - VALUE_COLUMN))


def _indented(first: str, lines: Iterable[str]) -> Iterator[str]:
    for place, line in enumerate(lines):
        yield f"{first if place == 0 else ' ' * len(first)}{clean(line)}"


def event_text(event: Event, now: float) -> str:
    """One line about an event; `now`: CLOCK_MONOTONIC. "" for the plan, which has lines of its own."""
    if isinstance(event, Prepared):
        return ""
    if isinstance(event, Applying):
        return "applying"
    if isinstance(event, Applied):
        seconds = max(0.0, event.deadline - now)
        return f"applied; rolls back in {seconds:.0f} s unless you keep it"
    if isinstance(event, ReadBack):
        return "host still reachable"
    if isinstance(event, Undoing):
        return f"rolling back: {clean(event.text)}" if event.text else "rolling back"
    if isinstance(event, StepFailed):
        return clean(event.text)
    if isinstance(event, ConnectionLost):
        return f"connection lost: {clean(event.text)}; {LOST_TEXT}"
    if isinstance(event, ChangeEnded):
        return outcome_text(event.outcome, clean(event.text))
    if isinstance(event, GoalCheck):
        return f"{'verified' if event.proven else 'not verified yet'}: {clean(event.text)}"
    if event.text:
        return f"finding could not be checked again: {clean(event.text)}"
    return "finding resolved" if event.gone else "finding still present"


def outcome_text(outcome: Outcome, text: str) -> str:
    """How a change ended; `text`: details, "" if there are none."""
    if text == IDENTIFIED_TEXT:
        return text
    return OUTCOME_TEXTS[outcome] + (f": {text}" if text else "")


def log_lines(log: ChangeLog, cells: int) -> Iterator[str]:
    """The changes of a log, newest first."""
    for change in reversed(log.changes):
        yield from _logged_lines(change, cells)
    if log.cut:
        yield "older changes: see the file"
    if log.unreadable:
        yield f"{log.unreadable} lines of the log are invalid or from a newer nictop"


def _logged_lines(change: LoggedChange, cells: int) -> Iterator[str]:
    about = " ".join(part for part in (change.rule, change.subject) if part)
    head = [_time_text(change.time), change.host, about, STATE_TEXTS[change.state], f"by {change.user}"]
    yield from wrap("  ".join(part for part in head if part), cells)
    if change.title:
        yield from _indented("  ", wrap(change.title, cells - 2))
    for one in change.actions:
        yield from _indented("  ", command_lines(command_of(one.words), cells - 2))
        yield from _indented("     ", wrap(f"{one.before or 'none'} → {one.after}", cells - 5))
        if change.state == "kept" and one.undo and not change.undo:
            yield from _undo_lines(one, cells)
    if change.state == "kept" and change.undo:
        yield "  rollback:"
        for line in change.undo:
            yield from _indented("     ", command_lines(stored_line(line), cells - 5, cut=False))
    if change.text:
        yield from _indented("  ", wrap(change.text, cells - 2))


def _time_text(seconds: float) -> str:
    """In UTC, so that logs of several machines can be compared; a number that is not a valid time has a text too."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):
        return "invalid time"
