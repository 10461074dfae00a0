"""The host that ``nictop fix`` or ``nictop setup`` changes: connected, heard, and judged by the rules."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager

from nictop.changes.finding_watch import diagnose_noticing
from nictop.errors import HostUnreachable, NictopError
from nictop.hosts.connect import connect
from nictop.hosts.observe import HOSTS_PATIENCE, MOST_WATCHED, NEARLY, followed
from nictop.hosts.specification import Host
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.model.window import RatesWindow
from nictop.probe.records import Inventory, Line, Request
from nictop.rules import RULES, Finding, HostFacts, diagnose
from nictop.wire.source import Source, SourceState

LOOK = 3.0
"""Seconds of rates, as ``nictop check`` looks."""

Enough = Callable[[HostFacts], bool]
"""Whether what is known of a host is enough, though there are no rates yet."""
SnapshotListener = Callable[[Line | SourceState, Snapshot], None]


class ChangeHost:
    """A source and the newest picture of its host."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.snapshot = Snapshot.empty(source.name)
        self.window = RatesWindow()
        self.listeners: list[SnapshotListener] = []
        self._news = asyncio.Event()

    async def follow(self) -> None:
        async for item, snapshot in followed(self.source, self.snapshot):
            is_first = self.snapshot.inventory is None and snapshot.inventory is not None
            self.snapshot = snapshot
            self.window.take(snapshot)
            for listener in tuple(self.listeners):
                listener(item, snapshot)
            self._news.set()
            if is_first:
                devices = (link.ifindex for link in snapshot.links.values() if link.device is not None)
                await self.source.request(Request(watch=tuple(devices)[:MOST_WATCHED]))

    async def known(self, enough: Enough) -> None:
        """Wait until the rules can judge it. HostUnreachable when it does not get so far."""
        judged: Inventory | None = None
        while self.snapshot.inventory is None or self.window.seconds < LOOK * NEARLY:
            if self.snapshot.inventory is not judged and self.snapshot.state == "live":
                judged = self.snapshot.inventory
                if judged is not None and enough(self.watched):
                    return
            if self.snapshot.state in ("lost", "failed"):
                raise HostUnreachable(f"{clean(self.source.name)}: {clean(self.snapshot.message)}")
            self._news.clear()
            await self._news.wait()

    @property
    def watched(self) -> HostFacts:
        return HostFacts(self.snapshot, self.window.parts)


def needs_rates(_: HostFacts) -> bool:
    """Never enough."""
    return False


def needs_inventory(_: HostFacts) -> bool:
    """Always enough."""
    return True


def tells_without_rates(rule: str) -> Enough:
    """Enough when what a rule says, and those that it yields to, does not depend on rates."""
    asked = [RULES[name] for name in (rule, *RULES[rule].yields_to)]

    def enough(host: HostFacts) -> bool:
        return not RULES[rule].pairs and not diagnose_noticing([host], asked)[1]

    return enough


def one_finding(host: ChangeHost, beside: Iterable[ChangeHost], rule: str, subject: str | None) -> Finding:
    """What a rule says now of a host. NictopError when it says nothing, or about several subjects."""
    diagnosis = diagnose([host.watched, *(one.watched for one in beside)])
    of_rule = [one for one in diagnosis.findings if (one.rule, one.host) == (rule, host.source.name)]
    found = [one for one in of_rule if subject in (None, one.subject)]
    if len(found) == 1:
        return found[0]
    name = clean(host.source.name)
    if of_rule:
        subjects = ", ".join(clean(one.subject) or "the host itself" for one in of_rule)
        raise NictopError(f"{rule} has found {subjects} on {name}", "name one of them")
    skipped = next((one.reason for one in diagnosis.skipped if one.rule == rule), "")
    if skipped:
        raise NictopError(f"{rule} could not be checked on {name}: {clean(skipped)}")
    hint = "it compares hosts: name others by --with" if RULES[rule].pairs else f"nictop check {name}"
    raise NictopError(f"{rule} finds nothing on {name}", hint)


@asynccontextmanager
async def heard_host(
    options: argparse.Namespace, host: Host, *, allow_changes: bool, enough: Enough = needs_rates
) -> AsyncGenerator[ChangeHost, None]:
    """The host with its first complete picture, or one that is `enough`; closed afterwards. Raises HostUnreachable."""
    source = connect(
        host,
        options.interval,
        eager=True,
        sudo=options.sudo,
        allow_changes=allow_changes,
        accept_new_host_keys=options.accept_new_host_keys,
    )
    found = ChangeHost(source)
    follower = asyncio.ensure_future(found.follow())
    try:
        known = asyncio.ensure_future(found.known(enough))
        try:
            await asyncio.wait({known, follower}, timeout=HOSTS_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            if not known.done():
                why = clean(found.snapshot.message) or f"no complete answer within {HOSTS_PATIENCE:g} s"
                raise HostUnreachable(f"{clean(source.name)}: {why}")
            known.result()
        finally:
            known.cancel()
        yield found
    finally:
        await source.close()
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)
