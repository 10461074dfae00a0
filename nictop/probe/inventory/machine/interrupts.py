"""Interrupts of network devices → `Interrupt`: handlers, allowed CPUs, effective CPU, and whether
they can be moved.

Selected are ``msi_irqs/`` of every PCI network function (for virtio: of the function below which
virtioN is found), its legacy ``irq`` if it has none; for links on other buses (xen event channels,
virtio-mmio, platform) the interrupts whose handler has the name of the device. Reads
/sys/kernel/irq/N/ (actions, chip_name), /proc/irq/N/ (smp_affinity_list and its mode,
effective_affinity_list, node), the kernel release and, on a kernel without /sys/kernel/irq, the
names in /proc/interrupts.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable

from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import (
    SysfsDirectory,
    printable_path,
    read_text,
    unreadable_from_error,
)
from nictop.probe.records import Interrupt, Link, PciFunction, Unreadable

IRQ_NUMBER = pattern(r"[0-9]{1,9}", re.ASCII)
TRIGGER = pattern(r"[0-9]*[- ][A-Za-z]+", re.ASCII)
"""Possible last column of a line without handler: ``2-edge``, ``-event``, ``27 Level``."""
FLOW = pattern(r"-(?:edge|level|fasteoi|percpu|event)$", re.ASCII)
"""Suffix of the chip column on older kernels: ``PCI-MSI-edge``."""
XEN_VECTOR = pattern(r"(?:-q[0-9]{1,5})?(?:-(?:tx|rx|ctrl))?", re.ASCII)
"""Suffix that xen-netfront and xen-netback append to the name of the device."""
BUSES_WITHOUT_NAMED_INTERRUPTS = ("pci", "vmbus", "usb")
"""Buses whose links have no interrupts that are found by name."""
INTERRUPTS_READ_BYTES = 256 * 1024
MAX_INTERRUPTS_BYTES = 64 * 1024 * 1024
"""Of /proc/interrupts: larger than 10,000 lines with 512 CPUs."""

WRITABLE_ONLY_IF_MOVABLE = (6, 12)
"""Linux version from which smp_affinity_list is read-only for an interrupt that user space cannot
move. Commit 92f9d825b12f, "genirq/procfs: Correctly set file permissions for affinity control
files"."""
KERNEL_RELEASE = pattern(r"([0-9]{1,4})\.([0-9]{1,6})", re.ASCII)

Names = dict[int, tuple["str | None", tuple[str, ...]]]
"""IRQ number → (chip, handlers)."""


def read_interrupts(
    links: Iterable[Link], functions: Iterable[PciFunction], sys: str = "/sys", proc: str = "/proc"
) -> tuple[tuple[Interrupt, ...], Unreadable | None]:
    """Interrupts of all network devices by number, and why some may be missing. Never raises
    OSError.

    A vector without handler is listed with empty `actions`. A legacy interrupt is listed for one
    function, and only if the function has a driver and the interrupt a handler: the firmware
    assigns a number to every function.
    """
    links = tuple(links)
    bound = {link.pci_address for link in links if link.pci_address}
    bound.update(function.address for function in functions if function.driver)
    lookup = NameLookup(sys, proc)
    found: dict[int, Interrupt] = {}
    for address in sorted(bound):
        folder = SysfsDirectory(os.path.join(sys, "bus/pci/devices", address))
        vectors = read_vectors(folder, lookup)
        lookup.trouble = folder.unreadable.get("number", lookup.trouble)
        for number in vectors:
            found.setdefault(number, read_interrupt(number, address, lookup, proc))
    named = [link for link in links if has_named_interrupts(link)]
    if named:
        for number, (chip, actions) in lookup.all().items():
            if any(are_handlers_of(actions, chip, link) for link in named):
                found.setdefault(number, read_interrupt(number, None, lookup, proc))
    return tuple(found[number] for number in sorted(found)), lookup.trouble


def read_vectors(folder: SysfsDirectory, lookup: NameLookup) -> list[int]:
    """Numbers of the interrupts of a PCI function: its vectors, else the legacy one that is in
    use."""
    names = folder.names("number", "msi_irqs")
    vectors = [int(name) for name in names if IRQ_NUMBER.fullmatch(name)]
    if vectors:
        return vectors
    legacy = folder.integer("number", "irq")
    if not legacy:
        return []
    _, actions = lookup.of(legacy)
    if not actions:
        return []
    return [legacy]


def has_named_interrupts(link: Link) -> bool:
    """Its interrupts are found by the names of their handlers."""
    if link.bus is None or link.pci_address:
        return False
    return link.bus not in BUSES_WITHOUT_NAMED_INTERRUPTS


def are_handlers_of(actions: Iterable[str], chip: str | None, link: Link) -> bool:
    return any(is_handler_of(action, chip, link) for action in actions)


def read_interrupt(number: int, address: str | None, lookup: NameLookup, proc: str) -> Interrupt:
    """One interrupt; failures are in its `unreadable`."""
    chip, actions = lookup.of(number)
    folder = SysfsDirectory(os.path.join(proc, "irq", str(number)))
    node = folder.integer("numa_node", "node")
    return Interrupt(
        number=number,
        actions=actions,
        pci_address=address,
        chip=chip,
        allowed_cpus=folder.text("allowed_cpus", "smp_affinity_list"),
        effective_cpus=folder.text("effective_cpus", "effective_affinity_list"),
        numa_node=None if node is None or node < 0 else node,
        movable=parse_movable(folder.mode("movable", "smp_affinity_list"), lookup.kernel_release),
        unreadable={**lookup.unreadable.get(number, {}), **folder.unreadable},
    )


