"""The load of the ports that carry a run and have VFs: the wire may be full although the run, or
the netdev of the port, carries little.

Reads nothing; takes the log of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nictop.model.devices.bridges import outer_port
from nictop.model.devices.ceiling import INTERFRAME_GAP, PREAMBLE
from nictop.model.devices.links import function_of, functions_by_address, reported_speed
from nictop.model.devices.netdevs import End
from nictop.model.devices.pairs import Pairs, pairs
from nictop.model.devices.ports import sharing_functions, why_port_is_unknown
from nictop.model.rates.links import PortRates, port_rates
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.records import Counters, Link
from nictop.traffic.plan.plan import Endpoint
from nictop.traffic.record.log import RunLog, measured_window
from nictop.traffic.results.port_load import PortLoad


def port_loads(log: RunLog, axis: float | None) -> tuple[PortLoad, ...]:
    """Of the chosen NICs that are a port with VFs or a VF of one; of a guest, if the hypervisor is
    watched, also by the bridge of its tap."""
    if axis is None:
        return ()
    return tuple(_port_loads(log, axis))


def _port_loads(log: RunLog, axis: float) -> Iterator[PortLoad]:
    snapshots = {name: host.snapshot for name, host in log.hosts.items()}
    known = pairs(snapshots.values())
    below = {pair.guest: pair.physical for pair in known.virtual_functions}
    bridges = _bridges_of_guests(known, snapshots)
    if not _is_on_one_bridge(log.plan.client, log.plan.server, bridges):
        for guest, bridge in bridges.items():
            uplink = _uplink_with_functions(bridge, snapshots)
            if uplink is not None:
                below.setdefault(guest, uplink)
    for endpoint in (log.plan.client, log.plan.server):
        port = _port_of(endpoint, snapshots, below)
        if port is None:
            continue
        host, link = port
        since = axis + log.hosts[host].offset.seconds
        begin, end = measured_window(log)
        records = _between(log.hosts[host].records, since + begin, since + end)
        yield _load(endpoint.host, snapshots[host], link, records)


def _bridges_of_guests(known: Pairs, snapshots: Mapping[str, Snapshot]) -> dict[End, End]:
    """NIC of a guest → the bridge of its tap."""
    found = {}
    for pair in known.taps:
        links = snapshots[pair.tap.host].links
        place = outer_port(links[pair.tap.ifindex], links)
        if place is not None:
            found[pair.guest] = End(pair.tap.host, place[1].ifindex)
    return found


def _is_on_one_bridge(client: Endpoint, server: Endpoint, bridges: Mapping[End, End]) -> bool:
    """Both ends are guests of one bridge: what they send does not leave it."""
    if client.end is None or server.end is None or client.end not in bridges:
        return False
    return bridges[client.end] == bridges.get(server.end)


def _uplink_with_functions(bridge: End, snapshots: Mapping[str, Snapshot]) -> End | None:
    """The only port of a bridge that is a physical function with VFs."""
    found = [
        link.ifindex
        for link in snapshots[bridge.host].links.values()
        if link.master == bridge.ifindex and link.virtual_functions
    ]
    return End(bridge.host, found[0]) if len(found) == 1 else None


def _port_of(
    endpoint: Endpoint, snapshots: Mapping[str, Snapshot], below: Mapping[End, End]
) -> tuple[str, Link] | None:
    """Host and netdev of the physical function; None: the NIC has no VFs and is none, or it is not
    known."""
    link = endpoint.link_in(snapshots)
    if link is None:
        return None
    if link.virtual_functions:
        return endpoint.host, link
    physical = below.get(End(endpoint.host, link.ifindex))
    if physical is not None:
        port = snapshots[physical.host].links.get(physical.ifindex)
        return (physical.host, port) if port is not None else None
    own = _port_on_same_host(link, snapshots[endpoint.host])
    return (endpoint.host, own) if own is not None else None


def _port_on_same_host(link: Link, snapshot: Snapshot) -> Link | None:
    function = function_of(link, functions_by_address(snapshot.pci))
    if function is None or function.physical_function is None:
        return None
    for port in snapshot.links.values():
        if port.pci_address == function.physical_function and port.virtual_functions:
            return port
    return None


def _between(records: Sequence[Counters], begin: float, end: float) -> list[Counters]:
    """Those with counters of ports."""
    return [record for record in records if record.ports and begin <= record.time <= end]


def _load(end: str, snapshot: Snapshot, link: Link, records: Sequence[Counters]) -> PortLoad:
    rates = None
    if len(records) > 1:
        rates = port_rates(records[0], records[-1]).get(link.ifindex)
    name = clean(link.name)
    speed = reported_speed(link)
    if rates is None or rates.rx_bits is None or rates.tx_bits is None:
        why = clean(why_port_is_unknown(link, snapshot))
        return PortLoad(end, snapshot.host, name, speed=speed, unknown=why)
    return PortLoad(
        end,
        snapshot.host,
        name,
        clean(rates.source),
        rates.rx_bits,
        rates.tx_bits,
        _on_wire(rates, "rx"),
        _on_wire(rates, "tx"),
        speed,
        is_shared=bool(sharing_functions(link.ifindex, snapshot)),
    )


def _on_wire(rates: PortRates, side: str) -> float | None:
    bits: float | None = getattr(rates, f"{side}_bits")
    packets: float | None = getattr(rates, f"{side}_packets")
    if bits is None or packets is None:
        return None
    return bits + 8 * (PREAMBLE + INTERFRAME_GAP) * packets
