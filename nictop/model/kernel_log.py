"""What the kernel log of a host says about its devices: each message with its meaning, by device.

A PCI address, or another name on a bus, decides before the name of an interface: the name is that
at the time of the message, and interfaces are renamed (net/core/dev.c, "renamed from"). A message
that has only the name of a link without a device may be about an earlier one of that name; and, as
the log is one for all network namespaces, about one of another namespace. Reads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from nictop.model.devices.links import ethtool_driver
from nictop.probe.inventory.machine.message_device import addresses_in, parse_device
from nictop.probe.inventory.machine.message_table import Known, find_known
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import KernelMessage, Link, PciFunction

if TYPE_CHECKING:
    from nictop.probe.inventory.machine.message_table import Meaning

RENAMED = pattern(r"(\S{1,64}): renamed from (\S{1,64})")
"""New name, old name."""
QUEUE = pattern(r"(?:[Qq]ueue|\b[Qq]|\bqid|\bchannel)[,:]?(?: <| |\[)(\d{1,5})\b", re.ASCII)
"""``transmit queue 3``, ``Tx Queue <1>``, ``Tx queue[3]``, ``on queue: 6``, ``tx queue, 3``, ``Q
12``, ``qid: 3``, and the channel of mlx5. Not the number of a send queue in the hardware (``SQ:
0x1a2b``)."""
OF_MACHINE = frozenset(("cpu_starved", "connections_full", "neighbours_full", "memory_locked"))
"""Meanings of messages about the machine, or about a table of one of its network namespaces, which
they do not name."""
CLOCK_TOLERANCE_SECONDS = 10.0
"""udev reports a device up to so long after the kernel created it, when its driver may have logged
messages."""


@dataclass(frozen=True, eq=False)
class Logged:
    """A kernel message that nictop knows."""

    message: KernelMessage
    known: Known
    device: str | None
    """PCI address, ``virtio2`` or VMBus GUID; None: not in the message."""
    name: str | None
    """Of the interface, at the time of the message."""
    addresses: tuple[str, ...]
    """All PCI addresses in the text."""

    @property
    def is_of_device(self) -> bool:
        """It is about a device or an interface, not about the machine."""
        return self.known.meaning not in OF_MACHINE

    @property
    def time(self) -> float:
        return self.message.time

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def queue(self) -> int | None:
        """Number of the queue that the message names."""
        match = QUEUE.search(self.text)
        if match is None:
            return None
        return int(match[1])


@dataclass(frozen=True)
class Renaming:
    """An interface got another name."""

    time: float
    device: str
    old: str
    new: str


class KernelLog:
    """The known messages of a host, oldest first, by device. `only_links`: without those about
    devices that are none of `links`: it is not the namespace in which the machine has started.
    `other_names`: of interfaces in other namespaces."""

    def __init__(
        self,
        messages: Iterable[KernelMessage],
        links: Sequence[Link] = (),
        pci: Sequence[PciFunction] = (),
        *,
        only_links: bool = False,
        other_names: Collection[str] = (),
    ) -> None:
        self.entries: tuple[Logged, ...] = tuple(_entries(messages))
        self._of_link: dict[int, list[Logged]] = {}
        self._doubtful: dict[int, list[Logged]] = {}
        self._only_links, self._other_names = only_links, frozenset(other_names)
        self._own_addresses = {link.address for link in links if link.address}
        self._of_address: dict[str, list[Logged]] = {}
        self.others: list[Logged] = []
        """Those about no link and no PCI function of this host."""
        if self.entries:
            names = _Names(links, pci, self.entries)
            if only_links:
                self.entries = tuple(
                    entry
                    for entry in self.entries
                    if not entry.is_of_device or names.links_of(entry)
                )
            self._sort(names, pci)
        self._meanings = frozenset(entry.known.meaning for entry in self.entries)

    def _sort(self, names: _Names, pci: Sequence[PciFunction]) -> None:
        """By what they are about."""
        functions = {function.address for function in pci}
        functions.update(function.parent for function in pci if function.parent is not None)
        for entry in self.entries:
            about = names.links_of(entry)
            for link in about:
                is_doubtful = self.doubt_text(entry, link) != ""
                known = self._doubtful if is_doubtful else self._of_link
                known.setdefault(link.ifindex, []).append(entry)
            addresses = _function_addresses(entry, about, functions)
            for address in addresses:
                self._of_address.setdefault(address, []).append(entry)
            if not about and not addresses:
                self.others.append(entry)

    @property
    def addresses(self) -> list[str]:
        """PCI functions, and ports above them, that messages are about."""
        return sorted(self._of_address)

    def has(self, meanings: Iterable[Meaning]) -> bool:
        """Some message has one of these meanings."""
        return not self._meanings.isdisjoint(meanings)

    def of_link(self, link: Link) -> Sequence[Logged]:
        """Messages about a netdev, by whatever name it had."""
        return self._of_link.get(link.ifindex, ())

    def _names_own_address(self, entry: Logged, link: Link) -> bool:
        """The address in the message is one of this host: the MAC address that comes back
        (net/bridge/br_fdb.c), or the IPv6 address that this netdev may not use
        (addrconf_dad_failure)."""
        words = entry.text.replace("addr:", " ").replace(",", " ").split()
        if entry.known.meaning == "own_address":
            return not self._own_addresses.isdisjoint(words)
        if entry.known.meaning != "duplicate_address":
            return False
        failed = [one.address for one in link.addresses if "dadfailed" in one.flags]
        return any(address in words for address in failed)

    def perhaps_of_link(self, link: Link) -> Sequence[Logged]:
        """Messages with its name that may be about another netdev (`doubt_text`)."""
        return self._doubtful.get(link.ifindex, ())

    def doubt_text(self, entry: Logged, link: Link) -> str:
        """``may be about an earlier lab0``; "": it is about this netdev, as far as is known."""
        if entry.device is not None or link.device is not None:
            return ""
        if self._names_own_address(entry, link):
            return ""
        if self._only_links or link.name in self._other_names:
            return f"may be about {link.name} of another network namespace"
        since = link.present_since
        if link.created is None and (since is None or entry.time < since):
            return f"may be about an earlier {link.name}"
        return ""

    def of_address(self, address: str | None) -> Sequence[Logged]:
        """Messages about a PCI function, or a port above one; also those that name only its
        netdev."""
        return self._of_address.get(address or "", ())


def _entries(messages: Iterable[KernelMessage]) -> Iterable[Logged]:
    for message in messages:
        known = find_known(message.text)
        if known is not None:
            device, name = parse_device(message.text)
            yield Logged(message, known, device, name, tuple(addresses_in(message.text)))


def _function_addresses(entry: Logged, links: Sequence[Link], functions: set[str]) -> list[str]:
    found = [address for address in (*entry.addresses, entry.device) if address in functions]
    found += [link.pci_address for link in links if link.pci_address is not None]
    return list(dict.fromkeys(found))


class _Names:
    """Which link a message is about."""

    def __init__(
        self, links: Sequence[Link], pci: Sequence[PciFunction], entries: Iterable[Logged]
    ) -> None:
        self._by_name = {altname: link for link in links for altname in link.altnames}
        self._by_name.update({link.name: link for link in links})
        self._by_device = _links_by_device(links)
        self._by_driver = _links_by_driver(links, pci)
        found = map(_renaming, entries)
        self._renamings = [renaming for renaming in found if renaming is not None]

    def links_of(self, entry: Logged) -> Sequence[Link]:
        if entry.device is not None:
            return self._of_device(entry, entry.device)
        link = self._of_name(entry)
        if link is not None:
            return (link,)
        if entry.name not in (None, entry.known.driver):
            return ()
        # Some texts name only the driver: they are about its link if it has only one.
        own = self._by_driver.get(entry.known.driver, ())
        return own if len(own) == 1 else ()

    def _of_device(self, entry: Logged, device: str) -> Sequence[Link]:
        """All links of the device, or the one of several that the message names."""
        links = self._by_device.get(device, ())
        if not links and not entry.addresses:
            return self._of_renumbered(entry)
        named = [link for link in links if entry.name in (link.name, *link.altnames)]
        return named or links

    def _of_renumbered(self, entry: Logged) -> Sequence[Link]:
        """The link of that name and driver: virtio numbers and VMBus GUIDs change when a device is
        made again."""
        link = self._of_name(entry)
        driver = entry.text.partition(" ")[0]
        if link is None or ethtool_driver(link) != driver:
            return ()
        return (link,)

    def _of_name(self, entry: Logged) -> Link | None:
        """The link that had the name at the time of the message."""
        later = [renaming for renaming in self._renamings if renaming.time > entry.time]
        given_up = next((renaming for renaming in later if renaming.old == entry.name), None)
        if given_up is not None:
            links = self._by_device.get(given_up.device, ())
            if len(links) != 1:
                return None
            return links[0]
        if any(renaming.new == entry.name for renaming in later):
            return None
        return self._by_name.get(entry.name or "")


def _links_by_device(links: Iterable[Link]) -> dict[str, list[Link]]:
    """Name of a device, or PCI address of its function → its links."""
    found: dict[str, list[Link]] = {}
    for link in links:
        for device in {link.device, link.pci_address} - {None}:
            found.setdefault(str(device), []).append(link)
    return found


def _links_by_driver(links: Iterable[Link], pci: Iterable[PciFunction]) -> dict[str, list[Link]]:
    drivers = {function.address: function.driver for function in pci}
    found: dict[str, list[Link]] = {}
    for link in links:
        # A NIC that its driver has detached answers no ethtool request, but sysfs still has its
        # driver.
        driver = ethtool_driver(link) or drivers.get(link.pci_address or "")
        if driver is not None:
            found.setdefault(driver, []).append(link)
    return found


def _renaming(entry: Logged) -> Renaming | None:
    if entry.known.meaning != "renamed" or entry.device is None:
        return None
    match = RENAMED.search(entry.text)
    if match is None:
        return None
    return Renaming(entry.time, entry.device, match[2], match[1])


def since(entries: Iterable[Logged], created: float | None) -> list[Logged]:
    """Those that can be about a device that was created at `created` (None: at boot, or not known),
    and not about an earlier one of the same name or number."""
    if created is None:
        return list(entries)
    begin = created - CLOCK_TOLERANCE_SECONDS
    return [entry for entry in entries if entry.time >= begin]


NO_MESSAGES = KernelLog(())
