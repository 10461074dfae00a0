"""Who sets a link down is told which IPv6 addresses go with it, and who sets it up which do not
come back."""

from __future__ import annotations

from typing import Any

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
    for words in (("mtu", "1500"), ("up",)):
        fix = Fix("here", "", (command("ip", "link", "set", "dev", "ens224", *words),))
        assert with_ipv6_notes(facts(UP, UP), (fix,)) == (fix,)
