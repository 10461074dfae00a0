"""What stands in a report, whatever it is written as: hosts with their findings, runs by experiment, comparisons.

Reads nothing. `report_of` takes what hosts answered (live or from a recording) and runs that were kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nictop.hosts.observe import Answer, Unreachable
from nictop.model.text.terminal import clean
from nictop.report.facts.hosts import UnreachableHost
from nictop.report.runs.sentences import moment_words
from nictop.rules import Diagnosis, HostFacts, diagnose
from nictop.traffic.analysis.comparison import Comparison, compared
from nictop.traffic.results.selection import SetUp, StoredRun, set_ups

NO_INVENTORY_MESSAGE = "it had told nothing of its devices yet"


@dataclass(frozen=True, eq=False)
class ReportedExperiment:
    """Runs that belong together, in their order."""

    runs: tuple[StoredRun, ...]
    """(): of a comparison between experiments that stand by themselves."""
    names: tuple[str, str] = ("", "")
    """Of the two set-ups of a comparison."""
    comparison: Comparison | None = None
    """None: it is none."""


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that a page tells."""

    wall: float
    """Seconds since the epoch when it was made."""
    hosts: tuple[HostFacts, ...] = ()
    unreachable: tuple[UnreachableHost, ...] = ()
    diagnosis: Diagnosis = field(default_factory=lambda: Diagnosis((), ()))
    experiments: tuple[ReportedExperiment, ...] = ()
    hidden: tuple[str, ...] = ()
    """Sentences about what was hidden in it; () when nothing was."""


def report_of(
    answers: Sequence[Answer], runs: Sequence[StoredRun] = (), *, wall: float, hidden: Sequence[str] = ()
) -> Report:
    """Asks all rules about the hosts that answered, and puts runs of one experiment together."""
    hosts, unreachable = [], []
    for answer in answers:
        if isinstance(answer, Unreachable):
            unreachable.append(UnreachableHost(answer.host, answer.sentence))
        elif answer[0].inventory is None:
            unreachable.append(UnreachableHost(answer[0].host, NO_INVENTORY_MESSAGE))
        else:
            hosts.append(HostFacts(answer[0], answer[1].parts))
    return Report(wall, tuple(hosts), tuple(unreachable), diagnose(hosts), experiments_of(runs), tuple(hidden))


def experiments_of(runs: Sequence[StoredRun]) -> tuple[ReportedExperiment, ...]:
    """Each with its runs; then the comparison of two that are one set-up each, if these two are all there is."""
    told = group_by_experiment(runs)
    return (*map(experiment_of, told), *comparison_across_experiments([run for together in told for run in together]))


def group_by_experiment(runs: Sequence[StoredRun]) -> tuple[tuple[StoredRun, ...], ...]:
    """Experiments as they first come, each with its runs by number; a run that is named twice stands there once."""
    found: dict[str, dict[str, StoredRun]] = {}
    for one in runs:
        found.setdefault(one.experiment, {})[one.identity] = one
    return tuple(tuple(sorted(some.values(), key=lambda one: one.number)) for some in found.values())


def experiment_of(runs: Sequence[StoredRun]) -> ReportedExperiment:
    """With the comparison, where it is one of exactly two set-ups."""
    found = set_ups(runs) if runs[0].kind == "compare" else []
    return _compared(found, runs) if len(found) == 2 else ReportedExperiment(tuple(runs))


def comparison_across_experiments(runs: Sequence[StoredRun]) -> tuple[ReportedExperiment, ...]:
    """The comparison of two experiments that are one set-up each, as of two labels; () when it is not these two, or
    they cannot be compared and nobody has given them a label for that."""
    found = set_ups(runs)
    if len(found) != 2 or len({run.experiment for run in runs}) != 2:
        return ()
    made = _compared(found, ())
    refused = made.comparison is not None and made.comparison.verdict == "refused"
    return (made,) if any(run.label for run in runs) or not refused else ()


def _compared(found: Sequence[SetUp], runs: Sequence[StoredRun]) -> ReportedExperiment:
    (first, a), (second, b) = found
    return ReportedExperiment(tuple(runs), (first, second), compared(a, b, (first, second)))


def title_text(report: Report) -> str:
    """``vm1, vm2``: whom it is about; of many the first ones."""
    names = [host.name for host in report.hosts] + [host.host for host in report.unreachable]
    for experiment in report.experiments:
        for one in experiment.runs:
            names += (one.result.plan.client.host, one.result.plan.server.host)
    known = list(dict.fromkeys(clean(name)[:80] for name in names))
    more = f" and {len(known) - 4} more" if len(known) > 4 else ""
    return (", ".join(known[:4]) + more) or "nothing"


def made_at_text(report: Report) -> str:
    """``2026-11-21 08:01:40 UTC``"""
    return moment_words(report.wall)
