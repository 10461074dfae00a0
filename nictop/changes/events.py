"""The events of a change, and its time limits. Texts may contain what a host has sent: they are
escaped where they are shown."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import PlannedAction

Outcome = Literal[
    "kept",
    "overridden",
    "undone",
    "restarted",
    "refused",
    "cancelled",
    "unreachable",
    "failed",
    "unknown",
]
"""kept, undone: read back from the host. overridden: it was kept, and not all values were those of
the change any more. restarted: the host was restarted meanwhile, and had the
old values when it was read again. refused, cancelled, unreachable: nothing was changed. failed: not
everything was undone; the text says what was not. unknown: the host was lost and did not reply
afterwards; it undoes what was not kept."""
NOTHING_CHANGED: tuple[Outcome, ...] = ("refused", "cancelled", "unreachable")


@dataclass(frozen=True)
class ChangeTimeouts:
    """Time limits of a change, in seconds."""

    reply: float = 60.0
    """For the reply of the probe to a request that changes nothing."""
    apply: float = 240.0
    """For "applied": several profiles may each wait for DHCP."""
    settle: float = 120.0
    """For the end, after the request for it or after the deadline; also for a lost host to be live
    again."""
    rollback: float = 5.0
    """After the deadline, for the host to undo it; values that are still new then were kept."""
    after_failure: float = 65.0
    """For "undoing" after "failed": the process that replaces a killed guard waits for the programs
    of that guard."""
    retry: float = 1.0
    """Between two requests to a host that is live again and still busy with the change."""


@dataclass(frozen=True)
class Prepared:
    """The plan; nothing is changed yet."""

    plan: tuple[PlannedAction, ...]
    needs_second_yes: bool
    """It touches the link of an SSH connection or of a default route."""
    read_at: float | None = None
    """When its values were read, seconds of the host's CLOCK_MONOTONIC."""


@dataclass(frozen=True)
class Applying:
    """The host applies it."""


@dataclass(frozen=True)
class Applied:
    """The new values have been read back."""

    plan: tuple[PlannedAction, ...]
    deadline: float
    """When the host undoes it by itself, seconds of this machine's CLOCK_MONOTONIC."""
    at: float | None = None
    """When they were read. Seconds since the epoch."""


@dataclass(frozen=True)
class ValuesChecked:
    """The values have been read back once more: something else has changed some of them, or they
    are those of the change again."""

    differences: tuple[str, ...]
    """Empty: they are those of the change."""
    at: float
    """When they were read. Seconds since the epoch."""


@dataclass(frozen=True)
class ReadBack:
    """The host has sent an inventory that it read after the change: the connection still works."""


@dataclass(frozen=True)
class GoalCheck:
    """Whether a guided job has reached its goal, as an inventory shows it that was read after the
    change."""

    proven: bool
    text: str
    """What was seen: ``ens4 has 4 queues``."""
    at: float | None = None
    """When that was read, seconds since the epoch; None: not known."""


@dataclass(frozen=True)
class RuleVerdict:
    """Result of the rule after the change."""

    gone: bool
    """The rule does not report the finding any more."""
    text: str = ""
    """Why the rule could not be checked; "": it was."""
    at: float | None = None
    """When the values were read that the rule has checked, seconds since the epoch; None: not
    known."""


@dataclass(frozen=True)
class StepFailed:
    """Something failed; the host continues with the undo, if it can."""

    text: str
    was_applied: bool = False
    """All values had been read back before: it failed afterwards."""


@dataclass(frozen=True)
class Undoing:
    """The host undoes it."""

    text: str


@dataclass(frozen=True)
class ConnectionLost:
    """The connection is lost. A host that still runs undoes by itself what was not kept."""

    text: str


@dataclass(frozen=True)
class Reconnected:
    """The host is live again after that, and is asked for the outcome."""

    text: str = ""
    """Why it has not told it yet: what it answers; "": it has not answered."""
    until: float | None = None
    """When it rolls back at the latest what it was not requested to keep, seconds since the epoch
    by the clock of this machine; None: not known, or it was restarted."""


@dataclass(frozen=True)
class ChangeEnded:
    """The last event."""

    outcome: Outcome
    text: str = ""
    """A sentence; "" where the outcome is enough."""
    at: float | None = None
    """kept, overridden, undone: when the values were read again, seconds since the epoch; None:
    they were not."""
    outside: str = ""
    """What something else has changed before, and what became of that, as a sentence; "": nothing
    that was seen, or `text` has it."""


Event = (
    Prepared
    | Applying
    | Applied
    | ValuesChecked
    | ReadBack
    | GoalCheck
    | RuleVerdict
    | StepFailed
    | Undoing
    | ConnectionLost
    | Reconnected
    | ChangeEnded
)
