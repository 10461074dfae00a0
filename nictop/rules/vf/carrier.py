"""Virtual functions without a link: their port is down, or keeps them switched off.

Reads nothing; rules about both sides of a virtual function. Each is told once: at its guest when that is watched, with
what to type at the port, else at the port.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from nictop.model.devices.virtual_functions import is_virtual_function
from nictop.probe.records import Link, VirtualFunction
from nictop.rules.finding import Evidence, Finding, Fix, WhereToType
from nictop.rules.fixes.commands import ManualStep, command, joined
from nictop.rules.fixes.hypervisors import has_linux_hypervisor, hypervisor_places
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import link_finding
from nictop.rules.vf.facts import Pair, is_port_of_netvsc, is_up, pairs, set_vf_fix

FAMILY: Final = "VF attributes and path"
MAX_FIXES = 4


@pair_rule(FAMILY, "critical", needs=("pci.enabled",), uses=("pci.driver", "pci.sriov"))
def port_of_virtual_functions_is_down(hosts: Sequence[HostFacts]) -> Outcomes:
    """The port of a physical function is down or has no link, and with it every virtual function that follows it.

    nictop sees the physical function's netdev without carrier, or switched off, while virtual functions in use have the
    link state "auto" (IFLA_VF_LINK_STATE). Of some NICs even traffic between two virtual functions stops then.

    Silent when nobody uses a virtual function, when all in use are told to stay up ("enable"), and when each of their
    guests is watched and says so itself.

    Known from k8snetworkplumbingwg/sriov-cni#102, systemd.network(5) LinkState=, VMware's vSphere 6.7 Networking.
    """
    for host, port, functions in _held(hosts):
        numbers = [one.number for one in functions if _follows(port, one)]
        if not numbers:
            continue
        shown = ", ".join(f"VF {number}" for number in numbers[:16])
        yield link_finding(
            "critical",
            host,
            port,
            f"{'has no link' if is_up(port) else 'is switched off'}, and its virtual functions with it",
            evidence=(
                Evidence("port", "no carrier" if is_up(port) else "switched off", f"ip link show {port.name}"),
                Evidence("follow it", shown, f"ip link show {port.name}"),
            ),
            why="A virtual function whose link state is auto shows its guest no carrier while the port has none. Told "
            "to stay up, virtual functions of one port can still reach each other on most NICs.",
            fixes=(_port_fix("here", port), *(_enable_fix("here", port, number) for number in numbers[:MAX_FIXES])),
        )


@pair_rule(FAMILY, "critical", needs=("pci.enabled",), uses=("pci.driver", "pci.sriov"))
def vf_link_is_disabled(hosts: Sequence[HostFacts]) -> Outcomes:
    """A virtual function that is in use has been switched off by its physical function.

    nictop reads the link state "disable" (IFLA_VF_LINK_STATE) of a virtual function that a guest has open, or whose
    netdev here is up. The guest sees a link without carrier and cannot change it.

    Silent about virtual functions that nobody uses, and about those whose guest is watched and says so itself.

    Known from k8snetworkplumbingwg/sriov-network-operator#45, ip-link(8) vf state.
    """
    for host, port, functions in _held(hosts):
        numbers = [one.number for one in functions if one.link_state == "disable"]
        if not numbers:
            continue
        shown = ", ".join(f"VF {number}" for number in numbers[:MAX_FIXES])
        yield link_finding(
            "critical",
            host,
            port,
            f"keeps {shown} switched off, and somebody uses it",
            evidence=(Evidence("link state", f"disable: {shown}", f"ip link show {port.name}"),),
            why="Its guest has an interface without carrier: nothing is sent or received, whatever the guest does.",
            fixes=tuple(_follow_port_fix("here", port, number) for number in numbers[:MAX_FIXES]),
        )


def _held(hosts: Sequence[HostFacts]) -> Iterator[tuple[HostFacts, Link, list[VirtualFunction]]]:
    """Ports and their virtual functions in use, without those whose guest is another watched host that sees it."""
    reported = {
        (one.physical.name, one.port.ifindex, one.function.number)
        for one in pairs(hosts)
        if one.guest is not one.physical and _lacks_carrier(one.link)
    }
    for host in hosts:
        found: dict[int, list[VirtualFunction]] = {}
        for port, function in host.used_virtual_functions:
            if (host.name, port.ifindex, function.number) not in reported:
                found.setdefault(port.ifindex, []).append(function)
        for ifindex, functions in found.items():
            yield host, host.snapshot.links[ifindex], functions


def _lacks_carrier(link: Link) -> bool:
    return is_up(link) and link.carrier is False


def _follows(port: Link, function: VirtualFunction) -> bool:
    """The port is down, and this virtual function with it."""
    return (_lacks_carrier(port) or not is_up(port)) and function.link_state in ("auto", None)


def _port_fix(place: WhereToType, port: Link) -> Fix:
    if is_up(port):
        return Fix(place, "restore its link", (), None, (), "Cable, transceiver, and the port of the switch.")
    change = command("ip", "link", "set", port.name, "up")
    return Fix(place, "switch it on", (change,), False, (command("ip", "link", "set", port.name, "down"),))


def _enable_fix(place: WhereToType, port: Link, number: int) -> Fix:
    title = f"keep VF {number} up without it"
    return set_vf_fix(place, title, port, number, "state", "enable", undo=("state", "auto"))


def _follow_port_fix(place: WhereToType, port: Link, number: int) -> Fix:
    title = f"let VF {number} follow its port"
    return set_vf_fix(place, title, port, number, "state", "auto", undo=("state", "disable"))


@pair_rule(FAMILY, "critical", needs=("ethtool.driver",), uses=("platform.hypervisor",))
def vf_has_no_carrier(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest's virtual function is up and has no link: its port on the hypervisor is down, or keeps it switched off.

    nictop sees the netdev of a virtual function without carrier. The guest cannot repair that: link state and port
    belong to the physical function. When that is watched, too, nictop names the cause.

    Silent about virtual functions on the host of their physical function whose port is down (the port's finding tells),
    below Hyper-V's netvsc (their link comes and goes with the host's servicing), and about links that are switched off.

    Known from k8snetworkplumbingwg/sriov-cni#102, the kernel's iavf.rst, VMware's vSphere Networking ("SR-IOV").
    """
    known = {(one.guest.name, one.link.ifindex): one for one in pairs(hosts)}
    for host in hosts:
        for link in host.links:
            if (
                not _lacks_carrier(link)
                or not is_virtual_function(link, host.functions)
                or is_port_of_netvsc(host, link)
            ):
                continue
            pair = known.get((host.name, link.ifindex))
            if host.is_guest if pair is None else pair.guest is not pair.physical or _cause(pair) is None:
                yield _without_carrier(host, link, pair)


