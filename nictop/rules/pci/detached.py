"""NICs that their driver has detached, because the device no longer responds.

Reads nothing; kernel messages with the meaning device_gone, and what the kernel answers to ethtool.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nictop.model.facts.hardware import pci_name
from nictop.probe.records import Link, PciFunction
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import echo
from nictop.rules.fixes.power_saving import aspm_evidence, aspm_fixes
from nictop.rules.host import HostFacts
from nictop.rules.kernel_messages import (
    RECENT_SECONDS,
    Messages,
    has_pci_nics,
    link_messages,
    message_evidence,
    used_functions_with_messages,
)
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding, is_up, link_finding
from nictop.rules.vf.facts import PCI_DEVICES

if TYPE_CHECKING:
    pass

READER_NOTE = (
    "The message may name the process that happened to read statistics at that moment, which can "
    "be nictop: the reader "
    "finds the dead device, it does not cause it."
)


@host_rule(
    "critical",
    needs=("pci.driver",),
    uses=("ethtool", "messages", "pci"),
    messages_if=has_pci_nics,
)
def driver_has_detached_the_nic(host: HostFacts) -> Outcomes:
    """A NIC does not respond to its driver, or its driver has detached it: nothing works until it
    is reset.

    nictop reads messages such as "PCIe link lost, device now detached" and "Adapter removed" about
    the function, and, without any message, that the kernel answers every ethtool request for the
    NIC with ENODEV although its interface and its PCI function exist: the interface stays in the
    list, its counters stand still. Usual causes: a PCIe link that did not wake up (ASPM), power, a
    bad slot; in a guest, a reset of the NIC by its host.

    Not reported: the interface was created after the last message (the device was removed and found
    again), or it has a carrier, or it answers and the last message is older than 24 hours.

    Sources: kernel intel/igc/igc_main.c (igc_rd32), net/core/dev.c (netif_device_present),
    net/ethtool/ioctl.c; lkml 2026-02-11 on I225 and I226; mellanox/mlx5/core/health.c.
    """
    seen: set[str] = set()
    for link, messages in _detached_links(host):
        seen.add(link.pci_address or "")
        yield _detached(host, link, messages)
    for function, messages in used_functions_with_messages(host, "device_gone"):
        address = function.address
        if address in seen or host.links_of_function.get(address):
            continue
        yield host_finding(
            messages.severity,
            host,
            address,
            f"does not respond: {pci_name(function)}",
            evidence=(*message_evidence(messages), *aspm_evidence(function)),
            why="The driver gave up: the device did not answer on the PCIe bus.",
            fixes=_recover_fixes(host, None, function),
        )


def _detached_links(host: HostFacts) -> Iterator[tuple[Link, Messages | None]]:
    """With what was logged; None: nothing, but the device does not respond."""
    for link in host.links:
        if link.pci_address is None or link.kind is not None:
            continue
        if _answers_nothing(host, link):
            yield link, link_messages(host, link, "device_gone", within=math.inf)
        elif link.carrier is not True:  # else it works again, in spite of older messages
            messages = link_messages(host, link, "device_gone", within=RECENT_SECONDS)
            if messages is not None:
                yield link, messages


def _answers_nothing(host: HostFacts, link: Link) -> bool:
    """The kernel refuses every ethtool request with ENODEV, as after netif_device_detach(), while
    the device exists."""
    if link.ethtool.driver is not None or link.ethtool.settings is not None:
        return False
    reasons = {why.reason for why in link.ethtool.unreadable.values()}
    if reasons != {"vanished"} or not is_up(link):
        return False
    return link.pci_address in host.functions


def _detached(host: HostFacts, link: Link, messages: Messages | None) -> Finding:
    function = host.function_of(link)
    answers = Evidence("ethtool", "no such device, for every request", f"ethtool {link.name}")
    evidence = (answers,) if messages is None else message_evidence(messages)
    return link_finding(
        "critical",
        host,
        link,
        _title(host, link, messages),
        evidence=(*evidence, *aspm_evidence(function)),
        why=_why(messages),
        fixes=_recover_fixes(host, link, function),
    )


def _title(host: HostFacts, link: Link, messages: Messages | None) -> str:
    """What the kernel answers now, and what the driver has logged."""
    if messages is None:
        return "detached by its driver"
    if _answers_nothing(host, link):
        return "detached by its driver: the device does not respond"
    return "the device did not respond to its driver"


def _why(messages: Messages | None) -> str:
    if messages is None:
        return (
            "Nothing of this NIC works while it is detached; cable and switch are not the cause. "
            "Drivers do it when the device does not respond, and for the time of a reset."
        )
    return (
        "Nothing of this NIC works until it is reset; cable and switch are not the cause. "
        f"Counters stand still. {READER_NOTE}"
    )


def _recover_fixes(
    host: HostFacts, link: Link | None, function: PciFunction | None
) -> tuple[Fix, ...]:
    address = ""
    if function is not None:
        address = function.address
    elif link is not None:
        address = link.pci_address or ""
    note = (
        "From the console. The interface disappears and comes back; if it does not, power the "
        "machine off and on."
    )
    if function is not None and function.sriov is not None and function.sriov.num_vfs:
        note += " Its VFs are removed, too, and must be made again."
    again = Fix(
        "here",
        "Remove the device and find it again",
        (echo(1, f"{PCI_DEVICES}/{address}/remove"), echo(1, "/sys/bus/pci/rescan")),
        persistent=False,
        note=note,
    )
    fixes = [again, *aspm_fixes(link, function)]
    if host.is_guest:
        note = (
            "If that does not help, shut the guest down and start it: the hypervisor then "
            "resets the device."
        )
        title = "Check the host's log about this device"
        fixes.append(Fix("hypervisor", title, (), note=note))
    return tuple(fixes)
