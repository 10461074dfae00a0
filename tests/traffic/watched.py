"""A running run whose record the test makes, with its live view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nictop.probe.records import TrafficLine, TrafficSocket
from nictop.traffic.generators import Side
from nictop.traffic.generators.intervals import GeneratorOutput, Interval
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.live.run_view import LiveRun, RunView
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.record.log import FlowGroup, RunLog, Sample, new_groups
from nictop.traffic.run.events import RunBegan
from tests.support.sources import ScriptedSource, session_of

AXIS_START = 1000.0
"""Start of the axis, on the clock of this machine and of all hosts."""


class GivenOutput:
    """A parser that gives what the test wants."""

    given: tuple[GeneratorOutput, ...] = ()

    def feed(self, line: str, time: float = 0.0) -> tuple[GeneratorOutput, ...]:
        return self.given

    def finish(self) -> tuple[GeneratorOutput, ...]:
        return ()


def quiet_host(name: str) -> RunHost:
    """A host of which nothing was read, with the clock of this machine."""
    return RunHost(session_of(ScriptedSource(name), window=False))


class Watched:
    """The run and its live view. Intervals are of the first group and sockets of the last one,
    unless `group` says another."""

    def __init__(
        self, plan: RunPlan, hosts: Mapping[str, RunHost] | None = None, axis: float = AXIS_START
    ) -> None:
        if hosts is None:
            names = dict.fromkeys((plan.client.host, plan.server.host))
            hosts = {name: quiet_host(name) for name in names}
        self.axis = axis
        self.log = RunLog(plan, new_groups(plan, "run"), hosts, 0.0)
        self.live = LiveRun(plan, hosts)
        self.live.process(RunBegan(self.log))

    def report(
        self, side: Side, interval: Interval, late: float = 0.0, group: FlowGroup | None = None
    ) -> None:
        """Its generator reports an interval, `late` seconds after its end."""
        end = (group or self.log.first).ends[side]
        if not isinstance(end.output, GivenOutput):
            end.output = GivenOutput()
        end.output.given = (interval,)
        omitted = end.omitted if interval.omitted else 0
        time = self.axis + interval.end - omitted + late
        self.log.add_line(TrafficLine(time, end.identity, "output", "an interval"))

    def sample(
        self,
        side: Side,
        time: float,
        sockets: Sequence[TrafficSocket],
        group: FlowGroup | None = None,
    ) -> list[Sample]:
        """The connections of an end at `time` on the axis."""
        end = (group or self.log.last).ends[side]
        return self.log.add_line(
            TrafficLine(self.axis + time, end.identity, "sockets", sockets=tuple(sockets))
        )

    def view(self, seconds: float) -> RunView:
        """The view at that time on the axis."""
        return self.live.view(self.axis + seconds)
