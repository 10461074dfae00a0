"""Content of a report, independent of its format: hosts with their findings, runs by experiment,
path tests.

Reads nothing. `report_of` takes the answers of hosts (live or from a recording) and stored runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from nictop.hosts.observe import Answer, Unreachable
from nictop.model.text.terminal import clean
from nictop.model.text.units import wall_time_text
from nictop.probe.light_dataclasses import dataclass, field
from nictop.report.facts.hosts import UnreachableHost
from nictop.rules import Diagnosis, HostFacts, diagnose
from nictop.traffic.analysis.comparison import Comparison, compare_stored_runs
from nictop.traffic.path.store import StoredPath
from nictop.traffic.results.selection import SetUp, StoredRun, set_ups
from nictop.traffic.results.store import WithoutResult

NO_INVENTORY_MESSAGE = "no inventory received yet"
MAX_TITLE_NAMES, MAX_NAME_CHARS = 4, 80
"""In the title."""


@dataclass(frozen=True, eq=False)
class ReportedExperiment:
    """The runs of one experiment, by number."""

    runs: tuple[StoredRun, ...]
    """(): a comparison of two experiments whose runs are reported separately."""
    names: tuple[str, str] = ("", "")
    """Of the two compared set-ups, A and B."""
    comparison: Comparison | None = None
    """None: the experiment does not compare two set-ups."""


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that a report contains."""

    wall: float
    """When it was made, seconds since the epoch."""
    hosts: tuple[HostFacts, ...] = ()
    unreachable: tuple[UnreachableHost, ...] = ()
    diagnosis: Diagnosis = field(default_factory=lambda: Diagnosis((), ()))
    experiments: tuple[ReportedExperiment, ...] = ()
    path_tests: tuple[StoredPath, ...] = ()
    without_result: tuple[WithoutResult, ...] = ()
    """Sentences about tests in a recording that have no result, and why."""
    hidden: tuple[str, ...] = ()
    """What was replaced by aliases, in sentences; (): the report is not redacted."""


def report_of(
    answers: Sequence[Answer],
    runs: Sequence[StoredRun] = (),
    path_tests: Sequence[StoredPath] = (),
    *,
    wall: float,
    without_result: Sequence[WithoutResult] = (),
    hidden: Sequence[str] = (),
) -> Report:
    """Evaluate all rules for the hosts that answered, and group the runs by experiment."""
    hosts, unreachable = [], []
    for answer in answers:
        if isinstance(answer, Unreachable):
            unreachable.append(UnreachableHost(answer.host, answer.sentence))
            continue
        snapshot, window = answer
        if snapshot.inventory is None:
            unreachable.append(UnreachableHost(snapshot.host, NO_INVENTORY_MESSAGE))
        else:
            hosts.append(HostFacts(snapshot, window.parts))
    return Report(
        wall,
        tuple(hosts),
        tuple(unreachable),
        diagnose(hosts),
        experiments_of(runs),
        tuple({path.identity: path for path in path_tests}.values()),
        tuple(without_result),
        tuple(hidden),
    )


def experiments_of(runs: Sequence[StoredRun]) -> tuple[ReportedExperiment, ...]:
    """Each experiment with its runs; then a comparison, if they are exactly two experiments of one
    set-up each."""
    experiments = group_by_experiment(runs)
    all_runs = list(chain.from_iterable(experiments))
    return (*map(experiment_of, experiments), *comparison_across_experiments(all_runs))


def group_by_experiment(runs: Sequence[StoredRun]) -> tuple[tuple[StoredRun, ...], ...]:
    """The runs of each experiment, by number, each once; experiments in the order of their first
    run."""
    by_experiment: dict[str, dict[str, StoredRun]] = {}
    for run in runs:
        by_experiment.setdefault(run.experiment, {})[run.identity] = run
    return tuple(map(_by_number, by_experiment.values()))


def _by_number(runs: Mapping[str, StoredRun]) -> tuple[StoredRun, ...]:
    return tuple(sorted(runs.values(), key=lambda run: run.number))


def experiment_of(runs: Sequence[StoredRun]) -> ReportedExperiment:
    """One experiment; with a comparison if it has exactly two set-ups to compare."""
    if runs[0].kind == "compare":
        found = set_ups(runs)
        if len(found) == 2:
            return _compared(found, runs)
    return ReportedExperiment(tuple(runs))


def comparison_across_experiments(runs: Sequence[StoredRun]) -> tuple[ReportedExperiment, ...]:
    """The comparison of two experiments of one set-up each. (): there are not exactly two, or they
    cannot be compared and neither has a label."""
    compared = set_ups(runs)
    experiments = {run.experiment for run in runs}
    if len(compared) != 2 or len(experiments) != 2:
        return ()
    pair = _compared(compared, ())
    is_refused = pair.comparison is not None and pair.comparison.verdict == "refused"
    has_label = any(run.label for run in runs)
    if is_refused and not has_label:
        return ()
    return (pair,)


def _compared(found: Sequence[SetUp], runs: Sequence[StoredRun]) -> ReportedExperiment:
    (first, a), (second, b) = found
    return ReportedExperiment(
        tuple(runs), (first, second), compare_stored_runs(a, b, (first, second))
    )


def title_text(report: Report) -> str:
    """``vm1, vm2``: the hosts in it, at most four, then ``and 3 more``."""
    names = list(dict.fromkeys(clean(name)[:MAX_NAME_CHARS] for name in _host_names(report)))
    if not names:
        return "no hosts"
    shown = ", ".join(names[:MAX_TITLE_NAMES])
    further = len(names) - MAX_TITLE_NAMES
    return f"{shown} and {further} more" if further > 0 else shown


def _host_names(report: Report) -> Iterator[str]:
    """Of all hosts that the report is about."""
    yield from (host.name for host in report.hosts)
    yield from (host.host for host in report.unreachable)
    for experiment in report.experiments:
        for run in experiment.runs:
            yield run.result.plan.client.host
            yield run.result.plan.server.host
    for path in report.path_tests:
        yield from (direction.sender.host for direction in path.test.result.directions)


def made_at_text(report: Report) -> str:
    """``2026-11-21 08:01:40 UTC``"""
    return wall_time_text(report.wall)
