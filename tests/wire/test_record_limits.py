"""Every collection and every text of a record has a limit: at the limit nothing is lost, above it
the value is rejected.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from nictop import limits
from nictop.probe import records
from nictop.probe.inventory.configuration import collect as link_configuration
from nictop.probe.inventory.configuration import files as configuration_files
from nictop.probe.inventory.guests import leases
from nictop.probe.inventory.guests import reader as guests
from nictop.probe.inventory.guests.qemu_command import MAX_NICS
from nictop.probe.inventory.links import forwarding, qdiscs
from nictop.probe.inventory.machine import threads
from nictop.probe.inventory.managers import networkmanager as profiles
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import Inventory, Line, Settings, Unreadable
from nictop.probe.traffic.builtin.latency_buckets import BUCKETS, packed_counts
from nictop.wire.codec import LineError, decode
from tests.support import lines

PLATFORM = dataclasses.asdict(lines.inventory().inventory.platform)  # type: ignore[union-attr]
LINK = {
    "ifindex": 2,
    "name": "a",
    "type": 1,
    "flags": 0,
    "operstate": "up",
    "carrier": None,
    "mtu": 1500,
}
FUNCTION = {
    "address": "0000:00:00.0", "class_code": 1, "vendor_id": 1, "device_id": 1,
    "subsystem_vendor_id": None, "subsystem_device_id": None, "revision": None,
}  # fmt: skip
PROFILE = {
    "path": "/1", "uuid": "u", "id": "i", "type": "t", "filename": None, "unsaved": False,
    "generated": False, "volatile": False, "external": False,
}  # fmt: skip
GUEST = {"name": "g", "kind": "vm", "product": "qemu", "state": "running"}
STANZA = {"owner": "netplan", "file": "f", "line": 1}


def inventory_line(**fields: Any) -> bytes:
    whole = {
        "time": 1.0,
        "wall": 1.0,
        "took": 0.1,
        "reason": "start",
        "platform": PLATFORM,
        "pci": (),
        "links": (),
    }
    return json.dumps({"inventory": {**whole, **fields}}).encode()


def counters_line(**fields: Any) -> bytes:
    return json.dumps({"counters": {"time": 1.0, "links": {}, "cpus": {}, **fields}}).encode()


def inventory(line: bytes) -> Inventory:
    found = decode(line).inventory
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("field", "limit", "entry"),
    [
        ("interrupts", limits.MAX_INTERRUPTS, {"number": 1, "actions": (), "pci_address": None}),
        ("threads", limits.MAX_THREADS, {"tid": 1, "pid": 1, "name": "n", "kind": "vm"}),
        ("configuration", limits.MAX_STANZAS, STANZA),
        (
            "forwarding",
            limits.MAX_FORWARDING_ENTRIES,
            {"ifindex": 1, "address": "a", "self_entry": True},
        ),
        ("messages", limits.MAX_MESSAGES, {"time": 1.0, "level": 3, "text": "t"}),
        ("iommu", limits.MAX_PCI_FUNCTIONS, {"number": 1, "members": ()}),
        ("guests", limits.MAX_GUESTS, GUEST),
        ("leases", limits.MAX_LEASES, {"address": "a", "mac": "m", "source": "s"}),
    ],
)
def test_collections_of_an_inventory(field: str, limit: int, entry: dict[str, Any]) -> None:
    assert len(getattr(inventory(inventory_line(**{field: [entry] * limit})), field)) == limit
    found = inventory(inventory_line(**{field: [entry] * (limit + 1)}))
    assert not getattr(found, field)
    assert found.unreadable == {field: Unreadable("malformed", f"more than {limit} entries")}


@pytest.mark.parametrize(
    ("field", "entry"),
    [
        ("interrupts", {"number": "wrong"}),
        ("threads", {"tid": "wrong"}),
        ("configuration", {"line": "wrong"}),
        ("forwarding", {"ifindex": "wrong"}),
        ("messages", {"time": "wrong"}),
        ("guests", {**GUEST, "pid": "wrong"}),
        ("leases", {"address": 1}),
    ],
)
def test_collections_above_their_limit_are_not_decoded(field: str, entry: dict[str, Any]) -> None:
    """Their entries are of another type: decoding them would fail."""
    limit = limits.MAX_ENTRIES[f"Inventory.{field}"]
    found = inventory(
        inventory_line(**{field: [{**entry, "text": "t" * 400}] * (limit + 1)}, pending=["pci"])
    )
    assert not getattr(found, field) and found.pending == ("pci",)
    assert found.unreadable == {field: Unreadable("malformed", f"more than {limit} entries")}


def test_settings_with_too_many_values_are_not_decoded() -> None:
    limit = limits.MAX_SETTINGS_VALUES
    for field in ("sysctl", "governors", "frequencies"):
        found = inventory(
            inventory_line(settings={field: {str(number): None for number in range(limit + 1)}})
        )
        assert found.settings == Settings()
        assert found.unreadable == {
            "settings": Unreadable("malformed", f"more than {limit} values")
        }


@pytest.mark.parametrize(
    ("field", "limit", "entry"),
    [
        ("links", limits.MAX_LINKS, LINK),
        ("pci", limits.MAX_PCI_FUNCTIONS, FUNCTION),
    ],
)
def test_large_records_are_counted_before_decoding(
    field: str, limit: int, entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(getattr(inventory(inventory_line(**{field: [entry] * limit})), field)) == limit
    monkeypatch.setattr("nictop.wire.codec._decoder", None)
    with pytest.raises(LineError, match=f"more than {limit} "):
        decode(inventory_line(**{field: [entry] * (limit + 1)}))


def test_profiles_and_devices_of_networkmanager(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = {"version": "1", "startup": False, "networking_enabled": True, "devices": {}}
    found = inventory(
        inventory_line(networkmanager={**manager, "profiles": [PROFILE] * limits.MAX_PROFILES})
    ).networkmanager
    assert found is not None and len(found.profiles) == limits.MAX_PROFILES
    device = {
        "interface": "a",
        "type": 1,
        "state": 1,
        "reason": 1,
        "managed": True,
        "autoconnect": True,
    }
    monkeypatch.setattr("nictop.wire.codec._decoder", None)
    for more, words in (
        ({"profiles": [PROFILE] * (limits.MAX_PROFILES + 1)}, "profiles"),
        (
            {"profiles": (), "devices": dict.fromkeys(range(limits.MAX_LINKS + 1), device)},
            "managed devices",
        ),
    ):
        with pytest.raises(LineError, match=words):
            decode(inventory_line(networkmanager=manager | more))


@pytest.mark.parametrize(
    ("field", "limit", "entry"),
    [
        ("virtual_functions", limits.MAX_VFS, {"number": 1, "address": None}),
        ("queues", limits.MAX_QUEUES, {"direction": "rx", "number": 1}),
        ("napis", limits.MAX_QUEUES, {"id": 1}),
        ("channels", limits.MAX_CPUS, {"id": 1, "cpu": None}),
        ("traffic_control", limits.MAX_QDISCS, {"kind": "fq", "handle": "1:"}),
        (
            "default_routes",
            limits.MAX_ADDRESSES,
            {"family": "ipv4", "gateway": None, "metric": 1, "table": 254},
        ),
        ("altnames", limits.MAX_OTHER_ENTRIES, "name"),
    ],
)
def test_collections_of_a_link(field: str, limit: int, entry: object) -> None:
    assert (
        len(
            getattr(
                inventory(inventory_line(links=[{**LINK, field: [entry] * limit}])).links[0], field
            )
        )
        == limit
    )
    found = inventory(inventory_line(links=[{**LINK, field: [entry] * (limit + 1)}, LINK]))
    assert [len(getattr(link, field)) for link in found.links] == [0, 0] and not found.unreadable
    assert found.links[0].unreadable == {
        field: Unreadable("malformed", f"more than {limit} entries")
    }
    assert not found.links[1].unreadable


@pytest.mark.parametrize("field", ["online_cpus", "possible_cpus", "distribution"])
def test_text_length_limits(field: str) -> None:
    limit = limits.MAX_CPU_LIST_CHARS if field.endswith("cpus") else limits.MAX_TEXT_CHARS
    assert (
        getattr(
            inventory(inventory_line(platform={**PLATFORM, field: "1" * limit})).platform, field
        )
        == "1" * limit
    )
    found = inventory(inventory_line(platform={**PLATFORM, field: "1" * (limit + 1)})).platform
    assert len(getattr(found, field)) == limits.MAX_TEXT_CHARS
    assert found.unreadable == {field: Unreadable("malformed", f"more than {limit} characters")}


@pytest.mark.parametrize(
    ("field", "entry", "limit"),
    [
        ("cpus", [1], limits.MAX_CPUS),
        ("links", [1], limits.MAX_LINKS),
        ("softnet", [1], limits.MAX_CPUS),
        ("threads", [1, 2, 3], limits.MAX_THREADS),
        ("interrupts", {}, limits.MAX_INTERRUPTS),
    ],
)
def test_collections_of_counters(field: str, entry: object, limit: int) -> None:
    found = decode(counters_line(**{field: dict.fromkeys(range(limit), entry)})).counters
    assert found is not None and len(getattr(found, field)) == limit and not found.unreadable
    found = decode(counters_line(**{field: dict.fromkeys(range(limit + 1), entry)})).counters
    assert found is not None and not getattr(found, field)
    assert found.unreadable == {field: Unreadable("malformed", f"more than {limit} entries")}


def test_a_record_that_cannot_be_empty_is_left_out_with_the_one_that_it_is_in() -> None:
    """A setting of a profile above its limit: without a method there is no `IpSettings`."""
    profile = {**PROFILE, "ipv4": {"method": "m" * (limits.MAX_TEXT_CHARS + 1)}}
    manager = {
        "version": "1",
        "startup": False,
        "networking_enabled": True,
        "devices": {},
        "profiles": [profile],
    }
    found = inventory(inventory_line(networkmanager=manager))
    assert found.networkmanager is None or not found.networkmanager.profiles
    reasons = [
        *found.unreadable.values(),
        *(found.networkmanager.unreadable.values() if found.networkmanager else ()),
    ]
    assert [one.reason for one in reasons] == ["malformed"]
    assert "4096 characters in method" in reasons[0].detail


def test_a_line_is_rejected_when_its_record_has_no_unreadable_field() -> None:
    limit = limits.MAX_OTHER_ENTRIES
    assert inventory(
        inventory_line(configuration=[{**STANZA, "names": ["a"] * limit}])
    ).configuration
    found = inventory(inventory_line(configuration=[{**STANZA, "names": ["a"] * (limit + 1)}]))
    assert found.unreadable["configuration"].detail == f"more than {limit} entries in names"
    reasons = {str(number): {"reason": "failed"} for number in range(limit + 1)}
    with pytest.raises(LineError, match=f"more than {limit} entries in unreadable"):
        decode(inventory_line(unreadable=reasons))


def traffic_line(kind: str, **fields: Any) -> bytes:
    return json.dumps({"traffic": {"time": 1.0, "id": "1", "kind": kind, **fields}}).encode()


def test_replies_of_a_path_test() -> None:
    replies = {"protocol": "icmp", "rtts": [1e-3] * limits.MAX_PATH_REPLIES}
    path_test = {"address": "192.0.2.1", "source": "192.0.2.2", "replies": [replies]}
    found = decode(traffic_line("path_test", path_test=path_test)).traffic
    assert found is not None and found.path_test is not None
    assert len(found.path_test.replies[0].rtts) == limits.MAX_PATH_REPLIES
    replies["rtts"] = [1e-3] * (limits.MAX_PATH_REPLIES + 1)
    found = decode(traffic_line("path_test", path_test=path_test)).traffic
    assert found is not None and found.path_test is not None and not found.path_test.replies
    reason = f"more than {limits.MAX_PATH_REPLIES} entries in rtts"
    assert found.path_test.unreadable == {"replies": Unreadable("malformed", reason)}


def test_latencies_in_every_bucket_of_the_generator() -> None:
    buckets = packed_counts([1] * BUCKETS)
    floor = {"arguments": [], "seconds": 0.3, "transactions": BUCKETS, "lost": 0}
    found = decode(
        traffic_line("floor", floor={**floor, "latency": {"sum": 1, "buckets": buckets}})
    ).traffic
    assert (
        found is not None
        and found.floor is not None
        and found.floor.latency.buckets == tuple(buckets)
    )
    with pytest.raises(LineError, match=f"more than {len(buckets)} entries in buckets"):
        decode(
            traffic_line("floor", floor={**floor, "latency": {"sum": 1, "buckets": [*buckets, 1]}})
        )


def test_dropped_packets_and_neighbours_that_are_listened_for() -> None:
    group = {"reason": "NO_SOCKET", "place": "p", "ifindex": 2, "packets": 1, "bytes": 1}
    report = {"state": "complete", "groups": [group] * limits.MAX_OTHER_ENTRIES}
    assert decode(traffic_line("drops", drops=report)).traffic is not None
    report["groups"] = [group] * (limits.MAX_OTHER_ENTRIES + 1)
    with pytest.raises(LineError, match=f"more than {limits.MAX_OTHER_ENTRIES} entries in groups"):
        decode(traffic_line("drops", drops=report))
    neighbour = {"source": "listened", "system_name": "n" * (limits.MAX_TEXT_CHARS + 1)}
    found = decode(traffic_line("lldp", lldp={"links": [2], "heard": {"2": neighbour}})).traffic
    assert found is not None and found.lldp is not None and not found.lldp.heard
    reason = f"more than {limits.MAX_TEXT_CHARS} characters in system_name"
    assert found.lldp.unreadable == {"heard": Unreadable("malformed", reason)}


def test_output_of_a_generator_is_as_long_as_the_probe_sends_it() -> None:
    text = "x" * (limits.MAX_OTHER_LINE_BYTES - 1000)
    found = decode(traffic_line("output", text=text)).traffic
    assert found is not None and found.text == text


def test_length_limit_of_each_kind_of_line(monkeypatch: pytest.MonkeyPatch) -> None:
    line = counters_line()
    size, _ = limits.MAX_LINE_SIZES[b'{"counters"']
    assert decode(line + b" " * (size - len(line))) == decode(line)
    with pytest.raises(LineError, match=f"exceeds {size}"):
        decode(line + b" " * (size - len(line) + 1))
    other = json.dumps({"trouble": {"time": 1.0, "message": ""}}).encode()
    assert decode(other + b" " * (limits.MAX_OTHER_LINE_BYTES - len(other))).trouble is not None
    with pytest.raises(LineError, match=f"exceeds {limits.MAX_OTHER_LINE_BYTES}"):
        decode(other + b" " * (limits.MAX_OTHER_LINE_BYTES - len(other) + 1))
    with pytest.raises(LineError, match="exceeds"):  # whatever the line begins with
        decode(
            b" " + inventory_line(messages=[{"time": 1.0, "level": 3, "text": "t" * 400}] * 6000)
        )


def test_values_and_objects_of_a_line_are_counted_before_decoding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nictop.wire.codec._decoder", None)
    _, limit = limits.MAX_LINE_SIZES[b'{"inventory"']
    for napis, words in (
        ([{}] * limits.MAX_LINE_OBJECTS, "records"),
        ([1] * (limit + 1), f"{limit} values"),
    ):
        with pytest.raises(LineError, match=f"more than .*{words} in one line"):
            decode(inventory_line(links=[{**LINK, "napis": napis}]))
    _, limit = limits.MAX_LINE_SIZES[b'{"counters"']
    with pytest.raises(LineError, match=f"more than {limit} values in one line"):
        decode(counters_line(interrupts={str(n): dict.fromkeys(range(64), 1) for n in range(2000)}))


def test_every_limit_belongs_to_a_field() -> None:
    """Detects a field that was renamed."""
    for path in (*limits.MAX_ENTRIES, *limits.MAX_CHARS):
        record, _, field = path.partition(".")
        assert field in {one.name for one in dataclasses.fields(getattr(records, record))}, path


def test_limits_are_not_below_those_of_the_probe() -> None:
    assert (
        limits.MAX_THREADS >= threads.MAX_MACHINE_THREADS
        and limits.MAX_PROFILES >= profiles.MAX_PROFILES
    )
    assert (
        limits.MAX_STANZAS >= link_configuration.MAX_CONFIGURATION_ENTRIES
        and limits.MAX_FORWARDING_ENTRIES >= forwarding.MAX_FORWARDING_ENTRIES
    )
    assert (
        limits.MAX_GUESTS >= guests.MAX_GUESTS
        and limits.MAX_LEASES >= leases.MAX_LEASES
        and limits.MAX_OTHER_ENTRIES >= MAX_NICS
    )
    assert (
        limits.MAX_QDISCS >= qdiscs.MAX_QDISCS_PER_LINK
        and configuration_files.MAX_CONFIGURATION_FILES <= limits.MAX_STANZAS
    )


def test_the_largest_valid_host_is_accepted() -> None:
    """256 CPUs, four NICs with 64 queues and 256 VFs, 256 of these with a netdev, 4000
    interrupts."""
    features = [
        {"name": f"tx-some-feature-{n}", "active": True, "wanted": True, "fixed": False}
        for n in range(60)
    ]
    ethtool = {
        "features": features,
        "driver_counter_names": [f"rx_queue_{n}_packets" for n in range(200)],
    }
    functions = [{"number": n, "address": "02:00:00:00:00:00"} for n in range(256)]
    queues = [
        {"direction": way, "number": n, "rps_cpus": "0" * 71}
        for way in ("rx", "tx")
        for n in range(64)
    ]
    nics = [{**LINK, "queues": queues, "virtual_functions": functions, "ethtool": ethtool}] * 4
    links = [*nics, *([{**LINK, "queues": queues[:16], "ethtool": ethtool}] * 256)]
    interrupts = [
        {"number": n, "actions": ["ens2-TxRx-3"], "pci_address": "0000:02:00.0"}
        for n in range(4000)
    ]
    found = inventory(inventory_line(links=links, interrupts=interrupts, pci=[FUNCTION] * 1100))
    assert len(found.links) == 260 and len(found.interrupts) == 4000 and not found.unreadable
    row = [10**12] * 25
    machine = [
        {"label": str(n), "description": "d" * 40, "counts": dict.fromkeys(range(8), 10**6)}
        for n in range(4000)
    ]
    counters = counters_line(
        links=dict.fromkeys(range(260), row), cpus=dict.fromkeys(range(256), row[:10]),
        machine=machine, vfs=dict.fromkeys(range(4), dict.fromkeys(range(256), row[:8])),
    )  # fmt: skip
    assert isinstance(decode(counters), Line)


def test_a_line_with_as_many_guests_as_a_probe_sends_is_accepted() -> None:
    """All that its limits let it send, with every field."""
    nic = field_mapping(records.GuestNic(addresses=("2001:db8::1/64",)))
    each = guests.MAX_NICS_OF_ALL // guests.MAX_GUESTS
    machine = {
        **field_mapping(records.HostedGuest("g", "vm", "qemu", "running")),
        "nics": [nic] * each,
    }
    lease = field_mapping(records.DhcpLease("a", "m", "s"))
    line = inventory_line(guests=[machine] * guests.MAX_GUESTS, leases=[lease] * leases.MAX_LEASES)
    found = inventory(line)
    assert found.unreadable == {}
    assert found.guests is not None
    assert sum(len(guest.nics) for guest in found.guests) == guests.MAX_NICS_OF_ALL
