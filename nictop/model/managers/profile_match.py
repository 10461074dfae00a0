"""Profiles and links: which fit, which NetworkManager would take, and why the others are left.

Reads nothing; follows NetworkManager's sources: `check_connection_compatible` of nm-device.c and nm-device-ethernet.c
decide what fits, `_auto_activate_device` of nm-policy.c takes the first that may connect by itself, in the order of
`nm_settings_connection_cmp_autoconnect_priority` (autoconnect, priority, youngest first, UUID). A profile's
interface-name is compared with the interface's own name; altnames do not count there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from nictop.model.managers.configuration import kernel_driver
from nictop.model.managers.networkmanager_states import DISCONNECTED, USER_REQUESTED
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Link, ManagedDevice, NetworkManager, Profile
from nictop.wildcards import matches

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
"""NM_DEVICE_TYPE_* → values of ``connection.type`` that such a device can run; of others nothing is known."""
MULTIPLE = 3
"""``connection.multi-connect``: may be up on several devices at once."""
GENERATED_PRIORITY = -999


@dataclass(frozen=True)
class ProfileMatch:
    """What one profile means to one link."""

    profile: Profile
    unfit: str = ""
    """Why it cannot run this link; "" when it can."""
    waits: str = ""
    """Fits, but why NetworkManager would not bring it up there by itself; "" when it would."""

    @property
    def fits(self) -> bool:
        return not self.unfit


class ProfileMatches:
    """The profiles of one host, looked up by what binds them: cheap for any number of links."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._links = tuple(snapshot.links.values())
        inventory = snapshot.inventory
        self.manager: NetworkManager | None = inventory.networkmanager if inventory is not None else None
        settings = inventory.settings if inventory is not None else None
        self._command_line = tuple((settings.command_line or "").split()) if settings is not None else ()
        self._of_link: dict[int, tuple[ProfileMatch, ...]] = {}

    @cached_property
    def profiles(self) -> tuple[Profile, ...]:
        """Those that could be read, best first: NetworkManager's own order."""
        if self.manager is None:
            return ()
        return tuple(sorted((one for one in self.manager.profiles if one.uuid), key=order))

    @cached_property
    def by_uuid(self) -> dict[str, Profile]:
        return {profile.uuid: profile for profile in self.profiles}

    @cached_property
    def ids(self) -> dict[str, int]:
        """How many profiles carry a name."""
        found: dict[str, int] = {}
        for profile in self.profiles:
            found[profile.id] = found.get(profile.id, 0) + 1
        return found

    @cached_property
    def active_on(self) -> dict[str, tuple[str, ...]]:
        """UUID → interfaces on which the profile is up or coming up."""
        found: dict[str, tuple[str, ...]] = {}
        for device in self.manager.devices.values() if self.manager is not None else ():
            if device.active_profile:
                found[device.active_profile] = (*found.get(device.active_profile, ()), device.interface)
        return found

    @cached_property
    def _bound(self) -> dict[str, list[Profile]]:
        return _grouped((one.interface_name, one) for one in self.profiles if one.interface_name)

    @cached_property
    def _unbound(self) -> dict[str | None, list[Profile]]:
        """Without an interface name: by MAC address, None for any."""
        return _grouped((one.mac_address, one) for one in self.profiles if not one.interface_name)

    @cached_property
    def names(self) -> frozenset[str]:
        """Of all links."""
        return frozenset(link.name for link in self._links)

    @cached_property
    def addresses(self) -> frozenset[str]:
        """MAC addresses that profiles are compared with."""
        devices = self.manager.devices if self.manager is not None else {}
        found = (_permanent(link, devices.get(link.ifindex)) for link in self._links)
        return frozenset(address for address in found if address)

    def is_named(self, name: str) -> bool:
        """Some profile is bound to this interface name, whether it fits or not."""
        return name in self._bound

    def device(self, link: Link) -> ManagedDevice | None:
        return self.manager.devices.get(link.ifindex) if self.manager is not None else None

    def active(self, link: Link) -> Profile | None:
        """The profile that is up or coming up on the link."""
        device = self.device(link)
        return self.by_uuid.get(device.active_profile) if device is not None and device.active_profile else None

    def candidates(self, link: Link) -> list[Profile]:
        """Profiles that fit the link as far as name and MAC address go, in no order."""
        address = _permanent(link, self.device(link))
        found = [*self._bound.get(link.name, ()), *self._unbound.get(None, ())]
        return found + self._unbound.get(address, []) if address is not None else found

    def fitting(self, link: Link) -> tuple[ProfileMatch, ...]:
        """Profiles that can run the link, the one NetworkManager would take first; not those that only describe."""
        found = self._of_link.get(link.ifindex)
        if found is None:
            judged = (self.match(profile, link) for profile in self.candidates(link) if not profile.external)
            found = tuple(sorted((one for one in judged if one.fits), key=lambda one: order(one.profile)))
            self._of_link[link.ifindex] = found
        return found

    def proper(self, link: Link) -> tuple[ProfileMatch, ...]:
        """Those of them that somebody wrote: not generated, not volatile."""
        return tuple(one for one in self.fitting(link) if not one.profile.generated and not one.profile.volatile)

    def generated(self, link: Link) -> Profile | None:
        """The profile that NetworkManager made up for the link."""
        return next((one.profile for one in self.fitting(link) if is_made_up(one.profile)), None)

    def tried(self, link: Link) -> Profile | None:
        """The profile that is being activated; of a disconnected link the one that would be, had it not failed before.
        None for those that NetworkManager made up."""
        active, device = self.active(link), self.device(link)
        if active is not None:
            return None if active.generated else active
        if link.carrier is not True or device is None or is_off_by_hand(device):
            return None
        first = next((one for one in self.fitting(link) if not one.waits), None)
        return None if first is None or first.profile.generated else first.profile

    def match(self, profile: Profile, link: Link) -> ProfileMatch:
        """Whether a profile fits a link, and whether it would connect by itself."""
        device = self.device(link)
        unfit = why_unfit(profile, link, device, self._command_line)
        if unfit:
            return ProfileMatch(profile, unfit)
        return ProfileMatch(profile, waits=self._why_waiting(profile, link, device))

    def _why_waiting(self, profile: Profile, link: Link, device: ManagedDevice | None) -> str:
        elsewhere = [name for name in self.active_on.get(profile.uuid, ()) if name != link.name]
        if elsewhere and profile.multi_connect != MULTIPLE:
            return f"is up on {', '.join(elsewhere)}"
        if not profile.autoconnect:
            return "does not connect by itself: connection.autoconnect is no"
        if profile.permissions:
            return f"waits for a login of {', '.join(profile.permissions)}"
        if profile.controller and not self._has_controller(profile.controller):
            return f"waits for {profile.controller}, which it is a port of"
        if device is not None and is_off_by_hand(device):
            return "waits: the device was disconnected by hand"
        return ""

    def _has_controller(self, name: str) -> bool:
        return name in self.names or name in self.active_on

    def missing_binding(self, profile: Profile) -> str:
        """Why a profile fits no link at all: the name or the address that no link has; "" when it may fit one, or makes
        its own device."""
        if profile.external or profile.type not in (ETHERNET, INFINIBAND):
            return ""
        if profile.interface_name and profile.interface_name not in self.names:
            return f"no interface is called {profile.interface_name}"
        if profile.mac_address and profile.mac_address not in self.addresses:
            return f"no interface has the MAC address {profile.mac_address}"
        return ""


