"""The result of a run: what arrived, its CPU cost, its path, and whether it may be compared with
others.

Reads nothing. Totals come from the end counters of the generator; only those of a run that the user
stopped come from its intervals, and such a run is never ranked. Times are seconds since the start
of the measured seconds, on one axis for all hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from nictop.model.devices.ceiling import Ceiling
from nictop.model.text.terminal import clean
from nictop.model.text.units import bytes_, percentage
from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records import PathTest
from nictop.traffic.drops.counted_losses import CountedLoss
from nictop.traffic.failures import Failure
from nictop.traffic.generators.intervals import Interval, Total
from nictop.traffic.generators.latency import samples_needed
from nictop.traffic.path.findings.sizes import best_size
from nictop.traffic.path.result import PathDirection
from nictop.traffic.path.stored import StoredFinding, StoredPathTest
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.results.host_load import HostLoad
from nictop.traffic.results.path_proof import PathProof
from nictop.traffic.results.port_load import PortLoad
from nictop.traffic.results.transactions import IdlePhase, TransactionFigures
from nictop.traffic.results.workload import MAX_OTHER_SHARE, WorkloadFigures

RESULT_SCHEMA = 3
"""Increased when the meaning of a field changes; the newest that is read. 2: tests of requests and
responses, which an older nictop would take for runs without goodput. 3: workloads and measurements
by hand, which have one host. Other results are still written as 1."""
TRANSACTION_SCHEMA, WORKLOAD_SCHEMA = 2, 3

MAX_READY_SHARE = 0.05
"""Share of the time in which the virtual CPUs of an end wait for a CPU of their ESXi host; with
more, the run measures other virtual machines too."""
LimitVerdict = Literal["cause", "possible", "excluded"]
"""cause: of the rate. possible: not excluded, or hidden by another cause. excluded: its figures do
not explain the rate."""
NOT_DETERMINED = "not determined"
"""A bottleneck whose cause is not known."""
MISLEADING_FINDINGS = ("path_duplicate_address", "path_arp_flux", "path_rp_filter")
"""Findings of the path test with which a run measures something else than the path: packets go to
another host or NIC, or are dropped. An MTU black hole is one if the run sends larger packets."""
DEFAULT_DATAGRAM_BYTES = 1448
"""Bytes of payload in a datagram by default."""
SAME_TIME_SHARE, SAME_TIME_SECONDS = 0.05, 0.5
"""By how much the seconds of two totals of one run may differ."""
REACHED_SHARE = 0.98
"""Of the requested load: a run that carried that much reached it."""
Incident = Literal["", "link_lost", "other", "renamed"]
"""Of a chosen NIC during a run. link_lost: no packets passed until the link was up again. renamed:
its packets passed all the time."""
LOST_BY_SIZE = ("path_mtu_black_hole", "path_drops_by_size")
"""Findings of a path test: packets above a size are lost."""
MIN_PHASE_SHARE = 0.5
"""Of the planned seconds of each phase of a loaded run."""
MAX_UNKNOWN_SHARE = 0.01
"""Of the requests: with more of them lost, p99 is unknown."""
UDP_HEADER_BYTES, TCP_HEADER_BYTES = 8, 20
MIN_COUNTED_SECONDS = 2.0
"""Of a workload, in which there are counter records enough for its CPU time."""
MAX_STEAL_SHARE = 0.05
"""Share of CPU time of a host; with more, the run measures other virtual machines too."""


@dataclass(frozen=True)
class IntervalPoint:
    """One interval on the axis of the run."""

    time: float
    """End of the interval."""
    interval: Interval

    @property
    def seconds(self) -> float:
        return self.interval.seconds


@dataclass(frozen=True)
class Flow:
    """One direction of a run."""

    sender: str
    receiver: str
    """Names of the hosts."""
    sent: Total | None
    """Counted by the sender (written into its socket buffers)."""
    received: Total | None
    """Counted by the receiver: the goodput."""
    points: tuple[IntervalPoint, ...] = ()
    """Reported by the receiver, or else by the sender; omitted intervals are before 0."""
    retransmits: int | None = None
    """Segments, in the measured seconds."""
    sent_points: tuple[IntervalPoint, ...] = ()
    """Reported by the sender, with retransmits, rtt and window of its sockets."""
    ceiling: Ceiling | None = None
    """Of this direction, if that of the other one differs; None: it is `Result.ceiling`."""

    @property
    def reports_of_sender(self) -> tuple[IntervalPoint, ...]:
        """`sent_points`; in a result without them `points`, if they are those of the sender."""
        if self.sent_points or not self.points or not self.points[-1].interval.sends:
            return self.sent_points
        return self.points

    @property
    def goodput(self) -> float | None:
        """Bits per second that arrived."""
        if self.received is None:
            return None
        return self.received.bits_per_second

    @property
    def goodput_or_zero(self) -> float:
        """0 also if it is not known."""
        return self.goodput or 0.0

    @property
    def retransmits_per_gigabyte(self) -> float | None:
        if self.retransmits is None or self.received is None:
            return None
        size = self.received.bytes or self.received.bits_per_second * self.received.seconds / 8
        if not size:
            return None
        return self.retransmits * 1e9 / size


@dataclass(frozen=True)
class SocketFigures:
    """The connections of a sender in the measured seconds, by sock_diag."""

    host: str
    rtt: int | None
    """µs, median."""
    snd_mss: int | None
    """Bytes, the smallest of all connections."""
    congestion_window: int | None
    """Segments, median of the sum of all streams."""
    window_limited: float | None
    """Share of 1 of the time with data to send in which the receiver's window was full."""
    buffer_limited: float | None
    """The same for the sender's send buffer."""
    congestion_control: str | None = None
    send_window: int | None = None
    """Bytes that the receiver offered to all streams, median; None: not known (Linux before
    5.4)."""


