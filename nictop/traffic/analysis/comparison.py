"""Comparison of set-up A with set-up B: medians, spread, confidence interval, and a verdict or why
there is none.

Reads nothing. Runs alternate (A B B A …), so that drift affects both alike; the n-th run of A and
the n-th of B are a pair. The interval is Student's, of the logarithms of the pair ratios: exact if
those are normal, and valid for few pairs, where a bootstrap is too narrow (it has no values outside
of the measured ones).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import mean, median, stdev
from typing import Literal

from nictop.model.rates.links import sum_known
from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.traffic.plan.variables import VARIABLES
from nictop.traffic.results.caveats import caveat_of_runs, with_caveat
from nictop.traffic.results.measures import (
    MEASURES,
    Measure,
    MeasureName,
    equal_load_measures,
    measures_of,
)
from nictop.traffic.results.result import NOT_DETERMINED, Result, is_same_time, other_nic_text
from nictop.traffic.results.selection import StoredRun, set_ups
from nictop.traffic.results.workload import CommandFigure

MIN_PAIRS = 3
"""Without that many pairs there is no verdict; five or more are better."""
SAME_TOLERANCE = 0.02
"""A ratio that close to 1 makes no practical difference."""
WIDE_INTERVAL = 0.5
"""With a wider confidence interval, the runs scatter too much."""

MUST_AGREE = (
    "generator", "client iperf3", "server iperf3", "protocol", "direction", "streams", "length",
    "mss", "window", "congestion control", "zerocopy", "bitrate", "time", "mtu", "ip version",
    "dscp", "request size", "response size",
    "files", "request rate", "test", "command", "value",
)  # fmt: skip
"""Facts of a run that must not differ, as they would be compared instead of the set-up."""

FACT_NAMES = {"time": "planned duration of the test", "length": "block size"}
"""Facts whose name says little beside other figures."""
MAX_FACT_DIGITS = 18


def _bytes_text(value: int) -> str:
    return f"{value} B"


FACT_UNITS: dict[str, Callable[[int], str]] = {
    "time": lambda value: f"{value} s",
    "bitrate": units.bits_per_second,
    "request rate": lambda value: f"{value}/s",
    "affinity": lambda value: f"CPU {value}",
    **dict.fromkeys(("length", "mss", "window", "request size", "response size"), _bytes_text),
}
"""Fact, without its side → text of a value with its unit."""

_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""0.975 quantile of Student's t by degrees of freedom, from 1; beyond 30 the last one is used,
which is slightly too large."""

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
        """The geometric mean: that of B divided by that of A is `Ratio.estimate`. None: a value is
        0."""
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
    title: str = ""
    """Of the figure of a command; "": that of `measure`."""
    unit: str = ""
    """Of the figure of a command."""

    @property
    def measure(self) -> Measure:
        measure = MEASURES[self.name]
        return measure.of_command(self.title, self.unit) if self.title else measure


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
    """Bits per second or requests per second that all runs were to reach: compared by CPU, and by
    latency of rr. None: compared by what they reached."""
    caveats: tuple[str, str] = ("", "")
    """What the figures of A and of B lack: ``path not verified``; "": nothing."""
    held_back: tuple[str, str] = ("", "")
    """What the results of A and of B name as the limit: ``tbf of lab0``; "": they examined none."""

    @property
    def difference_texts(self) -> tuple[tuple[str, str, str], ...]:
        """`differences` for the user: what differs by its name, values with their unit; and what
        held the runs back, if that is not the same."""
        texts = [
            (fact_name(what), *fact_texts(what, of_a, of_b))
            for what, of_a, of_b in self.differences
        ]
        of_a, of_b = self.held_back
        if of_a != of_b:
            texts.append(("held back by", of_a or units.UNKNOWN, of_b or units.UNKNOWN))
        return tuple(texts)

    @property
    def known_text(self) -> str:
        """``A 5.00 Gb/s ▲ path not verified, B 8.00 Gb/s: B/A 1.60``, also without a verdict; "":
        nothing is known."""
        return medians_text(self.figures[0], self.caveats)


