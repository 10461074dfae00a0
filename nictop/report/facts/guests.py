"""The guests of hosts: text and JSON of ``nictop guests``, and the JSON schema.

Reads nothing; takes the answers of `nictop.hosts.observe`. The JSON is ASCII with escapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from nictop import __version__
from nictop.hosts.observe import Answer, Unreachable
from nictop.model.guests.agent_facts import AgentFacts
from nictop.model.guests.agents import why_not_watchable
from nictop.model.guests.table import GuestAddress, GuestRow, guest_rows, why_guests_are_missing
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import GuestNic
from nictop.report.facts.guest_document import guest_blocks
from nictop.report.facts.hosts import UnreachableHost, sections_text, unreachable_text
from nictop.report.json import json_text, schema_of_hosts, schema_text
from nictop.report.render.text import text_of


@dataclass(frozen=True)
class AddressFacts:
    """An IP address of a guest."""

    address: str
    source: str
    """From where it is known: its network namespace, a DHCP lease, the neighbour table."""


@dataclass(frozen=True)
class GuestNicFacts:
    """One NIC of a guest. null: not known, or it has no such thing."""

    name: str
    model: str | None
    """What the guest sees."""
    backend: str | None
    """What carries its packets."""
    mac: str | None
    link: str | None
    """Name of the tap, macvtap or veth of this host."""
    pf: str | None
    """Name of the netdev of the physical function whose VF it has."""
    vf: int | None
    """Number of that VF."""
    pci_address: str | None
    network: str | None
    """Bridge, or link below a macvtap; of a stopped guest as configured."""
    network_missing: str | None
    """Why its bridge is not known: one of Open vSwitch."""
    port: str | None
    """Port of the bridge by which it is in its network."""
    vlans: str | None
    mtu: int | None
    """Of `link`, the end on this host; without one as `guest_mtu`."""
    guest_mtu: int | None
    """Of the NIC in a container; of a virtual machine as its device offers it, or as configured."""
    queues: int | None
    vhost: bool | None
    addresses: tuple[AddressFacts, ...]
    assigned: tuple[AddressFacts, ...]
    """Addresses that the host is configured to give it, and where: cloud-init and configurations of
    Proxmox, DHCP reservations."""
    rx_bits: float | None
    """Per second, as the guest sees it: what it receives."""
    tx_bits: float | None
    rx_packets: float | None
    tx_packets: float | None
    drops: float | None
    """Packets per second that this host dropped, both directions."""


@dataclass(frozen=True)
class AgentInterfaceFacts:
    """An interface of a guest, as its agent tells."""

    name: str
    mac: str
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class GuestAgentFacts:
    """What the agent of a guest told."""

    system: str
    kernel: str
    cpus: int | None
    """Online ones."""
    cannot_be_watched: str | None
    """Why the agent cannot carry a probe; null: it can."""
    interfaces: tuple[AgentInterfaceFacts, ...]
    missing: str | None
    """Why it told nothing."""
    asked_at: float | None
    """Seconds since the epoch."""


@dataclass(frozen=True)
class GuestFacts:
    """A virtual machine, container or network namespace."""

    name: str
    kind: str
    product: str
    state: str
    """running: it has a process; stopped: it has a configuration only."""
    condition: str | None
    """paused, crashed, pmsuspended, shutdown (libvirt), saved; of a container paused. null: nothing
    is known but `state`."""
    condition_reason: str | None
    lock: str | None
    """Of Proxmox."""
    id: str
    pid: int | None
    vcpus: int | None
    vcpu_share: float | None
    """CPU time of its virtual CPUs in CPUs; null: not measured, or its threads have no names."""
    vhost_share: float | None
    """CPU time of its vhost threads in CPUs; null: not measured, or it has none."""
    source: str
    """Where it was found."""
    nics: tuple[GuestNicFacts, ...]
    nics_missing: str | None
    """Why there are none, or some may be missing."""
    agent: GuestAgentFacts | None = None
    """null: it was not asked."""


@dataclass(frozen=True)
class HostGuests:
    """One host that answered."""

    host: str
    guests: tuple[GuestFacts, ...]
    missing: str | None
    """Why guests may be missing."""
    recorded_at: float | None = None
    """The time of this state in a recording, seconds since the epoch; null: of a live host."""
    data_age: float | None = None
    """Seconds from its newest counters to that time; null: of a live host, or there are none."""


@dataclass(frozen=True)
class GuestsDocument:
    """What ``nictop guests --format json`` prints."""

    nictop: str
    """Version of the program that wrote it."""
    hosts: tuple[Any, ...]
    """In the order of the command line: a `HostGuests` or an `UnreachableHost` of each."""


def host_guests(snapshot: Snapshot) -> HostGuests:
    """The guests of a host as a record of the schema."""
    rows = groupby(guest_rows(snapshot), key=lambda row: row.guest)
    return HostGuests(
        snapshot.host,
        tuple(_guest(tuple(own)) for _, own in rows),
        why_guests_are_missing(snapshot),
        snapshot.recorded_at,
        snapshot.data_age,
    )


def _guest(rows: Sequence[GuestRow]) -> GuestFacts:
    guest, cpu, why = rows[0].guest, rows[0].cpu, rows[0].why_no_nics
    vcpu_share, vhost_share = None, None
    if cpu is not None:
        vcpu_share, vhost_share = cpu.vcpu, cpu.vhost
    return GuestFacts(
        name=guest.name,
        kind=guest.kind,
        product=guest.product,
        state=guest.state,
        condition=guest.condition or None,
        condition_reason=guest.condition_reason or None,
        lock=guest.lock or None,
        id=guest.id,
        pid=guest.pid,
        vcpus=guest.vcpus,
        vcpu_share=vcpu_share,
        vhost_share=vhost_share,
        source=guest.source,
        nics=tuple(_nic(row, row.nic) for row in rows if row.nic is not None),
        nics_missing=why,
        agent=None if rows[0].agent is None else _agent(rows[0].agent),
    )


def _agent(told: AgentFacts) -> GuestAgentFacts:
    interfaces = (AgentInterfaceFacts(one.name, one.mac, one.addresses) for one in told.interfaces)
    return GuestAgentFacts(
        system=told.system,
        kernel=told.kernel,
        cpus=told.cpus,
        cannot_be_watched=why_not_watchable(told) or None,
        interfaces=tuple(interfaces),
        missing=told.why or None,
        asked_at=told.asked_at,
    )


def _nic(row: GuestRow, nic: GuestNic) -> GuestNicFacts:
    rates = row.rates
    pf, vf = None, None
    if row.vf is not None:
        pf, vf = row.vf[0].name, row.vf[1].number
    return GuestNicFacts(
        name=nic.name,
        model=nic.model,
        backend=nic.backend,
        mac=row.mac,
        link=None if row.link is None else row.link.name,
        pf=pf,
        vf=vf,
        pci_address=nic.pci_address,
        network=row.network or None,
        network_missing=row.why_no_network,
        port=_port_name(row),
        vlans=row.vlans or None,
        mtu=row.mtu,
        guest_mtu=row.guest_mtu,
        queues=nic.queues,
        vhost=nic.vhost,
        addresses=tuple(map(_address, row.addresses)),
        assigned=tuple(AddressFacts(address, nic.assigned_by) for address in nic.assigned),
        rx_bits=rates.rx_bits,
        tx_bits=rates.tx_bits,
        rx_packets=rates.rx_packets,
        tx_packets=rates.tx_packets,
        drops=rates.drops,
    )


def _port_name(row: GuestRow) -> str | None:
    if row.switch_port is not None:
        return row.switch_port.name
    if row.port is None or row.why_no_network is not None:
        return None
    return row.port[0].name


def _address(found: GuestAddress) -> AddressFacts:
    return AddressFacts(found.address, found.source)


def guests_json(answers: Sequence[Answer]) -> str:
    """The document as indented ASCII JSON with a final newline."""
    hosts: list[HostGuests | UnreachableHost] = []
    for answer in answers:
        if isinstance(answer, Unreachable):
            hosts.append(UnreachableHost(answer.host, answer.sentence))
        else:
            hosts.append(host_guests(answer[0]))
    return json_text(GuestsDocument(__version__, tuple(hosts)))


def guests_schema() -> str:
    """JSON schema (draft 2020-12) of that document, made from the record types, with a final
    newline."""
    return schema_text(schema_of_hosts(GuestsDocument, HostGuests, UnreachableHost))


def guests_text(answers: Sequence[Answer], width: int) -> str:
    """Of each host a table, and the facts of each NIC; at most `width` cells (40 to 200) per line,
    with a final newline."""
    texts = []
    for answer in answers:
        if isinstance(answer, Unreachable):
            texts.append(unreachable_text(answer, width))
        else:
            texts.append(text_of(guest_blocks(answer[0]), width))
    return sections_text(texts, width)
