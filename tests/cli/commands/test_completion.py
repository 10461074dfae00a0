"""``nictop completion``: in the real shells, and the words that it prints."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nictop
from nictop.cli import SUMMARIES
from nictop.cli.arguments import make_parser
from nictop.cli.completion.grammar import CompletedCommand, commands, subparsers
from nictop.rules import RULES
from nictop.traffic.results.store import save_run
from tests.support.reports import full_result, stored_run
from tests.support.terminal import TerminalProgram

ROOT = Path(nictop.__file__).parent.parent
SHELLS = ("bash", "zsh", "fish")
TIMEOUT = 60
CONFIGURATION = """\
[hosts.pve]
address = "root@192.0.2.1"
[groups]
lab = ["pve", "local"]
"""
SSH_CONFIG = """\
Include more
Host vm1 vm2 # guests
  User root
host=vm3
Host *.example !vm9 "quoted"
Host vm1
"""
LABEL = "two words $(x)"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with hosts, a saved result, and in its PATH a nictop that prints what the real one has
    printed."""
    home = tmp_path_factory.mktemp("home")
    (home / ".ssh").mkdir()
    (home / ".ssh/config").write_text(SSH_CONFIG)
    (home / ".ssh/more").write_text("Host included\n")
    (home / ".config/nictop").mkdir(parents=True)
    (home / ".config/nictop/config.toml").write_text(CONFIGURATION)
    save_run(
        stored_run(1, "5d0c", full_result(5.0), label=LABEL), home / ".local/state/nictop/runs"
    )
    (home / "bin").mkdir()
    program = home / "bin/nictop"
    program.write_text('#!/bin/sh\n[ "$1" = completion ] && exec cat "$HOME/completion.$2"\n')
    program.chmod(0o755)
    (home / "monday.nictop").touch()
    for what in (*SHELLS, "hosts", "results"):
        (home / f"completion.{what}").write_text(completion(home, what))
    return home


def environment(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "PATH": f"{home}/bin:/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
        "PS1": "> ",
    }


def completion(home: Path, what: str, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "nictop", "completion", what],
        capture_output=True, text=True, timeout=TIMEOUT, check=True, cwd=ROOT,
        env={**environment(home), **more},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


