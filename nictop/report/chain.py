"""The chain of a NIC (`nictop.rules.chain`) in lines: ``slot ✓ 8 GT/s ×8 │ driver ✓ ixgbevf │ …``.

Pure. Texts of a host are sanitized here.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.chain import ChainState, Step
from nictop.model.facts import Tone, clean, fit, width
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.report.document import PartLine, Toned
from nictop.rules.chain import ChainStep
from nictop.rules.finding import Severity
from nictop.rules.wording import severity_mark

TONES: dict[ChainState, Tone] = {
    "passed": "good",
    "finding": "warn",
    "failed": "warn",
    "unknown": "dim",
    "none": "dim",
    "waits": "dim",
}
SEVERITY_TONES: dict[Severity, Tone] = {"critical": "bad", "warning": "warn", "info": "normal"}
UNKNOWN_MARK = "?"
DROPPED: tuple[Step, ...] = (
    *("name", "slot", "peers", "port", "gateway", "profile", "driver", "address", "link"),
    *("vlan", "parent"),
)
"""Whose texts are left out first where there is no room, if they have passed."""
CUT = "…"
TEXT_CELLS = (40, 24, 16, 12)
"""Of the text of a step: the most with which the chain has few enough lines."""


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
    chain: Sequence[ChainStep], cells: int, *, glyphs: Glyphs = UNICODE, most: int = 2
) -> list[list[ChainPart]]:
    """The parts of each line: at most `most` lines of `cells` cells as far as they can be that few;
    for it texts of steps that have passed are left out, then all are cut, then those that say why
    there is nothing or nothing is known are left out, one after the other."""
    lines: list[list[ChainPart]] = []
    parts: list[ChainPart] = []
    separator = separator_of(glyphs)
    for text_cells in TEXT_CELLS:
        for number in range(len(DROPPED) + 1):
            dropped = DROPPED[:number]
            parts = [_part(step, text_cells, dropped, glyphs) for step in chain]
            lines = _packed(parts, cells, separator)
            if len(lines) <= most:
                return lines
    without = [number for number, step in enumerate(chain) if step.state == "none"]
    unknown = [number for number, step in enumerate(chain) if step.state == "unknown"]
    unknown.sort(key=lambda number: _rank(chain[number]))
    for left in range(len(unknown) + 1):
        for number in (*without, *unknown[:left]):
            parts[number] = replace(parts[number], text="")
        fewer = _packed(parts, cells, separator)
        if len(fewer) <= most:
            return fewer
    return lines


def _rank(step: ChainStep) -> int:
    """Of the text of a step, in the order in which they are left out."""
    return DROPPED.index(step.step) if step.step in DROPPED else -1


def chain_block(chain: Sequence[ChainStep]) -> PartLine:
    """The chain in a document."""
    parts = [_part(step, TEXT_CELLS[0], (), UNICODE) for step in chain]
    return PartLine(tuple(Toned(str(part), part.tone) for part in parts))


def separator_of(glyphs: Glyphs = UNICODE) -> str:
    return f" {glyphs.axis} "


def chain_text(chain: Sequence[ChainStep], cells: int, *, glyphs: Glyphs = UNICODE) -> list[str]:
    """The same as text, one for each line."""
    lines = chain_lines(chain, cells, glyphs=glyphs)
    return [separator_of(glyphs).join(map(str, parts)) for parts in lines]


def _part(step: ChainStep, text_cells: int, dropped: Sequence[Step], glyphs: Glyphs) -> ChainPart:
    text = glyphs.text(clean(step.text))
    if step.state == "passed" and step.step in dropped:
        text = ""
    elif width(text) > text_cells:
        text = glyphs.encode(fit(text, text_cells - width(glyphs.encode(CUT)) + width(CUT)))
    return ChainPart(step.step, _mark(step, glyphs), text, _tone(step))


def _mark(step: ChainStep, glyphs: Glyphs) -> str:
    if step.findings:
        return severity_mark(step.findings[0].severity, glyphs=glyphs)
    marks = {"passed": glyphs.passed, "failed": glyphs.note, "unknown": UNKNOWN_MARK}
    return marks.get(step.state, glyphs.skipped)


def _tone(step: ChainStep) -> Tone:
    if step.findings:
        return SEVERITY_TONES[step.findings[0].severity]
    return TONES[step.state]


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
