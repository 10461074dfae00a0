"""What the generators of two hosts support: the version of iperf3, its options, and what a plan
needs but they lack.

Reads nothing; takes the `TrafficTools` that a probe reports. An option that ``--help`` lists is
supported, whatever the version: distributions backport options. Limits, and hosts where ``--help``
could not be read, are decided by the version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import TrafficTools
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.plan.problem import Problem

Version = tuple[int, ...]

MIN_IPERF3_VERSION: Version = (3, 5)
LARGE_MSS_VERSION: Version = (3, 21)
"""First version that accepts an MSS above `MAX_OLD_IPERF3_MSS`."""
MAX_OLD_IPERF3_MSS = 9216
THREADED_VERSION: Version = (3, 16)
"""First version that runs every stream in its own thread."""
RESULTS_DIFFER = "results of different versions are not comparable"

_VERSION = re.compile(r"^iperf (\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", re.MULTILINE | re.ASCII)


def iperf3_version(text: str) -> Version | None:
    """Output of ``iperf3 --version`` → ``(3, 12)``; None if it is not from iperf3."""
    match = _VERSION.search(text)
    if match is None:
        return None
    return tuple(int(part) for part in match.groups() if part is not None)


def iperf3_text(version: Version | None) -> str:
    if version is None:
        return "iperf3 (unknown version)"
    return f"iperf3 {'.'.join(map(str, version))}"


def streams_json(tools: TrafficTools) -> bool:
    """iperf3 can write each interval as JSON when it ends (``--json-stream``)."""
    return "--json-stream" in tools.options


class NeededOption(NamedTuple):
    """An option of iperf3 that a plan needs."""

    field: str
    """Of the plan; "": every plan needs it."""
    purpose: str
    option: str
    since: Version
    """The first version that has it."""


def needed_options(plan: RunPlan) -> tuple[NeededOption, ...]:
    """The options of iperf3 that the plan needs."""
    is_needed = {
        "direction": plan.direction == "bidirectional",
        "bitrate": plan.bitrate is not None,
        "zerocopy": plan.zerocopy,
        "congestion": plan.congestion is not None,
        "dscp": plan.dscp is not None,
        "omit": plan.omit > 0,
        "": True,
    }
    return tuple(option for option in IPERF3_OPTIONS if is_needed[option.field])


IPERF3_OPTIONS = (
    NeededOption("direction", "bidirectional traffic", "--bidir", (3, 7)),
    NeededOption("bitrate", "rate", "--bitrate", (3, 2)),
    NeededOption("zerocopy", "zerocopy", "--zerocopy", (3, 0)),
    NeededOption("congestion", "congestion control", "--congestion", (3, 1)),
    NeededOption("dscp", "DSCP", "--tos", (3, 0)),
    NeededOption("omit", "omitted seconds", "--omit", (3, 0)),
    NeededOption("", "live results", "--forceflush", (3, 1, 5)),
)


def refusals(plan: RunPlan, client: TrafficTools, server: TrafficTools) -> tuple[Problem, ...]:
    """Why the two hosts cannot run the plan; () if they can."""
    plan = plan.load or plan
    of_client = _refusals_of_host(plan, clean(plan.client.host), client, "client_cpu")
    of_server = _refusals_of_host(plan, clean(plan.server.host), server, "server_cpu")
    return (*of_client, *of_server)


def own_refusals(plan: RunPlan, tools: TrafficTools) -> tuple[Problem, ...]:
    """Why the only watched end of a plan cannot run it. The options of a foreign client are not
    known to be supported there."""
    if plan.foreign_side == "client":
        return tuple(_refusals_of_host(plan, clean(plan.server.host), tools, "server_cpu"))
    return tuple(_refusals_of_host(plan, clean(plan.client.host), tools, "client_cpu"))


def _refusals_of_host(
    plan: RunPlan, host: str, tools: TrafficTools, cpu: Literal["client_cpu", "server_cpu"]
) -> Iterator[Problem]:
    """`cpu`: the field with the CPU of its generator."""
    if plan.generator == "iperf3":
        for problem in _iperf3_refusals(plan, tools):
            yield replace(problem, sentence=f"{host}: {problem.sentence}")
    if plan.generator == "ntttcp" and not tools.ntttcp_version:
        yield Problem("", f"{host}: {_ntttcp_missing(tools)}")
    for problem in _kernel_refusals(plan, tools, cpu):
        yield replace(problem, sentence=f"{host}: {problem.sentence}")


NTTTCP_SOURCE = "github.com/microsoft/ntttcp-for-linux"


def _ntttcp_missing(tools: TrafficTools) -> str:
    why = tools.unreadable.get("ntttcp_version")
    if why is not None:
        return clean(why.detail)
    return f"ntttcp is not installed: build it ({NTTTCP_SOURCE}: cd src; make; make install)"


def _iperf3_refusals(plan: RunPlan, tools: TrafficTools) -> Iterator[Problem]:
    if tools.path is None:
        yield Problem("", "iperf3 is not installed")
        return
    version = iperf3_version(tools.version)
    if version is None:
        sentence = f"{clean(tools.path)} is not iperf3"
        why = tools.unreadable.get("version") or tools.unreadable.get("options")
        if why:
            sentence += f": {clean(why.detail)}"
        yield Problem("", sentence)
    elif version < MIN_IPERF3_VERSION:
        yield Problem("", f"{iperf3_text(version)} is too old, {_or_later(MIN_IPERF3_VERSION)}")
    else:
        yield from _refusals_of_version(plan, tools, version)


def _refusals_of_version(plan: RunPlan, tools: TrafficTools, version: Version) -> Iterator[Problem]:
    """What the plan needs and this iperf3 does not have."""
    name = iperf3_text(version)
    for needed in needed_options(plan):
        if not _has_option(tools, version, needed):
            lacking = f"{name} has no {needed.option} ({needed.purpose})"
            yield Problem(needed.field, f"{lacking}, {_or_later(needed.since)}")
    is_large_mss = plan.mss is not None and plan.mss > MAX_OLD_IPERF3_MSS
    if is_large_mss and version < LARGE_MSS_VERSION:
        most = f"{name} supports an MSS of at most {MAX_OLD_IPERF3_MSS}"
        yield Problem("mss", f"{most}, {_or_later(LARGE_MSS_VERSION)}")
    if tools.options and "--affinity" not in tools.options:
        if plan.client_cpu is not None:
            yield Problem("client_cpu", f"{name} is built without CPU affinity")
        elif plan.server_cpu is not None:
            yield Problem("server_cpu", f"{name} is built without CPU affinity")


def _has_option(tools: TrafficTools, version: Version, needed: NeededOption) -> bool:
    """As its help says, or by its version if that could not be read."""
    if tools.options:
        return needed.option in tools.options
    return version >= needed.since


def _or_later(version: Version) -> str:
    return f"{'.'.join(map(str, version))} or later needed"


def _kernel_refusals(
    plan: RunPlan, tools: TrafficTools, cpu: Literal["client_cpu", "server_cpu"]
) -> Iterator[Problem]:
    offered = tools.congestion_controls
    if plan.congestion is not None and offered and plan.congestion not in offered:
        listed = ", ".join(map(clean, offered))
        sentence = f"congestion control {plan.congestion} not available ({listed})"
        yield Problem("congestion", sentence)
    number = plan.client_cpu if cpu == "client_cpu" else plan.server_cpu
    if number is not None and tools.cpus and number not in tools.cpus:
        yield Problem(cpu, f"CPU {number} not available to the generator")


def iperf3_differences(client: TrafficTools, server: TrafficTools) -> tuple[str, ...]:
    """Differences between the generators of two hosts that change results."""
    ours, theirs = iperf3_version(client.version), iperf3_version(server.version)
    if ours == theirs:
        return ()
    text = f"client {iperf3_text(ours)}, server {iperf3_text(theirs)}"
    if _threaded(ours) != _threaded(theirs):
        text += "; only one of them uses a thread per stream"
    return (f"{text}: {RESULTS_DIFFER}",)


def _threaded(version: Version | None) -> bool:
    return version is not None and version >= THREADED_VERSION
