"""Set the address of a NIC on a host without NetworkManager: temporarily with ``ip``, permanently
in the file of the network manager that configures the host. Pure. Sources: ip-address(8),
systemd.network(5), netplan(5), netplan-set(8), interfaces(5).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import ConfigurationEntry, Link
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import Command, command, print_lines
from nictop.rules.fixes.persistence import SAFE_NAME
from nictop.rules.host import HostFacts


@dataclass(frozen=True)
class AddressRequest:
    """The requested address of a NIC."""

    address: str | None
    """``192.0.2.10/24``, or of IPv6; None: by DHCP."""
    gateway: str = ""
    """Only with a default route; "": none."""
    default_route: bool = False
    """This NIC may have one: by its gateway, or as DHCP sets it."""
    new_profile: bool = False
    """Create a profile of NetworkManager even if there is one that could be used."""


def address_now(link: Link, request: AddressRequest) -> Fix:
    """Until reboot. nictop does not apply a DHCP client or routes: the user runs these."""
    if request.address is None:
        ask, release = command("dhclient", "-v", link.name), command("dhclient", "-r", link.name)
        return Fix("here", "Temporary: request an address by DHCP", (ask,), False, (release,))
    lines = [command("ip", "address", "add", request.address, "dev", link.name)]
    has_route = any(route.gateway == request.gateway for route in link.default_routes)
    if request.gateway and not has_route:
        lines.append(
            command("ip", "route", "add", "default", "via", request.gateway, "dev", link.name)
        )
    undo = command("ip", "address", "del", request.address, "dev", link.name)
    return Fix("here", "Temporary: set the address", tuple(lines), False, (undo,))


def address_files(host: HostFacts, link: Link, request: AddressRequest) -> tuple[Fix, ...]:
    """Persistent settings for each of the usual network managers, that of this host first."""
    if not SAFE_NAME.fullmatch(link.name):
        return ()
    fixes = {
        "netplan": _netplan(link, request),
        "networkd": _networkd(link, request),
        "ifupdown": _ifupdown(host, link, request),
    }
    owner = addressing_manager(host)
    return tuple(fixes[name] for name in sorted(fixes, key=lambda name: name != owner))


def addressing_manager(host: HostFacts) -> str:
    """The network manager that configures the host; "": none of these."""
    inventory = host.inventory
    owners = {setting.owner for setting in inventory.configuration}
    if "netplan" in owners:
        return "netplan"
    if inventory.networkd or inventory.services.networkd is not None:
        return "networkd"
    return "ifupdown" if "ifupdown" in owners else ""


def _networkd(link: Link, request: AddressRequest) -> Fix:
    lines = ["[Match]", f"Name={link.name}", "[Network]"]
    if request.address is None:
        lines.append("DHCP=yes")
        if not request.default_route:
            lines += ["[DHCPv4]", "UseGateway=no"]
    else:
        lines.append(f"Address={request.address}")
        if request.gateway:
            lines.append(f"Gateway={request.gateway}")
    file = f"/etc/systemd/network/10-{link.name}.network"
    reload = (command("networkctl", "reload"), command("networkctl", "reconfigure", link.name))
    undo = (command("rm", file), *reload)
    return Fix(
        "here", "Permanent: systemd-networkd", (print_lines(lines, file), *reload), True, undo
    )


def _netplan(link: Link, request: AddressRequest) -> Fix:
    key = f"ethernets.{link.name.replace('.', chr(92) + '.')}"
    values = []
    if request.address is None:
        values.append("dhcp4=true")
        if not request.default_route:
            values.append("dhcp4-overrides.use-routes=false")
    else:
        values += ["dhcp4=false", f"addresses=[{request.address}]"]
        if request.gateway:
            values.append(f'routes=[{{"to":"default","via":"{request.gateway}"}}]')
    commands: Sequence[Command] = [command("netplan", "set", f"{key}.{value}") for value in values]
    note = "netplan get shows the current settings."
    return Fix(
        "here", "Permanent: netplan", (*commands, command("netplan", "apply")), True, (), note
    )


def _ifupdown(host: HostFacts, link: Link, request: AddressRequest) -> Fix:
    if request.address is None:
        lines = [f"auto {link.name}", f"iface {link.name} inet dhcp"]
        if not request.default_route:
            lines.append(f"    post-up ip route del default dev {link.name} || true")
    else:
        family = "inet6" if ipaddress.ip_interface(request.address).version == 6 else "inet"
        lines = [
            f"auto {link.name}",
            f"iface {link.name} {family} static",
            f"    address {request.address}",
        ]
        if request.gateway:
            lines.append(f"    gateway {request.gateway}")
    file = f"/etc/network/interfaces.d/{link.name}"
    note = ""
    stanza = _first_stanza(host, link)
    if stanza is not None:
        note = f"{stanza.file} already has a stanza for this interface: remove it first."
    commands = (print_lines(lines, file), command("ifup", link.name))
    return Fix(
        "here",
        "Permanent: ifupdown",
        commands,
        True,
        (command("ifdown", link.name), command("rm", file)),
        note,
    )


def _first_stanza(host: HostFacts, link: Link) -> ConfigurationEntry | None:
    """What the files of ifupdown already say about an interface."""
    for setting in host.inventory.configuration:
        if setting.owner == "ifupdown" and link.name in setting.names:
            return setting
    return None
