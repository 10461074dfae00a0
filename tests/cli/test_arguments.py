"""Hosts, commands, and options before and after the command."""

from __future__ import annotations

import pytest

from nictop.cli.arguments import parse


@pytest.mark.parametrize(
    ("line", "command", "hosts"),
    [
        ("", None, []),
        ("vm1", None, ["vm1"]),
        ("vm1 pve=root@pve local", None, ["vm1", "pve=root@pve", "local"]),
        ("--interval 0.5 vm1", None, ["vm1"]),
        ("--interval=0.5 vm1", None, ["vm1"]),
        ("vm1 --interval 0.5", None, ["vm1"]),
        ("vm1 show", None, ["vm1", "show"]),
        ("-- show", None, ["show"]),
        ("show", "show", []),
        ("--ascii --interval 2 show vm1", "show", ["vm1"]),
        ("check vm1 vm2", "check", ["vm1", "vm2"]),
    ],
)
def test_hosts_and_commands(line: str, command: str | None, hosts: list[str]) -> None:
    options = parse(line.split())
    assert (options.command, options.hosts) == (command, hosts)


@pytest.mark.parametrize("line", ["--sudo", "--sudo vm1", "vm1 --sudo", "--sudo show vm1", "show --sudo vm1"])
def test_access_options_are_valid_before_and_after_a_command(line: str) -> None:
    options = parse(line.split())
    assert (options.sudo, options.accept_new_host_keys) == (True, False)
    assert parse(line.replace("--sudo", "--accept-new-host-keys").split()).accept_new_host_keys


def test_changes_need_an_option() -> None:
    assert not parse([]).allow_changes
    assert parse(["vm1", "--allow-changes"]).allow_changes and parse(["--allow-changes", "show"]).allow_changes


@pytest.mark.parametrize("line", ["", "vm1", "show", "check vm1"])
def test_access_options_are_off_by_default(line: str) -> None:
    options = parse(line.split())
    assert (options.sudo, options.accept_new_host_keys) == (False, False)


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        *(("", 1.0), ("vm1", 1.0), ("record a.nictop", 1.0)),
        *(("show", 0.2), ("check vm1", 0.2), ("report -o x.html", 0.2)),
        *(("--interval 3 show", 3.0), ("check --interval 3", 3.0), ("--interval 3", 3.0)),
    ],
)
def test_interval_between_readings(line: str, seconds: float) -> None:
    assert parse(line.split()).interval == seconds


@pytest.mark.parametrize("line", ["--help", "vm1 --help", "-h vm1", "--ascii -h"])
def test_help_always_lists_the_commands(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse(line.split())
    assert end.value.code == 0
    assert "check " in capsys.readouterr().out
