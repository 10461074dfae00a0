"""Texts for ethtool values: offloads, coalescing, receive side scaling, pause, FEC, EEE.

Reads nothing; takes records and returns unsanitized text: `text.terminal.clean` is applied where it
is displayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from nictop.model.text import units
from nictop.model.text.words import Tone, count_noun, on_off, warn_if
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Eee, Feature, Fec, Pause, Rss


@dataclass(frozen=True)
class Offload:
    """A line of ``ethtool -k``: several features under their common name."""

    name: str
    features: tuple[str, ...]
    """Patterns of feature names, grouped as in ethtool (its off_flag_def table)."""
    option: str = ""
    """Its name for ``ethtool -K``, of those that `DRIVERS_WITH_OFFLOADS_ON` turn on; "": drivers
    differ."""


ETHTOOL_OFFLOADS = (
    Offload("rx-checksumming", ("rx-checksum",), "rx"),
    Offload("tx-checksumming", ("tx-checksum-*",), "tx"),
    Offload("scatter-gather", ("tx-scatter-gather*",), "sg"),
    Offload("tcp-segmentation-offload", ("tx-tcp*-segmentation",), "tso"),
    Offload("generic-segmentation-offload", ("tx-generic-segmentation",), "gso"),
    Offload("generic-receive-offload", ("rx-gro",), "gro"),
    Offload("large-receive-offload", ("rx-lro",)),
    Offload("rx-vlan-offload", ("rx-vlan-hw-parse",)),
    Offload("tx-vlan-offload", ("tx-vlan-hw-insert",)),
    Offload("ntuple-filters", ("rx-ntuple-filter",)),
    Offload("receive-hashing", ("rx-hashing",)),
)


DRIVERS_WITH_OFFLOADS_ON = (
    *("virtio_net", "vmxnet3", "hv_netvsc", "xen_netfront", "vif", "ena", "gve"),
    *("igb", "igbvf", "igc", "ixgbe", "ixgbevf", "i40e", "iavf", "ice", "e1000"),
    *("mlx4_en", "mlx5_core", "bnxt_en", "qede", "tg3", "sfc"),
)
"""Drivers that turn all of these on by default if the NIC supports them; r8169 and nfp do not,
e1000e not always, and a veth has GRO off (drivers/net/veth.c veth_disable_gro)."""
OFF_BY_DEFAULT = {"e1000": ("rx",)}
"""e1000_probe adds NETIF_F_RXCSUM to what can be changed, after it has turned on the rest."""


@dataclass(frozen=True)
class OffloadState:
    """One offload of one link."""

    offload: Offload
    active: bool
    """One of its features is active, as ethtool counts."""
    fixed: bool
    """None of its features can be changed."""
    refused: bool
    """A feature was requested that is neither active nor fixed: the kernel or the driver disabled
    it again."""

    def is_off_unlike_default(self, driver: str | None) -> bool:
        """The driver turns it on by default, where the NIC supports it."""
        option = self.offload.option
        if self.active or self.fixed or not option or driver not in DRIVERS_WITH_OFFLOADS_ON:
            return False
        return option not in OFF_BY_DEFAULT.get(driver or "", ())

    @property
    def text(self) -> str:
        """As ethtool prints it: ``on``, ``off [fixed]``, ``off [requested on]``."""
        state = on_off(self.active)
        if self.fixed:
            return f"{state} [fixed]"
        if self.refused:
            return f"{state} [requested on]"
        return state


def offload_states(features: Sequence[Feature]) -> tuple[OffloadState, ...]:
    """The offloads of these features; offloads without any feature are absent."""
    members: dict[str, list[Feature]] = {offload.name: [] for offload in ETHTOOL_OFFLOADS}
    for feature in features:
        part_of = _offload_of(feature.name)
        if part_of is not None:
            members[part_of.name].append(feature)
    states = []
    for offload in ETHTOOL_OFFLOADS:
        own = members[offload.name]
        if own:
            active = any(feature.active for feature in own)
            changeable = [feature for feature in own if not feature.fixed]
            refused = not active and any(feature.wanted for feature in changeable)
            states.append(OffloadState(offload, active, not changeable, refused))
    return tuple(states)


@lru_cache(maxsize=1024)  # the kernel has some sixty features, and each NIC the same
def _offload_of(feature: str) -> Offload | None:
    """That a feature, by its name, is part of; None: it is in no line."""
    for offload in ETHTOOL_OFFLOADS:
        if any(fnmatchcase(feature, pattern) for pattern in offload.features):
            return offload
    return None


def other_features(features: Sequence[Feature]) -> tuple[str, ...]:
    """Names of the active features that belong to no offload of the table."""
    active = [feature.name for feature in features if feature.active]
    return tuple(name for name in active if _offload_of(name) is None)


def pause_text(pause: Pause) -> str:
    autonegotiation = on_off(pause.autonegotiation)
    parts = [f"rx {on_off(pause.rx)}, tx {on_off(pause.tx)}, autonegotiation {autonegotiation}"]
    if pause.rx_frames is not None:
        parts.append(f"rx {units.count(pause.rx_frames)} frames")
    if pause.tx_frames is not None:
        parts.append(f"tx {units.count(pause.tx_frames)} frames")
    return " · ".join(parts)


def fec_text(fec: Fec) -> str:
    configured = [*fec.configured]
    if fec.automatic:
        configured.insert(0, "auto")
    return f"active: {fec.active or 'none'} · configured: {', '.join(configured) or 'none'}"


def eee_text(eee: Eee) -> str:
    if not eee.enabled:
        return "disabled"
    text = f"enabled, {'active' if eee.active else 'not active'}"
    if eee.tx_low_power and eee.tx_timer is not None:
        text += f", tx LPI after {eee.tx_timer} µs"
    return text


def rss_text(rss: Rss, queues: int) -> tuple[str, Tone]:
    """``128 entries over 4 queues, even``; `queues`: number of receive queues of the link, 0: not
    known."""
    if not rss.indirection:
        return "indirection table not reported by the driver", "dim"
    weights = Counter(rss.indirection)
    used = len(weights)
    is_idle = used < queues
    over = f"{used} of {queues} queues" if is_idle else count_noun(used, "queue")
    is_even = max(weights.values()) - min(weights.values()) <= 1
    parts = [f"{len(rss.indirection)} entries over {over}"]
    if used > 1:
        parts.append("even" if is_even else "uneven")
    return ", ".join(parts), warn_if(is_idle or not is_even)


COALESCING_FIRST = ("adaptive-rx", "adaptive-tx", "rx-usecs", "rx-frames", "tx-usecs", "tx-frames")


def coalescing_text(coalescing: Mapping[str, int]) -> str:
    """``adaptive-rx off · rx-usecs 50``: the most used parameters first, then those that are not
    0."""
    names = [name for name in COALESCING_FIRST if name in coalescing]
    names += [name for name, value in coalescing.items() if value and name not in COALESCING_FIRST]
    return " · ".join(f"{name} {_parameter_text(name, coalescing[name])}" for name in names)


def _parameter_text(name: str, value: int) -> str:
    if name.startswith(("adaptive-", "cqe-mode-")):
        return on_off(bool(value))
    return str(value)
