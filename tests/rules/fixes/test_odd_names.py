"""No name is at a place of a command where a program reads more in it than a name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nictop.rules import RULES, Fix, diagnose
from nictop.rules.bridges.commands import edit_domain
from nictop.rules.fixes.commands import Command, command, joined
from nictop.rules.fixes.odd_names import is_odd, is_unambiguous, without_odd_names
from nictop.rules.fixes.profiles import bring_up
from tests.support.rule_cases import CASES_DIRECTORY, host_facts

SAFE = ("eth0", "ens192", "br-lan", "eth0.10", "wg_0", "tap101i0", "helper", "hub", "up")
ODD = ("--help", "-h", "h", "he", "help", "e,firewall=0", "e=1", "e*", "[ab]", "it's", "$(x)")


@pytest.mark.parametrize("name", SAFE)
def test_ordinary_names(name: str) -> None:
    assert not is_odd(name)


@pytest.mark.parametrize("name", ODD)
def test_odd_names(name: str) -> None:
    assert is_odd(name)
    for step in (
        command("ip", "link", "set", "dev", name, "up"),
        command("ethtool", "-K", name, "tso", "on"),
        command("cat", f"/proc/net/bonding/{name}")
        if not name.startswith("-")
        else command("true"),
        command("nmcli", "con", "add", "type", "ethernet", "ifname", name, "con-name", name),
    ):
        assert is_unambiguous(step, [name])
    for step in (command("ifup", name), command("networkctl", "reconfigure", name)):
        assert not is_unambiguous(step, [name])


@pytest.mark.parametrize("name", ["--help", "-h", "h", "help"])
def test_options_and_keywords(name: str) -> None:
    for words in (
        ("nmcli", "device", "reapply", name),
        ("dhclient", "-v", name),
        ("ip", "link", "show", name),
    ):
        assert not is_unambiguous(command(*words), [name])
    assert not is_unambiguous(joined("|", command("dmesg"), command("grep", "-F", name)), [name])


@pytest.mark.parametrize("name", ["e,firewall=0", "e=1", "e/../x", "--e", "it's"])
def test_names_in_the_syntax_of_another_program(name: str) -> None:
    for words in (
        ("pct", "set", "101", "-net0", f"name={name},bridge=vmbr0"),
        ("sysctl", "-w", f"net/ipv4/conf/{name}/rp_filter=2"),
        ("sed", "-i", f"s/{name}/eth0/", "/etc/network/interfaces"),
        ("firewall-cmd", f"--change-interface={name}"),
    ):
        assert not is_unambiguous(command(*words), [name])


def test_a_fix_with_such_a_name_has_a_note_instead_of_commands() -> None:
    host = host_facts({"base": "kvm-guest", "links": {"-h": {}}})
    good = Fix(
        "here", "Good", (command("ip", "link", "set", "dev", "-h", "up"),), undo=(command("true"),)
    )
    bad = Fix(
        "here", "Bad", (command("ifup", "eth0"),), undo=(command("ifdown", "-h"),), note="Old."
    )
    first, second = without_odd_names(host, (good, bad))
    assert first == good
    assert (second.commands, second.undo) == ((), ()) and second.note.endswith(
        "another name first. Old."
    )


def container_fixes(name: str) -> list[Fix]:
    """What is stored in the hypervisor for a container whose NIC has this name."""
    learned = {"ifindex": 10, "address": "02:00:00:00:00:aa", "self_entry": False, "master": 5}
    port: dict[str, Any] = {
        "lower": 2,
        "lower_namespace": 1,
        "bridge_vlans": [{"first": 20, "last": 20}],
    }
    owner = host_facts(
        {
            "base": "proxmox-vlan-aware",
            "name": "pve",
            "forwarding": [learned],
            "links": {"veth101i0": port},
        }
    )
    inside = {"kind": "veth", "lower": 10, "lower_namespace": 0, "address": "02:00:00:00:00:aa"}
    guest = host_facts({"name": "ct", "hello": {"boot_id": "c"}, "links": {name: inside}})
    found = [
        fix
        for finding in diagnose((owner, guest)).findings
        for fix in finding.fixes
        if fix.where == "proxmox"
    ]
    assert found
    return found


def test_options_of_a_container_are_not_set_by_the_name_of_its_nic() -> None:
    (fix,) = container_fixes("eth0")
    assert str(fix.commands[0]).startswith("pct set 101 -net0 name=eth0,hwaddr=02:00:00:00:00:aa,")
    for name in ("e,firewall=0", "e,trunks=10;20", "e=1"):
        (fix,) = container_fixes(name)
        assert (fix.commands, fix.undo) == ((), ()) and "by hand" in fix.note


def test_the_name_of_a_domain() -> None:
    assert edit_domain("web1").argv == ("virsh", "edit", "web1")
    assert edit_domain("--help").argv == ("virsh", "edit", "<DOMAIN>")


@pytest.mark.parametrize("name", ["h", "he", "help", "uuid", "id", "path", "--help", "server room"])
def test_profiles_are_selected_by_id_or_uuid(name: str) -> None:
    host = host_facts(
        {
            "base": "kvm-guest",
            "networkmanager": {"profiles": {"33333333-3333-4333-8333-333333333333": {"id": name}}},
        }
    )
    profile = next(one for one in host.profiles.profiles if one.id == name)
    assert bring_up(host, profile).argv == ("nmcli", "con", "up", "id", name)


def test_no_rule_selects_a_profile_by_a_bare_word() -> None:
    seen = 0
    for path in sorted(CASES_DIRECTORY.glob("*/*.json")):
        if path.parent.name == "bases":
            continue
        hosts = json.loads(path.read_text())["fires"][0]["hosts"]
        for finding in diagnose(map(host_facts, hosts)).findings:
            for fix in finding.fixes:
                for step in (*fix.commands, *fix.undo):
                    if (
                        isinstance(step, Command)
                        and step.argv[:2] == ("nmcli", "con")
                        and step.argv[2] != "add"
                    ):
                        assert step.argv[3] in ("id", "uuid"), step
                        seen += 1
                    if (
                        isinstance(step, Command)
                        and step.argv[:2] == ("ip", "link")
                        and step.argv[2] != "add"
                    ):
                        assert step.argv[3] == "dev" or step.argv[3].startswith("<"), step
                        seen += 1
    assert seen > len(RULES) // 2
