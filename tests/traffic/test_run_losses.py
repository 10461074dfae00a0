"""What a run loses is attributed: both ends read their counters before and after it."""

from __future__ import annotations

import itertools
import os
import re
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nictop.cli.traffic.plain import EXIT_FAILED, exit_code
from nictop.cli.traffic.progress import ProgressLines
from nictop.report.runs.sentences import result_sentences
from nictop.traffic.analysis.cpu_limits import throttled
from nictop.traffic.experiment.steps import Experiment, ExperimentStep
from nictop.traffic.record.log import IntervalMeasured
from nictop.traffic.results.result import Result
from nictop.traffic.results.store import StoredRun
from nictop.traffic.run.events import RunFinished, RunTimeouts
from nictop.wire.local import LocalSource
from nictop.wire.probe_process import probe_command
from tests.traffic.emitted import Run
from tests.traffic.pair import (
    RETRY,
    WIRE,
    add_veth,
    followed,
    missing_requirement,
    namespaces,
    pair,
    source,
)
from tests.traffic.real_runs import complete_run

REASON = missing_requirement()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.asyncio(loop_scope="module"),
]
FRAGMENTS = """
table inet early { chain first { type filter hook prerouting priority -450; ip frag-off & 0x1fff != 0 drop; }; }
"""
"""Before connection tracking collects fragments."""
CPU_GROUPS = Path("/sys/fs/cgroup/cpu")


def code_of(result: Result) -> int:
    return exit_code([StoredRun("", "", result, 1.0, "")], "")


