"""The form of a guided job: whatever is typed makes a job or a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.changes.actions import Actions, actions_of
from nictop.errors import NictopError
from nictop.probe.records.links import Address, DefaultRoute
from nictop.probe.records.unreadable import NOT_READ_YET, Unreadable
from nictop.rules import HostFacts
from nictop.tui.widgets.base.form import presets
from nictop.tui.widgets.changes.guided_fields import (
    ADDRESS,
    CURRENT,
    DHCP,
    INTERRUPTS,
    JOBS,
    LED,
    MTU,
    NEW,
    NO,
    QUEUES,
    VFS,
    YES,
    Missing,
    NicRef,
    fields_of,
    names_shown,
    set_up_of,
)
from tests.support.findings import host_of_case, step_texts
from tests.support.rule_cases import host_facts


def place() -> NicRef:
    """A guest whose ens224 is run by "Wired connection 1"."""
    host = host_facts(host_of_case("profiles", "profile_is_generated"))
    return NicRef.of(host, host.links_by_name["ens224"])


PLACE = place()
FIELDS = {field.name: field for field in fields_of(PLACE)}
WORDS = st.fixed_dictionaries(
    {
        name: st.sampled_from(field.choices)
        if field.choices
        else st.text() | st.sampled_from(["0", "1", "4", "0-3"])
        for name, field in FIELDS.items()
    }
)


def words(**typed: str) -> dict[str, str]:
    return {**presets(FIELDS.values()), **typed}


def error_text(**typed: str) -> str:
    """Why these words make no job; "": they make one."""
    try:
        set_up_of(words(**typed), PLACE)
    except NictopError as error:
        return error.message
    return ""


@given(WORDS)
def test_whatever_is_typed_makes_a_job_or_a_sentence(typed: dict[str, str]) -> None:
    """And what it makes the probe's grammar takes, with nothing left to fill in."""
    assert names_shown(typed)[0] == "job"
    try:
        job = set_up_of(typed, PLACE)
    except NictopError as error:
        assert error.message
        return
    meant = actions_of(job.fix)
    assert isinstance(meant, Actions)
    assert not meant.blanks


def test_what_is_typed_is_what_is_done() -> None:
    job = set_up_of(words(address=" 192.0.2.10/24 ", default_route=YES, gateway="192.0.2.1"), PLACE)
    (first, *_) = step_texts(job.fix.commands)
    assert "ipv4.addresses 192.0.2.10/24 ipv4.gateway 192.0.2.1 ipv4.never-default no" in first
    hidden = set_up_of(words(address="192.0.2.10/24", gateway="192.0.2.1"), PLACE).fix.commands[0]
    assert "192.0.2.1 " not in str(hidden), "a field that is not in sight says nothing"
    assert "ipv4.method auto" in str(
        set_up_of(words(method=DHCP, address="nonsense"), PLACE).fix.commands[0]
    )
    assert "con add" in str(set_up_of(words(method=DHCP, profile=NEW), PLACE).fix.commands[0])


def test_a_new_address_keeps_the_default_route_unless_it_is_taken_away() -> None:
    route = DefaultRoute("ipv4", "192.0.2.1", 100, 254)
    address = Address("ipv4", "192.0.2.9", 24, "global", ())
    nic = replace(PLACE.link, default_routes=(route,), addresses=(address,))
    fields = fields_of(replace(PLACE, link=nic))
    examples = {field.name: field.example for field in fields}
    preset = presets(fields)
    assert examples["address"] == "current 192.0.2.9/24"
    assert (preset["default_route"], preset["gateway"]) == (YES, "192.0.2.1")
    assert (presets(FIELDS.values())["default_route"], FIELDS["gateway"].preset) == (NO, "")


def test_the_current_profile_is_offered_only_if_there_is_one() -> None:
    """``NetworkManager profile ◂ current ▸`` stood above "Create a profile"."""
    assert FIELDS["profile"].choices == (CURRENT, NEW)
    manager = PLACE.host.inventory.networkmanager
    assert manager is not None
    inventory = replace(PLACE.host.inventory, networkmanager=replace(manager, profiles=()))
    host = HostFacts(replace(PLACE.host.snapshot, inventory=inventory))
    (field,) = [one for one in fields_of(replace(PLACE, host=host)) if one.name == "profile"]
    assert field.choices == (NEW,) and field.example == "ens224 has none of its own"
    late = replace(inventory, unreadable={"networkmanager": Unreadable("failed", NOT_READ_YET)})
    unread = HostFacts(replace(PLACE.host.snapshot, inventory=late))
    (field,) = [one for one in fields_of(replace(PLACE, host=unread)) if one.name == "profile"]
    assert field.choices == (CURRENT, NEW) and not field.example, "unread is not none"


def test_what_is_missing_is_no_mistake_yet() -> None:
    for job in (ADDRESS, QUEUES, INTERRUPTS, MTU):
        with pytest.raises(Missing, match=r"^Enter "):
            set_up_of(words(job=job, cpus=""), PLACE)
    assert set(JOBS) == {ADDRESS, QUEUES, VFS, INTERRUPTS, MTU, LED}


def test_what_cannot_be_is_said() -> None:
    assert error_text(job=QUEUES, queues="x") == '"x" is not an integer'
    assert error_text(job=MTU, mtu="9k") == '"9k" is not an integer'
    assert error_text(job=MTU, mtu="999999").startswith(
        "nictop does not set MTU 999999 on ens224, but "
    )
    assert error_text(job=INTERRUPTS, cpus="3-1") == '"3-1" is not a CPU list'
    assert error_text(address="192.0.2.0/24").endswith("not a host address")
    assert error_text(
        address="192.0.2.10/24", default_route=YES, gateway="198.51.100.1"
    ).startswith("gateway")
