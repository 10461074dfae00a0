"""ethtool: a captured guest, this machine and namespaces against the output of the ethtool command;
ioctl against netlink; and arbitrary bytes."""

from __future__ import annotations

import errno
import functools
import json
import os
import re
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.ethtool import ioctl as ethtool_ioctl
from nictop.probe.inventory.ethtool import messages as ethtool_messages
from nictop.probe.inventory.ethtool import reader as ethtool
from nictop.probe.inventory.links.reader import read_links
from nictop.probe.kernel.netlink import (
    NETLINK_GENERIC,
    NetlinkError,
    NetlinkSocket,
    iter_attributes,
    pack_attribute,
    pack_text,
    pack_u32,
)
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import (
    Channels,
    Ethtool,
    Feature,
    Fec,
    Link,
    LinkSettings,
    LinkState,
    Module,
    Pause,
    Rings,
    Rss,
    Unreadable,
)
from tests.support.namespaces import Namespace
from tests.support.tool_output import EthtoolOutput, assert_driver, assert_ethtool

Capture = Callable[[str], Path]


def captured(root: Path) -> Callable[[int], Ethtool]:
    """ifindex → the record of the guest's netlink messages."""
    messages = json.loads((root / "netlink.json").read_text())["ethtool"]
    strings = ethtool_messages.parse_string_sets(
        dict(iter_attributes(bytes.fromhex(messages.pop("strings")[0])))
    )
    replies = {}
    for part, bodies in messages.items():
        replies[part] = ethtool.CommandReplies()
        for body in bodies:
            ethtool.add_reply(replies[part], bytes.fromhex(body))

    def record(ifindex: int) -> Ethtool:
        values: dict[str, Any] = {
            part: ethtool.part_from_replies(part, ifindex, replies, strings)
            for part in ethtool.PARTS
        }
        unreadable = {
            part: value for part, value in values.items() if isinstance(value, Unreadable)
        }
        return Ethtool(
            **{part: v for part, v in values.items() if part not in unreadable},
            unreadable=unreadable,
        )

    return record


@pytest.mark.parametrize(
    ("name", "ifindex"), [("ens192", 2), ("ens224", 3), ("ens256", 4), ("ens224v0", 5)]
)
def test_a_captured_guest_agrees_with_ethtool(capture: Capture, name: str, ifindex: int) -> None:
    """vmxnet3, igb with VFs, virtio_net with four queue pairs, igbvf."""
    root = capture("guest")
    record = captured(root)(ifindex)
    assert_ethtool(record, lambda option: (root / f"cmd/ethtool/{name}{option}").read_text())
    for part, why in record.unreadable.items():
        assert why == Unreadable("not_offered", "EOPNOTSUPP"), part


def test_captured_parts_of_each_driver(capture: Capture) -> None:
    record = captured(capture("guest"))
    assert record(3).private_flags == {"legacy-rx": False}
    assert record(3).pause == Pause(autonegotiation=True, rx=True, tx=True)
    igb = record(3).rss
    assert igb is not None
    assert igb.indirection == (0,) * 64 + (1,) * 64
    assert record(4).coalescing == {
        "rx-usecs": 0,
        "rx-frames": 1,
        "tx-usecs": 0,
        "tx-frames": 1,
        "adaptive-rx": 0,
    }
    assert {"channels", "rss", "private_flags", "eee", "fec"} <= set(record(5).unreadable)


def run_ethtool(name: str, namespace: Namespace | None = None) -> EthtoolOutput:
    """The output of the command here, or in a namespace."""

    def output(option: str) -> str:
        argv = ["ethtool", *([option] if option else []), name]
        if namespace is not None:
            return namespace.run(argv, check=False)
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout

    def complete(option: str) -> str:
        text = output(option)
        return "" if re.fullmatch(r"[^\n]*:\n+", text) else text

    return complete


def assert_command(links: tuple[Link, ...], namespace: Namespace | None = None) -> None:
    """Compare every link with the output of the installed command."""
    if shutil.which("ethtool") is None:
        pytest.skip("the ethtool command is not installed")
    read = functools.partial(ethtool.read_ethtool, links)
    records, trouble = namespace.call(read) if namespace else read()
    assert trouble is None
    assert set(records) == {link.ifindex for link in links}
    for link in links:
        record, output = records[link.ifindex], run_ethtool(link.name, namespace)
        assert_driver(record, output("-i"))
        assert_ethtool(record, output)
        lines = re.findall(r"^ {5}(.*): (\d+)$", output("-S"), re.MULTILINE)
        assert record.driver_counter_names == tuple(name for name, _ in lines)
        assert record.driver_counters is not None
        assert all(
            ours <= int(value)
            for ours, (_, value) in zip(record.driver_counters, lines, strict=True)
        )


