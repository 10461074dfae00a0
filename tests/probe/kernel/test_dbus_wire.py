"""The D-Bus wire format and the signals of NetworkManager: any bytes are handled, one event per
relevant change."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jeepney
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.events import networkmanager as events
from nictop.probe.events.networkmanager import (
    ROOT,
    SERVICE,
    NetworkManagerSignals,
    parse_signal_relevance,
)
from nictop.probe.kernel import dbus_wire as bus
from nictop.probe.records import Line
from tests.support.namespaces import ROOT as SOURCES
from tests.support.networkmanager import (
    Bus,
    PrivateNetworkManager,
    private_networkmanager,
    why_no_networkmanager,
)
from tests.support.probe import TEST_TIMEOUT, Probe, wait_until

PROPERTIES = "org.freedesktop.DBus.Properties"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    reason = why_no_networkmanager()
    if reason is not None:
        pytest.skip(f"no private dbus-daemon and NetworkManager: {reason}")
    return tmp_path


def signal_message(
    path: str, interface: str, member: str, signature: str = "", body: tuple[object, ...] = ()
) -> bytes:
    """A signal as the bus sends it, encoded by jeepney."""
    emitter = jeepney.DBusAddress(path, bus_name=SERVICE, interface=interface)
    data: bytes = jeepney.new_signal(emitter, member, signature or None, body).serialise(7)
    return data


# ---------------------------------------------------------------------------- encoding and decoding


def test_jeepney_decodes_the_method_calls() -> None:
    for argument in (None, "type='signal'", "ä" * 33):
        data = bus.bus_method_call("AddMatch", 5, argument, bus.NO_REPLY_EXPECTED)
        assert bus.message_length(data) == len(data)
        message = jeepney.Message.from_buffer(data)
        fields = message.header.fields
        assert message.header.message_type is jeepney.MessageType.method_call
        assert (message.header.serial, message.header.flags) == (
            5,
            jeepney.MessageFlag.no_reply_expected,
        )
        assert fields[jeepney.HeaderFields.path] == "/org/freedesktop/DBus"
        assert fields[jeepney.HeaderFields.member] == "AddMatch"
        assert (
            fields[jeepney.HeaderFields.destination]
            == fields[jeepney.HeaderFields.interface]
            == bus.BUS_NAME
        )
        assert message.body == (() if argument is None else (argument,))


def test_signals_encoded_by_jeepney_are_parsed() -> None:
    data = signal_message(
        f"{ROOT}/Devices/3", PROPERTIES, "PropertiesChanged", "sa{sv}as", ("x.y", {}, [])
    )
    kind, fields, first = bus.parse_message(data)
    assert (kind, first) == (bus.SIGNAL, "x.y")
    assert (fields[bus.PATH], fields[bus.MEMBER]) == (f"{ROOT}/Devices/3", "PropertiesChanged")
    assert bus.message_length(data + b"more") == len(data)


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("unix:path=/run/dbus/system_bus_socket", "/run/dbus/system_bus_socket"),
        ("unix:guid=1,path=/a%20b%2c", "/a b,"),
        ("tcp:host=x;unix:abstract=/tmp/x", "\0/tmp/x"),
        ("unix:path=/a%zz", "/a%zz"),
        ("unixexec:path=/bin/sh", ""),
        ("", ""),
    ],
)
def test_bus_addresses(address: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bus.parse_bus_address(address) == path
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
    assert bus.bus_address("/x") == (path if address else "/x/dbus/system_bus_socket")


@given(st.text())
def test_any_address_gives_no_path_with_nul(text: str) -> None:
    assert "\0" not in bus.parse_bus_address(text.encode("utf-8", "ignore").decode())[1:]


WHOLE = signal_message(
    f"{ROOT}/Settings/1", PROPERTIES, "PropertiesChanged", "sa{sv}as", ("x.y", {}, [])
)


@given(st.binary(max_size=120) | st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)))
def test_any_bytes_are_a_message_or_a_value_error(given: bytes | tuple[int, int]) -> None:
    data = bytearray(WHOLE)
    if isinstance(given, bytes):
        data[:] = given
    else:
        data[given[0]] = given[1]
    try:
        is_relevant = parse_signal_relevance(bytes(data))
    except (ValueError, IndexError):
        return
    assert not is_relevant or ROOT.encode() in data


# --------------------------------------------------------------------------------- relevant signals


@pytest.mark.parametrize(
    ("path", "interface", "member", "first", "matters"),
    [
        (ROOT, PROPERTIES, "PropertiesChanged", SERVICE, True),
        (f"{ROOT}/Settings", f"{SERVICE}.Settings", "NewConnection", "", True),
        (f"{ROOT}/Settings/4", f"{SERVICE}.Settings.Connection", "Updated", "", True),
        (f"{ROOT}/Devices/2", f"{SERVICE}.Device", "StateChanged", "", True),
        (f"{ROOT}/Devices/2", PROPERTIES, "PropertiesChanged", f"{SERVICE}.Device", True),
        (
            f"{ROOT}/Devices/2",
            PROPERTIES,
            "PropertiesChanged",
            f"{SERVICE}.Device.Statistics",
            False,
        ),
        (f"{ROOT}/Devices/2", PROPERTIES, "PropertiesChanged", f"{SERVICE}.Device.Wireless", False),
        (
            f"{ROOT}/ActiveConnection/1",
            PROPERTIES,
            "PropertiesChanged",
            f"{SERVICE}.Connection.Active",
            True,
        ),
        (f"{ROOT}/AccessPoint/9", PROPERTIES, "PropertiesChanged", f"{SERVICE}.AccessPoint", False),
        (f"{ROOT}/IP4Config/9", PROPERTIES, "PropertiesChanged", f"{SERVICE}.IP4Config", False),
        ("/org/freedesktop/NetworkManagerX", PROPERTIES, "PropertiesChanged", "", False),
        ("/org/freedesktop/DBus", bus.BUS_NAME, "NameOwnerChanged", SERVICE, True),
        ("/org/freedesktop/DBus", bus.BUS_NAME, "NameOwnerChanged", "org.other", False),
        ("/org/freedesktop/DBus", bus.BUS_NAME, "NameAcquired", ":1.5", False),
    ],
)
def test_relevant_signals(
    path: str, interface: str, member: str, first: str, matters: bool
) -> None:
    data = signal_message(path, interface, member, "s" if first else "", (first,) if first else ())
    assert parse_signal_relevance(data) is matters


def test_method_calls_are_not_signals() -> None:
    assert not parse_signal_relevance(bus.bus_method_call("Hello", 1))


# ------------------------------------------------------------------------------------ a real bus


@contextmanager
def connected_signals(address: str) -> Iterator[NetworkManagerSignals]:
    signals = NetworkManagerSignals(address)
    try:
        yield signals
    finally:
        signals.close()


def read_next(signals: NetworkManagerSignals, now: float = 1.0) -> bool:
    """Wait until bytes are received, and parse them; whether an inventory is needed."""
    readable, _, _ = select.select([signals.descriptor], [], [], TEST_TIMEOUT)
    assert readable, "nothing received"
    return signals.read(now)


def authenticate(signals: NetworkManagerSignals, now: float = 1.0) -> bool:
    """Connect and authenticate; whether that requested an inventory."""
    signals.connect(now)
    stale = False
    while not signals._authenticated:
        stale = read_next(signals, now) or stale
    return stale


def retry_time(signals: NetworkManagerSignals) -> float | None:
    """`retry_at`, through a call: mypy would narrow the attribute."""
    return signals.retry_at


def test_the_bus_stops_and_starts_again(directory: Path) -> None:
    with connected_signals(str(directory / "bus")) as signals:
        signals.connect(1.0)
        assert signals.descriptor == -1 and retry_time(signals) == 1.0 + events.BUS_RETRY_SECONDS
        first = Bus(directory)
        assert authenticate(signals) is False, "the probe takes an inventory at its start anyway"
        assert retry_time(signals) is None
        first.end()
        stale = False
        while (
            signals.descriptor >= 0
        ):  # the reply to Hello may be received before the end of the stream
            stale = read_next(signals, 5.0) or stale
        assert stale
        assert signals.descriptor == -1 and retry_time(signals) == 5.0 + events.BUS_RETRY_SECONDS
        (directory / "bus").unlink()
        second = Bus(directory)
        try:
            assert authenticate(signals) is True, "signals were missed while disconnected"
        finally:
            second.end()


def test_networkmanager_appears_and_disappears_on_the_bus(directory: Path) -> None:
    bus_process = Bus(directory)
    try:
        with connected_signals(str(bus_process.socket)) as signals:
            authenticate(signals)
            code = "import sys\nfrom jeepney.io.blocking import open_dbus_connection as connect\n"
            code += "from jeepney.bus_messages import message_bus\nowner = connect('SYSTEM')\n"
            code += (
                f"owner.send_and_get_reply(message_bus.RequestName({SERVICE!r}))\nprint(1, "
                f"flush=True)\ninput()\n"
            )
            owner = subprocess.Popen(
                [sys.executable, "-c", code],
                env={**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": bus_process.address},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            wait_until(lambda: read_next(signals))
            owner.communicate(b"\n", timeout=TEST_TIMEOUT)
            wait_until(lambda: read_next(signals))
            assert signals.descriptor >= 0
    finally:
        bus_process.end()


@pytest.mark.parametrize(
    "answer",
    [b"REJECTED EXTERNAL\r\n", b"x" * 5000, b"OK 1\r\nHTTP/1.1 200 OK\r\n\r\n", b""],
    ids=range(4),
)
def test_an_invalid_reply_closes_the_connection_and_is_retried(
    tmp_path: Path, answer: bytes
) -> None:
    with (
        socket.socket(socket.AF_UNIX) as listener,
        connected_signals(str(tmp_path / "bus")) as signals,
    ):
        listener.bind(str(tmp_path / "bus"))
        listener.listen()
        signals.connect(1.0)
        connection, _ = listener.accept()
        with connection:
            connection.sendall(answer)
            connection.shutdown(socket.SHUT_WR)
            while signals.descriptor >= 0:
                read_next(signals)
        assert signals.retry_at == 1.0 + events.BUS_RETRY_SECONDS


def test_connect_does_not_wait_for_the_bus(tmp_path: Path) -> None:
    """The connection is neither accepted nor answered: `connect` returns, and there is nothing to
    read."""
    with (
        socket.socket(socket.AF_UNIX) as listener,
        connected_signals(str(tmp_path / "bus")) as signals,
    ):
        listener.bind(str(tmp_path / "bus"))
        listener.listen()
        signals.connect(1.0)
        assert signals.descriptor >= 0 and not signals.read(1.0)
        assert signals.descriptor >= 0


@pytest.mark.parametrize(
    "address", ["", "\0nictop-nobody-is-there", "/nowhere/bus", "/x" * 200, "/a\0b"]
)
def test_an_unreachable_bus_is_retried_without_error(address: str) -> None:
    with connected_signals(address) as signals:
        signals.connect(3.0)
        assert (signals.descriptor, signals.retry_at) == (-1, 3.0 + events.BUS_RETRY_SECONDS)


def test_the_probe_imports_no_heavy_module() -> None:
    code = "import sys, nictop.probe.__main__; print([m for m in sys.modules if m.split('.')[0] in "
    code += "('jeepney', 'dataclasses', 'typing', 'asyncio', 'ctypes')])"
    argv = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.append({str(SOURCES)!r}); {code}",
    ]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip() == "[]"


# ------------------------------------------------------------------------- probe and NetworkManager


def profile_names(line: Line) -> list[str] | None:
    """Names of the Ethernet profiles in an inventory; None: NetworkManager is not running."""
    if line.inventory is None or line.inventory.networkmanager is None:
        return None
    return [
        profile.id
        for profile in line.inventory.networkmanager.profiles
        if profile.type == "802-3-ethernet"
    ]


@contextmanager
def probe_beside(manager: PrivateNetworkManager) -> Iterator[Probe]:
    with Probe("--interval", "60", prefix=manager.prefix) as probe:
        yield probe


def test_a_change_of_a_profile_makes_a_new_inventory(directory: Path) -> None:
    """Nothing else changes: not the link, not its addresses."""
    with private_networkmanager("ens37") as manager, probe_beside(manager) as probe:
        probe.wait_for(lambda line: profile_names(line) == ["Wired connection 1"])
        manager.wait_for(lambda: manager.device_state("ens37") >= 70)
        manager.nmcli("con", "mod", "Wired connection 1", "con-name", "[new]")
        probe.wait_for(lambda line: profile_names(line) == ["[new]"])
        manager.nmcli("con", "add", "type", "ethernet", "ifname", "none0", "con-name", "other")
        probe.wait_for(lambda line: profile_names(line) == ["[new]", "other"])
        manager.stop()
        probe.wait_for(lambda line: line.inventory and line.inventory.networkmanager is None)
        manager.start()
        probe.wait_for(lambda line: sorted(profile_names(line) or []) == ["[new]", "other"])


def test_a_stopped_service_delays_neither_counters_nor_inventory(directory: Path) -> None:
    with private_networkmanager("ens37") as manager, probe_beside(manager) as probe:
        probe.wait_for(profile_names)
        os.kill(manager.pid, signal.SIGSTOP)
        probe.send({"interval": 0.1, "inventory": True})
        counters_received = 0
        while True:
            line = probe.wait_for(lambda line: line.counters or line.inventory)
            if line.inventory is not None and "networkmanager" in line.inventory.unreadable:
                break
            counters_received += line.counters is not None
        assert counters_received > 3
        assert line.inventory is not None and {link.name for link in line.inventory.links} >= {
            "lo",
            "ens37",
        }


def test_reading_networkmanager_causes_no_further_inventory(directory: Path) -> None:
    """NetworkManager may send a few more signals of its own before it is idle: four readings in a
    row decide."""
    with private_networkmanager("ens37", no_auto_default="*") as manager:
        manager.wait_for(manager.has_started)
        with probe_beside(manager) as probe:
            probe.wait_for(lambda line: line.inventory)
            reasons: list[str] = []
            while reasons[-4:] != ["request"] * 4:
                probe.send({"inventory": True})
                line = probe.wait_for(lambda line: line.inventory)
                assert line.inventory is not None
                reasons.append(line.inventory.reason)
                assert len(reasons) < 50, "each reading causes another one"
