"""Whether windows, losses, drops or a qdisc held a run back, by arithmetic.

Reads nothing. A window W lets one W through per round trip: rate = W / RTT. A share p of segments that are lost, each
on its own, lets a connection reach MSS / RTT × 1.22 / √p with the standard congestion control (Mathis, Semke, Mahdavi,
Ott: The macroscopic behavior of the TCP congestion avoidance algorithm, ACM CCR 27.3, 1997; RFC 3649, section 5). CUBIC
has a mean window of 1.054 × (RTT / p)^0.75 segments (RTT in seconds; RFC 8312, section 5.1; RFC 9438, section 5.1), and
the standard one where that is larger (its TCP-friendly region). The share of segments that were sent again stands for
p: where several are lost at once it is an overestimate, and the reachable rate is higher than what is computed. So a
computed rate far above the measured one excludes losses; one near it explains it, when the congestion window was full
too; one far below it leaves it open. BBR does not slow down for losses below 2 % (draft-ietf-ccwg-bbr, BBR.LossThresh).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from nictop.model.devices.traffic_control import effect_words, qdisc_words
from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.text.words import counted
from nictop.probe.records import Qdisc
from nictop.rules.fixes.commands import shell_quote
from nictop.traffic.analysis.judgement import (
    FACTOR,
    Judgement,
    figures_of,
    load_of,
    on_one_machine,
    payload_of,
    small_share,
    together,
)
from nictop.traffic.analysis.path_proof import Carried
from nictop.traffic.analysis.setup_facts import NicSetup, SendQueueing
from nictop.traffic.results.result import Flow, Result, SocketFigures

LIMITED = 0.3
"""Share of the time with data to send."""
FILLED = 2.0
"""Congestion window through what was under way: medians of both swing by so much."""
MANY_RETRANSMITS = 1.4e-4
"""Share of segments: one in seven thousand is worth a word beside another cause."""
MANY_LOST = 0.01
AT_RATE = 0.9
"""Share of the rate of a qdisc, which counts headers: 0.95 of it is payload in segments of 1448 bytes."""
BBR_LOSS = 0.02
"""Share of segments sent again below which BBR goes on as fast."""
MATHIS = math.sqrt(3 / 2)
"""1.22: every loss halves the window, every segment is acknowledged."""
CUBIC, CUBIC_POWER = 1.054, 0.75
"""(C (3 + β) / (4 (1 - β)))^¼ with C = 0.4 and β = 0.7, as in Linux (net/ipv4/tcp_cubic.c)."""

HOLDING_QDISCS = ("tbf", "htb", "hfsc", "cbq", "cake", "netem", "etf", "taprio", "mqprio")
"""They delay, lose or hold back what is sent, as their parameters say."""
UNREAD_QDISCS = ("fq", "prio", "multiq", "ets", "drr", "qfq")
"""They may have a maxrate, or children that hold back."""


# ------------------------------------------------------------------------------------------------------------ windows


def windows(result: Result, flow: Flow) -> Judgement:
    """The receiver's window and the sender's buffer. How long each was waited for the kernel counts (rwnd_limited and
    sndbuf_limited of tcp_info, net/ipv4/tcp.c, tcp_get_info_chrono_stats)."""
    if result.plan.protocol == "udp":
        return Judgement()
    figures = figures_of(result, flow)
    if figures is None:
        return Judgement("", (), (f"windows and buffers of TCP (the sockets of {clean(flow.sender)} were not read)",))
    found = (_window(flow, figures), _buffer(flow, figures))
    cause = next((one.cause for one in found if one.cause), "")
    return Judgement(cause, found[0].excluded + found[1].excluded, found[0].possible + found[1].possible)


def _window(flow: Flow, figures: SocketFigures) -> Judgement:
    reach, words = None, ""
    if figures.send_window and figures.rtt:
        reach = 8e6 * figures.send_window / figures.rtt
        words = f"{_size(figures.send_window)} / {_rtt(figures)} = {units.bits_per_second(reach)}"
    measured = flow.goodput or 0.0
    held = figures.window_limited
    if held is None:
        if reach is not None and reach > FACTOR * measured:
            return Judgement("", (f"receive window ({words})",))
        return Judgement("", (), (f"receive window ({words or 'not counted by this kernel'})",))
    share = units.percentage(held)
    if held < LIMITED:
        more = words or f"it held the sender back for {share} of the time"
        return Judgement("", (f"receive window ({more})",))
    if reach is not None and not measured / FACTOR <= reach <= FACTOR * measured:
        return Judgement("", (), (f"receive window (full {share} of the time, but {words})",))
    by = f": {words}" if words else f", rtt {_rtt(figures)}" if figures.rtt else ""
    return Judgement(f"the receiver's window: it held the sender back for {share} of the time{by}")


def _buffer(flow: Flow, figures: SocketFigures) -> Judgement:
    held = figures.buffer_limited
    if held is None:
        return Judgement("", (), ("send buffer (not counted by this kernel)",))
    share = units.percentage(held)
    if held < LIMITED:
        return Judgement("", (f"send buffer (full {share} of the time)",))
    way = ""
    if figures.rtt:
        way = f": {_size((flow.goodput or 0.0) / 8e6 * figures.rtt)} under way per rtt of {_rtt(figures)}"
    return Judgement(f"the sender's socket buffer: too small for {share} of the time{way}")


def _size(value: float) -> str:
    return units.bytes_(value)


def _rtt(figures: SocketFigures) -> str:
    return units.duration((figures.rtt or 0) / 1e6)


# ------------------------------------------------------------------------------------------------------------- losses


def reachable(control: str, mss: int, rtt: float, lost: float, streams: int = 1) -> tuple[float, str] | None:
    """Bits per second that a congestion control reaches with a share `lost` of its segments, each on its own, and
    whose response that is; `rtt` in seconds. None: it is not known of this one."""
    standard = MATHIS / math.sqrt(lost)
    if control == "cubic":
        window, whose = max(standard, CUBIC * (rtt / lost) ** CUBIC_POWER), "CUBIC, RFC 9438"
    elif control == "reno":
        window, whose = standard, "Mathis: MSS / rtt × 1.22 / √p"
    else:
        return None
    return streams * window * 8 * mss / rtt, whose


def lost_share(result: Result, flow: Flow) -> float | None:
    """Share of the segments that were sent again; None: not known."""
    payload = payload_of(result, flow)
    size = flow.received.bytes or (flow.received.bits_per_second * flow.received.seconds / 8) if flow.received else 0
    if flow.retransmits is None or not payload or not size:
        return None
    return flow.retransmits / (size / payload + flow.retransmits)


def retransmitted(result: Result, flow: Flow) -> str:
    """``0.15 % of segments were retransmitted``; "" for a few."""
    share = lost_share(result, flow) if result.plan.protocol == "tcp" else None
    if share is None or share < MANY_RETRANSMITS:
        return ""
    return f"{small_share(share)} of segments were retransmitted"


def losses(result: Result, flow: Flow, setups: Mapping[str, NicSetup]) -> Judgement:
    """Packets that were lost, wherever that was. A qdisc of an end that may hold back may also have lost them: then
    losses are no cause by themselves."""
    if result.plan.protocol == "udp":
        return _datagrams(result, flow)
    found = _segments(result, flow)
    if found.cause and _may_lose(setups):
        return Judgement("", found.excluded, (found.cause, *found.possible))
    return found


def _segments(result: Result, flow: Flow) -> Judgement:
    drops, dropped = _drops(result, flow)
    if flow.retransmits == 0:
        return Judgement("", ("retransmits 0", *drops))
    share, figures = lost_share(result, flow), figures_of(result, flow)
    if share is None:
        return _open(drops, dropped, "losses (retransmits were not counted)")
    told = f"retransmits {small_share(share)}"
    control = clean(figures.congestion_control or "") if figures is not None else ""
    if control.startswith("bbr"):
        if share < BBR_LOSS:
            return Judgement("", (f"{told} (BBR does not slow down below 2 %)", *drops))
        return _open(drops, dropped, f"{told} (BBR slows down above 2 %)")
    if figures is None or not figures.rtt or not figures.snd_mss or not control:
        return _open(drops, dropped, f"{told} (rtt and congestion control were not read)")
    found = reachable(control, figures.snd_mss, figures.rtt / 1e6, share, result.plan.streams)
    if found is None:
        return _open(drops, dropped, f"{told} (what {control} reaches with them is not known)")
    reach, whose = found
    measured = flow.goodput or 0.0
    where = f"rtt {_rtt(figures)}, MSS {figures.snd_mss}"
    limit = f"with them {units.bits_per_second(reach)} can be reached at {where}: {whose}"
    if reach > FACTOR * measured:
        return Judgement("", (f"{told} ({limit})", *drops))
    if _window_is_free(flow, figures):
        window = f"congestion window of {counted(figures.congestion_window or 0, 'segment')}, not full"
        return Judgement("", (f"{told} ({window})", *drops))
    if reach < measured / FACTOR:
        return _open(drops, dropped, f"{told} (lost together: one by one, {limit})")
    if on_one_machine(result) or figures.congestion_window is None:
        return _open(drops, dropped, f"{told} ({limit})")
    window = f"congestion window {counted(figures.congestion_window, 'segment')}"
    return Judgement(
        f"{_lost_where(result, flow)}: {told}, {limit}; measured {units.bits_per_second(measured)}; {window}"
    )


def _open(drops: tuple[str, ...], dropped: bool, phrase: str) -> Judgement:
    """Losses that are not excluded, and with them what was dropped."""
    return Judgement("", () if dropped else drops, (phrase, *drops) if dropped else (phrase,))


def _window_is_free(flow: Flow, figures: SocketFigures) -> bool:
    """The congestion window bounds what is under way (RFC 5681, section 2): one that is not full held nothing back."""
    if not figures.rtt or not figures.snd_mss or not figures.congestion_window:
        return False
    under_way = (flow.goodput or 0.0) / 8 * figures.rtt / 1e6
    return figures.congestion_window * figures.snd_mss > FILLED * under_way


def _lost_where(result: Result, flow: Flow) -> str:
    """Where packets were lost, as far as the counters of both hosts say; they must have dropped half of them."""
    least = (flow.retransmits or 0) / 2
    receiver, sender = load_of(result, flow.receiver), load_of(result, flow.sender)
    if receiver is not None and least and (receiver.ring_drops or 0) >= least:
        return f"the ring of {clean(flow.receiver)}: its NIC dropped {counted(receiver.ring_drops or 0, 'packet')}"
    if receiver is not None and least and (receiver.backlog_drops or 0) >= least:
        dropped = counted(receiver.backlog_drops or 0, "packet")
        return f"the receive backlog of {clean(flow.receiver)} dropped {dropped} (net.core.netdev_max_backlog)"
    if sender is not None and least and (sender.send_drops or 0) >= least:
        return f"{clean(flow.sender)}: its NIC dropped {counted(sender.send_drops or 0, 'packet')} instead of sending"
    return "packet loss"


def _drops(result: Result, flow: Flow) -> tuple[tuple[str, ...], bool]:
    """What both hosts counted as dropped, in a phrase (() when nothing was counted), and whether that is any packet."""
    receiver, sender = load_of(result, flow.receiver), load_of(result, flow.sender)
    known = {
        f"received by the NIC of {clean(flow.receiver)}": receiver.ring_drops if receiver is not None else None,
        f"in the backlog of {clean(flow.receiver)}": receiver.backlog_drops if receiver is not None else None,
        f"sent by the NIC of {clean(flow.sender)}": sender.send_drops if sender is not None else None,
    }
    told = [f"{units.count(number)} {where}" for where, number in known.items() if number]
    if told:
        return (f"drops: {', '.join(told)}",), True
    unread = [where for where, number in known.items() if number is None]
    if len(unread) == len(known):
        return (), False
    return (f"drops 0{f' (not counted: {unread[0]})' if unread else ''}",), False


def _datagrams(result: Result, flow: Flow) -> Judgement:
    received, sent = flow.received, flow.sent
    if received is None or received.lost is None or not received.packets:
        return Judgement("", (), ("lost datagrams (not counted)",))
    share = received.lost / received.packets
    if share < MANY_LOST:
        return Judgement("", (f"lost datagrams {small_share(share)}", *_drops(result, flow)[0]))
    of = (
        f" of the {units.bits_per_second(sent.bits_per_second)} that {clean(flow.sender)} sent"
        if sent is not None
        else ""
    )
    return Judgement(f"lost datagrams: {units.percentage(share)}{of}{_datagrams_lost_where(result, flow, share)}")


def _datagrams_lost_where(result: Result, flow: Flow, share: float) -> str:
    """By what both NICs counted; they count all packets of the run, also those of the seconds that do not count."""
    receiver, sender = clean(flow.receiver), clean(flow.sender)
    load = load_of(result, flow.receiver)
    if load is not None and flow.received is not None and (load.ring_drops or 0) >= (flow.received.lost or 0) / 2:
        return (
            f", dropped by the NIC of {receiver} ({counted(load.ring_drops or 0, 'packet')} without a free descriptor)"
        )
    out, into = _chosen(result, flow.sender), _chosen(result, flow.receiver)
    if out is None or into is None or not out.sent or into.received is None or on_one_machine(result):
        return ""
    counts = f"{out.name} sent {units.bytes_(out.sent)}, {into.name} received {units.bytes_(into.received)}"
    if 1 - into.received / out.sent >= share / 2:
        return f", lost between the NICs ({counts})"
    if flow.sent is not None and flow.sent.bytes and out.sent < (1 - share / 2) * flow.sent.bytes:
        return f", dropped in {sender} before its NIC sent them ({counts})"
    return f", dropped in {receiver} behind its NIC ({counts}); socket buffer: nstat -az UdpRcvbufErrors"


def _chosen(result: Result, host: str) -> Carried | None:
    ends = result.proof.hosts if result.proof is not None else ()
    carried = next((one.carried for one in ends if one.host == host and one.verdict == "proven"), ())
    return next((one for one in carried if one.role == "chosen"), None)


# ------------------------------------------------------------------------------------------------------------- qdiscs


def qdiscs(result: Result, flow: Flow, setups: Mapping[str, NicSetup]) -> Judgement:
    """Queueing disciplines of both ends: that of the receiver holds its acknowledgements. One that limits all that a
    link sends makes a ceiling too (`model.ceiling`)."""
    found = []
    for host in dict.fromkeys((flow.sender, flow.receiver)):
        setup = setups.get(host)
        if setup is None or not setup.qdiscs:
            found.append(Judgement("", (), (f"the root qdisc of {clean(host)} (not read)",)))
            continue
        found += [_sending(result, flow, host, one) for one in setup.qdiscs]
    return together(found)


def _sending(result: Result, flow: Flow, host: str, one: SendQueueing) -> Judgement:
    if one.acting:
        return together(_acting(result, flow, host, one.link, qdisc) for qdisc in one.acting)
    where, look = _where(host, one.link)
    if one.kind in HOLDING_QDISCS:
        return Judgement("", (), (f"root qdisc {clean(one.kind)} of {where}, which may hold back{look}",))
    if one.kind in UNREAD_QDISCS and not one.read:
        return Judgement("", (), (f"root qdisc {clean(one.kind)} of {where} (its limits were not read){look}",))
    return Judgement("", (f"root qdisc {clean(one.kind)} of {where}",))


def _where(host: str, link: str) -> tuple[str, str]:
    """A link in words, and the command that shows what it has queued and dropped."""
    return f"{clean(link)} on {clean(host)}", f": tc -s qdisc show dev {shell_quote(link)}"


def _acting(result: Result, flow: Flow, host: str, link: str, qdisc: Qdisc) -> Judgement:
    where, look = _where(host, link)
    words = f"qdisc {clean(qdisc_words(qdisc))} of {where}"
    if _alters(qdisc) or qdisc.rate is None:
        return Judgement("", (), (f"{words}, which {effect_words(replace(qdisc, rate=None))}{look}",))
    measured = flow.goodput or 0.0
    if host != flow.sender:  # acknowledgements take a fiftieth of what they acknowledge
        return Judgement("", (words,)) if qdisc.rate >= measured / 10 else Judgement("", (), (f"{words}{look}",))
    most = qdisc.rate * (result.plan.streams if qdisc.per_flow else 1)
    share = f"{units.bits_per_second(measured)} arrived"
    if qdisc.limits_all and AT_RATE * most <= measured <= most:
        return Judgement(f"the {words}: {effect_words(qdisc)}, headers included; {share}{look}")
    if most > FACTOR * measured:
        return Judgement("", (words,))
    return Judgement("", (), (f"{words} ({share}){look}",))


def _alters(qdisc: Qdisc) -> bool:
    """It does something else to packets than to limit their rate."""
    changes = (qdisc.delay, qdisc.jitter, qdisc.duplicate, qdisc.reorder, qdisc.corrupt)
    return qdisc.loss is None or qdisc.loss > 0 or any(changes)


def _may_lose(setups: Mapping[str, NicSetup]) -> bool:
    """Whether a qdisc of either end may have lost packets: it says so, or holds more back than it can queue."""
    sending = [one for setup in setups.values() for one in setup.qdiscs]
    return any(one.acting or one.kind in HOLDING_QDISCS for one in sending)
