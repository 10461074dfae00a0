"""Profiles and devices of a real NetworkManager: all states of a generated profile, arbitrary
names, and a service or bus that ends, hangs or refuses."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import DBusConnection, prep_socket

from nictop.model.managers.configuration import LinkConfiguration
from nictop.model.managers.link_managers import LinkManager, active_profile, link_manager
from nictop.model.parts import managed_devices
from nictop.probe.inventory.managers import networkmanager as profiles
from nictop.probe.inventory.managers.networkmanager import (
    PROFILE_INTERFACE,
    ROOT,
    SERVICE,
    dhcp_routers,
    parse_objects,
    read_networkmanager,
    untyped_objects,
)
from nictop.probe.inventory.managers.networkmanager_profile import (
    mac_address,
    parse_ip,
    parse_profile,
)
from nictop.probe.kernel import dbus_wire as bus
from nictop.probe.kernel import waiting
from nictop.probe.kernel.dbus_calls import DbusReply, unwrap_variants
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import Inventory, IpSettings, Link, NetworkManager, Profile, Unreadable
from tests.support import lines
from tests.support.hostile import PROFILE_NAMES
from tests.support.namespace_inventory import take_inventory_inside
from tests.support.networkmanager import (
    ALLOW_ALL,
    Bus,
    PrivateNetworkManager,
    private_networkmanager,
    why_no_networkmanager,
)
from tests.support.probe import TEST_TIMEOUT

ETHERNET = "802-3-ethernet"
ACTIVATING = 40


@pytest.fixture
def manager() -> Iterator[PrivateNetworkManager]:
    """A NetworkManager that activates ens37, whose peer is up."""
    require_networkmanager()
    with private_networkmanager("ens37") as made:
        made.wait_for(lambda: made.device_state("ens37") >= ACTIVATING)
        yield made


def require_networkmanager() -> None:
    reason = why_no_networkmanager()
    if reason is not None:
        pytest.skip(f"no real NetworkManager: {reason}")


def networkmanager(manager: PrivateNetworkManager) -> NetworkManager:
    taken = take_inventory_inside(manager)
    assert taken.unreadable == {}
    assert taken.networkmanager is not None
    return taken.networkmanager


def ethernet(found: NetworkManager) -> list[Profile]:
    return [profile for profile in found.profiles if profile.type == ETHERNET]


def index_of(taken: Inventory, name: str) -> int:
    return next(link.ifindex for link in taken.links if link.name == name)


# ---------------------------------------------------------------------------- a real NetworkManager


def test_a_new_nic_gets_a_generated_profile(manager: PrivateNetworkManager) -> None:
    taken = take_inventory_inside(manager)
    found = taken.networkmanager
    assert found is not None and taken.unreadable == {} and found.unreadable == {}
    (profile,) = ethernet(found)
    assert profile.id == "Wired connection 1"
    assert (profile.generated, profile.unsaved, profile.external, profile.volatile) == (
        True,
        True,
        False,
        False,
    )
    assert profile.nm_generated_default
    assert (
        profile.filename == "/run/NetworkManager/system-connections/Wired connection 1.nmconnection"
    )
    assert (profile.interface_name, profile.autoconnect, profile.autoconnect_priority) == (
        "ens37",
        True,
        -999,
    )
    assert (profile.ipv4.method, profile.ipv6.method) == ("auto", "auto")
    device = found.devices[index_of(taken, "ens37")]
    assert (device.interface, device.managed, device.active_profile) == (
        "ens37",
        True,
        profile.uuid,
    )
    assert device.active_state == 1 and ACTIVATING <= device.state < 100
    assert device.available_profiles == (profile.uuid,)
    other = found.devices[index_of(taken, "farens37")]
    assert (other.state, other.managed, other.active_profile, other.available_profiles) == (
        10,
        False,
        None,
        (),
    )
    assert found.configuration.unmanaged_devices == ("interface-name:far*",)
    assert (
        found.configuration.origins["unmanaged_devices"]
        == "/etc/NetworkManager/NetworkManager.conf"
    )


def test_profiles_of_external_configuration(manager: PrivateNetworkManager) -> None:
    """lo, and a bridge with an address created by another program: generated, but not as a
    default."""
    manager.namespace.run(["ip", "link", "add", "name", "br7", "type", "bridge"])
    manager.namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "br7"])
    manager.namespace.run(["ip", "link", "set", "dev", "br7", "up"])
    manager.wait_for(lambda: manager.device_state("br7") == 100)
    by_type = {profile.type: profile for profile in networkmanager(manager).profiles}
    for kind in ("loopback", "bridge"):
        if kind in by_type:  # older releases have no profile for lo
            assert (
                by_type[kind].generated
                and by_type[kind].external
                and not by_type[kind].nm_generated_default
            )
    assert by_type["bridge"].ipv4.addresses == ("192.0.2.1/24",)
    assert by_type[ETHERNET].nm_generated_default


def test_an_activated_description_is_managed(manager: PrivateNetworkManager) -> None:
    """The flag of its profile stays; that of the activation is gone."""
    manager.shell("nmcli device disconnect ens37")
    manager.namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "ens37"])
    manager.wait_for(lambda: manager.only_describes("ens37"))
    before, described, profile = manager_of_ens37(manager)
    assert (before.name, described, profile.external) == ("none", True, True)
    manager.shell("nmcli con up uuid " + profile.uuid)
    after, described, profile = manager_of_ens37(manager)
    assert (after.name, after.state, described) == ("NetworkManager", "connected", False)
    assert profile.external


def manager_of_ens37(manager: PrivateNetworkManager) -> tuple[LinkManager, bool | None, Profile]:
    """Its manager, whether its activation only describes, and the active profile."""
    taken = take_inventory_inside(manager)
    (link,) = (one for one in taken.links if one.name == "ens37")
    device = managed_devices(taken.networkmanager)[link.ifindex]
    profile = active_profile(device, taken)
    assert profile is not None
    found = link_manager(link, taken, LinkConfiguration(taken))
    return found, device.external, profile


def test_an_edited_profile_is_saved(manager: PrivateNetworkManager) -> None:
    manager.nmcli(
        "con",
        "mod",
        "Wired connection 1",
        "ipv4.method",
        "manual",
        "ipv4.addresses",
        "192.0.2.9/24",
    )
    (profile,) = ethernet(networkmanager(manager))
    assert profile.id == "Wired connection 1"
    assert not (profile.generated or profile.unsaved or profile.nm_generated_default)
    assert (
        profile.filename == "/etc/NetworkManager/system-connections/Wired connection 1.nmconnection"
    )
    assert profile.ipv4 == IpSettings("manual", addresses=("192.0.2.9/24",))


def test_a_renamed_active_profile(manager: PrivateNetworkManager) -> None:
    (before,) = ethernet(networkmanager(manager))
    manager.shell(
        f"nmcli con mod uuid {before.uuid} con-name ens37 connection.interface-name ens37"
    )
    manager.shell(
        "nmcli con mod ens37 ipv4.method manual ipv4.addresses 192.0.2.9/24 && nmcli con up ens37"
    )
    taken = take_inventory_inside(manager)
    found = taken.networkmanager
    assert found is not None
    (after,) = ethernet(found)
    assert (after.id, after.uuid, after.generated) == ("ens37", before.uuid, False)
    device = found.devices[index_of(taken, "ens37")]
    assert (device.state, device.active_profile, device.active_state) == (100, before.uuid, 2)
    assert after.timestamp > 0
    link = next(link for link in taken.links if link.name == "ens37")
    assert "192.0.2.9" in {address.address.split("/")[0] for address in link.addresses}


def test_two_profiles_for_one_nic(manager: PrivateNetworkManager) -> None:
    add = [
        "con",
        "add",
        "type",
        "ethernet",
        "ifname",
        "ens37",
        "con-name",
        "ens37",
        "autoconnect",
        "no",
    ]
    manager.nmcli(*add, "connection.autoconnect-priority", "7", "ipv4.route-metric", "50")
    taken = take_inventory_inside(manager)
    found = taken.networkmanager
    assert found is not None
    generated, own = sorted(ethernet(found), key=lambda profile: profile.autoconnect_priority)
    assert (generated.nm_generated_default, own.nm_generated_default) == (True, False)
    assert (own.autoconnect, own.autoconnect_priority, own.ipv4.route_metric) == (False, 7, 50)
    device = found.devices[index_of(taken, "ens37")]
    assert device.active_profile == generated.uuid
    assert set(device.available_profiles) == {generated.uuid, own.uuid}


def test_a_disconnected_and_an_unmanaged_device(manager: PrivateNetworkManager) -> None:
    manager.nmcli("device", "disconnect", "ens37")
    manager.wait_for(lambda: manager.device_state("ens37") == 30)
    taken = take_inventory_inside(manager)
    assert taken.networkmanager is not None
    device = taken.networkmanager.devices[index_of(taken, "ens37")]
    assert (device.state, device.reason, device.autoconnect, device.active_profile) == (
        30,
        39,
        False,
        None,
    )
    manager.nmcli("device", "set", "ens37", "managed", "no")
    manager.wait_for(lambda: manager.device_state("ens37") == 10)
    device = networkmanager(manager).devices[index_of(taken, "ens37")]
    assert (device.state, device.managed) == (10, False)


def test_a_deleted_default_profile_is_not_created_again(manager: PrivateNetworkManager) -> None:
    manager.nmcli("con", "delete", "Wired connection 1")
    manager.wait_for(lambda: not manager.profiles())
    found = networkmanager(manager)
    assert ethernet(found) == []
    # a veth has no permanent address, which is stored for a real NIC
    assert found.configuration.no_auto_default_state == ("interface-name:=ens37",)


def test_forbidden_default_profiles() -> None:
    require_networkmanager()
    with private_networkmanager("ens37", no_auto_default="*") as manager:
        manager.wait_for(lambda: manager.device_state("ens37") == 30)
        manager.write(
            "/etc/NetworkManager/conf.d/90-own.conf",
            "[device-x]\nmatch-device=driver:veth\nmanaged=0\n",
        )
        found = networkmanager(manager)
    assert ethernet(found) == []
    assert found.configuration.no_auto_default == ("*",)
    assert found.configuration.device_unmanaged == ("driver:veth",)


@pytest.mark.parametrize("name", [*PROFILE_NAMES, "a blank at the end "])
def test_any_name_is_read_unchanged_and_can_be_pasted(
    manager: PrivateNetworkManager, name: str
) -> None:
    uuid = ethernet(networkmanager(manager))[0].uuid
    manager.shell(f"nmcli con mod uuid {uuid} con-name {shlex.quote(name)}")
    (profile,) = ethernet(networkmanager(manager))
    assert profile.id == name
    manager.shell(f"nmcli con mod {shlex.quote('id')} {shlex.quote(name)} con-name back")
    assert [profile.id for profile in ethernet(networkmanager(manager))] == ["back"]


def test_names_with_control_characters(manager: PrivateNetworkManager) -> None:
    """Which nmcli refuses, but a keyfile may contain as GLib escapes."""
    text = (
        "[connection]\nid=two\\nlines\\t\x1b[2J\nuuid=11111111-1111-4111-8111-11111111111"
        "1\ntype=ethernet\n"
    )
    manager.write("/etc/NetworkManager/system-connections/odd.nmconnection", text)
    manager.nmcli("con", "reload")
    found = {profile.uuid: profile for profile in networkmanager(manager).profiles}
    assert found["11111111-1111-4111-8111-111111111111"].id == "two\nlines\t\x1b[2J"


FULL = """[connection]
id=everything
uuid=22222222-2222-4222-8222-222222222222
type=ethernet
interface-name=ens99
autoconnect-priority=5
autoconnect-retries=2
multi-connect=3
master=bond7
slave-type=bond
permissions=user:root:;
[ethernet]
mac-address=00:50:56:AA:BB:CC
mac-address-blacklist=00:50:56:00:00:01;
cloned-mac-address=stable
mtu=9000
[match]
interface-name=ens*;!ens1;
driver=igb;
path=pci-0000:02:00.0;
kernel-command-line=nictop;
[ethtool]
feature-tso=false
ring-rx=1024
coalesce-rx-usecs=4
[sriov]
total-vfs=4
"""
ADDRESSED = """[connection]
id=vlan9
uuid=33333333-3333-4333-8333-333333333333
type=vlan
[vlan]
id=9
parent=ens37
[ipv4]
method=manual
address1=192.0.2.1/24
route1=198.51.100.0/24,192.0.2.253
route2=203.0.113.0/25
never-default=true
may-fail=false
route-metric=300
route-table=77
[ipv6]
method=manual
address1=2001:db8::2/64,2001:db8::1
routing-rule1=priority 5 from ::/0 table 9
"""


def test_every_field_of_a_profile(manager: PrivateNetworkManager) -> None:
    for name, text in (("full", FULL), ("addressed", ADDRESSED)):
        manager.write(f"/etc/NetworkManager/system-connections/{name}.nmconnection", text)
    manager.nmcli("con", "reload")
    found = {profile.id: profile for profile in networkmanager(manager).profiles}
    full, addressed = found["everything"], found["vlan9"]
    assert (full.interface_name, full.mac_address, full.mtu) == ("ens99", "00:50:56:aa:bb:cc", 9000)
    assert full.mac_address_denylist == ("00:50:56:00:00:01",)
    assert full.cloned_mac_address == "stable"
    assert (full.autoconnect_priority, full.autoconnect_retries, full.multi_connect) == (5, 2, 3)
    assert (full.controller, full.port_type, full.permissions) == ("bond7", "bond", ("root",))
    assert (full.match_interface_names, full.match_drivers) == (("ens*", "!ens1"), ("igb",))
    assert (full.match_paths, full.match_kernel_command_line) == (
        ("pci-0000:02:00.0",),
        ("nictop",),
    )
    assert full.ethtool == {"feature-tso": 0, "ring-rx": 1024, "coalesce-rx-usecs": 4}
    assert full.sriov_total_vfs == 4 and addressed.sriov_total_vfs is None
    assert (addressed.vlan_id, addressed.vlan_parent, full.vlan_id) == (9, "ens37", None)
    assert addressed.ipv4 == IpSettings(
        "manual",
        addresses=("192.0.2.1/24",),
        never_default=True,
        route_metric=300,
        may_fail=False,
        routes=("198.51.100.0/24 via 192.0.2.253", "203.0.113.0/25"),
        has_routing_rules=True,
    )
    assert (addressed.ipv6.addresses, addressed.ipv6.gateway) == (
        ("2001:db8::2/64",),
        "2001:db8::1",
    )
    assert addressed.ipv6.has_routing_rules and not addressed.ipv6.never_default
    assert not full.ipv4.has_routing_rules


def nmcli_values(manager: PrivateNetworkManager, *arguments: str) -> list[str]:
    """Values printed by nmcli, without escapes."""
    return manager.run(["nmcli", "--escape", "no", "--get-values", *arguments]).splitlines()


def test_every_field_agrees_with_nmcli(manager: PrivateNetworkManager) -> None:
    manager.nmcli(
        "con", "add", "type", "ethernet", "ifname", "ens99", "con-name", "a b", "mtu", "1400"
    )
    manager.nmcli(
        "con",
        "mod",
        "a b",
        "ipv4.never-default",
        "yes",
        "ipv4.method",
        "manual",
        "ipv4.addr",
        "192.0.2.3/24",
    )
    taken = take_inventory_inside(manager)
    found = taken.networkmanager
    assert found is not None
    listed = nmcli_values(manager, "UUID", "connection", "show")
    assert sorted(listed) == sorted(profile.uuid for profile in found.profiles)
    yes_no: Callable[[bool], str] = lambda value: "yes" if value else "no"  # noqa: E731
    for profile in found.profiles:
        expected = {
            "connection.id": profile.id,
            "connection.type": profile.type,
            "connection.interface-name": profile.interface_name or "",
            "connection.autoconnect": yes_no(profile.autoconnect),
            "connection.autoconnect-priority": str(profile.autoconnect_priority),
            "connection.timestamp": str(profile.timestamp),
            "ipv4.method": profile.ipv4.method,
            "ipv4.addresses": ", ".join(profile.ipv4.addresses),
            "ipv4.never-default": yes_no(profile.ipv4.never_default),
            "ipv4.may-fail": yes_no(profile.ipv4.may_fail),
            "ipv6.method": profile.ipv6.method,
        }
        for field, ours in expected.items():
            theirs = nmcli_values(manager, field, "connection", "show", "uuid", profile.uuid)
            if field == "connection.timestamp" and profile.type == "loopback":
                continue  # changes continuously
            assert "\n".join(theirs) == ours, (profile.id, field)
    for device in found.devices.values():
        fields = (
            "GENERAL.STATE,GENERAL.REASON,GENERAL.CON-UUID,GENERAL.AUTOCONNECT,GENERAL.NM-MANAGED"
        )
        state, reason, uuid, autoconnect, managed = nmcli_values(
            manager, fields, "device", "show", device.interface
        )
        assert [state.split()[0], reason.split()[0]] == [str(device.state), str(device.reason)], (
            device.interface
        )
        assert (uuid, autoconnect) == (device.active_profile or "", yes_no(device.autoconnect)), (
            device.interface
        )
        assert managed == yes_no(device.managed), device.interface
    assert found.version == nmcli_values(manager, "VERSION", "general")[0]


def test_more_profiles_than_pending_calls_of_the_bus(manager: PrivateNetworkManager) -> None:
    """The bus refuses the 129th call without reply."""
    code = "import sys, os\nos.umask(0o77)\nfor n in range(300):\n"
    code += (
        "    with open(f'/etc/NetworkManager/system-connections/{n}.nmconnection', 'w') as file:\n"
    )
    code += (
        "        file.write(f'[connection]\\nid=number "
        "{n}\\ntype=ethernet\\ninterface-name=none{n}\\n"
    )
    code += "uuid=44444444-4444-4444-8444-{n:012d}\\n')\n"
    manager.run([sys.executable, "-c", code])
    manager.nmcli("con", "reload")
    found = networkmanager(manager)
    assert found.unreadable == {}
    assert {f"number {number}" for number in range(300)} <= {
        profile.id for profile in found.profiles
    }
    numbers = [int(profile.path.rsplit("/", 1)[1]) for profile in found.profiles]
    assert numbers == sorted(numbers)


def test_a_plain_user_reads_all_but_profiles_of_other_users(manager: PrivateNetworkManager) -> None:
    manager.nmcli(
        "con",
        "add",
        "type",
        "ethernet",
        "ifname",
        "x",
        "con-name",
        "roots",
        "connection.permissions",
        "root",
    )
    ours = networkmanager(manager)
    theirs = take_inventory_inside(manager, user=65534).networkmanager
    assert theirs is not None
    assert theirs.devices.keys() == ours.devices.keys()
    (secret,) = [profile for profile in theirs.profiles if "settings" in profile.unreadable]
    assert secret.unreadable["settings"].reason == "needs_root"
    own = next(profile for profile in ours.profiles if profile.id == "roots")
    assert (secret.path, secret.filename, secret.id) == (own.path, own.filename, "")
    rest = [profile for profile in theirs.profiles if profile is not secret]
    assert [p.uuid for p in rest] == [p.uuid for p in ours.profiles if p is not own]


# ---------------------------------------------------------------------- a service or bus in trouble


def test_a_service_that_stops_and_starts_again(manager: PrivateNetworkManager) -> None:
    manager.stop()
    taken = take_inventory_inside(manager)
    assert taken.networkmanager is None and taken.unreadable == {}
    manager.start()
    manager.wait_for(lambda: manager.device_state("ens37") >= ACTIVATING)
    (profile,) = ethernet(networkmanager(manager))
    assert profile.nm_generated_default, "read again from /run after the restart"


def test_a_hanging_service_does_not_affect_other_sources(manager: PrivateNetworkManager) -> None:
    os.kill(manager.pid, signal.SIGSTOP)
    taken = take_inventory_inside(manager, reply_timeout=None)
    os.kill(manager.pid, signal.SIGCONT)
    assert taken.networkmanager is None
    assert set(taken.unreadable) == {"networkmanager"}
    assert taken.unreadable["networkmanager"].reason == "failed"
    detail = taken.unreadable["networkmanager"].detail
    assert detail == f"NetworkManager did not answer: its process {manager.pid} is stopped"
    assert {link.name for link in taken.links} == {"lo", "ens37", "farens37"}
    assert all(link.ethtool.features for link in taken.links)


SLOW = """
import sys, time
from jeepney import HeaderFields, MessageType, message_bus, new_method_return
from jeepney.io.blocking import DBusConnection, prep_socket

