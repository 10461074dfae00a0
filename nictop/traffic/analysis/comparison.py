"""Comparison of set-up A with set-up B: medians, spread, confidence interval, and a verdict or why there is none.

Reads nothing. Runs alternate (A B B A …), so that drift affects both alike; the n-th run of A and the n-th of B are a
pair. The interval is Student's, of the logarithms of the pair ratios: exact if those are normal, and valid for few
pairs, where a bootstrap is too narrow (it has no values outside of the measured ones).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean, median, stdev
from typing import Literal

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.traffic.plan.variables import VARIABLES
from nictop.traffic.results.caveats import caveat_of_runs, with_caveat
from nictop.traffic.results.measures import MEASURES, Measure, MeasureName, equal_load_measures, measures_of
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun, set_ups

MIN_PAIRS = 3
"""Without that many pairs there is no verdict; five or more are better."""
SAME_TOLERANCE = 0.02
"""A ratio that close to 1 makes no practical difference."""
WIDE_INTERVAL = 0.5
"""With a wider confidence interval, the runs scatter too much."""

MUST_AGREE = (
    "generator", "client iperf3", "server iperf3", "protocol", "direction", "streams", "length", "mss", "window",
    "congestion control", "zerocopy", "bitrate", "time", "mtu", "ip version", "dscp", "request size", "response size",
    "files", "request rate",
)  # fmt: skip
"""Facts of a run that must not differ, as they would be compared instead of the set-up."""

_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""0.975 quantile of Student's t by degrees of freedom, from 1; beyond 30 the last one is used, which is slightly too
large."""

ComparisonVerdict = Literal["better", "worse", "same", "not settled", "refused"]
VERDICT_LABELS: dict[ComparisonVerdict, str] = {
    "better": "Better",
    "worse": "Worse",
    "same": "No difference",
    "not settled": "Inconclusive",
    "refused": "Not ranked",
}
"""The word that a verdict begins with."""
NO_RUN = "no completed run"


@dataclass(frozen=True)
class Spread:
    """One figure of several runs."""

    values: tuple[float, ...]
    median: float
    lowest: float
    highest: float

    @property
    def geometric_mean(self) -> float | None:
        """The geometric mean: that of B divided by that of A is `Ratio.estimate`. None: a value is 0."""
        if min(self.values) <= 0:
            return None
        return _exp(mean(math.log(value) for value in self.values))


@dataclass(frozen=True)
class Ratio:
    """B divided by A."""

    estimate: float
    """Geometric mean of the ratios of the pairs, equal to the ratio of the geometric means."""
    low: float
    high: float
    """95 % confidence interval."""


@dataclass(frozen=True)
class Cost:
    """CPU cost of one role: cores per Gb/s, or seconds of CPU time per transaction."""

    role: str
    a: Spread | None
    b: Spread | None
    ratio: Ratio | None
    per: Literal["Gb/s", "transaction"] = "Gb/s"


@dataclass(frozen=True)
class ComparedFigure:
    """One figure of both set-ups."""

    name: MeasureName
    a: Spread | None
    b: Spread | None
    """Bits per second, transactions per second, or seconds."""
    ratio: Ratio | None
    verdict: ComparisonVerdict
    """refused: without a ratio."""
    absent: tuple[str, str] = ("", "")
    """Why A and B have no value: `absent_text`."""

    @property
    def measure(self) -> Measure:
        return MEASURES[self.name]


@dataclass(frozen=True)
class Comparison:
    """Comparison of A with B."""

    verdict: ComparisonVerdict
    sentence: str
    goodput_a: Spread | None = None
    goodput_b: Spread | None = None
    """Bits per second."""
    ratio: Ratio | None = None
    costs: tuple[Cost, ...] = ()
    refusals: tuple[str, ...] = ()
    """Why there is no verdict."""
    differences: tuple[tuple[str, str, str], ...] = ()
    """(fact, value in A, value in B) of all differing facts, allowed or not."""
    figures: tuple[ComparedFigure, ...] = ()
    """The deciding one first, whose ratio is `ratio`."""
    equal_load: float | None = None
    """Bits per second or requests per second that all runs were to reach: compared by CPU, and by latency of rr. None:
    compared by what they reached."""
    caveats: tuple[str, str] = ("", "")
    """What the figures of A and of B lack: ``path not verified``; "": nothing."""

    @property
    def known_text(self) -> str:
        """``A 5.00 Gb/s ▲ path not verified, B 8.00 Gb/s: B/A 1.60``, also without a verdict; "": nothing is known."""
        return medians_text(self.figures[0], self.caveats)


