"""The whole inventory: complete, decodable, cheap, on old interpreters, and never stopped by one broken source."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from nictop.probe.inventory.collect import process_names, take_inventory
from nictop.probe.inventory.links import reader as links_module
from nictop.probe.records import Inventory, Line, Unreadable
from tests.support.namespaces import ROOT, Namespace
from tests.support.probe import failures

CHILD = """
import json
from nictop.probe.inventory.collect import take_inventory
print(json.dumps({"inventory": take_inventory("test")}, default=vars))
"""


def decode(line: str) -> Inventory:
    """The record as the reader of the wire sees it: every field checked against its type."""
    inventory = msgspec.json.decode(line.encode(), type=Line).inventory
    assert inventory is not None
    return inventory


def test_the_inventory_of_this_machine_passes_the_wire_unchanged() -> None:
    taken = take_inventory("test")
    assert failures(taken) == {}
    assert taken.reason == "test"
    assert taken.took > 0
    assert [link.ifindex for link in taken.links] == sorted(index for index, _ in socket.if_nameindex())
    assert decode(json.dumps({"inventory": taken}, default=vars)) == taken


def test_links_point_to_the_functions_of_the_same_inventory() -> None:
    taken = take_inventory("test")
    functions = {function.address for function in taken.pci}
    carried = [link for link in taken.links if link.bus in ("pci", "virtio") and link.pci_address]
    if not carried:
        pytest.skip("no PCI network device here")
    for link in carried:
        assert link.pci_address in functions
        if link.ethtool.driver and link.ethtool.driver.bus_info and link.bus == "pci":
            assert link.ethtool.driver.bus_info == link.pci_address


def test_importing_it_brings_nothing_heavy() -> None:
    code = "import sys, nictop.probe.inventory.collect; print([m for m in sys.modules if m.split('.')[0] in "
    code += "('pyroute2', 'asyncio', 'ctypes', 'msgspec')])"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def interpreter(version: str) -> str | None:
    """An interpreter of that version which really starts; a shim on PATH may lead nowhere."""
    for found in filter(None, (shutil.which(f"python{version}"), *pyenv_interpreters(version))):
        done = subprocess.run(
            [found, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, check=False
        )
        if done.returncode == 0:
            return found
    return None


def pyenv_interpreters(version: str) -> list[str]:
    """What pyenv has of that version, whether it is switched on or not."""
    shim = shutil.which(f"python{version}")
    root = Path(shim).parent.parent if shim and Path(shim).parent.name == "shims" else None
    return sorted(str(path) for path in root.glob(f"versions/{version}.*/bin/python")) if root else []


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_other_interpreters_take_the_same_inventory(version: str) -> None:
    """Bare: standard library only, so that udev's names may be missing but nothing else."""
    other = interpreter(version)
    if other is None:
        pytest.skip(f"no python{version} that starts")
    argv = [other, "-I", "-S", "-W", "error", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})" + CHILD]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    theirs, ours = decode(done.stdout), take_inventory("test")
    bare = {"networkmanager": Unreadable("missing", "jeepney, the library that speaks D-Bus, is not there")}
    assert theirs.unreadable in ({}, bare)
    assert [(link.name, link.mtu, link.pci_address) for link in theirs.links] == [
        (link.name, link.mtu, link.pci_address) for link in ours.links
    ]
    assert theirs.platform == ours.platform


def test_the_inventory_inside_a_namespace(namespace: Namespace) -> None:
    namespace.try_link("v0", "type", "veth", "peer", "name", "v1")
    taken = decode(namespace.python(CHILD))
    assert failures(taken) == {}
    assert {link.name for link in taken.links} == {"lo", "v0", "v1"}
    assert {link.pci_address for link in taken.links} == {None}
    for link in taken.links:
        assert link.ethtool.features, link.name


def test_an_empty_machine_still_has_its_links(tmp_path: Path) -> None:
    """Neither sysfs nor procfs: rtnetlink and ethtool stand by themselves."""
    taken = take_inventory("test", sys=str(tmp_path), proc=str(tmp_path), etc=str(tmp_path))
    assert taken.pci == ()
    assert failures(taken) == {}
    lo = next(link for link in taken.links if link.name == "lo")
    assert lo.unreadable["address_assignment"].reason == "missing"
    assert lo.ethtool.features


def test_a_source_that_cannot_be_read_leaves_the_others(capture: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "bus/pci").mkdir(parents=True)
    (tmp_path / "bus/pci/devices").write_text("a file where a directory should be")
    taken = take_inventory("test", sys=str(tmp_path))
    assert taken.unreadable["pci"].detail.endswith("ENOTDIR")
    assert taken.links
    root = capture("guest")
    other = take_inventory("test", sys=str(root / "sys"), proc=str(root / "proc"), etc=str(root / "etc"))
    assert len(other.pci) == 7
    assert other.platform.system_vendor == "QEMU"


def test_an_error_nobody_foresaw_ends_one_source_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(sys: str) -> None:
        raise RuntimeError("a defect in a reader")

    monkeypatch.setattr(links_module, "read_links", broken)
    taken = take_inventory("test")
    assert taken.links == ()
    assert taken.unreadable["links"].detail == "RuntimeError: a defect in a reader"
    assert taken.platform.online_cpus is not None


