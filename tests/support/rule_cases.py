"""Hosts of rule cases, which are files in a short notation: a host is a JSON object.

``base`` names a host in tests/data/rules/bases into which the other keys are merged: objects are
merged, ``null`` removes, anything else replaces (JSON merge patch).

    base                                      name of another host
    time, wall                                of the inventory: seconds since boot, since the epoch
    name, hello, platform, services, settings as the records of the same names
    links    {"ens224": {fields of Link}}     default: ifindex by order, Ethernet, up, MTU 1500
    pci      {"0000:02:00.0": {...}}          PciFunction
    interrupts {"44": {...}}, threads {"81": {...}}
    networkmanager {..., "devices": {"ens224": {...}}, "profiles": {"UUID": {...}}}
    networkd {"ens224": {...}}
    lldp {"ens224": [{...}]}                  LldpNeighbour
    listened {"ens224": {...}}                LldpNeighbour, null: nothing was received while
                                              listening
    routing {"neighbours": [{...}], "routes": [{...}], "rules": [{...}], "name_servers": [...]}
                                              Neighbour, TableRoute, PolicyRule; links by name in
                                              "ifindex"; defaults: reachable, unicast in the table
                                              main by ip-route(8), a rule with a table
    configuration, stopped_managers, iommu, forwarding, devlink, messages, leases as lists of records
                                              (links by ifindex there)
    guests [{..., "nics": [{"link": "tap0", ...}]}]
                                              HostedGuest, GuestNic; links by name
    agents [{"guest": "web1", "interfaces": [...]}]
                                              AgentFacts of these guests, at the end
    before [{...}]                            earlier states: each is merged into the host, and was
                                              its inventory
    filters {"chains": {"ip filter FORWARD": {"policy": "drop", "rules": ["in br0 accept 12"]}}},
    see `filter_rule` counters {"start": {...}, "per_second": {...}, "samples": 10}

Counters are by name: links and driver by interface, cpus, softnet and softirqs by CPU, interrupts
by number and CPU, queues by interface and "rx 0", vfs by interface and VF number, channels by
interface and channel id, threads by id ([user, system, cpu]), waits by thread id, stack by name.
The lines of the host, one second apart, then go through `advance`, as those of a live host.
"""

from __future__ import annotations

import copy
import json
from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from nictop.model.guests.agent_facts import AgentFacts, AgentsTold, guest_key
from nictop.model.guests.table import hosted_guests
from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import (
    CHANNEL_COUNTERS,
    CPU_TIMES,
    LINK_COUNTERS,
    QUEUE_COUNTERS,
    SOFTIRQS,
    SOFTNET_COUNTERS,
    VCPU_WAITS,
    VF_COUNTERS,
    Counters,
    Hello,
    Inventory,
    Line,
)
from nictop.rules import HostFacts
from tests.support.captured import as_sent_now

CASES_DIRECTORY = Path(__file__).parents[1] / "data" / "rules"

WALL = 1_800_000_000.0
"""2027-01-15 08:00:00 UTC, of each inventory."""
HELLO = {
    "protocol": 1,
    "version": "0",
    "hostname": "guest",
    "kernel": "6.12.0",
    "machine": "x86_64",
    "python": "3.11.2",
    "pid": 1,
    "euid": 0,
    "boot_id": "b",
    "clock_ticks": 100,
    "monotonic": 0.0,
    "wall": 0.0,
    "interval": 1.0,
}
PLATFORM: dict[str, Any] = {
    "hypervisor": None,
    "system_vendor": None,
    "product_name": None,
    "distribution": None,
    "distribution_id": None,
    "online_cpus": "0-3",
    "possible_cpus": "0-3",
    "numa_nodes": "0",
    "iommu_groups": 0,
}
LINK: dict[str, Any] = {
    "type": 1,
    "flags": 0x11043,
    "operstate": "up",
    "carrier": True,
    "mtu": 1500,
}
PCI: dict[str, Any] = {
    "class_code": 0x020000,
    "vendor_id": 0x8086,
    "device_id": 0x10C9,
    "subsystem_vendor_id": None,
    "subsystem_device_id": None,
    "revision": 1,
}
INTERRUPT: dict[str, Any] = {"actions": [], "pci_address": None}
PROFILE: dict[str, Any] = {
    "type": "802-3-ethernet",
    "filename": None,
    "unsaved": False,
    "generated": False,
    "volatile": False,
    "external": False,
}
DEVICE: dict[str, Any] = {
    "type": 1,
    "state": 100,
    "reason": 0,
    "managed": True,
    "autoconnect": True,
}
IP: dict[str, Any] = {"method": "auto"}


