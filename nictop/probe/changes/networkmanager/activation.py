"""Restore which profile is active on which device: activate, disconnect, and wait until the state
is reached.

Uses ActivateConnection and Device.Disconnect. What NetworkManager does not restore (addresses set
by hand, an MTU) is restored with ip afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from nictop.probe.changes.link_addresses import LinkAddresses, is_link_unchanged, restore_link
from nictop.probe.inventory.managers.networkmanager import ROOT, SERVICE
from nictop.probe.kernel import dbus_wire as bus
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.plan.networkmanager.state import (
    NM_DEVICE_STATE_ACTIVATED,
    NM_DEVICE_STATE_DISCONNECTED,
    BusProfile,
    Device,
    NmClient,
    NmState,
    read_nm_state,
)

ACTIVATION_TIMEOUT = 20.0
"""Seconds; a DHCP server answers within a few."""
NM_ROLLBACK_SECONDS = 2.0
"""Seconds for NetworkManager's own rollback before a profile is activated again."""
EXTERNAL_DETECTION_TIMEOUT = 5.0
"""Seconds for NetworkManager to detect that a device was configured by others."""
ACTIVATION_RETRY_SECONDS = 0.5
"""Seconds after a refusal: while NetworkManager starts, devices are not ready."""
DEVICE_POLL_SECONDS = 0.1
NM_DEVICE_STATE_PREPARE = 40
NOT_RESTORED = "its previous connection is not active again"


@dataclass(frozen=True)
class Target:
    """One device and the profile that must be active on it, or that NetworkManager must try to
    activate."""

    interface: str
    uuid: str
    """Empty: none, or only an external connection."""
    state: int
    """NM_DEVICE_STATE_*."""
    managed: bool
    autoconnect: bool
    temporary: bool
    """Its profile ends with its activation: it cannot be activated again."""
    external: bool = False
    """Configured by others: NetworkManager made a temporary profile that describes it."""
    is_empty: bool = False
    """That profile describes no address any more: NetworkManager does not make it again."""

    @staticmethod
    def of(device: Device, now: NmState) -> Target:
        profile = now.profiles.get(now.current_profile(device))
        temporary = profile is not None and profile.is_temporary
        return Target(
            interface=device.interface,
            uuid="" if profile is None or temporary else profile.uuid,
            state=device.state,
            managed=device.managed,
            autoconnect=device.autoconnect,
            temporary=temporary,
            external=device.external,
            is_empty=device.external and profile is not None and profile.is_empty,
        )


@dataclass(frozen=True)
class ActivationCall:
    """A call that activates or disconnects one device, and its CLOCK_MONOTONIC time."""

    time: float
    path: str
    """Object path of the activation; empty: none."""
    error: str


def apply_targets(
    client: NmClient,
    targets: Iterable[Target],
    links: Iterable[LinkAddresses],
    end: float,
    *,
    force: bool = False,
) -> str:
    """Bring devices and links to the given state. Returns "", or a sentence about what is not
    reached by `end` (CLOCK_MONOTONIC) or after `ACTIVATION_TIMEOUT`. `force`: activate in any case,
    because a restarted NetworkManager may treat the remains of other settings as external. Raises
    what `NmClient` does."""
    devices, before = tuple(targets), tuple(links)
    until = min(end, time.monotonic() + ACTIVATION_TIMEOUT)
    problems = activate_targets(client, devices, before, until, force)
    while True:
        problems += restore_links(before, end)
        wait_until_external(client, devices, until)
        restore_properties(client, devices)
        unmet = unmet_targets(client, devices, before)
        if problems or not unmet or time.monotonic() > until:
            unmet += left_to_others(client, devices)
            return "; ".join(dict.fromkeys([*problems, *unmet]))
        problems = activate_targets(client, devices, (), until, False)


def activate_targets(
    client: NmClient,
    targets: Iterable[Target],
    links: Iterable[LinkAddresses],
    until: float,
    force: bool,
) -> list[str]:
    """Activate and disconnect devices; returns sentences about those that have not reached their
    target by `until` (CLOCK_MONOTONIC). A profile that is active with other addresses than in
    `links` is activated again."""
    activations = Activations(client, links, force)
    pending = list(targets)
    while pending:
        now = read_nm_state(client)
        pending = [target for target in pending if not activations.advance(target, now)]
        if not pending or time.monotonic() > until:
            break
        time.sleep(DEVICE_POLL_SECONDS)
    return [activations.problem(target) for target in pending]


