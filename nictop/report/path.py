"""The result of a path test: text and JSON of ``nictop path``, and the JSON schema.

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
from nictop.model.text.units import wall_time_text
from nictop.model.text.words import count_noun
from nictop.probe.records import PathReplies, PathSize, PathTest, Unreadable
from nictop.report.findings.check import json_value
from nictop.report.findings.text import finding_lines
from nictop.report.text_table import aligned_table, labelled_lines, layout_width, max_line_width
from nictop.rules.finding import Finding, Severity
from nictop.rules.wording import severity_counts, severity_counts_text
from nictop.traffic.path.findings.sizes import best_size
from nictop.traffic.path.findings.tested_direction import ANSWERS, PROTOCOL_NAMES
from nictop.traffic.path.outcomes import Outcome, OutcomeKind, outcome_of, round_trips
from nictop.traffic.path.result import PathDirection, PathEnd, PathReport, PathResult
from nictop.traffic.path.store import StoredPaths
from nictop.traffic.run.strangers import refused_datagrams_texts

LABEL_CELLS = 9
INITIAL_HOP_LIMITS = (64, 128, 255)
"""With which systems send; Linux: 64."""


@dataclass(frozen=True)
class PathProtocol:
    """What came back for the packets of one protocol."""

    protocol: str
    """icmp, udp, tcp"""
    outcome: OutcomeKind
    source: str
    """Address of the sender of the ICMP error; "": there was none."""
    sent: int
    answered: int
    rtt_min: float | None
    """Seconds; tcp: duration of connect()."""
    rtt_median: float | None
    rtt_p99: float | None


@dataclass(frozen=True)
class TestedDirectionDocument:
    """One direction, with what follows from it."""

    sender: str
    receiver: str
    failure: str
    """Why it was not tested; "": it was."""
    protocols: tuple[PathProtocol, ...]
    largest_packet: int | None
    """Bytes of the largest IP packet that passes unfragmented; null: not known."""
    mtu: int | None
    """Of the sender's outgoing NIC."""
    too_big_from: str
    """Address that sent ICMP "fragmentation needed"; "": none did."""
    routers: int | None
    """Between both ends, from TTL or hop limit; null: no packet was received."""


@dataclass(frozen=True)
class PathDocument:
    """What ``nictop path --format json`` prints."""

    nictop: str
    """Version of the program that wrote it."""
    directions: tuple[TestedDirectionDocument, ...]
    """There and back."""
    counts: dict[Severity, int]
    """Findings by severity."""
    findings: tuple[Finding, ...]
    """Worst first."""
    result: PathResult
    """All that was measured."""


@dataclass(frozen=True)
class ListedPath:
    """A stored test."""

    file: str
    identity: str
    label: str
    written: float
    """Seconds since the epoch."""
    test: PathDocument


@dataclass(frozen=True)
class PathListDocument:
    """What ``nictop path --list --format json`` prints."""

    nictop: str
    """Version of the program that wrote it."""
    paths: tuple[ListedPath, ...]
    """Newest first."""
    unreadable: dict[str, str]
    """File → why it could not be read."""
    left_out: int
    """Older files that were not read."""


def path_document(report: PathReport) -> PathDocument:
    directions = tuple(map(_direction_document, report.result.directions))
    return PathDocument(__version__, directions, severity_counts(report.findings), report.findings, report.result)


def path_json(report: PathReport) -> str:
    """The document as indented ASCII JSON with a final newline."""
    return json.dumps(path_document(report), indent=2, default=json_value) + "\n"


def stored_paths_json(paths: StoredPaths) -> str:
    """The list of stored tests, as indented ASCII JSON with a final newline."""
    listed = (
        ListedPath(str(file), one.identity, one.label, one.written, path_document(one.test.report))
        for file, one in paths.results
    )
    unreadable = {str(file): sentence for file, sentence in paths.unreadable}
    document = PathListDocument(__version__, tuple(listed), unreadable, paths.left_out)
    return json.dumps(document, indent=2, default=json_value) + "\n"


def path_schema(*, listed: bool = False) -> str:
    """JSON schema (draft 2020-12) of `PathDocument`, or of `PathListDocument`, made from the record types, with a final
    newline."""
    schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    document = PathListDocument if listed else PathDocument
    schema.update(msgspec.json.schema(document, schema_hook=lambda _: {"type": "string"}))  # `Step`
    return json.dumps(schema, indent=2) + "\n"


def _direction_document(direction: PathDirection) -> TestedDirectionDocument:
    test = direction.test
    size = best_size(test) if test is not None else None
    return TestedDirectionDocument(
        sender=direction.sender.host,
        receiver=direction.receiver.host,
        failure=direction.failure,
        protocols=tuple(_protocol(test, one) for one in test.replies) if test is not None else (),
        largest_packet=size.largest if size is not None else None,
        mtu=test.mtu if test is not None else None,
        too_big_from=size.too_big.source if size is not None and size.too_big is not None else "",
        routers=router_count(direction),
    )


