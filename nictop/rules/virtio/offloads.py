"""Offloads that have been turned off.

Reads nothing. Kernel: Documentation/networking/segmentation-offloads.rst,
include/linux/netdev_features.h.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nictop.model.facts.ethtool_settings import DRIVERS_WITH_OFFLOADS_ON, OFF_BY_DEFAULT
from nictop.probe.records import Link
from nictop.rules.finding import Evidence
from nictop.rules.fixes.current_settings import OFFLOAD_FEATURES
from nictop.rules.fixes.persistence import active_profile, ethtool_fixes
from nictop.rules.fixes.stored_settings import is_stored_off, stored_settings
from nictop.rules.host import HostFacts, link_driver, once_per_host
from nictop.rules.interrupts.steering import saturation_evidence
from nictop.rules.kernel_messages import link_messages
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import (
    BUSY_PACKETS_PER_SECOND,
    current_packet_rate,
    is_up,
    is_used,
    link_finding,
)

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
WORK_WITHOUT = {
    "tx": "computes the checksums of what it sends",
    "rx": "checks the checksums of what it receives",
    "sg": "copies each packet into one piece before it is sent",
    "tso": "cuts TCP data into packets itself",
    "gso": "sends packets through its stack one by one",
    "gro": "processes each received packet separately",
}
"""What the kernel does instead (Documentation/networking/segmentation-offloads.rst)."""

TUNNELS = frozenset(
    (
        "vxlan",
        "geneve",
        "gre",
        "gretap",
        "erspan",
        "ip6gre",
        "ip6gretap",
        "ipip",
        "ip6tnl",
        "sit",
        "vti",
        "vti6",
    )
) | {"wireguard", "batadv"}
"""Kinds of links whose packets a NIC gets encapsulated: where it cannot handle them, offloads are
turned off."""
SWITCHES = ("bridge", "openvswitch")


@host_rule(
    "warning",
    uses=("ethtool.driver", "ethtool.features", "configuration", "networkmanager", "messages"),
)
def offloads_are_off(host: HostFacts) -> Outcomes:
    """Offloads that the driver turns on by default are off, and nothing shows that this is on
    purpose.

    nictop reads ethtool -k: checksumming, scatter-gather, TSO, GSO and GRO that are off by request
    and can be changed.
    Info; warning if a CPU that serves this NIC is busy with interrupts and softirqs nearly all the
    time. Causes: capture tools that do not restore the setting (ntopng#7083), and old workarounds
    for bugs that have been fixed.

    Not reported: [fixed] features, features that are off only because another one is, drivers with
    other defaults, and LRO, which must be off on hosts that forward packets. Nor what is, or may
    be, a workaround: settings that are stored (NetworkManager profile, ifupdown, ifcfg, .link
    files, udev rules, units and scripts that run ethtool), NICs below a bridge or a tunnel, NICs of
    hosts that forward packets of containers, and NICs whose driver has logged a stalled transmit
    queue.
    """
    for link in host.links_where(drivers=DRIVERS_WITH_OFFLOADS_ON):
        if not is_used(link):
            continue
        off = _off_by_mistake(host, link)
        if not off or _may_be_a_workaround(host, link):
            continue
        evidence = [
            Evidence(OFFLOAD_TEXT[short], "off", f"ethtool -k {link.name}") for short in off
        ]
        busy = _busy_cpu(host, link)
        if busy is not None:
            evidence.append(busy)
        values: list[str] = []
        for short in off:
            values += [short, "on"]
        yield link_finding(
            "info" if busy is None else "warning",
            host,
            link,
            f"offloads are off: {', '.join(off)}",
            evidence=tuple(evidence),
            why=f"The kernel then {_work_text(off)}, which costs CPU time at high rates. This "
            "driver normally turns them on. Possible: a capture tool or somebody turned them off. "
            "If it was a workaround, leave it.",
            fixes=ethtool_fixes(host, link, ["-K", *values]),
        )


def _work_text(off: Sequence[str]) -> str:
    """``cuts TCP data into packets itself and processes each received packet separately``"""
    work = [WORK_WITHOUT[short] for short in off]
    if len(work) == 1:
        return work[0]
    return f"{', '.join(work[:-1])} and {work[-1]}"


def _off_by_mistake(host: HostFacts, link: Link) -> list[str]:
    """Names for ``ethtool -K`` of what is off, although neither the driver nor a file wants it."""
    off = _off_by_request(link)
    if not off:
        return []
    default = OFF_BY_DEFAULT.get(link_driver(link) or "", ())
    stored = stored_settings(host, link, active_profile(host, link))
    return [short for short in off if short not in default and not is_stored_off(stored, short)]


def _may_be_a_workaround(host: HostFacts, link: Link) -> bool:
    """The NIC has hung, or carries frames of guests, containers or tunnels."""
    if link_messages(host, link, "transmit_stalled", within=math.inf) is not None:
        return True
    for upper in _links_above(host, link):
        if upper.kind in SWITCHES or _is_tunnel(upper):
            return True
    forwards = host.inventory.settings.sysctl.get("net.ipv4.ip_forward") == 1
    for other in host.links:
        # a tunnel that names no link below may use this one
        if _is_tunnel(other) and other.lower is None:
            return True
        if forwards and other.kind in ("bridge", "veth", "tun"):
            return True
    return False


def _is_tunnel(link: Link) -> bool:
    """One that is up."""
    return link.kind in TUNNELS and is_up(link)


def _links_above(host: HostFacts, link: Link) -> list[Link]:
    """Masters of the link, VLANs and tunnels on it, and what is above those."""
    upper = _upper_links(host)
    found, pending = [], [link]
    seen = {link.ifindex}
    while pending:
        below = pending.pop()
        for ifindex in (below.master, *upper.get(below.ifindex, ())):
            above = host.link_at(ifindex)
            if above is not None and above.ifindex not in seen:
                seen.add(above.ifindex)
                found.append(above)
                pending.append(above)
    return found


@once_per_host
def _upper_links(host: HostFacts) -> dict[int, list[int]]:
    """ifindex → those of the VLANs, tunnels and other links on it."""
    upper: dict[int, list[int]] = {}
    for link in host.links:
        if link.lower is not None and link.lower_namespace is None:
            upper.setdefault(link.lower, []).append(link.ifindex)
    return upper


def _busy_cpu(host: HostFacts, link: Link) -> Evidence | None:
    """A CPU that serves the NIC and has no time left; None: there is none, or the NIC carries
    little."""
    if current_packet_rate(host, link) < BUSY_PACKETS_PER_SECOND:
        return None
    serving: set[int] = set()
    for row in host.queue_map(link).rows:
        serving.update(row.busy_cpus)
    saturated = sorted(serving & host.saturated_cpus.keys())
    if not saturated:
        return None
    return saturation_evidence(host, saturated[0])[0]


def _off_by_request(link: Link) -> list[str]:
    """Names for ``ethtool -K`` of which every changeable feature is off and not wanted."""
    features = link.ethtool.features or ()
    if not [one for one in features if not (one.active or one.wanted or one.fixed)]:
        return []  # as for nearly every NIC
    is_off = {}
    for feature in features:
        if not feature.fixed:
            is_off[feature.name] = not feature.active and not feature.wanted
    found = []
    for short in OFFLOAD_OPTIONS:
        states = [is_off[name] for name in OFFLOAD_FEATURES[short] if name in is_off]
        if states and all(states):
            found.append(short)
    return found
