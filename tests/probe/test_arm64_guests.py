"""Guests for arm64 with pages of more than 4 KiB: what a probe said there, against what the kernel
and the tools of the guest said around it (`tests.support.capture_host`), and against the same
readers here.

Numbers of ioctls, system calls and netlink attributes, the size of files below /sys, and the form
of /proc/interrupts (GICv3) are those of the guest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from nictop.model.snapshot import Snapshot, advance
from nictop.probe.counters.cpus import parse_cpu_times
from nictop.probe.counters.softirqs import parse_softirqs, parse_softnet
from nictop.probe.inventory.ethtool.reader import PARTS
from nictop.probe.inventory.machine.interrupts import read_interrupts
from nictop.probe.inventory.machine.platform import read_platform
from nictop.probe.inventory.pci.functions import read_pci
from nictop.probe.inventory.pci.iommu_groups import read_iommu
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Counters, Hello, Inventory, Line, Link, PciFunction
from nictop.rules import diagnose
from nictop.rules.host import HostFacts
from nictop.wire.codec import decode
from tests.probe.inventory.ethtool.test_reader import captured as captured_ethtool
from tests.probe.inventory.links.test_reader import captured_links
from tests.support.tool_output import assert_addresses, assert_driver, assert_ethtool, assert_link

FINDINGS = {
    "arm64-16k": {
        ("driver_cannot_bring_the_link_up", "ens5"),
        ("hypervisor_offers_one_queue", "ens1"),
        ("multiqueue_is_not_used", "ens2"),
        ("nic_is_emulated", "ens4"),
        ("port_refuses_a_request", "ens3v0"),
        ("port_refuses_a_request", "ens3v1"),
        ("vf_keeps_its_old_address", "ens3v1"),
        ("vf_was_made_while_its_port_was_down", "ens3v0"),
        ("vf_was_made_while_its_port_was_down", "ens3v1"),
        ("virtual_functions_are_not_persistent", "0000:03:00.0"),
    },
    "arm64-64k": {
        ("hypervisor_offers_one_queue", "eth0"),
        ("multiqueue_is_not_used", "eth1"),
        ("nic_is_emulated", "eth2"),
        ("nothing_configures_the_nic", "eth3"),
    },
}
"""``ens5`` is a vmxnet3: its driver cannot map its rings with pages of 16 KiB behind an SMMU."""
DRIVERS = {
    "arm64-16k": {"virtio_net", "igb", "igbvf", "e1000e", "vmxnet3"},
    "arm64-64k": {"virtio_net", "igb", "e1000e"},
}
"""Linux offers no VFs of this igb with pages of 64 KiB: their BAR is smaller than a page
(drivers/pci/iov.c: sriov_init); vmxnet3 is not built for them."""
NETWORK_DEVICE_COLUMNS = {"rx_bytes": 0, "rx_packets": 1, "tx_bytes": 8, "tx_packets": 9}
"""Of /proc/net/dev."""
LINK_COLUMNS = {"rx_packets": 0, "tx_packets": 1, "rx_bytes": 2, "tx_bytes": 3}
"""Of `Counters.links`."""
BOTH = ("before", "after")
IDLE_AND_IOWAIT = (3, 4)
"""Columns of /proc/stat that may go back (proc(5))."""


@dataclass(frozen=True)
class Guest:
    name: str
    root: Path
    hello: Hello
    counters: tuple[Counters, ...]
    """The first two, and two after the inventory."""
    inventory: Inventory
    lines: tuple[Line, ...]

    def text(self, path: str) -> str:
        return (self.root / path).read_text()

    @property
    def links(self) -> dict[str, Link]:
        return {link.name: link for link in self.inventory.links}


@pytest.fixture(params=sorted(FINDINGS))
def guest(request: pytest.FixtureRequest, capture: Callable[[str], Path]) -> Guest:
    root = capture(request.param)
    lines = tuple(map(decode, (root / "lines.jsonl").read_bytes().splitlines()))
    (hello,) = [line.hello for line in lines if line.hello]
    (inventory,) = [line.inventory for line in lines if line.inventory]
    counters = tuple(line.counters for line in lines if line.counters)
    assert len(counters) == 4
    return Guest(request.param, root, hello, counters, inventory, lines)


def ethtool_output(guest: Guest, name: str) -> Callable[[str], str]:
    return lambda option: guest.text(f"cmd/ethtool/{name}{option}")


def physical(guest: Guest) -> list[Link]:
    return [link for link in guest.inventory.links if link.device]


def test_machine_and_page_size(guest: Guest) -> None:
    kilobytes = int(guest.name.removeprefix("arm64-").removesuffix("k"))
    assert int(guest.text("cmd/getconf-PAGE_SIZE")) == kilobytes * 1024
    assert guest.hello.machine == guest.text("cmd/uname-m").strip() == "aarch64"
    drivers = {link.ethtool.driver.driver for link in physical(guest) if link.ethtool.driver}
    assert drivers == DRIVERS[guest.name]


def test_a_root_probe_is_held_to_reading(guest: Guest) -> None:
    """Landlock, and the numbers of system calls of arm64 in the filter of seccomp."""
    restriction = guest.inventory.restriction
    assert restriction is not None
    assert restriction.landlock is not None and restriction.landlock >= 1
    assert (restriction.why_no_seccomp, restriction.why_all_capabilities) == ("", "")
    assert restriction.capabilities == ("dac_read_search", "net_admin", "syslog")


def test_nothing_was_unreadable(guest: Guest) -> None:
    inventory = guest.inventory
    assert inventory.unreadable == inventory.platform.unreadable == {}
    assert all(link.unreadable == {} for link in inventory.links)
    assert all(function.unreadable == {} for function in inventory.pci)


def test_links_agree_with_ip(guest: Guest) -> None:
    expected = json.loads(guest.text("cmd/ip-j-s-d-link"))
    names = {link.ifindex: link.name for link in guest.inventory.links}
    for link, entry in zip(guest.inventory.links, expected, strict=True):
        assert_link(link, entry, names, exact_counters=False)
    for entry in json.loads(guest.text("cmd/ip-j-addr")):
        assert_addresses(guest.links[entry["ifname"]].addresses, entry["addr_info"])


def test_links_are_what_their_messages_say_here(guest: Guest) -> None:
    """Byte order and padding of netlink, and the links below /sys."""
    for link, parsed in zip(guest.inventory.links, captured_links(guest.root), strict=True):
        assert parsed.ifindex == link.ifindex
        for field in (
            *("name", "type", "mtu", "kind", "details", "address", "num_tx_queues", "master"),
            *("bus", "device", "pci_address", "virtual_functions", "lower", "alias", "flags"),
        ):
            assert getattr(parsed, field) == getattr(link, field), (link.name, field)


def test_settings_of_virtual_functions(guest: Guest) -> None:
    functions = [one for link in guest.inventory.links for one in link.virtual_functions]
    assert bool(functions) == ("igbvf" in DRIVERS[guest.name])
    if functions:
        first, second = functions
        assert (first.vlan, first.qos, second.trust, second.spoof_check) == (100, 3, True, False)
        assert second.address == "52:54:00:00:03:01"


def test_ethtool_agrees_with_the_command(guest: Guest) -> None:
    for link in physical(guest):
        assert_ethtool(link.ethtool, ethtool_output(guest, link.name))
        assert_driver(link.ethtool, guest.text(f"cmd/ethtool/{link.name}-i"))


def test_ethtool_is_what_its_messages_say_here(guest: Guest) -> None:
    record = captured_ethtool(guest.root)
    for link in physical(guest):
        parsed = record(link.ifindex)
        for part in set(PARTS) - {"pause"}:
            assert getattr(parsed, part) == getattr(link.ethtool, part), (link.name, part)


def as_recorded(function: PciFunction) -> PciFunction:
    """Without what the recorded probes did not read yet."""
    sriov = function.sriov
    if sriov is not None:
        sriov = replace(sriov, has_addresses=None)
    return replace(function, sriov=sriov, sriov_capability=None)


def test_pci_functions_are_what_their_files_say_here(guest: Guest) -> None:
    parsed, trouble = read_pci(str(guest.root / "sys"), lambda wanted: {})
    assert trouble is None
    told = (
        replace(function, vendor_name=None, device_name=None) for function in guest.inventory.pci
    )
    assert tuple(map(as_recorded, parsed)) == tuple(told)
    groups, trouble = read_iommu(parsed, str(guest.root / "sys"))
    assert (groups, trouble) == (guest.inventory.iommu, None)


def test_interrupts_are_what_their_files_say_here(guest: Guest) -> None:
    parsed, trouble = read_interrupts(
        guest.inventory.links,
        guest.inventory.pci,
        str(guest.root / "sys"),
        str(guest.root / "proc"),
    )
    assert trouble is None
    # which ones can be moved depends on the kernel that reads
    assert [replace(one, movable=None) for one in parsed] == [
        replace(one, movable=None) for one in guest.inventory.interrupts
    ]
    lines = interrupt_lines(guest.text("before/interrupts"))
    for interrupt in guest.inventory.interrupts:
        if not interrupt.actions:
            continue
        description = lines[str(interrupt.number)][1]
        assert description.startswith(f"ITS-PCI-MSIX-{interrupt.pci_address} ")
        assert description.endswith(", ".join(interrupt.actions))


def test_platform_is_what_its_files_say_here(guest: Guest) -> None:
    folders = (str(guest.root / name) for name in ("sys", "proc", "etc", "dev"))
    parsed = read_platform(*folders, variables={})
    told = replace(guest.inventory.platform, session_address=None)
    assert replace(parsed, page_bytes=None) == told
    assert (parsed.hypervisor, parsed.online_cpus) == ("qemu", "0-3")


def test_link_counters_lie_between_those_of_proc_net_dev(guest: Guest) -> None:
    before, after = (device_counters(guest.text(f"{when}/net/dev")) for when in ("before", "after"))
    assert set(before) == set(guest.links)
    for counters in guest.counters:
        for name, link in guest.links.items():
            for counter, column in LINK_COLUMNS.items():
                value = counters.links[link.ifindex][column]
                assert before[name][counter] <= value <= after[name][counter], (name, counter)


def test_cpu_counters_lie_between_those_of_proc(guest: Guest) -> None:
    """Ticks, softirqs and softnet of each CPU."""
    for path, field, parse in (
        ("stat", "cpus", parse_cpu_times),
        ("softirqs", "softirqs", parse_softirqs),
        ("net/softnet_stat", "softnet", lambda text: parse_softnet(text, range(4))),
    ):
        before, after = (parse((guest.root / when / path).read_bytes()) for when in BOTH)
        for counters in guest.counters:
            found = getattr(counters, field)
            assert set(found) == set(before) == {0, 1, 2, 3}
            for cpu, values in found.items():
                for column, value in enumerate(values):
                    if field == "cpus" and column in IDLE_AND_IOWAIT:
                        continue
                    assert before[cpu][column] <= value <= after[cpu][column], (field, cpu, column)


def test_interrupt_counts_lie_between_those_of_proc(guest: Guest) -> None:
    """Of the vectors of each NIC, and of the whole table: GICv3, and IPIs by their text."""
    before, after = (interrupt_lines(guest.text(f"{when}/interrupts")) for when in BOTH)
    handlers = {one.number: one.actions for one in guest.inventory.interrupts}
    for counters in guest.counters[2:]:
        assert counters.interrupts
        for number, counts in counters.interrupts.items():
            if str(number) not in before:
                assert not handlers[number]
                continue
            low, high = (lines[str(number)][0] for lines in (before, after))
            for cpu in range(4):
                assert low[cpu] <= counts.get(cpu, 0) <= high[cpu], (number, cpu)
        assert counters.machine is not None
        table = {line.label: line for line in counters.machine}
        assert set(before) - set(table) == set()
        for label, (counts_before, description) in before.items():
            assert table[label].description.split() == description.split()
            for cpu, least in enumerate(counts_before):
                value = table[label].counts.get(-1 if label == "Err" else cpu, 0)
                assert least <= value <= after[label][0][cpu], (label, cpu)


def test_driver_counters_are_those_of_ethtool(guest: Guest) -> None:
    """Names in order; values only grow until the command read them."""
    for link in physical(guest):
        printed = re.findall(r"^ {5}(.*): (\d+)$", guest.text(f"cmd/ethtool/{link.name}-S"), re.M)
        assert link.ethtool.driver_counter_names == tuple(name for name, _ in printed)
        for counters in guest.counters[1:]:
            values = counters.driver[link.ifindex]
            assert len(values) == len(printed)
            for value, (name, later) in zip(values, printed, strict=True):
                assert value <= int(later), (link.name, name)


def test_findings(guest: Guest) -> None:
    snapshot = Snapshot.empty("guest")
    for line in guest.lines:
        snapshot = advance(snapshot, line)
    diagnosis = diagnose([HostFacts(snapshot)])
    assert [one for one in diagnosis.skipped if one.reason.startswith("check failed")] == []
    assert {(one.rule, one.subject) for one in diagnosis.findings} == FINDINGS[guest.name]


def device_counters(text: str) -> dict[str, dict[str, int]]:
    """/proc/net/dev."""
    found = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        values = rest.split()
        found[name.strip()] = {
            counter: int(values[column]) for counter, column in NETWORK_DEVICE_COLUMNS.items()
        }
    return found


def interrupt_lines(text: str) -> dict[str, tuple[tuple[int, ...], str]]:
    """Label → counts per CPU, and the text after them."""
    found = {}
    for line in text.splitlines()[1:]:
        label, _, rest = line.partition(":")
        counts = re.match(r"( +\d+){1,4}", rest)
        assert counts is not None
        numbers = tuple(map(int, counts[0].split()))
        found[label.strip()] = numbers, " ".join(rest[counts.end() :].split())
    return found
