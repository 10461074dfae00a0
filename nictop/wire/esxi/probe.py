"""The records of an ESXi host, made on this machine from the outputs of its own commands.

Has the methods of `wire.ssh.remote_probe.RemoteProbe`. Nothing is sent to the host but command lines; it needs no
Python. Each record goes through the inbox of the connection as a line, so that the limits and the CPU budget of other
hosts apply.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import msgspec

from nictop import __version__
from nictop.errors import HostUnreachable, NictopError
from nictop.probe.records import (
    PROTOCOL,
    ChangeLine,
    Clock,
    Hello,
    Line,
    Request,
    TrafficLine,
    Trouble,
    Unreadable,
)
from nictop.wire.budget import HostBudget
from nictop.wire.errors import PermanentError, TransientError, internal_error_text, sanitize
from nictop.wire.esxi.counters import CLOCK_TICKS, Accumulated, nic_counters, vf_counters
from nictop.wire.esxi.inventory import (
    Facts,
    IfindexAllocator,
    InventoryTime,
    ifindexes,
    inventory_of,
    needs_inventory,
    read_facts,
)
from nictop.wire.esxi.outputs import BadOutput, Fields, Reading, integer_of, parse_entries, parse_json, parse_reading
from nictop.wire.esxi.shell import COMMAND_TIMEOUT, EsxiShell
from nictop.wire.inbox import Inbox
from nictop.wire.source import SourceState

if TYPE_CHECKING:
    import asyncssh

Parsed = TypeVar("Parsed")
ESXCLI_JSON = ("esxcli", "--debug", "--formatter=json")
"""Without ``--debug`` esxcli knows the formatters xml, csv and keyvalue only (ESXi 5.0 to 8.0)."""
MIN_INTERVAL, MAX_INTERVAL = 1.0, 60.0
"""Seconds of one reading. net-stats takes whole seconds."""
MAX_READING_GAP = 2.0
"""Seconds of an inventory without a reading; then one is taken in between."""
INVENTORY_TIMEOUT = 180.0
"""Seconds of all commands of an inventory; those that follow are not run."""
MIN_EVENT_SECONDS = 30.0
"""Seconds from the end of an inventory until the next one after a change of ports or machines: it costs CPU time."""
MAX_ATTEMPTS = 3
"""Of a command whose output is cut off, which happens now and then."""
MIN_UNCERTAINTY = 0.5
"""Seconds: the time of day of the host is known as a whole number of seconds."""
MAX_REPORTED = 20
"""Messages of one connection."""
MAX_READ_FUNCTIONS = 8
"""VFs with an owner whose counters are read each time: each takes up to a second."""
NOT_POSSIBLE = "not possible on an ESXi host: nictop only reads it"


class EsxiProbe:
    """`start` begins; `next` returns its items, then None; then `error` is the reason why it ended."""

    needs_password = False

    def __init__(self, host: str, budget: HostBudget, settings: Request) -> None:
        self.error: HostUnreachable | None = None
        self.is_esxi = False
        """As `RemoteProbe.is_esxi`: it needs no other probe."""
        self._host, self._budget = host, budget
        self._inbox = Inbox(budget, self._resume)
        self._shell: EsxiShell | None = None
        self._task: asyncio.Task[None] | None = None
        self._interval = settings.interval or 1.0
        self._numbers, self._accumulated = IfindexAllocator(), Accumulated()
        self._facts: Facts | None = None
        self._reading: Reading | None = None
        """The newest one."""
        self._read_at = 0.0
        self._cpus: int | None = None
        self._inventory_at = 0.0
        """When the last inventory ended."""
        self._wanted = "start"
        """Reason for which an inventory is to be taken; "": none."""
        self._failures = 0
        """Readings in a row that have failed."""
        self._uncounted: set[tuple[str, int]] = set()
        """VFs whose counters could not be read; they are not tried again before the next inventory."""
        self._reported: set[str] = set()

    async def start(self, ssh: asyncssh.SSHClientConnection) -> None:
        """Open the shell. Raises TransientError or PermanentError."""
        self._shell = EsxiShell(ssh, self._host, self._inbox)
        await self._shell.start()
        self._task = asyncio.ensure_future(self._run())

    def send(self, request: Request) -> None:
        """Handle a request as a probe does; what would change the host, or generate traffic, is refused."""
        self._interval = request.interval or self._interval
        if request.inventory:
            self._wanted = self._wanted if self._wanted == "start" else "request"
        if request.traffic is not None:
            self._put(traffic=TrafficLine(time.monotonic(), request.traffic.id, "failed", NOT_POSSIBLE))
        if request.change is not None:
            self._put(change=ChangeLine(time.monotonic(), request.change.id, "refused", NOT_POSSIBLE))

    async def next(self) -> Line | SourceState | None:
        """The next item; None at the end."""
        try:
            return await self._inbox.next()
        except HostUnreachable as error:
            self.error = self.error or error
        except NictopError as error:
            self.error = self.error or TransientError(error.message)
        return None

    async def end(self, timeout: float = 0.0) -> None:
        """Close the shell; a command that is running ends by itself."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._inbox.close(forget=True)
        if self._shell is not None:
            await self._shell.close()

    async def resume_stopped(self, ssh: asyncssh.SSHClientConnection) -> None:
        """Nothing to resume: a command that takes too long is killed."""

    def _resume(self) -> None:
        if self._shell is not None:
            self._shell.resume()

    def _put(self, **record: object) -> None:
        self._inbox.put(msgspec.json.encode(record) + b"\n")

    # ------------------------------------------------------------------------------------------------- commands

    async def _run(self) -> None:
        try:
            await self._hello()
            while True:
                is_due = self._wanted != "event" or time.monotonic() - self._inventory_at >= MIN_EVENT_SECONDS
                if self._wanted and is_due and self._reading is not None:
                    await self._take_inventory()
                begin = time.monotonic()
                await self._read()
                await asyncio.sleep(max(0.0, begin + self._seconds - time.monotonic()))
        except HostUnreachable as error:
            self.error = self.error or error
        except Exception as error:  # a bug here ends the connection with a message, not silently
            self.error = PermanentError(internal_error_text(error))
        finally:
            self._inbox.close()

    async def _hello(self) -> None:
        begin = time.monotonic()
        shell = self._open_shell()
        output = await shell.run(("uname", "-n"))
        release = await shell.run(("uname", "-r"))
        machine = await shell.run(("uname", "-m"))
        user = integer_of((await shell.run(("id", "-u"))).text.decode("ascii", "replace"))
        now, wall = await self._clocks()
        names = [sanitize(one.text.decode("utf-8", "replace")) for one in (output, release, machine)]
        self._put(
            hello=Hello(
                protocol=PROTOCOL,
                version=__version__,
                hostname=names[0] or self._host,
                kernel=f"VMkernel {names[1]}".rstrip(),
                machine=names[2],
                python="",
                pid=0,
                euid=user or 0,
                boot_id=f"esxi-{os.urandom(8).hex()}",  # its counters begin anew with each connection
                clock_ticks=CLOCK_TICKS,
                monotonic=now,
                wall=wall,
                interval=self._seconds,
            )
        )
        self._put(clock=Clock(now, 0.0, MIN_UNCERTAINTY + now - begin))

    async def _clocks(self) -> tuple[float, float]:
        """CLOCK_MONOTONIC of this machine and the time of day of the host, within `MIN_UNCERTAINTY`."""
        begin = time.monotonic()
        output = await self._open_shell().run(("date", "+%s"))
        seconds = integer_of(output.text.decode("ascii", "replace"))
        return (begin + time.monotonic()) / 2, time.time() if seconds is None else seconds + MIN_UNCERTAINTY

    @property
    def _seconds(self) -> float:
        """Length of a reading."""
        return max(MIN_INTERVAL, min(MAX_INTERVAL, float(round(self._interval))))

    def _open_shell(self) -> EsxiShell:
        assert self._shell is not None
        return self._shell

    async def _read(self) -> None:
        """One reading, and its `Counters` once the first inventory has shown what they begin with."""
        shell, seconds = self._open_shell(), self._seconds
        begin = time.monotonic()
        words = ("net-stats", "-A", "-t", "vW", "-i", str(max(1, round(seconds))))
        output = await shell.run(words, COMMAND_TIMEOUT + seconds)
        now = self._read_at = time.monotonic()
        problem = output.problem
        reading = Reading(None, (), {}, ())
        if not problem:
            try:
                reading = await self._parsed(output.text, lambda text: parse_reading(parse_json(text), self._cpus))
            except BadOutput as error:
                problem = str(error)
        if problem:
            self._failures += 1
            self._report(f"net-stats: {problem}")
            if self._failures < MAX_ATTEMPTS:
                return
            reading = replace(reading, cpu_problem=f"net-stats: {problem}")
        else:
            self._failures = 0
            self._put(clock=Clock(now, 0.0, MIN_UNCERTAINTY + max(0.0, now - begin - seconds)))
            if self._reading is not None and self._facts is not None and needs_inventory(self._reading, reading):
                self._wanted = self._wanted or "event"
        self._reading = reading
        if self._facts is not None:
            functions = await self._read_functions(self._facts)
            numbers = ifindexes(reading, self._numbers)
            counters = self._accumulated.counters(now, reading, numbers, functions)
            if problem:
                counters.unreadable.update(dict.fromkeys(("links", "threads"), counters.unreadable["cpus"]))
            self._put(counters=counters)

    async def _read_functions(self, facts: Facts) -> dict[int, dict[int, tuple[int, ...]]]:
        """ifindex → VF number → `VF_COUNTERS`, of VFs with an owner."""
        found: dict[int, dict[int, tuple[int, ...]]] = {}
        for nic, number in facts.used_functions()[:MAX_READ_FUNCTIONS]:
            words = ("network", "sriovnic", "vf", "stats", "-n", nic, "-v", str(number))
            if (nic, number) in self._uncounted:
                continue
            entries, why = await self._esxcli(*words)
            counted = vf_counters(entries[0]) if entries else None
            if counted is None:
                self._uncounted.add((nic, number))
                self._report(f"counters of VF {number} of {nic}: {why or 'not as expected'}")
            else:
                found.setdefault(self._numbers.of("nic", nic), {})[number] = counted
        return found

    async def _take_inventory(self) -> None:
        """Run the commands of an inventory; readings continue meanwhile."""
        reason, self._wanted = self._wanted, ""
        begin, wall = await self._clocks()
        problems: dict[str, Unreadable] = {}

        async def query(source: str, *words: str) -> list[Fields] | None:
            if time.monotonic() - begin > INVENTORY_TIMEOUT:
                problems.setdefault(source, Unreadable("failed", f"not read within {INVENTORY_TIMEOUT:g} s"))
                return None
            if self._facts is not None and time.monotonic() - self._read_at > MAX_READING_GAP:
                await self._read()
            entries, why = await self._esxcli(*words)
            if entries is None:
                problems.setdefault(source, Unreadable("failed", f"esxcli {' '.join(words)}: {why}"))
            return entries

        facts = await read_facts(query)
        facts.problems = problems
        self._facts, self._cpus = facts, facts.cpus
        self._uncounted.clear()
        for nic, statistics in facts.statistics.items():
            counted = nic_counters(statistics)
            if counted is not None:
                self._accumulated.begin_with(nic, counted)
        reading = self._reading or Reading(None, (), {}, ())
        self._inventory_at = time.monotonic()
        self._accumulated.order_events_as(reading)
        self._put(inventory=inventory_of(facts, reading, self._numbers, InventoryTime(begin, wall, reason)))

    async def _esxcli(self, *words: str) -> tuple[list[Fields] | None, str]:
        """(records in the output, why there are none)."""
        problem = ""
        for _ in range(MAX_ATTEMPTS):
            output = await self._open_shell().run((*ESXCLI_JSON, *words))
            problem = output.problem
            if problem:
                break
            try:
                return await self._parsed(output.text, parse_entries), ""
            except BadOutput as error:
                problem = str(error)
        return None, sanitize(problem)

    async def _parsed(self, output: bytes, parse: Callable[[bytes], Parsed]) -> Parsed:
        """What `parse` makes of an output, which may have 4 MiB: in a thread, and charged to the host. Raises
        BadOutput."""
        await self._budget.wait_for_turn(len(output))
        seconds = 0.0

        def timed() -> Parsed:
            nonlocal seconds
            begin = time.thread_time()
            try:
                return parse(output)
            finally:
                seconds = time.thread_time() - begin

        try:
            return await asyncio.get_running_loop().run_in_executor(None, timed)
        finally:
            self._budget.charge(seconds)

    def _report(self, message: str) -> None:
        """Once for each message, as far as it is new."""
        if message not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add(message)
            self._put(trouble=Trouble(time.monotonic(), sanitize(message)))
