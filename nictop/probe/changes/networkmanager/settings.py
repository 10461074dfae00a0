"""Settings of NetworkManager's profiles, secrets included: copied over the bus, and given back over it.

For profiles that are no keyfiles (ifcfg, netplan, or a release that keeps nothing in /run): files put back come first,
and what they have put right is left alone. Uses org.freedesktop.NetworkManager.Settings and .Settings.Connection.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from nictop.probe.changes.networkmanager.state import (
    Asking,
    BusProfile,
    NetworkManagerNow,
    Typed,
    read_networkmanager_now,
    same_settings,
)
from nictop.probe.inventory.managers.networkmanager import PROFILE, ROOT, SERVICE

WITH_SECRETS = frozenset(
    ("802-1x", "802-11-wireless-security", "adsl", "cdma", "gsm", "macsec", "pppoe", "vpn", "wifi-p2p", "wireguard")
)
TO_DISK, IN_MEMORY, IN_MEMORY_ONLY, BLOCK_AUTOCONNECT = 0x1, 0x2, 0x8, 0x20
"""NMSettingsAddConnection2Flags and NMSettingsUpdate2Flags."""


@dataclass(frozen=True)
class ProfileCopy:
    """One profile. Settings are base64 of a D-Bus message: every type is kept."""

    uuid: str
    id: str
    in_memory: bool
    settings: str
    secrets: tuple[str, ...]
    """One for each setting that can have some. What an agent keeps for a user is not among them."""


def packed(settings: Typed) -> str:
    """Base64 of a message whose body they are."""
    import jeepney

    address = jeepney.DBusAddress("/", SERVICE, PROFILE)
    message = jeepney.new_method_call(address, "Update", "a{sa{sv}}", (settings,))
    return b64encode(message.serialise(1)).decode()


def unpacked(text: str) -> Typed:
    import jeepney

    settings: Typed = jeepney.Message.from_buffer(b64decode(text)).body[0]
    return settings


def copy_profile(asking: Asking, profile: BusProfile) -> ProfileCopy:
    """Raises what `Asking` does."""
    secrets = []
    for setting in sorted(WITH_SECRETS & profile.settings.keys()):
        answer = asking.ask(profile.path, PROFILE, "GetSecrets", "s", setting)
        if answer.error is None and answer.body:
            secrets.append(packed(answer.body[0]))
    return ProfileCopy(profile.uuid, profile.id, profile.in_memory, packed(profile.settings), tuple(secrets))


def put_settings_back(
    asking: Asking, copies: Iterable[ProfileCopy], known: Collection[str], added: Collection[str]
) -> list[str]:
    """Delete what was added, update what says something else, add what is gone; yields what was refused. Raises what
    `Asking` does."""
    now = read_networkmanager_now(asking)
    complaints = []
    for profile in now.profiles.values():
        if profile.id in added and profile.uuid not in known:
            answer = asking.ask(profile.path, PROFILE, "Delete")
            if answer.error is not None:
                complaints.append(f"the new profile {profile.id} is still there: {answer.text or answer.error}")
    for copy in copies:
        refused = put_profile_back(asking, copy, now)
        if refused:
            complaints.append(f"the profile {copy.id} is not what it was: {refused}")
    return complaints


def put_profile_back(asking: Asking, copy: ProfileCopy, now: NetworkManagerNow) -> str:
    """Empty, or why it was refused."""
    settings = unpacked(copy.settings)
    present = now.profiles.get(copy.uuid)
    if present is not None and same_settings(present.settings, settings):
        return ""
    whole = with_secrets(settings, map(unpacked, copy.secrets))
    if present is None:
        flags = IN_MEMORY if copy.in_memory else TO_DISK
        path, interface, method = f"{ROOT}/Settings", f"{SERVICE}.Settings", "AddConnection2"
    else:
        flags = IN_MEMORY_ONLY if copy.in_memory else TO_DISK
        path, interface, method = present.path, PROFILE, "Update2"
    answer = asking.ask(path, interface, method, "a{sa{sv}}ua{sv}", whole, flags | BLOCK_AUTOCONNECT, {})
    return "" if answer.error is None else answer.text or answer.error


def with_secrets(settings: Typed, secrets: Iterable[Typed]) -> Typed:
    """GetSettings leaves them out, and an update without them would delete them."""
    whole = {name: dict(properties) for name, properties in settings.items()}
    for some in secrets:
        for name, properties in some.items():
            whole.setdefault(name, {}).update(properties)
    return whole
