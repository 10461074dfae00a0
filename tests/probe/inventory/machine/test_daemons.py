"""Daemons: real processes with their names, containers, which must be ignored, arbitrary command
lines and statuses."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.machine.daemons import namespace_depth, program, read_services
from nictop.probe.inventory.machine.processes import read_processes
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import Services, Unreadable
from tests.support.namespaces import Namespace
from tests.support.probe import wait_until

HERE, THERE = 1, 2
"""Network namespaces in the test's procfs directory."""


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A directory in place of procfs; its reader is in network namespace HERE."""
    root = tmp_path / "proc"
    process(root, 1, "systemd")
    (root / "self/ns").mkdir(parents=True)
    (root / "self/ns/net").symlink_to(f"net:[{HERE}]")
    return root


def process(
    root: Path,
    pid: int,
    comm: str,
    command: str = "",
    *,
    namespaces: str = "",
    network: int | None = HERE,
) -> None:
    folder = root / str(pid)
    (folder / "ns").mkdir(parents=True)
    (folder / "comm").write_text(comm + "\n")
    (folder / "cmdline").write_text(command)
    (folder / "status").write_text(
        f"Name:\t{comm}\nNStgid:\t{pid}{namespaces}\nNSpid:\t{pid}{namespaces}\nVmPeak:\t1\n"
    )
    if network is not None:
        (folder / "ns/net").symlink_to(f"net:[{network}]")


def services(root: Path) -> Services:
    names, trouble = read_processes(str(root))
    assert trouble is None
    return read_services(names, str(root))


@contextmanager
def running(*argv: str) -> Iterator[int]:
    """Pid of a copy of cat, which has its name after its first output; it runs until the end of its
    input."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        try:
            started.stdin.write(b"is it there\n")
            started.stdin.flush()
            assert started.stdout.readline() == b"is it there\n"
            yield started.pid
        finally:
            started.stdin.close()


def named(tmp_path: Path, name: str) -> Path:
    """cat under another name."""
    found = shutil.which("cat")
    if found is None:
        pytest.skip("no cat to copy")
    return Path(shutil.copy(found, tmp_path / name))


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("NetworkManager", "networkmanager"),
        ("systemd-networkd", "networkd"),
        ("irqbalance", "irqbalance"),
        ("vmtoolsd", "vmware_tools"),
        ("virtqemud", "libvirt"),
        ("ovs-vswitchd", "openvswitch"),
        ("google_guest_agent", "google_guest_agent"),
        ("google_guest_agent_manager", "google_guest_agent"),
    ],
)
def test_a_real_process_of_that_name_is_found(tmp_path: Path, name: str, field: str) -> None:
    """With the comm of the kernel, truncated to 15 bytes, and readable namespaces."""
    before = read_services(read_processes()[0])
    if getattr(before, field) is not None:
        pytest.skip(f"{name} runs here")
    with running(str(named(tmp_path, name))) as pid:
        found = read_services(read_processes()[0])
        assert {
            key: value
            for key, value in field_mapping(found).items()
            if value != field_mapping(before)[key]
        } == {field: pid}


@pytest.mark.parametrize(
    ("name", "comm", "field"),
    [
        ("systemd-networkd-wait-online", "systemd-network", "networkd"),
        ("google_guest_agent_netevent", "google_guest_ag", "google_guest_agent"),
    ],
)
def test_another_program_with_the_same_truncated_name(
    tmp_path: Path, name: str, comm: str, field: str
) -> None:
    before = read_services(read_processes()[0])
    with running(str(named(tmp_path, name))) as pid:
        assert Path(f"/proc/{pid}/comm").read_text() == f"{comm}\n"
        assert getattr(read_services(read_processes()[0]), field) == getattr(before, field)


