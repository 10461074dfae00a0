"""The result of a path test: text and JSON of ``nictop path``, and the JSON schema.

Reads nothing. The JSON is ASCII with escapes: no name can reach a terminal as a control sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nictop import __version__
from nictop.model.facts import clean, wrap
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.units import wall_time_text
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import (
    IcmpError,
    PathListener,
    PathReplies,
    PathSize,
    PathTest,
    ReceivedPackets,
    TrafficPath,
    Unreadable,
)
from nictop.report.document import Block, Fact, Facts, FindingBlock, Line, Section, Verdict
from nictop.report.json import json_schema, json_text
from nictop.report.render.text import text_of
from nictop.report.stored_list import list_blocks
from nictop.rules.finding import Finding, Severity
from nictop.rules.fixes.commands import Step
from nictop.rules.wording import CLEAR, severity_counts, severity_counts_text
from nictop.traffic.path.findings.sizes import best_size
from nictop.traffic.path.findings.tested_direction import (
    ANSWERS,
    PROTOCOL_NAMES,
    differing_round_trips,
)
from nictop.traffic.path.outcomes import Outcome, OutcomeKind, outcome_of, round_trips
from nictop.traffic.path.result import PathDirection, PathEnd, PathReport, PathResult
from nictop.traffic.path.store import StoredPath, StoredPaths
from nictop.traffic.record.strangers import refused_datagrams_texts

LABEL_CELLS, INDENT = 9, 2
LIST_TITLES = ("written", "id", "path", "result")
NO_TESTS = "no stored path tests\n"
NO_RECEIPT = "no report about what arrived"
LIMITING_METRICS = ("mtu", "window", "cwnd", "advmss", "initcwnd", "initrwnd")
"""Of a route: they limit what is sent by it."""
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
    return PathDocument(
        __version__, directions, severity_counts(report.findings), report.findings, report.result
    )


def path_json(report: PathReport) -> str:
    """The document as indented ASCII JSON with a final newline."""
    return json_text(path_document(report), texts=(Step,))


def stored_paths_json(paths: StoredPaths) -> str:
    """The list of stored tests, as indented ASCII JSON with a final newline."""
    listed = []
    for file, path in paths.results:
        document_of_test = path_document(path.test.report)
        listed.append(
            ListedPath(str(file), path.identity, path.label, path.written, document_of_test)
        )
    unreadable = {str(file): sentence for file, sentence in paths.unreadable}
    document = PathListDocument(__version__, tuple(listed), unreadable, paths.left_out)
    return json_text(document, texts=(Step,))


def path_schema(*, listed: bool = False) -> str:
    """JSON schema (draft 2020-12) of `PathDocument`, or of `PathListDocument`, made from the record
    types, with a final newline."""
    return json_schema(PathListDocument if listed else PathDocument)


def _direction_document(direction: PathDirection) -> TestedDirectionDocument:
    document = TestedDirectionDocument(
        sender=direction.sender.host,
        receiver=direction.receiver.host,
        failure=direction.failure,
        protocols=(),
        largest_packet=None,
        mtu=None,
        too_big_from="",
        routers=router_count(direction),
    )
    test = direction.test
    if test is None:
        return document
    protocols = tuple(_protocol(test, replies) for replies in test.replies)
    document = replace(document, protocols=protocols, mtu=test.mtu)
    size = best_size(test)
    if size is None:
        return document
    document = replace(document, largest_packet=size.largest)
    if size.too_big is None:
        return document
    return replace(document, too_big_from=size.too_big.source)


def _protocol(test: PathTest, replies: PathReplies) -> PathProtocol:
    outcome, times = outcome_of(test, replies.protocol), round_trips(replies)
    minimum, median, p99 = None, None, None
    if times is not None:
        minimum, median, p99 = times.minimum, times.median, times.p99
    return PathProtocol(
        replies.protocol,
        outcome.kind,
        outcome.source,
        replies.sent,
        len(replies.rtts),
        minimum,
        median,
        p99,
    )


def router_count(direction: PathDirection) -> int | None:
    """Routers on the way, as the receiver saw it; None: it received nothing."""
    listener = direction.listener
    if listener is None:
        return None
    received = (*listener.delivered, *(listener.arrived or ()))
    limits = [packets.hop_limit for packets in received if packets.hop_limit is not None]
    if not limits:
        return None
    lowest = min(limits)
    for initial in INITIAL_HOP_LIMITS:
        if lowest <= initial:
            return initial - lowest
    return None


# --------------------------------------------------------------------------------------------- text


def path_text(
    report: PathReport, room: int, glyphs: Glyphs = UNICODE, *, findings_first: bool = False
) -> str:
    """Both directions, and the findings with their commands; at most `room` cells (40 to 200) per
    line unless a word of a command is wider, with a final newline. The caller encodes the text
    (`Glyphs.encode`)."""
    return text_of(path_blocks(report, glyphs, findings_first=findings_first), room, glyphs)


def ends_text(report: PathReport) -> str:
    """``vm1 ens224 192.0.2.1 ↔ vm2 ens224 192.0.2.2``"""
    return " ↔ ".join(_end_text(direction.sender) for direction in report.result.directions)


def path_section(path: StoredPath, number: int) -> Section:
    """A stored test, for a page."""
    report = path.test.report
    about = [wall_time_text(report.result.wall)]
    if path.label:
        about.append(path.label)
    blocks: tuple[Block, ...] = (
        Line(ends_text(report), "title"),
        Line(" · ".join(about), "dim"),
        path_verdict(report),
        *finding_blocks(report),
        *_measured_sections(report.result),
    )
    return Section(
        blocks,
        "Path test",
        command="nictop path",
        anchor=f"path-{number}",
        entry=f"Path test {number}",
    )


def path_blocks(report: PathReport, glyphs: Glyphs, *, findings_first: bool) -> tuple[Block, ...]:
    """Ends, verdict, findings and what was measured; the verdict last, unless `findings_first`."""
    ends = Line(ends_text(report))
    verdict = Section((path_verdict(report, glyphs),))
    findings = finding_blocks(report)
    measured = _measured_sections(report.result)
    if findings_first:
        return (ends, verdict, *findings, *measured)
    return (ends, *measured, *findings, verdict)


def _measured_sections(result: PathResult) -> tuple[Section, ...]:
    """Each direction, and what is to be said of both."""
    sections = tuple(map(direction_section, result.directions))
    differing = differing_round_trips(result)
    return (*sections, Section((Line(differing),))) if differing else sections


def finding_blocks(report: PathReport) -> tuple[FindingBlock, ...]:
    return tuple(FindingBlock(finding, True) for finding in report.findings)


def path_verdict(report: PathReport, glyphs: Glyphs = UNICODE) -> Verdict:
    is_complete = all(map(is_receipt_known, report.result.directions))
    is_good = is_complete and not report.findings and not reservations(report)
    return Verdict(verdict_of_path(report, glyphs), tone="good" if is_good else "normal")


def reservations(report: PathReport) -> tuple[str, ...]:
    """What a test without findings does not show to be well: ``the MTUs differ: 1400 on vm1, 1500
    on vm2``, ``vm1 sends by ens256, not by ens224``."""
    directions = report.result.directions
    found = [text for text in (_differing_mtus(report), *map(_other_nic, directions)) if text]
    return tuple(found)


def _differing_mtus(report: PathReport) -> str:
    """Packets may arrive all the same, as long as a NIC takes larger ones than its MTU."""
    ends = [direction.sender for direction in report.result.directions]
    mtus = {end.mtu for end in ends}
    if len(mtus) < 2 or None in mtus:
        return ""
    each = ", ".join(f"{end.mtu} on {clean(end.host)}" for end in ends)
    return f"the MTUs differ: {each}"


def _other_nic(direction: PathDirection) -> str:
    """The route of the sender is by another NIC than the chosen one."""
    sender = direction.sender
    path = None if direction.test is None else direction.test.path
    if path is None or path.route != "unicast" or None in (path.ifindex, sender.ifindex):
        return ""
    if path.ifindex == sender.ifindex:
        return ""
    by = _nic_name(sender, path.ifindex)
    return f"{clean(sender.host)} sends by {by}, not by {clean(sender.nic)}"


def is_receipt_known(direction: PathDirection) -> bool:
    """It was tested, and the receiver reported what arrived."""
    if direction.failure or direction.listener is None:
        return False
    return direction.listener.ended


def direction_section(direction: PathDirection) -> Section:
    """What was measured one way."""
    ends = f"{direction.sender.host} → {direction.receiver.host}"
    facts = Facts(tuple(_direction_facts(direction)), LABEL_CELLS, indent=INDENT)
    return Section((facts,), ends)


def verdict_of_path(report: PathReport, glyphs: Glyphs = UNICODE, *, brief: bool = False) -> str:
    """Number of findings by severity, else that there are none, or that a direction was not
    tested. Without a tick if a host did not report what it received. `brief`: in a list, without
    the family that was not tested."""
    found = severity_counts_text(report.findings)
    if found:
        return found
    directions = report.result.directions
    if any(direction.failure for direction in directions):
        return "incomplete"
    unknown = [
        clean(direction.receiver.host)
        for direction in directions
        if not is_receipt_known(direction)
    ]
    tested, untested = _families(report)
    clear = f"{CLEAR} ({tested})" if brief else f"{CLEAR} on the {tested} path"
    untested = "" if brief else untested
    if unknown:
        return f"{glyphs.note} {clear}; not known: what {' and '.join(unknown)} received"
    but = reservations(report)
    if but:
        return f"{glyphs.note} {clear}, but {'; '.join(but)}{untested}"
    return f"{glyphs.passed} {clear}{untested}"


def _families(report: PathReport) -> tuple[str, str]:
    """``IPv4``, ``; IPv6 was not tested``: that of the tested addresses, and the other one if both
    ends have addresses of it."""
    ends = [direction.sender for direction in report.result.directions]
    tested, other = (6, 4) if ":" in ends[0].address else (4, 6)
    have_other = all(other in end.ip_versions for end in ends)
    return f"IPv{tested}", f"; IPv{other} was not tested" if have_other else ""


def stored_paths_text(paths: StoredPaths, columns: int) -> str:
    """A line per stored test, newest first: time, identity, ends and label, verdict."""
    rows = [_list_row(path) for _, path in paths.results]
    blocks = list_blocks(LIST_TITLES, rows, _narrow_row, paths.left_out, paths.unreadable)
    return text_of(blocks, columns) or NO_TESTS


def _list_row(path: StoredPath) -> tuple[str, ...]:
    report = path.test.report
    ends = ends_text(report)
    if path.label:
        ends += f" {path.label}"
    return wall_time_text(path.written), path.identity, ends, verdict_of_path(report, brief=True)


def _narrow_row(row: tuple[str, ...], room: int) -> Iterator[str]:
    written, identity, path, verdict = row
    yield from wrap(f"{identity}  {written}", room)
    yield from wrap(f"  {path}: {verdict}", room)


def _end_text(end: PathEnd) -> str:
    return " ".join(map(clean, filter(None, (end.host, end.nic, end.address))))


def _direction_facts(direction: PathDirection) -> Iterator[Fact]:
    test = direction.test
    if test is None:
        yield Fact("failed", direction.failure, "bad")
        return
    yield Fact("route", _route_text(direction, test))
    yield Fact("neighbour", _neighbour_text(direction, test))
    yield Fact("received", _received_text(direction))
    if direction.listener is not None:
        for text in refused_datagrams_texts(direction.listener.refused):
            yield Fact("refused", text, kind="refused")
    if "icmp" in test.unreadable:
        yield Fact("ICMP echo", f"not tested: {_reason(test.unreadable['icmp'])}; UDP is used")
    for replies in test.replies:
        text = _port_text(test, replies) + _replies_text(test, replies)
        yield Fact(PROTOCOL_NAMES[replies.protocol], text)
    for text in _size_texts(test):
        yield Fact("largest", text, kind="largest")


def _port_text(test: PathTest, replies: PathReplies) -> str:
    """``port 5201: ``; "": ICMP has no ports."""
    return "" if replies.protocol == "icmp" else f"port {test.port}: "


def _route_text(direction: PathDirection, test: PathTest) -> str:
    path = test.path
    if path is None or not path.route:
        return "unknown"
    if path.route != "unicast":
        own = f"local, by no NIC: {clean(direction.sender.host)} has this address itself"
        texts = {"none": "none", "local": own}
        return texts.get(path.route, f"of type {path.route}: nothing is sent")
    way = "on-link" if path.gateway is None else f"via {clean(path.gateway)}"
    parts = [way, f"by {_nic_name(direction.sender, path.ifindex)}"]
    if test.mtu is not None:
        parts.append(f"MTU {test.mtu}")
    metrics = " ".join(shown_metrics(path))
    if metrics:
        parts.append(f"the route has {clean(metrics)}")
    return ", ".join(parts)


def shown_metrics(path: TrafficPath) -> Iterator[str]:
    """Those that limit what is sent, as ip-route(8) prints them: ``mtu``, ``lock``, ``1000``."""
    is_shown = False
    for word in path.options:
        if not word.isdigit() and word != "lock":
            is_shown = word in LIMITING_METRICS
        if is_shown:
            yield word


def _nic_name(end: PathEnd, ifindex: int | None) -> str:
    name = end.nics.get(ifindex or 0)
    return clean(name) if name else f"ifindex {ifindex}"


def _neighbour_text(direction: PathDirection, test: PathTest) -> str:
    state = _neighbour_state(test.path)
    return f"{state}{_other_than_receiver(direction, test)}; {_who_answers(test)}"


def _other_than_receiver(direction: PathDirection, test: PathTest) -> str:
    """``, not that of vm2 ens4``: that one answers too, and what follows is not measured to it."""
    receiver, path = direction.receiver, test.path
    if path is None or path.gateway is not None or not path.neighbour_address:
        return ""
    if path.neighbour_address == receiver.mac or receiver.mac not in (test.macs or ()):
        return ""
    return f", not that of {_end_name(receiver)}"


def _end_name(end: PathEnd) -> str:
    return " ".join(filter(None, (clean(end.host), clean(end.nic))))


def _neighbour_state(path: TrafficPath | None) -> str:
    """``52:54:00:00:00:02 (reachable)``"""
    if path is None or path.route != "unicast":
        return "none"
    if path.neighbour in ("", "none"):
        return "none"
    return f"{path.neighbour_address or 'no MAC address'} ({path.neighbour})"


def _who_answers(test: PathTest) -> str:
    """Which hosts answer ARP for the address: more than one is an error."""
    if test.macs is None:
        reason = test.unreadable.get("macs")
        why = "not tested" if reason is None else _reason(reason)
        return f"who else answers: {why}"
    kind = "neighbour discovery" if ":" in test.address else "ARP"
    if not test.macs:
        return f"no host answers {kind}"
    if test.path is not None and test.macs == (test.path.neighbour_address,):
        return f"no other MAC address answers {kind}"
    number = count_noun(len(test.macs), "MAC address", "MAC addresses")
    return f"{number} for {kind}: {', '.join(test.macs)}"


def _received_text(direction: PathDirection) -> str:
    listener = direction.listener
    if not is_receipt_known(direction):
        return f"not known: {NO_RECEIPT} of {clean(direction.receiver.host)} in time"
    assert listener is not None
    if not (listener.arrived or listener.delivered) and listener.misaddressed:
        nics = _nics_of(listener.misaddressed, direction.receiver)
        return f"nothing: packets at {nics} are for another MAC address, and dropped"
    parts = [_receiving_nics(listener, direction.receiver)]
    routers = router_count(direction)
    if routers == 0:
        parts.append("no router between")
    elif routers is not None:
        parts.append(f"{count_noun(routers, 'router')} between")
    if listener.rp_filter_drops:
        parts.append(f"{listener.rp_filter_drops} packets dropped by rp_filter")
    if "arrived" in listener.unreadable:
        parts.append(f"packets that its firewall drops: {_reason(listener.unreadable['arrived'])}")
    return ", ".join(parts)


def _receiving_nics(listener: PathListener, receiver: PathEnd) -> str:
    """``by ens224 and ens256``; ``nothing``; of packets that its firewall drops ``by ens224, but
    not by its UDP socket``"""
    if listener.arrived and not listener.delivered:
        return f"by {_nics_of(listener.arrived, receiver)}, but not by its UDP socket"
    received = listener.delivered if listener.arrived is None else listener.arrived
    return f"by {_nics_of(received, receiver)}" if received else "nothing"


def _nics_of(received: Iterable[ReceivedPackets], receiver: PathEnd) -> str:
    nics = dict.fromkeys(_nic_name(receiver, packets.ifindex) for packets in received)
    return " and ".join(nics)


def _replies_text(test: PathTest, replies: PathReplies) -> str:
    outcome, times = outcome_of(test, replies.protocol), round_trips(replies)
    if times is None:
        return _outcome_text(outcome)
    if replies.protocol == "tcp":
        return f"connected in {units.duration(times.minimum)}"
    return (
        f"{len(replies.rtts)} of {replies.sent} answered, RTT min "
        f"{units.duration(times.minimum)}, median "
        f"{units.duration(times.median)}, p99 {units.duration(times.p99)}"
    )


def _outcome_text(outcome: Outcome) -> str:
    if outcome.kind == "no_neighbour":
        return ANSWERS[outcome.kind]
    text = ANSWERS.get(outcome.kind, outcome.kind)
    if outcome.source:
        text += f" by {outcome.source}"
    if outcome.detail:
        text += f" ({outcome.detail})"
    return text


def _size_texts(test: PathTest) -> Iterator[str]:
    by_result: dict[tuple[str, str], list[str]] = {}
    for size in test.sizes:
        largest = "no size was answered" if size.largest is None else f"{size.largest} bytes"
        if size.silent:
            largest = "not known: small packets were not answered any more either"
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
        text = _too_big_text(size.too_big)
    if not size.complete and not size.silent:
        text += "; search not finished"
    return text


def _too_big_text(message: IcmpError | None) -> str:
    """What the ICMP message says that a larger packet caused."""
    if message is None:
        return '; larger packets are lost, no ICMP "fragmentation needed"'
    text = f'; ICMP "fragmentation needed" from {clean(message.source)}'
    if message.mtu is not None:
        text += f" (MTU {message.mtu})"
    return text


def _reason(reason: Unreadable) -> str:
    """``needs root (net.ipv4.ping_group_range is 1 0)``"""
    text = "needs root" if reason.reason == "needs_root" else "not available"
    if reason.detail:
        text += f" ({clean(reason.detail)})"
    return text
