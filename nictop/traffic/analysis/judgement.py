"""The judgement of one possible bottleneck: cause, excluded, or possible.

Reads nothing. Figures of a `Result` that several judgements need are computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nictop.model.text import units
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.traffic.results.host_load import BusyCpu, HostLoad, ThreadLoad
from nictop.traffic.results.measures import machine_name
from nictop.traffic.results.result import (
    NOT_DETERMINED,
    ExaminedLimit,
    Flow,
    LimitVerdict,
    Result,
    SocketFigures,
    datagram_bytes,
)

ABOVE_CEILING_SHARE = 1.02
"""With a larger share of the ceiling, the wire was not the limit."""
LATE_READ_SECONDS = 0.2
"""A busy receiver may read that late: payload that arrived before counts in a run or interval that
is shorter."""
EXPLAINED_FACTOR = 2.0
"""A computed rate explains the measured one if they differ by less than this factor."""
SMALL_PAYLOAD_BYTES = 512
"""In a packet: with less, the number of packets is the cost."""


@dataclass(frozen=True)
class Phrase:
    """A limit with its figures, without control characters: a part of a sentence, and a row of a
    table."""

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

    @classmethod
    def of_cause(cls, limit: str, rest: str = "") -> Judgement:
        """Of one limit, which is the cause."""
        return cls(Phrase(limit, rest))

    @classmethod
    def of_excluded(cls, limit: str, rest: str = "") -> Judgement:
        """Of one limit, which is not the cause."""
        return cls(excluded=(Phrase(limit, rest),))

    @classmethod
    def of_possible(cls, limit: str, rest: str = "") -> Judgement:
        """Of one limit, which may be the cause."""
        return cls(possible=(Phrase(limit, rest),))


def combined(judgements: Iterable[Judgement]) -> Judgement:
    """The first cause, and all excluded and possible phrases. A later cause explains the rate too,
    but the first one hides it: it is possible."""
    causes: list[Phrase] = []
    excluded: list[Phrase] = []
    possible: list[Phrase] = []
    for judgement in judgements:
        if judgement.cause is not None:
            causes.append(judgement.cause)
        excluded += judgement.excluded
        possible += judgement.possible
    cause = causes[0] if causes else None
    return Judgement(cause, tuple(excluded), (*causes[1:], *possible))


def undetermined_text(found: Judgement, rate: str = "") -> str:
    """The sentence of a bottleneck without a cause: what remains possible, and what was
    excluded."""
    text = f"{NOT_DETERMINED} ({rate})" if rate else NOT_DETERMINED
    text += f"; possible: {', '.join(map(str, found.possible))}"
    if found.excluded:
        text += f"; excluded: {', '.join(map(str, found.excluded))}"
    return text


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
    shares = [result.share_of_ceiling(flow) or 0.0 for flow in result.flows]
    received = [flow.received for flow in result.flows if flow.received is not None]
    seconds = [total.seconds for total in received if total.seconds]
    read_late = LATE_READ_SECONDS / min(seconds) if seconds else 0.0
    return max(shares, default=0.0) > ABOVE_CEILING_SHARE + read_late


def load_of(result: Result, host: str) -> HostLoad | None:
    """The load of a host; None: not known."""
    for load in result.hosts:
        if load.host == host:
            return load
    return None


def ends_of(result: Result, flow: Flow) -> list[HostLoad]:
    """Loads of receiver and sender as far as they are known; one if both are on one machine."""
    ends = [load for load in loads_of_machines(result) if load.role != "observer"]
    return sorted(ends, key=lambda load: load.host != flow.receiver)


def loads_of_machines(result: Result) -> list[HostLoad]:
    """The loads of the hosts of a run, each machine once: the CPUs of two network namespaces are
    those of their machine, and what both ends of the run use of them is used by the run."""
    groups: dict[str, list[HostLoad]] = {}
    for load in result.hosts:
        groups.setdefault(machine_name(result, load), []).append(load)
    found = []
    for loads in groups.values():
        ends = [load for load in loads if load.role != "observer"]
        found.append(_load_of_both(ends) if len(ends) > 1 else (ends or loads)[0])
    return found


def _load_of_both(ends: Sequence[HostLoad]) -> HostLoad:
    """``a and b``. The larger reading of each CPU: in a container, /proc/stat may have only its own
    part (lxcfs)."""
    busiest = max(ends, key=lambda load: load.busy.total if load.busy is not None else -1.0)
    full: dict[int, BusyCpu] = {}
    for load in ends:
        for cpu in load.busy_cpus:
            full[cpu.cpu] = max(cpu, full.get(cpu.cpu, cpu), key=lambda one: one.busy)
    return replace(
        busiest,
        host=" and ".join(load.host for load in ends),
        full=tuple(sorted(full.values(), key=lambda cpu: (-cpu.busy, cpu.cpu))),
        threads=_threads_of_both(ends),
        steal_unseen=all(load.steal_unseen for load in ends),
        machine_of="",
    )


def _threads_of_both(ends: Sequence[HostLoad]) -> tuple[ThreadLoad, ...] | None:
    """Those of both generators are of the run. Both readings have the same threads, unless the
    hosts have PID namespaces of their own: a generator of both readings is two processes. None: not
    all could be read."""
    probes = {(one.pid, one.name) for load in ends for one in load.known_threads if one.probe}
    seen: set[tuple[int, str, str]] = set()
    found: list[ThreadLoad] = []
    for load, other in zip(ends, reversed(ends), strict=True):
        if load.threads is None:
            return None
        keys = set()
        for thread in load.threads:
            key = (thread.pid, thread.name, _end_of_thread(thread, load, other))
            keys.add(key)
            if key not in seen:
                of_run = thread.generator or thread.other_end
                probe = (thread.pid, thread.name) in probes
                found.append(replace(thread, generator=of_run, other_end=False, probe=probe))
        seen |= keys
    found.sort(key=lambda thread: (-thread.share, thread.pid))
    return tuple(found)


def _end_of_thread(thread: ThreadLoad, load: HostLoad, other: HostLoad) -> str:
    """The host whose generator it belongs to; "": none."""
    if thread.generator:
        return load.host
    return other.host if thread.other_end else ""


def figures_of(result: Result, flow: Flow) -> SocketFigures | None:
    """Figures of the sender's connections."""
    for figures in result.sockets:
        if figures.host == flow.sender:
            return figures
    return None


