"""Redaction of a report: names and addresses are replaced by aliases, the same alias for each occurrence.

Reads nothing. It works on records, before rules and report use them, so that findings and commands contain the aliases
too. `make_redaction(values)` collects the names and addresses of all records; `Redaction.hidden` is a copy of a record
with aliases, `Redaction.sentences` describe what was replaced. Names are recognised by their field (`fields`), in free
text (kernel messages, files, sentences about runs) by their spelling; addresses by their form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from nictop.hosts.observe import Answer, Unreachable
from nictop.model.connections.owners import machine_of
from nictop.model.snapshot import Snapshot
from nictop.model.text.ip_addresses import parse_ip_address
from nictop.probe.records import Address, Link
from nictop.report.redaction.addresses import AddressAliases
from nictop.report.redaction.fields import (
    ALL_FIELDS,
    FIELDS_WITHOUT_NAMES,
    HOST_NAME_FACTS,
    NAME_FIELDS,
    UNCHANGED_FIELDS,
)
from nictop.report.redaction.names import Kind, NameAliases
from nictop.traffic.path.store import StoredPath
from nictop.traffic.results.selection import StoredRun

T = TypeVar("T")
Field = tuple[str, str]
"""(record, field)"""

NOT_HIDDEN_NOTE = (
    "Not redacted: interface names and profiles with the same name, default profile names such as "
    '"Wired connection 1", PCI addresses, hardware, drivers, versions, times and measured values. '
    "Check the report before you share it."
)
ALIAS_NOTE = (
    "The same name or address has the same alias everywhere. Addresses of one subnet stay in one subnet; IPv4 "
    "addresses keep their host part, MAC addresses their vendor prefix."
)
KIND_NOUNS = {
    "host": "host name", "domain": "domain", "profile": "profile name", "machine": "VM name",
    "user": "user name", "alias": "interface alias", "serial": "serial number",
    "switch": "switch ID or machine ID hash",
    "digest": "32-digit ID", "uuid": "UUID", "IPv4": "IPv4 address", "IPv6": "IPv6 address", "MAC": "MAC address",
}  # fmt: skip
CGROUP = ("Connection", "cgroup")
"""Names of virtual machines and LXC containers are parts of it."""
MACHINE_PORT = "vnic"
"""Kind of a link that is named after a virtual machine."""
PREFIX_LENGTH = re.compile(r"/(\d{1,2})(?!\d)")


class Redaction:
    """Replaces names and addresses by their aliases (see `make_redaction`)."""

    def __init__(self, addresses: AddressAliases, names: NameAliases) -> None:
        self.addresses = addresses
        self.names = names
        self._expression = names.expression()
        self._addresses_only = NameAliases().expression()
        self._texts: dict[tuple[bool, str], str] = {}

    def hidden(self, value: T) -> T:
        """A copy of a record (or a container of records) with aliases in the place of names and addresses."""
        return self._value(value, ("", ""))  # type: ignore[no-any-return]

    def text(self, text: str, *, names: bool = True) -> str:
        """Free text with aliases. `names`: replace names too, not only addresses."""
        key = (names, text)
        known = self._texts.get(key)
        if known is None:
            expression = self._expression if names else self._addresses_only
            known = self._texts[key] = expression.sub(self._replaced, text)
        return known

    def sentences(self) -> tuple[str, ...]:
        """What was replaced, how, and what was not."""
        counted = {kind: len(found) for kind, found in self.names.counted.items()}
        counted.update((kind, len(found)) for kind, found in self.addresses.counted.items())
        parts = [
            f"{number} {word}" if number == 1 else f"{number} {_plural(word)}"
            for kind, word in KIND_NOUNS.items()
            if (number := counted.get(kind, 0))
        ]
        return (f"Redacted: {', '.join(parts) or 'nothing'}.", ALIAS_NOTE, NOT_HIDDEN_NOTE)

    # ----------------------------------------------------------------------------------------------------- values

    def _value(self, value: Any, field: Field) -> Any:
        if isinstance(value, str):
            return self._string(value, field)
        if value is None or isinstance(value, (int, float)):
            return value
        if is_dataclass(value) and not isinstance(value, type):
            return self._record(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            named = zip(value._fields, value, strict=True)
            return type(value)(*(self._value(one, (type(value).__name__, name)) for name, one in named))
        if isinstance(value, (tuple, list)):
            return type(value)(self._value(one, field) for one in value)
        if isinstance(value, Mapping):
            return {self._key(key): self._member(key, one, field) for key, one in value.items()}
        return value

    def _record(self, record: Any) -> Any:
        kind = type(record).__name__
        if UNCHANGED_FIELDS.get(kind) == ALL_FIELDS:
            return record
        changes = {}
        for one in fields(record):
            before = getattr(record, one.name)
            after = self._value(before, (kind, one.name))
            if after is not before and after != before:
                changes[one.name] = after
        if isinstance(record, Link) and record.kind == MACHINE_PORT:
            changes["name"] = self._machine_port(record.name)
        return replace(record, **changes) if changes else record

    def _machine_port(self, name: str) -> str:
        """``machine-1.eth0`` for ``web1.eth0``"""
        machine, dot, adapter = name.rpartition(".")
        return f"{self.names.alias('machine', machine)}.{adapter}" if dot else self.names.alias("machine", name)

    def _key(self, key: Any) -> Any:
        return self.text(key, names=False) if isinstance(key, str) else key

    def _member(self, key: Any, value: Any, field: Field) -> Any:
        if field == ("Result", "facts"):
            if key in HOST_NAME_FACTS:
                return self.names.alias("host", value)
            if str(key).endswith(("version", "firmware", "kernel", "iperf3", "distribution")):
                return value
            return self.text(value, names=False)
        return self._value(value, field)

    def _string(self, text: str, field: Field) -> str:
        record, name = field
        if not text or name in UNCHANGED_FIELDS.get(record, ()):
            return text
        kind = NAME_FIELDS.get(record, {}).get(name)
        if kind is not None:
            return self.names.alias(kind, text)
        machine = machine_of(text) if field == CGROUP else None
        if machine is not None:
            alias = self.names.alias("machine", machine[1])
            return f"/lxc/{alias}" if machine[0] == "lxc" else f"/machine-{machine[0]}-1-{alias}.scope"
        excluded = FIELDS_WITHOUT_NAMES.get(record, frozenset())
        return self.text(text, names=not (excluded == ALL_FIELDS or name in excluded))

    # ------------------------------------------------------------------------------------------------------ texts

    def _replaced(self, match: re.Match[str]) -> str:
        kind, text = match.lastgroup or "", match[0]
        if kind == "name":
            return self.names.found(text)
        if kind == "mac":
            return self.addresses.mac(text)
        if kind == "predictable":
            return text[:3] + self.addresses.mac(_mac_in_name(text)).replace(":", "")
        digits: dict[str, Kind] = {"uuid": "uuid", "digest": "digest"}
        if kind in digits:
            return self.names.alias(digits[kind], text.lower()) if text.strip("0-") else text
        return self._address(text)

    def _address(self, text: str) -> str:
        """Alias of an IPv6 or IPv4 address, also if the match includes a colon of the sentence before or after it."""
        for first, last in ((0, 0), (0, 1), (1, 0), (1, 1)):
            inner = text[first : len(text) - last]
            address = parse_ip_address(inner)
            if address is not None and (inner == text or (text[:first] + text[len(text) - last :]).strip(":") == ""):
                return text[:first] + self.addresses.ip(address) + (text[len(text) - last :] if last else "")
        return text


def _plural(word: str) -> str:
    if " or " in word:
        return "switch IDs or machine ID hashes"
    return f"{word}es" if word.endswith("s") else f"{word}s"


# --------------------------------------------------------------------------------------------------------- input


def redact(
    answers: Iterable[Answer],
    runs: Iterable[StoredRun],
    path_tests: Iterable[StoredPath] = (),
    sentences: Iterable[str] = (),
) -> tuple[tuple[Answer, ...], tuple[StoredRun, ...], tuple[StoredPath, ...], tuple[str, ...], tuple[str, ...]]:
    """Answers, runs, path tests and other sentences about the same hosts with aliases, and the sentences about what was
    replaced. Rates need no redaction."""
    answers, runs, path_tests = tuple(answers), tuple(runs), tuple(path_tests)
    hosts = [one if isinstance(one, Unreachable) else one[0] for one in answers]
    redaction = make_redaction([*hosts, *runs, *path_tests])
    hidden = tuple(
        redaction.hidden(one) if isinstance(one, Unreachable) else (redaction.hidden(one[0]), one[1]) for one in answers
    )
    aliased = (
        tuple(map(redaction.hidden, runs)),
        tuple(map(redaction.hidden, path_tests)),
        tuple(map(redaction.text, sentences)),
    )
    return hidden, *aliased, redaction.sentences()


def make_redaction(values: Iterable[object]) -> Redaction:
    """The redaction of `values` (snapshots, stored runs and path tests, unreachable hosts); aliases are numbered in
    this order."""
    values = tuple(values)
    strings = [(field, text) for value in values for field, text in _strings(value, ("", ""))]
    originals, networks = _addresses_in(text for _, text in strings)
    networks += [f"{one.address}/{one.prefix_length}" for value in values for one in _addresses_of(value)]
    names = NameAliases({text for _, text in strings})
    names.keep(_interfaces(values))
    for name in _machine_ports(values):
        names.alias("machine", name.rpartition(".")[0] or name)
    for value in values:
        if isinstance(value, (Snapshot, Unreachable)):
            _name_host(names, value)
    for (record, field), text in strings:
        kind = NAME_FIELDS.get(record, {}).get(field)
        if kind is not None and kind not in ("switch",):
            names.alias(kind, text)
            if kind == "host":
                _name_parts(names, text)
        machine = machine_of(text) if (record, field) == CGROUP else None
        if machine is not None:
            names.alias("machine", machine[1])
    return Redaction(AddressAliases(originals, networks), names)


def _name_host(names: NameAliases, host: Snapshot | Unreachable) -> None:
    """The label of a host and its hostname get the same alias."""
    alias = names.alias("host", host.host)
    _name_parts(names, host.host)
    if isinstance(host, Snapshot) and host.hello is not None and host.hello.hostname:
        names.same("host", host.hello.hostname, alias)
        _name_parts(names, host.hello.hostname)


def _name_parts(names: NameAliases, name: str) -> None:
    """The first label of a domain name gets the alias of the host; the other labels are a domain."""
    label, _, domain = name.rpartition("@")[2].partition(".")
    if not domain or parse_ip_address(name) is not None or names.is_kept(name):
        return
    if label and not label.isdigit():
        names.same("host", label, names.alias("host", name))
    if "." in domain:
        names.alias("domain", domain)


def _strings(value: Any, field: Field) -> Iterator[tuple[Field, str]]:
    if isinstance(value, str):
        yield field, value
    elif is_dataclass(value) and not isinstance(value, type):
        kind = type(value).__name__
        if UNCHANGED_FIELDS.get(kind) != ALL_FIELDS:
            for one in fields(value):
                yield from _strings(getattr(value, one.name), (kind, one.name))
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name, one in zip(value._fields, value, strict=True):
            yield from _strings(one, (type(value).__name__, name))
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _strings(one, field)
    elif isinstance(value, Mapping):
        for key, one in value.items():
            is_host = field == ("Result", "facts") and key in HOST_NAME_FACTS
            yield from _strings(one, ("Place", "host") if is_host else field)


def _addresses_in(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Addresses in the texts, and those of them that are networks with a prefix length."""
    originals, networks = [], []
    expression = NameAliases().expression()
    for text in dict.fromkeys(texts):
        for found in expression.finditer(text):
            originals.append(_address_found(found))
            prefix = PREFIX_LENGTH.match(text, found.end()) if found.lastgroup == "four" else None
            if prefix is not None:
                networks.append(found[0] + prefix[0])
    return originals, networks


def _address_found(found: re.Match[str]) -> str:
    if found.lastgroup == "predictable":
        return _mac_in_name(found[0])
    if found.lastgroup == "six" and "::" not in found[0]:
        return found[0].strip(":")  # a colon of the sentence
    return found[0]


def _mac_in_name(name: str) -> str:
    """``52:54:00:12:34:56`` of an interface ``enx525400123456``"""
    return ":".join(name[at : at + 2] for at in range(3, 15, 2))


def _addresses_of(value: object) -> Iterator[Address]:
    if isinstance(value, Snapshot):
        for link in _links(value):
            yield from link.addresses


def _links(snapshot: Snapshot) -> Iterator[Link]:
    yield from snapshot.links.values()
    if snapshot.inventory is not None:
        yield from snapshot.inventory.links


def _interfaces(values: Iterable[object]) -> set[str]:
    links = [link for value in values if isinstance(value, Snapshot) for link in _links(value)]
    return {name for link in links if link.kind != MACHINE_PORT for name in (link.name, *link.altnames)}


def _machine_ports(values: Iterable[object]) -> list[str]:
    links = [link for value in values if isinstance(value, Snapshot) for link in _links(value)]
    return [link.name for link in links if link.kind == MACHINE_PORT]
