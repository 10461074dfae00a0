"""The present ethtool settings as arguments of ``ethtool``: what an undo restores.

Reads nothing. ethtool(8).
"""

from __future__ import annotations

from nictop.probe.records import Channels, Link, LinkSettings, Pause, Rings

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


def current_settings(link: Link, option: str) -> dict[str, str]:
    """Parameter of ``ethtool OPTION`` → its value now; parameters whose value is not known are absent."""
    ethtool = link.ethtool
    found: dict[str, str | None] = {}
    if option == "-L" and ethtool.channels is not None:
        found = _channels(ethtool.channels)
    elif option == "-G" and ethtool.rings is not None:
        found = _rings(ethtool.rings)
    elif option == "-K":
        active = {one.name: one.active for one in ethtool.features or ()}
        found = {name: _switch(flag) for name, flag in active.items()}
        for short, names in OFFLOAD_FEATURES.items():
            states = [active[name] for name in names if name in active]
            found[short] = _switch(any(states)) if states else None
    elif option == "-C":
        found = {
            name: _switch(bool(value)) if name.startswith("adaptive-") else str(value)
            for name, value in (ethtool.coalescing or {}).items()
        }
    elif option == "-A" and ethtool.pause is not None:
        found = _pause(ethtool.pause)
    elif option == "--set-priv-flags":
        found = {name: _switch(flag) for name, flag in (ethtool.private_flags or {}).items()}
    elif option == "--set-eee" and ethtool.eee is not None:
        found = {"eee": _switch(ethtool.eee.enabled)}
    elif option == "-s" and ethtool.settings is not None:
        found = _settings(ethtool.settings)
    return {name: value for name, value in found.items() if value is not None}


def _switch(flag: bool | None) -> str | None:
    return None if flag is None else ("on" if flag else "off")


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)


def _channels(now: Channels) -> dict[str, str | None]:
    return {
        "rx": _number(now.rx),
        "tx": _number(now.tx),
        "other": _number(now.other),
        "combined": _number(now.combined),
    }


def _rings(now: Rings) -> dict[str, str | None]:
    return {
        "rx": _number(now.rx),
        "rx-mini": _number(now.rx_mini),
        "rx-jumbo": _number(now.rx_jumbo),
        "tx": _number(now.tx),
    }


def _pause(now: Pause) -> dict[str, str | None]:
    return {"autoneg": _switch(now.autonegotiation), "rx": _switch(now.rx), "tx": _switch(now.tx)}


def _settings(now: LinkSettings) -> dict[str, str | None]:
    return {"speed": _number(now.speed), "duplex": now.duplex, "autoneg": _switch(now.autonegotiation)}
