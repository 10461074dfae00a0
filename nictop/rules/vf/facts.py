"""VFs among the links, whether they are used, and the PF of each on the watched hosts.

Reads nothing. On one host a VF is found by its PCI function (``physfn``, ``virtfnN``); between two hosts by the MAC
address that the PF has set for it (IFLA_VFINFO_LIST) and that the guest's netdev has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nictop.model.devices.virtual_functions import is_in_use, is_virtual_function, pci_function_of_vf
from nictop.model.facts.hardware import ZERO_MAC_ADDRESS
from nictop.model.snapshot import is_same_machine as watched_twice
from nictop.model.text.units import duration
from nictop.model.text.words import IFF_UP
from nictop.probe.records import KernelMessage, Link, PciFunction, VirtualFunction
from nictop.rules.finding import Fix, WhereToType
from nictop.rules.fixes.commands import command
from nictop.rules.host import HostFacts, link_driver

PASSTHROUGH_PARAMETERS = ("intel_iommu=on", "amd_iommu=on", "iommu=pt", "amd_iommu=pt")
"""Kernel command line parameters that enable passthrough."""
PCI_DEVICES = "/sys/bus/pci/devices"
RECENT_SECONDS = 24 * 3600.0
"""Older kernel messages are ignored."""
CLOCK_TOLERANCE_SECONDS = 10.0
"""udev reports a device up to so long after the kernel created it, when its driver may have logged messages."""
DEVICE_MESSAGE = re.compile(r"\S{1,64} ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])[: ]")
"""Start of a kernel message about a device: driver and address."""
PERSISTENCE_NOTE = (
    "Reset when the VFs are created again. Persistent: sriov.vfs of the PF's NetworkManager profile, [SR-IOV] in its "
    ".network file, or this command where the VFs are created."
)


def is_up(link: Link) -> bool:
    """Administratively up."""
    return bool(link.flags & IFF_UP)


def is_port_of_netvsc(host: HostFacts, link: Link) -> bool:
    """Its master is Hyper-V's synthetic NIC, which is the one to configure."""
    above = host.snapshot.links.get(link.master) if link.master is not None else None
    return above is not None and link_driver(above) == "hv_netvsc"


def function_of(host: HostFacts, port: Link, number: int) -> PciFunction | None:
    """PCI function of VF `number` of the physical function that carries `port`."""
    return pci_function_of_vf(port, number, host.functions)


def own_links(host: HostFacts, port: Link, number: int) -> tuple[Link, ...]:
    """Netdevs of VF `number` on the same host."""
    function = function_of(host, port, number)
    return host.links_of_function.get(function.address, ()) if function is not None else ()


def is_used(host: HostFacts, port: Link, number: int) -> bool:
    """A guest has VF `number` of `port` open, or it is a link here that is up."""
    return is_in_use(function_of(host, port, number), host.links_of_function)


@dataclass(frozen=True, eq=False)
class Pair:
    """The netdev of a VF and the settings of the VF on its PF."""

    guest: HostFacts
    link: Link
    physical: HostFacts
    port: Link
    """Netdev of the physical function."""
    function: VirtualFunction

    @property
    def place(self) -> WhereToType:
        """Where commands about the physical function are typed."""
        return "here" if self.guest is self.physical else "peer"

    @property
    def port_text(self) -> str:
        """``VF 3 of enp59s0f0 on hypervisor``"""
        return f"VF {self.function.number} of {self.port.name} on {self.physical.name}"


def pairs(hosts: Sequence[HostFacts]) -> tuple[Pair, ...]:
    """Every VF of which both sides are watched, on one host or on two."""
    return _pairs(tuple(hosts))


@lru_cache(maxsize=1)
def _pairs(hosts: tuple[HostFacts, ...]) -> tuple[Pair, ...]:
    """Computed once for all rules of a diagnosis: hosts are compared by identity."""
    claims: dict[str, list[tuple[HostFacts, Link, VirtualFunction]]] = {}
    found = []
    for host in hosts:
        for port in host.links:
            for function in port.virtual_functions:
                own = own_links(host, port, function.number)
                found += [Pair(host, link, host, port, function) for link in own]
                if not own and function.address and function.address != ZERO_MAC_ADDRESS:
                    claims.setdefault(function.address, []).append((host, port, function))
    if claims:
        found += _across(hosts, claims)
    return tuple(found)


def _across(
    hosts: Sequence[HostFacts], claims: dict[str, list[tuple[HostFacts, Link, VirtualFunction]]]
) -> Iterator[Pair]:
    for guest in hosts:
        for link in guest.links:
            claimed = claims.get(link.permanent_address or "") or claims.get(link.address or "") or ()
            others = [one for one in claimed if not is_same_machine(guest, one[0])]
            if len(others) == 1 and is_virtual_function(link, guest.functions):
                yield Pair(guest, link, *others[0])


def is_same_machine(one: HostFacts, other: HostFacts) -> bool:
    """Watched twice, under two names."""
    return one is other or watched_twice(one.snapshot, other.snapshot)


def function_messages(host: HostFacts, *signs: str) -> dict[str, list[KernelMessage]]:
    """PCI address → kernel messages about it that contain one of `signs`, oldest first."""
    found: dict[str, list[KernelMessage]] = {}
    for message in host.inventory.messages or ():
        if any(sign in message.text for sign in signs):
            match = DEVICE_MESSAGE.match(message.text)
            if match is not None:
                found.setdefault(match[1], []).append(message)
    return found


def since(messages: Iterable[KernelMessage], created: float | None) -> list[KernelMessage]:
    """Those that can be about a device that was created at `created` (None: at boot, or not known), and not about an
    earlier one of the same name or number."""
    return [one for one in messages if created is None or one.time >= created - CLOCK_TOLERANCE_SECONDS]


def message_source(host: HostFacts, message: KernelMessage) -> str:
    """``dmesg, 3 min 5 s ago``: an old message may be about a problem that is solved."""
    age = max(0.0, host.inventory.time - message.time)
    return f"dmesg, {duration(age)} ago"


def set_vf_fix(
    where: WhereToType, title: str, port: Link, number: int, *attributes: str, undo: Sequence[str] = (), note: str = ""
) -> Fix:
    """``ip link set PF vf N …`` (ip-link(8)). `undo`: attributes that restore the old state."""
    return Fix(
        where=where,
        title=title,
        commands=(command("ip", "link", "set", port.name, "vf", str(number), *attributes),),
        persistent=False,
        undo=(command("ip", "link", "set", port.name, "vf", str(number), *undo),) if undo else (),
        note=f"{note} {PERSISTENCE_NOTE}".strip(),
    )