def alternating_order(repeats: int) -> tuple[Literal["A", "B"], ...]:
    """A B B A A B B A …, `repeats` of each."""
    names: list[Literal["A", "B"]] = []
    for number in range(repeats):
        names += ("A", "B") if number % 2 == 0 else ("B", "A")
    return tuple(names)


def compare(
    a: Sequence[Result], b: Sequence[Result], *, names: tuple[str, str] = ("A", "B"), compared: Sequence[str] = ()
) -> Comparison:
    """Compare the runs of two set-ups. `compared`: facts of `MUST_AGREE` that may differ (``mss`` in a comparison of
    two MSS)."""
    differences = _differences(a, b)
    refusals = (*_count_refusals(a, b, names), *_run_refusals(a, names[0]), *_run_refusals(b, names[1]))
    refusals += _repeat_refusals(a, b, names)
    refusals += tuple(
        f"{what} differs: {clean(one)} and {clean(other)}"
        for what, one, other in differences
        if what in MUST_AGREE and what not in compared
    )
    if len(a) != len(b):
        refusals += (f"unequal number of runs: {len(a)} of {names[0]}, {len(b)} of {names[1]}",)
    load = equal_load((*a, *b))
    figures = _figures(a, b, equal=load is not None)
    if load is not None:
        refusals += (*_load_refusals(a, names[0]), *_load_refusals(b, names[1]))
    if len({run.plan.test for run in (*a, *b)}) > 1:
        refusals += (f"different tests: {', '.join(dict.fromkeys(run.plan.test for run in (*a, *b)))}",)
    first, caveats = figures[0], (caveat_of_runs(a), caveat_of_runs(b))
    goodputs = next(((one.a, one.b) for one in figures if one.name == "goodput"), (None, None))
    if first.ratio is None and not refusals:
        refusals = (f"a run has {first.measure.title} 0",)
    if first.ratio is None or refusals:
        figures = tuple(replace(one, ratio=None, verdict="refused") for one in figures)
        known = medians_text(figures[0], caveats)
        sentence = f"{f'{known}. ' if known else ''}{VERDICT_LABELS['refused']}: {'; '.join(refusals)}"
        return Comparison("refused", sentence, *goodputs, None, (), refusals, differences, figures, load, caveats)
    verdict = first.verdict if load is None else _equal_load_verdict(figures)
    sentence = _sentence(figures, names, verdict, _load_words(a[0], load) if load is not None else "")
    return Comparison(verdict, sentence, *goodputs, first.ratio, _costs(a, b), (), differences, figures, load, caveats)


def equal_load(runs: Sequence[Result]) -> float | None:
    """The load that all these runs were to reach; None: they were not, or different ones."""
    found = {run.plan.requested_load for run in runs}
    return found.pop() if len(found) == 1 else None


def _load_refusals(runs: Sequence[Result], name: str) -> tuple[str, ...]:
    """Runs that did not reach the requested load: their CPU cost is that of another load."""
    return tuple(
        f"{clean(name)} {number}: requested load not reached: "
        f"{_load_words(run, run.load)} of {_load_words(run, run.plan.requested_load)}"
        for number, run in enumerate(runs, 1)
        if run.failure is None and not run.reached_load
    )


def _load_words(run: Result, load: float | None) -> str:
    return units.bits_per_second(load) if run.plan.has_bulk else units.per_second(load)


def _equal_load_verdict(figures: Sequence[ComparedFigure]) -> ComparisonVerdict:
    """By CPU; latencies of rr must not contradict it, and decide if it does not differ."""
    cpu, *others = (one.verdict for one in figures if one.measure.less_is_better)
    if cpu not in ("better", "worse", "same"):
        return cpu
    clear = {cpu, *others} & {"better", "worse"}
    if len(clear) > 1:
        return "not settled"
    return clear.pop() if clear else cpu


def _figures(a: Sequence[Result], b: Sequence[Result], *, equal: bool = False) -> tuple[ComparedFigure, ...]:
    """`equal`: at equal load."""
    found = []
    measures = equal_load_measures if equal else measures_of
    for measure in measures(next(iter((*a, *b)))) if a or b else (MEASURES["goodput"],):
        values = tuple([value for run in runs if (value := measure.value(run)) is not None] for runs in (a, b))
        ratio = pair_ratio(*values)
        verdict: ComparisonVerdict = "refused" if ratio is None else _verdict(ratio, less=measure.less_is_better)
        absent = absent_text(a, measure), absent_text(b, measure)
        found.append(ComparedFigure(measure.name, spread(values[0]), spread(values[1]), ratio, verdict, absent))
    return tuple(found)


