"""Whether windows, losses or drops were the bottleneck, by arithmetic.

Reads nothing. A window W allows W bytes per round trip: rate = W / RTT. If a share p of the
segments is lost, each independently, a connection reaches MSS / RTT × 1.22 / √p with the standard
congestion control (Mathis, Semke, Mahdavi, Ott: The macroscopic behavior of the TCP congestion
avoidance algorithm, ACM CCR 27.3, 1997; RFC 3649, section 5). CUBIC has a mean window of 1.054 ×
(RTT / p)^0.75 segments (RTT in seconds; RFC 8312, section 5.1; RFC 9438, section 5.1), or the
standard one if that is larger (its TCP-friendly region). The share of retransmitted segments is
used for p: if several are lost at once it is an overestimate, and the reachable rate is higher than
the computed one. So a computed rate far above the measured one excludes losses; one slightly above
it explains it, if the congestion window was full too; one below it is no limit, and only the share
is given. All these formulas leave out retransmission timeouts. By the equation of RFC 5348,
section 3.1, which has them, they take 15 % of the time at p = 2 % and a third at 5 %, even if a
timeout is only four round trips: above `MAX_MODEL_LOSS` nothing is excluded by a formula. BBR does
not slow down for losses below 2 % (draft-ietf-ccwg-bbr, BBR.LossThresh), its first version, that of
Linux, not by losses alone (net/ipv4/tcp_bbr.c).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
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
from nictop.traffic.analysis.qdisc_limits import may_lose
from nictop.traffic.analysis.setup_facts import TUNNEL_CHECKSUM, NicSetup
from nictop.traffic.results.path_proof import Carried
from nictop.traffic.results.result import Flow, Result, SocketFigures

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
MANY_LOST_SHARE = 0.01
BBR_LOSS_SHARE = 0.02
"""Of the segments: BBR does not slow down if fewer are retransmitted."""
MATHIS_CONSTANT = math.sqrt(3 / 2)
"""1.22: every loss halves the window, every segment is acknowledged."""
CUBIC_CONSTANT, CUBIC_EXPONENT = 1.054, 0.75
"""(C (3 + β) / (4 (1 - β)))^¼ with C = 0.4 and β = 0.7, as in Linux (net/ipv4/tcp_cubic.c)."""
UNKNOWN_LOCATION = "packet loss"
NIC_COUNT_TOLERANCE = 1e-3
"""Of the bytes that the sender's NIC sent: if a NIC counts a large segment with one header only,
the bytes of both NICs differ by more."""
MAX_MODEL_LOSS = 0.02
"""Share of the segments: with more, timeouts count, which the formulas leave out."""


# ------------------------------------------------------------------------------------------ windows


def windows(result: Result, flow: Flow, setups: Mapping[str, NicSetup]) -> Judgement:
    """The receiver's window and the sender's buffer, and the kernel setting that limits the one
    that was full. The kernel counts the time that each limited the sender (rwnd_limited and
    sndbuf_limited of tcp_info, net/ipv4/tcp.c, tcp_get_info_chrono_stats)."""
    if result.plan.protocol == "udp":
        return Judgement()
    figures = figures_of(result, flow)
    if figures is None:
        unread = Phrase("TCP windows and buffers", f" (sockets of {clean(flow.sender)} not read)")
        return Judgement(possible=(unread,))
    found = (_window(flow, figures), _buffer(flow, figures))
    limits = (
        _window_limit(result, flow, figures, setups),
        _buffer_limit(result, flow, figures, setups),
    )
    return combined(_with_setting(one, limit) for one, limit in zip(found, limits, strict=True))


def _with_setting(found: Judgement, setting: str) -> Judgement:
    """The setting that limits a window or a buffer is named only if that is the cause."""
    if found.cause is None:
        return found
    return replace(found, cause=Phrase(found.cause.limit, f"{found.cause.rest}{setting}"))


def _window(flow: Flow, figures: SocketFigures) -> Judgement:
    computed, phrase = _rate_of_window(figures)
    if figures.window_limited is None:
        return _uncounted_window(flow, computed, phrase)
    share = units.percentage(figures.window_limited)
    if figures.window_limited < LIMITED_SHARE:
        return Judgement.of_excluded("receive window", f" (full {share} of the time)")
    measured = flow.goodput_or_zero
    if computed is not None and computed < measured:
        phrase = ""  # a limit is not lower than what was measured
    if computed is not None and not _is_near(computed, measured):
        but = f", but {phrase}" if computed > measured else ""
        return Judgement.of_possible("receive window", f" (full {share} of the time{but})")
    text = f": full {share} of the time"
    if phrase:
        text += f": {phrase}"
    elif figures.rtt:
        text += f", rtt {_rtt(figures)}"
    return Judgement.of_cause("receive window", text)


def _is_near(computed: float, measured: float) -> bool:
    """A computed rate explains the measured one."""
    return measured / EXPLAINED_FACTOR <= computed <= EXPLAINED_FACTOR * measured


def _rate_of_window(figures: SocketFigures) -> tuple[float | None, str]:
    """Bits per second that the receiver's window allows, and the calculation; None: not known."""
    if not figures.send_window or not figures.rtt:
        return None, ""
    computed = 8e6 * figures.send_window / figures.rtt
    window, rate = units.bytes_(figures.send_window), units.bits_per_second(computed)
    return computed, f"{window} / {_rtt(figures)} = {rate}"


