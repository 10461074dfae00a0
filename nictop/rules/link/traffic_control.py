"""Queueing disciplines that delay, drop or limit what a link sends."""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.devices.links import has_global_address
from nictop.model.devices.traffic_control import effect_text, impairs, qdisc_arguments, qdisc_text
from nictop.model.text import units
from nictop.probe.records import Link, Qdisc
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import Command, command
from nictop.rules.host import HostFacts
from nictop.rules.profiles.outward import is_outward, leads_to_namespace
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_up, link_finding

MAX_QDISCS = 4
CLASSFUL_QDISCS = ("htb", "hfsc")
ORIGIN_NOTE = (
    "Remove it also where it is configured, or it is created again: a script, tc.qdiscs of a "
    "NetworkManager profile, a "
    ".network file, a tool such as wondershaper."
)
BURST_NOTE = (
    "The kernel keeps the burst as a time, and tc shows it rounded down: the undo sets the same "
    "time, with a number of bytes that may differ from what was typed."
)
"""net/sched/sch_tbf.c, iproute2 tc/tc_core.c tc_core_tick2time."""


@host_rule("warning", needs=("qdiscs",), uses=("addresses",))
def traffic_control_holds_back(host: HostFacts) -> Outcomes:
    """A queueing discipline (qdisc) of a link delays or drops packets, or limits the rate below the
    link speed.

    nictop reads the settings of tc: netem (delay, loss, duplicates, reordering, a rate), tbf, htb,
    hfsc, cake with a bandwidth, fq with maxrate. They apply to sent packets only. A forgotten test
    is the usual cause.

    Reported for links that are up and have a device, or are stacked on one, and for veths with an
    address whose peer is in another network namespace. Not reported: limits that are not below the
    link speed, and taps and veths of guests, whose limits are set by their host. Info: htb without
    a default class, which limits only what its filters select.

    Sources: tc-netem(8), tc-tbf(8), tc-htb(8), tc-hfsc(8), tc-fq(8), tc-cake(8).
    """
    for link in host.links:
        acting = _acting(host, link)
        if not acting:
            continue
        first = max(acting, key=_weight)
        packets = "the packets of its class"
        if first.parent is None and first.limits_all:
            packets = "all packets sent through the link"
        yield link_finding(
            "warning" if any(qdisc.limits_all for qdisc in acting) else "info",
            host,
            link,
            f"{effect_text(first)}: {qdisc_text(first)}",
            evidence=tuple(_evidence(link, acting)),
            why=f"It applies to {packets}, whatever the capacity of the network.",
            fixes=(_remove(link, acting), _inspect(link, acting)),
        )


def _acting(host: HostFacts, link: Link) -> list[Qdisc]:
    """The queueing disciplines that hold back what the host sends to the network, or into another
    network namespace; []: none, or the link does not lead there."""
    if not link.traffic_control or not is_up(link):
        return []
    if leads_to_namespace(link) and has_global_address(link):
        speed = None  # what veth reports limits nothing
    elif is_outward(host, link):
        speed = _speed(link)
    else:
        return []
    return [qdisc for qdisc in link.traffic_control if impairs(qdisc, speed)]


def _speed(link: Link) -> int | None:
    """Mb/s; None: not known."""
    settings = link.ethtool.settings
    if settings is None:
        return None
    return settings.speed


def _evidence(link: Link, acting: list[Qdisc]) -> Iterator[Evidence]:
    source = str(_show_qdiscs(link))
    for qdisc in acting[:MAX_QDISCS]:
        what = "root qdisc" if qdisc.parent is None else f"qdisc of class {qdisc.parent}"
        yield Evidence(what, qdisc_text(qdisc), source)
        if qdisc.dropped:
            dropped = f"{units.count(qdisc.dropped)} packets in total"
            yield Evidence(f"dropped by {qdisc.kind}", dropped, source)


def _weight(qdisc: Qdisc) -> tuple[bool, int]:
    """Delays and losses before limits, and the lowest limit first."""
    return qdisc.kind == "netem", -(qdisc.rate or 0)


def _show_qdiscs(link: Link) -> Command:
    return command("tc", "-s", "qdisc", "show", "dev", link.name)


def _remove(link: Link, acting: list[Qdisc]) -> Fix:
    """Deleting the root qdisc deletes its children."""
    roots = [qdisc for qdisc in acting if qdisc.parent is None]
    gone = roots or acting[:MAX_QDISCS]
    delete = []
    undo = []
    for qdisc in gone:
        place = ("root",) if qdisc.parent is None else ("parent", qdisc.parent)
        delete.append(command("tc", "qdisc", "del", "dev", link.name, *place))
        words = qdisc_arguments(qdisc)
        if words is not None:
            undo.append(command("tc", "qdisc", "add", "dev", link.name, *place, *words))
    is_complete = gone == acting and len(undo) == len(gone)
    notes = [ORIGIN_NOTE]
    if is_complete and any(qdisc.kind == "tbf" for qdisc in gone):
        notes.insert(0, BURST_NOTE)
    return Fix(
        "here",
        "Remove the qdisc",
        tuple(delete),
        False,
        tuple(undo) if is_complete else (),
        " ".join(notes),
    )


def _inspect(link: Link, acting: list[Qdisc]) -> Fix:
    lines = [_show_qdiscs(link)]
    if any(qdisc.kind in CLASSFUL_QDISCS for qdisc in acting):
        lines.append(command("tc", "-s", "class", "show", "dev", link.name))
    note = "delayed, dropped and overlimits count affected packets."
    return Fix("here", "Show qdisc statistics", tuple(lines), note=note)
