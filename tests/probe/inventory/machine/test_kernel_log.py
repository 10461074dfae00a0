"""Kernel messages: messages of drivers, the ring buffer of this machine, and arbitrary records."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.machine import kernel_log
from nictop.probe.inventory.machine.kernel_log import parse_record, read_kernel_messages, read_records, select
from nictop.probe.records import KernelMessage

PF = "0000:03:00.0"

RELEVANT = [
    f"ixgbe {PF}: not enough MMIO resources for SR-IOV",
    f"igb {PF}: setting MAC 02:00:00:00:00:aa on VF 1",
    f"ice {PF} ens1f0: Setting MAC 02:00:00:00:00:aa on VF 1. VF driver will be reinitialized",
    f"mlx5_core {PF}: 126.016 Gb/s available PCIe bandwidth (8.0 GT/s PCIe x16 link)",
    f"igb {PF}: SR-IOV: bus number out of range",
    f"pci {PF}: 4.000 Gb/s available PCIe bandwidth, limited by 5.0 GT/s PCIe x1 link at 0000:00:1c.1 (capable of "
    "7.876 Gb/s with 8.0 GT/s PCIe x1 link)",
    f"vfio-pci {PF}: Device is ineligible for IOMMU domain attach due to platform RMRR requirement.  Contact your "
    "platform vendor.",
    f"bnx2x {PF}: Direct firmware load for bnx2x/bnx2x-e2-7.13.21.0.fw failed with error -2",
    f'tg3 {PF}: Failed to load firmware "tigon/tg3_tso.bin"',
    f"ice {PF}: The DDP package file was not found or could not be read. Entering Safe Mode",
    f"igb {PF}: VF 2 attempted to override administratively set VLAN tag\\x0aReload the VF driver to resume operations",
    "i40e 0000:08:00.0: VF attempting to override administratively set MAC address, bring down and up the VF interface "
    "to resume normal operation",
    "i40e 0000:08:00.0: Cannot add more MAC addresses, VF is not trusted, switch the VF to trusted to add more "
    "functionality",
    "ice 0000:18:00.0: VF-3 is not trusted, switch the VF to trusted mode, in order to add more VLAN addresses",
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
    "virtio_net virtio2 ens256: TX timeout on queue: 0, sq: output.0, vq: 0x1, name: output.0, 5120 usecs ago",
    f"ixgbe {PF} enp3s0: Detected Tx Unit Hang\\x0a  Tx Queue             <0>",
    "e1000e 0000:00:1f.6 eno1: Detected Hardware Unit Hang:\\x0a  TDH                  <5c>",
    "vmxnet3 0000:01:00.0 ens192: intr type 3, mode 0, 5 vectors allocated",
    "IPv4: martian source 10.0.0.5 from 10.0.0.1, on dev eth1",
    "neighbour: arp_cache: neighbor table overflow!",
    "nf_conntrack: nf_conntrack: table full, dropping packet",
    "nf_conntrack: nf_conntrack: table full in netns 4026531840, dropping packet",
    "br0: received packet on eth1 with own address as source address (addr:52:54:00:00:aa:01, vlan:0)",
    "IPv6: eth0: IPv6 duplicate address fe80::1 used by 52:54:00:00:aa:01 detected!",
]
"""From the kernel's source code and from reports of users."""

IRRELEVANT = [
    "igb 0000:02:00.0: 4 VFs allocated",
    "igb 0000:02:00.0 ens224: igb: ens224 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: RX/TX",
    "ixgbe 0000:03:00.0: PCI INT A: no GSI",
    f"ixgbe {PF}: Multiqueue Enabled: Rx Queue Count = 8, Tx Queue Count = 8 XDP Queue count = 0",
    f"i40e {PF}: fw 9.150.78250 api 1.15 nvm 9.40 firmware version 9.40",
    "pci 0000:05:00.0: 4.000 Gb/s available PCIe bandwidth, limited by 5.0 GT/s PCIe x1 link at 0000:00:1c.1",
    "nouveau 0000:65:00.0: Direct firmware load for nvidia/gp102/gr/sw_nonctx.bin failed with error -2",
    "i915 0000:00:02.0: not enough MMIO resources for SR-IOV",
    "hid-generic 0003:046D:C52B.0001: hiddev96: USB HID v1.11 Device",
    "Out of memory: Killed process 4242 (python3)",
    "audit: type=1400 audit(1.0:2): apparmor=DENIED",
    f"a process says {PF}: not enough MMIO resources for SR-IOV",
]


