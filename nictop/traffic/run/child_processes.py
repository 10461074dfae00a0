"""The generators of a run: child processes of both probes, started and stopped.

A probe ends them itself when its connection is lost, and at their deadline.
"""

from __future__ import annotations

import secrets
import time

from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import TrafficRequest
from nictop.traffic.failures import Failure, RunFailed
from nictop.traffic.generators import Side, generator_arguments, output_parser
from nictop.traffic.hosts.inbox import TrafficInbox
from nictop.traffic.plan.plan import MAX_PORT, next_port
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.record.log import FlowGroup, RunLog
from nictop.traffic.record.strangers import expected_client
from nictop.traffic.run.events import Emit, RunTimeouts, Stage
from nictop.traffic.run.failure_cause import end_failure, first_cause


class ChildProcesses:
    """Those of one run, whose lines are added to its log."""

    def __init__(self, log: RunLog, inbox: TrafficInbox, emit: Emit, limits: RunTimeouts) -> None:
        self._log, self._inbox, self._emit, self._limits = log, inbox, emit, limits
        self._cookies = [secrets.token_hex(16) for _ in log.groups]
        """Of each group: both ends get it over the connections to their probes."""
        self._started: set[str] = set()
        """Ids of generators."""

    async def start_server(self, group: FlowGroup) -> None:
        """Until it listens, at the next free port. Raises RunFailed."""
        first = group.plan.port if group is self._log.first else next_port(self._log.plan.port)
        host, prefix = clean(group.ends["server"].host), group.ends["server"].identity
        step = 1 if first + self._limits.ports - 1 <= MAX_PORT else -1
        ports = [first + attempt * step for attempt in range(self._limits.ports)]
        for attempt, port in enumerate(ports, 1):
            if attempt > 1:
                replace_server(group, f"{prefix}{attempt}")
            self._set_port(group, port)
            where = f"{host} port {port}"
            self._emit(Stage("starting", f"starting the server on {where}"))
            reason = await self._why_not_listening(group, where)
            if reason is None:
                self._emit(Stage("listening", f"the server listens on {where}"))
                return
            if reason.kind != "address_in_use":
                raise RunFailed(reason)
        in_use = f"ports {ports[0]} to {ports[-1]} are in use on {host}"
        raise RunFailed(Failure("address_in_use", in_use))

    def _set_port(self, group: FlowGroup, port: int) -> None:
        group.plan = replace(group.plan, port=port)
        if group is self._log.first:
            self._log.plan = replace(self._log.plan, port=port)

    async def _why_not_listening(self, group: FlowGroup, where: str) -> Failure | None:
        """Start the server; why it cannot listen, and has ended. None: it listens."""
        server = group.ends["server"]
        await self.start(group, "server")
        deadline = time.monotonic() + self._limits.listen
        while not server.listening and server.ended is None:
            if server.problems and group.plan.generator == "ntttcp":  # it continues without
                reason = end_failure(self._log.of(group), server)
                await self.stop()
                return reason
            line = await self._inbox.next(deadline)
            if line is None:
                late = f"{where}: server not listening after {self._limits.listen:g} s"
                raise RunFailed(Failure("start", late))
            self._log.add_line(line)
        return None if server.listening else end_failure(self._log.of(group), server)

    async def start(self, group: FlowGroup, side: Side) -> None:
        """Start one child process. Its deadline is that of the probe, for the case that the
        connection is lost."""
        end, plan, whole = group.ends[side], group.plan, self._log.plan
        assert end.tools is not None
        self._started.add(end.identity)
        server = self._log.hosts[end.host].snapshot
        peer = expected_client(plan, server) if side == "server" else ""
        wait = plan.wait if plan.foreign_side == "client" else 0
        is_iperf3 = plan.generator == "iperf3"
        if plan.generator != "builtin":  # it serves anybody
            end.client = peer
        # requests beside a bulk flow are few: sockets and threads are those of the last group
        is_watched = group is self._log.last
        delay = 0 if group is self._log.first else whole.seconds
        congestion = plan.congestion if is_iperf3 and side == "server" else None
        seconds = max(whole.seconds, plan.seconds)
        await self._log.hosts[end.host].request(
            TrafficRequest(
                end.identity,
                "start",
                role=side,
                generator=plan.generator,
                arguments=generator_arguments(plan, side, end.tools, delay=delay),
                port=plan.port,
                address=plan.server.address,
                deadline=wait + seconds + self._limits.grace + self._limits.listen,
                sockets=is_watched and plan.protocol == "tcp" and plan.test != "crr",
                threads=is_watched,
                interval=plan.interval,
                cookie=self._cookies[self._log.groups.index(group)],
                peer=peer,
                congestion=congestion or "",
            )
        )

    async def stop(self) -> None:
        """Those that still run, until they have ended."""
        running = [
            end for end in self._log.all_ends if end.identity in self._started and end.ended is None
        ]
        for end in running:
            if end.host not in self._inbox.lost:
                await self._log.hosts[end.host].request(TrafficRequest(end.identity, "stop"))
        deadline = time.monotonic() + self._limits.stop
        while any(end.ended is None and end.host not in self._inbox.lost for end in running):
            try:
                line = await self._inbox.next(deadline)
            except RunFailed as error:
                # a host is lost; the child process of the other one must still be stopped
                self._log.failure = first_cause(self._log.failure, error.failure)
                continue
            if line is None:
                return
            self._log.add_line(line)


def replace_server(group: FlowGroup, identity: str) -> None:
    """By one that has not run yet, for another port."""
    old = group.ends["server"]
    assert old.tools is not None
    new = group.ends["server"] = RunEnd("server", old.host, identity, old.omitted)
    new.tools, new.output = old.tools, output_parser(group.plan, old.tools, "server")
