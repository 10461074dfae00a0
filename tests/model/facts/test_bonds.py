"""What the panel shows of bonds, teams and devlink instances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nictop.model.devices.bonds import bond_text, state_text
from nictop.model.devices.devlink import is_switchdev
from nictop.model.devices.rights import needs_root
from nictop.model.devices.tree import device_tree
from nictop.model.facts.facts import link_facts
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import (
    DevlinkDevice,
    DevlinkParameter,
    DevlinkPort,
    HealthReporter,
    Link,
    Team,
    TeamPort,
    Unreadable,
)
from nictop.rules import HostFacts
from tests.support.rule_cases import host_facts

LACP = "bond-networkmanager"


def bonded(**links: Any) -> HostFacts:
    return host_facts({"base": LACP, "links": links})


def shown(host: HostFacts, name: str, title: str) -> dict[str, list[tuple[str, str]]]:
    """Label → (text, tone) of each line of a section."""
    row = next(
        one for one in device_tree(host.snapshot) if one.link is not None and one.link.name == name
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for section in link_facts(row, host.snapshot):
        for fact in section.facts if section.title == title else ():
            found.setdefault(fact.label, []).append((fact.text, fact.tone))
    return found


def test_a_bond_with_a_partner() -> None:
    facts = shown(bonded(), "bond0", "Bond")
    assert facts["Mode"] == [("802.3ad", "normal")]
    assert facts["LACP partner"] == [("00:1c:73:00:00:99", "normal")]
    assert facts["Aggregator"] == [("1 · 2 ports · key 9, partner key 32773", "normal")]
    assert facts["Port"] == [
        ("eno1: up, in use, aggregator 1", "normal"),
        ("eno2: up, in use, aggregator 1", "normal"),
    ]
    assert shown(bonded(), "bond0", "Summary")["Bond"] == [
        ("802.3ad · 2 of 2 ports in use", "normal")
    ]


def test_a_bond_without_a_partner() -> None:
    none = "00:00:00:00:00:00"
    alone = {"bond_port": {"actor_state": 77, "partner_state": 0}}
    host = bonded(bond0={"bond": {"partner": none, "lacp_active": False}}, eno1=alone, eno2=alone)
    facts = shown(host, "bond0", "Bond")
    assert facts["LACP partner"] == [("none (no LACPDU received)", "warn")]
    assert facts["LACP rate"] == [("slow (30 s) · lacp_active off", "warn")]
    assert facts["Port"][0] == ("eno1: up, no partner, aggregator 1", "warn")
    assert shown(host, "bond0", "Summary")["Bond"] == [
        ("802.3ad · no LACP partner (2 of 2 ports up)", "warn")
    ]


def test_a_port_that_is_read_without_root() -> None:
    hidden = {"partner": {"reason": "needs_root"}, "actor": {"reason": "needs_root"}}
    port = {
        "actor": None,
        "partner": None,
        "unreadable": hidden,
        "aggregator": 2,
        "partner_state": 5,
    }
    facts = shown(bonded(eno2={"bond_port": port}), "eno2", "Bond port")
    assert facts["Partner"] == [("needs root", "dim")]
    assert facts["Aggregator"] == [("2 (the bond uses 1)", "warn")]
    assert facts["Churn"] == [("actor none, partner none", "normal")]


@pytest.mark.parametrize(
    ("bond", "text"),
    [
        (
            {"mode": "active-backup", "active_port": "eno2"},
            "active-backup · active eno2 (2 of 2 ports up)",
        ),
        ({"mode": "active-backup"}, "active-backup · active none (2 of 2 ports up)"),
        ({"mode": "balance-xor"}, "balance-xor · 2 of 2 ports up"),
    ],
)
def test_other_modes(bond: dict[str, Any], text: str) -> None:
    host = bonded(bond0={"bond": {"aggregator": None, **bond}})
    assert bond_text(host.links_by_name["bond0"], host.snapshot.links)[0] == text
    facts = shown(host, "bond0", "Bond")
    assert ("Active port" in facts) is (bond["mode"] == "active-backup")
    assert ("Hash policy" in facts) is (bond["mode"] == "balance-xor")
    assert facts["Port"][0][0] == (
        "eno1: up, active" if bond["mode"] == "active-backup" else "eno1: up"
    )


def test_a_bond_without_link_monitor() -> None:
    assert shown(bonded(bond0={"bond": {"miimon": 0}}), "bond0", "Bond")["Link monitor"] == [
        ("off", "warn")
    ]


def test_states() -> None:
    assert (
        state_text(0x3F) == "active, short timeout, aggregatable, in sync, collecting, distributing"
    )
    assert (
        state_text(0)
        == "passive, long timeout, individual, out of sync, not collecting, not distributing"
    )
    assert state_text(0xC0).endswith("defaulted, expired")
    assert state_text(None) == "unknown"


def test_teams() -> None:
    ports = (TeamPort(3, has_link=True, enabled=True), TeamPort(9, has_link=False, enabled=False))
    teams: dict[str, Any] = {
        "team0": {
            "kind": "team",
            "team": {"mode": "loadbalance", "ports": [field_mapping(one) for one in ports]},
        },
        "team1": {
            "kind": "team",
            "team": field_mapping(Team(unreadable={"mode": Unreadable("needs_root")})),
        },
    }
    host = bonded(**teams)
    facts = shown(host, "team0", "Team")
    assert facts["Mode"] == [("loadbalance", "normal")]
    assert facts["Port"] == [
        ("eno1: link, enabled", "normal"),
        ("ifindex 9: no link, disabled", "warn"),
    ]
    assert facts["LACP"] == [("known to teamd only (teamdctl NAME state)", "dim")]
    assert shown(host, "team1", "Team") == {"Mode": [("needs root", "dim")]}


# ------------------------------------------------------------------------------------------ devlink


def with_devlink(device: DevlinkDevice) -> HostFacts:
    host = bonded()
    return HostFacts(replace(host.snapshot, inventory=replace(host.inventory, devlink=(device,))))


def test_a_devlink_instance() -> None:
    reporters = (
        HealthReporter("fw", has_error=True, errors=3, recoveries=2),
        HealthReporter("tx", has_error=False, errors=1, recoveries=1),
        HealthReporter("rx", has_error=False, errors=0, recoveries=0),
        HealthReporter("other", has_error=True, errors=1, recoveries=0, port=7),
    )
    device = DevlinkDevice(
        "pci", "0000:01:00.0", "switchdev", "none", encap=True, reporters=reporters
    )
    facts = shown(with_devlink(device), "eno1", "Devlink")
    assert facts["Eswitch"] == [("switchdev · inline-mode none · encap on", "normal")]
    assert facts["Health"] == [
        ("fw: error (3 errors, 2 recoveries)", "bad"),
        ("tx: healthy (1 error, 1 recovery)", "warn"),
        ("no errors: rx", "normal"),
    ]
    assert shown(with_devlink(device), "eno2", "Devlink") == {}


@pytest.mark.parametrize("flavour", ["{0[x]}", "{2}", "{", "%s%n", "{0:>20000000}"])
def test_a_flavour_is_shown_as_it_is(flavour: str) -> None:
    port = DevlinkPort(7, flavour, bonded().links_by_name["eno1"].ifindex, 0, 1)
    facts = shown(
        with_devlink(DevlinkDevice("pci", "0000:01:00.0", ports=(port,))), "eno1", "Devlink"
    )
    assert facts["Port"] == [(f"7 · {flavour}", "normal")]


def test_the_function_of_a_port_and_parameters() -> None:
    ifindex = bonded().links_by_name["eno1"].ifindex
    port = DevlinkPort(
        7, "pcisf", ifindex, 0, subfunction=88, address="02:00:00:00:00:aa", is_active=False,
        is_attached=False, roce=True, max_io_eqs=24, max_tx_rate=125_000_000, min_tx_rate=0,
        rate_node="guests",
    )  # fmt: skip
    parameters = (
        DevlinkParameter("enable_sriov", permanent="true"),
        DevlinkParameter("max_macs", runtime="128", driverinit="256"),
    )
    device = DevlinkDevice("pci", "0000:01:00.0", ports=(port,), parameters=parameters)
    facts = shown(with_devlink(device), "eno1", "Devlink")
    assert facts["Port"] == [("7 · representor of PF 0 SF 88", "normal")]
    words = "02:00:00:00:00:aa · inactive · no driver attached · roce on · max_io_eqs 24"
    assert facts["Function"] == [(words, "warn")]
    assert facts["Rate limit"] == [("tx_max 1.00 Gb/s · in group guests", "normal")]
    assert facts["Parameter"] == [
        ("enable_sriov: true (permanent)", "normal"),
        ("max_macs: 128 (runtime), 256 (driverinit)", "normal"),
    ]


def test_what_needs_root_is_named() -> None:
    hidden = Unreadable("needs_root")
    host = with_devlink(DevlinkDevice("pci", "0000:01:00.0", unreadable={"mode": hidden}))
    inventory = replace(host.inventory, unreadable={"bonds": hidden})
    assert needs_root(replace(host.snapshot, inventory=inventory)) == (
        "eswitch mode",
        "LACP partners of bond ports",
    )
    assert shown(host, "eno1", "Devlink") == {"Eswitch": [("needs root", "dim")]}


def test_the_mode_of_the_switch_is_that_of_devlink() -> None:
    """A switch id is only a sign: without an answer of devlink."""
    legacy, unknown = (DevlinkDevice("pci", "0000:01:00.0", mode) for mode in ("legacy", None))
    link: Link = replace(bonded().links_by_name["eno1"], switch_id="aabb")
    assert not is_switchdev(link, with_devlink(legacy).inventory)
    assert is_switchdev(link, with_devlink(unknown).inventory)
    assert is_switchdev(
        replace(link, switch_id=None), with_devlink(replace(legacy, mode="switchdev")).inventory
    )
    assert not is_switchdev(replace(link, switch_id=None), with_devlink(unknown).inventory)
