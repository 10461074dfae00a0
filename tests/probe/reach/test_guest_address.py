"""The addresses of a guest, as its hypervisor knows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.reach import guest_address
from nictop.probe.reach.agent_client import AgentGone
from nictop.probe.reach.problem import GuestProblem
from nictop.wire.ssh.source import parse_addresses

ARP = """IP address       HW type     Flags       HW address            Mask     Device
192.0.2.7        0x1         0x2         52:54:00:aa:bb:01     *        virbr0
192.0.2.9        0x1         0x0         52:54:00:aa:bb:01     *        virbr0
192.0.2.8        0x1         0x2         52:54:00:aa:bb:99     *        virbr0
"""
QEMU = (
    *("/usr/bin/qemu-system-x86_64", "-name", "guest=web1,debug-threads=on"),
    *("-device", '{"driver":"virtio-net-pci","netdev":"n0","mac":"52:54:00:AA:BB:01"}'),
    *("-device", "e1000,netdev=n1,mac=52:54:00:aa:bb:02"),
)
PROXMOX = ("/usr/bin/kvm", "-id", "101", "-device", "virtio-net-pci,mac=BC:24:11:00:00:01,id=net0")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A hypervisor with two guests; ``proc``, ``leases``, ``dnsmasq``."""
    for pid, words in ((10, QEMU), (11, PROXMOX)):
        folder = tmp_path / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
        (folder / "exe").symlink_to(words[0])
    (tmp_path / "proc" / "net").mkdir()
    (tmp_path / "proc" / "net" / "arp").write_text(ARP)
    (tmp_path / "leases").mkdir()
    return tmp_path


def addresses(root: Path, name: str, *, asks_agent: bool = False) -> dict[str, str]:
    return guest_address.addresses(
        name,
        asks_agent,
        str(root / "proc"),
        str(root / "leases"),
        str(root / "dnsmasq"),
    )


def test_mac_addresses_of_a_guest_by_its_name_or_number(root: Path) -> None:
    proc = str(root / "proc")
    expected = {"52:54:00:aa:bb:01", "52:54:00:aa:bb:02"}
    assert guest_address.mac_addresses("web1", proc) == expected
    assert guest_address.mac_addresses("101", proc) == {"bc:24:11:00:00:01"}
    assert guest_address.mac_addresses("web", proc) == set()


def test_the_neighbour_table_has_complete_entries(root: Path) -> None:
    assert addresses(root, "web1") == {"192.0.2.7": "neighbour table"}
    assert addresses(root, "101") == {}


@pytest.mark.parametrize("name", ["dnsmasq.leases", "dnsmasq.zone1.leases"])
def test_leases_come_first(root: Path, name: str) -> None:
    """The second file is one of Proxmox SDN."""
    lease = {"ip-address": "192.0.2.50", "mac-address": "52:54:00:AA:bb:02"}
    (root / "leases" / "virbr0.status").write_text(json.dumps([lease, 5, {}]))
    (root / "dnsmasq").mkdir()
    file = root / "dnsmasq" / name
    file.write_text("1 bc:24:11:00:00:01 10.0.0.5 web *\nbad\n")
    assert list(addresses(root, "web1")) == ["192.0.2.50", "192.0.2.7"]
    assert addresses(root, "101") == {"10.0.0.5": "DHCP lease of dnsmasq"}


def test_a_file_that_is_no_list_of_leases(root: Path) -> None:
    for number, text in enumerate(("{", '"x"', "[" * 100_000)):
        (root / "leases" / f"{number}.status").write_text(text)
    assert addresses(root, "web1") == {"192.0.2.7": "neighbour table"}


class Told:
    """An agent that answers with interfaces."""

    def __init__(self, answer: object) -> None:
        self.answer, self.is_closed = answer, False

    def call(self, command: str) -> Any:
        assert command == "guest-network-get-interfaces"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self) -> None:
        self.is_closed = True


INTERFACES = [
    {"name": "lo", "ip-addresses": [{"ip-address": "127.0.0.1"}]},
    {"name": "eth0", "ip-addresses": [{"ip-address": "2001:db8::5"}, {"ip-address": "fe80::1"}]},
    {"name": "eth1", "ip-addresses": [{"ip-address": "192.0.2.66"}, {}, 7]},
    {"name": "eth2"},
    "hostile",
]


def test_the_agent_tells_its_own_addresses(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(INTERFACES)
    monkeypatch.setattr(guest_address, "open_agent", lambda name: told)
    assert addresses(root, "web1", asks_agent=True) == {
        "192.0.2.66": "guest agent",
        "192.0.2.7": "neighbour table",
        "2001:db8::5": "guest agent",
    }
    assert told.is_closed


@pytest.mark.parametrize("answer", [AgentGone("no answer"), GuestProblem("gone"), {}, None])
def test_an_agent_that_tells_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    monkeypatch.setattr(guest_address, "open_agent", lambda name: Told(answer))
    assert list(addresses(root, "web1", asks_agent=True)) == ["192.0.2.7"]


def test_what_a_hypervisor_prints_is_checked() -> None:
    printed = (
        "hello\n192.0.2.7\tneighbour \x1b[31mtable\nfe80::1%eth0\tx\n-oProxyCommand=x\ty\n::1\t"
    )
    assert parse_addresses(printed) == (("192.0.2.7", "neighbour [31mtable"), ("::1", ""))
    assert len(parse_addresses("192.0.2.7\tx\n" * 1000)) == 3
