"""The lines that ``nictop traffic`` prints on stderr during a run: one per interval, stage and
step.

Pure: events of an experiment in, clean lines out.
"""

from __future__ import annotations

from collections.abc import Iterator

from nictop.cli.terminal import StdinKind
from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.text.units import whole_seconds
from nictop.model.text.words import count_noun
from nictop.report.runs.sentences import (
    MAX_DEVICES_IN_RESULT,
    endpoint_text,
    path_test_sentences,
    storage_text,
    workload_plan_text,
)
from nictop.traffic.analysis.assemble import incidents_so_far
from nictop.traffic.analysis.nic_incidents import LINK_LOSSES
from nictop.traffic.experiment.experiment import (
    ChangeRequired,
    Experiment,
    ExperimentEnded,
    ExperimentEvent,
    PauseStarted,
    SaveFailed,
    StepEnded,
    StepStarted,
)
from nictop.traffic.generators.intervals import TransactionInterval, has_rate
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.record.log import IntervalMeasured, RunLog, SocketSample, axis_start
from nictop.traffic.results.caveats import caveat_of, with_caveat
from nictop.traffic.results.measures import deciding_text, measures_of
from nictop.traffic.run.events import NicMeasured, PathTested, RunBegan, Stage, StorageMeasured

WORKLOAD_ENDS = "Ctrl-C ends the command and all processes that it started"
SIGNALS_END_IT = "Ctrl-C (SIGINT) or SIGTERM ends it"
MANUAL_ENDS: dict[StdinKind, str] = {
    "terminal": "Enter or Ctrl-C ends it",
    "pipe": f"a line on standard input, its end, {SIGNALS_END_IT}",
    "none": SIGNALS_END_IT,
}
REPEATED_STAGES = ("checking", "starting", "listening", "running", "ending")
"""Stages that are printed for the first run only."""


