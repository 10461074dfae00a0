"""The runs of an experiment by set-up: number of runs, spread of their figures, CPU cost of each host.

Reads nothing; takes stored runs. A point is one value of a sweep, one side of a comparison, or all repeats of the same
run. Failed runs are counted, but excluded from all figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.report.runs.sentences import (
    TEST_TEXTS,
    CostUnit,
    cost_value_text,
    generator_text,
    host_role_text,
    hosts_text,
)
from nictop.traffic.analysis.comparison import Spread, spread
from nictop.traffic.results.caveats import caveat_of_runs, with_caveat
from nictop.traffic.results.measures import Measure, measures_of
from nictop.traffic.results.selection import StoredRun

COST_NOTES: dict[CostUnit, str] = {
    "Gb/s": "CPU: cores that were busy for each Gb/s",
    "transaction": "CPU: CPU time of all cores per transaction",
}


@dataclass(frozen=True)
class SetUpPoint:
    """One set-up."""

    group: str
    """As in `StoredRun`."""
    value: str
    """Value of the varied parameter; "": none was varied."""
    runs: tuple[StoredRun, ...]
    """In order, failed ones included."""
    spreads: tuple[Spread | None, ...]
    """Of each of `measures`, of the completed runs; None: there are none."""
    of_ceiling: float | None
    """Median of goodput / ceiling; None: no ceiling is known."""
    costs: tuple[tuple[str, str, Spread | None], ...]
    """(role, host, CPU cost in `cost_unit`)"""
    unranked: tuple[str, ...]
    """Why some of the runs may not be compared with others; each reason once."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The figures of its runs, the deciding one first."""
        return measures_of(self.runs[0].result)

    @property
    def main(self) -> Spread | None:
        """Of the deciding figure."""
        return self.spreads[0]

    @property
    def cost_unit(self) -> CostUnit:
        return "Gb/s" if self.runs[0].result.plan.has_bulk else "transaction"

    @property
    def caveat(self) -> str:
        """What its figures lack: ``path not verified``; "": nothing."""
        return caveat_of_runs(one.result for one in self.runs)

    @property
    def failed(self) -> int:
        """Number of failed runs."""
        return sum(one.result.failure is not None for one in self.runs)


def set_up_points(kept: Sequence[StoredRun]) -> tuple[SetUpPoint, ...]:
    """The set-ups, in the order of their first runs."""
    found: dict[tuple[str, str], list[StoredRun]] = {}
    for one in kept:
        found.setdefault((one.group, one.value), []).append(one)
    return tuple(_point(group, value, runs) for (group, value), runs in found.items())


def _point(group: str, value: str, runs: Sequence[StoredRun]) -> SetUpPoint:
    completed = [one.result for one in runs if one.result.failure is None]
    shares = [result.of_ceiling for result in completed if result.of_ceiling is not None]
    hosts = dict.fromkeys((load.role, load.host) for one in runs for load in one.result.hosts)
    costs = []
    for role, host in hosts:
        loads = [load for result in completed for load in result.hosts if (load.role, load.host) == (role, host)]
        each = [load.per_gigabit if load.per_gigabit is not None else load.per_transaction for load in loads]
        costs.append((role, host, spread([cost for cost in each if cost is not None])))
    return SetUpPoint(
        group,
        value,
        tuple(runs),
        tuple(
            spread([known for result in completed if (known := measure.value(result)) is not None])
            for measure in measures_of(runs[0].result)
        ),
        median(shares) if shares else None,
        tuple(costs),
        tuple(dict.fromkeys(clean(reason) for one in runs for reason in one.result.why_not_ranked)),
    )


def median_run(point: SetUpPoint) -> StoredRun | None:
    """The run with the median of the deciding figure (of an even number the lower one). None: all failed."""
    value = point.measures[0].value
    completed = [one for one in point.runs if one.result.failure is None and value(one.result) is not None]
    return sorted(completed, key=lambda one: value(one.result) or 0.0)[(len(completed) - 1) // 2] if completed else None


def column_titles(found: Sequence[SetUpPoint], variable: str) -> tuple[str, ...]:
    """Titles of the columns of `point_cells`; `cost_note` explains those of the CPUs."""
    costs = (f"CPU {host_role_text(role, host)}" for role, host, _ in found[0].costs)
    more = [measure.title for measure in found[0].measures[1:]]
    return (clean(variable) or "set-up", "runs", "median", "lowest", "highest", *(more or ["ceiling"]), *costs)


def cost_note(found: Sequence[SetUpPoint]) -> str:
    return COST_NOTES[found[0].cost_unit]


def point_cells(point: SetUpPoint) -> tuple[str, ...]:
    """Cells of one point: ``4K``, ``3``, ``5.00 Gb/s``, ``4.90``, …; unknown figures are ``–``. Of latencies the
    medians of all runs."""
    name = point.value or point.group or "all"
    if point.value and point.group and point.group != point.value:
        name = f"{point.group}: {point.value}"
    runs = f"{len(point.runs) - point.failed} of {len(point.runs)}" if point.failed else str(len(point.runs))
    known, measures = point.main, point.measures
    middle, *extremes = (known.median, known.lowest, known.highest) if known is not None else (None, None, None)
    costs = (
        units.UNKNOWN if cost is None else cost_value_text(cost.median, point.cost_unit) for _, _, cost in point.costs
    )
    first = measures[0]
    extreme_text = first.text if first.less_is_better else lambda rate: units.scaled(rate).strip()
    median_text = with_caveat(first.text(middle), point.caveat)
    rates = (median_text, *map(extreme_text, extremes))
    more = [
        measure.text(found.median if found is not None else None)
        for measure, found in zip(measures[1:], point.spreads[1:], strict=True)
    ]
    return (clean(name), runs, *rates, *(more or [units.percentage(point.of_ceiling)]), *costs)


def experiment_summary(kept: Sequence[StoredRun]) -> str:
    """What was measured: ``sweep of length, 3 runs each, a → b``; "": there are no runs."""
    if not kept:
        return ""
    first = kept[0]
    found = set_up_points(kept)
    each = {len(point.runs) for point in found}
    text = {
        "run": "one run",
        "repeat": f"{len(kept)} runs",
        "sweep": f"sweep of {clean(first.variable)}",
        "compare": f"comparison of {clean(first.variable)}",
    }[first.kind]
    if len(found) > 1:
        text += f", {each.pop()} runs each" if len(each) == 1 and each != {1} else ""
    plan = first.result.plan
    ends = hosts_text(plan)
    label = f"{clean(first.label)}: " if first.label else ""
    test = f"{TEST_TEXTS[plan.test]}, " if plan.test != "bulk" else ""
    length = f"{plan.files} transactions" if plan.files is not None else f"{plan.time} s"
    length += " idle and loaded" if plan.test == "loaded" else ""
    return f"{label}{text}, {ends}, {test}{plan.protocol.upper()}, {length} each, {generator_text(plan)}"
