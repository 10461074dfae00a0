"""Kernel messages: messages of drivers, the ring buffer of this machine, and arbitrary records."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.machine import kernel_log
from nictop.probe.inventory.machine.kernel_log import (
    parse_record,
    read_kernel_messages,
    read_records,
    select,
)
from nictop.probe.inventory.machine.message_table import candidates, is_candidate
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import KernelMessage

DATA = Path(__file__).parents[3] / "data"
PF, PORT = "0000:03:00.0", "0000:00:1c.1"
GPU, GPU_PORT = "0000:65:00.0", "0000:64:00.0"

RELEVANT = [
    f"ixgbe {PF}: not enough MMIO resources for SR-IOV",
    f"igb {PF}: setting MAC 02:00:00:00:00:aa on VF 1",
    f"ice {PF} ens1f0: Setting MAC 02:00:00:00:00:aa on VF 1. VF driver will be reinitialized",
    f"mlx5_core {PF}: 126.016 Gb/s available PCIe bandwidth (8.0 GT/s PCIe x16 link)",
    f"igb {PF}: SR-IOV: bus number out of range",
    f"pci {PF}: 4.000 Gb/s available PCIe bandwidth, limited by 5.0 GT/s PCIe x1 link at "
    f"0000:00:1c.1 (capable of "
    "7.876 Gb/s with 8.0 GT/s PCIe x1 link)",
    f"vfio-pci {PF}: Device is ineligible for IOMMU domain attach due to platform RMRR "
    f"requirement.  Contact your "
    "platform vendor.",
    f"bnx2x {PF}: Direct firmware load for bnx2x/bnx2x-e2-7.13.21.0.fw failed with error -2",
    f'tg3 {PF}: Failed to load firmware "tigon/tg3_tso.bin"',
    f"ice {PF}: The DDP package file was not found or could not be read. Entering Safe Mode",
    f"igb {PF}: VF 2 attempted to override administratively set VLAN tag\\x0aReload the VF driver "
    f"to resume operations",
    "i40e 0000:08:00.0: VF attempting to override administratively set MAC address, bring down "
    "and up the VF interface "
    "to resume normal operation",
    "i40e 0000:08:00.0: Cannot add more MAC addresses, VF is not trusted, switch the VF to "
    "trusted to add more "
    "functionality",
    "ice 0000:18:00.0: VF-3 is not trusted, switch the VF to trusted mode, in order to add more "
    "VLAN addresses",
    "iavf 0000:08:02.0: Failed to add MAC filter, error IAVF_ERR_NVM",
    "iavf 0000:08:02.0: Invalid MAC address 00:00:00:00:00:00, using random",
    "igbvf 0000:02:10.0: MAC address not assigned by administrator.",
    "igbvf 0000:02:10.0: Assigning random MAC address.",
    "igbvf 0000:02:10.2: PF still in reset state. Is the PF interface up?",
    f"igb {PF}: Spoof event(s) detected on VF 1",
    f"ixgbe {PF} enp3s0f1: 3 Spoofed packets detected",
    f"i40e {PF}: Malicious Driver Detection event 0x02 on TX queue 4 PF number 0x00 VF number 0x40",
    "hv_netvsc 0022482a-6f5e-0022-482a-6f5e00224 eth0: Data path switched from VF: enP30832s1",
    "NETDEV WATCHDOG: ens160 (vmxnet3): transmit queue 3 timed out",
    "e1000e 0000:00:1f.6 eno1: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 9720 ms",
    "virtio_net virtio2 ens256: TX timeout on queue: 0, sq: output.0, vq: 0x1, name: output.0, "
    "5120 usecs ago",
    f"ixgbe {PF} enp3s0: Detected Tx Unit Hang\\x0a  Tx Queue             <0>",
    "e1000e 0000:00:1f.6 eno1: Detected Hardware Unit Hang:\\x0a  TDH                  <5c>",
    "vmxnet3 0000:01:00.0 ens192: intr type 3, mode 0, 5 vectors allocated",
    "IPv4: martian source 10.0.0.5 from 10.0.0.1, on dev eth1",
    "neighbour: arp_cache: neighbor table overflow!",
    "nf_conntrack: nf_conntrack: table full, dropping packet",
    "nf_conntrack: nf_conntrack: table full in netns 4026531840, dropping packet",
    "br0: received packet on eth1 with own address as source address (addr:52:54:00:00:aa:01, "
    "vlan:0)",
    "IPv6: eth0: IPv6 duplicate address fe80::1 used by 52:54:00:00:aa:01 detected!",
    f"vfio-pci {PF}: Unable to change power state from D3cold to D0, device inaccessible",
    f"pcieport {PORT}: AER: Corrected error received: {PF}",
    f"pcieport {PORT}: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
    f"DMAR: [DMA Read NO_PASID] Request device [{PF[5:]}] fault addr 0xffe00000 [fault reason "
    f"0x06] PTE Read access",
    "r8152 2-1:1.0 enx020000000001: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5010 ms",
]
"""From the kernel's source code and from reports of users."""

