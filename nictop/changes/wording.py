"""Text about changes, for the command line and the screens: plan, events, log. Pure; every line is
clean."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from nictop.changes.actions import BLANKS, Actions, command_of
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
    Reconnected,
    RuleVerdict,
    StepFailed,
    Undoing,
    ValuesChecked,
)
from nictop.changes.progress import ChangeProgress
from nictop.model.text.terminal import clean, wrap
from nictop.model.text.units import local_time_text, whole_seconds
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.plan.grammar.operation import IDENTIFIED_TEXT
from nictop.probe.records import PlannedAction
from nictop.rules.fixes.commands import stored_line
from nictop.rules.wording import command_lines

STATE_TEXTS: dict[State, str] = {
    "begun": "started, result unknown",
    "kept": "kept",
    "overridden": "kept, but changed since by something else",
    "undone": "rolled back",
    "restarted": "ended by a restart of the host",
    "refused": "refused",
    "cancelled": "not applied",
    "unreachable": "not applied, no reply",
    "failed": "failed",
    "unknown": "result unknown",
}
OUTCOME_TEXTS: dict[Outcome, str] = {
    "kept": "kept: the new values stay",
    "overridden": "kept, but changed since by something else, which nictop does not overwrite",
    "undone": "rolled back, the previous values are verified",
    "restarted": "the host was restarted, and has the previous values",
    "refused": "refused, nothing changed",
    "cancelled": "cancelled, nothing changed",
    "unreachable": "no reply from the host, nothing changed",
    "failed": "failed",
    "unknown": "result unknown",
}
OUTSIDE_LABEL = "changed before its end, not by nictop"
OUTSIDE_RESULTS: dict[Outcome, str] = {
    "kept": "the values are those of the change again",
    "undone": "after the rollback the values are the previous ones",
    "failed": "what the rollback has done about that is not known",
}
"""What became of values that something else has set."""
KEPT_STATES: tuple[State, ...] = ("kept", "overridden")
"""The host does not roll back."""
NOT_VERIFIED = "not verified"
"""Begins the text of a change that was kept without that."""
NO_RESULT_TEXT = "no reply from the host about the result"
"""Of a host that may be connected."""
LOST_TEXT = "the host should roll back what was not confirmed"
"""What is known of a change whose host is lost."""
LABEL_INDENT, LABEL_CELLS = "     ", 13
VALUE_COLUMN = len(LABEL_INDENT) + LABEL_CELLS
WARNING_LABEL = "warning"
OLD_READING_SECONDS = 10.0
"""The host reads the values of a change again every second, and says only what differs: on a slow
one a reading may take some seconds, and what it finds is not known before."""
UNFILLED_TEXT = (
    "Current values, persistence and rollback are known when no value is missing: then the host "
    "is asked for them."
)
CHECKPOINT_TEXT = "NetworkManager checkpoint"
ONCE_KEPT = ", once it is kept"


@dataclass(frozen=True)
class PlanWords:
    """How the values of a plan are said in one state of its change."""

    before: str
    """Label of the values before the change."""
    after: str
    """Label of those of the change. Once applied, something else may have changed them since."""
    lasting: str | None
    """Behind what survives a reboot; None: nothing of the change is there, and no action has a
    persistence."""
    is_of_now: bool = False
    """The warnings are about what is to come; else they are those of when it was planned."""


PLANNED = PlanWords("current", "new", "", is_of_now=True)
OLD_PLAN = PlanWords("when planned", "new", "")
"""Something newer was read of the host."""
APPLYING = PlanWords("previous", "new", ONCE_KEPT)
APPLIED = PlanWords("previous", "applied", ONCE_KEPT)
KEPT = PlanWords("previous", "applied", "")
OVERRIDDEN = PlanWords("previous", "applied", ", where nothing else has changed it")
REMOVED = PlanWords("previous", "requested", None)
"""It is being rolled back, or was, or what it had applied has ended with a restart."""
NOT_KNOWN = PlanWords("previous", "requested", ", if it was kept")
UNUSED = PlanWords("when planned", "requested", None)
"""It was not applied: the host may have changed since."""


def plan_lines(
    plan: Sequence[PlannedAction],
    cells: int,
    *,
    words: PlanWords = PLANNED,
    has_ended: bool = False,
) -> Iterator[str]:
    """The actions with their values before and after, in lines of about `cells` cells. `has_ended`:
    kept or rolled back, so that there is no checkpoint any more."""
    for number, action in enumerate(plan, 1):
        command = command_of(action.words)
        is_changed = action.before != action.after
        yield from _indented(f"{number}. ", command_lines(command, cells - 3))
        yield from _labelled(words.before, action.before or "none", cells)
        yield from _labelled(words.after, action.after if is_changed else "unchanged", cells)
        for text in action.disturbs:
            warning = text if words.is_of_now else f"when planned: {text}"
            yield from _labelled(WARNING_LABEL, warning, cells)
        if words.lasting is not None:
            persistence = _persistence_text(action)
            if action.persistent:
                persistence += words.lasting
            yield from _labelled("persistence", persistence, cells)
        if action.undo or not has_ended:
            yield from _undo_lines(action, cells)


def unfilled_plan_lines(actions: Actions, cells: int) -> Iterator[str]:
    """The commands of a fix whose values are not all known, with their placeholders: the host plans
    only what is complete."""
    for number, action in enumerate(actions.actions, 1):
        yield from _indented(f"{number}. ", command_lines(command_of(action), cells - 3))
    for name in actions.blanks:
        wanted = BLANKS[name]
        text = f"missing: <{name}>: {wanted.what}, e.g. {wanted.example}"
        yield from _indented("", wrap(text, cells))
    yield from _indented("", wrap(UNFILLED_TEXT, cells))


def warning_lines(warnings: Iterable[str], cells: int) -> Iterator[str]:
    """The warnings of a job, which are about more than one of its actions."""
    for text in warnings:
        yield from _indented(
            f"{WARNING_LABEL}: ", wrap(clean(text), cells - len(WARNING_LABEL) - 2)
        )


def _persistence_text(action: PlannedAction) -> str:
    """``nmcli con up`` stores nothing: whether the profile survives a reboot is said of the action
    that stores it."""
    words = action.words
    if action.persistent:
        return "survives a reboot"
    if words[:2] == ("ethtool", "-p"):
        return "ends by itself"
    if words[:1] == ("nmcli",) and "up" in words[2:3]:
        return "activates the profile"
    return "not stored: until reboot at the latest"


def _undo_lines(action: PlannedAction | LoggedAction, cells: int) -> Iterator[str]:
    if not action.undo and action.words[:1] == ("nmcli",):
        yield from _labelled("rollback", CHECKPOINT_TEXT, cells)
    for words in action.undo:
        yield from _indented(
            f"{LABEL_INDENT}{'rollback':{LABEL_CELLS}}",
            command_lines(command_of(words), cells - VALUE_COLUMN),
        )


def _labelled(label: str, text: str, cells: int) -> Iterator[str]:
    return _indented(f"{LABEL_INDENT}{label:{LABEL_CELLS}}", wrap(text, cells - VALUE_COLUMN))


def _indented(first: str, lines: Iterable[str]) -> Iterator[str]:
    before = first
    for line in lines:
        yield f"{before}{clean(line)}"
        before = " " * len(first)


def verified_text(at: float | None, age: float | None = None) -> str:
    """`` (verified 14:03:20)``: when something was read, seconds since the epoch; "": not known.
    `age`: see `_reading_time`."""
    return "" if at is None else f" (verified {_reading_time(at, age)})"


def read_text(at: float | None, age: float | None = None) -> str:
    return "" if at is None else f" (read {_reading_time(at, age)})"


def _reading_time(at: float, age: float | None) -> str:
    """``14:03:20, 12 s ago``. `age`: seconds since then, which are said once they are many; None:
    not known, or of no interest."""
    time_of_day = local_time_text(at)
    if age is None or age < OLD_READING_SECONDS:
        return time_of_day
    return f"{time_of_day}, {whole_seconds(age)} ago"


def event_text(event: Event, now: float) -> str:
    """One line about an event; `now`: CLOCK_MONOTONIC. "" for the plan, which has lines of its
    own."""
    if isinstance(event, Applied):
        seconds = max(0.0, event.deadline - now)
        verified = verified_text(event.at)
        return f"applied{verified}; rolls back in {seconds:.0f} s unless you keep it"
    return EVENT_TEXTS[type(event)](event)


def loss_text(cause: str, host: str = "") -> str:
    """``connection to vm1 lost: no answer``, or what `cause` says if it says that itself."""
    cause = clean(cause)
    if cause == NO_RESULT_TEXT or "connection" in cause.partition(";")[0]:
        return cause
    name = f" to {clean(host)}" if host else ""
    details = f": {cause}" if cause else ""
    return f"connection{name} lost{details}"


def reconnected_text(answer: str) -> str:
    """`answer`: what the host has said about the outcome; "": nothing yet."""
    text = "connected again; asking whether it was rolled back"
    return f"{text}: {answer}" if answer else text


def meanwhile_text(until: float | None) -> str:
    """What is known until the host has answered; `until`: see `Reconnected`."""
    if until is None:
        return "not known yet"
    time = local_time_text(until)
    return f"not known yet; what was not kept should be rolled back by {time} at the latest"


def _undoing_text(event: Undoing) -> str:
    if not event.text:
        return "rolling back"
    return f"rolling back: {clean(event.text)}"


def _goal_text(event: GoalCheck) -> str:
    state = "verified" if event.proven else "not verified"
    return f"{state}: {clean(event.text)}{read_text(event.at)}"


def _values_text(event: ValuesChecked) -> str:
    if not event.differences:
        return f"the values are those of the change again{verified_text(event.at)}"
    changed = "; ".join(map(clean, event.differences))
    return f"changed since, not by nictop: {changed}{read_text(event.at)}"


def _verdict_text(event: RuleVerdict) -> str:
    if event.text:
        return f"finding could not be checked again: {clean(event.text)}"
    if event.gone:
        return f"finding resolved{verified_text(event.at)}"
    return f"finding still present{read_text(event.at)}"


def failure_text(event: StepFailed) -> str:
    """Of a step that failed, before the rollback."""
    state = "failed" if event.was_applied else "not applied"
    return f"{state}: {clean(event.text)}"


def _ended_text(event: ChangeEnded) -> str:
    text = outcome_text(event.outcome, clean(event.text), event.at)
    return "; ".join(filter(None, (text, clean(event.outside))))


EVENT_TEXTS: dict[type[Event], Callable[[Any], str]] = {
    Prepared: lambda event: "",
    Applying: lambda event: "applying",
    ValuesChecked: _values_text,
    ReadBack: lambda event: "host still reachable",
    Undoing: _undoing_text,
    StepFailed: failure_text,
    ConnectionLost: lambda event: f"{loss_text(event.text)}; {LOST_TEXT}",
    Reconnected: lambda event: (
        f"{reconnected_text(clean(event.text))}; {meanwhile_text(event.until)}"
    ),
    GoalCheck: _goal_text,
    RuleVerdict: _verdict_text,
    ChangeEnded: _ended_text,
}


def outside_text(seen: Sequence[str], outcome: Outcome, text: str) -> str:
    """What something else has changed before the end of a change, and what became of that: ``not by
    nictop: ens4: mtu 1300 instead of mtu 1400; …``; "": nothing, or `text` of the outcome has it.
    `seen`: texts of the host."""
    unsaid = [difference for difference in seen if difference not in text]
    if not unsaid:
        return ""
    parts = [f"{OUTSIDE_LABEL}: {'; '.join(unsaid)}", OUTSIDE_RESULTS.get(outcome, "")]
    return "; ".join(filter(None, parts))


def outcome_text(outcome: Outcome, text: str, at: float | None = None) -> str:
    """How a change ended; `text`: details, "" if there are none; `at`: when its values were read
    for that."""
    if text == IDENTIFIED_TEXT:
        return text
    if outcome == "kept" and text.startswith(NOT_VERIFIED):
        return f"kept, but {text}"
    details = f": {text}" if text else ""
    when = verified_text(at) if outcome == "kept" else read_text(at)
    return f"{OUTCOME_TEXTS[outcome]}{details}{when}"


def failure_before_rollback(progress: ChangeProgress) -> str:
    """What has failed of a change that was rolled back since; "": nothing."""
    if progress.outcome != "undone" or progress.failure is None:
        return ""
    return failure_text(progress.failure)


def ending_text(progress: ChangeProgress) -> str:
    """How a change ended, without `failure_before_rollback`."""
    text = clean(progress.text)
    if failure_before_rollback(progress) and progress.failure is not None:
        text = text.removeprefix(clean(progress.failure.text)).removeprefix("; ")
    return outcome_text(progress.outcome or "unknown", text, progress.verified_at)


def log_lines(log: ChangeLog, cells: int) -> Iterator[str]:
    """The changes of a log, newest first."""
    for change in reversed(log.changes):
        yield from _logged_lines(change, cells)
    if log.cut:
        yield "older changes: see the file"
    if log.unreadable:
        yield f"{log.unreadable} lines of the log are invalid or from a newer nictop"


def _logged_lines(change: LoggedChange, cells: int) -> Iterator[str]:
    about = " ".join(filter(None, (change.rule, change.subject)))
    state, user = STATE_TEXTS[change.state], f"by {change.user}"
    head = (_time_text(change.time), change.host, about, state, user)
    yield from wrap("  ".join(filter(None, head)), cells)
    if change.title:
        yield from _indented("  ", wrap(change.title, cells - 2))
    is_kept = change.state in KEPT_STATES
    for action in change.actions:
        yield from _logged_action_lines(action, cells)
        has_own_undo = bool(action.undo) and not change.undo
        if is_kept and has_own_undo:
            yield from _undo_lines(action, cells)
    if is_kept and change.undo:
        yield "  rollback:"
        for line in change.undo:
            yield from _indented("     ", command_lines(stored_line(line), cells - 5, cut=False))
    text = change.text
    if text and change.state == "overridden":
        text = f"changed since, not by nictop: {text}"
    for sentence in filter(None, (text, change.outside)):
        yield from _indented("  ", wrap(sentence, cells - 2))


def _logged_action_lines(action: LoggedAction, cells: int) -> Iterator[str]:
    """The command, and the values before and after."""
    yield from _indented("  ", command_lines(command_of(action.words), cells - 2))
    values = f"{action.before or 'none'} → {action.after}"
    yield from _indented("     ", wrap(values, cells - 5))


def _time_text(seconds: float) -> str:
    """In UTC, so that logs of several machines can be compared; a number that is not a valid time
    has a text too."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):
        return "invalid time"
