"""Kernel events: link changes are parsed correctly; only relevant events are a reason for an
inventory."""

from __future__ import annotations

import errno
import select
import shutil
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.events import kernel as kernel_events
from nictop.probe.events.kernel import (
    OTHER_NAMESPACES,
    Events,
    is_devlink_change,
    parse_address,
    parse_event,
    parse_link_change,
    parse_uevent,
    parse_uevent_relevance,
)
from nictop.probe.kernel import if_link, netlink, rtnetlink
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import LinkChange
from tests.support.namespaces import Namespace
from tests.support.probe import TEST_TIMEOUT

UP, LOWER_UP = 0x1, 0x10000


def link_message(
    *, family: int = 0, ifindex: int = 7, flags: int = UP, **attributes: bytes
) -> bytes:
    given = {
        "name": netlink.pack_text(if_link.IFLA_IFNAME, "eth0"),
        "mtu": netlink.pack_u32(if_link.IFLA_MTU, 1500),
        "operstate": netlink.pack_attribute(if_link.IFLA_OPERSTATE, b"\6"),
        "carrier": netlink.pack_attribute(if_link.IFLA_CARRIER, b"\1"),
        **attributes,
    }
    return rtnetlink.IFINFOMSG.pack(family, 1, ifindex, flags, 0) + b"".join(given.values())


def test_a_change_has_how_often_the_carrier_changed() -> None:
    counted = netlink.pack_u32(if_link.IFLA_CARRIER_CHANGES, 6)
    change = parse_link_change(link_message(changes=counted), gone=False, time=1.5)
    assert change is not None and change["carrier_changes"] == 6


def test_a_change_has_the_fields_of_the_record() -> None:
    change = parse_link_change(link_message(), gone=False, time=1.5)
    assert change is not None
    assert LinkChange(**change) == LinkChange(1.5, 7, False, "eth0", "up", True, UP, 1500)  # type: ignore[arg-type]
    assert list(change) == list(
        field_mapping(LinkChange(1.5, 7, False, "eth0", "up", True, UP, 1500))
    )


@pytest.mark.parametrize(("number", "name"), list(enumerate([*if_link.OPERSTATES, "unknown"])))
def test_operstate_names(number: int, name: str) -> None:
    state = netlink.pack_attribute(if_link.IFLA_OPERSTATE, bytes([number]))
    change = parse_link_change(link_message(operstate=state), gone=False, time=0.0)
    assert change is not None and change["operstate"] == name


NO_CARRIER = netlink.pack_attribute(if_link.IFLA_CARRIER, b"\0")


@pytest.mark.parametrize(
    ("flags", "attribute", "expected"),
    [(0, NO_CARRIER, None), (UP, NO_CARRIER, False), (UP, b"", None)],
    ids=["down", "up", "no attribute"],
)
def test_carrier_is_unknown_while_the_link_is_down(
    flags: int, attribute: bytes, expected: bool | None
) -> None:
    change = parse_link_change(link_message(flags=flags, carrier=attribute), gone=False, time=0.0)
    assert change is not None and change["carrier"] is expected


@pytest.mark.parametrize(
    "body",
    [
        link_message(family=socket.AF_BRIDGE),
        link_message(wireless=netlink.pack_attribute(if_link.IFLA_WIRELESS, b"scan")),
        link_message(mtu=b"", operstate=b""),
        link_message(ifindex=0),
        link_message()[:15],
        b"",
    ],
    ids=["bridge port", "wireless", "no state", "no link", "cut off", "empty"],
)
def test_messages_that_are_not_about_a_link(body: bytes) -> None:
    assert parse_link_change(body, gone=True, time=0.0) is None


@pytest.mark.parametrize(
    "name", [b"tap[/x]", b'q"uote\\', "ünï".encode(), b"\x1b[2J\x07", b"\xff\xfe"]
)
def test_any_bytes_are_a_link_name(name: bytes) -> None:
    change = parse_link_change(
        link_message(name=netlink.pack_attribute(if_link.IFLA_IFNAME, name + b"\0")),
        gone=False,
        time=0.0,
    )
    assert change is not None and change["name"] == name.decode("utf-8", "replace")


@given(st.binary(max_size=200))
def test_any_bytes_can_be_parsed(data: bytes) -> None:
    change = parse_link_change(data, gone=False, time=0.0)
    assert change is None or (isinstance(change["mtu"], int) and isinstance(change["name"], str))
    assert isinstance(parse_address(data), bytes)
    assert all(isinstance(value, str) for value in parse_uevent(data).values())
    assert parse_event("uevents", data) in ("device", "")


