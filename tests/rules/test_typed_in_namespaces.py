"""What a rule says to type, typed in a network namespace: the finding is gone."""

from __future__ import annotations

import pytest

from tests.support.namespace_hosts import found, host_in, joined, type_fix
from tests.support.namespaces import Namespace


def test_an_address_that_both_ends_of_a_wire_have(namespace: Namespace, other: Namespace) -> None:
    for end in (namespace, other):
        end.silence()
    joined(namespace, other)
    for end in (namespace, other):
        end.run(["ip", "address", "add", "192.0.2.1/24", "dev", "wire"])
    other.run(["ip", "route", "add", "default", "via", "192.0.2.254"])
    rule = "ip_address_is_on_two_hosts"
    (finding,) = found(rule, host_in(namespace, "a"), host_in(other, "b"))
    assert (finding.host, finding.subject) == ("b", "wire")
    assert finding.title == "has the address 192.0.2.1, as wire of a has"
    type_fix(other, finding, ADDRESS_PREFIX="192.0.2.2/24")
    assert found(rule, host_in(namespace, "a"), host_in(other, "b")) == ()
    assert "default via 192.0.2.254" in other.run(["ip", "route"])
    assert "192.0.2.2/24" in other.run(["ip", "address", "show", "dev", "wire"])


@pytest.mark.parametrize(("rule", "flag"), [("arp_is_off", "arp"), ("multicast_is_off", "multicast")])
def test_a_flag_that_was_switched_off(namespace: Namespace, other: Namespace, rule: str, flag: str) -> None:
    joined(namespace, other)
    namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "wire"])
    assert found(rule, host_in(namespace)) == ()
    namespace.run(["ip", "link", "set", "dev", "wire", flag, "off"])
    (finding,) = found(rule, host_in(namespace))
    assert finding.subject == "wire"
    type_fix(namespace, finding)
    assert found(rule, host_in(namespace)) == ()


def test_a_shaper(namespace: Namespace, other: Namespace) -> None:
    rule = "traffic_control_holds_back"
    joined(namespace, other)
    namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "wire"])
    assert found(rule, host_in(namespace)) == ()
    namespace.run(
        ["tc", "qdisc", "add", "dev", "wire", "root", "tbf", "rate", "10mbit", "burst", "32k", "latency", "50ms"]
    )
    (finding,) = found(rule, host_in(namespace))
    assert finding.title == "sends at most 10.0 Mb/s: tbf rate 10Mbit"
    type_fix(namespace, finding)
    assert found(rule, host_in(namespace)) == ()


def test_prefix_lengths_that_differ(namespace: Namespace, other: Namespace) -> None:
    rule = "prefix_length_differs"
    for end in (namespace, other):
        end.silence()
    joined(namespace, other)
    namespace.run(["ip", "address", "add", "10.0.0.1/16", "dev", "wire"])
    other.run(["ip", "address", "add", "10.0.0.2/24", "dev", "wire"])
    other.run(["ip", "route", "add", "default", "via", "10.0.0.254"])
    (finding,) = found(rule, host_in(namespace, "a"), host_in(other, "b"))
    assert (finding.host, finding.title) == ("b", "has prefix length 24, wire of a has 16")
    type_fix(other, finding)
    assert found(rule, host_in(namespace, "a"), host_in(other, "b")) == ()
    assert "default via 10.0.0.254" in other.run(["ip", "route"])
