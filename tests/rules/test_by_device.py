"""Whether the NIC of a finding is gone is known only from what was read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import Line, Unreadable
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.rules import Diagnosis
from nictop.rules.by_device import device_findings, is_subject_gone
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


def test_a_finding_is_at_each_device_that_it_is_about() -> None:
    """The other one with the same address, on another host or this one, had no mark."""
    about = replace(finding(host="vm1", title="twice"), ifindex=2, also=(("vm2", 3), ("vm1", 4)))
    diagnosis = Diagnosis((about,), (), ("vm1", "vm2"))
    of_first, of_second = (device_findings(diagnosis, name) for name in ("vm1", "vm2"))
    assert {device: [one.title for one in found] for device, found in of_first.items()} == {
        2: ["twice"],
        4: ["ens224: twice"],
    }
    assert [one.title for one in of_second[3]] == ["vm1 ens224: twice"]
    assert of_second[3][0].identity == about.identity
