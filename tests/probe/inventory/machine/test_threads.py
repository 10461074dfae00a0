"""Threads: a process with the properties of QEMU and a real tap, directories in place of procfs,
arbitrary bytes."""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.machine import threads
from nictop.probe.inventory.machine.qemu import (
    EMULATOR,
    is_emulator,
    parse_name,
    parse_nics,
    parse_options,
    parse_tap,
)
from nictop.probe.inventory.machine.threads import parse_flags, read_threads, thread_kind
from nictop.probe.kernel.sysfs import read_text
from nictop.probe.records import Link, Thread, Unreadable
from tests.support.namespaces import Namespace

KTHREAD_STAT = "{} (ksoftirqd/0) S 2 0 0 0 -1 69238848 0 0 0 0 17 255 0 0 20 0 1 0 60 0 0"
"""As on Linux 6.18; 69238848 has PF_KTHREAD."""
PROCESS_STAT = "{} (ksoftirqd/0) S 1 1 1 0 -1 4194560 0 0 0 0 17 255 0 0 20 0 1 0 60 0 0"

BY_LOADER = (*glob.glob("/lib*/ld-linux*.so.*")[:1], os.path.realpath(sys.executable))
"""As an emulator may be started: its program is the loader, which is believed."""
MACHINE = """
import fcntl, os, struct, sys, threading
descriptors = []
for number in range(2):
    descriptors.append(os.open("/dev/net/tun", os.O_RDWR))
    fcntl.ioctl(descriptors[-1], 0x400454CA, struct.pack("16sH22x", b"t0", 0x1102))
def name(task, comm):
    with open(f"/proc/self/task/{task}/comm", "w") as file:
        file.write(comm)
def vcpu(number):
    name(threading.get_native_id(), f"CPU {number}/KVM")
    started.wait()
    ended.wait()
started, ended = threading.Barrier(3), threading.Event()
for number in range(2):
    threading.Thread(target=vcpu, args=(number,), daemon=True).start()
name(os.getpid(), "qemu-system-x86")
started.wait()
print(os.getpid(), flush=True)
sys.stdin.read()
"""
READ = """
import json
from nictop.probe.inventory.links.reader import read_links
from nictop.probe.inventory.machine.threads import read_threads
found, trouble = read_threads(read_links()[0])
assert trouble is None, trouble
from nictop.probe.light_dataclasses import field_mapping
print(json.dumps(found, default=field_mapping))
"""


def link(ifindex: int, name: str, kind: str | None) -> Link:
    return Link(ifindex, name, 1, 0, "up", True, 1500, kind=kind)


