"""Settings of NetworkManager's profiles with secrets: copied and restored over D-Bus.

For profiles that are not keyfiles (ifcfg, netplan, or releases without /run): files are restored
first, and profiles that are right then are left alone. Uses org.freedesktop.NetworkManager.Settings
and .Settings.Connection.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable

from nictop.probe.inventory.managers.networkmanager import PROFILE_INTERFACE, ROOT, SERVICE
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.plan.networkmanager.state import (
    BusProfile,
    NmClient,
    NmState,
    TypedSettings,
    read_nm_state,
    settings_equal,
)

SECRET_SETTINGS = frozenset(
    (
        "802-1x",
        "802-11-wireless-security",
        "adsl",
        "cdma",
        "gsm",
        "macsec",
        "pppoe",
        "vpn",
        "wifi-p2p",
        "wireguard",
    )
)
"""Settings that can have secrets."""
(
    NM_SETTINGS_UPDATE2_FLAG_TO_DISK,
    NM_SETTINGS_ADD_CONNECTION2_FLAG_IN_MEMORY,
    NM_SETTINGS_UPDATE2_FLAG_IN_MEMORY_ONLY,
    NM_SETTINGS_UPDATE2_FLAG_BLOCK_AUTOCONNECT,
) = 0x1, 0x2, 0x8, 0x20
"""NMSettingsAddConnection2Flags and NMSettingsUpdate2Flags."""


@dataclass(frozen=True)
class ProfileCopy:
    """One profile. Settings are the base64 of a D-Bus message, which preserves every type."""

    uuid: str
    id: str
    in_memory: bool
    settings: str
    secrets: tuple[str, ...]
    """One for each setting that has secrets; not those that an agent stores for a user."""


def packed(settings: TypedSettings) -> str:
    """Base64 of a D-Bus message with these settings as its body."""
    import jeepney

    address = jeepney.DBusAddress("/", SERVICE, PROFILE_INTERFACE)
    message = jeepney.new_method_call(address, "Update", "a{sa{sv}}", (settings,))
    return b64encode(message.serialise(1)).decode()


def unpacked(text: str) -> TypedSettings:
    import jeepney

    settings: TypedSettings = jeepney.Message.from_buffer(b64decode(text)).body[0]
    return settings


def copy_profile(client: NmClient, profile: BusProfile) -> ProfileCopy:
    """Raises what `NmClient` does."""
    secrets = []
    for setting in sorted(SECRET_SETTINGS & profile.settings.keys()):
        answer = client.request(profile.path, PROFILE_INTERFACE, "GetSecrets", "s", setting)
        if answer.error is None and answer.body:
            secrets.append(packed(answer.body[0]))
    return ProfileCopy(
        profile.uuid, profile.id, profile.in_memory, packed(profile.settings), tuple(secrets)
    )


def restore_settings(
    client: NmClient, copies: Iterable[ProfileCopy], known: Collection[str], added: Collection[str]
) -> list[str]:
    """Delete added profiles, update changed ones, add removed ones; returns sentences about
    refusals. Raises what `NmClient` does."""
    now = read_nm_state(client)
    problems = []
    for profile in now.profiles.values():
        if profile.id in added and profile.uuid not in known:
            answer = client.request(profile.path, PROFILE_INTERFACE, "Delete")
            if answer.error is not None:
                problems.append(
                    f"new profile {profile.id} not removed: {answer.text or answer.error}"
                )
    for copy in copies:
        refusal = restore_profile(client, copy, now)
        if refusal:
            problems.append(f"profile {copy.id} not restored: {refusal}")
    return problems


def store_profiles(
    client: NmClient, known: Collection[str], added: Collection[str], modified: Collection[str]
) -> str:
    """Write the profiles that a change has added or modified to disk (Settings.Connection.Save).
    Empty, or a sentence about refusals. Raises what `NmClient` does."""
    problems = []
    for profile in read_nm_state(client).profiles.values():
        if profile.uuid not in modified and (profile.id not in added or profile.uuid in known):
            continue
        answer = client.request(profile.path, PROFILE_INTERFACE, "Save")
        if answer.error is not None:
            problems.append(f"profile {profile.id} not stored: {answer.text or answer.error}")
    return "; ".join(problems)


def restore_profile(client: NmClient, copy: ProfileCopy, now: NmState) -> str:
    """Empty, or why NetworkManager refused it."""
    settings = unpacked(copy.settings)
    present = now.profiles.get(copy.uuid)
    if present is not None and settings_equal(present.settings, settings):
        return ""
    complete = with_secrets(settings, map(unpacked, copy.secrets))
    if present is None:
        in_memory = NM_SETTINGS_ADD_CONNECTION2_FLAG_IN_MEMORY
        path, interface, method = f"{ROOT}/Settings", f"{SERVICE}.Settings", "AddConnection2"
    else:
        in_memory = NM_SETTINGS_UPDATE2_FLAG_IN_MEMORY_ONLY
        path, interface, method = present.path, PROFILE_INTERFACE, "Update2"
    # "to disk" is the same bit for both calls
    flags = in_memory if copy.in_memory else NM_SETTINGS_UPDATE2_FLAG_TO_DISK
    flags |= NM_SETTINGS_UPDATE2_FLAG_BLOCK_AUTOCONNECT
    answer = client.request(path, interface, method, "a{sa{sv}}ua{sv}", complete, flags, {})
    return "" if answer.error is None else answer.text or answer.error


def with_secrets(settings: TypedSettings, secrets: Iterable[TypedSettings]) -> TypedSettings:
    """GetSettings omits secrets, and an update without them would delete them."""
    complete = {name: dict(properties) for name, properties in settings.items()}
    for secret in secrets:
        for name, properties in secret.items():
            complete.setdefault(name, {}).update(properties)
    return complete
