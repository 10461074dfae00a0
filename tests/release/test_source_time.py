"""The time that everything in dist/ has: that of the commit, also where there is no git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import release.__main__ as builder

COMMITTED = 1_700_000_000
DATE = f"{COMMITTED} +0000"
PERSON = {
    f"GIT_{who}_{what}": "nobody@example"
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}
GIT = {
    "GIT_AUTHOR_DATE": DATE,
    "GIT_COMMITTER_DATE": DATE,
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    **PERSON,
}


@pytest.fixture(autouse=True)
def no_given_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    for name, value in GIT.items():
        monkeypatch.setenv(name, value)


def git(folder: Path, *words: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, check=True
    ).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the folders of this one, one file in each."""
    folder = tmp_path / "checkout"
    for name in ("nictop/a.py", "release/b.py", "docs/c.md", "README.md", "pyproject.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")
    return folder


@pytest.fixture
def export(checkout: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "export"
    folder.mkdir()
    subprocess.run(
        ["tar", "x", "-C", str(folder)], input=git(checkout, "archive", "HEAD"), check=True
    )
    return folder


def seconds_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(builder, "ROOT", folder)
    return builder.source_seconds()


def test_a_checkout_has_the_time_of_its_commit(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seconds_of(checkout, monkeypatch) == COMMITTED


def test_an_export_has_the_same_time(
    export: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a build or a test leaves behind does not change it."""
    for name in (".venv/bin/python", "dist/old.whl", "nictop/__pycache__/a.cpython-311.pyc"):
        (export / name).parent.mkdir(parents=True, exist_ok=True)
        (export / name).write_text(name)
    assert seconds_of(export, monkeypatch) == COMMITTED
    assert f"SOURCE_DATE_EPOCH={COMMITTED}" in capsys.readouterr().err


def test_an_edited_export_is_newer(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(export / "nictop" / "a.py", (COMMITTED + 60, COMMITTED + 60))
    assert seconds_of(export, monkeypatch) == COMMITTED + 60


def test_a_checkout_that_git_does_not_read(
    export: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (export / ".git").write_text("gitdir: /nowhere\n")
    assert seconds_of(export, monkeypatch) == COMMITTED
    assert "git does not tell" in capsys.readouterr().err


def test_a_machine_without_git(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for path in checkout.rglob("*"):
        os.utime(path, (COMMITTED, COMMITTED))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert seconds_of(checkout, monkeypatch) == COMMITTED


def test_a_given_time_is_used(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "17")
    assert seconds_of(export, monkeypatch) == 17
