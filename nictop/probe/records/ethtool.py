"""Records of what ethtool(8) shows of one link."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class DriverInfo:
    """ioctl ETHTOOL_GDRVINFO. Strings that the driver does not set are empty."""

    driver: str
    version: str
    firmware: str
    bus_info: str


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Link modes and port. ethtool netlink: LINKINFO, LINKMODES."""

    speed: int | None
    """Mb/s; None: unknown (no carrier, or not reported by the driver, as virtio_net)."""
    duplex: Literal["full", "half"] | None
    autonegotiation: bool | None
    port: str | None
    """tp, aui, mii, fibre, bnc, da (direct attach copper), none, other."""
    transceiver: str | None
    """internal or external."""
    lanes: int | None = None
    supported: tuple[str, ...] = ()
    """Link modes supported by the hardware: ``10000baseSR/Full`` (ETHTOOL_LINK_MODE_*, names from
    the string set)."""
    advertised: tuple[str, ...] = ()
    partner: tuple[str, ...] = ()
    """Link modes advertised by the link partner."""


@dataclass(frozen=True, slots=True)
class LinkState:
    """ethtool netlink: LINKSTATE."""

    detected: bool | None
    """Link detected by the driver; may differ from the carrier for a short time."""
    extended_state: str | None = None
    """Why there is no link: autoneg, no cable, module, overheat, … (ETHTOOL_LINK_EXT_STATE_*)."""
    down_events: int | None = None
    """Number of times the physical link went down (ext-down-cnt)."""


@dataclass(frozen=True, slots=True)
class Channels:
    """Numbers of queues and their maxima. ethtool netlink: CHANNELS. None: the driver has no queues
    of this type."""

    rx: int | None
    tx: int | None
    other: int | None
    combined: int | None
    max_rx: int | None
    max_tx: int | None
    max_other: int | None
    max_combined: int | None


@dataclass(frozen=True, slots=True)
class Rings:
    """Descriptors per queue and their maxima. ethtool netlink: RINGS."""

    rx: int | None
    rx_mini: int | None
    rx_jumbo: int | None
    tx: int | None
    max_rx: int | None
    max_rx_mini: int | None
    max_rx_jumbo: int | None
    max_tx: int | None
    rx_buffer_length: int | None = None
    """Bytes."""
    tcp_data_split: str | None = None
    """unknown, disabled or enabled."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One offload. ethtool netlink: FEATURES, names from the string set ``features``."""

    name: str
    """As ``ethtool -k`` prints single features: tx-tcp-segmentation, rx-gro, …"""
    active: bool
    wanted: bool
    fixed: bool
    """Cannot be changed: not supported by the hardware, or never changeable (ethtool prints
    [fixed])."""


@dataclass(frozen=True, slots=True)
class Rss:
    """Receive side scaling. ethtool netlink: RSS (Linux 6.3), indirection table by ioctl before
    it."""

    indirection: tuple[int, ...]
    """Slot → receive queue. Empty: not reported by the driver."""
    hash_function: str | None
    """toeplitz, xor, crc32."""
    key_length: int | None
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Ethernet flow control. ethtool netlink: PAUSE."""

    autonegotiation: bool
    rx: bool
    tx: bool
    rx_frames: int | None = None
    tx_frames: int | None = None


@dataclass(frozen=True, slots=True)
class Fec:
    """Forward error correction. ethtool netlink: FEC."""

    configured: tuple[str, ...]
    """Off, RS, BASER, LLRS."""
    automatic: bool
    active: str | None


@dataclass(frozen=True, slots=True)
class Eee:
    """Energy efficient Ethernet. ethtool netlink: EEE."""

    enabled: bool
    active: bool
    tx_low_power: bool | None
    tx_timer: int | None
    """Microseconds."""


@dataclass(frozen=True, slots=True)
class Optics:
    """One lane of an optical module's diagnostics."""

    rx_power: float | None
    """Milliwatt received."""
    tx_power: float | None
    """Milliwatt transmitted."""
    bias: float | None
    """Milliampere, laser bias current."""


@dataclass(frozen=True, slots=True)
class Module:
    """The plugged-in transceiver, from its EEPROM (SFF-8472, SFF-8636, CMIS). ethtool netlink:
    MODULE_EEPROM; needs root."""

    kind: str
    """SFP, QSFP+, QSFP28, QSFP-DD, …"""
    vendor: str
    part: str
    serial: str
    connector: str
    """LC, RJ45, copper pigtail, no separable connector, …"""
    medium: Literal["fibre", "copper", "unknown"]
    """copper: DAC or BASE-T."""
    length: float | None = None
    """Metres of the attached cable; None: the cable can be unplugged from the module."""
    wavelength: float | None = None
    """Nanometres."""
    temperature: float | None = None
    """Degrees Celsius."""
    voltage: float | None = None
    """Volt."""
    lanes: tuple[Optics, ...] = ()
    """Empty: no diagnostics (a passive cable)."""


@dataclass(frozen=True, slots=True)
class Ethtool:
    """What ethtool(8) shows of one link. For a part that is None the reason is in `unreadable`, by
    field name."""

    driver: DriverInfo | None = None
    settings: LinkSettings | None = None
    state: LinkState | None = None
    channels: Channels | None = None
    rings: Rings | None = None
    coalescing: dict[str, int] | None = None
    """Names of ``ethtool -c`` (rx-usecs, tx-frames, adaptive-rx: 0 or 1), only those that the
    driver supports. Microseconds, packets."""
    features: tuple[Feature, ...] | None = None
    rss: Rss | None = None
    pause: Pause | None = None
    fec: Fec | None = None
    eee: Eee | None = None
    udp_hash: tuple[str, ...] | None = None
    """Fields by which UDP over IPv4 is distributed to the queues: addresses, ports, other.
    ETHTOOL_GRXFH. Only for hv_netvsc, where with ports the fragments of a packet go to different
    queues; None: not requested."""
    private_flags: dict[str, bool] | None = None
    module: Module | None = None
    driver_counter_names: tuple[str, ...] | None = None
    """String set ETH_SS_STATS: the names of the values in `Counters.driver`."""
    driver_counters: tuple[int, ...] | None = None
    """Values at the time of the inventory."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
