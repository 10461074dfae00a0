"""Recent kernel messages about links and the network stack.

Uses the lines that the probe read from /dev/kmsg; without them the rules are skipped.
"""

from __future__ import annotations

import re

from nictop.model.text import units
from nictop.probe.records import KernelMessage, Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command, joined
from nictop.rules.fixes.persistence import sysctl_fixes
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.link.connection_tracking import SOURCE as CONNECTION_COUNTS
from nictop.rules.link.connection_tracking import connection_limit_fixes
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding, link_finding
from nictop.rules.vf.facts import RECENT_SECONDS, is_up, since

ONGOING_SECONDS = 15 * 60.0
"""Seconds since the last message during which the problem counts as ongoing."""
TIMED_OUT = (
    re.compile(r"NETDEV WATCHDOG: (?:CPU: \d+: )?(?P<link>\S{1,64}) \([^)]{0,64}\): .{0,200}timed out"),
    re.compile(r"(?P<link>\S{1,64}): TX timeout on queue"),
    re.compile(r"(?P<link>\S{1,64}): (?:initiating reset due to tx timeout|Detected (?:Tx|Hardware) Unit Hang)"),
    re.compile(
        r"\S{1,64} (?P<device>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]).{0,200}[Dd]etected Tx (?:Unit Hang|hang)"
    ),
)
"""net/sched/sch_generic.c, virtio_net.c, e1000e, igb and ixgbe."""
OWN_ADDRESS = re.compile(
    r"(?P<bridge>\S{1,64}): received packet on (?P<link>\S{1,64}) with own address as source address"
    r"(?: \(addr:(?P<address>[0-9a-f:]{17}))?"
)
"""net/bridge/br_fdb.c, br_fdb_update; the address since 4.18."""
CONNTRACK_TABLE_FULL = re.compile(r"nf_conntrack: table full\b.{0,40}, dropping packet")
"""net/netfilter/nf_conntrack_core.c; some kernels name the network namespace in between."""
NEIGHBOUR_TABLES = {"ipv4": "/proc/net/stat/arp_cache", "ipv6": "/proc/net/stat/ndisc_cache"}

FULL_TABLE_SHARE = 0.75
"""Share of a table's entries below which it no longer counts as full."""


def recent_messages(host: HostFacts, *, within: float = RECENT_SECONDS) -> tuple[KernelMessage, ...]:
    """Lines of the last `within` seconds, oldest first; the clock is that of the inventory."""
    since = host.inventory.time - within
    return tuple(one for one in host.inventory.messages or () if one.time >= since)


def is_no_longer_full(host: HostFacts, *tables: str) -> bool:
    """None of these tables (`Settings.tables`) is full now; False if the size of none of them is known."""
    known = [host.inventory.settings.tables[one] for one in tables if one in host.inventory.settings.tables]
    return bool(known) and all(entries < FULL_TABLE_SHARE * most for entries, most in known)


def table_usage(host: HostFacts, table: str, source: str) -> tuple[Evidence, ...]:
    """Usage of a table now; (): not known."""
    if table not in host.inventory.settings.tables:
        return ()
    entries, most = host.inventory.settings.tables[table]
    return (Evidence("entries in use", f"{entries} of {most}", source),)


def message_evidence(messages: list[KernelMessage], host: HostFacts) -> tuple[Evidence, ...]:
    """The newest message, and how many there were."""
    newest = messages[-1]
    ago = units.duration(max(0.0, host.inventory.time - newest.time))
    number = f"{ago} ago, {len(messages)} messages in 24 h" if len(messages) > 1 else f"{ago} ago"
    return Evidence("kernel message", newest.text, "/dev/kmsg"), Evidence("last message", number, "/dev/kmsg")


