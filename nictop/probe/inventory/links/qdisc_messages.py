"""What rtnetlink says of queueing disciplines and their classes, from bytes to records. Pure: nothing is read here.

Takes the payloads of RTM_NEWQDISC and RTM_NEWTCLASS (linux/pkt_sched.h). Only disciplines that delay, lose, change or
limit packets become records: fq_codel, pfifo_fast and the like, fq without maxrate and cake without a bandwidth do not.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from nictop.probe.inventory.links.messages import Attributes, number
from nictop.probe.kernel.netlink import iterate, text
from nictop.probe.records import Qdisc

TCMSG = struct.Struct("=BxxxiIII")
"""struct tcmsg: family, ifindex, handle, parent, info."""
TCA_KIND, TCA_OPTIONS = 1, 2
TC_H_ROOT = 0xFFFFFFFF
MINOR = 0xFFFF
NO_RATE = 0xFFFFFFFF
"""A 32-bit rate of which the 64-bit attribute tells more, or no limit (fq)."""
TICK = 64e-9
"""Seconds of a tick of the packet scheduler (PSCHED_SHIFT)."""
WHOLE = 0xFFFFFFFF
"""A probability of one."""

RATESPEC = struct.Struct("=BBHhHI")
"""struct tc_ratespec: cell_log, linklayer, overhead, cell_align, mpu, bytes per second."""
NETEM = struct.Struct("=IIIIII")
"""struct tc_netem_qopt: latency in ticks, limit, loss, gap, duplicate, jitter in ticks."""
CURVE = struct.Struct("=III")
"""struct tc_service_curve: m1, d, m2; bytes per second."""
NETEM_REORDER, NETEM_CORRUPT, NETEM_LOSS, NETEM_RATE, NETEM_RATE64 = 3, 4, 5, 6, 8
NETEM_LATENCY64, NETEM_JITTER64 = 10, 11
NETEM_LOSS_GI, NETEM_LOSS_GE = 1, 2
TBF_PARMS, TBF_RATE64 = 1, 4
HTB_PARMS, HTB_INIT, HTB_CEIL64 = 1, 2, 7
HFSC_USC = 3
FQ_FLOW_MAX_RATE = 7
CAKE_BASE_RATE64 = 2
WITH_CLASSES = ("htb", "hfsc")


@dataclass(frozen=True)
class TrafficClass:
    """A class of htb or hfsc."""

    handle: int
    parent: int
    rate: int | None
    """Bits per second at most; None: no limit of its own."""
    overhead: int = 0
    smallest: int = 0


def parse_qdisc(payload: bytes) -> tuple[int, int, Qdisc] | None:
    """(ifindex, handle, record); None: garbled, or a discipline that only queues. Those with classes have no rate yet:
    see `with_classes`."""
    if len(payload) < TCMSG.size:
        return None
    _, ifindex, handle, parent, _ = TCMSG.unpack_from(payload)
    found = dict(iterate(payload[TCMSG.size :]))
    kind, options = text(found.get(TCA_KIND, b"")), found.get(TCA_OPTIONS, b"")
    bare = Qdisc(kind, name_of(handle), None if parent == TC_H_ROOT else name_of(parent))
    parse = PARSERS.get(kind)
    record = parse(bare, options) if parse is not None else None
    return None if record is None else (ifindex, handle, record)


def name_of(handle: int) -> str:
    """As tc writes it: ``8001:``, ``1:10``, ``:1``."""
    major, minor = handle >> 16, handle & MINOR
    return f"{major:x}:{minor:x}" if major and minor else f":{minor:x}" if minor else f"{major:x}:"


def share(value: int) -> float:
    return value / WHOLE


def parse_netem(bare: Qdisc, options: bytes) -> Qdisc | None:
    if len(options) < NETEM.size:
        return None
    latency, _, loss, _, duplicate, jitter = NETEM.unpack_from(options)
    found = dict(iterate(options[NETEM.size :]))
    exact = {kind: struct.unpack("=q", value)[0] for kind, value in found.items() if len(value) == 8}
    delay, spread = exact.get(NETEM_LATENCY64), exact.get(NETEM_JITTER64)
    model = dict(iterate(found.get(NETEM_LOSS, b"")))
    rate = number(found, NETEM_RATE64) or first_number(found.get(NETEM_RATE, b""))
    record = replace(
        bare,
        delay=delay / 1e9 if delay is not None else latency * TICK,
        jitter=spread / 1e9 if spread is not None else jitter * TICK,
        loss=lost_by_model(model) if model else share(loss),
        duplicate=share(duplicate),
        reorder=share(first_number(found.get(NETEM_REORDER, b""))),
        corrupt=share(first_number(found.get(NETEM_CORRUPT, b""))),
        rate=rate * 8 or None,
    )
    values = (record.delay, record.jitter, record.loss, record.duplicate, record.reorder, record.corrupt, record.rate)
    return record if any(value or value is None for value in values[:-1]) or record.rate else None


def lost_by_model(model: Attributes) -> float | None:
    """Mean share that the two-state model of Gilbert and Elliott loses; None: another model."""
    value = model.get(NETEM_LOSS_GE, b"")
    if len(value) < 16:
        return None
    p, r, h, k1 = (share(one) for one in struct.unpack_from("=IIII", value))
    bad = p / (p + r) if p + r else 0.0
    return bad * h + (1 - bad) * k1


def first_number(value: bytes) -> int:
    """The first field of 32 bits; 0: absent."""
    return int(struct.unpack_from("=I", value)[0]) if len(value) >= 4 else 0


def parse_tbf(bare: Qdisc, options: bytes) -> Qdisc | None:
    found = dict(iterate(options))
    spec = rate_spec(found.get(TBF_PARMS, b""), number(found, TBF_RATE64))
    return None if spec is None else replace(bare, rate=spec[0], overhead=spec[1], smallest=spec[2])


def rate_spec(value: bytes, exact: int | None) -> tuple[int, int, int] | None:
    """(bits per second, bytes that are added to a frame, smallest frame); None: garbled."""
    if len(value) < RATESPEC.size:
        return None
    _, _, overhead, _, smallest, rate = RATESPEC.unpack_from(value)
    return (exact or rate) * 8, overhead, smallest


def parse_fq(bare: Qdisc, options: bytes) -> Qdisc | None:
    rate = number(dict(iterate(options)), FQ_FLOW_MAX_RATE)
    return replace(bare, rate=rate * 8, per_flow=True) if rate and rate != NO_RATE else None


def parse_cake(bare: Qdisc, options: bytes) -> Qdisc | None:
    rate = number(dict(iterate(options)), CAKE_BASE_RATE64)
    return replace(bare, rate=rate * 8) if rate else None


def parse_htb(bare: Qdisc, options: bytes) -> Qdisc | None:
    start = dict(iterate(options)).get(HTB_INIT, b"")
    if len(start) < 12:
        return None
    return replace(bare, default_class=struct.unpack_from("=III", start)[2])


def parse_hfsc(bare: Qdisc, options: bytes) -> Qdisc | None:
    return replace(bare, default_class=struct.unpack_from("=H", options)[0]) if len(options) >= 2 else None


PARSERS = {
    "netem": parse_netem,
    "tbf": parse_tbf,
    "fq": parse_fq,
    "cake": parse_cake,
    "htb": parse_htb,
    "hfsc": parse_hfsc,
}


def parse_class(payload: bytes) -> TrafficClass | None:
    """A class of htb or hfsc."""
    if len(payload) < TCMSG.size:
        return None
    _, _, handle, parent, _ = TCMSG.unpack_from(payload)
    found = dict(iterate(payload[TCMSG.size :]))
    kind, options = text(found.get(TCA_KIND, b"")), dict(iterate(found.get(TCA_OPTIONS, b"")))
    if kind == "htb":
        spec = rate_spec(options.get(HTB_PARMS, b"")[RATESPEC.size :], number(options, HTB_CEIL64))
        return None if spec is None else TrafficClass(handle, parent, *spec)
    if kind == "hfsc":
        curve = options.get(HFSC_USC, b"")
        rate = CURVE.unpack_from(curve)[2] * 8 if len(curve) >= CURVE.size else 0
        return TrafficClass(handle, parent, rate or None)
    return None


def with_classes(record: Qdisc, handle: int, classes: Iterable[TrafficClass]) -> Qdisc | None:
    """The discipline with the rate of its widest class, which no class above makes narrower; None: it limits nothing.

    What no filter puts into a class goes to the default class; without one htb does not limit it, and hfsc drops it.
    """
    own = {one.handle: one for one in classes if one.handle >> 16 == handle >> 16}
    leaves = own.keys() - {one.parent for one in own.values()}
    if not leaves:
        return None
    default = handle & ~MINOR | (record.default_class or 0)
    unlimited = record.kind == "htb" and (not record.default_class or default not in own)
    bounds = {leaf: narrowest(leaf, own) for leaf in leaves}
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


def narrowest(leaf: int, classes: Mapping[int, TrafficClass]) -> int | None:
    """Bits per second that a class can have at most; None: no limit."""
    rates = []
    seen: set[int] = set()
    while leaf in classes and leaf not in seen:
        seen.add(leaf)
        rates.append(classes[leaf].rate)
        leaf = classes[leaf].parent
    return min((rate for rate in rates if rate is not None), default=None)
