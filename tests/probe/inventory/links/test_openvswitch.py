"""Ports of Open vSwitch, by its database: over the socket, and from its file."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.inventory.links import openvswitch
from nictop.probe.inventory.links.openvswitch import (
    parse_log,
    ranges_text,
    read_switch_ports,
    switch_ports,
)
from nictop.probe.records import SwitchPort, Unreadable


def uuid(name: str) -> list[str]:
    return ["uuid", f"00000000-0000-0000-0000-{name:0>12}"]


def at(name: str) -> str:
    return uuid(name)[1]


BRIDGE: dict[str, Any] = {"name": "br-int", "ports": ["set", [uuid("a1"), uuid("a2"), uuid("a3")]]}
PORTS: dict[str, dict[str, Any]] = {
    "a1": {"name": "tap101i0", "interfaces": uuid("b1"), "tag": 30, "trunks": ["set", []],
           "vlan_mode": ["set", []]},
    "a2": {"name": "bond0", "interfaces": ["set", [uuid("b2"), uuid("b3")]],
           "tag": ["set", []], "trunks": ["set", [20, 31, 30, 32]], "vlan_mode": ["set", []]},
    "a3": {"name": "vhu1", "interfaces": uuid("b4"), "tag": 10, "trunks": 20,
           "vlan_mode": "native-untagged"},
}  # fmt: skip
INTERFACES: dict[str, dict[str, Any]] = {
    "b1": {"name": "tap101i0", "type": "system"},
    "b2": {"name": "ens1f0", "type": ""},
    "b3": {"name": "ens1f1", "type": ""},
    "b4": {"name": "vhu1", "type": "dpdkvhostuserclient"},
}
OPTIONS = ["map", [["vhost-server-path", "/run/vhu1.sock"], ["n_rxq", "2"]]]
FOUND = (
    SwitchPort("ens1f0", "br-int", None, "20, 30-32"),
    SwitchPort("ens1f1", "br-int", None, "20, 30-32"),
    SwitchPort("tap101i0", "br-int", 30),
    SwitchPort("vhu1", "br-int", 10, "20", "native-untagged", "/run/vhu1.sock"),
)


def rows(table: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"_uuid": uuid(name), **row} for name, row in table.items()]


def answer() -> dict[str, Any]:
    tables = [
        rows({"c1": BRIDGE}),
        rows(PORTS),
        rows(INTERFACES),
        rows({"b4": {"options": OPTIONS}}),
    ]
    return {"id": 0, "error": None, "result": [{"rows": table} for table in tables]}


@contextmanager
def database(run: Path, *parts: bytes) -> Iterator[list[Any]]:
    """A socket that answers one request with `parts`; yields the requests."""
    (run / "openvswitch").mkdir(parents=True, exist_ok=True)
    requests: list[Any] = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(run / "openvswitch/db.sock"))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                requests.append(json.loads(connection.recv(65536)))
                for part in parts:
                    connection.sendall(part)

        server = threading.Thread(target=serve)
        server.start()
        yield requests
        server.join()


def test_bridges_and_vlans_are_selected_over_the_socket(tmp_path: Path) -> None:
    whole = json.dumps(answer()).encode()
    with database(tmp_path, whole[:100], whole[100:]) as requests:
        found, trouble = read_switch_ports(str(tmp_path), str(tmp_path / "etc"))
    assert (found, trouble) == (FOUND, None)
    # the promise: it is asked for rows, and for nothing else
    (request,) = requests
    assert request["method"] == "transact" and request["params"][0] == "Open_vSwitch"
    operations = request["params"][1:]
    assert {operation["op"] for operation in operations} == {"select"}
    assert [operation["table"] for operation in operations] == [
        *("Bridge", "Port", "Interface", "Interface"),
    ]


@pytest.mark.parametrize(
    "reply",
    [
        b'{"id": 0, "error": "unknown database", "result": null}',
        b"[]{}",
        b'{"id": 0, "result": [{"rows": [{"_uuid": 7, "name": 3}, 5, null]}, null, {"rows": 1}]}',
        b'{"id": 0, "result": [{"rows": [{"_uuid": ["uuid", "x"], "name": 3, "ports": 9}]}]}',
        b"",
        b"{" * 5000 + b"}",
    ],
)
def test_another_answer_is_no_ports(reply: bytes, tmp_path: Path) -> None:
    with database(tmp_path, reply):
        found, trouble = read_switch_ports(str(tmp_path), str(tmp_path / "etc"))
    assert found == ()
    assert trouble is None or trouble.reason in ("failed", "malformed")


def test_an_answer_without_end_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvswitch, "MAX_PARTS", 2)
    monkeypatch.setattr(openvswitch, "READ_BYTES", 100)
    with database(tmp_path, b"}" * 200):
        found, trouble = read_switch_ports(str(tmp_path), str(tmp_path / "etc"))
    assert found == () and trouble is not None


def test_why_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "openvswitch").mkdir()
    stopped = read_switch_ports(str(tmp_path), str(tmp_path / "etc"))
    assert stopped == ((), Unreadable("failed", "the database of Open vSwitch does not run"))


# ------------------------------------------------------------------------------------------ the file


def log(*records: dict[str, Any]) -> bytes:
    """ovsdb(5)"""
    text = b""
    for record in ({"name": "Open_vSwitch", "tables": {"Bridge": {}}}, *records):
        line = json.dumps(record).encode() + b"\n"
        text += b"OVSDB JSON %d %s\n" % (len(line), hashlib.sha1(line).hexdigest().encode()) + line
    return text


def first_transaction() -> dict[str, Any]:
    interfaces: dict[str, dict[str, Any]] = {
        at(name): dict(row) for name, row in INTERFACES.items()
    }
    interfaces[at("b4")]["options"] = OPTIONS
    return {
        "_date": 1,
        "Bridge": {at("c1"): BRIDGE},
        "Port": {at(name): row for name, row in PORTS.items()},
        "Interface": interfaces,
        "Open_vSwitch": {at("d1"): {"bridges": uuid("c1")}},
    }


def ports_of_log(*records: dict[str, Any]) -> dict[str, SwitchPort]:
    found = switch_ports(parse_log(log(first_transaction(), *records)), "/run/openvswitch")
    return {port.name: port for port in found}


def test_the_file_has_the_same_ports() -> None:
    assert tuple(sorted(ports_of_log().values(), key=lambda port: port.name)) == FOUND


def test_a_transaction_has_the_new_values_of_the_changed_columns() -> None:
    found = ports_of_log(
        {"Port": {at("a1"): {"tag": 40}, at("a2"): {"trunks": ["set", []]}}},
        {
            "Port": {at("a3"): None},
            "Bridge": {at("c1"): {"ports": ["set", [uuid("a1"), uuid("a2")]]}},
        },
    )
    assert set(found) == {"tap101i0", "ens1f0", "ens1f1"}
    assert (found["tap101i0"].tag, found["ens1f0"].trunks) == (40, "")


def test_a_transaction_of_differences_has_what_was_added_and_removed() -> None:
    found = ports_of_log(
        {
            "_is_diff": True,
            "Port": {
                at("a1"): {"tag": 41},  # one value: the new one
                at("a2"): {"trunks": ["set", [20, 50]]},  # 20 is removed, 50 is added
                at("a4"): {"name": "new", "interfaces": uuid("b5")},  # an unknown row is whole
            },
            "Interface": {
                at("b5"): {"name": "new"},
                at("b4"): {"options": ["map", [["n_rxq", "2"], ["vhost-server-path", "/run/2"]]]},
            },
            "Bridge": {at("c1"): {"ports": uuid("a4")}},
        }
    )
    assert found["tap101i0"].tag == 41 and found["ens1f0"].trunks == "30-32, 50"
    assert found["new"].bridge == "br-int" and found["vhu1"].path == "/run/2"


def test_the_file_is_read_where_the_socket_may_not_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "refused")

    monkeypatch.setattr(openvswitch, "read_database", refuse)
    etc = tmp_path / "etc/openvswitch"
    etc.mkdir(parents=True)
    (etc / "conf.db").write_bytes(log(first_transaction()))
    assert read_switch_ports(str(tmp_path), str(tmp_path / "etc")) == (FOUND, None)
    (etc / "conf.db").write_bytes(b"OVSDB CLUSTER 3 x\n{}\n")
    assert read_switch_ports(str(tmp_path), str(tmp_path / "etc"))[1] == Unreadable(
        "malformed", "the database of Open vSwitch: not a database of Open vSwitch"
    )
    monkeypatch.setattr(openvswitch, "MAX_FILE_BYTES", 10)
    (etc / "conf.db").write_bytes(log(first_transaction()))
    trouble = read_switch_ports(str(tmp_path), str(tmp_path / "etc"))[1]
    assert trouble is not None and trouble.reason == "failed"


def test_a_record_that_is_being_written_is_left_out() -> None:
    whole = log(first_transaction(), {"Port": {at("a1"): {"tag": 99}}})
    found = switch_ports(parse_log(whole[:-4]), "/run/openvswitch")
    assert {port.name: port.tag for port in found}["tap101i0"] == 30


def test_a_socket_that_open_vswitch_made_has_the_name_of_its_port() -> None:
    changed = {"Interface": {at("b4"): {"type": "dpdkvhostuser"}}}
    assert ports_of_log(changed)["vhu1"].path == "/run/openvswitch/vhu1"


def test_ranges_are_limited() -> None:
    assert ranges_text(()) == "" and ranges_text((3, 1, 2, 2)) == "1-3"
    assert ranges_text(range(0, 4095, 2)).endswith(", 126, …")
