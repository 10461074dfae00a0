"""``nictop fix`` at work: the host, the finding, and its fix as actions."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from nictop.changes.actions import Actions, ByHand, actions_of, fill
from nictop.changes.job import ChangeJob
from nictop.changes.script import lasting_fixes, script
from nictop.cli import output
from nictop.cli.change.host import heard_host, needs_rates, one_finding, tells_without_rates
from nictop.cli.change.session import ChangeSession
from nictop.errors import NictopError
from nictop.hosts.specification import Host
from nictop.model.text.terminal import clean
from nictop.rules import Finding, Fix


def carry_out(options: argparse.Namespace, host: Host, beside: Sequence[Host], *, allowed: bool) -> int:
    """The whole command; its exit code. `beside`: hosts that are looked at for rules that compare."""
    return asyncio.run(_carried_out(options, host, beside, allowed))


async def _carried_out(options: argparse.Namespace, host: Host, beside: Sequence[Host], allowed: bool) -> int:
    output.narrate(f"looking at {', '.join(clean(one.label) for one in (host, *beside))}")
    async with AsyncExitStack() as stack:
        enough = needs_rates if beside else tells_without_rates(options.rule)
        entering = [heard_host(options, host, allow_changes=allowed, enough=enough)]
        entering += [heard_host(options, replace(one, allow_changes=False), allow_changes=False) for one in beside]
        heard, *others = [await stack.enter_async_context(one) for one in entering]
        finding = one_finding(heard, others, options.rule, options.subject)
        chosen = choose(finding, options.number, dict(options.fill), by_hand=options.script)
        if options.script:
            return output.write(_script(chosen))
        assert chosen.actions is not None
        errand = ChangeJob.of_finding(chosen.finding, chosen.fix)
        return await ChangeSession(options, heard, errand, chosen.actions.actions, others).run()


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
