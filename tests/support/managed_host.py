"""Findings about the host of a real NetworkManager in a namespace."""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.probe.records import Line
from nictop.rules import RULES, Finding, HostFacts, diagnose
from nictop.rules.fixes.commands import Step
from tests.support.namespace_inventory import take_inventory_inside
from tests.support.networkmanager import PrivateNetworkManager

FAMILY = "profiles and names"


def read_host_facts(manager: PrivateNetworkManager, before: HostFacts | None = None) -> HostFacts:
    """The host with a new inventory, taken in the namespace. `before`: as it was watched until
    now."""
    inventory = take_inventory_inside(manager)
    assert "networkmanager" not in inventory.unreadable
    known = with_state(Snapshot.empty("namespace"), "live", "")
    if before is not None:
        known = before.snapshot
    return HostFacts(advance(known, Line(inventory=inventory)))


def findings(manager: PrivateNetworkManager) -> dict[tuple[str, str], Finding]:
    """As `findings_of` the host with a new inventory."""
    return findings_of(read_host_facts(manager))


def findings_of(host: HostFacts) -> dict[tuple[str, str], Finding]:
    """(Rule, subject) → finding of the rules on profiles and names; asserts that none was
    skipped."""
    rules = [rule for rule in RULES.values() if rule.family == FAMILY]
    diagnosis = diagnose([host], rules)
    assert not diagnosis.skipped, diagnosis.skipped
    return {(one.rule, one.subject): one for one in diagnosis.findings}


def run_in_bash(manager: PrivateNetworkManager, lines: Iterable[Step | str], **filled: str) -> None:
    """Run the printed lines in bash, one after another; `filled`: placeholder → text to fill in,
    ``ADDRESS`` for ``<ADDRESS/PREFIX>``."""
    for printed in lines:
        line = str(printed)
        for name, value in filled.items():
            line = line.replace(f"<{name}/PREFIX>", value).replace(f"<{name}>", value)
        assert "<" not in line, f"placeholder not filled in: {line}"
        manager.run(["bash", "-c", line])
