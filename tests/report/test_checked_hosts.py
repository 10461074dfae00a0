"""The line about a checked host."""

from __future__ import annotations

import dataclasses

from nictop.model.snapshot import advance
from nictop.probe.records import Line
from nictop.report.findings.hosts import checked_host, checked_host_text
from nictop.rules import HostFacts
from tests.support.rule_cases import host_facts


def test_a_nic_that_went_while_the_host_was_watched_is_told_with_its_time() -> None:
    snapshot = host_facts({"base": "kvm-guest"}).snapshot
    inventory = snapshot.inventory
    assert inventory is not None
    without = dataclasses.replace(inventory, time=inventory.time + 60.0, links=())
    for one in (inventory, without):
        snapshot = advance(snapshot, Line(inventory=one))
    text = checked_host_text(checked_host(HostFacts(snapshot)))
    assert "while it was watched: enp1s0 was gone at 08:00:00 UTC" in text
