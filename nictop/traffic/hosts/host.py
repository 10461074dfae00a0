"""A watched host during a traffic run: its counters since the start, its clock offset, and the
lines of its generators.

Subscribes to a `HostSession`, whose items another object processes; `close` ends the subscription.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from nictop.errors import HostUnreachable, NictopError
from nictop.hosts.session import HostSession, Item
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import (
    Counters,
    GeneratorFloor,
    Link,
    LinkChange,
    Request,
    TrafficLine,
    TrafficRequest,
    TrafficTools,
)
from nictop.traffic.hosts.address_readings import AddressReadings
from nictop.traffic.hosts.counter_records import CounterRecords
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.wire.source import SourceState

MAX_LINK_CHANGES = 1000
MAX_FLOORS = 64
"""Measurements of generators alone; a run needs two."""

PROBE_REPLY_TIMEOUT = 15.0
"""Seconds that a probe may take to check its generators, or for an inventory, on a usual host."""
CHECK_END_SECONDS = 10.0
"""How much later than here a probe ends its check: one clock decides, that of who waits."""

TrafficItem = TrafficLine | SourceState
TrafficCallback = Callable[[str, TrafficItem], None]
"""Called with the name of the host and the item."""


@dataclass(frozen=True)
class Offset:
    """Offset of a host's CLOCK_MONOTONIC from that of the watching machine."""

    seconds: float
    """To subtract from a time of the host."""
    uncertainty: float | None
    """Seconds, either way; None: the only bound is the delay of its lines."""


