"""The steps from the first attempt to reach a host until all of it is read, each with its time.

``✓ name 0.1 s · ✓ connection 0.3 s · ◌ login 4 s · probe · interfaces · inventory``: `StartSteps`
is given the items of the source by `HostSession.process`, and says what was done, what is waited
for, and what is still to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import Inventory, Line
from nictop.wire.source import WAITS_FOR_ANSWER, ConnectionStage, SourceState

LONG_WAIT_SECONDS = 10.0
"""After which it is said again what is waited for, with its seconds and the time limit."""
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
INVENTORY_STEPS: tuple[StepName, ...] = ("links", "inventory")
"""Those of one inventory."""
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
    is_again: bool = False
    """What was begun before was stopped; the time counts from then."""


@dataclass(frozen=True)
class _Begun:
    name: StepName
    began: float
    target: str = ""
    ended: float | None = None
    is_again: bool = False
    before: float = 0.0
    """Seconds that the step took in this attempt before it began again."""


class StartSteps:
    """The steps of one host. `is_remote`: it is connected to."""

    def __init__(self, *, is_remote: bool) -> None:
        self._names = ALL_STEPS if is_remote else PROBE_STEPS
        self._begun: list[_Begun] = []
        self._spent: dict[StepName, float] = {}
        """Seconds of the steps that have ended in this attempt."""
        self._has_failed = self._is_over = False
        self._has_counters = self._is_probe_complete = False
        """Of this attempt. The first counters are sent before the rest of the probe is received,
        all others after that."""
        self.attempt = 0
        """1: the first one since it was live."""
        self._attempt_began = 0.0

    @property
    def has_begun(self) -> bool:
        """It was tried to reach it."""
        return bool(self._begun)

    def attempt_seconds(self, now: float) -> float:
        """Since the newest attempt began; its steps have times of their own."""
        return now - self._attempt_began

    def process_state(self, item: SourceState, now: float) -> None:
        """A new state of the connection."""
        if item.state == "connecting":
            self._process_connecting(item, now)
        elif item.state in ("lost", "failed"):
            self._end(now)
            self._has_failed = True
        elif item.stage is not None:  # its hello has come, the rest of the probe is on its way
            self._process_rest(item.stage, now, item.target)
        else:
            self.attempt = 0
            self._begin_links(now)

    def _process_connecting(self, item: SourceState, now: float) -> None:
        """Another attempt, or a stage of it."""
        if item.stage is not None:
            self._begin(item.stage, now, item.target)
            return
        self._begun, self._has_failed, self._is_over = [], False, False
        self._has_counters = self._is_probe_complete = False
        self._spent = {}
        self.attempt += 1
        self._attempt_began = now
        if self._names is PROBE_STEPS:
            self._begin("probe", now)

    def _process_rest(self, stage: ConnectionStage, now: float, sent: str) -> None:
        """How much of the probe was `sent`; the steps after it may have begun already, and are not
        taken back. "": all of it."""
        if self._is_probe_complete:
            return  # reported late
        newest = self._begun[-1] if self._begun else None
        if newest is None or newest.name not in INVENTORY_STEPS:
            self._begin(stage, now, sent)
        elif newest.name == "links" and newest.ended is None:
            self._begun[-1] = replace(newest, target=f"{sent} of the probe sent" if sent else "")

    def process_line(self, line: Line, snapshot: Snapshot, now: float) -> None:
        """A line was received; `snapshot` is the one after it. What it has of an attempt before is
        not what this one has read."""
        if line.hello is not None and snapshot.inventory is None and self._has_part:
            self._forget_inventory()  # another boot of the host
        if line.counters is not None:
            self._note_counters()
        if self._is_over or snapshot.state != "live":
            return
        self.attempt = 0
        if line.inventory is None:
            self._begin_links(now)
        else:
            self._process_inventory(line.inventory, now)

    def _note_counters(self) -> None:
        """After the second ones, what was said of the sending is of before."""
        if self._has_counters and not self._is_probe_complete:
            self._is_probe_complete = True
            newest = self._begun[-1] if self._begun else None
            if newest is not None and newest.name == "links" and newest.ended is None:
                self._begun[-1] = replace(newest, target="")
        self._has_counters = True

    def _process_inventory(self, inventory: Inventory, now: float) -> None:
        if inventory.pending:
            self._begin("inventory", now, _unread_part(inventory.pending))
            return
        self._end(now)
        self._is_over = True

    def _forget_inventory(self) -> None:
        """What was read is not that of this host any more."""
        self._is_over = False
        self._begun = [step for step in self._begun if step.name not in INVENTORY_STEPS]
        for name in INVENTORY_STEPS:
            self._spent.pop(name, None)

    @property
    def _has_part(self) -> bool:
        """A part of the inventory has been read, or all of it."""
        return self._is_over or (bool(self._begun) and self._begun[-1].name == "inventory")

    def _begin_links(self, now: float) -> None:
        """Unless they have been read already, or are being read."""
        newest = self._begun[-1] if self._begun else None
        is_on = newest is not None and newest.name == "links" and newest.ended is None
        if not self._has_part and not is_on:
            self._begin("links", now)

    def process_stopped(self, now: float) -> None:
        """An inventory was stopped before it was complete: the probe begins with another one, and
        the parts that were read do not become fewer."""
        if self._is_over or not self._begun:
            return
        newest = self._begun[-1]
        if newest.name in INVENTORY_STEPS and newest.ended is None:
            self._begun[-1] = replace(newest, began=now, is_again=True)

    def _begin(self, name: StepName, now: float, target: str = "") -> None:
        """End the step before, unless it is the same. A stage that was passed begins again for
        another hop or address, or after a question, with those that follow it; what others took
        meanwhile is not its time."""
        self._has_failed = False
        if self._is_on(name, target):
            return
        is_again = bool(self._begun) and self._begun[-1].is_again and name in INVENTORY_STEPS
        self._end(now)
        if name not in self._names:  # recorded: only its stages show that it was connected to
            self._names = ALL_STEPS
        place = ALL_STEPS.index(name)
        self._begun = [step for step in self._begun if ALL_STEPS.index(step.name) < place]
        before = self._spent.get(name, 0.0)
        self._begun.append(_Begun(name, now, target, is_again=is_again, before=before))

    def _is_on(self, name: StepName, target: str) -> bool:
        if not self._begun or self._begun[-1].ended is not None:
            return False
        return (self._begun[-1].name, self._begun[-1].target) == (name, target)

    def _end(self, now: float) -> None:
        if self._begun and self._begun[-1].ended is None:
            step = self._begun[-1] = replace(self._begun[-1], ended=now)
            self._spent[step.name] = step.before + now - step.began

    # -------------------------------------------------------------------------------- what is shown

    def steps(self, now: float) -> Sequence[StartStep]:
        """Those that are done, and those to come, in their order."""
        begun = {step.name: step for step in self._begun}
        reached = -1
        if self._begun:
            reached = self._names.index(self._begun[-1].name)
        steps = []
        for place, name in enumerate(self._names):
            state = self._state(place, reached)
            if state != "done" or name in begun or self._is_implied(name):
                steps.append(self._step(name, begun.get(name), state, now))
        return steps

    @staticmethod
    def _is_implied(name: StepName) -> bool:
        """It is done if one after it is, also where it was not seen to begin. Others were not
        needed (a ProxyCommand resolves the name), or they are not in the recording."""
        return name in PROBE_STEPS

    @staticmethod
    def _step(name: StepName, begun: _Begun | None, state: StepState, now: float) -> StartStep:
        if begun is None:
            return StartStep(name, state, None, "")
        end = now if begun.ended is None else begun.ended
        # that of the probe is how much of it has come: of a step that is done it would be partial
        is_progress = state == "done" and name in PROBE_STEPS
        target = "" if is_progress else begun.target
        is_again = begun.is_again and state == "active"
        seconds = max(0.0, begun.before + end - begun.began)
        return StartStep(name, state, seconds, target, is_again)

    def _state(self, place: int, reached: int) -> StepState:
        if self._is_over or place < reached:
            return "done"
        if place > reached:
            return "waiting"
        return "failed" if self._has_failed else "active"

    def active(self, now: float) -> StartStep | None:
        """What is waited for; None: all is read, or nothing is done now."""
        if self._is_over:
            return None
        for step in self.steps(now):
            if step.state == "active":
                return step
        return None

    def seconds_of(self, name: StepName, now: float) -> float:
        """How long a step took, or takes until now."""
        return sum(step.seconds or 0.0 for step in self.steps(now) if step.name == name)

    def active_text(self, now: float) -> str:
        """``logging in, 4 s``, ``logging in, 4 s (attempt 2)``: what is waited for; "": all is
        read, or nothing is done now. ``reading inventory again, 13 s``: since the one before was
        stopped."""
        step = self.active(now)
        if step is None:
            return ""
        seconds = int(step.seconds or 0.0)
        text = step.target if step.target == WAITS_FOR_ANSWER else DOING[step.name]
        if step.is_again:
            text += " again"
        if seconds:
            text += f", {seconds} s"
        if self.attempt > 1:
            text += f" (attempt {self.attempt})"
        return text


def _unread_part(pending: Sequence[str]) -> str:
    """Of the inventory, which is sent in three parts: what is being read now."""
    return "drivers and settings" if "platform" in pending else "network managers and configuration"
