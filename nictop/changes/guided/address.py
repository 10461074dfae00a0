"""Set the address of a NIC in NetworkManager: the profile, its properties, and their rollback. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from nictop.errors import NictopError
from nictop.model.managers.profile_match import ETHERNET, GENERATED_PRIORITY, is_generated_default
from nictop.model.snapshot import ARPHRD_ETHER
from nictop.model.text.terminal import clean, is_clean
from nictop.probe.records import IpSettings, Link, Profile
from nictop.rules import Fix, HostFacts
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.profiles import AUTOCONNECT_PRIORITY, SEVERAL_DEVICES, free_name, quoted_name


@dataclass(frozen=True)
class AddressRequest:
    """The requested address of a NIC."""

    address: str | None
    """``192.0.2.10/24``, or of IPv6; None: by DHCP."""
    gateway: str = ""
    """Only with a default route; "": none."""
    default_route: bool = False
    """This NIC may have one: by its gateway, or as DHCP sets it."""
    new_profile: bool = False
    """Create a profile even if there is one that could be used."""


def address_fix(host: HostFacts, link: Link, request: AddressRequest) -> tuple[Fix, str]:
    """(The commands, the name of the profile). The host runs NetworkManager. Raises NictopError."""
    family, settings = _settings(request)
    profile = None if request.new_profile else own_profile(host, link)
    if profile is None:
        return _new(host, link, family, settings)
    which = ("uuid", profile.uuid)
    name = profile.id if not is_generated_default(profile) and is_clean(profile.id) else free_name(host, link)
    bound, before = _bound(link, profile, name)
    old = _old(family, profile.ipv6 if family == "ipv6" else profile.ipv4)
    lines = (
        command("nmcli", "con", "mod", *which, *bound, *settings),
        command("nmcli", "con", "up", *which, "ifname", link.name),
    )
    undo = (command("nmcli", "con", "mod", *which, *before, *old), command("nmcli", "con", "up", *which))
    note = _note(link, profile, name, bound)
    return Fix("here", "Set it in the active profile", lines, True, undo, note=note), name


def own_profile(host: HostFacts, link: Link) -> Profile | None:
    """The profile of this NIC alone: the active one, or the one that would be activated. None: there is none."""
    active = host.profiles.active(link)
    candidates = [active] if active is not None else []
    candidates += [one.profile for one in host.profiles.fitting(link)]
    for one in candidates:
        elsewhere = set(host.profiles.active_on.get(one.uuid, ())) - {link.name}
        is_its_own = one.interface_name == link.name or is_generated_default(one) or one is active
        if (
            is_its_own
            and not one.external
            and not elsewhere
            and one.type == ETHERNET
            and one.multi_connect not in SEVERAL_DEVICES
        ):
            return one
    return None


def check_address(host: HostFacts, link: Link, request: AddressRequest) -> None:
    """Raises NictopError if the NIC cannot have an address, or not this one."""
    name = clean(link.name)
    manager = host.inventory.networkmanager
    device = manager.devices.get(link.ifindex) if manager is not None else None
    if manager is not None and (device is None or not device.managed):
        raise NictopError(f"NetworkManager does not manage {name}", f"nmcli device set {name} managed yes")
    if link.type != ARPHRD_ETHER:
        raise NictopError(f"{name} is not an Ethernet interface")
    if link.master is not None:
        raise NictopError(f"{name} is a port of another interface", "set the address on that interface")
    _settings(request)


def _settings(request: AddressRequest) -> tuple[str, list[str]]:
    """(Family, properties with their values)."""
    never = ["no" if request.default_route else "yes"]
    if request.address is None:
        if request.gateway:
            raise NictopError("DHCP provides the gateway", "omit the gateway")
        values = ["ipv4.method", "auto", "ipv4.addresses", "", "ipv4.gateway", ""]
        return "ipv4", [*values, "ipv4.never-default", *never]
    try:
        interface = ipaddress.ip_interface(request.address)
        gateway = ipaddress.ip_address(request.gateway) if request.gateway else None
    except ValueError as error:
        raise NictopError(clean(str(error)), "for example 192.0.2.10/24, gateway 192.0.2.1") from None
    if "/" not in request.address or "%" in request.address + request.gateway:
        raise NictopError(f"{clean(request.address)} has no prefix length", "for example 192.0.2.10/24")
    network = interface.network
    ends = (network.network_address, network.broadcast_address)
    if interface.version == 4 and network.prefixlen < 31 and interface.ip in ends:
        raise NictopError(f"{clean(request.address)} is a network or broadcast address, not a host address")
    if gateway is not None and not request.default_route:
        raise NictopError("a gateway needs a default route", "set a default route, or omit the gateway")
    if gateway is not None and gateway not in network:
        raise NictopError(f"gateway {gateway} is not in {network}")
    family = f"ipv{interface.version}"
    values = [f"{family}.method", "manual", f"{family}.addresses", request.address]
    return family, [*values, f"{family}.gateway", request.gateway, f"{family}.never-default", *never]


def _bound(link: Link, profile: Profile, name: str) -> tuple[list[str], list[str]]:
    """(Properties that set name and interface of a profile, the same properties with their current values)."""
    now: list[str] = []
    before: list[str] = []
    for key, new, old in (
        ("connection.id", name, profile.id),
        ("connection.interface-name", link.name, profile.interface_name or ""),
        ("connection.autoconnect", "yes", "yes" if profile.autoconnect else "no"),
        (
            AUTOCONNECT_PRIORITY,
            "0" if profile.autoconnect_priority == GENERATED_PRIORITY else None,
            str(GENERATED_PRIORITY),
        ),
    ):
        if new is not None and new != old:
            now += [key, new]
            before += [key, old]
    return now, before


def _note(link: Link, profile: Profile, name: str, bound: Sequence[str]) -> str:
    """What `bound` changes besides the address, and why; "": nothing."""
    sentences = []
    if is_generated_default(profile):
        sentences.append(
            f"Profile {quoted_name(profile.id)} was generated by NetworkManager: it is saved under the name {name}, "
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
    never = "yes" if settings.never_default else "no"
    return (
        *(f"{family}.method", settings.method, f"{family}.addresses", ",".join(settings.addresses)),
        *(f"{family}.gateway", settings.gateway or "", f"{family}.never-default", never),
    )


def _new(host: HostFacts, link: Link, family: str, settings: list[str]) -> tuple[Fix, str]:
    name = free_name(host, link)
    which = ("id", name)
    other = ["ipv4.method", "disabled"] if family == "ipv6" else []
    lines = (
        command("nmcli", "con", "add", "type", "ethernet", "ifname", link.name, "con-name", name, *other, *settings),
        command("nmcli", "con", "up", *which),
    )
    undo = [command("nmcli", "con", "delete", *which)]
    active = host.profiles.active(link)
    if active is not None and not active.external:
        undo.append(command("nmcli", "con", "up", "uuid", active.uuid))
    return Fix("here", "Create a profile", lines, True, tuple(undo)), name
