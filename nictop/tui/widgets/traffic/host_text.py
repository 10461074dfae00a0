"""The figures of one host at one time of a run, as text with styles: CPUs, NIC, connections, queue.

Pure functions; each returns the spans of one part of a line, () if nothing is known. Names are
cleaned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nictop.model.facts import clean
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.text import units
from nictop.model.text.glyphs import Glyphs
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.live.run_view import RunView
from nictop.traffic.live.samples import HostSample, RunSample
from nictop.traffic.results.host_load import Busy, CarryingQueue, HostLoad, Packets
from nictop.traffic.results.result import MAX_READY_SHARE, MAX_STEAL_SHARE
from nictop.tui.widgets.base.line_widget import Span
from nictop.tui.widgets.charts.stacked_chart import shares
from nictop.tui.widgets.cpu.strip import KINDS, SATURATED, kind_label

Part = Sequence[Span]

ROLE_STYLES = {"client": "accent", "server": "accent", "observer": "title"}
MAX_NAMED_CPUS = 4
"""CPUs of a queue that are listed."""
MIN_SHOWN_SHARE = 0.005
"""Of a core or of all: less is 0 %."""
FULL_CORE_SHARE = 0.95
"""Share of its time from which a core is marked as full."""


def host_label(load: HostLoad, run_view: RunView) -> str:
    """``RX b:ens4``, ``observer pve``: the direction of the payload, host and NIC, clean; ``server
    b:ens4`` if both directions carry little."""
    nic, sending = run_view.nic_of(load), run_view.plan.sending
    name = f"{clean(load.host)}:{nic}" if nic else clean(load.host)
    if run_view.plan.is_of_one_host and load.role != "observer":
        return name
    if load.role == "observer" or not sending:
        return f"{load.role} {name}"
    if len(sending) > 1:
        return f"RX+TX {name}"
    return f"{'TX' if load.role in sending else 'RX'} {name}"


def cpu_text(busy: Busy | None, *, is_mean: bool = False) -> Part:
    """Of all CPUs; ``CPU –`` where no window of the run has been measured: n/a is what a driver
    does not support. `is_mean`: of the whole run."""
    if busy is None:
        return ((f"CPU {units.UNKNOWN}", "dim"),)
    label = "mean CPU " if is_mean else "CPU "
    return ((label, "dim"), (f"{100 * busy.share:3.0f} %", "title"), (f" of {busy.cores}", "dim"))


def age_text(host: HostSample) -> Part:
    """That the host has sent nothing for so long, and its values are those of then; () of a host
    whose values are of now."""
    if host.age is None:
        return ()
    return ((f"no data for {units.whole_seconds(host.age)}", "warn"),)


def of_then(host: HostSample, part: Part) -> Part:
    """Without colours that say something of now, if its values are not of now."""
    return part if host.age is None else [(text, "dim") for text, _ in part]


def softirq_text(busy: Busy | None) -> Part:
    """Interrupts and softirqs: of all cores."""
    if busy is None or not busy.cores or not busy.split:
        return ()
    share = f"{100 * (busy.irq + busy.softirq) / busy.cores:3.0f} %"
    return (("softirq ", "dim"), (share, ""), (f" of {busy.cores}", "dim"))


def steal_text(busy: Busy | None) -> Part:
    """Steal time, if it is so high that the run is not ranked."""
    if busy is None or busy.steal_share <= MAX_STEAL_SHARE:
        return ()
    return (("steal ", "dim"), (f"{100 * busy.steal_share:.0f} %", "warn"))


def ready_text(load: HostLoad) -> Part:
    """CPU ready of an end that is a virtual machine of this host, if it is so high that the run is
    not ranked."""
    worst, most = "", MAX_READY_SHARE
    for machine in load.machines:
        if machine.end and machine.ready is not None and machine.ready > most:
            worst, most = machine.end, machine.ready
    if not worst:
        return ()
    return ((f"ready {clean(worst)} ", "dim"), (f"{100 * most:.0f} %", "warn"))


def hottest_text(busy: Busy | None, *, brief: bool = False) -> Part:
    """The busiest core, marked if it is full, and its share of softirq."""
    if busy is None:
        return ()
    tone = _core_tone(busy)
    mark = " ▲" if tone else "  "
    if busy.cores > 1 and round(100 * (busy.share + busy.steal_share)) >= 100:
        return (("all ", "dim"), (f"CPUs 100 %{mark}", tone))  # none is the hottest
    core: Span = (f"CPU{busy.hottest} {100 * busy.hottest_busy:3.0f} %{mark}", tone)
    if brief:
        return (("hottest ", "dim"), core)
    softirq = ""
    if busy.hottest_softirq >= MIN_SHOWN_SHARE:
        softirq = f" (softirq {100 * busy.hottest_softirq:.0f} %)"
    return (("hottest ", "dim"), core, (softirq, tone or "dim"))


def _core_tone(busy: Busy) -> str:
    """Of the busiest core; "": it is not full."""
    if busy.hottest_softirq >= SATURATED:
        return "bad"
    return "warn" if busy.hottest_busy >= FULL_CORE_SHARE else ""


def split_text(busy: Busy | None, glyphs: Glyphs, *, brief: bool = False) -> Part:
    """All kinds of work with their marks, per cent of all cores; brief: without those that are
    nothing."""
    if busy is None:
        return ()
    spans: list[Span] = []
    for kind, share in zip(KINDS, shares(busy), strict=True):
        is_nothing = share < MIN_SHOWN_SHARE
        if brief and is_nothing:
            continue
        mark, name = kind_label(kind, glyphs)
        spans.append((f" {mark}" if spans else mark, kind))
        spans.append((f"{name} {100 * share:.0f}", "dim" if is_nothing else ""))
    return spans


def network_parts(host: HostSample, values: RunSample, *, brief: bool = False) -> list[Part]:
    """Sending connections, queue (see `carrying_text`) or vhost threads, and NIC: the most
    informative first."""
    name, is_moment, names_seconds = host.host.host, values.is_moment, values.names_seconds
    parts: list[Part] = []
    for flow in values.flows:
        if flow.flow.sender == name and flow.sending is not None:
            parts.append(sending_text(flow.sending, names_seconds=names_seconds))
    for flow in values.flows:
        if flow.flow.receiver == name and flow.arrival is not None:
            parts.append(datagram_text(flow.arrival, names_seconds=names_seconds))
    # beside means of the whole run it is of one moment
    carrying = carrying_text(host.carrying, brief=brief, is_last=not is_moment)
    parts.append(of_then(host, carrying))
    parts.append(of_then(host, packet_text(host.packets, is_moment=is_moment)))
    return list(filter(None, parts)) or [()]


def _interval_text(seconds: float, *, is_named: bool) -> Sequence[Span]:
    """`` in 500 ms``: that a count is not that of the whole run."""
    return [(f" in {units.duration(seconds)}", "dim")] if is_named and seconds else []


def sending_text(sending: Interval, *, names_seconds: bool = False) -> Part:
    spans: list[Span] = []
    resent = sending.retransmits
    if resent is not None:
        spans += _labelled(spans, "retransmits", units.count(resent), _alarm(resent, "warn"))
        spans += _interval_text(sending.seconds, is_named=names_seconds)
    if sending.rtt is not None:
        spans += _labelled(spans, "rtt", units.duration(sending.rtt / 1e6))
    if sending.congestion_window is not None:
        spans += _labelled(spans, "cwnd", units.bytes_(sending.congestion_window))
    return spans


def _labelled(before: Sequence[Span], label: str, value: str, style: str = "") -> Iterable[Span]:
    """A value behind its label, and both behind what is there already."""
    gap = " " if before else ""
    return ((f"{gap}{label} ", "dim"), (value, style))


def _alarm(count: int, style: str) -> str:
    """The style of something that should not be counted."""
    return style if count else ""


def datagram_text(arrival: Interval, *, names_seconds: bool = False) -> Part:
    """Lost datagrams and jitter of UDP, as the receiver counted them."""
    if arrival.lost is None:
        return ()
    lost = units.count(arrival.lost)
    if arrival.packets is not None:
        lost += f" of {units.count(arrival.packets)}"
    spans: list[Span] = [("lost ", "dim"), (lost, _alarm(arrival.lost, "bad"))]
    spans += _interval_text(arrival.seconds, is_named=names_seconds)
    if arrival.jitter is not None:
        spans += _labelled(spans, "jitter", units.duration(arrival.jitter / 1e3))
    return spans


def packet_text(packets: Packets | None, *, is_moment: bool = False) -> Part:
    """Packet rates and drops of the chosen NIC."""
    if packets is None:
        return ()
    spans: list[Span] = []
    for name, rate in (("RX", packets.received), ("TX", packets.sent)):
        if rate is not None:
            spans += _labelled(spans, name, units.packets_per_second(rate))
    label, dropped = _drops_of(packets)
    if dropped is not None:
        spans += _labelled(spans, label, units.count(dropped), _alarm(dropped, "bad"))
        spans += _interval_text(packets.seconds, is_named=is_moment)
    return spans


def _drops_of(packets: Packets) -> tuple[str, int | None]:
    """``drops``, of both directions; of one of them, where only that is counted."""
    received, sent = packets.dropped, packets.send_dropped
    if received is None:
        return "TX drops", sent
    if sent is None:
        return "RX drops", received
    return "drops", received + sent


def carrying_text(
    carrying: CarryingQueue | None, *, brief: bool = False, is_last: bool = False
) -> Part:
    """``queue 0 of 4: 97 % of packets, IRQs on CPU 2``, brief: ``queue 0: 97 % pkts, CPU 2``; of a
    hypervisor what its vhost threads cost. `is_last`: ``last: `` before it: of the last reading."""
    if carrying is None:
        return ()
    spans: list[Span] = []
    if carrying.queue is not None:
        spans += _queue_spans(carrying, carrying.queue, brief=brief)
    vhost = carrying.vhost
    if vhost is not None and vhost >= MIN_SHOWN_SHARE:
        gap = "  " if spans else ""
        spans += [(f"{gap}vhost ", "dim"), (f"{100 * vhost:.0f} % of a core", "")]
    if spans and is_last:
        spans.insert(0, ("last: ", "dim"))
    return spans


def _queue_spans(carrying: CarryingQueue, queue: int, *, brief: bool) -> Iterator[Span]:
    is_one_of_several = carrying.queues > 1
    of = f" of {carrying.queues}" if is_one_of_several and not brief else ""
    yield from (("queue ", "dim"), (f"{queue}", "title"), (of, "dim"))
    if is_one_of_several and carrying.share is not None:
        unit = "% pkts" if brief else "% of packets"
        yield f": {100 * carrying.share:.0f} {unit}", ""
    if carrying.cpus:
        yield (", CPU " if brief else ", IRQs on CPU "), "dim"
        yield format_cpu_list(carrying.cpus[:MAX_NAMED_CPUS]), ""
