"""Where a NIC is in its machine, and what of that costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.devices.tree import Row, device_tree, row_of_link
from nictop.model.place import has_place, place_of
from nictop.model.rates.load import ThreadShare
from nictop.model.snapshot import Snapshot, advance
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.model.text.terminal import width
from nictop.probe.records import (
    GuestNic,
    HostedGuest,
    Interrupt,
    Line,
    Link,
    PcieLink,
    PciFunction,
    Queue,
    Thread,
    Unreadable,
)
from nictop.report.place import place_text
from tests.model.hosts import make_pci
from tests.support.captured import captured_lines
from tests.support.lines import counters, hello, inventory, link
from tests.support.rule_cases import CASES_DIRECTORY, base, host_facts

BASES = sorted(path.stem for path in (CASES_DIRECTORY / "bases").glob("*.json"))
ADDRESS, PORT = "0000:03:00.0", "0000:00:1c.0"
FULL = PcieLink(8.0, 8, 8.0, 8)
NARROW = PcieLink(5.0, 4, 8.0, 8)
NIC = link(2, "ens224", bus="pci", pci_address=ADDRESS, queues=(Queue("rx", 0), Queue("tx", 0)))
FUNCTION = replace(make_pci(ADDRESS), numa_node=0, parent=PORT, parent_link=FULL, link=FULL)


def snapshot_of(
    *functions: PciFunction, links: tuple[Link, ...] = (NIC,), **fields: object
) -> Snapshot:
    line = inventory(*links, time=1.0)
    assert line.inventory is not None
    platform = replace(line.inventory.platform, node_cpus={0: "0-3", 1: "4-7"}, online_cpus="0-7")
    read = replace(line.inventory, platform=platform, pci=functions, **fields)  # type: ignore[arg-type]
    snapshot = advance(Snapshot.empty("vm1"), hello())
    return advance(snapshot, Line(inventory=read))


def text_of(snapshot: Snapshot, nic: Link = NIC, cells: int = 100) -> str:
    row = row_of_link(snapshot.links[nic.ifindex], snapshot)
    return "\n".join(place_text(place_of(row, snapshot), cells))


def interrupt(number: int, cpus: str | None) -> Interrupt:
    name = f"ens224-TxRx-{number}"
    return Interrupt(40 + number, (name,), ADDRESS, effective_cpus=cpus, allowed_cpus=cpus)


def test_it_is_drawn_from_the_machine_to_the_nic() -> None:
    text = text_of(snapshot_of(FUNCTION, interrupts=(interrupt(0, "2"),)))
    assert text.splitlines()[:3] == [
        "machine  2 NUMA nodes",
        "└ NUMA node 0  CPUs 0-3",
        f"  └ root port {PORT}  PCIe 8 GT/s ×8",
    ]
    assert "      └ ▸ens224  up" in text
    assert "1 interrupt  to CPU 2 (node 0)" in text
    assert "▲" not in text


@pytest.mark.parametrize(
    ("functions", "interrupts", "cost"),
    [
        ((replace(FUNCTION, link=NARROW),), (), "slower or narrower than it can be"),
        (
            (FUNCTION, replace(FUNCTION, address="0000:03:00.1")),
            (),
            "shares the port with 1 function",
        ),
        ((FUNCTION,), (interrupt(0, "2"), interrupt(1, "5")), "CPU 5 on another node than the NIC"),
    ],
)
def test_what_costs_is_marked(
    functions: tuple[PciFunction, ...], interrupts: tuple[Interrupt, ...], cost: str
) -> None:
    nic = replace(NIC, queues=tuple(Queue("rx", number) for number in range(2)))
    text = text_of(snapshot_of(*functions, links=(nic,), interrupts=interrupts))
    assert f"▲ {cost}" in text


def test_others_below_the_same_port_are_named_and_those_elsewhere_are_not() -> None:
    beside = replace(FUNCTION, address="0000:03:00.1", device_name="82599")
    elsewhere = replace(FUNCTION, address="0000:05:00.0", parent="0000:00:1d.0")
    other = link(3, "ens225", bus="pci", pci_address="0000:03:00.1")
    text = text_of(snapshot_of(FUNCTION, beside, elsewhere, links=(NIC, other)))
    assert "0000:03:00.1  ens225 · " in text and "0000:05:00.0" not in text


def test_functions_on_the_root_bus_share_no_port() -> None:
    """They have no port above them."""
    first = replace(FUNCTION, parent=None, parent_link=None)
    second = replace(first, address="0000:04:00.0")
    assert "shares" not in text_of(snapshot_of(first, second))


def test_a_vf_is_below_its_physical_function() -> None:
    vf = replace(
        FUNCTION, address="0000:03:10.0", physical_function=ADDRESS, virtual_function=2, link=None
    )
    nic = link(4, "ens224v2", bus="pci", pci_address="0000:03:10.0")
    text = text_of(snapshot_of(FUNCTION, vf, links=(NIC, nic)), nic)
    assert "0000:03:10.0  VF 2 of it" in text and "▸ens224v2" in text
    assert "1 VF  share its link" in text_of(snapshot_of(FUNCTION, vf, links=(NIC, nic)))


def test_a_tap_has_its_guest_and_the_cpus_of_its_threads() -> None:
    tap = link(7, "tap100i0", kind="tun", details={"tun_type": "tap"})
    guest = HostedGuest(
        name="web1", kind="vm", product="qemu", state="running", vcpus=2, nics=(GuestNic(link=7),)
    )
    threads = (
        Thread(1240, 1234, "vhost-1234", "vhost", "web1", (7,)),
        Thread(1241, 1234, "CPU 0/KVM", "vcpu", "web1"),
        Thread(1300, 1299, "CPU 0/KVM", "vcpu", "db1"),
    )
    snapshot = snapshot_of(links=(tap,), guests=(guest,), threads=threads)
    text = text_of(snapshot, tap)
    assert "VM web1  2 vCPUs" in text and "1 vhost thread  1240 · CPU not known yet" in text
    assert "1300" not in text
    row = row_of_link(tap, snapshot)
    assert has_place(row, snapshot) and not has_place(Row("x", "link", 0, "x", link=NIC), snapshot)
    assert ThreadShare(0.0, 0.0, 5).cpu == 5


@pytest.mark.parametrize(("vhost", "cost"), [(5, "CPU 5 on another node than the vCPUs"), (1, "")])
def test_a_vhost_thread_far_from_the_vcpus_is_marked(vhost: int, cost: str) -> None:
    """A tap has no node; what its packets are copied between has."""
    tap = link(7, "tap100i0", kind="tun", details={"tun_type": "tap"})
    guest = HostedGuest(
        name="web1", kind="vm", product="qemu", state="running", vcpus=2, nics=(GuestNic(link=7),)
    )
    threads = (
        Thread(1240, 1234, "vhost-1234", "vhost", "web1", (7,)),
        Thread(1241, 1234, "CPU 0/KVM", "vcpu", "web1"),
    )
    snapshot = snapshot_of(links=(tap,), guests=(guest,), threads=threads)
    for time in (1.0, 2.0):
        snapshot = advance(snapshot, counters(time, {7: (0, 0)}))
    assert snapshot.rates is not None
    shares = {1240: ThreadShare(0.0, 0.0, vhost), 1241: ThreadShare(0.0, 0.0, 2)}
    text = text_of(replace(snapshot, rates=replace(snapshot.rates, threads=shares)), tap)
    assert "ran last on CPU 2 (node 0)" in text
    assert (f"▲ {cost}" in text) if cost else ("▲" not in text)


def test_without_interrupts_it_is_said_that_none_is_known() -> None:
    """Their CPUs are not left out as if they did not matter."""
    assert "interrupts  none known" in text_of(snapshot_of(FUNCTION))
    why = Unreadable("failed", "not readable")
    assert "interrupts  not readable" in text_of(
        snapshot_of(FUNCTION, unreadable={"interrupts": why})
    )
    pending = snapshot_of(FUNCTION, pending=("interrupts",))
    assert "interrupts  not read yet" in text_of(pending)


def test_a_long_name_is_continued_over_the_whole_width() -> None:
    long = replace(FUNCTION, device_name="82599ES 10-Gigabit SFI/SFP+ Network Connection")
    lines = text_of(snapshot_of(long), cells=56).splitlines()
    assert max(map(width, lines)) <= 56
    assert lines[3].endswith("0000:03:00.0  82599ES 10-Gigabit SFI/SFP+")
    assert lines[4].endswith("│ Network Connection · PCIe 8 GT/s ×8")


def test_what_was_not_read_is_said() -> None:
    unread = replace(FUNCTION, numa_node=None, parent=None, link=None)
    text = text_of(snapshot_of(unread, interrupts=(interrupt(0, None),)))
    assert "NUMA node  not reported by firmware" in text
    assert "1 interrupt  CPUs not known" in text


@pytest.mark.parametrize("cells", [40, 78, 198])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("host", BASES)
def test_every_line_fits(host: str, glyphs: Glyphs, cells: int) -> None:
    snapshot = host_facts({"name": "vm1", **base(host)}).snapshot
    for row in device_tree(snapshot):
        lines = place_text(place_of(row, snapshot), cells, glyphs=glyphs)
        assert all(width(line) <= max(cells, 40) for line in lines), lines
        assert glyphs is UNICODE or all(line.isascii() for line in lines)


def test_the_place_of_a_captured_guest() -> None:
    snapshot = Snapshot.empty("vm1")
    for line in captured_lines("igb-vfs-vmxnet3-virtio"):
        snapshot = advance(snapshot, line)
    nic = next(one for one in snapshot.links.values() if one.name == "ens224v1")
    assert text_of(snapshot, nic, 78).splitlines()[-2].strip() == "└ ▸ens224v1  up, 1G full"
