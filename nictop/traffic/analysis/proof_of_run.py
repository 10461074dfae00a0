"""Whether the chosen NICs carried a run, from its record: what each host is to have counted.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import replace
from nictop.traffic.analysis.framing import carried_per_byte, run_framing, total_bytes
from nictop.traffic.analysis.path_proof import ObservedHost, prove_path
from nictop.traffic.analysis.transactions import MIN_PROVEN_BYTES, packet_bytes
from nictop.traffic.record.log import RunLog
from nictop.traffic.results.path_proof import PathProof
from nictop.traffic.results.result import Flow
from nictop.traffic.results.transactions import TransactionFigures

Moved = dict[str, tuple[float, float]]
"""Host → bytes of payload that it received and sent."""


def proof_of_run(
    log: RunLog, flows: Sequence[Flow], transactions: TransactionFigures | None
) -> PathProof:
    """`flows`, `transactions`: of its result."""
    if transactions is not None and not log.plan.has_bulk:
        return _transaction_proof(log, transactions)
    moved = _moved_by_flows(flows)
    framing = run_framing(log.plan, {name: host.snapshot for name, host in log.hosts.items()})
    factor = carried_per_byte(framing, flows)
    if transactions is not None:
        moved, factor = _with_requests(log, moved, factor, transactions)
    headers = carried_per_byte(framing, ())
    has_failed = log.failure is not None
    return prove_path(
        log.plan, _observed_hosts(log), moved, factor, headers=headers, failed=has_failed
    )


def _moved_by_flows(flows: Sequence[Flow]) -> Moved:
    moved: Moved = {}
    for flow in flows:
        reported = 0.0
        # what a sender reports is in its socket buffer, where the receiver is not watched
        if flow.received is None or not any(point.interval.sends for point in flow.points):
            reported = sum(point.interval.bytes for point in flow.points)
        size = max(reported, total_bytes(flow.received))
        received, sent = moved.get(flow.receiver, (0.0, 0.0))
        moved[flow.receiver] = (received + size, sent)
        received, sent = moved.get(flow.sender, (0.0, 0.0))
        moved[flow.sender] = (received, sent + size)
    return moved


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
