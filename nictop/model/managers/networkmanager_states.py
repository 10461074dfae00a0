"""Texts for NetworkManager's constants: device states, state reasons, address methods.

Reads nothing. NM_DEVICE_STATE_* and NM_DEVICE_STATE_REASON_* of
libnm-core-public/nm-dbus-interface.h, 1.56.
"""

from __future__ import annotations

from nictop.probe.records import IpSettings

UNMANAGED, UNAVAILABLE, DISCONNECTED, IP_CONFIG, ACTIVATED, DEACTIVATING, FAILED = (
    10,
    20,
    30,
    70,
    100,
    110,
    120,
)
"""The NM_DEVICE_STATE_* that are used here; 40 to 90 are the steps of an activation."""
NO_ADDRESS_REASONS = frozenset((5, 6, 15, 16, 17))
"""NM_DEVICE_STATE_REASON_*: IP_CONFIG_UNAVAILABLE, IP_CONFIG_EXPIRED, DHCP_START_FAILED,
DHCP_ERROR, DHCP_FAILED."""
USER_REQUESTED, CARRIER, NEW_ACTIVATION = 39, 40, 60
"""NM_DEVICE_STATE_REASON_USER_REQUESTED, NM_DEVICE_STATE_REASON_CARRIER,
NM_DEVICE_STATE_REASON_NEW_ACTIVATION"""
NOT_FAILED_REASONS = frozenset(
    (2, 3, 36, 37, 38, USER_REQUESTED, CARRIER, 41, 42, 58, NEW_ACTIVATION, 61, 62, *range(69, 79))
)
"""NM_DEVICE_STATE_REASON_* with which a device is disconnected although nothing has failed:
NOW_MANAGED, NOW_UNMANAGED, REMOVED, SLEEPING, CONNECTION_REMOVED, USER_REQUESTED, CARRIER,
CONNECTION_ASSUMED, SUPPLICANT_AVAILABLE, MODEM_AVAILABLE, NEW_ACTIVATION (queued: the next one
begins at once), PARENT_CHANGED, PARENT_MANAGED_CHANGED, UNMANAGED_*, NETWORKING_OFF. After a
failure the reason is NONE (src/core/devices/nm-device.c: _set_state_full, deactivate_ready)."""

STATE_TEXTS = {
    0: "unknown",
    UNMANAGED: "unmanaged",
    UNAVAILABLE: "unavailable",
    DISCONNECTED: "disconnected",
    40: "connecting: prepare",
    50: "connecting: configuring",
    60: "connecting: need authentication",
    IP_CONFIG: "connecting: getting IP configuration",
    80: "connecting: checking IP connectivity",
    90: "connecting: starting secondary connections",
    ACTIVATED: "connected",
    DEACTIVATING: "deactivating",
    FAILED: "failed",
}
"""As nmcli prints them."""

