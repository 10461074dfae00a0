"""One change in full: the plan, then the time until it is rolled back, and the checks of its result.

 ✓ Applied
 Rolls back in 23 s unless you keep it     ███████████████░░░░░░
 ✓ Host still reachable
 ✓ Finding resolved
 ens224   RX 9.41 Gb/s   TX 21.3 Mb/s   drops 0/s
── Applied ───────────────────────────────────────────
1. ethtool -L ens224 combined 4
     previous     combined 1
     current      combined 4
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from nictop.changes.actions import command_of
from nictop.changes.events import NOTHING_CHANGED, ChangeTimeouts
from nictop.changes.job import ChangeJob
from nictop.changes.progress import ChangeProgress
from nictop.changes.wording import (
    APPLIED_LABELS,
    LABEL_INDENT,
    LOST_TEXT,
    PLANNED_LABELS,
    UNKNOWN_LABELS,
    WARNING_LABEL,
    outcome_text,
    plan_lines,
)
from nictop.model.devices.rights import is_root
from nictop.model.facts import width, wrap
from nictop.model.rates.links import sum_known
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.glyphs import Glyphs
from nictop.model.text.units import whole_seconds
from nictop.rules import Fix
from nictop.rules.fixes.commands import Command
from nictop.rules.wording import LINE_CONTINUATION, command_lines, filled_note, headline
from nictop.tui.widgets.base.line_view import Span, SpanLine, section_line
from nictop.tui.widgets.findings.page import COMMAND_INDENT

LIMITS = ChangeTimeouts()
MAX_COUNTDOWN_CELLS = 40
URGENT_SECONDS = 10.0
"""Time left below which the countdown is drawn as a warning."""
OUTCOME_STYLES = {
    "kept": "good",
    "undone": "good",
    "restarted": "warn",
    "cancelled": "dim",
    "refused": "warn",
    "unreachable": "warn",
    "unknown": "warn",
    "failed": "bad",
}
"""Outcome of a change → style."""
UNCHANGED_OUTCOMES = ("undone", "restarted", "refused", "cancelled", "unreachable")
"""Outcomes after which the values are those from before."""
WARNING_PREFIX = LABEL_INDENT + WARNING_LABEL


DISABLED_REASON = "changes are disabled (add --allow-changes)"
"""Why a button is disabled."""


def disabled_text(host: str, snapshot: Snapshot | None) -> str:
    """How changes of a host are enabled. `snapshot`: its newest one."""
    root = " They need root (--sudo)." if snapshot is not None and is_root(snapshot) is False else ""
    return (
        f"Changes are disabled for {host}. To enable them: nictop --allow-changes …, or allow_changes = true below "
        f"[hosts.{host}] in ~/.config/nictop/config.toml.{root}"
    )


class ChangePage:
    """Draws one change, `cells` cells wide. `is_allowed`: False: its plan is all that is shown. `began`: when its
    present step began, CLOCK_MONOTONIC; None: not known."""

    def __init__(
        self,
        job: ChangeJob,
        progress: ChangeProgress,
        cells: int,
        *,
        glyphs: Glyphs,
        is_allowed: bool = True,
        began: float | None = None,
    ) -> None:
        self._job, self._progress, self._cells, self._glyphs = job, progress, cells, glyphs
        self._is_allowed, self._began = is_allowed, began

    def lines(self, now: float, snapshot: Snapshot | None, *, asks_twice: bool = False) -> list[SpanLine]:
        """`now`: CLOCK_MONOTONIC; `snapshot`: the newest one of the host; `asks_twice`: the second confirmation is
        asked for."""
        stage = self._progress.stage
        if asks_twice:
            return [*self._second_question(), *self._plan("Plan")]
        lines = list(self._head(now, snapshot))
        if stage in ("applying", "applied", "undoing", "disconnected") and snapshot is not None:
            lines += self._checks(snapshot)
        if stage == "ended":
            lines += self._ending()
        return lines + self._plan(_plan_title(self._progress))

    # ------------------------------------------------------------------------------------------------- its head

    def _head(self, now: float, snapshot: Snapshot | None) -> Iterator[SpanLine]:
        host, progress = self._job.host, self._progress
        if progress.stage == "preparing":
            limit = LIMITS.reply
            yield from self._marked_lines("dim", f"Reading the current values on {host}{self._time(now, limit)}")
        elif progress.stage == "prepared" and progress.decision != "apply":
            yield from self._prepared(snapshot)
        elif progress.stage in ("prepared", "applying"):
            text = "Applying" if progress.decision == "apply" else "Applying; it will be rolled back then"
            yield from self._marked_lines("dim", f"{text}{self._time(now, LIMITS.apply)}")
        elif progress.stage == "applied":
            yield from self._marked_lines("good", "Applied")
            if progress.decision == "apply":
                yield from self._countdown(now, "unless you keep it")
            else:
                text = "Keeping the change" if progress.decision == "keep" else "Rolling back"
                yield from self._marked_lines("dim", f"{text}{self._time(now)}")
        elif progress.stage == "undoing":
            yield from self._marked_lines("warn", f"Rolling back{self._time(now)}")
        elif progress.stage == "disconnected":
            yield from self._marked_lines("warn", f"Connection to {host} lost; {LOST_TEXT}")
            if progress.decision != "keep" and progress.deadline is not None and now < progress.deadline:
                yield from self._countdown(now, "at the latest")
        for trouble in progress.troubles if progress.stage != "ended" else ():
            yield from self._marked_lines("warn", trouble)

    def _time(self, now: float, limit: float | None = None) -> str:
        """``: 12 s``, ``: 12 s (at most 90 s)``: how long what is done now has taken."""
        if self._began is None:
            return ""
        most = f" (at most {whole_seconds(limit)})" if limit is not None else ""
        return f": {whole_seconds(max(0.0, now - self._began))}{most}"

    def _prepared(self, snapshot: Snapshot | None) -> Iterator[SpanLine]:
        finding = self._job.finding
        if finding is not None:
            yield from self._text(headline(finding, several_hosts=False), "title")
        for one in (*self._disturbed(), *self._job.warnings):
            yield from self._marked_lines("warn", one)
        if not self._is_allowed:
            yield from self._text(disabled_text(self._job.host, snapshot), "warn")
        else:
            yield from self._text(self._what_follows(), "")
        note = filled_note(self._job.fix)
        if note:
            yield from self._text(note, "dim")

    def _what_follows(self) -> str:
        """After it is applied."""
        wait = whole_seconds(self._progress.spec.keep_within)
        text = f"{self._job.host} rolls back automatically after {wait} unless you keep the change, or if the"
        text = "It ends by itself, and if the" if self._progress.ends_by_itself else text
        return f"Not applied yet. {text} connection drops."

    def _disturbed(self) -> tuple[str, ...]:
        """What the change may interrupt, each once."""
        return tuple(dict.fromkeys(text for action in self._progress.plan for text in action.disturbs))

    def _second_question(self) -> Iterator[SpanLine]:
        yield from self._marked_lines("bad", f"This may disconnect {self._job.host}")
        for one in self._disturbed():
            yield from self._text(one, "warn", "   ")
        text = f"If the connection drops, {self._job.host} rolls back automatically. Type yes to continue."
        yield from self._text(text, "")

    def _countdown(self, now: float, condition: str) -> Iterator[SpanLine]:
        deadline = self._progress.deadline
        if deadline is None:
            return
        left = max(0.0, deadline - now)
        words = f"Rolls back in {math.ceil(left)} s {condition}"
        text = f" {self._glyphs.text(words)}  "
        length = min(MAX_COUNTDOWN_CELLS, self._cells - width(text) - 1)
        style = "warn" if left < URGENT_SECONDS else ""
        if length < 8:
            yield from self._text(words, style)
            return
        full = min(length, math.ceil(length * left / self._progress.spec.keep_within))
        there, gone = self._glyphs.countdown
        yield ((text, style), (there * full, style or "accent"), (gone * (length - full), "dim"))

    # ---------------------------------------------------------------------------------------- checks of the result

    def _checks(self, snapshot: Snapshot) -> Iterator[SpanLine]:
        """Checks after the change, and the current traffic of its links."""
        progress = self._progress
        if progress.stage == "applied":
            if progress.read_back:
                yield from self._marked_lines("good", "Host still reachable")
            else:
                yield from self._marked_lines("dim", "Checking whether the host is reachable")
            yield from self._result()
        subjects = {one.subject for one in progress.plan} | {self._job.subject}
        links = [link for link in snapshot.links.values() if link.name in subjects]
        for link in links:
            now = snapshot.rates.links.get(link.ifindex) if snapshot.rates is not None else None
            values: list[tuple[str, str]] = []
            if now is not None:
                values = [("RX", units.bits_per_second(now.rx_bits)), ("TX", units.bits_per_second(now.tx_bits))]
                values += [("drops", units.per_second(sum_known((now.rx_dropped, now.tx_dropped, now.rx_missed))))]
                values += [("errors", units.per_second(sum_known((now.rx_errors, now.tx_errors))))]
            name = self._glyphs.text(link.name)
            spans: list[Span] = [(f" {name}  ", "title")]
            for what, value in values:
                spans += [(f" {what} ", "dim"), (f"{self._glyphs.text(value):<10}", "")]
            yield tuple(spans)

    def _result(self) -> Iterator[SpanLine]:
        progress = self._progress
        if self._job.proof is not None:
            proof = progress.proof
            if proof is None:
                yield from self._marked_lines("dim", "Checking the new values")
            else:
                yield from self._marked_lines("good" if proof.proven else "warn", proof.text)
        elif self._job.finding is not None:
            verdict = progress.verdict
            if verdict is None:
                yield from self._marked_lines("dim", "Checking whether the finding is resolved")
            elif verdict.text:
                yield from self._marked_lines("warn", f"Finding could not be checked again: {verdict.text}")
            elif verdict.gone:
                yield from self._marked_lines("good", "Finding resolved")
            else:
                yield from self._marked_lines("warn", "Finding still present")

    # ------------------------------------------------------------------------------------------------------ its end

    def _ending(self) -> Iterator[SpanLine]:
        progress, job = self._progress, self._job
        outcome = progress.outcome or "unknown"
        yield from self._marked_lines(OUTCOME_STYLES[outcome], sentence(outcome_text(outcome, progress.text)))
        for trouble in progress.troubles:
            if trouble not in progress.text:
                yield from self._text(trouble, "dim", "   ")
        if outcome == "kept" and (progress.proof is not None or progress.verdict is not None):
            yield from self._result()
        if outcome not in NOTHING_CHANGED:
            has_undo = bool(job.fix.undo) or (bool(progress.plan) and all(one.undo for one in progress.plan))
            undo = ", with the commands that undo it" if outcome == "kept" and has_undo else ""
            yield from self._text(f"Logged{undo}: nictop changes {job.host}", "dim", "   ")
        if outcome == "kept" and job.lasting:
            yield section_line("Lost on reboot; to make it persistent", self._cells)
            for fix in job.lasting:
                yield from draw_fix(fix, self._cells, glyphs=self._glyphs)

    # --------------------------------------------------------------------------------------------------- its parts

    def _plan(self, title: str) -> list[SpanLine]:
        if not self._progress.plan:
            return [section_line("Commands", self._cells), *self._commands()]
        lines: list[SpanLine] = [section_line(title, self._cells)]
        labels, has_ended = _value_labels(self._progress), self._progress.stage == "ended"
        goes_on = False
        for text in plan_lines(self._progress.plan, max(24, self._cells - 2), labels=labels, has_ended=has_ended):
            is_command = text[:1].isdigit() or goes_on
            goes_on = is_command and text.endswith(LINE_CONTINUATION)
            style = "accent" if is_command else "warn" if text.startswith(WARNING_PREFIX) else ""
            lines.append(((f" {self._glyphs.text(text)}", style),))
        return [*lines, *self._undo()]

    def _undo(self) -> Iterator[SpanLine]:
        """The commands that undo it after it was kept, where the host rolls back by a checkpoint and not by them."""
        undo, outcome = self._job.fix.undo, self._progress.outcome
        if not undo or outcome in UNCHANGED_OUTCOMES or all(one.undo for one in self._progress.plan):
            return
        yield section_line("To undo it after it was kept", self._cells)
        for one in undo:
            for part in command_lines(one, max(10, self._cells - len(COMMAND_INDENT) - 1), shown=self._glyphs.text):
                yield ((COMMAND_INDENT + part, "accent"),)

    def _commands(self) -> Iterator[SpanLine]:
        """Those that are copied, while there is no plan."""
        shown = self._glyphs.text
        for one in commands_of(self._progress):
            for part in command_lines(one, max(10, self._cells - len(COMMAND_INDENT) - 1), shown=shown):
                yield ((COMMAND_INDENT + part, "accent"),)

    def _marked_lines(self, style: str, text: str) -> Iterator[SpanLine]:
        """A sentence after the mark of its style."""
        glyphs = self._glyphs
        mark = {"good": glyphs.passed, "warn": glyphs.warning, "bad": glyphs.critical, "dim": glyphs.note}[style]
        for number, part in enumerate(wrap(self._glyphs.text(text), max(10, self._cells - 4))):
            yield ((f" {mark if number == 0 else ' '} ", style), (part, style if style != "good" else ""))

    def _text(self, text: str, style: str, indent: str = " ") -> Iterator[SpanLine]:
        for part in wrap(self._glyphs.text(text), max(10, self._cells - len(indent) - 1)):
            yield ((f"{indent}{part}", style),)


def sentence(text: str) -> str:
    """The same with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]


