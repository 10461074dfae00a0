"""Sources of what is reached through a host, for tests."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from nictop.probe.records import Inventory, Line
from nictop.wire.guests.levels import parse_levels
from nictop.wire.guests.source import LocalGuestSource
from nictop.wire.ssh.source import SshSource, SshTarget
from tests.support.items import Item, has_record, items_until, next_state
from tests.support.probe import is_alive, wait_until
from tests.support.sshd import Sshd, skip_without_sshd

QUICK = (0.01, 0.05)


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    skip_without_sshd()
    server = Sshd(tmp_path / "server", path="/usr/sbin:/usr/bin:/sbin:/bin")
    server.set_python(sys.executable)
    yield server
    server.stop()


def here(levels: str) -> SshSource:
    """A source of what is reached through this machine."""
    target = SshTarget("local", label=f"local/{levels}")
    return LocalGuestSource(target, 0.1, levels=parse_levels(levels), retry=QUICK)


def there(server: Sshd, levels: str) -> SshSource:
    """A source of what is reached through the host of the sshd."""
    return SshSource(server.target(label="kvm1"), 0.1, levels=parse_levels(levels), retry=QUICK)


@asynccontextmanager
async def following(source: SshSource) -> AsyncIterator[AsyncIterator[Item]]:
    async with aclosing(source.items()) as items:
        yield items
        await source.close()


async def inventory(source: SshSource) -> tuple[Inventory, list[int]]:
    """The first complete inventory, and the probes' process IDs, which have ended."""
    async with following(source) as items:
        received = await items_until(items, has_record("inventory"))
    lines = [item for item in received if isinstance(item, Line)]
    pids = [line.hello.pid for line in lines if line.hello is not None]
    wait_until(lambda: not any(map(is_alive, pids)))
    found = lines[-1].inventory
    assert found is not None
    return found, pids


def link_names(found: Inventory) -> set[str]:
    return {link.name for link in found.links}


async def failure(source: SshSource) -> str:
    async with following(source) as items:
        return (await next_state(items, "failed")).message
