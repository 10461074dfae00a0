"""Neighbours of systemd-networkd, lldpd and NetworkManager: their formats, and daemons that hang or
refuse."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.lldp import lldpd, networkd
from nictop.probe.inventory.lldp.daemons import read_lldp
from nictop.probe.inventory.lldp.lldpd import parse_neighbours as parse_lldpd
from nictop.probe.inventory.lldp.networkd import parse_answers, parse_lldp_file, read_networkd_lldp
from nictop.probe.inventory.lldp.networkmanager import parse_neighbours
from nictop.probe.kernel import other_processes, waiting
from nictop.probe.records import Link, LldpNeighbour, Services, Unreadable
from tests.support.lldp_frames import ROUTER, aggregation, lldp_frame, lldpdu, max_frame, pvid

LINK = Link(3, "v1", 1, 0x1043, "up", True, 1500)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "lldp",
                    "interface",
                    "name",
                    "value",
                    "chassis",
                    "port",
                    "id",
                    "vlan",
                    "via",
                    "parameters",
                    "Neighbors",
                    "InterfaceIndex",
                    "raw",
                    "chassis-id",
                    "port-id",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)

# --------------------------------------------------------------------------------- systemd-networkd


def record(frame: bytes) -> bytes:
    return len(frame).to_bytes(8, "little") + frame


def state_file(run: Path, ifindex: int, content: bytes) -> None:
    folder = run / "systemd/netif/lldp"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(ifindex)).write_bytes(content)


def test_the_state_file_of_networkd(tmp_path: Path) -> None:
    state_file(tmp_path, 3, record(lldp_frame(lldpdu(pvid(10)))))
    state_file(
        tmp_path,
        4,
        record(lldp_frame(lldpdu())) + record(lldp_frame(lldpdu(port=b"\5Ethernet1/8"))),
    )
    state_file(tmp_path, 5, b"")
    found, trouble = read_networkd_lldp(str(tmp_path))
    assert trouble is None and list(found) == [3, 4]
    (one,) = found[3]
    assert (one.source, one.pvid, one.port) == ("networkd", 10, "Ethernet1/7")
    assert one.age is not None and 0 <= one.age < 60
    assert [neighbour.age for neighbour in found[4]] == [None, None]  # one of them may be older


@given(st.binary(max_size=120))
def test_any_state_file(content: bytes) -> None:
    parse_lldp_file(content, 1.0)
    parse_lldp_file(record(lldp_frame(lldpdu())) + content)


@pytest.fixture
def varlink(tmp_path: Path) -> Iterator[tuple[Path, list[bytes], list[bytes]]]:
    """A server at the socket of networkd: sends the answers that the test appends, and records the
    request."""
    folder = tmp_path / "systemd/netif"
    folder.mkdir(parents=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "io.systemd.Network"))
    server.listen()
    requests: list[bytes] = []
    answers: list[bytes] = []

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            requests.append(connection.recv(4096))
            for one in answers:
                connection.sendall(one)
            connection.recv(1)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield tmp_path, requests, answers
    server.close()
    thread.join()


def answer(ifindex: int, *, more: bool, **fields: object) -> bytes:
    neighbour = {
        "ChassisID": "00:11:22:33:44:55",
        "RawChassisID": list(ROUTER),
        "PortID": "Ethernet1/7",
        "RawPortID": [1],
        "SystemName": "sw1",
        "EnabledCapabilities": 20,
        "VlanID": 10,
        **fields,
    }
    parameters = {
        "Neighbors": [{"InterfaceIndex": ifindex, "InterfaceName": "v1", "Neighbors": [neighbour]}]
    }
    return (
        json.dumps({"parameters": parameters, **({"continues": True} if more else {})}).encode()
        + b"\0"
    )


def test_networkd_over_varlink(varlink: tuple[Path, list[bytes], list[bytes]]) -> None:
    run, requests, answers = varlink
    second = answer(4, more=False, PortDescription="host b")
    answers += [answer(3, more=True), second[:30], second[30:]]
    found, trouble = read_networkd_lldp(str(run))
    assert trouble is None
    assert json.loads(requests[0][:-1])["method"] == "io.systemd.Network.GetLLDPNeighbors"
    assert found == {
        3: (
            LldpNeighbour(
                "networkd",
                chassis="00:11:22:33:44:55",
                port="Ethernet1/7",
                system_name="sw1",
                capabilities=("bridge", "router"),
                pvid=10,
            ),
        ),
        4: (
            LldpNeighbour(
                "networkd",
                chassis="00:11:22:33:44:55",
                port="Ethernet1/7",
                port_description="host b",
                system_name="sw1",
                capabilities=("bridge", "router"),
                pvid=10,
            ),
        ),
    }


def test_networkd_without_the_method(varlink: tuple[Path, list[bytes], list[bytes]]) -> None:
    run, _, answers = varlink
    answers.append(
        b'{"error":"org.varlink.service.MethodNotFound",'
        b'"parameters":{"method":"GetLLDPNeighbors"}}\0'
    )
    assert read_networkd_lldp(str(run)) == ({}, None)


def test_networkd_that_does_not_answer(
    varlink: tuple[Path, list[bytes], list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _, _ = varlink
    monkeypatch.setattr(networkd, "VARLINK_TIMEOUT", 0.05)
    assert read_networkd_lldp(str(run)) == (
        {},
        Unreadable("failed", "systemd-networkd did not answer within 0.05 s"),
    )


def test_a_host_without_networkd(tmp_path: Path) -> None:
    assert read_networkd_lldp(str(tmp_path)) == ({}, None)


@given(JSON, st.binary(max_size=40))
def test_any_answer_of_networkd(value: Any, data: bytes) -> None:
    parse_answers(json.dumps(value).encode() + b"\0" + data)
    whole = answer(3, more=False, VlanID=value, EnabledCapabilities=value, SystemName=value)
    assert list(parse_answers(whole)) == [3]


# -------------------------------------------------------------------------------------------- lldpd

OUTPUT = {
    "lldp": [
        {
            "interface": [
                {
                    "name": "v1",
                    "via": "LLDP",
                    "rid": "1",
                    "age": "0 day, 00:01:11",
                    "chassis": [
                        {
                            "id": [{"type": "mac", "value": "00:11:22:33:44:55"}],
                            "name": [{"value": "sw1"}],
                            "descr": [{"value": "Arista Networks EOS"}],
                            "mgmt-ip": [{"value": "192.0.2.1"}, {"value": "2001:db8::1"}],
                            "mgmt-iface": [{"value": "5"}],
                            "capability": [
                                {"type": "Bridge", "enabled": True},
                                {"type": "Router", "enabled": False},
                            ],
                        }
                    ],
                    "port": [
                        {
                            "id": [{"type": "ifname", "value": "Ethernet1/7"}],
                            "descr": [{"value": "host a"}],
                            "ttl": [{"value": "120"}],
                            "mfs": [{"value": "9236"}],
                            "aggregation": [{"value": "1007"}],
                        }
                    ],
                    "vlan": [
                        {"vlan-id": "10", "pvid": True, "value": "a"},
                        {"vlan-id": "20", "pvid": False},
                    ],
                },
                {
                    "name": "v1",
                    "via": "EDP",
                    "chassis": [{"id": [{"value": "x"}]}],
                    "port": [{"id": [{"value": "1"}]}],
                },
                {
                    "name": "gone",
                    "via": "LLDP",
                    "chassis": [{"id": [{"value": "x"}]}],
                    "port": [{"id": [{"value": "1"}]}],
                },
            ]
        }
    ]
}


def test_the_output_of_lldpcli() -> None:
    found, trouble = parse_lldpd(json.dumps(OUTPUT).encode(), {"v1": 3})
    assert trouble is None
    assert found == {
        3: (
            LldpNeighbour(
                "lldpd",
                chassis="00:11:22:33:44:55",
                port="Ethernet1/7",
                port_description="host a",
                system_name="sw1",
                system_description="Arista Networks EOS",
                management_addresses=("192.0.2.1", "2001:db8::1"),
                capabilities=("bridge",),
                pvid=10,
                vlans=(10, 20),
                max_frame=9236,
                aggregation="enabled",
                aggregation_port=1007,
                ttl=120,
            ),
        )
    }
    assert parse_lldpd(b'{"lldp": [{}]}', {"v1": 3}) == ({}, None)
    assert parse_lldpd(b"lldpcli: no", {"v1": 3})[1] == Unreadable("malformed", "lldpcli: not JSON")


@given(JSON)
def test_any_output_of_lldpcli(value: Any) -> None:
    parse_lldpd(json.dumps(value).encode(), {"v1": 3})
    parse_lldpd(
        json.dumps(
            {"lldp": [{"interface": [{"name": "v1", "via": "LLDP", "chassis": value}]}]}
        ).encode(),
        {},
    )


def lldpcli(folder: Path, script: str) -> tuple[str, ...]:
    path = folder / "lldpcli"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return (str(folder),)


def test_lldpcli_is_run(tmp_path: Path) -> None:
    (tmp_path / "output").write_text(json.dumps(OUTPUT))
    script = f'test "$*" = "-f json0 show neighbors details" && exec cat {tmp_path}/output'
    found, trouble = lldpd.read_lldpd(
        {"v1": 3}, lldpcli(tmp_path, script.replace("exec cat", "exec /bin/cat"))
    )
    assert trouble is None and [one.port for one in found[3]] == ["Ethernet1/7"]


def test_lldpcli_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "never")
    monkeypatch.setattr(other_processes, "LLDPCLI_TIMEOUT", 0.05)
    found, trouble = lldpd.read_lldpd({"v1": 3}, lldpcli(tmp_path, f"read line < {tmp_path}/never"))
    assert (found, trouble) == ({}, Unreadable("failed", "lldpcli did not end within 0.05 s"))


def test_lldpcli_gets_more_time_on_a_busy_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers after the limit has passed twice, in which no CPU was idle."""
    (tmp_path / "output").write_text(json.dumps(OUTPUT))
    os.mkfifo(tmp_path / "go")
    readings: list[tuple[int, int]] = []

    def busy(_: str) -> tuple[int, int]:
        readings.append((0, 100 * len(readings)))
        if len(readings) == 5:  # one at the beginning, two for each time that the limit passes
            monkeypatch.setattr(other_processes, "LLDPCLI_TIMEOUT", 60.0)
            (tmp_path / "go").write_text("on\n")
        return readings[-1]

    monkeypatch.setattr(other_processes, "LLDPCLI_TIMEOUT", 0.05)
    monkeypatch.setattr(other_processes, "MAX_LLDPCLI_SECONDS", 120.0)
    monkeypatch.setattr(waiting, "read_cpu_times", busy)
    script = f"read line < {tmp_path}/go; exec /bin/cat {tmp_path}/output"
    found, trouble = lldpd.read_lldpd({"v1": 3}, lldpcli(tmp_path, script))
    assert trouble is None and [one.port for one in found[3]] == ["Ethernet1/7"]
    assert len(readings) >= 5


