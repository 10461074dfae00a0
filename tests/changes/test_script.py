"""``--script``: a shell does exactly what the actions say; comments hold whatever a machine
says."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.changes.actions import Actions, actions_of
from nictop.changes.script import lasting_fixes, script
from nictop.errors import NictopError
from nictop.rules import Fix, diagnose
from nictop.rules.fixes.commands import command
from tests.support.findings import commands, finding, host_of_case
from tests.support.rule_cases import host_facts

NOW = Fix(
    "here",
    "set it now",
    commands("ethtool -L ens4 combined 4"),
    False,
    commands("ethtool -L ens4 combined 1"),
)
LASTS = Fix("here", "keep it", commands("nmcli con mod lan ethtool.channels-combined 4"), True)
SHELLS = [
    path for path in (shutil.which(name) for name in ("sh", "dash", "bash", "busybox")) if path
]
RECORD = '#!/bin/sh\nprintf "%s\\0" "${0##*/}" "$@" >>"$RECORD"\nprintf "\\n" >>"$RECORD"\n'


def test_it_has_the_commands_and_the_rest_as_comments() -> None:
    text = script("vm1", "ens4 uses one queue (multiqueue_is_not_used)", NOW, lasting=(LASTS,))
    lines = text.splitlines()
    assert lines[:3] == [
        "#!/bin/sh",
        "# ens4 uses one queue (multiqueue_is_not_used)",
        "# Run as root on vm1. Lost on reboot.",
    ]
    assert [line for line in lines if line and not line.startswith("#")] == [
        "set -eu",
        "ethtool -L ens4 combined 4",
    ]
    assert "# ethtool -L ens4 combined 1" in lines
    assert "# nmcli con mod lan ethtool.channels-combined 4" in lines


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_runs_the_very_words(shell: str, tmp_path: Path) -> None:
    """Programs of the script are replaced by ones that only write down how they were called."""
    names = ("it's", 'two "words"', "$(reboot)", "a;b", "* ?", "\\", "é网", "#", "~", "!x")
    fix = Fix(
        "here",
        "t",
        tuple(command("nmcli", "con", "mod", "x" + name, "ipv4.gateway", "") for name in names),
    )
    meant = actions_of(fix)
    assert isinstance(meant, Actions)
    for program in ("nmcli", "reboot"):
        (tmp_path / program).write_text(RECORD)
        (tmp_path / program).chmod(0o755)
    file, record = tmp_path / "script", tmp_path / "record"
    file.write_text(script("vm1", "about\n$(reboot)", fix, commands=meant.commands))
    words = [shell, "sh"] if shell.endswith("busybox") else [shell]
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "RECORD": str(record),
        "LC_ALL": "C.UTF-8",
    }
    subprocess.run([*words, str(file)], check=True, env=environment, timeout=60)
    called = [tuple(line.split("\0")[:-1]) for line in record.read_text().splitlines()]
    assert called == list(meant.actions)


@pytest.mark.parametrize(
    "hostile", ["a\nreboot", "a\rreboot", "\x1b[2J", "\u2028reboot", "網", "'$(reboot)'"]
)
def test_a_comment_stays_a_comment(hostile: str) -> None:
    text = script(
        hostile, hostile, replace(NOW, note=hostile), lasting=(replace(LASTS, title=hostile),)
    )
    bare = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert bare == ["set -eu", "ethtool -L ens4 combined 4"]
    assert all(character == "\n" or character.isprintable() for character in text)


@pytest.mark.parametrize(
    ("fix", "why"),
    [
        (Fix("esxi", "t", commands("esxtop")), "on the ESXi host"),
        (Fix("here", "t", (), note="By hand."), "By hand."),
        (
            Fix("here", "t", commands("nmcli con mod lan ipv4.addresses '<ADDRESS/PREFIX>'")),
            "<ADDRESS/PREFIX>",
        ),
        (Fix("here", "t", (command("nmcli", "con", "up", "a\nb"),)), "control characters"),
        (replace(NOW, undo=(command("nmcli", "con", "up", "a\x1bb"),)), "control characters"),
    ],
    ids=["another place", "by hand", "to be filled in", "a line more", "an undo that is obeyed"],
)
def test_what_cannot_be_a_script_is_said(fix: Fix, why: str) -> None:
    with pytest.raises(NictopError, match=why):
        script("vm1", "about", fix)


def test_what_makes_it_last_is_another_fix_of_the_same_host() -> None:
    (found,) = diagnose([host_facts(host_of_case("virtio", "multiqueue_is_not_used"))]).findings
    (lasting,) = lasting_fixes(found, found.fixes[0])
    assert lasting.persistent and "combined 4" in str(lasting.commands[0])
    assert (
        f"# {lasting.commands[0]}"
        in script("vm1", "about", found.fixes[0], lasting=(lasting,)).splitlines()
    )
    only = finding(fixes=(NOW, LASTS, Fix("esxi", "t", commands("esxtop"), True)))
    assert lasting_fixes(only, NOW) == (LASTS,)
    assert lasting_fixes(only, LASTS) == ()
