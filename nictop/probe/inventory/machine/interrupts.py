"""The interrupts of network devices: their handlers, the CPUs they may go to, and the one they really go to.

Which ones: ``msi_irqs/`` of every PCI network function (for virtio of the function below which virtioN was found), its
legacy ``irq`` where it has none; for links off PCI (xen event channels, virtio-mmio, platform) those whose handler
carries the name of the device. Reads /sys/kernel/irq/N/ (actions, chip_name), /proc/irq/N/ (smp_affinity_list,
effective_affinity_list, node) and, on a kernel without /sys/kernel/irq, the names in /proc/interrupts. Yields
`Interrupt` records.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import Folder, printable, why_unreadable
from nictop.probe.records import Interrupt, Link, PciFunction, Unreadable

NUMBER = pattern(r"[0-9]{1,9}", re.ASCII)
TRIGGER = pattern(r"[0-9]*[- ][A-Za-z]+", re.ASCII)
"""What may stand last when a line has no handler: ``2-edge``, ``-event``, ``27 Level``."""
FLOW = pattern(r"-(?:edge|level|fasteoi|percpu|event)$", re.ASCII)
"""Part of the chip's column on older kernels: ``PCI-MSI-edge``."""
XEN_VECTOR = pattern(r"(?:-q[0-9]{1,5})?(?:-(?:tx|rx|ctrl))?", re.ASCII)
"""What xen-netfront and xen-netback append to the name of the device."""
OWN_WAY = ("pci", "vmbus", "usb")
"""Buses whose links have no interrupt of their own besides what is found otherwise."""
READ = 256 * 1024
LARGEST = 64 * 1024 * 1024
"""Bytes of /proc/interrupts: 512 CPUs × 10,000 lines stay below it."""

Names = dict[int, tuple["str | None", tuple[str, ...]]]
"""IRQ number → (chip, handlers)."""


def read_interrupts(
    links: Iterable[Link], functions: Iterable[PciFunction], sys: str = "/sys", proc: str = "/proc"
) -> tuple[tuple[Interrupt, ...], Unreadable | None]:
    """Interrupts of all network devices by number, and why some may be missing. Never raises OSError.

    A vector that no handler has taken is listed with empty `actions`. A legacy line is listed under one function, and
    only when the function has a driver and the line a handler: firmware writes a number into every function.
    """
    links = tuple(links)
    bound = {link.pci_address for link in links if link.pci_address}
    bound.update(function.address for function in functions if function.driver)
    lookup = NameLookup(sys, proc)
    found: dict[int, Interrupt] = {}
    for address in sorted(bound):
        folder = Folder(os.path.join(sys, "bus/pci/devices", address))
        vectors = [int(name) for name in folder.names("number", "msi_irqs") if NUMBER.fullmatch(name)]
        if not vectors:
            legacy = folder.integer("number", "irq")
            vectors = [legacy] if legacy and lookup.of(legacy)[1] else []
        lookup.trouble = folder.unreadable.get("number", lookup.trouble)
        for number in vectors:
            found.setdefault(number, read_interrupt(number, address, lookup, proc))
    named = [link for link in links if link.bus is not None and link.bus not in OWN_WAY and not link.pci_address]
    if named:
        for number, (chip, actions) in lookup.all().items():
            if any(carries_name(action, chip, link) for action in actions for link in named):
                found.setdefault(number, read_interrupt(number, None, lookup, proc))
    return tuple(found[number] for number in sorted(found)), lookup.trouble


def read_interrupt(number: int, address: str | None, lookup: NameLookup, proc: str) -> Interrupt:
    """One interrupt; what could not be read is named in its `unreadable`."""
    chip, actions = lookup.of(number)
    folder = Folder(os.path.join(proc, "irq", str(number)))
    node = folder.integer("numa_node", "node")
    return Interrupt(
        number=number,
        actions=actions,
        pci_address=address,
        chip=chip,
        allowed_cpus=folder.text("allowed_cpus", "smp_affinity_list"),
        effective_cpus=folder.text("effective_cpus", "effective_affinity_list"),
        numa_node=None if node is None or node < 0 else node,
        unreadable={**lookup.unreadable.get(number, {}), **folder.unreadable},
    )


