"""One run in sentences, for report and screen: goodput, bottleneck, CPU cost, path, and why it may not be ranked.

Reads nothing; takes a `Result`. All sentences are cleaned: text from hosts cannot control a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.rules.wording import headline
from nictop.traffic.analysis.cpu_load import HostLoad
from nictop.traffic.analysis.loaded import added_latency
from nictop.traffic.analysis.path_proof import ProofVerdict
from nictop.traffic.generators.latency import QUANTILES, LatencySummary, samples_needed
from nictop.traffic.path.findings.sizes import best_size
from nictop.traffic.path.outcomes import round_trips
from nictop.traffic.path.result import PathDirection, PathReport
from nictop.traffic.plan.plan import Endpoint, RunPlan, TestKind
from nictop.traffic.results.caveats import after_caveat, caveat_of
from nictop.traffic.results.result import Flow, Result, SocketFigures
from nictop.traffic.results.transactions import NEAR_FLOOR, IdlePhase, TransactionFigures

Kind = Literal[
    "event", "failed", "type", "goodput", "ceiling", "sender", "held back", "client", "server", "observer", "path",
    "seen by", "path test", "path finding", "note", "not ranked", "transactions", "latency", "connect", "floor", "rtt",
    "under load", "idle", "loaded",
]  # fmt: skip
"""event: what happened to a NIC during the run. type: a command to run on the host that the sentence `failed` names.
path finding: what the path test found. under load: the latency of both phases of a loaded run and what its difference
costs; idle, loaded: all figures of a phase."""

KIND_LABELS: dict[str, str] = {
    "type": "run",
    "ceiling": "line rate",
    "held back": "bottleneck",
    "path finding": "path test",
    "seen by": "observed",
    "floor": "generator",
    "transactions": "rate",
}
"""Labels that differ from the kind, which is also a code in JSON."""

DIRECTION_TEXTS = {
    "forward": "client → server",
    "reverse": "server → client",
    "bidirectional": "both directions",
}
CostUnit = Literal["Gb/s", "transaction"]
TEST_TEXTS: dict[TestKind, str] = {
    "bulk": "bulk",
    "rr": "request/response",
    "crr": "connect/request/response/close",
    "loaded": "latency under load",
}
PATH_VERDICTS: dict[ProofVerdict, str] = {"proven": "verified", "failed": "not verified", "unknown": "not verified"}
MAX_SECONDS_APART = 0.02
"""Share by which the seconds of both ends differ before they are named: then the rates cannot be compared."""


class ResultSentence(NamedTuple):
    """A sentence about a run."""

    kind: Kind
    text: str


def result_sentences(result: Result) -> tuple[ResultSentence, ...]:
    """All sentences about a run, the most important ones first."""
    return (
        *(ResultSentence("event", clean(result.event)) for _ in range(bool(result.event))),
        *_failure(result),
        *_under_load(result),
        *_goodput(result),
        *(_transactions(result) if result.plan.test != "loaded" else ()),
        *_path(result),
        *(ResultSentence("held back", clean(result.bottleneck)) for _ in range(bool(result.bottleneck))),
        *(path_test_sentences(result.path_test.report) if result.path_test is not None else ()),
        *_limits(result),
        *_floors(result),
        *(ResultSentence(load.role, cost_text(load)) for load in result.hosts if load.busy is not None),
        *(ResultSentence("note", clean(note)) for note in result.notes),
        *_why_not_ranked(result),
    )


def plan_text(plan: RunPlan) -> str:
    """``client → server, TCP, 4 streams, 10 s, iperf3``, and all options that are not default."""
    parts = [DIRECTION_TEXTS[plan.direction], plan.protocol.upper(), count_noun(plan.streams, "stream")]
    if plan.test == "loaded":
        parts = [TEST_TEXTS[plan.test], f"bulk flow {parts[0]}", parts[2], f"requests over {plan.protocol.upper()}"]
    elif plan.has_requests:
        parts = [TEST_TEXTS[plan.test], plan.protocol.upper(), count_noun(plan.streams, "connection")]
    seconds = f"{plan.time} s" if plan.files is None else f"at most {plan.time} s"
    seconds = f"{seconds} idle, {seconds} loaded" if plan.test == "loaded" else seconds
    return ", ".join([*parts, seconds, *plan_options(plan), generator_text(plan)])


def plan_options(plan: RunPlan) -> Iterator[str]:
    """The options that are not default, without direction, protocol, streams and time: ``MSS 1000``."""
    if plan.has_requests:
        request, response = plan.sizes
        yield units.bytes_(request) if request == response else f"{units.bytes_(request)}:{units.bytes_(response)}"
    if plan.files is not None:
        yield f"{plan.files} transactions"
    if plan.rate is not None:
        yield f"{plan.rate} requests/s"
    if plan.omit:
        yield f"omit {plan.omit} s"
    if plan.bitrate is not None:
        yield f"rate {units.bits_per_second(plan.bitrate)}" + (" per stream" if plan.streams > 1 else "")
    for name, size in (("block", plan.length), ("window", plan.window)):
        if size is not None:
            yield f"{name} {units.bytes_(size)}"
    if plan.mss is not None:
        yield f"MSS {plan.mss}"
    if plan.congestion is not None:
        yield clean(plan.congestion)
    if plan.dscp is not None:
        yield f"DSCP {plan.dscp}"
    for side, cpu in (("client", plan.client_cpu), ("server", plan.server_cpu)):
        if cpu is not None:
            yield f"{side} on CPU {cpu}"
    if plan.zerocopy:
        yield "zerocopy"


def generator_text(plan: RunPlan) -> str:
    return "built-in generator" if plan.generator == "builtin" else plan.generator


def host_role_text(role: str, host: str) -> str:
    """``server vm2``; ``server`` if the host has that name."""
    return clean(role if host == role else f"{role} {host}")


def endpoint_text(endpoint: Endpoint, nic: str | None) -> str:
    """``a ens4 192.0.2.1``"""
    return " ".join(clean(part) for part in (endpoint.host, nic, endpoint.address) if part)


def endpoints_text(result: Result) -> str:
    """``a ens4 192.0.2.1 → b ens5 192.0.2.2 port 5201``: the sender first; the port is that of the server."""
    plan = result.plan
    client = endpoint_text(plan.client, result.facts.get("client nic"))
    server = f"{endpoint_text(plan.server, result.facts.get('server nic'))} port {plan.port}"
    first, second = (server, client) if plan.direction == "reverse" else (client, server)
    return f"{first} {plan.drawn_ends[1]} {second}"


def hosts_text(plan: RunPlan) -> str:
    """``a → b``: the sender first."""
    first, arrow, second = plan.drawn_ends
    return f"{clean(first.host)} {arrow} {clean(second.host)}"


# ------------------------------------------------------------------------------------------------- the sentences


def _failure(result: Result) -> Iterator[ResultSentence]:
    if result.failure is None:
        return
    yield ResultSentence("failed", clean(result.failure.sentence))
    if result.failure.commands:
        which = "one of these commands" if len(result.failure.commands) > 1 else "this command"
        closes = "; it also closes the port again" if result.failure.opens else ""
        yield ResultSentence("failed", f"run {which} on {clean(result.failure.host)}{closes}")
        yield from (ResultSentence("type", clean(command)) for command in result.failure.commands)


def _goodput(result: Result) -> Iterator[ResultSentence]:
    caveat = caveat_of(result)
    for flow in result.flows:
        if flow.goodput is not None:
            yield ResultSentence("goodput", after_caveat(_goodput_text(result, flow), caveat))
    if len(result.flows) > 1 and result.goodput is not None:
        total = f"{units.bits_per_second(result.goodput)} total of both directions"
        yield ResultSentence("goodput", after_caveat(total, caveat))


def _transactions(result: Result) -> Iterator[ResultSentence]:
    figures, plan = result.transactions, result.plan
    if figures is None:
        return
    rate, count = units.quantity(figures.rate, ""), units.count(figures.latency.count)
    name = "connections" if plan.test == "crr" else "transactions"
    text = f"{rate} {name}/s ({count} in {units.duration(figures.seconds)}){_of_requested(result)}"
    if plan.files is not None:
        text = f"{count} transactions in {units.duration(figures.seconds)} ({rate}/s)"
    if figures.lost or plan.protocol == "udp":
        sent = figures.latency.count + figures.lost
        text += f"; {units.count(figures.lost)} of {count_noun(sent, 'request')} lost"
        text += f" ({units.percentage(figures.lost_share)})" if figures.lost else ""
    if figures.ended_early:
        text += f"; ended early: {clean(figures.ended_early)}"
    yield ResultSentence("transactions", after_caveat(text, caveat_of(result)))
    if figures.latency.count:
        yield ResultSentence("latency", latency_text(figures.latency.summary()))
    if figures.connect is not None and figures.connect.count:
        yield ResultSentence("connect", latency_text(figures.connect.summary()))


def _under_load(result: Result) -> Iterator[ResultSentence]:
    figures, medians = result.transactions, added_latency(result)
    if figures is None or result.plan.test != "loaded":
        return
    if medians is not None and result.goodput:
        yield ResultSentence("under load", after_caveat(under_load_text(result), caveat_of(result)))
    if figures.idle is not None:
        yield ResultSentence("idle", _phase_text(figures.idle))
    if figures.loaded_since is not None:
        yield ResultSentence("loaded", _phase_text(figures))


def under_load_text(result: Result) -> str:
    """``p50 310 µs idle, 48.2 ms loaded (155×: 47.9 ms more for each round trip) at 94.1 Mb/s: packets wait in a queue
    (bufferbloat, about 564 kB); p99 1.20 ms idle, 61.0 ms loaded``; "" if a median is not known."""
    figures, medians = result.transactions, added_latency(result)
    if figures is None or figures.idle is None or medians is None:
        return ""
    idle, loaded = medians
    factor = units.significant(loaded / idle) if loaded / idle < 999.5 else units.quantity(loaded / idle, "")
    change = f"{units.duration(abs(loaded - idle))} {'more' if loaded >= idle else 'less'} for each round trip"
    text = f"p50 {units.duration(idle)} idle, {units.duration(loaded)} loaded ({factor}×: {change})"
    text += f" at {units.bits_per_second(result.goodput)}"
    text += f": {figures.delay}" if figures.delay else ""
    ends = figures.idle.latency.summary().p99, figures.latency.summary().p99
    if None not in ends:
        text += f"; p99 {units.duration(ends[0])} idle, {units.duration(ends[1])} loaded"
    if figures.floor is not None and idle <= NEAR_FLOOR * figures.floor:
        text += f"; idle is limited by the generator ({units.duration(figures.floor)} over loopback)"
    return text


def _phase_text(phase: IdlePhase | TransactionFigures) -> str:
    sent = phase.latency.count + phase.lost
    text = latency_text(phase.latency.summary()) if phase.latency.count else "no request was answered"
    text += f"; {count_noun(sent, 'request')} in {units.duration(phase.seconds)}"
    return f"{text}, {phase.lost} lost ({units.percentage(phase.lost_share)})" if phase.lost else text


def latency_text(summary: LatencySummary) -> str:
    """``p50 78.1 µs, p90 90.3 µs, p99 120 µs, p99.9 too few samples (10000 needed), min …, mean …, max 3.20 ms``"""
    parts = []
    for name, value in zip(QUANTILES, (summary.p50, summary.p90, summary.p99, summary.p999), strict=True):
        few = f"too few samples ({samples_needed(name)} needed)"
        parts.append(f"{name} {units.duration(value) if value is not None else few}")
    for name, value in (("min", summary.minimum), ("mean", summary.mean), ("max", summary.maximum)):
        parts.append(f"{name} {units.duration(value)}")
    return ", ".join(parts)


def _floors(result: Result) -> Iterator[ResultSentence]:
    """The generator alone, and the round trips that TCP measured."""
    figures = result.transactions
    if figures is None:
        return
    for one in figures.floors:
        where = clean(one.host)
        if one.latency is None:
            yield ResultSentence("floor", f"{where}: not measured over loopback ({clean(one.problem)})")
            continue
        connect = f", connect {units.duration(one.connect.p50)}" if one.connect is not None else ""
        text = f"{where}: over loopback p50 {units.duration(one.latency.p50)}{connect}"
        yield ResultSentence("floor", f"{text}, {units.per_second(one.rate)}")
    for sockets in result.sockets:
        if sockets.rtt is not None and not result.plan.has_bulk:
            yield ResultSentence(
                "rtt", f"{units.duration(sockets.rtt / 1e6)}, smoothed by TCP of {clean(sockets.host)}"
            )


def _limits(result: Result) -> Iterator[ResultSentence]:
    """The line rate, and what the senders counted."""
    if result.ceiling is not None and any(flow.goodput is not None for flow in result.flows):
        yield ResultSentence("ceiling", clean(result.ceiling.sentence))
    for flow in result.flows:
        if flow.sent is not None:
            yield ResultSentence("sender", _sent_text(result, flow))


def _goodput_text(result: Result, flow: Flow) -> str:
    text = f"{units.bits_per_second(flow.goodput)} received by {clean(flow.receiver)}"
    text += _of_requested(result) if flow is result.flows[0] else ""
    share = result.of_ceiling
    if share is not None and flow.goodput == max(one.goodput or 0.0 for one in result.flows):
        text += f", {units.percentage(share)} of line rate"
    received = flow.received
    if received is not None and received.packets:
        lost = received.lost or 0
        text += f"; {units.count(lost)} of {count_noun(received.packets, 'datagram')} lost"
        text += f" ({units.percentage(lost / received.packets)})" if lost else ""
        text += f", jitter {units.duration(received.jitter / 1e3)}" if received.jitter is not None else ""
    return text


def _of_requested(result: Result) -> str:
    """``, 81 % of the requested 1.00 Gb/s``; "" if the requested load was reached, or there is none."""
    requested, reached = result.plan.requested_load, result.load
    if not requested or reached is None or result.reached_load:
        return ""
    text = units.bits_per_second(requested) if result.plan.test == "bulk" else units.per_second(requested)
    return f", {units.percentage(reached / requested)} of the requested {text}"


def _sent_text(result: Result, flow: Flow) -> str:
    assert flow.sent is not None
    parts = [f"{units.bits_per_second(flow.sent.bits_per_second)} sent by {clean(flow.sender)}"]
    received = flow.received
    if received is not None and abs(flow.sent.seconds - received.seconds) > MAX_SECONDS_APART * received.seconds:
        parts[0] += f" in {units.duration(flow.sent.seconds)} (received in {units.duration(received.seconds)})"
    if flow.retransmits is not None:
        each = flow.retransmits_per_gigabyte
        more = f" ({units.significant(each)} per GB)" if flow.retransmits and each is not None and each < 999.5 else ""
        parts.append(f"{count_noun(flow.retransmits, 'retransmit')}{more}")
    figures = next((one for one in result.sockets if one.host == flow.sender), None)
    return ", ".join((*parts, *_socket_texts(figures)))


def _socket_texts(figures: SocketFigures | None) -> Iterator[str]:
    if figures is None:
        return
    if figures.rtt is not None:
        yield f"rtt {units.duration(figures.rtt / 1e6)}"
    if figures.congestion_window is not None:
        yield f"cwnd {count_noun(figures.congestion_window, 'segment')}"
    if figures.snd_mss is not None:
        yield f"MSS {figures.snd_mss}"
    if figures.congestion_control:
        yield clean(figures.congestion_control)


def _path(result: Result) -> Iterator[ResultSentence]:
    if result.proof is None:
        return
    verdict = PATH_VERDICTS[result.proof.verdict]
    yield ResultSentence("path", f"{verdict}: {clean(result.proof.sentence)}")
    ends = "; ".join(dict.fromkeys(one.sentence for one in result.proof.hosts))
    if ends and ends != result.proof.sentence:
        yield ResultSentence("path", clean(ends))
    for one in result.proof.observed:
        size = units.bytes_(max(one.received or 0.0, one.sent or 0.0))
        yield ResultSentence("seen by", f"{clean(one.end.host)}: {clean(one.name)} carried {size}")


def path_test_sentences(report: PathReport) -> Iterator[ResultSentence]:
    """What the path test before the run found, then what it measured in each direction."""
    for finding in report.findings:
        yield ResultSentence("path finding", f"{finding.severity}: {clean(headline(finding, several_hosts=True))}")
    for direction in report.result.directions:
        ends = f"{clean(direction.sender.host)} → {clean(direction.receiver.host)}"
        yield ResultSentence("path test", f"{ends}: {_direction_text(direction)}")


def _direction_text(direction: PathDirection) -> str:
    """``RTT median 161 µs; largest packet 1500 of 1500 bytes``"""
    test = direction.test
    if test is None:
        return f"not tested: {clean(direction.failure)}"
    times = next(filter(None, map(round_trips, test.replies)), None)
    parts = [f"RTT median {units.duration(times.median)}"] if times else []
    size = best_size(test)
    if size is not None:
        at_least = "" if size.complete else " or more"
        parts.append(f"largest packet {size.largest}{at_least} of {size.limit} bytes")
    return "; ".join(parts) or "no answer"


def cost_text(load: HostLoad) -> str:
    """``b: 0.60 of 4 cores busy on average, 0.12 core per Gb/s (user 0.10, …); hottest CPU 2: average 50 %``"""
    busy = load.busy
    if busy is None:
        return f"{clean(load.host)}: CPU not measured"
    text = f"{clean(load.host)}: {units.significant(busy.total)} of {count_noun(busy.cores, 'core')} busy on average"
    if load.per_gigabit is not None:
        text += f", {per_gigabit_text(load.per_gigabit)} core per Gb/s"
    if load.per_transaction is not None:
        text += f", {units.duration(load.per_transaction)} CPU per transaction"
    parts = (
        ("user", busy.user), ("system", busy.system), ("irq", busy.irq), ("softirq", busy.softirq),
        ("steal", busy.steal), ("guest", busy.guest),
    )  # fmt: skip
    split = ", ".join(f"{name} {units.significant(share)}" for name, share in parts if share >= units.MIN_TWO_DECIMALS)
    text += f" ({split})" if split else ""
    text += f"; hottest CPU {busy.hottest}: average {units.percentage(busy.hottest_busy)}"
    text += f", {softirq}" if (softirq := hottest_softirq_text(load)) else ""
    text += "".join(f"; {one}" for one in machine_texts(load))
    text += f"; {drops}" if (drops := ring_drops_text(load)) else ""
    return text


def hottest_softirq_text(load: HostLoad) -> str:
    """``softirq 40 %``: of the hottest CPU; "": too little to name."""
    busy = load.busy
    if busy is None or busy.hottest_softirq < units.MIN_TWO_DECIMALS:
        return ""
    return f"softirq {units.percentage(busy.hottest_softirq)}"


def ring_drops_text(load: HostLoad) -> str:
    """``12 packets dropped by the NIC``; "": none."""
    return f"{count_noun(load.ring_drops, 'packet')} dropped by the NIC" if load.ring_drops else ""


def machine_texts(load: HostLoad) -> Iterator[str]:
    """``VM web1 (server): 1.10 cores, CPU ready 0.5 %, co-stop 0 %``: of the VMs of an ESXi host the ends of the run,
    and the busiest."""
    for machine in load.machines:
        if machine.ready is not None and (machine.end or machine is load.machines[0]):
            name = f"VM {clean(machine.name)}" + (f" ({clean(machine.end)})" if machine.end else "")
            costop = f", co-stop {units.percentage(machine.costop)}" if machine.costop is not None else ""
            used = f"{units.significant(machine.cores)} cores"
            yield f"{name}: {used}, CPU ready {units.percentage(machine.ready)}{costop}"


def per_gigabit_text(cores: float) -> str:
    """CPU cores per Gb/s; may be large for slow runs."""
    return units.significant(cores) if cores < 999.5 else units.quantity(cores, "")


def cost_value_text(cost: float, unit: CostUnit) -> str:
    """CPU cost: cores per Gb/s, or seconds of CPU time per transaction."""
    return per_gigabit_text(cost) if unit == "Gb/s" else units.duration(cost)


def _why_not_ranked(result: Result) -> Iterator[ResultSentence]:
    """The reasons, without the sentence about the path, which is listed already. Failed runs need no reason."""
    if result.failure is not None:
        return
    path_sentence = result.proof.sentence if result.proof is not None else ""
    for reason in result.why_not_ranked:
        yield ResultSentence(
            "not ranked", clean(reason.removesuffix(f": {path_sentence}") if path_sentence else reason)
        )