@pytest.mark.parametrize("generator", ["iperf3", "builtin"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
async def test_fragments_are_dropped(generator: str, direction: str) -> None:
    """0 b/s is not exit code 0, and the fragments that arrive without the others are named."""
    async with pair(None) as both:
        for namespace in (both.client, both.server):
            namespace.run(["nft", "-f", "-"], input=FRAGMENTS)
        result, _ = await complete_run(
            both,
            protocol="udp",
            length=8000,
            bitrate=10_000_000,
            generator=generator,
            direction=direction,
        )
    assert not result.goodput and code_of(result) == EXIT_FAILED
    if result.failure is None:
        assert result.bottleneck.startswith("nothing arrived "), result.bottleneck
        assert "and not one complete packet: other fragments are dropped" in result.bottleneck


async def test_healthy_run_has_no_cause() -> None:
    async with pair("100mbit") as both:
        result, _ = await complete_run(both)
    assert code_of(result) == 0 and not [
        one for one in result.losses if one.is_cause and one.source != "qdisc"
    ]


@contextmanager
def limited_group(share: float) -> Iterator[Path]:
    """A cgroup with that much of one CPU."""
    group = CPU_GROUPS / f"nictop-{uuid.uuid4().hex[:10]}"
    try:
        group.mkdir()
        (group / "cpu.cfs_quota_us").write_text(str(int(100_000 * share)))
    except OSError as error:
        pytest.skip(f"no cgroup with a CPU limit can be made here: {error}")
    try:
        yield group
    finally:
        group.rmdir()


async def test_generator_in_a_cgroup_with_a_cpu_limit() -> None:
    """The limit is named: neither "not determined" nor the network."""
    if not (CPU_GROUPS / "cpu.cfs_quota_us").exists() and not os.access(CPU_GROUPS, os.W_OK):
        pytest.skip("no version 1 hierarchy of the CPU controller")
    with limited_group(0.2) as group, namespaces() as (client, server):
        add_veth(client, server)
        inside = f'echo $$ > {group}/cgroup.procs && exec "$0" "$@"'
        probe = probe_command(sys.executable, "--interval", "0.2")
        # not by "ip netns exec", which mounts another /sys without cgroups
        command = ["nsenter", f"--net=/run/netns/{client.name}", "sh", "-c", inside, *probe]
        slow = LocalSource(0.2, name="a", command=command, retry=RETRY)
        async with followed(client, server, [slow, source(server, "b")]) as both:
            result, _ = await complete_run(both, time=2, generator="builtin")
    assert result.failure is None, result.failure
    counted = {
        one.name for one in result.losses if (one.host, one.where) == ("a", f"/{group.name}")
    }
    assert counted == {"nr_throttled", "throttled_usec"}
    # on a busy machine the generator gets less than its limit, and other processes are the cause
    judged = throttled(result, result.flows[0])
    named = [str(one) for one in (judged.cause, *judged.possible) if one is not None]
    assert any(
        one.startswith(f"CPU limit of cgroup /{group.name} on a: its threads waited ")
        for one in named
    )


@pytest.mark.parametrize(
    ("command", "event"),
    [
        (["ip", "link", "del", WIRE], f"a {WIRE} disappeared at second "),
        (["ip", "link", "set", WIRE, "down"], f"a {WIRE} was set down at second "),
    ],
)
async def test_nic_that_vanishes_is_the_first_sentence(command: list[str], event: str) -> None:
    """With its second, also of a run that has failed by it."""
    async with pair(None) as both:
        run = Run(both.plan(time=4), both.hosts, limits=RunTimeouts(stall=1.0))
        result = None
        async for one in run.events():
            if isinstance(one, IntervalMeasured) and not one.interval.sends and command:
                both.client.run(command)
                command = []
            if isinstance(one, RunFinished):
                result = one.result
    assert result is not None
    sentences = result_sentences(result)
    events = list(itertools.takewhile(lambda sentence: sentence.kind == "event", sentences))
    # the kernel's log is of all namespaces: other tests have links of this name, and rename them
    assert any(sentence.text.startswith(event) for sentence in events), sentences
    assert code_of(result) == EXIT_FAILED


async def test_a_link_that_is_back_is_not_said_to_be_down() -> None:
    """The run fails although the link is up again: with both times, in its lines too; what was
    written and never delivered was carried by no NIC."""
    drop = "table inet t { chain c { type filter hook %s priority 0; drop; }; }"
    async with pair("20mbit") as both:
        plan = both.plan(time=4, direction="bidirectional", streams=4)
        run = Run(plan, both.hosts, limits=RunTimeouts(stall=3.0, grace=4.0))
        progress = ProgressLines(Experiment("x", (ExperimentStep(plan, ""),)))
        lines: list[str] = []
        result, is_cut = None, False
        async for one in run.events():
            lines += progress.lines(one)
            if isinstance(one, IntervalMeasured) and not one.interval.sends and not is_cut:
                is_cut = True
                both.server.run(["ip", "link", "set", WIRE, "down"])
                both.server.run(["nft", "-f", "-"], input=drop % "input")
                both.client.run(["nft", "-f", "-"], input=drop % "input")
                both.server.run(["ip", "link", "set", WIRE, "up"])
            if isinstance(one, RunFinished):
                result = one.result
    assert result is not None and result.failure is not None and result.proof is not None
    seen = rf"{WIRE} (lost its carrier|was set down) at second \d+, back at second \d+"
    assert re.search(f"no more data between a and b: [ab] {seen}$", result.failure.sentence)
    assert re.search(seen, result.event)
    assert any("back at second" in line or "has its link again" in line for line in lines), lines
    assert "not known which NIC" not in result.proof.sentence
    assert "wrote to its sockets were not delivered" in result.proof.sentence
    assert {end.verdict for end in result.proof.hosts} == {"proven"}, result.proof.hosts


async def test_an_mtu_that_changes_during_a_run_is_in_its_notes_and_facts() -> None:
    async with pair(None) as both:
        run = Run(both.plan(time=3), both.hosts)
        result, is_changed = None, False
        async for one in run.events():
            if isinstance(one, IntervalMeasured) and not is_changed:
                both.client.run(["ip", "link", "set", WIRE, "mtu", "1400"])
                is_changed = True
            if isinstance(one, RunFinished):
                result = one.result
    assert result is not None and result.failure is None
    assert re.fullmatch(r"1500, 1400 from second [0-3]", result.facts["client mtu"])
    assert result.facts["server mtu"] == "1500"
    assert f"a {WIRE}: MTU {result.facts['mtu']}: the result is of both" in result.notes
