"""The host that ``nictop fix`` or ``nictop setup`` changes: connected to, read, and judged by the
rules."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import TypeVar

from nictop.changes.finding_watch import diagnose_tracked, host_orders
from nictop.changes.guided.set_up import NotKnown
from nictop.cli.output import print_status
from nictop.cli.progress_line import waiting_line
from nictop.errors import HostUnreachable, NictopError
from nictop.hosts.connect import connect
from nictop.hosts.observe import HOSTS_TIMEOUT, INTERVAL_TOLERANCE
from nictop.hosts.session import HostSession, running
from nictop.hosts.specification import Host
from nictop.model.parts import NO_ANSWER, STOPPED
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Inventory
from nictop.rules import RULES, Diagnosis, Finding, HostFacts, diagnose
from nictop.rules.fixes.commands import command

T = TypeVar("T")
READ_AGAIN_SECONDS = 40.0
"""For which a source that did not answer in time is waited for, on a usual host: the probe makes
three more attempts in that time (`probe.inventory.scheduler.FIRST_REPEAT_SECONDS`)."""
RATES_SECONDS = 3.0
"""Of rates that are waited for, as in ``nictop check``."""

Enough = Callable[[HostFacts], bool]
"""Whether an inventory without rates is enough."""


def never(_: HostFacts) -> bool:
    """Wait for the rates of any host."""
    return False


def always(_: HostFacts) -> bool:
    """Wait for the rates of no host."""
    return True


def without_rates(rule: str) -> Enough:
    """Enough if the result of a rule, and of those that take precedence over it, does not depend on
    rates."""
    rules = [RULES[name] for name in (rule, *RULES[rule].yields_to)]

    def enough(host: HostFacts) -> bool:
        return not RULES[rule].compares_hosts and not diagnose_tracked([host], rules)[1]

    return enough


def one_finding(
    host: HostSession, beside: Iterable[HostSession], rule: str, subject: str | None
) -> Finding:
    """The finding of a rule about a host, by its subject or its item. NictopError if there is none,
    or if there are several."""
    others = [session.facts for session in beside]
    of_rule: list[Finding] = []
    for hosts in host_orders([host.facts, *others], host.name):
        diagnosis = diagnose(hosts, in_order=True)
        of_host = [finding for finding in diagnosis.findings if finding.host == host.name]
        of_rule = [finding for finding in of_host if finding.rule == rule]
        if of_rule:
            break
    chosen = [
        finding for finding in of_rule if subject in (None, finding.subject, finding.item or None)
    ]
    if len(chosen) == 1:
        return chosen[0]
    name = clean(host.name)
    if not of_rule:
        raise _no_finding(diagnosis, rule, name, is_alone=not others)
    if subject is not None and not chosen:
        about = f"about {clean(subject)} on {name}, but about {_listed(of_rule)}"
        raise NictopError(f"{rule} has no finding {about}")
    why = f"{rule} has several findings on {name}: {_listed(chosen)}"
    words = [_word(finding, chosen) for finding in chosen]
    example = command("nictop", "fix", host.name, rule, next(filter(None, words), "SUBJECT"))
    raise NictopError(why, f"give one of them as SUBJECT: {example}")


def _listed(findings: Sequence[Finding]) -> str:
    """Their subjects, or their items if several are about one subject."""
    words = [_word(finding, findings) for finding in findings]
    return ", ".join(clean(word) or "the host itself" for word in words)


def _word(finding: Finding, findings: Sequence[Finding]) -> str:
    """Its subject, or its item if several are about one subject."""
    subjects = {one.subject for one in findings}
    if len(subjects) < len(findings):
        return finding.item or finding.subject
    return finding.subject


def _no_finding(diagnosis: Diagnosis, rule: str, name: str, *, is_alone: bool) -> NictopError:
    """Why a rule has no finding on a host."""
    for skipped in diagnosis.skipped:
        if skipped.rule == rule and skipped.reason:
            is_read_again = skipped.is_retried and NO_ANSWER in skipped.reason
            is_read_again = is_read_again and not skipped.reason.endswith(f"{STOPPED})")
            why = f"{rule} was skipped on {name}: {clean(skipped.reason)}"
            return NotKnown(why, is_read_again=is_read_again)
    hint = f"see nictop check {name}"
    if RULES[rule].compares_hosts and is_alone:
        hint = "this rule compares hosts: add others with --with HOST"
    return NictopError(f"{rule} has no finding on {name}", hint)


async def when_known(session: HostSession, make: Callable[[], T]) -> T:
    """The result of `make` about the host, again for each new inventory while that lacks a source
    that is read again by itself: one that is slow has not failed. Raises NictopError."""
    begin = monotonic()
    while True:
        inventory = session.snapshot.inventory
        try:
            return make()
        except NotKnown as error:
            if not error.is_read_again:
                raise
            reason = error
        waited = monotonic() - begin
        limit = READ_AGAIN_SECONDS * session.slowness.factor
        print_status(f"{reason.message}; it is read again, for up to {limit - waited:.0f} s")
        has_new = partial(_has_other_inventory, session, inventory)
        if not await session.until(has_new, max(0.0, limit - waited)):
            why = f"{reason.message}; tried again for {limit:.0f} s"
            raise NictopError(why, reason.hint)
        if session.is_unreachable:
            raise reason


def _has_other_inventory(session: HostSession, before: Inventory | None) -> bool:
    return session.is_unreachable or session.snapshot.inventory is not before


@asynccontextmanager
async def connected_host(
    options: argparse.Namespace, host: Host, *, allow_changes: bool, enough: Enough = never
) -> AsyncGenerator[HostSession, None]:
    """The session of a host with inventory and rates, or with an inventory that is `enough`; closed
    afterwards. Raises HostUnreachable. `allow_changes`: False also overrides the configuration of
    the host."""
    host = replace(host, allow_changes=allow_changes)
    source = connect(
        host,
        options.interval,
        eager=True,
        sudo=options.sudo,
        allow_changes=allow_changes,
        accept_new_host_keys=options.accept_new_host_keys,
    )
    session = HostSession(host, source, watch_devices=True)
    async with running(session):
        await wait_until_read(session, enough)
        yield session


async def wait_until_read(session: HostSession, enough: Enough) -> None:
    """Wait for inventory and rates, or for an inventory that is `enough`. Raises
    HostUnreachable."""
    judged: Inventory | None = None

    def is_read() -> bool:
        nonlocal judged
        snapshot = session.snapshot
        has_rates = session.window.seconds >= RATES_SECONDS * INTERVAL_TOLERANCE
        if has_rates and snapshot.inventory is not None:
            return True
        if snapshot.state != "live" or snapshot.inventory is judged:
            return False
        judged = snapshot.inventory
        return judged is not None and enough(session.facts)

    begin, limit = monotonic(), HOSTS_TIMEOUT
    async with waiting_line((session,), RATES_SECONDS, lambda: limit):
        in_time = False
        while not in_time and monotonic() < begin + limit:
            rest = begin + limit - monotonic()
            in_time = await session.until(lambda: session.is_unreachable or is_read(), rest)
            limit = HOSTS_TIMEOUT * session.slowness.factor
    if session.is_unreachable or not in_time:
        doing = session.start.active_text(monotonic())
        late = f"no complete answer within {limit:g} s"
        why = clean(session.snapshot.message) or (f"{late}: {doing}" if doing else late)
        raise HostUnreachable(f"{clean(session.name)}: {why}")
