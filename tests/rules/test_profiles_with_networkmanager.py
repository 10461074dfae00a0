"""Rules on profiles with a real NetworkManager in a namespace: their findings, and that the printed
commands work as printed and leave no finding."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nictop.model.devices.lldp import switch_ports
from nictop.model.snapshot import advance
from nictop.probe.records import Line, LldpListening, LldpNeighbour, TrafficLine
from nictop.rules import RULES, Finding, HostFacts
from tests.support.findings import step_texts
from tests.support.hostile import PROFILE_NAMES
from tests.support.lldp_frames import aggregation, lldp_frame, lldpdu, pvid, send_frame
from tests.support.managed_host import findings, findings_of, read_host_facts, run_in_bash
from tests.support.namespaces import ROOT as SOURCES
from tests.support.networkmanager import (
    PrivateNetworkManager,
    private_networkmanager,
    why_no_networkmanager,
)
from tests.support.typed_fixes import Host, RunningHost, find_finding, fix_of, nic

GENERATED = "profile_is_generated"
NIC = "ens37"
UNAVAILABLE, DISCONNECTED, ACTIVATING, IP_CONFIG, ACTIVATED = 20, 30, 40, 70, 100


@pytest.fixture
def manager() -> Iterator[PrivateNetworkManager]:
    """A NetworkManager whose DHCP request on ens37 gets no answer."""
    reason = why_no_networkmanager()
    if reason is not None:
        pytest.skip(f"no real NetworkManager: {reason}")
    with private_networkmanager(NIC) as made:
        made.wait_for(lambda: made.device_state(NIC) >= ACTIVATING)
        yield made


def only(manager: PrivateNetworkManager, rule: str, subject: str = NIC) -> Finding:
    """The only finding; asserts its rule and subject."""
    found = findings(manager)
    assert set(found) == {(rule, subject)}
    return found[rule, subject]


def addresses(manager: PrivateNetworkManager, name: str = NIC) -> list[str]:
    link = read_host_facts(manager).links_by_name[name]
    return [f"{one.address}/{one.prefix_length}" for one in link.addresses if one.scope == "global"]


def test_the_generated_profile_gets_an_address_and_a_name(manager: PrivateNetworkManager) -> None:
    """The first fix: the NIC has its address, the profile its name, and there is no finding."""
    finding = only(manager, GENERATED)
    assert finding.title == ('no DHCP reply yet; auto-generated profile "Wired connection 1"')
    run_in_bash(manager, finding.fixes[0].commands, ADDRESS="192.0.2.9/24")
    assert findings(manager) == {}
    assert addresses(manager) == ["192.0.2.9/24"]
    (profile,) = read_host_facts(manager).profiles.user_profiles(
        read_host_facts(manager).links_by_name[NIC]
    )
    assert (profile.profile.id, profile.profile.filename) == (
        NIC,
        f"/etc/NetworkManager/system-connections/{NIC}.nmconnection",
    )
    manager.nmcli(
        "con", "mod", NIC, "ipv4.addresses", "192.0.2.10/24"
    )  # not possible before the fix


def with_static_address(manager: PrivateNetworkManager, address: str) -> None:
    manager.nmcli("con", "mod", "Wired connection 1", "con.id", NIC, "con.interface-name", NIC)
    manager.nmcli("con", "mod", NIC, "ipv4.method", "manual", "ipv4.addresses", address)
    manager.nmcli("con", "mod", NIC, "con.autoconnect-priority", "0", "ipv6.method", "disabled")
    manager.nmcli("con", "up", NIC)
    manager.wait_for(lambda: manager.device_state(NIC) == ACTIVATED)


@pytest.mark.parametrize("number", [0, 1])
def test_a_profile_that_was_changed_and_not_applied(
    manager: PrivateNetworkManager, number: int
) -> None:
    with_static_address(manager, "192.0.2.9/24")
    assert findings(manager) == {}
    manager.nmcli("con", "mod", NIC, "ipv4.addresses", "192.0.2.10/24")
    finding = only(manager, "profile_was_changed_and_not_applied")
    assert finding.title == f'profile "{NIC}" is not applied as stored: ipv4'
    run_in_bash(manager, finding.fixes[number].commands)
    manager.wait_for(lambda: manager.device_state(NIC) == ACTIVATED)
    assert findings(manager) == {}
    assert addresses(manager) == ["192.0.2.10/24"]


def test_a_change_that_was_also_made_by_hand(manager: PrivateNetworkManager) -> None:
    """As printed fixes do: the MTU now, and in the profile for the next activation."""
    with_static_address(manager, "192.0.2.9/24")
    manager.nmcli("con", "mod", NIC, "802-3-ethernet.mtu", "1400")
    assert only(manager, "profile_was_changed_and_not_applied").severity == "warning"
    manager.namespace.run(["ip", "link", "set", "dev", NIC, "mtu", "1400"])
    assert findings(manager) == {}
    manager.nmcli("con", "mod", NIC, "con.autoconnect", "no")
    assert only(manager, "profile_was_changed_and_not_applied").severity == "info"


def test_checks_are_skipped_when_networkmanager_does_not_respond(
    manager: PrivateNetworkManager,
) -> None:
    """With a stopped NetworkManager every check that needs it is skipped, with the reason."""
    only(manager, GENERATED)
    os.kill(manager.pid, signal.SIGSTOP)
    try:
        command = [
            *manager.prefix,
            sys.executable,
            "-m",
            "nictop",
            "check",
            "--watch",
            "1",
            "--skipped",
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=SOURCES, check=False, timeout=120
        )
    finally:
        os.kill(manager.pid, signal.SIGCONT)
    assert done.returncode == 4, done
    assert "✓" not in done.stdout
    # an event of the kernel while NetworkManager is waited for is not read in time, and then named
    assert "· No problems found (" in done.stdout or "since its last event" in done.stdout
    why = f"not readable (NetworkManager did not answer: its process {manager.pid} is stopped)"
    assert f"skipped: NetworkManager (D-Bus): {why}" in " ".join(done.stdout.split())
    assert GENERATED in done.stdout and "no_profile_matches" in done.stdout


def test_the_undo_of_the_first_fix(manager: PrivateNetworkManager) -> None:
    """The undo of the first fix restores DHCP and the old name of the profile, which is now
    saved."""
    fix = only(manager, GENERATED).fixes[0]
    run_in_bash(manager, fix.commands, ADDRESS="192.0.2.9/24")
    *lines, up = fix.undo
    run_in_bash(manager, lines)
    assert str(up).startswith("nmcli con up ")  # would wait for DHCP, which never answers
    (profile,) = read_host_facts(manager).profiles.profiles[:1]
    assert (profile.id, profile.ipv4.method, profile.ipv4.addresses) == (
        "Wired connection 1",
        "auto",
        (),
    )
    not_applied = ("profile_was_changed_and_not_applied", NIC)  # the last line would apply it
    assert set(findings(manager)) == {("profile_still_called_wired_connection", NIC), not_applied}


def test_the_fix_with_a_new_profile(manager: PrivateNetworkManager) -> None:
    """The second fix: the generated profile still exists without a finding; the undo brings the
    finding back."""
    fix = only(manager, GENERATED).fixes[1]
    run_in_bash(manager, fix.commands, ADDRESS="192.0.2.9/24")
    assert findings(manager) == {}
    assert addresses(manager) == ["192.0.2.9/24"]
    assert any(
        profile.generated and not profile.external
        for profile in read_host_facts(manager).profiles.profiles
    )
    run_in_bash(manager, fix.undo[:1])
    manager.wait_for(lambda: manager.device_state(NIC) in range(ACTIVATING, ACTIVATED))
    only(manager, GENERATED)


def test_a_manually_set_address_is_no_use_of_the_generated_profile(
    manager: PrivateNetworkManager,
) -> None:
    """The device is then managed externally: nobody is told to activate another profile."""
    manager.nmcli("con", "down", "Wired connection 1")
    assert only(manager, "profile_does_not_connect_by_itself").title == "disconnected manually"
    manager.namespace.run(["ip", "address", "add", "198.51.100.7/24", "dev", NIC])
    manager.wait_for(lambda: manager.device_state(NIC) == ACTIVATED)
    assert findings(manager) == {}


def test_an_undo_brings_back_what_others_have_set() -> None:
    """A NIC that NetworkManager only describes: the fix of a profile for its former name removes
    address and route, and the undo sets them again without activating anything."""
    address, route = "198.51.100.7/24", "203.0.113.0/24"
    with networkmanager_with_nics(NIC) as place:
        manager = place.manager
        run = manager.namespace.run
        run(["ip", "link", "property", "add", "dev", NIC, "altname", "ens5"])
        words = ("ipv4.method", "manual", "ipv4.addresses", "192.0.2.9/24")
        manager.nmcli(
            "con", "add", "type", "ethernet", "ifname", "ens5", "con-name", "ens5", *words
        )
        run(["ip", "address", "add", address, "dev", NIC])
        run(["ip", "route", "add", route, "via", "198.51.100.1", "dev", NIC])
        manager.wait_for(lambda: manager.only_describes(NIC))
        finding = find_finding((place,), "configuration_names_an_old_name", NIC)
        assert finding is not None
        fix = finding.fixes[0]
        assert f"{address} on {NIC} was not set by NetworkManager" in fix.note
        run_in_bash(manager, fix.commands)
        assert addresses(manager) == ["192.0.2.9/24"]
        run_in_bash(manager, fix.undo)
        manager.wait_for(lambda: manager.only_describes(NIC))
        assert addresses(manager) == [address]
        assert route in run(["ip", "route", "show", "dev", NIC])


def test_networkmanager_receives_lldp(manager: PrivateNetworkManager) -> None:
    """What nictop has received by listening, NetworkManager receives after the printed commands."""
    rule = RULES["networkmanager_does_not_receive_lldp"]
    static = ("ipv4.method", "manual", "ipv4.addresses", "192.0.2.8/24", "ipv6.method", "disabled")
    manager.nmcli("con", "add", "type", "ethernet", "ifname", NIC, "con-name", NIC, *static)
    manager.nmcli("con", "up", NIC)

    def found() -> list[Finding]:
        facts = read_host_facts(manager)
        ifindex = facts.links_by_name[NIC].ifindex
        neighbour = LldpNeighbour("listened", chassis="00:11:22:33:44:55", port="Ethernet1/7")
        line = TrafficLine(
            0.0, "x-lldp", "lldp", lldp=LldpListening((ifindex,), {ifindex: neighbour})
        )
        snapshot = advance(facts.snapshot, Line(traffic=line))
        return [one for one in rule.evaluate([HostFacts(snapshot)]) if isinstance(one, Finding)]

    def receives() -> object:
        send_frame(manager.namespace, f"far{NIC}", lldp_frame(lldpdu(pvid(10), aggregation(1))))
        return manager.device_property(NIC, "LldpNeighbors")

    (finding,) = found()
    run_in_bash(manager, finding.fixes[0].commands)
    assert found() == []
    manager.wait_for(receives)
    facts = read_host_facts(manager)
    port = switch_ports(facts.snapshot)[facts.links_by_name[NIC].ifindex]
    assert (port.source, port.port, port.pvid, port.aggregation) == (
        "NetworkManager",
        "Ethernet1/7",
        10,
        "capable",
    )
    run_in_bash(manager, finding.fixes[0].undo)
    (finding,) = found()
    assert "default" in finding.evidence[0].value


def test_dhcp_that_never_answers(manager: PrivateNetworkManager) -> None:
    """NetworkManager has given up the user's profile: the static variant of the fix brings the NIC
    up."""
    run_in_bash(manager, only(manager, GENERATED).fixes[0].commands, ADDRESS="192.0.2.9/24")
    manager.nmcli(
        "con", "mod", NIC, "ipv4.method", "auto", "ipv4.addresses", "", "ipv4.dhcp-timeout", "1"
    )
    manager.nmcli(
        "con", "mod", NIC, "ipv6.method", "disabled", "connection.autoconnect-retries", "1"
    )
    manager.nmcli("con", "up", NIC, check=False)
    manager.wait_for(lambda: manager.device_state(NIC) == DISCONNECTED)
    finding = only(manager, "dhcp_never_answered")
    assert (finding.severity, finding.title) == (
        "critical",
        "DHCP failed, not trying now",
    )
    known = read_host_facts(manager)
    manager.nmcli("con", "mod", NIC, "ipv4.dhcp-timeout", "60")
    _set_cable(manager, "down")
    manager.wait_for(lambda: manager.device_state(NIC) == UNAVAILABLE)
    known = read_host_facts(manager, known)
    _set_cable(manager, "up")
    manager.wait_for(lambda: manager.device_state(NIC) == IP_CONFIG)
    again = findings_of(read_host_facts(manager, known))["dhcp_never_answered", NIC]
    assert again.severity == "critical"
    assert re.fullmatch(r"DHCP failed \(seen [0-9:]{8} UTC\), trying again", again.title)
    assert "An attempt had failed before NetworkManager was read at 2" in again.why
    new = only(manager, "dhcp_never_answered")
    wanted = ("warning", "no DHCP reply yet")
    assert (new.severity, new.title) == wanted, "nictop was started now"
    run_in_bash(manager, finding.fixes[0].commands, ADDRESS="192.0.2.9/24")
    assert findings(manager) == {}


def _set_cable(manager: PrivateNetworkManager, state: str) -> None:
    manager.run(["ip", "link", "set", "dev", f"far{NIC}", state])


def test_a_matching_profile_replaces_the_active_one(manager: PrivateNetworkManager) -> None:
    """A matching profile without autoconnect is activated."""
    static = ("ipv4.method", "manual", "ipv4.addresses", "192.0.2.8/24")
    manager.nmcli(
        "con",
        "add",
        "type",
        "ethernet",
        "ifname",
        NIC,
        "con-name",
        f"lab {NIC}",
        "autoconnect",
        "no",
        *static,
    )
    finding = only(manager, GENERATED)
    assert finding.title == f'uses auto-generated "Wired connection 1", not your "lab {NIC}"'
    run_in_bash(manager, finding.fixes[0].commands)
    assert findings(manager) == {}
    assert addresses(manager) == ["192.0.2.8/24"]


@pytest.mark.parametrize("name", [*PROFILE_NAMES, "uuid", "two\nlines", "\x1b[31mred", "tab\there"])
def test_any_name_of_a_profile_can_be_pasted(manager: PrivateNetworkManager, name: str) -> None:
    """A profile bound to an interface that does not exist, with names that a shell, nmcli or a
    terminal could misinterpret."""
    static = ("ipv4.method", "manual", "ipv4.addresses", "192.0.2.8/24")
    words = ("con", "add", "type", "ethernet", "ifname", "ens99", *static)
    manager.nmcli(*words, "connection.id", name)
    if name not in read_host_facts(manager).profiles.ids:
        pytest.skip(f"this NetworkManager does not take the name {name!r}")
    finding = only(manager, "profile_names_a_missing_interface")
    assert all(
        "\n" not in line and "\x1b" not in line
        for fix in finding.fixes
        for line in step_texts((*fix.commands, *fix.undo))
    )
    run_in_bash(manager, finding.fixes[0].commands)
    assert addresses(manager) == ["192.0.2.8/24"]
    left = findings(manager)
    assert set(left) <= {
        ("no_profile_of_this_name", NIC)
    }  # its name still differs from that of the interface
    for one in left.values():
        run_in_bash(manager, one.fixes[0].commands)
    assert findings(manager) == {}


def test_an_interface_with_a_quote_in_its_name() -> None:
    reason = why_no_networkmanager()
    if reason is not None:
        pytest.skip(f"no real NetworkManager: {reason}")
    name = "e'$(x)\"7"
    with private_networkmanager(name) as manager:
        manager.wait_for(lambda: manager.device_state(name) >= ACTIVATING)
        finding = only(manager, GENERATED, name)
        run_in_bash(manager, finding.fixes[0].commands, ADDRESS="192.0.2.9/24")
        assert findings(manager) == {}
        assert addresses(manager, name) == ["192.0.2.9/24"]


def test_two_profiles_of_one_name(manager: PrivateNetworkManager) -> None:
    """They compete until one has a higher priority, and are distinguished by UUID."""
    run_in_bash(manager, only(manager, GENERATED).fixes[0].commands, ADDRESS="192.0.2.9/24")
    static = ("ipv4.method", "manual", "ipv4.addresses", "192.0.2.8/24")
    manager.nmcli("con", "add", "type", "ethernet", "ifname", NIC, "con-name", NIC, *static)
    finding = only(manager, "two_profiles_compete")
    run_in_bash(manager, finding.fixes[0].commands)
    assert findings(manager) == {}
    run_in_bash(manager, finding.fixes[0].undo)
    run_in_bash(manager, only(manager, "two_profiles_compete").fixes[2].commands)
    assert findings(manager) == {}


def test_a_device_disconnected_by_the_user(manager: PrivateNetworkManager) -> None:
    run_in_bash(manager, only(manager, GENERATED).fixes[0].commands, ADDRESS="192.0.2.9/24")
    manager.nmcli("device", "disconnect", NIC)
    finding = only(manager, "profile_does_not_connect_by_itself")
    assert finding.title == "disconnected manually"
    run_in_bash(manager, finding.fixes[0].commands)
    assert findings(manager) == {}
    run_in_bash(manager, finding.fixes[0].undo)
    only(manager, "profile_does_not_connect_by_itself")


def test_a_link_without_carrier() -> None:
    """The profile waits for a carrier and has no DEVICE; nictop still finds the interface it
    belongs to."""
    reason = why_no_networkmanager()
    if reason is not None:
        pytest.skip(f"no real NetworkManager: {reason}")
    static = ("ipv4.method", "manual", "ipv4.addresses", "192.0.2.9/24")
    with private_networkmanager() as manager:
        manager.nmcli("con", "add", "type", "ethernet", "ifname", NIC, "con-name", NIC, *static)
        manager.add_link(NIC, peer_up=False)
        manager.wait_for(lambda: manager.device_state(NIC) == UNAVAILABLE)
        finding = only(manager, "link_down_profile_waits")
        assert finding.title == f'no carrier; profile "{NIC}" is not active'
        manager.namespace.run(["ip", "link", "set", "dev", f"far{NIC}", "up"])
        manager.wait_for(lambda: manager.device_state(NIC) == ACTIVATED)
        assert findings(manager) == {}


def test_a_clone_with_the_address_of_another_nic(manager: PrivateNetworkManager) -> None:
    run_in_bash(manager, only(manager, GENERATED).fixes[0].commands, ADDRESS="192.0.2.9/24")
    manager.nmcli("con", "mod", NIC, "802-3-ethernet.mac-address", "00:50:56:99:99:99")
    manager.nmcli("con", "down", NIC)
    found = findings(manager)
    assert set(found) == {("profile_names_a_missing_mac_address", NIC)}
    run_in_bash(manager, found["profile_names_a_missing_mac_address", NIC].fixes[0].commands)
    assert findings(manager) == {}


@contextmanager
def networkmanager_with_nics(*links: str) -> Iterator[RunningHost]:
    """A NetworkManager that generates no profiles; the rules see its veths as NICs of the
    machine."""
    reason = why_no_networkmanager()
    if reason is not None:
        pytest.skip(f"no real NetworkManager: {reason}")
    with private_networkmanager(*links, no_auto_default="*") as manager:
        nics = {link: nic(slot=number) for number, link in enumerate(links, start=1)}
        yield RunningHost("namespace", Host("", {"links": nics}), manager)


def apply_fix(place: RunningHost, rule: str, subject: str, title: str = "", **filled: str) -> None:
    """Run the commands of the fix, and wait until the finding is gone."""
    finding = find_finding((place,), rule, subject)
    assert finding is not None
    run_in_bash(place.manager, fix_of(finding, title).commands, **filled)
    place.manager.wait_for(lambda: find_finding((place,), rule, subject) is None)


def test_a_saved_profile_with_the_generated_name(manager: PrivateNetworkManager) -> None:
    """The profile was saved with the name that NetworkManager had generated."""
    (uuid,) = manager.profiles()
    manager.nmcli("con", "mod", uuid, "ipv4.method", "manual", "ipv4.addresses", "192.0.2.9/24")
    manager.nmcli("con", "up", uuid)
    run_in_bash(manager, only(manager, "profile_still_called_wired_connection").fixes[0].commands)
    assert findings(manager) == {}


@pytest.mark.parametrize("title", ["Add a profile with a static address"])
def test_a_nic_without_any_profile(title: str) -> None:
    with networkmanager_with_nics(NIC) as place:
        place.manager.wait_for(lambda: place.manager.device_state(NIC) == DISCONNECTED)
        apply_fix(place, "no_profile_matches", NIC, title, ADDRESS="192.0.2.9/24")
        assert addresses(place.manager) == ["192.0.2.9/24"]


@pytest.mark.parametrize("title", ["Add a profile with a static address", "Activate the profile"])
def test_a_nic_whose_address_was_removed_by_hand(title: str) -> None:
    """NetworkManager goes on describing it, and activates nothing."""
    rule = "networkmanager_only_describes_the_nic"
    with networkmanager_with_nics(NIC) as place:
        place.host.patch["links"][f"far{NIC}"] = {"lower": None}  # else the NIC is used by it
        manager, address = place.manager, "192.0.2.9/24"
        manager.wait_for(lambda: manager.device_state(NIC) == DISCONNECTED)
        manager.namespace.run(["ip", "address", "add", address, "dev", NIC])
        manager.wait_for(lambda: manager.only_describes(NIC))
        assert find_finding((place,), rule, NIC) is None
        manager.namespace.run(["ip", "address", "del", address, "dev", NIC])
        if title == "Activate the profile":
            static = ("ipv4.method", "manual", "ipv4.addresses", address)
            manager.nmcli("con", "add", "type", "ethernet", "ifname", NIC, "con-name", "a", *static)
        apply_fix(place, rule, NIC, title, ADDRESS=address)
        assert addresses(manager) == [address]


def test_networking_is_enabled_again() -> None:
    with networkmanager_with_nics(NIC) as place:
        place.manager.nmcli("networking", "off")
        apply_fix(place, "networking_is_switched_off", "")


def test_an_unmanaged_nic() -> None:
    with networkmanager_with_nics(NIC) as place:
        place.manager.nmcli("device", "set", NIC, "managed", "no")
        place.manager.wait_for(lambda: find_finding((place,), "link_is_unmanaged", NIC))
        apply_fix(place, "link_is_unmanaged", NIC)


def test_a_profile_for_the_former_name_of_the_nic() -> None:
    with networkmanager_with_nics(NIC) as place:
        place.manager.namespace.run(
            ["ip", "link", "property", "add", "dev", NIC, "altname", "ens5"]
        )
        static = ("ipv4.method", "manual", "ipv4.addresses", "192.0.2.9/24")
        place.manager.nmcli(
            "con", "add", "type", "ethernet", "ifname", "ens5", "con-name", "ens5", *static
        )
        apply_fix(place, "configuration_names_an_old_name", NIC)
        assert addresses(place.manager) == ["192.0.2.9/24"]


@contextmanager
def two_nics(*profiles: tuple[str, ...]) -> Iterator[RunningHost]:
    """Two NICs joined by a bridge, with one profile each."""
    names = ("ens37", "ens38")
    with networkmanager_with_nics(*names) as place:
        manager = place.manager
        manager.namespace.run(
            ["sh", "-ec", "ip link add farsw type bridge; ip link set dev farsw up"]
        )
        for name, words in zip(names, profiles, strict=True):
            manager.namespace.run(["ip", "link", "set", "dev", f"far{name}", "master", "farsw"])
            manager.nmcli(
                "con", "add", "type", "ethernet", "ifname", name, "con-name", name, *words
            )
            manager.wait_for(lambda name=name: manager.device_state(name) == ACTIVATED)  # type: ignore[misc]
        yield place


def static(address: str, gateway: str, *more: str) -> tuple[str, ...]:
    return ("ipv4.method", "manual", "ipv4.addresses", address, "ipv4.gateway", gateway, *more)


@pytest.mark.parametrize(
    "title",
    [
        "Remove the default route from the profile",
        "Use this default route as fallback (metric 500)",
    ],
)
def test_two_default_routes(title: str) -> None:
    with two_nics(
        static("192.0.2.9/24", "192.0.2.1"), static("198.51.100.9/24", "198.51.100.1")
    ) as place:
        finding = find_finding((place,), "second_default_route", "ens38")
        apply_fix(place, "second_default_route", "ens38", title)
        assert finding is not None
        run_in_bash(place.manager, fix_of(finding, title).undo)
        place.manager.wait_for(lambda: find_finding((place,), "second_default_route", "ens38"))


@pytest.mark.parametrize("family", ["IPv4 alone", "and IPv6"])
def test_two_nics_in_one_subnet(family: str) -> None:
    """The profile gets routes and rules, which become active at once; the undo removes them."""
    profiles = [static(f"192.0.2.{number}/24", "192.0.2.1") for number in (9, 10)]
    if family == "and IPv6":
        more = ("ipv6.method", "manual", "ipv6.addresses")
        profiles = [
            (*words, *more, f"2001:db8::{number}/64")
            for words, number in zip(profiles, (9, 10), strict=True)
        ]
    with two_nics(*profiles) as place:
        finding = find_finding((place,), "two_links_in_one_subnet", "ens38")
        assert finding is not None and finding.severity == "warning"
        assert sum("ip route get" in one.source for one in finding.evidence) == (
            2 if family == "and IPv6" else 1
        )
        apply_fix(place, "two_links_in_one_subnet", "ens38")
        assert find_finding((place,), "two_links_in_one_subnet", "ens37") is None
        run_in_bash(place.manager, finding.fixes[0].undo)
        place.manager.wait_for(lambda: find_finding((place,), "two_links_in_one_subnet", "ens38"))


def test_disabled_networking_is_not_reported_as_missing_profiles(
    manager: PrivateNetworkManager,
) -> None:
    """A veth is not a NIC of the machine: no finding, and no false one."""
    run_in_bash(manager, only(manager, GENERATED).fixes[0].commands, ADDRESS="192.0.2.9/24")
    manager.nmcli("networking", "off")
    assert findings(manager) == {}


def test_matching_profiles_are_those_of_networkmanager(manager: PrivateNetworkManager) -> None:
    """`AvailableConnections` of the device is NetworkManager's own list of the profiles that match
    it."""
    address = (
        manager.nmcli("--get-values", "GENERAL.HWADDR", "device", "show", NIC)
        .strip()
        .replace("\\", "")
    )
    kinds: dict[str, tuple[str, ...]] = {
        "any": (),
        "by name": ("ifname", NIC),
        "by another name": ("ifname", "ens99"),
        "by address": ("802-3-ethernet.mac-address", address),
        "by another address": ("802-3-ethernet.mac-address", "00:50:56:99:99:99"),
        "denied": ("802-3-ethernet.mac-address-blacklist", address),
        "pattern": ("match.interface-name", "ens*"),
        "not this": ("match.interface-name", f"!{NIC}"),
        "both must hold": ("match.interface-name", "&ens*,&*99"),
        "driver": ("match.driver", "veth"),
        "another driver": ("match.driver", "igb"),
        "kernel": ("match.kernel-command-line", "no-such-word"),
        "not kernel": ("match.kernel-command-line", "!no-such-word"),
    }
    for name, words in kinds.items():
        rest = words if "ifname" in words else ("ifname", "*", *words)
        manager.nmcli(
            "con", "add", "type", "ethernet", "con-name", name, "autoconnect", "no", *rest
        )
    host = read_host_facts(manager)
    link = host.links_by_name[NIC]
    device = host.profiles.device(link)
    assert device is not None
    offered = {host.profiles.by_uuid[uuid].id for uuid in device.available_profiles}
    assert {match.profile.id for match in host.profiles.fitting(link)} == offered
    assert "by name" in offered and "by another name" not in offered
