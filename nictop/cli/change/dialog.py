"""One change of ``nictop fix`` or ``nictop setup`` on a terminal: shown, asked about, kept or
undone.

The plan goes to stdout, questions and what happens to stderr, answers come from stdin. A signal
that ends programs (SIGINT, SIGTERM, SIGHUP) undoes what is not kept, and waits for that; a second
one does not wait, and the host undoes it by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import Awaitable
from contextlib import aclosing

from nictop.changes.events import (
    Applied,
    ChangeEnded,
    ConnectionLost,
    Event,
    GoalCheck,
    Outcome,
    Prepared,
    ReadBack,
    RuleVerdict,
    Undoing,
    ValuesChecked,
)
from nictop.changes.job import ChangeJob
from nictop.changes.session import ChangeSession
from nictop.changes.wording import ending_text, event_text, plan_lines, warning_lines
from nictop.cli import output
from nictop.cli.change.prompts import Prompts, question_text, stdin_prompts
from nictop.cli.signals import termination_signals
from nictop.errors import HostUnreachable
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import replace
from nictop.replay.position import wall_clock_text
from nictop.rules.wording import filled_note
from nictop.wire.timeout import with_timeout

EXIT_CODES: dict[Outcome, int] = {
    "kept": 0,
    "overridden": 4,
    "undone": 1,
    "restarted": 1,
    "cancelled": 1,
    "refused": 2,
    "unreachable": HostUnreachable.exit_code,
    "unknown": HostUnreachable.exit_code,
    "failed": 4,
}
KEEP_QUESTION = "Keep this change?"
VERDICT_WAIT_SHARE = 0.5
"""Share of the time to keep it that --yes waits for the verdict of the rule, or for the proof of a
guided job."""


class ChangeDialog:
    """Prints the events of a change and asks for its decisions."""

    def __init__(self, options: argparse.Namespace, job: ChangeJob, change: ChangeSession) -> None:
        self._options, self._job, self._change = options, job, change
        self._question: asyncio.Future[None] | None = None
        self._signals: list[int] = []
        self._judgements: dict[type[Event], Event] = {}
        """The last one of a kind, without its time."""
        self._read_back, self._judged = asyncio.Event(), asyncio.Event()

    async def run(self) -> int:
        """The whole change; the exit code."""
        task = asyncio.ensure_future(self._run())

        def on_signal(count: int) -> None:
            if count > 1:
                task.cancel()
            else:
                self._change.undo("nictop was told to end")

        with termination_signals(on_signal) as self._signals:
            await asyncio.wait({task})
        if task.cancelled():
            output.print_status("stopped before confirmation: the host rolls back automatically")
            return 128 + self._signals[0]
        code = task.result()
        return 128 + self._signals[0] if self._signals and code else code

    async def _run(self) -> int:
        try:
            async with stdin_prompts() as people, aclosing(self._change.events()) as events:
                async for event in events:
                    if not self._is_repeated(event):
                        self._print(event)
                        self._ask(event, people)
        finally:
            self._end_question()
        outcome = self._change.progress.outcome or "unknown"
        if self._options.dry_run and outcome == "cancelled" and not self._signals:
            return 0
        return EXIT_CODES[outcome]

    def _print(self, event: Event) -> None:
        job = self._job
        if isinstance(event, Prepared):
            columns = output.terminal_columns()
            lines = [clean(job.heading), *plan_lines(event.plan, columns)]
            lines += warning_lines(job.warnings, columns)
            note = filled_note(job.fix)
            if note:
                lines.append(clean(note))
            output.write_text("".join(f"{line}\n" for line in lines), self._options)
        elif isinstance(event, ChangeEnded):
            if not self._is_end_of_dry_run(event):
                output.print_status(ending_text(self._change.progress))
                if event.outside:
                    output.print_status(clean(event.outside))
        else:
            output.print_status(event_text(event, time.monotonic()))
        is_kept = isinstance(event, ChangeEnded) and event.outcome == "kept"
        if is_kept and job.lasting:
            output.print_status(
                "temporary: lost on reboot; --script prints how to make it persistent"
            )

    def _is_repeated(self, event: Event) -> bool:
        """A newer inventory has the same result."""
        if not isinstance(event, (GoalCheck, RuleVerdict)):
            return False
        undated = replace(event, at=None)
        is_same = self._judgements.get(type(event)) == undated
        self._judgements[type(event)] = undated
        return is_same

    def _is_end_of_dry_run(self, event: Event) -> bool:
        """It was cancelled because only the plan was asked for."""
        is_cancelled = isinstance(event, ChangeEnded) and event.outcome == "cancelled"
        return bool(self._options.dry_run) and is_cancelled

    def _ask(self, event: Event, people: Prompts) -> None:
        """Ask the question that an event leads to, or end the one that is open."""
        if isinstance(event, Prepared):
            if self._options.dry_run:
                self._change.undo()
            else:
                self._start(self._ask_to_apply(event, people))
        elif isinstance(event, Applied):
            self._start(self._ask_to_keep(people))
        elif isinstance(event, ReadBack):
            self._read_back.set()
        elif isinstance(event, (RuleVerdict, GoalCheck)):
            self._take_judgement(event)
        elif isinstance(event, ValuesChecked):
            self._repeat_question()
        elif isinstance(event, (Undoing, ConnectionLost, ChangeEnded)):
            self._end_question()

    def _take_judgement(self, event: RuleVerdict | GoalCheck) -> None:
        """Whether --yes keeps it."""
        if isinstance(event, GoalCheck):
            is_final = event.proven
        else:
            is_final = event.gone or bool(event.text)
        if is_final:
            self._judged.set()
        self._repeat_question()

    def _repeat_question(self) -> None:
        """Below the line that was printed meanwhile."""
        if self._question is not None and not self._options.yes:
            output.print_status(question_text(KEEP_QUESTION, self._rollback_text()))

    def _start(self, question: Awaitable[None]) -> None:
        self._end_question()
        self._question = asyncio.ensure_future(question)

    def _end_question(self) -> None:
        if self._question is not None:
            self._question.cancel()
            self._question = None

    async def _ask_to_apply(self, event: Prepared, people: Prompts) -> None:
        confirmations = self._options.yes
        sure = confirmations > 0 or await people.confirm(f"Apply on {clean(self._job.host)}?")
        if sure and event.needs_second_yes and confirmations < 2:
            if confirmations:
                output.print_status(
                    "not applied: the change affects the link of an SSH connection or default "
                    "route; "
                    "give --yes twice to apply it"
                )
                sure = False
            else:
                question = (
                    "This may disconnect the host; it would roll back automatically. Continue?"
                )
                sure = await people.confirm(question)
        if sure:
            self._change.apply(twice=event.needs_second_yes)
        else:
            self._change.undo()

    async def _ask_to_keep(self, people: Prompts) -> None:
        if self._options.yes:
            keep, why_not = await self._is_good(), "result not verified"
        else:
            keep = await people.confirm(KEEP_QUESTION, self._rollback_text())
            why_not = people.why_no
        if keep:
            self._change.keep()
        else:
            self._change.undo(why_not)

    def _rollback_text(self) -> str:
        """When the host rolls back; "" if that is not known. A time of day, as the line stays while
        the time passes."""
        deadline = self._change.progress.deadline
        if deadline is None:
            return ""
        return f"rolls back at {wall_clock_text(time.time() + deadline - time.monotonic())}"

    async def _is_good(self) -> bool:
        """Wait until the host is read again, and for a verdict; whether a guided job has reached
        its goal."""
        await self._read_back.wait()
        job = self._job
        if job.finding is not None or job.proof is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await with_timeout(
                    self._options.keep_within * VERDICT_WAIT_SHARE, self._judged.wait()
                )
        if self._change.progress.differences:
            return False
        if job.proof is None:
            return True
        proof = self._change.progress.proof
        return proof is not None and proof.proven
