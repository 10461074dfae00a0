"""Whether kernel messages still apply: age of devices from udev's records, usage of tables from
/proc."""

from __future__ import annotations

from pathlib import Path

import pytest

from nictop.probe.inventory.collect import take_inventory
from nictop.probe.inventory.machine import message_states
from nictop.probe.inventory.machine.message_states import (
    BOOT_SECONDS,
    parse_entries,
    parse_first_seen,
    read_tables,
    with_ages,
)
from nictop.probe.records import KernelMessage, Link, PciFunction

RECORD = "S:disk/by-id/x\nI:{}\nE:ID_NET_DRIVER=igbvf\nE:ID_PATH=pci-0000:02:10.1\nG:systemd\n"
ARP_CACHE = """\
entries  allocs   destroys hash_grows lookups  hits     res_failed rcv_probes_mcast rcv_probes_ucast periodic_gc_runs \
forced_gc_runs unresolved_discards table_fulls
000003ff 0000058c 00000530 00000000   00003d93 0000038a 0000002d   00000000         00000000         00000314         \
00000000       00000000            00000007
000003ff 000004f7 00000550 00000001   00003b0a 0000035d 00000022   00000000         00000000         00000000         \
00000000       00000000            00000000
"""
FULL = "nf_conntrack: nf_conntrack: table full, dropping packet"
OVERFLOW = "neighbour: arp_cache: neighbor table overflow!"


def message(text: str) -> KernelMessage:
    return KernelMessage(1000.0, 4, text)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_creation_time_of_links_and_virtual_functions(tmp_path: Path) -> None:
    write(tmp_path / "udev/data/n7", RECORD.format(812_345_678))
    write(tmp_path / "udev/data/+pci:0000:02:10.1", RECORD.format(800_000_000))
    write(tmp_path / "udev/data/+pci:0000:02:00.0", RECORD.format(800_000_000))
    nic = Link(7, "ens224v0", 1, 3, "up", True, 1500, device="0000:02:10.1")
    bridge = Link(8, "br0", 1, 3, "up", True, 1500)
    physical = PciFunction("0000:02:00.0", 0x020000, 0x8086, 0x10C9, None, None, None)
    virtual = PciFunction(
        "0000:02:10.1", 0x020000, 0x8086, 0x10CA, None, None, None, physical_function="0000:02:00.0"
    )
    links, functions = with_ages((nic, bridge), (physical, virtual), [message(FULL)], str(tmp_path))
    assert [one.created for one in links] == [812.345678, None]
    assert [one.created for one in functions] == [None, 800.0]


@pytest.mark.parametrize("is_first", [True, False], ids=["first namespace", "another one"])
def test_udev_knows_links_without_a_device_only_in_its_own_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_first: bool
) -> None:
    """Elsewhere the record of a number is that of another netdev: the kernel tells since when the
    link is there, or nothing does."""
    write(tmp_path / "udev/data/n7", "I:812345678\nE:ID_NET_DRIVER=veth\n")
    monkeypatch.setattr(message_states, "is_first_namespace", lambda _: is_first)
    monkeypatch.setattr(message_states, "read_presence", lambda: {7: 900.0})
    known, unknown = (Link(number, f"v{number}", 1, 3, "up", True, 1500) for number in (7, 8))
    links, _ = with_ages((known, unknown), (), [message(FULL)], str(tmp_path))
    ages = [(one.created, one.present_since) for one in links]
    assert ages == [(812.345678, 0.0) if is_first else (None, 900.0), (None, None)]


def test_a_record_of_another_netdev_has_no_age_for_a_link(tmp_path: Path) -> None:
    """A network namespace that shares /run: the same number, another device."""
    write(tmp_path / "udev/data/n7", RECORD.format(812_345_678))
    other = Link(7, "eth0", 1, 3, "up", True, 1500, device="0000:05:00.0")
    assert with_ages((other,), (), [message(FULL)], str(tmp_path)) == ((other,), ())


def test_devices_found_at_boot_have_no_creation_time(tmp_path: Path) -> None:
    write(tmp_path / "udev/data/n7", RECORD.format(int(BOOT_SECONDS * 1e6)))
    nic = Link(7, "ens224", 1, 3, "up", True, 1500, device="0000:02:10.1")
    assert with_ages((nic,), (), [message(FULL)], str(tmp_path)) == ((nic,), ())


def test_nothing_is_read_without_messages(tmp_path: Path) -> None:
    write(tmp_path / "udev/data/n7", RECORD.format(812_345_678))
    nic = Link(7, "ens224", 1, 3, "up", True, 1500, device="0000:02:00.0")
    assert with_ages((nic,), (), [], str(tmp_path)) == ((nic,), ())
    assert read_tables([], str(tmp_path)) == {}


@pytest.mark.parametrize("text", ["", "E:I=1\n", "I:\n", "I:x\n", "I:0\n"])
def test_a_record_without_a_time(text: str) -> None:
    assert parse_first_seen(text) is None


def test_usage_of_full_tables(tmp_path: Path) -> None:
    write(tmp_path / "sys/net/netfilter/nf_conntrack_count", "65540\n")
    write(tmp_path / "sys/net/netfilter/nf_conntrack_max", "131072\n")
    write(tmp_path / "net/stat/arp_cache", ARP_CACHE)
    write(tmp_path / "sys/net/ipv4/neigh/default/gc_thresh3", "1024\n")
    assert read_tables([message(FULL)], str(tmp_path)) == {"connections": (65540, 131072)}
    assert read_tables([message(OVERFLOW)], str(tmp_path)) == {
        "connections": (65540, 131072),
        "ipv4": (1023, 1024),
    }


def test_connections_are_read_before_the_table_is_full(tmp_path: Path) -> None:
    """A limit of 0 is none."""
    write(tmp_path / "sys/net/netfilter/nf_conntrack_count", "7\n")
    write(tmp_path / "sys/net/netfilter/nf_conntrack_max", "131072\n")
    assert read_tables([], str(tmp_path)) == {"connections": (7, 131072)}
    write(tmp_path / "sys/net/netfilter/nf_conntrack_max", "0\n")
    assert read_tables([], str(tmp_path)) == {}


def test_tables_that_are_not_readable_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "sys/net/ipv4/neigh/default/gc_thresh3", "1024\n")
    assert read_tables([message(OVERFLOW)], str(tmp_path)) == {}


@pytest.mark.parametrize(
    "text", ["", "entries\n", "entries\n\n", "allocs\n12\n", "entries allocs\nzz 1\n"]
)
def test_malformed_statistics(text: str) -> None:
    assert parse_entries(text) is None


def test_inventory_with_ages_and_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "udev/data/n1", RECORD.format(812_345_678))
    monkeypatch.setattr(
        "nictop.probe.inventory.machine.kernel_log.read_kernel_messages",
        lambda *_: ((message(FULL), message(OVERFLOW)), None),
    )
    taken = take_inventory("test", run=str(tmp_path))
    assert taken.messages is not None and len(taken.messages) == 2
    assert set(taken.settings.tables) <= {"connections", "ipv4", "ipv6"} and taken.settings.tables
    assert "messages" not in taken.unreadable
