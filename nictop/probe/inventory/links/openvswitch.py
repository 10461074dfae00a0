"""Ports of Open vSwitch → `SwitchPort`: the bridge and the VLANs of each.

The kernel knows of a port only that it belongs to the datapath (its master is ``ovs-system``, which
all bridges share: lib/dpif-netlink.c): bridges and VLANs are in Open vSwitch's database
(vswitchd/vswitch.ovsschema, tables Bridge, Port and Interface). It is asked over its socket with
``select`` operations, which change nothing (RFC 7047, 5.2.2). Whoever may not connect to that, as a
root probe that has given up its rights where the database has a user of its own, reads its file:
a log of transactions (ovsdb(5), "Standalone Database Format"; ovsdb/file.c). In a transaction with
``_is_diff``, which newer versions write, the columns of a known row that hold several values have
those that were added and removed (lib/ovsdb-data.c: ovsdb_datum_diff).

Flows (OpenFlow) may send frames elsewhere than these settings say.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time

from nictop.probe.kernel.sysfs import printable_path, unreadable_from_error
from nictop.probe.records import SwitchPort, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    Rows = dict[str, dict[str, dict[str, Any]]]
    """Table → UUID → column → value as in JSON (RFC 7047, 5.1)."""

SOCKET, FILE = "openvswitch/db.sock", "openvswitch/conf.db"
"""Below /run and below /etc (utilities/ovs-lib.in)."""
DATABASE = "Open_vSwitch"
COLUMNS = {
    "Bridge": ("_uuid", "name", "ports"),
    "Port": ("_uuid", "name", "interfaces", "tag", "trunks", "vlan_mode"),
    "Interface": ("_uuid", "name", "type"),
}
SEVERAL = (("Bridge", "ports"), ("Port", "interfaces"), ("Port", "trunks"))
"""Columns of `COLUMNS` with several values."""
VHOST_CLIENT, VHOST_SERVER = "dpdkvhostuserclient", "dpdkvhostuser"
"""Types of interfaces: QEMU has made the socket, or Open vSwitch, by the name of the interface in
its directory (Documentation/topics/dpdk/vhost-user.rst)."""
ANSWER_SECONDS = 2.0
READ_BYTES, MAX_PARTS = 256 * 1024, 256
"""Parts in which an answer may come: 200 ports are 60 KB."""
MAX_FILE_BYTES = 8 * 1024 * 1024
"""The file is compacted from 10 MiB on."""
MAX_PORTS = 4096
MAX_TRUNK_RANGES = 64
MAX_NAME_CHARS, MAX_PATH_CHARS = 128, 256
MAX_VLAN_ID = 4095
NOT_ALLOWED = (errno.EACCES, errno.EPERM)


def read_switch_ports(run: str, etc: str) -> tuple[tuple[SwitchPort, ...], Unreadable | None]:
    """(Ports by name, why some may be missing). Never raises OSError."""
    path = os.path.join(run, SOCKET)
    try:
        rows = _read_rows(path, os.path.join(etc, FILE))
    except (FileNotFoundError, ConnectionRefusedError):
        return (), Unreadable("failed", "the database of Open vSwitch does not run")
    except OSError as error:
        return (), unreadable_from_error(error, "the database of Open vSwitch")
    except (ValueError, RecursionError) as error:
        return (), Unreadable("malformed", f"the database of Open vSwitch: {error}")
    found = sorted(switch_ports(rows, os.path.dirname(path)), key=lambda port: port.name)
    trouble = None
    if len(found) > MAX_PORTS:
        trouble = Unreadable("failed", f"more than {MAX_PORTS} ports of Open vSwitch")
    return tuple(found[:MAX_PORTS]), trouble


def _read_rows(path: str, file: str) -> Rows:
    """Raises OSError or ValueError."""
    try:
        return read_database(path)
    except OSError as error:
        if error.errno not in NOT_ALLOWED:
            raise
    return read_file(file)


# --------------------------------------------------------------------------------------- the socket


def read_database(path: str) -> Rows:
    """Raises OSError, and ValueError for what is no answer."""
    selects = [_select(table, columns) for table, columns in COLUMNS.items()]
    of_clients = [["type", "==", VHOST_CLIENT]]
    selects.append(_select("Interface", ("_uuid", "options"), of_clients))
    request = {"method": "transact", "params": [DATABASE, *selects], "id": 0}
    results = _results(_exchanged(path, json.dumps(request).encode()))
    tables = [*COLUMNS, "Interface"]
    rows: Rows = {table: {} for table in COLUMNS}
    for table, result in zip(tables, results):
        listed = result.get("rows") if isinstance(result, dict) else None
        for row in listed if isinstance(listed, list) else ():
            uuid = next(uuids(row.get("_uuid")), "") if isinstance(row, dict) else ""
            if uuid:
                rows[table].setdefault(uuid, {}).update(row)
    return rows


def _select(table: str, columns: Iterable[str], where: Iterable[Any] = ()) -> dict[str, Any]:
    return {"op": "select", "table": table, "where": list(where), "columns": list(columns)}


def _exchanged(path: str, request: bytes) -> Any:
    """The decoded answer. Raises OSError."""
    deadline = time.monotonic() + ANSWER_SECONDS
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as database:
        database.settimeout(ANSWER_SECONDS)
        try:
            database.connect(path)
            database.sendall(request)
            return _received(database, deadline)
        except socket.timeout:  # before Python 3.10 it has no number
            raise OSError(errno.ETIMEDOUT, "no answer") from None


def _received(database: socket.socket, deadline: float) -> Any:
    """A JSON object: what ends with a brace may be a whole one. Raises OSError."""
    received = bytearray()
    for _ in range(MAX_PARTS):
        database.settimeout(max(0.01, deadline - time.monotonic()))
        data = database.recv(READ_BYTES)
        if not data:
            raise OSError(errno.EPIPE, "the connection was closed")
        received += data
        if received.rstrip().endswith(b"}"):
            try:
                return json.loads(received.decode("utf-8", "replace"))
            except ValueError:
                continue  # its end is not here
    raise OSError(errno.EMSGSIZE, f"more than {MAX_PARTS} parts")


def _results(decoded: Any) -> list[Any]:
    """Raises ValueError."""
    results = decoded.get("result") if isinstance(decoded, dict) else None
    if not isinstance(results, list):
        raise ValueError("it answers with an error")
    return results


# ----------------------------------------------------------------------------------------- the file


def read_file(path: str) -> Rows:
    """Raises OSError or ValueError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, f"{printable_path(path)} has more than {MAX_FILE_BYTES} bytes")
    return parse_log(data)


