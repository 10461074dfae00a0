"""Redaction of a report: names and addresses are replaced by aliases, the same alias for each
occurrence.

Reads nothing. It works on records, before rules and report use them, so that findings and commands
contain the aliases too. `make_redaction(values)` collects the names and addresses of all records;
`Redaction.hidden` is a copy of a record with aliases, `Redaction.sentences` describe what was
replaced. Names are recognised by their field (`fields`), in free text (kernel messages, files,
sentences about runs) by their spelling; addresses by their form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from nictop.hosts.observe import Answer, Unreachable
from nictop.model.connections.owners import machine_of
from nictop.model.snapshot import Snapshot
from nictop.model.text.ip_addresses import parse_ip_address
from nictop.probe.light_dataclasses import replace
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
from nictop.traffic.plan.plan import NETWORK
from nictop.traffic.results.store import StoredRun, WithoutResult

T = TypeVar("T")
Field = tuple[str, str]
"""(record, field)"""

NOT_HIDDEN_NOTE = (
    "Not redacted: interface names and profiles with the same name, default profile names such as "
    '"Wired connection 1", PCI addresses, hardware, drivers, versions, times and measured values. '
    "Check the report before you share it."
)
ALIAS_NOTE = (
    "The same name or address has the same alias everywhere. Addresses of one subnet stay in one "
    "subnet; IPv4 "
    "addresses keep their host part, MAC addresses their vendor prefix."
)
KIND_NOUNS = {
    "host": "host name", "domain": "domain", "profile": "profile name", "machine": "VM name",
    "user": "user name", "alias": "interface alias", "serial": "serial number",
    "switch": "switch ID or machine ID hash",
    "digest": "32-digit ID", "uuid": "UUID", "IPv4": "IPv4 address", "IPv6": "IPv6 "
                                                                             "address",
                                                                             "MAC": "MAC address",
}  # fmt: skip
CGROUP = ("Connection", "cgroup")
"""Names of virtual machines and LXC containers are parts of it."""
DIGITS: dict[str, Kind] = {"uuid": "uuid", "digest": "digest"}
"""Kind of a match → kind of the name."""
NO_FIELD, HOST_FIELD = ("", ""), ("Place", "host")
RUN_FACTS = ("Result", "facts")
UNCHANGED_FACTS = ("version", "firmware", "kernel", "iperf3", "ntttcp", "distribution")
"""Ends of the keys of facts about a run that have no names."""
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
        """A copy of a record (or a container of records) with aliases in the place of names and
        addresses."""
        return self._value(value, NO_FIELD)  # type: ignore[no-any-return]

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
        parts = []
        for word, number in self._numbers():
            if number:
                noun = word if number == 1 else _plural(word)
                parts.append(f"{number} {noun}")
        return (f"Redacted: {', '.join(parts) or 'nothing'}.", ALIAS_NOTE, NOT_HIDDEN_NOTE)

    def _numbers(self) -> Iterator[tuple[str, int]]:
        """The word for each kind, and how many of it were replaced."""
        counted: dict[str, Sized] = {**self.names.counted, **self.addresses.counted}
        for kind, word in KIND_NOUNS.items():
            yield word, len(counted.get(kind, ()))

    # --------------------------------------------------------------------------------------- values

    def _value(self, value: Any, field: Field) -> Any:
        if isinstance(value, str):
            return self._string(value, field)
        if value is None or isinstance(value, (int, float)):
            return value
        if is_dataclass(value):
            return self._record(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self._value, value, _named_fields(value)))
        if isinstance(value, (tuple, list)):
            return type(value)(self._value(member, field) for member in value)
        if isinstance(value, Mapping):
            return self._mapping(value, field)
        return value

    def _mapping(self, mapping: Mapping[Any, Any], field: Field) -> dict[Any, Any]:
        if field == RUN_FACTS:
            return {self._key(key): self._run_fact(key, value) for key, value in mapping.items()}
        return {self._key(key): self._value(value, field) for key, value in mapping.items()}

    def _record(self, record: Any) -> Any:
        kind = type(record).__name__
        if UNCHANGED_FIELDS.get(kind) == ALL_FIELDS:
            return record
        changes = {}
        for attribute in fields(record):
            before = getattr(record, attribute.name)
            after = self._value(before, (kind, attribute.name))
            if after is not before and after != before:
                changes[attribute.name] = after
        if isinstance(record, Link) and record.kind == MACHINE_PORT:
            changes["name"] = self._machine_port(record.name)
        if not changes:
            return record
        return replace(record, **changes)

    def _machine_port(self, name: str) -> str:
        """``machine-1.eth0`` for ``web1.eth0``"""
        machine, dot, adapter = name.rpartition(".")
        if not dot:
            return self.names.alias("machine", name)
        return f"{self.names.alias('machine', machine)}.{adapter}"

    def _key(self, key: Any) -> Any:
        if isinstance(key, tuple):
            return self._value(key, NO_FIELD)
        if not isinstance(key, str):
            return key
        return self.text(key, names=False)

    def _run_fact(self, key: object, value: str) -> str:
        """What was set up for a run."""
        if key in HOST_NAME_FACTS:
            return self.names.alias("host", value)
        if str(key).endswith(UNCHANGED_FACTS):
            return value
        return self.text(value, names=False)

    def _string(self, text: str, field: Field) -> str:
        record, name = field
        if not text or name in UNCHANGED_FIELDS.get(record, ()):
            return text
        kind = NAME_FIELDS.get(record, {}).get(name)
        if kind is not None:
            return self.names.alias(kind, text)
        machine = _machine_in(text, field)
        if machine is not None:
            return self._cgroup(*machine)
        excluded = FIELDS_WITHOUT_NAMES.get(record, frozenset())
        has_names = excluded != ALL_FIELDS and name not in excluded
        return self.text(text, names=has_names)

    def _cgroup(self, manager: str, machine: str) -> str:
        """That of a virtual machine or of an LXC container."""
        alias = self.names.alias("machine", machine)
        if manager == "lxc":
            return f"/lxc/{alias}"
        return f"/machine-{manager}-1-{alias}.scope"

    # ---------------------------------------------------------------------------------------- texts

    def _replaced(self, match: re.Match[str]) -> str:
        kind, text = match.lastgroup or "", match[0]
        if kind == "name":
            return self.names.found(text)
        if kind == "mac":
            return self.addresses.mac(text)
        if kind == "predictable":
            return text[:3] + self.addresses.mac(_mac_in_name(text)).replace(":", "")
        digits = DIGITS.get(kind)
        if digits is None:
            return self._address(text)
        is_zero = not text.strip("0-")
        if is_zero:
            return text
        return self.names.alias(digits, text.lower())

    def _address(self, text: str) -> str:
        """Alias of an IPv6 or IPv4 address, also if the match includes a colon of the sentence
        before or after it."""
        for before, after in ((0, 0), (0, 1), (1, 0), (1, 1)):
            end = len(text) - after
            address = parse_ip_address(text[before:end])
            around = text[:before] + text[end:]
            if address is not None and not around.strip(":"):
                return text[:before] + self.addresses.ip(address) + text[end:]
        return text


def _plural(word: str) -> str:
    if " or " in word:
        return "switch IDs or machine ID hashes"
    return f"{word}es" if word.endswith("s") else f"{word}s"


# -------------------------------------------------------------------------------------------- input


def redact(
    answers: Iterable[Answer],
    runs: Iterable[StoredRun],
    path_tests: Iterable[StoredPath] = (),
    without_result: Iterable[WithoutResult] = (),
) -> tuple[
    tuple[Answer, ...],
    tuple[StoredRun, ...],
    tuple[StoredPath, ...],
    tuple[WithoutResult, ...],
    tuple[str, ...],
]:
    """Answers, runs, path tests and tests without a result on the same hosts with aliases, and the
    sentences about what was replaced. Rates need no redaction."""
    answers, path_tests = tuple(answers), tuple(path_tests)
    runs = tuple(map(_without_output, runs))
    redaction = make_redaction([*map(_host_of, answers), *runs, *path_tests])
    return (
        tuple(_hidden_answer(redaction, answer) for answer in answers),
        tuple(map(redaction.hidden, runs)),
        tuple(map(redaction.hidden, path_tests)),
        tuple(replace(test, sentence=redaction.text(test.sentence)) for test in without_result),
        redaction.sentences(),
    )


def _without_output(run: StoredRun) -> StoredRun:
    """Without the lines that a command of the user has written: they may have anything."""
    figures = run.result.workload
    if figures is None:
        return run
    hidden = replace(figures, stdout=(), stderr=())
    return replace(run, result=replace(run.result, workload=hidden))


def _host_of(answer: Answer) -> Snapshot | Unreachable:
    return answer if isinstance(answer, Unreachable) else answer[0]


def _hidden_answer(redaction: Redaction, answer: Answer) -> Answer:
    if isinstance(answer, Unreachable):
        return redaction.hidden(answer)
    snapshot, window = answer
    return redaction.hidden(snapshot), window


def make_redaction(values: Iterable[object]) -> Redaction:
    """The redaction of `values` (snapshots, stored runs and path tests, unreachable hosts); aliases
    are numbered in this order."""
    values = tuple(values)
    strings: list[tuple[Field, str]] = []
    for value in values:
        strings += _strings(value, NO_FIELD)
    originals, networks = _addresses_in(text for _, text in strings)
    for value in values:
        networks += map(_network_text, _addresses_of(value))
    names = NameAliases({text for _, text in strings})
    names.keep(_interfaces(values))
    if any(_is_of_one_host(value) for value in values):
        names.keep({NETWORK, "root"})
    for name in _machine_ports(values):
        names.alias("machine", name.rpartition(".")[0] or name)
    for value in values:
        if isinstance(value, (Snapshot, Unreachable)):
            _name_host(names, value)
    for field, text in strings:
        _name_field(names, field, text)
    return Redaction(AddressAliases(originals, networks), names)


def _is_of_one_host(value: object) -> bool:
    """A run in which the other end is called "network"."""
    return isinstance(value, StoredRun) and value.result.plan.is_of_one_host


def _network_text(address: Address) -> str:
    return f"{address.address}/{address.prefix_length}"


def _name_field(names: NameAliases, field: Field, text: str) -> None:
    """Give the name that is the text of a field, or in it, its alias."""
    record, name = field
    kind = NAME_FIELDS.get(record, {}).get(name)
    if kind is not None and kind != "switch":
        names.alias(kind, text)
    if kind == "host":
        _name_parts(names, text)
    machine = _machine_in(text, field)
    if machine is not None:
        names.alias("machine", machine[1])


def _machine_in(text: str, field: Field) -> tuple[str, str] | None:
    """(manager, name) of the virtual machine or container that the text of a field names."""
    if field != CGROUP:
        return None
    return machine_of(text)


def _name_host(names: NameAliases, host: Snapshot | Unreachable) -> None:
    """The label of a host and its hostname get the same alias."""
    alias = names.alias("host", host.host)
    _name_parts(names, host.host)
    if not isinstance(host, Snapshot) or host.hello is None:
        return
    if host.hello.hostname:
        names.same("host", host.hello.hostname, alias)
        _name_parts(names, host.hello.hostname)


def _name_parts(names: NameAliases, name: str) -> None:
    """The first label of a domain name gets the alias of the host; the other labels are a
    domain."""
    label, _, domain = name.rpartition("@")[2].partition(".")
    is_domain = bool(domain) and parse_ip_address(name) is None
    if not is_domain or names.is_kept(name):
        return
    if label and not label.isdigit():
        names.same("host", label, names.alias("host", name))
    if "." in domain:
        names.alias("domain", domain)


def _strings(value: Any, field: Field) -> Iterator[tuple[Field, str]]:
    """All texts in a record, each with the field that it is in."""
    if isinstance(value, str):
        yield field, value
        return
    for inner_field, member in _members(value, field):
        yield from _strings(member, inner_field)


def _members(value: Any, field: Field) -> Iterable[tuple[Field, Any]]:
    """What a record or container consists of, each with its field."""
    if is_dataclass(value):
        return _record_members(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return zip(_named_fields(value), value, strict=True)
    if isinstance(value, (tuple, list)):
        return ((field, member) for member in value)
    if isinstance(value, Mapping):
        return _mapping_members(value, field)
    return ()


def _record_members(record: Any) -> Iterator[tuple[Field, Any]]:
    kind = type(record).__name__
    if UNCHANGED_FIELDS.get(kind) != ALL_FIELDS:
        for attribute in fields(record):
            yield (kind, attribute.name), getattr(record, attribute.name)


def _mapping_members(mapping: Mapping[Any, Any], field: Field) -> Iterator[tuple[Field, Any]]:
    for key, member in mapping.items():
        is_host = field == RUN_FACTS and key in HOST_NAME_FACTS
        yield HOST_FIELD if is_host else field, member


def _named_fields(value: Any) -> list[Field]:
    """Of a named tuple."""
    kind = type(value).__name__
    return [(kind, name) for name in value._fields]


def _addresses_in(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Addresses in the texts, and those of them that are networks with a prefix length."""
    originals, networks = [], []
    expression = NameAliases().expression()
    for text in dict.fromkeys(texts):
        for match in expression.finditer(text):
            originals.append(_address_found(match))
            prefix = PREFIX_LENGTH.match(text, match.end())
            if match.lastgroup == "four" and prefix is not None:
                networks.append(match[0] + prefix[0])
    return originals, networks


def _address_found(match: re.Match[str]) -> str:
    if match.lastgroup == "predictable":
        return _mac_in_name(match[0])
    if match.lastgroup == "six" and "::" not in match[0]:
        return match[0].strip(":")  # a colon of the sentence
    return match[0]


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


def _links_in(values: Iterable[object]) -> Iterator[Link]:
    for value in values:
        if isinstance(value, Snapshot):
            yield from _links(value)


def _interfaces(values: Iterable[object]) -> set[str]:
    """Names of links, except those after a virtual machine."""
    names: set[str] = set()
    for link in _links_in(values):
        if link.kind != MACHINE_PORT:
            names.update((link.name, *link.altnames))
    return names


def _machine_ports(values: Iterable[object]) -> list[str]:
    return [link.name for link in _links_in(values) if link.kind == MACHINE_PORT]
