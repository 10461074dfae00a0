"""The PROFILE column: who runs a netdev, in the word that one would type or look for."""

from __future__ import annotations

from typing import Any

import pytest

from nictop.model.columns.devices import COLUMNS, visible_columns
from nictop.model.managers.link_managers import profile_name
from nictop.model.snapshot import Snapshot, advance
from tests.support.findings import host_of_case
from tests.support.lines import change, hello
from tests.support.rule_cases import host_facts, merge_patch


def shown_name(host: dict[str, Any], link: str) -> tuple[str, str]:
    one = host_facts(host)
    return profile_name(one.links_by_name[link], one.snapshot)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("enp1s0", "normal")),
        ({"networkmanager": {"devices": {"enp1s0": {"state": 70}}}}, ("enp1s0", "warn")),
        ({"networkmanager": {"devices": {"enp1s0": {"state": 120}}}}, ("enp1s0", "bad")),
        (
            {"networkmanager": {"devices": {"enp1s0": {"state": 30, "active_profile": None}}}},
            ("–", "dim"),
        ),
        (
            {"networkmanager": {"devices": {"enp1s0": {"state": 120, "active_profile": None}}}},
            ("–", "bad"),
        ),
        (
            {"networkmanager": {"devices": {"enp1s0": {"state": 10, "active_profile": None}}}},
            ("–", "dim"),
        ),
        ({"networkmanager": {"devices": {"enp1s0": {"external": True}}}}, ("(external)", "dim")),
        (
            {
                "networkmanager": {"devices": {"enp1s0": {"external": True}}},
                "networkd": {"enp1s0": {"setup_state": "configured"}},
            },
            ("networkd", "normal"),
        ),
        ({"networkmanager": {"devices": None}}, ("–", "dim")),
        (
            {"networkmanager": None, "networkd": {"enp1s0": {"setup_state": "configured"}}},
            ("networkd", "normal"),
        ),
        (
            {"networkmanager": None, "networkd": {"enp1s0": {"setup_state": "failed"}}},
            ("networkd", "bad"),
        ),
        (
            {"networkmanager": None, "networkd": {"enp1s0": {"setup_state": "unmanaged"}}},
            ("–", "dim"),
        ),
        (
            {
                "networkmanager": None,
                "networkd": {
                    "enp1s0": {
                        "setup_state": "configured",
                        "network_file": "/run/systemd/network/10-netplan-enp1s0.network",
                    }
                },
            },
            ("netplan", "normal"),
        ),
        (
            {
                "networkmanager": None,
                "configuration": [
                    {
                        "owner": "ifupdown",
                        "file": "/etc/network/interfaces",
                        "line": 4,
                        "names": ["enp1s0"],
                        "methods": ["dhcp4"],
                    }
                ],
            },
            ("ifupdown", "normal"),
        ),
    ],
)
def test_who_runs_it(changes: dict[str, Any], expected: tuple[str, str]) -> None:
    assert shown_name(merge_patch({"base": "kvm-guest"}, changes), "enp1s0") == expected


def test_a_profile_that_networkmanager_made_up_stands_out() -> None:
    assert shown_name(host_of_case("profiles", "profile_is_generated"), "ens224") == (
        "Wired connection 1",
        "warn",
    )


def test_a_link_of_which_only_the_name_is_known() -> None:
    snapshot = advance(advance(Snapshot.empty("guest"), hello()), change(7, "ens161"))
    assert profile_name(snapshot.links[7], snapshot) == ("?", "dim")


def test_a_manager_that_does_not_answer_is_not_none() -> None:
    changes: dict[str, Any] = {
        "networkmanager": None,
        "networkd": {},
        "configuration": [],
        "unreadable": {"networkmanager": {"reason": "failed"}},
    }
    assert shown_name(merge_patch({"base": "kvm-guest"}, changes), "enp1s0") == ("?", "dim")


def test_the_column_is_there_at_80_columns() -> None:
    """3 cells of marks, 14 of name, 10 of history: what the table keeps beside the columns."""
    keys = [column.key for column in visible_columns(80 - 3 - 14 - 10 - 1)]
    assert keys == ["link", "profile", "rx", "tx", "drops"]
    (column,) = [column for column in COLUMNS if column.key == "profile"]
    assert column.width == len("Wired connection 1")


def test_the_rows_of_a_table_share_one_sorting_of_the_configuration() -> None:
    one = host_facts({"base": "debian-ifupdown"})
    assert one.snapshot.configuration is one.snapshot.configuration
    assert profile_name(one.links_by_name["ens3"], one.snapshot) == ("ifupdown", "normal")
