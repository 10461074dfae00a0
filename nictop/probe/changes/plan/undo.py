"""What takes an operation back: the operation and what was there before → actions in the same words.

Reads what an operation changes besides what it says: masks of queues that go with their channels, links on top of one
whose MTU shrinks. Refuses, with a sentence, what could not be taken back.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections.abc import Sequence

from nictop.probe.changes.grammar.actions import CPU_LIST, Operation
from nictop.probe.changes.plan.current_state import Roots, State, read_addresses, read_index
from nictop.probe.inventory.links.messages import number
from nictop.probe.inventory.links.routes import RTA_GATEWAY, RTA_OIF, RTMSG, internet_address
from nictop.probe.kernel.netlink import NETLINK_ROUTE, NetlinkSocket, iterate
from nictop.probe.kernel.rtnetlink import RTM_GETROUTE
from nictop.probe.kernel.sysfs import parse_integer, read_text
from nictop.probe.records import Link, Unreadable

SMALLEST_IPV6_MTU = 1280
RTA_PREFSRC = 7
RTPROT_KERNEL = 2

Actions = tuple[tuple[str, ...], ...]


def undo_of(operation: Operation, before: State, links: Sequence[Link], roots: Roots) -> Actions:
    """Actions that bring back `before`, in their order. `links`: all of them, as they are. Raises ValueError and
    OSError."""
    kind, name = operation.kind, operation.interface
    settings = tuple(word for pair in before.items() for word in pair)
    if kind in ("rings", "features", "coalescing"):
        return ((*operation.words[:3], *settings),)
    if kind == "channels":
        return ((*operation.words[:3], *settings), *steering_of(name, roots))
    if kind == "mtu":
        return undo_of_mtu(operation, before, links)
    if kind == "up":
        return ((*operation.words[:5], "down"),)
    if kind == "virtual function":
        return ((*operation.words[:7], *settings),)
    if kind == "address add":
        return (("ip", "address", "del", *operation.words[3:]),)
    if kind == "address del":
        refuse_lost_routes(operation)
        return (("ip", "address", "add", *operation.words[3:]),)
    if kind == "virtual functions":
        refuse_other_numbers(operation, before, roots)
        return ((*operation.words[:2], "0"),)
    (value,) = before.values()
    if kind == "affinity" and not CPU_LIST.fullmatch(value):
        raise ValueError(f"{operation.subject} has no CPUs now that could be put back")
    return ((*operation.words[:2], value),)


def steering_of(name: str, roots: Roots) -> Actions:
    """Masks of all queues that steer anything: the kernel forgets those of a queue that goes."""
    folder = f"/sys/class/net/{name}/queues"
    try:
        queues = sorted(os.listdir(roots.file(folder)))
    except OSError:
        return ()
    found = []
    for queue in queues:
        for file in ("rps_cpus", "rps_flow_cnt") if queue.startswith("rx-") else ("xps_cpus",):
            content = read_text(roots.file(f"{folder}/{queue}/{file}"))
            if not isinstance(content, Unreadable) and content.strip("0,"):
                found.append(("write", f"{folder}/{queue}/{file}", content))
    return tuple(found)


def undo_of_mtu(operation: Operation, before: State, links: Sequence[Link]) -> Actions:
    """The kernel shrinks the links on top with the one below, and does not let them grow again."""
    name, wanted = operation.interface, int(operation.settings[0][1])
    index = read_index(name)
    if wanted < SMALLEST_IPV6_MTU and any(one.family == "ipv6" for one in read_addresses(name)):
        raise ValueError(f"an MTU below {SMALLEST_IPV6_MTU} would take the IPv6 addresses of {name} away for good")
    others_ends = ("veth",)  # they name their peer there
    stacked = (one for one in links if one.lower == index and one.lower_namespace is None)
    above = [one for one in stacked if one.kind not in others_ends and one.mtu > wanted]
    others = [("ip", "link", "set", "dev", one.name, "mtu", str(one.mtu)) for one in above]
    return ((*operation.words[:6], before["mtu"]), *others)


def refuse_lost_routes(operation: Operation) -> None:
    """An address takes routes along that nobody brings back with it; and one that was lent has its time."""
    name, text = operation.interface, operation.settings[0][0]
    own = ipaddress.ip_interface(text)
    known = [one for one in read_addresses(name) if f"{one.address}/{one.prefix_length}" == text]
    if any("permanent" not in one.flags for one in known):
        raise ValueError(f"{text} was lent to {name}: its time could not be put back")
    for one in read_addresses(name):
        other = ipaddress.ip_interface(f"{one.address}/{one.prefix_length}")
        if "secondary" in one.flags and other.network == own.network and other != own:
            raise ValueError(f"{text} would take {one.address} along, which is secondary to it")
    for gateway, source in read_routes(name, own.version):
        if source == str(own.ip) or (gateway is not None and ipaddress.ip_address(gateway) in own.network):
            raise ValueError(f"{text} would take a route of {name} along, which nothing brings back")


def read_routes(name: str, version: int) -> list[tuple[str | None, str | None]]:
    """(gateway, preferred source) of the routes over a link that somebody made, in all tables. Raises OSError."""
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    # before Linux 4.20 the kernel does not look at the link, hence the comparison below
    query = RTMSG.pack(family, 0, 0, 0, 0, 0, 0, 0, 0) + struct.pack("=HHI", 8, RTA_OIF, read_index(name))
    found = []
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        for _, payload in netlink.dump(RTM_GETROUTE, query):
            attributes = dict(iterate(payload[RTMSG.size :])) if len(payload) >= RTMSG.size else {}
            if payload[5] == RTPROT_KERNEL or number(attributes, RTA_OIF) != read_index(name):
                continue
            gateway = internet_address(family, attributes.get(RTA_GATEWAY, b""))
            source = internet_address(family, attributes.get(RTA_PREFSRC, b""))
            found.append((gateway[1] if gateway else None, source[1] if source else None))
    return found


def refuse_other_numbers(operation: Operation, before: State, roots: Roots) -> None:
    """The number of VFs can be set once, and taken back to none."""
    (now,) = before.values()
    (_, wanted) = operation.settings[0]
    if now != "0":
        raise ValueError(f"{operation.subject} has {now} VFs: their number is set from 0 only, or they would be lost")
    total = read_text(os.path.join(os.path.dirname(roots.file(operation.words[1])), "sriov_totalvfs"))
    most = parse_integer(total) if isinstance(total, str) else None
    if most is None or int(wanted) > most:
        raise ValueError(f"{operation.subject} can have {most or 0} VFs")
