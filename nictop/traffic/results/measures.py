"""The figures by which runs are compared: goodput, transactions per second, latency, CPU at equal
load.

Reads nothing; takes results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.traffic.results.host_load import MIN_COST_GIGABITS, HostLoad
from nictop.traffic.results.result import Result
from nictop.traffic.results.workload import CommandFigure

MeasureName = Literal[
    "goodput", "transactions", "p50", "p99", "loaded p50", "loaded p99", "cpu", "duration", "rate",
    "value", "smaller value", "cpu per gigabit", "storage",
]  # fmt: skip


SCALED_UNITS = {
    "goodput": "b/s",
    "rate": "b/s",
    "transactions": "/s",
    "b/s": "b/s",
    "1/s": "/s",
}
"""Name of a measure, or unit of a command's figure → what follows an SI prefix."""


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
    unit: str = ""
    """Of the figure of a command."""
    why_unknown: str = "not in every run"
    """Why a comparison has no ratio of it."""

    @property
    def scaled_unit(self) -> str:
        """What follows an SI prefix on an axis: ``b/s``, ``/s``; "": each value has its text."""
        return SCALED_UNITS.get(self.unit or self.name, "")

    def of_command(self, title: str, unit: str) -> Measure:
        """This figure, as a command calls it."""
        return replace(self, title=title, text=partial(figure_text, unit=unit), unit=unit)


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
    return Measure(
        own, title, units.duration, value, less_is_better=True, why_unknown="too few samples"
    )


def busy_cores(result: Result) -> float | None:
    """Busy cores of client, server and monitored hosts; None: those of an end are not known. Time
    that a hypervisor spends in its guests is left out: the guests count it. A machine that is
    several of these hosts counts once."""
    of_machines: dict[str, float] = {}
    has_end = False
    for load in result.hosts:
        is_end = load.role != "observer"
        if load.busy is None:
            if is_end:
                return None
            continue
        cores = load.busy.total if is_end else load.busy.total - load.busy.guest
        machine = machine_name(result, load)
        # in a container /proc/stat may have only its own part (lxcfs)
        of_machines[machine] = max(cores, of_machines.get(machine, 0.0))
        has_end = has_end or is_end
    return sum(of_machines.values()) if has_end else None


def machine_name(result: Result, load: HostLoad) -> str:
    """Name of the machine of a host; of the ends, older results have it in the path proof only."""
    is_end = load.role != "observer"
    if is_end and result.proof is not None and result.proof.one_machine:
        return result.plan.client.host
    return load.machine_of or load.host


def _transactions(result: Result) -> float | None:
    """Per second."""
    if result.transactions is None:
        return None
    return result.transactions.rate


def _duration(result: Result) -> float | None:
    return None if result.workload is None else result.workload.seconds


def _figure(result: Result) -> float | None:
    """That of the command."""
    figures = result.workload
    if figures is None or figures.figure is None:
        return None
    return figures.figure.value


def _storage_latency(result: Result) -> float | None:
    """Seconds that a request took on average, of the device or server with most bytes; None also if
    the kernel, which counts whole milliseconds of all requests together, has counted none."""
    figures = result.workload
    if figures is None or not figures.storage:
        return None
    busiest = max(
        figures.storage, key=lambda activity: activity.read_bytes + activity.written_bytes
    )
    count = busiest.reads + busiest.writes
    seconds = busiest.read_seconds + busiest.write_seconds
    return seconds / count if count and seconds > 0 else None


def cpu_per_gigabit(result: Result) -> float | None:
    """Cores of all hosts per Gb/s of both directions of the NIC; None: not known, or too little was
    carried for it."""
    busy, rate = busy_cores(result), result.goodput
    if busy is None or rate is None or rate < MIN_COST_GIGABITS * 1e9:
        return None
    if any(load.is_busy_by_others for load in result.hosts):
        return None
    return busy / (rate / 1e9)