class Activations:
    """The calls of `activate_targets`."""

    def __init__(self, client: NmClient, links: Iterable[LinkAddresses], force: bool) -> None:
        self._client, self._force = client, force
        self._before = {link.name: link for link in links}
        self._calls: dict[str, ActivationCall] = {}
        self._start = time.monotonic()

    def advance(self, target: Target, now: NmState) -> bool:
        """Whether the device is in its target state; else what is missing is requested."""
        name, force = target.interface, self._force
        device, call = now.devices.get(name), self._calls.get(name)
        if device is None:
            return False
        # an activation that it has begun already shows in the next state
        if stop_autoconnect(self._client, target, now, force):
            return False
        is_kept = call is not None or may_stay(target, device, self._before.get(name), force)
        if is_kept and is_reached(target, device, now, call):
            return True
        if must_activate(target, device, call, self._start, force):
            self._calls[name] = activate(self._client, target, device, now)
        return False

    def problem(self, target: Target) -> str:
        """Of a device that is not in its target state."""
        call = self._calls.get(target.interface)
        error = "" if call is None else call.error
        return f"{target.interface}: {error or NOT_RESTORED}"


def may_stay(target: Target, device: Device, before: LinkAddresses | None, force: bool) -> bool:
    """Whether what is active on the device need not be activated again. `before`: its link."""
    if not target.uuid:
        return True
    if force or device.active != target.uuid:
        return False
    return is_link_unchanged(before)


def stop_autoconnect(client: NmClient, target: Target, now: NmState, force: bool) -> bool:
    """Set Autoconnect to false where no profile must be active: NetworkManager would otherwise
    activate any that fits when it starts, or after a disconnect. Returns whether it had to be
    set."""
    device = now.devices.get(target.interface)
    if device is None or not must_stop_autoconnect(target, device, now, force):
        return False
    set_property(client, device, "Autoconnect", False)
    return True


def must_stop_autoconnect(target: Target, device: Device, now: NmState, force: bool) -> bool:
    """Whether the device may activate an unwanted profile by itself."""
    if target.uuid or not device.autoconnect:
        return False
    return force or not target.autoconnect or not is_reached(target, device, now, None)


def wait_until_external(client: NmClient, targets: Iterable[Target], end: float) -> None:
    """Wait until NetworkManager has detected the restored addresses, until `end` (CLOCK_MONOTONIC)
    or for `EXTERNAL_DETECTION_TIMEOUT`; before that, it would activate a profile as soon as
    Autoconnect is true."""
    until = min(end, time.monotonic() + EXTERNAL_DETECTION_TIMEOUT)
    undetected = [one.interface for one in targets if one.temporary and not one.is_empty]
    while undetected and time.monotonic() < until:
        now = read_nm_state(client)
        undetected = [
            name for name in undetected if name in now.devices and not now.devices[name].active
        ]
        if undetected:
            time.sleep(DEVICE_POLL_SECONDS)


def unmet_targets(
    client: NmClient, targets: Iterable[Target], links: Iterable[LinkAddresses]
) -> list[str]:
    """Sentences about devices and links that are not in the target state now: a profile may have
    come up by itself since, or changed an address."""
    now = read_nm_state(client)
    found = []
    for target in targets:
        device = now.devices.get(target.interface)
        if device is None or not is_reached(target, device, now, None):
            found.append(f"{target.interface}: {NOT_RESTORED}")
        elif (device.managed, device.autoconnect) != (target.managed, target.autoconnect):
            found.append(f"{target.interface}: Managed or Autoconnect not restored")
        elif target.is_empty and not device.active:
            found += activated_next(device, now)
        elif target.temporary and not device.active:
            found.append(
                f"{target.interface}: external connection not detected again by NetworkManager"
            )
    changed_links = [link.name for link in links if not is_link_unchanged(link)]
    return found + [f"addresses, routes or MTU of {name} not restored" for name in changed_links]


def activated_next(device: Device, now: NmState) -> list[str]:
    """A sentence about the profile that NetworkManager will activate on a device that it left alone
    before the change."""
    profile = now.profiles.get(now.current_profile(device))
    if profile is None:
        return []
    return [f"{device.interface}: NetworkManager activates profile {profile.id} by itself now"]


