"""Ports of bonds: which of them are used, how they are checked, and whether they are independent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nictop.model.devices.bonds import HASH_MODES, LACP_MODE, is_in_use, is_usable
from nictop.model.text import units
from nictop.model.text.words import IFF_UP
from nictop.probe.records import Bond, Link
from nictop.rules.finding import Evidence, Fix, Severity
from nictop.rules.fixes.bonds import DEFAULT_MIIMON, option_fixes, set_option
from nictop.rules.fixes.commands import Command, command, echo
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import MIN_WINDOW_PACKETS, link_finding

ONE_PORT_SHARE = 0.95
"""Share of the sent packets that one port has if the hash does not spread them."""
BUSY_SHARE = 0.8
"""Share of the speed of a port at which it limits the bond."""
COARSE_POLICIES = ("layer2", "layer2+3", "encap2+3", "vlan+srcmac")
"""Hash policies without the ports of TCP and UDP."""
FINE_POLICIES = {"encap2+3": "encap3+4"}
"""What replaces a coarse policy, if it is not layer3+4."""


def _speed(link: Link) -> int | None:
    """Mb/s."""
    settings = link.ethtool.settings
    return settings.speed if settings is not None else None


@host_rule("bonds and teams", "warning", uses=("ethtool.settings",))
def active_backup_ports_differ_in_speed(host: HostFacts) -> Outcomes:
    """The ports of an active-backup bond have different speeds, and nothing makes the fastest the active one.

    The bond uses one port. Without a primary it stays on the port that it has, also on a slow one after a failover.
    Warning: the active port is slower than another that has a link. Info: the fastest is active, but no primary is set.

    Not reported: the fastest port is the primary and active; ports without a link or a known speed.

    Source: kernel Documentation/networking/bonding.rst primary, primary_reselect.
    """
    for link in host.links:
        bond = link.bond
        if bond is None or bond.mode != "active-backup" or not link.flags & IFF_UP:
            continue
        ports = [port for port in host.ports.get(link.ifindex, ()) if is_usable(port) and _speed(port)]
        active = next((port for port in ports if port.ifindex == bond.active_port), None)
        if active is None:
            continue
        # of equally fast ports the active one
        fastest = max(ports, key=lambda port: (_speed(port) or 0, port is active))
        slowest_speed = min(_speed(port) or 0 for port in ports)
        is_pinned = fastest is active and bond.primary == active.ifindex
        if slowest_speed == _speed(fastest) or is_pinned:
            continue
        if fastest is not active:
            severity: Severity = "warning"
            title = f"active port {active.name} has {_speed(active)} Mb/s, {fastest.name} has {_speed(fastest)} Mb/s"
        else:
            severity = "info"
            title = f"ports differ in speed and no primary is set; after a failover it may stay at {slowest_speed} Mb/s"
        primary = host.snapshot.links.get(bond.primary) if bond.primary is not None else None
        yield link_finding(
            severity,
            host,
            link,
            title,
            evidence=(*_speed_evidence(ports, active), _primary_evidence(link, bond, primary)),
            why="An active-backup bond is as fast as its active port.",
            fixes=_primary_fixes(host, link, fastest, primary, active),
        )


def _speed_evidence(ports: Sequence[Link], active: Link) -> Iterator[Evidence]:
    for port in ports:
        role = "active" if port is active else "backup"
        yield Evidence(port.name, f"{_speed(port)} Mb/s, {role}", f"ethtool {port.name}")


def _primary_evidence(link: Link, bond: Bond, primary: Link | None) -> Evidence:
    value = "none" if primary is None else f"{primary.name}, primary_reselect {bond.primary_reselect}"
    return Evidence("primary", value, f"ip -d link show dev {link.name}")


def _primary_fixes(host: HostFacts, link: Link, fastest: Link, primary: Link | None, active: Link) -> tuple[Fix, ...]:
    if primary is fastest:  # primary_reselect better or failure
        change = set_option(link, "active_slave", fastest.name)
        undo = set_option(link, "active_slave", active.name)
        return (Fix("here", "Switch to the fastest port", (change,), persistent=False, undo=(undo,)),)
    old = primary.name if primary is not None else ""
    return option_fixes(host, link, "primary", fastest.name, old=old, undo=_set_primary(link, old))


def _set_primary(link: Link, name: str) -> Command:
    """``ip link`` has no word for "none"."""
    return set_option(link, "primary", name) if name else echo("", f"/sys/class/net/{link.name}/bonding/primary")


@host_rule("bonds and teams", "warning")
def bond_does_not_check_its_ports(host: HostFacts) -> Outcomes:
    """A bond has no link monitor (miimon and arp_interval are 0): it keeps using a port that has lost its link.

    ``ip link add … type bond`` and the kernel module leave the monitor off by default; NetworkManager, ifupdown2 and
    netplan set it. Mode 802.3ad cannot run without it.

    Source: kernel Documentation/networking/bonding.rst miimon.
    """
    for link in host.links:
        bond = link.bond
        if bond is None or bond.miimon != 0 or bond.arp_interval or not link.flags & IFF_UP:
            continue
        ports = host.ports.get(link.ifindex, ())
        if len(ports) < 2:
            continue
        yield link_finding(
            "warning",
            host,
            link,
            "no link monitor: it does not notice that a port fails",
            evidence=(
                Evidence("miimon", "0 (off)", f"ip -d link show dev {link.name}"),
                Evidence("arp_interval", "0 (off)", f"ip -d link show dev {link.name}"),
                Evidence("mode", bond.mode, f"ip -d link show dev {link.name}"),
            ),
            why="Frames sent to a port without a link are lost; the other ports do not take over.",
            fixes=option_fixes(host, link, "miimon", str(DEFAULT_MIIMON), old="0"),
        )


@host_rule("bonds and teams", "warning", uses=("counters.links",))
def hash_policy_uses_one_port(host: HostFacts) -> Outcomes:
    """A bond with several usable ports sends nearly everything through one, because of its hash policy.

    The policies layer2 and layer2+3 choose the port by addresses: traffic to one gateway or one host always uses the
    same port. layer3+4 includes the ports of TCP and UDP. Counted at the ports during the last minute, if the bond sent
    at least 10 000 packets. Warning: that port sends at 80 % of its speed or more; info: less.

    A single connection uses one port with every policy. The ports for received traffic are chosen by the switch.

    Source: kernel Documentation/networking/bonding.rst xmit_hash_policy.
    """
    for link in host.links:
        bond = link.bond
        if bond is None or bond.mode not in HASH_MODES or bond.hash_policy not in COARSE_POLICIES:
            continue
        ports = [port for port in host.ports.get(link.ifindex, ()) if is_usable(port) and _sends(bond, port)]
        sent = {port.name: _sent_packets(host, port) for port in ports}
        total = sum(sent.values())
        if len(ports) < 2 or total < MIN_WINDOW_PACKETS:
            continue
        busiest = max(ports, key=lambda port: sent[port.name])
        share = sent[busiest.name] / total
        if share < ONE_PORT_SHARE:
            continue
        better = FINE_POLICIES.get(bond.hash_policy, "layer3+4")
        yield link_finding(
            "warning" if _is_near_its_speed(host, busiest) else "info",
            host,
            link,
            f"{busiest.name} sends {share:.0%} of the packets (hash policy {bond.hash_policy})",
            evidence=(
                *_sent_evidence(host, sent),
                Evidence("xmit_hash_policy", bond.hash_policy, f"ip -d link show dev {link.name}"),
            ),
            why="The other ports are idle, and the bond is no faster than one port.",
            fixes=option_fixes(host, link, "xmit_hash_policy", better, old=bond.hash_policy),
        )


def _sends(bond: Bond, port: Link) -> bool:
    if port.bond_port is None:
        return False
    return is_in_use(port.bond_port) if bond.mode == LACP_MODE else port.bond_port.active


def _is_near_its_speed(host: HostFacts, port: Link) -> bool:
    """False also if its speed is not known."""
    speed = _speed(port)
    sent_bits = host.link_rate(port, lambda rates: rates.tx_bits) or 0.0
    return bool(speed) and sent_bits >= BUSY_SHARE * (speed or 0) * 1e6


def _sent_evidence(host: HostFacts, sent: Mapping[str, float]) -> Iterator[Evidence]:
    for name, packets in sent.items():
        value = f"{units.count(round(packets))} packets in {host.elapsed:.0f} s"
        yield Evidence(f"{name} sent", value, "RTM_GETSTATS tx_packets")


def _sent_packets(host: HostFacts, link: Link) -> float:
    """In the window."""
    return (host.link_rate(link, lambda rates: rates.tx_packets) or 0.0) * host.elapsed


@host_rule("bonds and teams", "warning", uses=("pci.physical_function",))
def bond_of_virtual_functions_of_one_port(host: HostFacts) -> Outcomes:
    """Ports of one bond are virtual functions of the same physical function: one cable carries both.

    If that port, its cable or its switch fails, both VFs fail; the bond adds no capacity either. Use VFs of two
    physical functions. In a guest the physical function is not visible: check it on the host.

    Sources: kernel Documentation/networking/bonding.rst; physfn in /sys/bus/pci/devices.
    """
    for link in host.links:
        if link.bond is None:
            continue
        by_physical: dict[str, list[Link]] = {}
        for port in host.ports.get(link.ifindex, ()):
            function = host.functions.get(port.pci_address or "")
            if function is not None and function.physical_function is not None:
                by_physical.setdefault(function.physical_function, []).append(port)
        for physical, ports in by_physical.items():
            if len(ports) < 2:
                continue
            names = ", ".join(one.name for one in host.links_of_function.get(physical, ())) or physical
            yield link_finding(
                "warning",
                host,
                link,
                f"{', '.join(port.name for port in ports)} are VFs of one port ({names})",
                evidence=tuple(
                    Evidence(
                        port.name,
                        f"{port.pci_address}, VF of {physical}",
                        f"/sys/bus/pci/devices/{port.pci_address}/physfn",
                    )
                    for port in ports
                ),
                why="The bond does not survive the failure of this port or its cable.",
                fixes=_other_function_fixes(host, link, ports, physical),
            )


def _other_function_fixes(host: HostFacts, link: Link, ports: Sequence[Link], physical: str) -> tuple[Fix, ...]:
    """Replace the last of the ports by an unused VF of another physical function, if there is one."""
    replaced = ports[-1]
    for candidate in host.links:
        function = host.functions.get(candidate.pci_address or "")
        if function is None or function.physical_function in (None, physical) or candidate.master is not None:
            continue
        if candidate.addresses and any(one.scope == "global" for one in candidate.addresses):
            continue
        return (
            Fix(
                "here",
                f"Use {candidate.name} instead of {replaced.name}",
                (
                    command("ip", "link", "set", "dev", replaced.name, "nomaster"),
                    command("ip", "link", "set", "dev", candidate.name, "down"),
                    command("ip", "link", "set", "dev", candidate.name, "master", link.name),
                ),
                persistent=False,
                undo=(
                    command("ip", "link", "set", "dev", candidate.name, "nomaster"),
                    *([command("ip", "link", "set", "dev", candidate.name, "up")] if candidate.flags & IFF_UP else []),
                    command("ip", "link", "set", "dev", replaced.name, "master", link.name),
                ),
                note="Also change it where the bond is configured.",
            ),
        )
    note = "Create a VF on another physical function (sriov_numvfs), and add it to the bond instead of one of these."
    return (Fix("here", "Use a VF of another port", (), note=note),)
