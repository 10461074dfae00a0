"""Firewalls that may drop packets of this host: firewalld, ufw, and the input and output chains of nftables.

Reads process names, ``ENABLED`` in /etc/ufw/ufw.conf, and the chains over netlink (NFT_MSG_GETCHAIN,
linux/netfilter/nf_tables.h), which needs root. Yields `records.Firewalls`. Where nf_tables is a module that is not
loaded there are no chains, and no request is sent, because it would load the module.
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
from nictop.probe.kernel.sysfs import read_text, unreadable_from_error
from nictop.probe.records import FilterChain, Firewalls, Unreadable

NETLINK_NETFILTER = 12
NFNL_SUBSYS_NFTABLES = 10
NFT_MSG_GETCHAIN = 4
NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME, NFTA_CHAIN_HOOK, NFTA_CHAIN_POLICY, NFTA_CHAIN_TYPE = 1, 3, 4, 5, 7
NFTA_HOOK_HOOKNUM = 1
NF_INET_LOCAL_IN, NF_INET_LOCAL_OUT = 1, 3
HOOK_NAMES = {NF_INET_LOCAL_IN: "input", NF_INET_LOCAL_OUT: "output"}
NF_DROP = 0
NFPROTO_INET, NFPROTO_IPV4, NFPROTO_IPV6 = 1, 2, 10
NFPROTO_NAMES = {NFPROTO_INET: "inet", NFPROTO_IPV4: "ip", NFPROTO_IPV6: "ip6"}
NFGENMSG = struct.Struct("=BBH")
"""struct nfgenmsg: family, version, resource."""
NO_NFTABLES = (errno.EINVAL, errno.EPROTONOSUPPORT)
"""Errors of a kernel without nf_tables, or without nfnetlink."""
MAX_CHAINS = 64
"""Chains in one record."""
MAX_MODULES_DEP_BYTES = 8 * 1024 * 1024
"""Bytes of modules.dep."""

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
    chains = _read_chains() if _has_nftables(sys, modules) else ()
    if isinstance(chains, Unreadable):
        unreadable["chains"] = chains
        chains = ()
    return Firewalls(firewalld, isinstance(text, str) and parse_ufw(text), chains, unreadable)


def parse_ufw(text: str) -> bool:
    """Whether ufw.conf enables ufw."""
    return UFW_ENABLED.search(text) is not None


def parse_chains(bodies: Iterable[bytes]) -> tuple[FilterChain, ...]:
    """Messages of a chain dump without netlink headers → filter chains with hook input, then those with hook output;
    malformed messages are skipped."""
    found: set[tuple[str, ...]] = set()
    for body in bodies:
        if len(body) < NFGENMSG.size:
            continue
        family = NFPROTO_NAMES.get(NFGENMSG.unpack_from(body)[0])
        fields = dict(netlink.iter_attributes(body[NFGENMSG.size :]))
        hook_fields = dict(netlink.iter_attributes(fields.get(NFTA_CHAIN_HOOK, b"")))
        table, name = (netlink.text(fields.get(kind, b"")) for kind in (NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME))
        if family is None or not table or not name or netlink.text(fields.get(NFTA_CHAIN_TYPE, b"")) != "filter":
            continue
        hook = HOOK_NAMES.get(_number(hook_fields.get(NFTA_HOOK_HOOKNUM)) or 0)
        if hook is not None:
            policy = "drop" if _number(fields.get(NFTA_CHAIN_POLICY)) == NF_DROP else "accept"
            found.add((hook, family, table, name, policy))
    ordered: Any = sorted(found)[:MAX_CHAINS]
    return tuple(FilterChain(family, table, name, policy, hook) for hook, family, table, name, policy in ordered)


def _number(value: bytes | None) -> int | None:
    """An nf_tables integer; they are in network byte order."""
    return int.from_bytes(value, "big") if value else None


def _read_chains() -> tuple[FilterChain, ...] | Unreadable:
    try:
        with netlink.NetlinkSocket(NETLINK_NETFILTER, timeout=2.0) as kernel:
            replies = kernel.dump(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN, NFGENMSG.pack(0, 0, 0))
    except OSError as error:
        if error.errno in NO_NFTABLES:
            return ()
        return unreadable_from_error(error, "nf_tables")
    return parse_chains(body for _, body in replies)


def _has_nftables(sys: str, modules: str) -> bool:
    """Whether nf_tables is loaded or built in, so that a request does not load it."""
    if os.path.isdir(f"{sys}/module/nf_tables"):
        return True
    index = read_text(f"{modules}/{os.uname().release}/modules.dep", MAX_MODULES_DEP_BYTES)
    return not (isinstance(index, str) and "/nf_tables.ko" in index)


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
