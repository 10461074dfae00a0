"""The command line as a process: its streams and its exit code."""

from __future__ import annotations

import io
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nictop
from nictop.__main__ import obstacle
from nictop.cli.form import FORM_FILE
from nictop.cli.main import main

ROOT = Path(nictop.__file__).parent.parent
NICTOP = (sys.executable, "-m", "nictop")
TIMEOUT = 60


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """nictop in a pipe."""
    return subprocess.run(
        [*NICTOP, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


def call_main(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same in this process, which is faster: for tests of messages and exit codes."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            patch.setattr(sys, name, stream)
        code = main(arguments)
    output = []
    for stream in streams[1:]:
        stream.seek(0)
        output.append(stream.read())
    return subprocess.CompletedProcess(arguments, code, *output)


# ---------------------------------------------------------------------------- the end of the process

END = """
import atexit, sys
sys.argv = ["nictop", *{arguments!r}]
from nictop.__main__ import main
print("before", flush=True)
class Last:
    def __del__(self):
        print("freed", flush=True)
kept = Last()
code = main()
atexit.register(print, "a function of atexit")
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [((), ("a function of atexit",)), (("-X", "dev"), ("a function of atexit", "freed"))],
)
@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["shwo"], 2)])
def test_objects_are_not_freed_one_by_one_at_the_end(
    arguments: list[str], code: int, options: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    """It takes some ten milliseconds. What atexit(3) is for is done, and all is written; with -X
    dev Python ends as usual, and tells what was left open."""
    command = [sys.executable, *options, "-c", END.format(arguments=arguments)]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=ROOT
    )
    assert ended.returncode == code
    assert tuple(ended.stdout.splitlines()[-len(expected) :]) == expected
    assert ("freed" in ended.stdout) == bool(options)


# -------------------------------------------------------------------------------- misspelt commands


@pytest.mark.parametrize(
    ("arguments", "word", "meant"),
    [
        (("shwo",), "shwo", "show"),
        (("chekc", "--interval", "0.5"), "chekc", "check"),
        (("check", "shwo"), "shwo", "show"),
        (("vm1", "trafic"), "trafic", "traffic"),
        (("setpu", "vm1", "address"), "setpu", "setup"),
    ],
)
def test_a_misspelt_command_is_no_host(
    arguments: tuple[str, ...], word: str, meant: str, tmp_path: Path
) -> None:
    done = call_main(*arguments, HOME=str(tmp_path))
    assert done.returncode == 2 and done.stdout == ""
    assert f'nictop: unknown command or host "{word}". Did you mean "{meant}"?' in done.stderr


@pytest.mark.parametrize(
    "known", [".ssh/config", "included", ".ssh/known_hosts", ".config/nictop/config.toml"]
)
def test_a_known_host_may_have_a_name_like_a_command(known: str, tmp_path: Path) -> None:
    texts = {
        ".ssh/config": "Host other sho?\n  User root\n",
        "included": "Host shwo\n",
        ".ssh/known_hosts": "shwo,192.0.2.1 ssh-ed25519 AAAA\n",
        ".config/nictop/config.toml": '[hosts.shwo]\naddress = "192.0.2.1"\n',
    }
    file = tmp_path / known
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(texts[known].replace("sho?", "shw?"))
    if known == "included":
        (tmp_path / ".ssh").mkdir()
        (tmp_path / ".ssh/config").write_text(f"Include {file}\nHost *\n")
    done = call_main("shwo", HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path / ".config"))
    assert "did you mean" not in done.stderr and "stdout is not a terminal" in done.stderr


@pytest.mark.parametrize(
    "word", ["root@shwo", "shwo:22", "show=vm1", "shwo.example", "show1", "vm1", "replica"]
)
def test_what_cannot_be_a_command_is_a_host(word: str, tmp_path: Path) -> None:
    assert "stdout is not a terminal" in call_main(word, HOME=str(tmp_path)).stderr


# --------------------------------------------------------------------------- files instead of hosts

DEMO = str(Path(nictop.__file__).parent / "recording" / "demo.nictop")
NOT_THERE = "cannot read nofile.nictop: No such file or directory"
FILES_FOR = {
    "": "{}",
    "show": "{}",
    "check": "{}",
    "report": "{} -o -",
    "drops": "{}",
    "metrics": "{}",
    "record": "new.nictop {}",
    "fix": "{} profile_is_generated",
    "setup": "{} led eth0 --allow-changes",
    "traffic": "vm1 {}",
    "path": "{} vm1",
}
"""Command → its arguments with a file in the place of a host."""


@pytest.mark.parametrize("command", FILES_FOR)
@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("nofile.nictop", NOT_THERE),
        ("./nofile", "nofile"),
        ("empty.nictop", "empty.nictop is empty"),
        ("folder.nictop", "folder.nictop is a directory without a recording"),
        ("cut.nictop", "cut.nictop is not a nictop recording"),
        ("notes.txt", "notes.txt"),
    ],
)
def test_a_file_that_is_no_recording_is_told_as_that(
    command: str, word: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not resolved as a host, which takes time and blames its spelling."""
    (tmp_path / "empty.nictop").touch()
    (tmp_path / "folder.nictop").mkdir()
    (tmp_path / "cut.nictop").write_bytes(Path(DEMO).read_bytes()[:3])
    (tmp_path / "notes.txt").write_text("text")
    monkeypatch.chdir(tmp_path)
    done = call_main(*f"{command} {FILES_FOR[command].format(word)}".split(), HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr and "resolve" not in done.stderr


@pytest.mark.parametrize("command", sorted({*FILES_FOR} - {"show", "check", "report"}))
def test_a_recording_is_no_host(command: str, tmp_path: Path) -> None:
    done = call_main(*f"{command} {FILES_FOR[command].format(DEMO)}".split(), HOME=str(tmp_path))
    assert done.returncode == 2 and f"{DEMO} is a recording, not a host" in done.stderr


@pytest.mark.parametrize(
    "command", ["show", "check", "report -o -", "show --connections", "check --at end", ""]
)
def test_a_recording_with_the_name_of_a_host_is_not_taken_for_the_host(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Else anybody who may write in the directory decides what is said about the host."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(DEMO, "vm1")
    assert main([*command.split(), "vm1"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "vm1 is" in captured.err and "./" in captured.err


@pytest.mark.parametrize("command", ["show", "check", "report -o -", "show --connections"])
def test_the_host_of_the_configuration_is_meant_and_not_a_file(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "nictop").mkdir()
    (tmp_path / "nictop/config.toml").write_text('[hosts.vm1]\naddress = "127.0.0.1:1"\n')
    shutil.copy(DEMO, "vm1")
    assert main([*command.split(), "vm1"]) == 3
    assert "port 1: connection refused" in "".join(capsys.readouterr())


RECORDED = (
    "show",
    "show --connections",
    "check",
    "check --format markdown",
    "report --format markdown -o -",
)


@pytest.mark.parametrize("command", [*RECORDED, "report -o -"])
@pytest.mark.parametrize("word", ["./vm1", "vm1.nictop"])
def test_output_of_a_recording_says_that_it_is_one_and_of_when(
    word: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(DEMO, word)
    main([*command.split(), word, "--at", "+10"])
    text = capsys.readouterr().out.replace("\\", "")
    assert (
        text.count("recorded 2026-11-29 17:3") >= 2
    )  # each host; a report has more than one view of it


@pytest.mark.parametrize("command", ["show", "show --connections", "check"])
def test_json_of_a_recording_has_its_time(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([*command.split(), DEMO, "--format", "json"])
    hosts = json.loads(capsys.readouterr().out)["hosts"]
    assert [int(host["recorded_at"]) // 3600 * 3600 for host in hosts] == [1795971600, 1795971600]


@pytest.mark.parametrize("word", ["root@nofile.nictop", "folder"])
def test_what_may_be_a_host_is_one(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "stdout is not a terminal" in call_main(word, HOME=str(tmp_path)).stderr


def test_the_log_without_changes_of_a_host(tmp_path: Path) -> None:
    done = call_main("changes", "vm9", HOME=str(tmp_path), XDG_STATE_HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "no changes of vm9 in the log\n")


# ----------------------------------------------------------------------------- before anything runs


@pytest.mark.parametrize(
    ("platform", "version", "sentence"),
    [
        ("linux", (3, 10, 0), ""),
        ("linux2", (3, 13, 1), ""),
        ("darwin", (3, 12, 0), "nictop: needs Linux, this system is darwin"),
        ("win32", (2, 7, 18), "nictop: needs Linux, this system is win32"),
        ("linux", (3, 9, 18), "nictop: needs Python 3.10 or newer, this is Python 3.9.18"),
        ("linux", (2, 7, 18), "nictop: needs Python 3.10 or newer, this is Python 2.7.18"),
    ],
)
def test_unsupported_systems_are_refused(
    platform: str, version: tuple[int, ...], sentence: str
) -> None:
    assert obstacle(platform, version) == sentence


@pytest.mark.parametrize(
    ("platform", "command", "runs"),
    [
        ("darwin", "demo", True),
        ("freebsd14", "replay", True),
        ("darwin", "show", False),
        ("darwin", "vm1", False),
        ("win32", "demo", False),
    ],
)
def test_recordings_are_shown_on_every_unix(platform: str, command: str, runs: bool) -> None:
    assert (obstacle(platform, (3, 12, 0), command) == "") is runs


def old_pythons() -> list[str]:
    """Interpreters older than 3.10 that are on this machine and really start (a pyenv shim may
    not)."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    folders += sorted(str(folder) for folder in Path.home().glob(".pyenv/versions/*/bin"))
    found: dict[str, str] = {}
    for name in ("python2.7", *(f"python3.{minor}" for minor in range(4, 10))):
        for interpreter in filter(None, (shutil.which(name, path=folder) for folder in folders)):
            done = subprocess.run(
                [interpreter, "-c", "print(1)"], capture_output=True, timeout=30, check=False
            )
            if done.stdout == b"1\n":
                found[name] = interpreter
                break
    return list(found.values())


def test_an_old_python_is_refused_with_one_sentence() -> None:
    interpreters = old_pythons()
    if not interpreters:
        pytest.skip("no Python older than 3.10 here")
    for interpreter in interpreters:
        done = subprocess.run(
            [interpreter, "-B", "-m", "nictop", "show"],
            capture_output=True,
            timeout=30,
            check=False,
            cwd=ROOT,
        )
        lines = done.stderr.decode().splitlines()
        assert (done.returncode, done.stdout, len(lines)) == (2, b"", 1), interpreter
        assert lines[0].startswith("nictop: needs Python 3.10 or newer, this is Python "), (
            interpreter
        )


def test_missing_libraries_are_named() -> None:
    """``-S`` removes site-packages; only the records do not need them."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "nictop", "show", "--schema"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("nictop: Python module msgspec is missing\n")


# ---------------------------------------------------------------------------------- usage and texts


def test_version() -> None:
    done = run("--version")
    form = "source checkout" if (ROOT / "pyproject.toml").exists() else "installed package"
    python = ".".join(map(str, sys.version_info[:3]))
    expected = f"nictop {nictop.__version__} ({form}, Python {python})\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_the_form_of_an_installed_nictop(tmp_path: Path) -> None:
    """A copy of the package by itself, and one with the file that the offline file and the Debian
    package have."""
    shutil.copytree(
        ROOT / "nictop", tmp_path / "nictop", ignore=shutil.ignore_patterns("__pycache__")
    )
    for form in ("installed package", "offline file"):
        done = subprocess.run(
            [*NICTOP, "--version"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=True,
            cwd=tmp_path,
        )
        assert done.stdout.startswith(f"nictop {nictop.__version__} ({form}, Python 3.")
        (tmp_path / "nictop/cli" / FORM_FILE).write_text("offline file\n")


def test_help_has_examples() -> None:
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for expected in (
        "examples:",
        "nictop show --format json",
        "--interval SECONDS",
        "--ascii",
        "--version",
    ):
        assert expected in done.stdout
    assert "--schema" in run("show", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--interval", "0.05"), "'0.05' is not a number of seconds (0.1 to 60)"),
        (("--interval", "61"), "'61' is not a number of seconds (0.1 to 60)"),
        (("--interval", "nan"), "'nan' is not a number of seconds (0.1 to 60)"),
        (("--interval", "x"), "'x' is not a number of seconds (0.1 to 60)"),
        (("show", "--interval", "-1"), "is not a number of seconds (0.1 to 60)"),
        (("show", "--format", "xml"), "invalid choice: 'xml'"),
        (("user@",), "'user@' is not a valid host: host name missing"),
        (("vm1", "--format", "json"), "unrecognized arguments: --format json"),
        (("--nonsense",), "unrecognized arguments: --nonsense"),
    ],
)
def test_wrong_usage(
    arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert expected in streams.err
    assert "Traceback" not in streams.err


@pytest.mark.parametrize("arguments", [(), ("--interval", "0.1"), ("--interval", "60", "--ascii")])
def test_the_live_screen_needs_a_terminal(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "nictop: stdout is not a terminal\n  without a terminal, use: nictop show [--format "
        "json]\n"
    )


def test_the_live_screen_needs_a_terminal_as_stdin() -> None:
    outer, inner = pty.openpty()
    try:
        done = subprocess.run(
            NICTOP,
            stdin=subprocess.DEVNULL,
            stdout=inner,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
            check=False,
            cwd=ROOT,
        )
    finally:
        os.close(inner)
        os.close(outer)
    assert done.returncode == 2
    assert done.stderr.startswith(b"nictop: stdin is not a terminal\n")


# --------------------------------------------------------------------------------------------- show


def test_show_as_json_is_this_host() -> None:
    done = run("show", "--format", "json", "--interval", "0.1")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["hello"]["hostname"] == os.uname().nodename
    assert document["hello"]["kernel"] == os.uname().release
    names = {link["name"]: link for link in document["inventory"]["links"]}
    for name in os.listdir("/sys/class/net"):
        folder = Path("/sys/class/net", name)
        if folder.is_dir():
            assert names[name]["ifindex"] == int((folder / "ifindex").read_text())
            assert names[name]["mtu"] == int((folder / "mtu").read_text())
    assert 0.05 < document["rates"]["elapsed"] < 20
    loopback = str(names["lo"]["ifindex"])
    assert loopback in document["rates"]["links"]
    for shares in document["rates"]["cpus"].values():
        assert shares.pop("split") is True
        assert sum(shares.values()) == pytest.approx(1)


def test_show_as_text_is_this_host() -> None:
    done = run("show", "--interval", "0.1")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(os.uname().nodename)
    assert any(line.split()[:2] == ["└", "lo"] for line in lines)
    assert max(len(line) for line in lines[1:]) <= 120


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("show", "--ascii"), {}),
        (("--ascii", "show"), {}),
        (("show",), {"PYTHONIOENCODING": "ascii"}),
    ],
)
def test_show_in_ascii(arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    done = run(*arguments, "--interval", "0.1", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert any(line.split()[:2] == ["`", "lo"] for line in done.stdout.splitlines())


def test_schema_needs_no_probe() -> None:
    done = run("show", "--schema")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["$ref"] == "#/$defs/ShowDocument"


@pytest.mark.parametrize(
    "arguments",
    [("show", "--schema"), ("show", "--format", "json", "--interval", "0.1"), ("--help",)],
)
def test_a_closed_pipe_is_not_an_error(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*NICTOP, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
            check=False,
            cwd=ROOT,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_reported() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*NICTOP, "show", "--schema"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
            check=False,
            cwd=ROOT,
        )
    assert done.returncode == 2
    assert done.stderr == b"nictop: cannot write to stdout: No space left on device\n"


@pytest.mark.parametrize("arguments", [("show", "--schema"), ("check", "--explain"), ("show",)])
def test_closed_stdout_is_reported(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *NICTOP, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 2
    assert done.stderr == b"nictop: stdout is closed\n"
