"""Offloads that have been turned off.

Reads nothing. Kernel: Documentation/networking/segmentation-offloads.rst, include/linux/netdev_features.h.
"""

from __future__ import annotations

from nictop.probe.records import Link
from nictop.rules.finding import Evidence
from nictop.rules.fixes.current_settings import OFFLOAD_FEATURES
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_used, link_finding

DRIVERS_WITH_OFFLOADS_ON = (
    *("virtio_net", "vmxnet3", "hv_netvsc", "xen_netfront", "vif", "ena", "gve"),
    *("igb", "igbvf", "igc", "ixgbe", "ixgbevf", "i40e", "iavf", "ice", "e1000"),
    *("mlx4_en", "mlx5_core", "bnxt_en", "qede", "nfp", "tg3", "sfc"),
)
"""Drivers that turn all of these on by default if the NIC supports them; r8169 does not, e1000e not always."""
OFFLOAD_OPTIONS = ("tx", "rx", "sg", "tso", "gso", "gro")
"""Names for ``ethtool -K``; tx comes first, because segmentation needs it."""
OFFLOAD_TEXT = {
    "tx": "tx-checksumming",
    "rx": "rx-checksumming",
    "sg": "scatter-gather",
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
}


@host_rule("virtio", "warning", uses=("ethtool.driver", "ethtool.features"))
def offloads_are_off(host: HostFacts) -> Outcomes:
    """Offloads that the driver turns on by default are off.

    nictop reads ethtool -k: checksumming, scatter-gather, TSO, GSO and GRO that are off by request and can be changed.
    Not reported: [fixed] features, features that are off only because another one is, drivers with other defaults, and
    LRO, which must be off on hosts that forward packets. Common causes: capture tools that do not restore the setting
    (ntopng#7083), and old workarounds for bugs that have been fixed.
    """
    for link in host.links_where(drivers=DRIVERS_WITH_OFFLOADS_ON):
        if not is_used(link):
            continue
        off = _off_by_request(link)
        if not off:
            continue
        values = [part for short in off for part in (short, "on")]
        yield link_finding(
            "warning",
            host,
            link,
            f"offloads are off: {', '.join(off)}",
            evidence=tuple(Evidence(OFFLOAD_TEXT[short], "off", f"ethtool -k {link.name}") for short in off),
            why="The kernel then processes each packet separately. At high rates this needs several times the CPU "
            "time.",
            fixes=ethtool_fixes(host, link, ["-K", *values]),
        )


def _off_by_request(link: Link) -> list[str]:
    """Names for ``ethtool -K`` of which every changeable feature is off and not wanted."""
    is_off = {one.name: not one.active and not one.wanted for one in link.ethtool.features or () if not one.fixed}
    if not any(is_off.values()):
        return []
    states = {short: [is_off[name] for name in OFFLOAD_FEATURES[short] if name in is_off] for short in OFFLOAD_OPTIONS}
    return [short for short, off in states.items() if off and all(off)]
