"""Profiles that fit a link, the one that NetworkManager would activate, and why it would not
activate the others.

Reads nothing; follows NetworkManager's sources. `check_connection_compatible` of nm-device.c and
nm-device-ethernet.c decides which profiles fit; `_auto_activate_device` of nm-policy.c takes the
first one that may autoconnect, in the order of `nm_settings_connection_cmp_autoconnect_priority`
(autoconnect, priority, most recent first, UUID). A profile's interface-name is compared with the
interface's own name; altnames do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from nictop.model.managers.configuration import kernel_driver
from nictop.model.managers.networkmanager_states import DISCONNECTED, USER_REQUESTED
from nictop.model.parts import managed_devices, network_manager
from nictop.model.snapshot import Snapshot
from nictop.model.text.wildcards import matches
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link, ManagedDevice, NetworkManager, Profile

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
"""NM_DEVICE_TYPE_* → values of ``connection.type`` that such a device accepts; unknown for other
types."""
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
        self.manager: NetworkManager | None = network_manager(snapshot)
        self._command_line = _command_line(snapshot)
        self._devices = managed_devices(self.manager)
        self._of_link: dict[int, tuple[ProfileMatch, ...]] = {}

    @cached_property
    def profiles(self) -> tuple[Profile, ...]:
        """The readable profiles, in NetworkManager's order of preference."""
        if self.manager is None:
            return ()
        readable = [profile for profile in self.manager.profiles if profile.uuid]
        return tuple(sorted(readable, key=autoconnect_order))

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
        for device in self._devices.values():
            uuid = device.active_profile
            if uuid:
                found[uuid] = (*found.get(uuid, ()), device.interface)
        return found

    @cached_property
    def _by_interface(self) -> dict[str, list[Profile]]:
        found: dict[str, list[Profile]] = {}
        for profile in self.profiles:
            if profile.interface_name:
                found.setdefault(profile.interface_name, []).append(profile)
        return found

    @cached_property
    def _by_address(self) -> dict[str | None, list[Profile]]:
        """Profiles without an interface name: by MAC address, None for any."""
        found: dict[str | None, list[Profile]] = {}
        for profile in self.profiles:
            if not profile.interface_name:
                found.setdefault(profile.mac_address, []).append(profile)
        return found

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of all links."""
        return frozenset(link.name for link in self._links)

    @cached_property
    def addresses(self) -> frozenset[str]:
        """MAC addresses with which profiles are compared."""
        found = (_permanent(link, self.device(link)) for link in self._links)
        return frozenset(address for address in found if address)

    def is_named(self, name: str) -> bool:
        """Whether a profile is bound to this interface name, even if it does not fit otherwise."""
        return name in self._by_interface

    def device(self, link: Link) -> ManagedDevice | None:
        return self._devices.get(link.ifindex)

    def active(self, link: Link) -> Profile | None:
        """The profile that is active or being activated on the link."""
        return self._active.get(link.ifindex)

    @cached_property
    def _active(self) -> dict[int, Profile]:
        """By ifindex."""
        found: dict[int, Profile] = {}
        for ifindex, device in self._devices.items():
            profile = self.by_uuid.get(device.active_profile or "")
            if profile is not None:
                found[ifindex] = profile
        return found

    def candidates(self, link: Link) -> list[Profile]:
        """Profiles whose interface name and MAC address fit the link, in no order."""
        found = [*self._by_interface.get(link.name, ())]
        if not self._by_address:
            return found
        found += self._by_address.get(None, ())
        address = _permanent(link, self.device(link))
        if address is not None:
            found += self._by_address.get(address, ())
        return found

    def fitting(self, link: Link) -> tuple[ProfileMatch, ...]:
        """Profiles that fit the link, in NetworkManager's order; without external ones."""
        found = self._of_link.get(link.ifindex)
        if found is None:
            found = self._of_link[link.ifindex] = self._fitting(link)
        return found

    def _fitting(self, link: Link) -> tuple[ProfileMatch, ...]:
        candidates = [profile for profile in self.candidates(link) if not profile.external]
        matches = [self.match(profile, link) for profile in candidates]
        fitting = [match for match in matches if match.fits]
        return tuple(sorted(fitting, key=lambda match: autoconnect_order(match.profile)))

    def user_profiles(self, link: Link) -> tuple[ProfileMatch, ...]:
        """Fitting profiles that a user or tool wrote: not generated, not volatile."""
        found = []
        for match in self.fitting(link):
            if not match.profile.generated and not match.profile.volatile:
                found.append(match)
        return tuple(found)

    def generated(self, link: Link) -> Profile | None:
        """The default profile that NetworkManager generated for the link."""
        for match in self.fitting(link):
            if is_generated_default(match.profile):
                return match.profile
        return None

    def attempted(self, link: Link) -> Profile | None:
        """The profile that is being activated; for a disconnected link the one that would be
        activated if it had not failed before. None if it is a generated one."""
        profile = self.active(link) or self._next(link)
        if profile is None or profile.generated:
            return None
        return profile

    def _next(self, link: Link) -> Profile | None:
        """The profile that NetworkManager would activate on a link that has none."""
        device = self.device(link)
        if device is None or is_disconnected_by_user(device):
            return None
        if link.carrier is not True:
            return None
        for match in self.fitting(link):
            if not match.wait_reason:
                return match.profile
        return None

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
        """The interface name or MAC address of the profile that no link has, as a text; "" when it
        may fit a link, or creates its own device."""
        if profile.external or profile.type not in (ETHERNET, INFINIBAND):
            return ""
        if profile.interface_name and profile.interface_name not in self.names:
            return f"interface {profile.interface_name} does not exist"
        if profile.mac_address and profile.mac_address not in self.addresses:
            return f"no interface has MAC address {profile.mac_address}"
        return ""


