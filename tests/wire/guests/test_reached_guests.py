"""Guests and containers reached through a host: real namespaces, on this machine and over a real
sshd."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.reach.problem import LIBVIRT_SOCKETS
from nictop.probe.records import Line
from nictop.wire.guests.levels import Level, parse_levels
from nictop.wire.guests.source import LocalGuestSource
from nictop.wire.source import SourceState
from nictop.wire.ssh import source as ssh_source
from nictop.wire.ssh.remote_probe import Rights
from nictop.wire.ssh.source import SshSource
from tests.support.items import Item, has_record, items_until, next_state
from tests.support.namespaces import Namespace
from tests.support.probe import wait_until
from tests.support.sshd import Sshd, disable_ssh_timeouts, public_key, skip_without_sshd
from tests.support.vsock import vsock_level
from tests.wire.guests.reaching import (
    QUICK,
    failure,
    following,
    here,
    inventory,
    link_names,
    sshd,
    there,
)

__all__ = ["sshd"]


@pytest.fixture(autouse=True)
def no_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    disable_ssh_timeouts(monkeypatch)


Reach = Callable[[str], SshSource]


@pytest.fixture(params=["local", "ssh"])
def reach(request: pytest.FixtureRequest) -> Reach:
    """A source by its levels, on this machine or over SSH."""
    if request.param == "local":
        return here
    server: Sshd = request.getfixturevalue("sshd")
    return lambda levels: there(server, levels)


async def test_a_network_namespace(reach: Reach, namespace: Namespace) -> None:
    namespace.run(["ip", "link", "add", "inside0", "type", "veth", "peer", "name", "inside1"])
    found, pids = await inventory(reach(f"netns:{namespace.name}"))
    assert link_names(found) == {"lo", "inside0", "inside1"} and len(pids) == 1


async def test_a_namespace_that_does_not_exist(reach: Reach) -> None:
    message = await failure(reach("netns:nictop-none"))
    assert "there is no netns:nictop-none: Cannot open network namespace" in message
    assert "ip netns list there shows what there is" in message


# ----------------------------------------------------------------------------------------- by SSH


@pytest.fixture
def inner(tmp_path: Path, namespace: Namespace) -> Iterator[Sshd]:
    """An sshd in a namespace that nothing is joined with."""
    skip_without_sshd()
    namespace.run(["ip", "link", "add", "inside0", "type", "veth", "peer", "name", "inside1"])
    server = Sshd(tmp_path / "inner", namespace=namespace, path="/usr/sbin:/usr/bin:/sbin:/bin")
    server.set_python(sys.executable)
    yield server
    server.stop()


def trust(server: Sshd, other: Sshd) -> None:
    """What may log in to `server` may log in to `other`, whose key is known."""
    other.authorized.write_text(public_key(server.key) + "\n")
    server.known_hosts.write_text(server.known_hosts.read_text() + other.known_hosts.read_text())


async def test_a_guest_by_ssh_through_its_host(sshd: Sshd, tmp_path: Path) -> None:
    other = Sshd(tmp_path / "other")
    other.set_python(sys.executable)
    trust(sshd, other)
    source = there(sshd, f"ssh:{other.user}@{other.address}:{other.port}")
    async with following(source) as items:
        await items_until(items, has_record("counters"))
        assert other.probes() and not sshd.probes()
    wait_until(lambda: not other.sessions() and not sshd.sessions())
    other.stop()


async def test_ssh_through_what_is_no_host(sshd: Sshd, inner: Sshd, namespace: Namespace) -> None:
    """A process in the namespace carries the connection; what is below the guest is reached, too."""
    trust(sshd, inner)
    way = f"netns:{namespace.name}/ssh:{inner.user}@{inner.address}:{inner.port}"
    found, _ = await inventory(there(sshd, way))
    assert link_names(found) == {"lo", "inside0", "inside1"}
    beyond = Namespace()
    try:
        found, _ = await inventory(there(sshd, f"{way}/netns:{beyond.name}"))
        assert link_names(found) == {"lo"}
    finally:
        beyond.remove()
    wait_until(lambda: not inner.sessions() and not sshd.sessions())


async def test_ssh_from_this_machine_through_a_namespace(
    sshd: Sshd, inner: Sshd, namespace: Namespace
) -> None:
    trust(sshd, inner)
    levels = parse_levels(f"netns:{namespace.name}/ssh:{inner.user}@127.0.0.1:{inner.port}")
    source = LocalGuestSource(sshd.target(label="a"), 0.1, levels=levels)
    found, _ = await inventory(source)
    assert link_names(found) == {"lo", "inside0", "inside1"}
    wait_until(lambda: not inner.sessions())


async def test_a_guest_over_vsock(sshd: Sshd, other: Sshd) -> None:
    """It has no network that the hypervisor knows: AF_VSOCK, or its stand-in."""
    level, relay = vsock_level(sshd, other)
    async with following(there(sshd, level)) as items:
        await items_until(items, has_record("counters"))
        assert other.probes() and not set(sshd.probes()) & set(other.probes())
    wait_until(lambda: not other.sessions() and not sshd.sessions())
    if relay is not None:
        relay.stop()


async def test_what_is_in_a_guest_over_vsock(sshd: Sshd, other: Sshd, namespace: Namespace) -> None:
    """Levels behind it."""
    level, relay = vsock_level(sshd, other)
    found, _ = await inventory(there(sshd, f"{level}/netns:{namespace.name}"))
    assert link_names(found) == {"lo"}
    wait_until(lambda: not other.sessions() and not sshd.sessions())
    if relay is not None:
        relay.stop()


async def test_new_host_key_of_a_guest_behind_a_namespace(
    sshd: Sshd, inner: Sshd, namespace: Namespace
) -> None:
    """It is accepted by a second connection, whose process is another one, and stored."""
    inner.authorized.write_text(public_key(sshd.key) + "\n")
    way = f"netns:{namespace.name}/ssh:{inner.user}@{inner.address}:{inner.port}"
    source = SshSource(
        sshd.target(label="kvm1"),
        0.1,
        levels=parse_levels(way),
        host_keys="accept-new",
        retry=QUICK,
    )
    async with following(source) as items:
        received = await items_until(items, has_record("inventory"))
    assert not [one for one in received if isinstance(one, SourceState) and one.state == "lost"]
    found, _ = await inventory(there(sshd, way))
    assert link_names(found) == {"lo", "inside0", "inside1"}
    wait_until(lambda: not inner.sessions() and not sshd.sessions())


@pytest.mark.parametrize(
    ("way", "why"),
    [
        ("ssh:127.0.0.1:1", "jump host cannot reach kvm1: "),
        ("netns:NAMESPACE/ssh:127.0.0.1:1", "cannot connect to ssh:127.0.0.1 port 1: Connection"),
        ("vsock:4000000000", "cannot connect to vsock:4000000000 port 22: "),
    ],
)
async def test_a_guest_that_does_not_answer_by_ssh(
    sshd: Sshd, namespace: Namespace, way: str, why: str
) -> None:
    async with following(there(sshd, way.replace("NAMESPACE", namespace.name))) as items:
        message = (await next_state(items, "lost")).message
    assert why in message and message.isprintable()
    wait_until(lambda: not sshd.sessions())


# ------------------------------------------------------------------------- by the best way there is


@pytest.fixture
def other(sshd: Sshd, tmp_path: Path) -> Iterator[Sshd]:
    """The sshd of a guest."""
    server = Sshd(tmp_path / "other")
    server.set_python(sys.executable)
    trust(sshd, server)
    yield server
    server.stop()


def known_at(monkeypatch: pytest.MonkeyPatch, *addresses: str, port: int, user: str = "") -> None:
    """The hypervisor knows these addresses of its guests, and ssh_config has that port."""

    async def found(*_: object, **__: object) -> tuple[tuple[str, str], ...]:
        return tuple((address, "neighbour table") for address in addresses)

    monkeypatch.setattr(SshSource, "_guest_addresses", found)
    monkeypatch.setattr(
        ssh_source, "ssh_level", lambda address: Level("ssh", f"{user}@{address}:{port}")
    )


async def why_not(source: SshSource) -> str:
    """The reason of the first attempt. With virsh, which may start later, there are others."""
    async with following(source) as items:
        received = await items_until(items, is_end)
    end = received[-1]
    assert isinstance(end, SourceState)
    return end.message


def is_end(item: Item) -> bool:
    return isinstance(item, SourceState) and item.state in ("lost", "failed")


async def test_a_guest_without_an_agent_is_reached_by_ssh(
    sshd: Sshd, other: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first address does not answer. What was done, and why, is told."""
    known_at(monkeypatch, "127.0.0.9", other.address, port=other.port, user=other.user)
    async with following(there(sshd, "nictop-guest")) as items:
        received = await items_until(items, has_record("counters"))
        assert other.probes() and not sshd.probes()
    told = [one.trouble.message for one in received if isinstance(one, Line) and one.trouble]
    how = f"reached by SSH to {other.address} (neighbour table), as its agent cannot be used: "
    assert [one for one in told if one.startswith(how) and len(one) > len(how)]
    wait_until(lambda: not other.sessions() and not sshd.sessions())