@host_rule("link and path", "critical", uses=("messages",))
def transmit_queue_timed_out(host: HostFacts) -> Outcomes:
    """A transmit queue of a NIC stalled until the kernel's transmit watchdog (NETDEV WATCHDOG) intervened.

    nictop reads the messages of the watchdog ("NETDEV WATCHDOG … timed out") and of drivers (TX timeout, Tx Unit Hang)
    of the last 24 hours and matches them with links by name. Critical when the last one is younger than 15 minutes,
    else warning. The driver resets the NIC each time.

    Not reported when the netdev was created after the last message: the driver has been loaded again since.

    Source: kernel net/sched/sch_generic.c.
    """
    found: dict[int, list[KernelMessage]] = {}
    for message in recent_messages(host):
        link = _timed_out_link(host, message.text)
        if link is not None:
            found.setdefault(link.ifindex, []).append(message)
    for ifindex, every in found.items():
        link = host.snapshot.links[ifindex]
        messages = since(every, link.created)
        if not messages:
            continue
        fresh = messages[-1].time >= host.inventory.time - ONGOING_SECONDS
        yield link_finding(
            "critical" if fresh else "warning",
            host,
            link,
            "transmit queue timed out (NETDEV WATCHDOG)",
            evidence=message_evidence(messages, host),
            why="Nothing is sent while the queue is stalled, and the reset drops queued packets. Causes: the driver, "
            "the firmware, or a hypervisor that does not process the queue.",
            fixes=(
                Fix(
                    "here",
                    "Show related kernel messages",
                    (joined("|", command("dmesg", "-T"), command("grep", "-iE", "watchdog|timeout|hang|reset")),),
                ),
                Fix(
                    "hypervisor",
                    "Check the backend of the NIC",
                    (),
                    note="Hung vhost or QEMU threads, no free memory on the hypervisor, or resets of the physical NIC.",
                )
                if host.is_guest
                else Fix(
                    "firmware",
                    "Update firmware and driver",
                    (),
                    note=f"Driver: {link_driver(link) or 'unknown'}.",
                ),
            ),
        )


def _timed_out_link(host: HostFacts, text: str) -> Link | None:
    for pattern in TIMED_OUT:
        match = pattern.search(text)
        if match is None:
            continue
        groups = match.groupdict()
        if groups.get("link"):
            link = host.links_by_name.get(groups["link"])
            if link is not None:
                return link
        for link in host.links_of_function.get(groups.get("device") or "", ()):
            return link
    return None


@host_rule("link and path", "critical", uses=("messages",))
def connection_table_overflows(host: HostFacts) -> Outcomes:
    """The connection tracking table (nf_conntrack) is full: packets of new connections are dropped.

    nictop reads "nf_conntrack: table full, dropping packet" in the kernel messages of the last 24 hours. Critical when
    the last one is younger than 15 minutes, else warning.

    Not reported when less than 75 % of the table are in use now (nf_conntrack_count, nf_conntrack_max).

    Sources: kernel net/netfilter/nf_conntrack_core.c, nf_conntrack-sysctl.rst.
    """
    messages = [one for one in recent_messages(host) if CONNTRACK_TABLE_FULL.search(one.text)]
    if not messages or is_no_longer_full(host, "connections"):
        return
    yield host_finding(
        "critical" if messages[-1].time >= host.inventory.time - ONGOING_SECONDS else "warning",
        host,
        "",
        "conntrack table full: new connections are dropped",
        evidence=(
            *message_evidence(messages, host),
            *table_usage(host, "connections", CONNECTION_COUNTS),
        ),
        why="Existing connections continue, new ones fail at random. The symptom is easily mistaken for packet loss.",
        fixes=connection_limit_fixes(host),
    )


