"""An undo brings back the connection and the addresses of before, or says what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from nictop.rules import Fix, HostFacts
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.previous_connections import with_previous_connection
from nictop.rules.profiles.nics import state_evidence
from tests.support.findings import step_texts
from tests.support.rule_cases import host_facts

OWN, OTHER, DESCRIBED = (f"{digit * 8}-1111-4111-8111-111111111111" for digit in "123")
ADDRESS = {"family": "ipv4", "address": "192.0.2.2", "prefix_length": 24}
LENT = {**ADDRESS, "address": "192.0.2.3", "flags": []}
SET_BY_OTHERS = (
    "192.0.2.2/24 on ens5 was not set by NetworkManager: activating a profile removes what is not in "
    "it, also routes."
)
UP = command("nmcli", "con", "up", "uuid", OTHER)
CHANGE = command("nmcli", "con", "mod", "uuid", OTHER, "connection.interface-name", "ens5")
BACK = command("nmcli", "con", "mod", "uuid", OTHER, "connection.interface-name", "ens9")


def host(active: str | None, *addresses: dict[str, Any]) -> HostFacts:
    """A guest with the NIC ens5, and a profile that is active on it."""
    listed = {"method": "manual", "addresses": ["198.51.100.5/24"]}
    profiles = {
        OWN: {"id": "lab", "ipv4": listed},
        OTHER: {"id": "office", "interface_name": "ens9"},
        DESCRIBED: {"id": "ens5", "external": True, "generated": True, "volatile": True},
    }
    device = {"active_profile": active, "active_state": 2, "external": active == DESCRIBED}
    links = {"ens5": {"bus": "virtio", "device": "virtio5", "addresses": list(addresses)}}
    manager = {"devices": {"ens5": device}, "profiles": profiles}
    return host_facts({"base": "kvm-guest", "links": links, "networkmanager": manager})


def completed(facts: HostFacts, *undo: Any, commands: tuple[Any, ...] = (CHANGE, UP)) -> Fix:
    link = facts.links_by_name["ens5"]
    fix = Fix("here", "x", commands, True, undo, "Old.")
    (found,) = with_previous_connection(facts, link, (fix,))
    return found


@pytest.mark.parametrize("undo", [(BACK,), (BACK, UP)])
def test_the_profile_that_was_active_is_activated_again(undo: tuple[Any, ...]) -> None:
    fix = completed(host(OWN), *undo)
    assert list(step_texts(fix.undo)) == [str(BACK), f"nmcli con up uuid {OWN}"]
    assert fix.note == "Old."


def test_where_none_was_active_that_of_the_fix_is_deactivated() -> None:
    fix = completed(host(None), BACK)
    assert list(step_texts(fix.undo)) == [str(BACK), f"nmcli con down uuid {OTHER}"]


@pytest.mark.parametrize("undo", [(BACK,), (BACK, UP)])
def test_addresses_that_others_have_set_are_set_again(undo: tuple[Any, ...]) -> None:
    """The state of a NIC with ``ip address add``: "connected (externally)"."""
    fix = completed(host(DESCRIBED, ADDRESS), *undo)
    assert list(step_texts(fix.undo)) == [
        "nmcli device disconnect ens5",
        str(BACK),
        "ip address add 192.0.2.2/24 dev ens5",
    ]
    assert fix.note.startswith(SET_BY_OTHERS) and fix.note.endswith("Old.")


def test_an_address_with_a_lifetime_is_named_as_lost() -> None:
    fix = completed(host(DESCRIBED, LENT), BACK)
    assert not any("ip address" in line for line in step_texts(fix.undo))
    assert "The undo does not bring back 192.0.2.3/24, which has a lifetime." in fix.note


def test_an_address_beside_those_of_the_active_profile() -> None:
    """The activation of the same profile removes it, too."""
    up = command("nmcli", "con", "up", "uuid", OWN)
    fix = completed(host(OWN, ADDRESS), up, commands=(up,))
    assert list(step_texts(fix.undo)) == [str(up), "ip address add 192.0.2.2/24 dev ens5"]
    assert fix.note == f"{SET_BY_OTHERS} Old."
    own = {**ADDRESS, "address": "198.51.100.5"}
    assert completed(host(OWN, own), up, commands=(up,)).note == "Old."


def test_a_fix_without_an_undo_only_says_what_is_lost() -> None:
    fix = completed(host(DESCRIBED, ADDRESS), commands=(UP,))
    assert fix.undo == () and fix.note == f"{SET_BY_OTHERS} Old."


def test_the_state_of_a_device_that_is_only_described_is_that_of_nmcli() -> None:
    facts = host(DESCRIBED, ADDRESS)
    device = facts.profiles.device(facts.links_by_name["ens5"])
    assert device is not None
    assert state_evidence(device).value == "connected (externally)"
