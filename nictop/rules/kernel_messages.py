"""Kernel messages about a device, for rules: which there are, how many, first and last.

Reads nothing; the meanings are those of `nictop.probe.inventory.machine.message_table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS
from nictop.model.kernel_log import Logged, since
from nictop.model.time_axis import event_time_text
from nictop.probe.inventory.machine.kernel_log import MAX_MESSAGES_PER_GROUP
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Inventory, Link, PciFunction
from nictop.rules.finding import Evidence, Severity
from nictop.rules.host import HostFacts

if TYPE_CHECKING:
    from nictop.probe.inventory.machine.message_table import Meaning

RECENT_SECONDS = 24 * 3600.0
"""Older messages are ignored."""
ONGOING_SECONDS = 15 * 60.0
"""Seconds since the last message during which the problem counts as ongoing."""
HOUR_SECONDS = 3600.0
STARVED_SECONDS = 120.0
"""A CPU that was stuck so long before or after a NIC stalled is named as the cause."""
LOG = "/dev/kmsg"
DRIVER_NAME = pattern(r"[a-z0-9_-]{1,32}")
"""Not ``[qede_tx_timeout:594(eth0)]TX``."""
MAX_TEXTS = 3
"""Different messages that are shown of one problem."""
PROBLEMS = frozenset(
    (
        "transmit_stalled",
        "reset",
        "device_gone",
        "firmware_error",
        "hardware_fault",
        "pcie_error",
        "iommu_fault",
        "vf_reset",
    )
)
"""Meanings that explain each other when they are logged about one NIC."""


@dataclass(frozen=True)
class Count:
    """Number of messages."""

    number: int
    or_more: bool
    """Earlier ones are left out, and some of them may belong to the same time."""

    def __str__(self) -> str:
        return f"{self.number} or more" if self.or_more else str(self.number)


@dataclass(frozen=True, eq=False)
class Messages:
    """Messages about one device, oldest first; never empty."""

    entries: tuple[Logged, ...]
    inventory: Inventory
    """In which they were read."""

    @property
    def now(self) -> float:
        """Time of the inventory."""
        return self.inventory.time

    @property
    def newest(self) -> Logged:
        return self.entries[-1]

    @property
    def first_time(self) -> float:
        """Of the first message within the time, those that are left out included."""
        return min(self._begin(entry) for entry in self.entries)

    def _begin(self, entry: Logged) -> float:
        since = entry.message.omitted_since
        if since is None or self.now - since > RECENT_SECONDS:
            return entry.time
        return since

    @property
    def is_ongoing(self) -> bool:
        return self.newest.time >= self.now - ONGOING_SECONDS

    @property
    def severity(self) -> Severity:
        """Critical while it is ongoing, else warning."""
        return "critical" if self.is_ongoing else "warning"

    @property
    def queues(self) -> tuple[int, ...]:
        return tuple(sorted({entry.queue for entry in self.entries if entry.queue is not None}))

    @property
    def drivers(self) -> frozenset[str]:
        """Those that logged the messages, where the messages name them."""
        words = {_first_word(entry) for entry in self.entries}
        return frozenset(filter(DRIVER_NAME.fullmatch, words))

    @property
    def newest_drivers(self) -> frozenset[str]:
        """First words of the messages of the last second."""
        begin = self.newest.time - 1.0
        return frozenset(_first_word(entry) for entry in self.entries if entry.time >= begin)

    def count(self, within: float = RECENT_SECONDS) -> Count:
        """Of the most frequent text: one problem is often logged in several texts."""
        begin = self.now - within
        texts: dict[str, list[Logged]] = {}
        for entry in self.entries:
            if entry.time >= begin:
                texts.setdefault(entry.known.text, []).append(entry)
        counts = [_count(entries, begin) for entries in texts.values()]
        return max(
            counts, key=lambda count: (count.number, count.or_more), default=Count(0, or_more=False)
        )


def _first_word(entry: Logged) -> str:
    return entry.text.partition(" ")[0].rstrip(":")


def has_pci_nics(host: HostFacts) -> bool:
    """There is a PCI network function, which messages of drivers and of the PCI core could be
    about."""
    return bool(host.snapshot.pci)


def _count(entries: list[Logged], begin: float) -> Count:
    """Of messages with one text since `begin`."""
    omitted, since = entries[0].message.omitted, entries[0].message.omitted_since
    if since is not None and since >= begin:
        return Count(len(entries) + omitted, or_more=False)
    # Probes of before only left them out.
    return Count(len(entries), or_more=omitted > 0 or len(entries) >= MAX_MESSAGES_PER_GROUP)


def link_messages(
    host: HostFacts,
    link: Link,
    *meanings: Meaning,
    within: float = RECENT_SECONDS,
    since_created: bool = True,
) -> Messages | None:
    """Messages about a link. `since_created`: only those about the present netdev, not about an
    earlier one of the same device (the driver was loaded again)."""
    log = host.snapshot.kernel_log
    if not log.entries or not log.has(meanings):
        return None
    found = log.of_link(link)
    if since_created:
        found = since(found, link.created)
    return _messages(host, found, meanings, within)


def address_messages(
    host: HostFacts, address: str | None, *meanings: Meaning, within: float = RECENT_SECONDS
) -> Messages | None:
    """Messages about a PCI function, or about the port above one, also those that name only its
    netdev."""
    if not host.snapshot.kernel_log.has(meanings):
        return None
    return _messages(host, host.snapshot.kernel_log.of_address(address), meanings, within)


def host_messages(
    host: HostFacts, *meanings: Meaning, within: float = RECENT_SECONDS
) -> Messages | None:
    """All messages with one of these meanings, whatever device they are about."""
    return _messages(host, host.snapshot.kernel_log.entries, meanings, within)


def links_with_messages(
    host: HostFacts, *meanings: Meaning, within: float = RECENT_SECONDS
) -> Iterator[tuple[Link, Messages]]:
    """Links with messages about their present netdev, by ifindex."""
    if not host.snapshot.kernel_log.has(meanings):
        return
    for link in host.links:
        found = link_messages(host, link, *meanings, within=within)
        if found is not None:
            yield link, found


def functions_with_messages(
    host: HostFacts, *meanings: Meaning, within: float = RECENT_SECONDS
) -> Iterator[tuple[str, Messages]]:
    """PCI addresses with messages, in their order."""
    if not host.snapshot.kernel_log.has(meanings):
        return
    for address in host.snapshot.kernel_log.addresses:
        found = address_messages(host, address, *meanings, within=within)
        if found is not None:
            yield address, found


def used_functions_with_messages(
    host: HostFacts, *meanings: Meaning, within: float = RECENT_SECONDS
) -> Iterator[tuple[PciFunction, Messages]]:
    """PCI functions that are there, and are not given to a guest, with messages."""
    for address, messages in functions_with_messages(host, *meanings, within=within):
        function = host.functions.get(address)
        if function is not None and function.driver not in PASSTHROUGH_DRIVERS:
            yield function, messages


def _messages(
    host: HostFacts, entries: Iterable[Logged], meanings: tuple[Meaning, ...], within: float
) -> Messages | None:
    begin = host.inventory.time - within
    found = tuple(
        entry for entry in entries if entry.known.meaning in meanings and entry.time >= begin
    )
    return Messages(found, host.inventory) if found else None


def message_evidence(messages: Messages) -> tuple[Evidence, ...]:
    """The newest message of each text, the queues, and how many there were."""
    newest = {entry.known.text: entry for entry in messages.entries}
    shown = sorted(newest.values(), key=lambda entry: -entry.time)[:MAX_TEXTS]
    found = [Evidence("kernel message", entry.text, LOG) for entry in shown]
    if messages.queues:
        found.append(Evidence("queue", ", ".join(map(str, messages.queues[:16])), LOG))
    found.append(Evidence("last message", history_text(messages), LOG))
    return tuple(found)


def newest_evidence(messages: Messages | None) -> tuple[Evidence, ...]:
    """The newest message alone; (): there is none."""
    if messages is None:
        return ()
    return (Evidence("kernel message", messages.newest.text, LOG),)


def related_evidence(host: HostFacts, link: Link, messages: Messages) -> tuple[Evidence, ...]:
    """The newest other problem that was logged about the same link; (): none."""
    others = PROBLEMS - {entry.known.meaning for entry in messages.entries}
    begin = messages.now - RECENT_SECONDS
    newest = None
    for entry in host.snapshot.kernel_log.of_link(link):
        if entry.known.meaning in others and entry.time >= begin:
            newest = entry
    if newest is None:
        return ()
    return (Evidence("also logged", newest.text, LOG),)


def history_text(messages: Messages) -> str:
    """``2026-11-21 08:01:40 UTC``, ``2026-11-21 08:01:40 UTC; 5000 messages, the first 2026-11-21
    05:15:43 UTC``"""
    last = newest_time_text(messages)
    first = event_time_text(messages.inventory, messages.first_time)
    count = messages.count()
    if len(messages.entries) == 1 and count.number <= 1:
        return last
    if count.or_more:
        return f"{last}; {count} messages in 24 h"
    if count.number == 1:
        return f"{last}; the first {first}"
    return f"{last}; {count} messages, the first {first}"


def newest_time_text(messages: Messages) -> str:
    return event_time_text(messages.inventory, messages.newest.time)


def message_source(messages: Messages) -> str:
    """``dmesg, 2026-11-21 08:01:40 UTC``: an old message may be about a problem that is solved."""
    return f"dmesg, {newest_time_text(messages)}"
