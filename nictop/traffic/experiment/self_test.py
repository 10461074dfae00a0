"""A client and a server on this machine, to test nictop and the generators: two network namespaces
joined by a veth pair (as root), or loopback. This measures the machine and no NIC.

The namespaces are those of a lab (`nictop.lab`), which another process makes and holds: pyroute2 is
not loaded here, and the event loop does not wait for it. They end with that process, which ends
with this one, however it ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from nictop.lab.hold import READY
from nictop.lab.request import NIC, LabRequest, host_names, networks
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.traffic.plan.request import RunRequest
from nictop.wire.guests.programs import program_words
from nictop.wire.local import LocalSource
from nictop.wire.probe_process import library_directories, probe_command
from nictop.wire.timeout import with_timeout

INTERVAL = 0.2
"""Seconds between two samples of the probes."""
SIDES = ("client", "server")
LINK = NIC
"""Name of the veth device in both namespaces."""
LOOPBACK = ("127.0.0.1", "::1")
HOLDER_TIMEOUT = 30.0
"""Seconds until the namespaces are made, on a busy machine."""
MAX_REASON_CHARS = 500


@dataclass(frozen=True)
class SelfTest:
    """Both ends; the sources are not started."""

    sources: tuple[LocalSource, ...]
    """Client and server; over loopback one source is both."""
    request: RunRequest
    """A run between them."""
    description: str
    """What it measures."""


@asynccontextmanager
async def self_test_pair(request: RunRequest | None = None) -> AsyncGenerator[SelfTest, None]:
    """Both ends; on exit the sources are closed, and the namespaces end. `request`: the options of
    the run; its endpoints are replaced."""
    request = request or RunRequest("", "")
    if os.geteuid() != 0:
        yield _over_loopback(request, "network namespaces need root")
        return
    holder = await asyncio.create_subprocess_exec(
        *holder_command(), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True
    )
    try:
        reason = await _why_not_ready(holder)
        test = _over_loopback(request, reason) if reason else _over_veth(request, holder.pid)
        try:
            yield test
        finally:
            for source in test.sources:
                await source.close()
    finally:
        # without await: a task that is cancelled again must not leave it behind
        with suppress(ProcessLookupError):
            holder.kill()
        await holder.communicate()  # asyncio reports the end when its pipes have ended, too


def holder_command() -> list[str]:
    """Command line of `nictop.lab.hold`, isolated as a probe is."""
    start = f"import sys; sys.path += {library_directories(('nictop', 'pyroute2'))!r}; "
    start += "from nictop.lab.hold import main; sys.exit(main())"
    return [sys.executable, "-I", "-S", "-c", start]


async def _why_not_ready(holder: Process) -> str:
    """ "" when the namespaces are made, else why they are not."""
    assert holder.stdout is not None
    try:
        line = await with_timeout(HOLDER_TIMEOUT, holder.stdout.readline())
    except (asyncio.TimeoutError, ValueError):
        line = b"no answer"
    said = line.decode("utf-8", "replace").strip()[:MAX_REASON_CHARS]
    if said == READY:
        return ""
    return f"network namespaces cannot be created: {said or 'the process that makes them ended'}"


def _over_veth(request: RunRequest, holder: int) -> SelfTest:
    """`holder`: process that has the names of the namespaces."""
    probe = probe_command(sys.executable, "--interval", f"{INTERVAL:g}")
    hosts = host_names(LabRequest())
    sources = []
    for side, host in zip(SIDES, hosts, strict=True):
        namespace = f"/proc/{holder}/root/run/netns/{host}"
        command = [*program_words("enter_namespace"), "path", namespace, *probe]
        sources.append(LocalSource(INTERVAL, name=side, command=command))
    family = 1 if request.ip_version == 6 else 0
    (network,) = networks(LabRequest())
    client, server = (network.addresses(host)[family][0] for host in hosts)
    request = replace(
        request,
        client="client",
        server="server",
        client_nic=LINK,
        server_nic=LINK,
        client_address=client,
        server_address=server,
    )
    return SelfTest(
        tuple(sources),
        request,
        "self-test between two network namespaces joined by a veth pair: measures this machine, "
        "no NIC",
    )


def _over_loopback(request: RunRequest, reason: str) -> SelfTest:
    source = LocalSource(INTERVAL)
    address = LOOPBACK[1 if request.ip_version == 6 else 0]
    request = replace(
        request,
        client=source.name,
        server=source.name,
        client_nic="lo",
        server_nic="lo",
        client_address=address,
        server_address=address,
    )
    return SelfTest((source,), request, f"self-test over loopback ({reason}): no NIC involved")
