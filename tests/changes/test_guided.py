"""Guided jobs: only what the NIC can do, as actions that the probe takes, and a check that can
fail."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nictop.changes.actions import Action, Actions, ManualOnly, actions_of
from nictop.changes.events import Event, Prepared, ReadBack
from nictop.changes.guided.set_up import (
    blink_led,
    give_address,
    make_vfs,
    set_mtu,
    spread_interrupts,
    use_queues,
)
from nictop.changes.job import ChangeJob, ChangeSpec
from nictop.changes.script import script
from nictop.changes.session import ChangeSession
from nictop.cli.change.run import job_of
from nictop.errors import NictopError
from nictop.model.snapshot import Snapshot, advance
from nictop.model.text.words import IFF_NOARP
from nictop.probe.records import ConfigurationEntry, Line, Link, LinkChange
from nictop.probe.records.links import DefaultRoute
from nictop.rules import HostFacts
from nictop.rules.fixes.added_lines import ADDED_LINES_NOTE
from nictop.rules.fixes.address_files import AddressRequest, address_now
from nictop.wire.local import LocalSource
from nictop.wire.probe_process import probe_command
from tests.changes.carrying import carry
from tests.changes.test_real_change import REAL
from tests.support import managed_host
from tests.support.findings import host_of_case, step_texts
from tests.support.networkmanager import (
    PrivateNetworkManager,
    private_networkmanager,
    why_no_networkmanager,
)
from tests.support.rule_cases import host_facts

needs_networkmanager = pytest.mark.skipif(
    why_no_networkmanager() is not None, reason=why_no_networkmanager() or ""
)
STATIC = AddressRequest("192.0.2.10/24")
DHCP = AddressRequest(None)
UUID = "77777777-7777-3777-8777-777777777777"


def is_proven(job: ChangeJob, snapshot: Snapshot) -> bool:
    assert job.proof is not None
    return job.proof(snapshot).proven


def actions(job: ChangeJob) -> tuple[Action, ...]:
    meant = actions_of(job.fix)
    assert isinstance(meant, Actions) and not meant.blanks, meant
    assert script("vm1", job.title, job.fix, lasting=job.lasting).startswith("#!/bin/sh\n")
    return meant.actions


def refusal(job: Any, *words: Any) -> str:
    with pytest.raises(NictopError) as caught:
        job(*words)
    return caught.value.message


def link_of(host: HostFacts, name: str) -> Link:
    return host.links_by_name[name]


def generated() -> tuple[HostFacts, Link]:
    """A guest whose ens224 is run by "Wired connection 1"."""
    host = host_facts(host_of_case("profiles", "profile_is_generated"))
    return host, link_of(host, "ens224")


# ---------------------------------------------------------------------------------------- addresses


def with_default_route(host: HostFacts) -> Link:
    route = DefaultRoute("ipv4", "192.0.2.1", 100, 254)
    return replace(link_of(host, "ens224"), default_routes=(route,))


def test_a_default_route_that_is_taken_away_is_said_before() -> None:
    host, _ = generated()
    nic = with_default_route(host)
    lost = "ens224 loses its default route via 192.0.2.1: what uses it does not work afterwards"
    assert give_address(host, nic, STATIC).warnings == (lost,)
    kept = AddressRequest("192.0.2.10/24", "192.0.2.1", default_route=True)
    assert give_address(host, nic, kept).warnings == ()
    assert give_address(host, nic, AddressRequest("2001:db8::1/64")).warnings == ()
    assert give_address(*generated(), STATIC).warnings == ()


@pytest.mark.parametrize(
    ("requested", "found"),
    [("2001:DB8:0::10/64", "2001:db8::10"), ("fe80::10/64", "fe80::10")],
    ids=["written in another way", "link-local"],
)
def test_an_address_is_found_however_it_was_written(requested: str, found: str) -> None:
    host, nic = generated()
    job = give_address(host, nic, AddressRequest(requested))
    assert job.proof is not None
    scope = "link" if found.startswith("fe80") else "global"
    address = {"family": "ipv6", "address": found, "prefix_length": 64, "scope": scope}
    spec = host_of_case("profiles", "profile_is_generated")
    spec.setdefault("links", {}).setdefault("ens224", {})["addresses"] = [address]
    now = job.proof(host_facts(spec).snapshot)
    assert now.proven and now.text == f"ens224 has {found}/64"


def test_that_arp_is_off_is_said_before_an_address_is_given() -> None:
    """The rule reports it only of links that have one."""
    host, nic = generated()
    link = replace(nic, flags=nic.flags | IFF_NOARP)
    assert give_address(host, link, STATIC).warnings == (
        "ARP is off (NOARP): the address alone does not work, also type: "
        "ip link set dev ens224 arp on",
    )


def test_a_router_of_ipv6_is_reached_by_its_link_local_address() -> None:
    host, nic = generated()
    router = AddressRequest("2001:db8::10/64", "fe80::1", default_route=True)
    assert give_address(host, nic, router).warnings == ()
    (warning,) = give_address(
        host, nic, AddressRequest("2001:db8::10/64", default_route=True)
    ).warnings
    assert warning.startswith("no gateway is given: no default route is set")


def test_a_default_route_that_is_there_is_not_added_again() -> None:
    host, nic = generated()
    request = AddressRequest("192.0.2.10/24", "192.0.2.1", default_route=True)
    assert len(address_now(nic, request).commands) == 2
    assert len(address_now(with_default_route(host), request).commands) == 1


def test_a_made_up_profile_is_renamed_bound_and_given_the_address() -> None:
    job = give_address(*generated(), STATIC)
    modify, up = actions(job)
    assert modify[:5] == ("nmcli", "con", "mod", "uuid", UUID)
    values = dict(zip(modify[5::2], modify[6::2], strict=True))
    assert values["connection.id"] == "ens224"
    unbound = host_of_case("profiles", "profile_is_generated")
    unbound["networkmanager"]["profiles"][UUID]["interface_name"] = None
    host = host_facts(unbound)
    unbound_job = give_address(host, link_of(host, "ens224"), STATIC)
    bound = actions(unbound_job)[0]
    assert bound[bound.index("connection.interface-name") + 1] == "ens224"
    assert (values["ipv4.method"], values["ipv4.addresses"], values["ipv4.gateway"]) == (
        "manual",
        "192.0.2.10/24",
        "",
    )
    assert values["ipv4.never-default"] == "yes", "no default route unless asked"
    assert up == ("nmcli", "con", "up", "uuid", UUID, "ifname", "ens224")
    undo = str(job.fix.undo[0])
    assert "'Wired connection 1'" in undo and "ipv4.method auto" in undo
    assert job.fix.persistent
    renamed = (
        'Profile "Wired connection 1" was generated by NetworkManager: it is saved under '
        "the name ens224, "
    )
    assert job.fix.note == f"{renamed}with the default autoconnect priority 0."
    assert unbound_job.fix.note.endswith(
        "It is bound to ens224, and no longer used for other interfaces."
    )


def test_a_profile_of_the_user_keeps_its_name() -> None:
    case = host_of_case("profiles", "profile_is_generated")
    profile = case["networkmanager"]["profiles"][UUID]
    profile |= {
        "id": "mine",
        "generated": False,
        "nm_generated_default": False,
        "filename": "/etc/mine.nmconnection",
    }
    host = host_facts(case)
    job = give_address(host, link_of(host, "ens224"), STATIC)
    assert "connection.id" not in actions(job)[0]
    assert "mine" in job.title and "generated" not in job.fix.note


def test_a_new_profile_is_added_and_brought_up() -> None:
    host, link = generated()
    add, up = actions(give_address(host, link, replace(DHCP, new_profile=True)))
    assert add[:9] == (
        "nmcli",
        "con",
        "add",
        "type",
        "ethernet",
        "ifname",
        "ens224",
        "con-name",
        "ens224",
    )
    values = dict(zip(add[9::2], add[10::2], strict=True))
    assert values["ipv4.method"] == "auto" and values["ipv4.never-default"] == "yes"
    assert up == ("nmcli", "con", "up", "id", "ens224")


def test_a_new_profile_has_no_name_that_is_there_already() -> None:
    """Also not that of a profile which only describes what others configured: its name is that of
    the NIC, and NetworkManager would activate that one."""
    case = host_of_case("profiles", "profile_is_generated")
    described = {"external": True, "generated": False, "nm_generated_default": False}
    case["networkmanager"]["profiles"][UUID] |= {"id": "ens224", **described}
    host = host_facts(case)
    add, up = actions(give_address(host, link_of(host, "ens224"), STATIC))
    assert add[8] == "ens224-2"
    assert up == ("nmcli", "con", "up", "id", "ens224-2")


def test_the_undo_sets_again_what_others_have_set() -> None:
    """Of a NIC that NetworkManager only describes."""
    case = host_of_case("profiles", "networkmanager_only_describes_the_nic")
    address = {"family": "ipv4", "address": "198.51.100.7", "prefix_length": 24}
    case["links"]["ens224"]["addresses"] = [address]
    host = host_facts(case)
    job = give_address(host, link_of(host, "ens224"), STATIC)
    first, *_, last = map(str, job.fix.undo)
    assert first == "nmcli device disconnect ens224"
    assert last == "ip address add 198.51.100.7/24 dev ens224"
    assert "198.51.100.7/24 on ens224 was not set by NetworkManager" in job.fix.note


def test_a_gateway_is_for_a_default_route() -> None:
    host, link = generated()
    routed = AddressRequest("192.0.2.10/24", "192.0.2.1", default_route=True)
    values = actions(give_address(host, link, routed))[0]
    assert values[values.index("ipv4.gateway") + 1] == "192.0.2.1"
    assert values[values.index("ipv4.never-default") + 1] == "no"
    six = actions(give_address(host, link, AddressRequest("2001:db8::10/64", new_profile=True)))[0]
    assert (
        six[six.index("ipv6.addresses") + 1] == "2001:db8::10/64"
        and six[six.index("ipv4.method") + 1] == "disabled"
    )


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (AddressRequest("192.0.2.10"), "prefix length"),
        (AddressRequest("192.0.2.0/24"), "network or broadcast"),
        (AddressRequest("192.0.2.255/24"), "network or broadcast"),
        (AddressRequest("192.0.2.10/33"), "192.0.2.10/33"),
        (AddressRequest("\x1b[2J"), "x1b"),
        (AddressRequest("192.0.2.10/24", "192.0.2.1"), "default route"),
        (
            AddressRequest("192.0.2.10/24", "198.51.100.1", default_route=True),
            "not in 192.0.2.0/24",
        ),
        (AddressRequest(None, "192.0.2.1", default_route=True), "DHCP"),
        (AddressRequest("192.0.2.10/24", default_route=True), "a default route needs a gateway"),
        (AddressRequest("192.0.2.10/24", "192.0.2.10", default_route=True), "the NIC itself"),
        (AddressRequest("127.0.0.5/8"), "a loopback address"),
        (AddressRequest("::1/64"), "a loopback address"),
        (AddressRequest("224.0.0.1/24"), "a multicast address"),
        (AddressRequest("ff02::1/64"), "a multicast address"),
        (AddressRequest("0.0.0.0/32"), "the address of no host"),
        (AddressRequest("::/64"), "the address of no host"),
        (AddressRequest("255.255.255.255/32"), "the broadcast address"),
        (AddressRequest("192.0.2.10/24", "fe80::1", default_route=True), "not in 192.0.2.0/24"),
        (AddressRequest("fe80::1%eth0/64"), ""),
    ],
)
def test_addresses_that_cannot_be(spec: AddressRequest, why: str) -> None:
    message = refusal(give_address, *generated(), spec)
    assert why in message and message.isprintable()


@given(st.text(max_size=30), st.text(max_size=20), st.booleans())
@settings(max_examples=50)
def test_any_text_is_an_address_or_refused(address: str, gateway: str, routed: bool) -> None:
    try:
        job = give_address(*generated(), AddressRequest(address, gateway, routed))
    except NictopError as error:
        assert error.message.isprintable()
    else:
        assert actions(job)


def test_who_else_manages_the_nic_is_respected() -> None:
    host = host_facts(host_of_case("profiles", "link_is_unmanaged"))
    manager = host.inventory.networkmanager
    assert manager is not None
    unmanaged = next(link for link in host.links if not manager.devices[link.ifindex].managed)
    assert "does not manage" in refusal(give_address, host, unmanaged, STATIC)


def without_networkmanager(*owners: str) -> tuple[HostFacts, Link]:
    host, link = generated()
    configuration = tuple(ConfigurationEntry(owner, f"/etc/{owner}", 1) for owner in owners)  # type: ignore[arg-type]
    inventory = replace(
        host.inventory, networkmanager=None, networkd={}, configuration=configuration
    )
    snapshot = replace(host.snapshot, inventory=inventory)
    return HostFacts(snapshot, host.window), link


@pytest.mark.parametrize("owner", ["netplan", "ifupdown"])
def test_without_networkmanager_ip_sets_it_and_the_manager_of_the_host_comes_first(
    owner: str,
) -> None:
    host, link = without_networkmanager(owner)
    job = give_address(host, link, STATIC)
    assert actions(job) == (("ip", "address", "add", "192.0.2.10/24", "dev", "ens224"),)
    assert (
        step_texts(job.fix.undo) == ["ip address del 192.0.2.10/24 dev ens224"]
        and job.fix.persistent is False
    )
    assert job.lasting[0].title == f"Permanent: {owner}"
    assert {one.title for one in job.lasting} == {
        f"Permanent: {name}" for name in ("netplan", "systemd-networkd", "ifupdown")
    }
    text = script("vm1", job.title, job.fix, lasting=job.lasting)
    for line in (
        "Address=192.0.2.10/24",
        "> /etc/systemd/network/10-ens224.network",
        "netplan set 'ethernets.ens224.addresses=[192.0.2.10/24]'",
        "iface ens224 inet static",
        "    address 192.0.2.10/24",
    ):
        assert line in text, line
    assert not is_proven(job, host.snapshot)


def test_without_networkmanager_routes_and_dhcp_are_typed() -> None:
    host, link = without_networkmanager("netplan")
    routed = give_address(
        host, link, AddressRequest("192.0.2.10/24", "192.0.2.1", default_route=True)
    )
    assert step_texts(routed.fix.commands)[1] == "ip route add default via 192.0.2.1 dev ens224"
    assert isinstance(actions_of(routed.fix), ManualOnly)
    texts = [" ".join(step_texts(one.commands)) for one in routed.lasting]
    assert all("192.0.2.1" in text.replace("192.0.2.10", "") for text in texts)
    dhcp = give_address(host, link, DHCP)
    assert isinstance(actions_of(dhcp.fix), ManualOnly)
    assert [
        words in " ".join(step_texts(one.commands))
        for one, words in zip(
            dhcp.lasting, ("use-routes=false", "UseGateway=no", "inet dhcp"), strict=True
        )
    ] == [True] * 3
    assert "prefix length" in refusal(give_address, host, link, AddressRequest("192.0.2.10"))


# -------------------------------------------------------------------------- queues, VFs, interrupts


def test_queues() -> None:
    host = host_facts(host_of_case("virtio", "multiqueue_is_not_used"))
    link = link_of(host, "enp1s0")
    job = use_queues(host, link, 4)
    assert actions(job) == (("ethtool", "-L", "enp1s0", "combined", "4"),)
    assert (
        step_texts(job.fix.undo) == ["ethtool -L enp1s0 combined 1"] and job.lasting[0].persistent
    )
    broken = replace(link, permanent_address=f"{link.address}\nexit")
    (lasting,) = use_queues(host, broken, 4).lasting
    assert ADDED_LINES_NOTE in lasting.note and not lasting.commands, "the rule of a .link file"
    for wrong in (0, -1, 5, 10**9):
        assert "1 to 4" in refusal(use_queues, host, link, wrong), wrong
    assert "already" in refusal(use_queues, host, link, 1)
    assert not is_proven(job, host.snapshot)
    assert is_proven(job, host_facts({"base": "kvm-guest"}).snapshot)


def test_queues_of_a_driver_that_has_two_kinds() -> None:
    host = host_facts({"base": "vmware-guest"})
    job = use_queues(host, link_of(host, "ens192"), 2)
    assert actions(job) == (("ethtool", "-L", "ens192", "rx", "2", "tx", "2"),)


def test_virtual_functions_only_from_none() -> None:
    none = {"0000:3b:00.0": {"sriov": {"total_vfs": 64, "num_vfs": 0, "virtual_functions": []}}}
    bare = {"base": "hypervisor", "configuration": [], "pci": none}
    host = host_facts(bare)
    function = host.functions["0000:3b:00.0"]
    job = make_vfs(host, function, 4)
    assert actions(job) == (("write", "/sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs", "4"),)
    assert step_texts(job.fix.undo) == ["echo 0 > /sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs"]
    assert [one.persistent for one in job.lasting] == [True] and 'sriov_numvfs}="4"' in str(
        job.lasting[0].commands[0]
    )
    for wrong in (0, 65):
        assert "1 to 64" in refusal(make_vfs, host, function, wrong), wrong
    busy = host_facts({"base": "hypervisor"})
    assert "removes all of them" in refusal(make_vfs, busy, busy.functions["0000:3b:00.0"], 4)
    assert "does not support VFs" in refusal(make_vfs, busy, busy.functions["0000:3b:02.0"], 4)
    assert not is_proven(job, host.snapshot)
    two = make_vfs(host, function, 2)
    assert is_proven(two, busy.snapshot)


def test_both_directions_of_a_queue_go_to_one_of_the_chosen_cpus() -> None:
    """virtio_net: an interrupt for its configuration, then input and output of each queue in turns.
    One CPU after the other would leave half of them without a receiving queue."""
    config = {
        "actions": ["virtio1-config"],
        "pci_address": "0000:01:00.0",
        "allowed_cpus": "0",
        "effective_cpus": "0",
    }
    host = host_facts({"base": "kvm-guest", "interrupts": {"23": config}})
    link = link_of(host, "enp1s0")
    job = spread_interrupts(host, link, (2, 3))
    cpus = {
        one.number: str(2 + int(name.partition("put.")[2]) % 2)
        for one in host.interrupts_of_function["0000:01:00.0"]
        for name in one.actions
        if "put." in name
    }
    done = actions(job)
    assert len(cpus) == 8 and len(host.interrupts_of_function["0000:01:00.0"]) == 9
    assert done == tuple(
        ("write", f"/proc/irq/{number}/smp_affinity_list", cpu) for number, cpu in cpus.items()
    )
    assert len(job.fix.undo) == len(done)
    for wrong in ((), (4,), (-1,), (0, 99)):
        assert "not CPUs" in refusal(spread_interrupts, host, link, wrong), wrong
    assert not is_proven(job, host.snapshot)
    moved = {
        str(number): {"allowed_cpus": cpu, "effective_cpus": cpu} for number, cpu in cpus.items()
    }
    assert is_proven(job, host_facts({"base": "kvm-guest", "interrupts": moved}).snapshot)


def test_interrupts_that_no_name_explains_go_round() -> None:
    plain = host_facts({"base": "kvm-guest"})
    numbers = [one.number for one in plain.interrupts_of_function["0000:01:00.0"]]
    host = host_facts(
        {"base": "kvm-guest", "interrupts": {str(number): {"actions": ["x"]} for number in numbers}}
    )
    done = actions(spread_interrupts(host, link_of(host, "enp1s0"), (2, 3)))
    assert done == tuple(
        ("write", f"/proc/irq/{number}/smp_affinity_list", str(2 + place % 2))
        for place, number in enumerate(numbers)
    )


def test_interrupts_that_the_kernel_assigns_are_refused() -> None:
    """The probe would be refused by the kernel, one write after another."""
    numbers = [
        one.number
        for one in host_facts({"base": "kvm-guest"}).interrupts_of_function["0000:01:00.0"]
    ]
    host = host_facts(
        {"base": "kvm-guest", "interrupts": {str(number): {"movable": False} for number in numbers}}
    )
    with pytest.raises(NictopError, match="does not let its interrupts be moved") as caught:
        spread_interrupts(host, link_of(host, "enp1s0"), (2, 3))
    assert "read-only" in (caught.value.hint or "")


def test_the_affinity_is_made_persistent_without_irqbalance_and_beside_it() -> None:
    for services, titles in (
        ({}, ["Assign them at every boot"]),
        (
            {"irqbalance": 812},
            ["Exclude the interrupts from irqbalance", "Assign them at every boot"],
        ),
    ):
        host = host_facts({"base": "kvm-guest", "services": services})
        job = spread_interrupts(host, link_of(host, "enp1s0"), (2, 3))
        assert len(actions(job)) == 8
        assert [one.title for one in job.lasting] == titles
        assert all(one.persistent and one.commands for one in job.lasting)
        assert ("Exclude them from irqbalance first" in job.fix.note) == bool(services)


# ---------------------------------------------------------------------------- a real NetworkManager


def changing(manager: PrivateNetworkManager) -> LocalSource:
    words = probe_command(sys.executable, "--interval", "0.2", "--eager", "--allow-changes")
    return LocalSource(0.2, command=[*manager.prefix, *words], name="here")


def keep(event: Event, change: ChangeSession) -> None:
    if isinstance(event, Prepared):
        change.apply(twice=True)
    if isinstance(event, ReadBack):
        change.keep()


@needs_networkmanager
async def test_an_address_for_a_nic_that_has_a_made_up_profile() -> None:
    with private_networkmanager("ens4") as manager:
        manager.wait_for(lambda: manager.device_state("ens4") >= 40)
        before = managed_host.read_host_facts(manager)
        job = give_address(before, link_of(before, "ens4"), STATIC)
        assert not is_proven(job, before.snapshot)
        carried = await carry(
            changing(manager),
            keep,
            ChangeSpec("here", actions(job), job.title, keep_within=300.0),
            limits=REAL,
        )
        assert carried.end.outcome == "kept", carried.events
        assert "192.0.2.10/24" in manager.run(["ip", "address", "show", "dev", "ens4"])
        shown = manager.run(
            ["nmcli", "-g", "ipv4.method,ipv4.never-default", "con", "show", "ens4"]
        )
        assert shown.split() == ["manual", "yes"]
        assert is_proven(job, managed_host.read_host_facts(manager).snapshot)


@needs_networkmanager
async def test_a_new_profile_that_is_not_confirmed_is_removed() -> None:
    with private_networkmanager("ens4") as manager:
        manager.wait_for(lambda: manager.device_state("ens4") >= 40)
        before, profiles = managed_host.read_host_facts(manager), manager.profiles()
        job = give_address(before, link_of(before, "ens4"), replace(STATIC, new_profile=True))
        spec = ChangeSpec("here", actions(job), job.title, keep_within=5.0)
        carried = await carry(
            changing(manager),
            lambda event, change: change.apply(twice=True) if isinstance(event, Prepared) else None,
            spec,
            limits=REAL,
        )
        assert carried.end.outcome == "undone", carried.events
        assert manager.profiles() == profiles
        assert "192.0.2.10" not in manager.run(["ip", "address", "show", "dev", "ens4"])


# ---------------------------------------------------------------------------------------------- LED


def test_the_led_of_a_port() -> None:
    host, link = generated()
    job = blink_led(host, link, 10)
    assert actions(job) == (("ethtool", "-p", "ens224", "10"),)
    assert (
        job.title == "blink the port LED of ens224 for 10 s"
        and not job.lasting
        and job.proof is None
    )
    assert refusal(blink_led, host, link, 61) == "the LED can blink for 1 to 60 s"
    assert (
        refusal(blink_led, host, replace(link, device=None), 10)
        == "ens224 is virtual and has no LED"
    )


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (give_address, (AddressRequest("192.0.2.10/24"),)),
        (use_queues, (2,)),
        (set_mtu, (1400,)),
        (blink_led, (10,)),
        (spread_interrupts, ((0,),)),
    ],
)
def test_no_action_says_what_an_unread_nic_has_not(job: Any, words: tuple[Any, ...]) -> None:
    """Of a NIC that only an event has made known, nothing is known to be absent."""
    host, _ = generated()
    new = LinkChange(
        host.inventory.time + 1,
        99,
        gone=False,
        name="ens99",
        operstate="up",
        carrier=True,
        flags=1,
        mtu=1500,
    )
    later = HostFacts(advance(host.snapshot, Line(link_change=new)))
    text = refusal(job, later, link_of(later, "ens99"), *words)
    assert text.endswith(" ens99: only name and state are known, its settings are not read yet")
    vfs = argparse.Namespace(job="vfs", nic="ens99", number=1)
    assert refusal(job_of, vfs, later) == text
