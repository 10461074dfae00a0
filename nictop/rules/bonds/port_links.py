"""Ports that a bond or team does not use: without a link, or without the speed that the mode needs.

Reads nothing. Kernel drivers/net/bonding/bond_main.c: bond_miimon_commit keeps a port down whose
speed or duplex is not known, in the modes of bond_needs_speed_duplex (include/net/bonding.h:
802.3ad, balance-tlb, balance-alb).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.bonds import LACP_MODE, is_usable
from nictop.probe.records import Bond, Link
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.bonds import active_backup_fix
from nictop.rules.fixes.commands import command, with_undo
from nictop.rules.fixes.hypervisors import has_linux_hypervisor
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.fixes.profiles import set_link_up
from nictop.rules.host import HostFacts, once_per_host
from nictop.rules.link.carrier_causes import CAUSES, NIC_FAULTS, nic_kind, plug_in_fixes
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_up, link_finding

SPEED_MODES = (LACP_MODE, "balance-tlb", "balance-alb")
USUAL_SPEED = 10_000
"""Mb/s of virtual ports: any value does, but all ports must have the same."""
MAX_PORTS = 4
"""In the evidence."""


@once_per_host
def bonds_that_are_up(host: HostFacts) -> tuple[tuple[Link, Bond], ...]:
    """With their records."""
    found = []
    for link in host.links:
        if link.bond is not None and is_up(link):
            found.append((link, link.bond))
    return tuple(found)


# ------------------------------------------------------------------------------------ unknown speed


def without_duplex(ports: Sequence[Link]) -> list[Link]:
    """Ports without known full duplex, on which the kernel does not use LACP. veth, tap: reported
    by the driver."""
    found = []
    for port in ports:
        settings = port.ethtool.settings
        if settings is not None and (settings.duplex != "full" or not settings.speed):
            found.append(port)
    return found


def speed_evidence(ports: Sequence[Link]) -> list[Evidence]:
    found = []
    for port in ports[:MAX_PORTS]:
        settings = port.ethtool.settings
        speed = duplex = "unknown"
        if settings is not None and settings.speed:
            speed = f"{settings.speed} Mb/s"
        if settings is not None and settings.duplex:
            duplex = settings.duplex
        text = f"{speed}, duplex {duplex}"
        found.append(Evidence(f"{port.name} speed", text, f"ethtool {port.name}"))
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
    speed = _speed_of_others(host, unknown[0]) or USUAL_SPEED
    values = ("speed", str(speed), "duplex", "full")
    fixes = [
        Fix(
            "here",
            "Set speed and duplex, which the mode of the bond needs",
            tuple(command("ethtool", "-s", port.name, *values) for port in unknown),
            persistent=False,
            note="The driver reports neither. The value does not limit the rate, but must be the "
            "same on all ports.",
        ),
        *(ethtool_fixes(host, port, ("-s", *values))[1] for port in unknown),
    ]
    if has_linux_hypervisor(host.inventory.platform):
        note = (
            f"QEMU: -device virtio-net-pci,…,speed={speed},duplex=full. Takes effect at the next "
            "start of the guest."
        )
        fixes.append(Fix("hypervisor", "Or let the virtual NIC report them", (), True, note=note))
    return fixes


def _speed_of_others(host: HostFacts, port: Link) -> int:
    """Mb/s that other ports of its bond have; 0: not known, or not the same."""
    bond = host.master_of(port)
    speeds = set()
    for other in host.ports_of(bond) if bond is not None else ():
        settings = other.ethtool.settings
        if settings is not None and settings.speed:
            speeds.add(settings.speed)
    return speeds.pop() if len(speeds) == 1 else 0


def forward_lacp_fix(host: HostFacts, ports: Sequence[Link]) -> tuple[Fix, ...]:
    """Below a virtual port: a Linux bridge keeps LACPDUs unless its ports pass them."""
    if not has_linux_hypervisor(host.inventory.platform):
        return ()
    if not any(nic_kind(host, port) == "virtual NIC" for port in ports):
        return ()
    change, undo = with_undo(
        ("ip", "link", "set", "dev", "<TAP>", "type", "bridge_slave", "group_fwd_mask"), "4", "0"
    )
    note = (
        "A Linux bridge does not forward LACPDUs. For the tap and for the uplink of each port; a "
        "bridge of its own for each port, with no other guest."
    )
    return (
        Fix("hypervisor", "Let the bridge below pass LACPDUs", (change,), False, (undo,), note),
    )


@once_per_host
def ports_of_unknown_speed(host: HostFacts) -> dict[int, tuple[Link, ...]]:
    """ifindex of a bond → ports with carrier that it keeps down because their speed or duplex is
    not known."""
    found = {}
    for ifindex, every in host.ports.items():
        link = host.link_at(ifindex)
        if link is None or link.bond is None or not is_up(link):
            continue
        ports = tuple(filter(_is_kept_down, every))
        if ports and link.bond.mode in SPEED_MODES:
            found[ifindex] = ports
    return found


def _is_kept_down(port: Link) -> bool:
    if port.bond_port is None or port.bond_port.mii_status != "down" or port.carrier is not True:
        return False
    settings = port.ethtool.settings
    if settings is not None:
        return not settings.speed or settings.duplex is None
    reason = port.ethtool.unreadable.get("settings")
    return reason is not None and reason.reason == "not_offered"


@host_rule("critical", uses=("ethtool.settings",))
def bond_does_not_know_the_speed_of_its_ports(host: HostFacts) -> Outcomes:
    """A bond keeps ports down although they have a carrier, because their speed or duplex is not
    known.

    In the modes 802.3ad, balance-tlb and balance-alb the kernel uses a port only if its driver
    reports both: "failed to get link speed/duplex" is logged, the port has MII status down, and
    with 802.3ad no LACPDU is sent. virtio_net reports neither unless the hypervisor sets them.
    Critical: no other port is usable.

    Not reported: ports without carrier, or in the delay after they came up.

    Sources: kernel drivers/net/bonding/bond_main.c (bond_miimon_commit, bond_update_speed_duplex),
    net/ethtool/ioctl.c (ethtool_virtdev_set_link_ksettings), net/bridge/br_netlink.c (a port
    refuses only MAC pause in group_fwd_mask); topology_converter#50, vrnetlab#472, lxd#15276.
    """
    for ifindex, ports in ports_of_unknown_speed(host).items():
        yield _unknown_speed(host, host.snapshot.links[ifindex], ports)


def _unknown_speed(host: HostFacts, link: Link, ports: Sequence[Link]) -> Finding:
    assert link.bond is not None
    every = host.ports_of(link)
    usable = list(filter(is_usable, every))
    rest = "no port is left"
    if usable:
        rest = f"only {_names(usable)} is used"
    lacp_effect = ""
    lacp_fixes: tuple[Fix, ...] = ()
    if link.bond.mode == LACP_MODE:
        lacp_effect = ", so that these send no LACPDU, whatever the switch does"
        lacp_fixes = forward_lacp_fix(host, ports)
    evidence = [Evidence("mode", link.bond.mode, f"ip -d link show dev {link.name}")]
    for port in ports:
        name = f"{port.name} MII status"
        evidence.append(Evidence(name, "down, with carrier", "IFLA_BOND_SLAVE_MII_STATUS"))
    return link_finding(
        "warning" if usable else "critical",
        host,
        link,
        f"speed of {_names(ports)} unknown: kept down, {rest}",
        evidence=(*evidence, *speed_evidence(ports)),
        why=f"Mode {link.bond.mode} needs speed and duplex of each port. The driver of these "
        f"ports does not report them{lacp_effect}.",
        fixes=(
            *speed_fixes(host, ports),
            *lacp_fixes,
            active_backup_fix(host, link, link.bond, every),
        ),
    )


def _names(ports: Sequence[Link]) -> str:
    return ", ".join(port.name for port in ports[:MAX_PORTS])


# ------------------------------------------------------------------------------------------ no link


@host_rule(
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
    """A port of a bond or team has no link: the others carry everything, if there are any.

    nictop reads the carrier of each port, and the MII status of those that the bond checks with
    ARP. Critical: no port of the bond has a link. Warning: one other has. Info: two or more others
    have, or the port was set down by an administrator and another is up.

    Not reported: bonds and teams that are down, and ports in the delay after they came up
    (updelay).

    Source: kernel Documentation/networking/bonding.rst.
    """
    for ifindex, ports in host.ports.items():
        link = host.link_at(ifindex)
        if link is None or not is_up(link) or (link.bond is None and link.team is None):
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
    if not is_up(port):
        return ADMIN
    if port.carrier is False:
        return CARRIER
    if link.bond is None or not link.bond.arp_interval or port.bond_port is None:
        return None
    return ARP if port.bond_port.mii_status == "down" else None


def _port_down(host: HostFacts, link: Link, port: Link, why: str, left: Sequence[Link]) -> Finding:
    kind = "bond" if link.bond is not None else "team"
    rest = f"{link.name} has no link"
    if left:
        rest = f"{link.name} uses {_names(left)}"
    monitor = f", {port.bond_port.mii_status}" if port.bond_port is not None else ""
    return link_finding(
        _severity_of_loss(why, left),
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


def _severity_of_loss(why: str, left: Sequence[Link]) -> Severity:
    """`left`: ports that have a link."""
    if not left:
        return "critical"
    return "info" if why == ADMIN or len(left) > 1 else "warning"


def _arp_evidence(bond: Bond | None, why: str) -> tuple[Evidence, ...]:
    if bond is None or why != ARP:
        return ()
    return (Evidence("arp_interval", f"{bond.arp_interval} ms", "IFLA_BOND_ARP_INTERVAL"),)


def _reason(host: HostFacts, link: Link, port: Link, why: str, *, has_more: bool) -> str:
    causes = {
        ADMIN: "Someone or something has set the port down.",
        ARP: "The port has a carrier, but the ARP monitor of the bond (arp_ip_target) finds no "
        "answers through it.",
        CARRIER: CAUSES[nic_kind(host, port)].down,
    }
    loss = f"nothing passes {link.name}"
    if has_more:
        loss = f"{link.name} survives fewer failures"
        if _adds_capacity(link):
            loss = f"{link.name} has less capacity, and survives fewer failures"
    return f"{causes[why]} Until it is back, {loss}."


def _adds_capacity(link: Link) -> bool:
    """Its ports carry different packets, as far as its mode is known."""
    mode = link.bond.mode if link.bond is not None else None
    if link.team is not None:
        mode = link.team.mode
    return mode not in (None, "active-backup", "activebackup", "broadcast")


def _link_fixes(host: HostFacts, link: Link, port: Link, why: str) -> Iterator[Fix]:
    if why == CARRIER:
        yield from plug_in_fixes(host, port)
    elif why == ARP:
        yield Fix(
            "here", "Show the ARP targets", (command("cat", f"/proc/net/bonding/{link.name}"),)
        )
    else:
        yield set_link_up(port, "Set the port up, unless it is out of service", note="")