def record(text: str, *, number: int = 1, priority: int = 4, time: int = 5_000_000) -> bytes:
    return f"{priority},{number},{time},-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:{PF}\n".encode()


@pytest.mark.parametrize("text", RELEVANT)
def test_relevant_messages(text: str) -> None:
    (message,) = select([record(text)], [PF])
    assert message == KernelMessage(5.0, 4, " ".join(text.replace("\\x0a", " ").split()))


@pytest.mark.parametrize("text", IRRELEVANT)
def test_irrelevant_messages(text: str) -> None:
    assert select([record(text)], [PF]) == ()


def test_messages_of_processes_are_ignored() -> None:
    text = "NETDEV WATCHDOG: eth0 (e1000): transmit queue 0 timed out"
    assert len(select([record(text, priority=4)], [])) == 1
    assert select([record(text, priority=12)], []) == ()


def test_the_number_of_messages_per_hint_is_limited() -> None:
    flood = [record(f"IPv4: martian source 10.0.0.{number} from 10.0.0.1, on dev eth1") for number in range(250)]
    other = record("nf_conntrack: nf_conntrack: table full, dropping packet", time=1)
    kept = select([other, *flood], [])
    assert [message.text for message in kept[:2]] == [
        "nf_conntrack: nf_conntrack: table full, dropping packet",
        "IPv4: martian source 10.0.0.210 from 10.0.0.1, on dev eth1",
    ]
    assert len(kept) == 1 + kernel_log.MAX_MESSAGES_PER_HINT
    assert kept[-1].text.startswith("IPv4: martian source 10.0.0.249 ")


def test_the_number_of_messages_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "MAX_MESSAGES", 3)
    texts = ["IPv4: martian source 1", *(f"nf_conntrack: table full, dropping packet {n}" for n in range(3))]
    assert [message.text for message in select(map(record, texts), [])] == texts[1:]


def test_escaped_bytes_and_length() -> None:
    message = parse_record(record("NETDEV WATCHDOG: gr\\xc3\\xb6\\xc3\\x9fe\\x5cx0a\\x1b[31m \\xff" + "x" * 600))
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
    if Path("/proc/sys/kernel/dmesg_restrict").read_text() != "1\n" or not os.path.exists("/dev/kmsg"):
        pytest.skip("every user may read the kernel's messages here")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setresuid(65534, 65534, 65534)
        os.write(writer, json.dumps(read_kernel_messages([]), default=vars).encode())
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
    done = subprocess.run(["dmesg", "--kernel", "--notime"], capture_output=True, text=True, check=True)
    expected = {line for line in (" ".join(line.split())[:500] for line in done.stdout.splitlines()) if line}
    assert len(expected) > 0
    text = "\n".join(found)  # dmesg prints a text of several lines in several lines
    assert {line for line in expected if line not in text} == set()


@given(st.binary(), st.lists(st.text(max_size=20), max_size=3))
def test_any_bytes_are_a_record(data: bytes, addresses: list[str]) -> None:
    message = parse_record(data)
    assert message is None or (len(message.text) <= 500 and 0 <= message.level <= 7 and "\n" not in message.text)
    assert len(select([data], addresses)) <= 1


@given(st.sampled_from(RELEVANT), st.binary(max_size=40))
def test_a_hint_is_found_whatever_follows(text: str, tail: bytes) -> None:
    assert len(select([record(text)[:-1] + b"\n" + tail], [PF])) == 1


@given(st.integers(min_value=0, max_value=7), st.integers(min_value=0, max_value=10**15), st.text())
def test_level_and_time_are_parsed(level: int, time: int, text: str) -> None:
    escaped = "".join(
        character if 32 <= byte < 127 and (character := chr(byte)) != "\\" else f"\\x{byte:02x}"
        for byte in text.encode("utf-8", "replace")
    )
    message = parse_record(record(escaped, priority=level, time=time))
    assert message == KernelMessage(time / 1e6, level, " ".join(text.encode("utf-8", "replace").decode().split())[:500])
