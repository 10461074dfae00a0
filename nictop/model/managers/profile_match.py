"""Profiles that fit a link, the one that NetworkManager would activate, and why it would not activate the others.

Reads nothing; follows NetworkManager's sources. `check_connection_compatible` of nm-device.c and nm-device-ethernet.c
decides which profiles fit; `_auto_activate_device` of nm-policy.c takes the first one that may autoconnect, in the
order of `nm_settings_connection_cmp_autoconnect_priority` (autoconnect, priority, most recent first, UUID). A profile's
interface-name is compared with the interface's own name; altnames do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from nictop.model.managers.configuration import kernel_driver
from nictop.model.managers.networkmanager_states import DISCONNECTED, USER_REQUESTED
from nictop.model.snapshot import Snapshot
from nictop.model.text.wildcards import matches
from nictop.probe.records import Link, ManagedDevice, NetworkManager, Profile

Key = TypeVar("Key")

ETHERNET, INFINIBAND, VETH = "802-3-ethernet", "infiniband", "veth"
TYPES_OF_DEVICE = {
    1: (ETHERNET, "pppoe"),
    2: ("802-11-wireless",),
    9: (INFINIBAND,),
    10: ("bond",),
    11: ("vlan",),
    13: ("bridge",),
    14: ("generic",),
    15: ("team",),
    16: ("tun",),
    17: ("ip-tunnel",),
    18: ("macvlan",),
    19: ("vxlan",),
    20: (VETH, ETHERNET),
    21: ("macsec",),
    22: ("dummy",),
    29: ("wireguard",),
    31: ("vrf",),
    32: ("loopback",),
}
"""NM_DEVICE_TYPE_* → values of ``connection.type`` that such a device accepts; unknown for other types."""
MULTI_CONNECT_MULTIPLE = 3
"""``connection.multi-connect``: may be active on several devices at once."""
RUN_PROFILES = "/run/NetworkManager/system-connections/"
NETPLAN_PROFILES = RUN_PROFILES + "netplan-"
GENERATED_PRIORITY = -999
AUTOCONNECT_OFF = "is not activated automatically: connection.autoconnect is no"
DISCONNECTED_MANUALLY = "is not activated: the device was disconnected manually"


@dataclass(frozen=True)
class ProfileMatch:
    """The relation of one profile to one link."""

    profile: Profile
    mismatch: str = ""
    """Why the profile does not fit the link; "" when it does."""
    wait_reason: str = ""
    """Why NetworkManager would not activate a fitting profile by itself; "" when it would."""

    @property
    def fits(self) -> bool:
        return not self.mismatch


class ProfileMatches:
    """The profiles of one host, indexed by their bindings: fast for any number of links."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._links = tuple(snapshot.links.values())
        inventory = snapshot.inventory
        self.manager: NetworkManager | None = inventory.networkmanager if inventory is not None else None
        settings = inventory.settings if inventory is not None else None
        self._command_line = tuple((settings.command_line or "").split()) if settings is not None else ()
        self._of_link: dict[int, tuple[ProfileMatch, ...]] = {}

    @cached_property
    def profiles(self) -> tuple[Profile, ...]:
        """The readable profiles, in NetworkManager's order of preference."""
        if self.manager is None:
            return ()
        return tuple(sorted((one for one in self.manager.profiles if one.uuid), key=autoconnect_order))

    @cached_property
    def by_uuid(self) -> dict[str, Profile]:
        return {profile.uuid: profile for profile in self.profiles}

    @cached_property
    def ids(self) -> dict[str, int]:
        """Name → number of profiles with this name."""
        found: dict[str, int] = {}
        for profile in self.profiles:
            found[profile.id] = found.get(profile.id, 0) + 1
        return found

    @cached_property
    def active_on(self) -> dict[str, tuple[str, ...]]:
        """UUID → interfaces on which the profile is active or being activated."""
        found: dict[str, tuple[str, ...]] = {}
        for device in self.manager.devices.values() if self.manager is not None else ():
            if device.active_profile:
                found[device.active_profile] = (*found.get(device.active_profile, ()), device.interface)
        return found

    @cached_property
    def _by_interface(self) -> dict[str, list[Profile]]:
        return _grouped((one.interface_name, one) for one in self.profiles if one.interface_name)

    @cached_property
    def _by_address(self) -> dict[str | None, list[Profile]]:
        """Profiles without an interface name: by MAC address, None for any."""
        return _grouped((one.mac_address, one) for one in self.profiles if not one.interface_name)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of all links."""
        return frozenset(link.name for link in self._links)

    @cached_property
    def addresses(self) -> frozenset[str]:
        """MAC addresses with which profiles are compared."""
        devices = self.manager.devices if self.manager is not None else {}
        found = (_permanent(link, devices.get(link.ifindex)) for link in self._links)
        return frozenset(address for address in found if address)

    def is_named(self, name: str) -> bool:
        """Whether a profile is bound to this interface name, even if it does not fit otherwise."""
        return name in self._by_interface

    def device(self, link: Link) -> ManagedDevice | None:
        return self.manager.devices.get(link.ifindex) if self.manager is not None else None

    def active(self, link: Link) -> Profile | None:
        """The profile that is active or being activated on the link."""
        return self._active.get(link.ifindex)

    @cached_property
    def _active(self) -> dict[int, Profile]:
        """By ifindex."""
        devices = self.manager.devices if self.manager is not None else {}
        found = {ifindex: self.by_uuid.get(device.active_profile or "") for ifindex, device in devices.items()}
        return {ifindex: profile for ifindex, profile in found.items() if profile is not None}

    def candidates(self, link: Link) -> list[Profile]:
        """Profiles whose interface name and MAC address fit the link, in no order."""
        address = _permanent(link, self.device(link))
        found = [*self._by_interface.get(link.name, ()), *self._by_address.get(None, ())]
        return found + self._by_address.get(address, []) if address is not None else found

    def fitting(self, link: Link) -> tuple[ProfileMatch, ...]:
        """Profiles that fit the link, in NetworkManager's order; without external ones."""
        found = self._of_link.get(link.ifindex)
        if found is None:
            matched = (self.match(profile, link) for profile in self.candidates(link) if not profile.external)
            found = tuple(sorted((one for one in matched if one.fits), key=lambda one: autoconnect_order(one.profile)))
            self._of_link[link.ifindex] = found
        return found

    def user_profiles(self, link: Link) -> tuple[ProfileMatch, ...]:
        """Fitting profiles that a user or tool wrote: not generated, not volatile."""
        return tuple(one for one in self.fitting(link) if not one.profile.generated and not one.profile.volatile)

    def generated(self, link: Link) -> Profile | None:
        """The default profile that NetworkManager generated for the link."""
        return next((one.profile for one in self.fitting(link) if is_generated_default(one.profile)), None)

    def attempted(self, link: Link) -> Profile | None:
        """The profile that is being activated; for a disconnected link the one that would be activated if it had not
        failed before. None if it is a generated one."""
        active, device = self.active(link), self.device(link)
        if active is not None:
            return None if active.generated else active
        if link.carrier is not True or device is None or is_disconnected_by_user(device):
            return None
        first = next((one for one in self.fitting(link) if not one.wait_reason), None)
        return None if first is None or first.profile.generated else first.profile

    def match(self, profile: Profile, link: Link) -> ProfileMatch:
        """Whether a profile fits a link, and whether it would autoconnect."""
        device = self.device(link)
        unfit = mismatch_reason(profile, link, device, self._command_line)
        if unfit:
            return ProfileMatch(profile, unfit)
        return ProfileMatch(profile, wait_reason=self._wait_reason(profile, link, device))

    def _wait_reason(self, profile: Profile, link: Link, device: ManagedDevice | None) -> str:
        elsewhere = [name for name in self.active_on.get(profile.uuid, ()) if name != link.name]
        if elsewhere and profile.multi_connect != MULTI_CONNECT_MULTIPLE:
            return f"is active on {', '.join(elsewhere)}"
        if not profile.autoconnect:
            return AUTOCONNECT_OFF
        if profile.permissions:
            return f"waits for login of {', '.join(profile.permissions)}"
        if profile.controller and not self._has_controller(profile.controller):
            return f"waits for its controller {profile.controller}"
        if device is not None and is_disconnected_by_user(device):
            return DISCONNECTED_MANUALLY
        return ""

    def _has_controller(self, name: str) -> bool:
        return name in self.names or name in self.active_on

    def missing_binding(self, profile: Profile) -> str:
        """The interface name or MAC address of the profile that no link has, as a text; "" when it may fit a link, or
        creates its own device."""
        if profile.external or profile.type not in (ETHERNET, INFINIBAND):
            return ""
        if profile.interface_name and profile.interface_name not in self.names:
            return f"interface {profile.interface_name} does not exist"
        if profile.mac_address and profile.mac_address not in self.addresses:
            return f"no interface has MAC address {profile.mac_address}"
        return ""


