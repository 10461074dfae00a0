"""``nictop fix`` at work: the finding, its fix as actions, the plan, the change and its end.

A signal that ends programs (SIGINT, SIGTERM, SIGHUP) takes back what is not kept, and waits for that; a second one does
not wait, and the host takes it back by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from functools import partial

from nictop.changes.actions import Actions, ByHand, actions_of, fill
from nictop.changes.change import Change, Wish
from nictop.changes.events import Applied, Ended, Event, Outcome, Parted, Prepared, StillHeard, Undoing, Verdict
from nictop.changes.log import Logged, log_path, write
from nictop.changes.script import lasting_fixes, script
from nictop.changes.wording import event_words, plan_lines
from nictop.commands import output
from nictop.commands.fix_host import HeardHost, heard_host, one_finding
from nictop.commands.fix_questions import Answers, answers
from nictop.errors import HostUnreachable, NictopError
from nictop.hosts import Host
from nictop.model.wording.text import clean
from nictop.rules import Finding, Fix, Watched
from nictop.rules.words import placeholders
from nictop.wire.patience import within

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
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


def carry_out(options: argparse.Namespace, host: Host, beside: Sequence[Host], *, allowed: bool) -> int:
    """The whole command; its exit code. `beside`: hosts that are looked at for rules that compare."""
    return asyncio.run(_carried_out(options, host, beside, allowed))


async def _carried_out(options: argparse.Namespace, host: Host, beside: Sequence[Host], allowed: bool) -> int:
    output.narrate(f"looking at {', '.join(clean(one.label) for one in (host, *beside))}")
    async with AsyncExitStack() as stack:
        entering = [heard_host(options, host, allow_changes=allowed)]
        entering += [heard_host(options, replace(one, allow_changes=False), allow_changes=False) for one in beside]
        heard, *others = [await stack.enter_async_context(one) for one in entering]
        finding = one_finding(heard, others, options.rule, options.subject)
        chosen = choose(finding, options.number, dict(options.fill), by_hand=options.script)
        if options.script:
            return output.write(_script(chosen))
        return await _Fixing(options, heard, others, chosen).run()


@dataclass(frozen=True)
class Chosen:
    """One fix of a finding."""

    finding: Finding
    fix: Fix
    actions: Actions | None
    """With everything filled in; None: it is typed by hand."""


def _script(chosen: Chosen) -> str:
    finding, fix = chosen.finding, chosen.fix
    about = f"{finding.subject or finding.host} {finding.title} ({finding.rule})"
    commands = chosen.actions.commands if chosen.actions is not None else None
    return script(finding.host, about, fix, commands=commands, lasting=lasting_fixes(finding, fix))


def choose(finding: Finding, number: int | None, values: dict[str, str], *, by_hand: bool) -> Chosen:
    """The fix that is wanted; without a number the first that can be carried out. One that is typed by hand only if
    `by_hand`. Raises NictopError."""
    if number is not None and number > len(finding.fixes):
        raise NictopError(f"this finding has {len(finding.fixes)} fixes", "nictop check lists them")
    fixes = finding.fixes if number is None else finding.fixes[number - 1 : number]
    found = [(fix, actions_of(fix)) for fix in fixes]
    done = next(((fix, actions) for fix, actions in found if isinstance(actions, Actions)), None)
    if done is not None:
        actions = fill(done[1], values)
        if actions.blanks:
            missing = actions.blanks[0]
            raise NictopError(f"<{missing}> is still to be filled in", f"--fill {missing}=…")
        return Chosen(finding, done[0], actions)
    typed = next((fix for fix, _ in found if fix.commands and fix.where == "here"), None)
    if by_hand and typed is not None and not values:
        return Chosen(finding, typed, None)
    why = [f"{clean(fix.title)}: {clean(one.why)}" for fix, one in found if isinstance(one, ByHand)]
    raise NictopError("nictop cannot carry this out: " + ("; ".join(why) or "there is no fix"), "see nictop check")


def _watched(host: HeardHost) -> Watched:
    return host.watched


class _Fixing:
    """One change, and who is asked about it."""

    def __init__(
        self, options: argparse.Namespace, heard: HeardHost, beside: Sequence[HeardHost], chosen: Chosen
    ) -> None:
        finding, fix = chosen.finding, chosen.fix
        assert chosen.actions is not None
        self._options, self._heard, self._fix = options, heard, fix
        actions = chosen.actions.actions
        wish = Wish(finding.host, actions, fix.title, finding, options.keep_within, fix.undo)
        self._lasting = lasting_fixes(finding, fix)
        place = log_path(os.environ)

        def log(change: Logged) -> None:
            write(change, place)

        others = partial(map, _watched, beside)
        self._change = Change(wish, heard.source.request, log=log, others=others)
        self._asking: asyncio.Future[None] | None = None
        self._signals: list[int] = []
        self._heard_after = asyncio.Event()
        self._judged = asyncio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(self._carry_out())
        for number in ENDING:
            loop.add_signal_handler(number, self._end_by, number, task)
        try:
            await asyncio.wait({task})
        finally:
            for number in ENDING:
                loop.remove_signal_handler(number)
        if task.cancelled():
            output.narrate("left: the host takes it back by itself")
            return 128 + self._signals[0]
        code = task.result()
        return 128 + self._signals[0] if self._signals and code else code

    def _end_by(self, number: int, task: asyncio.Future[int]) -> None:
        self._signals.append(number)
        if len(self._signals) > 1:
            task.cancel()
        else:
            self._change.cancel()

    async def _carry_out(self) -> int:
        heard, change = self._heard, self._change
        heard.listeners.append(change.hear)
        outcome: Outcome = "unknown"
        try:
            async with answers() as people, aclosing(change.events()) as events:
                async for event in events:
                    self._say(event)
                    self._ask(event, people)
                    if isinstance(event, Ended):
                        outcome = event.outcome
        finally:
            self._stop_asking()
            heard.listeners.remove(change.hear)
        if self._options.dry_run and outcome == "cancelled" and not self._signals:
            return 0
        return EXIT_CODES[outcome]

    def _say(self, event: Event) -> None:
        if isinstance(event, Prepared):
            title = f"{self._change.wish.host}: {self._fix.title}"
            lines = [clean(title), *plan_lines(event.plan, output.columns())]
            if self._fix.note and not placeholders([self._fix.note]):  # that one is about what is filled in by now
                lines.append(clean(self._fix.note))
            output.write_text("".join(f"{line}\n" for line in lines), self._options)
        elif not (isinstance(event, Ended) and self._options.dry_run and event.outcome == "cancelled"):
            output.narrate(event_words(event, time.monotonic()))
        if isinstance(event, Ended) and event.outcome == "kept" and self._lasting:
            output.narrate("it is gone after the next reboot; --script prints what makes it last")

    def _ask(self, event: Event, people: Answers) -> None:
        """Start the question that an event leads to; whatever else happens ends it."""
        if isinstance(event, Prepared):
            if self._options.dry_run:
                self._change.cancel()
            else:
                self._start(self._to_apply(event, people))
        elif isinstance(event, Applied):
            self._start(self._to_keep(people))
        elif isinstance(event, StillHeard):
            self._heard_after.set()
        elif isinstance(event, Verdict):
            self._judged.set()
            if self._asking is not None and not self._options.yes:
                left = max(0.0, (self._change.deadline or 0.0) - time.monotonic())
                output.narrate(f"{KEEP} [yes/no] {left:.0f} s left")
        elif isinstance(event, (Undoing, Parted, Ended)):
            self._stop_asking()

    def _start(self, question: Awaitable[None]) -> None:
        self._stop_asking()
        self._asking = asyncio.ensure_future(question)

    def _stop_asking(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    async def _to_apply(self, event: Prepared, people: Answers) -> None:
        said = self._options.yes
        sure = said > 0 or await people.yes(f"apply this on {clean(self._change.wish.host)}?")
        if sure and event.needs_second_yes and said < 2:
            if said:
                output.narrate("it touches the link of this connection or of a default route: that takes --yes twice")
                sure = False
            else:
                question = "it may cut you off: the host would take it back by itself. Really apply it?"
                sure = await people.yes(question)
        if sure:
            self._change.apply(twice=event.needs_second_yes)
        else:
            self._change.cancel()

    async def _to_keep(self, people: Answers) -> None:
        if self._options.yes:
            await self._heard_after.wait()
            limit = self._options.keep_within * JUDGED_WITHIN
            with contextlib.suppress(asyncio.TimeoutError):
                await within(limit, self._judged.wait())
            self._change.keep()
            return
        people.forget()
        if await people.yes(KEEP):
            self._change.keep()
        else:
            self._change.undo()
