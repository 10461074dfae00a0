"""A run as a document: its sentences, charts, CPU cost, and the findings of its path test.

Reads nothing; takes a `Result`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE
from nictop.model.text.units import wall_time_text
from nictop.report.document import (
    Block,
    Fact,
    Facts,
    FindingBlock,
    Line,
    Mark,
    RunCharts,
    Section,
    Style,
    Table,
    Toned,
)
from nictop.report.runs.limits import LIMIT_TITLES, bottleneck_headline, limit_cells, limit_lines
from nictop.report.runs.sentences import (
    KIND_LABELS,
    CostUnit,
    Kind,
    ResultSentence,
    cost_of,
    cost_value_text,
    endpoints_text,
    host_cost_text,
    host_role_text,
    load_texts,
    plan_text,
    result_sentences,
)
from nictop.report.text_table import aligned_table, labelled_lines, max_line_width
from nictop.rules.fixes.commands import stored_line
from nictop.traffic.results.host_load import HostLoad
from nictop.traffic.results.result import ExaminedLimit, Result

RUN_LABEL_CELLS = 12
COST_KINDS = ("client", "server", "observer")
"""Kinds of sentences about the CPU cost: a text has a table of it."""
CPU_PARTS = {
    "user": True,
    "system": True,
    "irq": False,
    "softirq": True,
    "steal": True,
    "guest": False,
}
"""Kind of CPU time → whether its column is shown if all values are 0."""
FIRST_OMITTED = ("user", "system")
"""Columns that are left out where there is no room for all."""
SENTENCE_STYLES: dict[Kind, Style] = {
    "failed": "bad",
    "path finding": "warn",
    "not ranked": "warn",
    "goodput": "verdict",
    "transactions": "verdict",
    "under load": "verdict",
    "command": "verdict",
    "measured": "verdict",
    "figure": "verdict",
}
SENTENCE_MARKS: dict[Kind, Mark] = {"failed": "critical", "not ranked": "warning"}
LIMIT_STYLES: dict[str, Style] = {"cause": "verdict", "possible": "normal", "excluded": "dim"}


# -------------------------------------------------------------------------------------------- a run


def run_blocks(result: Result) -> tuple[Block, ...]:
    """A run, for a terminal: its CPU cost is a table, and what was set up is known there."""
    sentences = result_sentences(result)
    main = [sentence for sentence in sentences if sentence.kind not in (*COST_KINDS, "not ranked")]
    unranked = [sentence for sentence in sentences if sentence.kind == "not ranked"]
    return (
        *run_titles(result),
        Section((sentence_facts(main, result.limits),)),
        Section((RunCharts(result),)),
        Section(tuple(cost_tables(result.hosts))),
        Section((sentence_facts(unranked),)),
        *run_findings(result),
    )


def run_page_blocks(result: Result) -> tuple[Block, ...]:
    """A run, for a page."""
    return (
        *run_titles(result),
        RunCharts(result),
        sentence_facts(result_sentences(result), result.limits),
        *run_findings(result),
        *set_up_section(result),
    )


def run_titles(result: Result) -> tuple[Line, Line]:
    about = f"{plan_text(result.plan, result.transactions)} · {wall_time_text(result.wall)}"
    return Line(endpoints_text(result), "title"), Line(about, "dim")


def run_findings(result: Result) -> Iterator[FindingBlock]:
    """Those of the path test before the run."""
    if result.path_test is not None:
        for finding in result.path_test.report.findings:
            yield FindingBlock(finding, True)


def set_up_section(result: Result) -> Iterator[Section]:
    if result.facts:
        table = Table(("what", "value"), tuple(result.facts.items()), left=2)
        yield Section((table,), "Set-up of the run", form="detail")


def sentence_facts(
    sentences: Sequence[ResultSentence], limits: Sequence[ExaminedLimit] = ()
) -> Facts:
    """`limits`: the table that is shown in place of the sentence about the bottleneck; (): the
    sentence."""
    facts = tuple(sentence_fact(sentence, limits) for sentence in sentences)
    return Facts(facts, RUN_LABEL_CELLS)


def sentence_fact(sentence: ResultSentence, limits: Sequence[ExaminedLimit]) -> Fact:
    kind, text = sentence
    if kind == "type":
        return Fact("", commands=(stored_line(text),))
    label = KIND_LABELS.get(kind, kind)
    if kind == "held back" and limits:
        return Fact(label, bottleneck_headline(limits), kind=kind, table=limits_table(limits))
    return Fact(label, text, sentence_style(sentence), SENTENCE_MARKS.get(kind, ""), kind)


def sentence_style(sentence: ResultSentence) -> Style:
    """A figure with a caveat is no verdict."""
    if sentence.text.startswith(UNICODE.warning):
        return "warn"
    return SENTENCE_STYLES.get(sentence.kind, "normal")


def limits_table(limits: Sequence[ExaminedLimit]) -> Table:
    rows = tuple(
        (limit, value, Toned(verdict, LIMIT_STYLES[verdict]))
        for limit, value, verdict in limit_cells(limits)
    )
    return Table(LIMIT_TITLES, rows, left=3, layout=partial(_limit_texts, limits), name="limits")


def _limit_texts(limits: Sequence[ExaminedLimit], room: int) -> Iterator[str]:
    for line in limit_lines(limits, room):
        yield line.text


# ----------------------------------------------------------------------------------------- CPU cost


def cost_tables(hosts: Sequence[HostLoad]) -> Iterator[Table]:
    """The table of the hosts whose CPUs were measured; nothing if there are none."""
    measured = [load for load in hosts if load.busy is not None]
    if measured:
        titles, *rows = table = cost_rows(measured)
        yield Table(titles, tuple(rows), layout=partial(_cost_lines, measured, table))


def _cost_lines(
    hosts: Sequence[HostLoad], table: Sequence[tuple[str, ...]], room: int
) -> Iterator[str]:
    """A table if it fits, if necessary without the columns user and system, and the VMs of ESXi
    hosts; else a sentence per host."""
    lines = aligned_table(table)
    if max_line_width(lines) > room:
        lines = aligned_table(cost_rows(hosts, without=FIRST_OMITTED))
    if max_line_width(lines) <= room:
        yield from lines
        yield from _lines_below_the_table(hosts, room)
        return
    for load in hosts:
        label = f"CPU {load.role}"
        yield from labelled_lines(label, host_cost_text(load), room, label_cells=RUN_LABEL_CELLS)


def _lines_below_the_table(hosts: Sequence[HostLoad], room: int) -> Iterator[str]:
    """What has no column."""
    for load in hosts:
        for text in load_texts(load):
            yield from labelled_lines("", f"{load.host}: {text}", room, label_cells=RUN_LABEL_CELLS)


def cost_rows(hosts: Sequence[HostLoad], without: Sequence[str] = ()) -> Sequence[tuple[str, ...]]:
    """Busy cores by kind of CPU time (see `CPU_PARTS`), titles first; costs if one is known."""
    per_transaction = any(load.per_transaction is not None for load in hosts)
    parts = [part for part in shown_cpu_parts(hosts) if part not in without]
    unit: CostUnit = "transaction" if per_transaction else "Gb/s"
    costs = [cost_of(load, unit) for load in hosts]
    has_costs = any(cost is not None for cost in costs)
    titles = ("CPU", "busy", *([f"per {unit}"] if has_costs else ()), *parts, "hottest")
    rows = []
    for load, cost in zip(hosts, costs, strict=True):
        text = units.UNKNOWN if cost is None else cost_value_text(cost, unit)
        rows.append(cost_row(load, parts, (text,) if has_costs else ()))
    return (titles, *rows)


def shown_cpu_parts(hosts: Sequence[HostLoad]) -> Iterator[str]:
    for part, is_always_shown in CPU_PARTS.items():
        if is_always_shown or any(getattr(load.busy, part) for load in hosts):
            yield part


def cost_row(load: HostLoad, parts: Sequence[str], costs: Sequence[str]) -> tuple[str, ...]:
    busy = load.busy
    assert busy is not None
    return (
        host_role_text(load.role, load.host),
        f"{units.significant(busy.total)} of {busy.cores}",
        *costs,
        *(units.significant(getattr(busy, part)) for part in parts),
        f"CPU {busy.hottest} {units.percentage(busy.hottest_busy)}",
    )
