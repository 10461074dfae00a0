"""Queueing disciplines that delay, lose or hold back what a link sends."""

from __future__ import annotations

from nictop.model.devices.traffic_control import effect_text, impairs, is_complete, qdisc_text
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
    "It comes back with what made it: a script, tc.qdiscs of a NetworkManager profile, a .network file, a tool such as "
    "wondershaper."
)


@host_rule("link and path", "warning", needs=("qdiscs",), uses=("addresses",))
def traffic_control_holds_back(host: HostFacts) -> Outcomes:
    """A queueing discipline of a link delays or loses packets, or lets less through than the link could send.

    nictop reads what tc has set up: netem (delay, loss, duplicates, reordering, a rate), tbf, htb, hfsc, cake with a
    bandwidth, fq with maxrate. They act on what the host sends only. A forgotten test is the usual reason.

    Reported for links that are up, with a device, or that stand above one, and for veths with an address whose peer is
    in another network namespace. Silent about limits that are not below the speed of the link, and about taps and
    veths of guests, whose limits are set by their host. Info: htb without a default class, which limits only what its
    filters select.

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
            evidence=tuple(
                Evidence(
                    "at the root" if one.parent is None else f"at class {one.parent}",
                    qdisc_text(one),
                    str(_show_qdiscs(link)),
                )
                for one in acting[:MAX_QDISCS]
            ),
            why="Everything that this host sends by the link passes it, whatever the network could do."
            if first.parent is None and first.limits_all
            else "What is sent by its class passes it, whatever the network could do.",
            fixes=(_remove(link, acting), _inspect(link, acting)),
        )


def _weight(qdisc: Qdisc) -> tuple[bool, int]:
    """Delays and losses before limits, and the narrowest of these."""
    return qdisc.kind == "netem", -(qdisc.rate or 0)


def _show_qdiscs(link: Link) -> Command:
    return command("tc", "-s", "qdisc", "show", "dev", link.name)


def _remove(link: Link, acting: list[Qdisc]) -> Fix:
    """The root takes its children with it."""
    roots = [one for one in acting if one.parent is None]
    gone = roots or acting[:MAX_QDISCS]
    where = [("root",) if one.parent is None else ("parent", one.parent) for one in gone]
    undo = [
        command("tc", "qdisc", "add", "dev", link.name, *place, *qdisc_text(one).split())
        for place, one in zip(where, gone, strict=True)
    ]
    return Fix(
        "here",
        "remove it",
        tuple(command("tc", "qdisc", "del", "dev", link.name, *place) for place in where),
        False,
        tuple(undo) if gone == acting and all(map(is_complete, gone)) else (),
        ORIGIN_NOTE,
    )


def _inspect(link: Link, acting: list[Qdisc]) -> Fix:
    lines = [_show_qdiscs(link)]
    if any(one.kind in CLASSFUL_QDISCS for one in acting):
        lines.append(command("tc", "-s", "class", "show", "dev", link.name))
    return Fix("here", "see what it does to packets", tuple(lines), note="delayed, dropped and overlimits count them.")
