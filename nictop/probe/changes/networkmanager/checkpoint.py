"""Save and restore the profiles and devices of NetworkManager, also when NetworkManager is killed.

Call `begin` before the first action, `record_applied` after the last, then `keep` or `undo`; the
calls block. `begin` makes a checkpoint of NetworkManager
(org.freedesktop.NetworkManager.CheckpointCreate), which it rolls back by itself after a timeout.
That checkpoint is lost when NetworkManager ends, does not include inactive profiles, and writes
profiles to disk that were in memory only. `Checkpoint` therefore also has the files of the affected
profiles, their settings with secrets (for profiles that are not keyfiles), the active profile of
each device, and the addresses. It is plain data (`field_mapping` of it as JSON, back with
`Checkpoint.from_json`), contains secrets, and must not leave the host.

Actions change and add profiles in memory only (`apply.unsaved_words`); `keep` writes them to disk,
so that a machine that ends before it boots with the old ones.
"""

from __future__ import annotations

import hashlib
import json
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nictop.probe.changes.link_addresses import (
    LinkAddresses,
    added_addresses,
    address_text,
    read_link_addresses,
    restore_link,
)
from nictop.probe.changes.networkmanager.activation import (
    ACTIVATION_TIMEOUT,
    Target,
    apply_targets,
    stop_autoconnect,
)
from nictop.probe.changes.networkmanager.files import (
    NetworkManagerPaths,
    copies_of,
    read_no_auto_default,
    read_profile_files,
    restore_files,
    restore_no_auto_default,
)
from nictop.probe.changes.networkmanager.settings import (
    ProfileCopy,
    copy_profile,
    restore_settings,
    store_profiles,
)
from nictop.probe.inventory.managers.networkmanager import ROOT, SERVICE
from nictop.probe.kernel import dbus_wire as bus
from nictop.probe.light_dataclasses import dataclass, field, replace
from nictop.probe.plan.grammar.operation import Operation
from nictop.probe.plan.networkmanager.affected import AffectedProfiles, affected_profiles
from nictop.probe.plan.networkmanager.state import (
    BUS_ERRORS,
    BusProfile,
    NmClient,
    NmState,
    NotRunning,
    read_nm_state,
    without_timestamp,
)

BEGIN_TIMEOUT = 10.0
"""Seconds for the calls of `begin` and `record_applied`."""
OWNER_CHECK_TIMEOUT = 1.0
"""Seconds for the calls of `has_networkmanager_ended`."""
RESTART_TIMEOUT = 20.0
"""Seconds that NetworkManager may be gone before its links are restored without it."""
UNDO_TIMEOUT = RESTART_TIMEOUT + 2 * ACTIVATION_TIMEOUT
"""Seconds for `undo` and for `keep`; files are restored first, at once."""
CHECKPOINT_GRACE_SECONDS = 5
"""Seconds by which NetworkManager's checkpoint outlives the deadline of the change, so that the
guard undoes first."""
NETWORKMANAGER_RETRY_SECONDS = 0.1
NM_CHECKPOINT_CREATE_FLAG_DELETE_NEW_CONNECTIONS = 2
"""NMCheckpointCreateFlags."""


