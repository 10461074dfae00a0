"""Each NIC that has no pair in the list says why, as far as that is known; others say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from nictop.model.devices.pairs import pairs
from nictop.model.snapshot import ARPHRD_VOID, Snapshot
from nictop.probe.records import Address, Link
from nictop.traffic.plan.plan import endpoint_pairs
from nictop.traffic.plan.unlisted import unlisted_texts
from tests.traffic.machines import machine, nic, two


def texts(*hosts: Snapshot) -> list[str]:
    subnets = pairs(hosts).subnets
    return unlisted_texts(
        subnets, endpoint_pairs(subnets, hosts), {host.host: host for host in hosts}
    )


def address(text: str, prefix: int, *flags: str, scope: str = "global") -> Address:
    return Address("ipv6" if ":" in text else "ipv4", text, prefix, scope, flags)


def ens(number: int, *addresses: Address, **more: Any) -> Link:
    return replace(nic(number, f"ens{number}"), addresses=addresses, **more)


OTHER = machine("b", nic(5, "ens5", "192.0.2.2"))
LINK_LOCAL = address("fe80::1", 64, scope="link")


def test_nothing_is_said_of_nics_that_are_listed() -> None:
    _, snapshots = two()
    assert texts(*snapshots.values()) == []


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        (ens(4), "no IP address"),
        (ens(4, flags=0x1002), "no IP address; set down"),
        (ens(4, carrier=False), "no IP address; no carrier"),
        (ens(4, LINK_LOCAL), "only link-local addresses"),
        (
            ens(4, address("2001:db8::1", 64, "dadfailed")),
            "duplicate address detection of 2001:db8::1 has failed",
        ),
        (ens(4, address("192.0.2.1", 32)), "192.0.2.1/32 is in no subnet with other addresses"),
        (
            ens(4, address("192.0.2.1", 16)),
            "192.0.2.1/16 is in another subnet than 192.0.2.2/24 of b ens5",
        ),
        (
            ens(4, address("198.51.100.1", 24)),
            "no other host has an address in 198.51.100.0/24",
        ),
        (ens(4, type=ARPHRD_VOID), "not read yet"),
    ],
)
def test_why_a_nic_has_no_pair(link: Link, reason: str) -> None:
    """`OTHER` has none either."""
    first, *others = texts(machine("a", link), OTHER)
    assert first in (f"a ens4: {reason}", f"b ens5: {reason}") or f"a ens4: {reason}" in others
    assert f"a ens4: {reason}" in [first, *others]


def test_an_address_of_several_nics_is_named_with_them() -> None:
    hosts = [machine(name, nic(4, "ens4", "192.0.2.1")) for name in ("a", "b")]
    assert texts(*hosts) == ["192.0.2.1: on a ens4 and b ens4"]


def test_nics_with_the_same_reason_are_told_together() -> None:
    hosts = [machine("a", *(ens(number) for number in range(4, 9))), OTHER]
    assert texts(*hosts)[-1] == "a ens4, ens5, ens6 and 2 more: no IP address"


@pytest.mark.parametrize(
    ("addresses", "reason"),
    [
        ((), "no path by IPv6: no address"),
        ((LINK_LOCAL,), "no path by IPv6: only link-local addresses"),
    ],
)
def test_a_pair_that_has_one_ip_version_only_says_whose_address_is_missing(
    addresses: Sequence[Address], reason: str
) -> None:
    one = machine("a", nic(4, "ens4", "192.0.2.1", "2001:db8::1"))
    other = machine("b", ens(5, address("192.0.2.2", 24), *addresses))
    assert texts(one, other) == [f"b ens5: {reason}"]
    assert texts(one, machine("b", nic(5, "ens5", "192.0.2.2", "2001:db8::2"))) == []


def test_nothing_is_said_of_links_that_need_no_address() -> None:
    """Ports, devices below a VLAN, and those of a host that was not read."""
    bond = replace(nic(9, "bond0", "192.0.2.1"), bus=None, kind="bond")
    vlan = replace(nic(8, "ens5.7", "198.51.100.1"), bus=None, kind="vlan", lower=5)
    links = (ens(4, master=9), bond, ens(5), vlan, replace(ens(7), bus=None, kind="dummy"))
    other = machine("b", nic(5, "ens5", "192.0.2.2"), nic(6, "ens6", "198.51.100.2"))
    assert texts(machine("a", *links), other) == []


def test_a_host_that_is_not_read_is_named() -> None:
    _, snapshots = two()
    unread = Snapshot.empty("c")
    lost = replace(Snapshot.empty("d"), state="lost")
    said = texts(*snapshots.values(), unread, lost)
    assert said == ["c: not read yet", "d: not connected"]


def test_what_an_unread_part_of_a_host_may_have_is_not_said_to_be_absent() -> None:
    lonely = machine("a", nic(4, "ens4", "198.51.100.1"))
    assert OTHER.inventory is not None
    pending = replace(OTHER, inventory=replace(OTHER.inventory, pending=("ethtool",)))
    lost = replace(OTHER, state="lost")
    assert texts(lonely, pending) == texts(lonely, lost) == []
    assert texts(lonely, OTHER) != []
