"""A traffic run in a recording, evaluated by the same code and from the same lines as a live run.

`RecordedRun.advance` reads the items of all hosts up to a time; `view` is the view of the run at that time, after
its end with the result. Plan, stages and result are those that nictop noted when it made the run. In a recording
without such notes they are derived: the plan from the arguments of the generators (a run whose start is not in the
recording cannot be shown then), the result by the code that computes that of live runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from time import thread_time

from nictop.hosts.session import HostSession
from nictop.hosts.specification import RECORDED, Host
from nictop.model.text.terminal import clean
from nictop.probe.records import Line, Request, TrafficLine, TrafficRequest
from nictop.recording.file.run_note import RunNote
from nictop.recording.reader import NOT_YET, NotYet, RecordedItem, Recording
from nictop.replay.run_index import GENERATOR_ID, RunMarks
from nictop.replay.run_plan import loaded_plan, recorded_plan
from nictop.traffic.analysis.assemble import (
    RunLog,
    axis_start,
    first_record_since,
    has_record_since,
    interval_time,
    result_of,
)
from nictop.traffic.generators import Side, output_parser
from nictop.traffic.live.run_view import LiveRun, RunView
from nictop.traffic.path.result import PathReport
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.run.endpoint import RunEnd
from nictop.traffic.run.events import WAITING_FOR_DATA, IntervalMeasured, RunFinished, SocketSample, Stage
from nictop.traffic.run.failure_cause import end_failure, no_result_failure
from nictop.traffic.run.failures import Failure
from nictop.traffic.run.host import RunHost
from nictop.traffic.run.path_test import run_path_report, run_path_test
from nictop.traffic.run_notes import noted_plan, noted_result

RUN_LEAD_SECONDS = 20.0
"""Seconds before the start of the first generator in which both probes were requested to check their generators."""
RUN_TAIL_SECONDS = 4.0
"""Seconds after the end of the run in which each host sends a last counter record."""
ROUNDING_SECONDS = 1e-5
"""Times of items are rounded to microseconds, those of marks are not: a run is shown from its begin on."""
RUN_SLICE_SECONDS = 0.01
"""CPU seconds of reading after which other tasks run."""
NOT_RECORDED = "the recording ends before the result of the test"
ENDED_BY_NICTOP = Failure(
    "interrupted", "ended before its end, by the user or by a time limit of nictop: the recording does not contain why"
)
"""Of a run without notes, to whose generators nictop sent a stop."""


class RecordedRun:
    """One run, evaluated up to a time of the recording (`advance`)."""

    def __init__(self, recording: Recording, marks: RunMarks) -> None:
        self.marks, self._recording = marks, recording
        self._view: RunView | None = None
        self._restart()

    def _restart(self) -> None:
        self._now = float("-inf")
        self._plan: RunPlan | None = None
        self._attempt = ""
        """Of the newest generators, as in `GENERATOR_ID`: a run is repeated, or another generator takes over."""
        self._stored: StoredRun | None = None
        """The noted result."""
        self.noted_size = 0
        """Characters of it in the recording."""
        self._ended_because = ""
        """Why it has no result."""
        self._stopped: Failure | None = None
        """Why nictop stopped its generators; None: it did not."""
        self._requests: dict[Side, TrafficRequest] = {}
        self._load_requests: dict[Side, TrafficRequest] = {}
        """To the generators of the bulk flow of a loaded run."""
        self._ends: dict[Side, RunEnd] = {}
        self._load_ends: dict[Side, RunEnd] = {}
        self._requests_plan: RunPlan | None = None
        """Of a loaded run: the part with its requests."""
        self._live_run: LiveRun | None = None
        self._result_time: float | None = None
        self._path_lines: list[TrafficLine] = []
        """Of its path test, before the plan was known."""
        self._path_test: PathReport | None = None
        self._early_lines: dict[str, TrafficLine] = {}
        """Generator id → its last line of the kinds tools and started, received before the plan was known."""
        since = self.marks.begin - RUN_LEAD_SECONDS
        names = self._recording.hosts
        self._hosts = {name: RunHost(HostSession(Host(name, RECORDED), window=False)) for name in names}
        self._items = _items_of_hosts(self._recording, names, since)
        self._next: tuple[RecordedItem, str] | None = None
        self._read_until: float | None = None
        """End of the recording when it was read to its end; if it has grown since, all of it is read again."""

    @property
    def _is_starting(self) -> bool:
        """The start of the client, whose request comes last, has yet to be read."""
        end = self._recording.end if self.marks.end is None else self.marks.end
        has_client = f"{self.marks.identity}-c" in self._early_lines
        return self.marks.is_complete and not has_client and self._now < end

    @property
    def problem(self) -> str:
        """Why there is no view or no result of the run although it has started; "": there is one, or it runs."""
        if self._now < self.marks.begin:
            return ""
        if self._ended_because:
            return self._ended_because
        if self._plan is None and self._is_starting:
            return ""
        if self._plan is None:
            return "settings of the test unknown: the recording starts after the test"
        has_result = self._view is not None and self._view.result is not None
        is_over = self._now >= self._recording.end and self._recording.closed
        return NOT_RECORDED if is_over and not has_result else ""

    @property
    def stored(self) -> StoredRun | None:
        """The result that nictop noted, with its experiment; None: there is none."""
        return self._stored

    def view(self) -> RunView | None:
        """View of the run at the time of the last `advance`; None: it has not started, or cannot be shown."""
        return self._view

    async def advance(self, now: float) -> None:
        """Evaluate the run up to the time `now`, seconds as in the recording. For an earlier time than before,
        everything is read again from the beginning. May be cancelled: the next call continues there."""
        if now < self._now or (self._read_until is not None and self._recording.end > self._read_until):
            self._restart()
        last = now + ROUNDING_SECONDS
        if self.marks.end is not None:
            last = min(last, self.marks.end + RUN_TAIL_SECONDS)
        used, begin = 0.0, thread_time()
        while True:
            used += thread_time() - begin
            if used >= RUN_SLICE_SECONDS:
                used = 0.0
                await asyncio.sleep(0)
            begin = thread_time()
            found = self._next if self._next is not None else next(self._items, None)
            if found is NOT_YET:
                continue
            if found is None:
                self._read_until = self._recording.end
                break
            self._next = found
            if found[0].time > last:
                break
            self._next, self._now = None, max(self._now, found[0].time)
            self._process(found[1], found[0])
        self._now = now
        self._finish(last)
        self._view = None if self._live_run is None else self._live_run.view(self._result_time or self._now)

    # ----------------------------------------------------------------------------------------------- items

    def _process(self, name: str, recorded: RecordedItem) -> None:
        if isinstance(recorded.item, RunNote):
            self._process_note(recorded.item, recorded.time)
            return
        if isinstance(recorded.item, Request):
            self._process_request(recorded.item.traffic)
            return
        self._hosts[name].session.process(recorded.item, recorded.time)
        line = recorded.item.traffic if isinstance(recorded.item, Line) else None
        if line is not None:
            self._process_line(line, recorded.time)

    def _process_note(self, note: RunNote, time: float) -> None:
        if note.run != self.marks.identity:
            return
        if note.kind == "plan":
            self._begin(noted_plan(note.text))
        elif note.kind == "stage" and self._live_run is not None:
            self._live_run.process(Stage("running", note.text), time)
        elif note.kind == "result":
            self._stored, self.noted_size = noted_result(note.text), len(note.text)
            if self._stored is None:
                self._ended_because = "its result in the recording is not valid"
            else:
                self._end(self._stored.result, time)
        elif note.kind == "ended":
            self._ended_because = clean(note.text)
            if self._plan is not None:
                wall = self._recording.wall_time(self.marks.begin)
                self._end(Result(self._plan, wall, failure=Failure("other", self._ended_because)), time)

    def _begin(self, plan: RunPlan | None) -> None:
        """The plan is noted; None: it is not valid."""
        self._plan = plan
        self._live_run = None if plan is None else LiveRun(plan, self._hosts)

    def _end(self, result: Result, time: float) -> None:
        if self._live_run is None:
            self._begin(result.plan)
        if self._live_run is not None:
            self._live_run.process(RunFinished(result), time)
            self._result_time = time

    def _process_request(self, request: TrafficRequest | None) -> None:
        """The request to the client is the last one, but for that to the client of a bulk flow beside requests: a run
        with a server for one is a loaded run. With the last one, the plan is known."""
        found = GENERATOR_ID.fullmatch(request.id) if request is not None else None
        if request is None or found is None or found[1] != self.marks.identity:
            return
        if request.action == "stop":
            self._note_stop(request.id)
        if request.action != "start" or request.role is None:
            return
        if found[2] != self._attempt:
            self._begin_attempt(found[2])
        if found[3].startswith("l"):
            self._load_requests[request.role] = request
            if request.role == "client":
                self._set_load()
        elif not self._ends:
            self._requests[request.role] = request
            self._set_plan()

    def _begin_attempt(self, attempt: str) -> None:
        """The run begins, or begins again with other generators."""
        self._attempt, self._result_time, self._stopped = attempt, None, None
        self._requests, self._load_requests, self._ends, self._load_ends = {}, {}, {}, {}
        if not self.marks.is_noted:
            self._plan = self._live_run = None
        for host in self._hosts.values():  # as live, before the server is started: windows of CPU time begin there
            host.clear_records()

    def _note_stop(self, identity: str) -> None:
        """A generator is stopped before it has ended. Of a loaded run, the requests are always stopped in the end."""
        deciding = self._load_ends or self._ends
        is_early = any(end.identity == identity and end.ended is None for end in deciding.values())
        if is_early and self._stopped is None:
            self._stopped = self._failure_of_ends() or ENDED_BY_NICTOP

    def _failure_of_ends(self) -> Failure | None:
        """As the generators reported it; None: they did not."""
        log = self._log()
        deciding = (log.load or log).ends
        for end in sorted((deciding["client"], deciding["server"]), key=lambda end: not end.failed):
            if end.failed or end.problems:
                return end_failure(log.load or log, end)
        return None

    def _set_plan(self) -> None:
        client, server = self._requests.get("client"), self._requests.get("server")
        if client is None or server is None or not self.marks.is_complete:
            return
        hosts: dict[Side, str] = {"client": self.marks.client, "server": self.marks.server}
        if self.marks.is_noted:
            if self._plan is not None:
                self._start(self._plan if self._plan.load else _with_generator(self._plan, client), hosts)
            return
        known = tuple(self._hosts[hosts[side]].snapshot for side in ("client", "server"))
        self._plan = recorded_plan(client, server, (known[0], known[1]))
        load = self._load_requests.get("server")
        if self._plan is not None and load is not None:
            self._requests_plan = self._plan
            coming = self._coming_load_request()
            self._plan = loaded_plan(self._plan, load, coming) or loaded_plan(self._plan, load)
        if self._plan is not None:
            self._start(self._plan, hosts)
            self._live_run = LiveRun(self._plan, self._hosts)
            self._live_run.process(Stage("running", WAITING_FOR_DATA), self._now)

    def _coming_load_request(self) -> TrafficRequest | None:
        """To the client of the bulk flow, which is started later: its options were known to the user from the
        beginning. None: it is not in the recording."""
        wanted = f"{self.marks.identity}{self._attempt}lc"
        for found in _items_of_hosts(self._recording, (self.marks.client,), self._now):
            if found is NOT_YET:
                continue
            recorded = found[0]
            request = recorded.item.traffic if isinstance(recorded.item, Request) else None
            if request is not None and request.id == wanted and request.action == "start":
                return request
            if self.marks.end is not None and recorded.time > self.marks.end:
                break
        return None

    def _set_load(self) -> None:
        """Of a run without notes: the bulk flow beside the requests is started, and its options are known at last."""
        client, server = self._load_requests.get("client"), self._load_requests.get("server")
        if self._requests_plan is None or self._live_run is None or client is None or server is None:
            return
        plan = loaded_plan(self._requests_plan, server, client) or self._plan
        if plan is not None and plan != self._plan:  # the file has grown since
            self._plan = plan
            self._live_run.set_plan(self._plan)
            for side, end in self._load_ends.items():
                self._add_tools(end, self._plan.load or self._plan, side)

    def _start(self, plan: RunPlan, hosts: Mapping[Side, str]) -> None:
        for side, name in hosts.items():
            end = self._ends[side] = RunEnd(side, name, self._requests[side].id, plan.omit)
            end.client = _served_client(self._requests[side])
            self._add_tools(end, plan.requests, side)
            load = plan.load
            if load is not None:
                request = self._load_requests.get(side)
                identity = request.id if request is not None else f"{self.marks.identity}-lc"
                self._load_ends[side] = RunEnd(side, name, identity, load.omit)
                self._load_ends[side].client = _served_client(request) if request is not None else ""
                self._add_tools(self._load_ends[side], load, side)
            # the servers had started before the request to the client
            for one in (end, *([self._load_ends[side]] if load is not None else ())):
                started = self._early_lines.get(one.identity)
                if started is not None:
                    one.add_line(started)
        self._path_test = self._path_report(plan)

    def _add_tools(self, end: RunEnd, plan: RunPlan, side: Side) -> None:
        attempt = self._attempt.removesuffix("b")
        check = self._early_lines.get(f"{self.marks.identity}{attempt}{side[0]}-check")
        if check is not None and check.tools is not None:
            end.tools, end.output = check.tools, output_parser(plan, check.tools)

    def _process_line(self, line: TrafficLine, now: float) -> None:
        end = next((one for one in self._all_ends if one.identity == line.id), None)
        if end is None or self._live_run is None:
            if line.kind in ("tools", "started"):
                self._early_lines[line.id] = line
            elif line.id.startswith((f"{self.marks.identity}-path_", f"{self.marks.identity}-r-path_")):
                self._path_lines.append(line)
            return
        intervals = end.add_line(line)
        is_load = end in self._load_ends.values()
        for one in intervals:
            time = interval_time(self._log(), end, one) if is_load else self._time(end, line.time)
            self._live_run.process(IntervalMeasured(end.host, time, one, end.side, is_load), now)
        if line.kind == "sockets":
            self._live_run.process(SocketSample(end.host, self._time(end, line.time), line.sockets, side=end.side), now)

    def _path_report(self, plan: RunPlan) -> PathReport | None:
        """None: the run had no path test."""
        if not self._path_lines:
            return None
        test = run_path_test(plan, self._hosts, self.marks.identity)
        for line in self._path_lines:
            test.record(line)
        tools = {end.host: end.tools for end in self._ends.values() if end.tools is not None}
        return run_path_report(plan, test, self._hosts, tools)

    def _time(self, end: RunEnd, host_time: float) -> float | None:
        axis = axis_start(self._log())
        return None if axis is None else host_time - self._hosts[end.host].offset.seconds - axis

    def _log(self) -> RunLog:
        assert self._plan is not None
        before = {name: host.records[0] if host.records else None for name, host in self._hosts.items()}
        wall = self._recording.wall_time(self.marks.begin)
        load = None
        if self._plan.load is not None:
            load = RunLog(self._plan.load, self._load_ends, self._hosts, wall, before, {})
        return RunLog(self._plan, self._ends, self._hosts, wall, before, {}, path_test=self._path_test, load=load)

    @property
    def _all_ends(self) -> tuple[RunEnd, ...]:
        return (*self._ends.values(), *self._load_ends.values())

    # ------------------------------------------------------------------------------------------------------ the end

    def _finish(self, last: float) -> None:
        """Of a run without notes: make the result, once both ends are over and every host has sent a counter record
        after that or is late."""
        if (
            self.marks.is_noted
            or self._live_run is None
            or self._result_time is not None
            or any(end.ended is None for end in self._ends.values())
            or any(end.ended is None for side, end in self._load_ends.items() if side in self._load_requests)
        ):
            return
        ended = max(end.ended - self._hosts[end.host].offset.seconds for end in self._all_ends if end.ended)
        read_after = {name: ended + host.offset.seconds for name, host in self._hosts.items()}
        late = last >= ended + RUN_TAIL_SECONDS
        if not late and not all(has_record_since(host, read_after[name]) for name, host in self._hosts.items()):
            return
        after = {name: first_record_since(host, read_after[name]) for name, host in self._hosts.items()}
        log = self._log()
        failure = self._stopped or self._failure_of_ends()
        if failure is None and not any(end.totals for end in (log.load or log).ends.values()):
            failure = no_result_failure(log.load or log)
        self._end(result_of(replace(log, after=after, failure=failure)), last)


def _with_generator(plan: RunPlan, client: TrafficRequest) -> RunPlan:
    """The plan with the generator that was started in fact."""
    return replace(plan, generator=client.generator or plan.generator)


def _items_of_hosts(
    recording: Recording, names: Iterable[str], since: float
) -> Iterator[tuple[RecordedItem, str] | NotYet]:
    """The items of these hosts by time, in steps of some milliseconds."""
    heap: list[tuple[float, str, RecordedItem]] = []
    readers = {name: recording.reader(name, since) for name in names}
    wanted = list(readers)
    while wanted or heap:
        while wanted:
            name = wanted[-1]
            recorded = readers[name].step()
            if recorded is NOT_YET:
                yield NOT_YET
                continue
            wanted.pop()
            if recorded is not None:
                heappush(heap, (recorded.time, name, recorded))
        if heap:
            _, name, recorded = heappop(heap)
            yield recorded, name
            wanted.append(name)


def _served_client(request: TrafficRequest) -> str:
    """The address of the only client whose traffic is that of the run; "": not known, or the server refuses others."""
    return request.peer if request.generator == "iperf3" else ""
