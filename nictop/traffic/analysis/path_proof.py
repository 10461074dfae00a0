"""Which NIC carried the bytes of a run: the counters of every netdev before and after it, on every watched host.

Reads nothing. `proof(plan, hosts, expected)` compares the steps of `Counters.links` with the payload that arrived, and
those of the receiver with those of the sender. A counter may leave out headers or count the work of a segmenting NIC,
so that shares are judged, not bytes: the receiver must count at least `CARRIED` of the payload, and at most what the
sender counted, with the headers of all segments, `MORE` of that and `BACKGROUND`. What lies outside is not verified. Of
a run that failed nothing is: what was under way then is in no interval.
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
from nictop.probe.records import Counters, Link
from nictop.traffic.analysis.link_roles import Role, roles_of
from nictop.traffic.plan.plan import Endpoint, RunPlan

CARRIED = 0.9
"""Share of the payload from which a NIC is said to have carried the run: nothing that carried it counts less."""
PARTLY = 0.1
"""Share above which a NIC had a part in it."""
MORE = 0.05
"""Share of what was sent that a receiver may count besides: other packets of its network, FCS and VLAN tags."""
BACKGROUND = 4 << 20
"""Bytes that it may, of a short or slow run."""
FOREIGN = 1.15
"""Share, headers included, above which there was other traffic too: acknowledgements of the other direction and
retransmissions stay below."""

Verdict = Literal["proven", "failed", "unknown"]
Path = Literal["physical", "virtual function", "accelerated", "synthetic", "mixed", "virtual", "loopback", "other"]


@dataclass(frozen=True, eq=False)
class ObservedHost:
    """A host during a run."""

    before: Counters | None
    """The last record before the first byte; None: there is none."""
    after: Counters | None
    """The first record after the last byte."""
    snapshot: Snapshot
    """Its links at the end."""


@dataclass(frozen=True)
class Carried:
    """What one netdev, or VF as its physical function counts it, carried during the run."""

    end: End
    name: str
    """As the host calls it; clean."""
    role: Role
    """How it stands to the chosen NIC of its host."""
    received: float | None
    """Bytes; None: reset during the run, or not counted."""
    sent: float | None


@dataclass(frozen=True)
class HostProof:
    """One end of the run."""

    host: str
    verdict: Verdict
    path: Path | None
    sentence: str
    carried: tuple[Carried, ...] = ()
    """The chosen NIC first, then by bytes; those that carried next to nothing are left out."""
    foreign: bool = False
    """The chosen NIC carried much more than the run."""


@dataclass(frozen=True)
class PathProof:
    """Both ends together, and what other hosts saw."""

    verdict: Verdict
    """proven: both ends are; failed: one has failed."""
    sentence: str
    hosts: tuple[HostProof, ...] = ()
    """Client and server."""
    observed: tuple[Carried, ...] = ()
    """Netdevs of other hosts that carried the run."""
    one_machine: bool = False
    """Both ends are on it."""


def proof(
    plan: RunPlan,
    hosts: Mapping[str, ObservedHost],
    expected: Mapping[str, tuple[float, float]],
    overhead: float = 1.05,
    *,
    headers: float = 1.05,
    failed: bool = False,
) -> PathProof:
    """`expected`: end's host → bytes of payload that it received and sent during the run, what was omitted included.
    `overhead`: bytes that a netdev counts for each byte of payload that arrived (1.05: segments of 1448 bytes);
    `headers`: the same for each that was sent, lost or not; `failed`: the run did not come to its end."""
    ends = tuple(
        _host_proof(place, hosts.get(place.host), expected.get(place.host, (0.0, 0.0)), overhead)
        for place in (plan.client, plan.server)
    )
    if _one_machine(plan, hosts):
        measures = "both ends are on one machine: it measures that machine, and no NIC"
        return PathProof("failed", measures, ends, one_machine=True)
    if not failed:
        ends = tuple(_bounded(one, ends, expected, headers) for one in ends)
    verdicts = {one.verdict for one in ends}
    verdict: Verdict = "failed" if "failed" in verdicts else "unknown" if "unknown" in verdicts else "proven"
    most = max((max(pair) for pair in expected.values()), default=0.0)
    others = [host for host in hosts if host not in (plan.client.host, plan.server.host)]
    observed = [one for host in others for one in _observed(hosts[host], most)]
    sentence = "; ".join(one.sentence for one in ends)
    if failed and verdict == "proven":
        verdict = "unknown"
        sentence = f"the run failed, and what was under way then is not among what arrived: {sentence}"
    return PathProof(verdict, sentence, ends, tuple(observed))


def _bounded(
    end: HostProof, ends: Sequence[HostProof], expected: Mapping[str, tuple[float, float]], headers: float
) -> HostProof:
    """An end, not verified when it received more than the other one can have sent. That one may count the headers of a
    large packet once, which its NIC cuts into segments, and this one those of each segment."""
    other = next((one for one in ends if one is not end), end)
    if end.verdict != "proven" or other.verdict != "proven" or not expected.get(end.host, (0.0, 0.0))[0]:
        return end
    into, out = end.carried[0], other.carried[0]
    most = (out.sent or 0.0) * headers * (1 + MORE) + BACKGROUND
    if (into.received or 0.0) <= most:
        return end
    here, there = clean(end.host), clean(other.host)
    return HostProof(
        end.host,
        "unknown",
        None,
        f"{here}: {into.name} received {units.bytes_(into.received)}, and {out.name} of {there} sent "
        f"{units.bytes_(out.sent)}, with headers at most {units.bytes_(most)}: other traffic to {here}, or counters of "
        "another time",
        end.carried,
    )


def _one_machine(plan: RunPlan, hosts: Mapping[str, ObservedHost]) -> bool:
    """The same boot: also two containers of one kernel, or one host under two names."""
    boots = []
    for place in (plan.client, plan.server):
        watched = hosts.get(place.host)
        hello = watched.snapshot.hello if watched is not None else None
        boots.append(hello.boot_id if hello is not None else None)
    return plan.client.host == plan.server.host or (bool(boots[0]) and boots[0] == boots[1])


def _host_proof(
    place: Endpoint, watched: ObservedHost | None, expected: tuple[float, float], overhead: float
) -> HostProof:
    host = clean(place.host)
    if max(expected) <= 0:
        return HostProof(place.host, "unknown", None, f"{host}: no payload arrived, nothing to follow")
    steps = _steps(watched) if watched is not None else None
    if watched is None or steps is None:
        return HostProof(place.host, "unknown", None, f"{host}: its counters were not read before and after the run")
    links = watched.snapshot.links
    chosen = links.get(place.ifindex) if place.ifindex is not None else None
    if chosen is None:
        why = "no NIC was chosen" if place.ifindex is None else "the chosen NIC is gone"
        return HostProof(place.host, "failed" if place.ifindex else "unknown", None, f"{host}: {why}")
    roles = roles_of(watched.snapshot, chosen)
    carried = [
        Carried(End(place.host, ifindex), clean(links[ifindex].name), roles.get(ifindex, "other"), *step)
        for ifindex, step in steps.items()
        if ifindex in links
    ]
    judged = _judged(watched.snapshot, chosen, carried, expected)
    own = judged.carried[0] if judged.verdict == "proven" else None
    return replace(judged, foreign=own is not None and share(own, expected) > FOREIGN * overhead)


def _judged(snapshot: Snapshot, chosen: Link, carried: Sequence[Carried], expected: tuple[float, float]) -> HostProof:
    host = snapshot.host
    own = next((one for one in carried if one.role == "chosen"), None)
    kept = sorted(
        (one for one in carried if one is not own and share(one, expected) >= PARTLY), key=lambda one: -_bytes(one)
    )
    told = ((own,) if own is not None else ()) + tuple(kept)
    name, where = clean(chosen.name), clean(host)
    if own is None or own.received is None or own.sent is None:
        return HostProof(host, "unknown", None, f"{where}: the counters of {name} were reset during the run", told)
    part = share(own, expected)
    if part < CARRIED:
        wrong = max((one for one in kept if one.role != "above"), key=_bytes, default=None)
        by = f"{wrong.name} ({wrong.role}) carried {_words(wrong)}" if wrong is not None else "nobody knows who did"
        path: Path = "loopback" if wrong is not None and wrong.role == "loopback" else "other"
        why = _how_it_got_there(snapshot, wrong, expected) if path == "other" and wrong is not None else ""
        return HostProof(host, "failed", path, f"{where}: {name} carried {_words(own)} of the run; {by}{why}", told)
    path, more = _path(snapshot, chosen, kept, expected)
    return HostProof(host, "proven", path, f"{where}: {name} carried {_words(own)}{more}", told)


def _how_it_got_there(snapshot: Snapshot, wrong: Carried, expected: tuple[float, float]) -> str:
    """Why another NIC of this host carried it, where the kernel's settings tell. What a host receives goes where its
    neighbour sends it: Linux answers ARP for any of its addresses on any NIC of the same network unless arp_ignore says
    otherwise (Documentation/networking/ip-sysctl.rst). What it sends goes by its routes."""
    received, sent = expected
    if sent > received:
        return f"; its routes lead there (ip route get, on {clean(snapshot.host)})"
    sysctl = snapshot.inventory.settings.sysctl if snapshot.inventory is not None else {}
    if sysctl.get("net.ipv4.conf.all.arp_ignore") == 0 and not sysctl.get(f"net.ipv4.conf.{wrong.name}.arp_ignore"):
        return (
            f"; the other end may have its MAC, since {clean(snapshot.host)} answers ARP for all of its addresses on "
            "every NIC of one network (sysctl -w net.ipv4.conf.all.arp_ignore=1)"
        )
    return ""


def _path(snapshot: Snapshot, chosen: Link, kept: Sequence[Carried], expected: tuple[float, float]) -> tuple[Path, str]:
    """By which way it went, and what the other counters say about it."""
    accelerated = next((one for one in kept if one.role == "accelerated"), None)
    if chosen.bus == "vmbus":
        part = share(accelerated, expected) if accelerated is not None else 0.0
        if accelerated is None or part < PARTLY:
            return "synthetic", " on the synthetic path, not by a virtual function"
        if part < CARRIED:
            return "mixed", f", {units.percentage(min(1.0, part))} of it by the virtual function {accelerated.name}"
        return "accelerated", f" by its virtual function {accelerated.name}"
    physical = next((one for one in kept if one.role == "physical function"), None)
    functions = [one for one in kept if one.role == "virtual function"]
    if is_virtual_function(chosen, {one.address: one for one in snapshot.pci}):
        if physical is not None and share(physical, expected) >= CARRIED:
            return "virtual function", f", a virtual function; {physical.name} counts what its functions carry"
        return "virtual function", ", a virtual function, and its physical function did not"
    if functions:
        return "physical", f"; its virtual function {functions[0].name} carried {_words(functions[0])} too"
    if chosen.bus is None:
        below = [one.name for one in kept if one.role == "below"]
        return "virtual", f" over {', '.join(below)}" if below else ""
    return "physical", ""


def _observed(watched: ObservedHost, payload: float) -> Iterable[Carried]:
    """Netdevs of a host that is no end which carried at least nine tenths of the run: uplinks, taps, bridges, VFs."""
    steps = _steps(watched) if payload > 0 else None
    for ifindex, step in sorted((steps or {}).items()):
        link = watched.snapshot.links.get(ifindex)
        if link is not None and max(step[0] or 0.0, step[1] or 0.0) >= CARRIED * payload:
            yield Carried(End(watched.snapshot.host, ifindex), clean(link.name), "other", *step)
    if watched.before is None or watched.after is None or payload <= 0:
        return
    for ifindex, functions in sorted(watched.after.vfs.items()):
        old, link = watched.before.vfs.get(ifindex, {}), watched.snapshot.links.get(ifindex)
        for number, new in sorted(functions.items()):
            if link is None or number not in old:
                continue
            received, sent = float(new[2] - old[number][2]), float(new[3] - old[number][3])
            if max(received, sent) >= CARRIED * payload:
                name = f"VF {number} of {clean(link.name)}"
                yield Carried(End(watched.snapshot.host, ifindex), name, "virtual function", received, sent)


def _steps(watched: ObservedHost) -> dict[int, tuple[float | None, float | None]] | None:
    """ifindex → bytes received and sent; wraps are bridged, resets are None. None: there is nothing to compare."""
    if watched.before is None or watched.after is None:
        return None
    now = rates(watched.before, watched.after, 100)
    if now is None:
        return None
    return {
        ifindex: (_size(one.rx_bits, now.elapsed), _size(one.tx_bits, now.elapsed))
        for ifindex, one in now.links.items()
    }


def _size(bits_per_second: float | None, elapsed: float) -> float | None:
    return None if bits_per_second is None else bits_per_second * elapsed / 8


def share(carried: Carried, expected: tuple[float, float]) -> float:
    """Of the payload, in the direction of which a smaller part went through; one that nothing was sent in is left
    out."""
    parts = [
        (step or 0.0) / payload
        for step, payload in zip((carried.received, carried.sent), expected, strict=True)
        if payload >= max(expected) * PARTLY
    ]
    return min(parts, default=0.0)


def _bytes(carried: Carried) -> float:
    return (carried.received or 0.0) + (carried.sent or 0.0)


def _words(carried: Carried) -> str:
    return units.bytes_(max(carried.received or 0.0, carried.sent or 0.0))
