"""The figures by which runs are compared: goodput, transactions per second, latency, CPU at equal
load.

Reads nothing; takes results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from nictop.model.text import units
from nictop.probe.light_dataclasses import dataclass
from nictop.traffic.results.result import Result

MeasureName = Literal["goodput", "transactions", "p50", "p99", "loaded p50", "loaded p99", "cpu"]


@dataclass(frozen=True)
class Measure:
    """One figure of a run."""

    name: MeasureName
    title: str
    text: Callable[[float | None], str]
    """A value with its unit."""
    value: Callable[[Result], float | None]
    """None: not known."""
    less_is_better: bool = False


def _latency(name: Literal["p50", "p99"], *, loaded: bool = False) -> Measure:
    def value(result: Result) -> float | None:
        if result.transactions is None:
            return None
        found: float | None = getattr(result.transactions.latency.summary(), name)
        return found

    own: MeasureName = name
    title = f"latency {name}"
    if loaded:
        own = "loaded p50" if name == "p50" else "loaded p99"
        title = f"loaded {title}"
    return Measure(own, title, units.duration, value, less_is_better=True)


def busy_cores(result: Result) -> float | None:
    """Busy cores of client, server and monitored hosts; None: those of an end are not known. Time
    that a hypervisor spends in its guests is left out: the guests count it. A machine that is both
    ends counts once."""
    of_ends, of_observers = [], 0.0
    for load in result.hosts:
        if load.role != "observer":
            if load.busy is None:
                return None
            of_ends.append(load.busy.total)
        elif load.busy is not None:
            of_observers += load.busy.total - load.busy.guest
    if not of_ends:
        return None
    if result.proof is not None and result.proof.one_machine:
        of_ends = of_ends[:1]
    return sum(of_ends) + of_observers


def _transactions(result: Result) -> float | None:
    """Per second."""
    if result.transactions is None:
        return None
    return result.transactions.rate


def _cores(value: float | None) -> str:
    if value is None:
        return units.UNKNOWN
    return f"{units.significant(value)} cores"


MEASURES: dict[MeasureName, Measure] = {
    measure.name: measure
    for measure in (
        Measure("goodput", "goodput", units.bits_per_second, lambda result: result.goodput),
        Measure(
            "transactions",
            "transactions/s",
            units.per_second,
            _transactions,
        ),
        _latency("p50"),
        _latency("p99"),
        _latency("p50", loaded=True),
        _latency("p99", loaded=True),
        Measure("cpu", "CPU", _cores, busy_cores, less_is_better=True),
    )
}


def measures_of(result: Result) -> tuple[Measure, ...]:
    """The figures of a run, the deciding one first."""
    if result.plan.test == "bulk":
        return (MEASURES["goodput"],)
    if result.plan.test == "loaded":
        return MEASURES["loaded p50"], MEASURES["loaded p99"], MEASURES["goodput"]
    return MEASURES["transactions"], MEASURES["p50"], MEASURES["p99"]


def equal_load_measures(result: Result) -> tuple[Measure, ...]:
    """The figures by which runs with the same requested load are compared, the deciding one
    first."""
    if result.plan.test == "bulk":
        return MEASURES["cpu"], MEASURES["goodput"]
    return MEASURES["cpu"], MEASURES["p50"], MEASURES["p99"]


def deciding_text(result: Result) -> str:
    """``5.00 Gb/s``, ``12.3 k/s``, ``48.2 ms`` (loaded)"""
    measure = measures_of(result)[0]
    return measure.text(measure.value(result))
