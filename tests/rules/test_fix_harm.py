"""No fix of any rule does harm by where it writes: all fixes of all hosts of the rule cases and of
the public reports.

A fix that survives a reboot is stored where it survives one; one that does not leaves no file; none
replaces a file that configures something, or the file of another fix; what is undone is what was
done.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from nictop.model.managers.link_managers import is_only_described
from nictop.model.text.words import address_text
from nictop.probe.records import Link
from nictop.rules import Finding, Fix, HostFacts, diagnose
from nictop.rules.fixes.commands import Command
from nictop.rules.fixes.persistence import ethtool_fixes, mtu_fixes, sysctl_fixes
from nictop.rules.routes.rewriting import secondaries_of
from tests.reports.library import reports, with_messages
from tests.support.rule_cases import CASES_DIRECTORY, host_facts

LOWEST_MTU = 1280
"""RFC 8200, section 5: what every link with IPv6 must carry; tunnels over one of 576 are not
offered by any rule."""
STORES = re.compile(
    r"> '?/etc/|\bcon (mod|add|clone|delete)\b|systemctl (enable|disable|unmask)|netplan set|sed "
    r"-i|^(apt|dnf|grubby) |"
    r"update-grub|^qm set |cmode permanent|mstconfig|tuned-adm "
    r"profile|machine-id|google_set_multiqueue|"
    r"nmcli networking on|nmcli device reapply|firewall-cmd --permanent"
)
"""Commands whose effect is still there after a reboot."""
ACTIVATION_IS_ENOUGH = ("profile_does_not_connect_by_itself", "configured_address_is_missing")
"""Rules for which activating once what is stored is the persistent fix: a profile, which
NetworkManager connects again from then on, or a stanza."""
VOLATILE_FOLDERS = ("/run/", "/tmp/", "/usr/lib/", "/lib/")
"""Lost at a reboot, or at the next update of a package."""
UNDOABLE = re.compile(
    r"(ip link set (dev )?\S+ mtu|ethtool -[GKLAX] |nmcli con mod|sed -i|bridge vlan add|> /etc/)"
)
"""Commands that a fix can always undo, because the old value is in the facts or is a file of its
own."""
NEEDS_INPUT = re.compile(r"<[A-Z]")
NOT_UNDONE = {
    (
        "rss_table_leaves_queues_out",
        "ethtool -X",
    ): "no single command makes a table that is not in turn",
    (
        "tunnel_mtu_exceeds_its_underlay",
        "ip link se",
    ): "the kernel refuses the old value (vxlan_change_mtu)",
}
"""(rule, begin of a command) → why."""


class Case(NamedTuple):
    name: str
    hosts: tuple[HostFacts, ...]
    findings: tuple[Finding, ...]


class TypedFix(NamedTuple):
    """A fix that is typed on a watched host."""

    case: str
    host: HostFacts
    finding: Finding
    fix: Fix

    @property
    def lines(self) -> list[str]:
        return [str(step) for step in self.fix.commands]

    @property
    def files(self) -> list[str]:
        """What it writes with ``>``."""
        commands = [
            step.write_to
            for step in self.fix.commands
            if isinstance(step, Command) and step.write_to
        ]
        manual = " ".join(str(step) for step in self.fix.commands if not isinstance(step, Command))
        return [*commands, *(name.strip("'\"") for name in re.findall(r"(?<!>)> (\S+)", manual))]

    def __str__(self) -> str:
        return f"{self.case}: {self.finding.rule}: {self.fix.title}: {self.lines}"


@functools.cache
def cases() -> tuple[Case, ...]:
    return tuple(_cases())


def _cases() -> Iterator[Case]:
    for path in sorted(CASES_DIRECTORY.glob("*/*.json")):
        if path.parent.name == "bases":
            continue
        for kind, listed in json.loads(path.read_text()).items():
            for case in listed:
                hosts = tuple(host_facts(host) for host in case["hosts"])
                yield Case(f"{path.stem}, {kind}: {case['case']}", hosts, diagnose(hosts).findings)
    for report in reports():
        hosts = tuple(host_facts(with_messages(host)) for host in report.content["hosts"])
        yield Case(report.name, hosts, diagnose(hosts).findings)


@functools.cache
def typed_fixes() -> tuple[TypedFix, ...]:
    found = []
    for case in cases():
        hosts = {host.name: host for host in case.hosts}
        for finding in case.findings:
            fixes = (fix for fix in finding.fixes if fix.where in ("here", "peer") and fix.commands)
            found += [TypedFix(case.name, hosts[finding.host], finding, fix) for fix in fixes]
    assert len(found) > 900
    return tuple(found)


def broken(is_wrong: Callable[[TypedFix], bool]) -> list[str]:
    return sorted({str(one) for one in typed_fixes() if is_wrong(one)})


def test_what_survives_a_reboot_is_stored() -> None:
    def is_lost(one: TypedFix) -> bool:
        is_claimed = one.fix.persistent is True and one.finding.rule not in ACTIVATION_IS_ENOUGH
        return is_claimed and not any(STORES.search(line) for line in one.lines)

    assert broken(is_lost) == []


def test_nothing_is_written_where_it_is_lost() -> None:
    assert broken(lambda one: any(file.startswith(VOLATILE_FOLDERS) for file in one.files)) == []


def test_what_does_not_survive_a_reboot_stores_nothing() -> None:
    assert (
        broken(lambda one: one.fix.persistent is False and any(map(STORES.search, one.lines))) == []
    )


def test_no_fix_replaces_a_file_that_configures_something() -> None:
    def replaces(one: TypedFix) -> bool:
        return bool(
            {entry.file for entry in one.host.inventory.configuration}.intersection(one.files)
        )

    assert broken(replaces) == []


def test_two_fixes_of_a_host_never_write_the_same_file_differently() -> None:
    written: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for one in typed_fixes():
        for file in one.files:
            if file.startswith("/etc/"):
                lines = [line for line in one.lines if file in line]
                written[one.case, one.finding.host, file].add("\n".join(lines))
    assert [(place, lines) for place, lines in written.items() if len(lines) > 1] == []


def test_what_can_be_undone_is_undone() -> None:
    def is_left(one: TypedFix) -> bool:
        is_change = any(UNDOABLE.search(line) for line in one.lines) and not NEEDS_INPUT.search(
            " ".join(one.lines)
        )
        is_known = not any((one.finding.rule, line[:10]) in NOT_UNDONE for line in one.lines)
        return is_change and is_known and not one.fix.undo

    assert broken(is_left) == []


def test_an_undo_ends_with_what_was_active() -> None:
    """Where a fix activates a profile that is not active now."""

    def is_left(one: TypedFix) -> bool:
        ups = [line for line in one.lines if line.startswith("nmcli con up ")]
        manager = one.host.profiles.manager
        link = one.host.link_at(one.finding.ifindex)
        if one.fix.where != "here" or not (ups and one.fix.undo) or manager is None or not link:
            return False
        named = [word for line in ups for word in re.findall(r"(?:id|uuid) '?([^' ]+)", line)]
        active = one.host.profiles.active(link)
        known = one.host.profiles.by_uuid
        running = [known[uuid] for uuid in one.host.profiles.active_on if uuid in known]
        if {text for profile in running for text in (profile.id, profile.uuid)} & set(named):
            return False
        undo = [str(step) for step in one.fix.undo]
        if active is None:
            ends = ("con delete", "con down", "con up", "device disconnect")
            return not any(line.startswith(f"nmcli {end}") for line in undo for end in ends)
        device = one.host.profiles.device(link)
        if is_only_described(device, active):  # type: ignore[arg-type]
            again = [f"ip address add {address_text(address)} dev" for address in link.addresses]
            return undo[0] != f"nmcli device disconnect {link.name}" or not all(
                any(line.startswith(text) for line in undo) for text in again
            )
        return undo[-1] != f"nmcli con up uuid {active.uuid}"

    assert broken(is_left) == []


def test_only_own_files_are_removed_again() -> None:
    def removes_other(one: TypedFix) -> bool:
        removed = [
            line.split()[-1].strip("'") for line in map(str, one.fix.undo) if line.startswith("rm ")
        ]
        return not set(removed) <= set(one.files)

    assert broken(removes_other) == []


def test_no_mtu_that_carries_no_ipv6_is_offered() -> None:
    """A path that seems to need less has a filter or a broken offload on it."""

    def is_small(one: TypedFix) -> bool:
        numbers = re.findall(r"(?:\bmtu['\"=} ]+|MTUBytes=)(\d+)", " ".join(one.lines))
        return any(0 < int(number) < LOWEST_MTU for number in numbers)

    assert broken(is_small) == []


def test_a_udev_rule_concerns_one_link() -> None:
    """Links above a NIC may have its MAC address."""

    def matches_others(one: TypedFix) -> bool:
        rules = [
            line for line in one.lines if 'SUBSYSTEM=="net"' in line and "ATTR{address}" in line
        ]
        return any(len(matched_links(one.host, line)) != 1 for line in rules)

    assert broken(matches_others) == []


def matched_links(host: HostFacts, rule: str) -> list[str]:
    """Of a rule that matches an address, and perhaps a driver."""
    address = re.search(r'ATTR\{address\}=="([^"]+)"', rule)
    driver = re.search(r'ID_NET_DRIVER\}=="([^"]+)"', rule)
    assert address is not None
    return [
        link.name
        for link in host.links
        if address[1] == (link.permanent_address or link.address)
        and (
            driver is None
            or (link.ethtool.driver is not None and link.ethtool.driver.driver == driver[1])
        )
    ]


def test_no_address_goes_with_another_one() -> None:
    """Secondary addresses of its subnet do: they are removed before, or set again. One with a
    lifetime, which no command restores, is not removed. The plan of a change refuses both."""

    def takes_others(one: TypedFix) -> bool:
        if one.fix.where != "here":
            return False
        return any(left_out(one.host, steps) for steps in (one.lines, list(map(str, one.fix.undo))))

    assert broken(takes_others) == []


def left_out(host: HostFacts, lines: list[str]) -> list[str]:
    """What the addresses that lines remove take with them."""
    missing = []
    for number, line in enumerate(lines):
        words = line.split()
        if words[1:3] not in (["address", "del"], ["addr", "del"]) or words[0] != "ip":
            continue
        link = host.links_by_name[words[5]]
        others = " ".join((*lines[:number], *lines[number + 1 :]))
        for address in link.addresses:
            if address_text(address) == words[3]:
                gone = secondaries_of(link, address)
                missing += [text for text in map(address_text, gone) if text not in others]
                is_lent = "permanent" not in address.flags
                missing += [words[3]] if is_lent and f"add {words[3]}" in others else []
    return missing


def test_a_title_does_not_name_the_host_that_is_named_beside_it() -> None:
    """``Set prefix length 24 (on vm1, until the next reboot)``"""

    def is_twice(case: Case, finding: Finding, fix: Fix) -> bool:
        named = finding.host if fix.where == "here" else fix.peer
        return len(named) > 1 and f" {named} " in f" {fix.title.replace(':', ' ')} "

    twice = {
        f"{finding.rule}: {fix.title}"
        for case in cases()
        for finding in case.findings
        for fix in finding.fixes
        if is_twice(case, finding, fix)
    }
    assert twice == set()


def test_profiles_that_are_modified_exist() -> None:
    def is_unknown(one: TypedFix) -> bool:
        if one.fix.where != "here":
            return False
        uuids = [
            uuid for line in one.lines for uuid in re.findall(r"con (?:mod|up) uuid (\S+)", line)
        ]
        manager = one.host.inventory.networkmanager
        known = {profile.uuid for profile in manager.profiles} if manager is not None else set()
        return not known.issuperset(uuids)

    assert broken(is_unknown) == []


# ----------------------------------------------------------------- two findings of one host at once


def host_with(*names: str, **more: object) -> tuple[HostFacts, list[Link]]:
    links = {
        name: {"bus": "virtio", "device": f"virtio{number}"} for number, name in enumerate(names, 5)
    }
    host = host_facts({"base": "kvm-guest", "links": links, **more})
    return host, [link for link in host.links if link.name in names]


def files_of(*fixes: Fix) -> list[str]:
    steps = [step for fix in fixes for step in fix.commands]
    return [step.write_to for step in steps if isinstance(step, Command) and step.write_to]


@pytest.mark.parametrize("networkd", [{}, {"ens5": {"setup_state": "configured"}}])
def test_two_offloads_of_one_link_have_two_files(networkd: dict[str, object]) -> None:
    host, (link,) = host_with("ens5", networkmanager=None, networkd=networkd)
    settings = (["tso", "on"], ["tx-udp_tnl-segmentation", "off"], ["tso", "on", "gso", "on"])
    files = files_of(*(fix for one in settings for fix in ethtool_fixes(host, link, ["-K", *one])))
    assert len(set(files)) == len(settings) == len(files)


def test_a_kernel_setting_has_its_own_file() -> None:
    host, _ = host_with("ens5")
    names = [
        *(
            f"net.ipv4.conf.{link}.{name}"
            for link in ("all", "ens5", "ens5/7")
            for name in ("rp_filter", "arp_ignore")
        ),
        *(f"net.{family}.neigh.default.gc_thresh3" for family in ("ipv4", "ipv6")),
        *(f"net.{family}.conf.all.forwarding" for family in ("ipv4", "ipv6")),
        "net.core.netdev_budget",
        "net.core.netdev_budget_usecs",
    ]
    files = files_of(*(fix for name in names for fix in sysctl_fixes(host, name, 1)))
    assert len(set(files)) == len(names)


@pytest.mark.parametrize(
    ("kind", "section"),
    [(None, "ethernets"), ("bridge", "bridges"), ("bond", "bonds"), ("vlan", "vlans")],
)
def test_netplan_has_a_section_for_each_kind(kind: str | None, section: str) -> None:
    entry = {"owner": "netplan", "file": "/etc/netplan/50.yaml", "line": 3, "names": ["ens5"]}
    host, _ = host_with(
        "ens5",
        networkmanager=None,
        networkd={"ens5": {"setup_state": "configured"}},
        configuration=[entry],
    )
    link = dataclasses.replace(next(link for link in host.links if link.name == "ens5"), kind=kind)
    _, stored = mtu_fixes(host, link, 1450)
    assert [str(step) for step in stored.commands] == [f"netplan set {section}.ens5.mtu=1450"]
