"""A change of NetworkManager's profiles and devices that can be taken back, also when NetworkManager is killed.

`begin` before the first action, `settled` when all have been done, then `keep` or `undo`: blocking calls for a plain
process. NetworkManager is asked for a checkpoint (org.freedesktop.NetworkManager.CheckpointCreate), which it rolls back
by itself when nobody comes. A checkpoint dies with NetworkManager, does not know profiles that are not up, and saves to
disk what was in memory only; so `Checkpoint` also has the files of the profiles concerned, their settings with secrets
(for profiles that are no keyfiles), what was up where, and the addresses. It is plain data (``json.dumps(kept,
default=vars)``, `Checkpoint.of` for the way back), contains secrets, and must not leave the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from nictop.probe.changes.grammar.actions import Operation
from nictop.probe.changes.networkmanager.activation import LONGEST_ACTIVATION, Wanted, bring_about, hold
from nictop.probe.changes.networkmanager.affected import AffectedProfiles, concern
from nictop.probe.changes.networkmanager.files import (
    NetworkManagerPaths,
    copies_of,
    put_back,
    put_back_no_auto_default,
    read_no_auto_default,
    read_profile_files,
)
from nictop.probe.changes.networkmanager.settings import ProfileCopy, copy_profile, put_settings_back
from nictop.probe.changes.networkmanager.state import TROUBLE, Asking, NetworkManagerNow, read_networkmanager_now
from nictop.probe.changes.plan.link_addresses import LinkAddresses, put_link_back, read_link_addresses
from nictop.probe.inventory.managers.networkmanager import ROOT, SERVICE
from nictop.probe.kernel import dbus_wire as bus

LONGEST_BEGIN = 10.0
LONGEST_LOOK = 1.0
LONGEST_RETURN = 20.0
"""Seconds that NetworkManager may be away before its links are put back without it."""
LONGEST_UNDO = LONGEST_RETURN + 2 * LONGEST_ACTIVATION
"""Seconds for `undo` and for `keep`, whatever NetworkManager does; files are put back first, at once."""
GRACE = 5
"""Seconds by which the checkpoint outlives the deadline: whoever asked for it undoes first."""
PAUSE = 0.1
DELETE_NEW_CONNECTIONS = 2
"""NMCheckpointCreateFlags."""


@dataclass(frozen=True)
class Checkpoint:
    """What was before a change."""

    owner: str
    """NetworkManager's unique name on the bus: another one after each of its starts."""
    checkpoint: str
    concern: AffectedProfiles
    known: tuple[str, ...]
    """UUIDs of all profiles."""
    copies: dict[str, str]
    """Path → base64 of a profile's file."""
    profiles: tuple[ProfileCopy, ...]
    wanted: tuple[Wanted, ...]
    links: tuple[LinkAddresses, ...]
    no_auto_default: tuple[str, ...]
    specs: tuple[str, ...]
    """How no-auto-default.state calls the devices concerned."""
    places: NetworkManagerPaths = field(default_factory=NetworkManagerPaths)
    after: tuple[Wanted, ...] | None = None
    """What was up when the change was done; None: not done yet."""
    links_after: tuple[LinkAddresses, ...] = ()

    @staticmethod
    def of(plain: dict[str, Any]) -> Checkpoint:
        """From what JSON makes of one. Raises TypeError and KeyError for anything else."""
        made = {**plain, "concern": AffectedProfiles(**{key: tuple(value) for key, value in plain["concern"].items()})}
        for key in ("known", "no_auto_default", "specs"):
            made[key] = tuple(plain[key])
        for key, kind in (("profiles", ProfileCopy), ("wanted", Wanted)):
            made[key] = tuple(kind(**one) for one in plain[key])
        for key in ("links", "links_after"):
            made[key] = tuple(LinkAddresses.of(one) for one in plain[key])
        made["places"] = NetworkManagerPaths(**plain["places"])
        made["after"] = None if plain["after"] is None else tuple(Wanted(**one) for one in plain["after"])
        return Checkpoint(**made)


