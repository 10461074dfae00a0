"""The devices of one host as a tree: host, PCI functions, virtual functions, netdevs.

Reads nothing; `device_tree(snapshot)` returns rows from top to bottom:

    alma-load-001                       host
    ├ 02:00.0 82576 Gigabit …           pci    a physical function
    │ ├ ens224                          link   its netdev
    │ ├ VF 0 02:10.0                    vf     as reported by the PF, with its PCI function if that
                                               is on this host
    │ │ └ ens224v0                      link
    │ └ VF 1 02:10.2                    vf     assigned to a guest: no netdev here
    ├ 03:00.0 Virtio 1.0 network …      pci
    │ └ ens256                          link
    ├ eth0                              link   on vmbus, xen, platform or usb
    ├ bond0                             link   a bond or team; its ports with a device are below
                                               their PCI functions
    │ └ veth1                           link   a virtual port
    └ Virtual interfaces                     group
      ├ br0                             link
      │ └ tap0                          link   a virtual port; one with a device is below its PCI
                                               function
      └ lo                              link
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Literal

from nictop.model.devices.bridges import bridge_of
from nictop.model.devices.links import function_of, functions_by_address, link_at
from nictop.model.facts.hardware import pci_name
from nictop.model.guests.owners import NicOwner
from nictop.model.snapshot import Snapshot, is_unread_link
from nictop.model.text.words import IFF_LOOPBACK, is_virtual
from nictop.probe.light_dataclasses import dataclass, field, replace
from nictop.probe.records import Link, PciFunction, VirtualFunction

Kind = Literal["host", "pci", "link", "vf", "group"]

PCI_CLASS_BRIDGE = 0x06
"""PCI base class of bridges, which are not network devices."""

KINDS_ON_LOWER_LINK = frozenset(
    ("vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "macsec", "vxlan", "geneve", "gretap")
)
"""Kinds of netdevs that are shown below their lower link. The `lower` of a veth is its peer."""

KIND_ORDER = ("bridge", "openvswitch", "vrf", "veth", "tun", "vlan", "vxlan")
"""Order of virtual links by kind; other kinds follow; then by ifindex."""

AGGREGATE_KINDS = ("bond", "team")
"""Kinds of virtual links that are used in place of the NICs that are their ports."""


@dataclass(frozen=True, eq=False)
class Row:
    """One row of the tree."""

    key: str
    """Stable while the device exists: ``host``, ``pci:0000:02:00.0``, ``vf:0000:02:00.0:3``,
    ``link:4``, ``group:virtual``."""
    kind: Kind
    depth: int
    title: str
    """Not sanitized: may contain a name from the host."""
    pci: PciFunction | None = None
    """The function of a pci row, of a vf row whose function is on this host, and of their
    netdevs."""
    link: Link | None = None
    """The link of a link row."""
    vf: VirtualFunction | None = None
    """In a vf row: as reported by the netdev `uplink`; None: not reported."""
    uplink: Link | None = None
    """In a vf row: the netdev of its physical function."""
    prefix: tuple[bool, ...] = ()
    """`depth` flags from the root: True where that ancestor, or the row itself (last flag), is the
    last child."""


@dataclass(eq=False)
class _Node:
    """A row before its position is known."""

    key: str
    kind: Kind
    title: str
    pci: PciFunction | None = None
    link: Link | None = None
    vf: VirtualFunction | None = None
    uplink: Link | None = None
    children: list[_Node] = field(default_factory=list)


def device_tree(snapshot: Snapshot) -> tuple[Row, ...]:
    """All rows of a host, beginning with the host. PCI functions by address, VFs by number, lo
    last; the order does not depend on rates, so that rows do not move."""
    return tuple(_rows(_TreeBuilder(snapshot).host()))


def device_rows(snapshot: Snapshot) -> list[Row]:
    """The rows below that of the host, as if each of its devices were a tree of its own."""
    rows: list[Row] = []
    for device in _TreeBuilder(snapshot).host().children:
        rows += _rows(device)
    return rows


def row_of_link(link: Link, snapshot: Snapshot) -> Row:
    """A row of its own for a link, wherever it is in the tree."""
    function = function_of(link, functions_by_address(snapshot.pci))
    return Row(f"link:{link.ifindex}", "link", 0, link.name, function, link)


def row_of_host(snapshot: Snapshot) -> Row:
    return Row("host", "host", 0, snapshot.host)


def guides(row: Row) -> str:
    """The lines that join a row to the tree, two cells per level: ``│ └ ``."""
    if not row.prefix:
        return ""
    *above, is_last = row.prefix
    lines = ["  " if is_last_above else "│ " for is_last_above in above]
    lines.append("└ " if is_last else "├ ")
    return "".join(lines)


def matching_rows(rows: Sequence[Row], matches: Callable[[Row], bool]) -> tuple[Row, ...]:
    """The rows that match, and those that they are below, with lines that join them without the
    others."""
    found: list[Row] = []
    continued: set[int] = set()
    """Depths at which the parent has another child further down."""
    parent_depth = -1
    """Depth of the parent of the row that was found last."""
    for row in reversed(rows):
        if row.depth != parent_depth and not matches(row):
            continue
        continued = {depth for depth in continued if depth <= row.depth}
        depths = range(row.depth + 1 - len(row.prefix), row.depth + 1)
        prefix = tuple(depth not in continued for depth in depths)
        found.append(replace(row, prefix=prefix))
        continued.add(row.depth)
        parent_depth = row.depth - 1
    return tuple(reversed(found))


class _TreeBuilder:
    """Parent and child relations of the devices of one host."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.functions = {
            pci.address: pci for pci in snapshot.pci if pci.class_code >> 16 != PCI_CLASS_BRIDGE
        }
        self.short = all(address.startswith("0000:") for address in self.functions)
        links = sorted(snapshot.links.values(), key=lambda link: link.ifindex)
        self.nodes = {link.ifindex: self.link_node(link) for link in links}
        self.links_by_pci: dict[str, list[Link]] = {}
        self.top_level: list[Link] = []
        for link in links:
            self._place(link)
        self.virtual_functions = _virtual_functions(self.functions)
        for link in self.top_level:  # ESXi, if its list of PCI devices could not be read
            self.nodes[link.ifindex].children += [
                _reported_function(link, vf) for vf in link.virtual_functions
            ]

    def _place(self, link: Link) -> None:
        """Put a link below another one, its PCI function, or the host."""
        links, node = self.snapshot.links, self.nodes[link.ifindex]
        if link.lower is not None and _is_below(link, links):
            self.nodes[link.lower].children.append(node)
        elif link.master is not None and _is_virtual_port(link, links):
            self.nodes[link.master].children.append(node)
        elif link.pci_address is not None and link.pci_address in self.functions:
            self.links_by_pci.setdefault(link.pci_address, []).append(link)
        else:
            self.top_level.append(link)

    def link_node(self, link: Link) -> _Node:
        return _Node(f"link:{link.ifindex}", "link", self.link_title(link), link=link)

    def link_title(self, link: Link) -> str:
        """``tap101i0 web1``; on ESXi a port has the name of its machine already."""
        owner = self.snapshot.owners.of_link(link.ifindex) if is_virtual(link) else None
        name = name_of(owner)
        return f"{link.name} {name}" if name and not link.name.startswith(name) else link.name

    def host(self) -> _Node:
        below: set[str] = set()
        for numbers in self.virtual_functions.values():
            below.update(numbers.values())
        addresses = sorted(self.functions.keys() - below)
        pending: list[Link] = []
        virtual: list[Link] = []
        aggregates: list[Link] = []
        devices: list[Link] = []
        for link in self.top_level:
            if is_unread_link(link):
                pending.append(link)
            if link.kind in AGGREGATE_KINDS:
                aggregates.append(link)
            elif is_virtual(link):
                virtual.append(link)
            elif not is_unread_link(link):
                devices.append(link)
        virtual.sort(key=_virtual_order)
        children = [self.pci(self.functions[address]) for address in addresses]
        children += [self.nodes[link.ifindex] for link in (*devices, *aggregates)]
        children += self._group("group:pending", "inventory pending", pending)
        children += self._group("group:virtual", "Virtual interfaces", virtual)
        return _Node("host", "host", self.snapshot.host, children=children)

    def _group(self, key: str, title: str, members: Sequence[Link]) -> list[_Node]:
        """A row with links below it; none without links."""
        if not members:
            return []
        nodes = [self.nodes[link.ifindex] for link in members]
        return [_Node(key, "group", title, children=nodes)]

    def pci(self, pci: PciFunction) -> _Node:
        device = pci.device_name or pci_name(pci)
        owner = name_of(self.snapshot.owners.of_function(pci.address))
        title = " ".join(filter(None, (self.short_title(pci.address), device, owner)))
        own = self.links_by_pci.get(pci.address, [])
        children = self.netdevs(own, pci) + self.vfs(pci, own)
        return _Node(f"pci:{pci.address}", "pci", title, pci=pci, children=children)

    def vfs(self, pci: PciFunction, own: Sequence[Link]) -> list[_Node]:
        """The VFs of a physical function: those with a PCI function here, and those known only from
        its netdev. Functions may be read later than netdevs: of a function that has none any more
        the netdev reports none either (IFLA_NUM_VF, dev_num_vf), once it is read again."""
        reporting = next((link for link in own if link.virtual_functions), None)
        reported: dict[int, VirtualFunction] = {}
        are_gone = pci.sriov is not None and not pci.sriov.num_vfs
        if reporting is not None and not are_gone:
            reported = {vf.number: vf for vf in reporting.virtual_functions}
        addresses: dict[int, str] = {}
        if pci.sriov is not None:
            addresses.update(enumerate(pci.sriov.virtual_functions))
        addresses.update(self.virtual_functions.get(pci.address, {}))
        nodes = []
        for number in sorted(reported.keys() | addresses.keys()):
            address, vf = addresses.get(number, ""), reported.get(number)
            function = self.functions.get(address)
            machine = self.owner_of_vf(reporting, vf, address)
            title = _vf_title(number, self.short_title(address), machine)
            key = f"vf:{pci.address}:{number}"
            node = _Node(key, "vf", title, pci=function, uplink=reporting, vf=vf)
            if function is not pci:
                node.children = self.netdevs(self.links_by_pci.get(address, []), function)
            nodes.append(node)
        return nodes

    def owner_of_vf(
        self, reporting: Link | None, vf: VirtualFunction | None, address: str
    ) -> str | None:
        """Name of the guest that has a VF."""
        owners = self.snapshot.owners
        if reporting is not None and vf is not None:
            return name_of(owners.of_vf(reporting, vf))
        return name_of(owners.of_function(address))

    def netdevs(self, links: Iterable[Link], pci: PciFunction | None) -> list[_Node]:
        nodes = [self.nodes[link.ifindex] for link in links]
        for node in nodes:
            node.pci = pci
        return nodes

    def short_title(self, address: str) -> str:
        if self.short:
            return address.removeprefix("0000:")
        return address


