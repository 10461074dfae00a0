"""Small literal findings, and hosts of rule cases as lines of their probe."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import Any

from nictop.probe.records import Line
from nictop.rules import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import Command, Step
from tests.support.rule_cases import CASES_DIRECTORY, probe_lines


def commands(*lines: str) -> tuple[Command, ...]:
    """Commands from shell lines; ``> FILE`` at the end becomes `Command.write_to`."""
    return tuple(map(_command, lines))


def _command(line: str) -> Command:
    words = shlex.split(line)
    return Command(tuple(words[:-2]), words[-1]) if words[-2:-1] == [">"] else Command(tuple(words))


def step_texts(steps: Iterable[Step]) -> list[str]:
    """The steps of a fix as text."""
    return [str(step) for step in steps]


RENAME = Fix(
    "here",
    "Rename the profile to ens224",
    commands("nmcli con mod uuid 7777 connection.id ens224", "nmcli con up uuid 7777"),
    persistent=True,
    undo=commands("nmcli con mod uuid 7777 connection.id 'Wired connection 1'"),
    note="Nothing is interrupted.",
)


def finding(
    *,
    rule: str = "a_rule",
    severity: Severity = "warning",
    host: str = "alma-load-001",
    subject: str = "ens224",
    title: str = 'uses the auto-generated profile "Wired connection 1"',
    evidence: tuple[Evidence, ...] = (
        Evidence("created by", "NetworkManager", "Settings.Connection.Flags"),
    ),
    why: str = "nmcli changes profiles, not interfaces.",
    fixes: tuple[Fix, ...] = (RENAME,),
) -> Finding:
    return Finding(rule, severity, host, subject, title, evidence, why, fixes)


def host_of_case(family: str, rule: str, number: int = 0, kind: str = "fires") -> dict[str, Any]:
    """The first host of a case in tests/data/rules."""
    cases = json.loads((CASES_DIRECTORY / family / f"{rule}.json").read_text())
    host: dict[str, Any] = cases[kind][number]["hosts"][0]
    return host


def lines_of_case(family: str, rule: str, number: int = 0, kind: str = "fires") -> list[Line]:
    """The lines that the probe of that host sends."""
    return probe_lines(host_of_case(family, rule, number, kind))
