"""The NICs of all guests of a host, one row each, as the guest sees them.

Reads nothing; takes a snapshot. Received is what the guest receives: of a tap or veth that is what
this host sends on it, of a macvtap and of a VF what they count as received themselves
(drivers/net/macvlan.c, IFLA_VF_STATS).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from nictop.model.devices.bridges import filters_vlans, outer_port, pvid, vlans_text
from nictop.model.devices.switch_ports import leads_to_datapath, representor_of, switch_vlans
from nictop.model.devices.vf_address import pci_address_of_vf
from nictop.model.facts.hardware import ZERO_MAC_ADDRESS
from nictop.model.guests.agent_facts import AgentFacts, guest_key
from nictop.model.guests.agents import AGENT_SOURCE
from nictop.model.guests.owners import KIND_WORDS, GuestKind, guest_text
from nictop.model.queues.cpu_consumers import CpuConsumer, cpu_consumers
from nictop.model.rates.links import LinkRates, VfRates
from nictop.model.snapshot import Snapshot, is_other_namespace
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import (
    GuestNic,
    HostedGuest,
    Link,
    SwitchPort,
    Thread,
    Unreadable,
    VirtualFunction,
)
from nictop.probe.records.unreadable import NOT_READ_YET

SAME_DIRECTION_KINDS = ("macvtap", "ipvtap", "vnic")
"""Kinds of links whose received packets are those of the guest."""
REASON_WORDS = {"needs_root": "needs root"}
CONDITION_WORDS = {"pmsuspended": "asleep", "shutdown": "ending"}
"""`HostedGuest.condition` of libvirt → word for it; the others are words."""
NOT_IN_DATABASE = "the database of Open vSwitch does not have the port"
OLDER_PROBE = "read by an older probe, or from ESXi: only virtual machines, with ports and VFs"
NEIGHBOUR_SOURCE, NAMESPACE_SOURCE, CONFIGURATION_SOURCE = (
    "neighbour table",
    "its network namespace",
    "its configuration",
)


def guest_counts(guests: Iterable[HostedGuest]) -> tuple[str, ...]:
    """``2 guests``, ``1 network namespace``: how many there are of each."""
    listed = list(guests)
    namespaces = sum(guest.kind == "namespace" for guest in listed)
    counts = ((len(listed) - namespaces, "guest"), (namespaces, "network namespace"))
    return tuple(count_noun(number, noun) for number, noun in counts if number)


class GuestAddress(NamedTuple):
    """An IP address of a guest."""

    address: str
    """``192.0.2.7`` or ``192.0.2.7/24``"""
    source: str
    """From where it is known: ``neighbour table``, ``DHCP lease of libvirt virbr0``."""


class GuestRates(NamedTuple):
    """Of one NIC, as the guest sees it; per second. None: not known."""

    rx_bits: float | None = None
    tx_bits: float | None = None
    rx_packets: float | None = None
    tx_packets: float | None = None
    drops: float | None = None
    """Packets in either direction that this host dropped."""


@dataclass(frozen=True, eq=False)
class GuestRow:
    """One NIC of a guest, or a guest without NICs."""

    snapshot: Snapshot
    guest: HostedGuest
    nic: GuestNic | None
    """None: it has none, or they are not known (`HostedGuest.unreadable`)."""
    number: int
    """Of the NIC, from 0."""
    addresses: tuple[GuestAddress, ...] = ()
    cpu: CpuConsumer | None = None
    """CPU time of its virtual CPUs and vhost threads; None: not a virtual machine, or not
    measured."""
    agent: AgentFacts | None = None
    """What its guest agent tells; None: it was not asked."""
    vf: tuple[Link, VirtualFunction] | None = None
    """(Netdev of the physical function, VF) of a function that it has."""

    @property
    def key(self) -> str:
        """Of the row, while the guest runs."""
        return (
            f"{self.guest.kind} {self.guest.name} {self.guest.id or self.guest.pid} {self.number}"
        )

    @property
    def text(self) -> str:
        """``VM web1``"""
        return guest_text(self.guest.name, self.guest.kind)

    @cached_property
    def link(self) -> Link | None:
        """Tap, macvtap or veth of this host."""
        if self.nic is None or self.nic.link is None:
            return None
        return self.snapshot.links.get(self.nic.link)

    @property
    def shown_link(self) -> Link | None:
        """The netdev of this host to look at: the tap, the physical function, or the link below."""
        if self.link is not None:
            return self.link
        if self.vf is not None:
            return self.vf[0]
        lower = self.nic.lower if self.nic is not None else None
        return self.snapshot.links.get(lower) if lower is not None else None

    @cached_property
    def mac(self) -> str | None:
        """Address of the NIC: as the guest was given it, else as the physical function enforces
        it."""
        if self.nic is not None and self.nic.address is not None:
            return self.nic.address
        address = self.vf[1].address if self.vf is not None else None
        return None if address == ZERO_MAC_ADDRESS else address

    @cached_property
    def attached(self) -> Link | None:
        """The link of this host that is in the network of the guest: its own, or the representor of
        its VF."""
        if self.link is not None or self.vf is None:
            return self.link
        return representor_of(self.vf[0], self.vf[1].number, self.snapshot.links)

    @cached_property
    def port(self) -> tuple[Link, Link] | None:
        """(Port, bridge) by which it is in its network."""
        if self.attached is None:
            return None
        return outer_port(self.attached, self.snapshot.links)

    @cached_property
    def switch_port(self) -> SwitchPort | None:
        """Port of Open vSwitch by which it is in its network."""
        if self.attached is not None:
            return self.snapshot.switch_ports.outer(self.attached)
        return self.snapshot.switch_ports.of_guest_nic(self.nic) if self.nic is not None else None

    @property
    def why_no_network(self) -> str | None:
        """Why its bridge is not known: one of Open vSwitch."""
        if self.attached is None or self.switch_port is not None:
            return None
        if not leads_to_datapath(self.attached, self.snapshot.links):
            return None
        return why_switch_ports_are_missing(self.snapshot)

    @property
    def connection(self) -> str:
        """``tap101i0``, ``VF 3 of ens1f0``, ``macvlan on ens1f0``, ``0000:01:10.2``"""
        nic = self.nic
        if nic is None:
            return ""
        if self.link is not None:
            return self.link.name
        if self.vf is not None:
            return f"VF {self.vf[1].number} of {self.vf[0].name}"
        lower = self.snapshot.links.get(nic.lower) if nic.lower is not None else None
        if lower is not None:
            return f"{nic.backend} on {lower.name}"
        return nic.pci_address or nic.target or nic.backend or ""

    @property
    def network(self) -> str:
        """Bridge or other master of its link; of a stopped guest that of its configuration. "":
        none, or not known."""
        if self.switch_port is not None:
            return self.switch_port.bridge
        if self.why_no_network is not None:
            return ""
        if self.port is not None:
            return self.port[1].name
        if self.link is None:
            return self._configured_network
        links = self.snapshot.links
        above = links.get(self.link.master or 0)
        if above is None and self.link.kind in SAME_DIRECTION_KINDS:
            above = links.get(self.link.lower or 0)
        return above.name if above is not None else ""

    @property
    def _configured_network(self) -> str:
        return self.nic.target if self.nic is not None and self.is_stopped else ""

    @property
    def vlans(self) -> str:
        """VLAN of the VF, of the configuration or of the port, or VLANs of a port that passes
        several; "": none."""
        configured = _number_text(self.nic.vlan) if self.nic is not None else ""
        if self.vf is not None:
            configured = _number_text(self.vf[1].vlan)
        if not configured and self.switch_port is not None:
            return switch_vlans(self.switch_port)
        if configured or self.port is None or self.why_no_network is not None:
            return configured
        return port_vlans(*self.port)

    @property
    def mtu(self) -> int | None:
        """Of the link of this host; without one `guest_mtu`."""
        if self.link is not None and self.link.mtu:
            return self.link.mtu
        return self.guest_mtu

    @property
    def guest_mtu(self) -> int | None:
        """Of the NIC in a container; of a virtual machine as its device offers it, or as
        configured."""
        if self.nic is None:
            return None
        if self.nic.mtu is None and self.link is not None and self.link.veth_peer is not None:
            return self.link.veth_peer.mtu
        return self.nic.mtu

    @property
    def state(self) -> str:
        """``running``, ``stopped``, or what is known besides: ``paused``, ``crashed``, ``saved``"""
        return CONDITION_WORDS.get(self.guest.condition, self.guest.condition) or self.guest.state

    @property
    def condition_text(self) -> str:
        """``paused (ioerror)``, ``locked: backup``; "": nothing but `HostedGuest.state` is
        known."""
        guest = self.guest
        reason = f" ({guest.condition_reason})" if guest.condition_reason else ""
        condition = f"{self.state}{reason}" if guest.condition else ""
        lock = f"locked: {guest.lock}" if guest.lock else ""
        return ", ".join(filter(None, (condition, lock)))

    @property
    def is_stopped(self) -> bool:
        return self.guest.state == "stopped"

    @property
    def why_no_nics(self) -> str | None:
        """Why NICs may be missing."""
        why = self.guest.unreadable.get("nics")
        return None if why is None else reason_text(why)

    @cached_property
    def rates(self) -> GuestRates:
        rates = self.snapshot.rates
        if rates is None:
            return GuestRates()
        if self.link is not None:
            is_same = self.link.kind in SAME_DIRECTION_KINDS
            return guest_rates(rates.links.get(self.link.ifindex), is_same_direction=is_same)
        if self.vf is None:
            return GuestRates()
        port, vf = self.vf
        counted = rates.vfs.get(port.ifindex, {}).get(vf.number)
        return guest_rates(counted, is_same_direction=True)


def guest_rates(counted: LinkRates | VfRates | None, *, is_same_direction: bool) -> GuestRates:
    """Those of a link or VF, the other way round if it sends what the guest receives."""
    if counted is None:
        return GuestRates()
    received, sent = (counted.rx_bits, counted.rx_packets), (counted.tx_bits, counted.tx_packets)
    if not is_same_direction:
        received, sent = sent, received
    dropped = _sum(counted.rx_dropped, counted.tx_dropped)
    return GuestRates(received[0], sent[0], received[1], sent[1], dropped)


def nic_facts(row: GuestRow) -> str:
    """``net0: virtio-net-pci 52:54:… · tap101i0, MTU 1500 on this host · port fwln101i0 of vmbr0,
    VLAN 30 · 4 queue pairs, vhost · 192.0.2.7 (neighbour table)``"""
    nic = row.nic
    if nic is None:
        return ""
    name = f"{nic.name}: " if nic.name else ""
    device = " ".join(filter(None, (nic.model or nic.backend, row.mac)))
    parts = [f"{name}{device}", *_mtu_and_connection(row), _network_text(row)]
    parts.append(queue_text(nic))
    parts += [f"{found.address} ({found.source})" for found in row.addresses]
    shown = {found.address.partition("/")[0] for found in row.addresses}
    for address in nic.assigned:
        if address.partition("/")[0] not in shown:
            parts.append(f"should have {address} ({nic.assigned_by})")
    return " · ".join(filter(None, parts))


def guest_mtu_text(mtu: int | None, kind: GuestKind, *, is_stopped: bool) -> str:
    """``MTU 1500 in the container``, of `GuestRow.guest_mtu`; "": not known."""
    if mtu is None:
        return ""
    if is_stopped:
        return f"MTU {mtu} configured"
    if kind == "vm":
        return f"MTU {mtu} offered to the guest"
    return f"MTU {mtu} in the {KIND_WORDS[kind]}"


def _mtu_and_connection(row: GuestRow) -> tuple[str, str]:
    """``MTU 1500 in the container``, ``veth5, MTU 1450 on this host``; if both are the same,
    once."""
    guest_mtu = guest_mtu_text(row.guest_mtu, row.guest.kind, is_stopped=row.is_stopped)
    if row.link is None or not row.link.mtu:
        return guest_mtu, row.connection
    mtu = row.link.mtu
    if row.guest.kind != "vm" and row.guest_mtu == mtu:
        return "", f"{row.connection}, MTU {mtu} at both ends"
    return guest_mtu, f"{row.connection}, MTU {mtu} on this host"


def _network_text(row: GuestRow) -> str:
    """``port tap0 of br0, VLAN 30``"""
    vlans = f"VLAN {row.vlans}" if row.vlans.isdigit() else row.vlans
    network = row.network
    if row.switch_port is not None:
        network = f"port {row.switch_port.name} of {network} (Open vSwitch)"
    elif row.why_no_network is not None:
        network = f"bridge not known: {row.why_no_network}"
    elif row.port is not None:
        network = f"port {row.port[0].name} of {row.port[1].name}"
    elif network:
        network = f"on {network}"
    return ", ".join(filter(None, (network, vlans)))


def queue_text(nic: GuestNic) -> str:
    """``4 queue pairs, vhost``"""
    queues = count_noun(nic.queues, "queue pair") if nic.queues is not None else ""
    vhost = {True: "vhost", False: "no vhost", None: ""}[nic.vhost]
    return ", ".join(filter(None, (queues, vhost)))


def why_guests_are_missing(snapshot: Snapshot) -> str | None:
    """None: all are known."""
    inventory = snapshot.inventory
    if inventory is None or "guests" in inventory.pending:
        return NOT_READ_YET
    why = inventory.unreadable.get("guests")
    if why is not None:
        return reason_text(why)
    return OLDER_PROBE if inventory.guests is None else None


def why_switch_ports_are_missing(snapshot: Snapshot) -> str:
    """Of a port of Open vSwitch without an entry."""
    inventory = snapshot.inventory
    if inventory is None or "switch_ports" in inventory.pending:
        return NOT_READ_YET
    why = inventory.unreadable.get("switch_ports")
    if why is not None:
        return reason_text(why)
    return NOT_IN_DATABASE


def reason_text(why: Unreadable) -> str:
    """``needs root: /etc/libvirt/qemu: EACCES``"""
    reason = REASON_WORDS.get(why.reason, "")
    return ": ".join(filter(None, (reason, why.detail))) or why.reason


def port_vlans(port: Link, bridge: Link) -> str:
    """``30`` of an access port, else as `vlans_text`; "": no VLAN filtering, or not known."""
    vlans = port.bridge_vlans
    if vlans is None or not filters_vlans(bridge):
        return ""
    own = pvid(vlans)
    if own is not None and all(vlan.untagged for vlan in vlans):
        return str(own)
    return vlans_text(vlans)


def _number_text(number: int | None) -> str:
    """ "" for none and for 0."""
    return str(number) if number else ""


def _sum(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def guest_rows(snapshot: Snapshot) -> tuple[GuestRow, ...]:
    """By guest, running ones first."""
    addresses, functions = AddressBook(snapshot), functions_with_ports(snapshot)
    cpus = {one.pid: one for one in cpu_consumers(snapshot) if one.kind == "machine"}
    rows: list[GuestRow] = []
    for guest in hosted_guests(snapshot):
        cpu = cpus.get(guest.pid) if guest.pid is not None else None
        agent = snapshot.agents.get(guest_key(guest))
        for number, nic in enumerate(guest.nics or (None,)):
            vf = functions.get(nic.pci_address or "") if nic is not None else None
            row = GuestRow(snapshot, guest, nic, number, cpu=cpu, agent=agent, vf=vf)
            found = tuple(sorted(addresses.of(row), key=_address_order))
            rows.append(replace(row, addresses=found))
    return tuple(rows)


def _address_order(found: GuestAddress) -> tuple[bool, bool]:
    """IPv4 before IPv6, and link-local addresses last."""
    return found.address.startswith("fe80:"), ":" in found.address


def functions_with_ports(snapshot: Snapshot) -> dict[str, tuple[Link, VirtualFunction]]:
    """PCI address of a VF → (netdev of its physical function, VF)."""
    functions = {function.address: function for function in snapshot.pci}
    found: dict[str, tuple[Link, VirtualFunction]] = {}
    for port in snapshot.links.values():
        for vf in port.virtual_functions:
            address = pci_address_of_vf(port, vf.number, functions)
            if address is not None:
                found.setdefault(address, (port, vf))
    return found


def matching_rows(rows: Iterable[GuestRow], text: str) -> tuple[GuestRow, ...]:
    """The rows that contain every word of `text`, or do not contain it after ``!``; case is
    ignored."""
    words = text.casefold().split()
    return tuple(row for row in rows if all(_matches(row, word) for word in words))


def _matches(row: GuestRow, word: str) -> bool:
    wanted = word.removeprefix("!")
    return (wanted in _searched_text(row)) is (wanted == word)


def _searched_text(row: GuestRow) -> str:
    addresses = [one.address for one in row.addresses]
    nic = (row.connection, row.network, row.mac, row.nic.model if row.nic is not None else "")
    guest = (row.text, row.guest.state, row.condition_text, row.guest.id, row.guest.product)
    return " ".join(filter(None, (*guest, *nic, *addresses))).casefold()


class AddressBook:
    """IP addresses by MAC address: those of neighbours, and leases that have not ended."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._by_mac: dict[str, list[GuestAddress]] = {}
        inventory = snapshot.inventory
        if inventory is None:
            return
        for lease in inventory.leases:
            if lease.expires is None or lease.expires > inventory.wall:
                source = f"DHCP lease of {lease.source}"
                self._add(lease.mac, GuestAddress(lease.address, source))
        for neighbour in inventory.routing.neighbours if inventory.routing is not None else ():
            if neighbour.mac is not None:
                self._add(neighbour.mac, GuestAddress(neighbour.address, NEIGHBOUR_SOURCE))

    def _add(self, mac: str, found: GuestAddress) -> None:
        known = self._by_mac.setdefault(mac, [])
        if all(one.address != found.address for one in known):
            known.append(found)

    def of(self, row: GuestRow) -> Iterator[GuestAddress]:
        """Those that the inventory has with the NIC, else what its agent tells and those of its MAC
        address."""
        if row.is_stopped:
            yield from _configured_addresses(row.nic)
            return
        own = row.nic.addresses if row.nic is not None else ()
        for address in own:
            yield GuestAddress(address, NAMESPACE_SOURCE)
        if own:
            return
        by_agent = row.agent.addresses_of(row.mac) if row.agent is not None else ()
        for address in by_agent:
            yield GuestAddress(address, AGENT_SOURCE)
        known = {address.partition("/")[0] for address in by_agent}
        for found in self._by_mac.get(row.mac or "", ()):
            if found.address not in known:
                yield found


