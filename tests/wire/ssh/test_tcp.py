"""The TCP connection of a host: what is reported of it, and which error is told."""

from __future__ import annotations

import asyncio
import errno
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from nictop.wire.ssh.authentication import Credentials
from nictop.wire.ssh.connection import SshTarget, connect
from nictop.wire.ssh.tcp import open_socket


class Stages(list[tuple[str, str]]):
    """The reported stages."""

    def __call__(self, stage: str, target: str) -> None:
        self.append((stage, target))


def settings(host: str, port: int = 22, **more: Any) -> Any:
    given = {"family": 0, "local_addr": None, "proxy_command": None}
    return SimpleNamespace(host=host, port=port, **(given | more))


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    async def found(host: str, port: int, **options: object) -> list[Any]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses
        ]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)


async def test_every_address_is_tried_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.2", 0)) as server:
        port = server.getsockname()[1]
        resolve_to(monkeypatch, "127.0.0.1", "127.0.0.2")
        stages = Stages()
        opened = await open_socket(settings("pve.example", port), stages)
        assert opened is not None
        with opened:
            assert opened.getpeername() == ("127.0.0.2", port)
    assert stages == [
        ("resolve", "pve.example"),
        ("connect", f"127.0.0.1 port {port}"),
        ("connect", f"127.0.0.2 port {port}"),
    ]


async def test_a_refused_connection_says_more_than_a_missing_route(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolve_to(monkeypatch, "192.0.2.1", "192.0.2.2", "192.0.2.3")
    numbers = {
        "192.0.2.1": errno.ENETUNREACH,
        "192.0.2.2": errno.ECONNREFUSED,
        "192.0.2.3": errno.ENETUNREACH,
    }

    async def refuse(opened: socket.socket, address: tuple[str, int]) -> None:
        raise OSError(numbers[address[0]], "no")

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", refuse)
    with pytest.raises(ConnectionRefusedError):
        await open_socket(settings("pve.example"), Stages())


async def test_a_proxy_command_is_left_to_asyncssh() -> None:
    stages = Stages()
    assert await open_socket(settings("pve.example", proxy_command=["nc"]), stages) is None
    assert stages == [("connect", "pve.example")]


@pytest.mark.parametrize(
    ("waits", "text"),
    [
        ("getaddrinfo", "vm1: no answer from the resolver within 0.05 s"),
        ("sock_connect", "vm1: no answer from 192.0.2.1 port 22 within 0.05 s"),
    ],
)
async def test_the_time_limit_names_what_did_not_answer(
    monkeypatch: pytest.MonkeyPatch, waits: str, text: str
) -> None:
    from nictop.wire.errors import TransientError

    async def wait(*given: object, **named: object) -> None:
        await asyncio.Event().wait()

    resolve_to(monkeypatch, "192.0.2.1")
    monkeypatch.setattr(asyncio.get_running_loop(), waits, wait)
    target = SshTarget("pve.example", "root", label="vm1", config=("/dev/null",))
    with pytest.raises(TransientError, match=text):
        await connect(target, Credentials(None), "refuse", 0.05)
