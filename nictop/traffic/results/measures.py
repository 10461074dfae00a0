"""The figures by which runs are compared: goodput, or transactions per second and latency.

Reads nothing; takes results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nictop.model.text import units
from nictop.traffic.results.result import Result

MeasureName = Literal["goodput", "transactions", "p50", "p99"]


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


def _latency(name: Literal["p50", "p99"]) -> Measure:
    def value(result: Result) -> float | None:
        figures = result.transactions
        found: float | None = getattr(figures.latency.summary(), name) if figures is not None else None
        return found

    return Measure(name, f"latency {name}", units.duration, value, less_is_better=True)


MEASURES: dict[MeasureName, Measure] = {
    measure.name: measure
    for measure in (
        Measure("goodput", "goodput", units.bits_per_second, lambda result: result.goodput),
        Measure(
            "transactions",
            "transactions/s",
            units.per_second,
            lambda result: result.transactions.rate if result.transactions is not None else None,
        ),
        _latency("p50"),
        _latency("p99"),
    )
}


def measures_of(result: Result) -> tuple[Measure, ...]:
    """The figures of a run, the deciding one first."""
    if result.plan.test == "bulk":
        return (MEASURES["goodput"],)
    return MEASURES["transactions"], MEASURES["p50"], MEASURES["p99"]


def deciding_text(result: Result) -> str:
    """``5.00 Gb/s``, ``12.3 k/s``"""
    measure = measures_of(result)[0]
    return measure.text(measure.value(result))