def alternating_order(repeats: int) -> tuple[Literal["A", "B"], ...]:
    """A B B A A B B A …, `repeats` of each."""
    names: list[Literal["A", "B"]] = []
    for number in range(repeats):
        is_even = number % 2 == 0
        names += ("A", "B") if is_even else ("B", "A")
    return tuple(names)


def compare(
    a: Sequence[Result],
    b: Sequence[Result],
    *,
    names: tuple[str, str] = ("A", "B"),
    compared: Sequence[str] = (),
) -> Comparison:
    """Compare the runs of two set-ups. `compared`: facts of `MUST_AGREE` that may differ (``mss``
    in a comparison of two MSS)."""
    differences, load = _differences(a, b), equal_load((*a, *b))
    figures = _figures(a, b, equal=load is not None)
    refusals = (
        *_count_refusals(a, b, names),
        *_run_refusals(a, names[0]),
        *_run_refusals(b, names[1]),
        *_repeat_refusals(a, b, names),
        *_differing_refusals(differences, compared, a, b),
        *_unequal_refusals(a, b, names, load),
        *_unit_refusals((*a, *b)),
        *_nic_refusals(a, b, names, differences),
    )
    first, caveats = figures[0], (caveat_of_runs(a), caveat_of_runs(b))
    held_back = held_back_text(a), held_back_text(b)
    if first.ratio is None and not refusals:
        refusals = tuple(_value_refusals(a, b, names, first.measure))
    goodputs = _goodputs(figures)
    if refusals:
        figures = tuple(replace(figure, ratio=None, verdict="refused") for figure in figures)
        sentence = f"{VERDICT_LABELS['refused']}: {'; '.join(refusals)}"
        known = medians_text(figures[0], caveats)
        if known:
            sentence = f"{known}. {sentence}"
        return Comparison(
            "refused",
            sentence,
            *goodputs,
            None,
            (),
            refusals,
            differences,
            figures,
            load,
            caveats,
            held_back,
        )
    verdict, at_load = first.verdict, ""
    if load is not None:
        verdict, at_load = _equal_load_verdict(figures), _load_words(a[0], load)
    return Comparison(
        verdict,
        _sentence(figures, names, verdict, at_load),
        *goodputs,
        first.ratio,
        _costs(a, b),
        (),
        differences,
        figures,
        load,
        caveats,
        held_back,
    )


def held_back_text(runs: Iterable[Result]) -> str:
    """The limits that the runs name, each once: ``CPU 2 on vm2``, ``not determined``; "": they
    examined none."""
    found = []
    for run in runs:
        causes = [limit.limit for limit in run.limits if limit.verdict == "cause"]
        if run.limits:
            found.append(clean(causes[0]) if causes else NOT_DETERMINED)
    return ", ".join(dict.fromkeys(found))


def _differing_refusals(
    differences: Iterable[tuple[str, str, str]],
    compared: Sequence[str],
    a: Sequence[Result],
    b: Sequence[Result],
) -> Iterator[str]:
    """Facts that must agree and do not. `compared`: those that may differ."""
    for what, of_a, of_b in differences:
        if what in MUST_AGREE and what not in compared:
            text_a, text_b = fact_texts(what, of_a, of_b)
            measured = _measured_seconds_text(a, b) if what == "time" else ""
            yield f"{fact_name(what)} differs: {text_a} and {text_b}{measured}"


def _measured_seconds_text(a: Sequence[Result], b: Sequence[Result]) -> str:
    """`` (measured: 17.3 s and 5.00 s)``, medians; "": all lasted as planned."""
    if all(is_same_time(run.measured_seconds, run.plan.span) for run in (*a, *b)):
        return ""
    of_a, of_b = (median(run.measured_seconds for run in runs) for runs in (a, b))
    return f" (measured: {units.duration(of_a)} and {units.duration(of_b)})"


