"""Names of ethtool's parameters in a NetworkManager profile and in a .link file.

Reads nothing. nm-settings-nmcli(5) and libnm's NMSettingEthtool ("Since" of each option),
systemd.link(5).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nictop.rules.host import HostFacts

PROFILE_OPTIONS = {
    "-L": ("channels", (1, 46)),
    "-G": ("ring", (1, 26)),
    "-K": ("feature", (1, 20)),
    "-C": ("coalesce", (1, 26)),
    "-A": ("pause", (1, 32)),
    "--set-eee": ("eee", (1, 46)),
}
"""Option of ethtool → prefix of NetworkManager's property names, and the first version that has
them."""
PROFILE_NAMES = {"eee": "enabled"}
"""Parameter of ethtool → its name in a profile, where that is another one."""

LINK_FILE_KEYS: dict[str, dict[str, str]] = {
    "-L": {
        "rx": "RxChannels",
        "tx": "TxChannels",
        "other": "OtherChannels",
        "combined": "CombinedChannels",
    },
    "-G": {
        "rx": "RxBufferSize",
        "rx-mini": "RxMiniBufferSize",
        "rx-jumbo": "RxJumboBufferSize",
        "tx": "TxBufferSize",
    },
    "-K": {
        "rx": "ReceiveChecksumOffload",
        "tx": "TransmitChecksumOffload",
        "tso": "TCPSegmentationOffload",
        "gso": "GenericSegmentationOffload",
        "gro": "GenericReceiveOffload",
        "lro": "LargeReceiveOffload",
    },
    "-A": {"autoneg": "AutoNegotiationFlowControl", "rx": "RxFlowControl", "tx": "TxFlowControl"},
    "-C": {
        "rx-usecs": "RxCoalesceSec",
        "tx-usecs": "TxCoalesceSec",
        "rx-frames": "RxMaxCoalescedFrames",
        "tx-frames": "TxMaxCoalescedFrames",
        "adaptive-rx": "UseAdaptiveRxCoalesce",
        "adaptive-tx": "UseAdaptiveTxCoalesce",
    },
    "-s": {"duplex": "Duplex", "autoneg": "AutoNegotiation"},
}
LINK_FILE_SWITCHES = {"on": "yes", "off": "no"}


def networkmanager_settings(
    host: HostFacts, option: str, values: Sequence[str]
) -> list[str] | None:
    """Property, value, property, value … for ``nmcli con mod``; None: this NetworkManager has no
    property for it."""
    manager = host.inventory.networkmanager
    if manager is None:
        return None
    pairs = list(zip(values[::2], values[1::2], strict=False))
    if option == "-s":
        return _speed(dict(pairs))
    prefix, since = PROFILE_OPTIONS.get(option, (None, (0, 0)))
    if prefix is None or not pairs or version(manager.version) < since:
        return None
    numbers = {"on": "1", "off": "0"} if option == "-C" else {}
    words = []
    for name, value in pairs:
        words.append(f"ethtool.{prefix}-{PROFILE_NAMES.get(name, name)}")
        words.append(numbers.get(value, value))
    return words


def _speed(values: dict[str, str]) -> list[str] | None:
    if values.get("autoneg") == "on":
        return [
            "802-3-ethernet.auto-negotiate",
            "yes",
            "802-3-ethernet.speed",
            "0",
            "802-3-ethernet.duplex",
            "",
        ]
    speed, duplex = values.get("speed"), values.get("duplex")
    if speed is None or duplex is None:
        return None
    return [
        *("802-3-ethernet.auto-negotiate", "no"),
        *("802-3-ethernet.speed", speed),
        *("802-3-ethernet.duplex", duplex),
    ]


def link_file_lines(option: str, values: Sequence[str]) -> list[str] | None:
    """Lines of a [Link] section; None: a .link file has no key for one of these."""
    names = LINK_FILE_KEYS.get(option, {})
    lines = []
    for name, value in zip(values[::2], values[1::2], strict=False):
        if option == "-s" and name == "speed":
            lines.append(f"BitsPerSecond={value}M")
            continue
        if name not in names:
            return None
        unit = "us" if name.endswith("-usecs") else ""
        lines.append(f"{names[name]}={LINK_FILE_SWITCHES.get(value, value)}{unit}")
    return lines or None


def version(text: str) -> tuple[int, int]:
    """``1.42.4`` → (1, 42); (0, 0): not a version."""
    match = re.match(r"(\d{1,4})\.(\d{1,4})", text, re.ASCII)
    return (int(match[1]), int(match[2])) if match else (0, 0)
