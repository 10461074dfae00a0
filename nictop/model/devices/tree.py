"""The devices of one host as a tree: host, PCI functions, virtual functions, netdevs.

Reads nothing; `device_tree(snapshot)` returns rows from top to bottom:

    alma-load-001                       host
    ├ 02:00.0 82576 Gigabit …           pci    a physical function
    │ ├ ens224                          link   its netdev
    │ ├ VF 0 02:10.0                    vf     as reported by the PF, with its PCI function if that is on this host
    │ │ └ ens224v0                      link
    │ └ VF 1 02:10.2                    vf     assigned to a guest: no netdev here
    ├ 03:00.0 Virtio 1.0 network …      pci
    │ └ ens256                          link
    ├ eth0                              link   on vmbus, xen, platform or usb
    ├ bond0                             link   a bond or team; its ports with a device are below their PCI functions
    │ └ veth1                           link   a virtual port
    └ Virtual interfaces                     group
      ├ br0                             link
      │ └ tap0                          link   a virtual port; one with a device is below its PCI function
      └ lo                              link
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from nictop.model.devices.bridges import bridge_of
from nictop.model.facts.hardware import pci_name
from nictop.model.snapshot import ARPHRD_VOID, Snapshot
from nictop.model.text.words import IFF_LOOPBACK, is_virtual
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
    """Stable while the device exists: ``host``, ``pci:0000:02:00.0``, ``vf:0000:02:00.0:3``, ``link:4``,
    ``group:virtual``."""
    kind: Kind
    depth: int
    title: str
    """Not sanitized: may contain a name from the host."""
    pci: PciFunction | None = None
    """The function of a pci row, of a vf row whose function is on this host, and of their netdevs."""
    link: Link | None = None
    """The link of a link row."""
    vf: VirtualFunction | None = None
    """In a vf row: as reported by the netdev `uplink`; None: not reported."""
    uplink: Link | None = None
    """In a vf row: the netdev of its physical function."""
    prefix: tuple[bool, ...] = ()
    """`depth` flags from the root: True where that ancestor, or the row itself (last flag), is the last child."""


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
    """All rows of a host, beginning with the host. PCI functions by address, VFs by number, lo last; the order does not
    depend on rates, so that rows do not move."""
    return tuple(_rows(_TreeBuilder(snapshot).host()))


def guides(row: Row) -> str:
    """The lines that join a row to the tree, two cells per level: ``│ └ ``."""
    if not row.prefix:
        return ""
    return "".join("  " if last else "│ " for last in row.prefix[:-1]) + ("└ " if row.prefix[-1] else "├ ")


def matching_rows(rows: Sequence[Row], matches: Callable[[Row], bool]) -> tuple[Row, ...]:
    """The rows that match, and those that they are below, with lines that join them without the others."""
    found: list[Row] = []
    continued: set[int] = set()
    """Depths at which the parent has another child further down."""
    parent_depth = -1
    """Depth of the parent of the row that was found last."""
    for row in reversed(rows):
        if row.depth != parent_depth and not matches(row):
            continue
        continued = {depth for depth in continued if depth <= row.depth}
        prefix = tuple(depth not in continued for depth in range(row.depth + 1 - len(row.prefix), row.depth + 1))
        found.append(replace(row, prefix=prefix))
        continued.add(row.depth)
        parent_depth = row.depth - 1
    return tuple(reversed(found))


class _TreeBuilder:
    """Parent and child relations of the devices of one host."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.functions = {pci.address: pci for pci in snapshot.pci if pci.class_code >> 16 != PCI_CLASS_BRIDGE}
        self.short = all(address.startswith("0000:") for address in self.functions)
        links = sorted(snapshot.links.values(), key=lambda link: link.ifindex)
        self.nodes = {link.ifindex: _Node(f"link:{link.ifindex}", "link", link.name, link=link) for link in links}
        self.links_by_pci: dict[str, list[Link]] = {}
        self.top_level: list[Link] = []
        for link in links:
            if _is_below(link, snapshot.links) and link.lower is not None:
                self.nodes[link.lower].children.append(self.nodes[link.ifindex])
            elif link.master is not None and _is_virtual_port(link, snapshot.links):
                self.nodes[link.master].children.append(self.nodes[link.ifindex])
            elif link.pci_address is not None and link.pci_address in self.functions:
                self.links_by_pci.setdefault(link.pci_address, []).append(link)
            else:
                self.top_level.append(link)
        self.virtual_functions = _virtual_functions(self.functions)
        for link in self.top_level:  # ESXi, if its list of PCI devices could not be read
            self.nodes[link.ifindex].children += [
                _Node(
                    f"vf:{link.pci_address or link.name}:{vf.number}",
                    "vf",
                    " ".join(filter(None, (f"VF {vf.number}", vf.machine))),
                    vf=vf,
                    uplink=link,
                )
                for vf in link.virtual_functions
            ]

    def host(self) -> _Node:
        host = _Node("host", "host", self.snapshot.host)
        below = {address for numbers in self.virtual_functions.values() for address in numbers.values()}
        host.children = [
            self.pci(self.functions[address]) for address in sorted(self.functions) if address not in below
        ]
        pending = [link for link in self.top_level if link.type == ARPHRD_VOID]
        aggregates = [link for link in self.top_level if link.kind in AGGREGATE_KINDS]
        others = [link for link in self.top_level if link.kind not in AGGREGATE_KINDS]
        virtual = sorted((link for link in others if is_virtual(link)), key=_virtual_order)
        devices = [link for link in others if link.type != ARPHRD_VOID and not is_virtual(link)]
        host.children += [self.nodes[link.ifindex] for link in (*devices, *aggregates)]
        for key, title, members in (
            ("group:pending", "inventory pending", pending),
            ("group:virtual", "Virtual interfaces", virtual),
        ):
            if members:
                host.children.append(
                    _Node(key, "group", title, children=[self.nodes[link.ifindex] for link in members])
                )
        return host

    def pci(self, pci: PciFunction) -> _Node:
        title = f"{self.short_title(pci.address)} {pci.device_name or pci_name(pci)}"
        own = self.links_by_pci.get(pci.address, [])
        return _Node(f"pci:{pci.address}", "pci", title, pci=pci, children=self.netdevs(own, pci) + self.vfs(pci, own))

    def vfs(self, pci: PciFunction, own: Sequence[Link]) -> list[_Node]:
        """The VFs of a physical function: those with a PCI function here, and those known only from its netdev."""
        reporting = next((link for link in own if link.virtual_functions), None)
        reported = {vf.number: vf for vf in reporting.virtual_functions} if reporting is not None else {}
        addresses = dict(enumerate(pci.sriov.virtual_functions)) if pci.sriov is not None else {}
        addresses.update(self.virtual_functions.get(pci.address, {}))
        nodes = []
        for number in sorted(reported.keys() | addresses.keys()):
            address = addresses.get(number, "")
            function = self.functions.get(address)
            machine = reported[number].machine if number in reported else None
            nodes.append(
                _Node(
                    f"vf:{pci.address}:{number}",
                    "vf",
                    " ".join(filter(None, (f"VF {number}", self.short_title(address), machine))),
                    pci=function,
                    uplink=reporting,
                    vf=reported.get(number),
                    children=self.netdevs(self.links_by_pci.get(address, []), function) if function is not pci else [],
                )
            )
        return nodes

    def netdevs(self, links: Iterable[Link], pci: PciFunction | None) -> list[_Node]:
        nodes = [self.nodes[link.ifindex] for link in links]
        for node in nodes:
            node.pci = pci
        return nodes

    def short_title(self, address: str) -> str:
        return address[5:] if self.short and address.startswith("0000:") else address


