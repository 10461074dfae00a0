"""How a probe runs iperf3: where it is, and which options are passed on: an allow-list, for a probe changes nothing.

Looks through PATH for the program, else pure. Whatever writes or reads a file, goes to the background, or hands out a
secret is not in the list (``--logfile``, ``--file``, ``--pidfile``, ``--daemon``, ``--authorized-users-path``, …);
role, port and address are put in front by the probe itself. Nothing may be abbreviated, as getopt_long would allow.
"""

from __future__ import annotations

import os
import re

NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?", re.ASCII)
AMOUNT = re.compile(r"[0-9]{1,15}(\.[0-9]{1,6})?[KMGTkmgt]?", re.ASCII)
RATE = re.compile(r"[0-9]{1,15}(\.[0-9]{1,6})?[KMGTkmgt]?(/[0-9]{1,6})?", re.ASCII)
WORD = re.compile(r"[A-Za-z0-9_]{1,32}", re.ASCII)
CPUS = re.compile(r"[0-9]{1,5}(,[0-9]{1,5})?", re.ASCII)
ADDRESS = re.compile(r"[0-9A-Fa-f:.]{2,45}(%[^\s/%\x00-\x1f]{1,15})?")
LINK = re.compile(r"[^\s/:%\x00-\x20-][^\s/:%\x00-\x20]{0,14}")

FLAGS = {
    "-R", "--reverse", "--bidir", "-u", "--udp", "-Z", "--zerocopy", "-4", "--version4", "-6", "--version6",
    "-N", "--no-delay", "-J", "--json", "--json-stream", "--json-stream-full-output", "--forceflush",
    "--timestamps", "-V", "--verbose", "--get-server-output", "--udp-counters-64bit", "--repeating-payload",
    "--dont-fragment", "--skip-rx-copy", "--gsro",
}  # fmt: skip
VALUES = {
    "-t": NUMBER, "--time": NUMBER, "-O": NUMBER, "--omit": NUMBER, "-i": NUMBER, "--interval": NUMBER,
    "-n": AMOUNT, "--bytes": AMOUNT, "-k": AMOUNT, "--blockcount": AMOUNT, "-l": AMOUNT, "--length": AMOUNT,
    "-w": AMOUNT, "--window": AMOUNT, "-M": NUMBER, "--set-mss": NUMBER, "-P": NUMBER, "--parallel": NUMBER,
    "-b": RATE, "--bitrate": RATE, "--fq-rate": AMOUNT, "--pacing-timer": AMOUNT, "--server-bitrate-limit": RATE,
    "--server-max-duration": NUMBER, "-f": WORD, "--format": WORD, "-A": CPUS, "--affinity": CPUS,
    "-C": WORD, "--congestion": WORD, "-S": WORD, "--tos": WORD, "--dscp": WORD, "-L": NUMBER, "--flowlabel": NUMBER,
    "--connect-timeout": NUMBER, "--rcv-timeout": NUMBER, "--snd-timeout": NUMBER, "--idle-timeout": NUMBER,
    "--cport": NUMBER, "-B": ADDRESS, "--bind": ADDRESS, "--bind-dev": LINK,
}  # fmt: skip
"""Option → what its value may be."""
MOST = 64
"""Arguments."""
PLACES = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/bin")
"""Looked through after PATH, which is short for commands over SSH."""


def find_iperf3() -> str | None:
    """Its path, PATH first; None when there is none that may be run."""
    for place in [*os.get_exec_path(), *PLACES]:
        path = os.path.join(place, "iperf3")
        if os.path.isabs(path) and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def iperf3_arguments(role: str, port: int, address: str | None, arguments: list[str]) -> list[str]:
    """The command line of one iperf3 without its program: a server for one client, or a client.

    Raises ValueError with a sentence for an option that is not allowed or has a value that is none.
    """
    checked = checked_options(arguments)
    if role == "server":
        bound = ["-B", address] if address else []
        return ["-s", "-1", "-p", str(port), *bound, *checked]
    return ["-c", address or "", "-p", str(port), *checked]


def checked_options(arguments: list[str]) -> list[str]:
    """`arguments` as they are, each option known and each value of its kind. ``--name=value`` is one word or two."""
    if len(arguments) > MOST:
        raise ValueError(f"more than {MOST} options")
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in FLAGS and not equals:
            continue
        kind = VALUES.get(name)
        if kind is None:
            raise ValueError(f"the probe does not pass {word[:40]!r} to iperf3")
        if not equals:
            value = next(words, "")
        if not kind.fullmatch(value):
            raise ValueError(f"{value[:40]!r} is no value of {name}")
    return arguments
