"""The figures of one host at one time of a run, as text with styles: CPUs, NIC, connections, queue.

Pure functions; each returns the spans of one part of a line, () if nothing is known. Names are cleaned.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.facts import clean
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.text import units
from nictop.model.text.glyphs import Glyphs
from nictop.traffic.analysis.cpu_load import Busy, HostLoad
from nictop.traffic.analysis.nic_load import CarryingQueue, Packets
from nictop.traffic.live.flow_view import ReceivedInterval, SenderState
from nictop.traffic.live.host_view import HostLoadView
from nictop.traffic.live.run_view import HostSample, RunSample
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.results.result import MAX_READY_SHARE, MAX_STEAL_SHARE
from nictop.tui.widgets.base.line_view import Span
from nictop.tui.widgets.charts.stacked_chart import shares
from nictop.tui.widgets.cpu.strip import KINDS, SATURATED, kind_label

Part = Sequence[Span]

ROLE_STYLES = {"client": "accent", "server": "accent", "observer": "title"}
MAX_NAMED_CPUS = 4
"""CPUs of a queue that are listed."""
MIN_VHOST_SHARE = 0.005
"""Of a core: less is 0 %, as on a host without virtual machines."""
FULL_CORE_SHARE = 0.95
"""Share of its time from which a core is marked as full."""


def host_label(one: HostLoadView, plan: RunPlan) -> str:
    """``RX b:ens4``, ``observer pve``: the direction of the payload, host and NIC, clean; ``server b:ens4`` if both
    directions carry little."""
    name = f"{clean(one.host)}:{one.nic}" if one.nic else clean(one.host)
    if one.role == "observer" or not plan.sending:
        return f"{one.role} {name}"
    if len(plan.sending) > 1:
        return f"RX+TX {name}"
    return f"{'TX' if one.role in plan.sending else 'RX'} {name}"


def cpu_text(busy: Busy | None) -> Part:
    """Of all CPUs; ``CPU –`` where no window of the run has been measured: n/a is what a driver does not support."""
    if busy is None:
        return ((f"CPU {units.UNKNOWN}", "dim"),)
    share = busy.total / busy.cores if busy.cores else 0.0
    return (("CPU ", "dim"), (f"{100 * share:3.0f} %", "title"), (f" of {busy.cores}", "dim"))


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


def ready_text(load: HostLoad | None) -> Part:
    """CPU ready of an end that is a virtual machine of this host, if it is so high that the run is not ranked."""
    known = [one for one in load.machines if one.end and one.ready is not None] if load is not None else []
    worst = max(known, key=lambda one: one.ready or 0.0, default=None)
    if worst is None or worst.ready is None or worst.ready <= MAX_READY_SHARE:
        return ()
    return ((f"ready {clean(worst.end)} ", "dim"), (f"{100 * worst.ready:.0f} %", "warn"))


def hottest_text(busy: Busy | None, *, brief: bool = False) -> Part:
    """The busiest core, marked if it is full, and its share of softirq."""
    if busy is None:
        return ()
    tone = "bad" if busy.hottest_softirq >= SATURATED else "warn" if busy.hottest_busy >= FULL_CORE_SHARE else ""
    core: Span = (f"CPU{busy.hottest} {100 * busy.hottest_busy:3.0f} %{' ▲' if tone else '  '}", tone)
    if brief:
        return (("hottest ", "dim"), core)
    softirq = f" (softirq {100 * busy.hottest_softirq:.0f} %)" if busy.hottest_softirq >= 0.005 else ""
    return (("hottest ", "dim"), core, (softirq, tone or "dim"))


def split_text(busy: Busy | None, glyphs: Glyphs, *, brief: bool = False) -> Part:
    """All kinds of work with their marks, per cent of all cores; brief: without those that are nothing."""
    if busy is None:
        return ()
    spans: list[Span] = []
    for kind, share in zip(KINDS, shares(busy), strict=True):
        if brief and share < 0.005:
            continue
        mark, name = kind_label(kind, glyphs)
        gap = " " if spans else ""
        spans += [(f"{gap}{mark}", kind), (f"{name} {100 * share:.0f}", "" if share >= 0.005 else "dim")]
    return spans


def network_parts(one: HostSample, values: RunSample, *, brief: bool = False) -> list[Part]:
    """Sending connections, queue (see `carrying_text`) or vhost threads, and NIC: the most informative first."""
    sending = [flow.sending for flow in values.flows if flow.flow.sender == one.host.host]
    arrived = [flow.arrival for flow in values.flows if flow.flow.receiver == one.host.host]
    moment = values.is_moment
    parts: list[Part] = [sending_text(known, is_moment=moment) for known in sending if known is not None]
    parts += [datagram_text(known, is_moment=moment) for known in arrived if known is not None]
    parts += [carrying_text(one.carrying, brief=brief), packet_text(one.packets, is_moment=moment)]
    return [part for part in parts if part] or [()]


def _interval_text(seconds: float, *, is_moment: bool) -> Sequence[Span]:
    """`` in 500 ms``: that a count is not that of the whole run."""
    return [(f" in {units.duration(seconds)}", "dim")] if is_moment and seconds else []


def sending_text(one: SenderState, *, is_moment: bool = False) -> Part:
    spans: list[Span] = []
    if one.retransmits is not None:
        spans += [("retransmits ", "dim"), (units.count(one.retransmits), "warn" if one.retransmits else "")]
        spans += _interval_text(one.seconds, is_moment=is_moment)
    if one.rtt is not None:
        spans += [(" rtt " if spans else "rtt ", "dim"), (units.duration(one.rtt / 1e6), "")]
    if one.congestion_window is not None:
        spans += [(" cwnd " if spans else "cwnd ", "dim"), (units.bytes_(one.congestion_window), "")]
    return spans


def datagram_text(one: ReceivedInterval, *, is_moment: bool = False) -> Part:
    """Lost datagrams and jitter of UDP, as the receiver counted them."""
    if one.lost is None:
        return ()
    of = f" of {units.count(one.packets)}" if one.packets is not None else ""
    spans: list[Span] = [("lost ", "dim"), (f"{units.count(one.lost)}{of}", "bad" if one.lost else "")]
    spans += _interval_text(one.seconds, is_moment=is_moment)
    if one.jitter is not None:
        spans += [(" jitter ", "dim"), (units.duration(one.jitter / 1e3), "")]
    return spans


def packet_text(one: Packets | None, *, is_moment: bool = False) -> Part:
    """Packet rates and drops of the chosen NIC."""
    if one is None:
        return ()
    spans: list[Span] = []
    for name, rate in (("RX", one.received), ("TX", one.sent)):
        if rate is not None:
            spans += [(f" {name} " if spans else f"{name} ", "dim"), (units.packets_per_second(rate), "")]
    if one.dropped is not None:
        spans += [(" drops " if spans else "drops ", "dim"), (units.count(one.dropped), "bad" if one.dropped else "")]
        spans += _interval_text(one.seconds, is_moment=is_moment)
    return spans


def carrying_text(one: CarryingQueue | None, *, brief: bool = False) -> Part:
    """``queue 0 of 4: 97 % of packets, IRQs on CPU 2``, brief: ``queue 0: 97 % pkts, CPU 2``; of a hypervisor what its
    vhost threads cost."""
    if one is None:
        return ()
    spans: list[Span] = []
    if one.queue is not None:
        of = f" of {one.queues}" if one.queues > 1 and not brief else ""
        spans += [("queue ", "dim"), (f"{one.queue}", "title"), (of, "dim")]
        has_share = one.share is not None and one.queues > 1
        if has_share:
            unit = "% pkts" if brief else "% of packets"
            spans.append((f": {100 * (one.share or 0.0):.0f} {unit}", ""))
        if one.cpus:
            words = ", CPU " if brief else ", IRQs on CPU "
            spans += [(words, "dim"), (format_cpu_list(one.cpus[:MAX_NAMED_CPUS]), "")]
    if one.vhost is not None and one.vhost >= MIN_VHOST_SHARE:
        spans += [("  vhost " if spans else "vhost ", "dim"), (f"{100 * one.vhost:.0f} % of a core", "")]
    return spans