def _protocol(test: PathTest, replies: PathReplies) -> PathProtocol:
    outcome, times = outcome_of(test, replies.protocol), round_trips(replies)
    return PathProtocol(
        replies.protocol,
        outcome.kind,
        outcome.source,
        replies.sent,
        len(replies.rtts),
        times.minimum if times is not None else None,
        times.median if times is not None else None,
        times.p99 if times is not None else None,
    )


def router_count(direction: PathDirection) -> int | None:
    """Routers on the way, as the receiver saw it; None: it received nothing."""
    listener = direction.listener
    received = (*listener.delivered, *(listener.arrived or ())) if listener is not None else ()
    limits = [one.hop_limit for one in received if one.hop_limit is not None]
    if not limits:
        return None
    return next((initial - min(limits) for initial in INITIAL_HOP_LIMITS if min(limits) <= initial), None)


# ------------------------------------------------------------------------------------------------------------- text

_labelled = partial(labelled_lines, label_cells=LABEL_CELLS, indent=2)


def path_text(report: PathReport, room: int, glyphs: Glyphs = UNICODE, *, findings_first: bool = False) -> str:
    """Both directions, and the findings with their commands; at most `room` cells (40 to 200) per line unless a word of
    a command is wider, with a final newline. The caller encodes the text (`Glyphs.encode`)."""
    room = layout_width(room)
    lines = list(wrap(ends_text(report), room))
    measured = ["", *measured_lines(report, room)]
    found: list[str] = []
    for finding in report.findings:
        found += ["", *finding_lines(finding, room, True, glyphs)]
    verdict = verdict_of_path(report, glyphs)
    lines += ["", verdict, *found, *measured] if findings_first else [*measured, *found, "", verdict]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def ends_text(report: PathReport) -> str:
    """``vm1 ens224 192.0.2.1 ↔ vm2 ens224 192.0.2.2``"""
    return " ↔ ".join(_end_text(direction.sender) for direction in report.result.directions)


def measured_lines(report: PathReport, room: int) -> Sequence[str]:
    """What was measured in both directions, with a blank line between them; at most `room` cells per line."""
    first, second = ([*_direction_lines(direction, room)] for direction in report.result.directions)
    return [*first, "", *second]


def verdict_of_path(report: PathReport, glyphs: Glyphs = UNICODE) -> str:
    """Number of findings by severity, else that there are none, or that a direction was not tested."""
    if any(direction.failure for direction in report.result.directions):
        return severity_counts_text(report.findings) or "incomplete"
    return severity_counts_text(report.findings) or f"{glyphs.passed} No problems found"


def stored_paths_text(paths: StoredPaths, columns: int) -> str:
    """A line per stored test, newest first: time, identity, ends and label, verdict."""
    room = layout_width(columns)
    if not paths.results and not paths.unreadable:
        return "no stored path tests\n"
    rows = [("written", "id", "path", "result")]
    for _, one in paths.results:
        report = one.test.report
        path = " ".join(part for part in (ends_text(report), clean(one.label)) if part)
        rows.append((wall_time_text(one.written), clean(one.identity), path, verdict_of_path(report)))
    lines = list(aligned_table(rows, left=4)) if len(rows) > 1 else []
    if max_line_width(lines) > room:
        lines = [
            part
            for written, identity, path, verdict in rows[1:]
            for part in (*wrap(f"{identity}  {written}", room), *wrap(f"  {path}: {verdict}", room))
        ]
    if paths.left_out:
        lines += wrap(f"not listed: {count_noun(paths.left_out, 'older result')}", room)
    for file, sentence in paths.unreadable:
        lines += wrap(f"{clean(file.name)}: {sentence}", room)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _end_text(end: PathEnd) -> str:
    return " ".join(clean(part) for part in (end.host, end.nic, end.address) if part)


def _direction_lines(direction: PathDirection, room: int) -> Iterator[str]:
    yield from wrap(f"{clean(direction.sender.host)} → {clean(direction.receiver.host)}", room)
    test = direction.test
    if test is None:
        yield from _labelled("failed", clean(direction.failure), room)
        return
    yield from _labelled("route", _route_text(direction, test), room)
    yield from _labelled("neighbour", _neighbour_text(test), room)
    yield from _labelled("received", _received_text(direction), room)
    refused = direction.listener.refused if direction.listener is not None else ()
    for number, text in enumerate(refused_datagrams_texts(refused)):
        yield from _labelled("" if number else "refused", text, room)
    if "icmp" in test.unreadable:
        yield from _labelled("ICMP echo", f"not tested: {_reason(test.unreadable['icmp'])}; UDP is used", room)
    for replies in test.replies:
        port = "" if replies.protocol == "icmp" else f"port {test.port}: "
        yield from _labelled(PROTOCOL_NAMES[replies.protocol], port + _replies_text(test, replies), room)
    for number, text in enumerate(_size_texts(test)):
        yield from _labelled("" if number else "largest", text, room)


