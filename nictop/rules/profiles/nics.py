"""What the rules on profiles and addresses consider a NIC, and which NICs are not configured.

Pure. A NIC here is a netdev with a device that is not a port. Bridges, VLANs, taps and lo are created by the software
that uses them, and so are veths, unless NetworkManager has a profile for them. Wi-Fi is not included: its profiles are
named after networks, and a laptop may be in one network by cable and Wi-Fi.
"""

from __future__ import annotations

from nictop.model.managers.networkmanager_states import UNMANAGED, device_state_text
from nictop.model.managers.profile_match import is_generated_default
from nictop.model.snapshot import ARPHRD_ETHER, ARPHRD_INFINIBAND
from nictop.model.text.words import is_virtual
from nictop.probe.records import Link, ManagedDevice
from nictop.rules.finding import Evidence
from nictop.rules.fixes.profiles import has_address
from nictop.rules.host import HostFacts, once_per_host

IFF_UP, IFF_SLAVE = 0x1, 0x800
WIFI = 2
"""NM_DEVICE_TYPE_WIFI."""


def is_nic(host: HostFacts, link: Link) -> bool:
    """Ethernet or InfiniBand, with a device, and no port of another link or representor of a switch."""
    return (
        link.type in (ARPHRD_ETHER, ARPHRD_INFINIBAND)
        and link.kind is None
        and link.master is None
        and not link.flags & IFF_SLAVE
        and not is_virtual(link)
        and "vf" not in (link.physical_port or "")
        and not _is_wireless(host, link)
    )


def _is_wireless(host: HostFacts, link: Link) -> bool:
    """By NetworkManager's device type, else by the name prefix of udev and the kernel for Wi-Fi."""
    device = host.profiles.device(link)
    return device.type == WIFI if device is not None else link.name.startswith("wl")


@once_per_host
def nics(host: HostFacts) -> tuple[Link, ...]:
    return tuple(link for link in host.links if is_nic(host, link))


@once_per_host
def managed_nics(host: HostFacts) -> tuple[tuple[Link, ManagedDevice], ...]:
    """NICs that NetworkManager manages, while it manages anything."""
    manager = host.profiles.manager
    if manager is None or not manager.networking_enabled:
        return ()
    managed = ((link, manager.devices.get(link.ifindex)) for link in host.links)
    return tuple(
        (link, device)
        for link, device in managed
        if device is not None and device.state > UNMANAGED and (is_nic(host, link) or is_nic_of_container(host, link))
    )


def is_nic_of_container(host: HostFacts, link: Link) -> bool:
    """A veth with a NetworkManager profile, as inside a container; other veths are managed by other software."""
    if link.kind != "veth" or link.master is not None:
        return False
    return host.profiles.is_named(link.name) or bool(host.profiles.fitting(link))


def is_unassigned_vf(host: HostFacts, link: Link) -> bool:
    """A virtual function whose physical function is on this host: usually not assigned to a guest yet."""
    function = host.functions.get(link.pci_address or "")
    return function is not None and function.physical_function is not None


def has_own_profile(host: HostFacts, link: Link) -> bool:
    """A profile that was not generated matches, or the link was configured outside NetworkManager."""
    active = host.profiles.active(link)
    return (active is not None and not is_generated_default(active)) or bool(host.profiles.user_profiles(link))


@once_per_host
def without_profile(host: HostFacts) -> tuple[Link, ...]:
    """NICs that NetworkManager manages and that only generated profiles match."""
    return tuple(
        link
        for link, _ in managed_nics(host)
        if not has_own_profile(host, link) and not is_unassigned_vf(host, link) and not set_up_otherwise(host, link)
    )


def set_up_otherwise(host: HostFacts, link: Link) -> bool:
    """systemd-networkd manages it, or a stanza of ifupdown or netplan applies to it."""
    networkd = host.inventory.networkd.get(link.ifindex)
    if networkd is not None and networkd.setup_state not in ("unmanaged", "linger"):
        return True
    return bool(host.configuration.addressing(link))


def unconfigured_nics(host: HostFacts) -> tuple[Link, ...]:
    """NICs without an address that no manager, profile or stanza configures."""
    return tuple(
        link
        for link in nics(host)
        if not has_address(link)
        and not is_unassigned_vf(host, link)
        and not host.profiles.user_profiles(link)
        and not set_up_otherwise(host, link)
    )


def state_evidence(device: ManagedDevice) -> Evidence:
    return Evidence("state", device_state_text(device.state, device.reason), "NetworkManager: Device.StateReason")


def address_evidence(link: Link) -> Evidence:
    found = [f"{one.address}/{one.prefix_length}" for one in link.addresses if one.scope == "global"]
    none = "link-local only" if link.addresses else "none"
    return Evidence("addresses", ", ".join(found) or none, "ip address")
