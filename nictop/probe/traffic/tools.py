"""Traffic generators of a host: iperf3 with version and options, ntttcp, congestion controls, CPUs,
firewalls.

Runs ``iperf3 --version``, ``iperf3 --help`` and ``ntttcp -h``, reads
net.ipv4.tcp_*congestion_control and `firewalls`; yields `records.TrafficTools`. Runs in a child
process of the probe, because a program with that name may hang.
"""

from __future__ import annotations

import os
import subprocess

from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.programs import program_output
from nictop.probe.kernel.sysfs import printable_path, read_text
from nictop.probe.records import TrafficTools, Unreadable
from nictop.probe.traffic.firewalls import read_firewalls
from nictop.probe.traffic.iperf3 import find_iperf3
from nictop.probe.traffic.ntttcp import find_ntttcp

IPERF3_TIMEOUT, MAX_IPERF3_SECONDS = 2.0, 6.0
"""Seconds for each of the two calls, on an idle and on a busy host."""
MAX_BANNER_CHARS = 80
MAX_HELP_BYTES = 64 * 1024
LONG_OPTION = pattern(r"(?<![\w-])--[a-z0-9][a-z0-9-]+")
CONGESTION_CONTROL_FILES = {
    "congestion_controls": "tcp_available_congestion_control",
    "allowed_congestion_controls": "tcp_allowed_congestion_control",
    "congestion_control": "tcp_congestion_control",
}
"""Field of `records.TrafficTools` → file in /proc/sys/net/ipv4."""


def read_tools(proc: str = "/proc") -> TrafficTools:
    """Never raises OSError."""
    unreadable: dict[str, Unreadable] = {}
    path = find_iperf3()
    version = ""
    options: tuple[str, ...] = ()
    if path is not None:
        version, options = _read_iperf3(path, unreadable)
    ntttcp, ntttcp_version = find_ntttcp(), ""
    if ntttcp is not None:
        ntttcp_version = _read_ntttcp_version(ntttcp, unreadable)
    congestion: dict[str, tuple[str, ...]] = {}
    for field, name in CONGESTION_CONTROL_FILES.items():
        text = read_text(f"{proc}/sys/net/ipv4/{name}")
        if isinstance(text, Unreadable):
            unreadable[field] = text
            text = ""
        congestion[field] = tuple(text.split())
    return TrafficTools(
        path=None if path is None else printable_path(path),
        version=version,
        options=options,
        congestion_controls=congestion["congestion_controls"],
        allowed_congestion_controls=congestion["allowed_congestion_controls"],
        congestion_control="".join(congestion["congestion_control"][:1]),
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        ntttcp_path=None if ntttcp is None else printable_path(ntttcp),
        ntttcp_version=ntttcp_version,
        firewalls=read_firewalls(proc),
        unreadable=unreadable,
    )


def _read_iperf3(path: str, unreadable: dict[str, Unreadable]) -> tuple[str, tuple[str, ...]]:
    """Version and options; of what could not be read the reason is added to `unreadable`."""
    output = _run_tool(path, "--version")
    if isinstance(output, Unreadable):
        unreadable["version"] = output
        return "", ()
    if not output.startswith("iperf 3"):
        unreadable["version"] = _not_iperf3(path, output)
        return "", ()
    help_text = _run_tool(path, "--help")
    if isinstance(help_text, Unreadable):
        unreadable["options"] = help_text
        return output, ()
    return output, parse_options(help_text)


def _read_ntttcp_version(path: str, unreadable: dict[str, Unreadable]) -> str:
    banner = _run_tool(path, "-h")
    if isinstance(banner, Unreadable):
        unreadable["ntttcp_version"] = banner
        return ""
    if not banner.startswith("NTTTCP for Linux"):
        unreadable["ntttcp_version"] = _not_ntttcp(path)
        return ""
    return banner.partition("\n")[0][:MAX_BANNER_CHARS]


def parse_options(text: str) -> tuple[str, ...]:
    """Long options in a help text, each once, in order."""
    return tuple(dict.fromkeys(LONG_OPTION.findall(text)))


def _run_tool(path: str, option: str) -> str | Unreadable:
    program = f"{printable_path(path)} {option}"
    try:
        _, output = program_output(
            (path, option), IPERF3_TIMEOUT, MAX_IPERF3_SECONDS, stderr=subprocess.STDOUT
        )
    except TimeoutError:
        return Unreadable("failed", f"{program} did not end within {IPERF3_TIMEOUT:g} s")
    except (OSError, subprocess.SubprocessError) as error:
        return Unreadable("failed", f"{program}: {error}")
    return output[:MAX_HELP_BYTES].decode("utf-8", "replace").strip()


def _not_ntttcp(path: str) -> Unreadable:
    return Unreadable("malformed", f"{printable_path(path)} -h is not that of ntttcp for Linux")


def _not_iperf3(path: str, output: str) -> Unreadable:
    first = output.partition("\n")[0][:80]
    return Unreadable("malformed", f"{printable_path(path)} --version says {first!r}")