IRRELEVANT = [
    "igb 0000:02:00.0: 4 VFs allocated",
    "igb 0000:02:00.0 ens224: igb: ens224 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: "
    "RX/TX",
    "ixgbe 0000:03:00.0: PCI INT A: no GSI",
    f"ixgbe {PF}: Multiqueue Enabled: Rx Queue Count = 8, Tx Queue Count = 8 XDP Queue count = 0",
    f"i40e {PF}: fw 9.150.78250 api 1.15 nvm 9.40 firmware version 9.40",
    "pci 0000:05:00.0: 4.000 Gb/s available PCIe bandwidth, limited by 5.0 GT/s PCIe x1 link at "
    "0000:00:1c.4",
    f"nouveau {GPU}: Direct firmware load for nvidia/gp102/gr/sw_nonctx.bin failed with error -2",
    f"vfio-pci {GPU}: not ready 65535ms after bus reset; giving up",
    f"vfio-pci {GPU}: Unable to change power state from D3cold to D0, device inaccessible",
    f"pcieport {GPU_PORT}: AER: Corrected error received: {GPU}",
    f"pcieport {GPU_PORT}: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver "
    f"ID)",
    f"nouveau {GPU}: AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction "
    f"Layer, (Requester ID)",
    f"pci {GPU}: BAR 1 [mem size 0x10000000 64bit pref]: can't assign; no space",
    f"nouveau: probe of {GPU} failed with error -12",
    "i915 0000:00:02.0: not enough MMIO resources for SR-IOV",
    "hid-generic 0003:046D:C52B.0001: hiddev96: USB HID v1.11 Device",
    "Out of memory: Killed process 4242 (python3)",
    "audit: type=1400 audit(1.0:2): apparmor=DENIED",
    "usb 2-1: reset SuperSpeed USB device number 2 using xhci_hcd",
    f"igb {PF} ens224: renaming",
]
"""Other messages, and messages of the PCI core, of vfio and of the firmware loader about a graphics
card."""


def record(text: str, *, number: int = 1, priority: int = 4, time: int = 5_000_000) -> bytes:
    return f"{priority},{number},{time},-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:{PF}\n".encode()


@pytest.mark.parametrize("text", RELEVANT)
def test_relevant_messages(text: str) -> None:
    (message,) = select([record(text)], [PF, PORT])
    assert message == KernelMessage(5.0, 4, " ".join(text.replace("\\x0a", " ").split()))


@pytest.mark.parametrize("text", IRRELEVANT)
def test_irrelevant_messages(text: str) -> None:
    assert select([record(text)], [PF, PORT]) == ()


