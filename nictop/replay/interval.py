"""What one NIC of a recorded host carried between two times of a recording, as a result: the same
records and the same code as a measurement by hand."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping

from nictop.errors import NictopError
from nictop.hosts.session import HostSession
from nictop.hosts.specification import RECORDED, Host
from nictop.model.text.terminal import clean
from nictop.probe.records import Counters
from nictop.recording.reader import NOT_YET, Recording
from nictop.replay.items import items_of_hosts
from nictop.replay.position import wall_clock_text
from nictop.traffic.analysis.workload import one_host_result
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.plan.one_nic import select_nic
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.record.log import RunLog, first_record_since, new_groups
from nictop.traffic.results.store import StoredRun

BEFORE_SECONDS = 5.0
"""Before the begin, in which the last counter record before it is looked for; earlier if there are
none."""
AFTER_SECONDS = 5.0
"""In which a counter record follows the end of the interval."""
MIN_INTERVAL_SECONDS = 0.1


def interval_result(
    recording: Recording,
    since: float,
    until: float,
    *,
    host: str = "",
    nic: str = "",
    label: str,
    guest: str = "",
) -> StoredRun:
    """`since`, `until`: seconds as in the recording; `host`: "": the only one; `nic`: "": as by
    `select_nic`; `guest`: of the host, whose NIC is measured; "": none. Raises NictopError if that
    cannot be measured."""
    if until - since < MIN_INTERVAL_SECONDS:
        raise NictopError("--to must be later than --from")
    name = _host_of(recording, host)
    interval = _Interval(recording, since, until)
    interval.read()
    snapshots = {name: host.snapshot for name, host in interval.hosts.items()}
    if snapshots[name].inventory is None:
        raise NictopError(f"{clean(name)}: its interfaces were not recorded before --to")
    request = RunRequest(name, name, client_nic=nic, test="manual", guest=guest)
    chosen = select_nic(request, snapshots)
    plan = RunPlan(
        chosen.endpoint,
        chosen.endpoint,
        test="manual",
        time=math.ceil(until - since) + 1,
        guest=guest,
        guest_vf=chosen.vf,
    )
    identity = uuid.uuid4().hex[:12]
    result = one_host_result(interval.log(plan, identity, chosen.note))
    written = recording.wall_time(until)
    version = clean(recording.nictop)
    return StoredRun(f"{identity}-1", identity, result, written, version, label=label)


def _host_of(recording: Recording, host: str) -> str:
    names = recording.hosts
    if not host and len(names) == 1:
        return names[0]
    found = recording.hosts_named(host) if host else ()
    if len(found) == 1:
        return found[0]
    listed = ", ".join(map(clean, found or names)) or "no host"
    which = "HOST is missing"
    if host:
        which = (
            f"{clean(host)} is several hosts" if found else f"{clean(host)} is not in the recording"
        )
    raise NictopError(which, f"it has {listed}")


class _Interval:
    """The counters of all recorded hosts, from right before its begin to right after its end."""

    def __init__(self, recording: Recording, since: float, until: float) -> None:
        self._recording, self._since, self._until = recording, since, until
        self.hosts = {
            name: RunHost(HostSession(Host(name, RECORDED), window=False))
            for name in recording.hosts
        }
        self._before: Mapping[str, Counters | None] = {}

    def read(self) -> None:
        """Until each host has a counter record after the end, or `AFTER_SECONDS` later."""
        has_begun = False
        names = tuple(self.hosts)
        start = min(self._recording.start_time(name, self._since, BEFORE_SECONDS) for name in names)
        for found in items_of_hosts(self._recording, names, start):
            if found is NOT_YET:
                continue
            recorded, name = found
            if not has_begun and recorded.time > self._since:
                self._begin()
                has_begun = True
            if recorded.time > self._until + AFTER_SECONDS or self._is_complete():
                return
            if recorded.received is not None:
                self.hosts[name].session.process(recorded.received, recorded.time)
        if not has_begun:
            self._begin()

    def _begin(self) -> None:
        for host in self.hosts.values():
            host.clear_records()
        self._before = {name: host.snapshot.counters for name, host in self.hosts.items()}

    def _is_complete(self) -> bool:
        return bool(self._before) and all(
            first_record_since(host, self._until + host.offset.seconds) is not None
            for host in self.hosts.values()
        )

    def log(self, plan: RunPlan, identity: str, note: str) -> RunLog:
        """As of a measurement that was begun and ended by hand then."""
        wall = self._recording.wall_time(self._since)
        log = RunLog(plan, new_groups(plan, identity), self.hosts, wall)
        offset = self.hosts[plan.client.host].offset.seconds
        end = log.ends["client"]
        end.begin_by_hand(self._since + offset)
        end.end_by_hand(self._until + offset)
        end.is_interval = True
        # a host whose first record is later has no counters of the begin
        log.before = {name: counters or _first(self.hosts[name]) for name, counters in
                      self._before.items()}  # fmt: skip
        log.after = {
            name: first_record_since(host, self._until + host.offset.seconds)
            or host.snapshot.counters
            for name, host in self.hosts.items()
        }
        begin = wall_clock_text(wall, date=True)
        finish = wall_clock_text(self._recording.wall_time(self._until))
        log.notes = (f"of a recording, from {begin} to {finish}", *filter(None, (note,)))
        return log


def _first(host: RunHost) -> Counters | None:
    return host.records[0] if host.records else None