def test_without_descriptors_every_source_says_so() -> None:
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
print(json.dumps({{"inventory": taken}}, default=vars))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    taken = decode(done.stdout)
    assert {"links", "addresses", "routes"} <= set(taken.unreadable)
    assert all("EMFILE" in why.detail or "Too many open files" in why.detail for why in taken.unreadable.values())


def test_an_ordinary_user_gets_the_same_facts() -> None:
    """In a fork, as in the probe: another user may not even be able to read the interpreter's files."""
    if os.geteuid() != 0:
        pytest.skip("takes rights away, which only root has")
    ours = take_inventory("test")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setresuid(65534, 65534, 65534)
        with os.fdopen(writer, "w") as pipe:
            pipe.write(json.dumps({"inventory": take_inventory("test")}, default=vars))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        theirs = decode(pipe.read())
    assert os.waitpid(child, 0)[1] == 0
    assert {why.reason for why in theirs.unreadable.values()} <= {"needs_root"}
    assert set(theirs.unreadable) <= {"messages", "configuration"}  # netplan's files may be root's
    assert (theirs.messages is None) is ("messages" in theirs.unreadable)
    for their_function, our_function in zip(theirs.pci, ours.pci, strict=True):
        # configuration space beyond 64 bytes is root's: then nobody says "no"
        assert their_function.sriov_capable in (None, our_function.sriov_capable)
        assert replace(their_function, sriov_capable=our_function.sriov_capable) == our_function
    assert theirs.platform == ours.platform
    # a NetworkManager that another test has started may have come or gone meanwhile
    assert replace(theirs.services, networkmanager=None) == replace(ours.services, networkmanager=None)
    assert theirs.settings.sysctl == ours.settings.sysctl
    for their, our in zip(theirs.links, ours.links, strict=True):
        assert (their.name, their.addresses, their.default_routes) == (our.name, our.addresses, our.default_routes)
        for part, why in their.ethtool.unreadable.items():
            assert why == our.ethtool.unreadable.get(part) or why.reason == "needs_root"


def test_queues_interrupts_and_threads_are_in_it(capture: Callable[[str], Path]) -> None:
    root = capture("queues")
    taken = take_inventory("test", sys=str(root / "sys"), proc=str(root / "proc"))
    assert {one.pci_address for one in taken.interrupts} >= {"0000:01:00.0", "0000:02:00.0", "0000:02:10.0"}
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


@pytest.mark.parametrize("source", ["queues", "interrupts", "threads", "networkd", "link_configuration"])
def test_a_broken_reader_leaves_links_with_their_ethtool_part(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a defect in a reader")

    monkeypatch.setattr(f"nictop.probe.inventory.{MODULES[source]}.read_{source}", broken)
    taken = take_inventory("test")
    named = "configuration" if source == "link_configuration" else source
    assert failures(taken) == {named: Unreadable("failed", "RuntimeError: a defect in a reader")}
    assert next(link for link in taken.links if link.name == "lo").ethtool.features


def test_what_the_rules_need_of_this_machine_is_in_it() -> None:
    taken = take_inventory("test")
    assert taken.settings.command_line
    assert taken.settings.policy_rules is not None
    assert taken.settings.sysctl["net.ipv4.ip_forward"] in (0, 1)
    assert (taken.messages is None) is ("messages" in taken.unreadable)


@pytest.mark.parametrize("source", ["services", "settings", "iommu", "forwarding", "kernel_messages", "processes"])
def test_a_broken_reader_of_a_new_source_is_said(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect in a reader")

    monkeypatch.setattr(f"nictop.probe.inventory.{MODULES[source]}.read_{source}", broken)
    taken = take_inventory("test")
    named = "messages" if source == "kernel_messages" else source
    assert taken.unreadable[named] == Unreadable("failed", "RuntimeError: a defect in a reader")
    assert next(link for link in taken.links if link.name == "lo").ethtool.features


def test_one_walk_of_proc_serves_threads_and_services(tmp_path: Path) -> None:
    """A made-up procfs with a virtual machine and a daemon: both are found, and the machine makes a hypervisor."""
    for pid, comm, command in ((1, "systemd", ""), (50, "irqbalance", ""), (60, "kvm", "/usr/bin/kvm\0-id\0" + "101")):
        (tmp_path / f"{pid}/task/{pid}").mkdir(parents=True)
        (tmp_path / f"{pid}/comm").write_text(comm + "\n")
        (tmp_path / f"{pid}/task/{pid}/comm").write_text(comm + "\n")
        (tmp_path / f"{pid}/cmdline").write_text(command)
    taken = take_inventory("test", sys=str(tmp_path), proc=str(tmp_path), etc=str(tmp_path), dev=str(tmp_path))
    assert [(thread.tid, thread.machine) for thread in taken.threads] == [(60, "101")]
    assert taken.services.irqbalance == 50
    assert taken.platform.roles == ("hypervisor",)


def test_hidden_processes_are_no_missing_daemons(tmp_path: Path) -> None:
    """hidepid: whether irqbalance runs is not known then."""
    (tmp_path / "77").mkdir()
    (tmp_path / "77/comm").write_text("bash\n")
    failed: dict[str, Unreadable] = {}
    assert process_names(str(tmp_path), failed) == {77: "bash"}
    assert failed["services"] == failed["threads"] == Unreadable("needs_root", f"{tmp_path}: hidepid")
