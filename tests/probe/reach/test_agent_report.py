"""The report of several guest agents at once: what each tells, and why one tells nothing."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nictop.hosts.agents import parse_reports
from nictop.probe.reach import agent_report
from nictop.probe.reach.agent_client import Agent, AgentGone
from nictop.probe.reach.problem import GuestProblem
from nictop.wire.guests.programs import program_words
from tests.support.guest_agent import GuestAgent, skip_without_agent
from tests.wire.guests.test_agent_client import CPUS, INFO, INTERFACES, WINDOWS, FakeAgent


def test_what_a_windows_guest_tells() -> None:
    answers = {
        "guest-info": INFO,
        "guest-get-osinfo": {**WINDOWS, "kernel-release": "20348"},
        "guest-get-vcpus": CPUS,
        "guest-network-get-interfaces": INTERFACES,
    }
    assert agent_report.told_by(Agent(FakeAgent(answers))) == {
        "system": "Windows Server 2022 Standard",
        "kernel": "20348",
        "is_windows": True,
        "cpus": 4,
        "forbidden": [],
        "interfaces": [
            {"name": "Ethernet", "mac": "52:54:00:12:34:56", "addresses": ["192.0.2.5/24"]}
        ],
    }


@pytest.mark.parametrize("hostile", [None, [], {}, 7, "x", [[1]], [{"ip-addresses": [3, {}]}]])
def test_any_answer_of_a_guest_is_a_report(hostile: object) -> None:
    names = ("guest-info", "guest-get-osinfo", "guest-get-vcpus", "guest-network-get-interfaces")
    told = agent_report.told_by(Agent(FakeAgent(dict.fromkeys(names, hostile))))
    line = json.dumps({**told, "guest": "web1"})
    ((name, facts),) = parse_reports(line)
    assert name == "web1" and not facts.is_windows


@pytest.mark.parametrize(
    "error", [GuestProblem("no channel"), AgentGone("no answer"), OSError(2, "gone")]
)
def test_why_a_guest_tells_nothing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(name: str) -> None:
        raise error

    monkeypatch.setattr(agent_report, "open_agent", fail)
    told = agent_report.report("nictop-guest")
    assert told["guest"] == "nictop-guest" and told["why"]


@contextmanager
def silent_guests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All but ``web1`` do not answer until the end."""
    end = threading.Event()

    def report(name: str) -> dict[str, Any]:
        if name != "web1":
            end.wait(60)
        return {"guest": name}

    monkeypatch.setattr(agent_report, "report", report)
    yield
    end.set()


def test_one_that_does_not_answer_does_not_keep_the_others(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with silent_guests(monkeypatch):
        agent_report.Reports(["db1", "web1"]).run(0.5)
        lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert lines == [
        {"guest": "web1"},
        {"guest": "db1", "why": "it has not answered within 0.5 s"},
    ]


def test_a_real_agent_by_the_program_that_a_hypervisor_runs(tmp_path: Path) -> None:
    skip_without_agent()
    agent = GuestAgent(tmp_path / "guest")
    try:
        words = [*program_words("agent_report"), "30", str(agent.socket), "nictop-guest"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    finally:
        agent.stop()
    told = dict(parse_reports(done.stdout))
    assert set(told) == {str(agent.socket), "nictop-guest"}, done.stderr
    real = told[str(agent.socket)]
    assert not real.why and real.system and real.cpus and not real.is_windows
    assert "no running guest nictop-guest" in told["nictop-guest"].why
