"""What drops or limits packets at the ingress of a link: filters of tc, rates of nftables, XDP programs.

Reads nothing. Sources: tc-police(8), tc-u32(8), nft(8) "limit statement"; kernel net/sched/act_police.c (drops are
counted in the statistics of the action), net/core/dev.c (do_xdp_generic counts nothing).
"""

from __future__ import annotations

from collections.abc import Sequence

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
from nictop.model.devices.traffic_control import effect_text, qdisc_text
from nictop.model.text import units
from nictop.model.text.words import IFF_UP
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import Step, command
from nictop.rules.fixes.profiles import has_address
from nictop.rules.host import HostFacts
from nictop.rules.profiles.outward import is_outward
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding

MIN_DROPPED_SHARE = 0.001
"""Of the packets that came to a policer."""
MIN_XDP_DROPS = 1.0
"""Per second."""
MIN_XDP_SHARE, MOST_XDP_SHARE = 0.01, 0.5
"""Of the packets that the NIC delivered."""
MAX_SHOWN = 4
ORIGIN_NOTE = (
    "Remove it also where it is configured, or it is created again: a script, tc.tfilters of a NetworkManager profile, "
    "wondershaper, a post-up line."
)


@host_rule("link and path", "critical", needs=("qdiscs",), uses=("addresses",))
def received_packets_are_dropped_by_tc(host: HostFacts) -> Outcomes:
    """A filter of tc drops packets of a link: all of them, or those above the rate of a policer.

    nictop reads the filters at the qdiscs ingress and clsact with their actions. Reported: a policer that has dropped
    0.1 % or more of its packets, and drop for every packet (critical). TCP reaches less than the rate of a policer,
    because each burst above it is lost. No counter of the link shows such drops.

    Reported for links that are up and have a device, or are stacked on one, and for veths with an address whose peer is
    in another network namespace. Not reported: taps and veths of guests, whose limits are set by their host, filters
    that drop some packets only, such as those of a firewall, and policers that have dropped nothing.

    Sources: tc-police(8), tc-actions(8).
    """
    for link in host.links:
        if not link.tc_filters or not link.flags & IFF_UP:
            continue
        if not _carries_own_traffic(host, link):
            continue
        acting = [one for one in ingress_limits(link) if _acts(one)]
        if acting:
            yield _tc_finding(host, link, acting)


def _carries_own_traffic(host: HostFacts, link: Link) -> bool:
    """Not a port of a guest: it has a device, or is the end of a veth into another namespace that has an address."""
    is_container_end = link.kind == "veth" and link.lower_namespace is not None and has_address(link)
    return is_container_end or is_outward(host, link)


def _acts(limit: TcLimit) -> bool:
    if limit.drops_all:
        return limit.filter.protocol in ("all", "ip", "ipv6")
    action = limit.action
    if action.kind != "police" or not action.dropped:
        return False
    return action.packets is None or action.dropped >= MIN_DROPPED_SHARE * action.packets


def _tc_finding(host: HostFacts, link: Link, acting: Sequence[TcLimit]) -> Finding:
    first = next((one for one in acting if one.drops_all), acting[0])
    verb = "sends" if first.filter.hook == "egress" else "receives"
    if first.drops_all:
        what = "everything" if first.filter.protocol == "all" else f"all {first.filter.protocol} packets"
        title = f"a tc filter drops {what} that it {verb}"
    else:
        title = (
            f"a tc policer limits what it {verb} to {units.bits_per_second(first.action.rate)}: "
            f"{units.count(first.action.dropped)} packets dropped"
        )
    shown = command("tc", "-s", "filter", "show", "dev", link.name, first.filter.hook)
    evidence = [
        Evidence(
            f"tc filter at {one.filter.hook}",
            f"{limit_text(one)}, {units.count(one.action.dropped or 0)} of {units.count(one.action.packets)} dropped",
            str(shown),
        )
        for one in acting[:MAX_SHOWN]
    ]
    remove = tuple(_delete(link, one) for one in acting[:MAX_SHOWN])
    return link_finding(
        "critical" if first.drops_all else "warning",
        host,
        link,
        title,
        evidence=tuple(evidence),
        why="Packets above the rate are dropped, not delayed: TCP slows down at each of them."
        if not first.drops_all
        else "Nothing of it comes to the network stack of this host."
        if first.filter.hook == "ingress"
        else "Nothing of it leaves this host.",
        fixes=(
            Fix("here", "Delete the filter", remove, False, (), f"Nothing restores it: note it before. {ORIGIN_NOTE}"),
            Fix("here", "Show the filters and their statistics", (shown,)),
        ),
    )