def _uncounted_window(flow: Flow, computed: float | None, phrase: str) -> Judgement:
    """The kernel does not count how long the window was full: only its size can exclude it."""
    measured = flow.goodput_or_zero
    reason = "not counted by this kernel"
    if computed is not None and computed > EXPLAINED_FACTOR * measured:
        return Judgement.of_excluded("receive window", f" ({phrase})")
    if computed is not None and computed >= measured:
        reason = phrase
    return Judgement.of_possible("receive window", f" ({reason})")


def _buffer(flow: Flow, figures: SocketFigures) -> Judgement:
    limited = figures.buffer_limited
    if limited is None:
        return Judgement.of_possible("send buffer", " (not counted by this kernel)")
    share = units.percentage(limited)
    if limited < LIMITED_SHARE:
        return Judgement.of_excluded("send buffer", f" (full {share} of the time)")
    text = f": full {share} of the time"
    if figures.rtt:
        in_flight = units.bytes_(_bytes_per_round_trip(flow.goodput_or_zero, figures.rtt))
        text += f": {in_flight} in flight per rtt of {_rtt(figures)}"
    return Judgement.of_cause("send buffer", text)


def _bytes_per_round_trip(rate: float, rtt: int) -> float:
    """`rate`: bits per second; `rtt`: µs."""
    return rate / 8e6 * rtt


def _window_limit(
    result: Result, flow: Flow, figures: SocketFigures, setups: Mapping[str, NicSetup]
) -> str:
    """Why the receiver offers no larger window; "" if its settings allow one."""
    setup = setups.get(flow.receiver)
    if setup is None:
        return ""
    return _buffer_setting(result, flow, figures, setup, name="rmem", used=figures.send_window)


def _buffer_limit(
    result: Result, flow: Flow, figures: SocketFigures, setups: Mapping[str, NicSetup]
) -> str:
    """Why the sender has no larger send buffer; "" if its settings allow one."""
    setup = setups.get(flow.sender)
    if setup is None or not figures.rtt:
        return ""
    in_flight = _bytes_per_round_trip(flow.goodput_or_zero, figures.rtt)
    return _buffer_setting(result, flow, figures, setup, name="wmem", used=in_flight)


def _buffer_setting(
    result: Result,
    flow: Flow,
    figures: SocketFigures,
    setup: NicSetup,
    *,
    name: str,
    used: float | None,
) -> str:
    """The setting of a host that limits the socket buffers of the run (`name`: rmem, wmem), with
    the size that the ceiling needs at this rtt (the bandwidth-delay product), and the command.
    `used`: bytes in the buffers of all streams. A buffer that the program sets is limited by
    net.core.rmem_max and wmem_max (socket(7)), one that the kernel grows by the maximum of
    net.ipv4.tcp_rmem and tcp_wmem (tcp(7)). The kernel counts its own overhead, so that about half
    of a buffer is payload (tcp_adv_win_scale)."""
    if not used or not figures.rtt:
        return ""
    if result.plan.window is not None:
        return _requested_buffer_setting(setup, name, result.plan.window)
    streams = max(1, result.plan.streams)
    buffers = setup.tcp_buffers.get(f"net.ipv4.tcp_{name}")
    if buffers is None:
        return ""
    least, default, most = buffers
    if used / streams < FULL_BUFFER_SHARE * most:
        return ""
    reached = f"; net.ipv4.tcp_{name} of {clean(setup.host)} allows {units.bytes_(most)}"
    known = result.ceiling_of(flow)
    ceiling = known.goodput if known is not None else None
    command = f"sysctl -w net.ipv4.tcp_{name}="
    if not ceiling:
        return f'{reached}; larger: {command}"{least} {default} {LARGER_BUFFER_FACTOR * most}"'
    payload = ceiling / 8e6 * figures.rtt / streams
    needed = math.ceil(BUFFER_PER_PAYLOAD * payload / BUFFER_STEP) * BUFFER_STEP
    if needed <= most:
        return ""
    return (
        f"{reached}, {units.bits_per_second(ceiling)} at this rtt needs {units.bytes_(needed)}: "
        f'{command}"{least} {default} {needed}"'
    )


