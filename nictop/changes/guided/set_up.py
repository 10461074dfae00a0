"""Guided set-up of a NIC: the commands, their rollback, how they are made persistent, and the check of the result.

Pure. Each function returns a `ChangeJob`, which is applied like that of a finding (`actions`, `session`, `script`).
Raises NictopError for what this host or this NIC does not support.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nictop.changes.events import GoalCheck
from nictop.changes.guided.address import AddressRequest, address_fix, check_address
from nictop.changes.guided.address_files import address_files, address_now
from nictop.changes.guided.mtu import check_mtu, mtu_change, mtu_of_all, mtu_warnings
from nictop.changes.job import ChangeJob
from nictop.errors import NictopError
from nictop.model.queues.counts import receive_queues
from nictop.model.queues.cpu_lists import format_cpu_list, parse_cpu_list
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.model.text.words import NOT_READ_YET
from nictop.probe.plan.grammar.actions import MAX_IDENTIFY_SECONDS
from nictop.probe.records import Interrupt, Link, PciFunction
from nictop.rules import RULES, Finding, Fix, HostFacts
from nictop.rules.fixes.affinity import interrupt_cpus, is_assigned_by_kernel
from nictop.rules.fixes.commands import command, echo
from nictop.rules.fixes.interrupt_managers import READ_ONLY_NOTE, assignment_fix, boot_fix, exclusion_fix
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.sources import missing, reason_text

WAIT_HINT = "The commands depend on it, and appear here as soon as it has been read."
UNKNOWN_HINT = "The commands depend on it: without it they could be wrong."
VF_PERSISTENCE_RULE = "virtual_functions_are_not_persistent"
"""The rule whose fixes create VFs at every boot."""


class NotKnown(NictopError):
    """A source on which the commands depend has not been read yet, or could not be read."""


def give_address(host: HostFacts, link: Link, request: AddressRequest) -> ChangeJob:
    """Set the address of a NIC in its NetworkManager profile, which is renamed and bound to it, or in a new profile. On
    a host without NetworkManager: until reboot, with the fixes that make it persistent."""
    require_sources(host, link, "networkmanager")
    check_address(host, link, request)
    lasting: tuple[Fix, ...] = ()
    if host.inventory.networkmanager is None:
        require_sources(host, link, "configuration", "networkd", "services")
        fix, how = address_now(link, request), "until reboot"
        lasting = address_files(host, link, request)
    else:
        fix, name = address_fix(host, link, request)
        how = f"profile {name}"

    def proof(snapshot: Snapshot) -> GoalCheck:
        now = snapshot.links.get(link.ifindex)
        addresses = (
            [f"{one.address}/{one.prefix_length}" for one in now.addresses if one.scope == "global"] if now else []
        )
        family = "ipv6" if request.address and ":" in request.address else "ipv4"
        of_family = [text for text in addresses if (":" in text) == (family == "ipv6")]
        found = request.address in addresses if request.address else bool(of_family)
        routed = now is not None and any(one.family == family for one in now.default_routes)
        unwanted = routed and not request.default_route
        text = f"{link.name} has {', '.join(of_family) or 'no address'}"
        return GoalCheck(found and not unwanted, text + (", and a default route" if routed else ""))

    return ChangeJob(host.name, f"set IP address of {link.name} ({how})", link.name, fix, lasting, proof=proof)


def require_sources(host: HostFacts, link: Link, *sources: str) -> None:
    """Raises `NotKnown` if one of the sources (`rules.sources`), on which the commands depend, is not known."""
    for source in sources:
        for subject, why in missing(source, host, ""):
            if subject in ("", link.name):
                hint = WAIT_HINT if why.detail == NOT_READ_YET else UNKNOWN_HINT
                raise NotKnown(f"{host.name}: {reason_text(source, why)}", hint)


def use_queues(host: HostFacts, link: Link, queues: int) -> ChangeJob:
    """Set the number of queues in each direction (``ethtool -L``)."""
    require_sources(host, link, "ethtool.channels")
    channels = link.ethtool.channels
    if channels is None:
        raise NictopError(f"{clean(link.name)}: the driver does not support setting the number of queues")
    max_queues = channels.max_combined or min(channels.max_rx or 0, channels.max_tx or 0)
    if not 1 <= queues <= max_queues:
        raise NictopError(
            f"{clean(link.name)} supports 1 to {max_queues} queues", "the driver or hypervisor sets the maximum"
        )
    values = ["combined", str(queues)] if channels.max_combined else ["rx", str(queues), "tx", str(queues)]
    if receive_queues(link) == queues:
        raise NictopError(f"{clean(link.name)} already has {queues} queues")
    now, lasting = ethtool_fixes(host, link, ["-L", *values])

    def proof(snapshot: Snapshot) -> GoalCheck:
        found = snapshot.links.get(link.ifindex)
        number = receive_queues(found) if found is not None else 0
        return GoalCheck(number == queues, f"{link.name} has {number} receive queues")

    return ChangeJob(host.name, f"set {queues} queues on {link.name}", link.name, now, (lasting,), proof=proof)


def set_mtu(host: HostFacts, link: Link, mtu: int, others: Sequence[HostFacts] = ()) -> ChangeJob:
    """Set the MTU of a link, and of the VLANs above it that could not keep theirs (`guided.mtu`). `others`: the other
    watched hosts, which may be in its subnets."""
    require_sources(host, link, "addresses", "networkmanager", "configuration", "networkd")
    check_mtu(host, link, mtu)
    fix, lasting = mtu_change(host, link, mtu)
    wanted = mtu_of_all(host, link, mtu)

    def proof(snapshot: Snapshot) -> GoalCheck:
        links = [snapshot.links[ifindex] for ifindex in wanted if ifindex in snapshot.links]
        are_set = [one for one in links if one.mtu == wanted[one.ifindex]]
        now = snapshot.links.get(link.ifindex)
        if now is None:
            return GoalCheck(False, f"{link.name} is missing")
        text = f"{link.name} has MTU {now.mtu}"
        if len(are_set) < len(wanted) and now in are_set:
            text += f", but only {len(are_set)} of {len(wanted)} links have it"
        lost_carrier = bool(link.carrier) and not now.carrier
        text += ", and no carrier" if lost_carrier else ""
        return GoalCheck(len(are_set) == len(wanted) and not lost_carrier, text)

    warnings = mtu_warnings(host, link, mtu, others)
    title = f"set MTU {mtu} on {link.name}"
    return ChangeJob(host.name, title, link.name, fix, lasting, proof=proof, warnings=warnings)


def make_vfs(host: HostFacts, function: PciFunction, number: int) -> ChangeJob:
    """Create virtual functions on a physical function that has none."""
    sriov = function.sriov
    if sriov is None or not sriov.total_vfs:
        raise NictopError(f"{clean(function.address)} does not support VFs")
    if sriov.num_vfs:
        why = f"{clean(function.address)} already has {sriov.num_vfs} VFs; another number removes all of them first"
        raise NictopError(why, "remove them first, when no guest uses one: echo 0 > sriov_numvfs")
    if not 1 <= number <= sriov.total_vfs:
        raise NictopError(f"{clean(function.address)} supports 1 to {sriov.total_vfs} VFs")
    path = f"/sys/bus/pci/devices/{function.address}/sriov_numvfs"
    fix = Fix("here", f"Create {number} VFs", (echo(number, path),), False, (echo(0, path),))

    def proof(snapshot: Snapshot) -> GoalCheck:
        found = next((one for one in snapshot.pci if one.address == function.address), None)
        there = found.sriov.num_vfs if found is not None and found.sriov is not None else 0
        seen = len(found.sriov.virtual_functions) if found is not None and found.sriov is not None else 0
        return GoalCheck(there == number == seen, f"{function.address} has {there} VFs")

    title = f"create {number} VFs on {function.address}"
    return ChangeJob(host.name, title, function.address, fix, _lasting_vfs(host, function, number), proof=proof)


def _lasting_vfs(host: HostFacts, function: PciFunction, number: int) -> tuple[Fix, ...]:
    """The fixes that `VF_PERSISTENCE_RULE` will suggest once the VFs exist."""
    assert function.sriov is not None
    made = replace(function, sriov=replace(function.sriov, num_vfs=number))
    snapshot = host.snapshot
    pci = tuple(made if one.address == function.address else one for one in snapshot.pci)
    inventory = replace(host.inventory, pci=tuple(made if one.address == made.address else one for one in pci))
    then = HostFacts(replace(snapshot, pci=pci, inventory=inventory), host.window)
    for found in RULES[VF_PERSISTENCE_RULE].evaluate([then]):
        if isinstance(found, Finding) and found.subject == function.address:
            return found.fixes
    return ()


def spread_interrupts(host: HostFacts, link: Link, cpus: Sequence[int]) -> ChangeJob:
    """Set the affinity of the interrupts of a NIC to these CPUs, one after the other (`interrupt_cpus`)."""
    require_sources(host, link, "platform", "interrupts")
    online = parse_cpu_list(host.inventory.platform.online_cpus) or ()
    wanted = tuple(dict.fromkeys(cpus))
    if not wanted or not set(wanted) <= set(online):
        raise NictopError(f"not CPUs of this host; online: {format_cpu_list(online) or 'unknown'}")
    if is_assigned_by_kernel(host, link):
        raise NictopError(f"{clean(link.name)}: the kernel does not let its interrupts be moved", READ_ONLY_NOTE)
    places = interrupt_cpus(host, link, wanted)
    if not places:
        raise NictopError(f"{clean(link.name)} has no dedicated interrupts whose affinity can be set")
    fix = assignment_fix(host, link, places, "Set the affinity of each IRQ")

    def proof(snapshot: Snapshot) -> GoalCheck:
        seen = {one.number: one for one in snapshot.inventory.interrupts} if snapshot.inventory is not None else {}
        there = [number for number, cpu in places.items() if _goes_to(seen.get(number), cpu)]
        return GoalCheck(len(there) == len(places), f"affinity set for {len(there)} of {len(places)} IRQs")

    title = f"set IRQ affinity of {link.name} to CPUs {format_cpu_list(wanted)}"
    return ChangeJob(host.name, title, link.name, fix, _lasting_affinity(host, link, places), proof=proof)


def _lasting_affinity(host: HostFacts, link: Link, places: Mapping[int, int]) -> tuple[Fix, ...]:
    """A unit that sets it at every boot; first, irqbalance must leave these interrupts alone."""
    at_boot = boot_fix(host, link, places)
    if host.inventory.services.irqbalance is None:
        return (at_boot,)
    return exclusion_fix(host, places), at_boot


def blink_led(host: HostFacts, link: Link, seconds: int) -> ChangeJob:
    """Blink the LED of a port for some seconds (``ethtool -p``): it ends by itself, or when the change is undone."""
    if link.device is None:
        raise NictopError(f"{clean(link.name)} is virtual and has no LED", "choose the NIC below it")
    if not 1 <= seconds <= MAX_IDENTIFY_SECONDS:
        raise NictopError(f"the LED can blink for 1 to {MAX_IDENTIFY_SECONDS} s")
    fix = Fix("here", f"Blink the port LED for {seconds} s", (command("ethtool", "-p", link.name, str(seconds)),))
    return ChangeJob(host.name, f"blink the port LED of {link.name} for {seconds} s", link.name, fix)


def _goes_to(interrupt: Interrupt | None, cpu: int) -> bool:
    """According to smp_affinity_list; the effective CPU may change only with the next interrupt."""
    return interrupt is not None and parse_cpu_list(interrupt.allowed_cpus) == (cpu,)
