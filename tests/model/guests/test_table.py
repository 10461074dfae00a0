"""Whose each NIC is, and the table of guests: rates as the guest sees them, addresses with their
source, what is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.hosts.guests import running_guests
from nictop.model.columns.guests import COLUMNS, make_row_order, order_rows
from nictop.model.devices.tree import device_tree
from nictop.model.facts.facts import link_facts
from nictop.model.guests.table import (
    GuestRow,
    guest_counts,
    guest_rows,
    hosted_guests,
    matching_rows,
    nic_facts,
    why_guests_are_missing,
)
from nictop.model.snapshot import Snapshot
from nictop.probe.records import HostedGuest, Thread, Unreadable, VirtualFunction
from tests.model.guests.hypervisor import (
    CT,
    LINKS,
    MACVTAP,
    OLD,
    PORT,
    TAP,
    THREADS,
    VETH,
    VF_ADDRESSES,
    WEB1,
    hypervisor,
)


def row(name: str, number: int = 0, snapshot: Snapshot | None = None) -> GuestRow:
    rows = guest_rows(snapshot or hypervisor())
    return next(one for one in rows if (one.guest.name, one.number) == (name, number))


def test_a_network_namespace_is_not_counted_as_a_guest() -> None:
    namespace = replace(WEB1, kind="namespace", name="lab")
    assert guest_counts((WEB1, CT, namespace)) == ("2 guests", "1 network namespace")
    assert guest_counts((WEB1,)) == ("1 guest",)
    assert guest_counts(()) == ()


# ------------------------------------------------------------------------------------------- owners


def test_an_address_that_a_nic_should_have_and_is_not_known_to_have() -> None:
    by = "ipconfig0 in /etc/pve/qemu-server/101.conf"
    for address, is_named in (("192.0.2.5/24", True), ("192.0.2.77/24", False)):
        nic = replace(WEB1.nics[0], assigned=(address,), assigned_by=by)
        guests = (replace(WEB1, nics=(nic,)),)
        (row,) = guest_rows(hypervisor(guests=guests))
        assert (f"should have {address} ({by})" in nic_facts(row)) is is_named
    stopped = replace(WEB1, state="stopped", nics=(replace(nic, link=None),))
    (row,) = guest_rows(hypervisor(guests=(stopped,)))
    assert [tuple(one) for one in row.addresses] == [("192.0.2.77/24", by)]


def test_other_namespaces_of_the_machine_are_no_guests_of_a_namespace() -> None:
    """Of the two ends of a veth neither is in the other; its other end is still named."""
    beside = replace(CT, name="b", kind="namespace")
    first = hypervisor(guests=(beside, WEB1))
    assert first.hello is not None
    first = replace(first, hello=replace(first.hello, network_namespace=1, first_namespace=1))
    assert hosted_guests(first) == (beside, WEB1)
    assert first.hello is not None
    inner = replace(first, hello=replace(first.hello, network_namespace=2, first_namespace=1))
    assert hosted_guests(inner) == (WEB1,)
    owner = inner.owners.of_link(VETH)
    assert owner is not None and owner.text == "namespace b"


def test_owners_of_links_and_functions() -> None:
    owners = hypervisor().owners
    found = {ifindex: owners.of_link(ifindex) for ifindex in (TAP, MACVTAP, VETH, PORT)}
    assert {number: one.text if one else None for number, one in found.items()} == {
        TAP: "VM web1",
        MACVTAP: "VM db1",
        VETH: "container ct1",
        PORT: None,
    }
    used, free = (owners.of_function(address) for address in VF_ADDRESSES)
    assert used is not None and used.text == "VM web1"
    assert free is not None and free.text == "VM old, stopped"
    assert [one.text for one in owners.above(PORT)] == ["container ct1"]


def test_owners_of_virtual_functions() -> None:
    owners, port = hypervisor().owners, LINKS[0]
    found = [owners.of_vf_number(port, number) for number in range(3)]
    assert [one.text if one else None for one in found] == ["VM web1", "VM old, stopped", None]
    of_esxi = owners.of_vf(port, VirtualFunction(5, None, machine="db9"))
    assert of_esxi is not None and of_esxi.text == "VM db9"


def test_older_recordings_know_owners_by_threads() -> None:
    snapshot = hypervisor(guests=None)
    owner = snapshot.owners.of_link(TAP)
    assert owner is not None and (owner.text, owner.nic) == ("VM web1", None)
    assert snapshot.owners.of_function(VF_ADDRESSES[0]) is None


def test_the_tree_and_the_details_name_the_owner() -> None:
    snapshot = hypervisor()
    rows = {one.key: one for one in device_tree(snapshot)}
    assert rows[f"link:{TAP}"].title == "tap101i0 web1"
    vf = rows["vf:0000:02:00.0:0"]
    assert vf.title == "VF 0 02:10.0 web1"
    assert rows["vf:0000:02:00.0:1"].title == "VF 1 02:10.2 old"
    facts = {
        key: {
            fact.label: fact.text for one in link_facts(rows[key], snapshot) for fact in one.facts
        }
        for key in (f"link:{TAP}", "vf:0000:02:00.0:0", "vf:0000:02:00.0:1", f"link:{PORT}")
    }
    tap = facts[f"link:{TAP}"]
    assert tap["Assigned to"] == "VM web1"
    assert tap["NIC there"] == "net0 · virtio-net-pci · bc:24:11:00:00:01"
    assert tap["Queues"] == "2 queue pairs, vhost"
    assert facts["vf:0000:02:00.0:0"]["Assigned to"] == "VM web1"
    assert facts["vf:0000:02:00.0:1"]["Assigned to"] == "VM old, stopped"
    assert facts[f"link:{PORT}"]["Links of"] == "container ct1"


# -------------------------------------------------------------------------------------------- table


def test_rates_are_those_that_the_guest_sees() -> None:
    """What this host sends on a tap or veth the guest receives; macvtap and VF count as the
    guest."""
    tap, vf, macvtap, veth = row("web1"), row("web1", 1), row("db1"), row("ct1")
    assert (tap.rates.rx_bits, tap.rates.tx_bits, tap.rates.drops) == (8000, 16000, 3)
    assert (tap.rates.rx_packets, tap.rates.tx_packets) == (10, 20)
    assert (vf.rates.rx_bits, vf.rates.tx_bits) == (24000, 32000)
    assert (macvtap.rates.rx_bits, macvtap.rates.tx_bits) == (8000, 16000)
    assert (veth.rates.rx_bits, veth.rates.tx_bits) == (8000, 16000)
    assert row("ct1", 1).rates.rx_bits is None


def test_where_a_nic_is_connected() -> None:
    assert (row("web1").connection, row("web1").network) == ("tap101i0", "vmbr0")
    assert row("web1").vlans == "30"
    assert (row("web1", 1).connection, row("web1", 1).vlans) == ("VF 0 of ens1f0", "7")
    assert (row("db1").connection, row("db1").network) == ("macvtap0", "ens1f0")
    assert row("ct1", 1).connection == "macvlan on ens1f0"
    assert (row("old").network, row("old").vlans, row("old").connection) == ("vmbr1", "9", "vmbr1")


def test_addresses_have_their_source() -> None:
    """A lease that has ended is not one; of a stopped guest the neighbour table says nothing."""
    assert row("web1").addresses == (
        ("192.0.2.77", "DHCP lease of libvirt virbr0"),
        ("192.0.2.101", "neighbour table"),
    )
    assert row("ct1").addresses == (
        ("192.0.2.5/24", "its network namespace"),
        ("fe80::1/64", "its network namespace"),
    )
    assert row("db1").addresses == ()
    assert row("old").addresses == ()


def test_the_mac_address_of_a_function_is_that_of_its_pf() -> None:
    assert row("web1", 1).mac == "52:54:00:00:01:01"
    assert row("old", 1).mac is None, "the PF has set none"


def test_cpu_time_of_vcpus_and_vhost() -> None:
    cpu = row("web1").cpu
    assert cpu is not None and (cpu.vcpu, cpu.vhost) == (0.5, 0.25)
    assert row("ct1").cpu is None


def test_facts_in_one_line() -> None:
    assert nic_facts(row("web1")) == (
        "net0: virtio-net-pci bc:24:11:00:00:01 · tap101i0, MTU 1400 on this host · "
        "port fwpr101p0 of vmbr0, VLAN 30 · 2 queue pairs, vhost · 192.0.2.77 (DHCP lease of libvirt virbr0) · "
        "192.0.2.101 (neighbour table)"
    )


@pytest.mark.parametrize(
    ("guest", "mtu", "text"),
    [
        (CT, 1450, "MTU 1450 in the container · "),
        (WEB1, 1450, "MTU 1450 offered to the guest · "),
        (OLD, 1450, "MTU 1450 configured"),
    ],
)
def test_whose_mtu_it_is(guest: HostedGuest, mtu: int, text: str) -> None:
    """That of the end on this host may be another."""
    nic, *others = guest.nics
    changed = replace(guest, nics=(replace(nic, mtu=mtu), *others))
    snapshot = hypervisor(guests=(changed,))
    found = row(guest.name, 0, snapshot)
    facts = nic_facts(found)
    assert text in facts and facts.count("MTU") == 1 + (found.link is not None)
    if found.link is not None:
        assert f" · {found.link.name}, MTU {found.link.mtu} on this host" in facts
        assert (found.mtu, found.guest_mtu) == (found.link.mtu, mtu)
        (tap,) = [one for one in device_tree(snapshot) if one.key == f"link:{found.link.ifindex}"]
        labels = {fact.label: fact.text for one in link_facts(tap, snapshot) for fact in one.facts}
        assert labels["NIC there"].endswith(text.removesuffix(" · "))


def test_one_mtu_of_both_ends_is_said_once() -> None:
    assert " · veth5, MTU 1500 at both ends · " in nic_facts(row("ct1"))


def test_every_column_of_every_row_has_a_text() -> None:
    for one in guest_rows(hypervisor()):
        for column in COLUMNS:
            assert len(column.text(one)) == column.width, column.key
    texts = {column.key: column.text(row("db1")).strip() for column in COLUMNS}
    assert (texts["vhost"], texts["model"], texts["network"]) == ("no", "e1000e", "ens1f0")


def test_order_by_a_column() -> None:
    rows = guest_rows(hypervisor())
    ordered = order_rows(rows, make_row_order(rows, "rx", descending=True))
    assert ordered[0].connection == "VF 0 of ens1f0"
    assert [one.guest.name for one in order_rows(rows, make_row_order(rows, ""))] == [
        one.guest.name for one in rows
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("web1", ["web1", "web1"]),
        ("BC:24:11:00:00:05", ["ct1"]),
        ("vf ens1f0", ["web1", "old", "old"]),
        ("running !qemu", ["ct1", "ct1"]),
        ("", ["ct1", "ct1", "db1", "web1", "web1", "old", "old", "old"]),
        ("nothing", []),
    ],
)
def test_a_filter_finds_words_anywhere(text: str, names: list[str]) -> None:
    found = matching_rows(guest_rows(hypervisor()), text)
    assert sorted(one.guest.name for one in found) == sorted(names)


# -------------------------------------------------------------------------------------- not known


def test_what_is_missing_is_said() -> None:
    assert row("db1").why_no_nics == "needs root: /proc/60/fd: EACCES"
    assert why_guests_are_missing(hypervisor()) is None
    denied = {"guests": Unreadable("needs_root", "/etc/libvirt/qemu: EACCES")}
    assert why_guests_are_missing(hypervisor(unreadable=denied)) == (
        "needs root: /etc/libvirt/qemu: EACCES"
    )
    assert why_guests_are_missing(Snapshot.empty("x")) == "not read yet"
    assert "older" in (why_guests_are_missing(hypervisor(guests=None)) or "")


def test_guests_of_older_recordings_are_those_with_threads() -> None:
    threads = (*THREADS, Thread(80, 80, "kvm", "vm", "db2"), Thread(9, 9, "vhost-1", "vhost", "x"))
    found = hosted_guests(hypervisor(guests=None, threads=threads))
    assert [(one.name, one.vcpus, len(one.nics)) for one in found] == [
        ("db2", None, 0),
        ("web1", 1, 1),
    ]


# ------------------------------------------------------------------------------------------- states


@pytest.mark.parametrize(
    ("changes", "state", "text", "tone"),
    [
        ({}, "running", "", "normal"),
        ({"condition": "paused", "condition_reason": "user"}, "paused", "paused (user)", "warn"),
        ({"condition": "crashed"}, "crashed", "crashed", "warn"),
        ({"condition": "pmsuspended"}, "asleep", "asleep", "warn"),
        ({"lock": "backup"}, "running", "locked: backup", "normal"),
        ({"state": "stopped", "condition": "saved", "lock": "suspended"}, "saved",
            "saved, locked: suspended", "dim"),
    ],
)  # fmt: skip
def test_what_is_known_besides_that_it_runs(
    changes: dict[str, str], state: str, text: str, tone: str
) -> None:
    guest = replace(WEB1, **changes)  # type: ignore[arg-type]
    found = row("web1", snapshot=hypervisor(guests=(guest,)))
    assert (found.state, found.condition_text) == (state, text)
    column = next(one for one in COLUMNS if one.key == "state")
    assert column.value(found) == (state, tone)
    assert (matching_rows([found], state) == (found,)) is True
    assert running_guests([guest]) == (() if tone in ("warn", "dim") else (guest,))
