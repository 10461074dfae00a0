"""``nictop path``: its arguments and exit codes, and a real test over loopback."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.cli.commands import path
from nictop.rules.finding import Severity
from tests.cli.commands.test_report import check as matches_schema
from tests.cli.test_main import call_main, run
from tests.report.test_path import REPORT
from tests.support.findings import finding

LOOPBACK = ("path", "local", "local", "--address", "127.0.0.1", "--peer-address", "127.0.0.1")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_over_loopback() -> None:
    done = run(*LOOPBACK, "--format", "json", "--label", "monday")
    assert done.returncode == 0, done.stderr
    document, schema = json.loads(done.stdout), json.loads(call_main("path", "--schema").stdout)
    matches_schema(document, schema, schema["$defs"])
    assert [one["failure"] for one in document["directions"]] == ["", ""] and document[
        "findings"
    ] == []
    assert all(
        one["outcome"] == "answered"
        for tested in document["directions"]
        for one in tested["protocols"]
    )
    *_, starting, testing, saved = done.stderr.splitlines()
    assert (starting, testing) == ("starting a listener on both hosts", "testing both directions")
    identity = saved.removeprefix("saved: ")
    for word in (identity, identity[:6], "monday"):
        again = call_main("path", "--show", word, "--format", "json")
        assert (again.returncode, json.loads(again.stdout)) == (0, document)
    listed = json.loads(call_main("path", "--list", "--format", "json").stdout)
    schema = json.loads(call_main("path", "--list", "--schema").stdout)
    matches_schema(listed, schema, schema["$defs"])
    assert [(one["identity"], one["label"], one["test"]) for one in listed["paths"]] == [
        (identity, "monday", document)
    ]
    (head, line) = call_main("path", "--list").stdout.splitlines()
    assert head.split() == ["written", "id", "path", "result"]
    assert identity in line and line.endswith(
        "local lo 127.0.0.1 ↔ local lo 127.0.0.1 monday  ✓ No problems found (IPv4)"
    )


def test_a_result_that_cannot_be_saved_is_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(path, "_test", lambda _: REPORT)
    (tmp_path / "nictop").write_text("no directory")
    done = call_main("path", "vm1", "vm2")
    assert done.returncode == 4 and done.stdout.startswith("vm1 ens3 192.0.2.1 ↔ ")
    assert done.stderr.startswith("result cannot be saved in ")


def test_stored_results_are_kept_and_shown_with_their_findings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = finding(severity="warning")
    monkeypatch.setattr(path, "_test", lambda _: replace(REPORT, findings=(found,)))
    done = call_main("path", "vm1", "vm2")
    identity = done.stderr.split()[-1]
    again = call_main("path", "--show", identity)
    assert (again.returncode, again.stdout) == (1, done.stdout) and str(
        found.fixes[0].commands[0]
    ) in again.stdout
    call_main("path", "vm1", "vm2")
    (tmp_path / "nictop" / "paths" / "x.json").write_text("{")
    listed = call_main("path", "--list").stdout
    assert listed.count("1 warning") == 2 and "x.json: not a nictop result" in listed
    assert call_main("path", "--show", "").returncode == 2
    missing = call_main("path", "--show", "unknown")
    assert missing.returncode == 2 and 'no saved path test "unknown"' in missing.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("path", "local"), "two hosts are needed"),
        (("path", "local", "--list"), "--list takes no hosts"),
        (("path", "local", "local", "--port", "x"), '--port: "x" is not an integer'),
        (("path", "local", "local", "--port", "65536"), "--port must be 1 to 65535, not 65536"),
        (("path", "local", "local", "--port", "0"), "--port must be 1 to 65535, not 0"),
        (("path", "local", "local", "--nic", "wrong"), 'local has no NIC "wrong"'),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], message: str) -> None:
    done = call_main(*arguments)
    assert done.returncode == 2 and f"nictop: {message}" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("severity", "failed", "fail_on", "expected"),
    [
        ("warning", False, "warning", 1),
        ("warning", False, "critical", 0),
        ("info", False, "warning", 0),
        ("info", False, "info", 1),
        ("critical", True, "warning", 1),
        (None, True, "warning", 4),
        (None, False, "info", 0),
    ],
)
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch,
    severity: Severity | None,
    failed: bool,
    fail_on: str,
    expected: int,
) -> None:
    result = REPORT.result
    if not failed:
        result = replace(result, directions=(result.directions[0],) * 2)
    findings = () if severity is None else (finding(severity=severity),)
    monkeypatch.setattr(path, "_test", lambda _: replace(REPORT, result=result, findings=findings))
    done = call_main("path", "vm1", "vm2", "--fail-on", fail_on)
    assert done.returncode == expected and done.stdout.startswith("vm1 ens3 192.0.2.1 ↔ ")
