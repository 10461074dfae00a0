"""Fixes say whom else they concern, and who else writes the profile."""

from __future__ import annotations

from typing import Any

import pytest

from nictop.rules import Fix, HostFacts
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.profile_notes import LOST_NOTE, with_profile_notes
from tests.support.rule_cases import host_facts

UUID = "11111111-1111-4111-8111-111111111111"


def host(*names: str, **profile: Any) -> HostFacts:
    """A guest whose profile is active on these NICs."""
    links = {
        name: {"bus": "virtio", "device": f"virtio{number}"} for number, name in enumerate(names, 5)
    }
    devices = {name: {"active_profile": UUID, "active_state": 2} for name in names}
    manager = {"devices": devices, "profiles": {UUID: profile}}
    return host_facts({"base": "kvm-guest", "links": links, "networkmanager": manager})


def noted(facts: HostFacts, *argv: str) -> str:
    (fix,) = with_profile_notes(facts, (Fix("here", "x", (command(*argv),), True, note="Old."),))
    return fix.note


@pytest.mark.parametrize("which", [("uuid", UUID), ("id", "enp1s0")])
def test_a_change_of_a_shared_profile_names_all_its_nics(which: tuple[str, ...]) -> None:
    wanted = "The profile is active on enp1s0, ens5: this changes all of them. Old."
    assert (
        noted(host("enp1s0", "ens5"), "nmcli", "con", "mod", *which, "ipv4.method", "manual")
        == wanted
    )


def test_many_nics() -> None:
    note = noted(
        host("enp1s0", *"bcdef"), "nmcli", "con", "mod", "uuid", UUID, "ipv4.method", "manual"
    )
    assert note.startswith("The profile is active on enp1s0, b, c, d and 2 more:")


@pytest.mark.parametrize(
    ("names", "argv"),
    [
        (("enp1s0",), ("nmcli", "con", "mod", "uuid", UUID, "ipv4.method", "manual")),
        (("enp1s0", "ens5"), ("nmcli", "con", "mod", "other", "ipv4.method", "manual")),
        (("enp1s0", "ens5"), ("nmcli", "con", "up", "uuid", UUID)),
        (("enp1s0", "ens5"), ("ip", "link", "set", "ens5", "up")),
    ],
)
def test_other_changes_have_no_note(names: tuple[str, ...], argv: tuple[str, ...]) -> None:
    assert noted(host(*names), *argv) == "Old."


@pytest.mark.parametrize(
    "filename", [None, "/run/NetworkManager/system-connections/a.nmconnection"]
)
def test_a_profile_in_memory_is_saved_and_stays_on_disk(filename: str | None) -> None:
    note = noted(
        host("enp1s0", filename=filename),
        "nmcli",
        "con",
        "mod",
        "uuid",
        UUID,
        "ipv4.method",
        "manual",
    )
    assert note == (
        "The profile is in memory only: this saves it to disk, and the undo commands leave it "
        "there. Old."
    )


@pytest.mark.parametrize(
    ("filename", "persistent", "expected"),
    [
        (None, True, False),
        ("/run/NetworkManager/system-connections/a.nmconnection", True, False),
        ("/etc/NetworkManager/system-connections/a.nmconnection", True, True),
        ("/run/NetworkManager/system-connections/netplan-a.nmconnection", True, True),
        (None, None, None),
    ],
)
def test_activating_a_profile_that_a_reboot_loses_survives_none(
    filename: str | None, persistent: bool | None, expected: bool | None
) -> None:
    facts = host("enp1s0", filename=filename)
    up = command("nmcli", "con", "up", "uuid", UUID)
    (fix,) = with_profile_notes(facts, (Fix("here", "x", (up,), persistent),))
    assert fix.persistent is expected
    assert fix.note == (LOST_NOTE if persistent is not expected else "")


def test_a_profile_of_netplan() -> None:
    facts = host(
        "enp1s0", filename="/run/NetworkManager/system-connections/netplan-enp1s0.nmconnection"
    )
    note = noted(facts, "nmcli", "con", "mod", "uuid", UUID, "ipv4.method", "manual")
    assert note == (
        "netplan made the profile: if /etc/netplan does not have the new value afterwards, set it "
        "there too. Old."
    )
