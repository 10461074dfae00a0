"""Whom else a change of a NetworkManager profile concerns: a profile may be active on several NICs.

Reads nothing. nm-settings-nmcli(5): connection.multi-connect.
"""

from __future__ import annotations

from dataclasses import replace

from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import Command
from nictop.rules.host import HostFacts, once_per_host

MAX_NAMES = 4


def with_shared_profiles(host: HostFacts, fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
    """The fixes of a host, with a note in those that modify a profile of several NICs."""
    shared = _shared(host)
    if not shared:
        return fixes
    return tuple(_noted(host, fix, shared) if fix.where == "here" else fix for fix in fixes)


@once_per_host
def _shared(host: HostFacts) -> dict[str, tuple[str, ...]]:
    """UUID → NICs, of profiles that are active on several."""
    return {uuid: names for uuid, names in host.profiles.active_on.items() if len(names) > 1}


def _noted(host: HostFacts, fix: Fix, shared: dict[str, tuple[str, ...]]) -> Fix:
    uuids = [_modified(host, step.argv) for step in fix.commands if isinstance(step, Command)]
    names = next((shared[uuid] for uuid in uuids if uuid in shared), None)
    if names is None:
        return fix
    shown = ", ".join(names[:MAX_NAMES])
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return replace(fix, note=f"The profile is active on {shown}{more}: this changes all of them. {fix.note}".rstrip())


def _modified(host: HostFacts, argv: tuple[str, ...]) -> str | None:
    """UUID of the profile that a command modifies."""
    if argv[:3] != ("nmcli", "con", "mod") or len(argv) < 5:
        return None
    if argv[3] == "uuid":
        return argv[4]
    return next((one.uuid for one in host.profiles.profiles if one.id == argv[3]), None)
