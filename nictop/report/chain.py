"""The chain of a NIC (`nictop.rules.chain`) in lines: ``slot ✓ 8 GT/s ×8 │ driver ✓ ixgbevf │ …``.

Pure. Texts of a host are sanitized here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.chain import ChainState, Step
from nictop.model.facts import Tone, clean, fit, width
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_dataclasses import dataclass
from nictop.report.document import PartLine, Toned
from nictop.rules.chain import ChainStep
from nictop.rules.finding import Severity
from nictop.rules.wording import UNKNOWN_MARK, severity_mark

TONES: dict[ChainState, Tone] = {
    "passed": "good",
    "finding": "warn",
    "failed": "warn",
    "unknown": "dim",
    "none": "dim",
    "waits": "dim",
}
SEVERITY_TONES: dict[Severity, Tone] = {"critical": "bad", "warning": "warn", "info": "normal"}
MOST_IMPORTANT: tuple[Step, ...] = (
    *("guest", "other end", "ports", "link", "address", "driver", "profile", "gateway", "port"),
    *("parent", "vlan", "peers", "slot", "name", "load"),
)
"""Steps that have passed, in the order in which they are given room for their texts."""
CUT = "…"
TEXT_CELLS = (40, 24, 16, 12)
"""Of the text of a step: what is tried."""
MIN_CUT_CELLS = 24
"""Fewer are not enough for a part of what has passed: half an address is none."""
LINES, LINE_CELLS = 2, 79
"""A chain takes so many lines of so many cells, and as much room in narrower ones."""


@dataclass(frozen=True)
class ChainPart:
    """One step as it is drawn: ``driver``, ``✓``, ``ixgbevf``."""

    name: str
    mark: str
    text: str
    tone: Tone
    """Of the mark."""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.name, self.mark, self.text)))


def chain_lines(
    chain: Sequence[ChainStep], cells: int, *, glyphs: Glyphs = UNICODE
) -> list[list[ChainPart]]:
    """The parts of each line, in `LINES` lines, or as many as the names of the steps need. In these
    first what is wrong has its text, as long as it can be; then the others, as far as there is
    room."""
    most = max(LINES, -(-LINES * LINE_CELLS // cells))
    separator = separator_of(glyphs)
    parts = [_part(step, 0, glyphs) for step in chain]
    lines = _packed(parts, cells, separator)
    most = max(most, len(lines))
    for index, text_cells in _attempts(chain):
        part = _part(chain[index], text_cells, glyphs)
        if width(part.text) <= width(parts[index].text):
            continue
        tried = [*parts[:index], part, *parts[index + 1 :]]
        packed = _packed(tried, cells, separator)
        if len(packed) <= most and max(map(_line_width, packed)) <= cells:
            parts, lines = tried, packed
    return lines


def _attempts(chain: Sequence[ChainStep]) -> Iterator[tuple[int, int]]:
    """Index of a step, and how many cells its text is to have: in this order, as far as there is
    room."""
    order = sorted(range(len(chain)), key=lambda index: _importance(chain[index]))
    longest, *others = TEXT_CELLS
    for index in order:
        if _importance(chain[index])[0] == 0:
            yield index, longest
        for text_cells in others:
            yield index, text_cells
    for index in order:
        yield index, longest


def _importance(step: ChainStep) -> tuple[int, int]:
    """The least comes first: what is wrong, why something is not known, what has passed, and why
    there is nothing."""
    if step.state in ("finding", "failed"):
        return 0, 0
    if step.state == "passed":
        return 2, MOST_IMPORTANT.index(step.step)
    return (1 if step.state == "unknown" else 3), 0


def chain_block(chain: Sequence[ChainStep]) -> PartLine:
    """The chain in a document."""
    parts = [_part(step, TEXT_CELLS[0], UNICODE) for step in chain]
    return PartLine(tuple(Toned(str(part), part.tone) for part in parts))


def separator_of(glyphs: Glyphs = UNICODE) -> str:
    return f" {glyphs.axis} "


def chain_text(chain: Sequence[ChainStep], cells: int, *, glyphs: Glyphs = UNICODE) -> list[str]:
    """The same as text, one for each line."""
    lines = chain_lines(chain, cells, glyphs=glyphs)
    return [separator_of(glyphs).join(map(str, parts)) for parts in lines]


def _part(step: ChainStep, text_cells: int, glyphs: Glyphs) -> ChainPart:
    text = glyphs.text(clean(step.text))
    if width(text) > text_cells:
        text = _cut_text(step, text, text_cells, glyphs)
    return ChainPart(step.step, _mark(step, glyphs), text, _tone(step))


def _cut_text(step: ChainStep, text: str, text_cells: int, glyphs: Glyphs) -> str:
    """ "": so few cells say nothing."""
    least = MIN_CUT_CELLS if step.state == "passed" else TEXT_CELLS[-1]
    if text_cells < least:
        return ""
    return glyphs.encode(fit(text, text_cells - width(glyphs.encode(CUT)) + width(CUT)))


def _is_doubtful(step: ChainStep) -> bool:
    """It is not known, or its worst finding may have changed."""
    if step.state == "finding":
        return step.findings[0].outdated
    return step.state == "unknown"


def _mark(step: ChainStep, glyphs: Glyphs) -> str:
    """ "?" before that of a finding, as in the list of the findings."""
    if _is_doubtful(step):
        return UNKNOWN_MARK
    if step.findings:
        return severity_mark(step.findings[0].severity, glyphs=glyphs)
    marks = {"passed": glyphs.passed, "failed": glyphs.note, "unknown": UNKNOWN_MARK}
    return marks.get(step.state, glyphs.skipped)


def _tone(step: ChainStep) -> Tone:
    if _is_doubtful(step):
        return TONES["unknown"]
    if step.findings:
        return SEVERITY_TONES[step.findings[0].severity]
    return TONES[step.state]


def _line_width(parts: Sequence[ChainPart]) -> int:
    """In cells, in Unicode or ASCII: separators are as wide in both."""
    return sum(width(str(part)) for part in parts) + (len(parts) - 1) * width(separator_of())


def _packed(parts: Sequence[ChainPart], cells: int, separator: str) -> list[list[ChainPart]]:
    lines: list[list[ChainPart]] = []
    used = cells
    for part in parts:
        needed = width(separator) + width(str(part))
        if used + needed > cells or not lines:
            lines.append([])
            used = -width(separator)
        lines[-1].append(part)
        used += needed
    return lines
