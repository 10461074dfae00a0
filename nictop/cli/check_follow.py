"""``nictop check --exec COMMAND``: runs a command when a finding appears, and when it goes, until
Ctrl-C.

No shell is started: the command is split into words once, before a host is asked anything, and
what a host says is in its environment and on its standard input only.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from nictop.cli import output
from nictop.cli.hosts import connect_host, wanted_hosts
from nictop.errors import HostUnreachable, NictopError
from nictop.hosts.observe import diagnose_in_slices
from nictop.hosts.session import HostSession
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.records import Inventory
from nictop.report.json import json_text
from nictop.rules.by_device import losses_in
from nictop.rules.changes import FindingChange, FindingChanges
from nictop.rules.finding import SEVERITIES
from nictop.rules.fixes.commands import Step
from nictop.wire.source import SourceState
from nictop.wire.timeout import with_timeout

MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 2.0, 5.0
"""Between two diagnoses: the next one is soon if there is a new inventory, or if it decides whether
a finding has appeared or gone; the help names both times."""
COMMAND_SECONDS = 60.0
"""After that a command is ended."""
MAX_WAITING = 1000
"""Changes whose command has not begun yet; further ones are left out, with a line on stderr."""
MAX_VARIABLE_BYTES = 4096
"""Of what a host says, in a variable of the environment."""


def run(options: argparse.Namespace) -> int:
    if options.at is not None:
        raise NictopError("--exec watches live hosts, not a recording")
    if options.ask_agents:
        raise NictopError("--ask-agents asks once: not while --exec watches")
    return asyncio.run(_Follower(options, command_words(options.exec)).run())


def command_words(command: str) -> list[str]:
    """Raises NictopError."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise NictopError(f"--exec: {error}", "quote it as for a shell") from None
    if not words:
        raise NictopError("--exec needs a command")
    return words


class _Follower:
    def __init__(self, options: argparse.Namespace, command: Sequence[str]) -> None:
        self._command = command
        self._lowest = SEVERITIES.index(options.fail_on)
        self._changes = FindingChanges()
        self._inventories: dict[str, Inventory | None] = {}
        """Host → its newest one."""
        self._is_renewed = asyncio.Event()
        """One is newer than the last diagnosis."""
        self._waiting: asyncio.Queue[FindingChange] = asyncio.Queue(MAX_WAITING)
        self._sessions = []
        for host in wanted_hosts(options.hosts):
            source = connect_host(host, options)
            session = HostSession(host, source, interval=options.interval, watch_devices=True)
            session.subscribe(self._teller(session.name))
            session.subscribe(partial(self._take, session.name))
            self._sessions.append(session)

    def _teller(self, name: str) -> Callable[[object, object], None]:
        """Tells changes of the connection of a host."""
        told = ""

        def tell(item: object, _: object) -> None:
            nonlocal told
            if isinstance(item, SourceState) and item.state != "connecting":
                text = f"{name}: {item.state}" + (f": {item.message}" if item.message else "")
                if text != told:
                    told = text
                    output.print_status(clean(text))

        return tell

    def _take(self, name: str, _: object, snapshot: Snapshot) -> None:
        if snapshot.inventory is not self._inventories.get(name):
            self._inventories[name] = snapshot.inventory
            self._is_renewed.set()

    async def run(self) -> int:
        """Until a signal, or all hosts have failed."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop.set)
        watched = asyncio.gather(*(session.run() for session in self._sessions))
        stopped = asyncio.ensure_future(stop.wait())
        # not gathered: that is over with the first one cancelled, before a command has ended
        work = [asyncio.ensure_future(part) for part in (self._diagnose(), self._execute())]
        ends: set[asyncio.Future[Any]] = {watched, stopped, *work}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await asyncio.gather(*(session.close() for session in self._sessions))
            for end in ends:
                end.cancel()
            results = await asyncio.gather(*ends, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result
        return 0 if stop.is_set() else HostUnreachable.exit_code

    async def _diagnose(self) -> None:
        while True:
            await self._wait_for_next()
            readable = [session.facts for session in self._sessions if session.is_readable]
            if not readable:
                continue
            self._is_renewed.clear()
            diagnosis, _ = await diagnose_in_slices(readable)
            losses = losses_in({host.name: host.snapshot for host in readable})
            for change in self._changes.update(diagnosis, losses):
                if SEVERITIES.index(change.finding.severity) > self._lowest:
                    continue
                try:
                    self._waiting.put_nowait(change)
                except asyncio.QueueFull:
                    output.print_status(
                        f"left out: too many changes: {finding_change_text(change)}"
                    )

    async def _wait_for_next(self) -> None:
        """The next diagnosis is due."""
        await asyncio.sleep(MIN_PAUSE_SECONDS)
        if not self._changes.are_undecided:
            with suppress(asyncio.TimeoutError):
                pause = MAX_PAUSE_SECONDS - MIN_PAUSE_SECONDS
                await with_timeout(pause, self._is_renewed.wait())

    async def _execute(self) -> None:
        """One command after the other."""
        while True:
            change = await self._waiting.get()
            output.print_status(finding_change_text(change))
            await self._run_command(change)

    async def _run_command(self, change: FindingChange) -> None:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                env={**os.environ, **variables_of(change)},
                start_new_session=True,
            )
        )
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:  # it is ended, too, that has just begun to run
            with suppress(OSError):
                await _end(await starting)
            raise
        except OSError as error:
            output.print_status(clean(f"{self._command[0]}: {error.strerror or error}"))
            return
        try:
            text = json_text({"event": change.event, "finding": change.finding}, texts=(Step,))
            await with_timeout(COMMAND_SECONDS, process.communicate(text.encode()))
            if process.returncode:
                output.print_status(clean(f"{self._command[0]}: exit code {process.returncode}"))
        except asyncio.TimeoutError:
            output.print_status(
                clean(f"{self._command[0]}: ended: it took more than {COMMAND_SECONDS:g} s")
            )
        finally:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a command that still runs, and in any case what it has started in its process group: a
    host whose findings come and go would leave more and more of it behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.returncode is None:
        await process.wait()


def finding_change_text(change: FindingChange) -> str:
    """``appeared: vm1 ens224: no link (warning, link_down)``"""
    finding = change.finding
    subject = f" {finding.subject}" if finding.subject else ""
    return clean(
        f"{change.event}: {finding.host}{subject}: {finding.title} ({finding.severity}, "
        f"{finding.rule})"
    )


def variables_of(change: FindingChange) -> dict[str, str]:
    """The environment of the command. Texts of a host are cleaned and cut."""
    finding = change.finding
    texts = {
        "NICTOP_EVENT": change.event,
        "NICTOP_HOST": finding.host,
        "NICTOP_RULE": finding.rule,
        "NICTOP_SEVERITY": finding.severity,
        "NICTOP_SUBJECT": finding.subject,
        "NICTOP_TITLE": finding.title,
    }
    return {
        name: clean(text).encode()[:MAX_VARIABLE_BYTES].decode(errors="ignore")
        for name, text in texts.items()
    }
