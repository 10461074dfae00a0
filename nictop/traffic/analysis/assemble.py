"""The log of a run → its `Result`: one axis for all hosts, totals, load, path proof, ceiling, bottleneck.

Reads nothing. The axis starts with the measured seconds; omitted seconds are before 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nictop.model.devices.ceiling import (
    Ceiling,
    Framing,
    Limit,
    ceiling,
    combined_framing,
    end_limits,
    payload_and_wire,
    transmit_rates,
)
from nictop.model.devices.guests import guests
from nictop.model.devices.pairs import pairs
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import count_noun
from nictop.probe.records import Counters, LossCount
from nictop.traffic.analysis.bottleneck import examined_bottleneck
from nictop.traffic.analysis.counted_losses import CountedLoss, counted_losses
from nictop.traffic.analysis.cpu_load import HostLoad, HostRole, host_load
from nictop.traffic.analysis.judgement import is_above_ceiling
from nictop.traffic.analysis.loaded import delay_text, loaded_figures
from nictop.traffic.analysis.nic_incidents import ChosenNic, NicIncident, nic_incidents
from nictop.traffic.analysis.path_proof import ObservedHost, PathProof, prove_path
from nictop.traffic.analysis.setup_facts import NicSetup, exceeded_limits, nic_setup, setup_facts
from nictop.traffic.analysis.transactions import (
    MIN_PROVEN_BYTES,
    floor_of,
    packet_bytes,
    transaction_bottleneck,
    transaction_figures,
    with_transaction_costs,
)
from nictop.traffic.generators import Side, floor_arguments
from nictop.traffic.generators.intervals import Interval, Total, TransactionInterval, TransactionTotal
from nictop.traffic.live.flow_view import fill_from_sockets
from nictop.traffic.path.result import PathReport
from nictop.traffic.path.stored import stored_path_test
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.plan.tools import iperf3_differences
from nictop.traffic.results.result import (
    DEFAULT_DATAGRAM_BYTES,
    RESULT_SCHEMA,
    Flow,
    IntervalPoint,
    Result,
    SocketFigures,
)
from nictop.traffic.results.transactions import Floor, TransactionFigures
from nictop.traffic.run.endpoint import RunEnd, socket_figures, socket_retransmits
from nictop.traffic.run.failures import Failure
from nictop.traffic.run.host import RunHost
from nictop.traffic.run.stopped import no_measured_interval, totals_of_intervals
from nictop.traffic.run.strangers import refused_texts, translated_texts

UNCOUNTED_FRAME_BYTES = 24
"""Bytes of a frame that no netdev counts: preamble, gap and FCS."""
DEFAULT_MTU = 1500
LATE_SECONDS = 1.0
"""A run that a lost NIC has ended may take that much longer than planned until its hosts report it."""
MAX_LOSSES = 32
"""Counters of one host in a result."""


@dataclass(frozen=True, eq=False)
class RunLog:
    """Everything that was recorded of a run."""

    plan: RunPlan
    ends: Mapping[Side, RunEnd]
    hosts: Mapping[str, RunHost]
    wall: float
    """Start, seconds since the epoch."""
    before: Mapping[str, Counters | None]
    """Host → last counter record before the first byte."""
    after: Mapping[str, Counters | None]
    """Host → first counter record after the last byte."""
    failure: Failure | None = None
    stopped: float | None = None
    """Measured seconds when the user stopped it; None: it was not stopped."""
    path_test: PathReport | None = None
    notes: tuple[str, ...] = ()
    """Remarks for the result."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Host of an end → name of its chosen NIC before the first byte."""
    losses: Mapping[str, tuple[LossCount, ...]] = field(default_factory=dict)
    """Host → counters of lost packets that rose during the run."""
    load: RunLog | None = None
    """Of the bulk flow of a loaded run: its plan and its ends. The plan here is that of the whole, the ends those of
    the requests."""

    @property
    def seconds(self) -> float:
        """Measured seconds."""
        if self.stopped is not None:
            return self.stopped
        totals = (one for one in self.ends["client"].totals if isinstance(one, TransactionTotal))
        total = next(totals, None) if self.plan.files is not None else None
        return float(self.plan.span) if total is None else total.seconds


