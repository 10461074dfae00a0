"""What a change stands on, piece by piece: interrupts and SR-IOV with roots of their own, what is in use, life lines,
locks, and the running of programs."""

from __future__ import annotations

import ast
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.changes import apply as execute
from nictop.probe.changes import executor, locks
from nictop.probe.changes.grammar.actions import parse_action
from nictop.probe.changes.networkmanager.guard import RolledBack
from nictop.probe.changes.pipe import ReportPipe
from nictop.probe.changes.plan.current_state import Roots, meaning, same
from nictop.probe.changes.plan.lifelines import (
    ANOTHER_SSH,
    DEFAULT_ROUTE,
    SSH,
    SshWay,
    lifelines,
    parse_environment,
    read_ssh_connection,
)
from nictop.probe.changes.plan.plan import ChangePlan, read_plan
from nictop.probe.changes.plan.vfs_in_use import why_in_use
from nictop.probe.records import Address, DefaultRoute, Link
from tests.support.lines import link
from tests.support.namespaces import ROOT, Namespace
from tests.support.probe import LIMIT, alive, wait_until

FUNCTION = "0000:3b:00.0"
NUMVFS = f"/sys/bus/pci/devices/{FUNCTION}/sriov_numvfs"
AFFINITY = "/proc/irq/30/smp_affinity_list"


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    """A physical function of eight VFs without any, and an interrupt."""
    device = tmp_path / "sys/bus/pci/devices" / FUNCTION
    device.mkdir(parents=True)
    (device / "sriov_numvfs").write_text("0\n")
    (device / "sriov_totalvfs").write_text("8\n")
    irq = tmp_path / "proc/irq/30"
    irq.mkdir(parents=True)
    (irq / "smp_affinity_list").write_text("0-3\n")
    return Roots(str(tmp_path / "sys"), str(tmp_path / "proc"))


def do_all(plan: ChangePlan, roots: Roots) -> None:
    for operation in plan.operations:
        execute.do(operation, roots, dict(operation.settings))


def file(roots: Roots, path: str) -> Path:
    return Path(roots.file(path))


def test_interrupts_are_spread_and_put_back(roots: Roots) -> None:
    plan = read_plan([["write", AFFINITY, "1"]], roots)
    (shown,) = plan.shown
    assert (shown.subject, shown.before, shown.after) == ("irq 30", "smp_affinity_list 0-3", "smp_affinity_list 1")
    assert shown.undo == plan.undo == (("write", AFFINITY, "0-3"),)
    assert plan.subjects == ("irq 30",) and not plan.needs_second_yes
    do_all(plan, roots)
    assert file(roots, AFFINITY).read_text() == "1\n"
    assert execute.take_back(plan.undo, roots) == []
    assert file(roots, AFFINITY).read_text() == "0-3\n"


def test_an_interrupt_without_processors_is_left_alone(roots: Roots) -> None:
    file(roots, AFFINITY).write_text("\n")
    with pytest.raises(ValueError, match="no CPUs now"):
        read_plan([["write", AFFINITY, "1"]], roots)
    with pytest.raises(ValueError, match="irq 31 has no smp_affinity_list"):
        read_plan([["write", "/proc/irq/31/smp_affinity_list", "1"]], roots)


def virtual_function(roots: Roots, number: int, driver: str | None, *interfaces: str) -> None:
    """virtfnN of the function, bound to a driver, with its interfaces."""
    folder = Path(roots.sys, "bus/pci/devices")
    function = folder / f"0000:3b:02.{number}"
    function.mkdir()
    (folder / FUNCTION / f"virtfn{number}").symlink_to(f"../{function.name}")
    if driver is not None:
        (function / "driver").symlink_to(f"../../drivers/{driver}")
    for name in interfaces:
        (function / "net" / name).mkdir(parents=True)
        place = Path(roots.sys, "class/net", name)
        place.mkdir(parents=True)
        (place / "flags").write_text("0x1002\n")