def test_this_machine_agrees_with_ethtool() -> None:
    assert_command(read_links()[0])


def test_a_namespace_agrees_with_ethtool(namespace: Namespace) -> None:
    namespace.try_link("v0", "type", "veth", "peer", "name", "v1")
    for arguments in (
        ("br0", "type", "bridge"),
        ("mv0", "link", "v0", "type", "macvlan"),
        ("vx0", "type", "vxlan", "id", "1", "dstport", "4789", "dev", "v0"),
    ):
        namespace.try_link(*arguments)
    namespace.run(["ip", "tuntap", "add", "tap0", "mode", "tap"])
    namespace.run(["ip", "link", "set", "v0", "up"])
    namespace.run(["ethtool", "-K", "v1", "gro", "on", "tso", "off"])
    assert_command(namespace.call(read_links)[0], namespace)


def test_a_removed_link() -> None:
    gone = Link(
        ifindex=2**31 - 5, name="gone0", type=1, flags=0, operstate="down", carrier=None, mtu=1500
    )
    records, trouble = ethtool.read_ethtool([gone])
    assert trouble is None
    assert {why.reason for why in records[gone.ifindex].unreadable.values()} == {"vanished"}
    assert {"driver", "features", "module", "driver_counters"} <= set(
        records[gone.ifindex].unreadable
    )


@pytest.fixture
def control() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        yield opened


def test_ioctl_and_netlink_agree(control: socket.socket) -> None:
    """The requests for kernels before 5.6, sent to this one."""
    links = read_links()[0]
    records, _ = ethtool.read_ethtool(links)
    compared = 0
    for link in links:
        record = records[link.ifindex]
        for part, read in ethtool.IOCTL_READERS.items():
            ours = ethtool.read_by_ioctl(control, link.name, read)
            theirs = getattr(record, part)
            if part == "coalescing" and isinstance(ours, dict):
                theirs = {key: value for key, value in theirs.items() if value}
            if part == "state" and theirs.detected is None:
                continue  # the ioctl has no value for an unknown state
            if theirs is None:
                assert isinstance(ours, Unreadable), (link.name, part)
                continue
            assert ours == theirs, (link.name, part)
            compared += 1
    assert compared >= 3


def test_link_modes_of_the_ioctl() -> None:
    """struct ethtool_link_settings of a 10 GbE port."""
    maps = (1 << 12 | 1 << 43 | 1 << 6, 1 << 12 | 1 << 43, 0)
    value = ethtool_ioctl.LINK_SETTINGS.pack(
        ethtool_ioctl.ETHTOOL_GLINKSETTINGS, 10000, 1, 3, 0, 1, 0, 0, 0, 3, 0
    )
    for bits in maps:
        value += struct.pack("=3I", *(bits >> shift & 0xFFFFFFFF for shift in (0, 32, 64)))
    assert ethtool_ioctl.parse_settings(value) == LinkSettings(
        speed=10000,
        duplex="full",
        autonegotiation=True,
        port="fibre",
        transceiver="internal",
        supported=("10000baseT/Full", "10000baseSR/Full"),
        advertised=("10000baseT/Full", "10000baseSR/Full"),
        partner=(),
    )


class FailingDump:
    """A netlink socket whose dumps fail, as at a suspended device; single requests are passed on to
    the kernel."""

    def __init__(self, real: NetlinkSocket, number: int) -> None:
        self.real, self.number, self.single = real, number, 0

    def generic(
        self, family: str, command: int, attributes: bytes = b"", *, dump: bool = False
    ) -> list[bytes]:
        if dump:
            raise NetlinkError(self.number, os.strerror(self.number))
        self.single += 1
        return self.real.generic(family, command, attributes)


