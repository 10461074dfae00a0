"""A guest by its real guest agent: the same probe and the same lines as over SSH, and nothing left in
the guest or on the hypervisor, however it ends."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nictop.probe.records import Line, Request
from nictop.wire.guests.levels import Level
from nictop.wire.guests.wrapping import prefix_words
from tests.support.guest_agent import GuestAgent
from tests.support.items import has_record, items_until, next_state
from tests.support.kills import kill_matrix
from tests.support.namespaces import Namespace
from tests.support.probe import PYTHONS, TEST_TIMEOUT, python_parameters, wait_until
from tests.support.sshd import Sshd, disable_ssh_timeouts
from tests.wire.guests.reaching import failure, following, here, inventory, link_names, sshd, there

__all__ = ["sshd"]


@pytest.fixture(autouse=True)
def no_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    disable_ssh_timeouts(monkeypatch)


@pytest.fixture
def agent(tmp_path: Path, namespace: Namespace) -> Iterator[GuestAgent]:
    """That of a guest with a link of its own; nothing is left in it after the test."""
    namespace.run(["ip", "link", "add", "inside0", "type", "veth", "peer", "name", "inside1"])
    made = GuestAgent(tmp_path / "guest", namespace=namespace, python=sys.executable)
    yield made
    try:
        made.wait_until_clean()
    finally:
        made.stop()


def through(agent: GuestAgent, *words: str, poll: float = 0.1) -> list[str]:
    """A command line that runs `words` in the guest."""
    return [*prefix_words([Level("agent", str(agent.socket))], poll), *words]


# ------------------------------------------------------------------------------------- what is shown


async def test_a_guest_of_this_machine(agent: GuestAgent) -> None:
    found, _ = await inventory(here(agent.level))
    assert link_names(found) == {"lo", "inside0", "inside1"}


async def test_a_guest_of_a_host_over_ssh(agent: GuestAgent, sshd: Sshd) -> None:
    found, _ = await inventory(there(sshd, agent.level))
    assert link_names(found) == {"lo", "inside0", "inside1"}
    wait_until(lambda: not sshd.sessions())


async def test_what_is_reached_through_a_guest(agent: GuestAgent) -> None:
    """Levels below it are entered by programs of the guest."""
    inner = Namespace()
    try:
        found, _ = await inventory(here(f"{agent.level}/netns:{inner.name}"))
        assert link_names(found) == {"lo"}
    finally:
        inner.remove()


async def test_requests_reach_the_guest(agent: GuestAgent) -> None:
    """And the answers show its clock, which is that of this machine."""
    source = here(agent.level)
    async with following(source) as items:
        await items_until(items, has_record("clock"))
        assert source.clock is not None and abs(source.clock.offset) <= source.clock.uncertainty
        await source.request(Request(watch=(2**30,)))
        await items_until(
            items,
            lambda item: isinstance(item, Line) and item.counters and item.counters.unreadable,
        )


async def test_several_guests_at_once(agent: GuestAgent, tmp_path: Path) -> None:
    other = GuestAgent(tmp_path / "other", python=sys.executable)
    try:
        first, second = here(agent.level), here(other.level)
        async with following(first) as items, following(second) as others:
            for _ in range(2):
                await items_until(items, has_record("counters"))
                await items_until(others, has_record("counters"))
        agent.wait_until_clean()
        other.wait_until_clean()
    finally:
        other.stop()


@pytest.mark.parametrize("python", python_parameters(PYTHONS))
async def test_every_python_in_the_guest(tmp_path: Path, namespace: Namespace, python: str) -> None:
    made = GuestAgent(tmp_path / "guest", namespace=namespace, python=python)
    try:
        found, _ = await inventory(here(made.level))
        assert link_names(found) == {"lo"}
        made.wait_until_clean()
    finally:
        made.stop()


# ---------------------------------------------------------------------------------- bytes of a channel


def test_bytes_are_carried_in_both_directions(agent: GuestAgent) -> None:
    """More than any buffer on the way holds, and all values; nothing is lost although the agent
    discards what it cannot read or write at once."""
    data = random.Random(1).randbytes(600_000) + bytes(500_000)
    done = subprocess.run(
        through(agent, "cat"), input=data, check=False, capture_output=True, timeout=TEST_TIMEOUT
    )
    assert (done.returncode, done.stderr) == (0, b"") and done.stdout == data


def test_output_that_is_not_read_at_once(agent: GuestAgent) -> None:
    bridge = subprocess.Popen(
        through(agent, "sh", "-c", "head -c 1000000 /dev/zero; echo end; cat >/dev/null"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert bridge.stdin is not None and bridge.stdout is not None
    wait_until(lambda: len(agent.children()) >= 2)
    assert bridge.stdout.read(1_000_004) == bytes(1_000_000) + b"end\n"
    bridge.stdin.close()
    assert bridge.wait(TEST_TIMEOUT) == 0
    bridge.stdout.close()


@pytest.mark.parametrize(
    ("script", "status", "errors"),
    [("exit 7", 7, b""), ("echo oops >&2; exit 1", 1, b"oops\n"), ("kill -KILL $$", 137, b"")],
)
def test_the_end_of_a_command(agent: GuestAgent, script: str, status: int, errors: bytes) -> None:
    words = through(agent, "sh", "-c", script)
    done = subprocess.run(
        words, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=TEST_TIMEOUT
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, b"", errors)


def test_arguments_are_no_text_of_a_shell(agent: GuestAgent) -> None:
    words = ["$(id)", "a b", "'", '"', ";", "\\", "ü", "*"]
    done = subprocess.run(
        through(agent, "printf", "%s\\n", *words),
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=TEST_TIMEOUT,
    )
    assert done.stdout.decode().splitlines() == words


# --------------------------------------------------------------------------------- what cannot be watched


async def test_an_agent_that_forbids_programs(tmp_path: Path) -> None:
    made = GuestAgent(tmp_path / "guest", "-b", "guest-exec,guest-file-open", python=sys.executable)
    try:
        message = await failure(here(made.level))
        assert "does not allow guest-exec, guest-file-open" in message
        assert "/etc/sysconfig/qemu-ga" in message and "its agent tells: " in message
        made.wait_until_clean()
    finally:
        made.stop()


async def test_a_guest_without_python(tmp_path: Path) -> None:
    made = GuestAgent(tmp_path / "guest", only_tools=True)
    try:
        message = await failure(here(made.level))
        assert "no Python 3.6 or newer to reach the guest with" in message
        made.wait_until_clean()
    finally:
        made.stop()


async def test_a_guest_without_a_socket(tmp_path: Path) -> None:
    source = here(f"agent:{tmp_path}/none.sock")
    async with following(source) as items:
        message = (await next_state(items, "lost")).message
    assert f"there is no socket {tmp_path}/none.sock: the guest is not running" in message


# ------------------------------------------------------------------------------------ every kind of end


Victim = Callable[[GuestAgent], list[int]]
VICTIMS: dict[str, Victim] = {
    "bridge": lambda agent: agent.bridges()[:1],
    "relay": lambda agent: agent.children()[:1],
    "probe": lambda agent: agent.children()[1:2],
}


@kill_matrix(("started", "watching"), victims=tuple(VICTIMS))
async def test_a_process_on_the_way_is_killed(
    agent: GuestAgent, stage: str, kill: int, victim: str
) -> None:
    """The source reports it and connects again; at its end nothing is left."""
    source = here(agent.level)
    async with following(source) as items:
        await items_until(items, has_record("inventory" if stage == "watching" else "hello"))
        for pid in VICTIMS[victim](agent):
            os.kill(pid, signal.SIGKILL)
        assert (await next_state(items, "lost")).message
        await items_until(items, has_record("inventory"))


async def test_all_of_the_hypervisor_is_killed(
    agent: GuestAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is left who could close what the agent has open; the probe ends as it misses
    requests."""
    monkeypatch.setattr("nictop.wire.ssh.source.HEARTBEAT_SECONDS", 5.0)
    source = here(agent.level)
    async with following(source) as items:
        await items_until(items, has_record("inventory"))
        for pid in agent.bridges():
            os.kill(pid, signal.SIGKILL)
        await next_state(items, "lost")
    agent.forget_descriptors()


