"""--redact: no hidden value is in the page, an object has the same alias everywhere, and the
findings do not change."""

from __future__ import annotations

import json
import re
from dataclasses import is_dataclass, replace
from html import unescape
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, ip_address
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nictop
from nictop.hosts.observe import Unreachable
from nictop.model.guests.agent_facts import AgentFacts, AgentInterface, guest_key
from nictop.model.guests.table import guest_rows
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import field_values
from nictop.probe.records import (
    BridgePort,
    FilterCondition,
    FilterRule,
    Inventory,
    KernelMessage,
    PacketChain,
    PacketFilters,
    Thread,
)
from nictop.report.html.page import html_page
from nictop.report.markdown import markdown_page
from nictop.report.page import report_of
from nictop.report.redaction import fields
from nictop.report.redaction.addresses import AddressAliases
from nictop.report.redaction.names import NameAliases
from nictop.report.redaction.redaction import Redaction, make_redaction, redact
from nictop.rules import Evidence, HostFacts, diagnose
from nictop.traffic.path.store import StoredPath
from nictop.traffic.path.stored import StoredFix, StoredPathTest
from nictop.traffic.plan.plan import Endpoint
from nictop.traffic.results.result import ExaminedLimit
from tests.model.guests.hypervisor import WEB1, hypervisor
from tests.support.arbitrary import mutated
from tests.support.esxi import esxi_lines
from tests.support.lines import link
from tests.support.reports import (
    CAPTURED_GUESTS,
    WALL,
    captured_guest,
    experiments,
    full_result,
    stored_run,
)
from tests.support.rule_cases import CASES_DIRECTORY, host_facts, host_facts_after
from tests.traffic.runs import BLACK_HOLE, path_test

