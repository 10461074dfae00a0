"""The man page, complete and valid for man and mandoc, and the other files below share/."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nictop.cli.completion.grammar import commands
from release.manual import man_page
from release.wheels import ROOT

SECTIONS = (
    *(
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "COMMANDS",
        "FILES",
        "ENVIRONMENT",
        "EXIT STATUS",
        "EXAMPLES",
    ),
    "SEE ALSO",
)
TIMEOUT = 60


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("man") / "nictop.1"
    path.write_text(man_page(0.0))
    return path


def run(*command: str) -> subprocess.CompletedProcess[str]:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(
        command,
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "300", "MANROFFSEQ": ""},
    )  # fmt: skip


def test_man_shows_all_sections_without_a_warning(page: Path) -> None:
    done = run("man", "--warnings", "-l", str(page))
    assert (done.returncode, done.stderr) == (0, "")
    titles = [line for line in done.stdout.splitlines()[1:-1] if line and not line.startswith(" ")]
    assert tuple(titles) == SECTIONS


def test_mandoc_finds_no_fault(page: Path) -> None:
    done = run("mandoc", "-T", "lint", "-W", "style", str(page))
    assert done.stdout == ""


def test_every_command_and_option_is_described(page: Path) -> None:
    text = re.sub(r"\\f[BIR]|\\%", "", page.read_text()).replace("\\-", "-")
    for command in commands():
        first, _, job = command.name.partition(" ")
        usage = f"nictop {first} HOST {job} " if job else f"nictop {first} ".replace("  ", " ")
        assert usage in text
        for option in command.options:
            assert ", ".join(option.flags) in text


def test_shared_files_need_the_standard_library_only() -> None:
    """A wheel is built in an environment without the dependencies of nictop."""
    code = (
        f"import sys; sys.path.append({str(ROOT)!r}); from release.shared_files import "
        f"shared_files; "
        "print(*shared_files(0.0))"
    )
    done = run(sys.executable, "-I", "-S", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    assert "share/man/man1/nictop.1" in done.stdout.split()