def merge_patch(old: Any, new: Any) -> Any:
    """JSON merge patch (RFC 7396)."""
    if not isinstance(new, dict):
        return copy.deepcopy(new)
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        if value is None and isinstance(result.get(key), dict):
            del result[key]
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


@lru_cache
def base(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((CASES_DIRECTORY / "bases" / f"{name}.json").read_text())
    return complete(loaded)


def complete(host: dict[str, Any]) -> dict[str, Any]:
    """A host merged into its base."""
    base_name = host.get("base")
    whole: dict[str, Any] = merge_patch(base(base_name), host) if base_name else host
    return {key: value for key, value in whole.items() if key != "base"}


def host_facts(host: dict[str, Any]) -> HostFacts:
    """The host as input of the rules."""
    lines = probe_lines(host)
    hello = lines[0].hello
    assert hello is not None
    whole = complete(host)
    return host_facts_after(lines, whole.get("name", hello.hostname), whole.get("agents", ()))


def agents_of(agents: Iterable[dict[str, Any]], snapshot: Snapshot) -> AgentsTold:
    """What the agents of the guests with these names have told."""
    guests = {guest.name: guest for guest in hosted_guests(snapshot)}
    told = {}
    for one in agents:
        guest = guests.get(one["guest"])
        if guest is not None:
            fields = {key: value for key, value in one.items() if key != "guest"}
            told[guest_key(guest)] = msgspec.convert(fields, AgentFacts)
    return told


def host_facts_after(
    lines: Iterable[Line], name: str, agents: Iterable[dict[str, Any]] = ()
) -> HostFacts:
    """The host of that name after these lines; `agents`: as in a case."""
    snapshot = with_state(Snapshot.empty(name), "live", "")
    window: deque[Any] = deque(maxlen=60)
    for line in lines:
        snapshot = advance(snapshot, line)
        if line.counters is not None and snapshot.rates is not None:
            window.append(snapshot.rates)
    if agents:
        snapshot = replace(snapshot, agents=agents_of(agents, snapshot))
    return HostFacts(snapshot, tuple(window))


def probe_lines(host: dict[str, Any]) -> list[Line]:
    """The lines of the host's probe: hello, inventory, counters."""
    host = complete(host)
    earlier = [inventory_of(merge_patch(host, patch))[0] for patch in host.pop("before", ())]
    inventory, ifindexes = inventory_of(host)
    clocks = {"wall": host.get("wall", WALL) - host.get("time", 0.0)}
    hello = msgspec.convert({**HELLO, **clocks, **host.get("hello", {})}, Hello)
    counted = counters_of(host.get("counters", {}), ifindexes, inventory)
    inventories = (as_sent_now(Line(inventory=one)) for one in (*earlier, inventory))
    listening = listening_lines(host.get("listened", {}), ifindexes)
    return [
        Line(hello=hello),
        *inventories,
        *listening,
        *(Line(counters=counters) for counters in counted),
    ]


def listening_lines(listened: dict[str, Any], ifindexes: dict[str, int]) -> list[Line]:
    """What was received while listening for LLDP, by the names of the links."""
    if not listened:
        return []
    heard = {
        ifindexes[name]: {"source": "listened", **one}
        for name, one in listened.items()
        if one is not None
    }
    fields = {"links": [ifindexes[name] for name in listened], "heard": heard, "ended": True}
    line = {"time": 0.0, "id": "x-lldp", "kind": "lldp", "lldp": fields}
    return [msgspec.convert({"traffic": line}, Line, strict=False)]


def inventory_of(host: dict[str, Any]) -> tuple[Inventory, dict[str, int]]:
    links = []
    for number, (name, fields) in enumerate(host.get("links", {}).items(), start=2):
        links.append({"ifindex": number, "name": name, **LINK, **fields})
    ifindexes = {link["name"]: link["ifindex"] for link in links}
    for link in links:
        for reference in ("master", "lower"):
            if isinstance(link.get(reference), str):
                link[reference] = ifindexes[link[reference]]
        for reference in ("active_port", "primary"):
            if isinstance((link.get("bond") or {}).get(reference), str):
                link["bond"] = {**link["bond"], reference: ifindexes[link["bond"][reference]]}
        for address in link.get("addresses", ()):
            address.setdefault("flags", ["permanent"])
            address.setdefault("scope", "global")
    manager = host.get("networkmanager")
    if manager is not None:
        manager = {"version": "1.42.4", "startup": False, "networking_enabled": True, **manager}
        manager["devices"] = {
            ifindexes[name]: {"interface": name, **DEVICE, **fields}
            for name, fields in manager.get("devices", {}).items()
        }
        manager["profiles"] = [
            {
                "uuid": uuid,
                "path": f"/org/freedesktop/NetworkManager/Settings/{number}",
                **PROFILE,
                "ipv4": IP,
                "ipv6": IP,
            }
            | fields
            for number, (uuid, fields) in enumerate(manager.get("profiles", {}).items(), start=1)
        ]
    written = {
        "time": host.get("time", 0.0),
        "wall": host.get("wall", WALL),
        "took": 0.1,
        "reason": "start",
        "platform": {**PLATFORM, **host.get("platform", {})},
        "pci": [
            {"address": address, **PCI, **fields} for address, fields in host.get("pci", {}).items()
        ],
        "links": links,
        "interrupts": [
            {"number": int(n), **INTERRUPT, **fields}
            for n, fields in host.get("interrupts", {}).items()
        ],
        "threads": [
            {"tid": int(tid), "pid": int(tid), **fields}
            for tid, fields in host.get("threads", {}).items()
        ],
        "networkmanager": manager,
        "networkd": {ifindexes[name]: fields for name, fields in host.get("networkd", {}).items()},
        "configuration": host.get("configuration", []),
        "stopped_managers": host.get("stopped_managers", []),
        "services": host.get("services", {}),
        "settings": host.get("settings", {}),
        "iommu": host.get("iommu", []),
        "guests": guests_of(host.get("guests"), ifindexes),
        "leases": host.get("leases", []),
        "forwarding": host.get("forwarding", []),
        "messages": host.get("messages", []),
        "devlink": host.get("devlink", []),
        "filters": filters_of(host.get("filters", {})),
        "unreadable": host.get("unreadable", {}),
        "routing": routing_of(host.get("routing"), ifindexes),
        "lldp": {
            ifindexes[name]: [{"source": "lldpd", **one} for one in found]
            for name, found in host.get("lldp", {}).items()
        },
    }
    return msgspec.convert(written, Inventory, strict=False), ifindexes


def guests_of(guests: list[Any] | None, ifindexes: dict[str, int]) -> list[Any] | None:
    """Guests with the ifindexes of the links of their NICs."""
    if guests is None:
        return None
    return [
        {**guest, "nics": [nic_of(nic, ifindexes) for nic in guest["nics"]]} for guest in guests
    ]


def nic_of(nic: dict[str, Any], ifindexes: dict[str, int]) -> dict[str, Any]:
    return {**nic, "link": ifindexes[nic["link"]]} if nic.get("link") else nic


ROUTE: dict[str, Any] = {"type": "unicast", "table": 254, "protocol": 3}


def routing_of(routing: dict[str, Any] | None, ifindexes: dict[str, int]) -> dict[str, Any] | None:
    """The record, with the indexes of the links; without what belongs to a link that the host does
    not have."""
    if routing is None:
        return None

    def is_there(one: dict[str, Any]) -> bool:
        return one.get("ifindex") is None or one["ifindex"] in ifindexes

    indexed = {
        part: [
            {**one, "ifindex": ifindexes.get(one.get("ifindex"))}
            for one in routing.get(part, ())
            if is_there(one)
        ]
        for part in ("neighbours", "routes")
    }
    neighbours = [{"nud_state": "reachable", **one} for one in indexed["neighbours"]]
    routes = [
        {**ROUTE, "family": family_of(one["destination"]), **one} for one in indexed["routes"]
    ]
    rules = [{"family": "ipv4", "action": "table", **one} for one in routing.get("rules", ())]
    found = {**routing, "neighbours": neighbours, "routes": routes, "rules": rules}
    return {"has_route_options": True, **found}


def family_of(address: str) -> str:
    return "ipv6" if ":" in address else "ipv4"


def filters_of(filters: dict[str, Any]) -> dict[str, Any]:
    """Packet filters whose chains are by ``FAMILY TABLE NAME`` and whose rules are lines, see
    `filter_rule`."""
    chains = []
    for place, fields in filters.get("chains", {}).items():
        family, table, name = place.split()
        rules = [filter_rule(line) for line in fields.get("rules", ())]
        chains.append(
            {
                "backend": "nft",
                "family": family,
                "table": table,
                "name": name,
                **fields,
                "rules": rules,
            }
        )
    return {**filters, "chains": chains}


def filter_rule(line: str) -> dict[str, Any]:
    """``in br0 out !br1 state established,related accept 12``: conditions, verdict (or TCPMSS),
    target, packets. ``_`` is a blank in a value."""
    rule: dict[str, Any] = {"conditions": []}
    words = line.split()
    while words:
        word = words.pop(0)
        if word in VERDICTS:
            rule["verdict"] = word
            if word in ("jump", "goto", "unknown"):
                rule["target"] = words.pop(0)
        elif word == "TCPMSS":
            rule["target"] = word
        elif word.isdecimal():
            rule["packets"] = int(word)
        elif word in BARE_CONDITIONS:
            rule["conditions"].append({"what": word})
        else:
            values = words.pop(0)
            condition = {
                "what": word,
                "values": values.lstrip("!").replace("_", " ").split(","),
                "negated": values.startswith("!"),
            }
            rule["conditions"].append(condition)
    return rule


VERDICTS = ("accept", "drop", "reject", "return", "jump", "goto", "unknown")
BARE_CONDITIONS = ("bridged", "mark", "other")


def counters_of(
    rates: dict[str, Any], ifindexes: dict[str, int], inventory: Inventory
) -> list[Counters]:
    """One record per second: start + number × per_second."""
    if not rates:
        return []
    start, step = rates.get("start", {}), rates.get("per_second", {})
    return [
        raw_counters(float(number), totals_after(start, step, number), ifindexes, inventory)
        for number in range(rates.get("samples", 10) + 1)
    ]


def totals_after(start: Any, step: Any, times: int) -> Any:
    if isinstance(start, dict) or isinstance(step, dict):
        start, step = start or {}, step or {}
        return {
            key: totals_after(start.get(key), step.get(key), times) for key in {**start, **step}
        }
    if isinstance(start, list) or isinstance(step, list):
        start, step = start or [0] * len(step), step or [0] * len(start)
        return [totals_after(one, more, times) for one, more in zip(start, step, strict=True)]
    return int(start or 0) + int((step or 0) * times)


def raw_counters(
    time: float, totals: dict[str, Any], ifindexes: dict[str, int], inventory: Inventory
) -> Counters:
    def by(names: tuple[str, ...], values: dict[str, int]) -> tuple[int, ...]:
        unknown = set(values) - set(names)
        assert not unknown, f"no such counters: {unknown}"
        return tuple(values.get(name, 0) for name in names)

    names = {link.ifindex: link.ethtool.driver_counter_names or () for link in inventory.links}
    counted = totals.get("links", {})
    queues: dict[int, tuple[tuple[str, int, tuple[int | None, ...]], ...]] = {}
    for link, rows in totals.get("queues", {}).items():
        queues[ifindexes[link]] = tuple(
            (row.split()[0], int(row.split()[1]), by(QUEUE_COUNTERS, values))
            for row, values in rows.items()
        )
    return Counters(
        time=time,
        links={
            ifindex: by(LINK_COUNTERS, counted.get(name, {})) for name, ifindex in ifindexes.items()
        },
        cpus={int(cpu): by(CPU_TIMES, values) for cpu, values in totals.get("cpus", {}).items()},
        queues=queues,
        driver={
            ifindexes[name]: by(tuple(names[ifindexes[name]]), values)
            for name, values in totals.get("driver", {}).items()
        },
        interrupts={
            int(number): {int(cpu): count for cpu, count in cpus.items()}
            for number, cpus in totals.get("interrupts", {}).items()
        },
        softirqs={
            int(cpu): by(SOFTIRQS, values) for cpu, values in totals.get("softirqs", {}).items()
        },
        softnet={
            int(cpu): by(SOFTNET_COUNTERS, values)
            for cpu, values in totals.get("softnet", {}).items()
        },
        threads={
            int(tid): (values[0], values[1], values[2])
            for tid, values in totals.get("threads", {}).items()
        },
        waits={int(tid): by(VCPU_WAITS, values) for tid, values in totals.get("waits", {}).items()},
        channels={
            ifindexes[name]: {
                int(number): by(CHANNEL_COUNTERS, values) for number, values in rows.items()
            }
            for name, rows in totals.get("channels", {}).items()
        },
        stack=totals.get("stack", {}),
        vfs={
            ifindexes[name]: {
                int(number): by(VF_COUNTERS, values) for number, values in rows.items()
            }
            for name, rows in totals.get("vfs", {}).items()
        },
    )
