"""The undo of an operation: the operation and the values before it → actions that restore them.

Also reads what an operation changes beyond its own settings: masks of queues that are removed with
their channels, MTUs of upper links. Raises ValueError with a sentence for changes that could not be
undone.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Interface, IPv6Interface
from typing import Union

from nictop.probe.inventory.links.bridge_vlans import read_vlans
from nictop.probe.inventory.links.messages import Attributes, number
from nictop.probe.inventory.links.routes import (
    IFA_CACHEINFO,
    IFA_CACHEINFO_STRUCT,
    IFA_PROTO,
    RTA_MULTIPATH,
    RTA_TABLE,
    RTPROT_KERNEL,
    internet_address,
    parse_address,
    parse_next_hops,
)
from nictop.probe.kernel.netlink import NETLINK_ROUTE, NetlinkSocket, iter_attributes, pack_u32
from nictop.probe.kernel.netlink import text as netlink_text
from nictop.probe.kernel.route_lookup import RTA_OIF, RTMSG
from nictop.probe.kernel.rtnetlink import (
    IFA_ADDRESS,
    IFA_FLAGS,
    IFA_LOCAL,
    IFADDRMSG,
    RTM_GETADDR,
    RTM_GETROUTE,
)
from nictop.probe.kernel.sysfs import parse_integer, read_text
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.plan.current_state import Roots, State, read_addresses, read_ifindex, read_link
from nictop.probe.plan.grammar.actions import ADDRESS_FLAGS, CPU_LIST
from nictop.probe.plan.grammar.operation import Operation, flattened
from nictop.probe.records import Link, Unreadable

IFA_F_DEPRECATED = 0x20
INFINITE_SECONDS = 0xFFFFFFFF
"""INFINITY_LIFE_TIME of include/net/addrconf.h."""
IFA_LABEL, IFA_BROADCAST, IFA_RT_PRIORITY = 3, 4, 9
FIRST_DAEMON_PROTOCOL = 4
"""Of IFA_PROTO: below are those of the kernel, from here on those of programs such as
keepalived."""
IPV6_MIN_MTU = 1280
RTA_PREFSRC, MAIN_TABLE = 7, 254

UndoActions = tuple[tuple[str, ...], ...]
IPInterface = Union[IPv4Interface, IPv6Interface]


class Previous(NamedTuple):
    """An operation, and the host before it."""

    operation: Operation
    values: State
    links: Sequence[Link]
    """All of the host."""
    roots: Roots
    removed: Sequence[str] = ()
    """Addresses that an earlier operation of the change removes from the interface, with prefix
    lengths: their own undo restores them."""
    added: Sequence[str] = ()
    """Those that an earlier operation adds to it."""


def read_undo(
    operation: Operation,
    before: State,
    links: Sequence[Link],
    roots: Roots,
    *,
    removed: Sequence[str] = (),
    added: Sequence[str] = (),
) -> UndoActions:
    """Actions that restore `before`, in execution order. `links`: all links of the host. Raises
    ValueError and OSError."""
    previous = Previous(operation, before, links, roots, removed, added)
    return UNDO_BY_KIND.get(operation.kind, previous_value)(previous)


def previous_value(previous: Previous) -> UndoActions:
    """Of what is set by two words and a value."""
    (value,) = previous.values.values()
    return ((*previous.operation.words[:2], value),)


def previous_last_word(previous: Previous) -> UndoActions:
    (value,) = previous.values.values()
    return ((*previous.operation.words[:-1], value),)


def previous_options(previous: Previous) -> UndoActions:
    """Of ``ethtool -G NAME rx 512``."""
    settings = flattened(previous.values.items())
    return ((*previous.operation.words[:3], *settings),)


def channels_undo(previous: Previous) -> UndoActions:
    steering = read_queue_steering(previous.operation.interface, previous.roots)
    return (*previous_options(previous), *steering)


def virtual_function_undo(previous: Previous) -> UndoActions:
    settings = flattened(previous.values.items())
    return ((*previous.operation.words[:7], *settings),)


def virtual_functions_undo(previous: Previous) -> UndoActions:
    refuse_vf_recreation(previous.operation, previous.values, previous.roots)
    return ((*previous.operation.words[:2], "0"),)


def up_undo(previous: Previous) -> UndoActions:
    return ((*previous.operation.words[:5], "down"),)


def added_address_undo(previous: Previous) -> UndoActions:
    """Without the options of the address, which do not belong to its removal."""
    return (("ip", "address", "del", *previous.operation.words[3:6]),)


def removed_address_undo(previous: Previous) -> UndoActions:
    operation = previous.operation
    refuse_lost_routes(previous)
    options = read_address_options(operation)
    return (("ip", "address", "add", *operation.words[3:], *options),)


def affinity_undo(previous: Previous) -> UndoActions:
    (value,) = previous.values.values()
    if not CPU_LIST.fullmatch(value):
        raise ValueError(f"{previous.operation.subject} has no CPU list that could be restored")
    return previous_value(previous)


def read_queue_steering(name: str, roots: Roots) -> UndoActions:
    """Actions that restore all non-empty RPS, RFS and XPS settings: the kernel drops those of a
    removed queue."""
    folder = f"/sys/class/net/{name}/queues"
    try:
        queues = sorted(os.listdir(roots.path(folder)))
    except OSError:
        return ()
    found = []
    for queue in queues:
        for file in ("rps_cpus", "rps_flow_cnt") if queue.startswith("rx-") else ("xps_cpus",):
            content = read_text(roots.path(f"{folder}/{queue}/{file}"))
            if not isinstance(content, Unreadable) and content.strip("0,"):
                found.append(("write", f"{folder}/{queue}/{file}", content))
    return tuple(found)


def mtu_undo(previous: Previous) -> UndoActions:
    """The kernel reduces the MTU of upper links with that of the lower one, and does not raise it
    again."""
    operation, before, links, *_ = previous
    name, wanted = operation.interface, int(operation.settings[0][1])
    index = read_ifindex(name)
    if wanted < IPV6_MIN_MTU and any(one.family == "ipv6" for one in read_addresses(name)):
        raise ValueError(
            f"an MTU below {IPV6_MIN_MTU} would remove the IPv6 addresses of {name}, which could "
            f"not be restored"
        )
    stacked = (one for one in links if one.lower == index and one.lower_namespace is None)
    upper = [
        one for one in stacked if one.kind != "veth" and one.mtu > wanted
    ]  # IFLA_LINK of a veth is its peer
    others = [("ip", "link", "set", "dev", one.name, "mtu", str(one.mtu)) for one in upper]
    return ((*operation.words[:6], before["mtu"]), *others)


def vlan_undo(previous: Previous) -> UndoActions:
    """A VLAN that becomes PVID replaces another one, which keeps its other flag."""
    operation, before = previous.operation, previous.values
    start = ("bridge", "vlan")
    name, own = operation.interface, tuple(word for word in operation.words[7:] if word == "self")
    state, pvid = before[f"vlan {operation.number}"], before.get("pvid", "none")

    def restore(number: int | str, state: str) -> tuple[str, ...]:
        if state == "absent":
            return (*start, "del", "dev", name, "vid", str(number), *own)
        flags = () if state == "tagged" else state.split(" ")
        return (*start, "add", "dev", name, "vid", str(number), *flags, *own)

    undo = [restore(operation.number, state)]
    if pvid not in ("none", str(operation.number)):
        old = next((one for one in read_vlans().get(read_ifindex(name), ()) if one.pvid), None)
        undo.append(restore(pvid, "pvid untagged" if old is not None and old.untagged else "pvid"))
    return tuple(undo)


def bond_undo(previous: Previous) -> UndoActions:
    """Raises ValueError for a link monitor that would replace the other kind of monitor."""
    operation, before = previous.operation, previous.values
    ((key, value),) = before.items()
    bond = read_link(operation.interface).bond
    if key == "miimon" and bond is not None and bond.arp_interval:
        raise ValueError(
            f"miimon would turn off arp_interval of {operation.interface}, which could not be "
            f"restored"
        )
    undo: UndoActions = ((*operation.words[:-1], value),)
    if key == "primary" and not value:
        undo = (("write", f"/sys/class/net/{operation.interface}/bonding/primary", ""),)
    if key == "active_slave" and not value:
        raise ValueError(f"{operation.interface} has no active port that could be restored")
    if key == "primary" and bond is not None and bond.active_port is not None:
        undo = (
            *undo,
            (*operation.words[:-2], "active_slave", socket.if_indextoname(bond.active_port)),
        )
    return undo


def refuse_lost_routes(previous: Previous) -> None:
    """Raises ValueError when deleting an address would remove routes or secondary addresses that
    adding it again does not restore, or when it has a lifetime."""
    operation = previous.operation
    name, text = operation.interface, operation.settings[0][0]
    interface = ipaddress.ip_interface(text)
    flags = {
        ipaddress.ip_interface(f"{one.address}/{one.prefix_length}"): one.flags
        for one in read_addresses(name)
    }
    if "permanent" not in flags.get(interface, ("permanent",)):
        raise ValueError(f"{text} of {name} is dynamic: its lifetime could not be restored")
    others = {one for one in flags if one.with_prefixlen not in previous.removed} - {interface}
    others.update(map(ipaddress.ip_interface, previous.added))
    is_ipv4 = interface.version == 4
    if is_ipv4 and "secondary" not in flags.get(interface, ()):
        refuse_promotion(previous, interface, others)
    is_last = is_ipv4 and not any(other.version == 4 for other in others)
    is_kept = interface.ip in {other.ip for other in others}
    is_gone = not is_kept and not is_on_another_link(previous, interface)
    for route in read_routes(name, interface.version):
        if is_last and route.is_only_by_link:
            lost = "would also remove a route"
        elif is_gone and route.source == str(interface.ip):
            lost = LOST_WITH_SOURCE[interface.version, route.is_main]
        else:
            continue
        raise ValueError(f"removing {text} {lost} of {name}, which could not be restored")


def refuse_promotion(
    previous: Previous, primary: IPInterface, others: Iterable[IPInterface]
) -> None:
    """Raises ValueError if the address has secondary ones."""
    for other in sorted(others, key=str):
        if other.network == primary.network:
            change = promotion_text(previous, str(other.ip))
            raise ValueError(f"removing {primary.with_prefixlen} would {change}")


def promotion_text(previous: Previous, secondary: str) -> str:
    """What becomes of a secondary address without its primary one. ip-sysctl.rst:
    promote_secondaries."""
    folder = previous.roots.path("/proc/sys/net/ipv4/conf")
    names = "all", previous.operation.interface
    files = (f"{folder}/{name}/promote_secondaries" for name in names)
    if "1" in map(read_text, files):
        return f"make its secondary address {secondary} the primary one: the undo keeps it so"
    return f"also remove its secondary address {secondary}"


def is_on_another_link(previous: Previous, interface: IPInterface) -> bool:
    """Whether another link of the host has the same IPv4 address, so that routes with it as their
    preferred source stay; those of a VRF have tables of their own."""
    if interface.version == 6:  # rt6_remove_prefsrc() looks at the routes of the link only
        return False
    own = previous.operation.interface
    if any(one.name == own and one.master is not None for one in previous.links):
        return False
    for link in previous.links:
        if link.name == own or link.master is not None:
            continue
        if any(one.address == str(interface.ip) for one in read_addresses(link.name)):
            return True
    return False


LOST_WITH_SOURCE = {
    (4, True): "would also remove a route",
    (4, False): "may also remove a route",
    (6, True): "would also remove the preferred source of a route",
    (6, False): "would also remove the preferred source of a route",
}
"""(IP version, whether the route is in the table main) → what becomes of a route whose preferred
source is an address that the host does not have any more. IPv4: fib_sync_down_addr() of
net/ipv4/fib_semantics.c, since Linux 4.8 in the table main (of a VRF: in its table) only. IPv6:
rt6_remove_prefsrc() of net/ipv6/route.c."""


class RouteByLink(NamedTuple):
    """What decides whether a route goes with an address. With its last IPv4 address a link loses
    its IPv4 routes (fib_disable_ip, net/ipv4/fib_frontend.c); else they stay, whether their gateway
    is in a subnet of it or not."""

    source: str | None
    is_main: bool
    """In the table main."""
    is_only_by_link: bool
    """Without a next hop on another link."""


def read_address_options(operation: Operation) -> tuple[str, ...]:
    """What the address of an operation has beside itself, as words of ``ip address add``. Raises
    ValueError for what these cannot restore, and OSError."""
    name, text = operation.interface, operation.settings[0][0]
    index, interface = read_ifindex(name), ipaddress.ip_interface(text)
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        payloads = netlink.dump(RTM_GETADDR, IFADDRMSG.pack(socket.AF_UNSPEC, 0, 0, 0, index))
    for _, payload in payloads:
        parsed = parse_address(payload)
        if parsed is None or parsed[0] != index:
            continue
        if (parsed[1].address, parsed[1].prefix_length) == (
            str(interface.ip),
            interface.network.prefixlen,
        ):
            return address_options(payload, name, text)
    return ()


def address_options(payload: bytes, name: str, text: str) -> tuple[str, ...]:
    """The options of an RTM_NEWADDR, without those that the kernel sets without a word. Raises
    ValueError."""
    family, _, _, scope, _ = IFADDRMSG.unpack_from(payload)
    found = dict(iter_attributes(payload[IFADDRMSG.size :]))
    peer = found.get(IFA_ADDRESS)
    if peer is not None and found.get(IFA_LOCAL, peer) != peer:
        raise ValueError(f"{text} of {name} has the address of a peer, which could not be restored")
    if (number(found, IFA_PROTO) or 0) >= FIRST_DAEMON_PROTOCOL:
        raise ValueError(
            f"{text} of {name} was set by a program that maintains it (address protocol)"
        )
    words: list[str] = []
    broadcast = internet_address(family, found.get(IFA_BROADCAST, b""))
    label = netlink_text(found.get(IFA_LABEL, b""))
    if broadcast is not None:
        words += ["broadcast", broadcast[1]]
    if label and label != name:
        words += ["label", label]
    if family == socket.AF_INET and scope != default_scope(text):
        words += ["scope", str(scope)]
    if number(found, IFA_RT_PRIORITY):
        words += ["metric", str(number(found, IFA_RT_PRIORITY))]
    preferred = preferred_seconds(found)
    if preferred is not None:
        words += ["preferred_lft", str(preferred)]
    flags = number(found, IFA_FLAGS) or 0
    return (*words, *(word for word, bit in ADDRESS_FLAGS.items() if flags & bit))


def preferred_seconds(found: Attributes) -> int | None:
    """Seconds for which an address is preferred: then it is deprecated, and may remain valid. None:
    as long as it is valid. Of a permanent IPv4 address the kernel tells only that it is deprecated
    (inet_fill_ifaddr, net/ipv4/devinet.c)."""
    if (number(found, IFA_FLAGS) or 0) & IFA_F_DEPRECATED:
        return 0
    times = found.get(IFA_CACHEINFO, b"")
    if len(times) < IFA_CACHEINFO_STRUCT.size:
        return None
    seconds: int = IFA_CACHEINFO_STRUCT.unpack_from(times)[0]
    return None if seconds == INFINITE_SECONDS else seconds


def default_scope(text: str) -> int:
    """RT_SCOPE_HOST for loopback addresses, else RT_SCOPE_UNIVERSE: as ip-address(8) sets it."""
    return 254 if ipaddress.ip_interface(text).is_loopback else 0


def read_routes(name: str, version: int) -> list[RouteByLink]:
    """Of the routes over a link in all tables, without those of the kernel. Raises OSError."""
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    index = read_ifindex(name)
    # before Linux 4.20 the kernel does not filter by link, hence the comparison below
    query = RTMSG.pack(family, 0, 0, 0, 0, 0, 0, 0, 0) + pack_u32(RTA_OIF, index)
    found = []
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        for _, payload in netlink.dump(RTM_GETROUTE, query):
            if len(payload) < RTMSG.size:
                continue
            attributes = dict(iter_attributes(payload[RTMSG.size :]))
            _, _, _, _, table, protocol, _, _, _ = RTMSG.unpack_from(payload)
            hops = parse_next_hops(attributes.get(RTA_MULTIPATH, b""))
            used = {hop for hop, _ in hops} or {number(attributes, RTA_OIF)}
            if protocol == RTPROT_KERNEL or index not in used:
                continue
            source = internet_address(family, attributes.get(RTA_PREFSRC, b""))
            table = number(attributes, RTA_TABLE) or table
            found.append(
                RouteByLink(source[1] if source else None, table == MAIN_TABLE, used == {index})
            )
    return found


def refuse_vf_recreation(operation: Operation, before: State, roots: Roots) -> None:
    """Raises ValueError unless the number of VFs changes from 0 to at most sriov_totalvfs. Its undo
    is 0."""
    (now,) = before.values()
    (_, wanted) = operation.settings[0]
    if now != "0":
        raise ValueError(
            f"{operation.subject} already has {now} VFs: another number would remove them"
        )
    total = read_text(
        os.path.join(os.path.dirname(roots.path(operation.words[1])), "sriov_totalvfs")
    )
    maximum = parse_integer(total) if isinstance(total, str) else None
    if maximum is None or int(wanted) > maximum:
        raise ValueError(f"{operation.subject} supports {maximum or 0} VFs")


UNDO_BY_KIND: dict[str, Callable[[Previous], UndoActions]] = {
    "rings": previous_options,
    "features": previous_options,
    "coalescing": previous_options,
    "channels": channels_undo,
    "identify": lambda previous: (),  # ends with the program
    "mtu": mtu_undo,
    "up": up_undo,
    "virtual function": virtual_function_undo,
    "virtual functions": virtual_functions_undo,
    "address add": added_address_undo,
    "address del": removed_address_undo,
    "bridge vlan add": vlan_undo,
    "bridge vlan del": vlan_undo,
    "bridge": previous_last_word,
    "bridge port": previous_last_word,
    "bond": bond_undo,
    "affinity": affinity_undo,
}
"""By kind of operation; any other: `previous_value`."""
