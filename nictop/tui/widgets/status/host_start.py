"""What a view shows of a host before there is anything else: if it failed, why and what comes next;
what was reached already, and what is waited for, each with its time.

 vm1: logging in, 4 s
 ✓ resolve the name     vm1.example              0.1 s
 ✓ connect              192.0.2.1 port 22        0.3 s
 ◌ log in               root                       4 s
 · start the probe
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.hosts.session import HostSession
from nictop.hosts.start import LABELS, StartStep, StepState
from nictop.model.facts import fit
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.tui.keys import KeyLabels, default_label
from nictop.tui.widgets.base.line_widget import SpanLine, wrapped_lines

STATE_STYLES: dict[StepState, str] = {
    "done": "good",
    "active": "",
    "failed": "bad",
    "waiting": "dim",
}
WAITING = "◌"
LABEL_CELLS = max(map(len, LABELS.values())) + 2
TIME_CELLS = 9
MAX_TARGET_CELLS = 40
"""Of a name or address: the times stay beside the steps on a wide screen."""
MIN_SHOWN_SECONDS, SHORT_SECONDS = 0.1, 10.0
"""Between these a step that is done has tenths of a second."""


def draw_host_start(
    host: HostSession,
    now: float,
    interval: float,
    cells: int,
    *,
    labels: KeyLabels = default_label,
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """The steps of a host that is not read yet, in lines of `cells` cells. `now`, `interval`: see
    `HostSession.status`."""
    status = host.status_text(now, interval)
    lines: list[SpanLine] = [((f" {glyphs.text(f'{host.name}: {status}')}", "title"),)]
    return [
        *lines,
        *_failure_lines(host, now, cells, labels, glyphs),
        *draw_steps(host, now, cells, glyphs=glyphs),
    ]


def draw_steps(
    host: HostSession, now: float, cells: int, *, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """The steps alone; none before the first attempt."""
    if not host.start.has_begun:
        return []
    steps = [*host.start.steps(now), StartStep("checks", "waiting")]
    return [_step_line(step, cells, glyphs) for step in steps]


def _step_line(step: StartStep, cells: int, glyphs: Glyphs) -> SpanLine:
    """Mark, what is done, what it is about, and its time."""
    marks: dict[StepState, str] = {
        "done": glyphs.passed,
        "active": glyphs.encode(WAITING),
        "failed": glyphs.critical,
        "waiting": glyphs.idle,
    }
    tone = STATE_STYLES[step.state]
    name = fit(LABELS[step.name], LABEL_CELLS)
    text_tone = "dim" if step.state == "waiting" else ""
    room = max(0, min(MAX_TARGET_CELLS, cells - LABEL_CELLS - TIME_CELLS - 4))
    target = glyphs.encode(fit(glyphs.text(step.target), room))
    time = fit(_time_text(step), TIME_CELLS, "right")
    return (f" {marks[step.state]} ", tone), (name, text_tone), (target, "dim"), (time, text_tone)


def _time_text(step: StartStep) -> str:
    """``0.3 s``; of what is running whole seconds; "": not known."""
    if step.seconds is None:
        return ""
    if step.state == "active":
        return f"{int(step.seconds)} s"
    if step.seconds < MIN_SHOWN_SECONDS:
        return f"<{MIN_SHOWN_SECONDS:g} s"
    if step.seconds < SHORT_SECONDS:
        return units.duration(round(step.seconds, 1))
    return units.duration(round(step.seconds))


def _failure_lines(
    host: HostSession, now: float, cells: int, labels: KeyLabels, glyphs: Glyphs
) -> Sequence[SpanLine]:
    """Why it is not reached, and what comes next."""
    if not host.reason:
        return ()
    reason, _, advice = host.reason.partition("; ")
    texts = [(reason, "bad")]
    if advice:
        texts.append((f"Hint: {advice}", ""))
    next_text = _next_text(host, now, labels)
    if next_text:
        texts.append((next_text, ""))
    lines: list[SpanLine] = []
    for text, tone in texts:
        lines += wrapped_lines(glyphs.text(text), max(10, cells - 2), tone)
    return [*lines, ((" ", ""),)]


def _next_text(host: HostSession, now: float, labels: KeyLabels) -> str:
    """What nictop does next."""
    key = labels("hosts")
    hint = f"Press {key} for the list of hosts: change, add or reconnect one."
    if host.retry_at is not None:
        return f"Next attempt in {max(0, round(host.retry_at - now))} s. {hint}"
    if host.snapshot.state == "failed":
        return f"nictop does not try again by itself. {hint}"
    return ""
