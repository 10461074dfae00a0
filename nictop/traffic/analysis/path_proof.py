"""Which NIC carried the bytes of a run: counters of every netdev before and after it, on every watched host.

Reads nothing. `prove_path` compares the differences of `Counters.links` with the payload that arrived, and those of the
receiver with those of the sender. A counter may leave out headers or count the work of a segmenting NIC, so that shares
are compared, not bytes: the receiver must count at least `CARRIED_SHARE` of the payload, and at most what the sender
counted, with the headers of all segments, `EXTRA_SHARE` of that and `BACKGROUND_BYTES`. Otherwise the path is not
verified. A failed run is never verified: packets in flight at its end are in no interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nictop.model.devices.netdevs import End
from nictop.model.devices.virtual_functions import is_virtual_function
from nictop.model.rates.links import rates
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.window import DEFAULT_CLOCK_TICKS
from nictop.probe.records import Counters, Link
from nictop.traffic.analysis.link_roles import Role, roles_of
from nictop.traffic.plan.plan import Endpoint, RunPlan

CARRIED_SHARE = 0.9
"""Of the payload: a NIC that counted at least that much carried the run."""
PARTIAL_SHARE = 0.1
"""Of the payload: a NIC that counted more carried a part of it."""
EXTRA_SHARE = 0.05
"""Of what was sent: a receiver may count that much more, for other packets of its network, FCS and VLAN tags."""
BACKGROUND_BYTES = 4 << 20
"""A receiver may count that much more in a short or slow run."""
FOREIGN_FACTOR = 1.15
"""With a larger share, headers included, there was other traffic; acknowledgements and retransmissions stay below."""

ProofVerdict = Literal["proven", "failed", "unknown"]
NetworkPath = Literal[
    "physical", "virtual function", "accelerated", "synthetic", "mixed", "virtual", "loopback", "other"
]


@dataclass(frozen=True, eq=False)
class ObservedHost:
    """A host before and after a run."""

    before: Counters | None
    """Last record before the first byte; None: there is none."""
    after: Counters | None
    """First record after the last byte."""
    snapshot: Snapshot
    """Its links at the end."""


@dataclass(frozen=True)
class Carried:
    """Bytes that one netdev, or a VF as counted by its physical function, carried during the run."""

    end: End
    name: str
    """Name on the host, without control characters."""
    role: Role
    """Relation to the chosen NIC of its host."""
    received: float | None
    """Bytes; None: reset during the run, or not counted."""
    sent: float | None


@dataclass(frozen=True)
class HostProof:
    """Proof of one end of the run."""

    host: str
    verdict: ProofVerdict
    path: NetworkPath | None
    sentence: str
    carried: tuple[Carried, ...] = ()
    """The chosen NIC first, then by bytes, without those below `PARTIAL_SHARE`."""
    foreign: bool = False
    """The chosen NIC carried much more than the run."""


@dataclass(frozen=True)
class PathProof:
    """Proof of both ends, and netdevs of other hosts."""

    verdict: ProofVerdict
    """proven: both ends are; failed: one has failed."""
    sentence: str
    hosts: tuple[HostProof, ...] = ()
    """Client and server."""
    observed: tuple[Carried, ...] = ()
    """Netdevs of other hosts that carried the run."""
    one_machine: bool = False
    """Both ends are on one machine."""


def prove_path(
    plan: RunPlan,
    hosts: Mapping[str, ObservedHost],
    expected: Mapping[str, tuple[float, float]],
    overhead: float = 1.05,
    *,
    headers: float = 1.05,
    failed: bool = False,
) -> PathProof:
    """The path proof of a run. `expected`: host of an end → bytes of payload received and sent during the run, with
    omitted seconds. `overhead`: bytes that a netdev counts for each byte of payload that arrived (1.05: segments of
    1448 bytes); `headers`: the same for each byte that was sent, lost or not; `failed`: the run did not end
    normally."""
    ends = tuple(
        _host_proof(endpoint, hosts.get(endpoint.host), expected.get(endpoint.host, (0.0, 0.0)), overhead)
        for endpoint in (plan.client, plan.server)
    )
    if _one_machine(plan, hosts):
        measures = "both ends are on one machine: no NIC involved"
        return PathProof("failed", measures, ends, one_machine=True)
    if not failed:
        ends = tuple(_checked_with_sender(one, ends, expected, headers) for one in ends)
    verdicts = {one.verdict for one in ends}
    verdict: ProofVerdict = "failed" if "failed" in verdicts else "unknown" if "unknown" in verdicts else "proven"
    highest = max((max(pair) for pair in expected.values()), default=0.0)
    others = [host for host in hosts if host not in (plan.client.host, plan.server.host)]
    observed = [one for host in others for one in _observed(hosts[host], highest)]
    sentence = "; ".join(one.sentence for one in ends)
    if failed and verdict == "proven":
        verdict = "unknown"
        sentence = f"the test failed while data was in flight: {sentence}"
    return PathProof(verdict, sentence, ends, tuple(observed))


def _checked_with_sender(
    end: HostProof, ends: Sequence[HostProof], expected: Mapping[str, tuple[float, float]], headers: float
) -> HostProof:
    """An end, or one with verdict "unknown" if it received more than the other one can have sent. The sender may count
    the headers of a large packet once, which its NIC cuts into segments; the receiver counts those of each segment."""
    other = next((one for one in ends if one is not end), end)
    if end.verdict != "proven" or other.verdict != "proven" or not expected.get(end.host, (0.0, 0.0))[0]:
        return end
    receiving, sending = end.carried[0], other.carried[0]
    highest = (sending.sent or 0.0) * headers * (1 + EXTRA_SHARE) + BACKGROUND_BYTES
    if (receiving.received or 0.0) <= highest:
        return end
    here, there = clean(end.host), clean(other.host)
    return HostProof(
        end.host,
        "unknown",
        None,
        f"{here}: {receiving.name} received {units.bytes_(receiving.received)}, {sending.name} of {there} sent "
        f"{units.bytes_(sending.sent)}, with headers at most {units.bytes_(highest)}: other traffic to {here} or "
        "counters read at another time",
        end.carried,
    )


def _one_machine(plan: RunPlan, hosts: Mapping[str, ObservedHost]) -> bool:
    """The same boot id: also two containers of one kernel, or one host under two names."""
    boots = []
    for endpoint in (plan.client, plan.server):
        observed_host = hosts.get(endpoint.host)
        hello = observed_host.snapshot.hello if observed_host is not None else None
        boots.append(hello.boot_id if hello is not None else None)
    return plan.client.host == plan.server.host or (bool(boots[0]) and boots[0] == boots[1])


def _host_proof(
    endpoint: Endpoint, observed_host: ObservedHost | None, expected: tuple[float, float], overhead: float
) -> HostProof:
    host = clean(endpoint.host)
    if max(expected) <= 0:
        return HostProof(endpoint.host, "unknown", None, f"{host}: no data received")
    steps = _differences(observed_host) if observed_host is not None else None
    if observed_host is None or steps is None:
        return HostProof(endpoint.host, "unknown", None, f"{host}: counters not read before and after the test")
    links = observed_host.snapshot.links
    chosen = links.get(endpoint.ifindex) if endpoint.ifindex is not None else None
    if chosen is None:
        reason = "no NIC selected" if endpoint.ifindex is None else "the selected NIC is gone"
        return HostProof(endpoint.host, "failed" if endpoint.ifindex else "unknown", None, f"{host}: {reason}")
    roles = roles_of(observed_host.snapshot, chosen)
    carried = [
        Carried(End(endpoint.host, ifindex), clean(links[ifindex].name), roles.get(ifindex, "other"), *step)
        for ifindex, step in steps.items()
        if ifindex in links
    ]
    judged = _verdict(observed_host.snapshot, chosen, carried, expected)
    own = judged.carried[0] if judged.verdict == "proven" else None
    return replace(judged, foreign=own is not None and share(own, expected) > FOREIGN_FACTOR * overhead)


def _verdict(snapshot: Snapshot, chosen: Link, carried: Sequence[Carried], expected: tuple[float, float]) -> HostProof:
    host = snapshot.host
    own = next((one for one in carried if one.role == "chosen"), None)
    others = sorted(
        (one for one in carried if one is not own and share(one, expected) >= PARTIAL_SHARE),
        key=lambda one: -_bytes(one),
    )
    carriers = ((own,) if own is not None else ()) + tuple(others)
    name, where = clean(chosen.name), clean(host)
    if own is None or own.received is None or own.sent is None:
        return HostProof(host, "unknown", None, f"{where}: counters of {name} were reset during the test", carriers)
    part = share(own, expected)
    if part < CARRIED_SHARE:
        actual = max((one for one in others if one.role != "above"), key=_bytes, default=None)
        by = (
            f"{actual.name} ({actual.role}) carried {_bytes_text(actual)}"
            if actual is not None
            else "not known which NIC carried the rest"
        )
        path: NetworkPath = "loopback" if actual is not None and actual.role == "loopback" else "other"
        reason = _wrong_path_cause(snapshot, actual, expected) if path == "other" and actual is not None else ""
        return HostProof(
            host, "failed", path, f"{where}: {name} carried only {_bytes_text(own)}; {by}{reason}", carriers
        )
    path, more = _path(snapshot, chosen, others, expected)
    return HostProof(host, "proven", path, f"{where}: {name} carried {_bytes_text(own)}{more}", carriers)


def _wrong_path_cause(snapshot: Snapshot, actual: Carried, expected: tuple[float, float]) -> str:
    """Why another NIC of this host carried it, if the kernel's settings explain it. What a host receives depends on its
    neighbour: Linux answers ARP for all of its addresses on every NIC of the same network unless arp_ignore is set
    (Documentation/networking/ip-sysctl.rst). What it sends depends on its routes."""
    received, sent = expected
    if sent > received:
        return f"; the route uses that NIC (ip route get, on {clean(snapshot.host)})"
    sysctl = snapshot.inventory.settings.sysctl if snapshot.inventory is not None else {}
    if sysctl.get("net.ipv4.conf.all.arp_ignore") == 0 and not sysctl.get(f"net.ipv4.conf.{actual.name}.arp_ignore"):
        return (
            f"; the other end may use its MAC address, since {clean(snapshot.host)} answers ARP for all of its "
            "addresses on every NIC of one network (sysctl -w net.ipv4.conf.all.arp_ignore=1)"
        )
    return ""


def _path(
    snapshot: Snapshot, chosen: Link, others: Sequence[Carried], expected: tuple[float, float]
) -> tuple[NetworkPath, str]:
    """The path, and a phrase about the other counters."""
    accelerated = next((one for one in others if one.role == "accelerated"), None)
    if chosen.bus == "vmbus":
        part = share(accelerated, expected) if accelerated is not None else 0.0
        if accelerated is None or part < PARTIAL_SHARE:
            return "synthetic", " on the synthetic path, not by a virtual function"
        if part < CARRIED_SHARE:
            return "mixed", f", {units.percentage(min(1.0, part))} of it by the virtual function {accelerated.name}"
        return "accelerated", f" by its virtual function {accelerated.name}"
    physical = next((one for one in others if one.role == "physical function"), None)
    functions = [one for one in others if one.role == "virtual function"]
    if is_virtual_function(chosen, {one.address: one for one in snapshot.pci}):
        if physical is not None and share(physical, expected) >= CARRIED_SHARE:
            return "virtual function", f", a virtual function; {physical.name} also counts traffic of its VFs"
        return "virtual function", ", a virtual function, not counted by its physical function"
    if functions:
        return "physical", f"; its virtual function {functions[0].name} carried {_bytes_text(functions[0])} too"
    if chosen.bus is None:
        below = [one.name for one in others if one.role == "below"]
        return "virtual", f" over {', '.join(below)}" if below else ""
    return "physical", ""


def _observed(observed_host: ObservedHost, payload: float) -> Iterable[Carried]:
    """Netdevs of an observing host that carried `CARRIED_SHARE` of the run: uplinks, taps, bridges, VFs."""
    steps = _differences(observed_host) if payload > 0 else None
    for ifindex, step in sorted((steps or {}).items()):
        link = observed_host.snapshot.links.get(ifindex)
        if link is not None and max(step[0] or 0.0, step[1] or 0.0) >= CARRIED_SHARE * payload:
            yield Carried(End(observed_host.snapshot.host, ifindex), clean(link.name), "other", *step)
    if observed_host.before is None or observed_host.after is None or payload <= 0:
        return
    for ifindex, functions in sorted(observed_host.after.vfs.items()):
        old, link = observed_host.before.vfs.get(ifindex, {}), observed_host.snapshot.links.get(ifindex)
        for number, new in sorted(functions.items()):
            if link is None or number not in old:
                continue
            received, sent = float(new[2] - old[number][2]), float(new[3] - old[number][3])
            if max(received, sent) >= CARRIED_SHARE * payload:
                name = f"VF {number} of {clean(link.name)}"
                yield Carried(End(observed_host.snapshot.host, ifindex), name, "virtual function", received, sent)


def _differences(observed_host: ObservedHost) -> dict[int, tuple[float | None, float | None]] | None:
    """ifindex → bytes received and sent; wraps are corrected, resets are None. None: a record is missing."""
    if observed_host.before is None or observed_host.after is None:
        return None
    link_rates = rates(observed_host.before, observed_host.after, DEFAULT_CLOCK_TICKS)
    if link_rates is None:
        return None
    return {
        ifindex: (_size(one.rx_bits, link_rates.elapsed), _size(one.tx_bits, link_rates.elapsed))
        for ifindex, one in link_rates.links.items()
    }


def _size(bits_per_second: float | None, elapsed: float) -> float | None:
    return None if bits_per_second is None else bits_per_second * elapsed / 8


def share(carried: Carried, expected: tuple[float, float]) -> float:
    """Share of the payload in the direction with the smaller share; directions with hardly any payload are ignored."""
    parts = [
        (step or 0.0) / payload
        for step, payload in zip((carried.received, carried.sent), expected, strict=True)
        if payload >= max(expected) * PARTIAL_SHARE
    ]
    return min(parts, default=0.0)


def _bytes(carried: Carried) -> float:
    return (carried.received or 0.0) + (carried.sent or 0.0)


def _bytes_text(carried: Carried) -> str:
    return units.bytes_(max(carried.received or 0.0, carried.sent or 0.0))
