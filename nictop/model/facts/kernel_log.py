"""What the kernel log says about a NIC, one line for each text about each device,
whether a rule reports it or not.

Reads nothing; returns unsanitized text.
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.facts.sections import Fact, Section, section
from nictop.model.kernel_log import Logged, since
from nictop.model.snapshot import Snapshot, is_other_namespace
from nictop.model.text.words import dim_if
from nictop.model.time_axis import short_event_time_text
from nictop.probe.inventory.machine.message_device import device_in
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Inventory, Link, PciFunction

MAX_TEXTS = 8
HARMLESS = frozenset(
    ("renamed", "interrupt_type", "path_switched", "vf_address_set", "pcie_bandwidth")
)
"""Meanings that are no problem by themselves."""


TITLE = "Kernel log: selected messages (UTC)"
OF_MACHINE_TITLE = "Kernel log of the whole machine: selected messages (UTC)"
"""Of a network namespace: the log is one for all."""


class Shown(NamedTuple):
    """A message, and why it may not be about the interface."""

    entry: Logged
    doubt: str = ""


def kernel_log_section(
    link: Link | None, pci: PciFunction | None, snapshot: Snapshot
) -> tuple[Section, ...]:
    """Messages about an interface, or about a function without one; none if there are no
    messages."""
    log = snapshot.kernel_log
    if link is not None:
        entries = [Shown(entry) for entry in log.of_link(link)]
        entries += [Shown(one, log.doubt_text(one, link)) for one in log.perhaps_of_link(link)]
        return section(TITLE, _facts(entries, snapshot, link.created))
    if pci is not None:
        entries = [Shown(entry) for entry in log.of_address(pci.address)]
        return section(TITLE, _facts(entries, snapshot))
    return ()


def other_messages_section(snapshot: Snapshot) -> tuple[Section, ...]:
    """Messages about no NIC of this host: tables, devices that are gone."""
    title = OF_MACHINE_TITLE if is_other_namespace(snapshot) else TITLE
    others = [Shown(entry) for entry in snapshot.kernel_log.others]
    return section(title, _facts(others, snapshot))


def _facts(
    entries: Iterable[Shown], snapshot: Snapshot, created: float | None = None
) -> list[Fact]:
    """The newest message of each text about each device, newest first, with its time and how many
    there are."""
    if snapshot.inventory is None:
        return []
    groups: dict[tuple[str, str, str], list[Logged]] = {}
    for entry, doubt in entries:
        # As the probe groups them, which counts those that it leaves out.
        group_key = (entry.known.text, device_in(entry.text), doubt)
        groups.setdefault(group_key, []).append(entry)
    newest_first = sorted(groups.items(), key=lambda item: -item[1][-1].time)
    found = []
    for (_, _, doubt), group in newest_first[:MAX_TEXTS]:
        found.append(_fact(group, snapshot.inventory, created, doubt))
    return found


def _fact(group: list[Logged], inventory: Inventory, created: float | None, doubt: str) -> Fact:
    newest = group[-1]
    tone = dim_if(newest.known.meaning in HARMLESS or doubt != "")
    text = f"{newest.text}{_number_text(group, created)}"
    if doubt:
        text = f"{doubt}: {text}"
    return Fact(short_event_time_text(inventory, newest.time), text, tone)


def _number_text(group: list[Logged], created: float | None) -> str:
    """`` (4 times, 3 since this interface was created)``: the log has also what was said of an
    earlier netdev of the device. "": one message, about this one."""
    omitted = group[0].message.omitted
    number = len(group) + omitted
    recent = len(since(group, created))
    if number == 1:
        return "" if recent else " (before this interface was created)"
    counted = _counted_text(group, number)
    first = group[0].message.omitted_since
    if first is None:
        first = group[0].time
    if created is None or (recent == len(group) and first >= created):
        return f" ({counted})"
    or_more = " or more" if omitted and recent == len(group) else ""
    return f" ({counted}, {recent}{or_more} since this interface was created)"


def _counted_text(group: list[Logged], number: int) -> str:
    """``4 times``; ``newest of 4 of this kind``: they differ in a number or a name, or may do so,
    as of those that are left out only their number is known."""
    texts = {entry.text for entry in group}
    if len(texts) == 1 and number == len(group):
        return f"{number} times"
    return f"newest of {number} of this kind"
