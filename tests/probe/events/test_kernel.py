"""Events: what happens to a link is told at once and right; what matters not is not a reason for an inventory."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.events import kernel as hotplug
from nictop.probe.events.kernel import (
    Debouncer,
    Events,
    parse_address,
    parse_link_change,
    parse_uevent,
    parse_uevent_matters,
)
from nictop.probe.kernel import netlink, rtnetlink
from nictop.probe.records import LinkChange
from tests.support.namespaces import Namespace
from tests.support.probe import LIMIT

UP, LOWER_UP = 0x1, 0x10000


def link_message(*, family: int = 0, ifindex: int = 7, flags: int = UP, **attributes: bytes) -> bytes:
    given = {
        "name": netlink.pack_text(rtnetlink.IFLA_IFNAME, "eth0"),
        "mtu": netlink.pack_u32(rtnetlink.IFLA_MTU, 1500),
        "operstate": netlink.pack(rtnetlink.IFLA_OPERSTATE, b"\6"),
        "carrier": netlink.pack(rtnetlink.IFLA_CARRIER, b"\1"),
        **attributes,
    }
    return rtnetlink.IFINFOMSG.pack(family, 1, ifindex, flags, 0) + b"".join(given.values())


def test_a_change_has_the_shape_of_the_record() -> None:
    change = parse_link_change(link_message(), gone=False, moment=1.5)
    assert change is not None
    assert LinkChange(**change) == LinkChange(1.5, 7, False, "eth0", "up", True, UP, 1500)  # type: ignore[arg-type]
    assert list(change) == list(vars(LinkChange(1.5, 7, False, "eth0", "up", True, UP, 1500)))


@pytest.mark.parametrize(("number", "words"), list(enumerate([*rtnetlink.OPERSTATES, "unknown"])))
def test_operstates_in_words(number: int, words: str) -> None:
    state = netlink.pack(rtnetlink.IFLA_OPERSTATE, bytes([number]))
    change = parse_link_change(link_message(operstate=state), gone=False, moment=0.0)
    assert change is not None and change["operstate"] == words


NO_CARRIER = netlink.pack(rtnetlink.IFLA_CARRIER, b"\0")


@pytest.mark.parametrize(
    ("flags", "attribute", "expected"),
    [(0, NO_CARRIER, None), (UP, NO_CARRIER, False), (UP, b"", None)],
    ids=["down", "up", "not said"],
)
def test_carrier_is_unknown_while_the_link_is_down(flags: int, attribute: bytes, expected: bool | None) -> None:
    change = parse_link_change(link_message(flags=flags, carrier=attribute), gone=False, moment=0.0)
    assert change is not None and change["carrier"] is expected


@pytest.mark.parametrize(
    "body",
    [
        link_message(family=socket.AF_BRIDGE),
        link_message(wireless=netlink.pack(rtnetlink.IFLA_WIRELESS, b"scan")),
        link_message(mtu=b"", operstate=b""),
        link_message(ifindex=0),
        link_message()[:15],
        b"",
    ],
    ids=["bridge port", "wireless", "no state", "no link", "cut off", "empty"],
)
def test_messages_that_are_no_change_of_a_link(body: bytes) -> None:
    assert parse_link_change(body, gone=True, moment=0.0) is None


@pytest.mark.parametrize("name", [b"tap[/x]", b'q"uote\\', "ünï".encode(), b"\x1b[2J\x07", b"\xff\xfe"])
def test_any_name_is_data(name: bytes) -> None:
    change = parse_link_change(
        link_message(name=netlink.pack(rtnetlink.IFLA_IFNAME, name + b"\0")), gone=False, moment=0.0
    )
    assert change is not None and change["name"] == name.decode("utf-8", "replace")


@given(st.binary(max_size=200))
def test_any_bytes_are_survived(data: bytes) -> None:
    change = parse_link_change(data, gone=False, moment=0.0)
    assert change is None or (isinstance(change["mtu"], int) and isinstance(change["name"], str))
    assert isinstance(parse_address(data), bytes)
    assert all(isinstance(value, str) for value in parse_uevent(data).values())
    assert parse_uevent_matters(data) in (True, False)


def address_message(*, remaining: int, flags: int = 0x80, prefix: int = 64) -> bytes:
    body = rtnetlink.IFADDRMSG.pack(socket.AF_INET6, prefix, flags, 0, 3)
    body += netlink.pack(rtnetlink.IFA_ADDRESS, bytes(15) + b"\1")
    return body + netlink.pack(6, struct.pack("=4I", remaining, remaining, 0, 0))


def test_a_renewed_address_is_the_same_fact() -> None:
    assert parse_address(address_message(remaining=100)) == parse_address(address_message(remaining=900))
    assert parse_address(address_message(remaining=1)) != parse_address(address_message(remaining=1, prefix=128))
    assert parse_address(address_message(remaining=1)) != parse_address(address_message(remaining=1, flags=0x40))


def uevent(action: str, **properties: str) -> bytes:
    lines = [f"{action}@/devices/x", f"ACTION={action}", *(f"{key}={value}" for key, value in properties.items())]
    return "\0".join(lines).encode() + b"\0"


def from_udev(**properties: str) -> bytes:
    text = "".join(f"{key}={value}\0" for key, value in properties.items()).encode()
    return struct.pack("=8sIIII", b"libudev\0", 0xFEEDCAFE, 40, 40, len(text)) + bytes(16) + text


@pytest.mark.parametrize("make", [lambda **p: uevent("add", **p), from_udev], ids=["kernel", "udev"])
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
def test_which_uevents_matter(make: Callable[..., bytes], properties: dict[str, str], matters: bool) -> None:
    assert parse_uevent(make(**properties)).items() >= properties.items()
    assert parse_uevent_matters(make(**properties)) is matters


def test_a_uevent_with_lying_offsets_is_empty() -> None:
    assert parse_uevent(struct.pack("=8sIIII", b"libudev\0", 0xFEEDCAFE, 40, 2**31, 2**31)) == {}


# ------------------------------------------------------------------------------------------- real events


class Heard:
    """What `Events` told so far."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.changes: list[dict[str, Any]] = []
        self.stale = 0

    def until(self, fact: Callable[[Heard], object], limit: float = LIMIT) -> None:
        end = time.monotonic() + limit
        while not fact(self):
            readable, _, _ = select.select(list(self.events.sockets), [], [], max(0.0, end - time.monotonic()))
            assert readable, f"not heard: {self.changes[-5:]}"
            for descriptor in readable:
                changes, stale = self.events.take(descriptor)
                self.changes += changes
                self.stale += stale

    def last(self, name: str) -> dict[str, Any]:
        return next((change for change in reversed(self.changes) if change["name"] == name), {})


