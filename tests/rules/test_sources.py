"""A rule that needs an unreadable source is skipped with the reason: no missing and no invented
findings.

Every case with a finding is evaluated again with each source unreadable in turn. A finding that is
then missing must be among the skipped checks, and there must be no new findings.
"""

from __future__ import annotations

import dataclasses
import json
import operator
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from nictop.model.rates.links import Rates, rates
from nictop.model.snapshot import has_platform
from nictop.probe import records
from nictop.probe.inventory.collect import MACHINE_SOURCES, MANAGER_SOURCES
from nictop.probe.records import Counters, Ethtool, Inventory, Line, Link, Unreadable
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.rules import RULES, Finding, HostFacts, Skipped, diagnose
from tests.rules.test_rule_cases import FILES
from tests.support.rule_cases import complete, host_facts_after, probe_lines

WHY = Unreadable("failed", "did not answer")
EMPTY: dict[str, Any] = {
    "pci": (),
    "links": (),
    "interrupts": (),
    "threads": (),
    "networkmanager": None,
    "networkd": {},
    "configuration": (),
    "stopped_managers": (),
    "services": records.Services(),
    "settings": records.Settings(),
    "iommu": (),
    "forwarding": (),
    "devlink": (),
    "lldp": {},
    "filters": records.PacketFilters(),
    "messages": None,
    "routing": None,
    "guests": None,
}
"""Source → its value in an inventory without it."""
WITHOUT: dict[str, Callable[[Link], Link]] = {
    "ethtool": lambda link: dataclasses.replace(link, ethtool=Ethtool()),
    "queues": lambda link: dataclasses.replace(link, queues=(), napis=()),
    "qdiscs": lambda link: dataclasses.replace(link, traffic_control=(), tc_filters=()),
    "bridge_vlans": lambda link: dataclasses.replace(link, bridge_vlans=None),
    "bonds": lambda link: dataclasses.replace(link, bond_port=without_lacp_details(link)),
    "addresses": lambda link: dataclasses.replace(link, addresses=()),
    "routes": lambda link: dataclasses.replace(link, default_routes=()),
}
"""Source of link attributes → function that removes them from a link."""
FIELDS: dict[str, tuple[type, tuple[str, ...]]] = {
    "ethtool": (
        Ethtool,
        tuple(one.name for one in dataclasses.fields(Ethtool) if one.name != "unreadable"),
    ),
    "links": (Link, ("address_assignment", "channels", "subnet_routes")),
    "pci": (
        records.PciFunction,
        (
            *(
                "driver",
                "enabled",
                "numa_node",
                "driver_override",
                "physical_function",
                "sriov",
                "link",
                "parent_link",
            ),
            *("aspm", "reset_methods", "errors", "parent_errors"),
        ),
    ),
    "interrupts": (
        records.Interrupt,
        ("actions", "allowed_cpus", "effective_cpus", "movable", "chip"),
    ),
    "platform": (records.Platform, ("hypervisor", "online_cpus", "iommu_groups", "node_cpus")),
    "settings": (records.Settings, ("command_line", "policy_rules", "governors", "frequencies")),
    "routing": (records.Routing, ("neighbours", "routes", "rules", "name_servers")),
    "counters": (
        Counters,
        ("links", "cpus", "driver", "interrupts", "softnet", "threads", "channels", "vfs"),
    ),
}
"""Source → its record class, and those of its fields that a probe can name in `unreadable`."""


def without_lacp_details(link: Link) -> records.BondPort | None:
    """The port of a bond without what /proc/net/bonding has."""
    if link.bond_port is None:
        return None
    return dataclasses.replace(
        link.bond_port, actor=None, partner=None, actor_churn=None, partner_churn=None
    )


def without(source: str) -> Callable[[Any], Any]:
    """Function from an inventory to the same inventory with an unreadable `source`."""
    area, _, field = source.partition(".")
    if field:
        kind, _ = FIELDS[area]
        empty = default(kind, field)
        return lambda record: changed(
            record,
            kind,
            lambda one: (
                {}
                if getattr(one, field) == empty
                else {field: empty, "unreadable": {**one.unreadable, field: WHY}}
            ),
        )

    def cut(inventory: Any) -> Any:
        if not isinstance(inventory, Inventory):
            return inventory
        unreadable = {**inventory.unreadable, area: WHY}
        if area in EMPTY:
            return dataclasses.replace(inventory, **{area: EMPTY[area]}, unreadable=unreadable)
        links = tuple(map(WITHOUT[area], inventory.links))
        return dataclasses.replace(inventory, links=links, unreadable=unreadable)

    return cut


def default(kind: Any, name: str) -> Any:
    field = next(one for one in dataclasses.fields(kind) if one.name == name)
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return {} if "dict" in str(field.type) else () if "tuple" in str(field.type) else None


def changed(record: Any, kind: type, change: Callable[[Any], dict[str, Any]]) -> Any:
    """`record` with `change` applied to every record of `kind` in it; the same object if nothing is
    changed."""
    if isinstance(record, tuple):
        parts = [changed(one, kind, change) for one in record]
        return record if all(map(operator.is_, parts, record)) else tuple(parts)
    names = nested_fields(record.__class__)
    if names is None:
        return record
    fields = {}
    for name in names:
        before = getattr(record, name)
        after = changed(before, kind, change)
        if after is not before:
            fields[name] = after
    if isinstance(record, kind):
        fields.update(change(record))
    return dataclasses.replace(record, **fields) if fields else record


