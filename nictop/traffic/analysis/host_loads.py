"""The load of every host of a run, from its record. Reads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nictop.model.devices.guests import guests
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import TrafficLine
from nictop.traffic.analysis.cpu_load import host_load
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.record.log import RunLog, measured_window
from nictop.traffic.results.host_load import HostLoad, HostRole
from nictop.traffic.results.result import Flow


def host_loads(log: RunLog, flows: Sequence[Flow], axis: float | None) -> tuple[HostLoad, ...]:
    """Of client, server and observers. `axis`: its start; None: not known."""
    goodput = sum(flow.goodput_or_zero for flow in flows)
    machines = _machines_of_ends(log)
    loads = []
    seen: dict[str, str] = {}
    for name, role, endpoint in host_roles(log.plan, log.hosts):
        host = log.hosts.get(name)
        if axis is None or host is None:
            loads.append(HostLoad(name, role, None))
            continue
        first = seen.setdefault(_machine(log, name), name)
        readings: list[TrafficLine] = []
        for end in log.all_ends:
            if end.host == name:
                readings += end.threads
        load = host_load(
            name,
            role,
            tuple(host.records),
            measured_window(log),
            offset=host.offset.seconds + axis,
            snapshot=host.snapshot,
            bits_per_second=goodput or None,
            ifindex=endpoint.ifindex if endpoint is not None else None,
            readings=readings,
            pids=_pids(log, host),
            ends=machines.get(name),
        )
        loads.append(load if first == name else replace(load, machine_of=first))
    return tuple(loads)


def _machines_of_ends(log: RunLog) -> dict[str, dict[str, str]]:
    """Hypervisor → its virtual machine → the end of the run that it is."""
    found: dict[str, dict[str, str]] = {}
    ends = (log.plan.client.host, log.plan.server.host)
    for name, guest in guests([host.snapshot for host in log.hosts.values()]).items():
        if name in ends:
            found.setdefault(guest.hypervisor, {})[guest.machine] = name
    return found


def _pids(log: RunLog, host: RunHost) -> frozenset[int]:
    """PIDs of both ends on the machine of a host, which may have two names."""
    here = _machine(log, host.name)
    pids = set()
    for end in log.all_ends:
        if end.pid is not None and _machine(log, end.host) == here:
            pids.add(end.pid)
    return frozenset(pids)


def _machine(log: RunLog, name: str) -> str:
    """Boot id of the machine of a host; its name if that is not known."""
    host = log.hosts.get(name)
    if host is None or host.snapshot.hello is None:
        return name
    return host.snapshot.hello.boot_id or name


def host_roles(plan: RunPlan, hosts: Iterable[str]) -> list[tuple[str, HostRole, Endpoint | None]]:
    """(host, role, its endpoint) of both ends, then of the observers; a host that is both ends is
    the client."""
    ends: list[tuple[str, HostRole, Endpoint | None]] = []
    for end in plan.watched_ends:
        ends.append((end.host, "client" if end is plan.client else "server", end))
    known = {name for name, _, _ in ends}
    return ends + [(name, "observer", None) for name in hosts if name not in known]