@dataclass(frozen=True)
class ForeignEnd:
    """An end that nictop neither started nor watches, as its iperf3 reports it."""

    address: str
    cpu: float | None = None
    """CPU time of its iperf3, in cores; None: not reported."""
    side: Literal["client", "server"] = "server"
    differs: tuple[str, ...] = ()
    """What a client did otherwise than it was told to: ``reverse, not forward``."""


@dataclass(frozen=True)
class ExaminedLimit:
    """One limit that was examined for the bottleneck."""

    limit: str
    """``receive window``"""
    value: str
    """Its figures: ``full 3 % of the time``; "": there are none."""
    verdict: LimitVerdict


@dataclass(frozen=True)
class Result:
    """One run."""

    plan: RunPlan
    wall: float
    """Seconds since the epoch at its start."""
    flows: tuple[Flow, ...] = ()
    """Of the client first."""
    hosts: tuple[HostLoad, ...] = ()
    """Client, server, observers."""
    sockets: tuple[SocketFigures, ...] = ()
    """Of each sender."""
    ceiling: Ceiling | None = None
    """Of each direction; if theirs differ (`Flow.ceiling`), that of the first."""
    proof: PathProof | None = None
    failure: Failure | None = None
    """Why it did not end normally."""
    bottleneck: str = ""
    """A sentence."""
    facts: dict[str, str] = field(default_factory=dict)
    """Facts about the set-up for a comparison: ``client kernel``, ``server driver``, ``client
    iperf3``, ``mtu``, …"""
    notes: tuple[str, ...] = ()
    """Remarks that do not invalidate the result."""
    clock_uncertainty: float | None = None
    """Maximum error in seconds between the hosts on the axis; None: not known."""
    stopped: float | None = None
    """Measured seconds when the user stopped it; None: it was not stopped."""
    schema: int = 1
    transactions: TransactionFigures | None = None
    """Of a test of requests and responses, which has no `flows` unless it is loaded."""
    path_test: StoredPathTest | None = None
    """The path test before it; None: there was none."""
    event: str = ""
    """What happened to the chosen NIC of an end during it, with the second; "": nothing that is
    known."""
    incident: Incident = ""
    """Of what kind `event` and what followed it are; "": there was none, or it is of an older
    version."""
    losses: tuple[CountedLoss, ...] = ()
    """Counters of lost packets that rose on any host from right before the run to right after
    it."""
    ports: tuple[PortLoad, ...] = ()
    """Ports with VFs that carried it, as their NICs count them."""
    limits: tuple[ExaminedLimit, ...] = ()
    """All limits that were examined for `bottleneck`, its cause first; (): only the sentence is
    known."""
    foreign: ForeignEnd | None = None
    """The end that nictop did not start; None: it started both."""
    workload: WorkloadFigures | None = None
    """Of a workload or a measurement by hand, whose `flows` are what the chosen NIC sent and
    received, with headers."""
    further_events: tuple[str, ...] = ()
    """What else happened to the chosen NICs, after `event`; (): nothing, or it is of an older
    version."""

    @property
    def goodput(self) -> float | None:
        """Bits per second that arrived, both directions together, in the same seconds
        (`common_seconds`); None if one is not known."""
        known = [flow.goodput for flow in self.flows if flow.goodput is not None]
        if not known or len(known) < len(self.flows):
            return None
        seconds = self.common_seconds
        if seconds is None:
            return sum(known)
        sizes = [_bytes_until(flow, seconds) for flow in self.flows]
        arrived = [size for size in sizes if size is not None]
        if len(arrived) < len(sizes):
            return None
        return 8 * sum(arrived) / seconds

    @property
    def common_seconds(self) -> float | None:
        """The first seconds, in which all directions were measured, if their totals are of
        different times; None: they are of the same one."""
        known = [flow.received.seconds for flow in self.flows if flow.received is not None]
        least = min(known, default=0.0)
        if len(known) < 2 or least <= 0 or self.plan.is_of_one_host:
            return None
        return None if is_same_time(least, max(known)) else least

    @property
    def empty_flows(self) -> tuple[Flow, ...]:
        """Directions in which nothing arrived: the receiver counted 0 bytes, or reported no total
        and no bytes."""
        return tuple(flow for flow in self.flows if not _has_arrived(flow))

    @property
    def has_carried(self) -> bool:
        """Data arrived in each direction, and requests were answered; False also if that is not
        known."""
        if self.plan.is_of_one_host:
            return self.workload is not None and self.failure is None
        if self.plan.has_requests and not self._are_requests_answered:
            return False
        if not self.plan.has_bulk:
            return True
        return bool(self.flows) and not self.empty_flows

    @property
    def _are_requests_answered(self) -> bool:
        figures = self.transactions
        return figures is not None and figures.latency.count > 0

    @property
    def load(self) -> float | None:
        """What `plan.requested_load` is about: goodput in bits per second, or transactions per
        second."""
        if self.plan.has_rate:
            return self.goodput
        if self.transactions is None:
            return None
        return self.transactions.rate

    @property
    def reached_load(self) -> bool:
        """The requested load was reached; True also if none was requested."""
        requested, load = self.plan.requested_load, self.load
        if requested is None:
            return True
        return load is not None and load >= REACHED_SHARE * requested

    def ceiling_of(self, flow: Flow) -> Ceiling | None:
        return flow.ceiling if flow.ceiling is not None else self.ceiling

    def share_of_ceiling(self, flow: Flow) -> float | None:
        """Share of 1 of its own ceiling that a direction reached; None: not known."""
        ceiling = self.ceiling_of(flow)
        if flow.goodput is None or ceiling is None or not ceiling.goodput:
            return None
        return flow.goodput / ceiling.goodput

    @property
    def total_ceiling(self) -> float | None:
        """Of all directions together, as `goodput`: a link carries both at once. Bits per second;
        None: that of one is not known."""
        total = 0.0
        for flow in self.flows:
            ceiling = self.ceiling_of(flow)
            if ceiling is None or not ceiling.goodput:
                return None
            total += ceiling.goodput
        return total or None

    @property
    def of_ceiling(self) -> float | None:
        """`goodput` as a share of 1 of `total_ceiling`."""
        goodput, ceiling = self.goodput, self.total_ceiling
        if goodput is None or ceiling is None:
            return None
        return goodput / ceiling

    @property
    def went_elsewhere(self) -> bool:
        """A command did not use the NIC that was chosen for it, as far as is known."""
        figures = self.workload
        return self.plan.test == "workload" and figures is not None and not figures.used_chosen_nic

    @property
    def compares_other_nic(self) -> bool:
        """`went_elsewhere` in a comparison of NICs."""
        return self.plan.variable_name == "nic" and self.went_elsewhere

    @property
    def measured_seconds(self) -> float:
        """Those of which its figures are: the planned ones, unless it was ended early or its
        generators took longer."""
        if self.plan.is_of_one_host:
            return self.workload.seconds if self.workload is not None else self.stopped or 0.0
        reported = self._reported_seconds()
        if reported is not None:
            return reported
        if self.failure is None and self.stopped is None:
            return float(self.plan.span)
        last = self._time_of_last_point()
        return self.stopped or 0.0 if last is None else last

    def _reported_seconds(self) -> float | None:
        """By the generators, at their end. Of latency under load the bulk flow is but a part."""
        if self.plan.test == "loaded":
            return None
        if self.transactions is not None:
            return self.transactions.seconds
        totals = [flow.received.seconds for flow in self.flows if flow.received is not None]
        return max(totals, default=None)

    def _time_of_last_point(self) -> float | None:
        points = [point.time for flow in self.flows for point in flow.points]
        if self.transactions is not None:
            points += [point.time for point in self.transactions.points]
        return max(0.0, *points) if points else None

    @property
    def had_incident(self) -> bool:
        """Something happened to a chosen NIC that may have changed the figures."""
        return bool(self.event) and self.incident != "renamed"

    @property
    def why_not_ranked(self) -> tuple[str, ...]:
        """Why it may not be compared with others; () if it may."""
        return tuple(_ranking_objections(self))


