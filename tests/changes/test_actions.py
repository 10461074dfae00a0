"""Fixes as actions: only what the probe's grammar takes, with every name as it is, nothing filled
in that is one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.changes.actions import (
    BLANKS,
    Actions,
    ManualOnly,
    actions_of,
    command_of,
    fill,
    with_values,
)
from nictop.changes.job import ChangeJob
from nictop.errors import NictopError
from nictop.probe.plan.current_state import Roots
from nictop.probe.plan.grammar.actions import parse_action
from nictop.probe.plan.grammar.operation import refuse_repetitions
from nictop.probe.plan.undo import read_undo
from nictop.rules import Finding, Fix, diagnose
from nictop.rules.fixes.commands import Step, command, echo, joined, stored_line
from tests.support.findings import commands, finding, step_texts
from tests.support.hostile import WORDS as HOSTILE
from tests.support.lines import link
from tests.support.rule_cases import CASES_DIRECTORY, host_facts

ADD = (
    "nmcli con add type ethernet ifname ens4 con-name ens4 ipv4.method manual ipv4.addresses "
    "'<ADDRESS/PREFIX>'"
)


def findings_of_cases() -> Iterator[tuple[Path, Finding]]:
    for file in sorted(CASES_DIRECTORY.glob("*/*.json")):
        if file.parent.name == "bases":
            continue
        for case in json.loads(file.read_text()).get("fires", ()):
            for found in diagnose([host_facts(host) for host in case["hosts"]]).findings:
                yield file, found


def here(*steps: Step) -> Fix:
    return Fix("here", "a title", steps)


def actions(*lines: str) -> Actions:
    found = actions_of(here(*commands(*lines)))
    assert isinstance(found, Actions), found
    return found


def why(fix: Fix) -> str:
    found = actions_of(fix)
    assert isinstance(found, ManualOnly)
    return found.why


# ------------------------------------------------------------------------------------ all the rules


def test_every_fix_of_every_case_is_actions_or_says_why_not() -> None:
    """What can be carried out is understood by the probe as the very command that is shown to a
    person."""
    done, by_hand = set(), set()
    for file, found in findings_of_cases():
        for fix in found.fixes:
            meant = actions_of(fix)
            if isinstance(meant, ManualOnly):
                assert meant.why and not meant.why.endswith("."), (file, fix)
                by_hand.add(found.rule)
                continue
            assert fix.where == "here" and len(meant.actions) == len(fix.commands)
            examples = {name: BLANKS[name].example for name in meant.blanks}
            filled = fill(meant, examples)
            assert not filled.blanks
            if not meant.blanks:  # an example may be the value of the case
                refuse_repetitions(map(parse_action, filled.actions))
            for words in filled.actions:
                assert parse_action(words).words
            done.add(found.rule)
    assert {
        "profile_is_generated",
        "single_queue_without_rps",
        "interrupts_are_on_another_numa_node",
    } <= done
    assert {"second_default_route", "iommu_is_off", "transmit_queue_timed_out"} <= by_hand
    assert len(done) >= 40


READ_FOR_AN_UNDO: dict[str, object] = {
    "read_ifindex": 1,
    "read_link": link(1, "ens4"),
    "read_addresses": (),
    "read_routes": (),
    "read_address_options": ("metric", "7"),
    "read_vlans": {},
    "read_text": "8",
}
"""Function of `nictop.probe.plan.undo` that reads the host → what it returns."""
NO_VFS = {"sriov_numvfs": "0"}
"""Before VFs are made: another number than 0 is not changed."""


def test_every_fix_that_can_be_applied_has_an_undo_that_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plan parses its undo. Without those of NetworkManager, which restores itself."""
    for name, value in READ_FOR_AN_UNDO.items():
        monkeypatch.setattr(f"nictop.probe.plan.undo.{name}", lambda *_, value=value: value)
    undone = set()
    for file, found in findings_of_cases():
        for fix in found.fixes:
            meant = actions_of(fix)
            if isinstance(meant, ManualOnly):
                continue
            filled = fill(meant, {name: BLANKS[name].example for name in meant.blanks})
            for operation in map(parse_action, filled.actions):
                if operation.uses_networkmanager:
                    continue
                before = dict(operation.settings)
                if operation.kind == "virtual functions":
                    before = NO_VFS
                for words in read_undo(operation, before, (), Roots()):
                    assert parse_action(words, undoing=True), (file, fix)
                undone.add((operation.kind, len(operation.words)))
    assert {("address add", 6), ("address add", 7), ("address del", 6), ("up", 6)} <= undone


