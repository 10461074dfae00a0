"""Commands of fixes do not rewrite routes of router advertisements, DHCP, the kernel and routing
daemons. With real routes: what ip prints about them is the same after the commands, and after those
of the undo."""

from __future__ import annotations

import pytest

from nictop.probe.kernel.route_protocols import ROUTING_DAEMONS, route_owner, routing_daemon
from nictop.rules.finding import Finding, Fix
from nictop.rules.fixes.source_routing import FIRST_TABLE, TABLE_STEP, free_table
from tests.rules.test_typed_fixes import BETWEEN, PEER
from tests.support.namespaces import why_no_namespaces
from tests.support.rule_cases import host_facts
from tests.support.typed_fixes import Host, RunningHost, find_finding, nic, running_hosts

ROUTES = "; ".join(
    (
        "ip -6 route add default proto ra metric 1024 expires 600 "
        "nexthop via fe80::1 dev v1 nexthop via fe80::2 dev v1",
        "ip route add default via 192.0.2.254 dev v1 proto dhcp metric 100",
        "ip route add 10.1.0.0/16 via 192.0.2.9 dev v1 proto bgp",
        "ip route add 10.2.0.0/16 via 192.0.2.9 dev v1 proto static",
        "ip route add 10.3.0.0/16 nexthop via 192.0.2.9 dev v1 nexthop via 192.0.2.8 dev v1",
    )
)
DUPLICATE = {
    "ipv4": (f"{PEER} ip address add 192.0.2.1/24 dev p1", "192.0.2.5/24"),
    "ipv6": (f"{PEER} ip address add 2001:db8::10/64 dev p1 nodad", "2001:db8::11/64"),
}
OWN = "ip address add 192.0.2.1/24 dev v1; ip address add 2001:db8::10/64 dev v1 nodad"

pytestmark = pytest.mark.skipif(why_no_namespaces() is not None, reason=str(why_no_namespaces()))


def shown_routes(host: RunningHost, family: str) -> str:
    """Without the rest of the lifetime."""
    lines = host.manager.run(["ip", "-6" if family == "ipv6" else "-4", "route"]).splitlines()
    return "\n".join(line.partition(" expires ")[0] for line in lines)


def fix_here(finding: Finding) -> Fix:
    return next(fix for fix in finding.fixes if fix.where == "here" and fix.commands)


@pytest.mark.parametrize("family", DUPLICATE)
def test_a_fix_of_a_duplicate_address_leaves_routes_of_others_alone(family: str) -> None:
    theirs, other = DUPLICATE[family]
    hosts = (
        Host("true", {"links": {"p1": nic()}}, ipv6=True),
        Host(f"{BETWEEN}; {theirs}; {OWN}; {ROUTES}", {"links": {"v1": nic()}}, ipv6=True),
    )
    with running_hosts(hosts) as made:
        host = made[1]
        before = {one: shown_routes(host, one) for one in DUPLICATE}
        assert before["ipv6"].count("nexthop") == 2 and "proto ra" in before["ipv6"]
        finding = find_finding(made, "ip_address_is_on_two_hosts", "v1")
        assert finding is not None
        fix = fix_here(finding)
        words = [str(line) for line in fix.commands]
        assert not any("default" in line or "10.1." in line or "10.3." in line for line in words)
        host.run_in_bash(line.replace("'<ADDRESS/PREFIX>'", other) for line in words)
        assert shown_routes(host, "ipv6").count("proto ra") == 1
        assert shown_routes(host, "ipv6").count("nexthop") == 2
        if family == "ipv6":
            assert shown_routes(host, "ipv4") == before["ipv4"]
            assert words == [
                "ip address del 2001:db8::10/64 dev v1",
                "ip address add '<ADDRESS/PREFIX>' dev v1",
            ]
        else:
            assert "10.2.0.0/16 via 192.0.2.9 dev v1 proto static" in shown_routes(host, "ipv4")
            assert fix.note.startswith(
                "Add the route to 10.3.0.0/16 again, with several next hops."
            )
            assert "The route to default is left to what sets it: DHCP." in fix.note


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_source_based_routing_uses_a_table_without_routes(steps: int) -> None:
    """The fix replaces routes in it, and its undo removes them."""
    link = next(
        one for one in host_facts({"base": "bond-networkmanager"}).links if one.name == "eno1"
    )
    first = FIRST_TABLE + link.ifindex
    routes = [
        {"destination": "10.0.0.0/8", "table": first + number * TABLE_STEP}
        for number in range(steps)
    ]
    facts = host_facts({"base": "bond-networkmanager", "routing": {"routes": routes}})
    assert free_table(facts, link) == first + steps * TABLE_STEP


@pytest.mark.parametrize("protocol", [1, 2, 9, 16, 187, 200, *ROUTING_DAEMONS])
def test_routes_with_an_owner(protocol: int) -> None:
    assert route_owner(protocol)
    assert bool(routing_daemon(protocol)) == (protocol not in (1, 2, 9, 16))


@pytest.mark.parametrize("protocol", [0, 3, 4, 77])
def test_static_routes_have_no_owner(protocol: int) -> None:
    assert not route_owner(protocol)
