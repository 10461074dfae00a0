"""Commands for what is reached through a host: a network namespace, on this machine and over a real
sshd."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.guest_agent import GuestAgent
from tests.support.kills import kill_matrix
from tests.support.namespaces import Namespace, join_by_veth
from tests.support.probe import TEST_TIMEOUT, wait_until
from tests.support.sshd import Sshd, skip_without_sshd


@pytest.fixture
def inside(namespace: Namespace) -> Namespace:
    """With a link that nothing else has."""
    namespace.run(["ip", "link", "add", "inside0", "type", "veth", "peer", "name", "inside1"])
    return namespace


@pytest.fixture(params=["local", "ssh"])
def hypervisor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """How a command line names the host; the environment is that of a user whom it accepts."""
    if request.param == "local":
        yield "local"
        return
    skip_without_sshd()
    server = Sshd(tmp_path / "server", path="/usr/sbin:/usr/bin:/sbin:/bin")
    server.set_python(sys.executable)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.client(tmp_path / "user").items():
            patch.setenv(name, value)
        yield server.word
    server.stop()


def nictop(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nictop", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def link_names(shown: str) -> set[str]:
    (host,) = json.loads(shown)["hosts"]
    return {link["name"] for link in host["inventory"]["links"]}


def test_show_check_and_record(hypervisor: str, inside: Namespace, tmp_path: Path) -> None:
    host = f"{hypervisor}/netns:{inside.name}"
    shown = nictop("show", "--format", "json", host)
    assert link_names(shown.stdout) == {"lo", "inside0", "inside1"}, shown.stderr
    checked = nictop("check", "--format", "json", host)
    assert checked.returncode in (0, 1), checked.stderr
    assert json.loads(checked.stdout)["hosts"]
    file = tmp_path / "there.nictop"
    recorded = nictop("record", "--time", "1", str(file), f"blue={host}")
    assert recorded.returncode == 0, recorded.stderr
    replayed = nictop("show", "--format", "json", str(file))
    assert link_names(replayed.stdout) == {"lo", "inside0", "inside1"}, replayed.stderr


def test_what_is_not_there_is_said_in_one_sentence(hypervisor: str) -> None:
    done = nictop("show", f"a={hypervisor}/netns:nictop-none")
    assert done.returncode == 3
    assert "a · not read there is no netns:nictop-none" in done.stdout.replace("\n", " ")


@pytest.mark.parametrize("word", ["pve/docker:-v", "local/netns:a;b", "pve/101/", "x/jail:y"])
def test_what_is_no_guest_is_refused(word: str) -> None:
    done = nictop("show", word)
    assert done.returncode == 2 and "is not a valid host" in done.stderr


def test_a_path_stays_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in a directory of this machine, and what is written like a path, is a file."""
    monkeypatch.chdir(tmp_path)
    os.mkdir("folder")
    for word in ("folder/missing", "./missing", "../missing", "/missing", "nowhere/x.nictop"):
        done = nictop("show", word)
        assert done.returncode == 2 and "No such file" in done.stderr, word


NICS = ("--time", "1", "--client-nic", "test0", "--server-nic", "test0")
"""Named, as the two ends of these tests are one machine."""


@pytest.fixture
def joined(namespace: Namespace) -> Iterator[tuple[Namespace, Namespace]]:
    """Two namespaces with one link between them, which is all the network that they have."""
    other = Namespace()
    join_by_veth(namespace, other, "test0")
    for end, address in ((namespace, "192.0.2.1/24"), (other, "192.0.2.2/24")):
        end.run(["ip", "address", "add", address, "dev", "test0"])
    yield namespace, other
    other.remove()


def test_traffic_between_guests_that_only_their_agents_reach(
    joined: tuple[Namespace, Namespace], tmp_path: Path
) -> None:
    """The test flows by the NICs of the guests, the control by the agents."""
    agents = [
        GuestAgent(tmp_path / name, namespace=namespace, python=sys.executable)
        for name, namespace in zip("ab", joined, strict=True)
    ]
    ends = [f"{name}=local/{agent.level}" for name, agent in zip("ab", agents, strict=True)]
    try:
        done = nictop("traffic", *NICS, "--format", "json", *ends)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        result = json.loads(done.stdout)
        assert "192.0.2.2" in done.stdout and result, done.stdout
        for agent in agents:
            agent.wait_until_clean()
    finally:
        for agent in agents:
            agent.stop()


def test_traffic_between_namespaces(joined: tuple[Namespace, Namespace]) -> None:
    ends = [f"local/netns:{namespace.name}" for namespace in joined]
    done = nictop("traffic", *NICS, *ends)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "192.0.2.2" in done.stdout and "b/s" in done.stdout


def processes_in(namespace: Namespace) -> str:
    return subprocess.run(
        ["ip", "netns", "pids", namespace.name], capture_output=True, text=True, check=True
    ).stdout


@kill_matrix(("starting", "watching"))
@pytest.mark.parametrize("hypervisor", ["local", "ssh"], indirect=True)
def test_nictop_is_killed(
    hypervisor: str, inside: Namespace, tmp_path: Path, stage: str, kill: int
) -> None:
    """Nothing is left in the namespace; the connection is cut with nictop."""
    file = tmp_path / "x.nictop"
    words = [sys.executable, "-m", "nictop", "record", "--time", "600", str(file)]
    process = subprocess.Popen(
        [*words, f"{hypervisor}/netns:{inside.name}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: processes_in(inside))
    if stage == "watching":
        wait_until(lambda: file.exists() and file.stat().st_size > 0)
    process.kill()
    process.wait(TEST_TIMEOUT)
    wait_until(lambda: not processes_in(inside))