def address_message(*, remaining: int, flags: int = 0x80, prefix: int = 64) -> bytes:
    body = rtnetlink.IFADDRMSG.pack(socket.AF_INET6, prefix, flags, 0, 3)
    body += netlink.pack_attribute(rtnetlink.IFA_ADDRESS, bytes(15) + b"\1")
    return body + netlink.pack_attribute(6, struct.pack("=4I", remaining, remaining, 0, 0))


def test_a_renewed_lifetime_is_not_a_change() -> None:
    assert parse_address(address_message(remaining=100)) == parse_address(
        address_message(remaining=900)
    )
    assert parse_address(address_message(remaining=1)) != parse_address(
        address_message(remaining=1, prefix=128)
    )
    assert parse_address(address_message(remaining=1)) != parse_address(
        address_message(remaining=1, flags=0x40)
    )


def uevent(action: str, **properties: str) -> bytes:
    lines = [
        f"{action}@/devices/x",
        f"ACTION={action}",
        *(f"{key}={value}" for key, value in properties.items()),
    ]
    return "\0".join(lines).encode() + b"\0"


def from_udev(**properties: str) -> bytes:
    text = "".join(f"{key}={value}\0" for key, value in properties.items()).encode()
    return struct.pack("=8sIIII", b"libudev\0", 0xFEEDCAFE, 40, 40, len(text)) + bytes(16) + text


@pytest.mark.parametrize(
    "make", [lambda **p: uevent("add", **p), from_udev], ids=["kernel", "udev"]
)
@pytest.mark.parametrize(
    ("properties", "matters"),
    [
        ({"SUBSYSTEM": "net", "INTERFACE": "eth0"}, True),
        ({"SUBSYSTEM": "pci", "PCI_CLASS": "20000"}, True),
        ({"SUBSYSTEM": "pci", "PCI_CLASS": "20700"}, True),
        ({"SUBSYSTEM": "pci", "PCI_CLASS": "C0600"}, True),
        ({"SUBSYSTEM": "pci", "PCI_CLASS": "10802"}, False),
        ({"SUBSYSTEM": "pci", "PCI_CLASS": "200"}, False),
        ({"SUBSYSTEM": "virtio", "MODALIAS": "virtio:d00000001v00001AF4"}, True),
        ({"SUBSYSTEM": "virtio", "MODALIAS": "virtio:d00000002v00001AF4"}, False),
        ({"SUBSYSTEM": "vmbus"}, True),
        ({"SUBSYSTEM": "block"}, False),
        ({"SUBSYSTEM": "queues"}, False),
        ({}, False),
    ],
)
def test_relevant_uevents(
    make: Callable[..., bytes], properties: dict[str, str], matters: bool
) -> None:
    assert parse_uevent(make(**properties)).items() >= properties.items()
    assert parse_uevent_relevance(make(**properties)) is matters


def test_a_uevent_with_wrong_offsets_is_empty() -> None:
    assert parse_uevent(struct.pack("=8sIIII", b"libudev\0", 0xFEEDCAFE, 40, 2**31, 2**31)) == {}


# -------------------------------------------------------------------------------------- real events