@host_rule("link and path", "critical", uses=("messages",))
def neighbour_table_overflows(host: HostFacts) -> Outcomes:
    """The neighbour table (ARP and IPv6 neighbour discovery) is full: some hosts of the subnet cannot be reached.

    nictop reads "neighbour: arp_cache: neighbor table overflow!" in the kernel messages of the last 24 hours. Critical
    when the last one is younger than 15 minutes, else warning.

    Not reported when less than 75 % of the table are in use now.

    Sources: kernel net/core/neighbour.c (gc_thresh3), ip-sysctl.rst.
    """
    overflows = [one for one in recent_messages(host) if re.search(r"eighbou?r table overflow", one.text)]
    messages = [one for one in overflows if not is_no_longer_full(host, *_families(one.text))]
    if not messages:
        return
    family = _families(messages[-1].text)[0]
    number = joined("|", command("ip", "-6" if family == "ipv6" else "-4", "neigh"), command("wc", "-l"))
    yield host_finding(
        "critical" if messages[-1].time >= host.inventory.time - ONGOING_SECONDS else "warning",
        host,
        "",
        "neighbour table full: some hosts are unreachable",
        evidence=(
            *message_evidence(messages, host),
            *table_usage(host, family, f"{NEIGHBOUR_TABLES[family]}, gc_thresh3"),
        ),
        why="The kernel stores at most gc_thresh3 neighbours, 1024 by default. Large flat subnets and hosts with many "
        "containers need more.",
        fixes=(
            Fix("here", "Show the table usage", (number, command("sysctl", f"net.{family}.neigh.default.gc_thresh3"))),
            *sysctl_fixes(host, f"net.{family}.neigh.default.gc_thresh2", 4096),
            *sysctl_fixes(host, f"net.{family}.neigh.default.gc_thresh3", 8192),
        ),
    )


def _families(text: str) -> tuple[str, ...]:
    """Address families of the table in a message; kernels before 4.14 do not name it."""
    if "ndisc_cache" in text:
        return ("ipv6",)
    return ("ipv4",) if "arp_cache" in text else ("ipv4", "ipv6")


@host_rule("link and path", "warning", uses=("messages",))
def own_frames_come_back(host: HostFacts) -> Outcomes:
    """A bridge receives frames with its own address as source address: a network loop, or a duplicate MAC address.

    nictop reads "received packet on … with own address as source address" of the bridge driver in the kernel messages
    of the last 24 hours. A port of a bond, or a NIC that reflects multicast frames, has the same effect.

    Not reported when the link is no longer a port of that bridge, is down, or was created after the message, and when
    the bridge and its ports no longer have the address in the message.

    Source: kernel net/bridge/br_fdb.c.
    """
    found: dict[str, list[KernelMessage]] = {}
    for message in recent_messages(host):
        match = OWN_ADDRESS.search(message.text)
        if match is not None and _may_still_come_back(host, match, message):
            found.setdefault(match["link"], []).append(message)
    for name, messages in found.items():
        link = host.links_by_name[name]
        yield link_finding(
            "warning",
            host,
            link,
            "receives its own frames (loop or duplicate MAC)",
            evidence=message_evidence(messages, host),
            why="Causes: a network loop, another machine with the same MAC address (a clone), or a switch port that "
            "mirrors frames back.",
            fixes=(
                Fix(
                    "here",
                    "Show the address in the kernel messages",
                    (joined("|", command("dmesg"), command("grep", "-F", f"received packet on {name}")),),
                ),
                Fix(
                    "switch",
                    "Check for a loop, or for the address on two ports",
                    (),
                    note="Spanning tree detects loops.",
                ),
            ),
        )


def _may_still_come_back(host: HostFacts, match: re.Match[str], message: KernelMessage) -> bool:
    """The port is still up in that bridge, and bridge or port still have the address."""
    port, bridge = host.links_by_name.get(match["link"]), host.links_by_name.get(match["bridge"])
    if port is None or bridge is None or port.master != bridge.ifindex:
        return False
    if not is_up(port) or port.carrier is False or not since((message,), port.created):
        return False
    return match["address"] is None or match["address"] in _own_addresses(host, bridge)


def _own_addresses(host: HostFacts, bridge: Link) -> set[str | None]:
    """Source addresses of frames that a bridge or one of its ports sends."""
    return {bridge.address, *(one.address for one in host.links if one.master == bridge.ifindex)}