def _plan_title(progress: ChangeProgress) -> str:
    if progress.stage == "prepared":
        return "Plan"
    return "Applied" if progress.stage == "applied" or progress.outcome == "kept" else "Requested"


def _value_labels(progress: ChangeProgress) -> tuple[str, str]:
    """Which of both values is the current one, as far as known."""
    if progress.stage == "applied" or progress.outcome == "kept":
        return APPLIED_LABELS
    is_certain = progress.stage in ("preparing", "prepared") or progress.outcome in UNCHANGED_OUTCOMES
    return PLANNED_LABELS if is_certain else UNKNOWN_LABELS


def draw_fix(fix: Fix, cells: int, *, glyphs: Glyphs) -> Iterator[SpanLine]:
    """Title, commands and note of a fix."""
    for part in wrap(glyphs.text(fix.title), max(10, cells - 2)):
        yield ((f" {part}", "title"),)
    for one in fix.commands:
        for part in command_lines(one, max(10, cells - len(COMMAND_INDENT) - 1), where=fix.where, shown=glyphs.text):
            yield ((COMMAND_INDENT + part, "accent"),)
    if fix.note:
        for part in wrap(glyphs.text(fix.note), max(10, cells - 4)):
            yield ((f"   {part}", ""),)


def commands_of(progress: ChangeProgress) -> tuple[Command, ...]:
    """The actions as shell commands."""
    return tuple(command_of(one) for one in progress.spec.actions)
