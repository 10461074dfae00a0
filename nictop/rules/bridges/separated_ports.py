"""Ports by which a bridge passes less than the NICs behind them expect: taken from the bridge,
isolated, or with settings that hold back what is for the NIC.

Reads nothing. A port is joined with the NIC of a watched host by `nics_behind_ports`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from nictop.model.devices.bridges import bridge_of, filters_vlans
from nictop.model.devices.link_history import LeftBridge
from nictop.model.devices.links import global_addresses, has_global_address
from nictop.model.text.ip_addresses import Network, address_network
from nictop.model.text.words import address_text
from nictop.model.time_axis import event_time_text
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import BridgePort, Link
from nictop.rules.bridges.attachments import is_working, nics_behind_ports
from nictop.rules.bridges.guest_ports import leads_somewhere, routed_links
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command, with_undo
from nictop.rules.host import HostFacts, once_per_diagnosis
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.routes.facts import is_unanswered_now, neighbour
from nictop.rules.routes.segments import LinkKey, WatchedLink
from nictop.rules.subjects import is_up, link_finding, names_text

MAX_NAMED = 6


def has_address_above(nic: WatchedLink) -> bool:
    """It has an address, or a link above it has one."""
    above = [link for link in nic.host.links if nic.host.lower_link(link) is nic.link]
    return any(map(has_global_address, (nic.link, *above)))


# -------------------------------------------------------------------------- taken from the bridge


class LeftPort(NamedTuple):
    """A link that was a port of a bridge, and leads nowhere now."""

    host: HostFacts
    link: Link
    left: LeftBridge
    bridge: Link
    behind: WatchedLink


@pair_rule(
    "warning",
    needs=("addresses", "routes", "routing", "qdiscs", "services"),
)
def port_was_taken_from_a_bridge(hosts: Sequence[HostFacts]) -> Outcomes:
    """A veth was a port of a bridge while it was watched, is on no bridge now, and a watched host
    is behind it: what that host sends goes nowhere.

    nictop compares what it has read before, and joins the two ends of the veth. The finding stays
    until the veth is a port again.

    Not reported: links that have an address, a route, a link above them, filters of tc or an XDP
    program now, a bridge that is gone or down, NICs without an address, hosts with Open vSwitch,
    and ports that were taken from their bridge before nictop first read the host.

    Sources: kernel net/bridge/br_if.c (br_del_if); ip-link(8) nomaster.
    """
    if len(hosts) < 2:
        return
    for found in left_ports(tuple(hosts)):
        yield _left_finding(found)


@once_per_diagnosis
def left_ports(hosts: tuple[HostFacts, ...]) -> tuple[LeftPort, ...]:
    known = nics_behind_ports(hosts)
    found = []
    for host in hosts:
        if host.inventory.services.openvswitch is not None:
            continue
        routed = routed_links(host)
        for link in host.links:
            history = host.history_of(link)
            left = None if history is None else history.left_bridge
            behind = known.get((host.name, link.ifindex))
            if left is None or behind is None or leads_somewhere(host, link, routed):
                continue
            bridge = host.link_at(left.ifindex)
            if bridge is None or bridge.name != left.name or not is_up(bridge):
                continue
            if is_working(link) and is_up(behind.link) and has_address_above(behind):
                found.append(LeftPort(host, link, left, bridge, behind))
    return tuple(found)


def _left_finding(found: LeftPort) -> Finding:
    link, bridge, behind = found.link, found.bridge, found.behind
    joining = ("ip", "link", "set", "dev", link.name)
    time = event_time_text(found.host.inventory, found.left.time)
    note = "Its settings as a port are then those of a new port."
    if filters_vlans(bridge):
        note = "Its VLANs and settings as a port are then those of a new port."
    return link_finding(
        "warning",
        found.host,
        link,
        f"taken from {bridge.name}, and {behind.named} is behind it",
        evidence=(
            Evidence("bridge", f"none; {bridge.name} before {time}", "RTM_GETLINK"),
            Evidence("addresses and routes", "none", f"ip addr show dev {link.name}"),
            Evidence(behind.named, _addresses_text(behind), "RTM_GETADDR"),
        ),
        why=f"This host neither bridges nor routes what {behind.named} sends.",
        fixes=(
            Fix(
                "here",
                "Make it a port of the bridge again",
                (command(*joining, "master", bridge.name),),
                False,
                (command(*joining, "nomaster"),),
                note,
            ),
        ),
        also=((behind.host, behind.link),),
    )


def _addresses_text(nic: WatchedLink) -> str:
    texts = [address_text(one) for one in global_addresses(nic.link)]
    return names_text(texts, MAX_NAMED) if texts else "on a link above it"


# --------------------------------------------------------------------------------- isolated ports


class IsolatedPort(NamedTuple):
    """A port of a bridge, and the NIC of a watched host behind it."""

    port: Link
    behind: WatchedLink

    @property
    def text(self) -> str:
        """``pa (to a lab0)``"""
        return f"{self.port.name} (to {self.behind.named})"


class IsolatedPorts(NamedTuple):
    """Of one bridge, with NICs in one subnet."""

    host: HostFacts
    bridge: Link
    subnet: Network
    ports: tuple[IsolatedPort, ...]


@pair_rule("warning", needs=("addresses",), uses=("routing", "forwarding", "threads"))
def isolated_ports_separate_watched_hosts(hosts: Sequence[HostFacts]) -> Outcomes:
    """Watched hosts with addresses in one subnet are behind ports of one bridge that are isolated:
    the bridge passes no frame from one of them to another.

    nictop reads the flag of the ports (IFLA_BRPORT_ISOLATED), and joins a port with the NIC: the
    ends of a veth, or a tap and the NIC of a virtual machine. Info: it may be set on purpose, so
    that guests reach only the uplink, which is not isolated. Warning: one of the hosts has lately
    asked for the address of another one there, and got no answer.

    Not reported: ports and NICs that are down, and hosts that are in one subnet only by VLAN links.

    Sources: kernel net/bridge/br_private.h (br_skb_isolated), br_forward.c (should_deliver);
    bridge(8) isolated.
    """
    if len(hosts) < 2:
        return
    for found in isolated_ports(tuple(hosts)):
        yield _isolated_finding(found)


@once_per_diagnosis
def isolated_ports(hosts: tuple[HostFacts, ...]) -> tuple[IsolatedPorts, ...]:
    grouped: dict[tuple[str, int, Network], dict[LinkKey, IsolatedPort]] = {}
    by_name = {host.name: host for host in hosts}
    for host, port, bridge, behind in _ports_to_watched_hosts(hosts):
        if port.bridge_port is None or not port.bridge_port.isolated:
            continue
        for subnet in _subnets(behind.link):
            key = (host.name, bridge.ifindex, subnet)
            grouped.setdefault(key, {})[behind.key] = IsolatedPort(port, behind)
    found: dict[frozenset[LinkKey], IsolatedPorts] = {}
    for (name, ifindex, subnet), ports in grouped.items():
        if len(ports) > 1:  # with addresses of two families they are in two subnets
            host = by_name[name]
            several = IsolatedPorts(host, host.snapshot.links[ifindex], subnet, (*ports.values(),))
            found.setdefault(frozenset(ports), several)
    return tuple(found.values())


def _ports_to_watched_hosts(
    hosts: tuple[HostFacts, ...],
) -> Iterator[tuple[HostFacts, Link, Link, WatchedLink]]:
    """(host, port, bridge, NIC behind it), all of them up."""
    known = nics_behind_ports(hosts)
    for host in hosts:
        for port in host.links:
            bridge = bridge_of(port, host.snapshot.links)
            behind = known.get((host.name, port.ifindex))
            if bridge is None or behind is None or not is_up(bridge):
                continue
            if is_working(port) and is_working(behind.link):
                yield host, port, bridge, behind


def _subnets(link: Link) -> set[Network]:
    networks = map(address_network, global_addresses(link))
    return {network for network in networks if network is not None and network.num_addresses > 1}


def are_separated(one: LinkKey, other: LinkKey, hosts: Sequence[HostFacts]) -> bool:
    """A rule here says of two NICs why neither reaches the other."""
    known = tuple(hosts)
    if any(found.behind.key in (one, other) for found in left_ports(known)):
        return True
    for found in isolated_ports(known):
        if {one, other} <= {port.behind.key for port in found.ports}:
            return True
    return False


def _isolated_finding(found: IsolatedPorts) -> Finding:
    failed = _failed_request(found)
    names = names_text([port.text for port in found.ports], MAX_NAMED)
    commands, undo = [], []
    for port in found.ports:
        setting = ("bridge", "link", "set", "dev", port.port.name, "isolated")
        off, on = with_undo(setting, "off", "on")
        commands.append(off)
        undo.append(on)
    evidence = [
        Evidence("isolated ports", names, f"bridge -d link show master {found.bridge.name}"),
        Evidence("one subnet", str(found.subnet), "RTM_GETADDR"),
    ]
    if failed is not None:
        evidence.append(failed)
    hosts = names_text([port.behind.named for port in found.ports], MAX_NAMED)
    return link_finding(
        "info" if failed is None else "warning",
        found.host,
        found.bridge,
        f"isolated ports: no frame passes between {hosts}",
        evidence=tuple(evidence),
        why="A bridge passes no frame from an isolated port to another one. It may be set on "
        "purpose, so that guests reach only the other ports.",
        fixes=(
            Fix(
                "here",
                "End the isolation, if they are to reach each other",
                tuple(commands),
                False,
                tuple(undo[::-1]),
            ),
        ),
        item=str(found.subnet),
        also=tuple((port.behind.host, port.behind.link) for port in found.ports),
    )


def _failed_request(found: IsolatedPorts) -> Evidence | None:
    """Of one of the NICs for an address of another one; None: none is known."""
    for one, other in combinations(found.ports, 2):
        for mine, theirs in ((one.behind, other.behind), (other.behind, one.behind)):
            for address in global_addresses(theirs.link):
                entry = neighbour(mine.host, mine.link, address.address)
                if entry is not None and is_unanswered_now(entry):
                    value = f"{address.address} {entry.nud_state}"
                    source = f"ip neigh show dev {mine.link.name}"
                    return Evidence(f"neighbour of {mine.named}", value, source)
    return None


# ------------------------------------------------------------------------------ settings of ports


class PortSetting(NamedTuple):
    """What a port passes less by a setting, and how that is ended."""

    title: str
    why: str
    setting: str
    value: str
    """The one that ends it."""
    shown: str


LOCKED = PortSetting(
    "locked: nothing from {nic} is accepted",
    "A locked port drops frames from MAC addresses that no entry of the forwarding table has on "
    "it, and learns none from them.",
    *("locked", "off", "locked on"),
)
NOT_FLOODED = PortSetting(
    "flood and learning are off: frames to {nic} are dropped",
    "The bridge does not learn the MAC address behind the port, and does not send frames for "
    "unknown addresses there.",
    *("learning", "on", "learning off, flood off"),
)
NO_BROADCASTS = PortSetting(
    "bcast_flood is off: broadcasts do not reach {nic}",
    "Broadcasts from other ports do not leave by it: ARP requests for what is behind it are not "
    "answered, unless the bridge does so itself (neigh_suppress).",
    *("bcast_flood", "on", "bcast_flood off"),
)


@pair_rule("warning", needs=("addresses", "forwarding"), uses=("threads",))
def bridge_port_holds_back_frames(hosts: Sequence[HostFacts]) -> Outcomes:
    """A setting of a bridge port keeps frames from or to the NIC of a watched host behind it: the
    port is locked, neither learns nor floods, or sends no broadcasts.

    nictop reads the settings of the port (IFLA_BRPORT_*), and the forwarding table. A locked port
    accepts only frames from MAC addresses that have an entry on it; one that does not learn needs
    an entry for frames to its NIC, unless it gets those for unknown addresses (flood). Info: only
    broadcasts are kept back and the NIC has an IPv4 address, which others ask for with broadcasts;
    with neigh_suppress the bridge may answer them.

    Not reported: a NIC of which the MAC address has an entry on the port, ports and NICs that are
    down, and NICs without an address.

    Sources: kernel net/bridge/br_input.c (br_handle_frame_finish: BR_PORT_LOCKED, BR_LEARNING),
    br_forward.c (br_flood: BR_FLOOD, BR_BCAST_FLOOD); bridge(8).
    """
    if len(hosts) < 2:
        return
    for host, port, bridge, behind in _ports_to_watched_hosts(tuple(hosts)):
        if port.bridge_port is None or not has_address_above(behind):
            continue
        setting = _restraint(host, port, port.bridge_port, behind)
        if setting is not None:
            yield _setting_finding(host, port, bridge, behind, setting)


def _restraint(
    host: HostFacts, port: Link, state: BridgePort, behind: WatchedLink
) -> PortSetting | None:
    has_entry = _has_entry(host, port, behind.link)
    if state.locked and not has_entry:
        return LOCKED
    if not state.learning and not state.flood and not has_entry:
        return NOT_FLOODED
    if not state.bcast_flood and global_addresses(behind.link, "ipv4"):
        return NO_BROADCASTS
    return None


def _has_entry(host: HostFacts, port: Link, nic: Link) -> bool:
    """True also if the MAC address is not known."""
    if nic.address is None:
        return True
    for entry in host.inventory.forwarding:
        if entry.ifindex == port.ifindex and entry.address == nic.address and not entry.self_entry:
            return True
    return False


def _setting_finding(
    host: HostFacts, port: Link, bridge: Link, behind: WatchedLink, setting: PortSetting
) -> Finding:
    other = {"on": "off", "off": "on"}[setting.value]
    words = ("bridge", "link", "set", "dev", port.name, setting.setting)
    change, undo = with_undo(words, setting.value, other)
    evidence = [
        Evidence("port", f"{port.name} of {bridge.name}", "RTM_GETLINK"),
        Evidence("settings", setting.shown, f"bridge -d link show dev {port.name}"),
    ]
    if setting is not NO_BROADCASTS:
        table = f"bridge fdb show brport {port.name}"
        evidence.append(Evidence("its MAC address", f"no entry for {behind.link.address}", table))
    return link_finding(
        "info" if setting is NO_BROADCASTS else "warning",
        host,
        port,
        setting.title.format(nic=behind.named),
        evidence=tuple(evidence),
        why=setting.why,
        fixes=(Fix("here", f"Turn {setting.setting} {setting.value}", (change,), False, (undo,)),),
        item=setting.setting,
        also=((behind.host, behind.link),),
    )