def _virtual_functions(functions: dict[str, PciFunction]) -> dict[str, dict[int, str]]:
    """Address of a physical function → VF number → address, for VFs that are PCI functions of this
    host. A VF with an unknown or duplicate number is not included and is shown like any
    function."""
    result: dict[str, dict[int, str]] = {}
    for address, pci in sorted(functions.items()):
        physical = functions.get(pci.physical_function or "")
        if physical is None or physical.physical_function is not None:
            continue
        number = _vf_number(pci, physical)
        if number is not None:
            result.setdefault(physical.address, {}).setdefault(number, address)
    return result


def _vf_number(pci: PciFunction, physical: PciFunction) -> int | None:
    """Number of a VF: its own, or its place in the list of the physical function."""
    if pci.virtual_function is not None:
        return pci.virtual_function
    if physical.sriov is None or pci.address not in physical.sriov.virtual_functions:
        return None
    return physical.sriov.virtual_functions.index(pci.address)


def _reported_function(link: Link, vf: VirtualFunction) -> _Node:
    """A VF that is known only from the netdev of its physical function."""
    key = f"vf:{link.pci_address or link.name}:{vf.number}"
    return _Node(key, "vf", _vf_title(vf.number, vf.machine), vf=vf, uplink=link)


def name_of(owner: NicOwner | None) -> str | None:
    return owner.name if owner is not None else None