# --------------------------------------------------------------------------------------- one by one


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ethtool -L ens4 combined 4", ("ethtool", "-L", "ens4", "combined", "4")),
        (
            "echo f > /sys/class/net/ens4/queues/rx-0/rps_cpus",
            ("write", "/sys/class/net/ens4/queues/rx-0/rps_cpus", "f"),
        ),
        (
            "sysctl -w net.core.netdev_budget=600",
            ("write", "/proc/sys/net/core/netdev_budget", "600"),
        ),
        (
            "nmcli con mod 'it'\"'\"'s' ipv4.gateway ''",
            ("nmcli", "con", "mod", "it's", "ipv4.gateway", ""),
        ),
        (
            "ip link set dev ens4 vf 0 trust on",
            ("ip", "link", "set", "dev", "ens4", "vf", "0", "trust", "on"),
        ),
    ],
)
def test_a_simple_command_is_one_action(line: str, words: tuple[str, ...]) -> None:
    assert actions(line).actions == (words,)
    assert actions_of(here(command_of(words))) == Actions((words,))


NOT_ALLOWED = (
    "dmesg | grep -i ens4",
    "sed -i s/a/b/ /etc/default/grub",
    "ethtool -L ens4 combined 4; reboot",
    "ethtool -L ens4 combined $(nproc)",
    "ethtool -L ens4 combined `nproc`",
    "echo f > /etc/passwd",
    "echo f >> /sys/class/net/ens4/queues/rx-0/rps_cpus",
    "printf f > /sys/class/net/ens4/queues/rx-0/rps_cpus",
    "echo f > /sys/class/net/ens4/queues/rx-0/rps_cpus > /etc/passwd",
    "echo -n f > /sys/class/net/ens4/queues/rx-0/rps_cpus",
    "sysctl -w kernel.panic=1",
    "sysctl -w net.core.bpf_jit_enable=1",
    "nmcli con delete ens4",
    "ip link set '<PF>' vf '<N>' mac 52:54:00:00:00:01",
    "test -e /x || reboot",
    "reboot &",
    "",
    "'' -L ens4 combined 4",
    "ethtool -L ens4 combined 4 # four",
)


@pytest.mark.parametrize("line", NOT_ALLOWED)
def test_what_is_not_allowed_is_typed_by_hand(line: str) -> None:
    """Whatever a shell would make of the words: the probe is given none of them."""
    (step,) = commands(line)
    assert str(step) in why(here(step)) and why(here(step)) != str(step)


@pytest.mark.parametrize(
    "step",
    [
        *map(stored_line, NOT_ALLOWED),
        stored_line("nmcli con mod ens4 connection.id 'unclosed"),
        stored_line("ethtool -L ens4 \\\n combined 4"),
        stored_line("ethtool -L ens4 combined 4"),
        stored_line('ethtool -L "$NAME" combined 4'),
        stored_line("ethtool -L ens* combined 4"),
        joined("|", command("dmesg"), command("grep", "-i", "ens4")),
        joined("||", command("ethtool", "-L", "ens4", "combined", "4"), command("reboot")),
    ],
    ids=str,
)
def test_what_takes_a_shell_is_typed_by_hand(step: Step) -> None:
    """Never read as a command, even where it looks like one that is allowed."""
    assert str(step) in why(here(step)) and why(here(step)) != str(step)


@pytest.mark.parametrize("name", ["$NAME", "ens*", "a;b", "`id`"])
def test_what_a_shell_would_expand_is_a_name(name: str) -> None:
    step = command("ethtool", "-L", name, "combined", "4")
    assert actions_of(here(step)) == Actions((step.argv,))


def test_other_places_and_no_commands() -> None:
    assert why(Fix("esxi", "t", commands("esxtop"))) == "it must be run on the ESXi host"
    assert (
        why(Fix("peer", "t", commands("ip link set dev ens4 mtu 9000")))
        == "it must be run on the other host"
    )
    assert (
        why(Fix("peer", "t", commands("ip link set dev ens4 mtu 9000"), peer="vm2"))
        == "it must be run on vm2"
    )
    assert why(Fix("here", "t", ())) == "it has no command"


