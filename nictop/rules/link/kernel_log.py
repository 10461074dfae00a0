"""Recent kernel messages about the network stack: tables that are full, frames that come back.

Uses the lines that the probe read from /dev/kmsg; without them the rules are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.kernel_log import Logged, since
from nictop.model.snapshot import is_other_namespace
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command, joined
from nictop.rules.fixes.persistence import sysctl_fixes
from nictop.rules.host import HostFacts
from nictop.rules.kernel_messages import (
    Messages,
    host_messages,
    links_with_messages,
    message_evidence,
)
from nictop.rules.link.connection_tracking import SOURCE as CONNECTION_COUNTS
from nictop.rules.link.connection_tracking import connection_limit_fixes
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding, is_up, link_finding

OWN_ADDRESS = pattern(
    r"(?P<bridge>\S{1,64}): received packet on (?P<link>\S{1,64}) with own address as source "
    r"address"
    r"(?: \(addr:(?P<address>[0-9a-f:]{17}))?"
)
"""net/bridge/br_fdb.c, br_fdb_update; the address since 4.18."""
NEIGHBOUR_TABLES = {"ipv4": "/proc/net/stat/arp_cache", "ipv6": "/proc/net/stat/ndisc_cache"}

MIN_TABLE_SIZE = 8192
FULL_TABLE_SHARE = 0.75
"""Share of a table's entries below which it no longer counts as full."""


def is_no_longer_full(host: HostFacts, *tables: str) -> bool:
    """None of these tables (`Settings.tables`) is full now. Where the size of none of them is known
    only a message says it is, which may be of another network namespace of the machine."""
    is_known = False
    for table in tables:
        usage = host.inventory.settings.tables.get(table)
        if usage is None:
            continue
        entries, most = usage
        if entries >= FULL_TABLE_SHARE * most:
            return False
        is_known = True
    return is_known or is_other_namespace(host.snapshot)


def table_usage(host: HostFacts, table: str, source: str) -> tuple[Evidence, ...]:
    """Usage of a table now; (): not known."""
    if table not in host.inventory.settings.tables:
        return ()
    entries, most = host.inventory.settings.tables[table]
    return (Evidence("entries in use", f"{entries} of {most}", source),)


@host_rule("critical", uses=("messages",))
def connection_table_overflows(host: HostFacts) -> Outcomes:
    """The connection tracking table (nf_conntrack) is full: packets of new connections are dropped.

    nictop reads "nf_conntrack: table full, dropping packet" in the kernel messages of the last 24
    hours. Critical when the last one is younger than 15 minutes, else warning.

    Not reported when less than 75 % of the table are in use now (nf_conntrack_count,
    nf_conntrack_max).

    Sources: kernel net/netfilter/nf_conntrack_core.c, nf_conntrack-sysctl.rst.
    """
    messages = host_messages(host, "connections_full")
    if messages is None or is_no_longer_full(host, "connections"):
        return
    yield host_finding(
        messages.severity,
        host,
        "",
        "conntrack table full: new connections are dropped",
        evidence=(
            *message_evidence(messages),
            *table_usage(host, "connections", CONNECTION_COUNTS),
        ),
        why="Existing connections continue, new ones fail at random. The symptom is easily "
        "mistaken for packet loss.",
        fixes=connection_limit_fixes(host),
    )


