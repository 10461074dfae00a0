"""The log of a run → its `Result`: one axis for all hosts, totals, load, path proof, ceiling,
bottleneck.

Reads nothing. The axis starts with the measured seconds; omitted seconds are before 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from nictop.model.snapshot import Snapshot
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import TrafficTools
from nictop.traffic.analysis.bottleneck import examined_bottleneck
from nictop.traffic.analysis.framing import run_ceilings, with_ceilings
from nictop.traffic.analysis.host_loads import host_loads
from nictop.traffic.analysis.judgement import is_above_ceiling
from nictop.traffic.analysis.loaded import delay_text, loaded_figures
from nictop.traffic.analysis.mtu_changes import (
    MtuChange,
    mtu_changes,
    mtu_note,
    mtu_text,
    with_mtu_texts,
)
from nictop.traffic.analysis.nic_incidents import (
    ChosenNic,
    NicIncident,
    incident_kind,
    nic_incidents,
)
from nictop.traffic.analysis.port_load import port_loads
from nictop.traffic.analysis.proof_of_run import proof_of_run
from nictop.traffic.analysis.setup_facts import NicSetup, exceeded_limits, nic_setup, setup_facts
from nictop.traffic.analysis.socket_samples import (
    acknowledged_total,
    fill_from_sockets,
    socket_figures,
    socket_retransmits,
)
from nictop.traffic.analysis.stopped import (
    no_measured_interval,
    totals_of_intervals,
    totals_of_planned_seconds,
)
from nictop.traffic.analysis.transactions import (
    floor_of,
    transaction_bottleneck,
    transaction_figures,
    with_transaction_costs,
)
from nictop.traffic.drops.counted_losses import CountedLoss, counted_losses
from nictop.traffic.generators import Side, floor_arguments
from nictop.traffic.generators.intervals import (
    Total,
    TransactionInterval,
    TransactionTotal,
)
from nictop.traffic.path.stored import stored_path_test
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.plan.tools import iperf3_differences
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.record.log import (
    RunLog,
    axis_start,
    interval_time,
    load_window,
    measured_window,
)
from nictop.traffic.record.strangers import refused_texts, translated_texts
from nictop.traffic.results.result import (
    TRANSACTION_SCHEMA,
    Flow,
    ForeignEnd,
    IntervalPoint,
    Result,
    SocketFigures,
)
from nictop.traffic.results.transactions import Floor, TransactionFigures

LATE_SECONDS = 1.0
"""A run that a lost NIC has ended may take that much longer than planned until its hosts report
it."""
PATH_TEST = "the path test"
MAX_FURTHER_EVENTS = 8
"""In a result, after the first one."""
MAX_LOSSES = 32
"""Counters of one host in a result."""


def result_of(log: RunLog) -> Result:
    """The result of a run; of one that failed, as far as it is known."""
    plan, axis = log.plan, axis_start(log)
    snapshots = {name: host.snapshot for name, host in log.hosts.items()}
    read_flow = _flow if log.stopped is None else _stopped_flow
    ceilings = run_ceilings(plan, snapshots)
    flows = with_ceilings([read_flow(log, side, axis) for side in plan.sending], ceilings)
    transactions = _transactions(log, axis)
    has_transactions = transactions is not None
    loads = host_loads(log, flows, axis)
    # of a run that failed, the CPU time is of more seconds than the transactions
    if transactions is not None and not plan.has_bulk and log.failure is None:
        loads = with_transaction_costs(loads, transactions)
    tools = _tools(log)
    chosen = _chosen_nics(log, axis)
    mtus = _mtu_changes(log, chosen)
    result = Result(
        plan=plan,
        wall=log.wall,
        flows=flows,
        hosts=loads,
        sockets=_socket_figures(log, axis),
        ceiling=ceilings[0] if ceilings else None,
        proof=proof_of_run(log, flows, transactions) if axis is not None else None,
        failure=log.failure or no_measured_interval(log.stopped, flows, measured=has_transactions),
        stopped=log.stopped,
        schema=TRANSACTION_SCHEMA if plan.has_requests else 1,
        transactions=transactions,
        facts=_facts(plan, snapshots, tools, mtus),
        notes=(
            *log.notes,
            *_generator_notes(plan, tools),
            *_stranger_notes(log),
            *_mtu_notes(log, mtus),
        ),
        clock_uncertainty=_clock_uncertainty(log),
        losses=_losses(log, snapshots),
        foreign=_foreign(log),
        ports=port_loads(log, axis) if plan.has_bulk else (),
    )
    if log.path_test is not None:
        result = replace(result, path_test=stored_path_test(log.path_test))
    result = _with_bottleneck(result, log, snapshots, _incidents(log, snapshots, chosen))
    result = _with_delay(result)
    return replace(result, notes=(*result.notes, *notes_of(result)))


def _foreign(log: RunLog) -> ForeignEnd | None:
    """What iperf3 told of an end that is not watched. A server reports before it has the results of
    its client (iperf_server_api.c: TEST_END), so that it knows no CPU of it."""
    end = log.plan.foreign_end
    if end is None:
        return None
    if log.plan.foreign_side == "client":
        return ForeignEnd(end.address, None, "client", tuple(_typed_otherwise(log)))
    return ForeignEnd(end.address, log.ends["client"].remote_cpu)


def _typed_otherwise(log: RunLog) -> Iterator[str]:
    """``2 streams, not 1``: what the client did otherwise than it was told to."""
    if log.typed is None:
        return
    told, done = log.typed, log.plan
    if told.direction != done.direction:
        yield f"{done.direction}, not {told.direction}"
    if told.protocol != done.protocol:
        yield f"{done.protocol.upper()}, not {told.protocol.upper()}"
    if told.streams != done.streams:
        yield f"{count_noun(done.streams, 'stream')}, not {told.streams}"
    if told.time != done.time:
        yield f"{done.time} s, not {told.time}"


def _tools(log: RunLog) -> dict[Side, TrafficTools]:
    """Of the ends whose tools are known."""
    found = {}
    for side, end in log.ends.items():
        if end.tools is not None:
            found[side] = end.tools
    return found


def _generator_notes(plan: RunPlan, tools: Mapping[Side, TrafficTools]) -> Sequence[str]:
    client, server = tools.get("client"), tools.get("server")
    if plan.generator != "iperf3" or client is None or server is None:
        return ()
    return iperf3_differences(client, server)


def _with_delay(result: Result) -> Result:
    """Of a loaded run: where its additional latency arises. The bottleneck is known."""
    if result.plan.test != "loaded" or result.transactions is None:
        return result
    return replace(result, transactions=replace(result.transactions, delay=delay_text(result)))


def _with_bottleneck(
    result: Result,
    log: RunLog,
    snapshots: Mapping[str, Snapshot],
    incidents: Sequence[NicIncident],
) -> Result:
    """What happened to a NIC explains more than any limit."""
    examine = examined_bottleneck if result.plan.has_bulk else transaction_bottleneck
    of_generators = replace(result, plan=result.plan.parts[-1])
    sentence, limits = examine(of_generators, _setups(log, snapshots))
    if not incidents:
        return replace(result, bottleneck=sentence, limits=limits)
    event, *further = (incident.sentence for incident in incidents)
    return replace(
        result,
        event=event,
        further_events=tuple(dict.fromkeys(further))[:MAX_FURTHER_EVENTS],
        incident=incident_kind(incidents),
        bottleneck=event if sentence else "",
        limits=(),
    )


# --------------------------------------------------------------------------------------- directions


def _flow(whole: RunLog, sender: Side, axis: float | None) -> Flow:
    group = whole.last
    sender_end, receiver_end = group.ends["client"], group.ends["server"]
    if sender == "server":
        sender_end, receiver_end = receiver_end, sender_end
    sent = _total(sender_end, receiver_end, by_sender=True)
    retransmits = sent.retransmits if sent is not None else None
    if retransmits is None and group.plan.protocol == "tcp" and axis is not None:
        retransmits = socket_retransmits(sender_end, *_window(whole, sender_end, axis))
    received = _total(sender_end, receiver_end, by_sender=False)
    if received is None and sent is not None and axis is not None:
        received = _acknowledged(whole, sender, sent, axis)
    flow = Flow(
        sender_end.host,
        receiver_end.host,
        sent,
        received,
        _points(whole, receiver_end, False) or _points(whole, sender_end, True),
        retransmits,
        _sent_points(whole, sender_end, axis),
    )
    if whole.failure is None:
        return flow
    return totals_of_planned_seconds(flow, group.plan.time)


def _stopped_flow(log: RunLog, side: Side, axis: float | None) -> Flow:
    """A direction of a run that the user has stopped; a foreign end reports nothing before its
    end."""
    flow = _flow(log, side, axis)
    assert log.stopped is not None
    flow = totals_of_intervals(flow, log.stopped)
    if flow.received is None and flow.sent is not None and axis is not None:
        return replace(flow, received=_acknowledged(log, side, flow.sent, axis))
    return flow


def _acknowledged(log: RunLog, sender: Side, sent: Total, axis: float) -> Total | None:
    """What a foreign end received, whose generator reports it only there; None: another run, or
    UDP."""
    end = log.last.ends[sender]
    if log.plan.foreign_side in (None, sender) or log.plan.protocol == "udp":
        return None
    return acknowledged_total(end, *_window(log, end, axis), sent.seconds)


def _total(sender: RunEnd, receiver: RunEnd, *, by_sender: bool) -> Total | None:
    """What the sender or the receiver counted. Each end reports also what the other one told it,
    which is used if that one has not reported it itself."""
    of_sender = sender.total(sends=True, by_sender=by_sender)
    of_receiver = receiver.total(sends=False, by_sender=by_sender)
    if by_sender:
        return of_sender or of_receiver
    return of_receiver or of_sender


def _transactions(log: RunLog, axis: float | None) -> TransactionFigures | None:
    """As the client reported them; None: it did not, or it is another test."""
    if axis is None or not log.plan.has_requests:
        return None
    if log.plan.has_bulk:
        return _loaded_transactions(log, axis)
    client = log.ends["client"]
    if client.run_start is None:
        return None
    totals = [total for total in client.totals if isinstance(total, TransactionTotal)]
    return transaction_figures(
        log.plan,
        totals[0] if totals else None,
        _transaction_intervals(log),
        _floors(log),
        stopped=log.stopped,
    )


def _loaded_transactions(log: RunLog, axis: float) -> TransactionFigures | None:
    """Those of the phases of a loaded run; None: no request was answered."""
    client = log.last.ends["client"]
    begun = None
    if client.started is not None:
        begun = client.started - log.hosts[client.host].offset.seconds - axis
    intervals, floors = _transaction_intervals(log), _floors(log)
    return loaded_figures(intervals, begun, load_window(log), floors, log.plan.time)


def _transaction_intervals(log: RunLog) -> list[tuple[float, TransactionInterval]]:
    """As the client reported them, with their ends on the axis."""
    client = log.ends["client"]
    found = []
    for _, interval in client.intervals:
        time = interval_time(log, client, interval)
        if time is not None and isinstance(interval, TransactionInterval):
            found.append((time, interval))
    return found


def _floors(log: RunLog) -> list[Floor]:
    """The generator alone on client and server, that of the client first."""
    sides = {end.host: side for side, end in log.ends.items()}
    floors = []
    for name, side in sides.items():
        reply = log.hosts[name].floors.get(floor_arguments(log.plan.requests, side))
        if reply is not None:
            floors.append(floor_of(name, reply))
    client = log.ends["client"].host
    return sorted(floors, key=lambda floor: floor.host != client)


def _points(log: RunLog, end: RunEnd, sends: bool) -> tuple[IntervalPoint, ...]:
    points = []
    for _, interval in end.intervals:
        if interval.sends != sends:
            continue
        time = interval_time(log, end, interval)
        if time is not None:
            points.append(IntervalPoint(time, interval))
    return tuple(points)


def _sent_points(log: RunLog, end: RunEnd, axis: float | None) -> tuple[IntervalPoint, ...]:
    points = _points(log, end, True)
    if axis is None or log.last.plan.protocol == "udp":
        return points
    shift = axis + _offset(log, end)
    samples = ((time - shift, sockets) for time, sockets in end.sockets)
    return fill_from_sockets(points, samples, log.plan.interval)


def _window(log: RunLog, end: RunEnd, axis: float) -> tuple[float, float]:
    """Start and end of the measured seconds, on the clock of the host of an end."""
    since, (begin, finish) = axis + _offset(log, end), measured_window(log)
    return since + begin, since + finish + log.plan.interval


def _offset(log: RunLog, end: RunEnd) -> float:
    """Of the clock of its host; 0 if that is not watched, which has no lines."""
    host = log.hosts.get(end.host)
    return host.offset.seconds if host is not None else 0.0


def _socket_figures(log: RunLog, axis: float | None) -> tuple[SocketFigures, ...]:
    if axis is None or log.last.plan.protocol == "udp":
        return ()
    found = []
    senders: Sequence[Side] = log.plan.sending if log.plan.has_bulk else ("client",)
    for side in senders:
        end = log.last.ends[side]
        figures = socket_figures(end, *_window(log, end, axis))
        if figures is not None:
            found.append(figures)
    return tuple(found)


def _setups(log: RunLog, snapshots: Mapping[str, Snapshot]) -> dict[str, NicSetup]:
    """Set-ups of the chosen NICs, by host."""
    found = {}
    for endpoint in (log.plan.client, log.plan.server):
        host, link = endpoint.host, endpoint.link_in(snapshots)
        if link is not None:
            limits = exceeded_limits(link, log.before.get(host), log.after.get(host))
            setup = nic_setup(link, snapshots[host])
            found[host] = replace(setup, instance_limits=limits)
    return found


def _losses(log: RunLog, snapshots: Mapping[str, Snapshot]) -> tuple[CountedLoss, ...]:
    """What all hosts counted as lost during the run, the largest count of each first."""
    chosen = {end.host: end.ifindex for end in (log.plan.server, log.plan.client)}
    found: list[CountedLoss] = []
    for name, counts in log.losses.items():
        found += counted_losses(snapshots[name], counts, chosen.get(name))[:MAX_LOSSES]
    return tuple(found)


def _incidents(
    log: RunLog, snapshots: Mapping[str, Snapshot], chosen: Mapping[str, ChosenNic]
) -> tuple[NicIncident, ...]:
    """What happened to the chosen NICs during the run, by the kernel logs of their hosts and by
    rtnetlink."""
    if log.failure is not None:  # it may have waited long for data
        return nic_incidents(snapshots, chosen, math.inf)
    return nic_incidents(snapshots, chosen, log.plan.span + LATE_SECONDS)


def incidents_so_far(log: RunLog, axis: float | None) -> tuple[NicIncident, ...]:
    """The same while it runs, of all that was received; the first one is what explains the
    others. Before the first byte (no `axis`), those since the path test."""
    snapshots = {name: host.snapshot for name, host in log.hosts.items()}
    return nic_incidents(snapshots, _chosen_nics(log, axis), math.inf)


def _chosen_nics(log: RunLog, axis: float | None) -> dict[str, ChosenNic]:
    """By host; since the path test if there is no axis, and none if there was none either."""
    chosen: dict[str, ChosenNic] = {}
    start, after = (axis, "") if axis is not None else (log.tested, PATH_TEST)
    if start is None:
        return chosen
    for end in (log.plan.client, log.plan.server):
        host = log.hosts.get(end.host)
        if host is None or end.ifindex is None:
            continue
        begin, changes = start + host.offset.seconds, tuple(host.link_changes)
        name = log.nics[end.host].name if end.host in log.nics else ""
        address, readings = end.address.partition("%")[0], tuple(host.addresses.kept)
        chosen[end.host] = ChosenNic(
            end.ifindex, name, begin, changes, after, address=address, addresses=readings
        )
    return chosen


# --------------------------------------------------------------------------------------- the set-up


def _mtu_changes(log: RunLog, chosen: Mapping[str, ChosenNic]) -> dict[str, list[MtuChange]]:
    """Host → those of its NIC during the run; without hosts without any."""
    found = {}
    for host, nic in chosen.items():
        if host in log.nics and not nic.after:
            seconds = math.inf if log.failure is not None else log.seconds
            changes = mtu_changes(nic, log.nics[host].mtu, seconds)
            if changes:
                found[host] = changes
    return found


def _mtu_notes(log: RunLog, mtus: Mapping[str, Sequence[MtuChange]]) -> Iterator[str]:
    for host, changes in mtus.items():
        yield mtu_note(host, log.nics[host].name, changes)


def _facts(
    plan: RunPlan,
    snapshots: Mapping[str, Snapshot],
    tools: Mapping[Side, TrafficTools],
    mtus: Mapping[str, Sequence[MtuChange]],
) -> dict[str, str]:
    """Those of the end of the run, and what changed during it."""
    sides = {plan.client.host: "client", plan.server.host: "server"}
    texts = {sides[host]: mtu_text(changes) for host, changes in mtus.items()}
    return with_mtu_texts(setup_facts(plan, snapshots, tools), texts)


def notes_of(result: Result) -> tuple[str, ...]:
    found = []
    if result.stopped is not None:  # packets in flight when it was stopped are in no interval
        found.append(f"stopped after {result.measured_seconds:.1f} of {result.plan.span} s")
    elif result.proof is not None:
        for end in result.proof.hosts:
            if end.foreign:
                found.append(f"{end.sentence}: includes {_other_packets(result)}")
    if is_above_ceiling(result):
        found.append("above line rate: the reported link speed does not limit this path")
    return tuple(found)


def _other_packets(result: Result) -> str:
    """What a NIC carried beside the payload, its headers, and what the run is known to have sent
    again."""
    is_tcp = (result.plan.load or result.plan).protocol == "tcp"
    if is_tcp and any(flow.retransmits is None for flow in result.flows):
        return "retransmissions of this test, or other traffic"
    return "other traffic than this test"


def _stranger_notes(log: RunLog) -> tuple[str, ...]:
    """Who came to the servers of the run, but is not its client."""
    found: list[str] = []
    for group in log.groups:
        server = group.ends["server"]
        found += refused_texts(server.host, server.refused)
        if log.failure is None and server.peer:
            found += translated_texts(group.plan, server.peer)
    return tuple(dict.fromkeys(found))


def _clock_uncertainty(log: RunLog) -> float | None:
    """That of the host with the largest uncertainty; None if one is not known."""
    uncertainties = []
    for host in log.hosts.values():
        if host.offset.uncertainty is None:
            return None
        uncertainties.append(host.offset.uncertainty)
    return max(uncertainties, default=None)
