"""Content of a report, independent of its format: hosts with their findings, runs by experiment, path tests.

Reads nothing. `report_of` takes the answers of hosts (live or from a recording) and stored runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nictop.hosts.observe import Answer, Unreachable
from nictop.model.text.terminal import clean
from nictop.model.text.units import wall_time_text
from nictop.report.facts.hosts import UnreachableHost
from nictop.rules import Diagnosis, HostFacts, diagnose
from nictop.traffic.analysis.comparison import Comparison, compare_stored_runs
from nictop.traffic.path.store import StoredPath
from nictop.traffic.results.selection import SetUp, StoredRun, set_ups

NO_INVENTORY_MESSAGE = "no inventory received yet"


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
    without_result: tuple[str, ...] = ()
    """Sentences about tests in a recording that have no result, and why."""
    hidden: tuple[str, ...] = ()
    """What was replaced by aliases, in sentences; (): the report is not redacted."""


def report_of(
    answers: Sequence[Answer],
    runs: Sequence[StoredRun] = (),
    path_tests: Sequence[StoredPath] = (),
    *,
    wall: float,
    without_result: Sequence[str] = (),
    hidden: Sequence[str] = (),
) -> Report:
    """Evaluate all rules for the hosts that answered, and group the runs by experiment."""
    hosts, unreachable = [], []
    for answer in answers:
        if isinstance(answer, Unreachable):
            unreachable.append(UnreachableHost(answer.host, answer.sentence))
        elif answer[0].inventory is None:
            unreachable.append(UnreachableHost(answer[0].host, NO_INVENTORY_MESSAGE))
        else:
            hosts.append(HostFacts(answer[0], answer[1].parts))
    return Report(
        wall,
        tuple(hosts),
        tuple(unreachable),
        diagnose(hosts),
        experiments_of(runs),
        tuple({one.identity: one for one in path_tests}.values()),
        tuple(without_result),
        tuple(hidden),
    )


def experiments_of(runs: Sequence[StoredRun]) -> tuple[ReportedExperiment, ...]:
    """Each experiment with its runs; then a comparison, if they are exactly two experiments of one set-up each."""
    experiments = group_by_experiment(runs)
    return (
        *map(experiment_of, experiments),
        *comparison_across_experiments([run for group in experiments for run in group]),
    )


def group_by_experiment(runs: Sequence[StoredRun]) -> tuple[tuple[StoredRun, ...], ...]:
    """The runs of each experiment, by number, each once; experiments in the order of their first run."""
    found: dict[str, dict[str, StoredRun]] = {}
    for run in runs:
        found.setdefault(run.experiment, {})[run.identity] = run
    return tuple(tuple(sorted(group.values(), key=lambda run: run.number)) for group in found.values())


def experiment_of(runs: Sequence[StoredRun]) -> ReportedExperiment:
    """One experiment; with a comparison if it has exactly two set-ups to compare."""
    found = set_ups(runs) if runs[0].kind == "compare" else []
    return _compared(found, runs) if len(found) == 2 else ReportedExperiment(tuple(runs))


def comparison_across_experiments(runs: Sequence[StoredRun]) -> tuple[ReportedExperiment, ...]:
    """The comparison of two experiments of one set-up each. (): there are not exactly two, or they cannot be compared
    and neither has a label."""
    found = set_ups(runs)
    if len(found) != 2 or len({run.experiment for run in runs}) != 2:
        return ()
    compared_pair = _compared(found, ())
    refused = compared_pair.comparison is not None and compared_pair.comparison.verdict == "refused"
    return (compared_pair,) if any(run.label for run in runs) or not refused else ()


def _compared(found: Sequence[SetUp], runs: Sequence[StoredRun]) -> ReportedExperiment:
    (first, a), (second, b) = found
    return ReportedExperiment(tuple(runs), (first, second), compare_stored_runs(a, b, (first, second)))


def title_text(report: Report) -> str:
    """``vm1, vm2``: the hosts in it, at most four, then ``and 3 more``."""
    names = [host.name for host in report.hosts] + [host.host for host in report.unreachable]
    for experiment in report.experiments:
        for one in experiment.runs:
            names += (one.result.plan.client.host, one.result.plan.server.host)
    for path in report.path_tests:
        names += (direction.sender.host for direction in path.test.result.directions)
    known = list(dict.fromkeys(clean(name)[:80] for name in names))
    more = f" and {len(known) - 4} more" if len(known) > 4 else ""
    return (", ".join(known[:4]) + more) or "no hosts"


def made_at_text(report: Report) -> str:
    """``2026-11-21 08:01:40 UTC``"""
    return wall_time_text(report.wall)
