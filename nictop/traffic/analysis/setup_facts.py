"""Facts about the set-up of a run that a comparison needs (kernel, NIC, queues, offloads, versions of both ends), and
settings of a NIC that may be a bottleneck.

Reads nothing; takes the snapshots and the tools of both hosts. Values are unescaped text of the hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nictop.model.devices.driver_losses import loss_positions
from nictop.model.devices.tunnels import UDP_TUNNELS
from nictop.model.queues.counts import receive_queues
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Counters, Link, Qdisc, TrafficTools
from nictop.traffic.generators import Side
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.plan.tools import iperf3_text, iperf3_version

MAX_LOWER_LINKS = 64
"""Links that a link sends through: a bridge may have thousands of ports."""

TUNNEL_CHECKSUM = "tx-checksum-ip-generic"
SOCKET_BUFFERS = ("net.core.rmem_max", "net.core.wmem_max")
COMPARED_OFFLOADS = (
    "tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-generic-segmentation", "rx-gro", "rx-lro", "rx-gro-hw",
    "tx-checksum-ip-generic", "tx-checksum-ipv4", "rx-checksum",
)  # fmt: skip


def setup_facts(plan: RunPlan, snapshots: Mapping[str, Snapshot], tools: Mapping[Side, TrafficTools]) -> dict[str, str]:
    """Fact → value; unknown facts are left out."""
    found = {
        "generator": plan.generator,
        "protocol": plan.protocol,
        "direction": plan.direction,
        "ip version": str(plan.ip_version),
        "streams": str(plan.streams),
        "time": str(plan.time),
        "length": _value_text(plan.length),
        "mss": _value_text(plan.mss),
        "window": _value_text(plan.window),
        "bitrate": _value_text(plan.bitrate),
        "dscp": _value_text(plan.dscp),
        "zerocopy": "yes" if plan.zerocopy else "no",
        "congestion control": plan.congestion or _default_congestion(plan, tools),
    }
    if not plan.has_bulk:
        del found["length"]
    if plan.has_requests:
        request, response = plan.sizes
        found.update({"test": plan.test, "request size": str(request), "response size": str(response)})
        found.update({"files": str(plan.files)} if plan.files is not None else {})
        found.update({"request rate": str(plan.requests.rate)} if plan.requests.rate is not None else {})
    mtus = []
    sides: tuple[Side, Side] = ("client", "server")
    for side, endpoint, cpu in zip(sides, (plan.client, plan.server), (plan.client_cpu, plan.server_cpu), strict=True):
        if plan.generator == "iperf3" and side in tools:
            found[f"{side} iperf3"] = iperf3_text(iperf3_version(tools[side].version))
        found[f"{side} affinity"] = _value_text(cpu)
        snapshot = snapshots.get(endpoint.host)
        if snapshot is None:
            continue
        found.update({f"{side} {name}": value for name, value in _machine(snapshot).items() if value})
        link = snapshot.links.get(endpoint.ifindex or 0)
        if link is not None:
            mtus.append(link.mtu)
            found.update({f"{side} {name}": value for name, value in _nic(link, snapshot).items() if value})
    if mtus:
        found["mtu"] = str(min(mtus))
    return found


@dataclass(frozen=True)
class SendQueueing:
    """Queueing of a link that sends."""

    link: str
    kind: str
    """Kind of its root queueing discipline."""
    acting: tuple[Qdisc, ...] = ()
    """Queueing disciplines that do more than queue."""
    read: bool = True
    """False: `acting` is not known."""


@dataclass(frozen=True)
class NicSetup:
    """Settings of the chosen NIC of a host."""

    queues: int | None = None
    """Receive queues in use; None: the driver does not report them."""
    qdiscs: tuple[SendQueueing, ...] = ()
    """Of the NIC and the links that it sends through (VLAN, bond, bridge)."""
    tcp_buffers: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """See `Settings.tcp_buffers`."""
    socket_buffers: dict[str, int] = field(default_factory=dict)
    """``net.core.rmem_max`` and ``net.core.wmem_max``: the largest buffers that a program may set, in bytes."""
    host: str = ""
    """Name of the host."""
    instance_limits: dict[str, int] = field(default_factory=dict)
    """Driver counter of a limit of the instance → packets that it counted during the run."""
    offloaded_tunnel: str = ""
    """Name of the NIC if it is a vxlan or geneve link that leaves checksums to the NIC below it; "": it is none."""


def nic_setup(link: Link, snapshot: Snapshot) -> NicSetup:
    senders = [link]
    for one in senders:  # grows during the loop
        below = [other for other in snapshot.links.values() if other.master == one.ifindex and _sends_for(other, one)]
        if one.kind != "veth" and one.lower is not None and one.lower_namespace is None:
            below += [other for other in snapshot.links.values() if other.ifindex == one.lower]
        senders += [other for other in below if other not in senders][: MAX_LOWER_LINKS - len(senders)]
    features = {one.name: one.active for one in link.ethtool.features or ()}
    tunnel = link.name if link.kind in UDP_TUNNELS and features.get(TUNNEL_CHECKSUM) else ""
    read = snapshot.inventory is not None and "qdiscs" not in snapshot.inventory.unreadable
    sending = (SendQueueing(one.name, one.qdisc, one.traffic_control, read) for one in senders if one.qdisc is not None)
    if snapshot.inventory is None:
        return NicSetup(receive_queues(link) or None, tuple(sending), host=snapshot.host, offloaded_tunnel=tunnel)
    settings = snapshot.inventory.settings
    maxima = {name: settings.sysctl[name] for name in SOCKET_BUFFERS if name in settings.sysctl}
    return NicSetup(
        receive_queues(link) or None,
        tuple(sending),
        settings.tcp_buffers,
        maxima,
        snapshot.host,
        offloaded_tunnel=tunnel,
    )


def exceeded_limits(link: Link, before: Counters | None, after: Counters | None) -> dict[str, int]:
    """Driver counters of limits of the instance that rose between two records."""
    names = link.ethtool.driver_counter_names or ()
    old, new = (one.driver.get(link.ifindex, ()) if one is not None else () for one in (before, after))
    if len(old) != len(names) or len(new) != len(names):
        return {}
    driver = link.ethtool.driver.driver if link.ethtool.driver is not None else None
    positions = loss_positions(driver, "limits", names)
    return {names[one].strip(): new[one] - old[one] for one in positions if new[one] > old[one]}


def _sends_for(port: Link, master: Link) -> bool:
    """Ports of a bridge, which may be taps of virtual machines, do not send for it."""
    return port.bus is not None or master.kind in ("bond", "team")


def _value_text(value: int | None) -> str:
    return "default" if value is None else str(value)


def _default_congestion(plan: RunPlan, tools: Mapping[Side, TrafficTools]) -> str:
    """Congestion control of the sender."""
    side: Side = "server" if plan.direction == "reverse" else "client"
    return tools[side].congestion_control if side in tools and tools[side].congestion_control else "default"


def _machine(snapshot: Snapshot) -> dict[str, str]:
    found = {"host": snapshot.host}
    if snapshot.hello is not None:
        found["kernel"] = snapshot.hello.kernel
    if snapshot.inventory is not None:
        platform = snapshot.inventory.platform
        found["hypervisor"] = platform.hypervisor or "none"
        found["distribution"] = platform.distribution or ""
        found["cpus"] = platform.online_cpus or ""
    return found


def _nic(link: Link, snapshot: Snapshot) -> dict[str, str]:
    driver = link.ethtool.driver
    found = {"nic": link.name, "mtu": str(link.mtu)}
    if driver is not None:
        found.update({"driver": driver.driver, "driver version": driver.version, "firmware": driver.firmware})
    queues = receive_queues(link)
    found["queues"] = str(queues) if queues else ""
    features = {one.name: one.active for one in link.ethtool.features or ()}
    found["offloads"] = " ".join(name for name in COMPARED_OFFLOADS if features.get(name))
    vectors = [
        one
        for one in (snapshot.inventory.interrupts if snapshot.inventory is not None else ())
        if one.pci_address is not None and one.pci_address == link.pci_address
    ]
    cpus = dict.fromkeys(one.effective_cpus or one.allowed_cpus or "" for one in vectors)
    found["interrupt affinity"] = " ".join(cpu for cpu in cpus if cpu)
    return found
