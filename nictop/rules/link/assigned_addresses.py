"""IP addresses that a hypervisor is configured to give its guests, and those that the guests have.

Reads nothing. What a guest has is known of one that is watched (joined by MAC address,
`nictop.model.devices.pairs`), of the network namespace of a container, and by the guest agent where
it was asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nictop.model.devices.pairs import pairs
from nictop.model.devices.vf_address import pci_address_of_vf
from nictop.model.guests.agent_facts import guest_key
from nictop.model.guests.agents import AGENT_SOURCE
from nictop.model.guests.owners import guest_text
from nictop.model.guests.table import NAMESPACE_SOURCE
from nictop.model.text.ip_addresses import parse_ip_address
from nictop.model.text.units import wall_time_text
from nictop.model.text.words import address_text
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import DhcpLease, GuestNic, HostedGuest, Link
from nictop.rules.finding import Evidence, Finding, Fix, WhereToType
from nictop.rules.fixes.commands import Command, command
from nictop.rules.fixes.persistence import SAFE_NAME
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import MAC_ADDRESS, host_finding, link_finding, names_text

MAX_LISTED = 4
FAMILY_NAMES = {4: "IPv4", 6: "IPv6"}
LIBVIRT_SUFFIX = ".hostsfile"
RENEW_NOTE = (
    "In the guest, by what configures its NIC: networkctl renew, nmcli con up, ipconfig /renew of "
    "Windows. An address that is set in the guest must be removed there first."
)


class AssignedNic(NamedTuple):
    """A NIC of a running guest for which this host has an address."""

    guest: HostedGuest
    nic: GuestNic

    @property
    def text(self) -> str:
        """``VM web1``"""
        return guest_text(self.guest.name, self.guest.kind)

    @property
    def is_reserved(self) -> bool:
        """By a DHCP server."""
        return self.nic.assigned_by.startswith("DHCP reservation in ")

    @property
    def file(self) -> str:
        """With the address: ``/etc/pve/qemu-server/101.conf``."""
        return self.nic.assigned_by.rpartition(" in ")[2]


class GuestAddresses(NamedTuple):
    """What a guest has."""

    of_nic: tuple[str, ...]
    """``192.0.2.7/24``: of the NIC, and of what is above it."""
    of_guest: frozenset[str]
    """``192.0.2.7``: of any of its NICs."""
    source: str
    is_told: bool = False
    """By its agent, when it was asked: not read now."""
    watched_as: str = ""
    """Name of the guest as a watched host; "": it is none."""


class OtherAddress(NamedTuple):
    """An assigned address that the guest does not have."""

    one: AssignedNic
    assigned: str
    has: tuple[str, ...]
    """Addresses of that family on the NIC, but link-local ones."""
    family: int
    known: GuestAddresses


@pair_rule("warning", needs=("addresses",), uses=("guests",))
def guest_has_another_address_than_assigned(hosts: Sequence[HostFacts]) -> Outcomes:
    """The hypervisor is configured to give a guest an address, and the guest has another one, or
    none of that family.

    nictop reads ``ipconfigN`` of a virtual machine of Proxmox that has a cloud-init drive, ``ip=``
    and ``ip6=`` of a container of Proxmox, and the DHCP reservations for a MAC address of libvirt,
    Proxmox SDN, Incus and LXD. It compares them with the addresses of the guest: of one that is
    watched, too; of the network namespace of a container; as the guest agent told, where it was
    asked (nictop check --ask-agents, Ask guest agents in Hosts).

    Not reported: DHCP and automatic addresses without a reservation; a guest that has the address,
    whatever it has besides (temporary IPv6 addresses, several addresses) and on whichever NIC;
    guests that are stopped or whose addresses are not known; virtual machines whose cloud-init has
    a network file of its own (cicustom); reservations for a name or a DHCPv6 client.

    Sources: qm(1) ipconfig and cicustom, pct.conf(5) net; qemu-server PVE/QemuServer/Cloudinit.pm;
    libvirt src/util/virdnsmasq.c (hostsfileAdd), formatnetwork "host"; QEMU qga/qapi-schema.json
    (guest-network-get-interfaces).
    """
    assigned = {host.name: tuple(_assigned_nics(host)) for host in hosts}
    if not any(assigned.values()):
        return
    watched = _watched_nics(hosts)
    for host in hosts:
        for one in assigned[host.name]:
            known = _known_addresses(host, one, watched)
            if known is not None:
                for other in _other_addresses(one, known):
                    yield _finding(host, other)


def _assigned_nics(host: HostFacts) -> Iterator[AssignedNic]:
    for guest in host.inventory.guests or ():
        if guest.state != "running":
            continue
        for nic in guest.nics:
            if nic.assigned:
                yield AssignedNic(guest, nic)


# ------------------------------------------------------------------------------ what the guest has


NicKey = tuple[str, int | str]
"""(Hypervisor, ifindex of the tap or veth, or PCI address of the VF)"""


def _watched_nics(hosts: Sequence[HostFacts]) -> Mapping[NicKey, tuple[HostFacts, Link]]:
    """NICs of guests that are watched, too."""
    if len(hosts) < 2:
        return {}
    by_name = {host.name: host for host in hosts}
    known = pairs([host.snapshot for host in hosts])
    found: dict[NicKey, tuple[HostFacts, Link]] = {}
    for tap in known.taps:
        guest = by_name[tap.guest.host]
        found[tap.tap.host, tap.tap.ifindex] = guest, guest.snapshot.links[tap.guest.ifindex]
    for pair in known.virtual_functions:
        owner, guest = by_name[pair.physical.host], by_name[pair.guest.host]
        port = owner.snapshot.links[pair.physical.ifindex]
        address = pci_address_of_vf(port, pair.number, owner.functions)
        if address is not None:
            found[owner.name, address] = guest, guest.snapshot.links[pair.guest.ifindex]
    return found


def _known_addresses(
    host: HostFacts, one: AssignedNic, watched: Mapping[NicKey, tuple[HostFacts, Link]]
) -> GuestAddresses | None:
    """None: not known."""
    nic = one.nic
    for place in (nic.link, nic.pci_address):
        pair = watched.get((host.name, place)) if place is not None else None
        if pair is not None:
            return _of_watched(*pair)
    if one.guest.kind != "vm":
        return _of_namespace(one)
    return _of_agent(host, one)


def _of_watched(guest: HostFacts, nic: Link) -> GuestAddresses:
    of_nic = [address_text(found) for link in _with_above(guest, nic) for found in link.addresses]
    of_guest = frozenset(found.address for link in guest.links for found in link.addresses)
    source = f"ip addr show on {guest.name}"
    return GuestAddresses(tuple(of_nic), of_guest, source, watched_as=guest.name)


def _with_above(guest: HostFacts, nic: Link) -> list[Link]:
    """The NIC, and bridges, bonds, VLANs and others above it."""
    found = [nic]
    for link in found:
        for other in guest.links:
            is_master = other.ifindex == link.master
            is_upper = other.lower == link.ifindex and other.lower_namespace is None
            if (is_master or is_upper) and other not in found:
                found.append(other)
    return found


def _of_namespace(one: AssignedNic) -> GuestAddresses | None:
    guest = one.guest
    if "nics" in guest.unreadable:
        return None
    of_guest = frozenset(_without_prefix(text) for nic in guest.nics for text in nic.addresses)
    return GuestAddresses(one.nic.addresses, of_guest, NAMESPACE_SOURCE)


def _of_agent(host: HostFacts, one: AssignedNic) -> GuestAddresses | None:
    """None also if it told nothing of the interface with that MAC address."""
    told = host.snapshot.agents.get(guest_key(one.guest))
    if told is None or told.why:
        return None
    if all(interface.mac != one.nic.address for interface in told.interfaces):
        return None
    every = [text for interface in told.interfaces for text in interface.addresses]
    when = f", asked {wall_time_text(told.asked_at)}" if told.asked_at is not None else ""
    return GuestAddresses(
        told.addresses_of(one.nic.address),
        frozenset(map(_without_prefix, every)),
        f"{AGENT_SOURCE}{when}",
        is_told=True,
    )


def _without_prefix(text: str) -> str:
    """``2001:DB8:0::5/64`` → ``2001:db8::5``; as it is if it is malformed."""
    address = text.partition("/")[0]
    parsed = parse_ip_address(address)
    return address if parsed is None else str(parsed)


def _other_addresses(one: AssignedNic, known: GuestAddresses) -> Iterator[OtherAddress]:
    """Those of its assigned addresses that the guest does not have."""
    for written in one.nic.assigned:
        parsed = parse_ip_address(written.partition("/")[0])
        if parsed is None or str(parsed) in known.of_guest:
            continue
        has = tuple(text for text in known.of_nic if _is_global(text, parsed.version))
        yield OtherAddress(one, written, has, parsed.version, known)


def _is_global(text: str, version: int) -> bool:
    parsed = parse_ip_address(text.partition("/")[0])
    return parsed is not None and parsed.version == version and not parsed.is_link_local


# ------------------------------------------------------------------------------------------ finding


def _finding(host: HostFacts, found: OtherAddress) -> Finding:
    one, nic = found.one, found.one.nic
    lease = _lease_of(host, found)
    place = " ".join(filter(None, (one.text, nic.name, nic.address)))
    listed = names_text(found.known.of_nic, MAX_LISTED) or "none"
    evidence = [
        Evidence("reserved" if one.is_reserved else "configured", found.assigned, nic.assigned_by),
        Evidence("addresses of the NIC", listed, found.known.source),
        Evidence("guest", place, one.guest.source),
    ]
    if lease is not None:
        evidence.append(Evidence("DHCP lease", lease.address, lease.source))
    title, why, fixes = _title(found), _why(found, lease), tuple(_fixes(found))
    link = host.link_at(nic.link) if nic.link is not None else None
    if link is not None:
        return link_finding(
            "warning",
            host,
            link,
            title,
            evidence=tuple(evidence),
            why=why,
            fixes=fixes,
            item=found.assigned,
        )
    subject = nic.pci_address or nic.address or one.text
    return host_finding(
        "warning",
        host,
        subject,
        title,
        evidence=tuple(evidence),
        why=why,
        fixes=fixes,
        item=found.assigned,
    )


def _title(found: OtherAddress) -> str:
    """``VM web1 has 192.0.2.99, not the configured 192.0.2.5``"""
    word = "reserved" if found.one.is_reserved else "configured"
    wanted = found.assigned.partition("/")[0]
    by = ", as its agent told" if found.known.is_told else ""
    if not found.has:
        return (
            f"{found.one.text} has no {FAMILY_NAMES[found.family]} address{by}; {wanted} is {word}"
        )
    has = names_text([text.partition("/")[0] for text in found.has], 1)
    return f"{found.one.text} has {has}{by}, not the {word} {wanted}"


def _why(found: OtherAddress, lease: DhcpLease | None) -> str:
    reached = "Who uses the address of the configuration does not reach this NIC."
    if lease is not None:
        return (
            f"{reached} The DHCP server of this host has given it the other one: before the "
            "reservation, or while another client had the reserved one."
        )
    if found.has:
        return f"{reached} The other one is set in the guest, or another DHCP server gave it."
    return f"{reached} The guest has not taken it."


def _lease_of(host: HostFacts, found: OtherAddress) -> DhcpLease | None:
    """That has not ended, of an address that the guest has."""
    has = {text.partition("/")[0] for text in found.has}
    for lease in host.inventory.leases:
        is_valid = lease.expires is None or lease.expires > host.inventory.wall
        if is_valid and lease.mac == found.one.nic.address and lease.address in has:
            return lease
    return None


def _fixes(found: OtherAddress) -> Iterator[Fix]:
    one = found.one
    if one.is_reserved:
        where: WhereToType = "peer" if found.known.watched_as else "here"
        title, peer = "Renew the lease in the guest", found.known.watched_as
        yield Fix(where, title, (), None, note=RENEW_NOTE, peer=peer)
        yield from _reservation_fix(found)
    elif one.guest.kind == "container":
        note = (
            "Proxmox writes it into the container when that starts. If it is other again, a "
            f"program in the container sets it; or correct {one.nic.assigned_by}."
        )
        restart = command("pct", "reboot", _number(one.guest))
        yield Fix("proxmox", "Start the container again", (restart,), True, note=note)
    else:
        note = (
            "cloud-init in the guest sets it at the next start, if it is installed there. "
            f"Otherwise set it in the guest, or correct {one.nic.assigned_by}."
        )
        number = _number(one.guest)
        steps = (command("qm", "cloudinit", "update", number), command("qm", "reboot", number))
        title = "Write the cloud-init drive again, and start the guest again"
        yield Fix("proxmox", title, steps, True, note=note)


def _number(guest: HostedGuest) -> str:
    return guest.id if guest.id.isdecimal() else "<ID>"


def _reservation_fix(found: OtherAddress) -> Iterator[Fix]:
    """Reserve what the guest has, if that is one address, and the network is one of libvirt."""
    mac = found.one.nic.address or ""
    name = found.one.file.rpartition("/")[2]
    if len(found.has) != 1 or not name.endswith(LIBVIRT_SUFFIX) or not MAC_ADDRESS.fullmatch(mac):
        return
    network = name[: -len(LIBVIRT_SUFFIX)]
    network = network if SAFE_NAME.fullmatch(network) else "<NETWORK>"
    has = found.has[0].partition("/")[0]
    yield Fix(
        "libvirt",
        "Or reserve the address that it has",
        (_net_update(network, mac, has),),
        True,
        (_net_update(network, mac, found.assigned),),
        "If the entry has a name, add name='…' to it.",
    )


def _net_update(network: str, mac: str, address: str) -> Command:
    entry = f'<host mac="{mac}" ip="{address}"/>'
    change = ("modify", "ip-dhcp-host", entry, "--live", "--config")
    return command("virsh", "net-update", network, *change)
