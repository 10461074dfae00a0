"""What the wire of a NIC carries: of a port with VFs, more than its netdev counts.

Reads nothing. The netdev of a physical function counts its own queues, so that "eight VFs fill the
port and the host reads nearly zero". Of a port with VFs the rates are therefore those that the NIC
counts at the port (`Counters.ports`), and named so; where kernel and driver give none, they are
those of the netdev, and that is said. So are they where the port is also that of other physical
functions (NPAR: several partitions of one port), whose packets it counts as well: what the NIC
counts at such a port is in the details, and said to be of all of them. Rules about queues and CPUs
use the netdev's own rates (`Rates.links`): its queues carry nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nictop.model.devices.links import functions_by_address
from nictop.model.rates.links import LinkRates, PortRates
from nictop.model.snapshot import MAX_VF_RATES_AGE_SECONDS, Snapshot
from nictop.model.text.words import driver_name
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link, PortCounts
from nictop.probe.records.unreadable import NOT_READ_YET

STANDARD_COUNTERS = "eth-mac"
"""`PortCounts.source` of counters that are not a driver's own."""
WITH_FUNCTIONS = ("port with VFs", "with VFs", "port")
"""Beside the name of a physical function whose rates are those of the port; the longest first."""
MAX_NAMED_FUNCTIONS = 4
SHARED = ("netdev only, port shared", "port shared", "netdev")
"""The same of one whose port is also that of other physical functions."""
NETDEV_ONLY = ("netdev only", "netdev", "PF")
"""The same of one whose driver does not count the port."""


def port_rates_of(ifindex: int, snapshot: Snapshot) -> PortRates | None:
    """None: no port with VFs, or its rates are not known, or it is that of others, too."""
    if snapshot.rates is None or sharing_functions(ifindex, snapshot):
        return None
    found = snapshot.rates.ports.get(ifindex)
    if found is None or found.rx_bits is None or found.tx_bits is None:
        return None
    return found


def sharing_functions(ifindex: int, snapshot: Snapshot) -> tuple[str, ...]:
    """Netdevs of the other physical functions of the same port, by phys_port_id; (): none, or the
    driver has no such id."""
    link = snapshot.links.get(ifindex)
    if link is None or link.port_id is None:
        return ()
    functions = functions_by_address(snapshot.pci)
    found = []
    for other in snapshot.links.values():
        if other.port_id != link.port_id or other.pci_address in (None, link.pci_address):
            continue
        function = functions.get(other.pci_address or "")
        if function is not None and function.physical_function is None:
            found.append(other.name)
    return tuple(sorted(found))


def shared_text(names: Sequence[str]) -> str:
    """``shared with ens1f1 and ens1f2``"""
    shown = [*names[:MAX_NAMED_FUNCTIONS]]
    if len(names) > MAX_NAMED_FUNCTIONS:
        shown.append(f"{len(names) - MAX_NAMED_FUNCTIONS} more")
    return f"shared with {', '.join(shown)}"


def wire_rates(snapshot: Snapshot) -> Mapping[int, LinkRates]:
    """By ifindex: the rates of each netdev, with those of the port for a physical function with
    VFs. Drops and errors remain those of the netdev."""
    if snapshot.rates is None:
        return {}
    own = snapshot.rates.links
    if not snapshot.rates.ports:
        return own
    found = dict(own)
    for ifindex in snapshot.rates.ports:
        port = port_rates_of(ifindex, snapshot)
        if port is not None and ifindex in own:
            found[ifindex] = _at_port(own[ifindex], port)
    return found


def _at_port(own: LinkRates, port: PortRates) -> LinkRates:
    return replace(
        own,
        rx_bits=port.rx_bits,
        tx_bits=port.tx_bits,
        rx_packets=port.rx_packets,
        tx_packets=port.tx_packets,
    )


def links_counted_by_ports(snapshot: Snapshot) -> set[int]:
    """ifindexes of the VFs' netdevs on this host whose packets the shown rates of their port
    contain: a sum over all NICs leaves them out."""
    if snapshot.rates is None or not snapshot.rates.ports:
        return set()
    functions = functions_by_address(snapshot.pci)
    ports = set()
    for ifindex in snapshot.rates.ports:
        link = snapshot.links.get(ifindex)
        if link is not None and port_rates_of(ifindex, snapshot) is not None:
            ports.add(link.pci_address)
    found = set()
    for link in snapshot.links.values():
        function = functions.get(link.pci_address or "")
        if function is not None and function.physical_function in ports:
            found.add(link.ifindex)
    return found


def newest_ports(snapshot: Snapshot) -> Mapping[int, PortCounts]:
    """As in `Counters`: of the newest record that has some, if it is not too old."""
    counters, base = snapshot.counters, snapshot.vf_base
    if counters is None:
        return {}
    if counters.ports or base is None:
        return counters.ports
    if counters.time - base.time > MAX_VF_RATES_AGE_SECONDS:
        return {}
    return base.ports


def rates_words(link: Link, snapshot: Snapshot) -> tuple[str, ...]:
    """What the rates of a physical function with VFs are of, the longest text first; (): no VFs, or
    it is not known yet."""
    if not link.virtual_functions:
        return ()
    if sharing_functions(link.ifindex, snapshot):
        return SHARED
    if port_rates_of(link.ifindex, snapshot) is not None:
        return WITH_FUNCTIONS
    counted = newest_ports(snapshot).get(link.ifindex)
    if counted is not None and not counted.source:
        return NETDEV_ONLY
    return ()


def why_port_is_unknown(link: Link, snapshot: Snapshot) -> str:
    """Of a physical function with VFs, whose port is not counted."""
    counted = newest_ports(snapshot).get(link.ifindex)
    if counted is not None and not counted.source:
        driver = driver_name(link)
        named = f"the driver {driver}" if driver else "the driver"
        return f"not known, because {named} gives no port counters"
    if snapshot.counters is not None and "ports" in snapshot.counters.unreadable:
        return f"not known: {snapshot.counters.unreadable['ports'].detail}"
    return NOT_READ_YET
