"""Forwarding tables: a namespace against ``bridge fdb``, ignored entries, large tables, arbitrary
bytes."""

from __future__ import annotations

import json
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.links import forwarding
from nictop.probe.inventory.links.forwarding import (
    IDLE_TICKS,
    NDA_CACHEINFO,
    NDA_LLADDR,
    NDA_MASTER,
    NDA_VLAN,
    NDMSG,
    NTF_EXT_LEARNED,
    NTF_SELF,
    NTF_STICKY,
    NUD_PERMANENT,
    bridge_ports,
    parse_entry,
    physical_links,
    read_forwarding,
)
from nictop.probe.inventory.pci.functions import read_pci
from nictop.probe.kernel.netlink import (
    HEADER,
    NLMSG_DONE,
    Message,
    NetlinkSocket,
    pack_attribute,
    pack_u32,
)
from nictop.probe.records import ForwardingEntry, Link
from tests.support.namespaces import Namespace

NUD_REACHABLE, NUD_NOARP = 0x02, 0x40
MAC = bytes.fromhex("52540000aa01")
READ = """
import json
from nictop.probe.inventory.links.forwarding import read_forwarding
from nictop.probe.inventory.links.reader import read_links
found, trouble = read_forwarding(read_links()[0], [])
assert trouble is None, trouble
from nictop.probe.light_dataclasses import field_mapping
print(json.dumps(found, default=field_mapping))
"""
READ_AS_PHYSICAL_FUNCTION = """
from dataclasses import replace
from nictop.probe.inventory.links.forwarding import read_forwarding
from nictop.probe.inventory.links.reader import read_links
from nictop.probe.records import PciFunction, Sriov
links = [replace(link, pci_address="0000:03:00.0") if link.name == "pf0" else link for link in read_links()[0]]
function = PciFunction("0000:03:00.0", 0x020000, 0x8086, 0x10C9, None, None, None, sriov=Sriov(7, 0, True, ()))
print(read_forwarding(links, [function]))
"""

READ_AS_VIRTUAL_NIC = """
from dataclasses import replace
from nictop.probe.inventory.links.forwarding import read_forwarding
from nictop.probe.inventory.links.reader import read_links
from nictop.probe.records import DriverInfo, Ethtool
driver = Ethtool(driver=DriverInfo("vmxnet3", "", "", ""))
links = [replace(link, kind=None, ethtool=driver) for link in read_links()[0] if link.name == "nic0"]
print(read_forwarding(links, []))
"""


def message(
    address: bytes = MAC,
    *,
    ifindex: int = 3,
    state: int = 2,
    flags: int = 0,
    family: int = 7,
    more: bytes = b"",
) -> bytes:
    return NDMSG.pack(family, ifindex, state, flags, 0) + pack_attribute(NDA_LLADDR, address) + more


@pytest.mark.parametrize(
    ("state", "flags", "words"),
    [
        (NUD_REACHABLE, 0, ""),
        (NUD_NOARP, 0, "static"),
        (NUD_NOARP, NTF_STICKY, "static sticky"),
        (NUD_REACHABLE, NTF_STICKY, "dynamic sticky"),
        (NUD_REACHABLE, NTF_EXT_LEARNED, "dynamic extern_learn"),
        (NUD_PERMANENT, 0, ""),
        (NUD_NOARP, NTF_SELF, ""),
    ],
)
def test_an_entry_that_a_command_has_set_is_not_learned(state: int, flags: int, words: str) -> None:
    """Its age says nothing of the machine."""
    old = pack_attribute(NDA_CACHEINFO, struct.pack("=IIII", 0, 0, IDLE_TICKS, 0))
    entry = parse_entry(message(state=state, flags=flags, more=old))
    assert entry is not None and entry.set_as == words
    assert entry.idle is (state == NUD_REACHABLE and not flags) or flags == NTF_SELF
    assert entry.is_learned is (not words and state == NUD_REACHABLE)


def link(
    ifindex: int, kind: str | None = None, master: int | None = None, pci: str | None = None
) -> Link:
    return Link(
        ifindex, f"l{ifindex}", 1, 0, "up", True, 1500, kind=kind, master=master, pci_address=pci
    )


def inside(namespace: Namespace) -> list[ForwardingEntry]:
    return msgspec.json.decode(namespace.python(READ), type=list[ForwardingEntry])


