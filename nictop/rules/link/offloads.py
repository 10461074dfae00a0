"""Offloads that have been turned off.

Reads nothing. Kernel: Documentation/networking/segmentation-offloads.rst, include/linux/netdev_features.h.
"""

from __future__ import annotations

import math

from nictop.model.text import units
from nictop.probe.records import Link
from nictop.rules.finding import Evidence
from nictop.rules.fixes.current_settings import OFFLOAD_FEATURES
from nictop.rules.fixes.persistence import active_profile, ethtool_fixes
from nictop.rules.fixes.stored_settings import is_stored_off, stored_settings
from nictop.rules.host import HostFacts, link_driver, once_per_host
from nictop.rules.kernel_messages import link_messages
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import (
    BUSY_PACKETS_PER_SECOND,
    is_used,
    link_finding,
    newest_link_rates,
    packet_rate,
)
from nictop.rules.vf.facts import is_up

DRIVERS_WITH_OFFLOADS_ON = (
    *("virtio_net", "vmxnet3", "hv_netvsc", "xen_netfront", "vif", "ena", "gve"),
    *("igb", "igbvf", "igc", "ixgbe", "ixgbevf", "i40e", "iavf", "ice", "e1000"),
    *("mlx4_en", "mlx5_core", "bnxt_en", "qede", "tg3", "sfc"),
)
"""Drivers that turn all of these on by default if the NIC supports them; r8169 and nfp do not, e1000e not always."""
OFF_BY_DEFAULT = {"e1000": ("rx",)}
"""e1000_probe adds NETIF_F_RXCSUM to what can be changed, after it has turned on the rest."""
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


TUNNELS = frozenset(
    ("vxlan", "geneve", "gre", "gretap", "erspan", "ip6gre", "ip6gretap", "ipip", "ip6tnl", "sit", "vti", "vti6")
) | {"wireguard", "batadv"}
"""Kinds of links whose packets a NIC gets encapsulated: where it cannot handle them, offloads are turned off."""
SWITCHES = ("bridge", "openvswitch")


@host_rule(
    "virtio", "warning", uses=("ethtool.driver", "ethtool.features", "configuration", "networkmanager", "messages")
)
def offloads_are_off(host: HostFacts) -> Outcomes:
    """Offloads that the driver turns on by default are off, and nothing shows that this is on purpose.

    nictop reads ethtool -k: checksumming, scatter-gather, TSO, GSO and GRO that are off by request and can be changed.
    Info; warning if a CPU that serves this NIC is busy with interrupts and softirqs nearly all the time. Causes:
    capture tools that do not restore the setting (ntopng#7083), and old workarounds for bugs that have been fixed.

    Not reported: [fixed] features, features that are off only because another one is, drivers with other defaults, and
    LRO, which must be off on hosts that forward packets. Nor what is, or may be, a workaround: settings that are stored
    (NetworkManager profile, ifupdown, ifcfg, .link files, udev rules, units and scripts that run ethtool), NICs below a
    bridge or a tunnel, NICs of hosts that forward packets of containers, and NICs whose driver has logged a stalled
    transmit queue.
    """
    for link in host.links_where(drivers=DRIVERS_WITH_OFFLOADS_ON):
        if not is_used(link):
            continue
        default = OFF_BY_DEFAULT.get(link_driver(link) or "", ())
        off = [short for short in _off_by_request(link) if short not in default]
        if not off or _may_be_a_workaround(host, link):
            continue
        stored = stored_settings(host, link, active_profile(host, link))
        off = [short for short in off if not is_stored_off(stored, short)]
        if not off:
            continue
        values = [part for short in off for part in (short, "on")]
        busy = _busy_cpu(host, link)
        yield link_finding(
            "info" if busy is None else "warning",
            host,
            link,
            f"offloads are off: {', '.join(off)}",
            evidence=(
                *(Evidence(OFFLOAD_TEXT[short], "off", f"ethtool -k {link.name}") for short in off),
                *([busy] if busy is not None else ()),
            ),
            why="The kernel then processes each packet separately, which costs CPU time at high rates. This driver "
            "normally turns them on. Possible: a capture tool or somebody turned them off. If it was a "
            "workaround, leave it.",
            fixes=ethtool_fixes(host, link, ["-K", *values]),
        )


def _may_be_a_workaround(host: HostFacts, link: Link) -> bool:
    """The NIC has hung, or carries frames of guests, containers or tunnels."""
    if link_messages(host, link, "transmit_stalled", within=math.inf) is not None:
        return True
    above = _links_above(host, link)
    if any(one.kind in SWITCHES or (one.kind in TUNNELS and is_up(one)) for one in above):
        return True
    if any(one.kind in TUNNELS and one.lower is None and is_up(one) for one in host.links):
        return True
    forwards = host.inventory.settings.sysctl.get("net.ipv4.ip_forward") == 1
    return forwards and any(one.kind in ("bridge", "veth", "tun") for one in host.links)


def _links_above(host: HostFacts, link: Link) -> list[Link]:
    """Masters of the link, VLANs and tunnels on it, and what is above those."""
    upper = _upper_links(host)
    found, pending = [], [link]
    seen = {link.ifindex}
    while pending:
        below = pending.pop()
        for ifindex in (below.master, *upper.get(below.ifindex, ())):
            if ifindex is not None and ifindex in host.snapshot.links and ifindex not in seen:
                seen.add(ifindex)
                found.append(host.snapshot.links[ifindex])
                pending.append(host.snapshot.links[ifindex])
    return found


@once_per_host
def _upper_links(host: HostFacts) -> dict[int, list[int]]:
    """ifindex → those of the VLANs, tunnels and other links on it."""
    upper: dict[int, list[int]] = {}
    for one in host.links:
        if one.lower is not None and one.lower_namespace is None:
            upper.setdefault(one.lower, []).append(one.ifindex)
    return upper


def _busy_cpu(host: HostFacts, link: Link) -> Evidence | None:
    """A CPU that serves the NIC and has no time left; None: there is none, or the NIC carries little."""
    if packet_rate(newest_link_rates(host, link)) < BUSY_PACKETS_PER_SECOND:
        return None
    serving = {cpu for row in host.queue_map(link).rows for cpu in row.busy_cpus}
    for cpu in sorted(serving & host.saturated_cpus.keys()):
        share = units.percentage(host.saturated_cpus[cpu])
        return Evidence(f"CPU {cpu}", f"{share} in interrupts and softirqs", "/proc/stat")
    return None


def _off_by_request(link: Link) -> list[str]:
    """Names for ``ethtool -K`` of which every changeable feature is off and not wanted."""
    is_off = {one.name: not one.active and not one.wanted for one in link.ethtool.features or () if not one.fixed}
    if not any(is_off.values()):
        return []
    states = {short: [is_off[name] for name in OFFLOAD_FEATURES[short] if name in is_off] for short in OFFLOAD_OPTIONS}
    return [short for short, off in states.items() if off and all(off)]
