"""Port functions of devlink: VFs and subfunctions (SFs) behind representors.

Reads nothing; rules about `DevlinkPort`.
"""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.text.units import bits_per_second
from nictop.probe.records import DevlinkDevice, DevlinkPort, Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_up, link_finding
from nictop.rules.vf.load import NEAR_LIMIT_SHARE


@host_rule("warning", uses=("counters.links", "devlink"))
def port_function_rate_is_limited(host: HostFacts) -> Outcomes:
    """devlink limits the transmit rate of a VF or SF in switchdev mode (devlink rate, tx_max).

    nictop reads tx_max of each port function whose representor is up, and what the representor
    receives, which is what the function sends. Warning at 90 % of the limit or more, else info: no
    test can exceed the limit.

    Not reported: a limit of the group of the function (devlink rate nodes), which the panel names.

    Sources: kernel Documentation/networking/devlink/devlink-port.rst (rate objects),
    devlink-rate(8).
    """
    for device, port, link in _representors(host):
        limit = (port.max_tx_rate or 0) * 8
        if not limit:
            continue
        sent = host.link_rate(link, lambda rates: rates.rx_bits)
        is_reached = sent is not None and sent >= limit * NEAR_LIMIT_SHARE
        handle = _handle(device, port)
        change = ("devlink", "port", "function", "rate", "set", handle, "tx_max")
        sends = f", sends {bits_per_second(sent)}" if sent is not None else ""
        yield link_finding(
            "warning" if is_reached else "info",
            host,
            link,
            f"{_function(port)}: TX rate limit {bits_per_second(limit)}"
            + (" reached" if is_reached else ""),
            evidence=(
                Evidence(
                    "tx_max",
                    f"{bits_per_second(limit)}{sends}",
                    f"devlink port function rate show {handle}",
                ),
            ),
            why="The NIC enforces the limit. Neither the function nor a faster sender can exceed "
            "it.",
            fixes=(
                Fix(
                    "here",
                    f"Remove the rate limit of {_function(port)}",
                    (command(*change, "0"),),
                    False,
                    (command(*change, f"{limit}bit"),),
                    "Until the function is created again.",
                ),
            ),
        )


@host_rule("warning", uses=("addresses", "devlink"))
def port_function_is_inactive(host: HostFacts) -> Outcomes:
    """The representor of a subfunction (SF) is in use, but the subfunction is not active.

    nictop finds a representor that is up and is a port of a bridge or has an address, while its
    port function has the state inactive: no driver can use the function, and nothing is sent or
    received through it.

    Not reported: an active function without a driver (opstate detached), which may belong to a
    guest that is off.

    Sources: kernel Documentation/networking/devlink/devlink-port.rst (subfunction state);
    devlink-port(8).
    """
    for device, port, link in _representors(host):
        if port.is_active is not False or not (link.addresses or link.master is not None):
            continue
        handle = _handle(device, port)
        change = ("devlink", "port", "function", "set", handle, "state")
        yield link_finding(
            "warning",
            host,
            link,
            f"{_function(port)} behind this representor is inactive",
            evidence=(Evidence("state", "inactive", f"devlink port show {handle}"),),
            why="No driver can use the function before it is active.",
            fixes=(
                Fix(
                    "here",
                    f"Activate {_function(port)}",
                    (command(*change, "active"),),
                    False,
                    (command(*change, "inactive"),),
                    "Until the function is created again.",
                ),
            ),
        )


def _representors(host: HostFacts) -> Iterator[tuple[DevlinkDevice, DevlinkPort, Link]]:
    """Ports of functions whose netdev is up."""
    for device in host.inventory.devlink:
        for port in device.ports:
            link = host.snapshot.links.get(port.ifindex or 0)
            if port.flavour in ("pcivf", "pcisf") and link is not None and is_up(link):
                yield device, port, link


def _handle(device: DevlinkDevice, port: DevlinkPort) -> str:
    return f"{device.bus}/{device.device}/{port.index}"


def _function(port: DevlinkPort) -> str:
    """``VF 3``, ``SF 88``"""
    kind, number = (
        ("SF", port.subfunction) if port.flavour == "pcisf" else ("VF", port.virtual_function)
    )
    return f"{kind} {number}" if number is not None else kind