class RunHost:
    """One host. Times in its lines are seconds of its own CLOCK_MONOTONIC."""

    def __init__(self, session: HostSession) -> None:
        self.session = session
        self.name = session.name
        self._records = CounterRecords()
        self.link_changes: deque[LinkChange] = deque(maxlen=MAX_LINK_CHANGES)
        """Since it is subscribed to, and since its boot."""
        self.addresses = AddressReadings()
        """From the newest inventory before it is subscribed to, since its boot."""
        if self.snapshot.inventory is not None:
            self.addresses.add(self.snapshot.inventory)
        self.floors: dict[tuple[str, ...], GeneratorFloor | str] = {}
        """Arguments of a measurement of the generator alone → its reply, or why there is none."""
        self._callbacks: list[TrafficCallback] = []
        self._largest_offset: float | None = None
        """Seconds; of all lines since the boot of the host, that of the one with the shortest
        delay."""
        self._boot_id = self.snapshot.hello.boot_id if self.snapshot.hello is not None else None
        self.close = session.subscribe(self._receive)
        """Ends the subscription."""

    @property
    def snapshot(self) -> Snapshot:
        return self.session.snapshot

    @property
    def records(self) -> Sequence[Counters]:
        """Since `clear_records`, oldest first; in a long run or of a large host not each of
        them."""
        return self._records.kept

    def clear_records(self) -> None:
        """Remove all records but the newest: a run begins."""
        self.keep_records(0.0)

    def keep_records(self, seconds: float) -> None:
        """Remove the records that are so much older than the newest one, which stays."""
        newest = self.snapshot.counters
        old, self._records = self._records.kept, CounterRecords()
        if newest is None:
            return
        for record in old:
            if newest.time - seconds < record.time < newest.time:
                self._records.add(record)
        self._records.add(newest)

    def _receive(self, item: Item, _: Snapshot) -> None:
        if isinstance(item, SourceState):
            self._publish(item)
            return
        if item.hello is not None:
            if self._boot_id not in (None, item.hello.boot_id):
                self._largest_offset = None
                self.link_changes.clear()
                self.addresses.clear()
            self._boot_id = item.hello.boot_id
        if item.link_change is not None:
            self.link_changes.append(item.link_change)
        if item.outdated is not None:
            self.addresses.add_event(item.outdated)
        if item.inventory is not None:
            self.addresses.add(item.inventory)
        if item.counters is not None:
            self._records.add(item.counters)
            self._estimate_offset(item.counters.time)
        if item.traffic is not None:
            self._estimate_offset(item.traffic.time)
            if item.traffic.floor is not None and len(self.floors) < MAX_FLOORS:
                self.floors[item.traffic.floor.arguments] = item.traffic.floor
            self._publish(item.traffic)

    async def request(self, traffic: TrafficRequest) -> None:
        await self.session.request(Request(traffic=traffic))

    async def tools(self, timeout: float = PROBE_REPLY_TIMEOUT) -> TrafficTools:
        """The generators of the host. Raises NictopError if its probe cannot list them,
        HostUnreachable if it does not reply. `timeout`: for a usual host."""
        limit = timeout * self.session.slowness.factor
        request = check_request(uuid.uuid4().hex[:12], limit)
        replies: list[TrafficLine] = []

        def take(_: str, item: TrafficItem) -> None:
            if isinstance(item, TrafficLine) and item.id == request.id:
                replies.append(item)

        unsubscribe, begin = self.subscribe(take), time.monotonic()
        try:
            await self.request(request)
            await self.session.until(lambda: replies or self.session.is_unreachable, limit)
        finally:
            unsubscribe()
        if replies:
            self.session.slowness.note(time.monotonic() - begin, timeout)
        reply = replies[0] if replies else None
        if reply is not None and reply.tools is not None:
            return reply.tools
        name = clean(self.name)
        if reply is not None:
            raise NictopError(f"{name}: {clean(reply.text)}")
        if self.snapshot.state != "live":
            why = clean(self.snapshot.message).removeprefix(f"{name}: ")
            raise HostUnreachable(f"{name}: {why or 'it is not connected'}")
        raise HostUnreachable(
            f"{name}: no answer from the probe within {limit:g} s", "the host may be very busy"
        )

    async def refresh(self, timeout: float = PROBE_REPLY_TIMEOUT) -> bool:
        """Request an inventory; whether one that was begun after that was received within `timeout`
        seconds, which are for a usual host."""
        requested_at = time.monotonic() + self.offset.seconds
        await self.session.request(Request(inventory=True))

        def is_new() -> bool:
            inventory = self.snapshot.inventory
            return inventory is not None and inventory.time >= requested_at

        return await self.session.until(is_new, timeout * self.session.slowness.factor)

    def subscribe(self, callback: TrafficCallback) -> Callable[[], None]:
        """Call `callback` with every line about traffic and every connection state; the returned
        function ends that."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    @property
    def offset(self) -> Offset:
        """From the pings of the connection, if there are any; else from the line with the shortest
        delay."""
        clock = self.snapshot.clock
        if clock is not None:
            return Offset(clock.offset, clock.uncertainty)
        return Offset(self._largest_offset or 0.0, None)

    def _estimate_offset(self, host_time: float) -> None:
        received_at = self.session.received_at
        assert received_at is not None
        offset = host_time - received_at
        if self._largest_offset is None or offset > self._largest_offset:
            self._largest_offset = offset

    def _publish(self, item: TrafficItem) -> None:
        for callback in tuple(self._callbacks):
            callback(self.name, item)


def check_request(identity: str, limit: float) -> TrafficRequest:
    """Ask a probe for its generators. `limit`: seconds for which the answer is waited for, which
    follow the slowness of its host."""
    return TrafficRequest(f"{identity}-check", "check", deadline=limit + CHECK_END_SECONDS)


@contextmanager
def subscribed_hosts(sessions: Iterable[HostSession]) -> Iterator[dict[str, RunHost]]:
    """The hosts of a test by name, until it ends."""
    with ExitStack() as stack:
        hosts = {session.name: RunHost(session) for session in sessions}
        for host in hosts.values():
            stack.callback(host.close)
        yield hosts


def slowness_of(names: Iterable[str], hosts: Mapping[str, RunHost]) -> float:
    """How many times as long as usual these hosts may take."""
    factors = [hosts[name].session.slowness.factor for name in names if name in hosts]
    return max(factors, default=1.0)


def link_of(endpoint: Endpoint, hosts: Mapping[str, RunHost]) -> Link | None:
    """The NIC of an endpoint as its host has it now; None: not known."""
    if endpoint.ifindex is None or endpoint.host not in hosts:
        return None
    return hosts[endpoint.host].snapshot.links.get(endpoint.ifindex)


def chosen_nics(plan: RunPlan, hosts: Mapping[str, RunHost]) -> dict[str, Link]:
    """Host of an end → its NIC, as the host has it now; without those that are not known."""
    found = {}
    for end in (plan.server, plan.client):
        link = link_of(end, hosts)
        if link is not None:
            found[end.host] = link
    return found


def is_root(snapshot: Snapshot) -> bool:
    """The probe of the host runs as root."""
    return snapshot.hello is not None and snapshot.hello.euid == 0
