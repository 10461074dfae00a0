"""Profiles of NetworkManager that were changed, and are not applied as they are stored.

Reads nothing. NetworkManager: Device.GetAppliedConnection and Settings.Connection.GetSettings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.managers.networkmanager_states import (
    ACTIVATED,
    DEACTIVATING,
    ip_settings_text,
)
from nictop.model.text.words import address_text
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import IpSettings, Link, Profile
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.current_settings import current_settings
from nictop.rules.fixes.persistent_names import PROFILE_OPTIONS
from nictop.rules.fixes.profiles import bring_up, modify, profile_evidence, quoted_name
from nictop.rules.fixes.stored_settings import SWITCHES
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding

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


@host_rule("warning", needs=("networkmanager",), uses=("ethtool", "networkmanager.applied"))
def profile_was_changed_and_not_applied(host: HostFacts) -> Outcomes:
    """A profile of NetworkManager was changed, and the link still has the settings from before.

    nmcli con mod changes what is stored; the link gets it when the profile is activated again, at
    the latest with the next reboot. A change that looks tried may never have been in use, and the
    reboot brings it. nmcli device modify is the reverse: in use, and not stored.

    nictop compares GetAppliedConnection with the stored settings: addresses, gateway, routes, MTU,
    MAC address, controller, VLAN, VFs and settings of ethtool. Info: only autoconnect was turned
    off, so that the link will be without this profile after a reboot.

    Not reported: what the link has already, because it was set by hand as well; profiles that
    describe what another program has configured, or that are being deactivated; DNS, names and
    priorities.

    Sources: nmcli(1) connection modify, device reapply, device modify; NetworkManager's D-Bus API,
    Device.
    """
    if host.inventory.networkmanager is None:
        return
    for link in host.links:
        device = host.profiles.device(link)
        if device is None or device.applied is None or device.state == DEACTIVATING:
            continue
        stored = host.profiles.active(link)
        if stored is None or stored.external:
            continue
        changes = list(_changes(link, device.applied, stored))
        if not changes:
            continue
        if all(change.what in NO_EFFECT_YET for change in changes):
            if device.state == ACTIVATED:
                yield _not_after_a_reboot(host, link, stored)
        else:
            yield _not_applied(host, link, stored, changes)


def _not_applied(
    host: HostFacts, link: Link, stored: Profile, changes: Sequence[Change]
) -> Finding:
    names = ", ".join(change.what for change in changes[:2])
    if len(changes) > 2:
        names += " …"
    evidence = [*profile_evidence(stored)]
    for change in changes[:MAX_SHOWN]:
        value = f"applied {change.applied}, stored {change.stored}"
        evidence.append(Evidence(change.what, value, "NetworkManager: Device"))
    return link_finding(
        "warning",
        host,
        link,
        f"profile {quoted_name(stored.id)} is not applied as stored: {names}",
        evidence=tuple(evidence),
        why="It was changed after it was activated, or the link with nmcli device modify. "
        "What is stored takes effect at the next activation, or after a reboot.",
        fixes=_apply(host, link, stored),
    )


def _not_after_a_reboot(host: HostFacts, link: Link, stored: Profile) -> Finding:
    change = modify(host, stored, "connection.autoconnect", "yes")
    undo = modify(host, stored, "connection.autoconnect", "no")
    return link_finding(
        "info",
        host,
        link,
        f"profile {quoted_name(stored.id)} is active, but not after a reboot",
        evidence=(
            *profile_evidence(stored),
            Evidence("autoconnect", "no, turned off while active", "nmcli con show"),
        ),
        why="Autoconnect was turned off after it was activated: nothing activates it at the next "
        "boot.",
        fixes=(Fix("here", "Activate it automatically", (change,), True, (undo,)),),
    )


def _apply(host: HostFacts, link: Link, stored: Profile) -> tuple[Fix, ...]:
    check = "First check what is stored: a wrong address or gateway cuts you off."
    reapply = command("nmcli", "device", "reapply", link.name)
    return (
        Fix(
            "here",
            "Apply what is stored, without interruption",
            (reapply,),
            note=f"{check} Not for every setting.",
        ),
        Fix(
            "here",
            "Or activate the profile again",
            (bring_up(host, stored),),
            note=f"{check} Interrupts the link.",
        ),
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
    yield from _ethtool_changes(link, applied, stored)


def _ethtool_changes(link: Link, applied: Profile, stored: Profile) -> Iterator[Change]:
    for name in sorted({*applied.ethtool, *stored.ethtool}):
        wanted = stored.ethtool.get(name)
        if wanted is None or wanted == applied.ethtool.get(name):
            continue
        now = _ethtool_value(link, name)
        if now is not None and now != str(wanted):
            yield Change(f"ethtool.{name}", now, _text(wanted))


def _has_addresses(link: Link, family: str, wanted: IpSettings) -> bool:
    """The link has what a static setting wants."""
    if wanted.method != "manual" or wanted.routes:
        return False
    addresses = {address_text(own) for own in link.addresses if own.family == family}
    if not addresses.issuperset(wanted.addresses):
        return False
    if wanted.gateway is None:
        return True
    gateways = {route.gateway for route in link.default_routes if route.family == family}
    return wanted.gateway in gateways


def _present(link: Link, field: str) -> object:
    """What the link has now; "": not known here."""
    if field == "mtu":
        return link.mtu
    if field == "cloned_mac_address":
        return link.address
    return ""


def _ethtool_value(link: Link, name: str) -> str | None:
    """Present value of a setting of a profile (``ring-rx``), a switch as 1 or 0; None: not
    known."""
    for option, (prefix, _) in PROFILE_OPTIONS.items():
        if name.startswith(f"{prefix}-"):
            value = current_settings(link, option).get(name[len(prefix) + 1 :])
            return None if value is None else SWITCHES.get(value, value)
    return None


def _ip_change(family: str, before: IpSettings, after: IpSettings) -> Change:
    """Of the first kind that differs."""
    old = before.method, before.addresses, before.gateway
    if old != (after.method, after.addresses, after.gateway):
        return Change(family, ip_settings_text(before, family), ip_settings_text(after, family))
    if before.routes != after.routes:
        routes, new_routes = ", ".join(before.routes), ", ".join(after.routes)
        return Change(f"{family} routes", routes or "none", new_routes or "none")
    for field, name in (("never_default", "never-default"), ("route_metric", "route-metric")):
        value, new_value = getattr(before, field), getattr(after, field)
        if value != new_value:
            return Change(f"{family}.{name}", _text(value), _text(new_value))
    return Change(f"{family} settings", "other", "other")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "default"
    return str(value)