def test_a_failed_dump_is_replaced_by_one_request_per_device() -> None:
    links = read_links()[0]
    ifindexes = [link.ifindex for link in links]
    with NetlinkSocket(NETLINK_GENERIC) as real:
        broken: Any = FailingDump(real, errno.ENODEV)
        for part, command, flags in ethtool.NETLINK_COMMANDS:
            whole, single = (
                ethtool.request_all(real, command, flags, ifindexes),
                ethtool.request_all(broken, command, flags, ifindexes),
            )
            assert {i: a for i, a in single.found.items() if part != "pause"} == {
                i: a for i, a in whole.found.items() if part != "pause"
            }
            assert set(single.found) | set(single.refused) == set(ifindexes)
            assert {why.reason for why in single.refused.values()} <= {"not_offered"}
        assert broken.single == len(ethtool.NETLINK_COMMANDS) * len(ifindexes)


def test_an_unknown_command_is_missing_and_a_hanging_driver_raises() -> None:
    with NetlinkSocket(NETLINK_GENERIC) as real:
        unknown: Any = FailingDump(real, errno.EOPNOTSUPP)
        assert ethtool.request_all(
            unknown, ethtool.ETHTOOL_MSG_RINGS_GET, 1, [1]
        ) == ethtool.CommandReplies(known=False)
        hanging: Any = FailingDump(real, errno.ETIMEDOUT)
        with pytest.raises(NetlinkError):
            ethtool.request_all(hanging, ethtool.ETHTOOL_MSG_RINGS_GET, 1, [1])


def test_without_netlink_the_ioctl_is_used(control: socket.socket) -> None:
    link = next(link for link in read_links()[0] if link.name == "lo")
    why = Unreadable("missing", "generic netlink ethtool: ENOENT")
    record = ethtool.read_link(control, link, {}, {}, module=None, trouble=why)
    assert record.features is not None
    assert {record.unreadable[part] for part in ("fec", "eee", "private_flags")} == {why}
    assert record.unreadable["rings"] == Unreadable("not_offered", "SIOCETHTOOL: EOPNOTSUPP")


def test_no_ioctl_is_sent_to_a_hanging_driver(control: socket.socket) -> None:
    link = next(link for link in read_links()[0] if link.name == "lo")
    why = Unreadable("failed", "generic netlink ethtool: ETIMEDOUT")
    record = ethtool.read_link(control, link, {}, {}, module=None, trouble=why)
    assert record.features is None
    assert set(record.unreadable.values()) == {why}


def test_the_module_needs_root() -> None:
    """Requested only of links with a device; the kernel checks the permission before the driver is
    called."""
    if os.geteuid() != 0:
        pytest.skip("only root can drop privileges")
    links = [link for link in read_links()[0] if link.bus is not None]
    if not links:
        pytest.skip("no link with a device here")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setresuid(65534, 65534, 65534)
        records, _ = ethtool.read_ethtool(links)
        os.write(
            writer,
            json.dumps(
                records[links[0].ifindex].unreadable["module"], default=field_mapping
            ).encode(),
        )
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        reason = json.loads(pipe.read())
    assert os.waitpid(child, 0)[1] == 0
    assert reason == {"reason": "needs_root", "detail": "MODULE_EEPROM_GET: EPERM"}


def numbered(first: int, last: int) -> dict[int, bytes]:
    """u32 attributes, each with the value of a hundred times its own number."""
    return {kind: struct.pack("=I", 100 * kind) for kind in range(first, last + 1)}


def test_attributes_of_rings_and_channels() -> None:
    """Order of linux/ethtool_netlink.h."""
    assert ethtool_messages.parse_rings(
        numbered(2, 10) | {ethtool_messages.ETHTOOL_A_RINGS_TCP_DATA_SPLIT: b"\2"}
    ) == Rings(
        max_rx=200,
        max_rx_mini=300,
        max_rx_jumbo=400,
        max_tx=500,
        rx=600,
        rx_mini=700,
        rx_jumbo=800,
        tx=900,
        rx_buffer_length=1000,
        tcp_data_split="enabled",
    )
    assert ethtool_messages.parse_channels(numbered(2, 9)) == Channels(
        max_rx=200,
        max_tx=300,
        max_other=400,
        max_combined=500,
        rx=600,
        tx=700,
        other=800,
        combined=900,
    )


