"""Run the commands that a rule prints in a shell of a network namespace, to test that its finding
is then gone.

A namespace has veths where a machine has NICs. `Host.patch` is a JSON merge patch for the inventory
of the real probe: which links are NICs, their drivers, and the virtual functions of an SR-IOV card;
never what the commands change. Everything else is read by the probe before and after.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from nictop.probe.records import Hello, Inventory, Line
from nictop.rules import RULES, Finding, Fix, HostFacts, diagnose
from nictop.rules.fixes.commands import Step
from tests.support.namespace_inventory import take_inventory_inside
from tests.support.namespaces import Namespace
from tests.support.networkmanager import PrivateNetworkManager
from tests.support.rule_cases import (
    HELLO,
    counters_of,
    host_facts_after,
    listening_lines,
    merge_patch,
)

JsonPatch = dict[str, Any]
WATCHED_HOSTS = ("here", "peer")


def nic(driver: str = "e1000e", slot: int = 1, **more: Any) -> JsonPatch:
    """Patch that makes a veth a NIC in a PCI slot."""
    address = f"0000:{slot:02x}:00.0"
    fields = {"driver": {"driver": driver, "version": "", "firmware": "", "bus_info": address}}
    link: JsonPatch = {
        "kind": None,
        "bus": "pci",
        "device": address,
        "pci_address": address,
        "ethtool": fields,
    }
    dressed: JsonPatch = merge_patch({**link, "lower": None, "lower_namespace": None}, more)
    return dressed


def pci_function(driver: str, **more: Any) -> JsonPatch:
    """The PCI function of a NIC."""
    ids = {"class_code": 0x020000, "vendor_id": 0x8086, "device_id": 0x1572, "revision": 1}
    return {
        **ids,
        "subsystem_vendor_id": None,
        "subsystem_device_id": None,
        "driver": driver,
        "enabled": True,
        **more,
    }


@dataclass(frozen=True)
class Host:
    """A namespace as a host."""

    set_up: str
    """Shell lines, run before the first inventory."""
    patch: JsonPatch = field(default_factory=dict)
    """Patch of the inventory; links by name, PCI functions by address."""
    per_second: JsonPatch = field(default_factory=dict)
    """Counters under load, see `rule_cases`."""
    ipv6: bool = False
    """Leave IPv6 enabled; the links then change for some seconds without a command."""
    listened: JsonPatch = field(default_factory=dict)
    """What was received while listening for LLDP, see `rule_cases`."""


@dataclass
class RunningHost:
    """A host whose namespace exists."""

    name: str
    host: Host
    manager: PrivateNetworkManager

    @property
    def pid(self) -> str:
        """Pid of a process in the namespaces of the host."""
        return self.manager.prefix[1].partition("=")[2]

    def run_in_bash(self, lines: Iterable[Step | str]) -> None:
        """Run the lines in bash exactly as printed."""
        for line in lines:
            self.manager.run(["bash", "-c", str(line)])

    def read_facts(self) -> HostFacts:
        """The host with a new inventory."""
        return patched_facts(take_inventory_inside(self.manager), self.host, self.name)


def patched_facts(inventory: Inventory, host: Host, name: str) -> HostFacts:
    fields: JsonPatch = msgspec.to_builtins(inventory)
    names = {link["name"]: link for link in fields["links"]}
    addresses = {one["address"]: one for one in fields["pci"]}
    patch = dict(host.patch)
    patch["lldp"] = {names[name]["ifindex"]: found for name, found in patch.get("lldp", {}).items()}
    for link, change in patch.pop("links", {}).items():
        names[link].update(merge_patch(names[link], _resolved(change, names)))
    for address, change in patch.pop("pci", {}).items():
        addresses[address] = merge_patch(addresses.get(address, {"address": address}), change)
    fields = merge_patch({**fields, "pci": list(addresses.values())}, patch)
    if host.per_second:
        fields["time"] = 0.0  # as in the first counters
    whole = msgspec.convert(fields, Inventory, strict=False)
    hello = msgspec.convert({**HELLO, "hostname": name, "boot_id": name}, Hello)
    indexes = {link.name: link.ifindex for link in whole.links}
    loads = counters_of({"per_second": host.per_second}, indexes, whole) if host.per_second else []
    listening = listening_lines(host.listened, indexes)
    lines = [
        Line(hello=hello),
        Line(inventory=whole),
        *listening,
        *(Line(counters=counters) for counters in loads),
    ]
    return host_facts_after(lines, name)


def _resolved(change: JsonPatch, names: dict[str, JsonPatch]) -> JsonPatch:
    """Replace the name of a master by its ifindex, as in rule cases."""
    master = change.get("master")
    return {**change, "master": names[master]["ifindex"]} if isinstance(master, str) else change


@contextmanager
def running_hosts(
    hosts: Sequence[Host], *, writable_sys: bool = True
) -> Iterator[tuple[RunningHost, ...]]:
    """Make and set up the namespaces; ``$OTHER`` in the second is the pid of a process in the
    first."""
    with ExitStack() as stack:
        made: list[RunningHost] = []
        for number, host in enumerate(hosts):
            namespace = Namespace()
            stack.callback(namespace.remove)
            if not host.ipv6:
                namespace.disable_ipv6()
            manager = PrivateNetworkManager(namespace, writable_sys=writable_sys)
            stack.callback(manager.remove)
            other = made[0].pid if made else ""
            environment = {"OTHER": other, "PATH": os.environ["PATH"]}
            words = [f"{name}={value}" for name, value in environment.items()]
            manager.run(["env", *words, "bash", "-ec", host.set_up])
            made.append(RunningHost("ab"[number], host, manager))
        yield tuple(made)


def find_finding(places: Sequence[RunningHost], rule: str, subject: str) -> Finding | None:
    """The rule's finding about the subject after a new inventory; asserts that the rule did not
    fail."""
    rules = [RULES[rule]]
    diagnosis = diagnose([place.read_facts() for place in places], rules)
    assert not any(one.reason.startswith("check failed") for one in diagnosis.skipped), (
        diagnosis.skipped
    )
    return next((one for one in diagnosis.findings if one.subject == subject), None)


def fix_of(finding: Finding, title: str) -> Fix:
    """The first fix with commands for a watched host, or the one of that title."""
    fixes = [one for one in finding.fixes if one.where in WATCHED_HOSTS and one.commands]
    return next(one for one in fixes if not title or one.title == title)
