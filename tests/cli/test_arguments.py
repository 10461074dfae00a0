"""Hosts, commands, and options before and after the command."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nictop.cli import SUMMARIES
from nictop.cli.arguments import parse, whole_number
from nictop.cli.main import main
from nictop.cli.top_help import HELP_FILE, top_help
from nictop.rules import RULES
from tests.support.namespaces import ROOT


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


@pytest.mark.parametrize(
    "line", ["--sudo", "--sudo vm1", "vm1 --sudo", "--sudo show vm1", "show --sudo vm1"]
)
def test_access_options_are_valid_before_and_after_a_command(line: str) -> None:
    options = parse(line.split())
    assert (options.sudo, options.accept_new_host_keys) == (True, False)
    assert parse(line.replace("--sudo", "--accept-new-host-keys").split()).accept_new_host_keys


def test_changes_need_an_option() -> None:
    assert not parse([]).allow_changes
    assert (
        parse(["vm1", "--allow-changes"]).allow_changes
        and parse(["--allow-changes", "show"]).allow_changes
    )


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


# ------------------------------------------------------------------------ options between arguments


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (
            "fix vm1 RULE --dry-run ens224",
            {"host": "vm1", "rule": "RULE", "subject": "ens224", "dry_run": True},
        ),
        (
            "fix --dry-run vm1 --number 2 RULE",
            {"host": "vm1", "rule": "RULE", "subject": None, "number": 2},
        ),
        (
            "check vm1 --watch 5 vm2 --strict vm3",
            {"hosts": ["vm1", "vm2", "vm3"], "watch": 5.0, "strict": True},
        ),
        ("vm1 --sudo vm2", {"hosts": ["vm1", "vm2"], "sudo": True}),
        ("changes --last 3 vm1", {"host": "vm1", "last": 3}),
        ("compare a --format json b", {"results": ["a", "b"], "format": "json"}),
        ("traffic vm1 --time 3 vm2", {"client": "vm1", "server": "vm2", "time": "3"}),
        (
            "record a.nictop --time 5 vm1 --sudo vm2",
            {"file": "a.nictop", "hosts": ["vm1", "vm2"], "time": 5.0},
        ),
        ("setup vm1 queues --dry-run ens256 4", {"nic": "ens256", "number": 4, "dry_run": True}),
        (
            "setup --keep-within 9 vm1 --yes queues ens256 4",
            {"number": 4, "yes": 1, "keep_within": 9.0},
        ),
        (
            "setup vm1 queues ens256 4",
            {"yes": 0, "dry_run": False, "script": False, "keep_within": 30.0},
        ),
        ("compare -- -a b", {"results": ["-a", "b"]}),
    ],
)
def test_options_may_be_between_arguments(line: str, values: dict[str, object]) -> None:
    options = vars(parse(line.split()))
    assert {name: options[name] for name in values} == values


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "check vm1 --formt json",
            "nictop check: error: unrecognized arguments: --formt json (did you mean --format?)",
        ),
        (
            "traffic vm1 vm2 --seconds 3",
            "nictop traffic: error: unrecognized arguments: --seconds 3 "
            "(options: nictop traffic --help)",
        ),
        (
            "path vm1 vm2 --client-nic ens224",
            "nictop path: error: unrecognized arguments: --client-nic ens224 (did you mean --nic?)",
        ),
        (
            "path vm1 vm2 --server-nic=ens224",
            "nictop path: error: unrecognized arguments: --server-nic=ens224 "
            "(did you mean --peer-nic?)",
        ),
        (
            "traffic vm1 vm2 --nic ens224",
            "nictop traffic: error: unrecognized arguments: --nic ens224 "
            "(did you mean --client-nic?)",
        ),
        (
            "traffic vm1 vm2 --peer-address 192.0.2.1",
            "nictop traffic: error: unrecognized arguments: --peer-address 192.0.2.1 "
            "(did you mean --server-address?)",
        ),
        (
            "setup vm1 ip ens224 --dhcp",
            "nictop setup: error: argument JOB: invalid choice: 'ip' (did you mean address?)",
        ),
        ("fix vm1 RULE ens224 ens225", "nictop fix: error: unrecognized arguments: ens225"),
        ("fix vm1 --dry-run", "nictop fix: error: the following arguments are required: RULE"),
    ],
)
def test_the_command_with_wrong_arguments_is_named(
    line: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse(line.split())
    assert end.value.code == 2
    assert capsys.readouterr().err.endswith(f"{sentence}\n")


# --------------------------------------------------------------------------------------------- help


def printed_by(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(arguments)
    return code, capsys.readouterr().out


@pytest.mark.parametrize("name", SUMMARIES)
def test_help_prints_what_the_option_prints(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed_by("help", name, capsys=capsys)
    assert shown == printed_by(name, "--help", capsys=capsys)
    assert shown[0] == 0 and shown[1].startswith(f"usage: nictop {name} ")


WITHOUT_EXAMPLES = frozenset(("help",))
"""Commands of which the usage line says all."""


@pytest.mark.parametrize("name", [name for name in SUMMARIES if name not in WITHOUT_EXAMPLES])
def test_help_has_an_example_that_can_be_typed(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newcomer copies it; one that is refused is worse than none."""
    code, text = printed_by("help", name, capsys=capsys)
    assert code == 0 and "\nexamples:\n" in text
    examples = text.partition("\nexamples:\n")[2].partition("\n\n")[0].splitlines()
    typed = [re.split(r"  +#?", line.strip())[0] for line in examples]
    commands = [line.removeprefix("sudo ").split() for line in typed if "nictop " in line]
    assert any(words[:2] == ["nictop", name] for words in commands) or name in (
        "live",
        "completion",
    )
    for words in commands:
        if words[0] == "nictop" and not set("\\$'>|").intersection(" ".join(words)):
            options = parse(words[1:])
            for rule in filter(None, (vars(options).get(key) for key in ("rule", "explain"))):
                assert rule in RULES


