"""Values of a variable get into the plan; manual changes count only if the inventories of the hosts
show them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.errors import NictopError
from nictop.traffic.analysis.comparison import MUST_AGREE
from nictop.traffic.analysis.setup_facts import setup_facts
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.plan.validation import validate_request
from nictop.traffic.plan.variables import (
    VARIABLES,
    both_ends,
    check_value,
    manual_change_text,
    not_in_force,
    variable_of,
)
from tests.traffic.machines import machine, nic, two
from tests.traffic.plans import PLAN, tools

ENS4_PLAN = RunPlan(Endpoint("a", 4, "198.51.100.1"), Endpoint("b", 6, "198.51.100.2"))


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("length", "4K", "length", 4096),
        ("length", "default", "length", None),
        ("mss", "100", "mss", 100),
        ("window", "1M", "window", 1 << 20),
        ("streams", "8", "streams", 8),
        ("bitrate", "2G", "bitrate", 2 * 10**9),
        ("congestion", "bbr", "congestion", "bbr"),
        ("congestion", "default", "congestion", None),
        ("zerocopy", "yes", "zerocopy", True),
        ("direction", "reverse", "direction", "reverse"),
        ("generator", "builtin", "generator", "builtin"),
    ],
)
def test_value_changes_only_its_field_of_the_plan(
    name: str, value: str, field: str, expected: object
) -> None:
    into_plan = variable_of(name).into_plan
    assert into_plan is not None
    plan = into_plan(PLAN, value)
    assert getattr(plan, field) == expected
    others = {
        one for one in RunPlan.__dataclass_fields__ if getattr(plan, one) != getattr(PLAN, one)
    }
    assert others <= {field}


@pytest.mark.parametrize(
    "name", [name for name, row in VARIABLES.items() if row.into_plan is not None]
)
def test_only_the_facts_of_a_variable_change_with_it(name: str) -> None:
    """A comparison is refused for a fact that differs and is not the compared one."""
    row = variable_of(name)
    assert row.into_plan is not None
    values = row.example.split(",")
    plan = replace(PLAN, test="rr") if name in ("size", "rate") else PLAN
    one, other = (
        setup_facts(row.into_plan(plan, value), {}, {"client": tools(), "server": tools()})
        for value in (values[0], values[-1])
    )
    differing = {what for what in MUST_AGREE if one.get(what, "") != other.get(what, "")}
    assert differing and differing <= set(row.facts)


def test_examples_in_the_table_are_valid() -> None:
    for name, row in VARIABLES.items():
        for value in row.example.partition(" (")[0].split(","):
            check_value(name, value)
        assert (row.into_plan is None) == (row.manual or name == "nic")


@given(st.sampled_from(sorted(VARIABLES)), st.text())
def test_any_text_is_checked_without_an_unexpected_exception(name: str, word: str) -> None:
    try:
        check_value(name, word)
    except NictopError as error:
        assert error.message.isprintable()


def test_values_of_both_ends_or_one() -> None:
    assert both_ends("queues", "4") == (4, 4)
    assert both_ends("queues", "4/2") == (4, 2)
    assert both_ends("queues", "4/") == (4, None)
    assert both_ends("queues", "/2") == (None, 2)
    for word in ("", "/", "0", "4/0", "4/2/1", "x"):
        with pytest.raises(NictopError):
            both_ends("queues", word)


def test_queues_in_force_are_read_from_the_newest_inventory() -> None:
    _, hosts = two(queues=4)
    assert not_in_force("queues", "4", ENS4_PLAN, hosts) == ""
    assert not_in_force("queues", "1", ENS4_PLAN, hosts) == (
        "a: ens4 queues 4, required 1; b: ens4 queues 4, required 1"
    )
    assert not_in_force("queues", "4/1", ENS4_PLAN, hosts) == "b: ens4 queues 4, required 1"
    _, silent = two()
    assert not_in_force("queues", "4/", ENS4_PLAN, silent) == "a: ens4 queues unknown, required 4"


def test_mtu_in_force_is_that_of_the_link() -> None:
    _, hosts = two()
    assert not_in_force("mtu", "1500", ENS4_PLAN, hosts) == ""
    assert not_in_force("mtu", "/9000", ENS4_PLAN, hosts) == "b: ens4 MTU 1500, required 9000"
    gone = {"a": machine("a"), "b": hosts["b"]}
    assert not_in_force("mtu", "1500", ENS4_PLAN, gone) == "a: NIC of the run unknown"


def test_setup_value_cannot_be_checked() -> None:
    assert not_in_force("setup", "vswitch", ENS4_PLAN, {}) == ""


def test_manual_change_text_is_printable() -> None:
    _, hosts = two()
    assert (
        manual_change_text("queues", "4/2", ENS4_PLAN, hosts)
        == "queues of ens4 on a: 4, ens4 on b: 2"
    )
    assert manual_change_text("mtu", "/9000", ENS4_PLAN, hosts) == "MTU of ens4 on b: 9000"
    evil = {"a": machine("a", nic(4, "x\x1b[2J", "192.0.2.1"))}
    assert manual_change_text("mtu", "9000/", ENS4_PLAN, evil).isprintable()


@pytest.mark.parametrize("name", ["bs", "streams", "length"])
def test_a_measurement_by_hand_has_no_command_that_gets_a_value(name: str) -> None:
    by_hand = RunRequest("vm1", "vm1", test="manual", sweep=(name, ("1", "2")))
    with pytest.raises(NictopError, match=f'"{name}" cannot be varied without a command') as caught:
        validate_request(by_hand)
    assert caught.value.hint == "one of nic, queues, mtu, setup"
    validate_request(replace(by_hand, sweep=("setup", ("on", "off"))))
    validate_request(replace(by_hand, test="workload", workload="./copy"))
