"""Guided set-up as a form: the fields of each action, and the change that their values describe.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nictop.changes.guided.address import own_profile
from nictop.changes.guided.mtu import mtu_range
from nictop.changes.guided.set_up import (
    NotKnown,
    blink_led,
    give_address,
    make_vfs,
    require_read,
    require_sources,
    set_mtu,
    spread_interrupts,
    use_queues,
)
from nictop.changes.guided.taken_addresses import example_text, users_of
from nictop.changes.job import ChangeJob
from nictop.errors import NictopError
from nictop.hosts.session import HostSession
from nictop.model.devices.links import function_of, functions_by_address
from nictop.model.parts import managed_devices
from nictop.model.queues.counts import max_queues_of_each_direction, receive_queues
from nictop.model.queues.cpu_lists import parse_cpu_list
from nictop.model.snapshot import is_unread_link
from nictop.model.text.terminal import clean
from nictop.model.text.words import IFF_UP
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.plan.grammar.actions import MAX_IDENTIFY_SECONDS
from nictop.probe.records import Link, PciFunction
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.rules import HostFacts
from nictop.rules.fixes.address_files import AddressRequest
from nictop.rules.subjects import global_address_texts
from nictop.tui.widgets.base.form import Field

ADDRESS, QUEUES, VFS, INTERRUPTS = "Set IP address", "Set queues", "Create VFs", "Set IRQ affinity"
MTU, LED = "Set MTU", "Blink port LED"
JOBS = (ADDRESS, QUEUES, VFS, INTERRUPTS, MTU, LED)
LED_SECONDS = "10"
STATIC, DHCP = "static", "DHCP"
NO, YES = "no", "yes"
REQUIRED = "(required)"
CURRENT, NEW = "its own", "new"

JOB_FIELDS = {
    ADDRESS: ("method", "address", "default_route", "gateway", "profile"),
    MTU: ("mtu",),
    QUEUES: ("queues",),
    VFS: ("vfs",),
    INTERRUPTS: ("cpus",),
    LED: ("seconds",),
}
"""Action → its fields."""


@dataclass(frozen=True)
class NicRef:
    """The NIC to set up; the inventory of its host is known."""

    host: HostFacts
    link: Link
    function: PciFunction | None
    """Its PCI function; None: it is not on the PCI bus."""
    others: tuple[HostFacts, ...] = ()
    """The other watched hosts whose inventory is known."""

    @classmethod
    def of(cls, host: HostFacts, link: Link, others: Iterable[HostFacts] = ()) -> NicRef:
        functions = functions_by_address(host.snapshot.pci)
        return cls(host, link, function_of(link, functions), tuple(others))


def other_facts(sessions: Iterable[HostSession], host: str = "") -> tuple[HostFacts, ...]:
    """Facts of the watched hosts that were read, without `host`."""
    facts: list[HostFacts] = []
    for session in sessions:
        if session.name != host and session.snapshot.inventory is not None:
            facts.append(HostFacts(session.snapshot, session.window.parts))
    return tuple(facts)


class Missing(NictopError):
    """A required field is empty."""


def fields_of(place: NicRef) -> Sequence[Field]:
    """All fields, with the current settings of the NIC as examples. Its default route is the
    preset: a new address does not take it away unless that is chosen."""
    online = place.host.inventory.platform.online_cpus or ""
    gateway = _current_gateway(place.link)
    default_route = (YES, NO) if gateway else (NO, YES)
    fields = (
        Field("job", "Action", "", None, JOBS),
        Field("method", "Method", "", None, (STATIC, DHCP)),
        Field("address", "Address/prefix", _address_text(place), empty=REQUIRED),
        Field("default_route", "Default route", "", None, default_route),
        Field("gateway", "Gateway", "e.g. 192.0.2.1", preset=gateway, empty="none"),
        _profile_field(place),
        Field("mtu", "MTU", _mtu_range_text(place), empty=REQUIRED),
        Field("queues", "Queues", _queue_range_text(place), empty=REQUIRED),
        Field("vfs", "VFs", _vf_range_text(place), empty=REQUIRED),
        Field("cpus", "CPUs", f"online: {online or NOT_READ_YET}", preset=online, empty=REQUIRED),
        Field(
            "seconds", "Seconds", f"1 to {MAX_IDENTIFY_SECONDS}", preset=LED_SECONDS, empty=REQUIRED
        ),
    )
    if place.host.inventory.networkmanager is not None:
        return fields
    return tuple(field for field in fields if field.name != "profile")


def _profile_field(place: NicRef) -> Field:
    """A new one only, if the NIC has no profile of its own whose address can be set."""
    label, both = "NetworkManager profile", (CURRENT, NEW)
    try:
        require_sources(place.host, place.link, "networkmanager")
    except NotKnown:
        return Field("profile", label, "", None, both)
    if own_profile(place.host, place.link) is None:
        why = f"{clean(place.link.name)} has none of its own"
        return Field("profile", label, why, None, (NEW,))
    return Field("profile", label, "", None, both)


def nic_state(place: NicRef) -> tuple[object, ...]:
    """What a set-up depends on: equal while none of it has changed."""
    link, manager = place.link, place.host.inventory.networkmanager
    device = managed_devices(manager).get(link.ifindex)
    function = place.function
    sriov = None if function is None else function.sriov
    return (
        *(link.name, link.address, link.mtu, link.flags & IFF_UP, link.carrier, link.master),
        tuple((address.address, address.prefix_length) for address in link.addresses),
        tuple(route.gateway for route in link.default_routes),
        link.ethtool.channels,
        None if sriov is None else sriov.num_vfs,
        None if device is None else device.active_profile,
    )


def names_shown(words: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the fields of the chosen job that apply to the present values of the others."""
    hidden: tuple[str, ...] = ()
    if words["method"] == DHCP:
        hidden = ("address", "gateway")
    elif words["default_route"] == NO:
        hidden = ("gateway",)
    names = ("job", *JOB_FIELDS[words["job"]])
    return tuple(name for name in names if name not in hidden)


