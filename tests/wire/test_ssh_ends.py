"""Every way a connection can end: nothing is left on the host, and the client reconnects or reports
why not."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from nictop.wire.ssh import remote_probe
from nictop.wire.ssh.connection import SshTarget
from nictop.wire.ssh.source import SshSource
from tests.support.follower import Follower
from tests.support.items import has_record, items_until, next_state
from tests.support.kills import kill_matrix
from tests.support.namespaces import Namespace
from tests.support.probe import is_alive, wait_until
from tests.support.sshd import Sshd, command_line, skip_without_sshd

QUICK = (0.01, 0.05)
CONNECTIONS = 5
"""Connections of one client."""
NEVER_SECONDS = 3600.0
"""Seconds: a heartbeat that does not expire during a test."""

CONNECTING: dict[str, Callable[[Sshd], bool]] = {
    "before the server knows": lambda _: True,
    "connected": lambda server: bool(server.sessions()),
    "logged in": lambda server: any(b"@notty" in command_line(pid) for pid in server.sessions()),
    "started": lambda server: bool(server.probes()),
}
"""Stages of opening a connection, as visible in the server's processes."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """The server of this module; no session is left on it after a test."""
    skip_without_sshd()
    made = Sshd(tmp_path_factory.mktemp("sshd"))
    made.set_python(sys.executable)
    yield made
    made.stop()


@pytest.fixture
def sshd(server: Sshd) -> Iterator[Sshd]:
    """The server of this module; no session is left on it after the test."""
    yield server
    wait_until(lambda: not server.sessions())


def pids(follower: Follower) -> list[int]:
    return [pid for pid in follower.details("hello") if isinstance(pid, int)]


def are_gone(probes: list[int]) -> bool:
    return not any(map(is_alive, probes))


def wait_until_gone(probes: list[int]) -> None:
    wait_until(lambda: are_gone(probes))


@kill_matrix(("watching",))
def test_client_killed(sshd: Sshd, stage: str, kill: int) -> None:
    """The end of the connection ends its probes; the heartbeat is too long to do it."""
    with Follower(sshd.target(), CONNECTIONS, HEARTBEAT=NEVER_SECONDS) as follower:
        follower.wait_until(lambda: len(follower.sources_with("hello")) == CONNECTIONS)
        probes = pids(follower)
        assert len(probes) == CONNECTIONS and all(map(is_alive, probes))
        follower.kill()
        wait_until_gone(probes)


@kill_matrix(tuple(CONNECTING))
def test_client_killed_while_connecting(sshd: Sshd, stage: str, kill: int) -> None:
    with Follower(sshd.target(), 2, HEARTBEAT=NEVER_SECONDS) as follower:
        follower.wait_until(lambda: follower.details("connecting"))
        wait_until(lambda: CONNECTING[stage](sshd))
        follower.kill()
        wait_until(lambda: not sshd.sessions())


@kill_matrix(("watching",))
async def test_sshd_session_killed(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch, stage: str, kill: int
) -> None:
    monkeypatch.setattr("nictop.wire.ssh.source.HEARTBEAT_SECONDS", NEVER_SECONDS)
    async with aclosing((source := SshSource(sshd.target(), 0.1, retry=QUICK)).items()) as items:
        await items_until(items, has_record("counters"))
        sessions, probes = sshd.sessions(), sshd.probes()
        assert probes and len(sessions) > len(probes)
        os.kill(sessions[0], signal.SIGKILL)
        wait_until_gone(probes)
        assert (await next_state(items, "lost")).message
        await items_until(items, has_record("inventory"))
        await source.close()


@kill_matrix(("watching",))
async def test_probe_killed(sshd: Sshd, stage: str, kill: int) -> None:
    async with aclosing((source := SshSource(sshd.target(), 0.1, retry=QUICK)).items()) as items:
        await items_until(items, has_record("counters"))
        os.kill(sshd.probes()[0], signal.SIGKILL)
        assert "was killed by KILL" in (await next_state(items, "lost")).message
        await items_until(items, has_record("counters"))
        await source.close()


