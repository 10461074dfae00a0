"""Killed at every stage, more than twenty times each: the host ends as it was, or with the change that was confirmed,
as ip, ethtool and cat see it; and nobody stays behind."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest

from tests.support.changes import (
    KINDS,
    Changing,
    ProbeBySsh,
    begin_again,
    changing,
    guards_in,
    nobody_stays,
    prepare_host,
    ssh_command,
    state_of,
    states_after,
)
from tests.support.namespaces import Namespace, why_impossible
from tests.support.probe import alive, wait_until
from tests.support.side_by_side import side_by_side
from tests.support.sshd import Sshd, why_no_sshd

STAGES = ("asked", "applying", "half", "applied", "keep", "undo", "undoing")
PROCESSES = ("client", "probe", "guard", "guard told to end")
CONNECTIONS = ("ssh", "sshd session")
OF_EACH, OF_CONNECTIONS = 4, 3
"""Kills of each victim at each stage, with another kind of change every time: 22 for each stage."""
TIMES = 20
"""Of what has one stage only."""
PROBE = ["--interval", "60", "--heartbeat", "60", "--allow-changes"]


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[Namespace]]:
    """Three, which are killed in at the same time."""
    reason = why_impossible()
    if reason is not None or shutil.which("ethtool") is None:
        pytest.skip(reason or "ethtool is not installed")
    made = [Namespace() for _ in range(3)]
    try:
        for host in made:
            prepare_host(host)
        yield made
    finally:
        for host in made:
            host.remove()


@pytest.fixture(scope="module")
def after(hosts: list[Namespace]) -> dict[str, str]:
    """What each kind of change makes of a host."""
    return states_after(hosts[0])


@pytest.fixture
def clean(hosts: list[Namespace]) -> list[Namespace]:
    """As if nobody had been there."""
    for host in hosts:
        begin_again(host)
    return hosts


def reach(change: Changing, stage: str, host: Namespace, old: str) -> None:
    """Go on with a change that was just asked for, up to a stage of its life."""
    if stage == "half":
        wait_until(lambda: state_of(host) != old or not guards_in(host))
    elif stage == "applying":
        change.said("applying")
    elif stage != "asked":
        change.said("applied")
    if stage in ("keep", "undo", "undoing"):
        change.ask("keep" if stage == "keep" else "undo")
    if stage == "undoing":
        change.said("undoing")


def kill_guard(host: Namespace, number: signal.Signals) -> None:
    """The one that is there, or comes; or has gone already."""
    for _ in range(500):
        for pid in guards_in(host)[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            return


def check_end(host: Namespace, stage: str, said: str, states: tuple[str, str]) -> None:
    """Old, or confirmed and new; and what was said is true. A change that stayed is taken away for the next one."""
    old, new = states
    nobody_stays(host)
    now = state_of(host)
    if now == old:
        assert said in ("", "undone", "refused")
        return
    assert stage == "keep" and said in ("", "kept") and now == new
    begin_again(host)


def kill(change: Changing, victim: str, host: Namespace) -> str:
    """What is said then, as far as anybody is there to say it."""
    if victim == "client":
        assert change.probe.process.stdin is not None
        change.probe.process.stdin.close()
    elif victim == "probe":
        change.probe.process.kill()
    else:
        kill_guard(host, signal.SIGKILL if victim == "guard" else signal.SIGTERM)
        said = change.end()
        assert alive(change.probe.process.pid)
        return said
    return ""


def kill_processes(host: Namespace, stage: str, victims: Sequence[str], after: dict[str, str]) -> None:
    """`OF_EACH` times each victim; the kinds of change go round."""
    old = state_of(host)
    begin = STAGES.index(stage) + PROCESSES.index(victims[0])
    for round_, victim in enumerate([one for one in victims for _ in range(OF_EACH)], begin):
        kind = list(KINDS)[round_ % len(KINDS)]
        with changing(host) as change:
            change.apply(KINDS[kind])
            reach(change, stage, host, old)
            said = kill(change, victim, host)
        check_end(host, stage, said, (old, after[kind]))


def kill_connections(host: Namespace, stage: str, server: Sshd, after: dict[str, str]) -> None:
    """`OF_CONNECTIONS` times each end of one."""
    old = state_of(host)
    client = ssh_command(server.address, server.port, server.user, server.key, server.known_hosts)
    for round_, victim in enumerate([one for one in CONNECTIONS for _ in range(OF_CONNECTIONS)], STAGES.index(stage)):
        kind = list(KINDS)[round_ % len(KINDS)]
        with ProbeBySsh(client, PROBE) as probe:
            change = Changing(probe)
            change.apply(KINDS[kind])
            reach(change, stage, host, old)
            session = server.sessions()[0]
            os.kill(session if victim == "sshd session" else probe.process.pid, signal.SIGKILL)
        check_end(host, stage, "", (old, after[kind]))
        wait_until(lambda: not server.sessions())


@pytest.fixture(scope="module")
def server(hosts: list[Namespace], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd | str]:
    """Its sessions are inside the last host; or why there is none."""
    reason = why_no_sshd() or (None if shutil.which("ssh") else "openssh-client is not installed")
    if reason is not None:
        yield reason
        return
    inside = f'exec {shutil.which("ip")} netns exec {hosts[2].name} sh -c "$SSH_ORIGINAL_COMMAND"'
    server = Sshd(tmp_path_factory.mktemp("sshd"), options=(f"ForceCommand {inside}",))
    try:
        server.python(sys.executable)
        yield server
    finally:
        server.stop()


@pytest.mark.parametrize("stage", STAGES)
def test_somebody_is_killed(clean: list[Namespace], after: dict[str, str], server: Sshd | str, stage: str) -> None:
    works = [partial(kill_processes, clean[place], stage, PROCESSES[2 * place :][:2], after) for place in (0, 1)]
    if isinstance(server, Sshd):
        works.append(partial(kill_connections, clean[2], stage, server, after))
    side_by_side(*works)
    if isinstance(server, str):
        pytest.skip(f"processes were killed, but no connection: {server}")


def strike_when_applied(hosts: list[Namespace], strike: Callable[[Changing, Namespace], str]) -> None:
    """`TIMES` at least, on all hosts together; `strike` says what was said at the end."""

    def strike_all(place: int, host: Namespace) -> None:
        old = state_of(host)
        for kind in itertools.islice(itertools.cycle(KINDS), place, TIMES + 2, len(hosts)):
            with changing(host) as change:
                change.apply(KINDS[kind])
                change.said("applied")
                said = strike(change, host)
            check_end(host, "applied", said, (old, old))

    side_by_side(*(partial(strike_all, place, host) for place, host in enumerate(hosts)))


def test_whoever_takes_back_is_killed_as_well(clean: list[Namespace]) -> None:
    """The guard, and then everybody who comes in its place, as long as somebody is found: the next one goes on."""

    def strike(change: Changing, host: Namespace) -> str:
        for _ in range(3):
            kill_guard(host, signal.SIGKILL)
        said = change.end()
        assert said == "undone"
        return said

    strike_when_applied(clean, strike)


def test_the_probe_goes_when_its_guard_has_just_been_killed(clean: list[Namespace]) -> None:
    """Stopped first, so that it sees both at the same time: it must still leave somebody who takes the change back."""

    def strike(change: Changing, host: Namespace) -> str:
        process = change.probe.process
        process.send_signal(signal.SIGSTOP)
        kill_guard(host, signal.SIGKILL)
        assert process.stdin is not None
        process.stdin.close()
        process.send_signal(signal.SIGCONT)
        return ""

    strike_when_applied(clean, strike)
