"""The findings about hosts as a document: what was checked, the verdict, each finding, and the
skipped checks.

Reads nothing; takes hosts and their diagnosis.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.snapshot import since_text
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.report.document import (
    Block,
    FindingBlock,
    Items,
    Line,
    Section,
    Table,
    Toned,
    Verdict,
    lines_of,
)
from nictop.report.facts.hosts import UnreachableHost
from nictop.report.findings.fix_command import fix_command
from nictop.report.findings.hosts import (
    NOT_COMPLETE,
    checked_host,
    checked_host_text,
    inventory_time_text,
    unreachable_host_text,
)
from nictop.rules import Diagnosis, HostFacts, Skipped
from nictop.rules.wording import SKIPPED_LABEL, checks_text, subject_text, verdict_text

NO_HOST_ANSWERED = "no checks ran: no host was read to the end"
LIST_HINT = "list: nictop check --skipped"
REASON_INDENT, NAMES_INDENT = 2, 11
"""Cells before what is said of skipped checks in a text."""


def findings_section(
    hosts: Sequence[HostFacts],
    diagnosis: Diagnosis,
    unreachable: Sequence[UnreachableHost] = (),
    *,
    skipped: bool = False,
    beside: str = "",
) -> Section:
    """For a page. `skipped`: list the skipped checks. `beside`: what is wrong although the checks
    may find nothing."""
    several = len(hosts) + len(unreachable) > 1
    blocks: list[Block] = [
        checked_hosts(hosts, unreachable),
        verdict_of(hosts, diagnosis, unreachable, beside=beside),
        *(FindingBlock(finding, several) for finding in diagnosis.findings),
    ]
    if skipped and diagnosis.skipped:
        blocks.append(skipped_section(diagnosis, several))
    return Section(
        tuple(blocks), "Findings", command="nictop check", anchor="findings", entry="Findings"
    )


def findings_blocks(
    hosts: Sequence[HostFacts],
    diagnosis: Diagnosis,
    unreachable: Sequence[UnreachableHost] = (),
    *,
    skipped: bool = False,
    glyphs: Glyphs = UNICODE,
    applies: bool = False,
) -> tuple[Block, ...]:
    """For a terminal: the verdict is the last of it. `skipped`: name the skipped checks, not only
    their number. `applies`: with the commands that apply fixes, which need live hosts."""
    several = len(hosts) + len(unreachable) > 1
    names = [host.name for host in hosts]
    left_out = named_skipped(diagnosis, several) if skipped else number_of_skipped(diagnosis)
    return (
        checked_hosts(hosts, unreachable),
        *(
            FindingBlock(
                finding,
                several,
                fix_command(finding, diagnosis.findings, names) if applies else None,
            )
            for finding in diagnosis.findings
        ),
        Section((verdict_of(hosts, diagnosis, unreachable, glyphs=glyphs), *left_out)),
    )


def checked_hosts(hosts: Sequence[HostFacts], unreachable: Sequence[UnreachableHost]) -> Items:
    """A line for each host."""
    checked = lines_of(checked_host_text(checked_host(host)) for host in hosts)
    return Items((*checked, *lines_of(map(unreachable_host_text, unreachable), "bad")))


def verdict_of(
    hosts: Sequence[HostFacts],
    diagnosis: Diagnosis,
    unreachable: Sequence[UnreachableHost],
    *,
    beside: str = "",
    glyphs: Glyphs = UNICODE,
) -> Verdict:
    """What the checks found in all, and how many ran."""
    if not hosts:
        return Verdict(NO_HOST_ANSWERED, tone="bad")
    unread = [host.host for host in unreachable]
    for host in hosts:
        if host.snapshot.unread_event:
            unread.append(host.name + since_text(host.snapshot))
        elif host.snapshot.incomplete:
            unread.append(f"{host.name} ({NOT_COMPLETE})")
    text, tone = verdict_text(diagnosis, unread=unread, glyphs=glyphs)
    doubtful = sum(finding.outdated for finding in diagnosis.findings)
    if doubtful:
        text += f", {doubtful} of these may have changed"
    checks = checks_text(diagnosis, unread)
    read = "" if diagnosis.findings else inventory_time_text(hosts)
    if read:
        checks += f"; {read}"
    if beside:
        return Verdict(verdict_beside(text, beside), checks)
    return Verdict(text, checks, tone)


def verdict_beside(verdict: str, tests: str) -> str:
    """The verdict of the checks behind that of failed tests, without its tick: ``✖ 1 of 2 tests
    failed; checks: No problems found``."""
    mark, _, words = verdict.partition(" ")
    has_mark = mark in (UNICODE.passed, UNICODE.note)
    return f"{tests}; checks: {words if has_mark else verdict}"


# ----------------------------------------------------------------------------------- skipped checks


def skipped_section(diagnosis: Diagnosis, several: bool) -> Section:
    """Each skipped check in a row."""
    rows = [
        (Toned(check.rule, "code"), subject_text(check, several_hosts=several), check.reason)
        for check in diagnosis.skipped
    ]
    table = Table(("rule", "subject", "reason"), tuple(rows), left=3)
    return Section((table,), f"Skipped checks: {number_of_rules(diagnosis.skipped)}", form="fold")


def number_of_skipped(diagnosis: Diagnosis) -> tuple[Block, ...]:
    """The reasons for which checks were skipped, each with the number of checks."""
    if not diagnosis.skipped:
        return ()
    reasons = [
        f"{number_of_rules(skipped)} skipped: {reason}"
        for reason, skipped in skipped_by_reason(diagnosis).items()
    ]
    return (Items(lines_of([*reasons, LIST_HINT]), indent=REASON_INDENT),)


def named_skipped(diagnosis: Diagnosis, several: bool) -> tuple[Block, ...]:
    """The reasons, each with the names of its checks."""
    blocks: list[Block] = []
    for reason, skipped in skipped_by_reason(diagnosis).items():
        names = ", ".join(skipped_name(check, several) for check in skipped)
        blocks += (Line(f"{SKIPPED_LABEL}: {reason}"), Items((Line(names),), indent=NAMES_INDENT))
    return tuple(blocks)


def skipped_name(skipped: Skipped, several: bool) -> str:
    """``rule (vm1 ens224)``; without its subject if that is the only host."""
    if not skipped.subject and not several:
        return skipped.rule
    about = subject_text(skipped, several_hosts=several)
    if not about:
        return skipped.rule
    return f"{skipped.rule} ({about})"


def number_of_rules(skipped: Sequence[Skipped]) -> int:
    """A check that was skipped for several subjects counts once."""
    return len({check.rule for check in skipped})


def skipped_by_reason(diagnosis: Diagnosis) -> dict[str, list[Skipped]]:
    """Reason → the skipped checks."""
    by_reason: dict[str, list[Skipped]] = {}
    for skipped in diagnosis.skipped:
        by_reason.setdefault(skipped.reason, []).append(skipped)
    return by_reason
