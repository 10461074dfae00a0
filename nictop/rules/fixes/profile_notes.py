"""What to know before a NetworkManager profile is modified or activated: it may be active on
several NICs, made by netplan, or in memory only.

Reads nothing. nmcli(1): connection modify saves to disk without --temporary; nm-settings-nmcli(5):
connection.multi-connect; Ubuntu Core documentation, "NetworkManager and netplan";
lxc-android-config!128: NetworkManager of Ubuntu 24.04 stores profiles in /etc/netplan.
"""

from __future__ import annotations

from nictop.model.managers.profile_match import NETPLAN_PROFILES, is_in_memory
from nictop.probe.light_dataclasses import replace
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import Command
from nictop.rules.host import HostFacts, once_per_host
from nictop.rules.subjects import names_text

MAX_NAMES = 4
NETPLAN_NOTE = (
    "netplan made the profile: if /etc/netplan does not have the new value afterwards, "
    "set it there too."
)
MEMORY_NOTE = (
    "The profile is in memory only: this saves it to disk, and the undo commands leave it there."
)

LOST_NOTE = "The profile is in memory only: a reboot loses it."


def with_profile_notes(host: HostFacts, fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
    """The fixes of a host, with a note in those that modify such a profile, or only activate one
    that is lost on reboot."""
    notes = _notes(host)
    if not notes:
        return fixes
    return tuple(_noted(host, fix, notes) if fix.where == "here" else fix for fix in fixes)


@once_per_host
def _notes(host: HostFacts) -> dict[str, str]:
    """UUID → note, of the profiles that have one."""
    found: dict[str, str] = {}
    for profile in host.profiles.profiles:
        names = host.profiles.active_on.get(profile.uuid, ())
        notes = [_shared_note(names)] if len(names) > 1 else []
        if (profile.filename or "").startswith(NETPLAN_PROFILES):
            notes.append(NETPLAN_NOTE)
        if is_in_memory(profile):
            notes.append(MEMORY_NOTE)
        if notes:
            found[profile.uuid] = " ".join(notes)
    return found


def _shared_note(names: tuple[str, ...]) -> str:
    shown = names_text(names, MAX_NAMES)
    return f"The profile is active on {shown}: this changes all of them."


def _noted(host: HostFacts, fix: Fix, notes: dict[str, str]) -> Fix:
    for uuid in _named(host, fix, "mod"):
        if uuid in notes:
            return replace(fix, note=f"{notes[uuid]} {fix.note}".rstrip())
    if fix.persistent and not _in_memory(host).isdisjoint(_named(host, fix, "up")):
        return replace(fix, persistent=False, note=f"{LOST_NOTE} {fix.note}".rstrip())
    return fix


@once_per_host
def _in_memory(host: HostFacts) -> frozenset[str]:
    """UUIDs of the profiles that a reboot loses."""
    return frozenset(one.uuid for one in host.profiles.profiles if is_in_memory(one))


def _named(host: HostFacts, fix: Fix, action: str) -> list[str]:
    """UUIDs of the profiles that ``nmcli con ACTION`` of the fix names, in order."""
    uuids = [uuid_of(host, *step.argv[3:5]) for step in profile_commands(fix, action)]
    return [uuid for uuid in uuids if uuid is not None]


def profile_commands(fix: Fix, action: str) -> list[Command]:
    """``nmcli con ACTION id NAME``, ``nmcli con ACTION uuid UUID``"""
    return [
        step
        for step in fix.commands
        if isinstance(step, Command)
        and step.argv[:3] == ("nmcli", "con", action)
        and len(step.argv) >= 5
    ]


def uuid_of(host: HostFacts, kind: str, name: str) -> str | None:
    """`kind`: uuid or id. None: there is no profile of this name."""
    if kind == "uuid":
        return name
    for profile in host.profiles.profiles:
        if profile.id == name:
            return profile.uuid
    return None
