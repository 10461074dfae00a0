"""One run between two watched hosts: check both ends, start, watch, end, and always clean up.

`Run.events()` yields what happens as it happens and at last the result; `Run.stop()` ends it early, with what was
measured until then. The server is started first, and the client
only when somebody really listens; own watches end what hangs, since a generator waits for ever when the link under test
dies. Whatever ends the run (its end, a failure, a cancelled task, a closed iterator), both children are stopped and
waited for; a probe ends them by itself too when nobody is there any more.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from functools import partial

from nictop.model.text.terminal import clean
from nictop.probe.records import Counters, TrafficLine, TrafficRequest
from nictop.traffic.analysis.assemble import RunLog, first_after, has_told, result_of, zero
from nictop.traffic.generators import Side, arguments, output
from nictop.traffic.plan.plan import RunPlan, problems
from nictop.traffic.plan.tools import refusals
from nictop.traffic.run.endpoint import RunEnd
from nictop.traffic.run.events import (
    Event,
    Finished,
    IntervalMeasured,
    RunFailed,
    RunStopped,
    RunTimeouts,
    Sockets,
    Stage,
)
from nictop.traffic.run.failure_cause import NOT_CONNECTED, SEEN_FROM_AFAR, first_cause, hung, why, without_result
from nictop.traffic.run.failures import Failure
from nictop.traffic.run.host import RunHost
from nictop.traffic.run.inbox import TrafficInbox

SIDES: tuple[Side, Side] = ("server", "client")


class Run:
    """A plan that is being carried out. `hosts`: both ends and the observers, by name; somebody else runs their
    sessions."""

    def __init__(
        self, plan: RunPlan, hosts: Mapping[str, RunHost], *, limits: RunTimeouts | None = None, identity: str = ""
    ) -> None:
        self.plan = plan
        self._hosts = hosts
        self._limits = limits or RunTimeouts()
        identity = identity or uuid.uuid4().hex[:12]
        self._ends: dict[Side, RunEnd] = {
            "server": RunEnd("server", plan.server.host, f"{identity}-s", plan.omit),
            "client": RunEnd("client", plan.client.host, f"{identity}-c", plan.omit),
        }
        self._identity = identity
        self._asked: set[Side] = set()
        self._wall = time.time()
        self._before: dict[str, Counters | None] = {}
        self._failure: Failure | None = None
        self._lines = TrafficInbox(hosts, {end.host for end in self._ends.values()})
        self._stopped: float | None = None

    def stop(self) -> None:
        """End it now: the children are stopped, and what was measured is the result. Afterwards it does nothing."""
        self._lines.stop()

    async def events(self) -> AsyncGenerator[Event, None]:
        """To be iterated once; to be closed (`contextlib.aclosing`) when it is left early."""
        self._lines.open()
        try:
            try:
                async for event in self._stages():
                    yield event
            except RunFailed as error:
                self._failure = error.failure
            except RunStopped:
                axis = zero(self._so_far())
                self._stopped = 0.0 if axis is None else min(max(0.0, time.monotonic() - axis), float(self.plan.time))
            finally:
                await self._end_children()
            yield Finished(result_of(await self._heard()))
        finally:
            self._lines.close()

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
            host.clear_records()
        async for event in self._start_server():
            yield event
        self._before = {name: host.snapshot.counters for name, host in self._hosts.items()}
        await self._ask("client")
        async for event in self._watch():
            yield event
        yield Stage("ending", "waiting for the last counters")

    async def _check(self) -> None:
        deadline = time.monotonic() + self._limits.check
        for side in SIDES:
            end = self._ends[side]
            await self._is_there(self._hosts[end.host], deadline)
            await self._hosts[end.host].request(TrafficRequest(f"{end.identity}-check", "check"))
        while missing := [end for end in self._ends.values() if end.tools is None]:
            item = await self._lines.next(deadline)
            if item is None:
                names = ", ".join(clean(end.host) for end in missing)
                late = f"{names}: no answer from the probe within {self._limits.check:g} s"
                raise RunFailed(Failure("tools", late))
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

    async def _is_there(self, host: RunHost, deadline: float) -> None:
        """A request to a probe that is not there would be lost without a word."""
        await host.session.until(lambda: host.snapshot.state != "connecting", deadline - time.monotonic())
        if host.snapshot.state != "live":
            words = clean(host.snapshot.message) or f"it is {host.snapshot.state}"
            raise RunFailed(Failure("unreachable", f"{clean(host.name)}: {words}"))

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
                line = await self._lines.next(deadline)
                if line is None:
                    raise RunFailed(Failure("start", f"{where}: nobody listens there after {self._limits.listen:g} s"))
                self._sort(line)
            if end.listening:
                yield Stage("listening", f"the server listens on {where}")
                return
            reason = why(self._so_far(), end)
            if reason.kind != "address_in_use":
                raise RunFailed(reason)
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
        await self._hosts[end.host].request(
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
                threads=True,
                interval=self.plan.interval,
            )
        )

    async def _watch(self) -> AsyncGenerator[Event, None]:
        """Until both children have ended; raises RunFailed for what hangs or fails."""
        begun = time.monotonic()
        hard = begun + self.plan.seconds + self._limits.grace
        stall = max(self._limits.stall, 4 * self.plan.interval)
        moved, last = 0.0, begun
        alone: float | None = None
        """Since when one end only is there: it must see that soon, and may wait for ever."""
        yield Stage("running", "waiting for the first byte")
        while any(end.ended is None for end in self._ends.values()):
            patience = last + stall if moved else begun + self._limits.first_byte
            if moved and time.monotonic() > begun + self.plan.seconds:
                patience = hard  # the totals are exchanged at the end, and nothing else moves meanwhile
            if alone is not None:
                patience = min(patience, alone + stall)
            line = await self._lines.next(min(hard, patience))
            if line is None:
                seconds = time.monotonic() - begun
                raise await self._failed(partial(hung, limits=self._limits, moved=moved, seconds=seconds))
            for event in self._sort(line):
                yield event
                if (
                    isinstance(event, IntervalMeasured)
                    and not event.interval.sends
                    and event.interval.bits_per_second > 0
                ):
                    moved, last = moved + event.interval.bytes, time.monotonic()
            await self._give_up()
            if alone is None and any(end.ended is not None for end in self._ends.values()):
                alone = time.monotonic()
        for end in sorted(self._client_first, key=lambda end: not end.failed):
            if end.failed or end.problems:
                raise await self._failed(partial(why, end=end))
        if not any(end.totals for end in self._ends.values()):
            raise RunFailed(without_result(self._so_far()))

    @property
    def _client_first(self) -> tuple[RunEnd, RunEnd]:
        return self._ends["client"], self._ends["server"]

    async def _give_up(self) -> None:
        """An end that failed takes the run with it: the other one may wait for it for ever."""
        for end, other in (self._client_first, self._client_first[::-1]):
            over = end.ended is not None or end.failed
            if over and (end.failed or end.problems) and other.ended is None:
                raise await self._failed(partial(why, end=await self._first_to_fail(end, other)))

    async def _failed(self, reason: Callable[[RunLog], Failure]) -> RunFailed:
        """The reason; where no connection was made, with what both hosts say of the route to each other."""
        found = reason(self._so_far())
        if found.kind in NOT_CONNECTED:
            await self._look_up_paths()
            found = reason(self._so_far())
        return RunFailed(found)

    async def _look_up_paths(self) -> None:
        """Asks both hosts; what does not answer in time leaves the end without a path."""
        deadline = time.monotonic() + self._limits.path
        waiting = {}
        for end, here, there in (
            (self._ends["client"], self.plan.client, self.plan.server),
            (self._ends["server"], self.plan.server, self.plan.client),
        ):
            name = f"{end.identity}-path"
            waiting[name] = end
            address = there.address.partition("%")[0]
            await self._hosts[end.host].request(
                TrafficRequest(name, "path", address=address, source=here.address, ifindex=here.ifindex or 0)
            )
        while waiting:
            line = await self._lines.next(deadline)
            if line is None:
                return
            if line.id in waiting:
                waiting.pop(line.id).path = line.path
            self._sort(line)

    async def _first_to_fail(self, end: RunEnd, other: RunEnd) -> RunEnd:
        """The end that tells why. Where it only noticed what had happened to the other one, that is waited for."""
        deadline = time.monotonic() + self._limits.settle
        while why(self._so_far(), end).kind in SEEN_FROM_AFAR and other.ended is None:
            line = await self._lines.next(deadline)
            if line is None:
                break
            self._sort(line)
        return other if other.failed and not end.failed else end

    # ------------------------------------------------------------------------------------------------ what is heard

    def _sort(self, line: TrafficLine) -> list[Event]:
        """Give a line to the end that it is about."""
        end = next((one for one in self._ends.values() if one.identity == line.id), None)
        if end is None:
            return []
        intervals = end.take(line)
        events: list[Event] = [
            IntervalMeasured(end.host, self._time(end, line.time), one, end.side) for one in intervals
        ]
        if line.kind == "sockets":
            events.append(Sockets(end.host, self._time(end, line.time), line.sockets, end.side))
        return events

    def _time(self, end: RunEnd, there: float) -> float | None:
        axis = zero(self._so_far())
        return None if axis is None else there - self._hosts[end.host].offset.seconds - axis

    def _so_far(self) -> RunLog:
        return RunLog(self.plan, self._ends, self._hosts, self._wall, self._before, {}, self._failure, self._stopped)

    # ----------------------------------------------------------------------------------------------------- the end

    async def _end_children(self) -> None:
        """Stop those that still run, and wait for their end."""
        self._lines.end()
        running = [end for side, end in self._ends.items() if side in self._asked and end.ended is None]
        for end in running:
            if end.host not in self._lines.lost:
                await self._hosts[end.host].request(TrafficRequest(end.identity, "stop"))
        deadline = time.monotonic() + self._limits.stop
        while any(end.ended is None and end.host not in self._lines.lost for end in running):
            try:
                line = await self._lines.next(deadline)
            except RunFailed as error:  # a host is lost; the other one may still have something to stop
                self._failure = first_cause(self._failure, error.failure)
                continue
            if line is None:
                return
            self._sort(line)

    async def _heard(self) -> RunLog:
        """Everything, once each host has told a counter record of after the end."""
        if not self._before or all(end.anchor is None for end in self._ends.values()):
            return self._so_far()
        finish = {name: self._end_on(host) for name, host in self._hosts.items()}
        deadline = time.monotonic() + self._limits.counters
        for name, host in self._hosts.items():
            if name not in self._lines.lost:
                await host.session.until(partial(has_told, host, finish[name]), deadline - time.monotonic())
        after = {name: first_after(host, finish[name]) for name, host in self._hosts.items()}
        return replace(self._so_far(), after=after)

    def _end_on(self, host: RunHost) -> float:
        """When the later end was over, on the clock of a host."""
        ended = [
            end.ended - self._hosts[end.host].offset.seconds for end in self._ends.values() if end.ended is not None
        ]
        return max(ended, default=time.monotonic()) + host.offset.seconds