def _requested_buffer_setting(setup: NicSetup, name: str, requested: int) -> str:
    """The limit of a host, if the run asked for a larger buffer (iperf3 -w)."""
    setting = f"net.core.{name}_max"
    largest = setup.socket_buffers.get(setting)
    if largest is None or requested <= largest:
        return ""
    return (
        f"; -w {units.bytes_(requested)} exceeds {setting} {units.bytes_(largest)} of "
        f"{clean(setup.host)}: sysctl -w {setting}={requested}"
    )


def _rtt(figures: SocketFigures) -> str:
    return units.duration((figures.rtt or 0) / 1e6)


# ------------------------------------------------------------------------------------------- losses


def reachable_rate(
    control: str, mss: int, rtt: float, lost: float, streams: int = 1
) -> tuple[float, str] | None:
    """Bits per second that a congestion control reaches if a share `lost` of its segments is lost
    independently, and the source of the formula; `rtt` in seconds. None: not known for this
    congestion control."""
    window, source = MATHIS_CONSTANT / math.sqrt(lost), "Mathis: MSS / rtt × 1.22 / √p"
    if control == "cubic":
        window = max(window, CUBIC_CONSTANT * (rtt / lost) ** CUBIC_EXPONENT)
        source = "CUBIC, RFC 9438"
    elif control != "reno":
        return None
    return streams * window * 8 * mss / rtt, source


def lost_share(result: Result, flow: Flow) -> float | None:
    """Share of the segments that were retransmitted; None: not known."""
    payload, received = payload_of(result, flow), flow.received
    if flow.retransmits is None or not payload or received is None:
        return None
    size = received.bytes or (received.bits_per_second * received.seconds / 8)
    if not size:
        return None
    return flow.retransmits / (size / payload + flow.retransmits)


def retransmitted(result: Result, flow: Flow) -> str:
    """``0.15 % of segments retransmitted``; "" if there were few."""
    if result.plan.protocol != "tcp":
        return ""
    share = lost_share(result, flow)
    if share is None or share < MANY_RETRANSMITS_SHARE:
        return ""
    return f"{small_share(share)} of segments retransmitted"


def tunnel_hint(result: Result, flow: Flow, setups: Mapping[str, NicSetup]) -> Phrase | None:
    """What to try if segments of a tunnel are lost and neither host has dropped any: the NIC may
    compute the checksums in the tunnel wrongly, or slowly (projectcalico/calico#11435). None if
    that is not so."""
    setup = setups.get(flow.sender)
    if setup is None or not setup.offloaded_tunnel:
        return None
    _, dropped = _drops(result, flow)
    if dropped or not retransmitted(result, flow):
        return None
    command = f"ethtool -K {shell_quote(setup.offloaded_tunnel)} {TUNNEL_CHECKSUM} off"
    return Phrase("checksum offload of the tunnel", f", try on {clean(flow.sender)}: {command}")


def losses(result: Result, flow: Flow, setups: Mapping[str, NicSetup]) -> Judgement:
    """Lost packets, wherever they were lost. If a qdisc of an end may limit, it may also have lost
    them: then losses are only possible."""
    if result.plan.protocol == "udp":
        return _datagrams(result, flow)
    found = _segments(result, flow)
    if found.cause and may_lose(setups):
        return Judgement(excluded=found.excluded, possible=(found.cause, *found.possible))
    return found


