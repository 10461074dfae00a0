"""Profiles whose NIC has disappeared while the host was running."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS
from nictop.model.managers.profile_match import ETHERNET, INFINIBAND
from nictop.model.text.units import wall_time_text
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import PciFunction, Profile
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command, echo
from nictop.rules.fixes.profiles import modify, profile_evidence, quoted_name
from nictop.rules.host import HostFacts
from nictop.rules.pci.drivers import driver_fixes, lacks_driver, lacks_interface
from nictop.rules.profiles.nics import has_nic_without_interface, without_profile
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding

MAX_SHOWN = 4
"""PCI addresses in the evidence."""
BOOT_CLOCK_ERROR = 60.0
"""Seconds by which the time of day may have been set after boot."""
USB_PREFIXES = ("enx", "usb")
USB_PORT = pattern(r"u[0-9]")
"""In names of USB NICs, ``enp0s20f0u1`` (systemd.net-naming-scheme(7)); they are unplugged with a
dock."""
MIN_WALL = 1e9
"""Seconds since the epoch: a clock before 2001 is not set."""


@host_rule(
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

    The NIC was unplugged or removed, its driver was unbound, it failed, or it was moved into a
    container or a guest. The addresses and routes of the profile are gone with it.

    nictop reads from NetworkManager: a profile for Ethernet or InfiniBand that connects
    automatically, that is bound to a name or MAC address that no NIC has, and that was last active
    after the boot. Info: a USB NIC, or a network function of this host is reserved for guests
    (vfio-pci), so that the NIC may be in one.

    Not reported: profiles that were last active before the last boot, and hosts with a NIC that no
    profile matches, for which other checks name the profile.

    Sources: nm-settings-nmcli(5) connection.timestamp; NetworkManager src/core/nm-manager.c.
    """
    manager, inventory = host.profiles.manager, host.inventory
    if manager is None or inventory.wall < MIN_WALL:
        return
    if without_profile(host) and not has_nic_without_interface(host):
        return  # another check names the profile
    boot = inventory.wall - inventory.time - BOOT_CLOCK_ERROR
    for profile in host.profiles.profiles:
        missing = _missing_nic(host, profile) if profile.timestamp >= boot else ""
        if missing:
            yield _lost(host, profile, missing)


def _missing_nic(host: HostFacts, profile: Profile) -> str:
    """``interface ens224 does not exist``; "": it exists, or the profile is not meant to be
    active."""
    if not profile.autoconnect or profile.generated or profile.volatile or profile.unreadable:
        return ""
    if profile.type not in (ETHERNET, INFINIBAND) or profile.uuid in host.profiles.active_on:
        return ""
    if profile.interface_name in host.links_by_name:  # an altname: the link was renamed
        return ""
    return host.profiles.missing_binding(profile)


def _is_usb_name(name: str) -> bool:
    if name.startswith(USB_PREFIXES):
        return True
    return name.startswith("en") and USB_PORT.search(name) is not None


def _lost(host: HostFacts, profile: Profile, missing: str) -> Finding:
    reserved = _addresses(host, lambda function: function.driver in PASSTHROUGH_DRIVERS)
    unbound = _addresses(host, lambda function: lacks_driver(host, function))
    without_interface = [
        function for function in host.snapshot.pci if lacks_interface(host, function)
    ]
    binding = profile.interface_name or profile.mac_address or ""
    addresses = ", ".join((*profile.ipv4.addresses, *profile.ipv6.addresses))
    # NetworkManager notes when a profile is activated, and at times while it is
    last_active = wall_time_text(profile.timestamp)
    evidence = [
        *profile_evidence(profile),
        Evidence("NIC", missing, "ip link"),
        Evidence("last active", last_active, "nmcli con show: connection.timestamp"),
    ]
    for what, value, source in (
        ("addresses", addresses, f"profile {quoted_name(profile.id)}"),
        ("NIC without a driver", ", ".join(unbound), "lspci -k"),
        ("NIC without an interface", _listed(without_interface), "/sys/bus/pci/devices/*/net"),
        ("reserved for guests", ", ".join(reserved), "lspci -k"),
    ):
        if value:
            evidence.append(Evidence(what, value, source))
    why = "Its addresses and routes do not exist until the interface is there again."
    fixes = []
    if not _is_usb_name(binding):
        fixes = [Fix("here", "Search for the NIC again", (echo(1, "/sys/bus/pci/rescan"),), None)]
    if unbound:
        why += " A NIC here has no driver: see the finding about it."
        fixes = []
    elif without_interface:
        why += " A NIC on the PCI bus has no interface: its driver may have just been unbound."
        fixes = [*driver_fixes(host, without_interface[0])[:1]]
    fixes.append(Fix("here", "Show what the kernel logged", (command("dmesg", "-T"),), None))
    off = modify(host, profile, "connection.autoconnect", "no")
    on = modify(host, profile, "connection.autoconnect", "yes")
    title = "Or, if it was removed on purpose, do not wait for it"
    fixes.append(Fix("here", title, (off,), True, (on,)))
    may_be_meant = bool(reserved) or _is_usb_name(binding)
    return host_finding(
        "info" if may_be_meant else "warning",
        host,
        profile.id,
        f"its interface is gone: {binding}",
        evidence=tuple(evidence),
        why=why,
        fixes=tuple(fixes),
    )


def _addresses(host: HostFacts, is_meant: Callable[[PciFunction], bool]) -> list[str]:
    """PCI addresses of the first of these functions."""
    functions = filter(is_meant, host.snapshot.pci)
    return [function.address for function in functions][:MAX_SHOWN]


def _listed(functions: Sequence[PciFunction]) -> str:
    """PCI addresses of the first of them."""
    return ", ".join(function.address for function in functions[:MAX_SHOWN])
