"""Set the address of a NIC in NetworkManager: the profile, its properties, and their rollback.
Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface

from nictop.errors import NictopError
from nictop.model.managers.profile_match import ETHERNET, GENERATED_PRIORITY, is_generated_default
from nictop.model.snapshot import ARPHRD_ETHER
from nictop.model.text.terminal import clean, is_clean
from nictop.probe.records import IpSettings, Link, Profile
from nictop.rules import Fix, HostFacts
from nictop.rules.fixes.address_files import AddressRequest
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.previous_connections import with_previous_connection
from nictop.rules.fixes.profiles import (
    AUTOCONNECT_PRIORITY,
    SEVERAL_DEVICES,
    free_name,
    name_of_new,
    quoted_name,
)

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface
LIMITED_BROADCAST = IPv4Address("255.255.255.255")


def address_fix(host: HostFacts, link: Link, request: AddressRequest) -> tuple[Fix, str]:
    """(The commands, the name of the profile). The host runs NetworkManager. Raises NictopError."""
    family, settings = _settings(request)
    profile = own_profile(host, link)
    if profile is None or request.new_profile:
        return _new(host, link, family, settings)
    which = ("uuid", profile.uuid)
    keeps_name = is_clean(profile.id) and not is_generated_default(profile)
    name = profile.id if keeps_name else free_name(host, link)
    bound, before = _bound(link, profile, name)
    now = {"ipv4": profile.ipv4, "ipv6": profile.ipv6}
    old = _old(family, now[family])
    lines = (
        command("nmcli", "con", "mod", *which, *bound, *settings),
        command("nmcli", "con", "up", *which, "ifname", link.name),
    )
    undo = (
        command("nmcli", "con", "mod", *which, *before, *old),
        command("nmcli", "con", "up", *which),
    )
    note = _note(link, profile, name, bound)
    fix = Fix("here", "Set it in its profile", lines, True, undo, note=note)
    return _complete(host, link, fix), name


def own_profile(host: HostFacts, link: Link) -> Profile | None:
    """The profile of this NIC alone: the active one, or the one that would be activated. None:
    there is none."""
    active = host.profiles.active(link)
    if active is not None and _is_of_one_nic(host, link, active):
        return active
    for fit in host.profiles.fitting(link):
        profile = fit.profile
        is_its_own = profile.interface_name == link.name or is_generated_default(profile)
        if is_its_own and _is_of_one_nic(host, link, profile):
            return profile
    return None


def _is_of_one_nic(host: HostFacts, link: Link, profile: Profile) -> bool:
    """A stored profile of an Ethernet NIC that is active nowhere else and can be active only
    once."""
    elsewhere = set(host.profiles.active_on.get(profile.uuid, ())) - {link.name}
    if elsewhere or profile.external:
        return False
    return profile.type == ETHERNET and profile.multi_connect not in SEVERAL_DEVICES


def check_address(host: HostFacts, link: Link, request: AddressRequest) -> None:
    """Raises NictopError if the NIC cannot have an address, or not this one."""
    name = clean(link.name)
    if _is_unmanaged(host, link):
        raise NictopError(
            f"NetworkManager does not manage {name}", f"nmcli device set {name} managed yes"
        )
    if link.type != ARPHRD_ETHER:
        raise NictopError(f"{name} is not an Ethernet interface")
    if link.master is not None:
        raise NictopError(
            f"{name} is a port of another interface", "set the address on that interface"
        )
    check_request(request)


def check_request(request: AddressRequest) -> None:
    """Raises NictopError if it is wrong for any NIC."""
    _settings(request)


def _is_unmanaged(host: HostFacts, link: Link) -> bool:
    """NetworkManager runs and leaves the NIC alone."""
    manager = host.inventory.networkmanager
    if manager is None:
        return False
    device = manager.devices.get(link.ifindex)
    return device is None or not device.managed


def _settings(request: AddressRequest) -> tuple[str, list[str]]:
    """(Family, properties with their values)."""
    if request.address is None:
        if request.gateway:
            raise NictopError("DHCP provides the gateway", "omit the gateway")
        return "ipv4", _properties("ipv4", "auto", "", request)
    interface, gateway = _parsed(request.address, request.gateway)
    _check_is_host_address(interface, request.address)
    _check_gateway(interface, gateway, request)
    family = f"ipv{interface.version}"
    return family, _properties(family, "manual", request.address, request)


def _properties(family: str, method: str, address: str, request: AddressRequest) -> list[str]:
    never_default = _yes_or_no(not request.default_route)
    return [
        *(f"{family}.method", method, f"{family}.addresses", address),
        *(f"{family}.gateway", request.gateway, f"{family}.never-default", never_default),
    ]


def _yes_or_no(flag: bool) -> str:
    return "yes" if flag else "no"


def _parsed(address: str, gateway: str) -> tuple[Interface, Address | None]:
    """Raises NictopError if one of them is not valid."""
    try:
        interface = ipaddress.ip_interface(address)
        parsed_gateway = ipaddress.ip_address(gateway) if gateway else None
    except ValueError as error:
        hint = "write ADDRESS/LENGTH, and the gateway without a length"
        raise NictopError(clean(str(error)), hint) from None
    if "/" not in address or "%" in address + gateway:
        raise NictopError(f"{clean(address)} has no prefix length", "write ADDRESS/LENGTH")
    return interface, parsed_gateway


def _check_is_host_address(interface: Interface, text: str) -> None:
    """Raises NictopError for what no other host can send to: the kernel accepts it. Also for the
    first and the last address of an IPv4 network, except in those of two addresses or one."""
    network = interface.network
    for is_other, what in (
        (interface.ip.is_unspecified, "the address of no host"),
        (interface.ip.is_loopback, "a loopback address: no other host can send to it"),
        (interface.ip.is_multicast, "a multicast address, not that of one host"),
        (interface.ip == LIMITED_BROADCAST, "the broadcast address, not that of one host"),
    ):
        if is_other:
            raise NictopError(f"{clean(text)} is {what}")
    has_broadcast = interface.version == 4 and network.prefixlen < 31
    if has_broadcast and interface.ip in (network.network_address, network.broadcast_address):
        raise NictopError(f"{clean(text)} is a network or broadcast address, not a host address")


def _check_gateway(interface: Interface, gateway: Address | None, request: AddressRequest) -> None:
    """Raises NictopError for a gateway that cannot be reached, or that is not used. A router of
    IPv6 is usually known by its link-local address."""
    if gateway is None:
        if request.default_route and interface.version == 4:
            hint = "add the gateway, or omit the default route"
            raise NictopError("a default route needs a gateway", hint)
        return
    if not request.default_route:
        hint = "set a default route, or omit the gateway"
        raise NictopError("a gateway needs a default route", hint)
    if gateway == interface.ip:
        raise NictopError(f"gateway {gateway} is the address of the NIC itself")
    is_beside = gateway.version == 6 == interface.version and gateway.is_link_local
    if gateway not in interface.network and not is_beside:
        raise NictopError(f"gateway {gateway} is not in {interface.network}")


def _bound(link: Link, profile: Profile, name: str) -> tuple[list[str], list[str]]:
    """(Properties that set name and interface of a profile, the same properties with their current
    values)."""
    properties = [
        ("connection.id", name, profile.id),
        ("connection.interface-name", link.name, profile.interface_name or ""),
        ("connection.autoconnect", "yes", _yes_or_no(profile.autoconnect)),
    ]
    if profile.autoconnect_priority == GENERATED_PRIORITY:
        properties.append((AUTOCONNECT_PRIORITY, "0", str(GENERATED_PRIORITY)))
    now: list[str] = []
    before: list[str] = []
    for key, new, old in properties:
        if new != old:
            now += [key, new]
            before += [key, old]
    return now, before


def _note(link: Link, profile: Profile, name: str, bound: Sequence[str]) -> str:
    """What `bound` changes besides the address, and why; "": nothing."""
    sentences = []
    if is_generated_default(profile):
        sentences.append(
            f"Profile {quoted_name(profile.id)} was generated by NetworkManager: it is saved "
            f"under the name {name}, "
            "with the default autoconnect priority 0."
        )
    elif "connection.id" in bound:
        sentences.append(f"The profile is renamed to {name}: its name contains control characters.")
    if "connection.interface-name" in bound:
        sentences.append(f"It is bound to {link.name}, and no longer used for other interfaces.")
    if "connection.autoconnect" in bound:
        sentences.append("Autoconnect is set to yes.")
    return " ".join(sentences)


def _old(family: str, settings: IpSettings) -> Sequence[str]:
    never = _yes_or_no(settings.never_default)
    return (
        *(f"{family}.method", settings.method, f"{family}.addresses", ",".join(settings.addresses)),
        *(f"{family}.gateway", settings.gateway or "", f"{family}.never-default", never),
    )


def _new(host: HostFacts, link: Link, family: str, settings: list[str]) -> tuple[Fix, str]:
    name = name_of_new(host, link)
    which = ("id", name)
    words = ["type", "ethernet", "ifname", link.name, "con-name", name]
    if family == "ipv6":
        words += ["ipv4.method", "disabled"]
    lines = (
        command("nmcli", "con", "add", *words, *settings),
        command("nmcli", "con", "up", *which),
    )
    undo = (command("nmcli", "con", "delete", *which),)
    return _complete(host, link, Fix("here", "Create a profile", lines, True, undo)), name


def _complete(host: HostFacts, link: Link, fix: Fix) -> Fix:
    (complete,) = with_previous_connection(host, link, (fix,))
    return complete
