"""Every way a connection can end, many times each: nothing is left there, and the client recovers or says why."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from nictop.wire import remote_probe
from nictop.wire.ssh import SshSource
from nictop.wire.ssh_connection import SshTarget
from tests.support.follower import Follower
from tests.support.items import has, state, until
from tests.support.namespaces import Namespace
from tests.support.probe import alive, wait_until
from tests.support.sshd import Sshd, skip_without_sshd

TIMES = 20
QUICK = (0.01, 0.05)


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    skip_without_sshd()
    server = Sshd(tmp_path)
    server.python(sys.executable)
    yield server
    server.stop()


def pids(follower: Follower) -> list[int]:
    return [pid for pid in follower.said("hello") if isinstance(pid, int)]


def gone(probes: list[int]) -> bool:
    return not any(map(alive, probes))


def all_gone(probes: list[int]) -> None:
    """Wait for it."""
    wait_until(lambda: gone(probes))


def test_a_client_that_is_killed(sshd: Sshd) -> None:
    """Twenty probes of four clients, in the middle of everything: gone within a second of SIGKILL."""
    for _ in range(4):
        with Follower(sshd.target(), TIMES // 4) as follower:
            follower.until(lambda: len(follower.sources("hello")) == TIMES // 4)
            probes = pids(follower)
            assert len(probes) == TIMES // 4 and all(map(alive, probes))
            follower.kill()
            begin = time.monotonic()
            all_gone(probes)
            wait_until(lambda: not sshd.sessions())
            assert time.monotonic() - begin < 1.0


def test_a_client_that_is_killed_while_it_connects(sshd: Sshd) -> None:
    """At a moment that is another one each time, half-way through the handshake or the sources included."""
    for number in range(TIMES):
        with Follower(sshd.target(), 2) as follower:
            follower.until(lambda: follower.said("connecting"))
            select.select([], [], [], 0.03 * number)
            follower.kill()
            begin = time.monotonic()
            wait_until(lambda: not sshd.sessions())
            assert time.monotonic() - begin < 1.5


async def test_an_sshd_session_that_is_killed(sshd: Sshd) -> None:
    async with aclosing((source := SshSource(sshd.target(), 0.1, retry=QUICK)).items()) as items:
        for _ in range(TIMES):
            await until(items, has("counters"))
            sessions, probes = sshd.sessions(), sshd.probes()
            assert probes and len(sessions) > len(probes)
            os.kill(sessions[0], signal.SIGKILL)
            begin = time.monotonic()
            all_gone(probes)
            assert time.monotonic() - begin < 1.0
            assert (await state(items, "lost")).message
        await until(items, has("inventory"))
        await source.close()


async def test_a_probe_that_is_killed(sshd: Sshd) -> None:
    async with aclosing((source := SshSource(sshd.target(), 0.1, retry=QUICK)).items()) as items:
        for _ in range(TIMES):
            await until(items, has("counters"))
            os.kill(sshd.probes()[0], signal.SIGKILL)
            assert "was ended by KILL" in (await state(items, "lost")).message
        await until(items, has("counters"))
        await source.close()


async def test_a_probe_that_is_stopped(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGSTOP: it cannot see that it should end, so it is woken up to do so."""
    monkeypatch.setattr(remote_probe, "PING", 0.05)
    async with aclosing((source := SshSource(sshd.target(), 0.1, retry=QUICK)).items()) as items:
        for _ in range(TIMES):
            await until(items, has("counters"))
            stopped = sshd.probes()[0]
            os.kill(stopped, signal.SIGSTOP)
            assert "has fallen silent" in (await state(items, "lost")).message
            await asyncio.to_thread(all_gone, [stopped])
        await until(items, has("counters"))
        await source.close()
    wait_until(lambda: not sshd.sessions())


def test_a_client_that_sleeps(sshd: Sshd) -> None:
    """A laptop that is closed: its heartbeat stops, the probes go; woken up, it says so and comes back."""
    with Follower(sshd.target(), TIMES, HEARTBEAT=2.0, PING=0.3) as follower:
        follower.until(lambda: len(follower.sources("hello")) == TIMES)
        probes = pids(follower)
        follower.process.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        wait_until(lambda: gone(probes))
        assert time.monotonic() - begin < 4.0
        assert not sshd.probes()
        follower.process.send_signal(signal.SIGCONT)
        follower.until(lambda: len(follower.sources("lost")) == TIMES and len(pids(follower)) >= 2 * TIMES)
    wait_until(lambda: not sshd.sessions())


def test_a_link_that_is_cut(tmp_path: Path, namespace: Namespace) -> None:
    """Twenty connections into a black hole: nothing arrives, nothing is refused. Both sides notice within ten seconds
    or so, and find each other when the link is back."""
    skip_without_sshd()
    here = Namespace()
    try:
        namespace.silence()
        here.silence()
        here.run(["ip", "link", "add", "name", "near", "type", "veth", "peer", "name", "far", "netns", namespace.name])
        for place, link, address in ((here, "near", "192.0.2.1/24"), (namespace, "far", "192.0.2.2/24")):
            place.run(["ip", "address", "add", address, "dev", link])
            place.run(["ip", "link", "set", "dev", link, "up"])
        server = Sshd(tmp_path, address="192.0.2.2", namespace=namespace)
        server.python(sys.executable)
        try:
            cut_and_mend(server, here, namespace)
        finally:
            server.stop()
    finally:
        here.remove()


def cut_and_mend(server: Sshd, here: Namespace, there: Namespace) -> None:
    with Follower(server.target(), TIMES, namespace=here) as follower:
        follower.until(lambda: len(follower.sources("hello")) == TIMES)
        probes = pids(follower)
        # the other end: with this one down there would be no route, which is an error at once
        there.run(["ip", "link", "set", "dev", "far", "down"])
        begin = time.monotonic()
        follower.until(lambda: gone(probes) and len(follower.sources("lost")) == TIMES, 20)
        assert time.monotonic() - begin < 14.0
        assert any("fallen silent" in str(message) for message in follower.said("lost"))
        there.run(["ip", "link", "set", "dev", "far", "up"])
        follower.until(lambda: len(set(pids(follower)) - set(probes)) >= TIMES, 60)
    wait_until(lambda: not server.probes())


async def test_a_heartbeat_is_the_probes_own(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that lives but says nothing any more (its loop hangs): the probe goes, though the connection stands."""
    target: SshTarget = sshd.target()
    monkeypatch.setattr("nictop.wire.ssh.HEARTBEAT", 0.6)
    monkeypatch.setattr(remote_probe, "PING", 30.0)
    async with aclosing((source := SshSource(target, 0.1, retry=QUICK)).items()) as items:
        await until(items, has("counters"))
        probes = sshd.probes()
        assert "ended with status 0" in (await state(items, "lost")).message
        wait_until(lambda: gone(probes))
        await source.close()
