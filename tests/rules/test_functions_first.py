"""A driver that is unbound on a slow host: what is known of the device before all else is read."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.doubts import doubts_of
from nictop.model.snapshot import Snapshot, advance, reading_notice
from nictop.probe.inventory.collect import COUNTED_SOURCES, MACHINE_SOURCES, MANAGER_SOURCES
from nictop.probe.records import Inventory, Line, Outdated, PciFunction, Unreadable
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.rules import Diagnosis, HostFacts, diagnose
from tests.support.lines import gone, hello, inventory, link

ADDRESS = "0000:02:00.0"
NIC = link(2, "ens192", bus="pci", device=ADDRESS, pci_address=ADDRESS)
OTHER = link(3, "ens256")
FUNCTION = PciFunction(
    address=ADDRESS,
    class_code=0x020000,
    vendor_id=0x8086,
    device_id=0x10C9,
    subsystem_vendor_id=None,
    subsystem_device_id=None,
    revision=1,
    driver="igb",
    driver_override=None,
    enabled=True,
    iommu_group=None,
    numa_node=None,
    created=3.0,
)
PENDING = (*COUNTED_SOURCES, *MACHINE_SOURCES, *MANAGER_SOURCES)


def read(time: float, driver: str | None, *links: object) -> Inventory:
    line = inventory(*links, time=time)  # type: ignore[arg-type]
    assert line.inventory is not None
    return replace(line.inventory, pci=(replace(FUNCTION, driver=driver),), wall=1e9)


def part(time: float, driver: str | None) -> Line:
    """The functions alone, as the child of the probe sends them first after an event."""
    unread = {source: Unreadable("failed", NOT_READ_YET) for source in PENDING}
    begun = replace(read(time, driver), reason="event", pending=PENDING, unreadable=unread)
    return Line(inventory=replace(begun, pci=(replace(begun.pci[0], created=None),)))


def unbound(*lines: Line) -> Snapshot:
    snapshot = advance(Snapshot.empty("vm1"), hello())
    events = (gone(2, "ens192", time=9.0), Line(outdated=Outdated(9.1, "device")))
    for line in (Line(inventory=read(5.0, "igb", NIC, OTHER)), *events, *lines):
        snapshot = advance(snapshot, line)
    return snapshot


def found(snapshot: Snapshot) -> Diagnosis:
    return diagnose([HostFacts(snapshot)])


def titles(snapshot: Snapshot) -> list[str]:
    return [one.title for one in found(snapshot).findings if one.subject == ADDRESS]


def test_a_nic_that_is_gone_is_told_at_once() -> None:
    """It stood "read again in 10 s" for 15 to 20 s, and nothing of what had gone."""
    told = "ens192 is gone since 01:46:44 UTC, its device is not read yet"
    assert reading_notice(unbound()) == f"to be read again: {told}"
    doubts = doubts_of(unbound())
    assert doubts is not None and doubts.concern_function(unbound().pci[0])


def test_its_driver_is_known_before_all_else_is_read() -> None:
    before, after = unbound(), unbound(part(9.5, None))
    assert titles(before) == [] or all(title.startswith("may") for title in titles(before))
    assert titles(after) == ["no driver: 8086:10c9"]
    doubts = doubts_of(after)
    assert doubts is not None and not doubts.concern_function(after.pci[0])
    assert doubts.concern(3, "ens256"), "its settings were read before the event"
    assert after.pci[0].created == 3.0
    assert after.inventory is not None and after.inventory.time == 5.0
    assert "is gone" not in reading_notice(after) and reading_notice(after)
    complete = unbound(part(9.5, None), Line(inventory=read(9.5, None, OTHER)))
    assert doubts_of(complete) is None and titles(complete) == ["no driver: 8086:10c9"]
    assert complete.functions_read_at is None


def test_an_event_after_it_makes_it_doubtful_again() -> None:
    after = unbound(part(9.5, None), Line(outdated=Outdated(9.8, "device")))
    assert titles(after) == ["may have changed: no driver: 8086:10c9"]


def test_functions_that_were_not_read_change_nothing() -> None:
    failed = part(9.5, None)
    assert failed.inventory is not None
    why = {**failed.inventory.unreadable, "pci": Unreadable("failed", "timeout")}
    snapshot = unbound(Line(inventory=replace(failed.inventory, unreadable=why)))
    assert snapshot.pci[0].driver == "igb" and snapshot.functions_read_at is None
