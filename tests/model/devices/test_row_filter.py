"""The filter (``/``): which rows it selects, and which errors it reports."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.devices.netdevs import End
from nictop.model.devices.overview import HostNow, NicRow, overview
from nictop.model.devices.row_filter import NUMBER_FIELDS, TEXT_FIELDS, row_filter
from nictop.model.snapshot import Snapshot, with_state
from nictop.probe.records import Address, VirtualFunction
from tests.model.hosts import (
    LINKS,
    inventory,
    link_counters,
    live_host,
    make_link,
    make_pci,
    snapshot_of,
)

OFFICE = make_link(
    2,
    "Ens2",
    bus="pci",
    altnames=("enp2s0",),
    address="52:54:00:aa:bb:cc",
    permanent_address="52:54:00:dd:ee:ff",
    addresses=(Address("ipv6", "2001:db8::7", 64, "global", ()),),
    carrier=False,
    counters=link_counters(rx_missed_errors=7),
)


def rows() -> tuple[NicRow, ...]:
    away = with_state(snapshot_of(inventory(links=(OFFICE,), pci=()), host="pve"), "lost", "")
    other = End("alma-load-001", 4)
    found = overview(
        [HostNow(live_host()), HostNow(away, 3.0), HostNow(Snapshot.empty("new"))],
        severities={other: "warning"},
        peers={End("pve", 2): [other]},
    )
    return tuple(
        replace(row, profile=("Wired connection 1", "warn")) if row.end.host == "pve" else row
        for row in found
    )


ROWS = rows()
ALL = {"ens256", "ens224", "ens224v0", "eth0", "Ens2", ""}


def accepted(text: str) -> set[str]:
    found = row_filter(text)
    assert found.errors == ()
    return {row.link.name if row.link is not None else "" for row in found.accepted(ROWS)}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ALL),
        ("   ", ALL),
        ("!", ALL),
        ("ens224", {"ens224", "ens224v0"}),
        ("ENS2", {"ens256", "ens224", "ens224v0", "Ens2"}),
        ("alma ens2", {"ens256", "ens224", "ens224v0"}),
        ("!alma", {"Ens2", ""}),
        ("!ens !eth", {""}),
        ("enp2s0", {"Ens2"}),
        ("igb", {"ens224", "ens224v0"}),
        ("driver:virtio", {"ens256"}),
        ("driver=virtio", set()),
        ("driver=virtio_net", {"ens256"}),
        ("DRIVER:IGB", {"ens224", "ens224v0"}),
        ("host:pve", {"Ens2"}),
        ("!host:alma", {"Ens2", ""}),
        ("nic:ens2", {"ens256", "ens224", "ens224v0", "Ens2"}),
        ("nic=ens224", {"ens224"}),
        ("wired connection", {"Ens2"}),
        ('"wired connection"', {"Ens2"}),
        ('"connection wired"', set()),
        ('profile:"Wired connection 1"', {"Ens2"}),
        ('profile="wired connection"', set()),
        ("192.0.2.7", {"ens224"}),
        ("192.0.2.0/24", {"ens224"}),
        ("address:192.0.2.0/25", {"ens224"}),
        ("address:198.51.100.0/24", set()),
        ("2001:db8::/32", {"Ens2"}),
        ("2001:db8::7", {"Ens2"}),
        ("52:54:00:82", {"ens224"}),
        ("mac:dd:ee:ff", {"Ens2"}),
        ("02:00.0", {"ens224"}),
        ("0000:02:10.0", {"ens224v0"}),
        ("pci:03:00", {"ens256"}),
        ("device:82576", {"ens224"}),
        ("state:stale", {"Ens2"}),
        ("state:not", {""}),
        ("no carrier", {"Ens2"}),
        ("state:up", ALL - {"Ens2", ""}),
        ("finding:warning", {"ens224"}),
        ("!finding:none", {"ens224"}),
        ("peer:alma", {"Ens2"}),
        ("speed>=1G", {"ens224"}),
        ("speed>1g", set()),
        ("speed>999Mb/s", {"ens224"}),
        ("speed=1000M", {"ens224"}),
        ("!speed>0", ALL - {"ens224"}),
        ("rx>1.5G", {"ens224"}),
        ("tx<1k", {"ens256", "ens224v0", "eth0"}),
        ("drops/s>0", {"ens224"}),
        ("drops>0", {"ens224", "Ens2"}),
        ("drops>=7", {"Ens2"}),
        ("errors/s:22", {"ens224"}),
        ("pps>=1k", {"ens224"}),
        ("mtu=1500", ALL - {""}),
        ("age>2", {"Ens2"}),
        ("mtu:1500 !driver=igb host:alma", {"ens256", "ens224v0", "eth0"}),
        ("[/x]", set()),
        (">5", set()),
    ],
)
def test_filters(text: str, names: set[str]) -> None:
    assert accepted(text) == names


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("adr:x", 'unknown key "adr"; keys: host, nic, driver'),
        ("colour>5", 'unknown key "colour"'),
        ("speed>", "speed> needs a number, e.g. speed>1.5G"),
        ("speed>fast", "speed> needs a number"),
        ("speed>10X", "speed> needs a number"),
        ("drops>", "drops> needs a number, e.g. drops>10"),
        ("mtu:" + "9" * 400, "mtu: needs a number"),
        ("driver>5", "driver is text, not a number: use driver:WORD"),
        ("driver:", "driver: needs a word"),
        ("!host=", "host= needs a word"),
        ('profile:"Wired', 'closing " missing'),
    ],
)
def test_invalid_words_are_reported(text: str, error: str) -> None:
    (found,) = row_filter(text).errors
    assert found.startswith(error)


def test_incomplete_words_are_ignored() -> None:
    found = row_filter("speed> driver=igb adr:7")
    assert len(found.errors) == 2
    assert [row.end.ifindex for row in found.accepted(ROWS)] == [4]


def test_an_open_quotation_filters() -> None:
    assert [row.end.host for row in row_filter('profile:"Wired conn').accepted(ROWS)] == ["pve"]


def test_an_address_is_not_a_key() -> None:
    """Every key has a letter that is not a hexadecimal digit."""
    assert not [
        key for key in (*TEXT_FIELDS, *NUMBER_FIELDS) if set(key) <= set("0123456789abcdef")
    ]


def test_every_link_is_found_by_its_name() -> None:
    found = overview([HostNow(live_host())], virtual=True)
    for link in LINKS:
        assert link.ifindex in {
            row.end.ifindex for row in row_filter(f"nic={link.name}").accepted(found)
        }


def test_a_function_without_a_netdev() -> None:
    function = VirtualFunction(1, address="52:54:00:00:00:01")
    row = NicRow(
        End("vm", 0), ROWS[0].snapshot, pci=make_pci("0000:02:10.2", driver="vfio-pci"), vf=function
    )
    for text in ("vfio", "02:10.2", "mac:00:01", "!nic:ens", "!drops>0"):
        assert row_filter(text).accepts(row), text


WORDS = st.text(max_size=12) | st.sampled_from(
    [
        '"',
        "!",
        "speed>",
        "speed>1e5",
        "mtu:²",
        "address:1/99",
        "host:",
        "::",
        "a:b",
        "\x1b[2J:x",
        "in<=١",
    ]
)


@given(st.lists(WORDS, max_size=4).map(" ".join))
def test_any_text(text: str) -> None:
    found = row_filter(text)
    accepted_rows = found.accepted(ROWS)
    assert [row for row in ROWS if row in accepted_rows] == list(accepted_rows)
    for error in found.errors:
        assert error.isprintable()


@given(
    st.sampled_from(["ens", "driver:igb", "speed>1M", "192.0.2.0/24", "state=live", '"no carrier"'])
)
def test_negation_selects_the_other_rows(word: str) -> None:
    with_it, without = row_filter(word).accepted(ROWS), row_filter(f"!{word}").accepted(ROWS)
    assert {row.end for row in with_it} | {row.end for row in without} == {row.end for row in ROWS}
    assert not {row.end for row in with_it} & {row.end for row in without}
