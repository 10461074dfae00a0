"""``nictop setup`` as a process in a namespace: each job ends with its check, and --yes keeps only
what is verified."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.changes.actions import Actions, actions_of
from nictop.changes.events import GoalCheck, Prepared
from nictop.changes.guided.set_up import set_mtu, use_queues
from nictop.changes.session import ChangeSession
from nictop.cli.change.dialog import ChangeDialog
from nictop.cli.change.host import always, wait_until_read
from nictop.cli.main import main
from nictop.hosts.session import running
from nictop.wire.local import LocalSource
from nictop.wire.probe_process import probe_command
from tests.support.changes import LINK, PEER, prepare_host, wait_for_no_process_left
from tests.support.namespaces import ROOT, Namespace
from tests.support.networkmanager import (
    PrivateNetworkManager,
    private_networkmanager,
    why_no_networkmanager,
)
from tests.support.probe import TEST_TIMEOUT
from tests.support.sources import session_of

NIC = "ens4"
STATIC = "192.0.2.10/24"


def setup(prefix: list[str], state: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Nobody answers its questions."""
    places = {"PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(state), "XDG_CONFIG_HOME": str(state)}
    return subprocess.run(
        [*prefix, sys.executable, "-m", "nictop", "setup", "local", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=os.environ | places,
        timeout=4 * TEST_TIMEOUT,
        check=False,
    )


@pytest.fixture
def host(namespace: Namespace) -> Namespace:
    prepare_host(namespace)
    return namespace


def inside(host: Namespace) -> list[str]:
    return ["ip", "netns", "exec", host.name]


def queues(host: Namespace) -> list[str]:
    shown = (
        host.run(["ethtool", "-l", LINK]).partition("Current hardware settings:")[2].splitlines()
    )
    return [line.split()[1] for line in shown if line.startswith(("RX:", "TX:"))]


def test_queues(host: Namespace, tmp_path: Path) -> None:
    before = queues(host)
    wanted = "2" if "2" not in before else "3"
    words = ("queues", LINK, wanted, "--allow-changes")
    shown = setup(inside(host), tmp_path, *words[:-1], "--dry-run")
    assert shown.returncode == 0 and f"ethtool -L {LINK} rx {wanted} tx {wanted}" in shown.stdout, (
        shown.stderr
    )
    assert queues(host) == before
    unanswered = setup(inside(host), tmp_path, *words)
    assert unanswered.returncode == 1 and queues(host) == before
    script = setup(inside(host), tmp_path, *words, "--script")
    assert (
        script.returncode == 0
        and script.stdout.startswith("#!/bin/sh\n")
        and queues(host) == before
    )
    done = setup(inside(host), tmp_path, *words, "--yes")
    assert done.returncode == 0, done.stderr
    assert f"verified: {LINK} has {wanted} receive queues" in done.stderr and "kept" in done.stderr
    assert queues(host) == [wanted, wanted]
    again = setup(inside(host), tmp_path, *words, "--yes")
    assert again.returncode == 2 and f"already has {wanted} queues" in again.stderr
    wait_for_no_process_left(host)


def mtu(host: Namespace, name: str) -> int:
    return int(json.loads(host.run(["ip", "-j", "link", "show", "dev", name]))[0]["mtu"])


def test_an_mtu_and_the_links_above_it(host: Namespace, tmp_path: Path) -> None:
    """A veth with a MACVLAN: raised, then lowered together; what must fit is said before it is
    applied."""
    host.run(["ip", "link", "add", "link", LINK, "name", "v7", "type", "macvlan", "mode", "bridge"])
    words = ("mtu", LINK, "9000")
    shown = setup(inside(host), tmp_path, *words, "--dry-run")
    assert shown.returncode == 0 and f"ip link set dev {LINK} mtu 9000" in shown.stdout, (
        shown.stderr
    )
    assert "warning: hosts in its subnets with an MTU below 9000 may drop" in shown.stdout
    assert (
        f"warning: expected finding: {PEER}: MTU 1500, but 9000 at its other end ({LINK})"
        in shown.stdout
    )
    assert "warning: v7 (MTU 1500) above" in shown.stdout
    script = setup(inside(host), tmp_path, *words, "--script")
    assert script.returncode == 0 and "# hosts in its subnets with" in script.stdout, script.stderr
    assert mtu(host, LINK) == 1500
    unanswered = setup(inside(host), tmp_path, *words, "--allow-changes")
    assert unanswered.returncode == 1 and mtu(host, LINK) == 1500
    done = setup(inside(host), tmp_path, *words, "--allow-changes", "--yes", "--yes")
    assert done.returncode == 0, done.stderr
    assert f"verified: {LINK} has MTU 9000" in done.stderr and mtu(host, LINK) == 9000
    host.run(["ip", "link", "set", "dev", "v7", "mtu", "9000"])
    lowered = setup(
        inside(host), tmp_path, "mtu", LINK, "1400", "--allow-changes", "--yes", "--yes"
    )
    assert lowered.returncode == 0, lowered.stderr
    assert (mtu(host, LINK), mtu(host, "v7")) == (1400, 1400)
    above = setup(inside(host), tmp_path, "mtu", "v7", "1500", "--dry-run")
    assert above.returncode == 2 and f"limit: MTU of {LINK} below it" in above.stderr, above.stderr
    wait_for_no_process_left(host)


async def test_an_mtu_that_is_not_kept_is_rolled_back_on_every_link(
    host: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in (LINK, PEER):
        host.run(["ip", "link", "set", "dev", name, "mtu", "9000"])
    host.run(["ip", "link", "add", "link", LINK, "name", "v7", "type", "macvlan", "mode", "bridge"])
    host.run(["ip", "link", "add", "link", LINK, "name", "v8", "type", "macvlan", "mode", "bridge"])
    names = (LINK, "v7", "v8")
    assert [mtu(host, name) for name in names] == [9000] * 3
    command = [
        *inside(host),
        *probe_command(sys.executable, "--interval", "1", "--eager", "--allow-changes"),
    ]
    session = session_of(LocalSource(1.0, command=command, name="here"), watch_devices=True)
    seen: list[int] = []
    async with running(session):
        await asyncio.wait_for(wait_until_read(session, always), TEST_TIMEOUT)
        job = set_mtu(session.facts, session.facts.links_by_name[LINK], 1500)
        actions = actions_of(job.fix)
        assert isinstance(actions, Actions) and len(actions.actions) == 3
        change = ChangeSession(session, job.spec(actions.actions, 600.0))
        async for event in change.events():
            if isinstance(event, Prepared):
                change.apply(twice=True)
            if isinstance(event, GoalCheck):
                seen += [mtu(host, name) for name in names]
                change.undo()
    assert seen[:3] == [1500] * 3 and change.outcome == "undone"
    assert [mtu(host, name) for name in names] == [9000] * 3
    wait_for_no_process_left(host)


async def test_what_is_not_proven_is_not_kept(
    host: Namespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """--yes stands for somebody who would look."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    before = queues(host)
    command = [
        *inside(host),
        *probe_command(sys.executable, "--interval", "1", "--eager", "--allow-changes"),
    ]
    session = session_of(LocalSource(1.0, command=command, name="here"), watch_devices=True)
    async with running(session):
        await asyncio.wait_for(wait_until_read(session, always), TEST_TIMEOUT)
        link = session.facts.links_by_name[LINK]
        job = use_queues(session.facts, link, 2 if before != ["2", "2"] else 3)
        actions = actions_of(job.fix)
        assert isinstance(actions, Actions)
        guided = replace(job, proof=lambda _: GoalCheck(False, "nothing of the kind"))
        options = argparse.Namespace(yes=1, keep_within=5.0, dry_run=False, ascii=True)
        change = ChangeSession(session, guided.spec(actions.actions, 5.0))
        assert await ChangeDialog(options, guided, change).run() == 1
    errors = capsys.readouterr().err
    assert "not verified: nothing of the kind" in errors and "rolled back" in errors
    assert queues(host) == before


@pytest.fixture(scope="module")
def manager() -> Iterator[PrivateNetworkManager]:
    reason = why_no_networkmanager()
    if reason is not None:
        pytest.skip(f"no real NetworkManager: {reason}")
    with private_networkmanager(NIC) as one:
        one.wait_for(lambda: one.device_state(NIC) >= 70)
        yield one


def test_an_address(manager: PrivateNetworkManager, tmp_path: Path) -> None:
    """The profile that NetworkManager has made up gets a name, the NIC and the address, and no
    default route."""
    words = ("address", NIC, "--static", STATIC, "--allow-changes")
    refused = setup(manager.prefix, tmp_path, *words, "--gateway", "192.0.2.1", "--yes")
    assert refused.returncode == 2 and "default route" in refused.stderr
    done = setup(manager.prefix, tmp_path, *words, "--yes")
    assert done.returncode == 0, done.stderr
    assert f"verified: {NIC} has {STATIC}" in done.stderr
    shown = manager.nmcli(
        "-g", "connection.interface-name,ipv4.addresses,ipv4.never-default", "con", "show", NIC
    )
    assert shown.splitlines() == [NIC, STATIC, "yes"]
    assert STATIC in manager.namespace.run(["ip", "-4", "-o", "address", "show", "dev", NIC])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "required: HOST, JOB"),
        (("local", "dig-a-hole", NIC), "invalid choice"),
        (("local", "address", NIC), "one of the arguments --static --dhcp is required"),
        (("local", "address", NIC, "--static", STATIC, "--dhcp"), "not allowed with"),
        (("local", "queues", NIC, "0"), "'0' is not a number from 1 to"),
        (("local", "queues", NIC, "4"), "changes are disabled for local"),
        (("local", "mtu", NIC, "9000"), "changes are disabled for local"),
        (("local", "mtu", NIC, "jumbo"), "'jumbo' is not a number from 1 to"),
        (("local", "mtu", "no-such-nic", "9000", "--script"), "has no interface no-such-nic"),
        (("local", "irq-affinity", NIC, "--cpus", "x"), "'x' is not a CPU list, e.g. 0-3,8"),
        (("local", "vfs", NIC, "4", "--dry-run", "--script"), "omit one of them"),
        (("local", "led", NIC, "--seconds", "0"), "'0' is not a number from 1 to"),
        (("local", "led", "no-such-nic", "--script"), "has no interface no-such-nic"),
        (("local", "queues", "no-such-nic", "4", "--script"), "has no interface no-such-nic"),
        (
            ("local", "vfs", "0000:ff:1f.7", "4", "--script"),
            "has no interface or PCI function 0000:ff:1f.7",
        ),
    ],
)
def test_wrong_usage(
    words: tuple[str, ...],
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    assert main(["setup", *words]) == 2
    captured = capsys.readouterr()
    assert expected in captured.err and not captured.out
