"""The bus as the probe listens to it: framing that any bytes survive, and one event per thing that happened."""

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

from nictop.probe.events import networkmanager as bus_signals
from nictop.probe.events.networkmanager import ROOT, SERVICE, BusSignals, parse_signal_matters
from nictop.probe.kernel import dbus_wire as bus
from nictop.probe.records import Line
from tests.support.namespaces import ROOT as SOURCES
from tests.support.networkmanager import Bus, PrivateNetworkManager, private_networkmanager, why_no_networkmanager
from tests.support.probe import LIMIT, Probe, wait_until

PROPERTIES = "org.freedesktop.DBus.Properties"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    reason = why_no_networkmanager()
    if reason is not None:
        pytest.skip(f"no dbus-daemon and NetworkManager of our own: {reason}")
    return tmp_path


def signal_message(path: str, interface: str, member: str, signature: str = "", body: tuple[object, ...] = ()) -> bytes:
    """As a bus would send it; made by another library."""
    emitter = jeepney.DBusAddress(path, bus_name=SERVICE, interface=interface)
    data: bytes = jeepney.new_signal(emitter, member, signature or None, body).serialise(7)
    return data


# ------------------------------------------------------------------------------------ bytes


def test_our_calls_are_what_another_library_understands() -> None:
    for argument in (None, "type='signal'", "ä" * 33):
        data = bus.call_of_the_bus("AddMatch", 5, argument, bus.NO_REPLY_EXPECTED)
        assert bus.message_length(data) == len(data)
        message = jeepney.Message.from_buffer(data)
        fields = message.header.fields
        assert message.header.message_type is jeepney.MessageType.method_call
        assert (message.header.serial, message.header.flags) == (5, jeepney.MessageFlag.no_reply_expected)
        assert fields[jeepney.HeaderFields.path] == "/org/freedesktop/DBus"
        assert fields[jeepney.HeaderFields.member] == "AddMatch"
        assert fields[jeepney.HeaderFields.destination] == fields[jeepney.HeaderFields.interface] == bus.BUS
        assert message.body == (() if argument is None else (argument,))


def test_their_signals_are_what_we_understand() -> None:
    data = signal_message(f"{ROOT}/Devices/3", PROPERTIES, "PropertiesChanged", "sa{sv}as", ("x.y", {}, []))
    kind, fields, first = bus.parse_header(data)
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
def test_addresses(address: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bus.parse_bus_address(address) == path
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
    assert bus.bus_address("/x") == (path if address else "/x/dbus/system_bus_socket")


@given(st.text())
def test_any_address_is_survived(text: str) -> None:
    assert "\0" not in bus.parse_bus_address(text.encode("utf-8", "ignore").decode())[1:]


WHOLE = signal_message(f"{ROOT}/Settings/1", PROPERTIES, "PropertiesChanged", "sa{sv}as", ("x.y", {}, []))


@given(st.binary(max_size=120) | st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)))
def test_any_bytes_are_a_message_or_a_value_error(given: bytes | tuple[int, int]) -> None:
    data = bytearray(WHOLE)
    if isinstance(given, bytes):
        data[:] = given
    else:
        data[given[0]] = given[1]
    try:
        assert parse_signal_matters(bytes(data)) in (True, False)
    except (ValueError, IndexError):
        return


# ------------------------------------------------------------------------------------ what matters


