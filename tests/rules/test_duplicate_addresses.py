"""Two hosts with one address: how bad that is, and what goes with the address."""

from __future__ import annotations

from typing import Any

import pytest

from nictop.changes.actions import ManualOnly, actions_of
from nictop.rules import Finding, HostFacts, diagnose
from nictop.rules.routes.rewriting import secondaries_of
from tests.rules.test_far_ends import UP_WITHOUT_CARRIER, namespace, veth


def address(text: str, *flags: str, family: str = "ipv4") -> dict[str, Any]:
    number, _, length = text.partition("/")
    length_and_flags = {"prefix_length": int(length), "flags": ["permanent", *flags]}
    return {"family": family, "address": number, "scope": "global", **length_and_flags}


def pair(mine: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> tuple[HostFacts, HostFacts]:
    one = namespace("a", 1, {"lab0": veth(1, "lab0", 2, addresses=mine)})
    other = namespace("b", 2, {"lab0": veth(2, "lab0", 1, addresses=theirs)})
    return one, other


def duplicate(hosts: tuple[HostFacts, HostFacts]) -> Finding:
    findings = diagnose(hosts).findings
    (found,) = (one for one in findings if one.rule == "ip_address_is_on_two_hosts")
    return found


ONE, TWO, THREE = (f"198.18.0.{number}/24" for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("mine", "theirs", "severity"),
    [
        ([ONE], [TWO, ONE], "critical"),
        ([ONE], [ONE, "203.0.113.2/24"], "critical"),
        ([ONE, THREE], [TWO, ONE], "warning"),
        ([ONE, "203.0.113.1/24"], [ONE, "203.0.113.2/24"], "warning"),
    ],
    ids=["no other of a", "another subnet", "another pair", "another pair of another subnet"],
)
def test_it_is_critical_where_nothing_else_is_between_them(
    mine: list[str], theirs: list[str], severity: str
) -> None:
    found = duplicate(pair([*map(address, mine)], [*map(address, theirs)]))
    assert found.severity == severity
    cut = "IPv4 does not work between b and a by global addresses"
    assert found.why.startswith(cut) == (severity == "critical"), "link-local ones still do"


def test_two_ends_of_a_veth_pair_are_not_said_to_be_in_separate_networks() -> None:
    why = duplicate(pair([address(ONE), address(THREE)], [address(TWO), address(ONE)])).why
    assert why.startswith("b lab0 and a lab0 are the two ends of one veth pair: ")
    assert "separate" not in why and "In one network" not in why


def test_another_family_is_not_counted() -> None:
    both = [address("2001:db8::1/64", family="ipv6")]
    other = [address("2001:db8::2/64", family="ipv6")]
    found = duplicate(pair([address(ONE), *both], [address(ONE), *other]))
    assert (found.severity, found.title.split()[0]) == ("critical", "198.18.0.1")


def test_secondary_addresses_that_go_with_it_are_set_again() -> None:
    hosts = pair([address(ONE)], [address(ONE), address(TWO, "secondary")])
    found = duplicate(hosts)
    assert found.host == "b"
    fix = found.fixes[1]
    assert fix.title == "Or change the address of lab0"
    assert [str(step) for step in fix.commands] == [
        "ip address del 198.18.0.1/24 dev lab0",
        "ip address replace 198.18.0.2/24 dev lab0",
        "ip address add '<ADDRESS/PREFIX>' dev lab0",
    ]
    assert [str(step) for step in fix.undo] == [
        "ip address del '<ADDRESS/PREFIX>' dev lab0",
        "ip address del 198.18.0.2/24 dev lab0",
        "ip address add 198.18.0.1/24 dev lab0",
        "ip address replace 198.18.0.2/24 dev lab0",
    ]
    assert "198.18.0.2/24 is set again" in fix.note


def test_of_two_addresses_of_the_subnet_the_duplicate_one_is_removed() -> None:
    """No new one is needed, and nobody is to be asked who has it: the veths are joined."""
    found = duplicate(pair([address(ONE), address(TWO, "secondary")], [address(ONE)]))
    assert found.host == "a", "whose address is the easiest to change"
    first = found.fixes[0]
    assert first.title == f"Remove {ONE} from lab0, which has {TWO} as well"
    assert [str(step) for step in first.commands] == [
        "ip address del 198.18.0.1/24 dev lab0",
        "ip address replace 198.18.0.2/24 dev lab0",
    ]
    assert [str(step) for step in first.undo] == [
        "ip address del 198.18.0.2/24 dev lab0",
        "ip address add 198.18.0.1/24 dev lab0",
        "ip address replace 198.18.0.2/24 dev lab0",
    ]
    assert not any("arping" in str(step) for fix in found.fixes for step in fix.commands)


def test_an_address_that_the_other_host_has_as_well_is_not_left() -> None:
    both = [address(ONE), address(TWO, "secondary")]
    for found in diagnose(pair(both, both)).findings:
        assert not any(fix.title.startswith("Remove") for fix in found.fixes)


DOWN = {"flags": 0, "carrier": False, "operstate": "down"}


def test_a_link_that_is_down_is_said_to_be_a_duplicate_once_it_is_up() -> None:
    """Before it is set up, by the fix that does that."""
    theirs = veth(1, "lab0", 2, addresses=[address(ONE)], **UP_WITHOUT_CARRIER)
    peer = namespace("a", 1, {"lab0": theirs})
    both = [address(ONE), address(TWO, "secondary")]
    other = namespace("b", 2, {"lab0": veth(2, "lab0", 1, addresses=both, **DOWN)})
    alone = veth(2, "lab0", 1, addresses=[address(TWO)], **DOWN)
    healthy = namespace("b", 2, {"lab0": alone})
    title = "198.18.0.1 is on a lab0: a duplicate as soon as lab0 is up"
    for hosts, wanted in (((peer, other), [title]), ((peer, healthy), [])):
        findings = {found.rule: found for found in diagnose(hosts).findings if found.host == "b"}
        found = findings.get("ip_address_is_on_two_hosts")
        assert [one.title for one in (found,) if one is not None] == wanted
        (up,) = findings["configured_link_is_down"].fixes
        assert (up.title, up.note) == ("Bring the link up", "".join(f"{text}." for text in wanted))


def test_what_goes_with_an_address() -> None:
    _, other = pair([], [address(ONE), address(TWO, "secondary"), address("198.18.0.3/25")])
    (link,) = other.links
    first, second, third = link.addresses
    assert secondaries_of(link, first) == [second]
    assert secondaries_of(link, second) == secondaries_of(link, third) == []


def route(destination: str, **more: Any) -> dict[str, Any]:
    family = "ipv6" if ":" in destination else "ipv4"
    return {"family": family, "destination": destination, "ifindex": "lab0", **more}


def pair_with_routes(mine: list[dict[str, Any]], *routes: dict[str, Any]) -> Finding:
    """Of host b, which has the address of a as well as others."""
    theirs = [address(ONE), address("2001:db8::1/64", family="ipv6")]
    one = namespace("a", 1, {"lab0": veth(1, "lab0", 2, addresses=theirs)})
    links = {"lab0": veth(2, "lab0", 1, addresses=mine)}
    return duplicate((one, namespace("b", 2, links, routing={"routes": routes})))


def test_a_route_is_set_again_with_all_it_had() -> None:
    """Of the study: `src` was lost, also after the undo."""
    routes = (
        route("10.0.0.0/8", gateway="198.18.0.77", preferred_source="198.18.0.2"),
        route("10.9.0.0/16", gateway="198.18.0.77", preferred_source="198.18.0.1", metric=7),
        route("172.16.0.0/24", options=["mtu", "lock", "1400"], table=100, unread=["realms"]),
    )
    found = pair_with_routes([address(ONE), address(TWO, "secondary")], *routes)
    fix = next(fix for fix in found.fixes if "198.18.0.1/24" in str(fix.commands[0]))
    added = [str(step) for step in fix.commands if " route " in str(step)]
    undone = [str(step) for step in fix.undo if " route " in str(step)]
    table = "ip route replace 172.16.0.0/24 dev lab0 table 100 mtu lock 1400"
    source = "ip route replace 10.0.0.0/8 via 198.18.0.77 dev lab0 src 198.18.0.2"
    other = "ip route replace 10.9.0.0/16 via 198.18.0.77 dev lab0 metric 7"
    assert added == [table, source, other], "198.18.0.1 is not there any more"
    assert undone == [table, source, f"{other} src 198.18.0.1"]
    assert "does not set realms of the route to 172.16.0.0/24" in fix.note
    assert (
        "without its label, broadcast address, peer address and route metric, if it has" in fix.note
    )


@pytest.mark.parametrize(
    ("destination", "options", "lost"),
    [
        ("10.0.0.0/8", {"gateway": "198.18.0.77"}, False),
        ("10.0.0.0/8", {"gateway": "198.18.0.77", "preferred_source": "198.18.0.1"}, True),
    ],
)
def test_a_route_stays_while_another_address_is_there(
    destination: str, options: dict[str, Any], lost: bool
) -> None:
    """Its gateway may be in the subnet of the address that goes."""
    mine = [address(ONE), address("203.0.113.1/24")]
    found = pair_with_routes(mine, route(destination, **options))
    fix = found.fixes[0]
    assert any(" route " in str(step) for step in fix.undo) is lost


def test_the_undo_of_an_ipv6_address_has_its_flags_and_gives_routes_their_source() -> None:
    """Without nodad the address, which another host has, is a failed one again."""
    mine = [address("2001:db8::1/64", "nodad", family="ipv6")]
    one = route("2001:db8:9::/48", gateway="2001:db8::77", preferred_source="2001:db8::1")
    fix = pair_with_routes(mine, one).fixes[0]
    assert [str(step) for step in fix.undo] == [
        "ip address del '<ADDRESS/PREFIX>' dev lab0",
        "ip address add 2001:db8::1/64 dev lab0 nodad",
        "ip -6 route replace 2001:db8:9::/48 via 2001:db8::77 dev lab0 src 2001:db8::1",
    ]
    assert isinstance(actions_of(fix), ManualOnly), "its undo changes a route"


def with_lo(
    theirs: list[dict[str, Any]], mine: list[dict[str, Any]], on_lo: list[dict[str, Any]]
) -> tuple[HostFacts, HostFacts]:
    """b has addresses on lo."""
    links = {"lab0": veth(2, "lab0", 1, addresses=mine), "lo": {"addresses": on_lo}}
    one = namespace("a", 1, {"lab0": veth(1, "lab0", 2, addresses=theirs)})
    return one, namespace("b", 2, links)


LOCAL = address("198.18.0.1/32")


def test_an_address_of_the_other_host_on_lo_stays_on_the_host() -> None:
    found = duplicate(with_lo([address(ONE)], [address(TWO)], [LOCAL]))
    assert (found.host, found.subject, found.severity) == ("b", "lo", "warning")
    assert found.title == "198.18.0.1 is also on a lab0: b cannot reach a by it"
    assert [str(one) for one in found.fixes[0].commands] == ["ip address del 198.18.0.1/32 dev lo"]


@pytest.mark.parametrize("more", [[address(THREE)], []], ids=["second address", "prefix 32"])
def test_it_may_be_a_virtual_address(more: list[dict[str, Any]]) -> None:
    """Of LVS direct routing: the director has it besides its own one, the servers have it on lo."""
    theirs = [address(ONE), *more] if more else [address("198.18.0.1/32")]
    found = duplicate(with_lo(theirs, [address(TWO)], [LOCAL]))
    assert found.severity == "info" and found.fixes == () and "is correct" in found.why


@pytest.mark.parametrize(
    ("theirs", "mine", "on_lo"),
    [
        ([address(ONE)], [address("203.0.113.2/24")], [LOCAL]),
        ([address(ONE)], [address(TWO)], [address("198.18.0.9/32")]),
        ([], [address(TWO)], [LOCAL]),
    ],
    ids=["no subnet in common", "another address", "anycast: on lo of both"],
)
def test_an_address_on_lo_that_no_host_of_the_subnet_has(
    theirs: list[dict[str, Any]], mine: list[dict[str, Any]], on_lo: list[dict[str, Any]]
) -> None:
    findings = diagnose(with_lo(theirs, mine, on_lo)).findings
    assert "ip_address_is_on_two_hosts" not in {one.rule for one in findings}
