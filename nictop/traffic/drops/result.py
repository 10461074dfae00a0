"""What a host dropped, judged: what each reason means, the NIC, the findings that explain it, and
the next commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import DropFlow, DropGroup, DropReport, Link
from nictop.rules.finding import Finding
from nictop.rules.fixes.commands import Step, command
from nictop.traffic.drops.reasons import NO_REASON, Kind, Reason, Words, reason_of

KINDS: tuple[Kind, ...] = ("loss", "unclear", "expected")


@dataclass(frozen=True)
class DropRow:
    """Packets that were dropped for one reason, at one place, of one NIC."""

    reason: str
    """Name in the kernel; "": none is reported."""
    place: str
    """Function of the kernel, or trap of the device."""
    kind: Kind
    meaning: str
    nic: str
    """Name of the NIC that received the packets, or that sent them; "": not known."""
    direction: str
    """``rx``, ``tx`` or "": not known."""
    certain: bool
    """False: `nic` may be the name of another NIC, because the host has several network
    namespaces."""
    packets: int
    bytes: int
    per_second: float
    flows: tuple[DropFlow, ...]
    """Those with most packets."""
    rules: tuple[str, ...]
    """Rules that explain it."""
    findings: tuple[Finding, ...]
    """What these rules find on this host now."""
    commands: tuple[Step, ...]
    """To look at next, if there is no finding."""


@dataclass(frozen=True)
class DropsResult:
    """What one host dropped."""

    host: str
    wall: float
    """Seconds since the epoch at the start."""
    report: DropReport
    rows: tuple[DropRow, ...]
    """Loss first, then by packets."""


def drop_rows(
    report: DropReport, snapshot: Snapshot, findings: Iterable[Finding] = ()
) -> tuple[DropRow, ...]:
    """`findings`: those of this host."""
    found = tuple(findings)
    rows = [_row(group, report, snapshot, found) for group in report.groups]
    return tuple(sorted(rows, key=lambda row: (KINDS.index(row.kind), -row.packets)))


def _row(
    group: DropGroup, report: DropReport, snapshot: Snapshot, findings: tuple[Finding, ...]
) -> DropRow:
    reason = reason_of(group)
    link, certain = _link(group, report, snapshot)
    certain_link = link if certain else None
    ifindexes = (None, certain_link.ifindex if certain_link is not None else None)
    explaining = []
    for finding in findings:
        if finding.rule in reason.rules and finding.ifindex in ifindexes:
            explaining.append(finding)
    return DropRow(
        reason="" if group.reason in NO_REASON else group.reason,
        place=group.place,
        kind=reason.kind,
        meaning=reason.meaning,
        nic=link.name if link is not None else "",
        direction=_direction(group, link),
        certain=certain,
        packets=group.packets,
        bytes=group.bytes,
        per_second=group.packets / report.seconds if report.seconds > 0 else 0.0,
        flows=group.flows,
        rules=reason.rules,
        findings=tuple(explaining),
        commands=tuple(_commands(reason, group, certain_link)),
    )


def _direction(group: DropGroup, link: Link | None) -> str:
    if group.ifindex is not None:
        return "rx"
    return "tx" if link is not None else ""


def _link(group: DropGroup, report: DropReport, snapshot: Snapshot) -> tuple[Link | None, bool]:
    """The NIC, and whether it is certain: an ifindex means different NICs in different network
    namespaces."""
    if group.ifindex is None:
        link = _link_with_address(group.mac, snapshot)
        return link, link is not None
    link = snapshot.links.get(group.ifindex)
    if link is None:
        return None, False
    return link, not report.namespaces or link.address == group.mac


def _link_with_address(mac: str | None, snapshot: Snapshot) -> Link | None:
    """Of links with the same address (bond and port, bridge and port), the one that programs
    use."""
    if mac is None:
        return None
    own = [link for link in snapshot.links.values() if link.address == mac]
    return min(
        own,
        key=lambda link: (link.master is not None, not link.addresses, link.ifindex),
        default=None,
    )


def _commands(reason: Reason, group: DropGroup, link: Link | None) -> Iterator[Step]:
    values = {}
    if link is not None:
        values["nic"] = link.name
    if group.flows:
        flow = group.flows[0]
        if flow.port is not None:
            values["port"] = str(flow.port)
        if not flow.protocol.startswith("0x"):
            values |= {"source": flow.source, "destination": flow.destination}
    for words in reason.commands:
        filled = _filled(words, values)
        if filled is not None:
            yield command(*filled)


def _filled(words: Words, values: dict[str, str]) -> Words | None:
    """None: a value is not known."""
    line = " ".join(words)
    for name in ("nic", "source", "destination", "port"):
        if f"{{{name}}}" in line and not values.get(name):
            return None
    return tuple(_filled_word(word, values) for word in words)


def _filled_word(word: str, values: dict[str, str]) -> str:
    """A dot of a name would separate the parts of a sysctl: sysctl(8) takes a slash for it."""
    if word.startswith("net.") and "nic" in values:
        values = {**values, "nic": values["nic"].replace(".", "/")}
    return word.format(**values)
