"""Virtual functions on the host of their physical function: addresses, representors, the embedded switch.

Reads nothing; rules about `VirtualFunction`, `Link` and `ForwardingEntry`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

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
"""phys_port_name of a virtual function's representor, net/devlink/port.c."""
LEGACY_SWITCHES = frozenset(("igb", "ixgbe", "i40e", "ice"))
"""Drivers whose embedded switch delivers to the physical function only what is for addresses it has been told."""
TAKING_DRIVERS = ("ixgbe", "i40e", "ice")
"""Drivers of physical functions that let an untrusted virtual function take the very address that they have set."""
MAX_FDB_COMMANDS = 16
"""Commands that are printed at most."""


@host_rule(FAMILY, "warning", uses=("pci.sriov",))
def vf_keeps_its_old_address(host: HostFacts) -> Outcomes:
    """A virtual function on this host bears another MAC address than its physical function now has for it.

    nictop compares the address in IFLA_VFINFO_LIST with that of the virtual function's netdev. The address was set
    after the VF's driver had been loaded, which goes on with the old one: unicast for it is not delivered any more.

    Silent while the netdev is down, is a port of a bond, bridge or netvsc (which give it an address of their own), or
    no address has been set.

    Known from drivers/net/ethernet/intel/igb/igb_main.c (igb_ndo_set_vf_mac: "Reload the VF driver to make this change
    effective"; igb_set_vf_mac_addr refuses any address to a virtual function that is not trusted, ip-link(8) says
    "Cannot assign requested address"), ixgbe_sriov.c and i40e_virtchnl_pf.c, which let it take the one that was set.
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
                "still has the MAC address from before its port gave it another",
                evidence=(
                    Evidence("address here", link.address or "", f"ip link show {link.name}"),
                    Evidence(f"address of VF {function.number}", function.address, f"ip link show {port.name}"),
                ),
                why="The NIC delivers frames for the address that the physical function has set; those for the old one "
                "do not arrive.",
                fixes=tuple(_address_fixes(host, port, function, link)),
            )


def _address_fixes(host: HostFacts, port: Link, function: VirtualFunction, link: Link) -> Iterator[Fix]:
    change, back = (
        command("ip", "link", "set", "dev", link.name, "address", address or "")
        for address in (function.address, link.address)
    )
    trust = [
        command("ip", "link", "set", port.name, "vf", str(function.number), "trust", value) for value in ("on", "off")
    ]
    driver = link_driver(port)
    rebind = tuple(_rebind(host, link))
    if driver == "igb" and function.trust is not True:
        note = "igb refuses the address to an untrusted VF. Trust may be switched off again afterwards."
        if function.trust is not None:
            title = "trust the VF, and take the address over"
            yield Fix("here", title, (trust[0], change), False, (back, trust[1]), note)
        yield from rebind
    elif driver in TAKING_DRIVERS or driver == "igb" or not rebind:
        yield Fix("here", "take the address over", (change,), False, (back,))
        yield from rebind
    else:
        yield from rebind
        yield Fix("here", "or take the address over", (change,), False, (back,), "Some drivers refuse it.")
    old = link.address or ""
    title = "or let the port have the old one"
    yield set_vf_fix("here", title, port, function.number, "mac", old, undo=("mac", function.address or ""))


def _rebind(host: HostFacts, link: Link) -> Iterator[Fix]:
    """The driver asks for the address anew when it is bound."""
    function = host.functions.get(link.pci_address or "")
    if function is None or function.driver is None:
        return
    folder = f"/sys/bus/pci/drivers/{function.driver}"
    lines = tuple(echo(function.address, f"{folder}/{change}") for change in ("unbind", "bind"))
    note = "The link goes and comes back; addresses that no manager of networks sets are lost."
    yield Fix("here", "bind its driver anew, which takes the address that its port has set", lines, False, (), note)


@host_rule(FAMILY, "warning", needs=("pci.enabled",), uses=("pci.driver", "pci.sriov"))
def representor_is_down(host: HostFacts) -> Outcomes:
    """In switchdev mode the port that stands for a virtual function (its representor) is switched off.

    nictop knows representors by phys_port_name (pf0vf3) and phys_switch_id, and finds one administratively down while
    its virtual function is in use. Without it no frame of that virtual function reaches the switch.

    Silent about representors of virtual functions that nobody uses.

    Known from the kernel's representors.rst and switchdev.rst, k8snetworkplumbingwg/sriov-network-operator#1017.
    """
    for link in host.links:
        match = REPRESENTOR.fullmatch(link.physical_port or "") if link.switch_id else None
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
            f"is down, and VF {number} reaches nothing without it",
            evidence=(
                Evidence(
                    "stands for", f"VF {number}, {function.address}", f"/sys/class/net/{link.name}/phys_port_name"
                ),
                Evidence("state", "down", f"ip link show {link.name}"),
            ),
            why="In switchdev mode every frame of a virtual function passes its representor, until rules for it are in "
            "the hardware.",
            fixes=(
                Fix(
                    "here",
                    "switch it on",
                    (command("ip", "link", "set", link.name, "up"),),
                    False,
                    (command("ip", "link", "set", link.name, "down"),),
                    "It also has to be a port of a bridge or of Open vSwitch, or to have tc rules.",
                ),
            ),
        )


@host_rule(FAMILY, "warning", needs=("pci.enabled",), uses=("ethtool.driver", "forwarding", "pci.driver", "pci.sriov"))
def embedded_switch_misses_bridged_guests(host: HostFacts) -> Outcomes:
    """Guests on a bridge over a port cannot be reached from guests on virtual functions of the same port.

    The switch inside the NIC sends a frame from a virtual function to the physical function only when it knows that the
    address is there; all others leave by the wire. nictop compares the addresses that the bridge has learnt on its
    other ports with those that the NIC was told (``bridge fdb show``, entries "self").

    Only for igb, ixgbe, i40e and ice in legacy mode, with a virtual function in use, and where the bridge's own table
    and the NIC's were read.

    Known from canonical/hotsos#365 (most cards do not forward from a VF to a promiscuous PF), DPDK/grout#653, the
    kernel's net_failover.rst (``bridge fdb add`` around a migration), bridge(8).
    """
    if not host.inventory.forwarding:
        return
    busy = {port.ifindex for port, _ in host.used_virtual_functions}
    for port in host.links:
        if (
            port.ifindex not in busy
            or port.master is None
            or port.switch_id
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
            f"hides {len(missing)} address{'es' if len(missing) > 1 else ''} behind {above.name} from its VFs",
            evidence=(
                Evidence(
                    "on the bridge", ", ".join(missing[:4]) + (" …" if len(missing) > 4 else ""), "bridge fdb show"
                ),
                Evidence("known to the NIC", "none of them", f"bridge fdb show dev {port.name} self"),
            ),
            why="A virtual function's frames for these addresses go out to the wire and never come back; guests that "
            "only talk to other machines notice nothing.",
            fixes=_fdb_fixes(port, missing),
        )


def _fdb_fixes(port: Link, missing: list[str]) -> tuple[Fix, ...]:
    listed, more = missing[:MAX_FDB_COMMANDS], len(missing) - MAX_FDB_COMMANDS
    add, remove = (
        tuple(command("bridge", "fdb", change, address, "dev", port.name, "self") for address in listed)
        for change in ("add", "del")
    )
    note = f"{more} more are not listed." if more > 0 else "A hook that runs when a guest starts keeps it so."
    return (
        Fix("here", "tell the NIC these addresses", add, False, remove, note),
        Fix("here", "or give the bridged guests virtual functions of their own", ()),
    )


def _unknown_addresses(host: HostFacts, port: Link) -> list[str]:
    """Addresses learnt on the other ports of the bridge that `port` belongs to, and that are not in its own table."""
    known = {one.address for one in host.inventory.forwarding if one.ifindex == port.ifindex and one.self_entry}
    own = {link.address for link in host.links}
    ports = {link.ifindex for link in host.links if link.master == port.master and link.ifindex != port.ifindex}
    learnt = {
        one.address
        for one in host.inventory.forwarding
        if one.ifindex in ports and not one.self_entry and not one.permanent
    }
    return sorted(learnt - known - own)
