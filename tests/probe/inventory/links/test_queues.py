"""Queues: a captured guest, real multi-queue veth and tap, vmbus directories, and arbitrary
messages."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import json
import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.links import queues
from nictop.probe.inventory.links.queues import (
    parse_mapping,
    parse_napi,
    parse_queue,
    read_channels,
    read_masks,
    read_queues,
)
from nictop.probe.inventory.links.reader import NAMESPACE_DETAIL, read_links
from nictop.probe.inventory.machine.threads import read_threads
from nictop.probe.kernel.netlink import (
    DumpInterrupted,
    NetlinkError,
    NetlinkSocket,
    pack_attribute,
    pack_u32,
)
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import Channel, Link, Napi, Queue, Unreadable
from tests.support.namespaces import Namespace

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_MULTI_QUEUE, IFF_NO_PI = 0x0002, 0x0100, 0x1000
READ = """
import json
from nictop.probe.inventory.links.reader import read_links
from nictop.probe.inventory.links.queues import read_queues
links, failed = read_links()
complete, trouble = read_queues(links)
assert not failed and trouble is None, (failed, trouble)
from nictop.probe.light_dataclasses import field_mapping
print(json.dumps(complete, default=field_mapping))
"""


def link(ifindex: int, name: str, bus: str | None = None, device: str | None = None) -> Link:
    return Link(ifindex, name, 1, 0, "up", True, 1500, bus=bus, device=device)


def inside(namespace: Namespace) -> dict[str, Link]:
    """The links as read inside the namespace, with its own /sys."""
    return {
        link.name: link for link in msgspec.json.decode(namespace.python(READ), type=list[Link])
    }


def numbers(link: Link, direction: str) -> list[int]:
    return [queue.number for queue in link.queues if queue.direction == direction]


@pytest.mark.parametrize(
    ("name", "rx", "tx"),
    [
        ("ens192", 4, 4),
        ("ens224", 2, 1),
        ("ens224v0", 1, 1),
        ("ens224v3", 1, 1),
        ("ens256", 2, 2),
        ("lo", 1, 1),
    ],
)
def test_a_captured_guest(capture: Callable[[str], Path], name: str, rx: int, tx: int) -> None:
    root = capture("queues") / "sys"
    folder = root / "class/net" / name
    found = read_masks(link(int((folder / "ifindex").read_text()), name), {}, str(root))
    assert (numbers(found, "rx"), numbers(found, "tx")) == (list(range(rx)), list(range(tx)))
    assert found.unreadable == {}
    for queue in found.queues:
        files = {
            file.name: file.read_text().strip()
            for file in (folder / f"queues/{queue.direction}-{queue.number}").iterdir()
        }
        assert queue.xps_cpus == files.get("xps_cpus")
        assert queue.xps_receive_queues == files.get("xps_rxqs")
        assert queue.rps_cpus == files.get("rps_cpus")
        assert queue.rps_flow_count == (
            int(files["rps_flow_cnt"]) if queue.direction == "rx" else None
        )


def test_xps_masks_of_virtio_and_of_a_single_queue(capture: Callable[[str], Path]) -> None:
    root = capture("queues") / "sys"
    index = int((root / "class/net/ens256/ifindex").read_text())
    found = read_masks(link(index, "ens256"), {index: {("rx", 0): 8193}}, str(root))
    assert [queue.xps_cpus for queue in found.queues] == [None, None, "3", "c"]
    assert [queue.napi for queue in found.queues] == [8193, None, None, None]
    index = int((root / "class/net/ens224v0/ifindex").read_text())
    assert [
        queue.xps_cpus for queue in read_masks(link(index, "ens224v0"), {}, str(root)).queues
    ] == [None, None]


def test_a_multi_queue_veth_with_masks(namespace: Namespace) -> None:
    queues = ("numrxqueues", "4", "numtxqueues", "4")
    if not namespace.try_link("v0", *queues, "type", "veth", "peer", "name", "v1", *queues):
        pytest.skip("no veth here")
    for device in ("v0", "v1"):
        namespace.run(["ip", "link", "set", device, "up"])
    masks = {
        "rx-1/rps_cpus": "1",
        "rx-3/rps_flow_cnt": "64",
        "tx-0/xps_cpus": "1",
        "tx-2/xps_rxqs": "4",
    }
    for file, value in masks.items():
        namespace.run(["sh", "-c", f"echo {value} > /sys/class/net/v0/queues/{file}"])
    found = inside(namespace)
    v0 = {(queue.direction, queue.number): queue for queue in found["v0"].queues}
    assert list(v0) == [("rx", n) for n in range(4)] + [("tx", n) for n in range(4)]
    assert {
        key for key, queue in v0.items() if int((queue.rps_cpus or "0").replace(",", ""), 16)
    } == {("rx", 1)}
    assert (v0["rx", 1].rps_cpus or "").lstrip("0,") == "1"
    assert [v0["rx", n].rps_flow_count for n in range(4)] == [0, 0, 0, 64]
    assert (v0["tx", 0].xps_cpus or "").lstrip("0,") == "1"
    assert (v0["tx", 2].xps_receive_queues or "").lstrip("0,") == "4"
    assert found["v0"].unreadable == found["v1"].unreadable == {}
    assert numbers(found["lo"], "rx") == numbers(found["lo"], "tx") == [0]


def test_threads_of_threaded_napi(namespace: Namespace) -> None:
    """veth uses NAPI when GRO is on."""
    if not namespace.try_link("v0", "type", "veth", "peer", "name", "v1"):
        pytest.skip("no veth here")
    for device in ("v0", "v1"):
        namespace.run(["ip", "link", "set", device, "up"])
    try:
        namespace.run(["ethtool", "-K", "v0", "gro", "on"])
        namespace.run(["sh", "-c", "echo 1 > /sys/class/net/v0/threaded"])
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("no ethtool, or a kernel without threaded NAPI")
    found = inside(namespace)["v0"]
    if not found.napis:
        pytest.skip("this kernel has no napi-get")
    (napi,) = found.napis
    assert Path(f"/proc/{napi.thread}/comm").read_text() == f"napi/v0-{napi.id}\n"
    kinds = {thread.tid: (thread.name, thread.kind) for thread in read_threads([])[0]}
    assert kinds[napi.thread or 0] == (f"napi/v0-{napi.id}", "napi")


def test_a_multi_queue_tap_has_the_queues_that_are_open(namespace: Namespace) -> None:
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("no /dev/net/tun here")
    namespace.run(["ip", "tuntap", "add", "t0", "mode", "tap", "multi_queue"])
    descriptors = []

    def open_queue() -> int:
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(
            descriptor,
            TUNSETIFF,
            struct.pack("16sH22x", b"t0", IFF_TAP | IFF_MULTI_QUEUE | IFF_NO_PI),
        )
        return descriptor

    try:
        for expected in (1, 2, 3):
            descriptors.append(namespace.call(open_queue))
            tap = inside(namespace)["t0"]
            assert numbers(tap, "rx") == numbers(tap, "tx") == list(range(expected))
        os.close(descriptors.pop())
        assert numbers(inside(namespace)["t0"], "rx") == [0, 1]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def test_queues_from_netlink_with_the_sysfs_of_another_namespace(namespace: Namespace) -> None:
    namespace.try_link(
        "v0", "numrxqueues", "2", "numtxqueues", "2", "type", "veth", "peer", "name", "v1"
    )
    for device in ("v0", "v1"):
        namespace.run(["ip", "link", "set", device, "up"])

    def read() -> dict[str, Link]:
        return {link.name: link for link in read_queues(read_links()[0])[0]}

    found = namespace.call(read)
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 8):
        pytest.skip("queue-get needs Linux 6.8")
    assert found["v0"].unreadable["queues"].reason == "missing"
    assert {(queue.direction, queue.number) for queue in found["v0"].queues} == {
        (direction, number) for direction in ("rx", "tx") for number in range(2)
    }
    assert {queue.rps_cpus for queue in found["v0"].queues} == {None}


def test_this_machine() -> None:
    complete, trouble = read_queues(read_links()[0])
    assert trouble is None
    for found in complete:
        names = sorted(os.listdir(f"/sys/class/net/{found.name}/queues"))
        assert sorted(f"{queue.direction}-{queue.number}" for queue in found.queues) == names
        napis = {napi.id for napi in found.napis}
        assert {queue.napi for queue in found.queues if queue.napi is not None} <= napis


def test_a_link_of_another_namespace_with_the_same_name(tmp_path: Path) -> None:
    folder = tmp_path / "class/net/eth0"
    (folder / "queues/rx-0").mkdir(parents=True)
    (folder / "ifindex").write_text("2\n")
    found = read_masks(link(7, "eth0"), {7: {("tx", 1): None, ("rx", 0): 8200}}, str(tmp_path))
    assert found.queues == (Queue("rx", 0, 8200), Queue("tx", 1))
    assert found.unreadable == {"queues": Unreadable("missing", NAMESPACE_DETAIL)}
    assert read_masks(link(2, "eth0"), {}, str(tmp_path)).queues == (Queue("rx", 0),)


def test_other_directories_and_malformed_files(tmp_path: Path) -> None:
    folder = tmp_path / "class/net/eth0"
    for name in ("rx-10", "rx-9", "tx-0", "rx-", "xx-1", "rx-1x"):
        (folder / "queues" / name).mkdir(parents=True)
    (folder / "ifindex").write_text("2\n")
    (folder / "queues/rx-9/rps_flow_cnt").write_text("many\n")
    found = read_masks(link(2, "eth0"), {}, str(tmp_path))
    assert found.queues == (Queue("rx", 9), Queue("rx", 10), Queue("tx", 0))
    assert found.unreadable["queues"].reason == "malformed"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NetlinkError(errno.ENOENT, "no family"), None),
        (NetlinkError(errno.EOPNOTSUPP, "no such call"), None),
        (NetlinkError(errno.EPERM, "filtered"), "needs_root"),
        (NetlinkError(errno.ETIMEDOUT, "a driver hangs"), "failed"),
    ],
)
def test_errors_of_netlink(
    monkeypatch: pytest.MonkeyPatch, error: OSError, reason: str | None
) -> None:
    def refuse(*_: object, **__: object) -> list[bytes]:
        raise error

    monkeypatch.setattr(NetlinkSocket, "generic", refuse)
    complete, trouble = read_queues(read_links()[0])
    lo = next(link for link in complete if link.name == "lo")
    assert [(queue.direction, queue.number, queue.napi) for queue in lo.queues] == [
        ("rx", 0, None),
        ("tx", 0, None),
    ]
    assert {link.napis for link in complete} == {()}
    assert (trouble.reason if trouble else None) == reason


def test_an_interrupted_dump_is_returned_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    body = bytes(4) + pack_u32(1, 3) + pack_u32(2, 8200)

    def interrupted(*_: object, **__: object) -> list[bytes]:
        raise DumpInterrupted([(30, body)])

    monkeypatch.setattr(NetlinkSocket, "generic", interrupted)
    _, napis, trouble = queues.read_netdev()
    assert napis == {3: [Napi(8200)]}
    assert trouble is not None
    assert "incomplete" in trouble.detail


def test_replies_by_link_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel lists the most recent NAPI instance first."""
    queue_replies = [
        pack_u32(2, link) + pack_u32(1, number) + pack_u32(3, 0) + pack_u32(4, 8000 + number)
        for link in (3, 4)
        for number in (1, 0)
    ]
    napis = [pack_u32(1, 3) + pack_u32(2, number) for number in (8001, 8000)]

    def generic(_: NetlinkSocket, family: str, command: int, *, dump: bool) -> list[bytes]:
        assert (family, dump) == ("netdev", True)
        return {queues.NETDEV_CMD_QUEUE_GET: queue_replies, queues.NETDEV_CMD_NAPI_GET: napis}[
            command
        ]

    monkeypatch.setattr(NetlinkSocket, "generic", generic)
    by_queue: dict[tuple[str, int], int] = {("rx", 0): 8000, ("rx", 1): 8001}
    assert queues.read_netdev() == ({3: by_queue, 4: by_queue}, {3: [Napi(8000), Napi(8001)]}, None)


