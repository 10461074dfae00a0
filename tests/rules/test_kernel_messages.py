"""Every known kernel message goes the real way: record of /dev/kmsg, selection, device, finding.

`EXPECTED` says for each meaning which rule fires, and how the host must look for that. A meaning
that is only evidence names the rule that shows it. The lines are those of
tests/data/kernel_messages.tsv.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.inventory.machine import message_table
from nictop.probe.inventory.machine.kernel_log import select
from nictop.probe.inventory.machine.message_device import addresses_in, parse_device
from nictop.probe.inventory.machine.message_table import ANY, LOG_DAEMON, PCI, TABLE, UDEV, Known
from nictop.rules import RULES, Finding, diagnose
from tests.support.findings import host_of_case
from tests.support.rule_cases import host_facts, merge_patch

LINES = (Path(__file__).parents[1] / "data" / "kernel_messages.tsv").read_text().splitlines()
BY_TEXT = {(known.driver, known.text): known for known in TABLE}

NOW = 100_000.0
STEP_SECONDS = 200.0
"""Between messages: 12 of them are within an hour."""
PORT, PF, VF = "0000:3a:00.0", "0000:3b:00.0", "0000:3b:10.1"
IOMMU = "0000:00:00.2"
VF_DRIVERS = ("iavf", "igbvf", "ixgbevf")
INTEL, VMWARE = 0x8086, 0x15AD
DOWN = 0x1002
OTHER_CHANNELS = dict.fromkeys(("other", "combined", "max_other", "max_combined"))
REFUSED = "{driver} 0000:3b:00.0: VF 1 attempted to override administratively set MAC address"
REFUSED_OF_ALL = (
    "{driver} 0000:3b:00.0: VF attempting to override administratively set MAC "
    "address, bring down and up"
)

Patch = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """A line of the kernel log, and the NIC that it is about."""

    known: Known
    line: str

    @property
    def driver(self) -> str:
        if self.known.driver not in (ANY, PCI):
            return self.known.driver
        if self.line.startswith("[qed"):
            return "qede"
        first = self.line.partition(" ")[0].rstrip(":")
        return first if first in DRIVERS else "ena" if self.line.startswith("ens5") else "igb"

    @property
    def address(self) -> str:
        """PCI address of the NIC."""
        named = [
            one for one in (*addresses_in(self.line), self.device) if one and one.count(":") == 2
        ]
        return next(
            (one for one in named if one not in (PORT, IOMMU)),
            VF if self.driver in VF_DRIVERS else PF,
        )

    @property
    def device(self) -> str | None:
        """Name of its parent device on its bus."""
        return parse_device(self.line)[0]

    @property
    def name(self) -> str:
        return "ens5" if self.line.startswith("ens5:") else "eth9"


DRIVERS = {known.driver for known in TABLE} - {ANY, PCI}
SAMPLES = [
    Sample(BY_TEXT[driver, text], line) for driver, text, line in (one.split("\t") for one in LINES)
]


# -------------------------------------------------------------------------------------------- hosts


def patched(host: Patch, patch: Patch) -> Patch:
    whole: Patch = merge_patch(host, patch)
    return whole


def nic(sample: Sample) -> Patch:
    """A host with that NIC, up and with an address."""
    address, driver = sample.address, sample.driver
    bus = {"virtio_net": "virtio", "hv_netvsc": "vmbus"}.get(driver, "pci")
    link = {
        "bus": bus,
        "device": sample.device if bus != "pci" else address,
        "pci_address": None if bus == "vmbus" else address,
        "address": "02:00:00:00:00:01",
        "permanent_address": "02:00:00:00:00:01",
        "address_assignment": "permanent",
        "addresses": [{"family": "ipv4", "address": "192.0.2.10", "prefix_length": 24}],
        "ethtool": {
            "driver": {"driver": driver, "version": "6.12", "firmware": "", "bus_info": address},
            "settings": {
                "speed": 1000,
                "duplex": "full",
                "autonegotiation": True,
                "port": "tp",
                "transceiver": None,
            },
        },
    }
    bound = {"virtio_net": "virtio-pci", "mlx4_en": "mlx4_core"}.get(driver, driver)
    function = {"driver": bound, "parent": PORT, "enabled": True}
    if driver == "vmxnet3":
        function["vendor_id"] = VMWARE
    pci = {} if bus == "vmbus" else {address: function}
    return {"time": NOW, "pci": pci, "links": {sample.name: link}}


def without_carrier(sample: Sample) -> Patch:
    return patched(nic(sample), {"links": {sample.name: {"carrier": False, "operstate": "down"}}})


def without_netdev(sample: Sample) -> Patch:
    """The driver gave up."""
    return {"time": NOW, "pci": {sample.address: {"parent": PORT}}}


def reserved(sample: Sample) -> Patch:
    """For a guest, which does not have it."""
    function = {"driver": "vfio-pci", "enabled": False, "parent": PORT}
    return {"time": NOW, "pci": {sample.address: function}, "platform": {"iommu_groups": 20}}


def with_guests(sample: Sample) -> Patch:
    """A PF whose four VFs are used by guests."""
    functions = [f"0000:3b:10.{number}" for number in range(4)]
    used = {"driver": "vfio-pci", "enabled": True, "physical_function": sample.address}
    settings = {"spoof_check": True, "trust": False, "link_state": "auto"}
    sriov = {"total_vfs": 8, "num_vfs": 4, "autoprobe": False, "virtual_functions": functions}
    patch = {
        "platform": {"roles": ["hypervisor"], "iommu_groups": 20},
        "pci": {sample.address: {"sriov": sriov}, **dict.fromkeys(functions, used)},
        "links": {
            sample.name: {
                "virtual_functions": [
                    {"number": number, "address": f"02:00:00:00:01:0{number}", **settings}
                    for number in range(4)
                ]
            }
        },
    }
    return patched(nic(sample), patch)


def without_functions(sample: Sample) -> Patch:
    """A PF that has no VFs, because they could not be made."""
    sriov = {"total_vfs": 8, "num_vfs": 0, "autoprobe": True, "virtual_functions": []}
    return patched(nic(sample), {"pci": {sample.address: {"sriov": sriov}}})


def with_few_lanes(sample: Sample) -> Patch:
    return patched(
        nic(sample), {"links": {sample.name: {"ethtool": {"settings": {"speed": 10000}}}}}
    )


def in_a_bridge(sample: Sample) -> Patch:
    return patched(
        nic(sample),
        {
            "links": {
                "br0": {"kind": "bridge", "address": "02:00:00:00:00:a1"},
                sample.name: {"master": "br0"},
            }
        },
    )


def with_strict_filter(sample: Sample) -> Patch:
    """rp_filter drops packets, on one of two NICs."""
    other = {
        "bus": "pci",
        "device": "0000:3c:00.0",
        "pci_address": "0000:3c:00.0",
        "addresses": [{"family": "ipv4", "address": "198.51.100.12", "prefix_length": 24}],
    }
    filters = {
        f"net.ipv4.conf.{name}.rp_filter": value
        for name, value in (("all", 0), ("eth9", 1), ("eth8", 1))
    }
    patch = {
        "links": {"eth8": other},
        "settings": {"sysctl": {**filters, "net.ipv4.conf.all.log_martians": 0}},
        "counters": {
            "start": {"stack": {"IPReversePathFilter": 1000}},
            "per_second": {"stack": {"IPReversePathFilter": 3}},
        },
    }
    return patched(nic(sample), patch)


def with_a_resting_function(sample: Sample) -> Patch:
    """A NIC of Hyper-V whose VF is down."""
    vf = {
        "bus": "pci",
        "device": "7870:00:02.0",
        "pci_address": "7870:00:02.0",
        "master": "eth9",
        "flags": DOWN,
        "carrier": None,
        "operstate": "down",
        "address": "02:00:00:00:00:01",
        "ethtool": {
            "driver": {"driver": "mlx5_core", "version": "", "firmware": "", "bus_info": ""}
        },
    }
    patch = {
        "platform": {"hypervisor": "microsoft", "environment": "hyperv"},
        "links": {"enP30832s1": vf},
    }
    return patched(nic(sample), patch)


def with_one_queue(sample: Sample) -> Patch:
    channels = {"rx": 1, "tx": 1, "max_rx": 8, "max_tx": 8, **OTHER_CHANNELS}
    return patched(nic(sample), {"links": {sample.name: {"ethtool": {"channels": channels}}}})


def with_random_address(sample: Sample) -> Patch:
    return patched(nic(sample), {"links": {sample.name: {"address_assignment": "random"}}})


def with_a_duplicate(sample: Sample) -> Patch:
    twice = {
        "family": "ipv6",
        "address": "2001:db8::a1",
        "prefix_length": 64,
        "flags": ["permanent", "dadfailed"],
    }
    return patched(nic(sample), {"links": {sample.name: {"addresses": [twice]}}})


# ----------------------------------------------------------------------------------------- findings


@dataclass(frozen=True)
class Expectation:
    """What the messages of one meaning lead to."""

    rule: str
    host: Callable[[Sample], Patch] = nic
    number: int = 1
    """How often the message is logged."""
    other_lines: tuple[str, ...] = ()
    """Logged at the same times: the problem that the message explains. With {driver}, {address} and
    {name}."""
    rules: dict[str, str] = field(default_factory=dict)
    """Drivers whose messages lead to another rule."""
    hosts: dict[str, Callable[[Sample], Patch]] = field(default_factory=dict)
    """Drivers whose hosts look different then."""


EXPECTED: dict[str, Expectation] = {
    "transmit_stalled": Expectation("transmit_queue_timed_out"),
    "reset": Expectation("nic_is_reset_repeatedly", number=12),
    "device_gone": Expectation("driver_has_detached_the_nic", without_carrier),
    "probe_failed": Expectation("driver_did_not_start", without_netdev),
    "transceiver_refused": Expectation("transceiver_is_refused", without_carrier),
    "firmware_error": Expectation("nic_firmware_failed"),
    "firmware_missing": Expectation(
        "firmware_was_not_loaded",
        without_netdev,
        hosts=dict.fromkeys(("bnx2", "bnx2x"), without_carrier),
    ),
    "hardware_fault": Expectation("nic_reports_a_hardware_fault"),
    "no_msix": Expectation("nic_has_no_msix"),
    "link_lost": Expectation("carrier_flaps", number=12),
    "vf_reset": Expectation("vf_is_reset_repeatedly", number=12),
    "vf_request_failed": Expectation("vf_request_failed", with_guests),
    "vf_address_refused": Expectation("vf_may_not_change_its_address", with_guests),
    "vf_limit_reached": Expectation("vf_has_no_room_for_more_addresses", with_guests),
    "vf_spoofs": Expectation("vf_sends_foreign_addresses", with_guests),
    "vf_malicious": Expectation("vf_was_stopped_as_malicious", with_guests),
    "vf_setting_failed": Expectation("vf_setting_came_too_early", with_guests),
    "pf_refused": Expectation("port_refuses_a_request"),
    "port_was_down": Expectation("vf_was_made_while_its_port_was_down", without_carrier),
    "no_vf_resources": Expectation("no_address_space_for_virtual_functions", without_functions),
    "pcie_error": Expectation("pcie_link_has_errors", number=12),
    "pcie_bandwidth": Expectation("pcie_bandwidth_is_below_the_port", with_few_lanes),
    "passthrough_failed": Expectation("guest_could_not_get_the_function", reserved),
    "iommu_fault": Expectation("iommu_blocks_the_nic"),
    "path_left": Expectation("virtual_function_is_removed_repeatedly", number=12),
    "rename_failed": Expectation("link_was_not_renamed"),
    "own_address": Expectation("own_frames_come_back", in_a_bridge),
    "martian": Expectation("rp_filter_drops_an_asymmetric_path", with_strict_filter),
    "connections_full": Expectation("connection_table_overflows"),
    "neighbours_full": Expectation("neighbour_table_overflows"),
    "invalid_address": Expectation("mac_address_in_the_nic_is_invalid", with_random_address),
    "memory_locked": Expectation("guest_could_not_get_the_function", reserved),
    "no_bar": Expectation("device_has_no_address_space", without_netdev),
    "no_vf_interrupts": Expectation("no_interrupts_for_virtual_functions", without_functions),
    "rdma_stalled": Expectation("rdma_driver_waits_for_the_firmware"),
    "open_failed": Expectation("driver_cannot_bring_the_link_up", without_carrier),
    # Evidence of a finding that is made for another reason.
    "completions_missed": Expectation(
        "nic_is_reset_repeatedly",
        number=12,
        other_lines=("ena {address} eth9: Trigger reset is on",),
    ),
    "cpu_starved": Expectation(
        "transmit_queue_timed_out",
        other_lines=("NETDEV WATCHDOG: eth9 (igb): transmit queue 0 timed out",),
    ),
    "path_switched": Expectation("traffic_avoids_the_virtual_function", with_a_resting_function),
    "interrupt_type": Expectation("vmxnet3_has_one_queue", with_one_queue),
    "random_address": Expectation(
        "mac_address_in_the_nic_is_invalid",
        with_random_address,
        rules=dict.fromkeys(VF_DRIVERS, "vf_address_is_random"),
    ),
    "duplicate_address": Expectation("address_is_a_duplicate", with_a_duplicate),
}
"""By meaning. `vf_address_set`, `renamed` and `link_opened` have tests of their own."""

NOT_SHOWN = ("pcie_bandwidth",)
"""Meanings of which a rule shows another form than the message."""
WORK_WITH_MSI = ("alx", "e1000e", "tg3")
"""Drivers for which a missing MSI-X is no fault."""


def record(line: str, time: float) -> bytes:
    facility = LOG_DAEMON if line.startswith(UDEV) else 0
    return f"{facility << 3 | 4},1,{int(time * 1e6)},-;{line}\n SUBSYSTEM=net\n".encode()


def findings(host: Patch, lines: Iterable[tuple[float, str]]) -> tuple[Finding, ...]:
    """Of all rules, for a host with these lines in its kernel log."""
    functions = host.get("pci", {})
    addresses = {*functions, *(one["parent"] for one in functions.values() if "parent" in one)}
    messages = select([record(line, time) for time, line in lines], addresses)
    diagnosis = diagnose(
        [host_facts({**host, "messages": [dataclasses.asdict(one) for one in messages]})]
    )
    assert [one for one in diagnosis.skipped if one.reason.startswith("check failed")] == []
    return diagnosis.findings


@pytest.mark.parametrize(
    "sample",
    [one for one in SAMPLES if one.known.meaning in EXPECTED],
    ids=lambda sample: f"{sample.known.meaning}-{sample.known.driver}-{sample.known.text}",
)
def test_a_message_leads_to_a_finding(sample: Sample) -> None:
    expected = EXPECTED[sample.known.meaning]
    rule = expected.rules.get(sample.driver, expected.rule)
    others = [
        one.format(driver=sample.driver, address=sample.address, name=sample.name)
        for one in expected.other_lines
    ]
    times = [NOW - 60 - STEP_SECONDS * number for number in reversed(range(expected.number))]
    host = expected.hosts.get(sample.driver, expected.host)(sample)
    found = findings(host, [(time, line) for time in times for line in (*others, sample.line)])
    fired = [one for one in found if one.rule == rule]
    if sample.known.meaning == "no_msix" and sample.driver in WORK_WITH_MSI:
        assert not fired
        return
    assert fired, [(one.rule, one.subject, one.title) for one in found]
    if sample.known.meaning not in NOT_SHOWN:
        text = " ".join(sample.line.split())[:500]
        assert any(text in one.value for finding in fired for one in finding.evidence)


@pytest.mark.parametrize(
    "sample", [one for one in SAMPLES if one.known.meaning == "vf_address_set"]
)
def test_a_new_address_of_a_function_solves_a_refused_one(sample: Sample) -> None:
    """VF 1 is no longer named; messages of i40e and ice are about all VFs."""
    refused = (NOW - 60, REFUSED_OF_ALL if sample.driver in ("i40e", "ice") else REFUSED)
    lines = [(refused[0], refused[1].format(driver=sample.driver))]
    host = with_guests(sample)
    assert "VF 1" in untrusted(findings(host, lines))
    assert "VF 1" not in untrusted(findings(host, [*lines, (NOW - 30, sample.line)]))
    assert "VF 1" in untrusted(findings(host, [(NOW - 90, sample.line), *lines]))


def untrusted(found: Iterable[Finding]) -> str:
    """The VFs that `vf_may_not_change_its_address` names."""
    named = [one for one in found if one.rule == "vf_may_not_change_its_address"]
    return " ".join(
        one.value for finding in named for one in finding.evidence if one.what == "untrusted VFs"
    )


def test_a_renamed_link_keeps_its_messages() -> None:
    """The name in the message is that of another NIC now."""
    (sample,) = [one for one in SAMPLES if one.known.meaning == "renamed"]
    usb = {"bus": "usb", "device": "2-1:1.0", "pci_address": None}
    host = patched(nic(sample), {"links": {"eth0": usb}})
    hang = (NOW - 60, "NETDEV WATCHDOG: eth0 (igb): transmit queue 0 timed out")
    for lines, subject in (
        ([hang, (NOW - 50, sample.line)], "eth9"),
        ([(NOW - 70, sample.line), hang], "eth0"),
    ):
        stalled = [one for one in findings(host, lines) if one.rule == "transmit_queue_timed_out"]
        assert [one.subject for one in stalled] == [subject]


def test_a_link_that_is_set_down_and_up_does_not_flap() -> None:
    """The driver logs the loss of the carrier, and 8021q that the link was set up again."""
    (sample,) = [one for one in SAMPLES if one.known.meaning == "link_opened"]
    lost = "igb 0000:3b:00.0 eth9: igb: eth9 NIC Link is Down"
    times = [NOW - 60 - STEP_SECONDS * number for number in reversed(range(6))]
    flaps = [(time, lost) for time in times]
    by_hand = [entry for time in times for entry in ((time, lost), (time + 5, sample.line))]
    assert [one.rule for one in findings(nic(sample), flaps)] == ["carrier_flaps"]
    assert findings(nic(sample), by_hand) == ()
    (mixed,) = findings(
        nic(sample), [*by_hand, *((NOW - 40 + number, lost) for number in range(3))]
    )
    assert (mixed.rule, mixed.title) == (
        "carrier_flaps",
        "lost its carrier 3 times in the last hour",
    )


def test_a_link_that_is_set_up_is_logged_only_beside_a_loss() -> None:
    """It is logged at each boot for each NIC, and there is no room for that."""
    line = "8021q: adding VLAN 0 to HW filter on device eth9"
    assert select([record(line, 10.0)], ()) == ()
    lost = "igb 0000:3b:00.0 eth9: igb: eth9 NIC Link is Down"
    assert [one.text for one in select([record(lost, 9.0), record(line, 10.0)], ())] == [lost, line]
    other = lost.replace("eth9", "eth8")
    assert [one.text for one in select([record(other, 9.0), record(line, 10.0)], ())] == [other]


def test_every_meaning_is_expected_somewhere() -> None:
    meanings = set(meanings_in(Path(message_table.__file__).read_text()))
    assert set(EXPECTED) | {"vf_address_set", "renamed", "link_opened"} == meanings
    assert {one.known.meaning for one in SAMPLES} == meanings
    named = {one.rule for one in EXPECTED.values()} | {
        rule for one in EXPECTED.values() for rule in one.rules.values()
    }
    assert named <= set(RULES)


def meanings_in(source: str) -> list[str]:
    """Of the `Literal`, which only type checkers see: the probe has no typing."""
    literal = source.partition("Meaning = Literal[")[2].partition("\n    ]")[0]
    return re.findall(r'^ +"([a-z_]+)",', literal, re.MULTILINE)


def test_a_later_reading_of_the_same_messages_says_the_same() -> None:
    """Times of day, no ages: a finding is read minutes after its host."""
    down = "igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Down"
    messages = [{"time": NOW - seconds, "level": 6, "text": down} for seconds in (900, 600, 300)]
    host = {"base": "spare-nic", "messages": messages}
    wall = 1_800_000_000.0
    earlier = diagnose([host_facts({**host, "time": NOW, "wall": wall})])
    later = diagnose([host_facts({**host, "time": NOW + 90.0, "wall": wall + 90.0})])
    (finding,) = earlier.findings
    assert (finding.rule, finding) == ("carrier_flaps", later.findings[0])
    assert "2027-01-15 07:55:00 UTC" in repr(finding.evidence)


@pytest.mark.parametrize("rule", ["connection_table_overflows", "neighbour_table_overflows"])
def test_a_full_table_may_be_that_of_another_network_namespace(rule: str) -> None:
    """Where that of this one was not read, only a message that does not name it says so."""
    for namespace, is_found in ((0, True), (1, True), (2, False)):
        host = host_of_case("link", rule)
        host["settings"] = host.get("settings", {}) | {"tables": {}}
        spaces = {"network_namespace": namespace, "first_namespace": 1}
        host["hello"] = host.get("hello", {}) | spaces
        found = {finding.rule for finding in diagnose([host_facts(host)]).findings}
        assert (rule in found) is is_found, namespace
