"""Values from the kernel to the output, compared with other tools and with a known load."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

import nictop
from nictop.cli.main import main
from nictop.model.queues.map import queue_map
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Inventory, Request
from nictop.report.facts.host import ShowDocument
from nictop.wire.local import LocalSource
from nictop.wire.probe_process import probe_command
from tests.support.lldp_frames import lldp_frame, lldpdu, pvid, send_frame
from tests.support.namespaces import Namespace
from tests.support.probe import TEST_TIMEOUT, wait_until
from tests.support.sources import session_of
from tests.support.tool_output import assert_driver, assert_features, assert_link, assert_settings

FRAME_BYTES = 1000
"""Bytes of a frame as the counters count it, Ethernet header included."""
ETH_P_EXPERIMENTAL = 0x88B5
DEMO = Path(nictop.__file__).parent / "recording" / "demo.nictop"


@pytest.fixture(scope="module")
def inventory() -> Inventory:
    """The JSON of ``nictop show`` about this host."""
    command = [sys.executable, "-m", "nictop", "--interval", "0.1", "show", "--format", "json"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stderr == b""
    shown = msgspec.json.decode(done.stdout, type=ShowDocument).inventory
    assert shown is not None
    return shown


def tool(name: str, *arguments: str) -> str:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return subprocess.run([name, *arguments], capture_output=True, text=True, check=False).stdout


def test_show_agrees_with_ip(inventory: Inventory) -> None:
    by_ip = {entry["ifindex"]: entry for entry in json.loads(tool("ip", "-j", "-s", "-d", "link"))}
    links = {link.ifindex: link for link in inventory.links}
    assert links.keys() == by_ip.keys()
    names = {ifindex: link.name for ifindex, link in links.items()}
    for ifindex, link in links.items():
        assert_link(link, by_ip[ifindex], names, exact_counters=False)


def test_show_agrees_with_ethtool(inventory: Inventory) -> None:
    tool("ethtool", "--version")
    for link in inventory.links:
        assert_driver(link.ethtool, tool("ethtool", "-i", link.name))
        assert_features(link.ethtool, tool("ethtool", "-k", link.name))
        assert_settings(link.ethtool, tool("ethtool", link.name))


def test_show_agrees_with_lspci(inventory: Inventory) -> None:
    functions = {}
    for block in tool("lspci", "-Dnnk").split("\n\n"):
        for entry in re.split(r"\n(?=\S)", block):
            found = re.match(
                r"(\S+) .*\[(02[0-9a-f]{2})\]: .*\[([0-9a-f]{4}):([0-9a-f]{4})\]", entry
            )
            if found:
                driver = re.search(r"Kernel driver in use: (\S+)", entry)
                functions[found[1]] = (*found.groups()[1:], driver[1] if driver else None)
    ours = {
        pci.address: (
            f"{pci.class_code >> 8:04x}",
            f"{pci.vendor_id:04x}",
            f"{pci.device_id:04x}",
            pci.driver,
        )
        for pci in inventory.pci
    }
    assert ours == functions


@pytest.fixture
def pair(namespace: Namespace) -> Iterator[tuple[Namespace, Namespace]]:
    """Two namespaces connected by a veth pair left0 ─ right0, without other traffic: no IPv6, no
    ARP."""
    other = Namespace()
    try:
        for side in (namespace, other):
            side.disable_ipv6()
        namespace.run(
            [
                "ip",
                "link",
                "add",
                "left0",
                "type",
                "veth",
                "peer",
                "name",
                "right0",
                "netns",
                other.name,
            ]
        )
        namespace.run(["ip", "link", "set", "left0", "up"])
        other.run(["ip", "link", "set", "right0", "up"])
        yield namespace, other
    finally:
        other.remove()


def test_the_switch_port_is_found_by_listening(pair: tuple[Namespace, Namespace]) -> None:
    """It ends with the first frame, long before the 35 s are over."""
    left, right = pair
    command = [
        "ip",
        "netns",
        "exec",
        left.name,
        sys.executable,
        "-m",
        "nictop",
        "--interval",
        "0.1",
        "show",
        "--lldp",
    ]
    with subprocess.Popen(
        [*command, "--format", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        wait_until(lambda: "01:80:c2:00:00:0e" in left.run(["ip", "maddr", "show", "dev", "left0"]))
        send_frame(right, "right0", lldp_frame(lldpdu(pvid(10))))
        shown, said = process.communicate(timeout=TEST_TIMEOUT)
    assert process.returncode == 0 and said == b"listening for LLDP, up to 35 s\n"
    ifindex = left.call(lambda: socket.if_nametoindex("left0"))
    (neighbour,) = msgspec.json.decode(shown, type=ShowDocument).lldp[ifindex]
    assert (neighbour.source, neighbour.system_name, neighbour.pvid) == ("listened", "sw1", 10)


def test_a_recording_cannot_listen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--lldp", str(DEMO)]) == 2
    assert "--lldp listens on live hosts" in capsys.readouterr().err


async def test_rates_are_those_of_a_known_load(pair: tuple[Namespace, Namespace]) -> None:
    """Bursts of known size: the sum of rates × seconds of the readings after each is its size.

    A reading may have been on its way, and a burst may take longer than an interval.
    """
    left, right = pair
    frame = (
        b"\xff" * 6 + b"\x02" * 6 + ETH_P_EXPERIMENTAL.to_bytes(2, "big") + bytes(FRAME_BYTES - 14)
    )

    def opened() -> socket.socket:
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        sender.bind(("right0", 0))
        return sender

    source = LocalSource(
        command=[
            "ip",
            "netns",
            "exec",
            left.name,
            *probe_command(sys.executable, "--interval", "0.2"),
        ]
    )
    sender = right.call(opened)
    ifindex = left.call(lambda: socket.if_nametoindex("left0"))
    bursts = [100, 1, 0, 3000, 500]
    sent, packets, received = 0, 0.0, 0.0
    try:
        async for snapshot in readings(source):
            assert snapshot.rates is not None
            rate = snapshot.rates.links[ifindex]
            if rate.rx_bits is None or rate.rx_packets is None:
                continue
            packets += rate.rx_packets * snapshot.rates.elapsed
            received += rate.rx_bits * snapshot.rates.elapsed / 8
            assert packets < sent + 0.01, "more than was ever sent"
            if packets < sent - 0.01:
                continue
            assert received == pytest.approx(sent * FRAME_BYTES, rel=1e-6)
            if not bursts:
                break
            sent, packets, received = bursts.pop(0), 0.0, 0.0
            for _ in range(sent):
                sender.send(frame)
    finally:
        sender.close()
        await source.close()
    assert not bursts and packets == pytest.approx(sent, rel=1e-6)


async def readings(source: LocalSource) -> AsyncIterator[Snapshot]:
    """A snapshot for each pair of counter records, once each."""
    newest = None
    async for snapshot in session_of(source).follow():
        if snapshot.rates is not None and snapshot.rates is not newest:
            newest = snapshot.rates
            yield snapshot


async def test_queues_of_a_multi_queue_veth_and_of_a_tap(namespace: Namespace) -> None:
    """veth counts its queues while NAPI takes the packets: all of a burst is found there. tun
    counts none, and that is said."""
    queues = ("numrxqueues", "2", "numtxqueues", "2")
    namespace.disable_ipv6()
    namespace.run(
        ["ip", "link", "add", "left0", *queues, "type", "veth", "peer", "name", "right0", *queues]
    )
    namespace.run(["ethtool", "-K", "left0", "gro", "on"])
    namespace.run(["ethtool", "-K", "right0", "tso", "off"])
    namespace.run(["ip", "tuntap", "add", "tap0", "mode", "tap", "multi_queue"])
    for name in ("left0", "right0", "tap0"):
        namespace.run(["ip", "link", "set", name, "up"])
    frame = (
        b"\xff" * 6 + b"\x02" * 6 + ETH_P_EXPERIMENTAL.to_bytes(2, "big") + bytes(FRAME_BYTES - 14)
    )
    veth, tap = namespace.call(
        lambda: (socket.if_nametoindex("left0"), socket.if_nametoindex("tap0"))
    )
    command = [
        "ip",
        "netns",
        "exec",
        namespace.name,
        *probe_command(sys.executable, "--interval", "0.2"),
    ]
    source = LocalSource(command=command)
    sender = namespace.call(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    sent, packets, received = 0, 0.0, 0.0
    try:
        sender.bind(("right0", 0))
        await source.request(Request(watch=(veth, tap)))
        async for snapshot in readings(source):
            rates = snapshot.rates
            if (
                snapshot.inventory is None
                or rates is None
                or not (veth in rates.driver and tap in rates.queues)
            ):
                continue
            found = queue_map(snapshot.links[veth], snapshot)
            if sent:
                assert found.total.rx_packets is not None and found.total.rx_bits is not None
                packets += found.total.rx_packets * rates.elapsed
                received += found.total.rx_bits * rates.elapsed / 8
                if packets > sent - 0.01:
                    break
                continue
            sent = 200
            for _ in range(sent):
                sender.send(frame)
    finally:
        sender.close()
        await source.close()
    assert [(row.queue, row.has_rx, row.has_tx) for row in found.rows] == [
        (0, True, True),
        (1, True, True),
    ]
    assert found.rows[0].offered == ("rx_packets", "rx_bits", "rx_drops")
    assert packets == pytest.approx(sent, rel=1e-6)
    assert received == pytest.approx(sent * FRAME_BYTES, rel=0.02), "without Ethernet headers"
    unknown = queue_map(snapshot.links[tap], snapshot)
    assert unknown.total.offered == () and unknown.total.rx_packets is None