ROOT, SERVICE = "/org/freedesktop/NetworkManager", "org.freedesktop.NetworkManager"
profiles = [f"{ROOT}/Settings/{number}" for number in (1, 2, 3)]
with DBusConnection(prep_socket(sys.argv[1])) as bus:
    bus.send_and_get_reply(message_bus.RequestName(SERVICE))
    print("ready", flush=True)
    while True:
        call = bus.receive()
        if call.header.message_type is not MessageType.method_call:
            continue
        member, path = call.header.fields[HeaderFields.member], call.header.fields[HeaderFields.path]
        if member == "GetManagedObjects":
            end = time.process_time() + 1.0
            while time.process_time() < end:
                pass
            objects = {ROOT: {SERVICE: {"Version": ("s", "1.42")}}}
            objects.update({one: {f"{SERVICE}.Settings.Connection": {}} for one in profiles})
            bus.send(new_method_return(call, "a{oa{sa{sv}}}", (objects,)))
        elif path != profiles[2]:  # no reply for the last one
            settings = {"connection": {"id": ("s", path[-1]), "uuid": ("s", path[-1]), "type": ("s", "vlan")}}
            bus.send(new_method_return(call, "a{sa{sv}}", (settings,)))
"""


def test_a_busy_service_gets_more_time_and_its_replies_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_networkmanager()
    monkeypatch.setattr(profiles, "REPLY_TIMEOUT", 0.2)
    monkeypatch.setattr(
        waiting, "read_cpu_times", lambda _: None
    )  # other tests may keep all CPUs busy
    made = Bus(tmp_path, ALLOW_ALL)
    command = [sys.executable, "-c", SLOW, str(made.socket)]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE) as service:
            assert service.stdout is not None and service.stdout.readline() == b"ready\n"
            monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", made.address)
            found, trouble = read_networkmanager(())
            service.kill()
    finally:
        made.end()
    assert trouble is None and found is not None
    assert [one.id for one in found.profiles] == ["1", "2"]
    assert found.unreadable["profiles"].detail == (
        "NetworkManager (after 2 of 3 profiles) did not answer: no reply within 0.2 s"
    )


def test_reading_does_not_start_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the bus has a service file for it."""
    require_networkmanager()
    started = tmp_path / "started"
    (tmp_path / "nm.service").write_text(
        f"[D-BUS Service]\nName={SERVICE}\nExec=/bin/touch {started}\nUser=root\n"
    )
    made = Bus(
        tmp_path,
        f"{ALLOW_ALL}</policy><servicedir>{tmp_path}</servicedir><policy context='default'>",
    )
    try:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", made.address)
        assert read_networkmanager(()) == (None, None)
    finally:
        made.end()
    assert not started.exists()