MAC = re.compile(r"(?<![0-9a-f])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![0-9a-f])")
FOUR = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DOCUMENTS = ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
HARMLESS = {"00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "127.0.0.1", "0.0.0.0"}


def private(answer: tuple[Snapshot, Any]) -> Snapshot:
    """A recorded guest with all kinds of values that identify a machine."""
    snapshot = answer[0]
    inventory = snapshot.inventory
    assert inventory is not None
    texts = (
        "igb 52:54:00:ab:cd:ef: link of Secret's profile / one at 10.9.8.7 and "
        "fe80::5054:ff:feab:cdef: up",
        "db-server.corp.example.org and DB-SERVER talk to enx5254001a2b3c and qemu-guest",
    )
    threads = (Thread(7, 7, "CPU 0/KVM", "vcpu", machine="customer-vm"), *inventory.threads)
    messages = (*(inventory.messages or ()), *(KernelMessage(1.0, 3, text) for text in texts))
    manager = inventory.networkmanager
    if manager is not None:
        profiles = (
            replace(manager.profiles[0], id="Secret's profile / one", permissions=("maria",)),
            *manager.profiles[1:],
        )
        manager = replace(manager, profiles=profiles)
    rule = FilterRule("accept", conditions=(FilterCondition("source", ("10.9.8.7/32",)),))
    filters = PacketFilters(
        (PacketChain("nft", "ip", "filter", "FORWARD", "forward", 0, "drop", rules=(rule,)),)
    )
    changed = replace(
        inventory, threads=threads, messages=messages, networkmanager=manager, filters=filters
    )
    hello = snapshot.hello
    assert hello is not None
    return replace(
        snapshot, inventory=changed, hello=replace(hello, hostname="db-server.corp.example.org")
    )


def private_path_test() -> StoredPathTest:
    """With names and addresses in its measurements, findings and commands."""
    found = replace(
        BLACK_HOLE,
        host="office-0",
        title="duplicate address 10.0.2.16 of office-1",
        evidence=(Evidence("10.0.2.16 answered by", "52:54:00:12:34:57 (office-1 ens5)", "ARP"),),
        why="office-1 is not the only one",
        fixes=(
            StoredFix(
                "here", "Ask office-1", ("ip neighbour show to 10.0.2.16",), note="or 10.9.8.1"
            ),
        ),
    )
    report = path_test(found)
    there, back = report.result.directions
    assert there.test is not None
    test = replace(there.test, address="10.0.2.16", source="10.0.2.15", macs=("52:54:00:12:34:57",))
    ends = (
        replace(there.sender, host="office-0", address="10.0.2.15", mac="52:54:00:12:34:56"),
        replace(there.receiver, host="office-1", address="10.0.2.16", mac="52:54:00:12:34:57"),
    )
    there = replace(there, sender=ends[0], receiver=ends[1], test=test)
    back = replace(back, sender=ends[1], receiver=ends[0], failure="office-1: 10.0.2.16 in use")
    return replace(
        report, result=replace(report.result, network="10.0.2.0/24", directions=(there, back))
    )


def redacted_report() -> tuple[str, list[str]]:
    """The page, and all strings of the records that it was made of."""
    answers: list[Any] = []
    for number, name in enumerate(CAPTURED_GUESTS):
        answer = captured_guest(name, f"office-{number}")
        answers.append((private(answer), answer[1]))
    answers.append(
        Unreachable(
            "backup.corp.example.org", "10.9.8.99 port 22: connection timed out: backup is down?"
        )
    )
    run = full_result(5.0)
    plan = replace(
        run.plan,
        client=Endpoint("office-0", 4, "10.0.2.15"),
        server=Endpoint("office-1", 5, "10.0.2.16"),
    )
    redacted = replace(
        run,
        plan=plan,
        bottleneck="office-1: its NIC 10.0.2.16 is full",
        limits=(ExaminedLimit("office-1: its NIC", "10.0.2.16 is full", "cause"),),
        facts={"client host": "office-0"},
        path_test=private_path_test(),
    )
    runs = [*experiments(), stored_run(1, "own", redacted)]
    path = StoredPath("aaaa", private_path_test(), WALL, "0", label="office-1 since Monday")
    before = [json.dumps(texts(one)) for one in (*answers, *runs, path)]
    redacted_answers, shown, path_tests, _, hidden = redact(answers, runs, [path])
    report = report_of(redacted_answers, shown, path_tests, wall=WALL, hidden=hidden)
    return unescape(html_page(report)) + markdown_page(report), before


def texts(value: Any) -> Any:
    """All strings in a value."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return [texts(one) for one in value.values()]
    if isinstance(value, (tuple, list)):
        return [texts(one) for one in value]
    if is_dataclass(value):
        return [texts(one) for one in field_values(value)]
    return [texts(one) for one in vars(value).values()] if hasattr(value, "__dict__") else []


def test_no_hidden_value_is_in_the_page() -> None:
    page, before = redacted_report()
    page = page.casefold()
    originals = {
        one for text in before for form in (MAC, FOUR, UUID) for one in form.findall(text.lower())
    } - HARMLESS
    assert len(originals) > 20
    versions = {one for one in originals if one.startswith(("1.9.", "5.6."))}
    assert [
        one
        for one in originals - versions
        if re.search(rf"(?<![\w.:]){re.escape(one)}(?![\w:])", page)
    ] == []
    for name in (
        "office-", "db-server", "corp.example.org", "secret's", "secret'\\''s", "secret_s_profile",
        "customer-vm", "maria", "backup", "5054001a2b3c", "5254001a2b3c", "feab:cdef", "10.9.8.",
    ):  # fmt: skip
        assert name not in page, name


def test_the_page_lists_what_was_hidden_and_what_was_not() -> None:
    page, _ = redacted_report()
    redacted = re.search(r"Redacted: ([^.]*)\.", page)
    assert redacted is not None
    for kind in (
        "host names",
        "1 profile name",
        "UUIDs",
        "IPv4 addresses",
        "MAC addresses",
        "1 user name",
        "domain",
    ):
        assert kind in redacted[1], redacted[1]
    assert "Not redacted: interface names" in page


def test_an_object_has_the_same_alias_in_every_text() -> None:
    page, _ = redacted_report()
    assert "igb 52:54:00:" in page and ": link of profile-1 at " in page
    assert re.search(r"host-1: its NIC|host-2: its NIC", page)
    assert "host-1 and host-1 talk to enx52540" in page.replace("\\", "")


def all_cases() -> list[Any]:
    found = []
    for path in sorted(CASES_DIRECTORY.glob("*/*.json")):
        if path.parent.name != "bases":
            for kind, listed in json.loads(path.read_text()).items():
                found += [
                    pytest.param(case["hosts"], id=f"{path.stem}-{kind}-{n}")
                    for n, case in enumerate(listed)
                ]
    return found


@pytest.mark.parametrize("hosts", all_cases())
def test_the_findings_are_the_same(hosts: list[dict[str, Any]]) -> None:
    before = [host_facts(host) for host in hosts]
    redaction = make_redaction([one.snapshot for one in before])
    after = [HostFacts(redaction.hidden(one.snapshot), one.window) for one in before]
    names = {one.name: other.name for one, other in zip(before, after, strict=True)}
    expected, redacted = diagnose(before), diagnose(after)
    assert sorted(
        (one.rule, names[one.host], one.severity, one.ifindex or 0) for one in expected.findings
    ) == sorted((one.rule, one.host, one.severity, one.ifindex or 0) for one in redacted.findings)
    assert len(redacted.skipped) == len(expected.skipped)


# ---------------------------------------------------------------------------------------- addresses


def test_addresses_of_a_subnet_remain_in_one() -> None:
    networks = ("172.16.0.1/20", "10.1.0.9/8", "10.2.0.9/8", "192.168.7.1/24", "192.168.7.200/25")
    aliases = AddressAliases([one.partition("/")[0] for one in networks], networks)

    def alias(text: str) -> IPv4Interface:
        address, _, length = text.partition("/")
        return IPv4Interface(f"{aliases.ip(ip_address(address))}/{length}")

    assert (
        alias("172.16.0.1/20").network
        == alias("172.16.15.7/20").network
        != alias("172.16.16.1/20").network
    )
    assert alias("10.1.0.9/8").network == alias("10.2.0.9/8").network
    assert alias("192.168.7.1/24").network == alias("192.168.7.200/24").network
    assert alias("192.168.7.1/25").network != alias("192.168.7.200/25").network
    assert any(alias("192.168.7.1/24") in IPv4Network(one) for one in DOCUMENTS)
    assert str(alias("192.168.7.1/24").ip).endswith(".1")
    assert alias("192.168.7.0/24").ip == alias("192.168.7.0/24").network.network_address


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "0.0.0.0", "255.255.255.0", "224.0.0.251", "::1", "::", "ff02::1"]
)
def test_well_known_addresses_are_not_replaced(text: str) -> None:
    aliases = AddressAliases()
    assert aliases.ip(ip_address(text)) == text
    assert not any(aliases.counted.values())


@given(st.lists(st.ip_addresses(v=4), min_size=1, max_size=40, unique=True))
def test_ipv4_aliases_are_different_and_not_in_the_input(addresses: list[Any]) -> None:
    aliases = AddressAliases(list(map(str, addresses)))
    found = {one: aliases.ip(one) for one in addresses}
    same = [one for one, alias in found.items() if str(one) == alias]
    assert len(set(found.values())) == len(found)
    assert all(
        one.is_loopback or one.is_multicast or int(one) >> 24 in (0, 255) or one.is_link_local
        for one in same
    )


# Addresses that look like aliases, and arbitrary ones.
STARTS = (
    "fe80::53:0",
    "fe80::5254:ff:fe12:0",
    "ff02::53:0",
    "2001:db8:1::53:0",
    "2001:db8:2::",
    "fd00:0:1::",
)
SIXES = st.one_of(
    st.ip_addresses(v=6),
    st.tuples(st.sampled_from(STARTS), st.integers(1, 40)).map(
        lambda pair: IPv6Address(pair[0]) + pair[1]
    ),
)


@given(st.lists(SIXES, min_size=1, max_size=30, unique=True))
def test_ipv6_aliases_are_different_and_not_in_the_input(addresses: list[IPv6Address]) -> None:
    aliases = AddressAliases(list(map(str, addresses)))
    found = {one: aliases.ip(one) for one in addresses}
    assert len(set(found.values())) == len(found)
    replaced = {alias for one, alias in found.items() if str(one) != alias}
    assert not replaced & {str(one) for one in addresses}
    assert {one: aliases.ip(one) for one in addresses} == found


def all_different(
    addresses: list[IPv4Address] | list[IPv6Address], networks: tuple[str, ...] = ()
) -> bool:
    aliases = AddressAliases([str(one) for one in addresses], networks)
    found = {aliases.ip(one) for one in addresses}
    return len(found) == len(addresses) and not found & {
        str(one) for one in addresses if aliases.ip(one) != str(one)
    }


@pytest.mark.parametrize(
    ("start", "shift"), [("fe80::100:0:0:0", 0), ("2600::1", 80)], ids=["hosts", "sites"]
)
def test_more_ipv6_addresses_than_16_bits_can_count_have_different_aliases(
    start: str, shift: int
) -> None:
    first = int(IPv6Address(start))
    assert all_different([IPv6Address(first + (number << shift)) for number in range(66_000)])


def test_all_link_local_ipv4_addresses_have_different_aliases() -> None:
    first = int(IPv4Address("169.254.0.0"))
    addresses = [IPv4Address(first + number) for number in range(1 << 16)]
    aliases = AddressAliases([str(one) for one in addresses])
    found = [aliases.ip(one) for one in addresses]
    assert len(set(found)) == len(found)
    assert [str(one) for one, alias in zip(addresses, found, strict=True) if alias == str(one)] == [
        "169.254.0.0",
        "169.254.169.254",
    ]


@pytest.mark.parametrize(("length", "number"), [(16, 2000), (20, 2000), (12, 100)])
def test_ipv4_networks_beyond_those_reserved_for_tests_have_different_aliases(
    length: int, number: int
) -> None:
    step = 1 << (32 - length)
    firsts = [(11 << 24) + one * step for one in range(number)]
    addresses = [
        IPv4Address(first + part + 1) for first in firsts for part in range(0, step, 1 << 16)
    ]
    assert all_different(addresses, tuple(f"{IPv4Address(first)}/{length}" for first in firsts))


def test_a_mac_address_in_the_name_of_an_interface_is_no_alias() -> None:
    first = AddressAliases().mac("00:11:22:33:44:55")
    redaction = make_redaction(
        [link(2, f"enx{first.replace(':', '')}", address="00:11:22:33:44:55")]
    )
    assert redaction.addresses.mac("00:11:22:33:44:55") != first


@given(st.lists(st.binary(min_size=6, max_size=6), min_size=1, max_size=40, unique=True))
def test_mac_addresses(addresses: list[bytes]) -> None:
    known = [
        one
        for one in addresses
        if any(one) and set(one) != {255} and one[:4] != b"\x00\x00\x5e\x00"
    ]
    aliases = AddressAliases([one.hex(":") for one in known])
    found = [aliases.mac(one.hex(":")) for one in known]
    assert len(set(found)) == len(found) and not {one.hex(":") for one in known} & set(found)
    for one, alias in zip(known, found, strict=True):
        assert alias[:2] == one.hex()[:2]  # multicast and locally administered bits are kept
        assert aliases.mac(one.hex(":").upper()).lower() == alias
        assert aliases.mac(one.hex("-")) == alias.replace(":", "-")


@pytest.mark.parametrize(
    "text", ["00:00:5e:00:01:33", "00-00-5E-00-02-01", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"]
)
def test_well_known_mac_addresses_are_not_replaced(text: str) -> None:
    assert AddressAliases().mac(text) == text


def test_a_tap_and_the_nic_of_its_guest_have_matching_aliases() -> None:
    aliases = AddressAliases()
    assert aliases.mac("fe:54:00:12:34:56")[2:] == aliases.mac("52:54:00:12:34:56")[2:]


# -------------------------------------------------------------------------------------------- names


def test_addresses_of_bridges_and_of_nics_in_the_configuration_of_a_vm() -> None:
    secret = "52:54:00:ab:cd:ef"
    port = BridgePort("blocking", designated_bridge=secret)
    thread = Thread(7, 7, "kvm", "vm", machine="customer-vm", links=(3,), nics={3: secret})
    hidden_port, hidden_thread = make_redaction([port, thread]).hidden((port, thread))
    assert hidden_port.designated_bridge == hidden_thread.nics[3] != secret
    assert (hidden_port.state, hidden_port.designated_bridge[:8]) == ("blocking", secret[:8])


def aliases_of_an_example(*hosts: str) -> Redaction:
    names = NameAliases(hosts)
    for host in hosts:
        names.alias("host", host)
    return Redaction(AddressAliases(), names)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("web: down", "host-1: down"),
        ("webserver, cobweb", "webserver, cobweb"),
        ("web-2 and web_2", "host-2 and host-1_2"),
        ("WEB.", "host-1."),
        ("a: full", "host-3: full"),
        ("a full core", "a full core"),
        (
            "mac:00:11:22:33:44:55, peer:fe80::12:3456:1: none",
            "mac:00:11:22:00:00:01, peer:fe80::53:1: none",
        ),
        (
            "PCI 0000:02:00.0 at 12:30:45, kernel 6.12.1",
            "PCI 0000:02:00.0 at 12:30:45, kernel 6.12.1",
        ),
        (
            "10.0.0.1:5201 10.0.0.2/24 1.2.3.4.5 v1.2.3.4",
            "192.0.2.1:5201 192.0.2.2/24 1.2.3.4.5 v1.2.3.4",
        ),
    ],
)
def test_names_and_addresses_in_texts(before: str, after: str) -> None:
    assert (
        re.sub("5e:53:01", "00:00:01", aliases_of_an_example("web", "web-2", "a").text(before))
        == after
    )


def test_no_alias_is_a_name_of_the_input() -> None:
    redaction = aliases_of_an_example("host-1", "host-3", "other")
    assert redaction.names.alias("host", "host-1") == "host-2"
    assert redaction.names.alias("host", "other") == "host-5"


@pytest.mark.parametrize(
    ("text", "alias"),
    [
        ("host-1.corp.example.org", "host-2"),
        ("Host-1 is down", "host-2"),
        ("/lxc/host-1/ns", "host-2"),
        ("host-10 is down", "host-1"),
    ],
)
def test_no_alias_is_a_word_of_the_input(text: str, alias: str) -> None:
    assert NameAliases([text]).alias("host", "web") == alias


def test_the_alias_of_a_profile_contains_its_interface() -> None:
    names = NameAliases()
    names.keep(("ens224", "ens2"))
    assert names.alias("profile", "Secret ens224 (lab)") == "profile-1-ens224"
    assert names.alias("profile", "ens224") == "ens224"
    assert names.alias("profile", "Wired connection 3") == "Wired connection 3"


def test_localhost_is_not_hidden() -> None:
    assert (
        aliases_of_an_example("localhost", "local").text("localhost: local") == "localhost: local"
    )


@given(st.text(min_size=3, max_size=30), st.text(max_size=20), st.text(max_size=20))
def test_any_name_is_found_between_characters_other_than_letters(
    name: str, before: str, after: str
) -> None:
    redaction = aliases_of_an_example(name)
    if redaction.names.is_kept(name):
        return
    assert name not in redaction.text(f"«{name}»").replace("host-1", "")
    assert redaction.text(f"{before} {name} {after}").count("host-1") >= 1


@given(st.text(max_size=200))
def test_any_text_can_be_redacted(text: str) -> None:
    redaction = aliases_of_an_example("alpha", "b")
    assert redaction.text(text) == redaction.text(text)
    assert isinstance(redaction.text(text, names=False), str)


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.02, 0.3, 1.0]))
@settings(max_examples=40)
def test_hosts_with_arbitrary_text_can_be_redacted_and_shown(seed: int, share: float) -> None:
    snapshot, window = captured_guest(CAPTURED_GUESTS[1], "guest")
    inventory = mutated(snapshot.inventory, Inventory, Random(seed), share)
    links = {link.ifindex: link for link in inventory.links} if inventory is not None else {}
    changed = replace(snapshot, inventory=inventory, links=links)
    redacted_answers, _, _, _, hidden = redact([(changed, window)], ())
    assert html_page(report_of(redacted_answers, wall=WALL, hidden=hidden)).endswith("</html>\n")


def test_the_tables_name_existing_records() -> None:
    """Records that are not in the tables are free text: values of the kernel in them would be
    replaced as names."""
    defined = set[str]()
    for path in Path(nictop.__file__).parent.rglob("*.py"):
        defined.update(re.findall(r"^class (\w+)", path.read_text("utf-8"), re.MULTILINE))
    assert {*fields.NAME_FIELDS, *fields.UNCHANGED_FIELDS, *fields.FIELDS_WITHOUT_NAMES} <= defined


def test_what_agents_tell_is_still_that_of_its_guest() -> None:
    told = AgentFacts(
        "Debian", interfaces=(AgentInterface("eth0", "bc:24:11:00:00:01", ("192.0.2.55/24",)),)
    )
    snapshot = replace(hypervisor(), agents={guest_key(WEB1): told})
    hidden = make_redaction([snapshot]).hidden(snapshot)
    (row, *_) = (row for row in guest_rows(hidden) if row.agent is not None)
    assert row.guest.name != "web1" and row.guest.name == next(iter(hidden.agents)).name
    assert row.agent is not None and row.agent.interfaces[0].mac == row.mac
    assert "192.0.2.55" not in str(row.agent)


def test_names_of_virtual_machines_in_names_of_ports() -> None:
    snapshot = host_facts_after(esxi_lines(), "esx1").snapshot
    hidden = make_redaction([snapshot]).hidden(snapshot)
    text = json.dumps(msgspec.to_builtins(hidden, str_keys=True))
    assert "web1" not in text and "db1" not in text and "VM Network" not in text
    threads = hidden.inventory.threads if hidden.inventory is not None else ()
    machines = {thread.machine or "": thread.links for thread in threads}
    names = {link.ifindex: link.name for link in hidden.links.values()}
    assert [names[links[0]] for _, links in sorted(machines.items())] == [
        f"{one}.eth0" for one in sorted(machines)
    ]