@pytest.fixture
def heard(namespace: Namespace) -> Iterator[Heard]:
    events = namespace.inside(Events)
    yield Heard(events)
    events.close()


def test_nothing_is_missing_for_root(heard: Heard) -> None:
    assert set(heard.events.missing) <= {"ethtool"}  # a kernel before 5.6 has no such family
    assert {name for name, _ in heard.events.sockets.values()} >= {"rtnetlink", "uevents"}


def test_a_link_appears_is_renamed_changes_and_goes(namespace: Namespace, heard: Heard) -> None:
    namespace.run(["ip", "link", "add", "name", "left", "type", "veth", "peer", "name", "right"])
    heard.until(lambda h: h.last("left") and h.last("right") and h.stale)
    left = heard.last("left")
    assert (left["gone"], left["carrier"], left["mtu"]) == (False, None, 1500)

    namespace.run(["ip", "link", "set", "dev", "left", "name", "[b]ü"])
    heard.until(lambda h: h.last("[b]ü"))
    assert heard.last("[b]ü")["ifindex"] == left["ifindex"]

    namespace.run(["ip", "link", "set", "dev", "[b]ü", "mtu", "9000", "up"])
    heard.until(lambda h: h.last("[b]ü").get("mtu") == 9000 and h.last("[b]ü")["carrier"] is False)
    namespace.run(["ip", "link", "set", "dev", "right", "up"])
    heard.until(lambda h: h.last("[b]ü")["carrier"] is True and h.last("[b]ü")["operstate"] == "up")
    assert heard.last("[b]ü")["flags"] & LOWER_UP

    namespace.run(["ip", "link", "del", "dev", "right"])
    heard.until(lambda h: h.last("[b]ü")["gone"] and h.last("right")["gone"])


