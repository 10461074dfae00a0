"""Who sets a link down is told which IPv6 addresses go with it, and who sets it up which do not
come back."""

from __future__ import annotations

from typing import Any

from nictop.probe.light_dataclasses import replace
from nictop.rules import HostFacts, diagnose
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.ipv6_addresses import with_ipv6_notes
from tests.support.rule_cases import host_facts

ADDRESSES = [
    {"family": "ipv4", "address": "192.0.2.7", "prefix_length": 24},
    {"family": "ipv6", "address": "2001:db8::7", "prefix_length": 64},
    {"family": "ipv6", "address": "2001:db8::99", "prefix_length": 64, "flags": []},
]
UP = {"links": {"ens224": {"bus": "pci", "addresses": ADDRESSES}}}
DOWN = {"bus": "pci", "addresses": ADDRESSES[:1], "flags": 0x11002, "carrier": None}
AGAIN = "To add it again: ip address add 2001:db8::7/64 dev ens224"


def facts(now: dict[str, Any], before: dict[str, Any]) -> HostFacts:
    return host_facts({**now, "before": [before]})


def test_a_link_that_was_set_down_has_lost_what_was_read_before() -> None:
    found = diagnose([facts({"links": {"ens224": DOWN}}, UP)]).findings
    (finding,) = (one for one in found if one.rule == "configured_link_is_down")
    assert finding.fixes[0].title == "Bring the link up"
    assert finding.fixes[0].note == f"It does not bring back IPv6 2001:db8::7/64. {AGAIN}"
    lost = [one.value for one in finding.evidence if one.what == "gone with the link"]
    assert lost == ["2001:db8::7/64"]


def test_a_link_that_is_set_down_and_up_loses_them() -> None:
    steps = tuple(command("ip", "link", "set", "dev", "ens224", one) for one in ("down", "up"))
    fix = Fix("here", "Set the link down and up", steps, None, (), "Interrupts connections.")
    (noted,) = with_ipv6_notes(facts(UP, UP), (fix,))
    assert noted.note == f"ens224 loses IPv6 2001:db8::7/64. {AGAIN} Interrupts connections."


def test_other_fixes_stay_as_they_are() -> None:
    for words in (("mtu", "1500"), ("mtu", "1280"), ("up",)):
        fix = Fix("here", "", (command("ip", "link", "set", "dev", "ens224", *words),))
        assert with_ipv6_notes(facts(UP, UP), (fix,)) == (fix,)


ROUTES = {
    "routing": {
        "routes": [
            {
                "destination": "10.0.0.0/8",
                "gateway": "192.0.2.1",
                "ifindex": "ens224",
                "preferred_source": "192.0.2.7",
                "unread": ["realms"],
            },
            {"destination": "10.7.0.0/16", "ifindex": "ens224", "protocol": 16},
        ]
    }
}
ROUTE = "ip route add 10.0.0.0/8 via 192.0.2.1 dev ens224 src 192.0.2.7"
UNSET = "The command does not set realms of the route to 10.0.0.0/8."


def test_a_link_that_was_set_down_has_lost_its_static_routes() -> None:
    """They are seen for the last time while it is up; those of DHCP are left to it."""
    now = {"links": {"ens224": {**DOWN, "addresses": ADDRESSES[:1]}}, "routing": {"routes": []}}
    found = diagnose([facts(now, {**UP, **ROUTES})]).findings
    (finding,) = (one for one in found if one.rule == "configured_link_is_down")
    assert finding.fixes[0].note == (
        "It does not bring back IPv6 2001:db8::7/64 and the static route to 10.0.0.0/8. To add "
        f"them again: ip address add 2001:db8::7/64 dev ens224, {ROUTE}. {UNSET}"
    )


def test_a_link_that_is_set_down_loses_its_static_routes() -> None:
    fix = Fix("here", "", (command("ip", "link", "set", "dev", "ens224", "down"),))
    (noted,) = with_ipv6_notes(facts({**UP, **ROUTES}, UP), (fix,))
    loses = "ens224 loses IPv6 2001:db8::7/64 and the static route to 10.0.0.0/8."
    assert noted.note.startswith(loses) and ROUTE in noted.note and UNSET in noted.note


def set_mtu(size: int) -> Fix:
    return Fix("here", "", (command("ip", "link", "set", "dev", "ens224", "mtu", str(size)),))


def test_an_mtu_that_is_too_small_for_ipv6_takes_it_from_the_link() -> None:
    """IPv4 routes stay."""
    (noted,) = with_ipv6_notes(facts({**UP, **ROUTES}, UP), (set_mtu(1279),))
    assert noted.note == f"ens224 loses IPv6 2001:db8::7/64. {AGAIN}"


def test_a_larger_mtu_does_not_bring_it_back() -> None:
    """On another watched host, too."""
    small = {"links": {"ens224": {"bus": "pci", "addresses": ADDRESSES[:1], "mtu": 1200}}}
    host = facts(small, {"links": {"ens224": {**UP["links"]["ens224"], "mtu": 1500}}})
    (noted,) = with_ipv6_notes(host, (set_mtu(1500),))
    assert noted.note == f"It does not bring back IPv6 2001:db8::7/64. {AGAIN}"
    other = host_facts({"name": "other"})
    there = replace(set_mtu(1500), where="peer", peer=host.name)
    assert with_ipv6_notes(other, (there,), (other, host)) == (replace(there, note=noted.note),)


def test_a_fix_that_has_the_notes_gets_them_once() -> None:
    """A path test adds them to what rules have found, too."""
    up = Fix("here", "", (command("ip", "link", "set", "dev", "ens224", "up"),), note="More.")
    host = facts({"links": {"ens224": DOWN}}, UP)
    noted = with_ipv6_notes(host, (up,))
    assert noted[0].note == f"It does not bring back IPv6 2001:db8::7/64. {AGAIN} More."
    assert with_ipv6_notes(host, noted) == noted