def fact_name(what: str) -> str:
    return FACT_NAMES.get(what, what)


def fact_texts(what: str, of_a: str, of_b: str) -> tuple[str, str]:
    """Values of a fact of two set-ups with their unit; numbers that are alike in three digits as
    they are."""
    as_text = FACT_UNITS.get(what.removeprefix("client ").removeprefix("server "))
    texts = [_with_unit(value, as_text) for value in (of_a, of_b)]
    if texts[0] == texts[1]:
        return clean(of_a), clean(of_b)
    return texts[0], texts[1]


def _with_unit(value: str, as_text: Callable[[int], str] | None) -> str:
    is_number = len(value) <= MAX_FACT_DIGITS and value.isascii() and value.isdecimal()
    if as_text is None or not is_number:
        return clean(value)
    return as_text(int(value))


def _unequal_refusals(
    a: Sequence[Result], b: Sequence[Result], names: tuple[str, str], load: float | None
) -> Iterator[str]:
    """Other numbers of runs, another load than the requested one, other tests."""
    if len(a) != len(b):
        yield f"unequal number of runs: {len(a)} of {names[0]}, {len(b)} of {names[1]}"
    if load is not None:
        yield from _load_refusals(a, names[0])
        yield from _load_refusals(b, names[1])
    tests = dict.fromkeys(run.plan.test for run in (*a, *b))
    if len(tests) > 1:
        yield f"different tests: {', '.join(tests)}"


def _value_refusals(
    a: Sequence[Result], b: Sequence[Result], names: tuple[str, str], measure: Measure
) -> Iterator[str]:
    """Runs without a value of the deciding figure, or with 0."""
    for name, runs in zip(names, (a, b), strict=True):
        values = [measure.value(run) for run in runs]
        unknown = [str(number) for number, value in enumerate(values, 1) if value is None]
        if unknown:
            which = f"of {clean(name)} {', '.join(unknown)}"
            yield f"{measure.title} {which} is not known ({measure.why_unknown})"
        elif not all(values):
            yield f"a run of {clean(name)} has {measure.title} 0"


def _unit_refusals(runs: Sequence[Result]) -> Iterator[str]:
    """Figures of commands that are not the same quantity."""
    found = dict.fromkeys(
        figure_name(run.workload.figure)
        for run in runs
        if run.workload is not None and run.workload.figure is not None
    )
    if len(found) > 1:
        yield f"different figures of the command: {', '.join(found)}"


def _nic_refusals(
    a: Sequence[Result],
    b: Sequence[Result],
    names: tuple[str, str],
    differences: Iterable[tuple[str, str, str]],
) -> Iterator[str]:
    """Of commands that were to use different NICs, and did not. Runs that varied the NIC refuse
    that themselves."""
    if not any(fact == "client nic" for fact, _, _ in differences):
        return
    for name, runs in zip(names, (a, b), strict=True):
        for number, run in enumerate(runs, 1):
            if run.workload is not None and run.went_elsewhere and not run.compares_other_nic:
                yield f"{clean(name)} {number}: {other_nic_text(run.workload)}"


def figure_name(figure: CommandFigure) -> str:
    """``read bandwidth (b/s)``"""
    return clean(f"{figure.name} ({figure.unit or 'no unit'})")


def _goodputs(figures: Iterable[ComparedFigure]) -> tuple[Spread | None, Spread | None]:
    """Of both set-ups; None: not among the figures."""
    for figure in figures:
        if figure.name == "goodput":
            return figure.a, figure.b
    return None, None


def equal_load(runs: Sequence[Result]) -> float | None:
    """The load that all these runs were to reach; None: they were not, or different ones."""
    found = {run.plan.requested_load for run in runs}
    return found.pop() if len(found) == 1 else None