def is_same_time(one: float, other: float) -> bool:
    """Seconds of two totals: generators end a little late."""
    return not abs(one - other) > SAME_TIME_SHARE * min(one, other) + SAME_TIME_SECONDS


def _bytes_until(flow: Flow, seconds: float) -> float | None:
    """Payload that arrived in the first measured seconds, by the intervals of the receiver; None:
    it reported none."""
    size, is_known = 0.0, False
    for point in flow.points:
        interval = point.interval
        if interval.sends or interval.omitted or interval.seconds <= 0:
            continue
        is_known = True
        begin, end = max(0.0, point.time - interval.seconds), min(point.time, seconds)
        size += interval.bytes * max(0.0, end - begin) / interval.seconds
    return size if is_known else None


def is_sender_state(interval: Interval) -> bool:
    """The sender reported the state of its connections; a receiver does not know it."""
    if not interval.sends:
        return False
    has_window = interval.rtt is not None or interval.congestion_window is not None
    return has_window or interval.retransmits is not None


def _has_arrived(flow: Flow) -> bool:
    """By the total of the receiver, else by the intervals."""
    if flow.goodput is not None:
        return flow.goodput > 0
    return any(point.interval.bytes for point in flow.points)


def _ranking_objections(result: Result) -> Iterator[str]:
    if result.plan.is_of_one_host:
        yield from _one_host_objections(result)
        return
    yield from _end_objections(result)
    yield from _event_objections(result)
    if result.foreign is not None and result.foreign.differs:
        yield f"another test than was to be typed: {', '.join(result.foreign.differs)}"
    if result.proof is None:
        yield "path not checked"
    elif result.proof.verdict != "proven":
        yield f"path not verified: {result.proof.sentence}"
    findings = result.path_test.findings if result.path_test is not None else ()
    for finding in findings:
        if finding.rule in MISLEADING_FINDINGS or _is_lost(result, finding):
            yield f"path test: {clean(finding.title)}"
    for load in result.hosts:
        yield from _host_objections(load, is_short=result.plan.files is not None)


