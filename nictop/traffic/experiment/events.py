"""The events of an experiment."""

from __future__ import annotations

from collections.abc import Callable

from nictop.probe.light_dataclasses import dataclass
from nictop.traffic.experiment.steps import ExperimentStep
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.run.events import RunEvent


@dataclass(frozen=True)
class StepStarted:
    """A step starts. Repeated for the same step if its NICs differ after a change."""

    number: int
    """Number of the step, from 1."""
    total: int
    step: ExperimentStep
    seconds_left: float
    """Estimate for the whole experiment, without the time that manual changes take."""
    identity: str = ""
    """Of its result, if it gets one."""


@dataclass(frozen=True)
class PauseStarted:
    """A pause before the next step."""

    seconds: float


@dataclass(frozen=True)
class ChangeRequired:
    """The user must make a change; the experiment continues when the callback `change` returns."""

    step: ExperimentStep
    """With the NICs of now."""
    sentence: str
    """The required state, and the current one if it is known; without control characters."""
    variable: str = ""
    """What is to be changed; "": not known."""


@dataclass(frozen=True)
class StepEnded:
    """A run has ended, or a step could not be run: its result has a failure then."""

    number: int
    run: StoredRun


@dataclass(frozen=True)
class SaveFailed:
    """A result could not be stored; the experiment continues with the result in memory."""

    number: int
    sentence: str


@dataclass(frozen=True)
class ExperimentEnded:
    """The last event."""

    results: tuple[StoredRun, ...]
    reason: str = ""
    """Why it ended before its last step; "" if it did not. Without control characters."""


ExperimentEvent = (
    StepStarted
    | RunEvent
    | PauseStarted
    | ChangeRequired
    | StepEnded
    | SaveFailed
    | ExperimentEnded
)
EmitExperiment = Callable[[ExperimentEvent], object]
"""Called with each event, when it happens."""
