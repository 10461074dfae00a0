"""The connection tracking table (nf_conntrack) of a host before it is full, and how its limit is
raised.

Kernel: Documentation/networking/nf_conntrack-sysctl.rst, net/netfilter/nf_conntrack_core.c.
"""

from __future__ import annotations

from nictop.model.text import units
from nictop.probe.light_dataclasses import replace
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command, echo, joined
from nictop.rules.fixes.persistence import sysctl_fixes
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding

NEARLY_FULL_SHARE = 0.9
ENTRY_BYTES = 320
"""Kernel memory of one entry, struct nf_conn with its extensions."""
LIMIT = "net.netfilter.nf_conntrack_max"
SOURCE = "nf_conntrack_count, nf_conntrack_max"
MODULES_FILE = "/etc/modules-load.d/nf_conntrack.conf"
CONNECTIONS_BY_SOURCE = joined(
    "|",
    command("conntrack", "-L"),
    command("sed", "-nE", r"s/^([a-z0-9]+) [^=]*src=([^ ]+).*/\1 \2/p"),
    *(command("sort"), command("uniq", "-c"), command("sort", "-n")),
)


@host_rule(
    "warning",
    yields_to=("connection_table_overflows",),
    uses=("settings", "counters.stack"),
)
def connection_table_is_nearly_full(host: HostFacts) -> Outcomes:
    """The connection tracking table (nf_conntrack) is nearly full: then packets of new connections
    are dropped.

    nictop compares nf_conntrack_count, once a second, with nf_conntrack_max: 90 % or more. A full
    table has a rule of its own, which needs the kernel messages.

    Not reported: hosts without connection tracking, and a limit of 0, which is none.

    Sources: kernel nf_conntrack-sysctl.rst, net/netfilter/nf_conntrack_core.c.
    """
    entries, most = connections(host)
    if not most or entries < NEARLY_FULL_SHARE * most:
        return
    yield host_finding(
        "warning",
        host,
        "",
        f"conntrack table {units.percentage(entries / most)} full",
        evidence=(Evidence("entries in use", f"{entries} of {most}", SOURCE),),
        why="When it is full, existing connections continue and new ones fail at random, which is "
        "easily mistaken for "
        "packet loss.",
        fixes=connection_limit_fixes(host),
    )


def connections(host: HostFacts) -> tuple[int, int]:
    """Entries of the table now, and their maximum; (0, 0): not known."""
    entries, most = host.inventory.settings.tables.get("connections", (0, 0))
    counters = host.snapshot.counters
    return (
        counters.stack.get("nf_conntrack_count", entries) if counters is not None else entries
    ), most


def connection_limit_fixes(host: HostFacts) -> tuple[Fix, ...]:
    """Twice the present limit, now and persistently, and which hosts have the connections. The
    module is loaded before systemd-sysctl sets the limit at boot, which is not there otherwise."""
    _, most = connections(host)
    by_source = Fix("here", "Count connections by source address", (CONNECTIONS_BY_SOURCE,))
    if not most:
        raised = Fix(
            "here",
            "Show the table usage and raise the limit",
            (
                command("sysctl", "net.netfilter.nf_conntrack_count", LIMIT),
                command("sysctl", "-w", f"{LIMIT}=<NUMBER>"),
            ),
            persistent=False,
            undo=(command("sysctl", "-w", f"{LIMIT}=<OLD_NUMBER>"),),
            note=f"Persistent: set it in /etc/sysctl.d. An entry needs about {ENTRY_BYTES} bytes "
            f"of kernel memory.",
        )
        return raised, by_source
    now, stored = sysctl_fixes(host, LIMIT, 2 * most, old=most)
    memory = f"Up to {units.bytes_(2 * most * ENTRY_BYTES)} of kernel memory."
    if "container" in host.inventory.platform.roles:
        memory += " Before Linux 6.15 the limit can only be changed on the host of the container."
    return (
        replace(now, note=memory),
        replace(
            stored,
            commands=(*stored.commands, echo("nf_conntrack", MODULES_FILE)),
            undo=(*stored.undo, command("rm", MODULES_FILE)),
        ),
        by_source,
    )
