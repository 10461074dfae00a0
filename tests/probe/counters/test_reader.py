"""Counters: exact for a known load, complete or reported as incomplete, never guessed."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.counters import links as link_counters
from nictop.probe.counters.links import (
    DUMP_SEQUENCE,
    LinkCounterReader,
    LinksIncomplete,
    parse_link_statistics,
    parse_stats,
)
from nictop.probe.counters.on_demand import queues as queue_counters
from nictop.probe.counters.on_demand import vfs as vf_counters
from nictop.probe.counters.on_demand.drivers import ETHTOOL_GSTATS, DriverCounterReader
from nictop.probe.counters.reader import CounterReader
from nictop.probe.counters.sample import Sample, unreadable
from nictop.probe.kernel import if_link, netlink
from nictop.probe.records import LINK_COUNTERS, QUEUE_COUNTERS, VF_COUNTERS, Counters, Unreadable
from nictop.wire.codec import decode
from tests.support.namespaces import ROOT, Namespace
from tests.support.probe import wait_until

NUMBERS = tuple(range(10**15, 10**15 + 25))


@pytest.fixture
def reader() -> Iterator[CounterReader]:
    made = CounterReader()
    yield made
    made.close()


def decoded(sample: Sample) -> Counters:
    counters = decode(json.dumps({"counters": vars(sample)}).encode()).counters
    assert counters is not None
    return counters


# --------------------------------------------------------------------------------------- the record


def test_the_sample_has_the_fields_of_the_record() -> None:
    """The counter loop does not import the records."""
    of_linux = [field.name for field in dataclasses.fields(Counters) if field.name != "waits"]
    assert list(vars(Sample(0.0))) == of_linux
    assert len(LINK_COUNTERS) == link_counters.LINK_COLUMNS
    assert len(QUEUE_COUNTERS) == len(queue_counters.QSTATS_ATTRIBUTES)
    assert len(VF_COUNTERS) == len(if_link.VF_STATS_ATTRIBUTES)


@pytest.mark.parametrize(
    ("error", "reason", "detail"),
    [
        (OSError(errno.EOPNOTSUPP, "no"), "not_offered", "here: EOPNOTSUPP no"),
        (OSError(errno.EPERM, "no"), "needs_root", "here: EPERM no"),
        (OSError(errno.ENOENT, "no"), "missing", "here: ENOENT no"),
        (OSError(errno.ENODEV, "no"), "vanished", "here: ENODEV no"),
        (OSError(errno.EIO, "no"), "failed", "here: EIO no"),
        (ValueError("garbled"), "malformed", "here: garbled"),
    ],
)
def test_failures_are_data(error: Exception, reason: str, detail: str) -> None:
    expected = unreadable(error, "here")
    assert expected == {"reason": reason, "detail": detail}
    sample = Sample(1.0)
    sample.fail("links", error, "here")
    assert decoded(sample).unreadable == {"links": Unreadable(**expected)}  # type: ignore[arg-type]


def test_the_probe_process_imports_no_large_module() -> None:
    """Whatever it reads: each of these would use megabytes for as long as the probe runs."""
    code = (
        "import sys; from nictop.probe import __main__; from nictop.probe.counters.reader import "
        "CounterReader\n"
        "r = CounterReader(); r.watch([1]); r.find_physical_functions(); r.read()\n"
        "print(sorted({'dataclasses', 'typing', 'inspect', 'asyncio', 'argparse', 'subprocess', "
        "'pyroute2', 'ctypes',"
        " 'logging', 'traceback', 'nictop.probe.records'} & set(sys.modules)))"
    )
    start = f"import sys; sys.path.append({str(ROOT)!r})\n{code}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", start], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# ------------------------------------------------------------------------------------------ parsing


def stats(
    ifindex: int,
    numbers: tuple[int, ...],
    *,
    sequence: int = DUMP_SEQUENCE,
    padded: bool = False,
    flags: int = 2,
) -> bytes:
    attributes = netlink.pack_attribute(0, b"") if padded else b""
    attributes += netlink.pack_attribute(
        link_counters.IFLA_STATS_LINK_64, struct.pack(f"={len(numbers)}Q", *numbers)
    )
    payload = link_counters.STATS_MESSAGE.pack(0, ifindex, 1) + attributes
    return (
        netlink.HEADER.pack(16 + len(payload), link_counters.RTM_NEWSTATS, flags, sequence, 0)
        + payload
    )


def done(error: int = 0, *, sequence: int = DUMP_SEQUENCE) -> bytes:
    return netlink.HEADER.pack(20, netlink.NLMSG_DONE, 2, sequence, 0) + struct.pack("=i", -error)


def parsed(data: bytes) -> tuple[dict[int, tuple[int, ...]], int]:
    links: dict[int, tuple[int, ...]] = {}
    return links, parse_stats(data, links)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("columns", [23, 24, 25, 27])
def test_counters_of_any_kernel_version(columns: int, padded: bool) -> None:
    numbers = tuple(range(1, columns + 1))
    links, flags = parsed(
        stats(3, NUMBERS) + stats(4, numbers, padded=padded) + stats(5, NUMBERS) + done()
    )
    assert links == {3: NUMBERS, 4: numbers[:25], 5: NUMBERS}
    assert flags & link_counters.DUMP_DONE


def test_replies_to_an_earlier_request_are_ignored() -> None:
    links, flags = parsed(
        stats(3, NUMBERS, sequence=DUMP_SEQUENCE + 1)
        + done(sequence=DUMP_SEQUENCE + 1)
        + stats(4, NUMBERS)
    )
    assert links == {4: NUMBERS}
    assert not flags & link_counters.DUMP_DONE


def test_an_interrupted_dump_is_detected() -> None:
    _, flags = parsed(stats(3, NUMBERS, flags=2 | netlink.NLM_F_DUMP_INTR) + done())
    assert flags & netlink.NLM_F_DUMP_INTR


def test_an_error_at_the_end_of_a_dump_is_raised() -> None:
    with pytest.raises(netlink.NetlinkError) as caught:
        parsed(stats(3, NUMBERS) + done(errno.EIO))
    assert caught.value.errno == errno.EIO


@given(st.integers(0, 500))
def test_a_truncated_datagram_gives_complete_links_only(size: int) -> None:
    whole = stats(3, NUMBERS) + stats(4, NUMBERS[:24]) + done()
    links, _ = parsed(whole[:size])
    assert all(numbers in (NUMBERS, NUMBERS[:24]) for numbers in links.values())
    assert len(links) == (size >= 232) + (size >= 232 + 224)


@given(st.binary(max_size=2000))
def test_any_datagram_can_be_parsed(data: bytes) -> None:
    try:
        links, _ = parsed(data)
    except netlink.NetlinkError:
        return
    assert all(0 < len(numbers) <= 25 for numbers in links.values())


@given(st.binary(max_size=300))
def test_any_attributes_can_be_parsed(data: bytes) -> None:
    parse_link_statistics(data)
    total, listed, found = vf_counters.parse_vf_counters(data)
    assert total >= 0 and listed >= len(found)
    queue = queue_counters.parse_queue(data)
    assert queue is None or (queue[0] in ("rx", "tx") and len(queue[2]) == 6)


def test_queue_numbers_are_four_or_eight_bytes_or_absent() -> None:
    body = netlink.pack_u32(queue_counters.NETDEV_A_QSTATS_IFINDEX, 2)
    body += netlink.pack_u32(queue_counters.NETDEV_A_QSTATS_QUEUE_TYPE, 1)
    body += netlink.pack_u32(queue_counters.NETDEV_A_QSTATS_QUEUE_ID, 5)
    body += netlink.pack_attribute(
        queue_counters.NETDEV_A_QSTATS_TX_PACKETS, struct.pack("=Q", 2**40)
    )
    body += netlink.pack_u32(queue_counters.NETDEV_A_QSTATS_TX_BYTES, 9)
    body += netlink.pack_u32(queue_counters.NETDEV_A_QSTATS_TX_HW_DROPS, 0)
    assert queue_counters.parse_queue(body) == ("tx", 5, (None, None, 2**40, 9, None, 0))
    without_id = netlink.pack_u32(queue_counters.NETDEV_A_QSTATS_IFINDEX, 2)
    without_id += netlink.pack_u32(queue_counters.NETDEV_A_QSTATS_RX_PACKETS, 1)
    assert queue_counters.parse_queue(without_id) is None


def virtual_function(number: int, counters: dict[int, int] | None) -> bytes:
    body = netlink.pack_attribute(
        if_link.IFLA_VF_MAC, struct.pack("=I32s", number, b"\2\0\0\0\0\1")
    )
    if counters is not None:
        numbers = b"".join(
            netlink.pack_attribute(kind, struct.pack("=Q", value))
            for kind, value in counters.items()
        )
        body += netlink.pack_attribute(if_link.IFLA_VF_STATS, numbers)
    return netlink.pack_attribute(if_link.IFLA_VF_INFO, body)


def link_with_vfs(total: int, *functions: bytes) -> bytes:
    body = netlink.pack_u32(if_link.IFLA_NUM_VF, total)
    return bytes(16) + body + netlink.pack_attribute(if_link.IFLA_VFINFO_LIST, b"".join(functions))


def test_vf_counters_by_number() -> None:
    all_kinds = {kind: 100 + kind for kind in if_link.VF_STATS_ATTRIBUTES}
    message = link_with_vfs(
        3,
        virtual_function(0, None),
        virtual_function(2, all_kinds),
        virtual_function(7, {if_link.IFLA_VF_STATS_RX_PACKETS: 1}),
    )
    assert vf_counters.parse_vf_counters(message) == (
        3,
        3,
        {2: (100, 101, 102, 103, 104, 105, 107, 108), 7: (1, 0, 0, 0, 0, 0, 0, 0)},
    )


def test_a_truncated_vf_list_is_detected() -> None:
    one_vf = virtual_function(0, {if_link.IFLA_VF_STATS_RX_PACKETS: 1})
    total, listed, _ = vf_counters.parse_vf_counters(link_with_vfs(2, one_vf))
    assert (total, listed) == (2, 1)


def test_physical_functions_are_those_with_vfs(capture: Callable[[str], Path]) -> None:
    root = capture("guest") / "sys"
    index = int((root / "class/net/ens224/ifindex").read_text())
    assert vf_counters.read_physical_functions(str(root)) == (index,)


def test_unreadable_physical_functions_are_left_out(tmp_path: Path) -> None:
    for name, numvfs, ifindex in (
        ("a", "2\n", "7\n"),
        ("b", "0\n", "8\n"),
        ("c", "x", "9\n"),
        ("d", "1", ""),
    ):
        device = tmp_path / "class/net" / name / "device"
        device.mkdir(parents=True)
        (device / "sriov_numvfs").write_text(numvfs)
        (device.parent / "ifindex").write_text(ifindex)
    (tmp_path / "class/net/bonding_masters").write_text("")
    assert vf_counters.read_physical_functions(str(tmp_path)) == (7,)
    assert vf_counters.read_physical_functions(str(tmp_path / "nowhere")) == ()


# -------------------------------------------------------------------------- one reader, many passes


class FakeKernel:
    """A reader with the replies of the test: a socket pair in place of the netlink socket."""

    def __init__(self) -> None:
        self.reader = LinkCounterReader()
        here, self.kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        opened = netlink.NetlinkSocket(netlink.NETLINK_ROUTE)
        opened.close()
        opened.socket = here
        self.reader._netlink = opened

    def read(self, *datagrams: bytes) -> dict[int, tuple[int, ...]]:
        for datagram in datagrams:
            self.kernel.send(datagram)
        links = self.reader.read()
        self.kernel.recv(100)
        return links

    def close(self) -> None:
        self.reader.close()
        self.kernel.close()


@pytest.fixture
def fake_kernel() -> Iterator[FakeKernel]:
    made = FakeKernel()
    yield made
    made.close()


CHANGED = (*NUMBERS[:-1], NUMBERS[-1] + 1)


@pytest.mark.parametrize("columns", [23, 24, 25, 27])
def test_changes_after_an_unchanged_pass(fake_kernel: FakeKernel, columns: int) -> None:
    """Equal datagrams are not parsed again; any difference in bits, links or order is."""
    same, changed = tuple(range(columns)), (*range(columns - 3), 2**64 - 1, 7, 8)
    first, second = stats(3, same) + stats(4, same), stats(5, same)
    for links, datagrams in (
        ({3: same, 4: same, 5: same}, (first, second, done())),
        ({3: same, 4: same, 5: same}, (first, second, done())),
        ({3: same, 4: changed, 5: same}, (stats(3, same) + stats(4, changed), second, done())),
        ({3: same, 4: changed}, (stats(3, same) + stats(4, changed), done())),
        ({5: same}, (second, done())),
        ({3: same, 4: same, 5: changed}, (first, stats(5, changed) + done())),
        ({}, (done(),)),
        ({3: same, 4: same}, (first, done())),
    ):
        assert fake_kernel.read(*datagrams) == {
            index: numbers[:25] for index, numbers in links.items()
        }


@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 17, 100])
def test_any_number_of_links_in_a_datagram(count: int) -> None:
    expected = {index: tuple(range(index, index + 25)) for index in range(1, count + 1)}
    assert parsed(b"".join(stats(*link) for link in expected.items())) == (
        expected,
        netlink.NLM_F_MULTI,
    )


@pytest.mark.parametrize("place", [0, 3, 8, 9])
def test_one_message_of_another_type_among_others(place: int) -> None:
    messages = [stats(index, NUMBERS) for index in range(1, 11)]
    messages[place] = (
        messages[place][:4] + struct.pack("=H", 16) + messages[place][6:]
    )  # another type of message
    links, _ = parsed(b"".join(messages))
    assert links == {index: NUMBERS for index in range(1, 11) if index != place + 1}


def test_an_interrupted_dump_is_repeated_and_then_reported(fake_kernel: FakeKernel) -> None:
    """While links are added and removed continuously the listed ones are returned, as
    incomplete."""
    interrupted = stats(3, NUMBERS, flags=netlink.NLM_F_MULTI | netlink.NLM_F_DUMP_INTR)
    for datagram in (interrupted, done(), stats(3, CHANGED), done()):
        fake_kernel.kernel.send(datagram)
    assert fake_kernel.reader.read() == {3: CHANGED}
    for datagram in (interrupted, done()) * link_counters.MAX_DUMP_ATTEMPTS:
        fake_kernel.kernel.send(datagram)
    with pytest.raises(LinksIncomplete) as caught:
        fake_kernel.reader.read()
    assert caught.value.links == {3: NUMBERS}


def test_incomplete_links_are_sent_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, reader: CounterReader
) -> None:
    def incomplete(_: LinkCounterReader) -> dict[int, tuple[int, ...]]:
        raise LinksIncomplete({3: NUMBERS})

    monkeypatch.setattr(LinkCounterReader, "read", incomplete)
    sample = decoded(reader.read())
    assert sample.links == {3: NUMBERS}
    assert sample.unreadable["links"].reason == "failed"


# -------------------------------------------------------------------------------------- this kernel


def test_this_host_agrees_with_proc_net_dev(reader: CounterReader) -> None:
    """Two sources of the same kernel: each number of /proc/net/dev lies between the passes before
    and after it."""
    received = (
        "rx_bytes",
        "rx_packets",
        "rx_errors",
        None,
        None,
        None,
        "rx_compressed",
        "multicast",
    )
    sent = ("tx_bytes", "tx_packets", "tx_errors", "tx_dropped", "tx_fifo_errors", "collisions")
    before = reader.read().links
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    after = reader.read().links
    indexes = {name: index for index, name in socket.if_nameindex()}
    assert {indexes[line.partition(":")[0].strip()] for line in lines} == set(after)
    for line in lines:
        name, _, numbers = line.partition(":")
        index = indexes[name.strip()]
        for column, number in zip(received + sent, map(int, numbers.split()), strict=False):
            if column is not None:
                position = LINK_COUNTERS.index(column)
                assert before[index][position] <= number <= after[index][position], (name, column)


def test_getstats_and_getlink_give_the_same_numbers(namespace: Namespace) -> None:
    namespace.run(["ip", "link", "add", "name", "a", "type", "veth", "peer", "name", "b"])

    def both() -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
        modern, old = LinkCounterReader(), LinkCounterReader()
        old.kernel_has_stats = False
        try:
            return modern.read(), old.read()
        finally:
            modern.close()
            old.close()

    modern, old = namespace.call(both)
    assert len(modern) == 3
    assert modern == old


def test_getlink_is_used_on_a_kernel_without_getstats(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal is a real one, of a message type that no kernel has."""
    monkeypatch.setattr(
        link_counters, "STATS_DUMP", link_counters.dump_request(0x7FE2, link_counters.STATS_REQUEST)
    )
    reader = LinkCounterReader()
    try:
        links = reader.read()
        assert not reader.kernel_has_stats
        assert set(links) == {index for index, _ in socket.if_nameindex()}
    finally:
        reader.close()