@dataclass(frozen=True)
class Checkpoint:
    """The state before a change."""

    owner: str
    """NetworkManager's unique name on the bus, which differs after each start."""
    path: str
    """Object path of NetworkManager's checkpoint; empty: none."""
    affected: AffectedProfiles
    known: tuple[str, ...]
    """UUIDs of all profiles."""
    copies: dict[str, str]
    """Path → base64 of a profile's file."""
    profiles: tuple[ProfileCopy, ...]
    targets: tuple[Target, ...]
    links: tuple[LinkAddresses, ...]
    no_auto_default: tuple[str, ...]
    specs: tuple[str, ...]
    """Names of the affected devices in no-auto-default.state."""
    paths: NetworkManagerPaths = field(default_factory=NetworkManagerPaths)
    targets_after: tuple[Target, ...] | None = None
    """The active profiles when the change was done; None: not done yet."""
    links_after: tuple[LinkAddresses, ...] = ()
    profiles_after: dict[str, dict[str, str]] = field(default_factory=dict)
    """`section_digests` of the profiles that are active then, by UUID."""

    @staticmethod
    def from_json(plain: dict[str, Any]) -> Checkpoint:
        """From decoded JSON. Raises TypeError and KeyError for any other structure."""
        fields = {
            **plain,
            "affected": AffectedProfiles(
                **{key: tuple(value) for key, value in plain["affected"].items()}
            ),
        }
        for key in ("known", "no_auto_default", "specs"):
            fields[key] = tuple(plain[key])
        for key, kind in (("profiles", ProfileCopy), ("targets", Target)):
            fields[key] = tuple(kind(**one) for one in plain[key])
        for key in ("links", "links_after"):
            fields[key] = tuple(LinkAddresses.from_json(one) for one in plain[key])
        fields["paths"] = NetworkManagerPaths(**plain["paths"])
        after = plain["targets_after"]
        fields["targets_after"] = None if after is None else tuple(Target(**one) for one in after)
        return Checkpoint(**fields)


def begin(
    operations: Iterable[Operation], keep_within: float, *, paths: NetworkManagerPaths | None = None
) -> tuple[Checkpoint | None, str]:
    """(state before the change, why the change must not begin). Changes nothing but that it makes
    the checkpoint. Errors of the bus, of NetworkManager and of its files become the second
    value."""
    used_paths = paths or NetworkManagerPaths()
    try:
        with NmClient(bus.bus_address(used_paths.run), BEGIN_TIMEOUT) as client:
            now = read_nm_state(client)
            affected, problem = affected_profiles(operations, now)
            if affected is None:
                return None, problem
            problem = startup_problem(affected, now)
            if problem:
                return None, problem
            checkpoint = save_state(client, now, affected, used_paths)
            device_paths = [now.devices[name].path for name in affected.interfaces]
            flags = NM_CHECKPOINT_CREATE_FLAG_DELETE_NEW_CONNECTIONS if affected.added else 0
            if not device_paths:  # an empty list would mean all devices
                return checkpoint, ""
            seconds = rollback_timeout(keep_within)
            answer = client.request(
                ROOT, SERVICE, "CheckpointCreate", "aouu", device_paths, seconds, flags
            )
            if answer.error is not None:
                return (
                    None,
                    f"NetworkManager cannot create a checkpoint: {answer.text or answer.error}",
                )
            checkpoint = replace(checkpoint, path=str(answer.body[0]))
            problem = change_since(checkpoint, read_nm_state(client))
            if problem:
                client.request(ROOT, SERVICE, "CheckpointDestroy", "o", checkpoint.path)
                return None, problem
            return checkpoint, ""
    except ImportError:
        return None, "the Python library jeepney (D-Bus) is missing"
    except BUS_ERRORS as error:
        return None, error_text(error)


def startup_problem(affected: AffectedProfiles, now: NmState) -> str:
    """Empty, or why the present state must not be saved: while NetworkManager starts, a device
    without an active profile is not yet configured."""
    empty = [name for name in affected.interfaces if not now.devices[name].active]
    if not now.starting or not empty:
        return ""
    return (
        f"NetworkManager is still starting, no active profile on {', '.join(empty)} yet: try again"
    )


def change_since(checkpoint: Checkpoint, now: NmState) -> str:
    """Empty, or a sentence about what NetworkManager has changed by itself since `checkpoint` was
    made."""
    for one in checkpoint.targets:
        device = now.devices.get(one.interface)
        if (
            device is None
            or Target.of(device, now).uuid != one.uuid
            or now.owner != checkpoint.owner
        ):
            return f"NetworkManager is activating {one.interface}: try again"
    return ""


def rollback_timeout(keep_within: float) -> int:
    """Seconds for NetworkManager's checkpoint; never 0, which means no timeout."""
    return max(1, round(keep_within)) + CHECKPOINT_GRACE_SECONDS


