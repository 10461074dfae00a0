"""No control character and no invisible character of a host's texts reaches the screen, the output
of commands, reports, labels of metrics, or commands to copy.

The hosts are recorded ones and those of the cases of the rules, with such a character in many of
their texts.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar, Union

import pytest

from nictop.hosts.observe import Answer, Unreachable
from nictop.metrics.collector import HostCollector, finding_samples
from nictop.probe.records import Hello, Inventory, Line
from nictop.report.facts.host import show_json, show_text
from nictop.report.facts.hosts import hosts_json, hosts_text
from nictop.report.findings.check import check_json, check_text
from nictop.report.findings.markdown import check_markdown
from nictop.report.html.page import html_page
from nictop.report.markdown import markdown_page
from nictop.report.page import report_of
from nictop.rules import RULES, Diagnosis, HostFacts, diagnose
from nictop.rules.fixes.commands import shell_quote
from nictop.wire.record_limits import limit_record
from nictop.wire.source import SourceState
from tests.metrics.answers import values_of
from tests.support.arbitrary import fields_of, is_of_type
from tests.support.reports import CAPTURED_GUESTS, WALL, captured_guest
from tests.support.rule_cases import CASES_DIRECTORY as CASES
from tests.support.rule_cases import complete, host_facts_after, probe_lines
from tests.support.screen import screen_with_hosts, wait_until
from tests.support.shell import bash_words

T = TypeVar("T")

CONTROL_CHARACTERS = (
    "\x1b[2J",
    "\x1b]52;c;eA==\a",
    "\x9b31m",
    "\x90x\x9c",
    "\r",
    "\n",
    "\t",
    "\b",
    "\0",
    "\x7f",
    "\u2028",
    "\x85",
)
BIDI = ("\u061c", "\u200e", "\u200f", "\u202a", "\u202e", "\u2066", "\u2069")
INVISIBLE_CHARACTERS = (
    "\u200b",
    "\u200d",
    "\ufeff",
    "\xad",
    "\xa0",
    "\u3000",
    "\ue000",
    "\U000e0041",
    "\U000e0101",
    "\u2800",
)
CHARACTERS = (*CONTROL_CHARACTERS, *BIDI, *INVISIBLE_CHARACTERS)
TEMPLATES = (
    *(
        "{0[x]}",
        "{0.x}",
        "{9}",
        "{",
        "}",
        "{0:>20000000}",
        "%s%d",
        "%(x)s",
        "%9999999d",
        "%",
        "$x ${x}",
    ),
    *(r"\1\g<9>", "(?P<x", "(a+)+$", "[", "[!", "*" * 40, "[bold]", "[/x]"),
    *(
        "9" * 5000,
        "-" + "9" * 4000,
        "0x" + "f" * 4000,
        "1e999",
        "nan",
        "1_0",
        "٣",
        "²",
        "9" * 30,
        "0-" + "9" * 4999,
    ),
)
"""What does harm as a format, a pattern, a template or a number."""
KEYS = (
    *("1", "enter", "escape", "down", "2", "3", "4", "enter", "escape"),
    *("4", "enter", "o", "e", "escape", "5", "o", "6", "7"),
)
"""Keys that open all pages about hosts."""


Change = Callable[[str, Random], str]
"""A hostile text from a harmless one."""


def with_character(text: str, random: Random) -> str:
    place = random.choice((0, len(text) // 2, len(text)))
    return text[:place] + random.choice(CHARACTERS) + text[place:]


def as_template(text: str, random: Random) -> str:
    found = random.choice(TEMPLATES)
    return random.choice((found, text + found))


def spoiled(
    value: T, kind: Any, random: Random, share: float, change: Change = with_character
) -> T:
    """`value` with about `share` of its texts changed, by default with one of `CHARACTERS` in it;
    `kind`: its type."""
    changed: Any = value
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        kind = next((one for one in members if is_of_type(value, one)), None)
        origin, members = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(value, str):
        if kind is str and random.random() < share:
            changed = change(value, random)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = fields_of(type(value))
        changed = dataclasses.replace(
            value,
            **{
                name: spoiled(getattr(value, name), one, random, share, change)
                for name, one in hints.items()
            },
        )
    elif origin is tuple and isinstance(value, tuple):
        kinds = [members[0]] * len(value) if members[-1] is Ellipsis else members
        changed = tuple(
            spoiled(one, of, random, share, change) for one, of in zip(value, kinds, strict=True)
        )
    elif origin is dict and isinstance(value, dict):
        changed = {
            spoiled(key, members[0], random, share, change): spoiled(
                one, members[1], random, share, change
            )
            for key, one in value.items()
        }
    return changed  # type: ignore[no-any-return]


def spoiled_lines(
    lines: Sequence[Line], random: Random, share: float, change: Change = with_character
) -> list[Line]:
    """As they are after the limits on records."""
    found = []
    for line in lines:
        inventory = spoiled(line.inventory, Inventory | None, random, share, change)
        if inventory is not None:
            limit_record(inventory)
        hello = spoiled(line.hello, Hello | None, random, share, change)
        found.append(dataclasses.replace(line, hello=hello, inventory=inventory))
    return found


def assert_harmless(text: str) -> None:
    assert {character for character in text if not character.isprintable()} <= {"\n"}
    assert not set(text) & set("".join(INVISIBLE_CHARACTERS))


def assert_harmless_everywhere(hosts: Sequence[HostFacts], diagnosis: Diagnosis) -> None:
    texts: list[Callable[[], str]] = [
        lambda: check_text(hosts, diagnosis, 100, skipped=True),
        lambda: check_markdown(hosts, diagnosis, skipped=True),
        lambda: check_json(hosts, diagnosis),
    ]
    for text in texts:
        assert_harmless(text())
    for finding in diagnosis.findings:
        for fix in finding.fixes:
            for line in map(str, (*fix.commands, *fix.undo)):
                assert_harmless(line)
                assert "\n" not in line


# -------------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize("change", [with_character, as_template])
def test_findings_and_commands_of_every_rule(change: Change) -> None:
    random = Random(16)
    spoke: set[str] = set()
    failed: list[tuple[str, str]] = []
    for path in sorted(CASES.glob("*/*.json")):
        if path.parent.name == "bases":
            continue
        hosts = []
        for number, host in enumerate(json.loads(path.read_text())["fires"][0]["hosts"]):
            name = complete(host).get("name", f"host-{number}")
            hosts.append(
                host_facts_after(spoiled_lines(probe_lines(host), random, 0.1, change), name)
            )
        diagnosis = diagnose(hosts)
        spoke |= {finding.rule for finding in diagnosis.findings}
        failed += [
            (one.rule, one.reason)
            for one in diagnosis.skipped
            if one.reason.startswith("check failed")
        ]
        assert_harmless_everywhere(hosts, diagnosis)
    assert not failed
    assert len(spoke) > len(RULES) / 2, "rules that find nothing prove nothing"


@pytest.mark.parametrize("character", CHARACTERS, ids=ascii)
def test_hostile_names_in_commands_are_escaped_for_the_shell(character: str) -> None:
    """The shown command can be copied, and a shell turns the escapes into the name."""
    for name in (character, f"a{character}b", f"it's\\{character}"):
        line = shell_quote(name)
        assert_harmless(line)
        if "\0" not in name:  # not possible in an argument of a program
            assert bash_words(line) == [name]


# ------------------------------------------------------------------------------------------- output


@pytest.mark.parametrize("change", [with_character, as_template])
@pytest.mark.parametrize("recording", CAPTURED_GUESTS)
def test_output_of_commands_and_reports(recording: str, change: Change) -> None:
    random = Random(recording)
    snapshot, window = captured_guest(recording, spoiled("guest", str, random, 1))
    assert snapshot.inventory is not None
    inventory = spoiled(snapshot.inventory, Inventory, random, 0.7, change)
    limit_record(inventory)
    links = {link.ifindex: link for link in inventory.links}
    snapshot = dataclasses.replace(
        snapshot,
        inventory=inventory,
        links=links,
        hello=spoiled(snapshot.hello, Hello | None, random, 0.7, change),
    )
    answers: list[Answer] = [
        (snapshot, window),
        Unreachable("".join(CHARACTERS), "".join(CHARACTERS)),
    ]
    report = report_of(answers, (), wall=WALL)
    for text in (
        show_text(snapshot, 120), show_json(snapshot), hosts_text(answers, 120),
        hosts_json(answers), html_page(report), markdown_page(report),
    ):  # fmt: skip
        assert_harmless(text)
    host = HostFacts(snapshot, window.parts)
    diagnosis = diagnose([host])
    assert_harmless_everywhere([host], diagnosis)
    labels = values_of(
        [
            *HostCollector(snapshot.host).samples(snapshot, 0.5),
            *finding_samples(snapshot.host, diagnosis),
        ]
    )
    assert labels
    for _, values in labels:
        for _, value in values:
            assert_harmless(value)


@pytest.mark.parametrize("change", [with_character, as_template])
async def test_every_page_of_the_screen(change: Change) -> None:
    random = Random(16)
    cases = json.loads((CASES / "profiles" / "profile_is_generated.json").read_text())["fires"]
    lines = spoiled_lines(probe_lines(cases[0]["hosts"][0]), random, 0.7, change)
    async with screen_with_hosts("one", "two") as (screen, hosts):
        for source in (hosts["one"], hosts["two"]):
            source.send(*lines, SourceState("live", "".join(CHARACTERS)))
        await wait_until(screen, lambda: screen.nictop.diagnosis.result is not None)
        for key in KEYS:
            await screen.press(key)
            assert_harmless(
                "\n".join(screen.drawn()).replace("\u2800", "")
            )  # empty cells of the charts
        hosts["one"].send(SourceState("lost", "".join(CHARACTERS), 1.0))
        await screen.press("escape", "1")
        assert_harmless("\n".join(screen.drawn()).replace("\u2800", ""))
