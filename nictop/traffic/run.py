"""One run between two watched hosts: check both ends, start, watch, end, and always clean up.

`Run.events()` yields what happens as it happens and at last the result. The server is started first, and the client
only when somebody really listens; own watches end what hangs, since a generator waits for ever when the link under test
dies. Whatever ends the run (its end, a failure, a cancelled task, a closed iterator), both children are stopped and
waited for; a probe ends them by itself too when nobody is there any more.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from functools import partial

from nictop.model.wording.text import clean
from nictop.probe.records import Counters, TrafficLine, TrafficRequest
from nictop.traffic.assembly import Heard, result_of, zero
from nictop.traffic.ends import RunEnd
from nictop.traffic.events import Event, Finished, Limits, Measured, RunFailed, Sockets, Stage
from nictop.traffic.failures import Failure, failure, kind_of
from nictop.traffic.generators import Side, arguments, output
from nictop.traffic.host import Heard as HeardItem
from nictop.traffic.host import RunHost, is_set_within
from nictop.traffic.plan import Plan, problems
from nictop.traffic.tools import refusals

SIDES: tuple[Side, Side] = ("server", "client")
TRICKLE = 64 * 1024
"""Bytes: what small packets carry while no full one gets through."""


class Run:
    """A plan that is being carried out. `hosts`: both ends and the observers, by name, each already heard by somebody
    (`RunHost.follow`, or a screen that follows it)."""

    def __init__(
        self, plan: Plan, hosts: Mapping[str, RunHost], *, limits: Limits | None = None, identity: str = ""
    ) -> None:
        self.plan = plan
        self._hosts = hosts
        self._limits = limits or Limits()
        identity = identity or uuid.uuid4().hex[:12]
        self._ends: dict[Side, RunEnd] = {
            "server": RunEnd("server", plan.server.host, f"{identity}-s", plan.omit),
            "client": RunEnd("client", plan.client.host, f"{identity}-c", plan.omit),
        }
        self._identity = identity
        self._asked: set[Side] = set()
        self._pending: deque[tuple[str, HeardItem]] = deque()
        self._news = asyncio.Event()
        self._wall = time.time()
        self._before: dict[str, Counters | None] = {}
        self._failure: Failure | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """To be iterated once; to be closed (`contextlib.aclosing`) when it is left early."""
        silent = [host.listen(self._hear) for host in self._hosts.values()]
        try:
            try:
                async for event in self._stages():
                    yield event
            except RunFailed as error:
                self._failure = error.failure
            finally:
                await self._stop()
            yield Finished(result_of(await self._heard()))
        finally:
            for end_listening in silent:
                end_listening()

    # ------------------------------------------------------------------------------------------------- the stages

    async def _stages(self) -> AsyncGenerator[Event, None]:
        wrong = problems(self.plan) + tuple(
            f"{clean(end.host)} is not watched" for end in self._ends.values() if end.host not in self._hosts
        )
        if wrong:
            raise RunFailed(Failure("option", "; ".join(wrong)))
        yield Stage("checking", "looking for generators on both hosts")
        await self._check()
        for host in self._hosts.values():
            host.begin()
        async for event in self._start_server():
            yield event
        self._before = {name: host.snapshot.counters for name, host in self._hosts.items()}
        await self._ask("client")
        async for event in self._watch():
            yield event
        yield Stage("ending", "waiting for the last counters")

    async def _check(self) -> None:
        for side in SIDES:
            end = self._ends[side]
            await self._hosts[end.host].ask(TrafficRequest(f"{end.identity}-check", "check"))
        deadline = time.monotonic() + self._limits.check
        while missing := [end for end in self._ends.values() if end.tools is None]:
            item = await self._next(deadline)
            if item is None:
                names = ", ".join(clean(end.host) for end in missing)
                raise RunFailed(Failure("tools", f"{names}: the probe does not answer; it may be of an older nictop"))
            for end in missing:
                if item.id == f"{end.identity}-check" and item.kind == "failed":
                    raise RunFailed(Failure("tools", f"{clean(end.host)}: {clean(item.text)}"))
                if item.id == f"{end.identity}-check" and item.tools is not None:
                    end.tools = item.tools
                    end.output = output(self.plan, item.tools)
        client, server = self._ends["client"].tools, self._ends["server"].tools
        assert client is not None and server is not None
        refused = refusals(self.plan, client, server)
        if refused:
            raise RunFailed(Failure("option", "; ".join(refused)))

    async def _start_server(self) -> AsyncGenerator[Event, None]:
        first = self.plan.port
        end = self._ends["server"]
        for number in range(self._limits.ports):
            self.plan = replace(self.plan, port=(first + number - 1) % 65535 + 1)
            where = f"{clean(end.host)} port {self.plan.port}"
            yield Stage("starting", f"starting the server on {where}")
            await self._ask("server")
            deadline = time.monotonic() + self._limits.listen
            while not end.listening and end.ended is None:
                line = await self._next(deadline)
                if line is None:
                    raise RunFailed(Failure("start", f"{where}: nobody listens there after {self._limits.listen:g} s"))
                self._sort(line)
            if end.listening:
                yield Stage("listening", f"the server listens on {where}")
                return
            why = self._why(end, 0.0)
            if why.kind != "address_in_use":
                raise RunFailed(why)
            tools = end.tools
            end = self._ends["server"] = RunEnd("server", end.host, f"{self._identity}-s{number + 2}", self.plan.omit)
            assert tools is not None
            end.tools, end.output = tools, output(self.plan, tools)
            self._asked.discard("server")
        last = self.plan.port
        raise RunFailed(Failure("address_in_use", f"ports {first} to {last} are all taken on {clean(end.host)}"))

    async def _ask(self, side: Side) -> None:
        """Start one child. Its deadline is the probe's own, should nobody be there to end it."""
        end = self._ends[side]
        assert end.tools is not None
        self._asked.add(side)
        await self._hosts[end.host].ask(
            TrafficRequest(
                end.identity,
                "start",
                role=side,
                generator=self.plan.generator,
                arguments=arguments(self.plan, side, end.tools),
                port=self.plan.port,
                address=self.plan.server.address,
                deadline=self.plan.seconds + self._limits.grace + self._limits.listen,
                sockets=self.plan.protocol == "tcp",
                interval=self.plan.interval,
            )
        )

    async def _watch(self) -> AsyncGenerator[Event, None]:
        """Until both children have ended; raises RunFailed for what hangs or fails."""
        begun = time.monotonic()
        hard = begun + self.plan.seconds + self._limits.grace
        stall = max(self._limits.stall, 4 * self.plan.interval)
        moved, last = 0.0, begun
        yield Stage("running", "waiting for the first byte")
        while any(end.ended is None for end in self._ends.values()):
            patience = last + stall if moved else begun + self._limits.first_byte
            if moved and time.monotonic() > begun + self.plan.seconds:
                patience = hard  # the totals are exchanged at the end, and nothing else moves meanwhile
            line = await self._next(min(hard, patience))
            if line is None:
                raise RunFailed(self._hung(moved, time.monotonic() - begun))
            for event in self._sort(line):
                yield event
                if isinstance(event, Measured) and not event.interval.sends and event.interval.bits_per_second > 0:
                    moved, last = moved + event.interval.bytes, time.monotonic()
            self._give_up()
        for side in SIDES[::-1]:
            end = self._ends[side]
            if end.failed or end.problems:
                raise RunFailed(self._why(end, end.first_problem[0] if end.first_problem else 0.0))
        if not any(end.totals for end in self._ends.values()):
            said = next((line for end in self._ends.values() for line in end.complaints), "")
            more = f": {clean(said)[:200]}" if said else ""
            raise RunFailed(Failure("other", f"both ends are done, and neither has told a result{more}"))

    def _give_up(self) -> None:
        """An end that failed takes the run with it: the other one may wait for it for ever."""
        for side in SIDES[::-1]:
            end, other = self._ends[side], self._ends["server" if side == "client" else "client"]
            over = end.ended is not None or end.failed
            if over and (end.failed or end.problems) and other.ended is None:
                raise RunFailed(self._why(end, end.first_problem[0] if end.first_problem else 0.0))

    def _hung(self, moved: float, seconds: float) -> Failure:
        sent = any(one.sends and one.bits_per_second for end in self._ends.values() for _, one in end.intervals)
        where = f"between {clean(self.plan.client.host)} and {clean(self.plan.server.host)}"
        if seconds >= self.plan.seconds + self._limits.grace:
            return Failure("deadline", f"the run did not come to its end within {seconds:.0f} s")
        if sent and moved < TRICKLE:
            return Failure(
                "black_hole",
                f"the connection stood and then nothing full-sized came through {where}: an MTU black hole (a smaller "
                "MTU on the way, or jumbo frames on one side only)",
            )
        if moved:
            return Failure("stall", f"nothing arrived any more {where}: the link or the way died after {seconds:.0f} s")
        problem = next((end.first_problem for end in self._ends.values() if end.first_problem), None)
        if problem is not None:
            return self._failure_of(problem[1], problem[0])
        return Failure("start", f"not one byte arrived {where} within {seconds:.0f} s")

    def _why(self, end: RunEnd, seconds: float) -> Failure:
        problem = end.first_problem
        if problem is not None:
            return self._failure_of(problem[1], seconds)
        kind = kind_of(end.failed, seconds)
        if kind == "other":
            said = f": {clean(end.complaints[-1])[:200]}" if end.complaints else ""
            return Failure("other", f"{clean(end.host)}: {clean(end.failed) or 'it ended without a word'}{said}")
        return self._failure_of(end.failed, seconds)

    def _failure_of(self, text: str, seconds: float) -> Failure:
        host = self._hosts.get(self.plan.server.host)
        link = host.snapshot.links.get(self.plan.server.ifindex or 0) if host is not None else None
        return failure(self.plan, text, seconds, link=link.name if link is not None else None)

    # ------------------------------------------------------------------------------------------------ what is heard

    def _hear(self, name: str, item: HeardItem) -> None:
        self._pending.append((name, item))
        self._news.set()

    async def _next(self, deadline: float) -> TrafficLine | None:
        """The next line about traffic; None when none comes before the deadline. A lost end ends the run."""
        while True:
            while not self._pending:
                self._news.clear()
                if not await is_set_within(self._news, deadline - time.monotonic()):
                    return None
            name, item = self._pending.popleft()
            if isinstance(item, TrafficLine):
                return item
            if item.state in ("lost", "failed") and any(end.host == name for end in self._ends.values()):
                raise RunFailed(Failure("unreachable", f"{clean(name)}: {clean(item.message)}"))

    def _sort(self, line: TrafficLine) -> list[Event]:
        """Give a line to the end that it is about."""
        end = next((one for one in self._ends.values() if one.identity == line.id), None)
        if end is None:
            return []
        intervals = end.take(line)
        events: list[Event] = [Measured(end.host, self._time(end, line.time), one) for one in intervals]
        if line.kind == "sockets":
            events.append(Sockets(end.host, self._time(end, line.time), line.sockets))
        return events

    def _time(self, end: RunEnd, there: float) -> float | None:
        axis = zero(self._so_far())
        return None if axis is None else there - self._hosts[end.host].offset.seconds - axis

    def _so_far(self) -> Heard:
        return Heard(self.plan, self._ends, self._hosts, self._wall, self._before, {}, self._failure)

    # ----------------------------------------------------------------------------------------------------- the end

    async def _stop(self) -> None:
        """Stop the children that still run, and wait for their end."""
        running = [end for side, end in self._ends.items() if side in self._asked and end.ended is None]
        for end in running:
            await self._hosts[end.host].ask(TrafficRequest(end.identity, "stop"))
        deadline = time.monotonic() + self._limits.stop
        while any(end.ended is None for end in running):
            try:
                line = await self._next(deadline)
            except RunFailed:
                return  # the probe of a lost host ends its children by itself
            if line is None:
                return
            self._sort(line)

    async def _heard(self) -> Heard:
        """Everything, once each host has told a counter record of after the end."""
        if not self._before or all(end.anchor is None for end in self._ends.values()):
            return self._so_far()
        finish = {name: self._end_on(host) for name, host in self._hosts.items()}
        deadline = time.monotonic() + self._limits.counters
        for name, host in self._hosts.items():
            await host.until(partial(_after, host, finish[name]), deadline - time.monotonic())
        after = {name: _after(host, finish[name]) for name, host in self._hosts.items()}
        return replace(self._so_far(), after=after)

    def _end_on(self, host: RunHost) -> float:
        """When the later end was over, on the clock of a host."""
        ended = [
            end.ended - self._hosts[end.host].offset.seconds for end in self._ends.values() if end.ended is not None
        ]
        return max(ended, default=time.monotonic()) + host.offset.seconds


def _after(host: RunHost, moment: float) -> Counters | None:
    return next((record for record in host.records if record.time >= moment), None)
