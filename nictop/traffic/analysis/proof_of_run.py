"""Whether the chosen NICs carried a run, from its record: what each host is to have counted.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import replace
from nictop.traffic.analysis.framing import carried_per_byte, run_framing, total_bytes
from nictop.traffic.analysis.path_proof import PARTIAL_SHARE, ObservedHost, prove_path
from nictop.traffic.analysis.socket_samples import moved_bytes
from nictop.traffic.analysis.transactions import MIN_PROVEN_BYTES, packet_bytes
from nictop.traffic.generators import Side
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.record.log import RunLog
from nictop.traffic.results.path_proof import PathProof
from nictop.traffic.results.result import Flow
from nictop.traffic.results.transactions import TransactionFigures

WAITED_FOR_DATA = ("stall", "deadline", "black_hole")
"""Kinds of failures before which nothing arrived for seconds: what is not delivered is known."""
OTHER_SIDE: dict[Side, Side] = {"client": "server", "server": "client"}

Moved = dict[str, tuple[float, float]]
"""Host → bytes of payload that it received and sent."""


def proof_of_run(
    log: RunLog, flows: Sequence[Flow], transactions: TransactionFigures | None
) -> PathProof:
    """`flows`, `transactions`: of its result."""
    if transactions is not None and not log.plan.has_bulk:
        return _transaction_proof(log, transactions)
    is_unfinished = log.failure is not None or log.stopped is not None
    moved = _arrived(log, flows) if is_unfinished else _moved_by_flows(flows)
    framing = run_framing(log.plan, {name: host.snapshot for name, host in log.hosts.items()})
    factor = carried_per_byte(framing, flows)
    if transactions is not None:
        moved, factor = _with_requests(log, moved, factor, transactions)
    headers = carried_per_byte(framing, ())
    has_failed = log.failure is not None
    proof = prove_path(
        log.plan, _observed_hosts(log), moved, factor, headers=headers, failed=has_failed
    )
    if log.failure is None or log.failure.kind not in WAITED_FOR_DATA:
        return proof
    lost = "".join(_not_delivered(log, flows))
    return replace(proof, sentence=proof.sentence + lost)


def _moved_by_flows(flows: Sequence[Flow]) -> Moved:
    sizes = []
    for flow in flows:
        reported = 0.0
        # what a sender reports is in its socket buffer, where the receiver is not watched
        if flow.received is None or not any(point.interval.sends for point in flow.points):
            reported = sum(point.interval.bytes for point in flow.points)
        sizes.append(max(reported, total_bytes(flow.received)))
    return _moved(flows, sizes)


def _moved(flows: Sequence[Flow], sizes: Sequence[float]) -> Moved:
    """`sizes`: bytes of each of the flows."""
    moved: Moved = {}
    for flow, size in zip(flows, sizes, strict=True):
        received, sent = moved.get(flow.receiver, (0.0, 0.0))
        moved[flow.receiver] = (received + size, sent)
        received, sent = moved.get(flow.sender, (0.0, 0.0))
        moved[flow.sender] = (received, sent + size)
    return moved


def _arrived(log: RunLog, flows: Sequence[Flow]) -> Moved:
    """Of a run that did not come to its end: what was written is left in send buffers."""
    return _moved(flows, [_delivered(log, side) for side in log.plan.sending])


def _delivered(log: RunLog, sender: Side) -> float:
    """Bytes of one direction that the generator of the receiver reported, or that TCP had at the
    last sample, whichever is more; of UDP without a report what was sent."""
    sending, receiving = log.last.ends[sender], log.last.ends[OTHER_SIDE[sender]]
    known = [
        _interval_bytes(receiving, sends=False),
        total_bytes(receiving.total(sends=False, by_sender=False)),
    ]
    if log.plan.protocol == "tcp":
        has_control = log.last.plan.generator == "iperf3"
        known.append(moved_bytes(receiving, sends=False, has_control=has_control))
        known.append(moved_bytes(sending, sends=True, has_control=has_control))
    elif log.plan.foreign:
        known.append(_interval_bytes(sending, sends=True))
    return max(known)


def _interval_bytes(end: RunEnd, *, sends: bool) -> float:
    return sum(interval.bytes for _, interval in end.intervals if interval.sends == sends)


def _not_delivered(log: RunLog, flows: Sequence[Flow]) -> Iterator[str]:
    """``; 11.1 MiB that vm1 wrote to its sockets were not delivered``, of each direction with more
    than a small share."""
    for side, flow in zip(log.plan.sending, flows, strict=True):
        written = _interval_bytes(log.last.ends[side], sends=True)
        left = written - _delivered(log, side)
        if left > PARTIAL_SHARE * written:
            size = units.bytes_(left)
            what = "wrote to its sockets" if log.plan.protocol == "tcp" else "sent"
            yield f"; {size} that {clean(flow.sender)} {what} were not delivered"


def _with_requests(
    log: RunLog, moved: Moved, factor: float, transactions: TransactionFigures
) -> tuple[Moved, float]:
    """What is to be counted, with the requests beside a bulk flow, and how much more than that for
    each byte of it."""
    bulk = max(map(max, moved.values()), default=0.0)
    (to_server, to_client), most = packet_bytes(log.plan.requests, _counted(transactions))
    found = dict(moved)
    for host, received, sent in (
        (log.plan.server.host, to_server, to_client),
        (log.plan.client.host, to_client, to_server),
    ):
        before = found[host]
        found[host] = (before[0] + received, before[1] + sent)
    if not to_server:
        return found, factor
    largest = max(to_server, to_client)
    share = largest / (bulk + largest)
    return found, factor * (1 - share) + max(factor, most) * share


def _transaction_proof(log: RunLog, transactions: TransactionFigures) -> PathProof:
    """Also of the omitted transactions, which the counters contain."""
    count = _counted(transactions)
    (sent, received), factor = packet_bytes(log.plan, count)
    expected = {log.plan.server.host: (sent, received), log.plan.client.host: (received, sent)}
    proof = prove_path(
        log.plan,
        _observed_hosts(log),
        expected,
        factor,
        headers=factor,
        failed=log.failure is not None,
    )
    if proof.one_machine or max(sent, received) >= MIN_PROVEN_BYTES:
        return proof
    few = (
        f"{count_noun(count, 'transaction')}: too few to verify the path by the counters of the "
        f"NICs"
    )
    return replace(proof, verdict="unknown", sentence=few, hosts=())


def _counted(transactions: TransactionFigures) -> int:
    """Transactions, with the omitted ones, which only the intervals contain."""
    of_intervals = sum(point.latency.count for point in transactions.points)
    return max(transactions.latency.count, of_intervals)


def _observed_hosts(log: RunLog) -> dict[str, ObservedHost]:
    return {
        name: ObservedHost(log.before.get(name), log.after.get(name), host.snapshot)
        for name, host in log.hosts.items()
    }