def require(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    return found


def test_hosts_are_those_of_ssh_and_of_the_configuration(home: Path) -> None:
    names = (home / "completion.hosts").read_text().split()
    assert names[:6] == ["local", "pve", "lab", "vm1", "vm2", "vm3"]
    assert {"quoted", "included"} < set(names) and len(names) == len(set(names))
    assert not any(character in name for name in names for character in "*!#")


def test_a_configuration_that_is_not_valid_hides_no_hosts_of_ssh(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "nictop").mkdir()
    (tmp_path / "nictop/config.toml").write_text("[hosts\n")
    assert "vm1" in completion(home, "hosts", XDG_CONFIG_HOME=str(tmp_path)).split()


def test_results_are_labels_and_experiments(home: Path, tmp_path: Path) -> None:
    assert (home / "completion.results").read_text().splitlines() == [LABEL, "5d0c"]
    assert completion(tmp_path, "results") == ""


# ------------------------------------------------------------------------------------------ grammar


def all_words(command: CompletedCommand) -> Iterator[str]:
    yield command.name
    for option in command.options:
        yield from option.flags
        if option.argument is not None:
            yield from option.argument.words


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_have_every_command_option_and_rule(home: Path, shell: str) -> None:
    script = (home / f"completion.{shell}").read_text()
    for command in commands():
        for word in all_words(command):
            shown = word.lstrip("-") if shell == "fish" else word
            assert shown in script, word
    assert all(rule in script for rule in RULES)


def test_an_option_takes_a_value_in_all_commands_or_in_none() -> None:
    """The scripts for bash and fish have one list of them."""
    takes_value: dict[str, bool] = {}
    for command in commands():
        for option in command.options:
            for flag in option.flags:
                assert takes_value.setdefault(flag, option.argument is not None) is (
                    option.argument is not None
                ), flag


def test_every_subcommand_is_a_command() -> None:
    names = {command.name for command in commands()}
    for name in SUMMARIES:
        assert {f"{name} {job}" for job in subparsers(subparsers(make_parser(name))[name])} <= names


# --------------------------------------------------------------------------------------------- bash

BASH_CASES = {
    "nictop traf": ["traffic"],
    "nictop v": ["vm1", "vm2", "vm3"],
    "nictop vm1 pv": ["pve"],
    "nictop root@vm1 shoulder=root@pv": ["@pve"],
    "nictop --interval 2 chec": ["check"],
    "FOO=1 nictop chec": ["check"],
    "nictop check --fail-on ": ["critical", "warning", "info"],
    "nictop check --fail-on=w": ["warning"],
    "nictop check --explain profile_is_g": ["profile_is_generated"],
    "nictop check --explain --str": ["--strict"],
    "nictop show --sch": ["--schema"],
    "nictop check traf": [],
    "nictop fix vm1 profile_is_g": ["profile_is_generated"],
    "nictop fix vm1 profile_is_generated lo": [],
    "nictop fix local profile_is_generated lo": ["lo"],
    "nictop setup local que": ["queues"],
    "nictop setup --sudo local queues l": ["lo"],
    "nictop setup vm1 address --dh": ["--dhcp"],
    "nictop record vm": [],
    "nictop record new.nictop vm1 inc": ["included"],
    "nictop traffic vm1 --observe pv": ["pve"],
    "nictop traffic vm1 --client-nic ens1 vm": ["vm1", "vm2", "vm3"],
    "nictop compare 5d": ["5d0c"],
    "nictop compare two": [r"two\ words\ \$\(x\)"],
    "nictop completion z": ["zsh"],
    "nictop demo vm": [],
}


def bash_replies(home: Path, lines: list[str]) -> dict[str, list[str]]:
    """COMPREPLY for each line, with the cursor at its end, without readline."""
    asked = "".join(
        f"COMP_LINE={shlex.quote(line)} COMP_POINT=${{#COMP_LINE}} COMP_WORDS=(nictop); _nictop "
        f"nictop; "
        'printf "%s\\t" "${COMPREPLY[@]}"; echo\n'
        for line in lines
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", f". {home}/completion.bash\n{asked}"],
        capture_output=True, text=True, timeout=TIMEOUT, check=True, env=environment(home),
        cwd=home,
    )  # fmt: skip
    assert done.stderr == ""
    return {
        line: [*filter(None, reply.split("\t"))]
        for line, reply in zip(lines, done.stdout.splitlines(), strict=True)
    }


def test_bash_offers(home: Path) -> None:
    require("bash")
    assert bash_replies(home, list(BASH_CASES)) == BASH_CASES


TYPED = {
    "nictop traf\tvm1 vm\t2 --form\tj\t": ["nictop", "traffic", "vm1", "vm2", "--format", "json"],
    "nictop root@inc\t": ["nictop", "root@included"],
    "nictop check --fail-on=crit\t": ["nictop", "check", "--fail-on=critical"],
    "nictop compare two\t": ["nictop", "compare", LABEL],
    "nictop replay mon\t": ["nictop", "replay", "monday.nictop"],
    "nictop show ./mon\t": ["nictop", "show", "./monday.nictop"],
}
"""Typed in a terminal → arguments that the program would get. zsh writes an option and its value as
one word."""


def check_typed(home: Path, command: list[str], setup: list[str]) -> None:
    """Type each line; at its start a command that prints its arguments."""
    with TerminalProgram(command, home, environment(home), (200, 50)) as shell:
        for line in (*setup, "echo rea''dy"):
            shell.type(f"{line}\r")
        shell.wait_for_text("ready")
        for keys, arguments in TYPED.items():
            shell.type(f"{keys}\x01printf '<%s>' \r")
            printed = "".join(f"<{argument}>" for argument in arguments)
            shell.wait_for_text(
                printed.replace("<--format><", "<--format=") if "zsh" in command[0] else printed
            )


@pytest.mark.parametrize("with_package", [False, True], ids=["alone", "with bash-completion"])
def test_bash_in_a_terminal(home: Path, with_package: bool) -> None:
    package = Path("/usr/share/bash-completion/bash_completion")
    if with_package and not package.exists():
        pytest.skip("bash-completion is not installed")
    setup = [f". {package}"] if with_package else []
    check_typed(
        home, [require("bash"), "--norc", "--noprofile", "-i"], [*setup, ". ~/completion.bash"]
    )


# ---------------------------------------------------------------------------------------------- zsh


def test_zsh_in_a_terminal(home: Path) -> None:
    zsh = require("zsh")
    (home / "functions").mkdir(exist_ok=True)
    shutil.copy(home / "completion.zsh", home / "functions/_nictop")
    check_typed(
        home,
        [zsh, "-f", "-i"],
        ["fpath=(~/functions $fpath)", "autoload -U compinit; compinit -u -D"],
    )


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("nictop check --fail-on \t", ["critical", "warning", "info"]),
        ("nictop setup vm1 \t", ["address", "queues", "Set the number of queues"]),
        ("nictop setup local queues --k\t", ["--keep-within"]),
        ("nictop fix vm1 profile_\t\t", ["profile_is_generated"]),
        ("nictop traffic --ipv\t\t", ["IPv4 only", "IPv6 only"]),
        ("nictop \t", ["traffic test: goodput", "vm1", "included"]),
    ],
)
def test_zsh_lists(home: Path, line: str, shown: list[str]) -> None:
    zsh = require("zsh")
    (home / "functions").mkdir(exist_ok=True)
    shutil.copy(home / "completion.zsh", home / "functions/_nictop")
    with TerminalProgram([zsh, "-f", "-i"], home, environment(home), (200, 100)) as shell:
        shell.type(
            "fpath=(~/functions $fpath); autoload -U compinit; compinit -u -D; LISTMAX=1000; echo "
            "rea''dy\r"
        )
        shell.wait_for_text("ready\r\n")
        shell.type(line)
        for words in shown:
            shell.wait_for_text(words)


# --------------------------------------------------------------------------------------------- fish


NOT_FISH = ("FOO=1 nictop chec", "nictop compare two", "nictop check --explain --str")
"""Fish has no such variables before 3.1, quotes later, and takes the value of an option without
asking what it is."""


def test_fish_offers(home: Path) -> None:
    fish = require("fish")
    lines = [line for line in BASH_CASES if line not in NOT_FISH]
    asked = "".join(f"complete -C {shlex.quote(line)}; echo END\n" for line in lines)
    done = subprocess.run(
        [fish, "--no-config", "-c", f"source {home}/completion.fish\n{asked}"],
        capture_output=True, text=True, timeout=TIMEOUT, check=True, env=environment(home),
        cwd=home,
    )  # fmt: skip
    assert done.stderr == ""
    for line, block in zip(lines, done.stdout.split("END\n"), strict=False):
        offered = {re.split("[=@]", offer.partition("\t")[0])[-1] for offer in block.splitlines()}
        assert offered == {word.lstrip("@") for word in BASH_CASES[line]}, line
    assert (
        "traffic\ttraffic test" in done.stdout and "--schema\tprint the JSON schema" in done.stdout
    )
