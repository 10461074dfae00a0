"""The steps from the first attempt to reach a host until all of it is read, each with its time.

``✓ name 0.1 s · ✓ connection 0.3 s · ◌ login 4 s · probe · interfaces · inventory``: `StartSteps` is given the items of
the source by `HostSession.process`, and says what was done, what is waited for, and what is still to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nictop.model.snapshot import Snapshot
from nictop.wire.source import ConnectionStage, SourceState

StepState = Literal["done", "active", "failed", "waiting"]
StepName = ConnectionStage | Literal["links", "inventory", "checks"]

LABELS: dict[StepName, str] = {
    "resolve": "resolve the name",
    "connect": "connect",
    "host_key": "SSH handshake",
    "login": "log in",
    "probe": "start the probe",
    "links": "read interfaces",
    "inventory": "read the inventory",
    "checks": "run the checks",
}
DOING: dict[StepName, str] = {
    "resolve": "resolving",
    "connect": "connecting",
    "host_key": "SSH handshake",
    "login": "logging in",
    "probe": "starting probe",
    "links": "reading interfaces",
    "inventory": "reading inventory",
    "checks": "checking",
}
"""The same, short, of what is done now."""
PROBE_STEPS: tuple[StepName, ...] = ("probe", "links", "inventory")
ALL_STEPS: tuple[StepName, ...] = ("resolve", "connect", "host_key", "login", *PROBE_STEPS)
"""In their order; a host that is reached without SSH has only those of the probe."""


@dataclass(frozen=True)
class StartStep:
    """One step."""

    name: StepName
    state: StepState
    seconds: float | None = None
    """How long it took, or takes until now; None: it has not begun, or when it did is not known."""
    target: str = ""
    """What it is about: a name, an address, a user."""


@dataclass(frozen=True)
class _Begun:
    name: StepName
    began: float
    target: str = ""
    ended: float | None = None


class StartSteps:
    """The steps of one host. `is_remote`: it is connected to."""

    def __init__(self, *, is_remote: bool) -> None:
        self._names = ALL_STEPS if is_remote else PROBE_STEPS
        self._begun: list[_Begun] = []
        self._has_failed = self._is_over = False
        self.attempt = 0
        """1: the first one since it was live."""

    @property
    def has_begun(self) -> bool:
        """It was tried to reach it."""
        return bool(self._begun)

    def process_state(self, item: SourceState, snapshot: Snapshot, now: float) -> None:
        """A new state of the connection."""
        if item.state == "connecting" and item.stage is None:
            self._begun, self._has_failed, self._is_over = [], False, False
            self.attempt += 1
            if self._names is PROBE_STEPS:
                self._begin("probe", now)
        elif item.state == "connecting" and item.stage is not None:
            self._begin(item.stage, now, item.target)
        elif item.state in ("lost", "failed"):
            self._end(now)
            self._has_failed = True
        else:
            self.process_line(snapshot, now)

    def process_line(self, snapshot: Snapshot, now: float) -> None:
        """A line was received; `snapshot` is the one after it."""
        if self._is_over or snapshot.state != "live":
            return
        self.attempt = 0
        inventory = snapshot.inventory
        if inventory is None:
            self._begin("links", now)
        elif inventory.pending:
            self._begin("inventory", now, _unread_part(inventory.pending))
        else:
            self._end(now)
            self._is_over = True

    def _begin(self, name: StepName, now: float, target: str = "") -> None:
        """End the step before, unless it is the same. A stage that was passed begins again for another hop or address,
        with those that follow it."""
        newest = self._begun[-1] if self._begun else None
        if newest is not None and newest.name == name and newest.target == target:
            return
        self._end(now)
        if name not in self._names:  # recorded: only its stages show that it was connected to
            self._names = ALL_STEPS
        place = ALL_STEPS.index(name)
        began = next((one.began for one in self._begun if one.name == name), now)
        self._begun = [one for one in self._begun if ALL_STEPS.index(one.name) < place]
        self._begun.append(_Begun(name, began, target))

    def _end(self, now: float) -> None:
        if self._begun and self._begun[-1].ended is None:
            self._begun[-1] = replace(self._begun[-1], ended=now)

    # ------------------------------------------------------------------------------------------------ what is shown

    def steps(self, now: float) -> Sequence[StartStep]:
        """All steps in their order."""
        begun = {one.name: one for one in self._begun}
        last = self._begun[-1].name if self._begun else None
        reached = -1 if last is None else self._names.index(last)
        steps = []
        for place, name in enumerate(self._names):
            one = begun.get(name)
            seconds = None if one is None else max(0.0, (now if one.ended is None else one.ended) - one.began)
            steps.append(StartStep(name, self._state(place, reached), seconds, "" if one is None else one.target))
        return steps

    def _state(self, place: int, reached: int) -> StepState:
        if self._is_over or place < reached:
            return "done"
        if place > reached:
            return "waiting"
        return "failed" if self._has_failed else "active"

    def active(self, now: float) -> StartStep | None:
        """What is waited for; None: all is read, or nothing is done now."""
        return next((step for step in self.steps(now) if step.state == "active"), None)

    def active_text(self, now: float) -> str:
        """``logging in, 4 s``, ``logging in, 4 s (attempt 2)``: what is waited for; "": all is read, or nothing is done
        now."""
        step = self.active(now)
        if step is None:
            return ""
        seconds = int(step.seconds or 0.0)
        text = f"{DOING[step.name]}, {seconds} s" if seconds else DOING[step.name]
        return f"{text} (attempt {self.attempt})" if self.attempt > 1 else text


def _unread_part(pending: Sequence[str]) -> str:
    """Of the inventory, which is sent in three parts: what is being read now."""
    return "drivers and settings" if "platform" in pending else "network managers and configuration"