def order(profile: Profile) -> tuple[bool, int, int, str]:
    """NetworkManager's order: the first that fits is taken. Without autoconnect the priority does not count."""
    return (
        not profile.autoconnect,
        -profile.autoconnect_priority * profile.autoconnect,
        -profile.timestamp,
        profile.uuid,
    )


def is_off_by_hand(device: ManagedDevice) -> bool:
    """After ``nmcli device disconnect`` or ``nmcli con down``: nothing connects it until somebody does."""
    return not device.autoconnect or (device.state == DISCONNECTED and device.reason == USER_REQUESTED)


def is_made_up(profile: Profile) -> bool:
    """NetworkManager wrote it because no other fitted: not one that describes what somebody else set up."""
    return profile.nm_generated_default or (profile.generated and not profile.external and not profile.volatile)


def why_unfit(profile: Profile, link: Link, device: ManagedDevice | None, command_line: Iterable[str]) -> str:
    """Why a profile cannot run a link, "" when it can."""
    if profile.interface_name and profile.interface_name != link.name:
        also = ", which is only an altname of it" if profile.interface_name in link.altnames else ""
        return f"is for interface {profile.interface_name}{also}"
    wanted = TYPES_OF_DEVICE.get(device.type) if device is not None else None
    if wanted is not None and profile.type not in wanted:
        return f"is of type {profile.type}, the device needs {wanted[0]}"
    if profile.match_interface_names and not wildcards(profile.match_interface_names, link.name):
        return f"match.interface-name is {' '.join(profile.match_interface_names)}"
    if profile.match_drivers and not wildcards(profile.match_drivers, kernel_driver(link)):
        return f"match.driver is {' '.join(profile.match_drivers)}"
    if profile.match_paths and link.pci_address and not wildcards(profile.match_paths, f"pci-{link.pci_address}"):
        return f"match.path is {' '.join(profile.match_paths)}"
    if profile.match_kernel_command_line and not kernel_words(profile.match_kernel_command_line, tuple(command_line)):
        return f"match.kernel-command-line is {' '.join(profile.match_kernel_command_line)}"
    return _why_wrong_address(profile, _permanent(link, device))


