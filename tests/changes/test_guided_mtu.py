"""A guided MTU: the range of the device and of IP, the links that must follow, and what else does
not fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.changes.actions import Actions, ManualOnly, actions_of
from nictop.changes.guided.mtu import MTU_RULES, mtu_range
from nictop.changes.guided.set_up import NotKnown, set_mtu
from nictop.changes.job import ChangeJob
from nictop.changes.script import script
from nictop.changes.wording import warning_lines
from nictop.errors import NictopError
from nictop.probe.records import Unreadable
from nictop.rules import RULES, HostFacts
from tests.support.findings import step_texts
from tests.support.rule_cases import host_facts

IPV6 = [{"family": "ipv6", "address": "fe80::1", "prefix_length": 64, "scope": "link"}]
IPV4 = [{"family": "ipv4", "address": "192.0.2.1", "prefix_length": 24}]
DEVICE = {"bus": "pci", "min_mtu": 68, "max_mtu": 9216}
VLANS: dict[str, Any] = {
    "ens4": DEVICE | {"mtu": 9000},
    "ens4.10": {"kind": "vlan", "lower": "ens4", "mtu": 9000},
    "ens4.10.7": {"kind": "vlan", "lower": "ens4.10", "mtu": 9000},
    "ens4.20": {"kind": "vlan", "lower": "ens4", "mtu": 1400},
    "elsewhere": {"kind": "macvlan", "lower": "ens4", "lower_namespace": 0, "mtu": 9000},
}
BOND: dict[str, Any] = {
    "bond0": {"kind": "bond", "mtu": 1500, "max_mtu": 65535},
    "ens4": DEVICE | {"master": "bond0"},
    "ens5": DEVICE | {"master": "bond0", "mtu": 1450, "max_mtu": 4000},
}


def host_with(links: dict[str, Any], **more: Any) -> HostFacts:
    return host_facts({"name": "vm1", "links": links, **more})


def job(host: HostFacts, name: str, mtu: int, *others: HostFacts) -> ChangeJob:
    found = set_mtu(host, host.links_by_name[name], mtu, others)
    actions = actions_of(found.fix)
    assert isinstance(actions, Actions) and not actions.blanks
    return found


def refusal(host: HostFacts, name: str, mtu: int) -> str:
    with pytest.raises(NictopError) as caught:
        set_mtu(host, host.links_by_name[name], mtu)
    return (
        f"{caught.value.message} ({caught.value.hint})"
        if caught.value.hint
        else caught.value.message
    )


def is_proven(found: ChangeJob, host: HostFacts, **mtus: int) -> tuple[bool, str]:
    """With these MTUs and carriers as before."""
    links = dict(host.snapshot.links)
    for name, mtu in mtus.items():
        link = host.links_by_name[name]
        links[link.ifindex] = replace(link, mtu=mtu)
    assert found.proof is not None
    check = found.proof(replace(host.snapshot, links=links))
    return check.proven, check.text


def test_set_with_its_rollback_and_check() -> None:
    host = host_with({"ens4": DEVICE})
    found = job(host, "ens4", 9000)
    assert step_texts(found.fix.commands) == ["ip link set dev ens4 mtu 9000"]
    assert step_texts(found.fix.undo) == ["ip link set dev ens4 mtu 1500"]
    assert found.fix.persistent is False and [one.persistent for one in found.lasting] == [True]
    assert is_proven(found, host) == (False, "ens4 has MTU 1500")
    assert is_proven(found, host, ens4=9000) == (True, "ens4 has MTU 9000")
    link = host.links_by_name["ens4"]
    down = replace(host.snapshot, links={link.ifindex: replace(link, mtu=9000, carrier=False)})
    assert found.proof is not None
    assert (
        check := found.proof(down)
    ).text == "ens4 has MTU 9000, and no carrier" and not check.proven
    gone = found.proof(replace(host.snapshot, links={}))
    assert (gone.proven, gone.text) == (False, "ens4 is missing")


@pytest.mark.parametrize(
    ("links", "name", "mtu", "why"),
    [
        (
            {"ens4": DEVICE},
            "ens4",
            9217,
            "nictop does not set MTU 9217 on ens4, but 576 to 9216 (limit: maximum of ens4)",
        ),
        ({"ens4": DEVICE}, "ens4", 575, "576 to 9216 (limit: each IPv4 host accepts 576"),
        ({"ens4": DEVICE | {"min_mtu": 600}}, "ens4", 576, "600 to 9216 (limit: minimum of ens4)"),
        (
            {"ens4": DEVICE | {"addresses": IPV6}},
            "ens4",
            1279,
            "1280 to 9216 (limit: IPv6 needs 1280",
        ),
        (
            {"ens4": DEVICE | {"addresses": IPV6, "min_mtu": 68}},
            "ens4",
            1000,
            "1280 to 9216 (limit: IPv6 needs 1280; ens4 itself accepts 68 or more)",
        ),
        ({"ens4": DEVICE}, "ens4", 1500, "ens4 already has MTU 1500"),
        (
            {"ens4": {"bus": "pci"}},
            "ens4",
            65536,
            "576 or more (limit: the largest that nictop sets; the driver does",
        ),
        (VLANS, "ens4.20", 9001, "576 to 9000 (limit: MTU of ens4 below it)"),
        (
            BOND,
            "ens4",
            9000,
            "ens4 is a port of bond0, which sets the MTU of its ports (set it on bond0)",
        ),
        (BOND, "bond0", 9000, "but 576 to 4000 (limit: maximum of ens5)"),
    ],
)
def test_what_a_link_cannot_have_is_refused_with_the_limit(
    links: dict[str, Any], name: str, mtu: int, why: str
) -> None:
    assert why in refusal(host_with(links), name, mtu)


def test_ipv6_of_a_vlan_above_limits_the_nic_below() -> None:
    links = VLANS | {"ens4.20": VLANS["ens4.20"] | {"addresses": IPV6}}
    assert "1280 to 9216 (limit: IPv6 needs 1280;" in refusal(host_with(links), "ens4", 1000)


def test_vlans_above_are_lowered_first_and_raised_last() -> None:
    """The kernel lowers them with the NIC, and does not raise them again; one of another namespace
    is not known."""
    host = host_with(VLANS)
    found = job(host, "ens4", 1500)
    assert step_texts(found.fix.commands) == [
        f"ip link set dev {name} mtu 1500" for name in ("ens4.10.7", "ens4.10", "ens4")
    ]
    assert step_texts(found.fix.undo) == [
        f"ip link set dev {name} mtu 9000" for name in ("ens4", "ens4.10", "ens4.10.7")
    ]
    assert (
        "ens4.10.7, ens4.10 above ens4 cannot keep a larger MTU: set to 1500, too" in found.warnings
    )
    assert "ens4.20 (MTU 1400) above ens4: not changed" in found.warnings
    partly = is_proven(found, host, ens4=1500)
    assert partly == (False, "ens4 has MTU 1500, but only 1 of 3 links have it")
    titles = [one.title for one in found.lasting]
    assert titles == [
        "Store in a udev rule",
        "Store in a udev rule: ens4.10.7",
        "Store in a udev rule: ens4.10",
    ]
    raised = job(host, "ens4", 9216)
    assert step_texts(raised.fix.commands) == ["ip link set dev ens4 mtu 9216"]


def test_a_bond_sets_its_ports_and_the_rollback_gives_each_its_own() -> None:
    host = host_with(BOND)
    found = job(host, "bond0", 4000)
    assert step_texts(found.fix.undo) == [
        "ip link set dev bond0 mtu 1500",
        "ip link set dev ens5 mtu 1450",
    ]
    assert "bond0 sets MTU 4000 on its ports, too: ens4, ens5" in found.warnings
    assert is_proven(found, host, bond0=4000, ens4=4000)[0] is False
    assert is_proven(found, host, bond0=4000, ens4=4000, ens5=4000)[0] is True


def test_a_bridge_and_its_ports() -> None:
    links = {
        "br0": {"kind": "bridge"},
        "ens4": DEVICE | {"master": "br0"},
        "tap1": {"kind": "tun", "master": "br0", "max_mtu": 65521},
    }
    host = host_with(links)
    port = job(host, "ens4", 9000).warnings
    assert (
        "its bridge br0 has MTU 1500: it follows its smallest port unless it was set itself" in port
    )
    assert "other ports of br0 have another MTU and drop what is larger: tap1 (MTU 1500)" in port
    bridge = job(host, "br0", 9000).warnings
    assert any(
        "it does not follow its ports any more, also after a rollback" in one for one in bridge
    )
    assert (
        "ports of br0 with a smaller MTU drop what is larger: ens4 (MTU 1500), tap1 (MTU 1500)"
        in bridge
    )


def subnet_host(name: str, mtu: int) -> HostFacts:
    return host_facts({"name": name, "links": {"ens4": DEVICE | {"mtu": mtu, "addresses": IPV4}}})


def test_the_other_watched_end_must_fit() -> None:
    here = subnet_host("vm1", 1500)
    (mismatch,) = [
        one
        for one in job(here, "ens4", 9000, subnet_host("vm2", 1500)).warnings
        if "finding" in one
    ]
    assert mismatch == "expected finding: vm1 ens4: MTU mismatch: 9000 here, 1500 on vm2 ens4"
    fits = job(here, "ens4", 9000, subnet_host("vm2", 9000)).warnings
    assert not any("finding" in one for one in fits)
    (path,) = [one for one in fits if "path" in one]
    assert path == (
        "hosts in its subnets with an MTU below 9000 may drop frames larger than theirs (some NICs "
        "receive them, such as virtio), and every switch on the path must pass them; nictop path "
        "measures what the path passes"
    )


def test_a_smaller_mtu_is_no_need_of_the_others() -> None:
    """What they send may be dropped here, and is received by some NICs."""
    (path,) = [one for one in job(subnet_host("vm1", 1500), "ens4", 1400).warnings if "path" in one]
    assert path.startswith(
        "hosts in its subnets with a larger MTU may send frames that ens4 then drops (some NICs "
        "receive them, such as virtio);"
    )


def test_a_port_of_the_switch_that_does_not_pass_it_is_expected() -> None:
    port = {
        "protocol": "LLDP",
        "system_name": "sw1",
        "port": "Eth1/7",
        "max_frame": 1522,
        "capabilities": ["bridge"],
    }
    host = host_with({"ens4": DEVICE}, lldp={"ens4": [port]})
    found = [
        one for one in job(host, "ens4", 9000).warnings if one.startswith("expected finding: ")
    ]
    assert found == [
        "expected finding: ens4: MTU 9000, but the switch port announces frames of 1522 bytes at most"
    ]


def test_every_rule_about_mtus_that_differ_is_asked() -> None:
    """A rule whose name says MTU is a part of the warnings."""
    assert set(MTU_RULES) == {name for name in RULES if {"mtu", "mtus"} & set(name.split("_"))}


def test_what_is_stored_is_stored_where_the_nic_is_managed() -> None:
    host = host_facts({"base": "vmware-guest", "links": {"ens192": {"max_mtu": 9000}}})
    (stored,) = job(host, "ens192", 9000).lasting
    (command,) = step_texts(stored.commands)
    assert command.startswith("nmcli con mod uuid ") and command.endswith(
        " 802-3-ethernet.mtu 9000"
    )


def test_the_script_has_the_warnings_as_comments() -> None:
    found = job(host_with(VLANS), "ens4", 1500)
    text = script("vm1", found.title, found.fix, lasting=found.lasting, warnings=found.warnings)
    assert "\n# ens4.20 (MTU 1400) above ens4: not changed\n" in text
    assert "\n# hosts in its subnets with " in text


def test_nothing_is_offered_before_its_sources_are_read() -> None:
    host = host_with({"ens4": DEVICE})
    unread = {"networkmanager": Unreadable("failed", "its process 812 is stopped")}
    inventory = replace(host.inventory, unreadable=unread)
    silent = HostFacts(replace(host.snapshot, inventory=inventory))
    with pytest.raises(NotKnown, match="its process 812 is stopped"):
        set_mtu(silent, silent.links_by_name["ens4"], 9000)


def test_a_loop_of_links_ends() -> None:
    """A host may send anything."""
    links = {
        "a": {"kind": "vlan", "lower": "b", "mtu": 9000},
        "b": {"kind": "vlan", "lower": "a", "mtu": 9000},
    }
    assert len(job(host_with(links), "a", 1500).fix.commands) == 2


def test_too_many_links_above_are_refused() -> None:
    many = {f"v{number}": {"kind": "vlan", "lower": "ens4", "mtu": 9000} for number in range(65)}
    host = host_with({"ens4": VLANS["ens4"], **many})
    assert "65 links above ens4 would have to be lowered" in refusal(host, "ens4", 1500)


@given(st.integers(0, 70_000), st.sampled_from(["ens4", "ens4.10", "ens4.10.7", "ens4.20"]))
def test_any_number_makes_a_job_within_the_range_or_a_sentence(mtu: int, name: str) -> None:
    host = host_with(VLANS)
    link = host.links_by_name[name]
    allowed = mtu_range(host, link)
    try:
        found = set_mtu(host, link, mtu)
    except NictopError as error:
        assert error.message.isprintable()
        assert mtu == link.mtu or not allowed.smallest <= mtu <= allowed.largest
        return
    assert allowed.smallest <= mtu <= allowed.largest
    mtus = {one.name: one.mtu for one in host.links}
    for changed, size in states(found):
        mtus[changed] = size
        for one in host.links:
            if one.lower is not None and one.lower_namespace is None:
                below = host.snapshot.links[one.lower].name
                assert mtus[one.name] <= mtus[below], "the kernel would refuse or change it"


def states(found: ChangeJob) -> Iterator[tuple[str, int]]:
    """(link, MTU) of each command, then of each command that undoes them."""
    for text in (*step_texts(found.fix.commands), *step_texts(found.fix.undo)):
        words = text.split()
        yield words[4], int(words[6])


def test_names_of_a_hostile_host_are_text() -> None:
    name = "\x1b[2J{0}%s"
    host = host_with(
        {name: DEVICE | {"mtu": 9000}, "v\x1b[1m": {"kind": "vlan", "lower": name, "mtu": 9000}}
    )
    found = set_mtu(host, host.links_by_name[name], 1500)
    assert isinstance(actions_of(found.fix), ManualOnly), "printed, not applied"
    with pytest.raises(NictopError, match="invisible or control characters"):
        script("vm1", found.title, found.fix, warnings=found.warnings)
    assert not any("\x1b" in line for line in warning_lines(found.warnings, 80))
    assert refusal(host, name, 99_999).isprintable()
