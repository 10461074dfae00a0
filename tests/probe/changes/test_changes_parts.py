"""Parts of a change without a probe: IRQ affinity and SR-IOV below other roots, VFs in use, link
dependents, locks, programs, processes."""

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

from nictop.probe.changes import apply, executor, locks
from nictop.probe.changes.networkmanager.guard import RolledBack
from nictop.probe.changes.vfs_in_use import find_vf_in_use
from nictop.probe.plan import planner, programs
from nictop.probe.plan.current_state import Roots, comparable, equal
from nictop.probe.plan.grammar.actions import parse_action
from nictop.probe.plan.lifelines import (
    DEFAULT_ROUTE,
    OTHER_SSH,
    OWN_SSH,
    SshRoute,
    dependents_by_link,
    parse_environment,
    read_ssh_connection,
)
from nictop.probe.plan.pipe import ReportPipe
from nictop.probe.plan.plan import ChangePlan, only_stores_the_mtu, read_plan
from nictop.probe.plan.requests import PLAN_TIMEOUT
from nictop.probe.records import Address, DefaultRoute, Link
from tests.support.lines import link
from tests.support.namespaces import ROOT, Namespace
from tests.support.probe import TEST_TIMEOUT, is_alive, wait_until

FUNCTION = "0000:3b:00.0"
NUMVFS = f"/sys/bus/pci/devices/{FUNCTION}/sriov_numvfs"
AFFINITY = "/proc/irq/30/smp_affinity_list"


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    """A physical function with 8 possible VFs and none created, and an interrupt."""
    device = tmp_path / "sys/bus/pci/devices" / FUNCTION
    device.mkdir(parents=True)
    (device / "sriov_numvfs").write_text("0\n")
    (device / "sriov_totalvfs").write_text("8\n")
    irq = tmp_path / "proc/irq/30"
    irq.mkdir(parents=True)
    (irq / "smp_affinity_list").write_text("0-3\n")
    return Roots(str(tmp_path / "sys"), str(tmp_path / "proc"))


def apply_all(plan: ChangePlan, roots: Roots) -> None:
    for operation in plan.operations:
        apply.apply_operation(operation, roots, dict(operation.settings))


def path_of(roots: Roots, path: str) -> Path:
    return Path(roots.path(path))


def test_irq_affinity_is_set_and_restored(roots: Roots) -> None:
    plan = read_plan([["write", AFFINITY, "1"]], roots)
    (shown,) = plan.actions
    assert (shown.subject, shown.before, shown.after) == (
        "irq 30",
        "smp_affinity_list 0-3",
        "smp_affinity_list 1",
    )
    assert shown.undo == plan.undo == (("write", AFFINITY, "0-3"),)
    assert plan.subjects == ("irq 30",) and not plan.needs_second_yes
    apply_all(plan, roots)
    assert path_of(roots, AFFINITY).read_text() == "1\n"
    assert apply.roll_back(plan.undo, roots) == []
    assert path_of(roots, AFFINITY).read_text() == "0-3\n"


def test_irq_without_cpus_is_refused(roots: Roots) -> None:
    path_of(roots, AFFINITY).write_text("\n")
    with pytest.raises(ValueError, match="has no CPU list that could be restored"):
        read_plan([["write", AFFINITY, "1"]], roots)
    with pytest.raises(ValueError, match="irq 31 has no smp_affinity_list"):
        read_plan([["write", "/proc/irq/31/smp_affinity_list", "1"]], roots)


def virtual_function(roots: Roots, number: int, driver: str | None, *interfaces: str) -> None:
    """virtfnN of the physical function, with a driver and interfaces."""
    folder = Path(roots.sys, "bus/pci/devices")
    function = folder / f"0000:3b:02.{number}"
    function.mkdir()
    (folder / FUNCTION / f"virtfn{number}").symlink_to(f"../{function.name}")
    if driver is not None:
        (function / "driver").symlink_to(f"../../drivers/{driver}")
    for name in interfaces:
        (function / "net" / name).mkdir(parents=True)
        folder_path = Path(roots.sys, "class/net", name)
        folder_path.mkdir(parents=True)
        (folder_path / "flags").write_text("0x1002\n")


def test_vfs_are_only_created_from_zero(roots: Roots) -> None:
    plan = read_plan([["write", NUMVFS, "4"]], roots)
    assert plan.undo == (("write", NUMVFS, "0"),) and plan.actions[0].before == "sriov_numvfs 0"
    apply_all(plan, roots)
    with pytest.raises(ValueError, match="already has 4 VFs: another number would remove them"):
        read_plan([["write", NUMVFS, "8"]], roots)
    assert apply.roll_back(plan.undo, roots) == []
    assert path_of(roots, NUMVFS).read_text() == "0\n"
    with pytest.raises(ValueError, match="supports 8 VFs"):
        read_plan([["write", NUMVFS, "9"]], roots)


