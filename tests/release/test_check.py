"""make release-check: each step is run, a failure does not stop the others, one table says it."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from release import check
from release.check import STEPS, Outcome, Step, done, last_words, main, table
from release.wheels import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Three steps, the first of which fails; make is a script."""
    make = tmp_path / "make"
    make.write_text(
        f'#!{sys.executable}\nimport sys\nprint("= 3 passed, 1 skipped in 2.00s =")\nsys.exit(sys.argv[-1] == "bad")\n'
    )
    make.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(check, "LOGS", tmp_path / "logs")
    made = (
        Step("first", "", ("bad",)),
        Step("second", "", ("good",)),
        Step("third", "", question=lambda: ""),
    )
    monkeypatch.setattr(check, "STEPS", made)


@pytest.mark.usefixtures("steps")
def test_a_failure_does_not_stop_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["step", "time", "result"]
    assert [row.split()[:2] for row in rows] == [["✖", "first"], ["✓", "second"], ["✓", "third"]]
    assert rows[0].endswith("3 passed, 1 skipped in 2.00s")


@pytest.mark.usefixtures("steps")
def test_named_steps_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["third", "second"]) == 0
    assert "first" not in capsys.readouterr().out
    assert main(["fourth"]) == 2


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize(
    ("names", "mark"), [((), "✖"), (("third",), "✖"), (("second", "third"), "✓")]
)
def test_a_question_about_files_is_answered_only_after_they_were_made(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    names: tuple[str, ...],
    mark: str,
) -> None:
    """`third` is about what `first` makes, which fails, or `second`, if that is run."""
    after = "second" if "second" in names else "first"
    *others, third = check.STEPS
    monkeypatch.setattr(check, "STEPS", (*others, replace(third, after=after)))
    main(names)
    row = capsys.readouterr().out.splitlines()[-1]
    assert row.split()[0] == mark
    assert row.endswith("yes" if mark == "✓" else "not known: no successful first")


def test_each_command_is_a_target_of_make() -> None:
    targets = set(" ".join(re.findall(r"^([\w -]+):", MAKEFILE, re.MULTILINE)).split())
    assert {word for step in STEPS for word in step.command} <= targets
    assert "release-check" in targets


def test_what_contributing_asks_for_is_a_step() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## Release")[2].partition("\n## ")[0]
    asked = set(re.findall(r"`make ([\w-]+)`", text)) - {"dist", "release-check"}
    assert asked <= {step.name for step in STEPS}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("==== 10 passed, 2 skipped in 3.21s ====\n", "10 passed, 2 skipped in 3.21s"),
        (
            "1 failed, 10 passed in 3.2s\nmake: *** [Makefile:3: test] Error 1\n",
            "1 failed, 10 passed in 3.2s",
        ),
        ("Success\nContracts: 9 kept, 0 broken.\n", "Contracts: 9 kept, 0 broken."),
        ("make: *** No rule\n", ""),
        (
            "0 of 29 packages\nNOT KNOWN\nmake[1]: *** [Makefile:82: audit] Error 3\n",
            "NOT KNOWN",
        ),
        (f"{'x' * 78}\n", "x" * 78),
        (f"{'x' * 79}\n", f"{'x' * 77}…"),
        ("", ""),
    ],
)
def test_what_a_step_said(text: str, expected: str) -> None:
    assert last_words(text) == expected


def test_the_table_has_minutes() -> None:
    (_, row) = table([Outcome(Step("audit", ""), True, 125.4, "0 known")])
    assert row.split() == ["✓", "audit", "2:05", "0", "known"]


def test_the_changelog_has_a_part_for_the_version_and_nothing_besides(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "_git", lambda *words: "")
    monkeypatch.setattr(check, "__version__", "9.9.9")
    (tmp_path / "docs/releases").mkdir(parents=True)
    (tmp_path / "docs/releases/9.9.9.md").write_text("")
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text("# Changelog\n\n## [Unreleased]\n\n## [9.9.9] - 2026-11-29\n\n- x\n")
    assert check.version_is_prepared() == ""
    changelog.write_text(changelog.read_text().replace("ed]\n", "ed]\n\n- y\n"))
    assert check.version_is_prepared() == "CHANGELOG.md has lines under Unreleased"
    changelog.write_text("# Changelog\n\n## [Unreleased]\n")
    assert check.version_is_prepared() == "CHANGELOG.md has no part for 9.9.9"


def test_nothing_that_is_packaged_has_a_placeholder() -> None:
    assert check.placeholders() == ""


def test_the_names_of_steps_are_not_the_arguments_of_each(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """make gives what it was called with to every make below it."""
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "given: $MAKEFLAGS $ARGS"\n')
    make.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("MAKEFLAGS", " -- ARGS=test\\ bench")
    monkeypatch.setenv("ARGS", "test bench")
    monkeypatch.setattr(check, "LOGS", tmp_path)
    assert done(Step("test", "", ("test",))).summary == "given:"