def trouble_at(path: object, monkeypatch: pytest.MonkeyPatch) -> Unreadable:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={path}")
    found, trouble = read_networkmanager(())
    assert found is None and trouble is not None
    return trouble


@contextmanager
def owner(made: Bus, name: str) -> Iterator[None]:
    """A connection that owns a name on the bus."""
    with DBusConnection(prep_socket(str(made.socket))) as connection:
        connection.send_and_get_reply(message_bus.RequestName(name), timeout=TEST_TIMEOUT)
        yield


def test_a_bus_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_networkmanager()
    for directory, rules, reason in (
        ("nobody", '<deny user="*"/>', "failed"),
        (
            "calls",
            f'{ALLOW_ALL}<deny send_destination="{SERVICE}" send_type="method_call"/>',
            "needs_root",
        ),
    ):
        (tmp_path / directory).mkdir()
        made = Bus(tmp_path / directory, rules)
        try:
            with owner(made, SERVICE) if reason == "needs_root" else nullcontext():
                trouble = trouble_at(made.socket, monkeypatch)
        finally:
            made.end()
        assert trouble.reason == reason and trouble.detail, directory


def test_without_a_bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBUS_SYSTEM_BUS_ADDRESS", raising=False)
    assert read_networkmanager((), run=str(tmp_path)) == (None, None)
    (tmp_path / "dbus").mkdir()
    with socket.socket(socket.AF_UNIX) as unused:  # the socket file remains when the bus has ended
        unused.bind(str(tmp_path / "dbus/system_bus_socket"))
    found, trouble = read_networkmanager((), run=str(tmp_path))
    assert found is None and trouble is not None and trouble.detail.endswith("ECONNREFUSED")


