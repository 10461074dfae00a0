"""What helps a NIC without carrier, by what decides about its link."""

from __future__ import annotations

from typing import Any

import pytest

from nictop.model.devices.link_history import LinkHistory, Point
from nictop.probe.light_dataclasses import replace
from nictop.rules import HostFacts, diagnose
from nictop.rules.link.carrier_causes import flap_fixes, nic_kind, plug_in_fixes
from tests.support.findings import step_texts
from tests.support.rule_cases import host_facts

SRIOV = {"total_vfs": 4, "num_vfs": 1, "autoprobe": True, "virtual_functions": ["0000:01:10.0"]}
VF = {
    "vendor_id": 0x8086,
    "device_id": 0x1520,
    "driver": "igbvf",
    "physical_function": "0000:01:00.0",
}
OWN_VF = {
    "pci": {"0000:01:00.0": {"sriov": SRIOV}, "0000:01:10.0": VF},
    "links": {"eno1v0": {"bus": "pci", "device": "0000:01:10.0", "pci_address": "0000:01:10.0"}},
}


@pytest.mark.parametrize(
    ("base", "more", "name", "kind", "expected"),
    [
        ("spare-nic", {}, "eno1", "port", {"switch": []}),
        ("spare-nic", OWN_VF, "eno1v0", "virtual function", {"here": ["ip link show dev eno1"]}),
        ("vmware-guest", {}, "ens224", "virtual function", {"hypervisor": []}),
        ("vmware-guest", {}, "ens192", "virtual NIC", {"esxi": []}),
        ("kvm-guest", {"platform": {"environment": "proxmox"}}, "enp1s0", "virtual NIC",
         {"proxmox": ["qm config '<ID>'"]}),
        ("aws-guest", {}, "ens5", "cloud NIC", {"cloud": []}),
        ("azure-guest", {}, "enP41394s1", "cloud NIC", {"cloud": []}),
        ("kvm-guest", {"platform": {"environment": "oci"}}, "enp1s0", "cloud NIC", {"cloud": []}),
        ("hyperv-guest", {"platform": {"environment": "hyperv"}}, "eth0", "virtual NIC",
            {"hypervisor": []}),
    ],
)  # fmt: skip
def test_only_a_port_has_a_cable(
    base: str, more: dict[str, Any], name: str, kind: str, expected: dict[str, list[str]]
) -> None:
    host = host_facts({"base": base, **more})
    link = next(one for one in host.links if one.name == name)
    fixes = plug_in_fixes(host, link)
    assert nic_kind(host, link) == kind
    assert {fix.where: step_texts(fix.commands) for fix in fixes} == expected
    assert ("cable" in " ".join(fix.title for fix in fixes)) == (kind == "port")


def test_the_cable_of_a_nic_that_is_passed_through_is_in_the_host() -> None:
    driver = {"driver": {"driver": "i40e"}}
    fields = {"bus": "pci", "device": "0000:01:00.0", "ethtool": driver}
    host = host_facts({"base": "kvm-guest", "links": {"enp1s0": fields}})
    (fix,) = plug_in_fixes(host, host.links[0])
    assert fix.where == "switch"
    assert fix.note.startswith("If the NIC is passed through to this guest, its cable is in the")


def test_a_nic_that_qemu_emulates_is_not_passed_through() -> None:
    """igb of QEMU, which has the subsystem of all its devices without one of their own."""
    fields = {"bus": "pci", "device": "0000:02:00.0", "pci_address": "0000:02:00.0"}
    function = {"device_id": 0x10C9, "driver": "igb", "vendor_id": 0x8086}
    subsystem = {"subsystem_vendor_id": 0x1AF4, "subsystem_device_id": 0x1100}
    host = host_facts(
        {
            "base": "kvm-guest",
            "platform": {"environment": "libvirt"},
            "links": {"enp1s0": {**fields, "ethtool": {"driver": {"driver": "igb"}}}},
            "pci": {"0000:02:00.0": {**function, **subsystem}},
        }
    )
    assert nic_kind(host, host.links[0]) == "virtual NIC"
    (fix,) = plug_in_fixes(host, host.links[0])
    (step,) = step_texts(fix.commands)
    assert step.startswith("virsh domif-setlink") and not fix.note
    (flaps,) = flap_fixes(host, host.links[0])
    assert flaps.where == "hypervisor"


@pytest.mark.parametrize(("downs", "expected"), [(0, True), (4, True), (15, False)])
def test_the_mean_is_without_those_by_setting_it_down(downs: int, expected: bool) -> None:
    """19 losses since it was created, half a day ago; so many of them while nictop watched."""
    nic = {"carrier_changes": 40, "created": 8_596_800.0}
    case = {"base": "spare-nic", "links": {"eno1": nic}, "time": 8_640_000.0, "messages": []}
    snapshot = host_facts(case).snapshot
    (link,) = (one for one in snapshot.links.values() if one.name == "eno1")
    history = LinkHistory(link.ifindex, 40, None, True, True, (Point(8_640_000.0, downs=downs),))
    watched = HostFacts(replace(snapshot, histories={str(link.device): history}))
    rules = {one.rule for one in diagnose([watched]).findings}
    assert ("carrier_flaps" in rules) is expected
