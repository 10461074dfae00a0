"""What to type about profiles of NetworkManager: rename, bind, give a static address, make a new one.

Pure; used by the rules on profiles. A profile is named by its id where that is safe, and by its UUID where the id is
ambiguous, made up by NetworkManager, or would be read as something else by nmcli(1).
"""

from __future__ import annotations

from nictop.model.managers.profile_match import ETHERNET, GENERATED_PRIORITY, INFINIBAND, ProfileMatch
from nictop.model.text.terminal import is_clean
from nictop.probe.records import Address, Link, Profile
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import Command, command, shell_quote
from nictop.rules.host import HostFacts

ADDRESS_PLACEHOLDER = "<ADDRESS/PREFIX>"
AUTOCONNECT_PRIORITY = "connection.autoconnect-priority"
NMCLI_WORDS = frozenset(("id", "uuid", "path", "apath", "help", "temporary"))
"""Words that nmcli reads as such in the place of a name."""
SEVERAL_DEVICES = (2, 3)
"""``connection.multi-connect``: manual-multiple, multiple."""
MAX_NAME_CHARS = 28
"""Characters of a name in a title, which has one line."""
CONNECTION_TYPES = {ETHERNET: "ethernet", INFINIBAND: "infiniband"}
ARPHRD_INFINIBAND = 32


def quoted_name(name: str) -> str:
    """A name in a sentence: in double quotes, and not too long."""
    return f'"{name}"' if len(name) <= MAX_NAME_CHARS else f'"{name[: MAX_NAME_CHARS - 1]}…"'


def profile_arguments(host: HostFacts, profile: Profile) -> tuple[str, ...]:
    """How nmcli is told which profile: ``(ID,)`` or ``("uuid", UUID)``."""
    name = profile.id
    odd = not name or name in NMCLI_WORDS or name.startswith("-") or not is_clean(name)
    if odd or profile.generated or host.profiles.ids.get(name, 0) != 1 or name in host.profiles.by_uuid:
        return ("uuid", profile.uuid)
    return (name,)


def modify(host: HostFacts, profile: Profile, *settings: str) -> Command:
    """``nmcli con mod … SETTING VALUE``"""
    return command("nmcli", "con", "mod", *profile_arguments(host, profile), *settings)


def bring_up(host: HostFacts, profile: Profile) -> Command:
    return command("nmcli", "con", "up", *profile_arguments(host, profile))


def global_addresses(link: Link, family: str = "ipv4") -> tuple[Address, ...]:
    """Addresses that reach beyond the link and are not a duplicate of somebody's."""
    return tuple(one for one in link.addresses if one.family == family and one.scope == "global")


def has_address(link: Link) -> bool:
    """An address of either family that reaches beyond the link."""
    return any(one.scope == "global" for one in link.addresses)


def static_settings(link: Link) -> tuple[str, ...]:
    """``ipv4.method manual …`` with the addresses and the gateway that are there already, else a place to fill in."""
    found = [f"{one.address}/{one.prefix_length}" for one in global_addresses(link)]
    gateway = next((one.gateway for one in link.default_routes if one.family == "ipv4" and one.gateway), None)
    settings = ("ipv4.method", "manual", "ipv4.addresses", ",".join(found) or ADDRESS_PLACEHOLDER)
    return (*settings, "ipv4.gateway", gateway) if found and gateway else settings


def free_name(host: HostFacts, link: Link) -> str:
    """The interface's name, or with a number when another profile has it that will still be there tomorrow."""
    names = {profile.id for profile in host.profiles.profiles if not profile.external}
    candidates = (link.name, *(f"{link.name}-{number}" for number in range(2, len(names) + 3)))
    return next(name for name in candidates if name not in names)


