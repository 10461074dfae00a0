"""The offline file: it unpacks completely or not at all, wherever that is possible; with a small
package instead of nictop."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from release.offline import offline_file
from release.wheels import PYTHONS

PROGRAM = b"""\
import os, sys
def main():
    print(os.path.dirname(os.path.dirname(__file__)), "%d.%d" % sys.version_info[:2], *sys.argv[1:])
    return 7
"""
PACKAGES = {
    "nictop/__init__.py": b"",
    "nictop/__main__.py": PROGRAM,
    "nictop/data/file": b"x" * 1000,
}
TIMEOUT = 60
NOT_ROOT = 65534


def make(folder: Path, version: str = "1.0", packages: dict[str, bytes] = PACKAGES) -> Path:
    path = folder / f"nictop-{version}.pyz"
    path.write_bytes(offline_file(packages, os.uname().machine, version, 1_790_000_000))
    path.chmod(0o755)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def command(path: Path, *arguments: str) -> list[str]:
    """With the Python of the tests, whatever `python3` is."""
    return [sys.executable, str(path), *arguments]


def run(words: list[str], home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd="/",
        env={"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(home.parent / "tmp"),
            **environment},
    )  # fmt: skip


def folder_of(done: subprocess.CompletedProcess[str]) -> Path:
    assert (done.returncode, done.stderr) == (7, "")
    return Path(done.stdout.split()[0])


def test_the_same_content_gives_the_same_file() -> None:
    first, second = (offline_file(PACKAGES, "x86_64", "1.0", 1_790_000_000) for _ in range(2))
    assert first == second


def test_it_unpacks_once_into_the_cache_directory(home: Path) -> None:
    path = make(home.parent)
    done = run(command(path, "a", "b c"), home)
    folder = folder_of(done)
    assert done.stdout.endswith(" a b c\n")
    assert folder.parent == home / ".cache/nictop" and folder.name.startswith("1.0-")
    assert (folder / "nictop/data/file").read_bytes() == b"x" * 1000
    assert (
        stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    )
    kept = (folder / "nictop/data/file").stat().st_ino
    assert folder_of(run(command(path), home)) == folder
    assert (folder / "nictop/data/file").stat().st_ino == kept


def test_it_starts_by_itself(home: Path) -> None:
    assert run([str(make(home.parent)), "x"], home).stdout.endswith(" x\n")


@pytest.mark.parametrize("by", ["itself", "python"])
def test_it_is_isolated_from_the_environment(home: Path, by: str) -> None:
    """Neither PYTHONPATH, nor a package of the user, nor the current directory has a part in it."""
    intruder = home / "intruder"
    intruder.mkdir()
    for name in ("nictop", "sitecustomize", "usercustomize", "zipfile"):
        (intruder / f"{name}.py").write_text("raise SystemExit('intruder')\n")
    report = (
        b"import sys\ndef main():\n    print(__file__, sys.flags.isolated, *sys.argv[1:])\n  "
        b"  return 7\n"
    )
    path = make(home.parent, packages={**PACKAGES, "nictop/__main__.py": report})
    words = {"itself": [str(path), "a"], "python": [sys.executable, "-S", str(path), "a"]}[by]
    done = run(words, home, PYTHONPATH=str(intruder), PYTHONSTARTUP=str(intruder / "zipfile.py"))
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout.split()[1:] == ["1", "a"]


@pytest.mark.parametrize("mask", ["000", "002", "077"])
def test_the_cache_is_readable_by_its_user_only(home: Path, mask: str) -> None:
    path = make(home.parent)
    folder = folder_of(
        run(["/bin/sh", "-c", f'umask {mask}; exec "$@"', "sh", *command(path)], home)
    )
    for made in (folder, folder.parent, home / ".cache"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    for made in (folder, folder.parent):
        made.chmod(0o755)
    assert folder_of(run(command(path), home)) == folder
    assert (
        stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    )


@pytest.mark.parametrize(
    ("mode", "is_used"), [(0o777, False), (0o757, False), (0o1777, True), (0o755, True)]
)
def test_a_directory_that_others_can_replace_is_left_out(
    home: Path, mode: int, is_used: bool
) -> None:
    path = make(home.parent)
    (home.parent / "tmp").mkdir()
    (home / ".cache/nictop").mkdir(parents=True, mode=0o700)
    (home / ".cache").chmod(mode)
    expected = home / ".cache/nictop" if is_used else home.parent / f"tmp/nictop-{os.geteuid()}"
    assert folder_of(run(command(path), home)).parent == expected


def test_xdg_cache_home(home: Path, tmp_path: Path) -> None:
    path = make(home.parent)
    assert (
        folder_of(run(command(path), home, XDG_CACHE_HOME=str(tmp_path / "c"))).parent
        == tmp_path / "c/nictop"
    )
    assert (
        folder_of(run(command(path), home, XDG_CACHE_HOME="relative")).parent
        == home / ".cache/nictop"
    )


def test_many_first_starts_at_once(home: Path) -> None:
    path = make(home.parent)
    starts = [
        subprocess.Popen(
            command(path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"HOME": str(home)},
            text=True,
        )
        for _ in range(8)
    ]
    found = set()
    for start in starts:
        output, errors = start.communicate(timeout=TIMEOUT)
        assert (start.returncode, errors) == (7, "")
        found.add(output.split()[0])
    (folder,) = found
    assert os.listdir(home / ".cache/nictop") == [Path(folder).name]


def test_a_directory_that_cannot_be_used_is_left_out(home: Path) -> None:
    """A file in its place, and a directory that others can write to: the code in it could be
    anybody's."""
    path = make(home.parent)
    (home.parent / "tmp").mkdir()
    expected = home.parent / f"tmp/nictop-{os.geteuid()}"
    (home / ".cache").touch()
    assert folder_of(run(command(path), home)).parent == expected
    (home / ".cache").unlink()
    (home / ".cache/nictop").mkdir(parents=True)
    (home / ".cache/nictop").chmod(0o777)
    assert folder_of(run(command(path), home)).parent == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_directory_of_another_user_is_left_out(home: Path) -> None:
    path = make(home.parent)
    (home.parent / "tmp").mkdir()
    (home / ".cache/nictop").mkdir(parents=True)
    os.chown(home / ".cache/nictop", NOT_ROOT, NOT_ROOT)
    assert folder_of(run(command(path), home)).parent == home.parent / "tmp/nictop-0"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("options", ["ro", "noexec"])
