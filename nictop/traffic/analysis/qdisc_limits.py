"""Whether a queueing discipline or a limit of the instance was the bottleneck.

Reads nothing; takes a result and the set-ups of its NICs.
"""

from __future__ import annotations

from collections.abc import Mapping

from nictop.model.devices.traffic_control import effect_text, qdisc_text
from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Qdisc
from nictop.rules.fixes.commands import shell_quote
from nictop.traffic.analysis.judgement import (
    EXPLAINED_FACTOR,
    Judgement,
    Phrase,
    combined,
    payload_of,
)
from nictop.traffic.analysis.setup_facts import NicSetup, SendQueueing
from nictop.traffic.results.result import DEFAULT_DATAGRAM_BYTES, Flow, Result

MANY_LIMITED_SHARE = 1e-4
"""Of the packets of a run: an instance limit that queued or dropped fewer does not explain its
rate."""
AT_RATE_SHARE = 0.9
"""Of the rate of a qdisc, which counts headers: 0.95 of it is payload in segments of 1448 bytes."""
MIN_ACK_RATE_SHARE = 0.1
"""Of the goodput: acknowledgements take a fiftieth of what they acknowledge."""
QDISC_LIMIT = "qdisc "
"""Begin of the name of a limit that is a queueing discipline with a known limit."""
HOLDING_QDISCS = ("tbf", "htb", "hfsc", "cbq", "cake", "netem", "etf", "taprio", "mqprio")
"""Queueing disciplines that delay, drop or limit packets, according to their parameters."""
UNREAD_QDISCS = ("fq", "prio", "multiq", "ets", "drr", "qfq")
"""Queueing disciplines that may have a maxrate, or children that limit."""


def instance_limits(result: Result, flow: Flow, setups: Mapping[str, NicSetup]) -> Judgement:
    """Packets that a cloud queued or dropped because a limit of the instance was used up (ena:
    allowance_exceeded)."""
    causes: list[Phrase] = []
    possible: list[Phrase] = []
    many = _many_packets(result, flow)
    for host in dict.fromkeys((flow.sender, flow.receiver)):
        if host not in setups:
            continue
        other_direction = "bw_in" if host == flow.sender else "bw_out"
        for name, packets in setups[host].instance_limits.items():
            rest = f": {clean(name)} {count_noun(packets, 'packet')}"
            phrase = Phrase(f"instance limit of {clean(host)}", rest)
            if packets >= many and not name.startswith(other_direction):
                causes.append(phrase)
            else:
                possible.append(phrase)
    if not causes:
        return Judgement(possible=tuple(possible))
    first, *others = causes
    cause = Phrase(first.limit, "; ".join((first.rest, *map(str, others))))
    return Judgement(cause, (), tuple(possible))


def _many_packets(result: Result, flow: Flow) -> float:
    """So many packets that fewer cannot have limited the flow."""
    if flow.received is None:
        return 1.0
    payload = payload_of(result, flow) or DEFAULT_DATAGRAM_BYTES
    packets = flow.goodput_or_zero * flow.received.seconds / 8 / payload
    return max(1.0, MANY_LIMITED_SHARE * packets)


def qdiscs(result: Result, flow: Flow, setups: Mapping[str, NicSetup]) -> Judgement:
    """Queueing disciplines of both ends: that of the receiver limits its acknowledgements. One that
    limits everything a link sends is also part of the ceiling (`nictop.model.devices.ceiling`)."""
    found: list[Judgement] = []
    for host in dict.fromkeys((flow.sender, flow.receiver)):
        setup = setups.get(host)
        if setup is None or not setup.qdiscs:
            unread = Phrase(f"root qdisc of {clean(host)}", " (not read)")
            found.append(Judgement(possible=(unread,)))
        else:
            found += (_sending(result, flow, host, sending) for sending in setup.qdiscs)
    return combined(found)


