"""RTM_NEWQDISC and RTM_NEWTCLASS (linux/pkt_sched.h) → records. Pure.

Only queueing disciplines that delay, drop, change or limit packets become records: not fq_codel,
pfifo_fast and the like, not fq without maxrate, and not cake without a bandwidth.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from nictop.probe.inventory.links.messages import Attributes, number
from nictop.probe.kernel.netlink import iter_attributes, text
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import Qdisc

TCMSG = struct.Struct("=BxxxiIII")
"""struct tcmsg: family, ifindex, handle, parent, info."""
TCA_KIND, TCA_OPTIONS, TCA_STATS2 = 1, 2, 7
TCA_STATS_QUEUE = 3
GNET_STATS_QUEUE = struct.Struct("=IIIII")
"""struct gnet_stats_queue (linux/gen_stats.h): packets and bytes in the queue, drops, requeues,
overlimits."""
TC_H_ROOT = 0xFFFFFFFF
TC_H_MIN_MASK = 0xFFFF
NO_RATE = 0xFFFFFFFF
"""A 32-bit rate: the 64-bit attribute has the value, or (fq) there is no limit."""
SCHEDULER_TICK_SECONDS = 64e-9
"""Tick of the packet scheduler (PSCHED_SHIFT)."""
SECONDS_PER_NANOSECOND, ROUNDING_ERROR = 1e-9, 1e-4
PROBABILITY_ONE = 0xFFFFFFFF
"""Probabilities are fractions of this number."""

TC_RATESPEC = struct.Struct("=BBHhHI")
"""struct tc_ratespec: cell_log, linklayer, overhead, cell_align, mpu, bytes per second."""
TC_NETEM_QOPT = struct.Struct("=IIIIII")
"""struct tc_netem_qopt: latency in ticks, limit, loss, gap, duplicate, jitter in ticks."""
TC_TBF_LIMITS = struct.Struct("=III")
"""The end of struct tc_tbf_qopt, after the specifications of rate and peakrate: limit in bytes,
buffer and mtu in ticks at these rates."""
TC_SERVICE_CURVE = struct.Struct("=III")
"""struct tc_service_curve: m1, d, m2; bytes per second."""
TCA_NETEM_REORDER, TCA_NETEM_CORRUPT, TCA_NETEM_LOSS, TCA_NETEM_RATE, TCA_NETEM_RATE64 = (
    3,
    4,
    5,
    6,
    8,
)
TCA_NETEM_LATENCY64, TCA_NETEM_JITTER64 = 10, 11
NETEM_LOSS_GE = 2
TCA_TBF_PARMS, TCA_TBF_RATE64 = 1, 4
TCA_HTB_PARMS, TCA_HTB_INIT, TCA_HTB_CEIL64 = 1, 2, 7
TCA_HFSC_USC = 3
TCA_FQ_FLOW_MAX_RATE = 7
TCA_CAKE_BASE_RATE64 = 2
CLASSFUL_KINDS = ("htb", "hfsc")


@dataclass(frozen=True)
class TrafficClass:
    """A class of htb or hfsc."""

    handle: int
    parent: int
    rate: int | None
    """Maximum in bits per second; None: no limit of its own."""
    overhead: int = 0
    """Bytes added to each frame."""
    smallest: int = 0
    """Bytes: shorter frames count as this long (mpu)."""


def parse_qdisc(payload: bytes) -> tuple[int, int, Qdisc] | None:
    """(ifindex, handle, record); None: malformed, or a discipline that only queues. Classful ones
    have no rate yet, see `with_classes`."""
    if len(payload) < TCMSG.size:
        return None
    _, ifindex, handle, parent, _ = TCMSG.unpack_from(payload)
    found = dict(iter_attributes(payload[TCMSG.size :]))
    kind, options = text(found.get(TCA_KIND, b"")), found.get(TCA_OPTIONS, b"")
    if kind not in PARSERS:
        return None
    bare = Qdisc(kind, name_of(handle), None if parent == TC_H_ROOT else name_of(parent))
    record = PARSERS[kind](bare, options)
    if record is None:
        return None
    return ifindex, handle, replace(record, dropped=dropped_packets(found.get(TCA_STATS2, b"")))


def parse_filter_hook(payload: bytes) -> tuple[int, str] | None:
    """(ifindex, kind) of the qdiscs ingress and clsact, which only hold filters; None: another
    one."""
    if len(payload) < TCMSG.size:
        return None
    kind = text(dict(iter_attributes(payload[TCMSG.size :])).get(TCA_KIND, b""))
    if kind not in ("ingress", "clsact"):
        return None
    return TCMSG.unpack_from(payload)[1], kind


def dropped_packets(statistics: bytes) -> int | None:
    """Dropped packets of TCA_STATS2; None: not counted."""
    queue = dict(iter_attributes(statistics)).get(TCA_STATS_QUEUE, b"")
    if len(queue) < GNET_STATS_QUEUE.size:
        return None
    return int(GNET_STATS_QUEUE.unpack_from(queue)[2])


def name_of(handle: int) -> str:
    """A handle in the format of tc(8): ``8001:``, ``1:10``, ``:1``."""
    major, minor = handle >> 16, handle & TC_H_MIN_MASK
    if not minor:
        return f"{major:x}:"
    if not major:
        return f":{minor:x}"
    return f"{major:x}:{minor:x}"


def probability(value: int) -> float:
    return value / PROBABILITY_ONE


def parse_netem(bare: Qdisc, options: bytes) -> Qdisc | None:
    if len(options) < TC_NETEM_QOPT.size:
        return None
    latency, limit, loss, _, duplicate, jitter = TC_NETEM_QOPT.unpack_from(options)
    found = dict(iter_attributes(options[TC_NETEM_QOPT.size :]))
    model = dict(iter_attributes(found.get(TCA_NETEM_LOSS, b"")))
    rate = number(found, TCA_NETEM_RATE64) or first_u32(found.get(TCA_NETEM_RATE, b""))
    record = replace(
        bare,
        delay=netem_seconds(found.get(TCA_NETEM_LATENCY64, b""), latency),
        jitter=netem_seconds(found.get(TCA_NETEM_JITTER64, b""), jitter),
        loss=mean_loss(model) if model else probability(loss),
        duplicate=probability(duplicate),
        reorder=probability(first_u32(found.get(TCA_NETEM_REORDER, b""))),
        corrupt=probability(first_u32(found.get(TCA_NETEM_CORRUPT, b""))),
        rate=rate * 8 or None,
        limit=limit,
    )
    effects = (record.delay, record.jitter, record.duplicate, record.reorder, record.corrupt)
    if record.loss is None or record.loss or record.rate or any(effects):
        return record
    return None


def netem_seconds(nanoseconds: bytes, ticks: int) -> float:
    """A time: the exact one, else that in ticks of the scheduler (before Linux 4.15)."""
    if len(nanoseconds) != 8:
        return ticks * SCHEDULER_TICK_SECONDS
    return int(struct.unpack("=q", nanoseconds)[0]) / 1e9


def mean_loss(model: Attributes) -> float | None:
    """Mean loss of the two-state Gilbert-Elliott model (struct tc_netem_gemodel); None: another
    model."""
    value = model.get(NETEM_LOSS_GE, b"")
    if len(value) < 16:
        return None
    p, r, h, k1 = (probability(one) for one in struct.unpack_from("=IIII", value))
    bad = p / (p + r) if p + r else 0.0
    return bad * h + (1 - bad) * k1


def first_u32(value: bytes) -> int:
    """The first field of a structure; 0: missing."""
    if len(value) < 4:
        return 0
    return int(struct.unpack_from("=I", value)[0])


def parse_tbf(bare: Qdisc, options: bytes) -> Qdisc | None:
    found = dict(iter_attributes(options))
    parameters = found.get(TCA_TBF_PARMS, b"")
    spec = rate_spec(parameters, number(found, TCA_TBF_RATE64))
    if spec is None:
        return None
    record = replace(bare, rate=spec[0], overhead=spec[1], smallest=spec[2])
    if len(parameters) < 2 * TC_RATESPEC.size + TC_TBF_LIMITS.size:
        return record
    limit, buffer, _ = TC_TBF_LIMITS.unpack_from(parameters, 2 * TC_RATESPEC.size)
    record = replace(record, burst=None, limit=limit)
    peak = rate_spec(parameters[TC_RATESPEC.size :], None)
    if peak is None or peak[0]:
        return record
    return replace(record, burst=burst_bytes(buffer, spec[0]))


def burst_bytes(ticks: int, rate: int) -> int:
    """Bytes for which the kernel stores the same number of ticks again; `rate`: bits per second.

    It stores the time that they take, rounded down to ticks (psched_l2t_ns, PSCHED_NS2TICKS:
    net/sched/sch_tbf.c), and tc shows that rounded down to microseconds. Several sizes may have one
    number of ticks, of which this is the smallest, a nanosecond later; or one size that has it
    alone.
    """
    a_tick = SCHEDULER_TICK_SECONDS * rate / 8
    added = SECONDS_PER_NANOSECOND * rate / 8 if a_tick > 1 else -ROUNDING_ERROR
    return -int(-(ticks * a_tick + added) // 1)  # rounded up


def rate_spec(value: bytes, exact: int | None) -> tuple[int, int, int] | None:
    """(bits per second, bytes added to each frame, minimum frame length) of struct tc_ratespec;
    None: malformed."""
    if len(value) < TC_RATESPEC.size:
        return None
    _, _, overhead, _, smallest, rate = TC_RATESPEC.unpack_from(value)
    return (exact or rate) * 8, overhead, smallest


def parse_fq(bare: Qdisc, options: bytes) -> Qdisc | None:
    rate = number(dict(iter_attributes(options)), TCA_FQ_FLOW_MAX_RATE)
    if not rate or rate == NO_RATE:
        return None
    return replace(bare, rate=rate * 8, per_flow=True)


def parse_cake(bare: Qdisc, options: bytes) -> Qdisc | None:
    rate = number(dict(iter_attributes(options)), TCA_CAKE_BASE_RATE64)
    if not rate:
        return None
    return replace(bare, rate=rate * 8)


def parse_htb(bare: Qdisc, options: bytes) -> Qdisc | None:
    start = dict(iter_attributes(options)).get(TCA_HTB_INIT, b"")
    if len(start) < 12:
        return None
    return replace(bare, default_class=struct.unpack_from("=III", start)[2])


def parse_hfsc(bare: Qdisc, options: bytes) -> Qdisc | None:
    if len(options) < 2:
        return None
    return replace(bare, default_class=struct.unpack_from("=H", options)[0])


PARSERS = {
    "netem": parse_netem,
    "tbf": parse_tbf,
    "fq": parse_fq,
    "cake": parse_cake,
    "htb": parse_htb,
    "hfsc": parse_hfsc,
}


def parse_class(payload: bytes) -> TrafficClass | None:
    """A class of htb or hfsc; None for any other."""
    if len(payload) < TCMSG.size:
        return None
    _, _, handle, parent, _ = TCMSG.unpack_from(payload)
    found = dict(iter_attributes(payload[TCMSG.size :]))
    kind = text(found.get(TCA_KIND, b""))
    options = dict(iter_attributes(found.get(TCA_OPTIONS, b"")))
    if kind == "htb":
        maximum = options.get(TCA_HTB_PARMS, b"")[TC_RATESPEC.size :]
        spec = rate_spec(maximum, number(options, TCA_HTB_CEIL64))
        if spec is None:
            return None
        return TrafficClass(handle, parent, *spec)
    if kind == "hfsc":
        rate = None
        curve = options.get(TCA_HFSC_USC, b"")
        if len(curve) >= TC_SERVICE_CURVE.size:
            rate = TC_SERVICE_CURVE.unpack_from(curve)[2] * 8 or None
        return TrafficClass(handle, parent, rate)
    return None


def with_classes(record: Qdisc, handle: int, classes: Iterable[TrafficClass]) -> Qdisc | None:
    """The discipline with the rate of its least limited class, ancestors included; None: nothing is
    limited.

    Packets that no filter classifies go to the default class; without one htb does not limit them,
    and hfsc drops them.
    """
    own = {one.handle: one for one in classes if one.handle >> 16 == handle >> 16}
    leaves = own.keys() - {one.parent for one in own.values()}
    if not leaves:
        return None
    default = handle & ~TC_H_MIN_MASK | (record.default_class or 0)
    unlimited = record.kind == "htb" and (not record.default_class or default not in own)
    bounds = {leaf: maximum_rate(leaf, own) for leaf in leaves}
    widest = max(leaves, key=lambda leaf: (bounds[leaf] is None, bounds[leaf] or 0, leaf))
    rate = bounds[widest]
    if rate is None:
        return None
    return replace(
        record,
        rate=rate,
        overhead=own[widest].overhead,
        smallest=own[widest].smallest,
        limits_all=not unlimited,
    )


def maximum_rate(leaf: int, classes: Mapping[int, TrafficClass]) -> int | None:
    """Maximum rate of a class and its ancestors in bits per second; None: no limit."""
    rates = []
    seen: set[int] = set()
    while leaf in classes and leaf not in seen:
        seen.add(leaf)
        rates.append(classes[leaf].rate)
        leaf = classes[leaf].parent
    return min((rate for rate in rates if rate is not None), default=None)
