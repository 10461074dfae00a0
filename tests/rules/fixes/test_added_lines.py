"""A fix that writes a configuration file writes the lines that it shows: no text of a host adds one
of its own."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, Literal, get_origin, get_type_hints

import pytest

from nictop.rules import RULES, Finding, HostFacts, diagnose
from nictop.rules.fixes.added_lines import ADDED_LINES_NOTE, KERNEL_FILES
from nictop.rules.fixes.commands import Command
from tests.support.rule_cases import CASES_DIRECTORY, host_facts

ADDED = "\nExecStart=/bin/evil"
FILES = sorted(path for path in CASES_DIRECTORY.glob("*/*.json") if path.parent.name != "bases")


def first_hosts_of(rule: str) -> list[HostFacts]:
    (path,) = CASES_DIRECTORY.glob(f"*/{rule}.json")
    case = json.loads(path.read_text())["fires"][0]
    return [host_facts(host) for host in case["hosts"]]


def written_by(finding: Finding) -> list[Command]:
    """Its commands that write files of the disk."""
    steps = [step for fix in finding.fixes for step in (*fix.commands, *fix.undo)]
    commands = [step for step in steps if isinstance(step, Command)]
    return [
        command
        for command in commands
        if command.write_to is not None and not command.write_to.startswith(KERNEL_FILES)
    ]


def rules_that_write() -> list[str]:
    """With the first case in which each of them has a finding."""
    found = []
    for name in sorted(path.stem for path in FILES):
        findings = diagnose(first_hosts_of(name), [RULES[name]]).findings
        if any(map(written_by, findings)):
            found.append(name)
    return found


def places(value: Any, record: str = "") -> Iterator[str]:
    """``Link.name`` of each text in a record that may hold any characters."""
    if isinstance(value, str):
        yield record
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = get_type_hints(type(value))
        for field in dataclasses.fields(value):
            if get_origin(hints[field.name]) is not Literal:
                name = f"{type(value).__name__}.{field.name}"
                yield from places(getattr(value, field.name), name)
    elif isinstance(value, tuple):
        for item in value:
            yield from places(item, record)
    elif isinstance(value, dict):
        for item in value.values():
            yield from places(item, record)


def with_added_line(value: Any, place: str, record: str = "") -> Any:
    """The record with another line in the texts of that place."""
    if isinstance(value, str):
        return value + ADDED if record == place else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {
            field.name: with_added_line(
                getattr(value, field.name), place, f"{type(value).__name__}.{field.name}"
            )
            for field in dataclasses.fields(value)
        }
        return dataclasses.replace(value, **changed)
    if isinstance(value, tuple):
        return tuple(with_added_line(item, place, record) for item in value)
    if isinstance(value, dict):
        return {key: with_added_line(item, place, record) for key, item in value.items()}
    return value


def changed_host(host: HostFacts, place: str) -> HostFacts:
    inventory = with_added_line(host.inventory, place)
    links = {link.ifindex: link for link in inventory.links}
    snapshot = dataclasses.replace(
        host.snapshot, inventory=inventory, links=links, pci=inventory.pci
    )
    return HostFacts(snapshot, host.window)


@pytest.mark.parametrize("rule", rules_that_write())
def test_no_text_of_a_host_adds_a_line(rule: str) -> None:
    hosts = first_hosts_of(rule)
    tried = 0
    for place in sorted({place for host in hosts for place in places(host.inventory)}):
        changed = [changed_host(host, place) for host in hosts]
        for finding in diagnose(changed, [RULES[rule]]).findings:
            tried += 1
            for command in written_by(finding):
                assert not any("\n" in word for word in command.argv), (place, command)
    assert tried, "the finding must survive some of the changes"


def test_such_a_fix_has_a_note_in_place_of_commands() -> None:
    (host,) = first_hosts_of("single_queue_without_rps")
    changed = changed_host(host, "Link.permanent_address")
    (finding,) = diagnose([changed], [RULES["single_queue_without_rps"]]).findings
    (fix,) = (fix for fix in finding.fixes if ADDED_LINES_NOTE in fix.note)
    assert not fix.commands and not fix.undo
