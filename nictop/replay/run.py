"""A traffic run in a recording, evaluated by the same code and from the same lines as a live run.

`RecordedRun.advance` reads the items of all hosts up to a time; `view` is the view of the run at
that time, after its end with the result. Plan, stages and result are those that nictop noted when
it made the run. In a recording without such notes they are derived: the plan from the arguments of
the generators (a run whose start is not in the recording cannot be shown then), the result by the
code that computes that of live runs.
"""

from __future__ import annotations

import asyncio
from time import thread_time

from nictop.hosts.session import HostSession
from nictop.hosts.specification import RECORDED, Host
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Line, Request, TrafficLine, TrafficRequest
from nictop.recording.file.run_note import RunNote
from nictop.recording.reader import NOT_YET, RecordedItem, Recording
from nictop.replay.items import items_of_hosts
from nictop.replay.old_recordings import (
    RUN_TAIL_SECONDS,
    Requests,
    coming_request,
    derived_result,
    failure_of_ends,
    loaded_plan,
    recorded_plan,
)
from nictop.replay.run_index import GENERATOR_ID, RunMarks
from nictop.traffic.failures import Failure
from nictop.traffic.generators import Side, output_parser
from nictop.traffic.hosts.host import RunHost, chosen_nics
from nictop.traffic.live.run_view import LiveRun, RunView
from nictop.traffic.path.result import PathReport
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.record.log import FlowGroup, RunLog, new_groups
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.run.events import WAITING_FOR_DATA, RunFinished, Stage
from nictop.traffic.run.one_host import MEASURING
from nictop.traffic.run.path_test import run_path_report, run_path_test
from nictop.traffic.run_notes import noted_plan, noted_result

RUN_LEAD_SECONDS = 20.0
"""Seconds before the start of the first generator in which both probes were requested to check
their generators."""
ROUNDING_SECONDS = 1e-5
"""Times of items are rounded to microseconds, those of marks are not: a run is shown from its begin
on."""
RUN_SLICE_SECONDS = 0.01
"""CPU seconds of reading after which other tasks run."""
NOT_RECORDED = "the recording ends before the result of the test"
STILL_RUNNING = "still running at this time"
ENDED_BY_NICTOP = Failure(
    "interrupted",
    "ended before its end, by the user or by a time limit of nictop: the recording does not "
    "contain why",
)
"""Of a run without notes, to whose generators nictop sent a stop."""


