"""Findings disappear after the repair, also when it causes no event: a real probe, real faults and
repairs."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from nictop.model.snapshot import Snapshot, advance, outdated_text, with_state
from nictop.probe.inventory.collect import take_inventory
from nictop.probe.inventory.machine.kernel_log import read_kernel_messages
from nictop.probe.inventory.managers.state_files import (
    MAX_STATE_FILES,
    StateFiles,
    state_files,
    subject_of,
)
from nictop.rules import HostFacts, diagnose
from tests.probe.test_main import another_probe, with_inventory
from tests.support.namespaces import Namespace
from tests.support.probe import Probe, wait_until

# ------------------------------------------------------------------------------------------- files


def test_a_file_that_changes_after_the_start_of_the_inventory(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "two"
    one.write_text("1")
    files = StateFiles()
    files.begin()
    files.set_files([str(one), str(other)])
    assert files.changed() == ""
    other.write_text("made")
    assert files.changed() == "configuration file"
    files.begin()
    files.set_files([str(one), str(other)])
    assert files.changed() == ""
    files.begin()
    one.unlink()  # during the inventory, which may have read the old contents
    files.set_files([str(one), str(other)])
    assert files.changed() == "configuration file"
    files.begin()
    files.set_files([])
    assert files.changed() == ""


def test_a_setting_of_the_kernel_that_is_gone_went_with_its_device() -> None:
    """It was "packet steering" when a driver was unbound."""
    with Popen(["sleep", "60"]) as process:
        path = f"/proc/{process.pid}/comm"
        files = StateFiles()
        files.begin()
        files.set_files([path])
        process.kill()
    assert files.changed() == "device"


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        ("/proc/sys/net/ipv4/conf/all/rp_filter", "sysctl"),
        ("/proc/irq/24/smp_affinity_list", "interrupt affinity"),
        ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "packet steering"),
        ("/sys/class/net/eth0/queues/tx-0/xps_cpus", "packet steering"),
        ("/etc/netplan/01.yaml", "configuration file"),
        ("/etc/NetworkManager/system-connections", "configuration file"),
    ],
)
def test_each_file_is_about_something(path: str, subject: str) -> None:
    assert subject_of(path) == subject


def test_state_files_of_this_machine() -> None:
    found = state_files(take_inventory("test"))
    assert {subject_of(path) for path in found} >= {"sysctl", "configuration file"}
    assert "/proc/sys/net/ipv4/conf/all/arp_filter" in found
    assert len(found) == len(set(found)) <= MAX_STATE_FILES


# ------------------------------------------------------------------------------------ a whole probe


def test_a_sysctl_that_changes_without_event(namespace: Namespace) -> None:
    namespace.disable_ipv6()
    namespace.try_link("v0", "type", "veth", "peer", "name", "v1")
    namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "v0"])
    with Probe("--interval", "60", namespace=namespace) as probe:
        probe.send({"recheck": True})
        name = "net.ipv4.conf.v0.arp_filter"
        first = probe.wait_for(lambda line: line.inventory).inventory
        assert first is not None and first.settings.sysctl[name] == 0
        namespace.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/v0/arp_filter"])
        probe.wait_for(lambda line: line.inventory and line.inventory.settings.sysctl[name] == 1)


def test_an_unchanged_inventory_is_not_sent_again(tmp_path: Path) -> None:
    """Inventories are taken continuously; only the first one and the one with a change are passed
    on.

    All of them have the contents of the first one, so that other changes of this machine have no
    effect. The files are opened before the probe forbids itself to write files.
    """
    stored, often = str(tmp_path / "stored"), str(tmp_path / "often")
    files = (
        f"stored, counted = open({stored!r}, 'w+b', buffering=0), open({often!r}, 'ab', "
        f"buffering=0)\n"
    )
    body = (
        "import os, pickle\n"
        "    from dataclasses import replace\n"
        "    counted.write(b'x')\n"
        "    often = os.fstat(counted.fileno()).st_size\n"
        "    if often == 1: stored.write(pickle.dumps(real('test', sys=sys, proc=proc)))\n"
        "    stored.seek(0)\n"
        "    taken = pickle.loads(stored.read())\n"
        "    settings = replace(taken.settings, sysctl={'changed': int(often > 4)})\n"
        "    return replace(taken, reason=reason, time=float(often), settings=settings)"
    )
    limits = (
        "scheduler.RECHECK_SECONDS = scheduler.RECHECK_PAUSE_FACTOR = 0.01; "
        "scheduler.Debouncer.PAUSE_FACTOR = 0.01"
    )
    with another_probe(tmp_path, files + with_inventory(body) + limits) as probe:
        probe.send({"recheck": True})
        taken = [probe.wait_for(lambda line: line.inventory).inventory for _ in range(2)]
    assert [one and one.settings.sysctl["changed"] for one in taken] == [0, 1]
    assert taken[1] is not None and taken[1].time > 2.0 and taken[1].reason == "re-scan"


def test_a_change_that_is_not_read_for_some_time_is_told(
    namespace: Namespace, tmp_path: Path
) -> None:
    """As on a slow host, where an inventory is followed by a long pause."""
    namespace.disable_ipv6()
    namespace.try_link("v0", "type", "veth", "peer", "name", "v1")
    limits = (
        "scheduler.Debouncer.MIN_PAUSE_SECONDS = 3600.0; scheduler.Debouncer.IDLE_FACTOR = "
        "float('inf'); "
        "scheduler.OUTDATED_AFTER_SECONDS = 0.2"
    )
    with another_probe(tmp_path, limits, namespace=namespace) as probe:
        snapshot = with_state(Snapshot.empty("here"), "live", "")
        first = probe.wait_for(lambda line: line.inventory)
        snapshot = advance(snapshot, first)
        assert not snapshot.unread_event
        namespace.run(["ip", "link", "set", "v0", "up"])
        told = probe.wait_for(lambda line: line.outdated)
        assert told.outdated is not None and told.outdated.source == "link"
        snapshot = advance(snapshot, told)
        assert snapshot.unread_event
        probe.send({"inventory": True})  # nictop's own request does not wait
        snapshot = advance(snapshot, probe.wait_for(lambda line: line.inventory))
        assert not snapshot.unread_event


@pytest.mark.parametrize(("slow_seconds", "is_told"), [("0.0", True), ("3600.0", False)])
def test_an_event_during_a_slow_inventory_is_told_before_that_inventory(
    namespace: Namespace, tmp_path: Path, slow_seconds: str, is_told: bool
) -> None:
    """Its sources are of before and of after the event: a finding that joins them would describe a
    state that never was. A fast host reads again before anybody has read the finding."""
    namespace.disable_ipv6()
    namespace.try_link("v0", "type", "veth", "peer", "name", "v1")
    read, release = tmp_path / "read", tmp_path / "release"
    body = (
        "import os, time\n"
        "    taken = real(reason, sys=sys, proc=proc)\n"
        "    progress.write('read\\n')\n"
        f"    while not os.path.exists({str(release)!r}): time.sleep(0.01)\n"
        "    return taken"
    )
    limits = (
        f"progress = open({str(read)!r}, 'w', 1); "
        "scheduler.Debouncer.MIN_PAUSE_SECONDS = 3600.0; scheduler.Debouncer.IDLE_FACTOR = "
        "float('inf'); scheduler.OUTDATED_AFTER_SECONDS = 3600.0; "
        f"scheduler.SLOW_INVENTORY_SECONDS = {slow_seconds}"
    )
    with another_probe(tmp_path, with_inventory(body) + limits, namespace=namespace) as probe:
        wait_until(lambda: read.exists() and read.read_text())
        namespace.run(["ip", "link", "set", "v0", "up"])
        probe.wait_for(lambda line: line.link_change and line.link_change.name == "v0")
        release.touch()
        told = probe.wait_for(lambda line: line.outdated or line.inventory)
        snapshot = advance(with_state(Snapshot.empty("here"), "live", ""), told)
        assert (told.outdated is not None) == is_told
        if is_told:
            assert told.outdated is not None and told.outdated.source == "link"
            snapshot = advance(snapshot, probe.wait_for(lambda line: line.inventory))
        assert outdated_text(snapshot) == ("read before an event (link)" if is_told else "")


@pytest.fixture
def bridge(namespace: Namespace) -> Iterator[Namespace]:
    """A bridge whose port receives a frame with its own address, as from a loop; IPv6 is quiet."""
    namespace.disable_ipv6()
    if not namespace.try_link("nictopbr", "type", "bridge"):
        pytest.skip("this kernel has no bridges")
    _, unreadable = read_kernel_messages(())
    if unreadable is not None:
        pytest.skip(f"no kernel messages: {unreadable.detail}")
    namespace.try_link(
        "port", "address", "02:00:00:00:00:01", "type", "veth", "peer", "name", "outside"
    )
    namespace.run(["ip", "link", "set", "port", "master", "nictopbr"])
    for name in ("nictopbr", "port", "outside"):
        namespace.run(["ip", "link", "set", name, "up"])
    yield namespace


def send_own_frame() -> None:
    """A frame with the port's own address, sent from the other end."""
    address = bytes.fromhex("020000000001")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as outside:
        outside.bind(("outside", 0))
        outside.send(b"\xff" * 6 + address + struct.pack("!H", 0x88B5) + bytes(46))


