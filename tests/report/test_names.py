"""The JSON of ``nictop show`` has a name beside each number that means another record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import nictop
from nictop.cli.hosts import read_recorded_hosts
from nictop.hosts.observe import Unreachable
from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.probe.records import Line, LinkChange
from nictop.report.facts.host import show_json, show_schema, show_values
from nictop.report.facts.names import (
    LINK_FIELDS,
    MAPPINGS,
    REFERENCES,
    Names,
    _is_reference,
    _record,
    names_of,
)
from tests.cli.commands.test_report import busy_queues, check
from tests.model.hosts import live_host
from tests.rules.test_recorded_hosts import EXPECTED
from tests.support.captured import captured_lines
from tests.support.rule_cases import CASES_DIRECTORY, host_facts

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


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (demo, {"ifindex"}),
        (busy_queues, {"ifindex"}),
        (live_host, {"ifindex", "lower", "master"}),
    ],
)
def test_every_number_of_a_link_has_its_name_beside_it(make: Any, expected: set[str]) -> None:
    snapshot = make()
    names = {link.ifindex: link.name for link in snapshot.links.values()}
    seen = set()
    for record in records(json.loads(show_json(snapshot))):
        for field in LINK_FIELDS.intersection(record):
            if type(record[field]) is int and not (field == "ifindex" and "name" in record):
                is_foreign = field == "lower" and record["lower_namespace"] is not None
                assert record[f"{field}_name"] == (
                    None if is_foreign else names.get(record[field])
                ), (field, record)
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
    raw, names, named = (
        document["counters"],
        document["counter_names"],
        document["counters_by_name"],
    )
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


def captured(name: str) -> Snapshot:
    snapshot = with_state(Snapshot.empty("guest"), "live", "")
    for line in captured_lines(name):
        snapshot = advance(snapshot, line)
    return snapshot


def case_hosts() -> Iterator[Snapshot]:
    """Of every rule, the first host of its first case that fires."""
    for path in sorted(CASES_DIRECTORY.glob("*/*.json")):
        if path.parent.name != "bases":
            yield host_facts(json.loads(path.read_text())["fires"][0]["hosts"][0]).snapshot


def unnamed(found: Sequence[dict[str, Any]], names: Names) -> Iterator[tuple[str, object]]:
    """(field, number) of each number whose name is known elsewhere in the document, and is not
    beside it."""
    for record in found:
        for field, kind in REFERENCES.items():
            value = record.get(field)
            is_record = isinstance(value, dict) or (
                isinstance(value, list) and any(isinstance(one, dict) for one in value)
            )
            if value is None or is_record or not _is_reference(field, record):
                continue
            is_foreign = field == "lower" and record.get("lower_namespace") is not None
            known = [
                getattr(names, kind).get(str(one))
                for one in (value if isinstance(value, list) else [value])
            ]
            beside = record.get(f"{field}_names", [record.get(f"{field}_name")])
            if known and not is_foreign and beside != known:
                yield field, value
        if (
            "actions" in record
            and "number" in record
            and record.get("name") != names.interrupts.get(str(record["number"]))
        ):
            yield "number", record["number"]


def test_every_number_of_every_known_host_has_its_name_beside_it() -> None:
    """All captured hosts, and the hosts of all rules."""
    seen: set[str] = set()
    for snapshot in (
        demo(),
        busy_queues(),
        live_host(),
        *map(captured, sorted(EXPECTED)),
        *case_hosts(),
    ):
        found = list(records(show_values(snapshot)))
        assert list(unnamed(found, names_of(snapshot))) == [], snapshot.host
        for record in found:
            seen |= {
                field
                for field in REFERENCES
                if record.get(f"{field}_name") or record.get(f"{field}_names")
            }
            seen |= {"interrupt"} if record.get("name") and "actions" in record else set()
    assert seen >= {"master", "lower", "table", "active_profile", "state", "interrupt"}


def test_threads_and_interrupts_have_names_wherever_they_are_counted() -> None:
    document = json.loads(show_json(captured("virtio-4-queues")))
    interrupts = {str(one["number"]): one["name"] for one in document["inventory"]["interrupts"]}
    threads = {str(one["tid"]): one["name"] for one in document["inventory"]["threads"]}
    assert (
        any("input" in name for name in interrupts.values()) and "ksoftirqd/0" in threads.values()
    )
    for part in ("counters", "rates"):
        named = document[part]["interrupts_names"]
        assert named == {number: interrupts[number] for number in document[part]["interrupts"]}, (
            part
        )
    counted = document["counters"]
    assert counted["threads_names"] == {number: threads[number] for number in counted["threads"]}


def test_a_field_has_a_name_only_where_it_is_a_reference() -> None:
    names = Names({}, {}, {})
    assert _record({"state": 100, "managed": True}, names)["state_name"] == "connected"
    assert "state_name" not in _record({"state": 100}, names)
    threads = Names({}, {"81": "napi/ens4-8193"}, {"44": "virtio0-input.0"})
    napi = _record({"id": 8193, "irq": 44, "thread": 81}, threads)
    assert (napi["irq_name"], napi["thread_name"]) == ("virtio0-input.0", "napi/ens4-8193")
    assert _record({"napi_threads": [81, 82]}, threads)["napi_threads_names"] == [
        "napi/ens4-8193",
        None,
    ]
    assert _record({"pid": 81, "tid": 82}, threads)["pid_name"] == "napi/ens4-8193"
    assert "pid_name" not in _record({"pid": 81, "euid": 0}, threads)
    assert _record({"waits": {"81": [1, 2]}}, threads)["waits_names"] == {"81": "napi/ens4-8193"}
    assert _record({"table": 254}, names)["table_name"] == "main"


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


def test_an_unread_link_has_no_queue_map() -> None:
    """An empty one would say that it has no queues."""
    snapshot = live_host()
    new = LinkChange(
        1e6, 77, gone=False, name="ens9", operstate="up", carrier=True, flags=3, mtu=1500
    )
    after = advance(snapshot, Line(link_change=new))
    maps = show_values(after)["queue_maps"]
    assert maps and "77" not in maps
