"""What differs between two hosts: each thing once, what is expected apart, and NICs by their
role."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.facts import width
from nictop.model.facts.lldp import TITLE as LLDP_TITLE
from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.probe.records import (
    Address,
    Bond,
    Channels,
    DriverInfo,
    Line,
    Link,
    LldpNeighbour,
    ManagedDevice,
    NetworkManager,
    Outdated,
    PolicyRule,
    Routing,
    TableRoute,
    Unreadable,
    VirtualFunction,
)
from nictop.report.diff.compare import (
    REBOOTED,
    HostDifferences,
    _sections_of,
    _without_common_items,
    compare_sides,
)
from nictop.report.diff.document import (
    AS_READ,
    MISSING_NOTE,
    NO_CHANGE,
    NO_DIFFERENCE,
    NOT_BETWEEN,
    diff_html,
    diff_json,
    diff_markdown,
    diff_text,
)
from nictop.report.diff.findings import Side
from nictop.report.diff.matching import match_nics
from nictop.report.diff.on_demand import NOT_READ_THEN
from nictop.rules import RULES, Diagnosis, Finding, HostFacts, diagnose
from nictop.wire.codec import decode
from tests.support.findings import finding
from tests.support.hostile import NAME
from tests.support.lines import change, counters, hello, inventory, link
from tests.support.rule_cases import CASES_DIRECTORY, host_facts
from tests.support.stages import recorded_hosts


def recorded_side(name: str, nic: str = "") -> Side:
    said, whole, readings = recorded_hosts()[name]
    snapshot = with_state(Snapshot.empty(name), "live", "")
    for line in (
        Line(hello=said),
        Line(inventory=whole),
        *(Line(counters=one) for one in readings),
    ):
        snapshot = advance(snapshot, line)
    return Side(name, snapshot, diagnose([HostFacts(snapshot)]), nic)


def side(*links: Link, name: str = "a", nic: str = "") -> Side:
    snapshot = with_state(Snapshot.empty(name), "live", "")
    for line in (hello(), inventory(*links, time=1.0)):
        snapshot = advance(snapshot, line)
    return Side(name, snapshot, diagnose([HostFacts(snapshot)]), nic)


def differing(diff: HostDifferences) -> set[tuple[str, str]]:
    """(NIC, label) beyond what is expected."""
    return {
        (nic.left, fact.label)
        for nic in diff.nics
        for fact in nic.differences
        if fact.kind == "differs"
    }


def nic(ifindex: int, name: str, *, address: str = "", queues: int = 0, **fields: object) -> Link:
    made = link(ifindex, name, bus="pci", device=f"0000:0{ifindex}:00.0", **fields)
    if address:
        made = replace(made, addresses=(Address("ipv4", address, 24, "global", ()),))
    if queues:
        ethtool = replace(
            made.ethtool,
            channels=Channels(
                rx=0,
                tx=0,
                other=0,
                combined=queues,
                max_rx=0,
                max_tx=0,
                max_other=0,
                max_combined=8,
            ),
        )
        made = replace(made, ethtool=ethtool)
    return made


def sides_of_case(path: str, others: int = 0) -> tuple[Side, Side]:
    """Two hosts of the first case of a rule that compares hosts, after one diagnosis; `others`:
    hosts that are watched, too."""
    case = json.loads((CASES_DIRECTORY / path).read_text())["fires"][0]
    hosts = [host_facts(host) for host in case["hosts"]]
    watched = [HostFacts(side(name=f"other{number}").snapshot) for number in range(others)]
    diagnosis = diagnose([*hosts, *watched])
    left, right = (Side(host.name, host.snapshot, diagnosis) for host in hosts)
    return left, right


HARDWARE = {
    r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b": lambda found: found.group()[:-2] + "99",
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b": lambda found: "0" * 8 + found.group()[8:],
    r"\b10\.78\.0\.[12]\b": lambda _: "10.78.0.77",
    r"\b(fe80::[0-9a-f:]+)\b": lambda found: found.group()[:-1] + "8",
    r"\benx([0-9a-f]{10})[0-9a-f]{2}\b": lambda found: f"enx{found.group(1)}99",
}
"""What no two hosts have in common → the value of another host."""


def twin_of(side: Side) -> Side:
    """The same host with other hardware."""
    inventory = side.snapshot.inventory
    assert inventory is not None
    text = msgspec.json.encode(Line(inventory=inventory)).decode()
    for pattern, value in HARDWARE.items():
        text = re.sub(pattern, value, text, flags=re.IGNORECASE)
    snapshot = with_state(Snapshot.empty("twin"), "live", "")
    for line in (hello(), decode(text.encode())):
        snapshot = advance(snapshot, line)
    return Side("twin", snapshot, diagnose([HostFacts(snapshot)]))


def bound_to(address: str, side: Side) -> Side:
    """With the profile of its last NIC bound to this MAC address."""
    inventory = side.snapshot.inventory
    assert inventory is not None and inventory.networkmanager is not None
    (profile,) = (one for one in inventory.networkmanager.profiles if one.id == "ens256")
    bound = replace(profile, mac_address=address, interface_name="")
    others = [one for one in inventory.networkmanager.profiles if one is not profile]
    manager = replace(inventory.networkmanager, profiles=(*others, bound))
    read = replace(inventory, networkmanager=manager)
    return replace(side, snapshot=advance(side.snapshot, Line(inventory=read)))


def mac_of(name: str, side: Side) -> str:
    (found,) = (link for link in side.snapshot.links.values() if link.name == name)
    assert found.address is not None
    return found.address


def test_what_differs_on_any_two_hosts_is_no_difference() -> None:
    """Hardware and what is bound to it: MAC and IP addresses, UUIDs, alternative names."""
    name, _ = recorded_hosts()
    left = recorded_side(name)
    left = bound_to(mac_of("ens256", left).upper(), left)
    right = twin_of(left)
    diff = compare_sides(left, right)
    assert [
        fact for fact in diff.facts() if fact.kind == "differs" and fact.section != "Host"
    ] == []
    bindings = [fact for fact in diff.facts() if fact.label == "Bound to"]
    assert [fact.kind for fact in bindings] == ["expected"], "--all lists it"


def test_a_binding_to_another_nic_is_a_difference() -> None:
    name, _ = recorded_hosts()
    left = recorded_side(name)
    for other in (mac_of("ens224", left), "52:54:00:12:34:56"):
        diff = compare_sides(bound_to(mac_of("ens256", left), left), bound_to(other, twin_of(left)))
        assert ("ens256", "Bound to") in differing(diff)


@pytest.mark.parametrize("name", recorded_hosts())
def test_a_host_does_not_differ_from_itself(name: str) -> None:
    diff = compare_sides(recorded_side(name), recorded_side(name))
    assert diff.number == 0
    assert not [fact for one in diff.nics for fact in one.differences]
    assert NO_CHANGE in diff_text(diff, 80)


def test_what_differs_is_named_with_both_values_and_the_finding_that_is_about_it() -> None:
    left, right = (recorded_side(name) for name in recorded_hosts())
    diff = compare_sides(left, right)
    assert [one.rule for one in diff.findings] == ["offloads_are_off"]
    assert differing(diff) == {
        ("ens256", "tcp-segmentation-offload"),
        ("ens256", "generic-segmentation-offload"),
        ("ens256", "XPS"),
    }, "each offload once, although it leaves one list of its panel for another"
    text = diff_text(diff, 80)
    assert max(map(width, text.splitlines())) <= 80
    assert "ens256 (same name, subnet, slot, driver)" in text
    assert "Offloads: tcp-segmentation-offload" in text and "none" not in text
    assert "expected differences" in text and "Permanent MAC" not in text
    assert "MAC" in diff_text(diff, 80, everything=True)


def test_findings_are_always_in_the_same_order() -> None:
    """Those of one rule by their subject: not by the order of a set, which differs with each start
    of Python."""
    names = [f"ens{number}" for number in range(20)]
    found = tuple(finding(subject=name, host="a") for name in names)
    ours = replace(side(), diagnosis=Diagnosis(found, ()))
    diff = compare_sides(ours, side(name="b"))
    assert [one.subject for one in diff.findings] == sorted(names)


def test_the_reverse_has_the_same_differences() -> None:
    left, right = (recorded_side(name) for name in recorded_hosts())
    one, other = compare_sides(left, right), compare_sides(right, left)
    assert one.number == other.number and differing(one) == differing(other)
    assert {fact.side for fact in one.findings} == {"left"}
    assert {fact.side for fact in other.findings} == {"right"}


def test_nics_are_matched_by_their_role_and_not_by_their_place() -> None:
    ours = [nic(2, "ens1", address="192.0.2.1"), nic(3, "ens2", address="198.51.100.1")]
    theirs = [nic(2, "eth0", address="198.51.100.2"), nic(3, "eth1", address="192.0.2.2")]
    pairs = match_nics(ours, theirs)
    names = [(pair.left and pair.left.name, pair.right and pair.right.name) for pair in pairs]
    assert names == [("ens1", "eth1"), ("ens2", "eth0")]
    assert pairs[0].same == ("subnet",)


def test_a_nic_without_partner_is_a_difference() -> None:
    diff = compare_sides(side(nic(2, "ens1"), nic(3, "ens2")), side(nic(2, "ens1"), name="b"))
    assert diff.number == 1
    assert "only on a" in diff_text(diff, 80)


def test_two_nics_are_compared_whatever_their_role() -> None:
    one, other = nic(2, "ens1", queues=4), nic(3, "ens2", queues=8)
    diff = compare_sides(side(one, other, nic="ens1"), side(one, other, nic="ens2"))
    assert ("ens1", "Channels") in differing(diff)
    assert not diff.host, "the host is the same"


@given(st.permutations(range(4)), st.permutations(range(4)))
def test_every_nic_is_in_one_pair(ours: list[int], theirs: list[int]) -> None:
    left = [nic(index + 2, f"ens{index}") for index in ours]
    right = [nic(index + 2, f"ens{index}", address=f"192.0.2.{index}") for index in theirs[:3]]
    pairs = match_nics(left, right)
    assert sorted(pair.left.name for pair in pairs if pair.left) == sorted(one.name for one in left)
    found = [pair.right.name for pair in pairs if pair.right]
    assert sorted(found) == sorted(one.name for one in right)


def test_a_driver_in_common_pairs_what_nothing_else_does() -> None:
    """In the order of both sides; a NIC with the same name or slot has it before."""
    ours = [virtual_function(number, f"old{number}") for number in (1, 2, 3)]
    theirs = [virtual_function(number, f"new{number}") for number in (7, 8)]
    theirs.append(virtual_function(9, "old2"))
    pairs = match_nics(ours, theirs)
    names = {pair.left.name: pair.right.name for pair in pairs if pair.left and pair.right}
    assert names == {"old1": "new7", "old2": "old2", "old3": "new8"}
    assert {pair.same for pair in pairs} == {("driver",), ("name", "driver")}


def virtual_function(number: int, name: str) -> Link:
    made = link(number, name, bus="pci", pci_address=f"0000:0{number}:00.0")
    return replace(made, ethtool=replace(made.ethtool, driver=DriverInfo("iavf", "1", "", "")))


def test_no_name_is_obeyed() -> None:
    left, right = side(nic(2, NAME, mtu=1500)), side(nic(2, NAME, mtu=9000), name="b")
    diff = compare_sides(left, right)
    assert diff.number
    for text in (diff_text(diff, 80), diff_markdown(diff), diff_json(diff)):
        assert "\x1b" not in text and "\u202e" not in text


def test_affinities_are_expected_to_differ_where_irqbalance_runs() -> None:
    left, right = (recorded_side(name) for name in recorded_hosts())
    inventory_of = right.snapshot.inventory
    assert inventory_of is not None
    services = replace(inventory_of.services, irqbalance=1234)
    balanced = replace(inventory_of, services=services)
    right = replace(right, snapshot=replace(right.snapshot, inventory=balanced))
    diff = compare_sides(left, right)
    assert not {name for name, label in differing(diff) if label == "IRQ affinity"}


def test_vfs_are_compared_without_their_addresses() -> None:
    functions = [
        (VirtualFunction(0, f"52:54:00:00:00:0{number}", vlan=0, spoof_check=number == 1),)
        for number in (1, 2)
    ]
    left, right = (side(nic(2, "eth0", virtual_functions=one)) for one in functions)
    (found,) = compare_sides(left, right).nics
    texts = {fact.label: (fact.left, fact.right) for fact in found.differences}
    assert "spoof check on" in texts["VF 0"][0] and "52:54" not in "".join(texts["VF 0"])


def addressed(made: Link, address: str) -> Link:
    return replace(made, addresses=(Address("ipv4", address, 24, "global", ()),))


def test_no_address_where_the_other_side_has_one_is_a_difference() -> None:
    """Addresses themselves are expected to differ."""
    one, other = (nic(2, "ens1", address=f"192.0.2.{number}") for number in (1, 2))
    assert not differing(compare_sides(side(one), side(other, name="b")))
    diff = compare_sides(side(one), side(nic(2, "ens1"), name="b"))
    assert differing(diff) == {("ens1", "Global addresses")}


def one_fact(diff: HostDifferences, label: str) -> tuple[str, str, str]:
    """(left, right, kind)"""
    (found,) = (fact for fact in diff.facts() if fact.label == label)
    return found.left, found.right, found.kind


@pytest.mark.parametrize("is_left", [True, False])
def test_a_fact_that_says_none_is_no_difference_to_a_missing_one(is_left: bool) -> None:
    """A link without addresses has "Address none", one with some has "IPv4 …" instead."""
    known, empty = side(nic(2, "ens1", address="192.0.2.1")), side(nic(2, "ens1"))
    diff = compare_sides(*((known, empty) if is_left else (empty, known)))
    assert "Address" not in {fact.label for fact in diff.facts()}
    assert differing(diff) == {("ens1", "Global addresses"), ("ens1", "IPv4")}
    assert "none" not in one_fact(diff, "IPv4")


def test_what_is_not_known_of_either_side_is_no_difference() -> None:
    """ "not known: no link" against "not known: virtual switches do not forward LLDP …" """
    up, down = (replace(nic(2, "ens1"), carrier=carrier) for carrier in (True, False))
    facts = []
    for known in (up, down):
        for part in _sections_of(known, side(known).snapshot):
            facts += [fact.text for fact in part.facts if fact.label == "Switch port"]
    assert facts[0] != facts[1] and all(text.startswith("not known: ") for text in facts)
    diff = compare_sides(side(up), side(down))
    assert "Switch port" not in {fact.label for fact in diff.facts()}


def routed(known: Side, *routes: TableRoute, **unreadable: Unreadable) -> Side:
    inventory = known.snapshot.inventory
    assert inventory is not None
    read = replace(inventory, routing=Routing(routes=routes, unreadable=unreadable))
    return replace(known, snapshot=advance(known.snapshot, Line(inventory=read)))


def table_route(destination: str, **fields: object) -> TableRoute:
    known: dict[str, object] = {"type": "unicast", "table": 254, "protocol": 4, "ifindex": 2}
    return msgspec.convert(
        {"family": "ipv4", "destination": destination, **known, **fields}, TableRoute
    )


@pytest.mark.parametrize("other", ["a", "b"])
def test_routes_are_compared(other: str) -> None:
    """Those over a NIC with it, the others with the host; not what the kernel adds with an
    address."""
    link = nic(2, "ens1", address="192.0.2.2")
    added = table_route("10.0.0.0/8", gateway="192.0.2.1", protocol=3)
    tunnelled = table_route("172.16.0.0/12", ifindex=9, metric=50)
    of_kernel = table_route("192.0.2.0/24", protocol=2)
    known = routed(side(link), of_kernel)
    diff = compare_sides(known, routed(side(link, name=other), of_kernel, added, tunnelled))
    assert diff.number == 2
    assert [(fact.label, fact.left, fact.right) for fact in diff.facts()] == [
        ("Route", "", "172.16.0.0/12 metric 50"),
        ("Route", "", "10.0.0.0/8 via 192.0.2.1"),
    ]


def test_rules_that_a_panel_only_counts_are_compared() -> None:
    rules = [
        PolicyRule("ipv4", priority, "table", table=100, source=f"192.0.2.{priority}/32")
        for priority in range(1, 8)
    ]
    changed = [*rules[:-1], replace(rules[-1], table=200)]
    sides = []
    for known in (rules, changed):
        read = routed(side(nic(2, "ens1")))
        inventory = read.snapshot.inventory
        assert inventory is not None
        read_rules = replace(inventory, routing=Routing(rules=tuple(known)))
        snapshot = advance(read.snapshot, Line(inventory=read_rules))
        sides.append(replace(read, snapshot=snapshot))
    diff = compare_sides(*sides)
    left, right, kind = one_fact(diff, "Policy rule")
    assert ("lookup 100" in left, "lookup 200" in right, kind) == (True, True, "differs")


@pytest.mark.parametrize("is_left", [True, False])
def test_routes_that_were_not_all_read_are_no_difference_but_named(is_left: bool) -> None:
    too_many = Unreadable("failed", "more than 1024 next hops of IPv4")
    known = routed(side(nic(2, "ens1")), table_route("10.0.0.0/8", gateway="192.0.2.1"))
    cut = routed(side(nic(2, "ens1")), table_route("10.0.0.0/8"), routes=too_many)
    diff = compare_sides(*((known, cut) if is_left else (cut, known)))
    assert one_fact(diff, "Route")[2] == "unknown" and not diff.number - 1
    assert any("routes not compared: not readable (more than" in note for note in diff.notes)
    not_read = side(nic(2, "ens1"))
    diff = compare_sides(*((known, not_read) if is_left else (not_read, known)))
    assert one_fact(diff, "Route")[2] == "unknown" and diff.number == 0


def booted(known: Side, boot_id: str, monotonic: float) -> Side:
    hello = known.snapshot.hello
    assert hello is not None
    said = replace(hello, boot_id=boot_id, monotonic=monotonic, wall=1_800_000_000.0)
    return replace(known, snapshot=replace(known.snapshot, hello=said))


@pytest.mark.parametrize("nic_name", ["", "ens1"])
def test_a_reboot_between_two_times_is_named(nic_name: str) -> None:
    link = nic(2, "ens1")
    before = booted(side(link, nic=nic_name), "1", 50_000.0)
    after = booted(side(link, nic=nic_name), "2", 60.0)
    diff = compare_sides(before, after)
    assert diff.number == 1
    assert "rebooted in between" in diff_text(diff, 80)
    assert one_fact(diff, REBOOTED)[1] == "kernel started about 2027-01-15 07:59:00 UTC"
    assert compare_sides(before, booted(side(link, nic=nic_name), "1", 60.0)).number == 0
    other = replace(after, snapshot=replace(after.snapshot, host="b"))
    assert compare_sides(before, other).number == 0, "another host"


def diagnosed(known: Side, *found: Finding) -> Side:
    return replace(known, diagnosis=Diagnosis(tuple(found), (), (known.snapshot.host,)))


def test_a_finding_of_both_sides_with_another_severity_is_a_difference() -> None:
    failed = finding(
        severity="critical", host="a", subject="ens1", title="DHCP failed, not trying now"
    )
    waits = replace(failed, severity="warning", title="no DHCP reply yet")
    known = side(nic(2, "ens1"))
    diff = compare_sides(diagnosed(known, failed), diagnosed(known, waits))
    assert diff.number == 1
    text = diff_text(diff, 80)
    assert "findings of both sides, with another severity or title" in text
    assert "DHCP failed, not trying now" in text and "no DHCP reply yet" in text
    assert compare_sides(diagnosed(known, failed), diagnosed(known, failed)).number == 0


def test_numbers_doubts_and_own_addresses_in_a_title_are_no_difference() -> None:
    known = finding(
        severity="warning", host="a", subject="ens1", title="192.0.2.1 lost 30.9 k of 1.2 M"
    )
    counted = replace(known, title="192.0.2.1 lost 700 of 12 k")
    doubtful = replace(known, title=f"may have changed: {known.title}", outdated=True)
    ours = side(nic(2, "ens1", address="192.0.2.1"))
    for other in (counted, doubtful):
        assert compare_sides(diagnosed(ours, known), diagnosed(ours, other)).number == 0
    theirs = side(nic(2, "ens9", address="192.0.2.9"), name="b")
    moved = replace(counted, host="b", subject="ens9", title="192.0.2.9 lost 700 of 12 k")
    assert compare_sides(diagnosed(ours, known), diagnosed(theirs, moved)).number == 0


def test_two_findings_of_one_rule_and_subject_are_two() -> None:
    """By what of the subject they are about."""
    one = replace(finding(host="a", subject="ens1"), item="192.0.2.1")
    other = replace(one, item="192.0.2.2")
    known = side(nic(2, "ens1"))
    diff = compare_sides(diagnosed(known, one, other), diagnosed(known, other))
    assert (diff.number, diff.findings[0].side) == (1, "left")
    exchanged = compare_sides(diagnosed(known, one), diagnosed(known, other))
    assert [found.side for found in exchanged.findings] == ["left", "right"]
    theirs = diagnosed(side(nic(2, "ens1"), name="b"), replace(other, host="b"))
    assert compare_sides(diagnosed(known, one), theirs).number == 0, "its address"
    assert compare_sides(diagnosed(known, one, other), theirs).number == 1


def test_of_one_host_at_two_times_only_counters_and_times_are_expected_to_differ() -> None:
    one = nic(2, "ens1", address="192.0.2.1", carrier_changes=1)
    other = replace(
        nic(2, "ens1", address="192.0.2.77", carrier_changes=5), address="02:00:00:00:00:77"
    )
    between = compare_sides(side(one), side(other, name="b"))
    diff = compare_sides(side(one), side(other))
    assert (differing(between), differing(diff)) == (set(), {("ens1", "MAC"), ("ens1", "IPv4")})
    assert diff.number == 2 and "2 differences" in diff_text(diff, 80)
    assert "(counters, times)" in diff_text(diff, 80)
    (found,) = diff.nics
    assert [fact.label for fact in found.differences if fact.kind == "expected"] == ["Changes"]


def test_a_nic_that_was_renamed_differs_of_one_host() -> None:
    one, other = (nic(2, name, address="192.0.2.1") for name in ("ens1", "ens9"))
    assert not differing(compare_sides(side(one), side(other, name="b")))
    assert differing(compare_sides(side(one), side(other))) == {("ens1", "Name")}


def test_recordings_of_two_machines_of_one_name_are_of_two_hosts() -> None:
    sides = []
    for machine, address in (("one", "192.0.2.1"), ("two", "192.0.2.2")):
        made = side(nic(2, "ens1", address=address))
        read = made.snapshot.inventory
        assert read is not None
        platform = replace(read.platform, machine_id_hash=machine)
        line = Line(inventory=replace(read, platform=platform))
        sides.append(replace(made, snapshot=advance(made.snapshot, line)))
    assert not differing(compare_sides(*sides))


@pytest.mark.parametrize(("flags", "carrier"), [(0, None), (1, False)])
def test_a_nic_that_is_down_differs_from_one_that_is_up(flags: int, carrier: bool | None) -> None:
    """Whatever else is the same: for a script both hosts would be alike."""
    up = nic(2, "ens1", address="192.0.2.1")
    down = replace(up, flags=flags, carrier=carrier, operstate="down")
    diff = compare_sides(side(up), side(down))
    assert ("ens1", "State") in differing(diff)
    assert not differing(compare_sides(side(down), side(down)))


def test_the_state_that_a_manager_reports_is_compared() -> None:
    """Connected on one side, and disconnected on the other."""
    sides = []
    for state in (100, 30):
        made = side(nic(2, "ens1"))
        assert made.snapshot.inventory is not None
        device = ManagedDevice("ens1", 1, state, 0, managed=True, autoconnect=True)
        manager = NetworkManager("1.52", False, True, {2: device}, ())
        read = replace(made.snapshot.inventory, networkmanager=manager)
        snapshot = advance(made.snapshot, Line(inventory=read))
        sides.append(replace(made, snapshot=snapshot))
    assert ("ens1", "State") in differing(compare_sides(*sides))


def test_the_veths_of_two_containers_are_compared() -> None:
    """They are the only NICs that these have."""
    one, other = (
        addressed(link(2, "eth0", kind="veth", mtu=mtu), address)
        for mtu, address in ((1500, "172.17.0.2"), (1400, "172.17.0.3"))
    )
    diff = compare_sides(side(one), side(other, name="b"))
    assert differing(diff) == {("eth0", "MTU")}


def test_a_bond_and_what_is_on_it_are_compared() -> None:
    sides = []
    for mode, identity in (("802.3ad", 20), ("active-backup", 21)):
        bond = link(4, "bond0", kind="bond", bond=Bond(mode))
        vlan = link(5, "bond0.20", kind="vlan", lower=4, details={"vlan_id": identity})
        sides.append(side(nic(2, "ens1"), bond, addressed(vlan, "192.0.2.1")))
    found = differing(compare_sides(*sides))
    assert ("bond0", "Mode") in found
    assert {name for name, _ in found} == {"bond0", "bond0.20"}


def test_which_guests_run_is_no_difference() -> None:
    """Taps, bridges of single guests, and the ports of a bridge."""
    nics, sides = (nic(2, "ens1", master=3), nic(2, "ens1", master=3)), []
    for guest, uplink in zip((101, 102), nics, strict=True):
        bridge = addressed(link(3, "vmbr0", kind="bridge"), f"192.0.2.{guest}")
        tap = link(4, f"tap{guest}i0", kind="tun", master=3, details={"tun_type": "tap"})
        own = link(5, f"fwbr{guest}i0", kind="bridge")
        sides.append(side(uplink, bridge, tap, own, name=f"host of {guest}"))
    diff = compare_sides(*sides)
    assert not differing(diff)
    assert [pair.left for pair in diff.nics] == ["ens1", "vmbr0"]


def test_bridges_of_other_networks_are_not_the_same() -> None:
    ours = addressed(link(3, "virbr0", kind="bridge"), "192.0.2.1")
    theirs = addressed(link(3, "docker0", kind="bridge"), "198.51.100.1")
    diff = compare_sides(side(ours), side(theirs))
    assert [(pair.left, pair.right) for pair in diff.nics] == [("virbr0", ""), ("", "docker0")]
    assert diff.number == 2


def test_a_page_has_what_the_text_has() -> None:
    left, right = (recorded_side(name) for name in recorded_hosts())
    page = diff_html(compare_sides(left, right))
    assert page.startswith("<!DOCTYPE html>") and "offloads_are_off" in page and page.isascii()
    assert "<script" not in diff_html(compare_sides(side(name="<script>"), right))


@pytest.mark.parametrize("others", [0, 1])
def test_what_is_between_both_hosts_is_shown_with_the_host_that_it_is_of(others: int) -> None:
    left, right = sides_of_case("routes/route_refuses_a_watched_host.json", others)
    diff = compare_sides(left, right, is_one_moment=True)
    (found,) = [one for one in diff.findings if one.rule == "route_refuses_a_watched_host"]
    of_host = next(
        one.host for one in left.diagnosis.findings if one.rule == "route_refuses_a_watched_host"
    )
    assert found.needs_both
    assert {"left": left.name, "right": right.name}[found.side] == of_host
    text = diff_text(diff, 120)
    assert f"findings between both hosts\n✖ {of_host}: {found.subject}: " in text
    assert NOT_BETWEEN not in text


def test_a_finding_between_both_that_both_have_is_shown_of_both() -> None:
    """On both sides it would be no difference, as one that each has by itself."""
    left, right = sides_of_case("link/ip_address_is_on_two_hosts.json")
    found = {
        (one.host, one.subject)
        for one in left.diagnosis.findings
        if one.rule == "ip_address_is_on_two_hosts"
    }
    diff = compare_sides(left, right, is_one_moment=True)
    names = {"left": left.snapshot.host, "right": right.snapshot.host}
    shown = [one for one in diff.findings if one.rule == "ip_address_is_on_two_hosts"]
    assert {(names[one.side], one.subject) for one in shown} == found
    assert len(shown) == len(found)


def test_of_different_times_nothing_is_said_to_be_between_the_hosts() -> None:
    diff = compare_sides(side(), side(name="b"))
    assert NOT_BETWEEN in diff_text(diff, 80)
    assert NOT_BETWEEN not in diff_text(compare_sides(side(), side()), 80), "one host"


def test_a_side_that_has_nothing_beyond_the_other_has_none_of_these() -> None:
    """A dash would mean that it is not known."""
    assert _without_common_items("a, b, c", "a, b") == ("c", "none of these")
    assert _without_common_items("a, b", "b, a") == ("a, b", "b, a"), "another order alone"
    assert _without_common_items("a, b", "") == ("a, b", ""), "not known"


def test_a_dash_is_explained() -> None:
    """It is not the same as none."""
    one, other = nic(2, "ens1", queues=4), nic(2, "ens1")
    assert MISSING_NOTE in diff_text(compare_sides(side(one), side(other)), 80)
    assert MISSING_NOTE not in diff_text(compare_sides(side(one), side(one)), 80)


def of_two_hosts(*lines: Line, inventory_time: float = 1.0) -> HostDifferences:
    """One host that was read whole, and one that is as these lines leave it."""
    known = side(NIC_OF_BOTH)
    snapshot = with_state(Snapshot.empty("b"), "live", "")
    for line in (hello(), inventory(NIC_OF_BOTH, time=inventory_time), *lines):
        snapshot = advance(snapshot, line)
    other = Side("b", snapshot, diagnose([HostFacts(snapshot)]))
    return compare_sides(known, other)


NIC_OF_BOTH = nic(2, "ens192")


def test_a_side_that_had_an_event_since_its_managers_were_read_says_so() -> None:
    event = Line(outdated=Outdated(10.0, "NetworkManager"))
    diff = of_two_hosts(event, counters(13.0, {2: (0, 0)}))
    (note,) = diff.notes
    assert note == (
        "b: managers, addresses and settings read before an event (NetworkManager), 12 s before "
        "its newest reading"
    )
    assert note in " ".join(diff_text(diff, 200).split("\n"))
    assert json.loads(diff_json(diff))["diff"]["notes"] == [note]
    assert f"{NO_DIFFERENCE}{AS_READ}" in diff_text(diff, 200)


def test_a_side_whose_managers_were_read_long_before_its_links_says_so() -> None:
    diff = of_two_hosts(change(2, "ens192", time=40.0), counters(41.0, {2: (0, 0)}))
    (note,) = diff.notes
    assert "read 40 s before its newest reading; events of links are newer" in note
    assert of_two_hosts(counters(5.0, {2: (0, 0)})).notes == ()


def test_a_side_whose_manager_was_not_read_says_so_also_at_findings_of_the_other() -> None:
    line = inventory(NIC_OF_BOTH, time=2.0)
    assert line.inventory is not None
    why = Unreadable("failed", "NetworkManager did not answer: no reply within 2 s")
    unread = Line(inventory=replace(line.inventory, unreadable={"networkmanager": why}))
    known = recorded_side("alma-load-001")
    rule = next(
        one.rule for one in known.diagnosis.findings if "networkmanager" in RULES[one.rule].needs
    )
    snapshot = advance(with_state(Snapshot.empty("b"), "live", ""), unread)
    other = Side("b", snapshot, diagnose([HostFacts(snapshot)]))
    for left, right, name in ((known, other, "left"), (other, known, "right")):
        diff = compare_sides(left, right)
        assert [note for note in diff.notes if note.startswith("b: NetworkManager (D-Bus): not")]
        of_rule = [one for one in diff.findings if one.rule == rule]
        assert of_rule and all(one.side == name for one in of_rule)
        assert all(one.is_unchecked_there for one in of_rule)
        assert f"({rule}); not checked on b" in diff_text(diff, 200)


def read_without_networkmanager(known: Side, name: str) -> Side:
    """The same host, with the same state, except that NetworkManager did not answer."""
    whole = known.snapshot.inventory
    assert whole is not None
    why = Unreadable("failed", "NetworkManager did not answer: no reply within 2 s")
    unread = replace(whole, networkmanager=None, unreadable={"networkmanager": why})
    snapshot = with_state(Snapshot.empty(name), "live", "")
    read = Line(counters=known.snapshot.counters)
    for line in (Line(hello=known.snapshot.hello), Line(inventory=unread), read):
        snapshot = advance(snapshot, line)
    return Side(name, snapshot, diagnose([HostFacts(snapshot)]))


@pytest.mark.parametrize("is_left", [True, False])
def test_what_is_not_known_on_a_side_is_no_difference(is_left: bool) -> None:
    """Neither findings of checks that did not run there, nor facts of what was not read."""
    known = recorded_side("alma-load-001")
    unread = read_without_networkmanager(known, "b")
    sides = (known, unread) if is_left else (unread, known)
    diff = compare_sides(*sides)
    assert diff.findings and all(one.is_unchecked_there for one in diff.findings)
    assert diff.number == 0, [fact for fact in diff.facts() if fact.kind == "differs"]
    reason = "NetworkManager (D-Bus): not readable (NetworkManager did not answer"
    unknown = [fact for fact in diff.facts() if fact.kind == "unknown"]
    assert {("Active profile", "Profile"), ("Network managers", "Managed")} <= {
        (fact.section, fact.label) for fact in unknown
    }
    for fact in unknown:
        if fact.label == "Not readable":
            continue
        assert (fact.right_unknown if is_left else fact.left_unknown) and not (
            fact.left_unknown if is_left else fact.right_unknown
        )
    for text in (diff_text(diff, 200), diff_markdown(diff), diff_html(diff)):
        assert AS_READ in text and "findings of one side, not checked on the other" in text
        assert text.count("not known on b: NetworkManager") == 1
        assert text.count("not checked on b: NetworkManager") == 1
        assert MISSING_NOTE not in text
    written = json.loads(diff_json(diff))
    assert written["differences"] == 0 and written["unknown"] == diff.number_unknown
    assert all(one["why_unchecked"].startswith(reason) for one in written["diff"]["findings"])


UNSUPPORTED = Unreadable("not_offered", "ifindex 2: EOPNOTSUPP Operation not supported")


def watched_side(name: str, *, watched: bool, time: float = 2.0) -> Side:
    """Of which the queue counters of the link were read, which has none, or were not read."""
    made = side(nic(2, "ens192"), name=name)
    read = counters(time, {2: (0, 0)})
    assert read.counters is not None
    if watched:
        failed = {"queues": UNSUPPORTED}
        read = Line(counters=replace(read.counters, queues={2: ()}, unreadable=failed))
    return replace(made, snapshot=advance(made.snapshot, read))


def test_counters_of_the_link_on_the_screen_are_no_difference_to_a_host_that_is_not_there() -> None:
    """They are read of no other."""
    ours, theirs = watched_side("a", watched=True), watched_side("b", watched=False)
    for left, right in ((ours, theirs), (theirs, ours)):
        diff = compare_sides(left, right)
        (found,) = (fact for fact in diff.host if fact.label == "Not readable")
        assert found.kind == "unknown" and diff.number == 0
        assert NOT_READ_THEN in (found.left_unknown, found.right_unknown)
        assert NOT_READ_THEN in diff_text(diff, 200)
    both = compare_sides(ours, watched_side("b", watched=True))
    assert "Not readable" not in {fact.label for fact in both.host}


def test_a_switch_port_that_was_not_listened_for_is_no_difference() -> None:
    neighbour = LldpNeighbour("listened", "LLDP", "02:00:00:00:00:01", "port 1")
    ours, theirs = side(nic(2, "ens192"), name="a"), side(nic(2, "ens192"), name="b")
    ours = replace(ours, snapshot=replace(ours.snapshot, listened={2: neighbour}))
    diff = compare_sides(ours, theirs)
    found = [fact for fact in diff.facts() if fact.section == LLDP_TITLE]
    assert found and {fact.kind for fact in found} <= {"unknown", "expected"}