def profile_matches(snapshot: Snapshot) -> ProfileMatches:
    """Made once while only readings are new: each link asks for it."""
    known: ProfileMatches | None = snapshot.kept.get(ProfileMatches)
    if known is None:
        known = snapshot.kept[ProfileMatches] = ProfileMatches(snapshot)
    return known


def _command_line(snapshot: Snapshot) -> tuple[str, ...]:
    """Parameters of the kernel of a host."""
    if snapshot.inventory is None:
        return ()
    return tuple((snapshot.inventory.settings.command_line or "").split())


def autoconnect_order(profile: Profile) -> tuple[bool, int, int, str]:
    """NetworkManager's sort key: the first fitting profile is activated. Without autoconnect the
    priority does not count."""
    return (
        not profile.autoconnect,
        -profile.autoconnect_priority * profile.autoconnect,
        -profile.timestamp,
        profile.uuid,
    )


def _failed_match(profile: Profile, link: Link) -> str:
    """The first of the lists ``match.*`` that does not contain the link."""
    path = f"pci-{link.pci_address}" if link.pci_address else None
    for name, patterns, text in (
        ("interface-name", profile.match_interface_names, link.name),
        ("driver", profile.match_drivers, kernel_driver(link)),
        ("path", profile.match_paths, path),
    ):
        if patterns and text is not None and not fits_patterns(patterns, text):
            return f"match.{name} is {' '.join(patterns)}"
    return ""


def is_disconnected_by_user(device: ManagedDevice) -> bool:
    """After ``nmcli device disconnect`` or ``nmcli con down``: the device stays disconnected until
    a user connects it."""
    if not device.autoconnect:
        return True
    return device.state == DISCONNECTED and device.reason == USER_REQUESTED


def is_in_memory(profile: Profile) -> bool:
    """Without a copy on disk that is in use: made or changed by ``nmcli con add/mod --temporary``,
    or generated. NetworkManager keeps such a profile in /run; netplan writes its own ones there at
    each boot."""
    name = profile.filename or RUN_PROFILES
    return name.startswith(RUN_PROFILES) and not name.startswith(NETPLAN_PROFILES)