def autoconnect_order(profile: Profile) -> tuple[bool, int, int, str]:
    """NetworkManager's sort key: the first fitting profile is activated. Without autoconnect the priority does not
    count."""
    return (
        not profile.autoconnect,
        -profile.autoconnect_priority * profile.autoconnect,
        -profile.timestamp,
        profile.uuid,
    )


def is_disconnected_by_user(device: ManagedDevice) -> bool:
    """After ``nmcli device disconnect`` or ``nmcli con down``: the device stays disconnected until a user connects
    it."""
    return not device.autoconnect or (device.state == DISCONNECTED and device.reason == USER_REQUESTED)


def is_in_memory(profile: Profile) -> bool:
    """Without a copy on disk that is in use: made or changed by ``nmcli con add/mod --temporary``, or generated.
    NetworkManager keeps such a profile in /run; netplan writes its own ones there at each boot."""
    name = profile.filename or RUN_PROFILES
    return name.startswith(RUN_PROFILES) and not name.startswith(NETPLAN_PROFILES)


def is_generated_default(profile: Profile) -> bool:
    """Generated by NetworkManager because no other profile fitted; not one that describes an external configuration."""
    return profile.nm_generated_default or (profile.generated and not profile.external and not profile.volatile)


def mismatch_reason(profile: Profile, link: Link, device: ManagedDevice | None, command_line: Iterable[str]) -> str:
    """Why a profile does not fit a link; "" when it does."""
    if profile.interface_name and profile.interface_name != link.name:
        also = " (an altname; profiles match the name only)" if profile.interface_name in link.altnames else ""
        return f"is bound to {profile.interface_name}{also}"
    accepted = TYPES_OF_DEVICE.get(device.type) if device is not None else None
    if accepted is not None and profile.type not in accepted:
        return f"is of type {profile.type}, device needs {accepted[0]}"
    if profile.match_interface_names and not fits_patterns(profile.match_interface_names, link.name):
        return f"match.interface-name is {' '.join(profile.match_interface_names)}"
    if profile.match_drivers and not fits_patterns(profile.match_drivers, kernel_driver(link)):
        return f"match.driver is {' '.join(profile.match_drivers)}"
    if profile.match_paths and link.pci_address and not fits_patterns(profile.match_paths, f"pci-{link.pci_address}"):
        return f"match.path is {' '.join(profile.match_paths)}"
    if profile.match_kernel_command_line and not has_parameters(profile.match_kernel_command_line, tuple(command_line)):
        return f"match.kernel-command-line is {' '.join(profile.match_kernel_command_line)}"
    return _address_mismatch(profile, _permanent(link, device))