def parse_log(data: bytes) -> Rows:
    """Rows after the last transaction. A transaction that is being written ends the log. Raises
    ValueError for another kind of file."""
    rows: Rows = {table: {} for table in COLUMNS}
    for number, record in enumerate(log_records(data)):
        if number == 0:  # the schema
            continue
        if not any(b'"%s"' % table.encode() in record for table in COLUMNS):
            continue
        transaction: Any = json.loads(record.decode("utf-8", "replace"))
        if isinstance(transaction, dict):
            _apply(rows, transaction)
    return rows


def log_records(data: bytes) -> Iterator[bytes]:
    """``OVSDB JSON LENGTH SHA1`` and a new line before each record (ovsdb/log.c)."""
    place = 0
    while place < len(data):
        end = data.find(b"\n", place)
        words = data[place:end].split(b" ") if end >= 0 else []
        if len(words) != 4 or words[:2] != [b"OVSDB", b"JSON"] or not words[2].isdigit():
            raise ValueError("not a database of Open vSwitch")
        place = end + 1 + int(words[2][:12])
        if place > len(data):
            return
        yield data[end + 1 : place]


def _apply(rows: Rows, transaction: Mapping[str, Any]) -> None:
    """One transaction: a row that is null is deleted, a known one is changed."""
    is_diff = transaction.get("_is_diff") is True
    for table, known in rows.items():
        changed = transaction.get(table)
        for uuid, row in changed.items() if isinstance(changed, dict) else ():
            if row is None:
                known.pop(uuid, None)
            elif isinstance(row, dict) and is_diff and uuid in known:
                known[uuid].update(_after_diff(table, known[uuid], row))
            elif isinstance(row, dict):
                known.setdefault(uuid, {}).update(row)


