"""How far a change has come, as one value that screens draw. Pure: events in, the next value out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from nictop.changes.change import ChangeSpec
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
    Verdict,
)
from nictop.probe.records import PlannedAction

Stage = Literal["asked", "prepared", "applying", "applied", "undoing", "parted", "ended"]
"""asked: the host reads what is there now. parted: it cannot be heard, and takes the change back by itself."""
PendingQuestion = Literal["", "apply", "keep", "undo"]


@dataclass(frozen=True)
class ChangeProgress:
    """One change so far."""

    wish: ChangeSpec
    stage: Stage = "asked"
    plan: tuple[PlannedAction, ...] = ()
    needs_second_yes: bool = False
    told: PendingQuestion = ""
    """What the user has decided last."""
    deadline: float | None = None
    """This machine's CLOCK_MONOTONIC: then the host takes it back by itself; None: it is not applied."""
    still_heard: bool = False
    """The host has told something that it has read after the change."""
    verdict: Verdict | None = None
    """What the rule says after the change; None: nothing yet."""
    proof: GoalCheck | None = None
    """What is seen of a guided job after the change; None: nothing yet, or it is none."""
    troubles: tuple[str, ...] = ()
    """What went wrong, and why it is undone."""
    outcome: Outcome | None = None
    """None: it has not ended."""
    text: str = ""
    """A sentence on the end."""

    def decided(self, told: PendingQuestion) -> ChangeProgress:
        return replace(self, told=told)

    @property
    def is_under_way(self) -> bool:
        """The host has something to take back, or to keep."""
        return self.stage in ("applying", "applied", "undoing", "parted")

    @property
    def is_applied(self) -> bool:
        """It may be kept, or undone."""
        return self.stage == "applied" and self.told == "apply"

    def after(self, event: Event) -> ChangeProgress:
        """The next value."""
        if isinstance(event, Prepared):
            return replace(self, stage="prepared", plan=event.plan, needs_second_yes=event.needs_second_yes)
        if isinstance(event, Applying):
            return replace(self, stage="applying")
        if isinstance(event, Applied):
            return replace(self, stage="applied", plan=event.plan, deadline=event.deadline)
        if isinstance(event, ReadBack):
            return replace(self, still_heard=True)
        if isinstance(event, GoalCheck):
            return replace(self, proof=event)
        if isinstance(event, Verdict):
            return replace(self, verdict=event)
        if isinstance(event, ChangeEnded):
            return replace(self, stage="ended", deadline=None, outcome=event.outcome, text=event.text)
        stage: Stage = {Undoing: "undoing", ConnectionLost: "parted"}.get(type(event), self.stage)  # type: ignore[assignment]
        deadline = self.deadline if stage == "parted" else None
        return replace(self, stage=stage, deadline=deadline, troubles=_with(self.troubles, event))


def _with(troubles: tuple[str, ...], event: StepFailed | Undoing | ConnectionLost) -> tuple[str, ...]:
    return troubles if not event.text or event.text in troubles else (*troubles, event.text)