@pytest.mark.parametrize(
    "address", ["tcp:host=127.0.0.1,port=1", "nonsense", "unix:", "unix:path=/x%00y"]
)
def test_an_invalid_bus_address(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
    assert read_networkmanager(()) in (
        (None, Unreadable("failed", "DBUS_SYSTEM_BUS_ADDRESS is not a Unix socket")),
        (None, None),
    )


REPLIES = {
    "nothing": (b"", "did not answer"),
    "rejected": (b"REJECTED EXTERNAL\r\n", "refused: REJECTED EXTERNAL"),
    "endless line": (b"O" * 5000, "no answer to the authentication"),
    "nonsense": (b"OK 1234\r\n" + b"GET / HTTP/1.1\r\n\r\n", "not a D-Bus message"),
    "huge": (b"OK 1234\r\nl\2\1\1\xff\xff\xff\x7f" + bytes(8), "bytes"),
    "broken": (
        b"OK 1234\r\nl\2\1\1" + bytes(4) + b"\1\0\0\0\x08\0\0\0" + b"\xff" * 8,
        "in an answer of the bus",
    ),
}


@pytest.mark.parametrize("case", REPLIES)
def test_malformed_replies_of_the_bus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    reply, sentence = REPLIES[case]
    monkeypatch.setattr(profiles, "REPLY_TIMEOUT", 0.3)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "bus"))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(reply)
                while connection.recv(4096):
                    pass

        server = threading.Thread(target=serve)
        server.start()
        try:
            trouble = trouble_at(tmp_path / "bus", monkeypatch)
        finally:
            server.join()
    assert trouble.reason == "failed" and sentence in trouble.detail


