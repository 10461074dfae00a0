"""What the rules on profiles and addresses consider a NIC, and which NICs are not configured.

Pure. A NIC here is a netdev with a device that is not a port. Bridges, VLANs, taps and lo are
created by the software that uses them, and so are veths, unless NetworkManager has a profile for
them. Wi-Fi is not included: its profiles are named after networks, and a laptop may be in one
network by cable and Wi-Fi.
"""

from __future__ import annotations

from nictop.model.devices.links import has_global_address
from nictop.model.managers.networkmanager_states import (
    ACTIVATED,
    DEACTIVATING,
    DISCONNECTED,
    FAILED,
    NEW_ACTIVATION,
    UNMANAGED,
    device_state_text,
)
from nictop.model.managers.profile_match import is_generated_default
from nictop.model.snapshot import ARPHRD_ETHER, ARPHRD_INFINIBAND, is_unread_link
from nictop.model.text.words import is_virtual
from nictop.probe.records import Link, ManagedDevice
from nictop.rules.finding import Evidence
from nictop.rules.host import HostFacts, once_per_host
from nictop.rules.pci.drivers import lacks_driver
from nictop.rules.subjects import global_address_texts

IFF_UP, IFF_SLAVE = 0x1, 0x800
WIFI = 2
"""NM_DEVICE_TYPE_WIFI."""


def is_nic(host: HostFacts, link: Link) -> bool:
    """Ethernet or InfiniBand, with a device, and no port of another link or representor of a
    switch."""
    if link.type not in (ARPHRD_ETHER, ARPHRD_INFINIBAND) or link.kind is not None:
        return False
    if link.master is not None or link.flags & IFF_SLAVE:
        return False
    if is_virtual(link) or "vf" in (link.physical_port or ""):
        return False
    return not _is_wireless(host, link)


def _is_wireless(host: HostFacts, link: Link) -> bool:
    """By NetworkManager's device type, else by the name prefix of udev and the kernel for Wi-Fi."""
    device = host.profiles.device(link)
    if device is None:
        return link.name.startswith("wl")
    return device.type == WIFI


@once_per_host
def nics(host: HostFacts) -> tuple[Link, ...]:
    return tuple(link for link in host.links if is_nic(host, link))


@once_per_host
def managed_nics(host: HostFacts) -> tuple[tuple[Link, ManagedDevice], ...]:
    """NICs that NetworkManager manages, while it manages anything."""
    found = []
    numbers = {link.ifindex for link in nics(host)}
    for link, device in devices_of_networkmanager(host):
        if device.state <= UNMANAGED:
            continue
        if link.ifindex in numbers or is_nic_of_container(host, link):
            found.append((link, device))
    return tuple(found)


@once_per_host
def devices_of_networkmanager(host: HostFacts) -> tuple[tuple[Link, ManagedDevice], ...]:
    """All links that it knows, while it manages anything, also those that it leaves alone."""
    manager = host.profiles.manager
    if manager is None or not manager.networking_enabled:
        return ()
    found = []
    for link in host.links:
        device = manager.devices.get(link.ifindex)
        if device is not None:
            found.append((link, device))
    return tuple(found)


def is_nic_of_container(host: HostFacts, link: Link) -> bool:
    """A veth with a NetworkManager profile, as inside a container; other veths are managed by other
    software."""
    if link.kind != "veth" or link.master is not None:
        return False
    return host.profiles.is_named(link.name) or bool(host.profiles.fitting(link))


def is_unassigned_vf(host: HostFacts, link: Link) -> bool:
    """A virtual function whose physical function is on this host: usually not assigned to a guest
    yet."""
    function = host.function_of(link)
    return function is not None and function.physical_function is not None


def has_own_profile(host: HostFacts, link: Link) -> bool:
    """A profile that was not generated matches, or the link was configured outside
    NetworkManager."""
    active = host.profiles.active(link)
    if active is not None and not is_generated_default(active):
        return True
    return bool(host.profiles.user_profiles(link))


@once_per_host
def without_profile(host: HostFacts) -> tuple[Link, ...]:
    """NICs that NetworkManager manages and that only generated profiles match."""
    found = []
    for link, _ in managed_nics(host):
        if has_own_profile(host, link) or is_unassigned_vf(host, link):
            continue
        if not set_up_otherwise(host, link):
            found.append(link)
    return tuple(found)


def set_up_otherwise(host: HostFacts, link: Link) -> bool:
    """systemd-networkd manages it, or a stanza of ifupdown or netplan applies to it."""
    if is_managed_by_networkd(host, link):
        return True
    return bool(host.configuration.addressing(link))


def is_managed_by_networkd(host: HostFacts, link: Link) -> bool:
    """Not only listed by it."""
    networkd = host.inventory.networkd.get(link.ifindex)
    return networkd is not None and networkd.setup_state not in ("unmanaged", "linger")


def is_set_up(host: HostFacts, link: Link) -> bool:
    """It has an address, or something else than NetworkManager configures it."""
    return has_global_address(link) or set_up_otherwise(host, link)


@once_per_host
def has_nic_without_interface(host: HostFacts) -> bool:
    """A NIC has no interface, or may have none, because no driver is bound to it: a name or address
    that no interface has may be its own, and is proposed for no other NIC."""
    if any(lacks_driver(host, function) for function in host.snapshot.pci):
        return True
    return _has_changed_links(host)


def _has_changed_links(host: HostFacts) -> bool:
    """The interface of a NIC is gone since the inventory was read, or one has come: what became of
    its driver is in the next inventory only."""
    now = host.snapshot.links
    if any(is_unread_link(link) for link in now.values()):
        return True
    inventory = host.snapshot.inventory
    if inventory is None:
        return False
    return any(link.ifindex not in now and not is_virtual(link) for link in inventory.links)


def unconfigured_nics(host: HostFacts) -> tuple[Link, ...]:
    """NICs without an address that no manager, profile or stanza configures."""
    found = []
    for link in nics(host):
        if has_global_address(link) or is_unassigned_vf(host, link):
            continue
        if not host.profiles.user_profiles(link) and not set_up_otherwise(host, link):
            found.append(link)
    return tuple(found)


USE_TEXTS = {
    ACTIVATED: "active",
    DEACTIVATING: "being deactivated",
    FAILED: "failed",
}
"""State of a device that has a profile; else the profile is being activated."""


def use_text(device: ManagedDevice | None) -> str:
    """What the profile of the device is: ``active``, ``being activated``."""
    if device is None:
        return "active"
    return USE_TEXTS.get(device.state, "being activated")


def is_next_queued(device: ManagedDevice) -> bool:
    """Disconnected only until another activation begins, which was requested already."""
    return device.state == DISCONNECTED and device.reason == NEW_ACTIVATION


def state_evidence(device: ManagedDevice) -> Evidence:
    text = device_state_text(device.state, device.reason)
    if device.external and device.state == ACTIVATED:
        text += " (externally)"  # as nmcli prints it
    return Evidence("state", text, "NetworkManager: Device.StateReason")


def address_evidence(link: Link) -> Evidence:
    text = ", ".join(global_address_texts(link))
    if not text:
        text = "link-local only" if link.addresses else "none"
    return Evidence("addresses", text, "ip address")
