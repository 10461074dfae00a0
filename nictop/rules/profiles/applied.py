"""Profiles of NetworkManager that were changed, and are not applied as they are stored.

Reads nothing. NetworkManager: Device.GetAppliedConnection and Settings.Connection.GetSettings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nictop.model.managers.networkmanager_states import ip_settings_text
from nictop.probe.records import IpSettings, Link, Profile
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.current_settings import current_settings
from nictop.rules.fixes.persistent_names import PROFILE_OPTIONS
from nictop.rules.fixes.profiles import bring_up, modify, profile_evidence, quoted_name
from nictop.rules.fixes.stored_settings import SWITCHES
from nictop.rules.host import HostFacts
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.subjects import link_finding

FAMILY: Family = "profiles and names"
MAX_SHOWN = 4
"""Settings in the evidence."""
NAMES = {
    "mtu": "MTU",
    "cloned_mac_address": "MAC address to use",
    "controller": "controller",
    "vlan_id": "VLAN id",
    "vlan_parent": "VLAN parent",
    "sriov_total_vfs": "number of VFs",
    "autoconnect": "autoconnect",
}
"""Fields of `Profile` whose change matters, in the order in which they are shown."""
NO_EFFECT_YET = ("autoconnect",)
"""Fields that say nothing about the link as it is."""


class Change(NamedTuple):
    """One setting."""

    what: str
    applied: str
    stored: str


@host_rule(FAMILY, "warning", needs=("networkmanager",), uses=("ethtool", "networkmanager.applied"))
def profile_was_changed_and_not_applied(host: HostFacts) -> Outcomes:
    """A profile of NetworkManager was changed, and the link still has the settings from before.

    nmcli con mod changes what is stored; the link gets it when the profile is activated again, at the latest with the
    next reboot. A change that looks tried may never have been in use, and the reboot brings it. nmcli device modify is
    the reverse: in use, and not stored.

    nictop compares GetAppliedConnection with the stored settings: addresses, gateway, routes, MTU, MAC address,
    controller, VLAN, VFs and settings of ethtool. Info: only autoconnect was turned off, so that the link will be
    without this profile after a reboot.

    Not reported: what the link has already, because it was set by hand as well; profiles that describe what another
    program has configured; DNS, names and priorities.

    Sources: nmcli(1) connection modify, device reapply, device modify; NetworkManager's D-Bus API, Device.
    """
    manager = host.inventory.networkmanager
    for ifindex, device in manager.devices.items() if manager is not None else ():
        link = host.snapshot.links.get(ifindex)
        if device.applied is None or link is None:
            continue
        stored = host.profiles.active(link)
        if stored is None or stored.external:
            continue
        changes = list(_changes(link, device.applied, stored))
        if not changes:
            continue
        if not any(one.what not in NO_EFFECT_YET for one in changes):
            yield _not_after_a_reboot(host, link, stored)
            continue
        names = ", ".join(one.what for one in changes[:2]) + (" …" if len(changes) > 2 else "")
        yield link_finding(
            "warning",
            host,
            link,
            f"profile {quoted_name(stored.id)} is not applied as stored: {names}",
            evidence=(
                *profile_evidence(stored),
                *(
                    Evidence(one.what, f"applied {one.applied}, stored {one.stored}", "NetworkManager: Device")
                    for one in changes[:MAX_SHOWN]
                ),
            ),
            why="It was changed after it was activated, or the link with nmcli device modify. What is stored takes "
            "effect at the next activation, or after a reboot.",
            fixes=_apply(host, link, stored),
        )


def _not_after_a_reboot(host: HostFacts, link: Link, stored: Profile) -> Finding:
    change, undo = (modify(host, stored, "connection.autoconnect", value) for value in ("yes", "no"))
    return link_finding(
        "info",
        host,
        link,
        f"profile {quoted_name(stored.id)} is active, but not after a reboot",
        evidence=(*profile_evidence(stored), Evidence("autoconnect", "no, turned off while active", "nmcli con show")),
        why="Autoconnect was turned off after it was activated: nothing activates it at the next boot.",
        fixes=(Fix("here", "Activate it automatically", (change,), True, (undo,)),),
    )


def _apply(host: HostFacts, link: Link, stored: Profile) -> tuple[Fix, ...]:
    check = "First check what is stored: a wrong address or gateway cuts you off."
    reapply = command("nmcli", "device", "reapply", link.name)
    return (
        Fix("here", "Apply what is stored, without interruption", (reapply,), note=f"{check} Not for every setting."),
        Fix("here", "Or activate the profile again", (bring_up(host, stored),), note=f"{check} Interrupts the link."),
    )


def _changes(link: Link, applied: Profile, stored: Profile) -> Iterator[Change]:
    for family in ("ipv4", "ipv6"):
        before, after = getattr(applied, family), getattr(stored, family)
        if before != after and not _has_addresses(link, family, after):
            yield _ip_change(family, before, after)
    for field, name in NAMES.items():
        before, after = getattr(applied, field), getattr(stored, field)
        if field in NO_EFFECT_YET and after is not False:
            continue
        if before != after and after != _present(link, field):
            yield Change(name, _text(before), _text(after))
    for name in sorted({*applied.ethtool, *stored.ethtool}):
        old, new = applied.ethtool.get(name), stored.ethtool.get(name)
        now = _ethtool_value(link, name)
        if old != new and now is not None and new is not None and now != str(new):
            yield Change(f"ethtool.{name}", now, _text(new))


def _has_addresses(link: Link, family: str, wanted: IpSettings) -> bool:
    """The link has what a static setting wants."""
    found = {f"{one.address}/{one.prefix_length}" for one in link.addresses if one.family == family}
    gateways = {one.gateway for one in link.default_routes if one.family == family}
    if wanted.method != "manual" or wanted.routes or not found.issuperset(wanted.addresses):
        return False
    return wanted.gateway is None or wanted.gateway in gateways


def _present(link: Link, field: str) -> object:
    """What the link has now; "": not known here."""
    if field == "mtu":
        return link.mtu
    return link.address if field == "cloned_mac_address" else ""


def _ethtool_value(link: Link, name: str) -> str | None:
    """Present value of a setting of a profile (``ring-rx``), a switch as 1 or 0; None: not known."""
    for option, (prefix, _) in PROFILE_OPTIONS.items():
        if name.startswith(f"{prefix}-"):
            value = current_settings(link, option).get(name[len(prefix) + 1 :])
            return None if value is None else SWITCHES.get(value, value)
    return None


def _ip_change(family: str, before: IpSettings, after: IpSettings) -> Change:
    """Of the first kind that differs."""
    if (before.method, before.addresses, before.gateway) != (after.method, after.addresses, after.gateway):
        return Change(family, ip_settings_text(before, family), ip_settings_text(after, family))
    if before.routes != after.routes:
        return Change(f"{family} routes", ", ".join(before.routes) or "none", ", ".join(after.routes) or "none")
    if before.never_default != after.never_default:
        return Change(f"{family}.never-default", _text(before.never_default), _text(after.never_default))
    if before.route_metric != after.route_metric:
        return Change(f"{family}.route-metric", _text(before.route_metric), _text(after.route_metric))
    return Change(f"{family} settings", "other", "other")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "default" if value is None else str(value)