def test_what_the_host_would_refuse_is_not_offered() -> None:
    """An address that is removed and added again: what undoes it would depend on the order."""
    again = commands("ip addr del 2001:db8::10/64 dev ens4", "ip addr add 2001:db8::10/64 dev ens4")
    assert "two actions set 2001:db8::10/64 of ens4" in why(here(*again))


def test_one_line_by_hand_makes_all_of_it_by_hand() -> None:
    assert "reboot" in why(here(*commands("ethtool -L ens4 combined 4", "reboot")))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "devlink health recover pci/0000:3b:00.0 reporter fw",
            "a recovery resets the device and cannot be undone",
        ),
        ("devlink dev eswitch set pci/0000:3b:00.0 mode switchdev", "which cannot be undone"),
        (
            "ip link set dev bond0 type bond mode active-backup miimon 100",
            "while it is down and has no ports",
        ),
        ("ip link set dev eno1 nomaster", "and not all could be restored"),
        (
            "nmcli con mod uuid B bond.options mode=active-backup,miimon=100",
            "another mode interrupts the bond",
        ),
        ("sed -i s/a/b/ /etc/default/grub", "it writes a configuration file"),
        (
            "echo net.core.netdev_budget=600 > /etc/sysctl.d/90-x.conf",
            "it writes a configuration file",
        ),
        ("ethtool -s ens4 autoneg on", "nictop does not roll back this setting by itself"),
        ("systemctl enable --now irqbalance", "which nictop does not roll back"),
        ("journalctl -b", "it only shows something"),
    ],
)
def test_the_reason_is_said_in_terms_of_the_command(line: str, reason: str) -> None:
    assert why(here(*commands(line))).startswith(f"{line}: ") and reason in why(
        here(*commands(line))
    )


def test_every_command_of_a_finding_has_a_reason_without_words_of_the_grammar() -> None:
    for file, found in findings_of_cases():
        for fix in found.fixes:
            meant = actions_of(fix)
            if isinstance(meant, ManualOnly):
                assert "allowed" not in meant.why and "nictop does not write" not in meant.why, (
                    file,
                    meant.why,
                )


# ----------------------------------------------------------------------------------- what is filled


def test_an_address_is_filled_in_where_one_is_set() -> None:
    open_ = actions(ADD)
    assert open_.blanks == ("ADDRESS/PREFIX",)
    filled = fill(open_, {"ADDRESS/PREFIX": " 192.0.2.10/24 "})
    assert filled.blanks == () and filled.actions[0][-1] == "192.0.2.10/24"
    assert step_texts(filled.commands) == [ADD.replace("'<ADDRESS/PREFIX>'", "192.0.2.10/24")]
    assert fill(open_, {}) == open_


@pytest.mark.parametrize(
    "text",
    [
        "",
        "192.0.2.10",
        "x",
        "192.0.2.10/33",
        "192.0.2.10/24; reboot",
        "fe80::1%eth0/64",
        "0.0.0.0/0",
        "1\x1b/24",
    ],
)
def test_what_is_no_address_is_not_filled_in(text: str) -> None:
    with pytest.raises(NictopError) as caught:
        fill(actions(ADD), {"ADDRESS/PREFIX": text})
    assert caught.value.message.isprintable() and "prefix length" in caught.value.message


def test_only_what_is_asked_for_is_filled_in() -> None:
    with pytest.raises(NictopError, match="GATEWAY"):
        fill(actions(ADD), {"GATEWAY": "192.0.2.1"})


@pytest.mark.parametrize("name", ["<ADDRESS/PREFIX>", "<MAC>"])
def test_a_name_that_looks_like_a_place_to_fill_in_is_a_name(name: str) -> None:
    """A profile of such a name is neither asked for nor renamed by what is filled in."""
    open_ = actions_of(
        here(
            command(
                "nmcli",
                "con",
                "mod",
                name,
                "connection.id",
                name,
                "ipv4.addresses",
                "<ADDRESS/PREFIX>",
            )
        )
    )
    assert isinstance(open_, Actions)
    assert open_.blanks == ("ADDRESS/PREFIX",)
    filled = fill(open_, {"ADDRESS/PREFIX": "192.0.2.10/24"})
    assert filled.actions == (
        ("nmcli", "con", "mod", name, "connection.id", name, "ipv4.addresses", "192.0.2.10/24"),
    )


