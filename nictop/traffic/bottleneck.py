"""What held a run back, in one sentence with its evidence.

Reads nothing; takes a `Result`. Looked for in the order in which one hides the next: the rate asked for, the wire, the
hypervisor that gives time to others, a core that is full, CPUs that all are, windows, packets that are lost. Nothing
found is said too.

A retransmission is no cause by itself. It is named as one only of a sender that its congestion window holds back: no
core is full, neither the receiver's window nor the own send buffer was waited for (rwnd_limited and sndbuf_limited of
tcp_info, net/ipv4/tcp.c, tcp_get_info_chrono_stats), and goodput × round trip comes near the congestion window, which
bounds what is under way (RFC 5681, section 2). BBR does not slow down for losses below 2 % (draft-ietf-ccwg-bbr,
BBR.LossThresh; its first version bears more: Cardwell et al., ACM Queue 14.5). On one machine nothing lies between the
ends that could lose a packet but their own queues. Else it is told as evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nictop.model import units
from nictop.model.wording.text import clean
from nictop.model.wording.words import counted
from nictop.traffic.load import HostLoad
from nictop.traffic.result import MOST_STEAL, Flow, Result, SocketFigures

AT_CEILING = 0.97
"""Share of the ceiling: measured runs over a shaped wire reach 0.995 to 1.000 of it, UDP 0.982."""
ABOVE_CEILING = 1.02
"""More is no answer: the wire did not limit it, and something else did."""
AT_BITRATE = 0.98
FULL_CORE = 0.93
"""Share of a core's time: a tick or two are always missing."""
FULL_HOST = 0.9
"""Share of all its cores' time: threads that wait for each other leave the rest."""
MOSTLY = 0.5
LIMITED = 0.3
"""Share of the time with data to send."""
FILLED = 2.0
"""Congestion window through what was under way: medians of both swing by so much."""
MANY_RETRANSMITS = 100.0
"""Per GB: one segment in seven thousand."""
MANY_LOST = 0.01
BBR_LOSS = 0.02
"""Share of segments sent again below which BBR goes on as fast."""
SMALL_PAYLOAD = 512
"""Bytes in a packet: with less it is their number that costs."""
DATAGRAM = 1448
"""Bytes that the generators put into one when nothing else is asked for."""
TOLD_MACHINES = 3

Queues = Mapping[str, int]
"""Host → receive queues of the chosen NIC in use."""
Cause = Callable[[Result, Flow, Queues], "str | None"]


def bottleneck(result: Result, queues: Queues | None = None) -> str:
    """The sentence; "" for a run without goodput."""
    flows = [flow for flow in result.flows if flow.goodput is not None]
    if not flows:
        return ""
    flow = max(flows, key=lambda one: one.goodput or 0.0)
    for cause in (_bitrate, _ceiling, _steal, _receiver, _sender, _all_cpus, _drops, _windows):
        sentence = cause(result, flow, queues or {})
        if sentence is not None:
            again = _retransmitted(flow)
            return f"{sentence}, while {again}" if again else sentence
    return _losses(result, flow) or _nothing(result, flow)


def _bitrate(result: Result, flow: Flow, queues: Queues) -> str | None:
    asked = (result.plan.bitrate or 0) * result.plan.streams
    if not asked or (flow.goodput or 0.0) < AT_BITRATE * asked:
        return None
    return f"the bitrate that was asked for: {units.bits_per_second(asked)}"


def _ceiling(result: Result, flow: Flow, queues: Queues) -> str | None:
    share, ceiling = result.of_ceiling, result.ceiling
    if share is None or ceiling is None or not AT_CEILING <= share <= ABOVE_CEILING:
        return None
    return f"the wire: {units.percentage(share)} of the ceiling, {ceiling.sentence}"


def _steal(result: Result, flow: Flow, queues: Queues) -> str | None:
    for load in _ends(result, flow):
        if load.busy is not None and load.busy.steal_share > MOST_STEAL:
            taken = units.percentage(load.busy.steal_share)
            return f"the hypervisor of {clean(load.host)}: it gave {taken} of its CPU time to others (steal)"
    return None