def save_state(
    client: NmClient, now: NmState, affected: AffectedProfiles, paths: NetworkManagerPaths
) -> Checkpoint:
    """All fields but `path`. Raises what `NmClient` does, and OSError of the files."""
    profiles_found = [now.profiles[uuid] for uuid in affected.uuids if uuid in now.profiles]
    restorable = [profile for profile in profiles_found if not profile.is_temporary]
    devices = [now.devices[name] for name in affected.interfaces]
    copies = copies_of(
        read_profile_files(paths),
        {one.uuid for one in restorable},
        {one.filename for one in restorable if one.filename},
    )
    return Checkpoint(
        owner=now.owner,
        path="",
        affected=replace(affected, uuids=tuple(one.uuid for one in restorable)),
        known=tuple(sorted(now.profiles)),
        copies=copies,
        profiles=tuple(copy_profile(client, one) for one in restorable),
        targets=tuple(Target.of(device, now) for device in devices),
        links=read_links(affected.interfaces),
        no_auto_default=read_no_auto_default(paths),
        specs=tuple(spec for device in devices for spec in device.specs),
        paths=paths,
    )


def read_links(names: Iterable[str]) -> tuple[LinkAddresses, ...]:
    """Addresses of the links that exist. Raises OSError."""
    return tuple(link for link in map(read_link_addresses, names) if link is not None)


def has_networkmanager_ended(checkpoint: Checkpoint) -> bool:
    """Whether the bus says that the NetworkManager that made the checkpoint runs no more; one cheap
    call. Used while waiting for nmcli, which does not notice its end. False when the bus does not
    answer in time, as on a busy host: then it is not known."""
    try:
        with NmClient(bus.bus_address(checkpoint.paths.run), OWNER_CHECK_TIMEOUT) as client:
            owner = client.request(
                "/org/freedesktop/DBus", bus.BUS_NAME, "GetNameOwner", "s", SERVICE
            )
    except NotRunning:
        return True
    except (*BUS_ERRORS, ImportError):
        return False
    return owner.error is None and owner.body[:1] != (checkpoint.owner,)


def record_applied(
    checkpoint: Checkpoint, keep_within: float | None = None
) -> tuple[Checkpoint | None, str]:
    """(`checkpoint` with the profiles that are active after all actions, why they could not be
    read). They are needed to keep the change when NetworkManager is killed before the confirmation.
    `keep_within`: new timeout of NetworkManager's checkpoint in seconds, because the first one had
    to allow for the actions; None: unchanged."""
    try:
        with NmClient(bus.bus_address(checkpoint.paths.run), BEGIN_TIMEOUT) as client:
            now = read_nm_state(client)
            if now.owner != checkpoint.owner:
                return None, "NetworkManager was restarted during the change"
            if keep_within is not None and checkpoint.path:
                seconds = rollback_timeout(keep_within)
                client.require(
                    ROOT, SERVICE, "CheckpointAdjustRollbackTimeout", "ou", checkpoint.path, seconds
                )
            devices = [
                now.devices[name] for name in checkpoint.affected.interfaces if name in now.devices
            ]
            after = tuple(Target.of(device, now) for device in devices)
            return replace(
                checkpoint,
                targets_after=after,
                links_after=read_links(checkpoint.affected.interfaces),
                profiles_after={
                    one.uuid: section_digests(now.profiles[one.uuid])
                    for one in after
                    if one.uuid in now.profiles
                },
            ), ""
    except BUS_ERRORS as error:
        return None, error_text(error)


def section_digests(profile: BusProfile) -> dict[str, str]:
    """A digest of each section of a profile: ``connection``, ``ipv4``."""
    found = {}
    for name, values in without_timestamp(profile.settings).items():
        plain = json.dumps(values, sort_keys=True, default=repr)
        found[name] = hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()
    return found


