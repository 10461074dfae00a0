"""What held a run back, in one sentence with its evidence.

Reads nothing; takes a `Result`. Looked for in the order in which one hides the next: the rate asked for, the wire,
the hypervisor, a core that is full, windows, packets that are lost. Nothing found is said too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nictop.model import units
from nictop.model.wording.text import clean
from nictop.traffic.load import HostLoad
from nictop.traffic.result import MOST_STEAL, Flow, Result

AT_CEILING = 0.97
"""Share of the ceiling: measured runs over a shaped wire reach 0.995 to 1.000 of it, UDP 0.982."""
ABOVE_CEILING = 1.02
AT_BITRATE = 0.98
FULL_CORE = 0.93
"""Share of a core's time: a tick or two are always missing."""
MOSTLY = 0.5
LIMITED = 0.3
"""Share of the time with data to send."""
MANY_RETRANSMITS = 100.0
"""Per GB: one segment in seven thousand."""
MANY_LOST = 0.01

Queues = Mapping[str, int]
"""Host → receive queues of the chosen NIC in use."""
Cause = Callable[[Result, Flow, Queues], "str | None"]


def bottleneck(result: Result, queues: Queues | None = None) -> str:
    """The sentence; "" for a run without goodput."""
    flows = [flow for flow in result.flows if flow.goodput is not None]
    if not flows:
        return ""
    flow = max(flows, key=lambda one: one.goodput or 0.0)
    for cause in (_bitrate, _ceiling, _steal, _receiver, _sender, _drops, _windows, _losses):
        sentence = cause(result, flow, queues or {})
        if sentence is not None:
            return sentence
    return _nothing(result, flow)


def _bitrate(result: Result, flow: Flow, queues: Queues) -> str | None:
    asked = (result.plan.bitrate or 0) * result.plan.streams
    if not asked or (flow.goodput or 0.0) < AT_BITRATE * asked:
        return None
    return f"the bitrate that was asked for: {units.bits_per_second(asked)}"


def _ceiling(result: Result, flow: Flow, queues: Queues) -> str | None:
    share, ceiling = result.of_ceiling, result.ceiling
    if share is None or ceiling is None or share < AT_CEILING:
        return None
    if share > ABOVE_CEILING:
        return (
            f"no wire: {units.percentage(share)} of the ceiling ({ceiling.sentence}), so that the bytes did not all "
            "take it, or packets were still unsegmented where they were counted"
        )
    return f"the wire: {units.percentage(share)} of the ceiling, {ceiling.sentence}"


def _steal(result: Result, flow: Flow, queues: Queues) -> str | None:
    for load in _ends(result, flow):
        if load.busy is not None and load.busy.steal_share > MOST_STEAL:
            taken = units.percentage(load.busy.steal_share)
            return f"the hypervisor of {clean(load.host)}: it gave {taken} of its CPU time to others (steal)"
    return None


def _receiver(result: Result, flow: Flow, queues: Queues) -> str | None:
    return _full_core(_load(result, flow.receiver), "receiver", queues)


def _sender(result: Result, flow: Flow, queues: Queues) -> str | None:
    return _full_core(_load(result, flow.sender), "sender", {})


def _full_core(load: HostLoad | None, end: str, queues: Queues) -> str | None:
    busy = load.busy if load is not None else None
    if load is None or busy is None or busy.hottest_busy < FULL_CORE:
        return None
    where = f"the {end}'s CPU {busy.hottest} on {clean(load.host)}"
    if busy.hottest_softirq >= MOSTLY * busy.hottest_busy:
        number = queues.get(load.host)
        queue = {None: "", 1: ", single queue"}.get(number, f", {number} queues")
        return f"{where}: {units.percentage(busy.hottest_softirq)} softirq{queue}"
    return (
        f"{where}: {units.percentage(busy.hottest_busy)} busy, most of it outside of interrupts: the application's core"
    )


def _drops(result: Result, flow: Flow, queues: Queues) -> str | None:
    load = _load(result, flow.receiver)
    if load is None or not load.ring_drops or not _loses(flow):
        return None
    return f"the ring of {clean(load.host)}: its NIC dropped {units.count(load.ring_drops)} packets it had no room for"


def _windows(result: Result, flow: Flow, queues: Queues) -> str | None:
    figures = next((one for one in result.sockets if one.host == flow.sender), None)
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


def _losses(result: Result, flow: Flow, queues: Queues) -> str | None:
    if not _loses(flow):
        return None
    if flow.received is not None and flow.received.lost and flow.received.packets:
        share = units.percentage(flow.received.lost / flow.received.packets)
        return f"packets that are lost on the way: {share} of the datagrams did not arrive"
    each = units.significant(flow.retransmits_per_gigabyte or 0.0)
    return f"packets that are lost on the way: {each} retransmits per GB"


def _loses(flow: Flow) -> bool:
    lost = flow.received.lost if flow.received is not None else None
    packets = flow.received.packets if flow.received is not None else None
    if lost is not None and packets:
        return lost / packets >= MANY_LOST
    return (flow.retransmits_per_gigabyte or 0.0) >= MANY_RETRANSMITS


def _nothing(result: Result, flow: Flow) -> str:
    """What was looked at, so that nobody looks there again."""
    seen = [
        f"{clean(load.host)} CPU {load.busy.hottest} at {units.percentage(load.busy.hottest_busy)}"
        for load in _ends(result, flow)
        if load.busy is not None
    ]
    share = result.of_ceiling
    seen += [f"{units.percentage(share)} of the ceiling"] if share is not None else []
    return f"not found: {', '.join(seen) or 'nothing was counted'}; it may lie between the hosts, or below a guest"


def _load(result: Result, host: str) -> HostLoad | None:
    return next((load for load in result.hosts if load.host == host), None)


def _ends(result: Result, flow: Flow) -> list[HostLoad]:
    return [load for host in (flow.receiver, flow.sender) if (load := _load(result, host)) is not None]
