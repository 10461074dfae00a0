"""Firewalls that may drop packets of this host: firewalld, ufw, and the input and output chains of
nftables. Of iptables-legacy only whether it has tables that may drop.

Reads process names, ``ENABLED`` in /etc/ufw/ufw.conf, and the chains over netlink
(NFT_MSG_GETCHAIN, linux/netfilter/nf_tables.h), which needs root. Yields `records.Firewalls`. Where
nf_tables is a module that is not loaded there are no chains, and no request is sent, because it
would load the module. /proc/net/ip_tables_names has the tables of iptables-legacy
(net/netfilter/x_tables.c), not those of iptables-nft.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from nictop.probe.inventory.machine.processes import read_processes
from nictop.probe.inventory.machine.qemu import namespace_of
from nictop.probe.kernel import nftables
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import read_text, unreadable_from_error
from nictop.probe.records import FilterChain, Firewalls, Unreadable

NF_INET_LOCAL_IN, NF_INET_LOCAL_OUT = 1, 3
HOOK_NAMES = {NF_INET_LOCAL_IN: "input", NF_INET_LOCAL_OUT: "output"}
NFPROTO_NAMES = {
    nftables.NFPROTO_INET: "inet",
    nftables.NFPROTO_IPV4: "ip",
    nftables.NFPROTO_IPV6: "ip6",
}
LEGACY_NAMES = ("ip_tables_names", "ip6_tables_names")
DROPPING_TABLES = frozenset(("filter", "mangle", "raw", "security"))
LEGACY_UNREAD = Unreadable("failed", "rules of iptables-legacy")
MAX_CHAINS = 64
"""Chains in one record."""

UFW_ENABLED = pattern(r"""^[ \t]*ENABLED[ \t]*=[ \t]*["']?yes\b""", re.MULTILINE | re.IGNORECASE)


def read_firewalls(
    proc: str = "/proc", etc: str = "/etc", sys: str = "/sys", modules: str = "/lib/modules"
) -> Firewalls:
    """Never raises OSError."""
    unreadable: dict[str, Unreadable] = {}
    firewalld, unreadable_processes = _find_firewalld(proc)
    if firewalld is None and unreadable_processes is not None:
        unreadable["firewalld"] = unreadable_processes
    text = read_text(f"{etc}/ufw/ufw.conf")
    if isinstance(text, Unreadable) and text.reason != "missing":
        unreadable["ufw"] = text
    chains = _read_chains() if nftables.has_nftables(sys, modules) else ()
    if isinstance(chains, Unreadable):
        unreadable["chains"] = chains
        chains = ()
    legacy = _why_legacy_unknown(proc)
    if legacy is not None:
        unreadable["iptables"] = legacy
    return Firewalls(firewalld, isinstance(text, str) and parse_ufw(text), chains, unreadable)


def parse_ufw(text: str) -> bool:
    """Whether ufw.conf enables ufw."""
    return UFW_ENABLED.search(text) is not None


def parse_chains(bodies: Iterable[bytes]) -> tuple[FilterChain, ...]:
    """Messages of a chain dump without netlink headers → filter chains with hook input, then those
    with hook output; malformed messages are skipped."""
    found: set[tuple[str, ...]] = set()
    for body in bodies:
        chain = nftables.parse_chain(body)
        if chain is None or chain.family not in NFPROTO_NAMES or chain.type != "filter":
            continue
        hook = HOOK_NAMES.get(chain.hook or 0)
        if hook is not None:
            found.add((hook, NFPROTO_NAMES[chain.family], chain.table, chain.name, chain.policy))
    ordered: Any = sorted(found)[:MAX_CHAINS]
    return tuple(
        FilterChain(family, table, name, policy, hook)
        for hook, family, table, name, policy in ordered
    )


def _read_chains() -> tuple[FilterChain, ...] | Unreadable:
    try:
        with nftables.open_socket() as kernel:
            replies = nftables.dump(kernel, nftables.NFT_MSG_GETCHAIN)
    except OSError as error:
        if error.errno in nftables.NO_NFTABLES:
            return ()
        return unreadable_from_error(error, "nf_tables")
    return parse_chains(replies)


def _why_legacy_unknown(proc: str) -> Unreadable | None:
    """None: iptables-legacy has no table that may drop."""
    for file in LEGACY_NAMES:
        names = read_text(f"{proc}/net/{file}")
        if isinstance(names, Unreadable):
            if names.reason != "missing":
                return names
        elif not DROPPING_TABLES.isdisjoint(names.split()):
            return LEGACY_UNREAD
    return None


def _find_firewalld(proc: str) -> tuple[int | None, Unreadable | None]:
    """(process id of firewalld in this network namespace, why processes could not be read)."""
    processes, unreadable_processes = read_processes(proc)
    namespace = namespace_of("self", proc)
    for pid, comm in processes.items():
        if comm == "firewalld":
            other = namespace_of(pid, proc)
            if other is None or namespace is None or other == namespace:
                return pid, None
    return None, unreadable_processes
