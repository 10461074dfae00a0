"""Parsers of ESXi outputs: what drifts between versions gives unknown values, never wrong ones, and
no exception."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.records import Counters, Inventory
from nictop.wire.codec import decode
from nictop.wire.errors import TransientError
from nictop.wire.esxi.counters import Accumulated, nic_counters, vf_counters
from nictop.wire.esxi.inventory import (
    EsxiFacts,
    IfindexAllocator,
    InventoryTime,
    ifindexes,
    inventory_of,
)
from nictop.wire.esxi.outputs import (
    BadOutput,
    NetStats,
    fields,
    hexadecimal_of,
    integer_of,
    parse_json,
    pci_address_of,
)
from tests.support.esxi import VF_STATISTICS, WEB_PORT, facts_of, outputs, parse_reading, statistics

CPUS = 8
Json = Any


def reading(value: Json, cpus: int | None = CPUS) -> NetStats:
    return parse_reading(parse_json(json.dumps(value).encode()), cpus)


def sample(value: Json) -> Json:
    return value["stats"][0]


def port(value: NetStats, number: int = WEB_PORT) -> Any:
    return next(one for one in value.ports if one.number == number)


def record_of(values: dict[str, Json], known: NetStats) -> Inventory:
    return inventory_of(
        facts_of(values), known, IfindexAllocator(), InventoryTime(1.0, 2.0, "start")
    )


# ------------------------------------------------------------------------------------------- values


def test_the_interval_ports_and_processors() -> None:
    found = reading(statistics(megabits=940.0))
    assert found.seconds == 1
    assert port(found).received.bits == 940e6
    assert port(found).vnic == "vmxnet3" and port(found).rings == (512, 512)
    assert len(found.cpus) == CPUS and found.cpus[0] == (0.5, 0.1)


def test_slow_ports_are_measured_by_their_packets() -> None:
    value = statistics(megabits=0.0)
    one = sample(value)["ports"][2]
    one.update(rxpps=3, rxsize=100, rxmbps=0.0)
    assert port(reading(value)).received.bits == 2400.0


def test_lines_before_the_json_are_skipped() -> None:
    assert parse_json(b"main():Python mode is deprecated\n\n" + b'{"a": 1}\n') == {"a": 1}


def test_the_last_sample_counts() -> None:
    value = statistics()
    value["stats"].append({**copy.deepcopy(sample(value)), "interval": 7})
    assert reading(value).seconds == 7


@pytest.mark.parametrize(("used", "cpus"), [(9, None), (9, 7), (8, 6), (3, 8), (0, 8)])
def test_processors_are_unknown_unless_their_number_is_known(used: int, cpus: int | None) -> None:
    value = statistics()
    sample(value)["cpu"]["used"] = [10.0] * used
    found = reading(value, cpus)
    assert found.cpus == () and found.cpu_problem


@pytest.mark.parametrize("wrong", [-1, 1e9, "50", None, True, [1], float("nan")])
def test_a_wrong_share_of_a_processor(wrong: Json) -> None:
    value = statistics()
    sample(value)["cpu"]["used"][3] = wrong
    found = parse_reading(value, CPUS)
    assert found.cpus == () and "invalid" in found.cpu_problem


@pytest.mark.parametrize("factor", [0.001, 1 / 8, 8, 1000])
def test_rates_in_another_unit_are_unknown(factor: float) -> None:
    value = statistics(megabits=940.0)
    sample(value)["ports"][2]["rxmbps"] *= factor
    assert port(reading(value)).received.bits is None
    assert port(reading(value)).received.packets is None


def test_drops_are_unknown_without_one_of_their_counters() -> None:
    value = statistics()
    del sample(value)["ports"][2]["vnic"]["dropsByBurstQ"]
    assert port(reading(value)).received.drops is None
    assert port(reading(value)).sent.drops == 0.0


@pytest.mark.parametrize("name", ["ready", "cstp"])
def test_ready_and_costop_are_unknown_without_their_field(name: str) -> None:
    value = statistics()
    del sample(value)["vcpus"]["2105234"][name]
    world = reading(value).worlds[2105234]
    assert None in (world.ready, world.costop)


def test_names_of_fields_may_be_written_in_another_way() -> None:
    assert fields({"MAC Address": 1, "VF-ID": 2, 3: 4}) == {"macaddress": 1, "vfid": 2}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        (" 7 ", 7),
        ("0x1f", None),
        ("-1", None),
        ("1.5", None),
        ("9" * 40, None),
        ("١٢", None),
        (True, None),
        (1 << 70, None),
    ],
)
def test_integers(text: Json, number: int | None) -> None:
    assert integer_of(text) == number


@pytest.mark.parametrize(
    ("text", "number"), [("0x8086", 0x8086), (32902, 0x8086), ("8086", None), ("0x123456", None)]
)
def test_numbers_of_vendors(text: Json, number: int | None) -> None:
    assert hexadecimal_of(text) == number


def test_addresses_with_decimal_numbers_are_not_used() -> None:
    assert pci_address_of("0000:3B:00.0") == "0000:3b:00.0"
    assert pci_address_of("00000:059:02.1") is None


# ----------------------------------------------------------------------------------------- counters


def counted(*readings: tuple[float, NetStats]) -> list[Counters]:
    accumulated, numbers = Accumulated(), IfindexAllocator()
    accumulated.order_events_as(readings[0][1])
    return [accumulated.counters(time, one, ifindexes(one, numbers), {}) for time, one in readings]


def test_rates_are_added_for_the_whole_time_since_the_reading_before() -> None:
    one = reading(statistics(megabits=800.0))
    first, second = counted((10.0, one), (12.5, one))
    ifindex = next(index for index, values in second.links.items() if values[2] > 1e8)
    assert second.links[ifindex][2] - first.links[ifindex][2] == round(800e6 / 8 * 2.5)
    assert second.cpus[0] == (10_000, 0, 2_500, 12_500)
    assert second.waits[2105234] == (round(0.125 * 25_000), round(0.015 * 25_000))


def test_a_rate_that_is_not_known_has_no_counter() -> None:
    one = reading(statistics())
    without = replace(
        one,
        ports=tuple(
            replace(each, received=replace(each.received, bits=None)) for each in one.ports
        ),
    )
    first, second, third = counted((1.0, one), (2.0, without), (3.0, one))
    assert (
        len(first.links) == len(one.ports)
        and second.links == {}
        and len(third.links) == len(one.ports)
    )


def with_events(value: NetStats, **events: float) -> NetStats:
    return replace(
        value, ports=tuple(replace(one, events=events) if one.vnic else one for one in value.ports)
    )


def test_events_are_counted_in_the_order_of_the_inventory() -> None:
    """The same number of events, of which one is another: its count is not that of the event it
    takes the place of."""
    inventory = with_events(reading(statistics()), r1full=1.0, txdisc=3.0)
    other = with_events(inventory, r2full=100.0, txdisc=3.0)
    more = with_events(inventory, r1full=1.0, r2full=100.0, txdisc=3.0)
    first, second, third, fourth = counted(
        (1.0, inventory), (2.0, other), (3.0, more), (4.0, inventory)
    )
    for counters, expected in ((first, (0, 0)), (second, ()), (third, (1, 3)), (fourth, (2, 6))):
        assert set(counters.driver.values()) == {expected}


def test_a_nic_counts_from_its_own_counters_on() -> None:
    one = reading(statistics(megabits=0.0))
    accumulated, numbers = Accumulated(), IfindexAllocator()
    accumulated.begin_with("vmnic0", (5, 6, 7, 8, 1, 2, 3, 4))
    numbered = ifindexes(one, numbers)
    assert accumulated.counters(1.0, one, numbered, {}).links[numbers.of("nic", "vmnic0")] == (
        5,
        6,
        7,
        8,
        1,
        2,
        3,
        4,
    )


def test_statistics_of_a_nic_end_with_the_first_unknown_one() -> None:
    value = fields(outputs()["network nic stats get -n vmnic0"])
    assert nic_counters(value) == (150_000, 150_000, 90_000_000, 105_000_000, 2, 0, 3, 0, 29)
    assert nic_counters({name: one for name,
        one in value.items() if name != "totaltransmiterrors"}) == ( *(150_000, 150_000,
    90_000_000, 105_000_000), 2,
    )  # fmt: skip
    assert nic_counters({name: one for name, one in value.items() if name != "bytessent"}) is None


def test_statistics_of_a_function() -> None:
    value = fields({name: number for number, name in enumerate(VF_STATISTICS)})
    assert vf_counters(value) == (0 + 2 + 4, 8 + 10 + 12, 1 + 3 + 5, 9 + 11 + 13, 4, 2, 6 + 7, 15)
    assert vf_counters({name: one for name, one in value.items() if name != "txdiscards"}) is None


# ---------------------------------------------------------------------------------------- inventory


def test_a_function_without_a_known_version_has_no_owner() -> None:
    values = outputs()
    del values["system version get"]
    links = {link.name: link for link in record_of(values, reading(statistics())).links}
    assert [one.machine for one in links["vmnic4"].virtual_functions] == [None, None]


def test_two_machines_with_one_world_id_have_no_function() -> None:
    values = outputs()
    values["vm process list"][0]["WorldID"] = values["vm process list"][1]["WorldID"]
    links = {link.name: link for link in record_of(values, reading(statistics())).links}
    assert links["vmnic4"].virtual_functions[1].machine is None


def test_two_ports_by_one_uplink_leave_the_address_of_a_function_unknown() -> None:
    values = outputs()
    values["network vm port list -w 2105156"][0]["TeamUplink"] = "vmnic4"
    links = {link.name: link for link in record_of(values, reading(statistics())).links}
    assert links["vmnic4"].virtual_functions[1].address is None
    assert links["vmnic4"].virtual_functions[1].machine == "db1"


def test_the_port_of_a_function_is_not_a_link_of_its_own() -> None:
    value = statistics()
    own = copy.deepcopy(sample(value)["ports"][3])
    own.update(name="db1.eth1", id=100663312, switch="vSwitch1", mac="00:0c:29:10:20:42")
    sample(value)["ports"].append(own)
    assert "db1.eth1" not in {link.name for link in record_of(outputs(), reading(value)).links}


def test_an_unknown_mtu_is_not_zero() -> None:
    values = outputs()
    del values["network vswitch standard list"]
    links = {link.name: link for link in record_of(values, reading(statistics())).links}
    assert "mtu" in links["web1.eth0"].unreadable


# -------------------------------------------------------------------------------------------- drift


def places(value: Json, path: tuple[Json, ...] = ()) -> Iterator[tuple[Json, ...]]:
    """Every place in a JSON value."""
    if path:
        yield path
    for key, one in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from places(one, (*path, key))


STATISTICS = statistics()
OUTPUTS = outputs()
STATISTICS_PLACES, OUTPUTS_PLACES = tuple(places(STATISTICS)), tuple(places(OUTPUTS))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True),
    st.text("aZ0 :.-x\x1b", max_size=20),
    st.sampled_from(["", "-", "N/A", "Up", "true", "12,5", "0x10", "unbekannt"]),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.sampled_from(["id", "name", "x"]), st.integers(), max_size=3),
)


@st.composite
def drifted(draw: st.DrawFn, value: Json, known: tuple[tuple[Json, ...], ...]) -> Json:
    """The value with some fields removed, renamed or replaced."""
    changed = copy.deepcopy(value)
    for path in draw(st.lists(st.sampled_from(known), min_size=1, max_size=6)):
        holder = changed
        try:
            for key in path[:-1]:
                holder = holder[key]
            old = holder[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change removed it
        kind = draw(st.sampled_from(["remove", "rename", "replace"]))
        if kind == "replace" or not isinstance(holder, dict):
            holder[path[-1]] = draw(VALUES)
        else:
            del holder[path[-1]]
            if kind == "rename":
                holder[draw(st.sampled_from(["", "renamed", "id", "Name"]))] = old
    return changed


def check_record(**record: Any) -> None:
    """It passes the checks that lines of every host do."""
    decode(msgspec.json.encode(record))


@given(drifted(STATISTICS, STATISTICS_PLACES), st.sampled_from([None, 1, CPUS]))
def test_drifted_statistics_are_unknown_or_as_they_were(value: Json, cpus: int | None) -> None:
    try:
        found = parse_reading(value, cpus)
    except BadOutput:
        return
    first, second = counted((1.0, found), (2.0, found))
    check_record(counters=second)
    check_record(inventory=record_of(OUTPUTS, found))
    for ifindex, values in second.links.items():
        steps = [new - old for old, new in zip(first.links[ifindex], values, strict=True)]
        assert min(steps) >= 0
    for times in second.cpus.values():
        assert sum(times) == pytest.approx(10_000, abs=2)


@given(drifted(OUTPUTS, OUTPUTS_PLACES))
def test_drifted_outputs_are_unknown_or_as_they_were(values: Json) -> None:
    known = reading(STATISTICS)
    record = record_of(values, known)
    check_record(inventory=record)
    before = {link.name: link for link in record_of(OUTPUTS, known).links}
    for link in record.links:
        if link.name in before:
            assert {one.machine for one in link.virtual_functions} <= {
                None,
                "db1",
                "web1",
            } or values != OUTPUTS


@given(st.data())
def test_outputs_that_are_cut_off_are_not_used(data: st.DataObject) -> None:
    text = json.dumps(STATISTICS).encode()
    with pytest.raises(BadOutput):
        parse_reading(parse_json(text[: data.draw(st.integers(0, len(text) - 1))]), CPUS)


@given(st.binary(max_size=200))
def test_arbitrary_bytes(text: bytes) -> None:
    try:
        value = parse_json(text)
        parse_reading(value, CPUS)
    except BadOutput:
        pass


def test_deeply_nested_output() -> None:
    with pytest.raises(BadOutput):
        parse_json(b"[" * 100_000)


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"{}," * 300_000 + b"{}]",
        b"[" + b"0," * 600_000 + b"0]",
        b'{"a":' * 600_000,
        b"[" * 600_000,
    ],
)
def test_an_output_of_many_values_is_not_decoded(text: bytes) -> None:
    with pytest.raises(BadOutput):
        parse_json(text)
    with pytest.raises(BadOutput, match="too many values"):
        parse_json(text, 1 << 20)


def test_names_of_fields_are_bounded() -> None:
    assert fields(
        {"x" * 101: 1, "Name": 2, **{str(number): 0 for number in range(1000)}}
    ).keys() >= {"name"}
    assert len(fields({str(number): 0 for number in range(1000)})) == 256


@pytest.mark.parametrize(("part", "what"), [("ports", "2048 ports"), ("vcpus", "8192 worlds")])
def test_more_ports_or_worlds_than_a_host_has_are_refused(part: str, what: str) -> None:
    entries = [{"id": number, "name": f"vm{number}", "uplink": "false"} for number in range(8193)]
    with pytest.raises(BadOutput, match=what):
        reading({"stats": [{part: dict(enumerate(entries)) if part == "vcpus" else entries}]})


def test_an_inventory_of_very_many_machines_takes_little_time() -> None:
    """As many as are taken, none with a port: work that grows with the square of them would take
    minutes."""
    worlds = {
        str(number): {"id": number, "name": f"vmx-vcpu-0:vm{number}"} for number in range(8192)
    }
    found = reading({"stats": [{"vcpus": worlds}]})
    record = inventory_of(EsxiFacts(), found, IfindexAllocator(), InventoryTime(1.0, 2.0, "start"))
    assert len(record.threads) == 8192


def test_a_host_that_names_other_ports_again_and_again_is_read_anew() -> None:
    numbers = IfindexAllocator()
    with pytest.raises(TransientError):
        for number in range(100_000):
            numbers.of("port", number)