def test_lldpcli_that_may_not_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = lldpcli(tmp_path, "exit 1")
    assert lldpd.read_lldpd({}, folders)[1] == Unreadable("failed", "lldpcli ended with status 1")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    why = lldpd.read_lldpd({}, folders)[1]
    assert why is not None and why.reason == "needs_root"


def test_lldpd_without_its_client(tmp_path: Path) -> None:
    assert lldpd.read_lldpd({}, (str(tmp_path),)) == (
        {},
        Unreadable("missing", "lldpcli is not installed"),
    )


def test_only_daemons_that_run_are_asked(tmp_path: Path) -> None:
    state_file(tmp_path, 3, record(lldp_frame(lldpdu())))
    assert read_lldp((LINK,), Services(), str(tmp_path)) == ({}, None)
    found, _ = read_lldp((LINK,), Services(networkd=1), str(tmp_path))
    assert [one.source for one in found[3]] == ["networkd"]


# ----------------------------------------------------------------------------------- NetworkManager


def test_networkmanager_with_the_frame() -> None:
    frame = lldp_frame(lldpdu(pvid(10), max_frame(9236), aggregation(3, 7)))
    (one,) = parse_neighbours(
        [{"raw": frame, "chassis-id": "00:11:22:33:44:55", "port-id": "Ethernet1/7"}]
    )
    assert (one.source, one.pvid, one.max_frame, one.aggregation) == (
        "NetworkManager",
        10,
        9236,
        "enabled",
    )


