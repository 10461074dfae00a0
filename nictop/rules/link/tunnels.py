"""Tunnels above NICs that cannot handle their offloads, and tunnels whose packets are too large.

Reads nothing. Kernel: drivers/net/vmxnet3/vmxnet3_ethtool.c (vmxnet3_features_check offloads inner checksums of UDP
tunnels to the ports 4789, 8472 and 6081; vmxnet3_set_features turns that off when neither tx-udp_tnl-segmentation nor
tx-udp_tnl-csum-segmentation is on), and its commits dacce2be3312 (offload of tunnels, Linux 5.8, RHEL 8.3) and
1dac3b1bc66d (not of IPIP and GRE, Linux 5.9). Reports: projectcalico/calico#4727, #9433, #7040, #4384 and #4865,
rancher#33399, kubespray#7268 and #8992, kubernetes#97283, flannel#1279, deckhouse#10087.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nictop.model.devices.tunnels import UDP_TUNNELS, devices_below, underlay
from nictop.model.text import units
from nictop.probe.records import LINK_COUNTERS, Link
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import with_undo
from nictop.rules.fixes.persistence import active_profile, ethtool_fixes
from nictop.rules.fixes.stored_settings import stored_settings
from nictop.rules.host import HostFacts, once_per_host
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import link_finding
from nictop.rules.vf.facts import is_up

SEGMENTATION = ("tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation")
"""NETIF_F_GSO_UDP_TUNNEL and NETIF_F_GSO_UDP_TUNNEL_CSUM (net/ethtool/common.c)."""
CHECKSUM = "tx-checksum-ip-generic"
ESXI_PORT = 8472
IANA_PORT = 4789
VMXNET3_PORTS = (IANA_PORT, ESXI_PORT, 6081)
OTHER_TUNNELS = ("ipip", "sit", "gre", "gretap")
KERNEL_WITH_ALL_TUNNELS = re.compile(r"5\.8\.|4\.18\.0-240\.")
"""Releases whose vmxnet3 offloads any tunnel: Linux 5.8, RHEL 8.3."""
MIN_ERRORS_PER_SECOND = 0.5
"""Mean over the window."""
MIN_BYTES, MIN_MEAN_BYTES = 10_000_000, 200
"""Received from a tunnel: more than ARP and ping, so TCP or UDP passes."""
RX_PACKETS, RX_BYTES = LINK_COUNTERS.index("rx_packets"), LINK_COUNTERS.index("rx_bytes")
WHY_UDP_TUNNEL = (
    "The NIC computes the checksums inside the tunnel's packets. ESXi does that for the port it "
    f"expects: {ESXI_PORT} without NSX, {IANA_PORT} with NSX. Others leave the guest and are lost."
)
WHY_OTHER_TUNNEL = (
    "This kernel leaves the checksums inside any tunnel to the NIC, which can do it for VXLAN and "
    "Geneve only (fixed in Linux 5.9). The packets leave the guest and are lost."
)
CHECKSUM_SOURCE = "/proc/net/snmp InCsumErrors"


class OffloadedTunnel(NamedTuple):
    """A tunnel and a NIC that computes the checksums of the packets in it."""

    tunnel: Link
    nic: Link
    features: tuple[str, ...]
    """Those of `SEGMENTATION` that are on and can be turned off."""


@pair_rule(
    "vmxnet3",
    "critical",
    needs=("ethtool.features",),
    uses=("routes", "addresses", "ethtool.driver", "counters.stack", "configuration", "networkmanager"),
)
def vmxnet3_offloads_a_tunnel(hosts: Sequence[HostFacts]) -> Outcomes:
    """A vmxnet3 NIC computes checksums in the packets of a tunnel, and ESXi may drop them: ping works, TCP does not.

    nictop finds a VXLAN tunnel to UDP port 4789 above a vmxnet3 NIC with tunnel offload on. ESXi without NSX expects
    port 8472. Also any IPIP or GRE tunnel with the kernels of RHEL 8.3 and Linux 5.8. Critical: this host or a watched
    one with the same tunnel counts received packets with wrong checksums (then also with the ports 8472 and 6081).
    Info: data has been received from the tunnel, so some peers are reached.

    Not reported: other ports, which the driver does not offload; checksum offload off on the NIC or on the tunnel; and
    tunnel offload that is stored as on.

    Sources: VMware's advice in projectcalico/calico#4727; kubespray#7268; vmxnet3_ethtool.c, Linux 1dac3b1bc66d.
    """
    for host in hosts:
        reported = set()
        for offloaded in offloaded_by_vmxnet3(host):
            wrong = _host_with_errors(hosts, host, offloaded.tunnel)
            is_suspicious = offloaded.tunnel.kind not in UDP_TUNNELS or _uses_the_iana_port(offloaded.tunnel)
            if offloaded.nic.ifindex in reported or (wrong is None and not is_suspicious):
                continue
            reported.add(offloaded.nic.ifindex)
            yield _offload_finding(host, offloaded, wrong)


def _offload_finding(host: HostFacts, offloaded: OffloadedTunnel, wrong: HostFacts | None) -> Finding:
    """`wrong`: the host that counts packets with wrong checksums."""
    nic, tunnel = offloaded.nic, offloaded.tunnel
    evidence = [Evidence(name, "on", f"ethtool -k {nic.name}") for name in offloaded.features]
    evidence.append(Evidence("tunnel", _tunnel_text(tunnel), f"ip -d link show dev {tunnel.name}"))
    title = f"tunnel offload is on: ESXi may drop TCP and UDP of {tunnel.name}"
    severity: Severity = "warning"
    if wrong is not None:
        severity = "critical"
        place = "here" if wrong is host else f"on {wrong.name}"
        title = f"tunnel offload is on; wrong checksums {place}"
        evidence.append(_errors_evidence(wrong))
    elif _carries_data(host, tunnel):
        severity = "info"
        evidence.append(_received_evidence(host, tunnel))
    why = WHY_UDP_TUNNEL if tunnel.kind in UDP_TUNNELS else WHY_OTHER_TUNNEL
    fixes = _tunnel_offload_fixes(host, offloaded)
    return link_finding(severity, host, nic, title, evidence=tuple(evidence), why=why, fixes=fixes)


def _uses_the_iana_port(tunnel: Link) -> bool:
    return tunnel.kind == "vxlan" and _port(tunnel) == IANA_PORT


def _tunnel_offload_fixes(host: HostFacts, offloaded: OffloadedTunnel) -> tuple[Fix, ...]:
    values: list[str] = []
    for name in offloaded.features:
        values += [name, "off"]
    port = Fix(
        "here",
        f"Or use UDP port {ESXI_PORT} for the tunnel",
        (),
        note="Without NSX only, and on all hosts of the tunnel (Calico: vxlanPort, flannel: Backend Port).",
    )
    note = "Needed on all hosts of the tunnel. With NSX, and if TCP works to all hosts, leave it."
    fixes = ethtool_fixes(host, offloaded.nic, ["-K", *values], note=note)
    return (*fixes, port) if _uses_the_iana_port(offloaded.tunnel) else fixes


@once_per_host
def offloaded_by_vmxnet3(host: HostFacts) -> tuple[OffloadedTunnel, ...]:
    """Tunnels in which a vmxnet3 NIC computes checksums."""
    nics = [link for link in host.links_where(drivers=("vmxnet3",)) if is_up(link) and _active(link, SEGMENTATION)]
    if not nics:
        return ()
    found = []
    for tunnel in _tunnels_that_are_offloaded(host):
        below = underlay(tunnel, host.snapshot.links)
        if below is None or is_off(tunnel, CHECKSUM):
            continue
        carriers = {one.ifindex for one in devices_below(below, host.snapshot.links)}
        for nic in nics:
            features = _active(nic, SEGMENTATION)
            if nic.ifindex in carriers and not is_off(nic, CHECKSUM) and not _is_stored_on(host, nic, features):
                found.append(OffloadedTunnel(tunnel, nic, features))
    return tuple(found)


def _tunnels_that_are_offloaded(host: HostFacts) -> Iterator[Link]:
    """Those in which the driver of this kernel lets the NIC compute checksums."""
    yield from (one for one in udp_tunnels(host) if _port(one) in VMXNET3_PORTS)
    hello = host.snapshot.hello
    if hello is not None and KERNEL_WITH_ALL_TUNNELS.match(hello.kernel):
        others = (one for kind in OTHER_TUNNELS for one in host.links_by_kind.get(kind, ()))
        yield from (one for one in others if is_up(one))


@once_per_host
def udp_tunnels(host: HostFacts) -> tuple[Link, ...]:
    return tuple(link for kind in UDP_TUNNELS for link in host.links_by_kind.get(kind, ()) if is_up(link))


def _active(link: Link, names: Sequence[str]) -> tuple[str, ...]:
    on = {one.name for one in link.ethtool.features or () if one.active and not one.fixed}
    return tuple(name for name in names if name in on)


def is_off(link: Link, name: str) -> bool:
    """The feature is known to be off."""
    return any(one.name == name and not one.active for one in link.ethtool.features or ())


def _is_stored_on(host: HostFacts, link: Link, features: Sequence[str]) -> bool:
    """Somebody wants it so."""
    stored = stored_settings(host, link, active_profile(host, link))
    names = [f"feature-{name}" for name in features]
    return any(stored[name].value == 1 for name in names if name in stored)


def _port(tunnel: Link) -> int | None:
    """UDP port; an older probe has it only in `Link.details`, for vxlan."""
    port = tunnel.tunnel.port if tunnel.tunnel is not None else tunnel.details.get("vxlan_port")
    return port if isinstance(port, int) else None


def _tunnel_text(tunnel: Link) -> str:
    port = _port(tunnel)
    return f"{tunnel.name}, {tunnel.kind}" + (f", UDP port {port}" if port else "")


def _carries_data(host: HostFacts, tunnel: Link) -> bool:
    packets, received = _received(host, tunnel)
    return received >= MIN_BYTES and received >= MIN_MEAN_BYTES * packets


def _received(host: HostFacts, link: Link) -> tuple[int, int]:
    """(packets, bytes) since the link was created."""
    counters = host.snapshot.counters
    totals = counters.links.get(link.ifindex) if counters is not None else link.counters
    if totals is None or len(totals) <= max(RX_PACKETS, RX_BYTES):
        return 0, 0
    return totals[RX_PACKETS], totals[RX_BYTES]


def _received_evidence(host: HostFacts, tunnel: Link) -> Evidence:
    _, received = _received(host, tunnel)
    return Evidence(f"received by {tunnel.name}", units.bytes_(received), f"ip -s link show dev {tunnel.name}")


# ------------------------------------------------------------------------------------------------- checksum errors


def _host_with_errors(hosts: Sequence[HostFacts], host: HostFacts, tunnel: Link) -> HostFacts | None:
    """A host with this tunnel that receives wrong checksums; another one rather than `host` itself."""
    others = [one for one in hosts if one is not host and same_tunnels(one, tunnel)]
    return next((one for one in (*others, host) if checksum_errors(one) is not None), None)


def same_tunnels(host: HostFacts, tunnel: Link) -> list[Link]:
    """Tunnels of a host that may lead to the one of another host: of the same kind, port and network."""
    wanted = _identity(tunnel)
    return [one for one in udp_tunnels(host) if _identity(one) == wanted]


def _identity(tunnel: Link) -> tuple[object, ...]:
    settings = tunnel.tunnel
    number = settings.number if settings is not None and not settings.external else None
    return tunnel.kind, _port(tunnel), number


def checksum_errors(host: HostFacts) -> float | None:
    """Packets per second with a wrong checksum, mean over the window; None: not read, or too few."""
    rate = host.mean(lambda one: one.checksum_errors)
    return rate if rate is not None and rate >= MIN_ERRORS_PER_SECOND else None


def _errors_evidence(host: HostFacts) -> Evidence:
    rate = units.packets_per_second(checksum_errors(host) or 0.0)
    return Evidence(f"wrong checksums on {host.name}", rate, CHECKSUM_SOURCE)


@pair_rule(
    "link and path",
    "warning",
    uses=("counters.stack", "ethtool.features", "configuration", "networkmanager"),
)
def tunnel_packets_have_wrong_checksums(hosts: Sequence[HostFacts]) -> Outcomes:
    """A host with a VXLAN or Geneve tunnel drops received UDP or TCP packets because their checksum is wrong.

    nictop reads InCsumErrors of UDP and TCP once a second on hosts with such a tunnel: 0.5 per second or more over the
    window. The sender computed the checksum wrongly: most often its NIC, or the kernel with NAT of the tunnel's
    packets. Ping works, TCP and DNS through the tunnel do not.

    Not reported if neither this host nor a watched one with the same tunnel has checksum offload of the tunnel on, and
    for vmxnet3, which has its own check. Other senders of wrong checksums are possible.

    Sources: flannel#1279, kubespray#8992, projectcalico/calico#3145 and #4865, kops#9074.
    """
    offloaded = [one.tunnel for host in hosts for one in offloaded_by_vmxnet3(host)]
    for host in hosts:
        tunnels = udp_tunnels(host)
        if any(same_tunnels(host, tunnel) for tunnel in offloaded):
            continue  # vmxnet3_offloads_a_tunnel names the cause
        rate = checksum_errors(host) if tunnels else None
        if rate is None:
            continue
        tunnel, senders = _suspects(hosts, host, tunnels)
        if tunnel is None:
            continue
        settings = host.inventory.settings.checksum_errors
        total = sum(settings.values())
        yield link_finding(
            "warning",
            host,
            tunnel,
            f"{units.packets_per_second(rate)} received with a wrong checksum are dropped",
            evidence=(
                Evidence("wrong checksums", f"{units.packets_per_second(rate)}; {total} since boot", CHECKSUM_SOURCE),
                Evidence("tunnel", _tunnel_text(tunnel), f"ip -d link show dev {tunnel.name}"),
                *(Evidence(f"{CHECKSUM} on {one.name}", "on", f"ethtool -k {link.name}") for one, link in senders),
            ),
            why="Packets of a tunnel, or in it, were sent with a wrong checksum: the sender's NIC or kernel computes "
            "it wrongly. Ping passes, TCP and DNS in the tunnel do not.",
            fixes=tuple(_checksum_fixes(host, tunnel, senders)),
        )


Senders = list[tuple[HostFacts, Link]]


def _suspects(hosts: Sequence[HostFacts], host: HostFacts, tunnels: Sequence[Link]) -> tuple[Link | None, Senders]:
    """A tunnel of `host`, and the (host, tunnel) that may send wrong checksums into it: watched ones, else, as all
    hosts of a tunnel are usually set up alike, its own."""
    for tunnel in tunnels:
        others = [(one, link) for one in hosts if one is not host for link in same_tunnels(one, tunnel)]
        senders = [(one, link) for one, link in others if _active(link, (CHECKSUM,))]
        if senders:
            return tunnel, senders
    own = next((tunnel for tunnel in tunnels if _active(tunnel, (CHECKSUM,))), None)
    return own, [(host, own)] if own is not None else []


def _checksum_fixes(host: HostFacts, tunnel: Link, senders: Senders) -> Iterator[Fix]:
    everywhere = "Needed on the hosts that send. Calico sets it by ChecksumOffloadBroken=true in featureDetectOverride."
    for sender, link in senders:
        if sender is host:
            yield from ethtool_fixes(host, tunnel, ["-K", CHECKSUM, "off"], note=everywhere)
            continue
        change, undo = with_undo(("ethtool", "-K", link.name, CHECKSUM), "off", "on")
        title = f"On {sender.name}: compute checksums of {link.name} in software"
        yield Fix("peer", title, (change,), False, (undo,), everywhere, sender.name)
