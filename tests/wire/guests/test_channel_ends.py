"""Every channel to what is reached through a host, whose processes are killed one by one: the source
says so and connects again, and when nictop ends or is killed nothing is left, neither on the host
nor in the container or guest.

The agent's channel is in `test_agent`. vsock is AF_VSOCK where the kernel has its loopback, else the
stand-in of `tests.support.vsock`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.items import has_record, items_until, next_state
from tests.support.kills import kill_matrix
from tests.support.namespaces import Namespace
from tests.support.probe import TEST_TIMEOUT, is_alive, wait_until
from tests.support.sshd import Sshd, disable_ssh_timeouts, skip_without_sshd
from tests.support.vsock import vsock_level
from tests.wire.guests.reaching import following, sshd, there
from tests.wire.guests.test_containers import Container, install
from tests.wire.guests.test_reached_guests import trust

__all__ = ["sshd"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="containers need root")


@dataclass(frozen=True)
class Channel:
    """One way in. Process IDs of its parts while something is watched by it."""

    level: str
    probes: Callable[[], list[int]]
    """In the container, guest or namespace."""
    carriers: Callable[[], list[int]]
    """What carries it there: on the host."""


def pids_in(namespace_of: Path) -> list[int]:
    """Processes in a network namespace, but for those that made it."""
    try:
        inode = namespace_of.stat().st_ino
    except OSError:
        return []
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and (folder / "ns/net").stat().st_ino == inode:
                found.append(int(folder.name))
    return [pid for pid in found if is_alive(pid)]


@pytest.fixture(autouse=True)
def no_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    disable_ssh_timeouts(monkeypatch)


@pytest.fixture
def netns(sshd: Sshd, namespace: Namespace) -> Channel:
    path = Path(f"/run/netns/{namespace.name}")
    return Channel(f"netns:{namespace.name}", lambda: pids_in(path), sshd.sessions)


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    made = Container(tmp_path)
    yield made
    made.stop()


def of_container(sshd: Sshd, container: Container) -> Channel:
    install(sshd, container, "docker:web")
    path = Path(f"/proc/{container.pid}/ns/net")
    own = set(pids_in(path))
    return Channel(
        "docker:web", lambda: [pid for pid in pids_in(path) if pid not in own], sshd.sessions
    )


@pytest.fixture
def docker(sshd: Sshd, container: Container) -> Channel:
    container.add_python()
    return of_container(sshd, container)


@pytest.fixture
def docker_without_python(sshd: Sshd, container: Container) -> Channel:
    """The Python of the host, in the network namespace of the container."""
    return of_container(sshd, container)


@pytest.fixture
def jump(sshd: Sshd, tmp_path: Path) -> Iterator[Channel]:
    skip_without_sshd()
    other = Sshd(tmp_path / "other")
    other.set_python(sys.executable)
    trust(sshd, other)
    level = f"ssh:{other.user}@{other.address}:{other.port}"
    yield Channel(level, other.probes, other.sessions)
    wait_until(lambda: not other.sessions())
    other.stop()


@pytest.fixture
def jump_from_a_namespace(sshd: Sshd, tmp_path: Path, namespace: Namespace) -> Iterator[Channel]:
    """A process in the namespace carries the connection."""
    skip_without_sshd()
    other = Sshd(tmp_path / "inner", namespace=namespace, path="/usr/sbin:/usr/bin:/sbin:/bin")
    other.set_python(sys.executable)
    trust(sshd, other)
    level = f"netns:{namespace.name}/ssh:{other.user}@{other.address}:{other.port}"
    yield Channel(level, other.probes, sshd.sessions)
    wait_until(lambda: not other.sessions())
    other.stop()


@pytest.fixture
def vsock(sshd: Sshd, tmp_path: Path) -> Iterator[Channel]:
    skip_without_sshd()
    other = Sshd(tmp_path / "guest")
    other.set_python(sys.executable)
    trust(sshd, other)
    level, relay = vsock_level(sshd, other)
    yield Channel(level, other.probes, sshd.sessions)
    wait_until(lambda: not other.sessions())
    other.stop()
    if relay is not None:
        relay.stop()


CHANNELS = ("netns", "docker", "docker_without_python", "jump", "jump_from_a_namespace", "vsock")


@pytest.fixture
def channel(request: pytest.FixtureRequest, stage: str) -> Channel:
    found = request.getfixturevalue(stage)
    assert isinstance(found, Channel)
    return found


@kill_matrix(CHANNELS, victims=("probe", "carrier"))
async def test_part_of_a_channel_is_killed(
    sshd: Sshd, channel: Channel, stage: str, kill: int, victim: str
) -> None:
    """The source says why it is lost, and connects again."""
    async with following(there(sshd, channel.level)) as items:
        await items_until(items, has_record("counters"))
        before = channel.probes()
        assert before
        victims = before[:1] if victim == "probe" else channel.carriers()[:1]
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        assert (await next_state(items, "lost")).message.isprintable()
        await items_until(items, has_record("counters"))
        wait_until(lambda: not any(map(is_alive, before)))
    wait_until(lambda: not channel.probes() and not sshd.sessions())


@kill_matrix(CHANNELS)
def test_nictop_is_killed_behind_a_channel(
    sshd: Sshd, channel: Channel, tmp_path: Path, stage: str, kill: int
) -> None:
    """While it reads."""
    file = tmp_path / "x.nictop"
    words = [sys.executable, "-m", "nictop", "record", "--time", "600", str(file)]
    environment = {**os.environ, **sshd.client(tmp_path / "user")}
    process = subprocess.Popen(
        [*words, f"{sshd.word}/{channel.level}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    try:
        wait_until(lambda: file.exists() and file.stat().st_size > 0 and channel.probes())
    finally:
        process.kill()
        process.wait(TEST_TIMEOUT)
    wait_until(lambda: not channel.probes() and not sshd.sessions())