def begin(
    operations: Iterable[Operation], keep_within: float, *, places: NetworkManagerPaths | None = None
) -> tuple[Checkpoint | None, str]:
    """(What was before, why the change must not begin). Nothing but the checkpoint is made. Never raises for what the
    bus, NetworkManager or its files do."""
    somewhere = places or NetworkManagerPaths()
    try:
        with Asking(bus.bus_address(somewhere.run), LONGEST_BEGIN) as asking:
            now = read_networkmanager_now(asking)
            concerned, complaint = concern(operations, now)
            if concerned is None:
                return None, complaint
            complaint = why_in_motion(concerned, now)
            if complaint:
                return None, complaint
            kept = take_stock(asking, now, concerned, somewhere)
            paths = [now.devices[name].path for name in concerned.interfaces]
            flags = DELETE_NEW_CONNECTIONS if concerned.added else 0
            if not paths:  # an empty list would mean all devices
                return kept, ""
            answer = asking.ask(ROOT, SERVICE, "CheckpointCreate", "aouu", paths, whole_seconds(keep_within), flags)
            if answer.error is not None:
                return None, f"NetworkManager makes no checkpoint: {answer.text or answer.error}"
            kept = replace(kept, checkpoint=str(answer.body[0]))
            complaint = why_not_the_same(kept, read_networkmanager_now(asking))
            if complaint:
                asking.ask(ROOT, SERVICE, "CheckpointDestroy", "o", kept.checkpoint)
                return None, complaint
            return kept, ""
    except ImportError:
        return None, "jeepney, the library that speaks D-Bus, is not there"
    except TROUBLE as error:
        return None, sentence(error)


def why_in_motion(concerned: AffectedProfiles, now: NetworkManagerNow) -> str:
    """Empty, or why what is up now must not be taken for what was before: a change would be taken back to nothing."""
    empty = [name for name in concerned.interfaces if not now.devices[name].active]
    if not now.starting or not empty:
        return ""
    return f"NetworkManager is only starting, and nothing is up on {', '.join(empty)} yet: try again"


def why_not_the_same(kept: Checkpoint, now: NetworkManagerNow) -> str:
    """Empty, or what NetworkManager has done by itself since `kept` was taken."""
    for one in kept.wanted:
        device = now.devices.get(one.interface)
        if device is None or Wanted.of(device, now).uuid != one.uuid or now.owner != kept.owner:
            return f"NetworkManager sets up {one.interface} by itself just now: try again"
    return ""


def whole_seconds(keep_within: float) -> int:
    """For a checkpoint: never 0, which would be for ever."""
    return max(1, round(keep_within)) + GRACE


def take_stock(
    asking: Asking, now: NetworkManagerNow, concerned: AffectedProfiles, places: NetworkManagerPaths
) -> Checkpoint:
    """Everything but the checkpoint. Raises what `Asking` does, and OSError of the files."""
    mine = [now.profiles[uuid] for uuid in concerned.uuids if uuid in now.profiles]
    lasting = [profile for profile in mine if not profile.only_describes]
    devices = [now.devices[name] for name in concerned.interfaces]
    copies = copies_of(
        read_profile_files(places), {one.uuid for one in lasting}, {one.filename for one in lasting if one.filename}
    )
    return Checkpoint(
        owner=now.owner,
        checkpoint="",
        concern=replace(concerned, uuids=tuple(one.uuid for one in lasting)),
        known=tuple(sorted(now.profiles)),
        copies=copies,
        profiles=tuple(copy_profile(asking, one) for one in lasting),
        wanted=tuple(Wanted.of(device, now) for device in devices),
        links=read_links(concerned.interfaces),
        no_auto_default=read_no_auto_default(places),
        specs=tuple(spec for device in devices for spec in device.specs),
        places=places,
    )


def read_links(names: Iterable[str]) -> tuple[LinkAddresses, ...]:
    """Those that are there. Raises OSError."""
    return tuple(link for link in map(read_link_addresses, names) if link is not None)


def is_still_there(kept: Checkpoint) -> bool:
    """Whether it is the NetworkManager that was asked for the checkpoint: cheap, for whoever waits for a program that
    does not notice that it has ended (nmcli). False also when the bus does not answer."""
    try:
        with Asking(bus.bus_address(kept.places.run), LONGEST_LOOK) as asking:
            owner = asking.ask("/org/freedesktop/DBus", bus.BUS, "GetNameOwner", "s", SERVICE)
            return owner.error is None and owner.body[:1] == (kept.owner,)
    except (*TROUBLE, ImportError):
        return False


def settled(kept: Checkpoint, keep_within: float | None = None) -> tuple[Checkpoint | None, str]:
    """(`kept` with what is up now that all actions have been done, why that cannot be told). What is up must be known
    to be kept when NetworkManager is killed before it is confirmed. `keep_within`: seconds from now on for the
    checkpoint, whose first limit had to allow for the actions; None: that stays."""
    try:
        with Asking(bus.bus_address(kept.places.run), LONGEST_BEGIN) as asking:
            now = read_networkmanager_now(asking)
            if now.owner != kept.owner:
                return None, "NetworkManager has been started anew in the middle of the change"
            if keep_within is not None and kept.checkpoint:
                seconds = whole_seconds(keep_within)
                asking.demand(ROOT, SERVICE, "CheckpointAdjustRollbackTimeout", "ou", kept.checkpoint, seconds)
            after = [now.devices[name] for name in kept.concern.interfaces if name in now.devices]
            links = read_links(kept.concern.interfaces)
            return replace(kept, after=tuple(Wanted.of(device, now) for device in after), links_after=links), ""
    except TROUBLE as error:
        return None, sentence(error)