def set_up_of(words: Mapping[str, str], place: NicRef) -> ChangeJob:
    """The change described by the values. Raises NictopError for invalid ones, `Missing` for an
    empty one."""
    require_read(place.host, place.link)
    job = words["job"]
    if job == ADDRESS:
        return give_address(place.host, place.link, _address_request(words), place.others)
    if job == MTU:
        return set_mtu(
            place.host, place.link, _number(words["mtu"], "the MTU in bytes"), place.others
        )
    if job == QUEUES:
        return use_queues(place.host, place.link, _number(words["queues"], "the number of queues"))
    if job == VFS:
        if place.function is None:
            raise NictopError(f"{place.link.name} is not a PCI function and has no VFs")
        return make_vfs(place.host, place.function, _number(words["vfs"], "the number of VFs"))
    if job == LED:
        return blink_led(place.host, place.link, _number(words["seconds"], "the number of seconds"))
    return spread_interrupts(place.host, place.link, _cpu_list(words["cpus"]))


def _cpu_list(text: str) -> tuple[int, ...]:
    word = text.strip()
    if not word:
        raise Missing("Enter the CPUs, e.g. 0-3,8.")
    cpus = parse_cpu_list(word)
    if not cpus:
        raise NictopError(f'"{word}" is not a CPU list', "e.g. 0-3,8")
    return cpus


def _address_request(words: Mapping[str, str]) -> AddressRequest:
    routed, new = words["default_route"] == YES, words.get("profile") == NEW
    if words["method"] == DHCP:
        return AddressRequest(None, default_route=routed, new_profile=new)
    address, gateway = words["address"].strip(), ""
    if not address:
        raise Missing("Enter the address with its prefix length (ADDRESS/LENGTH).")
    if routed:
        gateway = words["gateway"].strip()
    return AddressRequest(address, gateway, routed, new)


def _number(text: str, what: str) -> int:
    word = text.strip()
    if not word:
        raise Missing(f"Enter {what}.")
    is_number = word.isascii() and word.isdecimal()
    if not is_number or len(word) > 6:
        raise NictopError(f'"{word}" is not an integer')
    return int(word)


def _address_text(place: NicRef) -> str:
    """``current 192.0.2.10/24``, else an example that nobody is known to have."""
    link = place.link
    current = [*global_address_texts(link, "ipv4"), *global_address_texts(link, "ipv6")]
    if not current:
        return example_text(place.host, link, place.others)
    users = users_of(current[0], place.host, link, place.others)
    also = f", in use by {users[0]}, too" if users else ""
    return f"current {current[0]}{also}"


def _current_gateway(link: Link) -> str:
    """Of its IPv4 default route; "": it has none."""
    for route in link.default_routes:
        if route.family == "ipv4" and route.gateway:
            return route.gateway
    return ""


def _mtu_range_text(place: NicRef) -> str:
    if is_unread_link(place.link):
        return f"current {place.link.mtu or 'not known'}, its limits are not known"
    return f"{mtu_range(place.host, place.link).text()}, current {place.link.mtu or 'not known'}"


def _queue_range_text(place: NicRef) -> str:
    link = place.link
    try:
        require_sources(place.host, link, "ethtool.channels")
    except NotKnown:
        return "not known"
    channels = link.ethtool.channels
    most = 0
    if channels is not None:
        most = max_queues_of_each_direction(channels)
    if not most:
        return "not supported by the driver"
    return f"1 to {most}, current {receive_queues(link)}"


def _vf_range_text(place: NicRef) -> str:
    if is_unread_link(place.link):
        return "not known"
    function = place.function
    if function is None or function.sriov is None or not function.sriov.total_vfs:
        return "supported by physical functions only"
    return f"1 to {function.sriov.total_vfs}, current {function.sriov.num_vfs or 0}"
