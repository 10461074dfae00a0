"""The result of a run: what arrived, its CPU cost, its path, and whether it may be compared with others.

Reads nothing. Totals come from the end counters of the generator; only those of a run that the user stopped come from
its intervals, and such a run is never ranked. Times are seconds since the start of the measured seconds, on one axis
for all hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from nictop.model.devices.ceiling import Ceiling
from nictop.model.text.terminal import clean
from nictop.model.text.units import percentage
from nictop.traffic.analysis.counted_losses import CountedLoss
from nictop.traffic.analysis.cpu_load import HostLoad
from nictop.traffic.analysis.path_proof import PathProof
from nictop.traffic.generators.intervals import Interval, Total
from nictop.traffic.generators.latency import samples_needed
from nictop.traffic.path.findings.sizes import best_size
from nictop.traffic.path.stored import StoredFinding, StoredPathTest
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.results.transactions import TransactionFigures
from nictop.traffic.run.failures import Failure

RESULT_SCHEMA = 2
"""Increased when the meaning of a field changes. 2: tests of requests and responses, which an older nictop would take
for runs without goodput; other results are still written as 1."""

MAX_READY_SHARE = 0.05
"""Share of the time in which the virtual CPUs of an end wait for a CPU of their ESXi host; with more, the run measures
other virtual machines too."""
LimitVerdict = Literal["cause", "possible", "excluded"]
"""cause: of the rate. possible: not excluded, or hidden by another cause. excluded: its figures do not
explain the rate."""
NOT_DETERMINED = "not determined"
"""A bottleneck whose cause is not known."""
MISLEADING_FINDINGS = ("path_duplicate_address", "path_arp_flux", "path_rp_filter")
"""Findings of the path test with which a run measures something else than the path: packets go to another host or NIC,
or are dropped. An MTU black hole is one if the run sends larger packets."""
DEFAULT_DATAGRAM_BYTES = 1448
"""Bytes of payload in a datagram by default."""
REACHED_SHARE = 0.98
"""Of the requested load: a run that carried that much reached it."""
LOST_BY_SIZE = ("path_mtu_black_hole", "path_drops_by_size")
"""Findings of a path test: packets above a size are lost."""
MIN_PHASE_SHARE = 0.5
"""Of the planned seconds of each phase of a loaded run."""
MAX_UNKNOWN_SHARE = 0.01
"""Of the requests: with more of them lost, p99 is unknown."""
MAX_STEAL_SHARE = 0.05
"""Share of CPU time of a host; with more, the run measures other virtual machines too."""


@dataclass(frozen=True)
class IntervalPoint:
    """One interval on the axis of the run."""

    time: float
    """End of the interval."""
    interval: Interval


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

    @property
    def goodput(self) -> float | None:
        """Bits per second that arrived."""
        return self.received.bits_per_second if self.received is not None else None

    @property
    def retransmits_per_gigabyte(self) -> float | None:
        if self.retransmits is None or self.received is None:
            return None
        size = self.received.bytes or self.received.bits_per_second * self.received.seconds / 8
        return self.retransmits * 1e9 / size if size else None


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
    """Bytes that the receiver offered to all streams, median; None: not known (Linux before 5.4)."""


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
    proof: PathProof | None = None
    failure: Failure | None = None
    """Why it did not end normally."""
    bottleneck: str = ""
    """A sentence."""
    facts: dict[str, str] = field(default_factory=dict)
    """Facts about the set-up for a comparison: ``client kernel``, ``server driver``, ``client iperf3``, ``mtu``, …"""
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
    """What happened to the chosen NIC of an end during it, with the second; "": nothing that is known."""
    losses: tuple[CountedLoss, ...] = ()
    """Counters of lost packets that rose on any host from right before the run to right after it."""
    limits: tuple[ExaminedLimit, ...] = ()
    """All limits that were examined for `bottleneck`, its cause first; (): only the sentence is known."""

    @property
    def goodput(self) -> float | None:
        """Bits per second that arrived, both directions together; None if one is not known."""
        known = [flow.goodput for flow in self.flows]
        return sum(one for one in known if one is not None) if known and None not in known else None

    @property
    def empty_flows(self) -> tuple[Flow, ...]:
        """Directions in which nothing arrived: the receiver counted 0 bytes, or reported no total and no bytes."""
        return tuple(flow for flow in self.flows if not _has_arrived(flow))

    @property
    def has_carried(self) -> bool:
        """Data arrived in each direction, and requests were answered; False also if that is not known."""
        if self.plan.has_requests and (self.transactions is None or not self.transactions.latency.count):
            return False
        if not self.plan.has_bulk:
            return True
        return bool(self.flows) and not self.empty_flows

    @property
    def load(self) -> float | None:
        """What `plan.requested_load` is about: goodput in bits per second, or transactions per second."""
        if self.plan.has_bulk:
            return self.goodput
        return self.transactions.rate if self.transactions is not None else None

    @property
    def reached_load(self) -> bool:
        """The requested load was reached; True also if none was requested."""
        requested = self.plan.requested_load
        return requested is None or (self.load is not None and self.load >= REACHED_SHARE * requested)

    @property
    def of_ceiling(self) -> float | None:
        """Share of 1 of the ceiling that the faster direction reached."""
        highest = max((flow.goodput for flow in self.flows if flow.goodput is not None), default=None)
        if highest is None or self.ceiling is None or not self.ceiling.goodput:
            return None
        return highest / self.ceiling.goodput

    @property
    def why_not_ranked(self) -> tuple[str, ...]:
        """Why it may not be compared with others; () if it may."""
        return tuple(_ranking_objections(self))


def _has_arrived(flow: Flow) -> bool:
    """By the total of the receiver, else by the intervals."""
    if flow.goodput is not None:
        return flow.goodput > 0
    return any(point.interval.bytes for point in flow.points)


def _ranking_objections(result: Result) -> Sequence[str]:
    found = []
    if result.failure is not None:
        found.append(f"failed: {result.failure.sentence}")
    elif result.stopped is not None:
        found.append(f"stopped after {result.stopped:.1f} of {result.plan.span} s")
    elif result.plan.test == "loaded":
        found += _loaded_objections(result)
    elif result.plan.test != "bulk":
        found += _transaction_objections(result.transactions)
    elif result.goodput is None:
        found.append("goodput of the receiver unknown")
    if result.proof is None:
        found.append("path not checked")
    elif result.proof.verdict != "proven":
        found.append(f"path not verified: {result.proof.sentence}")
    findings = result.path_test.findings if result.path_test is not None else ()
    misleading = (one for one in findings if one.rule in MISLEADING_FINDINGS or _is_lost(result, one))
    found += [f"path test: {clean(one.title)}" for one in misleading]
    for load in result.hosts:
        host = clean(load.host)
        found += [
            f"{clean(one.end)}: {percentage(one.ready)} CPU ready on {host}"
            for one in load.machines
            if one.end and one.ready is not None and one.ready > MAX_READY_SHARE
        ]
        if load.role == "observer":
            continue
        if load.busy is None and result.plan.files is None:  # else it may be over within a fraction of a second
            found.append(f"{host}: CPU not measured")
        elif load.busy is not None and load.busy.steal_share > MAX_STEAL_SHARE:
            found.append(f"{host}: {percentage(load.busy.steal_share)} CPU steal")
    return found


def _transaction_objections(figures: TransactionFigures | None) -> Sequence[str]:
    if figures is None or not figures.latency.count:
        return ["no transactions"]
    found = [f"ended early: {figures.ended_early}"] if figures.ended_early else []
    return [*found, "limited by the generator"] if figures.limited_by_generator else found


def _loaded_objections(result: Result) -> Sequence[str]:
    figures = result.transactions
    if not result.goodput or not all(flow.goodput for flow in result.flows):
        return ["no bulk flow beside the requests"]
    phases = (("idle", figures.idle if figures is not None else None), ("loaded", figures))
    found = []
    for name, one in phases:
        if one is None or one.seconds < MIN_PHASE_SHARE * result.plan.time:
            seconds = one.seconds if one is not None else 0.0
            found.append(f"{name} phase: requests in {seconds:.1f} of {result.plan.time} s")
        elif one.latency.summary().p50 is None:
            found.append(f"{name} phase: {one.latency.count} requests, {samples_needed('p50')} needed")
        elif one.lost_share > MAX_UNKNOWN_SHARE:
            found.append(f"{name} phase: {percentage(one.lost_share)} of the requests lost, their latency is unknown")
    if figures is not None and figures.limited_by_generator:
        found.append("limited by the generator")
    return found


def _is_lost(result: Result, finding: StoredFinding) -> bool:
    """Full-sized packets of the run are lost in an MTU black hole. TCP sends no larger ones than both NICs take."""
    plan, report = result.plan.load or result.plan, result.path_test
    if finding.rule not in LOST_BY_SIZE or report is None or finding.host not in plan.senders:
        return False
    direction = next((one for one in report.result.directions if one.sender.host == finding.host), None)
    if direction is None or direction.test is None:
        return False
    size = best_size(direction.test)
    headers = (40 if plan.ip_version == 4 else 60) - (12 if plan.protocol == "udp" else 0)
    limits = [direction.sender.mtu]
    if plan.protocol == "udp":
        limits.append((plan.length or DEFAULT_DATAGRAM_BYTES) + headers)
    else:
        limits += [direction.receiver.mtu, plan.mss + headers if plan.mss is not None else None]
    known = [one for one in limits if one is not None]
    return size is not None and size.largest is not None and bool(known) and min(known) > size.largest
