"""Facts about the set-up of a run that a comparison needs (kernel, NIC, queues, offloads, versions
of both ends), and settings of a NIC that may be a bottleneck.

Reads nothing; takes the snapshots and the tools of both hosts. Values are unescaped text of the
hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nictop.model.devices.driver_losses import loss_positions
from nictop.model.devices.tunnels import UDP_TUNNELS
from nictop.model.queues.counts import receive_queues
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass, field, replace
from nictop.probe.records import Counters, Link, Qdisc, TrafficTools
from nictop.rules.tunnels import is_on
from nictop.traffic.generators import Side
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.plan.tools import iperf3_text, iperf3_version

MAX_LOWER_LINKS = 64
"""Links that a link sends through: a bridge may have thousands of ports."""

TUNNEL_CHECKSUM = "tx-checksum-ip-generic"
SOCKET_BUFFERS = ("net.core.rmem_max", "net.core.wmem_max")
COMPARED_OFFLOADS = (
    "tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-generic-segmentation", "rx-gro", "rx-lro",
    "rx-gro-hw", "tx-checksum-ip-generic", "tx-checksum-ipv4", "rx-checksum",
)  # fmt: skip


def setup_facts(
    plan: RunPlan, snapshots: Mapping[str, Snapshot], tools: Mapping[Side, TrafficTools]
) -> dict[str, str]:
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
        found.update(_request_facts(plan))
    mtus = []
    ends: tuple[tuple[Side, Endpoint, int | None], ...] = (
        ("client", plan.client, plan.client_cpu),
        ("server", plan.server, plan.server_cpu),
    )
    for side, endpoint, cpu in ends:
        found.update(_generator_facts(plan, side, tools.get(side)))
        found[f"{side} affinity"] = _value_text(cpu)
        snapshot = snapshots.get(endpoint.host)
        if snapshot is None:
            continue
        found.update(_known_facts(side, _machine(snapshot)))
        link = endpoint.link_in(snapshots)
        if link is not None:
            mtus.append(link.mtu)
            found.update(_known_facts(side, _nic(link, snapshot)))
    if mtus:
        found["mtu"] = str(min(mtus))
    return found


def _generator_facts(plan: RunPlan, side: Side, tools: TrafficTools | None) -> dict[str, str]:
    """Its version; {}: of the built-in generator, or not known."""
    if tools is None:
        return {}
    if plan.generator == "iperf3":
        return {f"{side} iperf3": iperf3_text(iperf3_version(tools.version))}
    if plan.generator == "ntttcp":
        return {f"{side} ntttcp": tools.ntttcp_version}
    return {}


def nic_names(plan: RunPlan, snapshots: Mapping[str, Snapshot]) -> dict[str, str]:
    """Those of the facts that say the chosen NICs; without those that are not known."""
    ends: tuple[tuple[Side, Endpoint], ...] = (("client", plan.client), ("server", plan.server))
    found = {}
    for side, endpoint in ends:
        link = endpoint.link_in(snapshots)
        if link is not None:
            found[f"{side} nic"] = link.name
    return found


def _request_facts(plan: RunPlan) -> dict[str, str]:
    request, response = plan.sizes
    facts = {"test": plan.test, "request size": str(request), "response size": str(response)}
    if plan.files is not None:
        facts["files"] = str(plan.files)
    if plan.requests.rate is not None:
        facts["request rate"] = str(plan.requests.rate)
    return facts


def _known_facts(side: Side, facts: Mapping[str, str]) -> dict[str, str]:
    """With the side before their names."""
    return {f"{side} {name}": value for name, value in facts.items() if value}


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
class ReceiveCoalescing:
    """Interrupt coalescing of a link that receives."""

    link: str
    parameters: dict[str, int] | None
    """See `Ethtool.coalescing`; None: not read, or not offered."""
    offered: bool = True
    """False: its driver has none."""
    driver: str = ""


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
    """``net.core.rmem_max`` and ``net.core.wmem_max``: the largest buffers that a program may set,
    in bytes."""
    host: str = ""
    """Name of the host."""
    instance_limits: dict[str, int] = field(default_factory=dict)
    """Driver counter of a limit of the instance → packets that it counted during the run."""
    offloaded_tunnel: str = ""
    """Name of the NIC if it is a vxlan or geneve link that leaves checksums to the NIC below it;
    "": it is none."""
    coalescing: tuple[ReceiveCoalescing, ...] = ()
    """Of the NIC and the links that it receives through, as `qdiscs`."""
    idle_driver: str = ""
    """See `Settings.idle_driver`; "": not read."""
    is_guest: bool | None = None
    """None: not read."""


def nic_setup(link: Link, snapshot: Snapshot) -> NicSetup:
    is_offloaded = link.kind in UDP_TUNNELS and is_on(link, TUNNEL_CHECKSUM)
    setup = NicSetup(
        receive_queues(link) or None,
        tuple(_send_queueing(link, snapshot)),
        host=snapshot.host,
        offloaded_tunnel=link.name if is_offloaded else "",
        coalescing=tuple(map(_receive_coalescing, _senders(link, snapshot))),
    )
    if snapshot.inventory is None:
        return setup
    settings = snapshot.inventory.settings
    maxima = {name: settings.sysctl[name] for name in SOCKET_BUFFERS if name in settings.sysctl}
    return replace(
        setup,
        tcp_buffers=settings.tcp_buffers,
        socket_buffers=maxima,
        idle_driver=settings.idle_driver or "",
        is_guest=snapshot.inventory.platform.hypervisor is not None,
    )


def _receive_coalescing(link: Link) -> ReceiveCoalescing:
    why = link.ethtool.unreadable.get("coalescing")
    driver = link.ethtool.driver
    return ReceiveCoalescing(
        link.name,
        link.ethtool.coalescing,
        why is None or why.reason != "not_offered",
        "" if driver is None else driver.driver,
    )


def _send_queueing(link: Link, snapshot: Snapshot) -> Iterator[SendQueueing]:
    """Of the link, and of those that it sends through."""
    inventory = snapshot.inventory
    is_read = inventory is not None and "qdiscs" not in inventory.unreadable
    for sender in _senders(link, snapshot):
        if sender.qdisc is not None:
            yield SendQueueing(sender.name, sender.qdisc, sender.traffic_control, is_read)


def _senders(link: Link, snapshot: Snapshot) -> list[Link]:
    """The link, and those that it sends through, `MAX_LOWER_LINKS` at most."""
    senders = [link]
    for sender in senders:  # grows during the loop
        for lower in _lower_links(sender, snapshot):
            if lower not in senders and len(senders) < MAX_LOWER_LINKS:
                senders.append(lower)
    return senders


def _lower_links(link: Link, snapshot: Snapshot) -> Iterator[Link]:
    """Its ports that send for it, and the link that it is based on."""
    for other in snapshot.links.values():
        if other.master == link.ifindex and _sends_for(other, link):
            yield other
    if link.kind == "veth" or link.lower is None or link.lower_namespace is not None:
        return
    lower = snapshot.links.get(link.lower)
    if lower is not None:
        yield lower


def exceeded_limits(link: Link, before: Counters | None, after: Counters | None) -> dict[str, int]:
    """Driver counters of limits of the instance that rose between two records."""
    if before is None or after is None:
        return {}
    names = link.ethtool.driver_counter_names or ()
    old, new = before.driver.get(link.ifindex, ()), after.driver.get(link.ifindex, ())
    if len(old) != len(names) or len(new) != len(names):
        return {}
    driver = link.ethtool.driver.driver if link.ethtool.driver is not None else None
    found = {}
    for position in loss_positions(driver, "limits", names):
        if new[position] > old[position]:
            found[names[position].strip()] = new[position] - old[position]
    return found


def _sends_for(port: Link, master: Link) -> bool:
    """Ports of a bridge, which may be taps of virtual machines, do not send for it."""
    return port.bus is not None or master.kind in ("bond", "team")


def _value_text(value: int | None) -> str:
    return "default" if value is None else str(value)


def _default_congestion(plan: RunPlan, tools: Mapping[Side, TrafficTools]) -> str:
    """Congestion control of the sender."""
    side: Side = "server" if plan.direction == "reverse" else "client"
    if side not in tools:
        return "default"
    return tools[side].congestion_control or "default"


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
        found.update(
            {"driver": driver.driver, "driver version": driver.version, "firmware": driver.firmware}
        )
    queues = receive_queues(link)
    found["queues"] = str(queues) if queues else ""
    found["offloads"] = " ".join(name for name in COMPARED_OFFLOADS if is_on(link, name))
    found["interrupt affinity"] = " ".join(_interrupt_cpus(link, snapshot))
    return found


def _interrupt_cpus(link: Link, snapshot: Snapshot) -> Iterable[str]:
    """CPU lists of the vectors of a NIC, each list once."""
    found: dict[str, None] = {}
    if snapshot.inventory is None or link.pci_address is None:
        return found
    for vector in snapshot.inventory.interrupts:
        cpus = vector.effective_cpus or vector.allowed_cpus
        if cpus and vector.pci_address == link.pci_address:
            found[cpus] = None
    return found
