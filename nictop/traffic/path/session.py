"""Runs a path test: a listener on both hosts, then a tester on both, then the end of both listeners.

The work is done by the probes (`probe.traffic.path_test`). However it ends, nothing is left running: the requests are
stopped, their children end with their probes, and each has a deadline of its own.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from ipaddress import ip_address

from nictop.errors import HostUnreachable
from nictop.hosts.session import HostSession
from nictop.model.devices.pairs import pairs
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.records import Firewalls, TrafficLine, TrafficRequest
from nictop.rules.host import HostFacts
from nictop.traffic.path.findings.findings import path_findings
from nictop.traffic.path.result import PathDirection, PathEnd, PathReport, PathRequest, PathResult
from nictop.traffic.plan.endpoints import PATH_OPTIONS, select_pair
from nictop.traffic.plan.plan import Endpoint, EndpointPair, endpoint_pairs
from nictop.traffic.run.events import RunFailed
from nictop.traffic.run.host import RunHost
from nictop.traffic.run.inbox import TrafficInbox
from nictop.traffic.run.readings import wait_for_readings

LISTEN_TIMEOUT = 15.0
"""Seconds for both listeners to open their sockets."""
TEST_SECONDS = 60.0
"""Deadline of a tester; it ends itself after 45 s at most."""
LISTEN_SECONDS = 90.0
"""Deadline of a listener."""
STOP_TIMEOUT = 3.0
"""Seconds for the listeners to end."""

Progress = Callable[[str], object]
"""Called with a sentence for each stage."""


class PathSession:
    """One path test. `sessions`: the hosts of the request, whose items the caller processes. `timeout`: as for
    `wait_for_readings`."""

    def __init__(self, request: PathRequest, sessions: Iterable[HostSession], *, timeout: float | None = None) -> None:
        self.request = request
        self.hosts: dict[str, RunHost] = {}
        """Those that take part, by name."""
        self._sessions, self._timeout = tuple(sessions), timeout

    async def run(self, progress: Progress = lambda _: None) -> PathReport:
        """Raises NictopError if the request means no pair of addresses, HostUnreachable if a host is not reached or
        lost."""
        async with AsyncExitStack() as stack:
            self.hosts = {session.name: RunHost(session) for session in self._sessions}
            for host in self.hosts.values():
                stack.callback(host.close)
            ends = dict.fromkeys((self.request.client, self.request.server))
            needed = [self.hosts[name] for name in ends if name in self.hosts]
            async with aclosing(wait_for_readings(needed, self._timeout)) as waiting:
                async for stage in waiting:
                    progress(clean(stage.sentence))
            snapshots = {name: host.snapshot for name, host in self.hosts.items()}
            candidates = endpoint_pairs(pairs(snapshots.values()).subnets, snapshots.values())
            pair = select_pair(self.request, candidates, snapshots, options=PATH_OPTIONS)
            result = await PathRun(pair, self.request.port, self.hosts).result(progress)
            facts = {end.sender.host: HostFacts(self.hosts[end.sender.host].snapshot) for end in result.directions}
            findings = path_findings(result, facts)
            if self.request.port and any(one.rule == "path_firewall" for one in findings):
                progress("checking the firewalls of both hosts")
                findings = path_findings(result, facts, await self._firewalls(facts))
            return PathReport(result, findings)

    async def _firewalls(self, names: Iterable[str]) -> dict[str, Firewalls]:
        found = {name: (await self.hosts[name].tools()).firewalls for name in names}
        return {name: one for name, one in found.items() if one is not None}


class PathRun:
    """The test between two endpoints."""

    def __init__(self, pair: EndpointPair, port: int, hosts: Mapping[str, RunHost]) -> None:
        pair = replace(pair, client=_canonical(pair.client), server=_canonical(pair.server))
        self._pair, self._port, self._hosts = pair, port, hosts
        self._identity, self._cookie = uuid.uuid4().hex[:12], secrets.token_hex(16)
        self._inbox = TrafficInbox(hosts, {pair.client.host, pair.server.host})
        self._running: dict[str, str] = {}
        """Id of a request whose child runs → host."""
        self._lines: dict[str, TrafficLine] = {}
        """Id of a request → its newest line with a result."""

    async def result(self, progress: Progress) -> PathResult:
        """Run it. Raises HostUnreachable when a host is lost."""
        wall = time.time()
        ends = (self._pair.client, self._pair.server)
        self._inbox.open()
        try:
            progress("starting a listener on both hosts")
            for here, there in (ends, ends[::-1]):
                await self._request("path_listen", here, there, self._port, LISTEN_SECONDS)
            listeners = [f"{self._identity}-path_listen-{side}" for side in (0, 1)]
            await self._wait(
                lambda: all(one in self._lines or one not in self._running for one in listeners), LISTEN_TIMEOUT
            )
            progress("testing both directions")
            for side, (here, there) in enumerate((ends, ends[::-1])):
                line = self._lines.get(listeners[1 - side])
                if line is not None and line.path_listener is not None:
                    await self._request("path_test", here, there, line.path_listener.port, TEST_SECONDS)
            testers = [f"{self._identity}-path_test-{side}" for side in (0, 1)]
            await self._wait(lambda: not any(one in self._running for one in testers), TEST_SECONDS + STOP_TIMEOUT)
        except RunFailed as error:
            raise HostUnreachable(error.failure.sentence) from None
        finally:
            await self._stop()
            self._inbox.close()
        first, second = (_path_end(end, self._hosts[end.host].snapshot, self._lines.values()) for end in ends)
        directions = (self._direction(0, first, second), self._direction(1, second, first))
        return PathResult(wall, self._pair.network, self._port, directions)

    async def _request(self, action: str, here: Endpoint, there: Endpoint, port: int, deadline: float) -> None:
        side = 0 if here is self._pair.client else 1
        name = f"{self._identity}-{action}-{side}"
        self._running[name] = here.host
        request = TrafficRequest(name, "path_listen" if action == "path_listen" else "path_test")
        request = replace(request, address=there.address.partition("%")[0], source=here.address, port=port)
        request = replace(request, ifindex=here.ifindex or 0, cookie=self._cookie, deadline=deadline)
        await self._hosts[here.host].request(request)

    async def _wait(self, condition: Callable[[], bool], timeout: float) -> None:
        """Process lines until `condition` holds, or for `timeout` seconds. Raises RunFailed when a host is lost."""
        deadline = time.monotonic() + timeout
        while not condition():
            line = await self._inbox.next(deadline)
            if line is None:
                return
            self._process(line)

    def _process(self, line: TrafficLine) -> None:
        if line.id not in self._running:
            return
        if line.path_listener is not None or line.path_test is not None:
            self._lines[line.id] = line
        elif line.kind == "failed":
            self._lines.setdefault(line.id, line)
        if line.kind in ("path_test", "exit", "failed"):
            del self._running[line.id]

    async def _stop(self) -> None:
        """Stop what runs, and wait until it has ended."""
        self._inbox.end()
        for name, host in self._running.items():
            if host not in self._inbox.lost:
                await self._hosts[host].request(TrafficRequest(name, "stop"))

        def has_ended() -> bool:
            return all(host in self._inbox.lost for host in self._running.values())

        deadline = time.monotonic() + STOP_TIMEOUT
        while not has_ended() and time.monotonic() < deadline:
            try:
                await self._wait(has_ended, deadline - time.monotonic())
            except RunFailed:  # a host is lost; the other one must still be stopped
                continue

    def _direction(self, side: int, sender: PathEnd, receiver: PathEnd) -> PathDirection:
        tested, listened = (
            self._lines.get(f"{self._identity}-{name}") for name in (f"path_test-{side}", f"path_listen-{1 - side}")
        )
        test = tested.path_test if tested is not None else None
        listener = listened.path_listener if listened is not None else None
        failure = ""
        if test is None:
            failed = next((one for one in (listened, tested) if one is not None and one.kind == "failed"), None)
            host = receiver.host if failed is not None and failed is listened else sender.host
            failure = f"{clean(host)}: {clean(failed.text)}" if failed is not None else f"{clean(host)}: no answer"
        return PathDirection(sender, receiver, test, listener, failure)


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
