"""The manager of a link with its texts, and the Profile panel."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.facts.profiles import host_profile_sections, profile_sections
from nictop.model.facts.sections import Section
from nictop.model.managers.configuration import LinkConfiguration, applies
from nictop.model.managers.link_managers import LinkManager, link_manager
from nictop.model.managers.networkmanager_states import REASON_TEXTS, STATE_TEXTS, device_state_text
from nictop.probe.records import ConfigurationEntry
from nictop.rules.chain import nic_chain
from tests.support.hostile import NAME as HOSTILE
from tests.support.rule_cases import CASES_DIRECTORY, host_facts


def managed(host: dict[str, Any], name: str) -> LinkManager:
    one = host_facts(host)
    return link_manager(one.links_by_name[name], one.inventory, LinkConfiguration(one.inventory))


def facts(sections: tuple[Section, ...]) -> list[tuple[str, str, str]]:
    return [(part.title, fact.label, fact.text) for part in sections for fact in part.facts]


def test_networkmanager_state() -> None:
    result = managed({"base": "vmware-guest"}, "ens224")
    assert (result.name, result.state, result.tone) == ("NetworkManager", "connected", "good")
    failed = {"ens224": {"state": 120, "reason": 5, "active_profile": None}}
    result = managed({"base": "vmware-guest", "networkmanager": {"devices": failed}}, "ens224")
    assert (result.state, result.tone) == (
        "failed (no IP configuration: no address available or timeout)",
        "bad",
    )


def test_networkd_with_netplan() -> None:
    result = managed({"base": "hyperv-guest"}, "eth0")
    assert (result.name, result.written_by, result.state) == (
        "systemd-networkd",
        "netplan",
        "configured, routable",
    )
    assert result.files == ("/etc/netplan/50-cloud-init.yaml:3",)
    port = managed({"base": "hyperv-guest"}, "enP30832s1")
    assert (port.name, port.state) == (
        "none",
        "systemd-networkd: unmanaged: no .network file matches",
    )


def test_ifupdown_by_configuration() -> None:
    result = managed({"base": "hypervisor"}, "vmbr0")
    assert (result.name, result.files) == ("ifupdown", ("/etc/network/interfaces:6",))


def test_ifcfg_counts_only_without_networkmanager() -> None:
    entry = {
        "owner": "ifcfg",
        "file": "/etc/sysconfig/network-scripts/ifcfg-ens224",
        "line": 1,
        "names": ["ens224"],
    }
    without = {
        "base": "vmware-guest",
        "networkmanager": None,
        "configuration": [{**entry, "methods": ["dhcp4"]}],
    }
    assert managed(without, "ens224").name == "network-scripts"
    networkmanager = {"devices": {"ens224": {"state": 10, "reason": 76, "active_profile": None}}}
    left = managed({**without, "networkmanager": {**networkmanager, "profiles": {}}}, "ens224")
    assert left.name == "none" and "NM_CONTROLLED=no" in left.state


def test_a_link_that_networkmanager_only_describes() -> None:
    """Its profile is shown below, so that the words must not deny it."""
    host = {
        "base": "vmware-guest",
        "networkmanager": {"devices": {"ens224": {"external": True}}},
    }
    result = managed(host, "ens224")
    assert (result.name, result.state) == (
        "none",
        "NetworkManager only describes it: connected (externally)",
    )
    assert shown_step(host, "ens224") == "external"


def shown_step(host: dict[str, Any], name: str) -> str:
    """The layer "profile" of its chain."""
    snapshot = host_facts(host).snapshot
    (link,) = (one for one in snapshot.links.values() if one.name == name)
    steps = nic_chain(link, None, snapshot, (), is_checked=True)
    return next(step.text for step in steps if step.step == "profile")


def test_unmanaged_link_has_a_reason() -> None:
    unread = {"networkmanager": {"reason": "failed", "detail": "no answer within 2 s"}}
    result = managed(
        {"base": "vmware-guest", "networkmanager": None, "unreadable": unread}, "ens224"
    )
    assert (result.name, result.state) == (
        "none",
        "NetworkManager not readable: no answer within 2 s",
    )
    result = managed({"base": "vmware-guest", "networkmanager": None}, "ens224")
    assert result.state == "no NetworkManager or networkd"
    stopped = {"stopped_managers": [{"name": "NetworkManager", "unit": "disabled"}]}
    without = {"base": "vmware-guest", "networkmanager": None, "services": {"networkmanager": None}}
    assert (
        managed({**without, **stopped}, "ens224").state
        == "NetworkManager not running: unit disabled"
    )


def test_texts_of_states_and_reasons_are_unique() -> None:
    assert set(STATE_TEXTS) == {0, *range(10, 130, 10)}
    assert set(REASON_TEXTS) == set(range(1, 80))
    assert len(set(REASON_TEXTS.values())) == len(REASON_TEXTS)
    assert device_state_text(30, 0) == "disconnected"
    assert device_state_text(777, 999) == "state 777 (reason 999)"


def test_a_reason_is_said_as_what_happened() -> None:
    """A carrier that comes makes a device disconnected, one that goes unavailable."""
    assert device_state_text(20, 40) == "unavailable (its link has lost its carrier)"
    came = "its carrier came, and no profile has been activated since"
    assert device_state_text(30, 40) == f"disconnected ({came})"
    assert device_state_text(120, 40) == "failed (its carrier came or went)"
    assert device_state_text(30, 39) == "disconnected (by a user or a program)"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"names": ("ens*",)}, True),
        ({"names": ("eth0",)}, False),
        ({"names": ("!eth0",)}, True),
        ({"names": ("ens224",), "addresses": ("00:50:56:00:00:02",)}, True),
        ({"names": ("ens224",), "addresses": ("00:50:56:00:00:03",)}, False),
        ({"addresses": ("00:50:56:*",)}, True),
        ({"drivers": ("iavf",)}, True),
        ({"paths": ("pci-0000:13:00.?",)}, True),
        ({}, False),  # its condition is not in the record
    ],
)
def test_stanza_conditions(entry: dict[str, Any], expected: bool) -> None:
    link = host_facts({"base": "vmware-guest"}).links_by_name["ens224"]
    assert applies(ConfigurationEntry("networkd", "/x.network", 1, **entry), link) is expected


# ------------------------------------------------------------------------------------ Profile panel


def test_profile_panel_of_a_link() -> None:
    cases = json.loads((CASES_DIRECTORY / "profiles" / "profile_is_generated.json").read_text())[
        "fires"
    ]
    case = next(
        one for one in cases if one["case"].startswith("a profile of one's own fits and lost")
    )
    host = host_facts(case["hosts"][0])
    result = facts(profile_sections(host.links_by_name["ens224"], host.snapshot))
    assert ("Manager", "State", "connecting: getting IP configuration") in result
    assert ("Active profile", "Profile", "Wired connection 1") in result
    assert ("Active profile", "Storage", "auto-generated, in memory") in result
    assert ("Active profile", "Autoconnect", "yes, priority -999") in result
    others = [text for title, _, text in result if title == "Other profiles"]
    assert (
        others[0].startswith('"lab" is not activated automatically')
        and "static 198.51.100.11/24" in others[0]
    )
    assert '"ens192" is bound to ens192' in others


@pytest.mark.parametrize(
    ("file", "storage"),
    [
        (
            "/etc/NetworkManager/system-connections/a.nmconnection",
            "on disk, with unsaved changes in memory",
        ),
        ("/run/NetworkManager/system-connections/a.nmconnection", "in /run, lost on reboot"),
    ],
)
def test_a_temporary_profile_is_not_on_disk(file: str, storage: str) -> None:
    profiles = {"11111111-1111-4111-8111-111111111111": {"filename": file, "unsaved": True}}
    host = host_facts({"base": "kvm-guest", "networkmanager": {"profiles": profiles}})
    assert ("Active profile", "Storage", storage) in facts(
        profile_sections(host.links_by_name["enp1s0"], host.snapshot)
    )


def test_a_host_lists_profiles_that_fit_no_device() -> None:
    stray = {"id": HOSTILE, "interface_name": "ens37"}
    host = host_facts({"base": "vmware-guest", "networkmanager": {"profiles": {"u-u": stray}}})
    result = facts(host_profile_sections(host.snapshot))
    assert (
        "Profiles without a device",
        "No device",
        f'"{HOSTILE}": interface ens37 does not exist',
    ) in result
    assert ("Network managers", "Managed", "2 of 2 devices") in result


def test_devices_are_counted_as_networkmanager_counts_them() -> None:
    """``nmcli -g GENERAL.NM-MANAGED device show lo`` is yes, though it configures nothing there."""
    described = {"managed": True, "external": True}
    devices = {"ens192": described, "ens224": {"managed": False, "state": 10}}
    host = host_facts({"base": "vmware-guest", "networkmanager": {"devices": devices}})
    text = "1 of 2 devices; not configured by it: ens192"
    assert ("Network managers", "Managed", text) in facts(host_profile_sections(host.snapshot))


def test_a_host_without_managers() -> None:
    host = host_facts({"base": "hypervisor"})
    result = facts(host_profile_sections(host.snapshot))
    assert ("Network managers", "NetworkManager", "not running") in result
    assert ("Network managers", "Config file", "ifupdown: /etc/network/interfaces") in result


@given(
    st.tuples(st.integers(0, 200), st.integers(0, 200)),
    st.sampled_from([None, "22222222-2222-4222-8222-222222222222", "gone"]),
    st.text(),
    st.sampled_from(["configured", "failed", "unmanaged", "", "x"]),
    st.sampled_from(["auto", "manual", "", "x"]),
)
def test_no_fact_is_blank(
    state: tuple[int, int], active: str | None, name: str, setup: str, method: str
) -> None:
    device = {"state": state[0], "reason": state[1], "active_profile": active}
    other = {"id": name, "interface_name": None, "filename": None}
    own = {"ipv4": {"method": method, "addresses": []}}
    profiles = {
        "one": other,
        "": {"id": "", "uuid": ""},
        "22222222-2222-4222-8222-222222222222": own,
    }
    manager = {"devices": {"ens224": device}, "profiles": profiles}
    host = host_facts(
        {
            "base": "vmware-guest",
            "networkmanager": manager,
            "networkd": {"ens224": {"setup_state": setup}},
        }
    )
    for link in host.links:
        sections = profile_sections(link, host.snapshot)
        assert sections
        for _, label, text in facts((*sections, *host_profile_sections(host.snapshot))):
            assert 0 < len(label) <= 15
            assert text