def test_networkmanager_without_the_frame() -> None:
    part = {
        "chassis-id-type": 4,
        "chassis-id": "00:11:22:33:44:AA",
        "port-id-type": 5,
        "port-id": "Ethernet1/7",
        "system-name": "sw1",
        "ieee-802-1-pvid": 10,
        "ieee-802-1-vlans": [{"vid": 20, "name": "b"}, {"vid": 10, "name": "a"}],
        "ieee-802-3-max-frame-size": 9236,
        "management-addresses": [{"address-subtype": 1, "address": bytes((192, 0, 2, 1))}],
    }
    assert parse_neighbours([part, {"chassis-id": "x"}, 7]) == (
        LldpNeighbour(
            "NetworkManager",
            chassis="00:11:22:33:44:aa",
            port="Ethernet1/7",
            system_name="sw1",
            management_addresses=("192.0.2.1",),
            pvid=10,
            vlans=(10, 20),
            max_frame=9236,
        ),
    )


@given(JSON)
def test_any_property_of_networkmanager(value: Any) -> None:
    parse_neighbours(value)
    names = ("raw", "ieee-802-1-pvid", "ieee-802-1-vlans", "management-addresses", "system-name")
    (one,) = parse_neighbours([{"chassis-id": "a", "port-id": "b", **dict.fromkeys(names, value)}])
    assert one.chassis == "a"
