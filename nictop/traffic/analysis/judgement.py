"""What is said of one thing that may have held a run back: the cause, excluded, or neither.

Reads nothing. The figures of a `Result` that all judgements start from are found here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nictop.model.text import units
from nictop.traffic.analysis.cpu_load import HostLoad
from nictop.traffic.results.result import Flow, Result, SocketFigures

ABOVE_CEILING = 1.02
"""More is no answer: the wire did not limit it, and something else did."""
LATE_READING = 0.2
"""Seconds by which a busy receiver may read late: what had arrived before counts in a run, or interval, that is shorter
than it should be."""
FACTOR = 2.0
"""An arithmetic that gives the measured rate times or divided by less than this explains it."""
SMALL_PAYLOAD = 512
"""Bytes in a packet: with less it is their number that costs."""
DATAGRAM = 1448
"""Bytes that the generators put into one when nothing else is asked for."""


@dataclass(frozen=True)
class Judgement:
    """Phrases; clean."""

    cause: str = ""
    """It explains the measured rate, in words with its figures; "": it does not, or that is not known."""
    excluded: tuple[str, ...] = ()
    """What was looked at and did not hold the run back, with its figures."""
    possible: tuple[str, ...] = ()
    """What is not excluded: it could not be read, or its figures leave it open; with its reason."""


def together(judgements: Iterable[Judgement]) -> Judgement:
    """The first cause, and everything else that was said."""
    found = list(judgements)
    return Judgement(
        next((one.cause for one in found if one.cause), ""),
        tuple(phrase for one in found for phrase in one.excluded),
        tuple(phrase for one in found for phrase in one.possible),
    )


def is_above_ceiling(result: Result) -> bool:
    """More arrived than the wire can carry, also when the receiver read some of it late."""
    share = result.of_ceiling
    seconds = [flow.received.seconds for flow in result.flows if flow.received is not None and flow.received.seconds]
    return share is not None and share > ABOVE_CEILING + (LATE_READING / min(seconds) if seconds else 0.0)


def load_of(result: Result, host: str) -> HostLoad | None:
    """What the run cost a host; None: not known."""
    return next((load for load in result.hosts if load.host == host), None)


def ends_of(result: Result, flow: Flow) -> list[HostLoad]:
    """Receiver and sender, as far as they are known; once, when one host is both."""
    hosts = dict.fromkeys((flow.receiver, flow.sender))
    return [load for host in hosts if (load := load_of(result, host)) is not None]


def figures_of(result: Result, flow: Flow) -> SocketFigures | None:
    """The sender's connections."""
    return next((one for one in result.sockets if one.host == flow.sender), None)


def on_one_machine(result: Result) -> bool:
    """Both ends share it."""
    return result.proof is not None and result.proof.one_machine


def payload_of(result: Result, flow: Flow) -> int | None:
    """Bytes of payload in a packet."""
    if result.plan.protocol == "udp":
        return result.plan.length or DATAGRAM
    figures = figures_of(result, flow)
    return (figures.snd_mss if figures is not None else None) or result.plan.mss


def packets(result: Result, flow: Flow) -> str:
    """How many packets a second it takes to carry that goodput, as they are on a wire: segments that a NIC or the
    kernel cuts count each. "" for a run of full-sized TCP segments."""
    payload = payload_of(result, flow)
    if payload is None or (result.plan.protocol == "tcp" and payload > SMALL_PAYLOAD):
        return ""
    rate = units.packets_per_second((flow.goodput or 0.0) / 8 / payload)
    more = ": their number costs, not their bytes" if payload <= SMALL_PAYLOAD else ""
    return f", at {rate} of {payload} B each{more}"


def small_share(share: float) -> str:
    """A share of 1 with two digits, however small: ``0.015 %``; losses matter far below a tenth of a percent."""
    value = share * 100
    if value >= 9.95 or value == 0:
        return f"{value:.0f} %"
    return f"{value:.2g} %" if value >= 0.0001 else "<0.0001 %"
