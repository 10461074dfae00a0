"""The records of an ESXi host, made on this machine from the outputs of its own commands.

Has the methods of `wire.ssh.remote_probe.RemoteProbe`. Nothing is sent to the host but command
lines; it needs no Python. Each record goes through the inbox of the connection as a line, so that
the limits and the CPU budget of other hosts apply.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from nictop import __version__
from nictop.errors import HostUnreachable, NictopError
from nictop.probe.light_dataclasses import replace
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
from nictop.wire.channel import Carrier
from nictop.wire.errors import PermanentError, TransientError, internal_error_text, sanitize
from nictop.wire.esxi.counters import CLOCK_TICKS, Accumulated, nic_counters, vf_counters
from nictop.wire.esxi.inventory import (
    EsxiFacts,
    IfindexAllocator,
    InventoryTime,
    ifindexes,
    inventory_of,
    needs_inventory,
    read_facts,
)
from nictop.wire.esxi.outputs import (
    MAX_DECODED_BYTES,
    MAX_INVENTORY_BYTES,
    BadOutput,
    Fields,
    NetStats,
    Steps,
    T,
    decoded_bytes,
    integer_of,
    parse_json,
    reading_steps,
    record_steps,
)
from nictop.wire.esxi.shell import COMMAND_TIMEOUT, EsxiShell, Output
from nictop.wire.inbox import Inbox
from nictop.wire.source import SourceState

if TYPE_CHECKING:
    import asyncssh

ESXCLI_JSON = ("esxcli", "--debug", "--formatter=json")
"""Without ``--debug`` esxcli knows the formatters xml, csv and keyvalue only (ESXi 5.0 to 8.0)."""
MIN_INTERVAL, MAX_INTERVAL = 1.0, 60.0
"""Seconds of one reading. net-stats takes whole seconds."""
MAX_READING_GAP = 2.0
"""Seconds of an inventory without a reading; then one is taken in between."""
INVENTORY_TIMEOUT = 180.0
"""Seconds of all commands of an inventory; those that follow are not run."""
MIN_EVENT_SECONDS = 30.0
"""Seconds from the end of an inventory until the next one after a change of ports or machines: it
costs CPU time."""
MAX_ATTEMPTS = 3
"""Of a command whose output is cut off, which happens now and then."""
MIN_UNCERTAINTY = 0.5
"""Seconds: the time of day of the host is known as a whole number of seconds."""
MAX_REPORTED = 20
"""Messages of one connection."""
MAX_READ_FUNCTIONS = 8
"""VFs with an owner whose counters are read each time: each takes up to a second."""
NO_READING = NetStats(None, (), {}, ())
NOT_POSSIBLE = "not possible on an ESXi host: nictop only reads it"


class EsxiProbe:
    """`start` begins; `next` returns its items, then None; then `error` is the reason why it
    ended."""

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
        self._facts: EsxiFacts | None = None
        self._reading: NetStats | None = None
        """The newest one."""
        self._read_at = 0.0
        self._cpus: int | None = None
        self._room = MAX_INVENTORY_BYTES
        """Bytes of memory that the outputs of an inventory may still take."""
        self._inventory_at = 0.0
        """When the last inventory ended."""
        self._wanted = "start"
        """Reason for which an inventory is to be taken; "": none."""
        self._failures = 0
        """Readings in a row that have failed."""
        self._uncounted: set[tuple[str, int]] = set()
        """VFs whose counters could not be read; they are not tried again before the next
        inventory."""
        self._reported: set[str] = set()

    async def start(self, ssh: asyncssh.SSHClientConnection) -> None:
        """Open the shell. Raises TransientError or PermanentError."""
        self._shell = EsxiShell(ssh, self._host, self._inbox)
        await self._shell.start()
        self._task = asyncio.ensure_future(self._run())

    def send(self, request: Request) -> None:
        """Handle a request as a probe does; what would change the host, or generate traffic, is
        refused."""
        self._interval = request.interval or self._interval
        if request.inventory and self._wanted != "start":
            self._wanted = "request"
        if request.traffic is not None:
            self._put(
                traffic=TrafficLine(time.monotonic(), request.traffic.id, "failed", NOT_POSSIBLE)
            )
        if request.change is not None:
            self._put(
                change=ChangeLine(time.monotonic(), request.change.id, "refused", NOT_POSSIBLE)
            )

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

    async def resume_stopped(self, carrier: Carrier) -> None:
        """Nothing to resume: a command that takes too long is killed."""

    def _resume(self) -> None:
        if self._shell is not None:
            self._shell.resume()

    def _put(self, **record: object) -> None:
        self._inbox.put(msgspec.json.encode(record) + b"\n")

    # ------------------------------------------------------------------------------------- commands

    async def _run(self) -> None:
        try:
            await self._hello()
            while True:
                if self._is_inventory_due():
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

    def _is_inventory_due(self) -> bool:
        """One is wanted, and was not taken just now."""
        if not self._wanted or self._reading is None:
            return False
        elapsed = time.monotonic() - self._inventory_at
        return self._wanted != "event" or elapsed >= MIN_EVENT_SECONDS

    async def _hello(self) -> None:
        begin = time.monotonic()
        shell = self._open_shell()
        output = await shell.run(("uname", "-n"))
        release = await shell.run(("uname", "-r"))
        machine = await shell.run(("uname", "-m"))
        user = integer_of((await shell.run(("id", "-u"))).text.decode("ascii", "replace"))
        now, wall = await self._clocks()
        outputs = (output, release, machine)
        names = [sanitize(printed.text.decode("utf-8", "replace")) for printed in outputs]
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
                # its counters begin anew with each connection
                boot_id=f"esxi-{os.urandom(8).hex()}",
                clock_ticks=CLOCK_TICKS,
                monotonic=now,
                wall=wall,
                interval=self._seconds,
            )
        )
        self._put(clock=Clock(now, 0.0, MIN_UNCERTAINTY + now - begin))

    async def _clocks(self) -> tuple[float, float]:
        """CLOCK_MONOTONIC of this machine and the time of day of the host, within
        `MIN_UNCERTAINTY`."""
        begin = time.monotonic()
        output = await self._open_shell().run(("date", "+%s"))
        seconds = integer_of(output.text.decode("ascii", "replace"))
        middle = (begin + time.monotonic()) / 2
        if seconds is None:
            return middle, time.time()
        return middle, seconds + MIN_UNCERTAINTY

    @property
    def _seconds(self) -> float:
        """Length of a reading."""
        return max(MIN_INTERVAL, min(MAX_INTERVAL, float(round(self._interval))))

    def _open_shell(self) -> EsxiShell:
        assert self._shell is not None
        return self._shell

    async def _read(self) -> None:
        """One reading, and its `Counters` once the first inventory has shown what they begin
        with."""
        shell, seconds = self._open_shell(), self._seconds
        begin = time.monotonic()
        words = ("net-stats", "-A", "-t", "vW", "-i", str(max(1, round(seconds))))
        output = await shell.run(words, COMMAND_TIMEOUT + seconds)
        now = self._read_at = time.monotonic()
        reading, problem = await self._parse_reading(output)
        if problem:
            self._failures += 1
            self._report(f"net-stats: {problem}")
            if self._failures < MAX_ATTEMPTS:
                return
            reading = replace(reading, cpu_problem=f"net-stats: {problem}")
        else:
            self._failures = 0
            self._put(clock=Clock(now, 0.0, MIN_UNCERTAINTY + max(0.0, now - begin - seconds)))
            self._note_changes(reading)
        self._reading = reading
        if self._facts is not None:
            await self._put_counters(reading, self._facts, now, problem)

    async def _parse_reading(self, output: Output) -> tuple[NetStats, str]:
        """The reading, or an empty one and why it cannot be used."""
        if output.problem:
            return NO_READING, output.problem
        try:
            value = await self._parsed(output.text, MAX_DECODED_BYTES)
            return await self._result(reading_steps(value, self._cpus)), ""
        except BadOutput as error:
            return NO_READING, str(error)

    def _note_changes(self, reading: NetStats) -> None:
        """An inventory is wanted if ports or machines have come or gone."""
        if self._reading is None or self._facts is None:
            return
        if needs_inventory(self._reading, reading):
            self._wanted = self._wanted or "event"

    async def _put_counters(
        self, reading: NetStats, facts: EsxiFacts, now: float, problem: str
    ) -> None:
        functions = await self._read_functions(facts)
        with self._charged():
            numbers = ifindexes(reading, self._numbers)
            counters = self._accumulated.counters(now, reading, numbers, functions)
            if problem:
                reason = counters.unreadable["cpus"]
                counters.unreadable.update(dict.fromkeys(("links", "threads"), reason))
            self._put(counters=counters)

    async def _read_functions(self, facts: EsxiFacts) -> dict[int, dict[int, tuple[int, ...]]]:
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
        self._room = MAX_INVENTORY_BYTES

        async def query(source: str, *words: str) -> list[Fields] | None:
            if time.monotonic() - begin > INVENTORY_TIMEOUT:
                problems.setdefault(
                    source, Unreadable("failed", f"not read within {INVENTORY_TIMEOUT:g} s")
                )
                return None
            if self._facts is not None and time.monotonic() - self._read_at > MAX_READING_GAP:
                await self._read()
            entries, why = await self._esxcli(*words)
            if entries is None:
                problem = Unreadable("failed", f"esxcli {' '.join(words)}: {why}")
                problems.setdefault(source, problem)
            return entries

        facts = await read_facts(query)
        facts.problems = problems
        self._facts, self._cpus = facts, facts.cpus
        self._uncounted.clear()
        for nic, statistics in facts.statistics.items():
            counted = nic_counters(statistics)
            if counted is not None:
                self._accumulated.begin_with(nic, counted)
        reading = self._reading or NO_READING
        self._inventory_at = time.monotonic()
        await self._budget.wait_for_turn(MAX_DECODED_BYTES)
        with self._charged():
            self._accumulated.order_events_as(reading)
            self._put(
                inventory=inventory_of(
                    facts, reading, self._numbers, InventoryTime(begin, wall, reason)
                )
            )

    async def _esxcli(self, *words: str) -> tuple[list[Fields] | None, str]:
        """(records in the output, why there are none)."""
        problem = ""
        for _ in range(MAX_ATTEMPTS):
            output = await self._open_shell().run((*ESXCLI_JSON, *words))
            problem = output.problem
            if problem:
                break
            try:
                value = await self._parsed(output.text, self._room)
                return await self._result(record_steps(value)), ""
            except BadOutput as error:
                problem = str(error)
            finally:
                self._room -= decoded_bytes(output.text)
        return None, sanitize(problem)

    # ------------------------------------------------------------------------------------- CPU time

    @contextlib.contextmanager
    def _charged(self) -> Iterator[None]:
        """What is done meanwhile is charged to the host."""
        cpu, begin = time.thread_time(), time.monotonic()
        try:
            yield
        finally:
            self._budget.charge(time.thread_time() - cpu, time.monotonic() - begin)

    async def _parsed(self, text: bytes, room: int) -> object:
        """The JSON value in an output, in a turn of this host. Raises BadOutput."""
        await self._budget.wait_for_turn(len(text))
        with self._charged():
            return parse_json(text, room)

    async def _result(self, steps: Steps[T]) -> T:
        """The result of work that is done in turns of this host."""
        while True:
            with self._charged():
                try:
                    next(steps)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]
            await self._budget.wait_for_turn(0)

    def _report(self, message: str) -> None:
        """Once for each message, as far as it is new."""
        if message not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add(message)
            self._put(trouble=Trouble(time.monotonic(), sanitize(message)))
