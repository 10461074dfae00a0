"""Bonds of mode 802.3ad: partner, aggregators and the state of each port."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.bonds import (
    AGGREGATION,
    DEFAULTED,
    EXPIRED,
    LACP_MODE,
    NO_PARTNER,
    SYNCHRONIZATION,
    has_no_partner,
    has_partner,
    is_in_use,
    is_settled,
    is_usable,
    speaks_lacp,
    state_text,
)
from nictop.probe.records import Bond, BondPort, Link
from nictop.rules.bonds.port_links import (
    bonds_that_are_up,
    forward_lacp_fix,
    speed_evidence,
    speed_fixes,
    without_duplex,
)
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.bonds import active_backup_fix, option_fixes, set_option
from nictop.rules.fixes.commands import command, joined
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.routes.rewriting import addresses_again, lost_routes
from nictop.rules.subjects import link_finding

MAX_PORTS = 4
"""In the evidence."""
ACTOR_STATE = "IFLA_BOND_SLAVE_AD_ACTOR_OPER_PORT_STATE"


def _lacp_bonds(host: HostFacts) -> Iterator[tuple[Link, Bond, tuple[Link, ...]]]:
    """(bond, its record, its ports with a link and an LACP state) of each bond of mode 802.3ad that
    is up."""
    for link, bond in bonds_that_are_up(host):
        if bond.mode == LACP_MODE:
            yield link, bond, tuple(filter(_has_lacp_state, host.ports_of(link)))


def _has_lacp_state(port: Link) -> bool:
    """It has a link, and sends or receives LACPDUs."""
    if port.bond_port is None or not is_usable(port):
        return False
    return speaks_lacp(port.bond_port)


def port_of(link: Link) -> BondPort:
    """The record of a port of a bond."""
    assert link.bond_port is not None
    return link.bond_port


def _severity(link: Link) -> Severity:
    """Without carrier (min_links) nothing is sent."""
    return "critical" if link.carrier is False else "warning"


def _min_links_evidence(link: Link, bond: Bond) -> tuple[Evidence, ...]:
    if link.carrier is not False or not bond.min_links:
        return ()
    value = f"{bond.min_links}: the bond has no carrier"
    return (Evidence("min_links", value, f"ip -d link show dev {link.name}"),)


def _names(ports: Sequence[Link]) -> str:
    return ", ".join(port.name for port in ports)


def _proc(link: Link) -> str:
    return f"/proc/net/bonding/{link.name}"


@host_rule("critical")
def lacp_has_no_partner(host: HostFacts) -> Outcomes:
    """A bond of mode 802.3ad, or one of its ports, has no LACP partner: nothing on the other side
    answers.

    A port without a partner receives no LACPDUs, and uses default values (state defaulted). Without
    any partner the bond still reports a carrier, unless min_links forbids it, but uses only one
    port, and the switch may use another one. Causes: the switch ports are not in an LACP port
    channel, are in a static one, or the cable leads to another device; a bridge in between drops
    LACPDUs; the driver does not report speed and full duplex, without which LACP is off.

    Not reported: ports without a link, and the first seconds after a port comes up.

    Sources: kernel Documentation/networking/bonding.rst; drivers/net/bonding/bond_3ad.c; IEEE
    802.1AX 6.4.
    """
    for link, bond, ports in _lacp_bonds(host):
        alone = [port for port in ports if has_no_partner(port_of(port))]
        if alone and len(alone) == len(ports):
            yield _no_partner(host, link, bond, alone)
            continue
        for port in alone:
            yield _port_without_partner(host, link, port)


def _port_without_partner(host: HostFacts, bond: Link, port: Link) -> Finding:
    return link_finding(
        "warning",
        host,
        port,
        f"no LACP partner on this port; {bond.name} does not use it",
        evidence=(_state_evidence(port), *speed_evidence(without_duplex([port]))),
        why=f"{bond.name} has a partner on its other ports. {_why_alone(port)}",
        fixes=(
            *speed_fixes(host, [port]),
            *forward_lacp_fix(host, [port]),
            _switch_fix([port]),
        ),
    )


def _why_alone(port: Link) -> str:
    if without_duplex([port]):
        return "Without known full duplex the kernel does not use LACP on this port."
    return (
        "Possible: it leads to another device, its switch port is not in the port channel, or what "
        "is in between drops LACPDUs."
    )


def _no_partner(host: HostFacts, link: Link, bond: Bond, ports: Sequence[Link]) -> Finding:
    used = _used(ports, bond)
    title = "no LACP partner on any port"
    if len(ports) > 1 and len(used) == 1:
        title += f"; only {used[0].name} is used"
    evidence = [
        Evidence("LACP partner", bond.partner or NO_PARTNER, "IFLA_BOND_AD_INFO_PARTNER_MAC"),
        *(_state_evidence(port) for port in ports[:MAX_PORTS]),
        *_min_links_evidence(link, bond),
        *speed_evidence(without_duplex(ports)),
    ]
    fixes = [*speed_fixes(host, ports)]
    if bond.lacp_active is False:
        evidence.append(Evidence("lacp_active", "off", f"ip -d link show dev {link.name}"))
        fixes.append(_send_lacpdus(host, link))
    why = (
        "The bond has the carrier and the capacity of one port, and the switch may send to a port "
        "that the bond does not use."
    )
    if link.carrier is False:
        why = "Nothing is sent or received through the bond: each port is an aggregator of its own."
    return link_finding(
        _severity(link),
        host,
        link,
        title,
        evidence=tuple(evidence),
        why=why,
        fixes=(
            *fixes,
            *forward_lacp_fix(host, ports),
            _switch_fix(ports),
            active_backup_fix(host, link, bond, host.ports_of(link)),
        ),
    )


def _state_evidence(port: Link) -> Evidence:
    return Evidence(f"{port.name} actor state", state_text(port_of(port).actor_state), ACTOR_STATE)


def _send_lacpdus(host: HostFacts, link: Link) -> Fix:
    down = command("ip", "link", "set", "dev", link.name, "down")
    up = command("ip", "link", "set", "dev", link.name, "up")
    routes = lost_routes(host, link, ("ipv4", "ipv6"))
    again = (*addresses_again(link), *routes.commands)
    note = "If both ends are passive, LACP does not start. The bond is interrupted."
    return Fix(
        "here",
        "Send LACPDUs",
        (down, set_option(link, "lacp_active", "on"), up, *again),
        persistent=False,
        undo=(down, set_option(link, "lacp_active", "off"), up, *again),
        note=f"{note} {routes.note}".rstrip(),
    )


def _switch_fix(ports: Sequence[Link]) -> Fix:
    return Fix(
        "switch",
        "Put the ports into one LACP port channel",
        (),
        note=f"On the switch ports of {_names(ports)}: port channel with LACP in mode active "
        f"(IEEE 802.3ad), not "
        "static; the same speed, VLANs and MTU on all of them.",
    )


@host_rule("critical", uses=("bonds",))
def lacp_partner_keys_differ(host: HostFacts) -> Outcomes:
    """Ports of one bond have the same LACP partner, but different partner keys: they are in
    different port channels.

    A bond uses only ports with the same partner and the same partner key. Usual cause: on the
    switch, the ports were put into two port channels, or one of them has another speed, VLAN list
    or MTU and was taken out.

    Sources: IEEE 802.1AX 6.3.5; /proc/net/bonding (needs root).
    """
    for link, bond, ports in _lacp_bonds(host):
        known = [port for port in ports if _partner(port) not in ("", NO_PARTNER)]
        used = _used(known, bond)
        others = _with_another_key(known, used[0]) if used else []
        if others:
            yield _keys_finding(host, link, bond, [used[0], *others], _used(ports, bond))


def _with_another_key(ports: Sequence[Link], used: Link) -> list[Link]:
    """Ports with the same partner, but not the same key."""
    found = []
    for port in ports:
        if _partner(port) == _partner(used) and _key(port) != _key(used):
            found.append(port)
    return found


def _keys_finding(
    host: HostFacts, link: Link, bond: Bond, ports: Sequence[Link], used: Sequence[Link]
) -> Finding:
    """`ports`: one in use, and those in another port channel."""
    others = ports[1:]
    verb = "is" if len(others) == 1 else "are"
    keys = []
    for port in ports[:MAX_PORTS]:
        value = f"partner {_partner(port)}, key {_key(port)}"
        keys.append(Evidence(port.name, value, _proc(link)))
    return link_finding(
        _severity(link),
        host,
        link,
        f"partner keys differ: {_names(others)} {verb} in another port channel",
        evidence=(*keys, *_min_links_evidence(link, bond)),
        why=f"The bond uses only the ports of one aggregator: {_names(used)}.",
        fixes=(
            Fix(
                "switch",
                "Put the ports into the same port channel",
                (),
                note=f"The switch ports of {_names(ports)} need the same port channel number, "
                "speed, VLANs and MTU.",
            ),
        ),
    )


def _partner(link: Link) -> str:
    end = port_of(link).partner
    return end.system if end is not None else ""


def _key(link: Link) -> int | None:
    end = port_of(link).partner
    return end.key if end is not None else None


def _used(ports: Sequence[Link], bond: Bond) -> list[Link]:
    return [port for port in ports if port_of(port).aggregator == bond.aggregator]


@host_rule("critical", yields_to=("lacp_partner_keys_differ",))
def bond_ports_are_in_different_aggregators(host: HostFacts) -> Outcomes:
    """Ports of one bond are in different LACP aggregators: the bond uses only those of the active
    one.

    Ports can be aggregated if they have the same partner system and the same keys. Usual causes:
    cables to two switches that are not one LACP system (no MLAG or stack), different speeds of the
    ports, different port channels on the switch. As root, nictop reads the partner of each port and
    names the cause.

    Not reported: ports without a link, or without a partner, for which there is another check.

    Sources: kernel Documentation/networking/bonding.rst; IEEE 802.1AX 6.4.
    """
    for link, bond, ports in _lacp_bonds(host):
        known = [port for port in ports if has_partner(port_of(port))]
        used = _used(known, bond)
        others = [port for port in known if port not in used]
        if not used or not others:
            continue
        why, fixes = _aggregation_cause(host, link, bond, used[0], others)
        active = f"{bond.aggregator} ({_names(used)})"
        shown = (used[0], *others)[:MAX_PORTS]
        yield link_finding(
            _severity(link),
            host,
            link,
            f"{_names(others)} not used: different LACP aggregator",
            evidence=(
                Evidence("active aggregator", active, "IFLA_BOND_AD_INFO_AGGREGATOR"),
                *map(_aggregator_evidence, shown),
                *_min_links_evidence(link, bond),
            ),
            why=why,
            fixes=fixes,
        )


def _aggregator_evidence(link: Link) -> Evidence:
    port, settings = port_of(link), link.ethtool.settings
    parts = [str(port.aggregator)]
    if port.partner is not None:
        parts.append(f"partner {port.partner.system}, key {port.partner.key}")
    if settings is not None and settings.speed:
        parts.append(f"{settings.speed} Mb/s")
    name = f"{link.name} aggregator"
    return Evidence(name, ", ".join(parts), "IFLA_BOND_SLAVE_AD_AGGREGATOR_ID")


def _aggregation_cause(
    host: HostFacts, link: Link, bond: Bond, used: Link, others: Sequence[Link]
) -> tuple[str, tuple[Fix, ...]]:
    ports = (used, *others)
    if len({_partner(port) for port in ports if _partner(port)}) > 1 and _partner(used):
        return (
            "The partners are different systems. The ports lead to two switches that are not one "
            "LACP system, or a cable leads to another device.",
            (ONE_SYSTEM_FIX, active_backup_fix(host, link, bond, host.ports_of(link))),
        )
    settings = [port.ethtool.settings for port in ports]
    if len({known.speed for known in settings if known is not None and known.speed}) > 1:
        note = f"Check {_names(ports)}."
        return (
            "The ports have different speeds. LACP aggregates only ports of the same speed.",
            (Fix("switch", "Use the same speed on all ports", (), note=note),),
        )
    return (
        "The keys or the partners differ: most often the ports lead to two switches, or to two "
        "port channels of one switch.",
        (_switch_fix(ports),),
    )


ONE_SYSTEM_FIX = Fix(
    "switch",
    "Connect the ports to one LACP system",
    (),
    note="One switch, a stack, or two switches with MLAG (vPC, MC-LAG) and the same LACP system "
    "id.",
)


@host_rule("warning")
def lacp_port_is_not_in_use(host: HostFacts) -> Outcomes:
    """A port of the active LACP aggregator does not collect and distribute: it carries no traffic.

    Both ends of each port report in their LACPDUs whether they are in sync, collect (receive) and
    distribute (send). A port is used if both ends do both. Usual causes: the switch keeps it in
    reserve (limit of active ports), has suspended it because its VLANs, speed or MTU differ from
    those of the port channel, or has stopped sending LACPDUs.

    Not reported: ports without a link or without a partner, ports of other aggregators, and the
    first 60 s after a change, in which the kernel reports the churn state monitoring.

    Sources: IEEE 802.1AX 6.4.2.3 and 6.4.17 (churn); drivers/net/bonding/bond_3ad.c.
    """
    for link, bond, ports in _lacp_bonds(host):
        for port in _used(ports, bond):
            state = port_of(port)
            if has_no_partner(state) or is_in_use(state) or not is_settled(state):
                continue
            yield link_finding(
                "warning",
                host,
                port,
                f"{link.name} does not use this port: {_unused_reason(state)}",
                evidence=(
                    _state_evidence(port),
                    Evidence(
                        f"{port.name} partner state",
                        state_text(state.partner_state),
                        "IFLA_BOND_SLAVE_AD_PARTNER_OPER_PORT_STATE",
                    ),
                    *_churn_evidence(link, state),
                ),
                why="The bond has less capacity, and one port less to fail over to.",
                fixes=(_switch_fix([port]), _negotiate_again(port)),
            )


def _unused_reason(port: BondPort) -> str:
    actor, partner = port.actor_state or 0, port.partner_state or 0
    if actor & EXPIRED:
        return "the partner stopped sending LACPDUs"
    if partner & (DEFAULTED | EXPIRED):
        return "the partner receives no LACPDUs on it"
    if not partner & AGGREGATION:
        return "the partner does not aggregate it"
    if not partner & SYNCHRONIZATION:
        return "the partner is not in sync"
    if not actor & SYNCHRONIZATION:
        return "not in sync"
    return "one end does not collect and distribute"


def _churn_evidence(link: Link, port: BondPort) -> tuple[Evidence, ...]:
    if port.actor_churn is None or port.partner_churn is None:
        return ()
    return (
        Evidence("churn", f"actor {port.actor_churn}, partner {port.partner_churn}", _proc(link)),
    )


def _negotiate_again(port: Link) -> Fix:
    return Fix(
        "here",
        "Negotiate again",
        (
            joined(
                "&&",
                command("ip", "link", "set", "dev", port.name, "down"),
                command("ip", "link", "set", "dev", port.name, "up"),
            ),
        ),
        note="Helps if the switch suspended the port and the cause has been removed.",
    )


@host_rule(
    "critical",
    yields_to=(
        "lacp_has_no_partner",
        "lacp_partner_keys_differ",
        "bond_ports_are_in_different_aggregators",
    ),
)
def bond_has_fewer_ports_than_min_links(host: HostFacts) -> Outcomes:
    """A bond has no carrier because fewer ports than min_links are aggregated, although ports have
    a link.

    With min_links, a bond of mode 802.3ad goes down if its active aggregator has fewer ports. Ports
    of other aggregators do not count: if LACP has no partner, each port is an aggregator of its
    own.

    Source: kernel Documentation/networking/bonding.rst min_links.
    """
    for link, bond, ports in _lacp_bonds(host):
        if link.carrier is not False or not bond.min_links or not ports:
            continue
        number = bond.aggregator_ports or 0
        if number >= bond.min_links:
            continue
        needed = str(bond.min_links)
        fixes: tuple[Fix, ...] = ()
        if number:  # without any aggregated port no min_links gives a carrier
            fixes = option_fixes(host, link, "min_links", str(number), old=needed)
        yield link_finding(
            "critical",
            host,
            link,
            f"no carrier: min_links is {needed}, aggregated ports: {number}",
            evidence=(
                Evidence("min_links", needed, f"ip -d link show dev {link.name}"),
                Evidence(
                    "ports of the active aggregator", str(number), "IFLA_BOND_AD_INFO_NUM_PORTS"
                ),
                Evidence("ports with a link", _names(ports), "IFLA_BOND_SLAVE_MII_STATUS"),
            ),
            why="Nothing is sent or received through the bond, although ports have a link.",
            fixes=fixes,
        )
