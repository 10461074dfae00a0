"""Network namespaces for tests that need real links."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")
ROOT = Path(__file__).resolve().parents[2]
CLONE_NEWNET = 0x40000000


class Namespace:
    """One network namespace with lo up."""

    def __init__(self) -> None:
        self.name = f"nictop-{uuid.uuid4().hex[:10]}"
        subprocess.run(["ip", "netns", "add", self.name], check=True, capture_output=True)
        self.run(["ip", "link", "set", "lo", "up"])

    def run(self, argv: list[str], *, check: bool = True, input: str | None = None) -> str:
        """Standard output of a command run in the namespace. CalledProcessError when it fails and
        `check` is set."""
        whole = ["ip", "netns", "exec", self.name, *argv]
        return subprocess.run(
            whole, check=check, capture_output=True, input=input, text=True, timeout=60
        ).stdout

    def python(self, code: str, *, interpreter: str = sys.executable) -> str:
        """Standard output of Python code run in the namespace, with the project on sys.path."""
        return self.run(
            [interpreter, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"]
        )

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function in the namespace; only this thread enters it, and returns to its own
        namespace afterwards."""
        libc = ctypes.CDLL(None, use_errno=True)
        with (
            open("/proc/thread-self/ns/net") as original,
            open(f"/run/netns/{self.name}") as target,
        ):
            enter(libc, target.fileno())
            try:
                return function()
            finally:
                enter(libc, original.fileno())

    def disable_ipv6(self) -> None:
        """Disable IPv6 on links made later, so that their state is stable (no duplicate address
        detection)."""
        for scope in ("all", "default"):
            self.run(["sh", "-c", f"echo 1 > /proc/sys/net/ipv6/conf/{scope}/disable_ipv6"])

    def try_link(self, *arguments: str) -> bool:
        """``ip link add …``; False when this kernel does not support the kind of link."""
        whole = ["ip", "-n", self.name, "link", "add", *arguments]
        done = subprocess.run(whole, capture_output=True, text=True, check=False)
        if done.returncode and (
            "not supported" in done.stderr or "Unknown device type" in done.stderr
        ):
            return False
        done.check_returncode()
        return True

    def remove(self) -> None:
        subprocess.run(["ip", "netns", "del", self.name], check=True, capture_output=True)


def holders(pid: int) -> list[int]:
    """Processes that hold the namespaces of the self-tests of a process (`nictop.lab.hold`)."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it has ended
        if b"nictop.lab.hold" in command and parent == pid:
            found.append(int(folder.name))
    return found


@contextmanager
def applied(namespace: Namespace, apply: str, revert: str) -> Iterator[None]:
    """Run a command, and at the end the one that reverts it."""
    namespace.run(shlex.split(apply))
    try:
        yield
    finally:
        namespace.run(shlex.split(revert))


def enter(libc: ctypes.CDLL, descriptor: int, kind: int = CLONE_NEWNET) -> None:
    """setns(2). `kind` 0: any kind of namespace."""
    if libc.setns(descriptor, kind):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def why_no_namespaces() -> str | None:
    """The reason why network namespaces cannot be made here; None when they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        namespace = Namespace()
    except FileNotFoundError:
        return "the ip command is not installed"
    except subprocess.CalledProcessError as error:
        return f"no network namespace can be made here: {error.stderr}"
    namespace.remove()
    return None


def join_by_veth(one: Namespace, other: Namespace, name: str) -> None:
    """A veth pair between two namespaces, up, with the same name at both ends."""
    one.run(["ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", other.name])
    for end in (one, other):
        end.run(["ip", "link", "set", "dev", name, "up"])
