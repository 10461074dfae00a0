"""Which profile fits a link, and which one is activated: the same results as NetworkManager's
sources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.managers.profile_match import (
    ProfileMatches,
    autoconnect_order,
    fits_patterns,
    has_parameters,
    mismatch_reason,
)
from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import (
    DriverInfo,
    Ethtool,
    Inventory,
    Line,
    Link,
    ManagedDevice,
    NetworkManager,
    Profile,
)
from tests.model.hosts import PLATFORM, UP

MAC = "00:50:56:00:00:02"
NIC = Link(
    3,
    "ens224",
    1,
    UP,
    "up",
    True,
    1500,
    altnames=("enp19s0",),
    permanent_address=MAC,
    pci_address="0000:13:00.0",
    ethtool=Ethtool(driver=DriverInfo("igb", "6.12", "", "")),
)
DEVICE = ManagedDevice("ens224", 1, 30, 0, True, True, permanent_address=MAC)


def profile(uuid: str = "u", **fields: Any) -> Profile:
    plain = Profile("/1", uuid, uuid, "802-3-ethernet", "/etc/x", False, False, False, False)
    return replace(plain, **fields)


def matches(
    *profiles: Profile, device: ManagedDevice = DEVICE, more: dict[int, ManagedDevice] | None = None
) -> ProfileMatches:
    manager = NetworkManager("1.42", False, True, {NIC.ifindex: device, **(more or {})}, profiles)
    inventory = Inventory(0.0, 0.0, 0.0, "start", PLATFORM, (), (NIC,), networkmanager=manager)
    return ProfileMatches(advance(Snapshot.empty("host"), Line(inventory=inventory)))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, ""),
        ({"interface_name": "ens224"}, ""),
        ({"interface_name": "ens37"}, "is bound to ens37"),
        (
            {"interface_name": "enp19s0"},
            "is bound to enp19s0 (an altname; profiles match the name only)",
        ),
        ({"type": "bridge"}, "is of type bridge, device needs 802-3-ethernet"),
        ({"mac_address": MAC}, ""),
        ({"mac_address": "00:50:56:99:99:99"}, "is bound to MAC 00:50:56:99:99:99"),
        ({"mac_address_denylist": (MAC,)}, "excludes this MAC address (mac-address-denylist)"),
        ({"match_interface_names": ("ens*", "!ens225")}, ""),
        ({"match_interface_names": ("!ens*",)}, "match.interface-name is !ens*"),
        ({"match_drivers": ("igb",)}, ""),
        ({"match_drivers": ("ixgbe",)}, "match.driver is ixgbe"),
        ({"match_paths": ("pci-0000:13:*",)}, ""),
        ({"match_paths": ("pci-0000:14:*",)}, "match.path is pci-0000:14:*"),
        ({"match_kernel_command_line": ("rd.neednet",)}, "match.kernel-command-line is rd.neednet"),
    ],
)
def test_fitting_profiles(fields: dict[str, Any], why: str) -> None:
    assert mismatch_reason(profile(**fields), NIC, DEVICE, ()) == why


def test_without_a_permanent_address_the_present_one_counts() -> None:
    link = replace(NIC, permanent_address=None, address=MAC)
    device = replace(DEVICE, permanent_address=None)
    assert mismatch_reason(profile(mac_address=MAC), link, device, ()) == ""


def test_a_device_without_any_address_fits_no_profile_with_one() -> None:
    link = replace(NIC, permanent_address=None)
    device = replace(DEVICE, permanent_address=None)
    assert mismatch_reason(profile(mac_address=MAC), link, device, ()) != ""
    assert mismatch_reason(profile(mac_address_denylist=(MAC,)), link, device, ()) == ""


@pytest.mark.parametrize(
    ("fields", "waits"),
    [
        ({}, ""),
        ({"autoconnect": False}, "is not activated automatically: connection.autoconnect is no"),
        ({"permissions": ("bob",)}, "waits for login of bob"),
        ({"controller": "bond7"}, "waits for its controller bond7"),
    ],
)
def test_fitting_profiles_that_are_not_activated(fields: dict[str, Any], waits: str) -> None:
    one = profile(**fields)
    assert matches(one).match(one, NIC).wait_reason == waits


def test_a_profile_that_is_active_elsewhere_waits() -> None:
    one = profile()
    other = {9: replace(DEVICE, interface="ens256", active_profile="u")}
    assert matches(one, more=other).match(one, NIC).wait_reason == "is active on ens256"
    several = replace(one, multi_connect=3)
    assert matches(several, more=other).match(several, NIC).wait_reason == ""


def test_order_of_networkmanager() -> None:
    """Autoconnect, priority, most recent, UUID."""
    by_hand = profile("a", autoconnect=False, autoconnect_priority=99, timestamp=9)
    made_up = profile(
        "b", autoconnect_priority=-999, timestamp=9, generated=True, nm_generated_default=True
    )
    never, old, young = profile("c"), profile("d", timestamp=1), profile("e", timestamp=2)
    preferred = profile("f", autoconnect_priority=1)
    twin = profile("g")
    found = matches(by_hand, twin, made_up, never, old, young, preferred)
    assert [one.profile.uuid for one in found.fitting(NIC)] == ["f", "e", "d", "c", "g", "b", "a"]
    assert [one.uuid for one in sorted(found.profiles, key=autoconnect_order)] == [
        one.uuid for one in found.profiles
    ]
    made = found.generated(NIC)
    assert made is not None and made.uuid == "b"
    assert "b" not in [one.profile.uuid for one in found.user_profiles(NIC)]


def test_missing_bindings() -> None:
    found = matches()
    assert (
        found.missing_binding(profile(interface_name="ens37")) == "interface ens37 does not exist"
    )
    assert found.missing_binding(profile(mac_address="02:00:00:00:00:99")) == (
        "no interface has MAC address 02:00:00:00:00:99"
    )
    assert found.missing_binding(profile(interface_name="ens224", mac_address=MAC)) == ""
    assert (
        found.missing_binding(profile(interface_name="br0", type="bridge")) == ""
    )  # it creates its device


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (("ens*",), True),
        (("eth*", "ens*"), True),
        (("eth*", "wl*"), False),
        (("!eth*",), True),
        (("!ens*",), False),
        (("&ens*", "&*4"), True),
        (("&ens*", "&*5"), False),
        (("|!eth*",), True),
        (("&!ens*", "|ens*"), False),
        ((r"\ens*",), True),
        ((), True),
    ],
)
def test_wildcards(patterns: tuple[str, ...], expected: bool) -> None:
    assert fits_patterns(patterns, "ens224") is expected


def test_kernel_words() -> None:
    line = ("quiet", "root=/dev/sda1", "rd.neednet=1")
    assert (
        has_parameters(("quiet",), line)
        and has_parameters(("root",), line)
        and has_parameters(("root=/dev/sda1",), line)
    )
    assert not has_parameters(("roo",), line) and not has_parameters(("root=/dev/sdb1",), line)
    assert has_parameters(("!debug",), line) and not has_parameters(("!quiet",), line)


TEXTS = st.text(max_size=6)
LISTS = st.lists(TEXTS, max_size=3).map(tuple)
PROFILES = st.builds(
    Profile,
    path=TEXTS,
    uuid=st.sampled_from(["", "u", "v", "w"]),
    id=TEXTS,
    type=st.sampled_from(["802-3-ethernet", "bridge", ""]),
    filename=st.none() | TEXTS,
    unsaved=st.booleans(),
    generated=st.booleans(),
    volatile=st.booleans(),
    external=st.booleans(),
    interface_name=st.none() | st.sampled_from(["ens224", "ens37"]),
    mac_address=st.none() | st.sampled_from([MAC, "02:00:00:00:00:01"]),
    mac_address_denylist=LISTS,
    match_interface_names=LISTS,
    match_drivers=LISTS,
    match_paths=LISTS,
    match_kernel_command_line=LISTS,
    autoconnect=st.booleans(),
    autoconnect_priority=st.integers(-999, 999),
    timestamp=st.integers(0, 2**63),
    permissions=LISTS,
    controller=st.none() | TEXTS,
)


@given(st.lists(PROFILES, max_size=6))
def test_indexed_lookup_agrees_with_matching_each_profile(profiles: list[Profile]) -> None:
    """The lookup by name and address finds exactly those that fit when each one is matched."""
    found = matches(*profiles)
    expected = [
        one
        for one in found.profiles
        if not one.external and not mismatch_reason(one, NIC, DEVICE, ())
    ]
    assert sorted(map(id, expected)) == sorted(id(one.profile) for one in found.fitting(NIC))
    for one in found.profiles:
        if found.missing_binding(one):
            assert mismatch_reason(one, NIC, DEVICE, ())
