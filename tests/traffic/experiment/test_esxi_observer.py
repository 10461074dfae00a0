"""A test between two ends on this machine, which an ESXi host observes that runs one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.hosts.session import HostSession, running
from nictop.hosts.specification import LOCAL, Host
from nictop.report.runs.sentences import result_sentences
from nictop.traffic.analysis import path_proof
from nictop.traffic.experiment.self_test import LINK, self_test_pair
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.results.result import Result
from nictop.traffic.session import RunSession
from nictop.wire.ssh.source import SshSource
from tests.conftest import why_no_namespace
from tests.support.esxi import EsxiHost, esxi_host, statistics
from tests.support.items import ITEM_TIMEOUT
from tests.support.sshd import disable_ssh_timeouts

pytestmark = pytest.mark.skipif(why_no_namespace() is not None, reason=why_no_namespace() or "")


@pytest.fixture
def esxi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EsxiHost]:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    disable_ssh_timeouts(monkeypatch)
    monkeypatch.setattr(
        path_proof, "_one_machine", lambda *_: False
    )  # two namespaces stand for two machines
    with esxi_host(tmp_path / "sshd", monkeypatch) as host:
        yield host


async def observed_run(esxi: EsxiHost, ready: float) -> Result:
    """The result of a run of five seconds. The server is ``web1``, which waits for a pCPU for
    `ready` per cent."""
    request = RunRequest("", "", time=5, generator="builtin", bitrate=50_000_000)
    async with self_test_pair(request) as test:
        ends = [HostSession(Host(one.name, LOCAL), one, window=False) for one in test.sources]
        async with running(*ends):
            server = ends[1]
            assert await server.until(lambda: server.snapshot.inventory is not None, ITEM_TIMEOUT)
            address = next(
                one.address for one in server.snapshot.links.values() if one.name == LINK
            )
            value = statistics(web_mac=address or "")
            for world in ("2100870", "2100871"):
                value["stats"][0]["vcpus"][world]["ready"] = ready
            esxi.prints("net-stats", value)
            observer = HostSession(
                Host("esx1", "esx1"), SshSource(esxi.sshd.target(label="esx1"), 0.1)
            )
            async with running(observer):
                wanted = replace(test.request, observers=("esx1",))
                session = RunSession(wanted, [*ends, observer], timeout=ITEM_TIMEOUT)
                ended = await session.run(lambda _: None)
    return ended.results[-1].result


async def test_the_hypervisor_and_who_carried_the_bytes(esxi: EsxiHost) -> None:
    result = await observed_run(esxi, ready=0.5)
    assert result.failure is None, result.failure
    load = next(one for one in result.hosts if one.host == "esx1")
    assert load.role == "observer" and load.busy is not None
    assert load.busy.cores == 8 and load.busy.total == pytest.approx(1.0, abs=0.05)
    machines = {one.name: one for one in load.machines}
    assert machines["web1"].end == "server" and machines["db1"].end == ""
    assert machines["web1"].ready == pytest.approx(0.005, abs=0.001)
    assert result.proof is not None
    assert {one.name for one in result.proof.observed} >= {"vmnic0", "web1.eth0"}
    assert not any("CPU ready" in reason for reason in result.why_not_ranked)
    text = "\n".join(one.text for one in result_sentences(result))
    assert re.search(r"VM web1 \(server\): 1\.1\d cores, CPU ready 0\.5 %, co-stop 0 %", text), text


async def test_a_run_whose_end_waited_for_a_cpu_is_not_ranked(esxi: EsxiHost) -> None:
    result = await observed_run(esxi, ready=12.0)
    assert "server: 12 % CPU ready on esx1" in result.why_not_ranked
