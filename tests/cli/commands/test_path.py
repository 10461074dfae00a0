"""``nictop path``: its arguments and exit codes, and a real test over loopback."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from nictop.cli.commands import path
from nictop.rules.finding import Severity
from tests.cli.commands.test_report import check as matches_schema
from tests.cli.test_main import call_main, run
from tests.report.test_path import REPORT
from tests.support.findings import finding

LOOPBACK = ("path", "local", "local", "--address", "127.0.0.1", "--peer-address", "127.0.0.1")


def test_over_loopback() -> None:
    done = run(*LOOPBACK, "--format", "json")
    assert done.returncode == 0, done.stderr
    document, schema = json.loads(done.stdout), json.loads(call_main("path", "--schema").stdout)
    matches_schema(document, schema, schema["$defs"])
    assert [way["failure"] for way in document["ways"]] == ["", ""] and document["findings"] == []
    assert all(one["outcome"] == "answered" for way in document["ways"] for one in way["protocols"])
    assert done.stderr.splitlines()[-2:] == ["starting a listener on both hosts", "testing both directions"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("path", "local"), "two hosts are needed"),
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
    monkeypatch: pytest.MonkeyPatch, severity: Severity | None, failed: bool, fail_on: str, expected: int
) -> None:
    result = REPORT.result
    if not failed:
        result = replace(result, directions=(result.directions[0],) * 2)
    findings = () if severity is None else (finding(severity=severity),)
    monkeypatch.setattr(path, "_test", lambda _: replace(REPORT, result=result, findings=findings))
    done = call_main("path", "vm1", "vm2", "--fail-on", fail_on)
    assert done.returncode == expected and done.stdout.startswith("vm1 ens3 192.0.2.1 ↔ ")