@pytest.mark.parametrize("at_once", [1, 3, 10_000])
def test_what_is_looked_for_in_many_records_is_found_as_in_each(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else is in the same part of the log."""
    records = [record(text) for pair in zip(RELEVANT, cycle(IRRELEVANT)) for text in pair]
    expected = [(place, each) for place, each in enumerate(records) if is_candidate(each)]
    assert len(expected) >= len(RELEVANT)
    assert list(candidates(records)) == expected
    monkeypatch.setattr(kernel_log, "RECORDS_AT_ONCE", at_once)
    assert list(kernel_log.numbered_candidates(iter(records))) == expected


def test_messages_of_processes_are_ignored() -> None:
    text = "NETDEV WATCHDOG: eth0 (e1000): transmit queue 0 timed out"
    assert len(select([record(text, priority=4)], [])) == 1
    assert select([record(text, priority=12)], []) == ()


def test_a_message_of_udev_at_boot() -> None:
    """Facility 3; what other services, users and the authentication log there is not of the
    kernel."""
    text = (
        "systemd-udevd[339]: eth0: Failed to rename network interface 2 from 'eth0' to 'ens3': "
        "File exists"
    )
    worker = "(udev-worker)" + text[len("systemd-udevd") :]
    for line in (text, worker):
        assert [one.text for one in select([record(line, priority=3 << 3 | 3)], [])] == [line]
        assert [one.level for one in select([record(line, priority=3 << 3 | 3)], [])] == [3]
        for facility in (1, 2, 4, 5, 10, 16):
            assert select([record(line, priority=facility << 3 | 3)], []) == ()
    other = "systemd[1]: a unit says: NETDEV WATCHDOG: eth0 (e1000): transmit queue 0 timed out"
    assert select([record(other, priority=3 << 3 | 3)], []) == ()


def test_a_port_above_a_nic_counts_and_others_do_not() -> None:
    lines = [
        f"pcieport {port}: PCIe Bus Error: severity=Correctable, type=Physical Layer"
        for port in (PORT, GPU_PORT)
    ]
    assert [one.text for one in select(map(record, lines), [PF, PORT])] == lines[:1]
    assert select(map(record, lines), [PF]) == ()


def test_a_record_of_several_lines_is_one_message() -> None:
    """The kernel escapes the line feeds of a printk."""
    lines = (
        "e1000e 0000:00:1f.6 eth0: Detected Hardware Unit Hang:",
        "  TDH                  <0>",
        "  TDT       <1>",
    )
    (message,) = select([record("\\x0a".join(lines))], [])
    assert message.text == "e1000e 0000:00:1f.6 eth0: Detected Hardware Unit Hang: TDH <0> TDT <1>"


def hang(name: str, number: int) -> bytes:
    """Of a NIC, `number` seconds after the boot."""
    text = f"NETDEV WATCHDOG: {name} (e1000): transmit queue 0 timed out"
    return record(text, number=number, time=number * 1_000_000)


def test_a_flood_about_one_nic_does_not_hide_another() -> None:
    flood = [hang("eth1", number) for number in range(10, 5010)]
    kept = select([hang("eth0", 1), *flood[:9], hang("eth0", 15), *flood[9:]], [])
    assert [one.time for one in kept if "eth0" in one.text] == [1.0, 15.0]
    assert len(kept) == 2 + kernel_log.MAX_MESSAGES_PER_GROUP
    assert kept[-1].time == 5009.0


def test_a_flood_of_one_text_does_not_hide_another_text() -> None:
    flood = [
        record(
            f"IPv4: martian source 10.0.0.{number} from 10.0.0.1, on dev eth1",
            time=number * 1_000_000,
        )
        for number in range(250)
    ]
    other = record("nf_conntrack: nf_conntrack: table full, dropping packet", time=1)
    kept = select([other, *flood], [])
    assert [message.text for message in kept[:2]] == [
        "nf_conntrack: nf_conntrack: table full, dropping packet",
        "IPv4: martian source 10.0.0.210 from 10.0.0.1, on dev eth1",
    ]
    assert len(kept) == 1 + kernel_log.MAX_MESSAGES_PER_GROUP
    assert kept[-1].text.startswith("IPv4: martian source 10.0.0.249 ")


def test_messages_that_are_left_out_are_counted() -> None:
    """The first that is kept says how many there were before it, and since when."""
    kept = select([hang("eth0", 3), *(hang("eth1", number) for number in range(10, 110))], [])
    ((first, *rest),) = [[one for one in kept if "eth1" in one.text]]
    assert (first.omitted, first.omitted_since, first.time) == (
        100 - kernel_log.MAX_MESSAGES_PER_GROUP,
        10.0,
        70.0,
    )
    assert [(one.omitted, one.omitted_since) for one in rest] == [(0, None)] * (
        kernel_log.MAX_MESSAGES_PER_GROUP - 1
    )
    assert [(one.omitted, one.omitted_since) for one in kept if "eth0" in one.text] == [(0, None)]
    exactly = select(
        [hang("eth1", number) for number in range(kernel_log.MAX_MESSAGES_PER_GROUP)], []
    )
    assert len(exactly) == kernel_log.MAX_MESSAGES_PER_GROUP
    assert {one.omitted for one in exactly} == {0}


def test_frequent_messages_give_way_first() -> None:
    """More than 200 messages: rare ones stay complete, the others keep equal shares."""
    records = [hang(f"rare{number}", 1 + number) for number in range(10)]
    records += [
        hang(f"eth{name}", 100 + 10 * number + name) for number in range(60) for name in range(6)
    ]
    kept = select(records, [])
    counts = {name: sum(f"eth{name} " in one.text for one in kept) for name in range(6)}
    assert len(kept) <= kernel_log.MAX_MESSAGES
    assert sum("rare" in one.text for one in kept) == 10
    assert set(counts.values()) == {(kernel_log.MAX_MESSAGES - 10) // 6}
    assert sum(one.omitted for one in kept) + len(kept) == len(records)
    assert [one.time for one in kept] == sorted(one.time for one in kept)


def test_more_devices_than_messages() -> None:
    """Those with the newest messages, one of each."""
    records = [
        hang(f"eth{name}", 1000 * number + name) for number in range(1, 3) for name in range(300)
    ]
    kept = select(records, [])
    assert [one.time for one in kept] == [2000.0 + name for name in range(100, 300)]
    assert {(one.omitted, one.omitted_since is None) for one in kept} == {(1, False)}


@pytest.mark.parametrize("line", (DATA / "kernel_messages.tsv").read_text().splitlines())
def test_every_sample_line_is_a_candidate(line: str) -> None:
    _, _, sample = line.split("\t")
    assert is_candidate(record(sample))
    assert is_candidate(record(sample + " \\x0a  TDH <0>"))


@pytest.mark.parametrize(
    "text",
    [
        "Linux version 6.12.0 (builder@host) (gcc 14.2.0) #1 SMP PREEMPT_DYNAMIC",
        "igb 0000:02:00.0 ens224: igb: ens224 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: "
        "RX/TX",
        "e1000e 0000:00:1f.6 eno1: NIC Link is Up 1000 Mbps Full Duplex, Flow Control: Rx/Tx",
        "mlx5_core 0000:03:00.0: firmware version: 16.35.2000",
        "virtio_net virtio0 ens3: entered promiscuous mode",
        "br0: port 1(ens3) entered forwarding state",
        "audit: type=1400 audit(1.0:2): apparmor=DENIED",
        "EXT4-fs (sda1): mounted filesystem with ordered data mode",
        "device tap0 entered promiscuous mode",
        "IPv6: ADDRCONF(NETDEV_CHANGE): ens3: link becomes ready",
        "vmxnet3 0000:0b:00.0 ens192: NIC Link is Up 10000 Mbps",
        "",
    ],
)
def test_ordinary_messages_are_no_candidates(text: str) -> None:
    assert not is_candidate(record(text))


def test_escaped_bytes_and_length() -> None:
    message = parse_record(
        record("NETDEV WATCHDOG: gr\\xc3\\xb6\\xc3\\x9fe\\x5cx0a\\x1b[31m \\xff" + "x" * 600)
    )
    assert message is not None
    assert message.text.startswith("NETDEV WATCHDOG: größe\\x0a\x1b[31m \ufffdxx")
    assert len(message.text) == 500


def test_reading_ends_at_the_end_of_the_buffer() -> None:
    """A datagram socket returns one record per read and EAGAIN at the end, as /dev/kmsg does."""
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with reader, writer:
        reader.setblocking(False)
        for number in range(3):
            writer.send(record(f"IPv4: martian source {number}", number=number))
        assert len(list(read_records(reader.fileno()))) == 3
        assert list(read_records(reader.fileno())) == []


def test_an_unreadable_or_missing_buffer(tmp_path: Path) -> None:
    found, trouble = read_kernel_messages([], str(tmp_path))
    assert found is None
    assert trouble is not None
    assert trouble.reason == "missing"
    (tmp_path / "kmsg").mkdir()
    found, trouble = read_kernel_messages([], str(tmp_path))
    assert found is None
    assert trouble is not None
    assert trouble.detail == f"{tmp_path}/kmsg: EISDIR"


def test_an_ordinary_user_may_need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can drop privileges")
    if Path("/proc/sys/kernel/dmesg_restrict").read_text() != "1\n" or not os.path.exists(
        "/dev/kmsg"
    ):
        pytest.skip("every user may read the kernel's messages here")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setresuid(65534, 65534, 65534)
        os.write(writer, json.dumps(read_kernel_messages([]), default=field_mapping).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        found, trouble = json.loads(pipe.read())
    assert os.waitpid(child, 0)[1] == 0
    assert found is None
    assert trouble["reason"] == "needs_root"


def test_the_buffer_of_this_machine_agrees_with_dmesg() -> None:
    """Every record of the kernel can be parsed."""
    if shutil.which("dmesg") is None:
        pytest.skip("no dmesg")
    try:
        descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        pytest.skip(f"the kernel's messages cannot be read: {error}")
    try:
        records = list(read_records(descriptor))
    finally:
        os.close(descriptor)
    found = {message.text for message in map(parse_record, records) if message is not None}
    done = subprocess.run(
        ["dmesg", "--kernel", "--notime"], capture_output=True, text=True, check=True
    )
    expected = {
        line for line in (" ".join(line.split())[:500] for line in done.stdout.splitlines()) if line
    }
    assert len(expected) > 0
    text = "\n".join(found)  # dmesg prints a text of several lines in several lines
    assert {line for line in expected if line not in text} == set()


@given(st.binary(), st.lists(st.text(max_size=20), max_size=3))
def test_any_bytes_are_a_record(data: bytes, addresses: list[str]) -> None:
    message = parse_record(data)
    assert message is None or (
        len(message.text) <= 500 and 0 <= message.level <= 7 and "\n" not in message.text
    )
    assert len(select([data], addresses)) <= 1


@given(st.sampled_from(RELEVANT), st.binary(max_size=40))
def test_a_message_is_found_whatever_follows(text: str, tail: bytes) -> None:
    assert len(select([record(text)[:-1] + b"\n" + tail], [PF, PORT])) == 1


@given(st.lists(st.tuples(st.integers(0, 250), st.integers(0, 3)), max_size=400))
def test_every_message_is_kept_or_counted(names: list[tuple[int, int]]) -> None:
    """As long as no device is left out."""
    records = [
        hang(f"eth{name if rare else 0}", number) for number, (name, rare) in enumerate(names)
    ]
    kept = select(records, [])
    devices = {name if rare else 0 for name, rare in names}
    assert len(kept) <= kernel_log.MAX_MESSAGES
    assert [one.time for one in kept] == sorted(one.time for one in kept)
    if len(devices) <= kernel_log.MAX_MESSAGES:
        assert len(kept) + sum(one.omitted for one in kept) == len(records)
        assert {one.text.split()[2] for one in kept} == {f"eth{device}" for device in devices}
    texts = [(one.time, replace(one, omitted=0, omitted_since=None)) for one in kept]
    assert all(parse_record(records[int(time)]) == one for time, one in texts)


@given(st.integers(min_value=0, max_value=7), st.integers(min_value=0, max_value=10**15), st.text())
def test_level_and_time_are_parsed(level: int, time: int, text: str) -> None:
    escaped = "".join(
        character if 32 <= byte < 127 and (character := chr(byte)) != "\\" else f"\\x{byte:02x}"
        for byte in text.encode("utf-8", "replace")
    )
    message = parse_record(record(escaped, priority=level, time=time))
    assert message == KernelMessage(
        time / 1e6, level, " ".join(text.encode("utf-8", "replace").decode().split())[:500]
    )
