"""Both ends on this machine are created, and removed without leftovers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from nictop.probe.records import Inventory
from nictop.traffic.experiment.self_test import LINK, SelfTest, remove_leftovers, self_test_pair
from nictop.traffic.plan.request import RunRequest
from nictop.wire.source import Source
from tests.conftest import why_no_namespace

needs_namespaces = pytest.mark.skipif(
    why_no_namespace() is not None, reason=why_no_namespace() or ""
)
NETNS = Path("/run/netns")


def own_namespaces() -> set[str]:
    """Namespaces of self-tests of this process."""
    names = os.listdir(NETNS) if NETNS.is_dir() else []
    return {name for name in names if f"-{os.getpid()}-" in name and name.startswith("nictop-")}


async def inventory(source: Source) -> Inventory:
    """The first inventory of a source."""
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        async for item in items:
            found = getattr(item, "inventory", None)
            if isinstance(found, Inventory):
                return found
    raise AssertionError("it ended before")


async def ends(test: SelfTest) -> list[tuple[str, list[str], list[str]]]:
    """(host, its links, addresses of `LINK`)"""
    found = []
    for source in test.sources:
        links = (await inventory(source)).links
        addresses = [one.address for link in links if link.name == LINK for one in link.addresses]
        found.append((source.name, sorted(link.name for link in links), addresses))
    return found


@needs_namespaces
async def test_two_pairs_at_once_are_connected_and_separate() -> None:
    async with (
        self_test_pair() as one,
        self_test_pair(RunRequest("x", "y", time=3, ip_version=6)) as other,
    ):
        assert len(own_namespaces()) == 4
        for test in (one, other):
            client, server = await ends(test)
            assert (client[0], server[0]) == ("client", "server")
            assert LINK in client[1] and LINK in server[1] and "eth0" not in client[1] + server[1]
            assert "198.18.0.1" in client[2] and "198.18.0.2" in server[2]
            assert test.description.endswith("measures this machine, no NIC")
        assert (one.request.client_nic, one.request.server_address, one.request.time) == (
            LINK,
            "198.18.0.2",
            10,
        )
        assert (other.request.server_address, other.request.time) == ("fd6e:6963:746f:70::2", 3)
        assert LINK not in os.listdir("/sys/class/net"), (
            "nothing is added to the machine's own namespace"
        )
    assert own_namespaces() == set()


@needs_namespaces
async def test_a_cancelled_task_removes_its_namespaces() -> None:
    inside = asyncio.Event()

    async def stay() -> None:
        async with self_test_pair() as test:
            assert await inventory(test.sources[0])
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(stay())
    await inside.wait()
    assert len(own_namespaces()) == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert own_namespaces() == set()


@needs_namespaces
async def test_if_ip_fails_loopback_is_used_and_namespaces_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ``ip`` that creates the namespaces but no veth pair."""
    script = (
        '#!/bin/sh\ncase "$*" in *-batch*) echo "RTNETLINK answers: no veth" >&2; exit 2;; esac\n'
    )
    (tmp_path / "ip").write_text(script + 'PATH="${PATH#*:}" exec ip "$@"\n')
    (tmp_path / "ip").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    async with self_test_pair() as test:
        assert (
            "network namespaces cannot be created: RTNETLINK answers: no veth" in test.description
        )
        assert (
            [source.name for source in test.sources]
            == [test.request.client]
            == [test.request.server]
        )
        assert (test.request.client_nic, test.request.server_address) == ("lo", "127.0.0.1")
    monkeypatch.undo()
    assert own_namespaces() == set()


def test_only_namespaces_of_ended_processes_are_removed(tmp_path: Path) -> None:
    """A process with another start time has reused the PID of one that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here = os.stat("/proc/self/ns/pid").st_ino
    started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    left = {
        f"nictop-{here}-{ended.pid}-1-1-client",
        f"nictop-{here}-{ended.pid}-1-2-server",
        f"nictop-{here}-{os.getpid()}-{int(started) + 1}-1-client",
    }
    others = {
        f"nictop-{here}-{os.getpid()}-{started}-1-client",
        f"nictop-{here + 1}-{ended.pid}-1-1-client",
        f"nictop-{here}-{ended.pid}-1-1-observer",
        "nictop-0123456789",
        "nictop-client",
        "qlab",
    }
    for name in left | others:
        (tmp_path / name).touch()
    assert set(remove_leftovers(str(tmp_path))) == left
    assert remove_leftovers(str(tmp_path / "nosuch")) == ()