def test_a_failed_socket_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(NetlinkSocket, "__init__", none_left)
    assert queues.read_netdev() == ({}, {}, Unreadable("failed", "netlink: EMFILE"))


@pytest.mark.parametrize("width", ["=I", "=Q"])
def test_replies_with_four_and_eight_byte_numbers(width: str) -> None:
    def number(kind: int, value: int) -> bytes:
        return pack_attribute(kind, struct.pack(width, value))

    assert parse_queue(number(2, 4) + number(1, 5) + pack_u32(3, 1) + number(4, 8211)) == (
        4,
        "tx",
        5,
        8211,
    )
    assert parse_queue(number(2, 4) + number(1, 0) + pack_u32(3, 0)) == (4, "rx", 0, None)
    assert parse_queue(number(2, 4) + number(1, 0) + pack_u32(3, 2)) is None
    assert parse_queue(number(2, 4) + pack_u32(3, 0)) is None
    every = number(1, 4) + number(2, 8211) + number(3, 41) + number(4, 977)
    assert parse_napi(every) == (4, Napi(8211, irq=41, thread=977))
    assert parse_napi(number(1, 4)) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_replies_or_none(body: bytes) -> None:
    queue, napi = parse_queue(body), parse_napi(body)
    assert queue is None or (queue[1] in ("rx", "tx") and queue[0] >= 0 and queue[2] >= 0)
    assert napi is None or napi[1].id >= 0


