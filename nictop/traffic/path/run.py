"""One path test: a listener on both hosts, then a tester on both, then the end of both listeners.

The work is done by the probes (`probe.traffic.path_test`). A `PathRun` sends their requests and takes their lines; the
caller reads the lines. However it ends, nothing is left running: `end_path_run` stops the requests, their children end
with their probes, and each has a deadline of its own.
"""

from __future__ import annotations

import math
import secrets
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Literal

from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.records import TrafficLine, TrafficRequest
from nictop.traffic.path.result import PathDirection, PathEnd, PathResult
from nictop.traffic.plan.plan import Endpoint, EndpointPair
from nictop.traffic.run.events import RunFailed
from nictop.traffic.run.host import RunHost
from nictop.traffic.run.inbox import TrafficInbox


@dataclass(frozen=True)
class PathTimeouts:
    """Time limits in seconds."""

    listen: float = 15.0
    """For both listeners to open their sockets."""
    test: float = 45.0
    """For both testers, which end themselves after 35 s at most."""
    stop: float = 3.0
    """For the listeners to end."""


PathStage = Literal["starting", "testing", "stopping", "over"]
STAGE_TEXTS: dict[PathStage, str] = {
    "starting": "starting a listener on both hosts",
    "testing": "testing both directions",
    "stopping": "",
    "over": "",
}


class PathRun:
    """The test between two endpoints. `ports`: for the listeners of client and server; 0: any free one. `short`: as in
    `TrafficRequest`."""

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
        self._wall = time.time()
        self._late: dict[str, float] = {}
        """Id of a request that nictop ended because its time limit was over → the limit in seconds."""
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
        elif line.kind == "failed":
            self._lines.setdefault(line.id, line)

    async def expire(self) -> None:
        """End the stage whose deadline is over."""
        if time.monotonic() >= self.deadline:
            await self._advance(is_late=True)

    async def stop(self, lost: Collection[str] = ()) -> None:
        """End what runs; `add` and `expire` do the rest. `lost`: hosts whose children have ended with their probe."""
        self._running = {name: host for name, host in self._running.items() if host not in lost}
        if self.stage in ("starting", "testing"):
            self.stage, self.deadline = "stopping", time.monotonic() + self._timeouts.stop
            for name, host in self._running.items():
                await self._hosts[host].request(TrafficRequest(name, "stop"))
        await self._advance()

    async def _advance(self, *, is_late: bool = False) -> None:
        """Go on to the next stage if this one is done."""
        limits = {"starting": self._timeouts.listen, "testing": self._timeouts.test}
        if is_late and self.stage in limits:
            late = self._testers if self.stage == "testing" else self._listeners
            self._late.update((name, limits[self.stage]) for name in late if name in self._running)
        if self.stage == "starting" and (
            is_late or all(one in self._lines or one not in self._running for one in self._listeners)
        ):
            self.stage, self.deadline, is_late = "testing", time.monotonic() + self._timeouts.test, False
            for side, name in enumerate(self._testers):
                line = self._lines.get(self._listeners[1 - side])
                if line is not None and line.path_listener is not None:
                    await self._request("path_test", name, side, line.path_listener.port, self._timeouts.test)
        if self.stage == "testing" and (is_late or not any(one in self._running for one in self._testers)):
            await self.stop()
        elif self.stage == "stopping" and (is_late or not self._running):
            self.stage, self.deadline = "over", math.inf

    async def _request(
        self, action: Literal["path_listen", "path_test"], name: str, side: int, port: int, deadline: float
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
        first, second = (_path_end(end, self._hosts[end.host].snapshot, self._lines.values()) for end in self._ends)
        directions = (self._direction(0, first, second), self._direction(1, second, first))
        return PathResult(self._wall, self._network, self._ports[1], directions)

    def _direction(self, side: int, sender: PathEnd, receiver: PathEnd) -> PathDirection:
        tested, listened = self._lines.get(self._testers[side]), self._lines.get(self._listeners[1 - side])
        test = tested.path_test if tested is not None else None
        listener = listened.path_listener if listened is not None else None
        failure = ""
        if test is None:
            failed = next((one for one in (listened, tested) if one is not None and one.kind == "failed"), None)
            host = receiver.host if failed is not None and failed is listened else sender.host
            limit = self._late.get(self._listeners[1 - side] if listener is None else self._testers[side])
            host = receiver.host if listener is None and limit is not None else host
            text = clean(failed.text) if failed is not None else "no answer"
            failure = f"{clean(host)}: {text if limit is None else _late_text(limit)}"
        return PathDirection(sender, receiver, test, listener, failure)


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
        await (run.expire() if line is None else run.add(line))


def _canonical(end: Endpoint) -> Endpoint:
    """With the address as the kernel prints it: answers are compared with it."""
    number, percent, zone = end.address.partition("%")
    return replace(end, address=f"{ip_address(number)}{percent}{zone}")


def _path_end(end: Endpoint, snapshot: Snapshot, lines: Iterable[TrafficLine]) -> PathEnd:
    link = snapshot.links.get(end.ifindex or 0)
    is_root = snapshot.hello is not None and snapshot.hello.euid == 0
    mentioned = {end.ifindex, *(ifindex for line in lines for ifindex in _ifindexes(line))}
    nics = {one.ifindex: one.name for one in snapshot.links.values() if one.ifindex in mentioned}
    if link is None:
        return PathEnd(end.host, "", end.ifindex, end.address, None, None, is_root, nics)
    return PathEnd(end.host, link.name, link.ifindex, end.address, link.address, link.mtu, is_root, nics)


def _ifindexes(line: TrafficLine) -> Iterator[int]:
    """Those that a result mentions, of either host."""
    if line.path_test is not None and line.path_test.path is not None and line.path_test.path.ifindex:
        yield line.path_test.path.ifindex
    if line.path_listener is not None:
        for one in (*line.path_listener.delivered, *(line.path_listener.arrived or ())):
            yield one.ifindex
