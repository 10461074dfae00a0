"""The plan of a change, read by a probe without ``--allow-changes``: the same plan, and no way to a
change."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.plan.planner import READ_ONLY_TEXT
from tests.support.changes import (
    KINDS,
    LINK,
    MTU,
    SEVERAL_ACTIONS,
    ChangeClient,
    change_client,
    prepare_host,
    read_state,
    wait_for_no_process_left,
)
from tests.support.namespaces import Namespace
from tests.support.probe import Probe, SentProbe, python_parameters

ROOT = Path(__file__).parents[3]
OBSERVED_PLAN = """
import json, os, sys
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGING = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate",
            "os.kill", "os.exec", "os.fork", "os.system", "subprocess.Popen")
seen, kinds, is_reading = [], set(), False

def observe(event, arguments):
    if is_reading and (event in CHANGING or (event == "open" and arguments[2] & WRITING)):
        seen.append([event, repr(arguments)])

from nictop.probe.plan.current_state import Roots
from nictop.probe.plan.plan import read_plan
from nictop.probe.inventory.ethtool.reader import NETLINK_COMMANDS, ETHTOOL_MSG_STRSET_GET
from nictop.probe.kernel.netlink import NETLINK_ROUTE, NetlinkSocket
send, call = NetlinkSocket.send_request, NetlinkSocket.generic
reading = {ETHTOOL_MSG_STRSET_GET, *(command for _, command, _ in NETLINK_COMMANDS)}

def send_request(netlink, message_type, payload, flags=0):
    if netlink.socket.proto == NETLINK_ROUTE:
        kinds.add(message_type)
    return send(netlink, message_type, payload, flags)

def generic(netlink, family, command, *more, **options):
    if command not in reading:
        seen.append([family, command])
    return call(netlink, family, command, *more, **options)

NetlinkSocket.send_request, NetlinkSocket.generic = send_request, generic
sys.addaudithook(observe)
refused = []
for actions in json.loads(sys.argv[1]):
    try:
        is_reading = True
        read_plan(actions, Roots())
    except ValueError as error:
        refused.append(str(error))
    finally:
        is_reading = False
print(json.dumps([seen, sorted(kinds), refused]))
"""
"""Prints what reading plans did beyond reading, the types of its rtnetlink messages, and
refusals."""


@pytest.fixture
def host(namespace: Namespace) -> Namespace:
    if shutil.which("ethtool") is None:
        pytest.skip("ethtool is not installed")
    prepare_host(namespace)
    return namespace


@pytest.mark.parametrize("kind", KINDS)
def test_a_probe_that_only_reads_has_the_same_plan(host: Namespace, kind: str) -> None:
    old = read_state(host)
    with change_client(host) as change:
        expected = change.prepare(KINDS[kind])
    with Probe("--interval", "60", namespace=host) as probe:
        shown = ChangeClient(probe).prepare(KINDS[kind])
        assert (shown.plan, shown.fingerprint, shown.needs_second_yes) == (
            expected.plan,
            expected.fingerprint,
            expected.needs_second_yes,
        )
        assert all(one.before and one.after and one.undo for one in shown.plan)
        wait_for_no_process_left(host, *probe.pids())
    assert read_state(host) == old


def test_it_makes_no_change_whatever_it_is_sent(host: Namespace) -> None:
    """Also with the fingerprint of the plan, and confirmed twice."""
    old = read_state(host)
    with Probe("--interval", "60", namespace=host) as probe:
        change = ChangeClient(probe)
        fingerprint = change.prepare(MTU).fingerprint
        for step in ("apply", "keep", "undo"):
            change.request(step, actions=MTU, fingerprint=fingerprint, keep_within=5, twice=True)
            assert change.wait_for("refused").text == READ_ONLY_TEXT
        change.request("nonsense", actions=MTU)
        assert "step is not one of" in change.wait_for("refused").text
        wait_for_no_process_left(host, *probe.pids())
    assert read_state(host) == old


def test_what_the_plan_says_of_ssh_is_the_same(host: Namespace) -> None:
    """The own connection is known from the environment of the probe."""
    prefix = [
        "ip",
        "netns",
        "exec",
        host.name,
        "env",
        "SSH_CONNECTION=192.0.2.9 50000 192.0.2.7 22",
    ]
    disturbs: list[Any] = []
    for more in ((), ("--allow-changes",)):
        with Probe("--interval", "60", *more, prefix=prefix) as probe:
            shown = ChangeClient(probe).prepare(MTU)
            assert shown.needs_second_yes
            disturbs.append(shown.plan[0].disturbs)
    assert disturbs[0] == disturbs[1] and f"this SSH connection uses {LINK}" in disturbs[0]


@pytest.mark.parametrize("python", python_parameters(("python3.6", "python3.13")))
def test_every_python_reads_the_plan_over_ssh(host: Namespace, python: str, tmp_path: Path) -> None:
    """The modules as they are sent to a host that may not be changed."""
    with change_client(host) as change:
        expected = change.prepare(SEVERAL_ACTIONS)
    with SentProbe(python, tmp_path, "--interval", "60", namespace=host) as probe:
        assert ChangeClient(probe).prepare(SEVERAL_ACTIONS).plan == expected.plan


def test_a_plan_needs_no_root() -> None:
    """It is read as the user of the probe reads everything else; only a change needs root."""
    budget = "/proc/sys/net/core/netdev_budget"
    for python in ("/usr/bin/python3", sys.executable):
        try:
            with Probe("--interval", "60", python=python, user=65534) as probe:
                (one,) = ChangeClient(probe).prepare([["write", budget, "599"]]).plan
            break
        except (OSError, TimeoutError):
            continue
    else:
        pytest.skip("a plain user can read no Python here, or not the sources")
    value = Path(budget).read_text().strip()
    assert (one.before, one.undo) == (f"netdev_budget {value}", (("write", budget, value),))


def test_reading_a_plan_writes_nothing_and_starts_no_program(host: Namespace) -> None:
    """Of every kind of action that a namespace has; what NetworkManager says is asked for with
    nmcli -g (see `tests/probe/changes/test_changes_managed.py`)."""
    more = [
        f"bridge vlan add dev {LINK} vid 7",
        f"ethtool -G {LINK} rx 256",
        f"ethtool -C {LINK} rx-usecs 5",
        f"ethtool -p {LINK} 5",
        f"ip link set dev {LINK} up",
        "write /proc/sys/net/core/netdev_budget 600",
    ]
    actions = [*KINDS.values(), *([line.split()] for line in more)]
    command = [
        "ip",
        "netns",
        "exec",
        host.name,
        sys.executable,
        "-c",
        OBSERVED_PLAN,
        json.dumps(actions),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT)
    seen, kinds, refused = json.loads(done.stdout)
    assert seen == []
    assert kinds and all(kind % 4 == 2 for kind in kinds), "RTM_GET* are those with remainder 2"
    assert len(refused) < len(actions) // 2, refused