def left_to_others(client: NmClient, targets: Iterable[Target]) -> list[str]:
    """Sentences about devices whose temporary profile was activated before the change: it is gone,
    and NetworkManager describes the restored addresses with a new one."""
    activated = [one.interface for one in targets if one.temporary and not one.external]
    if not activated:
        return []
    devices = read_nm_state(client).devices
    return [
        f"{name}: has its addresses, but NetworkManager only describes them now (connected "
        "externally)"
        for name in activated
        if name in devices and devices[name].external
    ]


def restore_links(links: Iterable[LinkAddresses], end: float) -> list[str]:
    """Sentences about what could not be restored by `end` (CLOCK_MONOTONIC) or within
    `NM_ROLLBACK_SECONDS`: a NetworkManager that was just started may still be configuring the same
    links."""
    until = min(end, time.monotonic() + NM_ROLLBACK_SECONDS)
    while True:
        problems = []
        for link in links:
            problem = "" if is_link_unchanged(link) else restore_link(link)
            if problem:
                problems.append(problem)
        if not problems or time.monotonic() >= until:
            return problems
        time.sleep(DEVICE_POLL_SECONDS)


def is_reached(target: Target, device: Device, now: NmState, call: ActivationCall | None) -> bool:
    """Whether a device is in the target state, by the activation `call` if there was one."""
    if not target.uuid:
        profile = now.profiles.get(device.active)
        # higher states without a profile are those of a deactivation that has not finished
        inactive = not device.active and device.state <= NM_DEVICE_STATE_DISCONNECTED
        return inactive or _is_described_as_before(target, device, profile)
    if target.state != NM_DEVICE_STATE_ACTIVATED and device.waits:
        # the activation has failed again, as before the change
        return call is None or bool(call.path)
    is_of_call = call is None or device.active_path == call.path
    if device.active != target.uuid or not is_of_call:
        return False
    if target.state == NM_DEVICE_STATE_ACTIVATED:
        return device.state == NM_DEVICE_STATE_ACTIVATED
    return NM_DEVICE_STATE_PREPARE <= device.state <= NM_DEVICE_STATE_ACTIVATED


def _is_described_as_before(target: Target, device: Device, profile: BusProfile | None) -> bool:
    """Whether a temporary profile is active, and by nobody's activation if it was so before."""
    if profile is None or not profile.is_temporary:
        return False
    return device.external or not target.external


def must_activate(
    target: Target, device: Device, call: ActivationCall | None, start: float, force: bool
) -> bool:
    """Whether to call NetworkManager now: its own rollback comes first, and an activation it starts
    by itself may replace ours."""
    if call is None:
        return (
            force or device.active != target.uuid or time.monotonic() > start + NM_ROLLBACK_SECONDS
        )
    return time.monotonic() > call.time + NM_ROLLBACK_SECONDS and (
        not target.uuid or device.active_path != call.path
    )


def activate(client: NmClient, target: Target, device: Device, now: NmState) -> ActivationCall:
    """Activate the profile, or disconnect the device when none must be active."""
    if not target.uuid:
        answer = client.request(device.path, f"{SERVICE}.Device", "Disconnect")
        return ActivationCall(time.monotonic(), "", "" if answer.error is None else answer.text)
    profile = now.profiles.get(target.uuid)
    if profile is None:
        return ActivationCall(time.monotonic(), "", "profile not found")
    answer = client.request(
        ROOT, SERVICE, "ActivateConnection", "ooo", profile.path, device.path, "/"
    )
    if answer.error is not None:
        return ActivationCall(
            time.monotonic() - NM_ROLLBACK_SECONDS + ACTIVATION_RETRY_SECONDS,
            "",
            answer.text or answer.error,
        )
    return ActivationCall(time.monotonic(), str(answer.body[0]), "")


def restore_properties(client: NmClient, targets: Iterable[Target]) -> None:
    """Restore Managed and Autoconnect, which ActivateConnection and Disconnect change."""
    now = read_nm_state(client)
    for target in targets:
        device = now.devices.get(target.interface)
        if device is None:
            continue
        for name, is_now, was in (
            ("Managed", device.managed, target.managed),
            ("Autoconnect", device.autoconnect, target.autoconnect),
        ):
            if is_now != was:
                set_property(client, device, name, was)


def set_property(client: NmClient, device: Device, name: str, value: bool) -> None:
    """Set a property of a device; the caller reads the result."""
    client.request(
        device.path,
        f"{bus.BUS_NAME}.Properties",
        "Set",
        "ssv",
        f"{SERVICE}.Device",
        name,
        ("b", value),
    )