def absent_text(runs: Sequence[Result], measure: Measure) -> str:
    """``no completed run``, or of a test that has other figures ``no goodput (rr: 12.3 k/s)``: said of a set-up
    without this figure."""
    completed = [run for run in runs if run.failure is None]
    if not completed:
        return NO_RUN
    test = completed[0].plan.test
    own = measures_of(completed[0])[0]
    found = spread([value for run in completed if (value := own.value(run)) is not None])
    if own.name == measure.name or found is None:
        return f"no {measure.title} measured"
    return f"no {measure.title} ({test}: {own.text(found.median)})"


def spread(values: Sequence[float]) -> Spread | None:
    """None if there are no values."""
    return Spread(tuple(values), median(values), min(values), max(values)) if values else None


def medians_text(figure: ComparedFigure, caveats: tuple[str, str] = ("", "")) -> str:
    """``A 5.00 Gb/s, B 8.00 Gb/s: B/A 1.60 (+60 %)``: what is known without a verdict; "": nothing is. `caveats`: what
    the figures of A and B lack."""
    a, b = figure.a, figure.b
    if a is None and b is None:
        return ""
    texts = []
    both = zip("AB", (a, b), caveats, figure.absent, strict=True)
    for name, one, caveat, absent in both:
        value = with_caveat(figure.measure.text(one.median), caveat) if one is not None else absent
        texts.append(f"{name} {value}")
    each = ", ".join(texts)
    if a is None or b is None or not 0 < a.median < math.inf:
        return each
    of_several = " (medians)" if len(a.values) > 1 or len(b.values) > 1 else ""
    ratio = b.median / a.median
    return f"{each}{of_several}: B/A {ratio:.2f} ({percent_text(ratio)})"


def pair_ratio(a: Sequence[float], b: Sequence[float]) -> Ratio | None:
    """B divided by A, of at least two pairs of positive numbers; None otherwise."""
    if len(a) != len(b) or len(a) < 2 or not all(0 < value < math.inf for value in (*a, *b)):
        return None
    logarithms = [math.log(two) - math.log(one) for one, two in zip(a, b, strict=True)]
    centre = mean(logarithms)
    freedom = min(len(logarithms) - 1, len(_STUDENT))
    half_width = _STUDENT[freedom - 1] * stdev(logarithms) / math.sqrt(len(logarithms))
    return Ratio(_exp(centre), _exp(centre - half_width), _exp(centre + half_width))


def _exp(exponent: float) -> float:
    """e to that power; infinite if it is too large for a float."""
    return math.exp(exponent) if exponent < 700 else math.inf


def _verdict(ratio: Ratio, *, less: bool = False) -> ComparisonVerdict:
    """`less`: less is better."""
    if ratio.low > 1 and ratio.high > 1 + SAME_TOLERANCE:
        return "worse" if less else "better"
    if ratio.high < 1 and ratio.low < 1 - SAME_TOLERANCE:
        return "better" if less else "worse"
    return "same" if ratio.low >= 1 - SAME_TOLERANCE and ratio.high <= 1 + SAME_TOLERANCE else "not settled"


def _sentence(figures: Sequence[ComparedFigure], names: tuple[str, str], verdict: ComparisonVerdict, load: str) -> str:
    """`load`: at which both were compared, if that is equal, else ""."""
    first, *others = figures
    ratio = first.ratio
    assert ratio is not None
    a, b = map(clean, names)
    interval = f"{percent_text(ratio.estimate)}, 95 % CI {ratio.low:.2f}–{ratio.high:.2f}"
    of = "of " if first.name == "goodput" else f"the {first.measure.title} of "
    at = f" at {load}" if load else ""
    text = f"{VERDICT_LABELS[verdict]}: {b} = {ratio.estimate:.2f}× {of}{a}{at} ({interval})"
    text += "".join(f"; {one.measure.title} {_ratio_words(one)}" for one in others)
    if verdict != "not settled":
        return text
    if first.verdict != "not settled":
        return f"{text}. The figures disagree."
    is_wide = ratio.high - ratio.low > WIDE_INTERVAL
    return f"{text}. {'High variance: add runs, check for other load.' if is_wide else 'Add runs.'}"


def _ratio_words(figure: ComparedFigure) -> str:
    """``0.77× (0.75–0.79, better)``"""
    if figure.ratio is None:
        return "unknown (too few samples)"
    found = VERDICT_LABELS[figure.verdict].lower()
    return f"{figure.ratio.estimate:.2f}× ({figure.ratio.low:.2f}–{figure.ratio.high:.2f}, {found})"


