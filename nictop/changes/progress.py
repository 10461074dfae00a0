"""The state of a change as one value that screens draw. Pure: each event yields the next value."""

from __future__ import annotations

from typing import Literal

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
from nictop.changes.inbox import Decision
from nictop.changes.job import ChangeSpec
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import PlannedAction

Stage = Literal[
    "preparing",
    "prepared",
    "applying",
    "applied",
    "undoing",
    "disconnected",
    "reconnected",
    "ended",
]
"""preparing: the host reads the current values. disconnected: the connection is lost; the host
rolls back automatically. reconnected: it is asked for the outcome."""


MAX_SEEN_DIFFERENCES = 10


@dataclass(frozen=True)
class ChangeProgress:
    """State of one change."""

    spec: ChangeSpec
    stage: Stage = "preparing"
    plan: tuple[PlannedAction, ...] = ()
    needs_second_yes: bool = False
    plan_read_at: float | None = None
    """When the values of the plan were read, seconds of the host's CLOCK_MONOTONIC; None: not
    known."""
    decision: Decision | Literal[""] = ""
    """The last one of the user."""
    deadline: float | None = None
    """When the host rolls back, seconds of this machine's CLOCK_MONOTONIC; None: it is not
    applied."""
    verified_at: float | None = None
    """When the values were read that `differences` are about, seconds since the epoch; None: they
    were not, or not yet."""
    differences: tuple[str, ...] = ()
    """Values that something else has changed since they were applied."""
    read_back: bool = False
    """The host has sent an inventory that it read after the change."""
    verdict: RuleVerdict | None = None
    """Result of the rule after the change; None: none yet."""
    proof: GoalCheck | None = None
    """Result of a guided set-up after the change; None: none yet, or the job is a fix."""
    troubles: tuple[str, ...] = ()
    """Errors, and why it is rolled back."""
    loss: str = ""
    """The one of them that is why the host was lost; "": it was not, or that is not known."""
    answer: str = ""
    """What a host that is connected again answers about the outcome; "": nothing yet."""
    failure: StepFailed | None = None
    """What has failed so far; None: nothing."""
    outcome: Outcome | None = None
    """None: it has not ended."""
    text: str = ""
    """Details of the outcome; "" if there are none."""
    seen_differences: tuple[str, ...] = ()
    """All that `differences` ever were, each once: the newest `MAX_SEEN_DIFFERENCES`."""
    outside: str = ""
    """As `ChangeEnded.outside`."""
    until: float | None = None
    """As `Reconnected.until`."""
    applied_at: float | None = None
    """As `Applied.at`."""

    def decided(self, decision: Decision | Literal[""]) -> ChangeProgress:
        return replace(self, decision=decision)

    @property
    def shown_stage(self) -> Stage:
        """Once it is decided to apply it, it is being applied for the user, whatever the host has
        said so far."""
        if self.stage == "prepared" and self.decision == "apply":
            return "applying"
        return self.stage

    @property
    def ends_by_itself(self) -> bool:
        """Nothing of it has to be kept: a blinking LED."""
        return bool(self.plan) and all(
            action.words[:2] == ("ethtool", "-p") for action in self.plan
        )

    @property
    def is_under_way(self) -> bool:
        """The host has applied something that is not confirmed yet."""
        return self.stage in (
            "applying",
            "applied",
            "undoing",
            "disconnected",
            "reconnected",
        )

    @property
    def is_applied(self) -> bool:
        """It is applied, and the user may keep it or undo it."""
        return self.stage == "applied" and self.decision == "apply"

    def reading_age(self, now: float) -> float | None:
        """Seconds since the values were read of which `verified_at` has the time; None: not known.
        The deadline counts from the moment when the change was applied, of which `applied_at` is
        the time of day; `now`: CLOCK_MONOTONIC."""
        if self.deadline is None or self.verified_at is None or self.applied_at is None:
            return None
        since_applied = now - (self.deadline - self.spec.keep_within)
        return since_applied - (self.verified_at - self.applied_at)

    def after(self, event: Event) -> ChangeProgress:
        """The next value."""
        if isinstance(event, Prepared):
            return replace(
                self,
                stage="prepared",
                plan=event.plan,
                needs_second_yes=event.needs_second_yes,
                plan_read_at=event.read_at,
            )
        if isinstance(event, Applying):
            return replace(self, stage="applying")
        if isinstance(event, Applied):
            return replace(
                self,
                stage="applied",
                plan=event.plan,
                deadline=event.deadline,
                verified_at=event.at,
                applied_at=event.at,
            )
        if isinstance(event, ValuesChecked):
            seen = tuple(dict.fromkeys((*self.seen_differences, *event.differences)))
            return replace(
                self,
                verified_at=event.at,
                differences=event.differences,
                seen_differences=seen[-MAX_SEEN_DIFFERENCES:],
            )
        if isinstance(event, ReadBack):
            return replace(self, read_back=True)
        if isinstance(event, GoalCheck):
            return replace(self, proof=event)
        if isinstance(event, RuleVerdict):
            return replace(self, verdict=event)
        if isinstance(event, Reconnected):
            return replace(self, stage="reconnected", answer=event.text, until=event.until)
        if isinstance(event, ChangeEnded):
            return replace(
                self,
                stage="ended",
                deadline=None,
                outcome=event.outcome,
                text=event.text,
                outside=event.outside,
                verified_at=event.at,
            )
        failure = self.failure
        if isinstance(event, StepFailed):
            failure = _with_failure(failure, event)
        stages: dict[type, Stage] = {Undoing: "undoing", ConnectionLost: "disconnected"}
        stage = stages.get(type(event), self.stage)
        deadline = self.deadline if stage == "disconnected" else None
        troubles = _with(self.troubles, event)
        loss = event.text if isinstance(event, ConnectionLost) else self.loss
        return replace(
            self, stage=stage, deadline=deadline, failure=failure, troubles=troubles, loss=loss
        )


def _with_failure(known: StepFailed | None, event: StepFailed) -> StepFailed:
    """Both texts, as the outcome has them."""
    if known is None:
        return event
    return replace(known, text="; ".join(filter(None, (known.text, event.text))))


def _with(
    troubles: tuple[str, ...], event: StepFailed | Undoing | ConnectionLost
) -> tuple[str, ...]:
    if event.text in ("", *troubles):
        return troubles
    return (*troubles, event.text)