def _delete(link: Link, limit: TcLimit) -> Step:
    one = limit.filter
    where = ("dev", link.name, one.hook, "protocol", one.protocol, "pref", str(one.priority))
    return command("tc", "filter", "del", *where)


@host_rule("link and path", "warning", needs=("qdiscs",), yields_to=("received_packets_are_dropped_by_tc",))
def received_packets_are_shaped(host: HostFacts) -> Outcomes:
    """What a link receives is redirected to another one, whose queueing discipline delays, drops or limits it.

    Received packets cannot be queued: to shape them, a tc filter at ingress redirects them to an ifb, and tbf, htb,
    cake or netem acts there. nictop reads the filters at ingress for every packet, and the qdisc of their target.

    Reported for links that are up and have a device, or are stacked on one, and for veths with an address whose peer is
    in another network namespace. Not reported: limits that are not below the link speed, filters for some packets only,
    and taps and veths of guests, whose limits are set by their host.

    Sources: tc-mirred(8); kernel drivers/net/ifb.c; magnific0/wondershaper issue 100.
    """
    for link in host.links:
        if not link.tc_filters or not link.flags & IFF_UP or not _carries_own_traffic(host, link):
            continue
        for found in redirect_limits(link, host.snapshot):
            yield _shaped_finding(host, link, found)
            break


def _shaped_finding(host: HostFacts, link: Link, found: RedirectLimit) -> Finding:
    one, target = found.filter, found.target
    shown = command("tc", "-s", "filter", "show", "dev", link.name, one.hook)
    qdiscs = command("tc", "-s", "qdisc", "show", "dev", target.name)
    where = ("dev", link.name, one.hook, "protocol", one.protocol, "pref", str(one.priority))
    delete = command("tc", "filter", "del", *where)
    back = ("u32", "match", "u32", "0", "0") if one.kind == "u32" else (one.kind,)
    redirect = ("action", "mirred", "egress", "redirect", "dev", target.name)
    undo = command("tc", "filter", "add", *where, *back, *redirect)
    dropped = found.qdisc.dropped
    counted = f", {units.count(dropped)} packets dropped" if dropped else ""
    return link_finding(
        "warning",
        host,
        link,
        f"what it receives passes {target.name}: {qdisc_text(found.qdisc)}",
        evidence=(
            Evidence(f"tc filter at {one.hook}", f"{one.kind}, redirects to {target.name}", str(shown)),
            Evidence(f"qdisc of {target.name}", f"{qdisc_text(found.qdisc)}{counted}", str(qdiscs)),
        ),
        why=f"The qdisc of {target.name} {effect_text(found.qdisc)}: everything that the link receives, whatever the "
        "capacity of the network.",
        fixes=(
            Fix("here", "Delete the filter", (delete,), False, (undo,), ORIGIN_NOTE),
            Fix("here", "Show the filter and the qdisc", (shown, qdiscs)),
        ),
    )


