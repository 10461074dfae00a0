"""Listening for LLDP on request: on real veths, its end in every case, and requests that are not
valid."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from nictop.probe.records import LldpListening, Unreadable
from nictop.probe.traffic import lldp
from nictop.probe.traffic.requests import TrafficCommand
from tests.support.lldp_frames import (
    aggregation,
    cdp_frame,
    lldp_frame,
    lldpdu,
    max_frame,
    pvid,
    send_frame,
)
from tests.support.namespaces import Namespace
from tests.support.probe import Probe, is_alive, wait_until

SWITCH = lldp_frame(lldpdu(pvid(10), max_frame(9236), aggregation(3, 7)))
CISCO = cdp_frame((1, b"sw2.example"), (3, b"GigabitEthernet1/0/7"))
GROUP = "01:80:c2:00:00:0e"


@pytest.fixture
def veths(namespace: Namespace) -> Namespace:
    """v1 and v2, whose other ends are far1 and far2."""
    namespace.disable_ipv6()
    for number in (1, 2):
        namespace.run(
            ["ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", f"far{number}"]
        )
        for name in (f"v{number}", f"far{number}"):
            namespace.run(["ip", "link", "set", "dev", name, "up"])
    return namespace


def ifindex_of(namespace: Namespace, name: str) -> int:
    return namespace.call(lambda: socket.if_nametoindex(name))


def groups(namespace: Namespace, name: str) -> str:
    return namespace.run(["ip", "maddr", "show", "dev", name])


def request(links: list[int], deadline: float = 30.0) -> dict[str, Any]:
    return {"traffic": {"id": "x-lldp", "action": "lldp", "links": links, "deadline": deadline}}


@pytest.fixture
def listening(veths: Namespace) -> Iterator[tuple[Namespace, Probe, dict[str, int]]]:
    """A probe that listens on v1 and v2."""
    indexes = {name: ifindex_of(veths, name) for name in ("v1", "v2")}
    with Probe(namespace=veths) as probe:
        probe.wait_for(lambda line: line.counters)
        probe.send(request(list(indexes.values())))
        wait_until(lambda: all(GROUP in groups(veths, name) for name in indexes))
        yield veths, probe, indexes


def test_it_ends_with_the_first_frame_of_the_last_nic(
    listening: tuple[Namespace, Probe, dict[str, int]],
) -> None:
    namespace, probe, indexes = listening
    assert "PROMISC" not in namespace.run(["ip", "link", "show", "dev", "v1"])
    send_frame(
        namespace, "far1", bytes.fromhex("0180c200000e") + bytes(6) + b"\x88\xcc" + bytes(46)
    )
    send_frame(namespace, "far1", SWITCH)
    first = probe.wait_for(lambda line: line.traffic and line.traffic.kind == "lldp").traffic
    assert (
        first is not None and first.lldp is not None and list(first.lldp.heard) == [indexes["v1"]]
    )
    (neighbour,) = first.lldp.heard.values()
    assert (neighbour.system_name, neighbour.pvid, neighbour.aggregation) == ("sw1", 10, "enabled")
    send_frame(namespace, "far2", CISCO)
    second = probe.wait_for(lambda line: line.traffic and line.traffic.kind == "lldp").traffic
    assert second is not None and second.lldp is not None
    (neighbour,) = second.lldp.heard.values()
    assert (neighbour.protocol, neighbour.port) == ("CDP", "GigabitEthernet1/0/7")
    last = probe.wait_for(lambda line: line.traffic and line.traffic.kind == "lldp").traffic
    assert last is not None and last.lldp is not None and last.lldp.ended and not last.lldp.heard
    ended = probe.wait_for(lambda line: line.traffic and line.traffic.kind == "exit").traffic
    assert ended is not None and ended.status == 0
    assert GROUP not in groups(namespace, "v1") + groups(namespace, "v2")


def test_a_stop_ends_it(listening: tuple[Namespace, Probe, dict[str, int]]) -> None:
    namespace, probe, _ = listening
    probe.send({"traffic": {"id": "x-lldp", "action": "stop"}})
    probe.wait_for(lambda line: line.traffic and line.traffic.kind in ("exit", "failed"))
    assert GROUP not in groups(namespace, "v1")


def test_nothing_is_left_of_a_killed_probe(
    listening: tuple[Namespace, Probe, dict[str, int]],
) -> None:
    namespace, probe, _ = listening
    child = next(pid for pid in probe.children() if is_alive(pid))
    os.kill(probe.process.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(child))
    wait_until(lambda: GROUP not in groups(namespace, "v1"))


def test_it_ends_at_the_deadline(veths: Namespace) -> None:
    ifindex = ifindex_of(veths, "v1")
    with Probe(namespace=veths) as probe:
        probe.send(request([ifindex], 0.2))
        line = probe.wait_for(lambda line: line.traffic and line.traffic.kind == "lldp").traffic
        assert line is not None
        assert (
            line.lldp is not None
            and line.lldp.ended
            and not line.lldp.heard
            and line.lldp.seconds >= 0.2
        )
        probe.wait_for(lambda line: line.traffic and line.traffic.kind == "exit")


def test_a_nic_that_is_flooded_is_given_up_and_the_others_are_not(
    veths: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lldp, "MAX_FRAMES", 100)
    indexes = [ifindex_of(veths, name) for name in ("v1", "v2")]
    other = bytes.fromhex("01000ccccccc") + bytes(6) + b"\x00\x30" + b"\x42\x42\x03" + bytes(45)
    reports: list[LldpListening] = []

    channels: list[socket.socket] = []

    def listened() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as far:
            far.bind(("far1", 0))
            opened = lldp.open_sockets

            def open_and_flood(ifindex: int) -> list[socket.socket]:
                found = opened(ifindex)
                channels.extend(found)
                if ifindex == indexes[0]:
                    for _ in range(100):
                        far.send(other)
                return found

            monkeypatch.setattr(lldp, "open_sockets", open_and_flood)
            lldp.listen_for_lldp(indexes, 0.3, reports.append)  # type: ignore[arg-type]
            for one in channels:
                one.close()

    veths.call(listened)
    (report,) = reports
    assert report.ended and report.seconds >= 0.3
    assert list(report.unreadable) == [str(indexes[0])]
    assert report.unreadable[str(indexes[0])].detail.startswith("100 other frames within ")


def test_a_nic_that_it_may_not_listen_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> list[socket.socket]:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(lldp, "open_sockets", refuse)
    reports: list[object] = []
    lldp.listen_for_lldp([3, 4], 30.0, reports.append)
    (report,) = reports
    assert isinstance(report, LldpListening) and report.ended and report.links == (3, 4)
    assert {one: why.reason for one, why in report.unreadable.items()} == {
        "3": "needs_root",
        "4": "needs_root",
    }


def test_a_nic_that_is_gone() -> None:
    reports: list[LldpListening] = []
    lldp.listen_for_lldp([2**31 - 1], 30.0, reports.append)  # type: ignore[arg-type]
    (report,) = reports
    why = report.unreadable[str(2**31 - 1)]
    assert isinstance(why, Unreadable) and report.ended


def test_a_nic_that_is_deleted_meanwhile(
    listening: tuple[Namespace, Probe, dict[str, int]],
) -> None:
    namespace, probe, indexes = listening
    namespace.run(["ip", "link", "del", "v1"])
    send_frame(namespace, "far2", SWITCH)
    line = probe.wait_for(lambda line: line.traffic and line.traffic.kind == "lldp").traffic
    assert line is not None and line.lldp is not None and list(line.lldp.heard) == [indexes["v2"]]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"links": []},
        {"links": [0]},
        {"links": ["v1"]},
        {"links": list(range(1, 66))},
        {"links": [3], "deadline": 36.0},
        {"links": [3], "deadline": 0},
    ],
)
def test_requests_that_are_not_valid(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"links|deadline"):
        TrafficCommand({"id": "x", "action": "lldp", "deadline": 30.0, **fields})


def test_every_nic_is_listened_on_once() -> None:
    assert TrafficCommand(
        {"id": "x", "action": "lldp", "links": [3, 3, 4], "deadline": 35.0}
    ).links == (3, 4)