def _after_diff(
    table: str, before: Mapping[str, Any], diff: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """(Column, value): columns with several values have those that were added or removed."""
    for column, value in diff.items():
        if (table, column) in SEVERAL:
            old = members(before.get(column))
            changed = members(value)
            kept = [member for member in old if member not in changed]
            added = [member for member in changed if member not in old]
            yield column, ["set", kept + added]
        elif (table, column) == ("Interface", "options"):
            yield column, ["map", _after_map_diff(pairs(before.get(column)), pairs(value))]
        else:
            yield column, value


def _after_map_diff(old: dict[str, str], diff: Mapping[str, str]) -> list[list[str]]:
    """A pair that is in both is removed, another one is set."""
    for key, text in diff.items():
        if old.get(key) == text:
            old.pop(key)
        else:
            old[key] = text
    return [[key, text] for key, text in old.items()]


# ----------------------------------------------------------------------------------------- the rows


def members(value: Any) -> list[Any]:
    """Of a set: ``["set", [1, 2]]``; a set of one member is written as that."""
    if isinstance(value, list) and len(value) == 2 and value[0] == "set":
        return value[1] if isinstance(value[1], list) else []
    return [] if value is None else [value]


def uuids(value: Any) -> Iterator[str]:
    """Of a set of ``["uuid", "…"]``."""
    for member in members(value):
        is_uuid = isinstance(member, list) and len(member) == 2 and member[0] == "uuid"
        if is_uuid and isinstance(member[1], str):
            yield member[1]


def pairs(value: Any) -> dict[str, str]:
    """Of ``["map", [["key", "text"]]]``."""
    is_map = isinstance(value, list) and len(value) == 2 and value[0] == "map"
    found = {}
    for pair in value[1] if is_map and isinstance(value[1], list) else ():
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(one, str) for one in pair):
            found[pair[0]] = pair[1]
    return found


def switch_ports(rows: Rows, directory: str) -> Iterator[SwitchPort]:
    """Each interface of each port of each bridge. `directory`: of the sockets."""
    for bridge in rows["Bridge"].values():
        for port_uuid in uuids(bridge.get("ports")):
            port = rows["Port"].get(port_uuid, {})
            for interface_uuid in uuids(port.get("interfaces")):
                interface = rows["Interface"].get(interface_uuid, {})
                if isinstance(interface.get("name"), str):
                    yield _switch_port(bridge, port, interface, directory)


def _switch_port(
    bridge: Mapping[str, Any], port: Mapping[str, Any], interface: Mapping[str, Any], directory: str
) -> SwitchPort:
    name = text_of(interface.get("name"))
    tags = list(vlan_ids(port.get("tag")))
    return SwitchPort(
        name=name,
        bridge=text_of(bridge.get("name")),
        tag=tags[0] if tags else None,
        trunks=ranges_text(vlan_ids(port.get("trunks"))),
        mode=text_of(next(iter(members(port.get("vlan_mode"))), "")),
        path=_socket_path(name, interface, directory),
    )


def _socket_path(name: str, interface: Mapping[str, Any], directory: str) -> str:
    """Of vhost-user; "": it has none."""
    if interface.get("type") == VHOST_SERVER:
        return os.path.join(directory, name)[:MAX_PATH_CHARS]
    if interface.get("type") == VHOST_CLIENT:
        return pairs(interface.get("options")).get("vhost-server-path", "")[:MAX_PATH_CHARS]
    return ""


def text_of(value: Any) -> str:
    return value[:MAX_NAME_CHARS] if isinstance(value, str) else ""


def vlan_ids(value: Any) -> Iterator[int]:
    for member in members(value):
        if isinstance(member, int) and 0 <= member <= MAX_VLAN_ID:
            yield member


def ranges_text(numbers: Iterable[int]) -> str:
    """``20, 30-40``; at most `MAX_TRUNK_RANGES`, then ``…``."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [f"{first}-{last}" if last > first else str(first) for first, last in ranges]
    if len(texts) > MAX_TRUNK_RANGES:
        texts = [*texts[:MAX_TRUNK_RANGES], "…"]
    return ", ".join(texts)
