"""The chains of the NICs in show, reports and JSON: those of the screen."""

from __future__ import annotations

import json
from html import unescape

import pytest

from nictop.hosts.observe import Answer
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import width
from nictop.model.window import RatesWindow
from nictop.report.facts.chains import chain_documents
from nictop.report.facts.host import show_json, show_text
from nictop.report.facts.hosts import findings_about, hosts_json, hosts_text
from nictop.report.facts.stream import HostLines
from nictop.report.html.page import html_page
from nictop.report.markdown import markdown_page
from nictop.report.page import report_of
from nictop.report.redaction.redaction import redact
from nictop.rules import Diagnosis, HostFacts, diagnose
from nictop.rules.by_device import DeviceFindings
from tests.model.test_pair_chain import GUESTS, TAPS, hypervisor
from tests.support.rule_cases import base, host_facts

CASE = "kvm-guest"


@pytest.fixture(scope="module")
def host() -> HostFacts:
    return host_facts({"name": "vm1", **base(CASE)})


@pytest.fixture(scope="module")
def findings(host: HostFacts) -> DeviceFindings:
    found = findings_about(host.snapshot, diagnose([host]))
    assert found is not None
    return found


def chain_of(text: str) -> list[str]:
    """The parts of the first chain in a text."""
    lines = text.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("slot "))
    end = lines.index("Summary", begin)
    return " │ ".join(lines[begin:end]).split(" │ ")


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_its_parts_are_not_broken(host: HostFacts, findings: DeviceFindings, columns: int) -> None:
    text = show_text(host.snapshot, columns, findings)
    assert max(map(width, text.splitlines())) <= columns
    assert chain_of(text) == chain_of(show_text(host.snapshot, 200, findings))


def test_all_forms_have_the_same_chain(host: HostFacts, findings: DeviceFindings) -> None:
    chain = chain_of(show_text(host.snapshot, 200, findings))
    answers: tuple[Answer, ...] = ((host.snapshot, RatesWindow()),)
    report = report_of(answers, wall=0.0)
    assert chain[0].startswith("slot ✓ ") and chain_of(markdown_page(report)) == chain
    page = unescape(html_page(report))
    assert all(f">{part}</span>" in page for part in chain)


def test_json_names_the_rules_of_a_step(host: HostFacts, findings: DeviceFindings) -> None:
    chains = json.loads(show_json(host.snapshot, findings))["chains"]
    steps = {step["step"]: step for step in chains[0]["steps"]}
    assert list(steps)[:3] == ["slot", "driver", "name"]
    named = {rule for chain in chains for step in chain["steps"] for rule in step["rules"]}
    known = {finding.rule for found in findings.values() for finding in found}
    assert named <= known
    for chain in chains:
        for step in chain["steps"]:
            assert (step["state"] == "finding") <= bool(step["rules"])


def test_without_the_checks_there_is_no_chain(host: HostFacts) -> None:
    assert json.loads(show_json(host.snapshot))["chains"] is None
    assert "slot ✓" not in show_text(host.snapshot, 120)
    other = Diagnosis((), (), ("another",))
    answers: tuple[Answer, ...] = ((host.snapshot, RatesWindow()),)
    assert "slot ✓" not in hosts_text(answers, 120, other)
    assert json.loads(hosts_json(answers, other))["hosts"][0]["chains"] is None
    lines = HostLines("a")
    lines.note_item(host.snapshot)
    assert "chains" not in json.loads(lines.take())


def test_an_empty_host_has_none() -> None:
    empty = Snapshot.empty("nobody")
    assert json.loads(show_json(empty, {}))["chains"] == []
    assert "slot" not in show_text(empty, 80, {})


def test_bridges_and_taps_have_chains_in_json() -> None:
    host = host_facts({"name": "vm1", **base("proxmox-vlan-aware")})
    found = {
        host.snapshot.links[chain.ifindex].name: [step.step for step in chain.steps]
        for chain in chain_documents(host.snapshot, {})
        if chain.ifindex is not None
    }
    assert found["vmbr0"][:3] == ["name", "ports", "vlan"]
    assert found["tap100i0"] == ["name", "link", "port", "guest", "load"]


def test_what_is_between_two_hosts_is_in_all_forms() -> None:
    snapshots = (*GUESTS, hypervisor(*TAPS))
    answers: tuple[Answer, ...] = tuple((one, RatesWindow()) for one in snapshots)
    hops = ("vm1 eth3", "pve tap11", "bridge vmbr0", "pve tap12", "vm2 eth3")
    (pair,) = json.loads(hosts_json(answers))["pairs"]
    assert tuple(pair["hops"]) == hops and pair["is_whole"] and pair["is_up"]
    assert (pair["host"], pair["other_host"], pair["other_nic"]) == ("vm1", "vm2", "eth3")
    between = f"to vm2 eth3: {' – '.join(hops)}"
    report = report_of(answers, wall=0.0)
    assert between in hosts_text(answers, 200)
    assert between in markdown_page(report) and between in unescape(html_page(report))


def test_of_one_host_nothing_is_said_of_others(host: HostFacts) -> None:
    answers: tuple[Answer, ...] = ((host.snapshot, RatesWindow()),)
    assert json.loads(hosts_json(answers))["pairs"] == []
    assert "Other hosts" not in hosts_text(answers, 120)


def test_a_redacted_report_has_the_aliases_of_what_is_between_hosts() -> None:
    snapshots = (*GUESTS, hypervisor(*TAPS))
    answers: tuple[Answer, ...] = tuple((one, RatesWindow()) for one in snapshots)
    hidden, *_ = redact(answers, ())
    text = markdown_page(report_of(hidden, wall=0.0))
    assert " – bridge vmbr0 – " in text and "vm2" not in text
