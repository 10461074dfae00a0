"""An address that somebody is known to have is not offered for another NIC, and who types it is told
who has it."""

from __future__ import annotations

from typing import Any

import pytest

from nictop.changes.guided.set_up import give_address
from nictop.changes.guided.taken_addresses import example_text, users_of
from nictop.changes.job import ChangeJob
from nictop.rules import Fix, HostFacts
from nictop.rules.fixes.address_files import AddressRequest
from nictop.rules.fixes.commands import command
from nictop.tui.widgets.changes.guided_fields import NicRef, fields_of
from tests.support.findings import finding
from tests.support.rule_cases import host_facts


def address(text: str) -> dict[str, Any]:
    known, prefix = text.split("/")
    family = "ipv6" if ":" in known else "ipv4"
    rest = {"prefix_length": int(prefix), "scope": "global", "flags": ["permanent"]}
    return {"family": family, "address": known, **rest}


def host(name: str, number: int, *addresses: str, **more: Any) -> HostFacts:
    hello = {"hostname": name, "boot_id": "m", "network_namespace": number}
    veth = {
        "kind": "veth",
        "bus": None,
        "device": None,
        "lower_namespace": 0,
        "addresses": [address(one) for one in addresses],
    }
    return host_facts({"name": name, "hello": hello, "links": {"lab0": veth}, **more})


OTHER_END = {
    "guests": [
        {
            "name": "a",
            "kind": "namespace",
            "product": "netns",
            "state": "running",
            "nics": [
                {
                    "name": "lab0",
                    "backend": "veth",
                    "link": "lab0",
                    "addresses": ["198.18.0.1/24", "fd6e::1/64", "fe80::1/64"],
                }
            ],
        }
    ]
}
NEIGHBOUR_2 = {"ifindex": "lab0", "address": "198.18.0.2", "mac": "02:00:00:00:00:02"}
NEIGHBOUR = {
    "routing": {
        "neighbours": [
            {"ifindex": "lab0", "address": "198.18.0.7", "mac": "02:00:00:00:00:07"},
            {"ifindex": "lab0", "address": "198.18.0.8", "nud_state": "failed"},
        ]
    }
}
TAKEN = "198.18.0.3/24"
LEASE = {
    "leases": [{"address": "198.18.0.9", "mac": "02:00:00:00:00:09", "source": "libvirt virbr0"}]
}


def example_of(own: HostFacts, *others: HostFacts) -> str:
    fields = fields_of(NicRef.of(own, own.links[0], others))
    return next(field.example for field in fields if field.name == "address")


def test_an_address_of_a_watched_host_is_no_example() -> None:
    elsewhere = {"hostname": "a", "boot_id": "another machine", "network_namespace": 1}
    own, other = host("b", 2), host("a", 1, "192.0.2.10/24", hello=elsewhere)
    assert example_of(own) == "e.g. 192.0.2.10/24"
    assert example_of(own, other) == ""


def test_the_example_is_in_the_subnet_of_the_other_end() -> None:
    """The next address that nobody is known to have; not one behind the end of the subnet."""
    own, other = host("b", 2), host("a", 1, "198.18.0.1/24", "fd6e::1/64")
    assert example_of(own, other) == "e.g. 198.18.0.2/24, not seen in use"
    used = host("b", 2, routing={"neighbours": [NEIGHBOUR_2]})
    assert example_of(used, other) == "e.g. 198.18.0.3/24, not seen in use"
    last = host("a", 1, "198.18.0.254/24")
    assert example_of(own, last) == "e.g. 192.0.2.10/24"


def test_its_own_address_is_not_that_of_another_whatever_mac_address_was_read() -> None:
    """The other end has read the NIC as that of a namespace, before its MAC address was changed."""
    guest: dict[str, Any] = {**OTHER_END["guests"][0], "name": "b"}
    nic = {**guest["nics"][0], "addresses": ["198.18.0.2/24"], "address": "02:00:00:00:00:99"}
    other = host("a", 1, "198.18.0.1/24", guests=[{**guest, "nics": [nic]}])
    own = host("b", 2, "198.18.0.2/25")
    assert example_of(own, other) == "current 198.18.0.2/25"