def test_missing_jeepney_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jeepney", None)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "bus"))
        listener.listen()
        assert trouble_at(tmp_path / "bus", monkeypatch).reason == "missing"


# ------------------------------------------------------------------------------------ pure

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
        | st.tuples(st.text(max_size=4), inner)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)
KEYS = st.sampled_from(
    (
        *(
            "id",
            "uuid",
            "type",
            "interface-name",
            "autoconnect",
            "timestamp",
            "permissions",
            "parent",
            "total-vfs",
        ),
        *(
            "mtu",
            "mac-address",
            "mac-address-blacklist",
            "cloned-mac-address",
            "method",
            "address-data",
            "gateway",
        ),
        *("route-data", "routing-rules", "route-table", "dest", "prefix", "next-hop"),
    )
)
PARTS = st.dictionaries(KEYS, VALUES, max_size=8)
SETTINGS = st.dictionaries(
    st.sampled_from(["connection", ETHERNET, "ipv4", "ipv6", "match", "vlan", "sriov", "ethtool"]),
    PARTS,
    max_size=6,
)


def can_be_decoded(record: object) -> bool:
    """Whether all fields of a record have the declared types."""
    text = json.dumps(record, default=field_mapping, ensure_ascii=False).encode("utf-8", "replace")
    return isinstance(msgspec.json.decode(text, type=type(record)), type(record))