def test_a_home_that_is_read_only_or_noexec(home: Path, options: str) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    path = make(home.parent)
    (home.parent / "tmp").mkdir()
    mounted = f'mount -t tmpfs -o {options} none "$HOME" && exec "$@"'
    done = run(["unshare", "--mount", "sh", "-c", mounted, "sh", *command(path)], home)
    if done.returncode not in (7, 2):
        pytest.skip(f"mounts are not allowed here: {done.stderr}")
    assert folder_of(done).parent == home.parent / "tmp/nictop-0"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_without_a_writable_directory_it_says_so(home: Path) -> None:
    path = make(home.parent)
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    mounts = "for place in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o noexec none $place; done"
    words = ["unshare", "--mount", "sh", "-c", f'cd /; exec 3<"{path}"; {mounts}; exec "$@"', "sh"]
    python = os.path.realpath(sys.executable)  # the environment of the tests may be in /tmp
    done = run([*words, python, "/proc/self/fd/3"], home, HOME="/proc", TMPDIR="")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(
        "nictop: no directory to unpack into (set XDG_CACHE_HOME to one): /proc/.cache/nictop: "
    )
    assert "/tmp/nictop-0: mounted with noexec" in done.stderr


def test_a_start_that_was_killed_leaves_nothing_that_is_used(home: Path) -> None:
    path = make(home.parent)
    rest = home / ".cache/nictop/.unpack-killed"
    (rest / "nictop").mkdir(parents=True)
    (home / ".cache/nictop").chmod(0o700)
    os.utime(rest, (0, 0))
    assert folder_of(run(command(path), home)).name.startswith("1.0-")
    assert not rest.exists()


def test_unused_versions_are_removed_and_running_ones_kept(home: Path) -> None:
    old, running, recent = (
        folder_of(run(command(make(home.parent, version)), home))
        for version in ("0.7", "0.8", "0.9")
    )
    for folder in (old, running):
        os.utime(folder, (0, 0))
    lock = os.open(running, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        new = folder_of(run(command(make(home.parent)), home))
    finally:
        os.close(lock)
    assert {entry.name for entry in new.parent.iterdir()} == {running.name, recent.name, new.name}


def pythons() -> dict[str, str]:
    """Version → interpreter on this machine that really starts."""
    folders = os.environ["PATH"].split(os.pathsep)
    folders += sorted(str(folder) for folder in Path.home().glob(".pyenv/versions/*/bin"))
    found: dict[str, str] = {}
    for version in ("2.7", *(f"3.{minor}" for minor in range(6, 15))):
        for path in filter(
            None, (shutil.which(f"python{version}", path=folder) for folder in folders)
        ):
            asked = [
                path,
                "-c",
                "import sys; print(sys.executable)",
            ]  # `path` may be a script that starts it
            done = subprocess.run(
                asked, capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
            if done.returncode == 0:
                found.setdefault(version, done.stdout.strip())
    return found


def test_every_python_runs_it_or_finds_one_that_does(home: Path) -> None:
    path = make(home.parent)
    supported = {f"{major}.{minor}" for major, minor in PYTHONS}
    (home / "bin").mkdir()
    (home / "bin/python3.10").symlink_to(sys.executable)
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    for version, interpreter in pythons().items():
        done = run([interpreter, str(path)], home, PATH=str(home / "bin"))
        assert done.stdout.split()[1:] == [version if version in supported else own], done.stderr
        if version not in supported:
            done = run([interpreter, str(path)], home, PATH="/nowhere")
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr.startswith(
                f"nictop: needs Python 3.10 to 3.14, this is Python {version}."
            )


def test_without_a_python_the_shell_says_so(home: Path) -> None:
    done = run(["/bin/sh", str(make(home.parent))], home, PATH="/nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "nictop: needs Python 3.10 to 3.14, and there is no python3 in PATH\n"
