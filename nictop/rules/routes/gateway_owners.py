"""Which watched host had the address of a gateway, and who is on the network of a NIC, where that
is known of all.

Reads nothing. The neighbour table has a MAC address only in the states in which one is known, not
in failed and incomplete (kernel net/core/neighbour.c neigh_fill_info, NUD_VALID). Linux answers ARP
requests for each address that it has, on any of its links (net/ipv4/arp.c arp_process).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.bridges import bridge_of
from nictop.model.devices.link_history import RemovedAddress
from nictop.model.devices.route_lookup import number_of, span_of
from nictop.model.snapshot import is_same_namespace
from nictop.model.time_axis import event_time_text
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link, Neighbour
from nictop.rules.bridges.attachments import is_working, nics_behind_ports, ports_of
from nictop.rules.far_ends import far_ends
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.host import HostFacts, once_per_diagnosis
from nictop.rules.profiles.outward import veth_of
from nictop.rules.routes.facts import (
    ANSWERING,
    Gateway,
    has_answered,
    is_unanswered,
    is_within,
    own_addresses,
)
from nictop.rules.routes.segments import (
    WatchedLink,
    evidence_of_one_network,
    links_by_mac_address,
)
from nictop.rules.subjects import global_address_texts, names_text

MAX_LISTED = 4


@dataclass(frozen=True)
class Loss:
    """A watched host had the address of a gateway, and does not have it now."""

    owner: HostFacts
    link: Link | None
    """That had it; None: one of several with the same MAC address."""
    evidence: Evidence

    @property
    def named(self) -> str:
        """``web1 ens224``"""
        return self.owner.name if self.link is None else f"{self.owner.name} {self.link.name}"


@dataclass(frozen=True)
class MissingOwner:
    """No watched host has the address of a gateway."""

    loss: Loss | None
    others: tuple[WatchedLink, ...]
    """All links that are known to be on the network of the NIC, each of a watched host; (): there
    may be more."""

    @property
    def title_end(self) -> str:
        if self.loss is not None:
            return f"{self.loss.named} had this address"
        return "no watched host has this address"

    @property
    def why(self) -> str:
        """Two sentences."""
        known = "No watched host has this address."
        if self.loss is not None:
            known = f"{self.loss.named} had this address, and does not have it now."
        if not self.others:
            return f"{known} A host that is not watched may have it."
        return (
            f"{known} All that is known to be on this network is watched; what nictop does not see "
            "there may still answer for it, as a macvlan, proxy ARP or eBPF does."
        )

    @property
    def evidence(self) -> Iterator[Evidence]:
        if self.loss is not None:
            yield self.loss.evidence
        if self.others:
            listed = names_text([_addresses_text(one) for one in self.others], MAX_LISTED)
            yield Evidence("on its network", listed, "ip address")

    def fixes(self, gateway: Gateway) -> Iterator[Fix]:
        """The address on the link that had it, until the next reboot."""
        length = _prefix_length(gateway)
        if self.loss is None or self.loss.link is None or length is None:
            return
        name, written = self.loss.link.name, f"{gateway.address}/{length}"
        add, drop = (
            command("ip", "address", verb, written, "dev", name) for verb in ("add", "del")
        )
        note = "Unless it was taken away on purpose. Also where its addresses are configured."
        title = f"Set the address on {name} again"
        yield Fix("peer", title, (add,), False, (drop,), note, self.loss.owner.name)


def _addresses_text(other: WatchedLink) -> str:
    """``web1 ens224 192.0.2.7/24``"""
    listed = names_text(global_address_texts(other.link), MAX_LISTED)
    return f"{other.named} {listed or 'without an address'}"


def _prefix_length(gateway: Gateway) -> int | None:
    """Of the subnet of the NIC that the address is in; None: of none."""
    number = number_of(gateway.address)
    for address in gateway.link.addresses:
        span = span_of(f"{address.address}/{address.prefix_length}")
        if address.scope == "global" and number and span and is_within(number, span):
            return address.prefix_length
    return None


def missing_owner(
    host: HostFacts, gateway: Gateway, entry: Neighbour | None, hosts: Sequence[HostFacts]
) -> MissingOwner | None:
    """None: a watched host has the address, or somebody else has or may have it. `entry`: of the
    gateway in the neighbour table."""
    if entry is not None and entry.mac is not None and not has_answered(entry):
        return None  # a static entry: nobody is asked
    if entry is not None and entry.nud_state in ANSWERING:
        return None
    others = others_on_network(host, gateway.link, hosts)
    is_asked = has_answered(entry) or is_unanswered(entry)
    if not (is_asked or others) or _is_owned(host, gateway, hosts, others):
        return None
    if has_answered(entry):
        loss = _loss_by_neighbour_table(host, gateway, entry, hosts)
        return None if loss is None else MissingOwner(loss, others)
    loss = _loss_by_history(host, gateway, hosts, others)
    is_explained = loss is not None and is_unanswered(entry)
    if not is_explained and not others:
        return None  # as after a failover (VRRP) to a host that is not watched
    return MissingOwner(loss, others)


def _is_owned(
    host: HostFacts, gateway: Gateway, hosts: Sequence[HostFacts], others: Sequence[WatchedLink]
) -> bool:
    """A watched host has the address; of a link-local one, on the network of the gateway, if all
    there are known: many networks have fe80::1."""
    if gateway.address.startswith("fe80:") and others:
        near = [host, *(other.host for other in others)]
        return any(gateway.address in own_addresses(one) for one in near)
    return gateway.address in _addresses(tuple(hosts))


@once_per_diagnosis
def _addresses(hosts: tuple[HostFacts, ...]) -> frozenset[str]:
    """Of all watched hosts."""
    return frozenset().union(*map(own_addresses, hosts))


def _loss_by_neighbour_table(
    host: HostFacts, gateway: Gateway, entry: Neighbour | None, hosts: Sequence[HostFacts]
) -> Loss | None:
    """The entry has the MAC address of another watched host, and of no second one."""
    if entry is None or entry.mac is None:
        return None
    found = links_by_mac_address(tuple(hosts)).get(entry.mac, ())
    links = [link for _, link in found]
    owner = found[0][0] if found else host
    if not _is_another(host, owner):
        return None
    had = [link for link in links if _has_had(owner, link, gateway.address)] or links
    link = had[0] if len(had) == 1 else None
    value = f"{entry.address} {entry.mac} {entry.nud_state}: MAC address of {owner.name}"
    source = f"ip neigh show dev {gateway.link.name}"
    return Loss(owner, link, Evidence("neighbour", value, source))


def _loss_by_history(
    host: HostFacts, gateway: Gateway, hosts: Sequence[HostFacts], others: Sequence[WatchedLink]
) -> Loss | None:
    """One link that is known to be on the network had the address when it was read before."""
    own, near = WatchedLink(host, gateway.link), {other.key for other in others}
    found = []
    for other, link, removed in _removals(tuple(hosts)).get(gateway.address, ()):
        there = WatchedLink(other, link)
        if not _is_another(host, other):
            continue
        if there.key in near or evidence_of_one_network(own, there, hosts) is not None:
            gone = event_time_text(other.inventory, removed.time)
            value = f"{gateway.address} on {link.name}, not read since {gone}"
            found.append(Loss(other, link, Evidence(f"had by {other.name}", value, "read before")))
    return found[0] if len(found) == 1 else None


@once_per_diagnosis
def _removals(
    hosts: tuple[HostFacts, ...],
) -> dict[str, list[tuple[HostFacts, Link, RemovedAddress]]]:
    """Address → the links that had it when they were read before."""
    found: dict[str, list[tuple[HostFacts, Link, RemovedAddress]]] = {}
    for host in hosts:
        for link in host.links:
            for removed in _removed(host, link):
                found.setdefault(removed.address, []).append((host, link, removed))
    return found


def _removed(host: HostFacts, link: Link) -> Sequence[RemovedAddress]:
    history = host.history_of(link)
    return () if history is None else history.removed_addresses


def _has_had(host: HostFacts, link: Link, address: str) -> bool:
    return any(removed.address == address for removed in _removed(host, link))


def _is_another(host: HostFacts, other: HostFacts) -> bool:
    """Not the same one, watched under a second name."""
    return other is not host and not is_same_namespace(host.snapshot, other.snapshot)


# ------------------------------------------------------------------------------------------ network


def others_on_network(
    host: HostFacts, link: Link, hosts: Sequence[HostFacts]
) -> tuple[WatchedLink, ...]:
    """All other links on the network of a veth, a VLAN above one, or a bridge, if each is one of a
    watched host; (): there may be more."""
    if link.kind == "bridge":
        return _behind_ports(WatchedLink(host, link), hosts)
    veth = veth_of(host, link)
    if veth is None or _has_programs(veth):
        return ()
    far = far_ends(tuple(hosts)).get((host.name, veth.ifindex))
    if far is None or _has_programs(far.link):
        return ()
    bridge = bridge_of(far.link, far.host.snapshot.links)
    if bridge is None:
        return () if far.link.master is not None else (WatchedLink(*far),)
    own_port = far.link.ifindex
    at_bridge = WatchedLink(far.host, bridge)
    behind = _behind_ports(at_bridge, hosts, without=own_port)
    has_others = any(
        port.ifindex != own_port and is_working(port) for port in ports_of(far.host, bridge)
    )
    if has_others and not behind:
        return ()
    return at_bridge, *behind


def _behind_ports(
    bridge: WatchedLink, hosts: Sequence[HostFacts], without: int | None = None
) -> tuple[WatchedLink, ...]:
    """(): behind one of the ports that work is something else."""
    known = nics_behind_ports(tuple(hosts))
    found = []
    for port in ports_of(bridge.host, bridge.link):
        if port.ifindex == without or not is_working(port):
            continue
        behind = known.get((bridge.host.name, port.ifindex))
        if behind is None or behind.link.master is not None or _has_programs(port):
            return ()
        found.append(behind)
    return tuple(found)


def _has_programs(link: Link) -> bool:
    """Filters of tc or XDP may answer, or send frames elsewhere."""
    return bool(link.tc_filters) or link.xdp is not None
