"""The summary: five short lines, present losses before past ones."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from nictop.model.chain import nic_steps
from nictop.model.devices.tree import device_tree
from nictop.model.facts.facts import link_facts
from nictop.model.facts.sections import SUMMARY, Fact
from nictop.model.facts.summary import errors_fact, summary_line, summary_section
from nictop.model.snapshot import BEFORE_CHANGE, Snapshot, advance
from nictop.model.text.words import LINK_UP, state_mark
from nictop.probe.records import (
    Address,
    Channels,
    DefaultRoute,
    DriverInfo,
    Ethtool,
    EventSource,
    Inventory,
    Line,
    Link,
    LinkChange,
    Outdated,
    Rings,
    Unreadable,
)
from tests.model.hosts import counters, inventory, link_counters, live_host, make_link, snapshot_of
from tests.support.stages import links_only, recorded_hosts


def facts(link: Link, snapshot: Snapshot) -> dict[str, Fact]:
    return {
        fact.label: fact for part in summary_section(link, None, snapshot) for fact in part.facts
    }


def test_five_labels_in_order_of_importance() -> None:
    host = live_host()
    (part,) = summary_section(host.links[4], None, host)
    assert part.title == SUMMARY
    assert [fact.label for fact in part.facts] == [
        "State",
        "Errors",
        "Addresses",
        "Driver",
        "Queues",
    ]


def lossy(seconds: float, **events: int) -> Snapshot:
    """A host whose link 4 counted `events` in its last sample, one second after the previous
    one."""
    return snapshot_of(
        inventory(),
        counters(seconds - 1, {4: link_counters()}),
        counters(seconds, {4: link_counters(**events)}),
    )


@pytest.mark.parametrize(
    ("counter", "text"),
    [
        ("rx_missed_errors", "rx_missed_errors 12.0/s"),
        ("rx_dropped", "rx_dropped 12.0/s"),
        ("tx_dropped", "tx_dropped 12.0/s"),
        ("rx_errors", "rx_errors 12.0/s"),
        ("tx_errors", "tx_errors 12.0/s"),
    ],
)
def test_present_losses_have_a_rate(counter: str, text: str) -> None:
    host = lossy(101.0, **{counter: 12})
    assert errors_fact(host.links[4], host) == Fact("Errors", text, "warn")


def test_past_losses_are_not_a_warning() -> None:
    host = lossy(101.0, rx_dropped=12)
    host = advance(host, Line(counters=counters(102.0, {4: link_counters(rx_dropped=12)})))
    assert errors_fact(host.links[4], host) == Fact("Errors", "0/s · total rx_dropped 12")


def test_a_link_without_losses_and_one_without_counters() -> None:
    host = lossy(101.0)
    assert errors_fact(host.links[4], host).tone == "good"
    unread = snapshot_of(inventory(links=(make_link(4, "x"),)))
    assert errors_fact(unread.links[4], unread) == Fact("Errors", "counters not read", "dim")


def test_addresses_global_first_with_the_default_routes() -> None:
    addresses = (
        Address("ipv6", "fe80::1", 64, "link", ()),
        Address("ipv6", "2001:db8::1", 64, "global", ()),
        Address("ipv4", "192.0.2.7", 24, "global", ()),
    )
    routes = (
        DefaultRoute("ipv4", "192.0.2.1", 100, 254),
        DefaultRoute("ipv4", "192.0.2.2", 200, 254),
    )
    link = make_link(4, "ens1", addresses=addresses, default_routes=routes)
    fact = facts(link, snapshot_of(inventory(links=(link,))))["Addresses"]
    assert fact.text == "192.0.2.7/24 · 2001:db8::1/64 · fe80::1/64 · default route IPv4"


def test_a_duplicate_address_is_shown() -> None:
    link = make_link(
        4, "ens1", addresses=(Address("ipv4", "192.0.2.7", 24, "global", ("dadfailed",)),)
    )
    fact = facts(link, snapshot_of(inventory(links=(link,))))["Addresses"]
    assert fact.tone == "bad"
    assert "duplicate" in fact.text


def test_addresses_that_could_not_be_read_are_not_none() -> None:
    link = make_link(4, "ens1")
    assert facts(link, snapshot_of(inventory(links=(link,))))["Addresses"].text == "none"
    failed = replace(
        inventory(links=(link,)), unreadable={"addresses": Unreadable("needs_root", "EPERM")}
    )
    assert isinstance(failed, Inventory)
    assert facts(link, snapshot_of(failed))["Addresses"].text == "needs root"


def test_present_and_maximum_queues_and_rings() -> None:
    ethtool = Ethtool(
        driver=DriverInfo("vmxnet3", "1.9", "N/A", ""),
        channels=Channels(2, 1, 1, None, 4, 4, 1, None),
        rings=Rings(512, None, 0, 256, 4096, None, 2048, 4096),
    )
    shown_facts = facts(make_link(4, "ens1", bus="pci", ethtool=ethtool), live_host())
    assert shown_facts["Queues"].text == "rx 2/4 · tx 1/4 · rx ring 512/4096 · tx ring 256/4096"
    assert shown_facts["Driver"].text == "vmxnet3 1.9"


def test_a_driver_without_channels_is_named() -> None:
    ethtool = Ethtool(
        driver=DriverInfo("e1000", "7", "", ""),
        unreadable={"channels": Unreadable("not_offered", "EOPNOTSUPP")},
    )
    assert (
        facts(make_link(4, "ens1", bus="pci", ethtool=ethtool), live_host())["Queues"].text
        == "not supported by e1000"
    )


def test_a_link_without_an_inventory_has_no_summary() -> None:
    host = advance(
        live_host(), Line(link_change=LinkChange(102.0, 77, False, "new0", "up", True, 1, 1500))
    )
    assert summary_section(host.links[77], None, host) == ()


def brief(link: Link, snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(fact.text, fact.tone) for fact in summary_line(link, None, snapshot)]


def test_one_line_has_state_address_driver_queues_and_errors() -> None:
    host = lossy(101.0)
    assert brief(host.links[4], host) == [
        ("up, 1G full", "good"),
        ("MTU 1500", "normal"),
        ("192.0.2.7/24", "normal"),
        ("igb", "normal"),
        ("2 queues", "normal"),
        ("no errors or drops", "good"),
    ]


def test_present_losses_follow_the_state() -> None:
    host = lossy(101.0, rx_missed_errors=12)
    assert brief(host.links[4], host)[1] == ("rx_missed_errors 12.0/s", "warn")
    later = advance(host, Line(counters=counters(102.0, {4: link_counters(rx_missed_errors=12)})))
    assert brief(later.links[4], later)[-1] == ("total rx_missed_errors 12", "normal")


def test_a_speed_that_the_driver_does_not_report_is_said_in_words() -> None:
    ethtool = Ethtool(
        driver=DriverInfo("xen", "", "", ""), unreadable={"settings": Unreadable("not_offered")}
    )
    link = make_link(4, "ens1", bus="xen", ethtool=ethtool)
    assert facts(link, live_host())["State"].text == "up, speed not supported by xen · MTU 1500"


def test_unreadable_addresses_are_not_no_address() -> None:
    link = make_link(4, "ens3")
    without = snapshot_of(inventory(links=(link,)))
    unread = snapshot_of(
        replace(inventory(links=(link,)), unreadable={"addresses": Unreadable("failed")})
    )
    texts = [
        [fact.text for fact in summary_line(link, None, one) if fact.label == "Addresses"]
        for one in (without, unread)
    ]
    assert texts == [["no address"], ["address unknown"]]


@pytest.mark.parametrize("name", sorted(recorded_hosts()))
def test_settings_that_are_not_read_yet_are_not_unknown(name: str) -> None:
    """Before the second part of the inventory: neither a summary nor a section says "unknown"."""
    said, whole, _ = recorded_hosts()[name]
    host = advance(
        advance(Snapshot(name, "live", ""), Line(hello=said)), Line(inventory=links_only(whole))
    )
    texts = []
    for row in device_tree(host):
        parts = link_facts(row, host)
        found = [fact for part in parts for fact in part.facts]
        if row.link is not None:
            found += summary_line(row.link, None, host)
        texts += [f"{row.key}: {fact.label} {fact.text}" for fact in found]
    assert [text for text in texts if "unknown" in text.lower()] == []
    assert any("speed not read yet" in text for text in texts)
    for link in host.links.values():
        function = next((one for one in host.pci if one.address == link.pci_address), None)
        chain = [text for _, text in nic_steps(link, function, host).values()]
        assert "driver unknown" not in chain and "virtio-pci" not in chain
        if link.bus is not None and state_mark(link) == LINK_UP:
            assert "up, speed not read yet" in chain, "beside a cell that has no speed"
    assert any("Queues not read yet" in text for text in texts)


def test_values_of_every_kind_of_row_are_told_to_be_older_than_a_change() -> None:
    """A PCI function whose driver was bound again keeps its finding until it is read again."""
    name, (said, whole, _) = next(iter(recorded_hosts().items()))
    host = advance(Snapshot(name, "live", ""), Line(hello=said))
    host = replace(advance(host, Line(inventory=whole)), event=Outdated(math.inf, "nictop"))
    kinds = set()
    for row in device_tree(host):
        kinds.add(row.kind)
        facts = [fact for part in link_facts(row, host) for fact in part.facts]
        assert facts.count(Fact("Values", BEFORE_CHANGE, "warn")) == 1, row.key
        assert "Values" in [fact.label for fact in link_facts(row, host)[0].facts]
    assert {"host", "pci", "link"} <= kinds, kinds


def test_an_event_of_another_nic_makes_no_value_of_this_one_older() -> None:
    """That of a NIC that has come, for example."""
    before = live_host()
    known, *_ = before.links.values()
    change = LinkChange(1e6, 99, False, "new0", "up", True, 0x1043, 1500)
    after = advance(before, Line(link_change=change))
    assert after.unread_event is not None
    rows = {row.key: row for row in device_tree(after)}
    for row in rows.values():
        facts = [fact.label for part in link_facts(row, after) for fact in part.facts]
        may_be_its_device = row.kind == "pci" and row.pci is not None and row.pci.driver is None
        is_about = row.kind in ("host", "group") or row.key == "link:99" or may_be_its_device
        assert ("Values" in facts) is is_about, row.key
    assert "Values" not in [fact.label for fact in summary_line(known, None, after)]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("link", "read before an event (link), but for name, state and MTU"),
        ("address", "read before an event (address)"),
    ],
)
def test_what_an_event_brought_itself_is_not_called_older(source: EventSource, text: str) -> None:
    snapshot = live_host()
    after = advance(snapshot, Line(outdated=Outdated(1e6, source)))
    link = next(iter(after.links.values()))
    assert summary_line(link, None, after)[0] == Fact("Values", text, "warn")
