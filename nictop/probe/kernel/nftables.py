"""Requests to nf_tables over netlink (linux/netfilter/nf_tables.h), for chains, rules and sets.

Integers of nf_tables are in network byte order, values that rules compare in the order of their
field. No request is sent where nf_tables is a module that is not loaded, because it would load the
module.
"""

from __future__ import annotations

import errno
import os
import struct

from nictop.probe.kernel import netlink
from nictop.probe.kernel.sysfs import read_text
from nictop.probe.light_tuples import NamedTuple

NETLINK_NETFILTER = 12
NFNL_SUBSYS_NFTABLES = 10
NFT_MSG_GETTABLE, NFT_MSG_GETCHAIN, NFT_MSG_GETRULE, NFT_MSG_GETSETELEM = 1, 4, 7, 13
NFTA_TABLE_NAME, NFTA_TABLE_FLAGS, NFT_TABLE_F_DORMANT = 1, 2, 0x1
NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME, NFTA_CHAIN_HOOK, NFTA_CHAIN_POLICY, NFTA_CHAIN_TYPE = (
    1,
    3,
    4,
    5,
    7,
)
NFTA_CHAIN_COUNTERS = 8
NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY, NFTA_HOOK_DEV, NFTA_HOOK_DEVS = 1, 2, 3, 4
NFTA_RULE_TABLE, NFTA_RULE_CHAIN = 1, 2
NFTA_SET_ELEM_LIST_TABLE, NFTA_SET_ELEM_LIST_SET = 1, 2
NF_DROP = 0
NFPROTO_INET, NFPROTO_IPV4, NFPROTO_NETDEV, NFPROTO_BRIDGE, NFPROTO_IPV6 = 1, 2, 5, 7, 10
NFGENMSG = struct.Struct("=BBH")
"""struct nfgenmsg: family, version, resource."""
NO_NFTABLES = (errno.EINVAL, errno.EPROTONOSUPPORT)
"""Errors of a kernel without nf_tables, or without nfnetlink."""
MAX_MODULES_DEP_BYTES = 8 * 1024 * 1024
"""Bytes of modules.dep."""


FAMILY_NAMES = {
    NFPROTO_INET: "inet",
    NFPROTO_IPV4: "ip",
    NFPROTO_IPV6: "ip6",
    NFPROTO_BRIDGE: "bridge",
    NFPROTO_NETDEV: "netdev",
}
COUNTER_PACKETS = 2
"""NFTA_COUNTER_PACKETS, also of a chain."""


class Chain(NamedTuple):
    """A chain without its rules."""

    family: int
    table: str
    name: str
    type: str
    """filter, nat or route; "": not a base chain, it is called by others."""
    hook: int | None
    """None: not a base chain."""
    priority: int
    links: tuple[str, ...]
    """Of hooks of the family netdev, and of inet at ingress."""
    policy: str
    """accept or drop."""
    packets: int | None
    """To which the policy applied; None: not counted."""


class TooMany(Exception):
    """A dump has more entries than the caller wants."""


def open_socket() -> netlink.NetlinkSocket:
    """Raises OSError; `NO_NFTABLES`: this kernel has no netfilter."""
    return netlink.NetlinkSocket(NETLINK_NETFILTER, timeout=2.0)


def dump(
    kernel: netlink.NetlinkSocket, kind: int, family: int = 0, attributes: bytes = b""
) -> list[bytes]:
    """Messages of a dump with their struct nfgenmsg. Raises OSError."""
    request = NFGENMSG.pack(family, 0, 0) + attributes
    return [body for _, body in kernel.dump(NFNL_SUBSYS_NFTABLES << 8 | kind, request)]


def bounded_dump(
    kernel: netlink.NetlinkSocket, kind: int, family: int, attributes: bytes, most: int
) -> list[bytes]:
    """As `dump`; raises TooMany as soon as there are more than `most` messages, after which the
    socket must be closed."""
    found: list[bytes] = []

    def keep(data: bytes, start: int) -> bool:
        if len(found) >= most:
            raise TooMany
        found.append(b"")
        return True

    request = NFGENMSG.pack(family, 0, 0) + attributes
    return [body for _, body in kernel.dump(NFNL_SUBSYS_NFTABLES << 8 | kind, request, 1, keep)]


def parse_chain(body: bytes) -> Chain | None:
    """A message with a chain; None: malformed, or of another family."""
    if len(body) < NFGENMSG.size:
        return None
    family = NFGENMSG.unpack_from(body)[0]
    fields = dict(netlink.iter_attributes(body[NFGENMSG.size :]))
    table, name = (
        netlink.text(fields.get(NFTA_CHAIN_TABLE, b"")),
        netlink.text(fields.get(NFTA_CHAIN_NAME, b"")),
    )
    if family not in FAMILY_NAMES or not table or not name:
        return None
    hook = dict(netlink.iter_attributes(fields.get(NFTA_CHAIN_HOOK, b"")))
    devices = [value for _, value in netlink.iter_attributes(hook.get(NFTA_HOOK_DEVS, b""))]
    if not devices and NFTA_HOOK_DEV in hook:
        devices = [hook[NFTA_HOOK_DEV]]
    counted = dict(netlink.iter_attributes(fields.get(NFTA_CHAIN_COUNTERS, b"")))
    return Chain(
        family=family,
        table=table,
        name=name,
        type=netlink.text(fields.get(NFTA_CHAIN_TYPE, b"")) if hook else "",
        hook=number(hook.get(NFTA_HOOK_HOOKNUM, b"")) if hook else None,
        priority=signed(hook.get(NFTA_HOOK_PRIORITY)),
        links=tuple(netlink.text(value) for value in devices),
        policy="drop" if number(fields.get(NFTA_CHAIN_POLICY)) == NF_DROP else "accept",
        packets=number(counted.get(COUNTER_PACKETS)),
    )


def parse_dormant_table(body: bytes) -> tuple[int, str] | None:
    """(family, name) of a table whose chains are switched off; None: another one."""
    if len(body) < NFGENMSG.size:
        return None
    fields = dict(netlink.iter_attributes(body[NFGENMSG.size :]))
    flags = number(fields.get(NFTA_TABLE_FLAGS)) or 0
    if not flags & NFT_TABLE_F_DORMANT:
        return None
    return NFGENMSG.unpack_from(body)[0], netlink.text(fields.get(NFTA_TABLE_NAME, b""))


def signed(value: bytes | None) -> int:
    """A signed nf_tables integer; 0: missing."""
    return int.from_bytes(value, "big", signed=True) if value else 0


def number(value: bytes | None) -> int | None:
    """An nf_tables integer."""
    return int.from_bytes(value, "big") if value else None


def has_nftables(sys: str = "/sys", modules: str = "/lib/modules") -> bool:
    """Whether nf_tables is loaded or built in, so that a request does not load it."""
    if os.path.isdir(f"{sys}/module/nf_tables"):
        return True
    index = read_text(f"{modules}/{os.uname().release}/modules.dep", MAX_MODULES_DEP_BYTES)
    return not (isinstance(index, str) and "/nf_tables.ko" in index)
