"""The captured guest of tests/data as records: its links, its interrupts, and its counters from
ethtool."""

from __future__ import annotations

import re
from pathlib import Path

from nictop.probe.records import Counters, Interrupt, Inventory
from tests.support.captured import captured_lines

INTERRUPTS = Path(__file__).parent.parent / "data" / "proc" / "interrupts"


def captured_interrupts() -> tuple[tuple[Interrupt, ...], dict[int, dict[int, int]]]:
    """The interrupts of network functions in the captured /proc/interrupts, and their counts per
    CPU."""
    header, *lines = INTERRUPTS.read_text().splitlines()
    cpus = [int(name.removeprefix("CPU")) for name in header.split()]
    found, counts = [], {}
    for line in lines:
        match = re.fullmatch(
            r"\s*(\d+):((?:\s+\d+){4})\s+PCI-MSIX-(0000:0[123]:\S+)\s+\d+-edge\s+(\S+)", line
        )
        if match is not None:
            number = int(match[1])
            found.append(Interrupt(number, (match[4],), match[3], allowed_cpus="0-3"))
            counts[number] = {
                cpu: count
                for cpu, count in zip(cpus, map(int, match[2].split()), strict=True)
                if count
            }
    return tuple(found), counts


def captured_inventory() -> Inventory:
    """As the probe read it on that guest, without the interrupts."""
    return next(
        line.inventory
        for line in captured_lines("igb-vfs-vmxnet3-virtio")
        if line.inventory is not None
    )


def captured_counters() -> Counters:
    return next(
        line.counters
        for line in captured_lines("igb-vfs-vmxnet3-virtio")
        if line.counters is not None
    )


def ethtool_names(root: Path, name: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Counter names and values of ``ethtool -S``, with their indentation: it prints five blanks
    before each."""
    lines = (root / f"cmd/ethtool/{name}-S").read_text().splitlines()[1:]
    pairs = [line[5:].rsplit(": ", 1) for line in lines]
    return tuple(pair[0] for pair in pairs), tuple(int(pair[1]) for pair in pairs)
