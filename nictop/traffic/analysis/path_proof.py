"""Which NIC carried the bytes of a run: counters of every netdev before and after it, on every
watched host.

Reads nothing. `prove_path` compares the differences of `Counters.links` with the payload that
arrived, and those of the receiver with those of the sender. A counter may leave out headers or
count the work of a segmenting NIC, so that shares are compared, not bytes: the receiver must count
at least `CARRIED_SHARE` of the payload, and at most what the sender counted, with the headers of
all segments, `EXTRA_SHARE` of that and `BACKGROUND_BYTES`. Otherwise the path is not verified. A
failed run is never verified: packets in flight at its end are in no interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from operator import attrgetter

from nictop.model.devices.links import is_into_namespace, link_at
from nictop.model.devices.netdevs import End
from nictop.model.devices.virtual_functions import is_virtual_function
from nictop.model.guests.owners import NicOwner, guest_text
from nictop.model.rates.links import rates
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.window import DEFAULT_CLOCK_TICKS
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import Counters, Link
from nictop.traffic.hosts.link_roles import Role, roles_of
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.results.path_proof import (
    Carried,
    HostProof,
    NetworkPath,
    PathProof,
    ProofVerdict,
)

CARRIED_SHARE = 0.9
"""Of the payload: a NIC that counted at least that much carried the run."""
PARTIAL_SHARE = 0.1
"""Of the payload: a NIC that counted more carried a part of it."""
EXTRA_SHARE = 0.05
"""Of what was sent: a receiver may count that much more, for other packets of its network, FCS and
VLAN tags."""
BACKGROUND_BYTES = 4 << 20
"""A receiver may count that much more in a short or slow run."""
FOREIGN_FACTOR = 1.15
"""With a larger share, headers included, there was other traffic; acknowledgements and
retransmissions stay below."""
NOT_ACCELERATED = " on the synthetic path, not by a virtual function"
"""Of a netvsc NIC."""


@dataclass(frozen=True, eq=False)
class ObservedHost:
    """A host before and after a run."""

    before: Counters | None
    """Last record before the first byte; None: there is none."""
    after: Counters | None
    """First record after the last byte."""
    snapshot: Snapshot
    """Its links at the end."""


def prove_path(
    plan: RunPlan,
    hosts: Mapping[str, ObservedHost],
    expected: Mapping[str, tuple[float, float]],
    overhead: float = 1.05,
    *,
    headers: float = 1.05,
    failed: bool = False,
) -> PathProof:
    """The path proof of a run. `expected`: host of an end → bytes of payload received and sent
    during the run, with omitted seconds. `overhead`: bytes that a netdev counts for each byte of
    payload that arrived (1.05: segments of 1448 bytes); `headers`: the same for each byte that was
    sent, lost or not; `failed`: the run did not end normally."""
    if plan.foreign:
        return _proof_of_watched_end(plan, hosts, expected, overhead, failed=failed)
    client, server = (
        _host_proof(end, hosts.get(end.host), expected.get(end.host, (0.0, 0.0)), overhead)
        for end in (plan.client, plan.server)
    )
    if _one_machine(plan, hosts):
        measures = "both ends are on one machine: no NIC involved"
        return PathProof("failed", measures, (client, server), one_machine=True)
    ends = (client, server)
    if not failed:
        ends = (
            _checked_with_sender(client, server, expected, headers),
            _checked_with_sender(server, client, expected, headers),
        )
    verdict, sentence = _worst_verdict(ends), "; ".join(end.sentence for end in ends)
    return _proof(plan, hosts, expected, PathProof(verdict, sentence, ends), failed=failed)


def _proof_of_watched_end(
    plan: RunPlan,
    hosts: Mapping[str, ObservedHost],
    expected: Mapping[str, tuple[float, float]],
    overhead: float,
    *,
    failed: bool,
) -> PathProof:
    """Of a run whose other end is not watched."""
    (end,), foreign = plan.watched_ends, plan.foreign_end
    observed = hosts.get(end.host)
    own = _host_proof(end, observed, expected.get(end.host, (0.0, 0.0)), overhead)
    sentence = own.sentence
    if foreign is not None and observed is not None:
        place = _place_on_this_machine(observed.snapshot, foreign.address, end.ifindex)
        if place:
            here = f"{clean(foreign.host)} is {place} of this machine: no NIC involved"
            return PathProof("failed", here, (own,), one_machine=True)
        sentence += _behind_text(observed.snapshot, end.ifindex)
    if foreign is not None:
        sentence += f"; {clean(foreign.host)} is not watched"
    proof = PathProof(own.verdict, sentence, (own,))
    return _proof(plan, hosts, expected, proof, failed=failed)


def _place_on_this_machine(snapshot: Snapshot, address: str, ifindex: int | None) -> str:
    """``in namespace b``, ``an address``: where an address is that the NIC with this ifindex
    reaches without leaving the machine; "": it is not known to be here."""
    for link in snapshot.links.values():
        if any(one.address == address for one in link.addresses):
            return "an address"
    for guest in (snapshot.inventory.guests if snapshot.inventory is not None else None) or ():
        for nic in guest.nics if guest.kind != "vm" and guest.state == "running" else ():
            own = link_at(nic.link, snapshot.links)
            is_behind = own is not None and ifindex in (own.ifindex, own.master)
            if is_behind and any(one.partition("/")[0] == address for one in nic.addresses):
                return f"in {clean(guest_text(guest.name, guest.kind))}"
    return ""


def _behind_text(snapshot: Snapshot, ifindex: int | None) -> str:
    """``; the other end of lab0 is in namespace switch of this machine, what is behind it is not
    known``; "": it is no veth into another namespace."""
    link = link_at(ifindex, snapshot.links)
    if link is None or not is_into_namespace(link):
        return ""
    owner = snapshot.owners.of_link(link.ifindex)
    place = "another network namespace" if owner is None else clean(owner.text)
    return (
        f"; the other end of {clean(link.name)} is in {place} of this machine, what is behind it "
        "is not known"
    )


def _proof(
    plan: RunPlan,
    hosts: Mapping[str, ObservedHost],
    expected: Mapping[str, tuple[float, float]],
    of_ends: PathProof,
    *,
    failed: bool,
) -> PathProof:
    """With what the other hosts counted; a failed run is never verified."""
    verdict, sentence = of_ends.verdict, of_ends.sentence
    if failed and verdict == "proven":
        verdict = "unknown"
        sentence = f"the test failed while data was in flight: {sentence}"
        for end, other in permutations(of_ends.hosts, 2):  # none, if one end alone is watched
            if expected.get(end.host, (0.0, 0.0))[0] > 0:
                sentence += _windows_text(end, other, hosts)
    highest = max(map(max, expected.values()), default=0.0)
    observed: list[Carried] = []
    for name, host in hosts.items():
        if name not in (plan.client.host, plan.server.host):
            observed += _observed(host, highest)
    return PathProof(verdict, sentence, of_ends.hosts, tuple(observed))


def _worst_verdict(ends: Iterable[HostProof]) -> ProofVerdict:
    verdicts = {end.verdict for end in ends}
    if "failed" in verdicts:
        return "failed"
    return "unknown" if "unknown" in verdicts else "proven"


def _checked_with_sender(
    end: HostProof,
    other: HostProof,
    expected: Mapping[str, tuple[float, float]],
    headers: float,
) -> HostProof:
    """An end, or one with verdict "unknown" if it received more than the other one can have sent.
    The sender may count the headers of a large packet once, which its NIC cuts into segments; the
    receiver counts those of each segment."""
    are_proven = end.verdict == "proven" and other.verdict == "proven"
    payload, _ = expected.get(end.host, (0.0, 0.0))
    if not are_proven or not payload:
        return end
    receiving, sending = end.carried[0], other.carried[0]
    highest = (sending.sent or 0.0) * headers * (1 + EXTRA_SHARE) + BACKGROUND_BYTES
    if (receiving.received or 0.0) <= highest:
        return end
    here, there = clean(end.host), clean(other.host)
    received, sent = units.bytes_(receiving.received), units.bytes_(sending.sent)
    sentence = (
        f"{here}: {receiving.name} received {received}, {sending.name} of {there} sent {sent}, "
        f"with headers at most {units.bytes_(highest)}: other traffic to {here} or counters read "
        "at another time"
    )
    return HostProof(end.host, "unknown", None, sentence, end.carried)


def _windows_text(end: HostProof, other: HostProof, hosts: Mapping[str, ObservedHost]) -> str:
    """``; b counted 230 KiB more than a sent: their counters were read over 21.3 s and 19.2 s``;
    "": it did not. Of two proven ends."""
    received, sent = end.carried[0].received or 0.0, other.carried[0].sent or 0.0
    if received <= sent * (1 + EXTRA_SHARE):
        return ""
    windows = (_window(hosts.get(proof.host)) for proof in (end, other))
    here, there = (units.duration(seconds) for seconds in windows)
    more = units.bytes_(received - sent)
    return (
        f"; {clean(end.host)} counted {more} more than {clean(other.host)} sent: their counters "
        f"were read over {here} and {there}"
    )


def _window(host: ObservedHost | None) -> float:
    """Seconds between its two records; 0: one is missing."""
    if host is None or host.before is None or host.after is None:
        return 0.0
    return host.after.time - host.before.time


def _one_machine(plan: RunPlan, hosts: Mapping[str, ObservedHost]) -> bool:
    """The same boot id: also two containers of one kernel, or one host under two names."""
    if plan.client.host == plan.server.host:
        return True
    client, server = _boot_id(hosts, plan.client.host), _boot_id(hosts, plan.server.host)
    return bool(client) and client == server


def _boot_id(hosts: Mapping[str, ObservedHost], name: str) -> str:
    """ "": not known."""
    if name not in hosts:
        return ""
    hello = hosts[name].snapshot.hello
    return hello.boot_id if hello is not None else ""


def _host_proof(
    endpoint: Endpoint,
    observed_host: ObservedHost | None,
    expected: tuple[float, float],
    overhead: float,
) -> HostProof:
    name, host = endpoint.host, clean(endpoint.host)
    if max(expected) <= 0:
        return HostProof(name, "unknown", None, f"{host}: no data received")
    steps = _differences(observed_host) if observed_host is not None else None
    if observed_host is None or steps is None:
        unread = f"{host}: counters not read before and after the test"
        return HostProof(name, "unknown", None, unread)
    if endpoint.ifindex is None:
        return HostProof(name, "unknown", None, f"{host}: no NIC selected")
    snapshot = observed_host.snapshot
    chosen = snapshot.links.get(endpoint.ifindex)
    if chosen is None:
        return HostProof(name, "failed", None, f"{host}: the selected NIC is gone")
    roles = roles_of(snapshot, chosen)
    carried = []
    for ifindex, (received, sent) in steps.items():
        link = snapshot.links.get(ifindex)
        if link is not None:
            role = roles.get(ifindex, "other")
            end = End(name, ifindex)
            carried.append(Carried(end, clean(link.name), role, received, sent))
    judged = _verdict(snapshot, chosen, carried, expected)
    if judged.verdict != "proven":
        return judged
    own_share = share(judged.carried[0], expected)
    return replace(judged, foreign=own_share > FOREIGN_FACTOR * overhead)


def _verdict(
    snapshot: Snapshot, chosen: Link, carried: Sequence[Carried], expected: tuple[float, float]
) -> HostProof:
    host = snapshot.host
    own: list[Carried] = []
    others: list[Carried] = []
    for netdev in carried:
        if netdev.role == "chosen" and not own:
            own.append(netdev)
        elif share(netdev, expected) >= PARTIAL_SHARE:
            others.append(netdev)
    others.sort(key=attrgetter("both"), reverse=True)
    carriers = (*own, *others)
    name, where = clean(chosen.name), clean(host)
    if not own or own[0].received is None or own[0].sent is None:
        reset = f"{where}: counters of {name} were reset during the test"
        return HostProof(host, "unknown", None, reset, carriers)
    size = _bytes_text(own[0], expected)
    if share(own[0], expected) < CARRIED_SHARE:
        not_above = [netdev for netdev in others if netdev.role != "above"]
        actual = max(not_above, key=attrgetter("both"), default=None)
        path, by = _other_path(snapshot, actual, expected)
        return HostProof(
            host, "failed", path, f"{where}: {name} carried only {size}; {by}", carriers
        )
    path, more = _path(snapshot, chosen, others, expected)
    return HostProof(host, "proven", path, f"{where}: {name} carried {size}{more}", carriers)


def _other_path(
    snapshot: Snapshot, actual: Carried | None, expected: tuple[float, float]
) -> tuple[NetworkPath, str]:
    """The path, and what carried the run instead of the chosen NIC. `actual`: that netdev."""
    if actual is None:
        return "other", "not known which NIC carried the rest"
    by = f"{actual.name} ({actual.role}) carried {_bytes_text(actual, expected)}"
    if actual.role == "loopback":
        return "loopback", by
    return "other", f"{by}{_wrong_path_cause(snapshot, actual, expected)}"


def _wrong_path_cause(snapshot: Snapshot, actual: Carried, expected: tuple[float, float]) -> str:
    """Why another NIC of this host carried it, if the kernel's settings explain it. What a host
    receives depends on its neighbour: Linux answers ARP for all of its addresses on every NIC of
    the same network unless arp_ignore is set (Documentation/networking/ip-sysctl.rst). What it
    sends depends on its routes."""
    received, sent = expected
    host = clean(snapshot.host)
    if sent > received:
        return f"; the route uses that NIC (ip route get, on {host})"
    if snapshot.inventory is None:
        return ""
    sysctl = snapshot.inventory.settings.sysctl
    of_all = sysctl.get("net.ipv4.conf.all.arp_ignore")
    of_nic = sysctl.get(f"net.ipv4.conf.{actual.name}.arp_ignore")
    if of_all != 0 or of_nic:
        return ""
    return (
        f"; the other end may use its MAC address, since {host} answers ARP for all of its "
        "addresses on every NIC of one network (sysctl -w net.ipv4.conf.all.arp_ignore=1)"
    )


def _path(
    snapshot: Snapshot, chosen: Link, others: Sequence[Carried], expected: tuple[float, float]
) -> tuple[NetworkPath, str]:
    """The path, and a phrase about the other counters."""
    if chosen.bus == "vmbus":
        return _path_of_vmbus(others, expected)
    functions = {function.address: function for function in snapshot.pci}
    if is_virtual_function(chosen, functions):
        physical = _first_of(others, "physical function")
        if physical is None or share(physical, expected) < CARRIED_SHARE:
            return "virtual function", ", a virtual function, not counted by its physical function"
        also = f"{physical.name} also counts traffic of its VFs"
        return "virtual function", f", a virtual function; {also}"
    function = _first_of(others, "virtual function")
    if function is not None:
        carried = f"{function.name} carried {_bytes_text(function, expected)} too"
        return "physical", f"; its virtual function {carried}"
    if chosen.bus is not None:
        return "physical", ""
    below = [netdev.name for netdev in others if netdev.role == "below"]
    return "virtual", f" over {', '.join(below)}" if below else ""


def _first_of(carried: Iterable[Carried], role: Role) -> Carried | None:
    for netdev in carried:
        if netdev.role == role:
            return netdev
    return None


def _path_of_vmbus(
    others: Sequence[Carried], expected: tuple[float, float]
) -> tuple[NetworkPath, str]:
    """netvsc sends by a virtual function, if it can."""
    function = _first_of(others, "accelerated")
    if function is None:
        return "synthetic", NOT_ACCELERATED
    part = share(function, expected)
    if part < PARTIAL_SHARE:
        return "synthetic", NOT_ACCELERATED
    if part < CARRIED_SHARE:
        percentage = units.percentage(min(1.0, part))
        return "mixed", f", {percentage} of it by the virtual function {function.name}"
    return "accelerated", f" by its virtual function {function.name}"


def _observed(observed_host: ObservedHost, payload: float) -> Iterable[Carried]:
    """Netdevs of an observing host that carried `CARRIED_SHARE` of the run: uplinks, taps, bridges,
    VFs."""
    if payload <= 0:
        return
    host, links = observed_host.snapshot.host, observed_host.snapshot.links
    least = CARRIED_SHARE * payload
    steps = _differences(observed_host) or {}
    for ifindex, (received, sent) in sorted(steps.items()):
        if ifindex not in links:
            continue
        name = clean(links[ifindex].name)
        guest = _guest(observed_host.snapshot.owners.of_link(ifindex))
        carried = Carried(End(host, ifindex), name, "other", received, sent, guest)
        if carried.larger >= least:
            yield carried
    yield from _observed_functions(observed_host, least)


def _observed_functions(observed_host: ObservedHost, least: float) -> Iterable[Carried]:
    """VFs, as counted by their physical functions."""
    before, after = observed_host.before, observed_host.after
    if before is None or after is None:
        return
    for ifindex, functions in sorted(after.vfs.items()):
        link = observed_host.snapshot.links.get(ifindex)
        if link is None:
            continue
        end = End(observed_host.snapshot.host, ifindex)
        for number, new in sorted(functions.items()):
            old = before.vfs.get(ifindex, {}).get(number)
            if old is None:
                continue
            received, sent = float(new[2] - old[2]), float(new[3] - old[3])
            if max(received, sent) >= least:
                name = f"VF {number} of {clean(link.name)}"
                guest = _guest(observed_host.snapshot.owners.of_vf_number(link, number))
                yield Carried(end, name, "virtual function", received, sent, guest)


def _guest(owner: NicOwner | None) -> str:
    if owner is None or owner.is_stopped:
        return ""
    return clean(owner.name)


def _differences(
    observed_host: ObservedHost,
) -> dict[int, tuple[float | None, float | None]] | None:
    """ifindex → bytes received and sent; wraps are corrected, resets are None. None: a record is
    missing."""
    if observed_host.before is None or observed_host.after is None:
        return None
    found = rates(observed_host.before, observed_host.after, DEFAULT_CLOCK_TICKS)
    if found is None:
        return None
    sizes = {}
    for ifindex, link in found.links.items():
        sizes[ifindex] = _size(link.rx_bits, found.elapsed), _size(link.tx_bits, found.elapsed)
    return sizes


def _size(bits_per_second: float | None, elapsed: float) -> float | None:
    if bits_per_second is None:
        return None
    return bits_per_second * elapsed / 8


def share(carried: Carried, expected: tuple[float, float]) -> float:
    """Share of the payload in the direction with the smaller share; directions with hardly any
    payload are ignored."""
    least = max(expected) * PARTIAL_SHARE
    parts = []
    for counted, payload in zip((carried.received, carried.sent), expected, strict=True):
        if payload >= least:
            parts.append((counted or 0.0) / payload)
    return min(parts, default=0.0)


def _bytes_text(carried: Carried, expected: tuple[float, float]) -> str:
    """``211 MiB``; of a run in both directions ``11.9 MiB in and 7.51 MiB out``."""
    if min(expected) < max(expected) * PARTIAL_SHARE:
        return units.bytes_(carried.larger)
    received, sent = carried.received or 0.0, carried.sent or 0.0
    return f"{units.bytes_(received)} in and {units.bytes_(sent)} out"
