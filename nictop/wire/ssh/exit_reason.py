"""Why a remote command ended, or did not answer: the sentence for the user, with its cause and what
to do.

Pure. How far the command came is known from what it printed: nothing (a login shell, or what sshd
runs instead of the command, was in the way), the marker of the shell (Python was in the way), or
the marker of Python (it was the probe).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from nictop.errors import HostUnreachable
from nictop.probe.light_dataclasses import dataclass
from nictop.wire.errors import PermanentError, TransientError
from nictop.wire.guests.levels import Level
from nictop.wire.guests.reasons import unreached_reason
from nictop.wire.source import ConnectionStage
from nictop.wire.ssh.bootstrap_command import INPUT_LOST_STATUS, NOT_A_SHELL_STATUS

Reached = Literal["nothing", "shell", "python"]

KILLED_STATUS = 128
"""Plus the number of the signal: the exit status of a shell whose command was killed."""
SIGNAL_NUMBERS = {
    1: "HUP",
    6: "ABRT",
    7: "BUS",
    9: "KILL",
    11: "SEGV",
    14: "ALRM",
    15: "TERM",
    24: "XCPU",
}

KILL_HINT = (
    "memory may be short there: dmesg | grep -i 'killed process' lists what the kernel has killed"
)
CRASH_HINT = "try python3 -V there; its log may have more (coredumpctl)"
SIGNAL_HINTS = {
    "KILL": KILL_HINT,
    "SEGV": CRASH_HINT,
    "ABRT": CRASH_HINT,
    "BUS": CRASH_HINT,
    "ILL": CRASH_HINT,
    "ALRM": "it has not received the rest of the probe in time: its connection is broken, or its "
    "CPUs are too busy (uptime)",
    "XCPU": "its login sessions may use little CPU time (ulimit -t)",
    "TERM": "somebody ended it, or the host shuts down",
    "HUP": "somebody ended it, or the host shuts down",
}
"""Name of a signal → what to do."""

START_FILES = "a start-up file of the login shell (such as .bashrc)"
FORCED = "ForceCommand, or command= in authorized_keys"
READS_INPUT_HINT = "there, use it on a terminal only: [ -t 0 ] before read, cat or exec"
NOT_RUN_HINT = (
    f"{START_FILES} ends the login, or sshd runs another command ({FORCED}); try ssh "
    f"HOST python3 -V"
)
NOT_RUN_HINTS = (
    (
        "restricted",
        "the account has a restricted shell: use an account with sh, bash, zsh, fish or csh",
    ),
    ("not available", "the account has no login shell (nologin): use another account"),
    ("sftp", f"the account is for file transfer only ({FORCED}): use another account or key"),
    (
        "not found",
        "check PATH in the start-up files of the login shell there, and the login shell itself",
    ),
    ("No such file", f"a program is missing there: check the login shell, and {FORCED}"),
)
"""Part of what was printed → what to do."""
SUDO_HINT = "omit --sudo, or check sudoers there"
SUDO_HINTS = (
    (
        "password is required",
        "the live screen asks for the password; NOPASSWD in sudoers there needs none",
    ),
    ("must have a tty", "remove requiretty from sudoers there, or log in as root"),
    ("not found", "install sudo there, or log in as root"),
)
"""Part of the message of sudo → what to do, before `SUDO_HINT`."""


@dataclass(frozen=True)
class Ending:
    """How a remote command ended. Texts are sanitized."""

    host: str
    reached: Reached
    status: int | None
    """Its exit status; None: unknown, or it was killed."""
    signal: str
    """Name of the signal that killed it: ``KILL``; "": none."""
    detail: str
    """The last line that it printed; of stderr, if there is one."""
    has_echo: bool
    """What nictop sent was printed."""
    uses_sudo: bool
    levels: tuple[Level, ...] = ()
    """Of a guest: how it is reached through the host."""
    sentence: str = ""
    """What a program of nictop on the way to a guest has said; "": nothing."""

    @property
    def killed_by(self) -> str:
        """Name of the signal that killed it, also if a shell between them reports that as a status;
        "": none did."""
        if self.signal or self.status is None:
            return self.signal
        return SIGNAL_NUMBERS.get(self.status - KILLED_STATUS, "")

    @property
    def has_lost_input(self) -> bool:
        """What Python was to read was read by another program."""
        if self.reached == "python":
            return self.status == INPUT_LOST_STATUS
        return self.has_echo or self.status == NOT_A_SHELL_STATUS


def exit_reason(end: Ending) -> HostUnreachable:
    """The reason why the command ended. Permanent if it would end in the same way again."""
    if end.has_lost_input:
        return _lost_input_reason(end)
    if end.levels and (end.reached == "nothing" or end.sentence):
        return _unreached_reason(end)
    if end.killed_by:
        return TransientError(
            f"{_NAMES[end.reached]} on {end.host} was killed by "
            f"{end.killed_by}{_colon(end.detail)}",
            SIGNAL_HINTS.get(end.killed_by, ""),
        )
    if end.status is None:
        return _ended_reason(end, "without an exit status")
    if end.reached == "python":
        return _ended_reason(end, f"with status {end.status}")
    return _not_started_reason(end, end.detail or f"status {end.status}")


def _lost_input_reason(end: Ending) -> HostUnreachable:
    """Another program has read what Python was to read, or a part of it."""
    if end.reached != "python":
        return PermanentError(
            f"{end.host}: what nictop sent was read by another program than its own: "
            f"{START_FILES} starts a shell "
            f"(exec), or sshd runs one ({FORCED})",
            "start it on a terminal only ([ -t 0 ]), or use another account or key",
        )
    return PermanentError(
        f"{end.host}: {START_FILES} reads or replaces standard input: nictop's was incomplete",
        READS_INPUT_HINT,
    )


def _ended_reason(end: Ending, how: str) -> HostUnreachable:
    return TransientError(f"{_NAMES[end.reached]} on {end.host} ended {how}{_colon(end.detail)}")


def _not_started_reason(end: Ending, detail: str) -> HostUnreachable:
    """The shell, sudo or the login ended with a status before there was a probe."""
    if end.reached == "shell":
        return PermanentError(
            f"cannot start Python on {end.host}: {detail}", "try ssh, and python3 -V there"
        )
    if end.uses_sudo and "sudo" in detail:
        return _sudo_reason(end)
    hints = [hint for part, hint in NOT_RUN_HINTS if part in detail]
    return PermanentError(
        f"{end.host}: the login ended before nictop's command was run: {detail}",
        next(iter(hints), NOT_RUN_HINT),
    )


def _unreached_reason(end: Ending) -> HostUnreachable:
    """Of a guest that was not reached, or is not any more."""
    if end.uses_sudo and end.detail.startswith("sudo:"):
        return _sudo_reason(end)
    return unreached_reason(end.host, end.levels, end.status, end.sentence, end.detail)


def _sudo_reason(end: Ending) -> HostUnreachable:
    hints = [hint for part, hint in SUDO_HINTS if part in end.detail]
    return PermanentError(
        f"sudo failed on {end.host}: {end.detail}", "; ".join([*hints, SUDO_HINT])
    )


_NAMES = {"nothing": "the login shell", "shell": "Python", "python": "the probe"}


def late_reason(end: Ending, seconds: float) -> HostUnreachable:
    """The reason why a command that has not ended was given up after so many `seconds`."""
    limit = f"within {seconds:g} s"
    if end.reached == "python":
        return TransientError(f"{end.host}: no data from the probe {limit}{_colon(end.detail)}")
    if end.reached == "shell":
        return TransientError(
            f"{end.host}: Python did not start {limit}{_colon(end.detail)}",
            "check its load and memory (ulimit -a)",
        )
    if end.levels:
        return TransientError(
            f"{end.host}: {end.levels[-1]} was not entered {limit}{_colon(end.detail)}",
            "check the load of the host, and try its tools there",
        )
    return TransientError(
        f"{end.host}: the login shell did not run nictop's command {limit}{_colon(end.detail)}",
        f"{START_FILES} is slow, waits for input or discards output, or sshd runs another command "
        f"({FORCED}): "
        "time ssh HOST true",
    )


def oom_reason(end: Ending, kernel_log: str) -> HostUnreachable | None:
    """The reason if a line of the kernel log says that the kernel has killed the probe; None: it
    does not. mm/oom_kill.c, __oom_kill_process(): ``Out of memory: Killed process 4711 (python3)``
    or ``Memory cgroup out of memory: …``."""
    text = kernel_log.lower()
    if "out of memory" not in text:
        return None
    limit, hint = "it was out of memory", "free memory there"
    if "memory cgroup" in text:
        limit = "the memory limit of its control group was reached"
        hint = "raise the memory limit of its login sessions (MemoryMax= of user.slice)"
    return TransientError(f"the kernel of {end.host} killed the probe: {limit}", hint)


def slow_notice(what: str, seconds: float, limit: float, hint: str) -> str:
    """``the login took 13 s of at most 15 s: …`` if it was near to the limit; "" otherwise."""
    if seconds < SLOW_SHARE * limit:
        return ""
    return f"{what} took {seconds:.0f} s of at most {limit:g} s: {hint}"


SLOW_SHARE = 0.5
"""Share of a time limit from which on it is reported."""
AUTHENTICATION_HINT = "check DNS and PAM of its sshd (UseDNS), and its load"
SLOW_STAGES: dict[ConnectionStage, tuple[str, str]] = {
    "resolve": ("to resolve its name", "check DNS here (/etc/resolv.conf)"),
    "connect": ("to reach its port", "check the network to it, for lost packets too"),
    "host_key": (
        "for the SSH handshake",
        "it is busy or still starting, has a slow CPU, or the round trip to it is long",
    ),
    "login": ("to log in", AUTHENTICATION_HINT),
}
"""Stage of a connection → what the time was needed for, and what to do. sshd asks DNS and PAM after
the handshake (OpenSSH: allowed_user() in auth.c, input_userauth_request() in auth2.c)."""


@dataclass(frozen=True)
class ConnectTime:
    """How long it took to log in to a host, without the time in which the user was asked."""

    host: str
    """Its name, sanitized."""
    stages: Mapping[ConnectionStage, float]
    """Seconds of each."""
    limit: float
    """Seconds that it may take."""

    @property
    def seconds(self) -> float:
        return sum(self.stages.values())

    @property
    def share(self) -> float:
        """Of the time limit."""
        return self.seconds / self.limit


def slow_connection_notice(took: ConnectTime, host: str) -> str:
    """``connecting took 8 s of at most 15 s, 7 s of it for the SSH handshake: …`` if it was near to
    the limit; "" otherwise. `host`: the one about which it is said, by its sanitized name; a jump
    host is named."""
    known = {stage: took.stages[stage] for stage in SLOW_STAGES if stage in took.stages}
    if not known or took.share < SLOW_SHARE:
        return ""
    slowest = max(known, key=lambda stage: known[stage])
    purpose, hint = SLOW_STAGES[slowest]
    share = f"{known[slowest]:.0f} s of it {purpose}"
    limit = f"{took.seconds:.0f} s of at most {took.limit:g} s"
    name = "" if took.host == host else f" to {took.host}"
    return f"connecting{name} took {limit}, {share}: {hint}"


SHELL_HINT = f"check {START_FILES} (time ssh HOST true), the round trip to the host, and its load"
INPUT_NOTICE = f"{START_FILES} reads standard input, which other programs need: {READS_INPUT_HINT}"


def _colon(detail: str) -> str:
    return f": {detail}" if detail else ""
