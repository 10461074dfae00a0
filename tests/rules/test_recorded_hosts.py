"""Findings from lines captured on real guests: exactly those expected here."""

from __future__ import annotations

import pytest

from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.model.window import RatesWindow
from nictop.rules import HostFacts, diagnose
from tests.support.captured import DATA, captured_lines

EXPECTED = {
    "wired-connection-1": {
        ("profile_is_generated", "ens224", "warning"),
        ("no_profile_matches", "ens256", "warning"),
    },
    "igb-vfs-vmxnet3-virtio": {
        ("virtual_functions_are_not_persistent", "0000:02:00.0", "warning"),
        ("vf_keeps_its_old_address", "ens224v1", "warning"),
        ("vf_rate_is_limited", "ens224", "info"),
    },
    "virtio-4-queues": set(),
}


def test_every_captured_guest_has_expected_findings() -> None:
    assert set(EXPECTED) == {path.stem for path in DATA.glob("*.jsonl")}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_captured_guest(name: str) -> None:
    snapshot, window = with_state(Snapshot.empty("guest"), "live", ""), RatesWindow()
    for line in captured_lines(name):
        snapshot = advance(snapshot, line)
        window.add(snapshot)
    diagnosis = diagnose([HostFacts(snapshot, window.parts)])
    assert [one for one in diagnosis.skipped if one.reason.startswith("check failed")] == []
    assert {(one.rule, one.subject, one.severity) for one in diagnosis.findings} == EXPECTED[name]
