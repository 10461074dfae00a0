"""``nictop check --format markdown``: the findings, for a ticket or a chat.

Reads nothing. Text from hosts cannot become Markdown or HTML: it is cleaned, and every character with a meaning is
escaped; the fences of commands are longer than any run of backquotes in them. It does not become a link either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from nictop.model.facts import clean
from nictop.report.facts.hosts import UnreachableHost
from nictop.report.findings.check import (
    NO_HOST_ANSWERED,
    checked_host,
    checked_host_text,
    unreachable_host_text,
    verdict_beside,
)
from nictop.rules import Diagnosis, Finding, Fix, HostFacts
from nictop.rules.wording import (
    SEVERITY_LABELS,
    checks_text,
    headline,
    place_text,
    severity_mark,
    subject_text,
    verdict_text,
)

MARKDOWN_CHARACTERS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~&:@$^=/])")
BACKQUOTE_RUN = re.compile("`+")
SAFE_PUNCTUATION = re.compile(r"(?<=\w)[-:](?=\w)|(?<=\w)\.(?=\d|\s|$)|[:()](?=\s|$)|(?<!/)/(?!/)")
"""Punctuation of sentences and numbers that has no meaning in Markdown at that position. A point before a letter may be
in a domain name, two slashes in a URL: renderers make links of both."""
MENTION = "\\@<!-- -->"
"""GitHub finds mail addresses and names of users after it has read the escapes: only markup behind the character ends
them. It shows nothing of a comment."""


def check_markdown(
    hosts: Sequence[HostFacts],
    diagnosis: Diagnosis,
    unreachable: Sequence[UnreachableHost] = (),
    *,
    skipped: bool = False,
    beside: str = "",
) -> str:
    """Hosts, the verdict, one section per finding; with a final newline. `skipped`: list the skipped checks. `beside`:
    what is wrong although the checks may find nothing."""
    several = len(hosts) + len(unreachable) > 1
    lines = ["## nictop check", ""]
    lines += [f"- {escape_markdown(checked_host_text(checked_host(host)))}" for host in hosts]
    lines += [f"- {escape_markdown(unreachable_host_text(host))}" for host in unreachable]
    unread = [host.host for host in unreachable]
    verdict = verdict_text(diagnosis, unread=unread)[0]
    verdict = verdict_beside(verdict, beside)
    found = f"**{escape_markdown(verdict)}** ({escape_markdown(checks_text(diagnosis, unread))})"
    lines += ["", found if hosts else f"**{NO_HOST_ANSWERED}**"]
    for finding in diagnosis.findings:
        lines += ["", *finding_markdown(finding, several)]
    if skipped and diagnosis.skipped:
        lines += ["", "### Skipped checks", ""]
        for one in diagnosis.skipped:
            about = subject_text(one, several_hosts=several) if one.subject or several else ""
            about = f" ({escape_markdown(about)})" if about else ""
            lines.append(f"- {inline_code(one.rule)}{about}: {escape_markdown(one.reason)}")
    return "\n".join(lines) + "\n"


def finding_markdown(finding: Finding, several: bool) -> Iterator[str]:
    """A section. `several`: with the name of its host."""
    word, title = SEVERITY_LABELS[finding.severity].word, headline(finding, several_hosts=several)
    yield f"### {severity_mark(finding.severity)} {word}: {escape_markdown(title)}"
    yield ""
    yield escape_markdown(finding.why)
    if finding.evidence:
        yield ""
        yield "| evidence | value | source |"
        yield "|---|---|---|"
        for one in finding.evidence:
            yield f"| {escape_markdown(one.what)} | {escape_markdown(one.value)} | {escape_markdown(one.source)} |"
    for fix in finding.fixes:
        yield ""
        yield from _fix(finding, fix)
    yield ""
    yield f"Rule {inline_code(finding.rule)}"


def _fix(finding: Finding, fix: Fix) -> Iterator[str]:
    yield f"**{escape_markdown(fix.title)}** ({escape_markdown(place_text(finding.host, fix))})"
    yield from fenced_block(map(str, fix.commands))
    if fix.note:
        yield ""
        yield escape_markdown(fix.note)
    if fix.undo:
        yield ""
        yield "Undo:"
        yield from fenced_block(map(str, fix.undo))


def fenced_block(commands: Iterable[str]) -> Iterator[str]:
    """A blank line, then a fenced block of cleaned commands that no command can end; no lines without commands."""
    cleaned = [clean(command) for command in commands]
    if cleaned:
        fence = "`" * max(3, 1 + max((len(run) for one in cleaned for run in BACKQUOTE_RUN.findall(one)), default=0))
        yield ""
        yield fence
        yield from cleaned
        yield fence


def escape_markdown(text: str) -> str:
    """Cleaned text in which no character is Markdown or HTML, and no word becomes a link (GFM autolinks)."""
    return MARKDOWN_CHARACTERS.sub(_escaped, clean(text))


def _escaped(match: re.Match[str]) -> str:
    if match[0] == "@":
        return MENTION
    return match[0] if SAFE_PUNCTUATION.match(match.string, match.start()) is not None else f"\\{match[0]}"


def inline_code(text: str) -> str:
    """Cleaned text as inline code."""
    cleaned = clean(text)
    fence = "`" * (1 + max((len(run) for run in BACKQUOTE_RUN.findall(cleaned)), default=0))
    pad = " " if cleaned.startswith("`") or cleaned.endswith("`") else ""
    return f"{fence}{pad}{cleaned}{pad}{fence}"