REASON_TEXTS = {
    1: "unknown error",
    2: "NetworkManager manages it now",
    3: "NetworkManager no longer manages it",
    4: "device could not be readied for configuration",
    5: "no IP configuration: no address available or timeout",
    6: "IP configuration no longer valid",
    7: "secrets required, but not provided",
    8: "802.1X supplicant disconnected",
    9: "802.1X supplicant configuration failed",
    10: "802.1X supplicant failed",
    11: "802.1X authentication timed out",
    12: "PPP service failed to start",
    13: "PPP service disconnected",
    14: "PPP failed",
    15: "DHCP client failed to start",
    16: "DHCP client error",
    17: "DHCP client failed",
    18: "shared connection service failed to start",
    19: "shared connection service failed",
    20: "AutoIP service failed to start",
    21: "AutoIP service error",
    22: "AutoIP service failed",
    23: "line busy",
    24: "no dial tone",
    25: "modem: no carrier",
    26: "dialing timed out",
    27: "dialing failed",
    28: "modem initialization failed",
    29: "failed to select the APN",
    30: "not searching for networks",
    31: "network registration denied",
    32: "network registration timed out",
    33: "network registration failed",
    34: "PIN check failed",
    35: "device firmware may be missing",
    36: "device removed",
    37: "NetworkManager went to sleep",
    38: "its active profile was removed",
    39: "disconnected by a user or a program",
    40: "its carrier came or went",
    41: "existing configuration taken over",
    42: "802.1X supplicant is available again",
    43: "modem not found",
    44: "Bluetooth connection failed or timed out",
    45: "no SIM card",
    46: "SIM PIN required",
    47: "SIM PUK required",
    48: "wrong SIM card",
    49: "InfiniBand device does not support connected mode",
    50: "dependency of the connection failed",
    51: "RFC 2684 bridge failed",
    52: "ModemManager unavailable",
    53: "Wi-Fi network not found",
    54: "secondary connection failed",
    55: "DCB or FCoE setup failed",
    56: "teamd control failed",
    57: "modem failed or no longer available",
    58: "modem is available again",
    59: "SIM PIN incorrect",
    60: "another activation was requested",
    61: "its parent device was replaced",
    62: "NetworkManager began or ceased to manage its parent device",
    63: "Open vSwitch database connection failed",
    64: "duplicate IP address detected",
    65: "IP method not supported",
    66: "SR-IOV configuration failed",
    67: "Wi-Fi P2P peer not found",
    68: "device handler (dispatcher) failed",
    69: "unmanaged by default",
    70: "created outside NetworkManager and down",
    71: "not initialized by udev",
    72: "NetworkManager is quitting",
    73: "networking disabled or system suspended",
    74: "unmanaged-devices or managed=0 in the NetworkManager configuration",
    75: "nmcli device set … managed no",
    76: "settings plugin, e.g. keyfile.unmanaged-devices or NM_CONTROLLED=no",
    77: "udev property NM_UNMANAGED",
    78: "networking disabled",
    79: "modem: no operator code",
}
"""Shorter than those of nmcli. 0 means "no reason" and has no text."""
REASONS_IN_STATE = {
    (UNAVAILABLE, CARRIER): "its link has lost its carrier",
    (DISCONNECTED, CARRIER): "its carrier came, and no profile has been activated since",
    (DISCONNECTED, USER_REQUESTED): "by a user or a program",
    (DEACTIVATING, USER_REQUESTED): "by a user or a program",
}
"""(state, reason) that say more together: with a carrier that goes a device becomes unavailable,
with one that comes disconnected (src/core/devices/nm-device.c: carrier_changed)."""


def device_state_text(state: int, reason: int) -> str:
    """``failed (DHCP client error)``; only the state when there is no reason."""
    text = STATE_TEXTS.get(state, f"state {state}")
    why = REASONS_IN_STATE.get((state, reason)) or reason_text(reason)
    if why:
        return f"{text} ({why})"
    return text


def has_failed(state: int, reason: int) -> bool:
    """The last activation of a device has failed, and the next one has not begun."""
    if state == DISCONNECTED:
        return reason not in NOT_FAILED_REASONS
    return state == FAILED


def has_no_address(state: int, reason: int) -> bool:
    """It has failed, and nothing else than the IP configuration is said to be the cause."""
    if not has_failed(state, reason):
        return False
    is_unsaid = state == DISCONNECTED and reason == 0
    return is_unsaid or reason in NO_ADDRESS_REASONS


def reason_text(reason: int) -> str:
    """``DHCP client error``; "" when there is no reason."""
    if reason == 0:
        return ""
    return REASON_TEXTS.get(reason, f"reason {reason}")


METHOD_TEXTS = {
    "auto": "DHCP",
    "manual": "static",
    "disabled": "disabled",
    "ignore": "ignored",
    "link-local": "link-local only",
    "shared": "shared to other computers",
    "dhcp": "DHCPv6",
}


def ip_settings_text(settings: IpSettings, family: str) -> str:
    """``static 192.0.2.10/24, gateway 192.0.2.1`` · ``DHCP`` · ``disabled``. `family`: ipv4 or
    ipv6."""
    text = METHOD_TEXTS.get(settings.method, settings.method) or "method unknown"
    if family == "ipv6" and settings.method == "auto":
        text = "auto (RA, DHCPv6)"
    parts = [" ".join((text, ", ".join(settings.addresses))).strip()]
    if settings.gateway:
        parts.append(f"gateway {settings.gateway}")
    if settings.never_default:
        parts.append("never default route")
    if settings.route_metric is not None:
        parts.append(f"metric {settings.route_metric}")
    return ", ".join(parts)
