"""The whole inventory: complete, decodable, on old interpreters, and with every source independent
of the others."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from nictop.probe.counters.targets import stable_fields
from nictop.probe.inventory.collect import SourceReader, take_inventory
from nictop.probe.inventory.links import reader as links_module
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import Inventory, Line, Unreadable
from nictop.wire.codec import decode as decode_line
from tests.support.namespaces import ROOT, Namespace
from tests.support.probe import PYTHONS, SentProbe, python_parameters, unreadable_parts

CHILD = """
import json
from nictop.probe.inventory.collect import take_inventory
from nictop.probe.light_dataclasses import field_mapping
print(json.dumps({"inventory": take_inventory("test")}, default=field_mapping))
"""


def decode(line: str) -> Inventory:
    """The record decoded from JSON, each field checked against its type."""
    inventory = msgspec.json.decode(line.encode(), type=Line).inventory
    assert inventory is not None
    return inventory


def test_the_inventory_of_this_machine_is_decoded_unchanged() -> None:
    taken = take_inventory("test")
    assert unreadable_parts(taken) == {}
    assert taken.reason == "test"
    assert taken.took > 0
    assert [link.ifindex for link in taken.links] == sorted(
        index for index, _ in socket.if_nameindex()
    )
    assert decode(json.dumps({"inventory": taken}, default=field_mapping)) == taken


def test_after_an_event_the_functions_are_passed_on_first() -> None:
    parts: list[Inventory] = []
    taken = take_inventory("event", part=parts.append)
    (first,) = parts
    assert first.pci == taken.pci and not first.links
    assert {"links", "platform", "guests"} <= {*first.pending} <= {*first.unreadable}
    parts.clear()
    take_inventory("start", part=parts.append)
    assert [("links" in one.pending, "platform" in one.pending) for one in parts] == [
        (False, True),
        (False, False),
    ]


def test_pci_addresses_of_links_are_functions_of_the_inventory() -> None:
    taken = take_inventory("test")
    functions = {function.address for function in taken.pci}
    on_pci = [link for link in taken.links if link.bus in ("pci", "virtio") and link.pci_address]
    if not on_pci:
        pytest.skip("no PCI network device here")
    for link in on_pci:
        assert link.pci_address in functions
        if link.ethtool.driver and link.ethtool.driver.bus_info and link.bus == "pci":
            assert link.ethtool.driver.bus_info == link.pci_address


def test_no_large_module_is_imported() -> None:
    code = (
        "import sys, nictop.probe.inventory.collect; print([m for m in sys.modules if "
        "m.split('.')[0] in "
    )
    code += "('pyroute2', 'asyncio', 'ctypes', 'msgspec')])"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("python", python_parameters(PYTHONS))
def test_every_python_takes_the_same_inventory(
    python: str, namespace: Namespace, tmp_path: Path
) -> None:
    """In a namespace in which nothing changes, field by field."""
    namespace.disable_ipv6()
    namespace.try_link("v0", "type", "veth", "peer", "name", "v1")
    namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "v0"])
    taken = {}
    for name in (python, sys.executable):
        folder = tmp_path / os.path.basename(name)
        folder.mkdir()
        with SentProbe(name, folder, "--interval", "0.1", "--once", namespace=namespace) as probe:
            received = [decode_line(raw).inventory for raw in probe.raw_lines()]
        (inventory,) = (one for one in received if one is not None)
        parts = (
            inventory.links,
            inventory.pci,
            inventory.platform,
            inventory.settings,
            inventory.unreadable,
        )
        taken[name] = json.loads(json.dumps(parts, default=stable_fields))
    assert {link["name"] for link in taken[python][0]} == {"lo", "v0", "v1"}
    assert taken[python] == taken[sys.executable]


def test_the_inventory_inside_a_namespace(namespace: Namespace) -> None:
    namespace.try_link("v0", "type", "veth", "peer", "name", "v1")
    taken = decode(namespace.python(CHILD))
    assert unreadable_parts(taken) == {}
    assert {link.name for link in taken.links} == {"lo", "v0", "v1"}
    assert {link.pci_address for link in taken.links} == {None}
    for link in taken.links:
        assert link.ethtool.features, link.name


def test_links_without_sysfs_and_procfs(tmp_path: Path) -> None:
    """rtnetlink and ethtool do not depend on them."""
    taken = take_inventory("test", sys=str(tmp_path), proc=str(tmp_path), etc=str(tmp_path))
    assert taken.pci == ()
    assert unreadable_parts(taken) == {}
    lo = next(link for link in taken.links if link.name == "lo")
    assert lo.unreadable["address_assignment"].reason == "missing"
    assert lo.ethtool.features


def test_other_sources_are_read_when_one_is_unreadable(
    capture: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "bus/pci").mkdir(parents=True)
    (tmp_path / "bus/pci/devices").write_text("a file where a directory should be")
    taken = take_inventory("test", sys=str(tmp_path))
    assert taken.unreadable["pci"].detail.endswith("ENOTDIR")
    assert taken.links
    root = capture("guest")
    other = take_inventory(
        "test", sys=str(root / "sys"), proc=str(root / "proc"), etc=str(root / "etc")
    )
    assert len(other.pci) == 7
    assert other.platform.system_vendor == "QEMU"


def test_an_unexpected_exception_concerns_one_source_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(sys: str) -> None:
        raise RuntimeError("a defect in a reader")

    monkeypatch.setattr(links_module, "read_links", broken)
    taken = take_inventory("test")
    assert taken.links == ()
    assert taken.unreadable["links"].detail == "RuntimeError: a defect in a reader"
    assert taken.platform.online_cpus is not None


def test_every_source_reports_missing_descriptors() -> None:
    """EMFILE everywhere: no exception, reasons instead."""
    code = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
import json, resource
from nictop.probe.inventory import collect as inventory
from nictop.probe.inventory.ethtool import reader as ethtool
from nictop.probe.inventory.links import reader as links
from nictop.probe.inventory.machine import platform
from nictop.probe.inventory.pci import functions as pci
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
taken = inventory.take_inventory("test")
from nictop.probe.light_dataclasses import field_mapping
print(json.dumps({{"inventory": taken}}, default=field_mapping))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    taken = decode(done.stdout)
    assert {"links", "addresses", "routes"} <= set(taken.unreadable)
    assert all(
        "EMFILE" in why.detail or "Too many open files" in why.detail
        for why in taken.unreadable.values()
    )


def test_the_inventory_of_an_ordinary_user() -> None:
    """In a fork, as in the probe: another user may not be able to read the files of the
    interpreter."""
    if os.geteuid() != 0:
        pytest.skip("only root can drop privileges")
    ours = take_inventory("test")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setresuid(65534, 65534, 65534)
        with os.fdopen(writer, "w") as pipe:
            from nictop.probe.light_dataclasses import field_mapping

            pipe.write(json.dumps({"inventory": take_inventory("test")}, default=field_mapping))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        theirs = decode(pipe.read())
    assert os.waitpid(child, 0)[1] == 0
    assert {why.reason for why in theirs.unreadable.values()} <= {"needs_root"}
    assert set(theirs.unreadable) <= {
        "messages",
        "filters",
        "configuration",
    }  # netplan's files may be root's
    assert (theirs.messages is None) is ("messages" in theirs.unreadable)
    for their_function, our_function in zip(theirs.pci, ours.pci, strict=True):
        # only root can read the configuration space beyond 64 bytes
        assert their_function.sriov_capable in (None, our_function.sriov_capable)
        assert replace(their_function, sriov_capable=our_function.sriov_capable) == our_function
    assert theirs.platform == ours.platform
    # another test may have started or stopped a NetworkManager in between
    # other tests may start these
    others = {"networkmanager": None, "qemu_guest_agent": None}
    assert replace(theirs.services, **others) == replace(ours.services, **others)
    assert theirs.settings.sysctl == ours.settings.sysctl
    for their, our in zip(theirs.links, ours.links, strict=True):
        assert (their.name, their.addresses, their.default_routes) == (
            our.name,
            our.addresses,
            our.default_routes,
        )
        for part, why in their.ethtool.unreadable.items():
            assert why == our.ethtool.unreadable.get(part) or why.reason == "needs_root"


def test_queues_interrupts_and_threads(capture: Callable[[str], Path]) -> None:
    root = capture("queues")
    taken = take_inventory("test", sys=str(root / "sys"), proc=str(root / "proc"))
    assert {one.pci_address for one in taken.interrupts} >= {
        "0000:01:00.0",
        "0000:02:00.0",
        "0000:02:10.0",
    }
    assert next(one for one in taken.interrupts if one.number == 41).actions == ("ens224-TxRx-0",)
    here = take_inventory("test")
    lo = next(link for link in here.links if link.name == "lo")
    assert [(queue.direction, queue.number) for queue in lo.queues] == [("rx", 0), ("tx", 0)]
    if os.path.exists("/proc/2/comm"):  # not in a process namespace of its own
        assert "ksoftirqd" in {thread.kind for thread in here.threads}


MODULES = {
    "queues": "links.queues",
    "interrupts": "machine.interrupts",
    "threads": "machine.threads",
    "networkd": "managers.networkd",
    "link_configuration": "configuration.collect",
    "services": "machine.daemons",
    "settings": "machine.sysctl",
    "iommu": "pci.iommu_groups",
    "forwarding": "links.forwarding",
    "kernel_messages": "machine.kernel_log",
    "processes": "machine.processes",
}
"""Source → its module in nictop.probe.inventory."""


@pytest.mark.parametrize(
    "source", ["queues", "interrupts", "threads", "networkd", "link_configuration"]
)
def test_a_failed_reader_does_not_affect_links_and_ethtool(
    monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a defect in a reader")

    monkeypatch.setattr(f"nictop.probe.inventory.{MODULES[source]}.read_{source}", broken)
    taken = take_inventory("test")
    named = "configuration" if source == "link_configuration" else source
    assert unreadable_parts(taken) == {
        named: Unreadable("failed", "RuntimeError: a defect in a reader")
    }
    assert next(link for link in taken.links if link.name == "lo").ethtool.features


def test_settings_and_messages_of_this_machine() -> None:
    taken = take_inventory("test")
    assert taken.settings.command_line
    assert taken.settings.policy_rules is not None
    assert taken.settings.sysctl["net.ipv4.ip_forward"] in (0, 1)
    assert (taken.messages is None) is ("messages" in taken.unreadable)


@pytest.mark.parametrize(
    "source", ["services", "settings", "iommu", "forwarding", "kernel_messages", "processes"]
)
def test_a_failed_reader_is_reported(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect in a reader")

    monkeypatch.setattr(f"nictop.probe.inventory.{MODULES[source]}.read_{source}", broken)
    taken = take_inventory("test")
    named = "messages" if source == "kernel_messages" else source
    assert taken.unreadable[named] == Unreadable("failed", "RuntimeError: a defect in a reader")
    assert next(link for link in taken.links if link.name == "lo").ethtool.features


def test_threads_and_services_of_a_directory(tmp_path: Path) -> None:
    """In place of procfs, with a virtual machine and a daemon: both are found, and the host is a
    hypervisor."""
    for pid, comm, command in (
        (1, "systemd", ""),
        (50, "irqbalance", ""),
        (60, "kvm", "/usr/bin/kvm\0-id\0" + "101"),
    ):
        (tmp_path / f"{pid}/task/{pid}").mkdir(parents=True)
        (tmp_path / f"{pid}/comm").write_text(comm + "\n")
        (tmp_path / f"{pid}/task/{pid}/comm").write_text(comm + "\n")
        (tmp_path / f"{pid}/cmdline").write_text(command)
    taken = take_inventory(
        "test", sys=str(tmp_path), proc=str(tmp_path), etc=str(tmp_path), dev=str(tmp_path)
    )
    assert [(thread.tid, thread.machine) for thread in taken.threads] == [(60, "101")]
    assert taken.services.irqbalance == 50
    assert taken.platform.roles == ("hypervisor",)


def test_services_are_unreadable_when_processes_are_hidden(tmp_path: Path) -> None:
    """hidepid: it is not known whether irqbalance runs."""
    (tmp_path / "77").mkdir()
    (tmp_path / "77/comm").write_text("bash\n")
    sources = SourceReader()
    assert sources.read_processes(str(tmp_path)) == {77: "bash"}
    hidden = Unreadable("needs_root", f"{tmp_path}: hidepid")
    assert sources.failed["services"] == sources.failed["threads"] == hidden
