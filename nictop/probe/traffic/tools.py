"""Which generators of traffic a host has: iperf3 in PATH, its version and options, what the kernel offers them.

Runs ``iperf3 --version`` and ``iperf3 --help``, reads net.ipv4.tcp_*congestion_control and which firewalls there are
(`firewalls`); yields `records.TrafficTools`. Runs in a child process of the probe, because a program of that name may
hang.
"""

from __future__ import annotations

import os
import subprocess

from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.pdeathsig import die_with
from nictop.probe.kernel.sysfs import printable, read_text
from nictop.probe.records import TrafficTools, Unreadable
from nictop.probe.traffic.firewalls import read_firewalls
from nictop.probe.traffic.iperf3 import find_iperf3

DEADLINE = 2.0
"""Seconds that each of the two calls may take."""
LARGEST = 64 * 1024
OPTION = pattern(r"(?<![\w-])--[a-z0-9][a-z0-9-]+")
CONTROLS = {
    "congestion_controls": "tcp_available_congestion_control",
    "allowed_congestion_controls": "tcp_allowed_congestion_control",
    "congestion_control": "tcp_congestion_control",
}
"""Field of `records.TrafficTools` → file in /proc/sys/net/ipv4."""


def read_tools(proc: str = "/proc") -> TrafficTools:
    """See the module. Never raises OSError."""
    unreadable: dict[str, Unreadable] = {}
    path = find_iperf3()
    version = ""
    options: tuple[str, ...] = ()
    if path is not None:
        said = _ask(path, "--version")
        if isinstance(said, str) and said.startswith("iperf 3"):
            version = said
        else:
            unreadable["version"] = said if isinstance(said, Unreadable) else _no_iperf3(path, said)
        text = _ask(path, "--help") if version else ""
        if isinstance(text, Unreadable):
            unreadable["options"] = text
        else:
            options = parse_options(text)
    words = {}
    for field, name in CONTROLS.items():
        content = read_text(f"{proc}/sys/net/ipv4/{name}")
        words[field] = () if isinstance(content, Unreadable) else tuple(content.split())
        if isinstance(content, Unreadable):
            unreadable[field] = content
    return TrafficTools(
        path=None if path is None else printable(path),
        version=version,
        options=options,
        congestion_controls=words["congestion_controls"],
        allowed_congestion_controls=words["allowed_congestion_controls"],
        congestion_control="".join(words["congestion_control"][:1]),
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        firewalls=read_firewalls(proc),
        unreadable=unreadable,
    )


def parse_options(text: str) -> tuple[str, ...]:
    """Long options that a help text names, each once, in its order."""
    return tuple(dict.fromkeys(OPTION.findall(text)))


def _ask(path: str, option: str) -> str | Unreadable:
    parent = os.getpid()
    try:
        done = subprocess.run(
            [path, option],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DEADLINE,
            check=False,
            preexec_fn=lambda: die_with(parent),
        )
    except subprocess.TimeoutExpired:
        return Unreadable("failed", f"{printable(path)} {option} did not end within {DEADLINE:g} s")
    except (OSError, subprocess.SubprocessError) as error:
        return Unreadable("failed", f"{printable(path)} {option}: {error}")
    return done.stdout[:LARGEST].decode("utf-8", "replace").strip()


def _no_iperf3(path: str, said: str) -> Unreadable:
    first = said.partition("\n")[0][:80]
    return Unreadable("malformed", f"{printable(path)} --version says {first!r}")