class Proc:
    """A directory in place of procfs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.process(1, "systemd")
        self.namespace("self", 1)

    def process(
        self, pid: int, comm: str, command: tuple[str, ...] = (), stat: str = PROCESS_STAT
    ) -> Path:
        folder = self.root / str(pid)
        folder.mkdir(parents=True)
        (folder / "comm").write_text(comm + "\n")
        (folder / "stat").write_text(stat.format(pid) + "\n")
        (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in command))
        (folder / "fd").mkdir()
        (folder / "fdinfo").mkdir()
        self.thread(pid, pid, comm)
        return folder

    def thread(self, pid: int, tid: int, comm: str) -> None:
        folder = self.root / f"{pid}/task/{tid}"
        folder.mkdir(parents=True)
        (folder / "comm").write_text(comm + "\n")

    def descriptor(self, pid: int, number: int, target: str, information: str = "") -> None:
        (self.root / f"{pid}/fd/{number}").symlink_to(target)
        (self.root / f"{pid}/fdinfo/{number}").write_text(
            f"pos:\t0\nflags:\t0104002\n{information}"
        )

    def namespace(self, process: int | str, number: int) -> None:
        (self.root / f"{process}/ns").mkdir(parents=True)
        (self.root / f"{process}/ns/net").symlink_to(f"net:[{number}]")

    def read(self, *links: Link) -> tuple[Thread, ...]:
        found, trouble = read_threads(links, str(self.root))
        assert trouble is None
        return found


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path / "proc")


@pytest.fixture
def machine(namespace: Namespace) -> Iterator[int]:
    """Pid of a process in `namespace` with the name, arguments, threads and tap of QEMU; ended
    afterwards."""
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("no /dev/net/tun here")
    namespace.run(["ip", "tuntap", "add", "t0", "mode", "tap", "multi_queue"])
    argv = [
        "ip",
        "netns",
        "exec",
        namespace.name,
        *BY_LOADER,
        "-c",
        MACHINE,
        "-name",
        "guest=web,,1,debug-threads=on",
    ]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()


def test_a_process_with_the_properties_of_qemu(namespace: Namespace, machine: int) -> None:
    index = json.loads(namespace.run(["ip", "-j", "link", "show", "t0"]))[0]["ifindex"]
    every = msgspec.json.decode(namespace.python(READ), type=list[Thread])
    found = [thread for thread in every if thread.pid == machine]
    assert [(thread.name, thread.kind) for thread in found] == [
        ("qemu-system-x86", "vm"),
        ("CPU 0/KVM", "vcpu"),
        ("CPU 1/KVM", "vcpu"),
    ]
    assert {(thread.machine, thread.links) for thread in found} == {("web,1", (index,))}
    assert {thread.tid for thread in found} == {
        int(name) for name in os.listdir(f"/proc/{machine}/task")
    }


def test_its_tap_seen_from_another_namespace(machine: int) -> None:
    found = [thread for thread in read_threads([link(7, "t1", "tun")])[0] if thread.pid == machine]
    assert len(found) == 3
    assert {thread.links for thread in found} == {()}
    assert found[0].unreadable == {
        "links": Unreadable("missing", "t0: in another network namespace")
    }


def test_ksoftirqd_of_this_machine() -> None:
    found, trouble = read_threads([])
    daemons = {thread.name: thread for thread in found if thread.kind == "ksoftirqd"}
    if not daemons:
        pytest.skip("no kernel threads here (a process namespace)")
    assert trouble is None
    online = sum(
        name[:3] == "cpu" and name[3:].isdigit() for name in os.listdir("/sys/devices/system/cpu")
    )
    assert 0 < len(daemons) <= online
    for name, thread in daemons.items():
        assert Path(f"/proc/{thread.tid}/comm").read_text() == name + "\n"
        assert (thread.pid, thread.machine, thread.links) == (thread.tid, None, ())


def test_kernel_threads_by_name_and_flag(proc: Proc) -> None:
    proc.process(14, "ksoftirqd/0", stat=KTHREAD_STAT)
    proc.process(15, "napi/eth0-8193", stat=KTHREAD_STAT)
    proc.process(16, "ksoftirqd/1", stat=PROCESS_STAT)
    proc.process(17, "kworker/0:1", stat=KTHREAD_STAT)
    proc.process(18, "napi", stat=KTHREAD_STAT)
    assert proc.read() == (
        Thread(14, 14, "ksoftirqd/0", "ksoftirqd"),
        Thread(15, 15, "napi/eth0-8193", "napi"),
    )


def test_vhost_threads_before_linux_6_4(proc: Proc) -> None:
    proc.process(4000, "kvm", ("/usr/bin/kvm", "-id", "101", "-name", "web,debug-threads=on"))
    proc.thread(4000, 4005, "CPU 0/KVM")
    proc.descriptor(4000, 30, "/dev/net/tun", "iff:\ttap101i0\n")
    proc.process(4010, "vhost-4000", stat=KTHREAD_STAT)
    proc.process(4011, "vhost-4005", stat=KTHREAD_STAT)
    proc.process(4012, "vhost-77", stat=KTHREAD_STAT)
    found = {thread.tid: thread for thread in proc.read(link(9, "tap101i0", "tun"))}
    assert found[4005] == Thread(4005, 4000, "CPU 0/KVM", "vcpu", "web", (9,))
    assert found[4010] == Thread(4010, 4010, "vhost-4000", "vhost", "web", (9,))
    assert found[4011].machine == "web"
    assert found[4012] == Thread(4012, 4012, "vhost-77", "vhost")


def test_vhost_threads_since_linux_6_4(proc: Proc) -> None:
    proc.process(4000, "qemu-kvm", ("/usr/libexec/qemu-kvm", "-name", "guest=db,debug-threads=on"))
    proc.thread(4000, 4010, "vhost-4000")
    proc.thread(4000, 4011, "IO iothread1")
    assert [(thread.tid, thread.pid, thread.kind, thread.machine) for thread in proc.read()] == [
        (4000, 4000, "vm", "db"),
        (4010, 4000, "vhost", "db"),
        (4011, 4000, "vm", "db"),
    ]


def test_macvtap_links_by_ifindex_and_taps_by_name_and_kind(proc: Proc) -> None:
    proc.process(50, "qemu-system-x86", ("qemu-system-x86_64", "-name", "a"))
    proc.descriptor(50, 3, "/dev/tap12")
    proc.descriptor(50, 4, "/dev/tap12")
    proc.descriptor(50, 5, "/dev/net/tun", "iff:\tt0\n")
    proc.descriptor(50, 6, "/dev/net/tun", "iff:\t\n")
    proc.descriptor(50, 7, "anon_inode:kvm-vm")
    proc.descriptor(50, 8, "/dev/vhost-net")
    links = (link(12, "macvtap0", "macvtap"), link(5, "t0", "tun"), link(6, "t1", "tun"))
    assert [(thread.links, thread.unreadable) for thread in proc.read(*links)] == [((5, 12), {})]
    (other,) = proc.read(link(12, "eth3", "veth"), link(5, "t0", "dummy"))
    assert other.links == ()
    assert other.unreadable == {
        "links": Unreadable("missing", "t0, tap12: in another network namespace")
    }


def test_the_same_tap_name_in_several_namespaces(proc: Proc) -> None:
    for pid, number in ((50, 1), (60, 2), (70, 3)):
        proc.process(pid, "qemu-system-x86", ("qemu-system-x86_64", "-name", f"m{pid}"))
        proc.namespace(pid, number)
        proc.descriptor(pid, 5, "/dev/net/tun", "iff:\ttap0\n")
    found = {thread.machine: thread for thread in proc.read(link(5, "tap0", "tun"))}
    assert {name: thread.links for name, thread in found.items()} == {
        "m50": (5,),
        "m60": (),
        "m70": (),
    }
    assert found["m60"].unreadable["links"].detail == "in another network namespace"


def test_a_tap_of_this_namespace_used_by_a_process_of_another_one(proc: Proc) -> None:
    proc.process(60, "qemu-system-x86", ("qemu-system-x86_64",))
    proc.namespace(60, 2)
    proc.descriptor(60, 5, "/dev/net/tun", "iff:\ttap0\n")
    (found,) = proc.read(link(5, "tap0", "tun"))
    assert (found.machine, found.links, found.unreadable) == ("pid 60", (5,), {})


@pytest.mark.parametrize(
    ("comm", "command", "is_one"),
    [
        ("kvm", ("/usr/bin/kvm", "-id", "100"), True),
        ("qemu-system-x86", ("qemu-system-x86_64",), True),
        ("qemu:web", ("/usr/bin/qemu-system-x86_64",), True),
        (
            "ld-linux-x86-64",
            ("/lib64/ld-linux-x86-64.so.2", "--library-path", "/x", "/y/qemu-system-x86_64"),
            True,
        ),
        (".qemu-system-x8", ("/nix/store/x/bin/.qemu-system-x86_64-wrapped",), True),
        ("ld-linux-x86-64", ("/lib64/ld-linux-x86-64.so.2", "/bin/ls", "-l"), False),
        ("qemu-ga", ("/usr/bin/qemu-ga", "-m", "virtio-serial"), False),
        ("qemu-img", ("qemu-img", "convert", "a", "b"), False),
        ("qemu-aarch64-st", ("qemu-aarch64-static", "/bin/true"), False),
        ("kvm-pit/77", (), False),
        ("kvm", (), False),
    ],
)
def test_processes_that_are_emulators(
    proc: Proc, comm: str, command: tuple[str, ...], is_one: bool
) -> None:
    proc.process(90, comm, command)
    assert bool(proc.read()) is is_one


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("-name", "guest=web-1,debug-threads=on"), "web-1"),
        (("-name", "debug-threads=on,guest=web-1"), "web-1"),
        (("-name", "web-1,process=x"), "web-1"),
        (("--name", "web-1"), "web-1"),
        (("-name", "a,,b,debug-threads=on"), "a,b"),
        (("-name", "a=b"), None),
        (("-name", "debug-threads=on", "-id", "104"), "104"),
        (("-id", "104", "-name", "db,debug-threads=on"), "db"),
        (("-name", "first", "-name", "guest=second"), "second"),
        (("-name", "first", "-name", "debug-threads=on"), "first"),
        (("-name", "größe"), "größe"),
        (("-m", "1024", "-name"), None),
    ],
)
def test_names_of_machines(arguments: tuple[str, ...], name: str | None) -> None:
    assert parse_name("\0".join(("/usr/bin/kvm", *arguments))) == name


@pytest.mark.parametrize(
    ("comm", "kind"),
    [
        ("CPU 0/KVM", "vcpu"),
        ("CPU 127/TCG", "vcpu"),
        ("ALL CPUs/TCG", "vcpu"),
        ("vhost-4000", "vhost"),
        ("kvm", "vm"),
        ("vnc_worker", "vm"),
        ("CPU", "vm"),
        ("vhost-web", "vm"),
    ],
)
def test_thread_kinds(comm: str, kind: str) -> None:
    assert thread_kind(comm) == kind


def test_processes_that_end_while_they_are_read(proc: Proc) -> None:
    proc.process(20, "bash")
    (proc.root / "20/comm").unlink()
    proc.process(21, "ksoftirqd/0", stat=KTHREAD_STAT)
    (proc.root / "21/stat").unlink()
    for pid, name in ((22, "cmdline"), (23, "comm")):
        proc.process(pid, "kvm", ("kvm", "-name", f"m{pid}"))
        proc.thread(pid, pid + 100, "CPU 0/KVM")
        (proc.root / f"{pid}/task/{pid}/comm").unlink()
        (proc.root / f"{pid}/{name}").unlink()
    proc.process(24, "kvm", ("kvm", "-name", "m24"))
    proc.thread(24, 124, "CPU 0/KVM")
    (proc.root / "24/task/124/comm").unlink()
    proc.descriptor(24, 5, "/dev/net/tun", "iff:\tt0\n")
    (proc.root / "24/fdinfo/5").unlink()
    assert proc.read(link(5, "t0", "tun")) == (Thread(24, 24, "kvm", "vm", "m24"),)


def test_hidepid_is_reported(proc: Proc, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    (hidden / "4242").mkdir(parents=True)
    (hidden / "4242/comm").write_text("bash\n")
    assert read_threads([], str(hidden)) == ((), Unreadable("needs_root", f"{hidden}: hidepid"))
    assert read_threads([], str(tmp_path / "none")) == ((), None)


def test_descriptors_of_another_user_need_root(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.process(50, "kvm", ("kvm", "-name", "a"))
    real = os.listdir

    def listdir(path: str) -> list[str]:
        if path.endswith("/50/fd"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr("nictop.probe.inventory.machine.qemu.os.listdir", listdir)
    (found,) = proc.read(link(5, "t0", "tun"))
    assert (found.machine, found.links) == ("a", ())
    assert found.unreadable["links"].reason == "needs_root"


def test_the_number_of_threads_is_limited(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MAX_MACHINE_THREADS", 3)
    for pid in (50, 60):
        proc.process(pid, "kvm", ("kvm", "-name", f"m{pid}"))
        proc.thread(pid, pid + 1, "CPU 0/KVM")
    found, trouble = read_threads([], str(proc.root))
    assert [thread.tid for thread in found] == [50, 51, 60]
    assert trouble is not None
    assert trouble.detail == "more than 3 threads of virtual machines"


def test_one_file_is_opened_per_irrelevant_process(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in range(100, 300):
        proc.process(pid, "kworker/0:1" if pid % 2 else "nginx")
    opened: list[str] = []

    def counted(path: str) -> str | Unreadable:
        opened.append(path)
        return read_text(path)

    monkeypatch.setattr("nictop.probe.inventory.machine.processes.read_text", counted)
    monkeypatch.setattr("nictop.probe.inventory.machine.threads.read_text", counted)
    monkeypatch.setattr("nictop.probe.inventory.machine.qemu.read_text", counted)
    assert proc.read() == ()
    assert sorted(opened) == sorted(f"{proc.root}/{pid}/comm" for pid in (1, *range(100, 300)))


def test_mac_addresses_behind_taps(proc: Proc) -> None:
    """The options of Proxmox; those in JSON of newer programs. libvirt passes open descriptors
    without a name."""
    options = (
        *(
            "-netdev",
            "type=tap,id=net0,ifname=tap100i0,script=/usr/libexec/qemu-server/pve-bridge,vhost=on",
        ),
        *(
            "-device",
            "virtio-net-pci,mac=BC:24:11:00:00:01,netdev=net0,bus=pci.0,addr=0x12,id=net0",
        ),
        *("-netdev", '{"type":"tap","id":"net1","ifname":"tap100i1"}'),
        *("-device", '{"driver":"e1000","netdev":"net1","mac":"bc:24:11:00:00:02","bootindex":1}'),
        *(
            "-netdev",
            "tap,fd=33,id=hostnet0",
            "-device",
            "virtio-net-pci,netdev=hostnet0,mac=52:54:00:00:00:01",
        ),
        *(
            "-netdev",
            "user,id=net2",
            "-device",
            "e1000,netdev=net2,mac=none",
            "-device",
            "{",
            "-device",
            "[" * 9,
        ),
    )
    assert parse_nics("\0".join(options)) == {
        "tap100i0": "bc:24:11:00:00:01",
        "tap100i1": "bc:24:11:00:00:02",
    }
    proc.process(50, "kvm", ("/usr/bin/kvm", "-id", "100", *options))
    proc.thread(50, 51, "CPU 0/KVM")
    proc.descriptor(50, 3, "/dev/net/tun", "iff:\ttap100i0\n")
    found = proc.read(link(5, "tap100i0", "tun"), link(6, "tap100i1", "tun"))
    assert [thread.nics for thread in found] == [{5: "bc:24:11:00:00:01"}, {}]


@given(st.text(), st.text())
def test_any_command_line_can_be_parsed(comm: str, command: str) -> None:
    assert all(address == address.lower() for address in parse_nics(command).values())
    assert all(isinstance(text, str) for text in parse_options(command).values())
    name = parse_name(command)
    assert name is None or ("\0" not in name and name != "")
    assert not is_emulator(comm, command) or EMULATOR.search(f"{comm} {command}") is not None
    assert is_emulator(comm, f"/usr/bin/kvm\0{command}")


@given(st.text())
def test_any_name_stat_and_fdinfo_can_be_parsed(text: str) -> None:
    assert thread_kind(text) in ("vcpu", "vhost", "vm")
    flags = parse_flags(text)
    assert flags is None or isinstance(flags, int)
    tap = parse_tap(text)
    assert tap is None or f"iff:\t{tap}" in text


@given(st.binary(max_size=16))
def test_flags_after_a_name_with_spaces_and_parentheses(comm: bytes) -> None:
    name = comm.decode("utf-8", "replace")
    assert parse_flags(f"14 ({name}) S 2 0 0 0 -1 69238848 0 0 0") == 69238848


def test_flags_of_this_process() -> None:
    flags = parse_flags(Path("/proc/self/stat").read_text())
    assert flags is not None
    assert not flags & threads.PF_KTHREAD