def _why_wrong_address(profile: Profile, permanent: str | None) -> str:
    if permanent is None:
        return "is for a MAC address, and this link has none" if profile.mac_address else ""
    if profile.mac_address and profile.mac_address != permanent:
        return f"is for MAC address {profile.mac_address}"
    if permanent in profile.mac_address_denylist:
        return "its denylist of MAC addresses has this one"
    return ""


def wildcards(patterns: Iterable[str], text: str) -> bool:
    """``match.*`` lists: ``&`` must hold, ``|`` or nothing: one of these must, ``!`` not; ``\\`` ends the prefix."""
    return _holds(patterns, lambda pattern: matches(text, pattern))


def kernel_words(patterns: Iterable[str], command_line: tuple[str, ...]) -> bool:
    """``match.kernel-command-line``: a whole word, or with ``=`` word and value; any value when only a key is given."""
    return _holds(
        patterns, lambda pattern: any(word == pattern or word.startswith(f"{pattern}=") for word in command_line)
    )


def _holds(patterns: Iterable[str], holds: Callable[[str], bool]) -> bool:
    any_optional = one_optional = False
    for whole in patterns:
        mandatory = whole.startswith(("&", "!"))
        pattern = whole[1:] if whole.startswith(("&", "|")) else whole
        inverted = pattern.startswith("!")
        pattern = pattern[1:] if inverted else pattern
        hit = holds(pattern[1:] if pattern.startswith("\\") else pattern) != inverted
        if mandatory and not hit:
            return False
        if not mandatory:
            any_optional = True
            one_optional = one_optional or hit
    return one_optional or not any_optional


def _permanent(link: Link, device: ManagedDevice | None) -> str | None:
    """The address that profiles are compared with: without a permanent one NetworkManager takes the present one (it
    calls that a fake, and does not tell it over D-Bus)."""
    return (device.permanent_address if device is not None else None) or link.permanent_address or link.address


def _grouped(pairs: Iterable[tuple[Key, Profile]]) -> dict[Key, list[Profile]]:
    found: dict[Key, list[Profile]] = {}
    for key, profile in pairs:
        found.setdefault(key, []).append(profile)
    return found
