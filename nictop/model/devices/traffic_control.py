"""Queueing disciplines in the syntax of tc, and their effect on traffic.

Reads nothing. tc-netem(8), tc-tbf(8), tc-htb(8), tc-hfsc(8), tc-fq(8), tc-cake(8).
"""

from __future__ import annotations

from nictop.model.text import units
from nictop.probe.records import Qdisc

RATE_KEYWORDS = {
    "netem": "rate",
    "tbf": "rate",
    "htb": "ceil",
    "hfsc": "ul m2",
    "fq": "maxrate",
    "cake": "bandwidth",
}
RATE_UNITS = ((1_000_000_000, "Gbit"), (1_000_000, "Mbit"), (1_000, "Kbit"))
NETEM_LIMIT = 1000
"""Packets: size of netem's queue unless another is set."""
LOSS_STATE = "loss state"
"""Text for a loss model whose mean is not known."""


def qdisc_text(qdisc: Qdisc) -> str:
    """``netem delay 20ms 5ms loss 1% rate 10Mbit``: as typed after ``tc qdisc add dev LINK root``,
    as far as known."""
    parts = [qdisc.kind]
    if qdisc.delay or qdisc.jitter:
        parts += ["delay", _time(qdisc.delay)]
    if qdisc.jitter:
        parts.append(_time(qdisc.jitter))
    if qdisc.loss is None:
        parts.append(LOSS_STATE)
    for name, share in (
        ("loss", qdisc.loss),
        ("duplicate", qdisc.duplicate),
        ("corrupt", qdisc.corrupt),
        ("reorder", qdisc.reorder),
    ):
        if share:
            parts.append(f"{name} {_share(share)}")
    if qdisc.rate is not None:
        parts += [RATE_KEYWORDS.get(qdisc.kind, "rate"), _rate(qdisc.rate)]
    return " ".join(parts)


def qdisc_arguments(qdisc: Qdisc) -> tuple[str, ...] | None:
    """The words that create it again, after ``tc qdisc add dev LINK root``; None: not all
    parameters are known."""
    if qdisc.kind == "netem":
        return _netem_arguments(qdisc)
    if qdisc.kind == "tbf":
        return _tbf_arguments(qdisc)
    return None


def _netem_arguments(qdisc: Qdisc) -> tuple[str, ...] | None:
    if qdisc.loss is None or qdisc.reorder:
        return None
    words = qdisc_text(qdisc).split()
    if qdisc.limit not in (None, NETEM_LIMIT):
        words += ["limit", str(qdisc.limit)]
    return tuple(words)


def _tbf_arguments(qdisc: Qdisc) -> tuple[str, ...] | None:
    if not qdisc.burst or not qdisc.limit:
        return None
    words = [*qdisc_text(qdisc).split(), "burst", f"{qdisc.burst}b", "limit", f"{qdisc.limit}b"]
    if qdisc.overhead:
        words += ["overhead", str(qdisc.overhead)]
    if qdisc.smallest:
        words += ["mpu", str(qdisc.smallest)]
    return tuple(words)


def effect_text(qdisc: Qdisc) -> str:
    """``delays and drops packets``, ``sends at most 100 Mb/s``"""
    effects = _effects(qdisc)
    if effects:
        *others, last = effects
        if others:
            return f"{', '.join(others)} and {last} packets"
        return f"{last} packets"
    if qdisc.rate is None:
        return "changes traffic"
    each = "each connection sends" if qdisc.per_flow else "sends"
    return f"{each} at most {units.bits_per_second(qdisc.rate)}"


def _effects(qdisc: Qdisc) -> list[str]:
    """What it does to packets, beside limiting their rate."""
    verbs = (
        ("delays", qdisc.delay or qdisc.jitter),
        ("drops", qdisc.loss is None or qdisc.loss),
        ("duplicates", qdisc.duplicate),
        ("reorders", qdisc.reorder),
        ("corrupts", qdisc.corrupt),
    )
    return [verb for verb, value in verbs if value]


def impairs(qdisc: Qdisc, speed: int | None) -> bool:
    """Whether it limits or changes traffic more than its link does; `speed`: of the link in Mb/s,
    None: not known."""
    if _effects(qdisc):
        return True
    if qdisc.rate is None:
        return False
    return not speed or qdisc.rate < speed * 1_000_000


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.6g}s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.6g}ms"
    return f"{seconds * 1e6:.6g}us"


def _share(value: float) -> str:
    return f"{value * 100:.4g}%"


def _rate(bits: int) -> str:
    for size, name in RATE_UNITS:
        if bits >= size:
            return f"{bits / size:.6g}{name}"
    return f"{bits}bit"
