"""One path test: a listener on both hosts, then a tester on both, then the end of both listeners.

The work is done by the probes (`probe.traffic.path_test`). A `PathRun` sends their requests and
takes their lines; the caller reads the lines. However it ends, nothing is left running:
`end_path_run` stops the requests, their children end with their probes, and each has a deadline of
its own.
"""

from __future__ import annotations

import math
import secrets
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import Literal

from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import Link, TrafficLine, TrafficRequest
from nictop.traffic.failures import RunFailed
from nictop.traffic.hosts.host import RunHost, is_root
from nictop.traffic.hosts.inbox import TrafficInbox
from nictop.traffic.path.link_losses import ReportedLoss, TestSpan, link_losses, with_common_times
from nictop.traffic.path.result import PathDirection, PathEnd, PathResult
from nictop.traffic.plan.plan import Endpoint, EndpointPair


@dataclass(frozen=True)
class PathTimeouts:
    """Time limits in seconds, for usual hosts."""

    listen: float = 15.0
    """For both listeners to open their sockets."""
    test: float = 45.0
    """For both testers, which end themselves after 35 s at most."""
    stop: float = 3.0
    """For the listeners to end."""

    def for_slow(self, factor: float) -> PathTimeouts:
        """For hosts that may take so many times as long (`wire.slowness`)."""
        more = (factor - 1) * self.listen  # a tester is started, too, and then ends itself
        return PathTimeouts(factor * self.listen, self.test + more, factor * self.stop)


PathStage = Literal["starting", "testing", "stopping", "over"]
STAGE_TEXTS: dict[PathStage, str] = {
    "starting": "starting a listener on both hosts",
    "testing": "testing both directions",
    "stopping": "",
    "over": "",
}


