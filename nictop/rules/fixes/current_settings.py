"""The present ethtool settings as arguments of ``ethtool``: what an undo restores.

Reads nothing. ethtool(8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nictop.probe.records import Ethtool, Link

OFFLOAD_FEATURES = {
    "rx": ("rx-checksum",),
    "tx": ("tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"),
    "sg": ("tx-scatter-gather",),
    "tso": ("tx-tcp-segmentation", "tx-tcp6-segmentation"),
    "gso": ("tx-generic-segmentation",),
    "gro": ("rx-gro",),
    "lro": ("rx-lro",),
}
"""Short name → the kernel's features that ``ethtool -K`` sets by it (ethtool.c, off_flag_def)."""


Settings = dict[str, "str | None"]
"""Parameter → value; None: not known."""


def current_settings(link: Link, option: str) -> dict[str, str]:
    """Parameter of ``ethtool OPTION`` → its value now; parameters whose value is not known are
    absent."""
    read = SETTINGS_OF.get(option)
    if read is None:
        return {}
    return {name: value for name, value in read(link.ethtool).items() if value is not None}


def _switch(flag: bool | None) -> str | None:
    if flag is None:
        return None
    return "on" if flag else "off"


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)


def _channels(ethtool: Ethtool) -> Settings:
    now = ethtool.channels
    if now is None:
        return {}
    return {
        "rx": _number(now.rx),
        "tx": _number(now.tx),
        "other": _number(now.other),
        "combined": _number(now.combined),
    }


def _rings(ethtool: Ethtool) -> Settings:
    now = ethtool.rings
    if now is None:
        return {}
    return {
        "rx": _number(now.rx),
        "rx-mini": _number(now.rx_mini),
        "rx-jumbo": _number(now.rx_jumbo),
        "tx": _number(now.tx),
    }


def _features(ethtool: Ethtool) -> Settings:
    active = {feature.name: feature.active for feature in ethtool.features or ()}
    found = {name: _switch(flag) for name, flag in active.items()}
    for short, names in OFFLOAD_FEATURES.items():
        states = [active[name] for name in names if name in active]
        if states:
            found[short] = _switch(any(states))
    return found


def _coalescing(ethtool: Ethtool) -> Settings:
    found = {}
    for name, value in (ethtool.coalescing or {}).items():
        is_switch = name.startswith("adaptive-")
        found[name] = _switch(bool(value)) if is_switch else str(value)
    return found


def _pause(ethtool: Ethtool) -> Settings:
    now = ethtool.pause
    if now is None:
        return {}
    return {"autoneg": _switch(now.autonegotiation), "rx": _switch(now.rx), "tx": _switch(now.tx)}


def _private_flags(ethtool: Ethtool) -> Settings:
    return {name: _switch(flag) for name, flag in (ethtool.private_flags or {}).items()}


def _energy_efficiency(ethtool: Ethtool) -> Settings:
    return {} if ethtool.eee is None else {"eee": _switch(ethtool.eee.enabled)}


def _link_settings(ethtool: Ethtool) -> Settings:
    now = ethtool.settings
    if now is None:
        return {}
    return {
        "speed": _number(now.speed),
        "duplex": now.duplex,
        "autoneg": _switch(now.autonegotiation),
    }


SETTINGS_OF: Mapping[str, Callable[[Ethtool], Settings]] = {
    "-L": _channels,
    "-G": _rings,
    "-K": _features,
    "-C": _coalescing,
    "-A": _pause,
    "--set-priv-flags": _private_flags,
    "--set-eee": _energy_efficiency,
    "-s": _link_settings,
}
"""Option of ethtool that changes settings → how they are now."""
