"""What a change tells while it goes on. Texts are plain and may name what a machine said: whoever shows them cleans
them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nictop.probe.records import PlannedAction

Outcome = Literal["kept", "undone", "refused", "cancelled", "unreachable", "failed", "unknown"]
"""kept, undone: read back from the host. refused, cancelled, unreachable: nothing was changed. failed: something
stayed, the sentence says what. unknown: the host was lost and could not be asked again; what was not kept it undoes by
itself."""
NOTHING_CHANGED: tuple[Outcome, ...] = ("refused", "cancelled", "unreachable")


@dataclass(frozen=True)
class ChangeTimeouts:
    """Seconds after which a change does not wait any longer."""

    answer: float = 20.0
    """For the probe's word on a request that changes nothing."""
    apply: float = 240.0
    """For "applied": profiles that ask DHCP take their time, and there may be several."""
    settle: float = 120.0
    """For the end, once it was asked for or its time has come; also for a lost host to come back."""
    undoing: float = 5.0
    """For the host to take it back, once that is due, before its values are believed to stay."""
    more: float = 65.0
    """For "undoing" after "failed": whoever takes the place of a guard that was killed waits for its programs."""
    again: float = 1.0
    """Between two looks at a host that has come back and is still at work."""


@dataclass(frozen=True)
class Prepared:
    """Nothing is changed yet: what would be."""

    plan: tuple[PlannedAction, ...]
    needs_second_yes: bool
    """It touches the link of an SSH connection or of a default route."""


@dataclass(frozen=True)
class Applying:
    """The host is at it."""


@dataclass(frozen=True)
class Applied:
    """The new values have been read back."""

    plan: tuple[PlannedAction, ...]
    deadline: float
    """This machine's CLOCK_MONOTONIC: then the host takes it back by itself."""


@dataclass(frozen=True)
class ReadBack:
    """The host has told something that it has read after the change: the way to it is whole."""


@dataclass(frozen=True)
class GoalCheck:
    """Whether a guided job has reached its goal, as an inventory shows it that was read after the change."""

    proven: bool
    text: str
    """What was seen: ``ens4 has 4 queues``."""


@dataclass(frozen=True)
class Verdict:
    """What the rule says now, after the change."""

    gone: bool
    """The finding is not there any more."""
    text: str = ""
    """Why the rule cannot tell; "": it can."""


@dataclass(frozen=True)
class StepFailed:
    """Something failed; the host goes on to take the change back, if it can."""

    text: str


@dataclass(frozen=True)
class Undoing:
    """The host takes it back."""

    text: str


@dataclass(frozen=True)
class ConnectionLost:
    """The host cannot be heard any more. It takes the change back by itself, by the deadline at the latest."""

    text: str


@dataclass(frozen=True)
class ChangeEnded:
    """The last event."""

    outcome: Outcome
    text: str = ""
    """A sentence; "" where the outcome says all."""


Event = (
    Prepared | Applying | Applied | ReadBack | GoalCheck | Verdict | StepFailed | Undoing | ConnectionLost | ChangeEnded
)