def test_leaving_a_bridge_is_not_going_away(namespace: Namespace, heard: Heard) -> None:
    if not namespace.try_link("name", "bridge0", "type", "bridge"):
        pytest.skip("this kernel has no bridges")
    namespace.run(["ip", "link", "add", "name", "left", "type", "veth", "peer", "name", "right"])
    namespace.run(["ip", "link", "set", "dev", "left", "master", "bridge0"])
    namespace.run(["ip", "link", "set", "dev", "left", "nomaster"])
    namespace.run(["ip", "link", "set", "dev", "left", "mtu", "1400"])  # the last thing to be heard
    heard.until(lambda h: h.last("left").get("mtu") == 1400)
    assert not any(change["gone"] for change in heard.changes)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ip address add 192.0.2.1/24 dev lo", True),
        ("ip -6 address add 2001:db8::1/64 dev lo", True),
        ("ip route add default dev lo", True),
        ("ip route add 198.51.100.0/24 dev lo", False),
    ],
)
def test_addresses_and_default_routes_call_for_an_inventory(
    namespace: Namespace, heard: Heard, command: str, expected: bool
) -> None:
    """The link that is added last ends the wait in any case; what was stale before it is the answer."""
    namespace.run(["ip", "link", "add", "name", "left", "type", "veth", "peer", "name", "right"])
    heard.until(lambda h: h.last("left") and h.last("right"))
    rtnetlink = next(fd for fd, (name, _) in heard.events.sockets.items() if name == "rtnetlink")
    uevents = next(fd for fd, (name, _) in heard.events.sockets.items() if name == "uevents")
    for descriptor in (rtnetlink, uevents):
        heard.events.take(descriptor)
    namespace.run(command.split())
    readable, _, _ = select.select([rtnetlink], [], [], LIMIT)
    assert readable
    changes, stale = heard.events.take(rtnetlink)
    assert not changes
    assert stale is expected


def test_the_same_address_again_is_no_news(namespace: Namespace, heard: Heard) -> None:
    rtnetlink = next(fd for fd, (name, _) in heard.events.sockets.items() if name == "rtnetlink")
    answers = []
    for life in ("1000", "2000"):
        argv = f"ip -6 address replace 2001:db8::1/64 dev lo valid_lft {life} preferred_lft {life} nodad noprefixroute"
        namespace.run(argv.split())
        assert select.select([rtnetlink], [], [], LIMIT)[0]
        answers.append(heard.events.take(rtnetlink)[1])
    assert answers == [True, False]


def test_settings_call_for_an_inventory(namespace: Namespace, heard: Heard) -> None:
    ethtool = [fd for fd, (name, _) in heard.events.sockets.items() if name == "ethtool"]
    if not ethtool:
        pytest.skip(f"no ethtool events here: {heard.events.missing['ethtool']}")
    namespace.run(["ip", "link", "add", "name", "left", "type", "veth", "peer", "name", "right"])
    try:
        namespace.run(["ethtool", "-K", "left", "gro", "on"])
    except FileNotFoundError:
        pytest.skip("ethtool is not installed")
    assert select.select(ethtool, [], [], LIMIT)[0]
    assert heard.events.take(ethtool[0]) == ([], True)


def test_lost_events_call_for_an_inventory(namespace: Namespace, heard: Heard) -> None:
    """More than the socket holds: the kernel says ENOBUFS, and the picture is taken anew."""
    descriptor, (_, connection) = next(item for item in heard.events.sockets.items() if item[1][0] == "rtnetlink")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    for number in range(30):  # routes that do not matter: nothing but the loss itself can call for an inventory
        namespace.run(["ip", "route", "add", f"198.51.100.{number}/32", "dev", "lo"])
    assert heard.events.take(descriptor) == ([], True)
    assert heard.events.take(descriptor) == ([], False)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, hotplug.RECEIVE_SPACE)
    namespace.run(["ip", "link", "add", "name", "after", "type", "veth", "peer", "name", "wards"])
    heard.until(lambda h: h.last("after"))


