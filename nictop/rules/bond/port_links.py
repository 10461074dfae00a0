"""Ports that a bond or team does not use: without a link, or without the speed that the mode needs.

Reads nothing. Kernel drivers/net/bonding/bond_main.c: bond_miimon_commit keeps a port down whose speed or duplex is not
known, in the modes of bond_needs_speed_duplex (include/net/bonding.h: 802.3ad, balance-tlb, balance-alb).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.bonds import LACP_MODE, is_usable
from nictop.model.text.words import IFF_UP
from nictop.probe.records import Bond, Link
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.bonds import active_backup_fix
from nictop.rules.fixes.commands import command, with_undo
from nictop.rules.fixes.hypervisors import has_linux_hypervisor
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import HostFacts, once_per_host
from nictop.rules.link.carrier_causes import CAUSES, NIC_FAULTS, nic_kind, plug_in_fixes
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding

SPEED_MODES = (LACP_MODE, "balance-tlb", "balance-alb")
SPEED_AND_DUPLEX = ("-s", "speed", "10000", "duplex", "full")
"""Of a virtual port: any values do, but all ports must have the same."""
MAX_PORTS = 4
"""In the evidence."""


# ----------------------------------------------------------------------------------------------------- unknown speed


def without_duplex(ports: Sequence[Link]) -> list[Link]:
    """Ports without known full duplex, on which the kernel does not use LACP. veth, tap: reported by the driver."""
    settings = ((port, port.ethtool.settings) for port in ports)
    return [port for port, found in settings if found is not None and (found.duplex != "full" or not found.speed)]


def speed_evidence(ports: Sequence[Link]) -> list[Evidence]:
    found = []
    for port in ports[:MAX_PORTS]:
        settings = port.ethtool.settings
        speed = f"{settings.speed} Mb/s" if settings is not None and settings.speed else "unknown"
        duplex = (settings.duplex if settings is not None else None) or "unknown"
        found.append(Evidence(f"{port.name} speed", f"{speed}, duplex {duplex}", f"ethtool {port.name}"))
    return found


def speed_fixes(host: HostFacts, ports: Sequence[Link]) -> list[Fix]:
    """Speed and duplex of drivers that do not report them and let them be set (virtio_net)."""
    unknown = []
    for port in without_duplex(ports):
        settings = port.ethtool.settings
        if settings is not None and not settings.speed and settings.duplex is None:
            unknown.append(port)
    if not unknown:
        return []
    fixes = [
        Fix(
            "here",
            "Set speed and duplex, which the mode of the bond needs",
            tuple(command("ethtool", "-s", port.name, *SPEED_AND_DUPLEX[1:]) for port in unknown),
            persistent=False,
            note="The driver reports neither. The value does not limit the rate, but must be the same on all ports.",
        ),
        *(ethtool_fixes(host, port, SPEED_AND_DUPLEX)[1] for port in unknown),
    ]
    if has_linux_hypervisor(host.inventory.platform):
        note = "QEMU: -device virtio-net-pci,…,speed=10000,duplex=full. Takes effect at the next start of the guest."
        fixes.append(Fix("hypervisor", "Or let the virtual NIC report them", (), True, note=note))
    return fixes


def forward_lacp_fix(host: HostFacts, ports: Sequence[Link]) -> tuple[Fix, ...]:
    """Below a virtual port: a Linux bridge keeps LACPDUs unless its ports pass them."""
    virtual = any(nic_kind(host, port) == "virtual NIC" for port in ports)
    if not virtual or not has_linux_hypervisor(host.inventory.platform):
        return ()
    change, undo = with_undo(("ip", "link", "set", "dev", "<TAP>", "type", "bridge_slave", "group_fwd_mask"), "4", "0")
    note = (
        "A Linux bridge does not forward LACPDUs. For the tap and for the uplink of each port; a bridge of its own for "
        "each port, with no other guest."
    )
    return (Fix("hypervisor", "Let the bridge below pass LACPDUs", (change,), False, (undo,), note),)


@once_per_host
def ports_of_unknown_speed(host: HostFacts) -> dict[int, tuple[Link, ...]]:
    """ifindex of a bond → ports with carrier that it keeps down because their speed or duplex is not known."""
    found = {}
    for ifindex, every in host.ports.items():
        link = host.snapshot.links.get(ifindex)
        if link is None or link.bond is None or link.bond.mode not in SPEED_MODES or not link.flags & IFF_UP:
            continue
        ports = tuple(port for port in every if _is_kept_down(port))
        if ports:
            found[ifindex] = ports
    return found


def _is_kept_down(port: Link) -> bool:
    if port.bond_port is None or port.bond_port.mii_status != "down" or port.carrier is not True:
        return False
    settings = port.ethtool.settings
    if settings is None:
        reason = port.ethtool.unreadable.get("settings")
        return reason is not None and reason.reason == "not_offered"
    return not settings.speed or settings.duplex is None


@host_rule("bonds and teams", "critical", uses=("ethtool.settings",))
def bond_does_not_know_the_speed_of_its_ports(host: HostFacts) -> Outcomes:
    """A bond keeps ports down although they have a carrier, because their speed or duplex is not known.

    In the modes 802.3ad, balance-tlb and balance-alb the kernel uses a port only if its driver reports both: "failed to
    get link speed/duplex" is logged, the port has MII status down, and with 802.3ad no LACPDU is sent. virtio_net
    reports neither unless the hypervisor sets them. Critical: no other port is usable.

    Not reported: ports without carrier, or in the delay after they came up.

    Sources: kernel drivers/net/bonding/bond_main.c (bond_miimon_commit, bond_update_speed_duplex), net/ethtool/ioctl.c
    (ethtool_virtdev_set_link_ksettings), net/bridge/br_netlink.c (a port refuses only MAC pause in group_fwd_mask);
    topology_converter#50, vrnetlab#472, lxd#15276.
    """
    for ifindex, ports in ports_of_unknown_speed(host).items():
        link = host.snapshot.links[ifindex]
        every = host.ports.get(ifindex, ())
        usable = [port for port in every if is_usable(port)]
        yield _unknown_speed(host, link, ports, every, usable)


def _unknown_speed(
    host: HostFacts, link: Link, ports: Sequence[Link], every: Sequence[Link], usable: Sequence[Link]
) -> Finding:
    assert link.bond is not None
    is_lacp = link.bond.mode == LACP_MODE
    names = ", ".join(port.name for port in ports[:MAX_PORTS])
    rest = "no port is left" if not usable else f"only {', '.join(port.name for port in usable[:MAX_PORTS])} is used"
    return link_finding(
        "warning" if usable else "critical",
        host,
        link,
        f"speed of {names} unknown: kept down, {rest}",
        evidence=(
            Evidence("mode", link.bond.mode, f"ip -d link show dev {link.name}"),
            *(Evidence(f"{one.name} MII status", "down, with carrier", "IFLA_BOND_SLAVE_MII_STATUS") for one in ports),
            *speed_evidence(ports),
        ),
        why=f"Mode {link.bond.mode} needs speed and duplex of each port. The driver of these ports does not report "
        f"them{', so no LACPDU is sent, whatever the switch does' if is_lacp else ''}.",
        fixes=(
            *speed_fixes(host, ports),
            *(forward_lacp_fix(host, ports) if is_lacp else ()),
            active_backup_fix(host, link, link.bond, every),
        ),
    )


# ------------------------------------------------------------------------------------------------------------ no link


@host_rule(
    "bonds and teams",
    "critical",
    yields_to=(
        "bond_does_not_know_the_speed_of_its_ports",
        "carrier_flaps",
        "vf_has_no_carrier",
        "vf_link_is_disabled",
        "port_of_virtual_functions_is_down",
        *NIC_FAULTS,
    ),
)
def bond_port_is_down(host: HostFacts) -> Outcomes:
    """A port of a bond or team has no link: the others carry everything, and if one more fails nothing is left.

    nictop reads the carrier of each port, and the MII status of those that the bond checks with ARP. Critical: no port
    of the bond has a link. Warning: one other has. Info: two or more others have, or the port was set down by an
    administrator and another is up.

    Not reported: bonds and teams that are down, and ports in the delay after they came up (updelay).

    Source: kernel Documentation/networking/bonding.rst.
    """
    for ifindex, ports in host.ports.items():
        link = host.snapshot.links.get(ifindex)
        if link is None or not link.flags & IFF_UP or (link.bond is None and link.team is None):
            continue
        states = {port.ifindex: _why_down(link, port) for port in ports}
        left = [port for port in ports if states[port.ifindex] is None]
        for port in ports:
            why = states[port.ifindex]
            if why is not None:
                yield _port_down(host, link, port, why, left)


ADMIN, CARRIER, ARP = "administratively down", "no carrier", "no answer to ARP"


def _why_down(link: Link, port: Link) -> str | None:
    """None: it has a link, or what it has is not known."""
    if not port.flags & IFF_UP:
        return ADMIN
    if port.carrier is False:
        return CARRIER
    by_arp = link.bond is not None and bool(link.bond.arp_interval)
    return ARP if by_arp and port.bond_port is not None and port.bond_port.mii_status == "down" else None


def _port_down(host: HostFacts, link: Link, port: Link, why: str, left: Sequence[Link]) -> Finding:
    kind = "bond" if link.bond is not None else "team"
    rest = f"{link.name} uses {', '.join(one.name for one in left[:MAX_PORTS])}" if left else f"{link.name} has no link"
    severity: Severity = "critical" if not left else "info" if why == ADMIN or len(left) > 1 else "warning"
    monitor = f", {port.bond_port.mii_status}" if port.bond_port is not None else ""
    return link_finding(
        severity,
        host,
        port,
        f"{kind} port, {why}; {rest}",
        evidence=(
            Evidence("state", why, f"ip link show dev {port.name}"),
            Evidence(kind, f"{link.name}{monitor}", f"ip -d link show dev {port.name}"),
            *_arp_evidence(link.bond, why),
        ),
        why=_reason(host, link, port, why, has_more=bool(left)),
        fixes=tuple(_link_fixes(host, link, port, why)),
    )


def _arp_evidence(bond: Bond | None, why: str) -> tuple[Evidence, ...]:
    if bond is None or why != ARP:
        return ()
    return (Evidence("arp_interval", f"{bond.arp_interval} ms", "IFLA_BOND_ARP_INTERVAL"),)


def _reason(host: HostFacts, link: Link, port: Link, why: str, *, has_more: bool) -> str:
    causes = {
        ADMIN: "Someone has set the port down.",
        ARP: "The port has a carrier, but no host of arp_ip_target answers through it.",
        CARRIER: CAUSES[nic_kind(host, port)].down,
    }
    loss = f"{link.name} has less capacity, and survives fewer failures" if has_more else f"nothing passes {link.name}"
    return f"{causes[why]} Until it is back, {loss}."


def _link_fixes(host: HostFacts, link: Link, port: Link, why: str) -> Iterator[Fix]:
    if why == CARRIER:
        yield from plug_in_fixes(host, port)
    elif why == ARP:
        yield Fix("here", "Show the ARP targets", (command("cat", f"/proc/net/bonding/{link.name}"),))
    else:
        up, down = with_undo(("ip", "link", "set", "dev", port.name), "up", "down")
        yield Fix("here", "Set the port up, unless it is out of service", (up,), False, (down,))