def differences(checkpoint: Checkpoint, *, must_answer: bool) -> tuple[str, ...]:
    """Sentences about links and profiles that are not any more as `record_applied` has read them:
    what is gone, other values, and added addresses. Dynamic addresses come and go, and are not
    compared. `must_answer`: it is also a difference that the profiles cannot be read."""
    found: list[str] = []
    for link in checkpoint.links_after:
        found += link_differences(link)
    if checkpoint.targets_after is not None:
        try:
            with NmClient(bus.bus_address(checkpoint.paths.run), BEGIN_TIMEOUT) as client:
                now = read_nm_state(client)
        except (*BUS_ERRORS, ImportError) as error:
            if must_answer:
                found.append(f"the active profiles cannot be read: {error_text(error)}")
        else:
            found += profile_differences(checkpoint, checkpoint.targets_after, now)
    return tuple(found)


def link_differences(applied: LinkAddresses) -> Iterator[str]:
    """MTU, state and addresses of one link."""
    try:
        now = read_link_addresses(applied.name)
    except (OSError, ValueError) as error:
        yield f"{applied.name} cannot be read: {error}"
        return
    if now is None:
        yield f"interface {applied.name} no longer exists"
        return
    if now.mtu != applied.mtu:
        yield f"{applied.name}: mtu {now.mtu} instead of mtu {applied.mtu}"
    if applied.is_up and not now.is_up:
        yield f"{applied.name}: link down instead of link up"
    for address in applied.addresses:
        if address not in now.addresses:
            yield f"{applied.name}: {address} absent instead of present"
    for message in added_addresses(applied, now):
        yield f"{applied.name}: {address_text(b64decode(message))} present instead of absent"


def profile_differences(
    checkpoint: Checkpoint, targets: Iterable[Target], now: NmState
) -> Iterator[str]:
    """Active profiles, and what was changed in those that were active."""
    for target in targets:
        device = now.devices.get(target.interface)
        if device is None:
            yield f"NetworkManager has no device {target.interface} any more"
            continue
        uuid = Target.of(device, now).uuid
        if uuid != target.uuid:
            present, applied = profile_text(uuid, now), profile_text(target.uuid, now)
            yield f"{target.interface}: {present} instead of {applied}"
    for uuid, digests in checkpoint.profiles_after.items():
        profile = now.profiles.get(uuid)
        if profile is None:
            continue
        present_digests = section_digests(profile)
        names = sorted({*digests, *present_digests})
        changed = [name for name in names if digests.get(name) != present_digests.get(name)]
        if changed:
            yield f"profile {profile.id}: other settings in {', '.join(changed)}"


def profile_text(uuid: str, now: NmState) -> str:
    """``profile ens4``"""
    if not uuid:
        return "no active profile"
    if uuid not in now.profiles:
        return f"profile {uuid}, which does not exist any more"
    return f"profile {now.profiles[uuid].id}"


def keep(checkpoint: Checkpoint, limit: float = UNDO_TIMEOUT) -> str:
    """Empty: the change is kept. Else a sentence why it could not be kept; it must be undone
    then."""

    affected = checkpoint.affected

    def store(client: NmClient) -> str:
        return store_profiles(client, checkpoint.known, affected.added, affected.modified)

    def confirm(client: NmClient, end: float) -> str:
        now = read_nm_state(client)
        if now.owner == checkpoint.owner:
            if not checkpoint.path:
                return store(client)
            answer = client.request(ROOT, SERVICE, "CheckpointDestroy", "o", checkpoint.path)
            if answer.error is not None:
                return "NetworkManager rolled the change back"
            return store(client)
        if checkpoint.targets_after is None:
            return "NetworkManager was restarted during the change"
        problem = apply_targets(client, checkpoint.targets_after, checkpoint.links_after, end)
        return problem or store(client)

    finished, problem = retry(confirm, checkpoint, limit)
    if finished or problem:
        return problem
    if checkpoint.targets_after is None or affected.added or affected.modified:
        return "NetworkManager is not running, so that no profile can be stored"
    return restore_links_directly(
        checkpoint.links_after
    )  # its profiles are the new ones, and so must be the links