def _load_refusals(runs: Sequence[Result], name: str) -> Iterator[str]:
    """Runs that did not reach the requested load: their CPU cost is that of another load."""
    for number, run in enumerate(runs, 1):
        if run.failure is not None or run.reached_load:
            continue
        reached = _load_words(run, run.load)
        requested = _load_words(run, run.plan.requested_load)
        yield f"{clean(name)} {number}: requested load not reached: {reached} of {requested}"


def _load_words(run: Result, load: float | None) -> str:
    return units.bits_per_second(load) if run.plan.has_rate else units.per_second(load)


def _equal_load_verdict(figures: Sequence[ComparedFigure]) -> ComparisonVerdict:
    """By CPU; latencies of rr must not contradict it, and decide if it does not differ."""
    cpu, *others = (figure.verdict for figure in figures if figure.measure.less_is_better)
    if cpu not in ("better", "worse", "same"):
        return cpu
    clear = {cpu, *others} & {"better", "worse"}
    if len(clear) > 1:
        return "not settled"
    return clear.pop() if clear else cpu


def _figures(
    a: Sequence[Result], b: Sequence[Result], *, equal: bool = False
) -> tuple[ComparedFigure, ...]:
    """`equal`: at equal load."""
    runs = (*a, *b)
    measures: Iterable[Measure] = (MEASURES["goodput"],)
    if runs:
        measures = equal_load_measures(runs[0]) if equal else measures_of(runs[0])
    return tuple(_figure(a, b, measure) for measure in measures)


def _figure(a: Sequence[Result], b: Sequence[Result], measure: Measure) -> ComparedFigure:
    of_a, of_b = _values(a, measure), _values(b, measure)
    # without a value of some run, others than those of one pair would be divided
    is_complete = len(of_a) == len(a) and len(of_b) == len(b)
    ratio = pair_ratio(of_a, of_b) if is_complete else None
    verdict: ComparisonVerdict = "refused"
    if ratio is not None:
        verdict = _verdict(ratio, less=measure.less_is_better)
    absent = absent_text(a, measure), absent_text(b, measure)
    found = ComparedFigure(measure.name, spread(of_a), spread(of_b), ratio, verdict, absent)
    return replace(found, title=measure.title, unit=measure.unit) if measure.unit else found


def _values(runs: Iterable[Result], measure: Measure) -> list[float]:
    """Of the runs in which it is known."""
    values = (measure.value(run) for run in runs)
    return [value for value in values if value is not None]


def absent_text(runs: Sequence[Result], measure: Measure) -> str:
    """``no completed run``, or of a test that has other figures ``no goodput (rr: 12.3 k/s)``: said
    of a set-up without this figure."""
    completed = [run for run in runs if run.failure is None]
    if not completed:
        return NO_RUN
    test = completed[0].plan.test
    own = measures_of(completed[0])[0]
    found = spread(_values(completed, own))
    if own.name == measure.name or found is None:
        return f"no {measure.title} measured"
    return f"no {measure.title} ({test}: {own.text(found.median)})"


def spread(values: Sequence[float]) -> Spread | None:
    """None if there are no values."""
    if not values:
        return None
    return Spread(tuple(values), median(values), min(values), max(values))


def medians_text(figure: ComparedFigure, caveats: tuple[str, str] = ("", "")) -> str:
    """``A 5.00 Gb/s, B 8.00 Gb/s: B/A 1.60 (+60 %)``: what is known without a verdict; "": nothing
    is. `caveats`: what the figures of A and B lack."""
    a, b = figure.a, figure.b
    if a is None and b is None:
        return ""
    texts = []
    for name, values, caveat, absent in zip("AB", (a, b), caveats, figure.absent, strict=True):
        value = absent
        if values is not None:
            value = with_caveat(figure.measure.text(values.median), caveat)
        texts.append(f"{name} {value}")
    each = ", ".join(texts)
    if a is None or b is None or not 0 < a.median < math.inf:
        return each
    if len(a.values) > 1 or len(b.values) > 1:
        each += " (medians)"
    ratio = b.median / a.median
    return f"{each}: B/A {ratio:.2f} ({percent_text(ratio)}{_beside_spread(a, b)})"