@given(st.dictionaries(st.sampled_from(["Flags", "Unsaved", "Filename"]), VALUES), SETTINGS)
def test_any_settings_make_a_profile(
    properties: dict[str, Any], settings: dict[str, dict[str, Any]]
) -> None:
    assert can_be_decoded(parse_profile("/p", properties, settings, {}))


DEVICE = st.dictionaries(
    st.sampled_from(
        [
            "Interface",
            "Udi",
            "State",
            "StateReason",
            "ActiveConnection",
            "AvailableConnections",
            "Managed",
        ]
    ),
    VALUES | st.just(("s", "ens37")),
)
OBJECTS = st.dictionaries(
    st.sampled_from(
        [ROOT, f"{ROOT}/Settings/1", f"{ROOT}/Devices/1", f"{ROOT}/ActiveConnection/1"]
    ),
    st.dictionaries(
        st.sampled_from(
            [SERVICE, PROFILE_INTERFACE, f"{SERVICE}.Device", f"{SERVICE}.Device.Wired"]
        ),
        DEVICE | VALUES,
    )
    | VALUES,
)


@example(
    {
        f"{ROOT}/Devices/1": {
            f"{SERVICE}.Device": {"Interface": ("s", "ens37"), "StateReason": (None, False)}
        }
    },
    None,
)
@given(OBJECTS | VALUES, VALUES)
def test_any_objects_make_a_record(tree: object, settings: object) -> None:
    links = (lines.link(7, "ens37"),)
    answers = {f"{ROOT}/Settings/1": DbusReply((settings,))}
    assert can_be_decoded(parse_objects(untyped_objects(tree), answers, links))


