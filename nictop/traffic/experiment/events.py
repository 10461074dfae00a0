"""What an experiment tells while it goes on."""

from __future__ import annotations

from dataclasses import dataclass

from nictop.traffic.experiment.steps import Step
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.run.events import Event


@dataclass(frozen=True)
class StepBegan:
    """A step begins. It comes a second time for a step whose NICs are others after a change."""

    number: int
    """From 1."""
    total: int
    step: Step
    seconds_left: float
    """Of the whole experiment, about; what people need for changes is not in it."""


@dataclass(frozen=True)
class Resting:
    """Nothing is done for a while."""

    seconds: float


@dataclass(frozen=True)
class ChangeWanted:
    """Somebody must change something now; it goes on when `change` has answered."""

    step: Step
    sentence: str
    """What must be so, and how it is now where that is known; clean."""


@dataclass(frozen=True)
class StepEnded:
    """A run is over, or a step could not be run: its result has a failure then."""

    number: int
    kept: StoredRun


@dataclass(frozen=True)
class NotKept:
    """A result could not be written to disk; the experiment goes on with it in memory."""

    number: int
    sentence: str


@dataclass(frozen=True)
class ExperimentEnded:
    """The last event."""

    results: tuple[StoredRun, ...]
    why: str = ""
    """Why it ended before its last step; "" when it did not. Clean."""


ExperimentEvent = StepBegan | Event | Resting | ChangeWanted | StepEnded | NotKept | ExperimentEnded
