"""Texts for ethtool values: offloads, coalescing, receive side scaling, pause, FEC, EEE.

Reads nothing; takes records and returns unsanitized text: `text.terminal.clean` is applied where it is displayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from nictop.model.text import units
from nictop.model.text.words import Tone, on_off
from nictop.probe.records import Eee, Feature, Fec, Pause, Rss


@dataclass(frozen=True)
class Offload:
    """A line of ``ethtool -k``: several features under their common name."""

    name: str
    features: tuple[str, ...]
    """Patterns of feature names, grouped as in ethtool (its off_flag_def table)."""
    usual: bool | None
    """The usual state; None: both are usual."""


ETHTOOL_OFFLOADS = (
    Offload("rx-checksumming", ("rx-checksum",), True),
    Offload("tx-checksumming", ("tx-checksum-*",), True),
    Offload("scatter-gather", ("tx-scatter-gather*",), True),
    Offload("tcp-segmentation-offload", ("tx-tcp*-segmentation",), True),
    Offload("generic-segmentation-offload", ("tx-generic-segmentation",), True),
    Offload("generic-receive-offload", ("rx-gro",), True),
    Offload("large-receive-offload", ("rx-lro",), False),
    Offload("rx-vlan-offload", ("rx-vlan-hw-parse",), None),
    Offload("tx-vlan-offload", ("tx-vlan-hw-insert",), None),
    Offload("ntuple-filters", ("rx-ntuple-filter",), None),
    Offload("receive-hashing", ("rx-hashing",), None),
)


@dataclass(frozen=True)
class OffloadState:
    """One offload of one link."""

    offload: Offload
    active: bool
    """One of its features is active, as ethtool counts."""
    fixed: bool
    """None of its features can be changed."""
    refused: bool
    """A feature was requested that is neither active nor fixed: the kernel or the driver disabled it again."""

    @property
    def unusual(self) -> bool:
        return self.offload.usual is not None and self.active != self.offload.usual

    @property
    def text(self) -> str:
        """As ethtool prints it: ``on``, ``off [fixed]``, ``off [requested on]``."""
        return on_off(self.active) + (" [fixed]" if self.fixed else " [requested on]" if self.refused else "")


def offload_states(features: Sequence[Feature]) -> tuple[OffloadState, ...]:
    """The offloads of these features, those that differ from usual first; offloads without any feature are absent."""
    states = []
    for offload in ETHTOOL_OFFLOADS:
        members = [one for one in features if any(fnmatchcase(one.name, pattern) for pattern in offload.features)]
        if members:
            active = any(one.active for one in members)
            changeable = [one for one in members if not one.fixed]
            refused = not active and any(one.wanted for one in changeable)
            states.append(OffloadState(offload, active, not changeable, refused))
    return tuple(sorted(states, key=lambda state: not state.unusual))


def other_features(features: Sequence[Feature]) -> tuple[str, ...]:
    """Names of the active features that belong to no offload of the table."""
    patterns = [pattern for offload in ETHTOOL_OFFLOADS for pattern in offload.features]
    return tuple(
        one.name for one in features if one.active and not any(fnmatchcase(one.name, pattern) for pattern in patterns)
    )


def pause_text(pause: Pause) -> str:
    counted = [
        f"{name} {units.count(number)} frames"
        for name, number in (("rx", pause.rx_frames), ("tx", pause.tx_frames))
        if number is not None
    ]
    return " · ".join(
        [f"rx {on_off(pause.rx)}, tx {on_off(pause.tx)}, autonegotiation {on_off(pause.autonegotiation)}", *counted]
    )


def fec_text(fec: Fec) -> str:
    configured = ", ".join((*(("auto",) if fec.automatic else ()), *fec.configured)) or "none"
    return f"active: {fec.active or 'none'} · configured: {configured}"


def eee_text(eee: Eee) -> str:
    if not eee.enabled:
        return "disabled"
    timer = f", tx LPI after {eee.tx_timer} µs" if eee.tx_low_power and eee.tx_timer is not None else ""
    return f"enabled, {'active' if eee.active else 'not active'}{timer}"


def rss_text(rss: Rss, queues: int) -> tuple[str, Tone]:
    """``128 entries over 4 queues, even``; `queues`: number of receive queues of the link, 0: not known."""
    if not rss.indirection:
        return "indirection table not reported by the driver", "dim"
    weights: dict[int, int] = {}
    for queue in rss.indirection:
        weights[queue] = weights.get(queue, 0) + 1
    used = len(weights)
    idle = used < queues
    over = f"{used} of {queues} queues" if idle else f"{used} queue{'' if used == 1 else 's'}"
    even = max(weights.values()) - min(weights.values()) <= 1
    spread = "" if used == 1 else ", even" if even else ", uneven"
    return f"{len(rss.indirection)} entries over {over}{spread}", "warn" if idle or not even else "normal"


COALESCING_FIRST = ("adaptive-rx", "adaptive-tx", "rx-usecs", "rx-frames", "tx-usecs", "tx-frames")


def coalescing_text(coalescing: Mapping[str, int]) -> str:
    """``adaptive-rx off · rx-usecs 50``: the most used parameters first, then those that are not 0."""
    names = [name for name in COALESCING_FIRST if name in coalescing]
    names += [name for name, value in coalescing.items() if value and name not in COALESCING_FIRST]
    return " · ".join(
        f"{name} {on_off(bool(coalescing[name])) if _is_switch(name) else coalescing[name]}" for name in names
    )


def _is_switch(name: str) -> bool:
    return name.startswith(("adaptive-", "cqe-mode-"))
