"""Established SSH connections in /proc/net/tcp, and the second confirmation for links that they
use."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.plan.ssh_connections import (
    parse_address,
    parse_table,
    read_connections,
    read_return_ifindex,
)
from tests.support.changes import LINK, MTU, PEER, change_client, prepare_host
from tests.support.namespaces import Namespace

TCP_ESTABLISHED, TCP_TIME_WAIT, TCP_LISTEN = 1, 6, 10
"""net/tcp_states.h"""
TABLE_HEADER = (
    b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   "
    b"uid  timeout inode\n"
)


def row(server: str, port: int, client: str, state: int) -> bytes:
    """A line as net/ipv4/tcp_ipv4.c and net/ipv6/tcp_ipv6.c print it on this machine."""
    family = socket.AF_INET6 if ":" in server else socket.AF_INET

    def hexadecimal(address: str) -> str:
        packed = socket.inet_pton(family, address)
        return "".join(f"{word:08X}" for word in struct.unpack(f"={len(packed) // 4}I", packed))

    return (
        f"   0: {hexadecimal(server)}:{port:04X} {hexadecimal(client)}:C350 {state:02X} 0:0 "
        f"00:0 0 0 0 1\n"
    ).encode()


def test_established_connections_to_the_ports() -> None:
    table = (
        TABLE_HEADER
        + row("0.0.0.0", 22, "0.0.0.0", TCP_LISTEN)
        + row("192.0.2.2", 22, "198.51.100.1", TCP_ESTABLISHED)
    )
    table += row("192.0.2.2", 443, "198.51.100.2", TCP_ESTABLISHED) + row(
        "192.0.2.2", 22, "198.51.100.3", TCP_TIME_WAIT
    )
    assert parse_table(table, {22}) == [("198.51.100.1", "192.0.2.2")]
    assert parse_table(table, {443, 2222}) == [("198.51.100.2", "192.0.2.2")]
    table = row("2001:db8::2", 22, "2001:db8::1", TCP_ESTABLISHED) + row(
        "::ffff:192.0.2.2", 22, "::ffff:198.51.100.1", TCP_ESTABLISHED
    )
    assert parse_table(table, {22}) == [
        ("2001:db8::1", "2001:db8::2"),
        ("198.51.100.1", "192.0.2.2"),
    ]


@given(
    st.lists(
        st.binary(max_size=60) | st.just(row("192.0.2.2", 22, "198.51.100.1", TCP_ESTABLISHED))
    )
)
def test_arbitrary_table(lines: list[bytes]) -> None:
    for client, server in parse_table(b"\n".join(lines), {22}):
        assert client and server


@pytest.mark.parametrize(
    "words",
    [b"-2147484", b"+2147484", b"0x123456", b" 1234567", b"-2147484294967296429496729665535"],
)
def test_words_of_an_address_are_hexadecimal(words: bytes) -> None:
    with pytest.raises(ValueError, match="neither IPv4 nor IPv6"):
        parse_address(words.ljust(32 if len(words) > 8 else 8, b"0"))


def test_missing_table(tmp_path: Path) -> None:
    assert read_connections([], str(tmp_path)) == ()


@contextmanager
def connected(host: Namespace, address: str, port: int) -> Iterator[None]:
    """A connection to a port of the host, of sockets opened in its namespace."""

    def connect() -> list[socket.socket]:
        listener = socket.create_server((address, port))
        client = socket.create_connection((address, port))
        return [listener, client, listener.accept()[0]]

    sockets = host.call(connect)
    try:
        yield
    finally:
        for connection in sockets:
            connection.close()


def test_links_of_any_ssh_connection_need_second_confirmation(namespace: Namespace) -> None:
    """Also when the environment does not name it; connections to other ports do not count."""
    prepare_host(namespace)
    with change_client(namespace) as change:
        with connected(namespace, "192.0.2.7", 443):
            assert not change.prepare(MTU).needs_second_yes
        with connected(namespace, "192.0.2.7", 22):
            shown = change.prepare(MTU)
            assert (
                shown.needs_second_yes
                and shown.plan[0].disturbs[-1] == f"an SSH connection uses {LINK}"
            )
            change.request("apply", actions=MTU, fingerprint=shown.fingerprint, keep_within=5)
            assert "needs a second confirmation" in change.wait_for("refused").text
        assert not change.prepare(MTU).needs_second_yes


def test_return_link_of_a_client(namespace: Namespace) -> None:
    """As ``ip route get`` looks it up."""
    prepare_host(namespace)
    namespace.run(["ip", "address", "add", "203.0.113.1/24", "dev", PEER])
    namespace.run(["ip", "route", "add", "198.51.100.0/24", "via", "203.0.113.9", "dev", PEER])
    numbers = namespace.call(lambda: {name: socket.if_nametoindex(name) for name in (LINK, PEER)})
    for address, name in (("198.51.100.1", PEER), ("192.0.2.1", LINK), ("203.0.113.200", PEER)):
        assert namespace.call(lambda to=address: read_return_ifindex(to)) == numbers[name]  # type: ignore[misc]
    for address in ("8.8.8.8", "2001:db8::1", "fe80::1", "nonsense"):
        assert namespace.call(lambda to=address: read_return_ifindex(to)) is None  # type: ignore[misc]