async def test_what_is_in_a_guest_without_an_agent(
    sshd: Sshd, other: Sshd, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_at(monkeypatch, other.address, port=other.port, user=other.user)
    found, _ = await inventory(there(sshd, f"nictop-guest/netns:{namespace.name}"))
    assert link_names(found) == {"lo"}
    wait_until(lambda: not other.sessions() and not sshd.sessions())


async def test_both_reasons_are_said_if_neither_way_works(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_at(monkeypatch, "127.0.0.1", port=1, user="root")
    message = await why_not(there(sshd, "nictop-guest"))
    assert message.startswith("kvm1: ")
    assert "; SSH to 127.0.0.1 (neighbour table): jump host cannot reach kvm1: " in message
    wait_until(lambda: not sshd.sessions())


async def test_an_agent_that_was_asked_for_is_the_only_way(
    sshd: Sshd, other: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_at(monkeypatch, other.address, port=other.port, user=other.user)
    assert "SSH to" not in await why_not(there(sshd, "agent:nictop-guest"))
    assert not other.sessions()


async def test_a_guest_of_which_no_address_is_known(sshd: Sshd) -> None:
    """By the program that a hypervisor runs."""
    message = await why_not(there(sshd, "nictop-guest"))
    assert message.endswith("no address of the guest is known there for SSH")
    wait_until(lambda: not sshd.sessions())


async def test_a_guest_is_asked_again_only_when_libvirt_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_sshd()
    if any(map(os.path.exists, LIBVIRT_SOCKETS)):
        pytest.skip("libvirt runs here")
    virsh = tmp_path / "virsh"
    virsh.write_text("#!/bin/sh\nexit 1\n")
    virsh.chmod(0o755)
    server = Sshd(tmp_path / "server", path=f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
    server.set_python(sys.executable)
    path = tmp_path / "libvirt-sock"
    monkeypatch.setattr(ssh_source, "LIBVIRT_SOCKETS", (str(path),))
    monkeypatch.setattr(ssh_source, "LIBVIRT_CHECK_SECONDS", 0.01)
    source = there(server, "agent:nictop-guest")
    starts: list[Rights] = []
    start = source._started

    async def counted(rights: Rights) -> Any:
        starts.append(rights)
        return await start(rights)

    monkeypatch.setattr(source, "_started", counted)
    async with following(source) as items:
        for _ in range(3):
            message = (await next_state(items, "lost")).message
            assert "no running guest nictop-guest found" in message
            assert "libvirt does not run there" in message
        assert len(starts) == 1
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
        await next_state(items, "connecting")
        await next_state(items, "lost")
        assert len(starts) == 2
    server.stop()