# --------------------------------------------------------------------------------------------------------------- CPUs


def _receiver(result: Result, flow: Flow, queues: Queues) -> str | None:
    return _full_core(result, flow, _load(result, flow.receiver), "receiver", queues)


def _sender(result: Result, flow: Flow, queues: Queues) -> str | None:
    return _full_core(result, flow, _load(result, flow.sender), "sender", {})


def _full_core(result: Result, flow: Flow, load: HostLoad | None, end: str, queues: Queues) -> str | None:
    busy = load.busy if load is not None else None
    if load is None or busy is None or busy.hottest_busy < FULL_CORE:
        return None
    where = f"the {end}'s CPU {busy.hottest} on {clean(load.host)}"
    if busy.hottest_softirq >= MOSTLY * busy.hottest_busy:
        number = queues.get(load.host)
        queue = {None: "", 1: ", single queue"}.get(number, f", {number} queues")
        return f"{where}: {units.percentage(busy.hottest_softirq)} softirq{queue}{_packets(result, flow)}"
    full = f"{where}: {units.percentage(busy.hottest_busy)} busy"
    if busy.user > busy.system + busy.irq + busy.softirq:  # sending and receiving is the kernel's work above all
        return f"{full}, and programs have most of this host's time: the application, or another program"
    return f"{full}, most of it outside of interrupts: the application's core{_packets(result, flow)}"


def _all_cpus(result: Result, flow: Flow, queues: Queues) -> str | None:
    """Of an end, or of a hypervisor below one: an observer that runs virtual machines."""
    for load in _ends(result, flow):
        if load.busy is not None and load.busy.total >= FULL_HOST * load.busy.cores:
            return f"the CPUs of {clean(load.host)}: {_busy_words(load)}{_packets(result, flow)}"
    for load in result.hosts:
        if load.role != "observer" or load.busy is None or not load.machines:
            continue
        on_hottest = any(load.busy.hottest in machine.cpus for machine in load.machines)
        full = load.busy.total >= FULL_HOST * load.busy.cores
        if full or (on_hottest and load.busy.hottest_busy >= FULL_CORE):
            told = [
                f"{clean(machine.name)} {units.significant(machine.cores)}"
                + (f" (vhost {units.significant(machine.vhost)})" if machine.vhost else "")
                for machine in load.machines[:TOLD_MACHINES]
            ]
            return f"the hypervisor {clean(load.host)}: {_busy_words(load)}; the most for {', '.join(told)}"
    return None


def _busy_words(load: HostLoad) -> str:
    busy = load.busy
    assert busy is not None
    cores = f"{units.significant(busy.total)} of {counted(busy.cores, 'core')} are busy"
    return f"{cores}, CPU {busy.hottest} at {units.percentage(busy.hottest_busy)}"


def _packets(result: Result, flow: Flow) -> str:
    """How many packets a second it takes to carry that goodput, as they are on a wire: segments that a NIC or the
    kernel cuts count each. "" for a run of full-sized TCP segments."""
    payload = _payload(result, flow)
    if payload is None or (result.plan.protocol == "tcp" and payload > SMALL_PAYLOAD):
        return ""
    rate = units.packets_per_second((flow.goodput or 0.0) / 8 / payload)
    more = ": their number costs, not their bytes" if payload <= SMALL_PAYLOAD else ""
    return f", at {rate} of {payload} B each{more}"


def _payload(result: Result, flow: Flow) -> int | None:
    """Bytes in a packet."""
    if result.plan.protocol == "udp":
        return result.plan.length or DATAGRAM
    figures = _figures(result, flow)
    return (figures.snd_mss if figures is not None else None) or result.plan.mss


# ------------------------------------------------------------------------------------------------------ windows, loss


def _drops(result: Result, flow: Flow, queues: Queues) -> str | None:
    load = _load(result, flow.receiver)
    if load is None or not load.ring_drops or not _loses(flow):
        return None
    return f"the ring of {clean(load.host)}: its NIC dropped {counted(load.ring_drops, 'packet')} it had no room for"


