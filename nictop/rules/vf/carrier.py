"""VFs without a carrier: their PF is down, or has disabled them.

Reads nothing; rules about both sides of a VF. Each VF is reported once: for its guest if that is
watched, with the commands for the PF, else for the PF.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.virtual_functions import is_virtual_function
from nictop.probe.records import Link, VirtualFunction
from nictop.rules.finding import Evidence, Finding, Fix, WhereToType, on_peer
from nictop.rules.fixes.commands import ManualStep, command, joined, with_undo
from nictop.rules.fixes.hypervisors import fixes_of_places, has_linux_hypervisor
from nictop.rules.host import HostFacts, lasting_address
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import is_up, link_finding
from nictop.rules.vf.facts import Pair, is_port_of_netvsc, pairs, set_vf_fix, vf_name

MAX_FIXES = 4


@pair_rule("critical", needs=("pci.enabled",), uses=("pci.driver", "pci.sriov"))
def port_of_virtual_functions_is_down(hosts: Sequence[HostFacts]) -> Outcomes:
    """A PF is down or has no carrier, and VFs in use follow its link state.

    nictop finds the PF's netdev without carrier, or administratively down, while VFs in use have
    the link state "auto" (IFLA_VF_LINK_STATE). With some NICs, traffic between two VFs stops as
    well.

    Not reported: no VF is in use, all VFs in use have the link state "enable", or each of their
    guests is watched and the finding is reported there.

    Sources: k8snetworkplumbingwg/sriov-cni#102, systemd.network(5) LinkState=, VMware's vSphere 6.7
    Networking.
    """
    for host, port, functions in _unreported_functions(hosts):
        numbers = [function.number for function in functions if _follows(port, function)]
        if not numbers:
            continue
        with_carrier = _nics_with_carrier(hosts, host, port, numbers)
        without = [number for number in numbers if number not in with_carrier]
        shown = ", ".join(vf_name(host, port, number) for number in numbers[:16])
        state = "no carrier" if is_up(port) else "administratively down"
        source = f"ip link show {port.name}"
        yield link_finding(
            "critical",
            host,
            port,
            f"{state}: what its VFs send does not leave the host",
            evidence=(
                Evidence("PF", state, source),
                Evidence("VFs with link state auto", shown, source),
                *map(_carrier_evidence, with_carrier.values()),
            ),
            why="With most NICs a VF with link state auto has no carrier while its PF has none. "
            "With link state enable, VFs of one PF can still reach each other on most NICs.",
            fixes=(
                _port_fix("here", port),
                *(_enable_fix("here", port, number) for number in without[:MAX_FIXES]),
            ),
        )


@pair_rule("critical", needs=("pci.enabled",), uses=("pci.driver", "pci.sriov"))
def vf_link_is_disabled(hosts: Sequence[HostFacts]) -> Outcomes:
    """A VF that is in use has been disabled on its PF.

    nictop reads the link state "disable" (IFLA_VF_LINK_STATE) of a VF that a guest has open, or
    whose netdev on this host is up. The guest has a link without carrier and cannot change it.

    Not reported: unused VFs, and VFs whose guest is watched and has the finding.

    Sources: k8snetworkplumbingwg/sriov-network-operator#45, ip-link(8) vf state.
    """
    for host, port, functions in _unreported_functions(hosts):
        disabled = [vf.number for vf in functions if vf.link_state == "disable"][:MAX_FIXES]
        if not disabled:
            continue
        shown = ", ".join(vf_name(host, port, number) for number in disabled)
        yield link_finding(
            "critical",
            host,
            port,
            f"{shown} in use, but disabled by link state",
            evidence=(Evidence("link state", f"disable: {shown}", f"ip link show {port.name}"),),
            why="The guest has an interface without carrier: it sends and receives nothing, and "
            "cannot change that.",
            fixes=tuple(_follow_port_fix("here", port, number) for number in disabled),
        )


def _unreported_functions(
    hosts: Sequence[HostFacts],
) -> Iterator[tuple[HostFacts, Link, list[VirtualFunction]]]:
    """PFs and their VFs in use, without those whose guest is another watched host and reports the
    missing carrier."""
    reported = set()
    for pair in pairs(hosts):
        if pair.guest is not pair.physical and _lacks_carrier(pair.link):
            reported.add((pair.physical.name, pair.port.ifindex, pair.function.number))
    for host in hosts:
        found: dict[int, list[VirtualFunction]] = {}
        for port, function in host.used_virtual_functions:
            if (host.name, port.ifindex, function.number) not in reported:
                found.setdefault(port.ifindex, []).append(function)
        for ifindex, functions in found.items():
            yield host, host.snapshot.links[ifindex], functions


def _nics_with_carrier(
    hosts: Sequence[HostFacts], host: HostFacts, port: Link, numbers: Sequence[int]
) -> dict[int, Link]:
    """Number of a VF → its NIC, of those that are known to have a carrier nevertheless: emulated
    NICs do not take it away."""
    found = {}
    for pair in pairs(hosts):
        is_of_port = pair.physical is host and pair.port.ifindex == port.ifindex
        if is_of_port and pair.function.number in numbers and pair.link.carrier:
            found[pair.function.number] = pair.link
    return found


def _carrier_evidence(link: Link) -> Evidence:
    return Evidence("VF with a carrier", link.name, f"ip link show {link.name}")


def _lacks_carrier(link: Link) -> bool:
    return is_up(link) and link.carrier is False


def _follows(port: Link, function: VirtualFunction) -> bool:
    """The PF is down or has no carrier, and the link state of this VF is auto."""
    if is_up(port) and port.carrier is not False:
        return False
    return function.link_state in ("auto", None)


def _port_fix(place: WhereToType, port: Link) -> Fix:
    if is_up(port):
        note = "Check cable, transceiver and switch port."
        return Fix(place, "Restore the carrier", (), None, (), note)
    up, down = with_undo(("ip", "link", "set", "dev", port.name), "up", "down")
    return Fix(place, "Bring the PF up", (up,), False, (down,))


def _enable_fix(place: WhereToType, port: Link, number: int) -> Fix:
    title = f"Set link state enable for VF {number}"
    return set_vf_fix(place, title, port, number, "state", "enable", undo=("state", "auto"))


def _follow_port_fix(place: WhereToType, port: Link, number: int) -> Fix:
    title = f"Set link state auto for VF {number}"
    return set_vf_fix(place, title, port, number, "state", "auto", undo=("state", "disable"))


@pair_rule(
    "critical",
    yields_to=(
        "driver_has_detached_the_nic",
        "vf_was_made_while_its_port_was_down",
        "vf_is_reset_repeatedly",
    ),
    needs=("ethtool.driver",),
    uses=("platform.hypervisor",),
)
def vf_has_no_carrier(hosts: Sequence[HostFacts]) -> Outcomes:
    """The VF of a guest is up but has no carrier: its PF on the hypervisor is down, or has disabled
    the VF.

    nictop reads the carrier of the VF's netdev. The guest cannot repair this: link state and port
    are controlled by the PF. If the PF is watched as well, nictop names the cause.

    Not reported: VFs on the host of their PF when the PF is down (reported for the PF), VFs below
    Hyper-V's netvsc (their link goes down while the host is serviced), and links that are down.

    Sources: k8snetworkplumbingwg/sriov-cni#102, kernel iavf.rst, VMware's vSphere Networking
    ("SR-IOV").
    """
    known = {(pair.guest.name, pair.link.ifindex): pair for pair in pairs(hosts)}
    for host in hosts:
        for link in host.links:
            if not _lacks_carrier(link) or is_port_of_netvsc(host, link):
                continue
            if not is_virtual_function(link, host.functions):
                continue
            pair = known.get((host.name, link.ifindex))
            if not _is_named_for_the_port(host, pair):
                yield _without_carrier(host, link, pair)


def _is_named_for_the_port(host: HostFacts, pair: Pair | None) -> bool:
    """A finding about the PF on this host names it, or no guest has the VF yet."""
    if pair is None:
        return not host.is_guest
    return pair.guest is pair.physical and _cause(pair) is not None


def _without_carrier(host: HostFacts, link: Link, pair: Pair | None) -> Finding:
    evidence = [Evidence("carrier", "no", f"/sys/class/net/{link.name}/carrier")]
    if pair is None:
        title = "no carrier: PF on the hypervisor is down or disables the VF"
        fixes = _hypervisor_fixes(host, link)
    else:
        not_caused = f"not caused by its PF {pair.port.name}", (_toggle(link),)
        cause, fixes = _cause(pair) or not_caused
        title = f"no carrier: {cause}"
        carrier = "on" if pair.port.carrier else "off"
        text = f"carrier {carrier}, link state of the VF: {pair.function.link_state}"
        evidence.append(Evidence("PF", text, f"ip link show {pair.port.name}: {pair.port_text}"))
    return link_finding(
        "critical",
        host,
        link,
        title,
        evidence=tuple(evidence),
        why="A VF has the carrier of its PF, or the link state that is set for it on the PF.",
        fixes=fixes,
    )


def _cause(pair: Pair) -> tuple[str, tuple[Fix, ...]] | None:
    """Why it has no carrier, and the fixes for the PF; None: the PF is not the cause."""
    port, number = pair.port, pair.function.number
    if pair.function.link_state == "disable":
        fix = _follow_port_fix(pair.place, port, number)
        name = vf_name(pair.physical, port, number)
        return f"{name} is disabled on PF {port.name}", on_peer(pair.physical.name, (fix,))
    if not _follows(port, pair.function):
        return None
    state = "has no carrier" if is_up(port) else "is administratively down"
    fixes = _port_fix(pair.place, port), _enable_fix(pair.place, port, number)
    return f"PF {port.name} {state}", on_peer(pair.physical.name, fixes)


def _toggle(link: Link) -> Fix:
    commands = tuple(
        command("ip", "link", "set", "dev", link.name, state) for state in ("down", "up")
    )
    return Fix(
        "here", "Set the link down and up", commands, None, (), "Interrupts connections over it."
    )


def _hypervisor_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    if not has_linux_hypervisor(host.inventory.platform):
        return fixes_of_places(host.inventory.platform, PHYSICAL_NIC_FIXES)
    address = lasting_address(link) or "<MAC>"
    grep = command("grep", "-B", "20", "-i", address)
    find = joined("|", command("ip", "link", "show"), grep)
    up = command("ip", "link", "set", "<PF>", "up")
    to_auto = command("ip", "link", "set", "<PF>", "vf", "<N>", "state", "auto")
    title = "Find the PF, bring PF and VF up"
    linux = Fix("hypervisor", title, (find, up, to_auto), False, (), "Requires root.")
    return fixes_of_places(host.inventory.platform, PHYSICAL_NIC_FIXES, (linux,))


PHYSICAL_NIC_FIXES: dict[WhereToType, Fix] = {
    "esxi": Fix(
        "esxi",
        "Check the uplinks",
        (command("esxcli", "network", "nic", "list"),),
        None,
        (),
        "The uplink of the port group must be up, and the adapter connected. ESXi has no "
        "statistics of SR-IOV NICs.",
    ),
    "hyperv": Fix(
        "hyperv", "Check the physical NICs", (ManualStep(("Get-NetAdapter", "-Physical")),)
    ),
}
