"""Whether the NIC of a finding is gone is known only from what was read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import Line, Unreadable
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.rules import Diagnosis
from nictop.rules.by_device import (
    RULES_OF_COUNTED_HISTORY,
    RULES_OF_HISTORY,
    device_findings,
    is_subject_gone,
    losses_in,
)
from nictop.rules.recent import RecentFindings
from nictop.rules.registry import RULES
from tests.support.findings import finding
from tests.support.lines import change, gone, inventory, link

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


@pytest.mark.parametrize("rule", sorted(RULES_OF_HISTORY | RULES_OF_COUNTED_HISTORY))
def test_what_a_nic_has_lost_is_not_back_when_another_one_has_its_name(rule: str) -> None:
    """A veth that was deleted, and made again with an IPv4 address only."""
    veth = link(2, "lab0", kind="veth")
    about = replace(finding(subject="lab0", host="vm1", rule=rule), ifindex=2)
    before = advance(Snapshot.empty("vm1"), inventory(veth, time=1.0))
    anew = advance(advance(before, gone(2, "lab0", time=2.0)), change(7, "lab0", time=2.5))
    read = advance(anew, inventory(replace(veth, ifindex=7), time=3.0))
    assert rule in RULES
    assert [is_subject_gone(about, one) for one in (before, anew, read)] == [False, True, True]
    recent = RecentFindings()
    recent.update(Diagnosis((about,), (), ("vm1",)), 1.0)
    for now in (3.0, 50.0):
        recent.update(Diagnosis((), (), ("vm1",)), now, losses_in({"vm1": read}))
    assert [(one.lost, one.resolved) for one in recent.resolved] == [("gone", True)]


def test_events_are_counted_further_for_another_netdev_of_the_device() -> None:
    about = replace(OF_NETDEV, rule="carrier_flaps")
    nic = replace(NIC, device="0000:03:00.0", ifindex=7)
    snapshot = advance(Snapshot.empty("vm1"), inventory(nic, time=3.0))
    assert not is_subject_gone(about, snapshot)


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
