"""What the kernel itself complained about lately, on behalf of links and of the network stack.

Reads the lines that the probe kept of /dev/kmsg; where they could not be read, the rules say so.
"""

from __future__ import annotations

import re

from nictop.model.text import units
from nictop.probe.records import KernelMessage, Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command, joined
from nictop.rules.fixes.persistence import sysctl_fixes
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding, link_finding
from nictop.rules.vf.facts import RECENT_SECONDS, is_up, since

ONGOING_SECONDS = 15 * 60.0
"""Seconds: it goes on."""
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
CONNECTIONS_BY_SOURCE = joined(
    "|",
    command("conntrack", "-L"),
    command("sed", "-nE", r"s/^([a-z0-9]+) [^=]*src=([^ ]+).*/\1 \2/p"),
    *(command("sort"), command("uniq", "-c"), command("sort", "-n")),
)
NEIGHBOUR_TABLES = {"ipv4": "/proc/net/stat/arp_cache", "ipv6": "/proc/net/stat/ndisc_cache"}

FULL_TABLE_SHARE = 0.75
"""Share of a table's entries below which it is no longer full."""


def recent_messages(host: HostFacts, *, within: float = RECENT_SECONDS) -> tuple[KernelMessage, ...]:
    """Lines of the last `within` seconds, oldest first; the clock is that of the inventory."""
    since = host.inventory.time - within
    return tuple(one for one in host.inventory.messages or () if one.time >= since)


def has_room(host: HostFacts, *tables: str) -> bool:
    """None of these tables (`Settings.tables`) is full now, as far as that is known: at least one must be."""
    known = [host.inventory.settings.tables[one] for one in tables if one in host.inventory.settings.tables]
    return bool(known) and all(entries < FULL_TABLE_SHARE * most for entries, most in known)


def sizes(host: HostFacts, table: str, source: str) -> tuple[Evidence, ...]:
    """How full a table is now, where that is known."""
    if table not in host.inventory.settings.tables:
        return ()
    entries, most = host.inventory.settings.tables[table]
    return (Evidence("now", f"{entries} of {most} entries", source),)


def message_evidence(messages: list[KernelMessage], host: HostFacts) -> tuple[Evidence, ...]:
    """The newest line, and how many of them there were."""
    newest = messages[-1]
    ago = units.duration(max(0.0, host.inventory.time - newest.time))
    number = f"{len(messages)} times in a day, last {ago} before this" if len(messages) > 1 else f"{ago} before this"
    return Evidence("kernel", newest.text, "/dev/kmsg"), Evidence("when", number, "/dev/kmsg")


