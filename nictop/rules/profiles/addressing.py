"""Conflicts of addresses and default routes on one host; for subnets of two NICs see
`shared_subnets`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.links import global_addresses
from nictop.model.text.words import address_text
from nictop.probe.records import Address, DefaultRoute, Link, Profile
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command, echo, print_lines
from nictop.rules.fixes.persistence import is_run_by_networkd
from nictop.rules.fixes.profiles import modify
from nictop.rules.fixes.source_routing import RT_TABLE_MAIN
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.profiles.nics import is_nic
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.routes.facts import owner_reason, table_route
from nictop.rules.routes.rewriting import UNKNOWN_ROUTES_NOTE, lost_routes
from nictop.rules.subjects import link_finding, set_address
from nictop.rules.vf.facts import is_port_of_netvsc

MAX_METRIC_GAP = 10
"""Metrics that NetworkManager assigns to NICs of one type differ by less than this (100, 101,
…)."""
DRIVERS_ABOVE_A_VF = ("hv_netvsc", "net_failover")
"""Drivers of NICs that are the master of a virtual function and share its MAC address."""
RELOAD = command("networkctl", "reload")
EQUAL_METRICS = (
    "Which default route and NIC are used, for replies as well, depends on the order in which the "
    "routes were added, and on which gateway answers ARP requests."
)
ADJACENT_METRICS = (
    "Which default route and NIC are used, for replies as well, depends on the order in which the "
    "NICs come up."
)
FALLBACK_METRIC, FALLBACK_STEP = 500, 100
MASTER_KINDS = ("bridge", "bond", "team", "openvswitch")
"""Kinds whose ports pass all received packets to the master."""


@host_rule("critical", uses=("addresses", "ethtool.driver"))
def address_on_a_lower_link(host: HostFacts) -> Outcomes:
    """A port of another link (its master) has its own IPv4 address, but packets to that address
    reach the master.

    The virtual function of a Hyper-V or net_failover NIC, and ports of a bridge, bond or team, pass
    received packets to their master, answers to ARP requests among them. If both have an address
    from DHCP, the usual cause is a race at boot; a new bridge port retains its address unless that
    is moved to the bridge.

    Reported for links with a master of these kinds and a global IPv4 address. The same MAC address
    on both is correct. Not reported: ports of a VRF, which have their own addresses, and veth and
    tap ports of containers and guests.

    Sources: kernel Documentation/networking/netvsc.rst and net_failover.rst;
    Azure/azure-vm-utils#106; fedora-coreos-tracker#1383; flatcar/init#106.
    """
    for link in host.links:
        if link.master is None or link.kind is not None:
            continue
        addresses = global_addresses(link, "ipv4")
        master = host.master_of(link)
        if not addresses or master is None:
            continue
        is_paired = link_driver(master) in DRIVERS_ABOVE_A_VF or master.kind == "failover"
        if is_paired or master.kind in MASTER_KINDS:
            yield _on_a_port(host, link, master, addresses, paired=is_paired)


def _on_a_port(
    host: HostFacts, link: Link, master: Link, addresses: Sequence[Address], *, paired: bool
) -> Finding:
    written = list(map(address_text, addresses))
    of_master = ", ".join(map(address_text, global_addresses(master, "ipv4"))) or "none"
    kind = link_driver(master) or master.kind
    fixes = [_without_address(host, link, master, addresses)]
    active = host.own_profile(link)
    if paired:
        fixes += _unmanaged_fixes(host, link, master)
    elif active is not None:
        off = modify(host, active, "connection.autoconnect", "no")
        on = modify(host, active, "connection.autoconnect", "yes")
        fixes.append(Fix("here", "Disable autoconnect of its profile", (off,), True, (on,)))
    return link_finding(
        "critical",
        host,
        link,
        f"IPv4 address on a port of {master.name}",
        evidence=(
            Evidence("addresses", ", ".join(written), "ip address"),
            Evidence("master", f"{master.name} ({kind})", "ip link"),
            Evidence(f"addresses of {master.name}", of_master, "ip address"),
        ),
        why=f"{master.name} receives all packets of this port, including those to this address. "
        f"The port itself cannot use it.",
        fixes=tuple(fixes),
    )


def _without_address(
    host: HostFacts, link: Link, master: Link, addresses: Sequence[Address]
) -> Fix:
    """Where the master has no address, the host would be left without one: it gets that of the
    port. Secondary addresses go first, as the kernel removes them with their primary one."""
    last_first = sorted(addresses, key=lambda address: "secondary" not in address.flags)
    drop = tuple(
        command("ip", "address", "del", address_text(address), "dev", link.name)
        for address in last_first
    )
    again = tuple(set_address(link, address) for address in addresses)
    notes = []
    if any("permanent" not in address.flags for address in addresses):
        notes.append("The undo sets no lifetime: what renews the lease (DHCP) sets it again.")
    lost = lost_routes(host, link, ("ipv4",))
    if global_addresses(master, "ipv4"):
        if lost.note == UNKNOWN_ROUTES_NOTE:
            notes.append("The undo does not set static routes of the port again.")
        undo = (*again, *lost.restored)
        title = "Remove the address from the port"
        return Fix("here", title, drop, False, undo, " ".join(notes))
    moved = tuple(set_address(master, address) for address in addresses)
    off = tuple(
        command("ip", "address", "del", address_text(address), "dev", master.name)
        for address in last_first
    )
    routes = lost_routes(host, link, ("ipv4",), by=master)
    if routes.note:
        notes.append(routes.note)
    return Fix(
        "here",
        f"Move the address to {master.name}",
        (*drop, *moved, *routes.commands),
        False,
        (*off, *again, *lost.restored),
        " ".join(notes),
    )


def _unmanaged_fixes(host: HostFacts, link: Link, master: Link) -> list[Fix]:
    driver = link_driver(link)
    fixes: list[Fix] = []
    if driver is None or link.pci_address is None:
        return fixes
    by_driver = _are_all_below_netvsc(host, master, driver)
    if host.profiles.manager is not None:
        match = f'DRIVERS=="{driver}"' if by_driver else f'KERNELS=="{link.pci_address}"'
        file = "/etc/udev/rules.d/68-vf-unmanaged.rules"
        rule = f'SUBSYSTEM=="net", ACTION!="remove", {match}, ENV{{NM_UNMANAGED}}="1"'
        lines = (
            echo(rule, file),
            command("nmcli", "device", "set", link.name, "managed", "no"),
            # NetworkManager sets a device down that it had managed (_set_state_full)
            command("ip", "link", "set", "dev", link.name, "up"),
        )
        undo = (command("rm", file), command("nmcli", "device", "set", link.name, "managed", "yes"))
        fixes.append(Fix("here", "Set the port unmanaged in NetworkManager", lines, True, undo))
    if is_run_by_networkd(host, link):
        match = f"Driver={driver}" if by_driver else f"Path=*pci-{link.pci_address}"
        file = "/etc/systemd/network/05-vf-unmanaged.network"
        written = print_lines(["[Match]", match, "[Link]", "Unmanaged=yes"], file)
        title = "Set the port unmanaged in systemd-networkd"
        fixes.append(Fix("here", title, (written, RELOAD), True, (command("rm", file), RELOAD)))
    return fixes


def _are_all_below_netvsc(host: HostFacts, master: Link, driver: str) -> bool:
    """All NICs of the driver are VFs below Hyper-V's synthetic NICs, so that the driver names
    them."""
    if link_driver(master) != "hv_netvsc":
        return False
    return all(is_port_of_netvsc(host, link) for link in host.links_by_driver.get(driver, ()))


@host_rule("warning", needs=("networkmanager", "settings.policy_rules"), uses=("routes",))
def second_default_route(host: HostFacts) -> Outcomes:
    """Two NICs each have an IPv4 default route, with equal or adjacent metrics.

    With equal metrics the route that was added first is used, or the other one while the first
    gateway does not answer ARP requests. NetworkManager assigns metric 100 to the first NIC of a
    type, 101 to the next, in order of activation, so traffic, including nictop's own session, may
    move to the other NIC at the next reboot.

    Warning: equal metrics. Info: adjacent metrics that NetworkManager assigned. Not reported:
    metrics set in a profile, metrics that differ by more, other routing tables, and hosts with
    policy routing rules.

    Sources: nm-settings-nmcli(5) ipv4.route-metric, never-default; kernel
    net/ipv4/fib_semantics.c (fib_select_default); lxc/incus#3652, #3655.
    """
    if host.inventory.settings.policy_rules:
        return
    routes = sorted(_default_routes(host), key=lambda place: (place[1].metric, place[0].ifindex))
    if len(routes) < 2:
        return
    first, best = routes[0]
    for link, route in routes[1:]:
        profile = host.profiles.active(link)
        is_equal = route.metric == best.metric
        if link.ifindex == first.ifindex:
            continue
        if not is_equal and not _is_chosen_by_order(profile, route, best):
            continue
        yield link_finding(
            "warning" if is_equal else "info",
            host,
            link,
            f"second default route; {first.name} has one too",
            evidence=(
                Evidence(f"default route of {first.name}", _route(best), "ip route"),
                Evidence(f"default route of {link.name}", _route(route), "ip route"),
            ),
            why=EQUAL_METRICS if is_equal else ADJACENT_METRICS,
            fixes=tuple(_without_default_route(host, link, route, profile, best)),
        )


def _is_chosen_by_order(profile: Profile | None, route: DefaultRoute, best: DefaultRoute) -> bool:
    """NetworkManager has counted its metric up from that of the best route."""
    if profile is None or profile.ipv4.route_metric is not None:
        return False
    return route.metric - best.metric < MAX_METRIC_GAP


def _default_routes(host: HostFacts) -> Iterator[tuple[Link, DefaultRoute]]:
    for link in host.links:
        if not link.default_routes or not is_nic(host, link):
            continue
        for route in link.default_routes:
            if route.family == "ipv4" and route.table == RT_TABLE_MAIN:
                yield link, route
                break


def _route(route: DefaultRoute) -> str:
    way = f"via {route.gateway}" if route.gateway else "on-link"
    return f"{way}, metric {route.metric}"


def _without_default_route(
    host: HostFacts,
    link: Link,
    route: DefaultRoute,
    profile: Profile | None,
    best: DefaultRoute,
) -> Iterator[Fix]:
    if profile is not None and not profile.external:
        yield from _profile_without_default_route(host, link, profile, best)
        return
    note = (
        "Persistent, of DHCP: networkd [DHCPv4] UseGateway=no; netplan dhcp4-overrides: "
        "use-routes: false, which ignores all routes of DHCP. Else remove the gateway where it is "
        "written."
    )
    known = table_route(host, link, route)
    reason = "" if known is None else owner_reason(known)
    if reason:
        title = "Remove this default route where it is set"
        yield Fix("here", title, (), True, (), f"{reason} {note}")
        return
    via = ("via", route.gateway) if route.gateway else ()
    words = ("default", *via, "dev", link.name, "metric", str(route.metric))
    drop = command("ip", "route", "del", *words)
    # append: with an equal metric there is a default route, which add would refuse
    back = command("ip", "route", "append", *words)
    yield Fix("here", "Delete this default route", (drop,), False, (back,), note)


def _profile_without_default_route(
    host: HostFacts, link: Link, profile: Profile, best: DefaultRoute
) -> Iterator[Fix]:
    again = command("nmcli", "device", "reapply", link.name)
    metric = profile.ipv4.route_metric
    before = "-1" if metric is None else str(metric)
    # nmcli forgets the gateway of a profile without a default route
    gateway = ("ipv4.gateway", profile.ipv4.gateway) if profile.ipv4.gateway else ()
    yield Fix(
        "here",
        "Remove the default route from the profile",
        (modify(host, profile, "ipv4.never-default", "yes"), again),
        True,
        (modify(host, profile, "ipv4.never-default", "no", *gateway), again),
    )
    fallback = str(max(FALLBACK_METRIC, best.metric + FALLBACK_STEP))
    yield Fix(
        "here",
        f"Use this default route as fallback (metric {fallback})",
        (modify(host, profile, "ipv4.route-metric", fallback), again),
        True,
        (modify(host, profile, "ipv4.route-metric", before), again),
    )