@cache
def nested_fields(kind: type) -> tuple[str, ...] | None:
    """Fields of a record class that are searched for other records; None: it is none."""
    if not dataclasses.is_dataclass(kind):
        return None
    return () if kind is Counters else tuple(one.name for one in dataclasses.fields(kind))


def outcomes(rule: str, hosts: list[HostFacts]) -> tuple[set[tuple[str, str]], set[str]]:
    """(Host and subject of each finding, hosts for which the rule was skipped)."""
    results = list(RULES[rule].evaluate(hosts))
    return (
        {(one.host, one.subject) for one in results if isinstance(one, Finding)},
        {one.host for one in results if isinstance(one, Skipped)},
    )


@pytest.fixture(autouse=True)
def rates_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the same two records of counters: most sources are parts of the inventory."""
    known: dict[tuple[int, int], tuple[Counters, Counters, Rates | None]] = {}

    def known_rates(before: Counters, after: Counters, clock_ticks: int) -> Rates | None:
        key = (id(before), id(after))
        if key not in known:
            known[key] = (before, after, rates(before, after, clock_ticks))
        return known[key][2]

    monkeypatch.setattr("nictop.model.snapshot.rates", known_rates)


WHOLE = (*EMPTY, *WITHOUT)
PARTS = tuple(f"{area}.{field}" for area, (_, fields) in FIELDS.items() for field in fields)


def cases() -> Iterator[Any]:
    for path in FILES:
        for number, case in enumerate(json.loads(path.read_text())["fires"]):
            sources = WHOLE if number else (*WHOLE, *PARTS)
            yield pytest.param(path.stem, case, sources, id=f"{path.stem}-{number}")


@pytest.mark.parametrize(("rule", "case", "sources"), list(cases()))
def test_a_rule_without_a_source_is_skipped(
    rule: str, case: dict[str, Any], sources: tuple[str, ...]
) -> None:
    hosts = []
    for host in case["hosts"]:
        lines = probe_lines(host)
        assert lines[0].hello is not None
        whole = complete(host)
        name = whole.get("name", lines[0].hello.hostname)
        hosts.append((lines, name, whole.get("agents", ())))
    before, _ = outcomes(rule, [host_facts_after(*one) for one in hosts])
    assert before
    for source in sources:
        cut = without(source)
        left = [(cut_lines(lines, cut), name, agents) for lines, name, agents in hosts]
        if left == hosts:  # the source is not in the inventory
            continue
        after, skipped = outcomes(rule, [host_facts_after(*one) for one in left])
        assert not after - before, f"without {source} it is invented: {after - before}"
        lost = before - after
        assert not lost or skipped, f"without {source} it is silent about {lost}"


@pytest.mark.parametrize(("rule", "case", "sources"), list(cases()))
def test_no_new_findings_while_managers_are_still_being_read(
    rule: str, case: dict[str, Any], sources: tuple[str, ...]
) -> None:
    """Several sources are missing at once then; there are no findings that the complete inventory
    does not have."""
    del sources
    why = Unreadable("failed", NOT_READ_YET)

    def cut(inventory: Any) -> Any:
        if not isinstance(inventory, Inventory):
            return inventory
        left = {source: EMPTY[source] for source in MANAGER_SOURCES}
        unreadable = {**inventory.unreadable, **dict.fromkeys(MANAGER_SOURCES, why)}
        return dataclasses.replace(
            inventory, **left, unreadable=unreadable, pending=MANAGER_SOURCES
        )

    hosts = [(probe_lines(host), complete(host).get("name", "guest")) for host in case["hosts"]]
    known = diagnose([host_facts_after(*one) for one in hosts], [RULES[rule]])
    part = diagnose(
        [host_facts_after(cut_lines(lines, cut), name) for lines, name in hosts], [RULES[rule]]
    )
    before, after = (
        {(one.host, one.subject) for one in diagnosis.findings} for diagnosis in (known, part)
    )
    assert after <= before
    assert after == before or {one.reason.rpartition(": ")[2] for one in part.skipped} == {
        NOT_READ_YET
    }


def test_links_alone_have_no_findings() -> None:
    host = host_facts_after(probe_lines({"base": "hypervisor"}), "host")
    assert has_platform(host.snapshot)
    links = dataclasses.replace(host.inventory, pending=(*MACHINE_SOURCES, *MANAGER_SOURCES))
    assert not has_platform(dataclasses.replace(host.snapshot, inventory=links))


def cut_lines(lines: list[Line], cut: Callable[[Any], Any]) -> list[Line]:
    return [line if line.hello is not None else cut_line(line, cut) for line in lines]


def cut_line(line: Line, cut: Callable[[Any], Any]) -> Line:
    inventory, counters = cut(line.inventory), cut(line.counters)
    if inventory is line.inventory and counters is line.counters:
        return line
    return dataclasses.replace(line, inventory=inventory, counters=counters)