def test_a_device_is_matched_by_name_or_sysfs_path() -> None:
    device = f"{SERVICE}.Device"
    tree = {
        ROOT: {SERVICE: {"Version": ("s", "1.2")}},
        f"{ROOT}/Devices/1": {
            device: {"Interface": ("s", "ens37"), "StateReason": ("(uu)", (30, 4))}
        },
        f"{ROOT}/Devices/2": {
            device: {"Interface": ("s", "old"), "Udi": ("s", "/sys/devices/x/net/ens38")}
        },
        f"{ROOT}/Devices/3": {
            device: {"Interface": ("s", "gone"), "Udi": ("s", "/org/freedesktop/virtual")}
        },
    }
    found = parse_objects(
        untyped_objects(tree), {}, (lines.link(7, "ens37"), lines.link(8, "ens38"))
    )
    assert {ifindex: device.interface for ifindex, device in found.devices.items()} == {
        7: "ens37",
        8: "old",
    }
    assert found.devices[7].reason == 4


def test_a_removed_profile_is_left_out() -> None:
    objects: dict[str, dict[str, dict[str, Any]]] = {
        ROOT: {SERVICE: {}},
        "/1": {PROFILE_INTERFACE: {}},
        "/2": {PROFILE_INTERFACE: {}},
    }
    answers = {
        "/1": DbusReply((), f"{bus.BUS_NAME}.Error.UnknownMethod"),
        "/2": DbusReply((), "x.Failed", "why"),
    }
    (profile,) = parse_objects(objects, answers, ()).profiles
    assert profile.path == "/2" and profile.unreadable["settings"] == Unreadable(
        "failed", "x.Failed: why"
    )


