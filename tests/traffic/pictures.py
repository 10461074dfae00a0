"""Views of runs made of literal values, for the tests of the charts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nictop.model.devices.ceiling import Ceiling
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.live.run_view import RunView
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.results.host_load import Busy, CarryingQueue, HostLoad, HostRole, Packets
from nictop.traffic.results.result import Flow, IntervalPoint, Result
from tests.traffic.plans import PLAN

CEILING = Ceiling(9.41e9, 8e5, "9.41 Gb/s: 10 GbE, MTU 1500, IPv4, TCP timestamps")
NO_CEILING = Ceiling(None, None, "none: ens4 reports no speed (virtio_net)")


def steady(value: float) -> Callable[[float], float]:
    return lambda time: value


def busy(time: float, share: float = 0.5, cores: int = 4) -> Busy:
    """`share` of all cores is busy: a tenth of it in user, a tenth in steal, the rest equally in
    system and softirq."""
    total = share * cores
    return Busy(
        time,
        0.1 * total,
        0.45 * total,
        0.0,
        0.45 * total,
        0.1 * total,
        0.0,
        cores,
        2,
        min(1.0, total),
        0.4,
    )


def flow(
    rate: Callable[[float], float],
    *,
    begin: float = 0.0,
    until: float = 10.0,
    interval: float = 0.5,
    back: bool = False,
) -> Flow:
    """A flow from a to b; `back`: from b to a."""
    count = round((until - begin) / interval)
    ends = [begin + (number + 1) * interval for number in range(count)]
    return Flow(
        "b" if back else "a",
        "a" if back else "b",
        None,
        None,
        tuple(arrival(end, interval, rate(end)) for end in ends),
        None,
        tuple(sending(end, interval) for end in ends),
    )


def arrival(end: float, seconds: float, rate: float) -> IntervalPoint:
    return IntervalPoint(end, Interval(0.0, seconds, rate, False))


def sending(end: float, seconds: float) -> IntervalPoint:
    state = Interval(0.0, seconds, 1e9, True, retransmits=3, rtt=310, congestion_window=1_258_291)
    return IntervalPoint(end, state)


def host(
    name: str,
    role: HostRole,
    share: Callable[[float], float],
    *,
    until: float = 10.0,
    cores: int = 4,
) -> HostLoad:
    times = [float(number + 1) for number in range(int(until))]
    nic = role != "observer"
    return HostLoad(
        name,
        role,
        None,
        tuple(busy(time, share(time), cores) for time in times),
        packets=tuple(Packets(time, 1.0, 812e3, 40.1e3, 0, 0) for time in times) if nic else (),
        carrying=tuple(
            CarryingQueue(time, 0, 0.97, 4, (2,)) if nic else CarryingQueue(time, vhost=0.9)
            for time in times
        ),
    )


def run_view(
    *flows: Flow,
    plan: RunPlan | None = None,
    seconds: float = 10.0,
    hosts: tuple[HostLoad, ...] | None = None,
) -> RunView:
    """A running run of ten seconds from a to b, with a ceiling of 9.41 Gb/s."""
    if hosts is None:
        hosts = (
            host("a", "client", steady(0.25), until=seconds),
            host("b", "server", steady(0.5), until=seconds),
        )
    chosen = plan or replace(
        PLAN, time=10, direction="bidirectional" if len(flows) > 1 else "forward"
    )
    nics = {"client nic": "ens4", "server nic": "ens4"}
    result = Result(chosen, 0.0, flows, hosts, ceiling=CEILING, facts=nics)
    return RunView(result, seconds, "waiting for the first byte")


def altered(view: RunView, **changes: Any) -> RunView:
    """The view with other parts of its result so far."""
    return replace(view, so_far=replace(view.so_far, **changes))