@host_rule("link and path", "warning", uses=("addresses", "filters"))
def packet_filter_limits_the_rate(host: HostFacts) -> Outcomes:
    """A rule of the packet filter drops everything above a rate, whatever it is.

    nictop reads rules of nftables with a rate (limit rate over) at the hooks ingress, prerouting, input, forward and
    output, and matches of iptables with a rate. A warning if the rule has counted packets; info if it has no counter.

    Not reported: rules for an address, a protocol, a port or a state, which protect a service, rules that have dropped
    nothing, and rules for links that are down or belong to guests.

    Source: nft(8), limit statement.
    """
    plain = [one for one in rate_rules(host.snapshot) if one.is_plain and one.rule.packets != 0]
    for one in plain:
        links = [link for link in host.links if link.flags & IFF_UP and is_limited_by(one, link)]
        named = [link for link in links if _carries_own_traffic(host, link)]
        link = next((link for link in named if has_address(link)), named[0] if named else None)
        if link is not None:
            yield _rate_finding(host, link, one)


def _rate_finding(host: HostFacts, link: Link, one: RateRule) -> Finding:
    verb = "sends" if one.chain.hook in ("output", "postrouting") else "receives"
    counted = f": {units.count(one.rule.packets)} packets dropped" if one.rule.packets else ""
    chain = one.chain
    shown = command("nft", "-a", "list", "chain", chain.family, chain.table, chain.name)
    if chain_text(chain).startswith("ip"):
        shown = command(chain_text(chain).split(" ")[0], "-nvL", chain.name)
    return link_finding(
        "warning" if one.rule.packets else "info",
        host,
        link,
        f"a rule of {chain_text(chain)} limits what it {verb} to {one.rate}{counted}",
        evidence=(Evidence(chain_text(chain), f"limit {one.rate}, {one.rule.verdict}{counted}", str(shown)),),
        why="Packets above the rate are dropped, not delayed: TCP slows down at each of them.",
        fixes=(
            Fix(
                "here",
                "Show the rule, then delete it or raise its rate",
                (shown,),
                note="Change it also where it is configured: /etc/nftables.conf, a script, a firewall.",
            ),
        ),
    )


@host_rule(
    "link and path",
    "warning",
    uses=("counters.links", "counters.driver", "ethtool.driver_counter_names", "ethtool.driver_counters"),
)
def xdp_program_drops_packets(host: HostFacts) -> Outcomes:
    """An XDP program drops packets of a NIC before the host sees them.

    nictop reads the drivers' counters of packets that XDP dropped (rx_xdp_drop, rx_queue_0_xdp_drops, …) while the link
    is watched: a warning for half of the received packets or more over the window, info for 1 % or more.

    Not reported: programs that drop little, as those of Cilium and Katran do, and programs in generic mode or of
    drivers without such a counter, whose drops nothing counts.

    Sources: kernel drivers/net/virtio_net.c, drivers/net/veth.c, mellanox/mlx5/counters.rst.
    """
    for link in host.links:
        names = xdp_drop_counters(link) if link.xdp is not None else ()
        counter = host.driver_sum(link, names) if names else None
        if counter is None or (counter.rate or 0.0) < MIN_XDP_DROPS:
            continue
        rate = counter.rate or 0.0
        received = host.link_rate(link, lambda one: one.rx_packets) or 0.0
        if rate < MIN_XDP_SHARE * received:
            continue
        program = f"bpftool prog show id {link.xdp_program}" if link.xdp_program else f"ip link show dev {link.name}"
        off = "xdpgeneric" if link.xdp == "generic" else "xdp"
        yield link_finding(
            "warning" if rate >= MOST_XDP_SHARE * max(received, rate) else "info",
            host,
            link,
            f"an XDP program drops {units.packets_per_second(rate)} that it receives",
            evidence=(
                Evidence(counter.name, f"{units.count(counter.total)} in total", f"ethtool -S {link.name}"),
                Evidence("received", units.packets_per_second(received), "RTM_GETSTATS"),
                Evidence("XDP program", f"id {link.xdp_program}, {link.xdp}", f"ip link show dev {link.name}"),
            ),
            why="The packets never come to the network stack: no firewall rule and no socket counts them.",
            fixes=(
                Fix(
                    "here",
                    "Show the program, and what has loaded it",
                    (command(*program.split(" ")),) if link.xdp_program else (),
                    note="A load balancer or a protection against attacks drops on purpose. "
                    f"ip link set dev {link.name} {off} off removes the program.",
                ),
            ),
        )
