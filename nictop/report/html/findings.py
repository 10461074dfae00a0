"""Findings as HTML: title, reason, evidence, commands, and commands that undo them.

Reads nothing; takes a diagnosis. Severity is shown as a mark, a word and a colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.report.findings.check import verdict_beside
from nictop.report.html.elements import LINE_END, Html, details_element, element, html_lines, join_html, table
from nictop.rules import Diagnosis, Finding, Fix
from nictop.rules.wording import SEVERITY_LABELS, checks_text, place_text, severity_mark, subject_text, verdict_text


def findings_html(diagnosis: Diagnosis, hosts: int, unread: Sequence[str] = (), *, beside: str = "") -> Html:
    """The section of findings. `hosts`: number of hosts; the name of a single one is not repeated. `unread`: names of
    those that are not checked. `beside`: what is wrong although the checks may find nothing."""
    several = hosts > 1
    verdict, tone = verdict_text(diagnosis, unread=unread)
    class_ = "verdict good" if tone == "good" and not beside else "verdict"
    verdict = verdict_beside(verdict, beside)
    return element(
        "section",
        element("h2", "Findings"),
        element(
            "p",
            element("span", verdict, class_=class_),
            f" ({checks_text(diagnosis, unread)})",
        ),
        *(finding_html(one, several) for one in diagnosis.findings),
        *_skipped(diagnosis, several),
        id_="findings",
    )


def finding_html(finding: Finding, several: bool) -> Html:
    """`several`: with the name of its host."""
    label = SEVERITY_LABELS[finding.severity]
    subject = subject_text(finding, several_hosts=several)
    mark = element("span", f"{severity_mark(finding.severity)} {label.word}", class_="mark")
    return element(
        "article",
        element("h3", mark, " ", element("bdi", subject), f": {finding.title}"),
        element("p", finding.why),
        *_evidence(finding),
        *(part for fix in finding.fixes for part in _fix(finding, fix)),
        element("p", "Rule ", element("code", finding.rule), class_="dim"),
        class_=f"finding {finding.severity}",
    )


def _evidence(finding: Finding) -> Iterator[Html]:
    if finding.evidence:
        yield table(("evidence", "value", "source"), ((one.what, one.value, one.source) for one in finding.evidence))


def _fix(finding: Finding, fix: Fix) -> Iterator[Html]:
    yield element("h4", fix.title, element("span", f" ({place_text(finding.host, fix)})", class_="place"))
    yield from command_block([str(step) for step in fix.commands])
    if fix.note:
        yield element("p", fix.note)
    if fix.undo:
        yield element("p", "Undo:")
        yield from command_block([str(step) for step in fix.undo])


def command_block(commands: Sequence[str]) -> Iterator[Html]:
    """The commands as preformatted lines; no element without commands."""
    if commands:
        yield element("pre", html_lines(commands))


def _skipped(diagnosis: Diagnosis, several: bool) -> Iterator[Html]:
    if diagnosis.skipped:
        rows = (
            (element("code", one.rule), subject_text(one, several_hosts=several), one.reason)
            for one in diagnosis.skipped
        )
        number = len({one.rule for one in diagnosis.skipped})
        yield details_element(
            f"Skipped checks: {number}", join_html([table(("rule", "subject", "reason"), rows)], LINE_END)
        )
