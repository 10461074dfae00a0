"""Two network namespaces joined by veths, each with a real probe: the host of the client and that
of the server."""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nictop.hosts.session import running
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.wire.local import LocalSource
from nictop.wire.probe_process import probe_command
from nictop.wire.source import Source
from nictop.wire.ssh.source import SshSource
from tests.support.namespaces import Namespace, why_no_namespaces
from tests.support.sources import session_of
from tests.support.sshd import Sshd

LIMIT = 60.0
WIRE = "nictopt"
RETRY = (0.01, 0.05)
"""Seconds until a killed probe is started again (shortest, longest)."""


def missing_requirement() -> str | None:
    """Why real runs are not possible here; None if they are."""
    if shutil.which("iperf3") is None:
        return "iperf3 is not installed"
    return why_no_namespaces() or (
        "the tc command is not installed" if shutil.which("tc") is None else None
    )


class Pair:
    """Both hosts with their sources being read: "a" in the namespace of the client, "b" in that of
    the server."""

    def __init__(self, client: Namespace, server: Namespace, sources: Sequence[Source]) -> None:
        self.client, self.server = client, server
        self.sources = {one.name: one for one in sources}
        self.hosts = {
            name: RunHost(session_of(one, window=False)) for name, one in self.sources.items()
        }

    def endpoint(self, name: str, wire: str = WIRE, address: str = "") -> Endpoint:
        """The endpoint of a host on a veth, with its IPv4 address unless another one is given."""
        links = self.hosts[name].snapshot.links.values()
        link = next(link for link in links if link.name == wire)
        if not address:
            address = next(one.address for one in link.addresses if one.family == "ipv4")
        return Endpoint(name, link.ifindex, address)

    def plan(self, wire: str = WIRE, **more: Any) -> RunPlan:
        """A short run between them."""
        plan = RunPlan(self.endpoint("a", wire), self.endpoint("b", wire), time=1, interval=0.2)
        return replace(plan, **more)

    async def ready(self) -> None:
        """Wait until both probes have sent inventory and counters."""
        for host in self.hosts.values():
            assert await host.session.until(lambda host=host: host.session.has_readings, LIMIT)  # type: ignore[misc]

    async def wait_for_link(self, name: str) -> None:
        """Wait until both probes count a link of that name."""

        def counted(host: RunHost) -> bool:
            named = [link.ifindex for link in host.snapshot.links.values() if link.name == name]
            counters = host.snapshot.counters
            return bool(named) and counters is not None and named[0] in counters.links

        for host in self.hosts.values():
            assert await host.session.until(partial(counted, host), LIMIT)

    def generators(self) -> list[int]:
        """PIDs of iperf3 servers and clients in both namespaces."""
        return generators_in(self.client, self.server)


def generators_in(*namespaces: Namespace) -> list[int]:
    """PIDs of iperf3 servers and clients; an ``iperf3 --version`` is neither."""
    found = []
    for pid in (pid for namespace in namespaces for pid in processes_in(namespace)):
        with suppress(OSError), open(f"/proc/{pid}/cmdline") as file:
            arguments = file.read().split("\0")
            found += (
                [pid] if arguments[0].endswith("iperf3") and {"-s", "-c"} & set(arguments) else []
            )
    return found


def processes_in(namespace: Namespace) -> list[int]:
    return list(map(int, namespace.run(["ip", "netns", "pids", namespace.name]).split()))


def source(namespace: Namespace, name: str, tools: str = "", *options: str) -> LocalSource:
    """A probe in a namespace. `tools`: a directory that comes first in its PATH; `options`: more of
    the probe."""
    probe = probe_command(sys.executable, "--interval", "0.2", *options)
    path = ["env", f"PATH={tools}:{os.environ['PATH']}"] if tools else []
    return LocalSource(
        0.2, name=name, command=["ip", "netns", "exec", namespace.name, *path, *probe], retry=RETRY
    )