@host_rule("link and path", "critical", uses=("messages",))
def transmit_queue_timed_out(host: HostFacts) -> Outcomes:
    """A NIC did not send what it was given, until the kernel's watchdog stepped in.

    nictop finds the lines of the watchdog ("NETDEV WATCHDOG … timed out") and of drivers (TX timeout, Tx Unit Hang) of
    the last day and joins them with links by name. It is critical when the last one is younger than a quarter of an
    hour, else a warning. From the kernel's net/sched/sch_generic.c; the driver resets the NIC each time.

    Silent when the netdev was made after the last message: the driver was loaded or bound anew since.
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
            "stopped sending: its transmit queue timed out",
            evidence=message_evidence(messages, host),
            why="While it hangs nothing is sent; the reset that follows loses what was queued. Causes are the "
            "driver, the "
            "firmware, or a hypervisor that no longer serves the queue.",
            fixes=(
                Fix(
                    "here",
                    "see what came before",
                    (joined("|", command("dmesg", "-T"), command("grep", "-iE", "watchdog|timeout|hang|reset")),),
                ),
                Fix(
                    "hypervisor",
                    "see whether the backend lives",
                    (),
                    note="vhost or QEMU threads that hang, a host without memory, a physical NIC that resets.",
                )
                if host.is_guest
                else Fix(
                    "firmware",
                    "bring firmware and driver up to date",
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
    """The table of tracked connections is full: packets of new connections are dropped.

    nictop finds "nf_conntrack: table full, dropping packet" in the kernel's messages of the last day; critical when the
    last one is younger than a quarter of an hour, else a warning. From net/netfilter/nf_conntrack_core.c and the
    kernel's nf_conntrack-sysctl.rst.

    Silent when less than three quarters of the table are in use now (nf_conntrack_count, nf_conntrack_max).
    """
    messages = [one for one in recent_messages(host) if CONNTRACK_TABLE_FULL.search(one.text)]
    if not messages or has_room(host, "connections"):
        return
    yield host_finding(
        "critical" if messages[-1].time >= host.inventory.time - ONGOING_SECONDS else "warning",
        host,
        "",
        "drops new connections: the connection table is full",
        evidence=(
            *message_evidence(messages, host),
            *sizes(host, "connections", "nf_conntrack_count, nf_conntrack_max"),
        ),
        why="Connections that exist go on, new ones fail at random. It looks like a bad network.",
        fixes=(
            Fix(
                "here",
                "see how full it is, and make it larger",
                (
                    command("sysctl", "net.netfilter.nf_conntrack_count", "net.netfilter.nf_conntrack_max"),
                    command("sysctl", "-w", "net.netfilter.nf_conntrack_max=<NUMBER>"),
                ),
                persistent=False,
                undo=(command("sysctl", "-w", "net.netfilter.nf_conntrack_max=<OLD_NUMBER>"),),
                note="For good: the same line in /etc/sysctl.d. An entry takes some 300 bytes of kernel memory.",
            ),
            Fix(
                "here",
                "see who fills it",
                (CONNECTIONS_BY_SOURCE,),
            ),
        ),
    )


@host_rule("link and path", "critical", uses=("messages",))
def neighbour_table_overflows(host: HostFacts) -> Outcomes:
    """The table of neighbours (ARP and neighbour discovery) is full: some hosts of the subnet cannot be reached.

    nictop finds "neighbour: arp_cache: neighbor table overflow!" in the kernel's messages of the last day; critical
    when the last one is younger than a quarter of an hour, else a warning. From net/core/neighbour.c (gc_thresh3) and
    the kernel's ip-sysctl.rst.

    Silent when less than three quarters of the table are in use now.
    """
    overflows = [one for one in recent_messages(host) if re.search(r"eighbou?r table overflow", one.text)]
    messages = [one for one in overflows if not has_room(host, *_families(one.text))]
    if not messages:
        return
    family = _families(messages[-1].text)[0]
    number = joined("|", command("ip", "-6" if family == "ipv6" else "-4", "neigh"), command("wc", "-l"))
    yield host_finding(
        "critical" if messages[-1].time >= host.inventory.time - ONGOING_SECONDS else "warning",
        host,
        "",
        "cannot reach some neighbours: the neighbour table is full",
        evidence=(*message_evidence(messages, host), *sizes(host, family, f"{NEIGHBOUR_TABLES[family]}, gc_thresh3")),
        why="The kernel keeps the addresses of at most gc_thresh3 neighbours, 1024 by default. A large flat "
        "subnet, or many "
        "containers, need more.",
        fixes=(
            Fix("here", "see how full it is", (number, command("sysctl", f"net.{family}.neigh.default.gc_thresh3"))),
            *sysctl_fixes(host, f"net.{family}.neigh.default.gc_thresh2", 4096),
            *sysctl_fixes(host, f"net.{family}.neigh.default.gc_thresh3", 8192),
        ),
    )


def _families(text: str) -> tuple[str, ...]:
    """Whose table a message means; kernels before 4.14 do not name it."""
    if "ndisc_cache" in text:
        return ("ipv6",)
    return ("ipv4",) if "arp_cache" in text else ("ipv4", "ipv6")


@host_rule("link and path", "warning", uses=("messages",))
def own_frames_come_back(host: HostFacts) -> Outcomes:
    """A bridge receives frames that carry its own address as their source: a loop, or an address that exists twice.

    nictop finds "received packet on … with own address as source address" of the bridge driver in the kernel's messages
    of the last day. A port of a bond or a NIC that reflects multicast does that too. From net/bridge/br_fdb.c.

    Silent when the link is no longer a port of that bridge, is down, or was made after the message, and when the bridge
    and its ports no longer have the address that the message names.
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
            "receives frames that this host sent itself",
            evidence=message_evidence(messages, host),
            why="Either the network has a loop, or another machine uses the same MAC address: a clone of this "
            "one, or a port "
            "that the switch mirrors back.",
            fixes=(
                Fix(
                    "here",
                    "see which address it is",
                    (joined("|", command("dmesg"), command("grep", "-F", f"received packet on {name}")),),
                ),
                Fix(
                    "switch", "look for a loop, or for the address on two ports", (), note="Spanning tree finds loops."
                ),
            ),
        )


def _may_still_come_back(host: HostFacts, match: re.Match[str], message: KernelMessage) -> bool:
    """The port is still up below that bridge, and the address still one of the two."""
    port, bridge = host.links_by_name.get(match["link"]), host.links_by_name.get(match["bridge"])
    if port is None or bridge is None or port.master != bridge.ifindex:
        return False
    if not is_up(port) or port.carrier is False or not since((message,), port.created):
        return False
    return match["address"] is None or match["address"] in _own_addresses(host, bridge)


def _own_addresses(host: HostFacts, bridge: Link) -> set[str | None]:
    """Which a frame may have that a bridge or one of its ports sent."""
    return {bridge.address, *(one.address for one in host.links if one.master == bridge.ifindex)}
