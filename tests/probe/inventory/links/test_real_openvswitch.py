"""A real ovsdb-server with the schema of Open vSwitch: what it answers, and what it writes to its
file, has the bridges and VLANs that ovs-vsctl has set. No ovs-vswitchd, which would make links."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nictop.probe.inventory.links.openvswitch import (
    read_database,
    read_file,
    read_switch_ports,
    switch_ports,
)
from nictop.probe.records import SwitchPort
from tests.support.probe import wait_until

PROGRAM_PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
SCHEMA = "share/openvswitch/vswitch.ovsschema"
VHOST = "/run/vhu1.sock"
ADD = (
    *("add-br", "br-int", "--", "add-port", "br-int", "tap101i0", "tag=30"),
    *("--", "add-port", "br-int", "vhu1", "trunks=20,31,30,32", "vlan_mode=native-untagged"),
    *("--", "set", "interface", "vhu1", "type=dpdkvhostuserclient"),
    f"options:vhost-server-path={VHOST}",
    *("--", "add-bond", "br-int", "bond0", "ens1f0", "ens1f1"),
)
ADDED = (
    SwitchPort("br-int", "br-int"),
    SwitchPort("ens1f0", "br-int"),
    SwitchPort("ens1f1", "br-int"),
    SwitchPort("tap101i0", "br-int", 30),
    SwitchPort("vhu1", "br-int", None, "20, 30-32", "native-untagged", VHOST),
)
CHANGES: tuple[tuple[tuple[str, ...], dict[str, SwitchPort | None]], ...] = (
    (("set", "port", "tap101i0", "tag=41"), {"tap101i0": SwitchPort("tap101i0", "br-int", 41)}),
    (
        ("add", "port", "vhu1", "trunks", "50", "--", "remove", "port", "vhu1", "trunks", "31"),
        {"vhu1": SwitchPort("vhu1", "br-int", None, "20, 30, 32, 50", "native-untagged", VHOST)},
    ),
    (("clear", "port", "tap101i0", "tag"), {"tap101i0": SwitchPort("tap101i0", "br-int")}),
    (("del-port", "br-int", "tap101i0"), {"tap101i0": None}),
    (
        ("add-br", "br1", "--", "add-port", "br1", "tap101i0"),
        {"br1": SwitchPort("br1", "br1"), "tap101i0": SwitchPort("tap101i0", "br1")},
    ),
)

Change = Callable[..., None]


def program(name: str) -> str:
    found = shutil.which(name, path=PROGRAM_PATH)
    if found is None:
        pytest.skip("openvswitch-switch is not installed")
    return found


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "etc/openvswitch/conf.db"


@pytest.fixture
def change(run: Path, file: Path) -> Iterator[Change]:
    """Runs ovs-vsctl, while a database server runs."""
    server, tool, client = map(program, ("ovsdb-server", "ovsdb-tool", "ovs-vsctl"))
    schema = Path(client).parent.parent / SCHEMA
    directory = run / "openvswitch"
    directory.mkdir(parents=True)
    file.parent.mkdir(parents=True)
    environment = {**os.environ, "OVS_RUNDIR": str(directory), "OVS_LOGDIR": str(directory)}
    subprocess.run([tool, "create", str(file), str(schema)], check=True, env=environment)
    socket = directory / "db.sock"
    process = subprocess.Popen(
        [server, str(file), f"--remote=punix:{socket}", "--unixctl=none"], env=environment
    )

    def changed(*words: str) -> None:
        whole = [client, f"--db=unix:{socket}", "--no-wait", "--timeout=30", *words]
        subprocess.run(whole, check=True, capture_output=True, env=environment)

    try:
        wait_until(socket.exists)
        changed("init")
        yield changed
    finally:
        process.terminate()
        process.wait()


def by_socket(run: Path) -> tuple[SwitchPort, ...]:
    found, trouble = read_switch_ports(str(run), "/nothing")
    assert trouble is None
    return found


def by_file(run: Path, file: Path) -> tuple[SwitchPort, ...]:
    found = switch_ports(read_file(str(file)), str(run / "openvswitch"))
    return tuple(sorted(found, key=lambda port: port.name))


def test_bridges_vlans_and_sockets_are_those_that_were_set(
    change: Change, run: Path, file: Path
) -> None:
    change(*ADD)
    assert by_socket(run) == by_file(run, file) == ADDED


def test_the_log_of_its_transactions_leads_to_the_same_state(
    change: Change, run: Path, file: Path
) -> None:
    change(*ADD)
    expected: dict[str, SwitchPort | None] = {port.name: port for port in ADDED}
    for words, ports in CHANGES:
        change(*words)
        expected.update(ports)
        known = tuple(port for _, port in sorted(expected.items()) if port is not None)
        assert by_socket(run) == by_file(run, file) == known, words


def test_an_answer_of_many_parts_is_read_whole(change: Change, run: Path, file: Path) -> None:
    """2,000 ports: 1 MB of JSON."""
    words = ["add-br", "br-int"]
    for number in range(2000):
        words += ["--", "add-port", "br-int", f"tap{number}", f"tag={1 + number % 4000}"]
    change(*words)
    found = {port.name: port.tag for port in by_socket(run)}
    assert len(found) == 2001 and found["tap1999"] == 2000
    assert by_file(run, file) == by_socket(run)


def test_it_is_asked_while_it_changes(change: Change, run: Path) -> None:
    change(*ADD)
    socket = str(run / "openvswitch/db.sock")
    stop = threading.Event()

    def keep_changing() -> None:
        while not stop.is_set():
            change("set", "port", "tap101i0", "tag=77")

    changing = threading.Thread(target=keep_changing)
    changing.start()
    try:
        for _ in range(10):
            ports = {port.name: port for port in switch_ports(read_database(socket), "/")}
            assert ports["tap101i0"].tag in (30, 77)
    finally:
        stop.set()
        changing.join()