def _beside_spread(a: Spread, b: Spread) -> str:
    """Whether a difference is more than what runs of one set-up differ by; "": one run each does
    not show it."""
    if len(a.values) < 2 or len(b.values) < 2:
        return ""
    is_apart = a.highest < b.lowest or b.highest < a.lowest
    return f", {'more than' if is_apart else 'within'} the spread of the runs"


def pair_ratio(a: Sequence[float], b: Sequence[float]) -> Ratio | None:
    """B divided by A, of at least two pairs of positive numbers; None otherwise."""
    if len(a) != len(b) or len(a) < 2:
        return None
    if not all(0 < value < math.inf for value in (*a, *b)):
        return None
    logarithms = [math.log(of_b) - math.log(of_a) for of_a, of_b in zip(a, b, strict=True)]
    centre = mean(logarithms)
    freedom = min(len(logarithms) - 1, len(_STUDENT))
    half_width = _STUDENT[freedom - 1] * stdev(logarithms) / math.sqrt(len(logarithms))
    return Ratio(_exp(centre), _exp(centre - half_width), _exp(centre + half_width))


def _exp(exponent: float) -> float:
    """e to that power; infinite if it is too large for a float."""
    return math.exp(exponent) if exponent < 700 else math.inf


def _verdict(ratio: Ratio, *, less: bool = False) -> ComparisonVerdict:
    """`less`: less is better."""
    lowest, highest = 1 - SAME_TOLERANCE, 1 + SAME_TOLERANCE
    if ratio.low > 1 and ratio.high > highest:
        return "worse" if less else "better"
    if ratio.high < 1 and ratio.low < lowest:
        return "better" if less else "worse"
    if ratio.low >= lowest and ratio.high <= highest:
        return "same"
    return "not settled"


def _sentence(
    figures: Sequence[ComparedFigure], names: tuple[str, str], verdict: ComparisonVerdict, load: str
) -> str:
    """`load`: at which both were compared, if that is equal, else ""."""
    first, *others = figures
    ratio = first.ratio
    assert ratio is not None
    a, b = map(clean, names)
    # goodput is what a comparison is about unless something else is named
    of_a = f"of {a}" if first.name == "goodput" else f"the {first.measure.title} of {a}"
    if load:
        of_a += f" at {load}"
    interval = f"{percent_text(ratio.estimate)}, 95 % CI {ratio.low:.2f}–{ratio.high:.2f}"
    text = f"{VERDICT_LABELS[verdict]}: {b} = {ratio.estimate:.2f}× {of_a} ({interval})"
    for figure in others:
        text += f"; {figure.measure.title} {_ratio_words(figure)}"
    if verdict != "not settled":
        return text
    if first.verdict != "not settled":
        return f"{text}. The figures disagree."
    if ratio.high - ratio.low > WIDE_INTERVAL:
        return f"{text}. High variance: add runs, check for other load."
    return f"{text}. Add runs."


def _ratio_words(figure: ComparedFigure) -> str:
    """``0.77× (0.75–0.79, better)``"""
    if figure.ratio is None:
        return f"unknown ({figure.measure.why_unknown})"
    found = VERDICT_LABELS[figure.verdict].lower()
    return f"{figure.ratio.estimate:.2f}× ({figure.ratio.low:.2f}–{figure.ratio.high:.2f}, {found})"


def percent_text(ratio: float) -> str:
    """``+22 %`` of 1.22"""
    return f"{100 * (ratio - 1):+.0f} %"


def _count_refusals(
    a: Sequence[Result], b: Sequence[Result], names: tuple[str, str]
) -> tuple[str, ...]:
    if len(a) == len(b) == 1:
        return ("one run each: spread unknown; repeat with --repeat 5",)
    few = []
    for runs, name in ((a, names[0]), (b, names[1])):
        if len(runs) < MIN_PAIRS:
            few.append(f"{clean(name)} has {count_noun(len(runs), 'run')}")
    if not few:
        return ()
    return (f"{', '.join(few)}, {MIN_PAIRS} needed: repeat with --repeat 5",)


