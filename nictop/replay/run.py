"""A traffic run in a recording, evaluated by the same code and from the same lines as a live run.

`RecordedRun.advance` reads the items of all hosts up to a time; `view` is the view of the run at that time, after
its end with the result. A run whose start is not in the recording cannot be shown: the arguments of its generators are
not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from heapq import merge

from nictop.hosts.session import HostSession
from nictop.hosts.specification import RECORDED, Host
from nictop.probe.records import Line, Request, TrafficLine, TrafficRequest
from nictop.recording.reader import RecordedItem, Recording
from nictop.replay.run_index import RunMarks
from nictop.replay.run_plan import recorded_plan
from nictop.traffic.analysis.assemble import RunLog, axis_start, first_record_since, has_record_since, result_of
from nictop.traffic.generators import Side, output_parser
from nictop.traffic.live.run_view import LiveRun, RunView
from nictop.traffic.path.result import PathReport
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.run.endpoint import RunEnd
from nictop.traffic.run.events import IntervalMeasured, RunFinished, SocketSample, Stage
from nictop.traffic.run.host import RunHost
from nictop.traffic.run.path_test import run_path_report, run_path_test

RUN_LEAD_SECONDS = 20.0
"""Seconds before the start of the first generator in which both probes were requested to check their generators."""
RUN_TAIL_SECONDS = 4.0
"""Seconds after the end of the run in which each host sends a last counter record."""
RUN_YIELD_ITEMS = 64
"""Items after which other tasks run."""


class RecordedRun:
    """One run, evaluated up to a time of the recording (`advance`)."""

    def __init__(self, recording: Recording, marks: RunMarks) -> None:
        self.marks, self._recording = marks, recording
        self._view: RunView | None = None
        self._restart()

    def _restart(self) -> None:
        self._now = float("-inf")
        self._plan: RunPlan | None = None
        self._requests: dict[Side, TrafficRequest] = {}
        self._ends: dict[Side, RunEnd] = {}
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
        self._items = merge(
            *(_items(self._recording, name, since) for name in names), key=lambda one: (one[0].time, one[1])
        )
        self._next: tuple[RecordedItem, str] | None = None
        self._read_until: float | None = None
        """End of the recording when it was read to its end; if it has grown since, all of it is read again."""

    @property
    def problem(self) -> str:
        """Why there is no view of the run although it has started; "": there is one, or it has not started."""
        if self._now < self.marks.begin or self._plan is not None:
            return ""
        return "settings of the test unknown: the recording starts after the test"

    def view(self) -> RunView | None:
        """View of the run at the time of the last `advance`; None: it has not started, or cannot be shown."""
        return self._view

    async def advance(self, now: float) -> None:
        """Evaluate the run up to the time `now`, seconds as in the recording. For an earlier time than before,
        everything is read again from the beginning."""
        if now < self._now or (self._read_until is not None and self._recording.end > self._read_until):
            self._restart()
        last = now if self.marks.end is None else min(now, self.marks.end + RUN_TAIL_SECONDS)
        count = 0
        while True:
            found = self._next if self._next is not None else next(self._items, None)
            if found is None:
                self._read_until = self._recording.end
            if found is None or found[0].time > last:
                self._next = found
                break
            self._next, self._now = None, max(self._now, found[0].time)
            self._process(found[1], found[0])
            count += 1
            if count % RUN_YIELD_ITEMS == 0:
                await asyncio.sleep(0)
        self._now = now
        self._finish(last)
        self._view = None if self._live_run is None else self._live_run.view(self._result_time or self._now)

    # ----------------------------------------------------------------------------------------------- items

    def _process(self, name: str, recorded: RecordedItem) -> None:
        if isinstance(recorded.item, Request):
            self._process_request(recorded.item.traffic)
            return
        self._hosts[name].session.process(recorded.item, recorded.time)
        line = recorded.item.traffic if isinstance(recorded.item, Line) else None
        if line is not None:
            self._process_line(line, recorded.time)

    def _process_request(self, request: TrafficRequest | None) -> None:
        """The request to the client is the last one; with it, the plan is known."""
        if request is None or request.action != "start" or request.role is None or self._plan is not None:
            return
        if not request.id.startswith(f"{self.marks.identity}-"):
            return
        self._requests[request.role] = request
        client, server = self._requests.get("client"), self._requests.get("server")
        if client is None or server is None or not self.marks.is_complete:
            return
        hosts: dict[Side, str] = {"client": self.marks.client, "server": self.marks.server}
        known = tuple(self._hosts[hosts[side]].snapshot for side in ("client", "server"))
        self._plan = recorded_plan(client, server, (known[0], known[1]))
        if self._plan is not None:
            self._start(self._plan, hosts)

    def _start(self, plan: RunPlan, hosts: Mapping[Side, str]) -> None:
        for side, name in hosts.items():
            end = self._ends[side] = RunEnd(side, name, self._requests[side].id, plan.omit)
            check = self._early_lines.get(f"{self.marks.identity}-{side[0]}-check")
            if check is not None and check.tools is not None:
                end.tools, end.output = check.tools, output_parser(plan, check.tools)
            # the server had started before the request to the client
            started = self._early_lines.get(end.identity)
            if started is not None:
                end.add_line(started)
        self._path_test = self._path_report(plan)
        for host in self._hosts.values():
            host.clear_records()
        self._live_run = LiveRun(plan, self._hosts)
        self._live_run.process(Stage("running", "waiting for the first byte"), self._now)

    def _process_line(self, line: TrafficLine, now: float) -> None:
        end = next((one for one in self._ends.values() if one.identity == line.id), None)
        if end is None or self._live_run is None:
            if line.kind in ("tools", "started"):
                self._early_lines[line.id] = line
            elif line.id.startswith(f"{self.marks.identity}-path_"):
                self._path_lines.append(line)
            return
        intervals = end.add_line(line)
        for one in intervals:
            self._live_run.process(IntervalMeasured(end.host, self._time(end, line.time), one, side=end.side), now)
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
        return RunLog(self._plan, self._ends, self._hosts, wall, before, {}, path_test=self._path_test)

    # ------------------------------------------------------------------------------------------------------ the end

    def _finish(self, last: float) -> None:
        """Make the result, once both ends are over and every host has sent a counter record after that or is late."""
        if (
            self._live_run is None
            or self._result_time is not None
            or any(end.ended is None for end in self._ends.values())
        ):
            return
        ended = max(end.ended - self._hosts[end.host].offset.seconds for end in self._ends.values() if end.ended)
        read_after = {name: ended + host.offset.seconds for name, host in self._hosts.items()}
        late = last >= ended + RUN_TAIL_SECONDS
        if not late and not all(has_record_since(host, read_after[name]) for name, host in self._hosts.items()):
            return
        after = {name: first_record_since(host, read_after[name]) for name, host in self._hosts.items()}
        whole = replace(self._log(), after=after)
        self._live_run.process(RunFinished(result_of(whole)), last)
        self._result_time = last


def _items(recording: Recording, name: str, since: float) -> Iterator[tuple[RecordedItem, str]]:
    reader = recording.reader(name, since)
    while (recorded := reader.next()) is not None:
        yield recorded, name
