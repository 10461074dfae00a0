"""Texts for NetworkManager's constants: device states, state reasons, address methods.

Reads nothing. NM_DEVICE_STATE_* and NM_DEVICE_STATE_REASON_* of libnm-core-public/nm-dbus-interface.h, 1.56.
"""

from __future__ import annotations

from nictop.probe.records import IpSettings

UNMANAGED, UNAVAILABLE, DISCONNECTED, IP_CONFIG, ACTIVATED, DEACTIVATING, FAILED = 10, 20, 30, 70, 100, 110, 120
"""The NM_DEVICE_STATE_* that are used here; 40 to 90 are the steps of an activation."""
USER_REQUESTED = 39
"""NM_DEVICE_STATE_REASON_USER_REQUESTED"""

STATE_TEXTS = {
    0: "unknown",
    UNMANAGED: "not managed",
    UNAVAILABLE: "not available",
    DISCONNECTED: "disconnected",
    40: "connecting: preparing",
    50: "connecting: configuring",
    60: "connecting: waiting for a password",
    IP_CONFIG: "connecting: waiting for an address",
    80: "connecting: checking the address",
    90: "connecting: starting what depends on it",
    ACTIVATED: "connected",
    DEACTIVATING: "disconnecting",
    FAILED: "failed",
}

REASON_TEXTS = {
    1: "reason unknown",
    2: "now managed",
    3: "something told NetworkManager not to manage it",
    4: "the device could not be made ready",
    5: "no address could be had",
    6: "the address has expired",
    7: "a password was needed and not given",
    8: "the 802.1X supplicant disconnected",
    9: "the 802.1X supplicant could not be configured",
    10: "the 802.1X supplicant failed",
    11: "802.1X authentication took too long",
    12: "PPP did not start",
    13: "PPP disconnected",
    14: "PPP failed",
    15: "the DHCP client did not start",
    16: "the DHCP client reported an error",
    17: "the DHCP client failed",
    18: "the sharing service did not start",
    19: "the sharing service failed",
    20: "AutoIP did not start",
    21: "AutoIP reported an error",
    22: "AutoIP failed",
    23: "the line is busy",
    24: "no dial tone",
    25: "the modem found no carrier",
    26: "dialling took too long",
    27: "dialling failed",
    28: "the modem could not be initialised",
    29: "the access point name could not be selected",
    30: "the modem is not looking for networks",
    31: "registration in the mobile network was denied",
    32: "registration in the mobile network took too long",
    33: "registration in the mobile network failed",
    34: "the PIN check failed",
    35: "firmware of the device may be missing",
    36: "the device was removed",
    37: "NetworkManager went to sleep",
    38: "its profile was deleted or disappeared",
    39: "disconnected by hand",
    40: "the carrier changed",
    41: "an existing set-up was taken over",
    42: "the supplicant is available now",
    43: "the modem was not found",
    44: "Bluetooth failed",
    45: "no SIM card",
    46: "the SIM card needs its PIN",
    47: "the SIM card needs its PUK",
    48: "the wrong SIM card",
    49: "the InfiniBand device cannot do connected mode",
    50: "something that it depends on failed",
    51: "the RFC 2684 bridge failed",
    52: "ModemManager is not available",
    53: "the Wi-Fi network was not found",
    54: "a connection that depends on it failed",
    55: "DCB or FCoE could not be set up",
    56: "teamd could not be controlled",
    57: "the modem failed or went away",
    58: "the modem is ready now",
    59: "the SIM PIN is wrong",
    60: "another activation was asked for",
    61: "the device below changed",
    62: "the device below is managed differently now",
    63: "the Open vSwitch database could not be reached",
    64: "its address is in use by another machine",
    65: "this way of getting addresses is not supported",
    66: "SR-IOV could not be set up",
    67: "the Wi-Fi peer was not found",
    68: "the dispatcher of the device reported an error",
    69: "not managed by default",
    70: "made by somebody else, and down",
    71: "udev has not announced it",
    72: "NetworkManager is quitting",
    73: "networking is switched off, or the machine sleeps",
    74: "unmanaged-devices or managed=0 in NetworkManager's configuration",
    75: "told so with nmcli device set … managed no",
    76: "told so by a settings plugin, such as keyfile.unmanaged-devices or NM_CONTROLLED=no",
    77: "told so by udev: NM_UNMANAGED",
    78: "networking is switched off",
    79: "the modem has no operator code",
}
"""0 means "no reason" and has no text."""


def device_state_text(state: int, reason: int) -> str:
    """``failed (no address could be had)``; only the state when there is no reason."""
    text = STATE_TEXTS.get(state, f"state {state}")
    why = "" if reason == 0 else REASON_TEXTS.get(reason, f"reason {reason}")
    return f"{text} ({why})" if why else text


METHOD_TEXTS = {
    "auto": "DHCP",
    "manual": "static",
    "disabled": "off",
    "ignore": "not touched",
    "link-local": "link-local only",
    "shared": "shared to others",
    "dhcp": "DHCPv6",
}


def ip_settings_text(settings: IpSettings, family: str) -> str:
    """``static 192.0.2.10/24, gateway 192.0.2.1`` · ``DHCP`` · ``off``. `family`: ipv4 or ipv6."""
    text = METHOD_TEXTS.get(settings.method, settings.method) or "no method"
    if family == "ipv6" and settings.method == "auto":
        text = "router advertisements, DHCPv6"
    parts = [" ".join((text, ", ".join(settings.addresses))).strip()]
    if settings.gateway:
        parts.append(f"gateway {settings.gateway}")
    if settings.never_default:
        parts.append("never the default route")
    if settings.route_metric is not None:
        parts.append(f"metric {settings.route_metric}")
    return ", ".join(parts)