CUTS: dict[str, Callable[[GuestAgent], bool]] = {
    "before the bridge": lambda _: True,
    "bridge": lambda agent: bool(agent.bridges()),
    "relay": lambda agent: bool(agent.children()),
    "command": lambda agent: len(agent.children()) > 1,
}


@kill_matrix(tuple(CUTS))
def test_nictop_is_killed(agent: GuestAgent, stage: str, kill: int) -> None:
    """In each stage of the start: the end of the bridge's stdin ends all of it."""
    words = [sys.executable, "-m", "nictop", "record", "--time", "600"]
    process = subprocess.Popen(
        [*words, str(agent.folder.parent / "x.nictop"), f"local/{agent.level}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: CUTS[stage](agent))
    process.kill()
    process.wait(TEST_TIMEOUT)
    agent.wait_until_clean()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_bridge_that_is_ended_closes_what_is_open(agent: GuestAgent, number: int) -> None:
    bridge = subprocess.Popen(through(agent, "cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert bridge.stdin is not None and bridge.stdout is not None
    bridge.stdin.write(b"x")
    bridge.stdin.flush()
    assert bridge.stdout.read(1) == b"x"
    bridge.send_signal(number)
    assert bridge.wait(TEST_TIMEOUT) == 128 + number
    agent.wait_until_clean()
    bridge.stdin.close()
    bridge.stdout.close()


async def test_the_agent_is_started_again(tmp_path: Path, namespace: Namespace) -> None:
    """As after a reboot of the guest."""
    first = GuestAgent(tmp_path / "guest", namespace=namespace, python=sys.executable)
    source = here(first.level)
    async with following(source) as items:
        await items_until(items, has_record("counters"))
        first.stop()
        assert (await next_state(items, "lost")).message
        second = GuestAgent(tmp_path / "guest", namespace=namespace, python=sys.executable)
        await items_until(items, has_record("inventory"))
    second.wait_until_clean()
    second.stop()


def test_the_end_of_the_input_ends_a_command_that_ignores_it(agent: GuestAgent) -> None:
    """Without its bridge nobody would end it."""
    words = through(agent, "sh", "-c", "trap '' TERM; sleep 600")
    done = subprocess.run(
        words, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=TEST_TIMEOUT
    )
    assert done.returncode == 92
    assert (
        done.stderr.strip() == b"nictop-none: the command in the guest has not ended with its input"
    )
