"""Both ends on this machine are created, and removed without leftovers."""

from __future__ import annotations

import asyncio
import os
import shlex
from contextlib import aclosing

import pytest

from nictop.probe.records import Inventory
from nictop.traffic.experiment import self_test
from nictop.traffic.experiment.self_test import LINK, SelfTest, self_test_pair
from nictop.traffic.plan.request import RunRequest
from nictop.wire.source import Source
from tests.conftest import why_no_namespace
from tests.support.namespaces import holders

needs_namespaces = pytest.mark.skipif(
    why_no_namespace() is not None, reason=why_no_namespace() or ""
)


async def inventory(source: Source) -> Inventory:
    """The first inventory of a source."""
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        async for item in items:
            found = getattr(item, "inventory", None)
            if isinstance(found, Inventory):
                return found
    raise AssertionError("it ended before")


async def ends(test: SelfTest) -> list[tuple[str, list[str], list[str]]]:
    """(host, its links, addresses of `LINK`)"""
    found = []
    for source in test.sources:
        links = (await inventory(source)).links
        addresses = [one.address for link in links if link.name == LINK for one in link.addresses]
        found.append((source.name, sorted(link.name for link in links), addresses))
    return found


@needs_namespaces
async def test_two_pairs_at_once_are_connected_and_separate() -> None:
    async with (
        self_test_pair() as one,
        self_test_pair(RunRequest("x", "y", time=3, ip_version=6)) as other,
    ):
        assert len(holders(os.getpid())) == 2
        for test in (one, other):
            client, server = await ends(test)
            assert (client[0], server[0]) == ("client", "server")
            assert LINK in client[1] and LINK in server[1] and "eth0" not in client[1] + server[1]
            assert "198.18.0.1" in client[2] and "198.18.0.2" in server[2]
            assert test.description.endswith("measures this machine, no NIC")
        assert (one.request.client_nic, one.request.server_address, one.request.time) == (
            LINK,
            "198.18.0.2",
            10,
        )
        assert (other.request.server_address, other.request.time) == ("fd6e:6963:746f:0::2", 3)
        assert LINK not in os.listdir("/sys/class/net"), (
            "nothing is added to the machine's own namespace"
        )
    assert holders(os.getpid()) == []


@needs_namespaces
async def test_a_cancelled_task_removes_its_namespaces() -> None:
    inside = asyncio.Event()

    async def stay() -> None:
        async with self_test_pair() as test:
            assert await inventory(test.sources[0])
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(stay())
    await inside.wait()
    assert len(holders(os.getpid())) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert holders(os.getpid()) == []


@needs_namespaces
@pytest.mark.parametrize(
    ("holder", "reason"),
    [
        ("echo no veth; exit 2", "no veth"),
        ("exit 1", "the process that makes them ended"),
        ("exec head -c 300000 /dev/zero", "no answer"),
    ],
)
async def test_without_namespaces_loopback_is_used(
    monkeypatch: pytest.MonkeyPatch, holder: str, reason: str
) -> None:
    monkeypatch.setattr(self_test, "holder_command", lambda: ["sh", "-c", holder])
    async with self_test_pair() as test:
        assert f"network namespaces cannot be created: {reason}" in test.description
        assert (
            [source.name for source in test.sources]
            == [test.request.client]
            == [test.request.server]
        )
        assert (test.request.client_nic, test.request.server_address) == ("lo", "127.0.0.1")


@needs_namespaces
async def test_a_holder_says_why_it_cannot_make_them() -> None:
    """Without the right to mount."""
    words = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
    command = shlex.join([*words, *self_test.holder_command()])
    process = await asyncio.create_subprocess_shell(
        command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert printed == b"namespaces cannot be made here: Operation not permitted\n"
    assert process.returncode == 2