def carries_name(action: str, chip: str | None, link: Link) -> bool:
    """The handler belongs to a link off PCI: registered under the name of its device, or xen's names for its queues.

    Xen event channels: ``vif0-q0-tx`` (netfront: vif-0), ``vif1.0-q0-rx`` (netback: vif-1-0), ``eth0`` (one channel for
    both directions); only where the chip is xen's, for a link may have any name.
    """
    if link.bus == "xen":
        names = {link.name}
        if link.device is not None and link.device.startswith("vif-"):
            names.add("vif" + link.device[len("vif-") :].replace("-", "."))
        suffixes = [action[len(name) :] for name in names if action.startswith(name)]
        return (chip or "").startswith("xen") and any(XEN_VECTOR.fullmatch(suffix) for suffix in suffixes)
    return action in (link.device, link.name) or action.startswith(f"{link.device}-")


class NameLookup:
    """Chip and handlers by IRQ number: from /sys/kernel/irq, else from /proc/interrupts, read once when first needed.

    `unreadable` says by number and field what failed, `trouble` why there are no names at all.
    """

    def __init__(self, sys: str, proc: str) -> None:
        self._path = os.path.join(sys, "kernel/irq")
        self._file = os.path.join(proc, "interrupts")
        self._in_sysfs = os.path.isdir(self._path)
        self._lines: Names | None = None
        self._known: Names = {}
        self.unreadable: dict[int, dict[str, Unreadable]] = {}
        self.trouble: Unreadable | None = None

    def of(self, number: int) -> tuple[str | None, tuple[str, ...]]:
        """(chip, handlers); (None, ()) for a number that nobody knows."""
        if not self._in_sysfs:
            return self._from_lines().get(number, (None, ()))
        if number not in self._known:
            folder = Folder(os.path.join(self._path, str(number)))
            chip, actions = folder.text("chip", "chip_name"), folder.text("actions", "actions")
            self._known[number] = chip, tuple(name for name in (actions or "").split(",") if name)
            self.unreadable[number] = folder.unreadable
        return self._known[number]

    def all(self) -> Names:
        """Every interrupt of the machine."""
        if not self._in_sysfs:
            return self._from_lines()
        folder = Folder(self._path)
        numbers = [int(name) for name in folder.names("actions") if NUMBER.fullmatch(name)]
        self.trouble = folder.unreadable.get("actions", self.trouble)
        return {number: self.of(number) for number in numbers}

    def _from_lines(self) -> Names:
        if self._lines is None:
            self._lines = {}
            try:
                self._lines = parse_names(read_whole(self._file).decode("utf-8", "replace"))
            except FileNotFoundError:
                pass  # no procfs, or an architecture without interrupts
            except OSError as error:
                self.trouble = why_unreadable(error, printable(self._file))
        return self._lines


def read_whole(path: str) -> bytes:
    """A seq_file to its end: each read returns about one page of it. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    parts = []
    size = 0
    try:
        while size < LARGEST:
            part = os.read(descriptor, READ)
            if not part:
                break
            parts.append(part)
            size += len(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def parse_names(text: str) -> Names:
    """Chip and handlers from /proc/interrupts: numbered lines only.

    After the counts stand chip, hardware number, flow and handlers, in columns at least two blanks apart; handlers are
    separated by ``, ``. x86: ``PCI-MSIX-0000:02:00.0   1-edge      ens224-TxRx-0``; on older kernels ``PCI-MSI
    1048577-edge``; xen ``xen-dyn    -event     vif0-q0-tx``; arm ``ITS-MSI 524288 Edge      eth0``.
    """
    found: Names = {}
    header, _, lines = text.partition("\n")
    processors = sum(word.startswith("CPU") for word in header.split())
    for line in lines.split("\n"):
        label, _, columns = line.partition(":")
        if not NUMBER.fullmatch(label.strip(" ")):
            continue
        fields = columns.split(None, processors)
        parts = re.split(r"\s{2,}", fields[processors].strip()) if len(fields) > processors else [""]
        has_actions = len(parts) > 1 and not TRIGGER.fullmatch(parts[-1])
        actions = tuple(filter(None, parts[-1].split(", "))) if has_actions else ()
        found[int(label)] = FLOW.sub("", parts[0].partition(" ")[0]) or None, actions
    return found
