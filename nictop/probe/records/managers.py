"""Who manages a link: NetworkManager's devices and profiles, networkd's state, and what configuration files say.

Secrets are never asked for: `Profile` comes from GetSettings, which leaves them out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True)
class IpSettings:
    """The ipv4 or ipv6 part of a profile."""

    method: str
    """auto, manual, disabled, ignore, link-local, shared, dhcp. ``ipv4.method``"""
    addresses: tuple[str, ...] = ()
    """``192.0.2.1/24``. ``ipv4.address-data``"""
    gateway: str | None = None
    never_default: bool = False
    route_metric: int | None = None
    """None: -1, NetworkManager chooses."""
    may_fail: bool = True
    routes: tuple[str, ...] = ()
    """``198.51.100.0/24 via 192.0.2.254``. ``ipv4.route-data``"""
    has_routing_rules: bool = False
    """``ipv4.routing-rules`` or ``ipv4.route-table`` is set: policy routing."""


@dataclass(frozen=True)
class Profile:
    """A connection profile. org.freedesktop.NetworkManager.Settings.Connection: properties and GetSettings."""

    path: str
    """D-Bus object path, ``/org/freedesktop/NetworkManager/Settings/3``."""
    uuid: str
    id: str
    """``connection.id``: free text; blanks, quotes, newlines and any script occur, and need not be unique."""
    type: str
    """``connection.type``: 802-3-ethernet, vlan, bond, bridge, infiniband, loopback, …"""
    filename: str | None
    """Where it is stored; None: in memory only."""
    unsaved: bool
    """The copy in memory differs from that on disk, or there is none on disk. Property Unsaved."""
    generated: bool
    """NetworkManager made it by itself (NM_GENERATED, 0x2): "Wired connection 1", and lo or externally made ones."""
    volatile: bool
    """It is deleted when its device disconnects (VOLATILE, 0x4)."""
    external: bool
    """It only describes what somebody else set up (EXTERNAL, 0x8)."""
    nm_generated_default: bool = False
    """Made because no profile matched ("auto-default"), not to describe an external set-up: generated, not external."""
    interface_name: str | None = None
    """``connection.interface-name``; None: any."""
    mac_address: str | None = None
    """``802-3-ethernet.mac-address``, lower case with colons; compared with the permanent address."""
    mac_address_denylist: tuple[str, ...] = ()
    cloned_mac_address: str | None = None
    """An address or random, stable, preserve, permanent."""
    mtu: int | None = None
    """Bytes; None: automatic (0)."""
    match_interface_names: tuple[str, ...] = ()
    """``match.interface-name``: shell patterns, may start with ! & |."""
    match_drivers: tuple[str, ...] = ()
    match_paths: tuple[str, ...] = ()
    match_kernel_command_line: tuple[str, ...] = ()
    autoconnect: bool = True
    autoconnect_priority: int = 0
    """Higher wins. -999: a profile that NetworkManager generated."""
    autoconnect_retries: int = -1
    multi_connect: int = 0
    """0 default (single), 1 single, 2 manual-multiple, 3 multiple."""
    timestamp: int = 0
    """Seconds since the epoch when it was last up; 0: never. The youngest wins among equal priorities."""
    permissions: tuple[str, ...] = ()
    """Users it is restricted to; empty: everybody."""
    controller: str | None = None
    """``connection.controller`` (formerly master): UUID or interface name of the bond, bridge or team."""
    port_type: str | None = None
    ipv4: IpSettings = field(default_factory=lambda: IpSettings("disabled"))
    ipv6: IpSettings = field(default_factory=lambda: IpSettings("disabled"))
    vlan_id: int | None = None
    vlan_parent: str | None = None
    """UUID or interface name."""
    sriov_total_vfs: int | None = None
    """``sriov.total-vfs``; None: the profile has no sriov part."""
    ethtool: dict[str, int] = field(default_factory=dict)
    """``ethtool.*``: channels-combined, ring-rx, feature-tso (0 or 1), coalesce-rx-usecs, …"""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)


@dataclass(frozen=True)
class ManagedDevice:
    """A device as NetworkManager sees it. org.freedesktop.NetworkManager.Device."""

    interface: str
    """Property Interface: its name."""
    type: int
    """NM_DEVICE_TYPE_*: 1 Ethernet, 32 loopback, …"""
    state: int
    """NM_DEVICE_STATE_*: 10 unmanaged, 20 unavailable, 30 disconnected, 40 … 90 activating, 100 activated, 110
    deactivating, 120 failed."""
    reason: int
    """NM_DEVICE_STATE_REASON_*, second half of property StateReason."""
    managed: bool
    autoconnect: bool
    """False after ``nmcli device disconnect`` until a profile is activated by hand."""
    active_profile: str | None = None
    """UUID of the profile that is up or coming up on it. org.freedesktop.NetworkManager.Connection.Active"""
    active_state: int | None = None
    """NM_ACTIVE_CONNECTION_STATE_*: 1 activating, 2 activated, 3 deactivating, 4 deactivated."""
    available_profiles: tuple[str, ...] = ()
    """UUIDs that NetworkManager itself considers compatible and available now."""
    permanent_address: str | None = None
    """PermHwAddress, lower case."""


@dataclass(frozen=True)
class NetworkManagerConfiguration:
    """What the files of NetworkManager.conf say together: /usr/lib, /run and /etc, the last one wins."""

    no_auto_default: tuple[str, ...] = ()
    """``main.no-auto-default``: device specs for which no profile is generated; ``*``: all."""
    no_auto_default_state: tuple[str, ...] = ()
    """MAC addresses, or ``interface-name:=NAME`` of devices without a permanent one, in
    /var/lib/NetworkManager/no-auto-default.state: their generated profile was deleted or edited."""
    unmanaged_devices: tuple[str, ...] = ()
    """``keyfile.unmanaged-devices``: device specs."""
    device_unmanaged: tuple[str, ...] = ()
    """Device specs of ``[device…]`` sections with ``managed=0``."""
    origins: dict[str, str] = field(default_factory=dict)
    """Field of this record → file that set it last."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)


