"""The Profile panel: manager of a netdev, its active profile, other profiles that fit, profiles without a device.

Reads nothing; returns sections of unsanitized text. Names of profiles are free text of the host.
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.facts.sections import Fact, Section, section
from nictop.model.managers.configuration import LinkConfiguration
from nictop.model.managers.link_managers import LinkManager, is_managed, link_manager
from nictop.model.managers.networkmanager_states import ip_settings_text
from nictop.model.managers.profile_match import (
    TYPES_OF_DEVICE,
    ProfileMatch,
    ProfileMatches,
    is_generated_default,
    is_in_memory,
)
from nictop.model.snapshot import ARPHRD_VOID, Snapshot
from nictop.model.text.words import Tone, absence_reason, count_noun, is_esxi
from nictop.probe.records import Inventory, Link, ManagedDevice, NetworkManagerConfiguration, Profile

MAX_PROFILE_LINES = 30
"""Number of listed profiles; a machine with more has them for other devices."""
DISTRIBUTION_PATHS = ("/usr/lib/", "/lib/")
"""Directories of files that come with the distribution, not from the administrator."""
PENDING_FACT = Fact("Managed by", "inventory pending", "dim")


def profile_sections(link: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    """Sections for a netdev: manager, active profile, other profiles. Not empty, except for those of an ESXi host."""
    inventory = snapshot.inventory
    if inventory is not None and is_esxi(inventory.platform):
        return ()
    if inventory is None or link.type == ARPHRD_VOID:
        return section("Manager", [PENDING_FACT])
    matches = ProfileMatches(snapshot)
    manager = link_manager(link, inventory, LinkConfiguration(inventory))
    active = matches.active(link)
    return (
        *section("Manager", _manager(manager, link, matches, inventory)),
        *section("Active profile", _profile(active, matches) if active is not None else []),
        *section("Other profiles", list(_others(link, matches, active))),
    )


def host_profile_sections(snapshot: Snapshot) -> tuple[Section, ...]:
    """Sections for a host: the managers, and the profiles that fit no device, with the reason. ESXi has neither."""
    inventory = snapshot.inventory
    if inventory is not None and is_esxi(inventory.platform):
        return ()
    if inventory is None:
        return section("Network managers", [PENDING_FACT])
    matches = ProfileMatches(snapshot)
    return (
        *section("Network managers", list(_managers(inventory, matches))),
        *section("Profiles without a device", list(_unusable_profiles(matches))),
    )


# ---------------------------------------------------------------------------------------------------------- netdev


def _manager(manager: LinkManager, link: Link, matches: ProfileMatches, inventory: Inventory) -> list[Fact]:
    why = inventory.unreadable.get("networkmanager")
    if manager.name == "none" and why is not None:  # it may be managed by what was not read
        return [Fact("Managed by", f"not known: NetworkManager {absence_reason(why, None)}", "dim")]
    if manager.name == "none":
        facts = [Fact("Managed by", f"none ({manager.state})", "dim")]
    else:
        source = f" (configuration from {manager.written_by})" if manager.written_by else ""
        facts = [Fact("Managed by", manager.name + source)]
        if manager.state:
            facts.append(Fact("State", manager.state, manager.tone))
    facts += [Fact("File", file) for file in manager.files[:3]]
    device = matches.device(link)
    if device is not None and manager.name == "NetworkManager" and not device.autoconnect:
        facts.append(Fact("Autoconnect", "off for this device (until a profile is activated manually)", "warn"))
    if device is not None and device.applied is not None:
        facts.append(Fact("Applied", "settings from before the last change of the profile", "warn"))
    if why is not None:
        facts.append(Fact("NetworkManager", absence_reason(why, None), "warn"))
    return facts


def _profile(profile: Profile, matches: ProfileMatches) -> list[Fact]:
    """All facts of the active profile."""
    origin, tone = _origin(profile)
    facts = [
        Fact("Profile", profile.id or "unnamed"),
        Fact("UUID", profile.uuid),
        Fact("Storage", origin, tone),
        Fact("File", profile.filename or "none (in memory)", "normal" if profile.filename else "warn"),
        Fact("Autoconnect", _autoconnect(profile)),
        Fact("IPv4", ip_settings_text(profile.ipv4, "ipv4")),
        Fact("IPv6", ip_settings_text(profile.ipv6, "ipv6")),
    ]
    bound = _bound_to(profile)
    facts.append(Fact("Bound to", bound or "any device", "normal" if bound else "warn"))
    if profile.controller:
        controller = matches.by_uuid.get(profile.controller)
        facts.append(Fact("Controller", controller.id if controller is not None else profile.controller))
    if matches.ids.get(profile.id, 0) > 1:
        facts.append(Fact("Name", f"not unique ({matches.ids[profile.id]} profiles): use the UUID", "warn"))
    return facts


def _origin(profile: Profile) -> tuple[str, Tone]:
    if profile.external:
        return "external (configured outside NetworkManager)", "dim"
    if is_generated_default(profile):
        return "auto-generated, in memory", "warn"
    if profile.volatile:
        return "in memory, deleted on deactivation", "warn"
    if is_in_memory(profile):
        return "in memory, lost on reboot" if profile.filename is None else "in /run, lost on reboot", "warn"
    if profile.unsaved:
        return "on disk, with unsaved changes in memory", "warn"
    return "on disk", "good"


def _autoconnect(profile: Profile) -> str:
    if not profile.autoconnect:
        return "no (manual activation only)"
    priority = f", priority {profile.autoconnect_priority}" if profile.autoconnect_priority else ""
    return f"yes{priority}"


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
    """Every other profile for this kind of device: the next one, those that wait, those that do not fit."""
    device = matches.device(link)
    shown = [one for one in matches.profiles if _could_concern(one, link, device) and one is not active]
    found = [matches.match(profile, link) for profile in shown[:MAX_PROFILE_LINES]]
    first = active is None and device is not None and is_managed(device)
    for match in sorted(found, key=lambda one: not one.fits):
        label, text, tone = _other(match, first=first)
        first = first and not (match.fits and not match.wait_reason)
        yield Fact(label, f'"{match.profile.id}" {text}', tone)
    if len(shown) > MAX_PROFILE_LINES:
        yield Fact("More", f"{len(shown) - MAX_PROFILE_LINES} profiles", "dim")
    yield from _unreadable_profiles(matches)


def _other(match: ProfileMatch, *, first: bool) -> tuple[str, str, Tone]:
    profile = match.profile
    if not match.fits:
        return "No match", match.mismatch, "dim"
    facts = f"{ip_settings_text(profile.ipv4, 'ipv4')}; autoconnect {_autoconnect(profile)}"
    generated = "; auto-generated" if is_generated_default(profile) else ""
    if match.wait_reason:
        return "Matches, waits", f"{match.wait_reason}; {facts}{generated}", "normal"
    return ("Matches, next" if first else "Matches"), f"{facts}{generated}", "good" if first else "normal"


def _could_concern(profile: Profile, link: Link, device: ManagedDevice | None) -> bool:
    """Whether it has the name of this link, or a type for this kind of device; external profiles are excluded."""
    if profile.external:
        return False
    types = TYPES_OF_DEVICE.get(device.type, ()) if device is not None else ()
    return profile.interface_name == link.name or profile.type in types


def _unreadable_profiles(matches: ProfileMatches) -> Iterable[Fact]:
    hidden = [one for one in matches.manager.profiles if not one.uuid] if matches.manager is not None else []
    if hidden:
        yield Fact("Not readable", f"{count_noun(len(hidden), 'profile')} of other users", "dim")
    why = matches.manager.unreadable.get("profiles") if matches.manager is not None else None
    if why is not None:
        yield Fact("Profiles", absence_reason(why, None), "warn")


# ------------------------------------------------------------------------------------------------------------ host


def _managers(inventory: Inventory, matches: ProfileMatches) -> Iterable[Fact]:
    manager = matches.manager
    if manager is not None:
        off = "" if manager.networking_enabled else ", networking disabled"
        starting = ", starting" if manager.startup else ""
        tone: Tone = "warn" if off or starting else "normal"
        yield Fact("NetworkManager", f"{manager.version or 'version unknown'}{off}{starting}", tone)
        devices = manager.devices.values()
        managed = [one for one in devices if one.state > 10 and not _is_external(one.active_profile, matches)]
        yield Fact("Managed", f"{len(managed)} of {count_noun(len(manager.devices), 'device')}")
        yield from _exclusions(manager.configuration)
    elif "networkmanager" in inventory.unreadable:
        yield Fact("NetworkManager", absence_reason(inventory.unreadable["networkmanager"], None), "warn")
    else:
        yield Fact("NetworkManager", "not running", "dim")
    if inventory.networkd or inventory.services.networkd is not None:
        own = [one for one in inventory.networkd.values() if one.setup_state not in ("unmanaged", "linger")]
        yield Fact("networkd", f"manages {len(own)} of {count_noun(len(inventory.networkd), 'link')}")
    files: dict[str, None] = {}
    for entry in inventory.configuration:
        if not entry.file.startswith(DISTRIBUTION_PATHS):
            files.setdefault(f"{entry.owner}: {entry.file}")
    for text in list(files)[:10]:
        yield Fact("Config file", text, "dim")


def _is_external(uuid: str | None, matches: ProfileMatches) -> bool:
    profile = matches.by_uuid.get(uuid) if uuid is not None else None
    return profile is not None and profile.external


def _exclusions(configuration: NetworkManagerConfiguration) -> Iterable[Fact]:
    where = configuration.origins.get("no_auto_default", "its configuration")
    if configuration.no_auto_default:
        yield Fact("no-auto-default", f"{', '.join(configuration.no_auto_default)} (in {where})")
    left = (*configuration.unmanaged_devices, *configuration.device_unmanaged)
    if left:
        yield Fact("Unmanaged", ", ".join(left))
    if configuration.dhcp:
        yield Fact("DHCP client", f"{configuration.dhcp} (in {configuration.origins.get('dhcp', 'its configuration')})")


def _unusable_profiles(matches: ProfileMatches) -> Iterable[Fact]:
    for profile in matches.profiles:
        why = matches.missing_binding(profile)
        if why:
            yield Fact("No device", f'"{profile.id}": {why}', "warn")
    yield from _unreadable_profiles(matches)
