"""What hosts dropped, and why: text and JSON of ``nictop drops``, and the JSON schema.

Reads nothing. The JSON is ASCII with escapes: no name can reach a terminal as a control sequence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from nictop import __version__
from nictop.model.facts import clean, wrap
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.words import count_noun
from nictop.probe.records import DropFlow, DropReport
from nictop.report.facts.hosts import UnreachableHost
from nictop.report.findings.check import json_value
from nictop.report.text_table import aligned_table, labelled_lines, layout_width, max_line_width
from nictop.rules.wording import SEVERITY_LABELS, command_lines, severity_mark
from nictop.traffic.drops.reasons import Kind
from nictop.traffic.drops.result import KINDS, DropRow, DropsResult

LABEL_CELLS = 8
INDENT = 2
MAX_SHOWN_FLOWS = 3

KIND_TITLES: dict[Kind, str] = {
    "loss": "Lost",
    "unclear": "No reason given by the kernel: loss, or part of normal operation",
    "expected": "Expected (no loss)",
}
STATE_TEXTS = {
    "busy": "another program uses the drop monitor of this kernel (dropwatch, Wireshark, another nictop); stop that "
    "one first",
    "needs_root": "dropped packets can be monitored as root only (--sudo)",
    "not_offered": "this kernel has no drop monitor (CONFIG_NET_DROP_MONITOR). What remains are counters: nstat -az; "
    "ip -s -s link; ethtool -S NIC; tc -s qdisc; nictop check reads them",
    "other_namespace": "the drop monitor is offered to the initial network namespace only; run nictop there",
    "failed": "the drop monitor failed: {}",
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
    return json.dumps(DropsDocument(__version__, tuple(results)), indent=2, default=json_value) + "\n"


def drops_schema() -> str:
    """JSON schema (draft 2020-12) of that document, made from the record types, with a final newline."""
    types = (DropsDocument, DropsResult, UnreachableHost)
    (document, *hosts), known = msgspec.json.schema_components(
        types, schema_hook=lambda _: {"type": "string"}, ref_template="#/$defs/{name}"
    )
    known["DropsDocument"]["properties"]["hosts"]["items"] = {"anyOf": hosts}
    schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema", **document, "$defs": known}
    return json.dumps(schema, indent=2) + "\n"


# ------------------------------------------------------------------------------------------------------------- text

_labelled = partial(labelled_lines, label_cells=LABEL_CELLS, indent=INDENT)


def drops_text(results: Sequence[HostDrops], room: int, glyphs: Glyphs = UNICODE) -> str:
    """At most `room` cells (40 to 200) per line unless a word of a command is wider, with a final newline. The caller
    encodes the text (`Glyphs.encode`)."""
    room = layout_width(room)
    lines: list[str] = []
    for result in results:
        lines += [""] if lines else []
        if isinstance(result, UnreachableHost):
            lines += wrap(f"{clean(result.host)}: {clean(result.unreachable)}", room)
        else:
            lines += _host_lines(result, room, glyphs)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _host_lines(result: DropsResult, room: int, glyphs: Glyphs) -> Iterator[str]:
    report, host = result.report, clean(result.host)
    if report.state in STATE_TEXTS:
        yield from wrap(f"{host}: {STATE_TEXTS[report.state].format(clean(report.detail))}", room)
        return
    yield from wrap(f"{host}: {summary_text(report)}", room)
    if report.lost or report.overruns:
        number = f"{report.lost} more" if report.lost else "an unknown number more"
        yield from _labelled("note", f"{number} dropped, but not reported: too many at once; rates are too low", room)
    for kind in KINDS:
        rows = [row for row in result.rows if row.kind == kind]
        if rows:
            yield ""
            packets = sum(row.packets for row in rows)
            yield from wrap(f"{KIND_TITLES[kind]}: {count_noun(packets, 'packet')}", room)
            yield from _table(rows, room)
    for row in result.rows:
        if row.kind != "expected":
            yield ""
            yield from _row_lines(row, result, room, glyphs)
    meanings = {_reason_text(row): row.meaning for row in result.rows if row.kind == "expected"}
    for name, meaning in meanings.items():
        yield ""
        yield from wrap(name, room)
        yield from _labelled("meaning", meaning, room)
    yield ""
    for position, note in enumerate(_notes(report)):
        yield from _labelled("" if position else "note", note, room)


def _table(rows: Sequence[DropRow], room: int) -> Iterator[str]:
    """Without the place if there is no room for it."""
    cells = [("REASON", "NIC", "PLACE", "PACKETS", "RATE")]
    cells += [
        (_reason_text(row), nic_text(row), row.place, units.count(row.packets), units.per_second(row.per_second))
        for row in rows
    ]
    lines = aligned_table(cells, left=3)
    if max_line_width(lines) + INDENT > room:
        lines = aligned_table([(*row[:2], *row[3:]) for row in cells], left=2)
    yield from (" " * INDENT + line for line in lines)


def _reason_text(row: DropRow) -> str:
    return clean(row.reason or row.place)


def summary_text(report: DropReport) -> str:
    """``12 packets dropped in 10.0 s (1.20/s)``"""
    rate = report.packets / report.seconds if report.seconds > 0 else 0.0
    text = f"{count_noun(report.packets, 'packet')} dropped in {units.duration(report.seconds)}"
    if report.packets:
        text += f" ({units.per_second(rate)})"
    return text + (", stopped at the limit of packets" if report.state == "stopped" else "")


def _notes(report: DropReport) -> Iterator[str]:
    """What was monitored."""
    if report.namespaces:
        yield f"monitored in all network namespaces of the host: this one and {report.namespaces} more"
    devices = "" if report.hardware else ", and drops of devices"
    yield (
        "not monitored: packets without a link-layer header (no route, no neighbour, dropped by an output chain of the "
        f"firewall){devices}"
    )


def nic_text(row: DropRow) -> str:
    """``rx ens224``, ``tx ens224``, ``–``; with a question mark if the NIC may be one of another namespace."""
    if not row.nic:
        return units.UNKNOWN if not row.direction else f"{row.direction} ?"
    return f"{row.direction} {clean(row.nic)}{'' if row.certain else '?'}"


def _row_lines(row: DropRow, result: DropsResult, room: int, glyphs: Glyphs) -> Iterator[str]:
    yield from wrap(f"{_reason_text(row)}  {nic_text(row)}", room)
    yield from _labelled("meaning", row.meaning, room)
    if row.reason:
        yield from _labelled("place", clean(row.place), room)
    for position, flow in enumerate(row.flows[:MAX_SHOWN_FLOWS]):
        yield from _labelled("" if position else "packets", flow_text(flow), room)
    for position, finding in enumerate(row.findings):
        mark = severity_mark(finding.severity, glyphs=glyphs)
        text = f"{mark} {SEVERITY_LABELS[finding.severity].word} {finding.subject}: {finding.title}"
        yield from _labelled("" if position else "finding", clean(text), room)
        yield from _labelled("", f"nictop check {clean(result.host)}; rule {finding.rule}", room)
    if row.findings:
        return
    indent = " " * (INDENT + LABEL_CELLS + 1)
    for position, step in enumerate(row.commands):
        for part, line in enumerate(command_lines(step, room - len(indent), cut=False)):
            label = "next" if position == part == 0 else ""
            yield f"{' ' * INDENT}{label:<{LABEL_CELLS}} {line}"


def flow_text(flow: DropFlow) -> str:
    """``120 udp 192.0.2.1 → 192.0.2.2 port 5201``"""
    ends = f" {flow.source} → {flow.destination}" if flow.source or flow.destination else ""
    port = f" port {flow.port}" if flow.port is not None else ""
    return clean(f"{flow.packets} {flow.protocol}{ends}{port}")