def _sending(result: Result, flow: Flow, host: str, sending: SendQueueing) -> Judgement:
    if sending.acting:
        return combined(
            _acting(result, flow, host, sending.link, qdisc) for qdisc in sending.acting
        )
    where, command = _location(host, sending.link)
    root = f"root qdisc {clean(sending.kind)} of {where}"
    if sending.kind in HOLDING_QDISCS:
        return Judgement.of_possible(root, f", which may limit{command}")
    if sending.kind in UNREAD_QDISCS and not sending.read:
        return Judgement.of_possible(root, f" (limits not read){command}")
    return Judgement.of_excluded(root, " (no rate limit)")


def _location(host: str, link: str) -> tuple[str, str]:
    """A link for a message, and the command that shows its queued and dropped packets."""
    return f"{clean(link)} on {clean(host)}", f": tc -s qdisc show dev {shell_quote(link)}"


def limit_name(host: str, link: str, qdisc: Qdisc) -> str:
    """``qdisc tbf rate 500Mbit of ens4 on vm1``"""
    return f"{QDISC_LIMIT}{clean(qdisc_text(qdisc))} of {clean(link)} on {clean(host)}"


def _of_receiver(
    result: Result, flow: Flow, host: str, qdisc: Qdisc, texts: tuple[str, str]
) -> Judgement:
    """What a limit of the receiver's packets means for the flow. `texts`: the limit, and the
    command that shows it."""
    (limit, command), measured = texts, flow.goodput_or_zero
    assert qdisc.rate is not None
    back = [one for one in result.flows if one.sender == host and one is not flow]
    if back:
        data = units.bits_per_second(sum(one.goodput_or_zero for one in back))
        return Judgement.of_possible(limit, f" (carries {data} the other way, too){command}")
    if result.plan.protocol == "udp":
        return Judgement.of_excluded(limit, " (UDP has no acknowledgements)")
    acks = f" (carries acknowledgements of {units.bits_per_second(measured)}"
    if qdisc.rate >= MIN_ACK_RATE_SHARE * measured:
        return Judgement.of_excluded(limit, f"{acks})")
    return Judgement.of_possible(limit, f"{acks}){command}")


def _acting(result: Result, flow: Flow, host: str, link: str, qdisc: Qdisc) -> Judgement:
    _, command = _location(host, link)
    limit = limit_name(host, link, qdisc)
    if _changes_packets(qdisc) or qdisc.rate is None:
        rest = f", which {effect_text(replace(qdisc, rate=None))}{command}"
        return Judgement.of_possible(limit, rest)
    measured = flow.goodput_or_zero
    if host != flow.sender:
        return _of_receiver(result, flow, host, qdisc, (limit, command))
    qdisc_rate = qdisc.rate * (result.plan.streams if qdisc.per_flow else 1)
    share = f"{units.bits_per_second(measured)} received"
    if qdisc.limits_all and AT_RATE_SHARE * qdisc_rate <= measured <= qdisc_rate:
        rest = f": {effect_text(qdisc)}, headers included; {share}{command}"
        return Judgement.of_cause(limit, rest)
    if qdisc_rate > EXPLAINED_FACTOR * measured:
        return Judgement.of_excluded(limit, f" ({share})")
    return Judgement.of_possible(limit, f" ({share}){command}")


def _changes_packets(qdisc: Qdisc) -> bool:
    """It changes packets in other ways than limiting their rate."""
    changes = (qdisc.delay, qdisc.jitter, qdisc.duplicate, qdisc.reorder, qdisc.corrupt)
    return qdisc.loss is None or qdisc.loss > 0 or any(changes)


def may_lose(setups: Mapping[str, NicSetup]) -> bool:
    """A qdisc of either end may have lost packets: its parameters say so, or it limits more than it
    can queue."""
    for setup in setups.values():
        for sending in setup.qdiscs:
            if sending.acting or sending.kind in HOLDING_QDISCS:
                return True
    return False
