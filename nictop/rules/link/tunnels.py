"""Tunnels whose packets have wrong checksums.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.text import units
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import with_undo
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import link_finding
from nictop.rules.tunnels import (
    CHECKSUM,
    CHECKSUM_SOURCE,
    active_features,
    checksum_errors,
    same_tunnels,
    tunnel_text,
    udp_tunnels,
)
from nictop.rules.vmxnet3.tunnel_offload import offloaded_by_vmxnet3

# ---------------------------------------------------------------------------------- checksum errors


@pair_rule(
    "warning",
    uses=("counters.stack", "ethtool.features", "configuration", "networkmanager"),
)
def tunnel_packets_have_wrong_checksums(hosts: Sequence[HostFacts]) -> Outcomes:
    """A host with a VXLAN or Geneve tunnel drops received UDP or TCP packets because their checksum
    is wrong.

    nictop reads InCsumErrors of UDP and TCP once a second on hosts with such a tunnel: 0.5 per
    second or more over the window. The sender computed the checksum wrongly: most often its NIC, or
    the kernel with NAT of the tunnel's packets. Then ping works, TCP and DNS through the tunnel do
    not.

    Not reported if neither this host nor a watched one with the same tunnel has checksum offload of
    the tunnel on, and for vmxnet3, which has its own check. Other senders of wrong checksums are
    possible.

    Sources: flannel#1279, kubespray#8992, projectcalico/calico#3145 and #4865, kops#9074.
    """
    offloaded = [known.tunnel for host in hosts for known in offloaded_by_vmxnet3(host)]
    for host in hosts:
        if any(same_tunnels(host, tunnel) for tunnel in offloaded):
            continue  # vmxnet3_offloads_a_tunnel names the cause
        tunnels = udp_tunnels(host)
        rate = checksum_errors(host) if tunnels else None
        if rate is None:
            continue
        tunnel, senders = _suspects(hosts, host, tunnels)
        if tunnel is not None:
            yield _checksum_finding(host, tunnel, senders, rate)


def _checksum_finding(host: HostFacts, tunnel: Link, senders: Senders, rate: float) -> Finding:
    per_second = units.packets_per_second(rate)
    total = sum(host.inventory.settings.checksum_errors.values())
    evidence = [
        Evidence("wrong checksums", f"{per_second}; {total} since boot", CHECKSUM_SOURCE),
        Evidence("tunnel", tunnel_text(tunnel), f"ip -d link show dev {tunnel.name}"),
    ]
    for sender, link in senders:
        evidence.append(Evidence(f"{CHECKSUM} on {sender.name}", "on", f"ethtool -k {link.name}"))
    return link_finding(
        "warning",
        host,
        tunnel,
        f"{per_second} received with a wrong checksum are dropped",
        evidence=tuple(evidence),
        why="The counters are those of the whole host. Most likely packets of the tunnel, or in "
        "it, were sent with a wrong checksum, which the sender's NIC or kernel computes: then ping "
        "passes, TCP and DNS in the tunnel do not.",
        fixes=tuple(_checksum_fixes(host, tunnel, senders)),
    )


Senders = list[tuple[HostFacts, Link]]


def _suspects(
    hosts: Sequence[HostFacts], host: HostFacts, tunnels: Sequence[Link]
) -> tuple[Link | None, Senders]:
    """A tunnel of `host`, and the (host, tunnel) that may send wrong checksums into it: watched
    ones, else, as all hosts of a tunnel are usually set up alike, its own."""
    for tunnel in tunnels:
        senders = list(_senders(hosts, host, tunnel))
        if senders:
            return tunnel, senders
    for tunnel in tunnels:
        if active_features(tunnel, (CHECKSUM,)):
            return tunnel, [(host, tunnel)]
    return None, []


def _senders(
    hosts: Sequence[HostFacts], host: HostFacts, tunnel: Link
) -> Iterator[tuple[HostFacts, Link]]:
    """Other hosts of the tunnel whose checksums it leaves to the NIC."""
    for other in hosts:
        if other is host:
            continue
        for link in same_tunnels(other, tunnel):
            if active_features(link, (CHECKSUM,)):
                yield other, link


def _checksum_fixes(host: HostFacts, tunnel: Link, senders: Senders) -> Iterator[Fix]:
    everywhere = (
        "Needed on the hosts that send. Calico sets it by ChecksumOffloadBroken=true in "
        "featureDetectOverride."
    )
    for sender, link in senders:
        if sender is host:
            yield from ethtool_fixes(host, tunnel, ["-K", CHECKSUM, "off"], note=everywhere)
            continue
        change, undo = with_undo(("ethtool", "-K", link.name, CHECKSUM), "off", "on")
        title = f"Compute checksums of {link.name} in software"
        yield Fix("peer", title, (change,), False, (undo,), everywhere, sender.name)
