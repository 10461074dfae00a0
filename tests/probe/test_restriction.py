"""The kernel holds a root probe to reading: it cannot write, start a program or signal, and loses
no reader."""

from __future__ import annotations

import array
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nictop.probe import restriction
from nictop.probe.kernel import landlock, other_processes, seccomp
from nictop.probe.kernel.capabilities import NUMBERS
from nictop.probe.records import Inventory
from tests.support.namespaces import ROOT, Namespace, why_no_namespaces
from tests.support.probe import TEST_TIMEOUT, Probe, is_alive, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def landlock_abi() -> int:
    """0: none."""
    try:
        return landlock.abi_version()
    except OSError:
        return 0


ABI = landlock_abi()
needs_landlock = pytest.mark.skipif(not ABI, reason="this kernel has no Landlock")
RESTRICTED = """
import sys
sys.path.insert(0, {root!r})
from nictop.probe import restriction
fields = restriction.restrict_process()
from nictop.probe.kernel.capabilities import keep_capabilities
import errno, fcntl, json, os, resource, socket, struct, subprocess
def attempt(name, function):
    try:
        function()
        done[name] = "done"
    except OSError as error:
        done[name] = errno.errorcode[error.errno]
done = {{}}
folder, stranger = sys.argv[1], int(sys.argv[2])
{attempts}
done["fields"] = fields
print(json.dumps(done))
"""
WRITES = {
    "write a file": "open(folder + '/file', 'w')",
    "truncate": "os.truncate(folder + '/file', 0)",
    "make a file": "open(folder + '/new', 'w')",
    "make a directory": "os.mkdir(folder + '/d')",
    "remove": "os.unlink(folder + '/file')",
    "rename": "os.rename(folder + '/file', folder + '/other')",
    "link": "os.link(folder + '/file', folder + '/other')",
    "symbolic link": "os.symlink('x', folder + '/s')",
    "fifo": "os.mkfifo(folder + '/f')",
    "socket": "socket.socket(socket.AF_UNIX).bind(folder + '/u')",
    "sysctl": "open('/proc/sys/kernel/hostname', 'w')",
    "sysfs": "open('/sys/class/net/lo/ifalias', 'w')",
    "its cgroup": "open('/sys/fs/cgroup/cgroup.procs', 'w')",
}
PROGRAMS = {
    "execute": "subprocess.run(['/bin/true'])",
    "another user": "os.setuid(1)",
    "look into a process": "os.readlink('/proc/%d/exe' % stranger)",
    "memory of a process": "open('/proc/%d/mem' % stranger, 'rb')",
    "TCP": "socket.socket().bind(('127.0.0.1', 0))",
    "packet socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "a capability that was given up": "keep_capabilities(['setuid']) or os.setuid(1)",
}
ATTRIBUTES = {
    "mode": "os.chmod(folder + '/file', 0o4777)",
    "mode of a descriptor": "os.fchmod(os.open(folder + '/file', os.O_RDONLY), 0o666)",
    "owner": "os.chown(folder + '/file', 0, 0)",
    "times": "os.utime(folder + '/file', (0, 0))",
    "flags": "fcntl.ioctl(os.open(folder + '/file', os.O_RDONLY), 0x40086602, struct.pack('l', 0))",
    "limits of a process": "resource.prlimit(stranger, resource.RLIMIT_CPU, (1, 1))",
    "extended attribute": "os.setxattr(folder + '/file', 'user.nictop', b'x')",
    "a program in memory": "os.execve(os.memfd_create('true'), ['true'], {})",
}
SIGNALS = {"signal": "os.kill(stranger, 0)", "signal init": "os.kill(1, 0)"}


def attempts(table: dict[str, str], folder: Path) -> dict[str, Any]:
    """What happens in a restricted process: "done", or the name of the error."""
    (folder / "file").write_text("content")
    lines = [f"attempt({name!r}, lambda: {code})" for name, code in table.items()]
    script = RESTRICTED.format(root=str(ROOT), attempts="\n".join(lines))
    with subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            argv = [sys.executable, "-c", script, str(folder), str(stranger.pid)]
            done = subprocess.run(argv, capture_output=True, check=True)
        finally:
            stranger.kill()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs_landlock
def test_nothing_is_written(tmp_path: Path) -> None:
    found = attempts(WRITES, tmp_path)
    refused = {
        name: found[name]
        for name in WRITES
        if os.path.exists("/sys/fs/cgroup/cgroup.procs") or "cgroup" not in name
    }
    if ABI < 3:
        refused.pop("truncate")
    assert set(refused.values()) <= {"EACCES", "EROFS", "EXDEV"}, refused
    assert (tmp_path / "file").read_text() == "content" and len(list(tmp_path.iterdir())) == 1


@needs_landlock
def test_nothing_is_executed_and_no_right_comes_back(tmp_path: Path) -> None:
    found = attempts(PROGRAMS, tmp_path)
    if ABI < 4:
        found.pop("TCP")
    assert {found[name] for name in PROGRAMS if name in found} <= {"EACCES", "EPERM"}, found