@pytest.mark.parametrize(
    ("path", "interface", "member", "first", "matters"),
    [
        (ROOT, PROPERTIES, "PropertiesChanged", SERVICE, True),
        (f"{ROOT}/Settings", f"{SERVICE}.Settings", "NewConnection", "", True),
        (f"{ROOT}/Settings/4", f"{SERVICE}.Settings.Connection", "Updated", "", True),
        (f"{ROOT}/Devices/2", f"{SERVICE}.Device", "StateChanged", "", True),
        (f"{ROOT}/Devices/2", PROPERTIES, "PropertiesChanged", f"{SERVICE}.Device", True),
        (f"{ROOT}/Devices/2", PROPERTIES, "PropertiesChanged", f"{SERVICE}.Device.Statistics", False),
        (f"{ROOT}/Devices/2", PROPERTIES, "PropertiesChanged", f"{SERVICE}.Device.Wireless", False),
        (f"{ROOT}/ActiveConnection/1", PROPERTIES, "PropertiesChanged", f"{SERVICE}.Connection.Active", True),
        (f"{ROOT}/AccessPoint/9", PROPERTIES, "PropertiesChanged", f"{SERVICE}.AccessPoint", False),
        (f"{ROOT}/IP4Config/9", PROPERTIES, "PropertiesChanged", f"{SERVICE}.IP4Config", False),
        ("/org/freedesktop/NetworkManagerX", PROPERTIES, "PropertiesChanged", "", False),
        ("/org/freedesktop/DBus", bus.BUS, "NameOwnerChanged", SERVICE, True),
        ("/org/freedesktop/DBus", bus.BUS, "NameOwnerChanged", "org.other", False),
        ("/org/freedesktop/DBus", bus.BUS, "NameAcquired", ":1.5", False),
    ],
)
def test_which_signals_matter(path: str, interface: str, member: str, first: str, matters: bool) -> None:
    data = signal_message(path, interface, member, "s" if first else "", (first,) if first else ())
    assert parse_signal_matters(data) is matters


def test_answers_are_no_signals() -> None:
    assert not parse_signal_matters(bus.call_of_the_bus("Hello", 1))


# ------------------------------------------------------------------------------------ a real bus


@contextmanager
def listening(address: str) -> Iterator[BusSignals]:
    signals = BusSignals(address)
    try:
        yield signals
    finally:
        signals.close()


def heard(signals: BusSignals, now: float = 1.0) -> bool:
    """Wait for something to arrive, and take it."""
    readable, _, _ = select.select([signals.descriptor], [], [], LIMIT)
    assert readable, "nothing came"
    return signals.take(now)


def enter(signals: BusSignals, now: float = 1.0) -> bool:
    """Go through the greeting; whether its end asked for an inventory."""
    signals.connect(now)
    stale = False
    while not signals._admitted:
        stale = heard(signals, now) or stale
    return stale


def waits(signals: BusSignals) -> float | None:
    """When it will try again."""
    return signals.retry_at


def test_a_bus_that_comes_goes_and_comes_back(place: Path) -> None:
    with listening(str(place / "bus")) as signals:
        signals.connect(1.0)
        assert signals.descriptor == -1 and waits(signals) == 1.0 + bus_signals.RETRY
        first = Bus(place)
        assert enter(signals) is False, "an inventory comes at the start anyway"
        assert waits(signals) is None
        first.end()
        stale = False
        while signals.descriptor >= 0:  # the answer to Hello may come before the end
            stale = heard(signals, 5.0) or stale
        assert stale
        assert signals.descriptor == -1 and waits(signals) == 5.0 + bus_signals.RETRY
        (place / "bus").unlink()
        second = Bus(place)
        try:
            assert enter(signals) is True, "what happened meanwhile was not heard"
        finally:
            second.end()