def keep(kept: Checkpoint, limit: float = LONGEST_UNDO) -> str:
    """Empty: the change stays. Else the sentence why it could not be kept: then it is to be undone."""

    def confirm(asking: Asking, end: float) -> str:
        now = read_networkmanager_now(asking)
        if now.owner == kept.owner:
            if not kept.checkpoint:
                return ""
            answer = asking.ask(ROOT, SERVICE, "CheckpointDestroy", "o", kept.checkpoint)
            return "" if answer.error is None else "NetworkManager has taken the change back by itself"
        if kept.after is None:
            return "NetworkManager has been started anew in the middle of the change"
        return bring_about(asking, kept.after, kept.links_after, end)

    finished, complaint = insist(confirm, kept, limit)
    if not finished and not complaint:  # without it: its profiles are the new ones, and the links shall be as well
        return put_links_back(kept.links_after) if kept.after is not None else "NetworkManager does not run"
    return complaint


def undo(kept: Checkpoint, limit: float = LONGEST_UNDO) -> str:
    """Empty: all is as it was before. Else the sentence what stayed. Takes `limit` seconds at most, and a few for
    programs; may be called again."""
    touched: set[str] = set()
    complaints: list[str] = []

    def take_back(asking: Asking, end: float) -> str:
        complaints[:] = put_files_back(kept, touched)
        now = read_networkmanager_now(asking)
        if touched:
            asking.demand(f"{ROOT}/Settings", f"{SERVICE}.Settings", "LoadConnections", "as", sorted(touched))
        if kept.checkpoint and now.owner == kept.owner:  # refused: it has rolled back by itself
            # a roll-back would save what it only looked on at as a profile of its own
            looked_on = any(one.looked_on for one in kept.wanted)
            way = "CheckpointDestroy" if looked_on else "CheckpointRollback"
            asking.ask(ROOT, SERVICE, way, "o", kept.checkpoint)
        anew = now.owner != kept.owner
        for one in kept.wanted:
            hold(asking, one, now, anew)
        complaints.extend(put_settings_back(asking, kept.profiles, kept.known, kept.concern.added))
        complaint = bring_about(asking, kept.wanted, kept.links, end, anew=anew)
        complaints.extend(put_files_back(kept, touched))
        return complaint

    complaints[:] = put_files_back(kept, touched)
    finished, complaint = insist(take_back, kept, limit)
    left = "" if finished else put_links_back(kept.links)
    return "; ".join(dict.fromkeys(filter(None, [complaint, left, *complaints])))


def put_links_back(links: Iterable[LinkAddresses]) -> str:
    """Without NetworkManager. Empty, or what stayed."""
    return "; ".join(filter(None, map(put_link_back, links)))


def insist(step: Callable[[Asking, float], str], kept: Checkpoint, limit: float) -> tuple[bool, str]:
    """(Whether `step(conversation, end)` came to its end, what it said); again and again while NetworkManager or the
    bus ends meanwhile. Given up after `LONGEST_RETURN` seconds without NetworkManager, with nothing to say, or after
    `limit`, with what went wrong."""
    end = time.monotonic() + limit
    seen = time.monotonic()
    trouble = ""
    while time.monotonic() < min(end, seen + LONGEST_RETURN):
        try:
            with Asking(bus.bus_address(kept.places.run), end - time.monotonic()) as asking:
                read_networkmanager_now(asking)
                seen = time.monotonic()
                return True, step(asking, end)
        except (ValueError, ImportError, TimeoutError) as error:
            trouble = sentence(error)
        except TROUBLE:
            trouble = ""
        time.sleep(PAUSE)
    return False, trouble


def put_files_back(kept: Checkpoint, touched: set[str]) -> list[str]:
    """What could not be put back; adds to `touched`."""
    try:
        touched.update(put_back(kept.copies, kept.concern.uuids, kept.known, kept.concern.added, kept.places))
        put_back_no_auto_default(kept.no_auto_default, kept.specs, kept.places)
    except OSError as error:
        return [f"{error.filename or 'a profile'} could not be put back: {error.strerror or error}"]
    return []


def sentence(error: Exception) -> str:
    """Why NetworkManager could not be asked."""
    if isinstance(error, TimeoutError) and not error.errno:
        return "NetworkManager did not answer in time"
    if isinstance(error, FileNotFoundError):
        return "there is no system bus"
    return str(error) or type(error).__name__
