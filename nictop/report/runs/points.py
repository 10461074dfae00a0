"""The runs of an experiment by set-up: number of runs, spread of their figures, CPU cost of each
host.

Reads nothing; takes stored runs. A point is one value of a sweep, one side of a comparison, or all
repeats of the same run. Failed runs are counted, but excluded from all figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass
from nictop.report.runs.sentences import (
    TEST_TEXTS,
    CostUnit,
    cost_of,
    cost_value_text,
    generator_text,
    host_role_text,
    hosts_text,
)
from nictop.traffic.analysis.comparison import Spread, spread
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.results.caveats import caveat_of_runs, with_caveat
from nictop.traffic.results.measures import Measure, measures_of
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun

COST_NOTES: dict[CostUnit, str] = {
    "Gb/s": "CPU: cores that were busy for each Gb/s",
    "transaction": "CPU: CPU time of all cores per transaction",
    "busy": "CPU: cores that were busy; some runs have no cost per Gb/s: they carried too little, "
    "or most was not by the test",
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
    measures: tuple[Measure, ...]
    """The figures of the experiment, the deciding one first: the same for all of its set-ups."""
    spreads: tuple[Spread | None, ...]
    """Of each of `measures`, of the completed runs; None: there are none."""
    of_ceiling: float | None
    """Median of goodput / ceiling; None: no ceiling is known."""
    costs: tuple[tuple[str, str, Spread | None], ...]
    """(role, host, CPU cost in `cost_unit`) of all hosts of the experiment."""
    cost_unit: CostUnit
    """The same for all of its set-ups."""
    unranked: tuple[str, ...]
    """Why some of the runs may not be compared with others; each reason once."""

    @property
    def main(self) -> Spread | None:
        """Of the deciding figure."""
        return self.spreads[0]

    @property
    def caveat(self) -> str:
        """What its figures lack: ``path not verified``; "": nothing."""
        return caveat_of_runs(run.result for run in self.runs)

    @property
    def failed(self) -> int:
        """Number of failed runs."""
        return sum(run.result.failure is not None for run in self.runs)


def set_up_points(runs: Sequence[StoredRun]) -> tuple[SetUpPoint, ...]:
    """The set-ups, in the order of their first runs."""
    runs_of: dict[tuple[str, str], list[StoredRun]] = {}
    for run in runs:
        runs_of.setdefault((run.group, run.value), []).append(run)
    measures, unit = _measures(runs), _cost_unit(runs_of.values())
    hosts = tuple({(load.role, load.host): None for run in runs for load in run.result.hosts})
    return tuple(
        _point(group, value, members, measures, hosts, unit=unit)
        for (group, value), members in runs_of.items()
    )


def _measures(runs: Sequence[StoredRun]) -> tuple[Measure, ...]:
    """A run that failed has no figure of its command."""
    completed = (run for run in runs if run.result.failure is None)
    return measures_of(next(completed, runs[0]).result) if runs else ()


def _cost_unit(set_ups: Iterable[Sequence[StoredRun]]) -> CostUnit:
    """One that is known of every set-up that has completed runs."""
    for runs in set_ups:
        if not runs[0].result.plan.has_rate:
            return "transaction"
        loads = [load for run in runs if run.result.failure is None for load in run.result.hosts]
        has_cost = any(load.cost_per_gigabit is not None for load in loads)
        if not has_cost and any(load.busy is not None for load in loads):
            return "busy"
    return "Gb/s"


def _point(
    group: str,
    value: str,
    runs: Sequence[StoredRun],
    measures: tuple[Measure, ...],
    hosts: Iterable[tuple[str, str]],
    *,
    unit: CostUnit,
) -> SetUpPoint:
    completed = [run.result for run in runs if run.result.failure is None]
    shares = [result.of_ceiling for result in completed if result.of_ceiling is not None]
    return SetUpPoint(
        group,
        value,
        tuple(runs),
        measures,
        tuple(_known_spread(map(measure.value, completed)) for measure in measures),
        median(shares) if shares else None,
        tuple(_costs(hosts, completed, unit)),
        unit,
        tuple(dict.fromkeys(_reasons_against_ranking(runs))),
    )


def _known_spread(values: Iterable[float | None]) -> Spread | None:
    """Of the values that are known; None: there are none."""
    return spread([value for value in values if value is not None])


def _costs(
    hosts: Iterable[tuple[str, str]], completed: Sequence[Result], unit: CostUnit
) -> Iterator[tuple[str, str, Spread | None]]:
    """(role, host, CPU cost) of every one of the `hosts`; the cost is that of the completed
    runs."""
    costs: dict[tuple[str, str], list[float | None]] = {place: [] for place in hosts}
    for result in completed:
        for load in result.hosts:
            costs[load.role, load.host].append(cost_of(load, unit))
    for (role, host), each in costs.items():
        yield role, host, _known_spread(each)


def _reasons_against_ranking(runs: Iterable[StoredRun]) -> Iterator[str]:
    for run in runs:
        yield from map(clean, run.result.why_not_ranked)


def median_run(point: SetUpPoint) -> StoredRun | None:
    """The run with the median of the deciding figure (of an even number the lower one). None: all
    failed."""
    known: list[tuple[float, StoredRun]] = []
    for run in point.runs:
        figure = point.measures[0].value(run.result)
        if run.result.failure is None and figure is not None:
            known.append((figure, run))
    if not known:
        return None
    known.sort(key=lambda pair: pair[0])
    return known[(len(known) - 1) // 2][1]


def column_titles(points: Sequence[SetUpPoint], variable: str) -> tuple[str, ...]:
    """Titles of the columns of `point_cells`; `cost_note` explains those of the CPUs."""
    costs = (f"CPU {host_role_text(role, host)}" for role, host, _ in points[0].costs)
    further = [measure.title for measure in points[0].measures[1:]] or ["ceiling"]
    name = clean(variable) or "set-up"
    return (name, "runs", "median", "lowest", "highest", *further, *costs)


def cost_note(points: Sequence[SetUpPoint]) -> str:
    return COST_NOTES[points[0].cost_unit]


def point_cells(point: SetUpPoint) -> tuple[str, ...]:
    """Cells of one point: ``4K``, ``3``, ``5.00 Gb/s``, ``4.90``, …; unknown figures are ``–``. Of
    latencies the medians of all runs."""
    further = list(_further_medians(point)) or [units.percentage(point.of_ceiling)]
    costs = (_median_cost_text(cost, point.cost_unit) for _, _, cost in point.costs)
    return (point_name(point), _runs_text(point), *_figure_texts(point), *further, *costs)


def point_name(point: SetUpPoint) -> str:
    """``4K``; of a comparison also its side: ``A: 4K``"""
    if point.group in ("", point.value):
        return clean(point.value or "all")
    if not point.value:
        return clean(point.group)
    return clean(f"{point.group}: {point.value}")


def _runs_text(point: SetUpPoint) -> str:
    """``3``; ``2 of 3``: one failed"""
    number = len(point.runs)
    if not point.failed:
        return str(number)
    return f"{number - point.failed} of {number}"


def _figure_texts(point: SetUpPoint) -> tuple[str, str, str]:
    """Median, lowest and highest of the deciding figure; the unit of a rate is said once."""
    measure, known = point.measures[0], point.main
    if known is None:
        return with_caveat(measure.text(None), point.caveat), units.UNKNOWN, units.UNKNOWN
    extreme_text = measure.text if measure.less_is_better else _without_unit
    middle = with_caveat(measure.text(known.median), point.caveat)
    return middle, extreme_text(known.lowest), extreme_text(known.highest)


def _without_unit(rate: float | None) -> str:
    return units.scaled(rate).strip()


def _further_medians(point: SetUpPoint) -> Iterator[str]:
    """Of the figures behind the deciding one."""
    for measure, known in zip(point.measures[1:], point.spreads[1:], strict=True):
        yield measure.text(None if known is None else known.median)


def _median_cost_text(cost: Spread | None, unit: CostUnit) -> str:
    return units.UNKNOWN if cost is None else cost_value_text(cost.median, unit)


def experiment_summary(runs: Sequence[StoredRun]) -> str:
    """What was measured: ``sweep of length, 3 runs each, a → b``; "": there are no runs."""
    if not runs:
        return ""
    first = runs[0]
    plan = first.result.plan
    texts = [*_kind_texts(runs), hosts_text(plan)]
    if plan.is_of_one_host:
        texts.append(clean(plan.workload) or TEST_TEXTS[plan.test])
        return ": ".join(filter(None, (clean(first.label), ", ".join(texts))))
    if plan.test != "bulk":
        texts.append(TEST_TEXTS[plan.test])
    texts += (plan.protocol.upper(), f"{_length_text(plan)} each", generator_text(plan))
    text = ", ".join(texts)
    if first.label:
        text = f"{clean(first.label)}: {text}"
    return text


def _kind_texts(runs: Sequence[StoredRun]) -> Iterator[str]:
    """``sweep of length``, ``3 runs each``"""
    first = runs[0]
    yield {
        "run": "one run",
        "repeat": f"{len(runs)} runs",
        "sweep": f"sweep of {clean(first.variable)}",
        "compare": f"comparison of {clean(first.variable)}",
    }[first.kind]
    first_number, *others = (len(point.runs) for point in set_up_points(runs))
    if others and set(others) == {first_number} and first_number > 1:
        yield f"{first_number} runs each"


def _length_text(plan: RunPlan) -> str:
    """``10 s``, ``10 s idle and loaded``, ``500 transactions``"""
    length = f"{plan.time} s" if plan.files is None else f"{plan.files} transactions"
    return f"{length} idle and loaded" if plan.test == "loaded" else length
