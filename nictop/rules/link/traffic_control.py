"""Queueing disciplines that delay, drop or limit what a link sends."""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.devices.traffic_control import effect_text, impairs, qdisc_arguments, qdisc_text
from nictop.model.text import units
from nictop.model.text.words import IFF_UP
from nictop.probe.records import Link, Qdisc
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import Command, command
from nictop.rules.fixes.profiles import has_address
from nictop.rules.host import HostFacts
from nictop.rules.profiles.outward import is_outward
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding

MAX_QDISCS = 4
CLASSFUL_QDISCS = ("htb", "hfsc")
ORIGIN_NOTE = (
    "Remove it also where it is configured, or it is created again: a script, tc.qdiscs of a NetworkManager profile, a "
    ".network file, a tool such as wondershaper."
)


@host_rule("link and path", "warning", needs=("qdiscs",), uses=("addresses",))
def traffic_control_holds_back(host: HostFacts) -> Outcomes:
    """A queueing discipline (qdisc) of a link delays or drops packets, or limits the rate below the link speed.

    nictop reads the settings of tc: netem (delay, loss, duplicates, reordering, a rate), tbf, htb, hfsc, cake with a
    bandwidth, fq with maxrate. They apply to sent packets only. A forgotten test is the usual cause.

    Reported for links that are up and have a device, or are stacked on one, and for veths with an address whose peer is
    in another network namespace. Not reported: limits that are not below the link speed, and taps and veths of guests,
    whose limits are set by their host. Info: htb without a default class, which limits only what its filters select.

    Sources: tc-netem(8), tc-tbf(8), tc-htb(8), tc-hfsc(8), tc-fq(8), tc-cake(8).
    """
    for link in host.links:
        into_namespace = link.kind == "veth" and link.lower_namespace is not None and has_address(link)
        if not link.flags & IFF_UP or not (is_outward(host, link) or into_namespace):
            continue
        speed = link.ethtool.settings.speed if link.ethtool.settings is not None and not into_namespace else None
        acting = [one for one in link.traffic_control if impairs(one, speed)]
        if not acting:
            continue
        first = max(acting, key=_weight)
        yield link_finding(
            "warning" if any(one.limits_all for one in acting) else "info",
            host,
            link,
            f"{effect_text(first)}: {qdisc_text(first)}",
            evidence=tuple(_evidence(link, acting)),
            why="It applies to all packets sent through the link, whatever the capacity of the network."
            if first.parent is None and first.limits_all
            else "It applies to the packets of its class, whatever the capacity of the network.",
            fixes=(_remove(link, acting), _inspect(link, acting)),
        )


def _evidence(link: Link, acting: list[Qdisc]) -> Iterator[Evidence]:
    source = str(_show_qdiscs(link))
    for one in acting[:MAX_QDISCS]:
        what = "root qdisc" if one.parent is None else f"qdisc of class {one.parent}"
        yield Evidence(what, qdisc_text(one), source)
        if one.dropped:
            yield Evidence(f"dropped by {one.kind}", f"{units.count(one.dropped)} packets", source)


def _weight(qdisc: Qdisc) -> tuple[bool, int]:
    """Delays and losses before limits, and the lowest limit first."""
    return qdisc.kind == "netem", -(qdisc.rate or 0)


def _show_qdiscs(link: Link) -> Command:
    return command("tc", "-s", "qdisc", "show", "dev", link.name)


def _remove(link: Link, acting: list[Qdisc]) -> Fix:
    """Deleting the root qdisc deletes its children."""
    roots = [one for one in acting if one.parent is None]
    gone = roots or acting[:MAX_QDISCS]
    where = [("root",) if one.parent is None else ("parent", one.parent) for one in gone]
    undo = [
        command("tc", "qdisc", "add", "dev", link.name, *place, *words)
        for place, one in zip(where, gone, strict=True)
        if (words := qdisc_arguments(one)) is not None
    ]
    return Fix(
        "here",
        "Remove the qdisc",
        tuple(command("tc", "qdisc", "del", "dev", link.name, *place) for place in where),
        False,
        tuple(undo) if gone == acting and len(undo) == len(gone) else (),
        ORIGIN_NOTE,
    )


def _inspect(link: Link, acting: list[Qdisc]) -> Fix:
    lines = [_show_qdiscs(link)]
    if any(one.kind in CLASSFUL_QDISCS for one in acting):
        lines.append(command("tc", "-s", "class", "show", "dev", link.name))
    note = "delayed, dropped and overlimits count affected packets."
    return Fix("here", "Show qdisc statistics", tuple(lines), note=note)