def test_virtual_functions_are_made_from_none_only(roots: Roots) -> None:
    plan = read_plan([["write", NUMVFS, "4"]], roots)
    assert plan.undo == (("write", NUMVFS, "0"),) and plan.shown[0].before == "sriov_numvfs 0"
    do_all(plan, roots)
    with pytest.raises(ValueError, match="has 4 VFs: their number is set from 0 only"):
        read_plan([["write", NUMVFS, "8"]], roots)
    assert execute.take_back(plan.undo, roots) == []
    assert file(roots, NUMVFS).read_text() == "0\n"
    with pytest.raises(ValueError, match="can have 8 VFs"):
        read_plan([["write", NUMVFS, "9"]], roots)


@pytest.mark.parametrize(
    ("driver", "interfaces", "why"),
    [
        (None, (), ""),
        ("iavf", ("vf0",), ""),
        ("vfio-pci", (), "passed through (vfio-pci)"),
        ("iavf", (), "has no interface here"),
    ],
)
def test_virtual_functions_in_use_stay(
    roots: Roots, driver: str | None, interfaces: tuple[str, ...], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest must not lose its NIC because nobody said "keep"."""
    monkeypatch.setattr(execute, "PAUSE", 0.0)
    file(roots, NUMVFS).write_text("2\n")
    virtual_function(roots, 0, None)
    virtual_function(roots, 1, driver, *interfaces)
    stayed = execute.take_back([["write", NUMVFS, "0"]], roots)
    assert [why in sentence for sentence in stayed] == [True] * bool(why)
    assert file(roots, NUMVFS).read_text() == ("2\n" if why else "0\n")


def test_an_interface_of_a_virtual_function_with_addresses_is_in_use(roots: Roots, namespace: Namespace) -> None:
    virtual_function(roots, 0, "iavf", "vf0")
    namespace.silence()
    namespace.run(["ip", "link", "add", "name", "vf0", "type", "bridge"])
    device = str(Path(roots.file(NUMVFS)).parent)
    assert namespace.inside(lambda: why_in_use(device, roots)) == ""
    namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "vf0"])
    assert namespace.inside(lambda: why_in_use(device, roots)) == "0000:3b:02.0 is vf0 with 192.0.2.1"
    Path(roots.sys, "class/net/vf0/master").symlink_to("../br0")
    assert why_in_use(device, roots) == "0000:3b:02.0 is vf0, a port of br0"


# ------------------------------------------------------------------------------------------- states


def test_values_that_mean_the_same() -> None:
    for key, one, other in (
        ("rx-0/rps_cpus", "f", "00000000,0000000f"),
        ("tx-1/xps_cpus", "0", "00"),
        ("smp_affinity_list", "0-2", "0,1,2"),
    ):
        assert same({key: one}, {key: other}) and not same({key: one}, {key: "5"})
    assert not same({"rx 1": "0"}, {}) and not same({"mtu": "1"}, {"mtu": "01"})


@given(st.sampled_from(["rx-0/rps_cpus", "smp_affinity_list", "mtu"]), st.text(max_size=12))
def test_any_value_can_be_compared(key: str, value: str) -> None:
    assert meaning(key, value) == meaning(key, value)
    assert same({key: value}, {key: value})


# ------------------------------------------------------------------------------------------- life lines


def carrier(ifindex: int, name: str, address: str = "", *, default: bool = False, **fields: object) -> Link:
    addresses = (Address("ipv4", address, 24, "global", ()),) if address else ()
    routes = (DefaultRoute("ipv4", "192.0.2.1", 0, 254),) if default else ()
    return link(ifindex, name, addresses=addresses, default_routes=routes, **fields)


def test_what_goes_over_which_link() -> None:
    """A bridge carries by its ports, a VLAN by what it stands on; a veth stands on nobody."""
    links = (
        carrier(2, "ens4", master=5),
        carrier(3, "ens5"),
        carrier(4, "ens6", default=True, lower=3, kind="veth"),
        carrier(5, "br0"),
        carrier(6, "br0.7", "192.0.2.9", lower=5, kind="vlan"),
        carrier(7, "far", "198.51.100.1", lower=2, lower_namespace=0, kind="macvlan"),
    )
    by_ssh = dict.fromkeys(("ens4", "br0", "br0.7"), (SSH,))
    default = {"ens6": (DEFAULT_ROUTE,)}
    assert lifelines(links, [SshWay(SSH, "192.0.2.9")]) == {**by_ssh, **default}
    assert lifelines(links, [SshWay(SSH, "198.51.100.1")]) == {"far": (SSH,), **default}
    assert lifelines(links, []) == lifelines(links, [SshWay(SSH, "203.0.113.1")]) == default
    both = carrier(1, "a", "192.0.2.9", default=True)
    assert lifelines((both,), [SshWay(SSH, "192.0.2.9")]) == {"a": (SSH, DEFAULT_ROUTE)}


def test_a_connection_may_leave_by_another_link_than_it_comes_by() -> None:
    links = (carrier(2, "ens4", "192.0.2.9"), carrier(3, "ens5"), carrier(4, "ens6", master=5), carrier(5, "br0"))
    own, another = SshWay(SSH, "192.0.2.9", 3), SshWay(ANOTHER_SSH, "192.0.2.9", 5)
    assert lifelines(links, [own]) == {"ens4": (SSH,), "ens5": (SSH,)}
    expected = {"ens4": (SSH, ANOTHER_SSH), "ens5": (SSH,), "ens6": (ANOTHER_SSH,), "br0": (ANOTHER_SSH,)}
    assert lifelines(links, [another, own]) == expected


def test_links_in_a_circle_end() -> None:
    links = (carrier(1, "a", default=True, master=2), carrier(2, "b", master=1, default=True))
    assert set(lifelines(links, [])) == {"a", "b"}


@pytest.mark.parametrize(
    ("value", "connection"),
    [
        (b"SSH_CONNECTION=198.51.100.1 50000 192.0.2.2 22", (("198.51.100.1", "192.0.2.2"), 22)),
        (
            b"A=B\0SSH_CONNECTION=2001:db8::1 50000 2001:DB8::2 2222\0C=D",
            (("2001:db8::1", "2001:db8::2"), 2222),
        ),
        (b"SSH_CONNECTION=::ffff:198.51.100.1 50000 ::ffff:192.0.2.2 22", (("198.51.100.1", "192.0.2.2"), 22)),
        (b"SSH_CONNECTION=fe80::1%eth0 50000 fe80::2%eth0 22", (("fe80::1", "fe80::2"), 22)),
        (b"SSH_CONNECTION=198.51.100.1 50000 192.0.2.2 x", None),
        (b"SSH_CONNECTION=nonsense", None),
        (b"XSSH_CONNECTION=1 2 3 4", None),
    ],
)
def test_the_environment_of_an_ssh_session(value: bytes, connection: object) -> None:
    assert parse_environment(value) == connection


@given(st.binary(max_size=200))
def test_any_environment(data: bytes) -> None:
    assert parse_environment(data) is None or b"SSH_CONNECTION=" in data


def test_the_ssh_session_is_found_behind_sudo() -> None:
    """A child without the variable, whose parent has it."""
    code = "import subprocess, sys; subprocess.run(['env', '-u', 'SSH_CONNECTION', 'sh', '-c', 'echo $$; read x; :'])"
    environment = {**os.environ, "SSH_CONNECTION": "198.51.100.1 50000 192.0.2.2 22"}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        pid = int(process.stdout.readline())
        assert read_ssh_connection(pid=pid) == (("198.51.100.1", "192.0.2.2"), 22)
        process.stdin.close()
        process.wait(LIMIT)
    assert read_ssh_connection(pid=1) is None


# ------------------------------------------------------------------------------------------- locks


@pytest.fixture
def subject() -> Iterator[str]:
    return iter([f"test {os.urandom(6).hex()}"])


def test_a_lock_is_held_once_and_freed_with_its_last_holder(subject: Iterator[str]) -> None:
    """Also by a program that was started with it, when who started it is long gone."""
    (name,) = subject
    held = locks.take([name, f"{name} b"])
    with pytest.raises(
        ValueError, match=rf"another change of {name} is under way: process {os.getpid()} of \w+, this one"
    ):
        locks.take([name])
    with pytest.raises(ValueError, match=f"another change of {name} b"):
        locks.take([f"{name} a", f"{name} b"])
    locks.take([f"{name} a"]).close()
    with subprocess.Popen(["sleep", "60"], pass_fds=held.descriptors) as program:
        held.close()
        with pytest.raises(ValueError, match="under way"):
            locks.take([name])
        program.kill()
    locks.take([name, f"{name} b"]).close()


def test_locks_are_waited_for(subject: Iterator[str]) -> None:
    (name,) = subject
    held = locks.take([name])
    with subprocess.Popen(["sleep", "0.2"], pass_fds=held.descriptors):
        held.close()
        locks.take([name], 20.0).close()


def test_a_link_is_called_by_its_name() -> None:
    assert locks.named(f"link {socket.if_nametoindex('lo')}") == "lo"
    assert (locks.named("link 999999"), locks.named("irq 30")) == ("link 999999", "irq 30")


# ------------------------------------------------------------------------------------------- programs


def test_words_reach_a_program_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No shell, no PATH, none of the user's variables."""
    told = tmp_path / "told"
    program = tmp_path / "nmcli"
    program.write_text(f'#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done > {told}\nenv >> {told}\n')
    program.chmod(0o755)
    monkeypatch.setattr(execute, "DIRECTORIES", (str(tmp_path), *execute.DIRECTORIES))
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("PATH", "/nowhere")
    name = 'it\'s "mine" $(touch x) `y` ; & | *'
    execute.do(parse_action(["nmcli", "con", "mod", "id", name, "ipv4.method", "auto"]), Roots(), {})
    words, variables = told.read_text().splitlines()[:8], told.read_text().splitlines()[8:]
    assert words == ["--wait", "60", "con", "mod", "id", name, "ipv4.method", "auto"]
    assert {line.partition("=")[0] for line in variables} <= {"LC_ALL", "PATH", "PWD", "_", "SHLVL", "OLDPWD"}


def test_a_program_that_fails_or_hangs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ethtool"
    program.write_text("#!/bin/sh\necho first\nprintf 'no \\033[31mway\\n' >&2\nexit 7\n")
    program.chmod(0o755)
    monkeypatch.setattr(execute, "DIRECTORIES", (str(tmp_path),))
    with pytest.raises(ValueError, match=r"^ethtool -L ens4: no  \[31mway$"):
        execute.run(["ethtool", "-L", "ens4", "combined", "4"])
    pid = tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ > {pid}\nexec /bin/sleep 600\n")
    monkeypatch.setattr(execute, "DEADLINE", 0.3)
    with pytest.raises(ValueError, match=r"took more than 0\.3 s and was ended"):
        execute.run(["ethtool", "-L", "ens4", "combined", "4"])
    wait_until(lambda: not alive(int(pid.read_text())))
    with pytest.raises(ValueError, match="ip is not installed"):
        execute.run(["ip", "link"])


def test_a_program_is_ended_when_its_change_shall_not_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is gone need not wait for DHCP to give up."""
    pid = tmp_path / "pid"
    program = tmp_path / "nmcli"
    program.write_text(f"#!/bin/sh\necho $$ > {pid}\nexec /bin/sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(execute, "DIRECTORIES", (str(tmp_path),))

    def glance() -> None:
        if pid.exists():
            raise RolledBack("the connection is gone")

    with pytest.raises(RolledBack):
        execute.run(["nmcli", "con", "up", "x"], (), glance)
    wait_until(lambda: not alive(int(pid.read_text())))


# ------------------------------------------------------------------------------------------- the guard's process


def test_a_process_of_its_own(tmp_path: Path) -> None:
    """Nobody's child, without the descriptors of whoever made it, out of the control group, and told of the end."""
    for hierarchy in ("", "systemd"):
        (tmp_path / "fs/cgroup" / hierarchy).mkdir(parents=True, exist_ok=True)
        (tmp_path / "fs/cgroup" / hierarchy / "cgroup.procs").write_text("")
    code = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from nictop.probe.changes import daemonize as detached
def work(voice, control):
    descriptors = sorted(map(int, os.listdir("/proc/self/fd")))[:-1]
    os.write(voice, repr((os.getpid(), os.getsid(0), descriptors)).encode() + b"\\n")
    assert os.read(control, 9) == b"", "the end of the pipe"
    os.write(voice, b"over")
pipes, pid = detached.start(work, sys={str(tmp_path)!r})
os.set_blocking(pipes.listen, True)
print(os.getpid(), pid, os.read(pipes.listen, 999).decode(), flush=True)
os.close(pipes.tell)
pipes.tell = -1
print(os.read(pipes.listen, 999).decode())
try:
    os.wait()
except ChildProcessError:
    print("nobody's child")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, _, over, nobody = done.stdout.splitlines()
    parent, pid, rest = first.split(" ", 2)
    its_pid, session, descriptors = ast.literal_eval(rest)
    assert pid == "0" and its_pid != int(parent) and session not in (its_pid, int(parent))
    assert len(descriptors) == 5 and descriptors[:3] == [0, 1, 2]
    assert (over, nobody) == ("over", "nobody's child")
    wait_until(lambda: not alive(its_pid))
    assert [(tmp_path / "fs/cgroup" / one / "cgroup.procs").read_text() for one in ("", "systemd")] == ["0", "0"]


def test_a_line_that_is_given_up_does_not_spoil_the_next() -> None:
    """Nobody reads for a while; the last word is heard nevertheless."""
    listen, voice = os.pipe()
    try:
        said = ReportPipe(voice, "a")
        assert said.tell({"text": "x" * 200_000}, 0.0) is False
        assert said.tell({"text": "lost"}, 0.0) is False
        os.set_blocking(listen, False)
        while True:
            try:
                os.read(listen, 1 << 20)
            except BlockingIOError:
                break
        said.end("kept")
        lines = os.read(listen, 1 << 20).split(b"\n")
        assert lines[0] == lines[-1] == b"" and json.loads(lines[1])["say"]["kind"] == "kept"
    finally:
        os.close(listen)
        os.close(voice)


def test_a_driver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on the host is read by a child, which is ended when its time is over; then the next request is served."""

    def hang(*_: object) -> None:
        select.select([], [], [])

    if os.geteuid() != 0:
        pytest.skip("nothing is read for anybody but root")
    said: list[dict[str, Any]] = []
    poll = select.poll()
    one = executor.Executor(said.append, poll)
    wish = {"id": "a", "step": "prepare", "actions": [["reboot"]]}
    with monkeypatch.context() as patched:
        patched.setattr(executor, "read_plan", hang)
        one.obey(wish, 0.0)
    due = one.next_moment()
    assert due == executor.LONGEST_LOOK
    one.advance(due - 1)
    one.obey({**wish, "id": "b"}, 1.0)
    assert "another change under way: a" in said.pop()["text"]
    one.advance(due)
    serve(one, poll, said)
    assert "took more than 20 s" in said.pop()["text"]
    assert one.next_moment() is None
    one.obey(wish, 0.0)
    serve(one, poll, said)
    assert "nothing else" in said[-1]["text"]
    one.close()


def serve(one: executor.Executor, poll: select.poll, said: list[dict[str, Any]]) -> None:
    """Until something has been said."""
    while not said:
        ((descriptor, _), *_) = poll.poll(20_000)
        one.take(descriptor, 0.0)