def result_of(log: RunLog) -> Result:
    """The result of a run; of one that failed, as far as it is known."""
    plan, axis = log.plan, axis_start(log)
    snapshots = {name: host.snapshot for name, host in log.hosts.items()}
    flows = tuple(_flow(log, side, axis) for side in plan.sending)
    if log.stopped is not None:
        flows = tuple(map(totals_of_intervals, flows))
    transactions = _transactions(log, axis) if plan.test != "loaded" else _loaded_transactions(log, axis)
    tools = {side: end.tools for side, end in log.ends.items() if end.tools is not None}
    both = "client" in tools and "server" in tools
    figures, loads = _socket_figures(log, axis), _loads(log, flows, axis)
    result = Result(
        plan=plan,
        wall=log.wall,
        flows=flows,
        hosts=with_transaction_costs(loads, transactions) if transactions is not None and not plan.has_bulk else loads,
        sockets=figures,
        ceiling=run_ceiling(plan, snapshots) if plan.has_bulk else None,
        proof=_proof(log, flows, transactions) if axis is not None else None,
        failure=log.failure or no_measured_interval(log.stopped, flows, measured=transactions is not None),
        stopped=log.stopped,
        schema=RESULT_SCHEMA if plan.has_requests else 1,
        transactions=transactions,
        facts=setup_facts(plan, snapshots, tools),
        notes=(
            *log.notes,
            *(iperf3_differences(tools["client"], tools["server"]) if both and plan.generator == "iperf3" else ()),
            *_stranger_notes(log),
        ),
        clock_uncertainty=_clock_uncertainty(log),
        path_test=stored_path_test(log.path_test) if log.path_test is not None else None,
        losses=_losses(log, snapshots),
    )
    if plan.test == "loaded" and transactions is not None:
        result = replace(result, transactions=replace(transactions, delay=delay_text(result)))
    examine = examined_bottleneck if plan.has_bulk else transaction_bottleneck
    found, limits = examine(replace(result, plan=plan.load or plan), _setups(log, snapshots))
    incidents = _incidents(log, snapshots, axis)
    if incidents:
        result = replace(result, event=incidents[0].sentence)
        found, limits = (incidents[0].sentence if found else ""), ()
    return replace(result, bottleneck=found, limits=limits, notes=(*result.notes, *_notes(result)))


def run_ceiling(plan: RunPlan, snapshots: Mapping[str, Snapshot]) -> Ceiling:
    """Limit of the wire between the chosen NICs; known before the run."""
    framing = run_framing(plan, snapshots)
    found = pairs(snapshots.values())
    rates = transmit_rates(snapshots.values(), found)
    limits: list[Limit] = []
    unknown: list[str] = []
    for endpoint in (plan.client, plan.server):
        snapshot = snapshots.get(endpoint.host)
        if snapshot is None or endpoint.ifindex is None:
            unknown.append(f"no NIC selected on {endpoint.host}")
            continue
        known, why = end_limits(snapshot, endpoint.ifindex, rates, sends=endpoint.host in plan.senders)
        limits += known
        unknown += [why] if why else []
    return ceiling(limits, framing, unknown)


def run_framing(plan: RunPlan, snapshots: Mapping[str, Snapshot]) -> Framing:
    """Headers and sizes of the packets of the run."""
    plan = plan.load or plan
    base = Framing(DEFAULT_MTU, plan.ip_version, plan.protocol, mss=plan.mss)
    if plan.protocol == "udp":
        base = replace(base, length=plan.length or DEFAULT_DATAGRAM_BYTES)
    ends = []
    for endpoint in (plan.client, plan.server):
        snapshot = snapshots.get(endpoint.host)
        ends.append((snapshot if snapshot is not None else Snapshot.empty(endpoint.host), endpoint.ifindex or 0))
    tags = {one.guest: one.port_vlan for one in pairs(snapshots.values()).virtual_functions if one.port_vlan}
    return combined_framing(ends[0], ends[1], base, tags)


def axis_start(log: RunLog) -> float | None:
    """Start of the axis, in seconds of this machine's CLOCK_MONOTONIC: as the client reports it, or else the server."""
    for side in ("client", "server"):
        end = log.ends[side]
        run_start = end.run_start
        if run_start is not None:
            return run_start + end.omitted - log.hosts[end.host].offset.seconds
    return None


def interval_time(log: RunLog, end: RunEnd, one: Interval) -> float | None:
    """End of an interval of a generator, seconds on the axis; None: that is not known yet."""
    axis, run_start = axis_start(log), end.run_start
    if axis is None or run_start is None:
        return None
    return run_start + one.end + (0.0 if one.omitted else end.omitted) - log.hosts[end.host].offset.seconds - axis


