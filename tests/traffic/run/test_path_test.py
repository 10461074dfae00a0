"""The path test before a real run: what it finds, and what that means for the result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from nictop.traffic.path.outcomes import outcome_of
from nictop.traffic.path.result import PathReport
from nictop.traffic.results.result import Result
from nictop.traffic.run.events import PathTested, RunTimeouts, Stage
from tests.support.probe import wait_until
from tests.traffic.pair import LIMIT, WIRE, Pair, missing_requirement, pair, processes_in
from tests.traffic.real_runs import complete_run

REASON = missing_requirement()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.asyncio(loop_scope="module"),
]
UDP: dict[str, Any] = {"protocol": "udp", "bitrate": 5_000_000, "generator": "builtin"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both() -> AsyncIterator[Pair]:
    async with pair("50mbit") as made:
        yield made


def report_of(result: Result) -> PathReport:
    assert result.path_test is not None
    return result.path_test.report


async def test_healthy_path(both: Pair) -> None:
    """A few packets, before the server starts; nothing is left of the test."""
    result, events = await complete_run(both)
    report = report_of(result)
    assert result.failure is None and report.findings == () and report.result.port == 5201
    for direction in report.result.directions:
        test = direction.test
        assert test is not None and test.packets < 45 and test.macs == (direction.receiver.mac,)
        assert [outcome_of(test, one).kind for one in ("icmp", "udp", "tcp")] == [
            "not_tested",
            "answered",
            "answered",
        ]
        assert [(one.protocol, one.largest) for one in test.sizes] == [("udp", 1500)]
        assert direction.listener is not None and direction.listener.ended
    there = report.result.directions[0].test
    assert there is not None and there.port == 5201
    shown = [event for event in events if isinstance(event, (Stage, PathTested))]
    names = [event.name if isinstance(event, Stage) else "path" for event in shown]
    assert names[:3] == ["checking", "path", "starting"]
    for namespace in (both.client, both.server):  # probe, helper, and `ip` itself
        await asyncio.to_thread(
            wait_until, partial(lambda namespace: len(processes_in(namespace)) <= 3, namespace)
        )


async def test_smaller_mtu_of_the_other_nic(both: Pair) -> None:
    """TCP sends no packets that are too large; full-sized datagrams vanish."""
    both.server.run(["ip", "link", "set", WIRE, "mtu", "1400"])
    try:
        for host in both.hosts.values():
            assert await host.refresh(LIMIT)
        cases: list[tuple[dict[str, Any], bool]] = [
            ({}, False),
            (UDP, True),
            ({**UDP, "length": 1000}, False),
        ]
        for options, is_misleading in cases:
            result, _ = await complete_run(both, **options)
            assert [one.rule for one in report_of(result).findings] == ["path_mtu_black_hole"]
            assert (
                any(
                    why.startswith("path test: MTU black hole to b")
                    for why in result.why_not_ranked
                )
                == is_misleading
            )
    finally:
        both.server.run(["ip", "link", "set", WIRE, "mtu", "1500"])
        for host in both.hosts.values():
            assert await host.refresh(LIMIT)


async def test_firewall_of_the_server(both: Pair) -> None:
    """Only the port of the run, and the protocols that it needs, are reported."""
    rules = (
        "table inet t { chain c { type filter hook input priority 0; tcp dport 5301 drop; udp "
        "dport 5302 drop; }; }"
    )
    both.server.run(["nft", "-f", "-"], input=rules)
    try:
        result, _ = await complete_run(
            both, limits=RunTimeouts(first_byte=2.0, stall=1.0), port=5301
        )
        (found,) = report_of(result).findings
        assert (
            found.title == "TCP port 5301 from a arrives at b, and no answer comes back"
            and result.failure is not None
        )
        assert any("nft" in str(line) for fix in found.fixes for line in fix.commands)
        result, _ = await complete_run(both, port=5302)
        assert result.failure is None and report_of(result).findings == ()
    finally:
        both.server.run(["nft", "flush", "ruleset"])


async def test_port_in_use(both: Pair) -> None:
    """The path is tested over another port, and the run uses the next one."""
    code = (
        "import socket,sys; s=socket.create_server(('', 5401)); print(flush=True); sys.stdin.read()"
    )
    process = await asyncio.create_subprocess_exec(
        *("ip", "netns", "exec", both.server.name, "python3", "-c", code),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    result, _ = await complete_run(both, port=5401)
    process.terminate()
    await process.wait()
    assert (result.failure, result.plan.port, report_of(result).findings) == (None, 5402, ())
    test = report_of(result).result.directions[0].test
    assert test is not None and test.port not in (0, 5401)
