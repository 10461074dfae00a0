"""Every collection and every text of a record has a limit; one below it nothing is lost, one above it is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from nictop import limits
from nictop.probe import records
from nictop.probe.inventory.configuration import collect as link_configuration
from nictop.probe.inventory.configuration import files as configuration_files
from nictop.probe.inventory.links import forwarding, qdiscs
from nictop.probe.inventory.machine import threads
from nictop.probe.inventory.managers import networkmanager as profiles
from nictop.probe.records import Inventory, Line, Unreadable
from nictop.wire.codec import LineError, decode
from tests.support import lines

PLATFORM = dataclasses.asdict(lines.inventory().inventory.platform)  # type: ignore[union-attr]
LINK = {"ifindex": 2, "name": "a", "type": 1, "flags": 0, "operstate": "up", "carrier": None, "mtu": 1500}
FUNCTION = {
    "address": "0000:00:00.0", "class_code": 1, "vendor_id": 1, "device_id": 1, "subsystem_vendor_id": None,
    "subsystem_device_id": None, "revision": None,
}  # fmt: skip
PROFILE = {
    "path": "/1", "uuid": "u", "id": "i", "type": "t", "filename": None, "unsaved": False, "generated": False,
    "volatile": False, "external": False,
}  # fmt: skip
STANZA = {"owner": "netplan", "file": "f", "line": 1}


def said(**fields: Any) -> bytes:
    whole = {"time": 1.0, "wall": 1.0, "took": 0.1, "reason": "start", "platform": PLATFORM, "pci": (), "links": ()}
    return json.dumps({"inventory": {**whole, **fields}}).encode()


def counted(**fields: Any) -> bytes:
    return json.dumps({"counters": {"time": 1.0, "links": {}, "cpus": {}, **fields}}).encode()


def inventory(line: bytes) -> Inventory:
    found = decode(line).inventory
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("field", "most", "entry"),
    [
        ("interrupts", limits.MOST_INTERRUPTS, {"number": 1, "actions": (), "pci_address": None}),
        ("threads", limits.MOST_THREADS, {"tid": 1, "pid": 1, "name": "n", "kind": "vm"}),
        ("configuration", limits.MOST_STANZAS, STANZA),
        ("forwarding", limits.MOST_ENTRIES, {"ifindex": 1, "address": "a", "self_entry": True}),
        ("messages", limits.MOST_MESSAGES, {"time": 1.0, "level": 3, "text": "t"}),
        ("iommu", limits.MOST_PCI_FUNCTIONS, {"number": 1, "members": ()}),
    ],
)
def test_collections_of_an_inventory(field: str, most: int, entry: dict[str, Any]) -> None:
    assert len(getattr(inventory(said(**{field: [entry] * most})), field)) == most
    found = inventory(said(**{field: [entry] * (most + 1)}))
    assert not getattr(found, field)
    assert found.unreadable == {field: Unreadable("malformed", f"more than {most} entries")}


@pytest.mark.parametrize(
    ("field", "most", "entry"),
    [
        ("links", limits.MOST_LINKS, LINK),
        ("pci", limits.MOST_PCI_FUNCTIONS, FUNCTION),
    ],
)
def test_records_that_take_kilobytes_are_counted_before_they_are_made(
    field: str, most: int, entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(getattr(inventory(said(**{field: [entry] * most})), field)) == most
    monkeypatch.setattr("nictop.wire.codec._decoder", None)
    with pytest.raises(LineError, match=f"more than {most} "):
        decode(said(**{field: [entry] * (most + 1)}))


def test_profiles_and_devices_of_networkmanager(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = {"version": "1", "startup": False, "networking_enabled": True, "devices": {}}
    found = inventory(said(networkmanager={**manager, "profiles": [PROFILE] * limits.MOST_PROFILES})).networkmanager
    assert found is not None and len(found.profiles) == limits.MOST_PROFILES
    device = {"interface": "a", "type": 1, "state": 1, "reason": 1, "managed": True, "autoconnect": True}
    monkeypatch.setattr("nictop.wire.codec._decoder", None)
    for more, words in (
        ({"profiles": [PROFILE] * (limits.MOST_PROFILES + 1)}, "profiles"),
        ({"profiles": (), "devices": dict.fromkeys(range(limits.MOST_LINKS + 1), device)}, "managed devices"),
    ):
        with pytest.raises(LineError, match=words):
            decode(said(networkmanager=manager | more))


@pytest.mark.parametrize(
    ("field", "most", "entry"),
    [
        ("virtual_functions", limits.MOST_VFS, {"number": 1, "address": None}),
        ("queues", limits.MOST_QUEUES, {"direction": "rx", "number": 1}),
        ("napis", limits.MOST_QUEUES, {"id": 1}),
        ("channels", limits.MOST_CPUS, {"id": 1, "cpu": None}),
        ("traffic_control", limits.MOST_QDISCS, {"kind": "fq", "handle": "1:"}),
        ("default_routes", limits.MOST_ADDRESSES, {"family": "ipv4", "gateway": None, "metric": 1, "table": 254}),
        ("altnames", limits.MOST_OF_ALL, "name"),
    ],
)
def test_collections_of_a_link(field: str, most: int, entry: object) -> None:
    assert len(getattr(inventory(said(links=[{**LINK, field: [entry] * most}])).links[0], field)) == most
    found = inventory(said(links=[{**LINK, field: [entry] * (most + 1)}, LINK]))
    assert [len(getattr(link, field)) for link in found.links] == [0, 0] and not found.unreadable
    assert found.links[0].unreadable == {field: Unreadable("malformed", f"more than {most} entries")}
    assert not found.links[1].unreadable


@pytest.mark.parametrize("field", ["online_cpus", "possible_cpus", "distribution"])
def test_texts(field: str) -> None:
    most = limits.LONGEST_CPU_LIST if field.endswith("cpus") else limits.LONGEST_TEXT
    assert getattr(inventory(said(platform={**PLATFORM, field: "1" * most})).platform, field) == "1" * most
    found = inventory(said(platform={**PLATFORM, field: "1" * (most + 1)})).platform
    assert len(getattr(found, field)) == limits.LONGEST_TEXT
    assert found.unreadable == {field: Unreadable("malformed", f"more than {most} characters")}


@pytest.mark.parametrize(
    ("field", "entry", "most"),
    [
        ("cpus", [1], limits.MOST_CPUS),
        ("links", [1], limits.MOST_LINKS),
        ("softnet", [1], limits.MOST_CPUS),
        ("threads", [1, 2, 3], limits.MOST_THREADS),
        ("interrupts", {}, limits.MOST_INTERRUPTS),
    ],
)
def test_collections_of_counters(field: str, entry: object, most: int) -> None:
    found = decode(counted(**{field: dict.fromkeys(range(most), entry)})).counters
    assert found is not None and len(getattr(found, field)) == most and not found.unreadable
    found = decode(counted(**{field: dict.fromkeys(range(most + 1), entry)})).counters
    assert found is not None and not getattr(found, field)
    assert found.unreadable == {field: Unreadable("malformed", f"more than {most} entries")}


def test_a_record_without_reasons_takes_the_line_with_it() -> None:
    most = limits.MOST_OF_ALL
    assert inventory(said(configuration=[{**STANZA, "names": ["a"] * most}])).configuration
    found = inventory(said(configuration=[{**STANZA, "names": ["a"] * (most + 1)}]))
    assert found.unreadable["configuration"].detail == f"more than {most} entries in names"
    reasons = {str(number): {"reason": "failed"} for number in range(most + 1)}
    with pytest.raises(LineError, match=f"more than {most} entries in unreadable"):
        decode(said(unreadable=reasons))


def test_lines_of_each_kind_have_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    line = counted()
    size, _ = limits.LARGEST_LINES[b'{"counters"']
    assert decode(line + b" " * (size - len(line))) == decode(line)
    with pytest.raises(LineError, match=f"longer than {size}"):
        decode(line + b" " * (size - len(line) + 1))
    other = json.dumps({"trouble": {"time": 1.0, "message": ""}}).encode()
    assert decode(other + b" " * (limits.LARGEST_OTHER_LINE - len(other))).trouble is not None
    with pytest.raises(LineError, match=f"longer than {limits.LARGEST_OTHER_LINE}"):
        decode(other + b" " * (limits.LARGEST_OTHER_LINE - len(other) + 1))
    with pytest.raises(LineError, match="longer than"):  # whatever stands in front of it
        decode(b" " + said(messages=[{"time": 1.0, "level": 3, "text": "t" * 400}] * 6000))


def test_values_and_records_of_a_line_are_counted_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nictop.wire.codec._decoder", None)
    _, most = limits.LARGEST_LINES[b'{"inventory"']
    for napis, words in (([{}] * limits.MOST_OBJECTS, "records"), ([1] * (most + 1), f"{most} values")):
        with pytest.raises(LineError, match=f"more than .*{words} in one line"):
            decode(said(links=[{**LINK, "napis": napis}]))
    _, most = limits.LARGEST_LINES[b'{"counters"']
    with pytest.raises(LineError, match=f"more than {most} values in one line"):
        decode(counted(interrupts={str(n): dict.fromkeys(range(64), 1) for n in range(2000)}))


def test_every_limit_belongs_to_a_field() -> None:
    """So that one whose field is renamed is noticed."""
    for path in (*limits.COLLECTIONS, *limits.TEXTS):
        record, _, field = path.partition(".")
        assert field in {one.name for one in dataclasses.fields(getattr(records, record))}, path


def test_limits_are_those_of_the_probe() -> None:
    assert limits.MOST_THREADS >= threads.MOST_THREADS and limits.MOST_PROFILES >= profiles.MOST_PROFILES
    assert limits.MOST_STANZAS >= link_configuration.MOST_ENTRIES and limits.MOST_ENTRIES >= forwarding.MOST_ENTRIES
    assert limits.MOST_QDISCS >= qdiscs.MOST_PER_LINK and configuration_files.MOST_FILES <= limits.MOST_STANZAS


def test_an_honest_host_of_the_largest_kind_is_not_refused() -> None:
    """256 CPUs, four NICs with 64 queues and 256 VFs, 256 of these with a netdev, 4000 interrupts."""
    features = [{"name": f"tx-some-feature-{n}", "active": True, "wanted": True, "fixed": False} for n in range(60)]
    ethtool = {"features": features, "driver_counter_names": [f"rx_queue_{n}_packets" for n in range(200)]}
    functions = [{"number": n, "address": "02:00:00:00:00:00"} for n in range(256)]
    queues = [{"direction": way, "number": n, "rps_cpus": "0" * 71} for way in ("rx", "tx") for n in range(64)]
    nics = [{**LINK, "queues": queues, "virtual_functions": functions, "ethtool": ethtool}] * 4
    links = [*nics, *([{**LINK, "queues": queues[:16], "ethtool": ethtool}] * 256)]
    interrupts = [{"number": n, "actions": ["ens2-TxRx-3"], "pci_address": "0000:02:00.0"} for n in range(4000)]
    found = inventory(said(links=links, interrupts=interrupts, pci=[FUNCTION] * 1100))
    assert len(found.links) == 260 and len(found.interrupts) == 4000 and not found.unreadable
    row = [10**12] * 25
    machine = [
        {"label": str(n), "description": "d" * 40, "counts": dict.fromkeys(range(8), 10**6)} for n in range(4000)
    ]
    counters = counted(
        links=dict.fromkeys(range(260), row), cpus=dict.fromkeys(range(256), row[:10]), machine=machine,
        vfs=dict.fromkeys(range(4), dict.fromkeys(range(256), row[:8])),
    )  # fmt: skip
    assert isinstance(decode(counters), Line)
