"""One change in full: the plan, then the time until it is rolled back, and the checks of its
result.

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
from collections.abc import Iterable, Iterator
from itertools import chain

from nictop.changes.actions import command_of
from nictop.changes.events import NOTHING_CHANGED, ChangeTimeouts, Outcome
from nictop.changes.job import ChangeJob
from nictop.changes.progress import ChangeProgress, Stage
from nictop.changes.wording import (
    APPLIED,
    APPLYING,
    KEPT,
    KEPT_STATES,
    LABEL_INDENT,
    LOST_TEXT,
    NOT_KNOWN,
    OLD_PLAN,
    OVERRIDDEN,
    PLANNED,
    REMOVED,
    UNUSED,
    WARNING_LABEL,
    PlanWords,
    ending_text,
    failure_before_rollback,
    loss_text,
    meanwhile_text,
    plan_lines,
    read_text,
    reconnected_text,
    verified_text,
)
from nictop.model.devices.rights import is_root
from nictop.model.facts import width, wrap
from nictop.model.rates.links import Rates, sum_known
from nictop.model.snapshot import Snapshot, outdated_text
from nictop.model.text import units
from nictop.model.text.glyphs import Glyphs
from nictop.model.text.units import whole_seconds
from nictop.probe.plan.requests import PLAN_TIMEOUT
from nictop.probe.records import Link
from nictop.rules import Finding, Fix
from nictop.rules.fixes.commands import Command, Step
from nictop.rules.wording import LINE_CONTINUATION, command_lines, filled_note, headline
from nictop.tui.widgets.base.line_widget import Span, SpanLine, section_line, wrapped_lines
from nictop.tui.widgets.findings.page import COMMAND_INDENT

LIMITS = ChangeTimeouts()
MAX_COUNTDOWN_CELLS = 40
URGENT_SECONDS = 10.0
"""Time left below which the countdown is drawn as a warning."""
OUTCOME_STYLES = {
    "kept": "good",
    "overridden": "warn",
    "undone": "good",
    "restarted": "warn",
    "cancelled": "dim",
    "refused": "warn",
    "unreachable": "warn",
    "unknown": "warn",
    "failed": "bad",
}
"""Outcome of a change → style."""
STAGE_WORDS: dict[Stage, PlanWords] = {
    "preparing": PLANNED,
    "prepared": PLANNED,
    "applying": APPLYING,
    "applied": APPLIED,
    "undoing": REMOVED,
}
"""Of the others, the connection to the host is lost, or was."""
OUTCOME_WORDS: dict[Outcome, PlanWords] = {
    "kept": KEPT,
    "overridden": OVERRIDDEN,
    "undone": REMOVED,
    "restarted": REMOVED,
    "failed": NOT_KNOWN,
    "unknown": NOT_KNOWN,
    **dict.fromkeys(NOTHING_CHANGED, UNUSED),
}
UNCHANGED_OUTCOMES = ("undone", "restarted", "refused", "cancelled", "unreachable")
"""Outcomes after which the values are those from before."""
OLDER_PLAN = "The plan was read before an event{}: the host refuses it if its values are others now"
CHANGED_SINCE = "Applied, and changed since by something else than nictop"
KEEP_AND_ROLLBACK = (
    "Keep does not overwrite that; a rollback sets what was there before the change."
)
VERIFYING = "Verifying the values, and keeping the change"
NEXT_INVENTORY = (
    "Each setting was read back. Waiting for the next inventory, which shows whether the host is "
    "still reachable, and what came of it"
)
WARNING_PREFIX = LABEL_INDENT + WARNING_LABEL


DISABLED_REASON = "changes are disabled (add --allow-changes)"
"""Why a button is disabled."""


def disabled_text(host: str, snapshot: Snapshot | None) -> str:
    """How changes of a host are enabled. `snapshot`: its newest one."""
    text = (
        f"Changes are disabled for {host}. To enable them: nictop --allow-changes …, or "
        f"allow_changes = true below "
        f"[hosts.{host}] in ~/.config/nictop/config.toml."
    )
    if snapshot is not None and is_root(snapshot) is False:
        text += " They need root (--sudo)."
    return text


class ChangePage:
    """Draws one change, `cells` cells wide. `is_allowed`: False: its plan is all that is shown.
    `began`: when its present step began, CLOCK_MONOTONIC; None: not known. `reported`: the finding
    as the checks report it now; None: they do not any more."""

    def __init__(
        self,
        job: ChangeJob,
        progress: ChangeProgress,
        cells: int,
        *,
        glyphs: Glyphs,
        is_allowed: bool = True,
        began: float | None = None,
        reported: Finding | None,
    ) -> None:
        self._job, self._progress, self._cells, self._glyphs = job, progress, cells, glyphs
        self._is_allowed, self._began, self._reported = is_allowed, began, reported

    def lines(
        self, now: float, snapshot: Snapshot | None, *, asks_twice: bool = False
    ) -> list[SpanLine]:
        """`now`: CLOCK_MONOTONIC; `snapshot`: the newest one of the host; `asks_twice`: the second
        confirmation is asked for."""
        stage = self._progress.stage
        if asks_twice:
            return [*self._second_question(), *self._plan("Plan", snapshot)]
        lines = list(self._head(now, snapshot))
        if stage in ("applying", "applied", "undoing", "disconnected") and snapshot is not None:
            lines += self._checks(snapshot)
        if stage == "ended":
            lines += self._ending(snapshot)
        return lines + self._plan(_plan_title(self._progress), snapshot)

    # ------------------------------------------------------------------------------------- its head

    def _head(self, now: float, snapshot: Snapshot | None) -> Iterator[SpanLine]:
        progress = self._progress
        if progress.stage == "ended":
            return
        if progress.stage == "preparing":
            text = f"Reading the current values on {self._job.host}"
            yield from self._marked_lines("dim", f"{text}{self._time(now, PLAN_TIMEOUT)}")
        elif progress.shown_stage == "prepared":
            yield from self._prepared(snapshot)
        elif progress.shown_stage == "applying":
            yield from self._applying(now)
        elif progress.stage == "applied":
            yield from self._applied(now)
        elif progress.stage == "undoing":
            yield from self._marked_lines("warn", f"Rolling back{self._time(now)}")
        elif progress.stage == "disconnected":
            yield from self._disconnected(now)
        elif progress.stage == "reconnected":
            text = sentence(reconnected_text(progress.answer))
            yield from self._marked_lines("dim", f"{text}{self._time(now)}")
            yield from self._text(sentence(meanwhile_text(progress.until)), "", "   ")
        for trouble in progress.troubles:
            if progress.stage != "disconnected" or trouble != progress.loss:
                yield from self._marked_lines("warn", trouble)

    def _applying(self, now: float) -> Iterator[SpanLine]:
        text = "Applying"
        if self._progress.decision != "apply":
            text = "Applying; it will be rolled back then"
        yield from self._marked_lines("dim", f"{text}{self._time(now, LIMITS.apply)}")

    def _applied(self, now: float) -> Iterator[SpanLine]:
        read_at, age = self._progress.verified_at, self._progress.reading_age(now)
        if self._progress.differences:
            yield from self._marked_lines("warn", f"{CHANGED_SINCE}{read_text(read_at, age)}")
            for text in self._progress.differences:
                yield from self._text(text, "warn", "   ")
            yield from self._text(KEEP_AND_ROLLBACK, "dim", "   ")
        else:
            yield from self._marked_lines(*self._applied_text(age))
        if self._progress.decision == "apply":
            yield from self._countdown(now, "unless you keep it")
            return
        text = VERIFYING if self._progress.decision == "keep" else "Rolling back"
        yield from self._marked_lines("dim", f"{text}{self._time(now)}")

    def _applied_text(self, age: float | None) -> tuple[str, str]:
        """Style and text. Each setting was read back, `age` seconds ago (None: not known); what was
        wanted may not be there yet."""
        text = f"Applied{verified_text(self._progress.verified_at, age)}"
        proof = self._progress.proof
        if proof is not None and not proof.proven:
            return "warn", f"{text}; what was wanted is not there"
        return "good", text

    def _disconnected(self, now: float) -> Iterator[SpanLine]:
        loss = sentence(loss_text(self._progress.loss, self._job.host))
        yield from self._marked_lines("warn", f"{loss}; {LOST_TEXT}")
        decision, deadline = self._progress.decision, self._progress.deadline
        if deadline is not None and now < deadline and decision != "keep":
            yield from self._countdown(now, "at the latest")

    def _time(self, now: float, limit: float | None = None) -> str:
        """``: 12 s``, ``: 12 s (at most 90 s)``: how long what is done now has taken."""
        if self._began is None:
            return ""
        text = f": {whole_seconds(max(0.0, now - self._began))}"
        if limit is not None:
            text += f" (at most {whole_seconds(limit)})"
        return text

    def _prepared(self, snapshot: Snapshot | None) -> Iterator[SpanLine]:
        yield from self._finding_lines()
        yield from self._age_of_plan(snapshot)
        for text in (*self._disturbed(), *self._job.warnings):
            yield from self._marked_lines("warn", text)
        if not self._is_allowed:
            yield from self._text(disabled_text(self._job.host, snapshot), "warn")
        else:
            yield from self._text(self._what_follows(), "")
        note = filled_note(self._job.fix)
        if note:
            yield from self._text(note, "dim")

    def _age_of_plan(self, snapshot: Snapshot | None) -> Iterator[SpanLine]:
        """Something has happened on the host since."""
        read_at = self._progress.plan_read_at
        if snapshot is None or snapshot.event is None or read_at is None:
            return
        if snapshot.event.time > read_at:
            about = f" ({snapshot.event.source})" if snapshot.event.source else ""
            yield from self._marked_lines("warn", OLDER_PLAN.format(about))

    def _finding_lines(self) -> Iterator[SpanLine]:
        """What the change is for. The values of the plan are newer than the finding that it was
        requested for: the host may have changed meanwhile."""
        finding = self._reported or self._job.finding
        if finding is None:
            return
        yield from self._text(headline(finding, several_hosts=False), "title")
        if self._reported is None:
            yield from self._marked_lines("warn", "The checks do not report it any more")

    def _what_follows(self) -> str:
        """After it is applied."""
        if self._progress.ends_by_itself:
            return "Not applied yet. It ends by itself, and if the connection drops."
        wait = whole_seconds(self._progress.spec.keep_within)
        return (
            f"Not applied yet. {self._job.host} rolls back automatically after {wait} unless you "
            f"keep the change, or if the connection drops."
        )

    def _disturbed(self) -> tuple[str, ...]:
        """What the change may interrupt, each once."""
        texts = chain.from_iterable(action.disturbs for action in self._progress.plan)
        return tuple(dict.fromkeys(texts))

    def _second_question(self) -> Iterator[SpanLine]:
        yield from self._marked_lines("bad", f"This may disconnect {self._job.host}")
        for disturbed in self._disturbed():
            yield from self._text(disturbed, "warn", "   ")
        text = (
            f"If the connection drops, {self._job.host} rolls back automatically. Type yes to "
            f"continue."
        )
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

    # ------------------------------------------------------------------------- checks of the result

    def _checks(self, snapshot: Snapshot) -> Iterator[SpanLine]:
        """Checks after the change, and the current traffic of its links."""
        progress = self._progress
        if progress.stage == "applied":
            is_known = progress.proof is not None or progress.verdict is not None
            if progress.read_back:
                yield from self._marked_lines("good", "Host still reachable")
            elif not is_known:
                yield from self._marked_lines("dim", NEXT_INVENTORY)
            if progress.read_back or is_known:
                yield from self._result(snapshot)
        subjects = {self._job.subject, *(action.subject for action in progress.plan)}
        for link in snapshot.links.values():
            if link.name in subjects:
                yield self._traffic_line(link, snapshot.rates)

    def _traffic_line(self, link: Link, rates: Rates | None) -> SpanLine:
        """``ens224   RX 9.41 Gb/s   TX 21.3 Mb/s   drops 0/s``"""
        spans: list[Span] = [(f" {self._glyphs.text(link.name)}  ", "title")]
        now = None if rates is None else rates.links.get(link.ifindex)
        if now is None:
            return tuple(spans)
        drops = sum_known((now.rx_dropped, now.tx_dropped, now.rx_missed))
        errors = sum_known((now.rx_errors, now.tx_errors))
        for what, value in (
            ("RX", units.bits_per_second(now.rx_bits)),
            ("TX", units.bits_per_second(now.tx_bits)),
            ("drops", units.per_second(drops)),
            ("errors", units.per_second(errors)),
        ):
            spans += [(f" {what} ", "dim"), (f"{self._glyphs.text(value):<10}", "")]
        return tuple(spans)

    def _result(self, snapshot: Snapshot | None) -> Iterator[SpanLine]:
        """What the newest inventory shows of it; one that is older than an event shows only what
        was."""
        style, text = "", ""
        if self._job.proof is not None:
            style, text = self._proof_text(snapshot)
        elif self._job.finding is not None:
            style, text = self._verdict_text()
        if not text:
            return
        outdated = "" if snapshot is None else outdated_text(snapshot)
        if style == "good" and outdated:
            style, text = "dim", f"{text}; {outdated}"
        yield from self._marked_lines(style, text)

    def _proof_text(self, snapshot: Snapshot | None) -> tuple[str, str]:
        """Style, and whether the new values are there."""
        proof = self._progress.proof
        if proof is None:
            return "dim", "Checking the new values"
        if not proof.proven:
            return "warn", f"{proof.text}{read_text(proof.at)}"
        contradiction = self._contradiction(snapshot)
        if contradiction:
            return "warn", f"Changed since{verified_text(proof.at)}: {contradiction}"
        return "good", f"{proof.text}{verified_text(proof.at)}"

    def _contradiction(self, snapshot: Snapshot | None) -> str:
        """What the host shows now, after the end of the change, instead of its new values; "": it
        does not."""
        if self._progress.stage != "ended" or self._job.proof is None:
            return ""
        if snapshot is None or snapshot.inventory is None:
            return ""
        now = self._job.proof(snapshot)
        return "" if now.proven else now.text

    def _verdict_text(self) -> tuple[str, str]:
        """Style, and whether the finding is resolved."""
        verdict = self._progress.verdict
        if verdict is None:
            return "dim", "Checking whether the finding is resolved"
        if verdict.text:
            return "warn", f"Finding could not be checked again: {verdict.text}"
        if verdict.gone:
            return "good", f"Finding resolved{verified_text(verdict.at)}"
        return "warn", f"Finding still present{read_text(verdict.at)}"

    # -------------------------------------------------------------------------------------- its end

    def _ending(self, snapshot: Snapshot | None) -> Iterator[SpanLine]:
        progress = self._progress
        outcome = progress.outcome or "unknown"
        failure = failure_before_rollback(progress)
        if failure:
            yield from self._marked_lines("warn", sentence(failure))
        yield from self._marked_lines(OUTCOME_STYLES[outcome], sentence(ending_text(progress)))
        if progress.outside:
            yield from self._marked_lines("warn", sentence(progress.outside))
        for trouble in progress.troubles:
            if trouble not in progress.text:
                yield from self._text(trouble, "dim", "   ")
        was_checked = progress.proof is not None or progress.verdict is not None
        if outcome == "kept" and was_checked:
            yield from self._result(snapshot)
        if outcome not in NOTHING_CHANGED:
            yield from self._text(self._log_text(), "dim", "   ")
        if outcome == "kept" and self._job.lasting:
            yield section_line("Lost on reboot; to make it persistent", self._cells)
            for fix in self._job.lasting:
                yield from draw_fix(fix, self._cells, glyphs=self._glyphs)

    def _log_text(self) -> str:
        """Where the change is logged."""
        undo = ""
        if self._progress.outcome in KEPT_STATES and self._has_undo:
            undo = ", with the commands that undo it"
        return f"Logged{undo}: nictop changes {self._job.host}"

    @property
    def _has_undo(self) -> bool:
        """The commands that undo the change are known."""
        if self._job.fix.undo:
            return True
        plan = self._progress.plan
        return bool(plan) and all(action.undo for action in plan)

    # ------------------------------------------------------------------------------------ its parts

    def _plan(self, title: str, snapshot: Snapshot | None) -> list[SpanLine]:
        if not self._progress.plan:
            commands = self._command_lines(commands_of(self._progress))
            return [section_line("Commands", self._cells), *commands]
        lines: list[SpanLine] = [section_line(title, self._cells)]
        words, has_ended = _plan_words(self._progress), self._progress.stage == "ended"
        if words == PLANNED and _is_older(self._progress, snapshot):
            words = OLD_PLAN
        goes_on = False
        for text in plan_lines(
            self._progress.plan, max(24, self._cells - 2), words=words, has_ended=has_ended
        ):
            style = ""
            is_command = text[:1].isdigit() or goes_on
            goes_on = is_command and text.endswith(LINE_CONTINUATION)
            if is_command:
                style = "accent"
            elif text.startswith(WARNING_PREFIX):
                style = "warn"
            lines.append(((f" {self._glyphs.text(text)}", style),))
        return [*lines, *self._undo()]

    def _undo(self) -> Iterator[SpanLine]:
        """The commands that undo it after it was kept, where the host rolls back by a checkpoint
        and not by them."""
        undo = self._job.fix.undo
        if not undo or self._progress.outcome in UNCHANGED_OUTCOMES:
            return
        if all(action.undo for action in self._progress.plan):
            return
        yield section_line("To undo it after it was kept", self._cells)
        yield from self._command_lines(undo)

    def _command_lines(self, commands: Iterable[Step]) -> Iterator[SpanLine]:
        cells = max(10, self._cells - len(COMMAND_INDENT) - 1)
        for command in commands:
            for part in command_lines(command, cells, shown=self._glyphs.text):
                yield ((COMMAND_INDENT + part, "accent"),)

    def _marked_lines(self, style: str, text: str) -> Iterator[SpanLine]:
        """A sentence after the mark of its style."""
        glyphs = self._glyphs
        marks = {
            "good": glyphs.passed,
            "warn": glyphs.warning,
            "bad": glyphs.critical,
            "dim": glyphs.note,
        }
        mark = marks[style]
        text_style = "" if style == "good" else style
        for part in wrap(glyphs.text(text), max(10, self._cells - 4)):
            yield (f" {mark} ", style), (part, text_style)
            mark = " "

    def _text(self, text: str, style: str, indent: str = " ") -> Iterator[SpanLine]:
        for part in wrap(self._glyphs.text(text), max(10, self._cells - len(indent) - 1)):
            yield ((f"{indent}{part}", style),)


def sentence(text: str) -> str:
    """The same with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]


