"""MAC addresses that several guests of this host have.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.facts.hardware import ZERO_MAC_ADDRESS
from nictop.model.guests.owners import guest_text
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import GuestNic, HostedGuest
from nictop.rules.bridges.commands import edit_domain, is_libvirt
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import MAC_ADDRESS, VIRTUAL_ROUTER_PREFIX, host_finding, link_finding

BACKENDS = ("tap", "macvtap", "vfio", "vhost-user", "vhost-vdpa", "veth", "macvlan")
"""Of a NIC with an address of its own: an ipvlan has that of its lower link."""
LIBVIRT_FILES = "/etc/libvirt/"
"""Of stopped guests."""
MAX_NAMED = 4


class GuestAddressUse(NamedTuple):
    """A NIC with an address."""

    guest: HostedGuest
    nic: GuestNic

    @property
    def text(self) -> str:
        is_stopped = self.guest.state == "stopped"
        return guest_text(self.guest.name, self.guest.kind, is_stopped=is_stopped)


@host_rule("warning", uses=("guests",))
def guests_share_a_mac_address(host: HostFacts) -> Outcomes:
    """Two guests of this host have one MAC address.

    nictop compares the addresses of NICs of all virtual machines and containers: on command lines,
    in network namespaces, and in configurations. Two guests that run: warning; if one of them is
    stopped: info, it is so as soon as that one starts. In two separate networks it does no harm.
    Usual cause: a cloned guest, whose address was not changed.

    Not reported: two NICs of one guest (failover), ipvlan, addresses of virtual routers (VRRP), and
    the same guest under two names (its configuration was copied, and has the same UUID).

    Sources: libvirt formatdomain, mac address; virt-clone(1); Proxmox VE documentation, Clones.
    """
    for address, uses in _uses_by_address(host).items():
        guests = {_identity(use.guest): use for use in uses}
        if len(guests) > 1:
            yield _finding(host, address, tuple(guests.values()))


def _identity(guest: HostedGuest) -> tuple[str, str]:
    return guest.kind, guest.id or f"{guest.name} {guest.pid or ''}"


def _uses_by_address(host: HostFacts) -> dict[str, list[GuestAddressUse]]:
    """Running guests first, as in the inventory."""
    found: dict[str, list[GuestAddressUse]] = {}
    for use in _uses(host):
        found.setdefault(use.nic.address or "", []).append(use)
    return found


def _uses(host: HostFacts) -> Iterator[GuestAddressUse]:
    for guest in host.inventory.guests or ():
        for nic in guest.nics if guest.kind != "namespace" else ():
            address = nic.address or ZERO_MAC_ADDRESS
            is_own = address != ZERO_MAC_ADDRESS and nic.backend in BACKENDS
            if is_own and not address.startswith(VIRTUAL_ROUTER_PREFIX):
                yield GuestAddressUse(guest, nic)


def _finding(host: HostFacts, address: str, uses: Sequence[GuestAddressUse]) -> Finding:
    running = sum(use.guest.state == "running" for use in uses)
    severity: Severity = "warning" if running > 1 else "info"
    names = ", ".join(use.text for use in uses[:MAX_NAMED])
    if len(uses) > MAX_NAMED:
        names += f" and {len(uses) - MAX_NAMED} more"
    title = f"one MAC address for several guests: {names}"
    evidence = tuple(
        Evidence(use.text, f"{address} {use.nic.name}".strip(), use.guest.source)
        for use in uses[:MAX_NAMED]
    )
    why = (
        "If they run in one network, its bridge or switch sends packets for that address to the "
        "guest that sent last: each of them loses packets."
    )
    links = [host.link_at(use.nic.link) for use in uses if use.nic.link is not None]
    link = next(filter(None, links), None)
    fixes = _fixes(host, uses[-1])
    if link is None:
        return host_finding(severity, host, address, title, evidence=evidence, why=why, fixes=fixes)
    return link_finding(severity, host, link, title, evidence=evidence, why=why, fixes=fixes)


def _fixes(host: HostFacts, use: GuestAddressUse) -> tuple[Fix, ...]:
    """Of the last one: a stopped guest, if there is one."""
    title = f"Give {use.guest.name} another MAC address"
    known = use.nic.address if MAC_ADDRESS.fullmatch(use.nic.address or "") else "its address"
    is_domain = use.guest.kind == "vm" and is_libvirt(host)
    if is_domain or use.guest.source.startswith(LIBVIRT_FILES):
        note = f"Remove the line <mac address='{known}'/>: libvirt makes a new one."
        return (Fix("libvirt", title, (edit_domain(use.guest.name),), True, (), note),)
    note = f"In its configuration ({use.guest.source}), where {known} is; then start it anew."
    return (Fix("here", title, (), True, (), note),)
