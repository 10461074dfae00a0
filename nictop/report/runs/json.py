"""JSON of ``nictop traffic``, ``nictop traffic --list`` and ``nictop compare``, and the JSON
schemas.

Reads nothing. The JSON is ASCII with escapes: no name can reach a terminal as a control sequence.
Infinite numbers, which JSON does not have, become the largest float.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nictop import __version__
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.report.json import json_schema, json_text
from nictop.report.runs.sentences import result_sentences
from nictop.traffic.analysis.comparison import Comparison
from nictop.traffic.experiment.steps import Experiment
from nictop.traffic.generators.latency import LatencySummary
from nictop.traffic.plan.validation import ExperimentKind
from nictop.traffic.results.caveats import caveat_of
from nictop.traffic.results.selection import ByValue, StoredRun, StoredRuns
from nictop.traffic.results.transactions import TransactionFigures


@dataclass(frozen=True)
class RunSentence:
    """A sentence about a run."""

    kind: str
    """failed, goodput, held back, path, …"""
    text: str


@dataclass(frozen=True)
class RunReport:
    """One run, with what follows from it."""

    goodput: float | None
    """Bits per second received, all directions together; null: not known."""
    of_ceiling: float | None
    """Goodput / ceiling of the path, 0 to 1, of all directions together; null: not known."""
    ranked: bool
    """It may be compared with other runs."""
    why_not_ranked: tuple[str, ...]
    sentences: tuple[RunSentence, ...]
    kept: StoredRun
    """The stored run."""
    transactions_per_second: float | None = None
    """null: not a test of requests and responses."""
    latency: LatencySummary | None = None
    """Seconds; null: not known, of a percentile too few samples."""
    connect: LatencySummary | None = None
    """Seconds, of connecting."""
    limited_by_generator: bool = False
    """The median latency is less than 1.2 times that of the generator alone."""
    idle_latency: LatencySummary | None = None
    """Seconds, of the idle phase of a loaded run; `latency` is that of its loaded phase, beside the
    bulk flow."""
    verified: bool = False
    """It ended normally, nothing happened to its NICs, and the counters of both show that they
    carried it."""
    caveat: str = ""
    """Otherwise: failed, stopped early, lost its link, NIC event (as `kept` tells), path not
    verified, path not checked."""


@dataclass(frozen=True)
class TrafficDocument:
    """What ``nictop traffic --format json`` prints."""

    nictop: str
    """Version of the program that wrote it."""
    kind: ExperimentKind
    label: str
    variable: str
    """Name of the parameter that was varied; "": none was."""
    ended_early: str
    """Why runs are missing; "": none is."""
    notes: tuple[str, ...]
    runs: tuple[RunReport, ...]
    """In order."""
    comparison: Comparison | None = None
    """Comparison of its two set-ups; null: it is not such an experiment."""


@dataclass(frozen=True)
class ComparedRuns:
    """One of two set-ups."""

    name: str
    runs: tuple[RunReport, ...]


@dataclass(frozen=True)
class ComparedValue:
    """One value of two sweeps."""

    value: str
    comparison: Comparison
    setups: tuple[ComparedRuns, ComparedRuns]
    """A and B; without runs: it has no such value."""


@dataclass(frozen=True)
class CompareDocument:
    """What ``nictop compare --format json`` prints."""

    nictop: str
    comparison: Comparison | None
    """null: of two sweeps, see `values`."""
    setups: tuple[ComparedRuns, ...]
    """A and B; empty: as above."""
    variable: str = ""
    """What two sweeps varied."""
    values: tuple[ComparedValue, ...] = ()
    """In their order."""


@dataclass(frozen=True)
class KeptFile:
    """One result that is kept."""

    file: str
    """Its path."""
    run: RunReport


@dataclass(frozen=True)
class UnreadableFile:
    """A file that is no result."""

    file: str
    sentence: str
    """Why."""


@dataclass(frozen=True)
class KeptDocument:
    """What ``nictop traffic --list --format json`` prints."""

    nictop: str
    runs: tuple[KeptFile, ...]
    """Newest first."""
    unreadable: tuple[UnreadableFile, ...] = ()
    left_out: int = 0
    """Older files that were not read."""


def run_report(kept: StoredRun) -> RunReport:
    """A stored run as a record of the schema."""
    result = kept.result
    report = RunReport(
        goodput=result.goodput,
        of_ceiling=result.of_ceiling,
        ranked=not result.why_not_ranked,
        why_not_ranked=result.why_not_ranked,
        sentences=tuple(RunSentence(kind, text) for kind, text in result_sentences(result)),
        kept=kept,
        verified=not caveat_of(result) and not result.plan.is_of_one_host,
        caveat=caveat_of(result),
    )
    if result.transactions is None:
        return report
    return _with_latencies(report, result.transactions)


def _with_latencies(report: RunReport, figures: TransactionFigures) -> RunReport:
    report = replace(
        report,
        transactions_per_second=figures.rate,
        latency=figures.latency.summary(),
        limited_by_generator=figures.limited_by_generator,
    )
    if figures.connect is not None:
        report = replace(report, connect=figures.connect.summary())
    if figures.idle is not None:
        report = replace(report, idle_latency=figures.idle.latency.summary())
    return report


def traffic_json(
    experiment: Experiment,
    kept: Sequence[StoredRun],
    *,
    ended_early: str = "",
    comparison: Comparison | None = None,
) -> str:
    """The result of an experiment, as indented ASCII JSON with a final newline."""
    return json_text(
        TrafficDocument(
            __version__,
            experiment.kind,
            experiment.label,
            experiment.variable,
            ended_early,
            experiment.notes,
            tuple(map(run_report, kept)),
            comparison,
        )
    )


def compare_json(comparison: Comparison, setups: Sequence[tuple[str, Sequence[StoredRun]]]) -> str:
    """Two set-ups and the verdict, as indented ASCII JSON with a final newline."""
    return json_text(CompareDocument(__version__, comparison, _compared_runs(setups)))


def compare_sweeps_json(
    variable: str, comparisons: Mapping[str, Comparison], by_value: ByValue
) -> str:
    """Two sweeps, as indented ASCII JSON with a final newline. `comparisons`: of each value."""
    values = []
    for value, setups in by_value.items():
        values.append(ComparedValue(value, comparisons[value], _compared_runs(setups)))
    return json_text(CompareDocument(__version__, None, (), variable, tuple(values)))


def _compared_runs(
    setups: Sequence[tuple[str, Sequence[StoredRun]]],
) -> tuple[ComparedRuns, ComparedRuns]:
    a, b = (ComparedRuns(name, tuple(map(run_report, runs))) for name, runs in setups)
    return a, b


def stored_runs_json(runs: StoredRuns) -> str:
    """The stored runs, as indented ASCII JSON with a final newline."""
    return json_text(
        KeptDocument(
            __version__,
            tuple(KeptFile(str(path), run_report(kept)) for path, kept in runs.results),
            tuple(UnreadableFile(str(path), sentence) for path, sentence in runs.unreadable),
            runs.left_out,
        )
    )


def traffic_schema() -> str:
    """JSON schema (draft 2020-12) of `TrafficDocument`, with a final newline."""
    return json_schema(TrafficDocument)


def compare_schema() -> str:
    """JSON schema of `CompareDocument`."""
    return json_schema(CompareDocument)


def stored_runs_schema() -> str:
    """JSON schema of `KeptDocument`."""
    return json_schema(KeptDocument)
