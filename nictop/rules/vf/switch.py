"""VFs on the host of their PF: addresses, representors, the embedded switch.

Reads nothing; rules about `VirtualFunction`, `Link` and `ForwardingEntry`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from nictop.model.devices.devlink import is_switchdev
from nictop.model.facts.hardware import ZERO_MAC_ADDRESS
from nictop.probe.records import Link, VirtualFunction
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command, echo
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding
from nictop.rules.vf.facts import function_of, is_up, is_used, own_links, set_vf_fix

FAMILY: Final = "VF attributes and path"
REPRESENTOR = re.compile(r"(?:c[0-9]{1,3})?pf[0-9]{1,4}vf([0-9]{1,5})")
"""phys_port_name of a VF representor, net/devlink/port.c."""
LEGACY_SWITCHES = frozenset(("igb", "ixgbe", "i40e", "ice"))
"""Drivers whose embedded switch delivers to the PF only frames for addresses in its table."""
DRIVERS_ALLOWING_PF_ADDRESS = ("ixgbe", "i40e", "ice")
"""PF drivers that let an untrusted VF set exactly the address that the PF has for it."""
MAX_FDB_COMMANDS = 16
"""Maximum number of commands in a fix."""


@host_rule(FAMILY, "warning", uses=("pci.sriov",))
def vf_keeps_its_old_address(host: HostFacts) -> Outcomes:
    """A VF on this host has another MAC address than its PF has set for it.

    nictop compares the address in IFLA_VFINFO_LIST with that of the VF's netdev. The address was set after the driver
    of the VF had been loaded. The driver still uses the old address, for which unicast frames are no longer delivered.

    Not reported: the netdev is down or is a port of a bond, bridge or netvsc (which set their own address), or no
    address has been set.

    Sources: kernel drivers/net/ethernet/intel/igb/igb_main.c (igb_ndo_set_vf_mac: "Reload the VF driver to make this
    change effective"; igb_set_vf_mac_addr rejects any address for a VF that is not trusted, and ip-link(8) prints
    "Cannot assign requested address"), ixgbe_sriov.c and i40e_virtchnl_pf.c, which accept the address that was set.
    """
    for port, function in host.used_virtual_functions:
        if not function.address or function.address == ZERO_MAC_ADDRESS:
            continue
        for link in own_links(host, port, function.number):
            if link.address in (function.address, None) or not is_up(link) or link.master is not None:
                continue
            yield link_finding(
                "warning",
                host,
                link,
                "MAC address differs from the one set on its PF",
                evidence=(
                    Evidence("address of the netdev", link.address or "", f"ip link show {link.name}"),
                    Evidence(f"address of VF {function.number}", function.address, f"ip link show {port.name}"),
                ),
                why="The NIC delivers frames for the address that the PF has set; frames for the old one are dropped.",
                fixes=tuple(_address_fixes(host, port, function, link)),
            )


def _address_fixes(host: HostFacts, port: Link, function: VirtualFunction, link: Link) -> Iterator[Fix]:
    change, back = (
        command("ip", "link", "set", "dev", link.name, "address", address or "")
        for address in (function.address, link.address)
    )
    trust = [
        command("ip", "link", "set", "dev", port.name, "vf", str(function.number), "trust", value)
        for value in ("on", "off")
    ]
    driver = link_driver(port)
    rebind = tuple(_rebind(host, link))
    if driver == "igb" and function.trust is not True:
        note = "igb rejects the address for an untrusted VF. Trust can be turned off again afterwards."
        if function.trust is not None:
            title = "Trust the VF, set the MAC address configured on the PF"
            yield Fix("here", title, (trust[0], change), False, (back, trust[1]), note)
        yield from rebind
    elif driver in DRIVERS_ALLOWING_PF_ADDRESS or driver == "igb" or not rebind:
        yield Fix("here", "Set the MAC address configured on the PF", (change,), False, (back,))
        yield from rebind
    else:
        yield from rebind
        yield Fix(
            "here", "Set the MAC address configured on the PF", (change,), False, (back,), "Some drivers reject it."
        )
    old = link.address or ""
    title = "Configure the old address on the PF instead"
    yield set_vf_fix("here", title, port, function.number, "mac", old, undo=("mac", function.address or ""))


def _rebind(host: HostFacts, link: Link) -> Iterator[Fix]:
    """The driver reads the address from the PF when it is bound."""
    function = host.functions.get(link.pci_address or "")
    if function is None or function.driver is None:
        return
    folder = f"/sys/bus/pci/drivers/{function.driver}"
    lines = tuple(echo(function.address, f"{folder}/{change}") for change in ("unbind", "bind"))
    note = "The link is created again; IP addresses that no network manager sets are removed."
    yield Fix("here", "Rebind the driver: it reads the address from the PF", lines, False, (), note)


@host_rule(FAMILY, "warning", needs=("pci.enabled",), uses=("pci.driver", "pci.sriov"))
def representor_is_down(host: HostFacts) -> Outcomes:
    """In switchdev mode, the representor of a VF in use is down.

    nictop identifies representors by phys_port_name (pf0vf3) and the mode of the embedded switch (devlink, else
    phys_switch_id), and finds one administratively down while its VF is in use. Without it no frame of that VF reaches
    the switch.

    Not reported: representors of unused VFs.

    Sources: kernel representors.rst and switchdev.rst, k8snetworkplumbingwg/sriov-network-operator#1017.
    """
    for link in host.links:
        match = REPRESENTOR.fullmatch(link.physical_port or "") if is_switchdev(link, host.inventory) else None
        if match is None or is_up(link):
            continue
        number = int(match[1])
        function = function_of(host, link, number)
        if function is None or not is_used(host, link, number):
            continue
        yield link_finding(
            "warning",
            host,
            link,
            f"representor is down: VF {number} has no connectivity",
            evidence=(
                Evidence(
                    "represents", f"VF {number}, {function.address}", f"/sys/class/net/{link.name}/phys_port_name"
                ),
                Evidence("state", "down", f"ip link show {link.name}"),
            ),
            why="In switchdev mode frames of a VF pass through its representor, unless rules for it are offloaded to "
            "the hardware.",
            fixes=(
                Fix(
                    "here",
                    "Bring the representor up",
                    (command("ip", "link", "set", "dev", link.name, "up"),),
                    False,
                    (command("ip", "link", "set", "dev", link.name, "down"),),
                    "It must also be a port of a bridge or of Open vSwitch, or have tc rules.",
                ),
            ),
        )


@host_rule(FAMILY, "warning", needs=("pci.enabled",), uses=("ethtool.driver", "forwarding", "pci.driver", "pci.sriov"))
def embedded_switch_misses_bridged_guests(host: HostFacts) -> Outcomes:
    """Guests on a bridge over a PF cannot be reached from guests on VFs of the same PF.

    The embedded switch of the NIC forwards a frame from a VF to the PF only if the destination address is in its table;
    all other frames leave through the wire. nictop compares the addresses that the bridge has learned on its other
    ports with those in the table of the NIC (``bridge fdb show``, entries "self").

    Only for igb, ixgbe, i40e and ice in legacy mode, with a VF in use, and if both tables were read.

    Sources: canonical/hotsos#365 (most cards do not forward from a VF to a promiscuous PF), DPDK/grout#653, kernel
    net_failover.rst (``bridge fdb add`` around a migration), bridge(8).
    """
    if not host.inventory.forwarding:
        return
    busy = {port.ifindex for port, _ in host.used_virtual_functions}
    for port in host.links:
        if (
            port.ifindex not in busy
            or port.master is None
            or is_switchdev(port, host.inventory)
            or link_driver(port) not in LEGACY_SWITCHES
        ):
            continue
        above = host.snapshot.links.get(port.master)
        missing = _unknown_addresses(host, port) if above is not None and above.kind == "bridge" else []
        if above is None or not missing:
            continue
        yield link_finding(
            "warning",
            host,
            port,
            f"{len(missing)} address{'es' if len(missing) > 1 else ''} on {above.name} not reachable from its VFs",
            evidence=(
                Evidence(
                    "learned on the bridge",
                    ", ".join(missing[:4]) + (" …" if len(missing) > 4 else ""),
                    "bridge fdb show",
                ),
                Evidence("in the NIC's table", "none of them", f"bridge fdb show dev {port.name} self"),
            ),
            why="Frames from VFs to these addresses leave through the wire and do not return. Traffic with other "
            "machines is not affected.",
            fixes=_fdb_fixes(port, missing),
        )


def _fdb_fixes(port: Link, missing: list[str]) -> tuple[Fix, ...]:
    listed, more = missing[:MAX_FDB_COMMANDS], len(missing) - MAX_FDB_COMMANDS
    add, remove = (
        tuple(command("bridge", "fdb", change, address, "dev", port.name, "self") for address in listed)
        for change in ("add", "del")
    )
    note = f"{more} more are not listed." if more > 0 else "Persistent: run it in a hook at every start of a guest."
    return (
        Fix("here", "Add the addresses to the NIC's table", add, False, remove, note),
        Fix("here", "Use VFs for the bridged guests", ()),
    )


def _unknown_addresses(host: HostFacts, port: Link) -> list[str]:
    """Addresses learned on the other ports of the bridge of `port`, and missing in the table of `port`."""
    known = {one.address for one in host.inventory.forwarding if one.ifindex == port.ifindex and one.self_entry}
    own = {link.address for link in host.links}
    ports = {link.ifindex for link in host.links if link.master == port.master and link.ifindex != port.ifindex}
    learned = {
        one.address
        for one in host.inventory.forwarding
        if one.ifindex in ports and not one.self_entry and not one.permanent
    }
    return sorted(learned - known - own)
