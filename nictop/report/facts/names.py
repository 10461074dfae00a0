"""Names beside the numbers by which the records of a host refer to each other, for the JSON of
``nictop show``.

Pure: takes the document of one host as JSON values, and its schema. Numbers and keys stay as they
are:

- ``"master": 7`` is followed by ``"master_name": "bond0"``; likewise threads, interrupts, routing
  tables, profiles by UUID, and the states and reasons of NetworkManager; null: the number has no
  name, or it is not known;
- a record in a mapping by number gets ``"name"``: ``"rates": {"links": {"2": {"name": "ens224",
  …}}}``;
- a mapping of anything else is followed by one of names: ``"driver": {"2": […]}, "driver_names":
  {"2": "ens224"}``;
- ``counters_by_name`` has the counters by the name of the link or the number of the CPU, then by
  their own names: ``{"links": {"ens224": {"rx_bytes": 1200, …}}, "cpus": {"0": {"user": 12, …}},
  …}``;
- in the rates, ``driver_counters`` has the counters of `driver` by their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from nictop.model.facts.routing import TABLE_NAMES
from nictop.model.managers.networkmanager_states import REASON_TEXTS, STATE_TEXTS
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records import Interrupt

Json = dict[str, Any]
Kind = Literal[
    "links", "threads", "interrupts", "tables", "profiles", "device_states", "state_reasons"
]

LINK_FIELDS = frozenset(
    {"ifindex", "master", "lower", "link", "active_port", "primary", "unbound", "target", "links"}
)
"""Fields with the ifindex of a link, or with a list of them."""
REFERENCES: Mapping[str, Kind] = {
    **dict.fromkeys(sorted(LINK_FIELDS), "links"),
    "irq": "interrupts",
    "thread": "threads",
    "napi_threads": "threads",
    "pid": "threads",
    "table": "tables",
    "active_profile": "profiles",
    "state": "device_states",
    "reason": "state_reasons",
}
"""Field with a number, a UUID, or a list of them → what they mean."""
ONLY_BESIDE: Mapping[str, str] = {"pid": "tid", "state": "managed", "reason": "managed"}
"""Field → field of the records in which it is such a reference; elsewhere it is something else."""
INTERRUPT_FIELD = "actions"
"""Field of the record of an interrupt, whose name these are, by its `number`."""
MAPPINGS: Mapping[str, Kind] = {
    "links": "links",
    "queues": "links",
    "driver": "links",
    "channels": "links",
    "vfs": "links",
    "ports": "links",
    "queue_maps": "links",
    "lldp": "links",
    "networkd": "links",
    "devices": "links",
    "nics": "links",
    "threads": "threads",
    "waits": "threads",
    "interrupts": "interrupts",
}
"""Field with a mapping by number → what the numbers are."""
NOT_A_REFERENCE = {"ifindex": "name", "target": "priority"}
"""Field → field of the records in which it is something else: the link itself, and the priority of
a policy rule."""
FOREIGN_FIELD = "lower_namespace"
"""If it is set, `lower` is the ifindex of a link in another network namespace."""

NAME_SCHEMA: Json = {"anyOf": [{"type": "string"}, {"type": "null"}]}
NAMES_SCHEMA: Json = {"type": "object", "additionalProperties": {"type": "string"}}


COUNTERS_SCHEMA: Json = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
}
"""Name → name of the counter → value."""


@dataclass(frozen=True)
class Names:
    """Number (UUID of profiles) → name, of one host."""

    links: Mapping[str, str]
    threads: Mapping[str, str]
    interrupts: Mapping[str, str]
    profiles: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(
        default_factory=lambda: {str(number): name for number, name in TABLE_NAMES.items()}
    )
    device_states: Mapping[str, str] = field(
        default_factory=lambda: {str(number): text for number, text in STATE_TEXTS.items()}
    )
    state_reasons: Mapping[str, str] = field(
        default_factory=lambda: {str(number): text for number, text in REASON_TEXTS.items()}
    )


def names_of(snapshot: Snapshot) -> Names:
    inventory = snapshot.inventory
    links = {str(ifindex): link.name for ifindex, link in snapshot.links.items()}
    if inventory is None:
        return Names(links, {}, {})
    threads = {str(thread.tid): thread.name for thread in inventory.threads}
    interrupts = {}
    for interrupt in inventory.interrupts:
        name = interrupt_name(interrupt)
        if name:
            interrupts[str(interrupt.number)] = name
    profiles = {}
    if inventory.networkmanager is not None:
        profiles = {profile.uuid: profile.id for profile in inventory.networkmanager.profiles}
    return Names(links, threads, interrupts, profiles)


def interrupt_name(interrupt: Interrupt) -> str:
    """Its handlers; of one without a handler, the PCI function that it belongs to. "": neither is
    known."""
    return ", ".join(interrupt.actions) or interrupt.pci_address or ""


def add_names(document: Json, snapshot: Snapshot) -> Json:
    """The document of a host with names beside the numbers."""
    named: Json = _record(document, names_of(snapshot))
    if document.get("counters") is not None:
        named["counters_by_name"] = _counters_by_name(
            document["counters"], document["counter_names"], snapshot
        )
    if document.get("rates") is not None:
        named["rates"]["driver_counters"] = _driver_counters(document["rates"]["driver"], snapshot)
    return named


def _value(value: Any, names: Names) -> Any:
    if isinstance(value, (list, tuple)):
        return [_value(member, names) for member in value]
    if isinstance(value, dict):
        return _record(value, names)
    return value


def _record(record: Json, names: Names) -> Json:
    found: Json = {}
    for name, value in record.items():
        if name in MAPPINGS and _is_by_number(value):
            found.update(_mapping(name, value, names))
            continue
        found[name] = _value(value, names)
        if _is_reference(name, record):
            found.update(_reference_names(name, value, record, names))
        elif name == "number" and INTERRUPT_FIELD in record:
            found["name"] = names.interrupts.get(str(value))
    return found


def _is_reference(field: str, record: Json) -> bool:
    """In this record, or schema of one, the field means another record."""
    if field in ONLY_BESIDE and ONLY_BESIDE[field] not in record:
        return False
    return field in REFERENCES and NOT_A_REFERENCE.get(field) not in record


def _reference_names(
    field: str, value: Any, record: Json, names: Names
) -> Iterator[tuple[str, Any]]:
    known = getattr(names, REFERENCES[field])
    if field == "lower" and record.get(FOREIGN_FIELD) is not None:
        known = {}
    if _is_key(value):
        yield f"{field}_name", known.get(str(value))
    elif _is_list_of_keys(value):
        yield f"{field}_names", [known.get(str(member)) for member in value]


def _mapping(field: str, mapping: Json, names: Names) -> Iterator[tuple[str, Any]]:
    known = getattr(names, MAPPINGS[field])
    if all(map(_is_record, mapping.values())):
        records = {}
        for number, record in mapping.items():
            records[number] = {"name": known.get(number), **_record(record, names)}
        yield field, records
        return
    yield field, {number: _value(value, names) for number, value in mapping.items()}
    yield f"{field}_names", {number: known[number] for number in mapping if number in known}


def _is_by_number(value: Any) -> bool:
    if not value or not isinstance(value, dict):
        return False
    return all(map(str.isdigit, value))


def _is_record(value: Any) -> bool:
    if not value or not isinstance(value, dict):
        return False
    return not _is_by_number(value)


def _is_key(value: Any) -> bool:
    """A number, or the UUID of a profile."""
    return isinstance(value, (int, str)) and not isinstance(value, bool)


def _is_list_of_keys(value: Any) -> bool:
    """One at least."""
    if not value or not isinstance(value, (list, tuple)):
        return False
    return all(map(_is_key, value))


def _counters_by_name(counters: Json, counter_names: Json, snapshot: Snapshot) -> Json:
    """Kind of counter → name of the link, or number of the CPU → name of the counter → value; with
    the queue, VF or channel between link and counter where there are several."""
    links = names_of(snapshot).links
    found: Json = {"links": {}, "queues": {}, "vfs": {}, "ports": {}, "channels": {}}
    found["driver"] = _driver_counters(counters["driver"], snapshot)
    for kind in ("cpus", "softirqs", "softnet"):
        found[kind] = _named_each(counter_names[kind], counters[kind])
    for ifindex, values in counters["links"].items():
        found["links"][links.get(ifindex, ifindex)] = _named(counter_names["links"], values)
    for ifindex, queues in counters["queues"].items():
        found["queues"][links.get(ifindex, ifindex)] = {
            f"{direction} {number}": _named(counter_names["queues"], values)
            for direction, number, values in queues
        }
    for ifindex, counted in counters["ports"].items():
        named = _named(counter_names["ports"], counted["numbers"])
        found["ports"][links.get(ifindex, ifindex)] = named
    for kind in ("vfs", "channels"):
        for ifindex, parts in counters[kind].items():
            named = _named_each(counter_names[kind], parts)
            found[kind][links.get(ifindex, ifindex)] = named
    return found


def _named_each(names: list[str], values_of: Json) -> Json:
    return {number: _named(names, values) for number, values in values_of.items()}


def _named(names: list[str], values: list[Any]) -> Json:
    return dict(zip(names, values, strict=False))


def _driver_counters(rates: Json, snapshot: Snapshot) -> Json:
    """Name of the link → name of the counter → per second, or its value."""
    found: Json = {}
    for ifindex, values in rates.items():
        link = snapshot.links.get(int(ifindex))
        if link is None or link.ethtool is None:
            continue
        names = link.ethtool.driver_counter_names
        if names:
            found[link.name] = dict(zip(names, values, strict=False))
    return found


# ------------------------------------------------------------------------------------------- schema


def add_names_to_schema(schema: Json) -> Json:
    """The schema of such a document, from that without names."""
    parts: Json = schema["$defs"]
    for part in list(parts.values()):
        properties: Json = part.get("properties", {})
        for name, value in list(properties.items()):
            if name in MAPPINGS and "additionalProperties" in value:
                properties.update(_mapping_name_schemas(name, value["additionalProperties"], parts))
            elif _is_reference(name, properties):
                properties.update(_reference_name_schemas(name, value))
            elif name == "number" and INTERRUPT_FIELD in properties:
                properties["name"] = NAME_SCHEMA
    parts["Rates"]["properties"]["driver_counters"] = {
        "type": "object",
        "description": "Name of the link, then of the driver's counter: per second.",
        "additionalProperties": {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        },
    }
    parts["ShowDocument"]["properties"]["counters_by_name"] = {
        "type": "object",
        "description": "Kind of counter, then name of the link or number of the CPU, then "
        "(queues, vfs, channels) "
        "which of the link, then name of the counter: value.",
        "properties": dict.fromkeys(
            ("links", "driver", "ports", "cpus", "softirqs", "softnet"), COUNTERS_SCHEMA
        )
        | {
            kind: {"type": "object", "additionalProperties": COUNTERS_SCHEMA}
            for kind in ("queues", "vfs", "channels")
        },
    }
    return schema


def _mapping_name_schemas(name: str, values: Json, parts: Json) -> Iterator[tuple[str, Json]]:
    """If the values of the mapping are records, they have the name themselves."""
    if "$ref" in values:
        parts[values["$ref"].rpartition("/")[2]]["properties"].setdefault("name", NAME_SCHEMA)
    else:
        yield f"{name}_names", NAMES_SCHEMA


def _reference_name_schemas(name: str, value: Json) -> Iterator[tuple[str, Json]]:
    kinds = [schema.get("type") for schema in value.get("anyOf", [value])]
    if "integer" in kinds or "string" in kinds:
        yield f"{name}_name", NAME_SCHEMA
    elif "array" in kinds:
        yield f"{name}_names", {"type": "array", "items": NAME_SCHEMA}