def _configured_addresses(nic: GuestNic | None) -> Iterator[GuestAddress]:
    """Of a stopped guest."""
    if nic is None:
        return
    for address in nic.addresses:
        yield GuestAddress(address, CONFIGURATION_SOURCE)
    for address in nic.assigned if not nic.addresses else ():
        yield GuestAddress(address, nic.assigned_by)


def hosted_guests(snapshot: Snapshot) -> tuple[HostedGuest, ...]:
    """The guests of the inventory. Of an older recording, and of ESXi, virtual machines by their
    threads, and by the list of VFs. Other namespaces of its machine that a host in a namespace of
    its own sees are none: they are beside it, not in it."""
    inventory = snapshot.inventory
    if inventory is None:
        return ()
    if inventory.guests is not None and is_other_namespace(snapshot):
        return tuple(guest for guest in inventory.guests if guest.kind != "namespace")
    if inventory.guests is not None:
        return inventory.guests
    machines = _machines_of_threads(inventory.threads)
    _add_functions(snapshot, machines)
    return tuple(_guest(snapshot, name, machines[name]) for name in sorted(machines))


class _Machine:
    def __init__(self, pid: int | None = None) -> None:
        self.pid = pid
        self.links: dict[int, None] = {}
        self.vcpus = 0
        self.nics: list[GuestNic] = []


