"""The user as whom a test sends and receives: not root, although the probe is.

Under sudo it is the user who called it (SUDO_UID, SUDO_GID), else nobody. What a test needs of
root's rights are single capabilities (`KEPT`): packet sockets, and counters that only CAP_NET_ADMIN
may read.
"""

from __future__ import annotations

import os

from nictop.probe.kernel.capabilities import (
    NUMBERS,
    held_capabilities,
    keep_capabilities,
    keep_capabilities_over_setuid,
    set_no_new_privileges,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nictop.probe.traffic.requests import TrafficCommand

NOBODY = 65534
MAX_USER_ID = 2**32 - 2
"""2**32 - 1 means "unchanged" in setresuid(2)."""
MAX_ID_DIGITS = 10
COUNTER_READERS = ("net_admin", "dac_read_search")
KEPT = {
    "check": (*COUNTER_READERS, "sys_ptrace"),
    "path": (),
    "path_listen": (*COUNTER_READERS, "net_raw"),
    "path_test": (*COUNTER_READERS, "net_raw"),
    "floor": (),
    "lldp": ("net_raw",),
    "losses": COUNTER_READERS,
    "drops": (*COUNTER_READERS, "sys_ptrace"),
}
"""Action of a `records.TrafficRequest` → capabilities of its child, besides those of its options;
none for "start"."""
STAYS_ROOT = ("check", "drops")
"""They open no socket to other hosts. iperf3 may be in a directory of root's; the process that
stops the drop monitor leaves the control group of the session, which only root may."""
BIND_DEVICE, CONGESTION = ("--bind-dev",), ("--congestion", "-C")
"""Before Linux 5.7 SO_BINDTODEVICE needs CAP_NET_RAW; a congestion control that is not among
net.ipv4.tcp_allowed_congestion_control needs CAP_NET_ADMIN (tcp(7))."""
ALLOWED_CONGESTION_CONTROLS = "sys/net/ipv4/tcp_allowed_congestion_control"
MAX_CONTROLS_CHARS = 4096
FIRST_UNPRIVILEGED_PORT = 1024
TEMPORARY_VARIABLES = ("TMPDIR", "TEMP", "TMP")
"""Of iperf3, in its order."""
NEEDED = ("setuid", "setgid", "kill")
"""Capabilities: kill, because the test must be ended by the probe."""
UNMAPPED = "this user namespace has no other user"


def test_user() -> tuple[int, int]:
    """(user, group). SUDO_UID 0 is root again: then it is nobody."""
    user, group = (_number(os.environ.get(name, "")) for name in ("SUDO_UID", "SUDO_GID"))
    if not user or not group:
        return NOBODY, NOBODY
    return user, group


def workload_user() -> tuple[int, int]:
    """(user, group) of a command of the user: that of the login. Of a root probe under sudo it is
    who called sudo; else the login itself is root's."""
    if os.geteuid() != 0:
        return os.getuid(), os.getgid()
    user, group = (_number(os.environ.get(name, "")) for name in ("SUDO_UID", "SUDO_GID"))
    return (user, group) if user and group else (0, 0)


def become_workload_user() -> None:
    """That user, with its groups and without capabilities. Raises OSError; a command of a user is
    never run as root instead."""
    user, group = workload_user()
    if os.geteuid() != 0 or user == 0:
        return
    why = why_stays_root()
    if why:
        raise OSError(f"cannot become the user who called sudo: {why}")
    import pwd

    try:
        os.initgroups(pwd.getpwuid(user).pw_name, group)
    except KeyError:
        os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    set_no_new_privileges()
    forget_closed_directories()
    if not os.access(".", os.X_OK):
        os.chdir("/")


def why_stays_root(proc: str = "/proc") -> str:
    """Why a test of this probe, which is root's, runs as root; "" if it does not. Raises
    OSError."""
    held = held_capabilities()
    missing = [name for name in NEEDED if NUMBERS[name] not in held]
    if missing:
        return f"CAP_{missing[0].upper()} is missing"
    user, group = test_user()
    for name, number in (("uid_map", user), ("gid_map", group)):
        with open(f"{proc}/self/{name}", encoding="ascii") as file:
            if not is_mapped(file.read(), number):
                return UNMAPPED
    return ""


def is_mapped(text: str, number: int) -> bool:
    """Whether a user or group of this user namespace exists: /proc/PID/uid_map
    (user_namespaces(7))."""
    for line in text.splitlines():
        first, _, count = map(int, line.split())
        if first <= number < first + count:
            return True
    return False


def leave_root(command: TrafficCommand, program: str = "") -> None:
    """Become that user, with the capabilities of this request only. Does nothing without root; the
    user stays root where that cannot be changed (`why_stays_root`). `program`: the file to be
    executed. Raises OSError."""
    if command.action == "work":
        become_workload_user()
        return
    if os.geteuid() != 0:
        return
    kept = needed_capabilities(command)
    if command.action not in STAYS_ROOT and not why_stays_root():
        user, group = test_user()
        keep_capabilities_over_setuid()
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
        forget_closed_directories()
        if is_closed(program or os.__file__) or is_closed(globals().get("__file__", "")):
            kept.add("dac_read_search")  # Python, nictop or iperf3 is in a directory of root's
    keep_capabilities(kept, for_programs=command.action == "start")
    set_no_new_privileges()
    os.chdir("/")


def needed_capabilities(command: TrafficCommand) -> set[str]:
    needed = {*KEPT.get(command.action, ()), *option_capabilities(command.arguments)}
    if command.congestion:  # iperf3's server is asked by its client, after the start
        needed |= option_capabilities(("--congestion", command.congestion))
    listens = command.action == "path_listen" or command.role == "server"
    if listens and 0 < command.port < FIRST_UNPRIVILEGED_PORT:  # 0: any free port
        needed.add("net_bind_service")
    return needed


def is_closed(path: str) -> bool:
    """Whether a file cannot be reached by this user as such, that is without capabilities
    (access(2))."""
    return bool(path) and not os.access(path, os.R_OK)


def option_capabilities(options: Sequence[str], proc: str = "/proc") -> set[str]:
    """What options of a generator need: ``--name=value`` may be one word or two."""
    needed = set()
    for position, word in enumerate(options):
        name, has_value, value = word.partition("=")
        if not has_value:
            value = "".join(options[position + 1 : position + 2])
        if name in BIND_DEVICE:
            needed.add("net_raw")
        elif name in CONGESTION and value not in _allowed_congestion_controls(proc):
            needed.add("net_admin")
    return needed


def _allowed_congestion_controls(proc: str) -> list[str]:
    """[] if they cannot be read."""
    try:
        with open(
            f"{proc}/{ALLOWED_CONGESTION_CONTROLS}", encoding="ascii", errors="replace"
        ) as file:
            return file.read(MAX_CONTROLS_CHARS).split()
    except OSError:
        return []


def forget_closed_directories() -> None:
    """Temporary files: where root's directory is closed to the user, the default is used."""
    for name in TEMPORARY_VARIABLES:
        directory = os.environ.get(name)
        if directory and not os.access(directory, os.W_OK | os.X_OK):
            del os.environ[name]


def _number(text: str) -> int:
    """A user id; 0: not one."""
    number = int(text) if text.isdecimal() and len(text) <= MAX_ID_DIGITS else 0
    return number if number <= MAX_USER_ID else 0
