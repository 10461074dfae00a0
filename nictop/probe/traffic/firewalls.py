"""Which firewalls keep packets from this host or in it: firewalld, ufw, and the input and output chains of nftables.

Reads the names of processes, ``ENABLED`` in /etc/ufw/ufw.conf, and the chains by netlink (NFT_MSG_GETCHAIN,
linux/netfilter/nf_tables.h), which only root may. Yields `records.Firewalls`. Where nf_tables is a module that nobody
has needed so far, the question would load it: it is not asked then, for there are no chains.
"""

from __future__ import annotations

import errno
import os
import re
import struct
from collections.abc import Iterable
from typing import Any

from nictop.probe.inventory.machine.processes import read_processes
from nictop.probe.inventory.machine.qemu import namespace_of
from nictop.probe.kernel import netlink
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import read_text, why_unreadable
from nictop.probe.records import FilterChain, Firewalls, Unreadable

NETLINK_NETFILTER = 12
NFNL_SUBSYS_NFTABLES = 10
NFT_MSG_GETCHAIN = 4
NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME, NFTA_CHAIN_HOOK, NFTA_CHAIN_POLICY, NFTA_CHAIN_TYPE = 1, 3, 4, 5, 7
NFTA_HOOK_HOOKNUM = 1
HOOKS = {1: "input", 3: "output"}
"""NF_INET_LOCAL_IN, NF_INET_LOCAL_OUT"""
NF_DROP = 0
FAMILIES = {1: "inet", 2: "ip", 10: "ip6"}
"""NFPROTO_*, of which a chain with such a hook sees IP packets."""
ADDRESS_HEADER = struct.Struct("=BBH")
"""struct nfgenmsg: family, version, resource."""
NO_NFTABLES = (errno.EINVAL, errno.EPROTONOSUPPORT)
"""The kernel has no nf_tables, or not even nfnetlink."""
MOST = 64
"""Chains that are told."""
LARGEST_INDEX = 8 * 1024 * 1024
"""Bytes of modules.dep."""

ENABLED = pattern(r"""^\s*ENABLED\s*=\s*["']?yes\b""", re.MULTILINE | re.IGNORECASE)


def read_firewalls(
    proc: str = "/proc", etc: str = "/etc", sys: str = "/sys", modules: str = "/lib/modules"
) -> Firewalls:
    """See the module. Never raises OSError."""
    unreadable: dict[str, Unreadable] = {}
    firewalld, trouble = _firewalld(proc)
    if firewalld is None and trouble is not None:
        unreadable["firewalld"] = trouble
    text = read_text(f"{etc}/ufw/ufw.conf")
    if isinstance(text, Unreadable) and text.reason != "missing":
        unreadable["ufw"] = text
    chains = _chains() if _knows_nftables(sys, modules) else ()
    if isinstance(chains, Unreadable):
        unreadable["chains"] = chains
        chains = ()
    return Firewalls(firewalld, isinstance(text, str) and parse_ufw(text), chains, unreadable)


def parse_ufw(text: str) -> bool:
    """Whether ufw.conf switches it on."""
    return ENABLED.search(text) is not None


def parse_chains(bodies: Iterable[bytes]) -> tuple[FilterChain, ...]:
    """Messages of a dump of all chains, without their netlink header → those with hook input, then those with hook
    output; garbage is left out."""
    found: set[tuple[str, ...]] = set()
    for body in bodies:
        if len(body) < ADDRESS_HEADER.size:
            continue
        family = FAMILIES.get(body[0])
        fields = dict(netlink.iterate(body[ADDRESS_HEADER.size :]))
        hook = dict(netlink.iterate(fields.get(NFTA_CHAIN_HOOK, b"")))
        table, name = (netlink.text(fields.get(kind, b"")) for kind in (NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME))
        if family is None or not table or not name or netlink.text(fields.get(NFTA_CHAIN_TYPE, b"")) != "filter":
            continue
        place = HOOKS.get(_number(hook.get(NFTA_HOOK_HOOKNUM)) or 0)
        if place is not None:
            policy = "drop" if _number(fields.get(NFTA_CHAIN_POLICY)) == NF_DROP else "accept"
            found.add((place, family, table, name, policy))
    chosen: Any = sorted(found)[:MOST]
    return tuple(FilterChain(family, table, name, policy, hook) for hook, family, table, name, policy in chosen)


def _number(value: bytes | None) -> int | None:
    """nf_tables sends its numbers in network byte order."""
    return int.from_bytes(value, "big") if value else None


def _chains() -> tuple[FilterChain, ...] | Unreadable:
    kind = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN
    try:
        with netlink.NetlinkSocket(NETLINK_NETFILTER, timeout=2.0) as kernel:
            replies = kernel.dump(kind, ADDRESS_HEADER.pack(0, 0, 0))
    except OSError as error:
        if error.errno in NO_NFTABLES:
            return ()
        return why_unreadable(error, "nf_tables")
    return parse_chains(body for _, body in replies)


def _knows_nftables(sys: str, modules: str) -> bool:
    """Whether the kernel has nf_tables at work, or built in: asking changes nothing."""
    if os.path.isdir(f"{sys}/module/nf_tables"):
        return True
    index = read_text(f"{modules}/{os.uname().release}/modules.dep", LARGEST_INDEX)
    return not (isinstance(index, str) and "/nf_tables.ko" in index)


def _firewalld(proc: str) -> tuple[int | None, Unreadable | None]:
    """The one of this network namespace."""
    processes, trouble = read_processes(proc)
    home = namespace_of("self", proc)
    for pid, comm in processes.items():
        if comm == "firewalld":
            place = namespace_of(pid, proc)
            if place is None or home is None or place == home:
                return pid, None
    return None, trouble
