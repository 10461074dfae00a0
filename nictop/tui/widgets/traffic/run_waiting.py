"""What the page of a run shows in the place of its chart before anything was measured, or if
nothing was.

Nothing is measured yet
✓ checking iperf3 on both hosts, and the path between them          2 s
◌ starting the server on vm2                                        3 s
Last result, vm1 → vm2: 9.41 Gb/s received by vm2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from nictop.model.facts import fit, wrap
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_dataclasses import dataclass
from nictop.tui.widgets.base.line_widget import SpanLine

WAITING = "◌"
TIME_CELLS = 8
MAX_STAGE_CELLS = 72
"""Of a stage: its time stays beside it on a wide screen."""


@dataclass(frozen=True)
class RunStage:
    """A stage of a run: what is done, and for how long."""

    sentence: str
    seconds: float
    state: Literal["done", "partly", "active", "failed"]
    """partly: something of it was not done. failed: it was not carried out to its end."""


@dataclass(frozen=True)
class RunWaiting:
    """What is drawn; no line is empty of meaning: "" and () are left out."""

    title: str = ""
    failure: str = ""
    """Why nothing was measured."""
    stages: Sequence[RunStage] = ()
    texts: Sequence[str] = ()
    """What comes next, what can be done, the last result."""


def draw_waiting(
    waiting: RunWaiting, cells: int, *, rows: int | None = None, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """Lines of at most `cells` cells. `rows`: how many are seen; the stage that is carried out now,
    or failed, is one of them; None: all."""
    lines = [
        *_text_lines(waiting.title, "title", cells, glyphs),
        *_text_lines(waiting.failure, "bad", cells, glyphs),
    ]
    stages = [_stage_line(stage, cells, glyphs) for stage in waiting.stages]
    if stages and rows is not None:
        missing = max(0, len(lines) + len(stages) - rows)
        stages = stages[min(missing, len(stages) - 1) :]
        lines = lines[: max(0, rows - len(stages))]
    lines += stages
    for text in waiting.texts:
        lines += _text_lines(text, "", cells, glyphs)
    return lines


def _text_lines(text: str, style: str, cells: int, glyphs: Glyphs) -> list[SpanLine]:
    if not text:
        return []
    return [((f" {part}", style),) for part in wrap(glyphs.text(text), max(10, cells - 2))]


def _stage_line(stage: RunStage, cells: int, glyphs: Glyphs) -> SpanLine:
    marks = {
        "done": (glyphs.passed, "good"),
        "partly": (glyphs.warning, "warn"),
        "active": (glyphs.encode(WAITING), ""),
        "failed": (glyphs.critical, "bad"),
    }
    mark, style = marks[stage.state]
    room = max(1, min(MAX_STAGE_CELLS, cells - TIME_CELLS - 4))
    time = f"{int(stage.seconds)} s"
    return (
        (f" {mark} ", style),
        (glyphs.encode(fit(glyphs.text(stage.sentence), room)), ""),
        (fit(time, TIME_CELLS, "right"), "dim"),
    )
