"""Transactions of a run: figures from the reports of its client, and what limited them.

Reads nothing. A test of requests and responses is a closed loop: with n connections, transactions
per second are n divided by the mean latency, and a slow response delays the next request. Causes
are examined in the order in which one hides the next; otherwise the bottleneck is "not determined".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import GeneratorFloor, Qdisc
from nictop.traffic.analysis.cpu_limits import (
    BUSY_CPU_SHARE,
    busiest_first,
    is_filled_by_run,
    others_text,
    users_text,
)
from nictop.traffic.analysis.delay_limits import POSSIBLE_SHARE, beyond_the_counters, of_delay
from nictop.traffic.analysis.judgement import (
    Judgement,
    Phrase,
    combined,
    limit_rows,
    loads_of_machines,
    undetermined_text,
)
from nictop.traffic.analysis.qdisc_limits import AT_RATE_SHARE, limit_name
from nictop.traffic.analysis.setup_facts import NicSetup
from nictop.traffic.generators.intervals import TransactionInterval, TransactionTotal
from nictop.traffic.generators.latency import histogram_of, merged
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.record.log import is_before
from nictop.traffic.results.host_load import BusyCpu, HostLoad
from nictop.traffic.results.result import MAX_STEAL_SHARE, ExaminedLimit, Result
from nictop.traffic.results.transactions import Floor, TransactionFigures, TransactionPoint

PARTLY_SHARE = 0.5
"""Of a rate: a shaper of which the transactions carry so much on average is not excluded."""
MANY_LOST_SHARE = 0.01
ETHERNET_BYTES = 18
"""Ethernet header and FCS, which not every netdev counts."""
TCP_HEADER_BYTES, UDP_HEADER_BYTES = 32, 8
"""TCP with timestamps."""
CONTROL_PACKETS = {"rr": (0, 0), "crr": (2, 1)}
"""Packets without payload that client and server send at least for each transaction: SYN and the
acknowledgement of the SYN-ACK, and the SYN-ACK."""
MAX_MORE_PACKETS = {"rr": (1, 1), "crr": (4, 4)}
"""Packets without payload beyond these: acknowledgements, FIN, RST."""
MIN_PROVEN_BYTES = 16 * 1024
"""In either direction: fewer may be other packets of a network, and do not verify the path."""


def transaction_figures(
    plan: RunPlan,
    total: TransactionTotal | None,
    intervals: Iterable[tuple[float, TransactionInterval]],
    floors: Iterable[Floor],
    *,
    stopped: float | None,
) -> TransactionFigures | None:
    """`intervals`: with their ends on the axis of the run. `stopped`: when the user stopped
    it; then the intervals until then are the result, as the generator was ended before its total.
    One that failed without a total has those until its last answer. None: nothing was measured."""
    reported = list(intervals)
    figures: TransactionFigures | None
    if stopped is not None:
        counted = [one for time, one in reported if is_before(time, one, stopped)]
        figures = _figures_of_intervals(counted)
    elif total is None:
        figures = _figures_of_intervals(_until_last_answer(one for _, one in reported))
    else:
        figures = _figures_of_total(plan, total)
    if figures is None:
        return None
    points = tuple(transaction_point(time, interval) for time, interval in reported)
    return replace(figures, points=points, floors=tuple(floors))


def _figures_of_total(plan: RunPlan, total: TransactionTotal) -> TransactionFigures:
    """As the generator reported them at its end."""
    return TransactionFigures(
        total.seconds,
        total.latency,
        total.connect,
        total.lost or 0,
        ended_early=total.stopped or _missing_files(plan, total),
    )


def _until_last_answer(intervals: Iterable[TransactionInterval]) -> list[TransactionInterval]:
    """After it the generator waited in vain."""
    found = list(intervals)
    while found and not found[-1].latency.count:
        found.pop()
    return found


def _figures_of_intervals(
    intervals: Iterable[TransactionInterval],
) -> TransactionFigures | None:
    """Of the measured ones; None: there are none."""
    measured = [interval for interval in intervals if not interval.omitted]
    seconds = sum(interval.seconds for interval in measured)
    if not seconds:
        return None
    connects = [interval.connect for interval in measured if interval.connect is not None]
    return TransactionFigures(
        seconds,
        merged(interval.latency for interval in measured),
        merged(connects) if connects else None,
        sum(interval.lost or 0 for interval in measured),
    )


def _missing_files(plan: RunPlan, total: TransactionTotal) -> str:
    done = total.latency.count
    if plan.files is None or done >= plan.files:
        return ""
    return f"{done} of {plan.files} transactions within {plan.time} s"


def transaction_point(time: float, one: TransactionInterval) -> TransactionPoint:
    connect = one.connect.summary() if one.connect is not None else None
    return TransactionPoint(time, one.seconds, one.lost or 0, one.latency.summary(), connect)


def floor_of(host: str, reply: GeneratorFloor | str) -> Floor:
    """`reply`: of its probe, or why there is none."""
    if isinstance(reply, str):
        return Floor(host, None, problem=reply)
    latency = histogram_of(reply.latency)
    connect = histogram_of(reply.connect) if reply.connect is not None else None
    if latency is None or not latency.count or not reply.seconds > 0:
        return Floor(host, None, problem="no transactions over loopback")
    return Floor(
        host,
        latency.summary(),
        connect.summary() if connect is not None else None,
        latency.count / reply.seconds,
    )


def with_transaction_costs(
    hosts: Iterable[HostLoad], figures: TransactionFigures
) -> tuple[HostLoad, ...]:
    """The loads with CPU time per transaction."""
    rate = figures.rate
    found = []
    for load in hosts:
        cost = load.busy.total / rate if load.busy is not None and rate else None
        found.append(replace(load, per_transaction=cost))
    return tuple(found)


# ----------------------------------------------------------------------------------------- the path


def packet_bytes(plan: RunPlan, count: int) -> tuple[tuple[float, float], float]:
    """((bytes that the client sends at least for so many transactions, that the server sends),
    factor by which a netdev counts at most more): with the headers of IP and TCP or UDP, as small
    messages are mostly headers."""
    ip_header = 20 if plan.ip_version == 4 else 40
    header = ip_header + (UDP_HEADER_BYTES if plan.protocol == "udp" else TCP_HEADER_BYTES)
    least, most = [], []
    control, more = CONTROL_PACKETS[plan.test], MAX_MORE_PACKETS[plan.test]
    segment = plan.mss or 1400
    for own, other, packets, extra in zip(plan.sizes, plan.sizes[::-1], control, more, strict=True):
        least.append(own + header * (1 + packets))
        segments = -(-own // segment) + -(-other // segment)
        most.append(own + (header + ETHERNET_BYTES) * (segments + packets + extra))
    factor = max(high / low for low, high in zip(least, most, strict=True))
    return (least[0] * count, least[1] * count), factor


# --------------------------------------------------------------------------------------- bottleneck


def transaction_bottleneck(
    result: Result, setups: Mapping[str, NicSetup]
) -> tuple[str, tuple[ExaminedLimit, ...]]:
    """The sentence, and all limits that were examined; "" for a run without transactions or a
    failed one. `setups`: host → its chosen NIC."""
    figures = result.transactions
    if figures is None or not figures.latency.count or result.failure is not None:
        return "", ()
    found = combined(
        (
            _delay(figures, setups),
            _rates(result.plan, figures, setups),
            _losses(figures),
            _generator(figures),
            _cpus(loads_of_machines(result)),
        )
    )
    if found.cause is not None:
        return str(found.cause), limit_rows(found)
    median = figures.latency.summary().p50 or 0.0
    found = combined((found, beyond_the_counters(result, setups, median)))
    return undetermined_text(found), limit_rows(found)


def _delay(figures: TransactionFigures, setups: Mapping[str, NicSetup]) -> Judgement:
    """Queueing disciplines that delay packets."""
    delay = 0.0
    names = []
    for setup in setups.values():
        for sending in setup.qdiscs:
            for qdisc in sending.acting:
                if qdisc.delay:
                    delay += qdisc.delay
                    names.append(limit_name(setup.host, sending.link, qdisc))
    median = figures.latency.summary().p50
    if median is None or not delay:
        return Judgement()
    return of_delay(", ".join(names), delay, median)


def _rates(plan: RunPlan, figures: TransactionFigures, setups: Mapping[str, NicSetup]) -> Judgement:
    """Queueing disciplines that limit the rate: what the transactions carry of it, at least."""
    if plan.test not in CONTROL_PACKETS or figures.seconds <= 0:
        return Judgement()
    (by_client, by_server), _ = packet_bytes(plan, figures.latency.count)
    found = []
    for host, sent in ((plan.client.host, by_client), (plan.server.host, by_server)):
        setup = setups.get(host)
        for sending in () if setup is None else setup.qdiscs:
            found += [
                _rate(host, sending.link, qdisc, 8 * sent / figures.seconds)
                for qdisc in sending.acting
                if qdisc.rate
            ]
    return combined(found)


def _rate(host: str, link: str, qdisc: Qdisc, carried: float) -> Judgement:
    """`carried`: bits per second at least, without the Ethernet headers, which count there."""
    assert qdisc.rate is not None
    share = f"at least {units.bits_per_second(carried)} of {units.bits_per_second(qdisc.rate)}"
    limit = limit_name(host, link, qdisc)
    if qdisc.limits_all and carried >= AT_RATE_SHARE * qdisc.rate:
        return Judgement.of_cause(limit, f": the transactions carry {share}")
    if carried >= PARTLY_SHARE * qdisc.rate:
        return Judgement.of_possible(limit, f" (the transactions carry {share})")
    return Judgement.of_excluded(limit, f" (the transactions carry {share})")


def _losses(figures: TransactionFigures) -> Judgement:
    share = units.percentage(figures.lost_share)
    if figures.lost_share < MANY_LOST_SHARE:
        return Judgement.of_excluded("lost requests", f" ({share})")
    return Judgement.of_cause(
        "lost requests", f": {share} of all; each stops its connection until the timeout"
    )


def _generator(figures: TransactionFigures) -> Judgement:
    if figures.floor is None:
        return Judgement.of_possible("generator", " (its own latency was not measured)")
    latency = figures.latency.summary()
    by_median = of_delay("generator", figures.floor, latency.p50 or 0.0)
    if not by_median.excluded or not figures.floor_mean or not latency.mean:
        return by_median
    share = figures.floor_mean / latency.mean
    if share < POSSIBLE_SHARE:
        return by_median
    # Some transactions take far longer than half of them: the generator may be in those.
    part = f"{units.duration(figures.floor_mean)} of the mean latency of"
    return Judgement.of_possible(
        "generator", f" ({part} {units.duration(latency.mean)}, {units.percentage(share)})"
    )


def _cpus(hosts: Iterable[HostLoad]) -> Judgement:
    return combined(_cpu(load) for load in hosts)


def _cpu(load: HostLoad) -> Judgement:
    """Steal of any host, and full CPUs of an end: the cause if the run works there. One that others
    fill delays the run as far as its threads wait there, which is not counted."""
    where, busy = clean(load.host), load.busy
    if busy is None:
        return Judgement.of_possible(f"CPUs of {where}", " (not measured)")
    if busy.steal_share > MAX_STEAL_SHARE:
        return Judgement.of_cause(
            f"hypervisor of {where}", f": {units.percentage(busy.steal_share)} CPU steal"
        )
    nearly_full = () if load.role == "observer" else busiest_first(load)
    for cpu in nearly_full:
        if cpu.busy >= BUSY_CPU_SHARE and is_filled_by_run(load, cpu):
            rest = f", {units.percentage(cpu.busy)} busy{users_text(load, cpu)}"
            return Judgement.of_cause(f"CPU {cpu.cpu} on {where}", rest)
    if nearly_full:
        return Judgement(possible=tuple(Phrase(*_shared_cpu(load, cpu)) for cpu in nearly_full))
    hottest = f" (hottest on average: CPU {busy.hottest} at {units.percentage(busy.hottest_busy)})"
    return Judgement.of_excluded(f"CPU of {where}", hottest)


def _shared_cpu(load: HostLoad, cpu: BusyCpu) -> tuple[str, str]:
    """``CPU 2 on vm2``, ``, 95 % busy, most of it not by this test; seen there …: sh 93 %``"""
    others = "" if is_filled_by_run(load, cpu) else others_text(load)
    rest = f", {units.percentage(cpu.busy)} busy{others}{users_text(load, cpu)}"
    return f"CPU {cpu.cpu} on {clean(load.host)}", rest
