"""What one host did at a moment of a run, in words with their tones: CPUs, NIC, connections, queue.

Pure functions; each gives the spans of one part of a line, () for what is not known. Names of machines are cleaned.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.facts import clean
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.text import units
from nictop.model.text.glyphs import Glyphs
from nictop.traffic.analysis.cpu_load import Busy
from nictop.traffic.analysis.nic_load import Carrying, Packets
from nictop.traffic.live.flow_view import Arrival, SenderState
from nictop.traffic.live.run_view import HostSample, RunSample
from nictop.traffic.results.result import MAX_STEAL_SHARE
from nictop.tui.widgets.base.line_view import Span
from nictop.tui.widgets.charts.stacked_chart import shares
from nictop.tui.widgets.cpu.strip import KINDS, SATURATED, kind_label

Part = Sequence[Span]

ROLE_STYLES = {"client": "accent", "server": "accent", "observer": "title"}
MAX_NAMED_CPUS = 4
"""CPUs that are named of those that take the interrupts of a queue."""
FULL_CORE_SHARE = 0.95
"""Share of its time from which a core has no more to give."""


def host_label(one: HostSample) -> str:
    """``server b ens4``, clean."""
    return " ".join(part for part in (one.host.role, clean(one.host.host), one.host.nic) if part)


def cpu_words(busy: Busy | None) -> Part:
    if busy is None:
        return (("CPU not counted", "dim"),)
    share = busy.total / busy.cores if busy.cores else 0.0
    return (("CPU ", "dim"), (f"{100 * share:3.0f} %", "title"), (f" of {busy.cores}", "dim"))


def softirq_words(busy: Busy | None) -> Part:
    """Interrupts and softirqs: of all cores."""
    if busy is None or not busy.cores:
        return ()
    return (("softirq ", "dim"), (f"{100 * (busy.irq + busy.softirq) / busy.cores:3.0f} %", ""))


def steal_words(busy: Busy | None) -> Part:
    """Steal time, if it is so high that the run does not count."""
    if busy is None or busy.steal_share <= MAX_STEAL_SHARE:
        return ()
    return (("steal ", "dim"), (f"{100 * busy.steal_share:.0f} %", "warn"))


def hottest_words(busy: Busy | None, *, brief: bool = False) -> Part:
    """The busiest core, marked when it is saturated, and its share of interrupts."""
    if busy is None:
        return ()
    tone = "bad" if busy.hottest_softirq >= SATURATED else "warn" if busy.hottest_busy >= FULL_CORE_SHARE else ""
    core: Span = (f"CPU{busy.hottest} {100 * busy.hottest_busy:3.0f} %{' ▲' if tone else '  '}", tone)
    if brief:
        return (core,)
    softirq = f" softirq {100 * busy.hottest_softirq:.0f} %" if busy.hottest_softirq >= 0.005 else ""
    return (("hottest ", "dim"), core, (softirq, tone or "dim"))


def split_words(busy: Busy | None, glyphs: Glyphs, *, brief: bool = False) -> Part:
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


def network_parts(one: HostSample, values: RunSample) -> list[Part]:
    """Sending connections, NIC, and queue or vhost threads: the most informative first."""
    sending = [flow.sending for flow in values.flows if flow.flow.sender == one.host.host]
    arrived = [flow.arrival for flow in values.flows if flow.flow.receiver == one.host.host]
    parts: list[Part] = [sending_words(known) for known in sending if known is not None]
    parts += [datagram_words(known) for known in arrived if known is not None]
    parts += [packet_words(one.packets), carrying_words(one.carrying)]
    return [part for part in parts if part] or [()]


def sending_words(one: SenderState) -> Part:
    spans: list[Span] = []
    if one.retransmits is not None:
        spans += [("retransmits ", "dim"), (units.count(one.retransmits), "warn" if one.retransmits else "")]
    if one.rtt is not None:
        spans += [(" rtt " if spans else "rtt ", "dim"), (units.duration(one.rtt / 1e6), "")]
    if one.congestion_window is not None:
        spans += [(" cwnd " if spans else "cwnd ", "dim"), (units.bytes_(one.congestion_window), "")]
    return spans


def datagram_words(one: Arrival) -> Part:
    """Lost datagrams and jitter of UDP, as the receiver counted them."""
    if one.lost is None:
        return ()
    of = f" of {units.count(one.packets)}" if one.packets is not None else ""
    spans: list[Span] = [("lost ", "dim"), (f"{units.count(one.lost)}{of}", "bad" if one.lost else "")]
    if one.jitter is not None:
        spans += [(" jitter ", "dim"), (units.duration(one.jitter / 1e3), "")]
    return spans


def packet_words(one: Packets | None) -> Part:
    """Packet rates and drops of the chosen NIC."""
    if one is None:
        return ()
    spans: list[Span] = []
    for name, rate in (("in", one.received), ("out", one.sent)):
        if rate is not None:
            spans += [(f" {name} " if spans else f"{name} ", "dim"), (units.packets_per_second(rate), "")]
    if one.dropped is not None:
        spans += [(" drops " if spans else "drops ", "dim"), (units.count(one.dropped), "bad" if one.dropped else "")]
    return spans


def carrying_words(one: Carrying | None) -> Part:
    """``queue 0 of 4 has 97 % on CPU 2``; of a hypervisor what its vhost threads cost."""
    if one is None:
        return ()
    spans: list[Span] = []
    if one.queue is not None:
        spans += [("queue ", "dim"), (f"{one.queue}", "title"), (f" of {one.queues}" if one.queues > 1 else "", "dim")]
        if one.share is not None and one.queues > 1:
            spans += [(" has ", "dim"), (f"{100 * one.share:.0f} %", "")]
        if one.cpus:
            spans += [(" on CPU ", "dim"), (format_cpu_list(one.cpus[:MAX_NAMED_CPUS]), "")]
    if one.vhost is not None:
        spans += [("  vhost " if spans else "vhost ", "dim"), (f"{100 * one.vhost:.0f} % of a core", "")]
    return spans