@pytest.mark.parametrize("job", ["address", "mtu", "queues", "vfs", "irq-affinity", "led"])
def test_help_of_a_job_has_an_example(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed_by("help", "setup", job, capsys=capsys)[1]
    words = text.partition("\nexamples:\n")[2].split()
    assert parse(words[1:]).job == job == words[3]


def test_help_of_nictop_and_of_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed_by("help", capsys=capsys) == printed_by("--help", capsys=capsys)
    job = printed_by("help", "setup", "queues", capsys=capsys)
    assert job == printed_by("setup", "vm1", "queues", "--help", capsys=capsys)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nothing",), "invalid choice: 'nothing'"),
        (("show", "queues"), "nictop show has no jobs"),
        (("setup", "nothing"), "invalid choice: 'nothing'"),
    ],
)
def test_help_of_what_does_not_exist(
    words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("help", *words)) == 2
    streams = capsys.readouterr()
    assert streams.out == "" and sentence in streams.err


@pytest.mark.parametrize("text", ["1", "999", "0999", "00000000007"])
def test_a_whole_number(text: str) -> None:
    assert whole_number(text, 999, "a number") == int(text)


@pytest.mark.parametrize(
    "text", ["", "0", "000", "1000", "00001000", "0001999999999", "-1", "+1", "1.0", "²", "٣"]
)
def test_no_leading_zero_takes_a_number_past_its_bound(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number"):
        whole_number(text, 999, "a number")


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    for zeros in ("", "0001"):
        with pytest.raises(argparse.ArgumentTypeError):
            whole_number(zeros + "9" * 5_000, 999, "a number")


def test_a_fix_with_leading_zeros_is_not_past_the_last_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["fix", "vm1", "a_rule", "--number", "0001999999999"]) == 2
    assert "is not the number of a fix" in capsys.readouterr().err


# ------------------------------------------------------------------------- help without the parser


def test_the_help_in_the_file_is_that_of_the_parser(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At every width of a terminal, except that argparse also breaks words at hyphens."""
    monkeypatch.setenv("NO_COLOR", "1")
    words = Path(HELP_FILE).read_text("ascii").split()
    for columns in range(80, 180):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert printed_by("--help", capsys=capsys) == (0, of_parser(capsys))
    for columns in range(46, 80):
        shown = top_help(columns - 2)
        assert shown.split() == words
        wrapped = shown[shown.index("options:") : shown.index("HOST is ")]
        assert max(map(len, wrapped.splitlines())) <= columns - 2


def of_parser(capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        parse(["--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("option", ["--help", "-h", "--version", "check --explain"])
def test_short_answers_load_no_parser(option: str) -> None:
    program = (
        "import sys\nfrom nictop.cli.main import main\n"
        f"code = main({option.split()!r})\n"
        "assert code == 0 and 'argparse' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