def _address_mismatch(profile: Profile, permanent: str | None) -> str:
    if permanent is None:
        return "is bound to a MAC address; this interface has none" if profile.mac_address else ""
    if profile.mac_address and profile.mac_address != permanent:
        return f"is bound to MAC {profile.mac_address}"
    if permanent in profile.mac_address_denylist:
        return "excludes this MAC address (mac-address-denylist)"
    return ""


def fits_patterns(patterns: Iterable[str], text: str) -> bool:
    """Evaluate a ``match.*`` list: ``&`` patterns must match; of those with ``|`` or no prefix, at least one must;
    ``!`` negates; ``\\`` ends the prefix."""
    return _holds(patterns, lambda pattern: matches(text, pattern))


def has_parameters(patterns: Iterable[str], command_line: tuple[str, ...]) -> bool:
    """Evaluate ``match.kernel-command-line``: a pattern is a whole word, or with ``=`` a key and value; a key alone
    matches any value."""
    return _holds(
        patterns, lambda pattern: any(word == pattern or word.startswith(f"{pattern}=") for word in command_line)
    )


def _holds(patterns: Iterable[str], holds: Callable[[str], bool]) -> bool:
    any_optional = one_optional = False
    for prefixed in patterns:
        mandatory = prefixed.startswith(("&", "!"))
        pattern = prefixed[1:] if prefixed.startswith(("&", "|")) else prefixed
        inverted = pattern.startswith("!")
        pattern = pattern[1:] if inverted else pattern
        is_match = holds(pattern[1:] if pattern.startswith("\\") else pattern) != inverted
        if mandatory and not is_match:
            return False
        if not mandatory:
            any_optional = True
            one_optional = one_optional or is_match
    return one_optional or not any_optional


def _permanent(link: Link, device: ManagedDevice | None) -> str | None:
    """The MAC address with which profiles are compared: without a permanent one NetworkManager uses the present one (it
    calls that a fake address, and does not report it over D-Bus)."""
    return (device.permanent_address if device is not None else None) or link.permanent_address or link.address


def _grouped(pairs: Iterable[tuple[Key, Profile]]) -> dict[Key, list[Profile]]:
    found: dict[Key, list[Profile]] = {}
    for key, profile in pairs:
        found.setdefault(key, []).append(profile)
    return found