def test_an_owner_that_comes_and_goes(place: Path) -> None:
    made = Bus(place)
    try:
        with listening(str(made.socket)) as signals:
            enter(signals)
            code = "import sys\nfrom jeepney.io.blocking import open_dbus_connection as connect\n"
            code += "from jeepney.bus_messages import message_bus\nowner = connect('SYSTEM')\n"
            code += f"owner.send_and_get_reply(message_bus.RequestName({SERVICE!r}))\nprint(1, flush=True)\ninput()\n"
            owner = subprocess.Popen(
                [sys.executable, "-c", code],
                env={**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": made.address},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            wait_until(lambda: heard(signals))
            owner.communicate(b"\n", timeout=LIMIT)
            wait_until(lambda: heard(signals))
            assert signals.descriptor >= 0
    finally:
        made.end()


@pytest.mark.parametrize(
    "answer", [b"REJECTED EXTERNAL\r\n", b"x" * 5000, b"OK 1\r\nHTTP/1.1 200 OK\r\n\r\n", b""], ids=range(4)
)
def test_a_bus_that_talks_nonsense_is_left_and_tried_again_later(tmp_path: Path, answer: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as listener, listening(str(tmp_path / "bus")) as signals:
        listener.bind(str(tmp_path / "bus"))
        listener.listen()
        signals.connect(1.0)
        connection, _ = listener.accept()
        with connection:
            connection.sendall(answer)
            connection.shutdown(socket.SHUT_WR)
            while signals.descriptor >= 0:
                heard(signals)
        assert signals.retry_at == 1.0 + bus_signals.RETRY


def test_a_bus_that_never_answers_costs_nothing(tmp_path: Path) -> None:
    """Neither accepted nor answered: `connect` returns, and nothing is to be read."""
    with socket.socket(socket.AF_UNIX) as listener, listening(str(tmp_path / "bus")) as signals:
        listener.bind(str(tmp_path / "bus"))
        listener.listen()
        signals.connect(1.0)
        assert signals.descriptor >= 0 and not signals.take(1.0)
        assert signals.descriptor >= 0


@pytest.mark.parametrize("address", ["", "\0nictop-nobody-is-there", "/nowhere/bus", "/x" * 200, "/a\0b"])
def test_silence_without_a_bus(address: str) -> None:
    with listening(address) as signals:
        signals.connect(3.0)
        assert (signals.descriptor, signals.retry_at) == (-1, 3.0 + bus_signals.RETRY)


def test_it_brings_nothing_heavy() -> None:
    code = "import sys, nictop.probe.__main__; print([m for m in sys.modules if m.split('.')[0] in "
    code += "('jeepney', 'dataclasses', 'typing', 'asyncio', 'ctypes')])"
    argv = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(SOURCES)!r}); {code}"]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip() == "[]"


# ------------------------------------------------------------------------------------ the probe beside NetworkManager


def names(line: Line) -> list[str] | None:
    """Names of the Ethernet profiles in an inventory; None: NetworkManager is not there."""
    if line.inventory is None or line.inventory.networkmanager is None:
        return None
    return [profile.id for profile in line.inventory.networkmanager.profiles if profile.type == "802-3-ethernet"]


@contextmanager
def probe_beside(manager: PrivateNetworkManager) -> Iterator[Probe]:
    with Probe("--interval", "60", prefix=manager.prefix) as probe:
        yield probe


def test_a_change_of_a_profile_makes_a_new_inventory(place: Path) -> None:
    """Nothing else changes: not the link, not its addresses."""
    with private_networkmanager("ens37") as manager, probe_beside(manager) as probe:
        probe.until(lambda line: names(line) == ["Wired connection 1"])
        manager.wait_for(lambda: manager.device_state("ens37") >= 70)
        manager.nmcli("con", "mod", "Wired connection 1", "con-name", "[new]")
        probe.until(lambda line: names(line) == ["[new]"])
        manager.nmcli("con", "add", "type", "ethernet", "ifname", "none0", "con-name", "other")
        probe.until(lambda line: names(line) == ["[new]", "other"])
        manager.stop()
        probe.until(lambda line: line.inventory and line.inventory.networkmanager is None)
        manager.start()
        probe.until(lambda line: sorted(names(line) or []) == ["[new]", "other"])


def test_a_hanging_service_holds_up_neither_counters_nor_inventory(place: Path) -> None:
    with private_networkmanager("ens37") as manager, probe_beside(manager) as probe:
        probe.until(names)
        os.kill(manager.pid, signal.SIGSTOP)
        probe.ask({"interval": 0.1, "inventory": True})
        heard_counters = 0
        while True:
            line = probe.until(lambda line: line.counters or line.inventory)
            if line.inventory is not None and "networkmanager" in line.inventory.unreadable:
                break
            heard_counters += line.counters is not None
        assert heard_counters > 3
        assert line.inventory is not None and {link.name for link in line.inventory.links} >= {"lo", "ens37"}


def test_its_own_readings_cause_no_further_ones(place: Path) -> None:
    """Readings of its own would cause another one every time; NetworkManager has its last words at some time."""
    with private_networkmanager("ens37", no_auto_default="*") as manager:
        manager.wait_for(manager.is_at_rest)
        with probe_beside(manager) as probe:
            probe.until(lambda line: line.inventory)
            reasons: list[str] = []
            while reasons[-4:] != ["request"] * 4:
                probe.ask({"inventory": True})
                line = probe.until(lambda line: line.inventory)
                assert line.inventory is not None
                reasons.append(line.inventory.reason)
                assert len(reasons) < 50, "each reading causes another one"