def figure_text(value: float | None, unit: str) -> str:
    """A figure of a command, with its unit."""
    if value is None:
        return units.UNKNOWN
    texts = {"b/s": units.bits_per_second, "s": units.duration, "1/s": units.per_second}
    if unit in texts:
        return texts[unit](value)
    return f"{units.quantity(value, '')} {clean(unit)}".strip()


def _cost(value: float | None) -> str:
    if value is None:
        return units.UNKNOWN
    return f"{units.significant(value)} cores per Gb/s"


def _plain(value: float | None) -> str:
    return figure_text(value, "")


def _cores(value: float | None) -> str:
    if value is None:
        return units.UNKNOWN
    return f"{units.significant(value)} cores"


NO_COST_IN_A_RUN = (
    "not measured in every run: it was too short, carried less than "
    f"{units.bits_per_second(MIN_COST_GIGABITS * 1e9)}, or most CPU time was not by the test"
)
JUDGED_BY: dict[str, MeasureName] = {
    "duration": "duration",
    "rate": "rate",
    "cpu": "cpu per gigabit",
}
"""`RunPlan.judged_by` → the deciding figure, if it is not that of the command."""
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
        Measure("duration", "duration", units.duration, _duration, less_is_better=True),
        Measure("rate", "rate of the NIC", units.bits_per_second, lambda result: result.goodput),
        Measure("value", "figure of the command", _plain, _figure),
        Measure("smaller value", "figure of the command", _plain, _figure, less_is_better=True),
        Measure(
            "cpu per gigabit",
            "CPU per Gb/s",
            _cost,
            cpu_per_gigabit,
            less_is_better=True,
            why_unknown=NO_COST_IN_A_RUN,
        ),
        Measure(
            "storage",
            "storage latency",
            units.duration,
            _storage_latency,
            less_is_better=True,
            why_unknown="too few requests in a run",
        ),
    )
}


def measures_of(result: Result) -> tuple[Measure, ...]:
    """The figures of a run, the deciding one first."""
    if result.plan.is_of_one_host:
        return one_host_measures(result)
    if result.plan.test == "bulk":
        return (MEASURES["goodput"],)
    if result.plan.test == "loaded":
        return MEASURES["loaded p50"], MEASURES["loaded p99"], MEASURES["goodput"]
    return MEASURES["transactions"], MEASURES["p50"], MEASURES["p99"]


def one_host_measures(result: Result) -> tuple[Measure, ...]:
    """Of a workload, or of a measurement by hand, the deciding one first."""
    figure = result.workload.figure if result.workload is not None else None
    names = _names_by_test(result, figure)
    chosen = JUDGED_BY.get(result.plan.judged_by or "")
    if chosen is not None:
        names = [chosen, *(name for name in names if name != chosen)]
    if result.workload is not None and result.workload.storage:
        names.append("storage")
    measures = [MEASURES[name] for name in names]
    if figure is None:
        return tuple(measures)
    return tuple(_with_unit(measure, figure) for measure in measures)


def _names_by_test(result: Result, figure: CommandFigure | None) -> list[MeasureName]:
    """A command is judged by its own figure, if it has one or the user asked for one."""
    judged_by = result.plan.judged_by
    if figure is None and judged_by not in ("value", "smaller-value"):
        return _names_without_figure(result)
    if judged_by == "smaller-value" or (figure is not None and figure.less_is_better):
        return ["smaller value", "duration", "rate", "cpu per gigabit"]
    return ["value", "duration", "rate", "cpu per gigabit"]


def _names_without_figure(result: Result) -> list[MeasureName]:
    if result.plan.test != "manual":
        return ["duration", "rate", "cpu per gigabit"]
    has_nic = result.plan.client.ifindex is not None
    return ["rate", "cpu per gigabit"] if has_nic else ["cpu", "duration"]


def _with_unit(measure: Measure, figure: CommandFigure) -> Measure:
    if measure.name not in ("value", "smaller value"):
        return measure
    return measure.of_command(clean(figure.name), figure.unit)


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
