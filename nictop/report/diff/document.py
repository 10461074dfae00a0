"""The differences of two states as a document, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from nictop import __version__
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import clean, fit, width, wrap
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import dataclass
from nictop.report.diff.compare import (
    Difference,
    HostDifferences,
    NicDifferences,
)
from nictop.report.diff.findings import OneSidedFinding
from nictop.report.document import Block, Document, Items, Line, Section, Table, Verdict
from nictop.report.html.page import html_document
from nictop.report.json import json_schema, json_text
from nictop.report.render.markdown import markdown_of
from nictop.report.render.text import text_of
from nictop.rules.wording import severity_mark

MIN_VALUE_CELLS = 20
MISSING = "–"
"""In place of a fact that one side does not have."""
UNKNOWN = "?"
"""In place of a fact that is not known on one side."""
FINDING_SECTIONS = (
    ("findings of one side", False, False, False),
    ("findings of both sides, with another severity or title", False, False, True),
    ("findings between both hosts", True, False, False),
    ("findings of one side, not checked on the other", False, True, False),
)
"""(title, `OneSidedFinding.needs_both`, `is_unchecked_there`, `differs_there`)"""
NOT_BETWEEN = "Findings between both hosts are not checked: the sides are of different times"
MISSING_NOTE = f"{MISSING}: none on that side"
ALL_OPTION = "--all"
NO_DIFFERENCE = "No difference beyond names, addresses and counters"
NO_CHANGE = "No difference beyond counters and times"
AS_READ = " in what was read"
"""Where something was not read, or earlier than the rest (`HostDifferences.notes`)."""


@dataclass(frozen=True)
class DiffDocument:
    """What ``nictop diff --format json`` prints."""

    nictop: str
    """Version of the program that wrote it."""
    differences: int
    """How much is known to differ beyond what is expected."""
    unknown: int
    """How much may differ: what is not known on one side, or was not checked there."""
    diff: HostDifferences


def diff_json(diff: HostDifferences) -> str:
    return json_text(DiffDocument(__version__, diff.number, diff.number_unknown, diff))


def diff_schema() -> str:
    return json_schema(DiffDocument)


def diff_text(
    diff: HostDifferences,
    columns: int,
    *,
    everything: bool = False,
    glyphs: Glyphs = UNICODE,
    hint: str = ALL_OPTION,
) -> str:
    """`hint`: what lists the expected differences."""
    blocks = diff_blocks(diff, everything=everything, glyphs=glyphs, hint=hint)
    return text_of(blocks, columns, glyphs)


def diff_html(diff: HostDifferences, *, everything: bool = False) -> str:
    """A page of its own."""
    title = f"What differs: {clean(diff.left)} and {clean(diff.right)}"
    blocks = diff_blocks(diff, everything=everything)
    return html_document(Document(title, f"nictop diff, nictop {__version__}", blocks))


def diff_markdown(diff: HostDifferences, *, everything: bool = False) -> str:
    section = Section(
        diff_blocks(diff, everything=everything), "nictop diff", command="nictop diff"
    )
    return markdown_of([section])


def diff_blocks(
    diff: HostDifferences,
    *,
    everything: bool = False,
    glyphs: Glyphs = UNICODE,
    hint: str = ALL_OPTION,
) -> tuple[Block, ...]:
    """`everything`: also the expected differences; `hint`: what lists them."""
    names = (diff.left, diff.right)
    blocks: list[Block] = [Line(f"{diff.left} · {diff.right}"), _verdict(diff)]
    blocks += [Line(note, "warn") for note in diff.notes]
    for title, *wanted in FINDING_SECTIONS:
        listed = [
            finding
            for finding in diff.findings
            if [finding.needs_both, finding.is_unchecked_there, finding.differs_there] == wanted
        ]
        lines = tuple(_finding_line(finding, names, glyphs) for finding in listed)
        if lines:
            blocks.append(Section((Items(lines), *_unchecked_reasons(listed, names)), title))
    if not diff.is_one_moment:
        blocks.append(Line(NOT_BETWEEN, "dim"))
    blocks += _fact_sections("host", diff.host, names, everything=everything)
    for nic in diff.nics:
        blocks += _nic_blocks(nic, names, everything=everything)
    shown = [fact for fact in diff.facts() if everything or fact.kind != "expected"]
    blocks += _legend(shown, names)
    hidden = _number_expected(diff)
    if hidden and not everything:
        differences = count_noun(hidden, "expected difference")
        what = "counters, times" if diff.is_one_host else "names, addresses, counters"
        blocks.append(Line(f"{differences} ({what}): {hint} lists them", "dim"))
    return tuple(blocks)


def _finding_line(finding: OneSidedFinding, names: tuple[str, str], glyphs: Glyphs) -> Line:
    """``⚠ vm1: ens224: title (rule)``"""
    mark = UNKNOWN if finding.outdated else severity_mark(finding.severity, glyphs=glyphs)
    subject = f"{finding.subject}: " if finding.subject else ""
    name = names[finding.side == "right"]
    text = f"{mark} {name}: {subject}{finding.title} ({finding.rule})"
    if finding.is_unchecked_there:
        text += f"; not checked on {names[finding.side == 'left']}"
    return Line(text)


def _unchecked_reasons(
    findings: Iterable[OneSidedFinding], names: tuple[str, str]
) -> Iterator[Line]:
    """``not checked on vm1: NetworkManager (D-Bus): not readable (…)``, each reason once."""
    reasons: dict[tuple[str, str], None] = {}
    for finding in findings:
        if finding.is_unchecked_there:
            reasons[names[finding.side == "left"], finding.why_unchecked] = None
    for name, reason in reasons:
        yield Line(f"not checked on {name}: {reason}", "dim")


def _legend(shown: Sequence[Difference], names: tuple[str, str]) -> Iterator[Line]:
    """What the signs in place of a value mean; each reason once."""
    reasons: dict[tuple[str, str], None] = {}
    is_missing = False
    for fact in shown:
        sides = ((fact.left, fact.left_unknown), (fact.right, fact.right_unknown))
        for name, (value, reason) in zip(names, sides, strict=True):
            if reason:
                reasons[name, reason] = None
            elif not value:
                is_missing = True
    if is_missing:
        yield Line(MISSING_NOTE, "dim")
    for name, reason in reasons:
        yield Line(f"{UNKNOWN}: not known on {name}: {reason}", "dim")


def _verdict(diff: HostDifferences) -> Verdict:
    unknown = ""
    if diff.number_unknown:
        unknown = f"; {diff.number_unknown} not known, as one side was not read or checked"
    if diff.number:
        return Verdict(f"{count_noun(diff.number, 'difference')}{unknown}", tone="warn")
    none = NO_CHANGE if diff.is_one_host else NO_DIFFERENCE
    if diff.notes or unknown:
        return Verdict(f"{none}{AS_READ}{unknown}", tone="warn")
    return Verdict(none, tone="good")


def _nic_blocks(
    nic: NicDifferences, names: tuple[str, str], *, everything: bool
) -> Iterable[Block]:
    if not nic.left or not nic.right:
        where = names[0] if nic.left else names[1]
        yield Section((Line(f"only on {where}", "warn"),), nic.left or nic.right)
        return
    title = nic.left if nic.left == nic.right else f"{nic.left} · {nic.right}"
    if nic.same:
        title += f" (same {', '.join(nic.same)})"
    yield from _fact_sections(title, nic.differences, names, everything=everything)


def _fact_sections(
    title: str, facts: Sequence[Difference], names: tuple[str, str], *, everything: bool
) -> Iterable[Block]:
    rows = []
    for fact in facts:
        if everything or fact.kind != "expected":
            label = f"{fact.section}: {fact.label}"
            left = _shown(fact.left, fact.left_unknown)
            right = _shown(fact.right, fact.right_unknown)
            rows.append((label, left, right))
    if rows:
        layout = partial(_lines, rows, names)
        table = Table(("fact", *names), tuple(rows), left=3, layout=layout)
        yield Section((table,), title)


def _shown(value: str, why_unknown: str) -> str:
    return UNKNOWN if why_unknown else value or MISSING


def _lines(
    rows: Sequence[tuple[str, str, str]], names: tuple[str, str], room: int
) -> Iterable[str]:
    """Each fact with its two values below: side by side they would not fit."""
    cells = max(width(clean(name)) for name in names)
    for fact, *values in rows:
        yield f"  {clean(fact)}"
        for name, value in zip(names, values, strict=True):
            first, *others = wrap(clean(value), max(MIN_VALUE_CELLS, room - cells - 6)) or ("",)
            yield f"    {fit(clean(name), cells)}  {first}"
            yield from (" " * (cells + 6) + line for line in others)


def _number_expected(diff: HostDifferences) -> int:
    return sum(fact.kind == "expected" for fact in diff.facts())