def test_a_message_from_another_process_is_no_event(heard: Heard) -> None:
    """Any process may send to our port; only what comes from the kernel, to a group, counts."""
    descriptor, (_, connection) = next(item for item in heard.events.sockets.items() if item[1][0] == "uevents")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, netlink.NETLINK_KOBJECT_UEVENT) as other:
        try:
            other.sendto(uevent("add", SUBSYSTEM="net"), (connection.getsockname()[0], 0))
        except OSError as error:
            pytest.skip(f"the kernel does not even let it pass: {error}")
    assert heard.events.take(descriptor) == ([], False)


# ------------------------------------------------------------------------------------------- when to act


def test_a_burst_is_awaited_once() -> None:
    calm = Debouncer()
    assert calm.due() is None
    for moment in (10.0, 10.1, 10.2):
        calm.want("event", moment)
    assert calm.due() == pytest.approx(10.35)
    assert calm.started() == "event"
    assert calm.due() is None


def test_a_burst_without_end_is_not_awaited_for_ever() -> None:
    calm = Debouncer()
    for tenth in range(100):
        calm.want("event", 10 + tenth / 10)
    assert calm.due() == pytest.approx(11.0)


def test_between_inventories_there_is_rest() -> None:
    """In a storm an inventory that takes 0.4 s costs a fifth of a core, not a whole one."""
    calm, now, spent = Debouncer(), 0.0, 0.0
    while now < 60.0:
        calm.want("event", now)
        due = calm.due()
        assert due is not None
        now = max(now, due)
        calm.started()
        now += 0.4
        spent += 0.4
        calm.finished(now, 0.4)
    assert spent / now < 0.22


def test_two_events_after_a_calm_do_not_wait_for_rest() -> None:
    """A fault, and its cure some seconds later, on a host on which an inventory takes 3 s; the third one waits."""
    calm = Debouncer()
    calm.finished(0.0, 3.0)
    moments = []
    for event in (100.0, 104.0, 108.0):
        calm.want("event", event)
        due = calm.due()
        assert due is not None
        moments.append(due)
        calm.started()
        calm.finished(due + 3.0, 3.0)
    assert moments == pytest.approx([100.15, 104.15, 104.15 + 3.0 + 12.0])


def test_what_happens_meanwhile_wants_another_one() -> None:
    calm = Debouncer()
    calm.want("start", 1.0, at_once=True)
    assert calm.due() == pytest.approx(1.0)
    assert calm.started() == "start"
    calm.want("event", 1.1)
    calm.finished(1.2, 0.2)
    assert calm.due() == pytest.approx(2.0)


def test_who_asks_does_not_wait_for_rest() -> None:
    """Nor for quiet, nor behind an event that does; what comes afterwards rests again."""
    calm = Debouncer()
    calm.want("start", 0.0, at_once=True)
    calm.started()
    calm.want("event", 8.9)
    calm.finished(9.0, 9.0)  # rest until 45
    calm.want("request", 10.0, asked=True)
    due = calm.due()
    assert due is not None and due <= 10.0
    calm.started()
    calm.finished(19.0, 9.0)
    calm.want("event", 20.0)
    assert calm.due() == pytest.approx(55.0)


def test_without_events_there_is_a_slow_rescan_and_it_respects_the_rest() -> None:
    calm = Debouncer()
    calm.want("start", 0.0, at_once=True)
    calm.started()
    calm.rescan = 10.0
    calm.finished(9.0, 9.0)  # a slow machine: rest until 45
    assert calm.due() == pytest.approx(45.0)
    assert calm.started() == "re-scan"
    calm.rescan = 345.0
    calm.finished(46.0, 0.1)
    assert calm.due() == pytest.approx(345.0)
    calm.want("event", 100.0)
    assert calm.due() == pytest.approx(100.15)