GUID = "f8615163-0001-1000-2000-00155d012345"


def test_vmbus_channels_by_number(tmp_path: Path) -> None:
    channels = tmp_path / "bus/vmbus/devices" / GUID / "channels"
    for name, cpu in (("14", "0"), ("21", "5"), ("9", "nowhere"), ("note", "1")):
        (channels / name).mkdir(parents=True)
        (channels / name / "cpu").write_text(cpu + "\n")
    (channels / "14/subchannel_id").write_text("0\n")
    (channels / "9/subchannel_id").write_text("2\n")
    found = read_channels(link(2, "eth0", "vmbus", GUID), str(tmp_path))
    assert found.channels == (Channel(9, None, 2), Channel(14, 0, 0), Channel(21, 5))
    assert found.unreadable["channels"].reason == "malformed"
    assert read_channels(link(2, "eth0", "pci", GUID), str(tmp_path)).channels == ()


def test_channels_of_a_kernel_without_their_directory(tmp_path: Path) -> None:
    folder = tmp_path / "bus/vmbus/devices" / GUID
    folder.mkdir(parents=True)
    (folder / "channel_vp_mapping").write_text("15:1\n14:0\n")
    found = read_channels(link(2, "eth0", "vmbus", GUID), str(tmp_path))
    assert found.channels == (Channel(14, 0), Channel(15, 1))
    assert found.unreadable == {}
    assert read_channels(link(2, "eth0", "vmbus", "gone"), str(tmp_path)) == link(
        2, "eth0", "vmbus", "gone"
    )


@given(st.text())
def test_any_text_can_be_parsed_as_mapping(text: str) -> None:
    assert all(channel.id >= 0 and channel.cpu is not None for channel in parse_mapping(text))


def test_the_record_is_decoded_from_json() -> None:
    whole = dataclasses.replace(
        link(2, "eth0"),
        queues=(Queue("rx", 0, 8200, rps_cpus="ff"),),
        napis=(Napi(8200, 41),),
        channels=(Channel(1, 0),),
    )
    assert msgspec.json.decode(json.dumps(whole, default=field_mapping), type=Link) == whole
