"""Runs a command of the hypervisor in the network namespace of a container or of a name of `ip
netns`, where the way through a tool is not open: the container has no Python, or there is no ip.

As `ip netns exec` does it: the command has a mount namespace of its own in which /sys is that of
the network namespace. Nothing else of the container is entered.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess

from nictop.probe.reach.problem import NEVER_STATUS, GuestProblem, one_line, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_REC, MS_SLAVE = 0x4000, 0x80000
MNT_DETACH = 2
NETNS_FOLDER = "/run/netns"
TOOL_SECONDS = 20.0
MAX_TEXT_CHARS = 300


def docker_pid(tool: str, name: str) -> int:
    return number_in(output([tool, "inspect", "--format", "{{.State.Pid}}", name]))


def lxc_pid(name: str) -> int:
    return number_in(output(["lxc-info", "-n", name, "-p", "-H"]))


def incus_pid(name: str) -> int:
    """From ``incus query /1.0/instances/c1/state``."""
    for tool in ("incus", "lxc"):
        try:
            state = json.loads(output([tool, "query", f"/1.0/instances/{name}/state"]))
        except (GuestProblem, ValueError, RecursionError):
            continue
        return number_in(str(state.get("pid", 0))[:32]) if isinstance(state, dict) else 0
    raise GuestProblem(f"incus does not know {name}")


def nspawn_pid(name: str) -> int:
    return number_in(output(["machinectl", "show", name, "-p", "Leader", "--value"]))


def pod_pid(name: str) -> int:
    """Of the sandbox, which has the network namespace."""
    namespace, pod = name.split("/")[:2]
    wanted = "^{}$".format(pod.replace(".", "[.]"))  # crictl takes an expression
    listed = ["crictl", "pods", "-q", "--state", "ready", "--namespace", namespace]
    found = output([*listed, "--name", wanted]).split()
    if not found:
        raise GuestProblem(f"crictl knows no pod {name} on this node that is ready")
    if len(found) > 1:
        raise GuestProblem(f"crictl knows {len(found)} pods {name} on this node")
    try:
        return int(
            json.loads(output(["crictl", "inspectp", "-o", "json", found[0]]))["info"]["pid"]
        )
    except (ValueError, LookupError, TypeError, RecursionError):
        raise GuestProblem(f"crictl does not tell the process of pod {name}") from None


PIDS: dict[str, Callable[[str], int]] = {
    "docker": lambda name: docker_pid("docker", name),
    "podman": lambda name: docker_pid("podman", name),
    "lxc": lxc_pid,
    "incus": incus_pid,
    "nspawn": nspawn_pid,
    "pod": pod_pid,
}
"""Kind of a container → process ID of its first process."""


def output(words: Sequence[str]) -> str:
    """What a tool prints. Raises GuestProblem."""
    try:
        completed = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=TOOL_SECONDS,
            check=False,
        )
    except OSError as error:
        raise GuestProblem(f"cannot start {words[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise GuestProblem(f"{words[0]} does not answer within {TOOL_SECONDS:g} s") from None
    if completed.returncode:
        detail = completed.stderr.decode("utf-8", "replace").strip().splitlines()
        why = detail[-1].replace(";", ",") if detail else str(completed.returncode)
        raise GuestProblem(f"{words[0]} failed: {one_line(why, MAX_TEXT_CHARS)}")
    return completed.stdout.decode("utf-8", "replace")


def number_in(text: str) -> int:
    """The first number in `text`; 0: there is none."""
    found = re.search(r"[0-9]{1,10}", text)
    return int(found[0]) if found else 0


def namespace_path(kind: str, name: str) -> str:
    """File of the network namespace. `kind` "path": the name is that of the file. Raises
    GuestProblem."""
    if kind == "path":
        return name
    if kind == "netns":
        return f"{NETNS_FOLDER}/{name}"
    pid = PIDS[kind](name)
    if pid <= 1:
        raise GuestProblem(f"{kind} {name} is not running")
    return f"/proc/{pid}/ns/net"


def enter(path: str) -> None:
    """Move this process into the namespace. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(function: str, *arguments: object) -> None:
        if getattr(libc, function)(*arguments) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    call("setns", descriptor, CLONE_NEWNET)
    os.close(descriptor)
    call("unshare", CLONE_NEWNS)
    call("mount", b"none", b"/", None, MS_REC | MS_SLAVE, None)
    libc.umount2(b"/sys", MNT_DETACH)
    call("mount", b"sysfs", b"/sys", b"sysfs", 0, None)


def main(arguments: Sequence[str]) -> int:
    """``KIND NAME COMMAND …``"""
    kind, name, *words = arguments
    try:
        enter(namespace_path(kind, name))
        os.execvp(words[0], words)
    except GuestProblem as problem:
        sentence = str(problem)
    except FileNotFoundError:
        sentence = f"no network namespace {name}: ip netns list shows them"
    except PermissionError:
        sentence = "no permission to enter its network namespace: use --sudo, or log in as root"
    except OSError as error:
        sentence = f"cannot enter its network namespace: {error.strerror}"
    say(sentence)
    return NEVER_STATUS