class ProgressLines:
    """Lines for the events of one experiment, in order."""

    def __init__(self, experiment: Experiment, *, stdin: StdinKind = "terminal") -> None:
        self._several = len(experiment.steps) > 1
        self._stdin = stdin
        self._number = 1
        self._plan: RunPlan | None = None
        self._before: dict[int, int] = {}
        """Inode of a sender's socket → its retransmits at the last line."""
        self._newest: dict[int, tuple[int, int]] = {}
        """The same → retransmits and rtt (µs) now."""
        self._bulk: dict[str, float] = {}
        """Host that receives the bulk flow of a loaded run → bits per second in the last
        interval."""
        self._is_rising = False
        """It was started, and is not measured yet."""
        self._log: RunLog | None = None
        self._told: set[tuple[str, str, str, int, bool]] = set()
        """What happened to the NICs of this run, as far as it was printed."""

    def lines(self, event: ExperimentEvent) -> Iterator[str]:
        """The lines for one event; none for most of them."""
        if isinstance(event, StepStarted):
            yield from self._start_lines(event)
        elif isinstance(event, Stage):
            yield from self._stage_lines(event)
        elif isinstance(event, PathTested):
            yield from self._path_test_lines(event)
        elif isinstance(event, RunBegan):
            self._log, self._told = event.log, set()
        elif isinstance(event, SocketSample):
            self._take_sockets(event)
            yield from self._incident_lines()
        elif isinstance(event, IntervalMeasured):
            yield from self._measured(event)
            yield from self._incident_lines()
        elif isinstance(event, NicMeasured):
            yield _nic_line(event)
        elif isinstance(event, StorageMeasured):
            for activity in event.activities[:MAX_DEVICES_IN_RESULT]:
                yield f"  {event.time:7.1f} s  {storage_text(activity)}"
        elif isinstance(event, StepEnded):
            yield from self._end_lines(event)
        else:
            yield from _general_lines(event)

    def _incident_lines(self) -> Iterator[str]:
        """Once each, and once each return of a link."""
        if self._log is None:
            return
        for incident in incidents_so_far(self._log, axis_start(self._log)):
            is_back = incident.back is not None
            # without its second, which changes a little with the clock offset, and of a loss
            # without its message, which comes with the next inventory
            text = "" if incident.meaning in LINK_LOSSES else incident.text
            key = (incident.host, incident.meaning, text, incident.times)
            if (*key, is_back) in self._told:
                continue
            is_told = (*key, False) in self._told
            self._told |= {(*key, False), (*key, is_back)}
            yield f"  {incident.return_sentence if is_told else incident.sentence}"

    def _stage_lines(self, event: Stage) -> Iterator[str]:
        if event.name == "loading":
            self._is_rising = True
        if self._number == 1 or event.name not in REPEATED_STAGES:
            yield f"  {clean(event.sentence)}"

    def _path_test_lines(self, event: PathTested) -> Iterator[str]:
        for kind, text in path_test_sentences(event.report):
            if self._number == 1 or kind == "path finding":
                yield f"  path test: {text}"

    def _take_sockets(self, event: SocketSample) -> None:
        """Of the hosts that send."""
        if self._plan is None or event.side not in self._plan.sending:
            return
        for socket in event.sockets:
            self._newest[socket.inode] = (socket.retransmits, socket.rtt)

    def _start_lines(self, event: StepStarted) -> Iterator[str]:
        self._plan, self._number = event.step.plan, event.number
        self._before, self._newest, self._bulk, self._is_rising = {}, {}, {}, False
        plan = event.step.plan
        if event.number == 1 and plan.is_of_one_host:
            nic = endpoint_text(plan.client, None)
            yield f"on {nic}: {workload_plan_text(plan)}"
            how = WORKLOAD_ENDS if plan.test == "workload" else MANUAL_ENDS[self._stdin]
            yield f"  at most {whole_seconds(plan.time)}; {how}"
        elif event.number == 1:
            first, arrow, second = plan.drawn_ends
            way = ("between", "and") if arrow == "↔" else ("from", "to")
            yield f"{way[0]} {endpoint_text(first, None)} {way[1]} {endpoint_text(second, None)}"
        if self._several:
            text = f"run {event.number} of {event.total}"
            if event.step.label:
                text += f": {clean(event.step.label)}"
            left = f", about {whole_seconds(max(1.0, event.seconds_left))} left"
            is_unknown = plan.is_open_ended or plan.foreign_client
            yield text if is_unknown else f"{text}{left}"

    def _measured(self, event: IntervalMeasured) -> Iterator[str]:
        """Of the receiver only, if it is watched: the sender counts what went into its own
        buffers."""
        interval = event.interval
        if isinstance(interval, TransactionInterval):
            nominal = 0.0 if self._plan is None else self._plan.requests.interval
            yield "  ".join((_transactions(interval, nominal), *self._bulk_text()))
            return
        if interval.sends and not self._is_receiver_unseen(event):
            return
        if event.load:  # shown with the requests
            self._bulk[event.host] = interval.bits_per_second
            self._is_rising = interval.omitted
            return
        if self._plan is None:
            return
        parts = [f"  {interval.end:7.1f} s  {units.bits_per_second(interval.bits_per_second):>9}"]
        if interval.sends:
            parts.append(f"sent by {clean(event.host)}")
        elif self._plan.direction == "bidirectional":
            parts.append(f"received by {clean(event.host)}")
        if interval.packets is not None and interval.lost is not None:
            parts.append(f"{units.count(interval.lost)} of {units.count(interval.packets)} lost")
        parts += self._socket_text()
        if interval.omitted:
            parts.append("(omitted)")
        yield "  ".join(parts)

    def _is_receiver_unseen(self, event: IntervalMeasured) -> bool:
        return self._plan is not None and self._plan.foreign_side not in (None, event.side)

    def _bulk_text(self) -> Iterator[str]:
        """Of a loaded run: ``idle``, or the goodput and the sockets of the bulk flow. What is not
        measured is in brackets: until its rate has risen."""
        if self._plan is None or self._plan.test != "loaded":
            return
        if self._bulk:
            yield f"beside {units.bits_per_second(sum(self._bulk.values()))}"
            yield from self._socket_text()
        elif not self._is_rising:
            yield "idle"
        if self._is_rising:
            yield "(bulk flow starting)"

    def _socket_text(self) -> Iterator[str]:
        if not self._newest:
            return
        retransmits = {inode: now for inode, (now, _) in self._newest.items()}
        lost = 0
        for inode, now in retransmits.items():
            lost += max(0, now - self._before.get(inode, 0))
        self._before = retransmits
        rtt = max(rtt for _, rtt in self._newest.values())
        if lost:
            yield count_noun(lost, "retransmit")
        yield f"rtt {units.duration(rtt / 1e6)}"

    def _end_lines(self, event: StepEnded) -> Iterator[str]:
        """The figures of one of several runs."""
        if not self._several:
            return
        result = event.run.result
        if result.failure is not None:
            yield f"  failed: {clean(result.failure.sentence)}"
            return
        first = with_caveat(deciding_text(result), caveat_of(result))
        parts = [f"  {first}"]
        if result.of_ceiling is not None:
            parts.append(f"{units.percentage(result.of_ceiling)} of line rate")
        for measure in measures_of(result)[1:]:
            parts.append(f"{measure.title} {measure.text(measure.value(result))}")
        yield ", ".join(parts)


def _nic_line(event: NicMeasured) -> str:
    """``      3.0 s  9.38 Gb/s sent  12.0 Mb/s received``"""
    sent, received = units.bits_per_second(event.sent), units.bits_per_second(event.received)
    return f"  {event.time:7.1f} s  {sent:>9} sent  {received:>9} received"


def _general_lines(event: ExperimentEvent) -> Iterator[str]:
    """Of events that are not about the present run."""
    if isinstance(event, PauseStarted):
        yield f"pause {units.duration(event.seconds)}"
    elif isinstance(event, ChangeRequired):
        yield f"change now: {clean(event.sentence)}"
    elif isinstance(event, SaveFailed):
        yield f"not saved: {clean(event.sentence)}"
    elif isinstance(event, ExperimentEnded) and event.reason:
        yield f"ended early: {clean(event.reason)}"


def _transactions(interval: TransactionInterval, nominal: float) -> str:
    """``    1.0 s   12.3 k/s  p50 78.1 µs  p99 120 µs  max 3.20 ms``; of a rest ``2 in 4.37 ms``"""
    latency = interval.latency.summary()
    if has_rate(interval.seconds, nominal):
        carried = units.per_second(latency.count / interval.seconds)
    else:
        carried = f"{units.count(latency.count)} in {units.duration(interval.seconds)}"
    parts = [f"  {interval.end:7.1f} s  {carried:>9}"]
    known = (("p50", latency.p50), ("p99", latency.p99), ("max", latency.maximum))
    parts += [f"{name} {units.duration(value)}" for name, value in known if value is not None]
    if interval.lost:
        parts.append(f"{units.count(interval.lost)} lost")
    if interval.omitted:
        parts.append("(omitted)")
    return "  ".join(parts)