def _event_objections(result: Result) -> Iterator[str]:
    """What happened to a NIC of a run that has figures, and may explain them."""
    if result.failure is None and result.had_incident:
        yield result.event


def _one_host_objections(result: Result) -> Iterator[str]:
    figures = result.workload
    if result.failure is not None:
        yield f"failed: {result.failure.sentence}"
    elif result.stopped is not None:
        yield f"stopped after {result.stopped:.1f} s"
    elif figures is None:
        yield "not measured"
    else:
        share = figures.other_share
        if share is not None and share > MAX_OTHER_SHARE:
            yield f"{percentage(share)} of the bytes were not this workload"
        if result.compares_other_nic:
            yield other_nic_text(figures)
        if result.plan.judged_by in ("value", "smaller-value") and figures.figure is None:
            yield f"no figure of the command: {figures.no_figure or 'none of a known format'}"
    for load in result.hosts:
        is_short = figures is None or figures.seconds < MIN_COUNTED_SECONDS
        yield from _host_objections(load, is_short=is_short)


def other_nic_text(figures: WorkloadFigures) -> str:
    """``path not verified: ens5 carried 12.0 kB, ens4 1.20 GB: bind the command to …``"""
    chosen, busier = figures.chosen, figures.busier_nic
    if chosen is None or busier is None:
        return "path not verified: the chosen NIC was not counted"
    carried = f"{clean(chosen.name)} carried {bytes_(chosen.bytes)}"
    carried += f", {clean(busier.name)} {bytes_(busier.bytes)}"
    return f"path not verified: {carried}: bind the command to the NIC, or its address"


def _end_objections(result: Result) -> Iterable[str]:
    """It failed, was stopped, or did not measure what it is ranked by."""
    if result.failure is not None:
        return [f"failed: {result.failure.sentence}"]
    if result.stopped is not None:
        return [f"stopped after {result.measured_seconds:.1f} of {result.plan.span} s"]
    if result.plan.test == "loaded":
        return _loaded_objections(result)
    if result.plan.has_requests:
        return _transaction_objections(result.transactions)
    return ["goodput of the receiver unknown"] if result.goodput is None else []


