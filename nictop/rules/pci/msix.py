"""NICs without MSI-X: one interrupt, one queue, or no link at all.

Reads nothing; `Interrupt.chip` and kernel messages of drivers.
"""

from __future__ import annotations

import math

from nictop.model.queues.counts import receive_queues
from nictop.probe.records import Interrupt, Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.kernel_messages import Messages, has_pci_nics, link_messages, message_evidence
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding

DRIVERS_WITH_MSIX = frozenset(
    (
        *("igb", "igbvf", "igc", "ixgbe", "ixgbevf", "i40e", "iavf", "i40evf", "ice"),
        *(
            "mlx4_core",
            "mlx4_en",
            "mlx5_core",
            "bnxt_en",
            "qede",
            "sfc",
            "ena",
            "gve",
            "mana",
            "virtio_net",
            "vmxnet3",
        ),
    )
)
"""Drivers that use MSI-X wherever the device offers it; e1000e, tg3, r8169 and atlantic work with
MSI."""
LEGACY_CHIPS = ("IO-APIC", "XT-PIC", "IR-IO-APIC")
"""chip_name of interrupts that are not messages; arch/x86/kernel/apic/io_apic.c, i8259.c."""
XEN_CHIP = "xen-pirq"
"""drivers/xen/events/events_base.c: legacy interrupts and messages have the same name; one for the
whole function is not what these drivers ask for."""


@host_rule(
    "critical",
    needs=("interrupts",),
    uses=("interrupts.chip", "messages", "ethtool.driver"),
    messages_if=has_pci_nics,
)
def nic_has_no_msix(host: HostFacts) -> Outcomes:
    """A NIC has no MSI-X interrupts: most drivers fall back to one queue, and some NICs then have
    no link.

    nictop reads the interrupt controller of the NIC's interrupts (IO-APIC or XT-PIC instead of
    PCI-MSIX) where the driver uses MSI-X if it can, and the driver's messages ("Failed to allocate
    MSI-X interrupts"). In a guest, the hypervisor does not pass MSI-X on. Critical if the NIC has
    no carrier, else warning.

    Not reported: the interrupts are messages and the NIC has several queues now, in spite of a
    message at boot; NICs with a carrier whose drivers work with MSI or with one queue anyway
    (e1000e, tg3, r8169).

    Sources: QubesOS/qubes-issues#4799, #3217 and #7474; kernel intel/ixgbe/ixgbe_lib.c
    (ixgbe_set_interrupt_capability).
    """
    for link in host.links:
        wants_msix = link_driver(link) in DRIVERS_WITH_MSIX
        has_carrier = link.carrier is True
        if not wants_msix and has_carrier:
            continue
        interrupts = host.interrupts_of(link)
        legacy = _legacy_interrupt(interrupts) if wants_msix else None
        messages = link_messages(host, link, "no_msix", within=math.inf)
        if legacy is None and (messages is None or _has_recovered(link, interrupts)):
            continue
        where = "in this guest" if host.is_guest else "on this host"
        # virtio_net leaves them to one interrupt (vp_find_vqs_intx)
        has_queues = receive_queues(link) > 1
        left = "one interrupt for all queues" if has_queues else "one queue"
        yield link_finding(
            "warning" if has_carrier else "critical",
            host,
            link,
            f"no MSI-X interrupts {where}: {left}",
            evidence=_evidence(link, legacy, messages),
            why=WHY_SHARED if has_queues else WHY_ONE_QUEUE,
            fixes=_fixes(host, link),
        )


WHY_SHARED = "Without MSI-X all queues share one interrupt, and the CPU that handles it."
WHY_ONE_QUEUE = (
    "Without MSI-X one interrupt and one CPU serve the NIC: most drivers then use one queue, "
    "without RSS and SR-IOV, and the link of some NICs does not come up."
)


def _evidence(
    link: Link, legacy: Interrupt | None, messages: Messages | None
) -> tuple[Evidence, ...]:
    evidence: list[Evidence] = []
    if messages is not None:
        evidence += message_evidence(messages)
    if legacy is not None:
        interrupt = f"{legacy.number}: {legacy.chip}"
        evidence.append(Evidence("interrupt", interrupt, "/proc/interrupts"))
    queues = str(receive_queues(link) or "not known")
    return *evidence, Evidence("receive queues", queues, f"ethtool -l {link.name}")


def _legacy_interrupt(interrupts: tuple[Interrupt, ...]) -> Interrupt | None:
    """The only interrupt of a NIC, if it is not a message."""
    if len(interrupts) != 1:
        return None
    only = interrupts[0]
    chip = only.chip or ""
    return only if chip in LEGACY_CHIPS or chip.startswith(XEN_CHIP) else None


def _has_recovered(link: Link, interrupts: tuple[Interrupt, ...]) -> bool:
    """Several vectors, or several queues."""
    return len(interrupts) > 1 or receive_queues(link) > 1


def _fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    fixes = []
    if host.inventory.platform.hypervisor == "xen" and link_driver(link) not in DRIVERS_WITH_MSIX:
        note = (
            "On the kernel command line of this guest, then reboot: its drivers then use "
            "interrupt lines."
        )
        fixes.append(Fix("here", "Boot this guest with pci=nomsi", (), True, note=note))
    if _forbids_messages(host):
        title = "Remove pci=nomsi from the kernel command line"
        note = "Then reboot. It forbids message interrupts for all devices."
        fixes.append(Fix("here", title, (), True, note=note))
    if host.is_guest:
        note = (
            "MSI-X needs the hypervisor's support: on Xen a full QEMU device model (not a stub "
            "domain with permissive mode off); in QEMU vfio-pci passes on what the device has, "
            "and a virtual NIC needs vectors= above 0."
        )
        fixes.append(Fix("hypervisor", "Pass MSI-X on to the guest", (), True, note=note))
    else:
        fixes.append(Fix("firmware", "Update the BIOS, check its setting of MSI", (), True))
    return tuple(fixes)


def _forbids_messages(host: HostFacts) -> bool:
    """The kernel was started with pci=nomsi."""
    for word in host.kernel_parameters:
        if word == "nomsi" or (word.startswith("pci=") and "nomsi" in word):
            return True
    return False