@kill_matrix(("watching",))
async def test_probe_stopped(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch, stage: str, kill: int
) -> None:
    """SIGSTOP: the probe cannot notice that it should end, so the client sends SIGCONT."""
    monkeypatch.setattr(remote_probe, "PING_SECONDS", 0.05)
    async with aclosing((source := SshSource(sshd.target(), 0.1, retry=QUICK)).items()) as items:
        await items_until(items, has_record("counters"))
        stopped = sshd.probes()[0]
        os.kill(stopped, signal.SIGSTOP)
        assert "no more data from" in (await next_state(items, "lost")).message
        await asyncio.to_thread(wait_until_gone, [stopped])
        await items_until(items, has_record("counters"))
        await source.close()


def test_client_stopped(sshd: Sshd) -> None:
    """As with a suspended laptop: its heartbeat stops and the probes end; after resuming it reports
    that and reconnects."""
    with Follower(sshd.target(), CONNECTIONS, HEARTBEAT=2.0, PING=0.3) as follower:
        follower.wait_until(lambda: len(follower.sources_with("hello")) == CONNECTIONS)
        follower.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: not sshd.probes())
        before = len(pids(follower))
        follower.process.send_signal(signal.SIGCONT)
        follower.wait_until(
            lambda: (
                len(follower.sources_with("lost")) == CONNECTIONS
                and len(pids(follower)) >= before + CONNECTIONS
            )
        )


def test_link_cut(tmp_path: Path, namespace: Namespace) -> None:
    """Connections on a link without any packets or errors. Both sides notice by the heartbeat, and
    reconnect when the link is up again."""
    skip_without_sshd()
    here = Namespace()
    try:
        namespace.disable_ipv6()
        here.disable_ipv6()
        here.run(
            [
                "ip",
                "link",
                "add",
                "name",
                "near",
                "type",
                "veth",
                "peer",
                "name",
                "far",
                "netns",
                namespace.name,
            ]
        )
        for place, link, address in (
            (here, "near", "192.0.2.1/24"),
            (namespace, "far", "192.0.2.2/24"),
        ):
            place.run(["ip", "address", "add", address, "dev", link])
            place.run(["ip", "link", "set", "dev", link, "up"])
        server = Sshd(tmp_path, address="192.0.2.2", namespace=namespace)
        server.set_python(sys.executable)
        try:
            cut_and_restore(server, here, namespace)
        finally:
            server.stop()
    finally:
        here.remove()


def cut_and_restore(server: Sshd, here: Namespace, there: Namespace) -> None:
    with Follower(
        server.target(), CONNECTIONS, namespace=here, HEARTBEAT=2.0, PING=0.5
    ) as follower:
        follower.wait_until(lambda: len(follower.sources_with("hello")) == CONNECTIONS)
        # the other end: with this end down there would be no route, which is an error at once
        there.run(["ip", "link", "set", "dev", "far", "down"])
        wait_until(lambda: not server.probes())
        probes = pids(follower)
        follower.wait_until(lambda: len(follower.sources_with("lost")) == CONNECTIONS)
        assert any("no more data from" in str(message) for message in follower.details("lost"))
        there.run(["ip", "link", "set", "dev", "far", "up"])
        follower.wait_until(lambda: len(set(pids(follower)) - set(probes)) >= CONNECTIONS)
    wait_until(lambda: not server.probes())


async def test_heartbeat_missing(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is alive but sends nothing (its event loop hangs): the probe ends although the
    connection is open."""
    target: SshTarget = sshd.target()
    monkeypatch.setattr("nictop.wire.ssh.source.HEARTBEAT_SECONDS", 0.6)
    monkeypatch.setattr(remote_probe, "PING_SECONDS", NEVER_SECONDS)
    async with aclosing((source := SshSource(target, 0.1, retry=QUICK)).items()) as items:
        await items_until(items, has_record("counters"))
        probes = sshd.probes()
        assert "ended with status 0" in (await next_state(items, "lost")).message
        wait_until_gone(probes)
        await source.close()
