"""VFs on the host of their PF: addresses, representors, the embedded switch.

Reads nothing; rules about `VirtualFunction`, `Link` and `ForwardingEntry`.
"""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.devices.devlink import is_switchdev
from nictop.model.facts.hardware import ZERO_MAC_ADDRESS
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import Link, VirtualFunction
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import Command, command, echo, with_undo
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_up, link_finding
from nictop.rules.vf.facts import (
    function_of,
    is_used,
    may_have_any_address,
    own_links,
    set_vf_fix,
    vf_name,
)

REPRESENTOR = pattern(r"(?:c[0-9]{1,3})?pf[0-9]{1,4}vf([0-9]{1,5})")
"""phys_port_name of a VF representor, net/devlink/port.c."""
LEGACY_SWITCHES = frozenset(("igb", "ixgbe", "i40e", "ice"))
"""Drivers whose embedded switch delivers to the PF only frames for addresses in its table."""
DRIVERS_ALLOWING_PF_ADDRESS = ("ixgbe", "i40e", "ice")
"""PF drivers that let an untrusted VF set exactly the address that the PF has for it."""
MAX_SHOWN = 4
"""Addresses in the evidence."""
MAX_FDB_COMMANDS = 16
"""Maximum number of commands in a fix."""


@host_rule("warning", uses=("pci.sriov",))
def vf_keeps_its_old_address(host: HostFacts) -> Outcomes:
    """A VF on this host has another MAC address than its PF has set for it.

    nictop compares the address in IFLA_VFINFO_LIST with that of the VF's netdev. The address was
    set after the driver of the VF had been loaded. The driver still uses the old address, for which
    unicast frames are no longer delivered.

    Not reported: the netdev is down or is a port of a bond, bridge or netvsc (which set their own
    address), or no address has been set; mlx5 without spoof check, which delivers to each address
    that a VF asks for.

    Sources: kernel drivers/net/ethernet/intel/igb/igb_main.c (igb_ndo_set_vf_mac: "Reload the VF
    driver to make this change effective"; igb_set_vf_mac_addr rejects any address for a VF that is
    not trusted, and ip-link(8) prints "Cannot assign requested address"), ixgbe_sriov.c and
    i40e_virtchnl_pf.c, which accept the address that was set.
    """
    for port, function in host.used_virtual_functions:
        if not function.address or function.address == ZERO_MAC_ADDRESS:
            continue
        if may_have_any_address(port, function):
            continue
        for link in own_links(host, port, function.number):
            if not is_up(link) or link.master is not None:
                continue
            if link.address in (function.address, None):
                continue
            there, own = f"address of {vf_name(host, port, function.number)}", link.address or ""
            yield link_finding(
                "warning",
                host,
                link,
                "MAC address differs from the one set on its PF",
                evidence=(
                    Evidence("address of the netdev", own, f"ip link show {link.name}"),
                    Evidence(there, function.address, f"ip link show {port.name}"),
                ),
                why="The NIC delivers frames for the address that the PF has set; frames for the "
                "old one are dropped.",
                fixes=tuple(_address_fixes(host, port, function, link)),
            )


def _address_fixes(
    host: HostFacts, port: Link, function: VirtualFunction, link: Link
) -> Iterator[Fix]:
    wanted, old = function.address or "", link.address or ""
    set_address = ("ip", "link", "set", "dev", link.name, "address")
    change, back = with_undo(set_address, wanted, old)
    title = "Set the MAC address configured on the PF"
    driver = link_driver(port)
    rebind = tuple(_rebind(host, link))
    if driver == "igb" and function.trust is not True:
        if function.trust is not None:
            yield _trust_and_change(port, function, change, back)
        yield from rebind
    elif driver in (*DRIVERS_ALLOWING_PF_ADDRESS, "igb") or not rebind:
        yield Fix("here", title, (change,), False, (back,))
        yield from rebind
    else:
        yield from rebind
        yield Fix("here", title, (change,), False, (back,), "Some drivers reject it.")
    title = "Configure the old address on the PF instead"
    yield set_vf_fix("here", title, port, function.number, "mac", old, undo=("mac", wanted))


def _trust_and_change(port: Link, function: VirtualFunction, change: Command, back: Command) -> Fix:
    set_trust = ("ip", "link", "set", "dev", port.name, "vf", str(function.number), "trust")
    on, off = with_undo(set_trust, "on", "off")
    title = "Trust the VF, set the MAC address configured on the PF"
    note = "igb rejects the address for an untrusted VF. Trust can be turned off again afterwards."
    return Fix("here", title, (on, change), False, (back, off), note)


def _rebind(host: HostFacts, link: Link) -> Iterator[Fix]:
    """The driver reads the address from the PF when it is bound."""
    function = host.function_of(link)
    if function is None or function.driver is None:
        return
    folder = f"/sys/bus/pci/drivers/{function.driver}"
    lines = tuple(echo(function.address, f"{folder}/{change}") for change in ("unbind", "bind"))
    note = "The link is created again; IP addresses that no network manager sets are removed."
    yield Fix("here", "Rebind the driver: it reads the address from the PF", lines, False, (), note)