def _machines_of_threads(threads: Iterable[Thread]) -> dict[str, _Machine]:
    machines: dict[str, _Machine] = {}
    for thread in threads:
        if thread.machine and thread.kind != "vhost":
            machine = machines.setdefault(thread.machine, _Machine(thread.pid))
            machine.links.update(dict.fromkeys(thread.links))
            machine.vcpus += thread.kind == "vcpu"
    return machines


def _add_functions(snapshot: Snapshot, machines: dict[str, _Machine]) -> None:
    """The VFs of ESXi, which say whose they are."""
    for link in snapshot.links.values():
        for vf in link.virtual_functions:
            if vf.machine is not None:
                machine = machines.setdefault(vf.machine, _Machine())
                machine.nics.append(_nic_of_vf(snapshot, link, vf))


def _guest(snapshot: Snapshot, name: str, machine: _Machine) -> HostedGuest:
    links = [_nic_of_link(snapshot, ifindex) for ifindex in machine.links]
    return HostedGuest(
        name=name,
        kind="vm",
        product="",
        state="running",
        pid=machine.pid,
        vcpus=machine.vcpus or None,
        nics=(*links, *machine.nics),
    )


def _nic_of_link(snapshot: Snapshot, ifindex: int) -> GuestNic:
    """On ESXi the link of a port has the adapter and the MAC address of the guest."""
    link = snapshot.links.get(ifindex)
    adapter = link.details.get("adapter") if link is not None else None
    has_address = link is not None and link.kind == "vnic"
    return GuestNic(
        model=str(adapter) if adapter else None,
        address=link.address if link is not None and has_address else None,
        link=ifindex,
    )


def _nic_of_vf(snapshot: Snapshot, port: Link, vf: VirtualFunction) -> GuestNic:
    physical = next((one for one in snapshot.pci if one.address == port.pci_address), None)
    listed = physical.sriov.virtual_functions if physical is not None and physical.sriov else ()
    address = listed[vf.number] if 0 <= vf.number < len(listed) else None
    return GuestNic(
        backend="vfio",
        address=vf.address,
        pci_address=address,
        target=f"VF {vf.number} of {port.name}",
    )
