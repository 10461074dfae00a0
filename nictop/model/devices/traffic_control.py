"""Queueing disciplines in the syntax of tc, and their effect on traffic.

Reads nothing. tc-netem(8), tc-tbf(8), tc-htb(8), tc-hfsc(8), tc-fq(8), tc-cake(8).
"""

from __future__ import annotations

from nictop.model.text import units
from nictop.probe.records import Qdisc

RATE_KEYWORDS = {"netem": "rate", "tbf": "rate", "htb": "ceil", "hfsc": "ul m2", "fq": "maxrate", "cake": "bandwidth"}
RATE_UNITS = ((1_000_000_000, "Gbit"), (1_000_000, "Mbit"), (1_000, "Kbit"))
NETEM_LIMIT = 1000
"""Packets: size of netem's queue unless another is set."""
LOSS_STATE = "loss state"
"""Text for a loss model whose mean is not known."""


def qdisc_text(qdisc: Qdisc) -> str:
    """``netem delay 20ms 5ms loss 1% rate 10Mbit``: as typed after ``tc qdisc add dev LINK root``, as far as known."""
    parts = [qdisc.kind]
    if qdisc.delay or qdisc.jitter:
        parts += ["delay", _time(qdisc.delay), *([_time(qdisc.jitter)] if qdisc.jitter else [])]
    if qdisc.loss is None:
        parts.append(LOSS_STATE)
    shares = (("loss", qdisc.loss), ("duplicate", qdisc.duplicate), ("corrupt", qdisc.corrupt))
    parts += [f"{name} {_share(value)}" for name, value in (*shares, ("reorder", qdisc.reorder)) if value]
    if qdisc.rate is not None:
        parts += [RATE_KEYWORDS.get(qdisc.kind, "rate"), _rate(qdisc.rate)]
    return " ".join(parts)


def qdisc_arguments(qdisc: Qdisc) -> tuple[str, ...] | None:
    """The words that create it again, after ``tc qdisc add dev LINK root``; None: not all parameters are known."""
    words = qdisc_text(qdisc).split()
    if qdisc.kind == "netem" and qdisc.loss is not None and not qdisc.reorder:
        return (*words, *(("limit", str(qdisc.limit)) if qdisc.limit not in (None, NETEM_LIMIT) else ()))
    if qdisc.kind == "tbf" and qdisc.burst and qdisc.limit:
        sizes = {
            "burst": f"{qdisc.burst}b",
            "limit": f"{qdisc.limit}b",
            "overhead": qdisc.overhead,
            "mpu": qdisc.smallest,
        }
        return (*words, *(str(word) for name, value in sizes.items() if value for word in (name, value)))
    return None


def effect_text(qdisc: Qdisc) -> str:
    """``delays and drops packets``, ``sends at most 100 Mb/s``"""
    effects = [
        verb
        for verb, value in (
            ("delays", qdisc.delay or qdisc.jitter),
            ("drops", qdisc.loss is None or qdisc.loss),
            ("duplicates", qdisc.duplicate),
            ("reorders", qdisc.reorder),
            ("corrupts", qdisc.corrupt),
        )
        if value
    ]
    if effects:
        return f"{', '.join(effects[:-1])} and {effects[-1]} packets" if effects[1:] else f"{effects[0]} packets"
    if qdisc.rate is None:
        return "changes traffic"
    each = "each connection sends" if qdisc.per_flow else "sends"
    return f"{each} at most {units.bits_per_second(qdisc.rate)}"


def impairs(qdisc: Qdisc, speed: int | None) -> bool:
    """Whether it limits or changes traffic more than its link does; `speed`: of the link in Mb/s, None: not known."""
    delays = qdisc.delay or qdisc.jitter or qdisc.loss is None or qdisc.loss
    if delays or qdisc.duplicate or qdisc.reorder or qdisc.corrupt:
        return True
    return qdisc.rate is not None and (not speed or qdisc.rate < speed * 1_000_000)


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.6g}s"
    return f"{seconds * 1e3:.6g}ms" if seconds >= 1e-3 else f"{seconds * 1e6:.6g}us"


def _share(value: float) -> str:
    return f"{value * 100:.4g}%"


def _rate(bits: int) -> str:
    return next((f"{bits / size:.6g}{name}" for size, name in RATE_UNITS if bits >= size), f"{bits}bit")