def add_veth(
    client: Namespace,
    server: Namespace,
    shape: Sequence[str] = (),
    *,
    wire: str = WIRE,
    net: int = 0,
) -> None:
    """A veth between them, 198.18.`net`.0/24, fd00:`net`::/64 and fe80::/64, with a queueing
    discipline (of tc) at both ends."""
    client.run(
        ["ip", "link", "add", wire, "type", "veth", "peer", "name", wire, "netns", server.name]
    )
    for number, namespace in enumerate((client, server), 1):
        namespace.run(["ip", "address", "add", f"198.18.{net}.{number}/24", "dev", wire])
        namespace.run(["ip", "address", "add", f"fd00:{net}::{number}/64", "dev", wire, "nodad"])
        namespace.run(["ip", "link", "set", wire, "addrgenmode", "none"])
        namespace.run(["ip", "address", "add", f"fe80::{number}/64", "dev", wire, "nodad"])
        namespace.run(["ip", "link", "set", wire, "up"])
        if shape:
            namespace.run(["tc", "qdisc", "add", "dev", wire, "root", *shape])


def shaper_arguments(rate: str) -> tuple[str, ...]:
    """A shaper that counts frames as a netdev does: without preamble, FCS and gap."""
    return ("tbf", "rate", rate, "burst", "128k", "latency", "50ms")


@asynccontextmanager
async def pair(
    rate: str | None = "400mbit", *, tools: tuple[str, str] = ("", ""), options: Sequence[str] = ()
) -> AsyncIterator[Pair]:
    """Both hosts; removed on exit. `tools`: see `source`, for client and server; `options`: of the
    probe of the client."""
    with namespaces() as (client, server):
        add_veth(client, server, shaper_arguments(rate) if rate is not None else ())
        async with followed(
            client, server, [source(client, "a", tools[0], *options), source(server, "b", tools[1])]
        ) as both:
            yield both


@asynccontextmanager
async def pair_over_ssh(
    folder: Path, rate: str | None = None
) -> AsyncIterator[tuple[Pair, dict[str, Sshd]]]:
    """The same, each host behind a real sshd of its own."""
    with namespaces() as (client, server), ssh_servers(folder, client, server, rate) as servers:
        sources = [
            SshSource(sshd.target(label=name), 0.2, retry=RETRY) for name, sshd in servers.items()
        ]
        async with followed(client, server, sources) as both:
            yield both, servers


@contextmanager
def ssh_servers(
    folder: Path, client: Namespace, server: Namespace, rate: str | None = None
) -> Iterator[dict[str, Sshd]]:
    """Join both, and start an sshd for "a" and one for "b" on loopback; their sessions run in the
    namespace, with a boot id of their own, so that they count as two machines."""
    add_veth(client, server, shaper_arguments(rate) if rate is not None else ())
    with ExitStack() as stack:
        found = {}
        for name, namespace in (("a", client), ("b", server)):
            boot = folder / f"boot-{name}"
            boot.write_text(f"{uuid.uuid4()}\n")
            inside = f'mount --bind {boot} /proc/sys/kernel/random/boot_id && exec sh -c "$0"'
            command = (
                f"exec {shutil.which('ip')} netns exec {namespace.name} sh -c '{inside}' "
                f'"$SSH_ORIGINAL_COMMAND"'
            )
            found[name] = sshd = Sshd(folder / name, options=(f"ForceCommand {command}",))
            stack.callback(sshd.stop)
            sshd.set_python(sys.executable)
        yield found


@contextmanager
def namespaces() -> Iterator[tuple[Namespace, Namespace]]:
    """Two network namespaces; removed on exit."""
    client, server = Namespace(), Namespace()
    try:
        yield client, server
    finally:
        client.remove()
        server.remove()


@asynccontextmanager
async def followed(
    client: Namespace, server: Namespace, sources: Sequence[Source]
) -> AsyncIterator[Pair]:
    """Read the sources "a" and "b" as the two hosts of a pair."""
    both = Pair(client, server, sources)
    async with running(*(host.session for host in both.hosts.values())):
        await both.ready()
        yield both