@pytest.mark.parametrize(
    ("flags", "default"),
    [(3, True), (2, True), (0, False), (1, False), (15, False), (7, False), (10, False)],
)
def test_flags_of_a_default_profile(flags: int, default: bool) -> None:
    assert parse_profile("/p", {"Flags": flags}, {}, {}).nm_generated_default is default


def test_property_names_of_newer_versions() -> None:
    settings: dict[str, dict[str, Any]] = {
        "connection": {"type": ETHERNET, "controller": "bond0", "port-type": "bond"},
        ETHERNET: {"mac-address-denylist": ["AA:BB:CC:DD:EE:FF"], "assigned-mac-address": "random"},
    }
    profile = parse_profile("/p", {}, settings, {})
    assert (profile.controller, profile.port_type) == ("bond0", "bond")
    assert (profile.mac_address_denylist, profile.cloned_mac_address) == (
        ("aa:bb:cc:dd:ee:ff",),
        "random",
    )


def test_helper_functions() -> None:
    assert mac_address(b"\x00\x50\x56\xaa\xbb\xcc") == "00:50:56:aa:bb:cc"
    assert mac_address(b"") is mac_address([1, 2, 3, 4, 5, 600]) is mac_address("") is None
    assert parse_ip({}) == IpSettings("disabled")
    assert parse_ip({"method": "auto", "route-metric": -1}).route_metric is None
    assert unwrap_variants(("a{sv}", {"a": ("s", "x"), "b": ("aa{sv}", [{"c": ("u", 1)}])})) == {
        "a": "x",
        "b": [{"c": 1}],
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"interface_mtu": ("s", "1460"), "ip_address": ("s", "10.128.0.2")}, 1460),
        ({"ip_address": ("s", "10.128.0.2")}, None),
        ({"interface_mtu": ("s", "none")}, None),
        ({"interface_mtu": ("u", 1460)}, None),
    ],
)
def test_mtu_of_a_lease(options: object, expected: int | None) -> None:
    """Option 26, which NetworkManager shows as text."""
    lease = "/org/freedesktop/NetworkManager/DHCP4Config/1"
    service = "org.freedesktop.NetworkManager"
    tree = {
        "/org/freedesktop/NetworkManager/Devices/2": {
            f"{service}.Device": {"Interface": ("s", "ens4"), "Dhcp4Config": ("o", lease)}
        },
        lease: {f"{service}.DHCP4Config": {"Options": ("a{sv}", options)}},
    }
    found = parse_objects(untyped_objects(tree), {}, (Link(2, "ens4", 1, 1, "up", True, 1500),))
    assert found.devices[2].dhcp_mtu == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"routers": "192.0.2.1"}, ("192.0.2.1",)),
        ({"routers": "192.0.2.1 192.0.2.2"}, ("192.0.2.1", "192.0.2.2")),
        ({"routers": 7}, ()),
        ({}, ()),
        (None, ()),
    ],
)
def test_routers_of_a_lease(options: object, expected: tuple[str, ...]) -> None:
    assert (
        dhcp_routers({"org.freedesktop.NetworkManager.DHCP4Config": {"Options": options}})
        == expected
    )
    assert dhcp_routers({}) == ()