def _segments(result: Result, flow: Flow) -> Judgement:
    drops, dropped = _drops(result, flow)
    if flow.retransmits == 0:
        return Judgement(excluded=(Phrase("retransmits", " 0"), *drops))
    share, figures = lost_share(result, flow), figures_of(result, flow)
    if share is None:
        return _not_excluded(drops, dropped, Phrase("losses", _unknown_share(flow)))
    text = small_share(share)
    spurious = _spurious_evidence(result, flow)
    if spurious:
        rest = f" (retransmits {text}, probably spurious: {spurious})"
        return Judgement(excluded=(Phrase("packet loss", rest), *drops))
    control = _congestion_control(figures)
    if control.startswith("bbr"):
        return _segments_of_bbr(result, flow, share)
    if share > MAX_MODEL_LOSS:
        return _many_lost(result, flow, text, drops)
    if figures is None or not figures.rtt or not figures.snd_mss or not control:
        not_read = _retransmits(text, "rtt and congestion control not read")
        return _not_excluded(drops, dropped, not_read)
    found = reachable_rate(control, figures.snd_mss, figures.rtt / 1e6, share, result.plan.streams)
    if found is None:
        unknown = _retransmits(text, f"limit of {control} with this loss unknown")
        return _not_excluded(drops, dropped, unknown)
    computed, source = found
    where = f"rtt {_rtt(figures)}, MSS {figures.snd_mss}"
    limit = f"limit {units.bits_per_second(computed)} at {where}: {source}"
    return _compared_with_model(result, flow, figures, (computed, limit), text)


def _unknown_share(flow: Flow) -> str:
    if flow.retransmits is None:
        return " (retransmits not counted)"
    counted = count_noun(flow.retransmits, "retransmit")
    return f" ({counted}, of how many segments is not known)"


def _congestion_control(figures: SocketFigures | None) -> str:
    """Of the sender; "": not read."""
    if figures is None:
        return ""
    return clean(figures.congestion_control or "")


def _segments_of_bbr(result: Result, flow: Flow, share: float) -> Judgement:
    """BBR does not slow down below `BBR_LOSS_SHARE`."""
    drops, dropped = _drops(result, flow)
    text = small_share(share)
    if share < BBR_LOSS_SHARE:
        return Judgement(excluded=(_retransmits(text, "BBR does not slow down below 2 %"), *drops))
    located = _many_lost(result, flow, text, drops)
    if located.cause:
        return located
    return _not_excluded(drops, dropped, _retransmits(text, "BBR may slow down above 2 %"))


def _compared_with_model(
    result: Result, flow: Flow, figures: SocketFigures, model: tuple[float, str], text: str
) -> Judgement:
    """`model`: the rate that is possible with the losses, and a sentence on it; `text`: the
    losses."""
    drops, dropped = _drops(result, flow)
    computed, limit = model
    measured = flow.goodput_or_zero
    if computed > EXPLAINED_FACTOR * measured:
        return Judgement(excluded=(_retransmits(text, limit), *drops))
    if _has_free_window(flow, figures):
        cwnd = count_noun(figures.congestion_window or 0, "segment")
        window = f"the congestion window was not what limited it: {cwnd}, not full"
        return Judgement(excluded=(_retransmits(text, window), *drops))
    if computed < measured / EXPLAINED_FACTOR:
        return Judgement(possible=drops) if dropped else Judgement(excluded=drops)
    if on_one_machine(result) or figures.congestion_window is None:
        why = limit if computed >= measured else ""
        return _not_excluded(drops, dropped, _retransmits(text, why))
    where = _loss_location(result, flow)
    if computed < measured:
        return _above_the_model(where, text, drops, dropped=dropped)
    window = f"cwnd {count_noun(figures.congestion_window, 'segment')}"
    rest = f"retransmits {text}, {limit}; measured {units.bits_per_second(measured)}; {window}"
    return Judgement(_lost_phrase(where, rest))


def _above_the_model(
    where: str, text: str, drops: tuple[Phrase, ...], *, dropped: bool
) -> Judgement:
    """More was measured than the model allows, so that its rate was no limit: losses are the cause
    only if a counter says where they were lost."""
    if where != UNKNOWN_LOCATION:
        return Judgement(_lost_phrase(where, f"retransmits {text}"))
    return Judgement(None, (), drops) if dropped else Judgement(None, drops)