class RecordedRun:
    """One run, evaluated up to a time of the recording (`advance`)."""

    def __init__(self, recording: Recording, marks: RunMarks) -> None:
        self.marks, self._recording = marks, recording
        self._restart()

    def _restart(self) -> None:
        self._view: RunView | None = None
        self._now = float("-inf")
        self._plan: RunPlan | None = None
        self._attempt = ""
        """Of the newest generators, as in `GENERATOR_ID`: a run is repeated, or another generator
        takes over."""
        self._stored: StoredRun | None = None
        """The noted result."""
        self.noted_size = 0
        """Characters of it in the recording."""
        self._ended_because = ""
        """Why it has no result."""
        self.has_failed = False
        """It ended without a result."""
        self._stopped: Failure | None = None
        """Why nictop stopped its generators; None: it did not."""
        self._requests: Requests = {}
        """To the generators of this attempt."""
        self._requests_plan: RunPlan | None = None
        """Of a loaded run of an old recording: the part with its requests."""
        self._log: RunLog | None = None
        """None: its generators are not known yet."""
        self._live_run: LiveRun | None = None
        self._result_time: float | None = None
        self._path_lines: list[TrafficLine] = []
        """Of its path test, before the plan was known."""
        self._early_lines: dict[str, TrafficLine] = {}
        """Generator id → its last line of the kinds tools and started, received before the plan was
        known."""
        since = self.marks.begin - RUN_LEAD_SECONDS
        names = self._recording.hosts
        self._hosts = {
            name: RunHost(HostSession(Host(name, RECORDED), window=False)) for name in names
        }
        self._items = items_of_hosts(self._recording, names, since)
        self._next: tuple[RecordedItem, str] | None = None
        self._read_until: float | None = None
        """End of the recording when it was read to its end; if it has grown since, all of it is
        read again."""

    @property
    def _is_starting(self) -> bool:
        """The start of the client, whose request comes last, has yet to be read."""
        end = self._recording.end if self.marks.end is None else self.marks.end
        has_client = f"{self.marks.identity}-c" in self._early_lines
        return self.marks.is_complete and not has_client and self._now < end

    @property
    def problem(self) -> str:
        """Why there is no view or no result of the run although it has started; "": there is one,
        or it runs."""
        if self._now < self.marks.begin:
            return ""
        if self._ended_because:
            return self._ended_because
        if self._plan is None and self._is_starting:
            return ""
        if self._plan is None:
            begins = "the last minutes begin" if self._recording.goes_on else "the recording begins"
            return f"settings of the test unknown: {begins} after its start"
        has_result = self._view is not None and self._view.result is not None
        if self._is_last_moment and not has_result:
            return NOT_RECORDED
        return ""

    @property
    def _is_last_moment(self) -> bool:
        """Nothing is known of later; not of the last minutes of hosts that are still watched."""
        recording = self._recording
        is_complete = recording.closed and not recording.goes_on
        return is_complete and self._now >= recording.end

    @property
    def stored(self) -> StoredRun | None:
        """The result that nictop noted, with its experiment; None: there is none."""
        return self._stored

    def view(self) -> RunView | None:
        """View of the run at the time of the last `advance`; None: it has not started, or cannot be
        shown."""
        return self._view

    async def advance(self, now: float) -> None:
        """Evaluate the run up to the time `now`, seconds as in the recording. For an earlier time
        than before, everything is read again from the beginning. May be cancelled: the next call
        continues there."""
        has_grown = self._read_until is not None and self._recording.end > self._read_until
        if has_grown or now < self._now:
            self._restart()
        last = now + ROUNDING_SECONDS
        if self.marks.end is not None:
            last = min(last, self.marks.end + RUN_TAIL_SECONDS)
        await self._read_until_time(last)
        self._now = now
        self._finish(last)
        self._view = None
        if self._live_run is not None:
            self._view = self._live_run.view(self._result_time or self._now)

    async def _read_until_time(self, last: float) -> None:
        """Process the items up to that time; other tasks run meanwhile."""
        used, begin = 0.0, thread_time()
        while True:
            used += thread_time() - begin
            if used >= RUN_SLICE_SECONDS:
                used = 0.0
                await asyncio.sleep(0)
            begin = thread_time()
            found = self._next or next(self._items, None)
            if found is NOT_YET:
                continue
            if found is None:
                self._read_until = self._recording.end
                return
            self._next = found
            recorded, host = found
            if recorded.time > last:
                return
            self._next, self._now = None, max(self._now, recorded.time)
            self._process(host, recorded)

    # ---------------------------------------------------------------------------------------- items

    def _process(self, name: str, recorded: RecordedItem) -> None:
        if isinstance(recorded.item, RunNote):
            self._process_note(recorded.item, recorded.time)
            return
        if isinstance(recorded.item, Request):
            self._process_request(recorded.item.traffic)
            return
        self._hosts[name].session.process(recorded.item, recorded.time)
        if isinstance(recorded.item, Line) and recorded.item.traffic is not None:
            self._process_line(recorded.item.traffic)

    def _process_note(self, note: RunNote, time: float) -> None:
        if note.run != self.marks.identity:
            return
        if note.kind == "plan":
            self._begin(noted_plan(note.text))
        elif note.kind == "stage" and self._live_run is not None:
            self._live_run.process(Stage("running", note.text))
            if note.text == MEASURING:
                self._begin_by_hand(time)
        elif note.kind == "result":
            self._process_result(note.text, time)
        elif note.kind == "ended":
            self._process_failure(clean(note.text), time)

    def _process_result(self, text: str, time: float) -> None:
        self._stored, self.noted_size = noted_result(text), len(text)
        if self._stored is None:
            self._ended_because = "its result in the recording is not valid"
            return
        self._end(self._stored.result, time)

    def _process_failure(self, why: str, time: float) -> None:
        """The run ended without a result."""
        self._ended_because, self.has_failed = why, True
        if self._plan is not None:
            wall = self._recording.wall_time(self.marks.begin)
            self._end(Result(self._plan, wall, failure=Failure("other", why)), time)

    def _begin(self, plan: RunPlan | None) -> None:
        """The plan is noted; None: it is not valid."""
        self._plan, self._live_run = plan, None
        if plan is not None:
            self._live_run = LiveRun(plan, self._hosts)
        if plan is not None and plan.is_of_one_host:
            self._begin_one_host(plan)

    def _begin_one_host(self, plan: RunPlan) -> None:
        """The end of its command is reported later; that of a measurement by hand has no lines."""
        for host in self._hosts.values():
            host.clear_records()
        wall = self._recording.wall_time(self.marks.begin)
        self._log = RunLog(plan, new_groups(plan, self.marks.identity), self._hosts, wall)
        if self._live_run is not None:
            self._live_run.begin(self._log)

    def _begin_by_hand(self, time: float) -> None:
        """A measurement that the user has begun."""
        if self._log is None or not self._log.plan.is_of_one_host:
            return
        end = self._log.ends["client"]
        host = self._hosts.get(end.host)
        if host is not None and end.started is None:
            end.begin_by_hand(time + host.offset.seconds)

    def _end(self, result: Result, time: float) -> None:
        if self._live_run is None:
            self._begin(result.plan)
        if self._live_run is not None:
            self._live_run.process(RunFinished(result))
            self._result_time = time

    def _process_request(self, request: TrafficRequest | None) -> None:
        """A request to start or to stop a generator of this run."""
        if request is None:
            return
        generator = GENERATOR_ID.fullmatch(request.id)
        if generator is None or generator[1] != self.marks.identity:
            return
        if request.action == "stop":
            self._note_stop(request.id)
        if request.action == "start" and request.role is not None:
            is_load = generator[3].startswith("l")
            self._process_start(request, request.role, attempt=generator[2], is_load=is_load)

    def _process_start(
        self, request: TrafficRequest, side: Side, *, attempt: str, is_load: bool
    ) -> None:
        """`is_load`: of the bulk flow of a loaded run."""
        if attempt != self._attempt:
            self._begin_attempt(attempt)
        if is_load:
            self._requests[1, side] = request
            if side == "client" and not self.marks.is_noted:
                self._correct_load()
        elif self._log is None or self._log.plan.foreign_side == "client":
            self._requests[0, side] = request
            self._start_if_known()

    def _begin_attempt(self, attempt: str) -> None:
        """The run begins, or begins again with other generators."""
        self._attempt, self._result_time, self._stopped = attempt, None, None
        self._requests, self._log = {}, None
        if not self.marks.is_noted:
            self._plan = self._live_run = None
        # as live, before the server is started: windows of CPU time begin there
        for host in self._hosts.values():
            host.clear_records()

    def _note_stop(self, identity: str) -> None:
        """A generator is stopped before it has ended. Of a loaded run, the requests are always
        stopped in the end."""
        if self._log is None or self._stopped is not None:
            return
        for end in self._log.last.ends.values():
            if end.identity == identity and end.ended is None:
                self._stopped = failure_of_ends(self._log) or ENDED_BY_NICTOP

    def _start_if_known(self) -> None:
        """The request to the client is the last one, but for that to the client of a bulk flow
        beside requests: with it, the generators are known."""
        client = self._requests.get((0, "client"))
        foreign = self._plan.foreign_side if self._plan is not None else None
        if foreign == "client":
            self._start_server_alone()
            return
        if client is None or not (foreign or (0, "server") in self._requests):
            return
        if not self.marks.is_complete:
            return
        if self.marks.is_noted:
            if self._plan is not None:
                self._start(_with_generator(self._plan, client))
            return
        self._plan = self._derived_plan()
        if self._plan is not None:
            self._live_run = LiveRun(self._plan, self._hosts)
            self._live_run.process(Stage("running", WAITING_FOR_DATA))
            self._start(self._plan)

    def _start_server_alone(self) -> None:
        """Somebody starts the client; there may be several servers until it comes."""
        server = self._requests.get((0, "server"))
        if server is None or self._plan is None or not self.marks.is_complete:
            return
        self._start(replace(self._plan, port=server.port))
        if self._log is not None:
            self._log.typed = self._log.plan

    def _start(self, plan: RunPlan) -> None:
        groups = []
        for number, part in enumerate(plan.parts):
            client = self._new_end(number, "client", part)
            server = self._new_end(number, "server", part)
            groups.append(FlowGroup(part, {"client": client, "server": server}))
        wall = self._recording.wall_time(self.marks.begin)
        nics = chosen_nics(plan, self._hosts)
        self._log = RunLog(plan, tuple(groups), self._hosts, wall, nics=nics)
        self._log.path_test = self._path_report(self._log)
        if self._live_run is not None:
            self._live_run.begin(self._log)

    def _new_end(self, number: int, side: Side, part: RunPlan) -> RunEnd:
        """`number`: of its group; `part`: what that runs."""
        host = self.marks.client if side == "client" else self.marks.server
        if part.foreign_end is not None and side == part.foreign_side:
            name = part.foreign_end.host
            return RunEnd(side, name, f"{self.marks.identity}-{side[0]}", part.omit)
        request = self._requests.get((number, side))
        if request is None:  # the client of a bulk flow, which is started later
            end = RunEnd(side, host, f"{self.marks.identity}{self._attempt}lc", part.omit)
        else:
            end = RunEnd(side, host, request.id, part.omit)
            end.client = _served_client(request)
        self._add_tools(end, part)
        # the servers had started before the request to the client
        started = self._early_lines.get(end.identity)
        if started is not None:
            end.add_line(started)
        return end

    def _add_tools(self, end: RunEnd, plan: RunPlan) -> None:
        attempt = self._attempt.removesuffix("b")
        check = self._early_lines.get(f"{self.marks.identity}{attempt}{end.side[0]}-check")
        if check is not None and check.tools is not None:
            end.tools, end.output = check.tools, output_parser(plan, check.tools, end.side)

    def _process_line(self, line: TrafficLine) -> None:
        if self._log is None or self._log.group_of(line.id) is None:
            self._keep_early_line(line)
            return
        self._log.add_line(line)

    def _keep_early_line(self, line: TrafficLine) -> None:
        path_tests = (f"{self.marks.identity}-path_", f"{self.marks.identity}-r-path_")
        if line.kind in ("tools", "started"):
            self._early_lines[line.id] = line
        elif line.id.startswith(path_tests):
            self._path_lines.append(line)

    def _path_report(self, log: RunLog) -> PathReport | None:
        """None: the run had no path test."""
        if not self._path_lines:
            return None
        test = run_path_test(log.plan, self._hosts, self.marks.identity)
        for line in self._path_lines:
            test.record(line)
        tools = {end.host: end.tools for end in log.ends.values() if end.tools is not None}
        return run_path_report(log.plan, test, self._hosts, tools)

    # ------------------------------------------------------------------- runs of old recordings

    def _derived_plan(self) -> RunPlan | None:
        """From the requests to its generators: a run with a server for a bulk flow is a loaded
        run."""
        client, server = self._requests[0, "client"], self._requests[0, "server"]
        snapshots = (
            self._hosts[self.marks.client].snapshot,
            self._hosts[self.marks.server].snapshot,
        )
        plan = recorded_plan(client, server, snapshots)
        load = self._requests.get((1, "server"))
        if plan is None or load is None:
            return plan
        self._requests_plan = plan
        wanted = f"{self.marks.identity}{self._attempt}lc"
        coming = coming_request(self._recording, self.marks, wanted, self._now)
        return loaded_plan(plan, load, coming) or loaded_plan(plan, load)

    def _correct_load(self) -> None:
        """The bulk flow beside the requests is started, and its options are known at last: the file
        may have grown since."""
        log, plan = self._log, self._corrected_plan()
        if log is None or plan is None or plan == self._plan:
            return
        self._plan = log.plan = plan
        log.last.plan = plan.parts[-1]
        for end in log.last.ends.values():
            self._add_tools(end, log.last.plan)

    def _corrected_plan(self) -> RunPlan | None:
        """The plan of a loaded run by the requests to its bulk flow; None: they are not known."""
        client, server = self._requests.get((1, "client")), self._requests.get((1, "server"))
        if client is None or server is None or self._requests_plan is None:
            return None
        return loaded_plan(self._requests_plan, server, client)

    def _finish(self, last: float) -> None:
        """Make the result of a run without notes, once it is known."""
        if self.marks.is_noted or self._log is None or self._result_time is not None:
            return
        result = derived_result(self._log, self._requests, self._stopped, last)
        if result is not None:
            self._end(result, last)


def _with_generator(plan: RunPlan, client: TrafficRequest) -> RunPlan:
    """The plan with the generator that was started in fact; of a loaded run it is that of the bulk
    flow."""
    if plan.load is not None:
        return plan
    return replace(plan, generator=client.generator or plan.generator)


def _served_client(request: TrafficRequest) -> str:
    """The address of the only client whose traffic is that of the run; "": not known, or the server
    refuses others."""
    if request.generator not in ("iperf3", "ntttcp"):
        return ""
    return request.peer
