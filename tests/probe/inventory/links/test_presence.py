"""Since when a netdev is known to be there: real ones, and the times of the kernel, which repeat."""

from __future__ import annotations

import struct
import time

import pytest

from nictop.probe.inventory.links.presence import (
    IFLA_AF_SPEC,
    IFLA_INET6_CACHEINFO,
    parse_address_time,
    parse_ipv6_time,
    read_presence,
    seconds_of_timer,
    time_of,
)
from nictop.probe.inventory.links.routes import IFA_CACHEINFO
from nictop.probe.kernel import netlink, rtnetlink
from tests.support.namespaces import Namespace

AF_INET6 = 10
WRAP_SECONDS = 2**32 / 100


def test_a_netdev_made_again_is_not_the_one_of_before(namespace: Namespace) -> None:
    namespace.run(["ip", "link", "add", "name", "left", "type", "veth", "peer", "name", "right"])
    namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "left"])
    first = namespace.call(read_presence)
    namespace.run(["ip", "link", "set", "dev", "left", "mtu", "1400", "up"])
    assert namespace.call(read_presence) == pytest.approx(first, abs=0.5)

    namespace.run(["ip", "link", "del", "dev", "left"])
    deleted = time.monotonic()
    namespace.run(["ip", "link", "add", "name", "left", "type", "veth", "peer", "name", "right"])
    namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "left"])
    again = namespace.call(read_presence)
    new = again.keys() - first.keys()
    assert new
    assert all(again[ifindex] >= deleted - 0.05 for ifindex in new)


def test_a_namespace_without_any_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise PermissionError

    monkeypatch.setattr("nictop.probe.inventory.links.presence.NetlinkSocket", refuse)
    assert read_presence() == {}


def test_the_time_of_an_address_and_of_the_ipv6_state() -> None:
    times = netlink.pack_attribute(IFA_CACHEINFO, struct.pack("=IIII", 1, 2, 777, 999))
    address = rtnetlink.IFADDRMSG.pack(2, 24, 0, 0, 7) + times
    assert parse_address_time(address) == (7, 777)
    assert parse_address_time(address[:-4]) is None

    state = netlink.pack_attribute(IFLA_INET6_CACHEINFO, struct.pack("=IIII", 1, 777, 2, 3))
    families = netlink.pack_attribute(IFLA_AF_SPEC, netlink.pack_attribute(AF_INET6, state))
    link = rtnetlink.IFINFOMSG.pack(0, 1, 7, 1, 0) + families
    assert parse_ipv6_time(link) == (7, 777)
    assert parse_ipv6_time(link[:16]) is None


@pytest.mark.parametrize(
    ("ticks", "timer", "seconds"),
    [(100, 10.0, 1.0), (1003, 10.0, 10.0), (100, WRAP_SECONDS + 10.0, WRAP_SECONDS + 1.0)],
    ids=["earlier", "some ticks ahead", "after 497 days"],
)
def test_ticks_are_those_of_the_latest_possible_time(
    ticks: int, timer: float, seconds: float
) -> None:
    assert time_of(ticks, timer) == pytest.approx(seconds, abs=0.02)


@pytest.mark.parametrize("hertz", [100, 250, 300, 1000])
@pytest.mark.parametrize("seconds", [1.0, 86_400.0, 90_000_000.0])
def test_the_timer_has_begun_later_than_the_clock(hertz: int, seconds: float) -> None:
    """By a quarter of a second here, by seconds on machines that start slowly."""
    elapsed = (2**32 - 300 * hertz) / hertz + seconds
    assert seconds_of_timer(elapsed, seconds + 5.0) == pytest.approx(seconds, abs=0.01)
