"""What a newer inventory has changed is in doubt until the checks have run on it; what differs in
every inventory is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.probe.records import Address, Inventory, Line, Neighbour, Routing
from nictop.rules import RULES
from nictop.rules.finding import Finding
from nictop.rules.new_inventory import InventoryChanges, with_changes
from tests.support.findings import finding
from tests.support.lines import inventory, link

ADDRESS = Address("ipv4", "192.0.2.9", 24, "global", ())
NIC = link(2, "ens192", bus="pci", pci_address="0000:03:00.0", counters=(1, 2), master=4)
OTHER = link(3, "ens224", bus="pci", pci_address="0000:0b:00.0")
BRIDGE = link(4, "br0", kind="bridge")


def read(*links: object, **fields: object) -> Inventory:
    line: Line = inventory(*links, time=1.0)  # type: ignore[arg-type]
    assert line.inventory is not None
    routing = Routing(neighbours=(Neighbour(2, "192.0.2.1", "reachable"),))
    return replace(line.inventory, **({"routing": routing} | fields))  # type: ignore[arg-type]


BEFORE = read(NIC, OTHER, BRIDGE)
OF_NIC = finding(rule="link_is_unmanaged", subject="ens192", host="vm1")
OF_OTHER = finding(rule="link_is_unmanaged", subject="ens224", host="vm1")
OF_HOST = finding(rule="default_route_is_missing", subject="", host="vm1")
OF_GATEWAY = finding(rule="gateway_does_not_answer", subject="ens192", host="vm1")
OF_CPU = finding(rule="cpu_has_steal", subject="CPU 3", host="vm1")
FINDINGS = (OF_NIC, OF_OTHER, OF_HOST, OF_GATEWAY)


def doubtful(after: Inventory, findings: tuple[Finding, ...] = FINDINGS) -> list[Finding]:
    marks = with_changes(findings, "vm1", InventoryChanges(BEFORE, after))
    assert with_changes(findings, "vm2", InventoryChanges(BEFORE, after)) == list(findings)
    return [one for one, mark in zip(findings, marks, strict=True) if mark.outdated]


def test_a_periodic_inventory_in_which_nothing_has_changed_marks_nothing() -> None:
    """Counters, and neighbours that are reachable and stale in turn, differ in each."""
    stale = Routing(neighbours=(Neighbour(2, "192.0.2.1", "stale"),))
    counted = replace(NIC, counters=(7, 9))
    assert doubtful(read(counted, OTHER, BRIDGE, routing=stale)) == []


def test_a_change_of_a_link_is_about_what_rests_on_it() -> None:
    changed = read(NIC, replace(OTHER, addresses=(ADDRESS,)), BRIDGE)
    assert doubtful(changed) == [OF_OTHER, OF_HOST]
    bridge = read(NIC, OTHER, replace(BRIDGE, mtu=9000))
    assert OF_NIC in doubtful(bridge) and OF_OTHER not in doubtful(bridge)
    again = read(replace(NIC, ifindex=7), OTHER, BRIDGE)
    assert OF_NIC in doubtful(again)
    assert OF_NIC in doubtful(read(OTHER, BRIDGE)), "it is gone"
    assert doubtful(changed, (OF_CPU,)) == []


def test_a_change_of_a_source_is_about_the_rules_that_ask_it() -> None:
    failed = Routing(neighbours=(Neighbour(2, "192.0.2.1", "failed"),))
    assert "routing.neighbours" in RULES[OF_GATEWAY.rule].sources
    assert doubtful(read(NIC, OTHER, BRIDGE, routing=failed)) == [OF_GATEWAY]


@pytest.mark.parametrize("rule", ["link_is_unmanaged", "default_route_is_missing", "a_rule"])
def test_rules_may_be_unknown(rule: str) -> None:
    about = finding(rule=rule, subject="ens192", host="vm1")
    changed = read(replace(NIC, mtu=9000), OTHER, BRIDGE)
    assert doubtful(changed, (about,)) == [about]