def quiet_veth(namespace: Namespace) -> None:
    """A pair a, b that carries only frames of the test, and loses none."""
    namespace.disable_ipv6()
    namespace.run(["ip", "link", "add", "name", "a", "type", "veth", "peer", "name", "b"])
    for end in ("a", "b"):
        namespace.run(["ip", "link", "set", "dev", end, "up"])
    # the first end gets a carrier when the second one is up; the kernel attaches its qdisc
    # asynchronously (linkwatch) and drops frames (qdisc noop) until then
    wait_until(lambda: is_settled(namespace.run(["ip", "link", "show"])))


def is_settled(output: str) -> bool:
    """Whether the kernel has attached a qdisc to both ends, by the output of ``ip link``."""
    return output.count(" state UP ") == 2 and "qdisc noop " not in output


def send_frames(device: str, count: int, size: int) -> None:
    """`count` Ethernet frames of `size` bytes (without FCS) out of `device`."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((device, 0))
        frame = b"\xff" * 6 + b"\2\0\0\0\0\1" + b"\x88\xb5" + bytes(size - 14)
        for _ in range(count):
            sender.send(frame)


@pytest.mark.parametrize(("count", "size"), [(1, 60), (1000, 1514)])
def test_a_known_load_is_counted_exactly(namespace: Namespace, count: int, size: int) -> None:
    quiet_veth(namespace)

    def load() -> tuple[Sample, Sample, dict[str, int]]:
        reader = CounterReader()
        try:
            before = reader.read()
            send_frames("a", count, size)
            return before, reader.read(), {name: index for index, name in socket.if_nameindex()}
        finally:
            reader.close()

    before, after, indexes = namespace.call(load)
    for device, direction in (("a", "tx"), ("b", "rx")):
        index = indexes[device]
        change = {
            name: new - old
            for name, old, new in zip(
                LINK_COUNTERS, before.links[index], after.links[index], strict=False
            )
        }
        expected = dict.fromkeys(change, 0)
        expected.update({f"{direction}_packets": count, f"{direction}_bytes": count * size})
        expected["rx_dropped"] = expected["rx_nohandler"] = change[
            "rx_dropped"
        ]  # no receiver for this protocol
        expected["rx_nohandler"] = change["rx_nohandler"]
        assert change == expected


def test_driver_counters_of_veth(namespace: Namespace) -> None:
    """Compared with ethtool -S."""
    if shutil.which("ethtool") is None:
        pytest.skip("ethtool is not installed")
    quiet_veth(namespace)

    def read() -> tuple[Sample, int]:
        reader = CounterReader()
        index = socket.if_nametoindex("a")
        reader.watch([index, 1, 12345])
        try:
            return reader.read(), index
        finally:
            reader.close()

    sample, index = namespace.call(read)
    expected = [
        line.rpartition(":")[2] for line in namespace.run(["ethtool", "-S", "a"]).splitlines()[1:]
    ]
    assert expected
    assert sample.driver == {index: tuple(map(int, expected))}
    assert sample.queues == {index: (), 1: ()}, (
        "both have no queue counters; link 12345 does not exist"
    )
    assert sample.unreadable["driver"]["reason"] == "not_offered"  # lo has none
    assert sample.unreadable["queues"]["reason"] in ("not_offered", "missing")
    assert decoded(sample).driver == sample.driver


def test_the_buffer_is_enlarged_before_a_driver_has_more_counters() -> None:
    """The size of the buffer is checked in each pass, with space for counters that are added in
    between."""
    reader = DriverCounterReader()
    with pytest.raises(OSError) as caught:
        reader.read(2**30)
    assert caught.value.errno == errno.ENODEV
    counts = iter([5000, 70000])
    reader._count = lambda name: next(counts)  # type: ignore[method-assign]

    def driver(name: bytes, numbers: object) -> None:
        struct.pack_into("@II", numbers, 0, ETHTOOL_GSTATS, len(memoryview(numbers)) - 1)  # type: ignore[arg-type]

    reader._ethtool = driver  # type: ignore[method-assign, assignment]
    for expected in (5000, 70000):
        with pytest.raises(OSError, match="changed meanwhile"):
            reader.read(1)
        assert len(reader._numbers) > expected + 4096
    reader.close()


def test_queue_counters_of_virtio(reader: CounterReader) -> None:
    """The sum over the queues of a virtio NIC lies between the NIC's own counters before and
    after."""
    indexes = [
        index
        for index, name in socket.if_nameindex()
        if os.path.realpath(f"/sys/class/net/{name}/device/driver").endswith("/virtio_net")
    ]
    if not indexes:
        pytest.skip("no virtio_net here")
    reader.watch(indexes)
    before, middle, after = reader.read(), reader.read(), reader.read()
    if "queues" in middle.unreadable:
        pytest.skip(f"no queue counters on this kernel: {middle.unreadable['queues']}")
    for index in indexes:
        received = sum(queue[2][0] or 0 for queue in middle.queues[index] if queue[0] == "rx")
        assert before.links[index][0] <= received <= after.links[index][0]


def test_links_added_and_removed_between_passes(namespace: Namespace) -> None:
    def change() -> list[set[int]]:
        reader = CounterReader()
        seen = [set(reader.read().links)]
        for command in ("add name a type veth peer name b", "set dev a name [x]é", "del dev [x]é"):
            subprocess.run(["ip", "link", *command.split()], check=True)
            sample = reader.read()
            assert not sample.unreadable
            seen.append(set(sample.links))
        reader.close()
        return seen

    none, two, renamed, again = namespace.call(change)
    assert len(two) == len(none) + 2
    assert renamed == two
    assert again == none


def test_a_watched_link_that_is_removed_is_reported(namespace: Namespace) -> None:
    quiet_veth(namespace)

    def vanish() -> tuple[Sample, Sample]:
        reader = CounterReader()
        reader.watch([socket.if_nametoindex("a")])
        before = reader.read()
        subprocess.run(["ip", "link", "del", "dev", "a"], check=True)
        after = reader.read()
        reader.close()
        return before, after

    before, after = namespace.call(vanish)
    assert before.driver and "driver" not in before.unreadable
    assert not after.driver
    assert after.unreadable["driver"]["reason"] == "vanished"


@pytest.mark.parametrize("text", [None, b"", b"garbage\n", b"cpu0 1 2\n"])
def test_links_are_read_without_a_usable_proc(tmp_path: Path, text: bytes | None) -> None:
    if text is not None:
        (tmp_path / "stat").write_bytes(text)
    reader = CounterReader(proc=str(tmp_path))
    sample = reader.read()
    assert sample.links and sample.cpus == {}
    assert sample.unreadable["cpus"]["reason"] == ("missing" if text is None else "malformed")
    (tmp_path / "stat").write_bytes(b"cpu 1 2 3 4\ncpu0 1 2 3 4\nintr 0\n")
    assert reader.read().cpus == {0: (1, 2, 3, 4)}
    reader.close()


def test_vf_counters_at_most_once_a_second(tmp_path: Path, reader: CounterReader) -> None:
    """For a link that is a physical function in this sysfs, and has no VFs in the kernel."""
    device = tmp_path / "class/net/lo/device"
    device.mkdir(parents=True)
    (device / "sriov_numvfs").write_text("2\n")
    (device.parent / "ifindex").write_text("1\n")
    counters = CounterReader(sys=str(tmp_path))
    counters.find_physical_functions()
    assert [set(counters.read().vfs) for _ in range(3)] == [{1}, set(), set()]
    counters.close()
