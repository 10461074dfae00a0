"""Views of runs made of literal values, for the tests of the charts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nictop.model.devices.ceiling import Ceiling
from nictop.traffic.analysis.cpu_load import Busy, HostRole
from nictop.traffic.analysis.nic_load import CarryingQueue, Packets
from nictop.traffic.live.flow_view import FlowView, ReceivedInterval, SenderState
from nictop.traffic.live.host_view import HostLoadView
from nictop.traffic.live.run_view import RunView
from nictop.traffic.plan.plan import RunPlan
from tests.traffic.plans import PLAN

CEILING = Ceiling(9.41e9, 8e5, "9.41 Gb/s: 10 GbE, MTU 1500, IPv4, TCP timestamps")
NO_CEILING = Ceiling(None, None, "none: ens4 reports no speed (virtio_net)")


def steady(value: float) -> Callable[[float], float]:
    return lambda time: value


def busy(time: float, share: float = 0.5, cores: int = 4) -> Busy:
    """`share` of all cores is busy: a tenth of it in user, a tenth in steal, the rest equally in system and softirq."""
    total = share * cores
    return Busy(time, 0.1 * total, 0.45 * total, 0.0, 0.45 * total, 0.1 * total, 0.0, cores, 2, min(1.0, total), 0.4)


def flow(
    rate: Callable[[float], float],
    *,
    begin: float = 0.0,
    until: float = 10.0,
    interval: float = 0.5,
    back: bool = False,
) -> FlowView:
    """A flow from a to b; `back`: from b to a."""
    count = round((until - begin) / interval)
    ends = [begin + (number + 1) * interval for number in range(count)]
    return FlowView(
        "b" if back else "a",
        "a" if back else "b",
        "server" if back else "client",
        tuple(ReceivedInterval(end, interval, rate(end)) for end in ends),
        tuple(SenderState(end, interval, 3, 310, 1_258_291) for end in ends),
    )


def host(
    name: str, role: HostRole, share: Callable[[float], float], *, until: float = 10.0, cores: int = 4
) -> HostLoadView:
    times = [float(number + 1) for number in range(int(until))]
    nic = "" if role == "observer" else "ens4"
    return HostLoadView(
        role,
        name,
        nic,
        tuple(busy(time, share(time), cores) for time in times),
        tuple(Packets(time, 1.0, 812e3, 40.1e3, 0) for time in times) if nic else (),
        tuple(CarryingQueue(time, 0, 0.97, 4, (2,)) if nic else CarryingQueue(time, vhost=0.9) for time in times),
    )


def run_view(
    *flows: FlowView, plan: RunPlan | None = None, seconds: float = 10.0, hosts: tuple[HostLoadView, ...] | None = None
) -> RunView:
    """A running run of ten seconds from a to b, with a ceiling of 9.41 Gb/s."""
    if hosts is None:
        hosts = (host("a", "client", steady(0.25), until=seconds), host("b", "server", steady(0.5), until=seconds))
    chosen = plan or replace(PLAN, time=10, direction="bidirectional" if len(flows) > 1 else "forward")
    return RunView(chosen, "waiting for the first byte", seconds, flows, hosts, CEILING)
