"""Ports of bonds: which of them are used, how they are checked, and whether they are
independent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nictop.model.devices.bonds import HASH_MODES, LACP_MODE, is_in_use, is_usable
from nictop.model.text import units
from nictop.probe.records import Bond, Link
from nictop.rules.bonds.port_links import bonds_that_are_up
from nictop.rules.finding import Evidence, Fix, Severity
from nictop.rules.fixes.bonds import DEFAULT_MIIMON, option_fixes, set_option
from nictop.rules.fixes.commands import Command, command, echo
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import MIN_WINDOW_PACKETS, global_address_texts, is_up, link_finding

ONE_PORT_SHARE = 0.95
"""Share of the sent packets that one port has if the hash does not spread them."""
BUSY_SHARE = 0.8
"""Share of the speed of a port at which it limits the bond."""
COARSE_POLICIES = ("layer2", "layer2+3", "encap2+3", "vlan+srcmac")
"""Hash policies without the ports of TCP and UDP."""
FINE_POLICIES = {"encap2+3": "encap3+4"}
"""What replaces a coarse policy, if it is not layer3+4."""


def _speed(link: Link) -> int:
    """Mb/s; 0: not known."""
    settings = link.ethtool.settings
    if settings is None:
        return 0
    return settings.speed or 0


@host_rule("warning", uses=("ethtool.settings",))
def active_backup_ports_differ_in_speed(host: HostFacts) -> Outcomes:
    """The ports of an active-backup bond have different speeds, and nothing makes the fastest the
    active one.

    The bond uses one port. Without a primary it stays on the port that it has, also on a slow one
    after a failover.
    Warning: the active port is slower than another that has a link. Info: the fastest is active,
    but no primary is set.

    Not reported: the fastest port is the primary and active; ports without a link or a known speed.

    Source: kernel Documentation/networking/bonding.rst primary, primary_reselect.
    """
    for link, bond in bonds_that_are_up(host):
        if bond.mode != "active-backup":
            continue
        ports = [port for port in host.ports_of(link) if is_usable(port) and _speed(port)]
        active = _port_with_index(ports, bond.active_port)
        if active is None:
            continue
        # of equally fast ports the active one
        fastest = max(ports, key=lambda port: (_speed(port), port is active))
        slowest_speed = min(map(_speed, ports))
        is_pinned = fastest is active and bond.primary == active.ifindex
        if slowest_speed == _speed(fastest) or is_pinned:
            continue
        severity: Severity = "warning"
        title = (
            f"active port {active.name} has {_speed(active)} Mb/s, {fastest.name} has "
            f"{_speed(fastest)} Mb/s"
        )
        if fastest is active:
            severity = "info"
            title = (
                f"ports differ in speed and no primary is set; after a failover it may stay "
                f"at {slowest_speed} Mb/s"
            )
        primary = host.link_at(bond.primary)
        yield link_finding(
            severity,
            host,
            link,
            title,
            evidence=(*_speed_evidence(ports, active), _primary_evidence(link, bond, primary)),
            why="An active-backup bond is as fast as its active port.",
            fixes=_primary_fixes(host, link, fastest, primary, active),
        )


def _port_with_index(ports: Iterable[Link], ifindex: int | None) -> Link | None:
    for port in ports:
        if port.ifindex == ifindex:
            return port
    return None


def _speed_evidence(ports: Sequence[Link], active: Link) -> Iterator[Evidence]:
    for port in ports:
        role = "active" if port is active else "backup"
        yield Evidence(port.name, f"{_speed(port)} Mb/s, {role}", f"ethtool {port.name}")


def _primary_evidence(link: Link, bond: Bond, primary: Link | None) -> Evidence:
    value = "none"
    if primary is not None:
        value = f"{primary.name}, primary_reselect {bond.primary_reselect}"
    return Evidence("primary", value, f"ip -d link show dev {link.name}")


def _primary_fixes(
    host: HostFacts, link: Link, fastest: Link, primary: Link | None, active: Link
) -> tuple[Fix, ...]:
    if primary is fastest:  # primary_reselect better or failure
        change = set_option(link, "active_slave", fastest.name)
        undo = set_option(link, "active_slave", active.name)
        return (
            Fix("here", "Switch to the fastest port", (change,), persistent=False, undo=(undo,)),
        )
    old = primary.name if primary is not None else ""
    return option_fixes(host, link, "primary", fastest.name, old=old, undo=_set_primary(link, old))


def _set_primary(link: Link, name: str) -> Command:
    """``ip link`` has no word for "none"."""
    if not name:
        return echo("", f"/sys/class/net/{link.name}/bonding/primary")
    return set_option(link, "primary", name)


@host_rule("warning")
def bond_does_not_check_its_ports(host: HostFacts) -> Outcomes:
    """A bond has no link monitor (miimon and arp_interval are 0): it keeps using a port that has
    lost its link.

    ``ip link add … type bond`` may leave the monitor off, and so do netplan, networkd and ifupdown
    where their files do not set it; NetworkManager sets it. Mode 802.3ad cannot run without it.

    Source: kernel Documentation/networking/bonding.rst miimon.
    """
    for link, bond in bonds_that_are_up(host):
        if len(host.ports_of(link)) < 2:
            continue
        if bond.miimon != 0 or bond.arp_interval:
            continue
        source = f"ip -d link show dev {link.name}"
        yield link_finding(
            "warning",
            host,
            link,
            "no link monitor: it does not notice that a port fails",
            evidence=(
                Evidence("miimon", "0 (off)", source),
                Evidence("arp_interval", "0 (off)", source),
                Evidence("mode", bond.mode, source),
            ),
            why="Frames sent to a port without a link are lost; the other ports do not take over.",
            fixes=option_fixes(host, link, "miimon", str(DEFAULT_MIIMON), old="0"),
        )


@host_rule("warning", uses=("counters.links",))
def hash_policy_uses_one_port(host: HostFacts) -> Outcomes:
    """A bond with several usable ports sends nearly everything through one, because of its hash
    policy.

    The policies layer2 and layer2+3 choose the port by addresses: traffic to one gateway or one
    host always uses the same port. layer3+4 includes the ports of TCP and UDP. Counted at the ports
    during the last minute, if the bond sent at least 10 000 packets. Warning: that port sends at 80
    % of its speed or more; info: less.

    A single connection uses one port with every policy. The ports for received traffic are chosen
    by the switch.

    Source: kernel Documentation/networking/bonding.rst xmit_hash_policy.
    """
    for link in host.links:
        bond = link.bond
        if bond is None or bond.mode not in HASH_MODES or bond.hash_policy not in COARSE_POLICIES:
            continue
        sent = _sent_by_ports(host, link, bond)
        total = sum(sent.values())
        if len(sent) < 2 or total < MIN_WINDOW_PACKETS:
            continue
        busiest = max(sent, key=lambda name: sent[name])
        share = sent[busiest] / total
        if share < ONE_PORT_SHARE:
            continue
        better = FINE_POLICIES.get(bond.hash_policy, "layer3+4")
        is_limited = _is_near_its_speed(host, host.links_by_name[busiest])
        yield link_finding(
            "warning" if is_limited else "info",
            host,
            link,
            f"{busiest} sends {share:.0%} of the packets (hash policy {bond.hash_policy})",
            evidence=(
                *_sent_evidence(host, sent),
                Evidence("xmit_hash_policy", bond.hash_policy, f"ip -d link show dev {link.name}"),
            ),
            why="The other ports send almost nothing: what the bond sends is no faster than one "
            "port. Another policy spreads several connections, not a single one.",
            fixes=option_fixes(host, link, "xmit_hash_policy", better, old=bond.hash_policy),
        )


def _sent_by_ports(host: HostFacts, link: Link, bond: Bond) -> dict[str, float]:
    """Name of each port that the bond uses → packets sent in the window."""
    found = {}
    for port in host.ports_of(link):
        if is_usable(port) and _sends(bond, port):
            found[port.name] = _sent_packets(host, port)
    return found


def _sends(bond: Bond, port: Link) -> bool:
    if port.bond_port is None:
        return False
    if bond.mode == LACP_MODE:
        return is_in_use(port.bond_port)
    return port.bond_port.active


def _is_near_its_speed(host: HostFacts, port: Link) -> bool:
    """False also if its speed is not known."""
    speed = _speed(port)
    if not speed:
        return False
    sent_bits = host.known_link_rate(port, lambda rates: rates.tx_bits)
    return sent_bits >= BUSY_SHARE * speed * 1e6


def _sent_evidence(host: HostFacts, sent: Mapping[str, float]) -> Iterator[Evidence]:
    for name, packets in sent.items():
        value = f"{units.count(round(packets))} packets in {host.elapsed:.0f} s"
        yield Evidence(f"{name} sent", value, "RTM_GETSTATS tx_packets")


def _sent_packets(host: HostFacts, link: Link) -> float:
    """In the window."""
    return host.known_link_rate(link, lambda rates: rates.tx_packets) * host.elapsed


@host_rule("warning", uses=("pci.physical_function",))
def bond_of_virtual_functions_of_one_port(host: HostFacts) -> Outcomes:
    """Ports of one bond are virtual functions of the same physical function: one cable carries
    both.

    If that port, its cable or its switch fails, both VFs fail; the bond adds no capacity either.
    Use VFs of two physical functions. In a guest the physical function is not visible: check it on
    the host. Not reported: functions with several ports (mlx4), of which each VF may have another.

    Sources: kernel Documentation/networking/bonding.rst; physfn in /sys/bus/pci/devices.
    """
    for link in host.links:
        if link.bond is None:
            continue
        for physical, ports in _ports_by_physical_function(host, link).items():
            if len(ports) < 2:
                continue
            names = ", ".join(port.name for port in ports)
            carriers = [
                carrier
                for carrier in host.links_of_function.get(physical, ())
                if "vf" not in (carrier.physical_port or "")  # of a representor: pf0vf3
            ]
            if len(carriers) > 1:
                continue
            port_names = ", ".join(carrier.name for carrier in carriers) or physical
            yield link_finding(
                "warning",
                host,
                link,
                f"{names} are VFs of one port ({port_names})",
                evidence=tuple(_function_evidence(port, physical) for port in ports),
                why="The bond does not survive the failure of this port or its cable.",
                fixes=(_other_function_fix(host, link, ports[-1], physical),),
            )


def _ports_by_physical_function(host: HostFacts, link: Link) -> dict[str, list[Link]]:
    """PCI address of the physical function → VFs of it that are ports of the link."""
    found: dict[str, list[Link]] = {}
    for port in host.ports_of(link):
        function = host.function_of(port)
        if function is not None and function.physical_function is not None:
            found.setdefault(function.physical_function, []).append(port)
    return found


def _function_evidence(port: Link, physical: str) -> Evidence:
    text = f"{port.pci_address}, VF of {physical}"
    return Evidence(port.name, text, f"/sys/bus/pci/devices/{port.pci_address}/physfn")


def _other_function_fix(host: HostFacts, link: Link, replaced: Link, physical: str) -> Fix:
    """Replace a port by an unused VF of another physical function, if there is one."""
    for candidate in host.links:
        if _is_unused_function(host, candidate, physical):
            return _replace_fix(link, replaced, candidate)
    note = (
        "Create a VF on another physical function (sriov_numvfs), and add it to the bond "
        "instead of one of these."
    )
    return Fix("here", "Use a VF of another port", (), note=note)


def _is_unused_function(host: HostFacts, link: Link, physical: str) -> bool:
    """A VF of another physical function than `physical`, which no bond and no address uses."""
    function = host.function_of(link)
    if function is None or function.physical_function in (None, physical):
        return False
    return link.master is None and not global_address_texts(link)


def _replace_fix(link: Link, replaced: Link, candidate: Link) -> Fix:
    new, old = ("ip", "link", "set", "dev", candidate.name), ("ip", "link", "set", "dev")
    undo = [command(*new, "nomaster")]
    if is_up(candidate):
        undo.append(command(*new, "up"))
    undo.append(command(*old, replaced.name, "master", link.name))
    return Fix(
        "here",
        f"Use {candidate.name} instead of {replaced.name}",
        (
            command(*old, replaced.name, "nomaster"),
            command(*new, "down"),
            command(*new, "master", link.name),
        ),
        persistent=False,
        undo=tuple(undo),
        note="Also change it where the bond is configured.",
    )
