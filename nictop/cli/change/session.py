"""One change of ``nictop fix`` or ``nictop setup``: shown, asked about, watched, kept or undone.

The plan goes to stdout, questions and what happens to stderr, answers come from stdin. A signal that ends programs
(SIGINT, SIGTERM, SIGHUP) takes back what is not kept, and waits for that; a second one does not wait, and the host
takes it back by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import aclosing

from nictop.changes.actions import Action
from nictop.changes.audit_log import Logged, log_path, write
from nictop.changes.change import Change
from nictop.changes.events import (
    Applied,
    ChangeEnded,
    ConnectionLost,
    Event,
    Outcome,
    Prepared,
    ReadBack,
    Undoing,
    Verdict,
)
from nictop.changes.guided import GoalCheck
from nictop.changes.job import ChangeJob
from nictop.changes.wording import event_words, plan_lines
from nictop.cli import output
from nictop.cli.change.prompts import Prompts, answers
from nictop.cli.signals import termination_signals
from nictop.errors import HostUnreachable
from nictop.hosts.session import HostSession
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.records import Inventory
from nictop.rules import HostFacts
from nictop.rules.wording import placeholders
from nictop.wire.timeout import within

EXIT_CODES: dict[Outcome, int] = {
    "kept": 0,
    "undone": 1,
    "cancelled": 1,
    "refused": 2,
    "unreachable": HostUnreachable.exit_code,
    "unknown": HostUnreachable.exit_code,
    "failed": 4,
}
KEEP = "keep it?"
JUDGED_WITHIN = 0.5
"""Share of the time to keep it that --yes leaves the rule for its verdict."""


class ChangeSession:
    """One errand, and who is asked about it. `actions`: those of its fix, with everything filled in. `beside`: other
    hosts, for rules that compare."""

    def __init__(
        self,
        options: argparse.Namespace,
        session: HostSession,
        errand: ChangeJob,
        actions: Sequence[Action],
        beside: Sequence[HostSession] = (),
    ) -> None:
        self._options, self._session, self._errand = options, session, errand
        wish = errand.wish(actions, options.keep_within)
        place = log_path(os.environ)

        def log(change: Logged) -> None:
            write(change, place)

        def others() -> Iterable[HostFacts]:
            return (one.facts for one in beside)

        self._change = Change(wish, session.request, log=log, others=others)
        self._asking: asyncio.Future[None] | None = None
        self._signals: list[int] = []
        self._heard_after = asyncio.Event()
        self._judged = asyncio.Event()
        self._proof: GoalCheck | None = None
        self._proven_by: Inventory | None = None

    async def run(self) -> int:
        """Its exit code."""
        task = asyncio.ensure_future(self._carry_out())

        def on_signal(count: int) -> None:
            if count > 1:
                task.cancel()
            else:
                self._change.cancel()

        with termination_signals(on_signal) as self._signals:
            await asyncio.wait({task})
        if task.cancelled():
            output.narrate("left: the host takes it back by itself")
            return 128 + self._signals[0]
        code = task.result()
        return 128 + self._signals[0] if self._signals and code else code

    async def _carry_out(self) -> int:
        change = self._change
        subscriptions = [self._session.subscribe(callback) for callback in (change.hear, self._prove)]
        outcome: Outcome = "unknown"
        try:
            async with answers() as people, aclosing(change.events()) as events:
                async for event in events:
                    self._say(event)
                    self._ask(event, people)
                    if isinstance(event, ChangeEnded):
                        outcome = event.outcome
        finally:
            self._stop_asking()
            for unsubscribe in subscriptions:
                unsubscribe()
        if self._options.dry_run and outcome == "cancelled" and not self._signals:
            return 0
        return EXIT_CODES[outcome]

    def _say(self, event: Event) -> None:
        if isinstance(event, Prepared):
            title = f"{self._change.wish.host}: {self._errand.title}"
            lines = [clean(title), *plan_lines(event.plan, output.columns())]
            if self._errand.fix.note and not placeholders(
                [self._errand.fix.note]
            ):  # that one is about what is filled in by now
                lines.append(clean(self._errand.fix.note))
            output.write_text("".join(f"{line}\n" for line in lines), self._options)
        elif not (isinstance(event, ChangeEnded) and self._options.dry_run and event.outcome == "cancelled"):
            output.narrate(event_words(event, time.monotonic()))
        if isinstance(event, ChangeEnded) and event.outcome == "kept" and self._errand.lasting:
            output.narrate("it is gone after the next reboot; --script prints what makes it last")

    def _ask(self, event: Event, people: Prompts) -> None:
        """Start the question that an event leads to; whatever else happens ends it."""
        if isinstance(event, Prepared):
            if self._options.dry_run:
                self._change.cancel()
            else:
                self._start(self._to_apply(event, people))
        elif isinstance(event, Applied):
            self._start(self._to_keep(people))
        elif isinstance(event, ReadBack):
            self._heard_after.set()
            self._prove(None, self._session.snapshot)
        elif isinstance(event, Verdict):
            if event.gone or event.text:
                self._judged.set()
            if self._asking is not None and not self._options.yes:
                self._remind()
        elif isinstance(event, (Undoing, ConnectionLost, ChangeEnded)):
            self._stop_asking()

    def _remind(self) -> None:
        left = max(0.0, (self._change.deadline or 0.0) - time.monotonic())
        output.narrate(f"{KEEP} [yes/no] {left:.0f} s left")

    def _prove(self, _: object, snapshot: Snapshot) -> None:
        """Ask a guided job whether it has come to what was wanted, whenever the host has been read anew."""
        prove = self._errand.proof
        if prove is None or not self._heard_after.is_set() or self._asking is None:
            return
        if snapshot.inventory is None or snapshot.inventory is self._proven_by:
            return
        self._proven_by = snapshot.inventory
        proof = prove(snapshot)
        if proof == self._proof:
            return
        self._proof = proof
        output.narrate(f"{'proven' if proof.proven else 'not proven yet'}: {clean(proof.text)}")
        if proof.proven:
            self._judged.set()
        if not self._options.yes:
            self._remind()

    def _start(self, question: Awaitable[None]) -> None:
        self._stop_asking()
        self._asking = asyncio.ensure_future(question)

    def _stop_asking(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    async def _to_apply(self, event: Prepared, people: Prompts) -> None:
        said = self._options.yes
        sure = said > 0 or await people.yes(f"apply this on {clean(self._change.wish.host)}?")
        if sure and event.needs_second_yes and said < 2:
            if said:
                output.narrate("it touches the link of an SSH connection or of a default route: that takes --yes twice")
                sure = False
            else:
                question = "it may cut you off: the host would take it back by itself. Really apply it?"
                sure = await people.yes(question)
        if sure:
            self._change.apply(twice=event.needs_second_yes)
        else:
            self._change.cancel()

    async def _to_keep(self, people: Prompts) -> None:
        if self._options.yes:
            await self._heard_after.wait()
            limit = self._options.keep_within * JUDGED_WITHIN
            with contextlib.suppress(asyncio.TimeoutError):
                if self._errand.finding is not None or self._errand.proof is not None:
                    await within(limit, self._judged.wait())
            if self._errand.proof is None or (self._proof is not None and self._proof.proven):
                self._change.keep()
            else:
                output.narrate("it has not come to what was wanted: undone")
                self._change.undo()
            return
        if await people.yes(KEEP):
            self._change.keep()
        else:
            self._change.undo()