def percent_text(ratio: float) -> str:
    """``+22 %`` of 1.22"""
    return f"{100 * (ratio - 1):+.0f} %"


def _count_refusals(a: Sequence[Result], b: Sequence[Result], names: tuple[str, str]) -> tuple[str, ...]:
    if len(a) == len(b) == 1:
        return ("one run each: spread unknown; repeat with --repeat 5",)
    few = [
        f"{clean(name)} has {count_noun(len(runs), 'run')}"
        for runs, name in ((a, names[0]), (b, names[1]))
        if len(runs) < MIN_PAIRS
    ]
    return (f"{', '.join(few)}, {MIN_PAIRS} needed: repeat with --repeat 5",) if few else ()


def _run_refusals(runs: Sequence[Result], name: str) -> tuple[str, ...]:
    found: list[str] = []
    for number, run in enumerate(runs, 1):
        found += (f"{clean(name)} {number}: {reason}" for reason in run.why_not_ranked)
    return tuple(dict.fromkeys(found))


def _repeat_refusals(a: Sequence[Result], b: Sequence[Result], names: tuple[str, str]) -> tuple[str, ...]:
    """Runs of one set-up must not differ in facts of `MUST_AGREE`."""
    found = []
    for runs, name in ((a, names[0]), (b, names[1])):
        for what in MUST_AGREE:
            values = {run.facts.get(what, "") for run in runs if run.failure is None}
            if len(values) > 1:
                found.append(f"{what} differs between the runs of {clean(name)}")
    return tuple(found)


def _differences(a: Sequence[Result], b: Sequence[Result]) -> tuple[tuple[str, str, str], ...]:
    if not a or not b:
        return ()
    names = dict.fromkeys((*a[0].facts, *b[0].facts))
    pairs = ((name, a[0].facts.get(name, "–"), b[0].facts.get(name, "–")) for name in names)
    return tuple((name, clean(one), clean(other)) for name, one, other in pairs if one != other)


def _costs(a: Sequence[Result], b: Sequence[Result]) -> tuple[Cost, ...]:
    per: Literal["Gb/s", "transaction"] = "Gb/s" if a[0].plan.has_bulk else "transaction"
    found = []
    for role in ("client", "server", "observer"):
        one, other = _costs_of(a, role, per), _costs_of(b, role, per)
        if one or other:
            found.append(Cost(role, spread(one), spread(other), pair_ratio(one, other), per))
    return tuple(found)


def _costs_of(runs: Sequence[Result], role: str, per: Literal["Gb/s", "transaction"]) -> list[float]:
    """Sum of all hosts in that role, for each run in which it is known."""
    found = []
    for run in runs:
        each = [load.per_gigabit if per == "Gb/s" else load.per_transaction for load in run.hosts if load.role == role]
        known = [cost for cost in each if cost is not None]
        if known:
            found.append(sum(known))
    return found


def cost_text(cost: Cost) -> str:
    """``server 0.31 → 0.12 core per Gb/s``, ``server 31.0 µs → 12.0 µs CPU per transaction``"""
    unit, text = ("core per Gb/s", units.significant) if cost.per == "Gb/s" else ("CPU per transaction", units.duration)
    before = text(cost.a.median) if cost.a is not None else units.UNKNOWN
    after = text(cost.b.median) if cost.b is not None else units.UNKNOWN
    return f"{cost.role} {before} → {after} {unit}"


def comparison_of(runs: Sequence[StoredRun]) -> tuple[Comparison | None, tuple[str, str]]:
    """The comparison of an experiment of kind "compare", and the names of its set-ups; None for other experiments, or
    if one set-up has no run yet."""
    found = set_ups(runs) if runs and runs[0].kind == "compare" else ()
    if len(found) != 2:
        return None, ("A", "B")
    (name_a, a), (name_b, b) = found
    return compare_stored_runs(a, b, (name_a, name_b)), (name_a, name_b)


def compare_stored_runs(a: Sequence[StoredRun], b: Sequence[StoredRun], names: tuple[str, str]) -> Comparison:
    """Set-up A against B; what was varied by the experiment may differ."""
    variables = {one.variable for one in (*a, *b)} & VARIABLES.keys()
    varied_facts = [fact for name in sorted(variables) for fact in VARIABLES[name].facts]
    return compare([one.result for one in a], [one.result for one in b], names=names, compared=varied_facts)