def test_a_mac_address_and_an_interface() -> None:
    filled = fill(actions("ip link set ens4 vf 1 mac <MAC>"), {"MAC": "52:54:00:AB:00:01"})
    assert filled.actions[0][-1] == "52:54:00:ab:00:01"
    with pytest.raises(NictopError):
        fill(actions("ip link set ens4 vf 1 mac <MAC>"), {"MAC": "01:00:5e:00:00:01"})
    bind = actions("nmcli con mod lan connection.interface-name '<INTERFACE>'")
    assert fill(bind, {"INTERFACE": "ens4"}).actions[0][-1] == "ens4"
    for wrong in ("../x", "a b", "-x", "a" * 16, ""):
        with pytest.raises(NictopError):
            fill(bind, {"INTERFACE": wrong})


# ---------------------------------------------------------------------------------------- any words


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(st.lists(texts | st.sampled_from(HOSTILE), min_size=1, max_size=6))
def test_arbitrary_words_are_never_an_action_that_the_probe_refuses(words: list[str]) -> None:
    for start in ((), ("nmcli", "con", "mod"), ("ethtool", "-L"), ("ip", "link", "set", "dev")):
        meant = actions_of(here(command(*start, *words)))
        if isinstance(meant, Actions) and not meant.blanks:
            assert parse_action(meant.actions[0])


def test_values_are_put_into_commands_that_are_only_shown() -> None:
    steps = (
        command("nmcli", "con", "mod", "lan", "ipv4.addresses", "<ADDRESS/PREFIX>"),
        echo("<MAC>", "/sys/class/net/<NIC>/address"),
        joined("|", command("virsh", "dumpxml", "<VM>"), command("grep", "<MAC>")),
    )
    values = {"ADDRESS/PREFIX": "192.0.2.10/24", "NIC": "ens4", "MAC": "", "VM": "it's"}
    assert step_texts(with_values(steps, values)) == [
        "nmcli con mod lan ipv4.addresses 192.0.2.10/24",
        "echo '<MAC>' > /sys/class/net/ens4/address",
        "virsh dumpxml 'it'\"'\"'s' | grep '<MAC>'",
    ]


@pytest.mark.parametrize("verb", ["add", "del"])
def test_an_address_of_a_link_is_filled_in(verb: str) -> None:
    line = f"ip address {verb} '<ADDRESS/PREFIX>' dev ens4"
    filled = fill(actions(line), {"ADDRESS/PREFIX": "2001:db8::1/64"})
    assert filled == Actions((("ip", "address", verb, "2001:db8::1/64", "dev", "ens4"),))
    named = command("ip", "address", verb, "<ADDRESS/PREFIX>", "dev", "<MAC>")
    open_ = actions_of(here(named))
    assert isinstance(open_, Actions) and open_.blanks == ("ADDRESS/PREFIX",)


def test_what_undoes_a_fix_is_filled_in_with_it() -> None:
    """And what only looks like a placeholder stays."""
    undo = (
        command("ip", "address", "del", "<ADDRESS/PREFIX>", "dev", "ens4"),
        command("nmcli", "con", "mod", "<ADDRESS/PREFIX>", "-ipv4.addresses", "<ADDRESS/PREFIX>"),
        *commands("ip address add 192.0.2.1/24 dev ens4"),
    )
    add = commands("ip address add '<ADDRESS/PREFIX>' dev ens4")
    fix = Fix("here", "a title", add, False, undo)
    job = ChangeJob.of_finding(finding(fixes=(fix,)), fix)
    filled = job.with_values({"ADDRESS/PREFIX": "192.0.2.2/24"})
    assert step_texts(filled.fix.commands) == ["ip address add 192.0.2.2/24 dev ens4"]
    assert filled.spec(()).undo == (
        "ip address del 192.0.2.2/24 dev ens4",
        "nmcli con mod '<ADDRESS/PREFIX>' -ipv4.addresses 192.0.2.2/24",
        "ip address add 192.0.2.1/24 dev ens4",
    )


def test_fixes_that_set_an_address_can_be_filled_in_and_applied() -> None:
    """Without a route that is lost with the old address."""
    checked = set()
    for _, found in findings_of_cases():
        for fix in found.fixes:
            words = " ".join(step_texts((*fix.commands, *fix.undo)))
            if fix.where != "here" or "<ADDRESS/PREFIX>" not in words or " route " in words:
                continue
            meant = actions_of(fix)
            assert isinstance(meant, Actions) and meant.blanks == ("ADDRESS/PREFIX",), fix
            checked.add(found.rule)
    assert {"nothing_configures_the_nic", "ip_address_is_on_two_hosts"} <= checked
