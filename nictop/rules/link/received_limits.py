"""What drops or limits packets at the ingress of a link: filters of tc, rates of nftables, XDP
programs.

Reads nothing. Sources: tc-police(8), tc-u32(8), nft(8) "limit statement"; kernel
net/sched/act_police.c (drops are counted in the statistics of the action), net/core/dev.c
(do_xdp_generic counts nothing).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from nictop.model.devices.filter_evaluation import chain_text
from nictop.model.devices.ingress_limits import (
    RateRule,
    RedirectLimit,
    TcLimit,
    ingress_limits,
    is_limited_by,
    limit_text,
    rate_rules,
    redirect_limits,
    xdp_drop_counters,
)
from nictop.model.devices.links import has_global_address
from nictop.model.devices.traffic_control import effect_text, qdisc_text
from nictop.model.text import units
from nictop.probe.records import Link, TcFilter
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import Step, command
from nictop.rules.host import DriverCounter, HostFacts
from nictop.rules.profiles.outward import is_outward, leads_to_namespace
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import LOSSES_SLOW_TCP, is_up, link_finding, names_text

MIN_DROPPED_SHARE = 0.001
"""Of the packets that came to a policer."""
MIN_XDP_DROPS = 1.0
"""Per second."""
MIN_XDP_SHARE, MOST_XDP_SHARE = 0.01, 0.5
"""Of the packets that the NIC delivered."""
MAX_SHOWN = 4
ORIGIN_NOTE = (
    "Remove it also where it is configured, or it is created again: a script, tc.tfilters of a "
    "NetworkManager profile, "
    "wondershaper, a post-up line."
)


@host_rule("critical", needs=("qdiscs",), uses=("addresses",))
def received_packets_are_dropped_by_tc(host: HostFacts) -> Outcomes:
    """A filter of tc drops packets of a link: all of them, or those above the rate of a policer.

    nictop reads the filters at the qdiscs ingress and clsact with their actions. Reported: a
    policer that has dropped 0.1 % or more of its packets, and drop for every packet (critical). TCP
    with cubic or reno reaches less than the rate of a policer, because each burst above it is lost.
    No counter of the link shows such drops.

    Reported for links that are up and have a device, or are stacked on one, and for veths with an
    address whose peer is in another network namespace. Not reported: taps and veths of guests,
    whose limits are set by their host, filters that drop some packets only, such as those of a
    firewall, and policers that have dropped nothing.

    Sources: tc-police(8), tc-actions(8).
    """
    for link in _filtered_links(host):
        acting = list(filter(_acts, ingress_limits(link)))
        if acting:
            yield _tc_finding(host, link, acting)


def _filtered_links(host: HostFacts) -> Iterator[Link]:
    """Links with filters of tc that carry traffic of this host."""
    for link in host.links:
        if link.tc_filters and is_up(link) and _carries_own_traffic(host, link):
            yield link


def _carries_own_traffic(host: HostFacts, link: Link) -> bool:
    """Not a port of a guest: it has a device, or is the end of a veth into another namespace that
    has an address."""
    if leads_to_namespace(link) and has_global_address(link):
        return True
    return is_outward(host, link)


def _acts(limit: TcLimit) -> bool:
    if limit.drops_all:
        return limit.filter.protocol in ("all", "ip", "ipv6")
    action = limit.action
    if action.kind != "police" or not action.dropped:
        return False
    return action.packets is None or action.dropped >= MIN_DROPPED_SHARE * action.packets


def _tc_finding(host: HostFacts, link: Link, acting: Sequence[TcLimit]) -> Finding:
    first = next((limit for limit in acting if limit.drops_all), acting[0])
    severity: Severity
    if first.drops_all:
        severity = "critical"
        title, why = _drops_all_texts(first)
    else:
        severity = "warning"
        title = (
            f"a tc policer limits what it {_verb(first)} to "
            f"{units.bits_per_second(first.action.rate)}: "
            f"{units.count(first.action.dropped)} packets dropped in total"
        )
        why = DROPPED_NOT_DELAYED
    show = command("tc", "-s", "filter", "show", "dev", link.name, first.filter.hook)
    shown = acting[:MAX_SHOWN]
    note = f"Nothing restores it: note it before. {ORIGIN_NOTE}"
    if any(_has_neighbours(link, limit.filter) for limit in shown):
        note = f"Deletes all filters of this protocol and preference. {note}"
    remove = tuple(_delete(link, limit) for limit in shown)
    return link_finding(
        severity,
        host,
        link,
        title,
        evidence=tuple(_limit_evidence(limit, str(show)) for limit in shown),
        why=why,
        fixes=(
            Fix("here", "Delete the filter", remove, False, (), note),
            Fix("here", "Show the filters and their statistics", (show,)),
        ),
    )


def _verb(limit: TcLimit) -> str:
    return "sends" if limit.filter.hook == "egress" else "receives"


def _drops_all_texts(limit: TcLimit) -> tuple[str, str]:
    """(title, why)"""
    what = f"all {limit.filter.protocol} packets"
    if limit.filter.protocol == "all":
        what = "everything"
    why = "Nothing of it leaves this host."
    if limit.filter.hook == "ingress":
        why = "Nothing of it comes to the network stack of this host."
    return f"a tc filter drops {what} that it {_verb(limit)}", why


def _limit_evidence(limit: TcLimit, source: str) -> Evidence:
    dropped, packets = units.count(limit.action.dropped or 0), units.count(limit.action.packets)
    text = f"{limit_text(limit)}, {dropped} of {packets} dropped in total"
    return Evidence(f"tc filter at {limit.filter.hook}", text, source)


def _delete(link: Link, limit: TcLimit) -> Step:
    return command("tc", "filter", "del", *_place(link, limit.filter))


def _has_neighbours(link: Link, tc_filter: TcFilter) -> bool:
    """Other filters have its place, by which tc(8) deletes."""
    place = _place(link, tc_filter)
    return sum(_place(link, other) == place for other in link.tc_filters) > 1


def _place(link: Link, tc_filter: TcFilter) -> tuple[str, ...]:
    """Words of tc(8) that name the filter."""
    protocol, priority = tc_filter.protocol, str(tc_filter.priority)
    return "dev", link.name, tc_filter.hook, "protocol", protocol, "pref", priority


@host_rule("warning", needs=("qdiscs",), yields_to=("received_packets_are_dropped_by_tc",))
def received_packets_are_shaped(host: HostFacts) -> Outcomes:
    """What a link receives is redirected to another one, whose queueing discipline delays, drops or
    limits it.

    Received packets cannot be queued: to shape them, a tc filter at ingress redirects them to an
    ifb, and tbf, htb, cake or netem acts there. nictop reads the filters at ingress for every
    packet, and the qdisc of their target.

    Reported for links that are up and have a device, or are stacked on one, and for veths with an
    address whose peer is in another network namespace. Not reported: limits that are not below the
    link speed, filters for some packets only, and taps and veths of guests, whose limits are set by
    their host.

    Sources: tc-mirred(8); kernel drivers/net/ifb.c; magnific0/wondershaper issue 100.
    """
    for link in _filtered_links(host):
        limit = next(iter(redirect_limits(link, host.snapshot)), None)
        if limit is not None:
            yield _shaped_finding(host, link, limit)


def _shaped_finding(host: HostFacts, link: Link, limit: RedirectLimit) -> Finding:
    tc_filter, target = limit.filter, limit.target
    show = command("tc", "-s", "filter", "show", "dev", link.name, tc_filter.hook)
    qdiscs = command("tc", "-s", "qdisc", "show", "dev", target.name)
    place = _place(link, tc_filter)
    delete = command("tc", "filter", "del", *place)
    match_all: tuple[str, ...] = (tc_filter.kind,)
    if tc_filter.kind == "u32":
        match_all = ("u32", "match", "u32", "0", "0")
    redirect = ("action", "mirred", "egress", "redirect", "dev", target.name)
    undo = command("tc", "filter", "add", *place, *match_all, *redirect)
    name = qdisc_text(limit.qdisc)
    counted = ""
    if limit.qdisc.dropped:
        counted = f", {units.count(limit.qdisc.dropped)} packets dropped in total"
    redirects = f"{tc_filter.kind}, redirects to {target.name}"
    return link_finding(
        "warning",
        host,
        link,
        f"what it receives passes {target.name}: {name}",
        evidence=(
            Evidence(f"tc filter at {tc_filter.hook}", redirects, str(show)),
            Evidence(f"qdisc of {target.name}", f"{name}{counted}", str(qdiscs)),
        ),
        why=f"The qdisc of {target.name} {effect_text(limit.qdisc)}: everything that the link "
        f"receives, whatever the capacity of the network.",
        fixes=(
            Fix("here", "Delete the filter", (delete,), False, (undo,), ORIGIN_NOTE),
            Fix("here", "Show the filter and the qdisc", (show, qdiscs)),
        ),
    )


@host_rule("warning", uses=("addresses", "filters"))
def packet_filter_limits_the_rate(host: HostFacts) -> Outcomes:
    """A rule of the packet filter drops everything above a rate, whatever it is.

    nictop reads rules of nftables with a rate (limit rate over) at the hooks ingress, prerouting,
    input, forward and output, and matches of iptables with a rate. A warning if the rule has
    counted packets; info if it has no counter. A rule at forward is about what the host forwards;
    one that names no link about all links together, which share the rate.

    Not reported: rules behind others of their chain that accept some packets or call another chain,
    rules in called chains, rules for an address, a protocol, a port or a state, which protect a
    service, rules that have dropped nothing, and rules for links that are down or belong to guests.

    Source: nft(8), limit statement.
    """
    for limit in rate_rules(host.snapshot):
        if not limit.is_plain or limit.rule.packets == 0:
            continue
        link = _limited_link(host, limit)
        if link is not None:
            yield _rate_finding(host, link, limit)


def _limited_link(host: HostFacts, limit: RateRule) -> Link | None:
    """The first with an address of those that the rule limits, else the first."""
    links = []
    for link in host.links:
        if not is_up(link) or not is_limited_by(limit, link):
            continue
        if _carries_own_traffic(host, link):
            links.append(link)
    with_address = list(filter(has_global_address, links))
    return next(iter([*with_address, *links]), None)


def _rate_finding(host: HostFacts, link: Link, limit: RateRule) -> Finding:
    chain, packets = limit.chain, limit.rule.packets
    what = _limited_packets(limit)
    counted = f": {units.count(packets)} packets dropped in total" if packets else ""
    name = chain_text(chain)
    show = command("nft", "-a", "list", "chain", chain.family, chain.table, chain.name)
    if name.startswith("ip"):
        show = command(name.split(" ")[0], "-nvL", chain.name)
    effect = f"limit {limit.rate}, {limit.rule.verdict}{counted}"
    return link_finding(
        "warning" if packets else "info",
        host,
        link,
        f"a rule of {name} limits what {what} to {limit.rate}{counted}",
        evidence=(Evidence(name, effect, str(show)),),
        why=DROPPED_NOT_DELAYED,
        fixes=(
            Fix(
                "here",
                "Show the rule, then delete it or raise its rate",
                (show,),
                note="Change it also where it is configured: /etc/nftables.conf, a script, a "
                "firewall.",
            ),
        ),
    )


LIMITED_PACKETS = {
    "ingress": "it receives",
    "prerouting": "it receives",
    "input": "it receives for this host",
    "output": "this host sends by it",
    "postrouting": "it sends",
    "nat": "it sends",
}
"""Hook → the packets that a rule for a link is about (nf_inet_hooks of linux/netfilter.h)."""
LIMITED_PACKETS_OF_ALL = {
    "prerouting": "all links together receive",
    "input": "all links together receive for this host",
    "forward": "this host forwards between all links together",
    "output": "this host sends by all links together",
    "postrouting": "all links together send",
    "nat": "all links together send",
}
"""The same of a rule that names no link: they share the rate."""


def _limited_packets(limit: RateRule) -> str:
    """``it receives``, ``this host forwards from ens1 to ens2``"""
    hook = limit.chain.hook
    if not limit.names_links:
        return LIMITED_PACKETS_OF_ALL.get(hook, "passes")
    if hook != "forward":
        return LIMITED_PACKETS.get(hook, "passes")
    words = [f"{place} {names_text(names, MAX_SHOWN)}" for place, names in _named_links(limit)]
    return " ".join(["this host forwards", *words])


def _named_links(limit: RateRule) -> Iterator[tuple[str, tuple[str, ...]]]:
    for condition in limit.rule.conditions:
        if condition.what in PLACES and not condition.negated:
            yield PLACES[condition.what], condition.values


PLACES = {"in": "from", "out": "to"}
DROPPED_NOT_DELAYED = f"Packets above the rate are dropped, not delayed. {LOSSES_SLOW_TCP}"


@host_rule(
    "warning",
    uses=(
        "counters.links",
        "counters.driver",
        "ethtool.driver_counter_names",
        "ethtool.driver_counters",
    ),
)
def xdp_program_drops_packets(host: HostFacts) -> Outcomes:
    """An XDP program drops packets of a NIC before the host sees them.

    nictop reads the drivers' counters of packets that XDP dropped (rx_xdp_drop,
    rx_queue_0_xdp_drops, …) while the link is watched: a warning for half of the received packets
    or more over the window, info for 1 % or more.

    Not reported: programs that drop little, as those of Cilium and Katran do, and programs in
    generic mode or of drivers without such a counter, whose drops nothing counts.

    Sources: kernel drivers/net/virtio_net.c, drivers/net/veth.c, mellanox/mlx5/counters.rst.
    """
    for link in host.links:
        counter = _xdp_drops(host, link)
        rate = 0.0 if counter is None else counter.rate or 0.0
        if counter is None or rate < MIN_XDP_DROPS:
            continue
        received = host.known_link_rate(link, attrgetter("rx_packets"))
        if rate < MIN_XDP_SHARE * received:
            continue
        is_large = rate >= MOST_XDP_SHARE * max(received, rate)
        total = f"{units.count(counter.total)} in total"
        program = f"id {link.xdp_program}, {link.xdp}"
        yield link_finding(
            "warning" if is_large else "info",
            host,
            link,
            f"an XDP program drops {units.packets_per_second(rate)} that it receives",
            evidence=(
                Evidence(counter.name, total, f"ethtool -S {link.name}"),
                Evidence("received", units.packets_per_second(received), "RTM_GETSTATS"),
                Evidence("XDP program", program, f"ip link show dev {link.name}"),
            ),
            why="The packets never come to the network stack: no firewall rule and no socket "
            "counts them.",
            fixes=(_xdp_fix(link),),
        )


def _xdp_drops(host: HostFacts, link: Link) -> DriverCounter | None:
    if link.xdp is None:
        return None
    return host.driver_sum(link, xdp_drop_counters(link))


def _xdp_fix(link: Link) -> Fix:
    commands: tuple[Step, ...] = ()
    if link.xdp_program:
        commands = (command("bpftool", "prog", "show", "id", str(link.xdp_program)),)
    off = "xdpgeneric" if link.xdp == "generic" else "xdp"
    note = (
        "A load balancer or a protection against attacks drops on purpose. "
        f"ip link set dev {link.name} {off} off removes the program."
    )
    return Fix("here", "Show the program, and what has loaded it", commands, note=note)
