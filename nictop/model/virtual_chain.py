"""The layers of a virtual link that stands for others: a bond, a bridge, a tap, a veth of a
container, a VLAN.

Reads nothing; `virtual_steps(link, snapshot)` returns what `nictop.model.chain.nic_steps` does of a
NIC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from nictop.model.chain import (
    STEP_FACTS_OF_LINK,
    Step,
    StepFacts,
    StepFunction,
    link_steps,
    port_master,
)
from nictop.model.devices.bonds import bond_text, is_aggregate
from nictop.model.devices.bridges import filters_vlans, stp_state, vlans_text
from nictop.model.devices.links import has_global_address, link_at, ports_of
from nictop.model.devices.pairs import TAP_KINDS
from nictop.model.devices.subnets import vlan_id
from nictop.model.snapshot import Snapshot, is_unread_link
from nictop.model.text.words import LINK_UP, count_noun, state_mark, state_text
from nictop.probe.records import Link

ChainKind = Literal["aggregate", "bridge", "tap", "veth", "upper"]
STEPS_OF_KIND: Mapping[ChainKind, tuple[Step, ...]] = {
    "aggregate": (
        *("name", "ports", "link", "port", "profile", "address", "gateway", "peers", "load"),
    ),
    "bridge": ("name", "ports", "vlan", "profile", "address", "gateway", "peers", "load"),
    "tap": ("name", "link", "port", "guest", "load"),
    "veth": ("name", "link", "port", "other end", "load"),
    "upper": ("name", "parent", "link", "profile", "address", "gateway", "peers", "load"),
}
"""Kind of a link → its layers."""
STEPS_OF_OWN_VETH: tuple[Step, ...] = (
    *("name", "link", "other end", "profile", "address", "gateway", "peers", "load"),
)
"""Of a veth that is the NIC of this host, as in a container."""
UPPER_KINDS = ("vlan", "macvlan", "ipvlan")
"""Links on another one."""
STATES_OF_STP = ("blocking", "listening", "learning")
"""Of a port that does not forward because of STP: it is redundant, or its bridge has not decided
yet."""
INSTEAD: Mapping[Step, tuple[Step, ...]] = {
    "slot": ("parent", "ports", "name"),
    "driver": ("parent", "ports", "name"),
    "link": ("ports", "parent"),
    "port": ("vlan", "ports", "guest", "other end", "parent"),
    "profile": ("guest", "other end", "name"),
    "address": ("guest", "other end", "name"),
    "gateway": ("guest", "other end", "name"),
    "peers": ("guest", "other end", "name"),
}
"""A layer that a chain may not have → where the findings about it are, the first one that it
has."""


def chain_kind(link: Link) -> ChainKind | None:
    """None: it has no chain, as a tunnel or a dummy."""
    if is_aggregate(link):
        return "aggregate"
    if link.kind == "bridge":
        return "bridge"
    if link.kind in TAP_KINDS:
        return None if link.details.get("tun_type") == "tun" else "tap"
    if link.kind == "veth":
        return "veth"
    return "upper" if link.kind in UPPER_KINDS and link.lower is not None else None


def virtual_steps(link: Link, kind: ChainKind, snapshot: Snapshot) -> Mapping[Step, StepFacts]:
    """In their order."""
    if is_unread_link(link):
        return link_steps(_functions(("name", "link")), link, snapshot)
    if is_own_veth(link, snapshot):
        return _own_veth_steps(link, snapshot)
    steps = link_steps(_functions(STEPS_OF_KIND[kind]), link, snapshot)
    if kind == "bridge" and not link.addresses:
        return {step: _without_address(step, facts) for step, facts in steps.items()}
    if kind in ("tap", "veth") and not _is_port(link, snapshot):
        steps["port"] = "none", "no bridge"
    return steps


def _functions(steps: Iterable[Step]) -> Mapping[Step, StepFunction]:
    return {step: _STEP_FACTS[step] for step in steps}


def _is_port(link: Link, snapshot: Snapshot) -> bool:
    has_master = port_master(link, snapshot) is not None
    return has_master or snapshot.switch_ports.of_link(link) is not None


def is_own_veth(link: Link, snapshot: Snapshot) -> bool:
    """A veth that is the NIC of this host, as in a container: it is on no bridge, and has an
    address, or this host has no NIC with a device, and no other veth on a bridge. Another one may
    be the end of a container to which packets are routed, or was taken from that bridge."""
    if link.kind != "veth" or _is_port(link, snapshot):
        return False
    return has_global_address(link) or _has_no_other_nics(snapshot)


def _has_no_other_nics(snapshot: Snapshot) -> bool:
    """Neither one with a device, nor a veth on a bridge: looked up once, not for each veth."""
    known: bool | None = snapshot.kept.get(_has_no_other_nics)
    if known is None:
        links = snapshot.links.values()
        known = not any(_is_other_nic(link, snapshot) for link in links)
        snapshot.kept[_has_no_other_nics] = known
    return known


def _is_other_nic(link: Link, snapshot: Snapshot) -> bool:
    if link.pci_address is not None or link.bus is not None:
        return True
    return link.kind == "veth" and _is_port(link, snapshot)


def _own_veth_steps(link: Link, snapshot: Snapshot) -> Mapping[Step, StepFacts]:
    """Without an other end of which nothing is known, as in a container."""
    steps = link_steps(_functions(STEPS_OF_OWN_VETH), link, snapshot)
    if snapshot.owners.of_link(link.ifindex) is None:
        del steps["other end"]
    return steps


def _without_address(step: Step, facts: StepFacts) -> StepFacts:
    """A bridge carries frames of others: it needs neither address nor profile."""
    state, text = facts
    if step in ("profile", "address") and state == "failed":
        return "none", text
    return facts


def step_instead(step: Step, steps: tuple[Step, ...]) -> Step:
    """The step of a chain at which findings about `step` are."""
    if step in steps:
        return step
    for other in INSTEAD.get(step, ()):
        if other in steps:
            return other
    return steps[-1]


def _ports(link: Link, snapshot: Snapshot) -> StepFacts:
    ports = ports_of(link, snapshot.links)
    if not ports:
        return ("failed" if is_aggregate(link) else "none", "no ports")
    if link.bond is not None:
        text, are_used = bond_text(link, snapshot.links)
        return ("passed" if are_used else "failed", text)
    if link.kind == "bridge":
        return _bridge_ports(link, ports)
    up = sum(state_mark(port) == LINK_UP for port in ports)
    state: Literal["passed", "failed"] = "passed" if up else "failed"
    return state, f"{up} of {len(ports)} up"


def _bridge_ports(bridge: Link, ports: list[Link]) -> StepFacts:
    """What STP blocks is as it should be. Ports without a carrier have nothing to forward: whether
    something is to be at their other end is not known."""
    states = [stp_state(port) for port in ports]
    number = count_noun(len(ports), "port")
    if "" in states:
        return "unknown", f"{number}, state not known"
    forwarding = states.count("forwarding")
    if not forwarding:
        return "failed", f"{number}, none forwards"
    if forwarding == len(ports):
        return "passed", number
    text = f"{forwarding} of {len(ports)} forward"
    of_stp = STATES_OF_STP if bridge.details.get("bridge_stp") else ()
    idle = []
    for port, state in zip(ports, states, strict=True):
        if state_mark(port) == LINK_UP and state != "forwarding":
            idle.append(state)
    stuck = sum(state not in of_stp for state in idle)
    if stuck:
        return "failed", f"{text}, {stuck} up {'does' if stuck == 1 else 'do'} not"
    down = len(ports) - forwarding - len(idle)
    is_starting = any(state != "blocking" for state in idle)
    if down:
        text += f", {down} without carrier"
        return "unknown" if is_starting else "none", text
    return "unknown" if is_starting else "passed", text


def _vlan(link: Link, snapshot: Snapshot) -> StepFacts:
    """Of the frames of the host itself."""
    if link.details.get("bridge_vlan_filtering") is None:
        return "unknown", "not reported"
    if not filters_vlans(link):
        return "passed", "not filtered"
    if link.bridge_vlans is None:
        return "unknown", "VLANs not read"
    if not link.bridge_vlans:
        return ("failed" if has_global_address(link) else "none"), "none"
    return "passed", vlans_text(link.bridge_vlans)


def _parent(link: Link, snapshot: Snapshot) -> StepFacts:
    """The link that it is on."""
    if link.lower_namespace is not None:
        return "unknown", "in another namespace"
    lower = link_at(link.lower, snapshot.links)
    if lower is None:
        return "unknown", f"ifindex {link.lower}, not known"
    number = vlan_id(link)
    text = lower.name if number is None else f"{lower.name} vlan {number}"
    if state_mark(lower) != LINK_UP:
        return "failed", f"{text}: {state_text(lower)[0]}"
    return "passed", text


def _guest(link: Link, snapshot: Snapshot) -> StepFacts:
    """Who has the other end."""
    owner = snapshot.owners.of_link(link.ifindex)
    if owner is None:
        return "unknown", "not known"
    return ("failed" if owner.is_stopped else "passed", owner.text)


_STEP_FACTS: Mapping[Step, StepFunction] = {
    **STEP_FACTS_OF_LINK,
    "ports": _ports,
    "vlan": _vlan,
    "parent": _parent,
    "guest": _guest,
    "other end": _guest,
}
