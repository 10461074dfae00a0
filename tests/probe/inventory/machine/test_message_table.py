"""The table of kernel messages: a sample line for every entry, no entry in vain, and the wordings
of public reports."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from nictop.probe.inventory.machine.kernel_log import select
from nictop.probe.inventory.machine.message_device import addresses_in, parse_device
from nictop.probe.inventory.machine.message_table import (
    ANY,
    BY_DRIVER,
    MAX_FIRST_WORD_BYTES,
    PCI,
    TABLE,
    UNBOUND,
    Known,
    find_known,
    is_candidate,
)

SAMPLES = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parents[3] / "data" / "kernel_messages.tsv")
    .read_text()
    .splitlines()
]
"""(driver, text, line of the kernel log)"""
MIN_TEXT_CHARS = 5
MAC_ADDRESS = re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b")

ENA = {
    "ena 0000:00:05.0 eth0: The number of lost tx completions is above the threshold (248 > 128). "
    "Reset the device": ("reset"),
    "ens5: The number of lost tx completions is above the threshold (361 > 128). Reset the "
    "device": "reset",
    "ena 0000:00:05.0 ens5: Lost TX completions are above the threshold (156 > 128). Completion "
    "transmission timeout: "
    "5000.": "reset",
    "ena 0000:00:05.0 ens5: Keep alive watchdog timeout.": "reset",
    "ena 0000:00:05.0 ens5: Trigger reset is on": "reset",
    "ena 0000:00:05.0: Device reset completed successfully, Driver info: Elastic Network Adapter "
    "(ENA) v2.4.0g": ("reset"),
    "ena 0000:00:05.0 ens5: Found a Tx that wasn't completed on time, qid 4, index 219.": "completions_missed",
    "ena 0000:00:05.0 ens5: napi handler hasn't been called for a long time but is "
    "scheduled": "cpu_starved",
    "ena 0000:00:05.0 ens5: The ena device didn't send a completion for the admin cmd 11 status "
    "0": "firmware_error",
    "ena 0000:00:05.0 ens5: Failed to get stats. error: -62": "firmware_error",
}
IGC = {
    "igc 0000:0a:00.0 eno1: PCIe link lost, device now detached": "device_gone",
    "igc: Failed to read reg 0xc030!": "device_gone",
    "igc 0000:02:02.0 eth0: NIC Link is Down": "link_lost",
}
MSIX = {
    "ixgbe 0000:00:06.0: Failed to allocate MSI-X interrupts. Err: -22": "no_msix",
    "e1000e 0000:00:00.0 0000:00:00.0 (uninitialized): Failed to initialize MSI-X interrupts.  "
    "Falling back to MSI "
    "interrupts.": "no_msix",
    "e1000e 0000:00:00.0 0000:00:00.0 (uninitialized): Failed to initialize MSI interrupts.  "
    "Falling back to legacy "
    "interrupts.": "no_msix",
}
VIRTUAL_FUNCTIONS = {
    "i40e 0000:c2:00.0: Cannot add more MAC addresses, VF is not trusted, switch the VF to "
    "trusted to add more "
    "functionality": "vf_limit_reached",
    "i40e 0000:3b:00.1: VF is not trusted, switch the VF to trusted to add more "
    "functionality": "vf_limit_reached",
    "i40e 0000:3b:00.1: VF 8 failed opcode 10, retval: -1": "vf_request_failed",
    "i40e 0000:3b:00.1: VF 3 still in reset. Try again.": "vf_setting_failed",
    "ixgbevf 0000:04:1c.0: PF still in reset state.  Is the PF interface up?": "port_was_down",
    "ixgbevf 0000:04:1c.0: Assigning random MAC address": "random_address",
    "ixgbevf 0000:00:04.0: MAC address not assigned by administrator.": "random_address",
    "ixgbe 0000:08:00.1 ens3f1: 2287641 Spoofed packets detected": "vf_spoofs",
    "ixgbe 0000:08:00.1 ens3f1: initiating reset due to lost link with pending Tx work": "reset",
    "ixgbe 0000:08:00.1 ens3f1: Reset adapter": "reset",
    "hv_netvsc 00000000-0000-1000-2000-000000000000 eth0: Data path switched from VF: "
    "vf_eth0": "path_left",
    "hv_netvsc 00000000-0002-1000-2000-000000000002 eth1: renamed from eth2": "renamed",
}
HANGS = dict.fromkeys(
    (
        r"e1000e 0000:00:1f.6 eth0: Detected Hardware Unit Hang:\x0a  TDH                  "
        r"<0>\x0a  TDT           <1>",
        r"igc 0000:02:00.0 eth1: Detected Tx Unit Hang\x0a  Tx Queue             <1>\x0a  TDH     "
        r"             <7>",
        r"ixgbe 0000:01:00.0 eth2: Detected Tx Unit Hang\x0a  Tx Queue             <2>\x0a  TDH, "
        r"TDT   <13a>, <16a>",
        r"igb 0000:09:00.0: Detected Tx Unit Hang\x0a  Tx Queue             <1>\x0a  TDH          "
        r"        <0>",
        "r8125 0000:22:04.0 eth4: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5010 ms",
        "r8125 0000:22:04.0 eth4: rtl_rxtx_empty_cond == 0 (loop: 42, delay: 100).",
        "NETDEV WATCHDOG: eth0 (e1000): transmit queue 0 timed out",
        "NETDEV WATCHDOG: eth0 (ena): transmit queue 3 timed out",
    ),
    "transmit_stalled",
)
PCIE_ERRORS = dict.fromkeys(
    (
        "pcieport 0000:00:1d.0: AER: Corrected error received: 0000:07:00.0",
        "alx 0000:07:00.0: AER: PCIe Bus Error: severity=Corrected, type=Data Link Layer, "
        "(Receiver ID)",
        "pcieport 0000:00:01.0: AER: Correctable error message received from 0000:00:01.0",
        "pcieport 0000:00:01.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, "
        "(Receiver ID)",
        "pcieport 0000:00:1c.5: PCIe Bus Error: severity=Corrected, type=Physical Layer, "
        "id=00e5(Receiver ID)",
        "pcieport 0000:00:1c.5: AER: Corrected error received: id=00e5",
    ),
    "pcie_error",
)
REPORTED = {**ENA, **IGC, **MSIX, **VIRTUAL_FUNCTIONS, **HANGS, **PCIE_ERRORS}
"""Lines of public reports → meaning."""
NOT_NEEDED = (
    # ena writes its statistics before a reset; `ethtool -S` has them.
    *("ena 0000:00:05.0 eth0: tx_timeout: 1", "ena 0000:00:05.0 eth0: wd_expired: 9467"),
    *(
        "ena 0000:00:05.0 eth0: queue_0_tx_cnt: 4137606",
        "ena 0000:00:05.0: ENA device version: 0.10",
    ),
    # igc writes its registers after a lost link.
    *("igc 0000:02:02.0 eth0: Register Dump", "igc 0000:02:02.0 eth0: CTRL            081c0641"),
    # Follows from MSI-X that is missing; `ethtool -l` shows it.
    *("ixgbe 0000:00:06.0: Disabling RSS support", "ixgbe 0000:00:06.0: Disabling SR-IOV support"),
    "ixgbe 0000:00:06.0: Multiqueue Disabled: Rx Queue count = 1, Tx Queue count = 1 XDP Queue "
    "count = 0",
    # Details of an error; aer_dev_correctable has them.
    *(
        "alx 0000:07:00.0: AER:    [ 6] BadTLP",
        "pcieport 0000:00:01.0:    [ 0] RxErr                  (First)",
    ),
    "WARNING: CPU: 0 PID: 0 at net/sched/sch_generic.c:448 dev_watchdog+0x28e/0x2a0",
    "ixgbevf 0000:04:1c.0: Intel(R) 82599 Virtual Function",
)


def record(line: str) -> bytes:
    return f"4,1,5000000,-;{line}\n".encode()


def test_every_entry_has_one_sample_and_every_sample_an_entry() -> None:
    assert Counter(one[:2] for one in SAMPLES) == Counter(
        (known.driver, known.text) for known in TABLE
    )
    assert {len(one) for one in SAMPLES} == {3}


@pytest.mark.parametrize(("driver", "text", "line"), SAMPLES)
def test_a_sample_is_found_as_its_entry(driver: str, text: str, line: str) -> None:
    """And as no other one before it."""
    known = find_known(" ".join(line.split()))
    assert known is not None
    assert (known.driver, known.text) == (driver, text)


def test_texts_are_folded() -> None:
    """As the messages in which they are looked for. Records have other bytes than ASCII escaped."""
    for known in TABLE:
        assert known.text.isascii() and known.text.isprintable() and "\\" not in known.text, (
            known.text
        )
        assert len(known.text) >= MIN_TEXT_CHARS, known.text
        assert "  " not in known.text, known.text
        assert len(known.driver.split()) == 1 and len(known.driver) < MAX_FIRST_WORD_BYTES
        assert known.source


@pytest.mark.parametrize("group", [*BY_DRIVER.values(), UNBOUND], ids=lambda group: group[0].driver)
def test_no_entry_is_covered_by_an_earlier_one(group: tuple[Known, ...]) -> None:
    """It could never match."""
    covered = [
        (first.text, second.text)
        for position, first in enumerate(group)
        for second in group[position + 1 :]
        if first.text in second.text
    ]
    assert covered == []


def test_samples_name_no_real_address() -> None:
    """MAC addresses are local or all zero, names are those of an example."""
    for _, _, line in SAMPLES:
        for address in MAC_ADDRESS.findall(line):
            assert address.startswith(("02:", "00:00:00:00:00:00", "01:00:5e")), line


def test_messages_of_any_device_have_an_address() -> None:
    """Those of the PCI core count only by the address in them."""
    without = [line for driver, _, line in SAMPLES if driver == PCI and not addresses_in(line)]
    assert without == []


def test_a_driver_is_the_first_word_of_its_messages() -> None:
    for driver, _, line in SAMPLES:
        if driver not in (ANY, PCI):
            assert line.split()[0].rstrip(":") == driver, line


@pytest.mark.parametrize(("line", "meaning"), REPORTED.items())
def test_lines_of_public_reports_are_found(line: str, meaning: str) -> None:
    (message,) = select([record(line)], addresses_in(line))
    known = find_known(message.text)
    assert known is not None
    assert known.meaning == meaning
    assert is_candidate(record(line))


@pytest.mark.parametrize("line", NOT_NEEDED)
def test_lines_that_say_nothing_new_are_left_out(line: str) -> None:
    assert select([record(line)], addresses_in(line)) == ()


@pytest.mark.parametrize(
    ("line", "device", "name"),
    [
        ("igc 0000:0a:00.0 eno1: PCIe link lost, device now detached", "0000:0a:00.0", "eno1"),
        ("igb 0000:09:00.0: Detected Tx Unit Hang", "0000:09:00.0", None),
        ("ixgbe 0000:01:00.0: eth2: NIC Link is Down", "0000:01:00.0", None),
        ("e1000e 0000:00:00.0 0000:00:00.0 (uninitialized): Failed to", "0000:00:00.0", None),
        (
            "mlx5_core 0000:03:00.0 (unnamed net_device) (uninitialized): Assigned",
            "0000:03:00.0",
            None,
        ),
        ("NETDEV WATCHDOG: eth0 (e1000): transmit queue 0 timed out", None, "eth0"),
        (
            "r8125 0000:22:04.0 eth4: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out",
            "0000:22:04.0",
            "eth4",
        ),
        ("virtio_net virtio2 ens256: TX timeout on queue: 0", "virtio2", "ens256"),
        (
            "hv_netvsc 0022482a-6f5e-0022-482a-6f5e0022482a eth0: Data path switched",
            "0022482a-6f5e-0022-482a-6f5e0022482a",
            "eth0",
        ),
        ("vif vif-0 eth0: transmit queue", "vif-0", "eth0"),
        ("r8152 2-1.4:1.0 enx020000000001: Tx timeout", "2-1.4:1.0", "enx020000000001"),
        ("macb 1f00100000.ethernet eth0: Link is Down", "1f00100000.ethernet", "eth0"),
        ("mlx4_en: eth9: Tx timeout called on port:1", None, "eth9"),
        ("mlx4_en: 0000:3b:00.0: Port 1: Assigned random MAC address", "0000:3b:00.0", "mlx4_en"),
        ("e1000: eth9 NIC Link is Down", None, "eth9"),
        ("bnx2x: [bnx2x_timer:5810(eth9)]MFW seems hanged", None, "eth9"),
        ("[qede_tx_timeout:594(eth9)]TX timeout on queue 3!", None, "eth9"),
        ("[qed_hw_err_notify:594(sp-0-3b:00.01)]Fan failure", "0000:3b:00.1", None),
        ("ixgbe: probe of 0000:3b:00.0 failed with error -5", "0000:3b:00.0", "ixgbe"),
        ("DMAR: [DMA Read NO_PASID] Request device [3b:00.0] fault addr", "0000:3b:00.0", "DMAR"),
        ("br0: received packet on eth9 with own address as source address", None, "eth9"),
        ("IPv4: martian source 10.0.0.5 from 10.0.0.1, on dev eth9", None, "eth9"),
        ("IPv6: eth9: IPv6 duplicate address fe80::a1 used by", None, "eth9"),
        ("Neighbour table overflow.", None, None),
        ("", None, None),
    ],
)
def test_the_device_of_a_message(line: str, device: str | None, name: str | None) -> None:
    assert parse_device(line) == (device, name)
