"""What hosts dropped, and why: text and JSON of ``nictop drops``, and the JSON schema.

Reads nothing. The JSON is ASCII with escapes: no name can reach a terminal as a control sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from nictop import __version__
from nictop.model.facts import clean
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import DropFlow, DropReport
from nictop.report.document import Block, Fact, Facts, Line, Section, Table
from nictop.report.facts.hosts import UnreachableHost
from nictop.report.json import json_text, schema_of_hosts, schema_text
from nictop.report.render.text import text_of
from nictop.report.text_table import aligned_table, max_line_width
from nictop.rules.fixes.commands import Step
from nictop.rules.wording import SEVERITY_LABELS, finding_mark
from nictop.traffic.drops.reasons import Kind
from nictop.traffic.drops.result import KINDS, DropRow, DropsResult

LABEL_CELLS = 8
INDENT = 2
MAX_SHOWN_FLOWS = 3

TITLES = ("REASON", "NIC", "PLACE", "PACKETS", "RATE")
KIND_TITLES: dict[Kind, str] = {
    "loss": "Lost",
    "unclear": "No reason given by the kernel: loss, or part of normal operation",
    "expected": "Expected (no loss)",
}
STATE_TEXTS = {
    "busy": "another program uses the drop monitor of this kernel (dropwatch, Wireshark, another "
    "nictop); stop that "
    "one first",
    "needs_root": "dropped packets can be monitored as root only (--sudo)",
    "not_offered": "this kernel has no drop monitor (CONFIG_NET_DROP_MONITOR). What remains are "
    "counters: nstat -az; "
    "ip -s -s link; ethtool -S NIC; tc -s qdisc; nictop check reads them",
    "other_namespace": "the drop monitor is offered to the initial network namespace only; run "
    "nictop there",
    "failed": "the drop monitor failed",
}


@dataclass(frozen=True)
class DropsDocument:
    """What ``nictop drops --format json`` prints."""

    nictop: str
    """Version of the program that wrote it."""
    hosts: tuple[Any, ...]
    """In the order of the command line: a `DropsResult` or an `UnreachableHost` of each."""


HostDrops = DropsResult | UnreachableHost


def drops_json(results: Sequence[HostDrops]) -> str:
    """The document as indented ASCII JSON with a final newline."""
    return json_text(DropsDocument(__version__, tuple(results)), texts=(Step,))


def drops_schema() -> str:
    """JSON schema (draft 2020-12) of that document, made from the record types, with a final
    newline."""
    return schema_text(schema_of_hosts(DropsDocument, DropsResult, UnreachableHost))


# --------------------------------------------------------------------------------------------- text


def drops_text(results: Sequence[HostDrops], room: int, glyphs: Glyphs = UNICODE) -> str:
    """At most `room` cells (40 to 200) per line unless a word of a command is wider, with a final
    newline. The caller encodes the text (`Glyphs.encode`)."""
    return text_of((host_section(result, glyphs) for result in results), room, glyphs)


def host_section(result: HostDrops, glyphs: Glyphs = UNICODE) -> Section:
    """What one host dropped; if it was not monitored, why."""
    if isinstance(result, UnreachableHost):
        return Section((Line(f"{result.host}: {result.unreachable}", "bad"),))
    report = result.report
    problem = problem_text(report)
    if problem is not None:
        return Section((Line(f"{result.host}: {problem}", "bad"),))
    rows_of: dict[Kind, list[DropRow]] = {kind: [] for kind in KINDS}
    blocks: list[Block] = [Line(f"{result.host}: {summary_text(report)}"), *lost_reports(report)]
    for row in result.rows:
        rows_of[row.kind].append(row)
    for kind, rows in rows_of.items():
        blocks += kind_section(kind, rows)
    for row in result.rows:
        if row.kind != "expected":
            blocks.append(row_section(row, result.host, glyphs))
    blocks += meaning_sections(rows_of["expected"])
    notes = tuple(Fact("note", note, kind="note") for note in _notes(report))
    blocks.append(Section((Facts(notes, LABEL_CELLS, indent=INDENT),)))
    return Section(tuple(blocks))


def problem_text(report: DropReport) -> str | None:
    """Why nothing was monitored; None: it was."""
    problem = STATE_TEXTS.get(report.state)
    if report.state == "failed":
        return f"{problem}: {report.detail}"
    return problem


def lost_reports(report: DropReport) -> Iterator[Facts]:
    """That packets were dropped of which nothing was reported."""
    if not report.lost and not report.overruns:
        return
    number = report.lost or "an unknown number"
    text = f"{number} more dropped, but not reported: too many at once; rates are too low"
    yield Facts((Fact("note", text),), LABEL_CELLS, indent=INDENT)


def kind_section(kind: Kind, rows: Sequence[DropRow]) -> Iterator[Section]:
    """The packets of one kind in a table; nothing without rows."""
    if rows:
        packets = sum(row.packets for row in rows)
        title = f"{KIND_TITLES[kind]}: {count_noun(packets, 'packet')}"
        yield Section((drop_table(rows),), title)


def drop_table(rows: Sequence[DropRow]) -> Table:
    cells = tuple(map(_row_cells, rows))
    return Table(TITLES, cells, left=3, indent=INDENT, layout=partial(_table_lines, cells))


def _row_cells(row: DropRow) -> tuple[str, ...]:
    packets, rate = units.count(row.packets), units.per_second(row.per_second)
    return _reason_text(row), nic_text(row), row.place, packets, rate


def _table_lines(rows: Sequence[tuple[str, ...]], room: int) -> Sequence[str]:
    """Without the place if there is no room for it."""
    lines = aligned_table([TITLES, *rows], left=3)
    if max_line_width(lines) <= room:
        return lines
    return aligned_table([(*row[:2], *row[3:]) for row in (TITLES, *rows)], left=2)


def row_section(row: DropRow, host: str, glyphs: Glyphs) -> Section:
    """What the packets of a row were, and what explains them."""
    facts = tuple(_row_facts(row, host, glyphs))
    title = f"{_reason_text(row)}  {nic_text(row)}"
    return Section((Facts(facts, LABEL_CELLS, indent=INDENT),), title)


def _row_facts(row: DropRow, host: str, glyphs: Glyphs) -> Iterator[Fact]:
    yield Fact("meaning", row.meaning)
    if row.reason:
        yield Fact("place", row.place)
    for flow in row.flows[:MAX_SHOWN_FLOWS]:
        yield Fact("packets", flow_text(flow), kind="packets")
    for finding in row.findings:
        mark = finding_mark(finding, glyphs=glyphs)
        word = SEVERITY_LABELS[finding.severity].word
        text = f"{mark} {word} {finding.subject}: {finding.title}"
        yield Fact("finding", text, kind="finding")
        yield Fact("finding", f"nictop check {host}; rule {finding.rule}", kind="finding")
    if not row.findings and row.commands:
        yield Fact("next", commands=tuple(row.commands))


def meaning_sections(rows: Iterable[DropRow]) -> Iterator[Section]:
    """What each reason of expected drops means."""
    meanings = {_reason_text(row): row.meaning for row in rows}
    for reason, meaning in meanings.items():
        yield Section((Facts((Fact("meaning", meaning),), LABEL_CELLS, indent=INDENT),), reason)


def _reason_text(row: DropRow) -> str:
    return clean(row.reason or row.place)


def summary_text(report: DropReport) -> str:
    """``12 packets dropped in 10.0 s (1.20/s)``"""
    rate = 0.0
    if report.seconds > 0:
        rate = report.packets / report.seconds
    text = f"{count_noun(report.packets, 'packet')} dropped in {units.duration(report.seconds)}"
    if report.packets:
        text += f" ({units.per_second(rate)})"
    if report.state == "stopped":
        text += ", stopped at the limit of packets"
    return text


def _notes(report: DropReport) -> Iterator[str]:
    """What was monitored."""
    if report.namespaces:
        yield (
            f"monitored in all network namespaces of the host: this one and {report.namespaces} "
            f"more"
        )
    devices = "" if report.hardware else ", and drops of devices"
    yield (
        "not monitored: packets without a link-layer header (no route, no neighbour, dropped by "
        "an output chain of the "
        f"firewall){devices}"
    )


def nic_text(row: DropRow) -> str:
    """``rx ens224``, ``tx ens224``, ``–``; with a question mark if the NIC may be one of another
    namespace."""
    if not row.nic and not row.direction:
        return units.UNKNOWN
    if not row.nic:
        return f"{row.direction} ?"
    text = f"{row.direction} {clean(row.nic)}"
    return text if row.certain else f"{text}?"


def flow_text(flow: DropFlow) -> str:
    """``120 udp 192.0.2.1 → 192.0.2.2 port 5201``"""
    text = f"{flow.packets} {flow.protocol}"
    if flow.source or flow.destination:
        text += f" {flow.source} → {flow.destination}"
    if flow.port is not None:
        text += f" port {flow.port}"
    return clean(text)
