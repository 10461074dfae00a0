"""Changes in a guest or namespace that only a hypervisor reaches: kept if confirmed, undone there by
the guest itself if nictop or the way to it is gone."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.guest_agent import GuestAgent
from tests.support.namespaces import ROOT, Namespace, join_by_veth
from tests.support.probe import TEST_TIMEOUT, wait_until
from tests.support.sshd import descendants

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="changes need root")

NIC = "test0"
RULE = "veth_ends_have_different_mtus"


@dataclass(frozen=True)
class Guest:
    """A network namespace with a link whose MTU is too small, and how it is reached."""

    namespace: Namespace
    host: str
    is_clean: Callable[[], object]

    def has_problem(self) -> bool:
        shown = self.namespace.run(["ip", "-json", "link", "show", "dev", NIC])
        return bool(json.loads(shown)[0]["mtu"] == 1400)


@pytest.fixture
def sick(namespace: Namespace) -> Iterator[Namespace]:
    other = Namespace()
    join_by_veth(namespace, other, NIC)
    namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", NIC])
    namespace.run(["ip", "link", "set", "dev", NIC, "mtu", "1400"])
    yield namespace
    other.remove()


@pytest.fixture(params=["agent", "netns"])
def guest(request: pytest.FixtureRequest, sick: Namespace, tmp_path: Path) -> Iterator[Guest]:
    namespace = sick
    if request.param == "netns":

        def inside() -> list[int]:
            pids = namespace.run(["ip", "netns", "pids", namespace.name]).split()
            return [int(pid) for pid in pids if _is_probe(int(pid))]

        yield Guest(namespace, f"local/netns:{namespace.name}", lambda: not inside())
        return
    agent = GuestAgent(tmp_path / "guest", namespace=namespace, python=sys.executable)
    yield Guest(namespace, f"local/{agent.level}", agent.wait_until_clean)
    agent.stop()


def _is_probe(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"-I\0-S\0-c\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@contextlib.contextmanager
def fixing(guest: Guest, state: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-m", "nictop", "fix", guest.host, RULE, "--allow-changes", *options]
    folders = {"XDG_STATE_HOME": str(state), "XDG_CONFIG_HOME": str(state)}
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | folders,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=TEST_TIMEOUT)


def until_said(process: subprocess.Popen[bytes], words: bytes) -> None:
    assert process.stderr is not None
    said = b""
    while words not in said:
        ready, _, _ = select.select([process.stderr], [], [], TEST_TIMEOUT)
        part = os.read(process.stderr.fileno(), 65536) if ready else b""
        assert part, f"not said: {words!r}; but: {said.decode()}"
        said += part


def answer(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"yes\n")
    process.stdin.flush()


def test_a_change_is_kept(guest: Guest, tmp_path: Path) -> None:
    with fixing(guest, tmp_path / "state", "--yes") as process:
        _, said = process.communicate(timeout=TEST_TIMEOUT)
        assert process.returncode == 0, said.decode()
    assert not guest.has_problem()
    assert guest.is_clean() is not False


@pytest.mark.parametrize("victim", ["nictop", "way"])
def test_a_change_that_nobody_confirms_is_undone(guest: Guest, tmp_path: Path, victim: str) -> None:
    """The network of the guest has no part in it: whoever was to confirm it is gone."""
    with fixing(guest, tmp_path / "state", "--keep-within", "600") as process:
        until_said(process, b"Apply on")
        answer(process)
        until_said(process, b"Keep this change?")
        assert not guest.has_problem()
        way = descendants(process.pid)[0]
        os.kill(process.pid if victim == "nictop" else way, signal.SIGKILL)
        wait_until(guest.has_problem)
    wait_until(lambda: guest.is_clean() is not False)
