"""What the generators of two hosts support: the version of iperf3, its options, and what a plan needs but they lack.

Reads nothing; takes the `TrafficTools` that a probe reports. An option that ``--help`` lists is supported, whatever the
version: distributions backport options. Limits, and hosts where ``--help`` could not be read, are decided by the
version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nictop.model.text.terminal import clean
from nictop.probe.records import TrafficTools
from nictop.traffic.plan.plan import RunPlan

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
    found = _VERSION.search(text)
    return tuple(int(part) for part in found.groups() if part is not None) if found else None


def iperf3_text(version: Version | None) -> str:
    return "iperf3 (unknown version)" if version is None else f"iperf3 {'.'.join(map(str, version))}"


def streams_json(tools: TrafficTools) -> bool:
    """iperf3 can write each interval as JSON when it ends (``--json-stream``)."""
    return "--json-stream" in tools.options


def needed_options(plan: RunPlan) -> tuple[tuple[str, str, Version], ...]:
    """(what the plan needs, long option of iperf3, first version that has it)"""
    needed = (
        (plan.direction == "bidirectional", "bidirectional traffic", "--bidir", (3, 7)),
        (plan.bitrate is not None, "rate", "--bitrate", (3, 2)),
        (plan.zerocopy, "zerocopy", "--zerocopy", (3, 0)),
        (plan.congestion is not None, "congestion control", "--congestion", (3, 1)),
        (plan.dscp is not None, "DSCP", "--tos", (3, 0)),
        (plan.omit > 0, "omitted seconds", "--omit", (3, 0)),
        (True, "live results", "--forceflush", (3, 1, 5)),
    )
    return tuple((what, option, since) for is_needed, what, option, since in needed if is_needed)


def refusals(plan: RunPlan, client: TrafficTools, server: TrafficTools) -> tuple[str, ...]:
    """Why the two hosts cannot run the plan, one sentence each; () if they can."""
    plan = plan.load or plan
    found: list[str] = []
    for host, tools, cpu in (
        (plan.client.host, client, plan.client_cpu),
        (plan.server.host, server, plan.server_cpu),
    ):
        name = clean(host)
        if plan.generator == "iperf3":
            found += (f"{name}: {reason}" for reason in _iperf3_refusals(plan, tools))
        found += (f"{name}: {reason}" for reason in _kernel_refusals(plan, tools, cpu))
    return tuple(found)


def _iperf3_refusals(plan: RunPlan, tools: TrafficTools) -> Iterable[str]:
    if tools.path is None:
        yield "iperf3 is not installed"
        return
    version = iperf3_version(tools.version)
    if version is None:
        why = tools.unreadable.get("version") or tools.unreadable.get("options")
        yield f"{clean(tools.path)} is not iperf3" + (f": {clean(why.detail)}" if why else "")
        return
    name = iperf3_text(version)
    if version < MIN_IPERF3_VERSION:
        oldest = ".".join(map(str, MIN_IPERF3_VERSION))
        yield f"{name} is too old, {oldest} or later needed"
        return
    for what, option, since in needed_options(plan):
        missing = option not in tools.options if tools.options else version < since
        if missing:
            yield f"{name} has no {option} ({what}), {'.'.join(map(str, since))} or later needed"
    if plan.mss is not None and plan.mss > MAX_OLD_IPERF3_MSS and version < LARGE_MSS_VERSION:
        yield f"{name} supports an MSS of at most {MAX_OLD_IPERF3_MSS}, 3.21 or later needed"
    if (plan.client_cpu is not None or plan.server_cpu is not None) and "--affinity" not in (
        tools.options or ("--affinity",)
    ):
        yield f"{name} is built without CPU affinity"


def _kernel_refusals(plan: RunPlan, tools: TrafficTools, cpu: int | None) -> Iterable[str]:
    if plan.congestion is not None and tools.congestion_controls and plan.congestion not in tools.congestion_controls:
        offered = ", ".join(map(clean, tools.congestion_controls))
        yield f"congestion control {plan.congestion} not available ({offered})"
    if cpu is not None and tools.cpus and cpu not in tools.cpus:
        yield f"CPU {cpu} not available to the generator"


def iperf3_differences(client: TrafficTools, server: TrafficTools) -> tuple[str, ...]:
    """Differences between the generators of two hosts that change results."""
    ours, theirs = iperf3_version(client.version), iperf3_version(server.version)
    if ours == theirs:
        return ()
    texts = (iperf3_text(ours), iperf3_text(theirs))
    more = "; only one of them uses a thread per stream" if _threaded(ours) != _threaded(theirs) else ""
    return (f"client {texts[0]}, server {texts[1]}{more}: {RESULTS_DIFFER}",)


def _threaded(version: Version | None) -> bool:
    return version is not None and version >= THREADED_VERSION
