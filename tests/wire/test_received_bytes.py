"""Every receiver of a stream takes one byte at a time in the same time, however much it has
received before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from nictop.probe.protocol.requests import RequestLines
from nictop.probe.traffic.child import TrafficChild
from nictop.wire.budget import HostBudget
from nictop.wire.channel import STDERR_DATATYPE
from nictop.wire.esxi.shell import EsxiShell
from nictop.wire.inbox import Inbox
from nictop.wire.line_reader import LineReader
from nictop.wire.ssh import remote_probe
from nictop.wire.ssh.authentication import Credentials
from nictop.wire.ssh.bootstrap_command import RemoteCommand
from nictop.wire.ssh.remote_probe import RemoteProbe
from tests.support.growing import growing_bytes, growing_in

TOTAL_BYTES = 4 * 1024 * 1024
BIG_BYTES = 4 * 1024
"""Of the parts in which most of it is received, as single bytes would take minutes."""
MEASURED, REPEATS = 4096, 3
"""Single bytes that are timed at the beginning and at the end, and how often."""
MAX_GROWTH = 4.0
"""How many times as long those at the end may take: the machine may be busy."""
Feed = Callable[[bytes], object]


class NoLimit:
    """In place of the limit of a connection."""

    def hold(self) -> None: ...

    def release(self) -> None: ...


def take_all(inbox: Inbox) -> None:
    """What a consumer does, without decoding."""
    while inbox._parts:
        inbox._feed_part()


def probe() -> RemoteProbe:
    bundle: Any = None
    return RemoteProbe(
        RemoteCommand((), 0, 0, "a" * 16, "b" * 16), bundle, "h", Credentials(None), HostBudget()
    )


@contextmanager
def noise() -> Iterator[Feed]:
    """Output before the marker, with the limit of the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote_probe, "MAX_NOISE_BYTES", 2 * TOTAL_BYTES)
        one = probe()
        yield lambda byte: one.receive(byte, None)
        assert (
            one.error is None
            and one._noise is not None
            and len(one._noise) > TOTAL_BYTES - 2 * BIG_BYTES
        )


@contextmanager
def remote(datatype: int | None, rights: remote_probe.Rights = "") -> Iterator[Feed]:
    one = probe()
    one.rights = rights
    if datatype is None:
        one._noise = None

    def feed(byte: bytes) -> None:
        one.receive(byte, datatype)
        if one.inbox.is_full:
            take_all(one.inbox)

    yield feed
    assert one.error is None and not one._ended


@contextmanager
def esxi(datatype: int | None, *, begun: bool) -> Iterator[Feed]:
    ssh: Any = type("Connection", (), {"get_extra_info": lambda self, name: None})()
    inbox = Inbox(HostBudget(), lambda: None)
    shell = EsxiShell(ssh, "h", inbox)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nictop.wire.esxi.shell.receive_limit", lambda ssh: NoLimit())
        shell.receive(b"\n%s begin 7\n" % shell._next_mark().encode() if begun else b"\n", None)

        def feed(byte: bytes) -> None:
            shell.receive(byte, datatype)
            if inbox.is_full:
                take_all(inbox)

        yield feed
    assert shell._lost is None and shell._has_begun is begun


@contextmanager
def lines() -> Iterator[Feed]:
    yield LineReader().add


@contextmanager
def requests() -> Iterator[Feed]:
    yield RequestLines().feed


@contextmanager
def generator() -> Iterator[Feed]:
    """Output of a generator, whose other end may be anybody."""
    with ExitStack() as cleanup:
        readable, writable = os.pipe()
        for descriptor in (readable, writable):
            cleanup.callback(os.close, descriptor)
        child = TrafficChild(os.getpid(), -1, {readable: "stdout"}, 0.0)

        def feed(byte: bytes) -> None:
            os.write(writable, byte)
            child.read(readable)

        yield feed


RECEIVERS = {
    "noise before the marker": noise,
    "lines of a remote probe": lambda: remote(None),
    "stderr of a remote probe": lambda: remote(STDERR_DATATYPE),
    "stderr before a password": lambda: remote(STDERR_DATATYPE, "password"),
    "ESXi before a mark": lambda: esxi(None, begun=False),
    "ESXi output": lambda: esxi(None, begun=True),
    "ESXi stderr": lambda: esxi(STDERR_DATATYPE, begun=True),
    "lines": lines,
    "requests to a probe": requests,
    "output of a generator": generator,
}

