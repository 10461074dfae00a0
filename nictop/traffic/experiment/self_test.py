"""A client and a server on this machine, to test nictop and the generators: two network namespaces
joined by a veth pair (as root), or loopback. This measures the machine and no NIC.

Namespaces are created and removed with ``ip``; nothing is added to the network namespace of nictop
itself. Their names contain their owner, ``nictop-<PID namespace>-<PID>-<start
time>-<number>-client``: those of a killed nictop are removed by the next self-test.

pyroute2 is not used: its import takes 90 ms of CPU (0.5 s of time) and 11 MB, creating the pair is
not faster (150 to 300 ms, as with ``ip``), and the probes need ``ip netns exec`` in any case, which
mounts the namespace's /sys.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress

from nictop.probe.kernel.exits import exit_text
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.traffic.plan.request import RunRequest
from nictop.wire.local import LocalSource, probe_command

INTERVAL = 0.2
"""Seconds between two samples of the probes."""
NETNS = "/run/netns"
"""Directory of the named namespaces (ip-netns(8))."""
LINK = "nictop0"
"""Name of the veth device in both namespaces."""
ADDRESSES = {
    "client": ("198.18.0.1", "fd6e:6963:746f:70::1"),
    "server": ("198.18.0.2", "fd6e:6963:746f:70::2"),
}
"""Benchmarking addresses (RFC 2544), and unique local ones (RFC 4193)."""
LOOPBACK = ("127.0.0.1", "::1")
IP_COMMAND_TIMEOUT = 10.0
"""Seconds."""

_NAME = re.compile(r"nictop-(\d+)-(\d+)-(\d+)-\d+-(client|server)", re.ASCII)
_NUMBERS = itertools.count(1)
"""Number of the next self-test of this process."""


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
    """Both ends; on exit the sources are closed and the namespaces removed. `request`: the options
    of the run; its endpoints are replaced."""
    request = request or RunRequest("", "")
    names: tuple[str, str] | None = None
    try:
        if os.geteuid() == 0:
            remove_leftovers()
            names = _new_names()
            reason = _create(names)
            test = _over_loopback(request, reason) if reason else _over_veth(request, names)
        else:
            test = _over_loopback(request, "network namespaces need root")
        try:
            yield test
        finally:
            for source in test.sources:
                await source.close()
    finally:
        # without await: a task that is cancelled again must not leave them behind
        for name in names or ():
            _remove(name)


def remove_leftovers(netns: str = NETNS) -> tuple[str, ...]:
    """Remove the namespaces of nictops that no longer run; return their names."""
    gone = tuple(_left_behind(netns))
    for name in gone:
        _remove(name)
    return gone


def _left_behind(netns: str) -> Iterator[str]:
    """Names of such namespaces. Only those of the same PID namespace: elsewhere the PID may be of
    another process."""
    try:
        names = sorted(os.listdir(netns))
    except OSError:
        return
    here = _pid_namespace()
    for name in names:
        found = _NAME.fullmatch(name)
        if found and int(found[1]) == here and _start_time(int(found[2])) != int(found[3]):
            yield name


def _new_names() -> tuple[str, str]:
    owner = f"nictop-{_pid_namespace()}-{os.getpid()}-{_start_time(os.getpid())}-{next(_NUMBERS)}"
    return f"{owner}-client", f"{owner}-server"


def _pid_namespace() -> int:
    """Its inode number; 0 if it cannot be read."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _start_time(pid: int) -> int | None:
    """Clock ticks since boot (field 22 of /proc/PID/stat, proc(5)); None if there is no such
    process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _create(names: tuple[str, str]) -> str:
    """Create both namespaces with their link up; the reason if that fails, or "". The caller
    removes them in both cases."""
    if shutil.which("ip") is None:
        return "the ip command is not installed"
    client, server = names
    steps = [
        (["netns", "add", client], ""),
        (["netns", "add", server], ""),
        (
            ["-n", client, "-batch", "-"],
            f"link add name {LINK} type veth peer name {LINK} netns {server}\n",
        ),
    ]
    for name, side in zip(names, ("client", "server"), strict=True):
        lines = (
            "link set lo up",
            f"address add {ADDRESSES[side][0]}/30 dev {LINK}",
            f"link set {LINK} up",
        )
        steps.append((["-n", name, "-batch", "-"], "".join(f"{line}\n" for line in lines)))
    steps.append((["netns", "exec", server, "true"], ""))
    for arguments, text in steps:
        if error := _ip(arguments, text):
            return f"network namespaces cannot be created: {error}"
    for name, side in zip(names, ("client", "server"), strict=True):
        # fails on a kernel without IPv6, where a run over IPv4 is possible
        _ip(["-n", name, "-batch", "-"], f"address add {ADDRESSES[side][1]}/64 dev {LINK} nodad\n")
    return ""


def _ip(arguments: list[str], text: str) -> str:
    """Run ``ip`` with these lines on stdin; its error message, or ""."""
    try:
        done = subprocess.run(
            ["ip", *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=IP_COMMAND_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    errors = done.stderr.strip().splitlines()
    return errors[0] if errors else f"ip {exit_text(done.returncode)}"


def _remove(name: str) -> None:
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            ["ip", "netns", "del", name],
            capture_output=True,
            timeout=IP_COMMAND_TIMEOUT,
            check=False,
        )


def _over_veth(request: RunRequest, names: tuple[str, str]) -> SelfTest:
    probe = probe_command(sys.executable, "--interval", f"{INTERVAL:g}")
    sources = tuple(
        LocalSource(INTERVAL, name=side, command=["ip", "netns", "exec", name, *probe])
        for side, name in zip(ADDRESSES, names, strict=True)
    )
    family = 1 if request.ip_version == 6 else 0
    request = replace(
        request,
        client="client",
        server="server",
        client_nic=LINK,
        server_nic=LINK,
        client_address=ADDRESSES["client"][family],
        server_address=ADDRESSES["server"][family],
    )
    return SelfTest(
        sources,
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
