"""A client and a server on this one machine, to try out nictop and the generators: two network namespaces joined by a
veth pair (root), or loopback (everybody else). What is measured is this machine, and no NIC.

Makes and removes namespaces with ``ip``; nothing is added to the machine's own network namespace. Their names hold who
made them: ``nictop-<PID namespace>-<PID>-<start time>-<number>-client``, so that what a killed nictop has left is known
as such, and removed by the next self-test.
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
from dataclasses import dataclass, replace

from nictop.traffic.plan.request import RunRequest
from nictop.wire.local import LocalSource, probe_command

INTERVAL = 0.2
"""Seconds between two readings of the probes."""
NETNS = "/run/netns"
"""Where ip-netns(8) keeps its namespaces."""
LINK = "nictop0"
"""The end of the veth pair in either namespace."""
ADDRESSES = {"client": ("198.18.0.1", "fd6e:6963:746f:70::1"), "server": ("198.18.0.2", "fd6e:6963:746f:70::2")}
"""RFC 2544's addresses for measurements, and unique local ones (RFC 4193)."""
LOOPBACK = ("127.0.0.1", "::1")
PATIENCE = 10.0
"""Seconds for one command of ``ip``."""

_NAME = re.compile(r"nictop-(\d+)-(\d+)-(\d+)-\d+-(client|server)", re.ASCII)
_NUMBERS = itertools.count(1)
"""Self-tests of this process."""


@dataclass(frozen=True)
class SelfTest:
    """Two ends on this machine; nobody takes the items of the sources yet."""

    sources: tuple[LocalSource, ...]
    """Client and server; one that is both, over loopback."""
    wish: RunRequest
    """A run between them."""
    sentence: str
    """What it measures."""


@asynccontextmanager
async def self_test_pair(wish: RunRequest | None = None, *, netns: str = NETNS) -> AsyncGenerator[SelfTest, None]:
    """Both ends, until they are left; the sources are closed and nothing of them stays. `wish`: the options of the run;
    its places are replaced. `netns`: where the namespaces are looked for that others may have left."""
    wish = wish or RunRequest("", "")
    why_not = "network namespaces need root" if os.geteuid() != 0 else ""
    names: tuple[str, str] | None = None
    try:
        if not why_not:
            remove_leftovers(netns)
            names = _names()
            why_not = _make(names)
        test = _over_loopback(wish, why_not) if why_not else _over_veth(wish, names or _names())
        try:
            yield test
        finally:
            for source in test.sources:
                await source.close()
    finally:
        # not awaited: a cancelled task must not leave them behind
        for name in names or ():
            _remove(name)


def remove_leftovers(netns: str = NETNS) -> tuple[str, ...]:
    """Remove the namespaces of nictops that have ended without doing so themselves; their names."""
    gone = tuple(_left_behind(netns))
    for name in gone:
        _remove(name)
    return gone


def _left_behind(netns: str) -> Iterator[str]:
    """Owners are told apart only within one PID namespace: another one's may live there under the same number."""
    try:
        names = sorted(os.listdir(netns))
    except OSError:
        return
    here = _pid_namespace()
    for name in names:
        found = _NAME.fullmatch(name)
        if found and int(found[1]) == here and _start_time(int(found[2])) != int(found[3]):
            yield name


def _names() -> tuple[str, str]:
    owner = f"nictop-{_pid_namespace()}-{os.getpid()}-{_start_time(os.getpid())}-{next(_NUMBERS)}"
    return f"{owner}-client", f"{owner}-server"


def _pid_namespace() -> int:
    """Inode of it; 0 when it is not shown."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _start_time(pid: int) -> int | None:
    """Clock ticks since boot (field 22 of /proc/PID/stat, proc(5)); None: there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _make(names: tuple[str, str]) -> str:
    """Both namespaces with their link up; why that is not possible, or "". What was made of them is removed by the
    caller either way."""
    if shutil.which("ip") is None:
        return "the ip command is not installed"
    client, server = names
    steps = [
        (["netns", "add", client], ""),
        (["netns", "add", server], ""),
        (["-n", client, "-batch", "-"], f"link add name {LINK} type veth peer name {LINK} netns {server}\n"),
    ]
    for name, side in zip(names, ("client", "server"), strict=True):
        lines = ("link set lo up", f"address add {ADDRESSES[side][0]}/30 dev {LINK}", f"link set {LINK} up")
        steps.append((["-n", name, "-batch", "-"], "".join(f"{line}\n" for line in lines)))
    steps.append((["netns", "exec", server, "true"], ""))
    for arguments, text in steps:
        if why := _ip(arguments, text):
            return f"no network namespaces can be made here: {why}"
    for name, side in zip(names, ("client", "server"), strict=True):
        # a kernel without IPv6 refuses; a run over IPv4 is possible all the same
        _ip(["-n", name, "-batch", "-"], f"address add {ADDRESSES[side][1]}/64 dev {LINK} nodad\n")
    return ""


def _ip(arguments: list[str], text: str) -> str:
    """Run ``ip`` with these lines on stdin; its complaint, or ""."""
    try:
        done = subprocess.run(
            ["ip", *arguments], input=text, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.strip().splitlines()
    return (said[0] if said else f"ip ended with status {done.returncode}") if done.returncode else ""


def _remove(name: str) -> None:
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=PATIENCE, check=False)


def _over_veth(wish: RunRequest, names: tuple[str, str]) -> SelfTest:
    probe = probe_command(sys.executable, "--interval", f"{INTERVAL:g}")
    sources = tuple(
        LocalSource(INTERVAL, name=side, command=["ip", "netns", "exec", name, *probe])
        for side, name in zip(ADDRESSES, names, strict=True)
    )
    family = 1 if wish.ip_version == 6 else 0
    placed = replace(
        wish,
        client="client",
        server="server",
        client_nic=LINK,
        server_nic=LINK,
        client_address=ADDRESSES["client"][family],
        server_address=ADDRESSES["server"][family],
    )
    return SelfTest(
        sources, placed, "self-test between two network namespaces joined by a veth pair: measures this machine, no NIC"
    )


def _over_loopback(wish: RunRequest, why_not: str) -> SelfTest:
    source = LocalSource(INTERVAL)
    address = LOOPBACK[1 if wish.ip_version == 6 else 0]
    placed = replace(
        wish,
        client=source.name,
        server=source.name,
        client_nic="lo",
        server_nic="lo",
        client_address=address,
        server_address=address,
    )
    return SelfTest((source,), placed, f"self-test over loopback ({why_not}): measures this machine, no NIC")