def test_attributes_of_coalescing() -> None:
    """Order of linux/ethtool_netlink.h, names of ``ethtool -c``."""
    parsed = ethtool_messages.parse_coalescing(numbered(2, 28))
    rx = {"rx-usecs": 200, "rx-frames": 300, "rx-usecs-irq": 400, "rx-frames-irq": 500}
    tx = {"tx-usecs": 600, "tx-frames": 700, "tx-usecs-irq": 800, "tx-frames-irq": 900}
    adaptive = {
        "stats-block-usecs": 1000,
        "adaptive-rx": 1100,
        "adaptive-tx": 1200,
        "sample-interval": 2300,
    }
    low = {
        "pkt-rate-low": 1300,
        "rx-usecs-low": 1400,
        "rx-frame-low": 1500,
        "tx-usecs-low": 1600,
        "tx-frame-low": 1700,
    }
    high = {"pkt-rate-high": 1800, "rx-usecs-high": 1900, "rx-frame-high": 2000}
    high |= {"tx-usecs-high": 2100, "tx-frame-high": 2200}
    cqe = {"cqe-mode-tx": 2400, "cqe-mode-rx": 2500}
    aggregation = {
        "tx-aggr-max-bytes": 2600,
        "tx-aggr-max-frames": 2700,
        "tx-aggr-time-usecs": 2800,
    }
    assert parsed == rx | tx | adaptive | low | high | cqe | aggregation


def test_fixed_features() -> None:
    values = (0b0111, 0b0101, 0b0011, 0b0100)
    attributes = dict(zip(ethtool_messages.FEATURE_BITSETS, map(bitset, values), strict=True))
    assert ethtool_messages.parse_features(attributes, ("a", "b", "c", "d", "")) == (
        Feature("a", active=True, wanted=True, fixed=False),
        Feature("b", active=True, wanted=False, fixed=False),
        Feature("c", active=False, wanted=True, fixed=True),
        Feature("d", active=False, wanted=False, fixed=True),
    )


def test_only_the_default_rss_context_is_kept() -> None:
    """A dump of ETHTOOL_MSG_RSS_GET has context 0 first, then those that were added."""
    device = pack_attribute(
        ethtool.ETHTOOL_A_HEADER, pack_u32(ethtool.ETHTOOL_A_HEADER_DEV_INDEX, 7)
    )
    replies = ethtool.CommandReplies()
    ethtool.add_reply(
        replies, device + pack_attribute(ethtool_messages.ETHTOOL_A_RSS_INDIR, as_words(0, 4))
    )
    other = pack_u32(2, 1) + pack_attribute(ethtool_messages.ETHTOOL_A_RSS_INDIR, as_words(5, 4))
    ethtool.add_reply(replies, device + other)
    assert ethtool_messages.parse_rss(replies.found[7], ()).indirection == (0, 0, 0, 0)


def bitset(value: int, mask: int | None = None, words: int = 3) -> bytes:
    """A compact bitset."""
    body = pack_u32(2, words * 32) + pack_attribute(
        ethtool_messages.ETHTOOL_A_BITSET_VALUE, as_words(value, words)
    )
    return (
        body
        if mask is None
        else body + pack_attribute(ethtool_messages.ETHTOOL_A_BITSET_MASK, as_words(mask, words))
    )


def as_words(value: int, count: int) -> bytes:
    return struct.pack(f"={count}I", *(value >> 32 * word & 0xFFFFFFFF for word in range(count)))


def test_messages_of_other_hardware() -> None:
    """FEC, link state, RSS key and autonegotiated modes, by the numbers of
    linux/ethtool_netlink.h."""
    assert ethtool_messages.parse_fec(
        {2: bitset(1 << 50 | 1 << 51), 3: b"\1", 4: struct.pack("=I", 50)}
    ) == Fec(configured=("RS", "BASER"), automatic=True, active="RS")
    assert ethtool_messages.parse_link_state(
        {2: b"\0", 5: b"\4", 7: struct.pack("=I", 7)}
    ) == LinkState(detected=False, extended_state="no cable", down_events=7)
    rss = {3: struct.pack("=I", 2), 4: struct.pack("=4I", 0, 1, 0, 1), 5: bytes(40)}
    assert ethtool_messages.parse_rss(rss, ("toeplitz", "xor", "crc32")) == Rss(
        (0, 1, 0, 1), "xor", 40
    )
    statistics = pack_attribute(2, struct.pack("=Q", 5)) + pack_attribute(
        3, struct.pack("=Q", 2**40)
    )
    assert ethtool_messages.parse_pause({2: b"\1", 3: b"\0", 4: b"\1", 5: statistics}) == Pause(
        True, False, True, 2**40, 5
    )
    names = ("10baseT/Half", "10baseT/Full", "Autoneg", "1000baseT/Full")
    settings = ethtool_messages.parse_link_modes(
        {
            2: b"\1",
            3: bitset(0b1110, 0b1111, 1),
            4: bitset(0b1000, None, 1),
            5: struct.pack("=I", 2**32 - 1),
        },
        names,
        None,
    )
    assert settings.supported == ("10baseT/Half", "10baseT/Full", "1000baseT/Full")
    assert settings.advertised == ("10baseT/Full", "1000baseT/Full")
    assert (settings.partner, settings.speed) == (("1000baseT/Full",), None)