def parse_movable(mode: int | None, kernel_release: str | None) -> bool | None:
    """Whether user space may move an interrupt, by the mode of its smp_affinity_list: see
    `Interrupt.movable`.

    A read-only file is conclusive on any kernel, as distributions backport the change; a writable
    one only on a kernel that has it.
    """
    if mode is None:
        return None
    if not mode & stat.S_IWUSR:
        return False
    version = KERNEL_RELEASE.match(kernel_release or "")
    if version is None:
        return None
    if (int(version[1]), int(version[2])) < WRITABLE_ONLY_IF_MOVABLE:
        return None
    return True


def is_handler_of(action: str, chip: str | None, link: Link) -> bool:
    """Whether a handler belongs to a link that is not on PCI: by the name of its device, or by
    xen's names.

    Xen event channels: ``vif0-q0-tx`` (netfront: vif-0), ``vif1.0-q0-rx`` (netback: vif-1-0),
    ``eth0`` (one channel for both directions); only for a chip of xen, because a link may have any
    name.
    """
    if link.bus == "xen":
        names = {link.name}
        if link.device is not None and link.device.startswith("vif-"):
            names.add("vif" + link.device[len("vif-") :].replace("-", "."))
        suffixes = [action[len(name) :] for name in names if action.startswith(name)]
        return (chip or "").startswith("xen") and any(
            XEN_VECTOR.fullmatch(suffix) for suffix in suffixes
        )
    return action in (link.device, link.name) or action.startswith(f"{link.device}-")


class NameLookup:
    """Chip and handlers by IRQ number: from /sys/kernel/irq, else from /proc/interrupts, read once
    when first needed.

    `unreadable`: failures by number and field; `trouble`: why there are no names at all;
    `kernel_release`: of the same machine (/proc/sys/kernel/osrelease).
    """

    def __init__(self, sys: str, proc: str) -> None:
        self._path = os.path.join(sys, "kernel/irq")
        self._file = os.path.join(proc, "interrupts")
        self._in_sysfs = os.path.isdir(self._path)
        release = read_text(os.path.join(proc, "sys/kernel/osrelease"))
        self.kernel_release = release if isinstance(release, str) else None
        self._lines: Names | None = None
        self._known: Names = {}
        self.unreadable: dict[int, dict[str, Unreadable]] = {}
        self.trouble: Unreadable | None = None

    def of(self, number: int) -> tuple[str | None, tuple[str, ...]]:
        """(chip, handlers); (None, ()) for an unknown number."""
        if not self._in_sysfs:
            return self._from_lines().get(number, (None, ()))
        if number not in self._known:
            folder = SysfsDirectory(os.path.join(self._path, str(number)))
            chip, actions = folder.text("chip", "chip_name"), folder.text("actions", "actions")
            self._known[number] = chip, tuple(name for name in (actions or "").split(",") if name)
            self.unreadable[number] = folder.unreadable
        return self._known[number]

    def all(self) -> Names:
        """All interrupts of the machine."""
        if not self._in_sysfs:
            return self._from_lines()
        folder = SysfsDirectory(self._path)
        numbers = [int(name) for name in folder.names("actions") if IRQ_NUMBER.fullmatch(name)]
        self.trouble = folder.unreadable.get("actions", self.trouble)
        return {number: self.of(number) for number in numbers}

    def _from_lines(self) -> Names:
        if self._lines is None:
            self._lines = {}
            try:
                self._lines = parse_names(read_seq_file(self._file).decode("utf-8", "replace"))
            except FileNotFoundError:
                pass  # no procfs, or an architecture without interrupts
            except OSError as error:
                self.trouble = unreadable_from_error(error, printable_path(self._file))
        return self._lines


def read_seq_file(path: str) -> bytes:
    """Contents of a seq_file, which returns about one page per read. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    parts = []
    size = 0
    try:
        while size < MAX_INTERRUPTS_BYTES:
            part = os.read(descriptor, INTERRUPTS_READ_BYTES)
            if not part:
                break
            parts.append(part)
            size += len(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def parse_names(text: str) -> Names:
    """Chip and handlers from the numbered lines of /proc/interrupts.

    The counts are followed by chip, hardware number, flow and handlers, in columns separated by two
    or more spaces; the handlers are separated by ``, ``. x86: ``PCI-MSIX-0000:02:00.0   1-edge
    ens224-TxRx-0``; on older kernels ``PCI-MSI 1048577-edge``; xen ``xen-dyn    -event
    vif0-q0-tx``; arm ``ITS-MSI 524288 Edge      eth0``.
    """
    found: Names = {}
    header, _, lines = text.partition("\n")
    cpu_count = sum(word.startswith("CPU") for word in header.split())
    for line in lines.split("\n"):
        label, _, columns = line.partition(":")
        if not IRQ_NUMBER.fullmatch(label.strip(" ")):
            continue
        fields = columns.split(None, cpu_count)
        parts = re.split(r"\s{2,}", fields[cpu_count].strip()) if len(fields) > cpu_count else [""]
        has_actions = len(parts) > 1 and not TRIGGER.fullmatch(parts[-1])
        actions = tuple(filter(None, parts[-1].split(", "))) if has_actions else ()
        found[int(label)] = FLOW.sub("", parts[0].partition(" ")[0]) or None, actions
    return found