@host_rule("critical", uses=("messages",))
def neighbour_table_overflows(host: HostFacts) -> Outcomes:
    """The neighbour table (ARP and IPv6 neighbour discovery) is full: some hosts of the subnet
    cannot be reached.

    nictop reads "neighbour: arp_cache: neighbor table overflow!" in the kernel messages of the last
    24 hours. Critical when the last one is younger than 15 minutes, else warning.

    Not reported when less than 75 % of the table are in use now.

    Sources: kernel net/core/neighbour.c (gc_thresh3), ip-sysctl.rst.
    """
    overflows = host_messages(host, "neighbours_full")
    if overflows is None:
        return
    still_full = [
        entry for entry in overflows.entries if not is_no_longer_full(host, *_families(entry.text))
    ]
    if not still_full:
        return
    messages = Messages(tuple(still_full), overflows.inventory)
    families = _families(messages.newest.text)
    family = next((one for one in families if not is_no_longer_full(host, one)), families[0])
    number = joined(
        "|", command("ip", "-6" if family == "ipv6" else "-4", "neigh"), command("wc", "-l")
    )
    yield host_finding(
        messages.severity,
        host,
        "",
        "neighbour table full: some hosts are unreachable",
        evidence=(
            *message_evidence(messages),
            *table_usage(host, family, f"{NEIGHBOUR_TABLES[family]}, gc_thresh3"),
        ),
        why="The kernel stores at most gc_thresh3 neighbours, 1024 by default. Large flat subnets "
        "and hosts with many "
        "containers need more.",
        fixes=(
            Fix(
                "here",
                "Show the table usage",
                (number, command("sysctl", f"net.{family}.neigh.default.gc_thresh3")),
            ),
            *_larger_table(host, family),
        ),
    )


def _larger_table(host: HostFacts, family: str) -> Iterator[Fix]:
    """At least twice what it is."""
    _, most = host.inventory.settings.tables.get(family, (0, 0))
    size = max(MIN_TABLE_SIZE, 2 * most)
    yield from sysctl_fixes(host, f"net.{family}.neigh.default.gc_thresh2", size // 2)
    yield from sysctl_fixes(host, f"net.{family}.neigh.default.gc_thresh3", size, old=most or None)


def _families(text: str) -> tuple[str, ...]:
    """Address families of the table in a message; kernels before 4.14 do not name it."""
    if "ndisc_cache" in text:
        return ("ipv6",)
    return ("ipv4",) if "arp_cache" in text else ("ipv4", "ipv6")


@host_rule(
    "warning",
    uses=("messages",),
    messages_if=lambda host: any(link.kind == "bridge" for link in host.links),
)
def own_frames_come_back(host: HostFacts) -> Outcomes:
    """A bridge receives frames with its own address as source address: a network loop, or a
    duplicate MAC address.

    nictop reads "received packet on … with own address as source address" of the bridge driver in
    the kernel messages of the last 24 hours. A port of a bond, or a NIC that reflects multicast
    frames, has the same effect.

    Not reported when the link is no longer a port of that bridge, is down, or was created after the
    message, and when the bridge and its ports no longer have the address in the message.

    Source: kernel net/bridge/br_fdb.c.
    """
    for link, logged in links_with_messages(host, "own_address"):
        returning = [entry for entry in logged.entries if _may_still_come_back(host, entry)]
        if not returning:
            continue
        yield link_finding(
            "warning",
            host,
            link,
            "receives its own frames (loop or duplicate MAC)",
            evidence=message_evidence(Messages(tuple(returning), logged.inventory)),
            why="Causes: a network loop, another machine with the same MAC address (a clone), or "
            "a switch port that "
            "mirrors frames back.",
            fixes=(
                Fix(
                    "here",
                    "Show the address in the kernel messages",
                    (
                        joined(
                            "|",
                            command("dmesg"),
                            command("grep", "-F", f"received packet on {link.name}"),
                        ),
                    ),
                ),
                Fix(
                    "switch",
                    "Check for a loop, or for the address on two ports",
                    (),
                    note="Spanning tree detects loops.",
                ),
            ),
        )


def _may_still_come_back(host: HostFacts, message: Logged) -> bool:
    """The port is still up in that bridge, and bridge or port still have the address."""
    match = OWN_ADDRESS.search(message.text)
    if match is None:
        return False
    port, bridge = host.links_by_name.get(match["link"]), host.links_by_name.get(match["bridge"])
    if port is None or bridge is None or port.master != bridge.ifindex:
        return False
    if not is_up(port) or port.carrier is False or not since((message,), port.created):
        return False
    return match["address"] is None or match["address"] in _own_addresses(host, bridge)


def _own_addresses(host: HostFacts, bridge: Link) -> set[str | None]:
    """Source addresses of frames that a bridge or one of its ports sends."""
    return {bridge.address, *(link.address for link in host.links if link.master == bridge.ifindex)}
