"""A traffic run that is in a recording, drawn and judged as when it went on: by the same code, from the same lines.

`RecordedRun.advance` reads what all hosts had said by a moment; `picture` is what the screen of a run showed then, and
after its end the result. A run of which the recording has no beginning cannot be told: which words were asked of the
generators is not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from heapq import merge

from nictop.probe.records import Line, Request, TrafficLine, TrafficRequest
from nictop.recording.playback import Playback
from nictop.recording.reader import RecordedItem as HeardItem
from nictop.recording.reader import Recording
from nictop.replay.run_index import RunMarks
from nictop.replay.run_plan import recorded_plan
from nictop.traffic.analysis.assemble import RunLog, first_after, has_told, result_of, zero
from nictop.traffic.generators import Side, output
from nictop.traffic.live.run_view import LiveRun, RunView
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.run.endpoint import RunEnd
from nictop.traffic.run.events import Finished, IntervalMeasured, Sockets, Stage
from nictop.traffic.run.host import RunHost

BEFORE = 20.0
"""Seconds before the first generator starts, in which both probes were asked what they have."""
AFTER = 4.0
"""Seconds after its end, in which each host tells a last counter record."""
BREATH = 64
"""Items after which others have their turn."""


class RecordedRun:
    """One run, up to some moment of the recording."""

    def __init__(self, playback: Playback, marks: RunMarks) -> None:
        self.marks = marks
        self._playback, self._recording = playback, playback.recording
        self._picture: RunView | None = None
        self._begin()

    def _begin(self) -> None:
        self._now = float("-inf")
        self._plan: RunPlan | None = None
        self._requests: dict[Side, TrafficRequest] = {}
        self._ends: dict[Side, RunEnd] = {}
        self._watching: LiveRun | None = None
        self._over: float | None = None
        self._told: dict[str, TrafficLine] = {}
        since = self.marks.begin - BEFORE
        names = self._recording.hosts
        self._hosts = {name: RunHost(self._playback.source(name)) for name in names}
        self._items = merge(
            *(_items(self._recording, name, since) for name in names), key=lambda one: (one[0].time, one[1])
        )
        self._next: tuple[HeardItem, str] | None = None
        self._read_until: float | None = None
        """End of the recording when it was read to its end: what was written since is read with all the rest."""

    @property
    def trouble(self) -> str:
        """Why there is nothing to draw although it has begun; "": there is."""
        if self._now < self.marks.begin or self._plan is not None:
            return ""
        return "the recording does not say what the generators were asked to do: it began later than the run"

    def picture(self) -> RunView | None:
        """At the moment that it was advanced to; None: it has not begun, or cannot be told. While it advances the one
        of before: where the axis begins is known when everything is read."""
        return self._picture

    async def advance(self, now: float) -> None:
        """To a moment, seconds as in the recording; back means from the beginning again."""
        if now < self._now or (self._read_until is not None and self._recording.end > self._read_until):
            self._begin()
        last = now if self.marks.end is None else min(now, self.marks.end + AFTER)
        taken = 0
        while True:
            found = self._next if self._next is not None else next(self._items, None)
            if found is None:
                self._read_until = self._recording.end
            if found is None or found[0].time > last:
                self._next = found
                break
            self._next, self._now = None, max(self._now, found[0].time)
            self._take(found[1], found[0])
            taken += 1
            if taken % BREATH == 0:
                await asyncio.sleep(0)
        self._now = now
        self._finish(last)
        self._picture = None if self._watching is None else self._watching.picture(self._over or self._now)

    # ----------------------------------------------------------------------------------------------- what is heard

    def _take(self, name: str, heard: HeardItem) -> None:
        if isinstance(heard.item, Request):
            self._ask(heard.item.traffic)
            return
        self._hosts[name].hear(heard.item, heard.time)
        line = heard.item.traffic if isinstance(heard.item, Line) else None
        if line is not None:
            self._hear(line, heard.time)

    def _ask(self, asked: TrafficRequest | None) -> None:
        """The client is asked last: then everything is known."""
        if asked is None or asked.action != "start" or asked.role is None or self._plan is not None:
            return
        if not asked.id.startswith(f"{self.marks.identity}-"):
            return
        self._requests[asked.role] = asked
        client, server = self._requests.get("client"), self._requests.get("server")
        if client is None or server is None or not self.marks.is_whole:
            return
        hosts: dict[Side, str] = {"client": self.marks.client, "server": self.marks.server}
        known = tuple(self._hosts[hosts[side]].snapshot for side in ("client", "server"))
        self._plan = recorded_plan(client, server, (known[0], known[1]))
        if self._plan is not None:
            self._start(self._plan, hosts)

    def _start(self, plan: RunPlan, hosts: Mapping[Side, str]) -> None:
        for side, name in hosts.items():
            end = self._ends[side] = RunEnd(side, name, self._requests[side].id, plan.omit)
            told = self._told.get(f"{self.marks.identity}-{side[0]}-check")
            if told is not None and told.tools is not None:
                end.tools, end.output = told.tools, output(plan, told.tools)
            # the server was started before the client was asked
            started = self._told.get(end.identity)
            if started is not None:
                end.take(started)
        for host in self._hosts.values():
            host.begin()
        self._watching = LiveRun(plan, self._hosts)
        self._watching.take(Stage("running", "waiting for the first byte"), self._now)

    def _hear(self, line: TrafficLine, now: float) -> None:
        end = next((one for one in self._ends.values() if one.identity == line.id), None)
        if end is None or self._watching is None:
            if line.kind in ("tools", "started"):
                self._told[line.id] = line
            return
        intervals = end.take(line)
        for one in intervals:
            self._watching.take(IntervalMeasured(end.host, self._time(end, line.time), one, side=end.side), now)
        if line.kind == "sockets":
            self._watching.take(Sockets(end.host, self._time(end, line.time), line.sockets, side=end.side), now)

    def _time(self, end: RunEnd, there: float) -> float | None:
        axis = zero(self._heard())
        return None if axis is None else there - self._hosts[end.host].offset.seconds - axis

    def _heard(self) -> RunLog:
        assert self._plan is not None
        before = {name: host.records[0] if host.records else None for name, host in self._hosts.items()}
        return RunLog(self._plan, self._ends, self._hosts, self._recording.wall(self.marks.begin), before, {})

    # ------------------------------------------------------------------------------------------------------ the end

    def _finish(self, last: float) -> None:
        """Once both ends are over and every host has told a counter record of after that, or will not."""
        if self._watching is None or self._over is not None or any(end.ended is None for end in self._ends.values()):
            return
        ended = max(end.ended - self._hosts[end.host].offset.seconds for end in self._ends.values() if end.ended)
        moments = {name: ended + host.offset.seconds for name, host in self._hosts.items()}
        late = last >= ended + AFTER
        if not late and not all(has_told(host, moments[name]) for name, host in self._hosts.items()):
            return
        heard = self._heard()
        after = {name: first_after(host, moments[name]) for name, host in self._hosts.items()}
        whole = RunLog(heard.plan, heard.ends, heard.hosts, heard.wall, heard.before, after)
        self._watching.take(Finished(result_of(whole)), last)
        self._over = last


def _items(recording: Recording, name: str, since: float) -> Iterator[tuple[HeardItem, str]]:
    reader = recording.reader(name, since)
    while (heard := reader.next()) is not None:
        yield heard, name
