"""The layers of one NIC, from its slot to its peers: what is known of each, as it is read.

Reads nothing; `nic_steps(link, pci, snapshot)` returns a state and a few words for each of `STEPS`.
What the checks find at a step is added by `nictop.rules.chain`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal, get_args

from nictop.model.devices.bonds import port_text
from nictop.model.devices.bridges import bridge_of, stp_state
from nictop.model.devices.links import link_at
from nictop.model.devices.lldp import ReasonKind, switch_port, why_no_neighbour
from nictop.model.devices.switch_ports import is_on_datapath, switch_port_text
from nictop.model.doubts import doubts_of
from nictop.model.facts.hardware import pcie_text
from nictop.model.facts.routing import UNANSWERED_STATES
from nictop.model.managers.link_managers import (
    EXTERNAL,
    is_activated,
    link_manager,
    profile_name,
)
from nictop.model.parts import rates_of_links
from nictop.model.per_inventory import PerInventory, neighbours_of_inventory
from nictop.model.snapshot import Snapshot, is_unread_link
from nictop.model.text import units
from nictop.model.text.words import (
    IFF_UP,
    LINK_UP,
    UNKNOWN_REASONS,
    absence_reason,
    count_noun,
    driver_name,
    speed_text,
    state_mark,
    state_text,
)
from nictop.probe.records import Address, Inventory, Link, Neighbour, PciFunction, Unreadable
from nictop.probe.records.unreadable import NOT_READ_YET

NicStep = Literal[
    "slot", "driver", "name", "link", "port", "profile", "address", "gateway", "peers", "load"
]
VirtualStep = Literal["ports", "vlan", "parent", "guest", "other end"]
"""Of virtual links only (`nictop.model.virtual_chain`)."""
Step = Literal[NicStep, VirtualStep]
STEPS: tuple[NicStep, ...] = get_args(NicStep)
"""From the hardware up; load: queues, interrupts, CPUs and what drops or limits packets on this
host."""
ChainState = Literal["passed", "finding", "failed", "unknown", "none", "waits"]
"""Of a step with what the checks found; see `nictop.rules.chain.ChainStep`."""
StepState = Literal["passed", "failed", "unknown", "none"]
"""none: the NIC has no such step (no default route by it, a port of a bridge without address)."""

PORT_UNKNOWN: dict[ReasonKind, str] = {
    "down": "no link",
    "vf": "VF: no LLDP",
    "firmware": "LLDP ends in firmware",
    "virtual": "no LLDP",
    "rights": "needs root",
    "silent": "no LLDP",
    "off": "LLDP not read",
}
"""Why the port of the switch is not known; the section LLDP has the whole reason."""
CHANGED_SINCE = "read before its interface came or went"
NO_ENTRY = "no entry"
"""The neighbours are read with an inventory: there may be one since."""
ANSWERED = ("reachable",)
"""States of a neighbour that has answered within the last half minute. A permanent entry is made by
hand or by a program: it says nothing of whether its host is there."""
UNCONFIRMED_TEXTS = {
    "permanent": "static entry",
    "stale": "not asked lately",
    "delay": "not confirmed yet",
    "probe": "not confirmed yet",
}
"""State of a neighbour of which it is not known whether it is there → words."""


SOURCES_OF_STEP: dict[Step, tuple[str, ...]] = {
    "port": ("lldp", "networkmanager"),
    "profile": ("networkmanager", "networkd", "configuration"),
    "address": ("addresses",),
    "gateway": ("routes",),
    "peers": ("routing",),
}
"""Parts of the inventory without which nothing is known of the step."""
KNOWN_BY_MASTER: Step = "port"
"""It may be known without these."""
LINK_LOCAL_PREFIXES = ("fe80:", "169.254.")
"""fe80::/64 and 169.254.0.0/16, as the kernel and RFC 3927 make them."""


StepFacts = tuple[StepState, str]
"""What was read of one step, and a few words: ``8 GT/s ×8``, ``10G full``; failed: what is wrong;
unknown: why. Not sanitized."""
StepFunction = Callable[[Link, Snapshot], StepFacts]
"""Of a netdev."""


def nic_steps(
    link: Link | None, pci: PciFunction | None, snapshot: Snapshot
) -> Mapping[Step, StepFacts]:
    """In their order. `link` is None for a function without a netdev: nothing is known of what is
    above its driver."""
    if link is None:
        if pci is not None and _has_changed(pci, snapshot):
            return {"slot": ("unknown", CHANGED_SINCE), "driver": ("unknown", CHANGED_SINCE)}
        return {"slot": _slot(link, pci, snapshot), "driver": _driver(link, pci)}
    if is_unread_link(link):
        return _unread_steps(link, snapshot)
    steps: dict[Step, StepFacts] = {"slot": _slot(link, pci, snapshot)}
    steps["driver"] = _driver(link, pci)
    return {**steps, **link_steps(STEP_FACTS_OF_LINK, link, snapshot)}


def steps_of_nics(
    nics: Sequence[tuple[Link, PciFunction | None]], snapshot: Snapshot
) -> Iterator[tuple[StepFacts, ...]]:
    """Of `STEPS`: `nic_steps` of many netdevs that are read, one step after the other instead of
    one NIC after the other: where always the same function is called, Python takes half the time
    (PEP 659)."""
    columns: dict[Step, list[StepFacts]] = {
        "slot": [_slot(link, pci, snapshot) for link, pci in nics],
        "driver": [_driver(link, pci) for link, pci in nics],
    }
    for step, of_link in STEP_FACTS_OF_LINK.items():
        columns[step] = [of_link(link, snapshot) for link, _ in nics]
    for step, why in _unread_sources(snapshot).items():
        if step != KNOWN_BY_MASTER:
            columns[step] = [("unknown", why)] * len(nics)
    return zip(*(columns[step] for step in STEPS), strict=True)


def link_steps(
    functions: Mapping[Step, StepFunction], link: Link, snapshot: Snapshot
) -> dict[Step, StepFacts]:
    """Of steps of a netdev. Of those whose sources were not read nothing is known."""
    steps = {step: of_link(link, snapshot) for step, of_link in functions.items()}
    for step, why in _unread_sources(snapshot).items():
        if step in steps and step != KNOWN_BY_MASTER:
            steps[step] = "unknown", why
    return steps


def _has_changed(pci: PciFunction, snapshot: Snapshot) -> bool:
    """Its interface is gone since it was read, or one has come that may be its own: it has another
    driver now, or is gone itself."""
    if snapshot.inventory is None:
        return False
    links = snapshot.links
    if pci.driver is None and any(map(is_unread_link, links.values())):
        return True
    return any(
        link.pci_address == pci.address and link.ifindex not in links
        for link in (*snapshot.inventory.links, *snapshot.departed.values())
    )


def _unread_steps(link: Link, snapshot: Snapshot) -> Mapping[Step, StepFacts]:
    """Of a link that only an event has made known: its name and its state."""
    steps: dict[Step, StepFacts] = dict.fromkeys(STEPS, ("unknown", NOT_READ_YET))
    steps["name"], steps["link"] = _name(link, snapshot), _link(link, snapshot)
    return steps


def _slot(link: Link | None, pci: PciFunction | None, snapshot: Snapshot) -> StepFacts:
    if pci is not None:
        if pci.link is None:
            return "passed", pci.address
        return "passed", pcie_text(pci.link)[0]
    if link is None:
        return "none", "no device"
    if link.pci_address is not None:
        return "unknown", _why_no_functions(snapshot)
    if link.bus is not None:
        return "passed", f"{link.bus} {link.device or ''}".rstrip()
    return "none", "no device"


def _why_no_functions(snapshot: Snapshot) -> str:
    why = None
    if snapshot.inventory is not None:
        why = snapshot.inventory.unreadable.get("pci")
    if why is None:
        return NOT_READ_YET
    return absence_reason(why, None)


def _driver(link: Link | None, pci: PciFunction | None) -> StepFacts:
    if link is None:
        return ("failed", "no driver") if pci is None else _driver_of_function(pci)
    name = driver_name(link, pci)
    if name is not None:
        return "passed", name
    why = absence_reason(link.ethtool.unreadable.get("driver"), None)
    return "unknown", f"driver {why}"


def _driver_of_function(pci: PciFunction) -> StepFacts:
    """Of one without a netdev. That of a virtio NIC is the driver of the virtio device, which the
    driver of the function only makes (drivers/virtio/virtio_pci_common.c)."""
    field, name, failed = "driver", pci.driver, "no driver"
    if pci.virtio_device is not None:
        field, name = "virtio_driver", pci.virtio_driver
        failed = f"none bound to {pci.virtio_device} (made by {pci.driver})"
    if name is not None:
        return "passed", name
    why = pci.unreadable.get(field)
    return ("failed", failed) if why is None else ("unknown", f"driver {absence_reason(why, None)}")


def _name(link: Link, snapshot: Snapshot) -> StepFacts:
    return "passed", link.name


def _link(link: Link, snapshot: Snapshot) -> StepFacts:
    if state_mark(link) != LINK_UP:
        return "failed", state_text(link)[0]
    doubts = doubts_of(snapshot)
    if doubts is not None and doubts.concern_speed(link):
        return "passed", "up"
    return "passed", speed_text(link.ethtool.settings) or state_text(link)[0]


def _port(link: Link, snapshot: Snapshot) -> StepFacts:
    switched = snapshot.switch_ports.of_link(link)
    if switched is not None:
        return "passed", switch_port_text(switched)
    master = port_master(link, snapshot)
    if master is not None:
        return _port_of(master, link, snapshot)
    switch = switch_port(link, snapshot)
    if switch is None:
        unread = _unread_sources(snapshot).get("port")
        if unread is not None:
            return "unknown", unread
        return "unknown", PORT_UNKNOWN[why_no_neighbour(link, snapshot).kind]
    vlan = f" vlan {switch.pvid}" if switch.pvid is not None else ""
    return "passed", f"{switch.system_name or switch.chassis}{vlan}"


def _port_of(master: Link, link: Link, snapshot: Snapshot) -> StepFacts:
    if is_on_datapath(link, snapshot.links):
        return "unknown", "bridge of Open vSwitch not known"
    if bridge_of(link, snapshot.links) is not None:
        return _port_of_bridge(f"bridge {master.name}", link)
    text = f"{master.kind or 'port'} {master.name}"
    state, is_usable = port_text(link, master)
    return ("passed", text) if is_usable else ("failed", f"{text}, {state}")


def _port_of_bridge(text: str, link: Link) -> StepFacts:
    if link.bridge_port is None:
        return "passed", text
    state = stp_state(link)
    if not state:
        return "unknown", f"{text}, state not known"
    if state == "forwarding":
        return "passed", text
    return "failed", f"{text}, {state}"


def port_master(link: Link, snapshot: Snapshot) -> Link | None:
    """What has the link as its port. A VRF only names the table of its routes: it has addresses of
    its own, and is connected to a switch."""
    master = link_at(link.master, snapshot.links)
    if master is None or master.kind == "vrf":
        return None
    return master


def _profile(link: Link, snapshot: Snapshot) -> StepFacts:
    inventory, configuration = snapshot.inventory, snapshot.configuration
    if inventory is None or configuration is None:
        return "unknown", NOT_READ_YET
    name = profile_name(link, snapshot)[0]
    if is_activated(link, inventory):  # the usual case, which needs no files
        return "passed", "NetworkManager" if name == units.UNKNOWN else name
    manager = link_manager(link, inventory, configuration)
    if manager.name == "none":
        needs_none = link.addresses or port_master(link, snapshot) is not None
        state: StepState = "none" if needs_none else "failed"
        return state, "external" if name == EXTERNAL else "no manager"
    if manager.tone in ("warn", "bad"):
        has_name = name != units.UNKNOWN
        return ("failed", f"{name}: {manager.state}" if has_name else manager.state)
    return "passed", manager.name if name == units.UNKNOWN else name


def _address(link: Link, snapshot: Snapshot) -> StepFacts:
    unusable = ""
    for address in link.addresses:
        if address.scope != "global":
            continue
        why = _why_unusable(address)
        if not why:
            return "passed", f"{address.address}/{address.prefix_length}"
        unusable = unusable or f"{address.address} {why}"
    master = port_master(link, snapshot)
    if master is not None:
        return "none", f"that of {master.name}"
    if unusable:
        return "failed", unusable
    return "failed", _text_without_global(link.addresses)


def _why_unusable(address: Address) -> str:
    """ "": it can be used, also one that is optimistic (RFC 4429)."""
    if "dadfailed" in address.flags:
        return "is a duplicate"
    if "tentative" in address.flags and "optimistic" not in address.flags:
        return "tentative"
    return ""


def _text_without_global(addresses: Sequence[Address]) -> str:
    for address in addresses:
        if not address.address.startswith(LINK_LOCAL_PREFIXES):
            return f"{address.address} scope {address.scope}"
    return "link-local only" if addresses else "none"


def _gateway(link: Link, snapshot: Snapshot) -> StepFacts:
    gateways = [route.gateway for route in link.default_routes if route.gateway is not None]
    if not gateways:
        return "none", "none"
    states = {known.address: known.nud_state for known in _neighbours(link, snapshot)}
    for gateway in gateways:
        if states.get(gateway) in ANSWERED and not _is_cut_off(link):
            return "passed", gateway
    first = gateways[0]
    if states.get(first) in UNANSWERED_STATES:
        return "failed", f"{first} silent"
    return "unknown", f"{first} {UNCONFIRMED_TEXTS.get(states.get(first, ''), NO_ENTRY)}"


def _is_cut_off(link: Link) -> bool:
    """Who answered before does not now, also before the neighbours are read again."""
    return link.carrier is False or not link.flags & IFF_UP


def _peers(link: Link, snapshot: Snapshot) -> StepFacts:
    answered = silent = 0
    neighbours = _neighbours(link, snapshot)
    for neighbour in neighbours:
        answered += neighbour.nud_state in ANSWERED and not _is_cut_off(link)
        silent += neighbour.nud_state in UNANSWERED_STATES
    if answered:
        verb = "answers" if answered == 1 else "answer"
        return "passed", f"{count_noun(answered, 'peer')} {verb}"
    if silent:
        return "failed", f"{count_noun(silent, 'peer')} silent"
    return "unknown", _unconfirmed_text({neighbour.nud_state for neighbour in neighbours})


def _unconfirmed_text(states: Collection[str]) -> str:
    """Of neighbours of which none has answered lately, and none failed to."""
    for state in ("probe", "delay", "stale"):
        if state in states:
            return UNCONFIRMED_TEXTS[state]
    return "static entries" if "permanent" in states else NO_ENTRY


def _load(link: Link, snapshot: Snapshot) -> StepFacts:
    if link.ifindex in rates_of_links(snapshot):
        return "passed", ""
    had_rates = snapshot.rates is None and snapshot.before is not None
    return "unknown", "no rates now" if had_rates else "no rates yet"


STEP_FACTS_OF_LINK: dict[Step, StepFunction] = {
    "name": _name,
    "link": _link,
    "port": _port,
    "profile": _profile,
    "address": _address,
    "gateway": _gateway,
    "peers": _peers,
    "load": _load,
}
"""The steps of a netdev, in their order."""


def _unread_sources(snapshot: Snapshot) -> Mapping[Step, str]:
    """Steps whose sources were not read → why."""
    if snapshot.inventory is None:
        return dict.fromkeys(SOURCES_OF_STEP, NOT_READ_YET)
    return _unread_steps_of(snapshot.inventory)


def _unread_texts(inventory: Inventory) -> dict[Step, str]:
    """Of the steps whose sources were not read."""
    texts = {}
    for step, sources in SOURCES_OF_STEP.items():
        text = _unread_text(sources, inventory)
        if text:
            texts[step] = text
    return texts


_unread_steps_of = PerInventory(_unread_texts)


def _unread_text(sources: Sequence[str], inventory: Inventory) -> str:
    """Why one of these was not read; "": all were."""
    if any(source in inventory.pending for source in sources):
        return NOT_READ_YET
    for source in sources:
        why = inventory.unreadable.get(source)
        if why is not None and why.reason in UNKNOWN_REASONS:
            return _brief_reason(why)
    return ""


def _brief_reason(why: Unreadable) -> str:
    """``timed out`` of ``not readable (NetworkManager: timed out)``: the mark before it says that
    it is not known, and in a narrow panel only a few words are seen; all are with the manager."""
    if why.reason == "failed" and why.detail:
        return why.detail.rpartition(": ")[2]
    return absence_reason(why, None)


def _neighbours(link: Link, snapshot: Snapshot) -> Sequence[Neighbour]:
    if snapshot.inventory is None:
        return ()
    return neighbours_of_inventory(snapshot.inventory).get(link.ifindex, ())