def test_a_bridge_in_a_namespace_agrees_with_bridge_fdb(namespace: Namespace) -> None:
    if shutil.which("bridge") is None:
        pytest.skip("no bridge command")
    namespace.disable_ipv6()
    if not namespace.try_link("br0", "type", "bridge"):
        pytest.skip("this kernel has no link of kind bridge")
    namespace.run(["ip", "link", "add", "port0", "type", "veth", "peer", "name", "far0"])
    namespace.run(["ip", "link", "set", "port0", "master", "br0"])
    for entry in (
        "52:54:00:00:aa:01 dev port0 master static",
        "52:54:00:00:aa:02 dev far0 self permanent",
    ):
        namespace.run(["bridge", "fdb", "add", *entry.split()])
    names = {
        one["ifname"]: one["ifindex"] for one in json.loads(namespace.run(["ip", "-j", "link"]))
    }
    found = inside(namespace)
    expected = [
        entry
        for entry in json.loads(namespace.run(["bridge", "-j", "fdb"]))
        if entry["ifname"] == "port0"
        and "self" not in entry["flags"]
        and not int(entry["mac"][:2], 16) & 1
    ]
    assert len(expected) >= 2
    assert {(entry.ifindex, entry.address, entry.master, entry.permanent) for entry in found} == {
        (names["port0"], entry["mac"], names["br0"], entry["state"] == "permanent")
        for entry in expected
    }
    assert {entry.self_entry for entry in found} == {False}
    (static,) = [entry for entry in found if entry.set_as]
    assert static == ForwardingEntry(
        names["port0"], "52:54:00:00:aa:01", False, names["br0"], set_as="static"
    )


def test_the_table_of_a_device_itself(namespace: Namespace) -> None:
    """A link in place of a physical function: its own entries are read, those of other links are
    not."""
    if shutil.which("bridge") is None:
        pytest.skip("no bridge command")
    namespace.disable_ipv6()
    namespace.run(["ip", "link", "add", "pf0", "type", "veth", "peer", "name", "far0"])
    for name in ("pf0", "far0"):
        namespace.run(
            ["bridge", "fdb", "add", "52:54:00:00:aa:02", "dev", name, "self", "permanent"]
        )
    ifindex = namespace.call(lambda: socket.if_nametoindex("pf0"))
    found = namespace.python(READ_AS_PHYSICAL_FUNCTION)
    entry = ForwardingEntry(ifindex, "52:54:00:00:aa:02", True, None, True)
    assert found.strip() == str(((entry,), None))


def test_addresses_of_macvlan_links_in_other_namespaces(namespace: Namespace) -> None:
    """They are in the table of the NIC below, which is the only trace of a container in a namespace
    of its own."""
    namespace.disable_ipv6()
    namespace.run(["ip", "link", "add", "nic0", "type", "veth", "peer", "name", "far0"])
    namespace.run(["ip", "link", "set", "nic0", "up"])
    if not namespace.try_link(
        "link", "nic0", "name", "mv0", "address", "02:42:c0:00:02:02", "type", "macvlan"
    ):
        pytest.skip("this kernel has no link of kind macvlan")
    namespace.run(["ip", "link", "set", "mv0", "up"])
    ifindex = namespace.call(lambda: socket.if_nametoindex("nic0"))
    found = namespace.python(READ_AS_VIRTUAL_NIC)
    assert found.strip() == str(
        ((ForwardingEntry(ifindex, "02:42:c0:00:02:02", True, None, True),), None)
    )


