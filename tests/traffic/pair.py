"""Two network namespaces joined by a veth, with a real probe in each: a client's and a server's host."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

from nictop.traffic.host import RunHost
from nictop.traffic.plan import Place, Plan
from nictop.wire.local import LocalSource, probe_command
from tests.support.namespaces import Namespace, why_impossible

LIMIT = 60.0


def why_not() -> str | None:
    """Why no real run can be made here."""
    if shutil.which("iperf3") is None:
        return "iperf3 is not installed"
    return why_impossible() or ("the tc command is not installed" if shutil.which("tc") is None else None)


class Pair:
    """Both hosts, followed."""

    def __init__(self, client: Namespace, server: Namespace) -> None:
        self.client, self.server = client, server
        self.sources = {"a": source(client, "a"), "b": source(server, "b")}
        self.hosts = {name: RunHost(one) for name, one in self.sources.items()}

    def plan(self, **more: object) -> Plan:
        """A short run between them."""
        places = []
        for name, address in (("a", "198.18.0.1"), ("b", "198.18.0.2")):
            links = self.hosts[name].snapshot.links.values()
            places.append(Place(name, next(link.ifindex for link in links if link.name == "nictopt"), address))
        plan = Plan(places[0], places[1], time=2, interval=0.2)
        return replace(plan, **more)  # type: ignore[arg-type]

    async def ready(self) -> None:
        """Both probes have told their inventory and counters."""
        for host in self.hosts.values():
            assert await host.until(partial(_is_known, host), LIMIT)

    async def knows(self, name: str) -> None:
        """Both probes count a link of that name."""

        def counted(host: RunHost) -> bool:
            named = [link.ifindex for link in host.snapshot.links.values() if link.name == name]
            counters = host.snapshot.counters
            return bool(named) and counters is not None and named[0] in counters.links

        for host in self.hosts.values():
            assert await host.until(partial(counted, host), LIMIT)

    def generators(self) -> list[str]:
        """Processes in both namespaces that are no probe."""
        found = []
        for namespace in (self.client, self.server):
            for pid in namespace.run(["ip", "netns", "pids", namespace.name]).split():
                with suppress(OSError), open(f"/proc/{pid}/comm") as file:
                    name = file.read().strip()
                    found += [name] if name == "iperf3" else []
        return found


def _is_known(host: RunHost) -> bool:
    return host.snapshot.inventory is not None and host.snapshot.counters is not None


def source(namespace: Namespace, name: str) -> LocalSource:
    probe = probe_command(sys.executable, "--interval", "0.2")
    return LocalSource(0.2, name=name, command=["ip", "netns", "exec", namespace.name, *probe])


def joined(client: Namespace, server: Namespace, rate: str | None = None) -> None:
    """A veth between them, held to `rate` in both directions."""
    client.run(["ip", "link", "add", "nictopt", "type", "veth", "peer", "name", "nictopt", "netns", server.name])
    for namespace, address in ((client, "198.18.0.1/24"), (server, "198.18.0.2/24")):
        namespace.run(["ip", "address", "add", address, "dev", "nictopt"])
        namespace.run(["ip", "link", "set", "nictopt", "up"])
        if rate is not None:
            shaped = ["rate", rate, "burst", "128k", "latency", "50ms"]
            namespace.run(["tc", "qdisc", "add", "dev", "nictopt", "root", "tbf", *shaped])


@asynccontextmanager
async def pair(rate: str | None = "400mbit") -> AsyncIterator[Pair]:
    """Both hosts, until they are left; nothing of them stays."""
    client = Namespace()
    server = Namespace()
    followers = []
    try:
        joined(client, server, rate)
        both = Pair(client, server)
        followers = [asyncio.ensure_future(host.follow()) for host in both.hosts.values()]
        await both.ready()
        yield both
    finally:
        if followers:
            await asyncio.gather(*(one.close() for one in both.sources.values()))
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
        client.remove()
        server.remove()
