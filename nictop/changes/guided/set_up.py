"""Guided set-up of a NIC: the commands, their rollback, how they are made persistent, and the check
of the result.

Pure. Each function returns a `ChangeJob`, which is applied like that of a finding (`actions`,
`session`, `script`). Raises NictopError for what this host or this NIC does not support.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from nictop.changes.events import GoalCheck
from nictop.changes.guided.address import address_fix, check_address
from nictop.changes.guided.mtu import check_mtu, mtu_change, mtu_of_all, mtu_warnings
from nictop.changes.guided.taken_addresses import MAX_NAMED, joined_addresses, taken_text
from nictop.changes.job import ChangeJob
from nictop.errors import NictopError
from nictop.model.parts import is_answer_late
from nictop.model.queues.counts import max_queues_of_each_direction, receive_queues
from nictop.model.queues.cpu_lists import format_cpu_list, parse_cpu_list
from nictop.model.snapshot import Snapshot, is_unread_link
from nictop.model.text.terminal import clean
from nictop.model.text.words import address_text
from nictop.probe.light_dataclasses import replace
from nictop.probe.plan.grammar.actions import MAX_IDENTIFY_SECONDS
from nictop.probe.records import Interrupt, Link, PciFunction, Sriov
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.rules import RULES, Finding, Fix, HostFacts
from nictop.rules.fixes.added_lines import without_added_lines
from nictop.rules.fixes.address_files import AddressRequest, address_files, address_now
from nictop.rules.fixes.affinity import interrupt_cpus, is_assigned_by_kernel
from nictop.rules.fixes.commands import command, echo
from nictop.rules.fixes.interrupt_managers import (
    READ_ONLY_NOTE,
    assignment_fix,
    boot_fix,
    exclusion_fix,
)
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.link.flags import address_obstacles
from nictop.rules.sources import missing, reason_text
from nictop.rules.subjects import global_address_texts, names_text

WAIT_HINT = "The commands depend on it, and appear here as soon as it has been read."
UNKNOWN_HINT = "The commands depend on it: without it they could be wrong."
ROUTERS_ONLY = (
    "no gateway is given: no default route is set, one can only come from a router "
    "(router advertisements)"
)
"""Of IPv6."""
VF_PERSISTENCE_RULE = "virtual_functions_are_not_persistent"
"""The rule whose fixes create VFs at every boot."""


class NotKnown(NictopError):
    """A source on which the commands depend has not been read yet, or could not be read.
    `is_read_again`: the probe reads it again by itself."""

    def __init__(self, message: str, hint: str = "", *, is_read_again: bool = False) -> None:
        super().__init__(message, hint)
        self.is_read_again = is_read_again


def give_address(
    host: HostFacts, link: Link, request: AddressRequest, others: Sequence[HostFacts] = ()
) -> ChangeJob:
    """Set the address of a NIC in its NetworkManager profile, which is renamed and bound to it, or
    in a new profile. On a host without NetworkManager: until reboot, with the fixes that make it
    persistent. `others`: the other watched hosts, which may have it."""
    require_sources(host, link, "networkmanager")
    check_address(host, link, request)
    lasting: tuple[Fix, ...] = ()
    warnings = (
        *_taken_address(host, link, request, others),
        *_other_prefix_lengths(host, link, request, others),
        *_obstacles(host, link),
    )
    if host.inventory.networkmanager is None:
        require_sources(host, link, "configuration", "networkd", "services")
        fix, how = address_now(link, request), "until reboot"
        lasting = address_files(host, link, request)
    else:
        fix, name = address_fix(host, link, request)
        how = f"profile {name}"
        warnings += tuple(_lost_routes(link, request))
    if request.default_route and request.address is not None and not request.gateway:
        warnings += (ROUTERS_ONLY,)
    title = f"set IP address of {link.name} ({how})"
    proof = partial(_address_proof, link, request)
    return ChangeJob(host.name, title, link.name, fix, lasting, proof=proof, warnings=warnings)


def _taken_address(
    host: HostFacts, link: Link, request: AddressRequest, others: Sequence[HostFacts]
) -> Iterator[str]:
    if request.address is None:
        return
    taken = taken_text(request.address, host, link, others)
    if taken:
        yield taken


def _other_prefix_lengths(
    host: HostFacts, link: Link, request: AddressRequest, others: Sequence[HostFacts]
) -> Iterator[str]:
    """Where all watched hosts in the network of the NIC have another prefix length than the
    requested address, in whose subnet they are, or which is in theirs."""
    wanted = ipaddress.ip_interface(request.address) if request.address else None
    if wanted is None:
        return
    lengths: dict[int, list[str]] = {}
    for place in joined_addresses(host, link, others):
        known = ipaddress.ip_interface(place.written)
        if known.version != wanted.version:
            continue
        if known.ip in wanted.network or wanted.ip in known.network:
            lengths.setdefault(place.address.prefix_length, []).append(place.named)
    own = wanted.network.prefixlen
    if not lengths or own in lengths:
        return
    listed = [f"{length} on {names_text(names, MAX_NAMED)}" for length, names in lengths.items()]
    yield f"prefix length {own}, but {', '.join(listed)}: the hosts have different subnets"


def _obstacles(host: HostFacts, link: Link) -> Iterator[str]:
    for obstacle in address_obstacles(host, link):
        commands = "; ".join(map(str, obstacle.fix.commands))
        yield f"{obstacle.text}: the address alone does not work, also type: {commands}"


def _lost_routes(link: Link, request: AddressRequest) -> Iterator[str]:
    """Default routes of the NIC that the request does not keep."""
    if request.default_route:
        return
    family = _family_of(request.address or "")
    for route in link.default_routes:
        if route.family == family:
            via = f" via {route.gateway}" if route.gateway else ""
            yield f"{link.name} loses its default route{via}: what uses it does not work afterwards"


def _address_proof(link: Link, request: AddressRequest, snapshot: Snapshot) -> GoalCheck:
    """The NIC has the address, and no default route that was not asked for."""
    now = snapshot.links.get(link.ifindex)
    if now is None:
        return GoalCheck(False, f"{link.name} has no address")
    family = _family_of(request.address or "")
    addresses = global_address_texts(now, family)
    has_address = bool(addresses)
    if request.address:
        wanted = str(ipaddress.ip_interface(request.address))
        has_address = wanted in {address_text(address) for address in now.addresses}
        if has_address and wanted not in addresses:
            addresses.append(wanted)  # link-local
    has_route = any(route.family == family for route in now.default_routes)
    text = f"{link.name} has {', '.join(addresses) or 'no address'}"
    if request.address and not has_address:
        text += f", not {request.address}"
    if has_route:
        text += ", and a default route"
    is_unwanted = has_route and not request.default_route
    return GoalCheck(has_address and not is_unwanted, text)


def _family_of(address: str) -> str:
    return "ipv6" if ":" in address else "ipv4"


def require_read(host: HostFacts, link: Link) -> None:
    """Raises `NotKnown` for a link that only an event has made known."""
    if is_unread_link(link):
        what = f"{host.name} {link.name}: only name and state are known, its settings are"
        raise NotKnown(f"{what} {NOT_READ_YET}", WAIT_HINT, is_read_again=True)


def require_sources(host: HostFacts, link: Link, *sources: str) -> None:
    """Raises `NotKnown` if one of the sources (`rules.sources`), on which the commands depend, is
    not known, or nothing of the NIC was read yet."""
    require_read(host, link)
    for source in sources:
        for subject, why in missing(source, host, ""):
            if subject in ("", link.name):
                is_unread = why.detail == NOT_READ_YET
                raise NotKnown(
                    f"{host.name}: {reason_text(source, why)}",
                    WAIT_HINT if is_unread else UNKNOWN_HINT,
                    is_read_again=is_unread or is_answer_late(why),
                )


def use_queues(host: HostFacts, link: Link, queues: int) -> ChangeJob:
    """Set the number of queues in each direction (``ethtool -L``)."""
    require_sources(host, link, "ethtool.channels")
    channels = link.ethtool.channels
    if channels is None:
        raise NictopError(
            f"{clean(link.name)}: the driver does not support setting the number of queues"
        )
    max_queues = max_queues_of_each_direction(channels)
    if not 1 <= queues <= max_queues:
        raise NictopError(
            f"{clean(link.name)} supports 1 to {max_queues} queues",
            "the driver or hypervisor sets the maximum",
        )
    values = ["rx", str(queues), "tx", str(queues)]
    if channels.max_combined:
        values = ["combined", str(queues)]
    if receive_queues(link) == queues:
        raise NictopError(f"{clean(link.name)} already has {queues} queues")
    now, lasting = without_added_lines(ethtool_fixes(host, link, ["-L", *values]))

    def proof(snapshot: Snapshot) -> GoalCheck:
        found = snapshot.links.get(link.ifindex)
        number = 0 if found is None else receive_queues(found)
        return GoalCheck(number == queues, f"{link.name} has {number} receive queues")

    return ChangeJob(
        host.name, f"set {queues} queues on {link.name}", link.name, now, (lasting,), proof=proof
    )


def set_mtu(host: HostFacts, link: Link, mtu: int, others: Sequence[HostFacts] = ()) -> ChangeJob:
    """Set the MTU of a link, and of the VLANs above it that could not keep theirs (`guided.mtu`).
    `others`: the other watched hosts, which may be in its subnets."""
    require_sources(host, link, "addresses", "networkmanager", "configuration", "networkd")
    check_mtu(host, link, mtu)
    fix, lasting = mtu_change(host, link, mtu)
    lasting = without_added_lines(lasting)
    proof = partial(_mtu_proof, link, mtu_of_all(host, link, mtu))
    warnings = mtu_warnings(host, link, mtu, others)
    title = f"set MTU {mtu} on {link.name}"
    return ChangeJob(host.name, title, link.name, fix, lasting, proof=proof, warnings=warnings)


def _mtu_proof(link: Link, wanted: Mapping[int, int], snapshot: Snapshot) -> GoalCheck:
    """All links have their MTU (by ifindex), and the NIC still has the carrier that it had."""
    now = snapshot.links.get(link.ifindex)
    if now is None:
        return GoalCheck(False, f"{link.name} is missing")
    are_set = []
    for ifindex, mtu in wanted.items():
        found = snapshot.links.get(ifindex)
        if found is not None and found.mtu == mtu:
            are_set.append(found)
    text = f"{link.name} has MTU {now.mtu}"
    if len(are_set) < len(wanted) and now in are_set:
        text += f", but only {len(are_set)} of {len(wanted)} links have it"
    lost_carrier = bool(link.carrier) and not now.carrier
    if lost_carrier:
        text += ", and no carrier"
    return GoalCheck(len(are_set) == len(wanted) and not lost_carrier, text)


def make_vfs(host: HostFacts, function: PciFunction, number: int) -> ChangeJob:
    """Create virtual functions on a physical function that has none."""
    sriov = function.sriov
    if sriov is None or not sriov.total_vfs:
        raise NictopError(f"{clean(function.address)} does not support VFs")
    if sriov.num_vfs:
        why = (
            f"{clean(function.address)} already has {sriov.num_vfs} VFs; another number removes "
            f"all of them first"
        )
        raise NictopError(why, "remove them first, when no guest uses one: echo 0 > sriov_numvfs")
    if not 1 <= number <= sriov.total_vfs:
        raise NictopError(f"{clean(function.address)} supports 1 to {sriov.total_vfs} VFs")
    path = f"/sys/bus/pci/devices/{function.address}/sriov_numvfs"
    fix = Fix("here", f"Create {number} VFs", (echo(number, path),), False, (echo(0, path),))

    def proof(snapshot: Snapshot) -> GoalCheck:
        sriov = _sriov_of(snapshot, function.address)
        if sriov is None:
            return GoalCheck(False, f"{function.address} has 0 VFs")
        is_made = sriov.num_vfs == number == len(sriov.virtual_functions)
        return GoalCheck(is_made, f"{function.address} has {sriov.num_vfs} VFs")

    title = f"create {number} VFs on {function.address}"
    return ChangeJob(
        host.name,
        title,
        function.address,
        fix,
        without_added_lines(_lasting_vfs(host, function, number)),
        proof=proof,
    )


def _sriov_of(snapshot: Snapshot, address: str) -> Sriov | None:
    """Of the PCI function with this address."""
    for function in snapshot.pci:
        if function.address == address:
            return function.sriov
    return None


def _lasting_vfs(host: HostFacts, function: PciFunction, number: int) -> tuple[Fix, ...]:
    """The fixes that `VF_PERSISTENCE_RULE` will suggest once the VFs exist."""
    assert function.sriov is not None
    made = replace(function, sriov=replace(function.sriov, num_vfs=number))
    snapshot = host.snapshot
    pci = tuple(_with_function(snapshot.pci, made))
    inventory = replace(host.inventory, pci=pci)
    then = HostFacts(replace(snapshot, pci=pci, inventory=inventory), host.window)
    for found in RULES[VF_PERSISTENCE_RULE].evaluate([then]):
        if isinstance(found, Finding) and found.subject == function.address:
            return found.fixes
    return ()


def _with_function(functions: Iterable[PciFunction], made: PciFunction) -> Iterator[PciFunction]:
    """`functions`, with `made` in place of the one with its address."""
    for function in functions:
        yield made if function.address == made.address else function


def spread_interrupts(host: HostFacts, link: Link, cpus: Sequence[int]) -> ChangeJob:
    """Set the affinity of the interrupts of a NIC to these CPUs, one after the other
    (`interrupt_cpus`)."""
    require_sources(host, link, "platform", "interrupts")
    online = parse_cpu_list(host.inventory.platform.online_cpus) or ()
    wanted = tuple(dict.fromkeys(cpus))
    if not wanted or not set(wanted) <= set(online):
        raise NictopError(f"not CPUs of this host; online: {format_cpu_list(online) or 'unknown'}")
    if is_assigned_by_kernel(host, link):
        raise NictopError(
            f"{clean(link.name)}: the kernel does not let its interrupts be moved", READ_ONLY_NOTE
        )
    places = interrupt_cpus(host, link, wanted)
    if not places:
        raise NictopError(
            f"{clean(link.name)} has no dedicated interrupts whose affinity can be set"
        )
    fix = assignment_fix(host, link, places, "Set the affinity of each IRQ")

    title = f"set IRQ affinity of {link.name} to CPUs {format_cpu_list(wanted)}"
    lasting = without_added_lines(_lasting_affinity(host, link, places))
    proof = partial(_affinity_proof, places)
    return ChangeJob(host.name, title, link.name, fix, lasting, proof=proof)


def _affinity_proof(places: Mapping[int, int], snapshot: Snapshot) -> GoalCheck:
    """Each interrupt goes to its CPU."""
    by_number = {}
    if snapshot.inventory is not None:
        interrupts = snapshot.inventory.interrupts
        by_number = {interrupt.number: interrupt for interrupt in interrupts}
    there = [number for number, cpu in places.items() if _goes_to(by_number.get(number), cpu)]
    text = f"affinity set for {len(there)} of {len(places)} IRQs"
    return GoalCheck(len(there) == len(places), text)


def _lasting_affinity(host: HostFacts, link: Link, places: Mapping[int, int]) -> tuple[Fix, ...]:
    """A unit that sets it at every boot; first, irqbalance must leave these interrupts alone."""
    at_boot = boot_fix(host, link, places)
    if host.inventory.services.irqbalance is None:
        return (at_boot,)
    return exclusion_fix(host, places), at_boot


def blink_led(host: HostFacts, link: Link, seconds: int) -> ChangeJob:
    """Blink the LED of a port for some seconds (``ethtool -p``): it ends by itself, or when the
    change is undone."""
    require_read(host, link)
    if link.device is None:
        raise NictopError(
            f"{clean(link.name)} is virtual and has no LED", "choose the NIC below it"
        )
    check_led_seconds(seconds)
    fix = Fix(
        "here",
        f"Blink the port LED for {seconds} s",
        (command("ethtool", "-p", link.name, str(seconds)),),
    )
    return ChangeJob(
        host.name, f"blink the port LED of {link.name} for {seconds} s", link.name, fix
    )


def check_led_seconds(seconds: int) -> None:
    if not 1 <= seconds <= MAX_IDENTIFY_SECONDS:
        raise NictopError(f"the LED can blink for 1 to {MAX_IDENTIFY_SECONDS} s")


def _goes_to(interrupt: Interrupt | None, cpu: int) -> bool:
    """According to smp_affinity_list; the effective CPU may change only with the next interrupt."""
    return interrupt is not None and parse_cpu_list(interrupt.allowed_cpus) == (cpu,)