def test_private_flags_with_names() -> None:
    bits = b"".join(
        pack_attribute(
            1, pack_u32(1, index) + pack_text(2, name) + (pack_attribute(3, b"") if value else b"")
        )
        for index, (name, value) in enumerate(
            {"legacy-rx": False, "link-down-on-close": True}.items()
        )
    )
    assert ethtool_messages.parse_private_flags({2: pack_attribute(3, bits)}) == {
        "legacy-rx": False,
        "link-down-on-close": True,
    }


def test_strings_and_counters_of_the_ioctl_are_limited_by_the_buffer() -> None:
    value = (
        struct.pack("=III", ethtool_ioctl.ETHTOOL_GSTRINGS, 1, 1000)
        + b"rx_packets".ljust(32, b"\0")
        + b"  giant hdr".ljust(32, b"\0")
        + b"x"
    )
    assert ethtool_ioctl.parse_strings(value) == ("rx_packets", "  giant hdr")
    assert ethtool_ioctl.parse_driver_counters(
        struct.pack("=IIQ", ethtool_ioctl.ETHTOOL_GSTATS, 9, 2**63)
    ) == (2**63,)


any_attributes = st.dictionaries(st.integers(1, 30), st.binary(max_size=60))


@given(any_attributes, st.lists(st.text(max_size=5), max_size=70))
def test_any_attributes_can_be_parsed(attributes: dict[int, bytes], names: list[str]) -> None:
    for part, parse in ethtool.PARSERS.items():
        assert not isinstance(parse(attributes), Module), part
    settings = ethtool_messages.parse_link_modes(
        attributes, names, ethtool_messages.parse_link_info(attributes)
    )
    assert settings.speed is None or settings.speed > 0
    for feature in ethtool_messages.parse_features(attributes, names):
        assert feature.name in names
    assert all(slot >= 0 for slot in ethtool_messages.parse_rss(attributes, names).indirection)
    for strings in ethtool_messages.parse_string_sets(attributes).values():
        assert all(isinstance(string, str) for string in strings)


@given(st.binary(max_size=300))
def test_any_bytes_of_the_ioctl_can_be_parsed(data: bytes) -> None:
    assert len(ethtool_ioctl.parse_strings(data)) <= len(data) // 32
    assert len(ethtool_ioctl.parse_driver_counters(data)) <= len(data) // 8
    assert isinstance(ethtool_ioctl.parse_driver(data).driver, str)
    assert all(
        "base" in mode or mode.startswith("bit ")
        for mode in ethtool_ioctl.parse_settings(data).supported
    )
    replies = ethtool.CommandReplies()
    ethtool.add_reply(replies, data)
    assert replies.refused == {}


@pytest.mark.parametrize(
    ("bits", "fields"),
    [
        (0x30, ("addresses",)),
        (0xF0, ("addresses", "ports")),
        (0, ()),
        (0x80000000, ("other",)),
        (0x40, ("ports",)),
    ],
)
def test_udp_hash(bits: int, fields: tuple[str, ...]) -> None:
    value = struct.pack(
        "=IIQ", ethtool_ioctl.ETHTOOL_GRXFH, ethtool_ioctl.UDP_V4_FLOW, bits
    ) + bytes(176)
    assert ethtool_ioctl.parse_flow_hash(value) == fields


@given(st.binary(max_size=40))
def test_any_flow_hash_can_be_parsed(value: bytes) -> None:
    assert set(ethtool_ioctl.parse_flow_hash(value)) <= {"addresses", "ports", "other"}