def _host_objections(load: HostLoad, *, is_short: bool) -> Iterator[str]:
    """`is_short`: the run may be over within a fraction of a second."""
    host = clean(load.host)
    for machine in load.machines:
        if machine.end and machine.ready is not None and machine.ready > MAX_READY_SHARE:
            yield f"{clean(machine.end)}: {percentage(machine.ready)} CPU ready on {host}"
    if load.role == "observer":
        return
    if load.busy is None:
        if not is_short:
            yield f"{host}: CPU not measured"
    elif load.busy.steal_share > MAX_STEAL_SHARE:
        yield f"{host}: {percentage(load.busy.steal_share)} CPU steal"


def _transaction_objections(figures: TransactionFigures | None) -> Iterator[str]:
    if figures is None or not figures.latency.count:
        yield "no transactions"
        return
    if figures.ended_early:
        yield f"ended early: {figures.ended_early}"
    if figures.limited_by_generator:
        yield "limited by the generator"


def _loaded_objections(result: Result) -> Iterator[str]:
    figures = result.transactions
    if not result.goodput or not all(flow.goodput for flow in result.flows):
        yield "no bulk flow beside the requests"
        return
    idle = figures.idle if figures is not None else None
    yield from _phase_objections("idle", idle, result.plan.time)
    yield from _phase_objections("loaded", figures, result.plan.time)
    if figures is not None and figures.limited_by_generator:
        yield "limited by the generator"


def _phase_objections(
    name: str, phase: IdlePhase | TransactionFigures | None, planned: int
) -> Iterator[str]:
    """`planned`: seconds of the phase."""
    seconds = phase.seconds if phase is not None else 0.0
    if phase is None or seconds < MIN_PHASE_SHARE * planned:
        yield f"{name} phase: requests in {seconds:.1f} of {planned} s"
    elif phase.latency.summary().p50 is None:
        yield f"{name} phase: {phase.latency.count} requests, {samples_needed('p50')} needed"
    elif phase.lost_share > MAX_UNKNOWN_SHARE:
        lost = f"{percentage(phase.lost_share)} of the requests lost"
        yield f"{name} phase: {lost}, their latency is unknown"


def lost_by_size(result: Result, sender: str) -> Iterator[str]:
    """``path test: packets above 1404 bytes are lost …; those of this run have 1468 bytes``: of the
    direction from `sender`, if full-sized packets of the run are too large for it."""
    report = result.path_test
    if report is None:
        return
    for finding in report.findings:
        if finding.host != sender or not _is_lost(result, finding):
            continue
        for direction in report.result.directions:
            if direction.sender.host == sender:
                sent = _packet_bytes(result.plan.parts[-1], direction)
                yield f"path test: {clean(finding.title)}; those of this run have {sent} bytes"


def _is_lost(result: Result, finding: StoredFinding) -> bool:
    """Full-sized packets of the run are lost in an MTU black hole. TCP sends no larger ones than
    both NICs take."""
    plan, report = result.plan.parts[-1], result.path_test
    if finding.rule not in LOST_BY_SIZE or report is None or finding.host not in plan.senders:
        return False
    for direction in report.result.directions:
        if direction.sender.host == finding.host and direction.test is not None:
            largest = _largest_passing(direction.test)
            sent = _packet_bytes(plan, direction)
            return largest is not None and sent is not None and sent > largest
    return False


def _largest_passing(test: PathTest) -> int | None:
    """Bytes of the largest packet that passes; None: not measured."""
    size = best_size(test)
    if size is None:
        return None
    return size.largest


def datagram_bytes(plan: RunPlan) -> int:
    """Payload of a datagram of a run over UDP."""
    return plan.length or DEFAULT_DATAGRAM_BYTES


def _packet_bytes(plan: RunPlan, direction: PathDirection) -> int | None:
    """Of the largest packets of a run in this direction; None: no limit of theirs is known."""
    limits = [direction.sender.mtu]
    ip_header = 20 if plan.ip_version == 4 else 40
    if plan.protocol == "udp":
        limits.append(datagram_bytes(plan) + ip_header + UDP_HEADER_BYTES)
    else:
        limits.append(direction.receiver.mtu)
        if plan.mss is not None:
            limits.append(plan.mss + ip_header + TCP_HEADER_BYTES)
    return min((limit for limit in limits if limit is not None), default=None)