def _virtual_functions(functions: dict[str, PciFunction]) -> dict[str, dict[int, str]]:
    """Address of a physical function → VF number → address, for VFs that are PCI functions of this host. A VF with an
    unknown or duplicate number is not included and is shown like any function."""
    result: dict[str, dict[int, str]] = {}
    for address, pci in sorted(functions.items()):
        physical = functions.get(pci.physical_function or "")
        if physical is None or physical.physical_function is not None:
            continue
        number = pci.virtual_function
        if number is None and physical.sriov is not None and address in physical.sriov.virtual_functions:
            number = physical.sriov.virtual_functions.index(address)
        if number is not None:
            result.setdefault(physical.address, {}).setdefault(number, address)
    return result


def _is_below(link: Link, links: dict[int, Link]) -> bool:
    """Whether a link belongs below its lower link. In the kernel a link is created on an existing one, so the chain
    ends; invalid input may contain a cycle, and then the result is False."""
    seen = {link.ifindex}
    current = link
    while current.kind in KINDS_ON_LOWER_LINK and current.lower_namespace is None and current.lower in links:
        current = links[current.lower]
        if current.ifindex in seen:
            return False
        seen.add(current.ifindex)
    return current is not link


def _is_virtual_port(link: Link, links: dict[int, Link]) -> bool:
    """A tap, veth or the like that is a port of a bridge, bond or team. A bridge cannot be a port of another one, and
    bonds and teams are not shown below their bridge."""
    if not is_virtual(link) or link.kind in ("bridge", *AGGREGATE_KINDS):
        return False
    master = links.get(link.master or 0)
    return bridge_of(link, links) is not None or (master is not None and master.kind in AGGREGATE_KINDS)


def _virtual_order(link: Link) -> tuple[bool, int, int]:
    rank = KIND_ORDER.index(link.kind) if link.kind in KIND_ORDER else len(KIND_ORDER)
    return bool(link.flags & IFF_LOOPBACK), rank, link.ifindex


def _rows(root: _Node) -> Iterable[Row]:
    pending_nodes: list[tuple[_Node, tuple[bool, ...]]] = [(root, ())]
    while pending_nodes:
        node, prefix = pending_nodes.pop()
        yield Row(node.key, node.kind, len(prefix), node.title, node.pci, node.link, node.vf, node.uplink, prefix)
        last = len(node.children) - 1
        pending_nodes += [(child, (*prefix, index == last)) for index, child in enumerate(node.children)][::-1]