def test_a_manager_in_another_network_namespace_is_ignored(
    namespace: Namespace, tmp_path: Path
) -> None:
    program = str(named(tmp_path, "NetworkManager"))
    with running("ip", "netns", "exec", namespace.name, program) as pid:
        assert (
            read_services(read_processes()[0]).networkmanager != pid
        )  # another one may be started or stopped in between
        inside = namespace.python(
            "from nictop.probe.inventory.machine.processes import read_processes\n"
            "from nictop.probe.inventory.machine.daemons import read_services\n"
            "print(read_services(read_processes()[0]).networkmanager)"
        )
        assert int(inside) == pid


def test_a_manager_that_has_ended_is_ignored(namespace: Namespace, tmp_path: Path) -> None:
    """A zombie keeps its name, and its network namespace cannot be read any more."""
    program = str(named(tmp_path, "NetworkManager"))
    ended = subprocess.Popen(["ip", "netns", "exec", namespace.name, program])
    try:
        wait_until(lambda: Path(f"/proc/{ended.pid}/comm").read_text() == "NetworkManager\n")
        os.kill(ended.pid, signal.SIGKILL)
        wait_until(lambda: "\nState:\tZ" in Path(f"/proc/{ended.pid}/status").read_text())
        processes = read_processes()[0]
        assert processes[ended.pid] == "NetworkManager"
        assert read_services({ended.pid: processes[ended.pid]}).networkmanager is None
    finally:
        ended.kill()
        ended.wait()


def test_daemons_of_containers_are_ignored(proc: Path) -> None:
    process(proc, 20, "irqbalance", namespaces="\t7")
    process(proc, 21, "irqbalance")
    process(proc, 22, "tuned", namespaces="\t8\t1")
    process(proc, 30, "NetworkManager", namespaces="\t7", network=THERE)
    process(proc, 31, "ovs-vswitchd", namespaces="\t9", network=HERE)
    assert services(proc) == Services(irqbalance=21, openvswitch=31)


def test_containers_are_detected_by_process_namespace_without_root(proc: Path) -> None:
    process(proc, 20, "NetworkManager", namespaces="\t7", network=None)
    assert services(proc) == Services()
    process(proc, 21, "NetworkManager", network=None)
    assert services(proc) == Services(networkmanager=21)


def test_the_lowest_pid_is_used_and_ended_processes_are_ignored(proc: Path) -> None:
    process(proc, 50, "pvedaemon", "pvedaemon")
    process(proc, 51, "pmxcfs")
    process(proc, 40, "systemd-network", "/usr/lib/systemd/systemd-networkd\0")
    process(proc, 39, "systemd-network", "/usr/lib/systemd/systemd-networkd-wait-online\0")
    process(proc, 60, "qemu-ga")
    (proc / "60/status").unlink()
    assert services(proc) == Services(proxmox=50, networkd=40, qemu_guest_agent=60)


def test_hidden_and_missing_processes(tmp_path: Path) -> None:
    (tmp_path / "4242").mkdir()
    (tmp_path / "4242/comm").write_text("bash\n")
    assert read_processes(str(tmp_path)) == (
        {4242: "bash"},
        Unreadable("needs_root", f"{tmp_path}: hidepid"),
    )
    assert read_processes(str(tmp_path / "none")) == ({}, None)
    (tmp_path / "file").write_text("")
    assert read_processes(str(tmp_path / "file"))[1] == Unreadable(
        "failed", f"{tmp_path}/file: ENOTDIR"
    )


def test_names_of_the_processes_of_this_machine() -> None:
    found, trouble = read_processes()
    assert trouble is None
    assert found[os.getpid()] == Path("/proc/self/comm").read_text().rstrip("\n")
    assert list(found) == sorted(found)


@given(st.text(), st.text())
def test_any_command_line_and_status_can_be_parsed(command: str, status: str) -> None:
    assert "/" not in program(command)
    assert "\0" not in program(command)
    assert namespace_depth(status) >= 1


@given(st.lists(st.integers(min_value=0, max_value=4194304), min_size=1, max_size=32))
def test_namespace_depth(numbers: list[int]) -> None:
    line = "NSpid:" + "".join(f"\t{number}" for number in numbers)
    assert namespace_depth(f"NStgid:\t1\n{line}\nNSpgid:\t1\t2\t3\n") == len(numbers)
