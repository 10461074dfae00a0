"""The result of a run so far, from its record: the same records as its result at the end.

Reads nothing. What follows from the whole run alone is not known yet: totals, the load of the
measured seconds, path proof, bottleneck. Every line and every counter record is evaluated once, so
that reading it often costs no more in a long run; it is the same however often it was read before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nictop.model.devices.ceiling import Ceiling
from nictop.traffic.analysis.assemble import incidents_so_far
from nictop.traffic.analysis.framing import run_ceilings, with_ceilings
from nictop.traffic.analysis.host_loads import host_roles
from nictop.traffic.analysis.nic_incidents import NicIncident
from nictop.traffic.analysis.setup_facts import nic_names
from nictop.traffic.analysis.socket_samples import carry_payload
from nictop.traffic.live.flow_so_far import FlowNow, FlowSoFar
from nictop.traffic.live.host_so_far import HostSoFar, LiveHostFigures
from nictop.traffic.live.nic_flow import NicFlowSoFar
from nictop.traffic.live.transactions_so_far import TransactionsSoFar
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.record.log import RunLog, axis_start
from nictop.traffic.results.result import Result

if TYPE_CHECKING:
    from nictop.traffic.hosts.host import RunHost


class _FirstPayload:
    """When the sockets of an end moved the first payload."""

    def __init__(self, end: RunEnd, has_control: bool) -> None:
        """`has_control`: one of the connections is the control connection of iperf3."""
        self._end, self._has_control = end, has_control
        self._read = 0
        """Number of samples without payload."""

    def time(self, hosts: Mapping[str, RunHost]) -> float | None:
        """Seconds of this machine's CLOCK_MONOTONIC; None: they have not moved any."""
        for time, sockets in self._end.sockets[self._read :]:
            if carry_payload(sockets, has_control=self._has_control):
                return time - hosts[self._end.host].offset.seconds
            self._read += 1
        return None


class ResultSoFar:
    """Of one run. `read` adds what is new in its record."""

    def __init__(self, log: RunLog) -> None:
        self._log = log
        self._restart()

    def _restart(self) -> None:
        log = self._log
        self._plan, self._ends = log.plan, list(log.all_ends)
        has_control = log.first.plan.generator == "iperf3"
        self._payloads = [_FirstPayload(end, has_control) for end in log.ends.values()]
        self._flows: list[FlowSoFar | NicFlowSoFar] = []
        self._flows += [FlowSoFar(log.last, side) for side in log.plan.sending]
        host = log.hosts.get(log.plan.client.host)
        has_nic = log.plan.is_of_one_host and log.plan.client.ifindex is not None
        if has_nic and host is not None:
            for sends in (True, False):
                self._flows.append(NicFlowSoFar(host, log.plan, sends=sends))
        self._transactions = TransactionsSoFar(log.ends["client"])
        self._hosts: dict[str, HostSoFar] = {}
        for name, role, endpoint in host_roles(log.plan, log.hosts):
            if name in log.hosts:
                ifindex = endpoint.ifindex if endpoint is not None else None
                self._hosts[name] = HostSoFar(log.hosts[name], role, ifindex)
        self._ceilings: tuple[Ceiling, ...] | None = None

    @property
    def axis(self) -> float | None:
        """Start of the axis, seconds of this machine's CLOCK_MONOTONIC; before a generator has
        reported an interval, by the first byte in a socket. None: none was moved."""
        log = self._log
        exact = axis_start(log)
        if exact is not None:
            return exact
        self._follow_generators()
        times = [payload.time(log.hosts) for payload in self._payloads]
        known = [time for time in times if time is not None]
        return min(known) + log.plan.omit if known else None

    def _follow_generators(self) -> None:
        """Begin again if there is another generator, or its options are known at last."""
        log = self._log
        if log.plan is not self._plan or list(log.all_ends) != self._ends:
            self._restart()

    def read(self) -> Result:
        """The result of what is recorded now."""
        log = self._log
        self._follow_generators()
        axis = self.axis
        if axis is not None:
            self._read_since(axis)
        snapshots = {name: host.snapshot for name, host in log.hosts.items()}
        if self._ceilings is None:
            self._ceilings = run_ceilings(log.plan, snapshots)
        flows = with_ceilings([flow.flow() for flow in self._flows], self._ceilings)
        return Result(
            log.plan,
            log.wall,
            flows=flows,
            hosts=tuple(host.load() for host in self._hosts.values()),
            ceiling=self._ceilings[0] if self._ceilings else None,
            facts=nic_names(log.plan, snapshots),
            transactions=self._transactions.figures(),
        )

    def _read_since(self, axis: float) -> None:
        log = self._log
        axes = {name: axis + host.offset.seconds for name, host in log.hosts.items()}
        end = math.inf if log.plan.is_open_ended else float(log.plan.span)
        for name, host in self._hosts.items():
            host.read(axes[name], -float(log.plan.omit), end)
        if log.plan.has_requests:
            client = log.ends["client"]
            self._transactions.read(axes[client.host], self._loaded_since(axes))
        for flow in self._flows:
            flow.read(axes)

    def _loaded_since(self, axes: Mapping[str, float]) -> float | None:
        """Begin of the bulk flow of a loaded run on the axis."""
        log = self._log
        client = log.last.ends["client"]
        if log.last is log.first or client.run_start is None:
            return None
        return client.run_start - axes[client.host]

    def incidents(self) -> tuple[NicIncident, ...]:
        """What happened to the chosen NICs since the start."""
        return incidents_so_far(self._log, self.axis)

    @property
    def grace(self) -> float | None:
        """Of its generators, in seconds."""
        return self._log.grace

    @property
    def running_hosts(self) -> tuple[str, ...]:
        """Those of generators that have not ended."""
        return self._log.running_hosts

    def flows_now(self) -> tuple[FlowNow, ...]:
        """Of each of the flows that were read last."""
        return tuple(flow.now() for flow in self._flows)

    def hosts_now(self) -> dict[str, LiveHostFigures]:
        """Host → what was read of it last."""
        return {name: host.now() for name, host in self._hosts.items()}