def _run_refusals(runs: Sequence[Result], name: str) -> tuple[str, ...]:
    found: list[str] = []
    for number, run in enumerate(runs, 1):
        found += (f"{clean(name)} {number}: {reason}" for reason in run.why_not_ranked)
    return tuple(dict.fromkeys(found))


def _repeat_refusals(
    a: Sequence[Result], b: Sequence[Result], names: tuple[str, str]
) -> tuple[str, ...]:
    """Runs of one set-up must not differ in facts of `MUST_AGREE`."""
    found = []
    for runs, name in ((a, names[0]), (b, names[1])):
        for what in MUST_AGREE:
            values = {run.facts.get(what, "") for run in runs if run.failure is None}
            if len(values) > 1:
                found.append(f"{what} differs between the runs of {clean(name)}")
    return tuple(found)


def _differences(a: Sequence[Result], b: Sequence[Result]) -> tuple[tuple[str, str, str], ...]:
    """(Fact, its value in A, in B); of a set-up whose runs did not start no facts are known."""
    facts_a, facts_b = _known_facts(a), _known_facts(b)
    if not facts_a or not facts_b:
        return ()
    found = []
    for name in dict.fromkeys((*facts_a, *facts_b)):
        of_a, of_b = facts_a.get(name, "–"), facts_b.get(name, "–")
        if of_a != of_b:
            found.append((name, clean(of_a), clean(of_b)))
    return tuple(found)


def _known_facts(runs: Iterable[Result]) -> Mapping[str, str]:
    """Of the first run that has any."""
    return next((run.facts for run in runs if run.facts), {})


def _costs(a: Sequence[Result], b: Sequence[Result]) -> tuple[Cost, ...]:
    per: Literal["Gb/s", "transaction"] = "Gb/s" if a[0].plan.has_rate else "transaction"
    found = []
    for role in ("client", "server", "observer"):
        of_a, of_b = _costs_of(a, role, per), _costs_of(b, role, per)
        if of_a or of_b:
            found.append(Cost(role, spread(of_a), spread(of_b), pair_ratio(of_a, of_b), per))
    return tuple(found)


def _costs_of(
    runs: Sequence[Result], role: str, per: Literal["Gb/s", "transaction"]
) -> list[float]:
    """Sum of all hosts in that role, for each run in which it is known."""
    found = []
    for run in runs:
        loads = [load for load in run.hosts if load.role == role]
        if per == "Gb/s":
            total = sum_known(load.cost_per_gigabit for load in loads)
        else:
            total = sum_known(load.cost_per_transaction for load in loads)
        if total is not None:
            found.append(total)
    return found


def comparison_of(runs: Sequence[StoredRun]) -> tuple[Comparison | None, tuple[str, str]]:
    """The comparison of an experiment of kind "compare", and the names of its set-ups; None for
    other experiments, or if one set-up has no run yet."""
    is_comparison = bool(runs) and runs[0].kind == "compare"
    found = set_ups(runs) if is_comparison else ()
    if len(found) != 2:
        return None, ("A", "B")
    (name_a, a), (name_b, b) = found
    return compare_stored_runs(a, b, (name_a, name_b)), (name_a, name_b)


def compare_stored_runs(
    a: Sequence[StoredRun], b: Sequence[StoredRun], names: tuple[str, str]
) -> Comparison:
    """Set-up A against B; what was varied by the experiment may differ."""
    variables = {run.variable for run in (*a, *b)} & VARIABLES.keys()
    varied_facts: list[str] = []
    for name in sorted(variables):
        varied_facts += VARIABLES[name].facts
    if any(run.result.plan.is_of_one_host and run.variable for run in (*a, *b)):
        varied_facts.append("value")
    return compare(
        [run.result for run in a], [run.result for run in b], names=names, compared=varied_facts
    )