def _route_text(direction: PathDirection, test: PathTest) -> str:
    path = test.path
    if path is None or not path.route:
        return "unknown"
    if path.route != "unicast":
        texts = {"none": "none", "local": "local, by no NIC"}
        return texts.get(path.route, f"of type {path.route}: nothing is sent")
    nic = f"by {_nic_name(direction.sender, path.ifindex)}"
    parts = [f"via {clean(path.gateway)}" if path.gateway is not None else "on-link", nic]
    if test.mtu is not None:
        parts.append(f"MTU {test.mtu}")
    return ", ".join(parts)


def _nic_name(end: PathEnd, ifindex: int | None) -> str:
    name = end.nics.get(ifindex or 0)
    return clean(name) if name else f"ifindex {ifindex}"


def _neighbour_text(test: PathTest) -> str:
    path = test.path
    if path is None or path.route != "unicast" or path.neighbour in ("", "none"):
        state = "none"
    else:
        state = f"{path.neighbour_address or 'no MAC address'} ({path.neighbour})"
    if test.macs is None:
        reason = test.unreadable.get("macs")
        return f"{state}; who else answers: {_reason(reason) if reason is not None else 'not tested'}"
    kind = "neighbour discovery" if ":" in test.address else "ARP"
    if not test.macs:
        return f"{state}; no host answers {kind}"
    if test.macs == (path.neighbour_address if path is not None else None,):
        return f"{state}; no other MAC address answers {kind}"
    return f"{state}; {count_noun(len(test.macs), 'MAC address', 'MAC addresses')} for {kind}: {', '.join(test.macs)}"


def _received_text(direction: PathDirection) -> str:
    listener = direction.listener
    if listener is None or not listener.ended:
        return "unknown"
    received = listener.arrived if listener.arrived is not None else listener.delivered
    names = dict.fromkeys(_nic_name(direction.receiver, one.ifindex) for one in received)
    parts = [f"by {' and '.join(names)}" if names else "nothing"]
    routers = router_count(direction)
    if routers is not None:
        parts.append("no router between" if routers == 0 else f"{routers} router{'s' * (routers > 1)} between")
    if listener.rp_filter_drops:
        parts.append(f"{listener.rp_filter_drops} packets dropped by rp_filter")
    if "arrived" in listener.unreadable:
        parts.append(f"packets that its firewall drops: {_reason(listener.unreadable['arrived'])}")
    return ", ".join(parts)


def _replies_text(test: PathTest, replies: PathReplies) -> str:
    outcome, times = outcome_of(test, replies.protocol), round_trips(replies)
    if times is None:
        return _outcome_text(outcome)
    if replies.protocol == "tcp":
        return f"connected in {units.duration(times.minimum)}"
    return (
        f"{len(replies.rtts)} of {replies.sent} answered, RTT min {units.duration(times.minimum)}, median "
        f"{units.duration(times.median)}, p99 {units.duration(times.p99)}"
    )


def _outcome_text(outcome: Outcome) -> str:
    if outcome.kind == "no_neighbour":
        return ANSWERS[outcome.kind]
    by = f" by {outcome.source}" if outcome.source else ""
    detail = f" ({outcome.detail})" if outcome.detail else ""
    return f"{ANSWERS.get(outcome.kind, outcome.kind)}{by}{detail}"


def _size_texts(test: PathTest) -> Iterator[str]:
    by_result: dict[tuple[str, str], list[str]] = {}
    for size in test.sizes:
        largest = "no size was answered" if size.largest is None else f"{size.largest} bytes"
        result = largest, _size_limit(size)
        by_result.setdefault(result, []).append(PROTOCOL_NAMES[size.protocol].partition(" ")[0])
    for (largest, limit), names in by_result.items():
        yield f"{largest} ({' and '.join(names)}, DF set){limit}"
    if not test.sizes:
        yield "not tested: nothing is answered"


def _size_limit(size: PathSize) -> str:
    """What limits the size, as the end of a sentence."""
    text = ""
    if size.largest is not None and size.largest < size.limit:
        if size.too_big is None:
            text = '; larger packets are lost, no ICMP "fragmentation needed"'
        else:
            mtu = f" (MTU {size.too_big.mtu})" if size.too_big.mtu is not None else ""
            text = f'; ICMP "fragmentation needed" from {clean(size.too_big.source)}{mtu}'
    return text if size.complete else f"{text}; search not finished"


def _reason(reason: Unreadable) -> str:
    """``needs root (net.ipv4.ping_group_range is 1 0)``"""
    detail = f" ({clean(reason.detail)})" if reason.detail else ""
    return f"needs root{detail}" if reason.reason == "needs_root" else f"not available{detail}"
