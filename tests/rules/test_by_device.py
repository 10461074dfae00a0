"""Whether the NIC of a finding is gone is known only from what was read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import Line, Unreadable
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.rules.by_device import is_subject_gone
from tests.support.findings import finding
from tests.support.lines import gone, inventory, link

NIC = link(2, "ens192", bus="pci", pci_address="0000:03:00.0")
OF_NETDEV = replace(finding(subject="ens192"), ifindex=2)
OF_FUNCTION = finding(subject="0000:03:00.0")


def test_a_nic_that_was_made_again_with_its_name_is_not_gone() -> None:
    snapshot = advance(Snapshot.empty("vm1"), inventory(NIC, time=1.0))
    assert not is_subject_gone(OF_NETDEV, snapshot)
    unbound = advance(snapshot, gone(2, "ens192", time=2.0))
    assert is_subject_gone(OF_NETDEV, unbound)
    again = advance(unbound, inventory(replace(NIC, ifindex=7), time=3.0))
    assert not is_subject_gone(OF_NETDEV, again)


@pytest.mark.parametrize(("about", "source"), [(OF_NETDEV, "links"), (OF_FUNCTION, "pci")])
def test_what_was_not_read_is_not_gone(about: object, source: str) -> None:
    line = inventory(time=1.0)
    assert line.inventory is not None
    unread = {source: Unreadable("failed", NOT_READ_YET)}
    for unreadable, is_gone in (({}, True), (unread, False)):
        read = Line(inventory=replace(line.inventory, unreadable=unreadable))
        snapshot = advance(Snapshot.empty("vm1"), read)
        assert is_subject_gone(about, snapshot) is is_gone  # type: ignore[arg-type]