def load_window(log: RunLog) -> tuple[float, float] | None:
    """Start and end of the measured seconds of the bulk flow of a loaded run, on the axis; None: it did not run."""
    axis, client = axis_start(log), log.load.ends["client"] if log.load is not None else None
    if axis is None or client is None or client.run_start is None or log.load is None:
        return None
    begin = client.run_start + client.omitted - log.hosts[client.host].offset.seconds - axis
    end = begin + log.load.plan.time
    return begin, end if log.stopped is None else min(end, max(begin, log.stopped))


def first_record_since(host: RunHost, time: float) -> Counters | None:
    """The first counter record since a time on the clock of the host; None if there is none yet."""
    return next((record for record in host.records if record.time >= time), None)


def has_record_since(host: RunHost, time: float) -> bool:
    """That record was received, or will not be."""
    return first_record_since(host, time) is not None or host.snapshot.state != "live"


# ------------------------------------------------------------------------------------------------------- directions


def _flow(whole: RunLog, sender: Side, axis: float | None) -> Flow:
    log = whole.load or whole
    plan = log.plan
    sender_end, receiver_end = log.ends["client"], log.ends["server"]
    if sender == "server":
        sender_end, receiver_end = receiver_end, sender_end
    sent = sender_end.total(sends=True, by_sender=True) or receiver_end.total(sends=False, by_sender=True)
    received = receiver_end.total(sends=False, by_sender=False) or sender_end.total(sends=True, by_sender=False)
    retransmits = sent.retransmits if sent is not None else None
    if retransmits is None and plan.protocol == "tcp" and axis is not None:
        retransmits = socket_retransmits(sender_end, *_window(whole, sender_end, axis))
    return Flow(
        sender_end.host,
        receiver_end.host,
        sent,
        received,
        _points(whole, receiver_end, False) or _points(whole, sender_end, True),
        retransmits,
        _sent_points(whole, sender_end, axis),
    )


def _transactions(log: RunLog, axis: float | None) -> TransactionFigures | None:
    """As the client reported them; None: it did not, or it is another test."""
    plan, client = log.plan, log.ends["client"]
    if plan.test == "bulk" or client.run_start is None or axis is None:
        return None
    return transaction_figures(
        plan,
        next((one for one in client.totals if isinstance(one, TransactionTotal)), None),
        _transaction_intervals(log),
        _floors(log),
        stopped=log.stopped is not None,
    )


def _loaded_transactions(log: RunLog, axis: float | None) -> TransactionFigures | None:
    """Those of the phases of a loaded run; None: no request was answered."""
    client = log.load.ends["client"] if log.load is not None else None
    if client is None or axis is None:
        return None
    begun = client.started - log.hosts[client.host].offset.seconds - axis if client.started is not None else None
    return loaded_figures(log.plan, _transaction_intervals(log), begun, load_window(log), _floors(log))


def _transaction_intervals(log: RunLog) -> list[tuple[float, TransactionInterval]]:
    """As the client reported them, with their ends on the axis."""
    client = log.ends["client"]
    timed = ((interval_time(log, client, one), one) for _, one in client.intervals)
    return [(time, one) for time, one in timed if time is not None and isinstance(one, TransactionInterval)]


def _floors(log: RunLog) -> list[Floor]:
    """The generator alone on client and server."""
    floors = []
    for name, side in {end.host: side for side, end in log.ends.items()}.items():
        reply = log.hosts[name].floors.get(floor_arguments(log.plan.requests, side))
        floors += [floor_of(name, reply)] if reply is not None else []
    return sorted(floors, key=lambda one: one.host != log.ends["client"].host)


def _points(log: RunLog, end: RunEnd, sends: bool) -> tuple[IntervalPoint, ...]:
    timed = ((interval_time(log, end, one), one) for _, one in end.intervals if one.sends == sends)
    return tuple(IntervalPoint(time, one) for time, one in timed if time is not None)


def _sent_points(log: RunLog, end: RunEnd, axis: float | None) -> tuple[IntervalPoint, ...]:
    points = _points(log, end, True)
    if axis is None or (log.load or log).plan.protocol == "udp":
        return points
    shift = axis + log.hosts[end.host].offset.seconds
    return fill_from_sockets(points, ((time - shift, sockets) for time, sockets in end.sockets), log.plan.interval)


def _window(log: RunLog, end: RunEnd, axis: float) -> tuple[float, float]:
    """Start and end of the measured seconds, on the clock of the host of an end."""
    since, (begin, finish) = axis + log.hosts[end.host].offset.seconds, _measured_window(log)
    return since + begin, since + finish + log.plan.interval


def _measured_window(log: RunLog) -> tuple[float, float]:
    """On the axis; of a loaded run that of its bulk flow, if it has run."""
    return load_window(log) or (0.0, log.seconds)


