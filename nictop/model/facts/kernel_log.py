"""What the kernel log says about a NIC, one line for each text, whether a rule reports it or not.

Reads nothing; returns unsanitized text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nictop.model.facts.sections import Fact, Section, section
from nictop.model.kernel_log import Logged
from nictop.model.snapshot import Snapshot
from nictop.model.text.units import whole_seconds
from nictop.model.text.words import dim_if
from nictop.probe.records import Link, PciFunction

MAX_TEXTS = 8
HARMLESS = frozenset(
    ("renamed", "interrupt_type", "path_switched", "vf_address_set", "pcie_bandwidth")
)
"""Meanings that are no problem by themselves."""


def kernel_log_section(
    link: Link | None, pci: PciFunction | None, snapshot: Snapshot
) -> tuple[Section, ...]:
    """Messages about an interface, or about a function without one; none if there are no
    messages."""
    entries: Sequence[Logged] = ()
    if link is not None:
        entries = snapshot.kernel_log.of_link(link)
    elif pci is not None:
        entries = snapshot.kernel_log.of_address(pci.address)
    return section("Kernel log", _facts(entries, snapshot))


def other_messages_section(snapshot: Snapshot) -> tuple[Section, ...]:
    """Messages about no NIC of this host: tables, devices that are gone."""
    return section("Kernel log", _facts(snapshot.kernel_log.others, snapshot))


def _facts(entries: Iterable[Logged], snapshot: Snapshot) -> list[Fact]:
    """The newest message of each text, newest first, with its age and how many there are."""
    groups: dict[str, list[Logged]] = {}
    for entry in entries:
        groups.setdefault(entry.known.text, []).append(entry)
    now = 0.0
    if snapshot.inventory is not None:
        now = snapshot.inventory.time
    newest_first = sorted(groups.values(), key=lambda group: -group[-1].time)
    return [_fact(group, now) for group in newest_first[:MAX_TEXTS]]


def _fact(group: list[Logged], now: float) -> Fact:
    newest = group[-1]
    text = newest.text
    number = len(group) + group[0].message.omitted
    if number > 1:
        text += f" ({number} times)"
    tone = dim_if(newest.known.meaning in HARMLESS)
    return Fact(_age(max(0.0, now - newest.time)), text, tone)


def _age(seconds: float) -> str:
    """In the largest unit only: labels are short."""
    number, unit = whole_seconds(seconds).split(" ")[:2]
    return f"{number} {unit} ago"
