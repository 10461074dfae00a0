"""Kernel messages among the facts of a NIC and of its host."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.facts.kernel_log import kernel_log_section, other_messages_section
from nictop.model.facts.sections import Fact
from nictop.model.snapshot import Snapshot
from nictop.probe.records import KernelMessage
from tests.model.hosts import LINKS, inventory, make_pci, snapshot_of

NIC = next(link for link in LINKS if link.pci_address == "0000:02:00.0")
DOWN = f"igb 0000:02:00.0 {NIC.name}: igb: {NIC.name} NIC Link is Down"
RENAMED = f"igb 0000:02:00.0 {NIC.name}: renamed from eth0"


def host(*messages: KernelMessage, time: float = 90_000.0) -> Snapshot:
    return snapshot_of(replace(inventory(time=time), messages=messages))


def facts(snapshot: Snapshot) -> list[Fact]:
    return [fact for part in kernel_log_section(NIC, None, snapshot) for fact in part.facts]


def test_the_newest_of_each_text_with_its_time_and_their_number() -> None:
    snapshot = host(
        KernelMessage(time=100.0, level=6, text=RENAMED),
        KernelMessage(time=500.0, level=6, text=DOWN, omitted=7, omitted_since=200.0),
        KernelMessage(time=89_709.0, level=6, text=DOWN),
    )
    assert facts(snapshot) == [
        Fact("14:08:30", f"{DOWN} (newest of 9 of this kind)"),
        Fact("09-20 13:15", RENAMED, "dim"),
    ]


def test_a_later_inventory_has_the_same_times() -> None:
    """An age would be that of the inventory, minutes old when it is looked at."""
    message = KernelMessage(time=89_709.0, level=6, text=DOWN)
    earlier = replace(inventory(time=90_000.0), messages=(message,))
    later = replace(earlier, time=90_120.0, wall=earlier.wall + 120.0)
    assert facts(snapshot_of(earlier)) == facts(snapshot_of(later))


def test_messages_about_an_earlier_netdev_of_the_device_are_counted_apart() -> None:
    """Its driver was bound again: rules count those since then."""
    times = (88_000.0, 89_300.0, 89_500.0, 89_709.0)
    messages = [KernelMessage(time=time, level=6, text=DOWN) for time in times]
    again = replace(NIC, created=89_000.0)
    snapshot = snapshot_of(
        replace(inventory(time=90_000.0, links=(again,)), messages=tuple(messages))
    )
    (section,) = kernel_log_section(again, None, snapshot)
    assert section.facts[0].text == f"{DOWN} (4 times, 3 since this interface was created)"


def test_messages_of_other_devices_are_not_those_of_the_nic() -> None:
    other = "igb 0000:09:00.0 eth7: igb: eth7 NIC Link is Down"
    snapshot = host(KernelMessage(time=89_999.0, level=6, text=other))
    assert facts(snapshot) == []
    assert kernel_log_section(None, make_pci("0000:05:00.0"), snapshot) == ()
    (section,) = other_messages_section(snapshot)
    assert section.facts == (Fact("14:13:20", other),)


VF_RENAMED = "igbvf 0000:09:10.{0} ens224v{0}: renamed from eth{0}"


def test_messages_of_two_devices_are_two_lines() -> None:
    """Each of them was logged once."""
    snapshot = host(
        KernelMessage(time=100.0, level=6, text=VF_RENAMED.format(0)),
        KernelMessage(time=101.0, level=6, text=VF_RENAMED.format(2)),
    )
    (section,) = other_messages_section(snapshot)
    assert [fact.text for fact in section.facts] == [VF_RENAMED.format(2), VF_RENAMED.format(0)]


def test_messages_that_differ_are_not_counted_as_the_newest_one() -> None:
    """It was renamed twice, but once only from eth1."""
    texts = (RENAMED, RENAMED.replace("eth0", "eth1"))
    snapshot = host(*(KernelMessage(time=100.0, level=6, text=text) for text in texts))
    assert [fact.text for fact in facts(snapshot)] == [f"{texts[1]} (newest of 2 of this kind)"]
    snapshot = host(*(KernelMessage(time=100.0, level=6, text=RENAMED) for _ in range(2)))
    assert [fact.text for fact in facts(snapshot)] == [f"{RENAMED} (2 times)"]


def test_no_messages_no_section() -> None:
    assert kernel_log_section(NIC, None, host()) == ()
    assert other_messages_section(host()) == ()
    assert kernel_log_section(NIC, None, snapshot_of(replace(inventory(), messages=None))) == ()


def test_a_message_that_may_be_about_another_netdev_says_so() -> None:
    """It names lab0, and this lab0 is known to be there only since later."""
    text = "IPv6: lab0: IPv6 duplicate address fd6e::1 used by 02:00:00:00:00:02 detected!"
    lab = replace(NIC, name="lab0", device=None, bus=None, pci_address=None, present_since=600.0)
    earlier, own = (KernelMessage(time=time, level=6, text=text) for time in (500.0, 700.0))
    snapshot = snapshot_of(replace(inventory(links=(lab,)), messages=(earlier, own)))
    (section,) = kernel_log_section(lab, None, snapshot)
    assert [(fact.text, fact.tone) for fact in section.facts] == [
        (text, "normal"),
        (f"may be about an earlier lab0: {text}", "dim"),
    ]


def test_one_message_about_an_earlier_netdev_of_the_device_says_so() -> None:
    again = replace(NIC, created=89_000.0)
    message = KernelMessage(time=88_000.0, level=6, text=DOWN)
    snapshot = snapshot_of(replace(inventory(time=90_000.0, links=(again,)), messages=(message,)))
    (section,) = kernel_log_section(again, None, snapshot)
    assert section.facts[0].text == f"{DOWN} (before this interface was created)"
