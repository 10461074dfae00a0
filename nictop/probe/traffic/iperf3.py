"""Find iperf3 and build its command line from an allow-list of options, because a probe must not
change the host.

Searches PATH; the rest is pure. Options that read or write files, run in the background, or
disclose a secret are not in the list (``--logfile``, ``--file``, ``--pidfile``, ``--daemon``,
``--authorized-users-path``, …); role, port and address are added by the probe. Abbreviations, which
getopt_long would accept, are refused.
"""

from __future__ import annotations

import os
import re

_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?", re.ASCII)
_AMOUNT = re.compile(r"[0-9]{1,15}(\.[0-9]{1,6})?[KMGTkmgt]?", re.ASCII)
_RATE = re.compile(r"[0-9]{1,15}(\.[0-9]{1,6})?[KMGTkmgt]?(/[0-9]{1,6})?", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_]{1,32}", re.ASCII)
_CPUS = re.compile(r"[0-9]{1,5}(,[0-9]{1,5})?", re.ASCII)
_ADDRESS = re.compile(r"[0-9A-Fa-f:.]{2,45}(%[^\s/%\x00-\x1f]{1,15})?")
_LINK = re.compile(r"[^\s/:%\x00-\x20-][^\s/:%\x00-\x20]{0,14}")

IPERF3_FLAGS = {
    "-R", "--reverse", "--bidir", "-u", "--udp", "-Z", "--zerocopy", "-4", "--version4", "-6",
    "--version6", "-N", "--no-delay", "-J", "--json", "--json-stream", "--json-stream-full-output",
    "--forceflush", "--timestamps", "-V", "--verbose", "--get-server-output",
    "--udp-counters-64bit", "--repeating-payload", "--dont-fragment", "--skip-rx-copy", "--gsro",
}  # fmt: skip
IPERF3_VALUES = {
    "-t": _NUMBER, "--time": _NUMBER, "-O": _NUMBER, "--omit": _NUMBER, "-i": _NUMBER,
    "--interval": _NUMBER, "-n": _AMOUNT, "--bytes": _AMOUNT, "-k": _AMOUNT,
    "--blockcount": _AMOUNT, "-l": _AMOUNT, "--length": _AMOUNT, "-w": _AMOUNT,
    "--window": _AMOUNT, "-M": _NUMBER, "--set-mss": _NUMBER, "-P": _NUMBER, "--parallel": _NUMBER,
    "-b": _RATE, "--bitrate": _RATE, "--fq-rate": _AMOUNT, "--pacing-timer": _AMOUNT,
    "--server-bitrate-limit": _RATE, "--server-max-duration": _NUMBER, "-f": _WORD,
    "--format": _WORD, "-A": _CPUS, "--affinity": _CPUS, "-C": _WORD, "--congestion": _WORD,
    "-S": _WORD, "--tos": _WORD, "--dscp": _WORD, "-L": _NUMBER, "--flowlabel": _NUMBER,
    "--connect-timeout": _NUMBER, "--rcv-timeout": _NUMBER, "--snd-timeout": _NUMBER,
    "--idle-timeout": _NUMBER, "--cport": _NUMBER, "-B": _ADDRESS, "--bind": _ADDRESS,
    "--bind-dev": _LINK,
}  # fmt: skip
"""Option → pattern of its value."""
MAX_IPERF3_ARGUMENTS = 64
"""Arguments."""
EXTRA_DIRECTORIES = (
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/usr/local/sbin",
    "/usr/sbin",
    "/sbin",
    "/opt/bin",
)
"""Searched after PATH, which is short for commands over SSH."""


def find_iperf3() -> str | None:
    """Path of the first executable iperf3; None: not installed."""
    return find_program("iperf3")


def find_program(name: str) -> str | None:
    """Path of the first executable of this name; None: not installed."""
    for directory in [*os.get_exec_path(), *EXTRA_DIRECTORIES]:
        path = os.path.join(directory, name)
        if os.path.isabs(path) and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def iperf3_arguments(role: str, port: int, address: str | None, arguments: list[str]) -> list[str]:
    """Arguments of iperf3 as a server for one client, or as a client.

    Raises ValueError with a sentence for an option that is not allowed or has an invalid value.
    """
    checked = checked_options(arguments)
    if role == "server":
        bound = ["-B", address] if address else []
        return ["-s", "-1", "-p", str(port), *bound, *checked]
    return ["-c", address or "", "-p", str(port), *checked]


def checked_options(arguments: list[str]) -> list[str]:
    """`arguments` unchanged, each option in the list and each value valid. ``--name=value`` may be
    one word or two. Raises ValueError."""
    if len(arguments) > MAX_IPERF3_ARGUMENTS:
        raise ValueError(f"more than {MAX_IPERF3_ARGUMENTS} options")
    words = iter(arguments)
    for word in words:
        name, has_value, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in IPERF3_FLAGS and not has_value:
            continue
        pattern = IPERF3_VALUES.get(name)
        if pattern is None:
            raise ValueError(f"iperf3 option {word[:40]!r} is not allowed")
        if not has_value:
            value = next(words, "")
        if not pattern.fullmatch(value):
            raise ValueError(f"invalid value of {name}: {value[:40]!r}")
    return arguments
