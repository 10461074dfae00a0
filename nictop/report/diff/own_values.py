"""Values that two hosts never have in common, in the texts of facts: names and MAC addresses of
their own NICs, their own IP addresses, PCI addresses and names, UUIDs.

Pure. A MAC address of another machine, or of another NIC of the same host, stays in the text: a
profile that is bound to one of these is a difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from nictop.model.snapshot import Snapshot
from nictop.probe.records import Link

NIC_PLACEHOLDER = "(this NIC)"
"""In place of the names of both NICs where their facts are compared."""
UUID_PLACEHOLDER = "(UUID)"
HOST_PLACEHOLDER = "(this host)"
WORD = re.compile(r"[\w.-]+")
VALUE = re.compile(r"[\w.-]+(?::+[\w.-]+)*")
"""A word, or one with colons in it: an address."""
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def host_values(snapshot: Snapshot) -> dict[str, str]:
    """Value of the host, or of one of its NICs → its placeholder."""
    found = {}
    if snapshot.hello is not None and snapshot.hello.hostname:
        found[snapshot.hello.hostname.lower()] = HOST_PLACEHOLDER
    for link in snapshot.links.values():
        found.update(_placeholders_of(link, f"of {link.name}"))
    return found


def _placeholders_of(link: Link, whose: str) -> dict[str, str]:
    return {value.lower(): f"{kind} {whose}" for value, kind in _values_of(link) if value}


class OwnValues:
    """Those of a host (`host_values`), and of one of its NICs; None: of the host alone."""

    def __init__(self, host: Mapping[str, str], nic: Link | None = None) -> None:
        self._name = "" if nic is None else nic.name
        self._host = host
        self._nic = {} if nic is None else _placeholders_of(nic, NIC_PLACEHOLDER)

    def without_name(self, text: str) -> str:
        """With the placeholder for each word that is the name of the NIC."""
        if not self._name or self._name not in text:
            return text
        return WORD.sub(self._nic_word, text)

    def without_values(self, text: str) -> str:
        """With placeholders for all others."""
        return VALUE.sub(self._placeholder, text)

    def _nic_word(self, word: re.Match[str]) -> str:
        return NIC_PLACEHOLDER if word.group() == self._name else word.group()

    def _placeholder(self, word: re.Match[str]) -> str:
        value = word.group()
        if UUID.fullmatch(value):
            return UUID_PLACEHOLDER
        known = value.lower()
        return self._nic.get(known) or self._host.get(known, value)


def _values_of(link: Link) -> Iterator[tuple[str, str]]:
    """(value, kind)"""
    for mac in (link.permanent_address, link.address):
        if mac is not None:
            yield mac, "MAC"
    for address in link.addresses:
        yield address.address, "address"
    if link.pci_address is not None:
        yield link.pci_address, "PCI address"
    for name in link.altnames:
        yield name, "altname"
