"""Rules on routes with a real NetworkManager in a namespace: what its profiles want, and that the
printed commands restore it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nictop.rules import Finding
from tests.support.managed_host import run_in_bash
from tests.support.networkmanager import private_networkmanager, why_no_networkmanager
from tests.support.typed_fixes import Host, RunningHost, find_finding, fix_of, nic

NIC, OTHER = "ens37", "ens38"
ADDRESSES = ("ipv4.method", "manual", "ipv4.addresses", "192.0.2.9/24", "ipv6.method", "disabled")


@contextmanager
def managed(*settings: str) -> Iterator[RunningHost]:
    """A host with one NIC, and a profile with these settings, active."""
    reason = why_no_networkmanager()
    if reason is not None:
        pytest.skip(f"no real NetworkManager: {reason}")
    with private_networkmanager(NIC) as manager:
        manager.nmcli(
            "con", "add", "type", "ethernet", "ifname", NIC, "con-name", NIC, *ADDRESSES, *settings
        )
        manager.nmcli("con", "up", NIC)
        yield RunningHost("host", Host("", {"links": {NIC: nic()}}), manager)


def expect(place: RunningHost, rule: str, subject: str = NIC) -> Finding:
    place.manager.wait_for(lambda: find_finding((place,), rule, subject))
    finding = find_finding((place,), rule, subject)
    assert finding is not None
    return finding


def expect_gone(place: RunningHost, rule: str, subject: str = NIC) -> None:
    place.manager.wait_for(lambda: find_finding((place,), rule, subject) is None)


@pytest.mark.parametrize("number", [0, 1])
def test_a_deleted_default_route(number: int) -> None:
    """By NetworkManager, and by ip-route(8) with its undo."""
    with managed("ipv4.gateway", "192.0.2.1") as place:
        assert find_finding((place,), "default_route_is_missing", NIC) is None
        run_in_bash(place.manager, ["ip route del default"])
        finding = expect(place, "default_route_is_missing")
        assert finding.severity == "critical"
        run_in_bash(place.manager, finding.fixes[number].commands)
        expect_gone(place, "default_route_is_missing")
        run_in_bash(place.manager, finding.fixes[number].undo)
        if number:
            expect(place, "default_route_is_missing")


def test_a_deleted_route_of_the_profile() -> None:
    with managed(
        "ipv4.gateway", "192.0.2.1", "ipv4.routes", "198.51.100.0/24 192.0.2.254"
    ) as place:
        assert find_finding((place,), "route_of_the_profile_is_missing", NIC) is None
        run_in_bash(place.manager, ["ip route del 198.51.100.0/24"])
        finding = expect(place, "route_of_the_profile_is_missing")
        run_in_bash(place.manager, finding.fixes[0].commands)
        expect_gone(place, "route_of_the_profile_is_missing")


def test_deleted_addresses_of_the_profile() -> None:
    """The only one, and one of two, while another program has set its own."""
    rule = "address_of_the_profile_is_missing"
    with managed() as place:
        assert find_finding((place,), rule, NIC) is None
        run_in_bash(place.manager, [f"ip addr flush dev {NIC} scope global"])
        finding = expect(place, rule)
        assert finding.severity == "critical"
        run_in_bash(place.manager, finding.fixes[0].commands)
        expect_gone(place, rule)
        replaced = f"ip addr add 198.51.100.77/24 dev {NIC}; ip addr del 192.0.2.9/24 dev {NIC}"
        run_in_bash(place.manager, [replaced])
        finding = expect(place, rule)
        assert finding.severity == "warning"
        run_in_bash(place.manager, finding.fixes[0].commands)
        expect_gone(place, rule)


def test_a_link_that_was_set_down() -> None:
    """NetworkManager calls it connected, some seconds later unavailable."""
    rule = "link_with_a_profile_is_down"
    with managed("ipv4.gateway", "192.0.2.1") as place:
        assert find_finding((place,), rule, NIC) is None
        run_in_bash(place.manager, [f"ip link set dev {NIC} down"])
        finding = expect(place, rule)
        run_in_bash(place.manager, finding.fixes[0].commands)
        expect_gone(place, rule)
        assert find_finding((place,), "default_route_is_missing", NIC) is None
        run_in_bash(place.manager, finding.fixes[0].undo)
        place.manager.wait_for(lambda: "waits" in expect(place, rule).title)
        finding = expect(place, rule)
        run_in_bash(place.manager, finding.fixes[0].commands)
        expect_gone(place, rule)
        expect_gone(place, "default_route_is_missing")


def test_a_profile_that_was_changed_and_not_activated_again() -> None:
    with managed("ipv4.gateway", "192.0.2.1") as place:
        place.manager.nmcli("con", "mod", NIC, "ipv4.routes", "198.51.100.0/24 192.0.2.254")
        finding = expect(place, "route_of_the_profile_is_missing")
        run_in_bash(place.manager, finding.fixes[0].commands)
        expect_gone(place, "route_of_the_profile_is_missing")


def test_a_gateway_in_another_subnet_is_named_although_networkmanager_adds_a_route_to_it() -> None:
    """First by its address alone, then by the neighbour table. The profile gets another gateway."""
    with managed("ipv4.gateway", "192.0.3.1") as place:
        finding = expect(place, "gateway_is_outside_its_subnets")
        assert finding.title == "gateway 192.0.3.1 is in none of its subnets"
        place.manager.run(["bash", "-c", "echo > /dev/udp/203.0.113.9/9"])
        unanswered = expect(place, "gateway_does_not_answer")
        assert unanswered.title == "gateway 192.0.3.1 is in none of its subnets; no answer"
        assert unanswered.severity == "critical"
        run_in_bash(place.manager, fix_of(unanswered, "").commands, GATEWAY="192.0.2.1")
        expect_gone(place, "gateway_does_not_answer")
        expect_gone(place, "gateway_is_outside_its_subnets")
        run_in_bash(place.manager, fix_of(unanswered, "").undo)
        expect(place, "gateway_is_outside_its_subnets")


def test_a_route_by_the_other_nic_is_removed_from_its_profile() -> None:
    with managed() as place:
        manager = place.manager
        manager.namespace.run(["ip", "link", "add", OTHER, "type", "veth", "peer", "name", "far38"])
        for name in (OTHER, "far38"):
            manager.namespace.run(["ip", "link", "set", "dev", name, "up"])
        place.host.patch["links"][OTHER] = nic(slot=2)
        words = (
            "ipv4.method",
            "manual",
            "ipv4.addresses",
            "198.51.100.9/24",
            "ipv4.routes",
            "192.0.2.77/32",
        )
        manager.nmcli("con", "add", "type", "ethernet", "ifname", OTHER, "con-name", OTHER, *words)
        manager.nmcli("con", "up", OTHER)
        rule = "part_of_a_subnet_is_routed_by_another_nic"
        finding = expect(place, rule)
        run_in_bash(manager, finding.fixes[0].commands)
        expect_gone(place, rule)
        run_in_bash(manager, finding.fixes[0].undo)
        expect(place, rule)


def test_a_nic_that_disappears_while_its_profile_is_active() -> None:
    with managed() as place:
        assert find_finding((place,), "profile_has_lost_its_nic", NIC) is None
        place.manager.nmcli("con", "down", NIC)
        place.manager.nmcli("con", "up", NIC)
        place.host.patch.clear()
        place.manager.namespace.run(["ip", "link", "del", NIC])
        finding = expect(place, "profile_has_lost_its_nic")
        assert finding.severity == "warning"
        off = next(one for one in finding.fixes if one.persistent)
        run_in_bash(place.manager, off.commands)
        expect_gone(place, "profile_has_lost_its_nic")
        run_in_bash(place.manager, off.undo)
        expect(place, "profile_has_lost_its_nic")
