"""The Profile panel: manager of a netdev, its active profile, other profiles that fit, profiles
without a device.

Reads nothing; returns sections of unsanitized text. Names of profiles are free text of the host.
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.facts.sections import Fact, Section, section
from nictop.model.managers.configuration import LinkConfiguration
from nictop.model.managers.link_managers import (
    LinkManager,
    is_managed,
    is_only_described,
    link_manager,
)
from nictop.model.managers.networkmanager_states import ip_settings_text
from nictop.model.managers.profile_match import (
    TYPES_OF_DEVICE,
    ProfileMatch,
    ProfileMatches,
    is_generated_default,
    is_in_memory,
    profile_matches,
)
from nictop.model.snapshot import Snapshot, is_unread_link
from nictop.model.text.words import Tone, absence_reason, count_noun, is_esxi, warn_if
from nictop.probe.records import (
    Inventory,
    Link,
    ManagedDevice,
    NetworkManager,
    NetworkManagerConfiguration,
    Profile,
)

MAX_FILE_LINES = 10
MAX_NAMED_DEVICES = 4
MAX_PROFILE_LINES = 30
"""Number of listed profiles; a machine with more has them for other devices."""
DISTRIBUTION_PATHS = ("/usr/lib/", "/lib/")
"""Directories of files that come with the distribution, not from the administrator."""
PENDING_FACT = Fact("Managed by", "inventory pending", "dim")


def profile_sections(link: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    """Sections for a netdev: manager, active profile, other profiles. Not empty, except for those
    of an ESXi host."""
    inventory = snapshot.inventory
    if inventory is not None and is_esxi(inventory.platform):
        return ()
    if inventory is None or is_unread_link(link):
        return section("Manager", [PENDING_FACT])
    matches = profile_matches(snapshot)
    configuration = snapshot.configuration or LinkConfiguration(inventory)
    manager = link_manager(link, inventory, configuration)
    active = matches.active(link)
    active_facts: list[Fact] = []
    if active is not None:
        active_facts = _profile(active, matches)
    return (
        *section("Manager", _manager(manager, link, matches, inventory)),
        *section("Active profile", active_facts),
        *section("Other profiles", list(_others(link, matches, active))),
    )


def host_profile_sections(snapshot: Snapshot) -> tuple[Section, ...]:
    """Sections for a host: the managers, and the profiles that fit no device, with the reason. ESXi
    has neither."""
    inventory = snapshot.inventory
    if inventory is not None and is_esxi(inventory.platform):
        return ()
    if inventory is None:
        return section("Network managers", [PENDING_FACT])
    matches = profile_matches(snapshot)
    return (
        *section("Network managers", list(_managers(inventory, matches))),
        *section("Profiles without a device", list(_unusable_profiles(matches))),
    )


# ------------------------------------------------------------------------------------------- netdev


def _manager(
    manager: LinkManager, link: Link, matches: ProfileMatches, inventory: Inventory
) -> list[Fact]:
    why = inventory.unreadable.get("networkmanager")
    if manager.name == "none" and why is not None:  # it may be managed by what was not read
        return [Fact("Managed by", f"not known: NetworkManager {absence_reason(why, None)}", "dim")]
    facts = _manager_facts(manager)
    device = matches.device(link)
    if device is not None:
        facts += _device_facts(device, manager)
    if why is not None:
        facts.append(Fact("NetworkManager", absence_reason(why, None), "warn"))
    return facts


def _manager_facts(manager: LinkManager) -> list[Fact]:
    """Its name, its state, and the files that it reads for the link."""
    files = [Fact("File", file) for file in manager.files[:3]]
    if manager.name == "none":
        return [Fact("Managed by", f"none ({manager.state})", "dim"), *files]
    name: str = manager.name
    if manager.written_by:
        name += f" (configuration from {manager.written_by})"
    facts = [Fact("Managed by", name)]
    if manager.state:
        facts.append(Fact("State", manager.state, manager.tone))
    return [*facts, *files]


def _device_facts(device: ManagedDevice, manager: LinkManager) -> list[Fact]:
    """What NetworkManager does otherwise for this device than for others."""
    facts = []
    if manager.name == "NetworkManager" and not device.autoconnect:
        text = "off for this device (until a profile is activated manually)"
        facts.append(Fact("Autoconnect", text, "warn"))
    if device.applied is not None:
        facts.append(Fact("Applied", "settings from before the last change of the profile", "warn"))
    return facts


def _profile(profile: Profile, matches: ProfileMatches) -> list[Fact]:
    """All facts of the active profile."""
    origin, tone = _origin(profile)
    facts = [
        Fact("Profile", profile.id or "unnamed"),
        Fact("UUID", profile.uuid),
        Fact("Storage", origin, tone),
        Fact("File", profile.filename or "none (in memory)", warn_if(not profile.filename)),
        Fact("Autoconnect", _autoconnect(profile)),
        Fact("IPv4", ip_settings_text(profile.ipv4, "ipv4")),
        Fact("IPv6", ip_settings_text(profile.ipv6, "ipv6")),
    ]
    bound = _bound_to(profile)
    facts.append(Fact("Bound to", bound or "any device", warn_if(not bound)))
    if profile.controller:
        facts.append(Fact("Controller", _controller_name(profile.controller, matches)))
    if matches.ids.get(profile.id, 0) > 1:
        facts.append(
            Fact("Name", f"not unique ({matches.ids[profile.id]} profiles): use the UUID", "warn")
        )
    return facts


def _controller_name(controller: str, matches: ProfileMatches) -> str:
    """Name of the profile with this UUID; a profile may also name an interface."""
    profile = matches.by_uuid.get(controller)
    if profile is None:
        return controller
    return profile.id


def _origin(profile: Profile) -> tuple[str, Tone]:
    if profile.external:
        return "in memory, made to describe what others have configured", "dim"
    if is_generated_default(profile):
        return "auto-generated, in memory", "warn"
    if profile.volatile:
        return "in memory, deleted on deactivation", "warn"
    if is_in_memory(profile):
        if profile.filename is None:
            return "in memory, lost on reboot", "warn"
        return "in /run, lost on reboot", "warn"
    if profile.unsaved:
        return "on disk, with unsaved changes in memory", "warn"
    return "on disk", "good"


def _autoconnect(profile: Profile) -> str:
    if not profile.autoconnect:
        return "no (manual activation only)"
    if profile.autoconnect_priority:
        return f"yes, priority {profile.autoconnect_priority}"
    return "yes"


def _bound_to(profile: Profile) -> str:
    parts = []
    if profile.interface_name:
        parts.append(f"interface {profile.interface_name}")
    if profile.mac_address:
        parts.append(f"MAC {profile.mac_address}")
    for name, patterns in (
        ("match.interface-name", profile.match_interface_names),
        ("match.driver", profile.match_drivers),
        ("match.path", profile.match_paths),
        ("match.kernel-command-line", profile.match_kernel_command_line),
    ):
        if patterns:
            parts.append(f"{name} {' '.join(patterns)}")
    return " · ".join(parts)


def _others(link: Link, matches: ProfileMatches, active: Profile | None) -> Iterable[Fact]:
    """Every other profile for this kind of device: the next one, those that wait, those that do not
    fit."""
    device = matches.device(link)
    shown = [
        profile
        for profile in matches.profiles
        if profile is not active and _could_concern(profile, link, device)
    ]
    found = [matches.match(profile, link) for profile in shown[:MAX_PROFILE_LINES]]
    is_next = active is None and device is not None and is_managed(device)
    for match in sorted(found, key=lambda match: not match.fits):
        label, text, tone = _other(match, first=is_next)
        if match.fits and not match.wait_reason:
            is_next = False
        yield Fact(label, f'"{match.profile.id}" {text}', tone)
    if len(shown) > MAX_PROFILE_LINES:
        yield Fact("More", f"{len(shown) - MAX_PROFILE_LINES} profiles", "dim")
    yield from _unreadable_profiles(matches)


def _other(match: ProfileMatch, *, first: bool) -> tuple[str, str, Tone]:
    profile = match.profile
    if not match.fits:
        return "No match", match.mismatch, "dim"
    facts = f"{ip_settings_text(profile.ipv4, 'ipv4')}; autoconnect {_autoconnect(profile)}"
    if is_generated_default(profile):
        facts += "; auto-generated"
    if match.wait_reason:
        return "Matches, waits", f"{match.wait_reason}; {facts}", "normal"
    if first:
        return "Matches, next", facts, "good"
    return "Matches", facts, "normal"


def _could_concern(profile: Profile, link: Link, device: ManagedDevice | None) -> bool:
    """Whether it has the name of this link, or a type for this kind of device; external profiles
    are excluded."""
    if profile.external:
        return False
    if profile.interface_name == link.name:
        return True
    return device is not None and profile.type in TYPES_OF_DEVICE.get(device.type, ())


def _unreadable_profiles(matches: ProfileMatches) -> Iterable[Fact]:
    if matches.manager is None:
        return
    hidden = [profile for profile in matches.manager.profiles if not profile.uuid]
    if hidden:
        yield Fact("Not readable", f"{count_noun(len(hidden), 'profile')} of other users", "dim")
    why = matches.manager.unreadable.get("profiles")
    if why is not None:
        yield Fact("Profiles", absence_reason(why, None), "warn")


# --------------------------------------------------------------------------------------------- host


def _managers(inventory: Inventory, matches: ProfileMatches) -> Iterable[Fact]:
    """Which managers run, how many links they have, and the files that they read."""
    yield from _networkmanager(inventory, matches)
    if inventory.networkd or inventory.services.networkd is not None:
        states = [link.setup_state for link in inventory.networkd.values()]
        own = [state for state in states if state not in ("unmanaged", "linger")]
        yield Fact("networkd", f"manages {len(own)} of {count_noun(len(states), 'link')}")
    files: dict[str, None] = {}
    for entry in inventory.configuration:
        if not entry.file.startswith(DISTRIBUTION_PATHS):
            files.setdefault(f"{entry.owner}: {entry.file}")
    for text in list(files)[:MAX_FILE_LINES]:
        yield Fact("Config file", text, "dim")


def _networkmanager(inventory: Inventory, matches: ProfileMatches) -> Iterable[Fact]:
    """Its version and state, and the devices that it manages; or why it is not known."""
    manager = matches.manager
    if manager is None and "networkmanager" in inventory.unreadable:
        why = absence_reason(inventory.unreadable["networkmanager"], None)
        yield Fact("NetworkManager", why, "warn")
        return
    if manager is None:
        yield Fact("NetworkManager", "not running", "dim")
        return
    parts = [manager.version or "version unknown"]
    if not manager.networking_enabled:
        parts.append("networking disabled")
    if manager.startup:
        parts.append("starting")
    yield Fact("NetworkManager", ", ".join(parts), warn_if(len(parts) > 1))
    yield Fact("Managed", _managed_text(manager, matches))
    yield from _exclusions(manager.configuration)


def _managed_text(manager: NetworkManager, matches: ProfileMatches) -> str:
    """``4 of 4 devices; not configured by it: lo``: as nmcli counts, which has those that something
    else has set up as managed, too ("connected (externally)")."""
    managed = [device for device in manager.devices.values() if is_managed(device)]
    text = f"{len(managed)} of {count_noun(len(manager.devices), 'device')}"
    others = []
    for device in managed:
        profile = matches.by_uuid.get(device.active_profile or "")
        if is_only_described(device, profile):
            others.append(device.interface)
    if not others:
        return text
    names = f": {', '.join(others)}" if len(others) <= MAX_NAMED_DEVICES else f": {len(others)}"
    return f"{text}; not configured by it{names}"


def _exclusions(configuration: NetworkManagerConfiguration) -> Iterable[Fact]:
    where = configuration.origins.get("no_auto_default", "its configuration")
    if configuration.no_auto_default:
        yield Fact("no-auto-default", f"{', '.join(configuration.no_auto_default)} (in {where})")
    left = (*configuration.unmanaged_devices, *configuration.device_unmanaged)
    if left:
        yield Fact("Unmanaged", ", ".join(left))
    if configuration.dhcp:
        yield Fact(
            "DHCP client",
            f"{configuration.dhcp} (in {configuration.origins.get('dhcp', 'its configuration')})",
        )


def _unusable_profiles(matches: ProfileMatches) -> Iterable[Fact]:
    for profile in matches.profiles:
        why = matches.missing_binding(profile)
        if why:
            yield Fact("No device", f'"{profile.id}": {why}', "warn")
    yield from _unreadable_profiles(matches)