def _without_carrier(host: HostFacts, link: Link, pair: Pair | None) -> Finding:
    evidence = [Evidence("carrier", "no", f"/sys/class/net/{link.name}/carrier")]
    title = "has no link: the port below this virtual function is down or off"
    fixes = _hypervisor_fixes(host, link) if pair is None else ()
    if pair is not None:
        cause, fixes = _cause(pair) or ("its port has one and does not hold it down", (_toggle(link),))
        title = f"has no link: {cause}"
        text = f"{'up' if pair.port.carrier else 'down'}, link state of the VF: {pair.function.link_state}"
        evidence.append(Evidence("port", text, f"ip link show {pair.port.name}: {pair.port_text}"))
    return link_finding(
        "critical",
        host,
        link,
        title,
        evidence=tuple(evidence),
        why="A virtual function shows the link of its port, or what the host has told it to show.",
        fixes=fixes,
    )


def _cause(pair: Pair) -> tuple[str, tuple[Fix, ...]] | None:
    """Why it has none, and what to type at the port; None: the port lets it have one."""
    port, number = pair.port, pair.function.number
    if pair.function.link_state == "disable":
        return f"{port.name} keeps its VF {number} switched off", (_follow_port_fix(pair.place, port, number),)
    if not _follows(port, pair.function):
        return None
    text = f"its port {port.name} {'has none' if is_up(port) else 'is switched off'}"
    return text, (_port_fix(pair.place, port), _enable_fix(pair.place, port, number))


def _toggle(link: Link) -> Fix:
    commands = tuple(command("ip", "link", "set", link.name, state) for state in ("down", "up"))
    return Fix("here", "switch the link off and on", commands, None, (), "Ends connections over it.")


def _hypervisor_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    fixes = []
    for place in hypervisor_places(host.inventory.platform):
        if place == "esxi":
            note = (
                "The uplink of the port group must be up, and the adapter connected. ESXi itself has no statistics of "
                "an SR-IOV NIC."
            )
            fixes.append(
                Fix("esxi", "look at the uplinks", (command("esxcli", "network", "nic", "list"),), None, (), note)
            )
        elif place == "hyperv":
            fixes.append(Fix("hyperv", "look at the physical NICs", (ManualStep(("Get-NetAdapter", "-Physical")),)))
    if has_linux_hypervisor(host.inventory.platform):
        address = link.permanent_address or link.address
        find = joined("|", command("ip", "link", "show"), command("grep", "-B", "20", "-i", address or "<MAC>"))
        to_auto = command("ip", "link", "set", "<PF>", "vf", "<N>", "state", "auto")
        commands = (find, command("ip", "link", "set", "<PF>", "up"), to_auto)
        fixes.append(Fix("hypervisor", "find its port, switch both on", commands, False, (), "As root."))
    return tuple(fixes)