def _windows(result: Result, flow: Flow, queues: Queues) -> str | None:
    figures = _figures(result, flow)
    if figures is None:
        return None
    rtt = f", rtt {units.duration(figures.rtt / 1e6)}" if figures.rtt is not None else ""
    if (figures.window_limited or 0.0) >= LIMITED:
        share = units.percentage(figures.window_limited)
        return f"the receiver's window: it held the sender back for {share} of the time{rtt}"
    if (figures.buffer_limited or 0.0) >= LIMITED:
        share = units.percentage(figures.buffer_limited)
        return f"the sender's socket buffer: too small for {share} of the time{rtt}"
    return None


def _losses(result: Result, flow: Flow) -> str | None:
    if not _loses(flow):
        return None
    if flow.received is not None and flow.received.lost and flow.received.packets:
        share = units.percentage(flow.received.lost / flow.received.packets)
        return f"packets that are lost on the way: {share} of the datagrams did not arrive"
    figures = _figures(result, flow)
    if figures is None or _on_one_machine(result) or not _held_by_losses(flow, figures):
        return None
    told = f"packets that are lost on the way: {_retransmitted(flow)}"
    if _is_bbr(figures):
        return f"{told}, more than BBR takes no notice of"
    window = f"{counted(figures.congestion_window or 0, 'segment')}, rtt {units.duration((figures.rtt or 0) / 1e6)}"
    return f"{told}, and the congestion window held the sender back: {window}"


def _held_by_losses(flow: Flow, figures: SocketFigures) -> bool:
    """See above; windows have been looked at before. False too where it is not known."""
    if not figures.rtt or not figures.snd_mss or not figures.congestion_window:
        return False
    if _is_bbr(figures):  # its window is twice what it means to have under way
        return (flow.retransmits_per_gigabyte or 0.0) * figures.snd_mss / 1e9 >= BBR_LOSS
    under_way = (flow.goodput or 0.0) / 8 * figures.rtt / 1e6
    return figures.congestion_window * figures.snd_mss <= FILLED * under_way


def _is_bbr(figures: SocketFigures) -> bool:
    return (figures.congestion_control or "").startswith("bbr")


def _loses(flow: Flow) -> bool:
    lost = flow.received.lost if flow.received is not None else None
    packets = flow.received.packets if flow.received is not None else None
    if lost is not None and packets:
        return lost / packets >= MANY_LOST
    return (flow.retransmits_per_gigabyte or 0.0) >= MANY_RETRANSMITS


def _retransmitted(flow: Flow) -> str:
    """``296 segments per GB were retransmitted``; "" for a few."""
    each = flow.retransmits_per_gigabyte
    return f"{units.quantity(each, '').strip()} segments per GB were retransmitted" if each and _loses(flow) else ""


def _nothing(result: Result, flow: Flow) -> str:
    """What was looked at, so that nobody looks there again."""
    seen = [
        f"{clean(load.host)} CPU {load.busy.hottest} at {units.percentage(load.busy.hottest_busy)}"
        for load in _ends(result, flow)
        if load.busy is not None
    ]
    share = result.of_ceiling
    if share is not None:
        seen.append("more than the ceiling" if share > ABOVE_CEILING else f"{units.percentage(share)} of the ceiling")
    seen += filter(None, (_packets(result, flow).removeprefix(", at "), _retransmitted(flow)))
    where = "in how both ends share this machine" if _on_one_machine(result) else "between the hosts, or below a guest"
    return f"not found: {', '.join(seen) or 'nothing was counted'}; it may lie {where}"


def _on_one_machine(result: Result) -> bool:
    return result.proof is not None and result.proof.one_machine


def _figures(result: Result, flow: Flow) -> SocketFigures | None:
    return next((one for one in result.sockets if one.host == flow.sender), None)


def _load(result: Result, host: str) -> HostLoad | None:
    return next((load for load in result.hosts if load.host == host), None)


def _ends(result: Result, flow: Flow) -> list[HostLoad]:
    return [load for host in (flow.receiver, flow.sender) if (load := _load(result, host)) is not None]
