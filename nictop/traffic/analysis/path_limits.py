"""Whether windows, losses, drops or a qdisc were the bottleneck, by arithmetic.

Reads nothing. A window W allows W bytes per round trip: rate = W / RTT. If a share p of the segments is lost, each
independently, a connection reaches MSS / RTT × 1.22 / √p with the standard congestion control (Mathis, Semke, Mahdavi,
Ott: The macroscopic behavior of the TCP congestion avoidance algorithm, ACM CCR 27.3, 1997; RFC 3649, section 5). CUBIC
has a mean window of 1.054 × (RTT / p)^0.75 segments (RTT in seconds; RFC 8312, section 5.1; RFC 9438, section 5.1), or
the standard one if that is larger (its TCP-friendly region). The share of retransmitted segments is used for p: if
several are lost at once it is an overestimate, and the reachable rate is higher than the computed one. So a computed
rate far above the measured one excludes losses; one near it explains it, if the congestion window was full too; one far
below it says nothing, and only the share is given. All these formulas leave out retransmission timeouts. By the
equation of RFC 5348, section 3.1, which has them, they take 15 % of the time at p = 2 % and a third at 5 %, even if a
timeout is only four round trips: above `MAX_MODEL_LOSS` nothing is excluded by a formula. BBR does not slow down for
losses below 2 % (draft-ietf-ccwg-bbr, BBR.LossThresh).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from nictop.model.devices.traffic_control import effect_text, qdisc_text
from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.probe.records import Qdisc
from nictop.rules.fixes.commands import shell_quote
from nictop.traffic.analysis.judgement import (
    EXPLAINED_FACTOR,
    Judgement,
    Phrase,
    combined,
    figures_of,
    load_of,
    on_one_machine,
    payload_of,
    small_share,
)
from nictop.traffic.analysis.loss_causes import counted_cause
from nictop.traffic.analysis.path_proof import Carried
from nictop.traffic.analysis.setup_facts import TUNNEL_CHECKSUM, NicSetup, SendQueueing
from nictop.traffic.results.result import DEFAULT_DATAGRAM_BYTES, Flow, Result, SocketFigures

LIMITED_SHARE = 0.3
"""Of the time with data to send."""
FULL_BUFFER_SHARE = 0.3
"""Payload in a buffer that has reached its maximum: half of it, or less with small packets."""
BUFFER_PER_PAYLOAD = 2
LARGER_BUFFER_FACTOR = 4
"""If the ceiling is not known."""
BUFFER_STEP = 1 << 20
"""Bytes to which a recommended size is rounded up."""
FULL_WINDOW_FACTOR = 2.0
"""Congestion window divided by bytes in flight: medians of both vary that much."""
MANY_RETRANSMITS_SHARE = 1.4e-4
"""Of the segments: one in seven thousand is mentioned beside another cause."""
MANY_LIMITED_SHARE = 1e-4
"""Of the packets of a run: an instance limit that queued or dropped fewer does not explain its rate."""
MANY_LOST_SHARE = 0.01
AT_RATE_SHARE = 0.9
"""Of the rate of a qdisc, which counts headers: 0.95 of it is payload in segments of 1448 bytes."""
BBR_LOSS_SHARE = 0.02
"""Of the segments: BBR does not slow down if fewer are retransmitted."""
MATHIS_CONSTANT = math.sqrt(3 / 2)
"""1.22: every loss halves the window, every segment is acknowledged."""
CUBIC_CONSTANT, CUBIC_EXPONENT = 1.054, 0.75
"""(C (3 + β) / (4 (1 - β)))^¼ with C = 0.4 and β = 0.7, as in Linux (net/ipv4/tcp_cubic.c)."""
UNKNOWN_LOCATION = "packet loss"
MAX_MODEL_LOSS = 0.02
"""Share of the segments: with more, timeouts count, which the formulas leave out."""
MIN_ACK_RATE_SHARE = 0.1
"""Of the goodput: acknowledgements take a fiftieth of what they acknowledge."""

HOLDING_QDISCS = ("tbf", "htb", "hfsc", "cbq", "cake", "netem", "etf", "taprio", "mqprio")
"""Queueing disciplines that delay, drop or limit packets, according to their parameters."""
UNREAD_QDISCS = ("fq", "prio", "multiq", "ets", "drr", "qfq")
"""Queueing disciplines that may have a maxrate, or children that limit."""


# ------------------------------------------------------------------------------------------------------------ windows


def windows(result: Result, flow: Flow, setups: Mapping[str, NicSetup]) -> Judgement:
    """The receiver's window and the sender's buffer, and the kernel setting that limits the one that was full. The
    kernel counts the time that each limited the sender (rwnd_limited and sndbuf_limited of tcp_info, net/ipv4/tcp.c,
    tcp_get_info_chrono_stats)."""
    if result.plan.protocol == "udp":
        return Judgement()
    figures = figures_of(result, flow)
    if figures is None:
        unread = Phrase("TCP windows and buffers", f" (sockets of {clean(flow.sender)} not read)")
        return Judgement(None, (), (unread,))
    found = (_window(flow, figures), _buffer(flow, figures))
    limits = (_window_limit(result, flow, figures, setups), _buffer_limit(result, flow, figures, setups))
    return combined(_with_setting(one, limit) for one, limit in zip(found, limits, strict=True))


def _with_setting(found: Judgement, setting: str) -> Judgement:
    """The setting that limits a window or a buffer is named only if that is the cause."""
    if found.cause is None:
        return found
    return replace(found, cause=Phrase(found.cause.limit, f"{found.cause.rest}{setting}"))


def _window(flow: Flow, figures: SocketFigures) -> Judgement:
    computed, phrase = None, ""
    if figures.send_window and figures.rtt:
        computed = 8e6 * figures.send_window / figures.rtt
        phrase = f"{_bytes_text(figures.send_window)} / {_rtt(figures)} = {units.bits_per_second(computed)}"
    measured = flow.goodput or 0.0
    limited = figures.window_limited
    if limited is None:
        if computed is not None and computed > EXPLAINED_FACTOR * measured:
            return Judgement(None, (Phrase("receive window", f" ({phrase})"),))
        if computed is not None and computed < measured:
            phrase = ""
        return Judgement(None, (), (Phrase("receive window", f" ({phrase or 'not counted by this kernel'})"),))
    share = units.percentage(limited)
    if limited < LIMITED_SHARE:
        more = phrase or f"full {share} of the time"
        return Judgement(None, (Phrase("receive window", f" ({more})"),))
    if computed is not None and not measured / EXPLAINED_FACTOR <= computed <= EXPLAINED_FACTOR * measured:
        but = f", but {phrase}" if computed > measured else ""
        return Judgement(None, (), (Phrase("receive window", f" (full {share} of the time{but})"),))
    by = f": {phrase}" if phrase else f", rtt {_rtt(figures)}" if figures.rtt else ""
    return Judgement(Phrase("receive window", f": full {share} of the time{by}"))


def _buffer(flow: Flow, figures: SocketFigures) -> Judgement:
    limited = figures.buffer_limited
    if limited is None:
        return Judgement(None, (), (Phrase("send buffer", " (not counted by this kernel)"),))
    share = units.percentage(limited)
    if limited < LIMITED_SHARE:
        return Judgement(None, (Phrase("send buffer", f" (full {share} of the time)"),))
    in_flight = ""
    if figures.rtt:
        in_flight = f": {_bytes_text((flow.goodput or 0.0) / 8e6 * figures.rtt)} in flight per rtt of {_rtt(figures)}"
    return Judgement(Phrase("send buffer", f": full {share} of the time{in_flight}"))


def _window_limit(result: Result, flow: Flow, figures: SocketFigures, setups: Mapping[str, NicSetup]) -> str:
    """Why the receiver offers no larger window; "" if its settings allow one."""
    setup = setups.get(flow.receiver)
    return _buffer_setting(result, figures, setup, "rmem", figures.send_window) if setup is not None else ""


def _buffer_limit(result: Result, flow: Flow, figures: SocketFigures, setups: Mapping[str, NicSetup]) -> str:
    """Why the sender has no larger send buffer; "" if its settings allow one."""
    in_flight = (flow.goodput or 0.0) / 8e6 * figures.rtt if figures.rtt else None
    setup = setups.get(flow.sender)
    return _buffer_setting(result, figures, setup, "wmem", in_flight) if setup is not None else ""


def _buffer_setting(result: Result, figures: SocketFigures, setup: NicSetup, name: str, used: float | None) -> str:
    """The setting of a host that limits the socket buffers of the run (`name`: rmem, wmem), with the size that the
    ceiling needs at this rtt (the bandwidth-delay product), and the command. `used`: bytes in the buffers of all
    streams. A buffer that the program sets is limited by net.core.rmem_max and wmem_max (socket(7)), one that the
    kernel grows by the maximum of net.ipv4.tcp_rmem and tcp_wmem (tcp(7)). The kernel counts its own overhead, so that
    about half of a buffer is payload (tcp_adv_win_scale)."""
    if not used or not figures.rtt:
        return ""
    buffers, largest = setup.tcp_buffers.get(f"net.ipv4.tcp_{name}"), setup.socket_buffers.get(f"net.core.{name}_max")
    wanted = result.plan.window
    if wanted is not None:
        if largest is None or wanted <= largest:
            return ""
        return (
            f"; -w {_bytes_text(wanted)} exceeds net.core.{name}_max {_bytes_text(largest)} of {clean(setup.host)}: "
            f"sysctl -w net.core.{name}_max={wanted}"
        )
    streams = max(1, result.plan.streams)
    if buffers is None or used / streams < FULL_BUFFER_SHARE * buffers[2]:
        return ""
    reached = f"; net.ipv4.tcp_{name} of {clean(setup.host)} allows {_bytes_text(buffers[2])}"
    ceiling = result.ceiling.goodput if result.ceiling is not None else None
    command = f"sysctl -w net.ipv4.tcp_{name}="
    if not ceiling:
        return f'{reached}; larger: {command}"{buffers[0]} {buffers[1]} {LARGER_BUFFER_FACTOR * buffers[2]}"'
    needed = math.ceil(BUFFER_PER_PAYLOAD * ceiling / 8e6 * figures.rtt / streams / BUFFER_STEP) * BUFFER_STEP
    if needed <= buffers[2]:
        return ""
    return (
        f"{reached}, {units.bits_per_second(ceiling)} at this rtt needs {_bytes_text(needed)}: "
        f'{command}"{buffers[0]} {buffers[1]} {needed}"'
    )


def _bytes_text(value: float) -> str:
    return units.bytes_(value)


def _rtt(figures: SocketFigures) -> str:
    return units.duration((figures.rtt or 0) / 1e6)


# ------------------------------------------------------------------------------------------------------------- losses


def reachable_rate(control: str, mss: int, rtt: float, lost: float, streams: int = 1) -> tuple[float, str] | None:
    """Bits per second that a congestion control reaches if a share `lost` of its segments is lost independently, and
    the source of the formula; `rtt` in seconds. None: not known for this congestion control."""
    standard = MATHIS_CONSTANT / math.sqrt(lost)
    if control == "cubic":
        window, source = max(standard, CUBIC_CONSTANT * (rtt / lost) ** CUBIC_EXPONENT), "CUBIC, RFC 9438"
    elif control == "reno":
        window, source = standard, "Mathis: MSS / rtt × 1.22 / √p"
    else:
        return None
    return streams * window * 8 * mss / rtt, source


def lost_share(result: Result, flow: Flow) -> float | None:
    """Share of the segments that were retransmitted; None: not known."""
    payload = payload_of(result, flow)
    size = flow.received.bytes or (flow.received.bits_per_second * flow.received.seconds / 8) if flow.received else 0
    if flow.retransmits is None or not payload or not size:
        return None
    return flow.retransmits / (size / payload + flow.retransmits)


def retransmitted(result: Result, flow: Flow) -> str:
    """``0.15 % of segments retransmitted``; "" if there were few."""
    share = lost_share(result, flow) if result.plan.protocol == "tcp" else None
    if share is None or share < MANY_RETRANSMITS_SHARE:
        return ""
    return f"{small_share(share)} of segments retransmitted"


def tunnel_hint(result: Result, flow: Flow, setups: Mapping[str, NicSetup]) -> Phrase | None:
    """What to try if segments of a tunnel are lost and neither host has dropped any: the NIC may compute the checksums
    in the tunnel wrongly, or slowly (projectcalico/calico#11435). None if that is not so."""
    setup = setups.get(flow.sender)
    if setup is None or not setup.offloaded_tunnel or not retransmitted(result, flow) or _drops(result, flow)[1]:
        return None
    command = f"ethtool -K {shell_quote(setup.offloaded_tunnel)} {TUNNEL_CHECKSUM} off"
    return Phrase("checksum offload of the tunnel", f", try on {clean(flow.sender)}: {command}")


def losses(result: Result, flow: Flow, setups: Mapping[str, NicSetup]) -> Judgement:
    """Lost packets, wherever they were lost. If a qdisc of an end may limit, it may also have lost them: then losses
    are only possible."""
    if result.plan.protocol == "udp":
        return _datagrams(result, flow)
    found = _segments(result, flow)
    if found.cause and _may_lose(setups):
        return Judgement(None, found.excluded, (found.cause, *found.possible))
    return found


def _segments(result: Result, flow: Flow) -> Judgement:
    drops, dropped = _drops(result, flow)
    if flow.retransmits == 0:
        return Judgement(None, (Phrase("retransmits", " 0"), *drops))
    share, figures = lost_share(result, flow), figures_of(result, flow)
    if share is None:
        return _not_excluded(drops, dropped, Phrase("losses", " (retransmits not counted)"))
    text = small_share(share)
    control = clean(figures.congestion_control or "") if figures is not None else ""
    if control.startswith("bbr"):
        if share < BBR_LOSS_SHARE:
            return Judgement(None, (_retransmits(text, "BBR does not slow down below 2 %"), *drops))
        located = _many_lost(result, flow, text, drops)
        return (
            located if located.cause else _not_excluded(drops, dropped, _retransmits(text, "BBR slows down above 2 %"))
        )
    if share > MAX_MODEL_LOSS:
        return _many_lost(result, flow, text, drops)
    if figures is None or not figures.rtt or not figures.snd_mss or not control:
        return _not_excluded(drops, dropped, _retransmits(text, "rtt and congestion control not read"))
    found = reachable_rate(control, figures.snd_mss, figures.rtt / 1e6, share, result.plan.streams)
    if found is None:
        return _not_excluded(drops, dropped, _retransmits(text, f"limit of {control} with this loss unknown"))
    computed, source = found
    measured = flow.goodput or 0.0
    where = f"rtt {_rtt(figures)}, MSS {figures.snd_mss}"
    limit = f"limit {units.bits_per_second(computed)} at {where}: {source}"
    if computed > EXPLAINED_FACTOR * measured:
        return Judgement(None, (_retransmits(text, limit), *drops))
    if _has_free_window(flow, figures):
        cwnd = count_noun(figures.congestion_window or 0, "segment")
        window = f"the congestion window was not what limited it: {cwnd}, not full"
        return Judgement(None, (_retransmits(text, window), *drops))
    if computed < measured / EXPLAINED_FACTOR:
        return Judgement(None, () if dropped else drops, drops if dropped else ())
    if on_one_machine(result) or figures.congestion_window is None:
        return _not_excluded(drops, dropped, _retransmits(text, limit if computed >= measured else ""))
    window = f"cwnd {count_noun(figures.congestion_window, 'segment')}"
    rest = f"retransmits {text}, {limit}; measured {units.bits_per_second(measured)}; {window}"
    return Judgement(_lost_phrase(_loss_location(result, flow), rest))


def _retransmits(share: str, why: str) -> Phrase:
    return Phrase("retransmits", f" {share} ({why})" if why else f" {share}")


def _lost_phrase(where: str, rest: str) -> Phrase:
    """``RX ring of b: 900 packets dropped: retransmits 0.025 %``: the place is the limit."""
    place, colon, dropped = where.partition(": ")
    return Phrase(place, f"{colon}{dropped}: {rest}")


def _many_lost(result: Result, flow: Flow, text: str, drops: tuple[Phrase, ...]) -> Judgement:
    """So many that no formula applies: the cause if a counter says where they were lost, else possible."""
    where = _loss_location(result, flow)
    if where != UNKNOWN_LOCATION:
        return Judgement(_lost_phrase(where, f"retransmits {text}"))
    waits = Phrase("packet loss", f": retransmits {text}, TCP waits for timeouts")
    return Judgement(None, (), (waits, *drops))


def _not_excluded(drops: tuple[Phrase, ...], dropped: bool, phrase: Phrase) -> Judgement:
    """Losses that are not excluded, and drops."""
    return Judgement(None, () if dropped else drops, (phrase, *drops) if dropped else (phrase,))


def _has_free_window(flow: Flow, figures: SocketFigures) -> bool:
    """The congestion window limits the bytes in flight (RFC 5681, section 2): if it is not full, it was not the
    limit."""
    if not figures.rtt or not figures.snd_mss or not figures.congestion_window:
        return False
    bytes_in_flight = (flow.goodput or 0.0) / 8 * figures.rtt / 1e6
    return figures.congestion_window * figures.snd_mss > FULL_WINDOW_FACTOR * bytes_in_flight


def _loss_location(result: Result, flow: Flow) -> str:
    """Where packets were lost according to the counters of both hosts, which must have dropped half of them."""
    least = (flow.retransmits or 0) / 2
    receiver, sender = load_of(result, flow.receiver), load_of(result, flow.sender)
    if receiver is not None and least and (receiver.ring_drops or 0) >= least:
        return f"RX ring of {clean(flow.receiver)}: {count_noun(receiver.ring_drops or 0, 'packet')} dropped"
    if receiver is not None and least and (receiver.backlog_drops or 0) >= least:
        dropped = count_noun(receiver.backlog_drops or 0, "packet")
        return f"receive backlog of {clean(flow.receiver)}: {dropped} dropped (net.core.netdev_max_backlog)"
    if sender is not None and least and (sender.send_drops or 0) >= least:
        return (
            f"{clean(flow.sender)}: its NIC dropped {count_noun(sender.send_drops or 0, 'packet')} instead of sending"
        )
    counted = counted_cause(result, least) if least else None
    return f"{clean(counted.host)}: {counted.text}" if counted is not None else UNKNOWN_LOCATION


def _drops(result: Result, flow: Flow) -> tuple[tuple[Phrase, ...], bool]:
    """What both hosts counted as dropped, as a phrase (() if nothing was counted), and whether any packet was."""
    receiver, sender = load_of(result, flow.receiver), load_of(result, flow.sender)
    known = {
        f"received by the NIC of {clean(flow.receiver)}": receiver.ring_drops if receiver is not None else None,
        f"in the backlog of {clean(flow.receiver)}": receiver.backlog_drops if receiver is not None else None,
        f"sent by the NIC of {clean(flow.sender)}": sender.send_drops if sender is not None else None,
    }
    text = [f"{units.count(number)} {where}" for where, number in known.items() if number]
    if text:
        return (Phrase("drops", f": {', '.join(text)}"),), True
    unread = [where for where, number in known.items() if number is None]
    if len(unread) == len(known):
        return (), False
    return (Phrase("drops", f" 0{f' (not counted: {unread[0]})' if unread else ''}"),), False


def _datagrams(result: Result, flow: Flow) -> Judgement:
    received, sent = flow.received, flow.sent
    if received is None or received.lost is None or not received.packets:
        return Judgement(None, (), (Phrase("lost datagrams", " (not counted)"),))
    share = received.lost / received.packets
    if share < MANY_LOST_SHARE:
        return Judgement(None, (Phrase("lost datagrams", f" {small_share(share)}"), *_drops(result, flow)[0]))
    sent_text = (
        f" of the {units.bits_per_second(sent.bits_per_second)} that {clean(flow.sender)} sent"
        if sent is not None
        else ""
    )
    rest = f": {units.percentage(share)}{sent_text}{_datagram_loss(result, flow, share)}"
    return Judgement(Phrase("lost datagrams", rest))


def _datagram_loss(result: Result, flow: Flow, share: float) -> str:
    """Where datagrams were lost according to both NICs, which also count those of the omitted seconds."""
    receiver, sender = clean(flow.receiver), clean(flow.sender)
    load = load_of(result, flow.receiver)
    if load is not None and flow.received is not None and (load.ring_drops or 0) >= (flow.received.lost or 0) / 2:
        packets = count_noun(load.ring_drops or 0, "packet")
        return f", dropped by the NIC of {receiver} ({packets} no free descriptor)"
    counted = counted_cause(result, max(1.0, (flow.received.lost or 0) / 2)) if flow.received is not None else None
    if counted is not None:
        return f", {clean(counted.host)}: {counted.text}"
    out, into = _chosen_nic(result, flow.sender), _chosen_nic(result, flow.receiver)
    if out is None or into is None or not out.sent or into.received is None or on_one_machine(result):
        return ""
    counts = f"{out.name} sent {units.bytes_(out.sent)}, {into.name} received {units.bytes_(into.received)}"
    if 1 - into.received / out.sent >= share / 2:
        return f", lost between the NICs ({counts})"
    if flow.sent is not None and flow.sent.bytes and out.sent < (1 - share / 2) * flow.sent.bytes:
        return f", dropped on {sender} before the NIC ({counts})"
    return f", dropped on {receiver} after the NIC ({counts}); socket buffer: nstat -az UdpRcvbufErrors"


def _chosen_nic(result: Result, host: str) -> Carried | None:
    ends = result.proof.hosts if result.proof is not None else ()
    carried = next((one.carried for one in ends if one.host == host and one.verdict == "proven"), ())
    return next((one for one in carried if one.role == "chosen"), None)


# ---------------------------------------------------------------------------------------------------- instance limits


def instance_limits(result: Result, flow: Flow, setups: Mapping[str, NicSetup]) -> Judgement:
    """Packets that a cloud queued or dropped because a limit of the instance was used up (ena: allowance_exceeded)."""
    causes: list[Phrase] = []
    possible: list[Phrase] = []
    for host in dict.fromkeys((flow.sender, flow.receiver)):
        setup = setups.get(host)
        for name, packets in (setup.instance_limits if setup is not None else {}).items():
            rest = f": {clean(name)} {count_noun(packets, 'packet')}"
            phrase = Phrase(f"instance limit of {clean(host)}", rest)
            ours = not name.startswith("bw_" + ("in" if host == flow.sender else "out"))
            (causes if ours and packets >= _many_packets(result, flow) else possible).append(phrase)
    cause = None
    if causes:
        cause = Phrase(causes[0].limit, "; ".join((causes[0].rest, *map(str, causes[1:]))))
    return Judgement(cause, (), tuple(possible))


def _many_packets(result: Result, flow: Flow) -> float:
    """So many packets that fewer cannot have limited the flow."""
    payload = payload_of(result, flow) or DEFAULT_DATAGRAM_BYTES
    seconds = flow.received.seconds if flow.received is not None else 0.0
    return max(1.0, MANY_LIMITED_SHARE * (flow.goodput or 0.0) * seconds / 8 / payload)


# ------------------------------------------------------------------------------------------------------------- qdiscs


def qdiscs(result: Result, flow: Flow, setups: Mapping[str, NicSetup]) -> Judgement:
    """Queueing disciplines of both ends: that of the receiver limits its acknowledgements. One that limits everything a
    link sends is also part of the ceiling (`nictop.model.devices.ceiling`)."""
    found = []
    for host in dict.fromkeys((flow.sender, flow.receiver)):
        setup = setups.get(host)
        if setup is None or not setup.qdiscs:
            found.append(Judgement(None, (), (Phrase(f"root qdisc of {clean(host)}", " (not read)"),)))
            continue
        found += [_sending(result, flow, host, one) for one in setup.qdiscs]
    return combined(found)


def _sending(result: Result, flow: Flow, host: str, one: SendQueueing) -> Judgement:
    if one.acting:
        return combined(_acting(result, flow, host, one.link, qdisc) for qdisc in one.acting)
    where, command = _location(host, one.link)
    root = f"root qdisc {clean(one.kind)} of {where}"
    if one.kind in HOLDING_QDISCS:
        return Judgement(None, (), (Phrase(root, f", which may limit{command}"),))
    if one.kind in UNREAD_QDISCS and not one.read:
        return Judgement(None, (), (Phrase(root, f" (limits not read){command}"),))
    return Judgement(None, (Phrase(root),))


def _location(host: str, link: str) -> tuple[str, str]:
    """A link for a message, and the command that shows its queued and dropped packets."""
    return f"{clean(link)} on {clean(host)}", f": tc -s qdisc show dev {shell_quote(link)}"


def _acting(result: Result, flow: Flow, host: str, link: str, qdisc: Qdisc) -> Judgement:
    where, command = _location(host, link)
    limit = f"qdisc {clean(qdisc_text(qdisc))} of {where}"
    if _changes_packets(qdisc) or qdisc.rate is None:
        rest = f", which {effect_text(replace(qdisc, rate=None))}{command}"
        return Judgement(None, (), (Phrase(limit, rest),))
    measured = flow.goodput or 0.0
    if host != flow.sender:
        enough = qdisc.rate >= MIN_ACK_RATE_SHARE * measured
        return Judgement(None, (Phrase(limit),)) if enough else Judgement(None, (), (Phrase(limit, command),))
    qdisc_rate = qdisc.rate * (result.plan.streams if qdisc.per_flow else 1)
    share = f"{units.bits_per_second(measured)} received"
    if qdisc.limits_all and AT_RATE_SHARE * qdisc_rate <= measured <= qdisc_rate:
        return Judgement(Phrase(limit, f": {effect_text(qdisc)}, headers included; {share}{command}"))
    if qdisc_rate > EXPLAINED_FACTOR * measured:
        return Judgement(None, (Phrase(limit),))
    return Judgement(None, (), (Phrase(limit, f" ({share}){command}"),))


def _changes_packets(qdisc: Qdisc) -> bool:
    """It changes packets in other ways than limiting their rate."""
    changes = (qdisc.delay, qdisc.jitter, qdisc.duplicate, qdisc.reorder, qdisc.corrupt)
    return qdisc.loss is None or qdisc.loss > 0 or any(changes)


def _may_lose(setups: Mapping[str, NicSetup]) -> bool:
    """A qdisc of either end may have lost packets: its parameters say so, or it limits more than it can queue."""
    sending = [one for setup in setups.values() for one in setup.qdiscs]
    return any(one.acting or one.kind in HOLDING_QDISCS for one in sending)
