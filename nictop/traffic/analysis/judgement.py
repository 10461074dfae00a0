"""The judgement of one possible bottleneck: cause, excluded, or possible.

Reads nothing. Figures of a `Result` that several judgements need are computed here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nictop.model.text import units
from nictop.traffic.analysis.cpu_load import HostLoad
from nictop.traffic.results.result import (
    DEFAULT_DATAGRAM_BYTES,
    NOT_DETERMINED,
    ExaminedLimit,
    Flow,
    LimitVerdict,
    Result,
    SocketFigures,
)

ABOVE_CEILING_SHARE = 1.02
"""With a larger share of the ceiling, the wire was not the limit."""
LATE_READ_SECONDS = 0.2
"""A busy receiver may read that late: payload that arrived before counts in a run or interval that is shorter."""
EXPLAINED_FACTOR = 2.0
"""A computed rate explains the measured one if they differ by less than this factor."""
SMALL_PAYLOAD_BYTES = 512
"""In a packet: with less, the number of packets is the cost."""


@dataclass(frozen=True)
class Phrase:
    """A limit with its figures, without control characters: a part of a sentence, and a row of a table."""

    limit: str
    """``receive window``"""
    rest: str = ""
    """The rest of the sentence, with its punctuation: `` (full 3 % of the time)``."""

    def __str__(self) -> str:
        return self.limit + self.rest

    @property
    def value(self) -> str:
        """The rest without the punctuation that joins it to the limit: ``full 3 % of the time``."""
        text = self.rest.lstrip(" ,:;")
        end = _closing_bracket(text)
        return text[1:end] + text[end + 1 :] if end else text


def _closing_bracket(text: str) -> int:
    """Index of the bracket that closes the one at the start; 0: there is none."""
    depth = 0
    for index, character in enumerate(text if text.startswith("(") else ""):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if not depth:
            return index
    return 0


@dataclass(frozen=True)
class Judgement:
    """Of one limit, or of several."""

    cause: Phrase | None = None
    """The cause of the measured rate; None: it is not, or that is not known."""
    excluded: tuple[Phrase, ...] = ()
    """Examined and not the cause."""
    possible: tuple[Phrase, ...] = ()
    """Not excluded: it could not be read, or its figures allow it; with the reason."""


def combined(judgements: Iterable[Judgement]) -> Judgement:
    """The first cause, and all excluded and possible phrases. A later cause explains the rate too, but the first one
    hides it: it is possible."""
    found = list(judgements)
    causes = [one.cause for one in found if one.cause is not None]
    possible = [phrase for one in found for phrase in one.possible]
    return Judgement(
        causes[0] if causes else None,
        tuple(phrase for one in found for phrase in one.excluded),
        (*causes[1:], *possible),
    )


def undetermined_text(found: Judgement, rate: str = "") -> str:
    """The sentence of a bottleneck without a cause: what remains possible, and what was excluded."""
    text = f"{NOT_DETERMINED} ({rate})" if rate else NOT_DETERMINED
    text += f"; possible: {', '.join(map(str, found.possible))}"
    return f"{text}; excluded: {', '.join(map(str, found.excluded))}" if found.excluded else text


def limit_rows(found: Judgement) -> tuple[ExaminedLimit, ...]:
    """The table of a bottleneck: its cause, what is possible, what was excluded."""
    causes = () if found.cause is None else (found.cause,)
    parts: tuple[tuple[LimitVerdict, tuple[Phrase, ...]], ...] = (
        ("cause", causes),
        ("possible", found.possible),
        ("excluded", found.excluded),
    )
    rows: list[ExaminedLimit] = []
    for verdict, phrases in parts:
        rows += (ExaminedLimit(phrase.limit, phrase.value, verdict) for phrase in phrases)
    return tuple(rows)


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