def _socket_figures(log: RunLog, axis: float | None) -> tuple[SocketFigures, ...]:
    if axis is None or (log.load or log).plan.protocol == "udp":
        return ()
    found = []
    for side in log.plan.sending if log.plan.has_bulk else ("client",):
        end = (log.load or log).ends[side]
        figures = socket_figures(end, *_window(log, end, axis))
        found += [figures] if figures is not None else []
    return tuple(found)


# ------------------------------------------------------------------------------------------------------ load, proof


def _loads(log: RunLog, flows: Sequence[Flow], axis: float | None) -> tuple[HostLoad, ...]:
    goodput = sum(flow.goodput or 0.0 for flow in flows)
    ends: dict[str, dict[str, str]] = {}
    for name, guest in guests([host.snapshot for host in log.hosts.values()]).items():
        if name in (log.plan.client.host, log.plan.server.host):
            ends.setdefault(guest.hypervisor, {})[guest.machine] = name
    found = []
    for name, role, endpoint in host_roles(log.plan, log.hosts):
        host = log.hosts.get(name)
        if axis is None or host is None:
            found.append(HostLoad(name, role, None))
            continue
        found.append(
            host_load(
                name,
                role,
                tuple(host.records),
                _measured_window(log),
                offset=host.offset.seconds + axis,
                snapshot=host.snapshot,
                bits_per_second=goodput or None,
                ifindex=endpoint.ifindex if endpoint is not None else None,
                readings=[line for end in _all_ends(log) if end.host == name for line in end.threads],
                pids=_pids(log, host),
                ends=ends.get(name),
            )
        )
    return tuple(found)


def _pids(log: RunLog, host: RunHost) -> frozenset[int]:
    """PIDs of both ends on the machine of a host, which may have two names."""

    def machine(name: str) -> str:
        known = log.hosts.get(name)
        hello = known.snapshot.hello if known is not None else None
        return (hello.boot_id if hello is not None else "") or name

    here = machine(host.name)
    return frozenset(end.pid for end in _all_ends(log) if end.pid is not None and machine(end.host) == here)


def _all_ends(log: RunLog) -> tuple[RunEnd, ...]:
    return (*log.ends.values(), *(log.load.ends.values() if log.load is not None else ()))


def host_roles(plan: RunPlan, hosts: Iterable[str]) -> list[tuple[str, HostRole, Endpoint | None]]:
    """(host, role, its endpoint) of both ends, then of the observers; a host that is both ends is the client."""
    ends: list[tuple[str, HostRole, Endpoint | None]] = [(plan.client.host, "client", plan.client)]
    if plan.server.host != plan.client.host:
        ends.append((plan.server.host, "server", plan.server))
    known = {name for name, _, _ in ends}
    return ends + [(name, "observer", None) for name in hosts if name not in known]


def _proof(log: RunLog, flows: Sequence[Flow], transactions: TransactionFigures | None) -> PathProof:
    if transactions is not None and not log.plan.has_bulk:
        return _transaction_proof(log, transactions)
    moved = {flow.sender: [0.0, 0.0] for flow in flows} | {flow.receiver: [0.0, 0.0] for flow in flows}
    for flow in flows:
        size = max(sum(point.interval.bytes for point in flow.points), _size(flow.received))
        moved[flow.receiver][0] += size
        moved[flow.sender][1] += size
    framing = run_framing(log.plan, {name: host.snapshot for name, host in log.hosts.items()})
    factor = carried_per_byte(framing, flows)
    if transactions is not None:  # beside a bulk flow
        bulk = max((max(pair) for pair in moved.values()), default=0.0)
        (sent, received), most = packet_bytes(log.plan.requests, _counted(transactions))
        for host, pair in ((log.plan.server.host, (sent, received)), (log.plan.client.host, (received, sent))):
            moved[host] = [one + more for one, more in zip(moved[host], pair, strict=True)]
        share = max(sent, received) / (bulk + max(sent, received)) if sent else 0.0
        factor = factor * (1 - share) + max(factor, most) * share
    expected = {host: (pair[0], pair[1]) for host, pair in moved.items()}
    return prove_path(
        log.plan,
        _observed_hosts(log),
        expected,
        factor,
        headers=carried_per_byte(framing, ()),
        failed=log.failure is not None,
    )


