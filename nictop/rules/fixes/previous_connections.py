"""The undo of a fix that activates a NetworkManager profile: it ends with what was active before,
and the note names what an activation removes.

Pure. An activation, also of the profile that is active, removes addresses and routes that others
have set on the NIC (seen with NetworkManager 1.52.1). After nmcli device disconnect nothing is
activated there by itself, and NetworkManager describes what others set then (nmcli(1);
NetworkManager src/core/devices/nm-device.c nm_device_generate_connection).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nictop.model.devices.links import global_addresses
from nictop.model.managers.link_managers import is_only_described
from nictop.model.text.words import address_text
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Address, Link, Profile
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import Command, Step, command
from nictop.rules.fixes.profile_notes import profile_commands, uuid_of
from nictop.rules.host import HostFacts
from nictop.rules.routes.rewriting import lost_routes
from nictop.rules.subjects import set_address

FAMILIES = ("ipv4", "ipv6")
LISTING_METHODS = ("manual", "disabled", "ignore")
"""With these a profile lists all permanent addresses that NetworkManager sets."""
ENDINGS = (("con", "delete"), ("con", "down"), ("con", "up"), ("device", "disconnect"))
"""Words after ``nmcli`` with which an undo ends the activation already."""


def with_previous_connection(
    host: HostFacts, link: Link | None, fixes: tuple[Fix, ...]
) -> tuple[Fix, ...]:
    """`link`: that of the finding; commands may name another one."""
    if host.profiles.manager is None:
        return fixes
    return tuple(_completed(host, link, fix) if fix.where == "here" else fix for fix in fixes)


def _completed(host: HostFacts, link: Link | None, fix: Fix) -> Fix:
    activations = profile_commands(fix, "up")
    if not activations:
        return fix
    link = host.links_by_name.get(_named_interface(fix) or "", link)
    undo = _undo(host, link, fix.undo, activations[-1]) if fix.undo else ()
    return _with_addresses(host, link, replace(fix, undo=undo))


def _named_interface(fix: Fix) -> str | None:
    """The interface that the commands bind the profile to; None: they name none."""
    for step in fix.commands:
        if not isinstance(step, Command):
            continue
        for word, value in zip(step.argv, step.argv[1:], strict=False):
            if word in ("ifname", "connection.interface-name") and value:
                return value
    return None


def _undo(
    host: HostFacts, link: Link | None, undo: Sequence[Step], activation: Command
) -> tuple[Step, ...]:
    """What is active now is active again after it."""
    kind, name = activation.argv[3:5]
    uuid = uuid_of(host, kind, name)
    if uuid in host.profiles.active_on:
        return tuple(undo)
    if link is not None and _is_described(host, link):
        first = command("nmcli", "device", "disconnect", link.name)
        return (first, *(step for step in _without_activation(undo) if step != first))
    device = None if link is None else host.profiles.device(link)
    if device is not None and device.active_profile is not None:
        up = command("nmcli", "con", "up", "uuid", device.active_profile)
        return (*_without_activation(undo), up)
    if any(_is_nmcli(step, *words) for step in undo for words in ENDINGS):
        return tuple(undo)
    selector = ("id", name) if uuid is None else ("uuid", uuid)
    return (*undo, command("nmcli", "con", "down", *selector))


def _without_activation(undo: Iterable[Step]) -> list[Step]:
    return [step for step in undo if not _is_nmcli(step, "con", "up")]


def _with_addresses(host: HostFacts, link: Link | None, fix: Fix) -> Fix:
    """With a note about those that others have set; the undo sets them again."""
    lost = [] if link is None else _set_by_others(host, link)
    if link is None or not lost:
        return fix
    names = ", ".join(map(address_text, lost))
    notes = [
        f"{names} on {link.name} was not set by NetworkManager: activating a profile removes what "
        "is not in it, also routes."
    ]
    undo = list(fix.undo)
    if undo:
        undo += [set_address(link, one) for one in lost if "permanent" in one.flags]
        lent = [address_text(one) for one in lost if "permanent" not in one.flags]
        if lent:
            notes.append(f"The undo does not bring back {', '.join(lent)}, which has a lifetime.")
        if _is_described(host, link):
            routes = lost_routes(host, link, FAMILIES)
            undo += routes.restored
            notes.append(routes.note)
    text = " ".join(filter(None, (*notes, fix.note)))
    return replace(fix, undo=tuple(undo), note=text)


def _set_by_others(host: HostFacts, link: Link) -> list[Address]:
    """Global addresses of the link that NetworkManager has not set, as far as is known."""
    if _is_described(host, link):
        return global_addresses(link)
    device, active = host.profiles.device(link), host.profiles.active(link)
    if device is None or active is None:
        return []
    sources = [active] if device.applied is None else [active, device.applied]
    return [
        address
        for family in FAMILIES
        for address in global_addresses(link, family)
        if "permanent" in address.flags and _is_foreign(address, sources)
    ]


def _is_foreign(address: Address, profiles: Iterable[Profile]) -> bool:
    settings = [one.ipv6 if address.family == "ipv6" else one.ipv4 for one in profiles]
    if any(one.method not in LISTING_METHODS for one in settings):
        return False
    return all(address_text(address) not in one.addresses for one in settings)


def _is_described(host: HostFacts, link: Link) -> bool:
    device, active = host.profiles.device(link), host.profiles.active(link)
    return device is not None and active is not None and is_only_described(device, active)


def _is_nmcli(step: Step, *words: str) -> bool:
    return isinstance(step, Command) and step.argv[:1] == ("nmcli",) and step.argv[1:3] == words
