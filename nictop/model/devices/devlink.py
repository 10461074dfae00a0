"""Devlink instances and ports of links and PCI functions. Pure."""

from __future__ import annotations

from nictop.probe.records import DevlinkDevice, DevlinkPort, Inventory, Link

SWITCHDEV_MODES = ("switchdev", "switchdev_inactive")


def devlink_of_function(address: str, inventory: Inventory) -> DevlinkDevice | None:
    """The devlink instance of a PCI function."""
    for device in inventory.devlink:
        if (device.bus, device.device) == ("pci", address):
            return device
    return None


def devlink_of_link(link: Link, inventory: Inventory) -> DevlinkDevice | None:
    """The devlink instance of the device that carries a link."""
    names = ((link.bus, link.device), ("pci", link.pci_address))
    for device in inventory.devlink:
        if (device.bus, device.device) in names:
            return device
    return None


def devlink_port(link: Link, device: DevlinkDevice) -> DevlinkPort | None:
    return next((port for port in device.ports if port.ifindex == link.ifindex), None)


def is_switchdev(link: Link, inventory: Inventory) -> bool:
    """The embedded switch behind a link is in switchdev mode: what devlink reports; without a
    report, only ports of such a switch have a switch id."""
    device = devlink_of_link(link, inventory)
    if device is not None and device.mode is not None:
        return device.mode in SWITCHDEV_MODES
    return bool(link.switch_id)
