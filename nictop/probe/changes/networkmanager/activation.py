"""What shall be up on the devices of NetworkManager, brought about: activated, disconnected, waited for.

Uses ActivateConnection and Device.Disconnect, and reads until it is so; what NetworkManager does not restore (addresses
that were set by hand, an MTU) is put back with ip afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from nictop.probe.changes.networkmanager.state import (
    ACTIVATED,
    Asking,
    Device,
    NetworkManagerNow,
    read_networkmanager_now,
)
from nictop.probe.changes.plan.link_addresses import LinkAddresses, link_is, put_link_back
from nictop.probe.inventory.managers.networkmanager import ROOT, SERVICE
from nictop.probe.kernel import dbus_wire as bus

LONGEST_ACTIVATION = 20.0
"""Seconds; DHCP that answers does so within a few."""
PATIENCE = 2.0
"""Seconds for NetworkManager's own roll-back before something is activated a second time."""
LONGEST_LOOKING_ON = 5.0
"""Seconds for NetworkManager to find out that somebody else has set up a device."""
RETRY = 0.5
"""Seconds after a refusal: a NetworkManager that is only starting has devices that are not yet ready."""
PAUSE = 0.1
PREPARE = 40
NOT_SO = "what was up on it is not up again"


@dataclass(frozen=True)
class Wanted:
    """One device and what is up on it."""

    interface: str
    uuid: str
    """Empty: nothing, or what NetworkManager only looks on at."""
    state: int
    """NM_DEVICE_STATE_*."""
    managed: bool
    autoconnect: bool
    looked_on: bool
    """Set up by somebody else; NetworkManager has made a profile that describes it."""

    @staticmethod
    def of(device: Device, now: NetworkManagerNow) -> Wanted:
        profile = now.profiles.get(device.active)
        described = profile is not None and profile.only_describes
        uuid = "" if profile is None or described else device.active
        return Wanted(device.interface, uuid, device.state, device.managed, device.autoconnect, described)


@dataclass(frozen=True)
class ActivationCall:
    """What was asked of NetworkManager for one device, and when (monotonic)."""

    time: float
    path: str
    """Of the activation; empty: none."""
    refusal: str


def bring_about(
    asking: Asking, wanted: Iterable[Wanted], links: Iterable[LinkAddresses], end: float, *, anew: bool = False
) -> str:
    """Empty, or what is not so by `end` (monotonic) or after `LONGEST_ACTIVATION`. `anew`: activate in any case, since
    NetworkManager may only look on at what other settings have left. Raises what `Asking` does."""
    devices, before = tuple(wanted), tuple(links)
    until = min(end, time.monotonic() + LONGEST_ACTIVATION)
    complaints = bring_up(asking, devices, before, until, anew)
    while True:
        complaints += put_links_back(before, end)
        wait_for_looking_on(asking, devices, until)
        restore_properties(asking, devices)
        others = what_is_not_so(asking, devices, before)
        if complaints or not others or time.monotonic() > until:
            return "; ".join(dict.fromkeys([*complaints, *others]))
        complaints = bring_up(asking, devices, (), until, False)


def bring_up(
    asking: Asking, wanted: Iterable[Wanted], links: Iterable[LinkAddresses], until: float, anew: bool
) -> list[str]:
    """Activate and disconnect; yields what is not as wanted by `until` (monotonic). What is up already with other
    addresses than those of `links` is activated again."""
    waiting = {one.interface: one for one in wanted}
    before = {link.name: link for link in links}
    asked: dict[str, ActivationCall] = {}
    start = time.monotonic()
    while waiting:
        now = read_networkmanager_now(asking)
        for name, one in list(waiting.items()):
            device, mine = now.devices.get(name), asked.get(name)
            if device is None or hold(asking, one, now, anew):  # what it has begun already is seen by the next look
                continue
            finished = mine is not None or not one.uuid or (not anew and link_is(before.get(name)))
            if finished and is_so(one, device, now, mine):
                del waiting[name]
            elif is_to_be_asked(one, device, mine, start, anew):
                asked[name] = activate(asking, one, device, now)
        if time.monotonic() > until:
            break
        if waiting:
            time.sleep(PAUSE)
    refusals = {name: one.refusal for name, one in asked.items()}
    return [f"{name}: {refusals.get(name) or NOT_SO}" for name in waiting]


def hold(asking: Asking, one: Wanted, now: NetworkManagerNow, anew: bool) -> bool:
    """Keep NetworkManager from bringing up a profile by itself where nothing shall be up: one that is only starting, or
    that has just been told to end what is up, prefers any to none. Whether it had to be told."""
    device = now.devices.get(one.interface)
    if device is None or not is_to_be_held(one, device, now, anew):
        return False
    set_property(asking, device, "Autoconnect", False)
    return True