def is_generated_default(profile: Profile) -> bool:
    """Generated by NetworkManager because no other profile fitted; not one that describes an
    external configuration."""
    if profile.nm_generated_default:
        return True
    if profile.external or profile.volatile:
        return False
    return profile.generated


def mismatch_reason(
    profile: Profile, link: Link, device: ManagedDevice | None, command_line: Iterable[str]
) -> str:
    """Why a profile does not fit a link; "" when it does."""
    if profile.interface_name and profile.interface_name != link.name:
        reason = f"is bound to {profile.interface_name}"
        if profile.interface_name in link.altnames:
            reason += " (an altname; profiles match the name only)"
        return reason
    accepted = _accepted_types(device)
    if accepted and profile.type not in accepted:
        return f"is of type {profile.type}, device needs {accepted[0]}"
    failed = _failed_match(profile, link)
    if failed:
        return failed
    parameters = profile.match_kernel_command_line
    if parameters and not has_parameters(parameters, tuple(command_line)):
        return f"match.kernel-command-line is {' '.join(parameters)}"
    return _address_mismatch(profile, _permanent(link, device))


def _accepted_types(device: ManagedDevice | None) -> tuple[str, ...]:
    """``connection.type`` of profiles that a device accepts; (): not known."""
    if device is None:
        return ()
    return TYPES_OF_DEVICE.get(device.type, ())


def _address_mismatch(profile: Profile, permanent: str | None) -> str:
    if permanent is None:
        if profile.mac_address:
            return "is bound to a MAC address; this interface has none"
        return ""
    if profile.mac_address and profile.mac_address != permanent:
        return f"is bound to MAC {profile.mac_address}"
    if permanent in profile.mac_address_denylist:
        return "excludes this MAC address (mac-address-denylist)"
    return ""


def fits_patterns(patterns: Iterable[str], text: str) -> bool:
    """Evaluate a ``match.*`` list: ``&`` patterns must match; of those with ``|`` or no prefix, at
    least one must; ``!`` negates; ``\\`` ends the prefix."""
    return _holds(patterns, lambda pattern: matches(text, pattern))


def has_parameters(patterns: Iterable[str], command_line: tuple[str, ...]) -> bool:
    """Evaluate ``match.kernel-command-line``: a pattern is a whole word, or with ``=`` a key and
    value; a key alone matches any value."""

    def is_there(pattern: str) -> bool:
        return any(word == pattern or word.startswith(f"{pattern}=") for word in command_line)

    return _holds(patterns, is_there)


def _holds(patterns: Iterable[str], holds: Callable[[str], bool]) -> bool:
    has_optional = is_optional_met = False
    for prefixed in patterns:
        is_mandatory, is_inverted, pattern = _without_prefix(prefixed)
        is_match = holds(pattern) != is_inverted
        if is_mandatory:
            if not is_match:
                return False
        else:
            has_optional = True
            is_optional_met = is_optional_met or is_match
    return is_optional_met or not has_optional


def _without_prefix(prefixed: str) -> tuple[bool, bool, str]:
    """(must match, is negated, pattern) of a pattern of a ``match.*`` list."""
    is_mandatory = prefixed.startswith(("&", "!"))
    pattern = prefixed
    if pattern.startswith(("&", "|")):
        pattern = pattern[1:]
    is_inverted = pattern.startswith("!")
    if is_inverted:
        pattern = pattern[1:]
    return is_mandatory, is_inverted, pattern.removeprefix("\\")


def _permanent(link: Link, device: ManagedDevice | None) -> str | None:
    """The MAC address with which profiles are compared: without a permanent one NetworkManager uses
    the present one (it calls that a fake address, and does not report it over D-Bus)."""
    if device is not None and device.permanent_address:
        return device.permanent_address
    return link.permanent_address or link.address
