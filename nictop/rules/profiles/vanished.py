"""Profiles whose NIC has disappeared while the host was running."""

from __future__ import annotations

import re

from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS
from nictop.model.managers.profile_match import ETHERNET, INFINIBAND
from nictop.model.text.units import duration
from nictop.probe.records import Profile
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command, echo
from nictop.rules.fixes.profiles import modify, profile_evidence, quoted_name
from nictop.rules.host import HostFacts
from nictop.rules.pci.drivers import lacks_driver
from nictop.rules.profiles.nics import without_profile
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.subjects import host_finding

FAMILY: Family = "profiles and names"
BOOT_CLOCK_ERROR = 60.0
"""Seconds by which the time of day may have been set after boot."""
USB_PREFIXES = ("enx", "usb")
USB_PORT = re.compile(r"u[0-9]")
"""In names of USB NICs, ``enp0s20f0u1`` (systemd.net-naming-scheme(7)); they are unplugged with a dock."""
MIN_WALL = 1e9
"""Seconds since the epoch: a clock before 2001 is not set."""


@host_rule(
    FAMILY,
    "warning",
    yields_to=(
        "configuration_names_an_old_name",
        "profile_names_a_missing_interface",
        "profile_names_a_missing_mac_address",
    ),
    needs=("networkmanager",),
    uses=("pci.driver", "pci.virtio_driver"),
)
def profile_has_lost_its_nic(host: HostFacts) -> Outcomes:
    """A profile was last active after the last boot, and its interface does not exist now.

    The NIC was unplugged or removed, its driver was unbound, it failed, or it was moved into a container or a guest.
    The addresses and routes of the profile are gone with it.

    nictop reads from NetworkManager: a profile for Ethernet or InfiniBand that connects automatically, that is bound to
    a name or MAC address that no NIC has, and that was last active after the boot. Info: a USB NIC, or a network
    function of this host is reserved for guests (vfio-pci), so that the NIC may be in one.

    Not reported: profiles that were last active before the last boot, and hosts with a NIC that no profile matches, for
    which other checks name the profile.

    Sources: nm-settings-nmcli(5) connection.timestamp; NetworkManager src/core/nm-manager.c.
    """
    manager, inventory = host.profiles.manager, host.inventory
    if manager is None or inventory.wall < MIN_WALL or without_profile(host):
        return
    boot = inventory.wall - inventory.time - BOOT_CLOCK_ERROR
    for profile in host.profiles.profiles:
        missing = _missing_nic(host, profile) if profile.timestamp >= boot else ""
        if missing:
            yield _lost(host, profile, missing)


def _missing_nic(host: HostFacts, profile: Profile) -> str:
    """``interface ens224 does not exist``; "": it exists, or the profile is not meant to be active."""
    is_meant = profile.autoconnect and not profile.generated and not profile.volatile and not profile.unreadable
    if not is_meant or profile.type not in (ETHERNET, INFINIBAND) or profile.uuid in host.profiles.active_on:
        return ""
    if profile.interface_name in host.links_by_name:  # an altname: the link was renamed
        return ""
    return host.profiles.missing_binding(profile)


def _is_usb_name(name: str) -> bool:
    return name.startswith(USB_PREFIXES) or (name.startswith("en") and USB_PORT.search(name) is not None)


def _last_active(host: HostFacts, profile: Profile) -> str:
    """``12 min before this reading``; NetworkManager notes when a profile is activated, and at times while it is."""
    seconds = host.inventory.wall - profile.timestamp
    return f"{duration(seconds)} before this reading" if seconds > 0 else "at this reading"


def _lost(host: HostFacts, profile: Profile, missing: str) -> Finding:
    reserved = [one.address for one in host.snapshot.pci if one.driver in PASSTHROUGH_DRIVERS]
    unbound = [one.address for one in host.snapshot.pci if lacks_driver(host, one)]
    binding = profile.interface_name or profile.mac_address or ""
    addresses = ", ".join((*profile.ipv4.addresses, *profile.ipv6.addresses))
    off, on = (modify(host, profile, "connection.autoconnect", word) for word in ("no", "yes"))
    return host_finding(
        "info" if reserved or _is_usb_name(binding) else "warning",
        host,
        profile.id,
        f"its interface is gone: {binding}",
        evidence=(
            *profile_evidence(profile),
            Evidence("NIC", missing, "ip link"),
            Evidence("last active", _last_active(host, profile), "nmcli con show: connection.timestamp"),
            *((Evidence("addresses", addresses, f"profile {quoted_name(profile.id)}"),) if addresses else ()),
            *((Evidence("NIC without a driver", ", ".join(unbound[:4]), "lspci -k"),) if unbound else ()),
            *((Evidence("reserved for guests", ", ".join(reserved[:4]), "lspci -k"),) if reserved else ()),
        ),
        why="Its addresses and routes do not exist until the interface is there again."
        + (" A NIC here has no driver: see the finding about it." if unbound else ""),
        fixes=(
            *(() if unbound else (Fix("here", "Search for the NIC again", (echo(1, "/sys/bus/pci/rescan"),), None),)),
            Fix("here", "Show what the kernel logged", (command("dmesg", "-T"),), None),
            Fix("here", "Or, if it was removed on purpose, do not wait for it", (off,), True, (on,)),
        ),
    )
