"""The MTU that the DHCP server of a link offers (option 26).

Reads nothing; leases of NetworkManager and systemd-networkd.
"""

from __future__ import annotations

from nictop.model.parts import managed_devices
from nictop.probe.records import Inventory


def offered_mtu(inventory: Inventory, ifindex: int) -> tuple[int | None, str]:
    """(Bytes, where it was read); None: no lease, or none in it."""
    device = managed_devices(inventory.networkmanager).get(ifindex)
    if device is not None and device.dhcp_mtu is not None:
        return device.dhcp_mtu, "NetworkManager: Dhcp4Config.Options"
    networkd = inventory.networkd.get(ifindex)
    if networkd is not None and networkd.dhcp_mtu is not None:
        return networkd.dhcp_mtu, f"/run/systemd/netif/leases/{ifindex}"
    return None, ""