def _plan_title(progress: ChangeProgress) -> str:
    if progress.stage == "prepared":
        return "Plan"
    if progress.stage == "applied" or progress.outcome in KEPT_STATES:
        return "Applied"
    return "Requested"


def _is_older(progress: ChangeProgress, snapshot: Snapshot | None) -> bool:
    """Of its host something newer than the plan was received: an event or an inventory."""
    if snapshot is None or progress.plan_read_at is None:
        return False
    known = [one.time for one in (snapshot.event, snapshot.inventory) if one is not None]
    return max(known, default=0.0) > progress.plan_read_at


def _plan_words(progress: ChangeProgress) -> PlanWords:
    """Of the stage, or of the outcome once it has ended."""
    if progress.outcome is not None:
        return OUTCOME_WORDS[progress.outcome]
    return STAGE_WORDS.get(progress.stage, NOT_KNOWN)


def draw_fix(fix: Fix, cells: int, *, glyphs: Glyphs) -> Iterator[SpanLine]:
    """Title, commands and note of a fix."""
    yield from wrapped_lines(glyphs.text(fix.title), max(10, cells - 2), "title")
    command_cells = max(10, cells - len(COMMAND_INDENT) - 1)
    for command in fix.commands:
        for part in command_lines(command, command_cells, where=fix.where, shown=glyphs.text):
            yield ((COMMAND_INDENT + part, "accent"),)
    if fix.note:
        for part in wrap(glyphs.text(fix.note), max(10, cells - 4)):
            yield ((f"   {part}", ""),)


def commands_of(progress: ChangeProgress) -> tuple[Command, ...]:
    """The actions as shell commands."""
    return tuple(map(command_of, progress.spec.actions))
