"""Settings of VFs that are left of guests which do not run.

Reads nothing.
"""

from __future__ import annotations

from nictop.probe.records import Link, VirtualFunction
from nictop.rules.finding import Evidence, Fix
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding
from nictop.rules.vf.facts import is_used, set_vf_fix, vf_name

MAX_FIXES = 4


@host_rule("info", uses=("guests", "pci.enabled", "pci.sriov"))
def vf_settings_of_a_stopped_guest_remain(host: HostFacts) -> Outcomes:
    """A VF that only a stopped guest names is still trusted, or still has a rate limit.

    nictop looks for VFs that are not in use, belong to no guest that runs, and are in the
    configuration of a stopped guest (libvirt, Proxmox), with trust on or a rate limit. libvirt sets
    and resets MAC address and VLAN of a VF, not these; who gets the VF next has them.

    Not reported: VFs in use, and settings of VFs that no guest names.

    Sources: ip-link(8), vf trust and max_tx_rate; libvirt formatdomain, interface type hostdev.
    """
    for port in host.links:
        left = [one for one in port.virtual_functions if _is_left(host, port, one)]
        if not left:
            continue
        names = ", ".join(vf_name(host, port, one.number) for one in left[:MAX_FIXES])
        if len(left) > MAX_FIXES:
            names += f" and {len(left) - MAX_FIXES} more"
        yield link_finding(
            "info",
            host,
            port,
            f"settings of a stopped guest remain: {names}",
            evidence=tuple(_evidence(host, port, one) for one in left[:MAX_FIXES]),
            why="The next user of the VF has them: a trusted VF may change its address and see "
            "all multicast, one with a limit sends no faster.",
            fixes=tuple(_fix(port, one) for one in left[:MAX_FIXES]),
        )


def _is_left(host: HostFacts, port: Link, function: VirtualFunction) -> bool:
    owner = host.snapshot.owners.of_vf(port, function)
    if owner is None or not owner.is_stopped or is_used(host, port, function.number):
        return False
    return function.trust is True or bool(function.max_tx_rate)


def _evidence(host: HostFacts, port: Link, function: VirtualFunction) -> Evidence:
    settings = ["trust on"] if function.trust is True else []
    if function.max_tx_rate:
        settings.append(f"max_tx_rate {function.max_tx_rate} Mb/s")
    name = vf_name(host, port, function.number)
    return Evidence(name, ", ".join(settings), f"ip link show {port.name}")


def _fix(port: Link, function: VirtualFunction) -> Fix:
    change: list[str] = []
    undo: list[str] = []
    if function.max_tx_rate:
        change += ["max_tx_rate", "0"]
        undo += ["max_tx_rate", str(function.max_tx_rate)]
    if function.trust is True:
        change += ["trust", "off"]
        undo += ["trust", "on"]
    title = f"Reset VF {function.number}"
    return set_vf_fix("here", title, port, function.number, *change, undo=undo)