@lru_cache(maxsize=1024)
def _vf_title(number: int, *words: str | None) -> str:
    """``VF 0 04:10.0 web1``; cached, so that VFs of many ports share the text."""
    return " ".join(filter(None, (f"VF {number}", *words)))


def _is_below(link: Link, links: dict[int, Link]) -> bool:
    """Whether a link belongs below its lower link. In the kernel a link is created on an existing
    one, so the chain ends; invalid input may contain a cycle, and then the result is False."""
    seen = {link.ifindex}
    current = link
    while (
        current.kind in KINDS_ON_LOWER_LINK
        and current.lower_namespace is None
        and current.lower in links
    ):
        current = links[current.lower]
        if current.ifindex in seen:
            return False
        seen.add(current.ifindex)
    return current is not link


def _is_virtual_port(link: Link, links: dict[int, Link]) -> bool:
    """A tap, veth or the like that is a port of a bridge, bond or team. A bridge cannot be a port
    of another one, and bonds and teams are not shown below their bridge."""
    if not is_virtual(link) or link.kind in ("bridge", *AGGREGATE_KINDS):
        return False
    if bridge_of(link, links) is not None:
        return True
    master = link_at(link.master, links)
    return master is not None and master.kind in AGGREGATE_KINDS


def _virtual_order(link: Link) -> tuple[bool, int, int]:
    rank = len(KIND_ORDER)
    if link.kind in KIND_ORDER:
        rank = KIND_ORDER.index(link.kind)
    return bool(link.flags & IFF_LOOPBACK), rank, link.ifindex


def _rows(root: _Node) -> Iterable[Row]:
    pending_nodes: list[tuple[_Node, tuple[bool, ...]]] = [(root, ())]
    while pending_nodes:
        node, prefix = pending_nodes.pop()
        yield Row(
            node.key,
            node.kind,
            len(prefix),
            node.title,
            node.pci,
            node.link,
            node.vf,
            node.uplink,
            prefix,
        )
        if node.children:
            *others, last = node.children
            pending_nodes.append((last, (*prefix, True)))
            shared = (*prefix, False)  # by all of them: a port may have hundreds of VFs
            pending_nodes += [(child, shared) for child in reversed(others)]
