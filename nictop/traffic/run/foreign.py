"""One run against an iperf3 server that nictop did not start, on a host that it does not watch.

The client is started on its host as in every run. Of the other end only what iperf3 itself tells is
known: what arrived there, retransmits of what it sends, the CPU of its program.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import TrafficRequest
from nictop.traffic.analysis.assemble import result_of
from nictop.traffic.failures import Failure, RunFailed, RunStopped, kind_of
from nictop.traffic.generators import output_parser
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.hosts.inbox import TrafficInbox
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.plan.plan_problems import plan_problems
from nictop.traffic.plan.problem import sentences
from nictop.traffic.plan.tools import client_refusals
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.record.log import IntervalMeasured, RunLog, axis_start, new_groups
from nictop.traffic.results.result import Result
from nictop.traffic.run.child_processes import ChildProcesses
from nictop.traffic.run.counters_around import CountersAround
from nictop.traffic.run.events import (
    WAITING_FOR_DATA,
    Emit,
    RunBegan,
    RunFinished,
    RunTimeouts,
    Stage,
)
from nictop.traffic.run.link_loss import link_loss
from nictop.traffic.run.payload_watch import PayloadWatch

NOT_IPERF3 = ("unknown control message", "unable to receive cookie", "unrecognized")
"""Errors of a client to which something else answers."""
OLD_FOR_BOTH = "an iperf3 server before 3.7 cannot do both directions at once"


class ForeignRun:
    """A running plan with a foreign server."""

    def __init__(
        self,
        plan: RunPlan,
        hosts: Mapping[str, RunHost],
        emit: Emit,
        limits: RunTimeouts,
        identity: str,
    ) -> None:
        self._plan, self._emit, self._limits = plan, emit, limits
        self._log = RunLog(plan, new_groups(plan, identity), hosts, time.time())
        self._inbox = TrafficInbox(hosts, {plan.client.host})
        self._children = ChildProcesses(self._log, self._inbox, emit, limits)
        self._counters = CountersAround(self._log, self._inbox, limits, identity)

    def stop(self) -> None:
        """End it now, with what was measured. Without effect after the end."""
        self._inbox.stop()

    @property
    def _client(self) -> RunEnd:
        return self._log.ends["client"]

    async def result(self) -> Result:
        """To be called once."""
        self._emit(RunBegan(self._log))
        self._inbox.open()
        try:
            try:
                await self._carry_out()
            except RunFailed as error:
                self._log.failure = error.failure
            except RunStopped:
                self._log.stopped = self._measured_seconds()
            finally:
                self._inbox.end()
                await self._children.stop()
            await self._counters.end()
            result = result_of(self._log)
            self._emit(RunFinished(result))
            return result
        finally:
            self._inbox.close()

    def _measured_seconds(self) -> float:
        axis = axis_start(self._log)
        if axis is None:
            return 0.0
        return min(max(0.0, time.monotonic() - axis), float(self._plan.span))

    async def _carry_out(self) -> None:
        """Raises RunFailed or RunStopped if it does not come to its end."""
        wrong = plan_problems(self._plan)
        if wrong:
            raise RunFailed(Failure("option", sentences(wrong)))
        self._emit(Stage("checking", f"checking iperf3 on {clean(self._plan.client.host)}"))
        await self._check_client()
        await self._counters.begin()
        self._counters.note()
        where = server_text(self._plan)
        self._emit(Stage("starting", f"connecting to the iperf3 server at {where}"))
        await self._children.start(self._log.first, "client")
        self._emit(Stage("running", WAITING_FOR_DATA))
        await self._watch()
        self._emit(Stage("ending", "reading final counters"))

    async def _check_client(self) -> None:
        """Its iperf3, by its probe. Raises RunFailed."""
        client = self._client
        name = clean(client.host)
        host = self._log.hosts.get(client.host)
        if host is None or host.snapshot.state != "live":
            state = "it is not watched" if host is None else clean(host.snapshot.message)
            raise RunFailed(Failure("unreachable", f"{name}: {state or 'it is not connected'}"))
        deadline = time.monotonic() + self._limits.check
        await host.request(TrafficRequest(f"{client.identity}-check", "check"))
        while client.tools is None:
            line = await self._inbox.next(deadline)
            if line is None:
                late = f"{name}: no answer from the probe within {self._limits.check:g} s"
                raise RunFailed(Failure("tools", late))
            if line.id == f"{client.identity}-check" and line.kind == "failed":
                raise RunFailed(Failure("tools", f"{name}: {clean(line.text)}"))
            if line.id == f"{client.identity}-check" and line.tools is not None:
                client.tools = line.tools
                client.output = output_parser(self._plan, line.tools)
        refused = client_refusals(self._plan, client.tools)
        if refused:
            raise RunFailed(Failure("option", sentences(refused)))

    async def _watch(self) -> None:
        """Until the client has ended. Raises RunFailed if it hangs or fails."""
        client, started = self._client, time.monotonic()
        deadline = started + self._plan.seconds + self._limits.grace
        watch = PayloadWatch(self._plan, self._limits, started)
        while client.ended is None:
            line = await self._inbox.next(watch.limit(deadline, time.monotonic()))
            if line is None:
                raise RunFailed(self._hang(watch, time.monotonic() - started))
            for event in self._log.add_line(line):
                self._emit(event)
                if isinstance(event, IntervalMeasured):  # what arrives there is not seen
                    watch.add(replace(event.interval, sends=False), time.monotonic())
        if client.failed or client.problems or client.death or not client.totals:
            raise RunFailed(foreign_failure(self._plan, client))

    def _hang(self, watch: PayloadWatch, seconds: float) -> Failure:
        where = server_text(self._plan)
        if watch.payload_bytes:
            cause = link_loss(self._log) or f"the connection to {where} is lost"
            return Failure("stall", f"no more data after {seconds:.0f} s: {cause}")
        if self._client.first_problem is not None:
            return foreign_failure(self._plan, self._client)
        sentence = f"no data within {seconds:.0f} s: what answers at {where} is no iperf3 server"
        sentence += ", another client is being served, or packets are lost"
        if self._plan.direction == "bidirectional":
            sentence += f"; {OLD_FOR_BOTH}"
        return Failure("start", sentence)


def server_text(plan: RunPlan) -> str:
    """``192.0.2.50 port 5201``"""
    return f"{clean(plan.server.address)} port {plan.port}"


def foreign_failure(plan: RunPlan, client: RunEnd) -> Failure:
    """Why the client failed, by its own message: the server's side is not seen."""
    where = server_text(plan)
    seconds, text = client.first_problem or (0.0, client.failed or client.death)
    said = clean(text)[:200]
    kind = kind_of(text, seconds)
    if any(phrase in text.lower() for phrase in NOT_IPERF3):
        return Failure("other", f"what answers at {where} is not an iperf3 server: {said}")
    sentence = {
        "refused": f"connection refused by {where}: no server listens there (another port? one "
        "with -1 serves one client), or a firewall rejects it",
        "busy": f"the iperf3 server at {where} serves another client: try again when that has "
        "ended",
        "timeout": f"no answer from {where}: another address or port, a firewall, or no route back",
        "no_neighbour": f"no ARP or neighbour reply for {clean(plan.server.address)}",
        "no_route": f"{clean(plan.client.host)} has no route to {clean(plan.server.address)}",
        "prohibited": f"{where} prohibited (firewall or prohibit route)",
        "control_message": f"the iperf3 server at {where} has ended the test: {said}",
        "interrupted": f"the iperf3 server at {where} was ended: {said}",
    }.get(kind, f"iperf3 on {clean(client.host)}: {said or 'ended without a result'}")
    if plan.direction == "bidirectional" and kind in ("control_message", "other"):
        sentence += f"; {OLD_FOR_BOTH}"
    return Failure(kind, sentence)
