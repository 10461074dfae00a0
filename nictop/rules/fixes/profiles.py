"""Fixes of NetworkManager profiles: rename, bind, set a static address, add a new one.

Pure. nmcli(1) is given the id of a profile, or its UUID where the id is ambiguous or was generated
by NetworkManager; always behind ``id`` or ``uuid``, as it takes abbreviations: ``nmcli con up h``
prints the help, with exit code 0.
"""

from __future__ import annotations

from collections.abc import Collection

from nictop.model.devices.links import global_addresses
from nictop.model.managers.profile_match import (
    ETHERNET,
    GENERATED_PRIORITY,
    INFINIBAND,
    ProfileMatch,
)
from nictop.model.snapshot import ARPHRD_INFINIBAND
from nictop.model.text.terminal import is_clean
from nictop.probe.records import Link, Profile
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import Command, command, shell_quote, with_undo
from nictop.rules.host import HostFacts

ADDRESS_PLACEHOLDER = "<ADDRESS/PREFIX>"
ADDRESS_NOTE = f"Replace {ADDRESS_PLACEHOLDER}, e.g. 192.0.2.10/24."
AUTOCONNECT_PRIORITY = "connection.autoconnect-priority"
SEVERAL_DEVICES = (2, 3)
"""``connection.multi-connect``: manual-multiple, multiple."""
MAX_NAME_CHARS = 28
"""In a title, which has one line."""
CONNECTION_TYPES = {ETHERNET: "ethernet", INFINIBAND: "infiniband"}


def quoted_name(name: str) -> str:
    """A name in a sentence: in double quotes, and not too long."""
    return f'"{name}"' if len(name) <= MAX_NAME_CHARS else f'"{name[: MAX_NAME_CHARS - 1]}…"'


def profile_arguments(host: HostFacts, profile: Profile) -> tuple[str, ...]:
    """Arguments of nmcli that select the profile: ``("id", ID)`` or ``("uuid", UUID)``."""
    name = profile.id
    if not name or not is_clean(name) or profile.generated or host.profiles.ids.get(name, 0) != 1:
        return ("uuid", profile.uuid)
    return ("id", name)


def modify(host: HostFacts, profile: Profile, *settings: str) -> Command:
    """``nmcli con mod … SETTING VALUE``"""
    return command("nmcli", "con", "mod", *profile_arguments(host, profile), *settings)


def bring_up(host: HostFacts, profile: Profile) -> Command:
    return command("nmcli", "con", "up", *profile_arguments(host, profile))


def activate(host: HostFacts, link: Link, profile: Profile) -> Fix:
    """A profile that nothing activates by itself now; autoconnect, if it is off, is stored."""
    title = "Activate the profile"
    lines = [bring_up(host, profile)]
    undo = [command("nmcli", "device", "disconnect", link.name)]
    stored = None if profile.autoconnect else True
    if not profile.autoconnect:
        title += " and enable autoconnect"
        lines.insert(0, modify(host, profile, "connection.autoconnect", "yes"))
        undo.append(modify(host, profile, "connection.autoconnect", "no"))
    return Fix("here", title, tuple(lines), stored, tuple(undo))


ACTIVATION_FOLLOWS = "With a carrier, NetworkManager then activates the profile."


def set_link_up(link: Link, title: str = "Bring it up", note: str = ACTIVATION_FOLLOWS) -> Fix:
    """Of a NIC that somebody set down."""
    up, down = with_undo(("ip", "link", "set", "dev", link.name), "up", "down")
    return Fix("here", title, (up,), False, (down,), note)


def static_settings(link: Link) -> tuple[str, ...]:
    """``ipv4.method manual …`` with the present addresses and gateway, else the placeholder."""
    addresses = ",".join(
        f"{address.address}/{address.prefix_length}" for address in global_addresses(link, "ipv4")
    )
    settings = ("ipv4.method", "manual", "ipv4.addresses", addresses or ADDRESS_PLACEHOLDER)
    gateway = _ipv4_gateway(link)
    if not addresses or gateway is None:
        return settings
    return (*settings, "ipv4.gateway", gateway)


def _ipv4_gateway(link: Link) -> str | None:
    for route in link.default_routes:
        if route.family == "ipv4" and route.gateway:
            return route.gateway
    return None


def free_name(host: HostFacts, link: Link) -> str:
    """The interface's name, with a number behind it when another stored profile has that name."""
    names = {profile.id for profile in host.profiles.profiles if not profile.external}
    return _name_beside(names, link)


def name_of_new(host: HostFacts, link: Link) -> str:
    """The same for a profile that is to be added, and activated by its name: also no name by which
    NetworkManager describes what others configured, since ``nmcli con up id`` may activate that."""
    return _name_beside({profile.id for profile in host.profiles.profiles}, link)


def _name_beside(names: Collection[str], link: Link) -> str:
    name, number = link.name, 2
    while name in names:
        name, number = f"{link.name}-{number}", number + 1
    return name


