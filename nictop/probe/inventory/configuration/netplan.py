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
SUBNET_METHODS = {
    "dhcp": "dhcp4",
    "dhcp4": "dhcp4",
    "dhcp6": "dhcp6",
    "manual": "manual",
    "loopback": "loopback",
}
"""Type of a subnet in version 1 → method. dhcp6 has longer forms as well: ipv6_dhcpv6-stateful,
…"""


def parse_netplan(
    text: str, file: str, owner: ConfigurationOwner = "netplan"
) -> list[ConfigurationEntry]:
    """One file of /etc/netplan."""
    return list(version_2(parse_yaml(text).get("network"), file, owner))


def parse_cloud_init(text: str, file: str) -> list[ConfigurationEntry]:
    """A file of cloud.cfg.d with a ``network`` key, or a network-config without one."""
    document = parse_yaml(text)
    network = document.items().get("network", document)
    config = network.get("config")
    if config.text() == "disabled":
        return [ConfigurationEntry("cloud-init", file, config.line, names=("*",), ignores=True)]
    if network.get("version").text() == "1":
        return list(version_1(config, file))
    return list(version_2(network, file, "cloud-init"))


def version_2(network: Node, file: str, owner: ConfigurationOwner) -> Iterator[ConfigurationEntry]:
    """``ethernets: {ID: {match: …, set-name: …, dhcp4: …}}``; without ``match`` the ID is the
    name."""
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
        gateway = device.get(key).text()
        if is_address(gateway):
            yield gateway
    for route in device.get("routes").sequence():
        if route.get("to").text() not in DEFAULT_DESTINATIONS:
            continue
        gateway = route.get("via").text()
        if route.get("table").text() in ("", "254") and is_address(gateway):
            yield gateway


def members_of(device: Node) -> tuple[str, ...]:
    """IDs of the devices that a bridge, bond or VLAN uses."""
    return (*device.get("interfaces").texts(), *device.get("link").texts())


def names_by_id(network: Node) -> dict[str, str]:
    """ID of each NIC with ``match`` → the name that it gets; "": it keeps its own, which is not in
    the file."""
    names = {}
    for identity, device in network.get("ethernets").items().items():
        if device.get("match").items():
            names[identity] = device.get("set-name").text()
    return names


def address_methods(device: Node) -> tuple[str, ...]:
    found = [key for key in ("dhcp4", "dhcp6") if device.get(key).is_true()]
    if device.get("addresses").sequence():
        found.append("static")
    return tuple(found)


def version_1(config: Node, file: str) -> Iterator[ConfigurationEntry]:
    """``config: [{type: physical, name: eth0, mac_address: …, subnets: [{type: dhcp}]}]``."""
    for device in config.sequence():
        name, kind = device.get("name").text(), device.get("type").text()
        if not name or kind in ("nameserver", "route"):
            continue
        address = device.get("mac_address").text().lower()
        is_renamed = kind == "physical" and address != ""
        yield ConfigurationEntry(
            owner="cloud-init",
            file=file,
            line=device.line,
            names=() if is_renamed else (name,),
            addresses=(address,) if address else (),
            methods=subnet_methods(device),
            new_name=name if is_renamed else None,
        )


def subnet_methods(device: Node) -> tuple[str, ...]:
    """How the addresses of a device of version 1 are set, each once."""
    methods: dict[str, None] = {}
    for subnet in device.get("subnets").sequence():
        kind = subnet.get("type").text()
        if kind in STATIC_SUBNETS:
            methods["static"] = None
        elif kind in SUBNET_METHODS:
            methods[SUBNET_METHODS[kind]] = None
        elif "dhcpv6" in kind:
            methods["dhcp6"] = None
    return tuple(methods)