def is_to_be_held(one: Wanted, device: Device, now: NetworkManagerNow, anew: bool) -> bool:
    """Whether it may bring up something there that is not wanted."""
    if one.uuid or not device.autoconnect:
        return False
    return anew or not one.autoconnect or not is_so(one, device, now, None)


def wait_for_looking_on(asking: Asking, wanted: Iterable[Wanted], end: float) -> None:
    """Until NetworkManager has seen the addresses that are back, `end` (monotonic) or `LONGEST_LOOKING_ON`: before that
    it would bring up a profile as soon as it may."""
    until = min(end, time.monotonic() + LONGEST_LOOKING_ON)
    lookers = [one.interface for one in wanted if one.looked_on]
    while lookers and time.monotonic() < until:
        now = read_networkmanager_now(asking)
        lookers = [name for name in lookers if name in now.devices and not now.devices[name].active]
        if lookers:
            time.sleep(PAUSE)


def what_is_not_so(asking: Asking, wanted: Iterable[Wanted], links: Iterable[LinkAddresses]) -> list[str]:
    """At this moment, the end: what has come up by itself since it was looked at, or has moved an address."""
    now = read_networkmanager_now(asking)
    found = []
    for one in wanted:
        device = now.devices.get(one.interface)
        if device is None or not is_so(one, device, now, None):
            found.append(f"{one.interface}: {NOT_SO}")
        elif one.looked_on and not device.active:
            found.append(f"{one.interface}: NetworkManager does not look on as before")
    others = [link.name for link in links if not link_is(link)]
    return found + [f"the addresses, routes and MTU of {name} are not what they were" for name in others]


def put_links_back(links: Iterable[LinkAddresses], end: float) -> list[str]:
    """What stayed by `end` (monotonic) or after `PATIENCE`: a NetworkManager that has just been started may still be
    setting up or taking away what is put back here."""
    until = min(end, time.monotonic() + PATIENCE)
    while True:
        complaints = [
            complaint for link in links if not link_is(link) for complaint in (put_link_back(link),) if complaint
        ]
        if not complaints or time.monotonic() >= until:
            return complaints
        time.sleep(PAUSE)


def is_so(one: Wanted, device: Device, now: NetworkManagerNow, mine: ActivationCall | None) -> bool:
    """Whether a device is as wanted, by the activation that was asked for here if there is one."""
    if not one.uuid:
        profile = now.profiles.get(device.active)
        nothing = not device.active and device.state <= ACTIVATED  # beyond is the way down, which takes addresses along
        return nothing or (profile is not None and profile.only_describes)
    if device.active != one.uuid or (mine is not None and device.active_path != mine.path):
        return False
    return device.state == ACTIVATED if one.state == ACTIVATED else PREPARE <= device.state <= ACTIVATED


def is_to_be_asked(one: Wanted, device: Device, mine: ActivationCall | None, start: float, anew: bool) -> bool:
    """Whether something has to be asked for now: NetworkManager's own roll-back comes first, and what it starts by
    itself may replace what was asked for."""
    if mine is None:
        return anew or device.active != one.uuid or time.monotonic() > start + PATIENCE
    return time.monotonic() > mine.time + PATIENCE and (not one.uuid or device.active_path != mine.path)


def activate(asking: Asking, one: Wanted, device: Device, now: NetworkManagerNow) -> ActivationCall:
    """Bring the profile up; nothing: end what is up."""
    if not one.uuid:
        answer = asking.ask(device.path, f"{SERVICE}.Device", "Disconnect")
        return ActivationCall(time.monotonic(), "", "" if answer.error is None else answer.text)
    profile = now.profiles.get(one.uuid)
    if profile is None:
        return ActivationCall(time.monotonic(), "", "its profile is not there")
    answer = asking.ask(ROOT, SERVICE, "ActivateConnection", "ooo", profile.path, device.path, "/")
    if answer.error is not None:
        return ActivationCall(time.monotonic() - PATIENCE + RETRY, "", answer.text or answer.error)
    return ActivationCall(time.monotonic(), str(answer.body[0]), "")


def restore_properties(asking: Asking, wanted: Iterable[Wanted]) -> None:
    """Whether a device is managed, and may connect by itself: ActivateConnection and Disconnect change them."""
    now = read_networkmanager_now(asking)
    for one in wanted:
        device = now.devices.get(one.interface)
        if device is None:
            continue
        for name, is_now, was in (
            ("Managed", device.managed, one.managed),
            ("Autoconnect", device.autoconnect, one.autoconnect),
        ):
            if is_now != was:
                set_property(asking, device, name, was)


def set_property(asking: Asking, device: Device, name: str, value: bool) -> None:
    """What comes of it is read afterwards."""
    asking.ask(device.path, f"{bus.BUS}.Properties", "Set", "ssv", f"{SERVICE}.Device", name, ("b", value))