@dataclass(frozen=True)
class NetworkManager:
    """One reading of the service over the system bus (org.freedesktop.DBus.ObjectManager.GetManagedObjects)."""

    version: str
    startup: bool
    """Still starting: profiles are being activated for the first time."""
    networking_enabled: bool
    devices: dict[int, ManagedDevice]
    """By ifindex; matched by interface name within the same inventory."""
    profiles: tuple[Profile, ...]
    """In the order of their object paths' numbers. One whose settings belong to other users has an empty `uuid` and
    `id`, and says why in its `unreadable` under "settings"."""
    configuration: NetworkManagerConfiguration = field(default_factory=NetworkManagerConfiguration)
    unreadable: dict[str, Unreadable] = field(default_factory=dict)


@dataclass(frozen=True)
class NetworkdLink:
    """One link of systemd-networkd. /run/systemd/netif/links/IFINDEX."""

    setup_state: str
    """ADMIN_STATE: configured, configuring, unmanaged, failed, pending, initialized, linger."""
    operational_state: str | None = None
    """OPER_STATE: routable, degraded, carrier, no-carrier, off, …"""
    network_file: str | None = None
    """NETWORK_FILE; /run/systemd/network/10-netplan-…: netplan wrote it."""


ConfigurationOwner = Literal["netplan", "ifupdown", "networkd", "link", "udev", "ifcfg", "cloud-init", "sriov", "other"]


@dataclass(frozen=True)
class ConfigurationEntry:
    """One stanza of a configuration file that names or matches a link: only this leaves the host, never its text."""

    owner: ConfigurationOwner
    """netplan: /etc/netplan/*.yaml. ifupdown: /etc/network/interfaces and interfaces.d. networkd: *.network. link:
    *.link. udev: rules that set sriov_numvfs, NAME or NM_UNMANAGED. ifcfg: network-scripts. cloud-init: its own
    network-config. sriov: modprobe.d max_vfs, tuned, rc.local or a unit that writes sriov_numvfs."""
    file: str
    line: int
    """Counted from one."""
    names: tuple[str, ...] = ()
    """Interface names or shell patterns it applies to; ``!`` in front of one: to all others. Empty together with
    `addresses`, `drivers` and `paths`: it matches by something else, not everything."""
    addresses: tuple[str, ...] = ()
    """MAC addresses or shell patterns of them it matches, lower case."""
    drivers: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """PCI addresses or udev ID_PATH patterns."""
    methods: tuple[str, ...] = ()
    """How addresses are set: dhcp4, dhcp6, auto (router advertisements), static, manual, loopback; whatever else a
    file says is kept as it is."""
    virtual_functions: int | None = None
    """How many VFs it asks for."""
    new_name: str | None = None
    """link, udev: the name it gives."""
    ignores: bool = False
    """It tells a manager to leave the link alone (NM_UNMANAGED, Unmanaged=yes)."""


@dataclass(frozen=True)
class StoppedManager:
    """A manager of networks that is installed and does not run, where systemd starts daemons."""

    name: Literal["NetworkManager", "systemd-networkd"]
    unit: Literal["enabled", "disabled", "masked"]
    """As ``systemctl is-enabled`` says."""
    profiles: tuple[ConfigurationEntry, ...] = ()
    """NetworkManager: profiles on disk that connect by themselves, for Ethernet and InfiniBand. systemd-networkd: none,
    its .network files are among `Inventory.configuration`."""
