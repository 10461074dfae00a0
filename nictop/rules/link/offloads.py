"""Offloads that somebody switched off: work that the NIC, or the kernel for many packets at once, would do.

Reads nothing. Kernel: Documentation/networking/segmentation-offloads.rst, include/linux/netdev_features.h.
"""

from __future__ import annotations

from nictop.probe.records import Feature, Link
from nictop.rules.finding import Evidence
from nictop.rules.fixes.current_settings import OFFLOAD_FEATURES
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_used, link_finding

PARAVIRTUAL_DRIVERS = (
    *("virtio_net", "vmxnet3", "hv_netvsc", "xen_netfront", "vif", "ena", "gve"),
    *("igb", "igbvf", "igc", "ixgbe", "ixgbevf", "i40e", "iavf", "ice", "e1000"),
    *("mlx4_en", "mlx5_core", "bnxt_en", "qede", "nfp", "tg3", "sfc"),
)
"""Drivers that switch all of these on by themselves when the NIC has them; r8169 does not, e1000e not always."""
OFFLOAD_OPTIONS = ("tx", "rx", "sg", "tso", "gso", "gro")
"""Names for ``ethtool -K``; tx comes first, because segmentation needs it."""
OFFLOAD_TEXT = {
    "tx": "checksums when sending",
    "rx": "checksums when receiving",
    "sg": "scatter-gather",
    "tso": "TCP segmentation",
    "gso": "generic segmentation",
    "gro": "generic receive offload",
}


@host_rule("virtio", "warning", uses=("ethtool.driver", "ethtool.features"))
def offloads_are_off(host: HostFacts) -> Outcomes:
    """Offloads that the NIC's driver switches on by itself have been switched off.

    nictop reads ethtool -k: checksums, scatter-gather, TSO, GSO and GRO that are off, that may be changed, and that are
    off because they are asked to be; [fixed] ones and those that only lack another one are left alone, and so are
    drivers with other defaults. Capture tools switch them off and forget to switch them on (ntopng#7083), and so
    do old recipes against bugs that are gone. LRO is not looked at: forwarding hosts need it off.
    """
    for link in host.links_where(drivers=PARAVIRTUAL_DRIVERS):
        if not is_used(link):
            continue
        off = [short for short in OFFLOAD_OPTIONS if _is_off(link, short)]
        if not off:
            continue
        values = [part for short in off for part in (short, "on")]
        yield link_finding(
            "warning",
            host,
            link,
            f"has offloads switched off: {', '.join(off)}",
            evidence=tuple(Evidence(OFFLOAD_TEXT[short], "off", f"ethtool -k {link.name}") for short in off),
            why="Every packet then costs its own way through the kernel. At high rates that is several times the CPU.",
            fixes=ethtool_fixes(host, link, ["-K", *values]),
        )


def _is_off(link: Link, short: str) -> bool:
    """Switched off on purpose: every feature that ``ethtool -K`` sets by this name and that can be changed."""
    changeable = [one for one in link.ethtool.features or () if one.name in OFFLOAD_FEATURES[short] and not one.fixed]
    return bool(changeable) and all(_unwanted(one) for one in changeable)


def _unwanted(feature: Feature) -> bool:
    return not feature.active and not feature.wanted
