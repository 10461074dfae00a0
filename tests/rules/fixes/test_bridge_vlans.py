"""VLANs of a bridge port in the configuration of each network manager, Proxmox VE and libvirt."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.records import BridgeVlan
from nictop.rules import HostFacts
from nictop.rules.bridges.attachments import attachments
from nictop.rules.bridges.commands import (
    configured_vlans,
    port_fixes,
    restored,
    stored_fixes,
    vlan_element,
)
from nictop.rules.finding import Fix
from tests.support.rule_cases import host_facts

INTERFACES = """\
auto vmbr0
iface vmbr0 inet static
        address 192.0.2.2/24
        bridge-ports eno1
        bridge-vlan-aware yes
        bridge-vids 2-20

auto vmbr1
iface vmbr1 inet manual
        bridge_vids 5
"""


def stored(host: HostFacts, name: str, number: int, *, access: bool = False) -> Fix:
    (found,) = stored_fixes(host, host.links_by_name[name], number, access=access)
    return found


def lines(fix: Fix) -> tuple[list[str], list[str]]:
    return [str(step) for step in fix.commands], [str(step) for step in fix.undo]


def test_ifupdown_adds_to_the_line_of_the_bridge(tmp_path: Path) -> None:
    """With GNU sed; other bridges keep their lines, and undo restores the file."""
    fix = stored(host_facts({"base": "proxmox-vlan-aware"}), "eno1", 30)
    file = tmp_path / "interfaces"
    file.write_text(INTERFACES)
    for commands, text in zip(
        lines(fix), (INTERFACES.replace("2-20\n", "2-20 30\n"), INTERFACES), strict=True
    ):
        for line in commands:
            subprocess.run(
                ["bash", "-c", line.replace("/etc/network/interfaces", str(file))], check=True
            )
        assert file.read_text() == text


def test_networkmanager() -> None:
    host = host_facts({"base": "libvirt-vlan-aware"})
    change = "nmcli con mod uuid A {}bridge-port.vlans {}"
    assert lines(stored(host, "enp1s0", 30)) == (
        [change.format("+", "30")],
        [change.format("-", "30")],
    )
    access = lines(stored(host, "enp1s0", 30, access=True))
    assert access == (
        [change.format("+", "'30 pvid untagged'")],
        [change.format("-", "'30 pvid untagged'")],
    )
    assert lines(stored(host, "br0", 30))[0] == ["nmcli con mod uuid C +bridge.vlans 30"]


@pytest.mark.parametrize(
    ("access", "words"),
    [(False, "VLAN=30"), (True, "PVID=30 EgressUntagged=30")],
    ids=["tagged", "access"],
)
def test_networkd(access: bool, words: str) -> None:
    networkd = {
        "setup_state": "configured",
        "network_file": "/run/systemd/network/10-netplan-eno1.network",
    }
    host = host_facts({"base": "proxmox-vlan-aware", "networkd": {"eno1": networkd}})
    folder = "/etc/systemd/network/10-netplan-eno1.network.d"
    assert lines(stored(host, "eno1", 30, access=access)) == (
        [f"mkdir -p {folder}", rf"printf '%s\n' '[BridgeVLAN]' {words} > {folder}/vlan-30.conf"],
        [f"rm {folder}/vlan-30.conf"],
    )


def test_nothing_for_ports_of_guests_or_an_unknown_manager() -> None:
    host = host_facts({"base": "proxmox-vlan-aware"})
    assert stored_fixes(host, host.links_by_name["veth101i0"], 30) == ()
    assert (
        stored_fixes(
            host_facts({"base": "proxmox-vlan-aware", "configuration": []}),
            host.links_by_name["eno1"],
            30,
        )
        == ()
    )


def test_the_old_state_of_a_vlan() -> None:
    host = host_facts({"base": "proxmox-vlan-aware"})
    port, bridge = host.links_by_name["eno1"], host.links_by_name["vmbr0"]
    vlans = (BridgeVlan(1, 1, True, True), BridgeVlan(5, 5, False, True), BridgeVlan(20, 30))
    assert [str(restored(port, vlans, number)) for number in (1, 5, 25, 40)] == [
        "bridge vlan add dev eno1 vid 1 pvid untagged",
        "bridge vlan add dev eno1 vid 5 untagged",
        "bridge vlan add dev eno1 vid 25",
        "bridge vlan del dev eno1 vid 40",
    ]
    assert str(restored(bridge, vlans, 40)) == "bridge vlan del dev vmbr0 vid 40 self"


def test_vlans_of_a_guest() -> None:
    vlans = (BridgeVlan(1, 1, True, True), BridgeVlan(20, 30), BridgeVlan(40, 40))
    assert configured_vlans(vlans, 1) == (None, ("20-30", "40"))
    assert configured_vlans((BridgeVlan(10, 10, True, True),), 1) == ("10", ())
    assert configured_vlans((), 1) == (None, ())
    assert vlan_element("10", ()) == "<vlan><tag id='10'/></vlan>"
    trunk = "<vlan trunk='yes'><tag id='10' nativeMode='untagged'/><tag id='20'/></vlan>"
    assert vlan_element("10", ("20",)) == trunk
    assert vlan_element(None, ("20",)) == "<vlan trunk='yes'><tag id='20'/></vlan>"


GUEST: dict[str, Any] = {"base": "kvm-guest", "name": "web1", "hello": {"boot_id": "g"}}


def test_a_proxmox_container() -> None:
    """Its veth is on the bridge; the other end is a host of its own."""
    learned = {"ifindex": 10, "address": "02:00:00:00:00:aa", "self_entry": False, "master": 5}
    owner = host_facts(
        {
            "base": "proxmox-vlan-aware",
            "name": "pve",
            "forwarding": [learned],
            "links": {
                "veth101i0": {
                    "lower": 2,
                    "lower_namespace": 1,
                    "bridge_vlans": [{"first": 7, "last": 7, "pvid": True, "untagged": True}],
                }
            },
        }
    )
    inside = {"kind": "veth", "lower": 10, "lower_namespace": 0, "address": "02:00:00:00:00:aa"}
    container = host_facts({"name": "ct", "hello": {"boot_id": "c"}, "links": {"eth0": inside}})
    (at,) = [one for one in attachments((owner, container)) if one.guest is container]
    fix = next(one for one in port_fixes(at, 30) if one.where == "proxmox")
    line = "pct set 101 -net0 'name=eth0,hwaddr=02:00:00:00:00:aa,bridge=vmbr0,tag=7{}'"
    assert lines(fix) == (
        [line.format(",trunks=30").replace("'", "")],
        [line.format("").replace("'", "")],
    )


def test_a_vm_with_trunks_and_another_model() -> None:
    owner = host_facts(
        {
            "base": "proxmox-vlan-aware",
            "name": "pve",
            "forwarding": [
                {"ifindex": 6, "address": "52:54:00:00:00:01", "self_entry": False, "master": 7}
            ],
            "links": {
                "fwpr100p0": {
                    "bridge_vlans": [
                        {"first": 1, "last": 1, "pvid": True, "untagged": True},
                        {"first": 20, "last": 20},
                    ]
                }
            },
        }
    )
    guest = host_facts(
        {**GUEST, "links": {"enp1s0": {"ethtool": {"driver": {"driver": "e1000e"}}}}}
    )
    (at,) = [one for one in attachments((owner, guest)) if one.guest is guest]
    fix = next(one for one in port_fixes(at, 30) if one.where == "proxmox")
    line = "qm set 100 --net0 {}e1000e=52:54:00:00:00:01,bridge=vmbr0,firewall=1,trunks=20{}"
    assert lines(fix) == ([line.format("'", ";30'")], [line.format("", "")])
    unaware = replace(at, tap=owner.links_by_name["eno2"])
    assert port_fixes(unaware, 30) == ()
