"""What guest agents tell: asked on the hypervisor on request, decoded, shown; also of guests that cannot
be watched. Answers of guests are hostile."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from nictop.hosts.agents import NO_ANSWER, agents_are_asked, ask_agents, parse_reports
from nictop.hosts.session import HostSession
from nictop.hosts.specification import Host
from nictop.model.guests.agent_facts import AgentFacts, AgentInterface, guest_key
from nictop.model.guests.agents import agent_text
from nictop.model.guests.table import guest_rows
from nictop.probe.records import Line
from nictop.recording.writer import recorded_source
from nictop.report.facts.guests import host_guests
from nictop.wire.source import SourceState
from tests.model.guests.hypervisor import WEB1, hypervisor, hypervisor_inventory

WINDOWS = {
    "guest": "web1",
    "system": "Windows Server 2022 Standard",
    "kernel": "20348",
    "is_windows": True,
    "cpus": 4,
    "forbidden": [],
    "interfaces": [
        {"name": "Ethernet", "mac": "BC:24:11:00:00:01", "addresses": ["192.0.2.55/24"]},
    ],
}
FACTS = AgentFacts(
    "Windows Server 2022 Standard",
    "20348",
    4,
    is_windows=True,
    interfaces=(AgentInterface("Ethernet", "bc:24:11:00:00:01", ("192.0.2.55/24",)),),
)


class Hypervisor:
    """A source that answers what a program prints."""

    def __init__(self, *lines: object) -> None:
        self._printed = "\n".join(json.dumps(line) for line in lines)
        self.words: list[str] = []
        self.name = "pve"

    async def program_output(self, words: Sequence[str], timeout: float) -> str:
        self.words = list(words)
        return self._printed


def session(source: object) -> HostSession:
    given: Any = source
    found = HostSession(Host("pve", "pve"))
    found._source = given
    return found


async def test_the_agents_of_running_virtual_machines_are_asked() -> None:
    source = Hypervisor(WINDOWS)
    snapshot = hypervisor()
    told = await ask_agents(session(source), snapshot)
    assert source.words[-2:] == ["db1", "web1"], "no container, and not the stopped one"
    asked_at = told[guest_key(WEB1)].asked_at
    assert asked_at is not None and told[guest_key(WEB1)] == replace(FACTS, asked_at=asked_at)
    (other,) = (facts for key, facts in told.items() if key[1] == "db1")
    assert other == AgentFacts(why=NO_ANSWER, asked_at=asked_at)


async def test_they_are_asked_while_the_host_is_recorded() -> None:
    """As on the live screens, which always keep the last minutes."""
    given: Any = Hypervisor(WINDOWS)
    recorder: Any = None
    told = await ask_agents(session(recorded_source(given, recorder)), hypervisor())
    assert not told[guest_key(WEB1)].why


async def test_a_recorded_host_is_not_asked() -> None:
    assert await ask_agents(session(object()), hypervisor()) == {}


async def test_what_they_tell_is_in_the_snapshots_from_then_on() -> None:
    one = session(Hypervisor(WINDOWS))
    one.snapshot = hypervisor()
    assert await agents_are_asked(one, one.snapshot) is True
    assert one.snapshot.agents[guest_key(WEB1)].system == "Windows Server 2022 Standard"
    one.process(Line(inventory=hypervisor_inventory()))
    assert one.snapshot.agents[guest_key(WEB1)].interfaces == FACTS.interfaces
    assert one.process(SourceState("lost", "x")).agents.keys() == one.snapshot.agents.keys()


@pytest.mark.parametrize(
    "hostile",
    [
        "no json",
        "[" * 10_000,
        '{"guest": 7}',
        '{"guest": "web1", "system": 7, "cpus": -1, "interfaces": [1, {"addresses": 3}, {}]}',
        '{"guest": "web1", "cpus": true, "interfaces": {"a": 1}, "forbidden": "x", "why": []}',
        '{"guest": "web1", "system": "\\u001b[31m\\u202e' + "x" * 9000 + '"}',
    ],
)
def test_any_line_is_facts_or_nothing(hostile: str) -> None:
    for _, facts in parse_reports(hostile):
        text = agent_text(facts)
        assert text.isprintable() and len(text) < 3000


def test_what_is_told_is_one_line() -> None:
    assert agent_text(FACTS) == (
        "Windows Server 2022 Standard, 20348 · 4 CPUs · Ethernet bc:24:11:00:00:01 192.0.2.55/24 · "
        "cannot be watched: Windows"
    )
    assert agent_text(AgentFacts(why="no channel")) == "told nothing: no channel"
    assert agent_text(AgentFacts()) == "told nothing"
    forbidding = AgentFacts("RHEL 9", forbidden=("guest-exec", "guest-file-open", "x"))
    assert agent_text(forbidding) == (
        "RHEL 9 · cannot be watched by it: guest-exec, guest-file-open not allowed"
    )


def test_addresses_of_the_agent_come_first() -> None:
    row = next(
        row
        for row in guest_rows(replace(hypervisor(), agents={guest_key(WEB1): FACTS}))
        if row.agent
    )
    first, *others = row.addresses
    assert tuple(first) == ("192.0.2.55/24", "guest agent")
    assert [one.address for one in others] == ["192.0.2.77", "192.0.2.101"]


def test_json_has_what_is_told() -> None:
    found = {
        one.name: one
        for one in host_guests(replace(hypervisor(), agents={guest_key(WEB1): FACTS})).guests
    }
    agent = found["web1"].agent
    assert agent is not None and agent.cannot_be_watched == "cannot be watched: Windows"
    assert (agent.cpus, agent.interfaces[0].addresses) == (4, ("192.0.2.55/24",))
    assert found["db1"].agent is None
