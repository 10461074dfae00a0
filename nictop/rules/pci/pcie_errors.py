"""Errors of the PCIe link of a NIC (Advanced Error Reporting), and accesses that the IOMMU blocked.

Reads nothing; `PciFunction.errors` of the function and of the port above it, and kernel messages
about both. PCI Express Base Specification, 6.2 (error signalling); kernel
Documentation/PCI/pcieaer-howto.rst.
"""

from __future__ import annotations

import re

from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS
from nictop.model.text import units
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import PcieErrors, PciFunction
from nictop.rules.finding import Evidence, Fix, Severity, WhereToType
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.power_saving import aspm_evidence, aspm_fixes
from nictop.rules.host import HostFacts
from nictop.rules.kernel_messages import (
    HOUR_SECONDS,
    Messages,
    functions_with_messages,
    has_pci_nics,
    message_evidence,
)
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding
from nictop.rules.vf.facts import PCI_DEVICES

MANY_PER_HOUR = 10.0
"""Corrected errors; single ones are normal."""
MIN_TOTAL = 100
"""Corrected errors since boot below which their rate is not computed."""
CORRECTED = pattern(r"(?<!un)(?<!non-)correct(?:ed|able)\b", re.IGNORECASE)
"""In the severity that a message names. All other messages are about errors that were not
corrected: "can't recover", "Device recovery failed", "PCI I/O error detected"."""
HARMLESS_KINDS = frozenset(("UnsupReq",))
"""Uncorrected, but the answer to a probing access, for instance when the kernel looks for
devices."""
NONFATAL = "(Non-Fatal)"
"""In the severity that a message names; drivers/pci/pcie/aer.c, aer_error_severity_string."""
SIGNAL_KINDS = frozenset(("RxErr", "BadTLP", "BadDLLP", "Receiver Error", "Bad TLP", "Bad DLLP"))
"""Damaged on the way."""
MAX_KINDS = 4
BLOCKED_INTERRUPT = "Blocked an interrupt request"
"""drivers/iommu/intel/dmar.c, irq_remap_fault_reasons."""


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of one function and of the port above it."""

    function: PciFunction
    with_port: bool
    """The port above is that of no earlier function."""
    corrected: Messages | None
    uncorrected: Messages | None
    """Logged in the last 24 hours."""

    @property
    def counted(self) -> tuple[tuple[str, PcieErrors], ...]:
        """(PCI address, counters) of both ends, where any is above 0."""
        found = []
        own, of_port = self.function.errors, self.function.parent_errors
        if own is not None and _any(own):
            found.append((self.function.address, own))
        if self.with_port and of_port is not None and _any(of_port):
            found.append((self.function.parent or "", of_port))
        return tuple(found)

    @property
    def exist(self) -> bool:
        """Some were logged or counted."""
        if self.corrected is not None or self.uncorrected is not None:
            return True
        return bool(self.counted)

    @property
    def has_uncorrected(self) -> bool:
        """Some were logged or counted that may have lost data."""
        if self.uncorrected is not None and not _are_harmless(self):
            return True
        return any(_uncorrected_total(counters) for _, counters in self.counted)

    @property
    def texts(self) -> list[str]:
        """All that was logged."""
        found = []
        for messages in (self.corrected, self.uncorrected):
            if messages is not None:
                found += [entry.text for entry in messages.entries]
        return found


def _any(errors: PcieErrors) -> bool:
    return bool(errors.correctable or errors.nonfatal or errors.fatal)


@host_rule(
    "critical",
    uses=("messages", "pci.errors", "pci.parent_errors"),
    messages_if=has_pci_nics,
)
def pcie_link_has_errors(host: HostFacts) -> Outcomes:
    """The PCIe link of a NIC has errors: between the NIC and the port above it, data may be damaged
    or lost.

    nictop reads aer_dev_correctable, aer_dev_nonfatal and aer_dev_fatal of the function and of the
    port above it, and the kernel messages about both (AER, all wordings since 2.6). Uncorrected
    errors: critical; warning if the log shows none in the last 24 hours, or only some that are not
    fatal while no counter tells their kind. Corrected ones: warning from ten per hour (in the log
    in the last hour, or since boot), else info if they were logged in the last 24 hours.

    Not reported: unsupported requests (UnsupReq), which occur when the kernel looks for devices,
    and few corrected errors that were not logged.

    Sources: kernel drivers/pci/pcie/aer.c,
    Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats; endlessm/linux#548, ellyq/coreboot#4.
    """
    for errors in _errors(host):
        severity = _severity(host, errors)
        if severity is None:
            continue
        function = errors.function
        yield host_finding(
            severity,
            host,
            function.address,
            _title(errors, severity),
            evidence=(
                *_counter_evidence(host, errors),
                *_log_evidence(errors),
                *aspm_evidence(function),
            ),
            why=_why(errors),
            fixes=_fixes(host, function),
        )


def _errors(host: HostFacts) -> list[Errors]:
    """Errors of each NIC; those of a port above several functions are counted for the first."""
    corrected, uncorrected = _logged_errors(host)
    found: list[Errors] = []
    seen: set[str] = set()
    is_logged = bool(corrected or uncorrected)
    for function in host.snapshot.pci:
        if function.physical_function is not None:
            continue
        is_counted = function.errors is not None or function.parent_errors is not None
        if not is_counted and not is_logged:
            continue
        ends = [function.address]
        with_port = function.parent is not None and function.parent not in seen
        if function.parent is not None and with_port:
            ends.append(function.parent)
            seen.add(function.parent)
        errors = Errors(function, with_port, _first(corrected, ends), _first(uncorrected, ends))
        if errors.exist:
            found.append(errors)
    return found


def _logged_errors(host: HostFacts) -> tuple[dict[str, Messages], dict[str, Messages]]:
    """PCI address → messages about corrected errors, and about others."""
    corrected: dict[str, Messages] = {}
    uncorrected: dict[str, Messages] = {}
    for address, messages in functions_with_messages(host, "pcie_error"):
        for entry in messages.entries:
            target = uncorrected if _is_uncorrected(entry.text) else corrected
            known = target.get(address)
            entries = (entry,) if known is None else (*known.entries, entry)
            target[address] = Messages(entries, messages.inventory)
    return corrected, uncorrected


def _first(messages: dict[str, Messages], addresses: list[str]) -> Messages | None:
    """Messages about the end of the link that logged most: one error is often logged by both."""
    found = [messages[address] for address in addresses if address in messages]
    return max(found, key=lambda logged: logged.count().number, default=None)


def _is_uncorrected(text: str) -> bool:
    return CORRECTED.search(text) is None


def _severity(host: HostFacts, errors: Errors) -> Severity | None:
    if errors.uncorrected is not None and not _are_harmless(errors):
        return "warning" if _may_be_harmless(errors) else "critical"
    if errors.has_uncorrected:
        return "critical" if host.inventory.messages is None else "warning"
    if _corrected_per_hour(host, errors) >= MANY_PER_HOUR:
        return "warning"
    if errors.corrected is None:
        return None
    in_the_last_hour = errors.corrected.count(HOUR_SECONDS).number
    return "warning" if in_the_last_hour >= MANY_PER_HOUR else "info"


def _are_harmless(errors: Errors) -> bool:
    """All uncorrected errors that were counted are of a harmless kind; those in the log are among
    them."""
    kinds: set[str] = set()
    for _, counters in errors.counted:
        kinds |= {*counters.nonfatal_kinds, *counters.fatal_kinds}
    return bool(kinds) and kinds <= HARMLESS_KINDS


def _may_be_harmless(errors: Errors) -> bool:
    """No counter tells the kind of the errors, and all that was logged of them is that they are not
    fatal."""
    function = errors.function
    if function.errors is not None or function.parent_errors is not None:
        return False
    if errors.uncorrected is None:
        return False
    return all(NONFATAL in entry.text for entry in errors.uncorrected.entries)


def _uncorrected_total(errors: PcieErrors) -> int:
    """Errors by which data was lost; 0 if all of them are of a harmless kind."""
    kinds = {*errors.nonfatal_kinds, *errors.fatal_kinds}
    if kinds and kinds <= HARMLESS_KINDS:
        return 0
    return errors.nonfatal + errors.fatal


def _corrected_per_hour(host: HostFacts, errors: Errors) -> float:
    """Mean since boot of the end with more errors; 0: too few for a mean."""
    return max((_mean_per_hour(host, counters) for _, counters in errors.counted), default=0.0)


def _mean_per_hour(host: HostFacts, counters: PcieErrors) -> float:
    """Of the corrected errors since boot; 0: too few for a mean."""
    if counters.correctable < MIN_TOTAL:
        return 0.0
    return counters.correctable / max(1.0, host.inventory.time / HOUR_SECONDS)


def _title(errors: Errors, severity: Severity) -> str:
    if errors.has_uncorrected:
        return "uncorrected PCIe errors"
    return "corrected PCIe errors" if severity == "info" else "many corrected PCIe errors"


def _counter_evidence(host: HostFacts, errors: Errors) -> list[Evidence]:
    found = []
    for address, counters in errors.counted:
        end = "NIC" if address == errors.function.address else "port above"
        text = f"{_totals_text(counters)}{_kinds_text(counters)}"
        hourly = _mean_per_hour(host, counters)
        if hourly:
            number = units.count(round(hourly)) if hourly >= 1 else "less than one"
            text += f", {number} corrected per hour since boot"
        found.append(Evidence(f"errors ({end})", text, f"{PCI_DEVICES}/{address}/aer_dev_*"))
    return found


def _totals_text(counters: PcieErrors) -> str:
    """``12 corrected, 1 fatal``"""
    totals = {
        "corrected": counters.correctable,
        "non-fatal": counters.nonfatal,
        "fatal": counters.fatal,
    }
    return ", ".join(f"{units.count(number)} {name}" for name, number in totals.items() if number)


def _kinds_text(counters: PcieErrors) -> str:
    """`` (RxErr, BadTLP)``: the most frequent first."""
    kinds = {**counters.correctable_kinds, **counters.nonfatal_kinds, **counters.fatal_kinds}
    if not kinds:
        return ""
    most = sorted(kinds, key=lambda kind: -kinds[kind])
    return f" ({', '.join(most[:MAX_KINDS])})"


def _log_evidence(errors: Errors) -> tuple[Evidence, ...]:
    messages = errors.uncorrected or errors.corrected
    if messages is None:
        return ()
    return message_evidence(messages)


def _why(errors: Errors) -> str:
    if not errors.has_uncorrected and _is_signal_damaged(errors):
        effect = "The link repeats what was damaged, which costs bandwidth."
    elif not errors.has_uncorrected:
        effect = "The hardware has corrected them: nothing was lost."
    elif _may_be_harmless(errors):
        effect = (
            "Not fatal; their kind is not known. Unsupported requests are harmless, by others data "
            "is lost."
        )
    else:
        effect = (
            "What was sent over the PCIe link may be lost. Some drivers reset the NIC then; the "
            "device may be lost."
        )
    if not _is_signal_damaged(errors):
        return effect
    return f"{effect} The signal is damaged: contact, riser, slot, or a link that sleeps (ASPM)."


def _is_signal_damaged(errors: Errors) -> bool:
    for _, counters in errors.counted:
        if not SIGNAL_KINDS.isdisjoint(counters.correctable_kinds):
            return True
    for text in errors.texts:
        if "Physical Layer" in text or "Data Link Layer" in text:
            return True
    return False


def _fixes(host: HostFacts, function: PciFunction) -> tuple[Fix, ...]:
    link = next(iter(host.links_of_function.get(function.address, ())), None)
    where: WhereToType = "hypervisor" if host.is_guest else "firmware"
    note = "The slot is in the host." if host.is_guest else "Power off first. Then update the BIOS."
    show = command("lspci", "-vvv", "-s", function.address)
    return (
        Fix(where, "Reseat the card, try another slot or riser", (), True, note=note),
        *aspm_fixes(link, function),
        Fix("here", "Show the state of the link and its errors", (show,)),
    )


# -------------------------------------------------------------------------------------------- IOMMU


@host_rule("warning", uses=("messages", "pci"), messages_if=has_pci_nics)
def iommu_blocks_the_nic(host: HostFacts) -> Outcomes:
    """The IOMMU blocked accesses of a NIC to memory: its driver, or the guest that has it, gave it
    a wrong address.

    nictop reads the faults that the IOMMU drivers log ("DMAR: … fault addr", "AMD-Vi: Event logged
    … IO_PAGE_FAULT", "arm-smmu … fault") with the PCI address of a network function, of the last 24
    hours.

    Sources: kernel drivers/iommu/intel/dmar.c (dmar_fault_do_one), drivers/iommu/amd/iommu.c
    (iommu_print_event).
    """
    for address, messages in functions_with_messages(host, "iommu_fault"):
        function = host.functions.get(address)
        if function is None:
            continue
        title = "IOMMU blocks its accesses to memory (DMA faults)"
        lost = "What the NIC read or wrote is"
        are_interrupts = all(BLOCKED_INTERRUPT in entry.text for entry in messages.entries)
        if are_interrupts:
            title = "IOMMU blocks its interrupts"
            lost = "Interrupts of the NIC are"
        yield host_finding(
            "warning",
            host,
            address,
            title,
            evidence=message_evidence(messages),
            why=f"{lost} lost: stalled queues, resets, damaged packets. Possible causes: a fault "
            "of the driver or firmware, firmware that uses memory not declared in ACPI (RMRR), or "
            "a guest that was killed.",
            fixes=_iommu_fixes(host, function, are_interrupts=are_interrupts),
        )


def _iommu_fixes(
    host: HostFacts, function: PciFunction, *, are_interrupts: bool
) -> tuple[Fix, ...]:
    is_for_a_guest = function.driver in PASSTHROUGH_DRIVERS
    note = f"Driver: {function.driver or 'none'}."
    update = Fix("here", "Update kernel and driver", (), note=note)
    if is_for_a_guest:
        note = "Its driver is in the guest, or in the program that has the device open."
        update = Fix("here", "Update the driver of its user, and the kernel", (), note=note)
    fixes = [update, Fix("firmware", "Update the BIOS and the firmware of the NIC", ())]
    # interrupts are remapped nevertheless, and vfio has a domain of its own for each guest
    if not are_interrupts and not is_for_a_guest:
        fixes.append(_as_a_test_fix(host))
    return tuple(fixes)


def _as_a_test_fix(host: HostFacts) -> Fix:
    """admin-guide/kernel-parameters.txt: iommu= is for x86, iommu.passthrough= for Arm and x86."""
    hello = host.snapshot.hello
    is_x86 = hello is not None and hello.machine == "x86_64"
    parameter = "iommu=pt" if is_x86 else "iommu.passthrough=1"
    note = "The kernel then maps all memory for devices of the host; it hides a fault of a driver."
    return Fix("here", f"As a test, boot with {parameter}", (), note=note)
