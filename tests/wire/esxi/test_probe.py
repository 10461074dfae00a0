"""An ESXi host over a real sshd, with replayed outputs: records, what is unknown, and what is left
on the host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from nictop.hosts.observe import observe
from nictop.hosts.session import HostSession
from nictop.hosts.specification import Host
from nictop.model.queues.cpu_consumers import cpu_consumers
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Link
from nictop.wire.ssh.source import SshSource
from tests.support.esxi import DB_MAC, VF_MAC, EsxiHost, esxi_host, outputs, statistics
from tests.support.items import ITEM_TIMEOUT
from tests.support.sshd import disable_ssh_timeouts


@pytest.fixture
def esxi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EsxiHost]:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    disable_ssh_timeouts(monkeypatch)
    with esxi_host(tmp_path, monkeypatch) as host:
        yield host


async def observed(esxi: EsxiHost, *, sudo: bool = False) -> Snapshot:
    source = SshSource(esxi.sshd.target(label="esx1", sudo=sudo), 0.1)
    snapshot, _ = await observe(
        HostSession(Host("esx1", "esx1"), source), interval=0.1, timeout=ITEM_TIMEOUT
    )
    return snapshot


def link(snapshot: Snapshot, name: str) -> Link:
    return next(one for one in snapshot.links.values() if one.name == name)


async def test_physical_nics_functions_and_machines(esxi: EsxiHost) -> None:
    snapshot = await observed(esxi)
    assert snapshot.message == ""
    assert snapshot.hello is not None and snapshot.hello.kernel == "VMkernel 7.0.3"
    assert snapshot.inventory is not None
    assert (
        snapshot.inventory.platform.environment == "esxi"
        and snapshot.inventory.platform.online_cpus == "0-7"
    )
    assert snapshot.inventory.platform.distribution == "VMware ESXi 7.0.3 Releasebuild-20000000"
    nic = link(snapshot, "vmnic4")
    assert nic.mtu == 1500 and nic.pci_address == "0000:3b:00.0" and nic.carrier
    assert nic.ethtool.settings is not None and nic.ethtool.settings.speed == 40000
    assert [(one.number, one.machine, one.address) for one in nic.virtual_functions] == [
        (0, None, None),
        (1, "db1", VF_MAC),
    ]
    port = link(snapshot, "db1.eth0")
    assert port.address == DB_MAC and port.kind == "vnic"
    assert (
        port.master == link(snapshot, "vSwitch0").ifindex
        and port.lower == link(snapshot, "vmnic0").ifindex
    )
    function = next(one for one in snapshot.pci if one.address == "0000:3b:02.1")
    assert (function.physical_function, function.virtual_function) == ("0000:3b:00.0", 1)


async def test_rates_of_ports_processors_and_virtual_processors(esxi: EsxiHost) -> None:
    snapshot = await observed(esxi)
    rates = snapshot.rates
    assert rates is not None
    assert rates.links[link(snapshot, "vmnic0").ifindex].rx_bits == pytest.approx(940e6, rel=0.01)
    assert rates.links[link(snapshot, "web1.eth0").ifindex].rx_bits == pytest.approx(
        940e6, rel=0.01
    )
    assert rates.links[link(snapshot, "vmnic0").ifindex].rx_dropped == pytest.approx(2.0, abs=30)
    assert rates.cpus[0].busy == pytest.approx(0.5, abs=0.01) and rates.cpus[
        0
    ].system == pytest.approx(0.1, abs=0.01)
    assert sorted(rates.cpus) == list(range(8))
    machines = {one.name: one for one in cpu_consumers(snapshot)}
    assert sorted(machines) == ["db1", "web1"]
    assert machines["db1"].ready == pytest.approx(0.12, abs=0.003)
    assert machines["db1"].costop == pytest.approx(0.02, abs=0.003)
    assert machines["web1"].vcpu == pytest.approx(1.03, abs=0.01)
    assert machines["web1"].rest == pytest.approx(0.07, abs=0.01)
    assert machines["web1"].cpus == ()


async def test_totals_of_a_nic_begin_with_its_own_counters(esxi: EsxiHost) -> None:
    snapshot = await observed(esxi)
    assert snapshot.counters is not None
    counted = snapshot.counters.links[link(snapshot, "vmnic4").ifindex]
    assert counted[:6] == (10, 10, 6000, 7000, 2, 0)


async def test_the_counters_of_a_function_in_use(esxi: EsxiHost) -> None:
    snapshot = await observed(esxi)
    assert snapshot.counters is not None
    assert list(snapshot.counters.vfs) == [link(snapshot, "vmnic4").ifindex]
    assert list(snapshot.counters.vfs[link(snapshot, "vmnic4").ifindex]) == [1]


async def test_sudo_is_not_used(esxi: EsxiHost) -> None:
    esxi.sshd.install_script("sudo", "#!/bin/sh\necho 'sudo: not found' >&2\nexit 127\n")
    assert (await observed(esxi, sudo=True)).state == "live"


async def test_only_reading_commands_are_run(esxi: EsxiHost) -> None:
    await observed(esxi)
    words = {call.replace("-", "_").split("_")[-1] for call in esxi.calls}
    assert not words & {"set", "add", "remove", "up", "down"}
    assert all(" list" in name or " get" in name or " stats" in name for name in outputs())


async def test_nothing_is_left_on_the_host(esxi: EsxiHost) -> None:
    await observed(esxi)
    assert not list(esxi.sshd.home.iterdir())


@asynccontextmanager
async def watched(esxi: EsxiHost) -> AsyncIterator[HostSession]:
    session = HostSession(Host("esx1", "esx1"), SshSource(esxi.sshd.target(label="esx1"), 0.1))
    task = asyncio.ensure_future(session.run())
    try:
        yield session
    finally:
        await session.close()
        await task


async def wait_for(session: HostSession, condition: Callable[[], object]) -> None:
    assert await session.until(condition, ITEM_TIMEOUT), session.snapshot.message


async def test_a_machine_that_is_powered_off_leaves_the_inventory(esxi: EsxiHost) -> None:
    async with watched(esxi) as session:
        await wait_for(
            session, lambda: any(one.name == "db1.eth0" for one in session.snapshot.links.values())
        )
        value = statistics()
        ports = value["stats"][0]["ports"]
        value["stats"][0]["ports"] = [port for port in ports if port["name"] != "db1.eth0"]
        esxi.prints("net-stats", value)
        await wait_for(
            session,
            lambda: not any(one.name == "db1.eth0" for one in session.snapshot.links.values()),
        )
        assert any(one.name == "web1.eth0" for one in session.snapshot.links.values())


COMMANDS = sorted(outputs())


@pytest.mark.parametrize(
    "text", ["", "[", "Error: connection lost\n", "\xff\x00", "{}", "[[[[", "null"]
)
async def test_outputs_that_are_not_as_expected(esxi: EsxiHost, text: str) -> None:
    for command in COMMANDS:
        esxi.prints_text(command, text)
    snapshot = await observed(esxi)
    assert snapshot.inventory is not None
    assert snapshot.inventory.platform.online_cpus is None
    assert snapshot.rates is not None and not snapshot.rates.cpus
    assert not any(one.virtual_functions for one in snapshot.links.values())
    names = {one.name for one in snapshot.links.values()}
    assert "web1.eth0" in names


async def test_commands_that_do_not_exist(esxi: EsxiHost) -> None:
    for tool in ("esxcli", "net-stats"):
        (esxi.sshd.tools / tool).unlink()
    snapshot = await observed(esxi)
    assert snapshot.inventory is not None and not snapshot.links
    assert "127" in snapshot.inventory.unreadable["links"].detail
    assert snapshot.counters is not None and "127" in snapshot.counters.unreadable["cpus"].detail


async def test_counters_of_a_function_that_cannot_be_read(esxi: EsxiHost) -> None:
    esxi.fails("network sriovnic vf stats -n vmnic4 -v 1")
    snapshot = await observed(esxi)
    assert snapshot.counters is not None and snapshot.counters.vfs == {}


async def test_a_command_without_an_answer_is_killed(
    esxi: EsxiHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nictop.wire.esxi import shell

    monkeypatch.setattr(shell.EsxiShell.run, "__defaults__", (0.3,))
    hanging = esxi.sshd.tools / "esxcli"
    text = hanging.read_text()
    hanging.write_text(
        text.replace(
            "case $name in",
            "case $name in\nnetwork_sriovnic_list) exec cat /dev/zero >/dev/null;;",
            1,
        )
    )
    snapshot = await observed(esxi)
    assert snapshot.inventory is not None
    assert "no answer within" in snapshot.inventory.unreadable["virtual_functions"].detail
    assert link(snapshot, "vmnic4").virtual_functions == ()


async def test_an_output_above_the_limit(esxi: EsxiHost) -> None:
    esxi.prints_text("vm process list", "[" + " " * 6_000_000 + "]")
    snapshot = await observed(esxi)
    assert snapshot.inventory is not None
    assert "more than" in snapshot.inventory.unreadable["machines"].detail
    assert link(snapshot, "vmnic4").virtual_functions[1].machine is None


async def test_the_owner_of_a_function_from_9_0_on(esxi: EsxiHost) -> None:
    for command, value in outputs("9.0.0").items():
        esxi.prints(command, value)
    entries = outputs()["network sriovnic vf list -n vmnic4"]
    entries[1]["OwnerWorldID"] = "2100859"
    esxi.prints("network sriovnic vf list -n vmnic4", entries)
    snapshot = await observed(esxi)
    assert link(snapshot, "vmnic4").virtual_functions[1].machine == "web1"


async def test_a_lost_connection_is_made_again(esxi: EsxiHost) -> None:
    source = SshSource(esxi.sshd.target(), 0.1, retry=(0.01, 0.05))
    async with aclosing(source.items()) as items:
        seen = []
        async for item in items:
            seen.append(item)
            if getattr(item, "counters", None) is not None:
                break
        esxi.sshd.stop()
        esxi.sshd.start()
        async for item in items:
            if getattr(item, "counters", None) is not None and "lost" in [
                getattr(one, "state", "") for one in seen
            ]:
                break
            seen.append(item)
        await source.close()
    assert sum(getattr(one, "hello", None) is not None for one in seen) == 2