@pytest.mark.skipif(
    os.uname().machine not in seccomp.MACHINES,
    reason="the system calls of this machine are not known",
)
def test_no_attribute_of_a_file_or_process_is_changed(tmp_path: Path) -> None:
    """Landlock does not forbid it, and root needs no capability for files of its own."""
    found = attempts(ATTRIBUTES, tmp_path)
    assert found["fields"]["why_no_seccomp"] == ""
    assert {name: found[name] for name in ATTRIBUTES} == dict.fromkeys(ATTRIBUTES, "EPERM")
    status = (tmp_path / "file").stat()
    assert status.st_mode & 0o7777 == 0o644 and status.st_mtime > 1


@pytest.mark.skipif(
    landlock_abi() > ABI or ABI < 6, reason="this kernel has no Landlock for signals (Linux 6.12)"
)
def test_no_process_is_signalled(tmp_path: Path) -> None:
    found = attempts(SIGNALS, tmp_path)
    assert {found[name] for name in SIGNALS} == {"EPERM"}


READS = {
    "a file of another user": "open(folder + '/private/file').read()",
    "kernel messages": "os.open('/dev/kmsg', os.O_RDONLY | os.O_NONBLOCK)",
    "/dev/null": "open('/dev/null', 'w').write('x')",
    "the first words of a command": "open('/proc/%d/cmdline' % stranger).read()",
    "changes in other network namespaces": (
        "__import__('nictop.probe.events.kernel').probe.events.kernel._namespace_socket()"
    ),
}


def test_reading_goes_on(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "file").write_text("content")
    for path in (private / "file", private):
        path.chmod(0o700)
        os.chown(path, 1234, 1234)
    found = attempts(READS, tmp_path)
    assert {name: found[name] for name in READS} == dict.fromkeys(READS, "done")


def test_without_landlock_the_capabilities_are_given_up_and_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a child: what is given up does not come back."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:

            def refused() -> int:
                raise OSError(errno.EOPNOTSUPP, "")

            monkeypatch.setattr(landlock, "restrict_self", refused)
            os.write(writable, json.dumps(restriction.restrict_process()).encode())
        finally:
            os._exit(0)
    os.close(writable)
    with open(readable, "rb") as file:
        fields = json.load(file)
    os.waitpid(pid, 0)
    assert (
        fields["landlock"] is None
        and fields["why_no_landlock"] == "Landlock is not enabled at boot (lsm=)"
    )
    assert set(fields["capabilities"]) <= set(restriction.READERS)
    assert fields["why_no_seccomp"] == ""


# --------------------------------------------------------------------------------- the probe itself


def status_of(pid: int) -> dict[str, str]:
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def names_of(mask: str) -> set[str]:
    return {name for name, number in NUMBERS.items() if int(mask, 16) >> number & 1}


@pytest.mark.parametrize("options", [(), ("--allow-changes",)], ids=["reads", "may change"])
def test_a_root_probe_has_the_capabilities_of_its_readers_only(options: tuple[str, ...]) -> None:
    with Probe("--interval", "60", *options) as probe:
        found = probe.wait_for(lambda line: line.inventory).inventory
        status, helper = status_of(probe.process.pid), status_of(probe.helper())
    for kind in ("CapEff", "CapPrm", "CapBnd"):
        assert names_of(status[kind]) <= set(restriction.READERS)
        assert bin(int(status[kind], 16)).count("1") <= len(restriction.READERS)
    assert (
        int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0 and status["NoNewPrivs"] == "1"
    )
    assert helper["NoNewPrivs"] == ("0" if options else "1")
    assert found is not None and found.restriction is not None
    assert (found.restriction.landlock or 0) == ABI and found.restriction.allow_changes == bool(
        options
    )


def test_the_probe_of_a_user_has_no_helper_and_is_not_restricted() -> None:
    with Probe("--interval", "60", user=65534, python="/usr/bin/python3") as probe:
        found = probe.wait_for(lambda line: line.inventory).inventory
        assert probe.helper() == 0
    assert found is not None and found.restriction is None


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    reason = why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    made = Namespace()
    yield made
    made.remove()


UNRESTRICTED = """
import json, sys
sys.path.insert(0, {root!r})
from nictop.probe.inventory.collect import take_inventory
from nictop.probe.light_dataclasses import field_mapping
print(json.dumps(take_inventory("request"), default=field_mapping))
"""


def what_is_missing(inventory: dict[str, Any]) -> dict[str, Any]:
    """All reasons for absent values, by their place."""
    found = {}

    def visit(value: Any, place: str) -> None:
        if isinstance(value, dict):
            for name, part in value.items():
                if name == "unreadable":
                    found.update({f"{place}.{key}": why["reason"] for key, why in part.items()})
                else:
                    visit(part, f"{place}.{name}")
        elif isinstance(value, list):
            for number, part in enumerate(value):
                visit(part, f"{place}[{number}]")

    for source in (
        "unreadable",
        "links",
        "pci",
        "filters",
        "messages",
        "routing",
        "devlink",
        "platform",
        "settings",
    ):
        visit({source: inventory.get(source)}, "")
    return found