@pytest.mark.parametrize(
    ("driver", "interfaces", "reason"),
    [
        (None, (), ""),
        ("iavf", ("vf0",), ""),
        ("vfio-pci", (), "passed through to a guest (vfio-pci)"),
        ("iavf", (), "has no interface here"),
    ],
)
def test_vfs_in_use_are_not_removed(
    roots: Roots,
    driver: str | None,
    interfaces: tuple[str, ...],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A guest must not lose its NIC because the change was not confirmed."""
    monkeypatch.setattr(apply, "UNDO_RETRY_SECONDS", 0.0)
    path_of(roots, NUMVFS).write_text("2\n")
    virtual_function(roots, 0, None)
    virtual_function(roots, 1, driver, *interfaces)
    problems = apply.roll_back([["write", NUMVFS, "0"]], roots)
    assert [reason in sentence for sentence in problems] == [True] * bool(reason)
    assert path_of(roots, NUMVFS).read_text() == ("2\n" if reason else "0\n")


def test_vf_interface_with_addresses_is_in_use(roots: Roots, namespace: Namespace) -> None:
    virtual_function(roots, 0, "iavf", "vf0")
    namespace.disable_ipv6()
    namespace.run(["ip", "link", "add", "name", "vf0", "type", "bridge"])
    device = str(Path(roots.path(NUMVFS)).parent)
    assert namespace.call(lambda: find_vf_in_use(device, roots)) == ""
    namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "vf0"])
    assert (
        namespace.call(lambda: find_vf_in_use(device, roots))
        == "0000:3b:02.0 is vf0 with 192.0.2.1"
    )
    Path(roots.sys, "class/net/vf0/master").symlink_to("../br0")
    assert find_vf_in_use(device, roots) == "0000:3b:02.0 is vf0, a port of br0"


# ------------------------------------------------------------------------------------------- values


def test_equal_values_in_other_notation() -> None:
    for key, one, other in (
        ("rx-0/rps_cpus", "f", "00000000,0000000f"),
        ("tx-1/xps_cpus", "0", "00"),
        ("smp_affinity_list", "0-2", "0,1,2"),
    ):
        assert equal({key: one}, {key: other}) and not equal({key: one}, {key: "5"})
    assert not equal({"rx 1": "0"}, {}) and not equal({"mtu": "1"}, {"mtu": "01"})


@given(st.sampled_from(["rx-0/rps_cpus", "smp_affinity_list", "mtu"]), st.text(max_size=12))
def test_any_value_is_comparable(key: str, value: str) -> None:
    assert comparable(key, value) == comparable(key, value)
    assert equal({key: value}, {key: value})


# ---------------------------------------------------------------------------------- link dependents


def network_link(
    ifindex: int, name: str, address: str = "", *, default: bool = False, **fields: object
) -> Link:
    addresses = (Address("ipv4", address, 24, "global", ()),) if address else ()
    routes = (DefaultRoute("ipv4", "192.0.2.1", 0, 254),) if default else ()
    return link(ifindex, name, addresses=addresses, default_routes=routes, **fields)


def test_dependents_by_link() -> None:
    """A bridge depends on its ports, a VLAN on its lower link; a veth has no lower link."""
    links = (
        network_link(2, "ens4", master=5),
        network_link(3, "ens5"),
        network_link(4, "ens6", default=True, lower=3, kind="veth"),
        network_link(5, "br0"),
        network_link(6, "br0.7", "192.0.2.9", lower=5, kind="vlan"),
        network_link(7, "far", "198.51.100.1", lower=2, lower_namespace=0, kind="macvlan"),
    )
    by_ssh = dict.fromkeys(("ens4", "br0", "br0.7"), (OWN_SSH,))
    default = {"ens6": (DEFAULT_ROUTE,)}
    assert dependents_by_link(links, [SshRoute(OWN_SSH, "192.0.2.9")]) == {**by_ssh, **default}
    assert dependents_by_link(links, [SshRoute(OWN_SSH, "198.51.100.1")]) == {
        "far": (OWN_SSH,),
        **default,
    }
    assert (
        dependents_by_link(links, [])
        == dependents_by_link(links, [SshRoute(OWN_SSH, "203.0.113.1")])
        == default
    )
    both = network_link(1, "a", "192.0.2.9", default=True)
    assert dependents_by_link((both,), [SshRoute(OWN_SSH, "192.0.2.9")]) == {
        "a": (OWN_SSH, DEFAULT_ROUTE)
    }


def test_connection_with_asymmetric_route() -> None:
    links = (
        network_link(2, "ens4", "192.0.2.9"),
        network_link(3, "ens5"),
        network_link(4, "ens6", master=5),
        network_link(5, "br0"),
    )
    own, another = SshRoute(OWN_SSH, "192.0.2.9", 3), SshRoute(OTHER_SSH, "192.0.2.9", 5)
    assert dependents_by_link(links, [own]) == {"ens4": (OWN_SSH,), "ens5": (OWN_SSH,)}
    expected = {
        "ens4": (OWN_SSH, OTHER_SSH),
        "ens5": (OWN_SSH,),
        "ens6": (OTHER_SSH,),
        "br0": (OTHER_SSH,),
    }
    assert dependents_by_link(links, [another, own]) == expected


def test_cyclic_links_terminate() -> None:
    links = (
        network_link(1, "a", default=True, master=2),
        network_link(2, "b", master=1, default=True),
    )
    assert set(dependents_by_link(links, [])) == {"a", "b"}


@pytest.mark.parametrize(
    ("value", "connection"),
    [
        (b"SSH_CONNECTION=198.51.100.1 50000 192.0.2.2 22", (("198.51.100.1", "192.0.2.2"), 22)),
        (
            b"A=B\0SSH_CONNECTION=2001:db8::1 50000 2001:DB8::2 2222\0C=D",
            (("2001:db8::1", "2001:db8::2"), 2222),
        ),
        (
            b"SSH_CONNECTION=::ffff:198.51.100.1 50000 ::ffff:192.0.2.2 22",
            (("198.51.100.1", "192.0.2.2"), 22),
        ),
        (b"SSH_CONNECTION=fe80::1%eth0 50000 fe80::2%eth0 22", (("fe80::1", "fe80::2"), 22)),
        (b"SSH_CONNECTION=198.51.100.1 50000 192.0.2.2 x", None),
        (b"SSH_CONNECTION=nonsense", None),
        (b"XSSH_CONNECTION=1 2 3 4", None),
    ],
)
def test_ssh_connection_in_environment(value: bytes, connection: object) -> None:
    assert parse_environment(value) == connection


@given(st.binary(max_size=200))
def test_any_environment_is_parsed(data: bytes) -> None:
    assert parse_environment(data) is None or b"SSH_CONNECTION=" in data


def test_ssh_session_is_found_above_sudo() -> None:
    """A child without the variable, whose parent has it."""
    code = (
        "import subprocess, sys; subprocess.run(['env', '-u', 'SSH_CONNECTION', 'sh', '-c', "
        "'echo $$; read x; :'])"
    )
    environment = {**os.environ, "SSH_CONNECTION": "198.51.100.1 50000 192.0.2.2 22"}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        pid = int(process.stdout.readline())
        assert read_ssh_connection(pid=pid) == (("198.51.100.1", "192.0.2.2"), 22)
        process.stdin.close()
        process.wait(TEST_TIMEOUT)
    assert read_ssh_connection(pid=1) is None


# ------------------------------------------------------------------------------------------- locks


@pytest.fixture
def subject() -> Iterator[str]:
    return iter([f"test {os.urandom(6).hex()}"])


def test_lock_is_exclusive_and_released_with_its_last_holder(subject: Iterator[str]) -> None:
    """A program that inherited the lock holds it after the process that started it has closed
    it."""
    (name,) = subject
    held = locks.acquire([name, f"{name} b"])
    with pytest.raises(
        ValueError,
        match=rf"another change of {name} is in progress: process {os.getpid()} of \w+, this probe",
    ):
        locks.acquire([name])
    with pytest.raises(ValueError, match=f"another change of {name} b"):
        locks.acquire([f"{name} a", f"{name} b"])
    locks.acquire([f"{name} a"]).close()
    with subprocess.Popen(["sleep", "60"], pass_fds=held.descriptors) as program:
        held.close()
        with pytest.raises(ValueError, match="in progress"):
            locks.acquire([name])
        program.kill()
    locks.acquire([name, f"{name} b"]).close()


def test_acquire_waits_for_locks(subject: Iterator[str]) -> None:
    (name,) = subject
    held = locks.acquire([name])
    with subprocess.Popen(["sleep", "0.2"], pass_fds=held.descriptors):
        held.close()
        locks.acquire([name], 20.0).close()


def test_link_subject_is_named_by_interface() -> None:
    assert locks.subject_name(f"link {socket.if_nametoindex('lo')}") == "lo"
    assert (locks.subject_name("link 999999"), locks.subject_name("irq 30")) == (
        "link 999999",
        "irq 30",
    )


# ----------------------------------------------------------------------------------------- programs


def test_arguments_reach_a_program_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No shell, no PATH, none of the user's variables."""
    output_file = tmp_path / "arguments"
    program = tmp_path / "nmcli"
    program.write_text(
        f'#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done > {output_file}\nenv >> '
        f"{output_file}\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(
        programs, "PROGRAM_DIRECTORIES", (str(tmp_path), *programs.PROGRAM_DIRECTORIES)
    )
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("PATH", "/nowhere")
    name = 'it\'s "mine" $(touch x) `y` ; & | *'
    apply.apply_operation(
        parse_action(["nmcli", "con", "mod", "id", name, "ipv4.method", "auto"]), Roots(), {}
    )
    words, variables = (
        output_file.read_text().splitlines()[:9],
        output_file.read_text().splitlines()[9:],
    )
    assert words == ["--wait", "60", "con", "mod", "--temporary", "id", name, "ipv4.method", "auto"]
    assert {line.partition("=")[0] for line in variables} <= {
        "LC_ALL",
        "PATH",
        "PWD",
        "_",
        "SHLVL",
        "OLDPWD",
    }


def test_program_failure_and_timeout_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ethtool"
    program.write_text("#!/bin/sh\necho first\nprintf 'no \\033[31mway\\n' >&2\nexit 7\n")
    program.chmod(0o755)
    monkeypatch.setattr(programs, "PROGRAM_DIRECTORIES", (str(tmp_path),))
    with pytest.raises(ValueError, match=r"^ethtool -L ens4: no  \[31mway$"):
        apply.run_program(["ethtool", "-L", "ens4", "combined", "4"])
    pid = tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ > {pid}\nexec /bin/sleep 600\n")
    monkeypatch.setattr(apply, "PROGRAM_TIMEOUT", 0.3)
    with pytest.raises(ValueError, match=r"did not end within 0\.3 s and was stopped"):
        apply.run_program(["ethtool", "-L", "ens4", "combined", "4"])
    wait_until(lambda: not is_alive(int(pid.read_text())))
    with pytest.raises(ValueError, match="ip is not installed"):
        apply.run_program(["ip", "link"])


def test_program_is_killed_when_the_change_is_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When connection lost, the guard does not wait for the end of DHCP."""
    pid = tmp_path / "pid"
    program = tmp_path / "nmcli"
    program.write_text(f"#!/bin/sh\necho $$ > {pid}\nexec /bin/sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(programs, "PROGRAM_DIRECTORIES", (str(tmp_path),))

    def on_poll() -> None:
        if pid.exists():
            raise RolledBack("connection lost")

    with pytest.raises(RolledBack):
        apply.run_program(["nmcli", "con", "up", "x"], (), on_poll)
    wait_until(lambda: not is_alive(int(pid.read_text())))


# ------------------------------------------------------------------------------------------- clocks

WALL_CLOCK_NAMES = {
    "time.time",
    "time.time_ns",
    "time.localtime",
    "time.gmtime",
    "time.ctime",
    "time.CLOCK_REALTIME",
}
CHANGE_SOURCES = [
    path
    for folder in ("changes", "plan")
    for path in (ROOT / "nictop/probe" / folder).rglob("*.py")
]


def wall_clock_uses(source: str) -> list[str]:
    """Names in the source that read the time of day, and imports of datetime."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in WALL_CLOCK_NAMES:
            found.append(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom) and node.module in ("time", "datetime"):
            found += [f"{node.module}.{one.name}" for one in node.names]
        elif isinstance(node, ast.Import):
            found += [one.name for one in node.names if one.name == "datetime"]
    return found


def test_a_step_of_the_time_of_day_has_no_effect_on_a_change() -> None:
    """Nothing that makes or undoes a change reads it: deadlines are those of CLOCK_MONOTONIC."""
    uses = {str(path): wall_clock_uses(path.read_text()) for path in CHANGE_SOURCES}
    assert len(uses) > 20 and not any(uses.values()), uses
    assert wall_clock_uses("import time\nfrom time import time\ntime.time()\nimport datetime") == [
        *("time.time", "datetime", "time.time")
    ]


# ------------------------------------------------------------------------------ the guard's process


def test_detached_process(tmp_path: Path) -> None:
    """It is no child, inherits no descriptors, has left the control group, and sees the end of its
    pipe."""
    for hierarchy in ("", "systemd", "pids"):
        (tmp_path / "fs/cgroup" / hierarchy).mkdir(parents=True, exist_ok=True)
        (tmp_path / "fs/cgroup" / hierarchy / "cgroup.procs").write_text("")
    code = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from nictop.probe.kernel import daemonize
def work(reports, commands):
    descriptors = sorted(map(int, os.listdir("/proc/self/fd")))[:-1]
    os.write(reports, repr((os.getpid(), os.getsid(0), descriptors)).encode() + b"\\n")
    assert os.read(commands, 9) == b"", "the end of the pipe"
    os.write(reports, b"over")
pipes, pid = daemonize.start(work, sys={str(tmp_path)!r})
os.set_blocking(pipes.reports, True)
print(os.getpid(), pid, os.read(pipes.reports, 999).decode(), flush=True)
os.close(pipes.commands)
pipes.commands = -1
print(os.read(pipes.reports, 999).decode())
try:
    os.wait()
except ChildProcessError:
    print("no child")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, _, over, no_child = done.stdout.splitlines()
    parent, pid, rest = first.split(" ", 2)
    its_pid, session, descriptors = ast.literal_eval(rest)
    assert pid == "0" and its_pid != int(parent) and session not in (its_pid, int(parent))
    assert len(descriptors) == 5 and descriptors[:3] == [0, 1, 2]
    assert (over, no_child) == ("over", "no child")
    wait_until(lambda: not is_alive(its_pid))
    assert [
        (tmp_path / "fs/cgroup" / one / "cgroup.procs").read_text()
        for one in ("", "systemd", "pids")
    ] == ["0"] * 3


def test_dropped_line_does_not_corrupt_the_next() -> None:
    """The pipe is not read for a while; the last line is complete nevertheless."""
    readable, writable = os.pipe()
    try:
        pipe = ReportPipe(writable, "a")
        assert pipe.send({"text": "x" * 200_000}, 0.0) is False
        assert pipe.send({"text": "lost"}, 0.0) is False
        os.set_blocking(readable, False)
        while True:
            try:
                os.read(readable, 1 << 20)
            except BlockingIOError:
                break
        pipe.finish("kept")
        lines = os.read(readable, 1 << 20).split(b"\n")
        assert lines[0] == lines[-1] == b"" and json.loads(lines[1])["line"]["kind"] == "kept"
    finally:
        os.close(readable)
        os.close(writable)


def test_hanging_driver_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is read by a child, which is killed after its timeout; then the next request is
    served."""

    def block_forever(*_: object) -> None:
        select.select([], [], [])

    if os.geteuid() != 0:
        pytest.skip("nothing is read for anybody but root")
    reports: list[dict[str, Any]] = []
    poll = select.poll()
    changes = executor.Executor(reports.append, poll)
    request = {"id": "a", "step": "prepare", "actions": [["reboot"]]}
    with monkeypatch.context() as patched:
        patched.setattr(planner, "read_plan", block_forever)
        changes.handle_request(request, 0.0)
    deadline = changes.next_deadline()
    assert deadline == PLAN_TIMEOUT
    changes.advance(deadline - 1)
    changes.handle_request({**request, "id": "b"}, 1.0)
    assert "another change is in progress: a" in reports.pop()["text"]
    changes.advance(deadline)
    handle_until_reported(changes, poll, reports)
    assert "the current state could not be read within 50 s" in reports.pop()["text"]
    assert changes.next_deadline() is None
    changes.handle_request(request, 0.0)
    handle_until_reported(changes, poll, reports)
    assert (
        "only nmcli, ethtool, ip, bridge and writes to some kernel files are allowed"
        in reports[-1]["text"]
    )
    changes.close()


def handle_until_reported(
    changes: executor.Executor, poll: select.poll, reports: list[dict[str, Any]]
) -> None:
    """Handle events until something has been reported."""
    while not reports:
        ((descriptor, _), *_) = poll.poll(20_000)
        changes.handle_readable(descriptor, 0.0)


def test_the_kinds_that_only_store_an_mtu() -> None:
    links = [network_link(2, "ens1"), network_link(3, "v1", kind="veth")]
    links.append(network_link(4, "bond0", kind="bond"))
    found = [link.name for link in links if only_stores_the_mtu(link.name, links)]
    assert found == ["v1"]
