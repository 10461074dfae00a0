"""``nictop check --format markdown``: the findings as they go into a ticket or a chat.

Reads nothing. Nothing that came from a machine is Markdown or HTML there: it is cleaned, and every character that means
something is escaped; commands stand in fences that are longer than any run of backquotes in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from nictop.model.facts import clean
from nictop.report.facts.hosts import UnreachableHost
from nictop.report.findings.check import NO_HOST_ANSWERED, checked_host, checked_host_text, unreachable_host_text
from nictop.rules import Diagnosis, Finding, Fix, HostFacts
from nictop.rules.wording import SEVERITY_WORDS, checks_words, place_words, severity_mark, subject_words, verdict_words

MARKDOWN_CHARACTERS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~&:@$^=])")
BACKQUOTE_RUN = re.compile("`+")
SAFE_PUNCTUATION = re.compile(r"(?<=\w)[-.:](?=\w)|(?<=\w)\.(?=\s|$)|[:()](?=\s|$)")
"""Marks of ordinary sentences, which mean nothing where they stand."""


def check_markdown(
    hosts: Sequence[HostFacts],
    diagnosis: Diagnosis,
    unreachable: Sequence[UnreachableHost] = (),
    *,
    skipped: bool = False,
) -> str:
    """Hosts, the verdict, one chapter per finding; with a final newline. `skipped`: list skipped checks."""
    several = len(hosts) > 1
    lines = ["## nictop check", ""]
    lines += [f"- {escape_markdown(checked_host_text(checked_host(host)))}" for host in hosts]
    lines += [f"- {escape_markdown(unreachable_host_text(host))}" for host in unreachable]
    lines += [
        "",
        f"**{verdict_words(diagnosis)[0]}** ({checks_words(diagnosis)})" if hosts else f"**{NO_HOST_ANSWERED}**",
    ]
    for finding in diagnosis.findings:
        lines += ["", *_chapter(finding, several)]
    if skipped and diagnosis.skipped:
        lines += ["", "### Skipped checks", ""]
        for one in diagnosis.skipped:
            about = subject_words(one, several_hosts=several) if one.subject or several else ""
            about = f" ({escape_markdown(about)})" if about else ""
            lines.append(f"- {inline_code(one.rule)}{about}: {escape_markdown(one.reason)}")
    return "\n".join(lines) + "\n"


def _chapter(finding: Finding, several: bool) -> Iterator[str]:
    words = SEVERITY_WORDS[finding.severity]
    subject = subject_words(finding, several_hosts=several)
    yield f"### {severity_mark(finding.severity)} {words.word}: {escape_markdown(f'{subject} {finding.title}')}"
    yield ""
    yield escape_markdown(finding.why)
    if finding.evidence:
        yield ""
        yield "| seen | value | read from |"
        yield "|---|---|---|"
        for one in finding.evidence:
            yield f"| {escape_markdown(one.what)} | {escape_markdown(one.value)} | {escape_markdown(one.source)} |"
    for fix in finding.fixes:
        yield ""
        yield from _fix(finding, fix)
    yield ""
    yield f"Rule {inline_code(finding.rule)}"


def _fix(finding: Finding, fix: Fix) -> Iterator[str]:
    yield f"**{escape_markdown(fix.title)}** ({escape_markdown(place_words(finding, fix))})"
    yield from fenced_block(map(str, fix.commands))
    if fix.note:
        yield ""
        yield escape_markdown(fix.note)
    if fix.undo:
        yield ""
        yield "To undo it:"
        yield from fenced_block(map(str, fix.undo))


def fenced_block(commands: Iterable[str]) -> Iterator[str]:
    """Clean commands between fences that none of them can end, a blank line before; nothing of none."""
    shown = [clean(command) for command in commands]
    if shown:
        fence = "`" * max(3, 1 + max((len(run) for one in shown for run in BACKQUOTE_RUN.findall(one)), default=0))
        yield ""
        yield fence
        yield from shown
        yield fence


def escape_markdown(text: str) -> str:
    """Clean text in which no character is Markdown or HTML."""
    return MARKDOWN_CHARACTERS.sub(_escaped, clean(text))


def _escaped(found: re.Match[str]) -> str:
    return found[0] if SAFE_PUNCTUATION.match(found.string, found.start()) is not None else f"\\{found[0]}"


def inline_code(text: str) -> str:
    """Clean text as code."""
    shown = clean(text)
    fence = "`" * (1 + max((len(run) for run in BACKQUOTE_RUN.findall(shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"
