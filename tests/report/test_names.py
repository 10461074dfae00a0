"""The JSON of ``nictop show`` has a name beside each number that means another record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nictop
from nictop.cli.hosts import read_recorded_hosts
from nictop.hosts.observe import Unreachable
from nictop.model.snapshot import Snapshot
from nictop.report.facts.host import show_json, show_schema
from nictop.report.facts.names import LINK_FIELDS, MAPPINGS, Names, _record
from tests.cli.commands.test_report import busy_queues, check
from tests.model.hosts import live_host

DEMO = str(Path(nictop.__file__).parent / "recording" / "demo.nictop")


def demo() -> Snapshot:
    answer = read_recorded_hosts(DEMO, None)[0]
    assert not isinstance(answer, Unreachable)
    return answer[0]


def records(value: Any) -> Iterator[dict[str, Any]]:
    """All objects of a document."""
    if isinstance(value, dict):
        yield value
        for one in value.values():
            yield from records(one)
    if isinstance(value, list):
        for one in value:
            yield from records(one)


@pytest.mark.parametrize(("make", "expected"), [(demo, set()), (busy_queues, set()), (live_host, {"lower", "master"})])
def test_every_number_of_a_link_has_its_name_beside_it(make: Any, expected: set[str]) -> None:
    snapshot = make()
    names = {link.ifindex: link.name for link in snapshot.links.values()}
    seen = set()
    for record in records(json.loads(show_json(snapshot))):
        for field in LINK_FIELDS.intersection(record):
            if type(record[field]) is int and not (field == "ifindex" and "name" in record):
                is_foreign = field == "lower" and record["lower_namespace"] is not None
                assert record[f"{field}_name"] == (None if is_foreign else names.get(record[field])), (field, record)
                seen.add(field)
    assert seen == expected


def test_every_mapping_by_number_has_names() -> None:
    snapshot = demo()
    seen = set()
    for record in records(json.loads(show_json(snapshot))):
        for field in MAPPINGS.keys() & record.keys():
            mapping = record[field]
            if not isinstance(mapping, dict) or not mapping or not all(map(str.isdigit, mapping)):
                continue
            seen.add(field)
            beside = record.get(f"{field}_names", {})
            for number, value in mapping.items():
                assert number in beside or value["name"], (field, number)
    assert {"links", "queues", "driver", "threads", "interrupts", "queue_maps", "vfs"} <= seen


def test_rates_can_be_read_by_name() -> None:
    document = json.loads(show_json(demo()))
    rates = document["rates"]
    assert {one["name"] for one in rates["links"].values()} >= {"lo", "ens192", "ens224", "ens256"}
    assert "ksoftirqd/0" in {one["name"] for one in rates["threads"].values()}
    (ifindex,) = (number for number, one in rates["links"].items() if one["name"] == "ens256")
    assert list(rates["driver_counters"]["ens256"].values()) == rates["driver"][ifindex]
    assert document["counters"]["links_names"][ifindex] == "ens256"


def test_counters_can_be_read_by_name() -> None:
    document = json.loads(show_json(demo()))
    raw, names, named = document["counters"], document["counter_names"], document["counters_by_name"]
    ifindex = next(number for number, name in raw["links_names"].items() if name == "ens224")
    position = names["links"].index("rx_bytes")
    assert named["links"]["ens224"]["rx_bytes"] == raw["links"][ifindex][position] > 0
    assert set(named["links"]) == set(raw["links_names"].values())
    assert named["cpus"]["0"]["user"] == raw["cpus"]["0"][names["cpus"].index("user")]
    for kind in ("queues", "driver"):
        assert {raw["links_names"][number] for number in raw[kind]} >= set(named[kind]), kind
    for number, queues in raw["queues"].items():
        for direction, queue, values in queues:
            name = raw["links_names"][number]
            assert list(named["queues"][name][f"{direction} {queue}"].values()) == values
    assert sum(map(len, named["softnet"].values())) == sum(map(len, raw["softnet"].values()))


def test_a_link_of_another_namespace_has_no_name_of_this_one() -> None:
    names = Names({"2": "eth0"}, {}, {})
    assert _record({"lower": 2, "lower_namespace": None}, names)["lower_name"] == "eth0"
    assert _record({"lower": 2, "lower_namespace": 0}, names)["lower_name"] is None


def test_the_priority_of_a_policy_rule_is_no_link() -> None:
    names = Names({"2": "eth0"}, {}, {})
    assert _record({"target": 2, "verdict": "pass"}, names)["target_name"] == "eth0"
    assert "target_name" not in _record({"target": 2, "priority": 1}, names)


def test_the_schema_has_the_names() -> None:
    schema = json.loads(show_schema())
    check(json.loads(show_json(demo())), schema, schema["$defs"])
    assert "master_name" in schema["$defs"]["Link"]["properties"]
    assert "name" in schema["$defs"]["QueueMap"]["properties"]
