"""Netplan files and cloud-init's network configuration → `ConfigurationEntry`, one per link. Pure.

netplan(5); cloud-init's "Networking config" versions 1 and 2. Version 2 is the language of netplan.
"""

from __future__ import annotations

from collections.abc import Iterator

from nictop.probe.inventory.configuration.yaml_subset import Node, parse_yaml
from nictop.probe.inventory.routing.resolvers import is_address
from nictop.probe.kernel.sysfs import parse_integer
from nictop.probe.records import ConfigurationEntry
from nictop.probe.records.managers import ConfigurationOwner

DEVICE_KINDS = ["ethernets", "wifis", "modems", "bonds", "bridges", "vlans", "tunnels", "vrfs"]
DEVICE_KINDS += ["dummy-devices", "virtual-ethernets"]
DEFAULT_DESTINATIONS = ("default", "0.0.0.0/0", "::/0")
STATIC_SUBNETS = ("static", "static6")
SUBNET_METHODS = {"dhcp": "dhcp4", "dhcp4": "dhcp4", "dhcp6": "dhcp6", "manual": "manual", "loopback": "loopback"}
"""Type of a subnet in version 1 → method. dhcp6 has longer forms as well: ipv6_dhcpv6-stateful, …"""


def parse_netplan(text: str, file: str, owner: ConfigurationOwner = "netplan") -> list[ConfigurationEntry]:
    """One file of /etc/netplan."""
    return list(version_2(parse_yaml(text).get("network"), file, owner))


def parse_cloud_init(text: str, file: str) -> list[ConfigurationEntry]:
    """A file of cloud.cfg.d with a ``network`` key, or a network-config without one."""
    document = parse_yaml(text)
    network = document.get("network") if "network" in document.items() else document
    config = network.get("config")
    if config.text() == "disabled":
        return [ConfigurationEntry("cloud-init", file, config.line, names=("*",), ignores=True)]
    if network.get("version").text() == "1":
        return list(version_1(config, file))
    return list(version_2(network, file, "cloud-init"))


def version_2(network: Node, file: str, owner: ConfigurationOwner) -> Iterator[ConfigurationEntry]:
    """``ethernets: {ID: {match: …, set-name: …, dhcp4: …}}``; without ``match`` the ID is the name."""
    known = names_by_id(network)
    for kind in DEVICE_KINDS:
        for name, device in network.get(kind).items().items():
            match = device.get("match")
            names = match.get("name").texts() if match.items() else (name,)
            yield ConfigurationEntry(
                owner=owner,
                file=file,
                line=device.line,
                names=names,
                addresses=tuple(address.lower() for address in match.get("macaddress").texts()),
                drivers=match.get("driver").texts(),
                methods=address_methods(device),
                virtual_functions=parse_integer(device.get("virtual-function-count").text()),
                new_name=device.get("set-name").text() or None,
                members=tuple(filter(None, (known.get(one, one) for one in members_of(device)))),
                gateways=tuple(gateways(device)),
            )


def gateways(device: Node) -> Iterator[str]:
    """``gateway4``, ``gateway6``, and ``via`` of default routes in the table main."""
    for key in ("gateway4", "gateway6"):
        if is_address(device.get(key).text()):
            yield device.get(key).text()
    for route in device.get("routes").sequence():
        is_default = route.get("to").text() in DEFAULT_DESTINATIONS and route.get("table").text() in ("", "254")
        if is_default and is_address(route.get("via").text()):
            yield route.get("via").text()


def members_of(device: Node) -> tuple[str, ...]:
    """IDs of the devices that a bridge, bond or VLAN uses."""
    return (*device.get("interfaces").texts(), *device.get("link").texts())


def names_by_id(network: Node) -> dict[str, str]:
    """ID of each NIC with ``match`` → the name that it gets; "": it keeps its own, which is not in the file."""
    devices = network.get("ethernets").items().items()
    return {name: device.get("set-name").text() for name, device in devices if device.get("match").items()}


def address_methods(device: Node) -> tuple[str, ...]:
    found = [key for key in ("dhcp4", "dhcp6") if device.get(key).is_true()]
    if device.get("addresses").sequence():
        found.append("static")
    return tuple(found)


def version_1(config: Node, file: str) -> Iterator[ConfigurationEntry]:
    """``config: [{type: physical, name: eth0, mac_address: …, subnets: [{type: dhcp}]}]``."""
    for device in config.sequence():
        name = device.get("name").text()
        if not name or device.get("type").text() in ("nameserver", "route"):
            continue
        found = []
        for subnet in device.get("subnets").sequence():
            kind = subnet.get("type").text()
            method = (
                "static" if kind in STATIC_SUBNETS else SUBNET_METHODS.get(kind, "dhcp6" if "dhcpv6" in kind else "")
            )
            if method and method not in found:
                found.append(method)
        address = device.get("mac_address").text().lower()
        yield ConfigurationEntry(
            owner="cloud-init",
            file=file,
            line=device.line,
            names=() if address and device.get("type").text() == "physical" else (name,),
            addresses=(address,) if address else (),
            methods=tuple(found),
            new_name=name if address and device.get("type").text() == "physical" else None,
        )