def rename(host: HostFacts, link: Link, profile: Profile, *, static: bool) -> Fix:
    """Give a profile the name of the interface and bind it to that; `static`: and an address, as DHCP gives none."""
    name = free_name(host, link)
    # by UUID: between the lines the name changes
    which = ("uuid", profile.uuid)
    settings, before = ["connection.id", name, "connection.interface-name", link.name], ["connection.id", profile.id]
    if profile.interface_name != link.name:
        before += ["connection.interface-name", profile.interface_name or ""]
    if profile.autoconnect_priority == GENERATED_PRIORITY:  # else it would lose against any profile that comes later
        settings += [AUTOCONNECT_PRIORITY, "0"]
        before += [AUTOCONNECT_PRIORITY, str(GENERATED_PRIORITY)]
    lines = [command("nmcli", "con", "mod", *which, *settings)]
    undo = [command("nmcli", "con", "mod", *which, *before)]
    if not static:
        note = "It is saved to disk by that, stays up and keeps its addresses."
        return Fix("here", "rename the profile to the interface", tuple(lines), True, tuple(undo), note)
    lines.append(command("nmcli", "con", "mod", *which, *static_settings(link)))
    lines.append(command("nmcli", "con", "up", *which))
    undo.append(command("nmcli", "con", "mod", *which, "ipv4.method", "auto", "ipv4.addresses", "", "ipv4.gateway", ""))
    undo.append(command("nmcli", "con", "up", *which))
    note = "" if global_addresses(link) else f"Put the address in for {ADDRESS_PLACEHOLDER}, such as 192.0.2.10/24."
    title = "rename the profile to the interface and give it the address"
    return Fix("here", title, tuple(lines), True, tuple(undo), note)


def own_name(host: HostFacts, link: Link, profile: Profile) -> Fix:
    """A profile with the name of the interface: by renaming, unless the profile is there for several NICs."""
    if profile.multi_connect in SEVERAL_DEVICES or len(host.profiles.active_on.get(profile.uuid, ())) > 1:
        return new_profile(host, link, static=profile.ipv4.method == "manual")
    return rename(host, link, profile, static=False)


def new_profile(host: HostFacts, link: Link, *, static: bool, replaced: Profile | None = None) -> Fix:
    """Make a profile for the interface. `replaced`: the one that NetworkManager made up."""
    name = free_name(host, link)
    kind = "infiniband" if link.type == ARPHRD_INFINIBAND else "ethernet"
    method = static_settings(link) if static else ("ipv4.method", "auto")
    add = command("nmcli", "con", "add", "type", kind, "ifname", link.name, "con-name", name, *method)
    which = ("id", name) if name in NMCLI_WORDS or name.startswith("-") else (name,)
    undo = [command("nmcli", "con", "delete", *which)]
    notes = []
    if replaced is not None:
        undo.append(command("nmcli", "con", "up", "uuid", replaced.uuid))
        notes.append("The made-up profile loses against it, and does not come back after the next reboot.")
    if static and not global_addresses(link):
        notes.append(f"Put the address in for {ADDRESS_PLACEHOLDER}, such as 192.0.2.10/24.")
    title = f"make a new profile with {'a static address' if static else 'DHCP'}"
    return Fix("here", title, (add, command("nmcli", "con", "up", *which)), True, tuple(undo), " ".join(notes))


def profile_evidence(profile: Profile) -> tuple[Evidence, ...]:
    """Which profile it is, and where it is kept."""
    kept = profile.filename or "in memory only"
    return (
        Evidence("profile", f"{quoted_name(profile.id)} ({profile.uuid})", "nmcli con show"),
        Evidence("kept in", kept, "NetworkManager: Settings.Connection.Filename"),
    )


def profile_of_address(host: HostFacts, link: Link, written: str) -> Profile | None:
    """The profile of NetworkManager that sets the address (``192.0.2.1/24``) of the link."""
    profile = host.profiles.tried(link)
    if profile is None or profile.external:
        return None
    return profile if written in (*profile.ipv4.addresses, *profile.ipv6.addresses) else None


def other_profiles(host: HostFacts, link: Link, *, but: Profile | None = None) -> tuple[Evidence, ...]:
    """The first few profiles that could have been meant for the link, and why they are not used."""
    found = []
    for profile in host.profiles.profiles:
        if profile.external or profile.type not in CONNECTION_TYPES or (but is not None and profile.uuid == but.uuid):
            continue
        why = host.profiles.missing_binding(profile)
        if not why and link.name == profile.interface_name:
            match: ProfileMatch = host.profiles.match(profile, link)
            why = match.unfit or match.waits
        if why:
            found.append(
                Evidence(f"profile {quoted_name(profile.id)}", why, f"nmcli con show {shell_quote(profile.uuid)}")
            )
    return tuple(found[:3])