def _transaction_proof(log: RunLog, transactions: TransactionFigures) -> PathProof:
    """Also of the omitted transactions, which the counters contain."""
    count = _counted(transactions)
    (sent, received), factor = packet_bytes(log.plan, count)
    expected = {log.plan.server.host: (sent, received), log.plan.client.host: (received, sent)}
    proof = prove_path(log.plan, _observed_hosts(log), expected, factor, headers=factor, failed=log.failure is not None)
    if proof.one_machine or max(sent, received) >= MIN_PROVEN_BYTES:
        return proof
    few = f"{count_noun(count, 'transaction')}: too few to verify the path by the counters of the NICs"
    return replace(proof, verdict="unknown", sentence=few, hosts=())


def _counted(transactions: TransactionFigures) -> int:
    return max(transactions.latency.count, sum(point.latency.count for point in transactions.points))


def _observed_hosts(log: RunLog) -> dict[str, ObservedHost]:
    return {
        name: ObservedHost(log.before.get(name), log.after.get(name), host.snapshot) for name, host in log.hosts.items()
    }


def carried_per_byte(framing: Framing, flows: Sequence[Flow]) -> float:
    """Bytes that a netdev counts at most for each byte of payload that arrived: headers, and lost datagrams, of the
    flow that lost the largest share."""
    payload, wire = payload_and_wire(framing)
    overhead = (wire - UNCOUNTED_FRAME_BYTES) / payload if payload else 1.0
    if framing.protocol != "udp":
        return overhead
    sizes = [(_size(flow.sent), _size(flow.received)) for flow in flows]
    return overhead * max((sent / arrived for sent, arrived in sizes if sent > arrived > 0), default=1.0)


def _size(total: Total | None) -> float:
    if total is None:
        return 0.0
    return total.bytes if total.bytes is not None else total.bits_per_second * total.seconds / 8


def _setups(log: RunLog, snapshots: Mapping[str, Snapshot]) -> dict[str, NicSetup]:
    """Set-ups of the chosen NICs, by host."""
    found = {}
    for endpoint in (log.plan.client, log.plan.server):
        snapshot = snapshots.get(endpoint.host)
        link = snapshot.links.get(endpoint.ifindex or 0) if snapshot is not None else None
        if snapshot is not None and link is not None:
            limits = exceeded_limits(link, log.before.get(endpoint.host), log.after.get(endpoint.host))
            found[endpoint.host] = replace(nic_setup(link, snapshot), instance_limits=limits)
    return found


def _losses(log: RunLog, snapshots: Mapping[str, Snapshot]) -> tuple[CountedLoss, ...]:
    """What all hosts counted as lost during the run, the largest count of each first."""
    chosen = {end.host: end.ifindex for end in (log.plan.server, log.plan.client)}
    found: list[CountedLoss] = []
    for name, counts in log.losses.items():
        found += counted_losses(snapshots[name], counts, chosen.get(name))[:MAX_LOSSES]
    return tuple(found)


def _incidents(log: RunLog, snapshots: Mapping[str, Snapshot], axis: float | None) -> tuple[NicIncident, ...]:
    """What happened to the chosen NICs during the run, by the kernel logs of their hosts and by rtnetlink."""
    if axis is None:
        return ()
    ends = (log.plan.client, log.plan.server)
    nics = {}
    for end in ends:
        host = log.hosts.get(end.host)
        if host is not None and end.ifindex is not None:
            begin = axis + host.offset.seconds
            nics[end.host] = ChosenNic(end.ifindex, log.names.get(end.host, ""), begin, tuple(host.link_changes))
    return nic_incidents(snapshots, nics, log.plan.span + LATE_SECONDS)


def _notes(result: Result) -> tuple[str, ...]:
    ends = result.proof.hosts if result.proof is not None else ()
    found = [f"{one.sentence}: includes other traffic than this test" for one in ends if one.foreign]
    if result.stopped is not None:  # packets in flight when it was stopped are in no interval
        found = [f"stopped after {result.stopped:.1f} of {result.plan.span} s"]
    if is_above_ceiling(result):
        found.append("above line rate: the reported link speed does not limit this path")
    return tuple(found)


def _stranger_notes(log: RunLog) -> tuple[str, ...]:
    """Who came to the servers of the run, but is not its client."""
    found: list[str] = []
    for one in (log, *([log.load] if log.load is not None else [])):
        server = one.ends["server"]
        found += refused_texts(server.host, server.refused)
        if log.failure is None and server.peer:
            found += translated_texts(one.plan, server.peer)
    return tuple(dict.fromkeys(found))


def _clock_uncertainty(log: RunLog) -> float | None:
    """That of the host with the largest uncertainty; None if one is not known."""
    known = [host.offset.uncertainty for host in log.hosts.values()]
    return max((one for one in known if one is not None), default=None) if None not in known else None
