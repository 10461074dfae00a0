"""The host of a real NetworkManager in a namespace, as the rules see it."""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.probe.records import Line
from nictop.rules import RULES, Finding, HostFacts, diagnose
from nictop.rules.fixes.commands import Step
from tests.support.inside import inventory_inside
from tests.support.networkmanager import PrivateNetworkManager

FAMILY = "profiles and names"


def watched(manager: PrivateNetworkManager) -> HostFacts:
    """A new inventory, taken inside."""
    inventory = inventory_inside(manager)
    assert "networkmanager" not in inventory.unreadable
    return HostFacts(advance(with_state(Snapshot.empty("namespace"), "live", ""), Line(inventory=inventory)))


def findings(manager: PrivateNetworkManager) -> dict[tuple[str, str], Finding]:
    """(Rule, subject) → what the rules on profiles and names say; none of them may have failed."""
    rules = [rule for rule in RULES.values() if rule.family == FAMILY]
    diagnosis = diagnose([watched(manager)], rules)
    assert not diagnosis.skipped, diagnosis.skipped
    return {(one.rule, one.subject): one for one in diagnosis.findings}


def type_in(manager: PrivateNetworkManager, lines: Iterable[Step | str], **filled: str) -> None:
    """The lines as they were printed, typed into bash one after another; `filled`: what a person puts in for a place
    in capitals, ``ADDRESS`` for ``<ADDRESS/PREFIX>``."""
    for printed in lines:
        line = str(printed)
        for name, value in filled.items():
            line = line.replace(f"<{name}/PREFIX>", value).replace(f"<{name}>", value)
        assert "<" not in line, f"to be filled in: {line}"
        manager.run(["bash", "-c", line])
