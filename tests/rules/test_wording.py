"""Text of findings: counts, places, and commands that stay valid at any screen width."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nictop.model.facts import clean, width
from nictop.model.snapshot import SINCE_TEXTS
from nictop.model.text.glyphs import ASCII
from nictop.probe.records import Unreadable
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.rules import RULES, Diagnosis, Fix, HostFacts, Skipped, diagnose
from nictop.rules.fixes.commands import Command, command, stored_line
from nictop.rules.wording import (
    all_clear,
    checks_text,
    command_lines,
    filled_note,
    is_checked,
    passed_texts,
    place_text,
    placeholders,
    rules_by_family,
    severity_counts_text,
    subject_text,
    verdict_text,
)
from tests.model.hosts import inventory, snapshot_of
from tests.support.findings import finding
from tests.support.hostile import WORDS as HOSTILE
from tests.support.shell import bash_words
from tests.support.stages import without_managers

NARROW_WORDS = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), max_size=12
)


def as_the_shell_reads(script: str) -> list[str]:
    done = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\n' {script}"],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("cells", [30, 40, 60, 76])
@pytest.mark.parametrize(
    "words",
    [
        (
            "nmcli",
            "con",
            "mod",
            "uuid",
            "77777777",
            "connection.id",
            "Wired connection 1",
            "ipv4.method",
            "manual",
        ),
        ("echo", "it's", 'a "quoted" name', "$HOME", "`id`", "back\\slash", "a  b"),
        ("one",),
        ("ethtool", "-L", "ens224", "combined", "4"),
    ],
)
def test_the_lines_of_a_command_are_the_same_command_for_a_shell(
    words: tuple[str, ...], cells: int
) -> None:
    lines = command_lines(command(*words), cells)
    assert all(width(line) <= cells for line in lines)
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert as_the_shell_reads("\n".join(lines)) == list(words)


@example(words=["/⺀"], cells=2)
@given(words=st.lists(NARROW_WORDS, min_size=1, max_size=12), cells=st.integers(2, 90))
def test_a_command_is_broken_at_blanks_outside_quotes_only(words: list[str], cells: int) -> None:
    """If no word is wider than a line, removing the line ends restores the command."""
    shown = command_lines(command(*words), 10_000)
    lines = command_lines(command(*words), cells)
    assert all(width(line) <= cells for line in lines)
    if all(width(clean(str(command(word)))) <= cells - 4 for word in words):
        assert " ".join(line.strip().removesuffix(" \\") for line in lines) == shown[0]


def test_powershell_lines_continue_with_a_backtick() -> None:
    lines = command_lines(
        stored_line("Set-VMNetworkAdapter -VMName guest -IovWeight 100"), 30, where="hyperv"
    )
    assert lines == ("Set-VMNetworkAdapter -VMName `", "  guest -IovWeight 100")


def test_a_word_wider_than_a_line_is_split() -> None:
    assert command_lines(command("x" * 25), 10) == ("x" * 9 + "\\", "x" * 9 + "\\", "x" * 7)
    assert command_lines(command("x" * 25), 10, cut=False) == ("x" * 25,)


@pytest.mark.parametrize("cells", [20, 33, 58, 76])
@pytest.mark.parametrize(
    "word",
    [
        'ACTION=="add", SUBSYSTEM=="net", ATTR{address}=="02:00:00:00:00:01", NAME="ens224", '
        'RUN+="/usr/sbin/tool -K"',
        "/sys/devices/pci0000:00/0000:00:15.0/0000:03:00.0/net/ens192/queues/rx-0/rps_flow_cnt/"
        "and/more",
    ],
)
def test_a_word_wider_than_a_line_is_the_same_word_for_a_shell(word: str, cells: int) -> None:
    """It is broken behind blanks if it has some, and each end of a line is marked."""
    lines = command_lines(command("echo", word, "last"), cells)
    assert all(width(line) <= cells for line in lines)
    assert as_the_shell_reads("\n".join(lines)) == ["echo", word, "last"]
    assert all(line.endswith("\\") for line in lines[:-1])
    if " " in word and cells > 40:
        assert all(line.endswith((" '\\", " \\")) for line in lines[:-1]), lines


def test_control_characters_are_removed() -> None:
    (line,) = command_lines(stored_line("ip link set a\x1b[2J\u202eb up"), 80)
    assert line == "ip link set a\\x1b[2J\\u202eb up"


def test_counts() -> None:
    found = [
        finding(severity=severity)
        for severity in ("warning", "critical", "warning", "info", "critical")
    ]
    assert severity_counts_text(found) == "2 critical · 2 warnings · 1 info"
    assert severity_counts_text([]) == ""


def test_a_rule_skipped_for_two_links_counts_once() -> None:
    skipped = tuple(
        Skipped("a_rule", "guest", subject, "needs root") for subject in ("ens1", "ens2")
    )
    assert (
        checks_text(Diagnosis((), skipped))
        == f"{len(RULES) - 1} of {len(RULES)} checks ran, 1 skipped"
    )
    assert checks_text(Diagnosis((), ())) == f"{len(RULES)} of {len(RULES)} checks ran"


def test_the_number_of_checks_names_the_hosts_it_is_about() -> None:
    number = len(RULES)
    of_vm2 = (Skipped("a_rule", "vm2", "", "needs root"),)
    one = Diagnosis((), of_vm2, ("vm2",))
    assert checks_text(one, ("vm1",)) == f"vm2: {number - 1} of {number} checks ran, 1 skipped"
    assert checks_text(one, ("vm1",), brief=True).startswith("1 of 2 hosts: ")
    for since in SINCE_TEXTS:
        assert checks_text(one, (f"vm2{since}",), brief=True).startswith("1 of 1 hosts: ")
    assert all_clear(one, unread=("vm1",))[0] == (
        f"· No problems found; not read: vm1 (vm2: {number - 1} of {number} checks ran, 1 "
        f"skipped: needs root)"
    )
    both = Diagnosis((), of_vm2, ("vm1", "vm2"))
    text = f"{number - 1} of {number} checks ran, 1 skipped on vm2"
    assert checks_text(both) == text
    assert checks_text(both, why=True) == f"{text}: needs root"
    everywhere = Diagnosis(
        (), (*of_vm2, Skipped("a_rule", "vm1", "", "needs root")), ("vm1", "vm2")
    )
    assert checks_text(everywhere) == f"{number - 1} of {number} checks ran, 1 skipped"


def test_what_failed_is_read_again_and_that_is_said_of_live_hosts() -> None:
    late = replace(
        inventory(),
        unreadable={"networkmanager": Unreadable("failed", "NetworkManager did not answer")},
    )
    found = diagnose([HostFacts(snapshot_of(late, host="vm2"))])
    retried = Diagnosis(
        (), tuple(one for one in found.skipped if one.reason.startswith("NetworkManager")), ("vm2",)
    )
    assert retried.skipped and all(one.is_retried for one in retried.skipped)
    assert all_clear(retried, live=True)[0].startswith("· No problems found so far (")
    assert all_clear(retried, live=True)[0].endswith(" waiting, retry follows: NetworkManager)")
    assert passed_texts(retried, live=True)[-1].endswith(
        "(NetworkManager did not answer); retry follows"
    )
    assert "so far" not in all_clear(retried)[0] and "retry" not in all_clear(retried)[0]
    replayed = replace(snapshot_of(late, host="vm2"), is_replayed=True)
    assert not any(one.is_retried for one in diagnose([HostFacts(replayed)]).skipped)
    hidden = replace(late, unreadable={"networkmanager": Unreadable("needs_root")})
    assert not any(one.is_retried for one in diagnose([HostFacts(snapshot_of(hidden))]).skipped)
    waiting = diagnose([HostFacts(snapshot_of(without_managers(inventory())))])
    assert not any(one.is_retried for one in waiting.skipped), "it is being read, and not again"


def test_a_host_is_checked_when_its_checks_rest_on_all_of_its_inventory() -> None:
    whole = snapshot_of(inventory(), host="vm1")
    partly = snapshot_of(without_managers(inventory()), host="vm1")
    clear = Diagnosis((), (), ("vm1",))
    waiting = Diagnosis(
        (), (Skipped("a_rule", "vm1", "", "NetworkManager (D-Bus): not read yet"),), ("vm1",)
    )
    assert is_checked(clear, whole)
    assert not is_checked(None, whole)
    assert not is_checked(Diagnosis((), (), ("vm2",)), whole)
    assert not is_checked(waiting, whole), "it was made before the rest was read"
    assert not is_checked(clear, partly)


def test_the_verdict_has_a_mark_only_when_every_check_ran() -> None:
    skipped = (Skipped("a_rule", "guest", "", "needs root"),)
    assert verdict_text(Diagnosis((), ())) == ("✓ No problems found", "good")
    assert verdict_text(Diagnosis((), skipped)) == ("· No problems found", "warn")
    assert verdict_text(Diagnosis((), skipped), glyphs=ASCII)[0].startswith("i No problems")
    assert verdict_text(Diagnosis((finding(severity="warning"),), skipped)) == (
        "1 warning",
        "normal",
    )


def test_checks_passed_only_of_hosts_that_were_read() -> None:
    clear = Diagnosis((), ())
    assert passed_texts(clear) == ["All checks passed."]
    assert passed_texts(clear, ("vm2", "vm\x1b3")) == [
        "All checks of the hosts that were read passed.",
        f"Not read, so not checked: vm2, {clean('vm' + chr(27) + '3')}.",
    ]
    skipped = Diagnosis((), (Skipped("a_rule", "vm1", "", "needs root"),))
    assert passed_texts(skipped, ("vm2",), key="o") == [
        "All checks that ran passed. Press o for skipped checks.",
        "Not read, so not checked: vm2.",
        "Skipped: needs root",
    ]


def test_what_is_older_than_an_event_of_every_host_is_said_first() -> None:
    """A driver was just removed: "All checks of the hosts that were read passed", and the only host
    was not read."""
    clear, since = Diagnosis((), (), ("vm1",)), ("vm1 since its last event",)
    assert verdict_text(clear, unread=since) == (
        "· Not read: vm1 since its last event; no problems found before",
        "warn",
    )
    assert passed_texts(clear, since) == [
        "Not read, so not checked: vm1 since its last event.",
        "All checks passed before that.",
    ]
    both = Diagnosis((), (), ("vm1", "vm2"))
    assert verdict_text(both, unread=since)[0].startswith("· No problems found; not read: vm1")


def test_checks_that_wait_for_a_reading_were_not_passed_over() -> None:
    """Before the rest of the inventory has come: neither "skipped", nor "all that ran passed"."""
    number = len(RULES)
    pending = Skipped("a_rule", "vm1", "", f"NetworkManager (D-Bus): {NOT_READ_YET}")
    waiting = Diagnosis((), (pending,), ("vm1",))
    assert checks_text(waiting) == f"{number - 1} of {number} checks ran, 1 waiting"
    assert passed_texts(waiting, key="o") == [
        "The checks that could run so far passed; the others wait for what is being read.",
        f"Waiting for: NetworkManager (D-Bus): {NOT_READ_YET}",
    ]
    both = Diagnosis((), (pending, Skipped("b_rule", "vm1", "", "needs root")), ("vm1",))
    assert checks_text(both) == f"{number - 2} of {number} checks ran, 2 waiting or skipped"


def test_places_name_the_host_and_the_persistence() -> None:
    found = finding(host="alma-load-001")
    assert place_text(found.host, Fix("here", "", ())) == "on alma-load-001"
    assert (
        place_text(found.host, Fix("here", "", (), persistent=True))
        == "on alma-load-001, survives a reboot"
    )
    assert place_text(found.host, Fix("peer", "", ())) == "on the other host"
    assert (
        place_text(found.host, Fix("peer", "", (), peer="vm2", persistent=True))
        == "on vm2, survives a reboot"
    )
    assert (
        place_text(found.host, Fix("esxi", "", (), persistent=False))
        == "on the ESXi host, until the next reboot"
    )
    titled = Fix("here", "Set an address until the next reboot", (), persistent=False)
    assert place_text("vm1", titled) == "on vm1", "its title says so"


@pytest.mark.parametrize(
    ("made", "printed"),
    [
        (
            command("nmcli", "con", "mod", "ens4", "ipv4.addresses", "<ADDRESS/PREFIX>"),
            "nmcli con mod ens4 ipv4.addresses '<ADDRESS/PREFIX>'",
        ),
        (
            command("qm", "set", "<ID>", "--net<N>", "virtio=<MAC>,queues=2"),
            "qm set '<ID>' '--net<N>' 'virtio=<MAC>,queues=2'",
        ),
        (command("echo", "a <MAC> b", "<MAC>"), "echo 'a <MAC> b' '<MAC>'"),
        (Command(("echo", "3"), "/sys/x"), "echo 3 > /sys/x"),
        (Command(("echo", "3"), "/sys/class/net/a b/x"), "echo 3 > '/sys/class/net/a b/x'"),
    ],
)
def test_a_pasted_placeholder_is_not_a_redirection(
    made: Command, printed: str, tmp_path: Path
) -> None:
    assert str(made) == printed
    if made.write_to is None:
        subprocess.run(["sh", "-c", f": {printed}"], check=True, cwd=tmp_path)
        assert not list(tmp_path.iterdir())


def test_placeholders() -> None:
    lines = (
        "nmcli con mod x ipv4.addresses '<ADDRESS/PREFIX>' ipv4.gateway <GATEWAY>",
        "echo <GATEWAY> <a> <",
    )
    assert placeholders(lines) == ("<ADDRESS/PREFIX>", "<GATEWAY>")
    assert (
        filled_note(Fix("here", "", (), note="Replace <ADDRESS/PREFIX>, e.g. 192.0.2.10/24.")) == ""
    )
    assert filled_note(Fix("here", "", (), note="At the next boot.")) == "At the next boot."


def test_subjects() -> None:
    about_link, about_host = finding(host="a", subject="ens1"), finding(host="a", subject="")
    subjects = [
        [subject_text(one, several_hosts=several) for several in (False, True)]
        for one in (about_link, about_host)
    ]
    assert subjects == [["ens1", "a ens1"], ["a", "a"]]


def test_every_rule_is_in_one_family() -> None:
    listed = [rule.name for _, rules in rules_by_family() for rule in rules]
    assert sorted(listed) == sorted(RULES)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(st.lists(TEXTS | st.sampled_from(HOSTILE), min_size=1, max_size=5))
@example(list(HOSTILE))
@example(["a\\", "'", "\\'", "$'", "!", "back\\slash \\", "it's \\", '"\\', "$'\\", "\x1b\\"])
@settings(max_examples=50, deadline=None)
def test_a_shell_parses_a_command_to_its_argv(argv: list[str]) -> None:
    assert bash_words(str(command(*argv))) == argv


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nmcli con up lan", ("nmcli", "con", "up", "lan")),
        ("nmcli con up 'my lan'", ("nmcli con up 'my lan'",)),
        ("nmcli con up my\\ lan", ("nmcli con up my\\ lan",)),
        ("", ("",)),
    ],
)
def test_a_stored_line_is_split_only_at_blanks_outside_quotes(
    text: str, words: tuple[str, ...]
) -> None:
    assert stored_line(text).words == words and str(stored_line(text)) == text