class EventLog:
    """All changes that `events` has returned, and how often the inventory was out of date."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.changes: list[dict[str, Any]] = []
        self.sources: list[str] = []

    def until(self, condition: Callable[[EventLog], object], limit: float = TEST_TIMEOUT) -> None:
        end = time.monotonic() + limit
        while not condition(self):
            readable, _, _ = select.select(
                list(self.events.sockets), [], [], max(0.0, end - time.monotonic())
            )
            assert readable, f"not received: {self.changes[-5:]}"
            for descriptor in readable:
                changes, source = self.events.read(descriptor)
                self.changes += changes
                self.sources += [source] if source else []

    def last(self, name: str) -> dict[str, Any]:
        return next((change for change in reversed(self.changes) if change["name"] == name), {})


@pytest.fixture
def log(namespace: Namespace) -> Iterator[EventLog]:
    events = namespace.call(Events)
    yield EventLog(events)
    events.close()


def test_root_has_all_event_sources(log: EventLog) -> None:
    assert set(log.events.missing) <= {"ethtool"}  # a kernel before 5.6 has no such family
    assert {name for name, _ in log.events.sockets.values()} >= {"rtnetlink", "uevents"}


def test_a_link_is_added_renamed_changed_and_removed(namespace: Namespace, log: EventLog) -> None:
    namespace.run(["ip", "link", "add", "name", "left", "type", "veth", "peer", "name", "right"])
    log.until(lambda log: log.last("left") and log.last("right") and "link" in log.sources)
    left = log.last("left")
    assert (left["gone"], left["carrier"], left["mtu"]) == (False, None, 1500)

    namespace.run(["ip", "link", "set", "dev", "left", "name", "[b]ü"])
    log.until(lambda log: log.last("[b]ü"))
    assert log.last("[b]ü")["ifindex"] == left["ifindex"]

    namespace.run(["ip", "link", "set", "dev", "[b]ü", "mtu", "9000", "up"])
    log.until(
        lambda log: log.last("[b]ü").get("mtu") == 9000 and log.last("[b]ü")["carrier"] is False
    )
    namespace.run(["ip", "link", "set", "dev", "right", "up"])
    log.until(
        lambda log: log.last("[b]ü")["carrier"] is True and log.last("[b]ü")["operstate"] == "up"
    )
    assert log.last("[b]ü")["flags"] & LOWER_UP

    namespace.run(["ip", "link", "del", "dev", "right"])
    log.until(lambda log: log.last("[b]ü")["gone"] and log.last("right")["gone"])


@pytest.fixture
def other() -> Iterator[Namespace]:
    found = Namespace()
    yield found
    found.remove()


@pytest.mark.parametrize(
    "command",
    [
        "ip link set dev right mtu 1400",
        "ip link set dev right up",
        "ip address add 192.0.2.1/24 dev right",
        "ip link del dev right",
    ],
)
def test_the_other_end_of_a_veth_requests_an_inventory(
    namespace: Namespace, other: Namespace, command: str
) -> None:
    """What is known of it is of the last inventory, and no link of this namespace changes."""
    argv = "ip link add name left type veth peer name right netns"
    namespace.run([*argv.split(), other.name])
    namespace.run(["ip", "link", "show"])  # the kernel gives the other namespace its id
    log = EventLog(namespace.call(Events))
    other.run(command.split())
    log.until(lambda log: "another namespace" in log.sources)
    log.events.close()


def test_an_event_of_this_namespace_is_not_one_of_another(namespace: Namespace) -> None:
    """Its socket has those as well, and this namespace may have an id in itself."""
    namespace.run(["ip", "link", "add", "name", "left", "type", "veth", "peer", "name", "right"])
    namespace.run(["ip", "netns", "set", namespace.name, "7"])
    log = EventLog(namespace.call(Events))
    namespace.run(["ip", "link", "set", "dev", "left", "mtu", "1400"])
    log.until(lambda log: log.last("left").get("mtu") == 1400)
    assert "another namespace" not in log.sources
    heard = next(fd for fd, (name, _) in log.events.sockets.items() if name == OTHER_NAMESPACES)
    assert namespace.call(lambda: log.events.read(heard)) == ([], "")
    log.events.close()


@pytest.mark.parametrize(
    ("number", "euid", "held", "expected"),
    [
        (errno.EPERM, 0, {12}, False),
        (errno.EPERM, 0, set(), True),
        (errno.EPERM, 1000, {12}, True),
        (errno.ENOPROTOOPT, 0, {12}, True),
    ],
    ids=["can be read", "root of a container", "a user", "an old kernel"],
)
def test_namespaces_that_cannot_be_read_are_not_missed(
    monkeypatch: pytest.MonkeyPatch, number: int, euid: int, held: set[int], expected: bool
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: euid)
    monkeypatch.setattr(kernel_events, "held_capabilities", lambda: frozenset(held))
    error = OSError(number, "refused")
    assert kernel_events.has_nothing_to_tell(OTHER_NAMESPACES, error) is expected
    assert not kernel_events.has_nothing_to_tell("rtnetlink", error)


def test_leaving_a_bridge_is_not_a_removal(namespace: Namespace, log: EventLog) -> None:
    if not namespace.try_link("name", "bridge0", "type", "bridge"):
        pytest.skip("this kernel has no bridges")
    namespace.run(["ip", "link", "add", "name", "left", "type", "veth", "peer", "name", "right"])
    namespace.run(["ip", "link", "set", "dev", "left", "master", "bridge0"])
    namespace.run(["ip", "link", "set", "dev", "left", "nomaster"])
    namespace.run(["ip", "link", "set", "dev", "left", "mtu", "1400"])  # the last event
    log.until(lambda log: log.last("left").get("mtu") == 1400)
    assert not any(change["gone"] for change in log.changes)


def test_a_setting_of_a_bridge_port_requests_an_inventory(
    namespace: Namespace, log: EventLog
) -> None:
    """Without a change of the link: the kernel sends RTM_NEWLINK with AF_BRIDGE."""
    if shutil.which("bridge") is None or not namespace.try_link(
        "name", "bridge0", "type", "bridge"
    ):
        pytest.skip("no bridge command, or no bridges")
    namespace.run(["ip", "link", "add", "name", "left", "type", "veth", "peer", "name", "right"])
    namespace.run(["ip", "link", "set", "dev", "left", "master", "bridge0"])
    namespace.run(["ip", "link", "set", "dev", "left", "mtu", "1400"])
    log.until(lambda log: log.last("left").get("mtu") == 1400)
    rtnetlink = next(fd for fd, (name, _) in log.events.sockets.items() if name == "rtnetlink")
    log.events.read(rtnetlink)
    namespace.run(["bridge", "link", "set", "dev", "left", "isolated", "on"])
    assert log.events.read(rtnetlink) == ([], "link")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ip address add 192.0.2.1/24 dev lo", "address"),
        ("ip -6 address add 2001:db8::1/64 dev lo", "address"),
        ("ip route add default dev lo", "default route"),
        ("ip route add 198.51.100.0/24 dev lo", "route"),
        ("ip route add blackhole 198.51.100.0/24", "route"),
        ("ip -6 route add 2001:db8:9::/48 dev lo", "route"),
        ("ip route add 198.51.100.0/24 dev lo proto bird", ""),
        ("ip -6 route add fe80:0:0:9::/64 dev lo", ""),
        ("ip rule add from 192.0.2.9 table 7", "routing rule"),
    ],
)
def test_addresses_and_routes_request_an_inventory(
    namespace: Namespace, log: EventLog, command: str, expected: str
) -> None:
    namespace.run(["ip", "link", "add", "name", "left", "type", "veth", "peer", "name", "right"])
    log.until(lambda log: log.last("left") and log.last("right"))
    rtnetlink = next(fd for fd, (name, _) in log.events.sockets.items() if name == "rtnetlink")
    uevents = next(fd for fd, (name, _) in log.events.sockets.items() if name == "uevents")
    for descriptor in (rtnetlink, uevents):
        log.events.read(descriptor)
    namespace.run(command.split())
    readable, _, _ = select.select([rtnetlink], [], [], TEST_TIMEOUT)
    assert readable
    changes, source = log.events.read(rtnetlink)
    assert not changes
    assert source == expected
    assert log.events.daemon_routes == ("bird" in command)


def test_a_renewed_address_requests_no_inventory(namespace: Namespace, log: EventLog) -> None:
    rtnetlink = next(fd for fd, (name, _) in log.events.sockets.items() if name == "rtnetlink")
    sources = []
    for life in ("1000", "2000"):
        argv = (
            f"ip -6 address replace 2001:db8::1/64 dev lo valid_lft {life} preferred_lft "
            f"{life} nodad noprefixroute"
        )
        namespace.run(argv.split())
        assert select.select([rtnetlink], [], [], TEST_TIMEOUT)[0]
        sources.append(log.events.read(rtnetlink)[1])
    assert sources == ["address", ""]


def test_ethtool_settings_request_an_inventory(namespace: Namespace, log: EventLog) -> None:
    ethtool = [fd for fd, (name, _) in log.events.sockets.items() if name == "ethtool"]
    if not ethtool:
        pytest.skip(f"no ethtool events here: {log.events.missing['ethtool']}")
    namespace.run(["ip", "link", "add", "name", "left", "type", "veth", "peer", "name", "right"])
    try:
        namespace.run(["ethtool", "-K", "left", "gro", "on"])
    except FileNotFoundError:
        pytest.skip("ethtool is not installed")
    assert select.select(ethtool, [], [], TEST_TIMEOUT)[0]
    assert log.events.read(ethtool[0]) == ([], "ethtool setting")


@pytest.mark.parametrize(
    ("commands", "expected"),
    [((7,), True), ((54,), True), ((60, 76), True), ((58,), False), ((60, 63), False), ((), False)],
)
def test_messages_of_devlink(commands: tuple[int, ...], expected: bool) -> None:
    """PORT_NEW, HEALTH_REPORTER_RECOVER and RATE_NEW; FLASH_UPDATE, its status and TRAP_NEW do not
    change anything."""
    data = b"".join(
        netlink.HEADER.pack(20, 29, 0, 0, 0) + netlink.GENERIC_HEADER.pack(one, 1)
        for one in commands
    )
    assert is_devlink_change(data) is expected
    assert parse_event("devlink", data) == ("devlink" if expected else "")
    assert is_devlink_change(data + b"\0" * 7) is expected


def test_a_kernel_without_devlink_misses_nothing(namespace: Namespace, log: EventLog) -> None:
    assert "devlink" not in log.events.missing


def test_lost_events_request_an_inventory(namespace: Namespace, log: EventLog) -> None:
    """More events than the socket can hold: the kernel reports ENOBUFS, and an inventory is
    needed."""
    descriptor, (_, connection) = next(
        item for item in log.events.sockets.items() if item[1][0] == "rtnetlink"
    )
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    for number in range(30):  # irrelevant routes: only the loss requests an inventory
        namespace.run(["ip", "route", "add", f"198.51.100.{number}/32", "dev", "lo"])
    assert log.events.read(descriptor) == ([], "events were lost")
    assert log.events.read(descriptor) == ([], "")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, kernel_events.EVENT_SOCKET_BYTES)
    namespace.run(["ip", "link", "add", "name", "after", "type", "veth", "peer", "name", "wards"])
    log.until(lambda log: log.last("after"))


def test_a_message_of_another_process_is_not_an_event(log: EventLog) -> None:
    """Any process may send to this port; only messages of the kernel to a group are events."""
    descriptor, (_, connection) = next(
        item for item in log.events.sockets.items() if item[1][0] == "uevents"
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, netlink.NETLINK_KOBJECT_UEVENT) as other:
        try:
            other.sendto(uevent("add", SUBSYSTEM="net"), (connection.getsockname()[0], 0))
        except OSError as error:
            pytest.skip(f"refused by the kernel: {error}")
    assert log.events.read(descriptor) == ([], "")


@pytest.fixture
def kernel_log() -> Iterator[tuple[Events, socket.socket]]:
    """Events with a kernel log, and where its records are written: a datagram socket has one for
    each read, and EAGAIN at the end, as /dev/kmsg has."""
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with reader, writer:
        reader.setblocking(False)
        events = Events.__new__(Events)
        events.sockets, events._log = {}, reader.fileno()
        yield events, writer


HANG = (
    b"4,1,5000000,-;igb 0000:02:00.0 eth0: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out "
    b"5010 ms\n"
)
ORDINARY = (
    b"6,2,5000000,-;igb 0000:02:00.0 eth0: igb: eth0 NIC Link is Up 1000 Mbps Full "
    b"Duplex\n SUBSYSTEM=pci\n"
)


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([], False),
        ([ORDINARY], False),
        ([b"30,1,5,-;systemd[1]: Started Session 1 of user root.\n", b"", b"\xff;;"], False),
        ([ORDINARY, HANG, ORDINARY], True),
        (
            [
                b"3,1,5,-;igb 0000:02:00.0: Detected Tx Unit Hang\\x0a  Tx Queue  <1>\n "
                b"SUBSYSTEM=pci\n"
            ],
            True,
        ),
        (
            [
                b"27,1,5,-;(udev-worker)[9]: eth0: Failed to rename network interface 2 from "
                b"'eth0' to 'ens3'\n"
            ],
            True,
        ),
    ],
)
def test_known_kernel_messages(
    kernel_log: tuple[Events, socket.socket], records: list[bytes], *, found: bool
) -> None:
    """Only those since the last call count."""
    events, log = kernel_log
    for record in records:
        log.send(record)
    assert events.has_known_messages() == found
    assert not events.has_known_messages()


def test_more_kernel_messages_than_are_read_at_once(
    kernel_log: tuple[Events, socket.socket],
) -> None:
    """Some of those that are skipped may be known."""
    events, log = kernel_log
    for _ in range(kernel_events.MAX_EVENTS_PER_WAKE):
        log.send(ORDINARY)
    assert events.has_known_messages()
    assert not events.has_known_messages()


def test_lost_kernel_messages_may_be_known(
    kernel_log: tuple[Events, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """EPIPE: overwritten before they were read."""
    events, _ = kernel_log

    def overwritten(descriptor: int, length: int) -> bytes:
        raise BrokenPipeError

    monkeypatch.setattr("nictop.probe.events.kernel.os.read", overwritten)
    assert events.has_known_messages()


def test_a_kernel_log_that_may_not_be_read() -> None:
    events = Events.__new__(Events)
    events._log = -1
    assert not events.has_known_messages()