@host_rule("warning", needs=("pci.enabled",), uses=("pci.driver", "pci.sriov"))
def representor_is_down(host: HostFacts) -> Outcomes:
    """In switchdev mode, the representor of a VF in use is down.

    nictop identifies representors by phys_port_name (pf0vf3) and the mode of the embedded switch
    (devlink, else phys_switch_id), and finds one administratively down while its VF is in use.
    Without it a frame of that VF reaches the switch only by rules that are offloaded.

    Not reported: representors of unused VFs.

    Sources: kernel representors.rst and switchdev.rst,
    k8snetworkplumbingwg/sriov-network-operator#1017.
    """
    for link in host.links:
        number = _represented(host, link)
        if number is None or is_up(link) or not is_used(host, link, number):
            continue
        function = function_of(host, link, number)
        if function is None:
            continue
        name = vf_name(host, link, number)
        represents = f"{name}, {function.address}"
        up, down = with_undo(("ip", "link", "set", "dev", link.name), "up", "down")
        note = "It must also be a port of a bridge or of Open vSwitch, or have tc rules."
        yield link_finding(
            "warning",
            host,
            link,
            f"representor of {name}, which is in use, is down",
            evidence=(
                Evidence("represents", represents, f"/sys/class/net/{link.name}/phys_port_name"),
                Evidence("state", "down", f"ip link show {link.name}"),
            ),
            why="In switchdev mode frames of a VF pass through its representor, unless rules for "
            "it are offloaded to the hardware. Some drivers (mlx5) also take the VF's carrier "
            "away.",
            fixes=(Fix("here", "Bring the representor up", (up,), False, (down,), note),),
        )


def _represented(host: HostFacts, link: Link) -> int | None:
    """Number of the VF that the link stands for on the host of its PF; None: of none."""
    if not is_switchdev(link, host.inventory):
        return None
    match = REPRESENTOR.fullmatch(link.physical_port or "")
    return None if match is None else int(match[1])


@host_rule(
    "warning",
    needs=("pci.enabled",),
    uses=("ethtool.driver", "forwarding", "pci.driver", "pci.sriov"),
)
def embedded_switch_misses_bridged_guests(host: HostFacts) -> Outcomes:
    """Guests on a bridge over a PF cannot be reached from guests on VFs of the same PF.

    The embedded switch of the NIC forwards a frame from a VF to the PF only if the destination
    address is in its table; all other frames leave through the wire. nictop compares the addresses
    that the bridge has learned on its other ports with those in the table of the NIC (``bridge fdb
    show``, entries "self").

    Only for igb, ixgbe, i40e and ice in legacy mode, with a VF in use, and if both tables were
    read.

    Sources: canonical/hotsos#365 (most cards do not forward from a VF to a promiscuous PF),
    DPDK/grout#653, kernel net_failover.rst (``bridge fdb add`` around a migration), bridge(8).
    """
    if not host.inventory.forwarding:
        return
    for port in _used_ports(host):
        bridge = host.master_of(port)
        if bridge is None or bridge.kind != "bridge":
            continue
        if is_switchdev(port, host.inventory) or link_driver(port) not in LEGACY_SWITCHES:
            continue
        missing = _unknown_addresses(host, port)
        if missing:
            yield _missing_finding(host, bridge, port, missing)


def _used_ports(host: HostFacts) -> list[Link]:
    """Those with VFs in use, by ifindex."""
    used = {port.ifindex for port, _ in host.used_virtual_functions}
    return [link for link in host.links if link.ifindex in used]


def _missing_finding(host: HostFacts, bridge: Link, port: Link, missing: list[str]) -> Finding:
    plural = "es" if len(missing) > 1 else ""
    learned = ", ".join(missing[:MAX_SHOWN])
    if len(missing) > MAX_SHOWN:
        learned += " …"
    return link_finding(
        "warning",
        host,
        port,
        f"{len(missing)} address{plural} on {bridge.name} not reachable from its VFs",
        evidence=(
            Evidence("learned on the bridge", learned, "bridge fdb show"),
            Evidence("in the NIC's table", "none of them", f"bridge fdb show dev {port.name} self"),
        ),
        why="Frames from VFs to these addresses leave through the wire and do not return. "
        "Traffic with other machines is not affected.",
        fixes=_fdb_fixes(port, missing),
    )


def _fdb_fixes(port: Link, missing: list[str]) -> tuple[Fix, ...]:
    add = []
    remove = []
    for address in missing[:MAX_FDB_COMMANDS]:
        entry = (address, "dev", port.name, "self")
        add.append(command("bridge", "fdb", "add", *entry))
        remove.append(command("bridge", "fdb", "del", *entry))
    note = "Persistent: run it in a hook at every start of a guest."
    if len(missing) > MAX_FDB_COMMANDS:
        note = f"{len(missing) - MAX_FDB_COMMANDS} more are not listed."
    title = "Add the addresses to the NIC's table"
    return (
        Fix("here", title, tuple(add), False, tuple(remove), note),
        Fix("here", "Use VFs for the bridged guests", ()),
    )


def _unknown_addresses(host: HostFacts, port: Link) -> list[str]:
    """Addresses learned on the other ports of the bridge of `port`, and missing in the table of
    `port`."""
    siblings = {link.ifindex for link in host.links if link.master == port.master} - {port.ifindex}
    known: set[str | None] = {link.address for link in host.links}
    learned = set()
    for entry in host.inventory.forwarding:
        if entry.self_entry and entry.ifindex == port.ifindex:
            known.add(entry.address)
        if entry.is_learned and entry.ifindex in siblings:
            learned.add(entry.address)
    return sorted(learned - known)
