"""Result of a benchmark, compared with its bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Result:
    """One measured value. `bound` None: for information only."""

    what: str
    measured: float
    bound: float | None
    unit: str

    @property
    def verdict(self) -> Literal["ok", "over", ""]:
        if self.bound is None:
            return ""
        return "ok" if self.measured <= self.bound else "over"


Benchmark = Callable[[bool], Iterator[Result]]
"""Called with True for a quick run, which is shorter and less accurate."""


def line(result: Result) -> str:
    """One row of the table with the heading `HEAD`."""
    bound = f"{result.bound:>10.4g}" if result.bound is not None else f"{'':>10}"
    ratio = f"{result.measured / result.bound:>7.2f}" if result.bound else f"{'':>7}"
    return (
        f"{result.what:<62}{result.measured:>10.4g}{bound} {result.unit:<12}{ratio}  "
        f"{result.verdict}"
    )


HEAD = f"{'what':<62}{'measured':>10}{'bound':>10} {'unit':<12}{'ratio':>7}"