def test_no_request_without_a_port_or_a_physical_function(monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(*_: object) -> None:
        raise AssertionError("a request was sent")

    monkeypatch.setattr(forwarding, "NetlinkSocket", unexpected)
    assert read_forwarding([link(1), link(2, "bridge"), link(3, master=9)], []) == ((), None)


def test_ports_and_physical_functions(capture: Callable[[str], Path]) -> None:
    functions, _ = read_pci(str(capture("guest") / "sys"), lambda wanted: {})
    links = [
        link(2, "bridge"),
        link(3, master=2),
        link(4, "bond"),
        link(5, master=4),
        link(6, pci="0000:02:00.0"),
        link(7, pci="0000:02:10.0"),
        link(8, pci="0000:01:00.0"),
    ]
    assert bridge_ports(links) == {3}
    assert physical_links(links, functions) == {6}


def test_relevant_and_ignored_entries() -> None:
    assert parse_entry(message(more=pack_u32(NDA_MASTER, 2))) == ForwardingEntry(
        3, "52:54:00:00:aa:01", False, 2
    )
    assert parse_entry(message(state=NUD_PERMANENT, flags=NTF_SELF)) == ForwardingEntry(
        3, "52:54:00:00:aa:01", True, None, True
    )
    vlan = pack_attribute(NDA_VLAN, b"\x0a\0")
    assert parse_entry(message(more=vlan)) == ForwardingEntry(
        3, "52:54:00:00:aa:01", False, vlan=10
    )
    for address in (bytes(6), b"\x33\x33\0\0\0\1", b"\xff" * 6, MAC[:5], bytes(20), b""):
        assert parse_entry(message(address)) is None
    for ticks, idle in ((IDLE_TICKS - 1, False), (IDLE_TICKS, True)):
        ages = struct.pack("=HH4I", 20, NDA_CACHEINFO, 10**6, 10**6, ticks, 0)
        entry = parse_entry(message(more=ages))
        assert entry is not None and entry.idle is idle
        entry = parse_entry(message(state=NUD_PERMANENT, more=ages))
        assert entry is not None and not entry.idle
    assert parse_entry(message(more=struct.pack("=HHI", 8, NDA_CACHEINFO, 10**6))) is not None
    assert parse_entry(message(family=2)) is None
    assert parse_entry(message(ifindex=0)) is None


class LargeTable(NetlinkSocket):
    """A kernel with `size` addresses on port 3, more than a test can add to a real one."""

    size = 0

    def dump(
        self,
        message_type: int,
        payload: bytes,
        attempts: int = 3,
        keep: Callable[[bytes, int], bool] | None = None,
    ) -> list[Message]:
        assert keep is not None
        for number in range(self.size):
            body = message(b"\x02" + number.to_bytes(5, "big"))
            data = HEADER.pack(HEADER.size + len(body), 28, 2, 1, 0) + body
            keep(data + HEADER.pack(HEADER.size, NLMSG_DONE, 2, 1, 0), HEADER.size)
        return []


class TableWithVlans(LargeTable):
    """The addresses of three ports with 4094 VLANs each, and a learned address in two VLANs."""

    def dump(
        self,
        message_type: int,
        payload: bytes,
        attempts: int = 3,
        keep: Callable[[bytes, int], bool] | None = None,
    ) -> list[Message]:
        assert keep is not None
        for ifindex in (3, 4, 5):
            for vlan in range(4095):
                more = pack_attribute(NDA_VLAN, vlan.to_bytes(2, "little"))
                self.send(
                    keep,
                    message(
                        bytes([2, 0, 0, 0, 0, ifindex]),
                        ifindex=ifindex,
                        state=NUD_PERMANENT,
                        more=more,
                    ),
                )
        for vlan in (7, 8):
            self.send(
                keep, message(ifindex=3, more=pack_attribute(NDA_VLAN, vlan.to_bytes(2, "little")))
            )
        return []

    def send(self, keep: Callable[[bytes, int], bool], body: bytes) -> None:
        keep(HEADER.pack(HEADER.size + len(body), 28, 2, 1, 0) + body, HEADER.size)


def test_permanent_entries_of_all_vlans_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "NetlinkSocket", TableWithVlans)
    found, trouble = read_forwarding(
        [link(2, "bridge"), *(link(ifindex, master=2) for ifindex in (3, 4, 5))], []
    )
    assert trouble is None
    assert [(entry.ifindex, entry.permanent, entry.vlan) for entry in found] == [
        *((3, True, None), (4, True, None), (5, True, None), (3, False, 7), (3, False, 8))
    ]


@pytest.mark.parametrize(
    ("size", "expected", "is_complete"),
    [(4096, 4096, True), (4097, 4096, False), (9000, 4096, False)],
)
def test_the_number_of_entries_is_limited(
    monkeypatch: pytest.MonkeyPatch, size: int, expected: int, is_complete: bool
) -> None:
    monkeypatch.setattr(forwarding, "NetlinkSocket", LargeTable)
    monkeypatch.setattr(LargeTable, "size", size)
    found, trouble = read_forwarding([link(2, "bridge"), link(3, master=2)], [])
    assert len(found) == expected
    assert (trouble is None) is is_complete


def test_the_length_of_the_dump_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "NetlinkSocket", LargeTable)
    monkeypatch.setattr(LargeTable, "size", 200)
    monkeypatch.setattr(forwarding, "MAX_DUMPED_ENTRIES", 100)
    found, trouble = read_forwarding([link(2, "bridge"), link(4, master=2)], [])
    assert found == ()
    assert trouble is not None
    assert trouble.reason == "failed"


@given(st.binary(max_size=80))
def test_any_bytes_are_an_entry_or_none(payload: bytes) -> None:
    entry = parse_entry(payload)
    assert entry is None or (entry.ifindex > 0 and len(entry.address) == 17)
    whole = parse_entry(NDMSG.pack(socket.AF_BRIDGE, 3, 0, 0, 0) + payload)
    assert whole is None or not int(whole.address[:2], 16) & 1