def undo(checkpoint: Checkpoint, limit: float = UNDO_TIMEOUT) -> str:
    """Empty: the state is restored. Else a sentence about what is not. Takes at most `limit`
    seconds, and a few for programs; may be called again."""
    touched_files: set[str] = set()
    problems: list[str] = []

    def roll_back(client: NmClient, end: float) -> str:
        problems[:] = restore_profile_files(checkpoint, touched_files)
        now = read_nm_state(client)
        if touched_files:
            client.require(
                f"{ROOT}/Settings",
                f"{SERVICE}.Settings",
                "LoadConnections",
                "as",
                sorted(touched_files),
            )
        if checkpoint.path and now.owner == checkpoint.owner:
            # CheckpointRollback would turn an external connection into a saved profile
            temporary = any(one.temporary for one in checkpoint.targets)
            method = "CheckpointDestroy" if temporary else "CheckpointRollback"
            client.request(
                ROOT, SERVICE, method, "o", checkpoint.path
            )  # an error: it has rolled back by itself
        restarted = now.owner != checkpoint.owner
        for one in checkpoint.targets:
            stop_autoconnect(client, one, now, restarted)
        problems.extend(
            restore_settings(
                client, checkpoint.profiles, checkpoint.known, checkpoint.affected.added
            )
        )
        problem = apply_targets(client, checkpoint.targets, checkpoint.links, end, force=restarted)
        problems.extend(restore_profile_files(checkpoint, touched_files))
        return problem

    problems[:] = restore_profile_files(checkpoint, touched_files)
    finished, problem = retry(roll_back, checkpoint, limit)
    link_problems = "" if finished else restore_links_directly(checkpoint.links)
    return "; ".join(dict.fromkeys(filter(None, [problem, link_problems, *problems])))


def restore_links_directly(links: Iterable[LinkAddresses]) -> str:
    """Restore links without NetworkManager. Empty, or a sentence about what is not restored."""
    return "; ".join(filter(None, map(restore_link, links)))


def retry(
    step: Callable[[NmClient, float], str], checkpoint: Checkpoint, limit: float
) -> tuple[bool, str]:
    """(whether `step(client, end)` returned, its result), retried while NetworkManager or the bus
    ends meanwhile. Gives up after `RESTART_TIMEOUT` seconds without NetworkManager, with "", or
    after `limit` seconds, with the last error."""
    end = time.monotonic() + limit
    seen = time.monotonic()
    problem = ""
    while time.monotonic() < min(end, seen + RESTART_TIMEOUT):
        try:
            with NmClient(bus.bus_address(checkpoint.paths.run), end - time.monotonic()) as client:
                read_nm_state(client)
                seen = time.monotonic()
                return True, step(client, end)
        except (ValueError, ImportError, TimeoutError) as error:
            problem = error_text(error)
        except BUS_ERRORS:
            problem = ""
        time.sleep(NETWORKMANAGER_RETRY_SECONDS)
    return False, problem


def restore_profile_files(checkpoint: Checkpoint, touched_files: set[str]) -> list[str]:
    """Sentences about files that could not be restored; adds restored paths to `touched_files`."""
    try:
        affected = checkpoint.affected
        touched_files.update(
            restore_files(
                checkpoint.copies,
                affected.uuids,
                checkpoint.known,
                affected.added,
                checkpoint.paths,
            )
        )
        restore_no_auto_default(checkpoint.no_auto_default, checkpoint.specs, checkpoint.paths)
    except OSError as error:
        return [f"{error.filename or 'a profile'} could not be restored: {error.strerror or error}"]
    return []


def error_text(error: Exception) -> str:
    """A sentence why NetworkManager could not be called."""
    if isinstance(error, TimeoutError) and not error.errno:
        return "NetworkManager did not answer in time"
    if isinstance(error, FileNotFoundError):
        return "no system bus"
    return str(error) or type(error).__name__
