"""What a change would do to this host: actions → values before and after, undo, and what it may
interrupt.

Reads the host and changes nothing. Yields a `ChangePlan`. Its fingerprint is a digest of the
actions and of all values they would replace; it shows whether the host is still as it was when the
plan was shown.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Sequence

from nictop.probe.inventory.links.reader import read_links
from nictop.probe.kernel.rtnetlink import IFF_UP
from nictop.probe.kernel.sysfs import parse_integer, read_text
from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.plan import lifelines
from nictop.probe.plan.current_state import (
    Roots,
    State,
    as_text,
    equal,
    read_ifindex,
    read_state,
    target_state,
)
from nictop.probe.plan.grammar.actions import parse_action
from nictop.probe.plan.grammar.operation import Operation, refuse_repetitions
from nictop.probe.plan.ifindexes import link_names, read_ifindexes
from nictop.probe.plan.undo import read_undo
from nictop.probe.records import Link, PlannedAction

NON_DISRUPTIVE_KINDS = ("affinity", "steering", "sysctl", "identify")
"""Kinds of operation that interrupt no connection."""
KINDS_THAT_STORE_THE_MTU = (
    "bridge",
    "dummy",
    "geneve",
    "ipvlan",
    "macvlan",
    "tun",
    "veth",
    "vlan",
    "vxlan",
    "wireguard",
)
"""Kinds of links of which the kernel only stores another MTU: no ndo_change_mtu (net/core/dev.c
__dev_set_mtu) in drivers/net/ veth.c, dummy.c, tun.c, ipvlan/ipvlan_main.c, wireguard/device.c; one
that stores it in net/8021q/vlan_dev.c, net/bridge/br_device.c and drivers/net/ macvlan.c,
vxlan/vxlan_core.c, geneve.c. A bond and a team set that of their ports; many drivers of NICs reset
the device (igb_change_mtu, i40e_change_mtu, netvsc_change_mtu, vmxnet3_change_mtu)."""
MAX_ACTIONS = 512
INTERRUPTION = "short traffic interruption"
MAY_INTERRUPT = "may interrupt "


@dataclass(frozen=True)
class ChangePlan:
    """What `read_plan` returns: a change that is allowed and can be undone."""

    operations: tuple[Operation, ...]
    actions: tuple[PlannedAction, ...]
    """One for each operation."""
    undo: tuple[tuple[str, ...], ...]
    """Actions in execution order, for everything that NetworkManager's checkpoint does not
    restore."""
    fingerprint: str
    needs_second_yes: bool
    subjects: tuple[str, ...]
    """Names of the locks to hold."""
    ifindexes: dict[str, int]
    """Interface name in the operations and their undo → ifindex."""

    @property
    def ends_by_itself(self) -> bool:
        """It leaves nothing to confirm or to roll back."""
        return all(one.kind == "identify" for one in self.operations)

    @property
    def networkmanager_operations(self) -> tuple[Operation, ...]:
        """Operations that the checkpoint restores."""
        return tuple(one for one in self.operations if one.uses_networkmanager)


@dataclass
class PlannedOperation:
    """One operation while the plan is made."""

    operation: Operation
    before: State = field(default_factory=dict)
    after: State = field(default_factory=dict)
    undo: tuple[tuple[str, ...], ...] = ()
    links: tuple[str, ...] = ()
    disturbs: tuple[str, ...] = ()
    persistent: bool = False
    subject: str = ""
    kernel_undo: tuple[tuple[str, ...], ...] = ()
    """Undo of kernel settings that NetworkManager restores itself, unless it is killed."""


def read_plan(actions: Sequence[Sequence[str]], roots: Roots) -> ChangePlan:
    """Raises ValueError with a sentence: not allowed, not possible on this host, or not
    understood."""
    if not 0 < len(actions) <= MAX_ACTIONS:
        raise ValueError(f"a change must have 1 to {MAX_ACTIONS} actions")
    operations = [parse_action(words) for words in actions]
    refuse_repetitions(operations)
    links, _ = read_links(roots.sys)
    dependents = read_lifelines(links, roots)
    planned = read_operations(operations, links, roots)
    idle = {link.name: why_idle(link, links, roots) for link in links}
    planned_actions = tuple(planned_action(one, dependents, idle) for one in planned)
    undo = undo_of(planned)
    names = link_names(undo)
    touched: set[str] = set()
    for one in planned:
        names.update(filter(None, (one.operation.interface, *one.links)))
        if one.operation.kind not in NON_DISRUPTIVE_KINDS:
            touched.update(one.links)
    ifindexes = read_ifindexes(sorted(names))
    digest = json.dumps(
        [ifindexes, *([one.words, one.before, one.undo] for one in planned_actions)]
    )
    return ChangePlan(
        tuple(operations),
        planned_actions,
        undo,
        hashlib.sha256(digest.encode("utf-8", "replace")).hexdigest()[:32],
        not touched.isdisjoint(dependents),
        lock_subjects(planned),
        ifindexes,
    )


def read_operations(
    operations: Iterable[Operation], links: Sequence[Link], roots: Roots
) -> list[PlannedOperation]:
    """With what the host has now. Raises ValueError."""
    planned: list[PlannedOperation] = []
    for operation in operations:
        if operation.uses_networkmanager:
            planned.append(PlannedOperation(operation))
        else:
            planned.append(read_operation(operation, planned, links, roots))
    of_networkmanager = [one for one in planned if one.operation.uses_networkmanager]
    read_networkmanager_part(of_networkmanager, links, roots)
    return planned


def undo_of(planned: Sequence[PlannedOperation]) -> tuple[tuple[str, ...], ...]:
    """Of all operations, the last one first; each action once."""
    undo: dict[tuple[str, ...], None] = {}
    for one in reversed(planned):
        undo.update(dict.fromkeys(one.undo))
        undo.update(dict.fromkeys(one.kernel_undo))
    return tuple(undo)


def read_lifelines(links: Sequence[Link], roots: Roots) -> dict[str, tuple[str, ...]]:
    """`lifelines.dependents_by_link` of all links, also counted for the physical function of each
    VF."""
    dependents = lifelines.dependents_by_link(links, lifelines.read_ssh_routes(roots.proc))
    for name, labels in list(dependents.items()):
        for physical in lifelines.read_pf_interfaces(name, roots.sys):
            dependents[physical] = tuple(dict.fromkeys((*dependents.get(physical, ()), *labels)))
    return dependents


def read_operation(
    operation: Operation, earlier: Sequence[PlannedOperation], links: Sequence[Link], roots: Roots
) -> PlannedOperation:
    """Values, undo and interruptions of one operation on kernel settings. Raises ValueError."""
    touched = interfaces_of(operation, roots)
    disturbs = INTERRUPTIONS.get(operation.kind, ())
    if operation.kind == "address del" and is_added_before(operation, earlier):
        disturbs = ()
    if operation.kind == "mtu" and only_stores_the_mtu(operation.interface, links):
        disturbs = ()
    words = tuple(text.format(name=operation.subject, number=operation.number) for text in disturbs)
    try:
        before = read_state(operation, roots)
    except ValueError:
        if not is_created_by(operation, earlier):
            raise
        return PlannedOperation(
            operation, {}, dict(operation.settings), (), touched, words, subject=operation.subject
        )
    after = target_state(operation, before)
    try:
        undo: tuple[tuple[str, ...], ...] = ()
        if not equal(before, after):
            removed, added = (
                addresses_before(operation, earlier, kind)
                for kind in ("address del", "address add")
            )
            undo = read_undo(operation, before, links, roots, removed=removed, added=added)
    except OSError as error:
        raise ValueError(
            f"the values to restore {operation.subject} cannot be read: {error}"
        ) from None
    return PlannedOperation(
        operation, before, after, undo, touched, words, subject=operation.subject
    )


def only_stores_the_mtu(name: str, links: Iterable[Link]) -> bool:
    """Nothing is started again for another MTU of the link."""
    return any(link.name == name and link.kind in KINDS_THAT_STORE_THE_MTU for link in links)


def addresses_before(
    operation: Operation, earlier: Iterable[PlannedOperation], kind: str
) -> list[str]:
    """Addresses that operations of a kind set on, or remove from, its interface, with prefix
    lengths."""
    found = []
    for one in earlier:
        if one.operation.kind == kind and one.operation.interface == operation.interface:
            found.append(one.operation.settings[0][0])
    return found


def is_created_by(operation: Operation, earlier: Iterable[PlannedOperation]) -> bool:
    """Whether an earlier operation creates the object of this one: a queue by channels, a VF by
    their number. Then its undo removes the object, too."""
    maker = {"steering": "channels", "virtual function": "virtual functions"}.get(operation.kind)
    return any(
        one.operation.kind == maker and operation.interface in (one.operation.interface, *one.links)
        for one in earlier
    )


def interfaces_of(operation: Operation, roots: Roots) -> tuple[str, ...]:
    """Interfaces that an operation changes."""
    if operation.interface:
        return (operation.interface,)
    if operation.kind == "virtual functions":
        try:
            return tuple(sorted(os.listdir(f"{roots.sys}/bus/pci/devices/{operation.subject}/net")))
        except OSError:
            return ()
    return ()


def read_networkmanager_part(
    planned: Sequence[PlannedOperation], links: Sequence[Link], roots: Roots
) -> None:
    """Fill in the NetworkManager operations. Raises ValueError."""
    if not planned:
        return
    from nictop.probe.plan.networkmanager.kernel_settings import read_kernel_undo
    from nictop.probe.plan.networkmanager.plan import describe

    for one, description in zip(planned, describe([one.operation for one in planned])):
        one.before, one.after, one.subject = (
            {"": description.before},
            {"": description.after},
            description.subject,
        )
        one.links, one.disturbs, one.persistent = (
            description.links,
            description.disturbs,
            description.persistent,
        )
        one.kernel_undo = read_kernel_undo(one.operation, description.links, links, roots)


def why_idle(link: Link, links: Sequence[Link], roots: Roots) -> str:
    """``has no carrier``: why a change of the link interrupts no traffic, or none of an address of
    this host; "": it may. VFs may work while the link of their NIC is down."""
    if has_vfs(link.name, roots):
        return ""
    if not link.flags & IFF_UP:
        return "is down"
    if link.carrier is False:
        return "has no carrier"
    is_used = link.master is not None or any(
        link.ifindex in (other.master, other.lower) for other in links
    )
    return "" if link.addresses or is_used else "has no address"


def has_vfs(name: str, roots: Roots) -> bool:
    number = read_text(f"{roots.sys}/class/net/{name}/device/sriov_numvfs")
    return isinstance(number, str) and parse_integer(number) != 0


def disturbs_text(text: str, name: str, idle: str) -> str:
    """What an operation may interrupt on this link; "": nothing. `idle`: see `why_idle`."""
    if text.endswith(f"{name}: {INTERRUPTION}"):
        return f"{text[: -len(INTERRUPTION) - 2]}, which {idle}"
    if text.startswith(MAY_INTERRUPT) and text.endswith(f" {name}") and idle != "has no address":
        return ""
    return text


def disturbs_of(planned: PlannedOperation, idle: dict[str, str]) -> tuple[str, ...]:
    """What it may interrupt, as the links are now."""
    texts = list(planned.disturbs)
    for name in planned.links:
        if idle.get(name):
            texts = [disturbs_text(text, name, idle[name]) for text in texts]
    return tuple(filter(None, texts))


def planned_action(
    planned: PlannedOperation, dependents: dict[str, tuple[str, ...]], idle: dict[str, str]
) -> PlannedAction:
    """The record that is sent to the watching side."""
    used_by: tuple[str, ...] = ()
    if planned.operation.kind not in NON_DISRUPTIVE_KINDS:
        used_by = tuple(
            f"{label} uses {name}" for name in planned.links for label in dependents.get(name, ())
        )
    return PlannedAction(
        words=planned.operation.words,
        before=as_text(planned.before).strip() or "none",
        after=as_text(planned.after).strip(),
        undo=planned.undo,
        subject=planned.subject,
        persistent=planned.persistent,
        disturbs=(*disturbs_of(planned, idle), *used_by),
    )


def is_added_before(operation: Operation, earlier: Iterable[PlannedOperation]) -> bool:
    """The address of an operation is on its link with another prefix length by then, so that it is
    never gone."""
    address, _, _ = operation.settings[0][0].partition("/")
    added = addresses_before(operation, earlier, "address add")
    return any(one.partition("/")[0] == address for one in added)


def lock_subjects(planned: Iterable[PlannedOperation]) -> tuple[str, ...]:
    """Lock names, sorted, so that all changes take them in the same order. Links by ifindex,
    because a link may have several names."""
    subjects: set[str] = set()
    for one in planned:
        for name in one.links:
            with contextlib.suppress(ValueError):
                # a modem is a device of NetworkManager's, and no link
                subjects.add(f"link {read_ifindex(name)}")
        if one.operation.uses_networkmanager:
            subjects.add("networkmanager")
        elif not one.links:
            subjects.add(one.operation.subject)
    return tuple(sorted(subjects))


INTERRUPTIONS: dict[str, tuple[str, ...]] = {
    "channels": ("may reset {name}: " + INTERRUPTION,),
    "rings": ("may reset {name}: " + INTERRUPTION,),
    "features": ("may reset {name}: " + INTERRUPTION,),
    "mtu": ("may reset {name}: " + INTERRUPTION,),
    "virtual functions": ("may reset {name}: " + INTERRUPTION,),
    "virtual function": ("may affect the user of VF {number} of {name}",),
    "bridge vlan add": ("frames of VLAN {number} pass {name}",),
    "bridge vlan del": ("frames of VLAN {number} do not pass {name} any more",),
    "bridge port": (MAY_INTERRUPT + "the port {name}",),
    "bridge": (MAY_INTERRUPT + "the ports of {name}",),
    "bond": (MAY_INTERRUPT + "{name}",),
    "address del": ("connections to this address of {name} get no packets without it",),
}
