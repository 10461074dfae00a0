"""Facts about neighbours, refusing routes, policy rules and name servers."""

from __future__ import annotations

from nictop.model.facts.links import address_section
from nictop.model.facts.routing import is_kernel_rule, route_text, routing_section, rule_text
from nictop.probe.records import PolicyRule, TableRoute
from tests.support.rule_cases import host_facts

HOST = {
    "base": "ipv6-only-guest",
    "routing": {
        "neighbours": [
            {"ifindex": "ens3", "address": "fe80::ff", "mac": "52:54:00:00:00:f1"},
            *(
                {"ifindex": "ens3", "address": f"2001:db8::{number}", "nud_state": "failed"}
                for number in range(2, 8)
            ),
        ],
        "routes": [
            {
                "destination": "::/0",
                "ifindex": "ens3",
                "gateway": "fe80::ff",
                "protocol": 9,
                "expires": 1790.4,
            },
            {"destination": "2001:db8:9::/48", "type": "unreachable", "metric": 1024},
        ],
        "rules": [
            {"family": "ipv6", "priority": 32766, "table": 254},
            {"family": "ipv6", "priority": 5, "table": 77, "source": "2001:db8::5/128"},
        ],
    },
}


def shown(sections: object) -> str:
    return repr(sections)


def test_of_a_link() -> None:
    host = host_facts(HOST)
    text = shown(address_section(host.links_by_name["ens3"], host.snapshot))
    assert "expires 2027-01-15 08:29:50 UTC unless renewed" in text
    assert "6 failed, 1 reachable" in text
    assert "2001:db8::2, 2001:db8::3, 2001:db8::4, 2001:db8::5 and 2 more" in text


def test_of_the_host() -> None:
    text = shown(routing_section(host_facts(HOST).snapshot))
    assert "unreachable 2001:db8:9::/48 metric 1024" in text
    assert "5: from 2001:db8::5 lookup 77" in text
    assert "32766" not in text
    assert "2001:db8::53" in text


def test_an_older_recording_has_none() -> None:
    host = host_facts({"base": "laptop"})
    assert routing_section(host.snapshot) == ()
    assert "Neighbours" not in shown(address_section(host.links[1], host.snapshot))


def test_texts_as_those_of_ip() -> None:
    assert route_text(TableRoute("ipv4", "0.0.0.0/0", "unicast", 77, 3, 5, 2, "192.0.2.1")) == (
        "default via 192.0.2.1 table 77 metric 5"
    )
    rule = PolicyRule(
        "ipv4", 9, "prohibit", destination="192.0.2.0/24", inverted=True, mark=7, input_link="lo"
    )
    assert rule_text(rule) == "9: not from all to 192.0.2.0/24 fwmark 0x7 iif lo prohibit"
    assert rule_text(PolicyRule("ipv4", 9, "goto", target=20)) == "9: from all goto 20"
    assert is_kernel_rule(PolicyRule("ipv4", 0, "table", 255))
    assert not is_kernel_rule(PolicyRule("ipv4", 0, "table", 255, suppressed_length=0))
