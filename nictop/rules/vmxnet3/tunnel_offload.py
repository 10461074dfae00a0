"""Tunnels above vmxnet3 NICs that cannot handle their offloads.

Reads nothing. Kernel: drivers/net/vmxnet3/vmxnet3_ethtool.c (vmxnet3_features_check offloads inner
checksums of UDP tunnels to the ports 4789, 8472 and 6081; vmxnet3_set_features turns that off when
neither tx-udp_tnl-segmentation nor tx-udp_tnl-csum-segmentation is on), and its commits
dacce2be3312 (offload of tunnels, Linux 5.8, RHEL 8.3) and 1dac3b1bc66d (not of IPIP and GRE, Linux
5.9). Reports: projectcalico/calico#4727, #9433, #7040, #4384 and #4865, rancher#33399,
kubespray#7268 and #8992, kubernetes#97283, flannel#1279, deckhouse#10087.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.tunnels import UDP_TUNNELS, devices_below, underlay
from nictop.model.text import units
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import LINK_COUNTERS, Link
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.persistence import active_profile, ethtool_fixes
from nictop.rules.fixes.stored_settings import stored_settings
from nictop.rules.host import HostFacts, once_per_host
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import is_up, link_finding
from nictop.rules.tunnels import (
    CHECKSUM,
    CHECKSUM_SOURCE,
    active_features,
    checksum_errors,
    is_off,
    links_of_kinds,
    same_tunnels,
    tunnel_text,
    udp_port,
    udp_tunnels,
)

SEGMENTATION = ("tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation")
"""NETIF_F_GSO_UDP_TUNNEL and NETIF_F_GSO_UDP_TUNNEL_CSUM (net/ethtool/common.c)."""
ESXI_PORT = 8472
IANA_PORT = 4789
VMXNET3_PORTS = (IANA_PORT, ESXI_PORT, 6081)
OTHER_TUNNELS = ("ipip", "sit", "gre", "gretap")
KERNEL_WITH_ALL_TUNNELS = pattern(r"5\.8\.|4\.18\.0-240\.")
"""Releases whose vmxnet3 offloads any tunnel: Linux 5.8, RHEL 8.3."""
MIN_BYTES, MIN_MEAN_BYTES = 10_000_000, 200
"""Received from a tunnel: more than ARP and ping, so TCP or UDP passes."""
RX_PACKETS, RX_BYTES = LINK_COUNTERS.index("rx_packets"), LINK_COUNTERS.index("rx_bytes")
WHY_UDP_TUNNEL = (
    "The NIC computes the checksums inside the tunnel's packets. ESXi does that for the port it "
    f"expects: {ESXI_PORT} without NSX, {IANA_PORT} with NSX. Others leave the guest with a wrong "
    "checksum, and may be lost."
)
WHY_OTHER_TUNNEL = (
    "This kernel leaves the checksums inside any tunnel to the NIC, which can do it for VXLAN and "
    "Geneve only (fixed in Linux 5.9). The packets leave the guest and are lost."
)
OTHER_PORT_FIX = Fix(
    "here",
    f"Or use UDP port {ESXI_PORT} for the tunnel",
    (),
    note="Without NSX only, and on all hosts of the tunnel (Calico: vxlanPort, flannel: Backend "
    "Port).",
)


class OffloadedTunnel(NamedTuple):
    """A tunnel and a NIC that computes the checksums of the packets in it."""

    tunnel: Link
    nic: Link
    features: tuple[str, ...]
    """Those of `SEGMENTATION` that are on and can be turned off."""


@pair_rule(
    "critical",
    needs=("ethtool.features",),
    uses=(
        "routes",
        "addresses",
        "ethtool.driver",
        "counters.stack",
        "configuration",
        "networkmanager",
    ),
)
def vmxnet3_offloads_a_tunnel(hosts: Sequence[HostFacts]) -> Outcomes:
    """A vmxnet3 NIC computes checksums in the packets of a tunnel, and ESXi may drop them: ping
    works, TCP does not.

    nictop finds a VXLAN tunnel to UDP port 4789 above a vmxnet3 NIC with tunnel offload on. ESXi
    without NSX expects port 8472. Also any IPIP or GRE tunnel with the kernels of RHEL 8.3 and
    Linux 5.8. Critical: this host or a watched one with the same tunnel counts received packets
    with wrong checksums (then also with the ports 8472 and 6081).
    Info: data has been received from the tunnel, so some peers are reached.

    Not reported: other ports, which the driver does not offload; checksum offload off on the NIC or
    on the tunnel; and tunnel offload that is stored as on.

    Sources: VMware's advice in projectcalico/calico#4727; kubespray#7268; vmxnet3_ethtool.c, Linux
    1dac3b1bc66d.
    """
    for host in hosts:
        reported = set()
        for offloaded in offloaded_by_vmxnet3(host):
            if offloaded.nic.ifindex in reported:
                continue
            wrong = _host_with_errors(hosts, host, offloaded.tunnel)
            if wrong is not None or _may_be_dropped(offloaded.tunnel):
                reported.add(offloaded.nic.ifindex)
                yield _offload_finding(host, offloaded, wrong)


def _may_be_dropped(tunnel: Link) -> bool:
    """By ESXi without NSX, which expects another port."""
    return tunnel.kind not in UDP_TUNNELS or _uses_the_iana_port(tunnel)


def _offload_finding(
    host: HostFacts, offloaded: OffloadedTunnel, wrong: HostFacts | None
) -> Finding:
    """`wrong`: the host that counts packets with wrong checksums."""
    nic, tunnel = offloaded.nic, offloaded.tunnel
    evidence = [Evidence(name, "on", f"ethtool -k {nic.name}") for name in offloaded.features]
    evidence.append(Evidence("tunnel", tunnel_text(tunnel), f"ip -d link show dev {tunnel.name}"))
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
    return tunnel.kind == "vxlan" and udp_port(tunnel) == IANA_PORT


def _tunnel_offload_fixes(host: HostFacts, offloaded: OffloadedTunnel) -> tuple[Fix, ...]:
    values: list[str] = []
    for name in offloaded.features:
        values += [name, "off"]
    note = "Needed on all hosts of the tunnel. With NSX, and if TCP works to all hosts, leave it."
    fixes = ethtool_fixes(host, offloaded.nic, ["-K", *values], note=note)
    if not _uses_the_iana_port(offloaded.tunnel):
        return fixes
    return *fixes, OTHER_PORT_FIX


@once_per_host
def offloaded_by_vmxnet3(host: HostFacts) -> tuple[OffloadedTunnel, ...]:
    """Tunnels in which a vmxnet3 NIC computes checksums."""
    nics = _offloading_nics(host)
    if not nics:
        return ()
    found = []
    for tunnel in _tunnels_that_are_offloaded(host):
        below = underlay(tunnel, host.snapshot.links)
        if below is None or is_off(tunnel, CHECKSUM):
            continue
        carriers = {device.ifindex for device in devices_below(below, host.snapshot.links)}
        for nic in nics:
            features = active_features(nic, SEGMENTATION)
            if nic.ifindex in carriers and not _is_stored_on(host, nic, features):
                found.append(OffloadedTunnel(tunnel, nic, features))
    return tuple(found)


def _offloading_nics(host: HostFacts) -> list[Link]:
    """Of vmxnet3, with tunnel offload and checksums on."""
    found = []
    for nic in host.links_where(drivers=("vmxnet3",)):
        if is_up(nic) and active_features(nic, SEGMENTATION) and not is_off(nic, CHECKSUM):
            found.append(nic)
    return found


def _tunnels_that_are_offloaded(host: HostFacts) -> Iterator[Link]:
    """Those in which the driver of this kernel lets the NIC compute checksums."""
    for tunnel in udp_tunnels(host):
        if udp_port(tunnel) in VMXNET3_PORTS:
            yield tunnel
    hello = host.snapshot.hello
    if hello is not None and KERNEL_WITH_ALL_TUNNELS.match(hello.kernel):
        yield from links_of_kinds(host, OTHER_TUNNELS)


def _is_stored_on(host: HostFacts, link: Link, features: Sequence[str]) -> bool:
    """Somebody wants it so."""
    stored = stored_settings(host, link, active_profile(host, link))
    for feature in features:
        setting = stored.get(f"feature-{feature}")
        if setting is not None and setting.value == 1:
            return True
    return False


def _carries_data(host: HostFacts, tunnel: Link) -> bool:
    packets, received = _received(host, tunnel)
    return received >= MIN_BYTES and received >= MIN_MEAN_BYTES * packets


def _received(host: HostFacts, link: Link) -> tuple[int, int]:
    """(packets, bytes) since the link was created."""
    totals = host.totals(link)
    if totals is None or len(totals) <= max(RX_PACKETS, RX_BYTES):
        return 0, 0
    return totals[RX_PACKETS], totals[RX_BYTES]


def _received_evidence(host: HostFacts, tunnel: Link) -> Evidence:
    _, received = _received(host, tunnel)
    return Evidence(
        f"received by {tunnel.name}", units.bytes_(received), f"ip -s link show dev {tunnel.name}"
    )


def _host_with_errors(
    hosts: Sequence[HostFacts], host: HostFacts, tunnel: Link
) -> HostFacts | None:
    """A host with this tunnel that receives wrong checksums; another one rather than `host`
    itself."""
    for other in hosts:
        if other is host or checksum_errors(other) is None:
            continue
        if same_tunnels(other, tunnel):
            return other
    return host if checksum_errors(host) is not None else None


def _errors_evidence(host: HostFacts) -> Evidence:
    rate = units.packets_per_second(checksum_errors(host) or 0.0)
    return Evidence(f"wrong checksums on {host.name}", rate, CHECKSUM_SOURCE)
