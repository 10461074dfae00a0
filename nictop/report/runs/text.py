"""Traffic runs, experiments, and the list of stored runs, as text.

Reads nothing. Text from hosts and files is cleaned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import clean, wrap
from nictop.model.text.units import wall_time_text
from nictop.model.text.words import count_noun
from nictop.report.findings.text import finding_lines
from nictop.report.runs.histogram import histogram_lines
from nictop.report.runs.limits import bottleneck_headline, limit_lines, shortened
from nictop.report.runs.points import (
    SetUpPoint,
    column_titles,
    cost_note,
    experiment_summary,
    median_run,
    point_cells,
    set_up_points,
)
from nictop.report.runs.sentences import (
    KIND_LABELS,
    Kind,
    ResultSentence,
    cost_text,
    cost_value_text,
    endpoints_text,
    host_role_text,
    hosts_text,
    machine_texts,
    plan_text,
    result_sentences,
    ring_drops_text,
)
from nictop.report.text_table import aligned_table, labelled_lines, layout_width, max_line_width
from nictop.rules.fixes.commands import stored_line
from nictop.rules.wording import command_lines
from nictop.traffic.analysis.cpu_load import HostLoad
from nictop.traffic.results.caveats import caveat_of, with_caveat
from nictop.traffic.results.measures import deciding_text
from nictop.traffic.results.result import ExaminedLimit, Result
from nictop.traffic.results.selection import StoredRun, StoredRuns

RUN_LABEL_CELLS = 12
COST_KINDS = ("client", "server", "observer")
CPU_PARTS = {"user": True, "system": True, "irq": False, "softirq": True, "steal": True, "guest": False}
"""Kind of CPU time → whether its column is shown if all values are 0."""
COMMON_KINDS = ("failed", "type", "path finding", "note", "not ranked")
"""Kinds of sentences that are listed for every run."""
MEDIAN_KINDS = ("under load", "held back")
"""Kinds of sentences that are listed for the run with the median of each set-up."""
SUMMARY_COLUMNS = 6
"""Leading columns of the table of an experiment: name, runs, goodput, share of the ceiling."""


labelled = partial(labelled_lines, label_cells=RUN_LABEL_CELLS)


def run_text(result: Result, columns: int, glyphs: Glyphs = UNICODE) -> str:
    """One run, with a final newline. At most `columns` cells (40 to 200) per line unless a word of a command is wider.
    `glyphs`: for the marks; the caller encodes the other text (`Glyphs.encode`)."""
    room = layout_width(columns)
    about = f"{plan_text(result.plan)} · {wall_time_text(result.wall)}"
    lines = [*wrap(endpoints_text(result), room), *wrap(about, room), ""]
    sentences = result_sentences(result)
    shown = [one for one in sentences if one.kind not in (*COST_KINDS, "not ranked")]
    lines += sentence_lines(shown, room, glyphs, result.limits)
    if result.transactions is not None:
        bars = histogram_lines(result.transactions.latency, room, glyphs=glyphs)
        lines += ["", "Histogram: latency from, transactions", *bars] if bars else []
    costs = _cost_lines(result.hosts, room)
    lines += ["", *costs] if costs else []
    reasons = [one for one in sentences if one.kind == "not ranked"]
    lines += ["", *sentence_lines(reasons, room, glyphs)] if reasons else []
    for finding in result.path_test.report.findings if result.path_test is not None else ():
        lines += ["", *finding_lines(finding, room, True, glyphs)]
    return _text(lines, glyphs)


def sentence_lines(
    sentences: Sequence[ResultSentence], room: int, glyphs: Glyphs = UNICODE, limits: Sequence[ExaminedLimit] = ()
) -> Iterator[str]:
    """Each sentence with its label (repeated labels are blank); failures and missing ranks have a mark. `limits`: the
    table that is shown in place of the sentence about the bottleneck; (): the sentence."""
    marks = {"failed": f"{glyphs.critical} failed", "not ranked": f"{glyphs.warning} not ranked"}
    before: Kind | None = None
    indent = " " * (RUN_LABEL_CELLS + 1)
    for kind, text in sentences:
        if kind == "type":
            if before == "type":
                yield ""  # separates two commands
            yield from (indent + line for line in command_lines(stored_line(text), room - len(indent), cut=False))
        elif kind == "held back" and limits:
            yield from labelled(KIND_LABELS[kind], bottleneck_headline(limits), room)
            yield from (indent + line.text for line in limit_lines(limits, room - len(indent)))
        else:
            yield from labelled("" if kind == before else marks.get(kind, KIND_LABELS.get(kind, kind)), text, room)
        before = kind


def _cost_lines(hosts: Sequence[HostLoad], room: int) -> Sequence[str]:
    """A table if it fits, if necessary without the columns user and system, and the VMs of ESXi hosts; else a sentence
    per host."""
    known = [load for load in hosts if load.busy is not None]
    if not known:
        return ()
    for omitted in ((), ("user", "system")):
        table = aligned_table(_cost_table(known, without=omitted))
        if max_line_width(table) <= room:
            more = [f"{clean(load.host)}: {text}" for load in known for text in _texts_below_the_table(load)]
            return [*table, *(line for text in more for line in labelled("", text, room))]
    return [part for load in known for part in labelled(f"CPU {load.role}", cost_text(load), room)]


def _texts_below_the_table(load: HostLoad) -> Iterator[str]:
    """What has no column."""
    yield from machine_texts(load)
    if drops := ring_drops_text(load):
        yield drops


def _cost_table(hosts: Sequence[HostLoad], without: Sequence[str]) -> Sequence[tuple[str, ...]]:
    """Busy cores by kind of CPU time (see `CPU_PARTS`)."""
    parts = [
        part
        for part, always in CPU_PARTS.items()
        if part not in without and (always or any(getattr(load.busy, part) for load in hosts))
    ]
    per_transaction = any(load.per_transaction is not None for load in hosts)
    rows = [("CPU", "busy", "per transaction" if per_transaction else "per Gb/s", *parts, "hottest")]
    for load in hosts:
        busy = load.busy
        assert busy is not None
        cost = load.per_transaction if per_transaction else load.per_gigabit
        each = units.UNKNOWN if cost is None else cost_value_text(cost, "transaction" if per_transaction else "Gb/s")
        rows.append(
            (
                host_role_text(load.role, load.host),
                f"{units.significant(busy.total)} of {busy.cores}",
                each,
                *(units.significant(getattr(busy, part)) for part in parts),
                f"CPU {busy.hottest} {units.percentage(busy.hottest_busy)}",
            )
        )
    return rows


# ------------------------------------------------------------------------------------------------------- several runs


def experiment_text(runs: Sequence[StoredRun], columns: int, glyphs: Glyphs = UNICODE) -> str:
    """One line per set-up: median, lowest, highest, share of the ceiling, CPU cost of each host; then sentences about
    them. A single run as by `run_text`. With a final newline; "": there are no runs."""
    if len(runs) == 1:
        return run_text(runs[0].result, columns, glyphs)
    found = set_up_points(runs)
    if not found:
        return ""
    room = layout_width(columns)
    lines = [*wrap(experiment_summary(runs), room), ""]
    lines += _point_lines(found, runs[0].variable, room)
    lines += [*(wrap(cost_note(found), room) if any(point.main for point in found) else ()), ""]
    for result in (one.result for one in runs):
        if result.ceiling is not None:
            lines += labelled(KIND_LABELS["ceiling"], result.ceiling.sentence, room)
            break
    lines += _common_lines(runs, found, room, glyphs)
    return _text(lines, glyphs)


def _point_lines(found: Sequence[SetUpPoint], variable: str, room: int) -> Sequence[str]:
    """The table of set-ups; if it does not fit, its last columns, or all but the first, follow below each line."""
    names = column_titles(found, variable)
    rows = [point_cells(point) for point in found]
    for shown_columns in (len(names), SUMMARY_COLUMNS):
        table = aligned_table([names[:shown_columns], *(row[:shown_columns] for row in rows)])
        if max_line_width(table) <= room:
            break
    else:
        shown_columns, table = 1, (names[0], *(row[0] for row in rows))
    lines = [*wrap(table[0], room)]
    for line, row in zip(table[1:], rows, strict=True):
        lines += wrap(line, room) if shown_columns == 1 else [line]
        rest = ", ".join(
            f"{name} {cell}" for name, cell in zip(names[shown_columns:], row[shown_columns:], strict=True)
        )
        lines += (f"  {part}" for part in wrap(rest, room - 2) if part)
    return lines


def _common_lines(runs: Sequence[StoredRun], found: Sequence[SetUpPoint], room: int, glyphs: Glyphs) -> Iterator[str]:
    """Bottlenecks, notes, failures and reasons: each once, with the set-ups it applies to."""
    names_of: dict[ResultSentence, list[str]] = {}
    for point in found:
        name, middle = point_cells(point)[0], median_run(point)
        for one in point.runs:
            for sentence in map(partial(shortened, one.result.limits), result_sentences(one.result)):
                if sentence.kind in COMMON_KINDS or (sentence.kind in MEDIAN_KINDS and one is middle):
                    names = names_of.setdefault(sentence, [])
                    names += [name] if name not in names else []
    sentences = []
    for kind in ("failed", "type", *MEDIAN_KINDS, "path finding", "note", "not ranked"):
        for sentence, names in names_of.items():
            if sentence.kind == kind:
                where = f"{', '.join(names)}: " if kind != "type" and len(names) < len(found) else ""
                sentences.append(ResultSentence(sentence.kind, where + sentence.text))
    yield from sentence_lines(sentences, room, glyphs)


def stored_runs_text(runs: StoredRuns, columns: int, glyphs: Glyphs = UNICODE) -> str:
    """A line per run, newest first: time, run, experiment, description, goodput and what it lacks."""
    room = layout_width(columns)
    if not runs.results and not runs.unreadable:
        return "no stored results\n"
    rows = [("written", "run", "experiment", "what", "result")]
    for _, run in runs.results:
        plan = run.result.plan
        varied = f"{run.variable} {run.value}".strip() if run.value else ""
        parts = (run.label, run.group if run.group != run.value else "", varied)
        test = plan.test if plan.test != "bulk" else ""
        what = " ".join(filter(None, (hosts_text(plan), test, plan.protocol.upper(), *parts)))
        arrived = with_caveat(deciding_text(run.result), caveat_of(run.result), glyphs)
        arrived = f"{glyphs.critical} failed" if run.result.failure is not None else arrived
        rows.append((wall_time_text(run.written), run.identity, run.experiment, what, arrived))
    lines = list(aligned_table(rows, left=4)) if len(rows) > 1 else []
    if max_line_width(lines) > room:
        lines = [part for row in rows[1:] for part in labelled(row[1], " · ".join((row[0], *row[2:])), room)]
    if runs.left_out:
        lines += wrap(f"not listed: {count_noun(runs.left_out, 'older result')}", room)
    for path, sentence in runs.unreadable:
        lines += wrap(f"{path.name}: {sentence}", room)
    return _text(lines, glyphs)


def _text(lines: Sequence[str], glyphs: Glyphs) -> str:
    """The marks of caveats in sentences and cells are those of `UNICODE`."""
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    return text.replace(UNICODE.warning, glyphs.warning)