def on_one_machine(result: Result) -> bool:
    """Both ends are on one machine."""
    return result.proof is not None and result.proof.one_machine


def payload_of(result: Result, flow: Flow) -> int | None:
    """Bytes of payload in a packet; None: not known."""
    if result.plan.protocol == "udp":
        return datagram_bytes(result.plan)
    figures = figures_of(result, flow)
    if figures is not None and figures.snd_mss:
        return figures.snd_mss
    return result.plan.mss


def packets_text(result: Result, flow: Flow) -> str:
    """Packets per second of that goodput, as on a wire: segments that a NIC or the kernel cuts
    count one by one. "" for full-sized TCP segments."""
    payload = payload_of(result, flow)
    if payload is None:
        return ""
    is_small = payload <= SMALL_PAYLOAD_BYTES
    if result.plan.protocol == "tcp" and not is_small:
        return ""
    rate = units.packets_per_second(flow.goodput_or_zero / 8 / payload)
    text = f", at {rate} of {payload} B each"
    if is_small:
        text += ", limited by packet rate"
    return text


def small_share(share: float) -> str:
    """A share of 1 with two digits, however small: ``0.015 %``; losses far below a tenth of a
    percent matter."""
    value = share * 100
    if value >= 9.95 or value == 0:
        return f"{value:.0f} %"
    if value < 0.0001:
        return "<0.0001 %"
    return f"{value:.2g} %"