class PathRun:
    """The test between two endpoints. `ports`: for the listeners of client and server; 0: any free
    one. `short`: as in `TrafficRequest`."""

    def __init__(
        self,
        pair: EndpointPair,
        hosts: Mapping[str, RunHost],
        *,
        ports: tuple[int, int] = (0, 0),
        short: bool = False,
        timeouts: PathTimeouts | None = None,
        identity: str = "",
    ) -> None:
        self._ends = (_canonical(pair.client), _canonical(pair.server))
        self._network, self._ports, self._short = pair.network, ports, short
        self._hosts, self._timeouts = hosts, timeouts or PathTimeouts()
        identity, self._cookie = identity or uuid.uuid4().hex[:12], secrets.token_hex(16)
        self._listeners = [f"{identity}-path_listen-{side}" for side in (0, 1)]
        self._testers = [f"{identity}-path_test-{side}" for side in (0, 1)]
        self._running: dict[str, str] = {}
        """Id of a request whose child runs → host."""
        self._lines: dict[str, TrafficLine] = {}
        """Id of a request → its newest line with a result."""
        self._began: list[float | None] = [None, None]
        """When the listener of client and server was ready, on the clock of its host."""
        self._wall = time.time()
        self._late: dict[str, float] = {}
        """Id of a request that nictop ended because its time limit was over → the limit in
        seconds."""
        self.stage: PathStage = "starting"
        self.deadline = math.inf
        """CLOCK_MONOTONIC: when to call `expire`."""

    async def begin(self) -> None:
        self._wall, self.deadline = time.time(), time.monotonic() + self._timeouts.listen
        for side, port in enumerate(self._ports):
            deadline = self._timeouts.listen + self._timeouts.test + 5 * self._timeouts.stop
            await self._request("path_listen", self._listeners[side], side, port, deadline)

    async def add(self, line: TrafficLine) -> None:
        """Take a line, which may be of something else."""
        if line.id not in self._running:
            return
        self.record(line)
        if line.kind in ("path_test", "exit", "failed"):
            del self._running[line.id]
        await self._advance()

    def record(self, line: TrafficLine) -> None:
        """Take a line for the result alone; of a test that is over."""
        if line.path_listener is not None or line.path_test is not None:
            self._lines[line.id] = line
            self._note_begin(line)
        elif line.kind == "failed":
            self._lines.setdefault(line.id, line)

    async def expire(self) -> None:
        """End the stage whose deadline is over."""
        if time.monotonic() >= self.deadline:
            await self._advance(is_late=True)

    async def stop(self, lost: Collection[str] = ()) -> None:
        """End what runs; `add` and `expire` do the rest. `lost`: hosts whose children have ended
        with their probe."""
        self._running = {name: host for name, host in self._running.items() if host not in lost}
        if self.stage in ("starting", "testing"):
            self.stage, self.deadline = "stopping", time.monotonic() + self._timeouts.stop
            for name, host in self._running.items():
                await self._hosts[host].request(TrafficRequest(name, "stop"))
        await self._advance()

    async def _advance(self, *, is_late: bool = False) -> None:
        """Go on to the next stage if this one is done."""
        if is_late:
            self._note_late()
        if self.stage == "starting" and (is_late or self._have_listeners_answered()):
            await self._begin_testing()
            is_late = False
        if self.stage == "testing" and (is_late or not self._are_running(self._testers)):
            await self.stop()
        elif self.stage == "stopping" and (is_late or not self._running):
            self.stage, self.deadline = "over", math.inf

    def _note_late(self) -> None:
        """The requests of this stage that have not ended within its time limit."""
        if self.stage == "starting":
            names, limit = self._listeners, self._timeouts.listen
        elif self.stage == "testing":
            names, limit = self._testers, self._timeouts.test
        else:
            return
        for name in names:
            if name in self._running:
                self._late[name] = limit

    def _have_listeners_answered(self) -> bool:
        """Or ended."""
        return all(name in self._lines or name not in self._running for name in self._listeners)

    def _are_running(self, names: Iterable[str]) -> bool:
        return any(name in self._running for name in names)

    async def _begin_testing(self) -> None:
        """Start a tester for each listener that has opened its sockets."""
        timeout = self._timeouts.test
        self.stage, self.deadline = "testing", time.monotonic() + timeout
        for side, name in enumerate(self._testers):
            line = self._lines.get(self._listeners[1 - side])
            if line is not None and line.path_listener is not None:
                await self._request("path_test", name, side, line.path_listener.port, timeout)

    async def _request(
        self,
        action: Literal["path_listen", "path_test"],
        name: str,
        side: int,
        port: int,
        deadline: float,
    ) -> None:
        here, there = self._ends[side], self._ends[1 - side]
        self._running[name] = here.host
        await self._hosts[here.host].request(
            TrafficRequest(
                name,
                action,
                address=there.address.partition("%")[0],
                source=here.address,
                port=port,
                ifindex=here.ifindex or 0,
                cookie=self._cookie,
                deadline=deadline,
                short=self._short,
            )
        )

    def result(self) -> PathResult:
        """What was found so far."""
        lines = self._lines.values()
        first, second = (
            _path_end(end, self._hosts[end.host].snapshot, lines) for end in self._ends
        )
        directions = (self._direction(0, first, second), self._direction(1, second, first))
        losses = [loss for side in (0, 1) for loss in self._link_losses(side)]
        reported = with_common_times(losses)
        return PathResult(self._wall, self._network, self._ports[1], directions, reported)

    def _link_losses(self, side: int) -> Iterator[ReportedLoss]:
        """Of the NIC of an end, and of that by which its packets leave."""
        end, began = self._ends[side], self._began[side]
        if began is None:
            return
        tested, listened = (
            self._lines.get(self._testers[side]),
            self._lines.get(self._listeners[side]),
        )
        finish, counted = math.inf, None
        if listened is not None and listened.path_listener is not None:
            counted = listened.path_listener.carrier_changes
            if listened.path_listener.ended:
                finish = listened.time
        chosen = [end.ifindex or 0]
        if tested is not None:
            chosen += _ifindexes(tested)
        nics = [ifindex for ifindex in chosen if ifindex]
        span = TestSpan(began, finish)
        yield from link_losses(self._hosts[end.host], nics, span, counted)

    def _note_begin(self, line: TrafficLine) -> None:
        for side, names in enumerate(zip(self._listeners, self._testers, strict=True)):
            if line.id in names:
                tested = line.path_test.seconds if line.path_test is not None else 0.0
                began = line.time - tested
                self._began[side] = min(began, self._began[side] or began)

    def _direction(self, side: int, sender: PathEnd, receiver: PathEnd) -> PathDirection:
        tested = self._lines.get(self._testers[side])
        listened = self._lines.get(self._listeners[1 - side])
        test = tested.path_test if tested is not None else None
        listener = listened.path_listener if listened is not None else None
        failure = ""
        if test is None:
            failure = self._failure_text(side, sender, receiver)
        return PathDirection(sender, receiver, test, listener, failure)

    def _failure_text(self, side: int, sender: PathEnd, receiver: PathEnd) -> str:
        """Which host did not do its part of a direction that was not tested, and why."""
        listened = self._lines.get(self._listeners[1 - side])
        tested = self._lines.get(self._testers[side])
        is_listening = listened is not None and listened.path_listener is not None
        late = self._late.get(self._testers[side] if is_listening else self._listeners[1 - side])
        if late is not None:
            host = sender.host if is_listening else receiver.host
            return f"{clean(host)}: {_late_text(late)}"
        for host, line in ((receiver.host, listened), (sender.host, tested)):
            if line is not None and line.kind == "failed":
                return f"{clean(host)}: {clean(line.text)}"
        return f"{clean(sender.host)}: no answer"


