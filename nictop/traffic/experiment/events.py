"""The events of an experiment."""

from __future__ import annotations

from dataclasses import dataclass

from nictop.traffic.experiment.steps import Step
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.run.events import Event


@dataclass(frozen=True)
class StepBegan:
    """A step starts. Repeated for the same step if its NICs differ after a change."""

    number: int
    """Number of the step, from 1."""
    total: int
    step: Step
    seconds_left: float
    """Estimate for the whole experiment, without the time that manual changes take."""


@dataclass(frozen=True)
class Resting:
    """A pause before the next step."""

    seconds: float


@dataclass(frozen=True)
class ChangeWanted:
    """The user must make a change; the experiment continues when the callback `change` returns."""

    step: Step
    sentence: str
    """The required state, and the current one if it is known; without control characters."""


@dataclass(frozen=True)
class StepEnded:
    """A run has ended, or a step could not be run: its result has a failure then."""

    number: int
    kept: StoredRun


@dataclass(frozen=True)
class NotKept:
    """A result could not be stored; the experiment continues with the result in memory."""

    number: int
    sentence: str


@dataclass(frozen=True)
class ExperimentEnded:
    """The last event."""

    results: tuple[StoredRun, ...]
    why: str = ""
    """Why it ended before its last step; "" if it did not. Without control characters."""


ExperimentEvent = StepBegan | Event | Resting | ChangeWanted | StepEnded | NotKept | ExperimentEnded
