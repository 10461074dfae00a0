"""Reads tests/data/reports/*.json, one public problem report with a confirmed cause each, and
scores the rules by it.

    source, date, kind, driver, kernel, saw, cause, confirmed   where it was read, and what was
    reported
    hosts   [HOST]    as in tests/support/rule_cases.py, and "log": lines of the kernel log in their
                      order, each "[SECONDS] TEXT", "TEXT" (some minutes before the inventory), or
                      {"text": …, "count": 5000, "every": 2.0}: the last one a minute before the
                      inventory
    expect  [{"rule", "subject", "severity", "says": [words], "first": [parts of the first fix],
              "persistent": [parts of a fix that survives a reboot]}]
    never   [phrases that no finding may contain]
    score   "right" if missing; else what the rules reach, with the reason in "limits"

The log goes through the probe's own selection (`kernel_log.select`), the rest through the rules as
a live host's facts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nictop.probe.inventory.machine.kernel_log import select
from nictop.probe.light_dataclasses import field_mapping
from nictop.rules import Finding, Fix, diagnose
from tests.support.rule_cases import complete, host_facts

FOLDER = Path(__file__).parents[1] / "data" / "reports"
Score = Literal["right", "partly", "missed", "wrong advice"]
SCORES: tuple[Score, ...] = ("right", "partly", "missed", "wrong advice")
LAST_LINE_SECONDS = 60.0
"""Between the last line without a time and the inventory."""
TIMED_LINE = re.compile(r"\[\s*(\d+\.\d+)\] (.*)", re.DOTALL)
USER_SPACE = ("systemd-udevd", "(udev-worker)")
KERNEL_WARNING, DAEMON_ERROR = 4, 27


@dataclass(frozen=True)
class Report:
    """One file."""

    path: Path
    content: dict[str, Any]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def expected_score(self) -> Score:
        score: Score = self.content.get("score", "right")
        return score


@dataclass(frozen=True)
class Result:
    """How the rules answer a report."""

    score: Score
    problems: tuple[str, ...]
    """What is missing or wrong; (): nothing."""
    findings: tuple[Finding, ...]


def reports() -> tuple[Report, ...]:
    """All of them, by name."""
    return tuple(
        Report(path, json.loads(path.read_text())) for path in sorted(FOLDER.glob("*.json"))
    )


def evaluate(report: Report) -> Result:
    """The findings of all rules about the hosts of a report, and their score."""
    hosts = [host_facts(with_messages(host)) for host in report.content["hosts"]]
    findings = diagnose(hosts).findings
    wrong = [
        f"says {phrase!r}"
        for phrase in report.content.get("never", ())
        if any(_says(one, phrase) for one in findings)
    ]
    answers = [_answer(expected, findings) for expected in report.content.get("expect", ())]
    missing = [problem for problems in answers if problems is not None for problem in problems]
    unanswered = [
        f"nothing about {_key(expected)}"
        for expected, problems in zip(report.content.get("expect", ()), answers, strict=True)
        if problems is None
    ]
    return Result(
        _score(wrong, missing, unanswered, len(answers)), (*wrong, *missing, *unanswered), findings
    )


def _score(wrong: list[str], missing: list[str], unanswered: list[str], expected: int) -> Score:
    if wrong:
        return "wrong advice"
    if unanswered and len(unanswered) == expected:
        return "missed"
    return "partly" if missing or unanswered else "right"


# ---------------------------------------------------------------------------------- kernel messages


def with_messages(host: dict[str, Any]) -> dict[str, Any]:
    """The host with the messages that its probe would select from its log."""
    whole = complete(host)
    lines = whole.pop("log", ())
    if not lines:
        return whole
    functions = whole.get("pci", {})
    addresses = {*functions, *(one["parent"] for one in functions.values() if one.get("parent"))}
    records = [
        kmsg_record(number, *line)
        for number, line in enumerate(log_lines(lines, whole.get("time", 0.0)))
    ]
    selected = select(records, addresses)
    whole["messages"] = [field_mapping(message) for message in selected]
    return whole


def log_lines(lines: list[Any], now: float) -> Iterator[tuple[float, str]]:
    """(seconds since boot, text) of each record; those without a time are a second apart, before
    `now`."""
    first = now - LAST_LINE_SECONDS - len(lines)
    for number, line in enumerate(lines):
        if isinstance(line, dict):
            for index in range(line["count"]):
                yield (
                    now - LAST_LINE_SECONDS - (line["count"] - 1 - index) * line["every"],
                    line["text"],
                )
            continue
        match = TIMED_LINE.match(line)
        if match is None:
            yield first + number, line
        else:
            yield float(match[1]), match[2]


def kmsg_record(number: int, time: float, text: str) -> bytes:
    """A record of /dev/kmsg: line breaks are escaped."""
    priority = DAEMON_ERROR if text.startswith(USER_SPACE) else KERNEL_WARNING
    escaped = text.encode().replace(b"\\", b"\\x5c").replace(b"\n", b"\\x0a")
    return b"%d,%d,%d,-;%s\n" % (priority, number, max(0, int(time * 1e6)), escaped)


# ------------------------------------------------------------------------------------------ answers


def _answer(expected: dict[str, Any], findings: tuple[Finding, ...]) -> list[str] | None:
    """What the best fitting finding lacks; None: there is none."""
    fitting = [one for one in findings if _is_about(one, expected)]
    if not fitting:
        return None
    return min((_lacks(one, expected) for one in fitting), key=len)


def _is_about(finding: Finding, expected: dict[str, Any]) -> bool:
    if "rule" in expected and finding.rule != expected["rule"]:
        return False
    return "subject" not in expected or finding.subject == expected["subject"]


def _lacks(finding: Finding, expected: dict[str, Any]) -> list[str]:
    found = []
    if finding.severity != expected.get("severity", finding.severity):
        found.append(f"{finding.rule}: {finding.severity} instead of {expected['severity']}")
    found += [
        f"{finding.rule}: does not say {word!r}"
        for word in expected.get("says", ())
        if not _says(finding, word)
    ]
    first = _fix_text(finding.fixes[0]) if finding.fixes else ""
    found += [
        f"{finding.rule}: first fix lacks {part!r}"
        for part in expected.get("first", ())
        if part.lower() not in first
    ]
    lasting = "\n".join(_fix_text(fix) for fix in finding.fixes if fix.persistent)
    found += [
        f"{finding.rule}: no persistent {part!r}"
        for part in expected.get("persistent", ())
        if part.lower() not in lasting
    ]
    return found


def _key(expected: dict[str, Any]) -> str:
    return f"{expected.get('rule', 'any rule')} {expected.get('subject', '')}".strip()


def _says(finding: Finding, phrase: str) -> bool:
    evidence = (f"{one.what}: {one.value}" for one in finding.evidence)
    text = "\n".join(
        (finding.title, finding.why, *evidence, *(_fix_text(fix) for fix in finding.fixes))
    )
    return phrase.lower() in text.lower()


def _fix_text(fix: Fix) -> str:
    return "\n".join((fix.title, *map(str, fix.commands), fix.note)).lower()