def _late_text(limit: float) -> str:
    return f"no answer within {limit:g} s, the time limit of nictop, which ended the path test"


async def end_path_run(run: PathRun, inbox: TrafficInbox) -> None:
    """Stop what runs of a test, and wait until it has ended."""
    inbox.end()
    while run.stage != "over":
        await run.stop(inbox.lost)
        try:
            line = await inbox.next(run.deadline)
        except RunFailed:  # a host is lost; the other one must still be stopped
            continue
        await add_or_expire(run, line)


async def add_or_expire(run: PathRun, line: TrafficLine | None) -> None:
    """`line`: of the inbox; None: its deadline is over."""
    if line is None:
        await run.expire()
    else:
        await run.add(line)


def _canonical(end: Endpoint) -> Endpoint:
    """With the address as the kernel prints it: answers are compared with it."""
    number, percent, zone = end.address.partition("%")
    return replace(end, address=f"{ip_address(number)}{percent}{zone}")


def _path_end(end: Endpoint, snapshot: Snapshot, lines: Iterable[TrafficLine]) -> PathEnd:
    mentioned = {end.ifindex}
    for line in lines:
        mentioned.update(_ifindexes(line))
    nics = {}
    for link in snapshot.links.values():
        if link.ifindex in mentioned:
            nics[link.ifindex] = link.name
    path_end = PathEnd(end.host, "", end.ifindex, end.address, None, None, is_root(snapshot), nics)
    if end.ifindex not in snapshot.links:
        return path_end
    own = snapshot.links[end.ifindex]
    versions = _ip_versions(own)
    return replace(path_end, nic=own.name, mac=own.address, mtu=own.mtu, ip_versions=versions)


def _ip_versions(link: Link) -> tuple[int, ...]:
    found = set()
    for address in link.addresses:
        if address.scope == "global":
            found.add(6 if address.family == "ipv6" else 4)
    return tuple(sorted(found))


def _ifindexes(line: TrafficLine) -> Iterator[int]:
    """Those that a result mentions, of either host."""
    path = line.path_test.path if line.path_test is not None else None
    if path is not None and path.ifindex:
        yield path.ifindex
    listener = line.path_listener
    if listener is not None:
        seen = (*listener.delivered, *(listener.arrived or ()), *listener.misaddressed)
        for packets in seen:
            yield packets.ifindex