def rename(host: HostFacts, link: Link, profile: Profile, *, static: bool) -> Fix:
    """Rename a profile to the interface and bind it to that; `static`: also set an address, as DHCP
    yields none."""
    name = free_name(host, link)
    # by UUID: between the lines the name changes
    which = ("uuid", profile.uuid)
    settings, before = (
        ["connection.id", name, "connection.interface-name", link.name],
        ["connection.id", profile.id],
    )
    if profile.interface_name != link.name:
        before += ["connection.interface-name", profile.interface_name or ""]
    if profile.autoconnect_priority == GENERATED_PRIORITY:
        # else any profile that is added later takes precedence
        settings += [AUTOCONNECT_PRIORITY, "0"]
        before += [AUTOCONNECT_PRIORITY, str(GENERATED_PRIORITY)]
    lines = [command("nmcli", "con", "mod", *which, *settings)]
    undo = [command("nmcli", "con", "mod", *which, *before)]
    if not static:
        note = "The link stays up, with the same addresses."
        return Fix("here", f"Rename the profile to {name}", tuple(lines), True, tuple(undo), note)
    lines.append(command("nmcli", "con", "mod", *which, *static_settings(link)))
    lines.append(command("nmcli", "con", "up", *which))
    undo.append(
        command(
            "nmcli",
            "con",
            "mod",
            *which,
            "ipv4.method",
            "auto",
            "ipv4.addresses",
            "",
            "ipv4.gateway",
            "",
        )
    )
    undo.append(command("nmcli", "con", "up", *which))
    note = "" if global_addresses(link, "ipv4") else ADDRESS_NOTE
    title = f"Rename the profile to {name} and set a static address"
    return Fix("here", title, tuple(lines), True, tuple(undo), note)


def is_shared(host: HostFacts, profile: Profile) -> bool:
    """Several NICs use the profile, or may."""
    return (
        profile.multi_connect in SEVERAL_DEVICES
        or len(host.profiles.active_on.get(profile.uuid, ())) > 1
    )


def own_name(host: HostFacts, link: Link, profile: Profile) -> Fix:
    """A profile with the name of the interface: by renaming, unless several NICs use the
    profile."""
    if is_shared(host, profile):
        return new_profile(host, link, static=profile.ipv4.method == "manual")
    return rename(host, link, profile, static=False)


def new_profile(
    host: HostFacts, link: Link, *, static: bool, replaced: Profile | None = None
) -> Fix:
    """Add a profile for the interface. `replaced`: the generated one that it replaces."""
    name = name_of_new(host, link)
    kind = "infiniband" if link.type == ARPHRD_INFINIBAND else "ethernet"
    method = static_settings(link) if static else ("ipv4.method", "auto")
    add = command(
        "nmcli", "con", "add", "type", kind, "ifname", link.name, "con-name", name, *method
    )
    which = ("id", name)
    undo = [command("nmcli", "con", "delete", *which)]
    notes = []
    if replaced is not None:
        undo.append(command("nmcli", "con", "up", "uuid", replaced.uuid))
        notes.append(
            "Your profile takes precedence over the auto-generated one, which will not exist "
            "after a reboot."
        )
    if static and not global_addresses(link, "ipv4"):
        notes.append(ADDRESS_NOTE)
    title = f"Add a profile with {'a static address' if static else 'DHCP'}"
    return Fix(
        "here",
        title,
        (add, command("nmcli", "con", "up", *which)),
        True,
        tuple(undo),
        " ".join(notes),
    )


def profile_evidence(profile: Profile) -> tuple[Evidence, ...]:
    """Which profile it is, and where it is stored."""
    stored = profile.filename or "memory only"
    return (
        Evidence("profile", f"{quoted_name(profile.id)} ({profile.uuid})", "nmcli con show"),
        Evidence("stored in", stored, "NetworkManager: Settings.Connection.Filename"),
    )


def profile_of_address(host: HostFacts, link: Link, written: str) -> Profile | None:
    """The profile of NetworkManager that sets the address (``192.0.2.1/24``) of the link."""
    profile = host.profiles.attempted(link)
    if profile is None or profile.external:
        return None
    return profile if written in (*profile.ipv4.addresses, *profile.ipv6.addresses) else None


def other_profiles(
    host: HostFacts, link: Link, *, but: Profile | None = None
) -> tuple[Evidence, ...]:
    """The first three other profiles for the link, and why they are not used."""
    found: list[Evidence] = []
    for profile in host.profiles.profiles:
        is_same = but is not None and profile.uuid == but.uuid
        if is_same or profile.external or profile.type not in CONNECTION_TYPES:
            continue
        why = _why_unused(host, link, profile)
        if why:
            label = f"profile {quoted_name(profile.id)}"
            show = f"nmcli con show {shell_quote(profile.uuid)}"
            found.append(Evidence(label, why, show))
    return tuple(found[:3])


def _why_unused(host: HostFacts, link: Link, profile: Profile) -> str:
    """ "": not known, or it is for another link."""
    why = host.profiles.missing_binding(profile)
    if why or link.name != profile.interface_name:
        return why
    match: ProfileMatch = host.profiles.match(profile, link)
    return match.mismatch or match.wait_reason