@pytest.mark.parametrize(
    "repair",
    [
        ["ip", "link", "set", "port", "nomaster"],
        ["ip", "link", "set", "port", "down"],
        ["ip", "link", "set", "port", "address", "02:00:00:00:00:02"],
    ],
    ids=["no port", "down", "another address"],
)
def test_a_finding_from_a_kernel_message_disappears_after_the_repair(
    bridge: Namespace, repair: list[str]
) -> None:
    """The message remains in the kernel log after the repair."""
    snapshot = with_state(Snapshot.empty("here"), "live", "")

    def found() -> bool:
        diagnosis = diagnose([HostFacts(snapshot)])
        return any(
            one.rule == "own_frames_come_back" and one.subject == "port"
            for one in diagnosis.findings
        )

    with Probe("--interval", "0.1", namespace=bridge) as probe:
        probe.send({"recheck": True})

        def until(state: bool) -> None:
            nonlocal snapshot

            def has(line: object) -> bool:
                nonlocal snapshot
                snapshot = advance(snapshot, line)  # type: ignore[arg-type]
                if not state and snapshot.inventory is not None:
                    assert snapshot.inventory.messages
                if state and not found():
                    bridge.call(send_own_frame)  # the kernel limits the rate of these messages
                return snapshot.inventory is not None and found() is state

            probe.wait_for(has)

        probe.wait_for(lambda line: line.inventory)
        until(True)
        bridge.run(repair)
        until(False)
