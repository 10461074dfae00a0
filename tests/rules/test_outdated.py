"""Findings that rest on what was read before an event say so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.model.doubts import Doubts
from nictop.model.snapshot import Snapshot, advance, outdated_text, with_silence
from nictop.probe.records import Line, Link, Outdated
from nictop.report.findings.check import check_json, check_text
from nictop.rules import Diagnosis, Finding, HostFacts, diagnose
from nictop.rules.outdated import marked, with_marks, without_mark
from nictop.rules.registry import RULES, basis_of
from nictop.rules.unchecked import with_unchecked
from tests.support.findings import finding, lines_of_case
from tests.support.lines import change, gone, hello, inventory, link
from tests.support.rule_cases import CASES_DIRECTORY, host_facts

NIC = link(2, "ens192", bus="pci", device="0000:03:00.0", pci_address="0000:03:00.0")
OTHER = link(3, "ens224", bus="pci", device="0000:0b:00.0", pci_address="0000:0b:00.0")
BOND = link(5, "bond0", kind="bond")
PORT = link(6, "ens256", bus="pci", master=5)
LOST = change(2, "ens192", carrier=False, time=9.0)
RULE = "vf_has_no_carrier"
OF_MANAGER = "profile_was_changed_and_not_applied"
MARK = "may have changed: "


def host(*events: Line) -> Snapshot:
    snapshot = advance(Snapshot.empty("vm1"), inventory(NIC, OTHER, BOND, PORT, time=5.0))
    for event in events:
        snapshot = advance(snapshot, event)
    return snapshot


def doubted(snapshot: Snapshot) -> list[str]:
    """Of one finding about each subject, those that are marked; of a rule that rests on links."""
    subjects = ("ens192", "0000:03:00.0", "ens224", "bond0", "CPU 1", "", "Wired connection 1")
    found = [finding(subject=subject, host="vm1", rule=RULE) for subject in subjects]
    marks = with_marks(found, [snapshot], basis_of)
    assert all(one.title.startswith(MARK) is one.outdated for one in marks)
    return [one.subject for one in marks if one.outdated]


def test_an_event_of_a_link_is_about_that_link_and_what_is_no_link() -> None:
    assert doubted(host()) == []
    assert doubted(host(LOST)) == ["ens192", "0000:03:00.0", "", "Wired connection 1"]
    of_port = change(6, "ens256", carrier=False, time=9.0)
    assert "bond0" in doubted(host(of_port)) and "ens192" not in doubted(host(of_port))


def test_a_driver_that_was_bound_again_makes_another_netdev_of_the_same_nic() -> None:
    events = (gone(2, "ens192", time=9.0), change(7, "ens192", time=9.5))
    assert {"ens192", "0000:03:00.0"} <= {*doubted(host(*events))}
    assert "ens224" not in doubted(host(*events))


def test_an_event_of_a_manager_is_about_what_rests_on_addresses() -> None:
    """Managers, addresses and routes change nothing of queues or interrupts."""
    address = Line(outdated=Outdated(9.2, "address"))
    manager = Line(outdated=Outdated(9.0, "NetworkManager"))
    for events in ((manager,), (address,), (manager, address), (address, manager)):
        after = host(*events)
        assert doubted(after) == []
        of_profile = finding(subject="ens192", host="vm1", rule=OF_MANAGER)
        assert with_marks([of_profile], [after], basis_of) == (marked(of_profile),)
    with_link = host(manager, LOST)
    assert doubted(with_link) == doubted(host(LOST))
    device = Line(outdated=Outdated(9.1, "device"))
    for others in ((device, address), (address, device), (manager, device, address)):
        assert len(doubted(host(*others))) == 7, "the event of the device is not read yet"
    between = inventory(NIC, OTHER, BOND, PORT, time=9.15)
    assert doubted(host(device, address, between)) == []


def test_an_event_of_another_namespace_is_about_what_leads_there() -> None:
    veth = link(8, "veth0", kind="veth", lower=2, lower_namespace=0)
    snapshot = advance(Snapshot.empty("vm1"), inventory(NIC, veth, time=5.0))
    after = advance(snapshot, Line(outdated=Outdated(9.0, "another namespace")))
    found = [finding(subject=subject, host="vm1") for subject in ("ens192", "veth0")]
    marks = with_marks(found, [after], basis_of)
    assert [one.outdated for one in marks] == [False, True]


def without_addresses(facts: HostFacts) -> HostFacts:
    """And without routes, managers and profiles."""

    def bare(one: Link) -> Link:
        return replace(one, addresses=(), default_routes=())

    inventory = replace(
        facts.inventory,
        links=tuple(map(bare, facts.inventory.links)),
        networkmanager=None,
        networkd={},
        configuration=(),
        stopped_managers=(),
        routing=None,
    )
    links = {ifindex: bare(one) for ifindex, one in facts.snapshot.links.items()}
    return HostFacts(replace(facts.snapshot, inventory=inventory, links=links), facts.window)


def found_by(rule: str, hosts: list[HostFacts]) -> set[tuple[object, ...]]:
    outcomes = [one for one in RULES[rule].evaluate(hosts) if isinstance(one, Finding)]
    return {(*one.identity, one.title) for one in outcomes}


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in sorted(CASES_DIRECTORY.glob("*/*.json"))
        if path.stem in RULES and basis_of(path.stem) != "addresses"
    ],
    ids=lambda path: path.stem,
)
def test_a_rule_that_does_not_rest_on_addresses_finds_the_same_without_them(path: Path) -> None:
    for case in json.loads(path.read_text())["fires"]:
        hosts = [host_facts(one) for one in case["hosts"]]
        found = found_by(path.stem, hosts)
        assert found_by(path.stem, list(map(without_addresses, hosts))) == found, case["case"]


def test_any_other_event_may_be_about_everything_until_the_next_inventory() -> None:
    event = Line(outdated=Outdated(9.0, "configuration file"))
    assert len(doubted(host(event))) == 7
    assert len(doubted(host(event, change(2, "ens192", carrier=False, time=9.5)))) == 7
    told_late = (change(2, "ens192", carrier=False, time=9.5), event)
    assert len(doubted(host(*told_late))) == 7, "the probe tells it some time later"
    assert outdated_text(host(*told_late)) == "read before an event (configuration file)"
    between = inventory(NIC, OTHER, BOND, PORT, time=9.2)
    assert outdated_text(host(*told_late, between)) == "read before an event (link)"
    assert doubted(host(*told_late, between)) == doubted(host(LOST))
    read = inventory(NIC, OTHER, time=10.0)
    assert doubted(host(event, read)) == []
    assert not Doubts(host(event, read)).exist


def test_the_speed_of_a_link_that_got_its_carrier_is_not_known_whatever_else_happened() -> None:
    event = Line(outdated=Outdated(9.2, "kernel message"))
    for events in ((LOST,), (LOST, event), (event, LOST)):
        doubts = Doubts(host(*events))
        assert doubts.concern_speed(host().links[2]) and not doubts.concern_speed(host().links[3])
    assert not Doubts(host(event)).concern_speed(host().links[2])


def test_without_events_the_state_of_links_is_in_doubt_too() -> None:
    silent = with_silence(host(LOST))
    assert {"ens192", "ens224", "bond0"} <= {*doubted(silent)}
    assert Doubts(silent).about_states and Doubts(silent).concern_speed(OTHER)
    assert not Doubts(host(LOST)).about_states
    read = advance(silent, LOST)
    assert read.silence is None and not Doubts(read).about_states
    first = hello()
    assert first.hello is not None
    again = Line(hello=replace(first.hello, monotonic=20.0))
    known = advance(advance(Snapshot.empty("vm1"), first), inventory(NIC, OTHER, time=6.0))
    reconnected = advance(known, again)
    assert Doubts(reconnected).about_states
    assert not Doubts(advance(reconnected, inventory(NIC, OTHER, time=21.0))).exist


def test_the_mark_is_there_once_and_goes_with_the_doubt() -> None:
    plain = finding()
    assert marked(marked(plain)) == marked(plain)
    assert without_mark(marked(plain)) == plain == without_mark(plain)
    assert marked(plain).identity == plain.identity


def test_a_finding_that_was_not_checked_again_has_one_remark() -> None:
    before = Diagnosis((marked(finding(host="vm1")),), (), ("vm1",))
    found = with_unchecked(Diagnosis((), (), ("vm2",)), before, ("vm1", "vm2"))
    assert found.unchecked == (finding(host="vm1"),)


def diagnosed(snapshot: Snapshot) -> Finding:
    (found,) = (one for one in diagnose([HostFacts(snapshot)]).findings if one.rule == RULE)
    return found


def test_what_is_found_because_of_the_event_is_known_now() -> None:
    """A carrier that was lost is known from the event; what was read before is in doubt."""
    snapshot = Snapshot.empty("vm1")
    for line in lines_of_case("vf", RULE):
        snapshot = advance(snapshot, line)
    found = diagnosed(snapshot)
    assert not found.outdated
    of_manager = Line(outdated=Outdated(1e7, "NetworkManager"))
    assert diagnosed(advance(snapshot, of_manager)) == found
    event = Line(outdated=Outdated(1e7, "device"))
    again = diagnosed(advance(snapshot, event))
    assert again.outdated and again.title == MARK + found.title

    nic = next(link for link in snapshot.links.values() if link.ifindex == found.ifindex)
    assert snapshot.inventory is not None and nic.carrier is False
    up = replace(nic, carrier=True, operstate="up")
    links = tuple(up if one is nic else one for one in snapshot.inventory.links)
    read = advance(snapshot, Line(inventory=replace(snapshot.inventory, links=links)))
    assert RULE not in [one.rule for one in diagnose([HostFacts(read)]).findings]
    lost = advance(read, change(nic.ifindex, nic.name, carrier=False, time=1e6))
    assert lost.unread_event is not None
    assert diagnosed(lost) == found
    assert diagnosed(with_silence(lost)) == marked(found), "it may have come back"


def read_without_carrier(snapshot: Snapshot, ifindex: int, time: float) -> Snapshot:
    """The carrier has come since the inventory was begun."""
    assert snapshot.inventory is not None
    links = tuple(
        replace(one, carrier=False, operstate="down") if one.ifindex == ifindex else one
        for one in snapshot.inventory.links
    )
    name = next(one.name for one in links if one.ifindex == ifindex)
    read = advance(snapshot, Line(inventory=replace(snapshot.inventory, links=links)))
    return advance(read, change(ifindex, name, carrier=True, time=time))


@pytest.mark.parametrize("events", [(), (Line(outdated=Outdated(1e6, "kernel message")),)])
def test_what_is_found_because_of_the_event_in_what_was_read_before_it_is_in_doubt(
    events: tuple[Line, ...],
) -> None:
    """The manager may have chosen a profile when the carrier came."""
    rule = "no_profile_matches"
    snapshot = Snapshot.empty("vm1")
    for line in lines_of_case("profiles", rule):
        snapshot = advance(snapshot, line)
    (found,) = (one for one in diagnose([HostFacts(snapshot)]).findings if one.rule == rule)
    assert not found.outdated and found.ifindex is not None
    snapshot = read_without_carrier(snapshot, found.ifindex, 1e6)
    for line in events:
        snapshot = advance(snapshot, line)
    (again,) = (one for one in diagnose([HostFacts(snapshot)]).findings if one.rule == rule)
    assert again == marked(found)


def test_addresses_that_were_read_before_the_carrier_came_are_not_missing() -> None:
    """The state of the manager, read some seconds after them, is that of after it."""
    rule = "address_of_the_profile_is_missing"
    snapshot = Snapshot.empty("vm1")
    for line in lines_of_case("routes", rule):
        snapshot = advance(snapshot, line)
    found = [one for one in diagnose([HostFacts(snapshot)]).findings if one.rule == rule]
    assert found and found[0].ifindex is not None
    came = read_without_carrier(snapshot, found[0].ifindex, 1e6)
    assert rule not in [one.rule for one in diagnose([HostFacts(came)]).findings]
    assert snapshot.inventory is not None
    again = advance(came, Line(inventory=replace(snapshot.inventory, time=2e6)))
    assert found == [one for one in diagnose([HostFacts(again)]).findings if one.rule == rule]


def test_what_is_found_at_one_host_because_of_another_is_in_doubt_with_that_one() -> None:
    rule = "mtu_differs_in_one_subnet"
    case = json.loads((CASES_DIRECTORY / "link" / f"{rule}.json").read_text())["fires"][0]
    own, other = (host_facts(host) for host in case["hosts"])
    time = max(one.inventory.time for one in (own, other)) + 1.0

    def found_after(event: Line, *, at: HostFacts) -> Finding:
        after = HostFacts(advance(at.snapshot, event), at.window)
        hosts = [after if one is at else one for one in (own, other)]
        (found,) = (one for one in diagnose(hosts).findings if one.rule == rule)
        return found

    (plain,) = (one for one in diagnose([own, other]).findings if one.rule == rule)
    assert plain.host == own.name and not plain.outdated
    event = Line(outdated=Outdated(time, "NetworkManager"))
    assert found_after(event, at=own) == marked(plain)
    assert found_after(event, at=other) == marked(plain)
    assert found_after(Line(outdated=Outdated(0.0, "NetworkManager")), at=other) == plain


def test_a_printed_check_says_it_of_what_rests_on_the_manager() -> None:
    """The carrier is lost at once; that NetworkManager has followed is told some time later."""
    snapshot = Snapshot.empty("vm1")
    for line in lines_of_case("profiles", OF_MANAGER):
        snapshot = advance(snapshot, line)
    assert snapshot.inventory is not None
    found = diagnose([HostFacts(snapshot)]).findings
    about = next(one for one in found if one.rule == OF_MANAGER)
    others = [link for link in snapshot.links.values() if link.ifindex != about.ifindex]
    for line in (
        change(others[0].ifindex, others[0].name, carrier=False, time=1e6),
        Line(outdated=Outdated(1e6 - 1.0, "NetworkManager")),
    ):
        snapshot = advance(snapshot, line)
    hosts = [HostFacts(snapshot)]
    result = diagnose(hosts)
    again = next(one for one in result.findings if one.rule == OF_MANAGER)
    assert again.outdated and again.title.startswith(MARK)
    words = "read before an event (NetworkManager)"
    assert words in check_text(hosts, result, 100)
    document = json.loads(check_json(hosts, result))
    assert document["hosts"][0]["outdated"] == words
    assert document["hosts"][0]["before_change"] is True
