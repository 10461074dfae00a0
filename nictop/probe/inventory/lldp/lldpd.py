"""LLDP and CDP neighbours that lldpd has received → `LldpNeighbour` by ifindex.

Runs ``lldpcli -f json0 show neighbors details``: the protocol of lldpd's control socket differs
between its versions, the structure of this output does not (lldpcli(8), since 0.9.6). The socket is
open to root and the group of lldpd.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nictop.probe.inventory.lldp.frames import MAX_ADDRESSES, MAX_VLANS
from nictop.probe.kernel import other_processes
from nictop.probe.kernel.backports import is_ascii
from nictop.probe.kernel.exits import exit_text
from nictop.probe.records import LldpNeighbour, Unreadable

MAX_NEIGHBOURS = 8
"""Of one NIC."""
PROTOCOLS = {"LLDP": "LLDP", "CDPv1": "CDP", "CDPv2": "CDP"}
"""``via`` of the neighbours that are read, those of EDP, FDP and SONMP are not →
`LldpNeighbour.protocol`."""

Neighbours = dict[int, tuple[LldpNeighbour, ...]]


def read_lldpd(
    ifindexes: Mapping[str, int], directories: Sequence[str] = other_processes.LLDPCLI_DIRECTORIES
) -> tuple[Neighbours, Unreadable | None]:
    """(neighbours by ifindex, why they could not be read). `ifindexes`: of all links by name. To be
    called only if lldpd runs."""
    try:
        status, output = other_processes.lldpcli_output(directories)
    except FileNotFoundError as error:
        return {}, Unreadable("missing", str(error))
    except TimeoutError:
        return {}, Unreadable(
            "failed", f"lldpcli did not end within {other_processes.LLDPCLI_TIMEOUT:g} s"
        )
    except OSError as error:
        return {}, Unreadable("failed", f"lldpcli: {error}")
    if status or not output:
        if os.geteuid() != 0:
            return {}, Unreadable(
                "needs_root", "the control socket of lldpd is open to root and its group"
            )
        return {}, Unreadable("failed", f"lldpcli {exit_text(status)}")
    return parse_neighbours(output, ifindexes)


def parse_neighbours(
    output: bytes, ifindexes: Mapping[str, int]
) -> tuple[Neighbours, Unreadable | None]:
    """The output of lldpcli: ``{"lldp": [{"interface": [{"name": …}]}]}``; what is malformed in it
    is left out."""
    try:
        tree = json.loads(output)
    except (ValueError, RecursionError):
        return {}, Unreadable("malformed", "lldpcli: not JSON")
    found: Neighbours = {}
    for root in parts(tree, "lldp"):
        for part in parts(root, "interface"):
            name = part.get("name")
            if not isinstance(name, str) or name not in ifindexes:
                continue
            ifindex, neighbour = ifindexes[name], parse_neighbour(part)
            if neighbour is None:
                continue
            known = found.get(ifindex, ())
            if len(known) < MAX_NEIGHBOURS:
                found[ifindex] = (*known, neighbour)
    return dict(sorted(found.items())), None


def parse_neighbour(part: dict[str, Any]) -> LldpNeighbour | None:
    """One neighbour; None without chassis and port, or by a protocol that is not read."""
    via = part.get("via")
    chassis, port = first(part, "chassis"), first(part, "port")
    if via not in PROTOCOLS or not value(chassis, "id") or not value(port, "id"):
        return None
    own_vlan, vlans = parse_vlans(parts(part, "vlan"))
    addresses = [str(one.get("value")) for one in parts(chassis, "mgmt-ip")]
    aggregation = number(value(port, "aggregation"))
    return LldpNeighbour(
        "lldpd",
        PROTOCOLS[via],  # type: ignore[arg-type]
        chassis=value(chassis, "id"),
        port=value(port, "id"),
        port_description=value(port, "descr"),
        system_name=value(chassis, "name"),
        system_description=value(chassis, "descr"),
        management_addresses=tuple(filter(is_ip_address, addresses))[:MAX_ADDRESSES],
        capabilities=enabled_capabilities(parts(chassis, "capability")),
        pvid=own_vlan,
        vlans=vlans,
        max_frame=number(value(port, "mfs")),
        aggregation="enabled" if aggregation else None,
        aggregation_port=aggregation,
        ttl=number(value(port, "ttl")),
    )


def parse_vlans(found: Iterable[dict[str, Any]]) -> tuple[int | None, tuple[int, ...]]:
    """(VLAN of frames without a tag, all VLANs by ID)."""
    own: int | None = None
    has_own = False
    vlans: set[int] = set()
    for part in found:
        vlan = vlan_of(part.get("vlan-id"))
        if part.get("pvid") in (True, "yes") and not has_own:
            own, has_own = vlan, True
        if vlan is not None:
            vlans.add(vlan)
    return own, tuple(sorted(vlans))[:MAX_VLANS]


def enabled_capabilities(found: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    names = []
    for part in found:
        name = part.get("type")
        if part.get("enabled") in (True, "on") and isinstance(name, str):
            names.append(name.lower())
    return tuple(names)


def parts(holder: object, name: str) -> list[dict[str, Any]]:
    """The objects below a name, which json0 always prints as a list."""
    if not isinstance(holder, dict):
        return []
    found = holder.get(name)
    if not isinstance(found, list):
        return []
    return [one for one in found if isinstance(one, dict)]


def first(holder: object, name: str) -> dict[str, Any]:
    return next(iter(parts(holder, name)), {})


def value(holder: object, name: str) -> str:
    """Of the first object below a name."""
    found = first(holder, name).get("value")
    if not isinstance(found, str):
        return ""
    return found


def number(word: object) -> int | None:
    """A positive number that the output has as text."""
    if not isinstance(word, str) or not is_ascii(word) or not word.isdecimal() or len(word) > 9:
        return None
    return int(word) or None


def vlan_of(word: object) -> int | None:
    found = number(word)
    if found is None or found >= 4095:
        return None
    return found


def is_ip_address(word: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, word)
        except (OSError, ValueError):
            continue
        return True
    return False
