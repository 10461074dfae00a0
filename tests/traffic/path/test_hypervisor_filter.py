"""Path tests between two guests of a bridge whose host filters their frames: real probes, bridges
and chains."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nictop.probe.records import Inventory, Request
from nictop.rules import HostFacts, diagnose
from nictop.rules.finding import Finding
from nictop.traffic.path.result import PathReport, PathRequest
from nictop.traffic.path.session import PathSession
from nictop.traffic.run.events import RunTimeouts
from tests.support.namespaces import Namespace, why_no_namespaces
from tests.traffic.pair import LIMIT, WIRE, Pair, followed, namespaces, source
from tests.traffic.real_runs import complete_run, failed

BRIDGE_NETFILTER = "/proc/sys/net/bridge/bridge-nf-call-iptables"
REASON = why_no_namespaces() or (
    None if os.path.exists(BRIDGE_NETFILTER) else "this kernel has no br_netfilter"
)
pytestmark = [pytest.mark.skipif(REASON is not None, reason=REASON or ""), pytest.mark.asyncio]
DROPS = "{ type filter hook forward priority 0; policy drop; }"
SET_UPS = {
    "nftables": ("nft", f"nft add table ip filter; nft 'add chain ip filter FORWARD {DROPS}'"),
    "Docker": (
        "iptables-nft",
        "iptables-nft -P FORWARD DROP; iptables-nft -N DOCKER-USER; iptables-nft -A FORWARD -j "
        "DOCKER-USER; "
        "iptables-nft -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT; "
        "iptables-nft -A FORWARD -i docker0 -j ACCEPT",
    ),
    "family bridge": (
        "nft",
        f"nft add table bridge filter; nft 'add chain bridge filter FORWARD {DROPS}'",
    ),
}


@asynccontextmanager
async def bridged() -> AsyncIterator[tuple[Pair, Namespace]]:
    """Two guests on the bridge br0 of a third host, "h"; all three are watched."""
    with namespaces() as (client, server), namespaces() as (hypervisor, _):
        hypervisor.run(["ip", "link", "add", "br0", "type", "bridge"])
        hypervisor.run(["ip", "link", "set", "br0", "up"])
        for number, guest in ((1, client), (2, server)):
            port = f"vnet{number}"
            guest.run(
                [
                    "ip",
                    "link",
                    "add",
                    WIRE,
                    "type",
                    "veth",
                    "peer",
                    "name",
                    port,
                    "netns",
                    hypervisor.name,
                ]
            )
            guest.run(["ip", "address", "add", f"198.18.0.{number}/24", "dev", WIRE])
            guest.run(["ip", "link", "set", WIRE, "up"])
            hypervisor.run(["ip", "link", "set", port, "master", "br0", "up"])
        sources = [source(client, "a"), source(server, "b"), source(hypervisor, "h")]
        async with followed(client, server, sources) as both:
            yield both, hypervisor


async def path_report(both: Pair, *names: str) -> PathReport:
    request = PathRequest("a", "b", WIRE, "198.18.0.1", WIRE, "198.18.0.2")
    return await PathSession(
        request, [both.hosts[name].session for name in names], timeout=LIMIT
    ).run()


async def read_again(both: Pair, findings: int) -> list[Finding]:
    """The findings of the rule after an inventory in which there are so many."""

    def found() -> list[Finding]:
        diagnosis = diagnose([HostFacts(both.hosts["h"].snapshot)])
        return [one for one in diagnosis.findings if one.rule == "bridged_frames_are_filtered"]

    session = both.hosts["h"].session
    while len(found()) != findings:
        before = session.snapshot.inventory

        def is_newer(before: Inventory | None = before) -> bool:
            return session.snapshot.inventory is not before

        await session.request(Request(inventory=True))
        assert await session.until(is_newer, LIMIT)
    return found()


@pytest.mark.parametrize("name", SET_UPS)
async def test_the_hypervisor_is_named(name: str) -> None:
    program, set_up = SET_UPS[name]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    async with bridged() as (both, hypervisor):
        assert (await path_report(both, "a", "b", "h")).findings == ()
        hypervisor.run(["bash", "-ec", set_up])
        await read_again(both, 1)
        report = await path_report(both, "a", "b", "h")
        (finding,) = [one for one in report.findings if one.severity == "critical"]
        assert (finding.rule, finding.host, finding.subject) == (
            "path_hypervisor_filter",
            "h",
            "br0",
        )
        assert "frames between its ports are filtered by" in finding.title
        if name == "family bridge":  # its fix only shows the chain
            unwatched = await path_report(both, "a", "b")
            assert not any(one.rule == "path_hypervisor_filter" for one in unwatched.findings)
            return
        hypervisor.run(["bash", "-c", str(finding.fixes[0].commands[0])])
        await read_again(both, 0)
        assert (await path_report(both, "a", "b", "h")).findings == ()


@pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed")
async def test_a_run_names_the_hypervisor() -> None:
    async with bridged() as (both, hypervisor):
        hypervisor.run(["bash", "-ec", SET_UPS["nftables"][1]])
        await read_again(both, 1)
        found = await failed(both, limits=RunTimeouts(first_byte=3.0, stall=2.0))
        assert (found.kind, found.host) == ("filtered", "h"), found
        assert found.sentence == (
            "h, the hypervisor: br0: frames between its ports are filtered by FORWARD (policy drop)"
        )
        hypervisor.run(["bash", "-c", found.commands[0]])
        await read_again(both, 0)
        result, _ = await complete_run(both)
        assert result.failure is None and result.goodput