def _spurious_evidence(result: Result, flow: Flow) -> str:
    """What shows that no segment was lost, so that those that were retransmitted were only late
    (RFC 5682, RFC 3708): the receiver's NIC received what the sender's NIC sent, and neither host
    dropped any. "": losses are possible, or a counter is not known."""
    if on_one_machine(result) or _has_foreign_end(result) or _may_have_dropped(result, flow):
        return ""
    out, into = _chosen_nic(result, flow.sender), _chosen_nic(result, flow.receiver)
    if out is None or into is None:
        return ""
    if not out.sent or into.received is None:
        return ""
    retransmitted_bytes = (flow.retransmits or 0) * (payload_of(result, flow) or 0)
    tolerance = min(NIC_COUNT_TOLERANCE * out.sent, retransmitted_bytes / 2)
    if abs(out.sent - into.received) >= tolerance:
        return ""
    sent, received = units.bytes_(out.sent), units.bytes_(into.received)
    return (
        f"{out.name} of {clean(flow.sender)} sent {sent}, {into.name} of {clean(flow.receiver)} "
        f"received {received}, no drops"
    )


def _has_foreign_end(result: Result) -> bool:
    """The NIC of one of its ends carried much more than the run."""
    if result.proof is None:
        return False
    return any(end.foreign for end in result.proof.hosts)


def _may_have_dropped(result: Result, flow: Flow) -> bool:
    """One of the hosts has dropped packets, or that is not known."""
    receiver, sender = load_of(result, flow.receiver), load_of(result, flow.sender)
    if receiver is None or sender is None:
        return True
    if receiver.ring_drops != 0 or receiver.backlog_drops != 0 or sender.send_drops != 0:
        return True
    return counted_cause(result, 1) is not None


def _retransmits(share: str, why: str) -> Phrase:
    return Phrase("retransmits", f" {share} ({why})" if why else f" {share}")


def _lost_phrase(where: str, rest: str) -> Phrase:
    """``RX ring of b: 900 packets dropped: retransmits 0.025 %``: the place is the limit."""
    place, colon, dropped = where.partition(": ")
    return Phrase(place, f"{colon}{dropped}: {rest}")


def _many_lost(result: Result, flow: Flow, text: str, drops: tuple[Phrase, ...]) -> Judgement:
    """So many that no formula applies: the cause if a counter says where they were lost, else
    possible."""
    where = _loss_location(result, flow)
    if where != UNKNOWN_LOCATION:
        return Judgement(_lost_phrase(where, f"retransmits {text}"))
    waits = Phrase("packet loss", f": retransmits {text}, TCP waits for timeouts")
    return _not_excluded(drops, _drops(result, flow)[1], waits)


def _not_excluded(drops: tuple[Phrase, ...], dropped: bool, phrase: Phrase) -> Judgement:
    """Losses that are not excluded, and drops, which are possible only if there are any."""
    if dropped:
        return Judgement(possible=(phrase, *drops))
    return Judgement(excluded=drops, possible=(phrase,))


def _has_free_window(flow: Flow, figures: SocketFigures) -> bool:
    """The congestion window limits the bytes in flight (RFC 5681, section 2): if it is not full, it
    was not the limit."""
    if not figures.rtt or not figures.snd_mss or not figures.congestion_window:
        return False
    bytes_in_flight = flow.goodput_or_zero / 8 * figures.rtt / 1e6
    return figures.congestion_window * figures.snd_mss > FULL_WINDOW_FACTOR * bytes_in_flight


def _loss_location(result: Result, flow: Flow) -> str:
    """Where packets were lost according to the counters of both hosts, which must have dropped half
    of them."""
    if not flow.retransmits:
        return UNKNOWN_LOCATION
    least = flow.retransmits / 2
    drops = _drop_counts(result, flow)
    if drops.ring is not None and drops.ring >= least:
        dropped = count_noun(drops.ring, "packet")
        return f"RX ring of {clean(flow.receiver)}: {dropped} dropped"
    if drops.backlog is not None and drops.backlog >= least:
        dropped = count_noun(drops.backlog, "packet")
        limit = "net.core.netdev_max_backlog"
        return f"receive backlog of {clean(flow.receiver)}: {dropped} dropped ({limit})"
    if drops.sent is not None and drops.sent >= least:
        dropped = count_noun(drops.sent, "packet")
        return f"{clean(flow.sender)}: its NIC dropped {dropped} instead of sending"
    counted = counted_cause(result, least)
    if counted is None:
        return UNKNOWN_LOCATION
    return f"{clean(counted.host)}: {counted.text}"


class DropCounts(NamedTuple):
    """Packets that both hosts dropped during a run; None: not counted."""

    ring: int | None = None
    """By the NIC of the receiver."""
    backlog: int | None = None
    """In the backlog of the receiver."""
    sent: int | None = None
    """By the NIC of the sender."""