@pytest.mark.parametrize(
    ("wanted", "warned"),
    [
        ("198.18.0.2/25", True),
        ("198.18.0.2/24", False),
        ("203.0.113.2/25", False),
        ("fd6e::2/80", True),
        ("fd6e::2/64", False),
    ],
)
def test_another_prefix_length_than_that_of_the_others_is_said(
    wanted: str, *, warned: bool
) -> None:
    own, other = host("b", 2), host("a", 1, "198.18.0.1/24", "fd6e::1/64")
    job = give_address(own, own.links[0], AddressRequest(wanted), (other,))
    length = {"198": 24, "fd6": 64}.get(wanted[:3])
    text = f"prefix length {wanted.partition('/')[2]}, but {length} on a lab0: "
    assert [one for one in job.warnings if one.startswith("prefix length")] == (
        [f"{text}the hosts have different subnets"] if warned else []
    )


def test_what_is_in_use_in_its_network_is_named() -> None:
    """At the other end of the veth, and by neighbours that have answered; no link-local ones."""
    own = host("b", 2, **OTHER_END, **NEIGHBOUR)
    assert example_text(own, own.links[0]) == ("in use: 198.18.0.1, 198.18.0.7 and 1 more")


def test_a_current_address_that_another_host_has_as_well_says_so() -> None:
    own, other = host("b", 2, "198.18.0.1/24"), host("a", 1, "198.18.0.1/24")
    assert example_of(own) == "current 198.18.0.1/24"
    assert example_of(own, other) == "current 198.18.0.1/24, in use by a lab0, too"


@pytest.mark.parametrize(
    ("typed", "more", "users"),
    [
        ("198.18.0.1/25", {}, ("a lab0",)),
        ("FD6E:0::1/64", OTHER_END, ("namespace a",)),
        ("198.18.0.7/24", NEIGHBOUR, ("02:00:00:00:00:07 at lab0 (neighbour table)",)),
        ("198.18.0.8/24", NEIGHBOUR, ()),
        ("198.18.0.9/24", LEASE, ("02:00:00:00:00:09 (DHCP lease of libvirt virbr0)",)),
        ("198.18.0.2/24", {}, ()),
        ("nonsense", {}, ()),
    ],
    ids=["watched", "other end", "neighbour", "no answer", "lease", "its own", "no address"],
)
def test_who_has_an_address(typed: str, more: dict[str, Any], users: tuple[str, ...]) -> None:
    """Its own is not in use by another one, also where its namespace is watched twice."""
    own, again = host("b", 2, "198.18.0.2/24", **more), host("again", 2, "198.18.0.2/24")
    others = (again, host("a", 1, "198.18.0.1/24"))
    assert users_of(typed, own, own.links[0], others) == users


def test_its_own_address_is_not_that_of_a_guest_of_another_host() -> None:
    """The host that has the other end describes its namespace as one of its own."""
    own = host("b", 2, "198.18.0.1/24")
    assert users_of("198.18.0.1/24", own, own.links[0], (host("a", 1, **OTHER_END),)) == ()


def test_who_types_it_is_warned() -> None:
    own, other = host("b", 2), host("a", 1, "198.18.0.1/24")
    job = give_address(own, own.links[0], AddressRequest("198.18.0.1/24"), (other,))
    assert job.warnings == ("198.18.0.1 is in use: a lab0",)
    assert give_address(own, own.links[0], AddressRequest("198.18.0.2/24"), (other,)).warnings == ()


def test_who_types_it_into_a_fix_is_warned() -> None:
    """Also where the fix is for the other host: there its own address is not that of another."""
    hosts = [host("a", 1, "198.18.0.1/24"), host("b", 2, "198.18.0.1/24"), host("c", 3, TAKEN)]
    add = (command("ip", "address", "add", "<ADDRESS/PREFIX>", "dev", "lab0"),)
    fixes = Fix("here", "Change it", add), Fix("peer", "Or there", add, peer="b")
    found = finding(host="a", subject="lab0", fixes=fixes)
    for fix, own in zip(fixes, "ab", strict=True):
        job = ChangeJob.of_finding(found, fix)
        typed = job.with_values({"ADDRESS/PREFIX": f" {TAKEN}"}, hosts)
        assert typed.warnings == ("198.18.0.3 is in use: c lab0",), own
        assert job.with_values({"ADDRESS/PREFIX": "198.18.0.4/24"}, hosts).warnings == ()
