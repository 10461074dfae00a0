"""One run between two watched hosts: check both ends and the path, start, watch, end, clean up.

`Run.events()` yields the events of the run, at last its result; `Run.stop()` ends it early, with what was measured
until then. The server is started first, the client when the server listens. Time limits end a run that hangs, as a
generator waits for ever if the link under test fails. However the run ends (by itself, by a failure, a cancelled task
or a closed iterator), both child processes are stopped and waited for; a probe also ends them itself when its
connection is lost.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from nictop.model.text.terminal import clean
from nictop.probe.records import Counters, TrafficLine, TrafficRequest
from nictop.probe.traffic.loss_differences import increases
from nictop.traffic.analysis.assemble import (
    RunLog,
    axis_start,
    first_record_since,
    has_record_since,
    interval_time,
    result_of,
)
from nictop.traffic.generators import Side, generator_arguments, output_parser
from nictop.traffic.path.result import PathReport
from nictop.traffic.path.run import PathRun, PathTimeouts, end_path_run
from nictop.traffic.plan.plan import MAX_PORT, RunPlan, next_port, plan_problems
from nictop.traffic.plan.tools import refusals
from nictop.traffic.run.endpoint import RunEnd
from nictop.traffic.run.events import (
    PATH_OF_CHECK,
    WAITING_FOR_DATA,
    IntervalMeasured,
    PathTested,
    RunEvent,
    RunFailed,
    RunFinished,
    RunStopped,
    RunTimeouts,
    SocketSample,
    Stage,
)
from nictop.traffic.run.failure_cause import (
    NOT_CONNECTED_KINDS,
    SECONDARY_KINDS,
    end_failure,
    first_cause,
    no_result_failure,
    taken_server,
    timeout_failure,
)
from nictop.traffic.run.failures import Failure
from nictop.traffic.run.floors import measure_floors
from nictop.traffic.run.host import RunHost
from nictop.traffic.run.inbox import TrafficInbox
from nictop.traffic.run.losses import LossCounts, read_losses
from nictop.traffic.run.path_test import run_path_report, run_path_test
from nictop.traffic.run.payload_watch import PayloadWatch
from nictop.traffic.run.strangers import expected_client, served_text

SIDES: tuple[Side, Side] = ("server", "client")


def _new_ends(plan: RunPlan, identity: str) -> dict[Side, RunEnd]:
    """`identity`: of both generators, without the letter of the side."""
    return {
        "server": RunEnd("server", plan.server.host, f"{identity}s", plan.omit),
        "client": RunEnd("client", plan.client.host, f"{identity}c", plan.omit),
    }


def _client_first(ends: Mapping[Side, RunEnd]) -> tuple[RunEnd, RunEnd]:
    return ends["client"], ends["server"]


class Run:
    """A running plan. `hosts`: both ends and the observers, by name; their sessions are run elsewhere."""

    def __init__(
        self, plan: RunPlan, hosts: Mapping[str, RunHost], *, limits: RunTimeouts | None = None, identity: str = ""
    ) -> None:
        self.plan = plan
        self._hosts = hosts
        self._limits = limits or RunTimeouts()
        identity = identity or uuid.uuid4().hex[:12]
        self._ends = _new_ends(plan, f"{identity}-")
        self._load_plan = plan.load
        self._load_ends = _new_ends(self._load_plan, f"{identity}-l") if self._load_plan is not None else {}
        """Of the bulk flow of a loaded run; the other ends have its requests."""
        self._identity = identity
        self._cookie, self._load_cookie = secrets.token_hex(16), secrets.token_hex(16)
        """Of the run and of its bulk flow: both ends get it over the connections to their probes."""
        self._started: set[str] = set()
        """Ids of generators."""
        self._wall = time.time()
        self._before: dict[str, Counters | None] = {}
        self._lost_before: LossCounts = {}
        self._names: dict[str, str] = {}
        self._notes: tuple[str, ...] = ()
        self._failure: Failure | None = None
        self._inbox = TrafficInbox(hosts, {end.host for end in self._ends.values()})
        self._stopped: float | None = None
        self._path_run: PathRun | None = None
        self._path_test: PathReport | None = None

    def stop(self) -> None:
        """End it now: the child processes are stopped, and the result is what was measured. Without effect after the
        end."""
        self._inbox.stop()

    async def events(self) -> AsyncGenerator[RunEvent, None]:
        """To be iterated once; close it (`contextlib.aclosing`) if it is left early."""
        self._inbox.open()
        try:
            try:
                async for event in self._stages():
                    yield event
            except RunFailed as error:
                self._failure = error.failure
            except RunStopped:
                axis = axis_start(self._log())
                self._stopped = 0.0 if axis is None else min(max(0.0, time.monotonic() - axis), float(self.plan.span))
            finally:
                await self._end_children()
            yield RunFinished(result_of(await self._complete_log()))
        finally:
            self._inbox.close()

    # -------------------------------------------------------------------------------------------------------- stages

    async def _stages(self) -> AsyncGenerator[RunEvent, None]:
        wrong = plan_problems(self.plan) + tuple(
            f"{clean(end.host)} is not watched" for end in self._ends.values() if end.host not in self._hosts
        )
        if wrong:
            raise RunFailed(Failure("option", "; ".join(wrong)))
        what = "checking iperf3 on both hosts" if self.plan.has_bulk else "checking both hosts"
        yield Stage("checking", f"{what}{PATH_OF_CHECK}")
        await self._check()
        if self._path_test is not None:
            yield PathTested(self._path_test)
        if self.plan.has_requests:
            hosts = [(side, self._hosts[self._ends[side].host]) for side in SIDES]
            floors = measure_floors(self.plan, hosts, self._inbox, self._identity, self._limits.floor)
            async with aclosing(floors) as events:
                async for event in events:
                    yield event
        try:
            async for event in self._transfer():
                yield event
        except RunFailed as error:
            if not self._can_take_over(error.failure):
                raise
            await self._replace_generators(error.failure)
            yield Stage("starting", self._notes[-1])
            async for event in self._transfer():
                yield event
        yield Stage("ending", "reading final counters")

    async def _transfer(self) -> AsyncGenerator[RunEvent, None]:
        """Start the generators, and watch them until they have ended."""
        self._lost_before = await self._read_losses("before")
        for host in self._hosts.values():
            host.clear_records()
        for ends in self._pairs:
            async for event in self._start_server(ends):
                yield event
        self._names = self._chosen_names()
        self._before = {name: host.snapshot.counters for name, host in self._hosts.items()}
        await self._start_child(self._ends, "client")
        async for event in self._watch():
            yield event

    def _can_take_over(self, failure: Failure) -> bool:
        """iperf3 died of something that need not concern the built-in generator, which has the options of the plan."""
        plan = replace(self.plan, generator="builtin")
        crashed = failure.kind == "died" and any(end.has_crashed for end in self._ends.values())
        return crashed and self.plan.generator == "iperf3" and not self._load_ends and not plan_problems(plan)

    async def _replace_generators(self, failure: Failure) -> None:
        """From now on the run is one of the built-in generator, from its beginning."""
        await self._stop_children()
        self._notes += (f"{failure.sentence}; the built-in generator is used instead",)
        self.plan = replace(self.plan, generator="builtin")
        old, self._ends = self._ends, _new_ends(self.plan, f"{self._identity}-b")
        for side, end in self._ends.items():
            tools = old[side].tools
            assert tools is not None
            end.tools, end.output = tools, output_parser(self.plan, tools)

    async def _check(self) -> None:
        """Test the path while the probes look for their generators."""
        deadline = time.monotonic() + self._limits.check
        for side in SIDES:
            end = self._ends[side]
            await self._require_live(self._hosts[end.host], deadline)
            await self._hosts[end.host].request(TrafficRequest(f"{end.identity}-check", "check"))
        timeouts = PathTimeouts(self._limits.path_test, self._limits.path_test, self._limits.stop)
        path = self._path_run = run_path_test(self.plan, self._hosts, self._identity, timeouts)
        await path.begin()
        while (missing := [end for end in self._ends.values() if end.tools is None]) or path.stage != "over":
            item = await self._inbox.next(min(deadline, path.deadline) if missing else path.deadline)
            if item is None:
                await path.expire()
            else:
                await path.add(item)
            if item is None and missing and time.monotonic() >= deadline:
                names = ", ".join(clean(end.host) for end in missing)
                late = f"{names}: no answer from the probe within {self._limits.check:g} s"
                raise RunFailed(Failure("tools", late))
            if item is not None and missing:
                self._add_tools(item, missing)
        tools = {end.host: end.tools for end in self._ends.values() if end.tools is not None}
        self._path_test = run_path_report(self.plan, path, self._hosts, tools)

    def _add_tools(self, line: TrafficLine, missing: Sequence[RunEnd]) -> None:
        """Take the answer to a check. Raises RunFailed."""
        for end in missing:
            if line.id == f"{end.identity}-check" and line.kind == "failed":
                raise RunFailed(Failure("tools", f"{clean(end.host)}: {clean(line.text)}"))
            if line.id == f"{end.identity}-check" and line.tools is not None:
                for ends in self._pairs:
                    ends[end.side].tools = line.tools
                    ends[end.side].output = output_parser(self._plan_of(ends), line.tools)
        client, server = self._ends["client"].tools, self._ends["server"].tools
        refused = refusals(self.plan, client, server) if client is not None and server is not None else ()
        if refused:
            raise RunFailed(Failure("option", "; ".join(refused)))

    async def _require_live(self, host: RunHost, deadline: float) -> None:
        """Raise RunFailed unless the host is live: a request to a lost probe would get no answer and no error."""
        await host.session.until(lambda: host.snapshot.state != "connecting", deadline - time.monotonic())
        if host.snapshot.state != "live":
            state = clean(host.snapshot.message) or f"it is {host.snapshot.state}"
            raise RunFailed(Failure("unreachable", f"{clean(host.name)}: {state}"))

    async def _start_server(self, ends: dict[Side, RunEnd]) -> AsyncGenerator[RunEvent, None]:
        first = self._plan_of(ends).port if ends is self._ends else next_port(self.plan.port)
        end = ends["server"]
        prefix = end.identity
        step = 1 if first + self._limits.ports - 1 <= MAX_PORT else -1
        for attempt in range(self._limits.ports):
            port = first + attempt * step
            if ends is self._ends:
                self.plan = replace(self.plan, port=port)
            else:
                self._load_plan = replace(self._plan_of(ends), port=port)
            where = f"{clean(end.host)} port {port}"
            yield Stage("starting", f"starting the server on {where}")
            await self._start_child(ends, "server")
            deadline = time.monotonic() + self._limits.listen
            while not end.listening and end.ended is None:
                line = await self._inbox.next(deadline)
                if line is None:
                    raise RunFailed(Failure("start", f"{where}: server not listening after {self._limits.listen:g} s"))
                self._pass_on(line)
            if end.listening:
                yield Stage("listening", f"the server listens on {where}")
                return
            reason = end_failure(self._log_of(ends), end)
            if reason.kind != "address_in_use":
                raise RunFailed(reason)
            tools = end.tools
            end = ends["server"] = RunEnd("server", end.host, f"{prefix}{attempt + 2}", end.omitted)
            assert tools is not None
            end.tools, end.output = tools, output_parser(self._plan_of(ends), tools)
        raise RunFailed(Failure("address_in_use", f"ports {first} to {port} are in use on {clean(end.host)}"))

    async def _start_child(self, ends: Mapping[Side, RunEnd], side: Side) -> None:
        """Start one child process. Its deadline is that of the probe, for the case that the connection is lost."""
        end, plan, is_load = ends[side], self._plan_of(ends), ends is self._load_ends
        assert end.tools is not None
        self._started.add(end.identity)
        peer = expected_client(plan, self._hosts[end.host].snapshot) if side == "server" else ""
        if plan.generator == "iperf3":
            end.client = peer
        # the requests beside a bulk flow are few: sockets and threads of a loaded run are those of the flow
        is_watched = is_load or not self._load_ends
        await self._hosts[end.host].request(
            TrafficRequest(
                end.identity,
                "start",
                role=side,
                generator=plan.generator,
                arguments=generator_arguments(plan, side, end.tools, delay=self.plan.seconds if is_load else 0),
                port=plan.port,
                address=plan.server.address,
                deadline=max(self.plan.seconds, plan.seconds) + self._limits.grace + self._limits.listen,
                sockets=is_watched and plan.protocol == "tcp" and plan.test != "crr",
                threads=is_watched,
                interval=plan.interval,
                cookie=self._load_cookie if is_load else self._cookie,
                peer=peer,
                congestion=(plan.congestion or "") if side == "server" and plan.generator == "iperf3" else "",
            )
        )

    async def _watch(self) -> AsyncGenerator[RunEvent, None]:
        """Yield events until both child processes have ended, of a loaded run those of its bulk flow. Raises RunFailed
        if the run hangs or fails."""
        started = time.monotonic()
        deadline = started + self.plan.seconds + self._limits.grace
        watched, deciding = self._ends, self._load_ends or self._ends
        watch = PayloadWatch(self._plan_of(watched), self._limits, started)
        yield Stage("running", WAITING_FOR_DATA)
        while any(end.ended is None for end in deciding.values()):
            line = await self._inbox.next(watch.limit(deadline, time.monotonic()))
            if line is None:
                now = time.monotonic()
                is_deadline = now >= deadline
                hangs = partial(
                    timeout_failure,
                    payload_bytes=watch.payload_bytes,
                    seconds=now - (started if is_deadline else watch.started),
                    is_deadline=is_deadline,
                )
                raise await self._failed(hangs, watched)
            for event in self._pass_on(line):
                yield event
                if isinstance(event, IntervalMeasured) and event.load == (watched is self._load_ends):
                    watch.add(event.interval, time.monotonic())
            await self._check_ends()
            if any(end.ended is not None for end in deciding.values()):
                watch.end_alone(time.monotonic())
            if watched is not deciding and self._is_idle_phase_over():
                watched, watch = deciding, PayloadWatch(self._plan_of(deciding), self._limits, time.monotonic())
                await self._start_child(deciding, "client")
                yield Stage("loading", "starting the bulk flow beside the requests")
        for end in sorted(_client_first(deciding), key=lambda end: not end.failed):
            if end.failed or end.problems:
                raise await self._failed(partial(end_failure, end=end), deciding)
        if not any(end.totals for end in deciding.values()):
            raise RunFailed(no_result_failure(self._log_of(deciding)))

    def _is_idle_phase_over(self) -> bool:
        """The requests have run alone for the time of a phase."""
        intervals = self._ends["client"].intervals
        return bool(intervals) and not intervals[-1][1].omitted and intervals[-1][1].end >= self.plan.time

    async def _check_ends(self) -> None:
        """An end that failed ends the run: the other one might wait for ever. So does a server that serves another
        client."""
        for ends in self._pairs:
            stranger = ends["server"].stranger
            if stranger:
                raise RunFailed(Failure("busy", served_text(self._plan_of(ends), stranger)))
            both = _client_first(ends)
            for end, other in (both, both[::-1]):
                over = end.ended is not None or end.failed
                is_left = other.ended is None or (ends is self._ends and bool(self._load_ends))
                if over and (end.failed or end.problems) and is_left:
                    original = await self._original_failure(end, other, ends)
                    raise await self._failed(partial(end_failure, end=original), ends)

    async def _failed(self, reason: Callable[[RunLog], Failure], ends: Mapping[Side, RunEnd]) -> RunFailed:
        """The cause; if no connection was made, with the routes of both hosts to each other."""
        found = taken_server(self._log_of(ends)) or reason(self._log_of(ends))
        if found.kind in NOT_CONNECTED_KINDS:
            await self._request_paths(ends)
            found = reason(self._log_of(ends))
        if ends is self._load_ends:
            found = replace(found, sentence=f"bulk flow: {found.sentence}")
        return RunFailed(found)

    async def _request_paths(self, ends: Mapping[Side, RunEnd]) -> None:
        """Request the route from both hosts; an end whose host does not answer in time has no path."""
        deadline = time.monotonic() + self._limits.path
        waiting = {}
        for end, here, there in (
            (ends["client"], self.plan.client, self.plan.server),
            (ends["server"], self.plan.server, self.plan.client),
        ):
            name = f"{end.identity}-path"
            waiting[name] = end
            address = there.address.partition("%")[0]
            await self._hosts[end.host].request(
                TrafficRequest(name, "path", address=address, source=here.address, ifindex=here.ifindex or 0)
            )
        while waiting:
            line = await self._inbox.next(deadline)
            if line is None:
                return
            if line.id in waiting:
                waiting.pop(line.id).path = line.path
            self._pass_on(line)

    async def _original_failure(self, end: RunEnd, other: RunEnd, ends: Mapping[Side, RunEnd]) -> RunEnd:
        """The end with the original error. If an end only reports the loss of the other one, the message of that is
        waited for."""
        deadline = time.monotonic() + self._limits.settle
        while end_failure(self._log_of(ends), end).kind in SECONDARY_KINDS and other.ended is None:
            line = await self._inbox.next(deadline)
            if line is None:
                break
            self._pass_on(line)
        return other if other.death or (other.failed and not end.failed) else end

    # ------------------------------------------------------------------------------------------------- received lines

    def _pass_on(self, line: TrafficLine) -> list[RunEvent]:
        """Pass a line to the end that it belongs to."""
        end = next((one for one in self._all_ends if one.identity == line.id), None)
        if end is None:
            return []
        intervals = end.add_line(line)
        is_load = end in self._load_ends.values()
        events: list[RunEvent] = []
        for one in intervals:
            when = interval_time(self._log(), end, one) if is_load else self._time(end, line.time)
            events.append(IntervalMeasured(end.host, when, one, end.side, is_load))
        if line.kind == "sockets":
            events.append(SocketSample(end.host, self._time(end, line.time), line.sockets, end.side))
        return events

    def _time(self, end: RunEnd, there: float) -> float | None:
        axis = axis_start(self._log())
        return None if axis is None else there - self._hosts[end.host].offset.seconds - axis

    def _log(self) -> RunLog:
        load = None
        if self._load_plan is not None:
            load = RunLog(self._load_plan, self._load_ends, self._hosts, self._wall, self._before, {})
        return RunLog(
            self.plan,
            self._ends,
            self._hosts,
            self._wall,
            self._before,
            {},
            self._failure,
            self._stopped,
            self._path_test,
            names=self._names,
            notes=self._notes,
            load=load,
        )

    def _log_of(self, ends: Mapping[Side, RunEnd]) -> RunLog:
        """The log of a pair of ends: of a loaded run that of its bulk flow, or of its requests."""
        log = self._log()
        return log.load if ends is self._load_ends and log.load is not None else log

    @property
    def _pairs(self) -> tuple[dict[Side, RunEnd], ...]:
        return (self._ends, self._load_ends) if self._load_ends else (self._ends,)

    @property
    def _all_ends(self) -> tuple[RunEnd, ...]:
        return (*self._ends.values(), *self._load_ends.values())

    def _plan_of(self, ends: Mapping[Side, RunEnd]) -> RunPlan:
        """What the generators of a pair of ends run."""
        if ends is self._load_ends and self._load_plan is not None:
            return self._load_plan
        return self.plan.requests

    # ------------------------------------------------------------------------------------------------------------ end

    async def _end_children(self) -> None:
        """Stop the child processes that still run, and wait for their end."""
        self._inbox.end()
        if self._path_run is not None:
            await end_path_run(self._path_run, self._inbox)
        await self._stop_children()

    async def _stop_children(self) -> None:
        """Without the listeners and testers of the path test."""
        running = [end for end in self._all_ends if end.identity in self._started and end.ended is None]
        for end in running:
            if end.host not in self._inbox.lost:
                await self._hosts[end.host].request(TrafficRequest(end.identity, "stop"))
        deadline = time.monotonic() + self._limits.stop
        while any(end.ended is None and end.host not in self._inbox.lost for end in running):
            try:
                line = await self._inbox.next(deadline)
            except RunFailed as error:  # a host is lost; the child process of the other one must still be stopped
                self._failure = first_cause(self._failure, error.failure)
                continue
            if line is None:
                return
            self._pass_on(line)

    async def _complete_log(self) -> RunLog:
        """The complete log, once each host has sent a counter record after the end."""
        if not self._before or all(end.run_start is None for end in self._ends.values()):
            return self._log()
        finish = {name: self._end_on(host) for name, host in self._hosts.items()}
        deadline = time.monotonic() + self._limits.counters
        for name, host in self._hosts.items():
            if name not in self._inbox.lost:
                await host.session.until(partial(has_record_since, host, finish[name]), deadline - time.monotonic())
        after = {name: first_record_since(host, finish[name]) for name, host in self._hosts.items()}
        return replace(self._log(), after=after, losses=await self._losses())

    def _chosen_names(self) -> dict[str, str]:
        """Host of an end → name of its NIC."""
        found = {}
        for end in (self.plan.server, self.plan.client):
            host = self._hosts.get(end.host)
            link = host.snapshot.links.get(end.ifindex or 0) if host is not None else None
            if link is not None:
                found[end.host] = link.name
        return found

    async def _losses(self) -> LossCounts:
        """Host → counters of lost packets that rose during the run."""
        try:
            after = await self._read_losses("after")
        except RunFailed:  # a host was lost meanwhile
            return {}
        return {name: increases(before, after[name]) for name, before in self._lost_before.items() if name in after}

    async def _read_losses(self, when: str) -> LossCounts:
        nics = {end.host: end.ifindex or 0 for end in (self.plan.server, self.plan.client)}
        identity = f"{self._identity}-losses-{when}"
        return await read_losses(self._hosts, self._inbox, identity, nics=nics, seconds=self._limits.losses)

    def _end_on(self, host: RunHost) -> float:
        """Time at which the later end ended, on the clock of a host."""
        ended = [end.ended - self._hosts[end.host].offset.seconds for end in self._all_ends if end.ended is not None]
        return max(ended, default=time.monotonic()) + host.offset.seconds
