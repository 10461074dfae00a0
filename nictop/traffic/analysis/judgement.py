"""The judgement of one possible bottleneck: cause, excluded, or possible.

Reads nothing. Figures of a `Result` that several judgements need are computed here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nictop.model.text import units
from nictop.traffic.analysis.cpu_load import HostLoad
from nictop.traffic.results.result import DEFAULT_DATAGRAM_BYTES, Flow, Result, SocketFigures

ABOVE_CEILING_SHARE = 1.02
"""With a larger share of the ceiling, the wire was not the limit."""
LATE_READ_SECONDS = 0.2
"""A busy receiver may read that late: payload that arrived before counts in a run or interval that is shorter."""
EXPLAINED_FACTOR = 2.0
"""A computed rate explains the measured one if they differ by less than this factor."""
SMALL_PAYLOAD_BYTES = 512
"""In a packet: with less, the number of packets is the cost."""


@dataclass(frozen=True)
class Judgement:
    """Phrases without control characters."""

    cause: str = ""
    """The cause of the measured rate, with its figures; "": it is not, or that is not known."""
    excluded: tuple[str, ...] = ()
    """Examined and not the cause, with figures."""
    possible: tuple[str, ...] = ()
    """Not excluded: it could not be read, or its figures allow it; with the reason."""


def combined(judgements: Iterable[Judgement]) -> Judgement:
    """The first cause, and all excluded and possible phrases."""
    found = list(judgements)
    return Judgement(
        next((one.cause for one in found if one.cause), ""),
        tuple(phrase for one in found for phrase in one.excluded),
        tuple(phrase for one in found for phrase in one.possible),
    )


def is_above_ceiling(result: Result) -> bool:
    """More arrived than the wire can carry, even if the receiver read some of it late."""
    share = result.of_ceiling
    seconds = [flow.received.seconds for flow in result.flows if flow.received is not None and flow.received.seconds]
    return share is not None and share > ABOVE_CEILING_SHARE + (LATE_READ_SECONDS / min(seconds) if seconds else 0.0)


def load_of(result: Result, host: str) -> HostLoad | None:
    """The load of a host; None: not known."""
    return next((load for load in result.hosts if load.host == host), None)


def ends_of(result: Result, flow: Flow) -> list[HostLoad]:
    """Loads of receiver and sender as far as they are known; one if a host is both."""
    hosts = dict.fromkeys((flow.receiver, flow.sender))
    return [load for host in hosts if (load := load_of(result, host)) is not None]


def figures_of(result: Result, flow: Flow) -> SocketFigures | None:
    """Figures of the sender's connections."""
    return next((one for one in result.sockets if one.host == flow.sender), None)


def on_one_machine(result: Result) -> bool:
    """Both ends are on one machine."""
    return result.proof is not None and result.proof.one_machine


def payload_of(result: Result, flow: Flow) -> int | None:
    """Bytes of payload in a packet; None: not known."""
    if result.plan.protocol == "udp":
        return result.plan.length or DEFAULT_DATAGRAM_BYTES
    figures = figures_of(result, flow)
    return (figures.snd_mss if figures is not None else None) or result.plan.mss


def packets_text(result: Result, flow: Flow) -> str:
    """Packets per second of that goodput, as on a wire: segments that a NIC or the kernel cuts count one by one. "" for
    full-sized TCP segments."""
    payload = payload_of(result, flow)
    if payload is None or (result.plan.protocol == "tcp" and payload > SMALL_PAYLOAD_BYTES):
        return ""
    rate = units.packets_per_second((flow.goodput or 0.0) / 8 / payload)
    more = ", limited by packet rate" if payload <= SMALL_PAYLOAD_BYTES else ""
    return f", at {rate} of {payload} B each{more}"


def small_share(share: float) -> str:
    """A share of 1 with two digits, however small: ``0.015 %``; losses far below a tenth of a percent matter."""
    value = share * 100
    if value >= 9.95 or value == 0:
        return f"{value:.0f} %"
    return f"{value:.2g} %" if value >= 0.0001 else "<0.0001 %"