def test_no_reader_loses_anything(namespace: Namespace) -> None:
    """The inventory of a root probe, compared with one that nothing restricts."""
    namespace.run(
        [
            "sh",
            "-c",
            "nft add table inet t && nft add chain inet t c '{ type filter hook input priority 0; "
            "}'",
        ],
        check=False,
    )
    namespace.run(["iptables-legacy", "-A", "INPUT", "-j", "ACCEPT"], check=False)
    whole = json.loads(namespace.python(UNRESTRICTED.format(root=str(ROOT))))
    with Probe("--interval", "60", namespace=namespace) as probe:
        line = next(json.loads(raw) for raw in probe.raw_lines() if b'{"inventory"' in raw[:20])
    found = line["inventory"]
    assert what_is_missing(found) == what_is_missing(whole)
    assert found["filters"]["chains"] == whole["filters"]["chains"]
    assert (found["messages"] is None) == (whole["messages"] is None)


OWNER = """
import json, os, sys, time
sys.path.insert(0, {root!r})
from nictop.probe import restriction
helper = restriction.give_up_rights(allow_changes=False)
from nictop.probe.counters.on_demand.connections.owners import SocketOwners
from nictop.probe.inventory.machine.qemu import namespace_of
inode, stranger = map(int, sys.argv[1:])
owners, is_complete = SocketOwners(), False
while not is_complete:
    found, is_complete = owners.find([(inode, 0)], time.monotonic())
is_same = namespace_of(stranger, "/proc") == namespace_of("self", "/proc")
print(json.dumps([found[inode].get("pid"), owners.denied, is_same]))
helper.close()
"""


def test_descriptors_of_other_processes_are_read_through_the_helper() -> None:
    """A process that Landlock restricts cannot read /proc/PID/fd of another one."""
    code = (
        "import os, socket, sys; s = socket.socket(); print(os.fstat(s.fileno()).st_ino, "
        "flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None and owner.stdin is not None
        inode = int(owner.stdout.readline())
        argv = [sys.executable, "-c", OWNER.format(root=str(ROOT)), str(inode), str(owner.pid)]
        found = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
        owner.stdin.close()
    assert found == [owner.pid, False, True]


@pytest.mark.parametrize(
    "question",
    [
        {"pid": 1, "places": ["environ"]},
        {"pid": 1, "places": ["fd/../environ"]},
        {"pid": 0, "places": []},
        {"pid": "1/../2", "places": []},
        {"pid": 1, "places": ["fd/1"] * 100},
        {"lldpcli": "sh"},
        [],
    ],
)
def test_the_helper_answers_no_other_question(question: object) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    readable, writable = os.pipe()
    with ours, theirs:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [writable]))
        ours.sendmsg([json.dumps(question).encode()], [rights])
        os.close(writable)
        with pytest.raises(ValueError, match="not "):
            other_processes.answer_question(theirs)
    assert os.read(readable, 100) == b""
    os.close(readable)


def test_the_inventory_of_a_test_process_has_no_restriction() -> None:
    assert (
        restriction.read_restriction() is None
        and Inventory.__dataclass_fields__["restriction"].default is None
    )


LLDPCLI = """
import sys
sys.path.insert(0, {root!r})
from nictop.probe.kernel import other_processes
other_processes.LLDPCLI_DIRECTORIES = (sys.argv[1],)
from nictop.probe import restriction
helper = restriction.give_up_rights(allow_changes=False)
try:
    print(other_processes.lldpcli_output(other_processes.LLDPCLI_DIRECTORIES))
except OSError as error:
    print(type(error).__name__, error)
helper.close()
"""


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ('#!/bin/sh\necho "$@" $(id -u); exit 3', "(3, b'-f json0 show neighbors details 0\\n')"),
        ("#!/nonexistent/interpreter", "OSError [Errno 2] No such file or directory"),
        (None, "FileNotFoundError lldpcli is not installed"),
    ],
)
def test_lldpcli_is_run_by_the_helper(tmp_path: Path, script: str | None, found: str) -> None:
    if script is not None:
        (tmp_path / "lldpcli").write_text(script)
        (tmp_path / "lldpcli").chmod(0o755)
    argv = [sys.executable, "-c", LLDPCLI.format(root=str(ROOT)), str(tmp_path)]
    assert subprocess.run(argv, capture_output=True, check=True, text=True).stdout.startswith(found)


ENDED = """
import os, signal, sys
sys.path.insert(0, {root!r})
from nictop.probe import helper
made = helper.start_helper(allow_changes=False)
print(made._pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_helper_ends_with_a_probe_that_is_killed() -> None:
    argv = [sys.executable, "-c", ENDED.format(root=str(ROOT))]
    pid = int(subprocess.run(argv, capture_output=True, check=False).stdout)
    wait_until(lambda: not is_alive(pid))


def test_the_probe_ends_with_its_helper() -> None:
    with Probe("--interval", "60") as probe:
        probe.wait_for(lambda line: line.inventory)
        os.kill(probe.helper(), signal.SIGKILL)
        assert probe.process.wait(TEST_TIMEOUT) == 1
        assert (
            probe.process.stderr is not None
            and b"its helper has ended" in probe.process.stderr.read()
        )
