"""One run in sentences, for report and screen: goodput, bottleneck, CPU cost, path, and why it may
not be ranked.

Reads nothing; takes a `Result`. All sentences are cleaned: text from hosts cannot control a
terminal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.probe.kernel.exits import signal_text
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import PathTest, StorageActivity
from nictop.rules.wording import headline
from nictop.traffic.analysis.loaded import PHASE_MARGIN_SECONDS, added_latency
from nictop.traffic.failures import Failure
from nictop.traffic.generators.intervals import Total
from nictop.traffic.generators.latency import QUANTILES, LatencySummary, samples_needed
from nictop.traffic.path.findings.sizes import best_size
from nictop.traffic.path.findings.tested_direction import differing_round_trips
from nictop.traffic.path.outcomes import round_trips
from nictop.traffic.path.result import PathDirection, PathReport
from nictop.traffic.plan.plan import NETWORK, Endpoint, RunPlan, TestKind
from nictop.traffic.results.caveats import after_caveat, caveat_of
from nictop.traffic.results.host_load import Busy, HostLoad, Machine
from nictop.traffic.results.measures import figure_text
from nictop.traffic.results.path_proof import ProofVerdict
from nictop.traffic.results.result import Flow, Result, SocketFigures, is_same_time
from nictop.traffic.results.transactions import NEAR_FLOOR, Floor, IdlePhase, TransactionFigures
from nictop.traffic.results.workload import GuestFigures, NicTraffic, TrafficPeer, WorkloadFigures

Kind = Literal[
    "event", "failed", "type", "goodput", "ceiling", "sender", "held back", "client", "server",
    "observer", "path", "seen by", "path test", "path finding", "note", "not ranked",
    "transactions", "latency", "connect", "floor", "rtt", "under load", "idle", "loaded",
    "command", "figure", "traffic", "connections", "cpu time", "output", "foreign",
    "foreign client", "storage", "guest", "measured",
]  # fmt: skip
"""event: what happened to a NIC during the run. type: a command to run on the host that the
sentence `failed` names. path finding: what the path test found. under load: the latency of both
phases of a loaded run and what its difference costs; idle, loaded: all figures of a phase."""

KIND_LABELS: dict[str, str] = {
    "type": "run",
    "ceiling": "line rate",
    "held back": "bottleneck",
    "path finding": "path test",
    "seen by": "observed",
    "floor": "generator",
    "transactions": "rate",
    "cpu time": "processes",
    "connections": "whose",
    "foreign": "server",
    "foreign client": "client",
}
"""Labels that differ from the kind, which is also a code in JSON."""

DIRECTION_TEXTS = {
    "forward": "client → server",
    "reverse": "server → client",
    "bidirectional": "both directions",
}
CostUnit = Literal["Gb/s", "transaction", "busy"]
"""busy: cores, of runs without a cost per Gb/s."""
TEST_TEXTS: dict[TestKind, str] = {
    "bulk": "bulk",
    "rr": "request/response",
    "crr": "connect/request/response/close",
    "loaded": "latency under load",
    "workload": "workload",
    "manual": "traffic of the NIC",
}
PATH_VERDICTS: dict[ProofVerdict, str] = {
    "proven": "verified",
    "failed": "not verified",
    "unknown": "not verified",
}
BUSY_KINDS = ("user", "system", "irq", "softirq", "steal", "guest")
"""Of CPU time."""
SHOWING_WORDS = frozenset({"show", "list"})
"""One of these is in a command that changes nothing, of ip(8) and nft(8)."""
FIREWALLS = ("firewall-cmd", "ufw", "nft")
"""Programs of commands that open a port; those of several: it is not known which firewall it is."""
MAX_SIGNIFICANT = 999.5
"""From here on three digits are no whole number."""
MAX_NICS_IN_SENTENCE, MAX_PEERS_IN_SENTENCE, MAX_OUTPUT_LINES = 4, 3, 6
MAX_DEVICES_IN_RESULT = 4
MIN_REST_SHARE = 0.01
MIN_EMPTY_SECONDS = 0.5
"""At the end of a run, for which it is said that nothing was received any more."""
REPORTED = " (reported by iperf3)"
ACKNOWLEDGED = " (acknowledged by its TCP)"
NO_OWN_CONNECTIONS = "no TCP connection of its processes was seen"
MAX_SECONDS_APART = 0.02
"""Share by which the seconds of both ends differ before they are named: then the rates cannot be
compared."""


class ResultSentence(NamedTuple):
    """A sentence about a run."""

    kind: Kind
    text: str


def result_sentences(result: Result) -> tuple[ResultSentence, ...]:
    """All sentences about a run, the most important ones first."""
    return (
        *_text_sentences("event", result.event, *result.further_events),
        *_failure(result),
        *_under_load(result),
        *workload_sentences(result),
        *_goodput(result),
        *_transactions(result),
        *_path(result),
        *_text_sentences("held back", result.bottleneck),
        *_path_test(result),
        *_limits(result),
        *_floors(result),
        *_round_trips_of_tcp(result),
        *_costs(result),
        *_foreign(result),
        *output_sentences(result),
        *_text_sentences("note", *result.notes),
        *_why_not_ranked(result),
    )


def _text_sentences(kind: Kind, *texts: str) -> Iterator[ResultSentence]:
    """One for each text that says something."""
    for text in texts:
        if text:
            yield ResultSentence(kind, clean(text))


def plan_text(plan: RunPlan, figures: TransactionFigures | None = None) -> str:
    """``client → server, TCP, 4 streams, 10 s, iperf3``, and all options that are not default.
    `figures`: see `seconds_text`."""
    if plan.is_of_one_host:
        return workload_plan_text(plan)
    options = plan_options(plan)
    return ", ".join(
        [*_test_texts(plan), seconds_text(plan, figures), *options, generator_text(plan)]
    )


def _test_texts(plan: RunPlan) -> tuple[str, ...]:
    """What is sent, in which direction, and over how many connections."""
    direction, protocol = DIRECTION_TEXTS[plan.direction], plan.protocol.upper()
    streams = count_noun(plan.streams, "stream")
    if plan.test == "loaded":
        name = TEST_TEXTS[plan.test]
        return name, f"bulk flow {direction}", streams, f"requests over {protocol}"
    if plan.has_requests:
        return TEST_TEXTS[plan.test], protocol, count_noun(plan.streams, "connection")
    return direction, protocol, streams


def seconds_text(plan: RunPlan, figures: TransactionFigures | None = None) -> str:
    """``10 s``; ``10 s idle, 10 s loaded``. `figures`: of such a run that has ended, of which each
    phase has the seconds that were measured: the first ones beside a bulk flow are not."""
    if plan.test == "loaded" and figures is not None and figures.idle is not None:
        idle = f"{units.duration(figures.idle.seconds)} idle"
        if not figures.seconds:  # none of their intervals lies wholly in that phase
            return f"{idle}, no requests measured under load"
        return f"{idle}, {units.duration(figures.seconds)} loaded"
    seconds = f"{plan.time} s" if plan.files is None else f"at most {plan.time} s"
    if plan.test == "loaded":
        return f"{seconds} idle, {seconds} loaded"
    return seconds


def measured_text(result: Result) -> str:
    """``6.00 s (planned: 10 s)``; as `seconds_text` of a run that lasted as planned."""
    seconds = off_plan_seconds(result)
    if seconds is None:
        return seconds_text(result.plan, result.transactions)
    return f"{units.duration(seconds)} (planned: {result.plan.time} s)"


def off_plan_seconds(result: Result) -> float | None:
    """Those that its figures are of; None: as planned, or nothing was measured. Latency under load
    has the seconds of each phase (`seconds_text`)."""
    plan, figures = result.plan, result.transactions
    if plan.test == "loaded" or plan.files is not None:
        return None
    if result.stopped is not None:
        seconds = [result.measured_seconds]
    elif figures is not None:
        seconds = [figures.seconds] if result.failure is not None else []
    else:
        seconds = [unplanned_seconds(result, flow) or plan.time for flow in result.flows]
    for measured in seconds:
        if not is_same_time(measured, plan.time):
            return measured
    return None


def plan_options(plan: RunPlan) -> Iterator[str]:
    """The options that are not default, without direction, protocol, streams and time: ``MSS
    1000``."""
    for value, text in _option_texts(plan):
        if value is not None:
            yield text(value)


def _option_texts(plan: RunPlan) -> Iterator[tuple[Any, Callable[[Any], str]]]:
    """The value of each option, None if it is the default, and the function that names it."""
    if plan.has_requests:
        yield plan.sizes, _sizes_text
    yield plan.files, "{} transactions".format
    yield plan.rate, "{} requests/s".format
    yield plan.omit or None, "omit {} s".format
    yield plan.bitrate, partial(_bitrate_text, plan.streams)
    yield plan.length, partial(_bytes_text, "block")
    yield plan.window, partial(_bytes_text, "window")
    yield plan.mss, "MSS {}".format
    yield plan.congestion, clean
    yield plan.dscp, "DSCP {}".format
    yield plan.client_cpu, "client on CPU {}".format
    yield plan.server_cpu, "server on CPU {}".format
    yield plan.zerocopy or None, lambda _: "zerocopy"


def _sizes_text(sizes: tuple[int, int]) -> str:
    """``1 B``, or of request and response: ``64 B:16 KiB``"""
    request, response = map(units.bytes_, sizes)
    return request if sizes[0] == sizes[1] else f"{request}:{response}"


def _bitrate_text(streams: int, bitrate: float) -> str:
    rate = f"rate {units.bits_per_second(bitrate)}"
    if streams > 1:
        rate += " per stream"
    return rate


def _bytes_text(name: str, size: float) -> str:
    return f"{name} {units.bytes_(size)}"


def generator_text(plan: RunPlan) -> str:
    return "built-in generator" if plan.generator == "builtin" else plan.generator


def host_role_text(role: str, host: str) -> str:
    """``server vm2``; ``server`` if the host has that name."""
    if host == role:
        return clean(role)
    return clean(f"{role} {host}")


def endpoint_text(endpoint: Endpoint, nic: str | None) -> str:
    """``a ens4 192.0.2.1``"""
    words = dict.fromkeys((endpoint.host, nic, endpoint.address))
    return " ".join(map(clean, filter(None, words)))


def endpoints_text(result: Result) -> str:
    """``a ens4 192.0.2.1 → b ens5 192.0.2.2 port 5201``: the sender first; the port is that of the
    server."""
    plan = result.plan
    client = endpoint_text(plan.client, result.facts.get("client nic"))
    if plan.is_of_one_host:
        return client
    server = f"{endpoint_text(plan.server, result.facts.get('server nic'))} port {plan.port}"
    first, second = (server, client) if plan.direction == "reverse" else (client, server)
    return f"{first} {plan.drawn_ends[1]} {second}"


def hosts_text(plan: RunPlan) -> str:
    """``a → b``: the sender first."""
    first, arrow, second = plan.drawn_ends
    if plan.is_of_one_host:
        return clean(first.host)
    return f"{clean(first.host)} {arrow} {clean(second.host)}"


# ------------------------------------------------------------------------------------ the sentences


def workload_plan_text(plan: RunPlan) -> str:
    """``fio job.fio, value 4K``; ``traffic of the NIC``"""
    parts = [clean(plan.workload) or TEST_TEXTS[plan.test]]
    if plan.guest:
        parts.insert(0, f"guest {clean(plan.guest)}")
    if plan.variable_value:
        parts.append(clean(f"{plan.variable_name or 'value'} {plan.variable_value}"))
    return ", ".join(parts)


def workload_sentences(result: Result) -> Iterator[ResultSentence]:
    """Of a workload, or of a measurement by hand: how it ended, the figure that it reports, and
    whose traffic the NIC carried."""
    figures = result.workload
    if figures is None:
        return
    kind: Kind = "measured" if result.plan.test == "manual" else "command"
    yield ResultSentence(kind, after_caveat(_command_text(result, figures), ""))
    if figures.figure is not None:
        measured = figure_text(figures.figure.value, figures.figure.unit)
        name = f"{clean(figures.figure.name)} {measured}"
        yield ResultSentence("figure", f"{name}, reported by the command ({figures.figure.source})")
    elif figures.no_figure:
        yield ResultSentence("figure", f"not known: {clean(figures.no_figure)}")
    for text in _nic_texts(result, figures):
        yield ResultSentence("traffic", text)
    if figures.guest is not None:
        yield ResultSentence("guest", _guest_text(result, figures.guest))
    for text in _owner_texts(figures):
        yield ResultSentence("connections", text)
    for activity in figures.storage[:MAX_DEVICES_IN_RESULT]:
        yield ResultSentence("storage", storage_text(activity))
    if figures.user_seconds is not None and figures.system_seconds is not None:
        yield ResultSentence("cpu time", _process_text(figures))


def _command_text(result: Result, figures: WorkloadFigures) -> str:
    """``12.3 s as alice: exit status 0``"""
    text = units.duration(figures.seconds)
    if figures.reason == "interval":
        return f"{text} of a recording"
    if result.plan.test == "manual":
        how = {"hand": "ended by hand", "deadline": "ended by its time limit"}
        return f"{text}: {how.get(figures.reason, 'its host was lost')}"
    if figures.user:
        text += f" as {clean(figures.user)}"
    return f"{text}: {_end_text(figures)}"


def _end_text(figures: WorkloadFigures) -> str:
    if figures.reason == "deadline":
        return "ended by its time limit"
    if figures.reason == "stopped":
        return "stopped"
    if figures.reason == "lost":
        return "its end is not known; the probe of its host ends it when the connection is lost"
    if figures.signal is not None:
        return f"ended by signal {signal_text(figures.signal)}"
    return f"exit status {figures.status}"


def _nic_texts(result: Result, figures: WorkloadFigures) -> Iterator[str]:
    """The chosen NIC, with rates; then the bytes of the others."""
    chosen = figures.chosen
    if chosen is not None:
        yield after_caveat(_chosen_nic_text(result, figures, chosen), caveat_of(result))
    others = [nic for nic in figures.nics if nic is not chosen]
    if others:
        listed = [f"{clean(nic.name)} {_nic_counts(nic)}" for nic in others[:MAX_NICS_IN_SENTENCE]]
        which = "other NICs" if chosen is not None else "no NIC was chosen (--client-nic)"
        yield f"{which}: {'; '.join(listed)}"
    if figures.nics:
        return
    if figures.chosen_ifindex is None and figures.reason != "lost":
        yield "no NIC was chosen (--client-nic), and none carried a packet"
    else:
        yield "not known: no counters of its NICs before and after"


def _chosen_nic_text(result: Result, figures: WorkloadFigures, chosen: NicTraffic) -> str:
    """``ens224: sent 5.0 GB …, received … (9.4 Gb/s sent, with headers, over 4.00 s)``"""
    name = clean(chosen.name)
    if figures.guest is not None:
        name += f", as {clean(figures.guest.name)} sees it"
    text = f"{name}: {_nic_counts(chosen)}"
    rates = []
    for flow in result.flows:
        if flow.goodput is not None:
            way = "sent" if flow.receiver == NETWORK else "received"
            rates.append(f"{units.bits_per_second(flow.goodput)} {way}")
    if rates:
        text += f" ({', '.join(rates)}, with headers, {_rated_text(result, figures)})"
    return text


def _rated_text(result: Result, figures: WorkloadFigures) -> str:
    """``over 4.00 s``: of what the rates are the mean."""
    if result.plan.test != "manual" or figures.chosen is None:
        return f"over {units.duration(figures.seconds)}"
    return f"over the {units.duration(figures.chosen.seconds)} between two readings"


def _guest_text(result: Result, guest: GuestFigures) -> str:
    """``win10: 1.10 cores (virtual CPUs 0.80, vhost 0.20, other threads 0.10), 0.12 core per Gb/s;
    seen from pve only``"""
    seen = f"seen from {clean(result.plan.client.host)} only: what runs in it is not known"
    if guest.cores is None:
        return f"{clean(guest.name)}: its CPU time is not known; {seen}"
    parts = []
    for name, cores in (
        ("virtual CPUs", guest.vcpu),
        ("vhost", guest.vhost),
        ("other threads", guest.rest),
    ):
        if cores is not None:
            parts.append(f"{name} {units.significant(cores)}")
    text = f"{clean(guest.name)}: {units.significant(guest.cores)} cores"
    if parts:
        text += f" ({', '.join(parts)})"
    gigabits = sum(flow.goodput_or_zero for flow in result.flows) / 1e9
    if gigabits > 0:
        text += f", {factor_text(guest.cores / gigabits)} core per Gb/s"
    return f"{text}; {seen}"


def _nic_counts(nic: NicTraffic) -> str:
    """``1.20 GB sent in 800 k packets, 12.0 MB received in 90.0 k packets``"""
    ways = (("sent", nic.sent_bytes, nic.sent_packets),
            ("received", nic.received_bytes, nic.received_packets))  # fmt: skip
    texts = []
    for way, size, packets in ways:
        if size is None or packets is None:
            texts.append(f"{way} not known (counter reset)")
        else:
            texts.append(f"{units.bytes_(size)} {way} in {count_noun(packets, 'packet')}")
    return ", ".join(texts)


def _owner_texts(figures: WorkloadFigures) -> Iterator[str]:
    owners, nic = figures.owners, figures.chosen
    if owners is None or nic is None or not nic.bytes:
        if figures.owners_unknown:
            yield f"whose the bytes were is not known: {clean(figures.owners_unknown)}"
        return
    shares = []
    for name, size, peers in (
        ("of its TCP connections", owners.own, owners.peers),
        ("of other processes", owners.other, owners.others),
        ("of connections of which the process is not known", owners.unknown, owners.unknowns),
    ):
        if size:
            listed = ", ".join(map(_peer_text, peers[:MAX_PEERS_IN_SENTENCE]))
            shares.append(f"{units.percentage(min(1.0, size / nic.bytes))} {name} ({listed})")
    if not owners.own:
        shares.insert(0, NO_OWN_CONNECTIONS)
    rest = max(0.0, 1 - (owners.own + owners.other + owners.unknown) / nic.bytes)
    if rest >= MIN_REST_SHARE:
        shares.append(f"{units.percentage(rest)} not known (headers, UDP, what the kernel sends "
                      "itself, the ends of connections: they are read twice a second)")  # fmt: skip
    yield f"of the bytes of {clean(nic.name)}: {'; '.join(shares)}"
    if owners.own:
        yield f"{count_noun(owners.retransmits, 'retransmit')} on its connections"


def _peer_text(peer: TrafficPeer) -> str:
    """``192.0.2.5 port 445: 1.20 GB``"""
    text = f"{clean(peer.text)}: {units.bytes_(peer.sent + peer.received)}"
    if peer.connections > 1:
        text += f" in {peer.connections} connections"
    return text


def storage_text(activity: StorageActivity) -> str:
    """``nbd0: 12.0 k reads of 4.00 KiB, 310 µs each (slowest second 1.20 ms); busy 97 %``"""
    name = clean(activity.name)
    ways = []
    for what, count, size, seconds, slowest in (
        ("read", activity.reads, activity.read_bytes, activity.read_seconds, activity.slowest_read),
        (
            "write",
            activity.writes,
            activity.written_bytes,
            activity.write_seconds,
            activity.slowest_write,
        ),
    ):
        if count:
            # counted in whole milliseconds of all requests together
            took = f"less than {units.duration(0.001 / count)}"
            if seconds > 0:
                took = units.duration(seconds / count)
            each = f"{units.bytes_(size / count)}, {took} each"
            worst = f" (slowest second {units.duration(slowest)})" if slowest else ""
            ways.append(f"{count_noun(count, what)} of {each}{worst}")
    text = f"{'NFS ' if activity.kind == 'nfs' else ''}{name}: {', '.join(ways)}"
    if activity.busy is not None:
        text += f"; busy {units.percentage(activity.busy)}"
    return text


def _process_text(figures: WorkloadFigures) -> str:
    user, system = figures.user_seconds or 0.0, figures.system_seconds or 0.0
    most = count_noun(figures.processes, "process", "processes")
    text = f"at most {most} seen at a time, CPU time {units.duration(user + system)}"
    return f"{text} ({units.duration(user)} user, {units.duration(system)} system)"


def output_sentences(result: Result) -> Iterator[ResultSentence]:
    """The last lines that a command wrote."""
    figures = result.workload
    if figures is None or result.plan.test != "workload":
        return
    for name, lines, size in (
        ("standard output", figures.stdout, figures.stdout_bytes),
        ("standard error", figures.stderr, figures.stderr_bytes),
    ):
        if not size:
            continue
        end = ", its end:" if lines else ", not in this report"
        yield ResultSentence("output", f"{name}, {units.bytes_(size)}{end}")
        for line in lines[-MAX_OUTPUT_LINES:]:
            if line.strip():
                yield ResultSentence("output", clean(line))


def _failure(result: Result) -> Iterator[ResultSentence]:
    failure = result.failure
    if failure is None:
        return
    yield ResultSentence("failed", clean(failure.sentence))
    if failure.commands:
        yield ResultSentence("failed", _commands_text(failure))
        yield from _text_sentences("type", *failure.commands)


def _commands_text(failure: Failure) -> str:
    """What the commands are for: not all of them change something."""
    commands, host = failure.commands, clean(failure.host)
    these, it = ("these commands", "they") if len(commands) > 1 else ("this command", "it")
    if all(SHOWING_WORDS.intersection(line.split()) for line in commands):
        return f"more about it on {host}: {these}"
    if not failure.opens:
        return f"run {these} on {host}"
    firewalls = [name for name in FIREWALLS if any(f"{name} " in line for line in commands)]
    if len(firewalls) > 1:
        these = "the commands of its firewall"
    plural = "" if it == "they" else "s"
    return f"run {these} on {host}; {it} also close{plural} the port again"


def _goodput(result: Result) -> Iterator[ResultSentence]:
    if result.plan.is_of_one_host:
        return
    caveat = caveat_of(result)
    for flow in result.flows:
        if flow.goodput is not None:
            yield ResultSentence("goodput", after_caveat(_goodput_text(result, flow), caveat))
    if len(result.flows) > 1 and result.goodput is not None:
        total = f"{units.bits_per_second(result.goodput)} total of both directions"
        common = result.common_seconds
        if common is not None:
            total += f", mean of the first {units.duration(common)}"
        yield ResultSentence("goodput", after_caveat(total, caveat))


def _transactions(result: Result) -> Iterator[ResultSentence]:
    figures = result.transactions
    if figures is None or result.plan.test == "loaded":  # both phases of that are sentences
        return
    text = "; ".join(_transaction_texts(result, figures))
    yield ResultSentence("transactions", after_caveat(text, caveat_of(result)))
    if figures.latency.count:
        yield ResultSentence("latency", latency_text(figures.latency.summary()))
    if figures.connect is not None and figures.connect.count:
        yield ResultSentence("connect", latency_text(figures.connect.summary()))


def _transaction_texts(result: Result, figures: TransactionFigures) -> Iterator[str]:
    """Their rate, how many were lost, and why they ended early."""
    plan = result.plan
    rate, count = units.quantity(figures.rate, ""), units.count(figures.latency.count)
    seconds = units.duration(figures.seconds)
    name = "connections" if plan.test == "crr" else "transactions"
    empty = _nothing_after_text(result, _answers(figures))
    if plan.files is None:
        yield f"{rate} {name}/s ({count} in {seconds}{empty}){_of_requested(result)}"
    else:
        yield f"{count} transactions in {seconds} ({rate}/s){empty}"
    if figures.lost or plan.protocol == "udp":
        sent = count_noun(figures.latency.count + figures.lost, "request")
        yield lost_text(figures.lost, sent, figures.lost_share)
    if figures.ended_early:
        yield f"ended early: {clean(figures.ended_early)}"


TimedData = tuple[float, bool]
"""End of an interval on the axis of a run, and whether something was received in it."""


def _answers(figures: TransactionFigures) -> list[TimedData]:
    return [(point.time, point.latency.count > 0) for point in figures.points]


def _arrivals(flow: Flow) -> list[TimedData]:
    """As its receiver reported them."""
    points = (point for point in flow.points if not point.interval.sends)
    return [(point.time, point.interval.bytes > 0) for point in points]


def _nothing_after_text(result: Result, reported: Sequence[TimedData]) -> str:
    """``, nothing after 4.00 s``, of a run that failed or to whose NICs something happened: its
    figures are of before; "": data was received up to its last intervals, or never."""
    times = [time for time, has_data in reported if has_data]
    if not times or not _is_disturbed(result):
        return ""
    last, end = times[-1], reported[-1][0]
    if last <= 0 or end - last < MIN_EMPTY_SECONDS:
        return ""
    return f", nothing after {units.duration(last)}"


def _is_disturbed(result: Result) -> bool:
    return result.failure is not None or bool(result.event)


def lost_text(lost: int, of_sent: str, share: float) -> str:
    """``3 of 1000 datagrams lost (0.3 %)``"""
    text = f"{units.count(lost)} of {of_sent} lost"
    if lost:
        text += f" ({units.percentage(share)})"
    return text


def _under_load(result: Result) -> Iterator[ResultSentence]:
    figures, medians = result.transactions, added_latency(result)
    if figures is None or result.plan.test != "loaded":
        return
    if medians is not None and result.goodput:
        yield ResultSentence("under load", after_caveat(under_load_text(result), caveat_of(result)))
    if figures.idle is not None:
        yield ResultSentence("idle", _phase_text(figures.idle, result))
    if figures.loaded_since is not None:
        yield ResultSentence("loaded", _phase_text(figures, result))


def under_load_text(result: Result) -> str:
    """``p50 310 µs idle, 48.2 ms loaded (155×: 47.9 ms more for each round trip) at 94.1 Mb/s:
    packets wait in a queue (bufferbloat, about 564 kB); p99 1.20 ms idle, 61.0 ms loaded``; "" if a
    median is not known."""
    figures, medians = result.transactions, added_latency(result)
    if figures is None or figures.idle is None or medians is None:
        return ""
    idle, loaded = medians
    text = f"p50 {units.duration(idle)} idle, {units.duration(loaded)} loaded"
    text += f" ({_added_latency_text(idle, loaded)}) at {units.bits_per_second(result.goodput)}"
    if figures.delay:
        text += f": {figures.delay}"
    ends = figures.idle.latency.summary().p99, figures.latency.summary().p99
    if None not in ends:
        text += f"; p99 {units.duration(ends[0])} idle, {units.duration(ends[1])} loaded"
    floor = figures.floor
    if floor is not None and idle <= NEAR_FLOOR * floor:
        text += f"; idle is limited by the generator ({units.duration(floor)} over loopback)"
    return text


def _added_latency_text(idle: float, loaded: float) -> str:
    """``155×: 47.9 ms more for each round trip``"""
    direction = "more" if loaded >= idle else "less"
    change = units.duration(abs(loaded - idle))
    return f"{factor_text(loaded / idle)}×: {change} {direction} for each round trip"


def factor_text(factor: float) -> str:
    """Three digits, of large ones with an SI prefix."""
    if factor < MAX_SIGNIFICANT:
        return units.significant(factor)
    return units.quantity(factor, "")


def _phase_text(phase: IdlePhase | TransactionFigures, result: Result) -> str:
    sent = phase.latency.count + phase.lost
    text = "no request was answered"
    if phase.latency.count:
        text = latency_text(phase.latency.summary())
    text += f"; {count_noun(sent, 'request')} in {units.duration(phase.seconds)}"
    text += _left_out_text(phase, result)
    figures = result.transactions
    if figures is not None and phase is _last_phase(figures):
        text += _nothing_after_text(result, _answers(figures))
    if phase.lost:
        text += f", {phase.lost} lost ({units.percentage(phase.lost_share)})"
    return text


def _last_phase(figures: TransactionFigures) -> IdlePhase | TransactionFigures | None:
    """Of a loaded run, that in which it ended."""
    return figures.idle if figures.loaded_since is None else figures


def _left_out_text(phase: IdlePhase | TransactionFigures, result: Result) -> str:
    """`` (of 10 s: intervals that lie only partly in the phase are left out)``; "": all were
    counted, or the run did not last as planned."""
    planned = result.plan.time
    if result.stopped is not None or phase.seconds > planned - PHASE_MARGIN_SECONDS:
        return ""
    return f" (of {planned} s: intervals that lie only partly in the phase are left out)"


def latency_text(summary: LatencySummary) -> str:
    """``p50 78.1 µs, p90 90.3 µs, p99 120 µs, p99.9 too few samples (10000 needed), min …, mean …,
    max 3.20 ms``"""
    percentiles = (summary.p50, summary.p90, summary.p99, summary.p999)
    parts = [
        f"{name} {_percentile_text(name, value)}"
        for name, value in zip(QUANTILES, percentiles, strict=True)
    ]
    for name, value in (("min", summary.minimum), ("mean", summary.mean), ("max", summary.maximum)):
        parts.append(f"{name} {units.duration(value)}")
    return ", ".join(parts)


def _percentile_text(name: str, value: float | None) -> str:
    if value is None:
        return f"too few samples ({samples_needed(name)} needed)"
    return units.duration(value)


FAR_ABOVE_MEDIAN = 2
"""A mean so many times the median is told beside it: the median says little about the rate."""


def _floors(result: Result) -> Iterator[ResultSentence]:
    """The generator alone."""
    if result.transactions is None:
        return
    for floor in result.transactions.floors:
        yield ResultSentence("floor", f"{clean(floor.host)}: {_floor_text(floor)}")


def _floor_text(floor: Floor) -> str:
    if floor.latency is None:
        return f"not measured over loopback ({clean(floor.problem)})"
    median, mean = floor.latency.p50, floor.latency.mean
    text = f"over loopback p50 {units.duration(median)}"
    if median and mean and mean >= FAR_ABOVE_MEDIAN * median:
        text += f", mean {units.duration(mean)}"
    if floor.connect is not None:
        text += f", connect {units.duration(floor.connect.p50)}"
    return f"{text}, {units.per_second(floor.rate)}"


def _round_trips_of_tcp(result: Result) -> Iterator[ResultSentence]:
    """Beside those of the requests."""
    if result.transactions is None or result.plan.has_bulk:
        return
    for sockets in result.sockets:
        if sockets.rtt is not None:
            rtt = units.duration(sockets.rtt / 1e6)
            yield ResultSentence("rtt", f"{rtt}, smoothed by TCP of {clean(sockets.host)}")


def _limits(result: Result) -> Iterator[ResultSentence]:
    """The line rate, and what the senders counted."""
    if any(flow.goodput is not None for flow in result.flows):
        for text in ceiling_texts(result):
            yield ResultSentence("ceiling", text)
    for flow in result.flows:
        if flow.sent is not None:
            yield ResultSentence("sender", _sent_text(result, flow))


def ceiling_texts(result: Result) -> Iterator[str]:
    """One, or that of each direction if they differ: ``a → b: 9.41 Gb/s: 10 GbE, MTU 1500, …``"""
    if result.ceiling is None:
        return
    own = [flow for flow in result.flows if flow.ceiling is not None]
    if not own:
        yield clean(result.ceiling.sentence)
    for flow in own:
        assert flow.ceiling is not None
        direction = f"{clean(flow.sender)} → {clean(flow.receiver)}"
        yield f"{direction}: {clean(flow.ceiling.sentence)}"


def _goodput_text(result: Result, flow: Flow) -> str:
    text = f"{units.bits_per_second(flow.goodput)} received by {clean(flow.receiver)}"
    if _is_foreign(result, flow.receiver):
        is_reported = result.plan.foreign_side == "server" and result.plan.generator == "iperf3"
        is_reported = is_reported and result.stopped is None  # it reports at its end
        text += REPORTED if is_reported else ACKNOWLEDGED
    if flow is result.flows[0]:
        text += _of_requested(result)
    seconds = unplanned_seconds(result, flow)
    if seconds is not None:
        text += f", mean of {units.duration(seconds)}"
        if not is_same_time(seconds, result.plan.time):
            text += f" (planned: {result.plan.time} s)"
    text += _nothing_after_text(result, _arrivals(flow))
    share = result.share_of_ceiling(flow)
    if share is not None:
        text += f", {units.percentage(share)} of line rate"
    received = flow.received
    if received is not None and received.packets:
        lost, sent = received.lost or 0, count_noun(received.packets, "datagram")
        text += f"; {lost_text(lost, sent, lost / received.packets)}"
        if received.jitter is not None:
            text += f", jitter {units.duration(received.jitter / 1e3)}"
    return text


def unplanned_seconds(result: Result, flow: Flow) -> float | None:
    """Those that the goodput is the mean of: always if the run failed or something happened to a
    NIC, as nothing was received in some of them; where they are not those of the other direction,
    so that the two do not add up to the total (`Result.common_seconds`); and where they are not as
    planned, if the run was stopped. None: they need not be named, or are not known."""
    plan, received = result.plan, flow.received
    are_equal = result.common_seconds is None
    if received is None or plan.files is not None or not math.isfinite(received.seconds):
        return None
    if _is_disturbed(result) or not are_equal:
        return received.seconds
    if result.stopped is None or is_same_time(plan.time, received.seconds):
        return None
    return received.seconds


def _is_foreign(result: Result, host: str) -> bool:
    """The other end, of which only iperf3 tells something."""
    foreign = result.plan.foreign_end
    return result.foreign is not None and foreign is not None and host == foreign.host


def _foreign(result: Result) -> Iterator[ResultSentence]:
    """What iperf3 told of the other end."""
    foreign = result.foreign
    if foreign is None or not result.flows or result.failure is not None:
        return
    address = clean(foreign.address)
    if foreign.side == "client":
        text = f"{address}: seen only from outside; its CPU is printed only there"
        yield ResultSentence("foreign client", f"{text}, its host is not watched")
        if foreign.differs:
            differs = "; ".join(map(clean, foreign.differs))
            told = f"it did another test than was to be typed: {differs}"
            yield ResultSentence("foreign client", told)
        return
    cpu = "its CPU is not reported"
    if foreign.cpu is not None:
        cpu = f"{units.significant(foreign.cpu)} of one core used by its iperf3{REPORTED}"
    text = f"{address}: {cpu}; its host is not watched"
    yield ResultSentence("foreign", text)


def _of_requested(result: Result) -> str:
    """``, 81 % of the requested 1.00 Gb/s``; "" if the requested load was reached, or there is
    none."""
    requested, reached = result.plan.requested_load, result.load
    if not requested or reached is None or result.reached_load:
        return ""
    load_text = units.bits_per_second if result.plan.test == "bulk" else units.per_second
    return f", {units.percentage(reached / requested)} of the requested {load_text(requested)}"


def _sent_text(result: Result, flow: Flow) -> str:
    """Of TCP it is what the socket took, of which some may never have been sent."""
    assert flow.sent is not None
    how = "sent by" if result.plan.protocol == "udp" else "taken by the socket of"
    rate = f"{units.bits_per_second(flow.sent.bits_per_second)} {how} {clean(flow.sender)}"
    if _is_foreign(result, flow.sender):
        rate += REPORTED
    seconds = _seconds_apart_text(flow.sent, flow.received)
    if result.failure is not None and flow.received is None:
        seconds = f" in {units.duration(flow.sent.seconds)}"
    parts = [rate + seconds]
    if flow.retransmits is not None:
        parts.append(count_noun(flow.retransmits, "retransmit") + _per_gigabyte_text(flow))
    for sockets in result.sockets:
        if sockets.host == flow.sender:
            return ", ".join((*parts, *_socket_texts(sockets)))
    return ", ".join(parts)


def _seconds_apart_text(sent: Total, received: Total | None) -> str:
    """That both ends counted for different times, so that their rates cannot be compared."""
    if received is None:
        return ""
    if abs(sent.seconds - received.seconds) <= MAX_SECONDS_APART * received.seconds:
        return ""
    return f" in {units.duration(sent.seconds)} (received in {units.duration(received.seconds)})"


def _per_gigabyte_text(flow: Flow) -> str:
    """Of the retransmits; "": there are none, or too few bytes for a rate."""
    each = flow.retransmits_per_gigabyte
    if not flow.retransmits or each is None or each >= MAX_SIGNIFICANT:
        return ""
    return f" ({units.significant(each)} per GB)"


def _socket_texts(figures: SocketFigures) -> Iterator[str]:
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
    if result.proof.verdict == "proven" and not result.plan.is_of_one_host:
        verdict += f" over IPv{result.plan.ip_version}"
        if result.plan.foreign:
            verdict += " at one end"
    yield ResultSentence("path", f"{verdict}: {clean(result.proof.sentence)}")
    ends = "; ".join(dict.fromkeys(host.sentence for host in result.proof.hosts))
    if ends and ends not in result.proof.sentence:
        yield ResultSentence("path", clean(ends))
    for observed in result.proof.observed:
        size = units.bytes_(max(observed.received or 0.0, observed.sent or 0.0))
        where = f"{clean(observed.end.host)}: {clean(observed.text)}"
        yield ResultSentence("seen by", f"{where} carried {size}")


def _path_test(result: Result) -> Iterator[ResultSentence]:
    if result.path_test is not None:
        yield from path_test_sentences(result.path_test.report)


def path_test_sentences(report: PathReport) -> Iterator[ResultSentence]:
    """What the path test before the run found, then what it measured in each direction."""
    for finding in report.findings:
        title = clean(headline(finding, several_hosts=True))
        yield ResultSentence("path finding", f"{finding.severity}: {title}")
    for direction in report.result.directions:
        ends = f"{clean(direction.sender.host)} → {clean(direction.receiver.host)}"
        yield ResultSentence("path test", f"{ends}: {_direction_text(direction)}")
    differing = differing_round_trips(report.result)
    if differing:
        yield ResultSentence("path test", differing)


def _direction_text(direction: PathDirection) -> str:
    """``RTT median 161 µs, asked by vm1; largest packet 1500 of 1500 bytes``: a round trip has no
    direction."""
    test = direction.test
    if test is None:
        return f"not tested: {clean(direction.failure)}"
    asked_by = clean(direction.sender.host)
    round_trip = [f"{text}, asked by {asked_by}" for text in _round_trip_texts(test)]
    parts = [*round_trip, *_largest_texts(test)]
    return "; ".join(parts) or "no answer"


def _round_trip_texts(test: PathTest) -> Iterator[str]:
    """Of the first protocol that was answered."""
    for replies in test.replies:
        times = round_trips(replies)
        if times is not None:
            yield f"RTT median {units.duration(times.median)}"
            return


def _largest_texts(test: PathTest) -> Iterator[str]:
    size = best_size(test)
    if size is None and any(one.silent for one in test.sizes):
        yield "largest packet not known: small ones were not answered any more either"
    if size is not None:
        largest = f"{size.largest}" if size.complete else f"{size.largest} or more"
        yield f"largest packet {largest} of {size.limit} bytes"


def _costs(result: Result) -> Iterator[ResultSentence]:
    """The CPU cost of each host whose CPUs were measured."""
    for load in result.hosts:
        if load.busy is not None:
            yield ResultSentence(load.role, host_cost_text(load))


def host_cost_text(load: HostLoad) -> str:
    """``b: 0.60 of 4 cores busy on average, 0.12 core per Gb/s (user 0.10, …); hottest CPU 2:
    average 50 %``"""
    host, busy = clean(load.host), load.busy
    if busy is None:
        return f"{host}: CPU not measured"
    total, cores = units.significant(busy.total), count_noun(busy.cores, "core")
    text = f"{host}: {total} of {cores} busy on average"
    if load.cost_per_gigabit is not None:
        text += f", {factor_text(load.cost_per_gigabit)} core per Gb/s"
    if load.cost_per_transaction is not None:
        text += f", {units.duration(load.cost_per_transaction)} CPU per transaction"
    parts = ", ".join(_busy_parts(busy))
    if parts:
        text += f" ({parts})"
    return "; ".join((text, *_further_costs(load, busy)))


def _busy_parts(busy: Busy) -> Iterator[str]:
    """``user 0.10``, of the kinds of CPU time that are worth naming."""
    for kind in BUSY_KINDS:
        cores = getattr(busy, kind)
        if cores >= units.MIN_TWO_DECIMALS:
            yield f"{kind} {units.significant(cores)}"


def _further_costs(load: HostLoad, busy: Busy) -> Iterator[str]:
    """The hottest CPU, the VMs of an ESXi host, and what the NIC dropped."""
    hottest = f"hottest CPU {busy.hottest}: average {units.percentage(busy.hottest_busy)}"
    softirq = hottest_softirq_text(load)
    yield ", ".join(filter(None, (hottest, softirq)))
    yield from load_texts(load)


NO_COST = "no CPU cost: most of its busy time is not by this test"


def load_texts(load: HostLoad) -> Iterator[str]:
    """What has no column: why there is no CPU cost, the VMs of an ESXi host, what the NIC dropped,
    and whose CPUs these are."""
    if load.is_busy_by_others:
        yield NO_COST
    yield from machine_texts(load)
    yield from _drop_texts(load)
    if load.machine_of:
        yield f"the same machine as {clean(load.machine_of)}: its CPUs count once in a verdict"


def hottest_softirq_text(load: HostLoad) -> str:
    """``softirq 40 %``: of the hottest CPU; "": too little to name."""
    busy = load.busy
    if busy is None or busy.hottest_softirq < units.MIN_TWO_DECIMALS:
        return ""
    return f"softirq {units.percentage(busy.hottest_softirq)}"


def _drop_texts(load: HostLoad) -> Iterator[str]:
    """``12 packets dropped by the NIC``, ``9 packets dropped instead of sent``"""
    if load.ring_drops:
        yield f"{count_noun(load.ring_drops, 'packet')} dropped by the NIC"
    if load.send_drops:
        yield f"{count_noun(load.send_drops, 'packet')} dropped instead of sent"


def machine_texts(load: HostLoad) -> Iterator[str]:
    """``VM web1 (server): 1.10 cores, CPU ready 0.5 %, co-stop 0 %``: of the VMs of an ESXi host
    the ends of the run, and the busiest."""
    for machine in load.machines:
        is_busiest = machine is load.machines[0]
        if machine.ready is not None and (machine.end or is_busiest):
            yield _machine_text(machine, machine.ready)


def _machine_text(machine: Machine, ready: float) -> str:
    name = f"VM {clean(machine.name)}"
    if machine.end:
        name += f" ({clean(machine.end)})"
    text = f"{name}: {units.significant(machine.cores)} cores"
    text += f", CPU ready {units.percentage(ready)}"
    if machine.costop is not None:
        text += f", co-stop {units.percentage(machine.costop)}"
    return text


def cost_of(load: HostLoad, unit: CostUnit) -> float | None:
    """None: not known, or most of it is not by the test."""
    if unit == "busy":
        return None if load.busy is None else load.busy.total
    return load.cost_per_transaction if unit == "transaction" else load.cost_per_gigabit


def cost_value_text(cost: float, unit: CostUnit) -> str:
    """CPU cost: cores per Gb/s, seconds of CPU time per transaction, or busy cores."""
    if unit == "transaction":
        return units.duration(cost)
    return factor_text(cost)


def cost_with_unit(cost: float, unit: CostUnit) -> str:
    """`cost_value_text` where no title says what it is: ``0.87 cores``."""
    value = cost_value_text(cost, unit)
    return value if unit == "transaction" else f"{value} cores"


def _why_not_ranked(result: Result) -> Iterator[ResultSentence]:
    """The reasons, without the sentence about the path, which is listed already. Failed runs need
    no reason."""
    if result.failure is not None:
        return
    about_path = f": {result.proof.sentence}" if result.proof is not None else ""
    for reason in result.why_not_ranked:
        yield ResultSentence("not ranked", clean(reason.removesuffix(about_path)))