def _drop_counts(result: Result, flow: Flow) -> DropCounts:
    receiver, sender = load_of(result, flow.receiver), load_of(result, flow.sender)
    counts = DropCounts()
    if receiver is not None:
        counts = counts._replace(ring=receiver.ring_drops, backlog=receiver.backlog_drops)
    if sender is not None:
        counts = counts._replace(sent=sender.send_drops)
    return counts


def _drops(result: Result, flow: Flow) -> tuple[tuple[Phrase, ...], bool]:
    """What both hosts counted as dropped, as a phrase (() if nothing was counted), and whether any
    packet was."""
    counts = _drop_counts(result, flow)
    places = (
        (f"received by the NIC of {clean(flow.receiver)}", counts.ring),
        (f"in the backlog of {clean(flow.receiver)}", counts.backlog),
        (f"sent by the NIC of {clean(flow.sender)}", counts.sent),
    )
    text = [f"{units.count(number)} {where}" for where, number in places if number]
    if text:
        return (Phrase("drops", f": {', '.join(text)}"),), True
    unread = [where for where, number in places if number is None]
    if len(unread) == len(places):
        return (), False
    if unread:
        return (Phrase("drops", f" 0 (not counted: {unread[0]})"),), False
    return (Phrase("drops", " 0 by the NICs and the receive backlog"),), False


def _datagrams(result: Result, flow: Flow) -> Judgement:
    received = flow.received
    if received is None or received.lost is None or not received.packets:
        return Judgement.of_possible("lost datagrams", " (not counted)")
    share = received.lost / received.packets
    if share < MANY_LOST_SHARE:
        drops, _ = _drops(result, flow)
        return Judgement(excluded=(Phrase("lost datagrams", f" {small_share(share)}"), *drops))
    text = f": {units.percentage(share)}"
    if flow.sent is not None:
        sent = units.bits_per_second(flow.sent.bits_per_second)
        text += f" of the {sent} that {clean(flow.sender)} sent"
    place = _datagram_loss(result, flow, received.lost, share)
    return Judgement.of_cause("lost datagrams", f"{text}{place}")


def _datagram_loss(result: Result, flow: Flow, lost: int, share: float) -> str:
    """Where datagrams were lost according to both NICs, which also count those of the omitted
    seconds."""
    ring_drops = _drop_counts(result, flow).ring
    if ring_drops is not None and ring_drops >= lost / 2:
        packets = count_noun(ring_drops, "packet")
        return f", dropped by the NIC of {clean(flow.receiver)} ({packets} no free descriptor)"
    counted = counted_cause(result, max(1.0, lost / 2))
    if counted is not None:
        return f", {clean(counted.host)}: {counted.text}"
    out, into = _chosen_nic(result, flow.sender), _chosen_nic(result, flow.receiver)
    if out is None or into is None or on_one_machine(result):
        return ""
    return _loss_between(flow, out, into, share, ring_drops)


def _loss_between(
    flow: Flow, out: Carried, into: Carried, share: float, ring_drops: int | None
) -> str:
    """Before, between or after the two NICs, by their bytes; "": not known. A NIC does not count
    the bytes of what it drops for lack of a descriptor: where `ring_drops` are not counted either,
    it may have been the one of the receiver."""
    if not out.sent or into.received is None:
        return ""
    sent, received = units.bytes_(out.sent), units.bytes_(into.received)
    counts = f"{out.name} sent {sent}, {into.name} received {received}"
    if 1 - into.received / out.sent >= share / 2:
        place = "between the NICs"
        if ring_drops is None:
            place = f"before the NIC of {clean(flow.receiver)} counted them"
        return f", lost {place} ({counts})"
    written = flow.sent.bytes if flow.sent is not None else None
    if written and out.sent < (1 - share / 2) * written:
        return f", dropped on {clean(flow.sender)} before the NIC ({counts})"
    counter = "see nstat -az UdpRcvbufErrors"
    return f", dropped on {clean(flow.receiver)} after the NIC ({counts}); {counter}"


def _chosen_nic(result: Result, host: str) -> Carried | None:
    """What the chosen NIC of a host carried; None: the path is not verified there."""
    if result.proof is None:
        return None
    for end in result.proof.hosts:
        if end.host == host and end.verdict == "proven":
            return next((carried for carried in end.carried if carried.role == "chosen"), None)
    return None