GROWING = {
    "wire.ssh.remote_probe.RemoteProbe._noise": "noise before the marker",
    "wire.ssh.remote_probe.RemoteProbe._stderr": "stderr of a remote probe",
    "wire.esxi.shell.EsxiShell._received": "ESXi output",
    "wire.esxi.shell.EsxiShell._stderr": "ESXi stderr",
    "wire.line_reader.LineReader._rest": "lines",
    "probe.protocol.requests.take_lines rest": "requests to a probe",
}
"""Place in the source where bytes are added to those before → the receiver that feeds it."""
BOUNDED = {
    "wire.local._Run._stderr": "the last 2000 bytes",
    "recording.segments.read data": "what was asked for, from one file after the other",
    "wire.ssh.receive_limit.ReceiveLimit._waiting": "the socket is not read while something waits",
    "wire.guests.tunnel.ProcessTunnel._stderr": "the last 2000 bytes",
    "probe.traffic.builtin.connections.read_exactly data": "a greeting",
    "probe.traffic.builtin.server.PendingConnection.received": "a greeting",
    "probe.traffic.child.TrafficChild._status": "written by a child of our own before it runs "
    "another program",
    "probe.traffic.drops.monitor.read_line received": "4096 bytes",
    "probe.changes.undo_guard.Guard._received": "commands of our own process",
    "probe.reach.agent_bridge.Bridge._for_output": "64 KiB, and one record of the guest",
    "probe.reach.agent_client.SocketTransport._received": "what is new is searched once",
    "probe.reach.agent_client.VirshTransport._received": "the same",
    "probe.reach.agent_guardian.watch told": "handles that our own process has opened",
    "probe.reach.guest_relay.Relay._for_agent": "64 KiB, and what was read at once",
    "probe.reach.guest_relay.Relay._for_child": "64 KiB",
    "probe.inventory.child.InventoryChild._output": "written by a child of our own, in large parts",
    "probe.kernel.dbus_calls.BusConnection._buffer": "a message of the bus of this host has its "
    "length in front",
    "probe.kernel.dbus_calls.each data": "sent",
    "probe.events.networkmanager.NetworkManagerSignals._buffer": "the same as for dbus_calls",
    "probe.inventory.links.openvswitch._received received": "256 parts",
    "probe.inventory.lldp.networkd._ask answers": "of networkd, for 5 s",
    "probe.counters.cpus.read text": "a file of the kernel, in large parts",
    "probe.counters.on_demand.interrupt_table.InterruptTable._buffer": "the same",
    "probe.traffic.listening._read_table table": "the same",
    "probe.traffic.builtin.transaction_run.added now": "numbers",
    "probe.changes.netlink_settings.coalescing_attributes packed": "sent",
    "probe.changes.netlink_settings.feature_attributes bits": "sent",
}
"""The other places → why what is received before does not matter there."""


def test_every_place_where_bytes_grow_is_known() -> None:
    """A new one is fed by one of the `RECEIVERS`, or says why not."""
    assert growing_bytes() == {*GROWING, *BOUNDED} and not GROWING.keys() & BOUNDED.keys()
    assert set(GROWING.values()) <= set(RECEIVERS)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("class A:\n def __init__(self): self._x = b''\n def f(self, d): self._x += d", ["A._x"]),
        ("class A:\n _x: bytes = b''\n def f(self, d): self._x = (self._x + d)[-9:]", ["A._x"]),
        (
            "class A:\n def __init__(self): self._x = bytearray()\n def f(self, d):\n  x = "
            "self._x\n  x += d",
            ["A._x"],
        ),
        (
            "class A:\n def __init__(self): self._x = bytearray()\n def f(self, d): "
            "self._x.extend(d)",
            ["A._x"],
        ),
        ("def f(r):\n a, b = b'', 0\n while True: a += r()", ["f a"]),
        ("def f(a: bytearray, d): a += d", ["f a"]),
        ("def f(d):\n a = ''\n a += d", []),
    ],
)
def test_places_where_bytes_grow_are_found(source: str, found: list[str]) -> None:
    assert list(growing_in(source)) == found


@pytest.mark.parametrize("name", RECEIVERS)
def test_the_work_for_a_byte_does_not_depend_on_what_was_received(name: str) -> None:
    with RECEIVERS[name]() as feed:
        before = seconds_for_bytes(feed)
        for _ in range((TOTAL_BYTES - 2 * MEASURED * REPEATS) // BIG_BYTES):
            feed(b"x" * BIG_BYTES)
        assert seconds_for_bytes(feed) <= MAX_GROWTH * before


def seconds_for_bytes(feed: Feed) -> float:
    """CPU seconds for `MEASURED` single bytes; the shortest of some repeats."""
    found = []
    for _ in range(REPEATS):
        begin = time.thread_time()
        for _ in range(MEASURED):
            feed(b"x")
        found.append(time.thread_time() - begin)
    return min(found)
